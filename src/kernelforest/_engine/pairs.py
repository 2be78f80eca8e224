"""Rows of kernels: which training rows share leaves with a query, and how much that counts.

A kernel stays a product of two sparse incidence matrices, rows by leaves. The right one is stored by leaf:

    starts   [ 0 3 5 ... ]           members of leaf l: members[starts[l] : starts[l + 1]], ascending
    members  [ 0 4 7 | 1 2 | ... ]
    mass     [ 1 2 1 | 1 3 | ... ]   what each counts there (draws, weights)

A row of the product is summed up in a dense line `acc`; a bitmap notes who was touched, so that the line is read and cleared
in order without looking at all of it. Functions that do not allocate are compiled without reference counting; see grow.py.
This file calls no jitted function of another file.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

U = np.uint64
ONE, ZERO, S6, LOW6 = U(1), U(0), U(6), U(63)
BLOCK = 64  # rows of a column of leaves that are looked at together: their lines stay in fast memory
DE_BRUIJN, S58 = U(0x03F79D71B4CB0A89), U(58)

jit = njit(nogil=True, cache=True, error_model="numpy", _nrt=False)
allocating = njit(nogil=True, cache=True, error_model="numpy")


def _bit_places() -> NDArray[np.uint8]:
    places = np.zeros(64, np.uint8)
    for k in range(64):
        places[(int(DE_BRUIJN) << k & (2**64 - 1)) >> 58] = k
    return places


PLACES = _bit_places()  # where the only set bit of a word is, by its product with the de Bruijn number


class Index(NamedTuple):
    """Training rows by leaf."""

    starts: NDArray[np.int64]  # (n_leaves + 1,)
    members: NDArray[np.uint32]
    mass: NDArray[np.float64]  # empty if every member counts one
    totals: NDArray[np.float64]  # (n_leaves,) mass of each leaf


class Line(NamedTuple):
    """One dense row of a kernel in the making. All zero between rows."""

    acc: NDArray[np.float64]  # (n_rows,)
    touched: NDArray[np.uint64]  # bitmap


@allocating
def index_rows(leaves, n_leaves, trees, counts, weight):
    """Sort rows by leaf. Rows that a tree counts zero times, that weigh nothing, or that are in no leaf (-1), are left out.

    `trees` is the tree of each column of leaves; `counts` is (trees, rows) or None.
    """
    n, n_trees = leaves.shape
    starts = np.zeros(n_leaves + 1, np.int64)
    for t in range(n_trees):
        for i in range(n):
            leaf = leaves[i, t]
            if leaf >= 0 and (counts is None or counts[trees[t], i] > 0) and (weight is None or weight[i] > 0.0):
                starts[leaf + 1] += 1
    for leaf in range(n_leaves):
        starts[leaf + 1] += starts[leaf]
    at = starts[:-1].copy()
    members = np.empty(starts[-1], np.uint32)
    weighed = counts is not None or weight is not None
    mass = np.empty(starts[-1] if weighed else 0)
    totals = np.zeros(n_leaves)
    for t in range(n_trees):
        for i in range(n):
            leaf = leaves[i, t]
            if leaf >= 0 and (counts is None or counts[trees[t], i] > 0) and (weight is None or weight[i] > 0.0):
                members[at[leaf]] = i
                m = 1.0
                if counts is not None:
                    m *= counts[trees[t], i]
                if weight is not None:
                    m *= weight[i]
                if weighed:
                    mass[at[leaf]] = m
                totals[leaf] += m
                at[leaf] += 1
    return Index(starts, members, mass, totals)


@jit
def gather(leaves, factors, index, by_total, line):
    """Add up one row: sum over trees of factor x mass, divided by the mass of the leaf if `by_total`."""
    acc, touched = line.acc, line.touched
    weighed = index.mass.shape[0] > 0
    for t in range(leaves.shape[0]):
        leaf, factor = leaves[t], factors[t]
        if leaf < 0 or factor == 0.0:
            continue
        if by_total:
            if index.totals[leaf] <= 0.0:
                continue
            factor /= index.totals[leaf]
        for k in range(U(index.starts[leaf]), U(index.starts[leaf + 1])):
            j = U(index.members[k])
            acc[j] += factor * index.mass[k] if weighed else factor
            touched[j >> S6] |= ONE << (j & LOW6)


@jit
def pour(line, columns, values, at):
    """Write the line out in order from position `at`, and clear it. Returns where it ends and the sum of the values."""
    total = 0.0
    for w in range(line.touched.shape[0]):
        word = line.touched[w]
        while word != ZERO:
            last = word & (~word + ONE)
            j = (U(w) << S6) + U(PLACES[(last * DE_BRUIJN) >> S58])
            columns[at] = j
            values[at] = line.acc[j]
            total += line.acc[j]
            line.acc[j] = 0.0
            at += 1
            word ^= last
        line.touched[w] = ZERO
    return at, total


@jit
def mark(leaves, factors, index, seen):
    """Mark the training rows that one row touches. Returns how many times it does so, repetitions included."""
    times = 0
    for t in range(leaves.shape[0]):
        if leaves[t] < 0 or factors[t] == 0.0:
            continue
        start, stop = U(index.starts[leaves[t]]), U(index.starts[leaves[t] + 1])
        times += np.int64(stop - start)
        for k in range(start, stop):
            seen[U(index.members[k])] = 1
    return times


@jit
def unmark(leaves, index, seen):
    """Count the marks of one row and take them away, by going over the same members again."""
    found = 0
    for t in range(leaves.shape[0]):
        if leaves[t] < 0:
            continue
        for k in range(U(index.starts[leaves[t]]), U(index.starts[leaves[t] + 1])):
            j = U(index.members[k])
            found += seen[j]
            seen[j] = 0
    return found


@allocating
def empty_line(n):
    """A line for n training rows."""
    return Line(np.zeros(n), np.zeros((n + 63) // 64, np.uint64))


@allocating
def count_rows(leaves, factors, index, n, out):
    """Number of training rows that each query touches."""
    seen = np.zeros(n, np.uint8)
    for i in range(leaves.shape[0]):
        times = mark(leaves[i], factors[min(i, factors.shape[0] - 1)], index, seen)
        if n > 16 * times:
            out[i] = unmark(leaves[i], index, seen)
            continue
        found = 0
        for j in range(n):  # quicker on vectors, if many of them are marked
            found += np.int64(seen[j])
            seen[j] = 0
        out[i] = found


@allocating
def fill_rows(leaves, factors, index, by_total, normalise, starts, columns, values, n):
    """Rows of the kernel in compressed form: row i goes to starts[i] : starts[i + 1]."""
    line = empty_line(n)
    for i in range(leaves.shape[0]):
        gather(leaves[i], factors[min(i, factors.shape[0] - 1)], index, by_total, line)
        _, total = pour(line, columns, values, starts[i])
        if normalise and total > 0.0:
            for k in range(starts[i], starts[i + 1]):
                values[k] /= total


@allocating
def nearest_rows(leaves, factors, index, by_total, own, k, columns, values, n):
    """The k heaviest training rows of each query, heaviest first, ties by row; own[i] is left out. Unfilled: -1 and 0."""
    line = empty_line(n)
    found = np.empty(n, np.int64)
    weights = np.empty(n)
    for i in range(leaves.shape[0]):
        gather(leaves[i], factors[min(i, factors.shape[0] - 1)], index, by_total, line)
        m, _ = pour(line, found, weights, 0)
        kept = 0
        for c in range(m):
            if found[c] == own[i]:
                continue
            w = weights[c]
            if kept == k and w <= values[i, k - 1]:
                continue
            at = min(kept, k - 1)
            while at > 0 and values[i, at - 1] < w:
                values[i, at], columns[i, at] = values[i, at - 1], columns[i, at - 1]
                at -= 1
            values[i, at], columns[i, at] = w, found[c]
            kept = min(kept + 1, k)
        for at in range(kept, k):
            values[i, at], columns[i, at] = 0.0, -1


@allocating
def sorted_rows(leaves, factors, index, by_total, own, k, columns, values, n):
    """The same as `nearest_rows`, by sorting all that is found: quicker if k is large."""
    line = empty_line(n)
    found = np.empty(n, np.int64)
    weights = np.empty(n)
    for i in range(leaves.shape[0]):
        gather(leaves[i], factors[min(i, factors.shape[0] - 1)], index, by_total, line)
        m, _ = pour(line, found, weights, 0)
        kept = 0
        for c in np.argsort(-weights[:m], kind="mergesort"):  # which leaves ties in the order of rows
            if kept < k and found[c] != own[i]:
                values[i, kept], columns[i, kept] = weights[c], found[c]
                kept += 1
        for at in range(kept, k):
            values[i, at], columns[i, at] = 0.0, -1


@jit
def divide_by_common_trees(starts, columns, values, left_bits, right_bits, weights):
    """Divide each entry by the weight of the trees in which both rows have their bit set."""
    for i in range(starts.shape[0] - 1):
        for k in range(starts[i], starts[i + 1]):
            common = 0.0
            for w in range(left_bits.shape[1]):
                word = left_bits[i, w] & right_bits[columns[k], w]
                while word != ZERO:
                    last = word & (~word + ONE)
                    common += weights[(U(w) << S6) + U(PLACES[(last * DE_BRUIJN) >> S58])]
                    word ^= last
            values[k] /= common


@jit
def average_rows(leaves, factors, sums, totals, by_total, out, mass):
    """Sum leaf sums of values over trees, times a factor: as they are, or each divided by the mass of its leaf."""
    for i in range(leaves.shape[0]):
        for t in range(leaves.shape[1]):
            leaf = leaves[i, t]
            if leaf < 0 or totals[leaf] <= 0.0:
                continue
            share = factors[t] / totals[leaf] if by_total else factors[t]
            mass[i] += share * totals[leaf]
            for c in range(out.shape[1]):
                out[i, c] += share * sums[leaf, c]


@jit
def sum_by_leaf(index, wanted, values, out):
    """Sum of mass x value of the members of each leaf that is wanted."""
    weighed = index.mass.shape[0] > 0
    for leaf in range(index.starts.shape[0] - 1):
        if not wanted[leaf]:
            continue
        for k in range(index.starts[leaf], index.starts[leaf + 1]):
            m = index.mass[k] if weighed else 1.0
            for c in range(values.shape[1]):
                out[leaf, c] += m * values[index.members[k], c]


class Company(NamedTuple):
    """Who is with one point: in the leaf of a tree where the point is, and counted there."""

    leaves: NDArray[np.int32]  # (n_rows, n_columns)
    mine: NDArray[np.int32]  # (n_columns,) of the point
    trees: NDArray[np.int64]  # (n_columns,) of each column of leaves
    counts: NDArray[np.int32]  # (n_trees, n_rows) draws; empty: every row counts
    left_out: bool  # whether rows count that were not drawn, once, instead of those that were
    weight: NDArray[np.float64]  # (n_rows,)


@jit
def counted(company, i, t):
    """What a row that is in the leaf of the point counts there."""
    if company.counts.shape[0] == 0:
        return company.weight[i]
    drawn = company.counts[company.trees[t], i]
    if company.left_out:
        return company.weight[i] if drawn == 0 else 0.0
    return company.weight[i] * drawn if drawn > 0 else 0.0


@jit
def tally_company(company, values, sizes, totals, sums):
    """How many rows are with the point in each tree, their mass, and the sum of mass x value."""
    n, n_columns = company.leaves.shape
    for first in range(0, n, BLOCK):
        for t in range(n_columns):
            for i in range(first, min(first + BLOCK, n)):
                if company.leaves[i, t] == company.mine[t]:
                    m = counted(company, i, t)
                    if m > 0.0:
                        sizes[t] += 1
                        totals[t] += m
                        sums[t] += m * values[i]


@jit
def weigh_company(company, factors, totals, by_total, weight, together):
    """What each row weighs, its mass divided by that of the leaf if `by_total`, and trees in which it is with the point."""
    n, n_columns = company.leaves.shape
    for first in range(0, n, BLOCK):
        for t in range(n_columns):
            for i in range(first, min(first + BLOCK, n)):
                if company.leaves[i, t] == company.mine[t]:
                    together[i] += factors[t]
                    m = counted(company, i, t)
                    if m > 0.0:
                        weight[i] += factors[t] * m / totals[t] if by_total else factors[t] * m


@jit
def leave_each_out(company, factors, values, sizes, totals, sums, change, lost):
    """What the sum of leaf averages changes by without each row, and trees that have no opinion without it."""
    n, n_columns = company.leaves.shape
    for first in range(0, n, BLOCK):
        for t in range(n_columns):
            for i in range(first, min(first + BLOCK, n)):
                if company.leaves[i, t] == company.mine[t]:
                    m = counted(company, i, t)
                    if m <= 0.0:
                        continue
                    before = sums[t] / totals[t]
                    if sizes[t] == 1:
                        lost[i] += factors[t]
                        change[i] -= factors[t] * before
                    else:
                        change[i] += factors[t] * ((sums[t] - m * values[i]) / (totals[t] - m) - before)
