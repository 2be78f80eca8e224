"""What a kernel has to know about a fitted forest and the rows that grew it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.binning import decode
from kernelforest.checks import check_choice
from kernelforest.forest import FILLS, Forest, Reading
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.queries import CutBack, Query, Send, at_all_sizes, rows_at_once, take_rows

Show = Callable[[int, NDArray[np.float64]], NDArray[Any]]  # numbers of a column as the user's table has them
Count = Callable[[int, Any], NDArray[np.float64]]  # and the other way round


def shown_columns(matrix: NDArray[np.float64], show: Show | None) -> list[NDArray[Any]]:
    """The columns of a matrix as the user's table has them."""
    return [numbers if show is None else show(j, numbers) for j, numbers in enumerate(matrix.T)]


@dataclass(frozen=True)
class Correction:
    """What is done to averages after they are taken."""

    calibrate: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None  # of the estimate that is meant only
    refer: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None  # to another population

    def __call__(self, proba: NDArray[np.float64], meant: bool) -> NDArray[np.float64]:
        """Corrected probabilities, (n_rows, n_classes), as `predict_proba` gives them."""
        if meant and self.calibrate is not None:
            proba = self.calibrate(proba)
        return proba if self.refer is None else self.refer(proba)

    def words(self, meant: bool) -> str:
        """What that is called."""
        calibrated = ["calibrated"] if meant and self.calibrate is not None else []
        return ", ".join(calibrated + (["for the prior"] if self.refer is not None else []))


@dataclass(frozen=True, eq=False)
class Training:
    """What a kernel has to know about the forest it comes from and the rows that grew it."""

    leaves: NDArray[np.int32]  # (n_rows, n_columns) numbered through all of them: a column for each tree and reading of it
    n_leaves: int
    route: Callable[[Any], NDArray[np.int32]]  # leaves of new rows, -1 where training knows no such leaf
    draws: Callable[[], NDArray[np.int32]] | None  # (n_trees, n_rows), or None if every tree grew on all rows
    weight: NDArray[np.float64] | None
    values: NDArray[np.float64]  # (n_rows, n_outputs): class indicators, or what a regression predicts
    matrix: Callable[..., NDArray[np.float64]]  # the training table as numbers, (n_rows, n_features), or some rows of it
    names: tuple[str, ...]  # of the features
    classes: NDArray[Any] | None = None  # labels of the columns of `values`, if they are classes
    read: Callable[[Any], NDArray[np.float64]] | None = None  # a user's table as numbers, if that is not trivial
    forest: Forest | None = None  # set if it is one of ours: then cuts and boxes are known exactly
    threads: int = 1
    aggregate: str = "proximity"  # the estimate that is meant when none is named: what the forest itself predicts
    fill: str = "inbag"
    correct: Correction | None = None  # calibration of that estimate and prior, if any
    readings: tuple[Reading, ...] = ()  # which trees are in the columns; none: each tree is in one, as it was grown
    show: Show | None = None
    count: Count | None = None
    frame: Any = None  # the training table of another library's forest, if it is a data frame: only that has its categories
    cuts: tuple[CutBack, ...] = ()  # one for each of the readings
    open: Callable[[Any], tuple[int, Send]] | None = None  # reads a table once, so that its rows can be sent by blocks
    on_paths: Callable[[Any], NDArray[np.bool_]] | None = None  # which features trees ask for on the way of a row
    differs: tuple[str, ...] = ()  # why the forest predicts something else than the estimate that is meant
    sparse: Any = None  # the training table, if it is sparse: all of `matrix` may not fit

    def rows(self, which: NDArray[np.intp]) -> tuple[Any, NDArray[np.float64]]:
        """Some training rows, in the form that the forest reads and as numbers."""
        matrix = self.matrix(which)
        return (matrix if self.frame is None else take_rows(self.frame, which)), matrix

    def some(self, which: NDArray[np.intp]) -> Any:
        """Some training rows as numbers, of a sparse table as a sparse one."""
        return self.matrix(which) if self.sparse is None else self.sparse.tocsr()[which]

    def query(self, X: Any) -> Query:
        """The rows of a table, or those of training, to be sent through the forest."""
        if X is None:
            return Query(self, len(self.leaves), self.leaves.__getitem__, self.leaves)
        if self.open is not None:
            return Query(self, *self.open(X))
        n_rows = len(X) if isinstance(X, list | tuple) else X.shape[0] if len(getattr(X, "shape", ())) == 2 else 0
        if n_rows <= rows_at_once(self.leaves.shape[1]):  # or not known
            leaves = self.route(X)
            return Query(self, len(leaves), leaves.__getitem__, leaves)
        table = X.tocsr() if hasattr(X, "tocsr") else X  # other sparse tables have no rows to take

        def send(rows: slice) -> NDArray[np.int32]:
            leaves = self.route(table.iloc[rows] if hasattr(table, "iloc") else table[rows])  # a function may use the index
            if len(leaves) != rows.stop - rows.start:
                raise ValueError(f"X must have a row for each row of leaves, got {rows.stop - rows.start} and {len(leaves)}")
            return leaves

        return Query(self, n_rows, send)

    @cached_property
    def trees(self) -> NDArray[np.int64]:
        """The tree of each column of leaves."""
        spans = [np.arange(r.first, r.stop) for r in self.readings]
        return np.concatenate(spans) if spans else np.arange(self.leaves.shape[1])

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return int(self.trees.max()) + 1

    @cached_property
    def factors(self) -> NDArray[np.float64]:
        """What each column of leaves counts: one for a tree in all, on average."""
        weights = [np.full(r.stop - r.first, r.weight) for r in self.readings]
        return np.concatenate(weights) if weights else np.ones(self.leaves.shape[1])

    @property
    def tree_weights(self) -> NDArray[np.float64]:
        """What each tree counts in all its columns."""
        return np.bincount(self.trees, self.factors).astype(np.float64)

    @property
    def n_classes(self) -> int:
        """Number of classes; one where there are none, because all rows are alike."""
        return 1 if self.classes is None else len(self.classes)

    @property
    def class_numbers(self) -> NDArray[np.intp]:
        """The class of each row, (n_rows,); all the same where there are no classes."""
        return np.zeros(len(self.leaves), np.intp) if self.classes is None else self.values.argmax(axis=1)

    @property
    def row_weights(self) -> NDArray[np.float64]:
        """What each row counts in a leaf, (n_rows,)."""
        return np.ones(len(self.leaves)) if self.weight is None else self.weight

    def digest(self) -> str | None:
        """What tells leaves, draws, labels and weights from others; None for our own: they are pickled themselves."""
        if self.forest is not None:
            return None
        draws = [] if self.draws is None else [self.draws()]
        found = blake2b(digest_size=16)
        for array in (self.leaves, self.values, self.row_weights, *draws):
            found.update(np.ascontiguousarray(array).data)
        return found.hexdigest()

    def estimate(self, aggregate: str | None, fill: str | None) -> tuple[str, str]:
        """Check an estimate that is linear in the labels; what is not named is what the forest itself predicts with."""
        aggregate = self.aggregate if aggregate is None else aggregate
        fill = self.fill if fill is None else fill
        if aggregate == "vote":
            raise ValueError(
                "aggregate='vote' has no weights: a vote rounds the shares of a leaf, which is not linear in labels; "
                "give aggregate='mean' or 'proximity'"
            )
        check_choice("aggregate", aggregate, ("mean", "proximity"))
        check_choice("fill", fill, FILLS)
        if fill == "oob" and self.draws is None:
            raise ValueError("fill='oob' needs rows that a tree did not draw; every tree was grown on all rows")
        return aggregate, fill


