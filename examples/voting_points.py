"""Voting points of the paper's motivating example: mtry decides who votes.

    python examples/voting_points.py voting_points.png

1,000 rows, 50 features uniform on [-1, 1], P(y = 1) = 0.7 where x1 > 0 and 0.3 elsewhere. Both forests are asked about the
point (0.5, ..., 0.5). Rows with x1 > 0 have the same probability as the point, so all weight should be on them.

The table printed last says how much is, for each estimate: about .63 (mtry 1) against .99 (mtry 30) with
aggregate="proximity", whatever the fill; about .60 against .98 with aggregate="mean".
"""

from __future__ import annotations

import sys
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kernelforest.displays import VotingPointsDisplay
from kernelforest.estimators import KernelForestClassifier
from kernelforest.forest import FILLS

MTRY = (1, 30)
NAMES = [f"x{j}" for j in range(1, 51)]
N_ROWS, N_DRAWS = 1_000, 10
POINT = pd.DataFrame(0.5, index=[0], columns=NAMES)
AREA = 4_000.0  # the same in both panels: a row of weight 0.01 covers 40 square points


def draw_data(seed: int) -> tuple[Any, Any]:
    """One training sample."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame(random.uniform(-1.0, 1.0, (N_ROWS, len(NAMES))), columns=NAMES)
    return X, (random.random(N_ROWS) < np.where(X["x1"] > 0, 0.7, 0.3)).astype(int)


def fit(X: Any, y: Any, mtry: int, seed: int) -> KernelForestClassifier:
    """A forest of fully grown trees."""
    return KernelForestClassifier.untuned(500, max_features=mtry, random_state=seed, n_jobs=2).fit(X, y)


def right_side(X: Any, model: KernelForestClassifier, aggregate: str, fill: str) -> float:
    """Weight of the rows with x1 > 0."""
    points = model.kernel_.voting_points(POINT, aggregate=aggregate, fill=fill)
    return float(points.weight[X["x1"].to_numpy()[points.rows] > 0].sum())


def print_weights() -> None:
    """Weight on the right side, for every estimate that has weights."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(N_DRAWS):
        X, y = draw_data(seed)
        models = [fit(X, y, mtry, seed) for mtry in MTRY]
        for aggregate in ("proximity", "mean"):
            for fill in FILLS:
                sides = [right_side(X, model, aggregate, fill) for model in models]
                found.setdefault((aggregate, fill), []).append(sides)
    print(f"Voting weight on the right side (x1 > 0), mean of {N_DRAWS} samples, standard error in brackets")
    print("aggregate  fill    mtry 1         mtry 30")
    for (aggregate, fill), sides in found.items():
        mean, error = np.mean(sides, axis=0), np.std(sides, axis=0, ddof=1) / np.sqrt(N_DRAWS)
        print(f"{aggregate:10} {fill:6}  {mean[0]:.3f} ({error[0]:.3f})  {mean[1]:.3f} ({error[1]:.3f})")


def draw(path: str) -> None:
    """Voting points of both forests on the first sample, with the same axes."""
    X, y = draw_data(0)
    figure, panels = plt.subplots(1, 2, figsize=(10.5, 4.8), sharex=True, sharey=True, layout="constrained")
    for mtry, ax in zip(MTRY, panels, strict=True):
        model = fit(X, y, mtry, 0)
        display = VotingPointsDisplay.from_kernel(model.kernel_, POINT, features=("x1", "x2"))
        display.plot(ax, area=AREA, legend=ax is panels[-1])
        ax.axvline(0.0, color="black", linestyle=":", linewidth=1.0)
        ax.set(aspect="equal", xticks=[-1, -0.5, 0, 0.5, 1], yticks=[-1, -0.5, 0, 0.5, 1])
        ax.set_title(f"mtry = {mtry}: {ax.get_title()}", fontsize="medium")
        ax.label_outer()
        weight = right_side(X, model, "proximity", "inbag")
        print(f"mtry {mtry:2}: {len(display.points)} rows vote, {weight:.2f} of the weight is on the right side")
        print(f"  {model.kernel_.explain(POINT)}")
    figure.savefig(path, dpi=120)
    print(f"saved {path}\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/voting_points.py PATH.png")
    draw(sys.argv[1])
    print_weights()
