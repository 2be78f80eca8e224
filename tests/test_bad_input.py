"""Every mistake gets an error that names the argument, the law and the value, before any work starts."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from kernelforest import KernelForestClassifier
from kernelforest.analytic import fit_naive
from kernelforest.displays import (
    DerivativeImportanceDisplay,
    DerivativesDisplay,
    LevelSetsDisplay,
    MapDisplay,
    ProfileDisplay,
    VotingPointsDisplay,
)
from kernelforest.uses import impute, map_rows, outliers, prototypes

X = np.arange(40.0).reshape(20, 2)
y = np.tile([0, 1], 10)


@pytest.fixture(scope="module")
def model():
    return KernelForestClassifier.untuned(5, random_state=0).fit(X, y)


BAD_PARAMETERS = [
    ("n_estimators", 0, ValueError),
    ("n_estimators", 2.5, TypeError),
    ("n_estimators", True, TypeError),
    ("leaf_size", 0, ValueError),
    ("leaf_size", -3, ValueError),
    ("leaf_size", 1.5, TypeError),
    ("leaf_size", "big", TypeError),
    ("max_features", 0, ValueError),
    ("max_features", 3, ValueError),
    ("max_features", 0.0, ValueError),
    ("max_features", 1.5, ValueError),
    ("max_features", -1, ValueError),
    ("max_features", float("nan"), ValueError),
    ("max_features", "log2ish", ValueError),
    ("max_features", None, TypeError),
    ("aggregate", "median", ValueError),
    ("aggregate", 3, ValueError),
    ("fill", "some", ValueError),
    ("splitter", "worst", ValueError),
    ("splitter", None, ValueError),
    ("bootstrap", "yes", TypeError),
    ("max_samples", 0, ValueError),
    ("max_samples", 21, ValueError),
    ("max_samples", 1.01, ValueError),
    ("max_samples", "half", TypeError),
    ("max_depth", -1, ValueError),
    ("max_depth", 2.0, TypeError),
    ("max_leaf_nodes", 0, ValueError),
    ("max_leaf_nodes", "few", TypeError),
    ("class_weight", "heavy", ValueError),
    ("class_weight", {0: 1.0, 1: 0.0}, ValueError),
    ("class_weight", {0: 1.0, 1: float("nan")}, ValueError),
    ("prior", [0.5, 0.6], ValueError),
    ("prior", [1.0], ValueError),
    ("prior", "flat", ValueError),
    ("prior", {0: 0.5}, ValueError),
    ("categorical_features", "all", ValueError),
    ("categorical_features", [2], ValueError),
    ("categorical_features", [True], ValueError),
    ("categorical_features", ["colour"], ValueError),
    ("n_jobs", 0, ValueError),
    ("n_jobs", "two", TypeError),
    ("random_state", "seed", ValueError),
]


@pytest.mark.parametrize(("name", "value", "error"), BAD_PARAMETERS)
def test_a_bad_parameter_is_named_with_its_value(name, value, error):
    with pytest.raises(error) as caught:
        KernelForestClassifier.untuned(**{"n_estimators": 5, name: value}).fit(X, y)
    if name != "random_state":  # scikit-learn words that one
        assert name in str(caught.value)
        assert str(value) in str(caught.value)


@pytest.mark.parametrize(
    ("weight", "reason"),
    [
        (np.full(20, np.nan), "finite"),
        (np.full(20, np.inf), "finite"),
        (np.full(20, -1.0), ">= 0"),
        (np.zeros(20), "positive"),
        (np.ones(19), r"shape \(20,\)"),
        (np.ones((20, 2)), r"shape \(20,\)"),
    ],
)
def test_bad_weights_say_what_is_wrong(weight, reason):
    with pytest.raises(ValueError, match=f"sample_weight.*{reason}"):
        KernelForestClassifier.untuned(5).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize(
    "labels",
    [[None] * 20, [np.nan, *range(19)], np.where(np.arange(20) > 3, "a", None), pd.Series([pd.NA, *range(19)])],
)
def test_missing_labels_are_refused(labels):
    with pytest.raises(ValueError, match="y must have no missing values"):
        KernelForestClassifier.untuned(5).fit(X, labels)


@pytest.mark.parametrize(
    ("table", "labels", "error"),
    [
        (np.empty((0, 2)), [], ValueError),
        (np.empty((20, 0)), y, ValueError),
        (X[:, 0], y, ValueError),
        (X, y[:5], ValueError),
        (X, np.linspace(0, 1, 20), ValueError),
        (X, np.column_stack([y, y]), ValueError),
        (X, None, ValueError),
        (X * 1j, y, ValueError),
        (csr_array(X), y, TypeError),
        (np.full((20, 2), "a"), y, ValueError),
        ([["a", 1.0]] * 20, y, ValueError),
        (np.zeros((20, 2, 2)), y, ValueError),
    ],
)
def test_tables_and_labels_that_make_no_sense_are_refused(table, labels, error):
    with pytest.raises(error):
        KernelForestClassifier.untuned(5).fit(table, labels)


def test_an_empty_frame_with_categories_is_refused():
    empty = pd.DataFrame({"a": pd.Categorical([]), "b": np.zeros(0)})
    with pytest.raises(ValueError, match="at least one row"):
        KernelForestClassifier.untuned(5).fit(empty, [])


def test_the_honest_fill_needs_rows_left_out():
    with pytest.raises(ValueError, match="fill='oob' needs rows"):
        KernelForestClassifier.untuned(5, bootstrap=False, fill="oob").fit(X, y)
    fitted = KernelForestClassifier.untuned(5, bootstrap=False, max_samples=20).fit(X, y)
    with pytest.raises(ValueError, match="fill='oob' needs rows"):
        fitted.predict_proba(X, fill="oob")
    with pytest.raises(AttributeError, match="nothing is out-of-bag"):
        _ = fitted.oob_score_


@pytest.mark.parametrize("bad", [{"aggregate": "median"}, {"fill": "none"}, {"aggregate": ""}])
def test_an_unknown_estimate_is_refused_at_prediction(model, bad):
    with pytest.raises(ValueError, match="must be one of"):
        model.predict_proba(X, **bad)


def test_other_columns_at_prediction_are_refused(model):
    with pytest.raises(ValueError, match="3 features"):
        model.predict_proba(np.zeros((2, 3)))
    frame = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(X[:, 1])})
    fitted = KernelForestClassifier.untuned(5).fit(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_proba(frame.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict_proba(frame[["b", "a"]])


def test_a_text_column_is_named_when_it_is_not_categorical():
    frame = pd.DataFrame({"size": X[:, 0], "colour": ["red", "blue"] * 10, "kind": pd.Categorical(["u", "v"] * 10)})
    with pytest.raises(ValueError, match="colour"):
        KernelForestClassifier.untuned(5, categorical_features=["kind"]).fit(frame, y)


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba", "apply"])
def test_an_unfitted_forest_says_so(method):
    with pytest.raises(NotFittedError):
        getattr(KernelForestClassifier.untuned(), method)(X)


@pytest.mark.parametrize("name", ["oob_proba_", "oob_score_", "inbag_counts_", "feature_importances_", "node_counts_"])
def test_an_unfitted_forest_has_no_results(name):
    assert not hasattr(KernelForestClassifier.untuned(), name)


@pytest.mark.parametrize(
    "ask",
    [
        outliers,
        prototypes,
        map_rows,
        fit_naive,
        lambda model: impute(model, X),
        MapDisplay.from_kernel,
        lambda model: VotingPointsDisplay.from_kernel(model, X[0]),
        lambda model: ProfileDisplay.from_kernel(model, X[0], 0),
        lambda model: DerivativesDisplay.from_kernel(model, X[0]),
        DerivativeImportanceDisplay.from_kernel,
        lambda model: LevelSetsDisplay.from_kernel(model, X[0]),
    ],
)
def test_a_model_in_place_of_its_kernel_is_refused(model, ask):
    with pytest.raises(TypeError, match="kernel must be a ForestKernel, got KernelForestClassifier; give the kernel_ of"):
        ask(model)


def test_too_few_trees_for_out_of_bag_scores_are_announced(model):
    with pytest.warns(UserWarning, match="rows were drawn by every tree"):
        proba = KernelForestClassifier.untuned(1, random_state=0).fit(X, y).oob_proba_
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_extreme_weights_give_probabilities():
    for scale in (1e-300, 1e300):
        weight = np.linspace(1, 2, 20) * scale
        proba = (
            KernelForestClassifier.untuned(5, leaf_size=5, random_state=0).fit(X, y, sample_weight=weight).predict_proba(X)
        )
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_columns_of_the_same_name_are_refused():
    with pytest.raises(ValueError, match=r"distinct column names.*'a'"):
        KernelForestClassifier.untuned(5).fit(pd.DataFrame(X, columns=["a", "a"]), y)


def test_one_row_leaves_nothing_to_score_out_of_bag():
    with pytest.warns(UserWarning, match="drawn by every tree"):
        assert not hasattr(KernelForestClassifier.untuned(3, random_state=0).fit([[1.0]], [0]), "oob_score_")


def test_a_fraction_of_the_rows_is_not_cut_short_by_rounding():
    table = np.arange(100.0)[:, None]
    counts = KernelForestClassifier.untuned(2, max_samples=0.29, random_state=0).fit(table, table[:, 0] > 50).inbag_counts_
    assert (counts.sum(axis=0) == 29).all()
