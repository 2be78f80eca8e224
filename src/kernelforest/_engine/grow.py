"""Grow partitions: codes and labels enter, flat trees leave.

Every function here is compiled by Numba and sees only arrays, scalars and NamedTuples of arrays. This file calls no
jitted function of another file, because a compiled cache goes stale across files.

A node is a segment of `rows`, the distinct in-bag rows of the tree, ascending within the node:

    rows   [ 0 2 3 7 | 1 5 | 4 9 ]     split in place and stably
    packs  [ . . . . | . . | . . ]     draws of that row; in the upper 32 bits, draws of that row if it is of class 1

so that one addition counts draws and positives at once. With two classes and equal weights the search for a cut is done
in these integers; otherwise labels and weights ("masses") are looked up by row.

Random draws are keyed by the path to the node, never taken from a running stream. So a subtree does not depend on what
was grown before it, and the tree of a larger leaf size is the same tree, cut off earlier.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from kernelforest._engine.layout import (
    CATEGORICAL,
    COLUMN,
    LISTED_LEFT,
    MISSING,
    MISSING_LEFT,
    NODE,
    Cut,
    Node,
    Trees,
)

BEST, EXTRA, RANDOM, OBSERVED = 0, 1, 2, 3  # how cuts are made
NO_LIMIT = np.iinfo(np.int32).max
SMALL = 24  # up to this many rows all pairs are compared, or sorted by insertion
LOW = (1 << 32) - 1  # the half of a pack that counts draws
U = np.uint64
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX1, MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S11, S27, S30, S31, S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
ONE, S63 = np.uint64(1), np.uint64(63)

# Arrays are counted references, and counting is atomic: threads that share the table would wait for each other at every
# node. So nothing below the level of a tree allocates, and there Numba is told not to count. Nor to make these functions
# callable from Python, or from C: taking tuples of arrays apart and joining them again would be a sixth of what is compiled.
jit = njit(nogil=True, error_model="numpy", _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)


class Scratch(NamedTuple):
    """Working memory of one thread, reused by every node of every tree."""

    rows: NDArray[np.uint32]  # distinct in-bag rows, a segment per node
    packs: NDArray[np.int64]  # their draws, packed
    spare_rows: NDArray[np.uint32]
    spare_packs: NDArray[np.int64]
    vals: NDArray[np.int32]
    keys: NDArray[np.int64]
    spare_keys: NDArray[np.int64]
    hist: NDArray[np.int64]
    flags: NDArray[np.uint8]
    starts: NDArray[np.int64]  # (257,) of the sort
    order: NDArray[np.int32]  # features, in the order of the table between nodes
    swaps: NDArray[np.int32]


class Masses(NamedTuple):
    """What the search needs when there are several classes or weights. None otherwise, and then not compiled."""

    labels: NDArray[np.int32]  # (n_rows,)
    mass: NDArray[np.float64]  # (n_rows,) draws times weight in the criterion
    left: NDArray[np.float64]  # (n_classes,)
    right: NDArray[np.float64]
    gone: NDArray[np.float64]  # rows of the node whose value is missing
    terms: NDArray[np.float64]  # (n_rows,) criterion of the right side at each possible cut


class Levels(NamedTuple):
    """What the search needs when a column is categorical. None otherwise, and then not compiled."""

    marks: NDArray[np.uint8]  # (levels,) zero between nodes
    listed: NDArray[np.int64]  # level << 32, of the best categorical cut so far
    shares: NDArray[np.float64]  # (levels, n_classes) masses of the levels of the node
    mass: NDArray[np.float64]  # (levels,) their totals
    ahead: NDArray[np.float64]  # (n_classes,) main direction of the class shares
    mean: NDArray[np.float64]
    step: NDArray[np.float64]


class Held(NamedTuple):
    """One column of one node, missing values set apart."""

    vals: NDArray[np.int32]
    packs: NDArray[np.int64]
    rows: NDArray[np.uint32]
    lo: int
    hi: int
    gone: int  # packed draws of the rows where the value is missing


@jit
def mix(z):
    """Scramble 64 bits (the finaliser of splitmix64)."""
    z = (z ^ (z >> S30)) * MIX1
    z = (z ^ (z >> S27)) * MIX2
    return z ^ (z >> S31)


@jit
def below(bits, n):
    """An integer uniform on 0 .. n-1, from 64 random bits."""
    return np.int64(((bits >> S32) * np.uint64(n)) >> S32)


@allocating
def draw_sample(seed, tree, drawable, limits, draws):
    """Count how often each unit is drawn for this tree; `draws` is overwritten. Returns the key of the tree's root."""
    key = mix(np.uint64(seed) + GOLDEN * np.uint64(tree + 1))
    n = drawable.shape[0]
    draws[:] = 0
    state = key
    if limits.replace:
        for _ in range(limits.n_draws):
            state += GOLDEN
            draws[drawable[below(mix(state), n)]] += 1
    elif limits.n_draws >= n:
        for row in drawable:
            draws[row] = 1
    else:
        urn = drawable.copy()
        for i in range(limits.n_draws):
            state += GOLDEN
            j = i + below(mix(state), n - i)
            draws[urn[j]] = 1
            urn[j] = urn[i]
    return mix(key ^ GOLDEN)


