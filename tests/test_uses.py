"""Maps, outliers, prototypes and imputation against their definitions, on our forests and others'."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest.displays import MapDisplay
from kernelforest.kernel import KINDS
from kernelforest.uses import impute, map_rows, outliers, prototypes

quick = settings(max_examples=25, deadline=None)


def drawn(n, seed, n_classes=2, gaps=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.append(np.arange(n_classes), (X[n_classes:, 0] > 0) + (n_classes - 2) * (X[n_classes:, 1] > 1))
    X[rng.random(X.shape) < gaps] = np.nan
    return X, y.astype(int)


def own_kernel(X, y, **how):
    return KernelForestClassifier.untuned(30, random_state=0, **how).fit(X, y).kernel_


@given(n=st.integers(8, 40), seed=st.integers(0, 99), kind=st.sampled_from(sorted(set(KINDS) - {"path"})))
@quick
def test_blocks_and_operators_are_the_matrix(n, seed, kind):
    X, y = drawn(n, seed)
    kernel = own_kernel(X, y)
    for rows in (None, X[:5] + 0.1):
        K = kernel.matrix(rows, kind=kind, dense=True)
        parts = [(rows_, part.toarray()) for rows_, part in kernel.blocks(rows, kind=kind, size=3)]
        np.testing.assert_array_equal(np.concatenate([part for _, part in parts]), K)
        assert [r.start for r, _ in parts] == list(range(0, len(K), 3))
        if kind == "leaf":
            v, u = np.random.default_rng(seed).normal(size=(n, 2)), np.arange(len(K), dtype=float)
            np.testing.assert_allclose(kernel.operator(rows) @ v, K @ v, atol=1e-12)
            np.testing.assert_allclose(kernel.operator(rows) @ v[:, 0], K @ v[:, 0], atol=1e-12)
            np.testing.assert_allclose(kernel.operator(rows).T @ u, K.T @ u, atol=1e-12)


def test_blocks_refuse_what_they_cannot_do():
    kernel = own_kernel(*drawn(20, 0))
    with pytest.raises(ValueError, match="kind='path' is dense"):
        kernel.blocks(kind="path")
    with pytest.raises(ValueError, match="size must be an integer >= 1, got 0"):
        kernel.blocks(size=0)
    with pytest.raises(ValueError, match="dtype must be float64 or float32"):
        kernel.blocks(dtype=int)
    with pytest.raises(TypeError, match="real numbers, got complex128"):
        kernel.operator() @ np.full(20, 1j)


@given(n=st.integers(5, 40), seed=st.integers(0, 99))
@quick
def test_distances_on_a_map_of_all_directions_are_those_of_the_kernel(n, seed):
    X, y = drawn(n, seed)
    kernel = own_kernel(X, y, leaf_size=3)
    found = map_rows(kernel, n - 1)
    apart = ((found.coordinates[:, None] - found.coordinates) ** 2).sum(axis=2)
    np.testing.assert_allclose(apart, 2.0 - 2.0 * kernel.matrix(dense=True), atol=1e-8)
    np.testing.assert_allclose(found.transform(X), found.coordinates, atol=1e-8)
    assert found.shares.sum() == pytest.approx(1.0)
    assert (np.diff(found.shares) <= 1e-12).all()


def test_a_map_of_many_rows_is_that_of_the_whole_kernel():
    X, y = drawn(600, 0)
    model = KernelForestClassifier(50, random_state=0).fit(X, y)  # a blend, trees at several leaf sizes
    found = map_rows(model.kernel_, 3)
    K = model.kernel_.matrix(dense=True)
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    values, vectors = np.linalg.eigh(centred)
    for j in range(3):
        v = vectors[:, -1 - j] * np.sqrt(values[-1 - j])
        np.testing.assert_allclose(found.coordinates[:, j], v * np.sign(v @ found.coordinates[:, j]), atol=1e-6)
    np.testing.assert_allclose(found.shares, values[:-4:-1] / np.trace(centred), rtol=1e-8)
    np.testing.assert_allclose(found.transform(X), found.coordinates, atol=1e-6)
    assert repr(found).startswith("KernelMap(600 rows, 3 directions")
    assert list(found.frame()) == ["direction 1", "direction 2", "direction 3"]


def test_a_map_where_all_rows_are_alike_is_a_point():
    leaves = [[0, 0]] * 5
    found = map_rows(ForestKernel.from_model((leaves, lambda X: leaves), None))
    assert (found.coordinates == 0).all()
    assert (found.shares == 0).all()
    assert (found.transform([0] * 5) == 0).all()
    many = np.zeros((300, 2), int)  # more than are taken apart as a whole
    assert (map_rows(ForestKernel.from_model((many, lambda X: many), None)).coordinates == 0).all()
    with pytest.raises(ValueError, match="n_components must be an integer from 1 to 4, one less than training rows, got 5"):
        map_rows(found.kernel, 5)


def loops_outliers(K, own, n_classes):
    """The definition, of training rows among each other."""
    n = len(K)
    raw = [sum(own == own[i]) / (1 + sum(K[i, j] ** 2 for j in range(n) if j != i and own[j] == own[i])) for i in range(n)]
    out = []
    for i in range(n):
        mine = np.array([raw[j] for j in range(n) if own[j] == own[i]])
        middle = np.median(mine)
        around = np.abs(mine - middle)
        out.append((raw[i] - middle) / (np.median(around) or around.mean() or 1.0))
    return np.array(out)


def test_pictures_of_maps():
    X, y = drawn(80, 0, 3)
    with pytest.raises(ValueError, match="n_prototypes must be an integer >= 0, got -1"):
        MapDisplay.from_kernel(own_kernel(X, y), n_prototypes=-1)
    shown = MapDisplay.from_kernel(own_kernel(X, np.array(["one", "$two$", "3"])[y]), n_prototypes=2).plot()
    assert 3 < len(shown.stars) <= 6
    assert [t.get_text() for t in shown.ax_.get_legend().get_texts()] == [
        "y = $two$".replace("$", r"\$"),
        "y = 3",
        "y = one",
        "prototype",
    ]
    assert len(shown.ax_.collections) == 3
    assert len(shown.frame()) == 80
    numbers = ForestKernel.from_model(RandomForestRegressor(5, random_state=0).fit(X, X[:, 0]), X, X[:, 0])
    np.testing.assert_array_equal(MapDisplay.from_kernel(numbers).plot().ax_.collections[0].get_array(), X[:, 0])
    unknown = ForestKernel.from_model(RandomForestRegressor(5, random_state=0).fit(X, X[:, 0]), X)
    plain = MapDisplay.from_kernel(unknown).plot()
    assert plain.ax_.get_legend() is None
    plt.close("all")


def test_a_small_share_of_distances_is_not_called_none():
    rng = np.random.default_rng(0)
    shown = MapDisplay.from_kernel(own_kernel(rng.normal(size=(400, 5)), rng.integers(0, 2, 400))).plot()
    plt.close("all")
    assert 0.0 < shown.found.shares[1] < 0.095
    assert shown.ax_.get_ylabel() == f"direction 2, {100 * shown.found.shares[1]:.2g}% of squared distances"
    assert f"{100 * shown.found.shares.sum():.2g}% of squared distances" in repr(shown.found)


@given(n=st.integers(8, 40), seed=st.integers(0, 99), n_classes=st.integers(2, 3))
@quick
def test_outliers_are_their_definition(n, seed, n_classes):
    X, y = drawn(n, seed, n_classes)
    kernel = own_kernel(X, y)
    for kind in ("leaf", "oob"):
        expected = loops_outliers(kernel.matrix(kind=kind, dense=True), y, n_classes)
        np.testing.assert_allclose(outliers(kernel, kind=kind).scores, expected, atol=1e-9)
    found, new = outliers(kernel), X[:6] + 0.05
    np.testing.assert_array_equal(found.scores, outliers(kernel, kind="oob").scores)
    by_label = np.array([found.transform(new, np.full(6, c)) for c in range(n_classes)])
    np.testing.assert_array_equal(found.transform(new), by_label.min(axis=0))


def test_rows_that_were_moved_away_are_outliers():
    """Ten rows of each class are given the features of another: by kind "oob" they stand out, as new rows and as old."""
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 200)
    X = rng.normal(size=(400, 4)) + 3.0 * (y == "b")[:, None]
    moved = np.concatenate([np.arange(10), 200 + np.arange(10)])
    X[moved] = rng.normal(size=(20, 4)) + 3.0 * (y[moved] == "a")[:, None]
    model = KernelForestClassifier(random_state=0).fit(X, y)
    found = outliers(model.kernel_)
    shown = found.frame().head(20)
    assert set(shown["row"]) == set(moved)
    assert shown["label"].tolist() == y[shown["row"]].tolist()
    assert shown["score"].is_monotonic_decreasing
    assert np.median(found.scores) < 1.0
    assert repr(found) == f"Outliers({(found.scores > 10).sum()} of 400 training rows above ten)"
    new, labels = rng.normal(size=(50, 4)), np.array(["a"] * 50)
    assert np.median(found.transform(new, labels)) < 1.0
    assert found.transform(new, np.array(["b"] * 50)).min() > 5.0
    with pytest.raises(ValueError, match=r"labels must be among \['a', 'b'\], got c"):
        found.transform(new, ["c"] * 50)
    with pytest.raises(ValueError, match="labels must be 50, one for each row of X"):
        found.transform(new, ["a"])


@pytest.mark.parametrize("kind", ["oob", "gap"])
def test_rows_that_every_tree_drew_are_no_outliers_but_unknown(kind):
    """Similar to nobody, as no tree looks at them from outside, they had been the oddest of all."""
    X, y = drawn(200, 0)
    forest = BaggingClassifier(n_estimators=8, max_samples=0.8, bootstrap=False, random_state=0).fit(X, y)
    kernel = ForestKernel.from_model(forest, X, y)
    unseen = (kernel._training.draws() > 0).all(axis=0)
    assert 20 < unseen.sum() < 60
    found = outliers(kernel, kind=kind)
    np.testing.assert_array_equal(np.isnan(found.scores), unseen)
    assert set(found.frame()["row"].tail(unseen.sum())) == set(np.flatnonzero(unseen))
    assert np.median(found.scores[~unseen & (y == 0)]) == pytest.approx(0.0)
    assert np.isfinite(found.transform(X[unseen], y[unseen])).all()
    assert np.isfinite(outliers(kernel, kind="leaf").scores).all()


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_labels_may_be_dates(unit):
    X, y = drawn(60, 0)
    days = np.array(["2026-01-01", "2026-01-02"], f"M8[{unit}]")[y]
    kernel = own_kernel(X, days)
    expected = outliers(own_kernel(X, y)).transform(X[:9], y[:9])
    np.testing.assert_array_equal(outliers(kernel).transform(X[:9], days[:9]), expected)
    assert kernel.explain(X[0], label=days[0]).target == pd.Timestamp(days[0])


def test_outliers_of_a_regression_are_of_one_class():
    X, _ = drawn(60, 0)
    kernel = ForestKernel.from_model(RandomForestRegressor(20, random_state=0).fit(X, X[:, 0]), X, X[:, 0])
    expected = loops_outliers(kernel.matrix(kind="oob", dense=True), np.zeros(60, int), 1)
    np.testing.assert_allclose(outliers(kernel).scores, expected, atol=1e-9)
    with pytest.raises(ValueError, match="labels must be left out"):
        outliers(kernel).transform(X, X[:, 0])


def loops_prototypes(K, own, n, k):
    """The definition: most rows of the class that are not covered, among the k nearest and the row itself."""
    near = []
    for i in range(len(K)):
        others = sorted((j for j in range(len(K)) if j != i and K[i, j] > 0), key=lambda j: (-K[i, j], j))
        near.append(others[:k])
    out = []
    for c in sorted(set(own)):
        bare = {i for i in range(len(K)) if own[i] == c}
        for _ in range(n):
            if not bare:
                break

            def worth(i, bare=bare):
                mine = [j for j in near[i] if j in bare]
                return len(mine) + (i in bare), round(sum(K[i, j] for j in mine), 9), -i

            best = max((i for i in range(len(K)) if own[i] == c), key=worth)
            covered = ({best} | set(near[best])) & bare
            bare -= covered
            out.append((c, best, covered))
    return out


@given(n=st.integers(8, 30), seed=st.integers(0, 99), k=st.integers(1, 7))
@quick
def test_prototypes_are_their_definition(n, seed, k):
    X, y = drawn(n, seed)
    kernel = own_kernel(X, y, leaf_size=2)
    found, expected = prototypes(kernel, 3, k), loops_prototypes(kernel.matrix(dense=True).round(12), y, 3, k)
    assert found.label.tolist() == [c for c, _, _ in expected]
    assert found.covered.tolist() == [len(covered) for _, _, covered in expected]
    assert found.rows.tolist() == [row for _, row, _ in expected]
    medians = [np.median(X[sorted(covered)], axis=0) for _, _, covered in expected]
    np.testing.assert_allclose(found.typical, medians)
    assert (found.low <= found.typical).all()
    assert (found.typical <= found.high).all()


def test_prototypes_show_levels_and_dates_as_they_are():
    rng = np.random.default_rng(0)
    kind = rng.choice(["oak", "elm", "ash"], 200)
    day = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, 200), "D")
    frame = pd.DataFrame({"kind": kind, "day": day, "label": rng.normal(size=200)})
    model = KernelForestClassifier.untuned(50, random_state=0).fit(frame, np.where(kind == "oak", "yes", "no"))
    found = prototypes(model.kernel_, 2)
    shown = found.frame()
    assert list(shown)[:4] == ["label", "row", "covered", "share"]
    assert (shown.loc[shown["label"] == "yes", "kind"] == "oak").all()
    assert shown["day"].between("2026-01-01", "2026-12-31").all()
    assert "feature label" in shown
    assert shown.loc[1, "share"] == (shown.loc[0, "covered"] + shown.loc[1, "covered"]) / (kind != "oak").sum()
    assert repr(found) == f"Prototypes({len(found)} rows of 2 classes)"


def test_prototypes_need_no_table_and_stand_infinities():
    leaves = [[0, 0], [0, 0], [0, 0], [1, 1], [1, 2]]
    found = prototypes(ForestKernel.from_model((leaves, lambda X: leaves), None, ["a"] * 3 + ["b"] * 2), n=2, k=2)
    assert found.rows.tolist() == [0, 3]
    assert found.typical.shape == (2, 0)
    table = [[1.0], [np.inf], [np.inf], [-np.inf], [2.0]]
    endless = prototypes(ForestKernel.from_model((leaves, lambda X: leaves), table), n=2, k=2)
    assert endless.typical.ravel().tolist() == [np.inf, -np.inf]
    with pytest.raises(ValueError, match="prototypes need two training rows or more, got one"):
        prototypes(ForestKernel.from_model(([[0]], lambda X: [[0]]), None))


@given(n=st.integers(10, 40), seed=st.integers(0, 99))
@quick
def test_imputed_numbers_are_averages_by_similarity(n, seed):
    X, y = drawn(n, seed, gaps=0.2)
    kernel = own_kernel(X, y, leaf_size=2)
    new = drawn(7, seed + 1000, gaps=0.3)[0]
    for table in (X, new):
        given = table.copy()
        K, found = kernel.matrix(table, dense=True), impute(kernel, table)
        np.testing.assert_array_equal(table, given)  # it was copied
        for i, j in zip(*np.nonzero(np.isnan(table)), strict=True):
            known = [r for r in range(n) if not np.isnan(X[r, j])]
            mass = sum(K[i, r] for r in known)
            mean = sum(K[i, r] * X[r, j] for r in known) / mass if mass > 1e-12 else np.mean([X[r, j] for r in known])
            assert found[i, j] == pytest.approx(mean, abs=1e-9) if known else np.isnan(found[i, j])
        np.testing.assert_array_equal(found[~np.isnan(table)], table[~np.isnan(table)])


def mixed(n=300, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n)
    return pd.DataFrame(
        {
            "size": size,
            "kind": np.where(size > 0, "large", "small"),
            "day": pd.Timestamp("2026-06-01") + pd.to_timedelta(np.round(100 * size), "D"),
            "count": np.round(10 * size).astype(int),
            "seen": pd.Timestamp("2026-06-01", tz="Asia/Tokyo") + pd.to_timedelta(np.round(100 * size), "D"),
        }
    )


def gappy(frame):
    out = frame.astype({"count": "Int64", "kind": "category"})
    for j, name in enumerate(out):
        out.loc[out.index % 11 == j, name] = None
    return out


def check_mixed(found, frame):
    """Whatever is missing was in a table where all columns go with one: near the truth, of the same type."""
    gaps = gappy(frame).isna()
    assert not found.isna().any().any()
    assert (found["kind"] == frame["kind"])[gaps["kind"]].mean() > 0.8
    assert np.abs((found["day"] - frame["day"])[gaps["day"]]).median() < pd.Timedelta("60D")
    assert np.abs((found["seen"] - frame["seen"])[gaps["seen"]]).median() < pd.Timedelta("60D")
    assert np.abs((found["size"] - frame["size"])[gaps["size"]]).median() < 0.6
    assert np.abs((found["count"] - frame["count"])[gaps["count"]]).median() < 6
    kept = ~gaps["count"]
    assert (found["count"][kept] == frame["count"][kept]).all()


def test_frames_stay_frames():
    frame = mixed()
    y = frame["size"] + 0.3 * np.random.default_rng(1).normal(size=len(frame)) > 0
    table = gappy(frame)
    model = KernelForestClassifier(200, random_state=0).fit(table, y)
    found = impute(model.kernel_, table)
    check_mixed(found, frame)
    assert found["kind"].dtype == table["kind"].dtype
    assert found[["day", "seen"]].dtypes.tolist() == table[["day", "seen"]].dtypes.tolist()
    assert table.isna().any().any()  # it was copied
    turned = impute(model.kernel_, pl.from_pandas(table))
    assert turned.schema["kind"] == pl.from_pandas(table).schema["kind"]
    assert turned.schema["day"] == pl.from_pandas(table).schema["day"]
    check_mixed(turned.to_pandas(), frame)
    new = gappy(mixed(50, 5)).set_index(np.arange(100, 150))
    assert impute(model.kernel_, new).index.tolist() == new.index.tolist()
    whole = mixed(5, 6)
    pd.testing.assert_frame_equal(impute(model.kernel_, whole), whole)


def test_levels_that_training_did_not_see_are_no_gaps():
    X = pd.DataFrame({"a": ["x", "y"] * 20, "b": np.arange(40.0)})
    kernel = own_kernel(X, np.arange(40) > 19)
    new = pd.DataFrame({"a": ["z", None], "b": [1.0, np.nan]})
    found = impute(kernel, new)
    assert found.loc[0, "a"] == "z"
    assert found.loc[1, "a"] in ("x", "y")
    assert found["b"].notna().all()


def test_what_nobody_has_stays_missing():
    X = np.column_stack([np.arange(30.0), np.full(30, np.nan)])
    kernel = own_kernel(X, np.arange(30) > 14)
    assert np.isnan(impute(kernel, X)[:, 1]).all()
    assert impute(kernel, [[None, None]])[0, 0] == pytest.approx(14.5, abs=6)


def test_columns_without_any_value_get_the_type_of_training():
    frame = mixed(100)
    kernel = own_kernel(frame, frame["size"] > 0)
    empty = pd.DataFrame(
        {"size": [np.nan] * 2, "kind": [np.nan] * 2, "day": [np.nan] * 2, "count": [None] * 2, "seen": [None] * 2}
    )
    found = impute(kernel, empty)
    assert found["kind"].isin(["large", "small"]).all()
    assert found["day"].between("2025-01-01", "2027-12-31").all()
    assert found[["size", "count"]].notna().all().all()
    turned = impute(kernel, pl.DataFrame({name: pl.Series([None, None]) for name in frame}))
    assert turned["kind"].is_in(["large", "small"]).all()
    assert turned.null_count().sum_horizontal()[0] == 0
    partly = empty.assign(kind=pd.Categorical([None, "small"], categories=["small"]), size=np.float32([9.0, np.nan]))
    found = impute(kernel, partly)
    assert found["kind"].notna().all()
    assert found["size"].dtype == np.float32
    named = pl.DataFrame(
        {**{name: pl.Series([None, None]) for name in frame}, "kind": pl.Series([None, "small"], dtype=pl.Enum(["small"]))}
    )
    assert impute(kernel, named.with_columns(size=pl.lit(9.0)))["kind"].to_list() == ["large", "small"]


def test_masked_values_are_gaps():
    X, y = drawn(60, 0)
    kernel = own_kernel(X, y)
    masked = np.ma.masked_equal(np.array([[999.0, 0.1, 0.2]]), 999.0)
    assert abs(impute(kernel, masked)[0, 0]) < 3
    with pytest.raises(TypeError, match="X must be dense"):
        impute(kernel, csr_array(X))
    leaves = [[0], [0]]
    with pytest.raises(ValueError, match="the training table is not known"):
        impute(ForestKernel.from_model((leaves, lambda X: leaves), None), X)


def test_the_missing_value_of_xgboost_is_a_gap():
    xgboost = pytest.importorskip("xgboost")
    X, y = drawn(80, 0)
    X[::7, 1] = -999.0
    model = xgboost.XGBClassifier(n_estimators=5, missing=-999.0).fit(X, y)
    with pytest.warns(UserWarning, match="will differ from predict"):
        kernel = ForestKernel.from_model(model, X, y)
    assert impute(kernel, X).min() > -10


def test_whole_numbers_become_fractions_where_a_gap_was_one_of_them():
    xgboost = pytest.importorskip("xgboost")
    X = np.random.default_rng(0).integers(0, 9, (80, 3))
    y = X[:, 0] > 4
    X[::7, 1] = -999
    with pytest.warns(UserWarning, match="will differ from predict"):
        kernel = ForestKernel.from_model(xgboost.XGBClassifier(n_estimators=5, missing=-999).fit(X, y), X, y)
    np.testing.assert_array_equal(impute(kernel, X), impute(kernel, X.astype(float)))
    assert impute(kernel, X[1:6]).dtype == X.dtype  # no gap


def test_imputation_by_forests_of_others():
    X, y = drawn(80, 0, gaps=0.1)
    kernel = ForestKernel.from_model(RandomForestClassifier(30, random_state=0).fit(X, y), X, y)
    gaps, known = np.isnan(X), np.nan_to_num(X)
    found, K = impute(kernel, X), kernel.matrix(dense=True)
    np.testing.assert_array_equal(np.isnan(X), gaps)  # it was copied
    np.testing.assert_allclose(found[gaps], ((K @ known) / (K @ ~gaps))[gaps])
    frame = pd.DataFrame({"a": pd.Categorical(["u", "v"] * 10)})
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=3, min_child_samples=2, verbose=-1).fit(frame, np.arange(20) % 2)
    with pytest.raises(ValueError, match="hold no numbers can only be filled by forests of this package"):
        impute(ForestKernel.from_model(model, frame), frame)
