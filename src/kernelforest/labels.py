"""What users bring beside a table: labels, weights, groups and class weights enter, checked arrays of them leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kernelforest.gaps import is_missing, unmasked


@dataclass(frozen=True, eq=False)
class Labels:
    """Classes, and each row as the number of its class."""

    classes: NDArray[Any]  # (n_classes,) sorted
    codes: NDArray[np.int32]  # (n_rows,)


def read_labels(y: Any) -> Labels:
    """Check class labels and number them.

    >>> read_labels(["no", "yes", "no"]).codes
    array([0, 1, 0], dtype=int32)
    """
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    y = _as_objects(y)
    values = column_or_1d(_plain_labels(y), warn=True)
    gaps = np.ma.getmaskarray(y) if isinstance(y, np.ma.MaskedArray) else is_missing(values)
    if gaps.any():
        raise ValueError(
            f"y must have no missing values, got {int(gaps.sum())} of them, the first at row {int(gaps.argmax())}"
        )
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(f"y must be finite, got {values[np.isinf(values)][0]} at row {int(np.isinf(values).argmax())}")
    if values.dtype.kind in "mM":
        fine, values = values, values.astype(f"{values.dtype.kind}8[us]")  # finer ones would be listed as numbers
        if len(np.unique(values)) < len(np.unique(fine)):
            raise ValueError("y must hold dates that differ by a microsecond or more")
    if values.dtype.kind == "O":
        check_array(values, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
        kinds = sorted({"text" if isinstance(v, str) else "numbers" for v in values.tolist()})
        if len(kinds) > 1:
            raise ValueError(f"y must hold labels of one kind, got {' and '.join(kinds)}")
        found = values.tolist()
        values = np.asarray([str.__str__(v) for v in found] if kinds == ["text"] else found)  # members of an Enum, too
        if values.dtype.kind != "O" and len(np.unique(values)) < len(set(found)):
            raise ValueError(f"y must hold labels that numpy tells apart, got {len(set(found))} of which some become equal")
    if values.dtype.kind == "O":
        kind = type(values[0]).__name__
        raise ValueError(f"y must hold text, numbers, booleans or dates of numpy (as 'datetime64[us]'), got {kind}")
    check_classification_targets(values)
    classes, codes = np.unique(values, return_inverse=True)
    return Labels(classes, codes.astype(np.int32))


def read_weights(sample_weight: ArrayLike | None, n_rows: int, name: str = "sample_weight") -> NDArray[np.float64] | None:
    """Check sample weights; None if there are none or all are equal."""
    if sample_weight is None:
        return None
    given = _one_each(name, sample_weight)
    refused = ValueError(f"{name} must be numbers, got dtype {given.dtype}")
    if given.dtype.kind in "cmM":
        raise refused
    try:
        weight = np.array(given, dtype=np.float64)  # a copy: the model keeps it
    except (TypeError, ValueError):
        raise refused from None
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(f"{name} must have shape ({n_rows},), got {weight.shape}")
    if not np.isfinite(weight).all():
        bad = int((~np.isfinite(weight)).argmax())
        raise ValueError(f"{name} must be finite, got {weight[bad]} at row {bad}")
    if weight.min() < 0:
        bad = int(weight.argmin())
        raise ValueError(f"{name} must be >= 0, got {weight[bad]} at row {bad}")
    if weight.max() == 0:
        raise ValueError(f"{name} must have a positive entry, got zeros only")
    if not 1e-6 < weight.max() < 1e6:  # sums must neither overflow nor vanish, also in single precision
        weight = np.ldexp(weight, -np.frexp(weight.max())[1])
    return None if (weight == weight[0]).all() else weight  # their unit does not matter


def read_groups(groups: Any, n_rows: int) -> NDArray[np.int64] | None:
    """Number the groups of rows that belong together; None if there are none.

    >>> read_groups(["anna", "ben", "anna"], 3)
    array([0, 1, 0])
    """
    if groups is None:
        return None
    values = _one_each("groups", _as_objects(groups))
    if values.shape != (n_rows,):
        raise ValueError(f"groups must have shape ({n_rows},), got {values.shape}")
    gaps = is_missing(values)
    if gaps.any():
        raise ValueError(f"groups must have no missing values, got one at row {int(gaps.argmax())}")
    try:
        if values.dtype.kind != "O" or all(isinstance(v, str | Number) for v in values.tolist()):
            return np.unique(values, return_inverse=True)[1]
        numbers = {value: k for k, value in enumerate(dict.fromkeys(values.tolist()))}  # sets have no order
    except TypeError:
        raise ValueError(
            "groups must hold values of one kind that can be told apart, got text and numbers, or lists"
        ) from None
    return np.array([numbers[value] for value in values.tolist()], dtype=np.int64)


def read_class_weight(
    class_weight: Any, labels: Labels, weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64] | None:
    """One weight per class, or None; a dict may use the labels of the user. Rows of another weight count by it.

    As in scikit-learn a class that is not named weighs one, and names without rows are ignored if all classes are named.
    """
    if class_weight is None:
        return None
    if not (isinstance(class_weight, Mapping) or (isinstance(class_weight, str) and class_weight == "balanced")):
        raise ValueError(f"class_weight must be None, 'balanced' or a dict, got {class_weight!r}")
    names = labels.classes.tolist()
    if isinstance(class_weight, Mapping):
        given = {as_label(c): w for c, w in class_weight.items()}
        unknown = [c for c in given if c not in names]
        if unknown and any(c not in given for c in names):
            raise ValueError(f"class_weight must name classes of y, got {unknown[0]!r}, which has no rows")
        try:
            weights = np.array([given.get(c, 1.0) for c in names], dtype=np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"class_weight must give numbers > 0, got {class_weight!r}") from None
    else:
        with np.errstate(divide="ignore"):  # a class whose rows have no weight
            numbers = np.arange(len(names))
            weights = compute_class_weight("balanced", classes=numbers, y=labels.codes, sample_weight=weight)
    if weight is not None:
        weights = np.where(np.bincount(labels.codes, weight) > 0, weights, 1.0)
    if not (np.isfinite(weights).all() and (weights > 0).all()):
        raise ValueError(f"class_weight must be finite and > 0 for every class, got {class_weight!r}")
    return np.asarray(weights, dtype=np.float64)


def as_label(key: Any) -> Any:
    """A date or duration of numpy, or a day, as that of Python, which pandas' are equal to; other labels as they are.

    >>> as_label(np.datetime64("2026-01-02"))
    datetime.datetime(2026, 1, 2, 0, 0)
    """
    if isinstance(key, date) and not isinstance(key, datetime):
        return datetime(key.year, key.month, key.day)
    return key.astype(f"{key.dtype.kind}8[us]").item() if isinstance(key, np.datetime64 | np.timedelta64) else key


def class_number(label: Any, classes: Sequence[Any]) -> int:
    """The number of a class that a user names."""
    label = as_label(label)
    if label not in classes:
        raise ValueError(f"label must be one of {', '.join(map(repr, classes))}; got {label!r}")
    return classes.index(label)


def _one_each(name: str, values: Any) -> NDArray[Any]:
    """An array of what should be one value per row."""
    try:
        return np.asarray(unmasked(values))
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name} must have one value per row, got lists") from None


def _as_objects(values: Any) -> Any:
    """A list with text as objects, so that a number or a gap among text does not become text."""
    mixed = isinstance(values, list | tuple) and any(isinstance(v, str) for v in values)
    return np.array(values, dtype=object) if mixed else values


def _plain_labels(y: Any) -> Any:
    """Categories, and integers and booleans that could have gaps, but have none: pandas' as numpy's, not as floats."""
    if hasattr(getattr(y, "dtype", None), "categories"):
        return np.asarray(y)
    if getattr(getattr(y, "dtype", None), "kind", "") == "T":  # numpy's strings of any length
        return y.astype(object)
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    return y.to_numpy(dtype=plain) if plain is not None and plain.kind in "iub" and not y.isna().any() else y
