"""Every experiment, and with it every claim: the modules of figures and tables enter, one dictionary leaves."""

from __future__ import annotations

from kernelforest.paper import figures_forest, figures_kernel, tables
from kernelforest.paper.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for module in (figures_kernel, figures_forest, tables) for experiment in module.EXPERIMENTS
}


def list_experiments() -> str:
    """Every figure and table with its claims and the time of a full run on two cores."""
    blocks = []
    for experiment in EXPERIMENTS.values():
        reps = f"{experiment.reps} repetition{'s' if experiment.reps > 1 else ''}"
        head = f"{experiment.name}: {experiment.title} ({experiment.where}; {reps}, "
        claims = [f"    {claim.name}: {claim.says}" for claim in experiment.claims]
        blocks.append("\n".join([f"{head}{_time(experiment.minutes)})", *claims]))
    whole = sum(experiment.minutes for experiment in EXPERIMENTS.values())
    return "\n".join([*blocks, f"all: {len(EXPERIMENTS)} experiments, {_time(whole)} on two cores"])


def chosen(names: list[str] | tuple[str, ...]) -> list[Experiment]:
    """The experiments of these names; "all" means all."""
    for name in names:
        if name != "all" and name not in EXPERIMENTS:
            raise ValueError(f"names must be 'all' or of {', '.join(EXPERIMENTS)}; got {name!r}")
    return [experiment for name, experiment in EXPERIMENTS.items() if "all" in names or name in names]


def _time(minutes: float) -> str:
    if minutes >= 1.5:
        return f"about {minutes:.0f} minutes"
    return f"about {60 * minutes:.0f} seconds" if minutes > 1 / 60 else "a second"
