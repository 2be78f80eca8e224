"""Forests of further libraries: what they predict is what the kernel averages, or they are refused with a way out.

Each test needs its library and is skipped elsewhere; imbalanced-learn and quantile-forest come with the extra `dev`.
"""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)

from kernelforest.kernel import ForestKernel

RNG = np.random.default_rng(0)
N = 240
X = RNG.normal(size=(N, 4))
NEW = RNG.normal(size=(60, 4))
Z = X[:, 0] + RNG.normal(size=N)
Y = (Z > 1.0).astype(int)


def library(name: str) -> Any:
    """A library, or a skipped test; some warn of their own use of others while they are imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed")


def kernel_of(model: Any, y: Any, warns: str | None = None, **how: Any) -> ForestKernel:
    if warns is None:
        return ForestKernel.from_model(model, X, y, **how)
    with pytest.warns(UserWarning, match=warns):
        return ForestKernel.from_model(model, X, y, **how)


# ---- imbalanced-learn ----


@pytest.mark.parametrize(
    "rules", [{}, {"sampling_strategy": "auto", "replacement": False}, {"min_samples_leaf": 9}], ids=str
)
def test_a_balanced_forest_predicts_averages_over_the_rows_its_samplers_drew(rules):
    model = library("imblearn.ensemble").BalancedRandomForestClassifier(25, random_state=0, **rules).fit(X, Y)
    kernel = kernel_of(model, Y)
    for table in (X, NEW):
        np.testing.assert_allclose(kernel.average(table), model.predict_proba(table), atol=1e-12)
    drawn = np.stack([np.bincount(sampler.sample_indices_, minlength=N) for sampler in model.samplers_])
    np.testing.assert_array_equal(kernel._counts, drawn)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel)).average(NEW), kernel.average(NEW))
    assert kernel.voting_points(NEW[0], fill="oob").weight.sum() == pytest.approx(1.0)


def test_class_weights_of_a_balanced_forest_are_given_as_weights():
    model = library("imblearn.ensemble").BalancedRandomForestClassifier(25, random_state=0, class_weight={0: 1.0, 1: 3.0})
    model.fit(X, Y)
    kernel = kernel_of(model, Y, weight=np.where(Y, 3.0, 1.0))
    np.testing.assert_allclose(kernel.average(NEW), model.predict_proba(NEW), atol=1e-12)
    kernel_of(model, Y, "give weight=")


def test_another_table_is_still_told_from_that_of_a_balanced_forest():
    ensemble = library("imblearn.ensemble")
    model = ensemble.BalancedRandomForestClassifier(25, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X_train is not the table this forest was fitted on"):
        ForestKernel.from_model(model, X[::-1], Y)
    with pytest.warns(UserWarning, match="other labels than y_train"):
        ForestKernel.from_model(model, X, 1 - Y)
    again = ensemble.BalancedRandomForestClassifier(25, random_state=0, bootstrap=True).fit(X, Y)
    with pytest.raises(TypeError, match="bootstrap=True draws of those again, and imbalanced-learn does not say which"):
        ForestKernel.from_model(again, X, Y)


# ---- quantile-forest ----


@pytest.mark.parametrize("kind", ["RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"])
@pytest.mark.parametrize("bootstrap", [False, True])
def test_means_of_a_quantile_forest_are_averages(kind, bootstrap):
    forest = getattr(library("quantile_forest"), kind)
    model = forest(25, random_state=0, min_samples_leaf=5, max_samples_leaf=None, bootstrap=bootstrap).fit(X, Z)
    kernel = kernel_of(model, Z, "quantile-forest predicts quantiles")
    for table in (X, NEW):
        expected = model.predict(table, quantiles="mean", aggregate_leaves_first=False)
        np.testing.assert_allclose(kernel.average(table)[:, 0], expected, atol=1e-12)
    with pytest.raises(ValueError, match="X_train is not the table this forest was fitted on"):
        ForestKernel.from_model(model, X[::-1] + 1.0, Z)


# ---- scikit-survival ----


def nelson_aalen(weight: np.ndarray, event: np.ndarray, time: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Cumulative hazard by its definition: at each time, events over those still at risk."""
    out = np.zeros(len(at))
    for t in np.unique(time[event & (weight > 0)]):
        out[at >= t] += weight[event & (time == t)].sum() / weight[time >= t].sum()
    return out


@pytest.mark.parametrize("kind", ["RandomSurvivalForest", "ExtraSurvivalTrees"])
def test_hazards_of_a_survival_forest_come_from_the_rows_in_its_leaves(kind):
    forest, surv = getattr(library("sksurv.ensemble"), kind), library("sksurv.util").Surv
    event, time = RNG.random(N) < 0.7, np.exp(Z).round(1) + 0.1
    y = surv.from_arrays(event, time)
    model = forest(10, random_state=0, min_samples_leaf=8, bootstrap=True).fit(X, y)
    kernel = kernel_of(model, y, "scikit-survival predicts hazards")
    at, rows = model.unique_times_, NEW[:5]
    expected = model.predict_cumulative_hazard_function(rows, return_array=True)
    home, leaves = kernel._training.route(rows), kernel._training.leaves
    for i, hazards in enumerate(expected):
        found = [nelson_aalen(kernel._counts[t] * (leaves[:, t] == home[i, t]), event, time, at) for t in range(10)]
        np.testing.assert_allclose(np.mean(found, axis=0), hazards, atol=1e-12)
    points = kernel.voting_points(rows[0])
    np.testing.assert_array_equal(points.label, np.column_stack([event, time])[points.rows])  # one sees whom it resembles
    lives = kernel.average(rows, time > 1.0)
    np.testing.assert_allclose(lives, kernel.weights(rows) @ (time > 1.0))


