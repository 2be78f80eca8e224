"""Kernel regression as the paper compares forests with it: rows with labels or numbers enter; weighted averages leave.

The estimate at x is sum_i K(x, x_i) y_i / sum_i K(x, x_i) (Nadaraya and Watson). For class indicators y that is Bayes' rule
with a kernel density estimate for each class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from kernelforest.checks import check_choice
from kernelforest.data import check_floats
from kernelforest.labels import read_labels, read_weights
from kernelforest.naive import naive_weights
from kernelforest.scoring import SCORINGS, Scores, score
from kernelforest.smoothing import (
    METRICS,
    ScoredBandwidths,
    Smoother,
    check_similarities,
    choose_rows,
    leave_one_out,
    path_of_bandwidths,
)
from kernelforest.threads import read_threads

Floats = NDArray[np.float64]

_FITTED = ("_smoother", "path_", "bandwidth_", "classes_", "n_features_in_", "feature_names_in_")
_MOST_LEFT_OUT = 5_000  # rows that judge a path; a fixed random choice of them if there are more


class KernelRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class probabilities as kernel-weighted shares of the training labels.

    Parameters
    ----------
    kernel : "laplace", "gaussian", "precomputed" or callable
        With d_j = weight_j |x_j - z_j| / bandwidth: "laplace" is exp(-sum of d_j), "gaussian" is exp(-sum of d_j^2 / 2).
        A callable is given two tables and returns the matrix of similarities >= 0 of their rows. "precomputed": X is that
        matrix, dense or sparse, to the training rows; `ForestKernel.matrix` makes such.
    bandwidth : float or "auto"
        "auto" takes the best of `path_`, by leave-one-out scores. Only of "laplace" and "gaussian".
    weights : None, "scale" or array of shape (n_features,)
        Factor >= 0 of each feature: one for all, or "scale" for one over the standard deviation of the training column.
        Only of "laplace" and "gaussian".
    scoring : "log_loss" or "brier"
        What "auto" minimises.
    n_jobs : int or None
        Threads.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    bandwidth_ : float
        The bandwidth used.
    path_ : ScoredBandwidths or None
        The bandwidths that "auto" tried, with scores.

    Examples
    --------
    >>> model = KernelRegression(bandwidth=1.0).fit([[0.0], [1.0]], ["a", "b"])
    >>> model.predict_proba([[0.5], [1e6]]).round(3)  # 1 and e, over their sum
    array([[0.5  , 0.5  ],
           [0.269, 0.731]])

    """

    def __init__(
        self,
        kernel: str | Callable[[Floats, Floats], Any] = "laplace",
        *,
        bandwidth: float | str = "auto",
        weights: ArrayLike | str | None = None,
        scoring: str = "log_loss",
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.weights = weights
        self.scoring = scoring
        self.n_jobs = n_jobs

    @classmethod
    def from_naive(cls, S: int, W: int, mtry: int, M: int, **parameters: Any) -> Self:
        """The kernel of Proposition 1, for rows of the unit cube: Laplace, with weights log M times p_S or p_W.

        >>> KernelRegression.from_naive(S=1, W=1, mtry=2, M=1).weights
        array([0., 0.])
        """
        return cls("laplace", bandwidth=1.0, weights=naive_weights(S, W, mtry, M), **parameters)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the training rows; choose the bandwidth if it is "auto".

        Parameters
        ----------
        X : table of shape (n_rows, n_features)
            Numbers, none missing; or a square matrix of similarities, if the kernel is "precomputed".
        y : array of shape (n_rows,)
            Class labels, or numbers for a `KernelRegressor`.
        sample_weight : array of shape (n_rows,), optional
            What a row counts for in averages and in scores, on top of its similarity.

        """
        _forget(self)
        check_choice("scoring", self.scoring, SCORINGS)
        labels = read_labels(y)
        rows = _read_table(self, X, reset=True)
        values = np.eye(len(labels.classes))[labels.codes]

        def judge(found: Floats, mass: Floats, kept: NDArray[np.intp]) -> Mapping[str, float]:
            scores: Scores = score(found, labels.codes[kept], mass)
            return scores._asdict()

        self._smoother, self.path_ = _fit(self, rows, values, sample_weight, judge, self.scoring)
        self.bandwidth_ = self._smoother.bandwidth
        self.classes_ = labels.classes
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Class probabilities, one column per class of `classes_`."""
        return _average(self, X)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithm of `predict_proba`; minus infinity where a probability is zero."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class with the largest probability."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[proba.argmax(axis=1)])

    def __sklearn_tags__(self) -> Tags:
        return _tagged(super().__sklearn_tags__(), self.kernel)


class KernelRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A number as the kernel-weighted average of the training targets.

    The parameters are those of `KernelRegression`, without `scoring`: "auto" minimises the leave-one-out squared error. So
    are the attributes, without `classes_`.

    Examples
    --------
    >>> KernelRegressor(bandwidth=1.0).fit([[0.0], [1.0]], [3.0, 5.0]).predict([[0.5]])
    array([4.])

    """

    def __init__(
        self,
        kernel: str | Callable[[Floats, Floats], Any] = "laplace",
        *,
        bandwidth: float | str = "auto",
        weights: ArrayLike | str | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.weights = weights
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the training rows; choose the bandwidth if it is "auto". Parameters are those of `KernelRegression.fit`."""
        _forget(self)
        rows, target = _read_table(self, X, y, reset=True)
        values = np.asarray(target, dtype=np.float64)[:, None]

        def judge(found: Floats, mass: Floats, kept: NDArray[np.intp]) -> Mapping[str, float]:
            return {"squared_error": float(np.average((found - values[kept])[:, 0] ** 2, weights=mass))}

        self._smoother, self.path_ = _fit(self, rows, values, sample_weight, judge, "squared_error")
        self.bandwidth_ = self._smoother.bandwidth
        return self

    def predict(self, X: Any) -> Floats:
        """Averages, (n_rows,)."""
        return _average(self, X)[:, 0]

    def __sklearn_tags__(self) -> Tags:
        return _tagged(super().__sklearn_tags__(), self.kernel)


Judge = Callable[[Floats, Floats, NDArray[np.intp]], Mapping[str, float]]


def _forget(model: Any) -> None:
    """Remove what an earlier fit left: a fit that fails leaves no model behind."""
    for stale in _FITTED:
        vars(model).pop(stale, None)


def _fit(
    model: Any, rows: Any, values: Floats, sample_weight: ArrayLike | None, judge: Judge, criterion: str
) -> tuple[Smoother, ScoredBandwidths | None]:
    """What both estimators do with checked rows; `judge` scores averages at some training rows with their mass."""
    threads = read_threads(model.n_jobs)
    if rows.shape[0] != len(values):
        raise ValueError(f"X and y must have as many rows, got {rows.shape[0]} and {len(values)}")
    weight = read_weights(sample_weight, len(values))
    mass = np.ones(len(values)) if weight is None else weight
    table = np.column_stack([values * mass[:, None], mass])
    if callable(model.kernel) or model.kernel == "precomputed":
        _check_unused(model)
        return Smoother(model.kernel, table, rows.copy() if callable(model.kernel) else None), None
    kept = np.flatnonzero(mass > 0)  # the nearest row has to count
    weights = _read_feature_weights(model.weights, rows[kept], mass[kept])
    scaled = rows[kept] * weights
    smoother = Smoother(model.kernel, table[kept], scaled, weights, _read_bandwidth(model.bandwidth))
    if not isinstance(model.bandwidth, str) or len(kept) < 2:
        return smoother, None
    bandwidths = path_of_bandwidths(scaled, model.kernel)
    left_out = choose_rows(len(kept), _MOST_LEFT_OUT)
    found = leave_one_out(scaled, table[kept], model.kernel, bandwidths, left_out, threads)
    scores = [judge(estimate, mass[kept[left_out]], kept[left_out]) for estimate in found]
    columns = {name: np.array([line[name] for line in scores]) for name in scores[0]}
    path = ScoredBandwidths(bandwidths, columns, int(columns[criterion].argmin()), len(left_out))
    return replace(smoother, bandwidth=float(bandwidths[path.chosen])), path


