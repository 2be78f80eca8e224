"""Choosing the bandwidth: what is left open enters; the best candidates by out-of-bag score, and their shares, leave.

A candidate is a way to grow trees (how cuts are made, mtry), a leaf size, an aggregate and a fill. Ways to grow cost trees,
so they compete by successive halving: all get a few trees, the better half gets as many again, and so on. Everything else
is read off the bandwidth path of the same trees.

Few trees flatter large mtry, because its trees are alike and a few of them say what all would. So a way that was dropped
comes back, with as many trees as the others have by then, when the next larger mtry is the best of its kind of cuts.

How candidates are compared and blended is told in `judging`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import ceil, sqrt
from typing import Any

import numpy as np

from kernelforest._engine.layout import Columns, Targets
from kernelforest.bandwidth import MOST_ENTRIES, BandwidthPath, leaf_sizes
from kernelforest.compiling import announced_compiling
from kernelforest.forest import FILLS, Forest, Reading
from kernelforest.frames import as_table
from kernelforest.growing import Rules, show_progress
from kernelforest.judging import MOST_WAYS, Candidate, Judge, Judged, Part, Weigher, with_errors
from kernelforest.notices import TuningWarning, notify
from kernelforest.scoring import Sample, sample_rows
from kernelforest.threads import in_threads

# what "auto" means where there is nothing to choose by: the classic forest
UNTUNED: dict[str, Any] = {"splitter": "best", "max_features": "sqrt", "leaf_size": 1, "aggregate": "mean", "fill": "inbag"}
MOST_TREES = 250  # of one way to grow, to choose by
MOST_ROWS = 8192  # that are scored, rare classes with a share of their own
MANY_ROWS = 5000  # from which on work on one way to grow is worth sharing among threads
LEAST = 10  # rows, or groups, to choose by at all
FAR = 10.0  # behind the best, as a logarithm of weights: such a way to grow is not followed up

Way = tuple[str, int]  # to grow trees: splitter and mtry


@dataclass(frozen=True)
class Open:
    """What is left to choose, each as the values to choose from."""

    splitter: tuple[str, ...]
    max_features: tuple[int, ...]
    leaf_size: tuple[int, ...]
    aggregate: tuple[str, ...]
    fill: tuple[str, ...]

    @property
    def is_decided(self) -> bool:
        """Whether there is nothing to choose."""
        return all(len(values) == 1 for values in self.__dict__.values())

    @property
    def first(self) -> Candidate:
        """The first of each: the only one, if all is decided."""
        chosen = self.splitter[0], self.max_features[0], self.leaf_size[0], self.aggregate[0], self.fill[0]
        return Candidate(*chosen, score=np.nan, error=np.nan, penalised=np.nan, n_trees=0, seconds=0.0)


@dataclass(frozen=True)
class Tuning:
    """All candidates with their out-of-bag scores, and the shares of those that were chosen."""

    candidates: tuple[Candidate, ...]  # ways to grow that were dropped early keep the score they had then
    scoring: str
    n_rows: int  # scored
    calibrated: bool  # whether scores are those after a sigmoid
    blend: tuple[Part, ...] = ()  # how the members get their shares

    def __repr__(self) -> str:
        c, n_ways = self.best, len({(c.splitter, c.max_features) for c in self.candidates})
        return (
            f"Tuning({len(self.candidates):,} candidates of {n_ways} forests by out-of-bag {self.scoring}; best: "
            f"splitter={c.splitter!r}, max_features={c.max_features}, leaf_size={c.leaf_size}, aggregate={c.aggregate!r}, "
            f"fill={c.fill!r}, score={c.score:.4g})"
        )

    @cached_property
    def best(self) -> Candidate:
        """The candidate with the largest share in the estimate."""
        most = max(c.n_trees for c in self.candidates)
        return min((c for c in self.candidates if c.n_trees == most), key=lambda c: (-c.weight, c.penalised))

    @property
    def members(self) -> tuple[Candidate, ...]:
        """The candidates that have a share in the estimate, the largest first: of one aggregate and fill."""
        return tuple(sorted((c for c in self.candidates if c.weight > 0.0), key=lambda c: -c.weight))

    @property
    def seconds(self) -> float:
        """Time spent on growing and walking the trees of all candidates, added up over threads.

        In the first fit on a machine that includes compiling.
        """
        ways = {(c.splitter, c.max_features): c.seconds for c in self.candidates}
        return sum(ways.values())

    def frame(self) -> Any:
        """One line per candidate, best first: a pandas data frame, or a dict of columns where pandas is not installed."""
        lines = sorted(self.candidates, key=lambda c: (-c.n_trees, -c.weight, c.penalised))
        return as_table({name: [getattr(c, name) for c in lines] for name in Candidate._fields})


def is_auto(value: Any) -> bool:
    """Whether a parameter is left open."""
    return isinstance(value, str) and value == "auto"


def left_open(wanted: Mapping[str, Any], max_leaf_nodes: int | None, n_features: int) -> set[str]:
    """Which of the parameters in UNTUNED are to be chosen; none, if it would be the splitter alone.

    >>> sorted(left_open(UNTUNED | {"leaf_size": "auto", "fill": "auto"}, max_leaf_nodes=8, n_features=3))
    ['fill']
    """
    names = {name for name in UNTUNED if is_auto(wanted[name])}
    if n_features == 1 or str(wanted["splitter"]).startswith("random"):
        names -= {"max_features"}  # it is one
    if max_leaf_nodes is not None:
        names -= {"leaf_size"}  # the number of leaves is the bandwidth, and best-first trees are not nested
    return set() if names <= {"splitter"} else names


def with_classic_values(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters in UNTUNED, those that are left open as there."""
    return {name: value if is_auto(wanted[name]) else wanted[name] for name, value in UNTUNED.items()}


