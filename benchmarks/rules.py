"""Compare rules that choose a probability estimate out-of-bag, on development problems.

    python benchmarks/rules.py [--reps N] [--rows N]

The default of the package was chosen here: on simulated problems, where the truth is known, and on the data sets that come
with scikit-learn, which have less noise. The paper's problems and data sets are not looked at. Every rule sees the same
candidates: best cuts and random cuts, up to seven values of mtry, all leaf sizes, two aggregates, three fills, 250 trees.
Test rows ride along in the training table with weight zero: no tree draws them and no leaf counts them, so every tree
speaks about them.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.utils import Bunch

from kernelforest._engine.path import score_candidates
from kernelforest.bandwidth import BandwidthPath, leaf_sizes
from kernelforest.binning import code_table
from kernelforest.calibration import cross_fitted, fit_calibrator
from kernelforest.data import read_schema
from kernelforest.forest import FILLS
from kernelforest.growing import Rules, make_targets
from kernelforest.judging import GRANT, LIGHT, MOST_WAYS, NEGLIGIBLE, TEMPER
from kernelforest.problems import DEVELOPMENT, Problem
from kernelforest.scoring import losses, mean_and_error
from kernelforest.tuning import mtry_candidates
from tables import heading, say, table

Array = NDArray[np.float64]
TREES, N_TEST = 250, 1000
AGGREGATES = ("mean", "proximity")


class Task(NamedTuple):
    """Rows to learn from, and rows to predict with their true probabilities, or with labels as ones and zeros."""

    X: Array
    y: NDArray[np.int64]
    X_test: Array
    truth: Array
    categorical: tuple[int, ...]
    seed: int


def simulated(problem: Problem, n: int, rep: int) -> Task:
    """A sample of a problem."""
    train, test = problem.sample(n, [1, n, rep]), problem.sample(N_TEST, [2, n, rep])
    return Task(train.X, train.y, test.X, test.p, problem.categorical, rep)


def real_tasks(rep: int) -> Iterator[tuple[str, Task]]:
    """Splits of the data sets that come with scikit-learn, small training sets, two classes."""
    digits = load_digits()
    sets = {
        "breast cancer": (*load_breast_cancer(return_X_y=True), 150),
        "3 or 8": (*pair(digits, 3, 8), 160),
        "4 or 9": (*pair(digits, 4, 9), 160),
        "odd digits": (digits.data, digits.target % 2, 400),
        "wine": (load_wine().data, load_wine().target == 1, 120),
        "iris": (*pair(load_iris(), 1, 2), 70),
        "diabetes": (load_diabetes().data, load_diabetes().target > 140, 300),
    }
    for name, (X, y, n) in sets.items():
        order = np.random.default_rng([3, rep]).permutation(len(y))
        train, test = order[:n], order[n : n + N_TEST]
        labels = np.asarray(y).astype(np.int64)
        yield name, Task(X[train], labels[train], X[test], np.eye(2)[labels[test]], (), rep)


def pair(data: Bunch, one: int, other: int) -> tuple[Array, NDArray[np.bool_]]:
    """Rows of two classes."""
    kept = np.isin(data.target, (one, other))
    return data.data[kept], data.target[kept] == other


class Candidates:
    """Out-of-bag and test probabilities of every candidate on one sample, with their losses."""

    def __init__(self, task: Task, largest: int | None = None) -> None:
        self.y, self.truth, n = task.y, task.truth, len(task.y)
        self.shares = np.bincount(task.y, minlength=task.truth.shape[1]) / n
        n_test, n_features = task.X_test.shape
        schema = read_schema(task.X, list(task.categorical) or None)
        columns = code_table(schema.matrix(np.vstack([task.X, task.X_test])), schema.levels, 2)
        labels = np.append(task.y, np.zeros(n_test, int)).astype(np.int32)
        targets = make_targets(labels, len(self.shares), np.append(np.ones(n), np.zeros(n_test)))
        sizes, self.names, found, spoken = leaf_sizes(n), [], [], []
        sizes = sizes if largest is None else sizes[sizes <= largest]
        for splitter, mtry in product(("best", "extra"), mtry_candidates(n_features)):
            limits = Rules(TREES, mtry, 1, splitter).limits(n, n_features)
            path = BandwidthPath(columns, targets, limits, task.seed, np.arange(n + n_test), sizes, AGGREGATES)
            path.extend(TREES, 2)
            spoken.append(path.sums.sum(axis=-1).transpose(2, 3, 1, 0).reshape(-1, n + n_test))
            found.append(path.probabilities(sizes, n + n_test)[0].reshape(-1, n + n_test, len(self.shares)))
            self.names += [(splitter, mtry, size, *kind) for *kind, size in product(AGGREGATES, FILLS, sizes.tolist())]
        both = np.concatenate(found)
        self.oob, self.test = both[:, :n], both[:, n:]
        self.mass, self.test_mass = np.split(np.concatenate(spoken), [n], axis=1)  # what stands behind a probability
        self.sizes = np.array([float(name[2]) for name in self.names])
        self.ways = numbers([name[:2] for name in self.names])
        self.kinds = numbers([name[3:] for name in self.names])
        self.families = numbers([name[:2] + name[3:] for name in self.names])

    def raw(self, scoring: str) -> Array:
        """Losses of the candidates as they are, (candidates, rows); probabilities kept 1/(2n) away from 0 and 1."""
        floor = 0.5 / len(self.y)
        return np.array([losses(np.clip(p, floor, 1.0 - floor), self.y, scoring) for p in self.oob])

    def sharpened(self) -> Array:
        """Log losses after a sigmoid, as the package scores them."""
        n_classes, out = len(self.shares), np.empty(self.oob.shape[:2])
        shares = None if n_classes == 2 else self.shares
        floor = 1.0 / (n_classes * len(self.y) + 1)
        about = self.y.astype(np.int32), np.ones(len(self.y))
        score_candidates(np.ascontiguousarray(self.oob), *about, floor, True, False, shares, out)
        return out

    def calibrated(self, weights: Array) -> Array:
        """Test probabilities of a weighted average of candidates, after a sigmoid fitted out-of-bag."""
        return fit_calibrator("sigmoid", self.mix(self.oob, weights), self.y)(self.mix(self.test, weights))

    def mix(self, proba: Array, weights: Array) -> Array:
        """The base rate plus weighted departures from it, kept within 0 and 1; weights may sum to more than one."""
        mixed = np.clip(self.shares + np.tensordot(weights, proba - self.shares, 1), 0.0, 1.0)
        return mixed / mixed.sum(axis=1, keepdims=True)

    def blended(self, weights: Array) -> tuple[Array, Array]:
        """Out-of-bag and test probabilities of opinions added up, as the package does it for one kind of candidate."""
        used = np.flatnonzero(weights)
        factors = (weights[used] / self.mass[used].mean(axis=1))[:, None]
        out = []
        for proba, mass in ((self.oob, self.mass), (self.test, self.test_mass)):
            sums = np.einsum("kn,knc->nc", factors * mass[used], proba[used])
            total = sums.sum(axis=1, keepdims=True)
            out.append(np.where(total > 0.0, sums / np.where(total > 0.0, total, 1.0), self.shares))
        return out[0], out[1]

    def only(self, chosen: int) -> Array:
        """All the weight on one candidate."""
        return np.eye(len(self.names))[chosen]


def numbers(names: list[tuple[object, ...]]) -> NDArray[np.int64]:
    """Equal names get equal numbers."""
    places = {name: k for k, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names])


def apply_rules(c: Candidates) -> dict[str, Array]:
    """Test probabilities under every rule."""
    n = len(c.y)
    raw, sharp = c.raw("log_loss"), c.sharpened()
    loss, sharp_loss = raw.mean(axis=1), sharp.mean(axis=1)
    penalised = sharp_loss - np.log(c.sizes) / n
    best = c.only(int(penalised.argmin()))
    is_mean, is_best_cut = (np.array([name[k] == word for name in c.names]) for k, word in ((3, "mean"), (0, "best")))
    posterior = np.exp(-n * (penalised - penalised.min()))
    way = c.ways == np.bincount(c.ways, posterior).argmax()
    pure = [k for k, name in enumerate(c.names) if name[0] == "best" and name[2:] == (1, "mean", "inbag")]
    untuned = c.only(min(pure, key=lambda k: abs(c.names[k][1] - np.sqrt(max(name[1] for name in c.names)))))
    noise = min(1.0, sharp_loss.min() / -(c.shares @ np.log(c.shares)))
    granted = sharp_loss - GRANT * noise * np.log(c.sizes) / n
    roots = np.exp(-TEMPER * n * (granted - granted.min()))
    kind = c.kinds == np.bincount(c.kinds, roots).argmax()
    family = c.families == np.bincount(c.families, roots).argmax()
    return {
        "untuned forest": c.mix(c.test, untuned),
        "untuned forest, sigmoid": c.calibrated(untuned),
        "least Brier score": c.mix(c.test, c.only(int(c.raw("brier").mean(axis=1).argmin()))),
        "least log loss": c.mix(c.test, c.only(int(loss.argmin()))),
        "least log loss, then sigmoid": c.calibrated(c.only(int(loss.argmin()))),
        "least log loss after sigmoid": c.calibrated(c.only(int(sharp_loss.argmin()))),
        "one-standard-error rule for that": c.calibrated(c.only(one_error(sharp, c.sizes))),
        "log(leaf size) granted, always sigmoid": c.calibrated(best),
        "the same, mean only": c.calibrated(c.only(int(np.where(is_mean, penalised, np.inf).argmin()))),
        "the same, proximity only": c.calibrated(c.only(int(np.where(is_mean, np.inf, penalised).argmin()))),
        "the same, best cuts only": c.calibrated(c.only(int(np.where(is_best_cut, penalised, np.inf).argmin()))),
        "hierarchical shrinkage, least log loss after sigmoid": c.calibrated(shrunken(c)),
        "all leaf sizes of the best (cuts, mtry, aggregate, fill) blended": calibrated(
            c, *c.blended(heavy(c, roots, family))
        ),
        "all leaf sizes and ways to grow of the best (aggregate, fill) blended": calibrated(c, *c.blended(roots * kind)),
        "the same, three ways, light leaf sizes left out": calibrated(c, *c.blended(heavy(c, roots, kind))),
        "the same, six ways": calibrated(c, *c.blended(heavy(c, roots, kind, 6, 0.03))),
        "the same, sigmoid only if cross-fitted scores get better": gated(c, *c.blended(heavy(c, roots, kind)), 0.0),
        "the same, sigmoid unless they get worse by one standard error (default)": gated(
            c, *c.blended(heavy(c, roots, kind)), 1.0
        ),
        "blend by likelihood, one way to grow": c.calibrated(posterior * way / (posterior * way).sum()),
        "blend by likelihood, all": c.calibrated(posterior / posterior.sum()),
        "least squares with stretch": c.mix(c.test, stretched(c, loss)),
        "least squares with stretch, then sigmoid": c.calibrated(stretched(c, loss)),
    }


def heavy(c: Candidates, weights: Array, some: NDArray[np.bool_], most: int = MOST_WAYS, light: float = LIGHT) -> Array:
    """Weights of the heaviest ways to grow, without light leaf sizes."""
    totals = np.bincount(c.ways, weights * some)
    totals[np.argsort(-totals)[most:]] = 0.0
    out = np.zeros_like(weights)
    for way in np.flatnonzero(totals >= light * totals.sum()):
        mine = np.where((c.ways == way) & some, weights, 0.0)
        kept = np.where(mine < NEGLIGIBLE * mine.max(), 0.0, mine)
        out += kept * totals[way] / kept.sum()
    return out / out.sum()


def shrunken(c: Candidates) -> Array:
    """Hierarchical shrinkage along the leaf sizes: each step to smaller leaves counts 1 / (1 + decay / size of the larger).

    That is a path kernel, and a combination of leaf sizes with one parameter. The best decay and kind of means are taken.
    """
    tried = []
    is_mean = np.array([name[3] == "mean" for name in c.names])
    for family in np.unique(c.families[is_mean]):
        mine = np.flatnonzero(c.families == family)
        for decay in (1.0, 10.0, 100.0):
            weights, steps = np.zeros(len(c.names)), 1.0 / (1.0 + decay / c.sizes[mine])
            weights[mine] = np.append(steps[1:], 1.0) - np.append(0.0, steps[1:])
            tried.append(weights)
    return min(tried, key=lambda weights: score_after_sigmoid(c, weights))


def score_after_sigmoid(c: Candidates, weights: Array) -> float:
    """Log loss of a weighted average of candidates after a sigmoid, out-of-bag."""
    oob = c.mix(c.oob, weights)
    return float(losses(fit_calibrator("sigmoid", oob, c.y)(oob), c.y, "log_loss").mean())


def calibrated(c: Candidates, oob: Array, test: Array) -> Array:
    """Test probabilities after a sigmoid fitted out-of-bag."""
    return fit_calibrator("sigmoid", oob, c.y)(test)


def gated(c: Candidates, oob: Array, test: Array, errors: float) -> Array:
    """The same if cross-fitted scores get worse by less than so many standard errors."""
    change = losses(cross_fitted("sigmoid", oob, c.y), c.y, "log_loss") - losses(oob, c.y, "log_loss")
    mean, error = mean_and_error(change, np.ones(len(c.y)))
    return calibrated(c, oob, test) if mean < errors * error else test


def one_error(rows: Array, sizes: Array) -> int:
    """The largest leaf among candidates within one standard error of the best, and the best of those."""
    means = rows.mean(axis=1)
    best = rows[means.argmin()]
    near = [
        k for k in range(len(rows)) if means[k] - best.mean() <= mean_and_error(rows[k] - best, np.ones(rows.shape[1]))[1]
    ]
    return min(near, key=lambda k: (-sizes[k], means[k]))


def stretched(c: Candidates, loss: Array) -> Array:
    """Non-negative weights by least squares out-of-bag, free to sum to more than one, of the best leaf size of each kind."""
    families = [np.flatnonzero(c.families == family) for family in np.unique(c.families)]
    picked = [min(some, key=lambda k: loss[k]) for some in families]
    A = (c.oob[picked] - c.shares).reshape(len(picked), -1).T
    target = (np.eye(len(c.shares))[c.y] - c.shares).ravel()
    ridge = np.sqrt(1e-3 * len(c.y)) * np.eye(len(picked))
    out = np.zeros(len(c.names))
    out[picked] = nnls(np.vstack([A, ridge]), np.append(target, np.zeros(len(picked))))[0]
    return out


def rmse(p: Array, truth: Array, n: int) -> float:
    """Root mean squared error, of one class if there are two."""
    return float(np.sqrt(((p - truth) ** 2).sum(axis=1).mean() / 2.0))


def divergence(p: Array, truth: Array, n: int) -> float:
    """Mean log loss in excess of that of the truth; probabilities kept 1/(4n) away from 0 and 1."""
    kept = np.clip(p, 0.25 / n, 1.0 - 0.25 / n)
    return float((truth * (np.log(np.maximum(truth, 1e-12)) - np.log(kept))).sum(axis=1).mean())


Run = tuple[str, Candidates, dict[str, Array]]


def compare(measure: Callable[[Array, Array, int], float], runs: list[Run]) -> None:
    """Print geometric means over problems of the ratio to the best single candidate (by test RMSE, as it is)."""
    ratios: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for name, c, found in runs:
        n = len(c.y)
        oracle = c.test[np.argmin([rmse(p, c.truth, n) for p in c.test])]
        for rule, p in found.items():
            ratios[rule][name].append((measure(p, c.truth, n), measure(oracle, c.truth, n)))
    lines = []
    for rule, by_problem in ratios.items():
        logs = np.array([np.log(np.mean([a for a, _ in v]) / np.mean([b for _, b in v])) for v in by_problem.values()])
        worst = list(by_problem)[int(logs.argmax())]
        lines.append([rule, f"{np.exp(logs.mean()):.3f}", f"{np.exp(logs.max()):.2f} ({worst})"])
    table(["rule", "mean ratio", "worst ratio"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--rows", type=int, default=300)
    options = parser.parse_args()
    runs, real = [], []
    for rep in range(options.reps):
        runs += [run(problem.name, simulated(problem, options.rows, rep)) for problem in DEVELOPMENT.values()]
        real += [run(name, task) for name, task in real_tasks(rep)]
    signal = [run for run in runs if run[0] != "nothing"]  # where there is no signal, the oracle is the base rate
    n_problems, n_sets = (len({name for name, _, _ in each}) for each in (signal, real))
    print(f"# Which rule chooses best: `python benchmarks/rules.py --reps {options.reps}`\n")
    print(
        f"{options.reps} repetitions of {n_problems} problems with {options.rows} rows and {N_TEST} test rows, and of "
        f"{n_sets} data sets of scikit-learn; {TREES} trees."
    )
    print("Ratio to the single candidate that is best on the test rows, uncalibrated; below 1 is better than it.")
    heading("Simulated: RMSE against the true probability")
    compare(rmse, signal)
    heading("Simulated: log loss in excess of the truth's")
    compare(divergence, signal)
    heading("Data sets: log loss")
    compare(divergence, real)


def run(name: str, task: Task) -> Run:
    """Test probabilities of one task under every rule."""
    say(f"repetition {task.seed}: {name}")
    c = Candidates(task)
    found = apply_rules(c)
    c.oob = c.mass = c.test_mass = np.empty(0)  # test probabilities are enough from here on
    return name, c, found


if __name__ == "__main__":
    main()
