"""Settings of all tests."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # or scikit-learn skips its check of array API input
