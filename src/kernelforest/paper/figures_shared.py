"""What the figures share: forests as the paper grows them, numbers with standard errors, and contour plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelforest.displays.canvas import star
from kernelforest.estimators import KernelForestClassifier
from kernelforest.paper.experiment import Records

Floats = NDArray[np.float64]
RANDOM = "random"  # splitter of the completely random forest: a random feature, cut uniformly


class Mean(NamedTuple):
    """A mean over repetitions with its standard error; NaN of a single one."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.3f}" + ("" if np.isnan(self.error) else f" ± {self.error:.3f}")

    @property
    def margin(self) -> float:
        """Two standard errors; none if they are not known."""
        return 0.0 if np.isnan(self.error) else 2.0 * self.error

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


def column(records: Records, key: str) -> Floats:
    """The numbers of all repetitions under a key, first axis the repetition."""
    return np.array([record[key] for record in records], dtype=np.float64)


def first_with(records: Records, key: str) -> Any:
    """What is drawn of one repetition only: the first that kept it."""
    return next(record[key] for record in records if record.get(key) is not None)


def rounded(values: Any, digits: int = 5) -> Any:
    """A list that JSON can hold."""
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()


def grow(X: Floats, y: Any, *, n_trees: int, mtry: int, seed: int, splitter: str = "best") -> KernelForestClassifier:
    """A classification forest of the paper: bootstrap, grown until leaves are pure, votes."""
    model = KernelForestClassifier.untuned(
        n_trees,
        max_features=mtry,
        leaf_size=1,
        aggregate="vote",
        fill="inbag",
        splitter=splitter,
        bootstrap=True,
        max_samples=None,
        categorical_features=None,
        random_state=seed,
    )
    return model.fit(X, y)


def rmse(estimate: Floats, truth: Floats) -> float:
    """Root of the mean squared difference."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


def expected_error(estimate: Floats, truth: Floats) -> float:
    """Expected misclassification of new labels at these rows, from the true probabilities: no noise of test labels.

    >>> expected_error(np.array([0.4, 0.9]), np.array([0.3, 0.2]))
    0.55
    """
    return float(np.where(estimate > 0.5, 1.0 - truth, truth).mean())


def aspect(x: Floats, y: Floats, k: Floats, x0: Sequence[float]) -> float:
    """Mean distance from x0 along the first axis over that along the second, weighted by k: below one is thin in the first.

    >>> aspect(np.array([-1.0, 1.0]), np.array([-2.0, 2.0]), np.ones((2, 2)), (0.0, 0.0))
    0.5
    """
    along = (k * np.abs(x - x0[0])[:, None]).sum(), (k * np.abs(y - x0[1])).sum()
    return float(along[0] / along[1])


def draw_levels(ax: Any, side: Sequence[float], k: Any, x0: Sequence[float], title: str) -> Any:
    """Level sets of a kernel around x0, in steps of a tenth, the same in every panel."""
    values = np.asarray(k, dtype=np.float64).T
    steps = np.linspace(0.0, 1.0, 11)
    filled = ax.contourf(side, side, values, levels=steps, cmap="cividis", vmin=0.0, vmax=1.0)
    ax.contour(side, side, values, levels=steps[1:-1], colors="white", linewidths=0.5)
    star(ax, x0[0], x0[1], "x0", "white")
    ax.set(title=title, aspect="equal")
    return filled
