"""A map of the rows enters, a drawing leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelforest.checks import check_whole
from kernelforest.displays.canvas import BESIDE, BLUE, COLOURS, MARKERS, axes, plain, star
from kernelforest.kernel import ForestKernel, read_kernel
from kernelforest.uses import KernelMap, map_rows, prototypes
from kernelforest.uses.mapping import percent


@dataclass(eq=False, repr=False)
class MapDisplay:
    """Training rows, similar ones near each other: colour and shape are the label, stars the prototypes of each class."""

    found: KernelMap
    label: NDArray[Any]  # (n_rows,) class labels, values of a regression, or None
    classes: tuple[Any, ...]  # empty if the labels are numbers, or unknown
    stars: NDArray[np.intp]  # rows that are prototypes
    ax_: Any = field(default=None, init=False)
    figure_: Any = field(default=None, init=False)

    @classmethod
    def from_kernel(cls, kernel: ForestKernel, *, n_prototypes: int = 1) -> Self:
        """Map the training rows in two directions.

        Parameters
        ----------
        kernel : ForestKernel
            For instance `model.kernel_`.
        n_prototypes : int
            Stars of each class; none if zero, or without classes.

        """
        training = read_kernel(kernel)
        check_whole("n_prototypes", n_prototypes, 0)
        classes = () if training.classes is None else tuple(training.classes.tolist())
        rows = prototypes(kernel, n_prototypes).rows if classes and n_prototypes else np.empty(0, np.intp)
        label = np.full(kernel.n_rows, None)
        if training.classes is not None:
            label = training.classes[training.class_numbers]
        elif training.values.shape[1] == 1:
            label = training.values[:, 0]
        return cls(map_rows(kernel, 2), label, classes, rows)

    def frame(self) -> Any:
        """The points, one line per training row."""
        return self.found.frame()

    def plot(self, ax: Any = None, *, legend: bool = True, **kw: Any) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to.
        legend : bool
            Whether to explain colours and shapes, to the right of the axes.
        **kw
            For `ax.scatter` of the rows.

        """
        ax = axes(ax, (7.0, 5.2))
        where = self.found.coordinates
        style: dict[str, Any] = {"s": 14.0, "alpha": 0.7, "linewidths": 0.0} | kw
        if self.classes:
            for number, name in enumerate(self.classes):
                mine = np.array([own == name for own in self.label.tolist()], dtype=bool)
                look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                ax.scatter(*where[mine].T, **({"label": f"y = {plain(name)}"} | look | style))
        elif self.label.dtype == object:
            ax.scatter(*where.T, **({"color": BLUE} | style))
        else:
            drawn = ax.scatter(*where.T, **({"c": self.label, "cmap": "cividis"} | style))
            ax.figure.colorbar(drawn, ax=ax, label="y")
        for number, row in enumerate(self.stars):
            place = self.classes.index(self.label.tolist()[row])
            x, y = where[row].tolist()
            star(ax, x, y, "" if number else "prototype", COLOURS[place % len(COLOURS)])
        for axis, number in ((ax.xaxis, 0), (ax.yaxis, 1)):
            axis.set_label_text(f"direction {number + 1}, {percent(self.found.shares[number])} of squared distances")
        ax.set_title("rows that share leaves are near each other")
        if legend and self.classes:
            ax.legend(**BESIDE)
        self.ax_, self.figure_ = ax, ax.figure
        return self
