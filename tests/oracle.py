"""The definitions as loops: slow, and short enough to be checked by reading.

Nothing here uses the engine's arithmetic. A tree is read from the arrays of a `Forest` by the rules in
`_engine/layout.py`; draws are read from `inbag_counts_`; everything else is counted one row at a time.

A class mass is a list with one number per class: the total weight of the rows of that class.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kernelforest._engine.layout import CATEGORICAL, COLUMN, LISTED_LEFT, MISSING_LEFT

AGGREGATES = ("vote", "mean", "proximity")
FILLS = ("inbag", "all", "oob")


# ---- the criterion ----


def class_masses(labels, weights, mask, n_classes) -> list[float]:
    """Total weight of each class among the rows of the mask."""
    masses = [0.0] * n_classes
    for label, weight, inside in zip(labels, weights, mask, strict=True):
        if inside:
            masses[label] += float(weight)
    return masses


def gini(masses) -> float:
    """Chance that two rows drawn by weight are of different classes: 1 - sum of squared shares."""
    total = sum(masses)
    return 1.0 - sum((m / total) ** 2 for m in masses) if total > 0 else 0.0


def decrease(left, right) -> float:
    """Decrease of the Gini impurity by a cut, times the weight of the node."""
    whole = [a + b for a, b in zip(left, right, strict=True)]
    return sum(whole) * gini(whole) - sum(left) * gini(left) - sum(right) * gini(right)


def gini_decrease(labels, weights, left_mask) -> float:
    """Decrease of the Gini impurity when the rows of the mask go left.

    >>> gini_decrease([0, 0, 1, 1], [1, 1, 1, 1], [True, True, False, False])
    2.0
    """
    k = max(labels) + 1
    return decrease(
        class_masses(labels, weights, left_mask, k), class_masses(labels, weights, [not b for b in left_mask], k)
    )


def mse_decrease(labels, weights, left_mask) -> float:
    """Decrease of the squared error of the class indicators around their means, summed over classes.

    >>> mse_decrease([0, 0, 1, 1], [1, 1, 1, 1], [True, True, False, False])
    2.0
    """

    def squared_error(c, rows) -> float:
        weight = sum(float(weights[i]) for i in rows)
        mean = sum(float(weights[i]) for i in rows if labels[i] == c) / weight if weight > 0 else 0.0
        return sum(float(weights[i]) * ((labels[i] == c) - mean) ** 2 for i in rows)

    everyone = range(len(labels))
    left = [i for i in everyone if left_mask[i]]
    right = [i for i in everyone if not left_mask[i]]
    return sum(squared_error(c, everyone) - squared_error(c, left) - squared_error(c, right) for c in range(max(labels) + 1))


class Cut(NamedTuple):
    decrease: float
    left: frozenset  # the values kept left
    missing_left: bool


def masses_by_value(values, labels, weights) -> tuple[dict[float, list[float]], list[float]]:
    """Class masses of each distinct value, ascending, and of the missing rows."""
    k = max(labels) + 1
    groups: dict[float, list[float]] = {float(v): [0.0] * k for v in sorted({v for v in values if not math.isnan(v)})}
    missing = [0.0] * k
    for value, label, weight in zip(values, labels, weights, strict=True):
        (missing if math.isnan(value) else groups[float(value)])[label] += float(weight)
    return groups, missing


def best_of(candidates, groups, missing) -> Cut | None:
    """The largest decrease over sets of values kept left, missing rows on either side; None if nothing can be cut."""
    best = None
    for left in candidates:
        for missing_left in (False, True) if sum(missing) > 0 else (False,):
            kept = [groups[v] for v in left] + ([missing] if missing_left else [])
            sent = [groups[v] for v in groups if v not in left] + ([] if missing_left else [missing])
            if not kept or sum(map(sum, sent)) == 0:
                continue
            gain = decrease([sum(m) for m in zip(*kept, strict=True)], [sum(m) for m in zip(*sent, strict=True)])
            if best is None or gain > best.decrease:
                best = Cut(gain, frozenset(left), missing_left)
    return best


def best_numeric_cut(values, labels, weights) -> Cut | None:
    """Try every cut between distinct values.

    >>> best_numeric_cut([1, 2, 3, 4], [0, 0, 1, 1], [1, 1, 1, 1])
    Cut(decrease=2.0, left=frozenset({1.0, 2.0}), missing_left=False)
    """
    groups, missing = masses_by_value(values, labels, weights)
    order = list(groups)
    if len(order) < 40:
        return best_of((frozenset(order[:i]) for i in range(1, len(order) + 1)), groups, missing)
    return best_numeric_cut_by_moving(groups, missing)


def best_numeric_cut_by_moving(groups, missing) -> Cut | None:
    """The same for long columns: move one value at a time from right to left."""
    best, order = None, list(groups)
    for missing_left in (False, True) if sum(missing) > 0 else (False,):
        left = list(missing) if missing_left else [0.0] * len(missing)
        right = [sum(m) for m in zip(*groups.values(), strict=True)]
        right = right if missing_left else [a + b for a, b in zip(right, missing, strict=True)]
        for i, value in enumerate(order):
            left = [a + b for a, b in zip(left, groups[value], strict=True)]
            right = [a - b for a, b in zip(right, groups[value], strict=True)]
            if i + 1 == len(order) and (missing_left or sum(missing) == 0):
                continue
            gain = decrease(left, right)
            if best is None or gain > best.decrease:
                best = Cut(gain, frozenset(order[: i + 1]), missing_left)
    return best


def best_subset(levels, labels, weights) -> Cut | None:
    """Try all 2^(k-1) - 1 ways to put the levels on two sides; missing rows then on either.

    >>> best_subset([0, 1, 2], [1, 0, 1], [1, 1, 1]).left in ({1.0}, {0.0, 2.0})
    True
    """
    groups, missing = masses_by_value(levels, labels, weights)
    first, *others = groups  # the side of the first level is left: the mirror image is the same cut
    subsets = [
        frozenset((first, *chosen)) for size in range(len(others) + 1) for chosen in itertools.combinations(others, size)
    ]
    return best_of(subsets, groups, missing)


# ---- trees ----


class Split(NamedTuple):
    """An inner node as a statistician would say it."""

    feature: int
    threshold: float | None  # numeric: x <= threshold goes left
    listed: tuple[int, ...] | None  # categorical: these levels go left, or right
    listed_left: bool
    missing_left: bool
    left: int  # numbers of the children in the tree
    right: int

    def sends_left(self, row) -> bool:
        x = row[self.feature]
        if math.isnan(x):
            return self.missing_left
        if self.listed is not None:
            return (int(x) in self.listed) == self.listed_left
        return x <= self.threshold


def split_of(forest, tree: int, node: int) -> Split | None:
    """Read one node; None if it is a leaf."""
    record = forest.nodes[forest.starts[tree, 0] + node]
    bits = int(record["feature"])
    if bits < 0:
        return None
    child = int(record["child"])
    threshold, listed = float(record["threshold"]), None
    if bits & CATEGORICAL:
        at = int(forest.starts[tree, 2]) + int(threshold)
        count = int(forest.sets[at])
        threshold, listed = None, tuple(int(v) for v in forest.sets[at + 1 : at + 1 + count])
    return Split(bits & COLUMN, threshold, listed, bool(bits & LISTED_LEFT), bool(bits & MISSING_LEFT), child, child + 1)


def size_of(forest, tree: int, node: int) -> int:
    """In-bag draws in a node, as the forest noted them."""
    return int(forest.sizes[forest.starts[tree, 0] + node])


def path(forest, tree: int, row) -> list[int]:
    """The nodes a row passes, root first, leaf last."""
    nodes = [0]
    while (split := split_of(forest, tree, nodes[-1])) is not None:
        nodes.append(split.left if split.sends_left(row) else split.right)
    return nodes


def leaf_of(forest, tree: int, row) -> int:
    """Number of the leaf, among the leaves of the tree, that a row reaches."""
    return int(forest.nodes[forest.starts[tree, 0] + path(forest, tree, row)[-1]]["child"])


def leaves_of(forest, matrix) -> list[list[int]]:
    """Leaf of every row in every tree."""
    return [[leaf_of(forest, tree, row) for tree in range(forest.n_trees)] for row in matrix]


def members(forest, tree: int, matrix) -> dict[int, list[int]]:
    """The rows that pass each node."""
    rows: dict[int, list[int]] = {}
    for i, row in enumerate(matrix):
        for node in path(forest, tree, row):
            rows.setdefault(node, []).append(i)
    return rows


def walk_together(big, small, tree: int) -> Iterator[tuple[int, int, int]]:
    """Pairs of nodes at the same place in two trees, with their depth, down to where the small tree ends."""
    stack = [(0, 0, 0)]
    while stack:
        a, b, depth = stack.pop()
        yield a, b, depth
        one, two = split_of(big, tree, a), split_of(small, tree, b)
        if one is not None and two is not None:
            stack += [(one.left, two.left, depth + 1), (one.right, two.right, depth + 1)]


# ---- fills and estimates ----


def count_in(fill: str, draws: int, weight: float) -> float:
    """What a training row puts in its leaf of a tree that drew it this often."""
    if fill == "inbag":
        return draws * weight
    if fill == "all":
        return weight
    return weight if draws == 0 else 0.0


def fill_leaves(fill, leaves, labels, weights, draws, n_classes) -> dict[tuple[int, int], list[float]]:
    """Class masses of every (tree, leaf) that any training row reaches; `leaves` and `draws` are (rows, trees)."""
    filled: dict[tuple[int, int], list[float]] = {}
    for i, label in enumerate(labels):
        for tree, leaf in enumerate(leaves[i]):
            masses = filled.setdefault((tree, leaf), [0.0] * n_classes)
            masses[label] += count_in(fill, int(draws[i][tree]), float(weights[i]))
    return filled


def opinion(masses: Sequence[float], aggregate: str) -> list[float]:
    """What one tree contributes: a vote (split among ties), its shares, or its counts; an empty leaf, nothing."""
    total, most = sum(masses), max(masses)
    if total <= 0:
        return [0.0] * len(masses)
    if aggregate == "vote":
        winners = [m == most for m in masses]
        return [won / sum(winners) for won in winners]
    if aggregate == "mean":
        return [m / total for m in masses]
    return list(masses)


def class_shares(labels, weights, n_classes) -> list[float]:
    masses = class_masses(labels, weights, [True] * len(labels), n_classes)
    return [m / sum(masses) for m in masses]


def combine(opinions: list[list[float]], shares: Sequence[float]) -> list[float]:
    """Add the opinions of trees and divide by their sum; without any, the class shares of the data."""
    sums = [sum(o[c] for o in opinions) for c in range(len(shares))]
    return [s / sum(sums) for s in sums] if sum(sums) > 0 else list(shares)


def probabilities(forest, matrix, training, draws, aggregate, fill) -> np.ndarray:
    """Class probabilities of the rows of `matrix`; `training` is (matrix, labels, weights, n_classes)."""
    rows, labels, weights, n_classes = training
    filled = fill_leaves(fill, leaves_of(forest, rows), labels, weights, draws, n_classes)
    shares = class_shares(labels, weights, n_classes)
    empty = [0.0] * n_classes
    return np.array(
        [
            combine([opinion(filled.get((t, leaf), empty), aggregate) for t, leaf in enumerate(leaves)], shares)
            for leaves in leaves_of(forest, matrix)
        ]
    )


def out_of_bag_probabilities(forest, training, draws, aggregate, fill) -> np.ndarray:
    """Probabilities of the training rows from the trees that did not draw them, each row taken out of the fill."""
    shares = class_shares(*training[1:])
    opinions = out_of_bag_opinions(forest, training, draws, aggregate, fill)
    return np.array([combine(mine, shares) for mine in opinions])


def out_of_bag_opinions(forest, training, draws, aggregate, fill) -> list:
    """What those trees say about each training row."""
    rows, labels, weights, n_classes = training
    leaves = leaves_of(forest, rows)
    filled = fill_leaves(fill, leaves, labels, weights, draws, n_classes)
    out = []
    for i, label in enumerate(labels):
        opinions = []
        for tree, leaf in enumerate(leaves[i]):
            if draws[i][tree] == 0:
                masses = list(filled[tree, leaf])
                masses[label] -= count_in(fill, 0, float(weights[i]))
                opinions.append(opinion(masses, aggregate))
        out.append(opinions)
    return out


# ---- bandwidth ----


def end_of(forest, tree: int, row, leaf_size: int) -> int:
    """The node in which a row ends when nodes of at most this many draws are not split."""
    nodes = path(forest, tree, row)
    return next((node for node in nodes if size_of(forest, tree, node) <= leaf_size), nodes[-1])


def out_of_bag_under(forest, leaf_size, training, draws, aggregate, fill) -> np.ndarray:
    """Out-of-bag probabilities of a deep forest whose trees are cut off at this leaf size."""
    cut = [(tree, leaf_size, 1.0) for tree in range(forest.n_trees)]
    return out_of_bag_blend(forest, training, draws, aggregate, fill, cut)


def readings_of(forest) -> list[tuple[int, int, float]]:
    """Tree, leaf size and weight of everything that has a say."""
    return [(tree, r.leaf_size, r.weight) for r in forest.readings for tree in range(r.first, r.stop)]


def fill_ends(forest, tree, leaf_size, training, draws, fill) -> tuple[list[int], dict[int, list[float]]]:
    """Where the training rows end in a tree that is cut off at this leaf size, and what that holds."""
    rows, labels, weights, n_classes = training
    ends = [end_of(forest, tree, row, leaf_size) for row in rows]
    column = [[int(times[tree])] for times in draws]
    filled = fill_leaves(fill, [[end] for end in ends], labels, weights, column, n_classes)
    return ends, {end: masses for (_, end), masses in filled.items()}


def blend(forest, matrix, training, draws, aggregate, fill) -> np.ndarray:
    """Probabilities from trees that are read at several leaf sizes, each with its weight."""
    _, labels, weights, n_classes = training
    opinions: list[list[list[float]]] = [[] for _ in matrix]
    for tree, size, factor in readings_of(forest):
        _, filled = fill_ends(forest, tree, size, training, draws, fill)
        for i, row in enumerate(matrix):
            said = opinion(filled.get(end_of(forest, tree, row, size), [0.0] * n_classes), aggregate)
            opinions[i].append([factor * share for share in said])
    shares = class_shares(labels, weights, n_classes)
    return np.array([combine(said, shares) for said in opinions])


def out_of_bag_blend(forest, training, draws, aggregate, fill, readings=None) -> np.ndarray:
    """The same for training rows, from the trees that did not draw them, each row taken out of the fill."""
    _, labels, weights, n_classes = training
    opinions: list[list[list[float]]] = [[] for _ in labels]
    for tree, size, factor in readings or readings_of(forest):
        ends, filled = fill_ends(forest, tree, size, training, draws, fill)
        for i, label in enumerate(labels):
            if draws[i][tree] == 0:
                masses = list(filled[ends[i]])
                masses[label] -= count_in(fill, 0, float(weights[i]))
                opinions[i].append([factor * share for share in opinion(masses, aggregate)])
    shares = class_shares(labels, weights, n_classes)
    return np.array([combine(said, shares) for said in opinions])


def sigmoid_of(scores, hits, weights, ridge: float) -> np.ndarray:
    """Chances of a hit by the slope >= 0 and shift of scores with the least log loss, held near one and zero."""

    def chance(line, z) -> float:
        return 1.0 / (1.0 + math.exp(-min(700.0, max(-700.0, line[0] * z + line[1]))))

    def loss(line) -> float:
        total = ridge / 2 * ((line[0] - 1.0) ** 2 + line[1] ** 2)
        for z, hit, weight in zip(scores, hits, weights, strict=True):
            q = chance(line, z)
            total -= weight * math.log(max(1e-300, q if hit else 1.0 - q))
        return total

    line = minimize(loss, [1.0, 0.0], method="L-BFGS-B", bounds=[(0.0, None), (None, None)], options={"ftol": 1e-14}).x
    return np.array([chance(line, z) for z in scores])


def sharpened(p, hits, weights, floor: float, ridge: float) -> list[np.ndarray]:
    """Chances after a sigmoid of their log odds, and after one of 4p - 2; candidates are scored by the better of the two."""
    odds = [math.log(max(floor, q)) - math.log(max(floor, 1.0 - q)) for q in p]
    return [sigmoid_of(scores, hits, weights, ridge) for scores in (odds, [4.0 * q - 2.0 for q in p])]


# ---- small tables with ties, gaps and levels ----


class Table(NamedTuple):
    """A table in which the levels of a categorical column are 0, 1, 2, ... and all occur."""

    X: np.ndarray
    y: np.ndarray
    categorical: list[int]

    def training(self, weights, n_classes):
        return self.X, self.y.tolist(), weights, n_classes

    def as_seen(self, rows) -> np.ndarray:
        """New rows as the forest must read them: a level that training did not have is missing."""
        out = np.array(rows)
        for j in self.categorical:
            out[~np.isin(out[:, j], self.X[:, j]), j] = np.nan
        return out


def draw_table(seed: int, n: int, kinds: Sequence[str], n_classes: int, grid: int = 12) -> Table:
    """A random table whose first column carries signal; values lie on a grid so that ties are common.

    A kind is "numeric", "missing" (numbers with gaps), "categorical" or "levels-missing" (levels with gaps).
    """
    rng = np.random.default_rng(seed)
    X = np.empty((n, len(kinds)))
    for j, kind in enumerate(kinds):
        if kind in ("numeric", "missing"):
            X[:, j] = rng.integers(0, grid, n) / 4.0 - 1.0
        else:
            X[:, j] = np.unique(rng.integers(0, max(2, min(grid, 6)), n), return_inverse=True)[1]
        if kind in ("missing", "levels-missing"):
            gaps = rng.random(n) < 0.3
            gaps[np.unique(X[:, j], return_index=True)[1]] = False  # every level stays
            X[gaps, j] = np.nan
    signal = np.nan_to_num(X[:, 0], nan=1.0)
    ranks = np.argsort(np.argsort(signal + rng.normal(0, 1.0, n)))
    y = (ranks * n_classes) // n
    y[: min(n, n_classes)] = np.arange(min(n, n_classes))
    return Table(X, y, [j for j, kind in enumerate(kinds) if kind in ("categorical", "levels-missing")])


def effective_number(weight, labels, groups=None):
    """Variance of labels minus shares of one row, by that of their weighted mean; fewer in groups, as by Kish."""
    share = [sum(w for w, y in zip(weight, labels, strict=True) if y == c) / sum(weight) for c in range(max(labels) + 1)]

    def away(y):
        return sum(((c == y) - s) ** 2 for c, s in enumerate(share))

    even = sum(s * away(c) for c, s in enumerate(share))
    noise = sum((w / sum(weight)) ** 2 * away(y) for w, y in zip(weight, labels, strict=True))
    groups = range(len(weight)) if groups is None else groups
    sums = {g: sum(w for w, h in zip(weight, groups, strict=True) if h == g) for g in groups}
    return even / noise * sum(w**2 for w in weight) / sum(s**2 for s in sums.values())
