"""The kernel around a point: profiles, derivatives, level sets and the path kernel, against their definitions as loops."""

from __future__ import annotations

import builtins
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

import oracle
from kernelforest import KernelForestClassifier
from kernelforest.kernel import KINDS, ForestKernel, Training
from kernelforest.kernel.shape import Profile
from oracle import draw_table

TABLES = {
    "numeric": ("numeric",) * 4,
    "missing": ("missing", "numeric", "missing"),
    "categorical": ("categorical", "numeric", "levels-missing", "numeric"),
}
SPLITTERS = ("best", "extra", "random", "random-observed")
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@cache
def example(name: str, splitter: str = "best", grid: int = 40):
    """A forest, new rows as the user gives them, and the same as the forest reads them."""
    table = draw_table(1, 70, TABLES[name], 2, grid)
    model = KernelForestClassifier.untuned(
        13, splitter=splitter, random_state=0, categorical_features=table.categorical, leaf_size=2
    )
    model.fit(table.X, table.y)
    rows = draw_table(2, 12, TABLES[name], 2, grid).X
    return model, rows, table.as_seen(rows), table


def numeric_features(table) -> list[int]:
    return [j for j in range(table.X.shape[1]) if j not in table.categorical]


# ---- the definitions ----


def way(forest, tree, a, b) -> int:
    """Splits between the leaves of two rows: up to the last node they share and down again."""
    one, two = oracle.path(forest, tree, a), oracle.path(forest, tree, b)
    shared = sum(u == v for u, v in zip(one, two, strict=False))
    return (len(one) - shared) + (len(two) - shared)


def kernel_of(forest, a, b, decay=0.0) -> float:
    """The path kernel; with decay 0 the share of trees in which both are in the same leaf."""
    return sum(decay ** way(forest, tree, a, b) for tree in range(forest.n_trees)) / forest.n_trees


def moved(row, j, value) -> np.ndarray:
    out = np.array(row)
    out[j] = value
    return out


def differences(forest, row, h, categorical, decay=0.0) -> np.ndarray:
    """Right and left derivatives by perturbation, (2, features)."""
    out = np.full((2, len(row)), np.nan)
    for j in range(len(row)):
        if j not in categorical and not np.isnan(row[j]):
            for side, sign in enumerate((1, -1)):
                copy = moved(row, j, row[j] + sign * h[j])
                out[side, j] = (kernel_of(forest, copy, row, decay) - 1.0) / h[j]
    return out


# ---- profiles ----


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("name", TABLES)
def test_a_profile_is_the_kernel_of_moved_copies_at_any_step(name, splitter):
    model, rows, seen, table = example(name, splitter)
    rng = np.random.default_rng(0)
    for i in range(4):
        for j in numeric_features(table):
            if np.isnan(rows[i, j]):
                continue
            found = model.kernel_.profile(rows[i], j)
            steps = np.concatenate(
                [found.h, np.nextafter(found.h, np.inf), rng.normal(0, 2, 10) * table.X[:, 1].std(), [0.0]]
            )
            steps = rng.permutation(steps)
            copies = np.array([moved(rows[i], j, rows[i, j] + h) for h in steps])
            np.testing.assert_allclose(found(steps), model.kernel_.matrix(copies, rows[[i]], dense=True)[:, 0], atol=1e-12)
            expected = [kernel_of(model.forest_, moved(seen[i], j, seen[i, j] + h), seen[i]) for h in steps[:8]]
            np.testing.assert_allclose(found.at(steps[:8]), expected, atol=1e-12)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_profile_steps_at_every_breakpoint_exactly_and_belongs_to_the_left_there(splitter):
    model, rows, _, _ = example("numeric", splitter)
    row = rows[0]
    for j in range(len(row)):
        found = model.kernel_.profile(row, j)
        assert (np.diff(found.cuts) > 0).all()
        at_cuts = [model.kernel_.matrix([moved(row, j, c)], row[None], dense=True)[0, 0] for c in found.cuts]
        past = [
            model.kernel_.matrix([moved(row, j, np.nextafter(c, np.inf))], row[None], dense=True)[0, 0] for c in found.cuts
        ]
        np.testing.assert_allclose(at_cuts, found.k[:-1], atol=1e-12)
        np.testing.assert_allclose(past, found.k[1:], atol=1e-12)


