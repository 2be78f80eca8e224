"""What trees look like around a point: the faces of its leaves, what a step off the point loses, splits between two leaves.

A leaf is a box. Every numeric cut on the way of x bounds it on one side:

    x_j <= threshold: went left,  the threshold is an upper face     the value v of feature j stays in the leaf
    x_j >  threshold: went right, the threshold is a lower face      exactly while lower < v <= upper

The way from one leaf to another goes up to the last node they share and down again. Rows that share node v with a query, but
not the child c on the query's way, are those below the other child of v; sorted by leaf in depth-first order they are a
segment:

    columns  [ . . . | c c c | o o | . . ]     v spans c and o: for all of o the way has the same top

Node, leaf and set numbers are relative to their tree; a child has a larger number than its parent. This file calls no jitted
function of another file. Functions that do not allocate are compiled without reference counting; see grow.py.
"""

import numpy as np
from numba import njit

from kernelforest._engine.layout import CATEGORICAL, COLUMN, LISTED_LEFT, MISSING_LEFT

U = np.uint64
ONE = U(1)

jit = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)
allocating = njit(nogil=True, cache=True, error_model="numpy")


@jit
def is_listed(sets, at, level):
    """Whether a level is in the ascending list that begins at `at` with its length."""
    lo, stop = at + 1, at + 1 + np.int64(sets[at])
    hi = stop
    while lo < hi:
        middle = (lo + hi) >> 1
        if sets[middle] < level:
            lo = middle + 1
        else:
            hi = middle
    return lo < stop and sets[lo] == level


@jit
def goes_right(x, flags, threshold, sets):
    """Which side a value takes."""
    if x != x:
        return (flags & MISSING_LEFT) == 0
    if flags & CATEGORICAL:
        return is_listed(sets, np.int64(threshold), np.int64(x)) != ((flags & LISTED_LEFT) != 0)
    return x > threshold


@jit
def find_faces(x, nodes, sets, starts, lower, upper):
    """Faces of the leaf of one row in each tree, (features, trees); the caller sets them to infinity."""
    for t in range(starts.shape[0] - 1):
        tree = nodes[starts[t, 0] : starts[t + 1, 0]]
        feature, child, threshold = tree["feature"], tree["child"], tree["threshold"]
        levels = sets[starts[t, 2] : starts[t + 1, 2]]
        node = 0
        while feature[node] >= 0:
            flags, cut = feature[node], threshold[node]
            j = flags & COLUMN
            right = goes_right(x[j], flags, cut, levels)
            if not flags & CATEGORICAL:
                if right:
                    lower[j, t] = max(lower[j, t], cut)
                else:
                    upper[j, t] = min(upper[j, t], cut)
            node = child[node] + right


@jit
def descend_changed(x, j, value, node, tree, sets):
    """Number of splits from a node down to the leaf of x, if feature j had this value."""
    feature, child, threshold = tree["feature"], tree["child"], tree["threshold"]
    depth = 0
    while feature[U(node)] >= 0:
        flags = feature[U(node)]
        at = flags & COLUMN
        node = child[U(node)] + goes_right(value if at == j else x[U(at)], flags, threshold[U(node)], sets)
        depth += 1
    return depth


@jit
def add_losses(x, h, tree, sets, stamp, marks, events, powers, lost):
    """Walk one row down one tree; add to lost[side, j] what the tree's kernel loses by a step of h_j up (0) or down (1).

    A numeric cut separates x from its copy if it lies between the two, x - h <= cut < x or x <= cut < x + h. The first such
    cut on the way is where they part; `marks` tells which copies are already gone. If `powers` is empty that loses one.
    Otherwise `events` collects how far down the copies go, and the loss is 1 - powers[splits between the leaves].
    """
    feature, child, threshold = tree["feature"], tree["child"], tree["threshold"]
    node, depth, n_events = U(0), 0, 0
    while True:
        flags = feature[node]
        if flags < 0:
            break
        j, cut = U(flags & COLUMN), threshold[node]
        v = x[j]
        right = v > cut
        if (flags & CATEGORICAL) or v != v:
            right = goes_right(v, flags, cut, sets)
        elif v - h[j] <= cut and cut < v + h[j]:
            side = U(right)
            if marks[side, j] != stamp:
                marks[side, j] = stamp
                if powers.shape[0] == 0:
                    lost[side, j] += 1.0
                else:
                    moved = v - h[j] if right else v + h[j]
                    other = np.int64(child[node]) + (not right)
                    splits = 1 + descend_changed(x, np.int64(j), moved, other, tree, sets)
                    events[n_events, 0], events[n_events, 1], events[n_events, 2] = side, j, splits - depth
                    n_events += 1
        node = U(child[node]) + U(right)
        depth += 1
    for e in range(n_events):
        lost[U(events[e, 0]), U(events[e, 1])] += 1.0 - powers[U(depth + events[e, 2])]


