"""Leaf numbers of training rows enter, fills and out-of-bag sums leave: rows are counted into leaves, and leaves speak.

This file calls no jitted function of another file.
"""

import numpy as np
from numba import njit

from kernelforest._engine.layout import MEAN, PROXIMITY

NEAR = 16  # trees whose leaves are read together: what caches hold

# no reference counting and no wrappers, see grow.py
jit = njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)


@jit
def form_opinion(sums, leaf, less, label, aggregate, opinion):
    """A leaf's votes, shares or counts, after taking out one row of weight `less`. An empty leaf has none."""
    n_classes = opinion.shape[0]
    mass, most = 0.0, 0.0
    for c in range(n_classes):
        opinion[c] = sums[leaf, c] - (less if c == label else 0.0)
        mass += opinion[c]
        most = max(most, opinion[c])
    if aggregate == PROXIMITY:
        return
    if mass <= 1e-12 * less or mass <= 0.0:
        opinion[:] = 0.0
    elif aggregate == MEAN:
        for c in range(n_classes):
            opinion[c] /= mass
    else:
        ties = 0
        for c in range(n_classes):
            ties += opinion[c] == most
        for c in range(n_classes):
            opinion[c] = 1.0 / ties if opinion[c] == most else 0.0


@allocating
def normalise(sums, shares):
    """Divide each row by its sum, in place; where that is zero the row becomes `shares`."""
    n_classes = sums.shape[1]
    for i in range(sums.shape[0]):
        total = 0.0
        for c in range(n_classes):
            total += sums[i, c]
        for c in range(n_classes):
            sums[i, c] = sums[i, c] / total if total > 0.0 else shares[c]


@allocating
def add_out_of_bag(leaves, leads, draws, first, sums, aggregate, own, labels, out, n_trees):
    """Add opinions about training rows, from `first` on, over the trees that did not draw them.

    Leaves are numbered through all trees, and lead to those of the cut trees. `own` is what a row put in the fill itself.
    """
    opinion = np.empty(out.shape[1])
    for begin in range(0, leaves.shape[1], NEAR):
        for i in range(leaves.shape[0]):
            for t in range(begin, min(begin + NEAR, leaves.shape[1])):
                if draws[t, first + i] == 0:
                    form_opinion(sums, leads[leaves[i, t]], own[i], labels[i], aggregate, opinion)
                    for c in range(out.shape[1]):
                        out[i, c] += opinion[c]
                    n_trees[i] += 1


@allocating
def fill_leaves(leaves, starts, draws, labels, weight, everyone, honest):
    """Count training rows into the leaves of some trees: all of them, and those the tree did not draw."""
    for t in range(leaves.shape[1]):
        for i in range(leaves.shape[0]):
            at = starts[t, 1] + leaves[i, t]
            everyone[at, labels[i]] += weight[i]
            if draws[t, i] == 0:
                honest[at, labels[i]] += weight[i]
