"""Choose by log loss or by Brier score? The default with either, on the problems it was made on.

    python benchmarks/scoring.py [--rows N,...] [--reps N] > benchmarks/results/scoring.md

Both are proper, so both aim at the true probability.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from changed import Array, compare, options_of
from kernelforest import KernelForestClassifier


def by_brier(model: KernelForestClassifier, X: Array, y: NDArray[np.int64]) -> KernelForestClassifier:
    """Chosen by the Brier score."""
    return model.set_params(scoring="brier").fit(X, y)


def main(arguments: Sequence[str]) -> None:
    """Run, and print a table."""
    options = options_of(__doc__, (300, 1_000, 3_000), 4, arguments)
    print("# Choose by log loss or by Brier score: `python benchmarks/scoring.py`\n")
    compare({"scoring='brier'": by_brier}, "scoring", options)


if __name__ == "__main__":
    main(sys.argv[1:])
