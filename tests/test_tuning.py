"""Tuning: what is left open is chosen by out-of-bag score, what is fixed stays fixed, and the score is what it says."""

from __future__ import annotations

import pickle
import sys
from functools import cache
from itertools import combinations, pairwise, product
from math import ceil, exp, log, sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracle
from kernelforest import KernelForestClassifier, TuningWarning
from kernelforest._engine import path
from kernelforest.calibration import METHODS, fit_calibrator
from kernelforest.growing import make_targets
from kernelforest.judging import LIGHT, MOST_WAYS, NEGLIGIBLE
from kernelforest.problems import DEVELOPMENT, PAPER, Problem
from kernelforest.scoring import effective_number, losses, mean_and_error, sample_rows
from kernelforest.tuning import (
    FAR,
    MOST_ROWS,
    Open,
    apportion,
    challengers,
    mtry_candidates,
    rounds,
    scored_rows,
)

quick = settings(max_examples=60, deadline=None, derandomize=True)
FIXED = {"max_features": 2, "leaf_size": 7, "aggregate": "vote", "fill": "oob", "splitter": "extra"}
SUBSETS = [names for size in range(5) for names in combinations(FIXED, size) if set(FIXED) - set(names) != {"splitter"}]


@cache
def sample(name: str = "waves", n: int = 150, seed: int = 0):
    return {**PAPER, **DEVELOPMENT}[name].sample(n, seed)


def fit(X, y, weight=None, groups=None, **rules) -> KernelForestClassifier:
    """Rows and trees enough for no warning, unless asked for."""
    untuned = rules.pop("untuned", False)
    make = KernelForestClassifier.untuned if untuned else KernelForestClassifier
    return make(**{"n_estimators": 60, "random_state": 0, **rules}).fit(X, y, weight, groups=groups)


@cache
def fitted(name: str = "waves", n: int = 150, **rules) -> KernelForestClassifier:
    drawn = sample(name, n)
    return fit(drawn.X, drawn.y, **rules)


def values_of(model: KernelForestClassifier) -> dict:
    return {name: getattr(model, f"{name}_") for name in FIXED}


def score_rows(proba, labels, weight, *, sharpened: bool, squared: bool = False) -> np.ndarray:
    """The engine's losses of one candidate, (rows,)."""
    out = np.empty((1, len(labels)))
    floor = 1.0 / (proba.size + 1)
    path.score_candidates(
        proba[None],
        labels.astype(np.int32),
        weight,
        floor,
        sharpened,
        squared,
        None if proba.shape[1] == 2 else np.bincount(labels, weight) / weight.sum(),
        out,
    )
    return out[0]


def pair(p) -> np.ndarray:
    return np.column_stack((1.0 - np.asarray(p), p))


# ---- what is tried ----


@given(p=st.integers(1, 10**5))
@quick
def test_mtry_candidates_rise_from_one_to_all_or_many_and_hold_the_square_root(p):
    found = mtry_candidates(p)
    assert found[0] == 1
    assert found[-1] == min(p, int(12 * sqrt(p)))
    assert ceil(sqrt(p)) in found
    assert all(a < b for a, b in pairwise(found))
    assert len(found) <= 7


