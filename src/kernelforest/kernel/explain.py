"""One estimate explained: a point enters; the training rows behind it leave, with what each of them adds to it.

Leaves of the training rows are compared with those of the point, tree by tree, so no index of the forest is made, and memory
is a few numbers per row. Fills other than "all" also need what every tree drew, which the kernel keeps once it was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine.pairs import Company, leave_each_out, tally_company, weigh_company
from kernelforest.checks import check_whole
from kernelforest.compiling import announced_compiling
from kernelforest.frames import as_table, beside
from kernelforest.kernel.points import opened, read_point
from kernelforest.kernel.shape import falls
from kernelforest.kernel.training import Show, Training, shown_columns
from kernelforest.labels import class_number

if TYPE_CHECKING:  # the methods of the kernel call this module
    from kernelforest.kernel.product import ForestKernel

_SHOWN = 10  # rows of a printed table
_OTHER = "a weighted average of y_train, not what the model predicts"
_NARROWEST = 2  # features named in a sentence


@dataclass(frozen=True, repr=False, eq=False)
class VotingPoints:
    """The training rows with a weight at x0, heaviest first; rows of equal weight in the order of training.

    The sum of weight times label (as a number) is the estimate at x0.
    """

    rows: NDArray[np.intp]  # (n_points,) numbers of training rows
    weight: NDArray[np.float64]  # (n_points,) smoother weights W, sum one
    share: NDArray[np.float64]  # (n_points,) of trees in which the row is in the leaf of x0, drawn or not
    # (n_points,) class labels, or values of a regression: (n_points, n_outputs) if several, NaN if unknown
    label: NDArray[Any]
    held: Any  # (n_points, n_features) `features`, of a sparse training table as a sparse one
    names: tuple[str, ...]  # of the features
    x0: NDArray[np.float64]  # (n_features,)
    n_rows: int  # training rows, voting or not
    show: Show | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"VotingPoints({len(self):,} of {self.n_rows:,} training rows, {len(self.names)} features)"

    @property
    def features(self) -> NDArray[np.float64]:
        """Numbers as in training, (n_points, n_features); levels by place."""
        return opened(self.held)

    def places(self, features: Sequence[int]) -> NDArray[np.float64]:
        """Numbers of some features only, given by their number."""
        return opened(self.held[:, list(features)])

    @property
    def effective_neighbours(self) -> float:
        """One over the sum of squared weights."""
        return float(1.0 / (self.weight**2).sum())

    def heaviest(self, mass: float = 0.8) -> int:
        """The smallest number of rows that hold this share of the weight."""
        check_mass(mass)
        reached = np.searchsorted(self.weight.cumsum(), mass - 1e-12)  # sums of weights are rounded
        return min(int(reached) + 1, len(self))

    def frame(self) -> Any:
        """One line per row: a pandas data frame, or a dict of columns where pandas is not installed."""
        columns = {"row": self.rows, "weight": self.weight, "share": self.share, "label": _column(self.label)}
        return as_table(beside(columns, self.names, shown_columns(self.features, self.show)))


@dataclass(frozen=True, repr=False, eq=False)
class Explanation:
    """Where one estimate comes from: a sentence if printed, and the most influential rows as a table."""

    points: VotingPoints
    estimate: float  # p of `target`, or the value of a regression
    target: Any  # the class whose probability this is, or None
    classes: tuple[Any, ...]  # empty for a regression
    mass: float  # share of the weight that `n_heaviest` rows hold
    influence: NDArray[np.float64]  # (n_points,) change of the estimate without that row, in the order of `points`
    narrowest: tuple[str, ...]  # features along which K falls fastest, in units of their spread
    corrected: float | None = None  # the estimate after calibration and prior, where the forest has them
    how: str = ""  # what was done to it: calibrated, for the prior
    repeats: bool = True  # whether the forest, as far as one knows, predicts such averages; boosted trees do not

    @property
    def n_heaviest(self) -> int:
        """How many training rows hold `mass` of the weight."""
        return self.points.heaviest(self.mass)

    @property
    def n_agreeing(self) -> int:
        """How many of those are of the class `target`; none in a regression."""
        return sum(label == self.target for label in self.points.label[: self.n_heaviest].tolist()) if self.classes else 0

    def frame(self, most: int | None = None) -> Any:
        """The rows by their influence, largest first: row, label, weight, share of trees, influence; at most so many.

        Influence is how much the estimate changes when the row is taken out of the leaves. The trees stay as they are: this
        is exact for the average that was computed, and does not say what another forest, grown without the row, would say.
        """
        if most is not None:
            check_whole("most", most, 0)
        order = np.argsort(-np.abs(self.influence), kind="stable")[:most]
        return as_table(
            {
                "row": self.points.rows[order],
                "label": self.points.label[order],
                "weight": self.points.weight[order],
                "share": self.points.share[order],
                "influence": self.influence[order],
            }
        )

    def __str__(self) -> str:
        return f"{self._head()}: {'; '.join([self._rows(), *self._shape()])}"

    def __repr__(self) -> str:
        return f"Explanation({self})"

    def _repr_html_(self) -> str:
        table = self.frame(_SHOWN)
        head = "".join(f"<th>{escape(name)}</th>" for name in table)
        lines = zip(*(list(table[name]) for name in table), strict=True)
        body = "".join("<tr>" + "".join(f"<td>{escape(_cell(v))}</td>" for v in line) + "</tr>" for line in lines)
        return f"<p>{escape(str(self))}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _head(self) -> str:
        if not self.classes:
            return f"value = {self.estimate:.4g}" + ("" if self.repeats else f" ({_OTHER})")
        p = _probability(self.estimate) + ("" if self.repeats else f" ({_OTHER})")
        if self.corrected is not None and _probability(self.corrected) != p:
            p = f"{_probability(self.corrected)} ({self.how}; the weighted average is {p})"
        return f"p = {p}" if self._is_positive() else f"p({self.target}) = {p}"

    def _rows(self) -> str:
        points, n = self.points, self.n_heaviest
        holding = f"{n:,} of {points.n_rows:,} training rows hold {100 * self.mass:g} % of the weight"
        if self.classes:
            return (
                f"{holding}, {self.n_agreeing:,} of them {'positive' if self._is_positive() else f'of class {self.target}'}"
            )
        values = points.label[:n]
        return f"{holding}, with values from {values.min():.4g} to {values.max():.4g}"

    def _shape(self) -> list[str]:
        parts = [f"effective neighbours {self.points.effective_neighbours:,.0f}"]
        return parts + ([f"the kernel is narrowest in {', '.join(self.narrowest)}"] if self.narrowest else [])

    def _is_positive(self) -> bool:
        """Whether this is the second of the classes 0 and 1, False and True or -1 and 1: it needs no name."""
        return self.classes in ((0, 1), (-1, 1)) and self.target == 1


def voting_points(kernel: ForestKernel, x0: Any, aggregate: str, fill: str) -> VotingPoints:
    """Find the training rows that vote at x0."""
    return _vote(kernel, x0, aggregate, fill)[0]


def explain(kernel: ForestKernel, x0: Any, label: Any, aggregate: str, fill: str, meant: bool, mass: float) -> Explanation:
    """Say where the estimate at x0 comes from; it is calibrated if it is the one that is meant."""
    check_mass(mass)
    training = kernel._training
    if not training.values.shape[1]:
        raise ValueError("y_train was not given to from_model, so there is no estimate to explain")
    if training.classes is None and training.values.shape[1] > 1:
        raise ValueError(
            f"explain needs one target, the forest has {training.values.shape[1]}: give from_model one column of y_train"
        )
    points, company = _vote(kernel, x0, aggregate, fill)
    shares = points.weight @ training.values[points.rows]
    correct = training.correct if training.correct is not None and training.correct.words(meant) else None
    corrected = shares if correct is None else correct(shares[None], meant)[0]
    target = _target(training, label, corrected)
    y = training.values[:, target]
    if aggregate == "mean":
        without = _means_without_each(company, y, training.factors)[points.rows]
    else:
        without = _ratios_without_each(points.weight, y[points.rows])
    without = np.where(np.isnan(without), _shares_without_each(training, y)[points.rows], without)
    return Explanation(
        points,
        float(shares[target]),
        None if training.classes is None else training.classes[target : target + 1].tolist()[0],
        () if training.classes is None else tuple(training.classes.tolist()),
        float(mass),
        without - shares[target],
        narrowest_features(kernel, x0)[:_NARROWEST],
        None if correct is None else float(corrected[target]),
        "" if correct is None else correct.words(meant),
        not training.differs,
    )


def _target(training: Training, label: Any, shares: NDArray[np.float64]) -> int:
    """The column of a class that a user names, or else of the second of two, of the most probable of several."""
    if label is None:
        return int(shares.argmax()) if len(shares) > 2 else len(shares) - 1
    if training.classes is None:
        raise ValueError(f"label must be left out: the forest has no classes; got {label!r}")
    return class_number(label, training.classes.tolist())


def narrowest_features(kernel: ForestKernel, x0: Any) -> tuple[str, ...]:
    """Names of the features along which K falls, fastest first: mean absolute derivative, per standard deviation."""
    steep = np.nan_to_num(falls(kernel._training, x0, kernel._steps))
    return tuple(kernel._training.names[j] for j in np.argsort(-steep, kind="stable") if steep[j] > 0)


def check_mass(mass: Any) -> None:
    """Check a share of the weight."""
    if not isinstance(mass, int | float | np.number) or isinstance(mass, bool) or not 0 < mass <= 1:
        raise ValueError(f"mass must be above 0 and at most 1, got {mass!r}")


def _vote(kernel: ForestKernel, x0: Any, aggregate: str, fill: str) -> tuple[VotingPoints, Company]:
    """The voting points of x0, and who is with it in its leaves."""
    training = kernel._training
    training.matrix(slice(1))  # says so if the features are not known
    table, numbers = read_point(training, x0)
    counts = np.empty((0, 0), np.int32) if fill == "all" else kernel._counts
    mine = np.ascontiguousarray(training.route(table)[0])
    company = Company(training.leaves, mine, training.trees, counts, fill == "oob", training.row_weights)
    weight, together = _weights(company, training, aggregate)
    order = np.argsort(-weight, kind="stable")[: np.count_nonzero(weight)]
    labels = training.values[order]
    if training.classes is not None:
        labels = training.classes[labels.argmax(axis=1)]
    elif labels.shape[1] < 2:
        labels = labels[:, 0] if labels.shape[1] else np.full(len(order), np.nan)
    about = training.some(order), training.names, numbers, len(weight), training.show
    share = np.minimum(together[order] / training.n_trees, 1.0)  # sums of shares round to a little more
    return VotingPoints(order, weight[order], share, labels, *about), company


@announced_compiling()
def _tally(company: Company, y: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """How many rows are with x0 in each tree, their mass, and the sum of mass times y."""
    n_columns = len(company.mine)
    sizes, totals, sums = np.zeros(n_columns, np.int64), np.zeros(n_columns), np.zeros(n_columns)
    tally_company(company, y, sizes, totals, sums)
    return sizes, totals, sums


@announced_compiling()
def _weights(company: Company, training: Training, aggregate: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Smoother weights of all training rows (where no tree has an opinion, class shares), and trees that a row shares."""
    weight, together = np.zeros(len(training.leaves)), np.zeros(len(training.leaves))
    _, totals, _ = _tally(company, weight)
    weigh_company(company, training.factors, totals, aggregate == "mean", weight, together)
    out = weight if weight.any() else training.row_weights
    return out / out.sum(), together


