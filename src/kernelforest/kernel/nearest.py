"""Nearest rows: a plan of a kernel enters; for each of its rows the most similar training rows leave."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine import pairs
from kernelforest.kernel.incidence import in_blocks
from kernelforest.kernel.memory import check_room
from kernelforest.kernel.plans import KINDS, Plan

_FEW = 128  # found by keeping the best in order; more by sorting


def nearest_rows(plan: Plan, k: int, is_training: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The k most similar training rows, and their similarities, (n_rows, k); a training row is not its own neighbour."""
    n = plan.shape[0]
    check_room(16 * n * k, f"{k:,} nearest rows of {n:,}", "ask for fewer rows at a time")
    own = np.arange(n) if is_training else np.full(n, -1)
    found, similar = np.empty((n, k), np.int64), np.empty((n, k))
    look = pairs.nearest_rows if k <= _FEW else pairs.sorted_rows
    for some in plan.query.blocks(plan.training.leaves.shape[1]):
        leaves, factors = plan.query.leaves(some), plan.factors_of(some)

        def block(rows: slice, some: slice = some, leaves: Any = leaves, factors: Any = factors) -> None:
            here = slice(some.start + rows.start, some.start + rows.stop)
            mine = factors[rows] if len(factors) > 1 else factors
            how = leaves[rows], mine, plan.index, plan.by_total, own[here], k
            look(*how, found[here], similar[here], plan.width)

        in_blocks(block, len(leaves), plan.training.threads)
    if KINDS[plan.kind].bounded:
        np.minimum(similar, 1.0, out=similar)  # sums of shares round to a little more
    return found, similar
