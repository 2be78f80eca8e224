"""Whole numbers that floats of 53 bits cannot tell apart: they are counted from an origin of their column.

A float64 holds whole numbers up to 2^53 exactly. A column of larger ones is exact all the same if they lie near each other:
then a matrix holds how far each is from the middle of the column. Numbers that come later and are not exact
are rounded up, so that they are on the right side of every cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import inf, isinf, nextafter
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST = 2**53  # up to here, every whole number is a float64
_END = 2.0**63  # of int64
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Wholes:
    """How a column of large whole numbers is counted: by the distance from `origin`."""

    origin: int

    def numbers(self, values: NDArray[Any], gaps: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Integers, or other numbers, as a matrix holds them; NaN where there is a gap.

        >>> Wholes(2**60).numbers(np.array([2**60 + 1, 0, 2**60 - 7]), np.array([False, True, False]))
        array([ 1., nan, -7.])
        """
        if _in_int64(values) and _FIRST <= self.origin <= _LAST:
            return np.where(gaps, np.nan, rounded_up(distances(values.astype(np.int64), self.origin)))
        each = zip(values.tolist(), gaps.tolist(), strict=True)
        return np.array([np.nan if gap else _float_above(value, self.origin) for value, gap in each])

    def shown(self, numbers: NDArray[np.floating]) -> NDArray[Any]:
        """The whole numbers again; of a fraction the one below; objects if some are missing, NaN if all are.

        >>> Wholes(2**60).shown(np.array([1.0, 2.5])) - 2**60
        array([1, 2])
        """
        known = np.isfinite(numbers)
        if not known.any():
            return np.asarray(numbers)
        found = _added(np.floor(numbers[known]), self.origin)
        if known.all():
            return found
        out = numbers.astype(object)
        out[known], out[np.isnan(numbers)] = found, None
        return np.asarray(out)


def wholes_of(values: NDArray[Any], gaps: NDArray[np.bool_]) -> Wholes | None:
    """How to count whole numbers so that none of them is lost; None if that cannot be, or if there are fractions.

    >>> wholes_of(np.array([2**60 + 1, 2**60 + 5]), np.zeros(2, dtype=bool)).origin - 2**60
    3
    """
    known = values[~gaps]
    if known.dtype.kind not in "iuO" or not len(known):
        return None
    if known.dtype == object and not all(isinstance(value, Integral) for value in known):
        return None
    none = np.zeros(len(known), dtype=bool)
    for origin in (0, (int(known.min()) + int(known.max())) // 2):
        found = Wholes(origin)
        if np.array_equal(found.shown(found.numbers(known, none)), known):
            return found
    return None


def is_wide(values: NDArray[Any]) -> bool:
    """Whether there are numbers so large that as floats they might stand for other whole numbers, too.

    >>> is_wide(np.array([1, 2**53])), is_wide(np.array([1, 2**53 - 1]))
    (True, False)
    """
    return bool((values >= MOST).any() or (values.dtype.kind != "u" and (values <= -MOST).any()))


def distances(whole: NDArray[np.int64], origin: int) -> NDArray[np.int64]:
    """How far whole numbers are from an origin; what int64 cannot hold is cut off there, and does not wrap around."""
    return np.asarray(np.clip(whole, max(origin - _LAST, _FIRST), min(origin + _LAST, _LAST)) - np.int64(origin))


def rounded_up(whole: NDArray[np.int64], part: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
    """The smallest float64 that is not less than whole + part: it is at or below a cut if and only if that is.

    >>> rounded_up(np.array([2**53, 2**53 + 1, 3]), np.array([0.0, 0.0, 0.25])) - [2**53, 2**53, 0]
    array([0.  , 2.  , 3.25])
    """
    near = whole.astype(np.float64)
    is_end = near == _END
    rest = np.where(is_end, whole - _LAST - 1, whole - np.where(is_end, 0.0, near).astype(np.int64)) + part
    out = near + rest  # what rounding left is added
    return np.where(out - near < rest, np.nextafter(out, np.inf), out)


def _in_int64(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" and (values.dtype != np.uint64 or not len(values) or int(values.max()) <= _LAST)


def _float_above(value: Any, origin: int) -> float:
    """The smallest float that is not less than the distance of a number of Python from an origin."""
    if not isinstance(value, Integral) and isinf(value):
        return float(value)
    if isinstance(value, Integral):
        distance: int | Fraction = int(value) - origin
    else:
        distance = Fraction(value if isinstance(value, Decimal) else float(value)) - origin
    try:
        near = float(distance)
    except OverflowError:
        return inf if distance > 0 else -float(np.finfo(np.float64).max)
    return near if near >= distance else nextafter(near, inf)


def _added(wholes: NDArray[np.floating], origin: int) -> NDArray[Any]:
    """Whole floats plus an origin, exactly: int64, or uint64 or objects if these are too large for it."""
    least, largest = int(wholes.min()), int(wholes.max())
    if min(least, least + origin, origin) >= _FIRST and max(largest, largest + origin, origin) <= _LAST:
        return np.asarray(wholes.astype(np.int64) + origin)
    found = [int(number) + origin for number in wholes.tolist()]
    kind = np.uint64 if min(found) >= 0 and max(found) < 2**64 else object
    return np.array(found, dtype=kind)
