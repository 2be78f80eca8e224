"""Probabilities of one class and whether it was that class enter; pictures of how far they can be trusted leave.

Those of a model are out-of-bag, and cross-fitted if the model calibrates: no row has corrected itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelforest.checks import check_whole
from kernelforest.displays.canvas import BLUE, SKY, axes, check_model, plain
from kernelforest.frames import as_table
from kernelforest.labels import class_number, read_weights
from kernelforest.reliability import Reliability, read_probabilities, reliability

Floats = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class ReliabilityDisplay:
    """Observed shares against probabilities of one class; on the diagonal, probabilities mean what they say."""

    reliability: Reliability
    name: str = ""  # of the class
    out_of_bag: bool = False
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_model(cls, model: Any, label: Any = None, *, bins: int = 10) -> Self:
        """Compare out-of-bag probabilities of a fitted model, cross-fitted if it calibrates, with the labels.

        Rows are taken to be independent; with groups the intervals are too short.

        Parameters
        ----------
        model : KernelForestClassifier
            Fitted, tuned or not.
        label : optional
            The class; the last of `classes_` if left out.
        bins : int
            How many, of about equal weight.

        """
        rows = RowsOfOneClass.of(model, label)
        return cls(reliability(rows.p, rows.hit, rows.weight, bins), rows.name, out_of_bag=True)

    @classmethod
    def from_predictions(cls, p: ArrayLike, hit: ArrayLike, weight: ArrayLike | None = None, *, bins: int = 10) -> Self:
        """Compare probabilities of one class for held-out rows with whether they are of that class.

        >>> found = ReliabilityDisplay.from_predictions([0.2, 0.2, 0.2, 0.2, 0.2], [0, 1, 0, 0, 0])
        >>> found.reliability.share.tolist()
        [0.2]
        """
        return cls(reliability(p, hit, read_weights(weight, np.size(p), "weight"), bins))

    def frame(self) -> Any:
        """One line per bin."""
        return self.reliability.frame()

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw shares with 95 % intervals on `ax`; `kw` goes to `ax.errorbar`.

        Of a class that is rare, or common, only that part of the diagonal is drawn where something is.
        """
        ax = axes(ax, (4.6, 4.6))
        found = self.reliability
        ends = _part(min(found.p.min(), found.low.min()), max(found.p.max(), found.high.max()))
        ax.plot(ends, ends, color="black", linestyle=":", linewidth=1.0, zorder=1, label="calibrated")
        reach = np.maximum([found.share - found.low, found.high - found.share], 0.0)
        style = {"color": BLUE, "ecolor": "black", "fmt": "o", "markersize": 5.5, "elinewidth": 0.9}
        style |= {"capsize": 2.0, "zorder": 3, "label": "observed, with 95 % intervals"}
        ax.errorbar(found.p, found.share, yerr=reach, **(style | kw))
        text = f"slope {_with_error(found.slope, found.slope_error)}\n"
        text += f"intercept {_with_error(found.intercept, found.intercept_error)}"
        ax.text(0.97, 0.03, text, transform=ax.transAxes, ha="right", va="bottom", fontsize="small", zorder=4)
        margin = 0.02 * (ends[1] - ends[0])
        ax.set_xlim(ends[0] - margin, ends[1] + margin)
        ax.set_ylim(ends[0] - margin, ends[1] + margin)
        ax.set_aspect("equal", adjustable="box")
        ax.set_xlabel(_name_of_probability(self.name, self.out_of_bag))
        ax.set_ylabel("observed share")
        ax.legend(loc="upper left", fontsize="small", frameon=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class SharpnessDisplay:
    """How far the probabilities of one class are from its base rate: of calibrated ones, the further the better."""

    share: Floats  # (n_bins,) of the rows
    edges: Floats  # (n_bins + 1,)
    base_rate: float | None = None
    name: str = ""  # of the class
    out_of_bag: bool = False
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_model(cls, model: Any, label: Any = None, *, bins: int = 20) -> Self:
        """Count out-of-bag probabilities of a fitted model, cross-fitted if it calibrates.

        Parameters
        ----------
        model : KernelForestClassifier
            Fitted, tuned or not.
        label : optional
            The class; the last of `classes_` if left out.
        bins : int
            How many, of equal width.

        """
        rows = RowsOfOneClass.of(model, label)
        base_rate = float(np.average(rows.hit, weights=rows.weight))
        return cls(*_histogram(rows.p, rows.weight, bins), base_rate, rows.name, out_of_bag=True)

    @classmethod
    def from_predictions(
        cls, p: ArrayLike, *, weight: ArrayLike | None = None, base_rate: float | None = None, bins: int = 20
    ) -> Self:
        """Count probabilities of one class; rows may have weights.

        >>> SharpnessDisplay.from_predictions([0.1, 0.2, 0.9, 1.0], bins=2).share.tolist()
        [0.5, 0.5]
        """
        chance = read_probabilities(p)
        if base_rate is not None and not (isinstance(base_rate, Real) and 0.0 <= base_rate <= 1.0):
            raise ValueError(f"base_rate must be a number from 0 to 1, got {base_rate!r}")
        given = read_weights(weight, len(chance), "weight")
        return cls(*_histogram(chance, np.ones(len(chance)) if given is None else given, bins), base_rate)

    def frame(self) -> Any:
        """One line per bin."""
        return as_table({"low": self.edges[:-1], "high": self.edges[1:], "share": self.share})

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw on `ax`; `kw` goes to `ax.stairs`."""
        ax = axes(ax, (5.0, 3.4))
        style = {"fill": True, "facecolor": SKY, "edgecolor": BLUE, "linewidth": 1.0} | kw
        ax.stairs(self.share, self.edges, **style)
        if self.base_rate is not None:
            ax.axvline(self.base_rate, color="black", linestyle="--", linewidth=1.2, label=f"base rate {self.base_rate:.3g}")
            ax.legend(loc="best", fontsize="small")
        shown = self.edges if self.base_rate is None else np.append(self.edges, self.base_rate)
        ax.set_xlim(*_part(shown.min(), shown.max()))
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel(_name_of_probability(self.name, self.out_of_bag))
        ax.set_ylabel("share of rows")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class RowsOfOneClass(NamedTuple):
    """Probabilities of one class for rows that some tree did not draw."""

    p: Floats  # (n_rows,)
    hit: NDArray[np.bool_]  # (n_rows,)
    weight: Floats  # (n_rows,)
    name: str

    @classmethod
    def of(cls, model: Any, label: Any) -> Self:
        """Those of a fitted model; with a prior, rows are weighed so that classes have its shares."""
        check_model(model, ", and use from_predictions for other models")
        classes = model.classes_.tolist()
        number = len(classes) - 1 if label is None else class_number(label, classes)
        rows = model._out_of_bag()
        weight = rows.weights(model.forest_, model._population)
        seen = weight > 0
        if not seen.any():
            raise ValueError("every tree drew every row, so nothing is out-of-bag: use more trees or rows")
        hit = model.forest_.targets.labels[seen] == number
        return cls(read_probabilities(rows.proba[seen, number]), hit, weight[seen], str(classes[number]))


def _part(low: float, high: float) -> tuple[float, float]:
    """The part of the unit interval to draw: all, or from one end to the next twentieth if the rest would be empty.

    >>> _part(0.01, 0.12), _part(0.3, 0.6), _part(0.93, 0.99)
    ((0.0, 0.15), (0.0, 1.0), (0.9, 1.0))
    """
    if high < 0.5:
        return 0.0, max(1, ceil(high * 20)) / 20
    if low > 0.5:
        return min(19, floor(low * 20)) / 20, 1.0
    return 0.0, 1.0


def _histogram(p: Floats, weight: Floats, bins: int) -> tuple[Floats, Floats]:
    edges = np.linspace(*_part(p.min(), p.max()), check_whole("bins", bins, 1) + 1)
    counts = np.histogram(p, edges, weights=weight)[0]
    return counts / weight.sum(), edges


def _name_of_probability(name: str, out_of_bag: bool) -> str:
    return ("out-of-bag " if out_of_bag else "") + "probability" + (f" of class {plain(name)}" if name else "")


def _with_error(value: float, error: float) -> str:
    return f"{round(value, 2) + 0.0:.2f} (s.e. {error:.2f})"  # no minus before a zero
