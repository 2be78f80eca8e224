"""Groups: rows that belong together are drawn together, so out-of-bag means from groups the tree has not seen."""

from __future__ import annotations

from warnings import catch_warnings, simplefilter

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn import datasets
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oracle
from kernelforest import KernelForestClassifier, TuningWarning
from kernelforest.binning import code_table
from kernelforest.copies import FEW_COPIES, find_copies, share_of_near_copies
from kernelforest.labels import read_groups
from kernelforest.scoring import mean_and_error
from oracle import draw_table

KINDS = ("missing", "numeric", "categorical")
quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def fit(X, y, groups, weight=None, *, tuned: bool = False, **rules) -> KernelForestClassifier:
    make = KernelForestClassifier if tuned else KernelForestClassifier.untuned
    return make(**{"n_estimators": 60 if tuned else 10, "random_state": 0, **rules}).fit(X, y, weight, groups=groups)


def repeated(seed: int = 0, n_groups: int = 40, size: int = 6):
    """Near-copies of one row per group, and labels that say nothing but the group."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_groups), size)
    X = np.repeat(rng.random((n_groups, 4)), size, axis=0) + rng.normal(0, 1e-3, (n_groups * size, 4))
    y = np.repeat(rng.permutation(np.arange(n_groups) % 2), size)
    order = rng.permutation(len(y))
    return X[order], y[order], groups[order]


def counts_by_group(model: KernelForestClassifier, groups) -> dict:
    return {g: model.inbag_counts_[groups == g] for g in np.unique(groups)}


# ---- what is drawn ----


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    n_groups=st.integers(1, 20),
    sampling=st.sampled_from([{}, {"bootstrap": False, "max_samples": 0.5}, {"max_samples": 0.7}]),
    splitter=st.sampled_from(["best", "extra", "random"]),
)
@quick
def test_the_rows_of_a_group_are_drawn_together(seed, n, n_groups, sampling, splitter):
    table = draw_table(seed, n, KINDS, 2)
    groups = np.random.default_rng(seed).integers(0, n_groups, n)
    model = fit(table.X, table.y, groups, splitter=splitter, random_state=seed, **sampling)
    drawn = counts_by_group(model, groups)
    units = np.array([counts[0] for counts in drawn.values()])
    for counts in drawn.values():
        np.testing.assert_array_equal(counts, np.broadcast_to(counts[0], counts.shape))
    share = sampling.get("max_samples", 1.0)
    np.testing.assert_array_equal(units.sum(axis=0), max(1, int(share * len(drawn) + 1e-9)))
    if not sampling.get("bootstrap", True):
        assert units.max() == 1


def test_a_row_out_of_bag_has_no_group_in_bag():
    X, y, groups = repeated()
    drawn = fit(X, y, groups).inbag_counts_ > 0
    for tree in drawn.T:
        assert not set(groups[tree]) & set(groups[~tree])
        assert len(set(groups[~tree])) > 5  # about a third of 40


def test_the_root_holds_every_row_of_the_drawn_groups():
    table = draw_table(1, 50, KINDS, 3)
    groups = np.random.default_rng(0).integers(0, 9, 50)
    model = fit(table.X, table.y, groups, categorical_features=table.categorical)
    forest = model.forest_
    np.testing.assert_array_equal(forest.sizes[forest.starts[:-1, 0]], model.inbag_counts_.sum(axis=0))


@pytest.mark.parametrize("weighted", [False, True])
def test_estimates_with_groups_follow_the_definition(weighted):
    table = draw_table(1, 50, KINDS, 3)
    groups = np.random.default_rng(0).integers(0, 12, 50)
    weights = np.random.default_rng(1).integers(0, 4, 50).astype(float) if weighted else np.ones(50)
    model = fit(table.X, table.y, groups, weights, categorical_features=table.categorical, leaf_size=4)
    training, counts = table.training(weights, 3), model.inbag_counts_
    draws = np.array([counts[groups == g].max(axis=0) for g in groups])  # a row without weight is seen with its group
    for aggregate in oracle.AGGREGATES:
        expected = oracle.probabilities(model.forest_, table.X, training, draws, aggregate, "inbag")
        np.testing.assert_allclose(model.predict_proba(table.X, aggregate), expected, rtol=1e-9, atol=1e-12)
        expected = oracle.out_of_bag_probabilities(model.forest_, training, draws, aggregate, "inbag")
        np.testing.assert_allclose(model.forest_.estimate_out_of_bag(aggregate, "inbag")[0], expected, rtol=1e-9, atol=1e-12)


def test_every_group_is_drawn_equally_often():
    X, y, groups = repeated(n_groups=15, size=2)
    counts = fit(X, y, groups, n_estimators=3000).inbag_counts_
    mean, error = counts.mean(axis=1), counts.std(axis=1) / np.sqrt(3000)
    assert (abs(mean - 1.0) < 4 * error).all()


def test_max_samples_counts_groups():
    X, y, groups = repeated()
    for given_as in (7, 0.2):
        counts = fit(X, y, groups, bootstrap=False, max_samples=given_as).inbag_counts_
        np.testing.assert_array_equal(counts.sum(axis=0), 6 * (7 if given_as == 7 else 8))
    with pytest.raises(ValueError, match=r"max_samples must be an integer from 1 to the number of rows or groups \(40\)"):
        fit(X, y, groups, max_samples=41)


# ---- groups of one row are rows ----


@pytest.mark.parametrize("splitter", ["best", "extra", "random", "random-observed"])
def test_groups_of_one_row_change_nothing(splitter):
    table = draw_table(3, 80, KINDS, 3)
    rules = {"categorical_features": table.categorical, "splitter": splitter}
    one, other = (fit(table.X, table.y, g, **rules) for g in (None, np.arange(80)))
    np.testing.assert_array_equal(one.inbag_counts_, other.inbag_counts_)
    np.testing.assert_array_equal(one.forest_.nodes, other.forest_.nodes)
    np.testing.assert_array_equal(one.predict_proba(table.X), other.predict_proba(table.X))


def test_groups_of_one_row_change_no_tuned_forest_either():
    table = draw_table(3, 150, KINDS, 2, grid=100)
    one, other = (fit(table.X, table.y, g, tuned=True, fill="inbag") for g in (None, np.arange(150)))
    np.testing.assert_array_equal(one.predict_proba(table.X), other.predict_proba(table.X))
    assert [c[:5] for c in one.tuning_.candidates] == [c[:5] for c in other.tuning_.candidates]
    scores = [[c.score for c in model.tuning_.candidates] for model in (one, other)]
    np.testing.assert_allclose(*scores, rtol=1e-12)


def test_names_of_groups_do_not_matter_but_their_order():
    X, y, groups = repeated()
    names = np.array([f"person {g:03d}" for g in groups])
    one = fit(X, y, groups)
    for same in (names, groups * 10 - 5, names.tolist(), pd.Series(names), pd.Categorical(names), groups.astype(float)):
        np.testing.assert_array_equal(fit(X, y, same).inbag_counts_, one.inbag_counts_)


# ---- weights ----


def test_rows_of_weight_zero_are_never_drawn_nor_do_their_groups_count():
    X, y, groups = repeated()
    weight = np.ones(len(y))
    weight[::5] = 0.0
    weight[groups < 10] = 0.0
    model = fit(X, y, groups, weight)
    counts = model.inbag_counts_
    assert counts[weight == 0].max() == 0
    seen = weight > 0
    for g in np.unique(groups[seen]):
        mine = counts[seen & (groups == g)]
        np.testing.assert_array_equal(mine, np.broadcast_to(mine[0], mine.shape))
    units = np.array([counts[seen & (groups == g)][0] for g in np.unique(groups[seen])])
    assert len(units) == 30
    np.testing.assert_array_equal(units.sum(axis=0), 30)


def test_rows_of_weight_zero_are_out_of_bag_only_where_their_group_is():
    X, y, groups = repeated(n_groups=60)
    weight = np.where(np.arange(len(y)) % 4 == 0, 0.0, 1.0)
    weight[groups == 3] = 0.0
    model = fit(X, y, groups, weight, n_estimators=100)
    counts, drawn = model.forest_.draws(), model.inbag_counts_
    assert not drawn[weight == 0].any()
    for g in np.unique(groups):
        mine = counts[:, groups == g]
        np.testing.assert_array_equal((mine == 0).all(axis=1), (mine == 0).any(axis=1))
    told = model.oob_proba_[np.arange(len(y)), y]
    assert abs(told[weight == 0].mean() - told[weight > 0].mean()) < 0.1  # each group is a coin: nothing can be known
    matrix = model.kernel_.matrix(kind="inbag", dense=True)
    assert (matrix >= 0).all()
    assert not matrix[:, weight == 0].any()


def test_tuning_works_with_groups_and_rows_of_weight_zero():
    X, y, groups = repeated()
    weight = np.where(np.arange(len(y)) % 5 == 0, 0.0, 1.0)
    model = fit(X, y, groups, weight, tuned=True)
    assert model.tuning_.n_rows == (weight > 0).sum()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


# ---- tuning ----


def entropy(y) -> float:
    shares = np.bincount(y) / len(y)
    return float(-shares @ np.log(shares))


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.filterwarnings("ignore:about .* of rows have another row of the same class")
def test_repeated_rows_flatter_a_forest_that_does_not_know_of_them(tuned):
    gains = []
    for seed in range(10):
        X, y, groups = repeated(seed)
        flattered, honest = (fit(X, y, g, tuned=tuned, n_estimators=60).oob_score_.log_loss for g in (None, groups))
        assert flattered < 0.2
        gains.append(entropy(y) - honest)
    mean, error = mean_and_error(np.array(gains), np.ones(10))
    assert mean < 2 * error  # no better than the base rate


def test_with_groups_only_the_in_bag_fill_is_tried():
    X, y, groups = repeated()
    model = fit(X, y, groups, tuned=True)
    assert {c.fill for c in model.tuning_.candidates} == {"inbag"}
    assert {c.aggregate for c in model.tuning_.candidates} == {"mean", "proximity"}
    assert max(c.leaf_size for c in model.tuning_.candidates) == 9 * len(y) // 10


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("fill", ["all", "oob"])
def test_other_fills_are_refused_with_groups(tuned, fill):
    X, y, groups = repeated()
    with pytest.raises(ValueError, match=f"fill must be 'inbag' or 'auto' with groups, got '{fill}'"):
        fit(X, y, groups, tuned=tuned, fill=fill)


def test_the_standard_error_counts_groups():
    # six near-copies of a row tell no more than one: errors are about as large as those of one row per group
    rng = np.random.default_rng(0)
    n_groups = 120
    Z = rng.random((n_groups, 3))
    hit = (rng.random(n_groups) < 0.2 + 0.6 * (Z[:, 0] > 0.5)).astype(int)
    groups = np.repeat(np.arange(n_groups), 6)
    rules = {"tuned": True, "calibration": None, "max_features": 1, "splitter": "best", "aggregate": "mean", "fill": "inbag"}
    grouped = fit(np.repeat(Z, 6, axis=0), np.repeat(hit, 6), groups, **rules).tuning_
    single = fit(Z, hit, None, **rules).tuning_
    worst = [max(c.error for c in tuning.candidates) for tuning in (grouped, single)]
    assert 0.5 < worst[0] / worst[1] < 2.0


def test_few_groups_are_left_untuned():
    X, y, groups = repeated(n_groups=9, size=20)
    with pytest.warns(TuningWarning, match="9 groups are too few"):
        assert not hasattr(fit(X, y, groups, tuned=True), "tuning_")
    X, y, groups = repeated(n_groups=10, size=20)
    with pytest.warns(TuningWarning, match="scores of 10 groups, however"):
        assert hasattr(fit(X, y, groups, tuned=True), "tuning_")


def test_one_group_leaves_nothing_out():
    X, y, _ = repeated(n_groups=10, size=2)
    with pytest.warns(TuningWarning, match="1 groups are too few"):
        model = fit(X, y, np.zeros(20), tuned=True)
    assert (model.inbag_counts_ == 1).all()
    with pytest.warns(UserWarning, match="20 of 20 rows were drawn by every tree"):
        np.testing.assert_allclose(model.oob_proba_, 0.5)


@pytest.mark.parametrize("calibration", ["sigmoid", "isotonic"])
def test_out_of_bag_probabilities_are_calibrated_without_the_group(calibration):
    losses = []
    for seed in range(6):  # 40 groups may tell something by chance
        X, y, groups = repeated(seed)
        losses.append(fit(X, y, groups, tuned=True, calibration=calibration).oob_score_.log_loss)
    assert np.mean(losses) > entropy(y) - 0.02


def test_threads_change_nothing_with_groups():
    X, y, groups = repeated()
    one, two = (fit(X, y, groups, tuned=True, n_jobs=n) for n in (1, 2))
    assert one.predict_proba(X).tobytes() == two.predict_proba(X).tobytes()
    assert one.oob_proba_.tobytes() == two.oob_proba_.tobytes()


# ---- at the door ----


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (np.zeros(5), r"groups must have shape \(240,\), got \(5,\)"),
        (np.zeros((240, 1)), r"groups must have shape \(240,\), got \(240, 1\)"),
        (np.where(np.arange(240) == 7, np.nan, 1.0), "groups must have no missing values, got one at row 7"),
        (np.array([None if i == 3 else "a" for i in range(240)], object), "no missing values, got one at row 3"),
        (np.array(["a", 1] * 120, object), "groups must hold values of one kind"),
        ([*"ab" * 119, "nan", np.nan], "groups must have no missing values, got one at row 239"),
        (["1", 1] * 120, "groups must hold values of one kind"),
        (np.ma.array(np.arange(240), mask=np.arange(240) == 5), "groups must have no missing values, got one at row 5"),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups, reason):
    X, y, _ = repeated()
    with pytest.raises(ValueError, match=reason):
        fit(X, y, groups)


def test_groups_are_numbered_in_sorted_order():
    assert read_groups(["b", "a", "b", "c"], 4).tolist() == [1, 0, 1, 2]
    assert read_groups(None, 4) is None


# ---- inside scikit-learn ----


def test_groups_reach_the_forest_through_a_pipeline():
    X, y, groups = repeated()
    pipeline = make_pipeline(StandardScaler(), KernelForestClassifier.untuned(10, random_state=0))
    pipeline.fit(X, y, kernelforestclassifier__groups=groups)
    np.testing.assert_array_equal(pipeline[-1].inbag_counts_, fit(X, y, groups).inbag_counts_)


def test_cross_validation_hands_groups_to_every_fold():
    X, y, groups = repeated(n_groups=60)
    model = KernelForestClassifier(50, random_state=0)
    rules = {"cv": GroupKFold(3), "scoring": "neg_log_loss", "error_score": "raise"}
    scores = cross_val_score(model, X, y, groups=groups, params={"groups": groups}, **rules)
    assert scores.mean() < -0.9 * np.log(2)  # nothing can be learned about new groups


def test_a_warning_counts_rows_or_groups():
    X, y, groups = repeated(n_groups=10, size=6)
    with pytest.warns(TuningWarning, match="scores of 60 rows"):
        fit(X, y, groups, tuned=True)
    X, y, groups = repeated(n_groups=20, size=6)
    with pytest.warns(TuningWarning, match="scores of 20 groups, however"):
        fit(X, y, groups, tuned=True)


# ---- copies ----


def oversampled(seed: int = 0, n: int = 800):
    """A rare class, drawn again and again until there are as many hits as misses, and where each row is from."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = (rng.random(n) < expit(X[:, 0] - 2.0)).astype(int)
    hits, misses = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    rows = np.concatenate([misses, rng.choice(hits, len(misses))])
    return X[rows], y[rows], rows


