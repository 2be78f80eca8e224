"""Tables that users bring become plain arrays: a frame, an array or a list of rows enters, a matrix of floats leaves.

In the matrix a number is itself, missing is NaN, and a level of a categorical column is its place in the sorted list of
the levels that training saw. A level it never saw is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from kernelforest.counting import Way, as_column, may_lose, numbers_of, way_of
from kernelforest.gaps import is_gap, is_missing, unmasked
from kernelforest.moments import kind_of_moments, ticks_of
from kernelforest.notices import notify
from kernelforest.wholes import Wholes, is_wide

MOST_LEVELS = 65_535
SOME_ROWS = 10  # if a categorical column of so many has no known level, it is another column, or of another type
_NO_NUMBERS = ("could not convert", "float() argument", "setting an array element")  # what numpy says of other things


@dataclass(frozen=True, eq=False)
class Schema:
    """How to read a table: the levels of categorical columns, and how those are counted that floats cannot hold."""

    levels: Mapping[int, NDArray[Any]]  # column -> its levels, sorted
    ways: Mapping[int, Way] = field(default_factory=dict)  # columns of dates, durations or large whole numbers

    def matrix(self, X: Any) -> NDArray[np.floating]:
        """Turn a table with the columns of training into a matrix of float64, or float32 if it is one already.

        >>> schema = read_schema([["a", 1], ["b", 2]], categorical_features=[0])
        >>> schema.matrix([["b", 3], ["unseen", None]])
        array([[ 1.,  3.],
               [nan, nan]])
        """
        X = _unpacked(X)
        _check_container(X)
        if not self.levels and not self.ways and _is_plain(X):
            return _numbers(X)
        columns = _columns(X)
        narrow = all(j in self.levels or str(column.dtype) == "float32" for j, column in enumerate(columns))
        out = np.empty((len(columns[0]), len(columns)), np.float32 if narrow else np.float64, order="F")
        if not len(out):
            raise ValueError(f"X must have at least one row, got shape {out.shape}")
        for j, column in enumerate(columns):
            if j in self.levels:
                out[:, j] = _places(column, self.levels[j])
                if len(out) >= SOME_ROWS and np.isnan(out[:, j]).all() and _tally(column):
                    notify(f"no value of column {getattr(column, 'name', j)!r} was seen in fit, so all count as missing")
            else:
                out[:, j] = numbers_of(column, j, self.ways.get(j))
        return out

    def counted(self, column: int, values: Any) -> NDArray[np.float64]:
        """Values of one column that is not categorical as a matrix has them.

        >>> read_schema(np.array([["2024-05-01"]], "M8[D]")).counted(0, np.array(["1970-01-02"], "M8[D]"))
        array([8.64e+10])
        """
        return numbers_of(as_column(values), column, self.ways.get(column))

    def shown(self, column: int, numbers: NDArray[np.floating]) -> Any:
        """Numbers of one column of a matrix as they were in the table: levels by name, dates as dates.

        Dates of a time zone are an array of pandas; numpy knows no zones, so that they are in UTC where there is no pandas.

        >>> schema = read_schema([["a", 1], ["b", 2]], categorical_features=[0])
        >>> schema.shown(0, np.array([1.0, np.nan])).tolist()
        ['b', None]
        """
        if column in self.levels:
            names = np.append(self.levels[column], [None])
            return np.asarray(names[np.where(np.isnan(numbers), -1, numbers).astype(np.int64)])
        return self.ways[column].shown(numbers) if column in self.ways else numbers


def is_frame(X: Any) -> bool:
    """Whether X is a pandas or polars data frame, or looks like one."""
    return hasattr(X, "shape") and hasattr(X, "__getitem__") and hasattr(X, "columns")  # a lazy one is slow to name columns


def read_schema(X: Any, categorical_features: Any = "from_dtype", *, exact: bool = True) -> Schema:
    """Find the categorical columns of a table and their levels, and how dates and large whole numbers are counted.

    Numbers that a float64 cannot hold are refused, or rounded, as other libraries do it, if it need not be `exact`.
    """
    X = _unpacked(X)
    _check_container(X)
    if is_frame(X):
        names = tuple(str(c) for c in X.columns)
        twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
        if twice:
            raise ValueError(f"X must have distinct column names, got {twice} more than once")
    elif isinstance(categorical_features, str) or categorical_features is None:
        names = ()  # all numbers: their count does not matter here
    else:
        names = tuple(f"x{j}" for j in range(len(_columns(X))))
    chosen = _categorical_columns(X, names, categorical_features)
    dated = [j for j, kind in enumerate(_kinds_of_moments(X)) if kind and j not in chosen]
    wide = _wide_columns(X, {*chosen, *dated}) if exact else []
    if not chosen and not dated and not wide:
        return Schema({})
    columns = _columns(X)
    ways = {j: way for j in [*dated, *wide] if (way := way_of(columns[j], j, exact)) is not None}
    return Schema({j: _levels(_tally(columns[j])) for j in chosen}, ways)


def check_floats(X: Any) -> None:
    """Refuse a table with numbers that a float64 does not hold, for those who take all columns for floats."""
    columns = _columns(X) if (wide := _wide_columns(X)) else []
    for j in wide:
        way = way_of(columns[j], j)
        if isinstance(way, Wholes) and way.origin:
            name = getattr(columns[j], "name", j)
            raise ValueError(
                f"column {name!r} of X must hold numbers that a float64 holds, as whole ones up to 2**53, got such as "
                f"{way.origin}: subtract that"
            )


def _check_container(X: Any) -> None:
    """Refuse what is no table in memory, and say how to make one of it."""
    if hasattr(X, "toarray"):
        raise TypeError("X must be dense, got a sparse container; call X.toarray() if it fits in memory")
    if hasattr(X, "collect"):
        raise TypeError(f"X must be a table in memory, got a {type(X).__name__}; call X.collect()")
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        raise TypeError(f"X must be an array or a data frame, got a {type(X).__name__} of Arrow; call X.to_pandas()")
    if is_frame(X) and not len(X.columns):
        raise ValueError(f"X must have at least one column, got shape {X.shape}")
    if is_frame(X) and any(str(kind).startswith("Sparse") for kind in X.dtypes):
        raise TypeError("X must be dense, got sparse columns; call X.sparse.to_dense() if it fits in memory")


def _unpacked(X: Any) -> Any:
    """The values of a masked array, a list of arrays of dates as one array; other tables as they are."""
    if isinstance(X, list | tuple) and len(X) and getattr(getattr(X[0], "dtype", None), "kind", "") in ("m", "M"):
        X = np.asarray(X)
    return unmasked(X)


def _is_plain(X: Any) -> bool:
    """Whether scikit-learn can read a table as numbers: no dates, and in a frame no text, objects or Arrow."""
    if not is_frame(X) and any(_kinds_of_moments(X)):
        return False
    kinds = [str(X[c].dtype).lower() for c in X.columns] if is_frame(X) else [str(getattr(X, "dtype", ""))]
    others = ("date", "time", "duration", "period", *(("object", "str") if is_frame(X) else ()))
    return not any(kind.startswith(others) or "pyarrow" in kind for kind in kinds)


def _numbers(X: Any) -> NDArray[np.floating]:
    try:
        out = check_array(X, dtype=(np.float64, np.float32), ensure_all_finite=False, input_name="X")
    except (TypeError, ValueError) as error:
        if "NAType" in str(error):  # what pandas has for missing is no number to numpy
            table = np.asarray(X, dtype=object)
            return _numbers(np.where(is_missing(table), np.nan, table))
        if any(words in str(error) for words in _NO_NUMBERS):
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"X must hold numbers; name columns of text in categorical_features ({error})") from None
        raise
    return np.asarray(out)  # float32 is widened by columns and blocks later: a copy of the table would cost memory


def _columns(X: Any) -> list[Any]:
    """The columns of a table, each as something numpy can read."""
    if is_frame(X):
        return [X[c] for c in X.columns]
    table = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else np.asarray(X)
    if table.ndim != 2:
        raise ValueError(f"X must be a table with two dimensions, got shape {table.shape}")
    return list(table.T)


def _values(column: Any) -> list[Any]:
    """A categorical column as plain values."""
    if not hasattr(column, "iloc") and str(column.dtype).lower().startswith(("datetime", "timedelta", "duration")):
        moments = column.to_numpy() if hasattr(column, "to_numpy") else column
        if not ticks_of(moments[~np.isnat(moments)], "us").is_exact():  # Python has no finer ones
            name = getattr(column, "name", "")
            raise ValueError(f"column {name!r} of X must hold whole microseconds if it is categorical, got {moments.dtype}")
        if moments is column:
            column = column.astype(f"{column.dtype.kind}8[us]")  # finer ones would be listed as numbers, days as other dates
    values: list[Any] = column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()
    return values


def _has_codes(column: Any) -> bool:
    """Whether a column is one of pandas' that holds the numbers of its categories."""
    return hasattr(column, "cat") and hasattr(column.cat, "codes")


