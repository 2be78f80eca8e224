"""Send rows down finished trees: to leaf numbers, to sums over leaves, to new fills.

Rows enter as a float64 matrix: numbers as they are, NaN for missing, levels of categorical columns as their code. This
file calls no jitted function of another file. Sums run over trees in order for every row on its own, so results do not
depend on how rows are cut into blocks or spread over threads.
"""

import numpy as np
from numba import njit

from kernelforest._engine.layout import CATEGORICAL, COLUMN, LISTED_LEFT, MISSING_LEFT

VOTE, MEAN, PROXIMITY = 0, 1, 2
ABREAST = 8  # rows that walk together, so that one waits for memory while the others move

jit = njit(nogil=True, cache=True, error_model="numpy")


@jit
def is_listed(sets, at, level):
    """Whether a level is in the ascending list that begins at `at` with its length."""
    lo, hi = at + 1, at + 1 + sets[at]
    while lo < hi:
        middle = (lo + hi) >> 1
        if sets[middle] < level:
            lo = middle + 1
        else:
            hi = middle
    return lo < at + 1 + sets[at] and sets[lo] == level


@jit
def walk(z, first, stop, flat, tree, at):
    """Leaf numbers of the rows first .. stop-1 (at most ABREAST of them) in one tree, left in `at`."""
    feature, child, threshold = flat.feature, flat.child, flat.threshold
    root = flat.starts[tree, 0]
    for k in range(stop - first):
        at[k] = root
    walking = True
    while walking:
        walking = False
        for k in range(stop - first):
            f = feature[at[k]]
            if f < 0:
                continue
            walking = True
            x = z[first + k, f & COLUMN]
            if f & CATEGORICAL and x == x:
                listed = is_listed(flat.sets, flat.starts[tree, 2] + np.int64(threshold[at[k]]), x)
                right = listed != ((f & LISTED_LEFT) != 0)
            else:
                right = (x > threshold[at[k]]) or (x != x and (f & MISSING_LEFT) == 0)
            at[k] = root + child[at[k]] + right
    for k in range(stop - first):
        at[k] = child[at[k]]


@jit
def leaf_numbers(z, flat, out):
    """Leaf number of every row in every tree."""
    at = np.empty(ABREAST, np.int64)
    for tree in range(flat.starts.shape[0] - 1):
        for first in range(0, z.shape[0], ABREAST):
            stop = min(first + ABREAST, z.shape[0])
            walk(z, first, stop, flat, tree, at)
            for k in range(stop - first):
                out[first + k, tree] = at[k]


@jit
def add_leaf(sums, at, less, label, aggregate, out):
    """Add one leaf's opinion to `out`: its votes, its shares, or its counts, after taking out one row of weight `less`."""
    n_classes = out.shape[0]
    if aggregate == PROXIMITY:
        for c in range(n_classes):
            out[c] += sums[at, c]
        if less > 0.0:
            out[label] -= less
        return
    mass, most = 0.0, 0.0
    for c in range(n_classes):
        s = sums[at, c] - (less if c == label else 0.0)
        mass += s
        most = max(most, s)
    if mass <= 1e-12 * less or mass <= 0.0:
        return  # an empty leaf has no opinion
    if aggregate == MEAN:
        for c in range(n_classes):
            out[c] += (sums[at, c] - (less if c == label else 0.0)) / mass
        return
    ties = 0
    for c in range(n_classes):
        ties += sums[at, c] - (less if c == label else 0.0) == most
    for c in range(n_classes):
        if sums[at, c] - (less if c == label else 0.0) == most:
            out[c] += 1.0 / ties


@jit
def add_leaves(z, flat, sums, aggregate, out):
    """Sum the leaves' opinions over trees for every row."""
    at = np.empty(ABREAST, np.int64)
    for tree in range(flat.starts.shape[0] - 1):
        base = flat.starts[tree, 1]
        for first in range(0, z.shape[0], ABREAST):
            stop = min(first + ABREAST, z.shape[0])
            walk(z, first, stop, flat, tree, at)
            for k in range(stop - first):
                add_leaf(sums, base + at[k], 0.0, 0, aggregate, out[first + k])


@jit
def add_leaves_out_of_bag(leaves, first_tree, draws, flat, sums, aggregate, own, labels, out, n_trees):
    """The same for training rows, over the trees that did not draw them; `own` is what a row put into the fill itself."""
    for i in range(leaves.shape[0]):
        for t in range(leaves.shape[1]):
            if draws[t, i] == 0:
                at = flat.starts[first_tree + t, 1] + leaves[i, t]
                add_leaf(sums, at, own[i], labels[i], aggregate, out[i])
                n_trees[i] += 1


@jit
def fill_tree(leaves, base, draws, labels, weight, everyone, honest):
    """Count training rows into the leaves of one tree: all of them, and those it did not draw."""
    for i in range(leaves.shape[0]):
        at = base + leaves[i]
        everyone[at, labels[i]] += weight[i]
        if draws[i] == 0:
            honest[at, labels[i]] += weight[i]