def test_a_profile_rises_to_one_at_x0_and_falls_after_it():
    model, rows, _, _ = example("numeric", "extra")
    for row in rows:
        for j in range(4):
            found = model.kernel_.profile(row, j)
            here = np.searchsorted(found.cuts, row[j])
            assert found(0.0) == 1.0
            assert (np.diff(found.k[: here + 1]) > 0).all()
            assert (np.diff(found.k[here:]) < 0).all()


def test_a_stump_has_the_profile_of_its_cut():
    model = KernelForestClassifier.untuned(5, bootstrap=False, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    found = model.kernel_.profile([1.0], 0)
    cut = model.forest_.nodes["threshold"][::3]  # from 1, and below 2
    np.testing.assert_array_equal(found.cuts, np.unique(cut))
    assert found([-9.0, 0.0, 0.5, 1.0]).tolist() == [1.0, 1.0, (cut > 1.5).mean(), 0.0]


def test_a_forest_without_cuts_has_flat_profiles():
    model = KernelForestClassifier.untuned(5, random_state=0, max_depth=0).fit([[0.0], [1.0]], [0, 1])
    found = model.kernel_.profile([0.3], 0)
    assert found.h.size == 0
    assert found([-np.inf, 0.0, 7.0]).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("name", TABLES)
def test_faces_say_which_values_keep_a_row_in_its_leaf(name):
    model, rows, _, table = example(name)
    rng = np.random.default_rng(3)
    for row in rows[:5]:
        box = model.kernel_.faces(row)
        home = model.apply(row[None])[0]
        for j in numeric_features(table):  # also where x0 is missing
            for value in rng.choice(table.X[~np.isnan(table.X[:, j]), j], 5):
                stays = (box.lower[j] < value) & (value <= box.upper[j])
                np.testing.assert_array_equal(stays, model.apply(moved(row, j, value)[None])[0] == home)
        assert np.isinf(box.lower[table.categorical]).all()


def test_the_boxes_of_a_blend_weigh_as_much_as_its_kernel():
    table = draw_table(1, 120, ("numeric",) * 3, 2)
    kernel = KernelForestClassifier(60, random_state=0).fit(table.X, table.y).kernel_
    rows = draw_table(2, 40, ("numeric",) * 3, 2).X
    box = kernel.faces(rows[0])
    inside = ((box.lower < rows[:, :, None]) & (rows[:, :, None] <= box.upper)).all(axis=1)
    assert box.lower.shape[1] > 60  # trees are read at several leaf sizes
    assert box.weight.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(inside @ box.weight, kernel.matrix(rows[:1], rows, dense=True)[0], atol=1e-12)


def test_a_feature_has_one_profile_by_name_and_by_number():
    table = draw_table(1, 60, ("numeric",) * 3, 2)
    frame = pd.DataFrame(table.X, columns=["a", "b", "c"])
    kernel = KernelForestClassifier.untuned(9, random_state=0).fit(frame, table.y).kernel_
    by_name, by_number = kernel.profile(frame.iloc[[4]], "b"), kernel.profile(frame.iloc[4], np.int64(1))
    assert by_name.feature == by_number.feature == "b"
    np.testing.assert_array_equal(by_name.k, by_number.k)
    np.testing.assert_array_equal(by_name.h, by_number.h)


# ---- derivatives ----


@pytest.mark.parametrize("decay", [None, 0.5, 0.9])
@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("name", TABLES)
def test_derivatives_are_differences_to_moved_copies(name, splitter, decay):
    model, rows, seen, table = example(name, splitter)
    h = np.random.default_rng(4).uniform(0.05, 0.6, rows.shape[1]) * np.nanstd(table.X, axis=0)
    how = {} if decay is None else {"kind": "path", "decay": decay}
    found = model.kernel_.derivatives(rows[:6], h, **how)
    expected = [differences(model.forest_, row, h, table.categorical, decay or 0.0) for row in seen[:6]]
    np.testing.assert_allclose(np.stack([found.right, found.left], axis=1), expected, atol=1e-12)
    assert (np.nan_to_num(found.right) <= 0).all()
    assert (np.nan_to_num(found.left) <= 0).all()


@quick
@given(st.integers(0, 10_000), st.integers(2, 12), st.sampled_from(SPLITTERS))
def test_a_step_that_ends_on_a_cut_counts_as_the_tree_decides(seed, grid, splitter):
    """Values and steps on a grid of halves, so that steps end exactly on cuts between values."""
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, grid, (40, 3)).astype(float), rng.integers(0, 2, 40)
    model = KernelForestClassifier.untuned(5, splitter=splitter, random_state=seed).fit(X, y)
    h = rng.choice([0.5, 1.0, 1.5], 3)
    found = model.kernel_.derivatives(X[:3], h)
    expected = [differences(model.forest_, row, h, []) for row in X[:3]]
    np.testing.assert_allclose(np.stack([found.right, found.left], axis=1), expected, atol=1e-12)


