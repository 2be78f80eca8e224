"""What a kernel is good for besides probabilities: a map of the rows, outliers, prototypes, missing values.

Each begins with a `ForestKernel`, of our forest or of any other, and never holds more than a block of the kernel. All but
prototypes work on new rows, too.
"""

from kernelforest.uses.imputing import impute
from kernelforest.uses.mapping import KernelMap, map_rows
from kernelforest.uses.outlying import Outliers, outliers
from kernelforest.uses.prototypes import Prototypes, prototypes

__all__ = ["KernelMap", "Outliers", "Prototypes", "impute", "map_rows", "outliers", "prototypes"]
