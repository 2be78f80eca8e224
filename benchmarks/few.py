"""Few rows: the default against other forests where there is hardly anything to tune by.

    python benchmarks/few.py [--rows N,...] [--reps N] > benchmarks/results/few.md

The problems are those the default was made on. Log losses are averages over the labels that a test row might have, in excess
of the truth's; probabilities are kept 1/(2n) away from 0 and 1, which mostly matters to the others. They get the numbers of
levels as they are; a column per level makes them no better.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from halving import MORE, N_TEST, SMALL
from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT, Problem, Sample
from quality_data import seed_of
from quality_report import mean
from quality_rivals import OURS, THREADS, TREES
from tables import say, table

RIVALS: dict[str, Callable[..., Any]] = {
    "rf": RandomForestClassifier,
    "extratrees": ExtraTreesClassifier,
}


def drawn(problem: Problem, n: int, rep: int) -> Sample:
    """Training rows, among which every class has two."""
    samples = (problem.sample(n, seed_of("few", problem.name, n, rep, "train", attempt)) for attempt in count())
    return next(sample for sample in samples if np.bincount(sample.y, minlength=sample.p.shape[1]).min() >= 2)


def excess(problem: Problem, n: int, rep: int) -> dict[str, float]:
    """Expected log loss minus the truth's, of every method on the same rows."""
    train, test = drawn(problem, n, rep), problem.sample(N_TEST, seed_of("few", problem.name, n, rep, "test"))
    how = {"n_jobs": THREADS, "random_state": seed_of("few", problem.name, n, rep, "fit")}
    models = {name: make(TREES, **how) for name, make in RIVALS.items()}
    models[OURS] = KernelForestClassifier(TREES, categorical_features=list(problem.categorical) or None, **how)
    found: dict[str, NDArray[np.float64]] = {
        name: m.fit(train.X, train.y).predict_proba(test.X) for name, m in models.items()
    }
    log_truth = np.log(np.maximum(test.p, 1e-300))
    return {
        name: float((test.p * (log_truth - np.log(np.clip(q, 0.5 / n, 1.0 - 0.5 / n)))).sum(axis=1).mean())
        for name, q in found.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=[30, 60, 120])
    parser.add_argument("--reps", type=int, default=6)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # few rows are warned of
    problems = [*DEVELOPMENT.values(), *MORE]
    lines = []
    for n in options.rows:
        say(f"{n} rows")
        runs = {p.name: [excess(p, n, rep) for rep in range(options.reps)] for p in problems}
        for rival in RIVALS:
            means = {name: [np.mean([run[m] for run in each]) for m in (rival, OURS)] for name, each in runs.items()}
            ratios = {name: float(np.log((theirs + SMALL) / (mine + SMALL))) for name, (theirs, mine) in means.items()}
            each = mean(list(ratios.values()))
            least, lost = min(ratios, key=ratios.__getitem__), sum(ratio < 0 for ratio in ratios.values())
            gap = mean([run[OURS] - run[rival] for run in runs[least]])
            ratio = f"{np.exp(each.value):.2f} ± {np.exp(each.value) * each.error:.2f}"
            lines.append([n, rival, ratio, f"{lost} of {len(ratios)}", f"{least} ({gap.written(3)})"])
    print("# Few rows: `python benchmarks/few.py`\n")
    print(
        f"Log loss in excess of the truth's, of the rival over the default's: geometric mean over {len(problems)} problems,"
    )
    print(
        f".001 added to both, ± one standard error; {options.reps} repetitions, {N_TEST:,} new rows. Then how many problems"
    )
    print("the default loses, and the one where it loses most, with the difference of log losses ± one standard error.\n")
    table(["rows", "rival", "rival / default", "lost", "most"], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
