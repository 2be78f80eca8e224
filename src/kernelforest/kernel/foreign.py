"""Other people's forests: a fitted model and the rows that grew it enter, what a kernel has to know leaves.

Only public interfaces are read. LightGBM and XGBoost are recognised by the module of their classes and never imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from kernelforest.data import is_frame, read_schema
from kernelforest.kernel.bags import check_leaf_counts, count_draws, says_alike, weighs_alike
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.numbering import numbering_of, whole_numbers
from kernelforest.kernel.queries import take_rows
from kernelforest.kernel.training import Training
from kernelforest.labels import read_labels, read_weights
from kernelforest.notices import notify
from kernelforest.threads import read_threads, run

FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
BAGS = (BaggingClassifier, BaggingRegressor)
TREES = (DecisionTreeClassifier, DecisionTreeRegressor)
_VERSION = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
# before 1.8 trees put some rows with missing values in other leaves than apply: scikit-learn issue 32178
MISPLACED_GAPS = _VERSION < (1, 8)
DRAWN_BY_WEIGHT = _VERSION >= (1, 9)  # bootstrap samples
ACCEPTED = (
    "a fitted RandomForest, ExtraTrees, Bagging of decision trees or DecisionTree of scikit-learn, a model or Booster of "
    "LightGBM or XGBoost, a KernelForestClassifier, or a pair (leaves_train, apply_function)"
)

BOOSTED = ("leaves of LightGBM and XGBoost hold steps that are added up, not means of labels",)  # also in forest mode


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
    others: tuple[str, ...] = ()  # why its predictions are no averages of labels with the weights of the kernel
    unweighed: tuple[str, ...] = ()  # the same, if no weights are given
    opens_sparse: bool = True  # whether a sparse row and the same row made dense are one
    missing: float = np.nan  # a number that stands for a missing value
    on_paths: Callable[[Any], NDArray[np.bool_]] | None = None  # (n_rows, n_features) whether a tree asks on the way


def training_from(
    fitted: Any, X_train: Any, y_train: Any = None, *, weight: ArrayLike | None = None, n_jobs: int | None = None
) -> Training:
    """Describe somebody else's forest; see `ForestKernel.from_model`."""
    threads = read_threads(n_jobs)
    source = _source(fitted, threads)
    names = _column_names(X_train) or source.names
    route = _checked_route(source, names, X_train)
    raw = _training_leaves(source, route, X_train)
    masses = _named("weight", read_weights, weight, len(raw))
    read, matrix = _readers(X_train, source)
    others = source.others + (source.unweighed if weight is None else ())
    if MISPLACED_GAPS and source.trees and read is not None and np.isnan(matrix()).any():
        source, others = replace(source, trees=()), (*others, "scikit-learn before 1.8 misplaces rows with missing values")
    draws = None if source.samples is None else count_draws(source.samples, source.n_draws, len(raw))
    check_leaf_counts(source.trees, raw, draws, masses)
    if not others and not weighs_alike(source.trees, raw, draws, masses):
        others = ("the trees were grown with other weights of rows, give weight= as the docstring says",)
    values, classes = _targets(y_train, source, len(raw))
    if not others and values.shape[1] and not says_alike(source.trees, raw, draws, masses, values):
        drawn_by_weight = DRAWN_BY_WEIGHT and draws is not None
        weights = "" if drawn_by_weight or weight is not None else ", or with weights that were not given"
        others = (f"the trees were grown with other labels than y_train{weights}",)
    if others and values.shape[1]:
        notify(f"weighted averages of labels will differ from predict: {'; '.join(others)}")
    numbering = numbering_of(raw, threads)
    n_features = source.n_features if X_train is None else _width("X_train", X_train)
    return Training(
        leaves=numbering.number(raw, threads),
        n_leaves=int(numbering.starts[-1]),
        route=lambda X: numbering.number(route("X", X), threads),
        draws=None if draws is None else lambda: draws,
        weight=masses,
        values=values,
        matrix=matrix,
        names=names or tuple(f"x{j}" for j in range(n_features or 0)),
        classes=classes,
        read=read,
        threads=threads,
        # the leaf means of scikit-learn; nothing here predicts as the others do
        aggregate="mean" if isinstance(fitted, FORESTS + BAGS + TREES) else "proximity",
        frame=X_train if is_frame(X_train) else None,
        on_paths=source.on_paths,
    )


