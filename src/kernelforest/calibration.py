"""Calibration: out-of-bag class probabilities and class numbers enter, a map for new probabilities leaves.

An out-of-bag probability never saw the label of its row, so the rows that grew the forest can also correct its
probabilities: nothing has to be held out. Four maps are known (`METHODS`). Two scale the logarithms of the
probabilities, p_k' ~ p_k^a_k exp(c_k) with a_k >= 0, divided by the sum:

- `sigmoid`: one exponent for all classes (temperature and shifts). Of two classes, that is logit p' = a logit p + c. Or the
  same with 2 p_k in the place of log p_k, which never becomes quite sure: logit p' = a (4p - 2) + c, Platt's map of a score.
  The one with the smaller log loss is taken (in tuning, with the smaller score).
- `beta`: an exponent for each class (vector scaling). Of two classes, that is the beta calibration of Kull et al. (2017).

Two are isotonic regressions, each class against the rest; of more than two classes, then divided by the sum:

- `isotonic`: with half a hit and half a miss added at both ends, so that an end block of k hits among m rows says
  (k + 1/2) / (m + 1) and never 0 or 1.
- `venn-abers`: with the new point added once as a miss (p0) and once as a hit (p1), merged to p1 / (1 - p0 + p1),
  after Vovk et al. (2015).

Of two classes, all four keep the order of rows (ties may appear). Rows of weight zero, and rows that were never out of bag
(NaN), are left out. Weights are scaled to sum to the number of rows that they amount to (`scoring.effective_number`): their
unit does not matter. Where only one class was seen there is nothing to learn, and probabilities stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import IsotonicRegression

from kernelforest._engine.isotonic import shares_with_a_hit
from kernelforest.checks import check_choice, check_whole
from kernelforest.compiling import announced_compiling
from kernelforest.frames import as_table
from kernelforest.scaling import FEW_ROWS, Floats, Mask, Numbers, Scaling, number_of_rows, scalings, seen
from kernelforest.scoring import SCORINGS, effective_number, losses, mean_and_error, sample_rows

METHODS = ("sigmoid", "beta", "isotonic", "venn-abers")  # from the stiffest to the most flexible
SCALINGS = METHODS[:2]
_ROUNDING = 1e-9  # a smaller gain is none
FEW_CLASSES = 10  # with more, there are fewer folds, and "auto" tries the sigmoid alone


def rounded(p: Floats) -> Floats:
    """Probabilities to ten digits: sums in another order must not end on another step of a map."""
    return np.round(p, 10)


@dataclass(frozen=True, eq=False)
class Identity:
    """Probabilities as they are."""

    def __call__(self, proba: Floats) -> Floats:
        """The same probabilities."""
        return proba


@dataclass(frozen=True, eq=False)
class Curve:
    """A rising line through points, level outside of them."""

    x: Floats  # (n_points,) sorted
    y: Floats  # (n_points,) sorted

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probabilities of one class, (n_rows,)."""
        return np.interp(p, self.x, self.y)


@dataclass(frozen=True, eq=False)
class VennAbers:
    """What isotonic regression says at a new point that is a miss, or a hit; between scores these are steps."""

    scores: Floats  # (n_scores,) sorted, distinct
    low: Floats  # (1 + n_scores,) p0 of a point at or above this score; 0 below all
    high: Floats  # (n_scores + 1,) p1 of a point at or below this score; 1 above all

    def bounds(self, p: Floats) -> tuple[Floats, Floats]:
        """The probabilities p0 and p1 of one class."""
        p = rounded(p)
        below, above = (np.searchsorted(self.scores, p, side=side) for side in ("right", "left"))
        return self.low[below], self.high[above]

    def __call__(self, p: Floats) -> Floats:
        """Calibrated probabilities of one class, (n_rows,)."""
        low, high = self.bounds(p)
        return np.where(np.isnan(p), np.nan, high / (1.0 - low + high))


@dataclass(frozen=True, eq=False)
class OneVsRest:
    """A monotone map for each class, then divided by the sum; for two classes one map, of the second class."""

    maps: tuple[Curve | VennAbers, ...]

    def __call__(self, proba: Floats) -> Floats:
        """Calibrated probabilities, (n_rows, n_classes)."""
        if len(self.maps) == 1:
            p = self.maps[0](proba[:, 1])
            return np.column_stack((1.0 - p, p))
        columns = np.column_stack([by(p) for by, p in zip(self.maps, proba.T, strict=True)])
        total: Floats = columns.sum(axis=1, keepdims=True)
        return columns / total


Calibrator = Identity | Scaling | OneVsRest


