"""What the kernel looks like around a point: a forest and a row enter; profiles, derivatives and level sets leave.

In our own forests a leaf is a known box, so one walk down each tree gives K(x0 + h e_j, x0) for every feature j and every h.
Of other forests only leaf numbers are known: there, changed copies of the row are sent through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelforest._engine import faces as engine
from kernelforest.compiling import announced_compiling
from kernelforest.counting import read_values
from kernelforest.forest import Forest
from kernelforest.frames import as_table
from kernelforest.kernel.grids import STEP, changed_copies, is_categorical, numeric_feature, read_grid
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.points import as_rows, feature_pair, read_point, read_rows
from kernelforest.kernel.training import Show, Training
from kernelforest.smoothing import choose_rows
from kernelforest.threads import blocks_of, run

MOST_ROWS = 1_000  # of the training rows, over which derivatives are averaged
_BLOCK = 256  # rows per piece of work
_COPIES = 4_000_000  # numbers in one batch of changed copies
_NO_NODES = "kind='path' needs the nodes of the trees, which are only known for forests of this package"


@dataclass(frozen=True, eq=False)
class Faces:
    """The leaf of a row in each tree, as a box: feature j may take the values lower < v <= upper.

    Infinite where nothing bounds it. Categorical features have no faces. In a blend a tree has a box for each leaf size at
    which it is read. The kernel K(x, x0) is the weight of the boxes that hold x.
    """

    lower: NDArray[np.float64]  # (n_features, n_boxes)
    upper: NDArray[np.float64]  # (n_features, n_boxes)
    weight: NDArray[np.float64]  # (n_boxes,) sums to one


@dataclass(frozen=True, eq=False)
class Profile:
    """The step function h -> K(x0 + h e_j, x0) of one feature.

    It has the value k[i] for cuts[i - 1] < x0_j + h <= cuts[i]. Call it with any h. Numbers are those of a matrix: dates are
    in microseconds, large whole numbers are counted from the middle of their column. `start` and `ends` are as in the table.
    """

    feature: str
    x0: float  # value of the feature
    cuts: NDArray[np.float64]  # (n_cuts,) ascending
    k: NDArray[np.float64]  # (n_cuts + 1,) between them
    show: Callable[[NDArray[np.float64]], Any] | None = None  # numbers as the user's table has them; None: as they are

    @property
    def start(self) -> Any:
        """The feature at x0, as the user's table has it: a date of a column of dates."""
        return self._shown(np.array([self.x0]))[0]

    @property
    def ends(self) -> Any:
        """Up to which value each piece but the last reaches, as the user's table has them."""
        return self._shown(self.cuts)

    @property
    def h(self) -> NDArray[np.float64]:
        """Breakpoints: the cuts seen from x0. The function is continuous from the left."""
        return self.cuts - self.x0

    def at(self, h: ArrayLike) -> NDArray[np.float64]:
        """Value at one or many steps h, exactly K of the row with x0_j + h in place of x0_j.

        Along dates and durations a step is a duration, or so many microseconds.

        >>> Profile("age", 40.0, np.array([35.0, 50.0]), np.array([0.2, 1.0, 0.6])).at([-5, 0, 10, 11])
        array([0.2, 1. , 1. , 0.6])
        """
        try:
            steps, kind = read_values(h)
        except (TypeError, ValueError):
            raise ValueError(f"h must be numbers or durations, got {h!r}") from None
        if kind == "M" or np.isnan(steps).any():
            raise ValueError(f"h must be a number or a duration, got {h!r}")
        return self.k[np.searchsorted(self.cuts, self.x0 + steps, side="left")]

    __call__ = at

    def frame(self) -> Any:
        """The pieces from left to right: after which h they begin, up to which they reach, and the value."""
        ends = np.concatenate([[-np.inf], self.h, [np.inf]])
        return as_table({"after": ends[:-1], "upto": ends[1:], "k": self.k})

    def _shown(self, numbers: NDArray[np.float64]) -> Any:
        return numbers if self.show is None else self.show(numbers)


