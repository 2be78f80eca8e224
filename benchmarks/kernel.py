"""Speed and memory of kernels, as ratios to rivals measured in the same run.

    python benchmarks/kernel.py [--only full,nearest,derivatives] [--rows-nearest 1000000]

- full: from a fitted forest to the whole leaf kernel of its training rows, 10,000 rows, 100 trees, leaves of >= 5 rows.
  One scikit-learn forest serves every library that takes one; ours is measured on it (from_model) and on one of its own.
- nearest: the ten nearest of a million rows, and the peak memory of the process.
- derivatives: 1,000 derivative vectors (50 columns, 500 trees) against scikit-learn's predict_proba on 100 perturbed
  copies of each row.

Rivals that are not installed are skipped and said so. forestgeom is under the GPL: it is run here for comparison only.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from kernelforest import ForestKernel, KernelForestClassifier

ROWS, TREES, LEAF = 10_000, 100, 5


def smooth(n: int, p: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Normal columns and labels from a logistic model with an interaction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] - X[:, 1] * X[:, 2]))).astype(int)


def best_of(work: Callable[[], Any], repeats: int = 3) -> float:
    """Smallest time of a few runs."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def peak_mb() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def peak_of(work: Callable[[], Any]) -> float:
    """Peak memory while working, above what is in use before: Linux forgets the old peak when told so."""
    gc.collect()
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def resident(entry: str) -> float:
    """An entry of this process' status, in MB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(entry))


# ---- the full kernel: every library in a process of its own, so that peak memory is its own ----


def full_ours(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    model = KernelForestClassifier.untuned(TREES, leaf_size=2 * LEAF - 1, n_jobs=2, random_state=0).fit(X, y)
    model.kernel_.matrix(X[:5])  # compile

    def build() -> Any:
        del model._kernel
        return model.kernel_.matrix()

    return build


def full_from_sklearn(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    ForestKernel.from_model(forest, X, y).matrix(X[:5])
    return lambda: ForestKernel.from_model(forest, X, y, n_jobs=2).matrix()


def full_float32(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    ForestKernel.from_model(forest, X, y).matrix(X[:5], dtype=np.float32)
    return lambda: ForestKernel.from_model(forest, X, y, n_jobs=2).matrix(dtype=np.float32)


def full_numpy(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    def product() -> Any:
        leaves = forest.apply(X)
        K = np.zeros((len(X), len(X)), np.float32)
        for t in range(leaves.shape[1]):
            K += leaves[:, t, None] == leaves[None, :, t]
        return K / leaves.shape[1]

    return product


def full_forestgeom(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    from forestgeom import Proximity

    return lambda: Proximity(forest).fit(X, y).training_proximity()


def full_quantile_forest(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    from quantile_forest import RandomForestQuantileRegressor

    model = RandomForestQuantileRegressor(TREES, min_samples_leaf=LEAF, n_jobs=2, random_state=0, max_samples_leaf=None)
    model.fit(X, y.astype(float))
    return lambda: model.proximity_counts(X)


def full_ydf(forest: Any, X: np.ndarray, y: np.ndarray) -> Callable[[], Any]:
    import ydf

    data = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y}
    learner = ydf.RandomForestLearner(label="y", num_trees=TREES, min_examples=LEAF, max_depth=-1, num_threads=2)
    model = learner.train(data)
    return lambda: model.distance(data)


SAME_FOREST = "kernelforest"  # on the forest of scikit-learn that the others work on, too
FULL: dict[str, tuple[Callable[..., Callable[[], Any]], str | None]] = {
    SAME_FOREST: (full_from_sklearn, None),
    "kernelforest, in float32": (full_float32, None),
    "kernelforest, on its own forest": (full_ours, None),
    "scikit-learn + numpy": (full_numpy, None),
    "forestgeom (float32)": (full_forestgeom, "forestgeom"),
    "quantile-forest (counts only)": (full_quantile_forest, "quantile_forest"),
    "YDF (distance)": (full_ydf, "ydf"),
}


def run_full(name: str) -> None:
    """Measure one library; prints seconds and megabytes above what fitting took."""
    X, y = smooth(ROWS, 10)
    forest = RandomForestClassifier(TREES, min_samples_leaf=LEAF, n_jobs=2, random_state=0).fit(X, y)
    work = FULL[name][0](forest, X, y)
    print(best_of(work), peak_of(work))


def compare_full() -> None:
    """Print the table of the full kernel."""
    print(f"\n## full leaf kernel, {ROWS} rows, {TREES} trees, leaves of at least {LEAF} rows\n")
    found: dict[str, tuple[float, float] | str] = {}
    for name, (_, module) in FULL.items():
        if module is not None and find_spec(module) is None:
            found[name] = "not installed"
            continue
        command = [sys.executable, __file__, "--measure", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            found[name] = f"failed: {done.stderr.strip().splitlines()[-1][:80]}"
            continue
        seconds, megabytes = map(float, done.stdout.split()[-2:])
        found[name] = seconds, megabytes
    ours = found[SAME_FOREST]
    print(f"| library | seconds | times {SAME_FOREST} | peak memory MB |\n|---|---:|---:|---:|")
    for name, numbers in found.items():
        if isinstance(numbers, str) or isinstance(ours, str):
            print(f"| {name} | {numbers} | | |")
        else:
            print(f"| {name} | {numbers[0]:.3f} | {numbers[0] / ours[0]:.2f} | {numbers[1]:.0f} |")


def nearest_at_scale(n_rows: int) -> None:
    """Ten nearest rows of everyone, and the peak memory of the whole process, data and forest included."""
    X, y = smooth(n_rows, 5)
    X = X.astype(np.float32)
    model = KernelForestClassifier.untuned(100, leaf_size=20, max_features=2, n_jobs=2, random_state=0, verbose=1).fit(X, y)
    begin = time.perf_counter()
    rows, _ = model.kernel_.nearest(k=10)
    print(f"nearest(k=10) of {n_rows:,} rows x 100 trees: {time.perf_counter() - begin:.1f} s, found {rows.shape},")
    print(f"peak memory of the process, data and forest included: {peak_mb() / 1024:.2f} GB")


def compare_derivatives() -> None:
    """1,000 derivative vectors against predictions of perturbed copies."""
    print("\n## 1,000 derivative vectors, 50 columns, 500 trees\n")
    X, y = smooth(1000, 50)
    model = KernelForestClassifier.untuned(500, max_features=7, n_jobs=2, random_state=0).fit(X, y)
    model.kernel_.derivatives(X[:2])
    ours = best_of(lambda: model.kernel_.derivatives(X))
    rival = RandomForestClassifier(500, max_features=7, n_jobs=2, random_state=0).fit(X, y)
    copies = np.repeat(X, 100, axis=0)
    theirs = best_of(lambda: rival.predict_proba(copies), 2)
    print(f"kernelforest {ours:.4f} s, scikit-learn on 100,000 perturbed copies {theirs:.3f} s: ratio {theirs / ours:.0f}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="full,derivatives,nearest")
    parser.add_argument("--rows-nearest", type=int, default=1_000_000)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        run_full(options.measure)
        return
    parts = options.only.split(",")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("kernelforest", "scikit-learn", "numpy", "numba"))
    print(f"# Kernels of fitted forests: `python benchmarks/kernel.py`\n\n{versions}; {os.cpu_count()} cores.")
    if "full" in parts:
        compare_full()
    if "derivatives" in parts:
        compare_derivatives()
    if "nearest" in parts:
        print("\n## nearest rows at scale\n")
        nearest_at_scale(options.rows_nearest)


if __name__ == "__main__":
    main()
