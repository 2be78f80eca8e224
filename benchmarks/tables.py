"""Numbers enter, Markdown tables leave on standard output; progress goes to standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

Cell = str | float | int | None


def say(text: str) -> None:
    """Report progress where it does not mix with the tables."""
    print(text, file=sys.stderr, flush=True)


def heading(text: str) -> None:
    """Print a section's title."""
    print(f"\n## {text}\n", flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print a Markdown table with aligned columns, the first to the left."""
    cells = [list(header), *([written(cell) for cell in row] for row in rows)]
    widths = [max(len(line[j]) for line in cells) for j in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    for line in [cells[0], rule, *cells[1:]]:
        first, *rest = line
        padded = [first.ljust(widths[0])]
        padded += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("| " + " | ".join(padded) + " |")
    sys.stdout.flush()


def written(cell: Cell) -> str:
    """Write three significant digits; a dash where there is no number."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:#.3g}"
    return str(cell)
