"""Print the speed of kernelforest as ratios to its rivals, all measured in this run.

    python benchmarks/fit.py [--quick] [--only fit,predict,memory,growth,cold]
        [--workloads NAME,...] [--rivals sklearn,ydf,ranger,lightgbm] [--json FILE]

Every library grows the same number of trees to pure leaves, tries the same number of columns
per cut, bootstraps, and uses two threads. Without kernelforest the rivals run alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import cold
import growth
import memory
import race
from rivals import LIBRARIES, OURS, RIVALS, THREADS, Library, installed
from tables import heading, table
from workloads import WORKLOADS, Workload

PARTS = ("fit", "predict", "memory", "growth", "cold")
DISTRIBUTIONS = {"sklearn": "scikit-learn"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line, run the parts asked for, print them, write the JSON."""
    options = command_line().parse_args(arguments)
    wanted = [OURS, *options.rivals]
    present = [name for name in wanted if installed(name)]
    print_opening(wanted, present, options.workloads)
    libraries = [LIBRARIES[name]() for name in present]
    try:
        found = run_parts(options, libraries)
    finally:
        for library in libraries:
            library.close()
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def command_line() -> argparse.ArgumentParser:
    """Describe the options."""
    names = [each.name for each in WORKLOADS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one repetition, shorter ladders")
    parser.add_argument("--only", type=among(PARTS), default=list(PARTS), metavar="PART,...")
    parser.add_argument("--workloads", type=among(names), default=names, metavar="NAME,...")
    parser.add_argument("--rivals", type=among(RIVALS), default=list(RIVALS), metavar="NAME,...")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every number here")
    return parser


def among(allowed: Sequence[str]) -> Any:
    """Make a reader of comma-separated names that must be among the allowed ones."""

    def names(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"names must be among {', '.join(allowed)}, got {', '.join(unknown)}")
        return chosen

    return names


def run_parts(options: argparse.Namespace, libraries: Sequence[Library]) -> dict[str, Any]:
    """Run each part and print it as soon as it is measured."""
    workloads = [each for each in WORKLOADS if each.name in options.workloads]
    names = [library.name for library in libraries]
    parts = frozenset(options.only)
    found: dict[str, Any] = {"opening": opening(names)}
    results = race.run(workloads, libraries, options.quick, parts)
    if "fit" in parts and results:
        race.print_fit(results, names)
    if "predict" in parts and results:
        race.print_predict(results, names)
    found["race"] = {
        workload: {name: asdict(result) for name, result in entry.items()} for workload, entry in results.items()
    }
    if "memory" in parts:
        found["memory"] = memory.weigh(workloads, names)
        memory.print_weights(found["memory"])
    if "growth" in parts and libraries:
        ladders = growth.climb(libraries[0], options.quick)
        growth.print_ladders(libraries[0].name, ladders)
        found["growth"] = [asdict(each) for each in ladders]
    if "cold" in parts:
        found["cold"] = cold.start(options.quick)
        cold.print_start(found["cold"])
    return found


def opening(names: Sequence[str]) -> dict[str, Any]:
    """Collect what a reader needs to judge the run."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load before the run": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": {name: version(name) for name in names},
    }


def version(name: str) -> str:
    """Look up an installed version."""
    try:
        return metadata.version(DISTRIBUTIONS.get(name, name))
    except metadata.PackageNotFoundError:
        return "installed"


def print_opening(wanted: Sequence[str], present: Sequence[str], chosen: Sequence[str]) -> None:
    """Say what runs, how each library is fed, and what is missing."""
    facts = opening(present)
    print(f"# Speed, {THREADS} threads each, leaves grown to purity\n")
    print(f"Python {facts['python']}, {facts['machine']}, load {facts['load before the run']}.\n")
    for name in present:
        print(f"- {name} {facts['versions'][name]}: {LIBRARIES[name].note}")
    for name in (each for each in wanted if each not in present):
        print(f"- {name}: not installed, skipped")
    heading("workloads")
    table(
        ["name", "rows", "columns", "trees", "mtry", "model"],
        [workload_row(each) for each in WORKLOADS if each.name in chosen],
    )


def workload_row(workload: Workload) -> list[str | float | int | None]:
    """Describe a workload in one line."""
    return [
        workload.name,
        workload.n_rows,
        workload.n_features,
        workload.n_trees,
        workload.mtry,
        workload.generator.__name__,
    ]


if __name__ == "__main__":
    main()
