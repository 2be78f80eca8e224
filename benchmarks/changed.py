"""The default against itself with one thing changed, on the problems it was made on.

What is compared is how far from the truth they end: by log loss in excess of the truth's, and root mean squared error.
`scoring.py` and `leaves.py` say what is changed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from halving import MORE, N_TEST, SMALL
from kernelforest import KernelForestClassifier
from kernelforest.problems import DEVELOPMENT, Problem
from quality_data import seed_of
from quality_report import mean
from quality_rivals import THREADS
from tables import say, table

Array = NDArray[np.float64]
Fit = Callable[[KernelForestClassifier, Array, NDArray[np.int64]], KernelForestClassifier]
MEASURES = ("log loss in excess of the truth's", "RMSE")
PROBLEMS: Sequence[Problem] = [*DEVELOPMENT.values(), *MORE]


def plain(model: KernelForestClassifier, X: Array, y: NDArray[np.int64]) -> KernelForestClassifier:
    """The default as it is."""
    return model.fit(X, y)


def errors(fit: Fit, experiment: str, problem: Problem, n: int, rep: int) -> tuple[float, float]:
    """Expected log loss minus the truth's, and root mean squared error, of a model that is fitted in some way."""
    seeds = [seed_of(experiment, problem.name, n, rep, what) for what in ("train", "test", "fit")]
    train, test = problem.sample(n, seeds[0]), problem.sample(N_TEST, seeds[1])
    categories = list(problem.categorical) or None
    model = KernelForestClassifier(n_jobs=THREADS, random_state=seeds[2], categorical_features=categories)
    found = np.clip(fit(model, train.X, train.y).predict_proba(test.X), 1e-12, 1.0)
    excess = (test.p * np.log(np.maximum(test.p, 1e-300) / found)).sum(axis=1).mean()
    return float(excess), float(np.sqrt(((found - test.p) ** 2).mean()))


def options_of(
    about: str | None, rows: Sequence[int], reps: int, arguments: Sequence[str], **counts: int
) -> argparse.Namespace:
    """Read the command line; `counts` are further numbers by name."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("--rows", type=lambda text: [int(n) for n in text.split(",")], default=rows)
    parser.add_argument("--reps", type=int, default=reps)
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    return parser.parse_args(arguments)


def compare(
    changed: Mapping[str, Fit], experiment: str, options: argparse.Namespace, problems: Sequence[Problem] = PROBLEMS
) -> None:
    """Print ratios of mean errors to those of the default, geometric means over the problems."""
    warnings.simplefilter("ignore")  # some classes are rare
    lines = []
    for n in options.rows:
        say(f"{n} rows")
        # (the default and its changes, problems, repetitions, measures)
        found = np.array(
            [
                [[errors(fit, experiment, problem, n, rep) for rep in range(options.reps)] for problem in problems]
                for fit in (plain, *changed.values())
            ]
        )
        base, *others = found.mean(axis=2)
        for name, other in zip(changed, others, strict=True):
            for k, measure in enumerate(MEASURES):
                ratios = np.log((other[:, k] + SMALL) / (base[:, k] + SMALL))
                each = mean(ratios.tolist())
                ends = [f"{np.exp(ratios[j]):.2f} ({problems[j].name})" for j in (ratios.argmin(), ratios.argmax())]
                ratio = f"{np.exp(each.value):.3f} ± {np.exp(each.value) * each.error:.3f}"
                lines.append([f"{n:,}", name, measure, ratio, *ends])
    print(f"{len(problems)} problems, {options.reps} repetitions, {N_TEST:,} new rows: geometric means over the problems of")
    print("the ratio of mean errors to the default's, .001 added to both. Above 1 the default is better. ± is one standard")
    print("error over the problems.\n")
    table(["rows", "changed", "error", "ratio", "least", "most"], lines)