def test_derivatives_agree_with_profiles():
    model, rows, _, _ = example("numeric")
    found = model.kernel_.derivatives(rows)
    for j in range(4):
        profiles = [model.kernel_.profile(row, j) for row in rows]
        np.testing.assert_allclose(found.right[:, j], [(p(found.h[j]) - 1) / found.h[j] for p in profiles], atol=1e-12)
        np.testing.assert_allclose(found.left[:, j], [(p(-found.h[j]) - 1) / found.h[j] for p in profiles], atol=1e-12)


def test_the_default_step_is_a_fifth_of_a_standard_deviation():
    model, rows, _, table = example("missing")
    np.testing.assert_allclose(model.kernel_.derivatives(rows[1]).h, 0.2 * np.nanstd(table.X, axis=0), rtol=1e-12)


@pytest.mark.parametrize("unit", [1e200, 1e-200])
def test_the_default_step_is_known_of_the_largest_and_the_smallest_numbers(unit):
    X = np.arange(1.0, 41.0)[:, None] * unit
    kernel = KernelForestClassifier.untuned(9, random_state=0).fit(X, X[:, 0] > X[20, 0]).kernel_
    np.testing.assert_allclose(kernel.derivatives(X[0]).h / unit, 0.2 * np.arange(40.0).std(), rtol=1e-12)


def test_constant_columns_have_no_default_step():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=50), np.full(50, 3.0)])
    kernel = KernelForestClassifier.untuned(9, random_state=0).fit(X, X[:, 0] > 0).kernel_
    assert np.isnan(kernel.derivatives(X[0]).right[1])
    assert kernel.derivatives(X[0], h=0.1).right[1] == 0.0
    assert np.isnan(kernel.derivative_importance().mean[1])


def test_categorical_features_and_missing_values_have_no_derivative():
    model, rows, seen, table = example("categorical")
    found = model.kernel_.derivatives(rows, h=1.0)
    nowhere = np.isnan(seen)
    nowhere[:, table.categorical] = True
    for side in (found.right, found.left):
        np.testing.assert_array_equal(np.isnan(side), nowhere)


def test_one_row_gives_vectors_and_a_table_gives_tables():
    model, rows, _, _ = example("numeric")
    table = model.kernel_.derivatives(rows)
    assert table.right.shape == rows.shape
    for form in (rows[3], rows[3].tolist(), tuple(rows[3])):
        single = model.kernel_.derivatives(form)
        assert single.left.shape == (4,)
        np.testing.assert_array_equal(single.right, table.right[3])
    np.testing.assert_array_equal(model.kernel_.derivatives(rows[[3]]).right, table.right[[3]])


