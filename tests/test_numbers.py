"""Numbers: what a table holds is neither merged, nor cut, nor wrapped around; where floats cannot hold it, it is refused."""

from __future__ import annotations

import pickle
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernelforest import KernelForestClassifier, KernelRegression, KernelRegressor
from kernelforest.analytic import fit_naive
from kernelforest.counting import numbers_of
from kernelforest.data import read_schema
from kernelforest.displays import LevelSetsDisplay, ProfileDisplay, VotingPointsDisplay
from kernelforest.kernel import ForestKernel
from kernelforest.moments import Moments, moments_of
from kernelforest.uses import impute
from kernelforest.wholes import Wholes, wholes_of

N = 400
RNG = np.random.default_rng(0)
BASE = 2**60  # as floats, numbers up to 128 above it are one
NEAR = RNG.permutation(N)  # added to it: every value once
COIN = RNG.integers(0, 2, N)
NOISE = RNG.normal(size=N)
STAMPS = np.datetime64(BASE, "ns") + NEAR.astype("m8[ns]")  # of 2006
ATTOSECONDS = {"as": 1, "ps": 10**6, "ns": 10**9, "us": 10**12, "s": 10**18, "h": 3600 * 10**18, "D": 86_400 * 10**18}


def pure(table, y=COIN, **rules) -> KernelForestClassifier:
    """A forest that remembers every row whose value is its own."""
    rules = {"max_features": "all", "bootstrap": False, "n_estimators": 3, "random_state": 0} | rules
    return KernelForestClassifier.untuned(**rules).fit(table, y)


def with_gap(values) -> list:
    return [None, *list(values)[1:]]


def stamps(v) -> pd.Series:
    return pd.Series((v + BASE).astype("M8[ns]"))


WHOLE_TABLES = {
    "numpy": lambda v: (v + BASE)[:, None],
    "numpy, beside others": lambda v: np.column_stack([v + BASE, v % 3]),
    "unsigned": lambda v: (v.astype(np.uint64) + np.uint64(2**63 + 5))[:, None],
    "negative": lambda v: (v - BASE)[:, None],
    "masked": lambda v: np.ma.masked_array((v + BASE)[:, None], (np.arange(len(v)) == 0)[:, None]),
    "objects": lambda v: np.array([[BASE + int(n), None] for n in v], dtype=object),
    "larger than int64": lambda v: np.array([[10**25 + int(n)] for n in v], dtype=object),
    "list": lambda v: [[BASE + int(n), 0.5] for n in v],
    "list with a gap": lambda v: [[n] for n in with_gap(BASE + int(n) for n in v)],
    "pandas": lambda v: pd.DataFrame({"id": v + BASE, "x": np.zeros(len(v))}),
    "pandas, nullable": lambda v: pd.DataFrame({"id": pd.array(with_gap(BASE + int(n) for n in v), dtype="Int64")}),
    "pandas, of Arrow": lambda v: pd.DataFrame(
        {"id": pd.array(with_gap(BASE + int(n) for n in v), dtype="uint64[pyarrow]")}
    ),
    "pandas, objects": lambda v: pd.DataFrame({"id": np.array(with_gap(BASE + int(n) for n in v), dtype=object)}),
    "polars": lambda v: pl.DataFrame({"id": with_gap(BASE + int(n) for n in v)}),
    "polars, 128 bits": lambda v: pl.DataFrame({"id": pl.Series([BASE + int(n) for n in v], dtype=pl.Int128)}),
}

