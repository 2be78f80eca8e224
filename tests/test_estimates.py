"""Estimates: every aggregate and fill against its definition, and the laws they obey."""

from __future__ import annotations

import os
import pickle
import select
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import oracle
from kernelforest import KernelForestClassifier
from kernelforest.forest import Forest
from kernelforest.growing import make_targets
from oracle import AGGREGATES, FILLS, Table, draw_table

KINDS = {
    "numeric": ("numeric", "numeric", "numeric"),
    "missing": ("missing", "numeric", "missing"),
    "categorical": ("categorical", "numeric", "levels-missing"),
}
WEIGHTS = ("unweighted", "integer", "float")
EACH_ESTIMATE = [(a, f) for a in AGGREGATES for f in FILLS]
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def draw_weights(kind: str, n: int, seed: int = 0):
    """Weights whose sums are exact in binary, so that a tie in exact arithmetic is one in floats; some are zero."""
    rng = np.random.default_rng(seed)
    if kind == "unweighted":
        return np.ones(n)
    if kind == "integer":
        return rng.integers(1, 4, n).astype(float)
    return rng.integers(0, 12, n) / 8.0 + 0.125 * (np.arange(n) == 0)


def fit(table: Table, weights=None, **rules) -> KernelForestClassifier:
    rules = {"n_estimators": 6, "random_state": 3, "leaf_size": 2, **rules}
    return KernelForestClassifier.untuned(categorical_features=table.categorical, **rules).fit(
        table.X, table.y, None if weights is None else weights
    )


@cache
def example(kind: str, weighting: str, n_classes: int):
    """A fitted forest, what the oracle needs of it, and new rows, some with levels or gaps that training did not see."""
    table = draw_table(11, 45, KINDS[kind], n_classes)
    weights = draw_weights(weighting, 45)
    model = fit(table, None if weighting == "unweighted" else weights)
    new = draw_table(12, 30, KINDS[kind], n_classes).X
    new[:5, 1] = np.nan
    new[5:9, table.categorical] = 77.0
    return model, table.training(weights, n_classes), new, table.as_seen(new)


# ---- against the definition ----


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("aggregate", "fill"), EACH_ESTIMATE)
def test_probabilities_of_new_rows_follow_the_definition(kind, weighting, n_classes, aggregate, fill):
    model, training, new, seen = example(kind, weighting, n_classes)
    expected = oracle.probabilities(model.forest_, seen, training, model.inbag_counts_, aggregate, fill)
    np.testing.assert_allclose(model.predict_proba(new, aggregate, fill), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("aggregate", "fill"), EACH_ESTIMATE)
