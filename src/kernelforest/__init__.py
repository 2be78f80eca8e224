"""Random forests whose probabilities can be trusted and traced to training rows.

Importing this package is quick: what stands on scikit-learn and numba is loaded when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelforest.estimators import KernelForestClassifier
    from kernelforest.kernel import ForestKernel
    from kernelforest.notices import TuningWarning
    from kernelforest.regression import KernelRegression, KernelRegressor

__version__ = "0.1.0"
__all__ = ["ForestKernel", "KernelForestClassifier", "KernelRegression", "KernelRegressor", "TuningWarning", "__version__"]
_HOMES = {
    "ForestKernel": "kernelforest.kernel",
    "KernelForestClassifier": "kernelforest.estimators",
    "KernelRegression": "kernelforest.regression",
    "KernelRegressor": "kernelforest.regression",
    "TuningWarning": "kernelforest.notices",
}


if not TYPE_CHECKING:  # a misspelt name is found by type checkers, too

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module 'kernelforest' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