@allocating
def draw_groups(seed, tree, drawable, groups, weight, limits, draws):
    """Count how often each row is drawn for this tree when the rows of a group are drawn together, or not at all.

    A row of weight zero does not count, but the tree has seen its group: its count is negative.
    """
    by_group = np.empty(drawable[-1] + 1, draws.dtype)
    key = draw_sample(seed, tree, drawable, limits, by_group)
    for row in range(draws.shape[0]):
        count = by_group[groups[row]] if groups[row] >= 0 else 0
        draws[row] = count if weight[row] > 0 else -count
    return key


@jit
def sort_keys(keys, spare, n, span, starts):
    """Sort keys `code << 32 | position` by code, at most `span`; keys of the same code stay in order, if positions ascend.

    If they do not, as levels by their score, few keys are sorted by position, too, and many stay in the order they came.
    """
    if n <= SMALL:
        for i in range(1, n):
            key = keys[i]
            j = i - 1
            while j >= 0 and keys[j] > key:
                keys[j + 1] = keys[j]
                j -= 1
            keys[j + 1] = key
        return
    shift = 32
    while span > 0:  # 8 bits at a time, each pass stable
        for b in range(257):
            starts[b] = 0
        for i in range(n):
            starts[((keys[i] >> shift) & 255) + 1] += 1
        for b in range(256):
            starts[b + 1] += starts[b]
        for i in range(n):
            b = (keys[i] >> shift) & 255
            spare[starts[b]] = keys[i]
            starts[b] += 1
        for i in range(n):
            keys[i] = spare[i]
        shift += 8
        span >>= 8


@jit
def hold(codes, has_missing, node, scratch):
    """Gather the codes of a node in one column."""
    s, m = U(node.start), node.end - node.start
    vals, all_rows, all_packs = scratch.vals, scratch.rows, scratch.packs
    lo, hi = np.int32(MISSING), np.int32(-1)
    for i in range(U(m)):
        v = np.int32(codes[all_rows[s + i]])
        vals[i] = v
        lo = min(lo, v)
        hi = max(hi, v)
    packs, rows = all_packs[node.start : node.end], all_rows[node.start : node.end]
    gone = 0
    if has_missing and hi == MISSING:
        lo, hi, k = np.int32(MISSING), np.int32(-1), 0
        for i in range(m):
            v = vals[i]
            if v == MISSING:
                gone += packs[i]
                continue
            scratch.spare_packs[k] = packs[i]
            scratch.spare_rows[k] = rows[i]
            vals[k] = v
            lo = min(lo, v)
            hi = max(hi, v)
            k += 1
        packs, rows = scratch.spare_packs[:k], scratch.spare_rows[:k]
        m = k
    return Held(vals[:m], packs, rows, lo, hi, gone)


@jit
def cut_pairs(held, total, base, best, acc):
    """Best cut of a small node: count for every row what lies at or below it. No sorting and hardly a branch.

    The decrease of the Gini impurity is proportional to d^2 / (l r) with d = n pos_left - pos l, for l draws on the left
    and r on the right. Returns the best of it and the last code kept left, or -1 if `best` stands.
    """
    vals, packs = held.vals, held.packs
    m = vals.shape[0]
    for i in range(m):
        acc[i] = base
    for j in range(m):
        v, w = vals[j], packs[j]
        for i in range(m):
            acc[i] += w if v <= vals[i] else 0
    n, pos = np.float64(total & LOW), np.float64(total >> 32)
    code = -1
    for i in range(m):
        left = np.float64(acc[i] & LOW)
        d = np.float64(acc[i] >> 32) * n - pos * left
        area = left * (n - left)
        if d * d > best * area:
            best = d * d / area
            code = vals[i]
    return best, code


