"""Named columns enter, a table for people leaves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def as_table(columns: Mapping[str, Any]) -> Any:
    """Columns as a pandas data frame, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return dict(columns)
    return pandas.DataFrame({name: _as_it_is(pandas, values) for name, values in columns.items()})


def _as_it_is(pandas: Any, values: Any) -> Any:
    """A column for pandas; dates finer than nanoseconds as objects, or it would cut them."""
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "mM":
        return values
    if np.datetime_data(values.dtype)[0] not in ("ps", "fs", "as"):
        return values
    return pandas.Series(list(values), dtype=object)


def beside(columns: Mapping[str, Any], names: Sequence[str], values: Iterable[Any]) -> dict[str, Any]:
    """Columns of a result, and those of a user beside them; a name that is taken by the result gets a longer one.

    >>> beside({"row": [7]}, ["row", "feature row"], [[1.5], [2.5]])
    {'row': [7], 'feature feature row': [1.5], 'feature row': [2.5]}
    """
    out = dict(columns)
    for name, column in zip(names, values, strict=True):
        shown = name
        while shown in columns or (shown != name and shown in names):
            shown = f"feature {shown}"
        out[shown] = column
    return out
