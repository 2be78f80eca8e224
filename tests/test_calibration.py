"""Calibration: maps that keep what is right, undo what is known to be wrong, and equal their slow definitions."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import oracle
from kernelforest import KernelForestClassifier
from kernelforest.calibration import METHODS, _folds, choose_calibrator, cross_fitted, fit_calibrator
from kernelforest.reliability import reliability
from kernelforest.scoring import losses, score

GRID = np.linspace(0.0, 1.0, 201)


def pair(p):
    return np.column_stack((1.0 - np.asarray(p, dtype=float), p))


def draw(n, seed=0, spread=2.0):
    """True probabilities and hits drawn from them."""
    rng = np.random.default_rng(seed)
    p = expit(spread * rng.normal(size=n))
    return p, (rng.random(n) < p).astype(int)


def draw_classes(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    p = softmax(2.0 * rng.normal(size=(n, n_classes)), axis=1)
    return p, (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, n_classes - 1)


def slow_venn_abers(p, y, w, x):
    """The definition: refit isotonic regression with the new point as a miss and as a hit."""
    fits = [
        IsotonicRegression().fit(np.append(p, x), np.append(y, label), sample_weight=np.append(w, 1.0)).predict([x])[0]
        for label in (0, 1)
    ]
    return fits[0], fits[1]


rows = st.integers(2, 25).flatmap(
    lambda n: st.tuples(
        st.lists(st.sampled_from([0.0, 0.1, 0.125, 0.3, 0.5, 0.51, 0.7, 0.9, 1.0]), min_size=n, max_size=n),
        st.lists(st.integers(0, 1), min_size=n, max_size=n),
        st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n),
    )
)


@pytest.mark.parametrize("method", METHODS)
@given(rows)
def test_any_rows_give_probabilities_that_keep_the_order_and_sum_to_one(method, drawn):
    p, y, w = map(np.array, drawn)
    found = fit_calibrator(method, pair(p), y, w)(pair(GRID))
    assert found.shape == (len(GRID), 2)
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)
    assert (np.diff(found[:, 1]) >= -1e-12).all()


@pytest.mark.parametrize("method", METHODS)
@given(st.integers(1, 12), st.integers(2, 5), st.integers(0, 10**6), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_classes_give_probabilities_that_sum_to_one(method, n, n_classes, seed, sharp):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_classes, 0.3), n)
    p = np.eye(n_classes)[p.argmax(axis=1)] if sharp else p
    found = fit_calibrator(method, p, rng.integers(0, n_classes, n))(p)
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_learned_maps_never_say_never_where_both_classes_were_seen(method):
    p = np.repeat([0.0, 1.0], 20)
    found = fit_calibrator(method, pair(p), p.astype(int))(pair(GRID))
    assert ((found > 0) & (found < 1)).all()
    assert found[0, 1] < 0.05
    assert found[-1, 1] > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_one_class_no_rows_and_rows_never_out_of_bag_teach_nothing(method):
    p, y = draw(30)
    for proba, labels in ((pair(p), np.ones(30, dtype=int)), (np.empty((0, 2)), []), (np.full((3, 2), np.nan), [0, 1, 0])):
        np.testing.assert_array_equal(fit_calibrator(method, proba, labels)(pair(GRID)), pair(GRID))
        assert choose_calibrator("auto", proba, labels).method is None
    holed = np.vstack((pair(p), [[np.nan, np.nan]]))
    by = fit_calibrator(method, holed, np.append(y, 1))
    np.testing.assert_array_equal(by(pair(GRID)), fit_calibrator(method, pair(p), y)(pair(GRID)))
    assert np.isnan(by(holed)).sum() == 2


@pytest.mark.parametrize("method", METHODS)
def test_perfect_probabilities_stay_nearly_as_they_are(method):
    p, y = draw(20_000)
    assert np.abs(fit_calibrator(method, pair(p), y)(pair(p))[:, 1] - p).mean() < 0.02
    p, y = draw_classes(20_000, 4)
    assert np.abs(fit_calibrator(method, p, y)(p) - p).mean() < 0.02


@pytest.mark.parametrize(("slope", "shift"), [(0.3, 0.5), (1.7, -1.0), (0.5, 0.0)])
def test_sigmoid_undoes_a_change_of_slope_and_shift(slope, shift):
    p, y = draw(50_000)
    found = fit_calibrator("sigmoid", pair(expit(slope * logit(p) + shift)), y)
    assert found.slope[1] == pytest.approx(1 / slope, rel=0.04)
    assert found.shift[1] - found.shift[0] == pytest.approx(-shift / slope, abs=0.06)


def test_sigmoid_is_the_logistic_regression_on_the_logit():
    p, y = draw(4_000)
    q = expit(0.5 * logit(p) - 0.3)
    rival = LogisticRegression(C=np.inf, tol=1e-10).fit(logit(q)[:, None], y)
    found = fit_calibrator("sigmoid", pair(q), y)(pair(q))
    np.testing.assert_allclose(found[:, 1], rival.predict_proba(logit(q)[:, None])[:, 1], atol=1e-3)


@pytest.mark.parametrize(("a", "b", "c"), [(0.4, 1.5, 0.3), (2.0, 0.5, -0.5)])
def test_beta_undoes_a_beta_distortion(a, b, c):
    rng = np.random.default_rng(0)
    q = rng.beta(0.7, 0.7, 50_000).clip(1e-4, 1 - 1e-4)
    y = rng.random(len(q)) < expit(a * np.log(q) - b * np.log(1 - q) + c)
    found = fit_calibrator("beta", pair(q), y)
    np.testing.assert_allclose(found.slope, [b, a], atol=0.1)  # standard errors are below 0.04
    assert found.shift[1] - found.shift[0] == pytest.approx(c, abs=0.1)


def test_beta_agrees_with_the_package_of_its_authors():
    package = pytest.importorskip("betacal")
    p, y = draw(5_000)
    q = expit(0.5 * logit(p) + 0.3)
    rival = package.BetaCalibration("abm").fit(q, y)
    np.testing.assert_allclose(fit_calibrator("beta", pair(q), y)(pair(q))[:, 1], rival.predict(q), atol=2e-3)


def test_scaling_of_many_classes_undoes_a_temperature_and_shifts():
    p, y = draw_classes(20_000, 5)
    shift = np.array([-0.5, 0.5, 0.0, 0.2, -0.2])
    q = softmax(0.5 * np.log(p) + shift, axis=1)
    for method in ("sigmoid", "beta"):
        found = fit_calibrator(method, q, y)
        np.testing.assert_allclose(found.slope, 2.0, rtol=0.1)
        np.testing.assert_allclose(found.shift, -2 * shift, atol=0.15)


@pytest.mark.parametrize("method", ["sigmoid", "beta"])
def test_a_forest_that_is_always_wrong_is_flattened_not_turned_round(method):
    p, y = draw(2_000)
    found = fit_calibrator(method, pair(1 - p), y)
    np.testing.assert_allclose(found.slope, 0.0, atol=1e-12)
    np.testing.assert_allclose(found(pair(GRID))[:, 1], y.mean(), atol=1e-3)


def test_end_blocks_of_isotonic_regression_hold_half_a_hit_and_half_a_miss():
    p = np.repeat([0.2, 0.5, 0.8], [9, 4, 19])
    y = np.repeat([0, 1, 0, 1], [9, 2, 2, 19])
    found = fit_calibrator("isotonic", pair(p), y)(pair(np.array([0.0, 0.2, 0.5, 0.8, 1.0])))
    np.testing.assert_allclose(found[:, 1], [0.05, 0.05, 0.5, 0.975, 0.975])


@given(rows)
def test_venn_abers_is_its_slow_definition(drawn):
    p, y, w = map(np.array, drawn)
    seen = w > 0
    if len(np.unique(y[seen])) < 2:
        return
    found = fit_calibrator("venn-abers", pair(p), y, w).maps[0]
    number = min(seen.sum(), oracle.effective_number(w[seen].tolist(), y[seen].tolist()))
    w = w[seen] * number / w[seen].sum()
    new = np.array([0.0, 0.05, 0.1, 0.11, 0.125, 0.3, 0.4, 0.5, 0.505, 0.51, 0.7, 0.8, 0.9, 0.95, 1.0])
    slow = np.array([slow_venn_abers(p[seen], y[seen], w, x) for x in new])
    np.testing.assert_allclose(np.column_stack(found.bounds(new)), slow, atol=1e-9)
    np.testing.assert_allclose(found(new), slow[:, 1] / (1 - slow[:, 0] + slow[:, 1]), atol=1e-9)


def test_venn_abers_is_its_slow_definition_without_ties():
    p, y = draw(150, seed=3)
    new = np.append(p[:40], np.random.default_rng(4).random(40))
    slow = np.array([slow_venn_abers(p, y, np.ones(150), x) for x in new])
    np.testing.assert_allclose(
        np.column_stack(fit_calibrator("venn-abers", pair(p), y).maps[0].bounds(new)), slow, atol=1e-9
    )


def test_venn_abers_agrees_with_the_package_of_its_authors():
    package = pytest.importorskip("venn_abers")
    before = np.geterr()
    p, y = draw(300, seed=5)
    new = np.random.default_rng(6).random(50)
    rival = package.VennAbers()
    rival.fit(pair(p), y)
    np.testing.assert_allclose(
        fit_calibrator("venn-abers", pair(p), y)(pair(new)), rival.predict_proba(pair(new))[0], atol=1e-9
    )
    np.seterr(**before)


@pytest.mark.parametrize("method", METHODS)
def test_the_unit_of_weights_and_rows_of_weight_zero_do_not_matter(method):
    p, y = draw(200)
    w = np.random.default_rng(1).integers(0, 3, 200).astype(float)
    found = fit_calibrator(method, pair(p), y, w)(pair(GRID))
    np.testing.assert_allclose(found, fit_calibrator(method, pair(p), y, 1e-9 * w)(pair(GRID)), atol=1e-9)
    np.testing.assert_allclose(found, fit_calibrator(method, pair(p)[w > 0], y[w > 0], w[w > 0])(pair(GRID)), atol=1e-12)
    assert np.abs(found - fit_calibrator(method, pair(p), y)(pair(GRID))).max() > 1e-3


@pytest.mark.parametrize("method", METHODS)
def test_weights_move_the_map_nearly_like_repeated_rows(method):
    p, y = draw(3_000)
    w = 1.0 + 2.0 * y
    repeated = np.repeat(np.arange(3_000), w.astype(int))
    found, rival = fit_calibrator(method, pair(p), y, w), fit_calibrator(method, pair(p)[repeated], y[repeated])
    # not exactly: an added row (venn-abers, isotonic) is one effective row, 2.5 of these units of weight
    assert np.abs(found(pair(GRID)) - rival(pair(GRID))).mean() < 0.01
    assert np.abs(fit_calibrator(method, pair(p), y)(pair(GRID)) - rival(pair(GRID))).mean() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_calibrators_survive_pickling(method):
    p, y = draw_classes(50, 3)
    by = fit_calibrator(method, p, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(by))(p), by(p))


@pytest.mark.parametrize("method", METHODS)
def test_swapping_two_classes_swaps_their_probabilities(method):
    p, y = draw(300)
    found = fit_calibrator(method, pair(p), y)(pair(GRID))
    swapped = fit_calibrator(method, pair(p)[:, ::-1], 1 - y)(pair(GRID)[:, ::-1])
    np.testing.assert_allclose(found, swapped[:, ::-1], atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_a_class_without_rows_keeps_a_small_probability(method):
    p, y = draw_classes(500, 3)
    wide = np.column_stack((0.99 * p, np.full(500, 0.01)))
    found = fit_calibrator(method, wide, y)(wide)
    assert (found[:, 3] > 0).all()
    assert found[:, 3].max() < 0.02


def test_auto_hardly_moves_perfect_probabilities():
    drawn = [draw(400, seed) for seed in range(20)]
    chosen = [choose_calibrator("auto", pair(p), y) for p, y in drawn]
    assert {c.method for c in chosen} <= {None, "sigmoid"}
    moved = [np.abs(c.calibrator(pair(p)) - pair(p)).mean() for c, (p, _) in zip(chosen, drawn, strict=True)]
    assert np.mean(moved) < 0.02


@pytest.mark.parametrize("scoring", ["log_loss", "brier"])
def test_auto_corrects_squeezed_probabilities(scoring):
    for seed in range(5):
        p, y = draw(400, seed)
        q = pair(expit(0.25 * logit(p)))
        chosen = choose_calibrator("auto", q, y, scoring=scoring)
        assert chosen.method in METHODS
        assert np.square(chosen.calibrator(q)[:, 1] - p).mean() < 0.3 * np.square(q[:, 1] - p).mean()


def test_the_table_holds_all_candidates_and_the_choice_follows_from_it():
    p, y = draw(300)
    q = pair(expit(0.3 * logit(p)))
    chosen = choose_calibrator("auto", q, y)
    assert [c.method for c in chosen.candidates] == [None, *METHODS]
    none, *others = chosen.candidates
    assert none.score == pytest.approx(score(q, y).log_loss)
    assert none[2:] == (0.0, 0.0)
    assert all(c.difference == pytest.approx(c.score - none.score) for c in others)
    assert chosen.method == min((c for c in others if c.difference < -c.standard_error), key=lambda c: c.score).method
    np.testing.assert_array_equal(chosen.calibrator(q), fit_calibrator(chosen.method, q, y)(q))


@pytest.mark.parametrize("n_classes", [2, 4])
def test_losses_of_rows_average_to_the_scores(n_classes):
    p, y = draw_classes(50, n_classes)
    for scoring in ("log_loss", "brier"):
        assert losses(p, y, scoring).mean() == pytest.approx(getattr(score(p, y), scoring))


def test_a_given_method_is_fitted_and_none_changes_nothing():
    p, y = draw(100)
    np.testing.assert_array_equal(choose_calibrator(None, pair(p), y).calibrator(pair(p)), pair(p))
    chosen = choose_calibrator("beta", pair(p), y)
    assert chosen.candidates == ()
    np.testing.assert_array_equal(chosen.calibrator(pair(p)), fit_calibrator("beta", pair(p), y)(pair(p)))
    assert list(chosen.frame()) == ["method", "score", "difference", "standard_error"]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(2, 6), st.integers(0, 99))
def test_folds_keep_groups_together_and_are_as_many_as_there_can_be(groups, folds, seed):
    group = np.unique(groups, return_inverse=True)[1]
    fold = _folds(np.arange(len(group)) % 2, group, folds, seed, even=True)
    assert all(len(set(fold[group == g])) == 1 for g in set(group))
    assert len(set(fold)) == min(folds, len(set(group)))


def test_folds_spread_classes_evenly():
    y = np.repeat([0, 1], [95, 5])
    fold = _folds(y, np.arange(100), 5, 0, even=True)
    assert np.bincount(fold[y == 1]).tolist() == [1] * 5
    assert np.bincount(fold).tolist() == [20] * 5


def test_repeated_rows_do_not_count_as_evidence_when_they_are_a_group():
    p, y = draw(150, seed=1)
    q, labels = pair(np.repeat(expit(0.25 * logit(p)), 6)), np.repeat(y, 6)
    alone, grouped = (
        choose_calibrator("auto", q, labels, groups=g).candidates[1] for g in (None, np.repeat(np.arange(150), 6))
    )
    assert grouped.standard_error > 2 * alone.standard_error
    one = choose_calibrator("auto", q, labels, groups=np.zeros(900))
    assert one.method is None


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_a_group_that_share_all_calibrate_as_one_row(method):
    p, y = draw(30, seed=1)
    six, groups = np.repeat(np.arange(30), 6), np.repeat(np.arange(30), 6)
    apart = fit_calibrator(method, pair(p), y)
    together = fit_calibrator(method, pair(p[six]), y[six], groups=groups)
    np.testing.assert_allclose(together(pair(GRID)), apart(pair(GRID)), atol=1e-6)
    assert np.abs(fit_calibrator(method, pair(p[six]), y[six])(pair(GRID)) - apart(pair(GRID))).max() > 0.003


def test_rows_of_a_group_count_as_one_where_maps_are_fitted_on_some_rows_only():
    p, y = draw(30, seed=1)
    six = np.repeat(np.arange(30), 6)
    moved = {
        most: np.abs(cross_fitted("sigmoid", pair(p[six]), y[six], groups=six, most=most)[:, 1] - p[six]).mean()
        for most in (None, 150)
    }
    apart = np.abs(cross_fitted("sigmoid", pair(p[six]), y[six], most=150)[:, 1] - p[six]).mean()
    assert moved[150] == pytest.approx(moved[None], rel=0.25)
    assert moved[150] < 0.8 * apart


def test_groups_whose_labels_do_not_go_together_hardly_matter():
    p, y = draw(2000, seed=2)
    groups = np.arange(2000) % 40
    found, rival = fit_calibrator("sigmoid", pair(p), y, groups=groups), fit_calibrator("sigmoid", pair(p), y)
    np.testing.assert_allclose(found(pair(GRID)), rival(pair(GRID)), atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_auto_survives_few_rows(n):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        chosen = choose_calibrator("auto", rng.dirichlet(np.ones(3), n), rng.integers(0, 3, n))
        assert np.isfinite(chosen.calibrator(np.full((1, 3), 1 / 3))).all()


def test_the_seed_decides_the_folds():
    p, y = draw(200)
    first, again, other = (choose_calibrator("auto", pair(p), y, seed=s).candidates for s in (0, 0, 1))
    assert first == again != other


def test_tables_are_dicts_without_pandas(monkeypatch):
    p, y = draw(150)
    chosen = choose_calibrator("auto", pair(p), y)
    assert chosen.frame()["method"].tolist() == ["none", *METHODS]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert chosen.frame()["method"] == ["none", *METHODS]
    assert len(reliability(p, y).frame()["share"]) == 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p, y: fit_calibrator("platt", p, y), "method must be one of .*, got 'platt'"),
        (lambda p, y: fit_calibrator("beta", p, y[:-1]), r"must be \(n, K\), .* got \(9, 2\), \(8,\)"),
        (lambda p, y: choose_calibrator("best", p, y), "method must be one of .None, 'auto', .*, got 'best'"),
        (lambda p, y: cross_fitted("sgmoid", p, y), "method must be one of .None, 'sigmoid', .*, got 'sgmoid'"),
        (lambda p, y: cross_fitted("sigmoid", p, y, groups=[1, 2, 3]), r"groups must be .* like labels, got \(3,\)"),
        (lambda p, y: choose_calibrator("auto", p, y, scoring="auc"), "scoring must be one of .*, got 'auc'"),
        (lambda p, y: choose_calibrator("auto", p, y, folds=1), "folds must be an integer >= 2, got 1"),
        (lambda p, y: choose_calibrator("auto", p, y, groups=[1]), r"groups must be \(9,\) like labels, got \(1,\)"),
        (lambda p, y: reliability(p[:, 1], y, bins=0), "bins must be an integer >= 1, got 0"),
    ],
)
def test_errors_name_argument_law_and_value(call, message):
    p, y = draw(9)
    with pytest.raises(ValueError, match=message):
        call(pair(p), y)


def test_bins_of_a_reliability_diagram_hold_equal_counts_and_their_means():
    p, y = draw(1_000)
    found = reliability(p, y, bins=10)
    assert found.count.tolist() == [100] * 10
    order = np.argsort(p)
    np.testing.assert_allclose(found.p, p[order].reshape(10, 100).mean(axis=1))
    np.testing.assert_allclose(found.share, y[order].reshape(10, 100).mean(axis=1))
    assert ((found.low <= found.share) & (found.share <= found.high)).all()


def test_the_interval_is_that_of_wilson():
    found = reliability(np.full(10, 0.3), np.arange(10) < 3)  # known: 3 of 10
    np.testing.assert_allclose([found.low[0], found.high[0]], [0.1078, 0.6032], atol=1e-4)


def test_equal_probabilities_share_a_bin():
    found = reliability(np.repeat([0.2, 0.7], [30, 70]), np.zeros(100), bins=10)
    assert found.p.tolist() == pytest.approx([0.2, 0.7])
    assert found.count.tolist() == [30, 70]


@pytest.mark.parametrize(("slope", "shift"), [(1.0, 0.0), (0.5, 0.0), (2.0, 0.0), (1.0, 0.7)])
def test_slope_and_intercept_say_how_logits_were_changed(slope, shift):
    p, y = draw(20_000)
    found = reliability(expit(slope * logit(p) + shift), y)
    assert abs(found.slope - 1 / slope) < 4 * found.slope_error < 0.2
    if slope == 1.0:
        assert abs(found.intercept + shift) < 4 * found.intercept_error < 0.1


def test_standard_errors_are_the_spread_over_draws():
    found = [reliability(*draw(300, seed)) for seed in range(150)]
    for name in ("slope", "intercept"):
        spread = np.std([getattr(f, name) for f in found])
        assert np.mean([getattr(f, f"{name}_error") for f in found]) == pytest.approx(spread, rel=0.2)


def test_standard_errors_are_the_spread_over_draws_that_are_weighted_by_class():
    """As those of a prior are: one hit in fifty misses, of a sample with as many of both."""

    def weighted(seed):
        p, y = draw(1000, seed)
        odds = 0.02 * p / (0.02 * p + 0.98 * (1 - p))
        return reliability(odds, y, np.where(y == 1, 0.02, 0.98))

    found = [weighted(seed) for seed in range(150)]
    for name in ("slope", "intercept"):
        spread = np.std([getattr(f, name) for f in found])
        assert np.mean([getattr(f, f"{name}_error") for f in found]) == pytest.approx(spread, rel=0.3)


@given(rows, st.integers(1, 12))
def test_reliability_is_finite_for_any_rows(drawn, bins):
    p, y, w = map(np.array, drawn)
    found = reliability(p, y, w, bins=bins)
    assert np.isfinite([found.slope, found.slope_error, found.intercept, found.intercept_error]).all()
    assert found.count.sum() == (w > 0).sum()
    assert len(found.p) <= bins
    assert ((found.low >= 0) & (found.high <= 1)).all()


def test_separated_hits_give_a_finite_slope_with_a_large_error():
    p = np.linspace(0.01, 0.99, 50)
    found = reliability(p, p > 0.5)
    assert 1 < found.slope < 100
    assert found.slope_error > 0.5


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_cross_fitting_finds_nothing_where_there_is_nothing(method):
    scores = []
    for seed in range(40):
        labels = np.random.default_rng(seed).integers(5, size=100)
        proba = cross_fitted(method, np.full((100, 5), 0.2), labels, seed=seed)
        scores.append(losses(proba, labels, "log_loss").mean())
    error = np.std(scores) / np.sqrt(len(scores))
    assert np.mean(scores) > np.log(5) - 2 * error  # below are only those who know the shares of this sample


def test_few_rows_are_calibrated_by_a_sigmoid_that_is_held_back():
    rng = np.random.default_rng(0)
    p = rng.beta(2.0, 2.0, 40)
    proba, y = np.column_stack([1.0 - p, p]), (p > 0.5).astype(int)  # a slope as steep as one likes
    few = choose_calibrator("auto", proba, y)
    assert few.method == "sigmoid"
    assert few.candidates == ()  # nothing was compared
    many = choose_calibrator("sigmoid", np.repeat(proba, 10, axis=0), np.repeat(y, 10))
    assert 1.0 < few.calibrator.slope[0] < 0.5 * many.calibrator.slope[0]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_a_map_is_chosen_by_some_rows_and_fitted_on_all(method, monkeypatch):
    monkeypatch.setattr("kernelforest.outofbag.CALIBRATION_ROWS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 2))
    y = (rng.random(1000) < expit(2 * X[:, 0] - 2)).astype(int)
    model = KernelForestClassifier.untuned(30, random_state=0, calibration=method).fit(X, y)
    raw = model.forest_.estimate_out_of_bag("mean", "inbag")[0]
    q = pair(GRID)
    np.testing.assert_allclose(model.calibration_.calibrator(q), fit_calibrator(method, raw, y)(q), rtol=1e-6)


def test_maps_that_leave_a_row_out_may_be_fitted_on_some_of_the_others():
    p, y = draw(4000)
    rare = y * (np.random.default_rng(1).random(len(y)) < 0.05)
    whole, some = (cross_fitted("sigmoid", pair(p), rare, most=most)[:, 1] for most in (None, 1000))
    assert not np.array_equal(whole, some)
    np.testing.assert_allclose(some.mean(), rare.mean(), rtol=0.1)  # rare hits have their share, and their weight
    np.testing.assert_array_equal(cross_fitted("sigmoid", pair(p), rare, most=4000)[:, 1], whole)
