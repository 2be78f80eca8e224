"""Grow the paper's forests with R's randomForest on the rows of the paper's two tables, and compare with our cells.

    python benchmarks/randomforest.py [--sets a,b] [--reps N] > benchmarks/results/randomforest.md

Where a cell is not what somebody else found, the program may differ or the draws. On the same rows only the program can.
Needs Rscript with the package randomForest, the records of `kernelforest paper run` in results/paper, and for spam the
folder KERNELFOREST_DATA.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kernelforest.growing import MAX_FEATURES
from kernelforest.paper.columns import Split
from kernelforest.paper.splits import real_split
from kernelforest.paper.tables_simulated import PRINTED as SIMULATED
from kernelforest.paper.tables_simulated import simulated_split
from tables import heading, say, table

Array = NDArray[np.float64]
RECORDS = Path(__file__).parent / "results" / "paper"
N = 250
REPS = {**dict.fromkeys(SIMULATED, 50), "spam": 10}
TREES = (100, 250, 500)  # the first so many of a forest
# name of a column: mtry, and whether the forest votes; one that does not is a regression with nodes of five
COLUMNS = {
    "class p/3": ("third", 1),
    "reg p/3": ("third", 0),
    "class √p": ("sqrt", 1),
    "reg √p": ("sqrt", 0),
    "bagged": ("all", 1),
}
PROGRAM = """
suppressPackageStartupMessages(library(randomForest))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
forests <- matrix(as.integer(arguments[-(1:2)]), 2)
read_side <- function(name, columns) {
  numbers <- readBin(file.path(folder, name), "numeric", file.size(file.path(folder, name)) / 8, 8L)
  matrix(numbers, ncol = columns + 1, byrow = TRUE)  # what is to be known comes first
}
train <- read_side("train", as.integer(arguments[2]))
test <- read_side("test", as.integer(arguments[2]))
for (k in seq_len(ncol(forests))) {
  set.seed(k)
  if (forests[2, k] == 1) {
    forest <- randomForest(train[, -1], factor(train[, 1]), mtry = forests[1, k], ntree = 500)
  } else {
    forest <- suppressWarnings(randomForest(train[, -1], train[, 1], mtry = forests[1, k], ntree = 500, nodesize = 5))
  }
  opinions <- predict(forest, test[, -1], predict.all = TRUE)$individual
  writeBin(as.numeric(opinions), file.path(folder, paste0("opinions", k)))
}
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for, and print two tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", default=",".join(REPS), metavar="NAME,...")
    parser.add_argument("--reps", type=int, help="repetitions, if not those of the report")
    options = parser.parse_args(arguments)
    names = options.sets.split(",")
    reps = {name: options.reps or REPS[name] for name in names}
    ours = {name: on_record(name, reps[name]) for name in names}
    theirs = {name: np.array([by_r(name, rep) for rep in range(reps[name])]) for name in names}
    print("# The paper's forests, grown by R's randomForest on the same rows: `python benchmarks/randomforest.py`\n")
    print("RMSE × 1000 ± one standard error over training sets; 500 trees where nothing else is said.")
    heading("R's forest minus ours, paired by training set")
    gaps = {name: [shown(gap, "+.1f") for gap in (theirs[name][:, :, -1] - ours[name]).T] for name in names}
    table(["set", "repetitions", *COLUMNS], [[name, reps[name], *gaps[name]] for name in names])
    heading("R's forest by the number of its trees")
    means = [[name, n, *(shown(x, ".1f") for x in theirs[name][:, :, k].T)] for name in names for k, n in enumerate(TREES)]
    table(["set", "trees", *COLUMNS], means)


def split_of(name: str, rep: int) -> tuple[Split, NDArray[np.generic]]:
    """The rows of a table's cell, and what its probabilities are held against."""
    return simulated_split(name, N, rep) if name in SIMULATED else real_split(name, 0, rep)


def on_record(name: str, reps: int) -> Array:
    """The cells of our own run, (repetitions, columns)."""
    lines = (RECORDS / ("simulated-table" if name in SIMULATED else "real-table")).with_suffix(".jsonl").read_text()
    records = {record["rep"]: record["found"]["rmse"][name] for record in map(json.loads, lines.splitlines())}
    return np.array([[records[rep][column] for column in COLUMNS] for rep in range(reps)])


def by_r(name: str, rep: int) -> Array:
    """The same cells by R, (columns, numbers of trees)."""
    say(f"{name} {rep}")
    split, truth = split_of(name, rep)
    width = split.X.shape[1]
    forests = [str(number) for mtry, votes in COLUMNS.values() for number in (MAX_FEATURES[mtry](width), votes)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "forest.R").write_text(PROGRAM)
        np.column_stack((split.y, split.X)).tofile(folder / "train")
        np.column_stack((truth, split.X_test)).tofile(folder / "test")
        subprocess.run(["Rscript", str(folder / "forest.R"), scratch, str(width), *forests], check=True, capture_output=True)
        opinions = [np.fromfile(folder / f"opinions{k + 1}").reshape(TREES[-1], len(truth)) for k in range(len(COLUMNS))]
    return np.array([[np.sqrt(np.mean((each[:n].mean(axis=0) - truth) ** 2)) for n in TREES] for each in opinions])


def shown(numbers: Array, form: str) -> str:
    """Mean and standard error, in thousandths."""
    return f"{1000 * numbers.mean():{form}} ± {1000 * numbers.std(ddof=1) / np.sqrt(len(numbers)):.1f}"


if __name__ == "__main__":
    main()
