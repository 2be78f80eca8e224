"""Columns of numbers and of dates become floats: a column of a table enters; how it is counted, and its numbers, leave.

A number is itself; where floats cannot hold that, as with dates or identifiers, a column has a way of its own (`Moments`,
`Wholes`). What no way holds is refused: nothing is lost unsaid.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from math import isinf
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.gaps import first_value, is_missing
from kernelforest.moments import Moments, as_moments, kind_of_moments, moments_of, reach_of, read_text, zone_of
from kernelforest.wholes import MOST, Wholes, is_wide, wholes_of

Way = Moments | Wholes
_TEXT_KINDS = "OUST"  # numpy kinds of text and objects
_WIDE_TYPES = ("int64", "uint64", "int128", "uint128")  # of columns, in small letters
_WORDS = {"M": "dates", "m": "durations", "": "numbers"}


def way_of(column: Any, number: int, exact: bool = True) -> Way | None:
    """How a column is counted so that nothing is lost; None if as floats. If that cannot be, and `exact`, it is refused."""
    name, kind = getattr(column, "name", number), kind_of_moments(column)
    values = _array(column, name)
    if not kind:
        return _way_of_numbers(values, name) if exact else None
    known = values.dtype.kind == kind  # not if all are missing
    way = moments_of(values, zone_of(column)) if exact and known else Moments(kind, zone_of(column))
    if way is None:
        raise ValueError(
            f"column {name!r} of X must hold dates or durations that a float64 can tell apart, which are 103 days of "
            f"nanoseconds, or 570 years of microseconds, got {reach_of(values)}: round them, as .dt.round('us') of pandas "
            "does, or make two columns of them"
        )
    return way


def numbers_of(column: Any, number: int, way: Way | None) -> NDArray[np.float64]:
    """A column as a matrix has it, NaN where something is missing; `way` is how training counted it."""
    name, kind = getattr(column, "name", number), kind_of_moments(column)
    known = way.kind if isinstance(way, Moments) else ""
    if kind != known and (kind or isinstance(first_value(column), Number)):  # numbers would be read as microseconds
        raise ValueError(f"column {name!r} of X must hold {_WORDS[known]}, as in training, got {_WORDS[kind]}")
    values = _array(column, name)
    if isinstance(way, Moments):
        return way.numbers(values if values.dtype.kind in "mM" else _from_text(values, way, name))
    if way is None:
        return _floats(values, name)
    gaps = is_missing(values)
    if values.dtype.kind not in "iub":
        _check_whole(values[~gaps].tolist(), name)
    return way.numbers(values, gaps)


def read_values(values: Any) -> tuple[NDArray[np.float64], str]:
    """Numbers of any shape; dates and durations in microseconds, and M or m if that is what they are.

    >>> read_values(np.array([2], "m8[ms]"))
    (array([2000.]), 'm')
    """
    found = _array(as_column(values), 0)
    if found.dtype.kind not in "mM":
        return _floats(found, 0).reshape(np.shape(values)), ""
    way = replace(moments_of(found) or Moments(found.dtype.kind), origin=0)
    return way.numbers(found).reshape(np.shape(values)), found.dtype.kind


def as_column(values: Any) -> NDArray[Any]:
    """Values of any shape as one array; those of a list as they are."""
    return np.asarray(values, dtype=object if isinstance(values, list | tuple) else None).ravel()


def may_lose(column: Any) -> bool:
    """Whether a column is of a type that floats may not hold, and has numbers for which that could matter."""
    kind = str(column.dtype).lower()
    if kind.startswith(("decimal", "int128", "uint128", "float128", "longdouble")):
        return True
    if kind != "object" and not kind.startswith(_WIDE_TYPES):
        return False
    values = column.to_numpy() if hasattr(column, "to_numpy") else column
    try:
        return is_wide(values.astype(np.float64) if values.dtype == object else values) or isinstance(
            first_value(values), Decimal
        )
    except OverflowError:
        return True
    except (TypeError, ValueError):  # gaps of pandas, text, dates
        return any(isinstance(value, Integral) and abs(int(value)) >= MOST for value in values.tolist())


def _way_of_numbers(values: NDArray[Any], name: Any) -> Wholes | None:
    """How to count numbers that floats may not hold; None if they do, or if at least all of them stay different."""
    gaps = is_missing(values)
    known = values[~gaps].tolist()
    found = wholes_of(values, gaps)
    if found is None and not _stay_different(known):
        raise ValueError(
            f"column {name!r} of X must hold numbers that a float64 can tell apart, as whole ones that differ by less than "
            f"2**53, got {min(known)} to {max(known)}: leave it out or make it categorical if it only names rows, divide or "
            "round it if it measures something"
        )
    return found


def _stay_different(known: list[Any]) -> bool:
    """Whether whole numbers are exact as floats; of others, as decimal ones or with fractions, whether none become equal."""
    try:
        floats = [float(value) for value in known]
    except OverflowError:
        return False
    except (TypeError, ValueError):  # text: refused when it is read
        return True
    if all(isinstance(value, Integral) for value in known):
        return all(value == near for value, near in zip(known, floats, strict=True))
    return len(set(floats)) == len(set(known))


def _array(column: Any, name: Any) -> NDArray[Any]:
    """A column as an array of numpy, of dates or durations if it holds such; large integers beside gaps as objects."""
    if getattr(column.dtype, "tz", None) is not None:  # pandas would give objects
        column = column.dt.tz_convert(None)
    kind = str(column.dtype).lower()
    if kind in ("int128", "uint128"):  # numpy has none
        return np.array(column.to_list(), dtype=object)
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind == "f" and kind.startswith(_WIDE_TYPES) and is_wide(values):
        return np.array(column.to_list(), dtype=object)
    if values.dtype.kind not in _TEXT_KINDS:
        return np.asarray(values)
    gaps = is_missing(values)
    moments = _moments(values[~gaps], name)
    if moments is None:
        return np.where(gaps, np.nan, values)
    return _among_gaps(moments, gaps)


def _check_whole(known: list[Any], name: Any) -> None:
    """Refuse what is no number, and floats so large that they may have been other whole numbers before."""
    for value in known:
        small = isinstance(value, Real) and not isinstance(value, Integral) and (abs(float(value)) < MOST or isinf(value))
        if not (small or isinstance(value, Integral | Decimal)):
            raise ValueError(
                f"column {name!r} of X must hold whole numbers, as in training, got {value!r}; floats beyond 2**53 may "
                "stand for others, too: give integers"
            )


def _from_text(values: NDArray[Any], way: Moments, name: Any) -> NDArray[Any]:
    """What stands as text where training had dates, as dates; text is no duration."""
    gaps = is_missing(values)
    known = values[~gaps].tolist()
    try:
        dates = [read_text(v, way.zone) if isinstance(v, str) and way.kind == "M" else v for v in known]
    except ValueError as error:
        raise ValueError(f"column {name!r} of X must hold {error}") from None
    found = _moments(np.array(dates, dtype=object), name)
    if known and (found is None or found.dtype.kind != way.kind):
        raise ValueError(f"column {name!r} of X must hold {_WORDS[way.kind]}, as in training, got {known[0]!r}")
    return _among_gaps(np.empty(0, f"{way.kind}8[us]") if found is None else found, gaps)


def _moments(known: NDArray[Any], name: Any) -> NDArray[Any] | None:
    """Objects of a column as dates or durations of numpy; None if they are something else."""
    try:
        return as_moments(known)
    except ValueError as error:
        raise ValueError(f"column {name!r} of X must hold {error}") from None


def _among_gaps(known: NDArray[Any], gaps: NDArray[np.bool_]) -> NDArray[Any]:
    """Dates or durations, and none where there are gaps."""
    out = np.full(gaps.shape, "NaT", known.dtype)
    out[~gaps] = known
    return out


def _floats(values: NDArray[Any], name: Any) -> NDArray[np.float64]:
    if values.dtype.kind == "c":
        raise ValueError(f"column {name!r} of X must hold real numbers, got dtype {values.dtype}")
    if values.ndim == 1:
        with suppress(TypeError, ValueError):
            return np.asarray(values, dtype=np.float64)
    raise ValueError(
        f"column {name!r} of X must hold numbers, got dtype {values.dtype}; if it is categorical, fit with its name in "
        "categorical_features"
    )
