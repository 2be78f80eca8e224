"""Inputs, and orders of calls, that once went wrong."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, time, timedelta
from enum import Enum
from html import unescape
from threading import Barrier

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from matplotlib.dates import num2date
from scipy.spatial.distance import squareform
from sklearn.cluster import DBSCAN
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info

import kernelforest
from kernelforest import ForestKernel, KernelForestClassifier, TuningWarning
from kernelforest.analytic import Ruler, average_profiles, fit_cuts, fit_naive, mean_kernel
from kernelforest.cli import main
from kernelforest.datasets import DatasetUnavailable, load_dataset
from kernelforest.displays import (
    BandwidthPathDisplay,
    DerivativeImportanceDisplay,
    DerivativesDisplay,
    LevelSetsDisplay,
    ProfileDisplay,
    ReliabilityDisplay,
    SharpnessDisplay,
    SurfaceDisplay,
    VotingPointsDisplay,
)
from kernelforest.labels import read_class_weight, read_groups, read_labels
from kernelforest.naive import poisson_kernel
from kernelforest.outofbag import classic
from kernelforest.regression import KernelRegression
from kernelforest.reliability import reliability
from kernelforest.scoring import mean_and_error
from kernelforest.threads import in_threads
from kernelforest.uses import prototypes

RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 3))
Y = (X[:, 0] + RNG.normal(size=150) > 0).astype(int)
NEW = RNG.normal(size=(40, 3))


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


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


def test_a_fit_that_is_interrupted_leaves_no_model(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    model = small(calibration="sigmoid")
    monkeypatch.setattr("kernelforest.estimators.fit_calibration", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
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
        (pd.DataFrame({"a": [time(i % 24) for i in range(150)]}), ValueError, "must hold numbers"),
        ({"a": X[:, 0].tolist()}, TypeError, "must hold numbers"),
        (
            pl.DataFrame({"a": X[:, 0], "t": [time(i % 24) for i in range(150)]}),
            ValueError,
            "column 't' of X must hold numbers",
        ),
        (pa.table({"a": X[:, 0]}), TypeError, "call X.to_pandas"),
        (pd.DataFrame(index=range(150)), ValueError, "at least one column"),
        (pd.DataFrame({"a": ["b", [1]] * 75}), TypeError, "column 'a' of X must hold text, numbers or dates"),
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


def test_columns_of_the_same_ranks_may_change_places():
    z = RNG.normal(size=200)
    hit = (z + RNG.normal(size=200) > 0).astype(int)
    table = np.column_stack((z, np.exp(2 * z), RNG.normal(size=200)))
    for splitter in ("extra", "random"):
        one, other = (
            small(splitter=splitter).fit(table[:, c], hit).predict_proba(table[:, c]) for c in ([0, 1, 2], [1, 0, 2])
        )
        np.testing.assert_array_equal(one, other)
    codes = RNG.integers(0, 4, 200)
    frame = pd.DataFrame({"code": codes, "name": pd.Categorical.from_codes(codes, list("abcd")), "x": z})
    one, other = (small().fit(frame[list(c)], hit).predict_proba(frame[list(c)]) for c in (frame, ["name", "code", "x"]))
    np.testing.assert_array_equal(one, other)


def test_scores_refer_to_the_population_that_the_prior_names():
    noise = RNG.normal(size=(300, 3))
    hit = np.arange(300) % 2
    plain = KernelForestClassifier(100, random_state=0).fit(noise, hit)
    rare = KernelForestClassifier(100, prior=[0.99, 0.01], random_state=0).fit(noise, hit)
    assert plain.oob_score_.log_loss == pytest.approx(np.log(2), abs=0.05)
    assert rare.oob_score_.log_loss == pytest.approx(-0.99 * np.log(0.99) - 0.01 * np.log(0.01), abs=0.02)
    assert rare.oob_score_.error == pytest.approx(0.01, abs=0.005)


def test_a_prior_with_an_unknown_class_is_refused():
    with pytest.raises(ValueError, match=r"prior must name classes of y, got 5"):
        KernelForestClassifier(prior={0: 0.3, 1: 0.7, 5: 0.5}).fit(X, Y)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [slice(0, 1), slice(None)])
def test_a_summary_without_out_of_bag_rows_says_so(rows, capsys):
    small().fit(X[rows], Y[rows], groups=np.zeros(len(Y[rows]))).summary()
    assert "nothing can be scored" in capsys.readouterr().out


def test_a_calibration_that_cannot_be_done_is_not_claimed(capsys):
    with pytest.warns(UserWarning, match=r"calibration='isotonic' is not done, because no row was left out by a tree"):
        small(calibration="isotonic").fit(X, Y, groups=np.zeros(len(Y)))
    with pytest.warns(
        UserWarning, match=r"calibration='beta' is not done, because rows that trees left out have one class only"
    ):
        model = small(calibration="beta").fit(X, np.zeros(len(Y)))
    model.summary()
    assert "not calibrated" in capsys.readouterr().out


def test_a_summary_tells_of_the_fit_and_not_of_parameters_set_since(capsys):
    model = KernelForestClassifier(60, random_state=0).fit(X, Y)
    model.summary()
    before = capsys.readouterr().out
    model.set_params(n_estimators=7, scoring="brier").summary()
    assert capsys.readouterr().out == before


@pytest.mark.filterwarnings("ignore")
def test_rows_that_every_tree_drew_get_the_class_shares():
    model = KernelForestClassifier(5, calibration="sigmoid", random_state=0).fit(X, Y)
    drawn = (model.inbag_counts_ > 0).all(axis=1)
    assert drawn.any()
    np.testing.assert_array_equal(model.oob_proba_[drawn], np.tile(np.bincount(Y) / len(Y), (drawn.sum(), 1)))


def test_weights_of_a_reliability_diagram_are_checked():
    bad = [
        ([-1.0, 2.0], "weight must be >= 0, got -1.0 at row 0"),
        ([np.nan, 2.0], "weight must be finite, got nan at row 0"),
        ([0.0, 0.0], "weight must have a positive entry, got zeros only"),
        ([1.0, 1.0, 1.0], r"weight must have shape \(2,\), got \(3,\)"),
    ]
    for weight, message in bad:
        with pytest.raises(ValueError, match=message):
            ReliabilityDisplay.from_predictions([0.2, 0.4], [0, 1], weight)
        with pytest.raises(ValueError, match=message):
            SharpnessDisplay.from_predictions([0.2, 0.4], weight=weight)


DAYS = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(150) * 7 % 365, unit="D"))


@pytest.mark.parametrize(
    "dates",
    [
        DAYS.dt.tz_localize("UTC"),
        DAYS.astype(pd.ArrowDtype(pa.timestamp("us"))),
        DAYS.dt.tz_localize("UTC").astype(pd.ArrowDtype(pa.timestamp("us", tz="UTC"))),
        DAYS.dt.date.astype(pd.ArrowDtype(pa.date32())),
        DAYS.dt.date.astype(object),
        pd.Series(list(DAYS), dtype=object),
        DAYS.dt.to_period("D"),
    ],
    ids=lambda dates: str(dates.dtype),
)
def test_a_date_is_a_date_however_a_frame_keeps_it(dates):
    expected = small().fit(pd.DataFrame({"day": DAYS}), Y).predict_proba(pd.DataFrame({"day": DAYS}))
    frame = pd.DataFrame({"day": dates})
    np.testing.assert_array_equal(small().fit(frame, Y).predict_proba(frame), expected)
    frame.loc[3, "day"] = None
    assert np.isnan(small().fit(frame, Y)._matrix(frame)[3, 0])


@pytest.mark.parametrize("kind", [pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_text_of_arrow_is_a_category(kind):
    text = pd.Series(np.array(["no", "yes"])[Y])
    frame = pd.DataFrame({"said": text.astype(pd.ArrowDtype(kind))})
    assert list(small().fit(frame, Y)._schema.levels) == [0]


def test_a_missing_value_of_pandas_among_numbers_is_missing_at_prediction():
    model = small().fit(pd.DataFrame(X), Y)
    frame = pd.DataFrame(NEW).astype(object)
    frame.iloc[0, 1] = pd.NA
    filled = NEW.copy()
    filled[0, 1] = np.nan
    np.testing.assert_array_equal(model.predict_proba(frame), model.predict_proba(filled))


def test_sparse_columns_of_a_frame_are_refused_with_what_to_do():
    with pytest.raises(TypeError, match=r"got sparse columns; call X\.sparse\.to_dense\(\)"):
        small().fit(pd.DataFrame({"x": pd.arrays.SparseArray(X[:, 0])}), Y)


def test_a_masked_array_of_text_has_missing_categories():
    text = np.ma.array(np.array(["no", "yes"])[Y][:, None], mask=np.arange(150)[:, None] % 10 == 0)
    model = small(categorical_features=[0]).fit(text, Y)
    assert np.isnan(model._matrix(text)[::10]).all()


def test_a_category_of_which_no_value_is_known_gives_a_warning():
    frame = pd.DataFrame({"said": pd.Categorical(Y), "x": X[:, 0]})
    model = small().fit(frame, Y)
    with pytest.warns(UserWarning, match="no value of column 'said' was seen in fit"):
        model.predict_proba(frame.assign(said=frame["said"].astype(str).astype("category")))
    model.predict_proba(frame.assign(said=pd.Categorical([np.nan] * 150)))  # missing is no other type


def test_probabilities_that_are_all_the_same_are_not_calibrated_by_rounding():
    model = KernelForestClassifier(60, max_samples=1, random_state=0).fit(X, Y)
    assert model.calibration_.method in (None, "sigmoid")


def test_balanced_classes_are_balanced_by_weight():
    weight = np.where(Y == 1, 3.0, 1.0)
    shares = [np.bincount(Y, weight).tolist(), np.bincount(Y).tolist()]
    weighted, plain = (read_class_weight("balanced", read_labels(Y), w) for w in (weight, None))
    assert weighted[1] / weighted[0] == pytest.approx(shares[0][0] / shares[0][1])
    assert plain[1] / plain[0] == pytest.approx(shares[1][0] / shares[1][1])
    assert np.isfinite(read_class_weight("balanced", read_labels(Y), (Y == 1).astype(float))).all()


def test_no_threads_are_refused_in_our_words():
    with pytest.raises(ValueError, match="n_jobs must be None or an integer other than 0"):
        small(n_jobs=0).fit(X, Y)


def test_a_category_does_not_change_how_well_a_naive_forest_fits():
    frame = pd.DataFrame(X, columns=list("abc")).assign(**{name: pd.Categorical(RNG.integers(0, 3, 150)) for name in "def"})
    kernel = small(max_features=1).fit(frame, Y).kernel_
    found, training = fit_naive(kernel, frame[:20]), kernel._training
    rulers = [Ruler(np.sort(column), "range") for column in training.matrix().T]
    profile, count = average_profiles(training, training.matrix()[:20], rulers, found.u)
    assert np.isnan(found.weights).tolist() == [False] * 3 + [True] * 3
    assert found.r2 == pytest.approx(fit_cuts(found.u, profile[:3], count[:3])[1])


# ---- what belongs to the user stays the user's ----


def test_a_fitted_model_does_not_depend_on_arrays_of_the_user():
    weight = RNG.uniform(0.5, 2.0, 150)
    rules = {"fill": "all", "leaf_size": 20, "random_state": 0}
    kept, given = weight.copy(), weight.copy()
    models = [KernelForestClassifier.untuned(30, **rules).fit(X, Y, w) for w in (kept, given)]
    given[:] = np.where(Y == 1, 9.0, 0.1)
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))
    np.testing.assert_array_equal(*(model.oob_proba_ for model in models))
    models[1].oob_proba_[:] = 0.5
    assert models[0].oob_score_ == models[1].oob_score_


@pytest.mark.parametrize("change", ["weights", "rows"])
def test_a_smoother_does_not_depend_on_arrays_of_the_user(change):
    rows, weights = X.copy(), np.ones(3)
    model = KernelRegression(weights=weights) if change == "weights" else KernelRegression(laplacian_kernel)
    before = model.fit(rows, Y).predict_proba(X)
    (weights if change == "weights" else rows)[:] = 0.0
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_the_scale_of_a_column_does_not_matter_however_small_or_large():
    scaled = X * [1.0, 1e-170, 1e170]
    model = KernelRegression(weights="scale", bandwidth=0.5)
    same, moved = (model.fit(table, Y).predict_proba(table) for table in (X, scaled))
    np.testing.assert_allclose(moved, same, rtol=1e-9)


def test_a_prior_of_pandas_is_read_by_its_labels():
    y = np.where(X[:, 0] > -1.0, "well", "sick")
    shares = pd.Series(y).value_counts(normalize=True)
    assert shares.index.tolist() == ["well", "sick"]
    plain, same = (small(prior=prior).fit(X, y).predict_proba(X) for prior in (None, shares))
    np.testing.assert_allclose(same, plain, atol=1e-12)
    with pytest.raises(ValueError, match="prior must name classes of y, got 0"):
        small(prior=pd.Series([0.3, 0.7])).fit(X, y)


def test_categories_that_are_booleans_stay_booleans():
    assert small().fit(X, pd.Series(Y == 1).astype("category")).classes_.tolist() == [False, True]


def test_rows_of_weight_zero_are_calibrated_out_of_bag():
    weight = np.where(np.arange(150) < 30, 0.0, 1.0)
    model = KernelForestClassifier(60, calibration="sigmoid", random_state=0).fit(X, Y, weight)
    np.testing.assert_allclose(model.oob_proba_[:30], model.predict_proba(X[:30]), rtol=1e-9)


def test_a_row_with_a_gap_has_no_place_among_voting_points():
    frame = pd.DataFrame(X, columns=list("abc")).assign(word=RNG.choice(list("xyz"), 150))[["word", "a", "b", "c"]]
    frame.loc[::5, ["b", "c"]] = np.nan
    kernel = small().fit(frame, Y).kernel_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = VotingPointsDisplay.from_kernel(kernel, frame[1:2], features=("a", "b")).plot()
        shown.figure_.canvas.draw()
    assert sum(len(dots.get_offsets()) for dots in shown.ax_.collections) == 120


def test_level_sets_choose_two_features_that_are_numbers():
    frame = pd.DataFrame({"word": RNG.choice(list("xyz"), 150), "a": X[:, 0], "b": X[:, 1]})
    frame.loc[0, "b"] = np.nan
    shown = LevelSetsDisplay.from_kernel(small().fit(frame, Y).kernel_, frame[:1])
    assert set(shown.sets.names) == {"a", "b"}


def test_a_weight_that_is_masked_is_refused():
    with pytest.raises(ValueError, match="sample_weight must be finite, got nan at row 2"):
        small().fit(X, Y, np.ma.array(np.ones(150), mask=np.arange(150) == 2))


@pytest.mark.parametrize(
    ("p", "hit", "bins", "law"),
    [
        ([0.2, 0.3], [1, 2], 2, "hit must be 2 times 0 or 1"),
        ([0.2, 0.3], [0.0, 0.9], 2, "hit must be 2 times 0 or 1"),
        ([0.2, 1.3], [0, 1], 2, "p must be from 0 to 1, got values from 0.2 to 1.3"),
        ([0.2, 0.3], [0, 1], 2.5, "bins must be an integer >= 1"),
    ],
)
def test_reliability_refuses_what_is_no_probability_or_hit(p, hit, bins, law):
    with pytest.raises(ValueError, match=law):
        reliability(p, hit, bins=bins)


def test_rows_of_weight_zero_and_groups_without_rows_are_no_observations():
    values = np.array([1.0, 3.0, 5.0, 6.0])
    assert mean_and_error(values, np.array([0.0, 1, 1, 1])) == mean_and_error(values[1:], np.ones(3))
    pairs = (mean_and_error(values, np.ones(4), np.array(groups)) for groups in ([0, 0, 9, 9], [0, 0, 1, 1]))
    assert next(pairs) == next(pairs)
    assert mean_and_error(values[:2], np.array([0.0, 1.0]))[1] == np.inf


def test_naive_kernels_are_right_up_to_the_largest_forest_that_is_allowed():
    assert poisson_kernel([0.0], 1, 0, 1, 10**30) == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match="M must be an integer from 1 to 10"):
        poisson_kernel([0.0], 1, 0, 1, 10**50)
    assert mean_kernel(np.array([0.0]), 1.0) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="cuts must be from 0 to 80, got 200"):
        mean_kernel(np.array([0.5]), 200.0)


def test_a_misspelt_name_of_the_package_is_no_attribute():
    with pytest.raises(AttributeError, match="has no attribute 'KernelForestClasifier'"):
        kernelforest.KernelForestClasifier  # noqa: B018


def test_a_file_that_cannot_be_read_is_a_data_set_that_is_not_there(tmp_path, monkeypatch):
    (tmp_path / "tic.csv").touch()
    monkeypatch.setenv("KERNELFOREST_DATA", str(tmp_path))

    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(DatasetUnavailable, match=r"tic\.csv cannot be read: Permission denied"):
        load_dataset("tic")


def test_a_report_says_what_it_needs_for_drawing(tmp_path, monkeypatch, capsys):
    assert main(["paper", "run", "naive-weights", "--quick", "--out", str(tmp_path)]) == 0
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["paper", "report", "--out", str(tmp_path)]) == 1
    assert "drawing the report needs matplotlib" in capsys.readouterr().err


def test_threads_within_threads_do_not_wait_for_each_other():
    code = """
