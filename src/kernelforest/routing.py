"""Trees become routes: nodes with thresholds enter; nodes in terms of small numbers, and rows sent by them, leave.

The distinct thresholds of a column are numbered over the whole forest. A new row is coded once, each value by how many
thresholds lie below it; from then on every question of every tree compares two small integers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import route
from kernelforest._engine.layout import CATEGORICAL, COLUMN, MISSING, Columns, Router, Shape
from kernelforest.threads import blocks_of, run

_CELLS = 16_384  # most cells of a grid over the cuts of a column
_BLOCK = 65_536  # most rows sent together; their numbers fit in 16 bits
_NEAR_ROWS = 25_000  # rows sent together down small trees, so that their codes stay in fast memory
Code = Callable[[slice], tuple[NDArray[Any], bool]]  # rows -> their codes, (columns, rows), and whether plain comparisons do


def make_router(nodes: NDArray[np.void], sets: NDArray[np.uint16], starts: NDArray[np.int64]) -> Router:
    """Number the distinct thresholds of each column, and rewrite nodes in terms of those numbers."""
    inner = nodes["feature"] >= 0
    asking = np.flatnonzero(inner) if inner.any() else np.zeros(1, np.int64)  # at least one column is needed
    flags = np.where(inner, nodes["feature"], 0)[asking]
    column, subset = flags & COLUMN, (flags & CATEGORICAL) != 0
    seen = np.bincount(column) > 0
    used, column = np.flatnonzero(seen), (seen.cumsum() - 1)[column]
    numbers, cuts, offsets = number_cuts(column, np.where(subset, 0.0, nodes["threshold"][asking]))
    place, cut = np.zeros(len(nodes), np.uint64), np.zeros(len(nodes), np.uint64)
    place[asking], cut[asking] = column, np.where(subset, nodes["threshold"][asking], numbers)
    return Router(
        **write_words(nodes, starts, place, cut, len(used), int(np.diff(offsets).max())),
        sets=sets,
        used=used.astype(np.int64),
        categorical=np.bincount(column[subset], minlength=len(used)) > 0,
        offsets=offsets,
        cuts=cuts,
        **lay_grid(cuts, offsets),
    )


def make_training_router(
    nodes: NDArray[np.void], sets: NDArray[np.uint16], starts: NDArray[np.int64], columns: Columns
) -> Router:
    """The same in terms of the codes that the training table has already: nothing is left to code by, and no grid."""
    inner = nodes["feature"] >= 0
    column = np.where(inner, nodes["feature"] & COLUMN, 0).astype(np.uint64)
    subset = inner & ((nodes["feature"] & CATEGORICAL) != 0)
    cut = np.where(subset, nodes["threshold"], 0.0).astype(np.uint64)
    route.find_codes(np.flatnonzero(inner & ~subset), column, nodes["threshold"], columns.offsets, columns.highs, cut)
    return Router(
        **write_words(nodes, starts, column, cut, len(columns.codes), MISSING),
        sets=sets,
        used=np.arange(len(columns.codes)),
        categorical=np.bincount(column[subset].astype(np.int64), minlength=len(columns.codes)) > 0,
        offsets=np.zeros(1, np.int64),
        cuts=np.empty(0),
        grid=np.empty((0, 2)),
        cells=np.empty((0, 0), np.uint32),
        fullest=np.empty(0, np.int64),
    )


def write_words(
    nodes: NDArray[np.void],
    starts: NDArray[np.int64],
    column: NDArray[np.uint64],
    cut: NDArray[np.uint64],
    n_columns: int,
    most: int,
) -> dict[str, Any]:
    """Pack the column and cut of every node with its child, in as many bits as it takes; codes are up to `most`."""
    inner, n_nodes = nodes["feature"] >= 0, np.diff(starts[:, 0])
    widths = [int(x).bit_length() for x in (max(cut.max(), most), n_columns, n_nodes.max())]
    if sum(widths) > 64:
        raise ValueError(f"a tree of {n_nodes.max()} nodes over {n_columns} columns is too large to be indexed")
    shape = Shape(*(np.uint64(x) for x in (widths[0] + widths[1], widths[0], 2 ** widths[1] - 1, 2 ** widths[0] - 1)))
    own = np.arange(len(nodes)) - np.repeat(starts[:-1, 0], n_nodes)
    child = np.where(inner, nodes["child"], own).astype(np.uint64)
    last = np.where(inner, cut, shape.cut_mask)  # nothing lies above: a leaf is its own left child
    return {
        "words": (child << shape.child) | (column << shape.column) | last,
        "extras": np.where(inner, nodes["feature"], nodes["child"]).astype(np.uint32),
        "shape": shape,
        "starts": starts,
        "most_nodes": int(n_nodes.max()),
    }


def number_cuts(
    column: NDArray[np.int64], threshold: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Number of each threshold among those of its column, the distinct ones ascending, and where those of a column begin.

    >>> number_cuts(np.array([1, 0, 1, 1]), np.array([0.7, 0.2, 0.3, 0.7]))
    (array([1, 0, 0, 1]), array([0.2, 0.3, 0.7]), array([0, 1, 3]))
    """
    order = np.argsort(threshold)
    order = order[np.argsort(column[order].astype(np.min_scalar_type(column.max())), kind="stable")]  # short: faster
    t, c = threshold[order], column[order]
    is_new = np.append(True, (t[1:] != t[:-1]) | (c[1:] != c[:-1]))
    offsets = np.append(0, np.bincount(c[is_new]).cumsum())
    numbers = np.empty(len(order), np.int64)
    numbers[order] = is_new.cumsum() - 1 - offsets[c]
    return numbers, t[is_new], offsets


