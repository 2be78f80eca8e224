"""Which features matter? The kernel's derivatives beside permutation importance and mean decrease of impurity.

    python examples/derivative_importance.py importance.png

The paper suggests derivatives of the kernel as an alternative to variable importance: a forest that looks at a feature has
a kernel that falls off quickly in its direction. The model has 22 columns; two carry the signal, one is a noisy copy of the
first, and the rest are noise. Derivatives are computed on training rows without labels; permutation importance needs
held-out labels and predicts every column anew.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from sklearn.inspection import permutation_importance

from kernelforest import KernelForestClassifier
from kernelforest.displays import DerivativeImportanceDisplay


def make_data(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two signals, a noisy copy of the first, and 19 columns of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 22))
    X[:, 2] = X[:, 0] + 0.5 * X[:, 2]
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X[:, 0] - 2 * X[:, 1]))).astype(int)


def main() -> None:
    """Print the three importances and save the picture of the first."""
    X, y = make_data(1000, 0)
    X_test, y_test = make_data(1000, 1)
    model = KernelForestClassifier.untuned(500, max_features=7, leaf_size=5, n_jobs=2, random_state=0).fit(X, y)
    begin = time.perf_counter()
    derivative = model.kernel_.derivative_importance()
    middle = time.perf_counter()
    permuted = permutation_importance(model, X_test, y_test, scoring="neg_log_loss", n_repeats=5, random_state=0)
    end = time.perf_counter()
    print(f"derivatives {middle - begin:.2f} s, permutation {end - middle:.2f} s\n")
    print("column      derivative per sd   permutation (log loss)   impurity")
    roles = ["signal", "signal", "copy"] + ["noise"] * 19
    for j in range(6):
        row = derivative.per_sd[j], permuted.importances_mean[j], model.feature_importances_[j]
        print(f"x{j} {roles[j]:<8}{row[0]:>12.3f}{row[1]:>22.4f}{row[2]:>18.3f}")
    rest = slice(6, None)
    means = derivative.per_sd[rest].mean(), permuted.importances_mean[rest].mean(), model.feature_importances_[rest].mean()
    print(f"other noise{means[0]:>12.3f}{means[1]:>22.4f}{means[2]:>18.3f}")
    if len(sys.argv) > 1:
        display = DerivativeImportanceDisplay.from_kernel(model.kernel_).plot()
        display.figure_.savefig(sys.argv[1], dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
