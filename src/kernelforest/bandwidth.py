"""The bandwidth path: rules of growth enter; out-of-bag probabilities of every leaf size, aggregate and fill leave.

Trees are grown once, down to the smallest leaf size that is tried. The tree of a larger leaf size is the same tree, cut off
earlier, so one walk of each out-of-bag row from its leaf to the root finds where it would have ended under every leaf size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import path
from kernelforest._engine.layout import Columns, Limits, Targets
from kernelforest.forest import AGGREGATES, FILLS, Forest
from kernelforest.routing import row_blocks
from kernelforest.threads import run

NEAR_BYTES = 4_000_000  # of fills that rows walk through together: what caches hold
MOST_ENTRIES = 8_000_000  # of the sums of one path: 32 MB, for each way to grow that is tried


def leaf_sizes(n_rows: int) -> NDArray[np.int64]:
    """Up to 25 leaf sizes from one to nine tenths of the rows, in equal ratios.

    Half the rows would not do: of two leaves one is nearly always larger, so hardly a tree would stop at a single cut.

    >>> leaf_sizes(100).tolist()
    [1, 2, 3, 4, 5, 7, 8, 9, 11, 14, 17, 20, 24, 29, 35, 43, 51, 62, 75, 90]
    """
    return np.unique(np.geomspace(1, max(1, 9 * n_rows // 10), 25).round().astype(np.int64))


@dataclass(eq=False)
class BandwidthPath:
    """Out-of-bag sums of one way to grow trees, to which more trees can be added."""

    columns: Columns
    targets: Targets
    limits: Limits  # of the trees, whose leaf size is the smallest of `sizes`
    seed: int
    rows: NDArray[np.int64]  # training rows that are scored
    sizes: NDArray[np.int64]  # leaf sizes, ascending
    aggregates: tuple[str, ...]
    n_trees: int = 0
    seconds: float = 0.0  # spent so far
    # (rows, leaf sizes, aggregates * fills * classes): what opinions add up to, as changes from leaf size to leaf size
    steps: NDArray[np.float32] = field(init=False)  # many, and of seven digits: scores need no more

    def __post_init__(self) -> None:
        width = len(self.aggregates) * len(FILLS) * self.targets.n_classes
        self.steps = np.zeros((len(self.rows), len(self.sizes), width), np.float32)

    def extend(self, n_trees: int, threads: int = 1) -> None:
        """Grow trees until there are so many, and add what they say about the rows they did not draw."""
        if n_trees <= self.n_trees:
            return
        began = perf_counter()
        deep = self.limits._replace(leaf_size=int(self.sizes[0]))
        forest = Forest.grow(self.columns, self.targets, deep, range(self.n_trees, n_trees), self.seed, threads=threads)
        fills = len(forest.nodes) // forest.n_trees * len(FILLS) * (self.targets.n_classes + 1)
        for first, stop in forest.tree_spans(more=fills):
            self._add(forest, first, stop, threads)
        self.n_trees = n_trees
        self.seconds += perf_counter() - began

    @property
    def sums(self) -> NDArray[np.float32]:
        """What opinions about each row add up to, (rows, leaf sizes, aggregates, fills, classes)."""
        sums: NDArray[np.float32] = self.steps.cumsum(axis=1)
        return sums.reshape(*sums.shape[:2], len(self.aggregates), len(FILLS), self.targets.n_classes)

    def probabilities(
        self, sizes: NDArray[np.int64], n_rows: int, fills: Sequence[str] = FILLS
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Out-of-bag probabilities of the first rows, (aggregates, fills, leaf sizes, rows, classes), and their mass.

        Where no tree speaks they are the class shares. The mass, (aggregates, fills, leaf sizes), is what opinions about
        a row add up to, on average: for the aggregate mean, trees that have one; for proximity, the rows in their leaves.
        """
        targets, shape = self.targets, (len(self.aggregates), len(fills), len(sizes))
        kinds = [a * len(FILLS) + FILLS.index(fill) for a in range(len(self.aggregates)) for fill in fills]
        places = np.where(np.isin(self.sizes, sizes), np.searchsorted(sizes, self.sizes), -1)
        proba, mass = np.empty((len(kinds), len(sizes), n_rows, targets.n_classes)), np.empty((len(kinds), len(sizes)))
        path.read_path(self.steps[:n_rows], np.array(kinds), places, targets.shares, proba, mass)
        return proba.reshape(*shape, n_rows, targets.n_classes), mass.reshape(shape)

    def _add(self, forest: Forest, first: int, stop: int, threads: int) -> None:
        """Let the trees first .. stop-1 of a forest speak."""
        labels, weight = self.targets.labels, self.targets.weight
        starts = forest.starts[first : stop + 1]
        nodes = slice(starts[0, 0], starts[-1, 0])
        inbag, sizes = forest.inbag[starts[0, 1] : starts[-1, 1]], forest.sizes[nodes]
        starts = starts - starts[0]
        leaves, draws = forest.training_leaves(first, stop, threads), forest.draws(first, stop)
        parents, leaf_nodes = np.empty(len(sizes), np.int32), np.empty(len(inbag), np.int32)
        fills = np.zeros((len(sizes), len(FILLS), self.targets.n_classes + 1))
        begins, above, entries = np.empty_like(parents), np.empty_like(parents), np.empty_like(leaf_nodes)
        usual = self.targets.n_classes == 2 and self.aggregates == ("mean", "proximity")
        codes = None if usual else np.array([AGGREGATES[name] for name in self.aggregates])
        n_near = max(1, NEAR_BYTES * (stop - first) // fills.nbytes)
        path.link_nodes(forest.nodes["feature"][nodes], forest.nodes["child"][nodes], starts, parents, leaf_nodes)
        path.link_ends(parents, sizes, leaf_nodes, self.sizes, begins, above, entries)

        def fill(trees: slice) -> None:
            for tree in range(trees.start, trees.stop):
                path.fill_nodes(tree, starts, inbag, leaves, draws, labels, weight, parents, leaf_nodes, fills)

        def walk(block: slice) -> None:
            tree_side = starts, begins, above, entries, fills
            row_side = leaves, draws, labels, weight, codes, self.steps[block]
            for a in range(0, stop - first, n_near):
                path.add_path(a, min(a + n_near, stop - first), self.rows[block], *tree_side, *row_side)

        run(fill, row_blocks(stop - first, threads), threads)
        run(walk, row_blocks(len(self.rows), 2 * threads), threads)
