"""Four pictures of a tuned forest: what was tried, how far its probabilities can be trusted, and who votes for one of them.

    python examples/pictures.py pictures.png

Breast cancer as it comes with scikit-learn, 30 columns, the probability that a tumour is benign: 400 rows to fit on, whose
scores and probabilities are out-of-bag. The last picture asks about the most doubtful of the other 169 rows.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from kernelforest import KernelForestClassifier
from kernelforest.displays import BandwidthPathDisplay, ReliabilityDisplay, VotingPointsDisplay


def draw(path: str) -> None:
    """Fit, say what was chosen, and draw."""
    data = load_breast_cancer(as_frame=True)
    labels = data.target_names[data.target]
    X, X_new, y, _ = train_test_split(data.data, labels, train_size=400, random_state=0, stratify=labels)
    model = KernelForestClassifier(n_jobs=2, random_state=0).fit(X, y)
    model.summary()
    doubtful = X_new.iloc[[np.abs(model.predict_proba(X_new)[:, 0] - 0.5).argmin()]]
    print(model.kernel_.explain(doubtful, label="benign"))
    figure, ((best, extra), (trust, votes)) = plt.subplots(2, 2, figsize=(12.0, 9.0), layout="constrained")
    BandwidthPathDisplay.from_model(model).plot([best, extra])
    ReliabilityDisplay.from_model(model, "benign").plot(trust)
    VotingPointsDisplay.from_kernel(model.kernel_, doubtful).plot(votes)
    figure.savefig(path, dpi=80)
    print(f"saved {path}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/pictures.py PATH.png")
    draw(sys.argv[1])
