"""Random forests whose probabilities can be trusted and traced to training rows."""

from kernelforest.estimators import KernelForestClassifier
from kernelforest.kernel import ForestKernel

__version__ = "0.1.0"
__all__ = ["ForestKernel", "KernelForestClassifier", "__version__"]