def test_out_of_bag_probabilities_follow_the_definition(kind, weighting, n_classes, aggregate, fill):
    model, training, *_ = example(kind, weighting, n_classes)
    expected = oracle.out_of_bag_probabilities(model.forest_, training, model.inbag_counts_, aggregate, fill)
    proba, n_trees = model.forest_.estimate_out_of_bag(aggregate, fill)
    opinions = oracle.out_of_bag_opinions(model.forest_, training, model.inbag_counts_, aggregate, fill)
    assert n_trees.tolist() == [len(mine) if np.any(mine) else 0 for mine in opinions]
    np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_apply_follows_the_rules_of_the_nodes(kind, n_classes):
    model, training, new, seen = example(kind, "unweighted", n_classes)
    np.testing.assert_array_equal(model.apply(training[0]), oracle.leaves_of(model.forest_, training[0]))
    np.testing.assert_array_equal(model.apply(new), oracle.leaves_of(model.forest_, seen))


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fill", FILLS)
def test_every_leaf_holds_what_its_fill_counts(kind, weighting, fill):
    model, training, *_ = example(kind, weighting, 3)
    rows, labels, weights, n_classes = training
    leaves = oracle.leaves_of(model.forest_, rows)
    expected = oracle.fill_leaves(fill, leaves, labels, weights, model.inbag_counts_, n_classes)
    filled, starts = model.forest_.fill(fill), model.forest_.starts[:, 1]
    for tree, (first, stop) in enumerate(pairwise(starts)):
        for leaf in range(stop - first):
            assert filled[first + leaf].tolist() == expected.get((tree, leaf), [0.0] * n_classes)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(5, 40),
    kind=st.sampled_from(sorted(KINDS)),
    n_classes=st.integers(2, 4),
    weighting=st.sampled_from(WEIGHTS),
    splitter=st.sampled_from(["best", "extra", "random", "random-observed"]),
    leaf_size=st.integers(1, 8),
    sampling=st.sampled_from([{"bootstrap": True}, {"bootstrap": False, "max_samples": 0.5}, {"max_samples": 0.7}]),
)
@settings(quick, max_examples=120)
def test_every_estimate_of_any_forest_follows_the_definition(
    seed, n, kind, n_classes, weighting, splitter, leaf_size, sampling
):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    weights = draw_weights(weighting, n, seed)
    model = fit(
        table,
        None if weighting == "unweighted" else weights,
        n_estimators=3,
        splitter=splitter,
        leaf_size=leaf_size,
        random_state=seed,
        **sampling,
    )
    training = table.training(weights, n_classes)
    new = draw_table(seed + 1, 7, KINDS[kind], n_classes).X
    draws = model.inbag_counts_
    for aggregate, fill in EACH_ESTIMATE:
        expected = oracle.probabilities(model.forest_, table.as_seen(new), training, draws, aggregate, fill)
        np.testing.assert_allclose(model.predict_proba(new, aggregate, fill), expected, rtol=1e-12, atol=1e-12)
        expected = oracle.out_of_bag_probabilities(model.forest_, training, draws, aggregate, fill)
        proba = model.forest_.estimate_out_of_bag(aggregate, fill)[0]
        np.testing.assert_allclose(proba, expected, rtol=1e-9, atol=1e-12)


def test_oob_proba_is_the_out_of_bag_estimate_of_the_chosen_aggregate_and_fill():
    table = draw_table(5, 60, KINDS["missing"], 3)
    for aggregate, fill in EACH_ESTIMATE:
        model = fit(table, n_estimators=40, aggregate=aggregate, fill=fill)
        training = table.training(np.ones(60), 3)
        expected = oracle.out_of_bag_probabilities(model.forest_, training, model.inbag_counts_, aggregate, fill)
        np.testing.assert_allclose(model.oob_proba_, expected, rtol=1e-9, atol=1e-12)
        hit = np.eye(3)[table.y]
        assert model.oob_score_.brier == pytest.approx(((expected - hit) ** 2).sum(axis=1).mean())


def test_a_row_that_every_tree_drew_gets_the_class_shares_and_a_warning():
    X, y = np.arange(4.0)[:, None], [0, 1, 1, 1]
    seeds = range(50)
    model = next(
        m
        for m in (KernelForestClassifier.untuned(2, random_state=s).fit(X, y) for s in seeds)
        if (m.inbag_counts_ > 0).all(axis=1).any()
    )
    with pytest.warns(UserWarning, match=r"of 4 rows were drawn by every tree"):
        proba = model.oob_proba_
    drawn = (model.inbag_counts_ > 0).all(axis=1)
    np.testing.assert_array_equal(proba[drawn], np.tile([0.25, 0.75], (drawn.sum(), 1)))


def test_no_tree_speaks_about_a_row_that_is_alone_in_honest_leaves():
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 2
    forest = KernelForestClassifier.untuned(4, random_state=0).fit(X, y).forest_
    proba, n_trees = forest.estimate_out_of_bag("mean", "oob")
    left_out, leaves = forest.draws().T == 0, forest.training_leaves(0, 4)
    for i in range(60):
        beside = sum((leaves[left_out[:, t], t] == leaves[i, t]).sum() - 1 for t in range(4) if left_out[i, t])
        assert (n_trees[i] == 0) == (beside == 0)
    assert ((n_trees == 0) & left_out.any(axis=1)).any()
    np.testing.assert_array_equal(proba[n_trees == 0], 0.5)


