"""Measure how good the probabilities of the default estimator are, against the paper's forests and against other libraries.

    python benchmarks/quality.py [simulated|real|cost|report|all] [--reps N] [--methods a,b] [--sets a,b]
        [--minutes M] [--again]

Every score is kept in results/quality as soon as it is known, and what is kept is not run again. `report` prints the tables.
The data sets are read from the folder KERNELFOREST_DATA (../shared/data beside the repository).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss

import quality_cost
import quality_report
from quality_data import JUNK, LARGE, REAL, SIMULATED, Split, real_split, simulated_split
from quality_records import Record, append, forget, key_of, load
from quality_rivals import METHODS, runs_here
from tables import say

SIZES = (250, 500)
REPS = {"simulated": 100, "real": 50, "cost": quality_cost.REPS}
NAMES = {**{experiment: tuple(each) for experiment, each in METHODS.items()}, "cost": quality_cost.METHODS}
SETS = {"simulated": SIMULATED, "real": REAL, "cost": quality_cost.SETS}


@dataclass(frozen=True)
class Task:
    """One method on one split."""

    set: str
    n: int  # training rows of a simulated problem, 0 for a data set
    junk: int
    rep: int
    method: str

    def split(self) -> Split:
        """The rows."""
        return simulated_split(self.set, self.n, self.rep) if self.n else real_split(self.set, self.junk, self.rep)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and run what it asks for."""
    options = command_line().parse_args(arguments)
    deadline = time.monotonic() + 60.0 * options.minutes
    wanted = list(NAMES) if options.what == "all" else [each for each in NAMES if each == options.what]
    for experiment in wanted:
        if options.again:
            forget_chosen(experiment, options)
        run = quality_cost.run if experiment == "cost" else run_tasks
        run(chosen_tasks(experiment, options), deadline)
    if options.what in ("report", "all"):
        quality_report.print_all()


def command_line() -> argparse.ArgumentParser:
    """Describe the options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="?", default="all", choices=[*NAMES, "report", "all"])
    parser.add_argument("--reps", type=int, help="repetitions, if not those of the report")
    parser.add_argument("--methods", type=among({name for each in NAMES.values() for name in each}), metavar="NAME,...")
    parser.add_argument("--sets", type=among({name for each in SETS.values() for name in each}), metavar="NAME,...")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin nothing new after this time")
    parser.add_argument("--again", action="store_true", help="first forget what is kept of the methods and sets named")
    return parser


def among(allowed: set[str]) -> Callable[[str], list[str]]:
    """Make a reader of comma-separated names that must be among the allowed ones."""

    def names(text: str) -> list[str]:
        chosen = [name for name in text.split(",") if name]
        unknown = [name for name in chosen if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"names must be among {', '.join(sorted(allowed))}, got {', '.join(unknown)}")
        return chosen

    return names


def chosen_tasks(experiment: str, options: argparse.Namespace) -> list[Task]:
    """The tasks that the command line asks for, the most valuable first."""
    reps = REPS[experiment] if options.reps is None else options.reps
    names = [name for name in SETS[experiment] if options.sets is None or name in options.sets]
    methods = [name for name in NAMES[experiment] if options.methods is None or name in options.methods]
    makers = {"simulated": simulated_tasks, "real": real_tasks, "cost": cost_tasks}
    return [task for task in makers[experiment](reps, names, methods) if runs_here(task.method)]


def simulated_tasks(reps: int, names: Sequence[str], methods: Sequence[str]) -> list[Task]:
    """Every repetition of every problem at both sizes."""
    return [Task(name, n, 0, rep, method) for rep in range(reps) for name in names for n in SIZES for method in methods]


def real_tasks(reps: int, names: Sequence[str], methods: Sequence[str]) -> list[Task]:
    """Every repetition of every data set without and with junk; grid searches last, those on large tables at the end."""

    def turn(task: Task) -> tuple[bool, bool, int]:
        return (True, task.set in LARGE, task.junk) if task.method == "rf_grid" else (False, False, 0)

    every = [
        Task(name, 0, junk, rep, method) for rep in range(reps) for name in names for junk in (0, JUNK) for method in methods
    ]
    return sorted(every, key=turn)


def cost_tasks(reps: int, names: Sequence[str], methods: Sequence[str]) -> list[Task]:
    """Every fit to be timed."""
    return [Task(name, 0, 0, rep, method) for name, rep, method in quality_cost.plan(reps, names, methods)]


def forget_chosen(experiment: str, options: argparse.Namespace) -> None:
    """Forget the methods that the command line names, on the sets that it names."""
    if options.methods is None:
        raise SystemExit("--again needs --methods: it removes results")
    for method in options.methods:
        forget(experiment, method, lambda record: options.sets is None or record["set"] in options.sets)


def run_tasks(tasks: Sequence[Task], deadline: float) -> None:
    """Run what is not kept yet, and keep it."""
    experiment = "simulated" if tasks and tasks[0].n else "real"
    for task in pending(experiment, tasks, deadline):
        split = task.split()
        start = time.perf_counter()
        p = METHODS[experiment][task.method](split)
        seconds = time.perf_counter() - start
        append(experiment, vars(task) | scores(p, split) | {"seconds": round(seconds, 3)})


def pending(experiment: str, tasks: Sequence[Task], deadline: float) -> Iterator[Task]:
    """The tasks without a record, until the time is over."""
    kept = load(experiment)
    left = [task for task in tasks if key_of(vars(task)) not in kept]
    say(f"{experiment}: {len(tasks) - len(left)} of {len(tasks)} are kept")
    for number, task in enumerate(left):
        if time.monotonic() > deadline:
            say(f"{experiment}: time is over, {len(left) - number} left")
            return
        if number % 100 == 0:
            say(f"{experiment}: {number} of {len(left)}, next {task}")
        yield task


def scores(p: NDArray[np.float64], split: Split) -> Record:
    """Score probabilities against the truth where it is known, else against the labels."""
    if split.test.p is not None:
        return {"rmse": rounded(rmse(p, split.test.p))}
    y, least = split.test.y, 0.5 / len(split.train.y)
    return {
        "log_loss": rounded(log_loss(y, p, labels=[0, 1])),
        "log_loss_clipped": rounded(log_loss(y, np.clip(p, least, 1.0 - least), labels=[0, 1])),
        "rmse": rounded(rmse(p, y)),
    }


def rmse(p: NDArray[np.float64], target: NDArray[Any]) -> float:
    """Root of the mean squared difference."""
    return float(np.sqrt(np.mean((p - target) ** 2)))


def rounded(score: float) -> float:
    """Six digits after the point are more than the noise needs."""
    return round(float(score), 6)


if __name__ == "__main__":
    main()
