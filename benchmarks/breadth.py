"""Compare the default with other forests on data sets that come with packages of R.

    python benchmarks/breadth.py [run|report] [--reps N] [--jobs N]

`run` asks Rscript for the sets (breadth.R names them and their packages), keeps every score in results/breadth.jsonl as soon
as it is known, and does not repeat what is kept. `report` prints the tables. There are two collections: the second, of sets
named further/*, was put together when the default had been settled, and has four splits at most.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from kernelforest import KernelForestClassifier
from quality_data import Side, Split, dummy_form, seed_of
from quality_records import Record, lines
from quality_report import difference, mean
from quality_rivals import OURS, TREES, calibrated_shares, fitted_shares, forest
from tables import heading, say, table

KEPT = Path(__file__).resolve().parent / "results" / "breadth.jsonl"
EXPORT = Path(__file__).resolve().parent / "breadth.R"
MOST_TRAIN, MOST_TEST = 2_000, 3_000
FURTHER, FURTHER_SPLITS = "further/", 4
NAMES = {"log_loss": "log loss", "brier": "Brier score"}


def cut(path: Path, rep: int) -> Split | None:
    """Cut a set at random, four fifths to fit on; None if a class is missing there, or has too few rows for five folds."""
    frame = pd.read_csv(path, keep_default_na=False, na_values=["NA"])
    y = frame.pop("y").astype("category").cat.codes.to_numpy(dtype=np.int64)
    for name in frame:
        frame[name] = frame[name].astype("category" if name.startswith("level") else float)
    seed = seed_of("breadth", path.stem, rep)
    order = np.random.default_rng(seed).permutation(len(y))
    n = min(MOST_TRAIN, round(0.8 * len(y)))
    train, test = order[:n], order[n : n + MOST_TEST]
    if np.bincount(y[train], minlength=y.max() + 1).min() < 5:
        return None
    numbers = dummy_form(frame)
    return Split(*(Side(frame.iloc[rows], numbers[rows], y[rows]) for rows in (train, test)), seed)


METHODS: dict[str, Callable[[Split], NDArray[np.float64]]] = {
    OURS: lambda split: fitted_shares(KernelForestClassifier(random_state=split.seed), split, "native"),
    "rf": lambda split: fitted_shares(forest(split.seed), split, "dummies"),
    "rf_sigmoid": partial(calibrated_shares, "sigmoid"),
    "rf_isotonic": partial(calibrated_shares, "isotonic"),
    "extratrees": lambda split: fitted_shares(ExtraTreesClassifier(TREES, random_state=split.seed), split, "dummies"),
    "hgb": lambda split: fitted_shares(HistGradientBoostingClassifier(random_state=split.seed), split, "native"),
}
FOREST_METHODS = [name for name in METHODS if name not in (OURS, "hgb")]


def scores(method: str, split: Split) -> Record:
    """Fit, predict, and score the test rows; probabilities are kept 1/(2n) away from 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some sets are small, and each library says so in its way
        p = METHODS[method](split)
    y = split.test.y
    kept = np.maximum(p, 0.5 / len(split.train.y))
    kept /= kept.sum(axis=1, keepdims=True)
    brier = ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()
    return {
        "log_loss": round(float(-np.log(kept[np.arange(len(y)), y]).mean()), 6),
        "brier": round(float(brier), 6),
        "rows": len(split.train.y),
        "columns": split.train.native.shape[1],
        "classes": p.shape[1],
    }


def run(reps: int, jobs: int) -> None:
    """Score what is not kept yet."""
    kept = {(r["set"], r["rep"], r["method"]) for r in records()}
    with tempfile.TemporaryDirectory() as folder:
        paths = exported(folder)
        say(f"breadth: {len(paths)} sets, {len(kept)} scores are kept")
        splits = {each: min(reps, FURTHER_SPLITS) if each.startswith(FURTHER) else reps for each in paths}
        tasks = (delayed(one)(each, paths[each], rep, kept) for rep in range(reps) for each in paths if rep < splits[each])
        for found in Parallel(jobs, return_as="generator_unordered")(tasks):
            with KEPT.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in found)


def exported(folder: str) -> dict[str, Path]:
    """Let R write the sets of the packages that are installed into a folder."""
    subprocess.run(["Rscript", str(EXPORT), folder], check=True)
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(Path(folder).rglob("*.csv"))}


