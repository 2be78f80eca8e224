"""Record what R's randomForest and ranger do on the problems of `problems.py`.

Enters: nothing but the constants below. Leaves: `golden.json` beside this file. Run it from the
tests folder, with Rscript and the R packages randomForest, ranger and jsonlite installed; it takes
several minutes on one core:

    python -m golden.record

What the stopping parameters mean, found on planted data (`planted` in golden.json holds the counts):

- ranger 0.14.1 `min.node.size` = s: a node of at most s in-bag draws (a row drawn twice counts
  twice) is not split; the root is no exception; leaves may be of any size. This is our `leaf_size`.
- randomForest 4.7-1.1 regression `nodesize` = s: a node of at most s draws is not split, but the root
  is always tried. Pure nodes above s draws are split all the same, by rounding or, on an exact tie
  at zero gain, at a cut of 0; `nodes` takes them as leaves, `raw_nodes` as they come. A pure node
  cut at 0 where it has no rows gets an empty daughter with a left-over prediction; its effect on
  the RMSE was below 0.002 and within chance (|t| < 2.3) against the same data shifted away from 0.
- randomForest 4.7-1.1 classification `nodesize` = s: the same, but counted in *distinct* in-bag rows.
  At s = 1 all three agree.
- In both packages a feature that is constant in the node uses up one of the mtry draws (and
  randomForest's classification grows a tree again until its root is split).
"""

from __future__ import annotations

import csv
import json
import math
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from golden.problems import PROBLEMS, Problem, fingerprint, one_d_sparse

HERE = Path(__file__).parent
SEEDS = tuple(range(20))
TREES = 200
FIGURE_SEEDS = SEEDS[:10]
FIGURE_MTRY = (1, 2, 5, 10, 20)
MEASURES = ("nodes", "raw_nodes", "oob_error", "rmse")
DIGITS = 6

SETTINGS: dict[str, dict[str, Any]] = {
    "class_sqrt": {"package": "randomForest", "kind": "class", "mtry": "sqrt", "node_size": 1},
    "class_all": {"package": "randomForest", "kind": "class", "mtry": "all", "node_size": 1},
    "regression_third": {"package": "randomForest", "kind": "regression", "mtry": "third", "node_size": 5},
    "probability_1": {"package": "ranger", "kind": "probability", "mtry": "sqrt", "node_size": 1},
    "probability_10": {"package": "ranger", "kind": "probability", "mtry": "sqrt", "node_size": 10},
    "extratrees": {
        "package": "ranger",
        "kind": "probability",
        "mtry": "sqrt",
        "node_size": 1,
        "extra": {"splitrule": "extratrees", "num.random.splits": 1},
    },
    "subsample": {
        "package": "ranger",
        "kind": "probability",
        "mtry": "sqrt",
        "node_size": 1,
        "extra": {"replace": False, "sample.fraction": 0.632},
    },
}

Row = dict[str, Any]


def candidates(rule: str, n_features: int) -> int:
    """Count the candidate features of a rule, rounded up as the paper's numbers ask.

    >>> candidates("sqrt", 50), candidates("third", 50), candidates("all", 50)
    (8, 17, 50)
    """
    return {
        "sqrt": math.ceil(math.sqrt(n_features)),
        "third": math.ceil(n_features / 3),
        "all": n_features,
    }[rule]