def training_of(
    forest: Forest,
    read: Callable[[Any], NDArray[np.floating]],
    names: tuple[str, ...],
    classes: NDArray[Any],
    threads: int = 1,
    show: Show | None = None,
    count: Count | None = None,
) -> Training:
    """Describe one of our own forests; `read` turns a user's table into the matrix it was grown on.

    `show` turns a column of that back, and `count` values of a column into what the matrix has.
    """
    cut = list(forest.cuts()) if forest.readings else []
    firsts = np.cumsum([0, *(trees.n_leaves for _, trees in cut)])
    n_leaves, n_columns = int(firsts[-1]) if cut else len(forest.inbag), sum(r.stop - r.first for r in forest.all_readings)
    if max(n_leaves, len(forest.nodes)) >= 2**31:
        raise MemoryError("the trees have more nodes, or leaves, than can be numbered: grow fewer, or smaller, trees")
    instead = "grow fewer trees, or on fewer rows"
    size = 4 * forest.n_rows * (n_columns + (forest.n_trees if cut else 0))  # as grown, and at all sizes
    check_room(size, f"leaves of {forest.n_rows:,} rows in {n_columns:,} trees", instead)
    offsets = forest.starts[:-1, 1].astype(np.int32)
    cuts = tuple(
        CutBack(slice(r.first, r.stop), forest.leaves_of(r), trees.leads + np.int32(first), r.weight)
        for (r, trees), first in zip(cut, firsts[:-1], strict=True)
    )

    def numbered(leaves: NDArray[np.int32]) -> NDArray[np.int32]:
        """Number leaves through all trees."""
        leaves += offsets
        return leaves

    def open_table(X: Any) -> tuple[int, Send]:
        matrix = read(X)
        return len(matrix), lambda rows: numbered(forest.leaves(matrix[rows], threads))

    weight = forest.targets.weight
    return Training(
        leaves=at_all_sizes(cuts, numbered(forest.training_leaves(0, forest.n_trees, threads))),
        n_leaves=n_leaves,
        route=lambda X: at_all_sizes(cuts, numbered(forest.leaves(read(X), threads))),
        draws=forest.draws if forest.has_out_of_bag else None,
        weight=None if (weight == 1.0).all() else weight,
        values=np.eye(forest.targets.n_classes)[forest.targets.labels],
        matrix=lambda rows=slice(None): decode(forest.columns, rows),
        names=names,
        classes=classes,
        read=lambda X: np.asarray(read(X), dtype=np.float64),
        forest=forest,
        threads=threads,
        readings=forest.readings,
        show=show,
        count=count,
        cuts=cuts,
        open=open_table,
    )