def _average(model: Any, X: Any) -> Floats:
    check_is_fitted(model, "_smoother")
    smoother: Smoother = model._smoother
    return smoother.average(_read_table(model, X, reset=False), read_threads(model.n_jobs))


# ---- reading ----


def _tagged(tags: Tags, kernel: Any) -> Tags:
    tags.input_tags.pairwise = isinstance(kernel, str) and kernel == "precomputed"
    tags.input_tags.sparse = tags.input_tags.pairwise
    return tags


def _read_table(model: Any, X: Any, y: Any = None, *, reset: bool) -> Any:
    """Check X, with y if it is a regression: a matrix of numbers, or of similarities."""
    precomputed = isinstance(model.kernel, str) and model.kernel == "precomputed"
    known = callable(model.kernel) or (isinstance(model.kernel, str) and (precomputed or model.kernel in METRICS))
    if not known:
        raise ValueError(f"kernel must be one of {[*METRICS, 'precomputed']} or a callable, got {model.kernel!r}")
    how: dict[str, Any] = {"dtype": np.float64, "accept_sparse": "csr" if precomputed else False, "reset": reset}
    given = X
    if reset and isinstance(model, RegressorMixin):
        X, y = validate_data(model, X, y, y_numeric=True, **how)
    else:
        X = validate_data(model, X, **how)
    check_floats(given)
    if precomputed:
        check_similarities("X", X, X.shape)
        if reset and X.shape[0] != X.shape[1]:
            raise ValueError(f"X must be a square matrix of similarities if kernel='precomputed', got shape {X.shape}")
    return (X, y) if reset and isinstance(model, RegressorMixin) else X


def _read_bandwidth(bandwidth: Any) -> float:
    """The bandwidth to begin with; "auto" will replace it."""
    if isinstance(bandwidth, str) and bandwidth == "auto":
        return 1.0
    if isinstance(bandwidth, Real) and not isinstance(bandwidth, bool) and 0.0 < float(bandwidth) < np.inf:
        return float(bandwidth)
    raise ValueError(f"bandwidth must be 'auto' or a finite number > 0, got {bandwidth!r}")


def _read_feature_weights(weights: Any, rows: Floats, mass: Floats) -> Floats:
    law = f"weights must be None, 'scale' or {rows.shape[1]} finite numbers >= 0, one per feature"
    if weights is None:
        return np.ones(rows.shape[1])
    if isinstance(weights, str):
        if weights != "scale":
            raise ValueError(f"{law}, got {weights!r}")
        _, powers = np.frexp(np.abs(rows).max(axis=0))
        rows = np.ldexp(rows, -powers)  # squares neither overflow nor vanish
        spread = np.sqrt(np.average((rows - np.average(rows, axis=0, weights=mass)) ** 2, axis=0, weights=mass))
        factors = np.divide(1.0, spread, out=np.zeros_like(spread), where=np.ptp(rows, axis=0) > 0)
        return np.asarray(np.minimum(np.ldexp(factors, -powers), np.finfo(np.float64).max))
    try:
        factors = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{law}, got {weights!r}") from None
    if factors.shape != (rows.shape[1],):
        raise ValueError(f"{law}, got shape {factors.shape}")
    wrong = ~((factors >= 0.0) & (factors < np.inf))
    if wrong.any():
        raise ValueError(f"{law}, got {factors[wrong][0]}")
    return factors


def _check_unused(model: Any) -> None:
    """A bandwidth or weights beside a kernel that has none would be silently ignored."""
    for name, unused in (("bandwidth", "auto"), ("weights", None)):
        given = getattr(model, name)
        if given is not unused and not (isinstance(given, str) and given == unused):
            raise ValueError(f"{name} must be {unused!r} unless kernel is 'laplace' or 'gaussian', got {given!r}")
