"""What an experiment is: one repetition at a time, so that it can be interrupted; claims are judged from the repetitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple

import numpy as np

HOLDS, CORRECTED, FAILS, UNDECIDED = "holds", "holds with correction", "fails", "undecided"
Records = Sequence[dict[str, Any]]  # one per repetition, as they come back from JSON


class Finding(NamedTuple):
    """What was found for a claim."""

    verdict: str  # HOLDS, CORRECTED, FAILS or UNDECIDED
    ours: str  # our numbers with standard errors, as they are printed
    note: str = ""  # what the correction is, or why it fails or is undecided


def known(error: float) -> float:
    """A standard error that a verdict may rest on; it is NaN, and refused, of a single repetition."""
    if isnan(error):
        raise ValueError("a standard error takes 2 repetitions or more, got 1")
    return error


class Mean(NamedTuple):
    """A mean over repetitions with its standard error; NaN of a single one."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f}" + ("" if isnan(self.error) else f" ± {self.error:.3f}")

    @property
    def thousandths(self) -> str:
        """As a cell of a table is printed."""
        return f"{1000 * self.value:.0f}" + ("" if isnan(self.error) else f" ± {1000 * self.error:.0f}")

    @property
    def margin(self) -> float:
        """Two standard errors."""
        return 2.0 * known(self.error)

    def is_near(self, value: float, tolerance: float) -> bool:
        """Whether a value is within the tolerance, give or take two standard errors."""
        return abs(self.value - value) <= tolerance + self.margin


def mean(values: Any) -> Mean:
    """Mean and standard error of one number per repetition.

    >>> print(mean([1.0, 2.0, 3.0]))
    2.000 ± 0.577
    """
    numbers = np.asarray(values, dtype=np.float64)
    error = numbers.std(ddof=1) / np.sqrt(len(numbers)) if len(numbers) > 1 else np.nan
    return Mean(float(numbers.mean()), float(error))


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that can be tested."""

    name: str  # unique
    says: str  # the claim, in our words
    where: str  # section, figure, table or equation of the paper
    paper: str  # the paper's numbers, as printed
    tolerance: str  # when it counts as holding, in words
    judge: Callable[[Records], Finding]


@dataclass(frozen=True)
class Experiment:
    """A figure or a table."""

    name: str
    title: str
    where: str
    claims: tuple[Claim, ...]
    reps: int  # repetitions of a full run
    quick_reps: int  # of a quick one
    minutes: float  # of a full run on two cores
    one: Callable[[int, bool], dict[str, Any]]  # (number of the repetition, quick) -> numbers and lists; seeds come from it
    draw: Callable[[Records, Any], None] | None = None  # onto a matplotlib figure
    size: tuple[float, float] = (7.0, 4.0)  # of the figure, in inches
    tables: Callable[[Records], list[tuple[str, list[str], list[list[str]]]]] | None = None  # titles, headers, lines

    def judge(self, claim: Claim, records: Records) -> Finding:
        """Judge a claim, but not by one repetition where there should be several: that has no standard error."""
        if len(records) == 1 and self.reps > 1:
            return Finding(UNDECIDED, "–", "one repetition has no standard error")
        return claim.judge(records)
