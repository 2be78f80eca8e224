"""The naive forest: its sampler, its exact kernel and the approximations, against definitions, simulation and the record."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb, factorial, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import poisson

from kernelforest.naive import (
    breiman_kernel,
    centred_kernel,
    exact_kernel,
    monte_carlo_kernel,
    naive_weights,
    p_strong,
    p_strong_sum,
    p_weak,
    poisson_kernel,
    proposition_kernel,
    sample_partition,
    translation_error,
    uniform_kernel,
)

quick = settings(max_examples=60, deadline=None, derandomize=True)
FAR = 4.5  # standard errors


@st.composite
def features(draw, most=8):
    """S, W and mtry."""
    S = draw(st.integers(0, most))
    W = draw(st.integers(0 if S else 1, most))
    return S, W, draw(st.integers(1, S + W))


@st.composite
def forests(draw, most_features=8, most_leaves=2000):
    """S, W, mtry and M, and a point of the cube."""
    S, W, mtry = draw(features(most_features))
    coordinate = st.one_of(st.just(0.0), st.just(1.0), st.floats(0.0, 1.0))
    z = draw(st.lists(coordinate, min_size=S + W, max_size=S + W))
    return (S, W, mtry, draw(st.integers(1, most_leaves))), np.array(z)


# ---- the definitions ----


def law_of_cuts(M: int) -> np.ndarray:
    """P(K = k): one cell is cut at step m with probability 1 / m."""
    law = np.array([1.0])
    for m in range(1, M):
        law = np.convolve(law, [1.0 - 1.0 / m, 1.0 / m])
    return law


def chances(S, W, mtry) -> list[float]:
    """Share of all draws of mtry features, and of choices among them, that take each feature."""
    return [p_strong(S, W, mtry)] * S + [p_weak(S, W, mtry)] * W


def sum_over_cuts(law, chance, survive) -> float:
    """Expectation of prod_j survive(j, k_j), k multinomial: every composition, one by one."""
    total = 0.0
    for k in product(range(len(law)), repeat=len(chance)):
        if sum(k) < len(law):
            ways = factorial(sum(k)) / prod(factorial(kj) for kj in k)
            total += (
                law[sum(k)] * ways * prod(c**kj * survive(j, kj) for j, (c, kj) in enumerate(zip(chance, k, strict=True)))
            )
    return total


def stays(z: float, k: int) -> float:
    """P(Z >= k), Z ~ Poisson(-log z): whether z is still with 0 after k uniform cuts."""
    if z == 0.0 or k == 0:
        return 1.0
    return 0.0 if z == 1.0 else float(poisson.sf(k - 1, -np.log(z)))


def on_a_circle(z, S, W, mtry, M, n=128) -> float:
    """The exact kernel by Cauchy's formula: coefficients of the product from its values on a circle."""
    law = law_of_cuts(M)[:60]
    radius = sum(1.0 / m for m in range(1, M))
    t = radius * np.exp(2j * np.pi * np.arange(n) / n)
    values = np.ones(n, complex)
    for c, zj in zip(chances(S, W, mtry), z, strict=True):
        values *= sum((c * t) ** k / factorial(k) * stays(zj, k) for k in range(50))
    k = np.arange(len(law))
    scaled = (np.fft.fft(values) / n)[: len(law)].real
    return float((law * scaled * np.exp([np.log(float(factorial(i))) - i * np.log(radius) for i in k])).sum())


# ---- which feature is cut ----


@quick
@given(features(30))
def test_the_closed_form_of_p_strong_is_the_corrected_sum(S_W_mtry):
    assert p_strong(*S_W_mtry) == pytest.approx(p_strong_sum(*S_W_mtry), abs=1e-14)


@quick
@given(features(30))
def test_the_chances_of_all_features_sum_to_one(S_W_mtry):
    assert sum(chances(*S_W_mtry)) == pytest.approx(1.0)


@quick
@given(st.integers(1, 8), st.integers(1, 12))
def test_p_strong_rises_from_one_in_p_to_one_in_S_as_soon_as_a_strong_feature_must_be_drawn(S, W):
    path = [p_strong(S, W, mtry) for mtry in range(1, S + W + 1)]
    assert path[0] == pytest.approx(1.0 / (S + W))
    assert all(a < b for a, b in pairwise(path[: W + 1]))
    assert all(value == 1.0 / S for value in path[W:])


def test_the_printed_sum_is_no_probability():
    assert p_strong_sum(5, 20, 1, printed=True) == pytest.approx(20 / 25)  # of each of five features
    assert 5 * p_strong_sum(5, 20, 1, printed=True) > 1.0
    assert p_strong_sum(2, 20, 4, printed=True) != pytest.approx(p_strong(2, 20, 4), rel=0.5)


