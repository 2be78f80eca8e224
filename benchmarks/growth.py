"""How fit time per tree grows: a ladder of table sizes enters, a fitted exponent leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rivals import Library
from tables import Cell, heading, say, table
from workloads import Workload, smooth

N_TREES = 8


@dataclass(frozen=True)
class Ladder:
    """Seconds per tree at each step, and the slope of their logarithm."""

    symbol: str
    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    slope: float
    standard_error: float


def climb(library: Library, quick: bool) -> list[Ladder]:
    """Measure the exponent of rows (10 columns, mtry 3) and of columns (20,000 rows, mtry all)."""
    rows = geometric(10_000, 100_000 if quick else 1_000_000, 5)
    columns = geometric(8, 32 if quick else 128, 3 if quick else 5)
    return [
        ladder("a (rows)", library, [rung(n, 10, 3) for n in rows], rows),
        ladder("b (columns)", library, [rung(20_000, p, p) for p in columns], columns),
    ]


def ladder(symbol: str, library: Library, rungs: Sequence[Workload], steps: Sequence[int]) -> Ladder:
    """Time every rung and fit a line through the logarithms."""
    seconds = tuple(seconds_per_tree(library, each) for each in rungs)
    slope, standard_error = line(np.log(steps), np.log(seconds))
    return Ladder(symbol, tuple(steps), seconds, slope, standard_error)


def rung(n_rows: int, n_features: int, mtry: int) -> Workload:
    """Describe one step of a ladder; large steps are repeated less."""
    repeats = 3 if n_rows <= 100_000 else 2
    return Workload(f"{n_rows}x{n_features}", smooth, n_rows, n_features, N_TREES, mtry, repeats)


def seconds_per_tree(library: Library, workload: Workload) -> float:
    """Fit a few times and divide the minimum by the number of trees."""
    train = workload.train()
    library.load(workload, train.head(64))
    library.fit()
    library.load(workload, train)
    best = min(library.fit() for _ in range(workload.repeats)) / workload.n_trees
    say(f"{workload.name} growth {library.name} {best:.4f} s per tree")
    return best


def line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Fit y = c + slope x by least squares; return the slope and its standard error."""
    centred = x - x.mean()
    slope = float(centred @ y / (centred @ centred))
    residual = y - y.mean() - slope * centred
    variance = float(residual @ residual) / (len(x) - 2)
    return slope, float(np.sqrt(variance / (centred @ centred)))


def geometric(first: int, last: int, count: int) -> list[int]:
    """Space whole numbers evenly on a logarithmic scale."""
    return [round(value) for value in np.geomspace(first, last, count)]


def print_ladders(name: str, ladders: Sequence[Ladder]) -> None:
    """Print every rung, then the exponents."""
    heading(f"growth: seconds per tree of {name}, {N_TREES} trees")
    rungs: list[list[Cell]] = [
        [each.symbol, step, second] for each in ladders for step, second in zip(each.steps, each.seconds, strict=True)
    ]
    table(["exponent", "size", "s per tree"], rungs)
    for each in ladders:
        print(f"\n{each.symbol}: {each.slope:.3f} (standard error {each.standard_error:.3f})")
