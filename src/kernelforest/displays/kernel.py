"""What a kernel says about a point enters, drawings leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from textwrap import fill as wrapped
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelforest.checks import check_whole
from kernelforest.displays.canvas import BESIDE, BLUE, COLOURS, MARKERS, ORANGE, axes, plain
from kernelforest.displays.scales import Scale
from kernelforest.kernel import ForestKernel, read_kernel
from kernelforest.kernel.explain import VotingPoints, check_mass, narrowest_features
from kernelforest.kernel.grids import is_categorical
from kernelforest.kernel.points import feature_number, feature_pair, opened
from kernelforest.kernel.shape import DerivativeImportance, Derivatives, LevelSets, Profile

_AREAS = (np.pi / 4, 1.0, 0.5, 1.0, 0.5)  # of the markers, in squares of their width
_LONG = 28  # letters of a name on one line
_NO_PLACE = "a value is missing or infinite"  # and so on no axis
_LARGEST, _ALL = 500.0, 4000.0  # square points: most for one row, and for all rows together


@dataclass(eq=False, repr=False)
class VotingPointsDisplay:
    """Training rows behind the estimate at x0, on two features: the area is the weight, colour and shape the label.

    Figure 2 of Olson and Wyner (2018) is this picture for two values of mtry.
    """

    points: VotingPoints
    features: tuple[int, int]  # on the axes
    others: NDArray[np.float64]  # (n_others, 2) training rows without weight, on the two features
    classes: tuple[Any, ...] = ()  # empty if the labels are numbers, or unknown
    mass: float = 0.8  # the title counts the rows that hold this share of the weight
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(
        cls,
        kernel: ForestKernel,
        x0: Any,
        *,
        features: tuple[Any, Any] | None = None,
        aggregate: str | None = None,
        fill: str | None = None,
        mass: float = 0.8,
    ) -> Self:
        """Find the voting points of x0.

        Parameters
        ----------
        kernel : ForestKernel
            For instance `model.kernel_`.
        x0 : row of numbers, or table of one row
            The point.
        features : pair of names or numbers, optional
            What is on the axes; the two features in which the kernel is narrowest if left out.
        aggregate, fill : str
            The estimate, as in `ForestKernel.weights`.
        mass : float
            The title says how many rows hold this share of the weight.

        """
        check_mass(mass)
        training = read_kernel(kernel)
        pair = feature_pair(training.names, _default_pair(kernel, x0) if features is None else features)
        points = kernel.voting_points(x0, aggregate=aggregate, fill=fill)
        silent = np.ones(kernel.n_rows, dtype=bool)
        silent[points.rows] = False
        classes = () if training.classes is None else tuple(training.classes.tolist())
        return cls(points, pair, opened(training.some(np.flatnonzero(silent))[:, list(pair)]), classes, mass)

    def frame(self) -> Any:
        """The voting points, heaviest first."""
        return self.points.frame()

    def plot(self, ax: Any = None, *, area: float | None = None, legend: bool = True, **kw: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to.
        area : float, optional
            Square points shared out among the rows by weight. Set it to compare several pictures.
        legend : bool
            Whether to explain colours and shapes, to the right of the axes if there are classes.
        **kw
            For `ax.scatter` of the voting points.

        """
        ax = axes(ax, (7.0, 5.2))
        points = self.points
        style: dict[str, Any] = {"alpha": 0.8, "edgecolors": "black", "zorder": 3} | kw
        size = points.weight * (min(_ALL, _LARGEST / points.weight.max()) if area is None else area)
        line = np.minimum(0.5, 0.1 * np.sqrt(size))  # the outline must not be all that is seen of a light row
        scales = [Scale.of(points.names[j], points.show, j) for j in self.features]
        where, label = _placed(scales, points.places(self.features)), points.label
        known = np.isfinite(where).all(axis=1)
        where, label, size, line = where[known], label[known], size[known], line[known]
        others = _placed(scales, self.others[np.isfinite(self.others).all(axis=1)])
        ax.scatter(*others.T, s=2.5, c="#BBBBBB", linewidths=0, zorder=1, label="no weight")
        look: dict[str, Any]
        if self.classes:
            for number, name in enumerate(self.classes):
                mine = np.array([own == name for own in label.tolist()], dtype=bool)
                marker, filled = MARKERS[number % len(MARKERS)], _AREAS[number % len(MARKERS)]
                look = {"color": COLOURS[number % len(COLOURS)], "marker": marker, "label": f"y = {plain(name)}"}
                ax.scatter(*where[mine].T, **({"s": size[mine] / filled, "linewidths": line[mine]} | look | style))
        else:
            told = label.ndim == 1 and not np.isnan(label).any()
            look = {"c": label, "cmap": "cividis"} if told else {"color": BLUE}
            drawn = ax.scatter(
                *where.T, **({"s": size / _AREAS[0], "linewidths": line, "label": "voting row"} | look | style)
            )
            if told:
                ax.figure.colorbar(drawn, ax=ax, label="y")
        marked = _cross(ax, *_placed(scales, points.x0[None, list(self.features)])[0])
        drawn_numbers = np.vstack([points.places(self.features), self.others])
        for scale, axis, numbers in zip(scales, (ax.xaxis, ax.yaxis), drawn_numbers.T, strict=True):
            scale.label(axis, numbers)
        title = f"{points.heaviest(self.mass):,} of {points.n_rows:,} rows hold {100 * self.mass:g} % of the weight"
        if not known.all():
            hidden = points.weight[~known].sum() / points.weight.sum()
            title += f"\n{100 * hidden:.0f} % of it is not drawn ({(~known).sum():,} rows): {_NO_PLACE}"
        if not marked:
            title += f"\nx0 is not drawn: {_NO_PLACE}"
        ax.set_title(title)
        if legend:
            box = ax.legend(**(BESIDE if self.classes else {"loc": "best"}))  # a colour bar is where it would be
            for handle in box.legend_handles:  # all but the cross: one size, as theirs depend on the first row
                if hasattr(handle, "set_sizes"):
                    handle.set_sizes([40.0])
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class ProfileDisplay:
    """The step function h -> K(x0 + h e_j, x0): how similar x0 stays to itself while one feature moves."""

    profile: Profile
    scale: Scale | None = None  # of the feature; None: numbers
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(cls, kernel: ForestKernel, x0: Any, feature: int | str) -> Self:
        """Compute the profile of one numeric feature, given by number or name."""
        training = read_kernel(kernel)
        profile = kernel.profile(x0, feature)
        return cls(profile, Scale.of(profile.feature, training.show, feature_number(training.names, feature)))

    def frame(self) -> Any:
        """One line per piece of the step function."""
        return self.profile.frame()

    def plot(self, ax: Any = None, **kw: Any) -> Self:
        """Draw on `ax`; `kw` goes to `ax.stairs`."""
        ax = axes(ax, (6.0, 3.6))
        scale = self.scale or Scale(self.profile.feature)
        h = self.profile.h / scale.unit
        reach = np.append(h, 0.0)
        margin = 0.05 * np.ptp(reach) or 1.0
        ends = np.concatenate([[reach.min() - margin], h, [reach.max() + margin]])
        ax.stairs(self.profile.k, ends, **({"color": BLUE, "linewidth": 1.5, "baseline": None} | kw))
        ax.axvline(0.0, color="black", linestyle=":", linewidth=1.0)
        ax.set_ylim(0.0, 1.05)
        ax.set_xlim(ends[0], ends[-1])
        days = " in days" if scale.unit > 1.0 else ""
        ax.set_xlabel(f"h{days}, added to {plain(self.profile.feature)} = {scale.say(self.profile.x0)}")
        ax.set_ylabel("K(x0 + h, x0)")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class DerivativesDisplay:
    """Derivatives of K at x0, to the right and to the left along every feature."""

    derivatives: Derivatives  # of one row
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(cls, kernel: ForestKernel, x0: Any, **how: Any) -> Self:
        """Compute the derivatives at one row; `how` goes to `ForestKernel.derivatives`."""
        read_kernel(kernel)
        found = kernel.derivatives(x0, **how)
        if found.right.size != len(found.names):
            raise ValueError(f"x0 must be one row, got {len(found.right)}")
        return cls(replace(found, right=found.right.reshape(-1), left=found.left.reshape(-1)))

    def frame(self) -> Any:
        """One line per feature, in the order of training."""
        return self.derivatives.frame()

    def plot(self, ax: Any = None, *, scaled: bool = True, most: int = 20, **kw: Any) -> Self:
        """Draw the features along which K falls fastest, first on top.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to.
        scaled : bool
            Draw derivative times step, the change of K over one step: features in different units can be compared.
            Otherwise the derivatives themselves, as in the paper.
        most : int
            Number of features shown.
        **kw
            For `ax.plot`.

        """
        found = self.derivatives
        unit = found.h if scaled else np.ones(len(found.names))
        right, left = found.right * unit, found.left * unit
        order = _largest(np.abs(right) + np.abs(left), most)
        ax = axes(ax, _size_of_list(len(order)))
        lines = np.arange(len(order))
        ax.hlines(lines, *np.sort([left[order], right[order]], axis=0), color="#AAAAAA", linewidth=1.0, zorder=1)
        style = {"linestyle": "none", "markersize": 7.0, "markeredgecolor": "black", "markeredgewidth": 0.6} | kw
        ax.plot(right[order], lines, **({"marker": ">", "color": BLUE, "label": "to the right"} | style))
        ax.plot(left[order], lines, **({"marker": "<", "color": ORANGE, "label": "to the left"} | style))
        ax.axvline(0.0, color="black", linewidth=0.8, zorder=0)
        _list_features(ax, order, found.names)
        ax.legend(**BESIDE)
        ax.set_xlabel("change of K over one step h from x0" if scaled else "derivative of K at x0, per unit of the feature")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class DerivativeImportanceDisplay:
    """Mean absolute derivative of K over rows, feature by feature, with standard errors."""

    importance: DerivativeImportance
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(cls, kernel: ForestKernel, X: Any = None, **how: Any) -> Self:
        """Average the derivatives over the rows of X; `how` goes to `ForestKernel.derivative_importance`."""
        read_kernel(kernel)
        return cls(kernel.derivative_importance(X, **how))

    def frame(self) -> Any:
        """One line per feature, in the order of training."""
        return self.importance.frame()

    def plot(self, ax: Any = None, *, scaled: bool = True, most: int = 20, **kw: Any) -> Self:
        """Draw the most important features, first on top.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to.
        scaled : bool
            Per standard deviation of the feature, so that units do not matter; otherwise per unit.
        most : int
            Number of features shown.
        **kw
            For `ax.barh`.

        """
        found = self.importance
        unit = np.divide(found.per_sd, found.mean, out=np.zeros(len(found.names)), where=found.mean > 0)
        mean, error = (found.per_sd, found.error * unit) if scaled else (found.mean, found.error)
        order = _largest(mean, most)
        ax = axes(ax, _size_of_list(len(order)))
        style = {"color": BLUE, "ecolor": "black", "capsize": 2.5, "height": 0.65} | kw
        ax.barh(np.arange(len(order)), mean[order], xerr=error[order], **style)
        _list_features(ax, order, found.names)
        ax.set_xlim(left=0.0)
        ax.set_xlabel(f"mean absolute derivative of K,\nper {'standard deviation' if scaled else 'unit of the feature'}")
        self.ax_, self.figure_ = ax, ax.figure
        return self


