"""Kernels of other people's forests: their predictions and leaves are the known answers."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from functools import cache
from warnings import catch_warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import is_classifier
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from kernelforest import KernelForestClassifier
from kernelforest.analytic import fit_naive
from kernelforest.displays import VotingPointsDisplay
from kernelforest.kernel import ForestKernel, grids
from kernelforest.kernel import memory as kernel_memory
from kernelforest.kernel.foreign import DRAWN_BY_WEIGHT, MISPLACED_GAPS
from kernelforest.kernel.memory import sparse_bytes
from kernelforest.kernel.numbering import numbering_of
from kernelforest.kernel.points import as_rows

LETTERS = np.array(["a", "b", "c"])
LIKE_THEIR_MEAN = {"aggregate": "mean", "fill": "inbag"}
CLASSIFIERS = {
    "forest": RandomForestClassifier(20, random_state=0),
    "forest-leaf5": RandomForestClassifier(20, min_samples_leaf=5, random_state=0),
    "forest-whole": RandomForestClassifier(20, bootstrap=False, random_state=0),
    "forest-whole-leaf5": RandomForestClassifier(20, bootstrap=False, min_samples_leaf=5, random_state=0),
    "forest-part": RandomForestClassifier(20, max_samples=0.4, random_state=0),
    "forest-few": RandomForestClassifier(20, max_samples=30, random_state=0),
    "extra": ExtraTreesClassifier(20, min_samples_leaf=3, random_state=0),
    "extra-bootstrap": ExtraTreesClassifier(20, bootstrap=True, min_samples_leaf=3, random_state=0),
    "bagging": BaggingClassifier(n_estimators=20, random_state=0),
    "bagging-columns": BaggingClassifier(
        DecisionTreeClassifier(min_samples_leaf=3), n_estimators=20, max_features=2, max_samples=0.5, random_state=0
    ),
    "bagging-bootstrap-columns": BaggingClassifier(n_estimators=20, bootstrap_features=True, random_state=0),
    "bagging-without-replacement": BaggingClassifier(n_estimators=20, bootstrap=False, max_samples=0.5, random_state=0),
    "tree": DecisionTreeClassifier(min_samples_leaf=4, random_state=0),
}
REGRESSORS = {
    "forest": RandomForestRegressor(20, random_state=0),
    "forest-whole-leaf5": RandomForestRegressor(20, bootstrap=False, min_samples_leaf=5, max_features=2, random_state=0),
    "extra": ExtraTreesRegressor(20, min_samples_leaf=5, random_state=0),
    "bagging-columns": BaggingRegressor(n_estimators=20, max_features=0.5, random_state=0),
    "tree": DecisionTreeRegressor(min_samples_leaf=4, random_state=0),
}
pytestmark = pytest.mark.filterwarnings("ignore:.*leaves of LightGBM and XGBoost hold steps:UserWarning")
LIBRARIES = pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
WITHOUT_DRAWS = ("forest-whole", "forest-whole-leaf5", "extra", "tree")


@cache
def data():
    """Three noisy classes on a line, in four columns; new rows; and a number to predict."""
    rng = np.random.default_rng(5)
    X, new = rng.normal(size=(150, 4)), rng.normal(size=(40, 4))
    codes = np.digitize(X[:, 0] + 0.5 * rng.normal(size=150), [-0.5, 0.5])
    return X, LETTERS[codes], new, X[:, 0] * 2 + rng.normal(size=150)


def onehot(y, classes=LETTERS):
    return (y[:, None] == classes).astype(float)


@cache
def classifier(name):
    X, y, _, _ = data()
    return CLASSIFIERS[name].fit(X, y)


@cache
def regressor(name):
    X, _, _, r = data()
    return REGRESSORS[name].fit(X, r)


def kernel_of(name, n_jobs=None):
    X, y, _, _ = data()
    return ForestKernel.from_model(classifier(name), X, y, n_jobs=n_jobs)


def share_of_common_leaves(left, right):
    """Definition 1 as loops over trees."""
    return np.mean([np.equal.outer(left[:, t], right[:, t]) for t in range(left.shape[1])], axis=0)


# ---- scikit-learn: predictions are averages with these weights ----


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_weights_times_labels_are_the_probabilities_of_scikit_learn(name):
    X, y, new, _ = data()
    kernel, theirs = kernel_of(name), classifier(name)
    for rows in (X, new):
        W = kernel.weights(rows, **LIKE_THEIR_MEAN)
        np.testing.assert_allclose(W @ onehot(y), theirs.predict_proba(rows), rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel.average(rows, **LIKE_THEIR_MEAN), theirs.predict_proba(rows), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", REGRESSORS)
def test_averages_are_the_predictions_of_scikit_learn(name):
    X, _, new, r = data()
    kernel = ForestKernel.from_model(regressor(name), X, r)
    for rows in (X, new):
        want = regressor(name).predict(rows)
        np.testing.assert_allclose(kernel.average(rows, r, **LIKE_THEIR_MEAN), want, rtol=0, atol=1e-12)
        np.testing.assert_allclose(kernel.average(rows, **LIKE_THEIR_MEAN)[:, 0], want, rtol=0, atol=1e-12)


def test_averages_of_several_outputs_are_the_predictions_of_scikit_learn():
    X, _, new, r = data()
    both = np.column_stack([r, r**2])
    fitted = RandomForestRegressor(10, random_state=1).fit(X, both)
    kernel = ForestKernel.from_model(fitted, X, both)
    np.testing.assert_allclose(kernel.average(new, **LIKE_THEIR_MEAN), fitted.predict(new), rtol=0, atol=1e-12)


@pytest.mark.parametrize("whole", [True, False])
def test_given_weights_repeat_a_forest_that_multiplied_by_them(whole):
    X, y, new, _ = data()
    weight = np.random.default_rng(1).integers(0, 4, len(X)).astype(float)
    fitted = RandomForestClassifier(20, bootstrap=not whole, random_state=0).fit(X, y, weight)
    # a bootstrap sample is drawn by weight since scikit-learn 1.9: there the draws hold it
    multiplied = whole or fitted.estimators_[0].tree_.weighted_n_node_samples[0] != len(X)
    kernel = ForestKernel.from_model(fitted, X, y, weight=weight if multiplied else None)
    np.testing.assert_allclose(kernel.average(new, **LIKE_THEIR_MEAN), fitted.predict_proba(new), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["forest", "bagging"])
def test_gap_weighted_labels_are_the_out_of_bag_prediction_of_scikit_learn(kind):
    X, y, _, _ = data()
    rules = {"n_estimators": 60, "oob_score": True, "random_state": 3}
    fitted = (RandomForestClassifier if kind == "forest" else BaggingClassifier)(**rules).fit(X, y)
    gap = ForestKernel.from_model(fitted, X, y).matrix(kind="gap")
    np.testing.assert_allclose(gap @ onehot(y), fitted.oob_decision_function_, rtol=0, atol=1e-12)


def test_gap_weighted_numbers_are_the_out_of_bag_prediction_of_scikit_learn():
    X, _, _, r = data()
    fitted = RandomForestRegressor(60, oob_score=True, random_state=3).fit(X, r)
    gap = ForestKernel.from_model(fitted, X).matrix(kind="gap")
    np.testing.assert_allclose(gap @ r, fitted.oob_prediction_, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores:UserWarning")  # few trees, on purpose
def test_gap_weighted_labels_are_the_out_of_bag_prediction_where_there_is_one():
    X, y, _, _ = data()
    fitted = RandomForestClassifier(4, oob_score=True, random_state=3).fit(X, y)
    kernel = ForestKernel.from_model(fitted, X, y)
    drawn = np.array([np.bincount(rows, minlength=len(X)) for rows in fitted.estimators_samples_])
    judged = (drawn == 0).any(axis=0)
    assert 0 < judged.sum() < len(X)
    got = kernel.matrix(kind="gap") @ onehot(y)
    np.testing.assert_allclose(got[judged], fitted.oob_decision_function_[judged], rtol=0, atol=1e-12)
    assert (got[~judged] == 0).all()


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (RandomForestRegressor(3, criterion="absolute_error", max_depth=3, random_state=0), "predicts medians"),
        (BaggingRegressor(DecisionTreeRegressor(criterion="absolute_error", max_depth=3), 3, random_state=0), "medians"),
        (ExtraTreesRegressor(3, monotonic_cst=[1, 0, 0, 0], max_depth=3, random_state=0), "monotonic_cst moves"),
        (DecisionTreeClassifier(monotonic_cst=[0, 0, 0, -1], max_depth=3, random_state=0), "monotonic_cst moves"),
        (RandomForestClassifier(3, class_weight="balanced_subsample", random_state=0), "differently in each tree"),
        (BaggingClassifier(DecisionTreeClassifier(class_weight="balanced"), 3, random_state=0), "class_weight of the trees"),
        (DecisionTreeClassifier(class_weight="balanced", random_state=0), "give weight="),
        (ExtraTreesClassifier(3, class_weight={False: 1, True: 2}, random_state=0), "give weight="),
        (RandomForestClassifier(3, class_weight="balanced_subsample", bootstrap=False, random_state=0), "give weight="),
    ],
)
def test_predictions_that_are_no_averages_of_labels_are_warned_of_once(model, why):
    X, y, _, r = data()
    target = (y == "a") if is_classifier(model) else r
    with pytest.warns(UserWarning, match=f"weighted averages of labels will differ from predict: .*{why}") as told:
        ForestKernel.from_model(model.fit(X, target), X, target)
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "rules",
    [
        {"monotonic_cst": [0, 0, 0, 0]},
        pytest.param(
            {"class_weight": "balanced"}, marks=pytest.mark.skipif(not DRAWN_BY_WEIGHT, reason="not drawn by weight")
        ),
        {"criterion": "log_loss"},
    ],
)
def test_other_rules_of_scikit_learn_are_not_warned_of(rules):
    X, y, _, _ = data()
    fitted = RandomForestClassifier(3, random_state=0, **rules).fit(X, y == "a")
    with catch_warnings(action="error"):
        ForestKernel.from_model(fitted, X, y == "a")


def test_class_weights_that_are_given_are_not_warned_of():
    X, y, _, _ = data()
    hit = y == "a"
    fitted = ExtraTreesClassifier(20, class_weight={False: 1, True: 5}, min_samples_leaf=5, random_state=0).fit(X, hit)
    with catch_warnings(action="error"):
        kernel = ForestKernel.from_model(fitted, X, hit, weight=np.where(hit, 5.0, 1.0))
    np.testing.assert_allclose(kernel.average(X), fitted.predict_proba(X))


def test_a_point_of_a_sparse_table_is_refused_where_dense_zeros_mean_something_else():
    """To XGBoost what a sparse row leaves out is missing, to scikit-learn it is zero."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    S = csr_array(np.where(rng.random((80, 5)) < 0.4, rng.random((80, 5)), 0.0))
    y = (S[:, [0]].toarray().ravel() > 0.3).astype(int)
    kernel = ForestKernel.from_model(xgboost.XGBClassifier(n_estimators=5, n_jobs=1).fit(S, y), S, y)
    assert kernel.matrix(S, dense=True).diagonal() == pytest.approx(1.0)
    for ask in (kernel.explain, kernel.voting_points):
        with pytest.raises(TypeError, match="takes what a sparse table leaves out for missing"):
            ask(S[[3]].toarray()[0])
    ours = ForestKernel.from_model(RandomForestClassifier(5, random_state=0).fit(S, y), S, y)
    assert ours.explain(S[[3]].toarray()[0]).estimate == pytest.approx(ours.average(S[[3]])[0].max())


