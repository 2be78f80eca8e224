"""Cuts of one cell of the naive forest: their law and points enter; probabilities that a point stays in the cell leave.

With k cuts in all, k_j of them along feature j, that probability is a sum over all k_1 + ... + k_p = k. The sum is k! times
the coefficient of t^k in a product of p short polynomials in t.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, factorial, gammaln

from kernelforest._engine import naive as engine
from kernelforest.compiling import announced_compiling

Floats = NDArray[np.float64]

MOST_CUTS = 160  # cuts of one cell: more do not matter, for any number of leaves that a computer holds
_ROWS = 128  # per block: their coefficients stay in the nearest cache
_NEGLIGIBLE = 1e-15  # probability left out of a sum


class Cuts(NamedTuple):
    """How often the cell of 0 is cut, and along which features."""

    chance: Floats  # (p,) of each feature, given a cut
    degrees: NDArray[np.int64]  # (p,) most cuts along each that matter
    law: Floats  # P(K = k), k = 0, 1, ...


def even_cuts(p: int, depth: int) -> Cuts:
    """Cuts along uniform features, `depth` of them."""
    return Cuts(np.full(p, 1.0 / p), np.full(p, depth), (np.arange(depth + 1) == depth).astype(np.float64))


@lru_cache(maxsize=32)
@announced_compiling()
def cut_law(M: int) -> Floats:
    """P(K = k) of the number of cuts of one cell, up to where the rest is negligible."""
    law = np.empty(int(degrees(np.array([harmonic(M - 1)]), M - 1)[0]) + 1)
    engine.count_cuts(M, law)
    rest = law[::-1].cumsum()[::-1]
    law = law[: int((rest > _NEGLIGIBLE).sum())]
    law.flags.writeable = False
    return law


def degrees(rates: Floats, most: int) -> NDArray[np.int64]:
    """Numbers of cuts after which more are negligible: P(k_j > d) <= rate^(d + 1) / (d + 1)!, a factorial moment."""
    d = np.arange(min(most, MOST_CUTS))
    with np.errstate(divide="ignore"):
        bound = np.log(rates)[:, None] * (d + 1) - gammaln(d + 2.0)
    falling = d + 1 > rates[:, None]
    return np.asarray(((bound > log(_NEGLIGIBLE)) | ~falling).sum(axis=1))


def harmonic(n: int) -> float:
    """1 + 1/2 + ... + 1/n."""
    return max(0.0, float(digamma(n + 1.0) + np.euler_gamma))


def mix_points(z: Floats, cuts: Cuts) -> Floats:
    """Expectation over the cuts of the probability that z is still with 0."""

    def survive(some: Floats) -> Floats:
        out = np.empty((len(some), int(cuts.degrees.max()) + 1, some.shape[1]))
        engine.survive_uniform(some, minus_log(some), cuts.degrees, np.empty(some.shape[1]), out)
        return out

    return mix(z, cuts, survive)


@announced_compiling()
def mix(points: NDArray[Any], cuts: Cuts, survive: Callable[[NDArray[Any]], Floats]) -> Floats:
    """Expectation over the cuts of prod_j survival_j(k_j), by blocks; `survive` gives (p, cuts, rows) for (p, rows)."""
    factor = cuts.law * factorial(np.arange(len(cuts.law)))
    rows = flat_rows(points)
    out = np.empty(len(rows))
    for first in range(0, len(rows), _ROWS):
        some = np.ascontiguousarray(rows[first : first + _ROWS].T)
        power = np.empty((len(factor), some.shape[1]))
        engine.mix_products(survive(some), cuts.chance, cuts.degrees, factor, power, out[first : first + _ROWS])
    return np.minimum(out, 1.0).reshape(points.shape[:-1])


def minus_log(z: Floats) -> Floats:
    """-log z, the rate of the cuts that z survives."""
    return -np.log(np.maximum(z, 1e-300))  # times z, which is 0 where this matters


def flat_rows(points: NDArray[Any]) -> NDArray[Any]:
    """Points of any shape (..., p) as a table."""
    return np.ascontiguousarray(points.reshape(-1, points.shape[-1]))
