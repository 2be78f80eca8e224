"""Many classes and many columns: the default against scikit-learn's forest, in time and in log loss.

    python benchmarks/classes.py [--reps N] [--sets NAME,...] > benchmarks/results/classes.md

Both fit the same rows on two threads, by turns; the ratio is that of the shortest times. Rows, classes and columns are those
of the tables that are made or, for digits, of the one that comes with scikit-learn; a quarter is kept for testing.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from kernelforest import KernelForestClassifier
from quality_data import seed_of
from quality_report import mean
from quality_rivals import THREADS, forest
from tables import say, table


def made(n: int, p: int, n_classes: int, seed: int) -> tuple[Any, Any]:
    """Normal clusters, two for each class, in half of the columns or in twenty."""
    return make_classification(
        n, p, n_informative=min(20, p // 2), n_redundant=0, n_classes=n_classes, class_sep=2.0, random_state=seed
    )


def documents(n: int, n_words: int, seed: int) -> tuple[Any, Any]:
    """Counts of words, most of them rare; one class uses a fifth of the words more or less often."""
    rng = np.random.default_rng(seed)
    often = 1.0 / np.arange(1, n_words + 1) ** 0.9
    other = often * np.exp(0.7 * rng.normal(size=n_words) * (rng.random(n_words) < 0.2))
    y = rng.integers(0, 2, n)
    words = [rng.multinomial(rng.poisson(60), p / p.sum()) for p in (other if label else often for label in y)]
    return np.array(words, dtype=float), y


SETS: dict[str, Callable[[int], tuple[Any, Any]]] = {
    "digits": lambda seed: load_digits(return_X_y=True),
    "3 classes": partial(made, 5_000, 20, 3),
    "5 classes": partial(made, 5_000, 20, 5),
    "10 classes": partial(made, 5_000, 20, 10),
    "26 classes": partial(made, 8_000, 20, 26),
    "50 classes": partial(made, 2_500, 20, 50),
    "100 classes": partial(made, 5_000, 20, 100),
    "500 columns": partial(made, 2_000, 500, 2),
    "2,000 columns": partial(made, 400, 2_000, 2),
    "2,000 words": partial(documents, 700, 2_000),
}


def fit_both(X: Any, y: Any, seed: int) -> list[tuple[float, float]]:
    """Seconds and log loss of the default, and of scikit-learn's forest, whose zeros are lifted to half a row."""
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.25, stratify=y, random_state=seed)
    found = []
    for model in (KernelForestClassifier(n_jobs=THREADS, random_state=seed), forest(seed)):
        start = perf_counter()
        model.fit(X, y)
        seconds = perf_counter() - start
        p = np.maximum(model.predict_proba(X_test), 0.5 / len(y))
        found.append((seconds, log_loss(y_test, p / p.sum(axis=1, keepdims=True))))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=list(SETS), metavar="NAME,...")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")  # some classes are rare
    for n_classes in (2, 3):
        fit_both(*made(200, 8, n_classes, 0), seed=0)  # compiled, or loaded, before anything is timed
    lines = []
    for name in options.sets:
        say(name)
        pairs = []
        for rep in range(options.reps):
            X, y = SETS[name](seed_of("classes", name, rep))
            pairs.append(fit_both(X, y, rep))
        (ours, theirs), (loss, other) = np.array(pairs).min(axis=0)[:, 0], np.array(pairs).mean(axis=0)[:, 1]
        difference = mean([mine[1] - rival[1] for mine, rival in pairs])
        shape = [f"{X.shape[0]:,}", f"{X.shape[1]:,}", len(np.unique(y))]
        lines.append(
            [
                name,
                *shape,
                f"{ours:.2f}",
                f"{theirs:.2f}",
                f"{ours / theirs:.2f}",
                f"{loss:.3f}",
                f"{other:.3f}",
                difference.written(3),
            ]
        )
    print("# Many classes, many columns: `python benchmarks/classes.py`\n")
    print(f"The default and RandomForestClassifier(500) fit on {THREADS} threads, by turns, {options.reps} times: shortest")
    print("times in seconds, their ratio, mean log loss on new rows, and its paired difference ± one standard error.\n")
    table(
        ["set", "rows", "columns", "classes", "default s", "rf s", "default / rf", "log loss", "rf", "default − rf"], lines
    )


if __name__ == "__main__":
    main(sys.argv[1:])
