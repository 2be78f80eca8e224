"""Settings of all tests."""

import os
from pathlib import Path

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # the first example may compile
settings.load_profile("no deadline")

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # or scikit-learn skips its check of array API input

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if SHARED.is_dir():  # the paper's data sets, where they lie beside the repository
    os.environ.setdefault("KERNELFOREST_DATA", str(SHARED))
