"""Compile before the first use: `python -m kernelforest.warming`, for instance when an image for a server is built.

Forests are tuned, grown and asked on small tables: of numbers and categories, of two classes and more, with groups; then a
kernel. With `--without-growing` only what any first fit needs is compiled, and trees are grown by plain Python, so that this
is everything but growing, with the types it meets in earnest.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelforest._engine import grow
from kernelforest.calibration import fit_calibrator
from kernelforest.estimators import KernelForestClassifier
from kernelforest.forest import FILLS
from kernelforest.kernel import KINDS

ROWS = 40
X = np.random.default_rng(0).random((ROWS, 2))
LEVELS = np.column_stack((X[:, 0], np.arange(ROWS) % 5))
Y = (X[:, 0] > 0.5).astype(int)
Y[::5] = 1 - Y[::5]


def fit(table: Any, labels: Any, groups: Any = None, sample_weight: Any = None, **parameters: Any) -> KernelForestClassifier:
    """A small forest, and what its users ask first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forty rows are few, and so are eight trees
        model = KernelForestClassifier(n_estimators=8, random_state=0, **parameters)
        model.fit(table, labels, sample_weight, groups=groups)
    model.predict_proba(table)
    model.predict_proba(table, fill="all")
    return model


def warm_the_rest() -> None:
    """The same for categories, gaps, several classes, groups, float32, and for kernels."""
    gaps = X.copy()
    gaps[::7, 1] = np.nan
    pairs = np.arange(ROWS) // 2
    for labels in (Y, np.arange(ROWS) % 3):
        fit(gaps, labels)
        fit(LEVELS, labels, categorical_features=[1])
        fit(X, labels, pairs)
        fit(LEVELS, labels, pairs, categorical_features=[1])
    fit(X.astype(np.float32), Y)
    weighed = fit(X, Y, sample_weight=1.0 + X[:, 0]).kernel_
    for fill in FILLS:
        weighed.weights(X, fill=fill)
    weighed.matrix(kind="gap")
    kernel = fit(X, Y).kernel_
    for kind in KINDS:
        kernel.matrix(kind=kind)
        kernel.matrix(X, kind=kind)
    kernel.matrix(X[:3], X[3:5])
    kernel.matrix(dtype=np.float32)
    kernel.weights(X)
    kernel.average(X)
    kernel.nearest(X, 3)
    kernel.explain(X[0])
    kernel.profile(X[0], 0)


def grow_in_python() -> None:
    """Let trees be grown by the interpreter from now on, in this process."""
    for name, value in list(vars(grow).items()):
        setattr(grow, name, getattr(value, "py_func", value))


def main(arguments: Sequence[str]) -> None:
    """Compile everything, or what a first fit needs but growing."""
    growing = "--without-growing" not in arguments
    if not growing:
        grow_in_python()
    fit(X, Y)
    fit_calibrator("venn-abers", np.column_stack((1.0 - X[:, 0], X[:, 0])), Y)  # of so few rows only the sigmoid is tried
    if growing:
        warm_the_rest()


if __name__ == "__main__":
    main(sys.argv[1:])
