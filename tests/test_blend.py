"""Blends: estimates, kernel and explanations of trees read at several leaf sizes are those of cut trees, weighted."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from kernelforest import KernelForestClassifier
from kernelforest.forest import Forest, Reading
from kernelforest.judging import Part
from kernelforest.kernel import ForestKernel, training_of
from kernelforest.problems import PAPER
from kernelforest.tuning import grow_blend
from oracle import AGGREGATES, FILLS, draw_table

COLUMNS = {
    "numeric": ("numeric", "numeric", "numeric"),
    "missing": ("missing", "numeric", "missing"),
    "categorical": ("categorical", "numeric", "levels-missing"),
}
PARTS = (Part("best", 2, 0.67, {2: 0.25, 5: 0.5, 16: 0.25}), Part("extra", 3, 0.33, {1: 0.5, 9: 1.0}))
LINEAR = [(aggregate, fill) for aggregate in ("mean", "proximity") for fill in FILLS]
quick = settings(max_examples=40, deadline=None, derandomize=True)


def grown(table, weights=None, parts=(), **rules) -> KernelForestClassifier:
    """A classifier, with the trees of a blend if parts are given."""
    rules = {"n_estimators": 6, "random_state": 3, "leaf_size": 1, **rules}
    model = KernelForestClassifier.untuned(categorical_features=table.categorical, **rules).fit(table.X, table.y, weights)
    if parts:
        forest = model.forest_
        model.forest_ = grow_blend(forest.columns, forest.targets, model._rules(), parts, forest.seed)
    return model


@cache
def example(kind: str, n_classes: int = 2, weighted: bool = False):
    table = draw_table(11, 60, COLUMNS[kind], n_classes)
    weights = np.random.default_rng(1).integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    new = draw_table(12, 25, COLUMNS[kind], n_classes).X
    return grown(table, weights, PARTS), table.training(weights, n_classes), new, table.as_seen(new)


# ---- cutting ----


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from(sorted(COLUMNS)),
    n_classes=st.integers(2, 3),
    splitter=st.sampled_from(["best", "extra", "random"]),
    size=st.integers(1, 40),
)
@quick
def test_a_coarser_forest_is_the_one_grown_with_that_leaf_size(seed, kind, n_classes, splitter, size):
    table = draw_table(seed, 50, COLUMNS[kind], n_classes)
    deep = grown(table, splitter=splitter).forest_
    small, cut = grown(table, splitter=splitter, leaf_size=size).forest_, deep.coarser(size)
    assert cut.limits == small.limits
    assert_same_trees(cut, small, with_sets=kind != "categorical")
    np.testing.assert_allclose(cut.estimate(table.X, "mean", "oob"), small.estimate(table.X, "mean", "oob"), atol=1e-12)
    np.testing.assert_allclose(cut.inbag.sum(axis=0), small.inbag.sum(axis=0))


def assert_same_trees(one: Forest, other: Forest, *, with_sets: bool = True) -> None:
    np.testing.assert_array_equal(one.starts[:, :2], other.starts[:, :2])
    np.testing.assert_array_equal(one.sizes, other.sizes)
    np.testing.assert_array_equal(one.nodes["feature"], other.nodes["feature"])
    if with_sets:  # else a threshold may be a place in sets
        np.testing.assert_array_equal(one.nodes["threshold"], other.nodes["threshold"])
    inner = one.nodes["feature"] >= 0
    np.testing.assert_array_equal(one.nodes["child"][inner], other.nodes["child"][inner])


def test_leaves_keep_their_numbers_at_the_leaf_size_they_were_grown_with():
    forest = grown(draw_table(11, 60, COLUMNS["numeric"], 2), leaf_size=2).forest_
    np.testing.assert_array_equal(forest.cut(2).leads, np.arange(len(forest.inbag)))
    assert forest.cut(60).n_leaves == forest.n_trees


def test_a_forest_that_is_read_as_it_was_grown_has_itself_as_its_only_part():
    forest = grown(draw_table(11, 60, COLUMNS["numeric"], 2)).forest_
    assert forest.parts() == [(1.0, forest)]


def test_trees_are_apportioned_by_share_and_each_part_is_grown_as_it_says():
    forest = example("numeric")[0].forest_
    table = draw_table(11, 60, COLUMNS["numeric"], 2)
    assert [(r.first, r.stop, r.leaf_size) for r in forest.readings] == [
        (0, 4, 2),
        (0, 4, 5),
        (0, 4, 16),
        (4, 6, 1),
        (4, 6, 9),
    ]
    rules = {"n_estimators": 6, "random_state": 3}
    best = grown(table, max_features=2, leaf_size=2, **rules).forest_
    extra = grown(table, max_features=3, splitter="extra", **rules).forest_
    assert_same_trees(forest.trees(0, 4), best.trees(0, 4))
    assert_same_trees(forest.trees(4, 6), extra.trees(4, 6))
    np.testing.assert_array_equal(forest.draws(), best.draws())
    assert sum(r.weight * (r.stop - r.first) for r in forest.readings) == pytest.approx(forest.n_trees)


def test_a_part_without_trees_is_left_out():
    parts = (Part("best", 2, 0.99, {3: 1.0}), Part("extra", 2, 0.01, {1: 1.0}))
    forest = grown(draw_table(11, 60, COLUMNS["numeric"], 2), None, parts).forest_
    assert forest.readings == ()
    assert forest.n_trees == 6


# ---- estimates ----


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_probabilities_follow_the_definition(kind, n_classes, weighted, aggregate, fill):
    model, training, new, seen = example(kind, n_classes, weighted)
    about = training, model.inbag_counts_, aggregate, fill
    expected = oracle.blend(model.forest_, seen, *about)
    np.testing.assert_allclose(model.predict_proba(new, aggregate, fill), expected, atol=1e-12)
    expected = oracle.out_of_bag_blend(model.forest_, *about)
    np.testing.assert_allclose(model.forest_.estimate_out_of_bag(aggregate, fill)[0], expected, atol=1e-12)


def test_one_reading_of_weight_one_is_the_forest_as_it_is():
    plain, new = grown(draw_table(11, 60, COLUMNS["missing"], 2), leaf_size=2).forest_, example("missing")[2]
    same = replace(plain, readings=(Reading(0, 6, 2, 1.0),), _fills={})
    for aggregate, fill in LINEAR:
        np.testing.assert_allclose(same.estimate(new, aggregate, fill), plain.estimate(new, aggregate, fill), atol=1e-14)


def test_blends_do_not_depend_on_threads_or_batches_or_spans(monkeypatch):
    model, _, new, _ = example("categorical", 3, True)
    forest, how = model.forest_, ("mean", "all")
    once, out_of_bag = forest.estimate(new, *how), forest.estimate_out_of_bag(*how)[0]
    np.testing.assert_array_equal(forest.estimate(new, *how, 2), once)
    np.testing.assert_array_equal(np.concatenate([forest.estimate(new[i : i + 7], *how) for i in range(0, 25, 7)]), once)
    monkeypatch.setattr(Forest, "tree_spans", lambda self, first=0, stop=6: ((t, t + 2) for t in range(first, stop, 2)))
    again = replace(forest, _fills={})
    np.testing.assert_array_equal(again.estimate_out_of_bag(*how, 2)[0], out_of_bag)


def test_a_pickled_blend_predicts_the_same():
    model, _, new, _ = example("numeric")
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict_proba(new, "mean", "oob"), model.predict_proba(new, "mean", "oob"))


# ---- the kernel ----


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(("aggregate", "fill"), LINEAR)
def test_smoother_weights_give_the_probabilities(kind, weighted, aggregate, fill):
    model, training, new, _ = example(kind, 3, weighted)
    kernel, how = model.kernel_, {"aggregate": aggregate, "fill": fill}
    W = kernel.weights(new, **how)
    assert W.min() >= 0.0
    np.testing.assert_allclose(W.sum(axis=1), 1.0)
    p = model.predict_proba(new, aggregate, fill)
    np.testing.assert_allclose(W @ np.eye(3)[training[1]], p, atol=1e-12)
    np.testing.assert_allclose(kernel.average(new, **how), p, atol=1e-12)
    points = kernel.voting_points(new[0], **how)
    np.testing.assert_allclose(points.weight, W.toarray()[0, points.rows], atol=1e-12)


@pytest.mark.parametrize("kind", ["leaf", "inbag", "kerf"])
def test_every_kind_of_kernel_is_the_weighted_sum_of_those_of_the_cut_trees(kind):
    model, _, new, _ = example("missing", 2, True)
    kernels = [
        (weight, ForestKernel(training_of(part, model._matrix, ("a", "b", "c"), model.classes_)))
        for weight, part in model.forest_.parts()
    ]
    for X in (None, new):
        expected = sum(weight * kernel.matrix(X, kind=kind, dense=True) for weight, kernel in kernels)
        np.testing.assert_allclose(model.kernel_.matrix(X, kind=kind, dense=True), expected, atol=1e-12)
    assert model.kernel_.n_trees == 6


@pytest.mark.parametrize("kind", ["oob", "gap"])
def test_kinds_that_ask_who_was_drawn_divide_by_the_weight_of_the_trees_that_count(kind):
    model, (rows, _, weights, _), new, seen = example("missing", 2, True)
    draws = model.inbag_counts_
    for X, left in ((None, rows), (new, seen)):
        above, below = np.zeros((2, len(left), len(rows)))
        for tree, size, factor in oracle.readings_of(model.forest_):
            drawn = draws[:, tree]
            ends, mine = ([oracle.end_of(model.forest_, tree, row, size) for row in side] for side in (rows, left))
            together = np.equal.outer(mine, ends)
            asked = (np.ones(len(left), dtype=bool) if X is not None else drawn == 0)[:, None]
            if kind == "oob":
                above += factor * (together & asked & (drawn == 0))
                below += factor * (asked & (drawn == 0))
            else:
                mass = together * (drawn * weights)
                above += factor * asked * (mass / np.maximum(mass.sum(axis=1, keepdims=True), 1e-300))
                below += factor * asked
        expected = np.divide(above, below, out=np.zeros_like(above), where=below > 0)
        np.testing.assert_allclose(model.kernel_.matrix(X, kind=kind, dense=True), expected, atol=1e-12)


@pytest.mark.parametrize("name", COLUMNS)
def test_the_path_kernel_is_the_weighted_sum_of_those_of_the_cut_trees(name):
    model, _, new, _ = example(name)
    expected = 0.0
    for weight, part in model.forest_.parts():
        plain = grown(draw_table(11, 60, COLUMNS[name], 2))
        plain.forest_ = part
        expected = expected + weight * plain.kernel_.matrix(new, kind="path", decay=0.4)
    np.testing.assert_allclose(model.kernel_.matrix(new, kind="path", decay=0.4), expected, atol=1e-12)


def test_without_memory_of_the_way_the_path_kernel_is_the_leaf_kernel():
    model, _, new, _ = example("numeric")
    kernel = model.kernel_
    np.testing.assert_allclose(kernel.matrix(kind="path", decay=0), kernel.matrix(dense=True), atol=1e-12)
    np.testing.assert_allclose(kernel.matrix(new, kind="path", decay=0), kernel.matrix(new, dense=True), atol=1e-12)
    path, leaf = kernel.derivatives(new, kind="path", decay=0), kernel.derivatives(new)
    np.testing.assert_allclose(path.left, leaf.left, atol=1e-12)
    np.testing.assert_allclose(path.right, leaf.right, atol=1e-12)


def test_profiles_derivatives_and_level_sets_are_those_of_the_kernel():
    model, _, new, _ = example("numeric")
    kernel, x0, h = model.kernel_, new[3], np.linspace(-3.0, 3.0, 41)

    def at(copies):
        return kernel.matrix(copies, x0[None], dense=True)[:, 0]

    for j in range(3):
        copies = np.tile(x0, (41, 1))
        copies[:, j] += h
        np.testing.assert_allclose(kernel.profile(x0, j).at(h), at(copies), atol=1e-12)
    right, left = at(x0 + 0.3 * np.eye(3)), at(x0 - 0.3 * np.eye(3))
    found = kernel.derivatives(x0, h=0.3)
    np.testing.assert_allclose(found.right, (right - 1.0) / 0.3, atol=1e-12)
    np.testing.assert_allclose(found.left, (left - 1.0) / 0.3, atol=1e-12)
    levels = kernel.level_sets(x0, (0, 2), 9)
    copies = np.tile(x0, (81, 1))
    copies[:, 0], copies[:, 2] = np.repeat(levels.x, 9), np.tile(levels.y, 9)
    np.testing.assert_allclose(levels.k.ravel(), at(copies), atol=1e-12)


def test_shares_that_round_to_more_than_one_are_one():
    ninths = (Part("best", 2, 1.0, dict.fromkeys(range(1, 10), 1.0)),)  # nine times 1/9 is a little more than one
    table = draw_table(11, 60, COLUMNS["numeric"], 2)
    kernel, x0 = grown(table, parts=ninths).kernel_, table.X[3]
    assert sum(weight for weight, _ in kernel._training.forest.parts()) > 1.0
    assert 1.0 - 1e-14 < kernel.matrix(x0[None], x0[None]).max() <= 1.0
    assert kernel.profile(x0, 0).k.max() == kernel.profile(x0, 0).at(0.0) == 1.0
    levels = kernel.level_sets(x0, (0, 1), (x0[0] + [-1.0, 0.0], x0[1] + [0.0, 1.0]))
    assert levels.k.max() == levels.k[1, 0] == 1.0


@pytest.mark.parametrize(("aggregate", "fill"), LINEAR)
def test_influence_is_the_change_of_the_estimate_without_the_row(aggregate, fill):
    model, (rows, labels, weights, n_classes), new, seen = example("numeric")
    found = model.kernel_.explain(new[4], aggregate=aggregate, fill=fill)
    for k in range(0, len(found.points), 5):
        without = np.array(weights)
        without[found.points.rows[k]] = 0.0
        about = (rows, labels, without, n_classes), model.inbag_counts_, aggregate, fill
        expected = oracle.blend(model.forest_, seen[4:5], *about)[0, 1]
        assert found.estimate + found.influence[k] == pytest.approx(expected, abs=1e-12)


def test_a_tuned_model_explains_its_own_probabilities():
    problem = PAPER["circle"]
    drawn, new = problem.sample(200, 0), problem.sample(5, 1).X
    model = KernelForestClassifier(100, random_state=0).fit(drawn.X, drawn.y)
    assert len(model.forest_.readings) > 1
    for row, p in zip(new, model.predict_proba(new)[:, 1], strict=True):
        found = model.kernel_.explain(row)
        assert (found.estimate if found.corrected is None else found.corrected) == pytest.approx(p, abs=1e-12)
