"""Experiments become records: each repetition is a line of JSON in a file, so that a run can stop and go on anywhere."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from kernelforest.datasets import DatasetUnavailable
from kernelforest.paper.experiment import Experiment, Records
from kernelforest.paper.ledger import chosen

BAR = 30  # characters
PARTS: dict[str, type | tuple[type, ...]] = {"rep": int, "found": dict, "seconds": (int, float)}  # of a line, as it is read


class ResultsUnusable(RuntimeError):  # noqa: N818 - as DatasetUnavailable
    """A file or the folder of the results cannot be read or written; the message says which, and what to do."""


def run(names: Sequence[str], reps: int | None, quick: bool, out: str | Path, workers: int) -> list[str]:
    """Run experiments, or what is left of them; "all" means all. The names of those without their data come back.

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
        Repetitions at a time, each in a process of its own; -1 for one per core. Results do not depend on it.

    """
    skipped = []
    for experiment in check_request(names, reps, workers):
        try:
            run_experiment(experiment, reps, quick, Path(out), workers)
        except DatasetUnavailable as error:
            skipped.append(experiment.name)
            print(f"\n{experiment.name}: skipped, {error}", file=sys.stderr)
        except KeyboardInterrupt:
            wanted = _wanted(experiment, reps, quick)
            kept = sum(rep < wanted for rep in _lines(records_path(experiment, quick, Path(out))))
            said = f"interrupted: {kept} of {wanted} repetitions are kept; the same command goes on"
            print(f"\n{experiment.name}: {said}", file=sys.stderr)
            raise
    return skipped


def check_request(names: Sequence[str], reps: int | None, workers: int) -> list[Experiment]:
    """The experiments that are asked for; what cannot be done is refused before anything is computed."""
    if reps is not None and reps < 1:
        raise ValueError(f"reps must be an integer >= 1 or None, got {reps}")
    if workers < 1 and workers != -1:
        raise ValueError(f"workers (--threads) must be an integer >= 1, or -1 for one per core, got {workers}")
    return chosen(list(names))


def run_experiment(experiment: Experiment, reps: int | None, quick: bool, out: Path, workers: int = 1) -> None:
    """Run the repetitions that are not on record yet."""
    path = records_path(experiment, quick, out)
    prepare(out)
    wanted = _wanted(experiment, reps, quick)
    there = _lines(path)
    todo = [rep for rep in range(wanted) if rep not in there]
    _drop_torn_line(path)
    start = time.perf_counter()
    _show(experiment.name, wanted - len(todo), wanted, "")
    jobs = (delayed(_repetition)(experiment.one, rep, quick) for rep in todo)
    for done, line in enumerate(Parallel(workers, return_as="generator_unordered")(jobs), 1):
        with usable(path), path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")  # in one piece: whole, or torn and last
        _show(experiment.name, wanted - len(todo) + done, wanted, _left(start, done, len(todo)))
    print(file=sys.stderr)


def _wanted(experiment: Experiment, reps: int | None, quick: bool) -> int:
    return reps or (experiment.quick_reps if quick else experiment.reps)


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
    aside: int = 0  # full repetitions that are not among them


def read_records(experiment: Experiment, out: Path) -> Recorded:
    """Read the records of the full run, or of the quick one if that has more to say.

    The full run is taken if it is complete, or has as many repetitions as the quick one or more: a full run that has just
    begun does not hide a quick one that is done. How many full repetitions are left aside for it is counted.
    """
    full, quick = _lines(records_path(experiment, False, out)), {}
    if len(full) < experiment.reps:
        quick = _lines(records_path(experiment, True, out))
    lines = quick if len(quick) > len(full) else full
    ordered = [lines[rep] for rep in sorted(lines)]
    found, seconds = [line["found"] for line in ordered], sum(line["seconds"] for line in ordered)
    return Recorded(found, True, seconds, len(full)) if lines is quick else Recorded(found, False, seconds)


def prepare(out: Path) -> None:
    """Make the folder of the results, before anything is computed for it."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise ResultsUnusable(f"out must be a folder that can be made and written to, got {str(out)!r}: name another")


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Name the file of the results that the system refuses to read or write."""
    try:
        yield
    except OSError as error:
        raise ResultsUnusable(f"{path} cannot be read or written: {error.strerror or error}") from error


def records_path(experiment: Experiment, quick: bool, out: Path) -> Path:
    """The file with the records of an experiment."""
    return out / f"{experiment.name}{'-quick' if quick else ''}.jsonl"


def _lines(path: Path) -> dict[int, dict[str, Any]]:
    """Lines by repetition; what follows the last line end was torn off by an interruption and is ignored."""
    with usable(path):
        if not path.exists():
            return {}
        *whole, _torn = path.read_bytes().split(b"\n")
    lines = [_line(path, number, text) for number, text in enumerate(whole, 1) if text.strip()]
    return {line["rep"]: line for line in lines}


def _line(path: Path, number: int, text: bytes) -> dict[str, Any]:
    try:
        line = json.loads(text.decode())
    except ValueError:
        line = None
    if not isinstance(line, dict) or not all(isinstance(line.get(part), kind) for part, kind in PARTS.items()):
        raise ResultsUnusable(
            f"{path}, line {number} is no record of a repetition: delete that line, or the file, and run it again"
        )
    return line


def _drop_torn_line(path: Path) -> None:
    with usable(path):
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
