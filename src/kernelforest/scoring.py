"""Proper scores of class probabilities. Plots, reports and estimators share these, so they agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
    n_rows, n_classes = proba.shape
    hit = np.zeros_like(proba)
    hit[np.arange(n_rows), labels] = 1.0
    squares = ((proba - hit) ** 2).sum(axis=1) * (0.5 if n_classes == 2 else 1.0)
    own = proba[np.arange(n_rows), labels]
    losses = -np.log(np.clip(own, np.finfo(np.float64).eps, 1.0))
    top = proba == proba.max(axis=1, keepdims=True)
    errors = 1.0 - (top * hit).sum(axis=1) / top.sum(axis=1)  # a tie is a guess
    return Scores(*(float(np.average(x, weights=weight)) for x in (losses, squares, errors)))
