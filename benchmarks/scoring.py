"""Choose by log loss or by Brier score? The default with either, on the problems it was made on.

    python benchmarks/scoring.py [--rows N,...] [--reps N] > benchmarks/results/scoring.md

Both are proper, so both aim at the true probability. What is compared is how far from it they end where it is known: by log
loss in excess of the truth's, and root mean squared error.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from halving import MORE, N_TEST, SMALL
from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT, Problem
from kernelforest.scoring import SCORINGS
from quality_data import seed_of
from quality_report import mean
from quality_rivals import THREADS
from tables import say, table

MEASURES = ("log loss in excess of the truth's", "RMSE")


def errors(scoring: str, problem: Problem, n: int, rep: int) -> tuple[float, float]:
    """Expected log loss minus the truth's, and root mean squared error, of a forest that is chosen by this score."""
    seeds = [seed_of("scoring", problem.name, n, rep, what) for what in ("train", "test", "fit")]
    train, test = problem.sample(n, seeds[0]), problem.sample(N_TEST, seeds[1])
    model = KernelForestClassifier(
        scoring=scoring, n_jobs=THREADS, random_state=seeds[2], categorical_features=list(problem.categorical) or None
    )
    found = np.clip(model.fit(train.X, train.y).predict_proba(test.X), 1e-12, 1.0)
    excess = (test.p * np.log(np.maximum(test.p, 1e-300) / found)).sum(axis=1).mean()
    return float(excess), float(np.sqrt(((found - test.p) ** 2).mean()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=[300, 1_000, 3_000])
    parser.add_argument("--reps", type=int, default=4)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # some classes are rare
    problems = [*DEVELOPMENT.values(), *MORE]
    lines = []
    for n in options.rows:
        say(f"{n} rows")
        # (scorings, problems, repetitions, measures)
        found = np.array([[[errors(s, p, n, rep) for rep in range(options.reps)] for p in problems] for s in SCORINGS])
        by_log_loss, by_brier = found.mean(axis=2)
        for k, measure in enumerate(MEASURES):
            ratios = np.log((by_brier[:, k] + SMALL) / (by_log_loss[:, k] + SMALL))
            each = mean(ratios.tolist())
            low, high = ratios.argmin(), ratios.argmax()
            worst = [f"{np.exp(ratios[j]):.2f} ({problems[j].name})" for j in (low, high)]
            ratio = f"{np.exp(each.value):.3f} ± {np.exp(each.value) * each.error:.3f}"
            lines.append([f"{n:,}", measure, ratio, *worst])
    print("# Choose by log loss or by Brier score: `python benchmarks/scoring.py`\n")
    print(f"scoring='brier' against the default, {len(problems)} problems, {options.reps} repetitions, {N_TEST:,} new rows:")
    print("geometric means over the problems of the ratio of mean errors, .001 added to both. Above 1 log loss is better.")
    print("± is one standard error over the problems.\n")
    table(["rows", "error", "brier / log loss", "least", "most"], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