def test_threads_and_blocks_do_not_change_a_bit():
    table = draw_table(1, 600, ("numeric", "missing", "numeric"), 2, 500)
    one = KernelForestClassifier.untuned(20, random_state=0, n_jobs=1).fit(table.X, table.y).kernel_
    two = KernelForestClassifier.untuned(20, random_state=0, n_jobs=2).fit(table.X, table.y).kernel_
    for how in ({}, {"kind": "path"}):
        np.testing.assert_array_equal(one.derivatives(table.X, **how).right, two.derivatives(table.X, **how).right)
    np.testing.assert_array_equal(one.matrix(kind="path"), two.matrix(kind="path"))
    np.testing.assert_array_equal(one.matrix(table.X[300:301], kind="path")[0], two.matrix(kind="path")[300])


# ---- importance ----


def test_derivative_importance_is_the_mean_absolute_derivative_with_its_standard_error():
    model, rows, _, table = example("missing")
    found = model.kernel_.derivatives(rows)
    size = (np.abs(found.right) + np.abs(found.left)) / 2
    mine = model.kernel_.derivative_importance(rows)
    np.testing.assert_allclose(mine.mean, np.nanmean(size, axis=0), rtol=1e-12)
    known = (~np.isnan(size)).sum(axis=0)
    np.testing.assert_allclose(mine.error, np.nanstd(size, axis=0, ddof=1) / np.sqrt(known), rtol=1e-12)
    np.testing.assert_allclose(mine.per_sd, mine.mean * np.nanstd(table.X, axis=0), rtol=1e-12)
    assert mine.n_rows == len(rows)


def test_importance_over_training_rows_reads_levels_as_the_forest_does():
    model, *_, table = example("categorical")
    default, given_rows = model.kernel_.derivative_importance(), model.kernel_.derivative_importance(table.X)
    np.testing.assert_array_equal(default.mean, given_rows.mean)
    assert np.isnan(default.mean[table.categorical]).all()


def test_importance_over_many_training_rows_takes_the_same_thousand_every_time():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    kernel = KernelForestClassifier.untuned(20, random_state=0).fit(X, X[:, 0] + rng.normal(size=1500) > 0).kernel_
    first, second = kernel.derivative_importance(), kernel.derivative_importance()
    assert first.n_rows == 1000
    np.testing.assert_array_equal(first.mean, second.mean)
    assert first.mean[0] > first.mean[1:].max() + 5 * first.error.max()


def test_one_row_has_an_importance_without_a_standard_error():
    model, rows, _, _ = example("numeric")
    found = model.kernel_.derivative_importance(rows[0])
    assert found.n_rows == 1
    assert np.isfinite(found.mean).all()
    assert np.isnan(found.error).all()


# ---- level sets ----


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("name", TABLES)
def test_level_sets_are_the_kernel_on_the_grid(name, splitter):
    model, rows, seen, table = example(name, splitter)
    i, j = numeric_features(table)[:2]
    j, i = (i, j) if name == "missing" else (j, i)
    cuts = np.unique(model.forest_.nodes["threshold"][model.forest_.nodes["feature"] == j])[:6]
    rng = np.random.default_rng(1)
    x, y = np.sort(rng.choice(table.X[np.isfinite(table.X[:, i]), i], 7)), np.sort(np.append(cuts, cuts + 0.3))
    for r in range(3):
        found = model.kernel_.level_sets(rows[r], (i, j), (x, y))
        assert found.k.shape == (len(x), len(y))
        points = [moved(moved(seen[r], i, a), j, b) for a in x for b in y]
        expected = [kernel_of(model.forest_, point, seen[r]) for point in points]
        np.testing.assert_allclose(found.k.ravel(), expected, atol=1e-12)
        np.testing.assert_array_equal(found.x0, seen[r][[i, j]])


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_level_sets_around_a_missing_value_hold_the_numbers_that_go_its_way(splitter):
    model, _, _, table = example("missing", splitter)
    row = np.array([np.nan, table.X[0, 1], np.nan])
    x, y = np.unique(table.X[~np.isnan(table.X[:, 0]), 0])[::4], np.unique(table.X[~np.isnan(table.X[:, 2]), 2])[::4]
    found = model.kernel_.level_sets(row, (0, 2), (x, y))
    expected = [[kernel_of(model.forest_, [a, row[1], b], row) for b in y] for a in x]
    np.testing.assert_allclose(found.k, expected, atol=1e-12)


