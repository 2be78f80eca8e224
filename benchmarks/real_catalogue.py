"""A table's name enters; its rows leave, with a label that nothing in them tells. real_tables.toml says how, for each table.

Which tables rules may be chosen on is fixed by `part`, not by whoever chooses.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from real_files import FileUnavailable, find, read

CATALOGUE = Path(__file__).resolve().parent / "real_tables.toml"
LEAST_OF_CLASS = 20  # rows: a smaller class could not be on both sides of a split and in each of five folds
RARE, COPIED = 0.05, 0.1  # shares of the rows
LARGE = 10_000  # rows
DEVELOPMENT, REPORTED = "development", "reported"
PARTS = (DEVELOPMENT, REPORTED)
KINDS = ("binary", "multiclass", "numeric", "categorical", "mixed", "missing", "rare", "copies", "groups", "dates")
PROMISED = {  # for the report, before anything was tried on them
    *("twonorm", "ring", "marketing", "penbased", "optdigits", "texture", "fars", "sylva", "electrical-grid", "nursery"),
    *("kr-vs-k", "nycflights", "accidents", "mortgages", "restaurants", "hr", "randhie", "HI", "VietNamI"),
}


@dataclass(frozen=True)
class Facts:
    """The size and the shape of a table."""

    rows: int
    classes: int
    numeric: int  # columns
    categorical: int
    dates: int = 0
    missing: float = 0.0  # share of the cells
    rarest: float = 0.5  # share of the rows that are in the smallest class
    copies: float = 0.0  # share of the rows whose columns are those of another row


@dataclass(frozen=True)
class Recipe:
    """How a package's file becomes columns and a label."""

    read: str | None
    names: tuple[str, ...]
    y: str
    of: tuple[str, ...]
    drop: Mapping[str, str]
    categories: tuple[str, ...]
    dates: tuple[str, ...]
    groups: str | None


