"""The bandwidth path: one deep forest enters; out-of-bag sums of every leaf size, fill and aggregate leave.

The tree of a larger leaf size is the deep tree, cut off at the first node of at most that many draws. So the node in which a
row ends under leaf size s is found by climbing from its deep leaf as long as the parent has at most s draws; larger sizes
only climb further:

    root 500 - 230 - 90 - 31 - 8 - 3 - 1     draws along the path of one row
         s = 1: 1    s = 10: 8    s = 100: 90

At which of the sizes a node takes over from the one below is the same for all its rows, so it is noted once (`link_ends`).

Fills are counted into every node, not only into leaves. An out-of-bag row takes itself out of the fills that count it.

This file calls no jitted function of another file (see grow.py).
"""

from math import factorial

import numpy as np
from numba import njit

from kernelforest._engine.layout import MEAN, VOTE

INBAG = 0  # the fills are numbered inbag, all, oob
RIDGE = 0.1  # precision of the prior of slope and shift around one and zero: decides only where rows do not
TOLERANCE = 5e-3  # of slope and shift; a score changes by less than its square
A2, A3, A4, A5, A6, A7, A8 = (1.0 / factorial(k) for k in range(2, 9))

# no reference counting and no wrappers, see grow.py
jit = njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)


@allocating
def link_nodes(feature, child, starts, parents, leaf_nodes):
    """Note the parent of every node and the node of every leaf, both numbered through all trees; a root has parent -1."""
    for t in range(starts.shape[0] - 1):
        first = starts[t, 0]
        parents[first] = -1
        for i in range(first, starts[t + 1, 0]):
            if feature[i] < 0:
                leaf_nodes[starts[t, 1] + child[i]] = i
            else:
                parents[first + child[i]] = i
                parents[first + child[i] + 1] = i


@allocating
def cut_trees(parents, sizes, leaf_nodes, size, ends, numbers, leads):
    """Number the leaves of the trees in which nodes of at most `size` draws are leaves, in the order of the leaves in them.

    Notes for every node where its rows end, itself or an ancestor; the number of every such end, -1 for other nodes; and for
    every leaf the number of its end. Returns how many ends there are.
    """
    found = 0
    for i in range(parents.shape[0]):
        above = parents[i]
        ends[i] = ends[above] if above >= 0 and sizes[above] <= size else i
        numbers[i] = -1
    for leaf in range(leaf_nodes.shape[0]):
        end = ends[leaf_nodes[leaf]]
        if numbers[end] < 0:
            numbers[end] = found
            found += 1
        leads[leaf] = numbers[end]
    return found


@allocating
def fill_nodes(tree, starts, inbag, leaves, draws, labels, weight, parents, leaf_nodes, fills):
    """Count the training rows into every node of one tree: in-bag, all, out-of-bag; by class, and then in all."""
    n_classes = inbag.shape[1]
    for leaf in range(starts[tree, 1], starts[tree + 1, 1]):
        for c in range(n_classes):
            fills[leaf_nodes[leaf], INBAG, c] = inbag[leaf, c]
            fills[leaf_nodes[leaf], INBAG, n_classes] += inbag[leaf, c]
    for i in range(labels.shape[0]):
        node = leaf_nodes[starts[tree, 1] + leaves[i, tree]]
        for f in range(1, 3 if draws[tree, i] == 0 else 2):
            fills[node, f, labels[i]] += weight[i]
            fills[node, f, n_classes] += weight[i]
    for node in range(starts[tree + 1, 0] - 1, starts[tree, 0], -1):  # children come after their parent
        for f in range(fills.shape[1]):
            for c in range(fills.shape[2]):
                fills[parents[node], f, c] += fills[node, f, c]


