"""Records enter, the tables of the report leave: means with standard errors, differences on the same splits."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import NamedTuple

import numpy as np

from quality_cost import FITS, LARGE, LEAST, SEARCHES
from quality_data import JUNK, N_TEST, REAL, SIMULATED, TEST_SHARE
from quality_records import Record, load
from quality_rivals import BOOSTED_METHODS, COLUMNS, FOREST_METHODS, GRID, OURS, SEARCH_TREES, TREES
from tables import heading, table

ISSUE_LIMITS = {  # root mean squared error x 1000, at most
    250: {"circle": 113, "1d": 75, "1d-sparse": 85, "10d": 356, "logistic": 93, "xor": 131},
    500: {"circle": 74, "1d": 50, "1d-sparse": 56, "10d": 322, "logistic": 67, "xor": 102},
}
FORESTS = tuple(FOREST_METHODS)
BOOSTED = tuple(BOOSTED_METHODS)
SCORES = {
    "log_loss": ("log loss", 1.0),
    "log_loss_clipped": ("log loss of probabilities kept 1/(2n) away from 0 and 1", 1.0),
    "rmse": ("RMSE × 1000 against the labels", 1000.0),
}
REFERENCE = "rf"
Runs = Mapping[int, float]  # repetition -> score


class Mean(NamedTuple):
    """A mean, its standard error (nan below two numbers) and how many numbers it is the mean of."""

    value: float
    error: float
    count: int

    def within(self) -> bool:
        """At or below zero within one standard error."""
        return self.value <= (self.error if np.isfinite(self.error) else 0.0)

    def of_shared_rows(self) -> Mean:
        """The same with the standard error of Nadeau and Bengio (2003): random splits of one data set share rows."""
        ratio = TEST_SHARE / (1.0 - TEST_SHARE)
        return self._replace(error=self.error * float(np.sqrt(1.0 + self.count * ratio)))

    def written(self, digits: int, sign: str = "") -> str:
        """Write the mean and its standard error."""
        error = f"{self.error:.{digits}f}" if np.isfinite(self.error) else "?"
        return f"{self.value:{sign}.{digits}f} ± {error}"


def mean(numbers: Iterable[float]) -> Mean:
    """Average with a standard error."""
    all_of = np.array(list(numbers))
    error = all_of.std(ddof=1) / np.sqrt(len(all_of)) if len(all_of) > 1 else np.nan
    return Mean(float(all_of.mean()), float(error), len(all_of))


def difference(one: Runs, other: Runs) -> Mean | None:
    """Average of one minus the other over the repetitions that both have."""
    both = sorted(one.keys() & other.keys())
    return mean(one[rep] - other[rep] for rep in both) if both else None


def runs(records: Iterable[Record], score: str, scale: float) -> dict[str, dict[int, float]]:
    """Scores of each method by repetition, for the records of one table row."""
    found: dict[str, dict[int, float]] = {}
    for record in records:
        found.setdefault(record["method"], {})[record["rep"]] = scale * record[score]
    return found


def print_all() -> None:
    """Print every part that has records."""
    print("# Quality of the default probabilities, and their price\n")
    print(opening())
    for experiment, print_part in (("simulated", print_simulated), ("real", print_real), ("cost", print_cost)):
        records = list(load(experiment).values())
        if records:
            print_part(records)


def opening() -> str:
    """Say what ran where."""
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("kernelforest", "scikit-learn", "lightgbm", "numpy")
    )
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores; {versions}. "
        "± is one standard error. Differences are paired: the same training and test rows for both. "
        "Nothing is tuned on test rows."
    )


# ---------------------------------------------------------------------------------------------------------- simulated


def print_simulated(records: Sequence[Record]) -> None:
    """The paper's six problems at both sizes."""
    for n, limits in ISSUE_LIMITS.items():
        rows = {name: runs((r for r in records if r["set"] == name and r["n"] == n), "rmse", 1000.0) for name in SIMULATED}
        heading(f"simulated, n = {n}: RMSE × 1000 against the true probability, {N_TEST:,} test rows")
        methods = [name for name in (OURS, *COLUMNS, "lightgbm") if any(name in row for row in rows.values())]
        table(["problem", "repetitions", *methods], [simulated_means(name, rows[name], methods) for name in SIMULATED])
        ours = {name: row for name, row in rows.items() if OURS in row}
        if ours:
            print_simulated_verdicts(n, ours, limits)


def simulated_means(name: str, row: Mapping[str, Runs], methods: Sequence[str]) -> list[str]:
    """A problem's line of means."""
    counts = sorted({len(row[method]) for method in methods if method in row})
    cells = [mean(row[method].values()).written(1) if method in row else "-" for method in methods]
    return [name, "–".join(map(str, counts)), *cells]