def test_a_query_in_leaves_that_the_fill_left_empty_gets_the_class_shares():
    # one tree on one of three rows: its leaf is the whole line, and in-bag there is that row alone
    X, y = [[0.0], [1.0], [2.0]], [0, 0, 1]
    model = KernelForestClassifier.untuned(1, bootstrap=False, max_samples=2, random_state=0).fit(X, y)
    inbag = model.inbag_counts_[:, 0] > 0
    leaves = model.apply(X)[:, 0]
    empty = [leaf for leaf in leaves[inbag] if leaf not in leaves[~inbag]]
    assert empty
    rows = np.array(X)[leaves == empty[0]]
    np.testing.assert_allclose(model.predict_proba(rows, fill="oob"), np.tile([2 / 3, 1 / 3], (len(rows), 1)))


# ---- laws ----


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    kind=st.sampled_from(sorted(KINDS)),
    n_classes=st.integers(1, 4),
    weighting=st.sampled_from(["unweighted", "awkward"]),
)
@quick
def test_probabilities_lie_between_zero_and_one_and_sum_to_one(seed, n, kind, n_classes, weighting):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    weights = None
    if weighting == "awkward":
        rng = np.random.default_rng(seed)
        weights = rng.random(n) ** 8 + 1e-3
    model = fit(table, weights, n_estimators=3, random_state=seed, leaf_size=3)
    for aggregate, fill in EACH_ESTIMATE:
        for proba in (
            model.predict_proba(table.X, aggregate, fill),
            model.forest_.estimate_out_of_bag(aggregate, fill)[0],
        ):
            assert proba.min() >= 0.0
            assert proba.max() <= 1.0
            np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)


@given(seed=st.integers(0, 10**6), n=st.integers(3, 40), splitter=st.sampled_from(["best", "extra", "random"]))
@quick
def test_vote_and_mean_agree_when_leaves_are_pure(seed, n, splitter):
    X = np.random.default_rng(seed).permutation(n * 2).reshape(n, 2).astype(float)  # all rows differ
    y = np.random.default_rng(seed + 1).integers(0, 3, n)
    model = KernelForestClassifier.untuned(5, leaf_size=1, splitter=splitter, random_state=seed).fit(X, y)
    new = np.random.default_rng(seed + 2).uniform(0, 2 * n, (20, 2))
    np.testing.assert_array_equal((model.forest_.inbag > 0).sum(axis=1), 1)
    np.testing.assert_allclose(model.predict_proba(new, "vote"), model.predict_proba(new, "mean"), rtol=1e-12)


def test_proximity_differs_from_vote_even_when_leaves_are_pure():
    """Olson and Wyner (2018) say that the three estimates agree for trees grown to purity. They do not.

    Rows 0, 1, 2 with labels 0, 1, 1; two trees:

        tree 0 drew rows 0 0 1: at x = 1 a pure leaf with one draw of class 1; at x = 0 two draws of class 0
        tree 1 drew rows 1 1 2: one pure leaf with three draws of class 1

    At x = 0 the first tree says class 0 and the second class 1. Vote and mean give each tree one voice: 1/2. Proximity
    gives each drawn row one voice: 3/5.
    """
    X, y = [[0.0], [1.0], [2.0]], [0, 1, 1]
    model = next(
        m
        for m in (KernelForestClassifier.untuned(2, random_state=seed).fit(X, y) for seed in range(2000))
        if m.inbag_counts_.T.tolist() == [[2, 1, 0], [0, 2, 1]]
    )
    assert sorted(model.forest_.inbag.tolist()) == [[0.0, 1.0], [0.0, 3.0], [2.0, 0.0]]
    assert model.predict_proba([[0.0]], "vote").tolist() == [[0.5, 0.5]]
    assert model.predict_proba([[0.0]], "mean").tolist() == [[0.5, 0.5]]
    np.testing.assert_allclose(model.predict_proba([[0.0]], "proximity"), [[2 / 5, 3 / 5]])


