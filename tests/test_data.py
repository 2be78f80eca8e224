"""Data: every container gives the predictions of the plain array it stands for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from kernelforest import KernelForestClassifier
from kernelforest._engine.layout import MISSING
from kernelforest.binning import code_table, decode
from kernelforest.data import read_schema
from kernelforest.labels import read_labels

N = 60
COLORS = np.array(["blue", "green", "red", "violet"])  # sorted, so that places are the numbers below


def rows(seed: int = 0) -> np.ndarray:
    """Small integers, so that every number type holds them exactly: a count, a flag and a colour."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 50, N), rng.integers(0, 2, N), rng.permutation(N) % 4]).astype(float)


def gaps(X: np.ndarray) -> np.ndarray:
    """The same with missing values in every column."""
    X = X.copy()
    X[3::7, 0], X[4::9, 1], X[5::8, 2] = np.nan, np.nan, np.nan
    return X


def labels(X: np.ndarray) -> np.ndarray:
    return (X[:, 0] > 20).astype(int) + (X[:, 2] == 1)


def fit(X, y, **rules) -> KernelForestClassifier:
    return KernelForestClassifier.untuned(8, random_state=0, **rules).fit(X, y)


def assert_same(X, new, plain, plain_new, categorical=None) -> None:
    """The forest on (X, new) is the forest on the plain arrays."""
    y = labels(rows())
    expected = fit(plain, y, categorical_features=categorical)
    got = fit(X, y)
    np.testing.assert_array_equal(got.forest_.nodes, expected.forest_.nodes)
    np.testing.assert_array_equal(got.forest_.sets, expected.forest_.sets)
    np.testing.assert_array_equal(got.predict_proba(new), expected.predict_proba(plain_new))
    np.testing.assert_array_equal(got.predict_proba(X), expected.predict_proba(plain))


# ---- arrays and lists ----


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "object"])
def test_number_types_of_numpy_do_not_matter(dtype):
    assert_same(rows().astype(dtype), rows(1).astype(dtype), rows(), rows(1))


def test_booleans_are_zero_and_one():
    X, new = rows() > 1, rows(1) > 1
    assert_same(X, new, X.astype(float), new.astype(float))


def test_the_layout_of_an_array_does_not_matter():
    X, new = rows(), rows(1)
    assert_same(np.asfortranarray(X), np.repeat(new, 2, axis=1)[:, ::2], X, new)


def test_single_precision_keeps_its_own_values():
    X = np.random.default_rng(0).random((N, 3)).astype(np.float32)
    assert_same(X, X, X.astype(np.float64), X.astype(np.float64))


def test_lists_are_tables():
    assert_same(rows().tolist(), rows(1).tolist(), rows(), rows(1))
    assert_same([tuple(r) for r in rows().tolist()], rows(1).tolist(), rows(), rows(1))


def test_none_in_an_object_array_is_missing():
    X = gaps(rows())
    as_objects = X.astype(object)
    as_objects[np.isnan(X)] = None
    assert_same(as_objects, as_objects, X, X)


# ---- data frames ----


def test_numbers_in_data_frames_are_themselves():
    X, new, names = gaps(rows()), gaps(rows(1)), ["a", "b", "c"]
    assert_same(pd.DataFrame(X, columns=names), pd.DataFrame(new, columns=names), X, new)
    assert_same(pl.DataFrame(X, schema=names), pl.DataFrame(new, schema=names), X, new)


def test_mixed_number_columns_of_a_data_frame_are_numbers():
    X, new = rows(), rows(1)

    def frame(package, values):
        return package.DataFrame(
            {"a": values[:, 0].astype(np.int16), "b": values[:, 1].astype(bool), "c": values[:, 2].astype(np.float32)}
        )

    assert_same(frame(pd, X), frame(pd, new), X, new)
    assert_same(frame(pl, X), frame(pl, new), X, new)


def test_nullable_columns_of_pandas_are_numbers_with_gaps():
    def frame(values):
        return pd.DataFrame(
            {
                "a": pd.array([pd.NA if np.isnan(v) else int(v) for v in values[:, 0]], dtype="Int64"),
                "b": pd.array([pd.NA if np.isnan(v) else bool(v) for v in values[:, 1]], dtype="boolean"),
                "c": pd.array([pd.NA if np.isnan(v) else v for v in values[:, 2]], dtype="Float64"),
            }
        )

    assert_same(frame(gaps(rows())), frame(gaps(rows(1))), gaps(rows()), gaps(rows(1)))


def test_nulls_of_polars_are_missing():
    def frame(values):
        def column(j, kind):
            return [None if np.isnan(v) else kind(v) for v in values[:, j]]

        return pl.DataFrame({"a": column(0, int), "b": column(1, bool), "c": column(2, float)})

    assert_same(frame(gaps(rows())), frame(gaps(rows(1))), gaps(rows()), gaps(rows(1)))


