"""The engine as plain Python gives the same bits as the compiled engine.

Run as a script, this file writes the results of every case to an .npz file; the test does so in a process with the JIT
disabled. The compiler may thus reorder nothing and overflow nowhere, and the loops can be read, traced and covered.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelforest import KernelForestClassifier
from oracle import AGGREGATES, FILLS, draw_table

MIXED = ("missing", "categorical", "levels-missing", "numeric")
CASES: dict[str, dict[str, Any]] = {
    "two classes": {"kinds": ("numeric",) * 3, "n_classes": 2, "n": 120, "grid": 1000},
    "two classes, categorical": {"kinds": MIXED, "n_classes": 2},
    "three classes, everything": {"kinds": MIXED, "n_classes": 3, "weighted": True},
    "extra": {"kinds": MIXED, "n_classes": 3, "rules": {"splitter": "extra"}},
    "random": {"kinds": MIXED, "n_classes": 2, "rules": {"splitter": "random", "leaf_size": 3}},
    "random-observed": {"kinds": MIXED, "n_classes": 2, "rules": {"splitter": "random-observed", "max_depth": 4}},
    "best first": {"kinds": MIXED, "n_classes": 3, "rules": {"max_leaf_nodes": 7}},
    "subsample": {"kinds": MIXED, "n_classes": 2, "rules": {"bootstrap": False, "max_samples": 0.6}},
}


def results(name: str) -> dict[str, np.ndarray]:
    """Fit one case and compute all that comes out of it."""
    case = {"n": 60, "grid": 30, "weighted": False, "rules": {}, **CASES[name]}
    table = draw_table(1, case["n"], case["kinds"], case["n_classes"], case["grid"])
    new = draw_table(2, 25, case["kinds"], case["n_classes"], case["grid"]).X
    new[:3, 0] = np.nan
    weights = np.random.default_rng(0).uniform(0.1, 2.0, case["n"]) if case["weighted"] else None
    model = KernelForestClassifier.untuned(
        20, random_state=0, categorical_features=table.categorical, n_jobs=1, **case["rules"]
    )
    model.fit(table.X, table.y, weights)
    forest = model.forest_
    out = {f: forest.nodes[f] for f in forest.nodes.dtype.names}
    out |= {"sets": forest.sets, "starts": forest.starts, "sizes": forest.sizes, "gains": forest.gains}
    out |= {"apply": model.apply(new), "inbag": model.inbag_counts_, "oob_proba": model.oob_proba_}
    for aggregate in AGGREGATES:
        for fill in FILLS:
            out[f"{aggregate} {fill}"] = model.predict_proba(new, aggregate, fill)
            out[f"{aggregate} {fill} out-of-bag"] = forest.estimate_out_of_bag(aggregate, fill)[0]
    return out


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("without_jit") / "results.npz"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "error", str(Path(__file__)), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    with np.load(path) as stored:
        return dict(stored)


@pytest.mark.parametrize("name", CASES)
def test_the_engine_gives_the_same_bits_without_the_compiler(interpreted, name):
    compiled = results(name)
    assert len(compiled["feature"]) > 100
    for key, value in compiled.items():
        other = interpreted[f"{name}/{key}"]
        assert other.dtype == value.dtype, key
        assert other.tobytes() == value.tobytes(), key


if __name__ == "__main__":
    np.savez(sys.argv[1], **{f"{name}/{key}": value for name in CASES for key, value in results(name).items()})