def _tally(column: Any) -> dict[Any, int]:
    """How often each level of a categorical column occurs. Missing values are no level."""
    if _has_codes(column):
        codes = column.cat.codes.to_numpy()
        counts = np.bincount(codes[codes >= 0], minlength=len(column.cat.categories)).tolist()
        return {level: count for level, count in zip(column.cat.categories.tolist(), counts, strict=True) if count}
    try:
        counted = Counter(_values(column))
    except TypeError as error:
        name = getattr(column, "name", "")
        raise TypeError(f"column {name!r} of X must hold text, numbers or dates if it is categorical: {error}") from None
    return {level: count for level, count in counted.items() if not is_gap(level)}


def _wide_columns(X: Any, others: Collection[int] = ()) -> list[int]:
    """Columns, but those, of numbers so large that floats may not hold them; arrays of floats are not looked at."""
    if is_frame(X):
        return [j for j, c in enumerate(X.columns) if j not in others and may_lose(X[c])]
    try:
        table = np.asarray(X)
    except ValueError:  # rows of different lengths
        return []
    kind, size = table.dtype.kind, table.dtype.itemsize
    is_float = kind == "f" and size <= 8 and isinstance(X, np.ndarray)
    if table.ndim != 2 or kind not in "iufO" or is_float or size < 8 or (kind != "O" and size == 8 and not is_wide(table)):
        return []
    return [j for j, column in enumerate(_columns(X)) if j not in others and may_lose(column)]


