"""Send rows down finished trees: to leaf numbers, or to sums over leaves. Also: count training rows into leaves.

Rows are coded first: the code of a number is how many of the forest's own cuts in that column lie below it, so that
"x <= cut k" becomes "code <= k" on small integers. A block of rows then goes down a tree together. The first nodes are
peeled off: each asks all rows of the block, on vectors, which is cheaper than finding its own. Then rows are listed by node:

    orders[0]  [ 0 1 2 3 4 5 6 7 ]      the rows of a node are a segment of one of two buffers;
    orders[1]  [ 0 2 5 . | 7 6 4 3 1 ]  splitting writes it to the other, left rows from the front, right rows from the back

Each node is read once per block instead of once per row. When few rows are left they walk alone, four abreast, so that
one waits for memory while the others move. Sums run over trees in order for every row on its own: results do not depend
on how rows are cut into blocks or spread over threads.

This file calls no jitted function of another file. Indices are unsigned, which spares the compiler the test for negative
ones.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kernelforest._engine.layout import CATEGORICAL, LISTED_LEFT, MISSING_LEFT

VOTE, MEAN, PROXIMITY = 0, 1, 2
FEW = 4  # rows that walk alone, abreast
PEELED = 63  # nodes at the top of a tree that all rows of a block are compared with
TILE = 64  # rows coded at a time, so that they stay in the fastest memory
U = np.uint64
ZERO, ONE, TWO, THREE = U(0), U(1), U(2), U(3)

jit = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)  # no reference counting, see grow.py
allocating = njit(nogil=True, cache=True, error_model="numpy")


@allocating
def code_rows(z, router, codes):
    """Code a block of rows, (rows, features), into (used columns, rows). Returns whether anything is missing."""
    top = np.iinfo(codes.dtype).max
    x, at = np.empty(TILE), np.empty(TILE, np.uint64)
    missing = False
    for first in range(0, z.shape[0], TILE):
        m = min(TILE, z.shape[0] - first)
        for j in range(router.used.shape[0]):
            cuts = router.cuts[router.offsets[j] : router.offsets[j + 1]]
            for i in range(m):
                x[i] = z[first + i, router.used[j]]
                at[i] = ZERO
            left = U(0 if router.categorical[j] else cuts.shape[0])
            while left > ONE:  # a binary search that all rows of the tile take step by step together
                half = left >> ONE
                for i in range(m):
                    at[i] += half * U(cuts[at[i] + half - ONE] < x[i])
                left -= half
            for i in range(m):
                code = at[i] + U(cuts[at[i]] < x[i])
                if x[i] != x[i]:
                    code = U(top)
                    missing = True
                elif router.categorical[j]:
                    code = U(x[i])
                codes[j, first + i] = code
    return missing


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
def goes_left(code, top, word, flags, shape, sets):
    """Which side a code takes, with missing values and categorical columns."""
    cut = word & shape.cut_mask
    if code == top:
        return (flags & MISSING_LEFT) != 0
    if flags & CATEGORICAL:
        return is_listed(sets, np.int64(cut), code) == ((flags & LISTED_LEFT) != 0)
    return U(code) <= cut


@jit
def peel(column, cut, at, spot, left):
    """Move the rows at one spot to spot `left` or the one after it. Asks all rows, without branches."""
    right = np.uint16(left + 1)
    for i in range(at.shape[0]):
        child = right if column[i] > cut else left
        at[i] = child if at[i] == spot else at[i]


@jit
def peel_top(codes, words, shape, at, spots):
    """Send rows past the first nodes of a tree, breadth first: row i is then at node spots[at[i]]. Returns their number."""
    for i in range(at.shape[0]):
        at[i] = 0
    spots[0] = ZERO
    n_spots, spot = 1, 0
    while spot < n_spots and n_spots + 2 <= spots.shape[0]:
        word = words[spots[spot]]
        child = word >> shape.child
        if child != spots[spot]:
            column = codes[(word >> shape.column) & shape.column_mask]
            cut = codes.dtype.type(word & shape.cut_mask)
            peel(column, cut, at, np.uint16(spot), np.uint16(n_spots))
            spots[n_spots], spots[n_spots + 1] = child, child + ONE
            n_spots += 2
        spot += 1
    return n_spots


@jit
def list_by_spot(at, n_spots, ends, order):
    """List the rows of each spot one after another; ends[k] is where the list of spot k ends."""
    for k in range(n_spots):
        ends[k] = ZERO
    for i in range(at.shape[0]):
        ends[U(at[i])] += ONE
    total = ZERO
    for k in range(n_spots):
        count = ends[k]
        ends[k] = total
        total += count
    for i in range(at.shape[0]):
        k = U(at[i])
        order[ends[k]] = i
        ends[k] += ONE


@jit
def split(column, cut, source, target, start, end):
    """Split a segment of rows into the other buffer; returns where the right side begins."""
    left, right = start, end - ONE
    i = start
    while i < end:
        row = source[i]
        target[left] = row
        target[right] = row
        below = U(U(column[U(row)]) <= cut)
        left += below
        right -= ONE - below
        i += ONE
    return left


@jit
def split_with_care(column, word, flags, shape, sets, source, target, start, end):
    """The same with missing values and categorical columns."""
    top = np.iinfo(column.dtype).max
    left, right = start, end - ONE
    i = start
    while i < end:
        row = source[i]
        target[left] = row
        target[right] = row
        below = U(goes_left(column[U(row)], top, word, flags, shape, sets))
        left += below
        right -= ONE - below
        i += ONE
    return left


@jit
def step(codes, row, node, words, shape):
    """The next node of a row; a leaf is its own child."""
    word = words[node]
    return (word >> shape.child) + U(U(codes[(word >> shape.column) & shape.column_mask, row]) > (word & shape.cut_mask))


@jit
def walk_with_care(codes, row, node, words, extras, shape, sets):
    """The leaf of one row, with missing values and categorical columns."""
    top = np.iinfo(codes.dtype).max
    while words[node] >> shape.child != node:
        word = words[node]
        code = codes[(word >> shape.column) & shape.column_mask, row]
        node = (word >> shape.child) + U(not goes_left(code, top, word, extras[node], shape, sets))
    return node


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


@jit
def form_opinion_of_two(a, b, aggregate):
    """The same for two classes, where it has to be quick."""
    mass = a + b
    if aggregate == PROXIMITY or mass <= 0.0:
        return a, b
    if aggregate == MEAN:
        return a / mass, b / mass
    return (0.5, 0.5) if a == b else (1.0 * (a > b), 1.0 * (b > a))


@jit
def settle(order, start, end, leaf, tree, base, aggregate, opinion, sums, out):
    """Rows have reached a leaf: note its number, or add its opinion."""
    if sums is None:
        while start < end:
            out[U(order[start]), tree] = leaf
            start += ONE
        return
    at = U(base) + U(leaf)
    if opinion.shape[0] == 2:
        a, b = form_opinion_of_two(sums[at, ZERO], sums[at, ONE], aggregate)
        while start < end:
            row = U(order[start])
            out[row, ZERO] += a
            out[row, ONE] += b
            start += ONE
        return
    form_opinion(sums, at, 0.0, 0, aggregate, opinion)
    while start < end:
        for c in range(opinion.shape[0]):
            out[U(order[start]), c] += opinion[c]
        start += ONE


class Block(NamedTuple):
    """Working memory of a block of rows."""

    orders: NDArray[np.uint16]  # (2, n_rows)
    at: NDArray[np.uint16]  # (n_rows,) spot of each row past the peeled nodes
    spots: NDArray[np.uint64]  # nodes
    ends: NDArray[np.uint64]  # where the list of each spot ends
    stack: NDArray[np.uint64]  # (depth, 4) node, start, end, buffer
    opinion: NDArray[np.float64]  # (n_classes,)


@jit
def descend_tree(codes, quick, router, tree, aggregate, sums, out, block):
    """Send a block of coded rows down one tree."""
    shape, orders, stack, opinion = router.shape, block.orders, block.stack, block.opinion
    words = router.words[router.starts[tree, 0] : router.starts[tree + 1, 0]]
    extras = router.extras[router.starts[tree, 0] : router.starts[tree + 1, 0]]
    sets = router.sets[router.starts[tree, 2] : router.starts[tree + 1, 2]]
    base = router.starts[tree, 1]
    n_spots = 1
    block.spots[0] = ZERO
    if quick:
        n_spots = peel_top(codes, words, shape, block.at, block.spots)
    list_by_spot(block.at, n_spots, block.ends, orders[0])
    begin = ZERO
    for spot in range(n_spots):
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = block.spots[spot], begin, block.ends[spot], ZERO
        begin = block.ends[spot]
        height = 1
        while height > 0:
            height -= 1
            node, start, end, side = stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3]
            while start < end:
                word = words[node]
                child = word >> shape.child
                order = orders[side]
                if child == node:
                    settle(order, start, end, extras[node], tree, base, aggregate, opinion, sums, out)
                    break
                if end - start <= FEW:
                    last = end - ONE
                    i1, i2, i3 = min(start + ONE, last), min(start + TWO, last), min(start + THREE, last)
                    r0, r1, r2, r3 = U(order[start]), U(order[i1]), U(order[i2]), U(order[i3])
                    a0 = a1 = a2 = a3 = node
                    while quick:
                        b0, b1 = step(codes, r0, a0, words, shape), step(codes, r1, a1, words, shape)
                        b2, b3 = step(codes, r2, a2, words, shape), step(codes, r3, a3, words, shape)
                        if (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) | (a3 ^ b3) == ZERO:
                            break
                        a0, a1, a2, a3 = b0, b1, b2, b3
                    for k in range(end - start):
                        i = start + U(k)
                        a = a0 if k == 0 else a1 if k == 1 else a2 if k == 2 else a3
                        if not quick:
                            a = walk_with_care(codes, U(order[i]), node, words, extras, shape, sets)
                        settle(order, i, i + ONE, extras[a], tree, base, aggregate, opinion, sums, out)
                    break
                column = codes[(word >> shape.column) & shape.column_mask]
                target = orders[ONE - side]
                if quick:
                    middle = split(column, word & shape.cut_mask, order, target, start, end)
                else:
                    middle = split_with_care(column, word, extras[node], shape, sets, order, target, start, end)
                side = ONE - side
                if middle == start:
                    node = child + ONE
                elif middle == end:
                    node = child
                else:
                    stack[height, 0], stack[height, 1] = child + ONE, middle
                    stack[height, 2], stack[height, 3] = end, side
                    height += 1
                    node, end = child, middle


@allocating
def descend(codes, quick, router, aggregate, sums, out):
    """Send a block of coded rows down every tree. Without `sums`, out[row, tree] is the leaf; with, out[row] is added to.

    `quick` says that nothing is missing and no column categorical, so that plain comparisons do.
    """
    n = codes.shape[1]
    block = Block(
        np.empty((2, n), np.uint16),
        np.zeros(n, np.uint16),
        np.empty(2 * PEELED + 1, np.uint64),
        np.empty(2 * PEELED + 1, np.uint64),
        np.empty((router.deepest + 2, 4), np.uint64),
        np.empty(out.shape[1]),
    )
    for tree in range(router.starts.shape[0] - 1):
        descend_tree(codes, quick, router, tree, aggregate, sums, out, block)


@allocating
def add_out_of_bag(leaves, starts, draws, sums, aggregate, own, labels, out, n_trees):
    """Add opinions about training rows over the trees that did not draw them; `own` is what a row put in the fill itself."""
    opinion = np.empty(out.shape[1])
    for i in range(leaves.shape[0]):
        for t in range(leaves.shape[1]):
            if draws[t, i] == 0:
                form_opinion(sums, starts[t, 1] + leaves[i, t], own[i], labels[i], aggregate, opinion)
                for c in range(out.shape[1]):
                    out[i, c] += opinion[c]
                n_trees[i] += 1


@jit
def fill_leaves(leaves, starts, draws, labels, weight, everyone, honest):
    """Count training rows into the leaves of some trees: all of them, and those the tree did not draw."""
    for t in range(leaves.shape[1]):
        for i in range(leaves.shape[0]):
            at = starts[t, 1] + leaves[i, t]
            everyone[at, labels[i]] += weight[i]
            if draws[t, i] == 0:
                honest[at, labels[i]] += weight[i]
