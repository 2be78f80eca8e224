"""Mistakes that somebody met who used the package as a stranger; each has its test."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest.data import read_groups, read_labels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = (X[:, 0] + RNG.normal(size=150) > 0).astype(int)
NEW = RNG.normal(size=(40, 3))


def small(**parameters):
    return KernelForestClassifier.untuned(**({"n_estimators": 30, "random_state": 0} | parameters))


def test_class_weights_count_once_after_joblib():
    model = small(class_weight={0: 6.0, 1: 1.0}, prior="weighted").fit(X, Y)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    np.testing.assert_array_equal(joblib.load(file).predict(NEW), model.predict(NEW))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_mean_the_same_in_every_unit(unit):
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(150), "D")
    frame = pd.DataFrame({"when": days, "how long": days - days[0]})
    y = (np.arange(150) > 70).astype(int)
    model = small().fit(frame, y)
    other = frame.assign(**{"when": frame["when"].astype(f"datetime64[{unit}]")})
    other["how long"] = other["how long"].astype(f"timedelta64[{unit}]")
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))
    zoned = frame.assign(when=frame["when"].dt.tz_localize("UTC"))
    np.testing.assert_array_equal(model.predict_proba(zoned), model.predict_proba(frame))


def test_a_kernel_stays_that_of_its_fit():
    model = small(calibration="sigmoid").fit(X, Y)
    kernel = model.kernel_
    before, weights = kernel.explain(NEW[0]), kernel.weights(NEW).toarray()
    model.fit(RNG.normal(size=(100, 4)), 1 - Y[:100])
    assert kernel.explain(NEW[0]).corrected == before.corrected
    np.testing.assert_array_equal(kernel.weights(NEW).toarray(), weights)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel)).weights(NEW).toarray(), weights)
    assert model.kernel_.n_rows == 100


def test_a_pickled_kernel_keeps_the_estimate_that_is_meant():
    kernel = ForestKernel.from_model(RandomForestClassifier(10, random_state=0).fit(X, Y), X, Y)
    kernel.meant_estimate("proximity", "all")
    assert repr(pickle.loads(pickle.dumps(kernel))) == repr(kernel)


def test_a_fit_that_fails_leaves_no_model():
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="as many rows"):
        model.fit(X[:, :2], Y[:-1])
    with pytest.raises(NotFittedError):
        model.predict_proba(X)


def test_a_class_with_prior_zero_never_has_a_probability():
    model = small(prior={0: 0.0, 1: 1.0}).fit(X, Y)
    np.testing.assert_array_equal(model.predict_proba(X), np.tile([0.0, 1.0], (150, 1)))
    three = np.where(X[:, 1] > 0.5, 2, Y)
    shares = small(prior=[0.0, 0.25, 0.75]).fit(X, three).predict_proba(X)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert (shares[:, 0] == 0).all()
    sure = small().fit(X, three).predict_proba(X)[:, 0] == 1
    assert sure.any()
    np.testing.assert_allclose(shares[sure], np.tile([0.0, 0.25, 0.75], (sure.sum(), 1)))


def test_a_prior_needs_a_class_with_rows():
    weight = (Y == 1).astype(float)
    with pytest.raises(ValueError, match="prior must give a share to a class that has rows"):
        small(prior={0: 1.0, 1: 0.0}).fit(X, Y, weight)


def test_gaps_and_numbers_among_text_are_not_labels():
    with pytest.raises(ValueError, match="labels of one kind"):
        read_labels(["a", 1] * 5)
    with pytest.raises(ValueError, match="no missing values"):
        read_labels(["a", float("nan")] * 5)


def test_groups_without_a_date_are_refused():
    with pytest.raises(ValueError, match="groups must have no missing values"):
        read_groups(np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"), 2)


def test_masked_entries_are_missing():
    masked = np.ma.masked_array(X, mask=X > 1.5)
    gaps = np.where(X > 1.5, np.nan, X)
    np.testing.assert_array_equal(small().fit(masked, Y).predict_proba(masked), small().fit(gaps, Y).predict_proba(gaps))


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        (pl.DataFrame({"a": X[:, 0]}).lazy(), TypeError, "call X.collect"),
        (pl.DataFrame({"a": [{"b": 1.0}] * 150}), ValueError, "must hold numbers"),
        (pd.DataFrame({"a": pd.period_range("2024-01", periods=150, freq="M")}), TypeError, "must hold numbers"),
        ({"a": X[:, 0].tolist()}, TypeError, "must hold numbers"),
    ],
)
def test_tables_that_cannot_be_read(table, error, words):
    with pytest.raises(error, match=words):
        small().fit(table, Y)


@pytest.mark.parametrize("k", [2.5, "3", 0])
def test_neighbours_are_counted_in_whole_numbers(k):
    with pytest.raises(ValueError, match="k must be an integer"):
        small().fit(X, Y).kernel_.nearest(NEW, k)


def test_a_reader_that_has_seen_enough():
    command = f"{sys.executable} -m kernelforest paper list | true"  # gone before the first word
    assert subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.parametrize("kind", ["leaf", "kerf", "path", "oob", "gap"])
def test_no_distance_is_negative_by_rounding(kind):
    flowers, kinds = load_iris(return_X_y=True)
    kernels = [
        KernelForestClassifier(60, random_state=0).fit(flowers, kinds).kernel_,  # a blend: its weights do not add up exactly
        KernelForestClassifier.untuned(60, random_state=0).fit(flowers, kinds).kernel_,
    ]
    for kernel in kernels:
        assert kernel.distance(kind=kind).min() >= 0.0
        assert kernel.matrix(kind=kind).max() <= 1.0


def test_distances_can_be_clustered_by_scikit_learn():
    flowers, kinds = load_iris(return_X_y=True)
    away = KernelForestClassifier(random_state=0).fit(flowers, kinds).kernel_.distance()
    found = DBSCAN(eps=0.5, metric="precomputed").fit_predict(away)
    assert len(set(found)) >= 2
