"""Values become codes: a matrix of floats enters, small integers in the same order leave.

A code is the rank of a value among the distinct values of its column, so codes lose nothing: cuts between codes are cuts
between values. Only when a column has more than 65,535 distinct values do neighbours share one of 32,768 codes, with equally
many rows each; the values of such a column are kept beside its codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine.layout import MISSING, MOST_CODES, Columns
from kernelforest.threads import in_threads

SHORT = 5_000  # rows: sorting a shorter column takes less time than handing it to a thread
MERGED_CODES = 32_768  # of a column with more distinct values than there are codes


class Coded(NamedTuple):
    """One column as codes, with the smallest and largest value of each."""

    codes: NDArray[np.uint16]  # (n_rows,)
    lows: NDArray[np.float64]  # (n_codes,)
    highs: NDArray[np.float64]  # (n_codes,)
    has_missing: bool


def code_table(matrix: NDArray[np.floating], categorical: Collection[int] = (), threads: int = 1) -> Columns:
    """Code every column of a matrix.

    >>> code_table(np.array([[0.5], [2.0], [np.nan], [0.5]])).codes
    array([[    0,     1, 65535,     0]], dtype=uint16)
    """
    n_rows, n_features = matrix.shape
    codes = np.empty((n_features, n_rows), np.uint16)

    def code(j: int) -> Coded:
        values = matrix[:, j].astype(np.float64)  # contiguous, too
        coded = code_levels(values) if j in categorical else code_numbers(values)
        codes[j] = coded.codes
        return coded._replace(codes=codes[j])

    coded = list(in_threads(code, range(n_features), threads if n_rows >= SHORT else 1))
    kinds = [(j in categorical) + 2 * coded[j].has_missing for j in range(n_features)]
    offsets = np.cumsum([0] + [len(c.highs) for c in coded], dtype=np.int64)
    merged = [j for j, c in enumerate(coded) if c.lows is not c.highs]
    all_lows, all_highs = [c.lows for c in coded], [c.highs for c in coded]
    coded.clear()  # so that joining lets go of each piece
    lows = joined(all_lows) if merged else None
    all_lows.clear()
    highs = joined(all_highs)
    spots = highs
    if not np.isfinite(highs).all():
        spots = np.concatenate([_finite(highs[a:b]) for a, b in pairwise(offsets)])
    order = order_by_content(codes, kinds, [highs[a:b] for a, b in pairwise(offsets)])
    exact = np.empty((len(merged), n_rows))
    for k, j in enumerate(merged):
        exact[k] = matrix[:, j]
    return Columns(codes, np.array(kinds, np.uint8), offsets, highs if lows is None else lows, highs, spots, order, exact)


def code_numbers(values: NDArray[np.float64]) -> Coded:
    """Rank the values of a numeric column; NaN is missing and infinities are values like others."""
    order = np.argsort(values)  # NaN last
    ordered = values[order]
    n_present = len(ordered) - int(np.isnan(ordered).sum())
    ordered = ordered[:n_present]
    rises = np.empty(n_present, dtype=bool)  # where a new distinct value begins
    rises[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=rises[1:])
    begins = np.flatnonzero(rises)
    ranks = np.cumsum(rises, dtype=np.int32)
    ranks -= 1
    n_distinct = len(begins)
    if n_distinct > MOST_CODES:
        ranks = _merged_ranks(begins, n_present)
        begins = np.flatnonzero(np.diff(ranks, prepend=-1))
    codes = np.full(len(values), MISSING, np.uint16)
    codes[order[:n_present]] = ranks
    lows = ordered[begins]
    if n_distinct <= MOST_CODES:
        return Coded(codes, lows, lows, n_present < len(values))
    return Coded(codes, lows, ordered[np.append(begins[1:], n_present) - 1], n_present < len(values))


def code_levels(values: NDArray[np.float64]) -> Coded:
    """Take the levels of a categorical column as they are."""
    present = ~np.isnan(values)
    codes = np.where(present, values, MISSING).astype(np.uint16)
    table = np.arange(values[present].max() + 1.0 if present.any() else 0.0)
    return Coded(codes, table, table, not present.all())


def decode(columns: Columns, rows: NDArray[np.intp] | slice) -> NDArray[np.float64]:
    """The rows of the training table as values again: what `code_table` was given."""
    out = np.empty(columns.codes[:, rows].shape[::-1])
    for j, values in enumerate(decoded(columns, rows)):
        out[:, j] = values
    return out


def decoded(columns: Columns, rows: NDArray[np.intp] | slice = slice(None)) -> Iterator[NDArray[np.float64]]:
    """One column after another as values again.

    >>> [column.tolist() for column in decoded(code_table(np.array([[0.5, 1.0], [2.0, 1.0], [0.5, 3.0]])))]
    [[0.5, 2.0, 0.5], [1.0, 1.0, 3.0]]
    """
    kept = iter(columns.exact)
    for codes, (a, b) in zip(columns.codes, pairwise(columns.offsets), strict=True):
        if len(columns.exact) and not np.array_equal(columns.lows[a:b], columns.highs[a:b]):
            yield next(kept)[rows]
        else:
            table = np.append(columns.highs[a:b], np.nan)
            yield table[np.minimum(codes[rows], len(table) - 1)]


def joined(pieces: list[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays, letting go of each as it is copied; the list is emptied."""
    out = np.empty(sum(len(piece) for piece in pieces), pieces[0].dtype)
    end = len(out)
    while pieces:
        piece = pieces.pop()
        out[end - len(piece) : end] = piece
        end -= len(piece)
    return out


def order_by_content(
    codes: NDArray[np.uint16], kinds: Sequence[int], values: Sequence[NDArray[np.float64]]
) -> NDArray[np.int32]:
    """Sort features by a digest of their codes, so that a forest does not depend on the order of the columns.

    Features of the same codes, as x and log x, are sorted by what else tells them apart.
    """

    def digest(content: NDArray[Any]) -> bytes:
        return hashlib.blake2b(content.tobytes(), digest_size=8).digest()

    digests = [digest(column) for column in codes]
    tied = len(set(digests)) < len(digests)
    keys = [(mine, kind, digest(known) if tied else b"") for mine, kind, known in zip(digests, kinds, values, strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int32)


def _merged_ranks(begins: NDArray[np.intp], n: int) -> NDArray[np.int32]:
    """Merge neighbouring values so that at most 32,768 ranks remain, with about equally many rows each; ties stay together.

    `begins` says where each distinct value begins among the n sorted ones.
    """
    starts = np.repeat(begins, np.diff(np.append(begins, n)))
    bins = (starts * MERGED_CODES) // n
    return np.cumsum(np.diff(bins, prepend=bins[0]) > 0, dtype=np.int32)


def _finite(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Put infinities one range beyond the finite values, so that a uniform cut can fall before them."""
    finite = values[np.isfinite(values)]
    low, high = (finite[0], finite[-1]) if len(finite) else (0.0, 0.0)
    most = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        reach = max(high - low, 1.0)
        return np.nan_to_num(values, posinf=min(high + reach, most), neginf=max(low - reach, -most))
