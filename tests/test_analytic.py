"""The naive kernel that a forest resembles: strong features are found, and random cuts have none."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.ensemble import RandomForestClassifier

from kernelforest import ForestKernel, KernelForestClassifier, naive
from kernelforest.analytic import _survival, find_strong, fit_cuts, fit_naive, leaves_of, mean_kernel

quick = settings(max_examples=50, deadline=None, derandomize=True)


def table(n=600, p=12, n_strong=3, seed=0):
    """Uniform features, the first of which decide the class."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, p))
    logit = 6.0 * (X[:, :n_strong] - 0.5).sum(axis=1)
    return X, (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-logit))).astype(int)


@cache
def forest(**rules):
    return KernelForestClassifier.untuned(100, random_state=0, **rules).fit(*table())


@cache
def fitted(**rules):
    return fit_naive(forest(**rules).kernel_, n_rows=60)


# ---- forests with a known answer ----


def test_the_features_that_decide_the_class_are_the_strong_ones():
    found = fitted(max_features="all")
    assert found.strong.tolist() == [True] * 3 + [False] * 9
    assert (found.S, found.W) == (3, 9)
    assert found.p_strong > 5 * found.p_weak
    assert found.S * found.p_strong > 0.6
    assert found.r2 > 0.85


def test_random_cuts_have_no_strong_feature_and_about_equal_weights():
    found = fitted(splitter="random")
    assert found.S == 0
    assert found.weights.max() < 1.5 * found.weights.min()
    assert found.p_weak == pytest.approx(1 / 12)
    assert found.r2 > 0.95


def test_a_naive_forest_like_one_with_random_cuts_has_about_the_square_of_its_leaves():
    for leaf_size in (5, 20, 60):
        found = fitted(splitter="random", leaf_size=leaf_size)
        assert 1.5 < np.log(found.M) / np.log(found.n_leaves) < 2.5


def test_more_candidates_put_more_weight_on_strong_features():
    shares = [fitted(max_features=m).shares[:3].sum() for m in (1, 4, 12)]
    assert shares[0] < shares[1] < shares[2]
    assert shares[0] < 0.5


def test_larger_leaves_are_fewer_leaves():
    leaves = [fitted(max_features=4, leaf_size=s) for s in (1, 20, 100)]
    assert leaves[0].M > leaves[1].M > leaves[2].M
    assert leaves[0].n_leaves == pytest.approx((forest(max_features=4, leaf_size=1).node_counts_ + 1).mean() / 2)


def test_the_forest_of_another_library_is_asked_step_by_step():
    X, y = table(300, 6, 2)
    forest = RandomForestClassifier(100, max_features=None, random_state=0).fit(X, y)
    found = fit_naive(ForestKernel.from_model(forest, X, y), n_rows=30)
    assert found.strong.tolist() == [True] * 2 + [False] * 4
    assert found.n_leaves == pytest.approx(np.mean([tree.get_n_leaves() for tree in forest.estimators_]))


def test_steps_and_faces_give_the_same_profile():
    model, (X, _) = forest(leaf_size=20), table()
    exact = fit_naive(model.kernel_, X[:5], n_steps=4)
    asked = fit_naive(ForestKernel.from_model((model.apply(X), model.apply), X), X[:5], n_steps=4)
    np.testing.assert_allclose(asked.profile, exact.profile)
    assert asked.n_leaves == pytest.approx(exact.n_leaves)


# ---- profiles ----


def test_the_averaged_profile_is_the_mean_of_exact_profiles():
    kernel, (X, _) = forest().kernel_, table()
    rows = X[:5]
    found = fit_naive(kernel, rows, n_steps=4)
    for j in (0, 5):
        low, high = X[:, j].min(), X[:, j].max()
        for i, u in enumerate(found.u):
            values = [
                kernel.profile(row, j).at(sign * u * (high - low))
                for row in rows
                for sign in (1, -1)
                if low <= row[j] + sign * u * (high - low) <= high
            ]
            if values:
                assert found.profile[j, i] == pytest.approx(np.mean(values))
            else:
                assert np.isnan(found.profile[j, i])


def test_quantiles_do_not_see_the_scale_of_a_feature():
    X, y = table(300, 4)
    plain, bent = (
        fit_naive(KernelForestClassifier.untuned(30, random_state=0).fit(f(X), y).kernel_, scale="quantile", n_rows=30)
        for f in (np.asarray, lambda X: np.exp(5 * X))
    )
    assert np.allclose(plain.weights, bent.weights)
    assert np.isnan(plain.unit).all()


def test_ranges_do_not_see_the_unit_of_a_feature():
    X, y = table(300, 4)
    plain, other = (
        fit_naive(KernelForestClassifier.untuned(30, random_state=0).fit(X * unit, y).kernel_, n_rows=30)
        for unit in (1.0, 1024.0)
    )
    assert np.allclose(plain.weights, other.weights)
    assert np.allclose(other.unit, 1024.0 * plain.unit)


def test_categorical_constant_and_missing_values_are_left_out():
    X, y = table(300, 4)
    frame = pd.DataFrame(X, columns=list("abcd")).assign(same=1.0, kind=np.where(X[:, 3] > 0.5, "u", "v"))
    frame.loc[::7, "a"] = np.nan
    model = KernelForestClassifier.untuned(40, random_state=0, categorical_features=["kind"]).fit(frame, y)
    for found in (fit_naive(model.kernel_), fit_naive(model.kernel_, frame[:20])):
        assert np.isnan(found.weights[5])
        assert found.weights[4] == 0.0
        assert (found.weights[:4] > 0).all()
        assert found.S + found.W == 5
        assert np.nansum(found.shares) == pytest.approx(1.0)


# ---- the parts ----


