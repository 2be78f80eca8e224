"""Prototypes: a kernel enters; a few rows of each class leave, around which many of it are gathered.

After Breiman and Cutler: the first prototype of a class is the row with the most rows of the class among its nearest; the
next one has the most of those that are left. What is typical there are medians over these neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.checks import check_whole
from kernelforest.frames import as_table, beside
from kernelforest.kernel import ForestKernel, read_kernel
from kernelforest.kernel.grids import is_categorical
from kernelforest.kernel.training import Show, shown_columns


@dataclass(frozen=True, eq=False, repr=False)
class Prototypes:
    """Rows around which a class is gathered, class by class, the one with the most neighbours first."""

    rows: NDArray[np.intp]  # (n_prototypes,) numbers of training rows
    label: NDArray[Any]  # (n_prototypes,) classes; None without labels
    covered: NDArray[np.intp]  # (n_prototypes,) rows of the class that are near and were not covered before, itself included
    share: NDArray[np.float64]  # (n_prototypes,) of the class that is covered, those before it included
    low: NDArray[np.float64]  # (n_prototypes, n_features) lower quartiles of the covered rows; of levels the commonest
    typical: NDArray[np.float64]  # (n_prototypes, n_features) medians
    high: NDArray[np.float64]  # (n_prototypes, n_features) upper quartiles
    names: tuple[str, ...]  # of the features
    show: Show | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Prototypes({len(self)} rows of {len(set(self.label.tolist()))} classes)"

    def frame(self) -> Any:
        """One line per prototype with what is typical there: a pandas data frame, or a dict of columns without pandas."""
        columns = {"label": self.label, "row": self.rows, "covered": self.covered, "share": self.share}
        return as_table(beside(columns, self.names, shown_columns(self.typical, self.show)))


def prototypes(kernel: ForestKernel, n: int = 3, k: int | None = None, *, kind: str = "leaf") -> Prototypes:
    """Find up to n rows of each class that stand for many others.

    Parameters
    ----------
    kernel : ForestKernel
        For instance `model.kernel_`. Without labels, or of a regression, all rows are of one class.
    n : int
        Prototypes of a class; fewer if there is nothing left to cover.
    k : int, optional
        Nearest rows that a prototype may cover; if left out the square root of the number of training rows, ten at least.
    kind : str
        Of the kernel, as in `ForestKernel.nearest`.

    Examples
    --------
    >>> leaves = [[0, 0], [0, 0], [0, 0], [1, 1], [1, 2]]
    >>> kernel = ForestKernel.from_model((leaves, lambda X: leaves), [[1.0], [2.0], [3.0], [8.0], [9.0]])
    >>> found = prototypes(kernel, n=2, k=2)
    >>> found.rows.tolist(), found.covered.tolist(), found.typical.ravel().tolist()
    ([0, 3], [3, 2], [2.0, 8.5])

    """
    training = read_kernel(kernel)
    check_whole("n", n, 1)
    if kernel.n_rows < 2:
        raise ValueError("prototypes need two training rows or more, got one")
    k = min(max(10, isqrt(kernel.n_rows)), kernel.n_rows - 1) if k is None else k
    near, similar = kernel.nearest(k=k, kind=kind)
    own = training.class_numbers
    found = [(c, *one) for c in np.unique(own) for one in _of_class(np.flatnonzero(own == c), near, similar, n)]
    counts = np.bincount(own)
    levels = is_categorical(training)  # of no features, if the training table is not known
    tables = [training.matrix(covered) if len(levels) else np.empty((1, 0)) for _, _, covered, _ in found]
    low, typical, high = np.array([_typical(table, levels) for table in tables]).transpose(1, 0, 2)
    label = np.full(len(found), None) if training.classes is None else training.classes[[c for c, *_ in found]]
    return Prototypes(
        rows=np.array([row for _, row, _, _ in found]),
        label=label,
        covered=np.array([len(covered) for _, _, covered, _ in found]),
        share=np.array([so_far / counts[c] for c, _, _, so_far in found]),
        low=low,
        typical=typical,
        high=high,
        names=training.names,
        show=training.show,
    )


def _of_class(
    mine: NDArray[np.intp], near: NDArray[np.int64], similar: NDArray[np.float64], n: int
) -> list[tuple[int, NDArray[np.intp], int]]:
    """Rows of one class that cover the most of it one after the other, whom each covers, and how many are by then."""
    bare = np.zeros(len(near) + 1, dtype=bool)  # rows of the class that are not covered; the last stands for no neighbour
    bare[mine] = True
    out: list[tuple[int, NDArray[np.intp], int]] = []
    while len(out) < n and bare[mine].any():
        around = np.where(bare[near[mine]], similar[mine], -1.0)
        counts = (around >= 0.0).sum(axis=1) + bare[mine]
        closeness = np.where(around > 0.0, around, 0.0).sum(axis=1).round(9)  # sums in another order are equal
        best = int(np.lexsort((-closeness, -counts))[0])  # ties: the nearer ones, then the first
        row = int(mine[best])
        covered = np.append(row, near[row])
        covered = covered[bare[covered]]
        bare[covered] = False
        out.append((row, covered, len(mine) - int(bare[mine].sum())))
    return out


def _typical(rows: NDArray[np.float64], categorical: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Quartiles of each column over its known values; of levels, three times the commonest."""
    out = np.full((3, rows.shape[1]), np.nan)
    for j, column in enumerate(rows.T):
        known = column[~np.isnan(column)]
        if len(known) and categorical[j]:
            out[:, j] = np.bincount(known.astype(np.int64)).argmax()
        elif len(known):  # between infinity and something else there is nothing
            quartiles = (0.25, 0.5, 0.75)
            there = np.isfinite(known).all()
            out[:, j] = np.quantile(known, quartiles) if there else np.quantile(known, quartiles, method="lower")
    return out
