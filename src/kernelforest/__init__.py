"""Random forests whose probabilities can be trusted and traced to training rows."""

from kernelforest.estimators import KernelForestClassifier

__version__ = "0.1.0"
__all__ = ["KernelForestClassifier", "__version__"]
