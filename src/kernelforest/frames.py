"""Named columns enter, a table for people leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def as_table(columns: Mapping[str, Any]) -> Any:
    """Columns as a pandas data frame, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return dict(columns)
    return pandas.DataFrame(columns)
