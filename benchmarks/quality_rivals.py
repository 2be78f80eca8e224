"""The methods compared: a `Split` enters, P(y = 1) of its test rows leaves. No method sees the test labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import lightgbm
import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from threadpoolctl import threadpool_limits

from kernelforest import KernelForestClassifier
from quality_data import Split
from quality_ranger import ranger_probabilities
from rivals import installed

Probabilities = NDArray[np.float64]
Method = Callable[[Split], Probabilities]
OURS = "default"
THREADS = 2
TREES = 500
SEARCH_TREES = 100
GRID = {"max_features": ["sqrt", 1 / 3, 0.5, 1.0], "min_samples_leaf": [1, 3, 10, 30]}
COLUMNS: dict[str, dict[str, Any]] = {
    "class p/3": {"max_features": "third", "leaf_size": 1, "aggregate": "vote"},
    "reg p/3": {"max_features": "third", "leaf_size": 5, "aggregate": "mean"},
    "class sqrt": {"max_features": "sqrt", "leaf_size": 1, "aggregate": "vote"},
    "reg sqrt": {"max_features": "sqrt", "leaf_size": 5, "aggregate": "mean"},
    "bagged": {"max_features": "all", "leaf_size": 1, "aggregate": "vote"},
    "random": {"max_features": 1, "leaf_size": 1, "aggregate": "vote", "splitter": "random-observed"},
    "prox": {"max_features": "sqrt", "leaf_size": 1, "aggregate": "proximity", "fill": "oob"},
}
BOOSTING = {
    "objective": "binary",
    "metric": "binary_logloss",
    "num_threads": 1,
    "feature_pre_filter": False,
    "force_col_wise": True,
    "verbosity": -1,
}
BOOSTING_GRID = [
    {"learning_rate": rate, "num_leaves": leaves, "min_data_in_leaf": rows}
    for rate in (0.05, 0.1)
    for leaves in (2, 4, 8, 20)
    for rows in (5, 20, 50)
]
ROUNDS, PATIENCE = 400, 25


def ours(split: Split) -> Probabilities:
    """The estimator of this package with nothing set."""
    return fitted(KernelForestClassifier(n_jobs=THREADS, random_state=split.seed), split, "native")


def column(settings: dict[str, Any], split: Split) -> Probabilities:
    """One of the seven forests of the paper's table, everything set."""
    every = {"fill": "inbag", "splitter": "best", "bootstrap": True, "max_samples": None, "calibration": None, **settings}
    return fitted(KernelForestClassifier(TREES, n_jobs=THREADS, random_state=split.seed, **every), split, "native")


def fitted(model: Any, split: Split, form: str) -> Probabilities:
    """Fit on the training rows in the form that the model likes, predict P(y = 1) of the test rows."""
    return fitted_shares(model, split, form)[:, 1]


def fitted_shares(model: Any, split: Split, form: str) -> Probabilities:
    """The same for all classes."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        model.fit(getattr(split.train, form), split.train.y)
        return np.asarray(model.predict_proba(getattr(split.test, form)))


def forest(seed: int, **settings: Any) -> RandomForestClassifier:
    """scikit-learn's forest with its defaults, except for the number of trees."""
    return RandomForestClassifier(**{"n_estimators": TREES, "n_jobs": THREADS, "random_state": seed} | settings)


def plain_forest(split: Split) -> Probabilities:
    """scikit-learn's forest."""
    return fitted(forest(split.seed), split, "dummies")


