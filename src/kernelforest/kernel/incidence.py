"""Which rows are in which leaves: leaf numbers enter; members of each leaf and sparse products with them leave.

Products are built by rows, in place, in two passes (count, then fill), so that nothing but the result takes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kernelforest._engine import pairs
from kernelforest.compiling import announced_compiling
from kernelforest.kernel.memory import check_room, index_bytes, sparse_bytes
from kernelforest.kernel.queries import CutBack, Query
from kernelforest.threads import blocks_of, run

_BLOCK = 256  # least rows of a kernel per piece of work
_FEWER_VALUES = "give fewer columns of values at a time"


def members(
    leaves: NDArray[np.int32],
    n_leaves: int,
    trees: NDArray[np.int64],
    counts: NDArray[Any] | None = None,
    weight: NDArray[np.float64] | None = None,
) -> pairs.Index:
    """Rows of each leaf, counted as often as a tree drew them; `trees` has the tree of each column of leaves."""
    n_members = leaves.size if counts is None else int(np.count_nonzero(counts, axis=1)[trees].sum())
    size = index_bytes(n_members, n_leaves, weighed=counts is not None or weight is not None)
    instead = "grow fewer trees, or ask for voting_points(x0) of single rows, which need no index"
    check_room(size, f"an index of {n_members:,} rows of {n_leaves:,} leaves", instead)
    with announced_compiling():
        index: pairs.Index = pairs.index_rows(leaves, n_leaves, trees, counts, weight)
    return index


def multiply(
    leaves: NDArray[np.int32],
    factors: NDArray[np.float64],
    index: pairs.Index,
    by_total: bool,
    normalise: bool,
    width: int,
    dtype: Any,
    threads: int,
) -> csr_array:
    """Multiply incidences by rows: count the entries of each row, then fill them in place."""
    counts = np.empty(len(leaves), np.int64)

    def mine(rows: slice) -> NDArray[np.float64]:
        return factors[rows] if len(factors) > 1 else factors

    in_blocks(lambda rows: pairs.count_rows(leaves[rows], mine(rows), index, width, counts[rows]), len(leaves), threads)
    starts = np.concatenate([[0], counts.cumsum()])
    small = starts[-1] < 2**31
    instead = "ask for fewer rows at a time, for nearest(X, k), or for average(X, values), which needs no matrix"
    check_room(sparse_bytes(len(leaves), int(starts[-1]), dtype), f"a kernel of {starts[-1]:,} entries", instead)
    columns = np.empty(starts[-1], np.int32 if small else np.int64)
    values = np.empty(starts[-1], dtype)

    def fill(rows: slice) -> None:
        span = starts[rows.start : rows.stop + 1]
        pairs.fill_rows(leaves[rows], mine(rows), index, by_total, normalise, span, columns, values, width)

    in_blocks(fill, len(leaves), threads)
    return csr_array((values, columns, starts.astype(columns.dtype)), shape=(len(leaves), width))


class Opinions(NamedTuple):
    """What leaves say, to be added up over columns of leaves."""

    factors: NDArray[np.float64]  # (n_columns,)
    sums: NDArray[np.float64]  # (n_leaves, n_values) of the values in them
    totals: NDArray[np.float64]  # (n_leaves,) of what they hold
    by_total: bool  # whether a leaf is divided by what it holds


def add_values(
    query: Query,
    index: pairs.Index,
    by_total: bool,
    values: NDArray[np.float64],
    out: NDArray[np.float64],
    mass: NDArray[np.float64],
) -> None:
    """Multiply by values without forming the product: sums of each leaf, then over trees; in `mass` what ones would give.

    Rows are sent by blocks; if they are few, only leaves that they reach are summed up.
    """
    training = query.training
    cuts = training.cuts if query.known is None else ()  # what is known are leaves in all columns
    n_columns = training.n_trees if cuts else training.leaves.shape[1]
    n_leaves = max(cut.leaves.stop for cut in cuts) if cuts else training.n_leaves
    if few := 8 * query.n_rows * n_columns < n_leaves:
        leaves = query.send(slice(0, query.n_rows))
    seen = np.unique(leaves[leaves >= 0]) if few else np.arange(n_leaves, dtype=np.int32)
    if cuts:
        said = join_readings(cuts, index, by_total, values, seen, n_columns)
    else:
        said = form_opinions(training.factors, index, by_total, values, seen)
    for rows in query.blocks(n_columns):
        add_up(leaves[rows] if few else query.send(rows), said, out[rows], mass[rows], training.threads)


def join_readings(
    cuts: Sequence[CutBack],
    index: pairs.Index,
    by_total: bool,
    values: NDArray[np.float64],
    seen: NDArray[np.int32],
    n_trees: int,
) -> Opinions:
    """What leaves of trees as they were grown say in all readings together; their numbers ascend in `seen`."""
    n_leaves, n_values = max(cut.leaves.stop for cut in cuts), values.shape[1]
    mine = [seen[slice(*np.searchsorted(seen, [cut.leaves.start, cut.leaves.stop]))] for cut in cuts]
    ends = [cut.ends[some - np.int32(cut.leaves.start)] for some, cut in zip(mine, cuts, strict=True)]
    said = form_opinions(np.ones(n_trees), index, by_total, values, np.concatenate(ends))
    check_room(24 * len(seen) * n_values, f"sums of {n_values:,} values in {len(seen):,} leaves", _FEWER_VALUES)
    sums, totals = np.zeros((n_leaves, n_values)), np.zeros(n_leaves)
    for cut, some, end in zip(cuts, mine, ends, strict=True):
        held = index.totals[end]
        share = np.divide(cut.weight, np.where(held > 0, held, 1.0)) if by_total else np.full(len(end), cut.weight)
        totals[some] += share * held
        sums[some] += share[:, None] * said.sums[end]
    return Opinions(said.factors, sums, totals, False)


def form_opinions(
    factors: NDArray[np.float64],
    index: pairs.Index,
    by_total: bool,
    values: NDArray[np.float64],
    seen: NDArray[np.int32] | None = None,
) -> Opinions:
    """Add up the values in each leaf, or in those that were seen."""
    n_leaves, n_values = len(index.totals), values.shape[1]
    wanted = np.full(n_leaves, seen is None)
    if seen is not None:
        wanted[seen] = True
    what = f"sums of {n_values:,} values in {n_leaves:,} leaves"
    check_room(8 * int(wanted.sum()) * n_values, what, _FEWER_VALUES)
    sums = np.zeros((n_leaves, n_values))  # takes no memory where nothing is written
    with announced_compiling():
        pairs.sum_by_leaf(index, wanted, values, sums)
    return Opinions(factors, sums, index.totals, by_total)


def add_up(
    leaves: NDArray[np.int32], said: Opinions, out: NDArray[np.float64], mass: NDArray[np.float64], threads: int
) -> None:
    """Add what the leaves of rows say to `out`, and what they would say of ones to `mass`."""
    in_blocks(lambda rows: pairs.average_rows(leaves[rows], *said, out[rows], mass[rows]), len(leaves), threads)


def fill_silent_rows(W: csr_array, weight: NDArray[np.float64]) -> csr_array:
    """Weights of the class shares of the data where no tree has an opinion, as in predict_proba."""
    n_rows, counts, counted = W.shape[0], np.diff(W.indptr), np.flatnonzero(weight)
    silent = np.flatnonzero(counts == 0)
    if not len(silent):
        return W
    starts = np.concatenate([[0], np.where(counts == 0, len(counted), counts).cumsum(dtype=np.int64)])
    what = f"weights of {starts[-1]:,} entries ({len(silent):,} rows of which no tree says anything weigh all training rows)"
    instead = "grow more trees, ask for fewer rows at a time, or for average(X, values), which needs no matrix"
    check_room(sparse_bytes(n_rows, int(starts[-1])), what, instead)
    columns, values = np.empty(starts[-1], np.int32 if starts[-1] < 2**31 else np.int64), np.empty(starts[-1])
    even, first = weight[counted] / weight.sum(), 0
    for row in (*silent, n_rows):  # each after the rows between it and the one before
        old, new = slice(W.indptr[first], W.indptr[row]), slice(starts[first], starts[row])
        columns[new], values[new] = W.indices[old], W.data[old]
        if row < n_rows:
            columns[starts[row] : starts[row + 1]], values[starts[row] : starts[row + 1]] = counted, even
        first = row + 1
    return csr_array((values, columns, starts.astype(columns.dtype)), shape=W.shape)


def in_blocks(block: Callable[[slice], Any], n_rows: int, threads: int) -> None:
    """A few pieces of work for each thread, because each piece clears a line as long as the training set."""
    size = max(_BLOCK, -(-n_rows // (8 * threads)))
    run(block, blocks_of(n_rows, size), threads)


def pack_bits(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack (trees, rows) flags into words, (rows, words)."""
    n_words = -(-flags.shape[0] // 64)
    padded = np.zeros((flags.shape[1], n_words * 64), dtype=bool)
    padded[:, : flags.shape[0]] = flags.T
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)
