"""The naive kernel that a real forest resembles: a forest's kernel enters; Laplace weights, S, W, p_S, p_W and M leave.

Proposition 1 says exp(-log M sum_j p_j u_j), u_j being the distance along feature j in the unit cube and p_j the chance that
a cut goes along it. So the slope of -log K along feature j is log M p_j, the slopes add up to log M, and the features fall
into S strong and W weak ones. Here the slopes come from exact profiles K(x0 + h e_j, x0), averaged over rows x0 and both
signs of h; so nothing is said about rows that differ in many features, where Proposition 1 itself is far off.

M is the size of a *naive* forest with this kernel. It is larger than the number of leaves of the real one, about its square
if cuts are random: the naive forest cuts any leaf next, a real one those with many rows, so that a row sees more cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.data import check_choice
from kernelforest.frames import as_table
from kernelforest.kernel import ForestKernel, Training, shape
from kernelforest.kernel.grids import is_categorical
from kernelforest.kernel.points import as_rows, read_rows

Floats = NDArray[np.float64]

SCALES = ("range", "quantile")
STRONG = 2.0  # times the weight of the others: less, and no feature stands out
_SHOWN = 3  # features named in a sentence
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class NaiveFit:
    """The Laplace kernel exp(-sum_j weight_j u_j) closest to the kernel of a forest, read as a naive forest."""

    names: tuple[str, ...]
    weights: Floats  # (n_features,) slopes of -log K; 0 of a constant feature, NaN of a categorical one
    unit: Floats  # (n_features,) what u_j = 1 is worth: the range of the feature; NaN if u is a share of the rows
    strong: NDArray[np.bool_]  # (n_features,)
    u: Floats  # (n_steps,) distances
    profile: Floats  # (n_features, n_steps) the forest's kernel at those, averaged; NaN if unknown
    r2: float  # of log K, over features and distances, each weighing as its K
    n_leaves: float  # mean number of leaves of the forest itself

    @property
    def M(self) -> float:  # noqa: N802
        """Leaves of a naive forest with this kernel."""
        return float(np.exp(np.nansum(self.weights)))

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
            f"a Laplace kernel with about M = {leaves} leaves, the trees having {self.n_leaves:,.0f}; {features}; "
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
        """Range of the column, 0 if nothing is known of it."""
        return float(self.values[-1] - self.values[0]) if len(self.values) else 0.0

    def move(self, start: float, steps: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Values at these distances from `start`, and which of them are within the data."""
        n, width = len(self.values), self.width
        if not width > 0:
            return np.full(len(steps), start), np.zeros(len(steps), dtype=bool)
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
    """Find the naive kernel closest to that of a forest of this package.

    Parameters
    ----------
    kernel : ForestKernel
        `kernel_` of a fitted `KernelForestClassifier`.
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
    training = kernel._training
    check_choice("scale", scale, SCALES)
    for name, value in (("n_rows", n_rows), ("n_steps", n_steps)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    table = training.matrix()
    if X is not None:
        rows = read_rows(training, as_rows(X)[0])
    else:
        rows = table[np.random.default_rng(seed).permutation(len(table))[:n_rows]]
    u = np.arange(1, n_steps + 1) / n_steps
    rulers = [Ruler(np.sort(column[np.isfinite(column)]), scale) for column in table.T]
    profile, count = average_profiles(training, rows, rulers, u)
    weights, r2 = fit_slopes(u, profile, count)
    categorical = is_categorical(training)
    weights[categorical], profile[categorical] = np.nan, np.nan
    unit = np.array([ruler.width if scale == "range" else np.nan for ruler in rulers])
    parts = shape._own_forest(training, "fit_naive").parts()
    n_leaves = sum(weight * len(part.inbag) / part.n_trees for weight, part in parts)
    return NaiveFit(training.names, weights, unit, find_strong(weights), u, profile, r2, n_leaves)


def average_profiles(training: Training, rows: Floats, rulers: list[Ruler], u: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Mean of K(x0 ± u e_j, x0) over rows and signs, as far as that stays in the data, and how many there were."""
    parts = shape._own_forest(training, "fit_naive").parts()
    total, count = np.zeros((len(rulers), len(u))), np.zeros((len(rulers), len(u)), np.int64)
    steps = np.concatenate([u, -u])
    for row in rows:
        boxes = [(weight / part.n_trees, shape._faces_of(part, row)) for weight, part in parts]
        for j, ruler in enumerate(rulers):
            if not np.isfinite(row[j]):
                continue
            values, inside = ruler.move(row[j], steps)
            for weight, box in boxes:
                entered, gone = (np.searchsorted(np.sort(face[j]), values, side="left") for face in (box.lower, box.upper))
                total[j] += weight * np.where(inside, entered - gone, 0).reshape(2, -1).sum(axis=0)
            count[j] += inside.reshape(2, -1).sum(axis=0)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0), count


def fit_slopes(u: Floats, profile: Floats, count: NDArray[np.int64]) -> tuple[Floats, float]:
    """Least squares of -log K on u through the origin for each feature, and the R² of all of them together.

    A point weighs as its K times its count, because the logarithm of a small share is uncertain.

    >>> u = np.array([0.5, 1.0])
    >>> slopes, r2 = fit_slopes(u, np.exp(-np.outer([3.0, 0.0], u)), np.ones((2, 2), int))
    >>> slopes.round(6).tolist(), round(r2, 6)
    ([3.0, 0.0], 1.0)
    """
    known = profile > 0  # not NaN either
    mass = np.where(known, profile, 0.0) * count
    y = -np.log(np.where(known, profile, 1.0))
    square = mass @ u**2
    slopes = np.divide((mass * y) @ u, square, out=np.zeros(len(profile)), where=square > 0)
    if not mass.any():
        return slopes, np.nan
    around = (mass * (y - np.average(y, weights=mass)) ** 2).sum()
    left = (mass * (y - np.outer(slopes, u)) ** 2).sum()
    return slopes, float(1.0 - left / around) if around > 0 else 1.0


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