def test_a_tied_vote_is_split():
    X, y = [[0.0], [0.0], [1.0], [1.0], [1.0]], ["a", "b", "b", "c", "c"]
    model = KernelForestClassifier.untuned(1, bootstrap=False, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba([[0.0], [1.0]], "vote"), [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    # a tie between all of three classes
    model = KernelForestClassifier.untuned(1, bootstrap=False).fit([[0.0]] * 3, ["a", "b", "c"])
    np.testing.assert_allclose(model.predict_proba([[0.0]], "vote"), [[1 / 3, 1 / 3, 1 / 3]])


def test_in_bag_and_out_of_bag_rows_partition_the_training_set():
    table = draw_table(2, 50, KINDS["missing"], 3)
    weights = draw_weights("float", 50)
    model = fit(table, weights)
    forest, drawn = model.forest_, model.inbag_counts_ > 0
    once = np.zeros_like(forest.inbag)
    for i, leaves in enumerate(model.apply(table.X)):
        for tree in np.flatnonzero(drawn[i]):
            once[forest.starts[tree, 1] + leaves[tree], table.y[i]] += weights[i]
    np.testing.assert_array_equal(once + forest.fill("oob"), forest.fill("all"))


@pytest.mark.parametrize(
    ("rules", "n_draws", "most"),
    [
        ({}, 30, 30),
        ({"max_samples": 11}, 11, 11),
        ({"max_samples": 0.5}, 15, 15),
        ({"bootstrap": False}, 30, 1),
        ({"bootstrap": False, "max_samples": 11}, 11, 1),
        ({"bootstrap": False, "max_samples": 0.5}, 15, 1),
    ],
)
def test_in_bag_counts_sum_to_the_number_of_draws(rules, n_draws, most):
    table = draw_table(2, 30, KINDS["numeric"], 2)
    counts = fit(table, **rules).inbag_counts_
    np.testing.assert_array_equal(counts.sum(axis=0), n_draws)
    assert counts.max() <= most
    assert (fit(table, **rules).forest_.sizes[fit(table, **rules).forest_.starts[:-1, 0]] == n_draws).all()


def test_bootstrap_draws_every_row_equally_often():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    for rules in ({}, {"bootstrap": False, "max_samples": 10}):
        counts = KernelForestClassifier.untuned(4000, random_state=0, **rules).fit(X, y).inbag_counts_
        mean, deviation = counts.mean(axis=1), counts.std(axis=1) / np.sqrt(4000)
        assert (abs(mean - counts.mean()) < 4 * deviation).all()


def test_rows_of_weight_zero_are_never_drawn():
    table = draw_table(2, 30, KINDS["numeric"], 2)
    weights = (np.arange(30) % 3 > 0).astype(float)
    model = fit(table, weights, n_estimators=20)
    assert model.inbag_counts_[weights == 0].max() == 0
    np.testing.assert_array_equal(model.inbag_counts_.sum(axis=0), 20)


def assert_same_partition(one: KernelForestClassifier, other: KernelForestClassifier) -> None:
    """The same cuts. Left aside: the numbers of the nodes, and where missing values would go (that counts draws)."""
    assert one.node_counts_.tolist() == other.node_counts_.tolist()
    for tree in range(one.n_estimators):
        for a, b, _ in oracle.walk_together(one.forest_, other.forest_, tree):
            cuts = oracle.split_of(one.forest_, tree, a), oracle.split_of(other.forest_, tree, b)
            assert [c and (c.feature, c.threshold) for c in cuts] == [cuts[0] and (cuts[0].feature, cuts[0].threshold)] * 2


def filled_at(model: KernelForestClassifier, rows, fill: str) -> np.ndarray:
    """Class masses of the leaves that rows reach, (rows, trees, classes)."""
    return model.forest_.fill(fill)[model.apply(rows) + model.forest_.starts[:-1, 1]]


@given(seed=st.integers(0, 10**6), n=st.integers(2, 30), aggregate=st.sampled_from(AGGREGATES))
@quick
def test_a_row_of_weight_two_fills_like_two_rows(seed, n, aggregate):
    # random cuts ask neither labels nor weights; without resampling, and with one column, the partition is the same
    rng = np.random.default_rng(seed)
    X, y, times = rng.integers(0, 15, (n, 1)) / 3.0, rng.integers(0, 3, n), rng.integers(1, 4, n)
    times = np.where(times.min() == times.max(), 1, times)  # weights that are all the same count as one
    rules = {"bootstrap": False, "splitter": "random", "random_state": seed, "aggregate": aggregate, "max_depth": 3}
    weighted = KernelForestClassifier.untuned(4, **rules).fit(X, y, sample_weight=times)
    repeated = KernelForestClassifier.untuned(4, **rules).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    new = rng.uniform(-1, 6, (20, 1))
    assert_same_partition(weighted, repeated)
    for fill in ("inbag", "all"):
        np.testing.assert_array_equal(filled_at(weighted, new, fill), filled_at(repeated, new, fill))
        np.testing.assert_array_equal(weighted.predict_proba(new, fill=fill), repeated.predict_proba(new, fill=fill))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_partition_filled_with_weights_or_with_copies_holds_the_same(kind):
    table = draw_table(3, 40, KINDS[kind], 3)
    times = np.random.default_rng(0).integers(1, 4, 40)
    forest = fit(table, times.astype(float)).forest_
    copies = np.repeat(np.arange(40), times)
    refilled = replace(
        forest,
        columns=forest.columns._replace(codes=np.ascontiguousarray(forest.columns.codes[:, copies])),
        targets=make_targets(forest.targets.labels[copies], 3),
        _fills={},
    )
    np.testing.assert_array_equal(refilled.fill("all"), forest.fill("all"))


@pytest.mark.parametrize("splitter", ["best", "extra"])
def test_a_row_of_weight_two_grows_like_two_rows(splitter):
    # one column of distinct ranks and no ties between cuts: the same partition by weights and by copies
    X = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])[:, None]
    y, times = np.array([0, 0, 1, 0, 2, 2, 1, 1]), np.array([3, 1, 2, 1, 5, 1, 1, 2])
    rules = {"bootstrap": False, "splitter": splitter, "random_state": 0, "max_depth": 1}
    weighted = KernelForestClassifier.untuned(9, **rules).fit(X, y, sample_weight=times)
    repeated = KernelForestClassifier.untuned(9, **rules).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_same_partition(weighted, repeated)
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))