@pytest.mark.parametrize("beside_text", [False, True])
def test_a_missing_date_is_missing(beside_text):
    dates = pd.to_datetime([None if i % 5 == 0 else f"2020-01-{i % 28 + 1:02d}" for i in range(N)])
    frame = pd.DataFrame({"when": dates})
    if beside_text:
        frame["c"] = colors(rows()[:, 2])
    codes = fit(frame, labels(rows())).forest_.columns.codes[0]
    # as a number NaT is -2^63
    np.testing.assert_array_equal(codes == MISSING, np.arange(N) % 5 == 0)


def colors(column: np.ndarray) -> list[str | None]:
    return [None if np.isnan(v) else str(COLORS[int(v)]) for v in column]


PANDAS_TEXT = {
    "category": lambda v: pd.Categorical(v),
    "category with other levels": lambda v: pd.Categorical(v, categories=["red", "white", *COLORS[[3, 1, 0]]]),
    "string": lambda v: pd.array(v, dtype="string"),
    "object": lambda v: np.array(v, dtype=object),
    "object with nan": lambda v: np.array([np.nan if x is None else x for x in v], dtype=object),
}
POLARS_TEXT = {
    "categorical": pl.Categorical,
    "enum": pl.Enum(["red", "white", "violet", "green", "blue"]),
    "string": pl.String,
}


@pytest.mark.parametrize("kind", PANDAS_TEXT)
@pytest.mark.parametrize("with_gaps", [False, True])
def test_text_columns_of_pandas_are_categorical(kind, with_gaps):
    X, new = (gaps(x) if with_gaps else x for x in (rows(), rows(1)))

    def frame(values):
        return pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "c": PANDAS_TEXT[kind](colors(values[:, 2]))})

    assert_same(frame(X), frame(new), X, new, categorical=[2])


@pytest.mark.parametrize("kind", POLARS_TEXT)
@pytest.mark.parametrize("with_gaps", [False, True])
def test_text_columns_of_polars_are_categorical(kind, with_gaps):
    X, new = (gaps(x) if with_gaps else x for x in (rows(), rows(1)))

    def frame(values):
        text = pl.Series("c", colors(values[:, 2]), dtype=POLARS_TEXT[kind])
        return pl.DataFrame({"a": values[:, 0], "b": values[:, 1]}).with_columns(text)

    assert_same(frame(X), frame(new), X, new, categorical=[2])


def test_categories_with_integer_names_are_categorical():
    X, new = rows(), rows(1)

    def frame(values):
        return pd.DataFrame({"a": values[:, 0], "b": values[:, 1], "c": pd.Categorical(values[:, 2].astype(int) * 10)})

    assert_same(frame(X), frame(new), X, new, categorical=[2])


def test_nullable_numbers_beside_text_are_numbers_with_gaps():
    X, new = gaps(rows()), gaps(rows(1))

    def frame(values):
        return pd.DataFrame(
            {
                "a": pd.array([pd.NA if np.isnan(v) else int(v) for v in values[:, 0]], dtype="Int64"),
                "b": pd.array([pd.NA if np.isnan(v) else bool(v) for v in values[:, 1]], dtype="boolean"),
                "c": colors(values[:, 2]),
            }
        )

    assert_same(frame(X), frame(new), X, new, categorical=[2])


def test_a_frame_and_a_list_may_name_their_categorical_columns():
    X, y = rows(), labels(rows())
    expected = fit(X, y, categorical_features=[2])
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for table, chosen in [
        (frame, ["c"]),
        (frame, [2]),
        (frame, [False, False, True]),
        (pl.DataFrame(X, schema=["a", "b", "c"]), ["c"]),
        (X.tolist(), [2]),
        ([[a, b, str(COLORS[int(c)])] for a, b, c in X.tolist()], [2]),
    ]:
        model = fit(table, y, categorical_features=chosen)
        np.testing.assert_array_equal(model.forest_.nodes, expected.forest_.nodes)
        np.testing.assert_array_equal(model.predict_proba(table), expected.predict_proba(X))


def test_a_category_that_training_did_not_see_is_missing():
    y = labels(rows())
    frame = pd.DataFrame({"a": rows()[:, 0], "c": colors(rows()[:, 2])})
    model = fit(frame, y)
    unseen, missing = frame.assign(c="white"), frame.assign(c=pd.Series([None] * N, dtype=object))
    with pytest.warns(UserWarning, match="no value of column 'c' was seen in fit"):
        found = model.predict_proba(unseen)
    np.testing.assert_array_equal(found, model.predict_proba(missing))


def test_feature_names_are_remembered():
    y = labels(rows())
    for package in (pd, pl):
        model = fit(package.DataFrame({"age": rows()[:, 0], "sex": rows()[:, 1]}), y)
        assert model.feature_names_in_.tolist() == ["age", "sex"]
        assert model.n_features_in_ == 2
    model = fit(rows(), y)
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")


def test_other_column_names_are_refused():
    model = fit(pd.DataFrame(rows(), columns=["a", "b", "c"]), labels(rows()))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame(rows(), columns=["a", "c", "b"]))


# ---- labels ----


