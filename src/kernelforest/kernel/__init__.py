"""The forest as a kernel: similarities, smoother weights, nearest rows, and what the kernel looks like around a point."""

from kernelforest.kernel.plans import KINDS
from kernelforest.kernel.product import ForestKernel
from kernelforest.kernel.training import Correction, Training, training_of

__all__ = ["KINDS", "Correction", "ForestKernel", "Training", "training_of"]