def check_own_rows(training: Training, X_train: Any, y_train: Any, weight: Any) -> None:
    """Whether rows and labels, if given, are those that one of our own forests was grown on; it knows its weights itself."""
    if X_train is not None and not np.array_equal(training.route(X_train), training.leaves):
        raise ValueError("X_train is not the table this forest was fitted on: its rows reach other leaves")
    labels = np.asarray(training.classes)[training.class_numbers]
    if y_train is not None and not np.array_equal(np.ravel(np.asarray(y_train)), labels):
        raise ValueError("y_train must be left out or be what this forest was fitted on: its kernel knows those labels")
    if weight is not None:
        raise ValueError("weight must be left out: the kernel of this forest knows the weights it was fitted with")


# ---- what each library says ----


def _source(fitted: Any, threads: int) -> Source:
    libraries = {kind.__module__.partition(".")[0] for kind in type(fitted).__mro__}
    if isinstance(fitted, tuple) and len(fitted) == 2 and callable(fitted[1]):
        return _from_pair(*fitted)
    if isinstance(fitted, FORESTS + BAGS + TREES):
        return _from_sklearn(fitted, threads)
    if "lightgbm" in libraries and hasattr(type(fitted), "predict"):
        return _from_lightgbm(fitted, threads)
    if "xgboost" in libraries and hasattr(type(fitted), "predict"):
        return _from_xgboost(fitted, threads)
    if isinstance(fitted, Pipeline):
        raise TypeError(
            "fitted must be a forest, got a Pipeline: give its last step, pipeline[-1], and as X_train what the steps "
            "before make of the rows, pipeline[:-1].transform(X_train)"
        )
    raise TypeError(f"fitted must be {ACCEPTED}; got {type(fitted).__module__}.{type(fitted).__qualname__}")


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


def _from_sklearn(fitted: Any, threads: int) -> Source:
    check_is_fitted(fitted)
    trees = (fitted,) if isinstance(fitted, TREES) else tuple(fitted.estimators_)
    strange = [tree for tree in trees if not isinstance(tree, TREES)]
    if strange:
        raise TypeError(f"{type(fitted).__name__} must hold decision trees of scikit-learn, got {type(strange[0]).__name__}")
    samples = getattr(fitted, "estimators_samples_", None)  # a single tree has none
    if samples is not None and len(samples) != len(trees):
        raise ValueError(
            f"the forest knows the rows of {len(samples)} of its {len(trees)} trees only: fit it without warm_start"
        )
    width = int(fitted.n_features_in_)
    subsets = _subsets(fitted, width)
    return Source(
        _sklearn_leaves(trees, subsets, threads),
        width,
        _known_names(fitted),
        getattr(fitted, "classes_", None),
        numeric=not is_classifier(fitted),
        trees=trees,
        samples=samples,
        n_draws=len(samples[0]) if samples is not None and fitted.max_samples is None else None,
        others=tuple(_other_predictions(fitted, trees[0])),
        unweighed=tuple(_class_weights(fitted)),
        on_paths=_sklearn_paths(trees, subsets, width),
    )


def _other_predictions(fitted: Any, tree: Any) -> Iterator[str]:
    """What makes leaves of scikit-learn predict something else than the average of the labels that were drawn."""
    if tree.criterion == "absolute_error":
        yield "criterion='absolute_error' predicts medians of leaves, not means"
    if tree.monotonic_cst is not None and np.any(tree.monotonic_cst):
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