def test_copies_are_drawn_together_and_warned_of():
    X, y, rows = oversampled()
    model = KernelForestClassifier(100, random_state=0)
    with pytest.warns(TuningWarning, match=rf"{len(y) - len(np.unique(rows))} of {len(y):,} rows are copies of others"):
        found = clone(model).fit(X, y)
    told = clone(model).fit(X, y, groups=np.unique(X, axis=0, return_inverse=True)[1])
    assert found.oob_score_.log_loss > 0.5  # each row twice or more: 0.01 if copies count as others
    assert found.oob_score_.log_loss == pytest.approx(told.oob_score_.log_loss, rel=0.1)
    for g in np.unique(rows):
        assert np.ptp(found.inbag_counts_[rows == g], axis=0).max() == 0


def test_copies_are_noticed_beside_rows_that_do_not_count():
    X, y, rows = oversampled()
    others = np.random.default_rng(9).normal(size=(300, 4))
    model = KernelForestClassifier(60, random_state=0)
    with pytest.warns(TuningWarning, match=rf"{len(y) - len(np.unique(rows))} of {len(y):,} rows are copies of others"):
        model.fit(np.vstack([X, others]), np.append(y, np.zeros(300)), np.repeat([1.0, 0.0], [len(y), 300]))


def test_rows_that_agree_but_not_in_their_labels_are_no_copies():
    rng = np.random.default_rng(0)
    shop = rng.integers(0, 60, 400)  # each described by two numbers
    X, y = rng.normal(size=(60, 2))[shop], (rng.random(400) < rng.beta(0.4, 0.4, 60)[shop]).astype(int)
    model = KernelForestClassifier(60, random_state=0)
    with catch_warnings():
        simplefilter("error", TuningWarning)
        model.fit(X, y)
    told = clone(model).fit(X, y, groups=np.arange(400))
    assert model.oob_score_.log_loss == pytest.approx(told.oob_score_.log_loss, abs=0.03)  # as copies: higher by 0.25


