"""How much memory a request takes, said before it is taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

GROUPS = Path("/sys/fs/cgroup")
# a limit, and what is used of it; on systems with control groups of the second and of the first version
LIMITS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)
UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def sparse_bytes(n_rows: int, n_entries: int, dtype: Any = np.float64) -> int:
    """Size of a sparse kernel: a value and a column for each entry, a start for each row.

    >>> sparse_bytes(n_rows=10, n_entries=100)
    1244
    """
    place = 4 if n_entries < 2**31 else 8
    return n_entries * (int(np.dtype(dtype).itemsize) + place) + (n_rows + 1) * place


def index_bytes(n_members: int, n_leaves: int, weighed: bool) -> int:
    """Size of what every product needs, while it is made: members of each leaf, with their masses if they differ from one.

    >>> index_bytes(n_members=100_000_000, n_leaves=10_000_000, weighed=False)
    640000000
    """
    return n_members * (4 + 8 * weighed) + n_leaves * 24


def available_bytes() -> int | None:
    """Memory that can be had without swapping, on this machine and in its container; None where the system does not tell."""
    known = [room for room in (machine_bytes(), container_bytes()) if room is not None]
    return min(known, default=None)


def machine_bytes() -> int | None:
    """What the system says is available."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)
    except (OSError, ValueError):
        return None


def container_bytes(groups: Path = GROUPS) -> int | None:
    """What is left of a container's limit; None where there is no limit. Files that were read only count as free."""
    for limit, used, files in LIMITS:
        try:
            stat = dict(line.split() for line in (groups / used).with_name("memory.stat").read_text().splitlines())
            left = int((groups / limit).read_text()) - int((groups / used).read_text()) + int(stat[files])
        except (OSError, ValueError, KeyError):  # no such file, or "max"
            continue
        return max(left, 0)
    return None


def check_room(n_bytes: int, what: str, instead: str) -> None:
    """Refuse a request that does not fit, with the numbers and what to ask for instead."""
    free = available_bytes()
    if free is not None and n_bytes > free:
        raise MemoryError(f"{what} would take {in_words(n_bytes)} and {in_words(free)} are free; {instead}")


def in_words(n_bytes: int) -> str:
    """A size in the largest unit that it reaches.

    >>> in_words(28_800_000_000), in_words(1_500_000), in_words(96)
    ('28.8 GB', '1.5 MB', '0.1 kB')
    """
    size, unit = next((pair for pair in UNITS if n_bytes >= pair[0]), UNITS[-1])
    return f"{n_bytes / size:.1f} {unit}"
