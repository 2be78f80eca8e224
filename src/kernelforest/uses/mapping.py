"""A map of the rows: a kernel enters; points leave, whose distances are nearly those of the kernel.

Two training rows are sqrt(2 - 2 K) apart, because K of kind "leaf" is an inner product, and one for a row with itself. So
classical scaling of these distances is a matter of the leading eigenvectors of K, centred, and these need products with K
only, never K itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from kernelforest.checks import check_whole
from kernelforest.frames import as_table
from kernelforest.kernel import ForestKernel, read_kernel

_FEW = 200  # rows, up to which the whole kernel is taken apart
_NOTHING = 1e-10  # of the largest eigenvalue: a direction that there is not


@dataclass(frozen=True, eq=False, repr=False)
class KernelMap:
    """Points for the training rows; `transform` finds those of new rows."""

    kernel: ForestKernel
    coordinates: NDArray[np.float64]  # (n_rows, n_components), centred, the widest direction first
    shares: NDArray[np.float64]  # (n_components,) of all squared distances from the centre
    axes: NDArray[np.float64]  # (n_rows, n_components): K times these, minus `origin`, are coordinates
    origin: NDArray[np.float64]  # (n_components,)

    def __repr__(self) -> str:
        n, k = self.coordinates.shape
        return f"KernelMap({n:,} rows, {k} directions, {percent(self.shares.sum())} of squared distances)"

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Points of the rows of a table, (n_rows, n_components): a training row is where it is in `coordinates`.

        >>> leaves = [[0, 0], [0, 0], [1, 1], [1, 1]]
        >>> found = map_rows(ForestKernel.from_model((leaves, lambda X: [[0, 1] for _ in X]), None), n_components=1)
        >>> abs(found.transform([["between"]])).round(3).tolist()
        [[0.0]]
        """
        out: NDArray[np.float64] = self.kernel.operator(X) @ self.axes - self.origin
        return out

    def frame(self) -> Any:
        """One line per training row: a pandas data frame, or a dict of columns where pandas is not installed."""
        return as_table({f"direction {j + 1}": column for j, column in enumerate(self.coordinates.T)})


def map_rows(kernel: ForestKernel, n_components: int = 2) -> KernelMap:
    """Lay the training rows out so that similar ones are near each other.

    Parameters
    ----------
    kernel : ForestKernel
        For instance `model.kernel_`.
    n_components : int
        Directions, below the number of training rows.

    Examples
    --------
    >>> leaves = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> found = map_rows(ForestKernel.from_model((leaves, lambda X: leaves), None), n_components=1)
    >>> found.coordinates.round(3).ravel().tolist(), found.shares.round(3).tolist()
    ([0.707, 0.707, -0.707, -0.707], [1.0])

    """
    n = len(read_kernel(kernel).leaves)
    check_whole("n_components", n_components, 1, n - 1, "one less than training rows")
    K = kernel.operator()
    total = n - float((K @ np.ones(n)).mean())  # the trace of the centred kernel
    if total < _NOTHING * n:  # all rows are alike
        nowhere = np.zeros((n, n_components))
        return KernelMap(kernel, nowhere, nowhere[0], nowhere, nowhere[0])
    values, vectors = _leading(K, n, n_components)
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(n_components)] < 0, -1.0, 1.0)  # of two, one
    there = values > _NOTHING * values.max()
    roots = np.sqrt(np.where(there, values, 1.0))
    axes = np.where(there, vectors / roots, 0.0)
    shares = np.where(there, values, 0.0) / total
    return KernelMap(kernel, np.where(there, vectors * roots, 0.0), shares, axes, (K @ axes).mean(axis=0))


def percent(share: float) -> str:
    """Whole percent, or two digits: directions of a deep forest have less than one, and that is not nothing.

    >>> percent(0.474), percent(0.0432), percent(0.0042)
    ('47%', '4.3%', '0.42%')
    """
    return f"{share:.0%}" if share >= 0.095 else f"{100.0 * share:.2g}%"


def _leading(K: LinearOperator, n: int, k: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The largest eigenvalues of the centred kernel, descending, and their vectors, which sum to zero."""

    def centred(v: NDArray[np.float64]) -> NDArray[np.float64]:
        v = v.reshape(n, -1)
        out = K @ (v - v.mean(axis=0))
        return np.asarray(out - out.mean(axis=0))

    if n <= max(_FEW, 2 * k + 1):
        values, vectors = eigh(centred(np.eye(n)))
    else:
        start = np.random.default_rng(0).standard_normal(n)
        values, vectors = eigsh(LinearOperator((n, n), matvec=centred, dtype=np.float64), k, which="LA", v0=start)
    order = np.argsort(-values, kind="stable")[:k]
    vectors = vectors[:, order]
    return values[order], vectors - vectors.mean(axis=0)
