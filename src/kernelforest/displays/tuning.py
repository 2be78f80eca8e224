"""A classifier that was tuned enters; pictures of what was tried, and how it scored out-of-bag, leave.

Ways to grow trees that were dropped early are drawn, but set apart: their scores are from fewer trees and rows, so they may
look better or worse than they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kernelforest.displays.canvas import BESIDE, ORANGE, PALE, SKY, check_model, panels, shades, spread, star
from kernelforest.frames import as_table
from kernelforest.growing import SPLITTERS
from kernelforest.judging import ROWS_PER_TREE, Candidate
from kernelforest.scoring import SCORE_NAMES
from kernelforest.tuning import Tuning

Floats = NDArray[np.float64]

_CUTS = {"best": "best cuts", "extra": "random cuts (extra)"}
_HATCHED: dict[str, Any] = {"hatch": "////", "linewidth": 0.0}
_LEAST_SPAN = 1e-4  # of an axis or a scale of colours, as a share of the scores: smaller differences may be rounding


class Way(NamedTuple):
    """Candidates that share their trees, from small leaves to large ones."""

    splitter: str
    max_features: int
    leaf_size: NDArray[np.int64]  # (n_candidates,)
    score: Floats  # (n_candidates,)
    error: Floats  # (n_candidates,) of the difference to the best in its last round
    n_trees: int


@dataclass(frozen=True)
class Section:
    """The candidates of one aggregate and fill."""

    tuning: Tuning
    aggregate: str
    fill: str

    @classmethod
    def of(cls, model: Any, aggregate: str | None, fill: str | None) -> Self:
        """Those of a fitted model; by default of the aggregate and fill that were chosen."""
        check_model(model)
        tuning = getattr(model, "tuning_", None)
        if tuning is None:
            raise ValueError(
                "nothing was tuned: max_features, leaf_size, aggregate and fill were given (leave at least one of them at "
                "'auto'), or there are too few rows or classes"
            )
        found = {}
        for name, value in (("aggregate", aggregate), ("fill", fill)):
            tried = sorted({getattr(c, name) for c in tuning.candidates})
            found[name] = getattr(tuning.best, name) if value is None else value
            if found[name] not in tried:
                raise ValueError(f"{name} must be one that was tried, {', '.join(tried)}; got {value!r}")
        return cls(tuning, **found)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Sorted by how cuts are made, mtry and leaf size."""
        mine = [c for c in self.tuning.candidates if (c.aggregate, c.fill) == (self.aggregate, self.fill)]
        return tuple(sorted(mine, key=lambda c: (list(SPLITTERS).index(c.splitter), c.max_features, c.leaf_size)))

    @property
    def ways(self) -> tuple[Way, ...]:
        """The same, by the trees they share."""
        shared: dict[tuple[str, int], list[Candidate]] = {}
        for c in self.candidates:
            shared.setdefault((c.splitter, c.max_features), []).append(c)
        return tuple(
            Way(
                splitter,
                mtry,
                leaf_size=np.array([c.leaf_size for c in same]),
                score=np.array([c.score for c in same]),
                error=np.array([c.error for c in same]),
                n_trees=same[0].n_trees,
            )
            for (splitter, mtry), same in shared.items()
        )

    @property
    def splitters(self) -> tuple[str, ...]:
        """How cuts were made: the panels."""
        return tuple(dict.fromkeys(c.splitter for c in self.candidates))

    @property
    def mtrys(self) -> tuple[int, ...]:
        """Numbers of features that were tried."""
        return tuple(sorted({c.max_features for c in self.candidates}))

    @property
    def best(self) -> Candidate:
        """The best here of those that stayed to the end."""
        return min((c for c in self.candidates if self.stayed(c)), key=lambda c: (-c.weight, c.penalised))

    @property
    def is_chosen(self) -> bool:
        """Whether the best here is the best of all."""
        return self.best == self.tuning.best

    def stayed(self, one: Candidate | Way) -> bool:
        """Whether it was not dropped before the last round."""
        return one.n_trees == self.tuning.best.n_trees

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest score, further apart if they are nearly the same: nothing is to be seen then.

        That is so where the features tell nothing, because calibration levels out all the rest.
        """
        scores = [c.score for c in self.candidates]
        middle, half = (max(scores) + min(scores)) / 2, (max(scores) - min(scores)) / 2
        least = _LEAST_SPAN / 2 * abs(middle)
        return (min(scores), max(scores)) if half >= least else (middle - least, middle + least)

    def frame(self) -> Any:
        """One line per candidate: a pandas data frame, or a dict of columns where pandas is not installed."""
        names = ("splitter", "max_features", "leaf_size", "score", "error", "penalised", "n_trees", "weight")
        columns = {name: [getattr(c, name) for c in self.candidates] for name in names}
        columns["stayed"] = [self.stayed(c) for c in self.candidates]
        columns["chosen"] = [c == self.tuning.best for c in self.candidates]
        return as_table(columns)

    def name_of_score(self) -> str:
        """For an axis."""
        return f"out-of-bag {SCORE_NAMES[self.tuning.scoring]}" + (", calibrated" if self.tuning.calibrated else "")

    def name_of_best(self) -> str:
        """For a legend."""
        c = self.best
        return f"{'chosen' if self.is_chosen else 'best here'}: mtry {c.max_features}, leaf size {c.leaf_size:,}"

    @property
    def others(self) -> tuple[Candidate, ...]:
        """Candidates here that have a share in the estimate beside the best."""
        return tuple(c for c in self.candidates if c.weight > 0.0 and c != self.best)

    def name_of_dropped(self) -> str:
        """For a legend: why these scores should not be compared with the others."""
        trees = {way.n_trees for way in self.ways if not self.stayed(way)}
        all_rows = self.tuning.n_rows
        n_rows = {min(ROWS_PER_TREE * n, all_rows) for n in trees}
        rows = f"\nand {name_range(n_rows)} of {all_rows:,} rows" if min(n_rows) < all_rows else ""
        return f"dropped early, not comparable:\nscored with {name_range(trees)} of {self.best.n_trees} trees{rows}"


def name_range(numbers: Set[int]) -> str:
    """The smallest and the largest number.

    >>> name_range({960, 1920}), name_range({50})
    ('960 to 1,920', '50')
    """
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


@dataclass(eq=False, repr=False)
class BandwidthPathDisplay:
    """Out-of-bag score against leaf size, a line for each mtry: how the score depends on the bandwidth of the kernel."""

    section: Section
    axes_: tuple[Any, ...] = field(default=(), init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_model(cls, model: Any, *, aggregate: str | None = None, fill: str | None = None) -> Self:
        """Take the scores of a model that was tuned.

        Parameters
        ----------
        model : KernelForestClassifier
            Fitted, with something left to choose.
        aggregate, fill : str, optional
            Whose scores; those that were chosen if left out.

        """
        return cls(Section.of(model, aggregate, fill))

    def frame(self) -> Any:
        """One line per candidate."""
        return self.section.frame()

    def plot(self, ax: Any = None, *, legend: bool = True, **kw: Any) -> Self:
        """Draw one panel for each way to cut; the numbers at the lines are mtry.

        The band is one standard error of the paired difference to the chosen candidate, around the line of the best. Where
        it reaches the dotted line, the data can hardly tell the two apart. Of those the larger leaf has the better chance to
        be chosen, so that the star need not be at the lowest point. Rings are the leaf sizes that are blended with it.

        Parameters
        ----------
        ax : as many matplotlib axes as there are ways to cut, optional
            Where to.
        legend : bool
            Whether to explain, to the right of the last panel.
        **kw
            For `ax.plot` of the lines of ways that stayed to the end.

        """
        section = self.section
        names = section.splitters
        drawn = panels(ax, names, (2.9 + 3.9 * len(names), 4.2))
        colours = dict(zip(section.mtrys, shades(len(section.mtrys)), strict=True))
        for way in section.ways:
            _draw_way(drawn[names.index(way.splitter)], way, colours[way.max_features], section.stayed(way), kw)
        self._mark_best(drawn[names.index(section.best.splitter)])
        _ring_others(drawn, section, lambda c: c.score, ORANGE)
        hidden = self._limit(drawn)
        for panel, name in zip(drawn, names, strict=True):
            panel.axhline(section.tuning.best.score, color="black", linestyle=":", linewidth=1.0, zorder=1)
            above = f"; {hidden[name]} worse not shown" if hidden[name] else ""
            panel.set_title(_CUTS.get(name, name) + above, fontsize="medium")
            panel.set_xlabel("leaf size (numbers at the lines: mtry)")
            _tick_leaf_sizes(panel, section)
            _label_ways(panel, [way for way in section.ways if way.splitter == name], colours, section)
        drawn[0].set_ylabel(section.name_of_score())
        if legend:
            self._explain(drawn, colours[section.best.max_features])
        self.axes_, self.figure_ = drawn, drawn[0].figure
        return self

    def _limit(self, drawn: tuple[Any, ...]) -> Counter[str]:
        """Give panels the same axes, with room for labels; count the scores too far off to be shown with the rest."""
        section = self.section
        across, up = np.array([ax.get_xlim() for ax in drawn]), np.array([ax.get_ylim() for ax in drawn])
        scores = np.array([c.score for c in section.candidates])
        usual = max(np.quantile(scores, 0.9), *(c.score for c in section.candidates if section.stayed(c)))
        low, high = section.ends
        bottom, top = min(up.min(), low), max(up.max(), high)
        if high == scores.max() and high - low > 2 * (usual - low):
            top = usual + 0.1 * (usual - low)
        for ax in drawn:
            ax.set_xlim(across.min(), across.max() * 1.6)
            ax.set_ylim(bottom, top)
        return Counter(c.splitter for c in section.candidates if c.score > top)

    def _mark_best(self, ax: Any) -> None:
        section, best = self.section, self.section.best
        way = next(w for w in section.ways if (w.splitter, w.max_features) == best[:2])
        low, high = way.score - way.error, way.score + way.error
        ax.fill_between(way.leaf_size, low, high, color=SKY, alpha=0.35, linewidth=0, zorder=0)
        star(ax, best.leaf_size, best.score, section.name_of_best(), ORANGE if section.is_chosen else "white")

    def _explain(self, drawn: tuple[Any, ...], colour: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        section = self.section
        marked = drawn[section.splitters.index(section.best.splitter)]
        entries = marked.get_legend_handles_labels()[0]
        entries += [
            Line2D([], [], color="black", linestyle=":", linewidth=1.0, label="score of the chosen one"),
            Patch(facecolor=SKY, alpha=0.35, label="1 standard error of the\ndifference to the chosen one"),
            Line2D([], [], color=colour, linewidth=1.8, label=f"stayed to the end:\n{section.best.n_trees} trees"),
        ]
        if not all(section.stayed(way) for way in section.ways):
            entries.append(Line2D([], [], color=PALE, linewidth=0.8, label=section.name_of_dropped()))
        title = f"aggregate {section.aggregate}, fill {section.fill}"
        drawn[-1].legend(handles=entries, title=title, alignment="left", fontsize="small", **BESIDE)


@dataclass(eq=False, repr=False)
class SurfaceDisplay:
    """Out-of-bag score over mtry and leaf size, the two that together are the bandwidth of the kernel."""

    section: Section
    axes_: tuple[Any, ...] = field(default=(), init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_model(cls, model: Any, *, aggregate: str | None = None, fill: str | None = None) -> Self:
        """Take the scores of a model that was tuned; parameters as of `BandwidthPathDisplay.from_model`."""
        return cls(Section.of(model, aggregate, fill))

    def frame(self) -> Any:
        """One line per candidate."""
        return self.section.frame()

    def plot(self, ax: Any = None, *, legend: bool = True, **kw: Any) -> Self:
        """Draw one panel for each way to cut, on a common scale of colours that is finest near the best score.

        Parameters
        ----------
        ax : as many matplotlib axes as there are ways to cut, optional
            Where to.
        legend : bool
            Whether to explain marks, below the first panel.
        **kw
            For `ax.pcolormesh`.

        """
        section = self.section
        names, mtrys = section.splitters, section.mtrys
        drawn = panels(ax, names, (2.0 + 3.7 * len(names), 2.6 + 0.34 * max(3, len(mtrys))))
        sizes = np.unique([c.leaf_size for c in section.candidates])
        margin = float((sizes[-1] / sizes[0]) ** (0.5 / (len(sizes) - 1))) if len(sizes) > 1 else 2.0  # half a cell
        style = {"cmap": "cividis_r", "norm": _fine_near_best(section)} | kw
        for way in section.ways:
            panel, line = drawn[names.index(way.splitter)], mtrys.index(way.max_features)
            edges = _edges(way.leaf_size, margin)
            cells = panel.pcolormesh(edges, [line - 0.5, line + 0.5], way.score[None], **style)
            if not section.stayed(way):
                _hatch(panel, edges, line)
        best = section.best
        marked = drawn[names.index(best.splitter)]
        star(marked, best.leaf_size, mtrys.index(best.max_features), section.name_of_best())
        _ring_others(drawn, section, lambda c: mtrys.index(c.max_features), "black")
        for panel, name in zip(drawn, names, strict=True):
            panel.set_xscale("log")
            _tick_leaf_sizes(panel, section)
            panel.set_yticks(range(len(mtrys)), [str(m) for m in mtrys])
            panel.set_ylim(-0.5, len(mtrys) - 0.5)
            panel.set_xlim(sizes[0] / margin, sizes[-1] * margin)
            panel.set_title(_CUTS.get(name, name), fontsize="medium")
            panel.set_xlabel("leaf size")
        drawn[0].set_ylabel("mtry")
        figure = drawn[0].figure
        figure.colorbar(cells, ax=list(drawn), label=section.name_of_score().replace(", ", ",\n"))
        if legend:
            self._explain(drawn[0], marked.get_legend_handles_labels()[0])
        self.axes_, self.figure_ = drawn, figure
        return self

    def _explain(self, ax: Any, entries: list[Any]) -> None:
        from matplotlib.patches import Patch
        from matplotlib.transforms import ScaledTranslation

        section = self.section
        if not all(section.stayed(way) for way in section.ways):
            entries.append(Patch(facecolor="white", edgecolor="black", label=section.name_of_dropped(), **_HATCHED))
        title = f"aggregate {section.aggregate}, fill {section.fill}"
        below = ax.transAxes + ScaledTranslation(0.0, -0.45, ax.figure.dpi_scale_trans)  # in inches: room for the axis
        where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, 0.0), "bbox_transform": below}
        ax.legend(handles=entries, title=title, alignment="left", fontsize="small", frameon=False, borderpad=0.0, **where)


def _draw_way(ax: Any, way: Way, colour: Any, stayed: bool, kw: dict[str, Any]) -> None:
    ax.set_xscale("log")
    if stayed:
        style = {"color": colour, "linewidth": 1.8, "marker": "o", "markersize": 3.0, "zorder": 3} | kw
    else:
        style = {"color": PALE, "linewidth": 0.8, "marker": "o", "markersize": 1.5, "zorder": 2}
    ax.plot(way.leaf_size, way.score, **style)


def _ring_others(drawn: tuple[Any, ...], section: Section, height: Callable[[Candidate], float], colour: str) -> None:
    """Ring the other candidates that are blended with the best one, larger where their share is."""
    look: dict[str, Any] = {"facecolors": "none", "edgecolors": colour, "linewidths": 1.6, "zorder": 5}
    for ax, name in zip(drawn, section.splitters, strict=True):
        mine = [c for c in section.others if c.splitter == name]
        if mine:
            areas = [150.0 * c.weight / section.best.weight for c in mine]
            label = "blended with it, area: share"
            ax.scatter([c.leaf_size for c in mine], [height(c) for c in mine], s=areas, label=label, **look)


def _label_ways(ax: Any, ways: list[Way], colours: dict[int, Any], section: Section) -> None:
    """Write mtry to the right of the lines, so that no two numbers overlap."""
    bottom, top = ax.get_ylim()
    gap = (top - bottom) / 24
    ends = np.minimum([way.score[-1] for way in ways], top - gap / 2)
    for way, end, height in zip(ways, ends, spread(ends, gap), strict=True):
        stayed = section.stayed(way)
        ax.annotate(
            str(way.max_features),
            (way.leaf_size[-1], end),
            (way.leaf_size[-1] * 1.3, height),
            color=colours[way.max_features] if stayed else PALE,
            fontsize="small",
            fontweight="bold" if stayed else "normal",
            va="center",
            arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.4, "shrinkA": 0.0, "shrinkB": 2.0},
        )


def _tick_leaf_sizes(ax: Any, section: Section) -> None:
    sizes = [c.leaf_size for c in section.candidates]
    ticks = [k * 10**e for e in range(10) for k in (1, 3) if min(sizes) <= k * 10**e <= max(sizes)]
    ticks = ticks if len(ticks) > 1 else sorted({min(sizes), max(sizes)})
    ax.minorticks_off()
    ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])


def _hatch(ax: Any, edges: Floats, line: int) -> None:
    from matplotlib.patches import Rectangle

    look: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "alpha": 0.35} | _HATCHED
    ax.add_patch(Rectangle((edges[0], line - 0.5), edges[-1] - edges[0], 1.0, **look))


def _edges(sizes: NDArray[np.int64], margin: float) -> Floats:
    """Ends of cells around sizes, half-way between them on a log scale; the outer ones by a factor."""
    return np.concatenate([[sizes[0] / margin], np.sqrt(sizes[1:] * sizes[:-1]), [sizes[-1] * margin]])


def _fine_near_best(section: Section) -> Any:
    """A scale of colours by the square root of what is lost."""
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, *section.ends)
