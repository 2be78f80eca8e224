"""Missing values: a table with gaps enters; the same table leaves, with what similar training rows have there.

A number is the average of the training rows that have one, weighted by their similarity; a level is the one with the most
similarity behind it. After Breiman and Cutler, but our forests take missing values as they are, so nothing has to be guessed
before the forest is grown, and new rows are filled like training rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.data import is_frame
from kernelforest.gaps import is_missing, unmasked
from kernelforest.kernel import ForestKernel, read_kernel
from kernelforest.kernel.grids import is_categorical
from kernelforest.kernel.points import read_rows
from kernelforest.kernel.queries import take_rows
from kernelforest.kernel.training import Training
from kernelforest.threads import blocks_of

_AT_ONCE = 32  # columns of values that are averaged together


def impute(kernel: ForestKernel, X: Any) -> Any:
    """Fill the gaps of a table by what similar training rows have there.

    What the forest was grown to predict decides what is similar: columns that have nothing to do with it are filled by
    little more than their mean.

    Parameters
    ----------
    kernel : ForestKernel
        For instance `model.kernel_`; of other libraries' forests, those that were fitted on tables of numbers.
    X : table
        Rows with the columns of training: the training rows themselves, or new ones.

    Returns
    -------
    array or data frame
        A copy of X, of its kind; of a list of rows, an array. A column without any value in training keeps its gaps.

    Examples
    --------
    >>> from kernelforest.estimators import KernelForestClassifier
    >>> X, y = [[0.0, 5.0], [0.1, 5.0], [0.2, None], [0.9, 7.0], [1.0, 7.0], [1.1, None]], [0, 0, 0, 1, 1, 1]
    >>> model = KernelForestClassifier.untuned(50, random_state=0).fit(X, y)
    >>> impute(model.kernel_, X)[:, 1].astype(float).round(1).tolist()
    [5.0, 5.0, 5.6, 7.0, 7.0, 6.8]

    """
    training = read_kernel(kernel)
    if not training.names:
        raise ValueError(
            "the training table is not known, so there is nothing to fill gaps with: give X_train to from_model"
        )
    if training.forest is None and is_categorical(training).any():
        raise ValueError("columns that hold no numbers can only be filled by forests of this package: fit one on this table")
    if hasattr(X, "toarray"):
        raise TypeError("X must be dense, got a sparse container: it has no gaps")
    table = np.asarray(X, dtype=object) if isinstance(X, list | tuple) else unmasked(X)
    matrix = np.array(read_rows(training, table))
    gaps = np.isnan(matrix)
    if training.forest is not None:
        gaps &= _gaps(table)
    rows = np.flatnonzero(gaps.any(axis=1))
    if not len(rows):
        return _copy(table)
    some = take_rows(table, rows)
    for j, values in _guesses(kernel, training, some, np.flatnonzero(gaps.any(axis=0))):
        matrix[rows, j] = np.where(gaps[rows, j], values, matrix[rows, j])
    return _filled(training, table, matrix, gaps & ~np.isnan(matrix))


def _guesses(
    kernel: ForestKernel, training: Training, some: Any, columns: NDArray[np.intp]
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """What similar rows have in each of the columns: averages of numbers, the heaviest of levels; NaN if nobody has any."""
    known, weight = training.matrix(), training.row_weights
    levels = is_categorical(training)
    numbers = columns[~levels[columns]]
    for some_columns in blocks_of(len(numbers), _AT_ONCE):
        chosen = numbers[some_columns]
        there = np.isfinite(known[:, chosen])
        values = np.where(there, known[:, chosen], 0.0)
        powers = np.frexp(np.abs(values).max(axis=0))[1] + 1
        values = np.ldexp(values, -powers)  # halves at most: no sum overflows, and no digit changes
        centre = _means(values, there, weight)
        apart = np.where(there, values - centre, 0.0)  # around the mean, so that large numbers keep their digits
        sums, shares = np.split(kernel.average(some, np.hstack((apart, there)), **_PLAIN), 2, axis=1)
        found = centre + np.divide(sums, shares, out=np.zeros_like(sums), where=shares > 0.0)
        found = np.clip(found, values.min(axis=0), values.max(axis=0))  # rounding must not lead out of what there is
        yield from zip(chosen.tolist(), np.ldexp(found, powers).T, strict=True)
    for j in columns[levels[columns]].tolist():
        there = np.flatnonzero(~np.isnan(known[:, j]) & (weight > 0.0))
        if not len(there):
            continue
        places = known[there, j].astype(np.int64)
        own = np.zeros((len(known), int(places.max()) + 1))
        own[there, places] = 1.0
        shares = kernel.average(some, own, **_PLAIN)
        shares[shares.sum(axis=1) == 0.0] = weight @ own
        yield j, shares.argmax(axis=1).astype(np.float64)


_PLAIN = {"aggregate": "proximity", "fill": "all"}  # weights that are similarities


def _means(values: NDArray[np.float64], there: NDArray[np.bool_], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means of what is known in each column, the rest being zero; NaN if nothing is."""
    mass = weight @ there
    total = weight @ values
    return np.asarray(np.divide(total, mass, out=np.full(values.shape[1], np.nan), where=mass > 0.0))