def main() -> None:
    """Draw the problems, let R grow its forests and keep the answers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = write_problems(folder)
        (folder / "settings.json").write_text(json.dumps(SETTINGS))
        write_table(folder / "jobs.csv", jobs(drawn))
        subprocess.run(["Rscript", str(HERE / "record.R"), str(folder)], check=True)
        golden = collect(folder, drawn)
    (HERE / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def write_problems(folder: Path) -> dict[str, dict[int, Problem]]:
    """Draw every replication and write it as one training and one test table."""
    figure = partial(one_d_sparse, n=1000)
    drawn = {name: {seed: draw(seed) for seed in SEEDS} for name, draw in PROBLEMS.items()}
    drawn["figure"] = {seed: figure(seed) for seed in FIGURE_SEEDS}
    for name, replications in drawn.items():
        for seed, problem in replications.items():
            write_problem(folder / f"{name}_{seed}", problem)
    return drawn


def write_problem(stem: Path, problem: Problem) -> None:
    """Write `<stem>_train.csv` and `<stem>_test.csv` in full precision."""
    x_names = [f"x{j + 1}" for j in range(problem.X.shape[1])]
    p_names = [f"p{k}" for k in range(problem.p_test.shape[1])]
    train = np.column_stack([problem.X, problem.y])
    test = np.column_stack([problem.X_test, problem.p_test])
    for part, table, header in (("train", train, [*x_names, "y"]), ("test", test, x_names + p_names)):
        path = stem.with_name(f"{stem.name}_{part}.csv")
        np.savetxt(path, table, fmt="%.17g", delimiter=",", header=",".join(header), comments="")


def jobs(drawn: dict[str, dict[int, Problem]]) -> Iterator[Row]:
    """List every forest R has to grow."""
    for name, replications in drawn.items():
        for seed, problem in replications.items():
            common = {
                "problem": name,
                "replication": seed,
                "trees": TREES,
                "categorical": " ".join(f"x{j + 1}" for j in problem.categorical),
            }
            for setting, mtry in forests(name, problem):
                yield common | {"setting": setting, "mtry": mtry}


def forests(name: str, problem: Problem) -> Iterator[tuple[str, int]]:
    """Pair the settings that apply to a problem with their number of candidate features."""
    if name == "figure":
        yield from (("class_sqrt", mtry) for mtry in FIGURE_MTRY)
        return
    for setting, rules in SETTINGS.items():
        if rules["kind"] == "regression" and problem.p_test.shape[1] > 2:
            continue
        yield setting, candidates(rules["mtry"], problem.X.shape[1])


def collect(folder: Path, drawn: dict[str, dict[int, Problem]]) -> dict[str, Any]:
    """Gather R's tables and what made them into one document."""
    results = read_table(folder / "results.csv")
    figure = [row for row in results if row["problem"] == "figure"]
    return {
        "versions": {row["name"]: row["version"] for row in read_table(folder / "versions.csv")},
        "trees": TREES,
        "seeds": list(SEEDS),
        "settings": SETTINGS,
        "planted": {row.pop("kind"): numbers(row) for row in read_table(folder / "planted.csv")},
        "fingerprints": {
            name: [[round(v, DIGITS) for v in fingerprint(p)] for p in replications.values()]
            for name, replications in drawn.items()
        },
        "results": {
            name: {
                setting: summary(select(results, problem=name, setting=setting))
                for setting, _ in forests(name, drawn[name][SEEDS[0]])
            }
            for name in PROBLEMS
        },
        "figure": {str(mtry): summary(select(figure, mtry=str(mtry))) for mtry in FIGURE_MTRY},
    }


def select(rows: Iterable[Row], **wanted: str) -> list[Row]:
    """Keep the rows that hold all the wanted values."""
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def summary(rows: list[Row]) -> Row:
    """Give each measure its mean, its standard error and its value in every replication."""
    return {measure: describe([float(row[measure]) for row in rows]) for measure in MEASURES}


def describe(values: list[float]) -> Row:
    """Summarise one measure over the replications.

    >>> describe([1.0, 3.0])
    {'mean': 2.0, 'standard_error': 1.0, 'values': [1.0, 3.0]}
    """
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {
        "mean": round(float(np.mean(values)), DIGITS),
        "standard_error": round(error, DIGITS),
        "values": [round(v, DIGITS) for v in values],
    }


def numbers(row: Row) -> Row:
    """Turn the text of a table's row into numbers."""
    return {key: float(value) for key, value in row.items()}


def write_table(path: Path, rows: Iterable[Row]) -> None:
    """Write rows with the same keys as a table with a header."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def read_table(path: Path) -> list[Row]:
    """Read a table with a header as one dictionary of text per row."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
