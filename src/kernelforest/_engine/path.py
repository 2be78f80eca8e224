"""The bandwidth path: one deep forest enters; out-of-bag sums of every leaf size, fill and aggregate leave.

The tree of a larger leaf size is the deep tree, cut off at the first node of at most that many draws. So the node in which a
row ends under leaf size s is found by climbing from its deep leaf as long as the parent has at most s draws; larger sizes
only climb further:

    root 500 - 230 - 90 - 31 - 8 - 3 - 1     draws along the path of one row
         s = 1: 1    s = 10: 8    s = 100: 90

Fills are counted into every node, not only into leaves. An out-of-bag row takes itself out of the fills that count it.

This file calls no jitted function of another file (see grow.py).
"""

import numpy as np
from numba import njit

from kernelforest._engine.layout import MEAN, VOTE

INBAG = 0  # the fills are numbered inbag, all, oob
RIDGE = 0.1  # precision of the prior of slope and shift around one and zero: decides only where rows do not
MANY = 10  # classes, beyond which a sigmoid is one slope
TOLERANCE = 5e-3  # of slope and shift; a score changes by less than its square

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
    """Count the training rows into every node of one tree: in-bag, all, out-of-bag."""
    for leaf in range(starts[tree, 1], starts[tree + 1, 1]):
        for c in range(inbag.shape[1]):
            fills[leaf_nodes[leaf], INBAG, c] = inbag[leaf, c]
    for i in range(labels.shape[0]):
        node = leaf_nodes[starts[tree, 1] + leaves[i, tree]]
        fills[node, 1, labels[i]] += weight[i]
        if draws[tree, i] == 0:
            fills[node, 2, labels[i]] += weight[i]
    for node in range(starts[tree + 1, 0] - 1, starts[tree, 0], -1):  # children come after their parent
        for f in range(fills.shape[1]):
            for c in range(fills.shape[2]):
                fills[parents[node], f, c] += fills[node, f, c]


@jit
def form_opinions(fills, own, label, aggregates, opinion):
    """What a node says about a row of weight `own`, under every aggregate and fill: (aggregates, fills, classes), flat.

    That is its counts, its shares or its vote; an empty node says nothing.
    """
    n_fills, n_classes = fills.shape
    for f in range(n_fills):
        less = 0.0 if f == INBAG else own
        total, most = 0.0, 0.0
        for c in range(n_classes):
            count = max(0.0, fills[f, c] - less) if c == label else fills[f, c]
            total += count
            most = max(most, count)
        for a in range(aggregates.shape[0]):
            at, unit = (a * n_fills + f) * n_classes, 1.0
            if aggregates[a] == MEAN and total > 0.0:
                unit = 1.0 / total
            for c in range(n_classes):
                opinion[at + c] = unit * (max(0.0, fills[f, c] - less) if c == label else fills[f, c])
            if aggregates[a] == VOTE and total > 0.0:
                ties = 0
                for c in range(n_classes):
                    ties += opinion[at + c] == most
                for c in range(n_classes):
                    opinion[at + c] = (opinion[at + c] == most) / ties


@allocating
def add_path(rows, starts, sizes, parents, leaf_nodes, fills, leaves, draws, labels, weight, grid, aggregates, steps):
    """Add opinions about some rows over the trees that did not draw them, (rows, leaf sizes, opinions).

    Noted is by how much an opinion changes from one leaf size to the next: mostly it does not.
    """
    opinion, last = np.empty(steps.shape[2]), np.empty(steps.shape[2])
    for i in range(rows.shape[0]):
        row = rows[i]
        for t in range(leaves.shape[1]):
            if draws[t, row] != 0:
                continue
            node, told = leaf_nodes[starts[t, 1] + leaves[row, t]], -1
            for k in range(last.shape[0]):
                last[k] = 0.0
            for s in range(grid.shape[0]):
                while parents[node] >= 0 and sizes[parents[node]] <= grid[s]:
                    node = parents[node]
                if node != told:
                    form_opinions(fills[node], weight[row], labels[row], aggregates, opinion)
                    for k in range(opinion.shape[0]):
                        steps[i, s, k] += opinion[k] - last[k]
                        last[k] = opinion[k]
                    told = node


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
def sharpen_two(logit, labels, weight, slope, shift):
    """Slope and shift of the log odds with the least log loss, by Newton's method; a weak prior keeps them finite."""
    for _ in range(50):
        ga, gb = RIDGE * shift, RIDGE * (slope - 1.0)
        haa, hab, hbb = RIDGE, 0.0, RIDGE
        for i in range(logit.shape[0]):
            q = 1.0 / (1.0 + np.exp(-(shift + slope * logit[i])))
            rest, v = weight[i] * (q - labels[i]), weight[i] * q * (1.0 - q)
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
def scale_row(x, slope, shift, q):
    """The class probabilities of one row after scaling its logarithms."""
    top = -np.inf
    for c in range(x.shape[0]):
        q[c] = slope * x[c] + shift[c]
        top = max(top, q[c])
    total = 0.0
    for c in range(x.shape[0]):
        q[c] = np.exp(q[c] - top)
        total += q[c]
    for c in range(x.shape[0]):
        q[c] /= total