import numpy as np
from kernelforest import KernelForestClassifier
from kernelforest.threads import in_threads
inner = lambda i: sum(in_threads(lambda j: i * j, range(3), 3))
assert list(in_threads(inner, range(3), 3)) == [0, 3, 6]
X = np.random.default_rng(0).normal(size=(300, 1))
KernelForestClassifier(40, n_jobs=4, random_state=0).fit(X, X[:, 0] > 0)  # two ways to grow, on two threads each
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_lazy_table_is_named_in_predict():
    lazy = pl.DataFrame({"a": X[:, 0]}).lazy()
    with pytest.raises(TypeError, match=r"call X\.collect"):
        small().fit(X[:, :1], Y).predict_proba(lazy)


def test_other_columns_than_in_fit_are_named_in_predict():
    frame = pd.DataFrame({"when": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(150), "D"), "a": X[:, 0]})
    model = small().fit(frame, Y)
    with pytest.raises(ValueError, match=r"column 'when' of X must hold dates, as in training, .* got '01\.01\.2024'"):
        model.predict_proba(frame.assign(when=frame["when"].dt.strftime("%d.%m.%Y")))


def test_the_out_of_bag_error_is_that_of_predictions():
    model = small(class_weight={0: 1.0, 1: 5.0}).fit(X, Y)
    preferred = np.argmax(model.oob_proba_ * [1.0, 5.0], axis=1)
    assert model.oob_score_.error == pytest.approx((preferred != Y).mean())
    assert model.oob_score_.error != pytest.approx((model.oob_proba_.argmax(axis=1) != Y).mean())