@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1, 1]),
        np.array([3, 70], dtype=np.uint8),
        np.array([0.0, 1.0]),
    ],
    ids=["text", "objects", "booleans", "integers", "small integers", "whole floats"],
)
def test_labels_of_every_kind_come_back(names):
    X, y = rows(), labels(rows()) > 0
    expected = fit(X, y.astype(int))
    model = fit(X, names[y.astype(int)])
    assert model.classes_.tolist() == names.tolist()
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))
    predicted = model.predict(X)
    np.testing.assert_array_equal(predicted, names[expected.predict(X)])
    assert predicted.dtype.kind == model.classes_.dtype.kind


def test_labels_may_come_in_every_container():
    X, y = rows(), np.where(labels(rows()) > 0, "yes", "no")
    expected = fit(X, y)
    for container in (list(y), pd.Series(y), pd.Series(y, dtype="category"), pd.Series(y, dtype="string"), pl.Series(y)):
        model = fit(X, container)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_labels_of_several_kinds_are_refused_or_come_back():
    y = np.array([1, "a"] * 30, dtype=object)
    # numpy would make both of them text
    try:
        model = fit(rows(), y)
    except (TypeError, ValueError):
        return
    assert set(model.predict(rows())) <= {1, "a"}


@given(st.lists(st.sampled_from(["a", "b", "Z", "", "é"]), min_size=1, max_size=30))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_codes_of_labels_lead_back_to_the_labels(values):
    read = read_labels(values)
    assert read.classes[read.codes].tolist() == values
    assert read.classes.tolist() == sorted(set(values))


# ---- codes ----

NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64), st.integers(-3, 3).map(float), st.just(float("nan"))
)
TABLES = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=15), elements=NUMBERS)


@given(TABLES)
@settings(deadline=None, max_examples=150, derandomize=True)
def test_codes_lead_back_to_the_values(X):
    columns = code_table(X)
    np.testing.assert_array_equal(decode(columns, slice(None)), X)
    some = np.arange(0, len(X), 2)
    np.testing.assert_array_equal(decode(columns, some), X[some])


@given(TABLES, st.integers(1, 3))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_codes_are_ranks_among_distinct_values(X, threads):
    columns = code_table(X, threads=threads)
    for j, column in enumerate(X.T):
        distinct = sorted({float(v) for v in column if not np.isnan(v)})
        expected = [MISSING if np.isnan(v) else distinct.index(v) for v in column]
        assert columns.codes[j].tolist() == expected
        assert columns.offsets[j + 1] - columns.offsets[j] == len(distinct)
        assert bool(columns.kinds[j] & 2) == bool(np.isnan(column).any())
    assert np.isfinite(columns.spots).all()


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=1, max_size=30))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_levels_lead_back_to_the_values(values):
    schema = read_schema([[v] for v in values], categorical_features=[0])
    matrix = schema.matrix([[v] for v in values])
    columns = code_table(matrix, schema.levels)
    assert columns.kinds[0] & 1
    back = decode(columns, slice(None))[:, 0]
    assert [None if np.isnan(v) else schema.levels[0][int(v)] for v in back] == values


def test_merged_codes_keep_the_order_and_cover_their_values():
    x = np.random.default_rng(0).normal(size=(200_000, 1))
    columns = code_table(x)
    codes = columns.codes[0].astype(int)
    assert codes.max() < MISSING
    order = np.argsort(x[:, 0])
    assert (np.diff(codes[order]) >= 0).all()
    assert (columns.lows[codes] <= x[:, 0]).all()
    assert (x[:, 0] <= columns.highs[codes]).all()
    assert (columns.highs[:-1] < columns.lows[1:]).all()
    counts = np.bincount(codes)
    assert counts.max() - counts.min() <= 1  # equally many rows each


def test_rows_with_equal_values_share_a_merged_code():
    x = np.concatenate([np.arange(70_000.0), np.full(1000, 5000.0), np.full(9, np.nan)])[:, None]
    columns = code_table(x)
    assert len(set(columns.codes[0][x[:, 0] == 5000.0])) == 1
    np.testing.assert_array_equal(columns.codes[0] == MISSING, np.isnan(x[:, 0]))


@pytest.mark.parametrize("name", ["Int64", "UInt8", "boolean", "int64[pyarrow]", "bool[pyarrow]"])
def test_labels_of_pandas_that_have_no_gaps_stay_integers_and_booleans(name):
    y = pd.Series([0, 1, 1, 0], dtype="int64").astype(name)
    found = read_labels(y)
    assert found.classes.dtype.kind == ("b" if "bool" in name else "u" if name == "UInt8" else "i")
    assert found.codes.tolist() == [0, 1, 1, 0]
    y.iloc[2] = pd.NA
    with pytest.raises(ValueError, match="y must have no missing values, got 1 of them, the first at row 2"):
        read_labels(y)


def test_masked_labels_are_missing():
    y = np.ma.masked_array([0, 1, 1, 0], [False, True, False, True])
    with pytest.raises(ValueError, match="y must have no missing values, got 2 of them, the first at row 1"):
        read_labels(y)
    y.mask = False
    assert read_labels(y).classes.tolist() == [0, 1]
