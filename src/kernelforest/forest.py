"""Partitions become estimates: grown trees enter; leaf numbers, fills and class probabilities leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import fills, path
from kernelforest._engine.layout import MEAN, PROXIMITY, VOTE, Columns, Limits, Router, Targets
from kernelforest.binning import joined
from kernelforest.growing import draw_counts, grow_forest
from kernelforest.routing import make_router, make_training_router, row_blocks, send_table, send_training_rows
from kernelforest.threads import run

AGGREGATES = {"vote": VOTE, "mean": MEAN, "proximity": PROXIMITY}
FILLS = ("inbag", "all", "oob")


class Reading(NamedTuple):
    """Some trees, and a leaf size at which they are read."""

    first: int
    stop: int  # the trees first .. stop-1
    leaf_size: int
    weight: float  # of what they say


class CutTrees(NamedTuple):
    """The trees, cut off at a larger leaf size than they were grown with."""

    leads: NDArray[np.int32]  # (n_leaves,) the leaf of the cut trees in which each leaf lies, through all trees
    numbers: NDArray[np.int32]  # (n_nodes,) of the nodes that are leaves of the cut trees; -1: not one of them
    n_leaves: int  # of the cut trees

    def sums(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up what the leaves hold, (leaves of the cut trees, classes)."""
        return np.stack([np.bincount(self.leads, column, self.n_leaves) for column in counts.T], axis=1)


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees, and the training rows that can be counted into them.

    Structure and fill are separate: `nodes` know no labels. The in-bag fill comes with growing; the others are counted on
    first use, by sending the training rows down the trees.

    Trees can be read at several leaf sizes at once: under each of them a row ends in another node, and what the tree says
    about the row is the weighted sum of what these nodes say.
    """

    columns: Columns
    targets: Targets
    limits: Limits  # of the first trees; what is drawn for a tree is the same for all
    seed: int
    nodes: NDArray[np.void]  # NODE records of all trees
    sizes: NDArray[np.int32]  # (n_nodes,) in-bag draws
    sets: NDArray[np.uint16]
    starts: NDArray[np.int64]  # (n_trees + 1, 3) where nodes, leaves and set entries of a tree begin
    inbag: NDArray[np.float64]  # (n_leaves, n_classes) in-bag weight of each class
    gains: NDArray[np.float64]  # (n_trees, n_features) decrease of impurity
    first: int = 0  # number of the first tree: what is drawn depends on the number
    readings: tuple[Reading, ...] = ()  # weights add up to one per tree on average; none: all trees as they were grown
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

    @classmethod
    def joined(cls, forests: Sequence[Forest], readings: Sequence[Reading]) -> Forest:
        """Several forests as one: grown on the same rows with the same seed, tree numbers one after another."""
        ends = np.cumsum([[0, 0, 0]] + [forest.starts[-1] for forest in forests], axis=0)
        starts = [forest.starts[:-1] + end for forest, end in zip(forests, ends[:-1], strict=True)]
        return replace(
            forests[0],
            nodes=np.concatenate([forest.nodes for forest in forests]),
            sizes=np.concatenate([forest.sizes for forest in forests]),
            sets=np.concatenate([forest.sets for forest in forests]),
            starts=np.concatenate([*starts, ends[-1:]]),
            inbag=np.concatenate([forest.inbag for forest in forests]),
            gains=np.concatenate([forest.gains for forest in forests]),
            readings=tuple(readings),
            _fills={},
        )

    def __getstate__(self) -> dict[str, Any]:
        kept = {k: v for k, v in self.__dict__.items() if k not in ("router", "links")}
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
        return self.targets.shares

    def draws(self, first: int = 0, stop: int | None = None) -> NDArray[np.int32]:
        """How often each tree drew each row, (trees, rows); drawn again from the seed. See `draw_counts`."""
        trees = range(self.first + first, self.first + (self.n_trees if stop is None else stop))
        return draw_counts(trees, self.seed, self.targets, self.limits)

    def leaves(self, matrix: NDArray[np.floating], threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each row in each tree, (rows, trees)."""
        out = np.empty((len(matrix), self.n_trees), np.int32)
        send_table(matrix, self.router, out, threads)
        return out

    def training_leaves(self, first: int, stop: int, threads: int = 1) -> NDArray[np.int32]:
        """Leaf number of each training row in the trees first .. stop-1."""
        out = np.empty((self.n_rows, stop - first), np.int32)
        begin, end = self.starts[first], self.starts[stop]
        nodes, sets = self.nodes[begin[0] : end[0]], self.sets[begin[2] : end[2]]
        router = make_training_router(nodes, sets, self.starts[first : stop + 1] - begin, self.columns)
        send_training_rows(self.columns, router, out, threads)
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
                fills.fill_leaves(leaves, self.starts[first:], draws, labels, weight, everyone, honest)
            self._fills.update(all=everyone, oob=honest)
        return self._fills[name]

    @cached_property
    def links(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Parent of each node (-1 for a root) and node of each leaf, numbered through all trees."""
        parents, leaf_nodes = np.empty(len(self.nodes), np.int32), np.empty(len(self.inbag), np.int32)
        path.link_nodes(self.nodes["feature"], self.nodes["child"], self.starts, parents, leaf_nodes)
        return parents, leaf_nodes

    def cut(self, size: int) -> CutTrees:
        """Where rows end in the trees of a larger leaf size; the same leaves if it is not larger."""
        parents, leaf_nodes = self.links
        ends, numbers, leads = np.empty_like(parents), np.empty_like(parents), np.empty_like(leaf_nodes)
        n_leaves = path.cut_trees(parents, self.sizes, leaf_nodes, size, ends, numbers, leads)
        return CutTrees(leads, numbers, int(n_leaves))

    def coarser(self, size: int) -> Forest:
        """The forest of a larger leaf size."""
        cut, parents = self.cut(size), self.links[0]
        is_leaf = cut.numbers >= 0
        kept = is_leaf | ((self.sizes > size) & ((parents < 0) | (self.sizes[parents] > size)))
        starts = self.starts.copy()
        starts[:, 0], starts[:, 1] = (np.append(0, flags.cumsum())[self.starts[:, 0]] for flags in (kept, is_leaf))
        tree = np.repeat(np.arange(self.n_trees), np.diff(self.starts[:, 0]))
        place = kept.cumsum() - 1 - starts[tree, 0]
        nodes = self.nodes.copy()
        inner = np.flatnonzero(kept & ~is_leaf)
        nodes["child"][inner] = place[self.starts[tree[inner], 0] + nodes["child"][inner]]
        nodes["child"][is_leaf] = (cut.numbers - starts[tree, 1])[is_leaf]
        nodes["feature"][is_leaf], nodes["threshold"][is_leaf] = -1, 0.0
        return replace(
            self,
            limits=self.limits._replace(leaf_size=max(size, self.limits.leaf_size)),
            nodes=nodes[kept],
            sizes=self.sizes[kept],
            starts=starts,
            inbag=cut.sums(self.inbag),
            readings=(),
            _fills={},
        )

    def trees(self, first: int, stop: int) -> Forest:
        """The forest of the trees first .. stop-1, as they were grown; nothing is copied."""
        starts = self.starts[first : stop + 1]
        (a, c, e), (b, d, f) = starts[0], starts[-1]
        return replace(
            self,
            nodes=self.nodes[a:b],
            sizes=self.sizes[a:b],
            sets=self.sets[e:f],
            starts=starts - starts[0],
            inbag=self.inbag[c:d],
            gains=self.gains[first:stop],
            first=self.first + first,
            readings=(),
            _fills={},
        )

    @property
    def all_readings(self) -> tuple[Reading, ...]:
        """The readings; if there are none, that of all trees as they were grown."""
        return self.readings or (Reading(0, self.n_trees, self.limits.leaf_size, 1.0),)

    def cuts(self) -> Iterator[tuple[Reading, CutTrees]]:
        """Readings, and where rows end in each; leaves are numbered through the trees of the reading."""
        for (first, stop), readings in groupby(self.all_readings, key=lambda r: r[:2]):
            trees = self.trees(first, stop)
            for reading in readings:
                yield reading, trees.cut(reading.leaf_size)

    def parts(self) -> list[tuple[float, Forest]]:
        """Shares, adding up to one, and forests: each reading as a forest of its own."""
        if not self.readings:
            return [(1.0, self)]
        return [
            (r.weight * (r.stop - r.first) / self.n_trees, self.trees(r.first, r.stop).coarser(r.leaf_size))
            for r in self.readings
        ]

    def leaves_of(self, reading: Reading) -> slice:
        """Where the leaves of its trees are."""
        return slice(*self.starts[[reading.first, reading.stop], 1].tolist())

    def opinions(self, aggregate: str, fill: str, threads: int = 1) -> NDArray[np.float64]:
        """What each leaf says, (leaves, classes): to be added up over the trees.

        If trees are read at several leaf sizes, that is the weighted sum of what the leaves of the cut trees say.
        """
        counts = self.fill(fill, threads)
        if aggregate == "proximity" and not self.readings:
            return counts
        name = f"{aggregate} {fill}"
        if name not in self._fills:
            self._fills[name] = self._form_opinions(counts, aggregate)
        return self._fills[name]

    def _form_opinions(self, counts: NDArray[np.float64], aggregate: str) -> NDArray[np.float64]:
        if not self.readings:
            return form_opinions(counts, aggregate)
        out = np.zeros_like(counts)
        for reading, cut in self.cuts():
            mine = self.leaves_of(reading)
            out[mine] += (reading.weight * form_opinions(cut.sums(counts[mine]), aggregate))[cut.leads]
        return out

    def estimate(self, matrix: NDArray[np.floating], aggregate: str, fill: str, threads: int = 1) -> NDArray[np.float64]:
        """Class probabilities of rows. Where no tree has an opinion they are the class shares of the training data."""
        opinions = self.opinions(aggregate, fill, threads)
        out = np.zeros((len(matrix), self.targets.n_classes))
        send_table(matrix, self.router, out, threads, opinions)
        fills.normalise(out, self.class_shares)
        return out

    def estimate_out_of_bag(
        self, aggregate: str, fill: str, threads: int = 1
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Class probabilities of the training rows from trees that did not draw them, and the number of such trees.

        In the fills that count a row itself it is taken out again, so no row ever votes for itself. If no other row is left
        in any of its leaves, no tree speaks: the number is 0, and the probabilities are the class shares.
        """
        counts = self.fill(fill, threads)
        own = self.targets.weight if fill != "inbag" else np.zeros(self.n_rows)
        out, n_trees = np.zeros((self.n_rows, self.targets.n_classes)), np.zeros(self.n_rows, np.int32)
        for span, group in groupby(self.cuts(), key=lambda entry: entry[0][:2]):
            readings, cuts = zip(*group, strict=True)
            sums, spoke = self._add_out_of_bag(span, cuts, counts, AGGREGATES[aggregate], own, threads)
            out += np.tensordot([r.weight for r in readings], np.maximum(sums, 0.0), 1)
            n_trees += spoke
        n_trees[~out.any(axis=1)] = 0  # rows alone in the honest leaves they are in
        fills.normalise(out, self.class_shares)
        return out, n_trees

    def _add_out_of_bag(
        self,
        span: tuple[int, int],
        cuts: Sequence[CutTrees],
        counts: NDArray[np.float64],
        aggregate: int,
        own: NDArray[np.float64],
        threads: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
        """Sums of opinions of some trees about the training rows, (cuts, rows, classes), and how many of them spoke."""
        mine = slice(*self.starts[list(span), 1])
        counted = [cut.sums(counts[mine]) for cut in cuts]
        out = np.zeros((len(cuts), self.n_rows, self.targets.n_classes))
        n_trees = np.zeros((len(cuts), self.n_rows), np.int32)
        for first, stop in self.tree_spans(*span):
            leaves, draws = self.training_leaves(first, stop, threads), self.draws(first, stop)
            leaves += (self.starts[first:stop, 1] - mine.start).astype(np.int32)

            def block(rows: slice, leaves: Any = leaves, draws: Any = draws) -> None:
                for k, (cut, sums) in enumerate(zip(cuts, counted, strict=True)):
                    about = own[rows], self.targets.labels[rows], out[k, rows], n_trees[k, rows]
                    fills.add_out_of_bag(leaves[rows], cut.leads, draws, rows.start, sums, aggregate, *about)

            run(block, row_blocks(self.n_rows, threads), threads)
        return out, n_trees[0]

    def importances(self) -> NDArray[np.float64]:
        """Mean decrease of impurity per feature, summing to one; zeros if no tree has a cut."""
        totals = self.gains.sum(axis=1, keepdims=True)
        shares = np.divide(self.gains, totals, out=np.zeros_like(self.gains), where=totals > 0)
        mean = shares[totals[:, 0] > 0].mean(axis=0) if (totals > 0).any() else np.zeros(self.gains.shape[1])
        return np.asarray(mean)

    def tree_spans(self, first: int = 0, stop: int | None = None, more: int = 0) -> Iterator[tuple[int, int]]:
        """Spans of the trees first .. stop-1 whose leaf numbers and draws for all training rows stay within about 64 MB.

        `more` counts further numbers for each tree, which have to fit into that, too.
        """
        step, stop = max(1, 8_000_000 // (self.n_rows + more)), self.n_trees if stop is None else stop
        for begin in range(first, stop, step):
            yield begin, min(begin + step, stop)


def form_opinions(counts: NDArray[np.float64], aggregate: str) -> NDArray[np.float64]:
    """What leaves say: their counts, their shares, or a vote for the largest class. Empty ones say nothing.

    >>> form_opinions(np.array([[3.0, 1.0], [2.0, 2.0], [0.0, 0.0]]), "vote")
    array([[1. , 0. ],
           [0.5, 0.5],
           [0. , 0. ]])
    """
    if aggregate == "vote":
        counts = ((counts == counts.max(axis=1, keepdims=True)) & (counts > 0)).astype(np.float64)
    if aggregate == "proximity":
        return counts
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.zeros_like(counts)
    np.divide(counts, totals, out=shares, where=totals > 0)
    return shares