def test_nothing_is_scored_where_the_rows_that_were_left_out_do_not_count(capsys):
    halves = np.arange(150) // 75
    model = small().fit(X, Y, (halves == 0).astype(float), groups=halves)
    with pytest.warns(UserWarning, match="drawn by every tree"):
        model.summary()
    assert "nothing can be scored" in capsys.readouterr().out


def test_columns_of_voting_points_keep_their_names_apart():
    frame = pd.DataFrame(X, columns=["feature weight", "weight", "c"])
    points = small().fit(frame, Y).kernel_.voting_points(frame.iloc[[0]]).frame()
    assert list(points)[4:] == ["feature weight", "feature feature weight", "c"]
    np.testing.assert_array_equal(points["feature feature weight"], frame["weight"].iloc[points["row"]])


def test_columns_of_prototypes_keep_their_names_apart():
    frame = pd.DataFrame(X, columns=["feature row", "row", "c"])
    found = prototypes(small().fit(frame, Y).kernel_)
    assert list(found.frame())[4:] == ["feature row", "feature feature row", "c"]
    np.testing.assert_array_equal(found.frame()["feature row"], found.typical[:, 0])


def test_rows_of_weight_zero_are_in_no_bag():
    weight = np.arange(150) > 0
    model = small(bootstrap=False).fit(X, Y, weight.astype(float))
    inbag = model.kernel_.matrix(kind="inbag", dense=True)
    assert not inbag[:, 0].any()
    assert inbag[0, 1:].any()


@pytest.mark.parametrize("bootstrap", [False, True])
def test_labels_that_are_not_those_of_the_trees_are_noticed(bootstrap):
    forest = RandomForestClassifier(10, bootstrap=bootstrap, random_state=0).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ForestKernel.from_model(forest, X, Y)
    with pytest.warns(UserWarning, match="grown with other labels than y_train"):
        ForestKernel.from_model(forest, X, Y[::-1])


def test_pictures_show_the_base_rate_they_name():
    picture = SharpnessDisplay.from_predictions([0.01, 0.02, 0.1], base_rate=0.9).plot()
    low, high = picture.ax_.get_xlim()
    assert low <= 0.01 < 0.9 < high
    with pytest.raises(ValueError, match="base_rate must be a number from 0 to 1"):
        SharpnessDisplay.from_predictions([0.1], base_rate="x")


def test_pictures_refuse_other_models():
    with pytest.raises(TypeError, match="model must be a KernelForestClassifier, got RandomForestClassifier"):
        ReliabilityDisplay.from_model(RandomForestClassifier(5).fit(X, Y))


@pytest.mark.parametrize("values", [list("ab") * 75, np.ones(150) * 1j, np.ones(150, "M8[D]"), [["a", 1.0]] * 150])
def test_only_numbers_are_averaged(values):
    kernel = KernelForestClassifier.untuned(3, random_state=0).fit(X, Y).kernel_
    with pytest.raises(ValueError, match="values must be numbers, one or several per training row"):
        kernel.average(X[:5], values)
    numbers = np.arange(150)
    expected = kernel.average(X[:5], numbers.astype(float))
    for given in (numbers.tolist(), numbers.astype(object), pd.Series(numbers, dtype="Int64"), numbers.astype(np.float32)):
        np.testing.assert_array_equal(kernel.average(X[:5], given), expected)


def test_a_report_of_a_folder_that_is_not_there(tmp_path, capsys):
    assert main(["paper", "report", "--out", str(tmp_path / "typo")]) == 1
    assert "must be a folder with results" in capsys.readouterr().err
    assert not (tmp_path / "typo").exists()


