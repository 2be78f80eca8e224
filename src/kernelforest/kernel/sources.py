"""Other people's forests: a fitted model enters; what its library says about it leaves.

Only public interfaces are read. Libraries other than scikit-learn are recognised by the modules of their classes and never
imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_is_fitted

from kernelforest.kernel.numbering import whole_numbers
from kernelforest.threads import run

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
BAGS = (BaggingClassifier, BaggingRegressor)
TREES = (DecisionTreeClassifier, DecisionTreeRegressor)
STAGES = (GradientBoostingClassifier, GradientBoostingRegressor)
_VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
# before 1.8 trees put some rows with missing values in other leaves than apply: scikit-learn issue 32178
MISPLACED_GAPS = _VERSION < (1, 8)
DRAWN_BY_WEIGHT = _VERSION >= (1, 9)  # bootstrap samples
ACCEPTED = (
    "a fitted RandomForest, ExtraTrees, Bagging of decision trees, DecisionTree or GradientBoosting of scikit-learn, a "
    "BalancedRandomForest of imbalanced-learn, a forest of quantile-forest or scikit-survival, a model or Booster of "
    "LightGBM or XGBoost, a KernelForestClassifier, or a pair (leaves_train, apply_function)"
)
BY_PAIR = {  # libraries whose models tell their leaves, and no more
    "catboost": "the pair (model.calc_leaf_indexes(X_train), model.calc_leaf_indexes) where a model is of CatBoost",
    "ydf": "the pair (model.predict_leaves(table), model.predict_leaves) where a model is of YDF, and X_train that table, "
    "with its column of labels",
}
BOOSTED = ("leaves of LightGBM and XGBoost hold steps that are added up, not means of labels",)  # also in forest mode
STEPS = ("leaves of GradientBoosting hold steps that are added up, not means of labels",)
QUANTILES = ("quantile-forest predicts quantiles, and means by one row of each leaf unless max_samples_leaf=None",)
HAZARDS = ("scikit-survival predicts hazards and survival of leaves, not averages of y_train",)


@dataclass(frozen=True, eq=False)
class Source:
    """What a library says about a fitted forest."""

    leaves: Callable[[Any], NDArray[Any]]  # (n_rows, n_trees) as the library numbers them, for a table of the right columns
    n_features: int | None = None  # None: it does not say
    names: tuple[str, ...] | None = None  # of the columns it was fitted on, if those had names
    classes: Any = None  # labels of a classifier
    numeric: bool | None = None  # whether it predicts numbers; None: it does not say
    known: NDArray[np.int64] | None = None  # (n_rows, n_trees) leaves of the training rows, if they came with it
    trees: tuple[Any, ...] = ()  # decision trees of scikit-learn, which count the rows in their leaves
    samples: list[NDArray[Any]] | None = None  # numbers of the rows that each of them drew
    n_draws: int | None = None  # that each of them must have drawn; None: any number of rows, max_samples was set
    repeats: bool = False  # whether a row that was drawn twice counts as two where trees count rows
    differs: tuple[str, ...] = ()  # why its predictions are no averages of labels with the weights of the kernel
    differs_unweighed: tuple[str, ...] = ()  # the same, if no weights are given
    aggregate: str = "proximity"  # the estimate that is meant when none is named
    opens_sparse: bool = True  # whether a sparse row and the same row made dense are one
    missing: float = np.nan  # a number that stands for a missing value
    on_paths: Callable[[Any], NDArray[np.bool_]] | None = None  # (n_rows, n_features) whether a tree asks on the way


def source_of(fitted: Any, threads: int) -> Source:
    """Ask the library of a forest about it."""
    libraries = {kind.__module__.partition(".")[0] for kind in type(fitted).__mro__}
    if isinstance(fitted, tuple) and len(fitted) == 2 and callable(fitted[1]):
        return _from_pair(*fitted)
    if "imblearn" in libraries and isinstance(fitted, RandomForestClassifier):
        return _from_imblearn(fitted, threads)
    if "quantile_forest" in libraries and hasattr(type(fitted), "apply"):
        return replace(_from_sklearn(fitted, threads), differs=QUANTILES)
    if "sksurv" in libraries and hasattr(type(fitted), "apply") and not hasattr(fitted, "train_score_"):  # not boosted
        return replace(_from_sklearn(fitted, threads), differs=HAZARDS, numeric=True, classes=None)
    if isinstance(fitted, FORESTS + BAGS + TREES):
        return _from_sklearn(fitted, threads)
    if isinstance(fitted, STAGES):
        return _from_stages(fitted, threads)
    if "lightgbm" in libraries and hasattr(type(fitted), "predict"):
        return _from_lightgbm(fitted, threads)
    if "xgboost" in libraries and hasattr(type(fitted), "predict"):
        return _from_xgboost(fitted, threads)
    if isinstance(fitted, Pipeline):
        raise TypeError(
            "fitted must be a forest, got a Pipeline: give its last step, pipeline[-1], and as X_train what the steps "
            "before make of the rows, pipeline[:-1].transform(X_train)"
        )
    wanted = next((pair for library, pair in BY_PAIR.items() if library in libraries), ACCEPTED)
    if isinstance(fitted, HistGradientBoostingClassifier | HistGradientBoostingRegressor):
        wanted = "a forest that says which leaves rows reach, as GradientBoosting or LightGBM: HistGradientBoosting does not"
    raise TypeError(f"fitted must be {wanted}; got {type(fitted).__module__}.{type(fitted).__qualname__}")


def _from_pair(leaves_train: Any, apply_function: Callable[[Any], Any]) -> Source:
    known = whole_numbers("leaves_train", leaves_train)
    if known.ndim != 2 or not known.size:
        raise ValueError(f"leaves_train must have a row per training row and a column per tree, got shape {known.shape}")

    def leaves(X: Any) -> NDArray[np.int64]:
        found = whole_numbers("what apply_function returns", apply_function(X))
        if found.ndim != 2 or found.shape[1] != known.shape[1]:
            raise ValueError(f"apply_function must return an array of shape (n_rows, {known.shape[1]}), got {found.shape}")
        return found

    return Source(leaves, known=known)


def _from_sklearn(fitted: Any, threads: int, samples: list[NDArray[Any]] | None = None) -> Source:
    check_is_fitted(fitted)
    trees = tuple(getattr(fitted, "estimators_", [fitted]))
    strange = [tree for tree in trees if not isinstance(tree, TREES) and "sksurv" not in type(tree).__module__]
    if strange:
        raise TypeError(f"{type(fitted).__name__} must hold decision trees of scikit-learn, got {type(strange[0]).__name__}")
    if samples is None:
        samples = getattr(fitted, "estimators_samples_", None)  # a single tree has none
    if samples is not None and len(samples) != len(trees):
        raise ValueError(
            f"the forest knows the rows of {len(samples)} of its {len(trees)} trees only: fit it without warm_start"
        )
    width = int(fitted.n_features_in_)
    subsets = _subsets(fitted, width)
    return Source(
        _sklearn_leaves(fitted, trees, subsets, threads),
        width,
        _known_names(fitted),
        getattr(fitted, "classes_", None),
        numeric=not is_classifier(fitted),
        trees=trees,
        samples=samples,
        n_draws=len(samples[0]) if samples is not None and fitted.max_samples is None else None,
        differs=tuple(_other_predictions(fitted, trees[0])),
        differs_unweighed=tuple(_class_weights(fitted)),
        aggregate="mean",  # of leaf averages; nothing here predicts as the others do
        on_paths=_sklearn_paths(fitted, trees, subsets, width),
    )


def _from_imblearn(fitted: Any, threads: int) -> Source:
    """A balanced forest: each tree was grown on the rows that its sampler drew."""
    check_is_fitted(fitted)
    if fitted.bootstrap:
        raise TypeError(
            "fitted must be grown on the rows that its samplers drew, but bootstrap=True draws of those again, and "
            "imbalanced-learn does not say which: fit it with bootstrap=False, replacement=True, sampling_strategy='all'"
        )
    drawn = [np.asarray(sampler.sample_indices_) for sampler in fitted.samplers_]
    return replace(_from_sklearn(fitted, threads, drawn), n_draws=None, repeats=True)


def _from_stages(fitted: Any, threads: int) -> Source:
    """Boosted trees of scikit-learn. If rows were left out, nobody says which: then trees cannot tell what grew them."""
    check_is_fitted(fitted)
    trees, width = tuple(fitted.estimators_.ravel()), int(fitted.n_features_in_)
    on_all = fitted.subsample == 1.0 and fitted.n_iter_no_change is None
    return Source(
        _sklearn_leaves(fitted, trees, None, threads),
        width,
        _known_names(fitted),
        getattr(fitted, "classes_", None),
        numeric=not is_classifier(fitted),
        trees=trees if on_all else (),
        differs=STEPS,
        on_paths=_sklearn_paths(fitted, trees, None, width),
    )


def _other_predictions(fitted: Any, tree: Any) -> Iterator[str]:
    """What makes leaves of scikit-learn predict something else than the average of the labels that were drawn."""
    if getattr(tree, "criterion", None) == "absolute_error":
        yield "criterion='absolute_error' predicts medians of leaves, not means"
    if np.any(getattr(tree, "monotonic_cst", None)):
        yield "monotonic_cst moves the values of leaves into order"
    if getattr(fitted, "class_weight", None) == "balanced_subsample" and fitted.bootstrap:
        yield "class_weight='balanced_subsample' weighs classes differently in each tree"
    if tree is not fitted and getattr(tree, "class_weight", None) is not None:
        yield "class_weight of the trees weighs classes, differently in each tree if it is 'balanced'"


def _class_weights(fitted: Any) -> Iterator[str]:
    """Class weights that only the one who fitted the forest can repeat."""
    weights, bootstrap = getattr(fitted, "class_weight", None), getattr(fitted, "bootstrap", False)
    is_told = bootstrap and (DRAWN_BY_WEIGHT or weights == "balanced_subsample")  # by the draws, or by a warning of its own
    if weights is not None and not is_told:
        yield f"class_weight={weights!r} weighs classes: give weight=, for each row that of its class"


def _subsets(fitted: Any, width: int) -> list[NDArray[Any]] | None:
    """Columns that each tree of a Bagging sees, or None if all trees see the table as it is."""
    subsets = [np.asarray(columns) for columns in getattr(fitted, "estimators_features_", [])]
    everything = np.arange(width)
    return None if all(np.array_equal(columns, everything) for columns in subsets) else subsets


def _sklearn_table(fitted: Any, X: Any) -> Any:
    """A table as trees compare it, in float32: read and checked once, not once per tree."""
    gaps: Any = "allow-nan" if get_tags(fitted).input_tags.allow_nan else True
    return check_array(X, dtype=np.float32, accept_sparse="csr", order="C", ensure_all_finite=gaps, input_name="X")


def _sklearn_leaves(
    fitted: Any, trees: Sequence[Any], subsets: list[NDArray[Any]] | None, threads: int
) -> Callable[[Any], NDArray[np.int32]]:
    def leaves(X: Any) -> NDArray[np.int32]:
        table = _sklearn_table(fitted, X)
        out = np.empty((table.shape[0], len(trees)), np.int32)

        def one_tree(t: int) -> None:
            out[:, t] = trees[t].apply(table if subsets is None else table[:, subsets[t]], check_input=False)

        run(one_tree, range(len(trees)), threads)
        return out

    return leaves


def _sklearn_paths(
    fitted: Any, trees: Sequence[Any], subsets: list[NDArray[Any]] | None, width: int
) -> Callable[[Any], NDArray[np.bool_]]:
    def on_paths(X: Any) -> NDArray[np.bool_]:
        table = _sklearn_table(fitted, X)
        out = np.zeros((table.shape[0], width), dtype=bool)
        for t, tree in enumerate(trees):
            path = tree.decision_path(table if subsets is None else table[:, subsets[t]], check_input=False).tocoo()
            asked = tree.tree_.feature[path.col]  # negative in leaves
            rows, columns = path.row[asked >= 0], asked[asked >= 0]
            out[rows, columns if subsets is None else subsets[t][columns]] = True
        return out

    return on_paths


def _from_lightgbm(fitted: Any, threads: int) -> Source:
    model = hasattr(type(fitted), "booster_")
    booster = fitted.booster_ if model else fitted  # raises scikit-learn's NotFittedError itself
    width, written = int(booster.num_feature()), booster.feature_name()

    def leaves(X: Any) -> NDArray[np.int32]:
        table = X if hasattr(X, "shape") else np.asarray(X, dtype=np.float64)
        found = np.asarray(booster.predict(table, pred_leaf=True, num_threads=threads))
        return found.reshape(len(found), -1).astype(np.int32)

    return Source(
        leaves,
        width,
        None if written == [f"Column_{j}" for j in range(width)] else tuple(written),
        getattr(fitted, "classes_", None) if model else None,
        not is_classifier(fitted) if model else None,
        differs=BOOSTED,
    )


def _from_xgboost(fitted: Any, threads: int) -> Source:
    model = hasattr(type(fitted), "get_booster")
    booster = fitted.get_booster() if model else fitted  # raises scikit-learn's NotFittedError itself
    try:
        width = int(booster.num_features())
    except ValueError:  # a stack trace of its library
        raise NotFittedError("fitted must be a fitted forest, got an XGBoost Booster without trees") from None
    if json.loads(booster.save_config())["learner"]["gradient_booster"]["name"] == "gblinear":
        raise TypeError("fitted must have trees to have a kernel, got XGBoost's linear model (booster='gblinear')")
    matrix: Any = sys.modules["xgboost"].DMatrix  # loaded, or there were no model
    missing = fitted.missing if model else np.nan
    best = getattr(booster, "best_iteration", None) if model else None  # as its own apply: stop where early stopping did
    rounds = (0, 0) if best is None else (0, int(best) + 1)

    def leaves(X: Any) -> NDArray[np.int32]:
        table = X if hasattr(X, "shape") else np.asarray(X, dtype=np.float64)
        rows = matrix(table, missing=missing, nthread=threads, enable_categorical=True)
        # not strict_shape: that counts a leaf for each output, also where a tree has one for all of them
        found = booster.predict(rows, pred_leaf=True, iteration_range=rounds, validate_features=False)
        return np.asarray(found).reshape(int(rows.num_row()), -1).astype(np.int32)

    return Source(
        leaves,
        width,
        None if booster.feature_names is None else tuple(booster.feature_names),
        getattr(fitted, "classes_", None) if model else None,
        not is_classifier(fitted) if model else None,
        differs=BOOSTED,
        opens_sparse=False,
        missing=float(missing),
    )


def _known_names(fitted: Any) -> tuple[str, ...] | None:
    names = getattr(fitted, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)
