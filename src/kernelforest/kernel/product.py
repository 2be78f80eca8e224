"""The forest as a kernel: leaf numbers enter; similarities, smoother weights and nearest rows leave.

K is never formed unless asked for. Averages go through sums per leaf; matrices are built by rows, in place, in two passes
(count, then fill), so that nothing but the result takes memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from kernelforest._engine import pairs
from kernelforest.growing import announced_compiling, in_threads
from kernelforest.kernel.explain import Explanation, VotingPoints, explain, voting_points
from kernelforest.kernel.training import Training

_BLOCK = 256  # rows of a kernel per piece of work


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
}


class ForestKernel:
    """The proximity kernel of a fitted forest."""

    def __init__(self, training: Training) -> None:
        self._training = training

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self._training.leaves)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self._training.leaves.shape[1])

    def matrix(self, X: Any = None, Z: Any = None, *, kind: str = "leaf", dense: bool = False) -> Any:
        """Similarity of the rows of X to those of Z; the training rows stand in for whatever is left out.

        Parameters
        ----------
        X, Z : tables, optional
            Rows and columns of the result. Kinds that count draws ("inbag", "oob", "gap") need training rows as columns.
        kind : str
            One of `KINDS`, which also says which of them are symmetric, bounded by one and positive semi-definite.
        dense : bool
            Return an array instead of a sparse `csr_array`.

        """
        factors, index, by_total = self._plan(X, Z, kind)
        K = self._product(self._leaves(X), factors, index, by_total, False, self.n_rows if Z is None else len(Z))
        if kind == "oob":
            right = _bits(self._counts == 0)
            left = right if X is None else np.full((K.shape[0], right.shape[1]), ~np.uint64(0))
            pairs.divide_by_common_trees(K.indptr, K.indices, K.data, left, right)
        return K.toarray() if dense else K

    def distance(self, X: Any = None, Z: Any = None, *, kind: str = "leaf") -> NDArray[np.float64]:
        """One minus the kernel, as a dense array."""
        out: NDArray[np.float64] = self.matrix(X, Z, kind=kind, dense=True)
        np.subtract(1.0, out, out=out)
        return out

    def weights(self, X: Any = None, *, aggregate: str = "proximity", fill: str = "inbag") -> csr_array:
        """Smoother weights W: `predict_proba` is W times the class indicators, for the same aggregate and fill.

        Rows are non-negative and sum to one. Votes have no such weights: rounding the shares of a leaf is not linear in the
        labels.
        """
        if aggregate == "vote":
            raise ValueError(
                "aggregate='vote' has no weights: a vote rounds the shares of a leaf, which is not linear in labels"
            )
        by_total = _check_choice("aggregate", aggregate, ("mean", "proximity")) == "mean"
        W = self._product(self._leaves(X), np.ones((1, self.n_trees)), self._index(fill), by_total, True, self.n_rows)
        silent = np.flatnonzero(np.diff(W.indptr) == 0)
        if len(silent):  # no tree has an opinion: the class shares of the data, as in predict_proba
            weight = np.ones(self.n_rows) if self._training.weight is None else self._training.weight
            W = W.tolil()
            W[silent] = weight / weight.sum()
            W = csr_array(W)
        return W

    def average(
        self, X: Any, values: ArrayLike | None = None, *, aggregate: str = "proximity", fill: str = "inbag"
    ) -> NDArray[np.float64]:
        """Weighted averages of any values of the training rows: W times values, without forming W."""
        numbers = self._training.values if values is None else np.asarray(values, dtype=np.float64)
        if len(numbers) != self.n_rows:
            raise ValueError(f"values must have one row per training row ({self.n_rows}), got {len(numbers)}")
        table = numbers.reshape(self.n_rows, -1)
        index = self._index(fill)
        sums = np.zeros((self._training.n_leaves, table.shape[1]))
        by_total = _check_choice("aggregate", aggregate, ("mean", "proximity")) == "mean"
        pairs.sum_by_leaf(index, table, sums)
        leaves = self._leaves(X)
        out, mass = np.zeros((len(leaves), table.shape[1])), np.zeros(len(leaves))
        pairs.average_rows(leaves, sums, index.totals, by_total, out, mass)
        weight = np.ones(self.n_rows) if self._training.weight is None else self._training.weight
        out[mass == 0] = (weight / weight.sum()) @ table
        mass[mass == 0] = 1.0
        out /= mass[:, None]
        return out.reshape(len(leaves), *numbers.shape[1:])

    def nearest(self, X: Any = None, k: int = 10, *, kind: str = "leaf") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k most similar training rows of each row of X, and their similarities; without X, of each training row.

        A training row is not its own neighbour. Fewer than k similar rows are filled up with -1 and 0.
        """
        if not 1 <= k <= self.n_rows - (X is None):
            raise ValueError(f"k must be from 1 to {self.n_rows - (X is None)}, the number of other rows, got {k}")
        if kind == "oob":
            raise ValueError("kind='oob' has no nearest rows by tree counts; take them from matrix(kind='oob')")
        factors, index, by_total = self._plan(X, None, kind)
        leaves = self._leaves(X)
        own = np.arange(len(leaves)) if X is None else np.full(len(leaves), -1)
        found, similar = np.empty((len(leaves), k), np.int64), np.empty((len(leaves), k))

        def block(rows: slice) -> None:
            some = factors[rows] if len(factors) > 1 else factors
            pairs.nearest_rows(leaves[rows], some, index, by_total, own[rows], k, found[rows], similar[rows], self.n_rows)

        self._run(block, len(leaves))
        return found, similar

    def effective_neighbours(
        self, X: Any = None, *, aggregate: str = "proximity", fill: str = "inbag"
    ) -> NDArray[np.float64]:
        """One over the sum of squared weights: how many equally weighted training rows a probability amounts to."""
        W = self.weights(X, aggregate=aggregate, fill=fill)
        return np.asarray(1.0 / W.power(2).sum(axis=1)).ravel()

    def voting_points(self, x0: Any, *, aggregate: str = "proximity", fill: str = "inbag") -> VotingPoints:
        """The training rows behind the estimate at one point: weight, share of trees, label and features.

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point.
        aggregate, fill : str
            The estimate, as in `weights`.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> model = KernelForestClassifier(50, random_state=0).fit([[0.0], [0.1], [0.9], [1.0]], ["a", "a", "b", "b"])
        >>> points = model.kernel_.voting_points([0.0], fill="all")
        >>> points.rows[0], points.label[0], points.share[0]
        (np.int64(0), np.str_('a'), np.float64(1.0))

        """
        return voting_points(self, x0, aggregate, fill)

    def explain(
        self, x0: Any, *, aggregate: str = "proximity", fill: str = "inbag", mass: float = 0.8
    ) -> Explanation:
        """Say where the estimate at one point comes from, and which training rows would change it if left out.

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point.
        aggregate, fill : str
            The estimate, as in `weights`: the same as `predict_proba` of a forest without a `prior`.
        mass : float
            Share of the weight that the heaviest rows should hold together.

        """
        return explain(self, x0, aggregate, fill, mass)

    @cached_property
    def _counts(self) -> NDArray[np.int32]:
        if self._training.draws is None:
            return np.ones((self.n_trees, self.n_rows), np.int32)
        return self._training.draws()

    def _leaves(self, X: Any) -> NDArray[np.int32]:
        return self._training.leaves if X is None else self._training.route(X)

    def _index(self, fill: str) -> pairs.Index:
        """Training rows by leaf, as a fill counts them."""
        _check_choice("fill", fill, ("inbag", "all", "oob"))
        if fill == "oob" and self._training.draws is None:
            raise ValueError("fill='oob' needs rows that a tree did not draw; every tree was grown on all rows")
        counts = {"all": None, "inbag": self._counts, "oob": None}[fill] if fill != "oob" else (self._counts == 0)
        return self._make_index(counts, self._training.weight)

    def _make_index(
        self, counts: NDArray[Any] | None, weight: NDArray[np.float64] | None, leaves: NDArray[np.int32] | None = None
    ) -> pairs.Index:
        leaves = self._training.leaves if leaves is None else leaves
        index: pairs.Index = pairs.index_rows(leaves, self._training.n_leaves, counts, weight)
        return index

    def _plan(self, X: Any, Z: Any, kind: str) -> tuple[NDArray[np.float64], pairs.Index, bool]:
        """Factors of each query and tree, members of each leaf, and whether leaves are divided by their mass."""
        _check_choice("kind", kind, tuple(KINDS))
        even = np.full((1, self.n_trees), 1.0 / self.n_trees)
        if Z is not None:
            if kind not in ("leaf", "kerf"):
                raise ValueError(f"kind={kind!r} counts draws, so its columns are training rows: leave Z out")
            columns = self._make_index(None, None, self._leaves(Z))
            if kind == "leaf":
                return even, columns, False
            return even, columns._replace(totals=self._make_index(None, None).totals), True
        if kind == "leaf":
            return even, self._make_index(None, None), False
        if kind == "kerf":
            return even, self._make_index(None, None), True
        if kind == "inbag":
            return even, self._make_index(self._counts, None), False
        if self._training.draws is None:
            raise ValueError(f"kind={kind!r} needs rows that a tree did not draw; every tree was grown on all rows")
        out = np.ascontiguousarray((self._counts == 0).T, dtype=np.float64)
        if kind == "oob":
            return (np.ones((1, self.n_trees)) if X is not None else out), self._make_index(self._counts == 0, None), False
        out /= np.maximum(out.sum(axis=1, keepdims=True), 1.0)
        return (even if X is not None else out), self._make_index(self._counts, self._training.weight), True

    def _product(
        self,
        leaves: NDArray[np.int32],
        factors: NDArray[np.float64],
        index: pairs.Index,
        by_total: bool,
        normalise: bool,
        width: int,
    ) -> csr_array:
        """Multiply incidences by rows: count the entries of each row, then fill them in place."""
        counts = np.empty(len(leaves), np.int64)

        def mine(rows: slice) -> NDArray[np.float64]:
            return factors[rows] if len(factors) > 1 else factors

        self._run(lambda rows: pairs.count_rows(leaves[rows], mine(rows), index, width, counts[rows]), len(leaves))
        starts = np.concatenate([[0], counts.cumsum()])
        small = starts[-1] < 2**31
        columns = np.empty(starts[-1], np.int32 if small else np.int64)
        values = np.empty(starts[-1])

        def fill(rows: slice) -> None:
            span = starts[rows.start : rows.stop + 1]
            pairs.fill_rows(leaves[rows], mine(rows), index, by_total, normalise, span, columns, values, width)

        self._run(fill, len(leaves))
        return csr_array((values, columns, starts.astype(columns.dtype)), shape=(len(leaves), width))

    def _run(self, block: Callable[[slice], Any], n_rows: int) -> None:
        with announced_compiling():
            for _ in in_threads(block, list(_blocks(n_rows)), self._training.threads):
                pass


def _blocks(n_rows: int) -> Iterator[slice]:
    for first in range(0, n_rows, _BLOCK):
        yield slice(first, min(first + _BLOCK, n_rows))


def _bits(flags: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """Pack (trees, rows) flags into words, (rows, words)."""
    n_words = -(-flags.shape[0] // 64)
    padded = np.zeros((flags.shape[1], n_words * 64), dtype=bool)
    padded[:, : flags.shape[0]] = flags.T
    return np.packbits(padded, axis=1).view(np.uint64)


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {list(choices)}, got {value!r}")
    return value