def test_level_sets_are_of_two_features():
    with pytest.raises(ValueError, match="features must name two features, got 0"):
        small().fit(X, Y).kernel_.level_sets(X[0], 0)


def test_voting_points_show_levels_and_dates_as_they_were():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(150), "D")
    frame = pd.DataFrame({"when": days, "kind": np.where(X[:, 0] > 0, "hi", "lo"), "long": days - days[0], "a": X[:, 1]})
    frame.loc[5, "kind"], frame.loc[6, "when"] = None, pd.NaT
    frame["day"] = frame["when"].dt.date
    points = small().fit(frame, Y).kernel_.voting_points(frame.iloc[[3]]).frame()
    expected = frame.iloc[points["row"]].reset_index(drop=True)
    for name in ("when", "long", "a"):
        np.testing.assert_array_equal(points[name].to_numpy(), expected[name].to_numpy())
    assert points["kind"].fillna("gap").tolist() == expected["kind"].fillna("gap").tolist()
    np.testing.assert_array_equal(points["day"].to_numpy(), expected["day"].to_numpy(dtype="datetime64[us]"))


def test_work_of_several_threads_that_hands_out_work_is_done_side_by_side():
    all_four = Barrier(4, timeout=30)  # breaks, unless they are at work at once
    list(in_threads(lambda _: list(in_threads(lambda _: all_four.wait(), range(2), 2)), range(2), 2))
    assert not all_four.broken


def test_smoothing_in_several_threads_leaves_the_threads_of_blas_as_they_were(monkeypatch):
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    monkeypatch.setattr("kernelforest.smoothing._BLOCK", 1_000)  # many blocks of work
    model = KernelRegression(bandwidth=0.5, n_jobs=2).fit(X, Y)
    model.predict_proba(NEW)  # loads what it needs
    before = threads()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: model.predict_proba(NEW), range(40)))
    assert threads() == before


@pytest.mark.parametrize("make", [np.array, pd.Series, pl.Series])
def test_classes_may_be_dates(make):
    labels = make(np.array(["2020-01-02", "2021-03-04"], "datetime64[ns]")[Y])
    model = small(prior=[0.2, 0.8]).fit(X, labels)
    np.testing.assert_array_equal(model.classes_, np.array(["2020-01-02", "2021-03-04"], "datetime64[us]"))
    assert str(model.kernel_.explain(X[0], label=model.classes_.tolist()[0])).startswith("p(2020-01-02")
    assert model.score(X, np.asarray(labels)) > 0.8


def test_classes_of_another_kind_are_named():
    answers = list(Enum("Answer", "no yes"))  # cannot be sorted
    days = [date(2020, 1, 1 + k) for k in Y]
    for labels, kind in ((pd.cut(X[:, 0], 2), "Interval"), (days, "date"), ([answers[k] for k in Y], "Answer")):
        with pytest.raises(ValueError, match=f"y must hold text, numbers, booleans or dates of numpy .* got {kind}"):
            small().fit(X, labels)


def test_an_array_of_dates_shows_dates():
    days = np.datetime64("2024-01-01") + (100 * X).astype("timedelta64[D]")
    points = small().fit(days, Y).kernel_.voting_points(days[0]).frame()
    np.testing.assert_array_equal(points["x0"].to_numpy(), days[points["row"].to_numpy(), 0])


def test_with_a_number_of_leaves_the_leaf_size_is_not_open():
    fixed = {"max_features": 1, "splitter": "best", "aggregate": "mean", "fill": "inbag", "calibration": None}
    model = KernelForestClassifier(5, max_leaf_nodes=4, bootstrap=False, random_state=0, **fixed).fit(X[:8], Y[:8])
    assert model.leaf_size_ == 1


def test_unknown_levels_are_warned_of_where_the_user_asks():
    frame = pd.DataFrame({"kind": pd.Categorical(np.where(Y, "u", "v")), "x": X[:, 0]})
    model, other = small().fit(frame, Y), frame.assign(kind=pd.Categorical(["w"] * 150))
    for ask in (model.predict, model.predict_log_proba, model.kernel_.matrix):
        with pytest.warns(UserWarning, match="no value of column 'kind' was seen in fit") as caught:
            ask(other)
        assert caught[0].filename == __file__


def test_the_unit_of_weights_does_not_matter():
    for rules in ({"aggregate": "vote", "leaf_size": 20}, {"class_weight": "balanced"}):
        plain, tenths = (small(**rules).fit(X.round(1), Y, w).predict_proba(NEW) for w in (None, np.full(150, 0.1)))
        np.testing.assert_array_equal(plain, tenths)


@pytest.mark.parametrize("weight", [["a"] * 150, np.ones(150) * 1j, np.full(150, "2024-01-01", "datetime64[D]")])
def test_weights_are_numbers(weight):
    with pytest.raises(ValueError, match="sample_weight must be numbers, got dtype"):
        small().fit(X, Y, weight)


def test_a_list_of_lists_names_no_columns():
    with pytest.raises(ValueError, match="categorical_features must be 'from_dtype', None or a list of columns"):
        small(categorical_features=[[0, 1]]).fit(X, Y)


def test_an_explanation_is_on_the_same_step_of_a_map_as_the_prediction():
    model = small(n_estimators=100, leaf_size=1, calibration="venn-abers").fit(X, Y)
    told = [model.kernel_.explain(x).corrected for x in X]
    np.testing.assert_allclose(told, model.predict_proba(X)[:, 1], atol=1e-9)


@pytest.mark.parametrize("n", [60, 400])
def test_one_row_of_a_class_does_not_make_the_others_impossible(n):
    rows, y = np.random.default_rng(0).normal(size=(n, 4)), np.arange(n) == 7
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TuningWarning)
        model = KernelForestClassifier(100, random_state=0).fit(rows, y)
    assert any("rows of class 'True' (1)" in str(warning.message) for warning in caught)
    assert model.predict_proba(NEW @ np.ones((3, 4)))[:, 1].min() > 0.0
    assert model.oob_score_.log_loss < 12.0 / n  # an exact zero would cost 36 / n


def test_what_was_chosen_has_a_short_name():
    model = KernelForestClassifier(60, random_state=0, calibration="venn-abers").fit(X, Y)
    assert len(repr(model.tuning_)) < 300
    assert f"max_features={model.max_features_}, leaf_size={model.leaf_size_}" in repr(model.tuning_)
    assert repr(model.calibration_) == "Chosen(method='venn-abers', scoring='log_loss', 0 candidates)"


def test_pictures_refuse_a_pipeline():
    model = make_pipeline(StandardScaler(), KernelForestClassifier(60, random_state=0)).fit(X, Y)
    for display in (BandwidthPathDisplay, SurfaceDisplay, ReliabilityDisplay, SharpnessDisplay):
        with pytest.raises(TypeError, match="model must be a KernelForestClassifier, got Pipeline; of a pipeline give"):
            display.from_model(model)


def test_exact_zeros_are_no_merit_of_tuning_and_no_fault_of_this_forest(capsys):
    model = KernelForestClassifier(60, random_state=0).fit(X, np.where(np.arange(150) == 3, 1 - Y, X[:, 0] > 0).astype(int))
    found = classic(model.forest_, threads=1)
    own = found.proba[np.arange(150), model.forest_.targets.labels]
    assert (own == 0).any()
    expected = -np.log(np.where(own == 0, 0.5 / 150, own)).mean()
    assert found.scores(model.forest_, model._population, 0.5 / 150).log_loss == pytest.approx(expected)
    plain = KernelForestClassifier.untuned(60, random_state=0).fit(X, Y)
    plain.summary()
    lines = capsys.readouterr().out.splitlines()
    mine, untuned = (next(line for line in lines if line.startswith(name)) for name in ("this forest", "untuned forest"))
    assert mine.split()[2:] == untuned.split()[2:]  # they are the same forest
    assert lines[-1] == f"Exact zeros count as half a row; as they are, log loss is {plain.oob_score_.log_loss:.4f}."