@jit
def solve(h, g):
    """Solve h x = g for a positive definite h, in place: g becomes x, h its Cholesky factor."""
    n = g.shape[0]
    for i in range(n):
        for j in range(i + 1):
            rest = h[i, j]
            for k in range(j):
                rest -= h[i, k] * h[j, k]
            h[i, j] = np.sqrt(rest) if i == j else rest / h[j, j]
    for i in range(n):
        for k in range(i):
            g[i] -= h[i, k] * g[k]
        g[i] /= h[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            g[i] -= h[k, i] * g[k]
        g[i] /= h[i, i]


@jit
def differentiate(x, labels, weight, params, q, g, h):
    """Gradient of the log loss by the slope and the shifts, and the lower half of its second derivative."""
    n_classes = x.shape[1]
    for a in range(n_classes + 1):
        g[a] = RIDGE * (params[a] - (a == 0))
        for b in range(a + 1):
            h[a, b] = RIDGE * (a == b)
    for i in range(x.shape[0]):
        scale_row(x[i], params[0], params[1:], q)
        mean, square = 0.0, 0.0
        for c in range(n_classes):
            mean += q[c] * x[i, c]
            square += q[c] * x[i, c] * x[i, c]
        g[0] += weight[i] * (mean - x[i, labels[i]])
        h[0, 0] += weight[i] * (square - mean * mean)
        for c in range(n_classes):
            v = weight[i] * q[c]
            g[c + 1] += v - weight[i] * (labels[i] == c)
            h[c + 1, 0] += v * (x[i, c] - mean)
            h[c + 1, c + 1] += v
            for d in range(c + 1):
                h[c + 1, d + 1] -= v * q[d]


@jit
def sharpen_many(x, labels, weight, params, q, room):
    """The same for several classes: `params` are the slope and a shift for each."""
    n = params.shape[0]
    g, h = room[n], room[:n]
    for _ in range(50):
        differentiate(x, labels, weight, params, q, g, h)
        solve(h, g)
        if params[0] - g[0] < 0.0:  # the slope stops at zero, and the shifts take their best steps given that
            differentiate(x, labels, weight, params, q, g, h)
            for a in range(1, n):
                g[a] -= h[a, 0] * params[0]
                h[a, 0] = 0.0
            g[0], h[0, 0] = params[0], 1.0
            solve(h, g)
        most = 0.0
        for a in range(n):
            most = max(most, abs(g[a]))
        pace = 1.0 if most <= 1.0 else 1.0 / most
        for a in range(n):
            params[a] -= pace * g[a]
        params[0] = max(0.0, params[0])
        if most < TOLERANCE:
            break


@jit
def sharpen_slope(x, labels, weight, slope, shift, q):
    """The slope alone with the least log loss: of many classes, shifts would take as long as all the rest."""
    for _ in range(50):
        g, h = RIDGE * (slope - 1.0), RIDGE
        for i in range(x.shape[0]):
            scale_row(x[i], slope, shift, q)
            mean, square = 0.0, 0.0
            for c in range(x.shape[1]):
                mean += q[c] * x[i, c]
                square += q[c] * x[i, c] * x[i, c]
            g += weight[i] * (mean - x[i, labels[i]])
            h += weight[i] * (square - mean * mean)
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
def sharpened_two(proba, linear, labels, weight, floor, squared, logit, start, losses):
    """Fit a sigmoid to the probabilities of two classes and note the loss of every row after it.

    `start` has the slope and shift to begin with, and then those that were found. A sigmoid sees the logarithms of
    probabilities, or twice themselves (see calibration.py).
    """
    for i in range(logit.shape[0]):
        no, yes = proba[i, 0], proba[i, 1]
        logit[i] = 2.0 * (yes - no) if linear else np.log(max(floor, yes) / max(floor, no))
    slope, shift = sharpen_two(logit, labels, weight, start[0], start[1])
    start[0], start[1] = slope, shift
    for i in range(logit.shape[0]):
        q = 1.0 / (1.0 + np.exp(-(shift + slope * logit[i])))
        miss = 1.0 - q if labels[i] == 1 else q
        losses[i] = miss * miss if squared else -np.log(max(floor, 1.0 - miss))


@jit
def sharpened_many(proba, labels, weight, floor, squared, start, spare, losses):
    """The same for several classes, by logarithms only; `start` has the slope and the shifts. Of many, these stay zero."""
    x, q, room = spare
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            x[i, c] = np.log(max(floor, proba[i, c]))
    if x.shape[1] > MANY:
        start[0] = sharpen_slope(x, labels, weight, start[0], start[1:], q)
    else:
        sharpen_many(x, labels, weight, start, q, room)
    for i in range(x.shape[0]):
        scale_row(x[i], start[0], start[1:], q)
        losses[i] = row_loss(q, labels[i], floor, squared)


@allocating
def score_candidates(proba, labels, weight, floor, sharpened, squared, many, losses):
    """Loss of every row under every candidate, (candidates, rows); if asked for, after a sigmoid.

    Of two classes it is the better of two sigmoids. That of a candidate is sought from that of the one before: neighbours
    should be alike. `many` is room for a square of one number more than there are classes, and a line of it; or None where
    there are two classes: then their way is not compiled.
    """
    n_candidates, n_rows, n_classes = proba.shape
    logit, mine = np.empty(n_rows), np.empty(n_rows)
    starts = np.zeros((2, 1 + n_classes))
    starts[:, 0] = 1.0
    for k in range(n_candidates):
        least = np.inf
        for scale in range(2 if sharpened and many is None else 1):
            how = labels, weight, floor, squared
            if not sharpened:
                for i in range(n_rows):
                    mine[i] = row_loss(proba[k, i], labels[i], floor, squared)
            elif many is None:
                sharpened_two(proba[k], scale == 1, *how, logit, starts[scale], mine)
            else:
                spare = np.empty((n_rows, n_classes)), np.empty(n_classes), many
                sharpened_many(proba[k], *how, starts[0], spare, mine)
            total = 0.0
            for i in range(n_rows):
                total += weight[i] * mine[i]
            if total < least:
                least = total
                for i in range(n_rows):
                    losses[k, i] = mine[i]