@given(n_ways=st.integers(1, 20), n_rows=st.integers(10, 10**6), n_estimators=st.integers(1, 2000))
@settings(quick, max_examples=300)
def test_rounds_double_the_trees_until_half_the_forest_decides(n_ways, n_rows, n_estimators):
    found = rounds(n_ways, n_rows, n_estimators)
    trees = [n for n, _ in found]
    assert [last for _, last in found] == [False] * (len(found) - 1) + [True]
    assert all(a < b <= 2 * a for a, b in pairwise(trees))
    assert trees[-1] == max(1, min(250, n_estimators // 2))
    assert len(found) <= 5
    if n_ways <= 3:
        assert len(found) == 1


def test_one_way_to_grow_needs_one_round():
    assert rounds(1, 1000, 500) == [(250, True)]


@given(
    evidence=st.dictionaries(
        st.tuples(st.sampled_from(["best", "extra"]), st.sampled_from([1, 2, 4, 8])), st.floats(-300.0, 0.0), min_size=1
    )
)
@quick
def test_a_challenger_has_the_next_smaller_mtry_than_the_leader_of_its_cuts(evidence):
    found = challengers(evidence, (1, 2, 4, 8))
    assert len(set(found)) == len(found)
    for splitter in ("best", "extra"):
        mine = {mtry: value for (name, mtry), value in evidence.items() if name == splitter}
        leader = max(mine, key=mine.get, default=1)
        is_near = bool(mine) and mine[leader] >= max(evidence.values()) - FAR
        wanted = is_near and leader > 1 and leader // 2 not in mine
        assert [way for way in found if way[0] == splitter] == ([(splitter, leader // 2)] if wanted else [])


def test_a_way_to_grow_comes_back_when_more_trees_speak_for_it():
    """A linear rule without noise in twelve columns: with 24 trees small mtry looks hopeless, with 250 it is best."""
    problem = Problem("linear", lambda rng, n: rng.standard_normal((n, 12)), lambda X: (X.sum(axis=1) > 0) * 1.0)
    X, y, _ = problem.sample(3000, 0)
    tuning = KernelForestClassifier(500, random_state=0).fit(X, y).tuning_
    scores = {}
    for c in tuning.candidates:
        if c.n_trees == tuning.best.n_trees:
            way = c.splitter, c.max_features
            scores[way] = min(c.penalised, scores.get(way, np.inf))
    mtry = min(scores, key=scores.get)[1]
    assert mtry == tuning.best.max_features == 1
    first = {(c.splitter, c.max_features) for c in tuning.candidates if c.n_trees == 24}
    assert len(first) >= 4  # most are dropped for good, so it is cheap


@given(n=st.integers(1, 400), n_classes=st.integers(1, 50), seed=st.integers(0, 99))
@quick
def test_scored_rows_have_weight_and_come_once(n, n_classes, seed):
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 2, n).astype(float)
    weight[0] = 1.0
    targets = make_targets(np.zeros(n, np.int32), n_classes, weight)
    choices = Open(("best",), (1,), tuple(range(1, 26)), ("mean", "proximity"), ("inbag",))
    rows, mass = scored_rows(targets, choices, seed)
    np.testing.assert_array_equal(mass, weight[rows])
    assert len(set(rows.tolist())) == len(rows)
    assert weight[rows].min() > 0
    assert len(rows) == min(weight.sum(), max(256, min(MOST_ROWS, 30_000_000 // (25 * 2 * 3 * n_classes))))


def test_of_many_rows_some_are_scored():
    targets = make_targets(np.zeros(10**5, np.int32), 2)
    assert len(scored_rows(targets, Open(("best",), (1,), (1,), ("mean",), ("inbag",)), 0).rows) == MOST_ROWS
    wide = make_targets(np.zeros(10**5, np.int32), 1000)
    assert len(scored_rows(wide, Open(("best",), (1,), tuple(range(25)), ("mean",), ("inbag",)), 0).rows) < MOST_ROWS


@given(n=st.integers(0, 300), most=st.integers(1, 200), odds=st.floats(0.5, 6.0), seed=st.integers(0, 99))
@quick
def test_a_sample_of_rows_stands_for_all_of_them(n, most, odds, seed):
    """Sums of weights by class are those of all rows; a rare class has its quota, and nothing changes without one."""
    rng = np.random.default_rng(seed)
    labels = np.minimum(rng.geometric(1 - np.exp(-odds), n) - 1, 3)
    weight, rows = rng.uniform(0.5, 2.0, n), np.flatnonzero(rng.random(n) < 0.9)
    some, mass = sample_rows(rows, labels, weight, most, seed)
    total, found = (np.bincount(labels[each], minlength=4) for each in (rows, some))
    quota = np.minimum(total, most // (4 * max(1, np.count_nonzero(total))))
    assert len(set(some.tolist())) == len(some) <= most
    assert set(some.tolist()) <= set(rows.tolist())
    assert (found >= quota).all()
    assert len(some) > min(len(rows), most) - 4
    plain = np.random.default_rng(seed).permutation(rows)[:most]
    if (np.bincount(labels[plain], minlength=4) >= quota).all():
        np.testing.assert_array_equal(some, plain)
        np.testing.assert_array_equal(mass, weight[plain])
    else:
        wanted = np.where(found > 0, np.bincount(labels[rows], weight[rows], 4), 0.0)
        np.testing.assert_allclose(np.bincount(labels[some], mass, 4), wanted)


def test_a_sample_with_a_rare_class_is_in_random_order():
    """Early rounds score its first rows only: they need their part of the hits."""
    labels = np.random.default_rng(0).permutation(np.arange(200_000) < 400).astype(int)
    some, weight = sample_rows(np.arange(len(labels)), labels, np.ones(len(labels)), 8000, seed=1)
    first, hits = slice(0, 2000), labels[some]
    assert hits.sum() == 400
    assert 70 < hits[first].sum() < 130
    assert abs(weight[first] @ hits[first] / weight[first].sum() - 0.002) < 0.0006


@given(n=st.integers(2, 30), seed=st.integers(0, 99))
@quick
def test_effective_number_of_rows(n, seed):
    rng = np.random.default_rng(seed)
    labels, weight, groups = (
        np.append([0, 1], rng.integers(0, 3, n)),
        rng.uniform(0.1, 2.0, n + 2),
        rng.integers(0, 5, n + 2),
    )
    expected = oracle.effective_number(weight.tolist(), labels.tolist(), groups.tolist())
    assert effective_number(weight, labels, groups) == pytest.approx(expected)
    assert effective_number(np.full(n + 2, 3.0), labels) == n + 2
    assert effective_number(weight, np.zeros(n + 2, int)) == pytest.approx(weight.sum() ** 2 / (weight**2).sum())


def test_weights_of_classes_are_heard_as_a_prior():
    """Thinned misses, weighted back: with weights, trees and calibration would hear misses where hits are as one shout."""
    X, y, _ = sample("rare", 4000)
    share = y.mean()
    rows = np.concatenate([np.flatnonzero(y == c)[:80] for c in (0, 1)])
    weight = np.where(y[rows] == 1, share, 1.0 - share)
    by_weight, by_prior = fit(X[rows], y[rows], weight), fit(X[rows], y[rows], prior=[1.0 - share, share])
    np.testing.assert_allclose(by_weight.predict_proba(X), by_prior.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose(by_weight.oob_score_, by_prior.oob_score_)
    assert by_weight.tuning_.best[:5] == by_prior.tuning_.best[:5]
    zero = np.append(weight, np.zeros(100))  # rows that do not count change nothing about it
    others = fit(np.vstack([X[rows], X[-100:]]), np.append(y[rows], y[-100:]), zero)
    assert others.predict_proba(X)[:, 1].mean() == pytest.approx(by_weight.predict_proba(X)[:, 1].mean(), rel=0.1)
    named = fit(X[rows], y[rows], weight, prior={0: 0.4, 1: 0.6})  # a prior of the user goes before
    np.testing.assert_array_equal(named.predict_proba(X), fit(X[rows], y[rows], prior=[0.4, 0.6]).predict_proba(X))


def test_class_weights_count_on_top_of_weights_of_classes():
    X, y, _ = sample("rare", 1000)
    weight = np.where(y == 1, 0.25, 1.0)
    how = {"class_weight": {0: 1.0, 1: 4.0}}
    model = fit(X, y, weight, **how)
    np.testing.assert_array_equal(model.forest_.targets.mass, np.ones(1000))  # so trees see rows alike
    assert model.predict(X).mean() > 1.5 * fit(X, y, weight).predict(X).mean()
    moved = fit(X, y, weight, prior="weighted", **how)
    np.testing.assert_allclose(moved.predict_proba(X), fit(X, y).predict_proba(X), rtol=1e-12)


def test_weights_do_not_make_more_rows_than_there_are():
    weight, labels = np.array([1.0, 1.1, 300.0, 310.0]), np.array([1, 1, 0, 0])
    assert effective_number(weight, labels) > 100
    assert effective_number(weight, labels, most=4) == 4
    X, y, _ = sample("rare", 4000)
    rows = np.concatenate([np.flatnonzero(y == c)[:80] for c in (0, 1)])
    weight = np.where(y[rows] == 1, 1e-3, 1.0) * np.random.default_rng(0).uniform(0.9, 1.1, 160)
    model = fit(X[rows], y[rows], weight, n_estimators=200)
    assert model.predict_proba(X)[:, 1].max() < 0.1  # was up to 1, where no miss had been drawn among the hits


def test_scores_of_a_sample_are_those_of_all_rows_though_hits_are_rare(monkeypatch):
    """Fifty hits among 5,000 rows: of 400 rows drawn blindly four would be hits, and the score would be anything."""
    rng = np.random.default_rng(0)
    X = rng.random((5000, 3))
    y = rng.random(5000) < 0.02 * X[:, 0]
    fixed = {"splitter": "best", "max_features": 1, "aggregate": "mean", "fill": "inbag", "random_state": 0}
    whole = KernelForestClassifier(60, **fixed).fit(X, y)
    monkeypatch.setattr("kernelforest.tuning.MOST_ROWS", 400)
    monkeypatch.setattr("kernelforest.outofbag.CALIBRATION_ROWS", 400)
    part = KernelForestClassifier(60, **fixed).fit(X, y)
    assert part.tuning_.n_rows == 400
    scores = [{c.leaf_size: c.score for c in model.tuning_.candidates} for model in (whole, part)]
    for size, score in scores[0].items():
        assert scores[1][size] == pytest.approx(score, rel=0.03)
    assert part.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.1)


# ---- scores of candidates ----


@given(seed=st.integers(0, 10**6), n=st.integers(2, 60), n_classes=st.integers(2, 5))
@quick
def test_losses_as_they_are_equal_those_of_scoring(seed, n, n_classes):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.full(n_classes, 0.3), n)
    proba[rng.random(n) < 0.2] = np.eye(n_classes)[0]  # some are certain, and some of those wrong
    labels = rng.integers(0, n_classes, n)
    floor = 1.0 / (proba.size + 1)
    expected = losses(np.maximum(proba, floor), labels, "log_loss")
    np.testing.assert_allclose(score_rows(proba, labels, np.ones(n), sharpened=False), expected, rtol=1e-12)
    found = score_rows(proba, labels, np.ones(n), sharpened=False, squared=True)
    np.testing.assert_allclose(found, losses(proba, labels, "brier"), rtol=1e-12, atol=1e-12)


def shrunken(seed: int, n: int, stretch: float, lift: float):
    """True chances and hits, the chances moved towards or away from 1/2 and up or down, and weights."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, n)
    hits = (rng.random(n) < expit(z)).astype(int)
    hits[:2] = 0, 1
    weight = rng.integers(1, 4, n).astype(float)
    return expit(stretch * z + lift), hits, weight * weight.sum() / (weight**2).sum()


@given(seed=st.integers(0, 10**6), n=st.integers(30, 200), stretch=st.floats(0.3, 2.0), lift=st.floats(-1.0, 1.0))
@settings(quick, max_examples=40)
def test_sharpened_losses_of_two_classes_follow_the_definition(seed, n, stretch, lift):
    p, hits, weight = shrunken(seed, n, stretch, lift)
    maps = oracle.sharpened(p, hits, weight, 1.0 / (2 * n + 1), path.RIDGE)
    for squared, name in ((False, "log_loss"), (True, "brier")):
        found = score_rows(pair(p), hits, weight, sharpened=True, squared=squared)
        better = min((losses(pair(q), hits, name) for q in maps), key=lambda loss: weight @ loss)
        assert np.average(found, weights=weight) == pytest.approx(np.average(better, weights=weight), abs=1e-4)


@given(seed=st.integers(0, 10**6), stretch=st.floats(0.3, 2.0), lift=st.floats(-1.0, 1.0))
@settings(quick, max_examples=40)
def test_sharpened_losses_of_two_classes_are_those_of_the_sigmoid(seed, stretch, lift):
    p, hits, weight = shrunken(seed, 300, stretch, lift)
    found = np.average(score_rows(pair(p), hits, weight, sharpened=True), weights=weight)
    by = fit_calibrator("sigmoid", pair(p), hits, weight)
    assert found == pytest.approx(np.average(losses(by(pair(p)), hits, "log_loss"), weights=weight), abs=1e-3)


@given(seed=st.integers(0, 10**6), n=st.integers(30, 300), stretch=st.floats(0.2, 3.0), lift=st.floats(-2.0, 2.0))
@quick
def test_sharpening_never_adds_more_than_the_ridge_to_the_log_loss(seed, n, stretch, lift):
    p, hits, weight = shrunken(seed, n, stretch, lift)
    before, after = (weight @ score_rows(pair(p), hits, weight, sharpened=s) for s in (False, True))
    assert after <= before + path.RIDGE + 0.5  # half a row: the floor takes that from certainties


def shrunken_classes(seed: int, n_classes: int, stretch: float, lift: float):
    """The same for several classes, 300 rows."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (300, n_classes))
    true = softmax(z, axis=1)
    labels = (true.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1).clip(0, n_classes - 1)
    labels[:n_classes] = range(n_classes)
    return softmax(stretch * z + rng.normal(0, lift, n_classes), axis=1), labels


@given(seed=st.integers(0, 10**6), n_classes=st.integers(3, 12), stretch=st.floats(0.3, 2.0), squared=st.booleans())
@settings(quick, max_examples=40)
def test_several_classes_are_sharpened_by_the_slope_with_the_least_log_loss(seed, n_classes, stretch, squared):
    proba, labels = shrunken_classes(seed, n_classes, stretch, lift=0.2)
    weight = np.random.default_rng(seed).integers(1, 4, 300).astype(float)
    found = score_rows(proba, labels, weight, sharpened=True, squared=squared)
    best = min(from_the_shares(proba, labels, weight, 5.0), key=lambda p: weight @ losses(p, labels, "log_loss"))
    expected = losses(best, labels, "brier" if squared else "log_loss")
    assert np.average(found, weights=weight) == pytest.approx(np.average(expected, weights=weight), abs=2e-3)


def from_the_shares(proba, labels, weight, steepest: float):
    """Probabilities share * (p / share)^slope, divided by their sum, for slopes from zero up."""
    share = np.bincount(labels, weight) / weight.sum()
    x = np.log(np.maximum(proba, 1.0 / (proba.size + 1)) / share)
    return (softmax(slope * x + np.log(share), axis=1) for slope in np.linspace(0.0, steepest, 501))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_same_probability_for_all_scores_like_the_base_rate(n_classes):
    labels = np.repeat(np.arange(n_classes), 40 + 60 * (np.arange(n_classes) == 0))
    proba = np.full((len(labels), n_classes), 1.0 / n_classes)
    shares = np.bincount(labels) / len(labels)
    found = score_rows(proba, labels, np.ones(len(labels)), sharpened=True).mean()
    assert found == pytest.approx(-shares @ np.log(shares), abs=5e-3)


def turned(seed: int = 0, n: int = 500):
    """Chances that say the opposite of what happens, as out-of-bag ones do where there is nothing to learn."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-2, 1, n)
    return expit(z), (rng.random(n) < expit(-z - 4)).astype(int)


def test_probabilities_that_say_the_opposite_score_like_the_base_rate():
    p, hits = turned()
    share = hits.mean()
    found = score_rows(pair(p), hits, np.ones(len(p)), sharpened=True).mean()
    assert found == pytest.approx(-share * log(share) - (1 - share) * log(1 - share), abs=1e-3)


def test_timid_probabilities_are_sharpened_as_far_as_the_sigmoid_does():
    hits = np.arange(500) % 2
    p = np.where(hits == 1, 0.51, 0.49)
    found = score_rows(pair(p), hits, np.ones(500), sharpened=True).mean()
    sigmoid = losses(fit_calibrator("sigmoid", pair(p), hits)(pair(p)), hits, "log_loss").mean()
    assert found == pytest.approx(sigmoid, abs=0.01)


def test_several_classes_far_off_are_sharpened_as_far():
    proba, labels = shrunken_classes(25, 4, 0.06, lift=0.0)
    found = score_rows(proba, labels, np.ones(300), sharpened=True).mean()
    best = min(losses(p, labels, "log_loss").mean() for p in from_the_shares(proba, labels, np.ones(300), 25.0))
    assert found == pytest.approx(best, abs=5e-3)


@given(z=st.floats(-64.0, 0.0))
@quick
def test_the_quick_exponential_has_nine_digits_where_it_matters(z):
    assert path.exp_below.py_func(z) == pytest.approx(exp(z), rel=1e-9 if z > -16.0 else 2e-5)


# ---- the choice ----


def last_round(tuning):
    return [c for c in tuning.candidates if c.n_trees == tuning.best.n_trees]


def noise(tuning, shares):
    """What the best candidate of the last round leaves of the score of the class shares: their entropy, or variance."""
    variance = (1.0 - shares @ shares) / (2 if len(shares) == 2 else 1)
    alone = -(shares @ np.log(shares)) if tuning.scoring == "log_loss" else variance
    return min(1.0, min(c.score for c in last_round(tuning)) / alone)


def weights_by_definition(tuning, n, shares):
    """Weight of every candidate of the last round."""
    last, power = last_round(tuning), 1.5 * noise(tuning, shares)
    least = min(c.score for c in last)
    unit = 1.0 if tuning.scoring == "log_loss" else 2.0 * least
    return {c: sqrt(c.leaf_size**power * exp(-n * (c.score - least) / unit)) for c in last}


def sum_by(weights, key):
    sums = {}
    for c, weight in weights.items():
        sums[key(c)] = sums.get(key(c), 0.0) + weight
    return sums


def way_of(c):
    return c.splitter, c.max_features


@pytest.mark.parametrize("scoring", ["log_loss", "brier"])
@pytest.mark.parametrize("name", ["waves", "stairs", "three", "mixed"])
def test_shares_follow_the_definition(name, scoring):
    model = fitted(name, scoring=scoring)
    tuning = model.tuning_
    weights = weights_by_definition(tuning, 150, np.bincount(sample(name).y) / 150)
    kinds = sum_by(weights, lambda c: (c.aggregate, c.fill))
    chosen = max(kinds, key=kinds.get)
    assert (model.aggregate_, model.fill_) == chosen
    mine = {c: weight for c, weight in weights.items() if (c.aggregate, c.fill) == chosen}
    ways = sum_by(mine, way_of)
    most = dict(sorted(ways.items(), key=lambda entry: -entry[1])[:MOST_WAYS])
    used = {w: weight for w, weight in most.items() if weight >= LIGHT * sum(most.values())}
    assert {way_of(c) for c in tuning.members} == set(used)
    assert [part[:2] for part in tuning.blend] == list(used)
    for way, weight in used.items():
        sizes = {c: w for c, w in mine.items() if way_of(c) == way}
        heavy = {c: w for c, w in sizes.items() if w >= NEGLIGIBLE * max(sizes.values())}
        for c, w in heavy.items():
            assert c.weight == pytest.approx(weight / sum(used.values()) * w / sum(heavy.values()))
        assert {c for c in tuning.members if way_of(c) == way} == set(heavy)
    assert sum(c.weight for c in tuning.candidates) == pytest.approx(1.0)
    assert tuning.best == tuning.members[0]
    assert values_of(model) == {name: getattr(tuning.best, name) for name in FIXED}
    assert tuning.scoring == scoring
    assert tuning.n_rows == 150


def shares_in_trees(model):
    """Share of each leaf size and way, from how trees are read: what they say, times its factor."""
    out = {}
    for part, reading in zip(parts_by_reading(model), model.forest_.readings, strict=True):
        forest = model.forest_.trees(reading.first, reading.stop)
        counts = forest.fill(model.fill_)
        cut = forest.cut(reading.leaf_size)
        leaves = forest.training_leaves(0, forest.n_trees) + forest.starts[:-1, 1].astype(np.int32)
        out_of_bag = forest.draws().T == 0
        mass = np.minimum(1.0, cut.sums(counts).sum(axis=1))
        if model.aggregate_ == "proximity":
            mass = cut.sums(counts).sum(axis=1)
        said = (mass[cut.leads[leaves]] * out_of_bag).sum(axis=1).mean()
        out[part.splitter, part.max_features, reading.leaf_size] = reading.weight * said
    return {key: value / sum(out.values()) for key, value in out.items()}


def parts_by_reading(model):
    return [part for part in model.blend_ for _ in part.factors]


@pytest.mark.parametrize(("aggregate", "fill"), [("mean", "all"), ("mean", "inbag"), ("proximity", "inbag")])
def test_trees_and_factors_give_the_members_their_shares(aggregate, fill):
    model = fitted("waves", aggregate=aggregate, fill=fill, n_estimators=300)
    members = {(c.splitter, c.max_features, c.leaf_size): c.weight for c in model.tuning_.members}
    assert len(members) > 3
    assert shares_in_trees(model) == pytest.approx(members, rel=0.1)  # other trees than those that were tuned with


def test_parts_have_trees_in_proportion_to_their_shares():
    model = fitted("waves", n_estimators=300)
    assert len(model.blend_) > 1
    spans = {(r.first, r.stop) for r in model.forest_.readings}
    assert sorted(stop - first for first, stop in spans) == sorted(apportion([p.share for p in model.blend_], 300))
    assert sum(p.share for p in model.blend_) == pytest.approx(1.0)


def test_ties_go_to_the_larger_leaf():
    X = np.zeros((120, 2))  # nothing to cut: every leaf size is the same forest
    model = fit(X, np.arange(120) % 2)
    scores = {}
    for c in model.tuning_.candidates:
        scores.setdefault((c.n_trees, c.aggregate, c.fill), []).append(c.score)
    assert all(same == pytest.approx([same[0]] * len(same), abs=1e-9) for same in scores.values())
    assert model.tuning_.best.leaf_size == 108
    shares = [c.weight / c.leaf_size**0.75 for c in model.tuning_.members]
    assert shares == pytest.approx([shares[0]] * len(shares))


@pytest.mark.parametrize("share", [0.5, 0.7, 0.85])
def test_trees_of_a_single_cut_are_found_where_the_truth_is_a_step(share):
    rng = np.random.default_rng(1)
    X = rng.random((600, 3))
    model = fit(X, rng.random(600) < np.where(X[:, 0] < share, 0.2, 0.8), n_estimators=200)
    most = max(share, 1.0 - share)
    assert model.tuning_.best.leaf_size > most * 600  # else the larger side would be cut again
    queries = np.full((2, 3), 0.5)
    queries[:, 0] = 0.9 * share, 0.1 + 0.9 * share
    low, high = model.predict_proba(queries)[:, 1]
    assert low == pytest.approx(0.2, abs=0.08)
    assert high == pytest.approx(0.8, abs=0.08)


@pytest.mark.parametrize("scoring", ["log_loss", "brier"])
@pytest.mark.parametrize("name", ["waves", "boxes", "three", "nothing"])
def test_larger_leaves_are_granted_less_the_less_noise_there_is(name, scoring):
    X, y, _ = sample(name)
    tuning = fit(X, y, scoring=scoring).tuning_
    left = noise(tuning, np.bincount(y) / 150)
    unit = 1.0 if scoring == "log_loss" else 2.0 * min(c.score for c in last_round(tuning))
    for c in last_round(tuning):
        assert c.penalised == pytest.approx(c.score - 1.5 * left * unit * log(c.leaf_size) / 150)
    assert (left < 0.7) == (name in ("boxes", "three"))


def test_a_group_counts_as_one_row_in_the_weights():
    X, y, _ = sample()
    model = fit(np.repeat(X, 3, axis=0), np.repeat(y, 3), groups=np.repeat(np.arange(150), 3))
    weights = weights_by_definition(model.tuning_, 150, np.bincount(y) / 150)
    best = model.tuning_.best
    others = [c for c in model.tuning_.members if way_of(c) == way_of(best)]
    assert len(others) > 1
    for c in others:
        assert c.weight / best.weight == pytest.approx(weights[c] / weights[best])


def test_the_standard_error_of_the_best_is_zero_and_of_others_is_not():
    tuning = fitted().tuning_
    most = tuning.best.n_trees
    assert tuning.best.error == 0.0
    for c in tuning.candidates:
        assert 0.0 <= c.error < np.inf
    assert max(c.error for c in tuning.candidates if c.n_trees == most) > 0.01


def test_nothing_depends_on_whether_threads_are_shared_across_or_within_ways_to_grow(monkeypatch):
    drawn = sample("waves", 120)
    across = fit(drawn.X, drawn.y, max_features=1, n_jobs=3)
    monkeypatch.setattr("kernelforest.tuning.MANY_ROWS", 1)
    within = fit(drawn.X, drawn.y, max_features=1, n_jobs=3)
    for one, other in zip(across.tuning_.candidates, within.tuning_.candidates, strict=True):
        assert one._replace(seconds=0.0, error=0.0) == other._replace(seconds=0.0, error=0.0)
    np.testing.assert_array_equal(across.predict_proba(drawn.X), within.predict_proba(drawn.X))


def test_ways_to_grow_that_are_dropped_early_have_fewer_trees():
    tuning = fitted("waves", 300, n_estimators=400).tuning_
    ways = {}
    for c in tuning.candidates:
        ways.setdefault((c.splitter, c.max_features), set()).add(c.n_trees)
    assert all(len(trees) == 1 for trees in ways.values())
    trees = sorted(next(iter(t)) for t in ways.values())
    assert trees == sorted([100] * 4 + [200] * 4)  # eight ways: 2 ways to cut and mtry 1, 2, 3, 4
    assert set(ways) == {(splitter, mtry) for splitter in ("best", "extra") for mtry in range(1, 5)}


def test_every_candidate_is_tried_once():
    tuning = fitted("waves", 300, n_estimators=400).tuning_
    names = [tuple(c[:5]) for c in tuning.candidates]
    assert len(set(names)) == len(names)


def test_every_candidate_is_tried_once_with_random_cuts():
    names = [tuple(c[:5]) for c in fitted(splitter="random").tuning_.candidates]
    assert len(set(names)) == len(names)


def test_the_frame_has_one_line_per_candidate_and_the_best_first():
    tuning = fitted().tuning_
    frame = tuning.frame()
    assert len(frame) == len(tuning.candidates)
    assert tuple(frame.columns) == type(tuning.best)._fields
    assert tuple(frame.iloc[0]) == tuple(tuning.best)
    assert frame.n_trees.is_monotonic_decreasing


def test_the_frame_is_a_dict_without_pandas(monkeypatch):
    tuning = fitted().tuning_
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = tuning.frame()
    assert isinstance(found, dict)
    assert len(found["score"]) == len(tuning.candidates)


def test_seconds_count_every_way_to_grow_once():
    tuning = fitted().tuning_
    ways = {(c.splitter, c.max_features): c.seconds for c in tuning.candidates}
    assert tuning.seconds == pytest.approx(sum(ways.values()))
    assert tuning.seconds > 0.0


def assert_scores_are_those_of_forests(X, y, weight, candidates, **rules) -> None:
    """The score of a candidate is the out-of-bag loss of the forest grown with its values."""
    for c in candidates:
        values = {name: getattr(c, name) for name in FIXED}
        forest = fit(X, y, weight, untuned=True, **{**rules, **values, "n_estimators": c.n_trees}).forest_
        proba = forest.estimate_out_of_bag(c.aggregate, c.fill)[0]
        seen = forest.targets.weight > 0
        number = oracle.effective_number(forest.targets.weight[seen].tolist(), forest.targets.labels[seen].tolist())
        floor = 1.0 / (number * proba.shape[1] + 1)
        loss = losses(np.maximum(proba[seen], floor), forest.targets.labels[seen], "log_loss")
        assert c.score == pytest.approx(np.average(loss, weights=forest.targets.weight[seen]), abs=1e-5)


@pytest.mark.parametrize("name", ["waves", "three", "mixed"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_of_a_candidate_is_that_of_its_forest(name, weighted):
    problem, drawn = DEVELOPMENT[name], sample(name)
    weight = np.random.default_rng(0).integers(0, 4, 150).astype(float) if weighted else None
    rules = {"calibration": None, "categorical_features": list(problem.categorical)}
    tuning = fit(drawn.X, drawn.y, weight, **rules).tuning_
    assert not tuning.calibrated
    some = [tuning.best, *tuning.candidates[:: max(1, len(tuning.candidates) // 25)]]
    assert_scores_are_those_of_forests(drawn.X, drawn.y, weight, some, **rules)


@pytest.mark.parametrize(
    "rules",
    [
        {"max_depth": 4},
        {"bootstrap": False, "max_samples": 0.5},
        {"class_weight": "balanced"},
        pytest.param({"max_leaf_nodes": 12}),
    ],
)
def test_the_score_of_a_candidate_is_that_of_its_forest_under_other_rules(rules):
    drawn = sample()
    tuning = fit(drawn.X, drawn.y, calibration=None, **rules).tuning_
    some = [tuning.best, *tuning.candidates[:: len(tuning.candidates) // 25]]
    assert_scores_are_those_of_forests(drawn.X, drawn.y, None, some, calibration=None, **rules)


def test_the_standard_error_is_that_of_the_paired_difference():
    drawn = sample()
    tuning = fitted(calibration=None).tuning_

    def row_losses(c):
        values = {name: getattr(c, name) for name in FIXED}
        forest = fit(drawn.X, drawn.y, untuned=True, **{**values, "n_estimators": c.n_trees}).forest_
        proba = forest.estimate_out_of_bag(c.aggregate, c.fill)[0]
        return losses(np.maximum(proba, 1.0 / (proba.size + 1)), drawn.y, "log_loss")

    best = row_losses(tuning.best)
    last = [c for c in tuning.candidates if c.n_trees == tuning.best.n_trees]
    for c in last[:: len(last) // 10]:
        assert c.error == pytest.approx(mean_and_error(row_losses(c) - best, np.ones(150))[1], abs=1e-6)


def test_rows_of_weight_zero_add_no_leaf_sizes():
    X, y, _ = sample()
    padded = fit(np.tile(X, (5, 1)), np.tile(y, 5), np.repeat([1.0, 0.0], [150, 600]))
    tried = [{c.leaf_size for c in model.tuning_.candidates} for model in (fitted(), padded)]
    assert tried[0] == tried[1]


def test_the_unit_of_weights_changes_no_choice():
    X, y, _ = sample()
    weight = np.random.default_rng(0).integers(1, 4, 150).astype(float)
    one, other = fit(X, y, weight), fit(X, y, 1024.0 * weight)
    assert values_of(one) == values_of(other)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), rtol=1e-12)


# ---- what is fixed stays fixed ----


@pytest.mark.parametrize("names", SUBSETS, ids="+".join)
def test_only_what_is_open_is_tuned(names):
    X, y, _ = sample("friedman", 120)
    model = fit(X, y, n_estimators=50, **{name: FIXED[name] for name in names})
    for name in FIXED:
        tried = {getattr(c, name) for c in model.tuning_.candidates}
        assert (tried == {FIXED[name]}) if name in names else (len(tried) > 1)
    for name in names:
        assert getattr(model, f"{name}_") == FIXED[name]
    if "max_features" not in names:
        assert {c.max_features for c in model.tuning_.candidates} == set(mtry_candidates(10))


@pytest.mark.parametrize(("meant", "mtry"), [("sqrt", 4), ("third", 4), ("all", 10), (0.5, 5), (3, 3)])
def test_a_fixed_max_features_is_a_number_after_fitting(meant, mtry):
    X, y, _ = sample("friedman", 120)
    assert fit(X, y, n_estimators=50, max_features=meant).max_features_ == mtry


def test_the_splitter_alone_is_not_tuned():
    classic = {name: value for name, value in FIXED.items() if name != "splitter"}
    model = fitted(**classic)
    assert not hasattr(model, "tuning_")
    assert model.splitter_ == "best"


def test_plain_values_give_the_classic_forest():
    X, y, _ = sample()
    new = sample(seed=1).X
    values = {"max_features": 2, "leaf_size": 5, "aggregate": "proximity", "fill": "all"}
    plain, classic = fit(X, y, **values), fit(X, y, untuned=True, **values)
    assert not hasattr(plain, "tuning_")
    assert plain.calibration_.method is None
    np.testing.assert_array_equal(plain.forest_.nodes, classic.forest_.nodes)
    np.testing.assert_array_equal(plain.predict_proba(new), classic.predict_proba(new))


def test_untuned_is_the_classic_forest():
    model = fitted(untuned=True)
    assert not hasattr(model, "tuning_")
    assert model.calibration_.method is None
    expected = {"splitter": "best", "max_features": 2, "leaf_size": 1, "aggregate": "mean", "fill": "inbag"}
    assert values_of(model) == expected
    X = sample(seed=1).X
    np.testing.assert_array_equal(model.predict_proba(X), model.forest_.estimate(X, "mean", "inbag"))
    assert KernelForestClassifier.untuned(7, leaf_size=3, calibration="sigmoid").get_params()["calibration"] == "sigmoid"


@pytest.mark.parametrize(("aggregate", "fill"), list(product(["mean", "proximity"], ["inbag", "all", "oob"])))
def test_a_blend_adds_up_what_forests_of_its_parts_say(aggregate, fill):
    tuned = fitted("waves", aggregate=aggregate, fill=fill)
    X, y, _ = sample("waves")
    new = sample("waves", seed=1).X
    assert len(tuned.forest_.readings) > 2
    sums = np.zeros((len(new), 2))
    for part, (first, stop, size, weight) in zip(parts_by_reading(tuned), tuned.forest_.readings, strict=True):
        grown = {"splitter": part.splitter, "max_features": part.max_features, "leaf_size": size}
        fixed = fit(X, y, **grown, aggregate=aggregate, fill=fill)
        counts = counts_by_tree(fixed, fill)
        for tree, leaves in enumerate(fixed.apply(new).T):
            opinion = counts[tree][leaves]
            if aggregate == "mean":
                total = opinion.sum(axis=1, keepdims=True)
                opinion = np.divide(opinion, total, out=np.zeros_like(opinion), where=total > 0)
            sums += weight * opinion * (first <= tree < stop)
    expected = sums / sums.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(tuned.predict_proba(new, aggregate, fill), expected, atol=1e-12)


def counts_by_tree(model, fill):
    firsts = model.forest_.starts[:, 1]
    return [model.forest_.fill(fill)[a:b] for a, b in pairwise(firsts)]


def test_fitting_again_with_fixed_values_forgets_the_tuning():
    X, y, _ = sample()
    model = fit(X, y)
    assert hasattr(model, "tuning_")
    model.set_params(max_features=2, leaf_size=3, aggregate="mean", fill="inbag").fit(X, y)
    assert not hasattr(model, "tuning_")
    assert model.calibration_.method is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("scoring", "auc"), ("calibration", "platt"), ("aggregate", "median"), ("fill", "none"), ("leaf_size", "large")],
)
def test_an_unknown_word_is_named_with_its_value(name, value):
    X, y, _ = sample()
    with pytest.raises((TypeError, ValueError), match=name) as caught:
        fit(X, y, **{name: value})
    assert value in str(caught.value)


def test_progress_is_shown_when_asked_for(capsys):
    X, y, _ = sample()
    fit(X, y, verbose=1)
    shown = capsys.readouterr().err
    assert "tuning with" in shown
    assert "growing" in shown
    fit(X, y)
    assert capsys.readouterr().err == ""


# ---- calibration ----


@pytest.mark.parametrize("name", ["waves", "three"])
@pytest.mark.parametrize("method", [None, "auto", *METHODS])
def test_calibrated_probabilities_sum_to_one(name, method):
    model = fitted(name, calibration=method)
    if method != "auto":
        assert model.calibration_.method == method
    for proba in (model.predict_proba(sample(name, seed=1).X), model.oob_proba_):
        assert proba.min() >= 0.0
        np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-9)


def test_without_calibration_probabilities_are_the_raw_estimate():
    model = fitted(calibration=None)
    X = sample(seed=1).X
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X, model.aggregate_, model.fill_))
    np.testing.assert_array_equal(model.predict_proba(X), model.forest_.estimate(X, model.aggregate_, model.fill_))
    np.testing.assert_array_equal(model.oob_proba_, model.forest_.estimate_out_of_bag(model.aggregate_, model.fill_)[0])


@pytest.mark.parametrize("method", METHODS)
def test_predicted_probabilities_are_the_calibrated_estimate(method):
    model = fitted(calibration=method)
    X = sample(seed=1).X
    raw = model.predict_proba(X, model.aggregate_, model.fill_)
    np.testing.assert_array_equal(model.predict_proba(X), model.calibration_.calibrator(raw))
    assert not np.array_equal(model.predict_proba(X), raw)


@pytest.mark.parametrize("method", ["sigmoid", "beta"])
def test_out_of_bag_probabilities_are_calibrated_without_the_row(method):
    model = fitted("waves", 300, calibration=method)
    raw = model.forest_.estimate_out_of_bag(model.aggregate_, model.fill_)[0]
    with_it = model.calibration_.calibrator(raw)
    assert not np.array_equal(model.oob_proba_, with_it)
    assert abs(model.oob_proba_ - with_it).mean() < 0.03  # folds may take either kind of sigmoid, so tails differ by more
    y = sample("waves", 300).y
    assert model.oob_score_.log_loss > losses(with_it, y, "log_loss").mean()  # a map that knows the row flatters it


@pytest.mark.parametrize("calibration", [None, "sigmoid"])
def test_a_prior_multiplies_the_odds_after_calibration(calibration):
    X, y, _ = sample()
    prior = np.array([0.9, 0.1])
    plain, moved = fitted(calibration=calibration), fit(X, y, calibration=calibration, prior=prior)
    for before, after in ((plain.predict_proba(X), moved.predict_proba(X)), (plain.oob_proba_, moved.oob_proba_)):
        expected = before * prior / (np.bincount(y) / len(y))
        np.testing.assert_allclose(after, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def test_a_forest_of_fixed_values_is_calibrated_when_asked_for():
    model = fitted(untuned=True, calibration="isotonic")
    assert model.calibration_.method == "isotonic"
    assert not hasattr(model, "tuning_")


def test_calibration_needs_rows_left_out():
    X, y, _ = sample()
    with pytest.raises(ValueError, match=r"calibration='sigmoid' needs out-of-bag rows: set bootstrap=True"):
        fit(X, y, untuned=True, bootstrap=False, calibration="sigmoid")


def test_predict_takes_the_class_of_the_largest_calibrated_probability():
    model = fitted("three")
    X = sample("three", seed=1).X
    np.testing.assert_array_equal(model.predict(X), model.classes_[model.predict_proba(X).argmax(axis=1)])


# ---- reproducible, to the last bit ----


def every_number(model: KernelForestClassifier, X) -> list:
    scores = [(c.score, c.error, c.penalised) for c in model.tuning_.candidates]
    return [model.forest_.nodes, model.predict_proba(X), model.oob_proba_, np.array(scores)]


def assert_same_bits(one: list, other: list) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", ["waves", "three"])
def test_tuning_does_not_depend_on_the_number_of_threads(name):
    X, y, _ = sample(name)
    alone = every_number(fit(X, y, n_jobs=1), X)
    for n_jobs in (2, 3):
        assert_same_bits(alone, every_number(fit(X, y, n_jobs=n_jobs), X))


def test_fitting_again_gives_the_same_bits():
    X, y, _ = sample()
    model = fit(X, y)
    before = every_number(model, X)
    assert_same_bits(before, every_number(model.fit(X, y), X))
    assert_same_bits(before, every_number(clone(model).fit(X, y), X))


def test_a_pickled_model_keeps_its_tuning():
    X = sample().X
    model = fitted()
    other = pickle.loads(pickle.dumps(model))
    assert_same_bits(every_number(model, X), every_number(other, X))
    assert other.tuning_.best == model.tuning_.best


# ---- inside scikit-learn ----


def estimator(**rules) -> KernelForestClassifier:
    return KernelForestClassifier(**{"n_estimators": 50, "random_state": 0, **rules})


def test_a_clone_has_the_same_open_parameters():
    model = clone(fitted())
    assert not hasattr(model, "forest_")
    for name in (*FIXED, "calibration"):
        assert getattr(model, name) == "auto"  # fitting wrote nothing into them


def test_a_pipeline_tunes_like_the_forest_alone():
    X, y, _ = sample()
    pipeline = make_pipeline(StandardScaler(), estimator()).fit(X, y)
    assert_same_bits([pipeline.predict_proba(X)], [pipeline[-1].predict_proba(pipeline[0].transform(X))])
    # ranks decide, so scaling changes nothing but the spots of random cuts, and those by rounding
    alone = estimator().fit(X, y)
    assert values_of(pipeline[-1]) == values_of(alone)
    np.testing.assert_allclose(pipeline.predict_proba(X), alone.predict_proba(X), atol=1e-6)


def test_a_pipeline_may_hand_over_frames():
    X, y, _ = sample()
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), estimator()).set_output(transform="pandas").fit(frame, y)
    assert pipeline[-1].feature_names_in_.tolist() == list("abcd")
    assert pipeline.predict_proba(frame).shape == (150, 2)


def test_cross_validation_tunes_in_every_fold():
    X, y, _ = sample("stairs", 200)
    scores = cross_val_score(estimator(), X, y, cv=3, scoring="neg_log_loss")
    assert (scores > -log(2)).all()


def test_a_calibrated_classifier_takes_a_tuned_forest():
    X, y, _ = sample("stairs", 200)
    proba = CalibratedClassifierCV(estimator(calibration=None), cv=3).fit(X, y).predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_a_grid_search_over_leaf_sizes_fixes_them():
    X, y, _ = sample("stairs", 200)
    search = GridSearchCV(estimator(), {"leaf_size": [1, 50, "auto"]}, cv=2, scoring="neg_log_loss").fit(X, y)
    best = search.best_params_["leaf_size"]
    assert best == "auto" or search.best_estimator_.leaf_size_ == best
    assert search.cv_results_["mean_test_score"][0] < search.cv_results_["mean_test_score"].max()


# ---- small, rare, one, many ----


@pytest.mark.filterwarnings("ignore:calibration=.* is not done")
@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("calibration", ["auto", "sigmoid", "isotonic", "venn-abers", "beta"])
def test_with_fewer_than_ten_rows_nothing_is_tuned(n, calibration):
    X, y = np.arange(float(n))[:, None], np.arange(n) % 2
    why = "y has one class only" if n == 1 else f"{n} rows are too few"
    with pytest.warns(TuningWarning, match=f"{why}, so nothing is tuned"):
        model = fit(X, y, calibration=calibration)
    assert not hasattr(model, "tuning_")
    assert values_of(model) == {"splitter": "best", "max_features": 1, "leaf_size": 1, "aggregate": "mean", "fill": "inbag"}
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize("n", [10, 50, 99])
def test_fewer_than_a_hundred_rows_give_a_warning_that_says_what_to_do(n):
    X, y, _ = sample("waves", n)
    with pytest.warns(TuningWarning, match=rf"out-of-bag scores of {n} rows are noisy.*fix more parameters") as told:
        model = fit(X, y)
    assert len(told) == 1
    assert hasattr(model, "tuning_")
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_a_warning_points_to_the_line_that_called_fit():
    X, y, _ = sample("waves", 50)
    with pytest.warns(TuningWarning) as told:
        KernelForestClassifier(60).fit(X, y)
    assert told[0].filename == __file__


def test_few_trees_give_a_warning_that_says_what_to_do():
    X, y, _ = sample()
    with pytest.warns(TuningWarning, match=r"n_estimators=10 .* about 4 out-of-bag trees.*use 100 or more"):
        model = fit(X, y, n_estimators=10)
    assert model.forest_.n_trees == 10
    with pytest.warns(TuningWarning, match="n_estimators=1 "):
        model = fit(X, y, n_estimators=1)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_values_that_are_fixed_give_no_warning():
    X, y, _ = sample("waves", 30)
    fit(X, y, untuned=True, n_estimators=5)


def test_a_rare_class_is_named():
    rng = np.random.default_rng(0)
    X, y = rng.random((150, 3)), np.array(["often"] * 148 + ["seldom"] * 2)
    with pytest.warns(TuningWarning, match=r"fewer than 10 rows of class 'seldom' \(2\)"):
        model = fit(X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert abs(proba[:, 1].mean() - 2 / 150) < 0.05


def test_a_hundred_classes_of_three_rows():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(100), 3)
    X = np.column_stack([y + rng.normal(0, 0.1, 300), rng.random(300)])
    with pytest.warns(TuningWarning, match=r"'0' \(3\), '1' \(3\), '2' \(3\) and 97 more"):
        model = fit(X, y, splitter="best")
    proba = model.predict_proba(X)
    assert proba.shape == (300, 100)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert model.oob_score_.log_loss < log(100)


@pytest.mark.filterwarnings("ignore:calibration=.* is not done")
def test_one_class_needs_no_choice():
    X = sample().X
    with pytest.warns(TuningWarning, match="one class only"):
        model = fit(X, np.full(150, "only"))
    assert not hasattr(model, "tuning_")
    np.testing.assert_array_equal(model.predict_proba(X), 1.0)
    for method in METHODS:
        with pytest.warns(TuningWarning, match="one class only"):
            model = fit(X, np.full(150, "only"), calibration=method)
        np.testing.assert_allclose(model.predict_proba(X), 1.0)


def test_a_class_without_weight_is_no_obstacle():
    X, y, _ = sample("three", 200)
    with pytest.warns(TuningWarning, match=r"class '2' \(0\)"):
        model = fit(X, y, (y < 2).astype(float))
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    assert proba[:, 2].max() < 0.05


@pytest.mark.parametrize("rules", [{}, {"max_samples": 1.0}, {"leaf_size": 5}])
def test_without_rows_left_out_the_error_says_what_to_do(rules):
    X, y, _ = sample()
    law = r"needs out-of-bag rows: set bootstrap=True or max_samples below 1.0, or fix them"
    with pytest.raises(ValueError, match=law) as caught:
        fit(X, y, bootstrap=False, **rules)
    assert "max_features" in str(caught.value)
    assert ("leaf_size" in str(caught.value)) == ("leaf_size" not in rules)


def test_half_of_the_rows_without_replacement_are_enough_to_tune():
    model = fitted(bootstrap=False, max_samples=0.5)
    assert model.inbag_counts_.max() == 1
    assert max(c.leaf_size for c in model.tuning_.candidates) == 9 * 75 // 10


def test_categorical_and_missing_values_are_tuned_like_others():
    problem, drawn = DEVELOPMENT["mixed"], sample("mixed", 400)
    X = drawn.X.copy()
    X[::7, 1] = np.nan
    X[::5, 6] = np.nan
    model = fit(X, drawn.y, categorical_features=list(problem.categorical))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.oob_score_.log_loss < log(2)


# ---- what it buys ----


def errors_against_truth(name: str, repetitions: int, make, n: int = 300) -> np.ndarray:
    out = []
    for seed in range(repetitions):
        X, y, _ = sample(name, n, seed)
        new = sample(name, 1000, 1000 + seed)
        proba = make(200, random_state=seed).fit(X, y).predict_proba(new.X)
        out.append(sqrt(((proba - new.p) ** 2).mean()))
    return np.array(out)


@pytest.mark.parametrize("name", ["corner", "waves", "rare-step"])
@pytest.mark.filterwarnings("ignore::kernelforest.tuning.TuningWarning")  # rare classes
def test_the_default_is_closer_to_the_truth_than_the_untuned_forest(name):
    tuned = errors_against_truth(name, 10, KernelForestClassifier)
    classic = errors_against_truth(name, 10, KernelForestClassifier.untuned)
    mean, error = mean_and_error(classic - tuned, np.ones(10))
    assert mean > 2 * error
    assert mean > 0.01


def test_where_there_is_no_signal_probabilities_stay_near_the_base_rate():
    errors = errors_against_truth("nothing", 4, KernelForestClassifier)
    assert errors.mean() < 0.08
    assert errors_against_truth("nothing", 2, KernelForestClassifier.untuned).min() > 0.08
