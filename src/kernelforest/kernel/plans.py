"""How a kernel is put together: a kind and leaves enter; a plan leaves, by which any of its rows can be filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kernelforest._engine import pairs
from kernelforest.compiling import announced_compiling
from kernelforest.data import check_choice
from kernelforest.kernel.incidence import members, multiply, pack_bits
from kernelforest.kernel.training import Training


class Kind(NamedTuple):
    """What is true of a kernel between training rows, for every forest."""

    symmetric: bool
    bounded: bool  # by one
    semidefinite: bool
    meaning: str


KINDS = {
    "leaf": Kind(True, True, True, "share of trees in which both are in the same leaf"),
    "inbag": Kind(False, False, False, "the same, each tree counted as often as it drew the second row"),
    "oob": Kind(True, True, False, "share of the trees that drew neither in which both are in the same leaf"),
    "gap": Kind(False, True, False, "over trees that did not draw the first row, its leaf's in-bag share of the second"),
    "kerf": Kind(True, True, True, "mean over trees of one over the training rows of the leaf, if it is the same"),
    "path": Kind(True, True, True, "mean over trees of decay to the power of the steps from leaf to leaf; dense"),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """Leaves of the rows of a kernel, and what stands in the leaves."""

    training: Training
    kind: str
    leaves: NDArray[np.int32]  # (n_rows, n_columns)
    width: int  # rows in the leaves: the columns of the kernel
    factors: NDArray[np.float64]  # (1 or n_rows, n_columns)
    index: pairs.Index
    by_total: bool  # whether leaves are divided by their mass
    left_out: NDArray[np.uint64] | None = None  # trees that did not draw a training row, as bits; of kind "oob"
    is_training: bool = False  # whether the rows are the training rows

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the kernel."""
        return len(self.leaves), self.width

    def factors_of(self, rows: slice) -> NDArray[np.float64]:
        """What each column of leaves counts for some rows."""
        return self.factors[rows] if len(self.factors) > 1 else self.factors

    def rows(self, rows: slice, dtype: Any = np.float64) -> csr_array:
        """Some rows of the kernel."""
        leaves, threads = self.leaves[rows], self.training.threads
        K = multiply(leaves, self.factors_of(rows), self.index, self.by_total, False, self.width, dtype, threads)
        if self.left_out is not None:
            right, all_trees = self.left_out, ~np.uint64(0)
            left = right[rows] if self.is_training else np.full((K.shape[0], right.shape[1]), all_trees)
            with announced_compiling():
                pairs.divide_by_common_trees(K.indptr, K.indices, K.data, left, right, self.training.tree_weights)
        if KINDS[self.kind].bounded and K.data.max(initial=0.0) > 1.0:  # sums of shares round to a little more
            np.minimum(K.data, 1.0, out=K.data)
        return K


def make_plan(
    training: Training,
    leaves: NDArray[np.int32],
    is_training: bool,
    others: NDArray[np.int32] | None,
    kind: str,
    counts: Callable[[], NDArray[np.int32]],
) -> Plan:
    """Plan a kernel between rows by their leaves; columns are the training rows, unless leaves of others are given.

    `counts` says how often each tree drew each training row, where that is needed.
    """
    check_choice("kind", kind, tuple(KINDS))
    if kind == "path":
        raise ValueError("kind='path' is dense and made at once: take matrix(kind='path')")
    even, width = training.factors[None] / training.n_trees, len(training.leaves if others is None else others)

    def plan(
        factors: NDArray[np.float64], index: pairs.Index, by_total: bool = False, left_out: NDArray[np.uint64] | None = None
    ) -> Plan:
        return Plan(training, kind, leaves, width, factors, index, by_total, left_out, is_training)

    if others is not None:
        if kind not in ("leaf", "kerf"):
            raise ValueError(f"kind={kind!r} counts draws, so its columns are training rows: leave Z out")
        columns = members(training, None, None, others)
        if kind == "leaf":
            return plan(even, columns)
        return plan(even, columns._replace(totals=members(training, None, None).totals), by_total=True)
    if kind in ("leaf", "kerf"):
        return plan(even, members(training, None, None), by_total=kind == "kerf")
    if kind == "inbag":
        return plan(even, members(training, np.maximum(counts(), 0), None))
    if training.draws is None:
        raise ValueError(f"kind={kind!r} needs rows that a tree did not draw; every tree was grown on all rows")
    left_out = counts() == 0
    if kind == "oob":
        index = members(training, left_out, None)
        out = left_out.T.astype(np.float64)[:, training.trees] * training.factors if is_training else training.factors[None]
        return plan(out, index, left_out=pack_bits(left_out))
    index = members(training, counts(), training.weight)
    if not is_training:
        return plan(even, index, by_total=True)
    shares = left_out.T.astype(np.float64)
    total = shares @ training.tree_weights
    shares /= np.where(total > 0.0, total, 1.0)[:, None]
    return plan(shares[:, training.trees] * training.factors, index, by_total=True)