def test_a_copy_has_the_label_of_its_row():
    X = np.random.default_rng(0).normal(size=(260, 3))
    X[200:] = X[:60]
    labels = (X[:, 0] > 0).astype(int)
    labels[-2:] = 1 - labels[-2:]  # few contradict, so that the others are copies
    numbers = find_copies(code_table(X), labels, np.arange(260))
    np.testing.assert_array_equal(numbers[200:-2], numbers[:58])
    assert (numbers[-2:] != numbers[58:60]).all()


def test_copies_are_drawn_alike_whatever_the_order_of_the_columns():
    X, y, _ = oversampled()
    model = KernelForestClassifier(60, random_state=0)
    with pytest.warns(TuningWarning, match="are copies of others"):
        there, back = clone(model).fit(X, y), clone(model).fit(X[:, ::-1], y)
    np.testing.assert_array_equal(there.inbag_counts_, back.inbag_counts_)
    np.testing.assert_array_equal(there.predict_proba(X), back.predict_proba(X[:, ::-1]))


def test_groups_of_one_row_each_are_no_groups():
    X, y, _ = oversampled()
    model = KernelForestClassifier(60, random_state=0)
    with catch_warnings():
        simplefilter("error", TuningWarning)
        one_by_one = clone(model).fit(X, y, groups=np.arange(len(y)))
        assert clone(model).set_params(fill="all").fit(X, y, groups=np.arange(len(y))).fill_ == "all"
    assert {c.fill for c in one_by_one.tuning_.candidates} == {"inbag", "all", "oob"}


