"""The data sets of Olson and Wyner (2018): a name enters; a matrix of numbers, labels and where they come from leave.

They are read from the folder that the environment variable KERNELFOREST_DATA names, one CSV file each, and checked against
a checksum; or else fetched from OpenML by scikit-learn, which keeps them in its own folder and checks them against OpenML's
checksum. The numbers of rows and columns are checked in both cases.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml

VARIABLE = "KERNELFOREST_DATA"
_SPLICE = "Towell, Noordewier and Shavlik (1991), Splice-junction Gene Sequences, UCI, doi:10.24432/C5M888"


class DatasetUnavailable(RuntimeError):  # noqa: N818 - it is a state of the world, and not always an error
    """The data set is neither in a folder nor to be had from OpenML now."""


class WrongDataset(DatasetUnavailable, ValueError):  # noqa: N818
    """What is there under the name of the data set is something else."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows, labels, and what the columns mean."""

    name: str
    X: NDArray[np.float64]  # (n_rows, n_features); a level of a category is its place in `levels`, missing is NaN
    y: NDArray[np.str_]  # (n_rows,) labels as the source writes them
    positive: str  # the label whose probability the paper estimates
    feature_names: tuple[str, ...]
    levels: Mapping[int, tuple[str, ...]]  # columns of text and their levels, sorted; codes that are numbers stay numbers
    citation: str

    @property
    def categorical(self) -> tuple[int, ...]:
        """Numbers of the columns that hold places of levels."""
        return tuple(self.levels)


@dataclass(frozen=True)
class _Source:
    """Where a data set is found and what it must look like."""

    sha256: str
    openml: int
    n_features: int
    classes: dict[str, int]  # label -> rows; the first is the positive one
    citation: str
    renamed: dict[str, str] = field(default_factory=dict)  # label on OpenML -> label here
    dropped: str = ""  # label whose rows are left out of what OpenML has


_SOURCES: Mapping[str, _Source] = MappingProxyType(
    {
        "spam": _Source(
            "39905b665fb7671c7bb05058a0e4a0390edb615f881ba15766f1e24e4d7cc0c8",
            44,
            57,
            {"1": 1813, "0": 2788},
            "Hopkins, Reeber, Forman and Suermondt (1999), Spambase, UCI, doi:10.24432/C53G6X",
        ),
        "splice": _Source(
            "6e3a9633ef21bbef45149a3c94b22a7083316506274fe9ec0014fedf9eca9891",
            46,
            60,
            {"EI": 767, "IE": 768, "N": 1655},
            _SPLICE,
        ),
        "splice_ei_n": _Source(
            "fef594be6a75348736592d7ebb91820ddd101b0bc5cc40a8c31457bcb64f0bea",
            46,
            60,
            {"EI": 767, "N": 1655},
            _SPLICE,
            dropped="IE",
        ),
        "tic": _Source(
            "1589c8f60702bc74c06a3bc69830373088b22a8a29d73148205fcc9c35b2f52e",
            50,
            9,
            {"positive": 626, "negative": 332},
            "Aha (1991), Tic-Tac-Toe Endgame, UCI, doi:10.24432/C5688J",
        ),
        "parkinsons": _Source(
            "d9a796f889788616aa281f797042145ba58e6df043f330706d40385574ffe192",
            1488,
            22,
            {"1": 147, "0": 48},
            "Little (2007), Parkinsons, UCI, doi:10.24432/C59C74",
            renamed={"1": "0", "2": "1"},
        ),
        "australian": _Source(
            "ce6423bd9529e5d94878f40b175396027657f9862756b4a7394ecd4ae556529c",
            40981,
            14,
            {"1": 307, "0": 383},
            "Quinlan (1987), Statlog (Australian Credit Approval), UCI, doi:10.24432/C59012",
            renamed={"-1": "0"},
        ),
        "crx": _Source(
            "6de287a6e88765594b78484adaf59169ced46bad947697b84a9cb7379e51b335",
            29,
            15,
            {"+": 307, "-": 383},
            "Quinlan (1987), Credit Approval, UCI, doi:10.24432/C5FS30",
        ),
        "ionosphere": _Source(
            "3400acd5954bddefa2b31d586c9e8f1a4bacb8ead1122eaf243774091d916276",
            59,
            34,
            {"g": 225, "b": 126},
            "Sigillito, Wing, Hutton and Baker (1989), Ionosphere, UCI, doi:10.24432/C5W01B",
        ),
        "voting": _Source(
            "98019ecefd85677895f9c7935353edc1ff262ac19bd90afce63a7414edc881fe",
            56,
            16,
            {"democrat": 267, "republican": 168},
            "Congressional Voting Records (1987), UCI, doi:10.24432/C5C01P",
        ),
    }
)
NAMES = tuple(_SOURCES)