def test_a_summary_changes_nothing_but_exact_zeros(capsys):
    wine = KernelForestClassifier(200, random_state=0).fit(*load_wine(return_X_y=True))
    weighed = KernelForestClassifier.untuned(200, random_state=0, class_weight={0: 1, 1: 500}).fit(
        X, (X[:, 0] > 0).astype(int)
    )
    for model in (wine, weighed):
        model.summary()
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("this forest"))
        loss, *others = map(float, line.split()[2:])
        assert others == pytest.approx(model.oob_score_[1:], abs=6e-5)
        if model is wine:  # many small numbers, but no zeros
            assert model.oob_proba_.min() < 0.5 / len(model.oob_proba_)
            assert loss == pytest.approx(model.oob_score_.log_loss, abs=6e-5)


def test_a_summary_leaves_out_an_untuned_forest_that_cannot_be_scored(capsys):
    rows, labels = [[0.0], [1.0], [2.0]], [0, 1, 1]
    warnings.simplefilter("ignore")  # of rows that one tree drew
    for seed in range(20):  # one tree of three draws may draw all rows; this one draws one
        KernelForestClassifier.untuned(1, max_samples=1, random_state=seed).fit(rows, labels).summary()
    assert 0 < capsys.readouterr().out.count("untuned forest") < 20


def test_the_warning_of_few_trees_counts_those_that_leave_a_row_out():
    with pytest.warns(TuningWarning, match=r"leaves a row about 1 out-of-bag trees.*: use a smaller max_samples"):
        KernelForestClassifier(60, random_state=0, bootstrap=False, max_samples=0.99).fit(X, Y)
    with pytest.warns(TuningWarning, match=r"n_estimators=600 leaves a row about 8 .* those that decide"):  # of 250
        KernelForestClassifier(600, random_state=0, bootstrap=False, max_samples=0.97).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelForestClassifier(40, random_state=0, max_samples=0.1).fit(X, Y)


def test_rare_classes_are_counted_in_groups_and_few_rows_by_their_weights():
    rows, group = RNG.normal(size=(400, 3)), np.arange(400) // 10
    with pytest.warns(TuningWarning, match=r"fewer than 3 groups with rows of class '1' \(1\)"):
        KernelForestClassifier(60, random_state=0).fit(rows, (group == 7).astype(int), groups=group)
    weight = np.where(np.arange(150) < 15, 1.0, 1e-4)
    with pytest.warns(TuningWarning, match="of 150 rows, which by their weights count as 15, are noisy"):
        KernelForestClassifier(60, random_state=0).fit(X, Y, weight)
    with pytest.warns(TuningWarning, match="of 40 groups, which by their weights count as 4, are noisy"):
        KernelForestClassifier(60, random_state=0).fit(
            rows, np.arange(400) % 2, np.where(group < 4, 1.0, 1e-9), groups=group
        )


def test_scores_of_candidates_count_exact_zeros_as_half_a_row():
    how = {"random_state": 3, "splitter": "best", "aggregate": "mean", "fill": "inbag", "calibration": None}
    noisy = np.where(np.arange(150) % 9 == 0, 1 - Y, Y)
    frame = KernelForestClassifier(120, max_features=2, **how).fit(X, noisy).tuning_.frame()
    assert (frame.n_trees == 60).all()
    same = KernelForestClassifier(60, max_features=2, leaf_size=1, **how).fit(X, noisy)
    own = same.oob_proba_[np.arange(150), noisy].clip(0.5 / 150)
    assert frame.score[frame.leaf_size == 1].item() == pytest.approx(-np.log(own).mean(), rel=1e-3)
    assert own.min() == 0.5 / 150  # or nothing was tested


def test_dates_in_lists_and_arrays_need_no_preparation():
    days = [datetime(2020, 1, 1) + timedelta(days=int(i)) for i in range(150)]
    rows = [[None if i == 5 else day, float(i % 7)] for i, day in enumerate(days)]
    late = [i > 80 for i in range(150)]
    model = KernelForestClassifier.untuned(30, random_state=0).fit(rows, late)
    frame = pd.DataFrame({"x0": pd.to_datetime(days).where(np.arange(150) != 5), "x1": np.arange(150) % 7.0})
    expected = KernelForestClassifier.untuned(30, random_state=0).fit(frame.set_axis(["x0", "x1"], axis=1), late)
    np.testing.assert_array_equal(model.predict_proba(rows), expected.predict_proba(frame))
    np.testing.assert_array_equal(model.predict_proba(frame.to_numpy()), model.predict_proba(rows))
    assert model.kernel_.voting_points(rows[3]).frame()["x0"].dtype.kind == "M"
    late_date = [[None, 0.0]] * 1500 + rows[:1]
    np.testing.assert_array_equal(model.predict_proba(late_date)[-1], model.predict_proba(rows[:1])[0])
    for unit in ("D", "us", "ns"):
        mine = [[np.datetime64(row[0], "us").astype(f"M8[{unit}]"), row[1]] for row in rows]
        np.testing.assert_array_equal(model.predict_proba(mine), model.predict_proba(rows))
        array = np.array(days, f"M8[{unit}]")[:, None]
        alone = KernelForestClassifier.untuned(30, random_state=0).fit(array, late)
        np.testing.assert_array_equal(alone.predict_proba(list(array)), alone.predict_proba(array))
    with pytest.raises(ValueError, match="name columns of text in categorical_features"):
        KernelForestClassifier.untuned(5).fit([["a", 1.0], ["b", 2.0]], [0, 1])


def test_a_fit_that_fails_leaves_nothing_of_the_one_before():
    with sklearn.config_context(enable_metadata_routing=True):
        model = KernelForestClassifier(60, random_state=0).set_fit_request(groups=True).fit(X, Y)
    assert model.oob_score_.log_loss > 0
    assert model.kernel_.n_rows == 150
    with pytest.raises(ValueError, match="as many rows"):
        model.fit(X, Y[:5])
    model.note_ = "mine"
    with pytest.raises(ValueError, match="as many rows"):
        model.fit(X, Y[:5])
    assert vars(model).pop("note_") == "mine"  # not ours to delete
    left = set(vars(model)) - set(model.get_params())
    assert left == {"_metadata_request", "_schema", "n_features_in_"}  # what was asked for, and what the new table told


def test_max_features_none_is_told_the_words_there_are():
    with pytest.raises(TypeError, match=r"'auto' or one of \['all', 'sqrt', 'third'\], got None"):
        KernelForestClassifier(max_features=None).fit(X, Y)


def test_steps_may_be_durations():
    frame = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=150), "b": X[:, 1]})
    kernel = KernelForestClassifier.untuned(20, random_state=0).fit(frame, np.arange(150) > 80).kernel_
    day = 24 * 3600 * 1e6
    expected = kernel.derivatives(frame[3:4], h=[day, 0.1])
    for step in (timedelta(days=1), pd.Timedelta("1D"), np.timedelta64(1, "D")):
        found = kernel.derivatives(frame[3:4], h=[step, 0.1])
        np.testing.assert_array_equal(found.h, [day, 0.1])
        np.testing.assert_array_equal(found.right, expected.right)
    kinds = np.array([1, 2], "m8[D]"), pd.Series(pd.to_timedelta([1, 2], unit="D")), np.array([timedelta(1), timedelta(2)])
    for steps in kinds:
        np.testing.assert_array_equal(kernel.derivatives(frame[3:4], h=steps).h, [day, 2 * day])
    for wrong in (
        timedelta(days=1),
        np.timedelta64(1, "D"),
        np.array(1, "m8[D]"),
        [np.timedelta64("NaT"), 1.0],
        ["1D", 1.0],
    ):
        with pytest.raises(ValueError, match="h must be"):
            kernel.derivatives(frame[3:4], h=wrong)