MOMENT_TABLES = {
    "durations": lambda v: (v + BASE).astype("m8[ns]")[:, None],
    "dates": lambda v: (v + BASE).astype("M8[ns]")[:, None],
    "picoseconds": lambda v: v.astype("M8[ps]")[:, None],
    "list": lambda v: [[when, 0.5] for when in (v + BASE).astype("M8[ns]")],
    "pandas": lambda v: pd.DataFrame({"when": (v + BASE).astype("M8[ns]"), "x": np.zeros(len(v))}),
    "pandas, of a time zone": lambda v: pd.DataFrame(
        {"when": pd.Series((v + BASE).astype("M8[ns]")).dt.tz_localize("Asia/Tokyo")}
    ),
    "pandas, objects": lambda v: pd.DataFrame({"when": stamps(v).astype(object)}),
    "pandas, of Arrow": lambda v: pd.DataFrame({"when": stamps(v).astype(pd.ArrowDtype(pa.timestamp("ns", tz="UTC")))}),
    "pandas, durations": lambda v: pd.DataFrame({"when": v.astype("m8[ns]")}),
    "polars": lambda v: pl.DataFrame({"when": (v + BASE).astype("M8[ns]")}),
    "polars, durations": lambda v: pl.DataFrame({"when": v.astype("m8[ns]")}),
}


def column(table, name):
    """The first column of a table, or of what voting points show, as a list."""
    values = table[name] if hasattr(table, "columns") else [row[0] for row in table]
    if hasattr(values, "dtype") and str(values.dtype).startswith(("Datetime", "Duration")):  # of polars, whose lists are cut
        values = pd.Series(values.to_numpy())
    known = [None if v is None or v is pd.NA or v is np.ma.masked or v != v else v for v in values]
    return [exact(v) for v in known]


def exact(value):
    """A value that compares exactly: numpy compares integers with floats as floats, pandas dates in nanoseconds."""
    for method in ("to_datetime64", "to_timedelta64"):
        value = getattr(value, method)() if hasattr(value, method) else value
    if isinstance(value, np.datetime64 | np.timedelta64):
        return int(value.astype(np.int64)) * ATTOSECONDS[np.datetime_data(value.dtype)[0]]
    return value.item() if isinstance(value, np.integer | np.floating) else value


# ---- nothing becomes one ----


@pytest.mark.parametrize("kind", [*WHOLE_TABLES, *MOMENT_TABLES])
@pytest.mark.parametrize("splitter", ["best", "random"])
def test_values_one_apart_are_told_apart_however_a_table_keeps_them(kind, splitter):
    table = (WHOLE_TABLES | MOMENT_TABLES)[kind](NEAR)
    model = pure(table, splitter=splitter)
    assert (model.predict(table) == COIN).all()
    assert len(np.unique(model._matrix(table)[1:, 0])) == N - 1
    assert (pickle.loads(pickle.dumps(model)).predict(table) == COIN).all()


@pytest.mark.parametrize("kind", [*WHOLE_TABLES, *MOMENT_TABLES])
def test_voting_points_show_the_values_themselves(kind):
    table = (WHOLE_TABLES | MOMENT_TABLES)[kind](NEAR)
    frame = hasattr(table, "columns")
    points = pure(table, leaf_size=50).kernel_.voting_points(table[3:4] if frame else table[3]).frame()
    name = table.columns[0] if frame else "x0"
    values = column(table, name)
    assert len(points) > 20
    assert column(points, name) == [values[row] for row in points["row"]]


@pytest.mark.parametrize("splitter", ["best", "random", "random-observed"])
def test_cuts_fall_between_neighbours_among_floats(splitter):
    days = np.datetime64("2006-07-14", "ns") + np.append(NEAR, 103 * 86_400 * 10**9 + NEAR)  # as far apart as they may be
    for table in ((1.0 + NEAR * 2.0**-52)[:, None], (NEAR * 5e-324)[:, None], days[:, None]):
        y = np.append(COIN, 1 - COIN)[: len(table)]
        assert (pure(table, y, splitter=splitter).predict(table) == y).all()


