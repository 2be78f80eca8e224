"""The figures of spam with 50 junk predictors: how flat the kernel is along them."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernelforest.datasets import load_dataset
from kernelforest.displays.canvas import BLUE, ORANGE, PALE
from kernelforest.paper.experiment import CORRECTED, FAILS, HOLDS, Claim, Experiment, Finding, Records, mean
from kernelforest.paper.figures_shared import column, grow, rounded

N_JUNK = 50
TRIED = (1, 2, 5, 10, 20, 34, 60, 107)
QUICK_TRIED = (1, 10, 34)
SHOWN = (10, 34)
FEW = 0.1  # of the predictors


def load_spam() -> tuple[Any, Any]:
    """Rows and labels."""
    data = load_dataset("spam")
    return np.asarray(data.X, dtype=np.float64), np.asarray(data.y)


def with_junk(X: Any, rng: np.random.Generator) -> Any:
    """Add permuted copies of randomly chosen columns, each permuted on its own."""
    copied = X[:, rng.choice(X.shape[1], N_JUNK, replace=False)]
    return np.hstack([X, rng.permuted(copied, axis=0)])


def one_spam(rep: int, quick: bool) -> dict[str, Any]:
    """Right derivatives at the mean row, in steps of 0.2 standard deviations, per standard deviation."""
    X, y = load_spam()
    rng = np.random.default_rng([34, rep])
    if quick:
        rows = rng.choice(len(X), 1500, replace=False)
        X, y = X[rows], y[rows]
    X = with_junk(X, rng)
    unit = X.std(axis=0)
    X = X / np.where(unit > 0, unit, 1.0)
    tried = QUICK_TRIED if quick else TRIED
    out: dict[str, Any] = {"mtry": list(tried), "junk": [], "others": [], "junk_raw": []}
    for mtry in tried:
        model = grow(X, y, n_trees=250 if quick else 500, mtry=mtry, seed=rep)
        slope = model.kernel_.derivatives(X.mean(axis=0), h=0.2).right
        raw = np.divide(slope, unit, out=np.zeros_like(slope), where=unit > 0)
        out["junk"].append(float(np.abs(slope[-N_JUNK:]).mean()))
        out["junk_raw"].append(float(np.abs(raw[-N_JUNK:]).mean()))
        out["others"].append(float(np.abs(slope[:-N_JUNK]).mean()))
        if mtry in SHOWN:
            out[f"slopes_{mtry}"] = rounded(slope)
    return out


def judge_junk_falls(records: Records) -> Finding:
    """Whether every step of mtry makes the kernel flatter along junk; derivatives per unit of x, as defined, and per sd."""
    tried = records[0]["mtry"]
    sizes = {"1/sd": column(records, "junk"), "1/unit": column(records, "junk_raw")}
    said = [f"in {unit} {', '.join(str(mean(some)) for some in found.T)}" for unit, found in sizes.items()]
    ours = f"{'; '.join(said)}, at mtry {', '.join(map(str, tried))}"
    rises = {unit: first_rise(found) for unit, found in sizes.items()}
    if all(at is None for at in rises.values()):
        return Finding(HOLDS, ours)
    note = "; ".join(f"in {unit} it rises after mtry {tried[at]}" for unit, at in rises.items() if at is not None)
    late = all(at is None or tried[at] >= max(SHOWN) for at in rises.values())
    return Finding(CORRECTED if late else FAILS, ours, note)


def first_rise(sizes: Any) -> int | None:
    """The first step that goes up by more than two standard errors.

    >>> first_rise(np.array([[3.0, 2.0, 2.5]] * 2)), first_rise(np.array([[3.0, 2.0, 1.0]] * 2))
    (1, None)
    """
    steps = [mean(step) for step in np.diff(sizes, axis=1).T]
    return next((k for k, step in enumerate(steps) if step.value > step.margin), None)


def judge_junk_small(records: Records) -> Finding:
    """Junk against the original predictors at both values of mtry."""
    parts, small = [], []
    for mtry in SHOWN:
        sizes = np.abs(column(records, f"slopes_{mtry}"))
        junk, others = sizes[:, -N_JUNK:].mean(axis=1), sizes[:, :-N_JUNK].mean(axis=1)
        parts.append(f"mtry {mtry}: junk {mean(junk)}, others {mean(others)}")
        small.append(junk.mean() < others.mean() / 3.0)
    return Finding(HOLDS if all(small) else FAILS, "; ".join(parts))


def judge_shrunken(records: Records) -> Finding:
    """Which derivatives grow from mtry 10 to 34, by more than two standard errors."""
    few, many = (np.abs(column(records, f"slopes_{mtry}")) for mtry in SHOWN)
    steps = [mean(step) for step in (many - few).T]
    grown = [j for j, step in enumerate(steps) if step.value > step.margin]
    junk = sum(j >= few.shape[1] - N_JUNK for j in grown)
    smaller = sum(step.value < 0.0 for step in steps)
    largest = [float(sizes.mean(axis=0).max()) for sizes in (few, many)]
    ours = (
        f"{smaller} of {len(steps)} predictors shrink, {len(grown)} grow by more than two standard errors, {junk} of them "
        f"junk; the largest goes from {largest[0]:.2f} to {largest[1]:.2f}"
    )
    return Finding(HOLDS if len(grown) <= FEW * len(steps) and not junk else FAILS, ours)


def draw_spam(records: Records, figure: Any) -> None:
    """Junk directions against mtry, then each variable at two values of mtry."""
    first, *others = figure.subplots(1, 3)
    sizes = column(records, "junk")
    error = sizes.std(axis=0, ddof=1) if len(sizes) > 1 else np.zeros(sizes.shape[1])
    first.errorbar(records[0]["mtry"], sizes.mean(axis=0), error, color=BLUE, marker="o", capsize=3)
    first.set(xlabel="mtry", ylabel="mean |derivative| of junk (1 / sd)", xscale="log")
    first.set_title("50 junk predictors\n(bars: sd over draws of junk)")
    first.set_ylim(bottom=0.0)
    first.set_xticks(records[0]["mtry"], map(str, records[0]["mtry"]), minor=False)
    first.minorticks_off()
    others[1].sharey(others[0])
    for ax, mtry in zip(others, SHOWN, strict=True):
        slopes = column(records, f"slopes_{mtry}").mean(axis=0)
        at, edge = np.arange(1, len(slopes) + 1), len(slopes) - N_JUNK
        ax.plot(at[:edge], slopes[:edge], "o", color=BLUE, markersize=3, label="spam")
        ax.plot(at[edge:], slopes[edge:], "^", color=ORANGE, markersize=3, label="junk")
        ax.axvline(edge + 0.5, color="black", linewidth=0.9, linestyle="--")
        ax.axhline(0.0, color=PALE, linewidth=0.6)
        ax.set(title=f"mtry = {mtry}:\nmean of all draws", xlabel="number of the predictor")
    others[0].set_ylabel("right derivative of K (1 / sd)")
    others[1].legend(frameon=False, loc="lower right")


SPAM = Experiment(
    name="spam-junk",
    title="Derivatives of the kernel on spam with 50 permuted predictors",
    where="Section 5.3, figures spam_deriv and spam",
    claims=(
        Claim(
            "spam-junk-falls",
            "the mean absolute derivative along junk falls with mtry",
            "Section 5.3, figure spam_deriv",
            "decreases",
            "no step of mtry up by more than two standard errors, per unit and per standard deviation of the predictors; "
            "with correction: only after mtry 34, the largest that the paper names",
            judge_junk_falls,
        ),
        Claim(
            "spam-junk-small",
            "derivatives along junk are very small",
            "Section 5.3, figure spam",
            "close to zero",
            "mean size below a third of that of the other predictors",
            judge_junk_small,
        ),
        Claim(
            "spam-shrunken",
            "from mtry 10 to 34 all derivatives but a few large ones shrink",
            "Section 5.3, figure spam",
            "a figure; p/3 = 107/3 is not 34 but 35.7",
            "at most a tenth of the predictors grow, by more than two standard errors, and none of them is junk",
            judge_shrunken,
        ),
    ),
    reps=10,
    quick_reps=2,
    minutes=2.5,
    one=one_spam,
    draw=draw_spam,
    size=(9.0, 3.2),
)
