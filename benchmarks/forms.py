"""A `Table` enters, the shape a library likes to be fed with leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workloads import Table


def with_ordinal_codes(table: Table) -> NDArray[np.float32]:
    """Put the codes of categories beside the numbers in one array."""
    if table.levels.shape[1] == 0:
        return table.numbers
    return np.hstack([table.numbers, table.levels.astype(np.float32)])


def frame_if_mixed(table: Table) -> Any:
    """Leave numbers as an array; with categories make a pandas frame."""
    if table.levels.shape[1] == 0:
        return table.numbers
    every_level = pd.CategoricalDtype(range(32))
    columns = {
        name: pd.Series(column).astype(every_level) if name.startswith("c") else column
        for name, column in named_columns(table).items()
    }
    return pd.DataFrame(columns)


def named_columns(table: Table) -> dict[str, NDArray[Any]]:
    """Name numbers x0, x1, ... and categories c0, c1, ..., each contiguous."""
    numbers = {f"x{j}": column for j, column in enumerate(table.numbers.T.copy())}
    levels = {f"c{j}": column for j, column in enumerate(table.levels.T.copy())}
    return numbers | levels
