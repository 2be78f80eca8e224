"""Cold start: fresh processes enter, seconds to import and to fit for the first time leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from rivals import OURS, installed
from tables import Cell, heading, say, table

IMPORT = "import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"

FIRST_FIT = """
import json, time
import numpy as np
from kernelforest import KernelForestClassifier

rng = np.random.default_rng(0)
X = rng.random((500, 2), dtype=np.float32)
y = (rng.random(500) < X[:, 0]).astype(int)

def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start

model = KernelForestClassifier{how}(n_estimators=50, n_jobs=2, random_state=0)
names = ("first_fit", "first_predict", "later_fit", "later_predict")
print(json.dumps(dict(zip(names, [
    seconds(lambda: model.fit(X, y)),
    seconds(lambda: model.predict_proba(X)),
    seconds(lambda: model.fit(X, y)),
    seconds(lambda: model.predict_proba(X)),
]))))
"""

FORESTS = {"untuned": ".untuned", "default": ""}  # how they are made


def start(quick: bool) -> dict[str, Any]:
    """Time imports, a first fit with an empty compilation cache, and one with a full cache."""
    repeats = 3 if quick else 7
    modules = [each for each in (OURS, "sklearn.ensemble", "numba") if installed(each.split(".")[0])]
    found: dict[str, Any] = {"imports": {each: import_seconds(each, repeats) for each in modules}}
    if installed(OURS):
        for name, how in FORESTS.items():
            with tempfile.TemporaryDirectory() as cache:
                for state in ("empty", "full"):
                    say(f"cold: first fit, {name}, {state} cache")
                    found[f"{name}, {state} cache"] = first_fit(how, cache)
    return found


def import_seconds(module: str, repeats: int) -> float:
    """Import in fresh processes; the minimum counts."""
    say(f"cold: import {module}")
    code = IMPORT.format(module=module)
    return min(float(fresh(code, {}).stdout) for _ in range(repeats))


def first_fit(how: str, cache: str) -> dict[str, Any]:
    """Fit and predict twice in a fresh process; keep what it said meanwhile."""
    done = fresh(FIRST_FIT.replace("{how}", how), {"NUMBA_CACHE_DIR": cache})
    *printed, answer = done.stdout.splitlines()
    return {**json.loads(answer), "said": [*printed, *done.stderr.splitlines()]}


def fresh(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )


def print_start(found: dict[str, Any]) -> None:
    """Print imports, then first fits with what they said."""
    heading("cold start: minimum seconds to import in a fresh process")
    table(["module", "s"], [[name, seconds] for name, seconds in found["imports"].items()])
    caches = [each for each in found if each.endswith("cache")]
    if caches:
        heading("cold start: first fit and predict_proba in a fresh process (500x2, 50 trees)")
        table(
            ["forest, compilation cache", "first fit", "later fit", "extra fit", "extra predict"],
            [cache_row(name, found[name]) for name in caches],
        )
        print_said(caches, found)


def cache_row(name: str, times: dict[str, Any]) -> list[Cell]:
    """Subtract the later call from the first."""
    extra_fit = times["first_fit"] - times["later_fit"]
    extra_predict = times["first_predict"] - times["later_predict"]
    return [name, times["first_fit"], times["later_fit"], extra_fit, extra_predict]


def print_said(caches: Sequence[str], found: dict[str, Any]) -> None:
    """Quote what the process told its user."""
    for name in caches:
        words = " / ".join(found[name]["said"]) or "nothing"
        print(f"\nWith {name} it said: {words}")
