"""Kernel regression: averages against their definition, Bayes' rule, leave-one-out choices, and scikit-learn's contract."""

from __future__ import annotations

import builtins
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_matrix, csc_array, csr_array, dok_array, lil_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

from kernelforest import KernelForestClassifier, regression, smoothing
from kernelforest.naive import p_strong, p_weak, proposition_kernel
from kernelforest.regression import KernelRegression, KernelRegressor
from kernelforest.scoring import score
from kernelforest.smoothing import leave_one_out, path_of_bandwidths

quick = settings(max_examples=50, deadline=None, derandomize=True)
KINDS = ("laplace", "gaussian")
REPEATED = "a row of weight 2 is left out as a whole, but of a repeated row one copy stays: the scores of a path differ"


def similarity(x, z, kernel, bandwidth, weights) -> float:
    """The kernels by their formulas."""
    d = [w * abs(a - b) / bandwidth for a, b, w in zip(x, z, weights, strict=True)]
    return float(np.exp(-sum(d) if kernel == "laplace" else -sum(v * v for v in d) / 2))


def average(x, rows, y, mass, kernel, bandwidth, weights) -> float:
    """Nadaraya and Watson, as a loop."""
    k = [m * similarity(x, row, kernel, bandwidth, weights) for row, m in zip(rows, mass, strict=True)]
    return sum(a * b for a, b in zip(k, y, strict=True)) / sum(k)


