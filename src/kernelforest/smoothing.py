"""Kernel-weighted averages: rows, and values times mass, enter; averages and a path of bandwidths to choose from leave.

Of the matrix K only blocks of max(1, 2**19 // n_rows) lines exist, so memory is 4 MB per thread and array, or one line of K
if that is more; 100,000 x 100,000 rows are no problem.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import ThreadpoolController

from kernelforest.frames import as_table
from kernelforest.threads import blocks_of

Floats = NDArray[np.float64]

METRICS = {"laplace": "cityblock", "gaussian": "sqeuclidean"}
_BLOCK = 2**19  # numbers in a block of K
_RATIO = 2.0**0.5  # between the bandwidths of a path, unless it would have too many steps
_MOST_STEPS = 40
_STEEPEST = 1e300  # and not infinity, because the nearest row is at distance zero
_PROBES = 500  # rows whose distances say where a path begins and ends


@dataclass(frozen=True, eq=False)
class ScoredBandwidths:
    """Leave-one-out scores of a geometric path of bandwidths, widest first; smaller is better."""

    bandwidth: Floats  # (n_steps,)
    scores: Mapping[str, Floats]  # (n_steps,) each
    chosen: int
    n_rows: int  # rows that were left out, one at a time

    def frame(self) -> Any:
        """One line per bandwidth: a pandas data frame, or a dict of columns where pandas is not installed."""
        columns = {"bandwidth": self.bandwidth, **self.scores, "chosen": np.arange(len(self.bandwidth)) == self.chosen}
        return as_table(columns)


@dataclass(frozen=True, eq=False)
class Smoother:
    """Training rows, and what is averaged over them."""

    kernel: str | Callable[[Floats, Floats], Any]
    table: Floats  # (n_rows, n_values + 1) values times mass, then the mass
    rows: Floats | None = None  # (n_rows, n_features) times the weights; None if the kernel is precomputed
    weights: Floats | None = None  # (n_features,) of a kernel that has them
    bandwidth: float = 1.0

    def average(self, points: Any, threads: int) -> Floats:
        """Kernel-weighted averages at points, (n_points, n_values), by blocks."""
        out = np.zeros((points.shape[0], self.table.shape[1]))

        def block(part: slice) -> None:
            out[part] = self._similar(points[part]) @ self.table

        _in_threads(block, out.shape[0], len(self.table), threads, own=not callable(self.kernel))
        return _ratios(out, self.table.sum(axis=0))

    def _similar(self, points: Any) -> Any:
        """Lines of K, each up to a factor of its own."""
        if self.rows is None:
            return _below_one(points)
        if callable(self.kernel):
            return _below_one(check_similarities("kernel", self.kernel(points, self.rows), (len(points), len(self.rows))))
        away = _relative_distances(points * self.weights, self.rows, METRICS[self.kernel])
        return _scaled(away, self.kernel, self.bandwidth, out=away)


def leave_one_out(
    rows: Floats, table: Floats, kernel: str, bandwidths: Floats, left_out: NDArray[np.intp], threads: int
) -> Floats:
    """Averages at training rows without the row itself, (n_bandwidths, n_left_out, n_values).

    Where the bandwidths fall by a factor of sqrt(2), every entry of K is the square of the one a step before (gaussian) or
    two (laplace): few exponentials are taken. Squaring k times costs k of the 52 bits.
    """
    squares = np.allclose(bandwidths[:-1], _RATIO * bandwidths[1:], rtol=1e-9, atol=0.0)
    stride = len(bandwidths) if not squares else 2 if kernel == "laplace" else 1
    out = np.zeros((len(bandwidths), len(left_out), table.shape[1]))

    def block(part: slice) -> None:
        away = _relative_distances(rows[left_out[part]], rows, METRICS[kernel], left_out[part])
        similar = np.empty_like(away)
        for first in range(min(stride, len(bandwidths))):
            _scaled(away, kernel, float(bandwidths[first]), out=similar)
            for step in range(first, len(bandwidths), stride):
                out[step, part] = similar @ table
                np.square(similar, out=similar)

    _in_threads(block, len(left_out), len(rows), threads)
    return np.stack([_ratios(sums, table.sum(axis=0)) for sums in out])


def path_of_bandwidths(rows: Floats, kernel: str) -> Floats:
    """From four times a typical distance, where all rows count, by sqrt(2) to a quarter of a typical one to the next row.

    Steps are wider where 40 of them would not reach the end, as with clusters that are far apart and narrow.

    >>> path_of_bandwidths(np.array([[0.0], [1.0]]), "laplace").round(2)
    array([4.  , 2.83, 2.  , 1.41, 1.  , 0.71, 0.5 , 0.35, 0.25])
    """
    probes = rows[choose_rows(len(rows), _PROBES)]
    metric, power = METRICS[kernel], 1.0 if kernel == "laplace" else 0.5
    nearest = np.empty(len(probes))
    for part in _parts(len(probes), len(rows)):
        away = cdist(probes[part], rows, metric)
        away[away == 0.0] = np.inf  # the row itself, and rows like it
        nearest[part] = away.min(axis=1)
    known = nearest[nearest < np.inf]
    if not len(known):
        return np.ones(1)
    between = cdist(probes, probes, metric)
    between = between[(between > 0.0) & (between < np.inf)]
    narrowest = float(np.median(known)) ** power / 4.0
    widest = max(narrowest, 4.0 * float(np.median(between if len(between) else known)) ** power)
    n_steps = 1 + int(np.ceil((np.log(widest) - np.log(narrowest)) / np.log(_RATIO) - 1e-9))
    if n_steps > _MOST_STEPS:
        return np.geomspace(widest, narrowest, _MOST_STEPS)
    return np.asarray(widest / _RATIO ** np.arange(n_steps))


def choose_rows(n_rows: int, most: int) -> NDArray[np.intp]:
    """Numbers of all rows, or of a fixed random choice of them if there are more than `most`."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def check_similarities(name: str, similar: Any, shape: tuple[int, int]) -> Any:
    """Check a matrix that a user's kernel returned, or that was precomputed; sparse ones become CSR, others arrays."""
    if np.shape(similar) != shape:
        raise ValueError(f"kernel must return a matrix of shape {shape}, got {np.shape(similar)}")
    similar = similar.tocsr() if hasattr(similar, "tocsr") else np.asarray(similar)
    entries = similar.data if hasattr(similar, "tocsr") else similar
    wrong = ~((entries >= 0.0) & (entries < np.inf))
    if wrong.any():
        raise ValueError(f"{name} must be finite and >= 0, got {entries[wrong].ravel()[0]}")
    return similar