def one(name: str, path: Path, rep: int, kept: set[tuple[str, int, str]]) -> list[Record]:
    """Every method on one split."""
    left = [method for method in METHODS if (name, rep, method) not in kept]
    split = cut(path, rep) if left else None
    if split is None:
        return []
    return [{"set": name, "rep": rep, "method": method} | scores(method, split) for method in left]


def records() -> list[Record]:
    """What is kept."""
    return list(lines(KEPT)) if KEPT.exists() else []


BySet = dict[str, dict[str, dict[int, float]]]  # scores by set, method and repetition


@cache
def by_set(score: str, further: bool | None) -> BySet:
    """The scores of one collection, or of both."""
    found: BySet = {}
    for record in records():
        if further is None or record["set"].startswith(FURTHER) == further:
            found.setdefault(record["set"], {}).setdefault(record["method"], {})[record["rep"]] = record[score]
    return dict(sorted(found.items()))


def report() -> None:
    """Print a table for each score, and what it comes to."""
    print("# The default on data sets from packages of R\n")
    print(f"80/20 splits, at most {MOST_TRAIN} rows to fit on, {TREES} trees each;")
    print("calibration by five folds; ± is one standard error of a difference on the same splits.")
    print(
        "The further sets were collected later. Of the rules that were compared on these sets one was adopted (grants.py)."
    )
    shapes = {r["set"]: (r["rows"], r["columns"], r["classes"]) for r in records()}
    for further, score in product((False, True), NAMES):
        found = by_set(score, further)
        heading(
            f"{len(found)} {'further sets' if further else 'sets'}, {NAMES[score]}: rival minus default, positive is worse"
        )
        table(
            ["set", "rows", "columns", "classes", "splits", OURS, *list(METHODS)[1:]],
            [[each.removeprefix(FURTHER), *shapes[each], *row(scored)] for each, scored in found.items()],
        )
        print()
        conclude(found)
    for score, name in NAMES.items():
        found = by_set(score, None)
        heading(f"all {len(found)} sets, {name}")
        conclude(found)


def conclude(found: BySet) -> None:
    """Print what some sets come to."""
    for method in list(METHODS)[1:]:
        print(f"- {summary(found, method)}")
    print(f"- {best_of(found)}")


def row(scored: dict[str, dict[int, float]]) -> Iterator[str]:
    """Splits, the default's mean, and differences to it."""
    ours = scored[OURS]
    yield str(len(ours))
    yield f"{mean(ours.values()).value:.4f}"
    for method in list(METHODS)[1:]:
        gap = difference(scored.get(method, {}), ours)
        yield gap.written(4, "+") if gap else "-"


def summary(found: BySet, method: str) -> str:
    """How a rival does over all sets."""
    pairs = [(scored[method], scored[OURS]) for scored in found.values() if method in scored]
    gaps = [gap for theirs, ours in pairs if (gap := difference(theirs, ours))]
    ratios = mean(np.log(mean(theirs.values()).value / mean(ours.values()).value) for theirs, ours in pairs)
    better, worse = (sum(sign * gap.value > gap.error for gap in gaps) for sign in (1, -1))
    ratio, error = np.exp(ratios.value), np.exp(ratios.value) * ratios.error
    return (
        f"{method}: {100 * (ratio - 1):+.1f} % ± {100 * error:.1f} (geometric mean over sets); of "
        f"{len(gaps)} sets it is worse than the default by more than one standard error on {better}, better on {worse}"
    )


def best_of(found: BySet) -> str:
    """How often the default is at or below the best of the other forests, and where not."""
    lost = []
    for each, scored in found.items():
        best = min((name for name in FOREST_METHODS if name in scored), key=lambda name: mean(scored[name].values()).value)
        gap = difference(scored[OURS], scored[best])
        if gap is None or not gap.within():
            lost.append(f"{each.removeprefix(FURTHER)} ({gap.written(4, '+') if gap else '-'} against {best})")
    n = len(found)
    there = f"; not on {', '.join(lost)}" if lost else ""
    return f"at or below the best of the four other forests within one standard error on {n - len(lost)} of {n} sets{there}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="?", choices=["run", "report"], default="report")
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.what == "run":
        run(options.reps, options.jobs)
    report()


if __name__ == "__main__":
    main()
