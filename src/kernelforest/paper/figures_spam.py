"""The figures of spam with 50 junk predictors: how flat the kernel is along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelforest.displays.canvas import BLUE, ORANGE, PALE
from kernelforest.paper.experiment import FAILS, HOLDS, Claim, Experiment, Finding, Records
from kernelforest.paper.figures_shared import column, grow, mean, rounded

N_JUNK = 50
TRIED = (1, 2, 5, 10, 20, 34, 60, 107)
QUICK_TRIED = (1, 10, 34)
SHOWN = (10, 34)


def load_spam() -> tuple[Any, Any]:
    """Rows and labels."""
    from kernelforest.datasets import load_dataset

    data = load_dataset("spam")
    return np.asarray(data.X, dtype=np.float64), np.asarray(data.y)


def with_junk(X: Any, rng: np.random.Generator) -> Any:
    """Add permuted copies of randomly chosen columns, each permuted on its own."""
    copied = X[:, rng.choice(X.shape[1], N_JUNK, replace=False)]
    return np.hstack([X, rng.permuted(copied, axis=0)])


def one_spam(rep: int, quick: bool) -> dict[str, Any]:
    """Right derivatives at the mean row, in steps of 0.2 standard deviations, per standard deviation."""
    X, y = load_spam()
    rng = np.random.default_rng([34, rep])
    if quick:
        rows = rng.choice(len(X), 1500, replace=False)
        X, y = X[rows], y[rows]
    X = with_junk(X, rng)
    spread = X.std(axis=0)
    X = X[:, spread > 0] / spread[spread > 0]
    tried = QUICK_TRIED if quick else TRIED
    out: dict[str, Any] = {"mtry": list(tried), "junk": [], "others": []}
    for mtry in tried:
        model = grow(X, y, n_trees=60 if quick else 500, mtry=mtry, seed=rep)
        slope = model.kernel_.derivatives(X.mean(axis=0), h=0.2).right
        out["junk"].append(float(np.abs(slope[-N_JUNK:]).mean()))
        out["others"].append(float(np.abs(slope[:-N_JUNK]).mean()))
        if mtry in SHOWN:
            out[f"slopes_{mtry}"] = rounded(slope)
    return out