def test_only_ratios_of_weights_matter():
    table = draw_table(4, 40, KINDS["missing"], 3)
    weights = draw_weights("float", 40)
    one, many = fit(table, weights), fit(table, 1024.0 * weights)
    for aggregate, fill in EACH_ESTIMATE:
        np.testing.assert_array_equal(
            one.predict_proba(table.X, aggregate, fill), many.predict_proba(table.X, aggregate, fill)
        )


# ---- reproducible, to the last bit ----


def every_number(model: KernelForestClassifier, new) -> list:
    return [
        model.forest_.nodes,
        model.forest_.sets,
        model.inbag_counts_,
        model.feature_importances_,
        model.apply(new),
        model.oob_proba_,
        *(model.predict_proba(new, a, f) for a, f in EACH_ESTIMATE),
        *(model.forest_.estimate_out_of_bag(a, f, model._threads())[0] for a, f in EACH_ESTIMATE),
    ]


def assert_same_bits(one: list, other: list) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighting", ["unweighted", "float"])
def test_results_do_not_depend_on_the_number_of_threads(kind, weighting):
    table, new = draw_table(7, 150, KINDS[kind], 3, grid=200), draw_table(8, 301, KINDS[kind], 3, grid=200).X
    weights = None if weighting == "unweighted" else draw_weights(weighting, 150) + 0.1
    alone = every_number(fit(table, weights, n_estimators=25, n_jobs=1), new)
    for n_jobs in (2, 3):
        assert_same_bits(alone, every_number(fit(table, weights, n_estimators=25, n_jobs=n_jobs), new))