@jit
def cut_bins(held, total, base, best, scratch):
    """Best cut of a larger node: a coarse histogram, then a closer look only where a better cut can hide.

    The gain is a convex function of the class counts on the left, so inside a bin it is at most its value at the corners
    "all positives first" and "all negatives first". A bin whose corners do not beat the best border is done.
    """
    vals, packs, lo = held.vals, held.packs, held.lo
    hist, flags, keys = scratch.hist, scratch.flags, scratch.keys
    m, span = vals.shape[0], held.hi - lo
    shift = 0
    while (span >> shift) > (m >> 1) + 16:
        shift += 1
    n_bins = (span >> shift) + 1
    for b in range(n_bins):
        hist[b] = 0
    for i in range(m):
        hist[U(vals[i] - lo) >> U(shift)] += packs[i]
    n, pos = np.float64(total & LOW), np.float64(total >> 32)
    code, cum = -1, base
    for b in range(n_bins):
        cum += hist[b]
        left = np.float64(cum & LOW)
        d = np.float64(cum >> 32) * n - pos * left
        area = left * (n - left)
        if d * d > best * area:
            best = d * d / area
            code = lo + ((b + 1) << shift) - 1
    if shift == 0:
        return best, code

    n_flagged, cum = 0, base
    for b in range(n_bins):
        inside = hist[b]
        count, q = inside & LOW, inside >> 32
        flags[b] = 0
        if 0 < q < count:
            left = np.float64((cum & LOW) + q)
            d = np.float64((cum >> 32) + q) * n - pos * left
            hidden = d * d > best * (left * (n - left))
            left = np.float64((cum & LOW) + count - q)
            d = np.float64(cum >> 32) * n - pos * left
            if hidden or d * d > best * (left * (n - left)):
                flags[b] = 1
                n_flagged += 1
        hist[b] = cum  # from here on: what lies left of the bin
        cum += inside
    if n_flagged == 0:
        return best, code

    k = 0
    for i in range(m):
        c = np.int64(vals[i] - lo)
        keys[U(k)] = (c << 32) | i
        k += flags[U(c >> shift)]
    sort_keys(keys, scratch.spare_keys, k, span, scratch.starts)
    bin_now = -1
    for t in range(k):
        c = keys[t] >> 32
        if (c >> shift) != bin_now:
            bin_now = c >> shift
            cum = hist[bin_now]
        cum += packs[keys[t] & LOW]
        if t + 1 < k and (keys[t + 1] >> 32) == c:
            continue
        left = np.float64(cum & LOW)
        d = np.float64(cum >> 32) * n - pos * left
        area = left * (n - left)
        if d * d > best * area:
            best = d * d / area
            code = lo + c
    return best, code


@jit
def put(masses, held, missing_left):
    """Begin with both sides empty, except that the missing rows take theirs."""
    for c in range(masses.left.shape[0]):
        masses.left[c] = masses.gone[c] if held.gone > 0 and missing_left else 0.0
        masses.right[c] = masses.gone[c] if held.gone > 0 and not missing_left else 0.0


@jit
def term(side):
    """A side's part of the criterion, sum(mass of a class ^ 2) / mass. The larger the sum over both sides, the better."""
    mass = square = 0.0
    for x in side:
        mass += x
        square += x * x
    return square / mass if mass > 0.0 else 0.0


@jit
def cut_masses(held, masses, missing_left, best, late, scratch):
    """Best cut when rows have several classes or weights: sort, add up the right side from the end, the left from the start.

    A row changes one summand of its side. Both sides are added up, never subtracted, so that a heavy row does not drown the
    others. Of equal cuts the first is taken, or the last if `late`, so that ties favour no side.
    """
    vals, lo, keys, m = held.vals, held.lo, scratch.keys, held.vals.shape[0]
    for i in range(m):
        keys[i] = (np.int64(vals[i] - lo) << 32) | i
    sort_keys(keys, scratch.spare_keys, m, held.hi - lo, scratch.starts)
    put(masses, held, missing_left)
    for side in range(2):
        sums = masses.left if side else masses.right
        mass = square = 0.0
        for x in sums:
            mass += x
            square += x * x
        code = -1
        for k in range(m):
            t = k if side else m - 1 - k
            if side == 0:
                masses.terms[t] = square / mass if mass > 0.0 else -np.inf  # of what lies right of position t
            row = held.rows[keys[t] & LOW]
            c, w = masses.labels[row], masses.mass[row]
            square += w * (2.0 * sums[c] + w)
            sums[c] += w
            mass += w
            if side == 0 or (t + 1 < m and (keys[t + 1] >> 32) == (keys[t] >> 32)):
                continue
            proxy = square / mass + masses.terms[t]
            if proxy > best or (late and code >= 0 and proxy == best):
                best = proxy
                code = lo + (keys[t] >> 32)
    return best, code


@jit
def weigh_missing(codes, node, masses, scratch):
    """Masses by class of the rows of a node whose value is missing."""
    for c in range(masses.gone.shape[0]):
        masses.gone[c] = 0.0
    for i in range(node.start, node.end):
        row = scratch.rows[i]
        if codes[row] == MISSING:
            masses.gone[masses.labels[row]] += masses.mass[row]


@jit
def cut_numeric(held, total, best, late, scratch, masses):
    """Best cut of a numeric column, missing rows tried on both sides. Returns (gain, code, missing_left)."""
    missing_left = False
    code = -1
    for side in range(2 if held.gone > 0 else 1):
        if masses is not None:
            gain, found = cut_masses(held, masses, side == 1, best, late, scratch)
        elif held.vals.shape[0] <= SMALL:
            gain, found = cut_pairs(held, total, held.gone * side, best, scratch.keys)
        else:
            gain, found = cut_bins(held, total, held.gone * side, best, scratch)
        if found >= 0:
            best, code, missing_left = gain, found, side == 1
    return best, code, missing_left


