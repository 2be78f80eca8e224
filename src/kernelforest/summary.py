"""What was chosen, and what it bought, in words: a fitted classifier enters, a few lines leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelforest.forest import Forest
from kernelforest.outofbag import OutOfBag, classic
from kernelforest.priors import Population
from kernelforest.scoring import SCORE_NAMES
from kernelforest.tuning import apportion


def describe(model: Any) -> list[str]:
    """How the trees of a classifier are grown and read, and among how many candidates that was chosen."""
    method = model.calibration_.method
    parts = zip(apportion([part.share for part in model.blend_], model.forest_.n_trees), model.blend_, strict=True)
    lines = [
        f"{n_trees} {'tree' if n_trees == 1 else 'trees'}, {name_cuts(part.splitter)} of {part.max_features} of "
        f"{model.n_features_in_} features per node, {name_leaf_sizes(part.factors)},"
        for n_trees, part in parts
        if n_trees  # a small share of few trees may be none
    ]
    calibrated = "not calibrated" if method is None else f"calibrated ({method})"
    lines.append(f"aggregate {model.aggregate_!r}, fill {model.fill_!r}, {calibrated}")
    if hasattr(model, "tuning_"):
        candidates = model.tuning_.candidates
        ways = len({(c.splitter, c.max_features) for c in candidates})
        aim = SCORE_NAMES[model.tuning_.scoring]
        of = "one forest" if ways == 1 else f"{ways} forests"
        lines.insert(0, f"Chosen by out-of-bag {aim} among {len(candidates):,} candidates of {of}:")
    return lines


def name_cuts(splitter: str) -> str:
    """How cuts are made."""
    return {"best": "best cuts", "extra": "one random cut each"}.get(splitter, f"splitter {splitter!r}")


def name_leaf_sizes(weights: Mapping[int, float]) -> str:
    """One leaf size, or the range of those that are blended.

    >>> name_leaf_sizes({5: 1.0}), name_leaf_sizes({5: 0.3, 8: 0.7})
    ('leaf_size 5', 'leaf sizes 5 to 8 blended')
    """
    return f"leaf_size {min(weights)}" if len(weights) == 1 else f"leaf sizes {min(weights)} to {max(weights)} blended"


def compare_with_untuned(forest: Forest, mine: OutOfBag | None, population: Population, threads: int) -> list[str]:
    """Out-of-bag scores of a forest, and below them those of an untuned one; an exact zero counts as half a row.

    `mine` are the probabilities that are scored, or None if every tree was grown on all rows.
    """
    scored = forest, population
    if mine is None or not mine.weights(*scored).any():
        return ["No tree left out a row that counts: nothing is out-of-bag, so nothing can be scored."]
    proba, n_trees = classic(forest, threads)
    both = {"this forest": mine, "untuned forest": OutOfBag(population(proba), n_trees)}
    half = 0.5 / len(proba)
    found = {name: each.scores(*scored, half) for name, each in both.items() if each.weights(*scored).any()}
    lines = ["out-of-bag        log loss    Brier    error"]
    lines += [f"{name:<16}  {s.log_loss:8.4f} {s.brier:8.4f} {s.error:8.4f}" for name, s in found.items()]
    if (loss := mine.scores(*scored).log_loss) > found["this forest"].log_loss + 5e-5:
        lines.append(f"Exact zeros count as half a row; as they are, log loss is {loss:.4f}.")
    return lines