def test_results_do_not_depend_on_the_batch_of_rows():
    for kind in KINDS:
        table, new = draw_table(7, 80, KINDS[kind], 3, grid=100), draw_table(8, 97, KINDS[kind], 3, grid=100).X
        model = fit(table, draw_weights("float", 80) + 0.1, n_estimators=15)
        for aggregate, fill in EACH_ESTIMATE:
            whole = model.predict_proba(new, aggregate, fill)
            for size in (1, 5, 64):
                parts = [model.predict_proba(new[i : i + size], aggregate, fill) for i in range(0, 97, size)]
                assert np.concatenate(parts).tobytes() == whole.tobytes()
        backwards = model.predict_proba(new[::-1])[::-1]
        np.testing.assert_array_equal(backwards, model.predict_proba(new))


def test_results_do_not_depend_on_the_largest_block_of_rows():
    table = draw_table(7, 80, KINDS["missing"], 3, grid=100)
    new = draw_table(8, 40_000, KINDS["missing"], 3, grid=1000).X  # several blocks of 16,384
    model = fit(table)
    parts = [model.predict_proba(part) for part in np.array_split(new, 7)]
    assert np.concatenate(parts).tobytes() == model.predict_proba(new).tobytes()


def test_results_do_not_depend_on_how_many_trees_are_counted_at_a_time(monkeypatch):
    table = draw_table(7, 80, KINDS["categorical"], 3)
    rules = {"n_estimators": 25, "n_jobs": 2}
    together = every_number(fit(table, **rules), table.X)
    monkeypatch.setattr(Forest, "tree_spans", lambda self, first=0, stop=25: pairwise(range(first, stop + 1, 5)))
    assert_same_bits(together, every_number(fit(table, **rules), table.X))


def test_refitting_with_the_same_random_state_gives_the_same_forest():
    table = draw_table(7, 60, KINDS["categorical"], 3)
    one, other = fit(table, n_estimators=25), fit(table, n_estimators=25)
    assert_same_bits(every_number(one, table.X), every_number(other, table.X))
    assert_same_bits(every_number(one.fit(table.X, table.y), table.X), every_number(other, table.X))


def test_another_random_state_gives_another_forest():
    table = draw_table(7, 60, KINDS["numeric"], 2)
    assert (fit(table, random_state=1).inbag_counts_ != fit(table, random_state=2).inbag_counts_).any()


def test_more_trees_keep_the_trees_there_were():
    table = draw_table(7, 60, KINDS["numeric"], 2)
    few, many = fit(table, n_estimators=3).forest_, fit(table, n_estimators=9).forest_
    np.testing.assert_array_equal(few.nodes, many.nodes[: len(few.nodes)])