def circle(n, seed=0):
    """The paper's circle model, and its true probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-28, 28, size=(n, 2))
    p = np.clip((28 - np.hypot(*X.T)) / 20, 0, 1)
    return X, (rng.uniform(size=n) < p).astype(int), p


@st.composite
def problems(draw):
    """A few rows with numbers, masses, weights of features, a kernel and a bandwidth."""
    n, p = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    value = st.floats(-3, 3).map(lambda v: round(v, 3))
    X = draw(arrays(float, (n, p), elements=value))
    y = draw(arrays(float, n, elements=value))
    mass = draw(arrays(float, n, elements=st.sampled_from([0.0, 0.5, 1.0, 2.0])))
    mass[0] = 1.0
    weights = draw(arrays(float, p, elements=st.sampled_from([0.0, 0.3, 1.0, 4.0])))
    return X, y, mass, weights, draw(st.sampled_from(KINDS)), draw(st.sampled_from([0.7, 1.0, 5.0]))


# ---- averages ----


@quick
@given(problems())
def test_a_prediction_is_the_average_of_its_definition(problem):
    X, y, mass, weights, kernel, bandwidth = problem
    points = np.vstack([X, X[:1] + 0.25])
    model = KernelRegressor(kernel, bandwidth=bandwidth, weights=weights).fit(X, y, mass)
    slow = [average(x, X, y, mass, kernel, bandwidth, weights) for x in points]
    assert model.predict(points) == pytest.approx(slow, abs=1e-9)


@quick
@given(problems())
def test_probabilities_are_averages_of_class_indicators_and_sum_to_one(problem):
    X, y, mass, weights, kernel, bandwidth = problem
    labels = np.round(y)
    model = KernelRegression(kernel, bandwidth=bandwidth, weights=weights).fit(X, labels, mass)
    proba = model.predict_proba(X)
    assert proba.sum(axis=1) == pytest.approx(1.0)
    for c, label in enumerate(model.classes_):
        one = KernelRegressor(kernel, bandwidth=bandwidth, weights=weights).fit(X, (labels == label) * 1.0, mass)
        assert proba[:, c] == pytest.approx(one.predict(X), abs=1e-12)


@quick
@given(problems())
def test_probabilities_are_bayes_rule_with_a_kernel_density_for_each_class(problem):
    X, y, _, _, kernel, bandwidth = problem
    labels = (y > 0).astype(int)
    model = KernelRegression(kernel, bandwidth=bandwidth).fit(X, labels)
    known = {"laplace": ("exponential", "manhattan"), "gaussian": ("gaussian", "euclidean")}[kernel]
    log_joint = []
    for label in model.classes_:
        mine = X[labels == label]
        density = KernelDensity(kernel=known[0], metric=known[1], bandwidth=bandwidth).fit(mine)
        log_joint.append(np.log(len(mine) / len(X)) + density.score_samples(X))
    joint = np.exp(np.array(log_joint).T)
    assert model.predict_proba(X) == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-8)


@pytest.mark.parametrize("kernel", KINDS)
def test_far_from_all_data_the_nearest_rows_decide(kernel):
    model = KernelRegression(kernel, bandwidth=1e-3).fit([[0.0], [1.0], [1.0]], ["a", "b", "c"])
    assert model.predict_proba([[1e6], [-1e6]]).tolist() == [[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]


@pytest.mark.parametrize("kernel", KINDS)
def test_a_bandwidth_near_zero_is_the_nearest_row(kernel):
    model = KernelRegressor(kernel, bandwidth=1e-320).fit([[0.0], [1.0], [3.0]], [1.0, 2.0, 3.0])
    assert model.predict([[0.0], [0.6], [2.1], [1e9]]).tolist() == [1.0, 2.0, 3.0, 3.0]


def test_where_no_distance_is_a_number_all_rows_count_alike():
    model = KernelRegressor("gaussian", bandwidth=1.0).fit([[0.0], [1.0]], [2.0, 4.0])
    assert model.predict([[1e200]]) == 3.0


@quick
@given(problems(), st.floats(0.1, 10))
def test_bandwidth_and_weights_scale_each_other(problem, factor):
    X, y, _, weights, kernel, bandwidth = problem
    one = KernelRegressor(kernel, bandwidth=bandwidth, weights=weights).fit(X, y)
    two = KernelRegressor(kernel, bandwidth=bandwidth * factor, weights=weights * factor).fit(X, y)
    assert one.predict(X) == pytest.approx(two.predict(X), abs=1e-8)


def test_scaled_weights_make_units_irrelevant():
    X, y, _ = circle(200)
    one = KernelRegression(weights="scale").fit(X, y)
    two = KernelRegression(weights="scale").fit(X * [1e3, 1e-3], y)
    assert np.allclose(one.predict_proba(X), two.predict_proba(X * [1e3, 1e-3]))


def test_blocks_and_threads_change_nothing(monkeypatch):
    X, y, _ = circle(300)
    whole = KernelRegression().fit(X, y)
    monkeypatch.setattr(smoothing, "_BLOCK", 1000)
    blocked = KernelRegression(n_jobs=2).fit(X, y)
    assert blocked.bandwidth_ == whole.bandwidth_
    assert np.allclose(blocked.predict_proba(X), whole.predict_proba(X), atol=1e-13)
    assert len(smoothing._parts(300, 300)) == 100


def test_the_full_matrix_is_never_formed(monkeypatch):
    X, y, _ = circle(2000)
    largest = 0

    def watched(a, b, metric):
        nonlocal largest
        largest = max(largest, len(a) * len(b))
        return np.abs(a[:, None, :] - b[None, :, :]).sum(axis=2)

    monkeypatch.setattr(smoothing, "cdist", watched)
    monkeypatch.setattr(smoothing, "_BLOCK", 20_000)
    monkeypatch.setattr(regression, "_MOST_LEFT_OUT", 200)
    monkeypatch.setattr(smoothing, "_PROBES", 100)
    KernelRegression().fit(X, y).predict(X[:50])
    assert 0 < largest <= 20_000


# ---- other kernels ----


def test_a_callable_or_precomputed_kernel_gives_what_its_name_gives():
    X, y, _ = circle(60)
    points = circle(20, seed=1)[0]

    def laplace(A, B):
        return np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2) / 5.0)

    named = KernelRegression(bandwidth=5.0).fit(X, y).predict_proba(points)
    assert np.allclose(named, KernelRegression(laplace).fit(X, y).predict_proba(points))
    for wrap in (np.asarray, csr_array):
        model = KernelRegression("precomputed").fit(wrap(laplace(X, X)), y)
        assert np.allclose(named, model.predict_proba(wrap(laplace(points, X))))
        assert model.path_ is None


def test_the_kernel_of_a_forest_gives_the_proximity_estimate_of_the_forest():
    X, y, _ = circle(150)
    forest = KernelForestClassifier.untuned(30, aggregate="proximity", fill="all", random_state=0).fit(X, y)
    points = circle(40, seed=1)[0]
    for dense in (False, True):
        model = KernelRegression("precomputed").fit(forest.kernel_.matrix(dense=dense), y)
        mine = model.predict_proba(forest.kernel_.matrix(points, dense=dense))
        assert np.allclose(mine, forest.predict_proba(points))


def test_where_no_training_row_is_similar_the_answer_is_the_overall_share():
    model = KernelRegression("precomputed").fit(np.eye(4), [0, 1, 1, 1])
    assert model.predict_proba(csr_array((1, 4))).tolist() == [[0.25, 0.75]]


@pytest.mark.parametrize("form", [csr_array, csc_array, lil_array, coo_matrix, dok_array])
def test_a_kernel_may_be_sparse_in_any_form(form):
    X, y, _ = circle(30)

    def near(A, B):
        return (np.abs(A[:, None, :] - B[None, :, :]).max(axis=2) < 20.0) * 1.0

    plain = KernelRegression(near).fit(X, y).predict_proba(X)
    assert (KernelRegression(lambda A, B: form(near(A, B))).fit(X, y).predict_proba(X) == plain).all()
    assert (KernelRegression("precomputed").fit(form(near(X, X)), y).predict_proba(form(near(X, X))) == plain).all()


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
@pytest.mark.parametrize("factor", [2.0**1000, 2.0**1023, 2.0**-1000])
def test_the_size_of_similarities_is_irrelevant(wrap, factor):
    K = np.random.default_rng(0).uniform(0.5, 1.0, (6, 6))
    y = [0, 1, 1, 0, 1, 0]
    plain = KernelRegression("precomputed").fit(K, y).predict_proba(K)
    assert (KernelRegression("precomputed").fit(wrap(factor * K), y).predict_proba(wrap(factor * K)) == plain).all()
    assert (KernelRegression(lambda A, B: wrap(factor * K)).fit(K, y).predict_proba(K) == plain).all()


def test_the_naive_kernel_is_that_of_proposition_1():
    S, W, mtry, M = 2, 3, 2, 40
    model = KernelRegression.from_naive(S, W, mtry, M)
    assert model.weights == pytest.approx(np.log(M) * np.array([p_strong(S, W, mtry)] * S + [p_weak(S, W, mtry)] * W))
    rng = np.random.default_rng(0)
    X, points = rng.uniform(size=(30, 5)), rng.uniform(size=(4, 5))
    y = rng.integers(0, 2, 30)
    K = proposition_kernel(np.abs(points[:, None, :] - X[None, :, :]), S, W, mtry, M)
    assert model.fit(X, y).predict_proba(points)[:, 1] == pytest.approx(K @ y / K.sum(axis=1))
    assert KernelRegression.from_naive(S, W, mtry, M, n_jobs=2).n_jobs == 2


# ---- leave one out ----


@pytest.mark.parametrize("kernel", KINDS)
def test_leaving_one_out_is_fitting_without_it(kernel):
    X, y, _ = circle(25)
    table = np.column_stack([y, np.ones(25)]).astype(float)
    bandwidths = path_of_bandwidths(X, kernel)
    found = leave_one_out(X, table, kernel, bandwidths, np.arange(25), 1)[:, :, 0]
    for step, bandwidth in enumerate(bandwidths):
        for i in (0, 7, 24):
            rest = np.arange(25) != i
            alone = KernelRegressor(kernel, bandwidth=bandwidth).fit(X[rest], y[rest]).predict(X[i : i + 1])
            assert found[step, i] == pytest.approx(alone[0], abs=1e-9)


def clusters():
    """Two clusters far apart, in each of which the label changes at a place that only a narrow kernel finds."""
    rng = np.random.default_rng(0)
    place = np.tile(np.linspace(0.0, 1e-6, 40), 2) + rng.uniform(0.0, 1e-9, 80)
    return np.column_stack([place, np.repeat([0.0, 1e8], 40)]), (place > 5e-7).astype(int)


@pytest.mark.parametrize("kernel", KINDS)
def test_a_path_over_many_scales_reaches_both_ends(kernel):
    X, y = clusters()
    bandwidths = path_of_bandwidths(X, kernel)
    assert bandwidths[0] >= 1e8
    assert len(bandwidths) == 40
    assert bandwidths[-1] <= 1e-6 / 39 / 4 * 1.1
    assert bandwidths[:-1] / bandwidths[1:] == pytest.approx(bandwidths[0] / bandwidths[1])
    model = KernelRegression(kernel).fit(X, y)
    assert model.bandwidth_ < 1e-6
    assert (model.predict(X) == y).mean() > 0.9


@pytest.mark.parametrize("kernel", KINDS)
def test_the_unit_of_the_rows_is_the_unit_of_the_bandwidth(kernel):
    X, y = clusters()
    whole = KernelRegression(kernel).fit(X, y)
    small = KernelRegression(kernel).fit(X * 2.0**-80, y)  # a power of two changes no digit
    assert small.bandwidth_ == whole.bandwidth_ * 2.0**-80
    np.testing.assert_array_equal(small.predict_proba(X * 2.0**-80), whole.predict_proba(X))


@pytest.mark.parametrize("kernel", KINDS)
def test_leaving_one_out_is_fitting_without_it_also_by_wider_steps(kernel):
    X, y = clusters()
    bandwidths = path_of_bandwidths(X, kernel)
    found = leave_one_out(X, np.column_stack([y, np.ones(80)]).astype(float), kernel, bandwidths, np.arange(80), 1)
    for step in (0, 11, 28, 39):
        for i in (0, 19, 79):
            rest = np.arange(80) != i
            alone = KernelRegressor(kernel, bandwidth=bandwidths[step]).fit(X[rest], y[rest]).predict(X[i : i + 1])
            assert found[step, i, 0] == pytest.approx(alone[0], abs=1e-9)


@pytest.mark.parametrize("scoring", ["log_loss", "brier"])
@pytest.mark.parametrize("kernel", KINDS)
def test_the_chosen_bandwidth_has_the_best_score_of_a_geometric_path(kernel, scoring):
    X, y, _ = circle(300)
    model = KernelRegression(kernel, scoring=scoring).fit(X, y)
    path = model.path_
    assert path.scores[scoring].argmin() == path.chosen
    assert model.bandwidth_ == path.bandwidth[path.chosen]
    assert path.bandwidth[:-1] / path.bandwidth[1:] == pytest.approx(np.sqrt(2.0))
    assert 0 < path.chosen < len(path.bandwidth) - 1
    table = np.column_stack([np.eye(2)[y], np.ones(300)])
    best = leave_one_out(X, table, kernel, np.array([model.bandwidth_]), np.arange(300), 1)[0]
    assert score(best, y)._asdict()[scoring] == pytest.approx(path.scores[scoring][path.chosen])


def test_the_ends_of_a_path_are_the_overall_share_and_the_nearest_row():
    X, y, _ = circle(400)
    bandwidths = path_of_bandwidths(X, "laplace")
    found = leave_one_out(X, np.column_stack([y, np.ones(400)]).astype(float), "laplace", bandwidths, np.arange(400), 1)
    assert np.abs(found[0] - y.mean()).max() < 0.25
    assert (np.minimum(found[-1], 1 - found[-1]) < 0.1).mean() > 0.8


def test_a_chosen_bandwidth_is_near_the_best_of_the_truth():
    X, y, _ = circle(500)
    points, _, p = circle(1000, seed=1)
    model = KernelRegression(scoring="brier").fit(X, y)

    def rmse(bandwidth):
        proba = KernelRegression(bandwidth=bandwidth).fit(X, y).predict_proba(points)[:, 1]
        return np.sqrt(np.mean((proba - p) ** 2))

    assert rmse(model.bandwidth_) < 1.15 * min(rmse(b) for b in model.path_.bandwidth)


def test_a_skewed_kernel_is_worse_than_a_symmetric_one_on_the_circle():
    X, y, _ = circle(500)
    points, _, p = circle(1000, seed=1)
    errors = []
    for weights in ([1.0, 1.0], [10.0, 1.0]):
        proba = KernelRegression(weights=weights).fit(X, y).predict_proba(points)[:, 1]
        errors.append(np.sqrt(np.mean((proba - p) ** 2)))
    assert errors[0] < 0.8 * errors[1]


def test_a_regression_chooses_by_squared_error():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 1))
    y = np.sin(6 * X[:, 0]) + rng.normal(0, 0.1, 300)
    model = KernelRegressor().fit(X, y)
    assert list(model.path_.scores) == ["squared_error"]
    assert model.path_.scores["squared_error"].min() < 0.02
    assert model.score(X, y) > 0.95


def test_a_path_prints_as_a_table_with_and_without_pandas(monkeypatch):
    X, y, _ = circle(50)
    path = KernelRegression().fit(X, y).path_
    table = path.frame()
    assert list(table.columns) == ["bandwidth", "log_loss", "brier", "error", "chosen"]
    assert table["chosen"].sum() == 1
    real = builtins.__import__

    def without(name, *rest, **named):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert set(path.frame()) == {"bandwidth", "log_loss", "brier", "error", "chosen"}


@pytest.mark.parametrize("kernel", KINDS)
def test_one_row_far_away_does_not_widen_the_path(kernel):
    X, y, _ = circle(200)
    X[0] = 1e9
    assert KernelRegression(kernel).fit(X, y).path_.bandwidth[0] < 1000.0


def test_rows_that_are_all_the_same_have_no_bandwidth_to_choose():
    model = KernelRegression().fit(np.ones((4, 2)), [0, 0, 0, 1])
    assert model.predict_proba(np.ones((1, 2))).tolist() == [[0.75, 0.25]]
    assert KernelRegression().fit([[1.0]], ["only"]).predict([[2.0]]).tolist() == ["only"]


def test_a_large_table_is_judged_by_some_of_its_rows(monkeypatch):
    monkeypatch.setattr(regression, "_MOST_LEFT_OUT", 100)
    X, y, _ = circle(600)
    assert KernelRegression().fit(X, y).path_.n_rows == 100


# ---- the contract ----


class Near:
    """A kernel with a name that does not change from process to process."""

    def __call__(self, A, B):
        return np.exp(-np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2))

    def __repr__(self):
        return "near"


near = Near()


def expected_failures(model):
    if model.bandwidth == "auto" and not callable(model.kernel):
        return {"check_sample_weight_equivalence_on_dense_data": REPEATED}
    return {}


@parametrize_with_checks(
    [
        KernelRegression(),
        KernelRegression("gaussian", bandwidth=0.5, weights="scale"),
        KernelRegression(near),
        KernelRegressor("gaussian"),
        KernelRegressor(bandwidth=0.5),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def test_a_model_can_be_cloned_and_pickled():
    X, y, _ = circle(40)
    model = KernelRegression.from_naive(1, 1, 2, 10).fit(X, y)
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()
    assert (clone(model).fit(X, y).predict(X) == model.predict(X)).all()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"kernel": "cosine"},
            "kernel must be one of \\['laplace', 'gaussian', 'precomputed'\\] or a callable, got 'cosine'",
        ),
        ({"kernel": None}, "kernel must be"),
        ({"bandwidth": 0.0}, "bandwidth must be 'auto' or a finite number > 0, got 0.0"),
        ({"bandwidth": "best"}, "got 'best'"),
        ({"bandwidth": True}, "got True"),
        ({"weights": [1.0]}, "weights must be None, 'scale' or 2 finite numbers >= 0, one per feature, got shape \\(1,\\)"),
        ({"weights": [1.0, -2.0]}, "got -2.0"),
        ({"weights": "sd"}, "got 'sd'"),
        ({"weights": [1.0, "a"]}, "one per feature, got \\[1.0, 'a'\\]"),
        ({"scoring": "error"}, "scoring must be one of \\['log_loss', 'brier'\\], got 'error'"),
        ({"kernel": "precomputed"}, "X must be a square matrix of similarities"),
        ({"kernel": near, "bandwidth": 2.0}, "bandwidth must be 'auto' unless kernel is 'laplace' or 'gaussian', got 2.0"),
        ({"kernel": near, "weights": [1.0, 1.0]}, "weights must be None unless"),
    ],
)
def test_parameters_that_make_no_sense_are_named(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelRegression(**parameters).fit(np.ones((3, 2)), [0, 1, 1])


def test_other_things_that_make_no_sense_are_named():
    X = np.ones((3, 2))
    with pytest.raises(TypeError, match="n_jobs must be an integer or None, got 'two'"):
        KernelRegression(n_jobs="two").fit(X, [0, 1, 1])
    with pytest.raises(ValueError, match="X and y must have as many rows, got 3 and 2"):
        KernelRegression().fit(X, [0, 1])
    with pytest.raises(ValueError, match=r"X must be finite and >= 0, got -1\.0"):
        KernelRegression("precomputed").fit(-np.eye(3), [0, 1, 1])
    with pytest.raises(ValueError, match=r"kernel must be finite and >= 0, got -1\.0"):
        KernelRegression(lambda A, B: -np.ones((3, 3))).fit(X, [0, 1, 1]).predict(X)
    with pytest.raises(ValueError, match="kernel must return a matrix of shape \\(3, 3\\), got \\(1, 3\\)"):
        KernelRegression(lambda A, B: np.ones((1, 3))).fit(X, [0, 1, 1]).predict(X)


def test_a_fit_that_fails_leaves_no_model_behind():
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    for model in (KernelRegression(), KernelRegressor()):
        model.fit(X, y)
        with pytest.raises(ValueError, match="sample_weight must be"):
            model.fit(X[:, :2], y, -np.ones(20))
        with pytest.raises(NotFittedError):
            model.predict(X)
        model.note_ = "mine"
        model.fit(X, y)
        assert model.note_ == "mine"  # not ours to delete


def test_logarithms_are_those_of_the_probabilities():
    model = KernelRegression(bandwidth=1.0).fit([[0.0], [9.0]], ["a", "b"])
    np.testing.assert_allclose(np.exp(model.predict_log_proba([[0.1]])), model.predict_proba([[0.1]]))
