"""Simulated problems with known truth: a name enters; rows, labels and the true probabilities behind them leave.

`PAPER` holds the six models of the table of Olson and Wyner (2018) and the three of its other examples, read as their
printed numbers demand: "circle" on [-28, 28]^2, "1d" as the split at zero (the appendix prints the XOR model in its place),
"10d" with the factor 2 in front (0.5 is printed), "logistic" with the logit x1 + x2 + x3 (twice that is printed).

`DEVELOPMENT` holds problems of other kinds on which the defaults of the package were chosen: sharp and smooth, sparse and
dense, noisy and nearly noiseless, imbalanced, correlated, categorical, with several classes. The paper's six were not used
for that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.checks import check_whole

Array = NDArray[np.float64]


class Sample(NamedTuple):
    """Rows of a problem."""

    X: Array  # (n_rows, n_features)
    y: NDArray[np.int64]  # (n_rows,) class numbers
    p: Array  # (n_rows, n_classes) the true probability of each class


@dataclass(frozen=True)
class Problem:
    """A distribution of rows, and the true probability of each class given a row.

    >>> sample = PAPER["xor"].sample(4, seed=0)
    >>> sample.X.shape, sorted(set(sample.p[:, 1].tolist()))
    ((4, 2), [0.3, 0.7])
    """

    name: str
    rows: Callable[[np.random.Generator, int], Array]
    truth: Callable[[Array], Array]  # (n_rows,) chance of class 1, or (n_rows, n_classes)
    kind: str = ""  # what is hard about it
    categorical: tuple[int, ...] = ()  # columns that hold level numbers

    def sample(self, n: int, seed: Any = None) -> Sample:
        """Draw n rows; the same seed gives the same rows."""
        check_whole("n", n, 1)
        rng = np.random.default_rng(seed)
        X = self.rows(rng, n)
        p = self.probabilities(X)
        y = (rng.random((n, 1)) > p.cumsum(axis=1)[:, :-1]).sum(axis=1)
        return Sample(X, y, p)

    def probabilities(self, X: Array) -> Array:
        """The true probability of each class, (n_rows, n_classes)."""
        p = self.truth(np.asarray(X, dtype=np.float64))
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p


def _uniform(width: int, low: float, high: float, rng: np.random.Generator, n: int) -> Array:
    return rng.uniform(low, high, (n, width))


def _normal(width: int, rng: np.random.Generator, n: int, *, correlation: float = 0.0) -> Array:
    """Normal columns of variance one; neighbours have the correlation, and it decays with distance."""
    Z = rng.standard_normal((n, width))
    for j in range(1, width):
        Z[:, j] = correlation * Z[:, j - 1] + np.sqrt(1.0 - correlation**2) * Z[:, j]
    return Z


def _levels(width: int, n_levels: int, rng: np.random.Generator, n: int) -> Array:
    return rng.integers(n_levels, size=(n, width)).astype(np.float64)


def _mixed_rows(rng: np.random.Generator, n: int) -> Array:
    return np.hstack([_levels(4, 6, rng, n), _uniform(6, -1.0, 1.0, rng, n)])


def _sigmoid(z: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-z)))


def _softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def _circle(X: Array) -> Array:
    return np.asarray(np.clip((28.0 - np.hypot(X[:, 0], X[:, 1])) / 20.0, 0.0, 1.0))


def _split(X: Array) -> Array:
    return np.where(X[:, 0] < 0, 0.3, 0.7)


def _xor(X: Array) -> Array:
    return np.where(X[:, 0] * X[:, 1] < 0, 0.7, 0.3)


def _logistic(X: Array) -> Array:
    return _sigmoid(X.sum(axis=1))


def _logistic_one(X: Array) -> Array:
    return _sigmoid(3.0 * X[:, 0])


def _logistic_two(X: Array) -> Array:
    return _sigmoid(2.0 * X[:, 0] + 2.0 * X[:, 1])


def _ten(X: Array) -> Array:
    signs = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])
    return _sigmoid(2.0 * (1.0 + X[:, :6] @ signs) * X[:, :6].sum(axis=1))


def _kinked(X: Array) -> Array:
    left = X[:, 0] < 0
    return _sigmoid(np.where(left, 3.0, 1.0) * X[:, 0] + np.where(left, 1.0, 3.0) * X[:, 1])


def _stairs(X: Array) -> Array:
    return np.asarray(0.1 + 0.2 * np.clip(np.floor(2.5 * (X[:, 0] + 1.0)), 0.0, 4.0))


def _board(X: Array) -> Array:
    odd = np.floor(1.5 * (X[:, :2] + 1.0)).sum(axis=1) % 2
    return np.asarray(0.15 + 0.7 * odd)


def _boxes(X: Array) -> Array:
    inside = (X[:, 0] > 0.2) & (X[:, 1] > -0.4) | (X[:, 2] < -0.7)
    return np.where(inside, 0.97, 0.02)


def _corner(X: Array) -> Array:
    return np.where((X[:, :2] > -0.3).all(axis=1), 0.75, 0.25)


def _waves(X: Array) -> Array:
    return np.asarray(0.5 + 0.4 * np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]))


def _friedman(X: Array) -> Array:
    z = 10.0 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20.0 * (X[:, 2] - 0.5) ** 2 + 10.0 * X[:, 3] + 5.0 * X[:, 4]
    return _sigmoid((z - 14.4) / 2.5)


def _dense(X: Array) -> Array:
    return _sigmoid(0.35 * X.sum(axis=1) - 1.0)


def _half_space(low: float, high: float, X: Array) -> Array:
    return np.where(X @ np.arange(1.0, 7.0) > 0, high, low)


def _credit(X: Array) -> Array:
    return np.asarray(np.where(X[:, 0] > 0, 0.8, 0.12) + 0.1 * np.tanh(X[:, 1] + X[:, 2] * X[:, 3]))


def _rare(X: Array) -> Array:
    return _sigmoid(1.2 * X[:, 0] + 0.8 * X[:, 1] - X[:, 2] - 3.5)


def _rare_step(X: Array) -> Array:
    return np.where(X[:, 0] > 0.5, 0.3, 0.03)


def _gaussians(X: Array) -> Array:
    """The posterior of two normal classes with different means and variances, in four of ten columns."""
    Z = X[:, :4]
    one = -0.5 * ((Z - 0.5) ** 2 / 0.6).sum(axis=1) - 2.0 * np.log(0.6)
    two = -0.5 * ((Z + 0.3) ** 2 / 1.2).sum(axis=1) - 2.0 * np.log(1.2)
    return _sigmoid(one - two)


def _effects(X: Array) -> Array:
    """Each level has an effect of its own, and two columns matter together."""
    table = np.sin(np.arange(1, 49) * 12.9898).reshape(6, 8) * 1.3
    z = sum(table[j, X[:, j].astype(int)] for j in range(3))
    return _sigmoid(z + 1.5 * np.where(X[:, 3] == X[:, 4], 1.0, -0.2))


def _mixed(X: Array) -> Array:
    slope = np.array([-3.0, -1.0, 0.0, 1.0, 2.0, 3.0])[X[:, 0].astype(int)]
    return _sigmoid(slope * X[:, 4] + np.where(X[:, 1] < 2, 1.2, -0.6) + X[:, 5] ** 2)


def _game(X: Array) -> Array:
    """Whether a row or a column of a board of three by three, the first nine features, is all twos; no noise at all."""
    B = X[:, :9].reshape(-1, 3, 3) == 2
    return np.asarray(B.all(axis=1).any(axis=1) | B.all(axis=2).any(axis=1), dtype=np.float64)


def _noisy_game(X: Array) -> Array:
    return np.asarray(0.05 + 0.9 * _game(X))


def _three(X: Array) -> Array:
    z = np.column_stack([2.0 * X[:, 0], 2.0 * np.sin(3.0 * X[:, 1]), 1.5 * X[:, 0] * X[:, 2] - 0.5])
    return _softmax(1.5 * z)


def _rings(X: Array) -> Array:
    ring = np.minimum(np.floor(2.6 * np.hypot(X[:, 0], X[:, 1])), 3.0).astype(int)
    return np.asarray(0.1 + 0.6 * np.eye(4)[ring])


def _nothing(X: Array) -> Array:
    return np.full(len(X), 0.35)


def _named(problems: list[Problem]) -> Mapping[str, Problem]:
    return MappingProxyType({problem.name: problem for problem in problems})


_square = partial(_uniform, 2, -1.0, 1.0)
PAPER = _named(
    [
        Problem("circle", partial(_uniform, 2, -28.0, 28.0), _circle, "smooth"),
        Problem("1d", _square, _split, "sharp"),
        Problem("1d-sparse", partial(_uniform, 50, -1.0, 1.0), _split, "sharp, sparse"),
        Problem("10d", partial(_normal, 10), _ten, "smooth, interactions, little noise"),
        Problem("logistic", partial(_uniform, 3, -1.0, 1.0), _logistic, "smooth"),
        Problem("xor", _square, _xor, "sharp, interaction"),
        Problem("kinked", _square, _kinked, "smooth, with a kink"),
        Problem("logistic-2d", _square, _logistic_one, "smooth"),
        Problem("derivatives", partial(_uniform, 22, -1.0, 1.0), _logistic_two, "smooth"),
    ]
)
DEVELOPMENT = _named(
    [
        Problem("stairs", partial(_uniform, 5, -1.0, 1.0), _stairs, "sharp"),
        Problem("board", partial(_uniform, 3, -1.0, 1.0), _board, "sharp, interaction"),
        Problem("boxes", partial(_uniform, 8, -1.0, 1.0), _boxes, "sharp, little noise"),
        Problem("corner", partial(_uniform, 30, -1.0, 1.0), _corner, "sharp, sparse"),
        Problem("waves", partial(_uniform, 4, -1.0, 1.0), _waves, "smooth"),
        Problem("friedman", partial(_uniform, 10, 0.0, 1.0), _friedman, "smooth, little noise"),
        Problem("friedman-sparse", partial(_uniform, 60, 0.0, 1.0), _friedman, "smooth, sparse"),
        Problem("gaussians", partial(_normal, 10), _gaussians, "smooth, dense"),
        Problem("correlated", partial(_normal, 20, correlation=0.8), _dense, "smooth, dense, correlated"),
        Problem("half-space", partial(_normal, 6), partial(_half_space, 0.0, 1.0), "no noise"),
        Problem("flips", partial(_normal, 6), partial(_half_space, 0.12, 0.88), "wrong labels"),
        Problem("credit", partial(_normal, 12, correlation=0.3), _credit, "one strong feature, others weak"),
        Problem("rare", partial(_normal, 8), _rare, "imbalanced, smooth"),
        Problem("rare-step", partial(_uniform, 20, -1.0, 1.0), _rare_step, "imbalanced, sharp"),
        Problem("effects", partial(_levels, 6, 8), _effects, "categorical", tuple(range(6))),
        Problem("mixed", _mixed_rows, _mixed, "categorical and numeric", (0, 1, 2, 3)),
        Problem("game", partial(_levels, 12, 3), _game, "categorical, no noise", tuple(range(12))),
        Problem("noisy-game", partial(_levels, 12, 3), _noisy_game, "categorical, wrong labels", tuple(range(12))),
        Problem("three", partial(_uniform, 6, -1.0, 1.0), _three, "three classes, smooth"),
        Problem("rings", partial(_uniform, 4, -1.0, 1.0), _rings, "four classes, sharp"),
        Problem("nothing", partial(_normal, 10), _nothing, "no signal"),
    ]
)
