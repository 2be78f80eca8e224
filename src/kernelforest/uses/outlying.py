"""Outliers: a kernel enters; how unlike the other rows of its class each row is leaves.

After Breiman and Cutler: the number of rows of a class divided by the sum of squared similarities to them, minus the median
of the class, divided by the median distance from it. They call a row above ten an outlier.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelforest.frames import as_table
from kernelforest.kernel import ForestKernel, Training, read_kernel
from kernelforest.labels import as_label


@dataclass(frozen=True, eq=False, repr=False)
class Outliers:
    """How unusual each training row is in its class, and what is usual there, to say the same of new rows."""

    kernel: ForestKernel
    kind: str  # of the kernel
    # (n_rows,) of the training rows: about zero is usual, above ten an outlier; NaN where no tree can say
    scores: NDArray[np.float64]
    middle: NDArray[np.float64]  # (n_classes,) median of a class before it is taken off; NaN without rows that can be judged
    spread: NDArray[np.float64]  # (n_classes,) median distance from it

    def __repr__(self) -> str:
        return f"Outliers({(self.scores > 10.0).sum():,} of {len(self.scores):,} training rows above ten)"

    def transform(self, X: Any, labels: ArrayLike | None = None) -> NDArray[np.float64]:
        """How unusual new rows are, (n_rows,).

        Parameters
        ----------
        X : table
            New rows, with the columns of training.
        labels : array of shape (n_rows,), optional
            The class in which each row is looked at; if left out, that in which it is most usual.

        """
        training = read_kernel(self.kernel)
        found = (_raw(self.kernel, X, self.kind) - self.middle) / self.spread
        if labels is None:
            return np.asarray(np.fmin.reduce(found, axis=1))  # of the classes that have a median
        return np.asarray(found[np.arange(len(found)), _numbers(labels, len(found), training.classes)])

    def frame(self) -> Any:
        """The training rows, most unusual first: a pandas data frame, or a dict of columns where pandas is not installed."""
        training, order = read_kernel(self.kernel), np.argsort(-self.scores, kind="stable")
        columns = {"row": order, "score": self.scores[order]}
        if training.classes is not None:
            columns["label"] = training.classes[training.class_numbers[order]]
        return as_table(columns)


def outliers(kernel: ForestKernel, *, kind: str | None = None) -> Outliers:
    """How unlike the other rows of its class each row is.

    Parameters
    ----------
    kernel : ForestKernel
        For instance `model.kernel_`. Without labels, or of a regression, all rows are of one class.
    kind : str, optional
        Of the kernel, as in `ForestKernel.matrix`; "oob" if left out, where trees left rows out, so that training rows are
        looked at as new rows are; otherwise "leaf". With few trees some rows are drawn by all of them: by kinds "oob" and
        "gap" nothing is known of these, and their score is NaN.

    Examples
    --------
    >>> leaves = [[0, 0], [0, 0], [0, 1], [0, 1], [0, 0], [1, 2]]
    >>> outliers(ForestKernel.from_model((leaves, lambda X: leaves), None)).scores.round(1).tolist()
    [-1.0, -1.0, 1.0, 1.0, -1.0, 17.3]

    """
    training = read_kernel(kernel)
    if kind is None:
        kind = "leaf" if training.draws is None else "oob"
    own = training.class_numbers
    raw = _raw(kernel, None, kind)[np.arange(len(own)), own]
    known = _known(training, kind)
    raw[~known] = np.nan
    middle, spread = np.full((2, training.n_classes), np.nan)
    for c in np.unique(own[known]):
        mine = raw[known & (own == c)]
        middle[c] = np.median(mine)
        around = np.abs(mine - middle[c])
        spread[c] = np.median(around) or around.mean() or 1.0  # one, if nothing differs
    return Outliers(kernel, kind, (raw - middle[own]) / spread[own], middle, spread)


def _raw(kernel: ForestKernel, X: Any, kind: str) -> NDArray[np.float64]:
    """Rows of each class by the sum of squared similarities to them; a row is similar to itself."""
    training = read_kernel(kernel)
    values = np.eye(training.n_classes)[training.class_numbers]
    counts, out = values.sum(axis=0), []
    for rows, K in kernel.blocks(X, kind=kind):
        if X is None:
            K.data[K.indices == np.repeat(np.arange(rows.start, rows.stop), np.diff(K.indptr))] = 0.0
        out.append(counts / (1.0 + K.power(2) @ values))
    return np.concatenate(out)


def _known(training: Training, kind: str) -> NDArray[np.bool_]:
    """Training rows that can be judged: by kinds that look at rows as new ones, those that some tree left out."""
    if kind not in ("oob", "gap") or training.draws is None:
        return np.ones(len(training.leaves), dtype=bool)
    return np.asarray((training.draws() == 0).any(axis=0))


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