def open_choices(wanted: Mapping[str, Any], rules: Rules, targets: Targets, n_features: int) -> Open:
    """What is left to choose of the parameters in UNTUNED; nothing, if the rows cannot tell."""
    limits = rules.limits(len(targets.drawable), n_features)
    names = left_open(wanted, rules.max_leaf_nodes, n_features)
    if names and (len(targets.drawable) < LEAST or targets.n_classes == 1):
        few = f"{len(targets.drawable)} {'rows' if targets.groups is None else 'groups'} are too few"
        why = "y has one class only" if targets.n_classes == 1 else few
        notify(f"{why}, so nothing is tuned and the forest is a classic one: give more data", TuningWarning)
        names = set()
    if names and not limits.leaves_rows_out(len(targets.drawable)):
        raise ValueError(
            f"choosing {sorted(names)} needs out-of-bag rows: set bootstrap=True or max_samples below 1.0, or fix them"
        )
    in_bag = limits.n_draws * int((targets.weight > 0).sum()) // len(targets.drawable)
    values = {
        "splitter": ("best", "extra"),
        "max_features": mtry_candidates(n_features),
        "leaf_size": tuple(leaf_sizes(in_bag).tolist()),
        "aggregate": ("mean", "proximity"),  # a vote has no weights, so nothing could be traced; nor did it win
        "fill": FILLS if targets.groups is None else ("inbag",),
    }
    fixed = with_classic_values(wanted) | {"max_features": limits.mtry}
    if targets.groups is not None and fixed["fill"] != "inbag":
        raise ValueError(
            f"fill must be 'inbag' or 'auto' with groups, got {fixed['fill']!r}: out-of-bag, the others would count rows of "
            "the same group"
        )
    return Open(**{name: values[name] if name in names else (fixed[name],) for name in values})