def test_p_strong_is_exact_for_numbers_of_draws_beyond_floating_point():
    assert comb(5000, 2500) > 10**1000
    assert p_strong(1, 4999, 2500) == 0.5
    assert p_strong_sum(500, 5000, 700) == p_strong(500, 5000, 700)
    assert p_strong_sum(0, 5000, 700) == 0.0


# ---- partitions ----


@quick
@given(features(5), st.integers(1, 60), st.integers(0, 2**63))
def test_a_partition_has_M_boxes_that_fill_the_cube_and_hold_their_points(S_W_mtry, M, seed):
    tree = sample_partition(*S_W_mtry, M, seed=seed)
    p = S_W_mtry[0] + S_W_mtry[1]
    assert tree.lower.shape == (M, p)
    assert np.prod(tree.upper - tree.lower, axis=1).sum() == pytest.approx(1.0)
    points = np.random.default_rng(0).uniform(size=(30, p))
    leaves = tree.leaves(points)
    assert (tree.lower[leaves] <= points).all()
    assert (points <= tree.upper[leaves]).all()
    assert sorted(tree.left[tree.feature < 0]) == list(range(M))


def test_features_are_cut_as_often_as_their_chance_says():
    S, W, mtry, M = 3, 4, 2, 4001
    counts = np.bincount(sample_partition(S, W, mtry, M, seed=1).feature + 1)[1:]
    expected = (M - 1) * np.array(chances(S, W, mtry))
    assert (((counts - expected) ** 2) / expected).sum() < 25.0  # chi-squared, six degrees of freedom


def test_cuts_are_uniform_within_their_leaf():
    first = np.array([sample_partition(1, 0, 1, 2, seed=s).cut[0] for s in range(4000)])
    assert first.mean() == pytest.approx(0.5, abs=FAR * np.sqrt(1 / 12 / 4000))
    assert (first**2).mean() == pytest.approx(1 / 3, abs=FAR * np.sqrt(4 / 45 / 4000))


def test_the_cell_of_the_corner_is_cut_as_often_as_leaves_are_uniform():
    M = 50
    depths = []
    for seed in range(1000):
        tree, node, depth = sample_partition(2, 2, 1, M, seed=seed), 0, 0
        while tree.feature[node] >= 0:
            node, depth = tree.left[node], depth + 1
        depths.append(depth)
    law = law_of_cuts(M)
    mean = law @ np.arange(M)
    sd = np.sqrt(law @ (np.arange(M) - mean) ** 2)
    assert np.mean(depths) == pytest.approx(mean, abs=FAR * sd / np.sqrt(1000))


def test_a_seed_decides_everything():
    one, two, other = (sample_partition(2, 3, 2, 40, seed=s) for s in (7, 7, 8))
    assert (one.cut == two.cut).all()
    assert not (one.cut == other.cut).all()
    pair = np.full((1, 5), 0.2)
    assert monte_carlo_kernel(pair, 2, 3, 2, 40, n_partitions=50) == monte_carlo_kernel(pair, 2, 3, 2, 40, n_partitions=50)


# ---- the exact kernel ----


@settings(max_examples=40, deadline=None, derandomize=True)
@given(forests(most_features=2, most_leaves=7))
def test_the_exact_kernel_is_its_definition(forest_z):
    forest, z = forest_z
    slow = sum_over_cuts(law_of_cuts(forest[3]), chances(*forest[:3]), lambda j, k: stays(z[j], k))
    assert exact_kernel(z, *forest) == pytest.approx(slow, abs=1e-13)


@pytest.mark.parametrize("forest", [(10, 40, 7, 1000), (2, 20, 4, 100), (1, 49, 50, 5000), (5, 45, 1, 1000)])
def test_the_exact_kernel_of_many_features_and_leaves_is_a_cauchy_integral(forest):
    for spread in (1.0, 0.2, 0.02):
        z = np.random.default_rng(1).uniform(0, spread, size=forest[0] + forest[1])
        assert exact_kernel(z, *forest) == pytest.approx(on_a_circle(z, *forest), abs=1e-12)


@pytest.mark.parametrize("forest", [(2, 20, 4, 100), (5, 5, 3, 300), (0, 3, 1, 40), (1, 3, 2, 2)])
def test_the_exact_kernel_is_what_partitions_do(forest):
    z = np.random.default_rng(2).uniform(0, [[0.05], [0.2], [0.6], [1.0]], size=(4, forest[0] + forest[1]))
    found = monte_carlo_kernel(z, *forest, n_partitions=4000)
    assert (np.abs(found.value - exact_kernel(z, *forest)) <= FAR * found.error + 2.0 / 4000).all()


