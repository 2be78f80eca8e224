"""Work enters; results leave, in order, however many threads there are to do it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from numbers import Integral
from threading import get_ident, local
from typing import Any, TypeVar

import numpy as np
from joblib import effective_n_jobs

from kernelforest.compiling import announced_compiling

T = TypeVar("T")
R = TypeVar("R")


def read_threads(n_jobs: Any) -> int:
    """How many threads `n_jobs` asks for, counted as in scikit-learn: None is one, and -1 all of them."""
    if n_jobs is not None and not isinstance(n_jobs, Integral):
        raise TypeError(f"n_jobs must be an integer or None, got {n_jobs!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must be None or an integer other than 0, got 0")
    return int(effective_n_jobs(n_jobs))


def in_threads(work: Callable[[T], R], items: Sequence[T], threads: int) -> Iterator[R]:
    """Map work over items on threads, results in order; on one thread without a pool."""

    def wrapping(item: T) -> R:
        with np.errstate(over="ignore"):  # keys and unsigned positions wrap around on purpose; seen without the JIT only
            return work(item)

    if threads == 1 or len(items) < 2:
        yield from map(wrapping, items)
    else:
        yield from _pool(threads, _here.depth, get_ident() if _here.depth else 0).map(wrapping, items)


def run(work: Callable[[T], Any], items: Sequence[T], threads: int) -> None:
    """Do compiled work on items, on threads; say so if that means compiling."""
    with announced_compiling():
        for _ in in_threads(work, items, threads):
            pass


def blocks_of(n: int, size: int) -> list[slice]:
    """Cut 0 .. n-1 into blocks of this size; the last may be smaller.

    >>> blocks_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


class _Here(local):
    """How deeply the work of this thread is nested in that of others."""

    depth = 0


_here = _Here()


@lru_cache
def _pool(threads: int, depth: int, owner: int) -> ThreadPoolExecutor:
    """Threads that wait for work: starting them anew a hundred times in a fit would take longer than some of the work.

    Work that hands out work has another pool than what it waits for, or all threads could wait for each other; and each
    thread of a pool that does has one of its own, or they would share the threads of one.
    """
    return ThreadPoolExecutor(threads, "kernelforest", initializer=setattr, initargs=(_here, "depth", depth + 1))


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child process has none of the threads
