"""Tables with a known class probability: a name and a seed enter, a `Table` leaves.

Numbers are rounded to float32 once, so that every library sees the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TRAIN_SEED = 20_261
QUERY_SEED = 20_262
COEFFICIENT_SEED = 20_263


@dataclass(frozen=True)
class Table:
    """Rows of numbers and categories, labels, and the probability that drew the labels."""

    numbers: NDArray[np.float32]  # (n_rows, n_numbers), C order
    levels: NDArray[np.int32]  # (n_rows, n_categories), codes from 0
    labels: NDArray[np.int32]  # (n_rows,), 0 or 1
    truth: NDArray[np.float64]  # (n_rows,), P(label = 1 | row)

    @property
    def n_rows(self) -> int:
        """Count the rows."""
        return int(self.labels.size)

    @property
    def n_features(self) -> int:
        """Count numbers and categories together."""
        return int(self.numbers.shape[1] + self.levels.shape[1])

    def head(self, n_rows: int) -> Table:
        """Keep the first rows, for warming up."""
        return Table(
            np.ascontiguousarray(self.numbers[:n_rows]),
            np.ascontiguousarray(self.levels[:n_rows]),
            self.labels[:n_rows],
            self.truth[:n_rows],
        )


Columns = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.float64]]
Generator = Callable[[int, int, np.random.Generator], Columns]


@dataclass(frozen=True)
class Workload:
    """One fit: the table's generator and shape, and the forest's size."""

    name: str
    generator: Generator
    n_rows: int
    n_features: int
    n_trees: int
    mtry: int
    repeats: int

    def train(self) -> Table:
        """Draw the training table."""
        return draw(self.generator, self.n_rows, self.n_features, TRAIN_SEED)

    def queries(self, n_rows: int) -> Table:
        """Draw new rows from the same generator."""
        return draw(self.generator, n_rows, self.n_features, QUERY_SEED)


def draw(generator: Generator, n_rows: int, n_features: int, seed: int) -> Table:
    """Draw features, then labels from their probability."""
    rng = np.random.default_rng(seed)
    numbers, levels, truth = generator(n_rows, n_features, rng)
    labels = (rng.random(n_rows) < truth).astype(np.int32)
    return Table(np.ascontiguousarray(numbers, dtype=np.float32), levels, labels, truth)


def circle(n_rows: int, n_features: int, rng: np.random.Generator) -> Columns:
    """Draw the paper's circle: P = 1 within radius 8, falling linearly to 0 at radius 28."""
    numbers = rng.uniform(0.0, 50.0, (n_rows, n_features))
    radius = np.linalg.norm(numbers - 25.0, axis=1)
    return numbers, no_levels(n_rows), np.clip((28.0 - radius) / 20.0, 0.0, 1.0)


def sparse(n_rows: int, n_features: int, rng: np.random.Generator) -> Columns:
    """Draw the paper's one-dimensional step: P = 0.3 or 0.7 by the sign of the first column."""
    numbers = rng.uniform(-1.0, 1.0, (n_rows, n_features))
    return numbers, no_levels(n_rows), np.where(numbers[:, 0] < 0.0, 0.3, 0.7)


def spam(n_rows: int, n_features: int, rng: np.random.Generator) -> Columns:
    """Draw word shares like those of mail: mostly zero, skewed, two decimals; 50 junk columns."""
    n_words = n_features - 50
    coefficients = np.random.default_rng(COEFFICIENT_SEED)
    topic = rng.random(n_rows) < 0.4
    rarity = coefficients.uniform(-3.0, 0.0, n_words)
    lean = coefficients.normal(0.0, 1.2, n_words)
    presence = logistic(rarity + np.where(topic[:, None], lean, -lean))
    shares = np.exp(rng.normal(-1.0, 1.0, (n_rows, n_words)))
    words = np.where(rng.random((n_rows, n_words)) < presence, np.round(shares, 2), 0.0)
    evidence = np.log1p(10.0 * words) @ lean
    score = 4.0 * (evidence - np.median(evidence)) / np.std(evidence)
    junk = rng.normal(size=(n_rows, 50))
    return np.hstack([words, junk]), no_levels(n_rows), logistic(score)


def smooth(n_rows: int, n_features: int, rng: np.random.Generator) -> Columns:
    """Draw normal columns whose log odds are a sum of slopes, products and one wave."""
    numbers = rng.normal(size=(n_rows, n_features))
    return numbers, no_levels(n_rows), logistic(smooth_score(numbers))


def mixed(n_rows: int, n_features: int, rng: np.random.Generator) -> Columns:
    """Draw half normal columns, half categories of 2 to 32 levels with an effect per level."""
    n_categories = n_features // 2
    coefficients = np.random.default_rng(COEFFICIENT_SEED)
    sizes = np.linspace(2, 32, n_categories).round().astype(int)
    numbers = rng.normal(size=(n_rows, n_features - n_categories))
    levels = np.empty((n_rows, n_categories), dtype=np.int32)
    score = 0.7 * smooth_score(numbers)
    for column, size in enumerate(sizes):
        frequency = coefficients.dirichlet(np.full(size, 2.0))
        levels[:, column] = rng.choice(size, n_rows, p=frequency)
        score += coefficients.normal(0.0, 0.3, size)[levels[:, column]]
    return numbers, levels, logistic(score)


def smooth_score(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum slopes, products of neighbours and a wave over the first eight columns."""
    x = numbers.T
    slopes = 0.8 * x[0] - 0.6 * x[1] + 0.4 * x[2]
    products = 0.7 * x[3] * x[4] - 0.5 * x[0] * x[5]
    score: NDArray[np.float64] = slopes + products + np.sin(2.0 * x[6]) + 0.5 * (np.abs(x[7]) - 0.8)
    return score


def logistic(score: NDArray[np.float64]) -> NDArray[np.float64]:
    """Map log odds to a probability."""
    share: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-score))
    return share


def no_levels(n_rows: int) -> NDArray[np.int32]:
    """Stand for a table without categories."""
    return np.empty((n_rows, 0), dtype=np.int32)


WORKLOADS = (
    Workload("500x2", circle, 500, 2, 500, 1, 7),
    Workload("1000x50-m7", sparse, 1_000, 50, 500, 7, 5),
    Workload("1000x50-m30", sparse, 1_000, 50, 500, 30, 3),
    Workload("4600x107", spam, 4_600, 107, 200, 10, 3),
    Workload("50000x20", smooth, 50_000, 20, 50, 4, 3),
    Workload("500000x28", smooth, 500_000, 28, 10, 5, 2),
    Workload("20000x40-cat", mixed, 20_000, 40, 50, 6, 3),
)