def test_the_default_grid_spans_the_training_range():
    model, rows, _, table = example("numeric")
    found = model.kernel_.level_sets(rows[0], ("x2", 0))
    assert found.names == ("x2", "x0")
    assert found.k.shape == (50, 50)
    assert (found.x[0], found.x[-1]) == (table.X[:, 2].min(), table.X[:, 2].max())
    assert (found.y[0], found.y[-1]) == (table.X[:, 0].min(), table.X[:, 0].max())


def test_a_level_set_through_x0_is_the_profile():
    model, rows, _, table = example("numeric", "extra")
    row, y = rows[0], np.unique(table.X[:, 3])
    found = model.kernel_.level_sets(row, (1, 3), ([row[1]], y))
    np.testing.assert_allclose(found.k[0], model.kernel_.profile(row, 3)(y - row[3]), atol=1e-12)


# ---- the path kernel ----


@pytest.mark.parametrize("decay", [0.1, 0.5, 0.95])
@pytest.mark.parametrize("name", TABLES)
def test_the_path_kernel_counts_splits_between_leaves(name, decay):
    model, rows, seen, table = example(name)
    K = model.kernel_.matrix(rows, kind="path", decay=decay)
    expected = [[kernel_of(model.forest_, a, b, decay) for b in table.X[:25]] for a in seen]
    np.testing.assert_allclose(K[:, :25], expected, rtol=1e-12)
    between = model.kernel_.matrix(rows[:5], rows, kind="path", decay=decay)
    np.testing.assert_allclose(
        between, [[kernel_of(model.forest_, a, b, decay) for b in seen] for a in seen[:5]], rtol=1e-12
    )


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9, 0.999])
def test_the_path_kernel_is_symmetric_bounded_and_semidefinite(decay):
    assert KINDS["path"][:3] == (True, True, True)
    for name in TABLES:
        K = example(name, "extra")[0].kernel_.matrix(kind="path", decay=decay)
        np.testing.assert_array_equal(K, K.T)
        np.testing.assert_allclose(np.diag(K), 1.0, rtol=1e-14)
        assert K.min() >= 0.0
        assert K.max() <= 1.0 + 1e-14
        assert np.linalg.eigvalsh(K).min() > -1e-12 * len(K)


def test_without_memory_of_the_way_the_path_kernel_is_the_leaf_kernel():
    for name in TABLES:
        model, rows, *_ = example(name)
        kernel = model.kernel_
        np.testing.assert_allclose(kernel.matrix(kind="path", decay=0), kernel.matrix(dense=True), atol=1e-14)
        np.testing.assert_allclose(kernel.matrix(rows, rows, kind="path", decay=0.0), kernel.matrix(rows, rows, dense=True))
        path, leaf = kernel.derivatives(rows, kind="path", decay=0.0), kernel.derivatives(rows)
        np.testing.assert_allclose(path.left, leaf.left, atol=1e-14)


def test_a_larger_decay_makes_the_path_kernel_larger():
    kernel = example("numeric")[0].kernel_
    small, large = (kernel.matrix(kind="path", decay=d) for d in (0.2, 0.7))
    assert (small <= large + 1e-14).all()
    assert small.sum() < large.sum()


def test_a_tiny_decay_in_deep_trees_neither_overflows_nor_vanishes_into_nan():
    X = np.arange(400.0)[:, None] ** 3  # random cuts peel off one end: deep trees
    model = KernelForestClassifier.untuned(5, splitter="random", random_state=0).fit(X, np.arange(400) % 2)
    K = model.kernel_.matrix(kind="path", decay=1e-60)
    assert np.isfinite(K).all()
    np.testing.assert_allclose(K, model.kernel_.matrix(dense=True), atol=1e-12)


def test_distance_of_kind_path_is_one_minus_the_kernel():
    kernel = example("numeric")[0].kernel_
    np.testing.assert_allclose(kernel.distance(kind="path"), 1 - kernel.matrix(kind="path"))