@pytest.mark.parametrize("unit", ["D", "s", "us"])
def test_dates_beyond_the_reach_of_microseconds_keep_their_order(unit):
    years = np.array([-290_000, 1970, 200_000, 290_000, 294_000, 295_000, 10**6, 10**8])
    days = (years - 1970).astype("M8[Y]").astype("M8[D]")[: 5 if unit == "us" else None]
    table = np.repeat(days.astype(f"M8[{unit}]"), 5)[:, None]
    schema = read_schema(table)
    numbers = schema.matrix(table)[:, 0]
    assert (np.diff(numbers[::5]) > 0).all()
    assert (schema.shown(0, numbers) == table[:, 0]).all()
    assert (schema.matrix(days.astype("M8[D]")[:, None])[:, 0] == numbers[::5]).all()  # another unit


def test_durations_of_python_do_not_wrap_around():
    table = [[timedelta(days=days)] for days in (-(10**9) + 1, -1, 0, 1, 10**9 - 1)]
    numbers = read_schema(table).matrix(table)[:, 0]
    assert (np.diff(numbers) > 0).all()


def test_objects_of_several_units_are_read_in_the_finest_that_is_needed():
    mixed = [
        pd.Timestamp(BASE + 1),
        datetime(2006, 7, 14),
        np.datetime64("2006-07-15"),
        date(2006, 7, 16),
        pd.Period("2006-07-17", "D"),
    ]
    table = [[value] for value in mixed]
    shown = read_schema(table).shown(0, read_schema(table).matrix(table)[:, 0])
    assert shown.tolist()[0] == BASE + 1
    assert shown[1:].astype("M8[D]").astype(str).tolist() == ["2006-07-14", "2006-07-15", "2006-07-16", "2006-07-17"]
    with pytest.raises(ValueError, match="column 0 of X must hold dates, or durations, that fit in one unit of numpy"):
        read_schema([*table, [datetime(3000, 1, 1)]])
    whole = [[pd.Timestamp(BASE // 1000 * 1000)], [datetime(3000, 1, 1)]]
    assert (np.diff(read_schema(whole).matrix(whole)[:, 0]) > 0).all()  # microseconds will do


# ---- definitions ----

INT64 = st.integers(-(2**63) + 1, 2**63 - 1)


@given(INT64, st.lists(st.integers(0, 2**53), min_size=1, max_size=30), st.booleans())
@settings(deadline=None, max_examples=300, derandomize=True)
def test_whole_numbers_come_back(base, steps, as_objects):
    values = [min(base + step, 2**63 - 1) for step in steps]
    array = np.array(values, dtype=object if as_objects else np.int64)
    gaps = np.zeros(len(values), dtype=bool)
    way = wholes_of(array, gaps)
    numbers = way.numbers(array, gaps)
    assert way.shown(numbers).tolist() == values
    assert (numbers[:, None] < numbers).tolist() == [[a < b for b in values] for a in values]


@given(
    st.one_of(st.just(0), INT64, st.integers(0, 2**65)),
    st.one_of(INT64, st.integers(-(10**30), 10**30), st.floats(allow_nan=False)),
    st.floats(allow_nan=False),
)
@settings(deadline=None, max_examples=1_000, derandomize=True)
def test_a_new_whole_number_is_on_the_right_side_of_every_cut(origin, value, cut):
    distance = value - origin if isinstance(value, int) else np.inf * value if np.isinf(value) else Fraction(value) - origin
    for near in (cut, float(distance) if abs(distance) < 1e300 else cut):
        expected = distance <= near
        kept = np.array([value]) if isinstance(value, float) or abs(value) < 2**63 else np.array([value], dtype=object)
        found = Wholes(origin).numbers(kept, np.array([False]))[0]
        assert (found <= near) == expected or abs(distance) > 2**63  # there, beyond every cut


@given(st.sampled_from(list(ATTOSECONDS)), st.lists(INT64, min_size=2, max_size=20), st.booleans())
@settings(deadline=None, max_examples=300, derandomize=True)
def test_moments_come_back_or_are_refused(unit, ticks, near):
    if near:
        ticks = [ticks[0] // 2 + tick % 2**50 for tick in ticks]
    for kind in "mM":
        moments = np.array(ticks, f"{kind}8[{unit}]")
        way = moments_of(moments)
        assert way is not None or not near
        if way is not None:
            numbers = way.numbers(moments)
            assert (way.shown(numbers) == moments).all()
            assert (np.argsort(numbers, kind="stable") == np.argsort(np.array(ticks), kind="stable")).all()
            assert np.isnan(way.numbers(np.array(["NaT"], moments.dtype))).all()


@given(st.sampled_from(list(ATTOSECONDS)), INT64, st.integers(-(2**62), 2**62), st.floats(-1e19, 1e19))
@settings(deadline=None, max_examples=1_000, derandomize=True)
def test_a_new_date_in_any_unit_is_on_the_right_side_of_every_cut(unit, tick, origin, cut):
    microseconds = Fraction(tick * ATTOSECONDS[unit], 10**12) - origin
    assume(abs(microseconds) < 2**63)  # beyond it is cut off, as in the next test
    found = Moments("M", origin=origin).numbers(np.array([tick], f"M8[{unit}]"))[0]
    for near in (cut, float(microseconds)):
        rounded = 0 < abs(Fraction(near) - microseconds) < 2.0**-52  # thousandths of a microsecond are no floats
        assert (found <= near) == (microseconds <= near) or rounded


def test_what_is_out_of_reach_is_beyond_every_cut():
    model = pure((NEAR + BASE)[:, None], NEAR >= 200)
    far = [0, -(2**63), 2**63 - 1, 2**64 - 1, 10**30, -(10**30), -np.inf, np.inf, 0.5, -1e15, None]
    expected = [False, False, True, True, True, False, False, True, False, False]
    assert model.predict([[value] for value in far])[:-1].tolist() == expected
    assert model.predict(np.array([[0], [2**63 - 1]])).tolist() == [False, True]
    assert model.predict(np.array([[0], [2**64 - 1]], np.uint64)).tolist() == [False, True]
    dates = pure(STAMPS[:, None], NEAR >= 200)
    assert dates.predict(np.array([["-290000-01-01"], ["290000-01-01"]], "M8[us]")).tolist() == [False, True]
    assert dates.predict(np.array([["-9000000-01-01"], ["9000000-01-01"]], "M8[D]")).tolist() == [False, True]
    days = pure(np.arange("2020-01-01", "2020-01-31", dtype="M8[D]")[:, None], np.arange(30) >= 15)
    assert days.predict(np.array([["-9000000-01-01"], ["9000000-01-01"]], "M8[D]")).tolist() == [False, True]


# ---- refusals ----


def test_what_floats_cannot_tell_apart_is_refused_by_the_name_of_its_column():
    wide = RNG.integers(-(2**62), 2**62, N)
    year = np.datetime64("2020-01-01", "ns") + RNG.integers(0, 3 * 10**16, N)
    message = "column {} of X must hold numbers that a float64 can tell apart, .* leave it out or make it categorical"
    for table, name in (
        (pd.DataFrame({"x": NOISE, "id": wide}), "'id'"),
        (pl.DataFrame({"x": NOISE, "id": wide}), "'id'"),
        (np.column_stack([COIN, wide]), "1"),
        ([[0.5, int(n)] for n in wide], "1"),
        ([[10**25 * int(n)] for n in NEAR], "0"),
        ([[Decimal(1) + Decimal(int(n)) / 10**20] for n in NEAR], "0"),
        (np.ones((N, 1), np.longdouble) + (NEAR * np.finfo(np.longdouble).eps)[:, None], "0"),
    ):
        with pytest.raises(ValueError, match=message.format(name)):
            pure(table)
    message = "column {} of X must hold dates or durations that a float64 can tell apart, which are 103 days of nanoseconds"
    for table, name in (
        (pd.DataFrame({"x": NOISE, "when": year}), "'when'"),
        (year[:, None] - year[0], "0"),
        ([[when] for when in year], "0"),
    ):
        with pytest.raises(ValueError, match=message.format(name)):
            pure(table)
    assert (
        pure((year.astype("M8[us]"))[:, None]).predict(year.astype("M8[us]")[:, None]) == COIN
    ).all()  # as the error advises
    text = pd.DataFrame({"id": wide.astype(str)})
    assert (pure(text, categorical_features=["id"]).predict(text) == COIN).all()


def test_large_whole_numbers_that_became_floats_are_refused():
    frame = pd.DataFrame({"id": NEAR + BASE, "x": NOISE})
    model = pure(frame, NEAR >= 200, leaf_size=50)
    message = r"column 'id' of X must hold whole numbers, as in training, got {}"
    for wrong, value in (
        (frame.astype(float), r"1\.1529"),
        (frame.assign(id=frame["id"].where(frame.index > 0)), r"1\.1529"),  # pandas makes room for a gap
        (frame.assign(id=frame["id"].astype(str)), "'1152921504606"),
        (frame.assign(id=frame["id"] + 0j), r"\(1\.1529"),
    ):
        with pytest.raises(ValueError, match=message.format(value)):
            model.predict(wrong)
    with pytest.raises(ValueError, match=message.format(r"1\.1529")):
        model.kernel_.explain(frame.iloc[3])  # a row of pandas is of one type
    assert str(model.kernel_.explain(frame.iloc[[3]]))
    assert model.predict_proba(frame.assign(id=np.nan)).shape == (N, 2)


def test_numbers_that_floats_hold_are_floats_however_large():
    for table in (NEAR[:, None] * 2**53, np.column_stack([NEAR * 2.0**53, NEAR]), [[int(n) * 2**70] for n in NEAR]):
        model = pure(table)
        assert (model.predict(table) == COIN).all()
        assert set(model._matrix(table)[:, 0]) == set((NEAR * 2.0 ** (70 if isinstance(table, list) else 53)).tolist())
    prices = pl.DataFrame({"price": [Decimal(int(n)) / 100 for n in NEAR]})
    assert (pure(prices).predict(prices) == COIN).all()


def test_categories_that_are_dates_are_not_cut_to_microseconds():
    for table in (STAMPS[:, None], pl.DataFrame({"when": STAMPS}), (STAMPS - STAMPS[0])[:, None]):
        with pytest.raises(ValueError, match="must hold whole microseconds if it is categorical"):
            pure(table, categorical_features=[0])
    frame = pd.DataFrame({"when": STAMPS})
    assert (pure(frame, categorical_features=["when"]).predict(frame) == COIN).all()


@pytest.mark.parametrize("model", [KernelRegression(), KernelRegressor()], ids=["classes", "numbers"])
def test_kernel_regression_refuses_numbers_that_it_would_round(model):
    for table in ((NEAR + BASE)[:, None], pd.DataFrame({"x": NOISE, "id": NEAR + BASE})):
        name = "'id'" if hasattr(table, "columns") else 0
        with pytest.raises(ValueError, match=f"column {name} of X must hold numbers that a float64 holds"):
            model.fit(table, COIN)
    model.fit(NEAR[:, None], COIN)
    with pytest.raises(ValueError, match="must hold numbers that a float64 holds"):
        model.predict((NEAR + BASE)[:, None])


# ---- and back again ----


def test_gaps_beside_large_whole_numbers_are_filled_by_whole_numbers():
    ids = [None if i % 9 == 3 else BASE + int(n) for i, n in enumerate(NEAR)]
    for table in (
        pd.DataFrame({"id": pd.array(ids, dtype="Int64"), "x": NEAR}),
        pd.DataFrame({"id": pd.array(ids, dtype="int64[pyarrow]"), "x": NEAR}),
        pd.DataFrame({"id": np.array(ids, dtype=object), "x": NEAR}),
        pl.DataFrame({"id": ids, "x": NEAR}),
    ):
        filled = impute(pure(table, NEAR > 150, n_estimators=30, max_features=1).kernel_, table)["id"]
        assert filled.dtype == table["id"].dtype
        for before, after in zip(ids, filled.to_list(), strict=True):
            assert after == before if before is not None else BASE <= after < BASE + N
    rows = impute(
        pure([[i, n] for i, n in zip(ids, NEAR.tolist(), strict=True)], NEAR > 150).kernel_, [[None, 7], [ids[0], 7]]
    )
    assert rows[1, 0] == ids[0]
    assert BASE <= rows[0, 0] < BASE + N


def test_gaps_beside_nanoseconds_are_filled_by_nanoseconds():
    when = pd.Series(STAMPS).where(NEAR % 9 != 3)
    for kept in (
        when,
        when.dt.tz_localize("Asia/Tokyo"),
        when.astype(object),
        when.astype(pd.ArrowDtype(pa.timestamp("ns"))),
        when - when.min(),
    ):
        table = pd.DataFrame({"when": kept, "x": NEAR})
        filled = impute(pure(table, NEAR // 50 % 2, n_estimators=30, max_features=1).kernel_, table)["when"]
        assert filled.dtype == kept.dtype
        assert not filled.isna().any()
        assert filled[kept.notna()].tolist() == kept[kept.notna()].tolist()
        assert (filled.sort_values().diff().dropna() < pd.Timedelta(20, "ns")).all()  # none of them far from all others
        assert filled[kept.isna()].nunique() > 5
    table = pl.DataFrame({"when": when.to_numpy(), "x": NEAR})
    filled = impute(pure(table, NEAR > 150).kernel_, table)["when"]
    assert filled.dtype == table["when"].dtype
    assert (filled.to_numpy()[when.notna()] == STAMPS[when.notna()]).all()


def test_profiles_steps_and_grids_are_exact_to_the_nanosecond():
    frame = pd.DataFrame({"when": STAMPS, "x": NOISE})
    kernel = pure(frame, NEAR >= 200, leaf_size=10, n_estimators=20).kernel_
    row = frame[NEAR == 190]
    profile = kernel.profile(row, "when")
    assert profile.start == STAMPS[NEAR == 190][0]
    assert np.datetime64(profile.ends[0], "ns") in STAMPS
    steps = np.arange(-100, 150).astype("m8[ns]")
    moved = row.loc[row.index.repeat(250)].assign(when=row["when"].item() + steps)
    expected = kernel.matrix(moved, row, dense=True)[:, 0]
    for given_steps in (steps, steps.astype(np.int64) / 1e3, pd.to_timedelta(steps), [pd.Timedelta(step) for step in steps]):
        np.testing.assert_allclose(profile.at(given_steps), expected, atol=1e-12)
    assert len(np.unique(expected)) > 1
    found = kernel.derivatives(row, h=[np.timedelta64(15, "ns"), 0.1])
    assert found.h[0] == 0.015
    assert found.right[0, 0] * 0.015 == pytest.approx(profile.at(np.timedelta64(15, "ns")) - 1.0)
    grid = STAMPS[np.isin(NEAR, range(150, 250))]
    sets = kernel.level_sets(row, ("when", "x"), grid=(np.sort(grid), [0.0]))
    assert (sets.frame()["x"].to_numpy() == np.sort(grid)).all()
    at = row.loc[row.index.repeat(100)].assign(when=np.sort(grid), x=0.0)
    np.testing.assert_allclose(sets.k[:, 0], kernel.matrix(at, row, dense=True)[:, 0], atol=1e-12)


def test_profiles_and_grids_of_large_whole_numbers_are_exact():
    table = np.column_stack([NEAR + BASE, NEAR % 7])
    kernel = pure(table, NEAR >= 200, leaf_size=10, n_estimators=20).kernel_
    row = table[NEAR == 190]
    profile = kernel.profile(row, 0)
    assert profile.start == BASE + 190
    assert set(profile.ends.tolist()) <= set((NEAR + BASE).tolist())
    moved = np.repeat(row, 250, axis=0)
    moved[:, 0] += np.arange(-100, 150)
    np.testing.assert_allclose(profile.at(np.arange(-100, 150)), kernel.matrix(moved, row, dense=True)[:, 0], atol=1e-12)
    sets = kernel.level_sets(row, (0, 1), grid=(np.arange(150, 250) + BASE, [0, 3]))
    assert sets.frame()["x"].tolist() == np.repeat(np.arange(150, 250) + BASE, 2).tolist()
    moved = np.column_stack([np.arange(150, 250) + BASE, np.zeros(100, np.int64)])
    np.testing.assert_allclose(sets.k[:, 0], kernel.matrix(moved, row, dense=True)[:, 0], atol=1e-12)


def test_axes_say_from_where_large_whole_numbers_are_counted():
    frame = pd.DataFrame({"id": NEAR + BASE, "when": STAMPS})
    kernel, row = pure(frame, NEAR >= 200, leaf_size=20).kernel_, frame[NEAR == 190]
    middle = BASE + (N - 1) // 2
    assert ProfileDisplay.from_kernel(kernel, row, "id").plot().ax_.get_xlabel() == f"h, added to id = {BASE + 190}"
    points = VotingPointsDisplay.from_kernel(kernel, row, features=("id", "when"))
    for shown in (points, LevelSetsDisplay.from_kernel(kernel, row, ("id", "when"))):
        axes = shown.plot().ax_
        assert axes.get_xlabel() == f"id − {middle}"
        days = BASE / 86_400e9
        assert axes.get_ylim()[0] - 1e-6 < days < axes.get_ylim()[1] + 1e-6


# ---- dates as text ----


def test_dates_that_come_as_text_are_read_as_training_read_them():
    days = pd.Series(pd.date_range("2024-01-01", periods=N, freq="D"))
    frame = pd.DataFrame({"when": days, "x": NOISE})
    model = pure(frame)
    texts = days.dt.strftime("%Y-%m-%d")
    for text in (texts, texts.astype(object), texts.astype("category"), days.astype(str) + "T00:00:00.000000000"):
        assert (model.predict(frame.assign(when=text)) == COIN).all()
    assert (model.predict(pl.DataFrame({"when": texts.tolist(), "x": NOISE})) == COIN).all()
    assert (pure(days.to_numpy()[:, None]).predict([[text] for text in texts]) == COIN).all()
    gap = frame.assign(when=texts.where(frame.index > 0, None))
    np.testing.assert_array_equal(
        model.predict_proba(gap), model.predict_proba(frame.assign(when=days.where(frame.index > 0)))
    )
    zoned = frame.assign(when=days.dt.tz_localize("Asia/Tokyo"))
    told = zoned["when"].map(lambda when: when.isoformat())
    assert told[0] == "2024-01-01T00:00:00+09:00"
    assert (pure(zoned).predict(zoned.assign(when=told)) == COIN).all()


@pytest.mark.parametrize(
    "text", ["05/01/2024", "today", "1714521600", "", "2024-05-01T00:00:00+02:00", "2024-05-01T00:00:00.0000005"]
)
def test_text_that_is_no_date_is_refused_by_column_and_value(text):
    days = np.arange("2024-01-01", "2024-01-31", dtype="M8[D]")
    model = pure(pd.DataFrame({"when": days}), np.arange(30) > 15)
    with pytest.raises(ValueError, match="column 'when' of X must hold dates, as in training, or text like") as caught:
        model.predict(pd.DataFrame({"when": ["2024-05-01", text]}))
    assert str(caught.value).endswith(f"got {text!r}")


def test_text_beside_time_zones_or_durations_is_refused():
    days = pd.Series(pd.date_range("2024-01-01", periods=30))
    zoned = pure(pd.DataFrame({"when": days.dt.tz_localize("UTC")}), np.arange(30) > 15)
    with pytest.raises(ValueError, match="with its distance from UTC, got '2024-05-01'"):
        zoned.predict(pd.DataFrame({"when": ["2024-05-01"]}))
    long = pure(pd.DataFrame({"long": days - days[0]}), np.arange(30) > 15)
    with pytest.raises(ValueError, match="column 'long' of X must hold durations, as in training, got '3 days'"):
        long.predict(pd.DataFrame({"long": ["3 days"]}))
    with pytest.raises(ValueError, match="column 'a' of X must hold numbers"):
        numbers_of(pd.Series(["2024-05-01"], name="a"), 0, None)


# ---- the ends of what floats hold ----


@pytest.mark.parametrize("foreign", [False, True])
def test_columns_near_the_largest_float_are_as_good_as_small_ones(foreign):
    X, power = RNG.normal(size=(150, 3)), 1022
    X[0] = [-3.9, 3.9, 3.9]  # times 2^1022 is within, the range of the first two columns is not
    X[1] = [3.9, -3.9, 0.0]
    y = (X[:, 0] > 0).astype(int)
    kernels = []
    for table in (X, np.ldexp(X, power)):
        model = pure(table, y, n_estimators=20, max_features=1)
        pair = model.apply(table), model.apply
        kernels.append(ForestKernel.from_model(pair, table, y) if foreign else model.kernel_)
    small, large = (fit_naive(kernel) for kernel in kernels)
    np.testing.assert_array_equal(small.profile, large.profile)
    assert large.M == small.M > 2
    holes = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
    small_table, large_table = (
        impute(kernel, table) for kernel, table in zip(kernels, (holes, np.ldexp(holes, power)), strict=True)
    )
    np.testing.assert_array_equal(np.ldexp(small_table, power), large_table)
    assert np.isfinite(large_table).all()
    sets = [
        kernel.level_sets(table[5], (0, 1), grid=9) for kernel, table in zip(kernels, (X, np.ldexp(X, power)), strict=True)
    ]
    np.testing.assert_array_equal(np.ldexp(sets[0].x, power), sets[1].x)
    np.testing.assert_array_equal(sets[0].k, sets[1].k)


@pytest.mark.parametrize("foreign", [False, True])
def test_derivatives_along_the_smallest_floats_are_finite_and_ordered(foreign):
    X = RNG.integers(-(10**6), 10**6, (150, 3)).astype(float)
    y = (X[:, 0] > 0).astype(int)
    kernels = []
    for table in (X, X * 5e-324):
        model = pure(table, y, n_estimators=20, max_features=1)
        pair = model.apply(table), model.apply
        kernels.append(ForestKernel.from_model(pair, table, y) if foreign else model.kernel_)
    plain, tiny = kernels
    found = tiny.derivatives(X[:5] * 5e-324)
    assert np.isfinite([found.right, found.left]).all()
    assert found.right.min() == -np.finfo(float).max
    expected, given_tiny = plain.derivative_importance(), tiny.derivative_importance()
    np.testing.assert_allclose(given_tiny.per_sd, expected.per_sd, rtol=0.02)
    assert str(tiny.explain(X[3] * 5e-324)) == str(plain.explain(X[3]))


def test_the_operator_of_a_kernel_can_be_pickled():
    kernel = pure(NOISE[:, None], leaf_size=10).kernel_
    v = RNG.normal(size=(N, 2))
    for table in (None, RNG.normal(size=(7, 1))):
        operator = kernel.operator(table)
        again = pickle.loads(pickle.dumps(operator))
        np.testing.assert_array_equal(again @ v, operator @ v)
        np.testing.assert_array_equal(again.T @ v[: len(again @ v)], operator.T @ v[: len(again @ v)])
        np.testing.assert_array_equal(again @ v[:, 0], operator @ v[:, 0])
