"""Dates, periods and durations: columns that hold them enter; microseconds leave, and can be turned back.

Their kind is M for dates and periods, m for durations, as in numpy. Microseconds may have fractions: where whole ones would
lose something, a column is read in its own unit. They count from 1970, or, where a float64 would lose something then, from a
day in the middle of the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from re import search
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.gaps import first_value
from kernelforest.wholes import distances, rounded_up

_ATTOSECONDS = {"as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15, "s": 10**18}
_ATTOSECONDS |= {"m": 60 * 10**18, "h": 3600 * 10**18, "D": 86_400 * 10**18, "W": 604_800 * 10**18}
_MICROSECOND = _ATTOSECONDS["us"]
_LAST = np.iinfo(np.int64).max


class Ticks(NamedTuple):
    """Dates, from 1970, or durations, counted in some unit."""

    whole: NDArray[np.int64]  # 0 where there is none
    part: NDArray[np.float64]  # from 0 to 1, what is left; NaN where there is none

    def is_exact(self) -> bool:
        """Whether nothing is left, or cut off, of any of them."""
        return not (self.part.any() or (np.abs(self.whole) == _LAST).any())


@dataclass(frozen=True)
class Moments:
    """How a column of dates or durations is counted."""

    kind: str  # M for dates, m for durations
    zone: Any = None  # the time zone of dates, if they have one
    unit: str = "us"  # as numpy calls it: what they are shown in
    origin: int = 0  # in that unit, from 1970

    def numbers(self, moments: NDArray[Any]) -> NDArray[np.float64]:
        """Dates or durations of numpy, in whatever unit, as microseconds from the origin; NaN where there is none.

        >>> Moments("m").numbers(np.array([2, "NaT"], "m8[ms]"))
        array([2000.,   nan])
        """
        ticks = ticks_of(moments, self.unit)
        return self._microseconds(rounded_up(distances(ticks.whole, self.origin), ticks.part))

    def shown(self, numbers: NDArray[np.floating]) -> Any:
        """Numbers as dates or durations again, of a time zone if they had one; between two of them the first."""
        gaps = np.isnan(numbers)
        whole = self._ticks(np.where(gaps, 0.0, numbers)).astype(f"{self.kind}8[{self.unit}]")
        moments = np.where(gaps, np.array("NaT", whole.dtype), whole)
        return moments if self.zone is None else _in_zone(moments, self.zone)

    def holds(self, moments: NDArray[Any]) -> bool:
        """Whether dates or durations, none of them missing, are the same after they were numbers."""
        ticks = ticks_of(moments, self.unit)
        return ticks.is_exact() and bool((self._ticks(self.numbers(moments)) == ticks.whole).all())

    def _ticks(self, numbers: NDArray[np.floating]) -> NDArray[np.int64]:
        """Numbers of a matrix in the unit of the column, from 1970; cut off where int64 ends."""
        size = _ATTOSECONDS[self.unit]
        whole = np.floor(numbers)
        if size < _MICROSECOND:  # the fraction by itself: the product of all of it would be rounded
            near = whole * (_MICROSECOND // size) + np.rint((numbers - whole) * (_MICROSECOND // size))
        else:
            near = np.rint(numbers / (size // _MICROSECOND))
        near -= self._microseconds(near) > numbers
        ticks = np.clip(near, -(2.0**63) + 1024, 2.0**63 - 1024).astype(np.int64)
        return np.asarray(np.clip(ticks, max(-_LAST - self.origin, -_LAST), min(_LAST - self.origin, _LAST)) + self.origin)

    def _microseconds(self, ticks: NDArray[np.float64]) -> NDArray[np.float64]:
        size = _ATTOSECONDS[self.unit]
        return ticks / (_MICROSECOND // size) if size < _MICROSECOND else ticks * (size // _MICROSECOND)


def moments_of(moments: NDArray[Any], zone: Any = None) -> Moments | None:
    """How to count a column of dates or durations of numpy so that nothing is lost; None if that cannot be.

    >>> moments_of(np.array([1, 2], "m8[ns]"))
    Moments(kind='m', zone=None, unit='ns', origin=0)
    >>> moments_of(np.array([1000, 2000], "m8[ns]"))
    Moments(kind='m', zone=None, unit='us', origin=0)
    """
    known = moments[~np.isnat(moments)]
    for unit in dict.fromkeys(("us", _unit(moments))):
        for origin in (0, _middle(ticks_of(known, unit).whole, _ATTOSECONDS["D"] // _ATTOSECONDS[unit])):
            found = Moments(moments.dtype.kind, zone, unit, origin)
            if found.holds(known):
                return found
    return None


def reach_of(moments: NDArray[Any]) -> str:
    """The first and the last of dates or durations, in words."""
    known = moments[~np.isnat(moments)]
    return f"{known.min()} to {known.max()}"


def ticks_of(moments: NDArray[Any], unit: str) -> Ticks:
    """Count dates or durations of numpy in some unit; what does not fit in int64 is cut off, and does not wrap around."""
    own, gaps = _unit(moments), np.isnat(moments)
    whole = np.where(gaps, 0, moments.astype(f"{moments.dtype.kind}8[{own}]").astype(np.int64))
    part = np.where(gaps, np.nan, 0.0)
    if _ATTOSECONDS[own] < _ATTOSECONDS[unit]:
        times = min(_ATTOSECONDS[unit] // _ATTOSECONDS[own], _LAST)
        whole, rest = np.divmod(whole, times)
        return Ticks(whole, part + rest / times)
    times = min(_ATTOSECONDS[own] // _ATTOSECONDS[unit], _LAST)
    fits = np.abs(whole) <= _LAST // times
    return Ticks(np.where(fits, np.where(fits, whole, 0) * times, np.sign(whole) * _LAST), part)


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
        return _joined([_scalar(v) for v in values])
    if not all(isinstance(v, date | np.datetime64) or hasattr(v, "to_timestamp") for v in values):
        return None
    starts = [v.to_timestamp() if hasattr(v, "to_timestamp") else v for v in values]  # of periods
    return _joined([_scalar(_in_utc(v)) for v in starts])


def read_text(value: str, zone: Any) -> Any:
    """A date that is written as in ISO 8601, with its distance from UTC if, and only if, training had a time zone.

    >>> read_text("2024-05-01 12:30", None)
    np.datetime64('2024-05-01T12:30:00.000000')
    """
    distance, law = ("", "without a time zone") if zone is None else ("+02:00", "with its distance from UTC")
    refused = ValueError(f"dates, as in training, or text like '2024-05-01T12:30:00{distance}' {law}, got {value!r}")
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise refused from None
    if (found.tzinfo is None) != (zone is None) or search(r"[.,]\d{6}0*[1-9]", value):  # Python drops nanoseconds
        raise refused
    return _scalar(_in_utc(found))


def zone_of(column: Any) -> Any:
    """The time zone of a column of dates, as pandas, Arrow, polars or the first of several objects name it."""
    kind = getattr(column.dtype, "pyarrow_dtype", column.dtype)
    if str(kind).lower() == "object":
        return getattr(first_value(column), "tzinfo", None)
    return getattr(kind, "tz", None) or getattr(kind, "time_zone", None)


def _in_zone(moments: NDArray[Any], zone: Any) -> Any:
    """Dates of UTC as pandas' of a time zone, or as they are where pandas is not installed."""
    try:
        import pandas
    except ImportError:
        return moments
    return pandas.DatetimeIndex(moments, tz="UTC").tz_convert(zone).array