# ---- other people's forests ----


@cache
def stranger(as_frame: bool = False):
    """The same scikit-learn forest as a kernel, which knows its leaves only."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(120, 4))
    y = (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int)
    table = pd.DataFrame(X, columns=list("abcd")) if as_frame else X
    forest = RandomForestClassifier(15, random_state=0).fit(table, y)
    sizes = np.array([tree.tree_.node_count for tree in forest.estimators_])
    offsets = np.append(0, sizes.cumsum())[:-1]

    def route(Z):
        return (forest.apply(Z) + offsets).astype(np.int32)

    values = np.eye(2)[y]
    training = Training(
        route(table), int(sizes.sum()), route, None, None, values, lambda rows=slice(None): X[rows], tuple("abcd")
    )
    return ForestKernel(training), forest, X


def test_derivatives_of_other_forests_come_from_moved_copies(monkeypatch):
    kernel, forest, X = stranger()
    found = kernel.derivatives(X[:7])
    home = forest.apply(X[:7])
    for j in range(4):
        for sign, side in ((1, found.right), (-1, found.left)):
            copies = X[:7].copy()
            copies[:, j] += sign * found.h[j]
            expected = ((forest.apply(copies) == home).mean(axis=1) - 1) / found.h[j]
            np.testing.assert_allclose(side[:, j], expected, atol=1e-12)
    np.testing.assert_allclose(found.h, 0.2 * X.std(axis=0))
    np.testing.assert_array_equal(kernel.derivatives(X[3]).right, found.right[3])
    monkeypatch.setattr("kernelforest.kernel.shape._COPIES", 1)  # one row at a time
    np.testing.assert_array_equal(kernel.derivatives(X[:7]).right, found.right)


def test_level_sets_of_other_forests_come_from_moved_copies():
    kernel, forest, X = stranger()
    found = kernel.level_sets(X[0], ("b", 0), ([-1.0, 0.0, 2.0], [0.0, 0.1]))
    home = forest.apply(X[:1])
    for a, u in enumerate(found.x):
        for b, v in enumerate(found.y):
            copy = moved(moved(X[0], 1, u), 0, v)
            np.testing.assert_allclose(found.k[a, b], (forest.apply(copy[None]) == home).mean())


def test_forests_that_read_frames_get_frames_with_their_names():
    kernel, _, X = stranger(as_frame=True)
    plain, *_ = stranger()
    rows = pd.DataFrame(X[:5], columns=list("abcd"), index=[9, 9, 3, 4, 5])
    np.testing.assert_array_equal(kernel.derivatives(rows).left, plain.derivatives(X[:5]).left)
    np.testing.assert_array_equal(kernel.derivatives(rows.iloc[2]).left, plain.derivatives(X[2]).left)
    np.testing.assert_array_equal(kernel.level_sets(rows.iloc[[1]], ["a", "b"], 5).k, plain.level_sets(X[1], (0, 1), 5).k)


def test_columns_of_a_frame_without_numbers_cannot_be_stepped_along_in_other_forests():
    kernel, _, X = stranger()

    def route(Z):
        return kernel._training.route(Z.iloc[:, [0, 1, 2]].assign(d=0.0).to_numpy())

    frame = pd.DataFrame(X[:, :3], columns=[0, 1, 2]).assign(d=pd.Categorical(["u", "v"] * 60))
    mixed = ForestKernel(replace(kernel._training, route=route, leaves=route(frame), read=lambda Z: X[: len(Z)]))
    found = mixed.derivatives(frame[:4])
    assert np.isnan(found.right[:, 3]).all()
    assert np.isfinite(found.right[:, :3]).all()
    with pytest.raises(ValueError, match="feature must be numeric, got 'd', which is categorical"):
        mixed.level_sets(frame[:1], (0, 3))


def test_importance_works_on_other_forests():
    kernel, _, X = stranger()
    found = kernel.derivative_importance()
    assert found.n_rows == len(X)
    assert found.mean.argmax() == 0


@pytest.mark.parametrize(
    "request_of",
    [
        lambda kernel, x: kernel.profile(x, 0),
        lambda kernel, x: kernel.faces(x),
        lambda kernel, x: kernel.derivatives(x, kind="path"),
        lambda kernel, x: kernel.matrix(kind="path"),
    ],
)
def test_what_needs_the_trees_of_other_forests_says_so(request_of):
    kernel, _, X = stranger()
    with pytest.raises(ValueError, match="only known for forests of this package"):
        request_of(kernel, X[0])


# ---- the paper ----


def paper_derivatives(seed: int, **rules) -> np.ndarray:
    """Both derivatives at the origin of the 22-dimensional logistic model, of which two features are signal."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (1000, 22))
    y = rng.uniform(size=1000) < 1 / (1 + np.exp(-2 * X[:, 0] - 2 * X[:, 1]))
    model = KernelForestClassifier.untuned(100, random_state=seed, n_jobs=-1, **rules).fit(X, y)
    found = model.kernel_.derivatives(np.zeros(22), h=0.25)
    return np.stack([found.right, found.left])


