"""What the figures share: forests as the paper grows them, numbers of all repetitions, and contour plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.estimators import KernelForestClassifier
from kernelforest.kernel import ForestKernel
from kernelforest.paper.experiment import Mean, Records, mean

Floats = NDArray[np.float64]
AWAY = np.linspace(-0.4, 0.4, 33)  # from x0, of level sets
LEVELS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)  # drawn
KEPT = 12  # repetitions that keep their level sets, to be averaged in pictures
# Splitter of the completely random forest, with one feature to choose from: uniform cuts until leaves are pure, as in the
# forest beside it. With "random" trees go on to single rows, which makes the kernel narrower.
RANDOM = "extra"


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


def aspect(kernel: ForestKernel, x0: Sequence[float]) -> float:
    """Log of the mean width of the leaves that hold x0, along the first feature of [-1, 1] over along the second.

    Below zero the kernel is thin along the first. Logs, because ratios of single data sets differ by factors.
    """
    faces = kernel.faces(x0)
    width = (np.minimum(faces.upper, 1.0) - np.maximum(faces.lower, -1.0)).mean(axis=1)
    return float(np.log(width[0] / width[1]))


def ratio(logs: Any) -> Mean:
    """Geometric mean of ratios, of which the logs are given, with its standard error.

    >>> print(ratio([0.0, 0.0]))
    1.000 ± 0.000
    """
    found = mean(logs)
    return Mean(float(np.exp(found.value)), float(np.exp(found.value) * found.error))


def levels_around(kernel: ForestKernel, x0: Sequence[float]) -> list[list[int]]:
    """The kernel in thousandths on a grid around x0, `AWAY` from it in both features."""
    x, y = (AWAY + value for value in x0)
    found: list[list[int]] = np.rint(1000.0 * kernel.level_sets(x0, (0, 1), (x, y)).k).astype(int).tolist()
    return found


def draw_levels(ax: Any, records: Records, key: str, title: str) -> Any:
    """Level sets of a kernel around x0, averaged over the repetitions that kept them; the same levels in every panel."""
    kept = [record[key] for record in records if record.get(key) is not None]
    values = np.mean(kept, axis=0).T / 1000.0
    filled = ax.contourf(AWAY, AWAY, values, levels=LEVELS, cmap="cividis", norm=_norm())
    ax.contour(AWAY, AWAY, values, levels=LEVELS[1:-1], colors="white", linewidths=0.6)
    ax.plot([0.0], [0.0], "+", color="black", markersize=7)
    ax.set_title(title, fontsize=10)
    ax.set_aspect("equal")
    return filled


def _norm() -> Any:
    from matplotlib.colors import BoundaryNorm

    return BoundaryNorm(LEVELS, 256)
