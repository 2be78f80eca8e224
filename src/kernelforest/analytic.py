"""The naive kernel that a real forest resembles: a forest's kernel enters; cuts per feature, S, W, p_S, p_W and M leave.

In a naive forest of M leaves a row sees cuts along feature j whose number is about Poisson, with the mean p_j H_{M-1}: p_j
is the chance that a cut goes along j, and H_{M-1} = 1 + 1/2 + ... + 1/(M - 1). These means are the weights here. They
decide the kernel along one feature (`mean_kernel`), they add up to H_{M-1}, and the features fall into S strong and W weak
ones. They are fitted to profiles K(x0 + h e_j, x0), averaged over rows x0 and both signs of h; so nothing is said about
rows that differ in many features. The exponential of Proposition 1 is too far off even along one feature: by it, a naive
forest of 100 leaves would pass for one of 300 or more.

M is the size of a *naive* forest with this kernel. It is larger than the number of leaves of the real one, about its square
if cuts are random: the naive forest cuts any leaf next, a real one those with many rows, so that a row sees more cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import pdtrc, polygamma, psi, xlogy
from scipy.stats import poisson

from kernelforest.cell_cuts import minus_log
from kernelforest.checks import check_choice, check_whole
from kernelforest.forest import Forest
from kernelforest.frames import as_table
from kernelforest.kernel import ForestKernel, Training, read_kernel, shape
from kernelforest.kernel.grids import changed_copies, is_categorical
from kernelforest.kernel.points import as_rows, read_rows
from kernelforest.threads import blocks_of

Floats = NDArray[np.float64]

SCALES = ("range", "quantile")
STRONG = 2.0  # times the weight of the others: less, and no feature stands out
_SHOWN = 3  # features named in a sentence
_ROUNDING = 1e-9
_MOST = 160  # cuts along one feature
_TINY = 1e-12
_COPIES = 4_000_000  # numbers in one batch of moved copies


@dataclass(frozen=True, eq=False)
class NaiveFit:
    """The naive forest whose kernel is closest to that of a forest."""

    names: tuple[str, ...]
    weights: Floats  # (n_features,) cuts that a row sees, on average; 0 of a constant feature, NaN of a categorical one
    unit: Floats  # (n_features,) what u_j = 1 is worth: the range of the feature; NaN if u is a share of the rows
    strong: NDArray[np.bool_]  # (n_features,)
    u: Floats  # (n_steps,) distances
    profile: Floats  # (n_features, n_steps) the forest's kernel at those, averaged; NaN if unknown
    r2: float  # of log K, over features and distances, each weighing as its K
    n_leaves: float  # mean number of leaves of the forest itself

    @property
    def M(self) -> float:  # noqa: N802
        """Leaves of a naive forest with this kernel: a row sees 1 + 1/2 + ... + 1/(M - 1) cuts."""
        return leaves_of(float(np.nansum(self.weights)))

    @property
    def shares(self) -> Floats:
        """Chance of each feature to be cut: weights over their sum."""
        total = np.nansum(self.weights)
        return self.weights / total if total > 0 else self.weights

    @property
    def S(self) -> int:  # noqa: N802
        """Number of strong features."""
        return int(self.strong.sum())

    @property
    def W(self) -> int:  # noqa: N802
        """Number of weak features, categorical ones not counted."""
        return int((~self.strong & ~np.isnan(self.weights)).sum())

    @property
    def p_strong(self) -> float:
        """Mean share of the strong features, 0 if there is none."""
        return float(self.shares[self.strong].sum() / max(self.S, 1))

    @property
    def p_weak(self) -> float:
        """Mean share of the weak features, 0 if there is none."""
        return float(np.nansum(self.shares[~self.strong]) / max(self.W, 1))

    def __str__(self) -> str:
        leaves = f"{self.M:,.0f}" if self.M < 1e6 else f"{self.M:.1e}"
        if self.S:
            order = np.argsort(-np.where(self.strong, self.weights, -1.0), kind="stable")[: self.S]
            named = ", ".join(self.names[j] for j in order[:_SHOWN]) + (", ..." if self.S > _SHOWN else "")
            carry = f"carry {self.S * self.p_strong:.0%} of the weight ({named})".replace("%", " %")
            features = f"{self.S} of {self.S + self.W} features {carry}"
        else:
            features = f"none of {self.W} features stands out"
        return (
            f"like a naive forest of about M = {leaves} leaves, the trees having {self.n_leaves:,.0f}; {features}; "
            f"R² of log K = {self.r2:.2f}"
        )

    def frame(self) -> Any:
        """One line per feature: a pandas data frame, or a dict of columns where pandas is not installed."""
        names = np.array(self.names, dtype=object)
        return as_table({"feature": names, "weight": self.weights, "share": self.shares, "strong": self.strong})


@dataclass(frozen=True, eq=False)
class Ruler:
    """Distances along one training column, as shares of its range or of its rows."""

    values: Floats  # (n_known,) ascending
    scale: str

    @property
    def width(self) -> float:
        """Range of the column, 0 if nothing is known of it; infinite if a float64 cannot hold it."""
        with np.errstate(over="ignore"):
            return float(self.values[-1] - self.values[0]) if len(self.values) else 0.0

    def move(self, start: float, steps: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Values at these distances from `start`, and which of them are within the data."""
        n, width = len(self.values), self.width
        if not width > 0:
            return np.full(len(steps), start), np.zeros(len(steps), dtype=bool)
        if self.scale == "range" and width == np.inf:  # a quarter of it is a number, of the same digits
            values, inside = Ruler(self.values / 4.0, self.scale).move(start / 4.0, steps)
            return np.where(inside, 4.0 * np.clip(values, self.values[0] / 4.0, self.values[-1] / 4.0), start), inside
        if self.scale == "range":
            values = start + steps * width
            place = (values - self.values[0]) / width
        else:
            below, upto = np.searchsorted(self.values, start), np.searchsorted(self.values, start, side="right")
            place = (below + upto) / (2.0 * n) + steps
            values = self.values[np.clip(np.rint(place * n - 0.5).astype(np.int64), 0, n - 1)]
        return values, (place >= -_ROUNDING) & (place <= 1.0 + _ROUNDING)


