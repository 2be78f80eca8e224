"""What all pictures share: colours, words, axes to draw on, and a look at the model.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; shapes or brightness repeat what they say, for
print without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from kernelforest.estimators import KernelForestClassifier

BLUE, ORANGE, SKY = "#0072B2", "#E69F00", "#56B4E9"
COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", SKY, "#D55E00", "#F0E442")
MARKERS = ("o", "s", "^", "D", "v")
PALE = "#888888"  # for what should not be compared with the rest
BESIDE: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}  # a legend, right of the axes


def check_model(model: Any, otherwise: str = "") -> None:
    """Refuse what is no fitted classifier of this package."""
    check_is_fitted(model)
    if not isinstance(model, KernelForestClassifier):
        found = type(model).__name__
        raise TypeError(f"model must be a KernelForestClassifier, got {found}; of a pipeline give the last step{otherwise}")


def axes(ax: Any, size: tuple[float, float]) -> Any:
    """The axes given, or new ones of this size in inches."""
    plt = _pyplot()
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def panels(ax: Any, names: Sequence[str], size: tuple[float, float]) -> tuple[Any, ...]:
    """One axes for each name, those given or new ones side by side."""
    plt = _pyplot()
    if ax is None:
        ax = plt.subplots(1, len(names), sharex=True, sharey=True, figsize=size, layout="constrained")[1]
    given = tuple(np.ravel(ax))
    if len(given) != len(names):
        raise ValueError(f"ax must be {len(names)} axes, one for each of {', '.join(names)}; got {len(given)}")
    return given


def shades(n: int) -> list[Any]:
    """Colours from dark to light, none too light for white paper, none grey."""
    _pyplot()
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0.0, 0.8, n)]


def star(ax: Any, x: float, y: float, label: str, colour: str = "black") -> None:
    """Mark one point, to be seen on any ground."""
    look = {"linestyle": "none", "marker": "*", "markersize": 14.0, "markeredgecolor": "black", "markeredgewidth": 0.8}
    ax.plot([x], [y], color=colour, zorder=6, label=label, **look)


def plain(words: Any) -> str:
    r"""Words of a user, to be written as they are: between two dollar signs matplotlib would read a formula.

    >>> plain("US$ to A$")
    'US\\$ to A\\$'
    """
    return str(words).replace("$", r"\$")


def spread(heights: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Heights for labels, at least a gap apart and near to what they are wanted at.

    >>> spread(np.array([3.0, 1.0, 1.0]), 1.0).tolist()
    [3.0, 0.5, 1.5]
    """
    order = np.argsort(heights, kind="stable")
    blocks: list[tuple[float, int]] = []  # of labels that touch: sum of what their lowest one wants, and how many
    for wanted in heights[order]:
        blocks.append((float(wanted), 1))
        while len(blocks) > 1:
            (low, n), (high, k) = blocks[-2:]
            if low / n + gap * n <= high / k:
                break
            blocks[-2:] = [(low + high - gap * n * k, n + k)]
    placed = np.empty(len(heights))
    placed[order] = [start / n + gap * i for start, n in blocks for i in range(n)]
    return placed


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("drawing needs matplotlib: pip install 'kernelforest[plot]'") from None
    return plt
