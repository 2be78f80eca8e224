"""Out-of-bag probabilities of a forest enter; a map that calibrates them, calibrated ones and their scores leave.

Nothing is held out. The map that predictions go through is fitted on all out-of-bag rows, but a row itself is calibrated by
a map that was fitted without it, so that scores stay honest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.calibration import METHODS, SCALINGS, Chosen, Identity, choose_calibrator, cross_fitted, fit_calibrator
from kernelforest.forest import Forest
from kernelforest.growing import Rules
from kernelforest.notices import notify
from kernelforest.priors import Population
from kernelforest.scoring import Scores, sample_rows, score

CALIBRATION_ROWS = 5000  # to choose a map by; rare classes have their share of them
MOST_PROBABILITIES = 200_000  # rows times classes that powers and factors are fitted on; CALIBRATION_ROWS at least


class OutOfBag(NamedTuple):
    """Probabilities of the training rows from trees that did not draw them."""

    proba: NDArray[np.float64]  # (rows, classes)
    n_trees: NDArray[np.int32]  # (rows,) trees behind each; where there is none, probabilities are the class shares

    def weights(self, forest: Forest, population: Population) -> NDArray[np.float64]:
        """What rows count as a sample of the population that they refer to; nothing, if every tree drew them."""
        targets = forest.targets
        return np.where(self.n_trees > 0, population.weights(targets.labels, targets.weight), 0.0)

    def scores(self, forest: Forest, population: Population, zero: float = 0.0) -> Scores:
        """How good they are on the rows that count; exact zeros may count as more in log loss."""
        weight = self.weights(forest, population)
        seen = weight > 0
        if not seen.any():
            raise AttributeError("every tree drew every row, so nothing can be scored: use more trees, rows or groups")
        return score(self.proba[seen], forest.targets.labels[seen], weight[seen], population.preference, zero)


def fit_calibration(forest: Forest, raw: OutOfBag, method: str, scoring: str, seed: int) -> Chosen:
    """Choose the map of predictions by rows of positive weight that some tree left out, and fit it on more of them."""
    targets = forest.targets
    seen = np.flatnonzero((raw.n_trees > 0) & (targets.weight > 0))
    rows, weight = sample_rows(seen, targets.labels, targets.weight, CALIBRATION_ROWS, seed)
    groups = None if targets.groups is None else targets.groups[rows]
    how: dict[str, Any] = {"scoring": scoring, "n_rows": len(seen)}
    chosen = choose_calibrator(method, raw.proba[rows], targets.labels[rows], weight, groups, **how)
    if chosen.method is not None and len(rows) < len(seen):
        if (most := _most_rows(forest, chosen)) is not None:
            rows, weight = sample_rows(seen, targets.labels, targets.weight, most, seed)
        else:
            rows, weight = seen, targets.weight[seen]
        groups = None if targets.groups is None else targets.groups[rows]
        about = raw.proba[rows], targets.labels[rows], weight, groups
        chosen = replace(chosen, calibrator=fit_calibrator(chosen.method, *about, n_rows=len(seen)))
    if method in METHODS and chosen.method is None:
        why = "rows that trees left out have one class only" if len(rows) else "no row was left out by a tree"
        notify(f"calibration={method!r} is not done, because {why}: give more data")
    return chosen


def _most_rows(forest: Forest, chosen: Chosen) -> int | None:
    """How many rows a map is fitted on at most; None: all of them, because steps take little time."""
    return max(CALIBRATION_ROWS, MOST_PROBABILITIES // forest.targets.n_classes) if chosen.method in SCALINGS else None


def no_calibration(scoring: str) -> Chosen:
    """Probabilities are left as they are."""
    return Chosen(None, Identity(), scoring, ())


def calibrated(forest: Forest, raw: OutOfBag, chosen: Chosen) -> OutOfBag:
    """Each row through a map that was fitted without it; rows of which no tree says anything get the class shares."""
    proba, n_trees = raw
    if unseen := int((n_trees == 0).sum()):
        notify(
            f"{unseen} of {len(n_trees)} rows were drawn by every tree, or are alone in the leaves of all others; their "
            "out-of-bag probability is the class share of the data. Use more trees (n_estimators), or give more rows or "
            "groups.",
        )
    if chosen.method is None:
        return raw
    targets = forest.targets
    known = np.where(n_trees[:, None] > 0, proba, np.nan)  # from class shares nothing is to be learned
    about = targets.labels, targets.weight, targets.groups
    out = cross_fitted(chosen.method, known, *about, most=_most_rows(forest, chosen))
    silent = (targets.weight == 0) & (n_trees > 0)  # no map was fitted on these
    out[silent] = chosen.calibrator(proba[silent])
    out[n_trees == 0] = forest.class_shares
    return OutOfBag(out, n_trees)


def classic(forest: Forest, threads: int) -> OutOfBag:
    """What an untuned forest of as many trees says about the same rows."""
    limits = Rules(forest.n_trees).limits(len(forest.targets.drawable), len(forest.columns.codes))
    plain = Forest.grow(forest.columns, forest.targets, limits, range(forest.n_trees), forest.seed, threads=threads)
    return OutOfBag(*plain.estimate_out_of_bag("mean", "inbag", threads))
