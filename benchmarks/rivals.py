"""The libraries in the race, each behind the same five calls.

A `Workload` and its `Table` enter; seconds, probabilities and node counts leave. `load` and
`load_queries` put the table in the form the library likes best and are not timed; `fit` and
`predict` time only what a user calls.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from forms import frame_if_mixed, named_columns, with_ordinal_codes
from workloads import Table, Workload

THREADS = 2
OURS = "kernelforest"


class Library(Protocol):
    """A forest to time: load, fit, look at the trees, load queries, predict."""

    name: str
    note: str
    most_rows: int  # larger tables are not run
    most_repeats: int

    def load(self, workload: Workload, table: Table) -> None:
        """Put the training table in the library's own form."""

    def fit(self) -> float:
        """Fit the forest anew and return the seconds."""

    def nodes_per_tree(self) -> float:
        """Count the nodes of the last fit, leaves included."""

    def load_queries(self, table: Table) -> None:
        """Put the query table in the library's own form."""

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Return seconds and P(label = 1) for every query."""

    def close(self) -> None:
        """Let go of processes and files."""


class KernelForest:
    """Our own forest, fed float32 arrays, or a pandas frame when there are categories."""

    name = OURS
    note = "float32 array; pandas frame with category columns when there are categories"
    most_rows = 10**9
    most_repeats = 99
    model: Any = None

    def load(self, workload: Workload, table: Table) -> None:
        """Build the estimator and its table."""
        from kernelforest import KernelForestClassifier

        self.X, self.y = frame_if_mixed(table), table.labels
        self.blank = KernelForestClassifier.untuned(
            n_estimators=workload.n_trees,
            max_features=workload.mtry,
            leaf_size=1,
            splitter="best",
            n_jobs=THREADS,
            random_state=0,
            categorical_features="from_dtype",
        )

    def fit(self) -> float:
        """Fit a fresh clone."""
        from sklearn.base import clone

        self.model = clone(self.blank)
        start = time.perf_counter()
        self.model.fit(self.X, self.y)
        return time.perf_counter() - start

    def nodes_per_tree(self) -> float:
        """Average the counts the estimator keeps."""
        return float(np.mean(self.model.node_counts_))

    def load_queries(self, table: Table) -> None:
        """Build the query table."""
        self.queries = frame_if_mixed(table)

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Predict the mean of leaf shares, as scikit-learn does."""
        start = time.perf_counter()
        shares = self.model.predict_proba(self.queries, aggregate="mean")
        return time.perf_counter() - start, shares[:, 1]

    def close(self) -> None:
        """Forget the model."""
        self.model = None


