"""The bandwidth path: one deep forest says what the forest of every leaf size would say out-of-bag."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import oracle
from kernelforest.bandwidth import BandwidthPath, leaf_sizes
from kernelforest.binning import code_table
from kernelforest.data import read_schema
from kernelforest.forest import Forest
from kernelforest.growing import Rules, make_targets
from oracle import AGGREGATES, FILLS, Table, draw_table

KINDS = {
    "numeric": ("numeric", "numeric", "numeric"),
    "missing": ("missing", "numeric", "missing"),
    "categorical": ("categorical", "numeric", "levels-missing"),
}
SEED = 5
CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # sums are kept in single precision
USUAL = ("mean", "proximity")  # has a loop of its own for two classes
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def draw_weights(kind: str, n: int, seed: int = 0):
    """Weights whose sums are exact in binary, so that a tie in exact arithmetic is one in floats; some are zero."""
    rng = np.random.default_rng(seed)
    if kind == "unweighted":
        return None
    if kind == "integer":
        return rng.integers(1, 4, n).astype(float)
    return rng.integers(0, 12, n) / 8.0 + 0.125 * (np.arange(n) == 0)


def prepare(table: Table, n_classes: int, weights=None, groups=None, **rules):
    """Codes, targets and limits: what a path is made of."""
    schema = read_schema(table.X, table.categorical)
    columns = code_table(schema.matrix(table.X), schema.levels, 1)
    targets = make_targets(table.y.astype(np.int32), n_classes, weights, None, groups)
    limits = Rules(**rules).limits(len(targets.drawable), table.X.shape[1])
    return columns, targets, limits


def make_path(prepared, sizes=None, aggregates=AGGREGATES, rows=None) -> BandwidthPath:
    n_rows = len(prepared[1].labels)
    sizes = leaf_sizes(n_rows) if sizes is None else np.array(sizes)
    return BandwidthPath(*prepared, SEED, np.arange(n_rows) if rows is None else rows, sizes, aggregates)


def assert_path_equals_forests(prepared, n_trees: int, sizes=None) -> None:
    """Every leaf size, aggregate and fill: the path says what a forest grown with this leaf size says."""
    columns, targets, limits = prepared
    way, pair = make_path(prepared, sizes), make_path(prepared, sizes, USUAL)
    for each in (way, pair):
        each.extend(n_trees)
    found, _ = way.probabilities(way.sizes, len(way.rows))
    among = [AGGREGATES.index(name) for name in USUAL]
    np.testing.assert_allclose(pair.sums, way.sums[:, :, among], **CLOSE, err_msg="mean and proximity alone")
    for s, size in enumerate(way.sizes):
        forest = Forest.grow(columns, targets, limits._replace(leaf_size=int(size)), range(n_trees), SEED)
        for a, aggregate in enumerate(AGGREGATES):
            for f, fill in enumerate(FILLS):
                expected = forest.estimate_out_of_bag(aggregate, fill)[0]
                where = f"leaf size {size}, {aggregate}, {fill}"
                np.testing.assert_allclose(found[a, f, s], expected, **CLOSE, err_msg=where)


# ---- leaf sizes ----


@given(n=st.integers(1, 10**7))
@quick
def test_leaf_sizes_rise_from_one_to_nine_tenths_of_the_rows(n):
    sizes = leaf_sizes(n).tolist()
    assert sizes[0] == 1
    assert sizes[-1] == max(1, 9 * n // 10)
    assert all(a < b for a, b in pairwise(sizes))
    assert len(sizes) <= 25


def test_leaf_sizes_of_many_rows_are_in_equal_ratios():
    sizes = leaf_sizes(10**6)
    ratios = sizes[8:] / sizes[7:-1]  # rounding is felt below
    np.testing.assert_allclose(ratios, (9 * 10**5) ** (1 / 24), rtol=0.02)


# ---- the path is what forests of every leaf size say ----


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 40),
    kind=st.sampled_from(sorted(KINDS)),
    n_classes=st.integers(1, 4),
    weighting=st.sampled_from(["unweighted", "integer", "float"]),
    splitter=st.sampled_from(["best", "extra", "random", "random-observed"]),
    sampling=st.sampled_from([{}, {"bootstrap": False, "max_samples": 0.5}, {"max_samples": 0.7}]),
    depth=st.sampled_from([None, None, 3]),
)
@quick
def test_the_path_equals_the_forest_of_every_leaf_size(seed, n, kind, n_classes, weighting, splitter, sampling, depth):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    rules = {"splitter": splitter, "max_features": 2, "max_depth": depth, **sampling}
    assert_path_equals_forests(prepare(table, n_classes, draw_weights(weighting, n, seed), **rules), n_trees=5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighting", ["unweighted", "float"])
def test_the_path_of_more_rows_equals_the_forest_of_every_leaf_size(kind, weighting):
    table = draw_table(1, 150, KINDS[kind], 3, grid=100)
    assert_path_equals_forests(prepare(table, 3, draw_weights(weighting, 150)), n_trees=12)


def test_the_path_with_groups_equals_the_forest_of_every_leaf_size():
    table = draw_table(1, 60, KINDS["missing"], 2)
    groups = np.arange(60) // 4
    columns, targets, limits = prepare(table, 2, draw_weights("float", 60), groups)
    assert limits.n_draws == 15
    assert_path_equals_forests((columns, targets, limits), n_trees=8, sizes=[1, 2, 5, 9, 30, 60])


@pytest.mark.parametrize(
    "scale",
    [
        pytest.param(2.0**-50),
        2.0**50,
    ],
)
def test_the_unit_of_weights_does_not_matter(scale):
    table, weights = draw_table(1, 40, KINDS["missing"], 3), draw_weights("integer", 40)
    one, other = (make_path(prepare(table, 3, w)) for w in (weights, scale * weights))
    for way in (one, other):
        way.extend(8)
    found = [way.probabilities(way.sizes, 40)[0] for way in (one, other)]
    np.testing.assert_allclose(*found, **CLOSE)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighting", ["unweighted", "integer"])
def test_the_path_follows_the_definition(n_classes, weighting):
    n = 20
    table = draw_table(3, n, KINDS["categorical"], n_classes)
    weights = draw_weights(weighting, n)
    columns, targets, limits = prepare(table, n_classes, weights)
    sizes = [1, 2, 3, 5, 8, n]
    way = make_path((columns, targets, limits), sizes)
    way.extend(4)
    deep = Forest.grow(columns, targets, limits, range(4), SEED)
    training = table.training(np.ones(n) if weights is None else weights, n_classes)
    found, _ = way.probabilities(way.sizes, n)
    for s, size in enumerate(sizes):
        for a, aggregate in enumerate(AGGREGATES):
            for f, fill in enumerate(FILLS):
                expected = oracle.out_of_bag_under(deep, size, training, deep.draws().T, aggregate, fill)
                np.testing.assert_allclose(found[a, f, s], expected, **CLOSE)


def test_a_leaf_size_of_all_rows_says_the_shares_of_the_sample():
    # one tree, one leaf: the mean of the in-bag labels; with all rows counted, of all labels but the row's own
    n = 30
    table = draw_table(2, n, KINDS["numeric"], 2)
    prepared = prepare(table, 2)
    way = make_path(prepared, sizes=[n], aggregates=("mean",))
    way.extend(1)
    draws = Forest.grow(*prepared, range(1), SEED).draws()[0]
    inbag, everyone, _ = way.probabilities(np.array([n]), n)[0][0, :, 0]
    out = draws == 0
    np.testing.assert_allclose(inbag[out, 1], draws @ table.y / n, **CLOSE)
    np.testing.assert_allclose(everyone[out, 1], (table.y.sum() - table.y[out]) / (n - 1), **CLOSE)
    np.testing.assert_allclose(inbag[~out, 1], table.y.mean())  # no tree speaks about them


# ---- laws ----


@given(seed=st.integers(0, 10**6), n=st.integers(1, 40), kind=st.sampled_from(sorted(KINDS)), n_classes=st.integers(1, 4))
@quick
def test_probabilities_on_the_path_lie_between_zero_and_one_and_sum_to_one(seed, n, kind, n_classes):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    weights = np.random.default_rng(seed).random(n) ** 3 + 1e-3
    way = make_path(prepare(table, n_classes, weights))
    for n_trees in (0, 3):
        way.extend(n_trees)
        proba, _ = way.probabilities(way.sizes, n)
        assert proba.shape == (3, 3, len(way.sizes), n, n_classes)
        assert proba.min() >= 0.0
        np.testing.assert_allclose(proba.sum(axis=-1), 1.0, rtol=1e-12)


@given(seed=st.integers(0, 10**6), pieces=st.lists(st.integers(0, 25), max_size=4))
@settings(quick, max_examples=30)
def test_growing_by_pieces_equals_growing_at_once(seed, pieces):
    prepared = prepare(draw_table(seed, 50, KINDS["categorical"], 3), 3, draw_weights("float", 50))
    whole, parts = make_path(prepared), make_path(prepared)
    whole.extend(25)
    for n_trees in [*pieces, 10, 25]:  # fewer trees than there are change nothing
        parts.extend(n_trees)
    assert parts.n_trees == whole.n_trees == 25
    np.testing.assert_allclose(parts.steps, whole.steps, **CLOSE)


def test_sums_do_not_depend_on_the_number_of_threads():
    prepared = prepare(draw_table(7, 150, KINDS["categorical"], 3, grid=200), 3, draw_weights("float", 150) + 0.1)
    sums = []
    for threads in (1, 2, 3):
        way = make_path(prepared)
        way.extend(25, threads)
        sums.append(way.steps.tobytes())
    assert sums[0] == sums[1] == sums[2]


def test_sums_do_not_depend_on_how_many_trees_are_walked_at_a_time(monkeypatch):
    prepared = prepare(draw_table(7, 80, KINDS["missing"], 2), 2)
    together, parts = make_path(prepared), make_path(prepared)
    together.extend(25)
    monkeypatch.setattr(Forest, "tree_spans", lambda self, more: pairwise(range(0, self.n_trees + 1, 5)))
    parts.extend(25)
    np.testing.assert_array_equal(together.steps, parts.steps)


def test_some_rows_and_some_sizes_are_parts_of_the_whole():
    prepared = prepare(draw_table(7, 60, KINDS["numeric"], 2), 2)
    rows = np.random.default_rng(0).permutation(60)[:25]
    whole, some = make_path(prepared), make_path(prepared, rows=rows)
    for way in (whole, some):
        way.extend(10)
    np.testing.assert_array_equal(some.steps, whole.steps[rows])
    everything, mass = some.probabilities(some.sizes, 25)
    np.testing.assert_array_equal(some.probabilities(some.sizes[::3], 7)[0], everything[:, :, ::3, :7])
    two, mass_of_two = some.probabilities(some.sizes[::3], 25, ("oob", "inbag"))
    np.testing.assert_array_equal(two, everything[:, [2, 0], ::3])
    np.testing.assert_array_equal(mass_of_two, mass[:, [2, 0], ::3])


def test_mass_counts_trees_or_the_rows_in_their_leaves():
    n, n_trees = 40, 12
    prepared = prepare(draw_table(5, n, KINDS["numeric"], 2), 2)
    way = make_path(prepared, sizes=[3], aggregates=("mean", "proximity"))
    way.extend(n_trees)
    mass = way.probabilities(way.sizes, n)[1][..., 0]
    forest = Forest.grow(prepared[0], prepared[1], prepared[2]._replace(leaf_size=3), range(n_trees), SEED)
    leaves, draws = forest.training_leaves(0, n_trees), forest.draws()
    expected = np.zeros((2, len(FILLS)))
    for i in range(n):
        for t in np.flatnonzero(draws[:, i] == 0):
            others = (leaves[:, t] == leaves[i, t]) & (np.arange(n) != i)
            counted = [draws[t][others].sum(), others.sum(), (draws[t][others] == 0).sum()]
            expected += [np.minimum(counted, 1), counted]
    np.testing.assert_allclose(mass, expected / n, **CLOSE)


def test_a_path_without_trees_says_the_class_shares():
    table, weights = draw_table(7, 60, KINDS["numeric"], 3), draw_weights("float", 60)
    proba, _ = make_path(prepare(table, 3, weights)).probabilities(leaf_sizes(60), 60)
    shares = oracle.class_shares(table.y, weights, 3)
    np.testing.assert_allclose(proba, np.broadcast_to(shares, proba.shape))


def test_a_path_notes_the_time_it_took():
    way = make_path(prepare(draw_table(7, 60, KINDS["numeric"], 2), 2))
    assert way.seconds == 0.0
    way.extend(5)
    first = way.seconds
    assert first > 0.0
    way.extend(5)
    assert way.seconds == first
    way.extend(6)
    assert way.seconds > first
