"""Splitting 32 rows at a time gives what a loop over rows gives; and so does the whole route on a processor that cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config, njit

from kernelforest import KernelForestClassifier, warming
from kernelforest._engine import lanes, route
from kernelforest._engine.layout import CATEGORICAL, LISTED_LEFT, MISSING_LEFT
from oracle import draw_table

can_pack = pytest.mark.skipif(not lanes.CAN_PACK, reason="this processor, or LLVM, cannot pack rows")
KINDS = ("numeric", "missing", "categorical", "levels-missing")
U = np.uint64


@njit
def listed(at, n, n_spots, rows, stops, order):
    route.list_in_lanes(at, n, n_spots, rows, stops, order)


@njit
def split(column, shift, cut, source, target, start, end):
    return route.split_in_lanes(column, shift, cut, source, target, start, end)


@njit
def split_listed(column, at, flags, sets, table, source, target, start, end):
    return route.split_listed(column, at, flags, sets, table, source, target, start, end)


def draw_segment(rng: np.random.Generator, n_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A segment of rows in the middle of a buffer, where it begins and ends, and a buffer to split it into."""
    source = np.zeros(n_rows + 20 + lanes.LANES, np.uint16)
    source[10 : 10 + n_rows] = rng.permutation(1000)[:n_rows]
    return source, np.array([10, 10 + n_rows], np.uint64), np.full(len(source), 7777, np.uint16)


def check_sides(target: np.ndarray, rows: np.ndarray, is_left: np.ndarray, middle: int) -> None:
    """Rows are on their sides, and nothing was written beside the segment."""
    start, end = 10, 10 + len(rows)
    assert middle == start + is_left.sum()
    assert sorted(target[start:middle]) == sorted(rows[is_left])
    assert sorted(target[middle:end]) == sorted(rows[~is_left])
    assert (target[:start] == 7777).all()
    assert (target[end:] == 7777).all()


@can_pack
@given(st.integers(0, 2**31), st.integers(1, 200), st.integers(1, 8))
@settings(deadline=None, max_examples=60)
def test_rows_are_listed_by_spot(seed, n, n_spots):
    at = np.random.default_rng(seed).integers(0, n_spots, n + lanes.LANES).astype(np.uint16)
    at[n:] = n_spots
    rows = np.arange(n + lanes.LANES).astype(np.uint16)
    stops, order = np.zeros(n_spots, np.uint64), np.full(n + lanes.LANES, 7777, np.uint16)
    listed(at, U(n), n_spots, rows, stops, order)
    assert order[:n].tolist() == np.argsort(at[:n], kind="stable").tolist()
    assert stops.tolist() == np.cumsum(np.bincount(at[:n], minlength=n_spots)).tolist()
    assert (order[n:] == 7777).all()


@can_pack
@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@given(st.integers(0, 2**31), st.integers(1, 200), st.booleans(), st.integers(0, 20))
@settings(deadline=None, max_examples=60)
def test_a_list_is_split_at_a_cut(kind, seed, n_rows, missing_left, cut):
    rng = np.random.default_rng(seed)
    top = np.iinfo(kind).max
    column = rng.choice(np.append(np.arange(20), top), 1000).astype(kind)
    source, (start, end), target = draw_segment(rng, n_rows)
    middle = split(column, U(missing_left), U(cut), source, target, start, end)
    codes = column[source[start:end]]
    check_sides(target, source[start:end], np.where(codes == top, missing_left, codes <= cut), int(middle))


@can_pack
@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
@given(st.integers(0, 2**31), st.integers(1, 200), st.sets(st.integers(0, 65534), max_size=60), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=60)
def test_a_list_is_split_by_levels(kind, seed, n_rows, levels, listed_left, missing_left):
    rng = np.random.default_rng(seed)
    top = np.iinfo(kind).max
    column = rng.choice(np.array([*levels, 5, 6, top]), 1000).astype(kind)
    sets = np.array([9, 9, len(levels), *sorted(levels)], np.uint16)  # the list begins at 2
    flags = np.uint32(CATEGORICAL | LISTED_LEFT * listed_left | MISSING_LEFT * missing_left)
    source, (start, end), target = draw_segment(rng, n_rows)
    table = np.zeros(65536, np.uint8)
    middle = split_listed(column, U(2), flags, sets, table, source, target, start, end)
    codes = column[source[start:end]]
    is_left = np.where(codes == top, missing_left, np.isin(codes, list(levels)) == listed_left)
    check_sides(target, source[start:end], is_left, int(middle))
    assert not table[:-1].any()


def test_a_processor_that_cannot_pack_gets_loops(monkeypatch):
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx2,-avx512vbmi2")
    assert not lanes.can_pack()
    monkeypatch.setattr(config, "CPU_FEATURES", "+avx2,+avx512vbmi2")
    monkeypatch.setattr(config, "DISABLE_JIT", True)
    assert not lanes.can_pack()


def leaves() -> np.ndarray:
    """Where many rows end, in trees over columns of every kind."""
    train, new = (draw_table(seed, n, KINDS, 2, 50) for seed, n in ((1, 300), (2, 5000)))
    model = KernelForestClassifier.untuned(4, random_state=0, categorical_features=train.categorical, n_jobs=1)
    model.fit(train.X, train.y)
    full = KernelForestClassifier.untuned(4, random_state=0, n_jobs=1).fit(train.X[:, :1], train.y)
    return np.hstack([model.apply(new.X), full.apply(new.X[:, :1])])


@pytest.mark.slow
def test_loops_send_rows_to_the_same_leaves(tmp_path: Path) -> None:
    path = tmp_path / "leaves.npy"
    environment = os.environ | {"NUMBA_CPU_FEATURES": "", "NUMBA_CPU_NAME": "generic", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", str(Path(__file__)), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(path), leaves())


if __name__ == "__main__":
    assert not lanes.CAN_PACK
    with np.errstate(over="ignore"):
        warming.grow_in_python()
        np.save(sys.argv[1], leaves())
