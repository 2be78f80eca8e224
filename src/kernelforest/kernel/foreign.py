"""Other people's forests: what a library says and the rows that grew one enter; what a kernel has to know leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array
from sklearn.utils.validation import column_or_1d

from kernelforest.data import is_frame, read_schema
from kernelforest.kernel.bags import check_leaf_counts, count_draws, says_alike, weighs_alike
from kernelforest.kernel.numbering import numbering_of
from kernelforest.kernel.points import opened
from kernelforest.kernel.queries import take_rows
from kernelforest.kernel.sources import DRAWN_BY_WEIGHT, MISPLACED_GAPS, Source, source_of
from kernelforest.kernel.training import Training
from kernelforest.labels import read_labels, read_weights
from kernelforest.threads import read_threads


def training_from(
    fitted: Any, X_train: Any, y_train: Any = None, *, weight: ArrayLike | None = None, n_jobs: int | None = None
) -> Training:
    """Describe somebody else's forest; see `ForestKernel.from_model`."""
    threads = read_threads(n_jobs)
    source = source_of(fitted, threads)
    names = _column_names(X_train) or source.names
    route = _checked_route(source, names, X_train)
    raw = _training_leaves(source, route, X_train)
    masses = _named("weight", read_weights, weight, len(raw))
    read, matrix = _readers(X_train, source)
    reasons = source.differs + (source.differs_unweighed if weight is None else ())
    if MISPLACED_GAPS and source.trees and read is not None and np.isnan(matrix()).any():
        source, reasons = replace(source, trees=()), (*reasons, "scikit-learn before 1.8 misplaces rows with missing values")
    draws = None if source.samples is None else count_draws(source.samples, source.n_draws, len(raw))
    check_leaf_counts(source.trees, raw, draws, masses, source.repeats)
    if not reasons and not weighs_alike(source.trees, raw, draws, masses):
        reasons = ("the trees were grown with other weights of rows, give weight= as the docstring says",)
    values, classes = _targets(y_train, source, len(raw))
    if not reasons and values.shape[1] and not says_alike(source.trees, raw, draws, masses, values):
        drawn_by_weight = DRAWN_BY_WEIGHT and draws is not None
        weights = "" if drawn_by_weight or weight is not None else ", or with weights that were not given"
        reasons = (f"the trees were grown with other labels than y_train{weights}",)
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
        aggregate=source.aggregate,
        frame=X_train if is_frame(X_train) else None,
        on_paths=source.on_paths,
        differs=reasons,
        sparse=X_train if hasattr(X_train, "toarray") and source.opens_sparse else None,
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
    if y.dtype.names:  # events and times of scikit-survival
        y = np.column_stack([y[name].astype(np.float64) for name in y.dtype.names])
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
    unknown = sorted({repr(label) for label in found if label not in place})  # as written: 1 is not '1'
    if unknown:
        raise ValueError(f"y_train must hold classes of the forest, {classes.tolist()}, got {', '.join(unknown[:5])}")
    return np.eye(len(classes))[[place[label] for label in found]], classes


def _readers(
    X_train: Any, source: Source
) -> tuple[Callable[[Any], NDArray[np.float64]] | None, Callable[..., NDArray[np.float64]]]:
    """How to read a user's table as numbers, and rows of the training table read so."""
    if X_train is None:
        return None, _no_table
    if hasattr(X_train, "toarray"):
        return None, _opened(X_train) if source.opens_sparse else _no_dense_table
    schema = read_schema(X_train, exact=False)  # the library rounds them as well

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
        return opened(X_train if _is_everything(rows) else X_train.tocsr()[rows])

    return matrix


def _is_everything(rows: Any) -> bool:
    return isinstance(rows, slice) and rows == slice(None)


def _no_table(rows: Any = slice(None)) -> NDArray[np.float64]:
    raise ValueError("X_train was not given, so the features of the training rows are not known: give it to from_model")


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


def _plain(names: Sequence[str]) -> list[str]:
    """LightGBM writes a blank in a name as an underscore."""
    return [name.replace(" ", "_") for name in names]
