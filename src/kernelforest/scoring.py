"""Proper scores of class probabilities. Plots, reports, tuning and estimators share these, so they agree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SCORINGS = ("log_loss", "brier")


class Scores(NamedTuple):
    """How good probabilities are; smaller is better in all three."""

    log_loss: float
    brier: float
    error: float


def score(proba: NDArray[np.float64], labels: NDArray[np.integer], weight: NDArray[np.float64] | None = None) -> Scores:
    """Score class probabilities against class numbers.

    The Brier score of two classes is the mean of (p - y)^2; of more classes, the sum of that over the classes. The log loss
    of a probability of zero is kept finite as in scikit-learn, at about 36.

    >>> score(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1]))
    Scores(log_loss=0.34657359027997264, brier=0.125, error=0.25)
    """
    own = np.arange(len(labels)), labels
    top = proba == proba.max(axis=1, keepdims=True)
    errors = 1.0 - top[own] / top.sum(axis=1)  # a tie is a guess
    rows = losses(proba, labels, "log_loss"), losses(proba, labels, "brier"), errors
    return Scores(*(float(np.average(x, weights=weight)) for x in rows))


def losses(proba: NDArray[np.float64], labels: NDArray[np.integer], scoring: str) -> NDArray[np.float64]:
    """The log loss or Brier score of every row; `score` averages them."""
    own = proba[np.arange(len(labels)), labels]
    if scoring == "log_loss":
        return np.asarray(-np.log(np.clip(own, np.finfo(np.float64).eps, 1.0)))
    half = 0.5 if proba.shape[1] == 2 else 1.0
    return np.asarray(((proba**2).sum(axis=1) - 2.0 * own + 1.0) * half)


def mean_and_error(
    values: NDArray[np.float64], weight: NDArray[np.float64], groups: NDArray[np.integer] | None = None
) -> tuple[float, float]:
    """A weighted mean and its standard error; rows of a group count as one observation.

    >>> mean_and_error(np.array([1.0, 3.0]), np.ones(2))
    (2.0, 1.0)
    """
    mean = float(np.average(values, weights=weight))
    around: NDArray[Any] = weight * (values - mean)
    sums = around if groups is None else np.bincount(groups, around)
    if len(sums) < 2:
        return mean, float("inf")
    spread = len(sums) / (len(sums) - 1) * float((sums**2).sum())
    return mean, float(np.sqrt(spread) / weight.sum())
