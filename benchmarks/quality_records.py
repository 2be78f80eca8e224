"""Scores enter and are kept as lines of JSON, one file per experiment and method, so that a run can stop and go on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FOLDER = Path(__file__).resolve().parent / "results" / "quality"
KEY = ("set", "n", "junk", "rep", "method")


def path_of(experiment: str, method: str) -> Path:
    """The file of a method."""
    return FOLDER / f"{experiment}-{method.replace(' ', '-').replace('/', '')}.jsonl"


def key_of(record: Record) -> tuple[Any, ...]:
    """What makes a record one of a kind in its experiment."""
    return tuple(record[name] for name in KEY)


def lines(path: Path) -> Iterator[Record]:
    """Read the whole lines of a file; a line cut short by an interruption is passed over."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def load(experiment: str) -> dict[tuple[Any, ...], Record]:
    """Read every record of an experiment; of records with the same key the last one counts."""
    records = (record for path in sorted(FOLDER.glob(f"{experiment}-*.jsonl")) for record in lines(path))
    return {key_of(record): record for record in records}


def append(experiment: str, record: Record) -> None:
    """Add a record to the file of its method."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = path_of(experiment, record["method"])
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    with path.open("a") as file:
        file.write("\n" * torn + json.dumps(record) + "\n")


def forget(experiment: str, method: str, unwanted: Callable[[Record], bool]) -> None:
    """Remove the unwanted records of a method."""
    path = path_of(experiment, method)
    if path.exists():
        path.write_text("".join(json.dumps(record) + "\n" for record in lines(path) if not unwanted(record)))
