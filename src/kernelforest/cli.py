"""The command line: `kernelforest demo` shows on real data what the package is for, `kernelforest paper` runs the paper."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from kernelforest import __version__
from kernelforest.estimators import KernelForestClassifier
from kernelforest.paper.ledger import list_experiments
from kernelforest.paper.report import report
from kernelforest.paper.run import ResultsUnusable, check_request, run
from kernelforest.scoring import score


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; a reader that has seen enough, like head, ends it quietly, and so does Ctrl-C."""
    try:
        code = _run_command(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to be said at exit
        return 1
    except KeyboardInterrupt:
        return 130  # as shells count: 128 and the number of the signal
    except ResultsUnusable as error:
        print(f"kernelforest: error: {error}", file=sys.stderr)
        return 1
    return code


def _run_command(arguments: Sequence[str] | None) -> int:
    """Do what is asked; the exit code is 1 if something of it was skipped."""
    parser = argparse.ArgumentParser(prog="kernelforest", description="Random forest probabilities you can trust and trace.")
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo", help="fit an embedded data set, compare with scikit-learn, explain one probability")
    _add_paper(commands.add_parser("paper", help="figures, tables and claims of Olson and Wyner (2018)"))
    options = parser.parse_args(arguments)
    if options.command == "demo":
        demo()
    elif options.action == "list":
        print(list_experiments())
    elif options.action == "run":
        try:
            check_request(options.names, options.reps, options.threads)
        except ValueError as error:
            parser.error(str(error))
        return int(bool(run(options.names, options.reps, options.quick, options.out, options.threads)))
    else:
        print("\n".join(str(page) for page in report(options.out)))
    return 0


def _add_paper(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="every figure and table, its claims and its run time")
    running = actions.add_parser("run", help="run experiments; what was run before is kept, an interrupted run goes on")
    running.add_argument("names", nargs="+", metavar="NAME", help="as in `paper list`, or all")
    running.add_argument("--reps", type=int, help="repetitions, if not those of the paper")
    running.add_argument("--quick", action="store_true", help="few repetitions of small forests: seconds, not minutes")
    running.add_argument(
        "--threads", type=int, default=2, help="repetitions run side by side, each in a process of its own; -1: one per core"
    )
    reporting = actions.add_parser("report", help="one page of Markdown and of HTML from what was run")
    for each in (running, reporting):
        each.add_argument("--out", type=Path, default=Path("paper-results"), help="folder of the results")


def demo() -> None:
    """Fit, say what was chosen, score it on held-out rows, and trace one probability to training rows."""
    data = load_breast_cancer()
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.4, random_state=0, stratify=data.target)
    print(f"Breast cancer (scikit-learn's copy): {len(X)} rows to train on, {len(X_test)} held out, {X.shape[1]} columns.")
    print(f"What is the probability that a tumour is {data.target_names[1]}?\n")

    model = KernelForestClassifier(n_jobs=2, random_state=0).fit(X, y)
    model.summary()
    print("(smaller scores are better; out-of-bag means: from trees that did not see the row)\n")

    rival = RandomForestClassifier(500, n_jobs=2, random_state=0).fit(X, y)
    print("On the held-out rows, which nothing above has seen:")
    print(f"  kernelforest            {_line(score(model.predict_proba(X_test), y_test, zero=0.5 / len(X)))}")
    print(f"  scikit-learn, untuned   {_line(score(rival.predict_proba(X_test), y_test, zero=0.5 / len(X)))}")
    print("(an exact zero counts as half a row, or a single one could decide the log loss)\n")

    p = model.predict_proba(X_test)[:, 1]
    doubtful = X_test[[np.abs(p - 0.5).argmin()]]
    print(f"The most doubtful of them, explained (class 1, positive, is {data.target_names[1]}):")
    explain(model, doubtful, [str(name) for name in data.feature_names])


def explain(model: KernelForestClassifier, x0: np.ndarray, names: Sequence[str]) -> None:
    """Print where a probability comes from, with the columns' names and the heaviest training rows."""
    sentence = str(model.kernel_.explain(x0))
    print("  " + re.sub(r"\bx(\d+)\b", lambda found: names[int(found[1])], sentence) + ".")
    print("  That is: before calibration it is a weighted average of training labels, as good as one of that many equal")
    print("  neighbours; moving in those columns changes soonest which training rows are asked.")
    points = model.kernel_.voting_points(x0)
    print("  The five heaviest training rows:")
    print("    row   weight   shares a leaf in   class")
    for row, weight, share, label in list(zip(points.rows, points.weight, points.share, points.label, strict=True))[:5]:
        print(f"    {row:<5d} {weight:.4f}   {share:>6.1%} of trees    {label}")


def _line(scores: tuple[float, float, float]) -> str:
    return "log loss {:.4f}   Brier {:.4f}   error {:.4f}".format(*scores)
