"""Outliers: a kernel enters; how unlike the other rows of its class each row is leaves.

After Breiman and Cutler: the number of rows of a class divided by the sum of squared similarities to them, minus the median
of the class, divided by the median distance from it. They call a row above ten an outlier.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelforest.kernel import ForestKernel
from kernelforest.priors import as_label


class Scale(NamedTuple):
    """What is usual in a class."""

    middle: NDArray[np.float64]  # (n_classes,)
    spread: NDArray[np.float64]  # (n_classes,)


def outliers(
    kernel: ForestKernel, X: Any = None, labels: ArrayLike | None = None, *, kind: str | None = None
) -> NDArray[np.float64]:
    """How unlike the rows of its class each row is, in units of what is usual there; usual is about zero.

    Parameters
    ----------
    kernel : ForestKernel
        For instance `model.kernel_`. Without labels, or of a regression, all rows are of one class.
    X : table, optional
        New rows; the training rows if left out.
    labels : array, optional
        Classes of the new rows. Without them, a row is compared with every class, and the one it is most usual in counts.
    kind : str, optional
        Of the kernel, as in `ForestKernel.matrix`; "oob" if left out, where trees left rows out, so that training rows are
        looked at as new rows are; otherwise "leaf".

    Returns
    -------
    array of shape (n_rows,)
        Zero where nothing differs in the class.

    Examples
    --------
    >>> leaves = [[0, 0], [0, 0], [0, 1], [0, 1], [0, 0], [1, 2]]
    >>> outliers(ForestKernel.from_model((leaves, lambda X: leaves), None)).round(1).tolist()
    [-1.0, -1.0, 1.0, 1.0, -1.0, 17.3]

    """
    training = kernel._training
    if kind is None:
        kind = "leaf" if training.draws is None else "oob"
    if X is None and labels is not None:
        raise ValueError("labels are those of new rows: give X, or leave them out")
    own = training.class_numbers
    values = np.eye(1 if training.classes is None else len(training.classes))[own]
    raw = _raw(kernel, None, kind, values)
    scale = _usual(raw[np.arange(len(own)), own], own, values.shape[1])
    if X is None:
        return np.asarray((raw[np.arange(len(own)), own] - scale.middle[own]) / scale.spread[own])
    found = (_raw(kernel, X, kind, values) - scale.middle) / scale.spread
    if labels is None:
        return np.asarray(np.nanmin(found, axis=1))
    return np.asarray(found[np.arange(len(found)), _numbers(labels, len(found), training.classes)])


def _raw(kernel: ForestKernel, X: Any, kind: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of each class by the sum of squared similarities to them; a row is similar to itself."""
    counts, out = values.sum(axis=0), []
    for rows, K in kernel.blocks(X, kind=kind):
        if X is None:
            K.data[K.indices == np.repeat(np.arange(rows.start, rows.stop), np.diff(K.indptr))] = 0.0
        out.append(counts / (1.0 + K.power(2) @ values))
    return np.concatenate(out)


def _usual(raw: NDArray[np.float64], own: NDArray[np.intp], n_classes: int) -> Scale:
    """The median of every class, and the median distance from it; NaN where a class has no rows."""
    middle, spread = np.full(n_classes, np.nan), np.full(n_classes, np.nan)
    for c in np.unique(own):
        mine = raw[own == c]
        middle[c] = np.median(mine)
        around = np.abs(mine - middle[c])
        spread[c] = np.median(around) or around.mean() or 1.0
    return Scale(middle, spread)


def _numbers(labels: ArrayLike, n: int, classes: NDArray[Any] | None) -> NDArray[np.intp]:
    """Labels as numbers of classes."""
    if classes is None:
        raise ValueError("labels must be left out: the forest has no classes")
    given = np.asarray(labels)
    if given.shape != (n,):
        raise ValueError(f"labels must be {n}, one for each row of X, got shape {given.shape}")
    places = {label: k for k, label in enumerate(classes.tolist())}
    wanted = [as_label(label) for label in given]
    unknown = [label for label in wanted if label not in places]
    if unknown:
        raise ValueError(f"labels must be among {classes.tolist()}, got {unknown[0]}")
    return np.array([places[label] for label in wanted], dtype=np.intp)
