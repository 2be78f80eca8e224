"""Dates, periods and durations: columns that hold them enter; microseconds leave, and can be turned back.

Their kind is M for dates and periods, m for durations, as in numpy.
"""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.gaps import first_value


def kind_of_moments(column: Any) -> str:
    """Whether a column holds dates (M), durations (m) or neither, by its type or by its first value."""
    kind = str(column.dtype).lower()
    if kind.startswith(("timedelta", "duration")):
        return "m"
    if kind.startswith(("date", "timestamp", "period")):
        return "M"
    first = first_value(column) if kind == "object" else None
    found = None if first is None else as_moments(np.array([first], dtype=object))
    return "" if found is None else found.dtype.kind


def as_moments(values: NDArray[Any]) -> NDArray[Any] | None:
    """Dates, periods or durations that come as objects, as those of numpy; None if they are something else.

    >>> as_moments(np.array([date(2026, 1, 2)], dtype=object))
    array(['2026-01-02T00:00:00.000000'], dtype='datetime64[us]')
    """
    if not len(values):
        return None
    if all(isinstance(v, timedelta | np.timedelta64) for v in values):
        return np.array([np.timedelta64(v, "us") for v in values])
    if not all(isinstance(v, date | np.datetime64) or hasattr(v, "to_timestamp") for v in values):
        return None
    starts = [v.to_timestamp() if hasattr(v, "to_timestamp") else v for v in values]  # of periods
    zones = [getattr(v, "tzinfo", None) is not None for v in starts]
    plain = [v.astimezone(UTC).replace(tzinfo=None) if zone else v for v, zone in zip(starts, zones, strict=True)]
    return np.array([np.datetime64(v, "us") for v in plain])


def zone_of(column: Any) -> Any:
    """The time zone of a column of dates, as pandas, Arrow, polars or the first of several objects name it."""
    kind = getattr(column.dtype, "pyarrow_dtype", column.dtype)
    if str(kind).lower() == "object":
        return getattr(first_value(column), "tzinfo", None)
    return getattr(kind, "tz", None) or getattr(kind, "time_zone", None)


def microseconds(values: NDArray[Any]) -> NDArray[np.float64]:
    """Dates or durations of numpy, in whatever unit, as numbers; NaN where there is none."""
    whole = values.astype(f"{values.dtype.kind}8[us]").astype(np.int64)
    return np.where(np.isnat(values), np.nan, whole.astype(np.float64))


def from_microseconds(numbers: NDArray[np.floating], kind: str, zone: Any = None) -> Any:
    """Numbers as dates or durations again, of a time zone if they had one."""
    gaps = np.isnan(numbers)
    whole = np.where(gaps, 0.0, numbers).astype(np.int64).astype(f"{kind}8[us]")
    dates = np.where(gaps, np.array("NaT", whole.dtype), whole)
    return dates if zone is None else _in_zone(dates, zone)


def _in_zone(dates: NDArray[Any], zone: Any) -> Any:
    """Dates of UTC as pandas' of a time zone, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return dates
    return pandas.DatetimeIndex(dates, tz="UTC").tz_convert(zone).array