@allocating
def losses(z, h, nodes, sets, starts, deepest, powers, lost):
    """Losses of a block of rows over all trees, (rows, 2, features). Trees are outside, so that they stay in fast memory."""
    n, p = z.shape
    marks = np.full((2, p), -1, np.int64)
    events = np.empty((deepest if powers.shape[0] else 0, 3), np.int64)
    for t in range(starts.shape[0] - 1):
        tree = nodes[starts[t, 0] : starts[t + 1, 0]]
        levels = sets[starts[t, 2] : starts[t + 1, 2]]
        for i in range(n):
            add_losses(z[i], h, tree, levels, t * n + i, marks, events, powers, lost[i])


@jit
def survey(tree, leaves, first_leaf, parent, depth, spot, begin, end, order, deep):
    """Sort columns by leaf in depth-first order: node v spans order[begin[v] : end[v]], `deep` is the depth of their leaves.

    `spot` is the node of each leaf number.
    """
    feature, child = tree["feature"], tree["child"]
    n_nodes = tree.shape[0]
    parent[0], depth[0] = 0, 0
    for v in range(n_nodes):
        end[v] = 0
        if feature[v] < 0:
            spot[child[v]] = v
        else:
            for c in range(child[v], child[v] + 2):
                parent[c], depth[c] = v, depth[v] + 1
    for i in range(leaves.shape[0]):
        end[spot[leaves[i] - first_leaf]] += 1
    for v in range(n_nodes - 1, 0, -1):
        end[parent[v]] += end[v]
    begin[0] = 0
    for v in range(n_nodes):  # `end` holds counts until the node is reached
        end[v] += begin[v]
        if feature[v] >= 0:
            left = child[v]
            begin[left] = begin[v]
            begin[left + 1] = begin[v] + end[left]
    for i in range(leaves.shape[0]):
        v = spot[leaves[i] - first_leaf]
        order[begin[v]], deep[begin[v]] = i, depth[v]
        begin[v] += 1
    for i in range(leaves.shape[0]):  # back to where they were
        begin[spot[leaves[i] - first_leaf]] -= 1


@jit
def add_ways(leaf, child, parent, depth, begin, end, order, deep, powers, out):
    """Add to out, for one query, powers[splits between its leaf and that of each column]."""
    for c in range(U(begin[leaf]), U(end[leaf])):
        out[U(order[c])] += 1.0
    v = leaf
    while v > 0:
        up = parent[v]
        other = 2 * child[up] + 1 - v
        top = depth[leaf] - 2 * depth[up]
        for c in range(U(begin[other]), U(end[other])):
            out[U(order[c])] += powers[U(top + deep[c])]
        v = up


@allocating
def path_rows(rows, columns, nodes, starts, deepest, powers, out):
    """Sum over trees of powers[splits between the leaves of a row and of a column], (rows, columns); leaves by number."""
    n = columns.shape[0]
    room = np.empty((5, deepest), np.int32)
    parent, depth, spot, begin, end = room[0], room[1], room[2], room[3], room[4]
    order, deep = np.empty(n, np.int32), np.empty(n, np.int32)
    for t in range(starts.shape[0] - 1):
        tree = nodes[starts[t, 0] : starts[t + 1, 0]]
        first = starts[t, 1]
        survey(tree, columns[:, t], first, parent, depth, spot, begin, end, order, deep)
        for i in range(rows.shape[0]):
            leaf = spot[rows[i, t] - first]
            add_ways(leaf, tree["child"], parent, depth, begin, end, order, deep, powers, out[i])
