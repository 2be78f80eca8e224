"""The forest as a kernel: leaf numbers enter; similarities, smoother weights and nearest rows leave.

K is never formed unless asked for, and averages go through sums per leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator

from kernelforest._engine import pairs
from kernelforest.checks import check_whole
from kernelforest.kernel import shape
from kernelforest.kernel.explain import Explanation, VotingPoints, explain, voting_points
from kernelforest.kernel.foreign import check_own_rows, training_from
from kernelforest.kernel.grids import default_steps, read_steps
from kernelforest.kernel.incidence import add_values, fill_silent_rows, members, multiply
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.nearest import nearest_rows
from kernelforest.kernel.operators import LeafOperator
from kernelforest.kernel.plans import Plan, make_plan
from kernelforest.kernel.training import Correction, Training
from kernelforest.notices import notify
from kernelforest.threads import blocks_of

_KEPT = 256_000_000  # bytes of an index that is kept for the next call
_SQUARED = 1_024  # rows whose weights are squared and added up at once


class ForestKernel:
    """The proximity kernel of a fitted forest."""

    def __init__(
        self, training: Training, origin: tuple[Callable[..., ForestKernel], tuple[Any, ...]] | None = None
    ) -> None:
        self._training = training
        self._kept: tuple[tuple[str, bool], pairs.Index] | None = None
        self._origin = origin  # a function that makes it again, and its arguments: this is what is pickled

    @classmethod
    def from_model(
        cls, fitted: Any, X_train: Any, y_train: Any = None, *, weight: ArrayLike | None = None, n_jobs: int | None = None
    ) -> ForestKernel:
        """The kernel of a forest of any library.

        Parameters
        ----------
        fitted : model, Booster or pair
            From scikit-learn a RandomForest, ExtraTrees, Bagging of decision trees or DecisionTree, from imbalanced-learn a
            BalancedRandomForestClassifier, a forest of quantile-forest or scikit-survival: they know what each tree drew. A
            GradientBoosting of scikit-learn, a model or Booster of LightGBM or XGBoost: their draws are not known, so every
            tree counts as grown on all rows; their trees are no repetitions of each other, but K still is the share of trees
            in which two rows share a leaf. For anything else a pair (leaves_train, apply_function): the leaf of each row of
            training in each tree, and what says so for new rows. Of a `KernelForestClassifier` the answer is its `kernel_`,
            which knows labels and weights: others are refused.
        X_train : table
            What the forest was fitted on, row for row. It is kept, not copied. With a pair it may be None.
        y_train : array, optional
            Labels or numbers that the forest was fitted on; of a survival forest, events and times become two columns. Where
            the forest does not say which (a Booster, a pair), text, booleans and integers are labels.
        weight : array of shape (n_rows,), optional
            What each row counts in a leaf, times how often it was drawn. To repeat the predictions of a forest that was
            fitted with `sample_weight` or `class_weight`, give those; but scikit-learn 1.9 draws bootstrap samples by
            weight: there the draws tell, and this is left out.
        n_jobs : int or None
            Threads; a `KernelForestClassifier` has its own.

        Examples
        --------
        >>> leaves = [[0, 0], [0, 1], [1, 1]]
        >>> kernel = ForestKernel.from_model((leaves, lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.matrix(dense=True).tolist()
        [[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]
        >>> kernel.matrix([["new"]], dense=True).tolist()
        [[0.5, 1.0, 0.5]]

        """
        if hasattr(type(fitted), "kernel_") and isinstance(fitted.kernel_, ForestKernel):  # Gaussian processes have another
            own: ForestKernel = fitted.kernel_
            check_own_rows(own._training, X_train, y_train, weight)
            return own
        kernel = _made(cls, weight, n_jobs, fitted, X_train, y_train)
        if kernel._training.differs and kernel._training.values.shape[1]:
            notify(f"weighted averages of labels will differ from predict: {'; '.join(kernel._training.differs)}")
        return kernel

    def __reduce__(self) -> Any:
        if self._origin is None:
            return super().__reduce__()
        estimate = self._training.aggregate, self._training.fill, self._training.correct
        return _made_again, (*self._origin, *estimate, self._training.digest())

    def __repr__(self) -> str:
        estimate = f"aggregate={self._training.aggregate!r}, fill={self._training.fill!r}"
        return f"<ForestKernel of {self.n_trees} trees on {self.n_rows} training rows, {estimate}>"

    def meant_estimate(self, aggregate: str, fill: str, correct: Correction | None = None) -> None:
        """Set the estimate that is meant when none is named, and what is done to its probabilities afterwards."""
        self._training = replace(self._training, aggregate=aggregate, fill=fill, correct=correct)

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self._training.leaves)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self._training.n_trees

    def matrix(
        self,
        X: Any = None,
        Z: Any = None,
        *,
        kind: str = "leaf",
        dense: bool = False,
        decay: float = 0.5,
        dtype: Any = np.float64,
    ) -> Any:
        """Similarity of the rows of X to those of Z; the training rows stand in for whatever is left out.

        Parameters
        ----------
        X, Z : tables, optional
            Rows and columns of the result. Kinds that count draws ("inbag", "oob", "gap") need training rows as columns.
        kind : str
            One of `KINDS`, which also says which of them are symmetric, bounded by one and positive semi-definite.
        dense : bool
            Return an array instead of a sparse `csr_array`. Kind "path" always gives an array.
        decay : float
            Of kind "path" only, in [0, 1): the factor of each step from node to node between two leaves. With 0 it is
            kind "leaf".
        dtype : numpy.float64 or numpy.float32
            Of the entries; the latter takes a third less memory.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.matrix([["new"]], dense=True)
        array([[0.5, 1. , 0.5]])

        """
        _check_dtype(dtype)
        if kind == "path":
            similar = shape.path_matrix(self._training, X, Z, decay)
            return np.minimum(similar, 1.0, out=similar).astype(dtype, copy=False)
        plan = self._plan(X, Z, kind)
        if dense:
            size = np.dtype(dtype).itemsize * plan.shape[0] * plan.shape[1]
            check_room(size, f"a dense kernel of {plan.shape[0]} x {plan.shape[1]}", "leave dense out")
        K = plan.rows(slice(0, plan.shape[0]), dtype)
        return K.toarray() if dense else K

    def blocks(
        self, X: Any = None, *, kind: str = "leaf", size: int = 1024, dtype: Any = np.float64
    ) -> Iterator[tuple[slice, csr_array]]:
        """Some rows of `matrix(X)` at a time, for what does not fit in memory at once.

        Parameters
        ----------
        X, kind, dtype
            As in `matrix`; kind "path" is refused.
        size : int
            Rows of a block.

        Returns
        -------
        iterator of pairs
            Which rows they are, as a slice, and these rows of the kernel, a column for each training row.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> [(rows.start, rows.stop, K.shape) for rows, K in kernel.blocks(size=2)]
        [(0, 2, (2, 3)), (2, 3, (1, 3))]

        """
        check_whole("size", size, 1)
        _check_dtype(dtype)
        plan = self._plan(X, None, kind)
        return ((rows, plan.rows(rows, dtype)) for rows in blocks_of(plan.shape[0], size))

    def operator(self, X: Any = None) -> LinearOperator:
        """The kernel of kind "leaf" as a linear operator of scipy: `operator @ v` is `matrix(X) @ v` without the matrix.

        Time and memory grow as rows times trees, so that eigenvectors or linear systems of large tables are within reach. It
        can be pickled without the forest.

        Parameters
        ----------
        X : table, optional
            Rows of the kernel; the training rows if left out. Columns always are the training rows.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.operator() @ [1.0, 0.0, 0.0]
        array([1. , 0.5, 0. ])

        """
        leaves = None if X is None else self._leaves(X)
        return LeafOperator(self._training, self._index("all", False), leaves)

    def distance(self, X: Any = None, Z: Any = None, *, kind: str = "leaf") -> NDArray[np.float64]:
        """One minus the kernel, as a dense array: never negative, except for kind "inbag", which is not bounded by one.

        It is symmetric where the kernel is (see `KINDS`). Clustering and maps take kinds "leaf" and "path" as a precomputed
        metric; with the other kinds, a row may be at a distance from itself.

        Parameters
        ----------
        X, Z, kind
            As in `matrix`; the decay of kind "path" is one half.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.distance().tolist()
        [[0.0, 0.5, 1.0], [0.5, 0.0, 0.5], [1.0, 0.5, 0.0]]

        """
        out: NDArray[np.float64] = self.matrix(X, Z, kind=kind, dense=True)
        np.subtract(1.0, out, out=out)
        if X is None and Z is None and kind in ("leaf", "path"):
            np.fill_diagonal(out, 0.0)  # shares of trees may not quite add up to one
        return out

    def weights(self, X: Any = None, *, aggregate: str | None = None, fill: str | None = None) -> csr_array:
        """Smoother weights W: before calibration and prior, `predict_proba` is W times the class indicators.

        No weight is negative, and the weights of a row sum to one.

        Parameters
        ----------
        X : table, optional
            Rows of the result; the training rows if left out. Columns are the training rows.
        aggregate : "mean" or "proximity", optional
            How trees are combined, as in `KernelForestClassifier`. If left out, as the forest itself does it: for a
            `KernelForestClassifier` what was chosen, for a forest of scikit-learn "mean", for any other "proximity". A vote
            has no such weights: rounding the shares of a leaf is not linear in the labels.
        fill : "inbag", "all" or "oob", optional
            Who is counted in a leaf. If left out, what was chosen, or "inbag".

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.weights([["new"]]).toarray()
        array([[0.25, 0.5 , 0.25]])

        """
        aggregate, fill = self._training.estimate(aggregate, fill)
        W = self._multiplied(self._leaves(X), self._index(fill, True), aggregate)
        return fill_silent_rows(W, self._training.row_weights)

    def average(
        self, X: Any = None, values: ArrayLike | None = None, *, aggregate: str | None = None, fill: str | None = None
    ) -> NDArray[np.float64]:
        """Weighted averages of any values of the training rows: W times values, without forming W.

        Parameters
        ----------
        X, aggregate, fill
            As in `weights`.
        values : array of shape (n_rows, ...), optional
            A number, or several, for each training row. If left out, the labels: class shares, or means of a regression.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.average([["new"]], [1.0, 2.0, 4.0])
        array([2.25])

        """
        if values is None and not self._training.values.shape[1]:
            raise ValueError("y_train was not given to from_model, so there is nothing to average: give values")
        numbers = self._training.values if values is None else _read_numbers(values)
        if numbers.ndim == 0 or len(numbers) != self.n_rows:
            raise ValueError(f"values must have one row per training row ({self.n_rows}), got shape {numbers.shape}")
        aggregate, fill = self._training.estimate(aggregate, fill)
        table, query = numbers.reshape(self.n_rows, -1), self._training.query(X)
        out, mass = np.zeros((query.n_rows, table.shape[1])), np.zeros(query.n_rows)
        add_values(query, self._index(fill, True), aggregate == "mean", table, out, mass)
        weight = self._training.row_weights
        out[mass == 0] = (weight / weight.sum()) @ table
        mass[mass == 0] = 1.0
        out /= mass[:, None]
        return out.reshape(query.n_rows, *numbers.shape[1:])

    def nearest(self, X: Any = None, k: int = 10, *, kind: str = "leaf") -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k most similar training rows of each row of X, and their similarities.

        Parameters
        ----------
        X : table, optional
            Rows whose neighbours are sought; the training rows if left out, none of which is its own neighbour.
        k : int
            How many. Where fewer are similar at all, the rest is filled up with -1 and 0.
        kind : str
            As in `matrix`, but not "oob" or "path".

        Returns
        -------
        pair of arrays of shape (n_rows, k)
            Numbers of training rows, the most similar first, and their similarities.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.nearest([["new"]], k=2)
        (array([[1, 0]]), array([[1. , 0.5]]))

        """
        check_whole("k", k, 1, self.n_rows - (X is None), "the number of other rows")
        if kind in ("oob", "path"):
            raise ValueError(f"kind={kind!r} has no nearest rows here, being no sum over leaves: sort matrix(kind={kind!r})")
        return nearest_rows(self._plan(X, None, kind), k, X is None)

    def effective_neighbours(
        self, X: Any = None, *, aggregate: str | None = None, fill: str | None = None
    ) -> NDArray[np.float64]:
        """One over the sum of squared weights: how many equally weighted training rows a probability amounts to.

        Parameters
        ----------
        X, aggregate, fill
            As in `weights`.

        Examples
        --------
        >>> kernel = ForestKernel.from_model(([[0, 0], [0, 1], [1, 1]], lambda X: [[0, 1] for _ in X]), None)
        >>> kernel.effective_neighbours([["new"]]).round(2)
        array([2.67])

        """
        aggregate, fill = self._training.estimate(aggregate, fill)
        query, index, weight = self._training.query(X), self._index(fill, True), self._training.row_weights
        squares = np.empty(query.n_rows)
        for rows in blocks_of(query.n_rows, _SQUARED):  # W of many rows may not fit
            squares[rows] = self._multiplied(query.leaves(rows), index, aggregate).power(2).sum(axis=1)
        squares[squares == 0.0] = ((weight / weight.sum()) ** 2).sum()  # no tree has an opinion
        return 1.0 / squares

    def voting_points(self, x0: Any, *, aggregate: str | None = None, fill: str | None = None) -> VotingPoints:
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
        >>> X, y = [[0.0], [0.1], [0.9], [1.0]], ["a", "a", "b", "b"]
        >>> model = KernelForestClassifier.untuned(50, random_state=0).fit(X, y)
        >>> points = model.kernel_.voting_points([0.0], fill="all")
        >>> points.rows[0], points.label[0], points.share[0]
        (np.int64(0), np.str_('a'), np.float64(1.0))

        """
        return voting_points(self, x0, *self._training.estimate(aggregate, fill))

    def explain(
        self, x0: Any, *, label: Any = None, aggregate: str | None = None, fill: str | None = None, mass: float = 0.8
    ) -> Explanation:
        """Say where the estimate at one point comes from, and which training rows would change it if left out.

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point.
        label : optional
            The class whose probability is explained. Without it the second of two classes, the most probable of several.
        aggregate, fill : str
            The estimate, as in `predict_proba`: without both the one that was chosen, calibrated if the forest is.
        mass : float
            Share of the weight that the heaviest rows should hold together.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> X, y = [[0.0], [0.1], [0.9], [1.0]], ["a", "a", "b", "b"]
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit(X, y)
        >>> print(model.kernel_.explain([0.0], label="a"))
        p(a) = 1.00: 2 of 4 training rows hold 80 % of the weight, 2 of them of class a; effective neighbours 2

        """
        meant = aggregate is None and fill is None
        return explain(self, x0, label, *self._training.estimate(aggregate, fill), meant, mass)

    def faces(self, x0: Any) -> shape.Faces:
        """The leaf of one row in each tree as a box, lower < x_j <= upper, and its share in the kernel.

        Only for forests of this package.

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit([[0.0], [1.0]], [0, 1])
        >>> found = model.kernel_.faces([0.0])
        >>> found.lower.shape, bool((found.upper < 1.0).all())
        ((1, 50), True)

        """
        return shape.faces(self._training, x0)

    def profile(self, x0: Any, feature: int | str) -> shape.Profile:
        """The exact step function h -> K(x0 + h e_j, x0) along one numeric feature, of kind "leaf".

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point; its value of the feature must be finite.
        feature : int or str
            Number or name.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
        >>> model.kernel_.profile([1.0], "x0").at([-3.0, 0.0, 2.0])
        array([1., 1., 0.])

        """
        return shape.profile(self._training, x0, feature)

    def derivatives(
        self, x0: Any, h: ArrayLike | None = None, *, kind: str = "leaf", decay: float = 0.5
    ) -> shape.Derivatives:
        """Directional derivatives (K(x0 ± h_j e_j, x0) - K(x0, x0)) / h_j of the kernel at x0, for every feature j.

        NaN for categorical features, for values missing in x0 and, without h, for columns that are constant in training.

        Parameters
        ----------
        x0 : row of numbers, or table
            One row gives arrays of shape (n_features,), a table (n_rows, n_features).
        h : number, or a number or duration per feature, optional
            Steps; 0.2 standard deviations of the training column if left out. Columns of dates and durations are counted in
            microseconds, as everywhere in the kernel; a `timedelta` is turned into them.
        kind : {"leaf", "path"}
            The kernel; "path" only for forests of this package.
        decay : float
            Of kind "path", as in `matrix`.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
        >>> found = model.kernel_.derivatives([1.0], h=2.0)
        >>> found.right, found.left
        (array([-0.5]), array([0.]))

        """
        steps = self._steps if h is None else read_steps(self._training, h)
        return shape.derivatives(self._training, x0, steps, kind, decay)

    def derivative_importance(
        self, X: Any = None, h: ArrayLike | None = None, *, kind: str = "leaf", decay: float = 0.5
    ) -> shape.DerivativeImportance:
        """Mean absolute derivative over rows, both directions averaged, for every feature, with standard errors.

        Parameters
        ----------
        X : table, optional
            Rows to average over; those whose derivative is NaN do not count. If left out, the training rows, or 1,000 of
            them drawn with a fixed seed.
        h, kind, decay
            As in `derivatives`.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> model = KernelForestClassifier.untuned(50, bootstrap=False, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
        >>> model.kernel_.derivative_importance(h=2.0).mean
        array([0.25])

        """
        steps = self._steps if h is None else read_steps(self._training, h)
        return shape.derivative_importance(self._training, X, steps, self._steps, kind, decay)

    def level_sets(self, x0: Any, features: Sequence[int | str], grid: Any = 50) -> shape.LevelSets:
        """The kernel of kind "leaf" between x0 and copies of it with two numeric features replaced, on a grid.

        Parameters
        ----------
        x0 : row of numbers, or table of one row
            The point.
        features : pair of int or str
            Numbers or names.
        grid : int or pair of arrays
            Values of the two features, ascending: numbers, or dates or durations where the feature has such. Or how many,
            evenly over the range of the training columns.

        Examples
        --------
        >>> from kernelforest.estimators import KernelForestClassifier
        >>> X, y = [[i, j] for i in range(3) for j in range(2)], [0, 0, 0, 0, 1, 1]
        >>> model = KernelForestClassifier.untuned(50, max_features="all", bootstrap=False, random_state=0).fit(X, y)
        >>> model.kernel_.level_sets([1, 0], (0, 1), grid=([0.0, 2.0], [0.0, 1.0])).k
        array([[1., 1.],
               [0., 0.]])

        """
        return shape.level_sets(self._training, x0, features, grid)

    @cached_property
    def _steps(self) -> NDArray[np.float64]:
        return default_steps(self._training)

    @cached_property
    def _counts(self) -> NDArray[np.int32]:
        if self._training.draws is None:
            return np.tile(self._training.row_weights > 0, (self.n_trees, 1)).astype(np.int32)
        return self._training.draws()

    def _leaves(self, X: Any) -> NDArray[np.int32]:
        return self._training.query(X).all_leaves()

    def _multiplied(self, leaves: NDArray[np.int32], index: pairs.Index, aggregate: str) -> csr_array:
        """Smoother weights of rows in these leaves; none in a row of which no tree says anything."""
        factors, threads = self._training.factors[None], self._training.threads
        return multiply(leaves, factors, index, aggregate == "mean", True, self.n_rows, np.float64, threads)

    def _index(self, fill: str, weighed: bool) -> pairs.Index:
        """Training rows by leaf, as a fill counts them; the last is kept for calls with few rows, if it is not large."""
        kept = self._kept
        if kept is not None and kept[0] == (fill, weighed):
            return kept[1]
        self._kept = kept = None  # lets go of it before there is another
        training, counts = self._training, None
        if fill != "all":
            counts = self._counts if fill == "inbag" else self._counts == 0
        weight = training.weight if weighed else None
        index = members(training.leaves, training.n_leaves, training.trees, counts, weight)
        if sum(array.nbytes for array in index) <= _KEPT:
            self._kept = (fill, weighed), index
        return index

    def _plan(self, X: Any, Z: Any, kind: str) -> Plan:
        columns = None if Z is None else self._leaves(Z)
        return make_plan(self._training.query(X), X is None, columns, kind, self._index, lambda: self._counts)


def read_kernel(kernel: Any) -> Training:
    """What is known of the forest behind a kernel that a user gives."""
    if not isinstance(kernel, ForestKernel):
        raise TypeError(
            f"kernel must be a ForestKernel, got {type(kernel).__name__}; give the kernel_ of a KernelForestClassifier, or "
            "make one with ForestKernel.from_model"
        )
    return kernel._training


def _read_numbers(values: Any) -> NDArray[np.float64]:
    """Values to be averaged; of labels, dates and complex numbers there are no averages here."""
    law = "values must be numbers, one or several per training row"
    try:
        given = np.asarray(values)
        if given.dtype.kind in "fiubO":  # None is a missing number
            return given.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{law}: {error}") from None
    hint = "; left out, they are the labels" if given.dtype.kind in "UST" else ""
    raise ValueError(f"{law}, got dtype {given.dtype}{hint}")


def _check_dtype(dtype: Any) -> None:
    try:
        is_known = np.dtype(dtype) in (np.float64, np.float32)
    except TypeError:
        is_known = False
    if not is_known:
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}")


def _made(
    cls: type[ForestKernel], weight: ArrayLike | None, n_jobs: int | None, fitted: Any, X_train: Any, y_train: Any
) -> ForestKernel:
    """The kernel of another library's forest; a pickle makes it again, and what there is to warn of was said before."""
    origin = partial(_made, cls, weight, n_jobs), (fitted, X_train, y_train)
    return cls(training_from(fitted, X_train, y_train, weight=weight, n_jobs=n_jobs), origin)


def _made_again(
    make: Callable[..., ForestKernel],
    arguments: tuple[Any, ...],
    aggregate: str,
    fill: str,
    correct: Any,
    digest: str | None,
) -> ForestKernel:
    """What a pickled kernel becomes."""
    changed = "the forest or its rows have changed since the kernel was made: make it again with from_model"
    try:
        kernel = make(*arguments)
    except ValueError as error:
        raise ValueError(f"{changed} ({error})") from error
    if kernel._training.digest() != digest:
        raise ValueError(changed)
    kernel.meant_estimate(aggregate, fill, correct)
    return kernel