@dataclass(eq=False, repr=False)
class LevelSetsDisplay:
    """K(x, x0) while two features of x move and the others stay those of x0."""

    sets: LevelSets
    scales: tuple[Scale, Scale] | None = None  # of the two features; None: numbers
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(cls, kernel: ForestKernel, x0: Any, features: Any = None, **how: Any) -> Self:
        """Evaluate K on a grid of two features, by default the narrowest; `how` goes to `ForestKernel.level_sets`."""
        training = read_kernel(kernel)
        sets = kernel.level_sets(x0, _default_pair(kernel, x0) if features is None else features, **how)
        first, second = (Scale.of(name, training.show, training.names.index(name)) for name in sets.names)
        return cls(sets, (first, second))

    def frame(self) -> Any:
        """One line per point of the grid."""
        return self.sets.frame()

    def plot(self, ax: Any = None, *, levels: Any = 10, **kw: Any) -> Self:
        """Draw contours on `ax`; `levels` is their number or their values, `kw` goes to `ax.contourf`."""
        ax = axes(ax, (5.8, 5.2))
        scales = self.scales or (Scale(self.sets.names[0]), Scale(self.sets.names[1]))
        x, y = (scale.place(numbers) for scale, numbers in zip(scales, (self.sets.x, self.sets.y), strict=True))
        k = self.sets.k.T  # matplotlib has y along the rows
        steps = levels if np.ndim(levels) else np.linspace(0.0, 1.0, check_whole("levels", levels, 1) + 1)
        filled = ax.contourf(x, y, k, **({"levels": steps, "cmap": "cividis"} | kw))
        if k.min() < k.max():  # lines are not for a kernel that is the same everywhere
            ax.contour(x, y, k, levels=filled.levels, colors="white", linewidths=0.5)
        if not _cross(ax, *_placed(scales, self.sets.x0[None])[0]):
            ax.set_title(f"x0 is not drawn: {_NO_PLACE}", fontsize="medium")
        ax.figure.colorbar(filled, ax=ax, label="K")
        scales[0].label(ax.xaxis, self.sets.x)
        scales[1].label(ax.yaxis, self.sets.y)
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best", framealpha=1.0)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _placed(scales: Sequence[Scale], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns of numbers as places on the axes."""
    return np.column_stack([scale.place(column) for scale, column in zip(scales, numbers.T, strict=True)])