@dataclass(frozen=True)
class Description:
    """What there is to know about a table before it is read."""

    name: str
    package: str
    file: str
    label: str
    note: str
    seen: str | None
    also: tuple[str, ...]
    facts: Facts

    @property
    def part(self) -> str:
        """Development or reported."""
        return part(self.name, self.facts.rows, seen=self.seen is not None)

    @property
    def groups(self) -> str | None:
        """The column that says which rows belong together."""
        return recipe(self.name).groups

    @property
    def dropped(self) -> Mapping[str, str]:
        """Columns that were left out, and why."""
        return recipe(self.name).drop

    @property
    def kinds(self) -> frozenset[str]:
        """Which of KINDS a table is."""
        facts = self.facts
        columns = {(True, False): "numeric", (False, True): "categorical", (True, True): "mixed"}
        always = {columns[facts.numeric + facts.dates > 0, facts.categorical > 0]}
        always.add("binary" if facts.classes == 2 else "multiclass")
        further = {
            "missing": facts.missing > 0,
            "rare": facts.rarest < RARE,
            "copies": facts.copies > COPIED,
            "dates": facts.dates > 0,
            "groups": self.groups is not None,
        }
        return frozenset(always | {kind for kind, holds in further.items() if holds})


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a table, ready to be fitted."""

    name: str
    X: pd.DataFrame  # categories as category, dates as datetime64, all else numbers; what is missing is NaN or NaT
    y: NDArray[np.int64]  # (n_rows,), places in classes
    classes: tuple[str, ...]
    groups: NDArray[np.int64] | None = None  # (n_rows,), rows of one group belong together


def part(name: str, rows: int, seen: bool) -> str:
    """Say what a table may be used for: what an earlier benchmark saw, for development; of the others a hash takes a third.

    Of the large ones that are not promised it takes half, since most of the large ones are promised to the report.
    """
    if name in PROMISED:
        return REPORTED
    taken = int(hashlib.sha256(name.encode()).hexdigest(), 16) % (2 if rows >= LARGE else 3) == 0
    return DEVELOPMENT if seen or taken else REPORTED


@cache
def entries() -> Mapping[str, Mapping[str, Any]]:
    """Read the catalogue."""
    return MappingProxyType(tomllib.loads(CATALOGUE.read_text(encoding="utf-8")))


def entry(name: str) -> Mapping[str, Any]:
    """Find a table in the catalogue."""
    if name not in entries():
        raise ValueError(f"name must be one of {sorted(entries())}, got {name!r}")
    return entries()[name]


def describe(name: str) -> Description:
    """Tell what there is to know about a table, without reading it."""
    told = entry(name)
    texts = {key: told[key] for key in ("package", "file", "label", "note")}
    return Description(name, **texts, seen=told.get("seen"), also=tuple(told.get("also", ())), facts=Facts(**told["facts"]))


def recipe(name: str) -> Recipe:
    """Tell how a table is made."""
    told = entry(name)
    listed = {key: tuple(told.get(key, ())) for key in ("names", "categories", "dates")}
    return Recipe(
        told.get("read"),
        y=told["y"],
        of=tuple(told.get("of", [told["y"]])),
        drop=told.get("drop", {}),
        groups=told.get("groups"),
        **listed,
    )


def names(least_rows: int = 0, most_rows: float = np.inf, kinds: Collection[str] = (), part: str | None = None) -> list[str]:
    """List the tables of a size that are all of the kinds asked for, in one part or both; the smallest first."""
    wrong = [kind for kind in kinds if kind not in KINDS]
    if wrong or part not in (None, *PARTS):
        raise ValueError(f"kinds must be of {KINDS} and part one of {PARTS} or None, got {wrong or part!r}")
    found = [
        told
        for told in map(describe, entries())
        if least_rows <= told.facts.rows <= most_rows and told.kinds.issuperset(kinds) and part in (None, told.part)
    ]
    return [told.name for told in sorted(found, key=lambda told: (told.facts.rows, told.name))]


def available(name: str) -> bool:
    """Ask whether the file of a table is in one of the folders."""
    try:
        find(entry(name)["file"])
    except FileUnavailable:
        return False
    return True


def load(name: str) -> Table:
    """Read a table; an error if the package ships other rows than those the catalogue was written for."""
    table = made(name, read(entry(name)["file"], recipe(name).read, recipe(name).names), recipe(name))
    found, told = facts_of(table), describe(name).facts
    if found != told:
        raise ValueError(
            f"{entry(name)['package']} ships another {name!r} than the one of real_tables.txt: {found}, not {told}"
        )
    return table


def made(name: str, frame: pd.DataFrame, how: Recipe) -> Table:
    """Make the label, and leave out what tells it; rows without a label or a group go, and so do tiny classes."""
    unknown = {*how.of, *how.drop, *how.categories, *how.dates, *filter(None, [how.groups])} - set(frame.columns)
    if unknown:
        raise ValueError(f"{name}: the file has no columns {sorted(unknown)}, but {list(frame.columns)}")
    frame = frame.dropna(subset=[*how.of, *filter(None, [how.groups])])
    labels = frame[how.y] if how.y in frame else frame.eval(how.y)
    often = labels.map(labels.value_counts()).ge(LEAST_OF_CLASS)
    frame, labels = frame[often].reset_index(drop=True), labels[often]
    y, classes = pd.factorize(labels.astype(str) if labels.dtype == "category" else labels, sort=True)
    groups = pd.factorize(frame[how.groups])[0].astype(np.int64) if how.groups else None
    X = frame.drop(columns=list({*how.of, *how.drop, *filter(None, [how.groups])}))
    typed = {column: cells(X[column], column in how.categories, column in how.dates) for column in X}
    return Table(name, pd.DataFrame(typed), y.astype(np.int64), tuple(str(each) for each in classes), groups)


def cells(column: pd.Series, category: bool, date: bool) -> pd.Series:
    """Give a column its kind: text, and numbers that are names, become categories."""
    if date:
        return pd.to_datetime(column).dt.tz_localize(None)
    if pd.api.types.is_bool_dtype(column):
        return column.astype(np.int8)
    if not category and pd.api.types.is_numeric_dtype(column):
        return column
    words = column.astype(str).str.strip()
    return words.where(column.notna()).astype("category")


def facts_of(table: Table) -> Facts:
    """Measure a table."""
    X, n = table.X, len(table.y)
    kinds = Counter("category" if dtype == "category" else np.dtype(dtype).kind for dtype in X.dtypes)
    return Facts(
        rows=n,
        classes=len(table.classes),
        numeric=X.shape[1] - kinds["category"] - kinds["M"],
        categorical=kinds["category"],
        dates=kinds["M"],
        missing=round(float(X.isna().to_numpy().mean()), 4),
        rarest=round(float(np.bincount(table.y).min() / n), 4),
        copies=round(float(X.duplicated(keep=False).mean()), 4),
    )


def signature(X: pd.DataFrame) -> Counter[tuple[int, ...]]:
    """How often each column's values occur, which no change of names, codes or the order of rows alters."""
    return Counter(tuple(sorted(X[name].value_counts())) for name in X)


def alike(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Ask whether two tables have the same rows: as many, and half of the narrower one's columns in the other, recoded."""
    if len(one) != len(other):
        return False
    shared = (signature(one) & signature(other)).total()
    return bool(shared >= 0.5 * min(one.shape[1], other.shape[1]))
