"""Growing: planted rules come back, cuts are the best by definition, trees are nested and know only what they may know."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest

import oracle
from kernelforest import KernelForestClassifier, growing
from kernelforest.binning import code_table
from kernelforest.forest import Forest
from kernelforest.growing import Rules, make_targets
from oracle import Table, draw_table, members, size_of, split_of, walk_together

KINDS = {
    "numeric": ("numeric", "numeric", "numeric"),
    "missing": ("missing", "numeric", "missing"),
    "categorical": ("categorical", "numeric", "levels-missing"),
}
SPLITTERS = ("best", "extra", "random", "random-observed")
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
seeds = st.integers(0, 10**6)


def fit(table: Table, weights=None, **rules) -> KernelForestClassifier:
    rules = {"n_estimators": 3, "random_state": 0, **rules}
    return KernelForestClassifier.untuned(categorical_features=table.categorical, **rules).fit(table.X, table.y, weights)


def plain(X, y) -> Table:
    X = np.asarray(X, dtype=float)
    return Table(X if X.ndim == 2 else X[:, None], np.asarray(y), [])


def stump(table: Table, weights=None, **rules) -> KernelForestClassifier:
    """One cut, by all rows and all features."""
    return fit(table, weights, **{"n_estimators": 1, "max_features": "all", "bootstrap": False, "max_depth": 1, **rules})


def decrease_of_root(table: Table, weights, model) -> float:
    """What the cut of the root gains by definition, rows routed by the rules of the nodes."""
    split = split_of(model.forest_, 0, 0)
    return oracle.gini_decrease(table.y.tolist(), weights, [split.sends_left(row) for row in table.X])


def best_decrease(table: Table, weights) -> float:
    """The best any feature can do; by enumeration of subsets for categorical ones."""
    found = []
    for j in range(table.X.shape[1]):
        search = oracle.best_subset if j in table.categorical else oracle.best_numeric_cut
        cut = search(table.X[:, j].tolist(), table.y.tolist(), weights) if np.isfinite(table.X[:, j]).any() else None
        found += [cut.decrease] if cut else []
    return max(found)


def assert_root_is_best(table: Table, weights=None) -> None:
    model = stump(table, weights)
    w = np.ones(len(table.y)) if weights is None else weights
    best = best_decrease(table, w)
    assert decrease_of_root(table, w, model) == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert model.forest_.gains.sum() * w.max() == pytest.approx(best, rel=1e-6, abs=1e-9)  # criterion: largest weight one


# ---- planted rules ----


@pytest.mark.parametrize("n", [12, 30, 34, 200, 3000])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_the_planted_cut_is_found(n, share):
    rng = np.random.default_rng(n)
    X = rng.permuted(np.tile(np.arange(float(n))[:, None], 4), axis=0)
    k = min(round(n * share), n - 1)  # rows with column 2 below k are of class 0
    table = Table(X, (X[:, 2] >= k).astype(int), [])
    assert best_decrease(plain(X[:, [0, 1, 3]], table.y), np.ones(n)) < best_decrease(table, np.ones(n))
    split = split_of(stump(table).forest_, 0, 0)
    assert split.feature == 2
    assert k - 1 <= split.threshold < k


def test_a_planted_tree_of_two_levels_comes_back():
    # class 1 where x0 > 4 and x1 > 6: a cut of x0 or x1 first, then of the other, then nothing is left to cut
    X = np.array([(a, b) for a in range(10) for b in range(10)], dtype=float)
    table = Table(X, ((X[:, 0] > 4) & (X[:, 1] > 6)).astype(int), [])
    model = fit(table, max_features="all", bootstrap=False, n_estimators=1)
    assert model.node_counts_.tolist() == [5]
    root = split_of(model.forest_, 0, 0)
    second = split_of(model.forest_, 0, root.right)
    assert {root.feature, second.feature} == {0, 1}
    for split in (root, second):
        assert math.floor(split.threshold) == {0: 4, 1: 6}[split.feature]
    assert split_of(model.forest_, 0, root.left) is None


@pytest.mark.parametrize("n", [20, 200])
def test_the_planted_levels_are_found(n):
    levels = np.arange(n) % 10
    noise = np.random.default_rng(0).permutation(n) * 1.0
    table = Table(np.column_stack([noise, levels]), np.isin(levels, [1, 4, 7]).astype(int), [1])
    split = split_of(stump(table).forest_, 0, 0)
    assert split.feature == 1
    assert split.listed in ((1, 4, 7), (0, 2, 3, 5, 6, 8, 9))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("side", [0, 1])
def test_missing_values_go_to_the_planted_side(n_classes, side):
    x = np.concatenate([np.arange(30.0), np.full(10, np.nan)])
    y = np.concatenate([np.repeat([0, n_classes - 1], 15), np.full(10, side * (n_classes - 1))])
    y[14] = n_classes // 2  # so that there are three classes
    model = stump(plain(x, y))
    assert split_of(model.forest_, 0, 0).missing_left == (side == 0)
    assert model.predict([[np.nan]]) == [side * (n_classes - 1)]


def test_missing_against_present_is_a_cut():
    x = np.where(np.arange(40) % 3 == 0, np.nan, np.arange(40.0))
    model = stump(plain(x, np.isnan(x).astype(int)))
    assert model.node_counts_.tolist() == [3]
    np.testing.assert_array_equal(model.predict([[np.nan], [-1e9], [0.0], [1e9], [np.inf]]), [1, 0, 0, 0, 0])


def test_missing_against_one_level_is_a_cut():
    for splitter in SPLITTERS:
        x = np.where(np.arange(12) < 5, np.nan, 0.0)
        model = stump(Table(x[:, None], np.isnan(x).astype(int), [0]), splitter=splitter)
        np.testing.assert_array_equal(model.predict_proba([[np.nan], [0.0]]), [[0, 1], [1, 0]])


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_missing_values_that_training_did_not_see_go_to_the_larger_side(splitter):
    table = draw_table(5, 60, ("numeric", "categorical", "numeric"), 2)
    forest = fit(table, splitter=splitter, n_estimators=5).forest_
    for tree in range(5):
        for node in range(forest.starts[tree + 1, 0] - forest.starts[tree, 0]):
            split = split_of(forest, tree, node)
            if split:
                left, right = size_of(forest, tree, split.left), size_of(forest, tree, split.right)
                assert split.missing_left == (left >= right)


@pytest.mark.filterwarnings("ignore:no value of column")
def test_a_level_that_training_did_not_see_is_missing():
    table = draw_table(5, 60, ("categorical", "levels-missing", "numeric"), 3)
    model = fit(table, n_estimators=10)
    unseen, gaps = table.X.copy(), table.X.copy()
    unseen[:, 0], gaps[:, 0] = 99.0, np.nan
    unseen[::2, 1], gaps[::2, 1] = -3.0, np.nan
    np.testing.assert_array_equal(model.apply(unseen), model.apply(gaps))


def test_categories_of_three_classes_are_cut_along_the_direction_in_which_they_differ():
    # levels 0 3 6 9 hold classes 0 0 1, the others 1 2 2: the two groups are the only two points in share space
    shares = {True: [0, 0, 1], False: [1, 2, 2]}
    rows = [(level, label) for level in range(12) for label in shares[level % 3 == 0] * 4]
    table = Table(np.array(rows, dtype=float)[:, :1], np.array(rows)[:, 1], [0])
    split = split_of(stump(table).forest_, 0, 0)
    assert split.listed in ((0, 3, 6, 9), (1, 2, 4, 5, 7, 8, 10, 11))


def test_the_main_direction_is_not_that_of_the_heaviest_level():
    # levels 0 .. 5 hold class 0, levels 6 .. 11 class 1, each diluted with class 2; level 12 is heavy and nearly all of
    # class 2. Ordered towards level 12 the others interleave; along the first principal component they part
    rows = [(level, 2 if k < 2 * (level % 3) else level // 6) for level in range(12) for k in range(8)]
    rows += [(12, 2)] * 14 + [(12, 0)] * 2
    table = Table(np.array(rows, dtype=float)[:, :1], np.array(rows)[:, 1], [0])
    assert_root_is_best(table)
    left = [split_of(stump(table).forest_, 0, 0).sends_left([level]) for level in range(12)]
    assert left in ([True] * 6 + [False] * 6, [False] * 6 + [True] * 6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_thousand_levels_are_split_as_planted(n_classes):
    levels = np.arange(4000) % 1000
    y = (levels * 7919 % 1000 >= 300).astype(int) * (n_classes - 1)
    if n_classes == 3:
        y[levels == 0] = 1
    table = Table(levels[:, None].astype(float), y, [0])
    model = fit(table, n_estimators=2, bootstrap=False)
    assert model.node_counts_.max() <= 2 * n_classes - 1
    np.testing.assert_array_equal(model.predict(table.X), y)
    forest = fit(table, n_estimators=2).forest_
    np.testing.assert_array_equal(oracle.leaves_of(forest, table.X), forest.leaves(table.X))


def test_infinities_are_ordered():
    x = np.array([-np.inf, -np.inf, -5.0, 0.0, 5.0, np.inf, np.inf])
    for k in (2, 3, 4, 5):  # the first k rows are of class 0
        y = (np.arange(7) >= k).astype(int)
        model = stump(plain(x, y))
        np.testing.assert_array_equal(model.predict(x[:, None]), y)
    model = stump(plain(x, [0, 0, 1, 1, 1, 1, 1]))
    assert -np.inf <= split_of(model.forest_, 0, 0).threshold < -5.0


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_infinities_alone_can_be_told_apart(splitter):
    x = np.array([-np.inf, np.inf, -np.inf, np.inf, 3.0])
    model = fit(plain(x, [0, 1, 0, 1, 2]), splitter=splitter, bootstrap=False, n_estimators=10)
    np.testing.assert_array_equal(model.predict(x[:, None]), [0, 1, 0, 1, 2])
    assert not np.isnan(model.forest_.nodes["threshold"]).any()
    assert np.isfinite(model.feature_importances_).all()


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_constant_columns_are_never_cut(splitter):
    X = np.column_stack([np.ones(30), np.full(30, np.nan), np.full(30, np.inf), np.arange(30.0)])
    model = fit(Table(X, np.arange(30) % 2, []), splitter=splitter, n_estimators=5)
    nodes = model.forest_.nodes
    assert set(nodes["feature"][nodes["feature"] >= 0] & ((1 << 28) - 1)) == {3}
    model = fit(Table(X[:, :3], np.arange(30) % 2, []), splitter=splitter, n_estimators=5)
    assert model.node_counts_.tolist() == [1] * 5
    np.testing.assert_array_equal(model.feature_importances_, 0.0)


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_one_row_is_a_forest_of_single_leaves(splitter):
    model = fit(plain([[1.0, np.nan]], ["a"]), splitter=splitter)
    assert model.node_counts_.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(model.predict_proba([[5.0, 1.0], [np.nan, 2.0]]), [[1.0], [1.0]])


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_a_single_class_has_probability_one(splitter):
    model = fit(plain(np.arange(20.0), np.ones(20)), splitter=splitter)
    for aggregate, fill in [(a, f) for a in oracle.AGGREGATES for f in oracle.FILLS]:
        np.testing.assert_array_equal(model.predict_proba([[3.0], [99.0]], aggregate, fill), 1.0)
    if splitter in ("best", "extra"):
        assert model.node_counts_.tolist() == [1, 1, 1]


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_more_values_than_codes_still_split_where_planted(splitter):
    n = 70_000  # more than 65,535, so some neighbours share a code
    x = np.random.default_rng(0).permutation(n) + 0.25
    y = (x >= 31_415).astype(int)
    model = fit(plain(x, y), splitter=splitter, n_estimators=2, bootstrap=False)
    assert model.forest_.columns.codes.max() < 65_535
    assert (model.predict(x[:, None]) != y).sum() <= 2
    # random trees also have more thresholds than fit in 16 bits
    np.testing.assert_array_equal(model.apply(x[:, None]), model.forest_.training_leaves(0, 2))
    np.testing.assert_array_equal(model.forest_.fill("inbag"), model.forest_.fill("all"))
    some = x[::3500, None]
    np.testing.assert_array_equal(model.apply(some), oracle.leaves_of(model.forest_, some))
    if splitter == "best":
        assert model.node_counts_.max() <= 5


def test_of_more_levels_than_codes_the_rarest_are_missing():
    # levels 0 .. 69,999 once each, and again 0 .. 9,999: these are kept and decide the class by their parity
    levels = np.concatenate([np.arange(70_000), np.arange(10_000)])
    kept = levels < 10_000
    y = np.where(kept, levels % 2, 2)
    model = fit(Table(levels[:, None].astype(float), y, [0]), n_estimators=1, bootstrap=False)
    assert len(model._schema.levels[0]) == 65_535
    np.testing.assert_array_equal(model.predict(levels[kept, None]), y[kept])
    np.testing.assert_array_equal(model.apply([[69_999.0], [123_456.0]]), model.apply([[np.nan], [np.nan]]))


# ---- the best cut, by definition ----


@given(seed=seeds, n=st.integers(2, 70), grid=st.sampled_from([2, 5, 40]), kind=st.sampled_from(sorted(KINDS)))
@quick
def test_root_cut_is_best_with_two_classes(seed, n, grid, kind):
    table = draw_table(seed, n, KINDS[kind], 2, grid)
    assume(any(len(np.unique(column)) > 1 for column in table.X.T))
    assert_root_is_best(table)


@given(
    seed=seeds,
    n=st.integers(2, 70),
    grid=st.sampled_from([2, 5, 40]),
    kind=st.sampled_from(sorted(KINDS)),
    n_classes=st.sampled_from([2, 3, 5]),
)
@settings(quick, max_examples=100)
def test_root_cut_is_best_with_weights_and_more_classes(seed, n, grid, kind, n_classes):
    if n_classes > 2:  # the order of the levels is then a rule of thumb
        kind = "missing" if kind == "categorical" else kind
    table = draw_table(seed, n, KINDS[kind], n_classes, grid)
    assume(any(len(np.unique(column)) > 1 for column in table.X.T))
    assume(len(np.unique(table.y)) > 1)
    assert_root_is_best(table, np.random.default_rng(seed).uniform(0.1, 3.0, n))


def long_column(shape: str, n: int, rng) -> np.ndarray:
    """Columns that take different roads through the search of a large node."""
    if shape == "continuous":
        return rng.normal(size=n)
    if shape == "ties":
        return np.round(rng.normal(size=n), 1)
    if shape == "few levels":
        return rng.integers(0, 3, n) * 1.0
    if shape == "mostly zero":  # like the word shares of spam
        return np.where(rng.random(n) < 0.8, 0.0, rng.exponential(size=n))
    if shape == "skewed":
        return np.exp(4 * rng.normal(size=n))
    return np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))


LONG = ["continuous", "ties", "few levels", "mostly zero", "skewed", "missing"]


@pytest.mark.parametrize("n", [33, 100, 1500, 4000])
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("path", ["integers", "masses", "three classes"])
def test_root_cut_of_a_large_node_is_best(n, shape, path):
    for seed in range(3):
        rng = np.random.default_rng([seed, n])
        x = long_column(shape, n, rng)
        chance = 1 / (1 + np.exp(-np.nan_to_num(np.clip(x, -3, 3) * (1 if seed else 0.05))))
        y = (rng.random(n) < chance).astype(int) + (rng.random(n) < 0.3) * (path == "three classes")
        assert_root_is_best(plain(x, y), rng.uniform(0.1, 3.0, n) if path == "masses" else None)


@given(seed=seeds, n=st.integers(5, 60), kind=st.sampled_from(sorted(KINDS)), n_classes=st.sampled_from([2, 3]))
@quick
def test_every_cut_of_a_bootstrapped_tree_is_best_for_its_node(seed, n, kind, n_classes):
    if n_classes == 3 and kind == "categorical":
        kind = "missing"
    table = draw_table(seed, n, KINDS[kind], n_classes)
    model = fit(table, max_features="all", n_estimators=1, random_state=seed)
    draws = model.inbag_counts_[:, 0]
    total = 0.0
    for node, rows in members(model.forest_, 0, table.X).items():
        rows = [i for i in rows if draws[i] > 0]
        split = split_of(model.forest_, 0, node)
        if split is None:
            continue
        inside = Table(table.X[rows], table.y[rows], table.categorical)
        gain = oracle.gini_decrease(inside.y.tolist(), draws[rows], [split.sends_left(row) for row in inside.X])
        assert gain == pytest.approx(best_decrease(inside, draws[rows]), rel=1e-6, abs=1e-9)
        total += gain
    assert model.forest_.gains.sum() == pytest.approx(total, rel=1e-6, abs=1e-9)


@given(seed=seeds, n=st.integers(2, 30), n_classes=st.integers(2, 5))
@quick
def test_gini_and_mean_squared_error_are_one_criterion(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    labels, weights = rng.integers(0, n_classes, n).tolist(), rng.uniform(0.1, 2.0, n)
    left = (rng.random(n) < 0.5).tolist()
    gini, mse = oracle.gini_decrease(labels, weights, left), oracle.mse_decrease(labels, weights, left)
    assert gini == pytest.approx(mse, rel=1e-9, abs=1e-9)


def test_gains_of_a_cut_are_the_decrease_of_impurity():
    # 4 rows: 4 * 1/2 before, 0 after. Twice the weight everywhere changes nothing: weights have mean one
    table = plain([1, 2, 3, 4], [0, 0, 1, 1])
    for weights in (None, np.full(4, 2.0)):
        assert stump(table, weights).forest_.gains.tolist() == [[2.0]]


# ---- nested trees ----


def same_cut(big, small, tree, a, b) -> bool:
    """The same split but for the numbers of the children."""
    one, two = split_of(big, tree, a), split_of(small, tree, b)
    return one._replace(left=0, right=0) == two._replace(left=0, right=0)


@given(
    seed=seeds,
    n=st.integers(2, 60),
    kind=st.sampled_from(sorted(KINDS)),
    splitter=st.sampled_from(SPLITTERS),
    leaf_size=st.integers(2, 30),
    n_classes=st.sampled_from([2, 3]),
    mtry=st.integers(1, 3),
)
@settings(quick, max_examples=150)
def test_the_tree_of_a_larger_leaf_size_is_the_same_tree_cut_off_earlier(
    seed, n, kind, splitter, leaf_size, n_classes, mtry
):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    rules = {"splitter": splitter, "max_features": mtry, "random_state": seed}
    big, small = fit(table, **rules, leaf_size=1).forest_, fit(table, **rules, leaf_size=leaf_size).forest_
    for tree in range(big.n_trees):
        for a, b, _ in walk_together(big, small, tree):
            size = size_of(big, tree, a)
            assert size == size_of(small, tree, b)
            if size <= leaf_size or split_of(big, tree, a) is None:
                assert split_of(small, tree, b) is None
            else:
                assert same_cut(big, small, tree, a, b)


@given(
    seed=seeds,
    n=st.integers(2, 60),
    kind=st.sampled_from(sorted(KINDS)),
    splitter=st.sampled_from(SPLITTERS),
    depth=st.integers(0, 6),
    n_classes=st.sampled_from([2, 3]),
)
@settings(quick, max_examples=100)
def test_the_tree_of_smaller_depth_is_the_same_tree_cut_off_earlier(seed, n, kind, splitter, depth, n_classes):
    table = draw_table(seed, n, KINDS[kind], n_classes)
    rules = {"splitter": splitter, "random_state": seed}
    big, small = fit(table, **rules).forest_, fit(table, **rules, max_depth=depth).forest_
    for tree in range(big.n_trees):
        for a, b, at in walk_together(big, small, tree):
            if at == depth or split_of(big, tree, a) is None:
                assert split_of(small, tree, b) is None
            else:
                assert same_cut(big, small, tree, a, b)


def test_large_trees_are_nested_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    table = plain(X, (X[:, 0] + rng.normal(size=3000) > 0).astype(int))
    big, small = (fit(table, leaf_size=s, n_estimators=2).forest_ for s in (1, 40))
    for tree in range(2):
        for a, b, _ in walk_together(big, small, tree):
            if size_of(big, tree, a) <= 40 or split_of(big, tree, a) is None:
                assert split_of(small, tree, b) is None
            else:
                assert same_cut(big, small, tree, a, b)


# ---- the shape of trees ----


@given(
    seed=seeds,
    n=st.integers(2, 50),
    kind=st.sampled_from(sorted(KINDS)),
    splitter=st.sampled_from(SPLITTERS),
    leaf_size=st.sampled_from([1, 1, 3, 8]),
    n_classes=st.sampled_from([2, 3]),
)
@settings(quick, max_examples=100)
def test_nodes_are_split_exactly_when_they_can_and_may_be(seed, n, kind, splitter, leaf_size, n_classes):
    table = draw_table(seed, n, KINDS[kind], n_classes, grid=6)
    model = fit(table, splitter=splitter, leaf_size=leaf_size, max_features=1, random_state=seed)
    for tree in range(3):
        draws = model.inbag_counts_[:, tree]
        for node, rows in members(model.forest_, tree, table.X).items():
            rows = [i for i in rows if draws[i] > 0]
            size, split = size_of(model.forest_, tree, node), split_of(model.forest_, tree, node)
            assert size == draws[rows].sum() > 0  # so both children of every cut hold rows
            if split is not None:
                assert size > leaf_size
            elif size > leaf_size:
                pure = len(set(table.y[rows])) == 1 and splitter in ("best", "extra")
                alike = all(len(np.unique(table.X[rows, j])) == 1 for j in range(table.X.shape[1]))
                assert pure or alike


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_best_first_trees_make_the_largest_cut_that_is_open(splitter, kind, n_classes):
    table = draw_table(21, 80, KINDS[kind], n_classes, grid=40)
    rules = {"splitter": splitter, "random_state": 4}
    full = fit(table, **rules)
    for most in (1, 2, 3, 7, 12, 1000):
        model = fit(table, **rules, max_leaf_nodes=most)
        for tree in range(3):
            draws = full.inbag_counts_[:, tree]
            inside = {a: [i for i in rows if draws[i]] for a, rows in members(full.forest_, tree, table.X).items()}

            def worth(a, tree=tree, draws=draws, inside=inside):
                """Who is next: the largest decrease, or the largest node where cuts must not know labels."""
                split, rows = split_of(full.forest_, tree, a), inside[a]
                if split is None:
                    return -1.0
                if splitter in ("random", "random-observed"):
                    return draws[rows].sum()
                sides = [split.sends_left(table.X[i]) for i in rows]
                return oracle.gini_decrease(table.y[rows].tolist(), draws[rows], sides)

            pairs = {b: a for a, b, _ in walk_together(full.forest_, model.forest_, tree)}
            order = sorted((b for b in pairs if split_of(model.forest_, tree, b)), key=lambda b: left_of(model, tree, b))
            still_open = {0}
            for b in order:  # children are numbered in the order in which nodes were split
                assert same_cut(full.forest_, model.forest_, tree, pairs[b], b)
                assert worth(pairs[b]) >= max(worth(pairs[c]) for c in still_open) - 1e-9
                still_open = (still_open - {b}) | {left_of(model, tree, b), left_of(model, tree, b) + 1}
            n_leaves = len(order) + 1
            possible = (full.node_counts_[tree] + 1) // 2
            assert n_leaves == min(most, possible)


def left_of(model, tree: int, node: int) -> int:
    return split_of(model.forest_, tree, node).left


def test_leaves_are_numbered_from_zero_in_each_tree():
    table = draw_table(1, 60, KINDS["categorical"], 3)
    for rules in ({}, {"max_leaf_nodes": 9}, {"leaf_size": 5}):
        model = fit(table, **rules)
        for tree, (first, stop) in enumerate(pairwise(model.forest_.starts[:, 0])):
            nodes = model.forest_.nodes[first:stop]
            numbers = nodes["child"][nodes["feature"] < 0]
            np.testing.assert_array_equal(numbers, np.arange(len(numbers)))
            assert model.node_counts_[tree] == 2 * len(numbers) - 1


# ---- what a forest does not depend on ----


@given(seed=seeds, n=st.integers(3, 60), mtry=st.integers(1, 3), n_classes=st.sampled_from([2, 3]), gaps=st.booleans())
@quick
def test_strictly_increasing_transforms_change_nothing_for_best_cuts(seed, n, mtry, n_classes, gaps):
    table = draw_table(seed, n, KINDS["missing" if gaps else "numeric"], n_classes, grid=40)
    new = np.random.default_rng(seed + 1).uniform(-2, 10, (40, 3))
    everything = np.concatenate([table.X, new])
    ranks = np.column_stack([np.unique(c, return_inverse=True)[1] for c in everything.T]).astype(float)
    ranks[np.isnan(everything)] = np.nan
    transformed = np.column_stack([np.exp(everything[:, 0]), (everything[:, 1] + 0.1) ** 3, ranks[:, 2]])
    rules = {"max_features": mtry, "random_state": seed}
    before = fit(table, **rules).predict_proba(new)
    after = fit(table._replace(X=transformed[:n]), **rules).predict_proba(transformed[n:])
    np.testing.assert_array_equal(before, after)


@given(
    seed=seeds,
    n=st.integers(6, 60),
    splitter=st.sampled_from(SPLITTERS),
    mtry=st.integers(1, 5),
    kind=st.sampled_from(["numeric", "missing", "categorical"]),
    n_classes=st.sampled_from([2, 3]),
)
@settings(quick, max_examples=100)
def test_permuting_the_columns_only_renames_them(seed, n, splitter, mtry, kind, n_classes):
    table = draw_table(seed, n, (*KINDS[kind], "numeric", "missing"), n_classes)
    new = draw_table(seed + 1, 25, (*KINDS[kind], "numeric", "missing"), n_classes).X
    order = np.random.default_rng(seed).permutation(5)
    moved = Table(table.X[:, order], table.y, [k for k, j in enumerate(order) if j in table.categorical])
    ranks = fit(table).forest_.columns.codes
    assume(len(np.unique(ranks, axis=0)) == 5)  # columns of the same order are told apart by position alone
    rules = {"splitter": splitter, "max_features": mtry, "random_state": seed}
    before, after = fit(table, **rules), fit(moved, **rules)
    np.testing.assert_array_equal(before.predict_proba(new), after.predict_proba(new[:, order]))
    np.testing.assert_array_equal(before.apply(new), after.apply(new[:, order]))
    np.testing.assert_allclose(before.feature_importances_[order], after.feature_importances_, rtol=1e-12, atol=1e-15)


@given(
    seed=seeds,
    n=st.integers(2, 60),
    splitter=st.sampled_from(["random", "random-observed"]),
    kind=st.sampled_from(sorted(KINDS)),
    most=st.sampled_from([None, 5]),
)
@quick
def test_cuts_of_a_completely_random_forest_do_not_depend_on_labels(seed, n, splitter, kind, most):
    table = draw_table(seed, n, KINDS[kind], 2)
    rules = {"splitter": splitter, "random_state": seed, "max_leaf_nodes": most, "leaf_size": 2}
    one = fit(table, **rules).forest_
    for labels in (table.y[::-1], np.arange(n) % 3, np.zeros(n, int)):
        other = fit(table._replace(y=labels), **rules).forest_
        np.testing.assert_array_equal(one.nodes, other.nodes)
        np.testing.assert_array_equal(one.sets, other.sets)
        np.testing.assert_array_equal(one.sizes, other.sizes)


def test_best_cuts_do_depend_on_labels():
    table = draw_table(0, 60, KINDS["numeric"], 2)
    for splitter in ("best", "extra"):
        one, other = (fit(t, splitter=splitter).forest_ for t in (table, table._replace(y=table.y[::-1])))
        assert not np.array_equal(one.nodes[0], other.nodes[0]) or len(one.nodes) != len(other.nodes)


def test_two_classes_are_grown_alike_whatever_they_are_called():
    table = draw_table(0, 60, KINDS["numeric"], 2)
    one, other = fit(table), fit(table._replace(y=np.where(table.y == 1, "yes", "no")))
    np.testing.assert_array_equal(one.forest_.nodes, other.forest_.nodes)


# ---- random draws have the law they claim ----


@given(
    seed=seeds,
    n=st.integers(2, 50),
    splitter=st.sampled_from(["extra", "random"]),
    kind=st.sampled_from(["numeric", "missing"]),
)
@quick
def test_uniform_cuts_lie_between_the_extremes_of_their_node(seed, n, splitter, kind):
    table = draw_table(seed, n, KINDS[kind], 2)
    model = fit(table, splitter=splitter, random_state=seed)
    for tree in range(3):
        for node, rows in members(model.forest_, tree, table.X).items():
            split = split_of(model.forest_, tree, node)
            if split is not None:
                values = table.X[[i for i in rows if model.inbag_counts_[i, tree]], split.feature]
                if np.nanmin(values) == np.nanmax(values):  # the rest is missing
                    assert split.threshold == np.inf
                else:
                    assert np.nanmin(values) < split.threshold < np.nanmax(values)


@given(seed=seeds, n=st.integers(2, 50), kind=st.sampled_from(["numeric", "missing"]))
@quick
def test_observed_cuts_lie_at_values_of_their_node(seed, n, kind):
    table = draw_table(seed, n, KINDS[kind], 2)
    model = fit(table, splitter="random-observed", random_state=seed)
    for tree in range(3):
        for node, rows in members(model.forest_, tree, table.X).items():
            split = split_of(model.forest_, tree, node)
            if split is not None:
                values = table.X[[i for i in rows if model.inbag_counts_[i, tree]], split.feature]
                assert split.threshold == np.inf or split.threshold in values
                assert split.threshold == np.inf or split.threshold < np.nanmax(values)


def root_cuts(x, splitter: str, n_trees: int = 4000) -> np.ndarray:
    y = np.arange(len(x)) % 2
    model = fit(plain(x, y), splitter=splitter, bootstrap=False, max_depth=1, n_estimators=n_trees)
    return model.forest_.nodes["threshold"][model.forest_.starts[:-1, 0]]


@pytest.mark.parametrize("splitter", ["random", "extra"])
def test_random_cuts_are_uniform_between_the_extremes(splitter):
    cuts = root_cuts([0.0, 1.0, 1.5, 8.0, 10.0], splitter)
    assert kstest(cuts / 10.0, "uniform").pvalue > 0.001


def test_observed_cuts_are_values_of_random_rows_below_the_largest():
    cuts = root_cuts([0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0], "random-observed")
    counts = [(cuts == v).sum() for v in (0.0, 1.0, 2.0)]
    assert sum(counts) == len(cuts)
    assert chisquare(counts, np.array([3, 1, 1]) * len(cuts) / 5).pvalue > 0.001


def test_levels_are_sent_to_random_sides():
    # three levels: of the three ways to part them none is preferred, up to the repair of empty sides
    table = Table(np.arange(3.0)[:, None], np.array([0, 1, 0]), [0])
    model = fit(table, splitter="random", bootstrap=False, max_depth=1, n_estimators=3000)
    sides = np.array([[split_of(model.forest_, t, 0).sends_left([k]) for k in range(3)] for t in range(3000)])
    assert set(sides.sum(axis=1)) == {1, 2}
    alone = [int(np.argmin(s)) if s.sum() == 2 else int(np.argmax(s)) for s in sides]
    assert chisquare(np.bincount(alone)).pvalue > 0.001


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_each_varying_feature_is_drawn_equally_often(splitter):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(40, 5)), np.ones((40, 3))])
    model = fit(plain(X, rng.integers(0, 2, 40)), splitter=splitter, max_features=1, max_depth=1, n_estimators=3000)
    roots = model.forest_.nodes["feature"][model.forest_.starts[:-1, 0]] & ((1 << 28) - 1)
    counts = np.bincount(roots, minlength=8)
    assert counts[5:].sum() == 0
    assert chisquare(counts[:5]).pvalue > 0.001


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_constant_features_do_not_use_up_draws(splitter):
    X = np.ones((50, 100))
    X[:, 37] = np.arange(50.0)
    model = fit(plain(X, (np.arange(50) >= 25).astype(int)), splitter=splitter, max_features=1, n_estimators=50)
    roots = model.forest_.nodes["feature"][model.forest_.starts[:-1, 0]] & ((1 << 28) - 1)
    np.testing.assert_array_equal(roots, 37)
    np.testing.assert_array_equal(np.flatnonzero(model.feature_importances_), [37])


@pytest.mark.parametrize("mtry", [1, 4, 10])
def test_by_the_rule_of_r_constant_features_use_up_draws(mtry):
    X = np.ones((50, 10))
    X[:, 3] = np.arange(50.0)
    columns, targets = code_table(X), make_targets((np.arange(50) >= 25).astype(np.int32), 2)
    limits = Rules(1000, max_features=mtry, constants_count=True).limits(50, 10)
    forest = Forest.grow(columns, targets, limits, range(1000), 0)
    share_of_stumps = (np.diff(forest.starts[:, 0]) == 1).mean()
    assert share_of_stumps == pytest.approx(1 - mtry / 10, abs=0.05)


def test_extra_takes_the_best_of_its_candidates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 10))
    table = plain(X, (X[:, 4] > 0).astype(int))

    def share_of_signal(mtry):
        forest = fit(table, splitter="extra", max_features=mtry, max_depth=1, n_estimators=300).forest_
        return (forest.nodes["feature"][forest.starts[:-1, 0]] & ((1 << 28) - 1) == 4).mean()

    assert share_of_signal(1) == pytest.approx(0.1, abs=0.06)
    assert 0.3 < share_of_signal(5) < 0.5 + 0.09
    assert share_of_signal(10) > 0.6


def test_mtry_limits_the_candidates_of_a_cut():
    # the good feature is cut at the root exactly when it is among the mtry drawn: mtry of ten
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 10))
    table = plain(X, (X[:, 4] > 0).astype(int))
    for mtry, chance in ((1, 0.1), (4, 0.4), (0.7, 0.7), ("sqrt", 0.4), ("third", 0.4), ("all", 1.0)):
        forest = fit(table, max_features=mtry, max_depth=1, n_estimators=800).forest_
        share = (forest.nodes["feature"][forest.starts[:-1, 0]] & ((1 << 28) - 1) == 4).mean()
        assert abs(share - chance) <= 4 * math.sqrt(chance * (1 - chance) / 800)


@pytest.mark.parametrize("name", ["leaf_size", "max_depth", "max_leaf_nodes"])
def test_a_limit_beyond_every_tree_is_no_limit(name):
    table = draw_table(0, 40, KINDS["numeric"], 2)
    unlimited = {"leaf_size": 40}.get(name)
    # 10^30 does not even fit in 64 bits
    one, other = fit(table, **{name: 10**30}), fit(table, **{name: unlimited})
    assert sorted(one.node_counts_) == sorted(other.node_counts_)
    np.testing.assert_array_equal(one.predict_proba(table.X), other.predict_proba(table.X))


# ---- samples ----


def test_subsampling_draws_distinct_rows():
    counts = fit(draw_table(0, 50, KINDS["numeric"], 2), bootstrap=False, max_samples=20, n_estimators=30).inbag_counts_
    assert set(counts.ravel()) == {0, 1}
    np.testing.assert_array_equal(counts.sum(axis=0), 20)
    assert len(np.unique(counts, axis=1).T) == 30


def test_without_resampling_every_tree_has_every_row_and_nothing_is_out_of_bag():
    model = fit(draw_table(0, 50, KINDS["numeric"], 2), bootstrap=False)
    np.testing.assert_array_equal(model.inbag_counts_, 1)
    np.testing.assert_array_equal(model.forest_.fill("inbag"), model.forest_.fill("all"))
    with pytest.raises(AttributeError, match="out-of-bag"):
        _ = model.oob_proba_


# ---- numbers that test the arithmetic ----


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_weights_of_very_different_size_give_finite_results(splitter):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    weights = 10.0 ** rng.uniform(-20, 20, 60)
    model = fit(plain(X, y), weights, splitter=splitter, n_estimators=20)
    # where sums are kept by subtraction a mass is rounded to zero: gains would be infinite and importances NaN
    assert np.isfinite(model.forest_.gains).all()
    assert np.isfinite(model.feature_importances_).all()
    for tree in range(20):
        for node, rows in members(model.forest_, tree, X).items():
            drawn = [i for i in rows if model.inbag_counts_[i, tree]]
            assert len(drawn) > 0, f"node {node} of tree {tree} is empty"
    for aggregate, fill in [(a, f) for a in oracle.AGGREGATES for f in oracle.FILLS]:
        assert np.isfinite(model.predict_proba(X, aggregate, fill)).all()


def test_one_heavy_row_does_not_blind_the_search_to_the_others():
    # of the other rows class 1 begins at x = 10; the heavy row sits at the far left and is of class 0
    x = np.arange(20.0)
    weights = np.ones(20)
    weights[0] = 1e9
    model = stump(plain(x, (x >= 10).astype(int)), weights)
    # squares of the right side kept by subtraction, 1e18 less 1e18, would lose the light rows
    assert 9 <= split_of(model.forest_, 0, 0).threshold < 10


@pytest.mark.parametrize("splitter", SPLITTERS)
def test_values_at_the_ends_of_the_floats_can_be_cut(splitter):
    most, least = np.finfo(float).max, np.nextafter(0.0, 1.0)
    x = np.array([-np.inf, -most, -1.0, -least, 0.0, least, 1.0, np.nextafter(1.0, 2.0), most, np.inf])
    y = np.arange(10)
    model = fit(plain(x, y), splitter=splitter, bootstrap=False, n_estimators=20)
    np.testing.assert_array_equal(model.predict(x[:, None]), y)


def test_each_thread_has_one_room_however_many_batches_there_are(monkeypatch):
    # a room for every batch, freed by the thread that grew it, made fits need more memory than scikit-learn's
    made = []
    make = growing._room
    monkeypatch.setattr(growing, "_room", lambda *how: made.append(how) or make(*how))
    table = draw_table(1, 60, ("numeric",) * 3, 2, 50)
    many = KernelForestClassifier.untuned(64, n_jobs=3, random_state=0).fit(table.X, table.y)
    assert len(made) == 3
    made.clear()
    one = KernelForestClassifier.untuned(64, n_jobs=1, random_state=0).fit(table.X, table.y)
    assert len(made) == 1
    assert many.forest_.nodes.tobytes() == one.forest_.nodes.tobytes()