class ScikitLearn:
    """RandomForestClassifier on a float32 array; categories as ordinal codes."""

    name = "sklearn"
    note = "float32 array; no native categories, so ordinal codes"
    most_rows = 10**9
    most_repeats = 99
    model: Any = None

    def load(self, workload: Workload, table: Table) -> None:
        """Build the estimator and its array."""
        from sklearn.ensemble import RandomForestClassifier

        self.X, self.y = with_ordinal_codes(table), table.labels
        self.blank = RandomForestClassifier(
            n_estimators=workload.n_trees,
            max_features=workload.mtry,
            n_jobs=THREADS,
            random_state=0,
        )

    def fit(self) -> float:
        """Fit a fresh clone."""
        from sklearn.base import clone

        self.model = clone(self.blank)
        start = time.perf_counter()
        self.model.fit(self.X, self.y)
        return time.perf_counter() - start

    def nodes_per_tree(self) -> float:
        """Average the trees' own counts."""
        return float(np.mean([tree.tree_.node_count for tree in self.model.estimators_]))

    def load_queries(self, table: Table) -> None:
        """Build the query array."""
        self.queries = with_ordinal_codes(table)

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Predict the mean of leaf shares."""
        start = time.perf_counter()
        shares = self.model.predict_proba(self.queries)
        return time.perf_counter() - start, shares[:, 1]

    def close(self) -> None:
        """Forget the model."""
        self.model = None


class Ydf:
    """RandomForestLearner on a dictionary of columns, exact cuts, native categories."""

    name = "ydf"
    note = (
        "dictionary of contiguous columns, converted inside train(); native categories; exact cuts"
        "; its trees of pure leaves have fewer nodes (an entropy criterion would explain most of that)"
    )
    most_rows = 10**9
    most_repeats = 99
    model: Any = None

    def load(self, workload: Workload, table: Table) -> None:
        """Build the learner and its columns."""
        import ydf

        ydf.verbose(0)
        self.data = named_columns(table) | {"label": table.labels}
        features = [ydf.Feature(f"x{j}", ydf.Semantic.NUMERICAL) for j in range(table.numbers.shape[1])]
        features += [
            ydf.Feature(f"c{j}", ydf.Semantic.CATEGORICAL, min_vocab_frequency=1) for j in range(table.levels.shape[1])
        ]
        self.learner = ydf.RandomForestLearner(
            label="label",
            features=features,
            num_trees=workload.n_trees,
            num_candidate_attributes=workload.mtry,
            max_depth=-1,
            min_examples=1,
            winner_take_all=False,
            compute_oob_performances=False,
            num_threads=THREADS,
        )

    def fit(self) -> float:
        """Train once."""
        self.model = None
        start = time.perf_counter()
        self.model = self.learner.train(self.data)
        return time.perf_counter() - start

    def nodes_per_tree(self) -> float:
        """Divide the model's node count by its trees."""
        return float(self.model.num_nodes() / self.model.num_trees())

    def load_queries(self, table: Table) -> None:
        """Build the query columns."""
        self.queries = named_columns(table)

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Predict with the fastest engine the model offers: the slow one if its trees are too large for the others."""
        start = time.perf_counter()
        try:
            shares = self.model.predict(self.queries, num_threads=THREADS)
        except ValueError:
            start = time.perf_counter()
            shares = self.model.predict(self.queries, num_threads=THREADS, use_slow_engine=True)
        return time.perf_counter() - start, np.asarray(shares, dtype=np.float64)

    def close(self) -> None:
        """Forget the model."""
        self.model = None


class LightGbm:
    """LightGBM's rf mode: a few trees are timed and scaled up, because it is slow here."""

    name = "lightgbm"
    note = (
        "not the same forest: bins to 255 values, draws 63.2% of the rows without replacement, "
        "spends mtry on constant columns and stops at zero gain; 10 trees timed once (2 above "
        "5,000 rows) and scaled to all; not run above 100,000 rows"
    )
    most_rows = 100_000
    most_repeats = 1
    model: Any = None

    def load(self, workload: Workload, table: Table) -> None:
        """Write down the parameters and the array."""
        self.table, self.X = table, with_ordinal_codes(table)
        self.n_trees = workload.n_trees
        self.n_timed = min(workload.n_trees, 10 if table.n_rows <= 5_000 else 2)
        self.parameters = {
            "objective": "binary",
            "boosting": "rf",
            "bagging_freq": 1,
            "bagging_fraction": 0.632,
            "feature_fraction_bynode": workload.mtry / table.n_features,
            "num_leaves": min(table.n_rows, 131_072),
            "min_data_in_leaf": 1,
            "min_sum_hessian_in_leaf": 0.0,
            "min_data_in_bin": 1,
            "max_bin": 255,
            "feature_pre_filter": False,
            "force_col_wise": True,  # else its first tree times both layouts
            "min_data_per_group": 1,
            "cat_smooth": 0.0,
            "cat_l2": 0.0,
            "histogram_pool_size": 1024,
            "num_threads": THREADS,
            "seed": 1,
            "verbosity": -1,
        }

    def fit(self) -> float:
        """Bin the table, grow a few trees, scale the growing to all trees."""
        import lightgbm

        n_numbers = self.table.numbers.shape[1]
        start = time.perf_counter()
        data = lightgbm.Dataset(
            self.X,
            label=self.table.labels,
            categorical_feature=list(range(n_numbers, self.table.n_features)),
            params=self.parameters,
        ).construct()
        binned = time.perf_counter()
        self.model = lightgbm.train(self.parameters, data, num_boost_round=self.n_timed)
        growing = time.perf_counter() - binned
        return binned - start + growing * self.n_trees / self.n_timed

    def nodes_per_tree(self) -> float:
        """Count leaves and the cuts above them."""
        trees = self.model.dump_model()["tree_info"]
        return float(np.mean([2 * tree["num_leaves"] - 1 for tree in trees]))

    def load_queries(self, table: Table) -> None:
        """Build the query array."""
        self.queries = with_ordinal_codes(table)

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Predict with the timed trees, scale the seconds to all trees."""
        start = time.perf_counter()
        shares = self.model.predict(self.queries, num_threads=THREADS)
        spent = time.perf_counter() - start
        return spent * self.n_trees / self.n_timed, np.asarray(shares, dtype=np.float64)

    def close(self) -> None:
        """Forget the model."""
        self.model = None


class Ranger:
    """R's ranger in a process of its own; R times the call and answers on a pipe."""

    name = "ranger"
    note = (
        "matrix (data frame of factors when there are categories, ordered by class share) already "
        "in R's memory; probability forest; only the call to ranger() is timed, inside R"
    )
    most_rows = 10**9
    most_repeats = 99

    def __init__(self) -> None:
        """Start R and a scratch folder."""
        self.scratch = tempfile.TemporaryDirectory()
        script = str(Path(__file__).with_name("ranger.R"))
        self.process = subprocess.Popen(["Rscript", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command: str) -> float:
        """Send one command and read its number."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        reply = self.process.stdout.readline()
        if not reply:
            raise RuntimeError(f"R ended while answering {command!r}")
        return float(reply)

    def load(self, workload: Workload, table: Table) -> None:
        """Hand the table over through binary files."""
        self.n_trees, self.mtry = workload.n_trees, workload.mtry
        self.ask(f"train {self.written(table)}")

    def fit(self) -> float:
        """Fit once inside R."""
        return self.ask(f"fit {self.n_trees} {self.mtry} {THREADS}")

    def nodes_per_tree(self) -> float:
        """Average the lengths of the trees' arrays."""
        return self.ask("nodes")

    def load_queries(self, table: Table) -> None:
        """Hand the queries over through binary files."""
        self.n_queries = table.n_rows
        self.ask(f"queries {self.written(table)}")

    def predict(self) -> tuple[float, NDArray[np.float64]]:
        """Predict inside R, read the shares back."""
        answer = Path(self.scratch.name, "shares.bin")
        spent = self.ask(f"predict {answer} {THREADS}")
        return spent, np.fromfile(answer, dtype=np.float64)

    def written(self, table: Table) -> str:
        """Write the table column by column; return its folder."""
        folder = Path(self.scratch.name)
        shape = (table.n_rows, table.numbers.shape[1], table.levels.shape[1])
        (folder / "shape.txt").write_text(" ".join(map(str, shape)))
        table.numbers.T.tofile(folder / "numbers.bin")
        table.levels.T.tofile(folder / "levels.bin")
        table.labels.tofile(folder / "labels.bin")
        return str(folder)

    def close(self) -> None:
        """End R and remove the files."""
        self.process.communicate("quit\n")
        self.scratch.cleanup()


LIBRARIES: dict[str, type[Any]] = {
    OURS: KernelForest,
    "sklearn": ScikitLearn,
    "ydf": Ydf,
    "ranger": Ranger,
    "lightgbm": LightGbm,
}
RIVALS = tuple(name for name in LIBRARIES if name != OURS)


def installed(name: str) -> bool:
    """Ask whether a library can be run here."""
    if name != "ranger":
        return importable(name)
    if shutil.which("Rscript") is None:
        return False
    check = ["Rscript", "-e", "quit(status = !requireNamespace('ranger', quietly = TRUE))"]
    return subprocess.run(check, capture_output=True, check=False).returncode == 0


def importable(name: str) -> bool:
    """Try the import."""
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
