"""Kernels of many rows, features or values: what they take, and that rows may be sent in any pieces."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest._engine import pairs
from kernelforest.analytic import fit_naive
from kernelforest.binning import code_table, decode
from kernelforest.kernel import incidence, product, queries
from kernelforest.kernel import memory as kernel_memory

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
Y = (X[:, 0] + RNG.normal(size=200) > 0).astype(int)
NEW = RNG.normal(size=(50, 3))


def blended(**parameters):
    """A forest whose trees are read at several leaf sizes."""
    model = KernelForestClassifier(60, random_state=0, **parameters).fit(X, Y)
    assert len(model.forest_.readings) > 1
    return model


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(queries, "_SENT", 1)
    monkeypatch.setattr(queries, "_COPIED", 7)


# ---- values that share a code ----


def many_values(n=70_000):
    """A column of more distinct values than there are codes, after one of few."""
    x = np.random.default_rng(1).gamma(0.3, size=n)
    return np.column_stack([np.arange(n) % 3, x, np.where(np.arange(n) % 1000 == 0, np.nan, -x)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_that_share_a_code_are_decoded_as_they_were(dtype):
    table = many_values().astype(dtype)
    columns = code_table(table, threads=2)
    assert columns.exact.shape == (2, 70_000)
    assert np.array_equal(decode(columns, slice(None)), table, equal_nan=True)
    some = np.array([69_999, 3, 0])
    assert np.array_equal(decode(columns, some), table[some], equal_nan=True)
    assert np.array_equal(decode(pickle.loads(pickle.dumps(columns)), some), table[some], equal_nan=True)
    assert code_table(table[:1000]).exact.size == 0


def test_voting_points_of_a_large_table_show_its_values():
    dates = pd.Timestamp("2000-01-01") + pd.to_timedelta(np.cumsum(np.arange(70_000) % 977), unit="s")
    frame = pd.DataFrame({"when": dates, "x": np.arange(70_000) % 2})
    model = KernelForestClassifier.untuned(3, max_depth=9, random_state=0).fit(frame, frame["x"])
    shown = model.kernel_.voting_points(frame.iloc[[777]]).frame()
    assert (shown["when"].to_numpy() == frame["when"].to_numpy()[shown["row"]]).all()


# ---- rows sent by blocks ----


@pytest.mark.parametrize("aggregate", ["mean", "proximity"])
@pytest.mark.parametrize("fill", ["inbag", "all", "oob"])
def test_averages_are_weights_times_values_in_any_pieces(monkeypatch, aggregate, fill):
    kernel, how = blended().kernel_, {"aggregate": aggregate, "fill": fill}
    values = np.random.default_rng(2).normal(size=(200, 4))
    found = kernel.average(NEW, values, **how)
    np.testing.assert_allclose(found, kernel.weights(NEW, **how) @ values, atol=1e-12)
    np.testing.assert_allclose(kernel.average(None, values, **how), kernel.weights(**how) @ values, atol=1e-12)
    monkeypatch.setattr(queries, "_SENT", 1)
    monkeypatch.setattr(queries, "_COPIED", 7)
    assert np.array_equal(kernel.average(NEW, values, **how), found)
    assert np.array_equal(np.vstack([kernel.average(row[None], values, **how) for row in NEW]), found)


def test_averages_weights_and_nearest_rows_of_every_kind_of_table_do_not_depend_on_blocks(monkeypatch):
    forest = RandomForestClassifier(20, random_state=0).fit(X, Y)
    fed = ForestKernel.from_model((forest.apply(X), forest.apply), X, Y)
    kernels = (blended(n_jobs=2).kernel_, ForestKernel.from_model(forest, X, Y), fed)
    asked = ("average", "weights", "nearest", "matrix")
    before = [[getattr(kernel, name)(NEW) for name in asked] for kernel in kernels]
    monkeypatch.setattr(queries, "_SENT", 1)
    monkeypatch.setattr(queries, "_COPIED", 7)
    for kernel, (average, weights, nearest, matrix) in zip(kernels, before, strict=True):
        for table in (NEW, NEW.tolist(), sparse.coo_array(NEW)):
            if hasattr(table, "tocsr") and kernel is kernels[0]:
                continue
            assert np.array_equal(kernel.average(table), average)
            assert (kernel.weights(table) != weights).nnz == 0
            assert (kernel.matrix(table) != matrix).nnz == 0
            assert all(np.array_equal(*both) for both in zip(kernel.nearest(table), nearest, strict=True))


def test_frames_are_sent_by_blocks(small_blocks):
    names = list("abc")
    forest = RandomForestClassifier(20, random_state=0).fit(pd.DataFrame(X, columns=names), Y)
    kernel = ForestKernel.from_model(forest, pd.DataFrame(X, columns=names), Y)
    rows = pd.DataFrame(NEW, columns=names, index=np.arange(50) % 3)
    np.testing.assert_allclose(kernel.average(rows), forest.predict_proba(rows), atol=1e-12)
    np.testing.assert_allclose(kernel.average(pl.DataFrame(NEW, names)), forest.predict_proba(rows), atol=1e-12)


def test_leaves_of_other_numbers_of_rows_are_refused(small_blocks):
    kernel = ForestKernel.from_model((Y[:, None], lambda rows: np.zeros((9, 1), int)), None, Y)
    with pytest.raises(ValueError, match="X must have a row for each row of leaves, got 7 and 9"):
        kernel.average(NEW)


def test_averages_of_many_rows_take_little_memory():
    kernel = blended().kernel_
    many = np.tile(NEW, (4_000, 1))
    kernel.average(many[:5000])
    tracemalloc.start()
    out = kernel.average(many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    leaves = 4 * len(many) * kernel._training.leaves.shape[1]
    assert peak < leaves / 2
    assert out.shape == (len(many), 2)


@pytest.mark.parametrize("kind", ["leaf", "kerf", "inbag", "oob", "gap"])
def test_blocks_send_only_their_rows(kind):
    kernel = blended().kernel_
    for rows in (None, NEW):
        whole = kernel.matrix(rows, kind=kind, dense=True)
        for some, K in kernel.blocks(rows, kind=kind, size=17):
            assert np.array_equal(K.toarray(), whole[some])
    sent = []
    open_table = kernel._training.open

    def watched(table):
        n_rows, send = open_table(table)
        return n_rows, lambda rows: [sent.append(rows.stop - rows.start), send(rows)][1]

    kernel._training = replace(kernel._training, open=watched)
    list(kernel.blocks(NEW, kind=kind, size=17))
    assert sent == [17, 17, 16]


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch):
    kernel = blended().kernel_
    for kind in ("leaf", "gap", "oob"):
        kernel.matrix(kind=kind)
    kernel.average(NEW[:40])
    free = 2_000_000
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: free)
    with pytest.raises(MemoryError, match=r"sums of 5,000 values in .* leaves would take .*fewer columns of values"):
        kernel.average(NEW, np.zeros((200, 5000)))
    kernel.matrix()
    free = 10_000
    with pytest.raises(MemoryError, match=r"100 nearest rows of 50 would take 80\.0 kB"):
        kernel.nearest(NEW, 100)
    with pytest.raises(MemoryError, match=r"dense kernel of 200 x 200"):
        kernel.distance()
    for kind in ("gap", "oob"):
        free = 10**9
        kernel.matrix(NEW, kind=kind)
        free = 300_000
        with pytest.raises(MemoryError, match=r"what .* trees count for each of 200 rows would take .* with blocks"):
            kernel.matrix(kind=kind)


# ---- nearest rows ----


def test_similarities_and_shares_of_trees_are_at_most_one():
    kernel = blended().kernel_
    _, similar = kernel.nearest(X, 3)
    assert 1.0 - 1e-12 < similar.max() <= 1.0
    most = max(kernel.voting_points(row, fill="all").share.max() for row in X)
    assert most <= 1.0
    assert most == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["leaf", "gap", "kerf"])
def test_many_nearest_rows_are_sorted_as_few_are(monkeypatch, kind):
    kernel = KernelForestClassifier.untuned(7, leaf_size=30, random_state=0).fit(X, Y).kernel_  # many ties
    for rows in (None, NEW):
        for k in (1, 60, 199):
            monkeypatch.setattr("kernelforest.kernel.nearest._FEW", 200)
            few = kernel.nearest(rows, k, kind=kind)
            monkeypatch.setattr("kernelforest.kernel.nearest._FEW", 0)
            many = kernel.nearest(rows, k, kind=kind)
            assert all(np.array_equal(*both) for both in zip(few, many, strict=True))


# ---- calls with few rows ----


def test_one_index_serves_many_calls_and_is_not_pickled(monkeypatch):
    kernel = blended().kernel_
    made = []
    real = pairs.index_rows
    monkeypatch.setattr(incidence.pairs, "index_rows", lambda *how: [made.append(1), real(*how)][1])
    first = kernel.average(NEW[:1])
    for _ in range(3):
        assert np.array_equal(kernel.average(NEW[:1]), first)
        kernel.weights(NEW[:1])
    assert len(made) == 1
    for _ in range(3):
        kernel.nearest(NEW[:1])
        kernel.matrix(NEW[:1])
    assert len(made) == 2
    size = len(pickle.dumps(kernel))
    kernel._kept = None
    assert len(pickle.dumps(kernel)) == size
    monkeypatch.setattr(product, "_KEPT", 0)
    kernel.average(NEW[:1])
    assert kernel._kept is None


# ---- forests of others ----


def sparse_forest(n=300, p=400):
    table = sparse.random_array((n, p), density=0.05, rng=np.random.default_rng(3), format="csr")
    y = (table[:, [0]].toarray().ravel() + table[:, [1]].toarray().ravel() > 0).astype(int)
    return RandomForestClassifier(5, max_features=None, max_depth=2, random_state=0).fit(table, y), table, y


def test_derivatives_move_only_features_that_trees_ask_for():
    forest, table, y = sparse_forest()
    kernel = ForestKernel.from_model(forest, table, y)
    x0 = table[[5]].toarray()[0]
    routed = []
    real = kernel._training.route
    kernel._training = replace(kernel._training, route=lambda Z: [routed.append(len(Z)), real(Z)][1])
    found = kernel.derivatives(x0, h=0.3)
    cut = np.unique(np.concatenate([t.tree_.feature[t.tree_.feature >= 0] for t in forest.estimators_]))
    assert sum(routed) <= 1 + 2 * len(cut)
    home = forest.apply(x0[None])
    for j in range(400):
        for sign, side in ((1, found.right), (-1, found.left)):
            copy = x0.copy()
            copy[j] += sign * 0.3
            assert side[j] == pytest.approx(((forest.apply(copy[None]) == home).mean() - 1) / 0.3, abs=1e-12)


def test_features_that_trees_of_a_bag_ask_for_are_known_by_their_place_in_the_table():
    bag = BaggingClassifier(n_estimators=9, max_features=2, random_state=0).fit(X, Y)
    kernel = ForestKernel.from_model(bag, X, Y)
    asked = kernel._training.on_paths(NEW)
    assert asked.shape == NEW.shape
    home = bag_leaves(bag, NEW)
    for j in range(3):
        moved = NEW.copy()
        moved[:, j] += 100.0
        assert not (bag_leaves(bag, moved) != home)[~asked[:, j]].any()
    few = ForestKernel.from_model(DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, Y), X, Y)
    assert not few._training.on_paths(NEW).all()


def bag_leaves(bag, rows):
    each = zip(bag.estimators_, bag.estimators_features_, strict=True)
    return np.column_stack([tree.apply(rows[:, columns]) for tree, columns in each])


def test_changed_copies_of_wide_rows_stay_within_a_bound(monkeypatch):
    kernel = ForestKernel.from_model(RandomForestClassifier(5, random_state=0).fit(X, Y), X, Y)
    found, naive = kernel.derivatives(X[:9]), fit_naive(kernel, X[:9])
    monkeypatch.setattr("kernelforest.kernel.shape._COPIES", 100)
    monkeypatch.setattr("kernelforest.analytic._COPIES", 100)
    routed = []
    real = kernel._training.route
    kernel._training = replace(kernel._training, route=lambda Z: [routed.append(len(Z)), real(Z)][1])
    assert np.array_equal(kernel.derivatives(X[:9]).right, found.right)
    assert np.array_equal(fit_naive(kernel, X[:9]).profile, naive.profile, equal_nan=True)
    assert max(routed) <= 100 // (3 + 5)


def test_voting_points_open_only_their_rows_of_a_sparse_table(monkeypatch):
    forest, table, y = sparse_forest()
    kernel = ForestKernel.from_model(forest, table, y)
    opened = []
    real = sparse.csr_array.toarray
    monkeypatch.setattr(sparse.csr_array, "toarray", lambda self: [opened.append(self.shape[0]), real(self)][1])
    points = kernel.voting_points(real(table[[5]])[0])
    assert opened == [1]  # features are opened when they are asked for
    assert np.array_equal(points.features, real(table)[points.rows])
    assert opened == [1, len(points)]
    kernel.derivatives(real(table[[5]])[0], h=0.3)
    assert max(opened) == len(points) < len(y)
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 500_000)
    with pytest.raises(MemoryError, match="a table of 300 x 400 made dense would take 960"):
        kernel._training.matrix()


def test_rows_of_training_tables_of_every_kind_are_read_alone():
    forest = RandomForestClassifier(5, random_state=0).fit(X, Y)
    frame = pd.DataFrame(X, columns=list("abc"), index=np.arange(200) % 7)
    some = np.array([7, 3, 150])
    for table in (X, X.tolist(), sparse.csc_array(X), sparse.coo_matrix(X), frame, pl.DataFrame(X, list("abc"))):
        matrix = ForestKernel.from_model(forest, table, Y)._training.matrix
        assert np.array_equal(matrix(), X)
        assert np.array_equal(matrix(some), X[some])


def test_the_missing_value_of_xgboost_is_no_number():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    coded = np.where(RNG.random(X.shape) < 0.2, -999.0, X)
    gaps = np.where(coded == -999.0, np.nan, coded)
    rules = {"n_estimators": 5, "max_depth": 3, "n_jobs": 1}
    model = xgboost.XGBClassifier(missing=-999, **rules).fit(coded, Y)
    plain = xgboost.XGBClassifier(**rules).fit(gaps, Y)
    kernel, same = ForestKernel.from_model(model, coded), ForestKernel.from_model(plain, gaps)
    for table in (coded, pd.DataFrame(coded, columns=list("abc"))):
        found = ForestKernel.from_model(model, table).derivatives(table[:9])
        wanted = same.derivatives(gaps[:9])
        np.testing.assert_array_equal(found.right, wanted.right)
        np.testing.assert_array_equal(found.h, wanted.h)
    assert np.array_equal(kernel.matrix(dense=True), same.matrix(dense=True))
    assert np.array_equal(kernel._training.matrix(), gaps, equal_nan=True)
    assert np.isnan(kernel.voting_points(coded[0]).features).any()
    np.testing.assert_array_equal(kernel.derivative_importance().mean, same.derivative_importance().mean)


@pytest.mark.parametrize("own", [True, False])
def test_a_row_without_a_finite_value_tells_nothing_about_the_naive_kernel(own):
    rows = X.copy()
    rows[4] = np.nan
    if own:
        kernel = KernelForestClassifier.untuned(20, random_state=0).fit(rows, Y).kernel_
    else:
        kernel = ForestKernel.from_model(RandomForestClassifier(20, random_state=0).fit(rows, Y), rows, Y)
    found, without = fit_naive(kernel, rows[:9]), fit_naive(kernel, np.delete(rows[:9], 4, axis=0))
    np.testing.assert_array_equal(found.weights, without.weights)


def test_weights_that_were_not_given_are_named_where_they_may_be_the_reason():
    weight = np.where(Y == 1, 3.0, 1.0)
    stump = DecisionTreeClassifier(min_samples_leaf=200).fit(X, Y, weight)
    with pytest.warns(UserWarning, match="other labels than y_train, or with weights that were not given"):
        ForestKernel.from_model(stump, X, Y)
    with pytest.warns(UserWarning, match="other labels than y_train$"):
        ForestKernel.from_model(stump, X, 1 - Y, weight=weight)


def test_functions_that_read_the_index_of_a_frame_get_it_in_every_block(monkeypatch):
    monkeypatch.setattr(queries, "_SENT", 1)
    monkeypatch.setattr(queries, "_COPIED", 7)
    leaves = np.arange(40)[:, None] // 4
    frame = pd.DataFrame({"a": np.arange(40.0)}).iloc[::-1]
    kernel = ForestKernel.from_model((leaves, lambda X: leaves[np.asarray(X.index)]), None)
    np.testing.assert_array_equal(kernel.average(frame, np.arange(40.0)), np.arange(40.0)[::-1] // 4 * 4 + 1.5)


def test_no_rows_of_a_table_are_an_empty_table():
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    assert ForestKernel.from_model(forest, X, Y)._training.matrix(np.empty(0, int)).shape == (0, X.shape[1])
