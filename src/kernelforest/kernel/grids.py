"""Steps and grids along features: what users ask for and the columns of training enter; checked numbers leave."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.binning import decoded
from kernelforest.counting import read_values
from kernelforest.data import is_frame
from kernelforest.kernel.points import feature_number, opened
from kernelforest.kernel.queries import take_rows
from kernelforest.kernel.training import Training
from kernelforest.threads import blocks_of

_WORDS = {"M": "dates", "m": "durations", "f": "numbers"}
_OPENED = 2_000_000  # numbers of a sparse table that are made dense at once
_HUGE = 1e300
STEP = 0.2  # standard deviations, as in the paper's spam example


def default_steps(training: Training) -> NDArray[np.float64]:
    """0.2 standard deviations of each training column, over its finite values; NaN if constant or categorical."""
    steps = np.array([STEP * _spread(column) for column in _columns(training)])
    steps[is_categorical(training)] = np.nan
    return steps


def read_steps(training: Training, h: Any) -> NDArray[np.float64]:
    """Check steps given by the user: one for all features, or one each."""
    p = len(training.names)
    law = f"h must be a number, or a number or duration for each of {p} features"
    counted = getattr(getattr(h, "dtype", None), "kind", "") == "m"  # an array of durations, or one of numpy's
    if p > 1 and np.ndim(h) == 0 and (counted or isinstance(h, timedelta)):
        raise ValueError(f"{law}, got {h!r} for all of them")
    h = _by_name(training.names, h)
    if counted:
        h = np.asarray(h) / np.timedelta64(1, "us")
    try:
        each = np.asarray(h, dtype=object)
        steps = np.array([_microseconds(step) for step in each.ravel()], dtype=np.float64).reshape(each.shape)
    except (TypeError, ValueError):
        raise ValueError(f"{law}, got {h!r}") from None
    if steps.shape not in ((), (p,)):
        raise ValueError(f"{law}, got shape {steps.shape}")
    wrong = ~(np.isfinite(steps) & (steps > 0.0))
    if wrong.any():
        raise ValueError(f"h must be finite and > 0, got {steps[wrong].ravel()[0]}")
    return np.broadcast_to(steps, (p,)).copy()


def _by_name(names: tuple[str, ...], h: Any) -> Any:
    """Steps of a pandas series that names features, in the order of the features; others as they are."""
    labels = list(h.index) if hasattr(h, "iloc") and h.ndim == 1 else []
    if not labels or not all(isinstance(label, str) for label in labels):
        return h
    for name in dict.fromkeys([*labels, *names]):
        if name not in names:
            raise ValueError(f"h must name features of training, got {name!r}")
        if labels.count(name) != 1:
            raise ValueError(f"h must name every feature once, got {name!r} {labels.count(name)} times")
    return h[list(names)]


def _microseconds(step: Any) -> Any:
    """A duration as what columns of dates are counted in; a number as it is."""
    if isinstance(step, np.timedelta64):
        return step / np.timedelta64(1, "us")
    return step / timedelta(microseconds=1) if isinstance(step, timedelta) else step


def read_grid(training: Training, grid: Any, features: tuple[int, int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Check a grid over two features given by the user, or lay one over their training columns."""
    law = "grid must be an integer >= 2 or a pair of ascending arrays of finite numbers, or of dates or durations"
    if isinstance(grid, Integral) and not isinstance(grid, bool):
        if grid < 2:
            raise ValueError(f"{law}, got {grid}")
        x, y = (_span(training, j, int(grid)) for j in features)
        return x, y
    if isinstance(grid, str) or not hasattr(grid, "__len__") or len(grid) != 2:
        raise ValueError(f"{law}, got {grid!r}")
    try:
        (x, y), kinds = zip(*map(read_values, grid), strict=True)
    except (TypeError, ValueError):
        raise ValueError(f"{law}, got {grid!r}") from None
    for j, kind in zip(features, kinds, strict=True):
        if kind not in ("", wanted := _kind(training, j)):
            raise ValueError(f"grid must hold {_WORDS[wanted]} of feature {training.names[j]!r}, got {_WORDS[kind]}")
    for side in (x, y):
        if side.ndim != 1 or not len(side) or not np.isfinite(side).all() or (np.diff(side) < 0).any():
            raise ValueError(f"{law}, got {side!r}")
    x, y = (_counted(training, j, *side) for j, *side in zip(features, (x, y), kinds, grid, strict=True))
    return x, y


