"""Send rows down finished trees: to leaf numbers, or to sums over leaves.

Rows are coded first: the code of a number is how many of the forest's own cuts in that column lie below it, so that
"x <= cut k" becomes "code <= k" on small integers. A block of rows then goes down a tree together. The first levels are
peeled off: each node asks all rows of the block, on vectors, which is cheaper than finding its own. Then rows are listed by
node:

    orders[0]  [ 0 1 2 3 4 5 6 7 ]      the rows of a node are a segment of one of two buffers;
    orders[1]  [ 0 2 5 . | 7 6 4 3 1 ]  splitting writes it to the other, left rows from the front, right rows from the back

Each node is read once per block instead of once per row. Where the processor can do it, 32 rows of a list are split at once
(`lanes`); the loops over single rows do the same elsewhere. When few rows are left they are taken off the lists and walk
from there on their own, all of the tree together, so that none waits for the memory of another. Where rows ended is noted
by row, and what the leaves say is added last, in the order of the rows. Sums run over trees in order for every row on its
own: results do not depend on how rows are cut into blocks or spread over threads.

This file calls no jitted function of another file. Indices are unsigned, which spares the compiler the test for negative
ones.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kernelforest._engine.lanes import CAN_PACK, LANES, at_most, count, equal, fetch_early, listed, pack
from kernelforest._engine.layout import CATEGORICAL, LISTED_LEFT, MISSING, MISSING_LEFT

PEELED = 3 if CAN_PACK else 6  # levels at the top of a tree whose nodes are compared with all rows
SPOTS = 2**PEELED
PEELING = 2048  # rows compared with them at a time, for the same reason as TILE
FEW = 12  # rows that no longer make a list, but walk
AHEAD = 12  # walkers whose nodes or codes are on their way while another steps
TILE = 128  # rows coded at a time, so that they stay in the fastest memory
U = np.uint64
ZERO, ONE, S16 = U(0), U(1), U(16)
ROW = U(65535)  # the bits of a walker that are its row; its node is above them

# no reference counting and no wrappers, see grow.py
jit = njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)


@allocating
def code_rows(z, router, codes):
    """Code a block of rows, (rows, features), into (used columns, rows). Returns whether anything is missing."""
    top = codes.dtype.type(np.iinfo(codes.dtype).max)
    last_cell = router.cells.shape[1] - 1.0
    x, at = np.empty(TILE), np.empty(TILE, np.uint64)
    missing = False
    for first in range(U(0), U(z.shape[0]), U(TILE)):
        m = min(U(TILE), U(z.shape[0]) - first)
        for j in range(U(router.used.shape[0])):
            feature, column = U(router.used[j]), codes[j, first : first + m]
            for i in range(m):
                x[i] = z[first + i, feature]
            gaps = ZERO
            for i in range(m):
                gaps += U(x[i] != x[i])
            missing |= gaps > ZERO
            if router.categorical[j]:
                for i in range(m):
                    column[i] = top if x[i] != x[i] else codes.dtype.type(x[i])
                continue
            cuts, cells = router.cuts[router.offsets[j] : router.offsets[j + ONE]], router.cells[j]
            low, scale, left = router.grid[j, ZERO], router.grid[j, ONE], U(router.fullest[j])
            latest = U(cuts.shape[0]) - left
            for i in range(m):  # cuts in cells before that of x are below it, cuts in later cells are above
                place = (x[i] - low) * scale
                place = place if place > 0.0 else 0.0  # also if missing
                at[i] = min(U(cells[U(np.int64(min(place, last_cell)))]), latest)
            while left > ONE:  # a binary search that all rows of the tile take step by step together
                half = left >> ONE
                for i in range(m):
                    at[i] += half * U(cuts[at[i] + half - ONE] < x[i])
                left -= half
            for i in range(m):
                code = at[i] + U(cuts[at[i]] < x[i])
                column[i] = top if x[i] != x[i] else codes.dtype.type(code)
    return missing


@allocating
def find_codes(which, column, threshold, offsets, highs, cut):
    """The last training code that some numeric nodes keep left: that of the largest value at or below the threshold."""
    for i in which:
        lo, hi = offsets[column[i]], offsets[column[i] + ONE]
        first = lo
        while lo < hi:
            middle = (lo + hi) >> 1
            if highs[middle] <= threshold[i]:
                lo = middle + 1
            else:
                hi = middle
        cut[i] = U(lo - first - 1)


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
def goes_left(code, top, cut, flags, sets):
    """Which side a code takes, with missing values and categorical columns."""
    if code == top:
        return (flags & MISSING_LEFT) != 0
    if flags & CATEGORICAL:
        return is_listed(sets, np.int64(cut), code) == ((flags & LISTED_LEFT) != 0)
    return U(code) <= cut


@jit
def peel(column, cut, at, spot, right):
    """Move the rows at one spot that belong to the right child to a spot of their own. Asks all rows, without branches."""
    for i in range(at.shape[0]):
        at[i] = right if (at[i] == spot) & (column[i] > cut) else at[i]


@jit
def peel_top(codes, begin, words, shape, at, spots):
    """Send rows past the first levels of a tree: row begin + i is then at node spots[at[i]]. Returns the number of spots."""
    for i in range(at.shape[0]):
        at[i] = 0
    spots[0] = ZERO
    n_spots = 1
    for _ in range(PEELED):
        for spot in range(n_spots):
            word = words[spots[spot]]
            child = word >> shape.child
            if child != spots[spot]:
                column = codes[(word >> shape.column) & shape.column_mask, begin : begin + at.shape[0]]
                peel(column, codes.dtype.type(word & shape.cut_mask), at, np.uint16(spot), np.uint16(n_spots))
                spots[spot], spots[n_spots] = child, child + ONE
                n_spots += 1
    return n_spots


@jit
def list_by_spot(at, n, n_spots, rows, stops, order):
    """List the n rows, those of each spot one after another; stops[k] is where the list of spot k stops."""
    for k in range(n_spots):
        stops[k] = ZERO
    for i in range(n):
        stops[U(at[i])] += ONE
    total = ZERO
    for k in range(n_spots):
        count = stops[k]
        stops[k] = total
        total += count
    for i in range(n):
        k = U(at[i])
        order[stops[k]] = rows[i]
        stops[k] += ONE


@jit
def list_in_lanes(at, n, n_spots, rows, stops, order):
    """The same, 32 rows at a time and spot after spot."""
    total = ZERO
    for k in range(n_spots):
        i = ZERO
        while i < n:
            bits = equal(at, i, k)
            pack(rows, i, bits, order, total)
            total += count(bits)
            i += U(LANES)
        stops[k] = total


@jit
def split(column, shift, cut, source, target, start, end):
    """Split a segment of rows into the other buffer; returns where the right side begins. There is no shift."""
    left, apart = start, end - start  # the next place on the right is `apart` beyond the next on the left
    i = start
    while i < end:
        row = source[i]
        apart -= ONE
        below = U(column[U(row)]) <= cut
        target[left + (ZERO if below else apart)] = row
        left += U(below)
        i += ONE
    return left


@jit
def split_with_care(column, cut, flags, sets, table, source, target, start, end):
    """The same with missing values and categorical columns."""
    top = np.iinfo(column.dtype).max
    left, right = start, end - ONE
    i = start
    while i < end:
        row = source[i]
        target[left] = row
        target[right] = row
        below = U(goes_left(column[U(row)], top, cut, flags, sets))
        left += below
        right -= ONE - below
        i += ONE
    return left


@jit
def deal(source, i, bits, all_bits, target, left, right):
    """Pack rows that are marked from the front of the target on, and the others towards its back."""
    pack(source, i, bits, target, left)
    right -= count(bits ^ all_bits)
    pack(source, i, bits ^ all_bits, target, right)
    return left + count(bits), right


@jit
def split_in_lanes(column, shift, cut, source, target, start, end):
    """Split 32 rows at a time. A shift by one makes the code of a missing value, the largest, the smallest."""
    left, right = start, end
    i = start
    while i < end:
        all_bits = (ONE << min(U(LANES), end - i)) - ONE
        bits = at_most(column, shift, cut, source, i) & all_bits
        left, right = deal(source, i, bits, all_bits, target, left, right)
        i += U(LANES)
    return left


@jit
def split_listed(column, at, flags, sets, table, source, target, start, end):
    """The same for a categorical column, by a table of the listed levels in which the missing one is the last."""
    if sets[at] > end - start:  # the table would not pay
        return split_with_care(column, at, flags, sets, table, source, target, start, end)
    inside = flags & LISTED_LEFT != 0
    for k in range(at + ONE, at + ONE + U(sets[at])):
        table[sets[k]] = 1
    table[MISSING] = inside == (flags & MISSING_LEFT != 0)
    left, right = start, end
    i = start
    while i < end:
        all_bits = (ONE << min(U(LANES), end - i)) - ONE
        bits = listed(column, table, source, i) & all_bits
        left, right = deal(source, i, bits if inside else bits ^ all_bits, all_bits, target, left, right)
        i += U(LANES)
    for k in range(at + ONE, at + ONE + U(sets[at])):
        table[sets[k]] = 0
    return left


if CAN_PACK:
    list_rows, split_rows, split_carefully = list_in_lanes, split_in_lanes, split_listed
else:
    list_rows, split_rows, split_carefully = list_by_spot, split, split_with_care


@jit
def step(codes, row, node, words, shape):
    """The next node of a row; a leaf is its own child."""
    word = words[node]
    return (word >> shape.child) + U(U(codes[(word >> shape.column) & shape.column_mask, row]) > (word & shape.cut_mask))


@jit
def step_with_care(codes, row, node, words, extras, shape, sets):
    """The same with missing values and categorical columns."""
    word = words[node]
    child = word >> shape.child
    if child == node:
        return node
    code = codes[(word >> shape.column) & shape.column_mask, row]
    return child + U(not goes_left(code, np.iinfo(codes.dtype).max, word & shape.cut_mask, extras[node], sets))


@jit
def walk(codes, quick, words, extras, sets, shape, walkers, n, ends):
    """Send n walkers on by a node and again, until all stand still; ends[row] is where.

    What walkers behind this one will read, first their nodes and then their codes, is fetched meanwhile.
    """
    while n > ZERO:
        moving = ZERO
        for k in range(n):
            fetch_early(words, walkers[min(k + U(2 * AHEAD), n - ONE)] >> S16)
            next_one = walkers[min(k + U(AHEAD), n - ONE)]
            column = (words[next_one >> S16] >> shape.column) & shape.column_mask
            fetch_early(codes[column], next_one & ROW)
            row, node = walkers[k] & ROW, walkers[k] >> S16
            if quick:
                last = step(codes, row, node, words, shape)
            else:
                last = step_with_care(codes, row, node, words, extras, shape, sets)
            ends[row] = last
            walkers[moving] = (last << S16) | row
            moving += U(last != node)
        n = moving


@jit
def add_opinions(opinions, first, nodes, numbers, out):
    """Add to each row the opinion of its leaf."""
    if out.shape[1] == 2:
        for i in range(U(out.shape[0])):
            at = first + U(numbers[U(nodes[i])])
            out[i, ZERO] += opinions[at, ZERO]
            out[i, ONE] += opinions[at, ONE]
    else:
        for i in range(U(out.shape[0])):
            for c in range(U(out.shape[1])):
                out[i, c] += opinions[first + U(numbers[U(nodes[i])]), c]


class Block(NamedTuple):
    """Working memory of a block of rows."""

    rows: NDArray[np.uint16]  # their numbers; as all arrays of this type 32 longer than there are rows
    orders: NDArray[np.uint16]  # the two buffers
    at: NDArray[np.uint16]  # spot of each row past the peeled nodes
    spots: NDArray[np.uint64]  # nodes
    stops: NDArray[np.uint64]  # where the list of each spot stops
    stack: NDArray[np.uint64]  # (depth, 4) node, start, end, buffer
    walkers: NDArray[np.uint64]  # (n_rows,) node << 16 | row
    ends: NDArray[np.uint32]  # (n_rows,) node at which each row ended
    table: NDArray[np.uint8]  # (65536,) zeros, for levels of categorical columns


def make_block(n: int, most_nodes: int) -> Block:
    """Working memory for n rows in trees of at most so many nodes."""
    block = Block(
        rows=np.arange(n + LANES).astype(np.uint16),
        orders=np.zeros((2, n + LANES), np.uint16),
        at=np.zeros(n + LANES, np.uint16),
        spots=np.empty(SPOTS, np.uint64),
        stops=np.empty(SPOTS, np.uint64),
        stack=np.empty((most_nodes + 2, 4), np.uint64),
        walkers=np.empty(n, np.uint64),
        ends=np.empty(n, np.uint32),
        table=np.zeros(MISSING + 1, np.uint8),
    )
    block.at[n:] = SPOTS  # no spot
    return block


@jit
def leave(order, start, end, node, ends):
    """Note that rows have reached a leaf."""
    while start < end:
        ends[U(order[start])] = node
        start += ONE


@jit
def recruit(order, start, end, node, walkers, n):
    """Let rows walk from a node, after n other walkers. Returns how many there are now."""
    while start < end:
        walkers[n] = (node << S16) | U(order[start])
        start += ONE
        n += ONE
    return n


@jit
def send_lists(codes, quick, words, extras, sets, shape, block, n_spots):
    """Split the lists of rows behind the peeled nodes until every row has ended in a leaf."""
    orders, stack, walkers, ends = block.orders, block.stack, block.walkers, block.ends
    n_walkers = begin = ZERO
    for spot in range(n_spots):
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = block.spots[spot], begin, block.stops[spot], ZERO
        begin = block.stops[spot]
        height = 1
        while height > 0:
            height -= 1
            node, start, end, side = stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3]
            while start < end:
                word = words[node]
                child = word >> shape.child
                order, target = orders[side], orders[ONE - side]
                if child == node:
                    leave(order, start, end, node, ends)
                    break
                if end - start <= U(FEW):
                    n_walkers = recruit(order, start, end, node, walkers, n_walkers)
                    break
                fetch_early(words, child)
                column = codes[(word >> shape.column) & shape.column_mask]
                cut = word & shape.cut_mask
                if quick or (CAN_PACK and extras[node] & CATEGORICAL == 0):
                    shift = U(not quick and extras[node] & MISSING_LEFT != 0)
                    middle = split_rows(column, shift, cut, order, target, start, end)
                else:
                    flags = extras[node]
                    middle = split_carefully(column, cut, flags, sets, block.table, order, target, start, end)
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
    walk(codes, quick, words, extras, sets, shape, walkers, n_walkers, ends)


@allocating
def descend(codes, quick, router, opinions, out, block):
    """Send a block of coded rows down every tree.

    Without `opinions` of the leaves, out[row, tree] is the leaf; with them, they are added to out[row].

    `quick` says that nothing is missing and no column categorical, so that plain comparisons do.
    """
    n = block.ends.shape[0]
    for tree in range(router.starts.shape[0] - 1):
        first, stop = router.starts[tree], router.starts[tree + 1]
        words, extras = router.words[first[0] : stop[0]], router.extras[first[0] : stop[0]]
        sets = router.sets[first[2] : stop[2]]
        n_spots = np.int64(1)  # a plain 1 is a type of its own, and would be compiled for
        block.spots[0] = ZERO
        if quick:
            for begin in range(0, n, PEELING):
                at = block.at[begin : min(begin + PEELING, n)]
                n_spots = peel_top(codes, begin, words, router.shape, at, block.spots)
        list_rows(block.at, U(n), n_spots, block.rows, block.stops, block.orders[0])
        send_lists(codes, quick, words, extras, sets, router.shape, block, n_spots)
        if opinions is None:
            for i in range(n):
                out[i, tree] = extras[U(block.ends[i])]
        else:
            add_opinions(opinions, U(first[1]), block.ends, extras, out)
