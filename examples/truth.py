"""What forests say where the truth is known: the paper's circle model, 500 rows, as a map of probabilities.

    python examples/truth.py docs/truth.png

Three maps of the chance of a hit over the plane: the truth, scikit-learn's forest, and the default of this package, both
with 500 trees and fitted on the same rows. Above each is its root mean squared error against the truth.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier

from kernelforest import KernelForestClassifier
from kernelforest.problems import PAPER

N_ROWS, EDGE, STEPS = 500, 28.0, 120


def main(path: str) -> None:
    """Fit both forests, print their errors and save the picture."""
    problem = PAPER["circle"]
    train = problem.sample(N_ROWS, seed=0)
    ticks = np.linspace(-EDGE, EDGE, STEPS)
    plane = np.column_stack([each.ravel() for each in np.meshgrid(ticks, ticks)])
    truth = problem.probabilities(plane)[:, 1]
    maps = {"the truth": truth}
    for name, model in {
        "scikit-learn's forest": RandomForestClassifier(500, random_state=0, n_jobs=2),
        "kernelforest": KernelForestClassifier(random_state=0),
    }.items():
        p = model.fit(train.X, train.y).predict_proba(plane)[:, 1]
        error = np.sqrt(np.mean((p - truth) ** 2))
        maps[f"{name}: error {error:.3f}"] = p
        print(f"{name}: root mean squared error {error:.3f}")
    figure, panels = plt.subplots(1, 3, figsize=(10.5, 3.6), sharex=True, sharey=True, layout="constrained")
    for ax, (title, p) in zip(panels, maps.items(), strict=True):
        shown = ax.imshow(
            p.reshape(STEPS, STEPS), origin="lower", extent=[-EDGE, EDGE] * 2, vmin=0.0, vmax=1.0, cmap="cividis"
        )
        ax.set(title=title, xlabel="x1", xticks=[-20, 0, 20], yticks=[-20, 0, 20])
    panels[0].set_ylabel("x2")
    figure.colorbar(shown, ax=panels, label="probability of a hit", shrink=0.9)
    figure.savefig(path, dpi=90)
    print(f"saved {path}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/truth.py PATH.png")
    main(sys.argv[1])