DATES = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=150), "b": X[:, 1]})


def test_a_profile_along_dates_is_asked_by_durations():
    kernel = KernelForestClassifier.untuned(20, random_state=0).fit(DATES, np.arange(150) > 80).kernel_
    profile, days = kernel.profile(DATES[40:41], "when"), np.array([-30, 0, 30, 60])
    expected = profile.at(days * 86_400e6)
    assert expected[1] == 1.0 > expected[3]
    for steps in (days.astype("m8[D]"), pd.to_timedelta(days, unit="D"), [timedelta(int(day)) for day in days]):
        np.testing.assert_array_equal(profile.at(steps), expected)
    for step in (timedelta(60), pd.Timedelta("60D"), np.timedelta64(60, "D")):
        assert profile.at(step) == expected[3]
    for wrong in (pd.Timestamp("2020-02-01"), np.timedelta64("NaT"), "60 days", [[1.0], [2.0, 3.0]]):
        with pytest.raises(ValueError, match="h must be"):
            profile.at(wrong)


@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_a_grid_may_be_dates(zone):
    frame = DATES.assign(when=DATES["when"].dt.tz_localize(zone))
    kernel = KernelForestClassifier.untuned(20, random_state=0).fit(frame, np.arange(150) > 80).kernel_
    x, b = pd.date_range("2020-03-01", periods=5, freq="10D", tz=zone), [-1.0, 0.0, 1.0]
    seconds = np.array([date.timestamp() for date in x])
    expected = kernel.level_sets(frame[40:41], ("when", "b"), (1e6 * seconds, b))
    assert expected.k.min() < expected.k.max()
    grids = [x, x.to_series(), list(x), x.to_pydatetime()]
    grids += [] if zone else [x.to_numpy().astype("M8[D]"), x.to_numpy().astype("M8[ns]"), [day.date() for day in x]]
    for grid in grids:
        found = kernel.level_sets(frame[40:41], ("when", "b"), (grid, b))
        np.testing.assert_array_equal(found.x, expected.x)
        np.testing.assert_array_equal(found.k, expected.k)
    with pytest.raises(ValueError, match="grid must hold numbers of feature 'b', got dates"):
        kernel.level_sets(frame[40:41], ("when", "b"), (x, x))
    with pytest.raises(ValueError, match="grid must hold dates of feature 'when', got durations"):
        kernel.level_sets(frame[40:41], ("when", "b"), (x - x[0], b))
    with pytest.raises(ValueError, match="grid must be an integer"):
        kernel.level_sets(frame[40:41], ("when", "b"), (["March", "May"], b))


def test_a_picture_of_voting_points_says_what_it_cannot_draw():
    gappy = X.copy()
    gappy[::3, 0] = np.nan
    kernel = KernelForestClassifier.untuned(20, random_state=0).fit(gappy, Y).kernel_
    titles = [VotingPointsDisplay.from_kernel(kernel, gappy[i], features=(0, 1)).plot().ax_.get_title() for i in (0, 1)]
    assert all("of it is not drawn" in title for title in titles)
    assert ["x0 is not drawn" in title for title in titles] == [True, False]


def test_forests_are_compared_by_identity():
    forest = small().fit(X, Y).forest_
    assert forest == forest
    assert forest != small().fit(X, Y).forest_


def test_a_kernel_of_a_user_may_ask_another_smoother(monkeypatch):
    monkeypatch.setattr("kernelforest.smoothing._BLOCK", 1_000)  # many blocks of work
    inner = KernelRegression(bandwidth=0.5, n_jobs=2).fit(X, Y)

    def learned(a, b):
        p, q = (inner.predict_proba(rows)[:, 1] for rows in (a, b))
        return np.exp(-5.0 * np.abs(p[:, None] - q))

    outer = KernelRegression(kernel=learned, n_jobs=2).fit(X, Y)
    np.testing.assert_allclose(outer.predict_proba(NEW), KernelRegression(kernel=learned).fit(X, Y).predict_proba(NEW))


def test_huge_and_tiny_weights_choose_as_others():
    weight = np.random.default_rng(1).integers(1, 5, 150).astype(float)
    expected = KernelForestClassifier(60, random_state=0).fit(X, Y, weight).predict_proba(NEW)
    for unit in (2.0**120, 2.0**-120):
        found = KernelForestClassifier(60, random_state=0).fit(X, Y, weight * unit).predict_proba(NEW)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("method", ["isotonic", "venn-abers"])
