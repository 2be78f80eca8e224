"""The shapes that the engine's files share: one node record, and NamedTuples of arrays. Nothing here is compiled."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VOTE, MEAN, PROXIMITY = 0, 1, 2  # aggregates
MISSING = 65535  # the code of a missing value
MOST_CODES = 65535  # so a column has at most this many others

NODE = np.dtype([("threshold", "<f8"), ("child", "<i4"), ("feature", "<i4")])
# 16 bytes. feature < 0: a leaf, and child is its number among the leaves of the tree. Otherwise child is the left
# child and the right one follows it; the bits of `feature` above the column number are
CATEGORICAL = 1 << 30  # threshold is a position in `sets`: a count, then the listed levels in ascending order
MISSING_LEFT = 1 << 29  # missing values go left
LISTED_LEFT = 1 << 28  # listed levels go left and all others right, not the reverse
COLUMN = (1 << 28) - 1


class Columns(NamedTuple):
    """The training table as codes, with the values behind them."""

    codes: NDArray[np.uint16]  # (n_features, n_rows)
    kinds: NDArray[np.uint8]  # (n_features,) 1: categorical, 2: has missing values, 3: both
    offsets: NDArray[np.int64]  # (n_features + 1,) where the codes of a feature begin in the three arrays below
    lows: NDArray[np.float64]  # smallest value with this code
    highs: NDArray[np.float64]  # largest value with this code
    spots: NDArray[np.float64]  # finite stand-in for highs: uniform cuts are drawn between these
    order: NDArray[np.int32]  # (n_features,) features sorted by content: what is drawn does not depend on their position
    exact: NDArray[np.float64] = np.empty((0, 0))  # (n_merged, n_rows) values of columns in which several share a code


class Targets(NamedTuple):
    """Labels, and the weights under which trees are grown and leaves are filled."""

    labels: NDArray[np.int32]  # (n_rows,)
    mass: NDArray[np.float64]  # (n_rows,) weight of a row in the criterion
    weight: NDArray[np.float64]  # (n_rows,) weight of a row in a leaf
    drawable: NDArray[np.int32]  # rows of positive weight, ascending; or the groups that have any
    n_classes: int
    groups: NDArray[np.int32] | None = None  # (n_rows,) rows of a group are drawn together; -1: it has no weight
    largest_group: int = 1  # its rows

    @property
    def shares(self) -> NDArray[np.float64]:
        """The share of each class in the weight of all rows."""
        mass = np.bincount(self.labels, self.weight, self.n_classes)
        return np.asarray(mass / mass.sum())


class Limits(NamedTuple):
    """The rules of growth, resolved to numbers."""

    mtry: int
    most_drawn: int  # features drawn for a node at the most, until mtry of them vary in it
    leaf_size: int
    max_depth: int
    max_leaves: int
    splitter: int
    n_draws: int
    replace: bool

    def leaves_rows_out(self, n_drawable: int) -> bool:
        """Whether a tree may leave out some of the rows that can be drawn."""
        return self.replace or self.n_draws < n_drawable

    def share_left_out(self, n_drawable: int) -> float:
        """The share of trees that leave out a given row."""
        return float((1.0 - 1.0 / n_drawable) ** self.n_draws if self.replace else 1.0 - self.n_draws / n_drawable)


class Trees(NamedTuple):
    """A batch of grown trees, one after another."""

    nodes: NDArray[np.void]  # NODE records
    sizes: NDArray[np.int32]  # in-bag draws in each node
    sums: NDArray[np.float64]  # (n_leaves * n_classes,) in-bag weight of each class
    sets: NDArray[np.uint16]  # listed levels of the categorical cuts
    counts: NDArray[np.int64]  # (n_trees, 3) nodes, leaves and set entries of each tree
    gains: NDArray[np.float64]  # (n_trees, n_features) total decrease of impurity


class Cut(NamedTuple):
    """A way to split a node; feature < 0 means none."""

    gain: float
    feature: int
    code: int  # numeric: the last code kept left. categorical: how many levels are listed
    threshold: float  # numeric, when the cut was drawn between values
    missing_left: bool


class Node(NamedTuple):
    """An open node: a segment of the rows, its totals and its key."""

    start: int
    end: int
    total: int  # packed draws
    key: np.uint64


class Shape(NamedTuple):
    """Where the three fields of a router's word lie: child, column, cut, from the top down."""

    child: np.uint64  # shifts
    column: np.uint64
    column_mask: np.uint64
    cut_mask: np.uint64


class Router(NamedTuple):
    """A finished forest in the form in which rows are sent down it. Node, leaf and set numbers are relative to their tree.

    A word holds the left child, or the node itself if it is a leaf; which of the used columns is compared; and the last code
    kept left, or a position in `sets`.
    """

    words: NDArray[np.uint64]  # (n_nodes,)
    extras: NDArray[np.uint32]  # (n_nodes,) flags of a node, number of a leaf
    shape: Shape
    sets: NDArray[np.uint16]
    starts: NDArray[np.int64]  # (n_trees + 1, 3) where the nodes, leaves and set entries of a tree begin
    used: NDArray[np.int64]  # features that any tree cuts
    categorical: NDArray[np.bool_]  # (n_used,)
    offsets: NDArray[np.int64]  # (n_used + 1,) where the cuts of a used column begin
    cuts: NDArray[np.float64]  # distinct thresholds of each used column, ascending
    grid: NDArray[np.float64]  # (n_used, 2) where the equal cells of a column begin, and how many there are per unit
    cells: NDArray[np.uint32]  # (n_used, n_cells) cuts in the cells before this one
    fullest: NDArray[np.int64]  # (n_used,) most cuts in a cell
    most_nodes: int  # nodes of the largest tree
