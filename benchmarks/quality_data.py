"""A set's name, a number of junk columns and a repetition enter; a `Split` in the forms the libraries like leaves.

Seeds are made from names by a stable hash, so that a method added later sees the rows that the others saw.
"""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kernelforest.problems import PAPER, Problem

SIMULATED = ("circle", "1d", "1d-sparse", "10d", "logistic", "xor")
REAL = ("spam", "splice", "tic", "parkinsons", "australian", "ionosphere")
FILES = {"splice": "splice_ei_n"}
POSITIVE = {"spam": "1", "splice": "EI", "tic": "positive", "parkinsons": "1", "australian": "1", "ionosphere": "g"}
LARGE = ("spam", "splice")
JUNK = 50
TEST_SHARE = 0.2
N_TEST = 2_000
FOLDER = Path(__file__).resolve().parent.parent.joinpath(os.environ.get("KERNELFOREST_DATA", "../shared/data"))


@dataclass(frozen=True, eq=False)
class Side:
    """Rows of one side of a split, in two forms."""

    native: Any  # array of numbers, or a pandas frame when there are categories
    dummies: NDArray[np.float32]  # (n_rows, n_columns), every level of a category a column of zeros and ones
    y: NDArray[np.int64]  # (n_rows,), 0 or 1
    p: NDArray[np.float64] | None = None  # (n_rows,), the true P(y = 1) where it is known


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit on, rows to score on, and the seed of every random choice of a method."""

    train: Side
    test: Side
    seed: int


def seed_of(*names: Any) -> int:
    """Make a seed below 2^31 out of names and numbers."""
    return zlib.crc32("/".join(map(str, names)).encode()) & 0x7FFFFFFF


def simulated_side(problem: Problem, n: int, seed: int) -> Side:
    """Draw rows of a problem of numbers with two classes."""
    sample = problem.sample(n, seed)
    return Side(sample.X, np.float32(sample.X), sample.y, sample.p[:, 1])


@lru_cache(maxsize=2)
def simulated_split(name: str, n: int, rep: int, n_test: int = N_TEST) -> Split:
    """Draw training and test rows of one of the paper's problems."""
    where = ("simulated", name, n, rep)
    train, test = (simulated_side(PAPER[name], size, seed_of(*where, s)) for size, s in ((n, "train"), (n_test, "test")))
    return Split(train, test, seed_of(*where, "fit"))


@lru_cache(maxsize=2)
def real_split(name: str, junk: int, rep: int) -> Split:
    """Add junk columns to a data set and cut it at random, four fifths to fit on."""
    frame, y = real_table(name)
    if junk:
        frame = with_junk(frame, junk, np.random.default_rng(seed_of("real", name, rep, "junk", junk)))
    order = np.random.default_rng(seed_of("real", name, rep, "split")).permutation(len(y))
    n_test = round(TEST_SHARE * len(y))
    native, dummies = native_form(frame), dummy_form(frame)
    sides = [
        Side(native[rows] if isinstance(native, np.ndarray) else native.iloc[rows], dummies[rows], y[rows])
        for rows in (order[n_test:], order[:n_test])
    ]
    return Split(sides[0], sides[1], seed_of("real", name, junk, rep, "fit"))


@cache
def real_table(name: str) -> tuple[pd.DataFrame, NDArray[np.int64]]:
    """Read a data set: text columns become categories, columns are called x0, x1, ..."""
    table = pd.read_csv(FOLDER / f"{FILES.get(name, name)}.csv", keep_default_na=False, dtype={"y": str})
    y = (table.pop("y") == POSITIVE[name]).to_numpy(dtype=np.int64)
    table.columns = [f"x{j}" for j in range(table.shape[1])]
    columns = {label: column if is_number(column) else column.astype("category") for label, column in table.items()}
    return pd.DataFrame(columns), y


def is_number(column: pd.Series) -> bool:
    """Ask whether a column holds numbers."""
    return bool(pd.api.types.is_numeric_dtype(column))


def with_junk(frame: pd.DataFrame, junk: int, rng: np.random.Generator) -> pd.DataFrame:
    """Append columns drawn at random, each with its rows in another order."""
    drawn = rng.integers(frame.shape[1], size=junk)
    shuffled = {f"junk{k}": frame.iloc[rng.permutation(len(frame)), j].reset_index(drop=True) for k, j in enumerate(drawn)}
    return pd.concat([frame, pd.DataFrame(shuffled)], axis=1)


def native_form(frame: pd.DataFrame) -> Any:
    """Keep the frame when it has categories, else make an array."""
    if all(is_number(frame[name]) for name in frame):
        return frame.to_numpy(dtype=np.float64)
    return frame


def dummy_form(frame: pd.DataFrame) -> NDArray[np.float32]:
    """Write each level of a category as a column of zeros and ones."""
    return np.ascontiguousarray(pd.get_dummies(frame, dtype=np.float32).to_numpy(dtype=np.float32))


def large_table(n: int = 50_000, n_features: int = 20, n_test: int = 5_000) -> Split:
    """Draw a logistic problem with interactions, for the clock."""
    rng = np.random.default_rng(seed_of("cost", "large", n, n_features))
    X = rng.standard_normal((n + n_test, n_features))
    logit = (
        X[:, :6] @ np.array([1.0, -1.0, 0.8, -0.6, 0.5, 0.3]) + X[:, 0] * X[:, 1] - X[:, 2] * X[:, 6] + np.sin(2.0 * X[:, 7])
    )
    p = 1.0 / (1.0 + np.exp(-logit))
    y = (rng.random(n + n_test) < p).astype(np.int64)
    sides = [Side(X[rows], np.float32(X[rows]), y[rows], p[rows]) for rows in (slice(n), slice(n, None))]
    return Split(sides[0], sides[1], seed_of("cost", "large", "fit"))
