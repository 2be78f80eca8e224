"""A table and a number of training rows enter; pairs of training and test rows leave, the same for everybody who asks."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from real_catalogue import Table

MOST_TEST = 20_000  # rows to score on are all that are left, or these many of them
MOST_TRAIN = 0.8  # share of the rows
LEAST_OF_CLASS = 5  # training rows, so that five folds have one each
LEAST_FULL = 0.9  # share of the training rows asked for that whole groups have to make up
DRAWS = 20  # of groups, of which the one that is most like the table is taken

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit on and rows to score on."""

    train: Rows
    test: Rows


def splits(table: Table, n_train: int, n_splits: int, seed: int) -> list[Split]:
    """Cut a table `n_splits` times at random; each class has its share on both sides, and groups stay whole.

    With the same seed, the rows of a smaller `n_train` are among those of a larger one, where there are no groups.
    """
    n, n_classes = len(table.y), len(table.classes)
    least, most = LEAST_OF_CLASS * n_classes, int(MOST_TRAIN * n)
    if not least <= n_train <= most:
        raise ValueError(f"n_train must be in {least} ... {most} for the {n} rows of {table.name!r}, got {n_train}")
    return [one_split(table, n_train, [zlib.crc32(table.name.encode()), seed, k]) for k in range(n_splits)]


def one_split(table: Table, n_train: int, key: list[int]) -> Split:
    """Cut a table once."""
    rng = np.random.default_rng(key)
    if table.groups is None:
        return split_of_rows(table.y, n_train, rng)
    draws = [split_of_groups(table.groups, n_train, rng) for _ in range(DRAWS)]
    full = [draw for draw in draws if len(draw.train) >= LEAST_FULL * n_train]
    unlikeness = [unlike(table.y, draw) for draw in full]
    if min(unlikeness, default=np.inf) == np.inf:
        law = f"fill to {LEAST_FULL:.0%}, with {LEAST_OF_CLASS} rows of each class"
        raise ValueError(f"n_train must be what whole groups of {table.name!r} {law}, got {n_train}")
    return full[int(np.argmin(unlikeness))]


def split_of_rows(y: Rows, n_train: int, rng: np.random.Generator) -> Split:
    """Take of each class its share."""
    sizes = np.bincount(y)
    shuffled = [rng.permutation(np.flatnonzero(y == each)) for each in range(len(sizes))]
    train = [rows[:count] for rows, count in zip(shuffled, allot(sizes, n_train, LEAST_OF_CLASS), strict=True)]
    rest = [rows[len(taken) :] for rows, taken in zip(shuffled, train, strict=True)]
    left = np.array([len(rows) for rows in rest])
    n_test = min(MOST_TEST, int(left.sum()))
    test = [rows[:count] for rows, count in zip(rest, allot(left, n_test, 0), strict=True)]
    return Split(rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test)))


def allot(sizes: NDArray[np.int64], n: int, least: int) -> NDArray[np.int64]:
    """Divide n by sizes, by largest remainders; what is below `least` is raised to it at the cost of the largest."""
    exact = sizes * (n / sizes.sum())
    given = np.floor(exact).astype(np.int64)
    given[np.argsort(given - exact, kind="stable")[: n - given.sum()]] += 1
    given = np.maximum(given, np.minimum(least, sizes))
    while given.sum() > n:
        given[np.argmax(given)] -= 1
    return np.asarray(given)


def split_of_groups(groups: Rows, n_train: int, rng: np.random.Generator) -> Split:
    """Take whole groups, in random order: those that fit until the training rows are full, then the test rows."""
    sizes = np.bincount(groups)
    side = np.zeros(len(sizes), dtype=np.int8)  # 1 to fit on, 2 to score on
    n_fitted = n_scored = 0
    order = rng.permutation(len(sizes))
    for each in order:
        if n_fitted + sizes[each] <= n_train:
            side[each], n_fitted = 1, n_fitted + sizes[each]
    for each in order[side[order] == 0]:
        if n_scored < MOST_TEST:
            side[each], n_scored = 2, n_scored + sizes[each]
    return Split(*(rng.permutation(np.flatnonzero(side[groups] == each)) for each in (1, 2)))


def unlike(y: Rows, split: Split) -> float:
    """How far the shares of the classes on the two sides are from the table's; infinite if a class is missing."""
    sizes = np.bincount(y)
    train, test = (np.bincount(y[rows], minlength=len(sizes)) for rows in (split.train, split.test))
    if train.min() < LEAST_OF_CLASS or test.min() < 1:
        return np.inf
    return float(max(np.abs(side / side.sum() - sizes / sizes.sum()).max() for side in (train, test)))
