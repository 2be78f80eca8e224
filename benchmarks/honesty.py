"""Out-of-bag scores against new rows: how far does the score of a tuned and calibrated forest flatter?

    python benchmarks/honesty.py [--reps N] > benchmarks/results/honesty.md

Labels that have nothing to do with the columns, where every choice is a choice by chance, and problems with a signal.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import log_loss

from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT
from quality_data import seed_of
from quality_report import mean
from quality_rivals import THREADS
from tables import say, table

N_TEST = 5_000
NOISE = (2, 3, 5)  # classes
SIGNAL = ("stairs", "friedman", "gaussians", "mixed", "three", "rings")
SIZES = (60, 200, 1_000)


def draw(name: str, n: int, seed: int) -> tuple[Any, Any]:
    """Rows of a problem; or eight columns, and classes drawn alike."""
    if name in DEVELOPMENT:
        sample = DEVELOPMENT[name].sample(n, seed)
        return sample.X, sample.y
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 8)), rng.integers(int(name.split()[1]), size=n)


def score(name: str, n: int, rep: int) -> tuple[float, float]:
    """Out-of-bag log loss, and log loss on new rows."""
    seeds = [seed_of("honesty", name, n, rep, what) for what in ("train", "test", "fit")]
    model = KernelForestClassifier(n_jobs=THREADS, random_state=seeds[2]).fit(*draw(name, n, seeds[0]))
    X, y = draw(name, N_TEST, seeds[1])
    known = np.isin(y, model.classes_)  # sixty rows may lack one
    return model.oob_score_.log_loss, log_loss(y[known], model.predict_proba(X[known]), labels=model.classes_)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=30)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # of few rows
    lines = []
    for name in [*(f"noise {k} classes" for k in NOISE), *SIGNAL]:
        for n in SIZES:
            say(f"{name}, {n} rows")
            pairs = [score(name, n, rep) for rep in range(options.reps)]
            oob, new = (mean(list(side)).written(3) for side in zip(*pairs, strict=True))
            lines.append([name, f"{n:,}", oob, new, mean([a - b for a, b in pairs]).written(4)])
    print("# Out-of-bag scores against new rows: `python benchmarks/honesty.py`\n")
    print(
        f"Log loss of the default, {options.reps} repetitions, {N_TEST:,} new rows; ± is one standard error. Below zero, the"
    )
    print("out-of-bag score flatters.\n")
    table(["problem", "rows", "out-of-bag", "new rows", "difference"], lines)


if __name__ == "__main__":
    main(sys.argv[1:])
