"""The columns of the paper's two tables: a split enters, P(y = 1) of its test rows by each method leaves.

Seven methods are the paper's, read as its numbers demand. Three are what today's reader would try: the default estimator
of this package, scikit-learn's forest with isotonic calibration, and LightGBM where it is installed.
"""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold

from kernelforest.estimators import KernelForestClassifier
from kernelforest.kernel import ForestKernel

Array = NDArray[np.float64]
TREES, QUICK_TREES = 500, 60
FOLDS = 5
# forests to grow, and the columns that are estimates of each: (name, aggregate, fill)
FORESTS: tuple[tuple[dict[str, Any], tuple[tuple[str, str, str], ...]], ...] = (
    ({"max_features": "third", "leaf_size": 1}, (("class p/3", "vote", "inbag"),)),
    ({"max_features": "third", "leaf_size": 5}, (("reg p/3", "mean", "inbag"),)),
    ({"max_features": "sqrt", "leaf_size": 1}, (("class √p", "vote", "inbag"), ("prox", "proximity", "oob"))),
    ({"max_features": "sqrt", "leaf_size": 5}, (("reg √p", "mean", "inbag"),)),
    ({"max_features": "all", "leaf_size": 1}, (("bagged", "vote", "inbag"),)),
    ({"max_features": 1, "leaf_size": 1, "splitter": "random-observed"}, (("random", "vote", "inbag"),)),
)
PAPER_COLUMNS = ("class p/3", "reg p/3", "class √p", "reg √p", "bagged", "random", "prox")
ADDED_COLUMNS = ("default", "RF + isotonic", "LightGBM")
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


def numbers_only(X: Array, y: NDArray[np.int64], X_test: Array, seed: int) -> Split:
    """A split without categories."""
    return Split(X, y, X_test, (X, X_test), (), seed)


def seed_of(*names: Any) -> int:
    """Make a seed below 2^31 out of names and numbers."""
    return zlib.crc32("/".join(map(str, names)).encode()) & 0x7FFFFFFF


def predictions(split: Split, quick: bool) -> dict[str, Array]:
    """P(y = 1) of the test rows by every column."""
    found = paper_columns(split, QUICK_TREES if quick else TREES)
    found["default"] = default(split, QUICK_TREES if quick else TREES)
    found["RF + isotonic"] = calibrated(split, 5 if quick else TREES // FOLDS)
    if find_spec("lightgbm"):
        found["LightGBM"] = boosted(split, LEAVES[1:2] if quick else LEAVES, 50 if quick else ROUNDS)
    return found


def paper_columns(split: Split, trees: int) -> dict[str, Array]:
    """The paper's seven."""
    found = {}
    for settings, columns in FORESTS:
        model = KernelForestClassifier.untuned(trees, random_state=split.seed, **settings).fit(split.X, split.y)
        for name, aggregate, fill in columns:
            found[name] = model.predict_proba(split.X_test, aggregate, fill)[:, 1]
    return found


def scikit_columns(split: Split, trees: int) -> dict[str, Array]:
    """Six of the seven, grown by scikit-learn: there a feature that is constant in a node uses up one of the mtry draws."""
    p, found = split.X.shape[1], {}
    for mtry, features in (("p/3", ceil(p / 3)), ("√p", ceil(sqrt(p))), ("p", p)):
        settings = {"max_features": features, "random_state": split.seed}
        forest = RandomForestClassifier(trees, **settings).fit(split.X, split.y)
        found["bagged" if mtry == "p" else f"class {mtry}"] = _votes(forest, split.X_test)
        if mtry == "√p":
            kernel = ForestKernel.from_model(forest, split.X, split.y)
            found["prox"] = kernel.average(split.X_test, split.y, aggregate="proximity", fill="oob")
        if mtry != "p":  # a node of 5 rows is a leaf
            forest = RandomForestClassifier(trees, min_samples_split=6, **settings).fit(split.X, split.y)
            found[f"reg {mtry}"] = forest.predict_proba(split.X_test)[:, 1]
    return found


def _votes(forest: RandomForestClassifier, X: Array) -> Array:
    return np.asarray(np.mean([tree.predict(X) for tree in forest.estimators_], axis=0))


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
