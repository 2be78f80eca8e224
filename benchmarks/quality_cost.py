"""The price of a default fit: sets enter; seconds of fits that took turns in this run, and held-out log losses, leave.

Each pair of fits runs with two threads, after a first fit of each that is not counted, on a split of its own, and every
other repetition the other way round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.metrics import log_loss
from sklearn.model_selection import check_cv

from kernelforest import KernelForestClassifier
from quality_data import Side, Split, large_table, real_split, simulated_split
from quality_records import append, load
from quality_rivals import GRID, OURS, THREADS, TREES, forest, grid_search
from tables import say

REPS = 3
LARGE = "50000x20"
FITS = ("spam", "splice", "1d-sparse", LARGE)  # against one forest
SEARCHES = ("1d-sparse", "tic", "australian", "spam", "splice")  # against the grid search
SETS = (*FITS, "tic", "australian")
SEARCH_REPS = {"tic": 10, "australian": 10, "spam": 2}  # elsewhere three: a search takes minutes
LEAST = "rf_grid_least"  # where a search would take hours
METHODS = (OURS, "rf", "rf_grid", LEAST)
N_SPARSE = 1_000
WARM_ROWS = 2_000
__all__ = ["FITS", "GRID", "LARGE", "LEAST", "METHODS", "REPS", "SEARCHES", "SETS", "plan", "run"]


def plan(reps: int, names: Sequence[str], methods: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Name, repetition and rival of every pair of fits; our own fit belongs to each pair."""
    if "rf" in methods:
        yield from ((name, rep, "rf") for rep in range(reps) for name in names if name in FITS)
    if "rf_grid" in methods:
        for name in (each for each in names if each in SEARCHES):
            yield from ((name, rep, "rf_grid") for rep in range(SEARCH_REPS.get(name, reps)))
    if LEAST in methods and LARGE in names:
        yield LARGE, 0, LEAST


def cost_split(name: str, rep: int) -> Split:
    """The rows of a set; held-out rows only for the log loss."""
    if name == LARGE:
        return large_split()
    return simulated_split(name, N_SPARSE, rep) if name == "1d-sparse" else real_split(name, 0, rep)


large_split = cache(large_table)


def run(tasks: Sequence[Any], deadline: float) -> None:
    """Time the pairs that are not kept yet."""
    kept = load("cost")
    for task in tasks:
        if (task.set, task.n, task.junk, task.rep, task.method) in kept:
            continue
        if time.monotonic() > deadline:
            say("cost: time is over")
            return
        warm(task.set, task.method)
        order = (OURS, task.method) if task.rep % 2 == 0 else (task.method, OURS)
        timed = {name: seconds_and_loss(name, cost_split(task.set, task.rep), task.rep) for name in order}
        record = vars(task) | {"seconds": timed[task.method][0], "log_loss": timed[task.method][1]}
        ours = {"default_seconds": timed[OURS][0], "default_log_loss": timed[OURS][1], "load": round(os.getloadavg()[0], 1)}
        append("cost", record | ours)
        say(f"cost: {record | ours}")


@cache
def warm(name: str, rival: str) -> None:
    """Fit each once on a part of the rows, so that nothing is compiled or loaded while the clock runs."""
    split = cost_split(name, 0)
    train = head(split.train, WARM_ROWS)
    model(OURS, split.seed).fit(train.native, train.y)
    forest(split.seed).fit(train.dummies, train.y)
    if rival == "rf_grid":
        grid_search(split.seed, 1).fit(train.dummies, train.y)


def head(side: Side, n: int) -> Side:
    """The first rows."""
    return Side(side.native[:n], side.dummies[:n], side.y[:n])


def model(method: str, seed: int) -> Any:
    """A blank estimator; the grid search refits its winner, as a user's would."""
    if method == OURS:
        return KernelForestClassifier(n_jobs=THREADS, random_state=seed)
    if method == "rf":
        return forest(seed)
    return grid_search(seed, TREES).set_params(refit=True)


def seconds_and_loss(method: str, split: Split, rep: int) -> tuple[float, float]:
    """Seconds of the fit, log loss of the held-out rows."""
    if method == LEAST:
        return least_of_search(split)
    blank, form = model(method, split.seed + rep), "native" if method == OURS else "dummies"
    X, y = getattr(split.train, form), split.train.y
    start = time.perf_counter()
    blank.fit(X, y)
    seconds = time.perf_counter() - start
    p = np.asarray(blank.predict_proba(getattr(split.test, form))[:, 1])
    return round(seconds, 4), round(float(log_loss(split.test.y, p, labels=[0, 1])), 6)


def least_of_search(split: Split) -> tuple[float, float]:
    """Seconds that the grid search takes at least, and the least log loss of one fold with the largest leaves.

    Its forests with the largest leaves are fitted on one fold. It fits them on every fold, and with smaller leaves, which
    takes longer; scoring and the last fit are not counted, and threads are taken to be busy always.
    """
    search = grid_search(split.seed, TREES)
    sizes = GRID["min_samples_leaf"]
    folds = list(check_cv(search.cv, split.train.y, classifier=True).split(split.train.dummies, split.train.y))
    search.set_params(param_grid=GRID | {"min_samples_leaf": [max(sizes)]}, cv=folds[:1])
    search.fit(split.train.dummies, split.train.y)
    seconds = search.cv_results_["mean_fit_time"].sum() * len(folds) * len(sizes) / THREADS
    return round(float(seconds), 4), round(float(-search.cv_results_["mean_test_score"].max()), 6)
