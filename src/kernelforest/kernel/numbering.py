"""Numbers of leaves: a library's enter, with gaps and for each tree anew; numbers that run through all trees leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.threads import in_threads, run


@dataclass(frozen=True, eq=False)
class Numbering:
    """Leaves that training rows reach, renumbered so that they run through all trees without gaps."""

    known: tuple[NDArray[np.int64], ...]  # of each tree, ascending
    starts: NDArray[np.int64]  # (n_trees + 1,) number of the first leaf of each tree

    def number(self, raw: NDArray[Any], threads: int = 1) -> NDArray[np.int32]:
        """Our numbers for a library's, -1 where no training row is.

        >>> numbering_of(np.array([[7, 1], [3, 1], [7, 1]])).number(np.array([[7, 1], [4, 2]])).tolist()
        [[1, 2], [-1, -1]]
        """
        out = np.empty(raw.shape, np.int32)

        def one_tree(t: int) -> None:
            out[:, t] = _places(raw[:, t], self.known[t], int(self.starts[t]))

        run(one_tree, range(raw.shape[1]), threads)
        return out


def numbering_of(raw: NDArray[Any], threads: int = 1) -> Numbering:
    """Collect the leaves that training rows reach."""
    known = tuple(in_threads(lambda t: _distinct(raw[:, t]), range(raw.shape[1]), threads))
    return Numbering(known, np.concatenate([[0], np.cumsum([len(k) for k in known])]).astype(np.int64))


def whole_numbers(name: str, values: Any) -> NDArray[np.int64]:
    """Check numbers of leaves that a user brought."""
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be whole numbers, got dtype {given.dtype}")
    whole = given.astype(np.int64)
    if given.dtype.kind == "f" and not np.array_equal(whole, given):
        raise TypeError(f"{name} must be whole numbers, got fractions")
    return whole


def _distinct(column: NDArray[Any]) -> NDArray[np.int64]:
    """The distinct numbers of a column, ascending."""
    low, high = int(column.min()), int(column.max())
    if not _is_compact(low, high, len(column)):
        return np.unique(column).astype(np.int64)
    seen = np.zeros(high - low + 1, dtype=bool)
    seen[column - low] = True
    return np.flatnonzero(seen) + low


def _places(column: NDArray[Any], known: NDArray[np.int64], start: int) -> NDArray[np.int32]:
    """Place of each number of a column among the known ones, counted from start; -1 where it is not among them."""
    low, high = int(known[0]), int(known[-1])
    if _is_compact(low, high, len(column)):
        place = np.full(high - low + 1, -1, np.int32)
        place[known - low] = np.arange(start, start + len(known))
        inside = (column >= low) & (column <= high)
        return np.where(inside, place[np.where(inside, column - low, 0)], np.int32(-1))
    at = np.minimum(np.searchsorted(known, column), len(known) - 1)
    return np.where(known[at] == column, at + start, -1).astype(np.int32)


def _is_compact(low: int, high: int, n_rows: int) -> bool:
    """Whether a table of all numbers from low to high is quicker than a search of each row's."""
    return high - low <= 4 * n_rows + 256
