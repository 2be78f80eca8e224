"""Uses of the kernel against the tools at hand: imputation, suspicious labels, maps.

    python benchmarks/uses.py [--reps N] > benchmarks/results/uses.md

Gaps are made at random in the tables that come with scikit-learn; labels are changed at random. Columns are standardised for
the nearest rows. Time is a ratio in the same run.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.decomposition import KernelPCA
from sklearn.ensemble import IsolationForest, RandomForestClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from kernelforest import ForestKernel, KernelForestClassifier
from kernelforest.problems import DEVELOPMENT
from kernelforest.uses import impute, map_rows, outliers
from quality_report import mean
from quality_rivals import THREADS
from tables import heading, say, table

Array = NDArray[np.float64]
GAPS, CHANGED = 0.2, 0.05
OURS = "kernelforest"


def tables() -> Iterator[tuple[str, Array, NDArray[np.int64]]]:
    """Tables of numbers with classes."""
    for load in (load_breast_cancer, load_digits, load_iris, load_wine):
        X, y = load(return_X_y=True)
        varied = [len(np.unique(column)) > 2 for column in X.T]
        yield load.__name__.removeprefix("load_"), X[:, varied], y
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, (y > np.median(y)).astype(np.int64)


def imputers(y: NDArray[np.int64], seed: int) -> dict[str, Callable[[Array], Array]]:
    """Ways to fill a table."""

    def ours(X: Array) -> Array:
        filled: Array = impute(KernelForestClassifier(n_jobs=THREADS, random_state=seed).fit(X, y).kernel_, X)
        return filled

    def nearest(X: Array) -> Array:
        centre, spread = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
        filled: Array = KNNImputer().fit_transform((X - centre) / spread) * spread + centre
        return filled

    return {OURS: ours, "mean": SimpleImputer().fit_transform, "nearest rows": nearest}


def gaps_filled(reps: int) -> None:
    """Print errors of what was filled in, in standard deviations of the columns."""
    errors: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rep in range(reps):
        for name, X, y in tables():
            say(f"gaps, repetition {rep}: {name}")
            rng = np.random.default_rng([1, rep])
            missing = rng.random(X.shape) < GAPS
            for method, fill in imputers(y, rep).items():
                apart = (fill(np.where(missing, np.nan, X)) - X) / X.std(axis=0)
                errors[name][method].append(float(np.sqrt((apart[missing] ** 2).mean())))
    heading(f"{GAPS:.0%} of all numbers missing: root mean squared error, in standard deviations of the columns")
    show(errors)


def labels_found(reps: int) -> None:
    """Print how well changed labels are told from the others."""
    areas: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for rep in range(reps):
        for name, X, y in tables():
            say(f"labels, repetition {rep}: {name}")
            rng = np.random.default_rng([2, rep])
            wrong = rng.random(len(y)) < CHANGED
            given = np.where(wrong, (y + rng.integers(1, y.max() + 1, len(y))) % (y.max() + 1), y)
            for method, suspect in suspicions(X, given, rep).items():
                areas[name][method].append(float(roc_auc_score(wrong, suspect)))
    heading(f"{CHANGED:.0%} of labels changed: area under the curve of finding them")
    show(areas)


def suspicions(X: Array, y: NDArray[np.int64], seed: int) -> dict[str, Array]:
    """How suspicious each row is, by several methods."""
    model = KernelForestClassifier(n_jobs=THREADS, random_state=seed).fit(X, y)
    own = np.arange(len(y)), y
    how: dict[str, Any] = {"n_jobs": THREADS, "random_state": seed}
    held_out = cross_val_predict(RandomForestClassifier(500, **how), X, y, method="predict_proba")
    alone = np.concatenate(
        [np.column_stack((rows, isolation(X[rows], how))) for rows in (np.flatnonzero(y == c) for c in set(y))]
    )
    return {
        "outliers": outliers(model.kernel_).scores,
        "1 - oob_proba_": 1.0 - model.oob_proba_[own],
        "scikit-learn's forest, cross-validated": 1.0 - held_out[own],
        "isolation forest by class": alone[alone[:, 0].argsort(), 1],
    }


def isolation(X: Array, how: dict[str, Any]) -> Array:
    """How easily rows are isolated."""
    return -np.asarray(IsolationForest(n_estimators=500, **how).fit(X).score_samples(X))


def maps_timed(sizes: Sequence[int]) -> None:
    """Print how many times longer a map takes from the dense kernel."""
    lines = []
    for n in sizes:
        sample = DEVELOPMENT["boxes"].sample(n, 0)
        forest = RandomForestClassifier(100, min_samples_leaf=5, n_jobs=THREADS, random_state=0).fit(sample.X, sample.y)
        kernel = ForestKernel.from_model(forest, sample.X, sample.y, n_jobs=THREADS)
        map_rows(kernel)  # compiled
        ours, found = timed(lambda kernel=kernel: map_rows(kernel).coordinates)
        dense, expected = timed(lambda kernel=kernel: pca(kernel))
        apart = np.abs(np.abs(found) - np.abs(expected)).max()
        lines.append([f"{n:,}", f"{dense / ours:.1f}", f"{8 * n * n / 1e9:.2f} GB", f"{apart:.0e}"])
    heading("A map in two directions, 100 trees: KernelPCA of scikit-learn on the dense kernel, by ours")
    table(["rows", "time, times ours", "its kernel", "largest difference"], lines)


def pca(kernel: ForestKernel) -> Array:
    """The map that scikit-learn draws from the whole kernel."""
    found: Array = KernelPCA(2, kernel="precomputed", eigen_solver="arpack", random_state=0).fit_transform(
        kernel.matrix(dense=True)
    )
    return found


def timed(work: Callable[[], Array]) -> tuple[float, Array]:
    """Seconds, and the result."""
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def show(scores: dict[str, dict[str, list[float]]]) -> None:
    """Print means and standard errors."""
    methods = list(next(iter(scores.values())))
    table(["table", *methods], [[name, *(mean(row[m]).written(3) for m in methods)] for name, row in scores.items()])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 8_000])
    options = parser.parse_args(arguments)
    print("# Uses of the kernel: `python benchmarks/uses.py`\n")
    print(f"{options.reps} repetitions; ± is one standard error.")
    gaps_filled(options.reps)
    labels_found(options.reps)
    maps_timed(options.rows)


if __name__ == "__main__":
    main()
