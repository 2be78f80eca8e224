"""How a kernel is put together: a kind and leaves enter; a plan leaves, by which any of its rows can be filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kernelforest._engine import pairs
from kernelforest.checks import check_choice
from kernelforest.compiling import announced_compiling
from kernelforest.kernel.incidence import members, multiply, pack_bits
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.queries import Query
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
    """The rows of a kernel, and what stands in their leaves."""

    training: Training
    kind: str
    query: Query  # the rows
    width: int  # rows in the leaves: the columns of the kernel
    index: pairs.Index
    by_total: bool = False  # whether leaves are divided by their mass
    left_out: NDArray[np.bool_] | None = None  # (n_trees, n_rows) did not draw a training row: only these trees count for it
    bits: NDArray[np.uint64] | None = None  # the same of kind "oob", packed

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the kernel."""
        return self.query.n_rows, self.width

    def factors_of(self, rows: slice) -> NDArray[np.float64]:
        """What each column of leaves counts for some rows, (1 or n_rows, n_columns)."""
        training = self.training
        if self.left_out is None:
            return training.factors[None] if self.kind == "oob" else training.factors[None] / training.n_trees
        left_out = self.left_out[:, rows]
        what = f"what {len(training.trees):,} trees count for each of {left_out.shape[1]:,} rows"
        check_room(24 * left_out.shape[1] * len(training.trees), what, "ask for fewer rows at a time, with blocks")
        out = left_out.T.astype(np.float64, order="C")
        if self.kind == "gap":
            total = (out * training.tree_weights).sum(axis=1)  # not by BLAS: that rounds by the number of rows
            out /= np.where(total > 0.0, total, 1.0)[:, None]
        return out[:, training.trees] * training.factors

    def rows(self, rows: slice, dtype: Any = np.float64) -> csr_array:
        """Some rows of the kernel."""
        is_all = rows == slice(0, self.query.n_rows)
        leaves, threads = self.query.all_leaves() if is_all else self.query.leaves(rows), self.training.threads
        K = multiply(leaves, self.factors_of(rows), self.index, self.by_total, False, self.width, dtype, threads)
        if self.bits is not None:
            right, all_trees = self.bits, ~np.uint64(0)
            left = np.full((K.shape[0], right.shape[1]), all_trees) if self.left_out is None else right[rows]
            with announced_compiling():
                pairs.divide_by_common_trees(K.indptr, K.indices, K.data, left, right, self.training.tree_weights)
        if KINDS[self.kind].bounded and K.data.max(initial=0.0) > 1.0:  # sums of shares round to a little more
            np.minimum(K.data, 1.0, out=K.data)
        return K


def make_plan(
    query: Query,
    is_training: bool,
    others: NDArray[np.int32] | None,
    kind: str,
    index: Callable[[str, bool], pairs.Index],
    counts: Callable[[], NDArray[np.int32]],
) -> Plan:
    """Plan a kernel between rows; columns are the training rows, unless leaves of others are given.

    `index` gives training rows by leaf, as a fill counts them and by their weights or not; `counts` says how often each tree
    drew each training row.
    """
    check_choice("kind", kind, tuple(KINDS))
    if kind == "path":
        raise ValueError("kind='path' is dense and made at once: take matrix(kind='path')")
    training = query.training
    plan = partial(Plan, training, kind, query, len(training.leaves if others is None else others))
    if others is not None:
        if kind not in ("leaf", "kerf"):
            raise ValueError(f"kind={kind!r} counts draws, so its columns are training rows: leave Z out")
        columns = members(others, training.n_leaves, training.trees)
        if kind == "leaf":
            return plan(columns)
        return plan(columns._replace(totals=index("all", False).totals), by_total=True)
    if kind in ("leaf", "kerf"):
        return plan(index("all", False), by_total=kind == "kerf")
    if kind == "inbag":
        return plan(index("inbag", False))
    if training.draws is None:
        raise ValueError(f"kind={kind!r} needs rows that a tree did not draw; every tree was grown on all rows")
    left_out = counts() == 0
    mine = left_out if is_training else None
    if kind == "oob":
        return plan(index("oob", False), left_out=mine, bits=pack_bits(left_out))
    return plan(index("inbag", True), by_total=True, left_out=mine)
