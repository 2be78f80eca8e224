"""The bags of scikit-learn's trees: rows that were drawn enter; how often, and whether the trees counted the same, leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int32] | None  # (n_trees, n_rows); None: every tree grew on all rows
Weights = NDArray[np.float64] | None
_ASKED = 3  # trees, whether labels are those they were grown with


def count_draws(samples: Sequence[NDArray[Any]], n_draws: int | None, n_rows: int) -> Counts:
    """How often each tree drew each row; `n_draws` is how many it must have drawn, None if any number."""
    if n_draws not in (None, n_rows):
        raise ValueError(f"X_train has {n_rows} rows, but the forest was fitted on {n_draws}")
    last = max(int(drawn.max()) for drawn in samples)
    if last >= n_rows:
        raise ValueError(f"X_train has {n_rows} rows, but the forest was fitted on at least {last + 1}")
    counts = np.empty((len(samples), n_rows), np.int32)
    for t, drawn in enumerate(samples):
        counts[t] = np.bincount(drawn, minlength=n_rows)
    return None if (counts == 1).all() else counts


def check_leaf_counts(
    trees: Sequence[Any], leaves: NDArray[Any], counts: Counts, weight: Weights, repeats: bool = False
) -> None:
    """A tree knows how many rows of positive weight grew a leaf, different ones unless it `repeats`; others reach others."""
    for t, tree in enumerate(each.tree_ for each in trees):
        drawn = np.ones(len(leaves), np.int64) if counts is None else counts[t] if repeats else counts[t] > 0
        wanted = _of_leaves(tree, tree.n_node_samples)
        found = np.bincount(leaves[:, t], drawn, tree.node_count).astype(np.int64)
        weighed = found if weight is None else np.bincount(leaves[:, t], drawn * (weight > 0), tree.node_count)
        if np.array_equal(found, wanted) or np.array_equal(weighed, wanted):
            continue
        bad = int((found != wanted).argmax())
        raise ValueError(
            f"X_train is not the table this forest was fitted on: {found[bad]} of the rows that tree {t} drew reach its "
            f"node {bad}, but it grew on {wanted[bad]} there (rows that had no weight in the fit need weight=0 here)"
        )


def weighs_alike(trees: Sequence[Any], leaves: NDArray[Any], counts: Counts, weight: Weights) -> bool:
    """A tree also knows what the rows of a leaf weighed: whether that is draws times weights, up to a factor."""
    for t, tree in enumerate(each.tree_ for each in trees):
        wanted = _of_leaves(tree, tree.weighted_n_node_samples)
        found = np.bincount(leaves[:, t], _masses(len(leaves), counts, weight, t), tree.node_count)
        shares = found * wanted.sum(), wanted * found.sum()
        if not np.allclose(*shares, rtol=1e-6, atol=1e-9 * shares[1].max()):
            return False
    return True


def says_alike(
    trees: Sequence[Any], leaves: NDArray[Any], counts: Counts, weight: Weights, values: NDArray[np.float64]
) -> bool:
    """A tree also knows what its leaves say, class shares or numbers: whether these labels do. A few trees are asked."""
    for t, tree in enumerate(each.tree_ for each in trees[:_ASKED]):
        own = _masses(len(leaves), counts, weight, t)
        total = np.bincount(leaves[:, t], own, tree.node_count)
        held = total > 0
        wanted = tree.value.reshape(tree.node_count, -1)
        if wanted.shape[1] != values.shape[1]:
            return True  # trees of other classes than the forest: these are not compared
        if tree.n_classes[0] > 1:
            wanted = wanted / wanted.sum(axis=1, keepdims=True)  # scikit-learn before 1.3 has counts
        found = np.column_stack([np.bincount(leaves[:, t], own * column, tree.node_count) for column in values.T])
        if not np.allclose(found[held] / total[held, None], wanted[held], rtol=1e-6, atol=1e-6 * np.abs(wanted).max()):
            return False
    return True


def _masses(n_rows: int, counts: Counts, weight: Weights, tree: int) -> NDArray[np.float64]:
    """What rows weighed when a tree was grown: draws times weights."""
    mass = np.ones(n_rows) if weight is None else weight
    return mass if counts is None else mass * counts[tree]


def _of_leaves(tree: Any, per_node: NDArray[Any]) -> NDArray[Any]:
    return np.where(tree.children_left >= 0, 0, per_node)
