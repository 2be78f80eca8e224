"""What simpler rules reach on the very draws of quality.py, and one who knows the form of the truth.

    python benchmarks/limits.py [run|report] [--reps N] > benchmarks/results/limits.md

The limits that the default is held to on the paper's six problems came from twelve draws of a prototype, with standard
errors of 2 to 9. Here the rules of that prototype see the draws that the default saw: candidates are best and random cuts,
mtry, leaf sizes up to 80, two aggregates and three fills, 250 trees each. One is chosen by its out-of-bag score, or they are
combined by least squares out-of-bag, with weights that may sum to more than one. Every score is kept in results/quality.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from quality_data import SIMULATED, Split, simulated_split
from quality_records import append, load
from quality_report import ISSUE_LIMITS, Runs, difference, mean, runs
from quality_rivals import OURS
from rules import Candidates, Task, stretched
from tables import heading, say, table

Array = NDArray[np.float64]
LARGEST = 80  # leaf
RULES = ("least brier", "least log loss", "stretch", "best by test")
STEP, LEAST = "step", 5  # rows on both sides of it
STEPS = ("1d", "1d-sparse")  # where the truth is one step along the first feature


def reached(split: Split, seed: int) -> dict[str, float]:
    """Root mean squared errors of the prototype's rules, and of the candidate that the test rows would choose."""
    train, test = split.train, split.test
    task = Task(train.native, train.y, test.native, np.column_stack([1.0 - truth(split), truth(split)]), (), seed)
    c = Candidates(task, LARGEST)
    errors = [rmse(p[:, 1], split) for p in c.test]
    brier, log_loss = (c.raw(name).mean(axis=1) for name in ("brier", "log_loss"))
    combined = rmse(c.mix(c.test, stretched(c, log_loss))[:, 1], split)
    return dict(zip(RULES, (errors[brier.argmin()], errors[log_loss.argmin()], combined, min(errors)), strict=True))


def truth(split: Split) -> Array:
    """True probabilities of the test rows."""
    assert split.test.p is not None
    return split.test.p


def rmse(p: Array, split: Split) -> float:
    """Root mean squared error against the true probability."""
    return float(np.sqrt(np.mean((p - truth(split)) ** 2)))


def one_step(split: Split) -> Array:
    """Test probabilities of the likeliest step along the first feature: its place and both of its levels."""
    x, new = split.train.native[:, 0], split.test.native[:, 0]
    order = np.argsort(x)
    sizes, hits = np.arange(1, len(x)), np.cumsum(split.train.y[order])
    left, right = hits[:-1] / sizes, (hits[-1] - hits[:-1]) / (len(x) - sizes)
    likelihood = sizes * information(left) + (len(x) - sizes) * information(right)
    best = LEAST - 1 + int(likelihood[LEAST - 1 : 1 - LEAST].argmax())
    return np.where(new < x[order][best : best + 2].mean(), left[best], right[best])


def information(p: Array) -> Array:
    """Mean log-likelihood of labels of which a share p are hits."""
    return xlogy(p, p) + xlogy(1.0 - p, 1.0 - p)


def run(reps: int) -> None:
    """Run what is not kept yet."""
    kept = load("limits")
    for rep, n, name in product(range(reps), ISSUE_LIMITS, SIMULATED):
        if (name, n, 0, rep, RULES[-1]) in kept:
            continue
        say(f"repetition {rep}: {name}, {n} rows")
        split = simulated_split(name, n, rep)
        found = {STEP: rmse(one_step(split), split)} if name in STEPS else {}
        for method, score in (found | reached(split, rep)).items():
            append("limits", {"set": name, "n": n, "junk": 0, "rep": rep, "method": method, "rmse": score})


def report() -> None:
    """Print the default beside them, and differences on the same draws."""
    print("# The limits of the six problems, run again: `python benchmarks/limits.py`\n")
    print("RMSE × 1000 against the true probability; ± is one standard error. In brackets: the default minus it on the same")
    print("draws, negative is better. The limits are those of the prototype's own twelve draws.\n")
    print("- `least brier`, `least log loss`: the candidate with the least out-of-bag score; `stretch`: a combination.")
    print("- `best by test`: the candidate that is best on the test rows, which nobody knows.")
    print("- `step`: maximum likelihood of one who knows that there is one step along the first feature, but not where.")
    records = [*load("limits").values(), *(r for r in load("simulated").values() if r["method"] == OURS)]
    for n, limits in ISSUE_LIMITS.items():
        rows = {name: runs((r for r in records if r["set"] == name and r["n"] == n), "rmse", 1000.0) for name in SIMULATED}
        heading(f"n = {n}")
        lines = [[name, len(row[RULES[0]]), limits[name], *cells(row)] for name, row in rows.items() if RULES[0] in row]
        table(["problem", "draws", "limit", OURS, *RULES, STEP], lines)


def cells(row: Mapping[str, Runs]) -> Iterator[str]:
    """Means, and the default minus each of the others."""
    yield mean(row[OURS].values()).written(1)
    for method in (*RULES, STEP):
        gap = difference(row[OURS], row.get(method, {}))
        yield f"{mean(row[method].values()).written(1)} ({gap.written(1, '+')})" if gap else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["run", "report"], default="report")
    parser.add_argument("--reps", type=int, default=100)
    options = parser.parse_args(arguments)
    if options.what == "run":
        run(options.reps)
    report()


if __name__ == "__main__":
    main()