@dataclass(frozen=True, eq=False)
class Derivatives:
    """One-sided differences of the kernel at a row: (K(x0 ± h_j e_j, x0) - K(x0, x0)) / h_j, never positive.

    NaN where a step has no meaning or no length: categorical features, values missing in x0, and, unless h was given,
    features that are constant in training. Where h is too small for a float64 to hold the ratio, it is cut off at -1.8e308.
    """

    names: tuple[str, ...]
    right: NDArray[np.float64]  # (n_features,) or (n_rows, n_features): x0_j + h_j
    left: NDArray[np.float64]  # the same for x0_j - h_j
    h: NDArray[np.float64]  # (n_features,)

    def frame(self) -> Any:
        """One line per feature, or per row and feature."""
        n_rows = self.right.size // len(self.names)
        columns: dict[str, Any] = {} if self.right.ndim == 1 else {"row": np.repeat(np.arange(n_rows), len(self.names))}
        columns["feature"] = np.tile(np.array(self.names, dtype=object), n_rows)
        return as_table(columns | {"right": self.right.ravel(), "left": self.left.ravel(), "h": np.tile(self.h, n_rows)})


@dataclass(frozen=True, eq=False)
class DerivativeImportance:
    """Mean absolute derivative of the kernel over rows, both directions averaged: how narrow it is along each feature.

    A derivative is per unit of its feature. `per_sd` is per standard deviation of the training column, to compare features.
    """

    names: tuple[str, ...]
    mean: NDArray[np.float64]  # (n_features,)
    error: NDArray[np.float64]  # (n_features,) standard error of the mean over rows
    per_sd: NDArray[np.float64]  # (n_features,)
    n_rows: int

    def frame(self) -> Any:
        """One line per feature."""
        names = np.array(self.names, dtype=object)
        return as_table({"feature": names, "mean": self.mean, "error": self.error, "per_sd": self.per_sd})


@dataclass(frozen=True, eq=False)
class LevelSets:
    """The kernel K(z, x0) on a grid, z being x0 with two of its features replaced: k[a, b] belongs to x[a] and y[b].

    Numbers are those of a matrix, as in a `Profile`; the frame has dates as dates.
    """

    x: NDArray[np.float64]  # (n_x,)
    y: NDArray[np.float64]  # (n_y,)
    k: NDArray[np.float64]  # (n_x, n_y)
    x0: NDArray[np.float64]  # (2,) where the row itself is
    names: tuple[str, str]
    show: Callable[[int, NDArray[np.float64]], Any] | None = None  # numbers of either feature as the user's table has them

    def frame(self) -> Any:
        """One line per point of the grid."""
        sides = np.repeat(self.x, len(self.y)), np.tile(self.y, len(self.x))
        x, y = sides if self.show is None else (self.show(side, numbers) for side, numbers in enumerate(sides))
        return as_table({"x": x, "y": y, "k": self.k.ravel()})


def faces(training: Training, x0: Any) -> Faces:
    """Boxes of the leaves of one row, by one walk down each tree."""
    row = read_point(training, x0)[1]
    parts = [(share, faces_of(part, row)) for share, part in _own_forest(training, "faces").parts()]
    lower, upper = (np.hstack([getattr(box, side) for _, box in parts]) for side in ("lower", "upper"))
    return Faces(lower, upper, np.concatenate([share * box.weight for share, box in parts]))


def faces_of(forest: Forest, row: NDArray[np.float64]) -> Faces:
    """The same of a row as the forest reads it, in the trees as they are stored, all of them alike."""
    lower, upper = np.full((2, len(row), forest.n_trees), np.inf)
    np.negative(lower, out=lower)
    with announced_compiling():
        engine.find_faces(row, forest.nodes, forest.sets, forest.starts, lower, upper)
    return Faces(lower, upper, np.full(forest.n_trees, 1.0 / forest.n_trees))


