"""Does the race of ways to grow find the right one? Few trees flatter large mtry, most of all where there is little noise.

    python benchmarks/halving.py [--rows N] [--reps N] > benchmarks/results/halving.md

The default against itself with a race that trusts few trees (nobody who is dropped comes back, 96 trees decide), with
histogram gradient boosting beside them. The problems are those the default was made on, and four with many informative
columns. Log losses are averages over the labels that a test row might have.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT, Problem, Sample
from quality_data import seed_of
from quality_report import mean
from quality_rivals import THREADS
from tables import say, table

Array = NDArray[np.float64]
N_TEST = 4_000
SMALL = 1e-3  # added to both sides of a ratio: less excess than this hardly matters


def normal(width: int, rng: np.random.Generator, n: int) -> Array:
    """Normal columns."""
    return rng.standard_normal((n, width))


def neighbours(rng: np.random.Generator, n: int) -> Array:
    """Thirty normal columns, each correlated with the next."""
    Z = rng.standard_normal((n, 31))
    return np.asarray((Z[:, 1:] + Z[:, :-1]) / np.sqrt(2.0))


def letters(rng: np.random.Generator, n: int) -> Array:
    """Sixty positions with one of four letters each."""
    return rng.integers(4, size=(n, 60)).astype(np.float64)


def motif(strength: float, shift: float, X: Array) -> Array:
    """Ten positions count, three pairs of them together."""
    effects = 2.0 * np.sin(np.arange(1, 41) * 12.9898).reshape(10, 4)
    z = sum(effects[j, X[:, j].astype(int)] for j in range(10))
    z += 3.0 * ((X[:, 0] == 1) & (X[:, 1] == 2)) + 2.0 * ((X[:, 2] == 0) & (X[:, 3] == 3))
    return expit(strength * (z - 2.0 * ((X[:, 4] == 1) & (X[:, 5] > 1))) + shift)


def eight_of_thirty(X: Array) -> Array:
    """A linear rule in eight of thirty columns."""
    return expit(3.0 * X[:, :8].sum(axis=1) - 2.0)


def ball(X: Array) -> Array:
    """The distance from the middle counts, and a product."""
    return expit(2.5 * ((X[:, :5] ** 2).sum(axis=1) - 4.3) + 3.0 * X[:, 5] * X[:, 6])


MORE = [
    Problem("motif", letters, partial(motif, 1.5, -4.0), "categorical, little noise", tuple(range(60))),
    Problem("weak motif", letters, partial(motif, 0.7, -1.0), "categorical", tuple(range(60))),
    Problem("eight of thirty", neighbours, eight_of_thirty, "linear, little noise"),
    Problem("ball", partial(normal, 12), ball, "smooth, little noise"),
]


def ours(problem: Problem, train: Sample, test: Array, seed: int) -> Array:
    """The default."""
    categories = list(problem.categorical) or None
    model = KernelForestClassifier(n_jobs=THREADS, random_state=seed, categorical_features=categories)
    return model.fit(train.X, train.y).predict_proba(test)


def trusting(problem: Problem, train: Sample, test: Array, seed: int) -> Array:
    """The default, if few trees were trusted."""
    with patch("kernelforest.tuning.MOST_TREES", 96), patch("kernelforest.tuning.challengers", lambda *_: []):
        return ours(problem, train, test, seed)


def boosting(problem: Problem, train: Sample, test: Array, seed: int) -> Array:
    """Histogram gradient boosting."""
    categories = list(problem.categorical) or None
    model = HistGradientBoostingClassifier(random_state=seed, categorical_features=categories)
    return np.asarray(model.fit(train.X, train.y).predict_proba(test))


METHODS: dict[str, Callable[[Problem, Sample, Array, int], Array]] = {
    "default": ours,
    "trusting": trusting,
    "hgb": boosting,
}


def excess(method: str, problem: Problem, n: int, rep: int) -> tuple[float, float]:
    """Expected log loss minus the truth's, of probabilities kept 1/(2n) away from 0 and 1; and seconds."""
    seeds = [seed_of("halving", problem.name, n, rep, what) for what in ("train", "test", "fit")]
    train, test = problem.sample(n, seeds[0]), problem.sample(N_TEST, seeds[1])
    began = perf_counter()
    found = np.clip(METHODS[method](problem, train, test.X, seeds[2]), 0.5 / n, 1.0 - 0.5 / n)
    seconds = perf_counter() - began
    return float((test.p * np.log(np.maximum(test.p, 1e-300) / found)).sum(axis=1).mean()), seconds


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--reps", type=int, default=2)
    options = parser.parse_args(arguments)
    lines: list[list[str]] = []
    ratios: dict[str, list[float]] = {method: [] for method in METHODS}
    times: dict[str, list[float]] = {method: [] for method in METHODS}
    for problem in [*DEVELOPMENT.values(), *MORE]:
        say(problem.name)
        found = {m: [excess(m, problem, options.rows, rep) for rep in range(options.reps)] for m in METHODS}
        each = {method: np.array(pairs) for method, pairs in found.items()}
        lines.append([problem.name, *(mean([1e3 * loss for loss, _ in pairs]).written(1) for pairs in found.values())])
        for method, pairs in each.items():
            base = each["default"].mean(axis=0)
            ratios[method].append(float(np.log((pairs[:, 0].mean() + SMALL) / (base[0] + SMALL))))
            times[method].append(float(np.log(pairs[:, 1].mean() / base[1])))
    others = list(METHODS)[1:]
    print("# Few trees flatter large mtry: `python benchmarks/halving.py`\n")
    print(
        f"Log loss in excess of the truth's x 1000, {options.rows:,} rows, {options.reps} repetitions, {N_TEST:,} new rows;"
    )
    print("± is one standard error. trusting: nobody who is dropped comes back, and 96 trees decide.\n")
    table(["problem", *METHODS], lines)
    print("\nRatios to the default, geometric means over the problems, .001 added to every excess:\n")
    for_each = {m: (mean(ratios[m]), float(np.exp(np.mean(times[m])))) for m in others}
    entries = [[m, f"{np.exp(r.value):.2f} ± {np.exp(r.value) * r.error:.2f}", f"{t:.2f}"] for m, (r, t) in for_each.items()]
    table(["", "excess", "time"], entries)


if __name__ == "__main__":
    main(sys.argv[1:])
