"""Experiments become records: each repetition is a line of JSON in a file, so that a run can stop and go on anywhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelforest.datasets import DatasetUnavailable
from kernelforest.paper.experiment import Experiment, Records
from kernelforest.paper.ledger import chosen

BAR = 30  # characters


def run(names: Sequence[str], reps: int | None, quick: bool, out: str | Path, workers: int) -> None:
    """Run experiments, or what is left of them; "all" means all.

    Parameters
    ----------
    names : names of experiments
        As `list_experiments` shows them.
    reps : int or None
        Repetitions; None for as many as each experiment should have.
    quick : bool
        A small version of each, in a file of its own.
    out : folder
        Where the records are kept: NAME.jsonl, or NAME-quick.jsonl.
    workers : int
        Repetitions at a time, each in a process of its own. Results do not depend on it.

    """
    if reps is not None and reps < 1:
        raise ValueError(f"reps must be an integer >= 1 or None, got {reps}")
    for experiment in chosen(list(names)):
        try:
            run_experiment(experiment, reps, quick, Path(out), workers)
        except DatasetUnavailable as error:
            print(f"\n{experiment.name}: skipped, {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print(f"\n{experiment.name}: stopped; the same command goes on where it was", file=sys.stderr)
            raise


def run_experiment(experiment: Experiment, reps: int | None, quick: bool, out: Path, workers: int = 1) -> None:
    """Run the repetitions that are not on record yet."""
    path = records_path(experiment, quick, out)
    path.parent.mkdir(parents=True, exist_ok=True)
    wanted = reps or (experiment.quick_reps if quick else experiment.reps)
    there = _lines(path)
    todo = [rep for rep in range(wanted) if rep not in there]
    _drop_torn_line(path)
    start = time.perf_counter()
    _show(experiment.name, wanted - len(todo), wanted, "")
    jobs = (delayed(_repetition)(experiment.one, rep, quick) for rep in todo)
    for done, line in enumerate(Parallel(workers, return_as="generator_unordered")(jobs), 1):
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")  # in one piece: whole, or torn and last
        _show(experiment.name, wanted - len(todo) + done, wanted, _left(start, done, len(todo)))
    print(file=sys.stderr)


def _repetition(one: Callable[[int, bool], dict[str, Any]], rep: int, quick: bool) -> str:
    """A line of the records."""
    begin = time.process_time()
    found = one(rep, quick)
    seconds = round(time.process_time() - begin, 3)  # of a core; a busy machine does not add to them
    return json.dumps({"rep": rep, "quick": quick, "seconds": seconds, "found": found}, default=_plain)


class Recorded(NamedTuple):
    """What is on record of an experiment."""

    found: Records  # in the order of the repetitions
    quick: bool
    seconds: float  # of one core, all repetitions


def read_records(experiment: Experiment, out: Path) -> Recorded:
    """Read the records of the full run, or of the quick one if there is no other."""
    for quick in (False, True):
        lines = _lines(records_path(experiment, quick, out))
        if lines:
            ordered = [lines[rep] for rep in sorted(lines)]
            return Recorded([line["found"] for line in ordered], quick, sum(line["seconds"] for line in ordered))
    return Recorded([], False, 0.0)


def records_path(experiment: Experiment, quick: bool, out: Path) -> Path:
    """The file with the records of an experiment."""
    return out / f"{experiment.name}{'-quick' if quick else ''}.jsonl"


def _lines(path: Path) -> dict[int, dict[str, Any]]:
    """Lines by repetition; what follows the last line end was torn off by an interruption and is ignored."""
    if not path.exists():
        return {}
    *whole, _torn = path.read_text(encoding="utf-8").split("\n")
    lines = [json.loads(line) for line in whole]
    return {line["rep"]: line for line in lines}


def _drop_torn_line(path: Path) -> None:
    if path.exists():
        content = path.read_bytes()
        kept = content[: content.rfind(b"\n") + 1]
        if len(kept) < len(content):
            path.write_bytes(kept)


def _plain(value: Any) -> Any:
    """What JSON can write in place of numpy's numbers and arrays."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"a repetition must return numbers, text, lists and dictionaries, got {type(value).__name__}")


def _left(start: float, done: int, whole: int) -> str:
    if done == whole:
        return ""
    seconds = (time.perf_counter() - start) / done * (whole - done)
    return f", {int(seconds // 60)}:{int(seconds % 60):02d} left"


def _show(name: str, done: int, whole: int, left: str) -> None:
    bar = "#" * (BAR * done // whole)
    print(f"\r{name:<22} [{bar:<{BAR}}] {done}/{whole}{left:<14}", end="", file=sys.stderr, flush=True)