def test_many_threads_may_predict_at_once():
    table, new = draw_table(7, 200, KINDS["categorical"], 3), draw_table(8, 500, KINDS["categorical"], 3).X
    model = fit(table, n_estimators=30)
    expected = {e: model.predict_proba(new, *e) for e in EACH_ESTIMATE}
    for _ in range(3):
        fresh = pickle.loads(pickle.dumps(model))  # nothing is counted or cached yet
        with ThreadPoolExecutor(8) as pool:
            jobs = [(e, pool.submit(fresh.predict_proba, new, *e)) for e in EACH_ESTIMATE * 4]
        for estimate, job in jobs:
            np.testing.assert_array_equal(job.result(), expected[estimate])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    table = draw_table(7, 60, KINDS["numeric"], 2)
    model = fit(table, n_jobs=2)
    before = model.predict_proba(table.X)  # threads of the parent are waiting from here on
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        same = np.array_equal(model.predict_proba(table.X), before)
        os.write(writer, b"same" if same else b"different")
        os._exit(0)
    readable, _, _ = select.select([reader], [], [], 60.0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert readable, "the child waits for threads that it does not have"
    assert os.read(reader, 20) == b"same"


@pytest.mark.parametrize("kind", KINDS)
def test_a_pickled_model_predicts_the_same(kind):
    table = draw_table(7, 60, KINDS[kind], 3)
    model, new = fit(table, draw_weights("integer", 60), n_estimators=25), draw_table(8, 50, KINDS[kind], 3).X
    before = every_number(model, new)
    assert_same_bits(before, every_number(pickle.loads(pickle.dumps(model)), new))


# ---- class weights and priors ----


def imbalanced(n: int, seed: int = 0):
    """One row in ten is positive on average: P(y = 1 | x) = 0.2 x with x uniform."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, (rng.random(n) < 0.2 * X[:, 0]).astype(int)


def test_a_prior_multiplies_the_odds():
    table = draw_table(3, 60, KINDS["numeric"], 3)
    weights = draw_weights("integer", 60)
    prior = np.array([0.2, 0.7, 0.1])
    plain, moved = fit(table, weights), fit(table, weights, prior=prior)
    shares = np.array(oracle.class_shares(table.y, weights, 3))
    for aggregate, fill in EACH_ESTIMATE:
        expected = plain.predict_proba(table.X, aggregate, fill) * prior / shares
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(moved.predict_proba(table.X, aggregate, fill), expected, rtol=1e-12)
    by_name = fit(table, weights, prior={2: 0.1, 0: 0.2, 1: 0.7})
    np.testing.assert_array_equal(by_name.predict_proba(table.X), moved.predict_proba(table.X))


def test_the_prior_of_the_data_changes_nothing():
    table = draw_table(3, 60, KINDS["numeric"], 3)
    shares = np.bincount(table.y) / 60
    np.testing.assert_allclose(
        fit(table, prior=shares).predict_proba(table.X), fit(table).predict_proba(table.X), rtol=1e-12
    )


def test_a_prior_moves_out_of_bag_probabilities_too():
    table = draw_table(3, 60, KINDS["numeric"], 2)
    plain, moved = fit(table, n_estimators=40), fit(table, n_estimators=40, prior=[0.9, 0.1])
    expected = plain.oob_proba_ * np.array([0.9, 0.1]) / (np.bincount(table.y) / 60)
    np.testing.assert_allclose(moved.oob_proba_, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("estimate", [("mean", "inbag"), ("mean", "all"), ("mean", "oob"), ("proximity", "oob")])
def test_balanced_class_weights_do_not_move_probabilities_off_the_base_rate(estimate):
    # honest or averaged leaves only: in-bag counts are larger in leaves that grew pure, so that the paper's proximity
    # leans to the larger class, with class weights as without
    X, y = imbalanced(2000)
    new, _ = imbalanced(2000, seed=1)
    aggregate, fill = estimate
    model = KernelForestClassifier.untuned(
        50, leaf_size=20, class_weight="balanced", aggregate=aggregate, fill=fill, random_state=0
    ).fit(X, y)
    error = y.std() / np.sqrt(len(y))
    assert abs(model.predict_proba(new)[:, 1].mean() - y.mean()) < 3 * error
    assert abs(model.oob_proba_[:, 1].mean() - y.mean()) < 3 * error


def test_balanced_class_weights_change_how_trees_are_grown():
    X, y = imbalanced(300)
    plain, balanced = (
        KernelForestClassifier.untuned(5, leaf_size=20, class_weight=w, random_state=0).fit(X, y) for w in (None, "balanced")
    )
    np.testing.assert_array_equal(plain.inbag_counts_, balanced.inbag_counts_)
    assert not np.array_equal(plain.forest_.nodes, balanced.forest_.nodes)


def test_weighted_prior_undoes_the_return_to_the_base_rate():
    X, y = imbalanced(2000)
    rules = {"n_estimators": 50, "leaf_size": 99, "class_weight": "balanced", "aggregate": "mean", "random_state": 0}
    plain = KernelForestClassifier.untuned(**rules).fit(X, y)
    weighted = KernelForestClassifier.untuned(**rules, prior="weighted").fit(X, y)
    halves = KernelForestClassifier.untuned(**rules, prior=[0.5, 0.5]).fit(X, y)  # what "balanced" makes of the shares
    factor = len(y) / (2 * np.bincount(y))
    expected = plain.predict_proba(X) * factor
    np.testing.assert_allclose(weighted.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(weighted.predict_proba(X), halves.predict_proba(X), rtol=1e-12)
    assert plain.oob_proba_[:, 1].mean() < 0.15
    assert 0.35 < weighted.oob_proba_[:, 1].mean() < 0.6


def test_class_weights_move_predictions():
    X, y = imbalanced(1000)
    plain, balanced = (
        KernelForestClassifier.untuned(30, leaf_size=50, class_weight=w, random_state=0).fit(X, y)
        for w in (None, "balanced")
    )
    assert plain.predict(X).mean() < 0.05
    assert 0.25 < balanced.predict(X).mean() < 0.75


def test_weighted_prior_leaves_predictions_as_they_are():
    X, y = imbalanced(1000)
    rules = {"n_estimators": 30, "leaf_size": 50, "class_weight": "balanced", "random_state": 0}
    plain = KernelForestClassifier.untuned(**rules).fit(X, y)
    weighted = KernelForestClassifier.untuned(**rules, prior="weighted").fit(X, y)
    # the "weighted" prior has multiplied by the class weights: predict must not do so again
    np.testing.assert_array_equal(weighted.predict(X), plain.predict(X))
    np.testing.assert_array_equal(weighted.predict(X), weighted.predict_proba(X).argmax(axis=1))


@pytest.mark.parametrize("unit", [0.1, 3.7, 1e-7])
def test_the_same_weight_for_all_rows_changes_nothing(unit):
    table = draw_table(3, 80, ("numeric", "categorical", "missing"), 4, 20)
    model = KernelForestClassifier.untuned(20, random_state=0, categorical_features=[1])
    plain, weighted = clone(model).fit(table.X, table.y), clone(model).fit(table.X, table.y, np.full(80, unit))
    np.testing.assert_allclose(weighted.predict_proba(table.X), plain.predict_proba(table.X), rtol=0, atol=1e-12)


def test_a_class_without_weight_has_probability_zero_under_any_prior():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 1, 1, 2, 2])
    weights = (y < 2).astype(float)
    for prior in (None, [0.5, 0.5, 0.0], [0.4, 0.4, 0.2]):
        # its share is zero, and prior / share no number
        model = KernelForestClassifier.untuned(5, random_state=0, prior=prior).fit(X, y, weights)
        proba = model.predict_proba(X)
        assert np.isfinite(proba).all()
        np.testing.assert_array_equal(proba[:, 2], 0.0)


@pytest.mark.parametrize("prior", [None, "weighted", [0.2, 0.5, 0.3]])
def test_a_class_without_weight_stays_at_zero_when_calibrated(prior):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 3
    rules = {"calibration": "sigmoid", "prior": prior, "class_weight": {0: 1.0, 1: 2.0, 2: 3.0}}
    model = KernelForestClassifier.untuned(30, random_state=0, **rules).fit(X, y, (y < 2).astype(float))
    for proba in (model.predict_proba(X), model.oob_proba_):
        np.testing.assert_array_equal(proba[:, 2], 0.0)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_an_out_of_bag_fill_is_allowed_whenever_rows_are_left_out():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    # one row per tree, not to be mistaken for max_samples=1.0, all of them
    model = KernelForestClassifier.untuned(5, bootstrap=False, max_samples=1, fill="oob", random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X, "vote").sum(axis=1), 1.0)


def test_an_out_of_bag_fill_is_refused_when_no_row_is_left_out():
    X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
    for all_rows in (None, 1.0, 6):
        with pytest.raises(ValueError, match="fill='oob' needs rows"):
            KernelForestClassifier.untuned(5, bootstrap=False, max_samples=all_rows, fill="oob").fit(X, y)
