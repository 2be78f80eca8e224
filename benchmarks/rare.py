"""Rare hits among many rows: the default against other forests, on a problem with known probabilities.

    python benchmarks/rare.py [--reps N] [--rows N] > benchmarks/results/rare.md

Tuning and calibration score some of the rows, among which a rare class keeps its own; `blind` is the default with rows drawn
without regard to classes.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier

from kernelforest import KernelForestClassifier
from kernelforest.scoring import Sample
from quality_data import Side, Split, seed_of
from quality_report import mean
from quality_rivals import OURS, THREADS, fitted_shares, forest
from tables import say, table

Array = NDArray[np.float64]
N_TEST = 40_000


def draw(n: int, seed: int) -> Side:
    """Twelve columns, five of which matter; about nine hits in a thousand rows."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 12))
    p = expit(-7.0 + 2.0 * X[:, 0] + 3.0 * (X[:, 1] > 0.7) + 2.0 * X[:, 2] * X[:, 3] - np.sin(3.0 * X[:, 4]))
    return Side(X, np.float32(X), (rng.random(n) < p).astype(np.int64), p)


def ours(split: Split) -> Array:
    """The default."""
    return fitted_shares(KernelForestClassifier(n_jobs=THREADS, random_state=split.seed), split, "native")


def blind(split: Split) -> Array:
    """The default, if rows to score were drawn without regard to classes."""

    def sample_blindly(rows: NDArray[np.int64], _: object, weight: Array, most: int, seed: int) -> Sample:
        some = np.random.default_rng(seed).permutation(rows)[:most]
        return Sample(some, weight[some])

    with (
        patch("kernelforest.tuning.sample_rows", sample_blindly),
        patch("kernelforest.outofbag.sample_rows", sample_blindly),
    ):
        return ours(split)


METHODS: dict[str, Callable[[Split], Array]] = {
    OURS: ours,
    "blind": blind,
    "rf": lambda split: fitted_shares(forest(split.seed), split, "dummies"),
    "hgb": lambda split: fitted_shares(HistGradientBoostingClassifier(random_state=split.seed), split, "native"),
}


def excess(method: str, split: Split) -> float:
    """Log loss in excess of the truth's, of probabilities kept 1/(2n) away from 0 and 1; in thousandths."""
    floor = 0.5 / len(split.train.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        q = np.clip(METHODS[method](split)[:, 1], floor, 1.0 - floor)
    p = split.test.p
    assert p is not None
    return float(1000.0 * np.mean(p * np.log(p / q) + (1.0 - p) * np.log((1.0 - p) / (1.0 - q))))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=40_000)
    options = parser.parse_args(arguments)
    found: dict[str, list[float]] = {name: [] for name in METHODS}
    hits = 0
    for rep in range(options.reps):
        seeds = [seed_of("rare", rep, what) for what in ("train", "test", "fit")]
        split = Split(draw(options.rows, seeds[0]), draw(N_TEST, seeds[1]), seeds[2])
        hits += int(split.train.y.sum())
        for name in METHODS:
            found[name].append(excess(name, split))
            say(f"{rep} {name} {found[name][-1]:.3f}")
    print("# Rare hits among many rows: `python benchmarks/rare.py`\n")
    print(
        f"{options.rows:,} rows, {hits / options.reps:.0f} of them hits on average; {options.reps} repetitions, 500 trees."
    )
    print("Log loss × 1000 in excess of the truth's ± one standard error; differences are paired.\n")
    base = np.array(found[OURS])
    lines = [[name, mean(each).written(2), mean(np.array(each) - base).written(2, "+")] for name, each in found.items()]
    table(["method", "excess log loss × 1000", "minus default"], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