def test_a_map_does_not_depend_on_which_class_is_named_first(method):
    rows, hit = np.random.default_rng(0).random((200, 4)), (np.arange(200) == 7).astype(int)
    found = []
    for names in (["a", "b"], ["b", "a"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)
            model = KernelForestClassifier(100, random_state=0, calibration=method).fit(rows, np.array(names)[hit])
        found.append(model.oob_score_.log_loss)
    assert max(found) < 0.08
    assert found[0] == pytest.approx(found[1], rel=0.2)  # p1 / (1 - p0 + p1) is not quite symmetric


def test_labels_nearer_than_a_microsecond_do_not_become_one_class():
    with pytest.raises(ValueError, match="differ by a microsecond or more"):
        small().fit(X, np.array([1, 2], "datetime64[ns]")[Y])


def test_a_row_is_at_no_distance_from_itself():
    model = KernelForestClassifier(100, random_state=0).fit(X, Y)
    for kind in ("leaf", "path"):
        away = model.kernel_.distance(kind=kind)
        assert (np.diag(away) == 0.0).all()
        assert squareform(away).min() >= 0.0


def test_a_rare_class_is_named_however_few_groups_there_are():
    rows, groups = np.random.default_rng(0).normal(size=(600, 3)), np.arange(600) % 12
    y = np.where(np.arange(600) < 5, 2, np.arange(600) % 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", TuningWarning)
        KernelForestClassifier(60, random_state=0).fit(rows, y, groups=groups)
    assert any("fewer than 10 rows of class '2' (5)" in str(warning.message) for warning in caught)


def test_every_warning_names_the_line_of_the_user():
    rows = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.warns(TuningWarning, match="40 rows are noisy") as caught:
        KernelForestClassifier(60, random_state=0).fit(rows, rows[:, 0] > 0)
    assert caught[0].filename == __file__
    model = small(n_estimators=1).fit(X, Y)
    for ask in (lambda: model.oob_proba_, lambda: model.oob_score_, model.summary):
        model.__dict__.pop("_oob", None)
        with pytest.warns(UserWarning, match="rows were drawn by every tree") as caught:
            ask()
        assert caught[0].filename == __file__


def svg_of(display):
    """A picture as text, in which words are words."""
    file = io.BytesIO()
    with plt.rc_context({"svg.fonttype": "none"}):
        display.figure_.savefig(file, format="svg")
    return " ".join(unescape(re.sub(r"<[^>]*>", "", file.getvalue().decode())).split())


def test_rows_at_infinity_have_no_place_on_a_picture():
    far = X.copy()
    far[::3, 0], far[1, 0], far[2, 1] = np.inf, -np.inf, np.inf
    kernel = small(leaf_size=50).fit(far, Y).kernel_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shown = [VotingPointsDisplay.from_kernel(kernel, far[i], features=(0, 1)).plot() for i in (0, 4)]
        level = [LevelSetsDisplay.from_kernel(kernel, far[i], (0, 1)).plot() for i in (0, 4)]
        for display in (*shown, *level):
            display.figure_.canvas.draw()
    titles = [display.ax_.get_title() for display in shown]
    assert all("of it is not drawn" in title and "a value is missing or infinite" in title for title in titles)
    assert ["x0 is not drawn: a value is missing or infinite" in title for title in titles] == [True, False]
    assert [display.ax_.get_title() for display in level] == ["x0 is not drawn: a value is missing or infinite", ""]
    drawn = sum(len(dots.get_offsets()) for dots in shown[0].ax_.collections)
    assert drawn == np.isfinite(far[:, :2]).all(axis=1).sum()


def test_dollars_are_no_formulas():
    names, level = ["US$ to A$", "$x_{", "$long name of a column$ over two lines"], np.where(X[:, 0] > 0, "$a$", "$^$")
    frame = pd.DataFrame(X, columns=names).assign(**{"kind $_$": level})
    model = KernelForestClassifier.untuned(20, random_state=0).fit(frame, np.array(["$no$", "1$ \\$2"])[Y])
    kernel, row = model.kernel_, frame[3:4]
    pictures = {
        VotingPointsDisplay.from_kernel(kernel, row, features=(names[0], "kind $_$")): [names[0], "y = 1$ \\$2", "$^$"],
        ProfileDisplay.from_kernel(kernel, row, names[0]): [f"added to {names[0]} ="],
        DerivativesDisplay.from_kernel(kernel, row): [*names[:2], "$long name of a column$ over"],
        DerivativeImportanceDisplay.from_kernel(kernel): names[:2],
        LevelSetsDisplay.from_kernel(kernel, row, names[:2]): names[:2],
        ReliabilityDisplay.from_model(model): ["probability of class 1$ \\$2"],
        SharpnessDisplay.from_model(model, "$no$"): ["probability of class $no$"],
    }
    for display, words in pictures.items():
        written = svg_of(display.plot())
        assert all(some in written for some in words)


def test_missing_values_of_pandas_in_arrays_and_lists_are_missing():
    frame = pd.DataFrame({"a": (10 * X[:, 0]).astype(int), "b": X[:, 1] > 0}).astype({"a": "Int64", "b": "boolean"})
    frame.loc[::7, "a"], frame.loc[3, "b"] = pd.NA, pd.NA
    floats, array = frame.astype(float).to_numpy(), frame.to_numpy()
    expected = small().fit(floats, Y)
    for table in (array, array.tolist()):
        model = small().fit(table, Y)
        np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(floats))
        np.testing.assert_array_equal(model.predict_proba([[pd.NA, True]]), expected.predict_proba([[np.nan, 1.0]]))
        assert str(model.kernel_.explain([pd.NA, True])) == str(expected.kernel_.explain([np.nan, 1.0]))
    with pytest.raises(ValueError, match="name columns of text in categorical_features"):
        expected.predict_proba([[pd.NA, "a"]])


@pytest.mark.parametrize("constant", [0.0, 3.0, -1e20, pd.Timestamp("2024-01-01")])
def test_a_constant_column_has_level_sets(constant):
    frame = pd.DataFrame({"same": constant, "a": X[:, 0], "also": 1.0, "b": X[:, 0] > 0})
    kernel = small().fit(frame, Y).kernel_
    shown = LevelSetsDisplay.from_kernel(kernel, frame[:1], ("same", "a")).plot()
    middle = kernel._training.matrix()[0, 0]
    assert shown.sets.x[0] < middle < shown.sets.x[-1]
    shown.figure_.canvas.draw()
    for made in (LevelSetsDisplay.from_kernel(kernel, frame[:1]).sets.names, kernel.explain(frame[:1]).narrowest):
        assert set(made) <= {"a", "b"}
    still = small().fit(frame.assign(b=2.0), Y).kernel_
    assert LevelSetsDisplay.from_kernel(still, frame[:1]).sets.names == ("a", "same")


def zoned(zone):
    hours = pd.date_range("2024-03-30 12:00", periods=150, freq="h", tz="UTC").to_series(index=range(150))
    return hours.dt.tz_convert(zone), np.arange(150) % 40 > 20


@pytest.mark.parametrize(
    "kept",
    [
        lambda dates: pd.DataFrame({"when": dates, "a": X[:, 0]}),
        lambda dates: pd.DataFrame({"when": dates.astype(object), "a": X[:, 0]}),
        lambda dates: pd.DataFrame(
            {"when": dates.astype(pd.ArrowDtype(pa.timestamp("us", tz=str(dates.dt.tz)))), "a": X[:, 0]}
        ),
        lambda dates: pl.DataFrame({"when": list(dates.dt.to_pydatetime()), "a": X[:, 0]}),
        lambda dates: [[when, a] for when, a in zip(dates.dt.to_pydatetime(), X[:, 0], strict=True)],
    ],
    ids=["pandas", "objects", "arrow", "polars", "list"],
)
def test_dates_are_shown_in_their_time_zone(kept):
    dates, y = zoned("Asia/Tokyo")
    table = kept(dates)
    model = small().fit(table, y)
    plain = pd.DataFrame({"when": dates.dt.tz_convert(None), "a": X[:, 0]})
    expected = small().fit(plain, y)
    np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(plain))
    row = table[3] if isinstance(table, list) else table[3:4]
    points = model.kernel_.voting_points(row).frame()
    told = points["x0" if isinstance(table, list) else "when"]
    assert str(told.dt.tz) == "Asia/Tokyo"
    assert told.tolist() == dates[points["row"]].tolist()
    assert pickle.loads(pickle.dumps(model)).kernel_.voting_points(row).frame().equals(points)
    shown = ProfileDisplay.from_kernel(model.kernel_, row, 0).plot()
    assert shown.ax_.get_xlabel().endswith("= 2024-03-31")  # midnight there, 15:00 of the day before in UTC


def test_axes_of_dates_are_in_their_time_zone(monkeypatch):
    dates, y = zoned("Europe/Berlin")
    frame = pd.DataFrame({"when": dates.where(dates.index != 5), "a": X[:, 0]})
    kernel = small().fit(frame, y).kernel_
    shown = VotingPointsDisplay.from_kernel(kernel, frame[3:4], features=("when", "a")).plot()
    shown.figure_.canvas.draw()
    ticks = num2date(shown.ax_.get_xticks(), tz="Europe/Berlin")
    assert {tick.hour for tick in ticks} == {0}  # midnight there, before and after the change to summer time
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert kernel._training.show(0, np.array([0.0]))[0] == np.datetime64("1970-01-01")  # in UTC, as numpy has no zones


def test_a_duration_is_said_in_days():
    frame = pd.DataFrame({"dur": pd.to_timedelta(np.arange(150) - 75, "h"), "a": X[:, 0]})
    kernel = small().fit(frame, np.arange(150) > 70).kernel_
    shown = ProfileDisplay.from_kernel(kernel, frame[74:75], "dur").plot()
    assert shown.ax_.get_xlabel() == "h in days, added to dur = -0.04167 days"


