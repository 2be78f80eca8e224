"""Missing values: whatever a table writes where it has none enters; where that is leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.wholes import is_wide


def is_missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is None, NaN, NaT or pandas' NA: what is not equal to itself, or refuses to say."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind in "mM":
        return np.asarray(np.isnat(values))
    if values.dtype.kind != "O":
        return np.zeros(values.shape, dtype=bool)
    return np.array([is_gap(v) for v in values.ravel()], dtype=bool).reshape(values.shape)


def is_gap(value: Any) -> bool:
    """The same of one value."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"


def first_value(column: Any) -> Any:
    """The first value of a column that is not missing, or None."""
    return next((v for v in column if not is_gap(v)), None)


def unmasked(X: Any) -> Any:
    """The values of a masked array, those that are masked as missing."""
    if not np.ma.isMaskedArray(X):
        return X
    if X.dtype.kind in "fiub" and not (X.dtype.kind in "iu" and is_wide(X.compressed())):
        return np.ma.filled(X.astype(np.float64), np.nan)
    filled = np.ma.getdata(X).astype(object)
    filled[np.ma.getmaskarray(X)] = None
    return filled