def load_dataset(name: str) -> Dataset:
    """Read one of the paper's data sets from the folder KERNELFOREST_DATA, or from OpenML if it is not set.

    Parameters
    ----------
    name : "spam", "splice", "splice_ei_n", "tic", "parkinsons", "australian", "crx", "ionosphere" or "voting"
        "splice_ei_n" is splice without the class IE, as the paper uses it. "crx" is the parent of "australian".

    """
    if name not in _SOURCES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    source, folder = _SOURCES[name], os.environ.get(VARIABLE)
    names, columns, y = _from_folder(name, source, Path(folder)) if folder else _from_openml(name, source)
    _check_counts(name, source, columns, y)
    levels = {j: _levels(column) for j, column in enumerate(columns) if not _is_numeric(column)}
    X = np.column_stack([_numbers(column, levels.get(j)) for j, column in enumerate(columns)])
    return Dataset(name, X, y, next(iter(source.classes)), names, MappingProxyType(levels), source.citation)


_Table = tuple[tuple[str, ...], list[list[str]], NDArray[np.str_]]  # names, columns of text (missing is empty), labels


def _from_folder(name: str, source: _Source, folder: Path) -> _Table:
    path = folder / f"{name}.csv"
    if not path.is_file():
        raise DatasetUnavailable(f"{VARIABLE} must name a folder with the file {path.name}, got {str(folder)!r} without it")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DatasetUnavailable(f"{path.name} cannot be read: {error.strerror or error}") from error
    found = hashlib.sha256(content).hexdigest()
    if found != source.sha256:
        raise WrongDataset(f"{path.name} must have the sha256 checksum {source.sha256}, got {found}: it is another file")
    header, *rows = csv.reader(content.decode().splitlines())
    *columns, labels = (list(column) for column in zip(*rows, strict=True))
    return tuple(header[:-1]), columns, np.array(labels)


def _from_openml(name: str, source: _Source) -> _Table:
    try:
        bunch = fetch_openml(data_id=source.openml, as_frame=False, parser="liac-arff", n_retries=1)
    except (OSError, ValueError) as error:
        raise DatasetUnavailable(
            f"the data set {name!r} could not be fetched from OpenML (number {source.openml}): {error}. Without a network, "
            f"set the environment variable {VARIABLE} to a folder with the file {name}.csv, sha256 checksum {source.sha256}."
        ) from error
    kept = [j for j, feature in enumerate(bunch.feature_names) if feature.lower() != "instance_name"]
    y = np.array([source.renamed.get(label, label) for label in map(str, bunch.target)])
    rows = y != source.dropped
    columns = [_openml_text(bunch, j, rows) for j in kept]
    return tuple(bunch.feature_names[j] for j in kept), columns, y[rows]


def _openml_text(bunch: Any, j: int, rows: NDArray[np.bool_]) -> list[str]:
    """A column as text: levels come as their places, missing as NaN."""
    levels = (bunch.categories or {}).get(bunch.feature_names[j])
    cells = [float(cell) for cell in bunch.data[rows, j]]
    if levels:
        return ["" if np.isnan(cell) else str(levels[int(cell)]).strip() for cell in cells]
    return ["" if np.isnan(cell) else repr(cell) for cell in cells]


def _check_counts(name: str, source: _Source, columns: Sequence[Sequence[str]], y: NDArray[np.str_]) -> None:
    labels, rows = np.unique(y, return_counts=True)
    classes = dict(zip(labels.tolist(), rows.tolist(), strict=True))
    if len(columns) != source.n_features or classes != source.classes:
        raise WrongDataset(
            f"{name} must have {source.n_features} features and rows per class {source.classes}, "
            f"got {len(columns)} features and {classes}"
        )


def _is_numeric(column: Sequence[str]) -> bool:
    try:
        [float(cell) for cell in column if cell]
    except ValueError:
        return False
    return True


def _levels(column: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(column) - {""}))


def _numbers(column: Sequence[str], levels: tuple[str, ...] | None) -> NDArray[np.float64]:
    value = float if levels is None else levels.index
    return np.array([value(cell) if cell else np.nan for cell in column], dtype=np.float64)
