"""The forest as a kernel: similarities, smoother weights, nearest rows, and what the kernel looks like around a point."""

from kernelforest.kernel.explain import Explanation, VotingPoints
from kernelforest.kernel.plans import KINDS
from kernelforest.kernel.product import ForestKernel, read_kernel
from kernelforest.kernel.shape import DerivativeImportance, Derivatives, Faces, LevelSets, Profile
from kernelforest.kernel.training import Correction, Training, training_of

__all__ = [
    "KINDS",
    "Correction",
    "DerivativeImportance",
    "Derivatives",
    "Explanation",
    "Faces",
    "ForestKernel",
    "LevelSets",
    "Profile",
    "Training",
    "VotingPoints",
    "read_kernel",
    "training_of",
]
