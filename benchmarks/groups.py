"""Few groups: does calibration that counts rows of a group by how their labels go together come nearer to the truth?

    python benchmarks/groups.py [--reps N] > benchmarks/results/groups.md

Five columns, of which two matter; rows of a group lie near each other. Labels are of rows, or the same for all rows of a
group, or of rows with an effect of the group that no column shows. New rows are of new groups.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from itertools import product
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from kernelforest import KernelForestClassifier, calibration
from kernelforest.scoring import losses
from quality_report import mean
from tables import table

KINDS = {"one a group": 0.5, "of rows": 2.0, "of rows, with an effect of the group": 0.5}  # how far rows are from the middle
SIZES = ((15, 40), (30, 20), (100, 5))  # groups, rows of each
NEW = (400, 5)
TREES = 100


def sample(rng: np.random.Generator, kind: str, n_groups: int, size: int) -> tuple[NDArray, NDArray, NDArray]:
    """Rows, labels and groups."""
    groups = np.repeat(np.arange(n_groups), size)
    middle = rng.normal(size=(n_groups, 5))
    X = middle[groups] + KINDS[kind] * rng.normal(size=(len(groups), 5))
    where = middle[groups] if kind == "one a group" else X
    odds = 1.2 * where[:, 0] - 0.8 * where[:, 1]
    if kind.endswith("effect of the group"):
        odds = odds + rng.normal(size=n_groups)[groups]
    luck = rng.random(n_groups)[groups] if kind == "one a group" else rng.random(len(groups))
    return X, (luck < 1.0 / (1.0 + np.exp(-odds))).astype(int), groups


def scores(kind: str, n_groups: int, size: int, rep: int) -> list[float] | None:
    """Log loss on new groups: of the default, without counting so, and without calibration."""
    warnings.simplefilter("ignore")  # that groups are few
    rng = np.random.default_rng([rep, n_groups, size])
    X, y, groups = sample(rng, kind, n_groups, size)
    if len(np.unique(y)) < 2:
        return None
    X_new, y_new, _ = sample(rng, kind, *NEW)
    model = partial(KernelForestClassifier, TREES, random_state=rep)
    default = model().fit(X, y, groups=groups).predict_proba(X_new)
    with patch.object(calibration, "_told", lambda p, y, w, group: w):
        rows = model().fit(X, y, groups=groups).predict_proba(X_new)
    plain = model(calibration=None).fit(X, y, groups=groups).predict_proba(X_new)
    floor = 0.5 / len(y)
    return [float(losses(np.clip(p, floor, 1.0 - floor), y_new, "log_loss").mean()) for p in (default, rows, plain)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=40)
    reps = parser.parse_args().reps
    print("# Few groups: `python benchmarks/groups.py`\n")
    print(f"Log loss on new groups, {reps} repetitions, {TREES} trees; paired differences, ± is one standard error.\n")
    lines = []
    for kind, (n_groups, size) in product(KINDS, SIZES):
        found = Parallel(n_jobs=2)(delayed(scores)(kind, n_groups, size, rep) for rep in range(reps))
        default, rows, plain = np.array([one for one in found if one is not None]).T
        gains = [mean(rival - default).written(4, "+") for rival in (rows, plain)]
        lines.append([kind, f"{n_groups} x {size}", f"{default.mean():.4f}", *gains])
    table(["labels", "groups x rows", "default", "each row counts − default", "not calibrated − default"], lines)


if __name__ == "__main__":
    main()
