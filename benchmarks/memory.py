"""Peak memory of one fit and size of the fitted model, each in a fresh process.

Parent: workloads enter, rows of megabytes leave. Child (`python memory.py NAME LIBRARY`): draws
the table, warms up on its head, fits once, prints a JSON line.
"""

from __future__ import annotations

import ctypes
import gc
import json
import pickle
import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rivals import LIBRARIES, OURS
from tables import Cell, heading, say, table
from workloads import WORKLOADS, Workload

WEIGHED = ("4600x107", "50000x20", "500000x28")
STATUS = Path("/proc/self/status")
MEGABYTE = 1024.0**2
PARTS = ("fit_peak", "model")


def weigh(workloads: Sequence[Workload], names: Sequence[str]) -> list[dict[str, Any]]:
    """Weigh ours and scikit-learn's on the workloads that have a size worth weighing."""
    weights = []
    for workload in (each for each in workloads if each.name in WEIGHED):
        for name in (each for each in (OURS, "sklearn") if each in names):
            say(f"{workload.name} memory {name}")
            weights.append({"workload": workload.name, "library": name, **child(workload.name, name)})
    return weights


def child(workload: str, library: str) -> dict[str, float]:
    """Run this module as a process of its own and read its answer."""
    command = [sys.executable, __file__, workload, library]
    answer = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    weight: dict[str, float] = json.loads(answer.splitlines()[-1])
    return weight


def print_weights(weights: Sequence[dict[str, Any]]) -> None:
    """Print megabytes and scikit-learn / ours."""
    heading("memory: peak of fit above the state before it, and pickled model (MB)")
    found = {(each["workload"], each["library"]): each for each in weights}
    rows = [memory_row(name, found) for name in dict.fromkeys(each["workload"] for each in weights)]
    table(
        ["workload", *(f"{part} {who}" for part in PARTS for who in ("ours", "sklearn", "ratio"))],
        rows,
    )


def memory_row(workload: str, found: dict[tuple[str, str], dict[str, Any]]) -> list[Cell]:
    """Set ours, scikit-learn's and their ratio side by side."""
    row: list[Cell] = [workload]
    for part in PARTS:
        ours, theirs = (found.get((workload, name), {}).get(part) for name in (OURS, "sklearn"))
        row += [ours, theirs, theirs / ours if ours and theirs else None]
    return row


def fit_and_weigh(workload: Workload, library_name: str) -> dict[str, float]:
    """Fit once in this process and see how far its memory rose."""
    train = workload.train()
    library = LIBRARIES[library_name]()
    library.load(workload, train.head(64))
    library.fit()
    library.load(workload, train)
    library.model = None
    settle()
    before = resident("VmRSS")
    seconds = library.fit()
    peak = resident("VmHWM")
    return {
        "fit_peak": (peak - before) / MEGABYTE,
        "model": len(pickle.dumps(library.model, protocol=pickle.HIGHEST_PROTOCOL)) / MEGABYTE,
        "seconds": seconds,
    }


def settle() -> None:
    """Return freed memory to the system and forget the peak so far, where Linux lets us."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        # 5 resets the peak: generating the table may have needed more than the fit does
        Path("/proc/self/clear_refs").write_text("5")
    except (AttributeError, OSError):
        say("memory: the peak before the fit could not be reset")


def resident(entry: str) -> float:
    """Read resident bytes, now (VmRSS) or at the peak (VmHWM).

    Elsewhere than on Linux both are ru_maxrss, the peak of the whole process: on Linux that
    one would start from the peak of the parent.
    """
    if not STATUS.exists():
        unit = 1 if sys.platform == "darwin" else 1024
        return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    lines = STATUS.read_text().splitlines()
    return 1024.0 * next(float(line.split()[1]) for line in lines if line.startswith(entry))


if __name__ == "__main__":
    chosen = next(each for each in WORKLOADS if each.name == sys.argv[1])
    print(json.dumps(fit_and_weigh(chosen, sys.argv[2])))