def _ratios_without_each(weight: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted average without each of its rows in turn; NaN if that leaves none.

    >>> _ratios_without_each(np.array([0.5, 0.25, 0.25]), np.array([1.0, 0.0, 1.0]))
    array([0.5       , 1.        , 0.66666667])
    """
    if len(weight) == 1:
        return np.array([np.nan])
    return np.asarray(_sums_of_others(weight * y) / _sums_of_others(weight))


def _sums_of_others(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum without each in turn, by what comes before and after it: no difference of nearly equal numbers.

    >>> _sums_of_others(np.array([1.0, 1e-17])).tolist()
    [1e-17, 1.0]
    """
    before, after = np.append(0.0, values.cumsum()[:-1]), np.append(0.0, values[::-1].cumsum()[:-1])[::-1]
    return np.asarray(before + after)


@announced_compiling()
def _means_without_each(company: Company, y: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean of leaf averages without each training row in turn; NaN if that leaves no tree an opinion.

    A tree in which the row was alone with x0 has no opinion any more, so that the mean is over one tree less.
    """
    sizes, totals, sums = _tally(company, y)
    change, lost = np.zeros(len(y)), np.zeros(len(y))
    leave_each_out(company, factors, y, sizes, totals, sums, change, lost)
    speaks = sizes > 0
    left = factors[speaks].sum() - lost
    total = factors[speaks] @ (sums[speaks] / totals[speaks]) + change
    out = np.full(len(y), np.nan)
    np.divide(total, left, out=out, where=left > 1e-9)  # what is left of a sum may be rounded
    return out


def _shares_without_each(training: Training, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """What is said where no tree has an opinion, without each training row in turn: the average of all the others."""
    weight = training.row_weights
    left = weight.sum() - weight
    out = np.full(len(y), np.nan)
    np.divide(weight @ y - weight * y, left, out=out, where=left > 0)
    return out


def _probability(p: float) -> str:
    """Two digits, or as many as tell it from 0 and 1.

    >>> _probability(0.3123), _probability(0.9996), _probability(1.0)
    ('0.31', '0.9996', '1.00')
    """
    rest = min(p, 1.0 - p)
    return f"{p:.{2 if rest < 1e-6 else max(2, -int(np.floor(np.log10(rest))))}f}"


def _column(label: NDArray[Any]) -> Any:
    return label if label.ndim == 1 else [tuple(line) for line in label.tolist()]


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)
