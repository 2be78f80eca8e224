"""Scores and shares: out-of-bag paths enter; how every candidate on them did, and what it counts in a blend, leave.

Candidates are compared by the score their out-of-bag probabilities have once they are calibrated by a sigmoid (of more than
two classes by its slope alone), because that is how they will be used: how far a forest shrinks towards the base rate can be
undone, what its kernel confuses cannot.

Choosing one of a thousand candidates overfits, so several are blended. The weight of a candidate is the square root of its
likelihood times a power of its leaf size: where the data cannot tell, the smoother and smaller forest weighs more. The more
of the labels the features explain, the less is granted to larger leaves: they would have little noise to average out
(benchmarks/grants.py). The aggregate and fill with the largest weight in all are chosen. Of the ways to grow up to three are
used, each with trees in proportion to its weight; of the leaf sizes all but negligible ones, which costs nothing, because
they are the same trees, cut off at different depths. The rule was chosen on `problems.DEVELOPMENT` and on the data sets that
come with scikit-learn (benchmarks/rules.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from kernelforest._engine import path
from kernelforest._engine.layout import Targets
from kernelforest.bandwidth import BandwidthPath
from kernelforest.growing import SPLITTERS
from kernelforest.scoring import Sample, effective_number, errors_of_means, losses
from kernelforest.threads import run

SPLITTER_NAMES = {number: name for name, number in SPLITTERS.items()}
ROWS_PER_TREE = 40  # that are scored before the last round
GRANT = 1.5  # power of the leaf size by which a likelihood is multiplied, where labels are all noise
TEMPER = 0.5  # power of that product in a weight
MOST_WAYS = 3  # to grow, that are blended
LIGHT = 0.1  # one of them with less than this share is left out
NEGLIGIBLE = 0.3  # a leaf size with less than this share of the largest of its way is left out


class Candidate(NamedTuple):
    """One way to estimate, and how it did out-of-bag."""

    splitter: str
    max_features: int
    leaf_size: int
    aggregate: str
    fill: str
    score: float  # mean out-of-bag loss, calibrated if the estimator calibrates; nothing counts as less than half a row
    error: float  # standard error of the difference to the best candidate of its last round, paired by row (or group)
    penalised: float  # score minus what larger leaves are granted
    n_trees: int  # grown before it was decided
    seconds: float  # spent on its trees, shared by all candidates grown in this way
    weight: float = 0.0  # its share in the estimate that was chosen


class Part(NamedTuple):
    """A way to grow trees, and what their opinions count at several leaf sizes."""

    splitter: str
    max_features: int
    share: float  # of the trees
    factors: Mapping[int, float]  # by leaf size, in the same unit for all parts


class Judged(NamedTuple):
    """What is on the path of one way to grow, and how it did."""

    way: BandwidthPath
    kinds: list[tuple[str, str]]  # aggregate and fill
    sizes: NDArray[np.int64]
    losses: NDArray[np.float64]  # (kinds, leaf sizes, rows)
    scores: NDArray[np.float64]  # (kinds, leaf sizes)
    mass: NDArray[np.float64]  # (kinds, leaf sizes) what opinions about a row add up to, on average
    n_rows: int  # that were scored: the first of the sample


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores the candidates on a path."""

    targets: Targets
    sample: Sample  # of rows to score: in random order, because sometimes the first of them do
    fills: tuple[str, ...]
    scoring: str
    calibrated: bool

    def __call__(self, way: BandwidthPath, is_last: bool, threads: int) -> Judged:
        """Score what is on the path of one way to grow; before the last round some rows and every other leaf size do."""
        n_rows = len(self.sample.rows) if is_last else min(ROWS_PER_TREE * way.n_trees, len(self.sample.rows))
        sizes = way.sizes if is_last else way.sizes[::-2][::-1]
        kinds = list(product(way.aggregates, self.fills))
        proba, mass = way.probabilities(sizes, n_rows, self.fills)
        losses = self._losses(proba.reshape(len(kinds), len(sizes), *proba.shape[-2:]), threads)
        weight = self.sample.weight[:n_rows]
        scores = losses @ weight / weight.sum()
        mass = np.maximum(mass.reshape(scores.shape), 1e-12)
        return Judged(way, kinds, sizes, losses, scores, mass, n_rows)

    def effective_rows(self, n_rows: int) -> float:
        """How many independent rows the first rows of the sample amount to: fewer if they are weighted, or in groups."""
        rows, groups = self.sample.rows[:n_rows], self.targets.groups
        labels, members = self.targets.labels[rows], None if groups is None else groups[rows]
        return effective_number(self.sample.weight[:n_rows], labels, members, self._stood_for(n_rows))

    def _stood_for(self, n_rows: int) -> float:
        """How many rows the first rows of the sample stand for."""
        return float(np.count_nonzero(self.targets.weight) * n_rows / len(self.sample.rows))

    def score_of_shares(self, n_rows: int) -> float:
        """The score of the class shares alone, on the first rows of the sample."""
        labels, weight = self.targets.labels[self.sample.rows[:n_rows]], self.sample.weight[:n_rows]
        alike = np.broadcast_to(self.targets.shares, (n_rows, self.targets.n_classes))
        return float(np.average(losses(alike, labels, self.scoring), weights=weight))

    def _losses(self, proba: NDArray[np.float64], threads: int) -> NDArray[np.float64]:
        """The loss of every row, (kinds, leaf sizes, rows)."""
        n_rows = proba.shape[2]
        labels, weight = self.targets.labels[self.sample.rows[:n_rows]], self.sample.weight[:n_rows]
        number = effective_number(weight, labels, most=self._stood_for(n_rows))  # of rows, not of groups, as in calibration
        weight = weight * (number / weight.sum())
        losses = np.empty(proba.shape[:3])
        shares = None if self.targets.n_classes == 2 else self.targets.shares
        floor = 1.0 / (self.targets.n_classes * number + 1)

        def block(kind: int) -> None:
            how = floor, self.calibrated, self.scoring == "brier"
            path.score_candidates(proba[kind], labels, weight, *how, shares, losses[kind])

        run(block, range(len(proba)), threads)
        return losses