@pytest.mark.parametrize("seed", range(20))
def test_copies_are_the_rows_that_agree_in_every_column(seed):
    rng = np.random.default_rng(seed)
    which = rng.integers(0, rng.integers(60, 120), 150)
    rows, labels = rng.normal(size=(120, 3))[which], rng.integers(0, 2, 120)[which]
    counted = np.sort(rng.permutation(150)[: rng.integers(120, 151)])
    numbers = find_copies(code_table(rows), labels, counted)
    together = {tuple(row) for row in rows[counted]}
    if len(together) > (1.0 - FEW_COPIES) * len(counted):
        assert numbers is None
    else:
        np.testing.assert_array_equal(np.equal.outer(numbers, numbers), (rows[:, None] == rows).all(axis=2))


def measured(kind: str):
    """Units that were measured three times, or only look so."""
    rng = np.random.default_rng(0)
    if kind == "curve":  # all columns tell the same
        t = rng.random(300)
        return np.column_stack([t, t**2, np.sin(5.0 * t)]), (rng.random(300) < t).astype(int)
    units = rng.normal(size=(100, 5))
    unit = np.repeat(np.arange(100), 3)
    noise = {"repeated": 0.02, "labels": 0.02, "far": 1.0}[kind]
    X = units[unit] + noise * rng.normal(size=(300, 5))
    drawn = rng.random(300 if kind == "labels" else 100) < 0.5
    return X, (drawn if kind == "labels" else drawn[unit]).astype(int)


