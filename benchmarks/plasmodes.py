"""A table enters; its columns leave with labels drawn from probabilities that are known: those of a model of its own labels.

The truth is then as crooked, and the columns are as related, as in real data. Which model is a family: "boosting" is better
known to trees, "logistic" to sums.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from real_catalogue import Table
from real_splits import allot

MOST_LEVELS = 255  # that scikit-learn's boosting takes
MOST_FITTED = 20_000  # rows that a logistic regression is fitted to
BASE_SHARE = 0.02  # of the base rates in the truth, so that it is nowhere 0 or 1

Probabilities = NDArray[np.float64]  # (n_rows, n_classes)


@dataclass(frozen=True, eq=False)
class Plasmode:
    """Real columns, drawn labels, and the probabilities that they were drawn from."""

    X: pd.DataFrame
    y: NDArray[np.int64]
    p: Probabilities


def plasmode(table: Table, seed: int, family: str) -> Plasmode:
    """Draw labels of a table's rows; the probabilities do not depend on the seed. Groups mean nothing to the new labels."""
    p = truth(table, family)
    drawn = np.random.default_rng(seed).random((len(p), 1))
    y = (drawn > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    return Plasmode(table.X, y.astype(np.int64), p)


@lru_cache(maxsize=4)
def truth(table: Table, family: str) -> Probabilities:
    """Fit a model of the family to a table's own labels, and take its probabilities for true."""
    if family not in FAMILIES:
        raise ValueError(f"family must be one of {list(FAMILIES)}, got {family!r}")
    fitted = FAMILIES[family](table)
    base = np.bincount(table.y) / len(table.y)
    return (1 - BASE_SHARE) * fitted + BASE_SHARE * base


def of_boosting(table: Table) -> Probabilities:
    """Fit gradient boosting, stopped early."""
    X = coded(table.X)
    return np.asarray(boosting(table.X).fit(X, table.y).predict_proba(X))


def boosting(X: pd.DataFrame) -> HistGradientBoostingClassifier:
    """Boost what `coded` makes of a frame."""
    return HistGradientBoostingClassifier(
        categorical_features=(X.dtypes == "category").to_numpy(), early_stopping=True, random_state=0
    )


def of_logistic(table: Table) -> Probabilities:
    """Fit a logistic regression to standardised numbers and to levels, each a column of zeros and ones."""
    X = without_dates(table.X)
    numbers = make_pipeline(SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True), StandardScaler())
    levels = OneHotEncoder(min_frequency=10, max_categories=60, handle_unknown="infrequent_if_exist")
    columns = make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (levels, make_column_selector(dtype_include="category"))
    )
    model = make_pipeline(columns, LogisticRegression(max_iter=200))
    rows = sample(table.y, min(MOST_FITTED, len(table.y)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # any probabilities will do for the truth
        return np.asarray(model.fit(X.iloc[rows], table.y[rows]).predict_proba(X))


FAMILIES: dict[str, Callable[[Table], Probabilities]] = {"boosting": of_boosting, "logistic": of_logistic}


def sample(y: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Take rows at random, of each class its share."""
    rng, sizes = np.random.default_rng(0), np.bincount(y)
    taken = [rng.permutation(np.flatnonzero(y == each))[:count] for each, count in enumerate(allot(sizes, n, 5))]
    return np.sort(np.concatenate(taken))


def coded(X: pd.DataFrame) -> NDArray[np.float64]:
    """Write a frame as numbers; levels by how frequent they are, and those that boosting cannot take as one."""
    X = without_dates(X)
    columns = [ranked(X[name]) if X[name].dtype == "category" else X[name] for name in X]
    return np.column_stack(columns).astype(np.float64)


def ranked(column: pd.Series) -> pd.Series:
    """Number the levels from the most frequent on."""
    place = {level: min(i, MOST_LEVELS - 1) for i, level in enumerate(column.value_counts().index)}
    return column.map(place).astype(float)


def without_dates(X: pd.DataFrame) -> pd.DataFrame:
    """Write dates as days since 1970."""
    dates = X.select_dtypes("datetime")
    return X.assign(**{name: (dates[name] - pd.Timestamp(0)) / pd.Timedelta(days=1) for name in dates})