def one_tree(n=600):
    """A forest of one tree, of which most rows are in leaves without out-of-bag rows, and weights that are zero for some."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(n, 3)), rng.integers(0, 2, n)
    weight = (np.arange(n) % 5).astype(float)
    fitted = RandomForestClassifier(1, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="grown with other weights"):
        return ForestKernel.from_model(fitted, X, y, weight=weight), np.eye(2)[y], X, weight


def test_rows_of_which_no_tree_says_anything_weigh_all_training_rows():
    kernel, labels, X, weight = one_tree()
    W = kernel.weights(X, fill="oob")
    even = np.diff(W.indptr) == np.count_nonzero(weight)
    assert 0 < even.sum() < len(X)
    np.testing.assert_allclose(W[even].toarray(), np.tile(weight / weight.sum(), (even.sum(), 1)))
    np.testing.assert_allclose(W @ labels, kernel.average(X, fill="oob"), atol=1e-12)
    W.check_format()


def test_rows_of_which_no_tree_says_anything_take_the_memory_of_their_entries(monkeypatch):
    kernel, _, X, _ = one_tree()
    kernel.weights(X, fill="oob")
    tracemalloc.start()
    W = kernel.weights(X, fill="oob")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    size = sparse_bytes(*W.shape[:1], W.nnz)
    assert peak < 1.2 * size
    monkeypatch.setattr("kernelforest.kernel.memory.available_bytes", lambda: size - 1)
    with pytest.raises(MemoryError, match=r"no tree says anything.*average"):
        kernel.weights(X, fill="oob")


# ---- scikit-learn: leaves and draws ----


@pytest.mark.parametrize("name", ["forest", "forest-leaf5", "extra", "tree"])
def test_leaf_kernel_is_the_share_of_common_leaves_of_apply(name):
    X, _, new, _ = data()
    kernel, theirs = kernel_of(name), classifier(name)
    old, fresh = (theirs.apply(rows).reshape(len(rows), -1) for rows in (X, new))
    np.testing.assert_allclose(kernel.matrix(dense=True), share_of_common_leaves(old, old), atol=1e-12)
    np.testing.assert_allclose(kernel.matrix(new, dense=True), share_of_common_leaves(fresh, old), atol=1e-12)
    np.testing.assert_allclose(kernel.matrix(new, new, dense=True), _among_known(fresh, old), atol=1e-12)


def _among_known(fresh, old):
    """New rows in a leaf that no training row reaches have nothing in common: bootstrapped leaves are never that empty."""
    assert all(np.isin(fresh[:, t], old[:, t]).all() for t in range(old.shape[1]))
    return share_of_common_leaves(fresh, fresh)


@pytest.mark.parametrize("kind", ["leaf", "kerf"])
def test_rows_in_leaves_without_training_rows_are_similar_to_nobody(kind):
    kernel = ForestKernel.from_model((np.array([[0, 0], [0, 1], [1, 1]]), lambda Z: np.asarray(Z)), None)
    rows, columns = [[0, 1], [5, 5], [1, 5]], [[0, 1], [5, 5], [5, 1], [1, 5]]
    K = kernel.matrix(rows, columns, kind=kind, dense=True)
    # half of each leaf that is shared, over two training rows in leaves 0 and 1 of the trees, and one in the others
    expected = {"leaf": [[1.0, 0, 0.5, 0], [0] * 4, [0, 0, 0, 0.5]], "kerf": [[0.5, 0, 0.25, 0], [0] * 4, [0, 0, 0, 0.5]]}
    np.testing.assert_array_equal(K, expected[kind])


def test_trees_of_a_bagging_see_their_own_columns():
    X, _, new, _ = data()
    theirs = classifier("bagging-columns")
    old, fresh = (
        np.column_stack(
            [tree.apply(Z[:, c]) for tree, c in zip(theirs.estimators_, theirs.estimators_features_, strict=True)]
        )
        for Z in (X, new)
    )
    got = kernel_of("bagging-columns").matrix(new, dense=True)
    np.testing.assert_allclose(got, share_of_common_leaves(fresh, old), atol=1e-12)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_draws_are_known_exactly_where_trees_leave_rows_out(name):
    training = kernel_of(name)._training
    if name in WITHOUT_DRAWS:
        assert training.draws is None
        return
    want = [np.bincount(rows, minlength=150) for rows in classifier(name).estimators_samples_]
    assert np.array_equal(training.draws(), want)


def test_a_bagging_that_hands_every_tree_all_rows_has_no_draws():
    X, y, _, _ = data()
    fitted = BaggingClassifier(n_estimators=3, bootstrap=False, max_features=2, random_state=0).fit(X, y)
    kernel = ForestKernel.from_model(fitted, X, y)
    assert kernel._training.draws is None
    with pytest.raises(ValueError, match="did not draw"):
        kernel.matrix(kind="gap")


def test_threads_do_not_change_the_kernel():
    _, _, new, _ = data()
    one, two = kernel_of("bagging-columns"), kernel_of("bagging-columns", n_jobs=2)
    assert np.array_equal(one._training.leaves, two._training.leaves)
    assert np.array_equal(one.matrix(new, dense=True), two.matrix(new, dense=True))


def test_leaf_numbers_run_through_all_trees_without_gaps():
    training = kernel_of("forest")._training
    assert np.array_equal(np.unique(training.leaves), np.arange(training.n_leaves))
    assert (training.leaves.min(axis=0)[1:] == training.leaves.max(axis=0)[:-1] + 1).all()


@pytest.mark.skipif(
    MISPLACED_GAPS, reason="trees of this scikit-learn put rows with missing values in other leaves than apply"
)
def test_missing_values_go_where_scikit_learn_sends_them():
    X, y, new, _ = data()
    holes, new = X.copy(), new.copy()
    holes[::7, 0], new[::5, 0] = np.nan, np.nan
    fitted = RandomForestClassifier(10, random_state=0).fit(holes, y)
    kernel = ForestKernel.from_model(fitted, holes, y)
    np.testing.assert_allclose(kernel.average(new, **LIKE_THEIR_MEAN), fitted.predict_proba(new), rtol=0, atol=1e-12)


def test_leaf_totals_are_not_held_against_rows_that_scikit_learn_misplaced(monkeypatch):
    X, y, _, _ = data()
    other = X.copy()
    other[0] = np.nan
    monkeypatch.setattr("kernelforest.kernel.foreign.MISPLACED_GAPS", False)
    with pytest.raises(ValueError, match="X_train is not the table"):
        ForestKernel.from_model(classifier("forest-whole"), other, y)
    monkeypatch.setattr("kernelforest.kernel.foreign.MISPLACED_GAPS", True)
    with pytest.warns(UserWarning, match=r"differ from predict: scikit-learn before 1\.8 misplaces"):
        assert ForestKernel.from_model(classifier("forest-whole"), other, y).n_rows == len(X)
    with pytest.raises(ValueError, match="X_train is not the table"):
        ForestKernel.from_model(classifier("forest-whole"), X + 1, y)


def test_sparse_tables_are_welcome():
    X, y, new, _ = data()
    thin, thin_new = np.where(X > 0, X, 0), np.where(new > 0, new, 0)
    fitted = RandomForestClassifier(10, random_state=0).fit(csr_array(thin), y)
    kernel = ForestKernel.from_model(fitted, csr_array(thin), y)
    want = fitted.predict_proba(thin_new)
    np.testing.assert_allclose(kernel.average(csr_array(thin_new), **LIKE_THEIR_MEAN), want, rtol=0, atol=1e-12)
    assert np.array_equal(kernel._training.matrix(), thin)


def test_a_point_is_explained_without_opening_all_of_a_sparse_table(monkeypatch):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((150, 400)) < 0.05, rng.normal(size=(150, 400)), 0.0)
    X[:, 399], y = X[:, :20].sum(axis=1), X[:, :20].sum(axis=1) > 0
    fitted = RandomForestClassifier(10, random_state=0).fit(csr_array(X), y)
    kernel, dense = (ForestKernel.from_model(fitted, table, y) for table in (csr_array(X), X))
    expected, of_dense = dense.explain(X[0]), VotingPointsDisplay.from_kernel(dense, X[0])
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 8 * 150 * 400 - 1)
    with pytest.raises(MemoryError, match=r"a table of 150 x 400 made dense would take 480\.0 kB"):
        kernel._training.matrix()
    monkeypatch.setattr(grids, "_OPENED", 1000)
    found, drawn = kernel.explain(X[0]), VotingPointsDisplay.from_kernel(kernel, X[0])
    assert str(found) == str(expected)
    assert np.array_equal(found.points.features, expected.points.features)
    assert np.array_equal(pickle.loads(pickle.dumps(found)).points.features, expected.points.features)
    assert np.array_equal(kernel.derivatives(X[0]).h, dense.derivatives(X[0]).h, equal_nan=True)
    assert np.array_equal(drawn.others, of_dense.others)
    assert np.array_equal(found.points.places(drawn.features), of_dense.points.features[:, list(of_dense.features)])
    monkeypatch.setattr(kernel_memory, "available_bytes", lambda: 8 * len(found.points) * 400 - 1)
    assert str(kernel.explain(X[0])) == str(expected)
    with pytest.raises(MemoryError, match="ask for weights, averages or nearest rows"):
        _ = found.points.features


def test_refitting_the_model_leaves_the_kernel_as_it_was():
    X, y, new, _ = data()
    fitted = RandomForestClassifier(10, random_state=0).fit(X, y)
    kernel = ForestKernel.from_model(fitted, X, y)
    before = kernel.average(new)
    fitted.set_params(random_state=1).fit(X[:50], y[:50])
    assert np.array_equal(kernel.average(new), before)


@LIBRARIES
def test_a_pickled_kernel_of_boosted_trees_is_the_same(library):
    X, _, new, r = data()
    for labels in (r, None):
        kernel = ForestKernel.from_model(boosted(library, "regressor")[0], X, labels)
        assert np.array_equal(pickle.loads(pickle.dumps(kernel)).average(new, r), kernel.average(new, r))


@LIBRARIES
def test_what_was_warned_of_is_not_warned_of_again_when_a_kernel_is_read(library):
    X, _, new, r = data()
    with pytest.warns(UserWarning, match="will differ from predict"):
        kernel = ForestKernel.from_model(boosted(library, "regressor")[0], X, r)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(kernel))))
    assert np.array_equal(again.average(new), kernel.average(new))


@pytest.mark.parametrize("n", [150, 50])
def test_a_pickled_kernel_of_a_model_fitted_again_is_refused(n):
    X, y, _, _ = data()
    fitted = RandomForestClassifier(10, random_state=0).fit(X, y)
    kernel = ForestKernel.from_model(fitted, X, y)
    before = pickle.dumps(kernel)
    fitted.set_params(random_state=1).fit(X[:n], y[:n])
    assert np.array_equal(pickle.loads(before).matrix(dense=True), kernel.matrix(dense=True))
    with pytest.raises(ValueError, match="the forest or its rows have changed since the kernel was made"):
        pickle.loads(pickle.dumps(kernel))


def test_a_pickled_kernel_whose_labels_were_changed_is_refused():
    X, y, _, _ = data()
    labels = y.copy()
    kernel = ForestKernel.from_model(classifier("extra"), X, labels)
    labels[0] = "c" if labels[0] == "a" else "a"
    pickled = pickle.dumps(kernel)
    with pytest.raises(ValueError, match="the forest or its rows have changed since the kernel was made"):
        pickle.loads(pickled)


# ---- frames and names ----


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_bring_their_names_and_arrays_may_follow_them(frame):
    X, y, new, _ = data()
    names = ["width", "height", "depth", "age"]
    table, fresh = (frame(dict(zip(names, Z.T, strict=True))) for Z in (X, new))
    fitted = RandomForestClassifier(10, random_state=0).fit(table, y)
    kernel = ForestKernel.from_model(fitted, table, y)
    assert kernel._training.names == tuple(names)
    assert np.array_equal(kernel._training.matrix(), X)
    assert np.array_equal(kernel._training.read(fresh), new)
    assert np.array_equal(kernel.average(fresh), kernel.average(new))
    if hasattr(fitted, "feature_names_in_"):  # older releases of scikit-learn do not read names of newer polars
        assert ForestKernel.from_model(fitted, X, y)._training.names == tuple(names)


def test_columns_without_names_are_numbered():
    assert kernel_of("forest")._training.names == ("x0", "x1", "x2", "x3")


def test_columns_in_another_order_are_refused():
    X, y, new, _ = data()
    table = pd.DataFrame(X, columns=list("abcd"))
    fitted = RandomForestClassifier(5, random_state=0).fit(table, y)
    kernel = ForestKernel.from_model(fitted, table, y)
    with pytest.raises(ValueError, match=r"X must have the columns of training, \['a', 'b', 'c', 'd'\], got \['b'"):
        kernel.matrix(pd.DataFrame(new, columns=list("bacd")))
    with pytest.raises(ValueError, match="X_train must have the columns"):
        ForestKernel.from_model(fitted, table[list("bacd")], y)


# ---- LightGBM and XGBoost: optional libraries ----


def boosted(library, kind):
    """A fitted model, and its leaves of a table as its own interface gives them."""
    X, y, _, r = data()
    codes = np.searchsorted(LETTERS, y)
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="optional library")
        rules = {"n_estimators": 6, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}
        if kind == "regressor":
            model = lightgbm.LGBMRegressor(**rules).fit(X, r)
        elif kind == "forest":
            model = lightgbm.LGBMRegressor(boosting_type="rf", subsample=0.5, subsample_freq=1, **rules).fit(X, r)
        else:
            model = lightgbm.LGBMClassifier(**rules).fit(X, y)
        fitted = model.booster_ if kind == "booster" else model
        return fitted, lambda Z: fitted.predict(Z, pred_leaf=True)
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    rules = {"n_estimators": 6, "max_depth": 3, "n_jobs": 1}
    if kind == "regressor":
        model = xgboost.XGBRegressor(**rules).fit(X, r)
    elif kind == "forest":
        model = xgboost.XGBRFRegressor(**rules).fit(X, r)
    else:
        model = xgboost.XGBClassifier(**rules).fit(X, codes)
    if kind == "booster":
        booster = model.get_booster()
        return booster, lambda Z: booster.predict(xgboost.DMatrix(Z), pred_leaf=True)
    return model, model.apply


@LIBRARIES
@pytest.mark.parametrize("kind", ["classifier", "regressor", "forest", "booster"])
def test_leaf_kernel_of_boosted_trees_is_the_share_of_common_leaves(library, kind):
    X, _, new, _ = data()
    fitted, leaves = boosted(library, kind)
    kernel = ForestKernel.from_model(fitted, X)
    assert kernel.n_trees == (6 if kind in ("regressor", "forest") else 18)
    old, fresh = leaves(X), leaves(new)
    np.testing.assert_allclose(kernel.matrix(dense=True), share_of_common_leaves(old, old), atol=1e-12)
    np.testing.assert_allclose(kernel.matrix(new, dense=True), share_of_common_leaves(fresh, old), atol=1e-12)
    assert np.array_equal(kernel.matrix(new.tolist(), dense=True), kernel.matrix(new, dense=True))
    assert kernel._training.draws is None


@LIBRARIES
@pytest.mark.filterwarnings("default")
def test_averages_of_labels_are_not_what_boosted_trees_predict(library):
    X, y, _, _ = data()
    fitted, _ = boosted(library, "classifier")
    with pytest.warns(UserWarning, match="will differ from predict: leaves of LightGBM and XGBoost hold steps"):
        ForestKernel.from_model(fitted, X, np.searchsorted(LETTERS, y) if library == "xgboost" else y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ForestKernel.from_model(fitted, X)  # nothing to average


@LIBRARIES
def test_an_explanation_does_not_pass_for_a_prediction_of_boosted_trees(library):
    X, y, new, r = data()
    told = "(a weighted average of y_train, not what the model predicts): "
    labels = y if library == "lightgbm" else np.searchsorted(LETTERS, y)
    for kind, given in (("classifier", labels), ("regressor", r)):
        kernel = kernel_without_warning(boosted(library, kind)[0], X, given)
        assert told in str(kernel.explain(new[0]))
    assert told not in str(ForestKernel.from_model(classifier("forest"), X, y).explain(new[0]))
    assert told in str(kernel_without_warning(classifier("forest"), X, y[::-1]).explain(new[0]))


def kernel_without_warning(*forest):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ForestKernel.from_model(*forest)


@LIBRARIES
def test_boosted_trees_with_labels_average_them(library):
    X, y, new, r = data()
    labels = y if library == "lightgbm" else np.searchsorted(LETTERS, y)
    kernel = ForestKernel.from_model(boosted(library, "classifier")[0], X, labels)
    np.testing.assert_allclose(kernel.average(new), kernel.weights(new) @ onehot(y), atol=1e-12)
    assert kernel._training.classes.tolist() == (list("abc") if library == "lightgbm" else [0, 1, 2])
    kernel = ForestKernel.from_model(boosted(library, "regressor")[0], X, r)
    np.testing.assert_allclose(kernel.average(new)[:, 0], kernel.weights(new) @ r, atol=1e-12)


@LIBRARIES
def test_a_booster_takes_integers_for_labels_and_fractions_for_numbers(library):
    X, y, _, r = data()
    booster, _ = boosted(library, "booster")
    assert ForestKernel.from_model(booster, X, np.searchsorted(LETTERS, y))._training.classes.tolist() == [0, 1, 2]
    assert ForestKernel.from_model(booster, X, r)._training.classes is None


@LIBRARIES
def test_frames_with_blanks_and_categories_reach_the_leaves_of_their_library(library):
    X, _, new, r = data()
    table, fresh = (pd.DataFrame(Z, columns=["a b", "c", "d", "e"]) for Z in (X, new))
    for frame in (table, fresh):
        frame["e"] = pd.Categorical(np.where(frame["e"] > 0, "yes", "no"))
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="optional library")
        fitted = lightgbm.LGBMRegressor(n_estimators=6, min_child_samples=5, verbose=-1, n_jobs=1).fit(table, r)
        old, new_leaves = (fitted.predict(Z, pred_leaf=True) for Z in (table, fresh))
    else:
        xgboost = pytest.importorskip("xgboost", reason="optional library")
        fitted = xgboost.XGBRegressor(n_estimators=6, max_depth=3, n_jobs=1, enable_categorical=True).fit(table, r)
        old, new_leaves = fitted.apply(table), fitted.apply(fresh)
    kernel = ForestKernel.from_model(fitted, table, r)
    assert kernel._training.names == ("a b", "c", "d", "e")
    np.testing.assert_allclose(kernel.matrix(fresh, dense=True), share_of_common_leaves(new_leaves, old), atol=1e-12)
    assert np.array_equal(kernel._training.matrix()[:, 3], (X[:, 3] > 0).astype(float))
    with pytest.raises(ValueError, match="must have the columns of training"):
        kernel.matrix(fresh[["c", "a b", "d", "e"]])


def with_categories(library, n=200):
    """A frame whose levels are not in the order of the alphabet, labels that need them, and a model fitted on both."""
    rng = np.random.default_rng(0)
    levels = pd.Categorical(rng.choice(["u", "v", "w"], n), categories=["w", "u", "v"])
    table = pd.DataFrame({"a": rng.normal(size=n), "e": levels})
    y = ((table["e"] == "u").to_numpy() * table["a"].to_numpy() > 0.2).astype(int)
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="optional library")
        return table, y, lightgbm.LGBMClassifier(n_estimators=10, min_child_samples=5, verbose=-1, n_jobs=1).fit(table, y)
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    return table, y, xgboost.XGBClassifier(n_estimators=10, n_jobs=1, enable_categorical=True).fit(table, y)


@LIBRARIES
def test_training_rows_with_categories_are_stepped_from_as_the_same_rows_given(library):
    table, y, fitted = with_categories(library)
    kernel = ForestKernel.from_model(fitted, table, y)
    own, given = kernel.derivative_importance(), kernel.derivative_importance(table)
    assert np.array_equal(own.mean, given.mean, equal_nan=True)
    assert np.isnan(own.mean).tolist() == np.isnan(own.per_sd).tolist() == [False, True]
    for h in (None, 1.0):
        assert np.isnan(kernel.derivatives(table, h).h).tolist() == [False, True]
    found = fit_naive(kernel, n_rows=len(table))
    np.testing.assert_allclose(found.weights, fit_naive(kernel, table).weights)
    assert np.isnan(found.weights).tolist() == [False, True]


@LIBRARIES
def test_steps_from_codes_of_the_library_keep_them(library):
    table, y, fitted = with_categories(library)
    kernel = ForestKernel.from_model(fitted, table, y)
    codes = np.column_stack([table["a"], table["e"].cat.codes]).astype(float)
    assert np.array_equal(kernel._training.route(codes), kernel._training.leaves)
    assert np.array_equal(kernel.derivatives(codes[:5]).right, kernel.derivatives(table[:5]).right, equal_nan=True)


@LIBRARIES
def test_a_row_of_a_frame_is_a_point_with_its_types(library):
    table, y, fitted = with_categories(library)
    table["n"] = np.arange(len(table))  # an integer, which a row with a fraction must not round
    kernel = ForestKernel.from_model(fitted.fit(table, y), table, y)
    row = table.iloc[3]
    assert kernel.explain(row).estimate == kernel.explain(table[3:4]).estimate
    assert np.array_equal(kernel.voting_points(row).weight, kernel.voting_points(table[3:4]).weight)
    assert np.array_equal(kernel.derivatives(row).right, kernel.derivatives(table[3:4]).right[0], equal_nan=True)
    assert as_rows(row, table)[0].dtypes.equals(table.dtypes)
    odd = row.copy()
    odd["e"], odd["n"] = "unseen", 0.5
    typed = as_rows(odd, table)[0]
    assert typed["n"].item() == 0.5
    assert typed["e"].isna().all()
    assert np.isnan(kernel.derivatives(odd).right).tolist() == [False, True, False]
    odd["n"] = None
    assert np.isnan(kernel.derivatives(odd).right).tolist() == [False, True, True]


@pytest.mark.parametrize("make", [csr_array, csr_matrix])
def test_a_sparse_point_is_refused_by_name(make):
    X, _, _, _ = data()
    kernel = kernel_of("forest")
    for ask in (kernel.explain, kernel.voting_points, kernel.derivatives):
        with pytest.raises(TypeError, match=rf"x0 must be dense, got a sparse {make.__name__}; call x0\.toarray"):
            ask(make(X[:1]))


def test_a_pair_that_wants_a_frame_gets_one():
    X, _, _, _ = data()
    table = pd.DataFrame(X[:, :2], columns=["a", "b"])

    def leaves(Z):
        return (Z["a"] > 0).to_numpy(int)[:, None]

    kernel = ForestKernel.from_model((leaves(table), leaves), table)
    assert (kernel.derivative_importance().mean > 0).tolist() == [True, False]
    assert (fit_naive(kernel, n_rows=20).weights > 0).tolist() == [True, False]


def test_frames_of_polars_keep_their_categories():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    table, y, _ = with_categories("xgboost")
    theirs = pl.DataFrame({"a": table["a"].to_numpy(), "e": pl.Series(table["e"].tolist(), dtype=pl.Categorical)})
    kernel = ForestKernel.from_model(xgboost.XGBClassifier(n_estimators=10, enable_categorical=True).fit(theirs, y), theirs)
    assert np.array_equal(kernel.derivative_importance().mean, kernel.derivative_importance(theirs).mean, equal_nan=True)
    assert np.isnan(kernel.derivatives(theirs[:1]).h).tolist() == [False, True]


def test_xgboost_fitted_on_a_frame_takes_arrays_by_position():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    X, _, new, r = data()
    table = pd.DataFrame(X, columns=list("abcd"))
    fitted = xgboost.XGBRegressor(n_estimators=1, n_jobs=1).fit(table, r)  # its apply forgets the axis of a single tree
    kernel = ForestKernel.from_model(fitted, X)
    leaves = fitted.apply(table)[:, None], fitted.apply(pd.DataFrame(new, columns=list("abcd")))[:, None]
    assert kernel._training.names == ("a", "b", "c", "d")
    np.testing.assert_allclose(kernel.matrix(new, dense=True), share_of_common_leaves(leaves[1], leaves[0]), atol=1e-12)


def test_xgboost_stops_where_early_stopping_did():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    X, _, new, r = data()
    fitted = xgboost.XGBRegressor(n_estimators=200, early_stopping_rounds=2, n_jobs=1)
    fitted.fit(X, r, eval_set=[(new, new[:, 0] * 2)], verbose=False)
    kernel = ForestKernel.from_model(fitted, X)
    assert kernel.n_trees == fitted.best_iteration + 1 < fitted.get_booster().num_boosted_rounds()
    np.testing.assert_allclose(
        kernel.matrix(new, dense=True), share_of_common_leaves(fitted.apply(new), fitted.apply(X)), atol=1e-12
    )


@LIBRARIES
def test_boosted_trees_refuse_other_columns_and_missing_fits(library):
    X, _, new, _ = data()
    fitted, _ = boosted(library, "classifier")
    with pytest.raises(ValueError, match="X_train has 3 columns, but the forest was fitted on 4"):
        ForestKernel.from_model(fitted, X[:, :3])
    with pytest.raises(ValueError, match="X has 3 columns, but the forest was fitted on 4"):
        ForestKernel.from_model(fitted, X).matrix(new[:, :3])
    with pytest.raises(NotFittedError):
        ForestKernel.from_model(type(fitted)(), X)


@pytest.mark.parametrize("n_rounds", [1, 4])
def test_a_tree_of_xgboost_for_several_outputs_is_one_tree(n_rounds):
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    X, _, new, r = data()
    both = np.column_stack([r, r**2])
    fitted = xgboost.XGBRegressor(n_estimators=n_rounds, multi_strategy="multi_output_tree", tree_method="hist", n_jobs=1)
    kernel = ForestKernel.from_model(fitted.fit(X, both), X, both)
    assert kernel.n_trees == n_rounds
    for rows in (new, new[:1]):
        old, fresh = fitted.apply(X).reshape(len(X), -1), fitted.apply(rows).reshape(len(rows), -1)
        np.testing.assert_allclose(kernel.matrix(rows, dense=True), share_of_common_leaves(fresh, old), atol=1e-12)


def test_a_linear_model_of_xgboost_has_no_kernel():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    X, _, _, r = data()
    fitted = xgboost.XGBRegressor(booster="gblinear", n_estimators=2, n_jobs=1).fit(X, r)
    for model in (fitted, fitted.get_booster()):
        with pytest.raises(TypeError, match=r"fitted must have trees to have a kernel, got .*gblinear"):
            ForestKernel.from_model(model, X, r)


def test_an_empty_booster_is_not_fitted():
    xgboost = pytest.importorskip("xgboost", reason="optional library")
    with pytest.raises(NotFittedError, match="without trees"):
        ForestKernel.from_model(xgboost.Booster(), data()[0])


# ---- pairs, and our own ----


def test_a_pair_needs_nothing_else():
    X, y, new, _ = data()
    theirs = classifier("forest")
    kernel = ForestKernel.from_model((theirs.apply(X), theirs.apply), None)
    assert np.array_equal(kernel.matrix(new, dense=True), kernel_of("forest").matrix(new, dense=True))
    np.testing.assert_allclose(kernel.average(new, onehot(y)), kernel.weights(new) @ onehot(y), atol=1e-12)
    with pytest.raises(ValueError, match="X_train was not given"):
        kernel._training.matrix()


def test_a_pair_with_rows_and_labels_knows_them():
    X, y, new, _ = data()
    theirs = GradientBoostingClassifier(n_estimators=5, random_state=0).fit(X, y)
    kernel = ForestKernel.from_model((theirs.apply(X).reshape(150, -1), lambda Z: theirs.apply(Z).reshape(len(Z), -1)), X, y)
    assert kernel._training.classes.tolist() == list("abc")
    assert kernel._training.names == ("x0", "x1", "x2", "x3")
    np.testing.assert_allclose(kernel.average(new).sum(axis=1), 1.0)


@pytest.mark.parametrize("spread", [1, 10**12])
def test_any_whole_numbers_name_leaves_and_unknown_ones_are_nobody(spread):
    rng = np.random.default_rng(0)
    old, new = rng.integers(-9, 9, (60, 5)) * spread, rng.integers(-15, 15, (30, 5)) * spread
    numbering = numbering_of(old)
    assert np.array_equal(np.unique(numbering.number(old)), np.arange(numbering.starts[-1]))
    kernel = ForestKernel.from_model((old.astype(float), lambda X: new), None)
    np.testing.assert_allclose(kernel.matrix(new, dense=True), share_of_common_leaves(new, old), atol=1e-12)
    unknown = np.column_stack([~np.isin(new[:, t], old[:, t]) for t in range(5)])
    assert unknown.any()
    assert np.array_equal(kernel._training.route(new) == -1, unknown)


def test_our_own_classifier_gives_its_own_kernel():
    X, y, _, _ = data()
    model = KernelForestClassifier.untuned(5, random_state=0).fit(X, y)
    assert ForestKernel.from_model(model, X, y) is model.kernel_
    assert ForestKernel.from_model(model, None) is model.kernel_
    with pytest.raises(ValueError, match="X_train is not the table"):
        ForestKernel.from_model(model, X[::-1])
    for other in (y[::-1], y[:-1], np.searchsorted(LETTERS, y)):
        with pytest.raises(ValueError, match="y_train must be left out or be what this forest was fitted on"):
            ForestKernel.from_model(model, X, other)
    with pytest.raises(ValueError, match="weight must be left out"):
        ForestKernel.from_model(model, X, y, weight=np.ones(len(X)))
    for same in (y.tolist(), pd.Series(y), pd.Categorical(y), y[:, None]):
        assert ForestKernel.from_model(model, X, same) is model.kernel_
    with pytest.raises(NotFittedError):
        ForestKernel.from_model(KernelForestClassifier.untuned(), X)


# ---- bad input ----


@pytest.mark.parametrize("model", [KMeans(2), LogisticRegression(), None, "forest", (1, 2), (len, len, len)])
def test_what_is_no_forest_is_named(model):
    with pytest.raises(TypeError, match=f"fitted must be a fitted RandomForest.* got .*{type(model).__name__}"):
        ForestKernel.from_model(model, data()[0])


def test_a_gaussian_process_has_a_kernel_but_is_no_forest():
    X, y, _, _ = data()
    model = GaussianProcessClassifier(optimizer=None).fit(X[:20], y[:20] == y[0])
    with pytest.raises(TypeError, match=r"fitted must be a fitted RandomForest.* got .*GaussianProcessClassifier"):
        ForestKernel.from_model(model, X[:20])


def test_of_a_pipeline_the_last_step_is_asked_for_with_the_rows_it_saw():
    X, y, _, _ = data()
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(X, y)
    with pytest.raises(
        TypeError, match=r"got a Pipeline: give its last step, pipeline\[-1\], .* pipeline\[:-1\]\.transform"
    ):
        ForestKernel.from_model(pipeline, X, y)
    kernel = ForestKernel.from_model(pipeline[-1], pipeline[:-1].transform(X), y)
    assert kernel.n_rows == len(X)


def test_a_bagging_of_something_else_is_named():
    X, y, _, _ = data()
    fitted = BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, y)
    with pytest.raises(
        TypeError, match="BaggingClassifier must hold decision trees of scikit-learn, got LogisticRegression"
    ):
        ForestKernel.from_model(fitted, X)


@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesRegressor, BaggingClassifier, DecisionTreeRegressor])
def test_an_unfitted_forest_is_refused(kind):
    with pytest.raises(NotFittedError):
        ForestKernel.from_model(kind(), data()[0])


def test_other_columns_are_refused():
    X, y, new, _ = data()
    with pytest.raises(ValueError, match="X_train has 3 columns, but the forest was fitted on 4"):
        ForestKernel.from_model(classifier("forest"), X[:, :3], y)
    with pytest.raises(ValueError, match="X has 5 columns, but the forest was fitted on 4"):
        kernel_of("forest").average(np.column_stack([new, new[:, 0]]))
    with pytest.raises(ValueError, match="X must be a table with two dimensions"):
        kernel_of("forest").average(new[0])


def test_a_training_table_is_needed():
    with pytest.raises(ValueError, match="X_train must be the table the forest was fitted on, got None"):
        ForestKernel.from_model(classifier("forest"), None)


@pytest.mark.parametrize("name", ["forest", "forest-whole", "extra"])
def test_another_number_of_rows_is_refused_by_its_draws(name):
    X, _, new, _ = data()
    for table in (X[:-1], np.vstack([X, new])):
        with pytest.raises(ValueError, match=f"X_train has {len(table)} rows, but the forest was fitted on 150"):
            ForestKernel.from_model(classifier(name), table)


@pytest.mark.parametrize("name", ["forest-part", "forest-few", "bagging", "bagging-columns"])
def test_too_few_rows_are_refused_by_the_last_row_drawn(name):
    with pytest.raises(ValueError, match=r"X_train has 100 rows, but the forest was fitted on (at least )?1"):
        ForestKernel.from_model(classifier(name), data()[0][:100])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_other_rows_are_refused_by_the_totals_of_leaves(name):
    X, _, _, _ = data()
    other = np.random.default_rng(9).normal(size=X.shape)
    with pytest.raises(ValueError, match=r"X_train is not the table this forest was fitted on.*tree 0"):
        ForestKernel.from_model(classifier(name), other)


def test_shuffled_rows_are_refused_where_trees_drew_rows():
    X, _, _, _ = data()
    with pytest.raises(ValueError, match="X_train is not the table this forest was fitted on"):
        ForestKernel.from_model(classifier("forest"), X[::-1])


def test_rows_without_weight_in_the_fit_are_told_by_their_weight():
    X, y, _, _ = data()
    weight = (np.arange(len(X)) > 20).astype(float)
    fitted = ExtraTreesClassifier(5, random_state=0).fit(X, y, weight)
    with pytest.raises(ValueError, match="need weight=0 here"):
        ForestKernel.from_model(fitted, X, y)
    assert ForestKernel.from_model(fitted, X, y, weight=weight).n_rows == len(X)


def test_a_warm_started_bagging_does_not_know_its_draws():
    X, y, _, _ = data()
    fitted = BaggingClassifier(n_estimators=2, warm_start=True).fit(X, y).set_params(n_estimators=5).fit(X, y)
    with pytest.raises(ValueError, match="knows the rows of 3 of its 5 trees only"):
        ForestKernel.from_model(fitted, X, y)


def test_labels_of_another_length_or_class_are_refused():
    X, y, _, r = data()
    with pytest.raises(ValueError, match=r"y_train must have one entry per training row \(150\), got shape \(149,\)"):
        ForestKernel.from_model(classifier("forest"), X, y[:-1])
    with pytest.raises(ValueError, match=r"y_train must hold classes of the forest, \['a', 'b', 'c'\], got 'z'$"):
        ForestKernel.from_model(classifier("forest"), X, np.where(y == "a", "z", y))
    with pytest.raises(ValueError, match=r"y_train must hold classes of the forest, \['0', '1'\], got 0, 1$"):
        ForestKernel.from_model(
            RandomForestClassifier(3).fit(X, (y == "a").astype(int).astype(str)), X, (y == "a").astype(int)
        )
    with pytest.raises(ValueError, match="y_train contains NaN"):
        ForestKernel.from_model(regressor("forest"), X, np.where(r > 0, np.nan, r))
    both = np.column_stack([y, y])
    with pytest.raises(ValueError, match="y_train of a classifier must have one column, the forest has 2"):
        ForestKernel.from_model(RandomForestClassifier(2).fit(X, both), X, both)


def test_without_labels_averages_of_given_values_work_and_others_say_why_not():
    X, y, new, _ = data()
    kernel = ForestKernel.from_model(classifier("forest"), X)
    assert np.array_equal(kernel.average(new, onehot(y)), kernel_of("forest").average(new))
    with pytest.raises(ValueError, match="y_train was not given"):
        kernel.average(new)


def test_bad_weights_and_threads_are_refused():
    X, y, _, _ = data()
    with pytest.raises(ValueError, match=r"^weight must have shape \(150,\), got \(3,\)"):
        ForestKernel.from_model(classifier("forest"), X, y, weight=[1, 2, 3])
    with pytest.raises(TypeError, match=r"n_jobs must be an integer or None, got 1\.5"):
        ForestKernel.from_model(classifier("forest"), X, y, n_jobs=1.5)


def test_weights_other_than_those_of_the_trees_are_warned_of():
    X, y, new, _ = data()
    weight = np.random.default_rng(0).uniform(0.2, 3.0, len(y))
    for fitted in (ExtraTreesRegressor(5, min_samples_leaf=5, random_state=0), DecisionTreeRegressor(min_samples_leaf=5)):
        fitted.fit(X, X[:, 0], weight)
        with pytest.warns(UserWarning, match="grown with other weights of rows, give weight="):
            ForestKernel.from_model(fitted, X, X[:, 0])
        told = ForestKernel.from_model(fitted, X, X[:, 0], weight=7.0 * weight)
        np.testing.assert_allclose(told.average(new).ravel(), fitted.predict(new))
    drawn = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.warns(UserWarning, match="grown with other weights of rows"):
        ForestKernel.from_model(drawn, X, y, weight=weight)


def test_a_forest_that_inherits_from_one_of_scikit_learn_is_read_as_that():
    X, y, new, _ = data()

    class Forest(RandomForestClassifier):
        pass

    fitted = Forest(10, min_samples_leaf=5, random_state=0).fit(X, y)
    np.testing.assert_allclose(ForestKernel.from_model(fitted, X, y).average(new), fitted.predict_proba(new))


def test_bad_pairs_are_refused():
    X, _, _, _ = data()
    leaves = np.zeros((150, 2), int)
    with pytest.raises(ValueError, match=r"leaves_train must have a row per training row.* got shape \(150,\)"):
        ForestKernel.from_model((leaves[:, 0], len), None)
    with pytest.raises(TypeError, match="leaves_train must be whole numbers, got fractions"):
        ForestKernel.from_model((leaves + 0.5, len), None)
    with pytest.raises(TypeError, match="leaves_train must be whole numbers, got dtype <U1"):
        ForestKernel.from_model((leaves.astype("U1"), len), None)
    with pytest.raises(ValueError, match=r"apply_function must return an array of shape \(n_rows, 2\), got \(150, 3\)"):
        ForestKernel.from_model((leaves, lambda Z: np.zeros((len(Z), 3), int)), X)
    with pytest.raises(ValueError, match="X_train has 100 rows, but leaves_train 150"):
        ForestKernel.from_model((leaves, lambda Z: np.zeros((len(Z), 2), int)), X[:100])
    with pytest.raises(ValueError, match="X_train is not the table of leaves_train"):
        ForestKernel.from_model((leaves, lambda Z: np.ones((len(Z), 2), int)), X)