@jit
def form_opinions(fills, own, label, aggregates, opinion):
    """What a node says about a row of weight `own`, under every aggregate and fill: (aggregates, fills, classes), flat.

    That is its counts, its shares or its vote; an empty node says nothing.
    """
    n_fills, n_classes = fills.shape[0], fills.shape[1] - 1
    for f in range(n_fills):
        count = fills[f, label] if f == INBAG else max(0.0, fills[f, label] - own)
        total = fills[f, n_classes] - (fills[f, label] - count)
        for a in range(aggregates.shape[0]):
            at, unit = (a * n_fills + f) * n_classes, 1.0
            if aggregates[a] == MEAN and total > 0.0:
                unit = 1.0 / total
            counts, mine = fills[f], opinion[at : at + n_classes]  # not by opinion[at + c]: that is no loop over vectors
            for c in range(n_classes):
                mine[c] = unit * counts[c]
            mine[label] = unit * count
            if aggregates[a] == VOTE and total > 0.0:
                most, ties = 0.0, 0
                for c in range(n_classes):
                    most = max(most, mine[c])
                for c in range(n_classes):
                    ties += mine[c] == most
                for c in range(n_classes):
                    mine[c] = (mine[c] == most) / ties


@jit
def form_two(fills, own, label, opinion):
    """The same for two classes and the aggregates mean and proximity, which are most of the work there is."""
    for f in range(3):
        no, yes, total = fills[f, 0], fills[f, 1], fills[f, 2]
        if f != INBAG:
            taken = min(own, yes if label == 1 else no)
            no, yes, total = no - taken * (label == 0), yes - taken * (label == 1), total - taken
        unit = 1.0 / total if total > 0.0 else 1.0
        opinion[2 * f], opinion[2 * f + 1] = unit * no, unit * yes
        opinion[6 + 2 * f], opinion[7 + 2 * f] = no, yes


@allocating
def link_ends(parents, sizes, leaf_nodes, grid, begins, above, entries):
    """Note where rows end as the leaf size grows: sizes of the grid are numbered from 0.

    For every node, the number of the first size at which its rows may end in it, and the node they end in next, -1 if there
    is none. For every leaf, the node in which its rows end under the smallest size.
    """
    n_sizes, tops = grid.shape[0], np.empty(parents.shape[0], np.int32)  # the highest node that begins with this one
    for i in range(parents.shape[0]):  # parents come before their children
        parent, s = parents[i], 0
        while s < n_sizes and grid[s] < sizes[i]:
            s += 1
        begins[i], above[i], tops[i] = s, -1, i
        if parent >= 0 and begins[parent] < n_sizes:
            above[i] = tops[parent]
            if begins[parent] == s:
                tops[i] = tops[parent]
    for leaf in range(leaf_nodes.shape[0]):
        node = leaf_nodes[leaf]
        entries[leaf] = tops[node] if begins[node] == 0 else node


@allocating
def add_path(first, stop, rows, starts, begins, above, entries, fills, leaves, draws, labels, weight, aggregates, steps):
    """Add opinions about some rows over those of the trees first .. stop-1 that did not draw them.

    They go to steps, (rows, leaf sizes, opinions). Noted is by how much an opinion changes from one leaf size to the next:
    mostly it does not. `aggregates` is None for mean and proximity of two classes.
    """
    opinion, last = np.empty(steps.shape[2], np.float32), np.empty(steps.shape[2], np.float32)
    for i in range(rows.shape[0]):
        row = rows[i]
        for t in range(first, stop):
            if draws[t, row] != 0:
                continue
            node, s = entries[starts[t, 1] + leaves[row, t]], 0
            last[:] = 0.0
            while True:
                if aggregates is None:
                    form_two(fills[node], weight[row], labels[row], opinion)
                else:
                    form_opinions(fills[node], weight[row], labels[row], aggregates, opinion)
                for k in range(opinion.shape[0]):
                    steps[i, s, k] += opinion[k] - last[k]
                    last[k] = opinion[k]
                node = above[node]
                if node < 0:
                    break
                s = begins[node]