def profile(training: Training, x0: Any, feature: int | str) -> Profile:
    """Exact profile of the kernel along one feature."""
    forest = _own_forest(training, "profile")
    table, row = read_point(training, x0)
    j = numeric_feature(training, table, feature)
    if not np.isfinite(row[j]):
        raise ValueError(f"x0 must have a finite value of feature {training.names[j]!r} to step from, got {row[j]}")
    parts = [(weight, faces_of(part, row)) for weight, part in forest.parts()]
    cuts = np.unique(np.concatenate([face[j] for _, box in parts for face in (box.lower, box.upper)]))
    cuts = cuts[np.isfinite(cuts)]
    before = np.append(-np.inf, cuts)  # a tree holds (before, next] if it was entered and not yet left
    k = np.zeros(len(before))
    for weight, box in parts:
        entered, gone = (np.searchsorted(np.sort(face[j]), before, side="right") for face in (box.lower, box.upper))
        k += weight * (entered - gone) / box.lower.shape[1]
    show = None if training.show is None else partial(training.show, j)
    return Profile(training.names[j], float(row[j]), cuts, np.minimum(k, 1.0), show)  # sums of shares round to a little more


def derivatives(training: Training, x0: Any, h: NDArray[np.float64], kind: str, decay: float) -> Derivatives:
    """Derivatives at one row or many; steps of length NaN give NaN."""
    table, single = as_rows(x0, training.frame)
    changes = _differences(training, table, read_rows(training, table), h, _read_decay(kind, decay))
    right, left = _over(changes, h)
    h = np.where(is_categorical(training, table), np.nan, h)
    return Derivatives(training.names, right[0] if single else right, left[0] if single else left, h)


