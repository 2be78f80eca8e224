"""Doubts about out-of-bag scores: copies of rows, few trees, rows or groups enter; warnings that say what to do leave."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest._engine.layout import Columns, Targets
from kernelforest.copies import find_copies, share_of_near_copies
from kernelforest.notices import TuningWarning, notify
from kernelforest.scaling import FEW_ROWS
from kernelforest.scoring import effective_number
from kernelforest.tuning import MOST_TREES

# there is a warning below so many
FEW_OUT, FEW_GROUPS = 18, 30  # trees that leave a row out, and groups; of rows, FEW_ROWS
RARE_ROWS, RARE_GROUPS = 10, 3  # rows, and groups, of a class
# and above
MANY_NEAR = 0.35  # as the share of rows that have a near copy: twice what chance brings


def copies_as_groups(
    columns: Columns, labels: NDArray[np.integer], weight: NDArray[np.float64] | None, can_group: bool = True
) -> NDArray[np.int64] | None:
    """Numbers that copies of rows share, with a warning; None where there are few copies, or none for sure.

    Of near copies there is a warning only: nobody but the user knows how near is too near. So there is of copies, where
    something is fixed that groups would change the meaning of.
    """
    rows = np.arange(columns.codes.shape[1]) if weight is None else np.flatnonzero(weight)
    numbers = find_copies(columns, labels, rows)
    if numbers is not None:
        once = "every row once, with sample_weight= if it counts more often, and class_weight= or prior= for rare classes"
        if can_group:
            effect = (
                "would have seen its copy, and out-of-bag scores would flatter, so copies are drawn together, as with "
                f"groups=. Better give {once}. If they are observations that happen to agree, say "
                f"groups=np.arange({len(numbers)})"
            )
        else:
            effect = (
                "may have seen its copy, so out-of-bag scores flatter, unless they are observations that happen to agree. "
                "With fill='all' or 'oob', or a whole number as max_samples, copies are not drawn together: leave these "
                f"open, or give {once}"
            )
        found = f"{len(rows) - len(np.unique(numbers[rows])):,} of {len(rows):,} rows are copies of others"
        notify(f"{found}. A tree that leaves a row out {effect}", TuningWarning)
    elif (share := share_of_near_copies(columns, labels, rows)) > MANY_NEAR:
        notify(
            f"about {share:.0%} of rows have another row of the same class much nearer than chance would bring it. If these "
            "are repeated measurements, or rows that were made from others, a tree that leaves one out has seen the other: "
            "out-of-bag scores then flatter, and probabilities are too sure. Give groups= that keep them together",
            TuningWarning,
        )
    return numbers if can_group else None


def warn_if_noisy(targets: Targets, classes: NDArray[Any], n_trees: int, share_left_out: float) -> None:
    """Warn where out-of-bag scores cannot tell candidates apart, and say what to do."""
    rows, groups = np.flatnonzero(targets.weight > 0), targets.groups
    used = min(n_trees, 2 * MOST_TREES)  # half of these decide
    if used * share_left_out < FEW_OUT:
        enough = max(100, ceil(2 * FEW_OUT / share_left_out))
        more = "" if enough > 2 * MOST_TREES else f"{enough} or more"
        less = "" if share_left_out > 0.3 else "a smaller max_samples"
        which, counted = (" among those that decide", MOST_TREES) if n_trees > used else ("", n_trees)
        notify(
            f"n_estimators={n_trees} leaves a row about {counted * share_left_out:.0f} out-of-bag trees{which}, too few to "
            f"choose by: use {' or '.join(filter(None, (more, less)))}, or fix max_features, leaf_size, aggregate and fill",
            TuningWarning,
        )
    labels = targets.labels[rows]
    number = effective_number(targets.weight[rows], labels, None if groups is None else groups[rows])
    few = ""
    if len(rows) < FEW_ROWS:
        few = f"{len(rows)} rows"
    elif groups is not None and len(targets.drawable) < FEW_GROUPS:
        few = f"{len(targets.drawable)} groups, however many rows they have,"
    elif number < (FEW_ROWS if groups is None else FEW_GROUPS):
        units = f"{len(rows)} rows" if groups is None else f"{len(targets.drawable)} groups"
        few = f"{units}, which by their weights count as {number:.0f},"
    if few:
        notify(
            f"out-of-bag scores of {few} are noisy, so the choice is uncertain: see tuning_.frame() for what came close, or "
            "fix more parameters",
            TuningWarning,
        )
    _warn_of_rare(classes, labels, "rows", RARE_ROWS if len(rows) >= FEW_ROWS else RARE_GROUPS)  # more is asked of many
    if groups is not None:  # a class once for each group, that is out of bag as a whole
        held = np.unique(np.column_stack((groups[rows], labels)), axis=0)[:, 1]
        _warn_of_rare(classes, held, "groups with rows", RARE_GROUPS)


def _warn_of_rare(classes: NDArray[Any], labels: NDArray[np.integer], units: str, least: int) -> None:
    """Name classes of which there are fewer than so many."""
    counts = np.bincount(labels, minlength=len(classes))
    rare = [(str(c), int(k)) for c, k in zip(classes, counts, strict=True) if k < least]
    if rare:
        named = ", ".join(f"{c!r} ({k})" for c, k in rare[:3]) + (f" and {len(rare) - 3} more" if len(rare) > 3 else "")
        notify(
            f"fewer than {least} {units} of class {named}: too few to learn that class from; collect more rows or merge "
            "classes",
            TuningWarning,
        )
