"""Copies of rows: what out-of-bag scores say of over-sampled tables, and what is true of new rows.

    python benchmarks/copies.py [--reps N] [--rows N] > benchmarks/results/copies.md

Hits are drawn again and again until there are as many as misses, as is often done with rare classes, and probabilities are
brought back by a prior. The default draws copies together; `apart` is the default if it took them for different rows; `once`
has every row once.

Then near copies: units that were measured three times, with noise. The default warns of them; `groups` is told of them.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.metrics import log_loss

from kernelforest import KernelForestClassifier
from quality_data import seed_of
from quality_report import mean
from quality_rivals import OURS, THREADS, forest
from tables import say, table

N_TEST = 4_000
Rows = tuple[NDArray[np.float64], NDArray[np.int64]]


def draw(n: int, seed: int) -> Rows:
    """Eight columns, four of which matter; about one row in eight is a hit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    p = expit(X[:, 0] - 0.7 * X[:, 1] + 0.8 * X[:, 2] * X[:, 3] - 2.5)
    return X, (rng.random(n) < p).astype(np.int64)


def oversampled(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> Rows:
    """All misses, and as many hits, drawn with replacement."""
    misses, hits = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    rows = np.concatenate([misses, np.random.default_rng(seed).choice(hits, len(misses))])
    return X[rows], y[rows]


def scores(train: Rows, test: Rows, seed: int, share: float) -> dict[str, tuple[float, float]]:
    """Out-of-bag log loss, and log loss on new rows; probabilities refer to the share of hits before over-sampling."""

    def fit(rows: Rows) -> tuple[float, float]:
        model = KernelForestClassifier(n_jobs=THREADS, random_state=seed, prior=[1.0 - share, share]).fit(*rows)
        return model.oob_score_.log_loss, log_loss(test[1], model.predict_proba(test[0]))

    more = oversampled(*train, seed)
    found = {OURS: fit(more), "once": fit(train)}
    with patch("kernelforest.estimators.copies_as_groups", lambda *_: None):
        found["apart"] = fit(more)
    plain: Any = forest(seed, oob_score=True).fit(*more)
    odds = [np.array([1.0 - share, share]) / 0.5 * p for p in (plain.oob_decision_function_, plain.predict_proba(test[0]))]
    oob, new = (q / q.sum(axis=1, keepdims=True) for q in odds)
    weight = np.where(more[1] == 1, share, 1.0 - share)
    return found | {"rf": (log_loss(more[1], oob, sample_weight=weight), log_loss(test[1], new))}


def measured(n: int, noise: float, seed: int) -> tuple[Rows, NDArray[np.int64]]:
    """Units with six properties, measured three times each, in random order, and which unit a row is of."""
    rng = np.random.default_rng(seed)
    units = rng.normal(size=(n, 6))
    y = (rng.random(n) < expit(2.0 * units.sum(axis=1) / np.sqrt(6.0))).astype(np.int64)
    unit = rng.permutation(np.repeat(np.arange(n), 3))
    return (units[unit] + noise * rng.normal(size=(3 * n, 6)), y[unit]), unit


def near_scores(noise: float, seeds: Sequence[int]) -> dict[str, tuple[float, float, float]]:
    """Out-of-bag log loss, log loss on new units, and whether there was a warning."""
    (X, y), unit = measured(150, noise, seeds[0])
    new = measured(N_TEST // 3, noise, seeds[1])[0]
    found = {}
    for name, groups in ((OURS, None), ("groups", unit)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = KernelForestClassifier(n_jobs=THREADS, random_state=seeds[2]).fit(X, y, groups=groups)
        warned = any("nearer than chance" in str(each.message) for each in said)
        found[name] = model.oob_score_.log_loss, log_loss(new[1], model.predict_proba(new[0])), float(warned)
    plain: Any = forest(seeds[2], oob_score=True).fit(X, y)
    return found | {"rf": (log_loss(y, plain.oob_decision_function_), log_loss(new[1], plain.predict_proba(new[0])), 0.0)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--rows", type=int, default=1000)
    options = parser.parse_args(arguments)
    found: dict[str, list[tuple[float, float]]] = {}
    for rep in range(options.reps):
        say(f"repetition {rep}")
        seeds = [seed_of("copies", rep, what) for what in ("train", "test", "fit")]
        train, test = draw(options.rows, seeds[0]), draw(N_TEST, seeds[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of copies
            each = scores(train, test, seeds[2], float(train[1].mean()))
        for name, pair in each.items():
            found.setdefault(name, []).append(pair)
    print("# Copies of rows: `python benchmarks/copies.py`\n")
    print(f"{options.rows:,} rows, hits over-sampled to one half, {options.reps} repetitions, 500 trees; new rows are not")
    print("over-sampled, and all probabilities refer to the share of hits before. Log loss ± one standard error.\n")
    lines = [[name, *(mean(list(side)).written(3) for side in zip(*pairs, strict=True))] for name, pairs in found.items()]
    table(["method", "out-of-bag", "new rows"], lines)
    print("\n## Near copies\n")
    print(
        f"150 units measured three times, with noise, 6 columns of standard deviation one, {options.reps} repetitions. Log"
    )
    print("loss ± one standard error, and how often there was a warning.\n")
    lines = []
    for noise in (0.01, 0.1, 0.2, 0.3, 0.7):
        say(f"noise {noise}")
        by_rep = [
            near_scores(noise, [seed_of("near", noise, rep, what) for what in range(3)]) for rep in range(options.reps)
        ]
        for name in by_rep[0]:
            oob, new, warned = (list(side) for side in zip(*(each[name] for each in by_rep), strict=True))
            lines.append([f"{noise:g}", name, mean(oob).written(3), mean(new).written(3), f"{np.mean(warned):.0%}"])
    table(["noise", "method", "out-of-bag", "new units", "warned"], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