@quick
@given(forests())
def test_the_kernel_is_a_probability_that_falls_with_distance_and_leaves(forest_z):
    (S, W, mtry, M), z = forest_z
    k = exact_kernel(z, S, W, mtry, M)
    assert 0.0 <= k <= 1.0
    assert exact_kernel(z / 2, S, W, mtry, M) >= k - 1e-13
    assert exact_kernel(z, S, W, mtry, M + 1) <= k + 1e-13
    assert exact_kernel(np.zeros_like(z), S, W, mtry, M) == pytest.approx(1.0, abs=1e-12)


@quick
@given(forests())
def test_the_proposition_is_never_too_small(forest_z):
    forest, z = forest_z
    assert proposition_kernel(z, *forest) >= exact_kernel(z, *forest) - 1e-12


def test_the_poisson_form_is_far_closer_than_the_proposition_on_average():
    rng = np.random.default_rng(0)
    errors = []
    for _ in range(200):
        S, W, M = rng.integers(1, 10), rng.integers(0, 30), rng.integers(10, 3000)
        z = rng.uniform(size=(10, S + W)) * rng.uniform(size=(10, 1))
        forest = (int(S), int(W), int(rng.integers(1, S + W + 1)), int(M))
        exact = exact_kernel(z, *forest)
        errors.append([np.abs(k(z, *forest) - exact).mean() for k in (poisson_kernel, proposition_kernel)])
    closer, farther = np.mean(errors, axis=0)
    assert closer < farther / 4


@quick
@given(forests(most_features=4, most_leaves=300))
def test_the_poisson_form_is_a_product_of_chances_that_one_poisson_number_is_at_most_another(forest_z):
    (S, W, mtry, M), z = forest_z
    rate = sum(1.0 / m for m in range(1, M))
    slow = prod(
        sum(poisson.pmf(k, c * rate) * stays(zj, k) for k in range(60)) for c, zj in zip(chances(S, W, mtry), z, strict=True)
    )
    assert poisson_kernel(z, S, W, mtry, M) == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize(
    ("forest", "z", "exact", "proposition", "corrected"),
    [
        ((2, 20, 4, 100), [0.1] * 22, 0.514, 0.631, 0.520),
        ((2, 20, 4, 100), [0.5] * 22, 0.050, 0.100, 0.069),
        ((5, 5, 3, 1000), [0.1] * 10, 0.259, 0.501, 0.268),
        ((10, 40, 7, 1000), [0.25] + [0.0] * 49, 0.837, 0.869, 0.837),
    ],
)
def test_the_recorded_values_of_proposition_1_come_out(forest, z, exact, proposition, corrected):
    assert float(exact_kernel(z, *forest)) == pytest.approx(exact, abs=5e-4)
    assert float(proposition_kernel(z, *forest)) == pytest.approx(proposition, abs=5e-4)
    assert float(poisson_kernel(z, *forest)) == pytest.approx(corrected, abs=5e-4)


def test_kernels_keep_the_shape_of_their_points():
    z = np.random.default_rng(0).uniform(size=(2, 150, 4))
    for kernel in (exact_kernel, proposition_kernel, poisson_kernel):
        whole = kernel(z, 1, 3, 2, 30)
        assert whole.shape == (2, 150)
        assert whole[1, 149] == pytest.approx(float(kernel(z[1, 149], 1, 3, 2, 30)), rel=1e-12)
    assert monte_carlo_kernel(z, 1, 3, 2, 3, n_partitions=5).value.shape == (2, 150)


def test_without_strong_features_the_kernel_is_breimans_for_every_mtry():
    z = np.random.default_rng(0).uniform(size=(5, 3))
    for mtry in (1, 2, 3):
        assert np.allclose(proposition_kernel(z, 0, 3, mtry, 20), breiman_kernel(z, 20))
    assert np.allclose(breiman_kernel(z, 20), np.exp(-np.log(20) / 3 * z.sum(axis=1)))
    assert breiman_kernel(0.3, 5) == breiman_kernel([0.3], 5) == pytest.approx(np.exp(-np.log(5) * 0.3))


def test_a_forest_of_one_leaf_separates_nothing():
    for kernel in (exact_kernel, proposition_kernel, poisson_kernel):
        assert kernel([1.0, 1.0], 1, 1, 1, 1) == 1.0
    assert monte_carlo_kernel([1.0, 1.0], 1, 1, 1, 1, n_partitions=3).value == 1.0


def test_naive_weights_are_the_slopes_of_the_proposition():
    weights = naive_weights(2, 3, 2, 50)
    assert np.allclose(np.exp(-weights), proposition_kernel(np.eye(5), 2, 3, 2, 50))


# ---- away from the corner ----


def test_translation_is_exact_from_the_corner_and_too_small_inside():
    p, forest = 4, (1, 3, 2, 60)
    z = np.full((2, p), 0.3)
    corner = translation_error(np.zeros(p), z, *forest, n_partitions=4000)
    assert (np.abs(corner.difference) <= FAR * corner.error).all()
    inside = translation_error(np.full(p, 0.35), np.full(p, 0.65), *forest, n_partitions=4000)
    assert inside.shifted == pytest.approx(corner.shifted[0])
    assert inside.difference > FAR * inside.error  # a cut takes one side of the cell only, so the rest is longer
    assert "1 pairs" in str(inside)