def print_simulated_verdicts(n: int, rows: Mapping[str, Mapping[str, Runs]], limits: Mapping[str, int]) -> None:
    """Compare the default with the limits, with the best of the seven columns and with LightGBM."""
    heading(f"simulated, n = {n}: default against the limits, the paper's seven columns and tuned LightGBM")
    lines, wins = [], {"limit": 0, "column": 0, "lightgbm": 0}
    for name, row in rows.items():
        ours = mean(row[OURS].values())
        under = Mean(ours.value - limits[name], ours.error, ours.count)
        present = [column for column in COLUMNS if column in row]
        best = min(present, key=lambda column: mean(row[column].values()).value, default=None)
        to_best = difference(row[OURS], row[best]) if best else None
        to_boosted = difference(row[OURS], row.get("lightgbm", {}))
        wins["limit"] += under.within()
        wins["column"] += bool(to_best and to_best.value < 0)
        wins["lightgbm"] += bool(to_boosted and to_boosted.value < 0)
        line = [name, ours.written(1), limits[name], "yes" if under.within() else "no", best]
        lines.append([*line, *(each.written(1, "+") if each else "-" for each in (to_best, to_boosted))])
    columns = [
        "problem",
        "default",
        "limit",
        "at or below within one SE",
        "best column",
        "default − best",
        "default − LightGBM",
    ]
    table(columns, lines)
    print(
        f"\nAt the limits within one standard error in {wins['limit']} of {len(rows)}; below the best of the seven columns "
        f"in {wins['column']}; below LightGBM in {wins['lightgbm']}."
    )


# --------------------------------------------------------------------------------------------------------------- real


def print_real(records: Sequence[Record]) -> None:
    """The data sets without and with junk columns, by each score."""
    heading("real data sets")
    print(
        f"Random splits, 80% to fit on; with junk: {JUNK} more columns, each a column drawn at random with its rows in "
        f"another order. Forests of {TREES} trees. `default`, ranger (factors ordered by class share), HistGradientBoosting "
        "and LightGBM take categories themselves (splice, tic), the other methods one column per level. rf_isotonic and "
        "rf_sigmoid: CalibratedClassifierCV, five folds. rf_grid: five folds, max_features "
        f"{GRID['max_features'][0]}, 1/3, 1/2, 1 × min_samples_leaf {', '.join(map(str, GRID['min_samples_leaf']))}, "
        f"{SEARCH_TREES} trees in the search and {TREES} in the refit; the number of its splits is in brackets. "
        "Exact zeros and ones cost up to 36 in scikit-learn's log loss (it clips at the machine epsilon)."
    )
    cells = [(name, junk) for junk in (0, JUNK) for name in REAL]
    for score, (title, scale) in SCORES.items():
        rows = {cell: runs((r for r in records if (r["set"], r["junk"]) == cell), score, scale) for cell in cells}
        rows = {cell: row for cell, row in rows.items() if row}
        print_real_means(rows, title, scale)
        ours = {
            cell: row for cell, row in rows.items() if any(difference(row.get(OURS, {}), row.get(f, {})) for f in FORESTS)
        }
        if ours:
            print_real_verdicts(ours, title, scale)
        print_ranks(rows, title)


def label(cell: tuple[str, int]) -> str:
    """Name a data set and its junk."""
    return cell[0] + (f" + {cell[1]} junk" if cell[1] else "")


def print_real_means(rows: Mapping[tuple[str, int], Mapping[str, Runs]], title: str, scale: float) -> None:
    """Means over the splits that a method has."""
    heading(f"real: {title}; mean over splits")
    methods = [name for name in (OURS, *FORESTS, *BOOSTED) if any(name in row for row in rows.values())]
    digits = 4 if scale == 1.0 else 1
    lines = [
        [
            label(cell),
            splits_of(row),
            *(mean(row[method].values()).written(digits) if method in row else "-" for method in methods),
        ]
        for cell, row in rows.items()
    ]
    table(["set", "splits (grid)", *methods], lines)


def splits_of(row: Mapping[str, Runs]) -> str:
    """Count the splits: the smallest and largest number among the methods, and that of the grid search."""
    counts = [len(found) for method, found in row.items() if method != "rf_grid"] or [0]
    least, most = min(counts), max(counts)
    return f"{least if least == most else f'{least}–{most}'} ({len(row.get('rf_grid', {}))})"