def mtry_candidates(n_features: int) -> tuple[int, ...]:
    """Up to seven numbers of features from one to all, in equal ratios, the square root among them.

    With more than 144 features, only up to twelve times their square root: more gains little, and costs in proportion.

    >>> mtry_candidates(50)
    (1, 2, 4, 8, 14, 26, 50)
    >>> mtry_candidates(1000)
    (1, 3, 7, 19, 32, 141, 379)
    """
    some = np.geomspace(1, min(n_features, int(12 * sqrt(n_features))), 7).round().astype(int)
    root = ceil(sqrt(n_features))
    some[np.abs(np.log(some / root)).argmin()] = root
    return tuple(int(m) for m in np.unique(some))


def tune(
    columns: Columns,
    targets: Targets,
    rules: Rules,
    choices: Open,
    seed: int,
    *,
    scoring: str = "log_loss",
    calibrated: bool = True,
    threads: int = 1,
    verbose: int = 0,
) -> Tuning:
    """Grow the ways that are open, drop the worse half of them round by round, and score what is on their paths."""
    sample, n_features = scored_rows(targets, choices, seed), len(columns.codes)
    paths: dict[Way, BandwidthPath] = {}
    for splitter, mtry in product(choices.splitter, choices.max_features):
        limits = replace(rules, splitter=splitter, max_features=mtry).limits(len(targets.drawable), n_features)
        paths[splitter, mtry] = BandwidthPath(
            columns, targets, limits, seed, sample.rows, np.array(choices.leaf_size), choices.aggregate
        )
    judge = Judge(targets, sample, choices.fill, scoring, calibrated)
    evidence = dict.fromkeys(paths, 0.0)  # of the ways that are still in the race
    early: dict[Way, list[Candidate]] = {}  # of all ways, as they did when they were last scored before the end
    for n_trees, is_last in rounds(len(paths), len(targets.labels), rules.n_estimators):
        entering = [way for way in evidence if not is_last or evidence[way] >= max(evidence.values()) - FAR]
        n_keep = max(MOST_WAYS, ceil(len(entering) / 2))
        judged: dict[Way, Judged] = {}
        while entering:
            results = extended([paths[way] for way in entering], n_trees, judge, is_last, threads=threads, verbose=verbose)
            judged.update(zip(entering, results, strict=True))
            weigh = Weigher.of(list(judged.values()), judge)
            evidence = {way: float(weigh.evidence(result).max()) for way, result in judged.items()}
            entering = challengers(evidence, choices.max_features)
        results = list(judged.values())
        shares = weigh.shares(results)
        scored = dict(zip(judged, with_errors(results, shares, weigh, judge), strict=True))
        if not is_last:
            order = sorted(judged, key=lambda way: -evidence[way])
            early |= {way: [c._replace(weight=0.0) for c in scored[way]] for way in order}
            evidence = {way: evidence[way] for way in order[:n_keep]}
    candidates = [c for way in scored for c in scored[way]]
    candidates += [c for way, dropped in early.items() if way not in scored for c in dropped]
    parts = [weigh.part(result, mine) for result, mine in zip(results, shares, strict=True) if mine.any()]
    return Tuning(tuple(candidates), scoring, len(sample.rows), calibrated, tuple(sorted(parts, key=lambda p: -p.share)))


def challengers(evidence: Mapping[Way, float], mtrys: Sequence[int]) -> list[Way]:
    """Ways that are out of the race, though the next larger mtry is the best of its kind of cuts and nearly the best of all.

    >>> challengers({("best", 4): -80.0, ("best", 8): -81.0, ("extra", 4): -79.5}, (1, 2, 4, 8))
    [('best', 2), ('extra', 2)]
    """
    out, best = [], max(evidence.values())
    for splitter in dict.fromkeys(splitter for splitter, _ in evidence):
        leader = max((way for way in evidence if way[0] == splitter), key=lambda way: evidence[way])
        smaller = [mtry for mtry in mtrys if mtry < leader[1]]
        if smaller and evidence[leader] >= best - FAR and (splitter, max(smaller)) not in evidence:
            out.append((splitter, max(smaller)))
    return out


