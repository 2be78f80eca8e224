"""Warnings that name the line of the user: several methods lead to most of them, some through others."""

from __future__ import annotations

import sys
import warnings


class TuningWarning(UserWarning):
    """Out-of-bag scores may mislead the choice: few trees, rows or groups, a rare class, or copies of rows."""


def notify(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and blame the first caller outside of this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("kernelforest."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