def test_a_survival_tree_is_a_forest_of_one_tree_and_boosted_hazards_are_refused():
    library("sksurv")
    event, time = RNG.random(N) < 0.7, np.exp(Z)
    y = library("sksurv.util").Surv.from_arrays(event, time)
    tree = library("sksurv.tree").SurvivalTree(max_depth=3).fit(X, y)
    kernel = kernel_of(tree, None)
    same = tree.apply(NEW.astype(np.float32))[:, None] == tree.apply(X.astype(np.float32))
    np.testing.assert_array_equal(kernel.matrix(NEW, dense=True) > 0, same)
    boosted = library("sksurv.ensemble").GradientBoostingSurvivalAnalysis(n_estimators=3).fit(X, y)
    with pytest.raises(
        TypeError, match=r"fitted must be .* got sksurv\.ensemble\.boosting\.GradientBoostingSurvivalAnalysis"
    ):
        ForestKernel.from_model(boosted, X)


# ---- boosted trees of scikit-learn ----


@pytest.mark.parametrize("classes", [1, 2, 3])
def test_boosted_trees_of_scikit_learn_share_leaves(classes):
    y = Z if classes == 1 else np.digitize(Z, [0.0, 1.0][: classes - 1])
    model = (GradientBoostingRegressor if classes == 1 else GradientBoostingClassifier)(n_estimators=7, random_state=0)
    model.fit(X, y)
    kernel = kernel_of(model, y, "leaves of GradientBoosting hold steps")
    mine, theirs = (model.apply(table).reshape(len(table), -1) for table in (NEW, X))
    assert kernel.n_trees == mine.shape[1] == (21 if classes == 3 else 7)
    np.testing.assert_allclose(kernel.matrix(NEW, dense=True), (mine[:, None] == theirs).mean(axis=2), atol=1e-12)
    moved = np.repeat(NEW[:1], 4, axis=0) + np.diag(np.full(4, 0.3))
    expected = (kernel.matrix(moved, NEW[:1], dense=True)[:, 0] - 1.0) / 0.3
    np.testing.assert_allclose(kernel.derivatives(NEW[0], h=0.3).right, expected, atol=1e-12)
    with pytest.raises(ValueError, match="X_train is not the table this forest was fitted on"):
        ForestKernel.from_model(model, X[::-1] + 1.0)
    with pytest.raises(ValueError, match="NaN"):
        kernel.matrix(np.where(NEW > 0, NEW, np.nan))


def test_boosted_trees_that_left_rows_out_are_not_asked_which_rows_grew_them():
    for rules in ({"subsample": 0.5}, {"n_iter_no_change": 2}):
        model = GradientBoostingClassifier(n_estimators=9, random_state=0, **rules).fit(X, Y)
        assert kernel_of(model, None).n_trees == len(model.estimators_)


# ---- refused, with a way out ----


@pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
def test_boosting_of_histograms_is_refused_because_it_does_not_tell_leaves(kind):
    with pytest.raises(TypeError, match=r"which leaves rows reach, .* HistGradientBoosting does not; got sklearn"):
        ForestKernel.from_model(kind(max_iter=3).fit(X, Y), X, Y)


def test_catboost_is_read_by_the_pair_that_the_refusal_names():
    model = library("catboost").CatBoostClassifier(iterations=5, verbose=False, allow_writing_files=False).fit(X, Y)
    with pytest.raises(TypeError, match=r"the pair \(model\.calc_leaf_indexes\(X_train\), model\.calc_leaf_indexes\)"):
        ForestKernel.from_model(model, X, Y)
    kernel = ForestKernel.from_model((model.calc_leaf_indexes(X), model.calc_leaf_indexes), X, Y)
    same = model.calc_leaf_indexes(NEW)[:, None] == model.calc_leaf_indexes(X)
    np.testing.assert_allclose(kernel.matrix(NEW, dense=True), same.mean(axis=2), atol=1e-12)


def test_ydf_is_read_by_the_pair_that_the_refusal_names():
    ydf = library("ydf")
    table = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    ydf.verbose(0)
    model = ydf.RandomForestLearner(label="y", num_trees=5).train(table)
    with pytest.raises(TypeError, match=r"the pair \(model\.predict_leaves\(table\), model\.predict_leaves\)"):
        ForestKernel.from_model(model, table, Y)
    kernel = ForestKernel.from_model((model.predict_leaves(table), model.predict_leaves), table, Y)
    same = model.predict_leaves(table[:9])[:, None] == model.predict_leaves(table)
    np.testing.assert_allclose(kernel.matrix(table[:9], dense=True), same.mean(axis=2), atol=1e-12)