def extended(
    ways: Sequence[BandwidthPath], n_trees: int, judge: Judge, is_last: bool, *, threads: int, verbose: int
) -> list[Judged]:
    """Give each way to grow so many trees, and score what is on its path.

    Ways are worked on side by side, the slow ones first. Only few ways with many rows each are worth sharing the threads
    within them.
    """
    together = len(ways) >= 2 * threads or len(judge.targets.labels) < MANY_ROWS
    across = min(threads, len(ways)) if together else 1
    within = threads // across
    results: dict[int, Judged] = {}

    def one(k: int) -> None:
        ways[k].extend(n_trees, within)
        results[k] = judge(ways[k], is_last, within)

    order = sorted(range(len(ways)), key=lambda k: (ways[k].seconds, ways[k].limits.mtry), reverse=True)
    with announced_compiling():
        for done, _ in enumerate(in_threads(one, order, across)):
            if verbose:
                show_progress(f"tuning with {n_trees} trees", done + 1, len(ways), "ways to grow")
    return [results[k] for k in range(len(ways))]


def grow_blend(
    columns: Columns,
    targets: Targets,
    rules: Rules,
    parts: Sequence[Part],
    seed: int,
    *,
    threads: int = 1,
    verbose: int = 0,
) -> Forest:
    """Grow the trees of a blend, each part with its share of them, and note how they are read."""
    how = {"threads": threads, "whole": rules.n_estimators if verbose else 0}
    forests, readings, first = [], [], 0
    for part, n_trees in zip(parts, apportion([part.share for part in parts], rules.n_estimators), strict=True):
        mine = replace(rules, splitter=part.splitter, max_features=part.max_features, leaf_size=min(part.factors))
        limits = mine.limits(len(targets.drawable), len(columns.codes))
        if not n_trees:
            continue
        stop = first + n_trees
        forests.append(Forest.grow(columns, targets, limits, range(first, stop), seed, **how))
        readings += [Reading(first, stop, size, part.share * factor / n_trees) for size, factor in part.factors.items()]
        first = stop
    if len(readings) == 1:
        return forests[0]
    per_tree = sum(r.weight * (r.stop - r.first) for r in readings) / rules.n_estimators
    return Forest.joined(forests, [r._replace(weight=r.weight / per_tree) for r in readings])


def apportion(shares: Sequence[float], n_trees: int) -> list[int]:
    """Whole numbers of trees in proportion to shares.

    >>> apportion([0.5, 0.3, 0.2], 9)
    [4, 3, 2]
    """
    ends = np.round(np.cumsum([0.0, *shares]) / sum(shares) * n_trees).astype(int)
    return [int(n) for n in np.diff(ends)]


def rounds(n_ways: int, n_rows: int, n_estimators: int) -> list[tuple[int, bool]]:
    """Number of trees of each way to grow in every round, doubled from round to round, and whether it is the last.

    Many rows need fewer trees at first, because their scores are less noisy. In the end half of the forest decides, or 250
    trees of a large one.

    >>> rounds(14, 1000, 500)
    [(50, False), (100, False), (200, False), (250, True)]
    """
    most = max(1, min(n_estimators // 2, MOST_TREES))
    trees = [most if n_ways <= MOST_WAYS else min(most, max(24, min(100, 50_000 // n_rows)))]
    while trees[-1] < most:
        trees.append(min(most, 2 * trees[-1]))
    return [(n, k == len(trees) - 1) for k, n in enumerate(trees)]


def scored_rows(targets: Targets, choices: Open, seed: int) -> Sample:
    """Rows of positive weight in random order; not all of them if there are many, or if the sums would be too large."""
    width = len(choices.leaf_size) * len(choices.aggregate) * len(FILLS) * targets.n_classes
    most = max(256, min(MOST_ROWS, MOST_ENTRIES // width))
    return sample_rows(np.flatnonzero(targets.weight > 0), targets.labels, targets.weight, most, seed)