def _in_utc(value: Any) -> Any:
    """A date without its time zone, if it has one."""
    return value if getattr(value, "tzinfo", None) is None else value.astimezone(UTC).replace(tzinfo=None)


def _scalar(value: Any) -> Any:
    """A date or duration of pandas, Python or numpy as one of numpy, in its own unit."""
    for method in ("to_datetime64", "to_timedelta64"):  # of pandas, whose type is one of Python's, too
        if hasattr(value, method):
            return getattr(value, method)()
    if isinstance(value, timedelta) and abs(value.days) >= 10**8:  # in microseconds it would wrap around
        return np.timedelta64(value // timedelta(seconds=1), "s")
    return (
        np.timedelta64(value, "us")
        if isinstance(value, timedelta)
        else (np.datetime64(value, "us") if isinstance(value, date) else value)
    )


def _joined(scalars: Sequence[Any]) -> NDArray[Any]:
    """Dates or durations of numpy, each in its own unit, as an array of one unit."""
    kinds = {scalar.dtype for scalar in scalars}
    if len(kinds) == 1:
        return np.array(scalars)
    units = sorted({_unit(scalar) for scalar in scalars}, key=_ATTOSECONDS.__getitem__)
    for unit in dict.fromkeys(("us", *units)):
        out, exact = np.empty(len(scalars), f"{scalars[0].dtype.kind}8[{unit}]"), True
        for kind in kinds:
            ticks = ticks_of(np.array([scalar for scalar in scalars if scalar.dtype == kind]), unit)
            out[[scalar.dtype == kind for scalar in scalars]] = ticks.whole.view(out.dtype)
            exact &= ticks.is_exact()
        if exact:
            return out
    raise ValueError(f"dates, or durations, that fit in one unit of numpy, got {scalars[0]} beside some in {units[0]}")


def _middle(whole: NDArray[np.int64], day: int) -> int:
    """A day in the middle of some numbers, or the number itself if a day has too many of that unit to be told apart."""
    middle = (int(whole.min()) + int(whole.max())) // 2 if len(whole) else 0
    return middle - int(np.sign(middle)) * (abs(middle) % day) if 0 < day < 2**50 else middle


def _unit(moments: Any) -> str:
    """The unit of dates or durations of numpy; days if it is months, which differ in length."""
    unit = str(np.datetime_data(moments.dtype)[0])
    return {"generic": "us", "Y": "D", "M": "D"}.get(unit, unit)
