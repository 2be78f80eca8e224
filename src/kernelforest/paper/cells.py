"""Cells of a table: repetitions enter; means, standard errors, comparisons with other tables, and printed lines leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.paper.columns import ADDED_COLUMNS, ADDED_NOTES, PAPER_COLUMNS
from kernelforest.paper.experiment import FAILS, HOLDS, Finding, Mean, Records, known, mean

Array = NDArray[np.float64]
Table = Mapping[str, Sequence[int]]  # a row's name -> cells in thousandths
PRINTED_REPS = 50  # behind every number that the paper prints
AGREE = "nine of ten cells within 2 combined standard errors of the print"
ROUNDING = 0.0005 / np.sqrt(3.0)  # standard deviation of what printing three digits leaves off


class Gap(NamedTuple):
    """A cell against another table's."""

    row: str
    column: str
    ours: Mean
    theirs: float
    errors: float  # how many combined standard errors lie between them

    @property
    def cell(self) -> str:
        """Its name."""
        return f"{self.row} {self.column}"

    def __str__(self) -> str:
        """As it is printed in a finding."""
        return f"{self.cell} {self.ours.thousandths} against {1000 * self.theirs:.0f} ({self.errors:+.1f} standard errors)"


def values(records: Records, row: str, column: str) -> Array:
    """A cell in every repetition that has it."""
    return np.array([record["rmse"][row][column] for record in records if column in record["rmse"].get(row, {})])


def rows_of(records: Records, rows: Sequence[str]) -> list[str]:
    """Those rows that were run."""
    return [row for row in rows if row in records[0]["rmse"]]


def means(records: Records, row: str) -> dict[str, float]:
    """Means of the paper's columns in a row."""
    return {column: float(values(records, row, column).mean()) for column in PAPER_COLUMNS}


def best_column(records: Records, row: str) -> str:
    """The paper's column with the lowest mean."""
    found = means(records, row)
    return min(found, key=lambda column: found[column])


def worst_column(records: Records, row: str) -> str:
    """The paper's column with the highest mean."""
    found = means(records, row)
    return max(found, key=lambda column: found[column])


def margin(records: Records, row: str, column: str, other: str) -> Mean:
    """A column minus another one, paired by repetition."""
    return mean(values(records, row, column) - values(records, row, other))


def gaps(records: Records, table: Table, columns: Sequence[str], n_theirs: int, least: float = 0.0) -> list[Gap]:
    """Compare with another table, made from `n_theirs` repetitions, whose standard errors are `least` or more."""
    found = []
    for row in rows_of(records, list(table)):
        for column, cell in zip(columns, table[row], strict=True):
            numbers = values(records, row, column)
            ours, theirs = mean(numbers), cell / 1000
            spread = known(ours.error) * np.sqrt(len(numbers) / n_theirs)
            combined = float(np.sqrt(ours.error**2 + max(spread, least) ** 2 + ROUNDING**2))
            found.append(Gap(row, column, ours, theirs, (ours.value - theirs) / combined))
    return found


def outside(found: Sequence[Gap]) -> list[Gap]:
    """Those further away than 2 combined standard errors, the furthest first."""
    return sorted((gap for gap in found if abs(gap.errors) > 2.0), key=lambda gap: -abs(gap.errors))


def print_gaps(found: Sequence[Gap]) -> str:
    """How many cells agree, and the furthest."""
    far = outside(found)
    furthest = max(found, key=lambda gap: abs(gap.errors))
    return f"{len(found) - len(far)} of {len(found)} cells within 2 combined standard errors; furthest: {furthest}"


def agree(found: Sequence[Gap]) -> bool:
    """Whether nine of ten cells are within 2 combined standard errors: of so many, some are outside by chance."""
    return len(found) - len(outside(found)) >= 0.9 * len(found)


def judge_print(records: Records, printed: Table, how: str, else_note: str) -> Finding:
    """Whether nine of ten printed cells are found."""
    found = gaps(records, printed, PAPER_COLUMNS, PRINTED_REPS)
    held = agree(found)
    return Finding(HOLDS if held else FAILS, f"{how}: {print_gaps(found)}", "" if held else else_note)


def against_another_run(records: Records, found: Sequence[Gap], note: str) -> tuple[str, list[str], list[list[str]]]:
    """A table of the cells that are not those of another implementation; `note` says what that was."""
    far = outside(found)
    title = f"{len(found) - len(far)} of {len(found)} cells within 2 combined standard errors"
    if far:
        apart = apart_by_chance(records, found)
        title += f" (two random halves of our own repetitions differ in as many in {apart:.0%} of cuts); the others:"
    lines = [[gap.cell, gap.ours.thousandths, f"{1000 * gap.theirs:.0f}", f"{gap.errors:+.1f}"] for gap in far]
    head = ["cell × 1000", "ours ± standard error", "the other's", "combined standard errors"]
    return f"Against another implementation, not in the paper ({note}): {title}", head, lines


def apart_by_chance(records: Records, found: Sequence[Gap], cuts: int = 1000) -> float:
    """How often two random halves of our own repetitions differ in at least as many of these cells.

    Cells of one row are of the same draws and go astray together, so that their number outside is no binomial one.
    """
    numbers = np.array([values(records, gap.row, gap.column) for gap in found])
    rng, n_far, n_half = np.random.default_rng(0), len(outside(found)), numbers.shape[1] // 2
    error = numbers.std(axis=1, ddof=1) * np.sqrt(2.0 / n_half)
    hits = 0
    for _ in range(cuts):
        order = rng.permutation(numbers.shape[1])
        halves = (numbers[:, half].mean(axis=1) for half in (order[:n_half], order[n_half : 2 * n_half]))
        hits += np.sum(np.abs(np.subtract(*halves)) > 2.0 * error) >= n_far
    return hits / cuts


def lines(records: Records, rows: Sequence[str], paper: Table | None) -> tuple[list[str], list[list[str]]]:
    """Header and lines: ours ± standard error, and the paper's number in brackets."""
    out = []
    for row in rows_of(records, rows):
        line = [row]
        for k, column in enumerate(PAPER_COLUMNS + ADDED_COLUMNS):
            numbers = values(records, row, column)
            printed = f" ({paper[row][k]})" if paper and k < len(PAPER_COLUMNS) else ""
            line.append(f"{mean(numbers).thousandths}{printed}" if len(numbers) else "–")
        out.append(line)
    return ["", *PAPER_COLUMNS, *ADDED_COLUMNS], out


def added_columns() -> tuple[str, list[str], list[list[str]]]:
    """A table that says what the columns are that the paper does not have."""
    lines = [[column, note] for column, note in zip(ADDED_COLUMNS, ADDED_NOTES, strict=True)]
    return (
        "Columns added here; benchmarks/results/quality.md has others of the same names, set up otherwise",
        ["column", "is"],
        lines,
    )
