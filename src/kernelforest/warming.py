"""Compile before the first use: `python -m kernelforest.warming`, for instance when an image for a server is built.

A forest is tuned, grown and asked on a small table. With `--without-growing` trees are grown by plain Python, so that
everything else is compiled, with the types it meets in earnest.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence

import numpy as np

from kernelforest._engine import grow
from kernelforest.estimators import KernelForestClassifier


def warm_up() -> None:
    """Let Numba compile, or load, what a fit and a prediction need."""
    X = np.random.default_rng(0).random((40, 2))
    y = (X[:, 0] > 0.5).astype(int)
    y[::5] = 1 - y[::5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # forty rows are few, and so are eight trees
        model = KernelForestClassifier(n_estimators=8, n_jobs=2, random_state=0).fit(X, y)
    model.predict_proba(X, fill="all")


def grow_in_python() -> None:
    """Let trees be grown by the interpreter from now on, in this process."""
    for name, value in list(vars(grow).items()):
        setattr(grow, name, getattr(value, "py_func", value))


def main(arguments: Sequence[str]) -> None:
    """Compile everything, or everything but growing."""
    if "--without-growing" in arguments:
        grow_in_python()
    warm_up()


if __name__ == "__main__":
    main(sys.argv[1:])