def test_the_kernel_is_symmetric_and_that_of_a_mirrored_cube():
    x, z, forest = np.full(3, 0.1), np.array([0.3, 0.2, 0.4]), (1, 2, 2, 30)
    there, back, mirrored = (
        monte_carlo_kernel(b, *forest, x=a, n_partitions=3000, seed=s)
        for s, (a, b) in enumerate([(x, z), (z, x), (1 - x, 1 - z)])
    )
    assert abs(there.value - back.value) < FAR * np.hypot(there.error, back.error)
    assert abs(there.value - mirrored.value) < FAR * np.hypot(there.error, mirrored.error)


# ---- Scornet's forests ----


def survives(x, z, depth, centred, rng) -> bool:
    """Whether x and z share the leaf of x after `depth` cuts of it along uniform features."""
    lower, upper = np.zeros(len(x)), np.ones(len(x))
    for _ in range(depth):
        j = rng.integers(len(x))
        cut = (lower[j] + upper[j]) / 2 if centred else rng.uniform(lower[j], upper[j])
        if (x[j] <= cut) != (z[j] <= cut):
            return False
        lower[j], upper[j] = (lower[j], cut) if x[j] <= cut else (cut, upper[j])
    return True


@pytest.mark.parametrize(("x", "z"), [((0.0, 0.0), (0.1, 0.3)), ((0.0, 0.0, 0.0), (0.01, 0.6, 0.0))])
def test_scornets_kernels_are_what_their_forests_do(x, z):
    rng, n, depth = np.random.default_rng(3), 3000, 4
    for kernel, centred in ((centred_kernel, True), (uniform_kernel, False)):
        share = np.mean([survives(x, z, depth, centred, rng) for _ in range(n)])
        assert share == pytest.approx(float(kernel(x, z, depth)), abs=FAR * np.sqrt(0.25 / n))


@quick
@given(st.integers(0, 4), st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=3))
def test_the_centred_kernel_is_its_definition(depth, pairs):
    x, z = np.array(pairs).T

    def together(j, k):
        return float(max(np.ceil(2**k * x[j]), 1) == max(np.ceil(2**k * z[j]), 1))

    law = np.arange(depth + 1) == depth
    slow = sum_over_cuts(law, [1 / len(x)] * len(x), together)
    assert centred_kernel(x, z, depth) == pytest.approx(slow, abs=1e-12)


# ---- bad arguments ----


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mtry": 6}, "mtry must be at most S \\+ W = 5, got 6"),
        ({"mtry": 0}, "mtry must be an integer >= 1, got 0"),
        ({"mtry": 1.5}, "got 1.5"),
        ({"S": -1}, "S must be an integer >= 0, got -1"),
        ({"W": True}, "W must be an integer >= 0, got True"),
        ({"S": 0, "W": 0}, "S \\+ W must be at least 1"),
        ({"M": 0}, r"M must be an integer (>= 1|from 1 to 10+), got 0"),
        ({"z": [0.1] * 4}, "z must have shape \\(..., 5\\), got \\(4,\\)"),
        ({"z": 0.5}, "z must have shape"),
        ({"z": [0.1, 0.2, 0.3, 0.4, 1.5]}, "z must be within \\[0, 1\\], got 1.5"),
        ({"z": [0.1, 0.2, 0.3, 0.4, np.nan]}, "got nan"),
    ],
)
def test_arguments_that_make_no_sense_are_named(change, message):
    arguments = {"z": [0.1] * 5, "S": 2, "W": 3, "mtry": 2, "M": 10} | change
    for kernel in (exact_kernel, proposition_kernel, poisson_kernel, monte_carlo_kernel):
        with pytest.raises(ValueError, match=message):
            kernel(**arguments)


def test_other_arguments_that_make_no_sense_are_named():
    with pytest.raises(ValueError, match="n_partitions must be an integer >= 1, got 0"):
        monte_carlo_kernel([0.5], 1, 0, 1, 2, n_partitions=0)
    with pytest.raises(ValueError, match="seed must be an integer from 0 to 18446744073709551615, got -1"):
        sample_partition(1, 0, 1, 2, seed=-1)
    with pytest.raises(ValueError, match="depth must be an integer from 0 to 160, got -1"):
        centred_kernel([0.5], [0.5], -1)
    with pytest.raises(ValueError, match="x and z must be as many points"):
        uniform_kernel(np.zeros((3, 2)), np.zeros((2, 2)), 1)
    with pytest.raises(ValueError, match="points must have shape"):
        sample_partition(1, 0, 1, 2).leaves([[0.5, 0.5]])