def _sklearn_table(tree: Any, X: Any) -> Any:
    """A table as trees compare it, in float32: read and checked once, not once per tree."""
    gaps: Any = "allow-nan" if get_tags(tree).input_tags.allow_nan else True
    return check_array(X, dtype=np.float32, accept_sparse="csr", order="C", ensure_all_finite=gaps, input_name="X")


def _sklearn_leaves(
    trees: Sequence[Any], subsets: list[NDArray[Any]] | None, threads: int
) -> Callable[[Any], NDArray[np.int32]]:
    def leaves(X: Any) -> NDArray[np.int32]:
        table = _sklearn_table(trees[0], X)
        out = np.empty((table.shape[0], len(trees)), np.int32)

        def one_tree(t: int) -> None:
            out[:, t] = trees[t].apply(table if subsets is None else table[:, subsets[t]], check_input=False)

        run(one_tree, range(len(trees)), threads)
        return out

    return leaves


def _sklearn_paths(
    trees: Sequence[Any], subsets: list[NDArray[Any]] | None, width: int
) -> Callable[[Any], NDArray[np.bool_]]:
    def on_paths(X: Any) -> NDArray[np.bool_]:
        table = _sklearn_table(trees[0], X)
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
        others=BOOSTED,
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
        others=BOOSTED,
        opens_sparse=False,
        missing=float(missing),
    )


# ---- checks at the door ----


def _checked_route(source: Source, names: tuple[str, ...] | None, X_train: Any) -> Callable[[str, Any], NDArray[Any]]:
    """Leaves of a table as the library numbers them, after a look at its columns. The name of the argument comes first."""
    width = source.n_features
    if width is None and X_train is not None:
        width = _width("X_train", X_train)

    def route(name: str, X: Any) -> NDArray[Any]:
        found = None if width is None else _width(name, X)
        if found != width:
            raise ValueError(f"{name} has {found} columns, but the forest was fitted on {width}")
        columns = _column_names(X)
        for wanted in (source.names, names):
            if columns and wanted and _plain(columns) != _plain(wanted):
                raise ValueError(f"{name} must have the columns of training, {list(wanted)}, got {list(columns)}")
        return source.leaves(X)

    return route


def _training_leaves(source: Source, route: Callable[[str, Any], NDArray[Any]], X_train: Any) -> NDArray[Any]:
    if X_train is None:
        if source.known is None:
            raise ValueError("X_train must be the table the forest was fitted on, got None")
        return source.known
    raw = route("X_train", X_train)
    if not raw.size:
        raise NotFittedError(f"fitted must have trees and X_train rows, got {raw.shape[1]} trees and {len(raw)} rows")
    if source.known is None:
        return raw
    if len(raw) != len(source.known):
        raise ValueError(f"X_train has {len(raw)} rows, but leaves_train {len(source.known)}")
    if not np.array_equal(raw, source.known):
        raise ValueError("X_train is not the table of leaves_train: apply_function(X_train) gives other leaves")
    return source.known


def _targets(y_train: Any, source: Source, n_rows: int) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    """Class indicators and classes, or the numbers of a regression and None."""
    if y_train is None:
        return np.empty((n_rows, 0)), None
    y = np.asarray(y_train)
    if y.ndim not in (1, 2) or len(y) != n_rows:
        raise ValueError(f"y_train must have one entry per training row ({n_rows}), got shape {y.shape}")
    numeric = y.dtype.kind == "f" or (y.ndim == 2 and y.shape[1] > 1) if source.numeric is None else source.numeric
    if numeric:
        numbers = _named("y_train", check_array, y.reshape(n_rows, -1), dtype=np.float64, input_name="y_train")
        return np.asarray(numbers), None
    if isinstance(source.classes, list):
        raise ValueError(
            f"y_train of a classifier must have one column, the forest has {len(source.classes)}: leave it out and give "
            "values to average"
        )
    flat = column_or_1d(y)
    if source.classes is None:
        labels = read_labels(flat)
        return np.eye(len(labels.classes))[labels.codes], labels.classes
    classes = np.asarray(source.classes)
    place = {label: k for k, label in enumerate(classes.tolist())}
    found = flat.tolist()
    unknown = sorted({str(label) for label in found if label not in place})
    if unknown:
        raise ValueError(f"y_train must hold classes of the forest, {classes.tolist()}, got {unknown[:5]}")
    return np.eye(len(classes))[[place[label] for label in found]], classes