def derivative_importance(
    training: Training, X: Any, h: NDArray[np.float64], default: NDArray[np.float64], kind: str, decay: float
) -> DerivativeImportance:
    """Average derivatives over rows. Without X, over at most 1,000 training rows, drawn with a fixed seed."""
    if X is None:
        table, matrix = training.rows(choose_rows(len(training.leaves), MOST_ROWS))
    else:
        table = as_rows(X, training.frame)[0]
        matrix = read_rows(training, table)
    size = np.abs(_differences(training, table, matrix, h, _read_decay(kind, decay))).mean(axis=0)
    n_known = (~np.isnan(size)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(size, axis=0) / n_known
        error = np.sqrt(np.nansum((size - mean) ** 2, axis=0) / (n_known - 1.0) / n_known)
    error[n_known < 2] = np.nan
    return DerivativeImportance(training.names, _over(mean, h), _over(error, h), mean * (default / h / STEP), len(size))


def falls(training: Training, x0: Any, h: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the kernel of kind "leaf" falls from one row over a step to either side, (n_features,); NaN without a step."""
    table, row = read_point(training, x0)
    return np.asarray(np.abs(_differences(training, table, row[None], h, None)).sum(axis=0)[0])


def level_sets(training: Training, x0: Any, features: Sequence[int | str], grid: Any) -> LevelSets:
    """The kernel on a grid over two features."""
    pair = feature_pair(training.names, features)
    table, row = read_point(training, x0)
    i, j = (numeric_feature(training, table, feature) for feature in pair)
    x, y = read_grid(training, grid, (i, j))
    if training.forest is not None:
        parts = training.forest.parts()
        k = np.sum([weight * _own_levels(faces_of(part, row), i, j, x, y) for weight, part in parts], axis=0)
        k = np.minimum(k, 1.0)
    else:
        k = _foreign_levels(training, table, row, i, j, x, y)
    show = None if training.show is None else partial(_shown_side, training.show, pair)
    return LevelSets(x, y, k, row[[i, j]], (training.names[i], training.names[j]), show)


def path_matrix(training: Training, X: Any, Z: Any, decay: float) -> NDArray[np.float64]:
    """The path kernel, dense: mean over trees of decay to the power of the steps from leaf to leaf, two for neighbours.

    Trees that are read at several leaf sizes are several trees, each with its weight.
    """
    if training.forest is None:
        raise ValueError(_NO_NODES)
    decay = _check_decay(decay)
    left, right = (training.leaves if table is None else training.route(table) for table in (X, Z))
    shape = len(left), len(right)
    check_room(8 * shape[0] * shape[1], f"a path kernel of {shape[0]} x {shape[1]}", "ask for fewer rows at a time")
    out, tree, leaf = np.zeros(shape), 0, 0
    for weight, forest in training.forest.parts():  # one after another in the columns of leaves
        rows, columns = (side[:, tree : tree + forest.n_trees] - np.int32(leaf) for side in (left, right))
        powers = _powers(forest, decay) * (weight * training.forest.n_trees / forest.n_trees)
        tree, leaf = tree + forest.n_trees, leaf + len(forest.inbag)

        def block(some: slice, trees: Forest = forest, rows: Any = rows, columns: Any = columns, by: Any = powers) -> None:
            engine.path_rows(rows[some], columns, trees.nodes, trees.starts, _most_nodes(trees), by, out[some])

        _in_blocks(block, len(left), training.threads)
    out /= training.forest.n_trees
    return out


def _differences(
    training: Training, table: Any, matrix: NDArray[np.float64], h: NDArray[np.float64], decay: float | None
) -> NDArray[np.float64]:
    """K(x0 ± h_j e_j, x0) - K(x0, x0), (2, rows, features); `table` are the same rows in the form that the forest reads."""
    if training.forest is not None:
        out = _own_differences(training.forest, matrix, h, decay, training.threads)
    elif decay is not None:
        raise ValueError(_NO_NODES)
    else:
        out = _foreign_differences(training, table, matrix, h)
    out += np.where(np.isnan(matrix) | np.isnan(h), np.nan, 0.0)[:, None, :]
    out[:, :, is_categorical(training, table)] = np.nan
    return np.ascontiguousarray(out.swapaxes(0, 1))


def _over(changes: NDArray[np.float64], h: NDArray[np.float64]) -> NDArray[np.float64]:
    """Changes over a step per unit, or the largest number there is."""
    most = np.finfo(np.float64).max
    with np.errstate(over="ignore"):
        return np.clip(changes / h, -most, most)


# ---- our own forests ----


def _own_forest(training: Training, what: str) -> Forest:
    if training.forest is None:
        raise ValueError(
            f"{what} needs the cuts of the trees, which are only known for forests of this package; "
            "derivatives and level_sets work on any forest"
        )
    return training.forest


def _own_differences(
    forest: Forest, matrix: NDArray[np.float64], h: NDArray[np.float64], decay: float | None, threads: int
) -> NDArray[np.float64]:
    """K(x0 ± h_j e_j, x0) - 1, (rows, 2, features), by one walk of each row down each tree."""
    out = np.zeros((len(matrix), 2 * matrix.shape[1]))
    for weight, part in forest.parts():
        lost, powers = np.zeros_like(out), np.empty(0) if decay is None else _powers(part, decay)

        def block(rows: slice, part: Forest = part, by: Any = powers, lost: Any = lost) -> None:
            engine.losses(matrix[rows], h, part.nodes, part.sets, part.starts, _most_nodes(part), by, lost[rows])

        _in_blocks(block, len(matrix), threads)
        out -= weight * lost / part.n_trees
    return out.reshape(*matrix.shape, 2).swapaxes(1, 2)


def _own_levels(box: Faces, i: int, j: int, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of trees whose box holds each point. Each tree adds one to a rectangle, noted at its four corners."""
    left, right = (np.searchsorted(x, face[i], side="right") for face in (box.lower, box.upper))
    bottom, top = (np.searchsorted(y, face[j], side="right") for face in (box.lower, box.upper))
    right, top = np.maximum(left, right), np.maximum(bottom, top)  # where x0 is missing its box may hold no number
    corners = np.zeros((len(x) + 1, len(y) + 1), np.int64)
    for a, b, sign in ((left, bottom, 1), (right, top, 1), (left, top, -1), (right, bottom, -1)):
        np.add.at(corners, (a, b), sign)
    counts = corners.cumsum(axis=0).cumsum(axis=1)[:-1, :-1]
    return np.asarray(counts / box.lower.shape[1])


def _most_nodes(forest: Forest) -> int:
    """Of any tree; no way through one is longer."""
    return int(np.diff(forest.starts[:, 0]).max())


def _powers(forest: Forest, decay: float) -> NDArray[np.float64]:
    """Powers decay ** m, for every number of splits that can lie between two leaves of a tree."""
    return np.float64(decay) ** np.arange(_most_nodes(forest) + 1)


# ---- other forests: changed copies ----


def _foreign_differences(
    training: Training, table: Any, matrix: NDArray[np.float64], h: NDArray[np.float64]
) -> NDArray[np.float64]:
    """K(x0 ± h_j e_j, x0) - K(x0, x0) from leaf numbers, (rows, 2, features); 0 where that is known, or not defined."""
    home = training.route(table)
    moved = ~(np.isnan(matrix) | np.isnan(h) | is_categorical(training, table))
    if training.on_paths is not None:
        moved &= training.on_paths(table)  # a step along another feature leads to the same leaves
    rows, features = np.nonzero(moved)
    out = np.zeros((len(matrix), 2, matrix.shape[1]))
    step = max(1, _COPIES // (matrix.shape[1] + home.shape[1]))
    for side, sign in enumerate((1.0, -1.0)):
        for some in blocks_of(len(rows), step):
            which, at = rows[some], features[some]
            changed = matrix[which]
            changed[np.arange(len(at)), at] += sign * h[at]
            out[which, side, at] = _shares(training, table, which, changed, home[which]) - (home[which] >= 0).mean(axis=1)
    return out


def _foreign_levels(
    training: Training,
    table: Any,
    row: NDArray[np.float64],
    i: int,
    j: int,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> NDArray[np.float64]:
    home = training.route(table)
    k = np.empty(len(x) * len(y))
    step = max(1, _COPIES // (len(row) + home.shape[1]))
    for some in blocks_of(len(k), step):
        points = np.arange(some.start, some.stop)
        changed = np.tile(row, (len(points), 1))
        changed[:, i], changed[:, j] = x[points // len(y)], y[points % len(y)]
        k[points] = _shares(training, table, np.zeros(len(points), np.intp), changed, home)
    return k.reshape(len(x), len(y))


def _shares(
    training: Training, table: Any, which: NDArray[np.intp], changed: NDArray[np.float64], home: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Share of trees in which changed copies of the rows `which` of a table are in the leaf they came from."""
    leaves = training.route(changed_copies(training, table, which, changed))
    return np.asarray(((leaves == home) & (home >= 0)).mean(axis=1))


def _shown_side(show: Show, pair: tuple[int, int], side: int, numbers: NDArray[np.float64]) -> Any:
    """Numbers of one of two features as the user's table has them."""
    return show(pair[side], numbers)


# ---- reading ----


def _read_decay(kind: Any, decay: Any) -> float | None:
    """The decay of kind "path"; None for kind "leaf"."""
    if not isinstance(kind, str) or kind not in ("leaf", "path"):
        raise ValueError(f"kind must be one of ['leaf', 'path'], the kinds with derivatives, got {kind!r}")
    return _check_decay(decay) if kind == "path" else None


def _check_decay(decay: Any) -> float:
    if isinstance(decay, bool) or not isinstance(decay, Real) or not 0.0 <= float(decay) < 1.0:
        raise ValueError(f"decay must be a number in [0, 1), got {decay!r}")
    return float(decay)


def _in_blocks(block: Callable[[slice], None], n_rows: int, threads: int) -> None:
    size = max(1, min(_BLOCK, -(-n_rows // threads)))
    run(block, blocks_of(n_rows, size), threads)