@jit
def gain_of_packs(cum, total):
    """Criterion of a cut in integers, as in cut_pairs; `cum` is what lies left."""
    n, pos, left = np.float64(total & LOW), np.float64(total >> 32), np.float64(cum & LOW)
    d = np.float64(cum >> 32) * n - pos * left
    return d * d / (left * (n - left))


@jit
def gain_of_flags(held, total, missing_left, flags, masses):
    """Criterion of the cut that keeps the flagged rows left."""
    if masses is None:
        cum = held.gone if missing_left else 0
        for i in range(held.vals.shape[0]):
            cum += held.packs[i] * flags[i]
        return gain_of_packs(cum, total)
    put(masses, held, missing_left)
    for i in range(held.vals.shape[0]):
        row = held.rows[i]
        side = masses.left if flags[i] else masses.right
        side[masses.labels[row]] += masses.mass[row]
    return term(masses.left) + term(masses.right)


@jit
def random_code(held, columns, feature, observed, bits):
    """A random cut: uniform between the smallest and largest value, or at the value of a random draw below the largest.

    Returns (last code kept left, threshold).
    """
    at = columns.offsets[feature]
    lo, hi = np.int64(held.lo), np.int64(held.hi)
    if observed:
        room = 0
        for i in range(held.vals.shape[0]):
            room += (held.packs[i] & LOW) if held.vals[i] < hi else 0
        pick = below(bits, room)
        code = lo
        for i in range(held.vals.shape[0]):
            if held.vals[i] < hi:
                code = np.int64(held.vals[i])
                pick -= held.packs[i] & LOW
                if pick < 0:
                    break
        return code, columns.highs[at + code]
    u = np.float64(bits >> S11) * (1.0 / 9007199254740992.0)
    spots = columns.spots
    cut = spots[at + lo] * (1.0 - u) + spots[at + hi] * u
    while hi - lo > 1:  # the last code whose value is at or below the cut
        middle = (lo + hi) >> 1
        if spots[at + middle] <= cut:
            lo = middle
        else:
            hi = middle
    # a code may stand for several values when a column has very many: then cut at the border
    return lo, cut if columns.highs[at + lo] <= cut < columns.lows[at + lo + 1] else columns.highs[at + lo]


@jit
def main_direction(keys, g, levels):
    """First principal component of the levels' class shares, weighted by mass: power iteration from the farthest level."""
    shares, mass, ahead, mean, step = levels.shares, levels.mass, levels.ahead, levels.mean, levels.step
    n_classes = shares.shape[1]
    whole = 0.0
    for c in range(n_classes):
        mean[c] = 0.0
    for t in range(g):
        mass[t] = 0.0
        for c in range(n_classes):
            mean[c] += shares[keys[t], c]
            mass[t] += shares[keys[t], c]
        whole += mass[t]
    far = -1.0
    for t in range(g):
        apart = 0.0
        for c in range(n_classes):
            apart += (shares[keys[t], c] / mass[t] - mean[c] / whole) ** 2
        if mass[t] * apart > far:
            far = mass[t] * apart
            for c in range(n_classes):
                ahead[c] = shares[keys[t], c] / mass[t] - mean[c] / whole
    for _ in range(8):
        for c in range(n_classes):
            step[c] = 0.0
        for t in range(g):
            along = 0.0
            for c in range(n_classes):
                along += (shares[keys[t], c] / mass[t] - mean[c] / whole) * ahead[c]
            for c in range(n_classes):
                step[c] += along * (shares[keys[t], c] - mass[t] * mean[c] / whole)
        size = 0.0
        for c in range(n_classes):
            size += step[c] * step[c]
        for c in range(n_classes):
            ahead[c] = step[c] / np.sqrt(size) if size > 0.0 else ahead[c]


@jit
def order_levels(held, scratch, levels, masses):
    """Group the rows by level and order the levels: by share of class 1, or along the main direction of the class shares.

    With two classes the best subset is a prefix of this order. Returns the number of levels; `spare_keys` then holds
    them in order as `score << 32 | level`, `hist` their packs and `shares` their masses, both by level.
    """
    keys, hist, marks, shares = scratch.spare_keys, scratch.hist, levels.marks, levels.shares
    g = 0
    for i in range(held.vals.shape[0]):
        v = held.vals[i]
        if not marks[v]:
            marks[v] = 1
            keys[g] = v
            g += 1
            hist[v] = 0
            if masses is not None:
                for c in range(shares.shape[1]):
                    shares[v, c] = 0.0
        hist[v] += held.packs[i]
        if masses is not None:
            row = held.rows[i]
            shares[v, masses.labels[row]] += masses.mass[row]
    if masses is not None:
        main_direction(keys, g, levels)
    for t in range(g):
        v = keys[t]
        marks[v] = 0
        score = 0.0
        if masses is None:
            score = np.float64(hist[v] >> 32) / np.float64(hist[v] & LOW)
        else:
            mass = 0.0
            for c in range(shares.shape[1]):
                mass += shares[v, c]
                score += shares[v, c] * levels.ahead[c]
            score = 0.5 + 0.5 * score / mass  # ahead has length one at most
        keys[t] = (np.int64(score * 2147483647.0) << 32) | v
    sort_keys(keys, scratch.keys, g, 2147483647, scratch.starts)
    return g