def fit_calibrator(
    method: str,
    proba: ArrayLike,
    labels: ArrayLike,
    weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    n_rows: int | None = None,
) -> Calibrator:
    """Fit a map from out-of-bag probabilities to calibrated ones.

    `proba` is (n_rows, n_classes), `labels` are class numbers; they may be a weighted sample of `n_rows`. Rows of `groups`
    count for less, as far as their labels go together. The map can be pickled; it keeps the shape of its input.

    Four rows at 0.5, one of them a hit: isotonic regression says (1 + 1/2 + 1/2) / (4 + 1 + 1).

    >>> by = fit_calibrator("isotonic", np.full((4, 2), 0.5), [0, 0, 0, 1])
    >>> by(np.array([[0.2, 0.8]])).round(4)
    array([[0.6667, 0.3333]])
    """
    check_choice("method", method, METHODS)
    keep, p, y, w = seen(proba, labels, weight, n_rows)
    w = _told(p, y, w, _members(groups, keep))
    return _fit(method if len(np.unique(y)) > 1 else None, p, y, w)


class Candidate(NamedTuple):
    """A method and its cross-fitted score on out-of-bag rows."""

    method: str | None
    score: float
    difference: float  # score minus the score of probabilities as they are: negative is better
    standard_error: float  # of the difference, paired by row, or by group if there are groups


@dataclass(frozen=True, eq=False)
class Chosen:
    """The calibrator in use, and the candidates that it was compared with (none if the method was given)."""

    method: str | None
    calibrator: Calibrator
    scoring: str
    candidates: tuple[Candidate, ...]

    def __repr__(self) -> str:
        return f"Chosen(method={self.method!r}, scoring={self.scoring!r}, {len(self.candidates)} candidates)"

    def frame(self) -> Any:
        """One line per candidate: a pandas data frame, or a dict of columns where pandas is not installed."""
        lines = [c._replace(method=c.method or "none") for c in self.candidates]
        return as_table({name: [getattr(c, name) for c in lines] for name in Candidate._fields})


def choose_calibrator(
    method: str | None,
    proba: ArrayLike,
    labels: ArrayLike,
    weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    scoring: str = "log_loss",
    folds: int = 10,
    seed: int = 0,
    n_rows: int | None = None,
) -> Chosen:
    """Fit the given method or, for "auto", the one that cross-fitted out-of-bag scores speak for.

    With None, probabilities stay as they are, and so they do where there are fewer than two classes. "auto" fits every
    method on all folds but one and scores it on that one (`scoring`: "log_loss" or "brier"). The sigmoid is used unless
    its score is above that of the probabilities as they are by one standard error of the paired difference: small
    samples hardly show what it gains, and it costs little where there is nothing to gain (benchmarks/rules.py). A more
    flexible method is used only if its score is below that of the one in use by two standard errors. Below a hundred rows
    nothing is compared: the sigmoid is used, held closer to the identity. With `groups`
    (anything that can be sorted), folds keep a group together, and the standard error counts groups, not rows. Rows may be a
    weighted sample of `n_rows`.

    Here 0.6 means "always" and 0.4 means "never":

    >>> proba = np.tile([[0.6, 0.4], [0.4, 0.6]], (50, 1))
    >>> labels = np.tile([0, 1], 50)
    >>> choose_calibrator("auto", proba, labels).method is None
    False
    """
    check_choice("method", method, (None, "auto", *METHODS))
    check_choice("scoring", scoring, SCORINGS)
    check_whole("folds", folds, 2)
    keep, p, y, w = seen(proba, labels, weight, n_rows)
    group = _members(groups, keep)
    w = _told(p, y, w, group)
    if len(np.unique(y)) < 2:
        method = None
    elif method == "auto" and number_of_rows(w) < FEW_ROWS:
        method = "sigmoid"
    if method != "auto":
        return Chosen(method, _fit(method, p, y, w), scoring, ())
    fold = _folds(y, group, _number_of_folds(folds, p), seed, even=True)
    plain = losses(p, y, scoring)
    candidates = [_candidate(None, plain, plain, w, group)]
    best, in_use = None, plain
    for name in METHODS if p.shape[1] <= FEW_CLASSES else METHODS[:1]:
        mine = losses(_crossed(name, p, y, w, fold), y, scoring)
        candidates.append(_candidate(name, mine, plain, w, group))
        gain = _candidate(name, mine, in_use, w, group)
        allowed = 1.0 if name == "sigmoid" and np.isfinite(gain.standard_error) else -2.0
        if gain.difference < allowed * gain.standard_error - _ROUNDING * (allowed < 0):
            best, in_use = name, mine
    return Chosen(best, _fit(best, p, y, w), scoring, tuple(candidates))


def cross_fitted(
    method: str | None,
    proba: ArrayLike,
    labels: ArrayLike,
    weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    *,
    folds: int = 10,
    seed: int = 0,
    most: int | None = None,
) -> Floats:
    """Calibrate every row by a map that was fitted without it; rows that cannot be scored stay as they are.

    Folds are drawn blindly: if classes were spread evenly, the other folds would know the shares of this one. A map may be
    fitted on `most` of the rows, drawn so that rare classes have their share.
    """
    check_choice("method", method, (None, *METHODS))
    out = np.array(proba, dtype=np.float64)
    keep, p, y, w = seen(proba, labels, weight)
    group = _members(groups, keep)
    fold = _folds(y, group, _number_of_folds(folds, p), seed, even=False)
    out[keep] = _crossed(method, p, y, _told(p, y, w, group), fold, most)
    return out