def test_the_kernel_is_narrow_along_signal_and_wide_along_noise():
    found = np.stack([paper_derivatives(seed, max_features=4) for seed in range(6)])
    assert found[..., :2].mean() == pytest.approx(-1.30, abs=0.35)  # one draw: sd .19
    assert found[..., 2:].mean() == pytest.approx(-0.16, abs=0.04)  # one draw: sd .016


def test_a_completely_random_kernel_is_equally_wide_in_all_directions():
    found = np.stack([paper_derivatives(seed, splitter="random") for seed in range(6)])
    assert found[..., :2].mean() == pytest.approx(-0.40, abs=0.12)
    assert found[..., 2:].mean() == pytest.approx(-0.40, abs=0.05)


# ---- tables ----


def test_frames_hold_the_numbers():
    model, rows, _, _ = example("numeric")
    kernel = model.kernel_
    profile = kernel.profile(rows[0], 1)
    pieces = profile.frame()
    assert list(pieces.columns) == ["after", "upto", "k"]
    assert pieces["after"].iloc[0] == -np.inf
    assert len(pieces) == len(profile.k)
    assert kernel.derivatives(rows[0]).frame()["feature"].tolist() == ["x0", "x1", "x2", "x3"]
    long = kernel.derivatives(rows[:3]).frame()
    np.testing.assert_array_equal(long["right"], kernel.derivatives(rows[:3]).right.ravel())
    assert long["row"].tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert list(kernel.derivative_importance().frame().columns) == ["feature", "mean", "error", "per_sd"]
    levels = kernel.level_sets(rows[0], (0, 1), ([1.0, 2.0], [5.0, 6.0, 7.0]))
    assert levels.frame().shape == (6, 3)
    point = levels.frame().iloc[4]
    assert (point["x"], point["y"], point["k"]) == (2.0, 6.0, levels.k[1, 1])


def test_without_pandas_a_frame_is_a_dict_of_columns(monkeypatch):
    real = builtins.__import__

    def refuse(name, *rest):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    columns = Profile("a", 0.0, np.array([1.0]), np.array([1.0, 0.5])).frame()
    assert isinstance(columns, dict)
    assert columns["upto"].tolist() == [1.0, np.inf]


def test_results_can_be_pickled():
    model, rows, _, _ = example("numeric")
    found = pickle.loads(pickle.dumps(model.kernel_.profile(rows[0], 1)))
    assert found(0.0) == 1.0


def test_results_are_compared_by_identity_because_arrays_have_no_single_answer():
    model, rows, _, _ = example("numeric")
    kernel = model.kernel_
    for ask in (
        lambda: kernel.faces(rows[0]),
        lambda: kernel.profile(rows[0], 1),
        lambda: kernel.derivatives(rows[0]),
        lambda: kernel.derivative_importance(rows),
        lambda: kernel.level_sets(rows[0], (0, 1), 3),
    ):
        found = ask()
        assert found in {found}
        assert found != ask()