def _default_pair(kernel: ForestKernel, x0: Any) -> tuple[Any, ...]:
    """The two features in which the kernel is narrowest, filled up with the first ones, such as vary before others."""
    training = read_kernel(kernel)
    names = training.names
    if not names:
        raise ValueError("a picture of two features needs their values: give X_train to from_model")
    if len(names) < 2:
        raise ValueError(f"a picture of two features needs two, but the forest has only {names[0]!r}")
    numeric = [name for name, level in zip(names, is_categorical(training, x0), strict=True) if not level]
    varied = [name for name in numeric if kernel._steps[names.index(name)] > 0]
    return tuple(dict.fromkeys([*narrowest_features(kernel, x0)[:2], *varied, *numeric, *names]))[:2]


def _cross(ax: Any, x: float, y: float) -> bool:
    """Mark x0 in black on white, to be seen on any ground; whether it has a place on both axes."""
    if not np.isfinite([x, y]).all():
        return False
    look: dict[str, Any] = {"linestyle": "none", "marker": "x", "clip_on": False}  # x0 may be at the border
    ax.plot([x], [y], color="white", markersize=13.0, markeredgewidth=5.0, zorder=4, **look)
    ax.plot([x], [y], color="black", markersize=11.0, markeredgewidth=2.2, zorder=5, label="x0", **look)
    return True


def _size_of_list(n: int) -> tuple[float, float]:
    return 6.0, 1.1 + 0.26 * n


def _largest(size: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Numbers of the features with the largest size, largest first; those without one are left out."""
    check_whole("most", most, 1)
    known = np.flatnonzero(~np.isnan(size))
    return known[np.argsort(-size[known], kind="stable")[:most]]


def _list_features(ax: Any, order: NDArray[np.intp], names: tuple[str, ...]) -> None:
    """Name the lines of a picture, the first one on top, and leave room between the numbers below."""
    ax.set_yticks(range(len(order)), [plain(wrapped(names[j], _LONG)) for j in order])
    ax.locator_params(axis="x", nbins=6)
    ax.set_ylim(len(order) - 0.4, -0.6)
    if len(order) < len(names):
        ax.set_title(f"{len(order)} of {len(names)} features", fontsize="medium")
