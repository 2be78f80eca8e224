"""The simulated table at n = 250, as its numbers demand, and at n = 500, as the text says.

The paper's forests cut halfway between two values. This package cuts at one end of the gap, chosen by a coin, which lowers
the RMSE of the 1d model by about .002. So all columns of the paper but the random one are grown by scikit-learn here.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kernelforest.paper.cells import (
    AGREE,
    PRINTED_REPS,
    Table,
    added_columns,
    against_another_run,
    agree,
    best_column,
    gaps,
    judge_print,
    lines,
    margin,
    outside,
    print_gaps,
    rows_of,
    values,
)
from kernelforest.paper.columns import PAPER_COLUMNS, Array, Split, numbers_only, predictions, scikit_trees, scores, seed_of
from kernelforest.paper.experiment import CORRECTED, FAILS, HOLDS, Claim, Experiment, Finding, Mean, Records, mean
from kernelforest.problems import PAPER

WHERE = "Section 6.2, table synthetic_data"
SIZE, N_TEST = 250, 1000
PRINTED: Table = {
    "circle": (161, 149, 179, 168, 179, 150, 137),
    "1d": (207, 189, 223, 208, 223, 181, 97),
    "1d-sparse": (121, 120, 138, 137, 132, 181, 126),
    "10d": (370, 371, 370, 371, 369, 383, 396),
    "logistic": (162, 151, 177, 168, 184, 136, 115),
    "xor": (215, 197, 229, 213, 229, 193, 136),
}
# another implementation, same reading of the paper
INDEPENDENT: Table = {
    "circle": (163, 150, 178, 168, 178, 150, 138),
    "1d": (208, 190, 224, 210, 224, 185, 103),
    "1d-sparse": (118, 118, 136, 136, 129, 192, 124),
    "10d": (370, 372, 370, 372, 369, 393, 397),
    "logistic": (163, 152, 179, 170, 186, 137, 118),
    "xor": (217, 199, 230, 215, 230, 195, 137),
}
INDEPENDENT_500: Table = {  # class √p and prox
    "circle": (157, 119),
    "1d": (201, 93),
    "1d-sparse": (122, 97),
    "10d": (348, 375),
    "logistic": (157, 103),
    "xor": (205, 116),
}
ONE_FEATURE = ("circle", "1d", "logistic", "xor")  # p is 2 or 3: the root rounded down is one, as is p/3 rounded up
INDEPENDENT_REPS = 50
UNEXPLAINED = ("1d-sparse random", "10d random")
READING = (
    "n = 250 and not 500, 10d with the factor 2, logistic with logit x1 + x2 + x3, and prox counting only rows that are "
    "out-of-bag in a tree. scikit-learn grows all columns of the paper but random: like R it cuts halfway between two "
    "values, this package at one end of the gap, which gives about .002 less in 1d. R's own forests on the same training "
    "sets are within .001 (benchmarks/randomforest.py)"
)


def simulated_split(name: str, n: int, rep: int) -> tuple[Split, Array]:
    """Draw from a model; also the true probabilities of the test rows."""
    where = ("simulated", name, n, rep)
    train = PAPER[name].sample(n, seed_of(*where, "train"))
    test = PAPER[name].sample(N_TEST, seed_of(*where, "test"))
    return numbers_only(train.X, train.y, test.X, seed_of(*where, "fit")), test.p[:, 1]


def _one(n: int, rep: int, quick: bool) -> dict[str, Any]:
    found = {}
    for name in PRINTED:
        split, truth = simulated_split(name, n, rep)
        found[name] = scores(predictions(split, quick, scikit_trees), truth)
    return {"n": n, "rmse": found}


def _cells(records: Records) -> Finding:
    found = [gap for gap in gaps(records, PRINTED, PAPER_COLUMNS, PRINTED_REPS) if gap.cell not in UNEXPLAINED]
    return Finding(CORRECTED if agree(found) else FAILS, print_gaps(found), f"With these corrections: {READING}")


def _unexplained(records: Records) -> Finding:
    found = [gap for gap in gaps(records, PRINTED, PAPER_COLUMNS, PRINTED_REPS) if gap.cell in UNEXPLAINED]
    note = "another implementation found 192 and 393; no reading of completely random was found that gives the print"
    return Finding(FAILS if outside(found) else HOLDS, "; ".join(map(str, found)), note)


def _prox_lowest(records: Records) -> Finding:
    rows = rows_of(records, list(PRINTED))
    lowest = [row for row in rows if best_column(records, row) == "prox"]
    leads = {row: _lead(records, row, "prox") for row in lowest}
    ties = [row for row, lead in leads.items() if not lead.value > lead.margin]
    ours = f"lowest in {len(lowest)} of {len(rows)}: {', '.join(lowest)}"
    if len(lowest) == 4:
        return Finding(HOLDS, ours)
    note = f"in {', '.join(ties)} it is a tie" if ties else ""
    return Finding(CORRECTED if len(lowest) - len(ties) <= 4 <= len(lowest) else FAILS, ours, note)


def _half(records: Records) -> Finding:
    ratios = {row: _ratio(records, row) for row in ("1d", "xor")}
    ours = ", ".join(f"{row}: {ratio.value:.2f} ± {ratio.error:.2f} ({rival})" for row, (ratio, rival) in ratios.items())
    held = [row for row, (ratio, _) in ratios.items() if ratio.value <= 0.6]
    note = f"only in {held[0]}; the paper's own cells give .54 and .70" if len(held) == 1 else ""
    return Finding((FAILS, CORRECTED, HOLDS)[len(held)], f"prox over its nearest competitor: {ours}", note)


def _ratio(records: Records, row: str) -> tuple[Mean, str]:
    others = {column: values(records, row, column) for column in PAPER_COLUMNS if column != "prox"}
    rival = min(others, key=lambda column: float(others[column].mean()))
    return mean(values(records, row, "prox") / others[rival]), rival


def _never_best(records: Records) -> Finding:
    rows = rows_of(records, list(PRINTED))
    wins = [(row, best_column(records, row)) for row in rows if best_column(records, row) in ("bagged", "random")]
    if not wins:
        return Finding(HOLDS, "neither is lowest in any row", "")
    leads = [_lead(records, *win) for win in wins]
    print_lead = "{}: {} is lowest by {:.1f} ± {:.1f}".format
    ours = "; ".join(print_lead(*win, 1000 * m.value, 1000 * m.error) for win, m in zip(wins, leads, strict=True))
    clear = any(m.value > m.margin for m in leads)
    note = "the paper's own row 10d has bagged lowest, .369" + ("" if clear else "; here it is a tie")
    return Finding(FAILS if clear else CORRECTED, ours, note)


def _lead(records: Records, row: str, column: str) -> Mean:
    """How far the next column is behind, paired."""
    behind = [margin(records, row, other, column) for other in PAPER_COLUMNS if other != column]
    return min(behind, key=lambda m: m.value)


def _size(records: Records) -> Finding:
    note = "the printed numbers are those of n = 250; see the table at that size"
    return judge_print(records, PRINTED, "at n = 500", note)


def _against_another_run(records: Records) -> tuple[str, list[str], list[list[str]]]:
    if records[0]["n"] == SIZE:
        found = gaps(records, INDEPENDENT, PAPER_COLUMNS, INDEPENDENT_REPS)
        note = f"{INDEPENDENT_REPS} repetitions; without {' and '.join(UNEXPLAINED)}"
        return against_another_run(records, [gap for gap in found if gap.cell not in UNEXPLAINED], note)
    few = {row: cells for row, cells in INDEPENDENT_500.items() if row in ONE_FEATURE}
    many = {row: cells for row, cells in INDEPENDENT_500.items() if row not in ONE_FEATURE}
    found = gaps(records, few, ("class p/3", "prox"), INDEPENDENT_REPS, least=0.002)
    found += gaps(records, many, ("class √p", "prox"), INDEPENDENT_REPS, least=0.002)
    note = "two columns; the root rounded down for class, up for prox; errors of .002 or more"
    return against_another_run(records, found, note)


def _tables(records: Records) -> list[tuple[str, list[str], list[list[str]]]]:
    n = records[0]["n"]
    table = f"RMSE × 1000 at n = {n}: ours ± standard error (paper)", *lines(records, list(PRINTED), PRINTED)
    compared = [] if len(records) == 1 else [_against_another_run(records)]
    return [table, added_columns(), *compared]


def _shape_claims(n: int) -> tuple[Claim, ...]:
    """What the text says of the order of the columns; it can be asked at both sizes."""
    return (
        Claim(
            f"simulated-{n}-prox-lowest",
            f"RF-prox has the lowest RMSE in four of six models (n = {n})",
            WHERE,
            "circle, 1d, logistic and XOR",
            "lowest mean of the seven columns in exactly four rows; with correction: without ties, within 2 standard errors",
            _prox_lowest,
        ),
        Claim(
            f"simulated-{n}-half",
            f"in XOR and 1d RF-prox has half the RMSE of its nearest competitor (n = {n})",
            WHERE,
            "1d: .097/.181 = .54; XOR: .136/.193 = .70",
            "ratio at most .6 in both; with correction: in one",
            _half,
        ),
        Claim(
            f"simulated-{n}-never-best",
            f"bagged trees and the completely random forest are best in no model (n = {n})",
            WHERE,
            "bagged .369 in 10d is the lowest of its row",
            "neither has the lowest mean; with correction: lowest by less than 2 standard errors",
            _never_best,
        ),
    )


EXPERIMENTS = (
    Experiment(
        name="simulated-table",
        title="Seven methods on six simulated models, n = 250",
        where=WHERE,
        claims=(
            Claim(
                "simulated-250-cells",
                "RMSE of seven methods on six models",
                WHERE,
                "42 printed cells, in brackets in the table",
                f"with correction: {AGREE}, without two of Random",
                _cells,
            ),
            Claim(
                "simulated-250-random",
                "RMSE of the completely random forest on 1d sparse and 10d",
                WHERE,
                ".181 and .383",
                "within 2 combined standard errors of the print",
                _unexplained,
            ),
            *_shape_claims(250),
        ),
        reps=100,  # twice the paper's: the columns of a row share training sets, so that a row strays as a whole
        quick_reps=2,
        minutes=20.0,
        one=partial(_one, 250),
        tables=_tables,
    ),
    Experiment(
        name="simulated-table-500",
        title="Seven methods on six simulated models, n = 500, the size in the text",
        where=WHERE,
        claims=(
            Claim(
                "simulated-500-size",
                "the table was made with training sets of n = 500",
                WHERE,
                "42 printed cells, in brackets in the table",
                AGREE,
                _size,
            ),
            *_shape_claims(500),
        ),
        reps=50,
        quick_reps=2,
        minutes=17.0,
        one=partial(_one, 500),
        tables=_tables,
    ),
)