@jit
def cut_levels(held, total, best, scratch, levels, masses):
    """Best subset of the levels of a categorical column; the side with fewer draws is put in `listed`.

    Returns (gain, number listed or -1, whether the listed go left, whether missing go left).
    """
    g = order_levels(held, scratch, levels, masses)
    order, hist, listed = scratch.spare_keys, scratch.hist, levels.listed
    found, missing_left = -1, False
    for side in range(2 if held.gone > 0 else 1):
        cum = held.gone * side
        if masses is not None:
            put(masses, held, side == 1)
            for t in range(g - 1, -1, -1):
                masses.terms[t] = term(masses.right)  # of the levels after this one
                for c in range(masses.right.shape[0]):
                    masses.right[c] += levels.shares[order[t] & LOW, c]
        for t in range(g if held.gone > 0 and side == 0 else g - 1):
            v = order[t] & LOW
            cum += hist[v]
            if masses is None:
                gain = gain_of_packs(cum, total)
            else:
                for c in range(masses.left.shape[0]):
                    masses.left[c] += levels.shares[v, c]
                gain = term(masses.left) + masses.terms[t]
            if gain > best:
                best, found, missing_left = gain, t + 1, side == 1
    if found < 0:
        return best, -1, False, False
    balance = 0  # draws left less draws right
    for t in range(g):
        draws = hist[order[t] & LOW] & LOW
        balance += draws if t < found else -draws
    first, stop = (0, found) if balance < 0 else (found, g)
    for t in range(first, stop):
        listed[t - first] = (order[t] & LOW) << 32
    sort_keys(listed, scratch.keys, stop - first, MISSING, scratch.starts)
    return best, stop - first, balance < 0, missing_left


@jit
def flag_random_levels(held, bits, flags):
    """Send each level to a random side, neither empty; flags the rows that go left. Returns draws left - right."""
    vals = held.vals
    m = vals.shape[0]
    draws = draws_left = 0
    for i in range(m):
        flags[i] = mix(bits + GOLDEN * np.uint64(vals[i] + 1)) >> S63
        draws += held.packs[i] & LOW
        draws_left += (held.packs[i] & LOW) * flags[i]
    if draws_left == 0 or draws_left == draws:  # move the level of a random row across
        moved = vals[below(mix(bits), m)]
        for i in range(m):
            if vals[i] == moved:
                flags[i] = 1 - flags[i]
                draws_left += (held.packs[i] & LOW) * (1 if flags[i] else -1)
    return 2 * draws_left - draws


@jit
def list_flagged(held, side, scratch, levels):
    """List the levels whose rows have this flag. Returns how many."""
    k = 0
    for i in range(held.vals.shape[0]):
        v = held.vals[i]
        if scratch.flags[i] == side and not levels.marks[v]:
            levels.marks[v] = 1
            levels.listed[k] = np.int64(v) << 32
            k += 1
    for t in range(k):
        levels.marks[levels.listed[t] >> 32] = 0
    sort_keys(levels.listed, scratch.keys, k, MISSING, scratch.starts)
    return k


@jit
def cut_randomly(held, total, columns, feature, best, bits, splitter, scratch, levels, masses):
    """One random cut of a column, or a cut with feature -1 if it does not beat `best`."""
    flags = scratch.flags
    m = held.vals.shape[0]
    code, threshold, balance = np.int64(held.lo), np.inf, 0
    categorical = (columns.kinds[feature] & 1) == 1
    apart = held.lo == held.hi  # only missing values differ from the rest: they go right
    if apart:
        for i in range(m):
            flags[i] = 1
    elif not categorical:
        code, threshold = random_code(held, columns, feature, splitter == OBSERVED, bits)
        for i in range(m):
            flags[i] = held.vals[i] <= code
    elif levels is not None:
        balance = flag_random_levels(held, bits, flags)
    missing_left = (mix(bits ^ GOLDEN) & ONE) == ONE and not apart
    gain = gain_of_flags(held, total, missing_left, flags, masses)
    if splitter == EXTRA and held.gone > 0 and not apart:
        other = gain_of_flags(held, total, not missing_left, flags, masses)
        if other > gain:
            gain, missing_left = other, not missing_left
    flag = 0
    if gain <= best:
        feature = -1
    elif categorical and levels is not None:
        listed_left = balance < 0 or apart
        code = list_flagged(held, 1 if listed_left else 0, scratch, levels)
        flag = CATEGORICAL | (LISTED_LEFT if listed_left else 0)
    return Cut(gain, np.int64(feature) | flag, code, threshold, missing_left)


