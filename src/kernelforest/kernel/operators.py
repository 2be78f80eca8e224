"""The kernel as a linear operator: leaves enter; what multiplies by K, and never forms it, leaves."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator

from kernelforest._engine import pairs
from kernelforest.kernel.incidence import add_up, form_opinions, members
from kernelforest.kernel.training import Training


class LeafOperator(LinearOperator):  # type: ignore[misc]
    """Multiply by the kernel of kind "leaf": training rows are its columns, rows in `leaves` its rows.

    Without leaves, rows are the training rows, too. It holds arrays only, so that it can be pickled and sent to processes.
    """

    def __init__(self, training: Training, index: pairs.Index, leaves: NDArray[np.int32] | None) -> None:
        self._factors, self._threads = training.factors / training.n_trees, training.threads
        self._columns, self._columns_by_leaf = training.leaves, index
        self._rows = training.leaves if leaves is None else leaves
        self._trees, self._n_leaves = training.trees, training.n_leaves
        super().__init__(np.float64, (len(self._rows), len(self._columns)))

    @cached_property
    def _rows_by_leaf(self) -> pairs.Index:
        if self._rows is self._columns:
            return self._columns_by_leaf
        return members(self._rows, self._n_leaves, self._trees)

    def _matmat(self, v: NDArray[Any]) -> NDArray[np.float64]:
        return self._multiplied(self._rows, self._columns_by_leaf, v)

    def _matvec(self, v: NDArray[Any]) -> NDArray[np.float64]:
        return self._matmat(v.reshape(-1, 1))

    def _rmatmat(self, v: NDArray[Any]) -> NDArray[np.float64]:
        return self._multiplied(self._columns, self._rows_by_leaf, v)

    def _rmatvec(self, v: NDArray[Any]) -> NDArray[np.float64]:
        return self._rmatmat(v.reshape(-1, 1))

    def _multiplied(self, mine: NDArray[np.int32], by: pairs.Index, v: NDArray[Any]) -> NDArray[np.float64]:
        if np.asarray(v).dtype.kind not in "fiub":
            raise TypeError(f"a kernel multiplies real numbers, got {np.asarray(v).dtype}")
        out = np.zeros((len(mine), v.shape[1]))
        add_up(mine, form_opinions(self._factors, by, False, v), out, np.zeros(len(mine)), self._threads)
        return out
