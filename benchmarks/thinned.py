"""The frequent class thinned, and weights that undo it: how near to the truth a forest comes.

    python benchmarks/thinned.py [--reps N] > benchmarks/results/thinned.md

As many misses are kept as there are hits. `sample_weight` says how many rows each stands for. It is the same for all rows
of a class, so the default hears it as a prior. Beside it: weights with a little noise, of which it hears what they say about
the classes; the share of hits alone; and scikit-learn's forest with the weights, with leaves of one row and of twenty.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, xlogy
from sklearn.ensemble import RandomForestClassifier

from kernelforest import KernelForestClassifier
from quality_data import seed_of
from quality_report import mean
from quality_rivals import OURS, THREADS, TREES
from tables import say, table

Array = NDArray[np.float64]
SHIFTS = (-3.5, -6.0, -8.0)  # of the log odds
HITS = (200, 600)
N_POOL, N_TEST = 1_000_000, 100_000


def population(n: int, shift: float, seed: int) -> tuple[Array, Array]:
    """Eight normal columns, three of which count."""
    X = np.random.default_rng(seed).standard_normal((n, 8))
    return X, expit(1.2 * X[:, 0] + 0.8 * X[:, 1] - X[:, 2] + shift)


def probabilities(model: Any, X: Array, y: NDArray[np.int64], weight: Array, new: Array) -> Array:
    """P(hit) of new rows."""
    return np.asarray(model.fit(X, y, sample_weight=weight).predict_proba(new)[:, 1])


def excess(shift: float, hits: int, rep: int) -> dict[str, float]:
    """Expected log loss minus the truth's, of every method on the same rows."""
    seeds = [seed_of("thinned", shift, hits, rep, what) for what in ("train", "test", "fit")]
    X, p = population(N_POOL, shift, seeds[0])
    rng = np.random.default_rng(seeds[2])
    y = (rng.random(N_POOL) < p).astype(np.int64)
    rows = np.concatenate([np.flatnonzero(y == c)[:hits] for c in (0, 1)])
    share = y.mean()
    X, y = X[rows], y[rows]
    weight = np.where(y == 1, share, 1.0 - share)
    new, truth = population(N_TEST, shift, seeds[1])
    how = {"n_jobs": THREADS, "random_state": seeds[2]}

    def ours(weight: Array) -> Array:
        return probabilities(KernelForestClassifier(TREES, **how), X, y, weight, new)

    methods: dict[str, Callable[[], Array]] = {
        OURS: lambda: ours(weight),
        "noisy weights": lambda: ours(weight * rng.uniform(0.9, 1.1, len(y))),
        "share of hits": lambda: np.full(N_TEST, share),
        "rf": lambda: probabilities(RandomForestClassifier(TREES, **how), X, y, weight, new),
        "rf, leaves of 20": lambda: probabilities(
            RandomForestClassifier(TREES, min_samples_leaf=20, **how), X, y, weight, new
        ),
    }
    least = 0.5 * share / hits
    found = {name: np.clip(method(), least, 1.0 - least) for name, method in methods.items()}
    return {
        name: float((xlogy(truth, truth / q) + xlogy(1.0 - truth, (1.0 - truth) / (1.0 - q))).mean())
        for name, q in found.items()
    }


def main(arguments: Sequence[str]) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=8)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    lines, names = [], []
    for shift in SHIFTS:
        for hits in HITS:
            say(f"thinned: {hits} hits, log odds {shift}")
            found = [excess(shift, hits, rep) for rep in range(options.reps)]
            share = population(N_POOL, shift, 0)[1].mean()
            names = list(found[0])
            cells = [mean([1000.0 * each[name] for each in found]).written(2) for name in names]
            lines.append([f"{100 * share:.2g} %", str(hits), *cells])
    print("# Thinned misses: `python benchmarks/thinned.py`\n")
    print(f"Log loss in excess of the truth's x 1000, {options.reps} repetitions; ± is one standard error.")
    print("As many misses as hits, weighted to stand for all. Probabilities are kept a little away from 0 and 1.\n")
    table(["share of hits", "hits", *names], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