def _members(groups: ArrayLike | None, keep: Mask) -> Numbers:
    """The number of the group of every row that is kept; each row is one of its own without groups."""
    if groups is None:
        return np.arange(np.count_nonzero(keep))
    if np.shape(groups) != keep.shape:
        raise ValueError(f"groups must be {keep.shape} like labels, got {np.shape(groups)}")
    return np.unique(np.asarray(groups)[keep], return_inverse=True)[1]


def _told(p: Floats, y: Numbers, w: Floats, group: Numbers) -> Floats:
    """Weights that sum to as many rows as tell the same.

    What a sigmoid leaves unexplained may go together in groups. Then the sums over groups are larger than they would be by
    chance, and rows count for less by this factor: forty rows of a group that share one label are one row.
    """
    if not len(w) or group.max() + 1 == len(group) or len(np.unique(y)) < 2:
        return w
    rest = w[:, None] * (np.eye(p.shape[1])[y] - _fit("sigmoid", p, y, w)(p))
    together = np.stack([np.bincount(group, column) for column in rest.T])
    return w / max(1.0, float((together**2).sum() / max((rest**2).sum(), np.finfo(np.float64).tiny)))


def _number_of_folds(folds: int, p: Floats) -> int:
    """Fewer where there are many classes: every fold takes long."""
    return folds if p.shape[1] <= FEW_CLASSES else min(folds, 3)


def _crossed(method: str | None, p: Floats, y: Numbers, w: Floats, fold: Numbers, most: int | None = None) -> Floats:
    out = p.copy()
    if not fold.any():  # one fold leaves nothing to fit on
        return out
    starts: list[Floats] = []
    told = w.sum() / effective_number(w, y, most=len(w))  # one, less with groups
    for f in range(fold.max() + 1):
        rows, mass = np.flatnonzero(fold != f), w[fold != f]
        if most is not None and len(rows) > most:
            n_rows, (rows, mass) = len(rows), sample_rows(rows, y, w, most, f)
            mass = mass * (told * effective_number(mass, y[rows], most=n_rows) / mass.sum())
        if method in SCALINGS and not starts:  # the others end near to the first
            starts = [change for _, change in scalings(method, p[rows], y[rows], mass)]
        out[fold == f] = _fit(method, p[rows], y[rows], mass, starts)(p[fold == f])
    return out


def _fit(method: str | None, p: Floats, y: Numbers, w: Floats, starts: Sequence[Floats] = ()) -> Calibrator:
    if method is None:
        return Identity()
    if method in SCALINGS:
        fits = [fit for fit, _ in scalings(method, p, y, w, starts)]
        return min(fits, key=lambda fit: float(w @ losses(fit(p), y, "log_loss")))
    fit = _isotonic if method == "isotonic" else _venn_abers
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])
    return OneVsRest(tuple(fit(p[:, k], y == k, w) for k in columns))


def _isotonic(p: Floats, hit: Mask, w: Floats) -> Curve:
    p = rounded(p)
    ends = np.array([p.min(), p.max()])
    # half a hit and half a miss are one row of share 1/2
    found = IsotonicRegression().fit(np.append(p, ends), np.append(hit, [0.5, 0.5]), sample_weight=np.append(w, [1.0, 1.0]))
    return Curve(found.X_thresholds_, found.y_thresholds_)


def _venn_abers(p: Floats, hit: Mask, w: Floats) -> VennAbers:
    scores, at = np.unique(rounded(p), return_inverse=True)
    mass, hits = np.bincount(at, w), np.bincount(at, w * hit)
    low = 1.0 - _shares_with_a_hit(mass[::-1], (mass - hits)[::-1])[::-1]  # hits of the mirror image are misses
    return VennAbers(scores, np.append(0.0, low), np.append(_shares_with_a_hit(mass, hits), 1.0))


@announced_compiling()
def _shares_with_a_hit(mass: Numbers | Floats, hits: Numbers | Floats) -> Floats:
    """What isotonic regression says at each score when one hit is added there."""
    shares = np.empty(len(mass))
    shares_with_a_hit(np.append(0.0, mass.cumsum()), np.append(0.0, hits.cumsum()), shares)
    return shares


def _folds(y: Numbers, group: Numbers, folds: int, seed: int, *, even: bool) -> Numbers:
    """The fold of every row: groups stay together; if asked for, classes (of the first row of a group) are spread evenly."""
    first = np.unique(group, return_index=True)[1]
    order = np.random.default_rng(seed).permutation(len(first))
    if even:
        order = order[np.argsort(y[first][order], kind="stable")]
    fold_of_group = np.empty(len(first), dtype=np.int64)
    fold_of_group[order] = np.arange(len(first)) % folds
    return fold_of_group[group]


def _candidate(method: str | None, mine: Floats, plain: Floats, w: Floats, group: Numbers) -> Candidate:
    if not len(w):
        return Candidate(method, np.nan, 0.0, np.inf)
    difference, error = mean_and_error(mine - plain, w, group)
    return Candidate(method, float(np.average(mine, weights=w)), difference, error)