def print_real_verdicts(rows: Mapping[tuple[str, int], Mapping[str, Runs]], title: str, scale: float) -> None:
    """Paired differences to the hardest of the other forests, and to the boosted trees."""
    heading(f"real: {title}; default minus rival on the same splits, negative is better")
    digits, lines, good, wide = 4 if scale == 1.0 else 1, [], 0, 0
    for cell, row in rows.items():
        found = {name: difference(row[OURS], row[name]) for name in (*FORESTS, *BOOSTED) if name in row}
        paired = {name: each for name, each in found.items() if each is not None}
        hardest = max((name for name in FORESTS if name in paired), key=lambda name: paired[name].value)
        good += paired[hardest].within()
        wide += paired[hardest].of_shared_rows().within()
        boosted = [paired[name].written(digits, "+") if name in paired else "-" for name in BOOSTED]
        verdict = "yes" if paired[hardest].within() else "no"
        first = [label(cell), hardest, paired[hardest].written(digits, "+"), paired[hardest].count, verdict]
        lines.append([*first, *(paired[n].written(digits, "+") if n in paired else "-" for n in FORESTS), *boosted])
    columns = ["set", "best rival forest", "default − best", "splits", "at or below within one SE", *FORESTS, *BOOSTED]
    table(columns, lines)
    print(
        f"\nAt or below the best rival forest within one standard error in {good} of {len(rows)} rows. That error takes "
        "splits for independent, but they share rows; with the one of Nadeau and Bengio (2003), about four times as large, "
        f"{wide}."
    )


def level_means(row: Mapping[str, Runs]) -> dict[str, float]:
    """Means made comparable where splits are missing: the reference's mean plus the paired difference to it."""
    if REFERENCE not in row:
        return {}
    base = mean(row[REFERENCE].values()).value
    paired = {name: difference(found, row[REFERENCE]) for name, found in row.items()}
    return {name: base + each.value for name, each in paired.items() if each is not None}


def print_ranks(rows: Mapping[tuple[str, int], Mapping[str, Runs]], title: str) -> None:
    """Average rank over the rows, among the forests and with boosted trees let in."""
    every = [level_means(row) for row in rows.values()]
    methods = [name for name in (OURS, *FORESTS, *BOOSTED) if every and all(name in row for row in every)]
    if not methods:
        return
    heading(f"real: {title}; average rank over {len(every)} rows, 1 is best")
    forests = [name for name in methods if name not in BOOSTED]
    among_forests, among_all = average_ranks(every, forests), average_ranks(every, methods)
    table(["ranked among", *methods], [["forests", *(among_forests.get(m) for m in methods)], ["all", *among_all.values()]])


def average_ranks(rows: Sequence[Mapping[str, float]], methods: Sequence[str]) -> dict[str, float]:
    """Average over rows of each method's place among the methods."""
    places = np.array([[sum(row[other] < row[name] for other in methods) + 1 for name in methods] for row in rows])
    return dict(zip(methods, places.mean(axis=0).tolist(), strict=True))


# --------------------------------------------------------------------------------------------------------------- cost


def print_cost(records: Sequence[Record]) -> None:
    """Seconds of a default fit against one forest and against the grid search."""
    fits = cost_lines(records, "rf", FITS)
    if fits:
        heading(f"cost: default fit against RandomForestClassifier({TREES}), two threads each, fits taking turns")
        print_cost_table(fits, "default / rf")
        product = np.exp(np.mean([np.log(line.ours / line.rival) for line in fits.values()]))
        print(f"\nGeometric mean of default / rf over {len(fits)} sets: {product:.2f}.")
    searches = cost_lines(records, "rf_grid", SEARCHES)
    if searches:
        heading(f"cost: default fit against the grid search with {TREES} trees, refit included")
        least = {f"{name}, at least": line for name, line in cost_lines(records, LEAST, (LARGE,)).items()}
        print_cost_table(searches | least, "rf_grid / default", upside_down=True)
        if least:
            print(
                "\nAt least: only the forests with the largest leaves were fitted, on one of five folds, and their time is "
                "taken as often as the search fits forests; others take longer. Their log loss is that of this fold."
            )


class CostLine(NamedTuple):
    """Medians of seconds and means of log losses over the repetitions of a set."""

    ours: float
    rival: float
    our_loss: Mean
    excess: Mean  # log loss of the rival minus ours, on the same splits
    load: float


def cost_lines(records: Sequence[Record], method: str, names: Sequence[str]) -> dict[str, CostLine]:
    """The pairs with one rival, by set."""
    found = {name: [r for r in records if r["method"] == method and r["set"] == name] for name in names}
    return {
        name: CostLine(
            *(float(np.median([r[f] for r in some])) for f in ("default_seconds", "seconds")),
            mean(r["default_log_loss"] for r in some),
            mean(r["log_loss"] - r["default_log_loss"] for r in some),
            max(r["load"] for r in some),
        )
        for name, some in found.items()
        if some
    }


def print_cost_table(lines: Mapping[str, CostLine], ratio: str, upside_down: bool = False) -> None:
    """Print seconds, their ratio, held-out log losses and the load of the machine."""
    header = ["set", "repetitions", "default s", "rival s", ratio, "default log loss", "rival − default", "load"]
    rows = []
    for name, line in lines.items():
        quotient = line.rival / line.ours if upside_down else line.ours / line.rival
        losses = f"{line.our_loss.value:.4f}", line.excess.written(4, "+")
        rows.append([name, line.excess.count, line.ours, line.rival, quotient, *losses, line.load])
    table(header, rows)