def _counted(training: Training, j: int, numbers: NDArray[np.float64], kind: str, given: Any) -> NDArray[np.float64]:
    """Values of a side of a grid as the matrix counts them; plain numbers along dates are counted so already."""
    if training.count is None or (not kind and _kind(training, j) != "f"):
        return numbers
    return training.count(j, given)


def _kind(training: Training, j: int) -> str:
    """M for a column of dates, m for durations, f for numbers."""
    return "f" if training.show is None else str(training.show(j, np.array([np.nan])).dtype.kind)


def numeric_feature(training: Training, table: Any, feature: Any) -> int:
    """Number of a feature given by number or name."""
    j = feature_number(training.names, feature)
    if is_categorical(training, table)[j]:
        raise ValueError(f"feature must be numeric, got {training.names[j]!r}, which is categorical")
    return j


def is_categorical(training: Training, table: Any = None) -> NDArray[np.bool_]:
    """Features that cannot be stepped along: in other forests, columns of a data frame that hold no numbers."""
    if training.forest is not None:
        return np.asarray((training.forest.columns.kinds & 1) != 0)
    frame = table if training.frame is None else training.frame
    if is_frame(frame):
        return np.array([not _holds_numbers(frame[c].dtype) for c in frame.columns])
    return np.zeros(len(training.names), dtype=bool)


def changed_copies(training: Training, table: Any, which: NDArray[np.intp], changed: NDArray[np.float64]) -> Any:
    """Copies of the rows `which` of a table with other numbers; categories stay: a library may number them its own way."""
    fixed = is_categorical(training, table)
    if not is_frame(table):
        return np.where(fixed, np.asarray(table)[which], changed) if fixed.any() else changed
    copies = take_rows(table, which)
    for c in np.flatnonzero(~fixed):
        name = table.columns[c]
        if hasattr(table, "iloc"):
            copies[name] = changed[:, c]
        else:  # polars
            copies = copies.with_columns(type(copies[name])(name, changed[:, c]))
    return copies


def _holds_numbers(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "fiub"


def _span(training: Training, j: int, n_points: int) -> NDArray[np.float64]:
    column = next(column for number, column in enumerate(_columns(training)) if number == j)
    if not len(column):
        raise ValueError(f"grid must be given: feature {training.names[j]!r} has no finite value in training")
    low, high = column.min(), column.max()
    margin = max(0.5, 1e-5 * abs(low)) if low == high else 0.0  # of a constant; hours, if it is a date
    if max(abs(low), abs(high)) < _HUGE:
        return np.linspace(low - margin, high + margin, n_points)
    most = np.finfo(np.float64).max / 4.0  # a quarter of it, so that no difference overflows
    return 4.0 * np.linspace(max(low / 4.0 - margin / 4.0, -most), min(high / 4.0 + margin / 4.0, most), n_points)


def _columns(training: Training) -> Iterator[NDArray[np.float64]]:
    """Finite values of each training column."""
    if training.forest is None:
        for column in training.matrix().T if training.sparse is None else opened_columns(training.sparse):
            yield column[np.isfinite(column)]
        return
    for values in decoded(training.forest.columns):
        yield values[np.isfinite(values)]


def opened_columns(table: Any) -> Iterator[NDArray[np.float64]]:
    """Columns of a sparse table as numbers, a few at a time.

    >>> from scipy.sparse import csr_array
    >>> [column.tolist() for column in opened_columns(csr_array([[0, 2], [0, 3]]))]
    [[0.0, 0.0], [2.0, 3.0]]
    """
    table, size = table.tocsc(), max(1, _OPENED // table.shape[0])
    for some in blocks_of(table.shape[1], size):
        yield from opened(table[:, some]).T


def _spread(column: NDArray[np.float64]) -> float:
    """Standard deviation, NaN if there is none."""
    if not len(column) or column.min() == column.max():
        return np.nan
    _, power = np.frexp(np.abs(column).max())  # squares neither overflow nor vanish, and no digit changes
    return float(np.ldexp(np.ldexp(column, -power).std(), power))
