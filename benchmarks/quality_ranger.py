"""R's ranger as a probability forest: a `Split` enters, P(y = 1) of its test rows leaves."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quality_data import Split

TREES = 500
THREADS = 2
PROGRAM = """
suppressPackageStartupMessages(library(ranger))
arguments <- commandArgs(trailingOnly = TRUE)
folder <- arguments[1]
read_side <- function(name) {
  shape <- scan(file.path(folder, paste0(name, ".txt")), quiet = TRUE)
  x <- matrix(readBin(file.path(folder, paste0(name, ".bin")), "numeric", shape[1] * shape[2], 8L), shape[1])
  x <- as.data.frame(x)
  factors <- which(shape[-(1:2)] > 0)
  for (j in factors) x[[j]] <- factor(x[[j]], levels = seq_len(shape[j + 2]) - 1)
  x
}
labels <- factor(readBin(file.path(folder, "y.bin"), "integer", 1e7, 4L), levels = 0:1)
forest <- ranger(
  x = read_side("train"), y = labels, num.trees = as.integer(arguments[2]), probability = TRUE,
  respect.unordered.factors = "order", oob.error = FALSE, num.threads = as.integer(arguments[3]),
  seed = as.integer(arguments[4]), verbose = FALSE
)
shares <- predict(forest, data = read_side("test"), num.threads = as.integer(arguments[3]))$predictions
writeBin(as.numeric(shares[, "1"]), file.path(folder, "shares.bin"))
"""


def ranger_probabilities(split: Split) -> NDArray[np.float64]:
    """Fit and predict in a process of R, with ranger's own defaults for a probability forest."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.joinpath("forest.R").write_text(PROGRAM)
        write_side(folder, "train", split.train.native)
        write_side(folder, "test", split.test.native)
        split.train.y.astype(np.int32).tofile(folder / "y.bin")
        numbers = [str(number) for number in (TREES, THREADS, split.seed)]
        subprocess.run(["Rscript", str(folder / "forest.R"), scratch, *numbers], check=True, capture_output=True)
        return np.fromfile(folder / "shares.bin")


def write_side(folder: Path, name: str, X: Any) -> None:
    """Write the numbers column by column, and the shape with the number of levels of each column (0: a number)."""
    frame = pd.DataFrame(X)
    categories = [isinstance(column.dtype, pd.CategoricalDtype) for _, column in frame.items()]
    codes = {
        label: column.cat.codes if category else column
        for category, (label, column) in zip(categories, frame.items(), strict=True)
    }
    levels = [
        len(column.cat.categories) if category else 0
        for category, (_, column) in zip(categories, frame.items(), strict=True)
    ]
    (folder / f"{name}.txt").write_text(" ".join(map(str, [*frame.shape, *levels])))
    np.ascontiguousarray(pd.DataFrame(codes).to_numpy(dtype=np.float64).T).tofile(folder / f"{name}.bin")