def _below_one(similar: Any) -> Any:
    """Divide each line by a power of two, which changes no digit: its largest entry is below one, and no sum overflows.

    >>> _below_one(np.array([[1e308, 1e308], [0.0, 3.0]])).sum(axis=1)
    array([1.11253693, 0.75      ])
    """
    sparse = hasattr(similar, "tocsr")
    largest = similar.max(axis=1).toarray().ravel() if sparse else similar.max(axis=1)
    factor = np.ldexp(1.0, np.minimum(-np.frexp(largest)[1], 1000))
    if not sparse:
        return similar * factor[:, None]
    scaled = similar.astype(np.float64)
    scaled.data *= np.repeat(factor, np.diff(scaled.indptr))
    return scaled


def _relative_distances(points: Floats, rows: Floats, metric: str, own: NDArray[np.intp] | None = None) -> Floats:
    """Distances to all rows minus that to the nearest, so that the largest similarity is one however far a point is.

    The row `own` of each point does not count. Infinite in a line where no distance is finite.
    """
    away = np.asarray(cdist(points, rows, metric))
    if own is not None:
        away[np.arange(len(own)), own] = np.inf
    nearest = away.min(axis=1, keepdims=True)
    away -= np.where(np.isfinite(nearest), nearest, 0.0)
    return away


def _ratios(sums: Floats, overall: Floats) -> Floats:
    """Sums of values over the sum of mass, which is last; where that is zero no row is similar, and all count alike."""
    sums = np.where(sums[:, -1:] > 0, sums, overall)
    return np.asarray(sums[:, :-1] / sums[:, -1:])


def _scaled(away: Floats, kernel: Any, bandwidth: float, out: Floats) -> Floats:
    """Similarities from relative distances: exp(-away / bandwidth), or exp(-away / 2 bandwidth^2) if they are squares."""
    factor = 1.0 / bandwidth if kernel == "laplace" else 0.5 / bandwidth / bandwidth
    with np.errstate(over="ignore"):  # far away is far away
        np.multiply(away, -min(factor, _STEEPEST), out=out)
    return np.exp(out, out=out)


def _parts(n_points: int, n_rows: int) -> list[slice]:
    return blocks_of(n_points, max(1, _BLOCK // n_rows))


def _in_threads(block: Callable[[slice], None], n_points: int, n_rows: int, threads: int, *, own: bool = True) -> None:
    """Work on blocks of points; `own` says that no kernel of a user is called.

    On several threads those of BLAS have nothing to gain in such thin products, and take twice as long. They can only be
    limited for the whole process, and only the thread that did it can set them free: so one does at a time.
    """
    parts = _parts(n_points, n_rows)
    if threads == 1 or len(parts) < 2:
        for part in parts:
            block(part)
        return
    with ExitStack() as stack:
        if own:  # the kernel of a user may come here, too
            stack.enter_context(_limiting())
            stack.enter_context(_blas().limit(limits=1, user_api="blas"))
        for _ in stack.enter_context(ThreadPoolExecutor(threads)).map(block, parts):
            pass


@cache
def _limiting() -> Lock:
    return Lock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_limiting.cache_clear)  # whoever holds it is not in the child


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()