@dataclass(frozen=True)
class Weigher:
    """Gives weights to the candidates of one round."""

    n_rows: float
    unit: float  # of the score, in which a log likelihood counts
    grant: float  # for a leaf size that is e times as large, in this unit

    @classmethod
    def of(cls, results: Sequence[Judged], judge: Judge) -> Weigher:
        """The units of a round.

        A log loss is a log likelihood per row, so its unit is one. A Brier score counts by twice the best one, as squared
        errors do by twice their variance. Larger leaves are granted GRANT times the share of noise: the best score over that
        of the class shares alone.
        """
        n_rows, best = results[0].n_rows, min(float(r.scores.min()) for r in results)
        unit = 1.0 if judge.scoring == "log_loss" else 2.0 * best
        noise = min(1.0, best / max(judge.score_of_shares(n_rows), 1e-12))
        return cls(judge.effective_rows(n_rows), max(unit, 1e-12), GRANT * noise)

    def penalised(self, result: Judged) -> NDArray[np.float64]:
        """Scores minus what larger leaves are granted."""
        granted = self.grant * self.unit * np.log(result.sizes) / self.n_rows
        return np.asarray(result.scores - granted)

    def logs(self, result: Judged) -> NDArray[np.float64]:
        """Logarithms of the weights, (kinds, leaf sizes)."""
        return np.asarray(-TEMPER * self.n_rows / self.unit * self.penalised(result))

    def evidence(self, result: Judged) -> NDArray[np.float64]:
        """Logarithm of the weight of all leaf sizes together, (kinds,)."""
        return np.asarray(logsumexp(self.logs(result), axis=1))

    def shares(self, results: Sequence[Judged]) -> list[NDArray[np.float64]]:
        """Shares of all candidates, (kinds, leaf sizes) for each way to grow; zero for most."""
        best = int(logsumexp([self.evidence(r) for r in results], axis=0).argmax())
        logs = [self.logs(r)[best] for r in results]
        weights = [np.exp(mine - max(map(np.max, logs))) for mine in logs]
        totals = np.array([mine.sum() for mine in weights])
        totals[np.argsort(-totals, kind="stable")[MOST_WAYS:]] = 0.0
        totals[totals < LIGHT * totals.sum()] = 0.0
        out = []
        for result, mine, total in zip(results, weights, totals / totals.sum(), strict=True):
            heavy = np.where(mine < NEGLIGIBLE * mine.max(), 0.0, mine)
            share = np.zeros_like(result.scores)
            share[best] = total * heavy / heavy.sum() if total else 0.0
            out.append(share)
        return out

    def part(self, result: Judged, shares: NDArray[np.float64]) -> Part:
        """A way to grow, with what the opinions of its trees must count to have their shares."""
        used = np.nonzero(shares)
        factors = shares[used] / result.mass[used] / shares.sum()
        splitter = SPLITTER_NAMES[result.way.limits.splitter]
        by_size = dict(zip(result.sizes[used[1]].tolist(), factors.tolist(), strict=True))
        return Part(splitter, result.way.limits.mtry, float(shares.sum()), by_size)

    def candidates(self, result: Judged) -> list[Candidate]:
        """As they are shown to users, with what their way to grow has cost so far."""
        way = result.way
        splitter, mtry = SPLITTER_NAMES[way.limits.splitter], way.limits.mtry
        lines = zip(
            product(result.kinds, result.sizes.tolist()), result.scores.flat, self.penalised(result).flat, strict=True
        )
        return [
            Candidate(splitter, mtry, size, *kind, float(score), np.nan, float(penalised), way.n_trees, way.seconds)
            for (kind, size), score, penalised in lines
        ]


def with_errors(
    results: Sequence[Judged], shares: Sequence[NDArray[np.float64]], weigh: Weigher, judge: Judge
) -> list[list[Candidate]]:
    """The candidates of a round, by way to grow, with their shares in it and standard errors of differences to the best."""
    best = int(np.argmax([mine.max() for mine in shares]))
    reference = results[best].losses[np.unravel_index(shares[best].argmax(), shares[best].shape)]
    groups, n_rows = judge.targets.groups, len(reference)
    members = None if groups is None else groups[judge.sample.rows[:n_rows]]
    out = []
    for result, mine in zip(results, shares, strict=True):
        errors = errors_of_means(np.concatenate(result.losses) - reference, judge.sample.weight[:n_rows], members)
        lines = zip(weigh.candidates(result), errors.tolist(), mine.ravel().tolist(), strict=True)
        out.append([c._replace(error=error, weight=share) for c, error, share in lines])
    return out
