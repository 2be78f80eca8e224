"""Simulated problems whose class probabilities are known, each drawn from one seed.

Enters: a seed. Leaves: a `Problem` of 250 training rows, their labels, 1000 test rows and the true
probability of every class at the test rows. `record.py` hands these to R; `test_golden.py` draws
the same ones again for our forest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

N_TRAIN = 250
N_TEST = 1000
LEVEL_LOGITS = np.array([-1.5, 1.5, -0.5, 1.0, -1.0, 0.5])  # not monotone in the level's code


@dataclass(frozen=True)
class Problem:
    """One draw of a problem; `categorical` lists the columns of X that hold level codes."""

    X: Floats  # (n_train, n_features)
    y: NDArray[np.int64]  # (n_train,), codes 0 .. n_classes - 1
    X_test: Floats  # (n_test, n_features)
    p_test: Floats  # (n_test, n_classes), rows sum to one
    categorical: tuple[int, ...] = ()


def circle(seed: int) -> Problem:
    """Fall from certainty inside radius 8 to impossibility at radius 28, on [-28, 28] squared."""

    def p_of_one(X: Floats) -> Floats:
        radius = np.hypot(X[:, 0], X[:, 1])
        return np.clip((28 - radius) / 20, 0, 1)

    return _two_classes(seed, _uniform(2, 28.0), p_of_one)


def one_d_sparse(seed: int, n: int = N_TRAIN, n_features: int = 50) -> Problem:
    """Step from 0.3 to 0.7 where the first of many uniform features crosses zero."""

    def p_of_one(X: Floats) -> Floats:
        return np.where(X[:, 0] > 0, 0.7, 0.3)

    return _two_classes(seed, _uniform(n_features, 1.0), p_of_one, n)


def ten_d(seed: int, gamma: float = 2.0) -> Problem:
    """Multiply an alternating and a plain sum of the first six of ten normal features."""

    def p_of_one(X: Floats) -> Floats:
        active = X[:, :6]
        alternating = 1 + active @ np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
        return _logistic(gamma * alternating * active.sum(axis=1))

    return _two_classes(seed, lambda rng, n: rng.standard_normal((n, 10)), p_of_one)


def xor(seed: int) -> Problem:
    """Give 0.7 where the two features have the same sign and 0.3 elsewhere."""

    def p_of_one(X: Floats) -> Floats:
        return np.where(X[:, 0] * X[:, 1] > 0, 0.7, 0.3)

    return _two_classes(seed, _uniform(2, 1.0), p_of_one)


def three_classes(seed: int) -> Problem:
    """Draw one of three classes by a softmax of (2 x1, 2 x2, 0); three more features are noise."""

    def shares(X: Floats) -> Floats:
        odds = np.exp(np.column_stack([2 * X[:, 0], 2 * X[:, 1], np.zeros(len(X))]))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))

    return _draw(seed, _uniform(5, 1.0), shares)


def six_levels(seed: int) -> Problem:
    """Add the effect of a six-level category (column 0) and twice the first of four numbers."""

    def features(rng: np.random.Generator, n: int) -> Floats:
        levels = rng.integers(6, size=n).astype(np.float64)
        return np.column_stack([levels, rng.uniform(-1, 1, (n, 4))])

    def p_of_one(X: Floats) -> Floats:
        return _logistic(LEVEL_LOGITS[X[:, 0].astype(int)] + 2 * X[:, 1])

    return _two_classes(seed, features, p_of_one, categorical=(0,))


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "circle": circle,
    "one_d_sparse": one_d_sparse,
    "ten_d": ten_d,
    "xor": xor,
    "three_classes": three_classes,
    "six_levels": six_levels,
}


def fingerprint(problem: Problem) -> list[float]:
    """Sum each array of a problem against row numbers: equal sums mean the same draw.

    Sums, compared to a tolerance, survive a last-digit difference of exp between machines.
    """
    arrays = (problem.X, problem.y[:, None], problem.X_test, problem.p_test)
    return [float(np.mean(np.arange(len(a)) @ a)) for a in arrays]


Features = Callable[[np.random.Generator, int], Floats]


def _draw(
    seed: int,
    features: Features,
    shares: Callable[[Floats], Floats],
    n: int = N_TRAIN,
    categorical: tuple[int, ...] = (),
) -> Problem:
    rng = np.random.default_rng(seed)
    X, X_test = features(rng, n), features(rng, N_TEST)
    # the class of a row is the number of cumulated shares its uniform draw exceeds
    cumulated = np.cumsum(shares(X), axis=1)[:, :-1]
    y = (rng.uniform(size=(n, 1)) > cumulated).sum(axis=1)
    return Problem(X, y.astype(np.int64), X_test, shares(X_test), categorical)


def _two_classes(
    seed: int,
    features: Features,
    p_of_one: Callable[[Floats], Floats],
    n: int = N_TRAIN,
    categorical: tuple[int, ...] = (),
) -> Problem:
    def shares(X: Floats) -> Floats:
        p = p_of_one(X)
        return np.column_stack([1 - p, p])

    return _draw(seed, features, shares, n, categorical)


def _uniform(n_features: int, half_width: float) -> Features:
    return lambda rng, n: rng.uniform(-half_width, half_width, (n, n_features))


def _logistic(logit: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-logit)))
