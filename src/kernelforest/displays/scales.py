"""Numbers of a feature become places on an axis: levels are named, dates are dates, durations are days."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from textwrap import shorten
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelforest.displays.canvas import plain
from kernelforest.kernel.training import Show

Floats = NDArray[np.float64]
DAY = 86_400e6  # microseconds, the unit of dates in a matrix
_MOST_LEVELS = 24  # named on an axis
_LONG = 20  # letters of a level


@dataclass(frozen=True, eq=False)
class Scale:
    """How the numbers of one feature are drawn.

    >>> Scale("height").place(np.array([1.5])).tolist()
    [1.5]
    """

    name: str
    show: Callable[[Floats], Any] | None = None  # numbers as the user's table has them; None: as they are

    @classmethod
    def of(cls, name: str, show: Show | None, column: int) -> Scale:
        """That of a column of training."""
        return cls(name, None if show is None else lambda numbers: show(column, numbers))

    @property
    def kind(self) -> str:
        """O for levels, M for dates, m for durations, f for numbers."""
        return "f" if self.show is None else str(self.show(np.array([np.nan])).dtype.kind)

    @property
    def zone(self) -> Any:
        """The time zone of dates, or None."""
        return None if self.show is None else getattr(self.show(np.array([np.nan])).dtype, "tz", None)

    @property
    def origin(self) -> float:
        """What is zero in the matrix: days since 1970, or the whole number from which a column of large ones is counted."""
        if self.show is None or self.kind == "O":
            return 0
        zero = self.show(np.zeros(1))
        if self.kind in "mM":
            return float(np.asarray(zero, f"{self.kind}8[s]").astype(np.int64)[0] / 86_400)
        return int(zero[0])

    @property
    def unit(self) -> float:
        """What one step on the axis is in the matrix."""
        return DAY if self.kind in "mM" else 1.0

    def place(self, numbers: Floats) -> Floats:
        """Where numbers are on the axis: dates in days since 1970, as matplotlib counts them."""
        return np.asarray(numbers) / self.unit + (self.origin if self.kind in "mM" else 0)

    def say(self, number: float) -> str:
        """One number in words."""
        if self.kind == "m":
            return f"{number / DAY + self.origin:.4g} days"
        shown: Any = np.array([number]) if self.show is None else self.show(np.array([number]))
        if shown.dtype.kind == "f":
            return f"{number:.4g}"
        if self.kind != "M":
            return f"{shown[0]}"
        wall = shown if self.zone is None else shown.tz_localize(None).to_numpy()
        return str(np.datetime_as_string(wall[0], "auto"))

    def label(self, axis: Any, numbers: Floats) -> None:
        """Name an axis of matplotlib and its ticks, on which these numbers are."""
        origin = f" − {self.origin}" if self.kind == "f" and self.origin else ""
        axis.set_label_text(plain(f"{self.name} (days)" if self.kind == "m" else f"{self.name}{origin}"))
        if self.kind == "M":
            dates: Any = import_module("matplotlib.dates")
            locator = dates.AutoDateLocator(tz=self.zone, maxticks=7)
            axis.set_major_locator(locator)
            axis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=self.zone))
        elif self.kind == "O" and self.show is not None:
            levels = np.unique(numbers[np.isfinite(numbers)])
            some = levels[:: -(-len(levels) // _MOST_LEVELS) or 1]
            names = [shorten(str(level), _LONG, placeholder="...") for level in self.show(some)]
            upright = axis.axis_name == "x" and sum(map(len, names)) > 3 * _LONG
            axis.set_ticks(some, [plain(name) for name in names], **({"rotation": "vertical"} if upright else {}))
