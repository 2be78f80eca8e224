"""The naive forest: random partitions of the unit cube, and sums over how often each coordinate was cut.

A partition is a tree in flat arrays. A node that was cut has its children at `left` and `left + 1`; a leaf has feature -1
and its number in `left`:

    feature  [ 2  0 -1 -1 -1 ]        cut    [ .4 .7  .  .  . ]
    left     [ 1  3  1  0  2 ]        values <= cut go left

Draws are keyed by (seed, partition) and counted, so that a partition does not depend on how many others are drawn. This file
calls no jitted function of another file.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

U = np.uint64
GOLDEN, MIX1, MIX2 = U(0x9E3779B97F4A7C15), U(0xBF58476D1CE4E5B9), U(0x94D049BB133111EB)
S11, S27, S30, S31 = U(11), U(27), U(30), U(31)
ONE = U(1)
UNIT = 2.0**-53

jit = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)


class Room(NamedTuple):
    """What growing a partition of M leaves in p dimensions writes into."""

    feature: NDArray[np.int64]  # (2M - 1,)
    cut: NDArray[np.float64]  # (2M - 1,)
    left: NDArray[np.int64]  # (2M - 1,)
    node: NDArray[np.int64]  # (M,) node of each leaf
    lower: NDArray[np.float64]  # (M, p) faces of each leaf
    upper: NDArray[np.float64]  # (M, p)
    deck: NDArray[np.int64]  # (p,) features, shuffled as they are drawn


@jit
def mixed(x):
    """The finaliser of splitmix64."""
    x = (x ^ (x >> S30)) * MIX1
    x = (x ^ (x >> S27)) * MIX2
    return x ^ (x >> S31)


@jit
def uniform(key, count):
    """Number `count` in [0, 1) of the sequence of a key."""
    return float(mixed(key + (count + ONE) * GOLDEN) >> S11) * UNIT


@jit
def draw_feature(deck, n_strong, mtry, key, count):
    """Draw mtry features without replacement; a uniform one of the strong among them, or of all if none is strong.

    They come in random order: the first strong one is a uniform one, and what would follow it does not matter.
    """
    p = deck.shape[0]
    for k in range(mtry):
        at = k + min(int(uniform(key, count + U(k)) * (p - k)), p - k - 1)
        feature = deck[at]
        deck[at], deck[k] = deck[k], feature
        if feature < n_strong:
            return feature
    return deck[0]


@jit
def grow(seed, number, n_strong, mtry, room):
    """Algorithm 1: cut a uniform leaf M - 1 times."""
    feature, cut, left, node, lower, upper, deck = room
    n_leaves, p = lower.shape
    key = mixed(mixed(seed) + U(number) * GOLDEN)
    for j in range(p):
        deck[j] = j
        lower[0, j], upper[0, j] = 0.0, 1.0
    feature[0], left[0], node[0] = -1, 0, 0
    count = U(0)
    for m in range(1, n_leaves):
        leaf = min(int(uniform(key, count) * m), m - 1)
        j = draw_feature(deck, n_strong, mtry, key, count + U(2))
        a, b = lower[leaf, j], upper[leaf, j]
        where = a + (b - a) * uniform(key, count + ONE)
        count += U(2 + mtry)
        here, child = node[leaf], 2 * m - 1
        feature[here], cut[here], left[here] = j, where, child
        for i in range(p):
            lower[m, i], upper[m, i] = lower[leaf, i], upper[leaf, i]
        upper[leaf, j], lower[m, j] = where, where
        for side, owner in enumerate((leaf, m)):
            feature[child + side], left[child + side] = -1, owner
            node[owner] = child + side


@jit
def leaf_of(point, feature, cut, left):
    """Number of the leaf that holds a point."""
    here = 0
    while feature[here] >= 0:
        here = left[here] + (1 if point[feature[here]] > cut[here] else 0)
    return left[here]


@jit
def leaves_of(points, feature, cut, left, out):
    """Leaf of each point, (n,)."""
    for i in range(points.shape[0]):
        out[i] = leaf_of(points[i], feature, cut, left)


@jit
def count_together(x, z, seed, first, stop, n_strong, mtry, room, hits):
    """Add to `hits` in how many of the partitions first..stop - 1 each pair of rows shares a leaf."""
    for number in range(first, stop):
        grow(seed, number, n_strong, mtry, room)
        for i in range(x.shape[0]):
            mine = leaf_of(x[i], room.feature, room.cut, room.left)
            hits[i] += mine == leaf_of(z[i], room.feature, room.cut, room.left)


@jit
def count_cuts(n_leaves, out):
    """Law of the number of cuts of one cell, out[k] = P(K = k): step m of M - 1 cuts it with probability 1 / m."""
    out[:] = 0.0
    out[0] = 1.0
    for m in range(1, n_leaves):
        hit = 1.0 / m
        for k in range(min(m, out.shape[0] - 1), 0, -1):
            out[k] += hit * (out[k - 1] - out[k])
        out[0] *= 1.0 - hit


@jit
def survive_uniform(z, rate, degrees, term, out):
    """Probability that z is still with 0 after k uniform cuts: 1 - z sum_{i < k} rate^i / i! with rate = -log z.

    Rows are the last axis, here and below, so that the inner loops run over them: z (p, rows), out (p, degrees, rows).
    """
    for j in range(z.shape[0]):
        survival = out[j]
        for r in range(term.shape[0]):
            survival[0, r], term[r] = 1.0, z[j, r]
        for k in range(1, degrees[j] + 1):
            here, before, slope = survival[k], survival[k - 1], rate[j]
            for r in range(term.shape[0]):
                here[r] = max(0.0, before[r] - term[r])
                term[r] *= slope[r] / k


@jit
def mix_products(survival, chance, degrees, factor, power, out):
    """Sum over k of factor[k] times the coefficient of t^k in the product over j of sum_d survival_jd (chance_j t)^d / d!.

    All terms are positive: nothing cancels. `power` (degrees, rows) is room for the coefficients; they are updated in place,
    from the top down, because the new one of t^k needs the old ones below.
    """
    top, n_rows = factor.shape[0] - 1, out.shape[0]
    power[:] = 0.0
    power[0] = 1.0
    reach = 0
    for j in range(survival.shape[0]):
        scale = 1.0
        for d in range(1, degrees[j] + 1):
            scale *= chance[j] / d
            for r in range(n_rows):
                survival[j, d, r] *= scale
        reach = min(top, reach + degrees[j])
        for k in range(reach, 0, -1):
            new = power[k]
            for d in range(1, min(degrees[j], k) + 1):
                old, times = power[k - d], survival[j, d]
                for r in range(n_rows):
                    new[r] += times[r] * old[r]
    out[:] = 0.0
    for k in range(reach + 1):
        for r in range(n_rows):
            out[r] += factor[k] * power[k, r]
