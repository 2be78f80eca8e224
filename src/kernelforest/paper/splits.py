"""The real data sets as the tables use them: a name, a number of junk predictors and a repetition enter, a split leaves."""

from __future__ import annotations

import os
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernelforest.datasets import VARIABLE, Dataset, load_dataset
from kernelforest.paper.columns import Array, Split, seed_of

FILES = {"splice": "splice_ei_n"}
TEST_SHARE = 0.2


def real_split(name: str, junk: int, rep: int) -> tuple[Split, NDArray[np.int64]]:
    """Cut a data set at random, four fifths to fit on, after adding junk; also the labels of the test rows."""
    data = _loaded(FILES.get(name, name), os.environ.get(VARIABLE))
    X, sources = _with_junk(data.X, junk, seed_of("real", name, rep, "junk"))
    y = (data.y == data.positive).astype(np.int64)
    order = np.random.default_rng(seed_of("real", name, rep, "split")).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    test, train = order[:n_test], order[n_test:]
    coded = np.column_stack([_coded(name, data, X, j, int(source)) for j, source in enumerate(sources)])
    categorical = tuple(j for j, source in enumerate(sources) if source in data.levels)
    seed = seed_of("real", name, junk, rep, "fit")
    return Split(coded[train], y[train], coded[test], (X[train], X[test]), categorical, seed), y[test]


@lru_cache(maxsize=8)
def _loaded(name: str, _folder: str | None) -> Dataset:
    return load_dataset(name)


def _with_junk(X: Array, junk: int, seed: int) -> tuple[Array, NDArray[np.int64]]:
    """Append columns drawn at random, each with its rows in another order; also which column each one was."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(X.shape[1], size=junk)
    shuffled = [X[rng.permutation(len(X)), j] for j in drawn]
    return np.column_stack([X, *shuffled]), np.concatenate([np.arange(X.shape[1]), drawn])


def _coded(name: str, data: Dataset, X: Array, j: int, source: int) -> Array:
    """A column as the paper's forests see it: a category as columns of zeros and ones.

    The first category shows all its levels and others all but the first, as `model.matrix(~ . - 1)` in R does. Of splice
    each position shows C, G and T: 180 columns.
    """
    if source not in data.levels:
        return X[:, [j]]
    levels = data.levels[source]
    shown = [levels.index(letter) for letter in "CGT"] if name == "splice" else range(0 if j == 0 else 1, len(levels))
    return np.column_stack([X[:, j] == level for level in shown]).astype(np.float64)