def lay_grid(cuts: NDArray[np.float64], offsets: NDArray[np.int64]) -> dict[str, Any]:
    """Lay equal cells over the cuts of each column, so that a search among cuts need not begin from nothing.

    The cell of a number never decreases with the number, however it is rounded: so all cuts in lower cells are below it.
    """
    counts = np.diff(offsets)
    n_cells = min(_CELLS, -(-2 * len(cuts) // len(counts)))
    column = np.repeat(np.arange(len(counts)), counts)
    grid = np.zeros((len(counts), 2))
    finite = np.isfinite(cuts)
    first = np.minimum.reduceat(np.where(finite, cuts, np.inf), offsets[:-1])
    last = np.maximum.reduceat(np.where(finite, cuts, -np.inf), offsets[:-1])
    with np.errstate(all="ignore"):
        wide = first < last
        grid[wide] = np.column_stack((first, n_cells / (last - first)))[wide]
        place = (cuts - grid[column, 0]) * grid[column, 1]
        place = np.where(place > 0, np.minimum(place, n_cells - 1), 0).astype(np.int64)
    found = np.bincount(column * n_cells + place, minlength=len(counts) * n_cells).reshape(len(counts), n_cells)
    return {"grid": grid, "cells": (found.cumsum(axis=1) - found).astype(np.uint32), "fullest": found.max(axis=1)}


def send_table(
    matrix: NDArray[np.floating],
    router: Router,
    out: NDArray[Any],
    threads: int,
    opinions: NDArray[np.float64] | None = None,
) -> None:
    """Send new rows down the trees: their leaves are written to `out`, or the opinions of these are added to it."""
    numeric = not router.categorical.any()
    small = np.diff(router.offsets).max(initial=0) < np.iinfo(np.uint16).max

    def code(rows: slice) -> tuple[NDArray[Any], bool]:
        z = np.ascontiguousarray(matrix[rows])  # float32 is widened by the loops
        if not z.flags.writeable:  # is a type of its own, and would be compiled for
            z = z.copy()
        codes = np.empty((len(router.used), len(z)), np.uint16 if small else np.uint32)
        return codes, not route.code_rows(z, router, codes) and numeric

    _send(code, router, out, threads, opinions)


def send_training_rows(columns: Columns, router: Router, out: NDArray[np.int32], threads: int) -> None:
    """Write the leaves of the training rows, which are coded already, to `out`."""
    quick = not columns.kinds.any()
    _send(lambda rows: (np.ascontiguousarray(columns.codes[:, rows]), quick), router, out, threads)


def _send(code: Code, router: Router, out: NDArray[Any], threads: int, opinions: NDArray[np.float64] | None = None) -> None:
    """Send blocks of rows down the trees, on threads."""

    def block(rows: slice) -> None:
        codes, quick = code(rows)
        memory = route.make_block(codes.shape[1], router.most_nodes)
        route.descend(codes, quick, router, opinions, out[rows], memory)

    most = max(_NEAR_ROWS, 4 * router.most_nodes)  # what is read of a large tree is shared by many rows
    run(block, row_blocks(len(out), threads, most), threads)


def row_blocks(n_rows: int, threads: int, most: int = _BLOCK) -> list[slice]:
    """Blocks of rows: large, because rows share the reading of a node, and as many for each thread."""
    rounds = max(1, -(-n_rows // (threads * min(_BLOCK, most))))
    size = max(1, -(-n_rows // (threads * rounds)))
    return blocks_of(n_rows, size)
