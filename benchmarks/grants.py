"""What larger leaves are granted: less where there is less noise, as the default does, or as much everywhere?

    python benchmarks/grants.py [--rows N,...] [--reps N] [--splits N] > benchmarks/results/grants.md

On the problems the default was made on, on the data sets that come with scikit-learn, and on those of R packages that are
installed (breadth.R; without R, without them).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from breadth import cut, exported
from changed import Array, compare, options_of, plain
from kernelforest import KernelForestClassifier
from kernelforest.judging import Judge
from quality_report import mean
from rules import real_tasks
from tables import heading, say, table

ENDS = (0.0, 0.25, 0.5, 0.75, np.inf)  # of groups of sets, by what is left of the entropy of the class shares


def as_much_everywhere(model: KernelForestClassifier, X: Any, y: NDArray[np.int64]) -> KernelForestClassifier:
    """As if the labels of every table were all noise."""
    with patch.object(Judge, "score_of_shares", lambda judge, n_rows: 0.0):
        return model.fit(X, y)


class Split(NamedTuple):
    """Rows to fit on and rows to score on."""

    name: str
    X: Any
    y: NDArray[np.int64]
    X_test: Any
    hits: Array  # (n_rows, n_classes) ones and zeros
    seed: int


def splits(paths: dict[str, Path], reps: int) -> Iterator[Split]:
    """Of the sets of scikit-learn, and of those in files."""
    for rep in range(reps):
        for name, task in real_tasks(rep):
            yield Split(f"scikit-learn/{name}", task.X, task.y, task.X_test, task.truth, rep)
        for name, path in paths.items():
            if (found := cut(path, rep)) is not None:
                hits = np.eye(found.train.y.max() + 1)[found.test.y]
                yield Split(name, found.train.native, found.train.y, found.test.native, hits, found.seed)


def scores(split: Split) -> tuple[str, Array, float]:
    """Log loss and Brier score under both rules, (rules, scores), and the entropy of the class shares."""
    warnings.simplefilter("ignore")  # some sets are small
    n, shares, found = len(split.y), np.bincount(split.y) / len(split.y), []
    for fit in (plain, as_much_everywhere):
        p = fit(KernelForestClassifier(random_state=split.seed), split.X, split.y).predict_proba(split.X_test)
        kept = np.maximum(p, 0.5 / n)
        kept /= kept.sum(axis=1, keepdims=True)
        found.append([-(split.hits * np.log(kept)).sum(axis=1).mean(), ((p - split.hits) ** 2).sum(axis=1).mean()])
    return split.name, np.array(found), float(-shares @ np.log(shares))


def on_data_sets(reps: int) -> None:
    """Print ratios of the mean scores of the one rule to those of the other, by how much noise there is."""
    by_set: dict[str, list[tuple[Array, float]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        paths = exported(folder) if shutil.which("Rscript") else {}
        say(f"grants: {len(paths)} sets of R packages")
        for name, found, entropy in Parallel(2, return_as="generator")(delayed(scores)(s) for s in splits(paths, reps)):
            by_set[name].append((found, entropy))
    means = {name: np.mean([found for found, _ in each], axis=0) for name, each in by_set.items()}
    left = {name: means[name][0, 0] / np.mean([entropy for _, entropy in each]) for name, each in by_set.items()}
    print(f"{len(means)} sets, {reps} splits: geometric means over the sets of the ratio of mean scores on new rows, and on")
    print("how many sets the default is better, and worse, by more than one in 2,000. Above 1 the default is better.")
    print("Noise: the default's log loss over the entropy of the class shares.\n")
    lines = []
    for low, high in [*pairwise(ENDS), (0.0, np.inf)]:
        logs = np.array([np.log(m[1] / m[0]) for name, m in means.items() if low <= left[name] < high])
        if not len(logs):
            continue
        cells = []
        for ratios in logs.T:
            each = mean(ratios.tolist())
            cells.append(f"{np.exp(each.value):.3f} ± {np.exp(each.value) * each.error:.3f}")
            cells.append(f"{(ratios > 5e-4).sum()}, {(ratios < -5e-4).sum()}")
        lines.append([f"{low:g} to {high:g}" if high < np.inf else f"from {low:g}", str(len(logs)), *cells])
    table(["noise", "sets", "log loss", "better, worse", "Brier score", "better, worse"], lines)


def main(arguments: Sequence[str]) -> None:
    """Run, and print two tables."""
    options = options_of(__doc__, (300, 1_000, 3_000), 4, arguments, splits=2)
    print("# What larger leaves are granted: `python benchmarks/grants.py`\n")
    print("The default grants them less the less noise there is; changed: as much everywhere.\n")
    compare({"as much everywhere": as_much_everywhere}, "grants", options)
    heading("Data sets of scikit-learn and of R packages")
    on_data_sets(options.splits)


if __name__ == "__main__":
    main(sys.argv[1:])
