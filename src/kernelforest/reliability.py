"""Reliability: probabilities of one class and what was observed enter; a diagram as numbers leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from kernelforest.checks import check_whole
from kernelforest.frames import as_table
from kernelforest.scaling import Floats, Numbers, floor, logs, newton, seen
from kernelforest.scoring import effective_number


@dataclass(frozen=True, eq=False)
class Reliability:
    """Observed shares against probabilities, in bins of about equal weight, and how a logistic fit would correct them."""

    p: Floats  # (n_bins,) mean probability
    share: Floats  # (n_bins,) observed
    low: Floats  # (n_bins,) Wilson interval of the share, 95 %
    high: Floats  # (n_bins,)
    count: Numbers  # (n_bins,) rows
    slope: float  # of hits on logit p: below one, probabilities are too extreme; above one, too timid
    slope_error: float  # standard error
    intercept: float  # with the slope fixed at one: above zero, probabilities are too small on the whole
    intercept_error: float  # standard error

    def frame(self) -> Any:
        """One line per bin: a pandas data frame, or a dict of columns where pandas is not installed."""
        return as_table({name: getattr(self, name) for name in ("p", "share", "low", "high", "count")})


def reliability(p: ArrayLike, hit: ArrayLike, weight: ArrayLike | None = None, bins: int = 10) -> Reliability:
    """Compare the probabilities of one class with what was observed.

    Equal probabilities share a bin, so there may be fewer bins than asked for. Slope and intercept stay finite where hits
    and misses are separated: a weak prior holds them near one and zero, and their standard errors are large.

    >>> found = reliability([0.1, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9], [0, 0, 0, 1, 1, 1, 1, 0], bins=2)
    >>> found.p.tolist(), found.share.tolist(), found.slope < 1
    ([0.1, 0.9], [0.25, 0.75], True)
    """
    bins, chance, hits = check_whole("bins", bins, 1), read_probabilities(p), np.asarray(hit)
    if hits.shape != chance.shape or not np.isin(hits, [0, 1]).all():
        raise ValueError(f"hit must be {len(chance)} times 0 or 1, as many as p; got {hit!r}")
    _, proba, y, w = seen(np.column_stack((1.0 - chance, chance)), hits.astype(np.int64), weight, n_rows=np.inf)
    values, at = np.unique(proba[:, 1], return_inverse=True)
    mass = np.bincount(at, w, len(values))
    middle = (np.cumsum(mass) - mass / 2) / max(mass.sum(), np.finfo(np.float64).tiny)
    bin_of = np.unique(np.minimum((bins * middle).astype(np.int64), bins - 1), return_inverse=True)[1][at]  # no empty bins
    total = np.bincount(bin_of, w)
    share = np.bincount(bin_of, w * y) / total
    number = [effective_number(w[bin_of == k], y[bin_of == k]) for k in range(len(total))]
    low, high = _wilson(share, np.array(number))
    log_p = logs(proba, floor(w, 2))
    parts = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, -0.5], [0.0, 0.5]])  # a slope for both classes, a shift between them
    tilt, tilt_curvature = newton(log_p, y, w, parts, np.full(2, -np.inf), np.zeros(2))
    lift, lift_curvature = newton(log_p, y, w, parts[:, 1:], np.full(1, -np.inf), np.zeros(1))
    odds, one = log_p[:, 1] - log_p[:, 0], np.ones(len(y))
    tilted, lifted = odds * (1.0 + tilt[0]) + tilt[1], odds + lift[0]
    slope_error = _error(tilt_curvature, np.column_stack((odds, one)), w, y - expit(tilted))
    intercept_error = _error(lift_curvature, one[:, None], w, y - expit(lifted))
    bars = (np.bincount(bin_of, w * proba[:, 1]) / total, share, low, high, np.bincount(bin_of))
    return Reliability(*bars, float(1.0 + tilt[0]), slope_error, float(lift[0]), intercept_error)


def _error(curvature: Floats, design: Floats, w: Floats, rest: Floats) -> float:
    """Standard error of the first coefficient; weights that differ may make it larger than the curvature says."""
    inverse = np.linalg.inv(curvature)
    variance = inverse[0, 0]
    if len(w) and w.min() < w.max():
        variance = max(variance, (((design * (w * rest)[:, None]) @ inverse[0]) ** 2).sum())
    return float(np.sqrt(variance))


def read_probabilities(p: ArrayLike) -> Floats:
    """Check the probabilities of one class."""
    chance = np.asarray(p, dtype=np.float64)
    if chance.ndim != 1 or not len(chance):
        raise ValueError(f"p must be the probabilities of one class, (n_rows,); got shape {chance.shape}")
    if not ((chance > -1e-9) & (chance < 1 + 1e-9)).all():  # sums of floats may be a little off
        raise ValueError(f"p must be from 0 to 1, got values from {chance.min():.3g} to {chance.max():.3g}")
    return np.clip(chance, 0.0, 1.0)


def _wilson(share: Floats, n: Floats) -> tuple[Floats, Floats]:
    z = 1.959963984540054  # the normal quantile of 0.975
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
