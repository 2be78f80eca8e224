"""The paper's naive forest, whose kernel is known: numbers of features and leaves enter; partitions and kernels leave.

The cube [0, 1]^p has S strong features, then W weak ones. Start from one leaf. Until there are M: take a uniform leaf, draw
mtry features without replacement, take a uniform one of the strong among them (or of all drawn if none is strong), and cut
the leaf at a uniform place along it. K(x, z) is the probability that x and z end in the same leaf. With M leaves there are
M - 1 cuts; the loop printed as Algorithm 1 makes one more.

K(0, z) is known exactly. The cell of 0 is cut at step m with probability 1 / m, each time along feature j with probability
p_j, and k_j cuts along j leave z_j with 0 with probability P(Z_j >= k_j), Z_j ~ Poisson(-log z_j). So

    K(0, z) = sum_k P(K = k) sum_{k_1 + ... + k_p = k} k! prod_j p_j^{k_j} / k_j! P(Z_j >= k_j),

and `cell_cuts` takes these sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, log
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernelforest._engine import naive as engine
from kernelforest.cell_cuts import (
    MOST_CUTS,
    Cuts,
    cut_law,
    degrees,
    even_cuts,
    flat_rows,
    harmonic,
    minus_log,
    mix,
    mix_points,
)
from kernelforest.checks import check_whole
from kernelforest.compiling import announced_compiling

Floats = NDArray[np.float64]
MOST_LEAVES = 10**8  # for the exact kernel, which takes time in proportion; approximations take any number


@dataclass(frozen=True, eq=False)
class Partition:
    """One tree of the naive forest. Node 0 is the root; a leaf has feature -1, and its number in `left`."""

    feature: NDArray[np.int64]  # (2M - 1,)
    cut: Floats  # (2M - 1,) values <= cut go left
    left: NDArray[np.int64]  # (2M - 1,) first child; the other one follows it
    lower: Floats  # (M, p) faces of the leaves
    upper: Floats  # (M, p)

    @announced_compiling()
    def leaves(self, points: ArrayLike) -> NDArray[np.int64]:
        """Number of the leaf that holds each point of shape (..., p).

        >>> tree = sample_partition(S=1, W=1, mtry=1, M=5)
        >>> tree.leaves((tree.lower + tree.upper) / 2)
        array([0, 1, 2, 3, 4])
        """
        table = _read_points("points", points, self.lower.shape[1])
        out = np.empty(table.shape[:-1], np.int64)
        engine.leaves_of(flat_rows(table), self.feature, self.cut, self.left, out.reshape(-1))
        return out


class Estimate(NamedTuple):
    """A kernel as the share of random partitions in which two points share a leaf."""

    value: Floats
    error: Floats  # standard error of the share


@dataclass(frozen=True, eq=False)
class TranslationError:
    """How far K(x, z) is from K(0, |x - z|), pair by pair."""

    simulated: Floats  # K(x, z)
    error: Floats  # its standard error
    shifted: Floats  # K(0, |x - z|), exact

    @property
    def difference(self) -> Floats:
        """K(x, z) minus K(0, |x - z|). Positive inside the cube: there a cut takes only one side of a cell away."""
        return self.simulated - self.shifted

    def __str__(self) -> str:
        worst = int(np.abs(self.difference).argmax())
        return (
            f"K(x, z) - K(0, |x - z|) over {self.difference.size} pairs: mean {self.difference.mean():+.3f}, "
            f"largest {self.difference.flat[worst]:+.3f} ± {self.error.flat[worst]:.3f}"
        )


# ---- which feature is cut ----


def p_strong(S: int, W: int, mtry: int) -> float:
    """Probability that a cut goes along a given strong feature: (1 - C(W, mtry) / C(S + W, mtry)) / S.

    The paper prints a sum with C(W, mtry - k + 1) where C(W, mtry - k) is meant: of mtry features drawn, k of them strong,
    mtry - k are weak. `p_strong_sum` is that sum, corrected or as printed. Zero if there is no strong feature.

    >>> p_strong(S=2, W=3, mtry=1), p_strong(S=2, W=3, mtry=4)
    (0.2, 0.5)
    """
    _check_features(S, W, mtry)
    everything = comb(S + W, mtry)
    return (everything - comb(W, mtry)) / (S * everything) if S else 0.0


def p_weak(S: int, W: int, mtry: int) -> float:
    """Probability that a cut goes along a given weak feature, (1 - S p_S) / W; zero if there is none.

    >>> p_weak(S=2, W=3, mtry=1), p_weak(S=2, W=3, mtry=4)
    (0.2, 0.0)
    """
    _check_features(S, W, mtry)
    return comb(W, mtry) / (W * comb(S + W, mtry)) if W else 0.0


def p_strong_sum(S: int, W: int, mtry: int, printed: bool = False) -> float:
    """The sum over the number k of strong features drawn that Proposition 1 gives for p_S, corrected or as printed.

    As printed it is no probability: with mtry = 1 it is W / p and not 1 / p.

    >>> p_strong_sum(S=2, W=3, mtry=1), p_strong_sum(S=2, W=3, mtry=1, printed=True)
    (0.2, 0.6)
    """
    _check_features(S, W, mtry)
    # C(S - 1, k - 1) / k = C(S, k) / S: all terms are whole numbers, and only their ratio has to fit a float
    terms = (comb(S, k) * comb(W, mtry - k + printed) for k in range(1, min(S, mtry) + 1))
    return sum(terms) / (S * comb(S + W, mtry)) if S else 0.0


def naive_weights(S: int, W: int, mtry: int, M: int) -> Floats:
    """Weights of the Laplace kernel that Proposition 1 makes of the naive forest: log M times p_S or p_W.

    >>> naive_weights(S=1, W=2, mtry=3, M=1).tolist()
    [0.0, 0.0, 0.0]
    """
    return log(check_whole("M", M, 1)) * _chances(S, W, mtry)


# ---- simulation ----


@announced_compiling()
def sample_partition(S: int, W: int, mtry: int, M: int, *, seed: int = 0) -> Partition:
    """Draw one tree of the naive forest.

    Parameters
    ----------
    S, W : int
        Numbers of strong and weak features, the strong first.
    mtry : int
        Features drawn for each cut.
    M : int
        Leaves.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> tree = sample_partition(S=1, W=1, mtry=2, M=4)
    >>> float(np.prod(tree.upper - tree.lower, axis=1).sum())
    1.0
    >>> set(tree.feature.tolist())  # a weak feature is never cut if both are drawn
    {0, -1}

    """
    _check_features(S, W, mtry)
    room = _room(S + W, M)
    with np.errstate(over="ignore"):  # keys wrap around; seen without the JIT only
        engine.grow(np.uint64(check_whole("seed", seed, 0, 2**64 - 1)), 0, S, mtry, room)
    return Partition(room.feature, room.cut, room.left, room.lower, room.upper)


@announced_compiling()
def monte_carlo_kernel(
    z: ArrayLike,
    S: int,
    W: int,
    mtry: int,
    M: int,
    *,
    x: ArrayLike = 0.0,
    n_partitions: int = 10_000,
    seed: int = 0,
) -> Estimate:
    """Share of random partitions in which x and z share a leaf, with its standard error.

    Parameters
    ----------
    z, x : arrays of shape (..., p)
        Pairs of points of the cube; x is the corner 0 if left out.
    S, W, mtry, M : int
        The naive forest, as in `sample_partition`.
    n_partitions : int
        Partitions to draw; all pairs are looked up in each of them.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> value, error = monte_carlo_kernel([[0.25, 0.0]], S=1, W=1, mtry=2, M=2)  # one cut along the first feature
    >>> bool(abs(value[0] - 0.75) < 4 * error[0])
    True

    """
    _check_features(S, W, mtry)
    check_whole("n_partitions", n_partitions, 1)
    ends, starts = _pairs(x, z, S + W)
    hits = np.zeros(ends.shape[:-1], np.int64)
    with np.errstate(over="ignore"):
        engine.count_together(
            flat_rows(starts),
            flat_rows(ends),
            np.uint64(check_whole("seed", seed, 0, 2**64 - 1)),
            0,
            n_partitions,
            S,
            mtry,
            _room(S + W, M),
            hits.reshape(-1),
        )
    value = hits / n_partitions
    return Estimate(value, np.sqrt(value * (1.0 - value) / n_partitions))


def translation_error(
    x: ArrayLike, z: ArrayLike, S: int, W: int, mtry: int, M: int, *, n_partitions: int = 10_000, seed: int = 0
) -> TranslationError:
    """Compare K(x, z), simulated, with K(0, |x - z|), which is what one uses instead.

    >>> print(translation_error([0.0, 0.0], [0.5, 0.5], S=1, W=1, mtry=1, M=1))
    K(x, z) - K(0, |x - z|) over 1 pairs: mean +0.000, largest +0.000 ± 0.000
    """
    simulated = monte_carlo_kernel(z, S, W, mtry, M, x=x, n_partitions=n_partitions, seed=seed)
    ends, starts = _pairs(x, z, S + W)
    return TranslationError(*simulated, exact_kernel(np.abs(starts - ends), S, W, mtry, M))


# ---- the kernel from the corner: exact, and approximations ----


def exact_kernel(z: ArrayLike, S: int, W: int, mtry: int, M: int) -> Floats:
    """The kernel K(0, z) of the naive forest, exact to about 1e-13.

    `z` are points of the cube, (..., p) with the strong features first. The first call with an M takes time in proportion to
    it, up to a minute for the 1e8 that are allowed; `poisson_kernel` takes up to 1e30.

    >>> exact_kernel([[0.25, 0.9], [1.0, 0.0]], S=1, W=1, mtry=2, M=2)  # one cut along the first feature
    array([0.75, 0.  ])
    """
    chance, law = _chances(S, W, mtry), cut_law(check_whole("M", M, 1, MOST_LEAVES))
    cuts = Cuts(chance, degrees(chance * harmonic(M - 1), len(law) - 1), law)
    return mix_points(_read_points("z", z, S + W), cuts)


def proposition_kernel(z: ArrayLike, S: int, W: int, mtry: int, M: int) -> Floats:
    """Proposition 1, with p_S corrected: K(0, z) is about exp(-log M (p_S sum of strong z + p_W sum of weak z)).

    It is never too small, and good only where p_j log M is small and few coordinates move.

    >>> proposition_kernel([0.5], S=1, W=0, mtry=1, M=4)
    array(0.5)
    """
    weights = naive_weights(S, W, mtry, M)
    return np.asarray(np.exp(-_read_points("z", z, len(weights)) @ weights))


def poisson_kernel(z: ArrayLike, S: int, W: int, mtry: int, M: int) -> Floats:
    """K(0, z) with independent Poisson numbers of cuts: prod_j P(N_j <= Z_j).

    N_j ~ Poisson(p_j (1 + 1/2 + ... + 1/(M - 1))) are the cuts along feature j, and Z_j ~ Poisson(-log z_j) those that z_j
    survives. On average far closer than the exponential of Proposition 1.

    >>> -np.log(poisson_kernel([1.0], S=1, W=0, mtry=1, M=3))  # no cut at all, of 1 + 1/2 expected
    np.float64(1.5)
    """
    rates = _chances(S, W, mtry) * harmonic(check_whole("M", M, 1, 10**30) - 1)  # MOST_CUTS are enough
    table = _read_points("z", z, S + W)
    rate = minus_log(table)
    pmf = np.exp(-rates) * np.ones_like(table)  # P(N = k), then times P(Z >= k)
    term, survival, total = table.copy(), np.ones_like(table), pmf.copy()
    for k in range(1, int(degrees(rates, MOST_CUTS).max()) + 1):
        survival = np.maximum(survival - term, 0.0)
        term *= rate / k
        pmf *= rates / k
        total += pmf * survival
    return np.asarray(total.prod(axis=-1))


def breiman_kernel(z: ArrayLike, M: int) -> Floats:
    """Proposition 1 without strong features, as Breiman (2000) had it: exp(-log M / p times the sum of z).

    A number is a point with one feature.

    >>> breiman_kernel([0.5, 0.5], M=4), breiman_kernel(0.5, M=4)
    (array(0.5), array(0.5))
    """
    points = np.atleast_1d(z)
    return proposition_kernel(points, 0, points.shape[-1], 1, M)


# ---- Scornet's forests: every leaf is cut, `depth` times, along uniform features ----


def centred_kernel(x: ArrayLike, z: ArrayLike, depth: int) -> Floats:
    """The kernel of the centred forest, whose leaves are cut in the middle (Scornet 2016), exact for all pairs.

    >>> centred_kernel([0.1, 0.1], [0.1, 0.9], depth=1)  # the second feature, cut with probability 1/2, separates
    array(0.5)
    """
    check_whole("depth", depth, 0, MOST_CUTS)
    ends, starts = _pairs(x, z, None)
    shared = np.zeros(ends.shape, np.int64)  # cuts of one coordinate that both survive
    for k in range(1, depth + 1):
        cells = (np.maximum(np.ceil(np.ldexp(points, k)), 1.0) for points in (starts, ends))
        shared += np.equal(*cells)
    powers = np.arange(depth + 1)[:, None]
    return mix(shared, even_cuts(ends.shape[-1], depth), lambda some: (powers <= some[:, None, :]).astype(np.float64))


def uniform_kernel(x: ArrayLike, z: ArrayLike, depth: int) -> Floats:
    """The kernel of the uniform forest, whose leaves are cut uniformly (Scornet 2016): K(0, |x - z|).

    Exact where x is a corner of the cube in every coordinate in which the two differ; his approximation elsewhere.

    >>> uniform_kernel([0.0], [0.25], depth=1)
    array(0.75)
    """
    check_whole("depth", depth, 0, MOST_CUTS)
    ends, starts = _pairs(x, z, None)
    return mix_points(np.abs(ends - starts), even_cuts(ends.shape[-1], depth))


# ---- reading ----


def _chances(S: int, W: int, mtry: int) -> Floats:
    """Probability of each feature, given a cut."""
    return np.repeat([p_strong(S, W, mtry), p_weak(S, W, mtry)], [S, W])


def _room(p: int, M: int) -> engine.Room:
    nodes = 2 * check_whole("M", M, 1) - 1
    ints = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(M, np.int64), np.empty(p, np.int64)
    return engine.Room(ints[0], np.zeros(nodes), ints[1], ints[2], np.empty((M, p)), np.empty((M, p)), ints[3])


def _pairs(x: ArrayLike, z: ArrayLike, p: int | None) -> tuple[Floats, Floats]:
    """Second and first points of pairs, of one shape; a number stands for a point with all coordinates equal."""
    ends = _read_points("z", z, p)
    starts = _read_points("x", np.broadcast_to(x, ends.shape[-1:]) if np.ndim(x) == 0 else x, ends.shape[-1])
    try:
        ends, starts = np.broadcast_arrays(ends, starts)
    except ValueError:
        raise ValueError(f"x and z must be as many points, got shapes {starts.shape} and {ends.shape}") from None
    return ends, starts


def _read_points(name: str, points: ArrayLike, p: int | None) -> Floats:
    table = np.asarray(points, dtype=np.float64)
    if table.ndim == 0 or (p is not None and table.shape[-1] != p) or table.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., {'p' if p is None else p}), got {table.shape}")
    wrong = ~((table >= 0.0) & (table <= 1.0))
    if wrong.any():
        raise ValueError(f"{name} must be within [0, 1], got {table[wrong][0]}")
    return table


def _check_features(S: int, W: int, mtry: int) -> None:
    p = check_whole("S", S, 0) + check_whole("W", W, 0)
    if p < 1:
        raise ValueError(f"S + W must be at least 1, got S={S} and W={W}")
    if check_whole("mtry", mtry, 1) > p:
        raise ValueError(f"mtry must be at most S + W = {p}, got {mtry}")