# ---- bad input ----


@pytest.mark.parametrize("h", [0, 0.0, -1.0, np.nan, np.inf, [0.1, 0.1, 0.0, 0.1]])
def test_a_step_that_is_not_positive_is_refused(h):
    model, rows, _, _ = example("numeric")
    for ask in (model.kernel_.derivatives, model.kernel_.derivative_importance):
        with pytest.raises(ValueError, match="h must be finite and > 0, got"):
            ask(rows, h)


@pytest.mark.parametrize("h", [[0.1, 0.2], "wide", [[0.1]]])
def test_steps_of_the_wrong_shape_are_refused(h):
    model, rows, _, _ = example("numeric")
    with pytest.raises(ValueError, match=r"h must be a number, or a number or duration for each of 4"):
        model.kernel_.derivatives(rows, h)


@pytest.mark.parametrize("feature", ["age", 4, -1, True, 1.5, None])
def test_unknown_features_are_refused(feature):
    model, rows, _, _ = example("numeric")
    with pytest.raises(ValueError, match="feature must be"):
        model.kernel_.profile(rows[0], feature)
    with pytest.raises(ValueError, match="feature must be"):
        model.kernel_.level_sets(rows[0], (0, feature))


def test_categorical_features_have_no_profile_and_no_level_sets():
    model, rows, _, table = example("categorical")
    j = table.categorical[0]
    with pytest.raises(ValueError, match="which is categorical"):
        model.kernel_.profile(rows[0], j)
    with pytest.raises(ValueError, match="which is categorical"):
        model.kernel_.level_sets(rows[0], (1, j))


def test_a_missing_value_has_no_profile():
    model, rows, _, _ = example("missing")
    with pytest.raises(ValueError, match="x0 must have a finite value of feature 'x0' to step from, got nan"):
        model.kernel_.profile(moved(rows[0], 0, np.nan), 0)


@pytest.mark.parametrize("grid", [1, 0, "fine", ([1.0], [2.0], [3.0]), ([2.0, 1.0], [0.0]), ([np.nan], [0.0]), (3, 3), 2.5])
def test_grids_that_are_none_are_refused(grid):
    model, rows, _, _ = example("numeric")
    with pytest.raises(ValueError, match="grid must be an integer >= 2 or a pair of ascending arrays"):
        model.kernel_.level_sets(rows[0], (0, 1), grid)


@pytest.mark.parametrize("features", [(0,), (0, 1, 2), (1, 1), "x0", ("x1", 1)])
def test_level_sets_need_two_different_features(features):
    model, rows, _, _ = example("numeric")
    with pytest.raises(ValueError, match="features must name two"):
        model.kernel_.level_sets(rows[0], features)


@pytest.mark.parametrize("decay", [-0.1, 1.0, 2, np.nan, "half", True, None])
def test_a_decay_outside_of_zero_to_one_is_refused(decay):
    model, rows, _, _ = example("numeric")
    with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\), got"):
        model.kernel_.matrix(kind="path", decay=decay)
    with pytest.raises(ValueError, match=r"decay must be a number in \[0, 1\), got"):
        model.kernel_.derivatives(rows[0], kind="path", decay=decay)


def test_other_requests_that_make_no_sense_are_refused():
    model, rows, _, _ = example("numeric")
    kernel = model.kernel_
    with pytest.raises(ValueError, match="kind must be one of"):
        kernel.derivatives(rows[0], kind="gap")
    with pytest.raises(ValueError, match="x0 must be one row"):
        kernel.profile(rows[:3], 0)
    with pytest.raises(ValueError, match="features"):
        kernel.derivatives(rows[:, :2])
    with pytest.raises(ValueError, match="h must be a number"):
        kernel.profile(rows[0], 0)(np.nan)
    with pytest.raises(ValueError, match="kind='path' has no nearest rows"):
        kernel.nearest(kind="path")
    strange, _, X = stranger()
    with pytest.raises(ValueError, match="x0 must have 4 features"):
        strange.derivatives(X[:, :2])
