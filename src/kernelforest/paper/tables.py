"""The experiments behind the paper's tables, and the curves of the splice data that go with them."""

from __future__ import annotations

from kernelforest.paper import tables_real, tables_simulated, tables_splice
from kernelforest.paper.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    *tables_simulated.EXPERIMENTS,
    *tables_real.EXPERIMENTS,
    *tables_splice.EXPERIMENTS,
)
