"""How large may leaves be? The default, which tries up to nine tenths of the rows, against other largest leaves.

    python benchmarks/leaves.py [--rows N,...] [--reps N] > benchmarks/results/leaves.md

Of two leaves one has at least half of the rows. So if that is the largest leaf size tried, hardly a tree stops at a single
cut, though the truth may be one step. Steps of several heights, at several places and among several columns are a table of
their own.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from changed import Array, compare, options_of
from kernelforest import KernelForestClassifier
from kernelforest.problems import Problem
from tables import heading

LARGEST = (0.5, 0.75, 0.99)  # share of the rows


def uniform(width: int, rng: np.random.Generator, n: int) -> Array:
    """Uniform columns."""
    return rng.random((n, width))


def step(place: float, low: float, high: float, X: Array) -> Array:
    """One chance on each side of a place in the first column."""
    return np.where(X[:, 0] < place, low, high)


STEPS = [
    Problem(f"{width} columns, {low} to {high} at {place}", partial(uniform, width), partial(step, place, low, high))
    for width, place, low, high in [
        (3, 0.5, 0.35, 0.65),
        (3, 0.8, 0.2, 0.5),
        (10, 0.3, 0.1, 0.4),
        (10, 0.6, 0.7, 0.3),
        (40, 0.5, 0.25, 0.6),
        (40, 0.75, 0.1, 0.5),
    ]
]


def sizes_up_to(largest: float, n_rows: int, most: int = 25) -> NDArray[np.int64]:
    """Leaf sizes in equal ratios."""
    return np.unique(np.geomspace(1, max(1, int(largest * n_rows)), most).round().astype(np.int64))


def fit_up_to(largest: float, model: KernelForestClassifier, X: Array, y: NDArray[np.int64]) -> KernelForestClassifier:
    """With leaf sizes up to a share of the rows."""
    with patch("kernelforest.tuning.leaf_sizes", partial(sizes_up_to, largest)):
        return model.fit(X, y)


def main(arguments: Sequence[str]) -> None:
    """Run, and print a table."""
    options = options_of(__doc__, (120, 300, 1_000), 6, arguments)
    print("# How large may leaves be: `python benchmarks/leaves.py`\n")
    changed = {f"up to {largest} of the rows": partial(fit_up_to, largest) for largest in LARGEST}
    compare(changed, "leaves", options)
    heading("Where the truth is one step")
    compare(changed, "leaves", options, STEPS)


if __name__ == "__main__":
    main(sys.argv[1:])
