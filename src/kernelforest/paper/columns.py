"""The columns of the paper's two tables: a split enters, the error of each method on its test rows leaves.

Seven methods are the paper's, read as its numbers demand. Three are what today's reader would try: the default estimator
of this package, scikit-learn's forest with isotonic calibration, and LightGBM where it is installed.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from kernelforest.binning import code_table
from kernelforest.estimators import KernelForestClassifier
from kernelforest.forest import Forest
from kernelforest.growing import MAX_FEATURES, Rules, make_targets
from kernelforest.kernel import ForestKernel

Array = NDArray[np.float64]
TREES, QUICK_TREES = 500, 60
FOLDS = 5
# forests to grow, and the columns that are estimates of each: (name, leaf size, aggregate, fill)
FORESTS: tuple[tuple[dict[str, Any], tuple[tuple[str, int, str, str], ...]], ...] = (
    ({"max_features": "third"}, (("class p/3", 1, "vote", "inbag"), ("reg p/3", 5, "mean", "inbag"))),
    (
        {"max_features": "sqrt"},
        (("class √p", 1, "vote", "inbag"), ("reg √p", 5, "mean", "inbag"), ("prox", 1, "proximity", "oob")),
    ),
    ({"max_features": "all"}, (("bagged", 1, "vote", "inbag"),)),
    ({"max_features": 1, "splitter": "random-observed"}, (("random", 1, "vote", "inbag"),)),
)
PAPER_COLUMNS = ("class p/3", "reg p/3", "class √p", "reg √p", "bagged", "random", "prox")
ADDED_COLUMNS = ("default", "RF + isotonic", "LightGBM")
ADDED_NOTES = (
    "this package with nothing set; it takes categories themselves",
    "the mean of five of scikit-learn's forests of 100 trees, each on four folds and calibrated on the fifth; zeros and ones"
    " as the paper's forests have them",
    "leaves and rounds by five folds; zeros and ones as the paper's forests have them",
)
BOOSTING = {"objective": "binary", "metric": "binary_logloss", "num_threads": 1, "verbosity": -1, "force_col_wise": True}
LEAVES = (2, 4, 8, 20)  # of LightGBM's trees: the best by the log loss of five folds is taken, and its number of rounds
ROUNDS, PATIENCE = 400, 25


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit on and rows to predict."""

    X: Array  # (n_train, n_columns), categories as zeros and ones
    y: NDArray[np.int64]  # (n_train,), 0 or 1
    X_test: Array
    native: tuple[Array, Array]  # both sides again, a category as one column of places
    categorical: tuple[int, ...]  # its columns
    seed: int


Estimate = Callable[[int, str, str], Array]  # leaf size, aggregate, fill -> P(y = 1) of the test rows
Grower = Callable[[Split, int, dict[str, Any]], Estimate]  # split, number of trees, settings: who grows


def numbers_only(X: Array, y: NDArray[np.int64], X_test: Array, seed: int) -> Split:
    """A split without categories."""
    return Split(X, y, X_test, (X, X_test), (), seed)


def seed_of(*names: Any) -> int:
    """Make a seed below 2^31 out of names and numbers."""
    return zlib.crc32("/".join(map(str, names)).encode()) & 0x7FFFFFFF


def scores(guesses: dict[str, Array], truth: NDArray[Any]) -> dict[str, float]:
    """RMSE of each column."""
    return {column: rmse(p, truth) for column, p in guesses.items()}