class Known(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier that looks up the probabilities of rows given by their numbers."""

    def __init__(self, shares: Probabilities) -> None:
        self.shares = shares
        self.classes_ = np.arange(shares.shape[1])

    def fit(self, X: NDArray[np.int64], y: NDArray[np.int64]) -> Known:
        """Nothing is left to fit."""
        return self

    def predict(self, X: NDArray[np.int64]) -> NDArray[np.int64]:
        """The likelier class of the rows asked for."""
        return self.shares[X[:, 0]].argmax(axis=1)

    def predict_proba(self, X: NDArray[np.int64]) -> Probabilities:
        """The probabilities of the rows asked for."""
        return self.shares[X[:, 0]]


@lru_cache(maxsize=1)
def fold_shares(split: Split) -> list[tuple[NDArray[np.int64], Probabilities]]:
    """For each of five folds its rows, and what a forest on the other four says of them and then of the test rows."""
    X, y = split.train.dummies, split.train.y

    def one(kept: NDArray[np.int64], left: NDArray[np.int64]) -> tuple[NDArray[np.int64], Probabilities]:
        grown = forest(split.seed, n_jobs=1).fit(X[kept], y[kept])
        return left, grown.predict_proba(np.vstack([X[left], split.test.dummies]))

    return list(Parallel(n_jobs=THREADS)(delayed(one)(*rows) for rows in StratifiedKFold(5).split(X, y)))


def calibrated_forest(how: str, split: Split) -> Probabilities:
    """What CalibratedClassifierCV(RandomForestClassifier(500), method=how, cv=5) predicts for y = 1."""
    return calibrated_shares(how, split)[:, 1]


def calibrated_shares(how: str, split: Split) -> Probabilities:
    """The same for all classes; both ways share the forests."""
    found = []
    for left, shares in fold_shares(split):
        numbers = np.arange(len(shares))[:, None]
        curve = CalibratedClassifierCV(FrozenEstimator(Known(shares)), method=how)
        curve.fit(numbers[: len(left)], split.train.y[left])
        found.append(curve.predict_proba(numbers[len(left) :]))
    return np.asarray(np.mean(found, axis=0))


def grid_search(seed: int, trees: int) -> GridSearchCV:
    """Search over mtry and leaf size for the log loss of five folds, without the fit of the winner."""
    return GridSearchCV(
        forest(seed, n_estimators=trees, n_jobs=1), GRID, scoring="neg_log_loss", cv=5, n_jobs=THREADS, refit=False
    )


def grid_forest(split: Split) -> Probabilities:
    """scikit-learn's forest with the best mtry and leaf size of a grid, fitted again with all its trees."""
    search = grid_search(split.seed, SEARCH_TREES).fit(split.train.dummies, split.train.y)
    return fitted(forest(split.seed, **search.best_params_), split, "dummies")


def extra_trees(split: Split) -> Probabilities:
    """scikit-learn's extremely randomised trees."""
    return fitted(ExtraTreesClassifier(TREES, n_jobs=THREADS, random_state=split.seed), split, "dummies")


def histogram_boosting(split: Split) -> Probabilities:
    """scikit-learn's gradient boosting with its defaults; it takes categories by itself."""
    with threadpool_limits(1):  # threads that wait for a busy core cost more than they bring
        return fitted(HistGradientBoostingClassifier(random_state=split.seed), split, "native")


def plain_lightgbm(split: Split) -> Probabilities:
    """LightGBM with its defaults; it takes categories by itself."""
    return fitted(lightgbm.LGBMClassifier(n_jobs=1, random_state=split.seed, verbosity=-1), split, "native")


def tuned_lightgbm(split: Split) -> Probabilities:
    """LightGBM with leaves, rows per leaf, rate and rounds chosen by the log loss of five folds."""
    X, y = split.train.dummies, split.train.y
    folds = list(StratifiedKFold(5, shuffle=True, random_state=split.seed).split(X, y))
    data = lightgbm.Dataset(X, y, params=BOOSTING, free_raw_data=False)
    found = []
    for candidate in BOOSTING_GRID:
        stop = lightgbm.early_stopping(PATIENCE, verbose=False)
        path = lightgbm.cv(BOOSTING | candidate, data, ROUNDS, folds=folds, callbacks=[stop])["valid binary_logloss-mean"]
        found.append((min(path), len(path), candidate))
    _, rounds, best = min(found, key=lambda entry: entry[0])
    return np.asarray(lightgbm.train(BOOSTING | best, data, rounds).predict(split.test.dummies, num_threads=1))


FOREST_METHODS: dict[str, Method] = {
    "rf": plain_forest,
    "rf_isotonic": partial(calibrated_forest, "isotonic"),
    "rf_sigmoid": partial(calibrated_forest, "sigmoid"),
    "extratrees": extra_trees,
    "ranger": ranger_probabilities,
    "rf_grid": grid_forest,
}
BOOSTED_METHODS: dict[str, Method] = {"hgb": histogram_boosting, "lightgbm": plain_lightgbm}
COLUMN_METHODS: dict[str, Method] = {name: partial(column, settings) for name, settings in COLUMNS.items()}
METHODS: dict[str, dict[str, Method]] = {
    "simulated": {OURS: ours, **COLUMN_METHODS, "lightgbm": tuned_lightgbm},
    "real": {OURS: ours, **BOOSTED_METHODS, **FOREST_METHODS},
}


@cache
def runs_here(name: str) -> bool:
    """Ask whether a method can be run on this machine."""
    return name != "ranger" or installed("ranger")
