"""Points, features and tables as users name them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.data import is_frame
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.training import Training


def as_rows(x0: Any, frame: Any = None) -> tuple[Any, bool]:
    """A row as a table of one row, and whether it was a row and not a table; `frame` has the types of its columns.

    >>> as_rows([1.0, 2.0])
    ([[1.0, 2.0]], True)
    """
    if hasattr(x0, "toarray"):
        raise TypeError(f"x0 must be dense, got a sparse {type(x0).__name__}; call x0.toarray()")
    if is_frame(x0):
        return x0, False
    if hasattr(x0, "iloc"):  # a row taken out of a pandas frame
        return _typed(x0.to_frame().T.infer_objects(), frame), True
    if isinstance(x0, list | tuple):
        flat = len(x0) > 0 and all(np.ndim(v) == 0 for v in x0)
        return ([list(x0)] if flat else x0), flat
    array = np.asarray(x0)
    return (array[None, :], True) if array.ndim == 1 else (array, False)


def _typed(row: Any, frame: Any) -> Any:
    """A row with the types of a pandas frame. Integers stay what they are: a row may have fractions or gaps there."""
    if not hasattr(frame, "iloc") or list(row.columns) != list(frame.columns):
        return row
    for c in row.columns:
        dtype = frame[c].dtype
        if hasattr(dtype, "categories"):
            row[c] = row[c].where(row[c].isin(dtype.categories)).astype(dtype)  # a level that is not known is missing
        elif getattr(dtype, "kind", "O") not in "iub":
            row[c] = row[c].astype(dtype)
        elif row[c].isna().all():
            row[c] = np.nan
    return row


def read_rows(training: Training, table: Any) -> NDArray[np.float64]:
    """A table with the columns of training as numbers."""
    matrix = np.asarray(table if training.read is None else training.read(table), dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(training.names):
        raise ValueError(f"x0 must have {len(training.names)} features, got shape {matrix.shape}")
    return np.ascontiguousarray(matrix)  # by columns, as frames are read, is a type of its own, and would be compiled for


def read_point(training: Training, x0: Any) -> tuple[Any, NDArray[np.float64]]:
    """One row with the columns of training, as a table and as numbers."""
    table, _ = as_rows(x0, training.frame)
    if np.shape(table) != (1, len(training.names)):
        raise ValueError(f"x0 must be one row of {len(training.names)} features, got shape {np.shape(x0)}")
    return table, read_rows(training, table)[0]


def opened(table: Any) -> NDArray[np.float64]:
    """Rows of a training table as numbers in a dense array."""
    if not hasattr(table, "toarray"):
        return np.asarray(table)
    what = f"a table of {table.shape[0]:,} x {table.shape[1]:,} made dense"
    check_room(
        8 * table.shape[0] * table.shape[1], what, "ask for weights, averages or nearest rows, which need no features"
    )
    return np.asarray(table.toarray(), dtype=np.float64)


def feature_number(names: Sequence[str], feature: Any) -> int:
    """The column of a feature given by its name or number.

    >>> feature_number(("age", "height"), "height")
    1
    """
    if isinstance(feature, str) and feature in names:
        return names.index(feature)
    if isinstance(feature, int | np.integer) and not isinstance(feature, bool) and 0 <= feature < len(names):
        return int(feature)
    known = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise ValueError(f"feature must be a number from 0 to {len(names) - 1} or one of {known}; got {feature!r}")


def feature_pair(names: Sequence[str], features: Any) -> tuple[int, int]:
    """The columns of two features.

    >>> feature_pair(("age", "height", "weight"), ("height", 0))
    (1, 0)
    """
    if isinstance(features, str) or not hasattr(features, "__len__") or len(features) != 2:
        raise ValueError(f"features must name two features, got {features!r}")
    first, second = (feature_number(names, feature) for feature in features)
    if first == second:
        raise ValueError(f"features must name two different features, got {features!r}")
    return first, second