def test_steps_that_name_features_are_taken_by_name():
    frame = pd.DataFrame(X, columns=list("abc"))
    kernel, row = small().fit(frame, Y).kernel_, frame[:1]
    steps = pd.Series({"c": 3.0, "a": 1.0, "b": 2.0})
    np.testing.assert_array_equal(kernel.derivatives(row, h=steps).h, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(kernel.derivatives(row, h=steps.reset_index(drop=True)).h, [3.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="h must name features of training, got 'z'"):
        kernel.derivatives(row, h=steps.rename({"a": "z"}))
    with pytest.raises(ValueError, match="h must name every feature once, got 'b' 0 times"):
        kernel.derivatives(row, h=steps.drop("b"))


def test_complex_numbers_beside_text_are_refused():
    frame = pd.DataFrame({"z": X[:, 0] + 1j, "word": np.where(Y, "a", "b")})
    with pytest.raises(ValueError, match="column 'z' of X must hold real numbers, got dtype complex128"):
        small().fit(frame, Y)


def test_categories_of_dates_mean_the_same_in_every_unit():
    days = (np.datetime64("2019-12-26") + Y.astype("timedelta64[D]"))[:, None]
    for kind in ("M", "m"):
        table = days if kind == "M" else days - np.datetime64("2019-12-25")
        model = small(categorical_features=[0]).fit(table.astype(f"{kind}8[ns]"), Y)
        assert isinstance(model._schema.levels[0][0], datetime if kind == "M" else timedelta)
        for unit in ("D", "s", "us", "ns"):
            assert model.score(table.astype(f"{kind}8[{unit}]"), Y) == 1.0
    assert small(categorical_features=[0]).fit(days, Y).score(pd.DataFrame(days), Y) == 1.0
    gap = np.array([["NaT"]], "M8[ns]")
    assert np.isnan(model._matrix(gap)[0, 0])


def test_a_point_may_be_a_series_of_polars():
    kernel = small().fit(X, Y).kernel_
    assert str(kernel.explain(pl.Series(X[0]))) == str(kernel.explain(X[0]))
    gap = [None, *X[0, 1:].tolist()]
    assert str(kernel.explain(pl.Series(gap))) == str(kernel.explain(gap))
    np.testing.assert_array_equal(kernel.derivatives(pl.Series(X[0])).right, kernel.derivatives(X[0]).right)


def test_sparse_columns_of_a_frame_are_refused_in_predict_as_in_fit():
    frame = pd.DataFrame({"x": X[:, 0]})
    with pytest.raises(TypeError, match=r"got sparse columns; call X\.sparse\.to_dense\(\)"):
        small().fit(frame, Y).predict_proba(frame.astype("Sparse[float]"))


@pytest.mark.parametrize("key", [pd.Timestamp, np.datetime64, lambda day: np.datetime64(day, "ns"), datetime.fromisoformat])
def test_classes_that_are_dates_can_be_named(key):
    days = ["2020-01-02", "2021-03-04"]
    labels = np.array(days, "datetime64[ns]")[Y]
    weighed, plain = small(class_weight={key(days[0]): 1, key(days[1]): 9}), small(class_weight={0: 1, 1: 9})
    assert (weighed.fit(X, labels).predict(NEW) == labels.max()).tolist() == (plain.fit(X, Y).predict(NEW) == 1).tolist()
    np.testing.assert_array_equal(
        small(prior={key(days[1]): 0.9, key(days[0]): 0.1}).fit(X, labels).predict_proba(NEW),
        small(prior=[0.1, 0.9]).fit(X, Y).predict_proba(NEW),
    )
    balanced = read_class_weight("balanced", read_labels(labels))
    np.testing.assert_array_equal(balanced, read_class_weight("balanced", read_labels(Y)))


def test_class_weights_are_found_by_labels_as_they_are():
    assert read_class_weight({"1": 2.0, "2": 3.0}, read_labels(["1", "2"] * 5)).tolist() == [2.0, 3.0]
    assert read_class_weight({0: 1, 1: 2, 7: 3}, read_labels(Y)).tolist() == [1.0, 2.0]  # as in scikit-learn
    assert read_class_weight({1: 2}, read_labels(Y)).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="class_weight must name classes of y, got 7, which has no rows"):
        read_class_weight({0: 1, 7: 3}, read_labels(Y))


@pytest.mark.parametrize("days", [list(DAYS), [when.date() for when in DAYS]], ids=["times", "dates"])
def test_a_row_of_dates_is_no_table(days):
    with pytest.raises(ValueError, match=r"X must be a table with two dimensions, got shape \(150,\)"):
        small().fit(days, Y)


class Risk(str, Enum):  # noqa: UP042, as it was written before StrEnum
    LOW = "low"
    HIGH = "high"


def test_labels_of_an_enum_of_text_are_told_apart():
    labels = np.array([Risk.HIGH if hit else Risk.LOW for hit in Y], dtype=object)
    model = small().fit(X, labels)
    assert model.classes_.tolist() == ["high", "low"]
    np.testing.assert_array_equal(model.predict_proba(NEW), small().fit(X, np.where(Y, "high", "low")).predict_proba(NEW))


def test_labels_that_numpy_makes_equal_are_refused():
    labels = np.array([2**53, 2**53 + 1, 1.0] * 50, dtype=object)
    with pytest.raises(ValueError, match="y must hold labels that numpy tells apart, got 3 of which some become equal"):
        small().fit(X, labels)


def test_groups_of_sets_stay_together():
    names = pd.Series([frozenset([i % 6]) for i in range(150)])
    np.testing.assert_array_equal(read_groups(names, 150), np.arange(150) % 6)
    with pytest.raises(ValueError, match="groups must hold values of one kind that can be told apart"):
        small().fit(X, Y, groups=pd.Series([[i % 6] for i in range(150)]))


def test_dates_are_refused_as_something_else():
    when = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 9999, 150), unit="h"))
    frame = pd.DataFrame({"when": when, "x": X[:, 0]})
    model = small().fit(frame, Y)
    for other, kind in ((when.astype("int64"), "numbers"), (when - when.min(), "durations"), (when.dt.year, "numbers")):
        with pytest.raises(ValueError, match=f"column 'when' of X must hold dates, as in training, got {kind}"):
            model.predict(frame.assign(when=other))
    with pytest.raises(ValueError, match="column 0 of X must hold dates, as in training, got numbers"):
        small().fit(frame.to_numpy(dtype=object), Y).predict(X[:, :2])
    with pytest.raises(ValueError, match="column 'when' of X must hold numbers, as in training, got dates"):
        small().fit(frame.assign(when=X[:, 1]), Y).predict(frame)
    assert model.predict_proba(frame.assign(when=pd.NaT)).shape == (150, 2)


@pytest.mark.parametrize("rules", [{"splitter": "random"}, {"columns": 1}])
def test_nothing_is_tuned_where_mtry_can_only_be_one(rules):
    table = X[:, : rules.pop("columns", 3)]
    fixed = {"leaf_size": 1, "aggregate": "mean", "fill": "inbag", "n_estimators": 20, "random_state": 0, **rules}
    model = KernelForestClassifier(bootstrap=False, **fixed).fit(table, Y)
    assert not hasattr(model, "tuning_")
    assert model.max_features_ == 1


def test_a_frame_for_a_model_of_an_array_is_warned_of_once():
    model = small().fit(X, Y)
    with pytest.warns(UserWarning, match="X has feature names") as caught:
        model.predict(pd.DataFrame(X, columns=["a", "b", "c"]))
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("rules", "rows", "message"),
    [
        ({"random_state": -1}, {}, "random_state must be None, an integer from 0 to .*, got -1"),
        ({"class_weight": {0: "a"}}, {}, "class_weight must give numbers > 0, got {0: 'a'}"),
        ({}, {"groups": [[1], [1, 2]] * 75}, "groups must have one value per row, got lists"),
        ({}, {"sample_weight": [[1], [1, 2]] * 75}, "sample_weight must have one value per row, got lists"),
    ],
)
def test_errors_name_what_was_given(rules, rows, message):
    with pytest.raises(ValueError, match=message):
        small(**rules).fit(X, Y, **rows)
