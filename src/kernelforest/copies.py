"""Copies of rows: coded columns and labels enter; which rows are copies of which, or that many nearly are, leaves.

A tree that leaves a row out has still seen its copy, so out-of-bag scores flatter, and what is chosen by them is chosen
wrongly. Copies come from over-sampling; near copies from repeated measurements, noise that was added, synthetic rows.
"""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine.layout import MISSING, Columns
from kernelforest.binning import MERGED_CODES

LABEL_FACTOR = 0x9E3779B97F4A7C15  # an odd number of 64 bits: the label's part of a key
FEW_COPIES = 0.05  # share of the rows; or of the sets of equal rows, of those whose labels differ
MANY_VALUES = 30  # of a column
SOME_VALUES = 10
NEIGHBOURS = 20  # more than the rows that are near copies of one another
NEAR = 0.01  # as a share of the room that a row has among its neighbours: chance does it to 17 rows in 100
MOST_COLUMNS, MOST_ROWS, MOST_WORK = 20, 200, 100_000_000  # that are looked at


def find_copies(columns: Columns, labels: NDArray[np.integer], rows: NDArray[np.integer]) -> NDArray[np.int64] | None:
    """Number all rows, copies alike; None if few of the rows that count are copies, or if they may be alike by chance.

    Where two columns of many values tell almost all the different rows apart, rows that agree in every column are copies.
    But where rows that agree have different labels, they are observations of their own: a copy keeps its label.

    >>> from kernelforest.binning import code_table
    >>> which = np.arange(100) % 60
    >>> x, labels = np.random.default_rng(0).random(60)[which], which % 2
    >>> numbers = find_copies(code_table(np.column_stack([x, x**2])), labels, np.arange(100))
    >>> bool((numbers[60:] == numbers[:40]).all()), len(np.unique(numbers))
    (True, 60)
    >>> find_copies(code_table(x[:, None]), labels, np.arange(100)) is None  # one column may be rounded
    True
    >>> find_copies(code_table(np.column_stack([x, x**2])), np.arange(100) // 60, np.arange(100)) is None
    True
    """
    values = np.diff(columns.offsets)  # of each column
    if len(rows) < columns.codes.shape[1]:
        values = np.array([np.count_nonzero(np.bincount(codes)) for codes in columns.codes[:, rows]])
    values = np.sort(values)[::-1]
    if len(values) < 2 or values[0] >= len(rows) or values[1] < max(MANY_VALUES, min(len(rows) / 10, MERGED_CODES)):
        return None
    keys = np.zeros(columns.codes.shape[1], np.uint64)
    for codes, factor in zip(columns.codes, np.random.default_rng(0).integers(2**63, size=len(values)), strict=True):
        keys += codes.astype(np.uint64) * np.uint64(factor)  # wraps around
    _, first, found, counts = np.unique(keys[rows], return_index=True, return_inverse=True, return_counts=True)
    if len(first) > (1.0 - FEW_COPIES) * len(rows) or values[1] < 0.9 * min(len(first), MERGED_CODES):
        return None
    contradicted = np.bincount(found, labels[rows] != labels[rows[first]][found]) > 0
    if contradicted.sum() > FEW_COPIES * (counts > 1).sum():
        return None
    keys += labels.astype(np.uint64) * np.uint64(LABEL_FACTOR)  # a copy keeps its label
    _, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return first.argsort().argsort()[numbers]  # as rows come: keys depend on the order of the columns


def share_of_near_copies(columns: Columns, labels: NDArray[np.integer], rows: NDArray[np.integer]) -> float:
    """Share of rows whose nearest row is far nearer than chance brings rows, and of the same class; 0 if nobody can tell.

    Of rows scattered evenly in m dimensions, (d_1 / d_k)^m is the smallest of k - 1 uniform numbers, where d_k is the
    distance to the k-th neighbour. How many dimensions rows have is seen from the 20th to the 40th neighbour, as
    (d_20 / d_40)^m is about one half. Distances are the largest difference of ranks in any column.

    >>> from kernelforest.binning import code_table
    >>> rng = np.random.default_rng(0)
    >>> x, labels, twice = rng.random((100, 3)), rng.integers(0, 2, 100), np.repeat(np.arange(100), 2)
    >>> table = code_table(x[twice] + 0.001 * rng.random((200, 3)))
    >>> share_of_near_copies(table, labels[twice], np.arange(200)) > 0.8
    True
    >>> share_of_near_copies(code_table(x), labels, np.arange(100)) < 0.2
    True
    """
    values = np.diff(columns.offsets)
    numeric = np.flatnonzero((columns.kinds & 1 == 0) & (values >= SOME_VALUES))
    if (values[numeric] >= MANY_VALUES).sum() < 2 or len(rows) < 4 * NEIGHBOURS:
        return 0.0
    rng = np.random.default_rng(0)
    chosen = rng.permutation(numeric)[:MOST_COLUMNS]
    place = np.array([_ranks(columns.codes[j][rows]) for j in chosen], np.float32)
    some = rng.permutation(len(rows))[: int(np.clip(MOST_WORK // place.size, MOST_ROWS // 8, MOST_ROWS))]
    nearest, first = np.empty((len(some), 2 * NEIGHBOURS)), np.empty(len(some), np.int64)
    for k, i in enumerate(some):
        distance = np.abs(place - place[:, i : i + 1]).max(axis=0)
        distance[i] = np.inf
        order = np.argpartition(distance, 2 * NEIGHBOURS)[: 2 * NEIGHBOURS]
        order = order[np.argsort(distance[order])]
        nearest[k], first[k] = distance[order], rows[order[0]]
    nearest = np.maximum(nearest, 1e-12)
    growth = float(np.log(nearest[:, -1] / nearest[:, NEIGHBOURS - 1]).mean())
    dimensions = log(2.0) / max(growth, 1e-3)
    room = dimensions * np.log(nearest[:, 0] / nearest[:, NEIGHBOURS - 1])
    near = (room < log(NEAR)) & (nearest[:, 0] > 1e-12)  # rows that agree are looked at elsewhere
    alike = labels[first] == labels[rows[some]]
    if alike[near].sum() < (1.0 - FEW_COPIES) * near.sum():
        return 0.0
    return float(near.mean())


def _ranks(codes: NDArray[np.uint16]) -> NDArray[np.float64]:
    """The share of rows below each, ties by half; what is missing is in the middle."""
    present = codes != MISSING
    counts = np.bincount(codes[present], minlength=1)
    middle = (counts.cumsum() - counts / 2) / max(1, counts.sum())
    return np.where(present, middle[np.where(present, codes, 0)], 0.5)