def test_near_copies_are_warned_of():
    X, y = measured("repeated")
    model = KernelForestClassifier(60, random_state=0)
    with pytest.warns(TuningWarning, match=r"about \d+% of rows have another row of the same class much nearer than chance"):
        model.fit(X, y)
    assert model.oob_score_.log_loss < 0.2  # of coin tosses: this is what the warning is about
    with catch_warnings():
        simplefilter("error", TuningWarning)
        clone(model).fit(X, y, groups=np.repeat(np.arange(100), 3))


@pytest.mark.parametrize("kind", ["curve", "labels", "far"])
def test_rows_that_are_near_by_nature_are_not(kind):
    X, y = measured(kind)
    with catch_warnings():
        simplefilter("error", TuningWarning)
        KernelForestClassifier(60, random_state=0).fit(X, y)


@pytest.mark.parametrize("name", ["breast_cancer", "diabetes", "wine", "iris"])
def test_no_data_set_of_scikit_learn_has_many_near_copies(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    assert share_of_near_copies(code_table(X), (y > np.median(y)).astype(int), np.arange(len(y))) < 0.2


@pytest.mark.parametrize("how", ["untuned", "groups", "levels", "one column", "few"])
def test_copies_are_left_alone(how):
    X, y, rows = oversampled()
    if how == "few":
        some = np.unique(rows, return_index=True)[1]
        X, y = (np.concatenate([values[some], values[some[:20]]]) for values in (X, y))
    X = {"levels": X.round(0), "one column": X[:, :1]}.get(how, X)
    make = KernelForestClassifier.untuned if how == "untuned" else KernelForestClassifier
    with catch_warnings():
        simplefilter("error", TuningWarning)
        make(60, random_state=0).fit(X, y, groups=rows if how == "groups" else None)


@pytest.mark.parametrize("rules", [{"fill": "all"}, {"fill": "oob"}, {"max_samples": 300}])
def test_copies_that_cannot_be_drawn_together_are_warned_of(rules):
    X, y, _ = oversampled()
    with pytest.warns(TuningWarning, match="are copies of others.*so out-of-bag scores flatter.*leave these open, or give"):
        model = KernelForestClassifier(60, random_state=0, **rules).fit(X, y)
    assert model.forest_.targets.groups is None
    X, y = measured("repeated")
    with pytest.warns(TuningWarning, match="much nearer than chance"):
        KernelForestClassifier(60, random_state=0, **rules).fit(X, y)