@allocating
def read_path(steps, kinds, places, shares, proba, mass):
    """Turn opinions into probabilities, (kinds, leaf sizes, rows, classes), for some kinds and leaf sizes.

    A kind is an aggregate and a fill. `places` has the place of every leaf size in the result, or -1. Where nothing was said
    a probability is the class share. `mass` is what opinions about a row add up to, on average over the rows.
    """
    n_rows, n_sizes, n_classes = steps.shape[0], steps.shape[1], shares.shape[0]
    sums = np.empty(n_classes)
    mass[:] = 0.0
    for i in range(n_rows):
        for k in range(kinds.shape[0]):
            sums[:] = 0.0
            for s in range(n_sizes):
                total, at = 0.0, places[s]
                for c in range(n_classes):
                    sums[c] += steps[i, s, kinds[k] * n_classes + c]
                    total += max(0.0, sums[c])
                if at < 0:
                    continue
                mass[k, at] += total / n_rows
                for c in range(n_classes):
                    proba[k, at, i, c] = max(0.0, sums[c]) / total if total > 0.0 else shares[c]


@jit
def exp_below(z):
    """The exponential of a number that is not positive, to nine digits above e^-16: loops over this become vectors."""
    r = max(z, -64.0) / 64.0
    e = 1.0 + r * (1.0 + r * (A2 + r * (A3 + r * (A4 + r * (A5 + r * (A6 + r * (A7 + r * A8)))))))
    e *= e
    e *= e
    e *= e
    e *= e
    e *= e
    return e * e


@jit
def sigmoid(logit, slope, shift, out):
    """The probability of every row after a sigmoid; this loop becomes one over vectors."""
    for i in range(logit.shape[0]):
        z = shift + slope * logit[i]
        e = exp_below(-abs(z))
        out[i] = (1.0 if z >= 0.0 else e) / (1.0 + e)


@jit
def sharpen_two(logit, labels, weight, slope, shift, q):
    """Slope and shift of the log odds with the least log loss, by Newton's method; a weak prior keeps them finite."""
    for _ in range(50):
        ga, gb = RIDGE * shift, RIDGE * (slope - 1.0)
        haa, hab, hbb = RIDGE, 0.0, RIDGE
        sigmoid(logit, slope, shift, q)
        for i in range(logit.shape[0]):
            rest, v = weight[i] * (q[i] - labels[i]), weight[i] * q[i] * (1.0 - q[i])
            ga += rest
            gb += rest * logit[i]
            haa += v
            hab += v * logit[i]
            hbb += v * logit[i] * logit[i]
        det = haa * hbb - hab * hab
        a, b = (hbb * ga - hab * gb) / det, (haa * gb - hab * ga) / det
        if slope - b < 0.0:  # the slope stops at zero, and the shift takes its best step given that
            b = slope
            a = (ga - hab * b) / haa
        most = max(abs(a), abs(b))
        pace = 1.0 if most <= 1.0 else 1.0 / most
        shift, slope = shift - pace * a, max(0.0, slope - pace * b)
        if most < TOLERANCE:
            break
    return slope, shift


@jit
def sharpen_many(x, anchors, labels, weight, slope, sums):
    """The slope of x, to which anchors are added, with the least log loss of several classes."""
    total, mean, square = sums[0], sums[1], sums[2]  # unpacked, they would not be known to be contiguous
    for _ in range(50):
        total[:], mean[:], square[:] = 0.0, 0.0, 0.0
        for c in range(x.shape[0]):
            for i in range(labels.shape[0]):
                e = exp_below(slope * x[c, i] + anchors[c])
                total[i] += e
                mean[i] += e * x[c, i]
                square[i] += e * x[c, i] * x[c, i]
        g, h = RIDGE * (slope - 1.0), RIDGE
        for i in range(labels.shape[0]):
            expected = mean[i] / total[i]
            g += weight[i] * (expected - x[labels[i], i])
            h += weight[i] * (square[i] / total[i] - expected * expected)
        step = min(slope, max(-1.0, min(1.0, g / h)))
        slope -= step
        if abs(step) < TOLERANCE:
            break
    return slope


