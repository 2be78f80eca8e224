"""Proper scores of class probabilities, and rows to take them on. Plots, reports, tuning and estimators share these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SCORE_NAMES = {"log_loss": "log loss", "brier": "Brier score"}
SCORINGS = tuple(SCORE_NAMES)


class Scores(NamedTuple):
    """How good probabilities are; smaller is better in all three."""

    log_loss: float
    brier: float
    error: float


def score(
    proba: NDArray[np.float64],
    labels: NDArray[np.integer],
    weight: NDArray[np.float64] | None = None,
    preference: NDArray[np.float64] | None = None,
    zero: float = 0.0,
) -> Scores:
    """Score class probabilities against class numbers; a preference of classes counts for the error only.

    The Brier score of two classes is the mean of (p - y)^2; of more classes, the sum of that over the classes. The log loss
    of a probability of zero is kept finite as in scikit-learn, at about 36, or is that of the given `zero`.

    >>> score(np.array([[0.5, 0.5], [0.0, 1.0]]), np.array([0, 1]))
    Scores(log_loss=0.34657359027997264, brier=0.125, error=0.25)
    """
    own = np.arange(len(labels)), labels
    liked = proba if preference is None else proba * preference
    top = liked == liked.max(axis=1, keepdims=True)
    errors = 1.0 - top[own] / top.sum(axis=1)  # a tie is a guess
    logs = losses(np.where(proba == 0.0, zero, proba), labels, "log_loss")
    rows = logs, losses(proba, labels, "brier"), errors
    return Scores(*(float(np.average(x, weights=weight)) for x in rows))


def losses(proba: NDArray[np.float64], labels: NDArray[np.integer], scoring: str) -> NDArray[np.float64]:
    """The log loss or Brier score of every row; `score` averages them."""
    own = proba[np.arange(len(labels)), labels]
    if scoring == "log_loss":
        return np.asarray(-np.log(np.clip(own, np.finfo(np.float64).eps, 1.0)))
    half = 0.5 if proba.shape[1] == 2 else 1.0
    return np.asarray(((proba**2).sum(axis=1) - 2.0 * own + 1.0) * half)


def effective_number(
    weight: NDArray[np.float64],
    labels: NDArray[np.integer],
    groups: NDArray[np.integer] | None = None,
    most: float = np.inf,
) -> float:
    """How many rows, or groups, of equal weight tell as much about a shift of all log odds.

    The score of such a shift is a weighted mean of labels minus shares. Weights that have nothing to do with labels add to
    its variance, and what is left is Kish's number, (sum w)^2 / sum w^2. Weights that undo an uneven choice among classes do
    not: a thousand hits and a thousand misses, which stand for a million rows, tell half as much as all of these would. Of a
    shift, that is; about where the frequent class is found a thousand rows do not tell as much as a million, so that more
    than `most`, the rows there were, is not believed.

    >>> effective_number(np.array([1.0, 1.0, 0.0]), np.array([0, 1, 1]))
    2.0
    >>> effective_number(np.ones(4), np.array([0, 0, 1, 1]), groups=np.array([0, 0, 1, 1]))
    2.0
    >>> round(effective_number(np.repeat([1.0, 999.0], 1000), np.repeat([1, 0], 1000)))
    500501
    """
    weight = weight / weight.max()  # squares neither overflow nor vanish
    number = kish = _kish(weight)
    share = np.bincount(labels, weight) / weight.sum()
    away = 1.0 - 2.0 * share + share @ share  # squared distance of a label from the shares
    noise = weight**2 @ away[labels]
    if weight.min() < 1.0 and noise > 0.0:
        number = float(weight.sum() ** 2 * (share @ away) / noise)
    number = min(number, most)
    return number if groups is None else number * _kish(np.bincount(groups, weight).astype(np.float64)) / kish


def _kish(weight: NDArray[np.float64]) -> float:
    return float(weight.sum() ** 2 / (weight**2).sum())


def mean_and_error(
    values: NDArray[np.float64], weight: NDArray[np.float64], groups: NDArray[np.integer] | None = None
) -> tuple[float, float]:
    """A weighted mean and its standard error; rows of a group count as one observation, those of weight zero as none.

    >>> mean_and_error(np.array([1.0, 3.0]), np.ones(2))
    (2.0, 1.0)
    """
    return float(np.average(values, weights=weight)), float(errors_of_means(values[None], weight, groups)[0])


def errors_of_means(
    values: NDArray[np.float64], weight: NDArray[np.float64], groups: NDArray[np.integer] | None = None
) -> NDArray[np.float64]:
    """The standard error of every line's weighted mean."""
    total = weight.sum()
    around = weight * (values - (values @ weight / total)[:, None])
    if groups is not None:
        around = np.stack([np.bincount(groups, line) for line in around])
    n = np.count_nonzero(weight if groups is None else np.bincount(groups, weight))
    if n < 2:
        return np.full(len(values), np.inf)
    return np.asarray(np.sqrt(n / (n - 1) * (around**2).sum(axis=1)) / total)


class Sample(NamedTuple):
    """Some rows in random order, and weights with which they stand for all."""

    rows: NDArray[np.int64]
    weight: NDArray[np.float64]  # of these rows


def sample_rows(
    rows: NDArray[np.int64], labels: NDArray[np.integer], weight: NDArray[np.float64], most: int, seed: int
) -> Sample:
    """Draw at most so many of the rows.

    A class that would have fewer than most / (4 n_classes) of them gets as many, if it has, and its rows weigh less. Of a
    million rows with a thousand hits, eight thousand would have eight hits otherwise:

    >>> hits = np.arange(1_000_000) < 1000
    >>> some, weight = sample_rows(np.arange(len(hits)), hits.astype(int), np.ones(len(hits)), 8000, seed=0)
    >>> len(some), int(hits[some].sum()), round(float(weight[hits[some]].sum() / weight.sum()), 6)
    (8000, 1000, 0.001)
    >>> round(effective_number(weight, hits[some].astype(int)))
    875876
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(rows)
    some = order[:most]
    total = np.bincount(labels[order])
    found = np.bincount(labels[some], minlength=len(total))
    wanted = np.minimum(total, most // (4 * max(1, int(np.count_nonzero(total)))))
    if (found >= wanted).all():
        return Sample(some, weight[some])
    spare = np.maximum(found - wanted, 0)
    taken = np.ceil(spare * (wanted - found).clip(0).sum() / spare.sum()).astype(int)
    by_class = np.argsort(labels[order], kind="stable")
    place = np.empty(len(order), np.int64)  # of a row among those of its class
    place[by_class] = np.arange(len(order)) - np.repeat(np.cumsum(total) - total, total)
    some = rng.permutation(order[place < (np.maximum(found, wanted) - taken)[labels[order]]])  # rare ones were at the end
    whole, part = (np.bincount(labels[each], weight[each], len(total)) for each in (order, some))
    factor = np.divide(whole, part, out=np.zeros(len(total)), where=part > 0)
    return Sample(some, weight[some] * factor[labels[some]])
