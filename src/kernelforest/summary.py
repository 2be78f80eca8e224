"""What was chosen, in words: a fitted classifier enters, a few lines leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelforest.scoring import Scores

CUTS = {"best": "best cuts", "extra": "one random cut each"}


def describe(model: Any) -> list[str]:
    """How the trees of a classifier are grown and read, and among how many candidates that was chosen."""
    cuts = CUTS.get(model.splitter_, f"splitter {model.splitter_!r}")
    method = model.calibration_.method
    lines = [
        f"{model.n_estimators} trees, {cuts} of {model.max_features_} of {model.n_features_in_} features per node, "
        f"{name_leaf_sizes(model.leaf_weights_)},",
        f"aggregate {model.aggregate_!r}, fill {model.fill_!r}, "
        + ("not calibrated" if method is None else f"calibrated ({method})"),
    ]
    if hasattr(model, "tuning_"):
        candidates = model.tuning_.candidates
        ways = len({(c.splitter, c.max_features) for c in candidates})
        aim = model.scoring.replace("_", " ")
        lines.insert(0, f"Chosen by out-of-bag {aim} among {len(candidates):,} candidates of {ways} forests:")
    return lines


def name_leaf_sizes(weights: Mapping[int, float]) -> str:
    """One leaf size, or the range of those that are blended.

    >>> name_leaf_sizes({5: 1.0}), name_leaf_sizes({5: 0.3, 8: 0.7})
    ('leaf_size 5', 'leaf sizes 5 to 8 blended')
    """
    return f"leaf_size {min(weights)}" if len(weights) == 1 else f"leaf sizes {min(weights)} to {max(weights)} blended"


def compare(scores: Mapping[str, Scores]) -> list[str]:
    """Out-of-bag scores of several forests under each other."""
    head = "out-of-bag        log loss    Brier    error"
    return [head] + [f"{name:<16}  {s.log_loss:8.4f} {s.brier:8.4f} {s.error:8.4f}" for name, s in scores.items()]
