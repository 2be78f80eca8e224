"""The kernel as a linear operator: leaves enter; what multiplies by K, and never forms it, leaves."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from kernelforest._engine import pairs
from kernelforest.kernel.incidence import add_up, form_opinions, members
from kernelforest.kernel.training import Training


def leaf_operator(training: Training, index: pairs.Index, leaves: NDArray[np.int32] | None) -> LinearOperator:
    """Multiply by the kernel of kind "leaf": training rows by leaf are the columns, rows in these leaves the rows.

    Without leaves, rows are the training rows, too.
    """
    even, rows = training.factors / training.n_trees, training.leaves if leaves is None else leaves

    @cache
    def rows_by_leaf() -> pairs.Index:
        return index if leaves is None else members(training, None, None, leaves)

    def multiplied(mine: NDArray[np.int32], by: pairs.Index, v: NDArray[np.float64]) -> NDArray[np.float64]:
        if np.asarray(v).dtype.kind not in "fiub":
            raise TypeError(f"a kernel multiplies real numbers, got {np.asarray(v).dtype}")
        out = np.zeros((len(mine), v.shape[1]))
        add_up(mine, form_opinions(even, by, False, v), out, np.zeros(len(mine)), training.threads)
        return out

    def times(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return multiplied(rows, index, v)

    def transposed(v: NDArray[np.float64]) -> NDArray[np.float64]:
        return multiplied(training.leaves, rows_by_leaf(), v)

    return LinearOperator(
        (len(rows), len(training.leaves)),
        matvec=lambda v: times(v.reshape(-1, 1)),
        rmatvec=lambda v: transposed(v.reshape(-1, 1)),
        matmat=times,
        rmatmat=transposed,
        dtype=np.float64,
    )
