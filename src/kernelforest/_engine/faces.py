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
def find_near_cuts(x, h, tree, sets, near):
    """Walk one row down one tree and note the cuts that a step of h in their feature crosses; also how many, and the depth.

    A numeric cut separates x from its copy if it lies between the two: x <= cut < x + h or x - h <= cut < x. A line of
    `near` is the place 2 j + side of the copy (side 0: a step up), the node and its depth. Every cut is noted, and the next
    one written over it unless it was near: that has no branch to be guessed wrong.
    """
    node, found, depth = U(0), U(0), 0
    while tree[node]["feature"] >= 0:
        flags, cut = tree[node]["feature"], tree[node]["threshold"]
        j = U(flags & COLUMN)
        v = x[j]
        right = v > cut
        crossed = (v - h[j] <= cut) & (cut < v + h[j])
        if (flags & CATEGORICAL) or v != v:
            right, crossed = goes_right(v, flags, cut, sets), False
        near[found, 0], near[found, 1], near[found, 2] = j + j + U(right), node, depth
        found += U(crossed)
        node = U(tree[node]["child"]) + U(right)
        depth += 1
    return found, depth


@jit
def descend_changed(x, j, value, node, tree, sets):
    """Number of splits from a node down to the leaf of x, if feature j had this value."""
    depth = 0
    while tree[node]["feature"] >= 0:
        flags = tree[node]["feature"]
        at = U(flags & COLUMN)
        right = goes_right(value if at == j else x[at], flags, tree[node]["threshold"], sets)
        node = U(tree[node]["child"]) + U(right)
        depth += 1
    return depth


@jit
def splits_between(x, h, tree, sets, near, depth):
    """Splits between the leaf of x, at this depth, and that of its copy, which leaves its way at a near cut."""
    place, node = U(near[0]), U(near[1])
    j, right = place >> ONE, place & ONE
    value = x[j] - h[j] if right else x[j] + h[j]
    other = U(tree[node]["child"]) + (ONE - right)
    return depth - near[2] + 1 + descend_changed(x, j, value, other, tree, sets)


@allocating
def losses(z, h, nodes, sets, starts, most_nodes, powers, lost):
    """What the kernel of each tree loses by a step of h_j up or down, summed over trees, (rows, 2 x features).

    A tree is lost with the first near cut on the way: `marks` tells which copies are already gone. If `powers` is empty that
    loses one, otherwise 1 - powers[splits between the leaves]. Trees are outside, so that they stay in fast memory.
    """
    n, p = z.shape
    marks = np.full(2 * p, -1, np.int64)
    near = np.empty((most_nodes + 1, 3), np.int64)
    for t in range(starts.shape[0] - 1):
        tree = nodes[starts[t, 0] : starts[t + 1, 0]]
        levels = sets[starts[t, 2] : starts[t + 1, 2]]
        for i in range(n):
            found, depth = find_near_cuts(z[i], h, tree, levels, near)
            for e in range(found):
                place = U(near[e, 0])
                if marks[place] == t * n + i:
                    continue
                marks[place] = t * n + i
                loss = 1.0
                if powers.shape[0] > 0:
                    loss -= powers[splits_between(z[i], h, tree, levels, near[e], depth)]
                lost[i, place] += loss


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
        out[U(order[c])] += powers[0]
    v = leaf
    while v > 0:
        up = parent[v]
        other = 2 * child[up] + 1 - v
        top = depth[leaf] - 2 * depth[up]
        for c in range(U(begin[other]), U(end[other])):
            out[U(order[c])] += powers[U(top + deep[c])]
        v = up


@allocating
def path_rows(rows, columns, nodes, starts, most_nodes, powers, out):
    """Sum over trees of powers[splits between the leaves of a row and of a column], (rows, columns); leaves by number."""
    n = columns.shape[0]
    room = np.empty((5, most_nodes), np.int32)
    parent, depth, spot, begin, end = room[0], room[1], room[2], room[3], room[4]
    order, deep = np.empty(n, np.int32), np.empty(n, np.int32)
    for t in range(starts.shape[0] - 1):
        tree = nodes[starts[t, 0] : starts[t + 1, 0]]
        first = starts[t, 1]
        survey(tree, columns[:, t], first, parent, depth, spot, begin, end, order, deep)
        for i in range(rows.shape[0]):
            leaf = spot[rows[i, t] - first]
            add_ways(leaf, tree["child"], parent, depth, begin, end, order, deep, powers, out[i])