@jit
def find_cut(node, columns, limits, known, scratch, levels, masses):
    """Draw features until mtry of them vary in the node, and return the best cut. `known` marks constant features."""
    order, swaps = scratch.order, scratch.swaps
    p = order.shape[0]
    best = Cut(-1.0, np.int64(-1), np.int64(0), np.nan, False)
    state = node.key
    found = drawn = 0
    while found < limits.mtry and drawn < limits.most_drawn:
        state += GOLDEN
        bits = mix(state)
        j = drawn + below(bits, p - drawn)
        f = order[j]
        order[j] = order[drawn]
        order[drawn] = f
        swaps[drawn] = j
        drawn += 1
        word, bit = f >> 6, ONE << np.uint64(f & 63)
        if known[word] & bit:
            continue
        kind = columns.kinds[f]
        held = hold(columns.codes[f], kind & 2, node, scratch)
        if held.vals.shape[0] == 0 or (held.lo == held.hi and held.gone == 0):
            known[word] |= bit
            continue
        found += 1
        if masses is not None:
            if held.gone > 0:
                weigh_missing(columns.codes[f], node, masses, scratch)
        if limits.splitter != BEST:
            bits = mix(bits)
            cut = cut_randomly(held, node.total, columns, f, best.gain, bits, limits.splitter, scratch, levels, masses)
            if cut.feature >= 0:
                best = cut
        elif kind & 1:
            if levels is not None:
                gain, k, listed_left, side = cut_levels(held, node.total, best.gain, scratch, levels, masses)
                if k >= 0:
                    flag = CATEGORICAL | (LISTED_LEFT if listed_left else 0)
                    best = Cut(gain, np.int64(f) | flag, np.int64(k), np.nan, side)
        else:
            late = (bits & ONE) == ONE
            gain, code, side = cut_numeric(held, node.total, best.gain, late, scratch, masses)
            if code >= 0:
                best = Cut(gain, np.int64(f), np.int64(code), np.nan, side)
    for i in range(drawn - 1, -1, -1):  # undo, so that every node draws from the same order
        j = swaps[i]
        f = order[i]
        order[i] = order[j]
        order[j] = f
    return best


@jit
def split_rows(node, cut, columns, listed, scratch, levels):
    """Move the rows of a node to their sides, in place and stably.

    Returns (first position of the right child, its packed total, largest code kept left, smallest code sent right,
    whether missing values were seen).
    """
    codes = columns.codes[cut.feature & COLUMN]
    categorical = (cut.feature & CATEGORICAL) != 0
    listed_left = (cut.feature & LISTED_LEFT) != 0
    if levels is not None:
        for v in listed:
            levels.marks[v] = 1
    rows, packs = scratch.rows, scratch.packs
    spare_rows, spare_packs = scratch.spare_rows, scratch.spare_packs
    at, k = U(node.start), U(0)
    total, last_left, first_right = 0, -1, MISSING
    seen_missing = False
    for i in range(U(node.start), U(node.end)):
        row, pack = rows[i], packs[i]
        v = np.int64(codes[row])
        left = v <= cut.code
        if v == MISSING:
            seen_missing = True
            left = cut.missing_left
        elif levels is not None and categorical:
            left = (levels.marks[v] == 1) == listed_left
        else:
            last_left = max(last_left, v if left else -1)
            first_right = min(first_right, MISSING if left else v)
        rows[at] = row
        packs[at] = pack
        spare_rows[k] = row
        spare_packs[k] = pack
        at += U(left)
        k += U(not left)
        total += 0 if left else pack
    for i in range(k):
        rows[at + i] = spare_rows[i]
        packs[at + i] = spare_packs[i]
    if levels is not None:
        for v in listed:
            levels.marks[v] = 0
    return np.int64(at), total, last_left, first_right, seen_missing


@jit
def place(cut, columns, last_left, first_right, coin):
    """Threshold of a numeric cut: x <= threshold goes left.

    A best cut lies halfway, in ranks, between the two neighbours in the node, at the end of a gap between training values
    that a coin chooses. So it depends on the order of the values alone, and no side is favoured.
    """
    if not np.isnan(cut.threshold):
        return cut.threshold
    if first_right == MISSING:
        return np.inf  # only missing values on the right
    code = columns.offsets[cut.feature & COLUMN] + ((last_left + first_right) >> 1)
    return columns.highs[code] if coin else np.nextafter(columns.lows[code + 1], -np.inf)


@jit
def is_done(node, depth, limits, scratch, masses):
    """Whether a node is a leaf by rule. Labels are not asked when cuts are random: the partition must not know them."""
    size = node.total & LOW
    if size <= limits.leaf_size or node.end - node.start < 2 or depth >= limits.max_depth:
        return True
    if limits.splitter == RANDOM or limits.splitter == OBSERVED:
        return False
    if masses is None:
        pos = node.total >> 32
        return pos == 0 or pos == size
    first = masses.labels[scratch.rows[node.start]]
    for i in range(node.start + 1, node.end):
        if masses.labels[scratch.rows[i]] != first:
            return False
    return True


