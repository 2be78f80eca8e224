"""Numbers become pictures: results of a kernel, or of a fitted model, enter; drawings leave.

As in scikit-learn a display holds numbers: `from_kernel`, `from_model` and `from_predictions` compute, `frame` shows them as
a table, `plot` draws and leaves the axes in `ax_` (`axes_`, if there are several) and `figure_`. Only `plot` needs
matplotlib.
"""

from kernelforest.displays.kernel import (
    DerivativeImportanceDisplay,
    DerivativesDisplay,
    LevelSetsDisplay,
    ProfileDisplay,
    VotingPointsDisplay,
)
from kernelforest.displays.maps import MapDisplay
from kernelforest.displays.probabilities import ReliabilityDisplay, SharpnessDisplay
from kernelforest.displays.tuning import BandwidthPathDisplay, SurfaceDisplay

__all__ = [
    "BandwidthPathDisplay",
    "DerivativeImportanceDisplay",
    "DerivativesDisplay",
    "LevelSetsDisplay",
    "MapDisplay",
    "ProfileDisplay",
    "ReliabilityDisplay",
    "SharpnessDisplay",
    "SurfaceDisplay",
    "VotingPointsDisplay",
]
