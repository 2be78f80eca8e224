"""Isotonic regression with a hit added at every score in turn: cumulative sums enter, what it says at that score leaves."""

import numpy as np
from numba import njit

allocating = njit(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)


@allocating
def shares_with_a_hit(M, H, shares):
    """What isotonic regression says at each score when one hit is added there; all scores in linear time.

    Isotonic regression is the slope of the greatest convex minorant of the cumulative sums (M_i, H_i) of masses and hits. A
    hit added at score j moves the sums from j on by (1, 1). Asked for is the slope of the one edge that leads from the sums
    before j, which stay, to those that moved. From j to j + 1 one point moves back. If it lands on or above the edge, that
    remains; if below, the new edge starts there and ends at the same corner or further right.
    """
    last = shares.shape[0]
    corner = np.full(last + 1, last)  # the corner that follows i in the minorant of the points i, ..., last
    for i in range(last - 1, 0, -1):
        b = i + 1
        while b < last and (H[corner[b]] - H[i]) * (M[b] - M[i]) <= (H[b] - H[i]) * (M[corner[b]] - M[i]):
            b = corner[b]
        corner[i] = b
    a = b = 0  # the edge leads from point a to point b, moved
    for i in range(last):  # the hit is added at the score between the points i and i + 1
        if b <= i or (H[i] - H[a]) * (M[b] + 1 - M[a]) < (H[b] + 1 - H[a]) * (M[i] - M[a]):
            a, b = i, max(b, i + 1)
            while b < last:
                c = corner[b]
                if (H[c] + 1 - H[a]) * (M[b] + 1 - M[a]) > (H[b] + 1 - H[a]) * (M[c] + 1 - M[a]):
                    break
                b = c
        shares[i] = (H[b] + 1 - H[a]) / (M[b] + 1 - M[a])