@jit
def weigh_node(node, scratch, masses):
    """The criterion of a node before any cut."""
    for c in range(masses.left.shape[0]):
        masses.left[c] = 0.0
    for i in range(node.start, node.end):
        row = scratch.rows[i]
        masses.left[masses.labels[row]] += masses.mass[row]
    return term(masses.left)


class Draft(NamedTuple):
    """The tree being grown, and its frontier: nodes that have a cut but are not yet split."""

    nodes: NDArray[np.void]
    sizes: NDArray[np.int32]
    spans: NDArray[np.int32]  # (n_nodes, 2) first and last row position of each node
    sets: NDArray[np.uint16]
    slots: NDArray[np.int64]  # (slot, 9) node, start, end, depth, total, feature, code, position in sets, missing left
    cuts: NDArray[np.float64]  # (slot, 3) who is split next, threshold, gain
    keys: NDArray[np.uint64]  # (slot,)
    known: NDArray[np.uint64]  # (slot, words) features known to be constant in the node
    fresh: NDArray[np.int64]  # (2, 4) node, start, end, total of the nodes to be judged
    fresh_keys: NDArray[np.uint64]  # (2,)


@jit
def move_slot(draft, source, target):
    """Copy one open node over another."""
    for i in range(draft.slots.shape[1]):
        draft.slots[target, i] = draft.slots[source, i]
    for i in range(draft.cuts.shape[1]):
        draft.cuts[target, i] = draft.cuts[source, i]
    for i in range(draft.known.shape[1]):
        draft.known[target, i] = draft.known[source, i]
    draft.keys[target] = draft.keys[source]


@jit
def grow_tree(root, columns, limits, scratch, draft, gains, levels, masses):
    """Grow one tree into the draft. Returns its number of nodes, leaves and set entries."""
    feature, child, threshold = draft.nodes["feature"], draft.nodes["child"], draft.nodes["threshold"]
    slots, cuts, known = draft.slots, draft.cuts, draft.known
    spare = slots.shape[0] - 1  # the slot of the node being split
    best_first = limits.max_leaves < NO_LIMIT
    by_size = limits.splitter == RANDOM or limits.splitter == OBSERVED
    fresh, fresh_keys = draft.fresh, draft.fresh_keys
    fresh[0, 0], fresh[0, 1], fresh[0, 2], fresh[0, 3] = 0, 0, root.end, root.total
    fresh_keys[0] = root.key
    for i in range(known.shape[1]):
        known[spare, i] = 0
    n_nodes, n_sets, n_open, n_cuts = 1, 0, 0, 0
    n_fresh, depth = 1, np.int64(0)  # a plain 0 is a type of its own, and would be compiled for
    while True:
        for t in range(n_fresh):
            at = fresh[t, 0]
            node = Node(fresh[t, 1], fresh[t, 2], fresh[t, 3], fresh_keys[t])
            draft.sizes[at] = node.total & LOW
            draft.spans[at, 0], draft.spans[at, 1] = node.start, node.end
            for i in range(known.shape[1]):
                known[n_open, i] = known[spare, i]
            slots[n_open, 5] = -1
            if not is_done(node, depth, limits, scratch, masses):
                base = 0.0
                if masses is not None:
                    base = weigh_node(node, scratch, masses)
                cut = find_cut(node, columns, limits, known[n_open], scratch, levels, masses)
                gain = 2.0 * cut.gain / (node.total & LOW) if masses is None else max(0.0, cut.gain - base)
                slots[n_open, 5], slots[n_open, 6], slots[n_open, 7] = cut.feature, cut.code, n_sets
                slots[n_open, 8], cuts[n_open, 1], cuts[n_open, 2] = cut.missing_left, cut.threshold, gain
            if slots[n_open, 5] < 0:
                feature[at] = -1
                continue
            slots[n_open, 0], slots[n_open, 1], slots[n_open, 2] = at, node.start, node.end
            slots[n_open, 3], slots[n_open, 4] = depth, node.total
            cuts[n_open, 0] = node.total & LOW if by_size else cuts[n_open, 2]
            draft.keys[n_open] = node.key
            if levels is not None:
                if slots[n_open, 5] & CATEGORICAL:
                    k = slots[n_open, 6]
                    draft.sets[n_sets] = k
                    for i in range(k):
                        draft.sets[n_sets + 1 + i] = levels.listed[i] >> 32
                    n_sets += 1 + k
            n_open += 1
        if n_open == 0 or n_cuts + 1 >= limits.max_leaves:
            break
        pick = n_open - 1
        if best_first:
            for i in range(n_open):
                if cuts[i, 0] > cuts[pick, 0]:
                    pick = i
        n_open -= 1
        n_cuts += 1
        move_slot(draft, pick, spare)
        if pick < n_open:
            move_slot(draft, n_open, pick)

        slot = slots[spare]
        at, depth, position = slot[0], slot[3] + 1, slot[7]
        node = Node(slot[1], slot[2], slot[4], draft.keys[spare])
        cut = Cut(cuts[spare, 2], slot[5], slot[6], cuts[spare, 1], slot[8] == 1)
        categorical = (cut.feature & CATEGORICAL) != 0
        listed = draft.sets[position + 1 : position + 1 + (cut.code if categorical else 0)]
        middle, right_total, last_left, first_right, seen = split_rows(node, cut, columns, listed, scratch, levels)
        left_total = node.total - right_total
        left_key, right_key = mix(node.key + MIX1), mix(node.key + MIX2)
        missing_left = cut.missing_left if seen else (left_total & LOW) >= (right_total & LOW)
        feature[at] = cut.feature | (MISSING_LEFT if missing_left else 0)
        child[at] = n_nodes
        coin = (left_key & ONE) == ONE
        threshold[at] = position if categorical else place(cut, columns, last_left, first_right, coin)
        gains[cut.feature & COLUMN] += cut.gain
        # the smaller child is judged last, so split first: the stack stays as short as log2(rows)
        right_first = middle - node.start < node.end - middle
        for t in range(2):
            right = (t == 0) == right_first
            fresh[t, 0] = n_nodes + right
            fresh[t, 1] = middle if right else node.start
            fresh[t, 2] = node.end if right else middle
            fresh[t, 3] = right_total if right else left_total
            fresh_keys[t] = right_key if right else left_key
        n_nodes += 2
        n_fresh = 2
    for i in range(n_open):  # what best-first growth left open
        feature[slots[i, 0]] = -1
    n_leaves = 0
    for at in range(n_nodes):
        if feature[at] < 0:
            child[at], threshold[at] = n_leaves, 0.0
            n_leaves += 1
    return n_nodes, n_leaves, n_sets


