"""Partitions become estimates: grown trees enter; leaf numbers, fills and class probabilities leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import route
from kernelforest._engine.layout import Columns, Flat, Limits, Targets
from kernelforest.binning import decode
from kernelforest.growing import announced_compiling, draw_counts, grow_forest, in_threads

AGGREGATES = {"vote": route.VOTE, "mean": route.MEAN, "proximity": route.PROXIMITY}
FILLS = ("inbag", "all", "oob")
_BLOCK = 1024  # rows routed at a time


@dataclass(frozen=True)
class Forest:
    """Trees, and the training rows that can be counted into them.

    Structure and fill are separate: `nodes` know no labels. The in-bag fill comes with growing; the others are counted on
    first use, by sending the training rows down the trees.
    """

    columns: Columns
    targets: Targets
    limits: Limits
    seed: int
    nodes: NDArray[np.void]  # NODE records of all trees
    sizes: NDArray[np.int32]  # (n_nodes,) in-bag draws
    sets: NDArray[np.uint16]
    starts: NDArray[np.int64]  # (n_trees + 1, 3) where nodes, leaves and set entries of a tree begin
    inbag: NDArray[np.float64]  # (n_leaves, n_classes) in-bag weight of each class
    gains: NDArray[np.float64]  # (n_trees, n_features) decrease of impurity
    _fills: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def grow(cls, columns: Columns, targets: Targets, limits: Limits, n_trees: int, seed: int, **how: Any) -> Forest:
        """Grow trees and join the batches."""
        batches = grow_forest(columns, targets, limits, n_trees, seed, **how)
        counts = np.concatenate([b.counts for b in batches])
        sums = np.concatenate([b.sums for b in batches])
        return cls(
            columns,
            targets,
            limits,
            seed,
            nodes=np.concatenate([b.nodes for b in batches]),
            sizes=np.concatenate([b.sizes for b in batches]),
            sets=np.concatenate([b.sets for b in batches]),
            starts=np.concatenate([np.zeros((1, 3), np.int64), counts.cumsum(axis=0)]),
            inbag=sums.reshape(-1, targets.n_classes),
            gains=np.concatenate([b.gains for b in batches]),
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = {k: v for k, v in self.__dict__.items() if k != "flat"}
        return kept | {"_fills": {}}  # counted again on demand

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.starts) - 1

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.targets.labels)

    @property
    def has_out_of_bag(self) -> bool:
        """Whether trees leave rows out."""
        return self.limits.replace or self.limits.n_draws < len(self.targets.drawable)

    @cached_property
    def flat(self) -> Flat:
        """The trees as the routing loops see them."""
        return Flat(self.nodes["feature"], self.nodes["child"], self.nodes["threshold"], self.sets, self.starts)

    @cached_property
    def class_shares(self) -> NDArray[np.float64]:
        """Share of each class in the training data, by weight."""
        mass = np.bincount(self.targets.labels, self.targets.weight, self.targets.n_classes)
        return np.asarray(mass / mass.sum())

    def draws(self, first: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """How often each tree drew each row, (trees, rows); drawn again from the seed."""
        trees = range(first, self.n_trees if stop is None else stop)
        return draw_counts(trees, self.seed, self.targets.drawable, self.limits, self.n_rows)

    def leaves(self, matrix: NDArray[np.float64], threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, (rows, trees)."""
        out = np.empty((len(matrix), self.n_trees), np.int32)

        def block(rows: slice) -> None:
            route.leaf_numbers(matrix[rows], self.flat, out[rows])

        self._run(block, _blocks(len(matrix)), threads)
        return out

    def training_leaves(self, first: int, stop: int, threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each training row in the trees first .. stop-1."""
        out = np.empty((self.n_rows, stop - first), np.int32)
        some = self.flat._replace(starts=self.starts[first : stop + 1])

        def block(rows: slice) -> None:
            route.leaf_numbers(decode(self.columns, rows), some, out[rows])

        self._run(block, _blocks(self.n_rows), threads)
        return out

    def fill(self, name: str, threads: int = 1) -> NDArray[np.float64]:
        """Weight of each class in each leaf, (leaves, classes): who is counted is the fill."""
        if name == "inbag":
            return self.inbag
        if name not in self._fills:
            everyone, honest = np.zeros_like(self.inbag), np.zeros_like(self.inbag)
            labels, weight = self.targets.labels, self.targets.weight
            for first, stop in self._tree_spans():
                leaves, draws = self.training_leaves(first, stop, threads), self.draws(first, stop)
                for t in range(stop - first):
                    base = self.starts[first + t, 1]
                    route.fill_tree(leaves[:, t], base, draws[t], labels, weight, everyone, honest)
            self._fills.update(all=everyone, oob=honest)
        return self._fills[name]

    def estimate(
        self, matrix: NDArray[np.float64], aggregate: str, fill: str, threads: int = 1
    ) -> NDArray[np.float64]:
        """Class probabilities of rows. Where no tree has an opinion they are the class shares of the training data."""
        sums = self.fill(fill, threads)
        out = np.zeros((len(matrix), self.targets.n_classes))

        def block(rows: slice) -> None:
            route.add_leaves(matrix[rows], self.flat, sums, AGGREGATES[aggregate], out[rows])

        self._run(block, _blocks(len(matrix)), threads)
        return self._normalised(out)

    def estimate_out_of_bag(
        self, aggregate: str, fill: str, threads: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Class probabilities of the training rows from trees that did not draw them, and the number of such trees.

        In the fills that count a row itself it is taken out again, so no row ever votes for itself.
        """
        sums = self.fill(fill, threads)
        own = self.targets.weight if fill != "inbag" else np.zeros(self.n_rows)
        labels, code = self.targets.labels, AGGREGATES[aggregate]
        out, n_trees = np.zeros((self.n_rows, self.targets.n_classes)), np.zeros(self.n_rows, np.int32)
        for first, stop in self._tree_spans():
            leaves, draws = self.training_leaves(first, stop, threads), self.draws(first, stop)

            def block(rows: slice, leaves: Any = leaves, draws: Any = draws, first: int = first) -> None:
                route.add_leaves_out_of_bag(
                    leaves[rows], first, draws[:, rows], self.flat, sums, code, own[rows], labels[rows], out[rows], n_trees[rows]
                )

            self._run(block, _blocks(self.n_rows), threads)
        return self._normalised(np.maximum(out, 0.0)), n_trees

    def importances(self) -> NDArray[np.float64]:
        """Mean decrease of impurity per feature, summing to one; zeros if no tree has a cut."""
        totals = self.gains.sum(axis=1, keepdims=True)
        shares = np.divide(self.gains, totals, out=np.zeros_like(self.gains), where=totals > 0)
        mean = shares[totals[:, 0] > 0].mean(axis=0) if (totals > 0).any() else np.zeros(self.gains.shape[1])
        return np.asarray(mean)

    def _run(self, block: Any, blocks: list[slice], threads: int) -> None:
        with announced_compiling():
            for _ in in_threads(block, blocks, threads):
                pass

    def _tree_spans(self) -> Iterator[tuple[int, int]]:
        """Spans of trees whose leaf numbers and draws for all training rows stay within about 64 MB."""
        step = max(1, 8_000_000 // self.n_rows)
        for first in range(0, self.n_trees, step):
            yield first, min(first + step, self.n_trees)

    def _normalised(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = sums.sum(axis=1, keepdims=True)
        return np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), self.class_shares)


def _blocks(n_rows: int) -> list[slice]:
    return [slice(i, min(i + _BLOCK, n_rows)) for i in range(0, n_rows, _BLOCK)]
