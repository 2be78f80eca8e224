"""Rows on their way through a forest: a table enters, read once; leaves of its rows leave, some rows at a time.

A blend reads each tree at several leaf sizes, and every reading is a column of leaves of its own. Rows are sent down the
trees as they were grown, and where they end there says where they end in every reading.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.kernel.memory import check_room
from kernelforest.threads import blocks_of

if TYPE_CHECKING:  # it makes queries
    from kernelforest.kernel.training import Training

Send = Callable[[slice], NDArray[np.int32]]  # leaves of some rows, a column for each tree as it was grown
_SENT = 64_000_000  # bytes of leaves of the rows that are sent at once
_MOST_SENT = 65_536  # rows
_COPIED = 1_024  # rows whose leaves are copied at once: they stay in fast memory


class CutBack(NamedTuple):
    """Trees that are read at some leaf size, and where each of their leaves lies under it."""

    trees: slice
    leaves: slice  # numbers of their leaves, as they were grown
    ends: NDArray[np.int32]  # (n_leaves,) numbers of the leaves in which they lie, as in `Training.leaves`
    weight: float


@dataclass(frozen=True, eq=False)
class Query:
    """Rows that are sent through a forest, some at a time."""

    training: Training
    n_rows: int
    send: Send
    known: NDArray[np.int32] | None = None  # (n_rows, n_columns) leaves, if they need not be sent

    def blocks(self, n_columns: int) -> list[slice]:
        """Blocks of rows, so that so many columns of leaves take little memory."""
        return blocks_of(self.n_rows, rows_at_once(n_columns))

    def leaves(self, rows: slice) -> NDArray[np.int32]:
        """Leaves of some rows in every column of `Training.leaves`."""
        if self.known is not None:
            return self.known[rows]
        return at_all_sizes(self.training.cuts, self.send(rows))

    def all_leaves(self) -> NDArray[np.int32]:
        """Leaves of all rows."""
        n_columns = self.training.leaves.shape[1]
        blocks = self.blocks(n_columns)
        if self.known is not None or len(blocks) < 2:
            return self.leaves(slice(0, self.n_rows))
        what = f"leaves of {self.n_rows:,} rows in {n_columns:,} trees"
        check_room(4 * self.n_rows * n_columns, what, "ask for fewer rows at a time")
        out = np.empty((self.n_rows, n_columns), np.int32)
        for rows in blocks:
            out[rows] = self.leaves(rows)
        return out


def rows_at_once(n_columns: int) -> int:
    """How many rows are sent through the trees together: so many columns of their leaves take little memory."""
    return min(max(_SENT // (4 * n_columns), _COPIED), _MOST_SENT)


def at_all_sizes(cuts: Sequence[CutBack], leaves: NDArray[np.int32]) -> NDArray[np.int32]:
    """The leaves of rows in every reading of the trees, side by side."""
    if not cuts:
        return leaves
    ends = np.cumsum([cut.trees.stop - cut.trees.start for cut in cuts]).tolist()
    out = np.empty((len(leaves), ends[-1]), np.int32)
    for rows in blocks_of(len(leaves), _COPIED):
        for cut, begin, end in zip(cuts, [0, *ends], ends, strict=False):
            out[rows, begin:end] = cut.ends[leaves[rows, cut.trees] - np.int32(cut.leaves.start)]
    return out


def take_rows(table: Any, which: NDArray[np.intp] | slice) -> Any:
    """Some rows of an array, data frame or list."""
    if hasattr(table, "iloc"):
        return table.iloc[which].reset_index(drop=True)
    if isinstance(table, list | tuple) and not isinstance(which, slice):
        return [table[i] for i in which]
    return table[which]
