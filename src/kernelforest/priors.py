"""Probabilities of the training data enter, those of another population leave.

A probability p_c is multiplied by prior_c / share_c, and the row divided by its sum. Class weights never enter a leaf; they
are what `predict` prefers, or, if the prior is "weighted", the population itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.labels import as_label

Floats = NDArray[np.float64]
MUCH = 2.0  # the heaviest class over the lightest, by the mean weight of their rows


@dataclass(frozen=True, eq=False)
class Population:
    """What probabilities refer to."""

    shares: Floats  # (n_classes,) of the training data
    factors: Floats | None  # of each class, from the training data to the population; None: they are the same
    preference: Floats | None  # of each class in a prediction, on top of its probability

    def __call__(self, proba: Floats) -> Floats:
        """Probabilities in the population."""
        if self.factors is None:
            return proba
        moved = proba * self.factors
        if not (held := moved.sum(axis=1) > 0).all():  # all that is known is the prior
            moved[~held] = self.shares * self.factors
        return np.asarray(moved / moved.sum(axis=1, keepdims=True))

    def weights(self, labels: NDArray[np.int32], weight: Floats) -> Floats:
        """Weights of rows that make them a sample of the population."""
        return weight if self.factors is None else weight * self.factors[labels]


def read_population(
    prior: Any,
    classes: NDArray[Any],
    shares: Floats,
    class_weight: Floats | None,
    by_class: Floats | None = None,
) -> Population:
    """Check the prior of a user: None, "weighted", a dict, or one share per class.

    `by_class` are mean weights of classes that `split_weights` has taken out: the shares lack them, the population does not.

    >>> sick = read_population({"sick": 0.01, "well": 0.99}, np.array(["sick", "well"]), np.array([0.5, 0.5]), None)
    >>> sick(np.array([[0.9, 0.1]])).round(3)
    array([[0.083, 0.917]])
    """
    factors, preference = by_class, class_weight
    if isinstance(prior, str) and prior == "weighted":
        both = [factor for factor in (by_class, class_weight) if factor is not None]
        factors, preference = np.prod(both, axis=0) if both else None, None
    elif prior is not None:
        wanted = _read_shares(prior, classes, shares)
        factors = np.divide(wanted, shares, out=np.zeros_like(wanted), where=shares > 0)
    if not shares.all():  # calibration would lift a class without weight from zero
        factors = np.where(shares > 0, 1.0 if factors is None else factors, 0.0)
    return Population(shares, factors, preference)


def split_weights(weight: Floats | None, labels: NDArray[np.int32], n_classes: int) -> tuple[Floats | None, Floats | None]:
    """Separate what weights say about classes from what they say about single rows.

    If they differ between classes only, or if the mean weights of classes differ much, each weight is divided by the mean of
    its class. Returns the weights that are left (None if all are equal) and those means (None if nothing was separated).

    >>> split_weights(np.array([1.0, 1.0, 99.0, 99.0, 0.0]), np.array([1, 1, 0, 0, 0], np.int32), 2)
    (array([1., 1., 1., 1., 0.]), array([99.,  1.]))
    >>> split_weights(np.array([1.0, 3.0, 40.0, 60.0]), np.array([1, 1, 0, 0], np.int32), 2)
    (array([0.5, 1.5, 0.8, 1.2]), array([50.,  2.]))
    >>> split_weights(np.array([1.0, 3.0, 2.0, 4.0]), np.array([1, 1, 0, 0], np.int32), 2)
    (array([1., 3., 2., 4.]), None)
    """
    if weight is None:
        return None, None
    counted = weight > 0
    rows = np.bincount(labels[counted], minlength=n_classes)
    by_class = np.where(rows > 0, np.bincount(labels, weight, n_classes) / np.maximum(rows, 1), 1.0)
    rest = weight / by_class[labels]
    means, is_all = by_class[rows > 0], bool(np.allclose(rest[counted], 1.0, rtol=1e-9, atol=0.0))
    if means.max() <= (1.0 + 1e-9 if is_all else MUCH) * means.min():
        return weight, None
    if is_all:
        rest = counted.astype(np.float64)
    return (None if is_all and counted.all() else rest), by_class


def _read_shares(prior: Any, classes: NDArray[Any], shares: Floats) -> Floats:
    if hasattr(prior, "index") and hasattr(prior, "to_dict"):
        prior = prior.to_dict()  # a series of pandas names its classes; value_counts() has them in another order
    values, names = prior, classes.tolist()
    if isinstance(prior, Mapping):
        given = {as_label(c): share for c, share in prior.items()}
        if unknown := [c for c in given if c not in names]:
            raise ValueError(f"prior must name classes of y, got {unknown[0]!r}, which has no rows")
        values = [given.get(c, np.nan) for c in names]
    try:
        out = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"prior must be None, 'weighted', a dict or one share per class, got {prior!r}") from None
    if out.shape != shares.shape or not np.isfinite(out).all() or (out < 0).any() or abs(out.sum() - 1.0) > 1e-6:
        raise ValueError(f"prior must give {len(shares)} shares >= 0 that sum to 1, one per class, got {prior!r}")
    if not out[shares > 0].any():
        raise ValueError(f"prior must give a share to a class that has rows of positive weight, got {prior!r}")
    return out
