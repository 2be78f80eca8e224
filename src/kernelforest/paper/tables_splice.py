"""Error and RMSE of the splice data against mtry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.displays.canvas import BLUE, ORANGE
from kernelforest.estimators import KernelForestClassifier
from kernelforest.paper.cells import Mean, summary
from kernelforest.paper.columns import TREES, rmse
from kernelforest.paper.experiment import FAILS, HOLDS, Claim, Experiment, Finding, Records
from kernelforest.paper.splits import real_split
from kernelforest.scoring import score

WHERE = "Figure 12, Section 5.1"
MTRY = (1, 2, 4, 6, 8, 12, 20, 30, 45, 60, 90, 120, 180)
QUICK_MTRY = (1, 4, 12, 30, 60)
FLAT = 0.01


def _one(rep: int, quick: bool) -> dict[str, Any]:
    split, y = real_split("splice", 0, rep)
    error, distance = [], []
    mtry = QUICK_MTRY if quick else MTRY
    for m in mtry:
        model = KernelForestClassifier.untuned(40 if quick else TREES, max_features=m, random_state=split.seed)
        proba = model.fit(split.X, split.y).predict_proba(split.X_test, "vote", "inbag")
        error.append(round(score(proba, y).error, 6))
        distance.append(rmse(proba[:, 1], y))
    return {"mtry": list(mtry), "error": error, "rmse": distance}


def _curve(records: Records, what: str) -> dict[int, Mean]:
    found: NDArray[np.float64] = np.array([record[what] for record in records])
    return {int(m): summary(found[:, k]) for k, m in enumerate(records[0]["mtry"])}


def _show(curve: dict[int, Mean], places: tuple[int, ...]) -> str:
    return ", ".join(f"{curve[m].mean:.3f} ± {curve[m].error:.3f} at {m}" for m in places if m in curve)


def _flat(records: Records) -> Finding:
    curve = _curve(records, "error")
    above = {m: cell.mean for m, cell in curve.items() if m >= 4}
    spread = max(above.values()) - min(above.values())
    ours = f"error {_show(curve, (1, 2, 4, 8, 30, 60, 180))}; from 4 on it moves by {spread:.3f}"
    late = next(m for m in above if all(value - min(above.values()) <= FLAT for n, value in above.items() if n >= m))
    return Finding(HOLDS if spread <= FLAT else FAILS, ours, "" if spread <= FLAT else f"flat from mtry {late} on")


def _falls(records: Records) -> Finding:
    curve = _curve(records, "rmse")
    best = min(cell.mean for cell in curve.values())
    level = next(m for m, cell in curve.items() if cell.mean <= best + FLAT)
    ours = f"RMSE {_show(curve, (1, 4, 12, 30, 60, 180))}; within {FLAT} of its lowest, {best:.3f}, from mtry {level} on"
    return Finding(HOLDS if 20 <= level <= 45 else FAILS, ours, "" if 20 <= level <= 45 else f"it falls until {level}")


def _price(records: Records) -> Finding:
    curve = _curve(records, "rmse")
    best = min(curve, key=lambda m: curve[m].mean)
    return Finding(HOLDS if curve[4].mean > 1.5 * curve[best].mean else FAILS, f"RMSE {_show(curve, (4, best))}")


def _draw(records: Records, figure: Any) -> None:
    left, right = figure.subplots(1, 2)
    _draw_curve(left, _curve(records, "error"), BLUE, 4)
    _draw_curve(right, _curve(records, "rmse"), ORANGE, 30)
    left.set(ylabel="test error ± 2 standard errors", title="dotted: flat beyond mtry 4, by the paper")
    right.set(ylabel="RMSE to labels ± 2 standard errors", title="dotted: level from mtry 30, by the paper")


def _draw_curve(ax: Any, curve: dict[int, Mean], colour: str, mark: int) -> None:
    bars = [2.0 * cell.error if np.isfinite(cell.error) else 0.0 for cell in curve.values()]
    heights = [cell.mean for cell in curve.values()]
    ax.errorbar(list(curve), heights, yerr=bars, color=colour, marker="o", markersize=4.0, capsize=2.0)
    ax.axvline(mark, color="black", linestyle=":", linewidth=1.0)
    ax.set(xscale="log", xlabel="mtry (of 180 columns)", ylim=(0.0, None))
    ax.title.set_fontsize("medium")
    places = [1, 4, 12, 30, 60, 180]
    ax.set_xticks(places, labels=[str(m) for m in places])
    ax.minorticks_off()


def _tables(records: Records) -> list[tuple[str, list[str], list[list[str]]]]:
    error, distance = _curve(records, "error"), _curve(records, "rmse")
    body = [[str(m), f"{error[m]}", f"{distance[m]}"] for m in error]
    return [("Splice × 1000, ± standard error", ["mtry", "test error", "RMSE"], body)]


EXPERIMENTS = (
    Experiment(
        name="splice",
        title="Splice: error and RMSE against mtry",
        where=WHERE,
        claims=(
            Claim(
                "splice-error",
                "The test error is about the same for all mtry above 4",
                WHERE,
                "a curve",
                f"mean error from mtry 4 on stays within {FLAT}",
                _flat,
            ),
            Claim(
                "splice-rmse",
                "RMSE falls slowly with mtry and is level near 30",
                WHERE,
                "a curve; plateau near 30",
                f"RMSE comes within {FLAT} of its lowest at an mtry from 20 to 45",
                _falls,
            ),
            Claim(
                "splice-price",
                "The mtry that test error suggests is costly in RMSE",
                WHERE,
                ".22 at mtry 4, .1 at best",
                "RMSE at mtry 4 more than 1.5 times the lowest",
                _price,
            ),
        ),
        reps=20,
        quick_reps=2,
        minutes=10.0,
        one=_one,
        draw=_draw,
        size=(8.0, 3.6),
        tables=_tables,
    ),
)