def fit_naive(
    kernel: ForestKernel, X: Any = None, *, n_rows: int = 100, n_steps: int = 20, scale: str = "range", seed: int = 0
) -> NaiveFit:
    """Find the naive kernel closest to that of a forest.

    Parameters
    ----------
    kernel : ForestKernel
        `kernel_` of a fitted `KernelForestClassifier`: then profiles are exact. Or that of any other forest, whose kernel is
        evaluated step by step, which takes longer.
    X : table, optional
        Rows to look around at; all of them are used.
    n_rows : int
        Without X: how many training rows to look around at, a random choice.
    n_steps : int
        Distances, evenly up to one.
    scale : "range" or "quantile"
        Unit of distance: the range of the training column, or the share of training rows passed on the way.
    seed : int
        Of the choice of rows.

    Examples
    --------
    >>> from kernelforest import KernelForestClassifier
    >>> X = [[i / 20, i % 2] for i in range(20)]
    >>> model = KernelForestClassifier.untuned(50, max_features=2, random_state=0).fit(X, [i < 10 for i in range(20)])
    >>> found = fit_naive(model.kernel_)
    >>> found.S, found.W, found.names[found.strong.argmax()]
    (1, 1, 'x0')

    """
    training = read_kernel(kernel)
    check_choice("scale", scale, SCALES)
    check_whole("n_rows", n_rows, 1)
    check_whole("n_steps", n_steps, 2)  # a whole range fits into no row's
    if X is not None:
        table = as_rows(X, training.frame)[0]
        rows = read_rows(training, table)
    else:
        table, rows = training.rows(np.random.default_rng(seed).permutation(len(training.leaves))[:n_rows])
    u = np.arange(1, n_steps + 1) / n_steps
    rulers = [Ruler(np.sort(column[np.isfinite(column)]), scale) for column in training.matrix().T]
    profile, count = average_profiles(training, rows, rulers, u, table)
    categorical = is_categorical(training, table)
    profile[categorical], count[categorical] = np.nan, 0  # or they would pass for features that are never cut
    weights, r2 = fit_cuts(u, profile, count)
    weights[categorical] = np.nan
    unit = np.array([ruler.width if scale == "range" else np.nan for ruler in rulers])
    n_leaves = float(training.factors @ leaves_of_columns(training)) / training.n_trees
    return NaiveFit(training.names, weights, unit, find_strong(weights), u, profile, r2, n_leaves)


