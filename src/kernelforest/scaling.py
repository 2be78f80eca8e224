"""Scaling of probabilities: class probabilities and class numbers enter, powers and factors of every class leave.

A scaled probability is p_k^a_k exp(c_k) with a_k >= 0, divided by the sum over the classes; or the same with 2 p_k in the
place of log p_k. Exponents and shifts have the least log loss. A prior, weak unless rows are few, holds them near one and
zero: that is the identity, or logit p' = 4p - 2, which touches it at one half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, cho_solve, cholesky, solve_triangular
from scipy.optimize import lsq_linear
from scipy.special import expit, log_softmax

from kernelforest._engine.path import RIDGE
from kernelforest.scoring import effective_number

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]
FEW_ROWS = 100  # below which the prior is stronger, a sigmoid is not compared with other maps, and tuning warns


@dataclass(frozen=True, eq=False)
class Scaling:
    """Multiply log p (or 2 p) by a slope, add a shift, take powers and divide by the sum."""

    slope: Floats  # (n_classes,) >= 0
    shift: Floats  # (n_classes,) sums to zero
    floor: float  # smaller probabilities are read as this one: n rows cannot tell them apart
    linear: bool = False  # scale 2 p, not log p

    def __call__(self, proba: Floats) -> Floats:
        """Calibrated probabilities, (n_rows, n_classes)."""
        x = 2.0 * proba if self.linear else logs(proba, self.floor)
        return np.exp(log_softmax(x * self.slope + self.shift, axis=1))  # type: ignore[no-any-return]


def seen(
    proba: ArrayLike, labels: ArrayLike, weight: ArrayLike | None, n_rows: float | None = None
) -> tuple[Mask, Floats, Numbers, Floats]:
    """Which rows count, and these: probabilities, class numbers, weights that sum to the effective number of rows.

    That is as many as there are at most; or `n_rows`, of which these are a sample.
    """
    p = np.asarray(proba, dtype=np.float64)
    y = np.asarray(labels, dtype=np.int64)
    w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
    if p.ndim != 2 or y.shape != p.shape[:1] or w.shape != y.shape:
        raise ValueError(f"proba, labels and weight must be (n, K), (n,) and (n,), got {p.shape}, {y.shape} and {w.shape}")
    if not ((w >= 0) & (w < np.inf)).all():
        raise ValueError(f"weight must be finite and >= 0, got {w[~((w >= 0) & (w < np.inf))][0]}")
    keep = (w > 0) & ~np.isnan(p).any(axis=1)
    w = w[keep] / w.max(initial=np.finfo(np.float64).tiny)
    return keep, p[keep], y[keep], w * (effective_number(w, y[keep], most=n_rows or len(w)) / w.sum()) if len(w) else w


def floor(w: Floats, n_classes: int) -> float:
    """Smallest probability told from zero: with two classes, half a row among as many as the weights sum to."""
    return 1.0 / max(n_classes * float(w.sum()), 2.0)


def logs(p: Floats, least: float) -> Floats:
    """Logarithms of probabilities, none below that of the least one."""
    return np.log(np.clip(p, least, 1.0))


def scalings(method: str, p: Floats, y: Numbers, w: Floats, starts: Sequence[Floats] = ()) -> list[tuple[Scaling, Floats]]:
    """One scaling for each scale on which it is sought, and its change: where to start on almost the same rows."""
    n_classes = p.shape[1]
    least = floor(w, n_classes)
    slopes = np.ones((n_classes, 1)) if method == "sigmoid" else np.eye(n_classes)
    parts = block_diag(slopes, np.eye(n_classes))
    lower = np.repeat([-1.0, -np.inf], (slopes.shape[1], n_classes))  # a slope is >= 0
    fits = []
    for linear in (False, True) if method == "sigmoid" else (False,):
        start = starts[linear] if starts else np.zeros(parts.shape[1])
        change, _ = newton(2.0 * p if linear else logs(p, least), y, w, parts, lower, start, strength(w))
        slope, shift = (parts @ change).reshape(2, n_classes)
        fits.append((Scaling(np.maximum(1.0 + slope, 0.0), shift - shift.mean(), least, linear), change))
    return fits


def strength(w: Floats) -> float:
    """Of the prior: 0.1, and more below a hundred rows, whose slopes are mostly chance.

    >>> round(strength(np.ones(500)), 3), round(strength(np.ones(50)), 3)
    (0.1, 0.4)
    """
    return RIDGE * max(1.0, FEW_ROWS / max(number_of_rows(w), 1.0)) ** 2


def number_of_rows(w: Floats) -> float:
    """How many there are, or how many they amount to, if that is less."""
    return min(float(len(w)), float(w.sum()))


def newton(
    x: Floats, y: Numbers, w: Floats, parts: Floats, lower: Floats, change: Floats, ridge: float = RIDGE
) -> tuple[Floats, Floats]:
    """Least log loss of softmax(x (1 + slope) + shift), where (slope, shift) = parts @ change and change >= lower.

    The search begins at the given change. A ridge holds it near zero. Every step solves its quadratic model within the
    bounds. Returns the change and the second derivative there, the inverse of its covariance.
    """
    loss, derivatives = (_two_classes if x.shape[1] == 2 else _many_classes)(x, y, w, parts, ridge)
    value, q = loss(change)
    for _ in range(100):
        gradient, curvature = derivatives(change, q)
        root = cholesky(curvature)
        step = -cho_solve((root, False), gradient)
        if (change + step < lower).any():  # |root step + root^-T gradient|^2 is the quadratic model
            toward = -solve_triangular(root, gradient, trans="T")
            step = lsq_linear(root, toward, bounds=(lower - change, np.inf), method="bvls").x
        promised = float(-gradient @ step)
        new_value, new_q = loss(change + step)
        while new_value > value - 1e-4 * promised and promised > 1e-9:
            step, promised = step / 2, promised / 2
            new_value, new_q = loss(change + step)
        change, value, q = change + step, new_value, new_q
        if promised <= 1e-9:  # of the log loss of one row
            break
    return change, derivatives(change, q)[1]


Loss = Callable[[Floats], tuple[float, Floats]]  # change -> log loss, probabilities
Derivatives = Callable[[Floats, Floats], tuple[Floats, Floats]]  # change, probabilities -> gradient, curvature


def _many_classes(x: Floats, y: Numbers, w: Floats, parts: Floats, ridge: float) -> tuple[Loss, Derivatives]:
    n_classes = x.shape[1]
    own = np.arange(n_classes) == y[:, None]

    def loss(change: Floats) -> tuple[float, Floats]:
        slope, shift = (parts @ change).reshape(2, n_classes)
        log_q = log_softmax(x * (1.0 + slope) + shift, axis=1)
        return float(ridge / 2 * change @ change - w @ log_q[own]), np.exp(log_q)

    def derivatives(change: Floats, q: Floats) -> tuple[Floats, Floats]:
        rest = w[:, None] * (q - own)
        gradient = np.concatenate([(rest * x).sum(axis=0), rest.sum(axis=0)])
        both = np.hstack((q * x, q))
        mass = w[:, None] * q
        a, b, c = (mass * x * x).sum(axis=0), (mass * x).sum(axis=0), mass.sum(axis=0)
        curvature = np.block([[np.diag(a), np.diag(b)], [np.diag(b), np.diag(c)]]) - both.T @ (w[:, None] * both)
        return parts.T @ gradient + ridge * change, parts.T @ curvature @ parts + ridge * np.eye(len(change))

    return loss, derivatives


def _two_classes(x: Floats, y: Numbers, w: Floats, parts: Floats, ridge: float) -> tuple[Loss, Derivatives]:
    """The same by log odds, in a third of the time: they are linear in the change."""
    odds = x[:, 1] - x[:, 0]
    design = np.outer(x[:, 1], parts[1]) - np.outer(x[:, 0], parts[0]) + parts[3] - parts[2]
    sign = 1.0 - 2.0 * y

    def loss(change: Floats) -> tuple[float, Floats]:
        z = odds + design @ change
        return float(ridge / 2 * change @ change + w @ np.logaddexp(0.0, sign * z)), expit(z)

    def derivatives(change: Floats, q: Floats) -> tuple[Floats, Floats]:
        mass = w * q * (1.0 - q)
        curvature = (design.T * mass) @ design + ridge * np.eye(len(change))
        return design.T @ (w * (q - y)) + ridge * change, curvature

    return loss, derivatives
