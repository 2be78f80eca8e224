"""Trees become routes: nodes with thresholds enter; nodes in terms of small numbers, by which rows are sent, leave.

The distinct thresholds of a column are numbered over the whole forest. A new row is coded once, each value by how many
thresholds lie below it; from then on every question of every tree compares two small integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine.layout import CATEGORICAL, COLUMN, Router, Shape

_CELLS = 16_384  # most cells of a grid over the cuts of a column


def make_router(nodes: NDArray[np.void], sets: NDArray[np.uint16], starts: NDArray[np.int64]) -> Router:
    """Number the distinct thresholds of each column, and rewrite nodes in terms of those numbers."""
    n_nodes = np.diff(starts[:, 0])
    inner = nodes["feature"] >= 0
    flags = np.where(inner, nodes["feature"], 0)
    seen = np.bincount(flags & COLUMN) > 0  # column 0 is, by the leaves
    used, place = np.flatnonzero(seen), (seen.cumsum() - 1)[flags & COLUMN]
    subset = (flags & CATEGORICAL) != 0
    cut = np.where(subset, nodes["threshold"], 0.0).astype(np.uint64)
    cuts, categorical = [np.zeros(1)] * len(used), np.zeros(len(used), dtype=bool)
    where = np.flatnonzero(inner)
    where = where[np.argsort(place[where].astype(np.min_scalar_type(len(used))), kind="stable")]  # short numbers sort faster
    for j, mine in enumerate(np.split(where, np.bincount(place[where], minlength=len(used)).cumsum()[:-1])):
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
        **lay_grid(cuts),
        deepest=int(n_nodes.max()),
    )


def lay_grid(cuts: list[NDArray[np.float64]]) -> dict[str, NDArray[Any]]:
    """Lay equal cells over the cuts of each column, so that a search among cuts need not begin from nothing.

    The cell of a number never decreases with the number, however it is rounded: so all cuts in lower cells are below it.
    """
    n_cells = min(_CELLS, -(-2 * sum(map(len, cuts)) // len(cuts)))
    grid, cells = np.zeros((len(cuts), 2)), np.empty((len(cuts), n_cells), np.uint32)
    fullest = np.empty(len(cuts), np.int64)
    with np.errstate(all="ignore"):
        for j, column in enumerate(cuts):
            finite = column[np.isfinite(column)]
            if len(finite) > 1:
                grid[j] = finite[0], n_cells / (finite[-1] - finite[0])
            place = (column - grid[j, 0]) * grid[j, 1]
            place = np.where(place > 0, np.minimum(place, n_cells - 1), 0).astype(np.int64)
            counts = np.bincount(place, minlength=n_cells)
            cells[j], fullest[j] = counts.cumsum() - counts, counts.max()
    return {"grid": grid, "cells": cells, "fullest": fullest}