def leaves_of_columns(training: Training) -> NDArray[np.int64]:
    """Number of leaves with training rows of each tree, or reading of a tree."""
    return np.array([len(np.unique(column)) for column in training.leaves.T])


def average_profiles(
    training: Training, rows: Floats, rulers: list[Ruler], u: Floats, table: Any = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Mean of K(x0 ± u e_j, x0) over rows and signs, as far as that stays in the data, and how many there were.

    `table` are the same rows in the form that the forest reads, if that is not numbers.
    """
    total, count = np.zeros((len(rulers), len(u))), np.zeros((len(rulers), len(u)), np.int64)
    steps = np.concatenate([u, -u])
    parts = [] if training.forest is None else training.forest.parts()
    for i, row in enumerate(rows):
        kept = np.flatnonzero(np.isfinite(row))
        moved = [rulers[j].move(row[j], steps) for j in kept]
        inside = np.array([known for _, known in moved], dtype=bool).reshape(len(kept), len(steps))
        values = np.array([value for value, _ in moved]).reshape(inside.shape)
        if parts:
            similar = _along_faces(parts, row, kept, values)
        else:
            similar = _along_steps(training, rows if table is None else table, i, row, kept, values)
        similar = np.where(inside, similar, 0.0)
        total[kept] += similar.reshape(len(kept), 2, len(u)).sum(axis=1)
        count[kept] += inside.reshape(len(kept), 2, len(u)).sum(axis=1)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0), count


def _along_faces(parts: Sequence[tuple[float, Forest]], row: Floats, features: NDArray[np.int64], values: Floats) -> Floats:
    """K(x0, row) where x0 is the row with a feature moved to each of its values: exact, from the faces of the leaf."""
    out = np.zeros(values.shape)
    for weight, part in parts:
        box = shape.faces_of(part, row)
        for k, j in enumerate(features):
            entered, gone = (np.searchsorted(np.sort(face[j]), values[k], side="left") for face in (box.lower, box.upper))
            out[k] += weight / part.n_trees * (entered - gone)
    return out


def _along_steps(training: Training, table: Any, i: int, row: Floats, features: NDArray[np.int64], values: Floats) -> Floats:
    """The same of any forest, by asking it where moved copies of row i of a table end."""
    home = training.route(changed_copies(training, table, np.array([i]), row[None]))
    columns, flat, out = np.repeat(features, values.shape[1]), values.ravel(), np.empty(values.size)
    size = max(1, _COPIES // (len(row) + home.shape[1]))
    for some in blocks_of(values.size, size):
        moved = np.repeat(row[None], len(flat[some]), axis=0)
        moved[np.arange(len(moved)), columns[some]] = flat[some]
        same = training.route(changed_copies(training, table, np.full(len(moved), i), moved)) == home
        out[some] = (same & (home >= 0)) @ training.factors / training.n_trees
    return out.reshape(values.shape)


def mean_kernel(u: Floats, cuts: float) -> Floats:
    """K(x, x + u) of a naive forest along one feature, averaged over x, if a row sees so many cuts along it.

    N cuts, each uniform in what is left of [0, 1], do not part two points at distance u with probability
    (P(Z' >= N) - u 2^N P(Z >= N)) / (1 - u), Z ~ Poisson(-log u) and Z' ~ Poisson(-2 log u), on average over where the two
    are; N is Poisson. In closed form, because a cut that spares both leaves a cell of uniform width w, in which they are
    again anywhere, at distance u / w.

    >>> mean_kernel(np.array([0.5, 1.0]), 0.0).tolist()  # no cut
    [1.0, 1.0]
    >>> mean_kernel(np.array([1.0]), 2.0)[0] == np.exp(-2.0)  # any cut parts the ends
    np.True_
    """
    if not 0.0 <= cuts <= _MOST / 2:
        raise ValueError(f"cuts must be from 0 to {_MOST / 2:g}, got {cuts}")
    return _averaged(_survival(u), cuts)


def _averaged(survival: Floats, cuts: float) -> Floats:
    """The mean over Poisson numbers of cuts."""
    return np.asarray(poisson.pmf(np.arange(_MOST + 1), cuts) @ survival)


def _survival(u: Floats) -> Floats:
    """Probability that two points at distance u are not parted by N = 0, ..., _MOST cuts, (N, distances)."""
    n = np.arange(_MOST + 1)[:, None]
    t = minus_log(u)
    spared = pdtrc(n - 1.0, 2.0 * t) - u * np.exp(xlogy(n, 2.0)) * pdtrc(n - 1.0, t)
    spared[0] = 1.0 - u
    out = np.where(n == 0, 1.0, 0.0) * np.ones_like(u)
    np.divide(spared, 1.0 - u, out=out, where=u < 1.0)
    return np.maximum(out, 0.0)


def leaves_of(cuts: float) -> float:
    """Leaves of a naive forest in which a row sees so many cuts: 1 + 1/2 + ... + 1/(M - 1).

    >>> round(leaves_of(1.5), 9)
    3.0
    """
    M = np.exp(np.float64(cuts) - np.euler_gamma) + 0.5
    for _ in range(5):  # Newton; the harmonic number is smooth, and the start is close
        M = max(M - (psi(M) + np.euler_gamma - cuts) / polygamma(1, M), 1.0)
    return float(M)


def fit_cuts(u: Floats, profile: Floats, count: NDArray[np.int64]) -> tuple[Floats, float]:
    """Least squares of log K for each feature, and the R² of all of them together.

    A point weighs as its K times its count, because the logarithm of a small share is uncertain.

    >>> u = np.array([0.25, 0.5, 0.75])
    >>> cuts, r2 = fit_cuts(u, np.stack([mean_kernel(u, 3.0), np.ones(3)]), np.ones((2, 3), int))
    >>> cuts.round(4).tolist(), round(r2, 6)
    ([3.0, 0.0], 1.0)
    """
    known = profile > 0  # not NaN either
    mass = np.where(known, profile, 0.0) * count
    y = np.log(np.where(known, profile, 1.0))
    survival = _survival(u)

    def said(cuts: float) -> Floats:
        return np.asarray(np.log(np.maximum(_averaged(survival, cuts), _TINY)))

    tried = np.concatenate([[0.0], np.geomspace(1e-3, _MOST / 2, 200)])
    table = np.array([said(cuts) for cuts in tried])
    cuts = np.array([_least(said, tried, table, *line) for line in zip(mass, y, strict=True)])
    if not mass.any():
        return cuts, np.nan
    around = (mass * (y - np.average(y, weights=mass)) ** 2).sum()
    left = (mass * (y - np.array([said(each) for each in cuts])) ** 2).sum()
    return cuts, float(1.0 - left / around) if around > 0 else 1.0


def _least(said: Callable[[float], Floats], tried: Floats, table: Floats, mass: Floats, y: Floats) -> float:
    """The number of cuts of least squares: the best of those tried, then between its neighbours."""
    if not (mass * y).any():  # never parted
        return 0.0
    best = int(((table - y) ** 2 @ mass).argmin())
    ends = float(tried[max(best - 1, 0)]), float(tried[min(best + 1, len(tried) - 1)])
    exactly = {"xatol": 1e-9}
    found = minimize_scalar(lambda cuts: mass @ (said(cuts) - y) ** 2, bounds=ends, method="bounded", options=exactly)
    return float(found.x)


def find_strong(weights: Floats) -> NDArray[np.bool_]:
    """The heavier of two groups of features, by least squares; nobody if they are not twice as heavy as the others.

    >>> find_strong(np.array([3.0, 0.2, 2.8, 0.1])).tolist()
    [True, False, True, False]
    >>> find_strong(np.array([1.0, 1.2, 0.9])).any()
    np.False_
    """
    strong = np.zeros(len(weights), dtype=bool)
    order = np.argsort(-np.nan_to_num(weights, nan=-1.0), kind="stable")[: int((~np.isnan(weights)).sum())]
    ranked = weights[order]
    if len(ranked) < 2:
        return strong
    tops = np.arange(1, len(ranked))
    sums = ranked.cumsum()[:-1]
    high, low = sums / tops, (ranked.sum() - sums) / (len(ranked) - tops)
    best = int((tops * high**2 + (len(ranked) - tops) * low**2).argmax())  # least squares within the groups
    strong[order[: best + 1]] = high[best] > 0 and high[best] >= STRONG * low[best]
    return strong
