"""Compare rules that choose a probability estimate out-of-bag, on the development problems, where the truth is known.

    python benchmarks/rules.py [--reps N] [--rows N]

The default of the package was chosen here. The paper's six problems are not looked at. Every rule sees the same candidates:
best cuts and random cuts, up to seven values of mtry, all leaf sizes, two aggregates, three fills, 250 trees. Test rows ride
along in the training table with weight zero: no tree draws them and no leaf counts them, so every tree speaks about them.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from kernelforest.bandwidth import BandwidthPath, leaf_sizes
from kernelforest.binning import code_table
from kernelforest.calibration import cross_fitted, fit_calibrator
from kernelforest.data import read_schema
from kernelforest.forest import FILLS
from kernelforest.growing import Rules, make_targets
from kernelforest.problems import DEVELOPMENT, Problem
from kernelforest.scoring import losses, mean_and_error
from kernelforest.tuning import NEGLIGIBLE, TEMPER, mtry_candidates
from tables import heading, say, table

Array = NDArray[np.float64]
TREES, N_TEST = 250, 1000
AGGREGATES = ("mean", "proximity")


class Candidates:
    """Out-of-bag and test probabilities of every candidate on one sample, with their losses."""

    def __init__(self, problem: Problem, n: int, rep: int) -> None:
        train, test = problem.sample(n, [1, n, rep]), problem.sample(N_TEST, [2, n, rep])
        self.y, self.truth = train.y, test.p
        self.shares = np.bincount(train.y, minlength=test.p.shape[1]) / n
        schema = read_schema(train.X, list(problem.categorical) or None)
        columns = code_table(schema.matrix(np.vstack([train.X, test.X])), schema.levels, 2)
        labels = np.append(train.y, np.zeros(N_TEST, int)).astype(np.int32)
        targets = make_targets(labels, len(self.shares), np.append(np.ones(n), np.zeros(N_TEST)))
        sizes, self.names, found, spoken = leaf_sizes(n), [], [], []
        for splitter, mtry in product(("best", "extra"), mtry_candidates(train.X.shape[1])):
            limits = Rules(TREES, mtry, 1, splitter).limits(n, train.X.shape[1])
            path = BandwidthPath(columns, targets, limits, rep, np.arange(n + N_TEST), sizes, AGGREGATES)
            path.extend(TREES, 2)
            found.append(path.probabilities(sizes, n + N_TEST).reshape(-1, n + N_TEST, len(self.shares)))
            spoken.append(path._sums(sizes, n + N_TEST).sum(axis=-1).reshape(-1, n + N_TEST))
            self.names += list(product([splitter], [mtry], sizes.tolist(), AGGREGATES, FILLS))
        both = np.concatenate(found)
        self.oob, self.test = both[:, :n], both[:, n:]
        self.mass, self.test_mass = np.split(np.concatenate(spoken), [n], axis=1)  # what stands behind a probability
        self.sizes = np.array([float(name[2]) for name in self.names])
        self.ways = numbers([name[:2] for name in self.names])
        self.kinds = numbers([name[:2] + name[3:] for name in self.names])

    def raw(self, scoring: str) -> Array:
        """Losses of the candidates as they are, (candidates, rows); probabilities kept 1/(2n) away from 0 and 1."""
        floor = 0.5 / len(self.y)
        return np.array([losses(np.clip(p, floor, 1.0 - floor), self.y, scoring) for p in self.oob])

    def sharpened(self) -> Array:
        """Log losses after the package's sigmoid."""
        return np.array([losses(fit_calibrator("sigmoid", p, self.y)(p), self.y, "log_loss") for p in self.oob])

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
        sides = (self.oob, self.mass), (self.test, self.test_mass * self.mass[used].sum() / self.test_mass[used].sum())
        oob, test = (np.einsum("kn,knc->nc", factors * mass[used], proba[used]) for proba, mass in sides)
        return oob / oob.sum(axis=1, keepdims=True), test / test.sum(axis=1, keepdims=True)

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
    tempered = {power: one_kind(c, sharp_loss, power) for power in (1.0, TEMPER, 0.25)}
    heavy = tempered[TEMPER] * (tempered[TEMPER] >= NEGLIGIBLE * tempered[TEMPER].max())
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
        "leaf sizes of one kind blended by likelihood": calibrated(c, *c.blended(tempered[1.0])),
        "by its square root": calibrated(c, *c.blended(tempered[TEMPER])),
        "by its fourth root": calibrated(c, *c.blended(tempered[0.25])),
        "by its square root, light ones left out, always sigmoid": calibrated(c, *c.blended(heavy)),
        "by its square root, light ones left out, sigmoid if it helps (default)": gated(c, *c.blended(heavy)),
        "blend by likelihood, one way to grow": c.calibrated(posterior * way / (posterior * way).sum()),
        "blend by likelihood, all": c.calibrated(posterior / posterior.sum()),
        "least squares with stretch": c.mix(c.test, stretched(c, loss)),
        "least squares with stretch, then sigmoid": c.calibrated(stretched(c, loss)),
    }


def one_kind(c: Candidates, sharp_loss: Array, power: float) -> Array:
    """Weights of leaf sizes, in proportion to leaf size times a power of the likelihood, of the heaviest kind."""
    logs = np.log(c.sizes) - power * len(c.y) * sharp_loss
    weights = np.exp(logs - logs.max())
    weights = weights * (c.kinds == np.bincount(c.kinds, weights).argmax())
    return np.asarray(weights / weights.sum())


def shrunken(c: Candidates) -> Array:
    """Hierarchical shrinkage along the leaf sizes: each step to smaller leaves counts 1 / (1 + decay / size of the larger).

    That is a path kernel, and a combination of leaf sizes with one parameter. The best decay and kind of means are taken.
    """
    tried = []
    is_mean = np.array([name[3] == "mean" for name in c.names])
    for kind in np.unique(c.kinds[is_mean]):
        mine = np.flatnonzero(c.kinds == kind)
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


def gated(c: Candidates, oob: Array, test: Array) -> Array:
    """The same if it helps by cross-fitted scores."""
    crossed = losses(cross_fitted("sigmoid", oob, c.y), c.y, "log_loss").mean()
    return calibrated(c, oob, test) if crossed < losses(oob, c.y, "log_loss").mean() else test


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
    kinds = defaultdict(list)
    for k, name in enumerate(c.names):
        kinds[name[:2] + name[3:]].append(k)
    picked = [min(some, key=lambda k: loss[k]) for some in kinds.values()]
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


def compare(measure: Callable[[Array, Array, int], float], runs: list[tuple[str, Candidates, dict[str, Array]]]) -> None:
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
    runs = []
    for rep, problem in product(range(options.reps), DEVELOPMENT.values()):
        say(f"repetition {rep}: {problem.name}")
        c = Candidates(problem, options.rows, rep)
        found = apply_rules(c)
        c.oob = np.empty(0)  # test probabilities are enough from here on
        runs.append((problem.name, c, found))
    signal = [run for run in runs if run[0] != "nothing"]  # where there is no signal, the oracle is the base rate
    print(
        f"{options.reps} repetitions of {len(DEVELOPMENT)} problems, {options.rows} rows, {N_TEST} test rows, {TREES} trees."
    )
    print("Ratio to the single candidate that is best on the test rows, uncalibrated; below 1 is better than it.")
    heading("RMSE against the true probability")
    compare(rmse, signal)
    heading("Log loss in excess of the truth's")
    compare(divergence, signal)


if __name__ == "__main__":
    main()
