"""Partitions become estimates: grown trees enter; leaf numbers, fills and class probabilities leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import route
from kernelforest._engine.layout import CATEGORICAL, COLUMN, Columns, Limits, Router, Shape, Targets
from kernelforest.binning import decode, joined
from kernelforest.growing import announced_compiling, draw_counts, grow_forest, in_threads

AGGREGATES = {"vote": route.VOTE, "mean": route.MEAN, "proximity": route.PROXIMITY}
FILLS = ("inbag", "all", "oob")
_BLOCK = 32_768  # most rows sent together; their numbers fit in 16 bits


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
    first: int = 0  # number of the first tree: what is drawn depends on the number
    _fills: dict[str, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def grow(cls, columns: Columns, targets: Targets, limits: Limits, trees: range, seed: int, **how: Any) -> Forest:
        """Grow the trees of these numbers and join the batches."""
        batches = grow_forest(columns, targets, limits, trees, seed, **how)
        counts = np.concatenate([b.counts for b in batches])
        gains = np.concatenate([b.gains for b in batches])
        nodes, sizes = [b.nodes for b in batches], [b.sizes for b in batches]
        sets, sums = [b.sets for b in batches], [b.sums for b in batches]
        del batches  # so that joining lets go of each piece
        return cls(
            columns,
            targets,
            limits,
            seed,
            nodes=joined(nodes),
            sizes=joined(sizes),
            sets=joined(sets),
            starts=np.concatenate([np.zeros((1, 3), np.int64), counts.cumsum(axis=0)]),
            inbag=joined(sums).reshape(-1, targets.n_classes),
            gains=gains,
            first=trees.start,
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = {k: v for k, v in self.__dict__.items() if k != "router"}
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
        return self.limits.leaves_rows_out(len(self.targets.drawable))

    @cached_property
    def router(self) -> Router:
        """The trees in the form in which rows are sent down them, made on first use."""
        return make_router(self.nodes, self.sets, self.starts)

    @cached_property
    def class_shares(self) -> NDArray[np.float64]:
        """Share of each class in the training data, by weight."""
        mass = np.bincount(self.targets.labels, self.targets.weight, self.targets.n_classes)
        return np.asarray(mass / mass.sum())

    def draws(self, first: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """How often each tree drew each row, (trees, rows); drawn again from the seed."""
        trees = range(self.first + first, self.first + (self.n_trees if stop is None else stop))
        return draw_counts(trees, self.seed, self.targets, self.limits)

    def leaves(self, matrix: NDArray[np.floating], threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, (rows, trees)."""
        out = np.empty((len(matrix), self.n_trees), np.int32)
        self._send(lambda rows: matrix[rows], self.router, out, threads)
        return out

    def training_leaves(self, first: int, stop: int, threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each training row in the trees first .. stop-1."""
        out = np.empty((self.n_rows, stop - first), np.int32)
        some = self.router._replace(starts=self.starts[first : stop + 1])
        self._send(lambda rows: decode(self.columns, rows), some, out, threads)
        return out

    def fill(self, name: str, threads: int = 1) -> NDArray[np.float64]:
        """Weight of each class in each leaf, (leaves, classes): who is counted is the fill."""
        if name == "inbag":
            return self.inbag
        if name not in self._fills:
            everyone, honest = np.zeros_like(self.inbag), np.zeros_like(self.inbag)
            labels, weight = self.targets.labels, self.targets.weight
            for first, stop in self.tree_spans():
                leaves, draws = self.training_leaves(first, stop, threads), self.draws(first, stop)
                route.fill_leaves(leaves, self.starts[first:], draws, labels, weight, everyone, honest)
            self._fills.update(all=everyone, oob=honest)
        return self._fills[name]

    def estimate(self, matrix: NDArray[np.floating], aggregate: str, fill: str, threads: int = 1) -> NDArray[np.float64]:
        """Class probabilities of rows. Where no tree has an opinion they are the class shares of the training data."""
        sums = self.fill(fill, threads)
        out = np.zeros((len(matrix), self.targets.n_classes))
        self._send(lambda rows: matrix[rows], self.router, out, threads, sums, AGGREGATES[aggregate])
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
        for first, stop in self.tree_spans():
            leaves, draws = self.training_leaves(first, stop, threads), self.draws(first, stop)

            starts = self.starts[first:]

            def block(rows: slice, leaves: Any = leaves, draws: Any = draws, starts: Any = starts) -> None:
                about = own[rows], labels[rows], out[rows], n_trees[rows]
                route.add_out_of_bag(leaves[rows], starts, draws[:, rows], sums, code, *about)

            self.run(block, row_blocks(self.n_rows, threads), threads)
        return self._normalised(np.maximum(out, 0.0)), n_trees

    def importances(self) -> NDArray[np.float64]:
        """Mean decrease of impurity per feature, summing to one; zeros if no tree has a cut."""
        totals = self.gains.sum(axis=1, keepdims=True)
        shares = np.divide(self.gains, totals, out=np.zeros_like(self.gains), where=totals > 0)
        mean = shares[totals[:, 0] > 0].mean(axis=0) if (totals > 0).any() else np.zeros(self.gains.shape[1])
        return np.asarray(mean)

    def _send(
        self,
        read: Callable[[slice], NDArray[np.floating]],
        router: Router,
        out: NDArray[Any],
        threads: int,
        sums: NDArray[np.float64] | None = None,
        aggregate: int = 0,
    ) -> None:
        """Code blocks of rows and send them down the trees, on threads."""
        numeric = not router.categorical.any()
        small = np.diff(router.offsets).max(initial=0) < np.iinfo(np.uint16).max

        def block(rows: slice) -> None:
            z = np.ascontiguousarray(read(rows))  # float32 is widened by the loops
            codes = np.empty((len(router.used), len(z)), np.uint16 if small else np.uint32)
            missing = route.code_rows(z, router, codes)
            route.descend(codes, numeric and not missing, router, aggregate, sums, out[rows])

        self.run(block, row_blocks(len(out), threads), threads)

    @staticmethod
    def run(block: Callable[[Any], None], blocks: list[Any], threads: int) -> None:
        """Do compiled work on blocks, on threads."""
        with announced_compiling():
            for _ in in_threads(block, blocks, threads):
                pass

    def tree_spans(self) -> Iterator[tuple[int, int]]:
        """Spans of trees whose leaf numbers and draws for all training rows stay within about 64 MB."""
        step = max(1, 8_000_000 // self.n_rows)
        for first in range(0, self.n_trees, step):
            yield first, min(first + step, self.n_trees)

    def _normalised(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = sums.sum(axis=1, keepdims=True)
        return np.where(totals > 0, sums / np.where(totals > 0, totals, 1.0), self.class_shares)


def make_router(nodes: NDArray[np.void], sets: NDArray[np.uint16], starts: NDArray[np.int64]) -> Router:
    """Number the distinct thresholds of each column, and rewrite nodes in terms of those numbers."""
    n_nodes = np.diff(starts[:, 0])
    inner = nodes["feature"] >= 0
    flags = np.where(inner, nodes["feature"], 0)
    used, place = np.unique(flags & COLUMN, return_inverse=True)  # column 0 stays, for the leaves
    subset = (flags & CATEGORICAL) != 0
    cut = np.where(subset, nodes["threshold"], 0.0).astype(np.uint64)
    cuts, categorical = [np.zeros(1)] * len(used), np.zeros(len(used), dtype=bool)
    where = np.flatnonzero(inner)
    where = where[np.argsort(place[where], kind="stable")]
    for j, mine in enumerate(np.split(where, np.searchsorted(place[where], np.arange(1, len(used))))):
        if len(mine) and subset[mine[0]]:
            categorical[j] = True
        elif len(mine):
            cuts[j], cut[mine] = np.unique(nodes["threshold"][mine], return_inverse=True)
    widths = [int(x).bit_length() for x in (max(cut.max(), max(map(len, cuts))), len(used), n_nodes.max())]
    if sum(widths) > 64:
        raise ValueError(f"a tree of {n_nodes.max()} nodes over {len(used)} columns is too large to be indexed")
    shape = Shape(*(np.uint64(x) for x in (widths[0] + widths[1], widths[0], 2 ** widths[1] - 1, 2 ** widths[0] - 1)))
    cut[~inner] = shape.cut_mask  # nothing lies above: a leaf is its own left child
    own = np.arange(len(nodes)) - np.repeat(starts[:-1, 0], n_nodes)
    child = np.where(inner, nodes["child"], own).astype(np.uint64)
    return Router(
        words=(child << shape.child) | (place.astype(np.uint64) << shape.column) | cut,
        extras=np.where(inner, flags, nodes["child"]).astype(np.uint32),
        shape=shape,
        sets=sets,
        starts=starts,
        used=used.astype(np.int64),
        categorical=categorical,
        offsets=np.cumsum([0] + [len(c) for c in cuts], dtype=np.int64),
        cuts=np.concatenate(cuts),
        deepest=int(n_nodes.max()),
    )


def row_blocks(n_rows: int, threads: int) -> list[slice]:
    """Blocks of rows: large, because rows share the reading of a node, but at least two for each thread."""
    size = max(1, min(_BLOCK, -(-n_rows // (2 * threads))))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]