@quick
@given(st.floats(0.02, 0.98), st.integers(0, 6))
def test_the_mean_kernel_is_that_of_cuts_in_what_is_left(u, n_cuts):
    rng = np.random.default_rng(0)
    lower = rng.uniform(0.0, 1.0 - u, 20_000)
    upper, left, right, together = lower + u, np.zeros(20_000), np.ones(20_000), np.ones(20_000, dtype=bool)
    for _ in range(n_cuts):
        cut = rng.uniform(left, right)
        together &= (cut <= lower) | (cut >= upper)
        left, right = np.where(cut <= lower, cut, left), np.where(cut >= upper, cut, right)
    assert _survival(np.array([u]))[n_cuts, 0] == pytest.approx(together.mean(), abs=0.018)


@quick
@given(arrays(float, st.integers(1, 5), elements=st.floats(0, 12)))
def test_cuts_are_found_again(cuts):
    u = np.arange(1, 11) / 10
    found, r2 = fit_cuts(u, np.stack([mean_kernel(u, each) for each in cuts]), np.full((len(cuts), 10), 3))
    assert found == pytest.approx(cuts, abs=1e-3)
    assert r2 == pytest.approx(1.0, abs=1e-3) or cuts.max() < 1e-6


@pytest.mark.parametrize("M", [1, 2, 3, 10, 1000])
def test_a_row_of_a_naive_forest_sees_a_harmonic_number_of_cuts(M):
    assert leaves_of(sum(1.0 / k for k in range(1, M))) == pytest.approx(M)


@pytest.mark.parametrize(("S", "W", "mtry", "M"), [(2, 2, 2, 100), (2, 8, 4, 100), (2, 4, 1, 1000)])
def test_a_naive_forest_is_recognised(S, W, mtry, M):
    rng, u = np.random.default_rng(0), np.arange(1, 11) / 10
    profile, count = np.zeros((S + W, 10)), np.zeros((S + W, 10), int)
    for j in range(S + W):
        x = np.repeat(rng.uniform(size=(150, 1, S + W)), 10, axis=1)
        z = x.copy()
        z[:, :, j] += u
        inside = z[:, :, j] <= 1.0
        similar = np.zeros(inside.shape)
        similar[inside] = naive.monte_carlo_kernel(z[inside], S, W, mtry, M, x=x[inside], n_partitions=1000).value
        count[j] = inside.sum(axis=0)
        profile[j] = similar.sum(axis=0) / np.maximum(count[j], 1)
    cuts, r2 = fit_cuts(u, profile, count)
    chances = [naive.p_strong(S, W, mtry)] * S + [naive.p_weak(S, W, mtry)] * W
    assert leaves_of(cuts.sum()) == pytest.approx(M, rel=0.25)
    assert cuts / cuts.sum() == pytest.approx(np.array(chances), rel=0.15)
    assert r2 > 0.99


def test_distances_at_which_nothing_is_known_do_not_count():
    u = np.array([0.25, 0.5, 1.0])
    near = mean_kernel(u, 2.0)
    cuts, r2 = fit_cuts(u, np.array([[*near[:2], 0.0], [np.nan] * 3]), np.array([[2, 2, 2], [0, 0, 0]]))
    assert cuts.tolist() == pytest.approx([2.0, 0.0], abs=1e-4)
    assert r2 == pytest.approx(1.0)
    assert np.isnan(fit_cuts(u, np.zeros((1, 3)), np.ones((1, 3), int))[1])


@quick
@given(st.integers(1, 5), st.integers(1, 8), st.floats(2.0, 50.0), st.randoms(use_true_random=False))
def test_two_levels_of_weights_are_told_apart(S, W, ratio, random):
    levels = [ratio] * S + [1.0] * W
    random.shuffle(levels)
    assert find_strong(np.array(levels)).tolist() == [level > 1.0 for level in levels]


@pytest.mark.parametrize("weights", [[1.0], [0.0, 0.0], [1.0, 1.9], [np.nan, 2.0]])
def test_weights_that_do_not_differ_twofold_have_no_strong_feature(weights):
    assert not find_strong(np.array(weights)).any()


# ---- words and tables ----


def test_a_fit_prints_as_one_sentence():
    text = str(fitted(max_features="all"))
    assert text.startswith("like a naive forest of about M = ")
    assert "3 of 12 features carry" in text
    assert "x0" in text
    assert " % of the weight" in text
    assert "R² of log K = 0." in text
    assert "\n" not in text
    assert "none of 12 features stands out" in str(fitted(splitter="random"))


def test_a_fit_is_a_table_with_one_line_per_feature_and_cannot_be_changed():
    found = fitted(max_features="all")
    frame = found.frame()
    assert list(frame.columns) == ["feature", "weight", "share", "strong"]
    assert len(frame) == 12
    assert frame["share"].sum() == pytest.approx(1.0)
    with pytest.raises(FrozenInstanceError):
        found.r2 = 1.0


def test_a_forest_that_cuts_nothing_is_one_leaf():
    X, y = table(50, 2)
    found = fit_naive(KernelForestClassifier.untuned(5, leaf_size=50, random_state=0).fit(X, y).kernel_)
    assert found.M == 1.0
    assert (found.S, found.n_leaves) == (0, 1.0)
    assert found.shares.tolist() == [0.0, 0.0]


def test_arguments_that_make_no_sense_are_named():
    kernel = forest().kernel_
    with pytest.raises(ValueError, match="scale must be one of \\['range', 'quantile'\\], got 'sd'"):
        fit_naive(kernel, scale="sd")
    with pytest.raises(ValueError, match="n_rows must be an integer >= 1, got 0"):
        fit_naive(kernel, n_rows=0)
    with pytest.raises(ValueError, match="n_steps must be an integer >= 2, got True"):
        fit_naive(kernel, n_steps=True)