@jit
def row_loss(q, label, floor, squared):
    """The log loss or Brier score of one row."""
    if not squared:
        return -np.log(max(floor, q[label]))
    square = 1.0 - 2.0 * q[label]
    for c in range(q.shape[0]):
        square += q[c] * q[c]
    return square * (0.5 if q.shape[0] == 2 else 1.0)


@jit
def sharpened_two(proba, linear, labels, weight, floor, squared, logit, q, start, losses):
    """Fit a sigmoid to the probabilities of two classes and note the loss of every row after it.

    `start` has the slope and shift to begin with, and then those that were found. A sigmoid sees the logarithms of
    probabilities, or twice themselves (see calibration.py).
    """
    for i in range(logit.shape[0]):
        no, yes = proba[i, 0], proba[i, 1]
        logit[i] = 2.0 * (yes - no) if linear else np.log(max(floor, yes) / max(floor, no))
    slope, shift = sharpen_two(logit, labels, weight, start[0], start[1], q)
    start[0], start[1] = slope, shift
    sigmoid(logit, slope, shift, q)
    for i in range(logit.shape[0]):
        miss = 1.0 - q[i] if labels[i] == 1 else q[i]
        losses[i] = miss * miss if squared else -np.log(max(floor, 1.0 - miss))


@jit
def sharpened_many(proba, labels, weight, floor, squared, start, anchors, room, losses):
    """The same for several classes, by logarithms only, with one slope for all: shifts are slow to find and gain nothing.

    Scaled are the logarithms of p / share: at slope zero, probabilities are the class shares, whose logarithms are the
    anchors. `room` has a line for each class, and three more, of a number for each row, or longer.
    """
    n_rows, n_classes = proba.shape
    x, sums = room[:n_classes], room[n_classes:]
    for i in range(n_rows):
        top = -np.inf
        for c in range(n_classes):
            x[c, i] = np.log(max(floor, proba[i, c])) - anchors[c]
            top = max(top, x[c, i])
        for c in range(n_classes):
            x[c, i] -= top
    start[0] = sharpen_many(x, anchors, labels, weight, start[0], sums)
    total, square = sums[0], sums[1]
    total[:], square[:] = 0.0, 0.0
    for c in range(n_classes):
        for i in range(n_rows):
            e = exp_below(start[0] * x[c, i] + anchors[c])
            total[i] += e
            square[i] += e * e
    for i in range(n_rows):
        own = start[0] * x[labels[i], i] + anchors[labels[i]] - np.log(total[i])
        losses[i] = 1.0 - 2.0 * np.exp(own) + square[i] / total[i] ** 2 if squared else -max(np.log(floor), own)


@allocating
def score_candidates(proba, labels, weight, floor, sharpened, squared, shares, losses):
    """Loss of every row under every candidate, (candidates, rows); if asked for, after a sigmoid.

    Of two classes it is the better of two sigmoids. That of a candidate is sought from that of the one before: neighbours
    should be alike. `shares` are those of the classes, or None if there are two: then the way of more is not compiled.
    """
    n_candidates, n_rows, n_classes = proba.shape
    logit, q, mine = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
    starts = np.zeros((2, 2))
    starts[:, 0] = 1.0
    if shares is not None:
        room = np.empty((n_classes + 3, n_rows + 8))  # lines of powers of two would push each other out of fast memory
        anchors = np.log(np.maximum(shares, floor))
    for k in range(n_candidates):
        least = np.inf
        for scale in range(2 if sharpened and shares is None else 1):
            how = labels, weight, floor, squared
            if not sharpened:
                for i in range(n_rows):
                    mine[i] = row_loss(proba[k, i], labels[i], floor, squared)
            elif shares is None:
                sharpened_two(proba[k], scale == 1, *how, logit, q, starts[scale], mine)
            else:
                sharpened_many(proba[k], *how, starts[0], anchors, room, mine)
            total = 0.0
            for i in range(n_rows):
                total += weight[i] * mine[i]
            if scale == 0 or total < least:
                least = total
                for i in range(n_rows):
                    losses[k, i] = mine[i]
