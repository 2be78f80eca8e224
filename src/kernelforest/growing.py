"""Codes become partitions: a coded table, labels and rules enter, flat trees leave."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from numbers import Integral, Real
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from kernelforest._engine import grow
from kernelforest._engine.layout import NODE, Columns, Limits, Targets, Trees
from kernelforest.compiling import announced_compiling, wait_for_the_rest
from kernelforest.threads import in_threads

SPLITTERS = {
    "best": grow.BEST,
    "extra": grow.EXTRA,
    "random": grow.RANDOM,
    "random-observed": grow.OBSERVED,
}
MAX_FEATURES: dict[str, Callable[[int], int]] = {
    "sqrt": lambda p: ceil(sqrt(p)),
    "third": lambda p: ceil(p / 3),
    "all": lambda p: p,
}


@dataclass(frozen=True)
class Rules:
    """How trees are grown. Checked when made, resolved to numbers when the size of the table is known.

    >>> Rules(max_features="third").limits(n_rows=100, n_features=10).mtry
    4
    """

    n_estimators: int = 500
    max_features: int | float | str = "sqrt"
    leaf_size: int = 1
    splitter: str = "best"
    bootstrap: bool = True
    max_samples: int | float | None = None
    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    constants_count: bool = False  # as in R: a feature that is constant in a node uses up one of the draws

    def __post_init__(self) -> None:
        _check_count("n_estimators", self.n_estimators, 1)
        _check_count("leaf_size", self.leaf_size, 1, " or 'auto'")
        if self.max_depth is not None:
            _check_count("max_depth", self.max_depth, 0, " or None")
        if self.max_leaf_nodes is not None:
            _check_count("max_leaf_nodes", self.max_leaf_nodes, 1, " or None")
        if not isinstance(self.splitter, str) or self.splitter not in SPLITTERS:
            raise ValueError(f"splitter must be 'auto' or one of {sorted(SPLITTERS)}, got {self.splitter!r}")
        if not isinstance(self.bootstrap, bool | np.bool_):
            raise TypeError(f"bootstrap must be True or False, got {self.bootstrap!r}")
        if self.max_features is None or (isinstance(self.max_features, str) and self.max_features not in MAX_FEATURES):
            kind = TypeError if self.max_features is None else ValueError
            raise kind(f"max_features must be a number, 'auto' or one of {sorted(MAX_FEATURES)}, got {self.max_features!r}")

    def limits(self, n_rows: int, n_features: int) -> Limits:
        """Resolve the rules for a table; `n_rows` counts the rows that can be drawn."""
        name = self.max_features
        if isinstance(name, str):
            mtry = MAX_FEATURES[name](n_features)
        else:
            mtry = _share_or_count("max_features", name, n_features, "the number of features")
        if self.splitter.startswith("random"):
            mtry = 1
        draws = n_rows
        if self.max_samples is not None:
            draws = _share_or_count("max_samples", self.max_samples, n_rows, "the number of rows or groups")
        return Limits(
            mtry=mtry,
            most_drawn=mtry if self.constants_count else n_features,
            leaf_size=_capped(self.leaf_size),
            max_depth=_capped(self.max_depth),
            max_leaves=_capped(self.max_leaf_nodes),
            splitter=SPLITTERS[self.splitter],
            n_draws=draws,
            replace=bool(self.bootstrap),
        )


def make_targets(
    labels: NDArray[np.int32],
    n_classes: int,
    weight: NDArray[np.float64] | None = None,
    class_weight: NDArray[np.float64] | None = None,
    groups: NDArray[np.int64] | None = None,
) -> Targets:
    """Combine labels with weights: both kinds count in the criterion, class weights never in a leaf.

    With `groups` (their numbers, one per row) whole groups are drawn, not rows.
    """
    n_rows = len(labels)
    fill = np.ones(n_rows) if weight is None else weight
    mass = fill / fill.max()  # exactly one for all, if all weigh the same: rounding would break ties
    if class_weight is not None:
        mass = mass * class_weight[labels]
    drawable = np.flatnonzero(fill > 0).astype(np.int32)
    if groups is None:
        return Targets(labels, mass, fill, drawable, n_classes)
    names, counts = np.unique(groups[drawable], return_counts=True)
    members = np.where(np.isin(groups, names), np.searchsorted(names, groups), -1).astype(np.int32)
    return Targets(labels, mass, fill, np.arange(len(counts), dtype=np.int32), n_classes, members, int(counts.max()))


def grow_forest(
    columns: Columns, targets: Targets, limits: Limits, trees: range, seed: int, *, threads: int = 1, whole: int = 0
) -> list[Trees]:
    """Grow the trees of these numbers, in batches on threads. The result depends on the seed alone.

    If `whole` is not zero, a bar shows how many there are of that many.
    """
    batches = _batches(trees, threads)
    rooms: SimpleQueue[Any] = SimpleQueue()  # one for each thread, allocated here: what threads free is not given back
    for _ in range(min(threads, len(batches))):
        levels = _levels(columns, targets)
        rooms.put((*_room(columns, targets, limits, levels is not None), levels, _masses(targets)))

    def batch(bounds: tuple[int, int]) -> Trees:
        room = rooms.get()
        try:
            grown: Trees = grow.grow_trees(*bounds, np.uint64(seed), columns, targets, limits, *room, targets.groups)
        finally:
            rooms.put(room)
        return grown

    with announced_compiling():
        grown = list(_with_progress(in_threads(batch, batches, threads), batches, whole))
    wait_for_the_rest()
    return grown


def draw_counts(trees: Sequence[int], seed: int, targets: Targets, limits: Limits) -> NDArray[np.int32]:
    """How often each tree drew each row: drawn again from the seed, not stored.

    Less than zero: a row of weight zero, which did not count, but whose group the tree drew.
    """
    out = np.empty((len(trees), len(targets.labels)), np.int32)
    with np.errstate(over="ignore"):
        for k, tree in enumerate(trees):
            if targets.groups is None:
                grow.draw_sample(np.uint64(seed), tree, targets.drawable, limits, out[k])
            else:
                grow.draw_groups(np.uint64(seed), tree, targets.drawable, targets.groups, targets.weight, limits, out[k])
    return out


def draw_seed(random_state: Any) -> int:
    """A seed below 2^31 from what scikit-learn calls a random state.

    >>> draw_seed(0) == draw_seed(0)
    True
    """
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        law = "random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState of numpy"
        raise ValueError(f"{law}, got {random_state!r}") from None


def show_progress(what: str, done: int, whole: int, unit: str) -> None:
    """Draw a progress bar over the last one; it ends its line when it is full."""
    bar = "#" * (30 * done // whole)
    end = "\n" if done == whole else ""
    print(f"\r{what} [{bar:<30}] {done}/{whole} {unit}", end=end, file=sys.stderr, flush=True)


def _batches(trees: range, threads: int) -> list[tuple[int, int]]:
    """Cut the trees into a few batches per thread, so that threads finish together."""
    size = max(1, len(trees) // (8 * threads))
    return [(first, min(first + size, trees.stop)) for first in range(trees.start, trees.stop, size)]


def _with_progress(grown: Iterator[Trees], batches: list[tuple[int, int]], whole: int) -> Iterator[Trees]:
    for batch, (_, stop) in zip(grown, batches, strict=True):
        if whole:
            show_progress("growing", stop, whole, "trees")
        yield batch


def _is_counted(targets: Targets) -> bool:
    """Two classes (or one) and equal masses: the engine then searches in integers."""
    drawn = targets.mass[targets.weight > 0]
    return targets.n_classes <= 2 and bool((drawn == drawn[0]).all())


def _masses(targets: Targets) -> grow.Masses | None:
    if _is_counted(targets):
        return None
    n = len(targets.labels)
    left, right, gone = np.empty((3, targets.n_classes))
    return grow.Masses(targets.labels, np.empty(n), left, right, gone, np.empty(n + 1))


def _levels(columns: Columns, targets: Targets) -> grow.Levels | None:
    categorical = np.flatnonzero(columns.kinds & 1)
    if not len(categorical):
        return None
    most = max(1, int(np.diff(columns.offsets)[categorical].max()))
    room = np.empty((1 if _is_counted(targets) else most, targets.n_classes))
    ahead, mean, step = np.empty((3, targets.n_classes))
    return grow.Levels(np.zeros(most, np.uint8), np.empty(most, np.int64), room, np.empty(most), ahead, mean, step)


def _room(columns: Columns, targets: Targets, limits: Limits, lists: bool) -> tuple[grow.Scratch, grow.Draft]:
    """Where a tree is grown: allocated here, because in the engine that would take a second to compile."""
    p, n = columns.codes.shape
    widest = max(1, int(np.diff(columns.offsets).max(initial=1)))
    n_drawn = limits.n_draws * targets.largest_group
    room = min(n, n_drawn) + 1
    scratch = grow.Scratch(
        np.empty(room, np.uint32),
        np.empty(room, np.int64),
        np.empty(room, np.uint32),
        np.empty(room, np.int64),
        np.empty(room, np.int32),
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.empty(widest + 1, np.int64),
        np.empty(max(room, widest + 1), np.uint8),
        np.empty(257, np.int64),
        columns.order.copy(),
        np.empty(p, np.int32),
    )
    # levels are listed on the side with fewer draws, so each draw at most log2(draws) times
    n_listable = room * (2 + int(np.log2(n_drawn))) if lists else 1
    n_slots = min(limits.max_leaves, room) + 3 if limits.max_leaves < grow.NO_LIMIT else 64
    draft = grow.Draft(
        np.empty(2 * room, NODE),
        np.empty(2 * room, np.int32),
        np.empty((2 * room, 2), np.int32),
        np.empty(n_listable, np.uint16),
        np.empty((n_slots, 9), np.int64),
        np.empty((n_slots, 3), np.float64),
        np.empty(n_slots, np.uint64),
        np.empty((n_slots, (p + 63) // 64), np.uint64),
        np.empty((2, 4), np.int64),
        np.empty(2, np.uint64),
    )
    return scratch, draft


def _capped(count: int | None) -> int:
    """A limit as the engine takes it; None is no limit."""
    return int(grow.NO_LIMIT if count is None else min(int(count), grow.NO_LIMIT))


def _check_count(name: str, value: Any, least: int, other: str = "") -> None:
    law = f"{name} must be an integer >= {least}{other}, got {value!r}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(law)
    if value < least:
        raise ValueError(law)


def _share_or_count(name: str, value: Any, whole: int, whole_name: str) -> int:
    """A count up to `whole`, or a fraction of it in (0, 1]."""
    law = f"{name} must be an integer from 1 to {whole_name} ({whole}) or a fraction in (0, 1], got {value!r}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(law)
    if isinstance(value, Integral):
        count = int(value)
    else:
        share = float(value)
        count = max(1, int(share * whole + 1e-9)) if 0.0 < share <= 1.0 else 0  # 0.29 of 100 is 29
    if not 1 <= count <= whole:
        raise ValueError(law)
    return count