def _gaps(table: Any) -> NDArray[np.bool_]:
    """Where a table has no value: a level that training did not see is one."""
    if is_frame(table):
        return np.column_stack([is_missing(np.asarray(table[c].to_list(), dtype=object)) for c in table.columns])
    return is_missing(np.asarray(table))


def _filled(training: Training, table: Any, matrix: NDArray[np.float64], new: NDArray[np.bool_]) -> Any:
    """A copy of a table with the numbers of a matrix where they are new, shown as the table has them."""
    columns = np.flatnonzero(new.any(axis=0)).tolist()
    if not is_frame(table):
        out = _copy(table)
        if out.dtype.kind in "iu" and columns:  # XGBoost may be told that a whole number stands for a gap
            out = out.astype(np.float64)  # averages are fractions
        for j in columns:
            shown = _shown(training, j, matrix[new[:, j], j])
            out[new[:, j], j] = _objects(shown) if out.dtype == object else shown
        return out
    out = _copy(table)
    for j in columns:
        name, gaps = table.columns[j], new[:, j]
        if not hasattr(table, "iloc"):
            out = out.with_columns(_polars(table[name], gaps, _shown(training, j, matrix[gaps, j])))
            continue
        out[name] = _pandas(table[name], gaps, _shown(training, j, matrix[gaps, j]))
    return out


def _copy(table: Any) -> Any:
    """A table that may be changed."""
    if is_frame(table):
        return table.copy() if hasattr(table, "iloc") else table.clone()
    return np.array(table)


def _shown(training: Training, j: int, numbers: NDArray[np.float64]) -> NDArray[Any]:
    return np.asarray(numbers if training.show is None else training.show(j, numbers))


def _pandas(column: Any, gaps: NDArray[np.bool_], new: NDArray[Any]) -> Any:
    """A pandas column with values in its gaps, of the same type if that can hold them; whole numbers become fractions."""
    values = np.asarray(column.to_list(), dtype=object)
    values[gaps] = _objects(new)
    kind, like = getattr(column.dtype, "kind", "O"), {"index": column.index, "name": column.name}
    if new.dtype.kind == "f":
        return type(column)(values.astype(np.float64), **like).astype(column.dtype if kind == "f" else np.float64)
    if new.dtype.kind in "iu":  # large whole numbers, which fractions would not hold
        return type(column)(values, **like).astype(new.dtype if gaps.all() and kind == "f" else column.dtype)
    if kind in "fiub":  # a column without any value, which is no column of numbers
        return type(column)(values, **like).infer_objects()
    if hasattr(column, "cat"):
        column = column.cat.add_categories([level for level in dict.fromkeys(new) if level not in column.cat.categories])
    return type(column)(values, **like).astype(column.dtype)


def _objects(new: NDArray[Any]) -> NDArray[Any]:
    """Values as objects; dates that are too fine for Python, or too far away, as those of numpy and not as integers."""
    out = np.empty(len(new), dtype=object)
    plain = new.tolist()
    out[:] = list(new) if new.dtype.kind in "mM" and any(isinstance(value, int) for value in plain) else plain
    return out


def _polars(column: Any, gaps: NDArray[np.bool_], new: NDArray[Any]) -> Any:
    """The same of a polars column."""
    import polars

    found = polars.Series(column.name, new.tolist() if new.dtype == object else new)
    if new.dtype.kind in "iu" and column.dtype.is_integer():  # large whole numbers
        return column.scatter(np.flatnonzero(gaps), found.cast(column.dtype))
    if column.dtype.is_integer() or column.dtype in (polars.Boolean, polars.Null):
        column = column.cast(found.dtype)
    elif isinstance(column.dtype, polars.Enum) and not set(new.tolist()) <= set(column.dtype.categories):
        column = column.cast(polars.String)
    return column.scatter(np.flatnonzero(gaps), found.cast(column.dtype))
