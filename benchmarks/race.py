"""Fit and predict, every library in turn: workloads enter, rows of seconds and ratios leave.

Repetitions are interleaved (A, B, C, A, B, C, ...) so that a slow minute of the machine hits
everyone; the minimum counts.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rivals import OURS, Library
from tables import Cell, heading, say, table
from workloads import Table, Workload

N_QUERIES = 100_000
LONG_PREDICT = 5.0  # seconds in all
PREDICT_TURNS = 9


@dataclass
class Result:
    """What one library did on one workload."""

    seconds: list[float] = field(default_factory=list)
    predict_seconds: list[float] = field(default_factory=list)
    nodes_per_tree: float | None = None
    rmse: float | None = None  # of P(label = 1) against the probability that drew the queries


Race = dict[str, dict[str, Result]]  # workload name -> library name -> result


def run(workloads: Sequence[Workload], libraries: Sequence[Library], quick: bool, parts: frozenset[str]) -> Race:
    """Fit, and where asked predict, every workload with every library."""
    race: Race = {}
    for workload in workloads:
        predicts = "predict" in parts
        if "fit" in parts or predicts:
            repeats = 1 if quick or "fit" not in parts else workload.repeats
            race[workload.name] = run_one(workload, libraries, repeats, predicts)
    return race


def run_one(workload: Workload, libraries: Sequence[Library], repeats: int, predicts: bool) -> dict[str, Result]:
    """Warm up, fit in turn, look at the trees, predict in turn."""
    train = workload.train()
    entrants = [library for library in libraries if train.n_rows <= library.most_rows]
    results = {library.name: Result() for library in entrants}
    for library in entrants:
        library.load(workload, train.head(64))
        library.fit()
        if predicts:
            library.load_queries(train.head(64))
            library.predict()
        library.load(workload, train)
    for turn in range(repeats):
        for library in (each for each in entrants if turn < each.most_repeats):
            gc.collect()
            results[library.name].seconds.append(library.fit())
            say(f"{workload.name} fit {library.name} {results[library.name].seconds[-1]:.3f} s")
    for library in entrants:
        results[library.name].nodes_per_tree = library.nodes_per_tree()
    if predicts:
        predict_in_turn(workload.name, workload.queries(N_QUERIES), entrants, results)
    return results


def predict_in_turn(name: str, queries: Table, libraries: Sequence[Library], results: Mapping[str, Result]) -> None:
    """Predict the same queries with every library, several times over; less often if that takes long."""
    for library in libraries:
        library.load_queries(queries)
    for _ in range(PREDICT_TURNS):
        for library in libraries:
            result = results[library.name]
            if sum(result.predict_seconds) > LONG_PREDICT:
                continue
            seconds, shares = library.predict()
            result.predict_seconds.append(seconds)
            result.rmse = float(np.sqrt(np.mean((shares - queries.truth) ** 2)))
            say(f"{name} predict {library.name} {seconds:.3f} s")


def print_fit(race: Race, names: Sequence[str]) -> None:
    """Print fit seconds, ratios, and the size of the trees."""
    heading("fit: minimum seconds, and rival / kernelforest")
    rows = [ratio_row(name, fastest(results, "seconds"), names) for name, results in race.items()]
    table(ratio_header(names), rows)
    print_geometric_mean(race, "seconds")
    spread = max(
        float(np.median(result.seconds)) / min(result.seconds) for results in race.values() for result in results.values()
    )
    print(f"Noise of this run: the largest median / minimum over repetitions is {spread:.2f}.")
    heading("nodes per tree, leaves included: are the same trees grown?")
    sizes = [[name, *(nodes(results, each) for each in names)] for name, results in race.items()]
    table(["workload", *names], sizes)


def print_predict(race: Race, names: Sequence[str]) -> None:
    """Print predict seconds, ratios, and the distance to the known probability."""
    heading(f"predict_proba on {N_QUERIES:,} rows: minimum seconds, and rival / kernelforest")
    best = {key: fastest(value, "predict_seconds") for key, value in race.items()}
    table(ratio_header(names), [ratio_row(key, value, names) for key, value in best.items()])
    print_geometric_mean(race, "predict_seconds")
    heading("root mean squared distance of predict_proba to the true probability")
    distances: list[list[Cell]] = [
        [key, *(results[each].rmse if each in results else None for each in names)] for key, results in race.items()
    ]
    table(["workload", *names], distances)


def fastest(results: Mapping[str, Result], timing: str) -> dict[str, float]:
    """Keep each library's minimum."""
    return {name: min(getattr(result, timing)) for name, result in results.items()}


def nodes(results: Mapping[str, Result], name: str) -> float | None:
    """Look up a tree size, or nothing where the library did not run."""
    return results[name].nodes_per_tree if name in results else None


def ratio_header(names: Sequence[str]) -> list[str]:
    """Name the columns of `ratio_row`."""
    return [
        "workload",
        *(f"{name} s" for name in names),
        "sklearn/ours",
        "fastest other",
        "other/ours",
    ]


def ratio_row(workload: str, seconds: Mapping[str, float], names: Sequence[str]) -> list[Cell]:
    """Set seconds beside the ratios to scikit-learn and to the fastest other rival."""
    others = {key: value for key, value in seconds.items() if key not in (OURS, "sklearn")}
    other = min(others, key=others.__getitem__) if others else None
    return [
        workload,
        *(seconds.get(name) for name in names),
        ratio(seconds, "sklearn"),
        other,
        ratio(seconds, other),
    ]


def ratio(seconds: Mapping[str, float], rival: str | None) -> float | None:
    """Divide a rival's seconds by ours when both ran."""
    if rival is None or rival not in seconds or OURS not in seconds:
        return None
    return seconds[rival] / seconds[OURS]


def print_geometric_mean(race: Race, timing: str) -> None:
    """Print the geometric mean of scikit-learn / kernelforest."""
    ratios = [ratio(fastest(results, timing), "sklearn") for results in race.values()]
    known = [value for value in ratios if value is not None]
    if known:
        mean = float(np.exp(np.mean(np.log(known))))
        print(f"\nGeometric mean of sklearn / kernelforest over {len(known)} workloads: {mean:.2f}.")