def _kinds_of_moments(X: Any) -> list[str]:
    """Which columns of a table hold dates (M) or durations (m), by their types or first values."""
    if is_frame(X):
        return [kind_of_moments(X[c]) for c in X.columns]
    try:
        table = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else X
    except ValueError:  # rows of different lengths
        return []
    if not isinstance(table, np.ndarray) or table.ndim not in (1, 2) or table.dtype.kind not in "mMO":
        return []
    return [kind_of_moments(column) for column in np.atleast_2d(table.T)]  # one dimension is refused when it is read


def _levels(counts: Mapping[Any, int]) -> NDArray[Any]:
    """Sorted levels; the rarest beyond 65,535 are left out and so count as missing."""
    kept = sorted(counts, key=lambda v: -counts[v])[:MOST_LEVELS]
    try:
        kept.sort()
    except TypeError:
        kept.sort(key=lambda v: (type(v).__name__, str(v)))
    out = np.empty(len(kept), dtype=object)
    out[:] = kept
    return out


def _places(column: Any, levels: NDArray[Any]) -> NDArray[np.float64]:
    """Each value of a categorical column as the place of its level; what is no level is missing."""
    place = {level: float(k) for k, level in enumerate(levels)}
    if _has_codes(column):
        known = [place.get(v, np.nan) for v in column.cat.categories.tolist()]
        return np.asarray(np.array([*known, np.nan])[column.cat.codes.to_numpy()])  # the code of a missing value is -1
    return np.array([place.get(v, np.nan) for v in _values(column)])


def _categorical_columns(X: Any, names: Sequence[str], chosen: Any) -> list[int]:
    """Resolve `categorical_features` to column numbers."""
    width = len(names)
    if isinstance(chosen, str):
        if chosen != "from_dtype":
            raise ValueError(f"categorical_features must be 'from_dtype', None or a list of columns, got {chosen!r}")
        return [j for j, c in enumerate(X.columns) if _is_categorical(X[c])] if is_frame(X) else []
    if chosen is None:
        return []
    wanted = np.atleast_1d(np.asarray(chosen))
    if wanted.size == 0:
        return []
    if wanted.ndim > 1:
        raise ValueError(f"categorical_features must be 'from_dtype', None or a list of columns, got {chosen!r}")
    if wanted.dtype.kind == "b":
        if wanted.shape != (width,):
            raise ValueError(f"categorical_features as a mask must have {width} entries, got {wanted.tolist()}")
        return [int(j) for j in np.flatnonzero(wanted)]
    if wanted.dtype.kind in "iu":
        if wanted.min() < 0 or wanted.max() >= width:
            raise ValueError(f"categorical_features must be within 0..{width - 1}, got {wanted.tolist()}")
        return sorted({int(j) for j in wanted})
    unknown = [str(c) for c in wanted if str(c) not in names]
    if unknown:
        raise ValueError(f"categorical_features must name columns of X, got {unknown}")
    return sorted({list(names).index(str(c)) for c in wanted})


def _is_categorical(column: Any) -> bool:
    """Category and text columns of pandas and polars; one of objects is, too, if any of them is text."""
    kind = str(column.dtype).lower()
    if kind == "str" or kind.startswith(("category", "categorical", "enum", "string", "large_string", "dictionary", "utf8")):
        return True
    return kind == "object" and any(isinstance(v, str) for v in column)