def predictions(split: Split, quick: bool, grower: Grower) -> dict[str, Array]:
    """P(y = 1) of the test rows by every column."""
    trees = QUICK_TREES if quick else TREES
    found = paper_columns(split, trees, grower)
    found["default"] = default(split, trees)
    found["RF + isotonic"] = calibrated(split, 5 if quick else TREES // FOLDS)
    if find_spec("lightgbm"):
        found["LightGBM"] = boosted(split, LEAVES[1:2] if quick else LEAVES, 50 if quick else ROUNDS)
    return found


def paper_columns(split: Split, trees: int, grower: Grower) -> dict[str, Array]:
    """The paper's seven. The grower cuts at the best place; at a random one only this package does."""
    found: dict[str, Array] = {}
    for settings, columns in FORESTS:
        estimate = (own_trees if "splitter" in settings else grower)(split, trees, settings)
        found |= {name: estimate(leaf_size, aggregate, fill) for name, leaf_size, aggregate, fill in columns}
    return found


def own_trees(split: Split, trees: int, settings: dict[str, Any]) -> Estimate:
    """Trees of this package: a best cut lies at one end of its gap, and constant features are not drawn."""

    @cache
    def grown(leaf_size: int) -> KernelForestClassifier:
        model = KernelForestClassifier.untuned(trees, leaf_size=leaf_size, random_state=split.seed, **settings)
        return model.fit(split.X, split.y)

    return lambda leaf_size, aggregate, fill: grown(leaf_size).predict_proba(split.X_test, aggregate, fill)[:, 1]


def r_trees(split: Split, trees: int, settings: dict[str, Any]) -> Estimate:
    """Trees of this package by R's rule: constant features use up draws, and where all draws are constant is a leaf."""
    columns, targets = code_table(split.X, {}), make_targets(split.y.astype(np.int32), 2)

    @cache
    def grown(leaf_size: int) -> Forest:
        rules = Rules(trees, leaf_size=leaf_size, constants_count=True, **settings)
        return Forest.grow(columns, targets, rules.limits(*split.X.shape), range(trees), split.seed)

    return lambda leaf_size, aggregate, fill: grown(leaf_size).estimate(split.X_test, aggregate, fill)[:, 1]


def scikit_trees(split: Split, trees: int, settings: dict[str, Any]) -> Estimate:
    """Trees of scikit-learn, as those of R: a cut lies halfway between two values, and constant features use up draws."""
    mtry = MAX_FEATURES[settings["max_features"]](split.X.shape[1])
    forest = RandomForestClassifier(trees, max_features=mtry, random_state=split.seed, n_jobs=1).fit(split.X, split.y)
    leaves = forest.apply(split.X_test).T

    def estimate(leaf_size: int, aggregate: str, fill: str) -> Array:
        if aggregate == "proximity":
            kernel = ForestKernel.from_model(forest, split.X, split.y)
            return kernel.average(split.X_test, split.y, aggregate=aggregate, fill=fill)
        shares = [_shares(tree.tree_, leaf_size)[at] for tree, at in zip(forest.estimators_, leaves, strict=True)]
        return np.asarray(np.mean(np.rint(shares) if aggregate == "vote" else shares, axis=0))

    return estimate


def _shares(tree: Any, leaf_size: int) -> Array:
    """The share of class 1 that a row meets which ends in a node, if nodes of at most so many draws are leaves.

    scikit-learn can stop a tree at a number of different rows only; so a deep tree is climbed. Cuts above do not depend on
    where a tree stops.
    """
    parent = np.zeros(tree.node_count, np.int64)
    for child in (tree.children_left, tree.children_right):
        parent[child[child >= 0]] = np.flatnonzero(child >= 0)
    small = tree.weighted_n_node_samples <= leaf_size  # weights are draws
    at = np.arange(tree.node_count)
    for _ in range(leaf_size - 1):  # at most so deep is what grows from a node of so many draws
        at = np.where(small[parent[at]], parent[at], at)
    return np.asarray(tree.value[at, 0, 1])


def default(split: Split, trees: int) -> Array:
    """The estimator of this package with nothing set but which columns are categories."""
    categorical = list(split.categorical) or None
    model = KernelForestClassifier(trees, categorical_features=categorical, random_state=split.seed)
    return np.asarray(model.fit(split.native[0], split.y).predict_proba(split.native[1])[:, 1])


def calibrated(split: Split, trees: int) -> Array:
    """scikit-learn's forest, calibrated by five folds; the forests of the folds are averaged, 500 trees in all."""
    forest = RandomForestClassifier(trees, random_state=split.seed)
    model = CalibratedClassifierCV(forest, method="isotonic", cv=FOLDS).fit(split.X, split.y)
    return np.asarray(model.predict_proba(split.X_test)[:, 1])


def boosted(split: Split, leaves: tuple[int, ...], rounds: int) -> Array:
    """LightGBM; leaves and rounds by the log loss of five folds."""
    import lightgbm

    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=split.seed).split(split.X, split.y))
    data = lightgbm.Dataset(split.X, split.y, params=BOOSTING, free_raw_data=False)
    found = []
    for n_leaves in leaves:
        settings, stop = BOOSTING | {"num_leaves": n_leaves}, lightgbm.early_stopping(PATIENCE, verbose=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores: Any = lightgbm.cv(settings, data, rounds, folds=folds, callbacks=[stop])
        path = scores["valid binary_logloss-mean"]
        found.append((min(path), len(path), settings))
    _, best, settings = min(found, key=lambda entry: entry[0])
    return np.asarray(lightgbm.train(settings, data, best).predict(split.X_test, num_threads=1))


def rmse(p: Array, truth: NDArray[Any]) -> float:
    """Root of the mean squared difference, to six digits."""
    return round(float(np.sqrt(np.mean((p - truth) ** 2))), 6)