def _readers(
    X_train: Any, source: Source
) -> tuple[Callable[[Any], NDArray[np.float64]] | None, Callable[..., NDArray[np.float64]]]:
    """How to read a user's table as numbers, and rows of the training table read so."""
    if X_train is None:
        return None, _no_table
    if hasattr(X_train, "toarray"):
        return None, _opened(X_train) if source.opens_sparse else _no_dense_table
    schema = read_schema(X_train)

    def read(X: Any) -> NDArray[np.float64]:
        numbers = np.asarray(schema.matrix(X), dtype=np.float64)
        if np.isnan(source.missing):
            return numbers
        gaps = numbers.astype(np.float32) == np.float32(source.missing)  # as XGBoost compares them
        gaps[:, list(schema.levels)] = False
        return np.where(gaps, np.nan, numbers)

    def matrix(rows: Any = slice(None)) -> NDArray[np.float64]:
        if not _is_everything(rows) and not len(some := take_rows(X_train, rows)):
            return read(take_rows(X_train, slice(1)))[:0]  # schemas refuse tables without rows
        return read(X_train if _is_everything(rows) else some)

    return read, matrix


def _opened(X_train: Any) -> Callable[..., NDArray[np.float64]]:
    """Rows of a sparse training table as numbers."""

    def matrix(rows: Any = slice(None)) -> NDArray[np.float64]:
        some = X_train if _is_everything(rows) else X_train.tocsr()[rows]
        what = f"a table of {some.shape[0]:,} x {some.shape[1]:,} made dense"
        check_room(8 * some.shape[0] * some.shape[1], what, "ask for voting_points(x0), or give steps h")
        return np.asarray(some.toarray(), dtype=np.float64)

    return matrix


def _is_everything(rows: Any) -> bool:
    return isinstance(rows, slice) and rows == slice(None)


def _no_table(rows: Any = slice(None)) -> NDArray[np.float64]:
    raise ValueError("X_train was not given, so the features of the training rows are not known")


def _no_dense_table(rows: Any = slice(None)) -> NDArray[np.float64]:
    raise TypeError(
        "XGBoost takes what a sparse table leaves out for missing, and zeros of a dense row for zeros: to ask about points, "
        "fit it on a dense table with NaN there"
    )


def _named(name: str, read: Callable[..., Any], value: Any, *args: Any, **options: Any) -> Any:
    """Read an argument; errors call it as the user does."""
    try:
        return read(value, *args, **options)
    except ValueError as error:
        raise ValueError(str(error).replace("sample_weight", name)) from None


def _width(name: str, X: Any) -> int:
    shape: tuple[int, ...] = X.shape if hasattr(X, "shape") else np.shape(X)  # numpy would open a sparse table or a frame
    if len(shape) != 2:
        raise ValueError(f"{name} must be a table with two dimensions, got shape {shape}")
    return int(shape[1])


def _column_names(X: Any) -> tuple[str, ...] | None:
    return tuple(str(column) for column in X.columns) if is_frame(X) else None


def _known_names(fitted: Any) -> tuple[str, ...] | None:
    names = getattr(fitted, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)


def _plain(names: Sequence[str]) -> list[str]:
    """LightGBM writes a blank in a name as an underscore."""
    return [name.replace(" ", "_") for name in names]