@allocating
def extended(buffer, used, need):
    """The buffer itself if `need` more entries fit, else a copy of twice the length."""
    if used + need <= buffer.shape[0]:
        return buffer
    longer = np.empty(max(2 * buffer.shape[0], used + need), buffer.dtype)
    for i in range(used):
        longer[i] = buffer[i]
    return longer


@allocating
def shortened(buffer, used):
    """The used part of a buffer, in memory of its own size."""
    return buffer if used == buffer.shape[0] else buffer[:used].copy()


@allocating
def grow_trees(first, stop, seed, columns, targets, limits, scratch, draft, levels, masses, groups):
    """Grow the trees numbered first .. stop-1. `groups` is None where every row is drawn on its own."""
    p, n = columns.codes.shape
    n_classes = targets.n_classes
    gains, counts = np.zeros((stop - first, p)), np.zeros((stop - first, 3), np.int64)
    nodes, sizes = np.empty(0, NODE), np.empty(0, np.int32)
    sets, sums = np.empty(0, np.uint16), np.empty(0, np.float64)
    used_nodes, used_sets, used_sums = np.int64(0), np.int64(0), np.int64(0)  # see `depth` in grow_tree
    draws = np.empty(n, np.int32)
    for tree in range(first, stop):
        if groups is None:
            key = draw_sample(seed, tree, targets.drawable, limits, draws)
        else:
            key = draw_groups(seed, tree, targets.drawable, groups, targets.weight, limits, draws)
        m, total = 0, 0
        for row in range(n):
            if draws[row] > 0:
                pack = np.int64(draws[row])
                pack |= pack << 32 if targets.labels[row] == 1 else 0
                scratch.rows[m], scratch.packs[m] = row, pack
                total += pack
                m += 1
                if masses is not None:
                    masses.mass[row] = draws[row] * targets.mass[row]
        root = Node(0, m, total, key)
        n_nodes, n_leaves, n_sets = grow_tree(root, columns, limits, scratch, draft, gains[tree - first], levels, masses)
        counts[tree - first, 0], counts[tree - first, 1], counts[tree - first, 2] = n_nodes, n_leaves, n_sets
        nodes, sizes = extended(nodes, used_nodes, n_nodes), extended(sizes, used_nodes, n_nodes)
        sets, sums = extended(sets, used_sets, n_sets), extended(sums, used_sums, n_leaves * n_classes)
        for i in range(n_nodes):
            nodes[used_nodes + i], sizes[used_nodes + i] = draft.nodes[i], draft.sizes[i]
        for i in range(n_sets):
            sets[used_sets + i] = draft.sets[i]
        for i in range(n_leaves * n_classes):
            sums[used_sums + i] = 0.0
        for i in range(n_nodes):
            if draft.nodes["feature"][i] < 0:
                at = used_sums + draft.nodes["child"][i] * n_classes
                for k in range(draft.spans[i, 0], draft.spans[i, 1]):
                    row = scratch.rows[k]
                    sums[at + targets.labels[row]] += draws[row] * targets.weight[row]
        used_nodes, used_sets = used_nodes + n_nodes, used_sets + n_sets
        used_sums += n_leaves * n_classes
    return Trees(
        shortened(nodes, used_nodes),
        shortened(sizes, used_nodes),
        shortened(sums, used_sums),
        shortened(sets, used_sets),
        counts,
        gains,
    )
