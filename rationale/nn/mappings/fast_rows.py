"""The fast form of the mappings: an exact algorithm for one row of each, compiled by numba, which loops over the rows.

This module holds what all of them share, and sparsemax. `fast_segments` holds fusedmax, `fast_pools` oscarmax,
`fast_powers` the mappings whose weights are powers, and `fast_back` the backward pass of the first three. numba
compiles the code as it is, and the attribute `py_func` of each function is the plain Python function. Everything is
computed in float64, whatever the dtype of the rows. The mappings import this module when it is first needed, because
numba is slow to import. `vectorised` computes the same with torch operations.

Most scores of a long row get the weight 0. So a row is read twice with simple loops, which the compiler turns into
vector instructions or at least keeps free of branches: once for its largest score, once to copy the few scores that are
near enough to it. All that follows is done for these few.
"""

import numpy as np

from rationale.errors import optional

njit = optional("numba", "compiled sparse attention", "fast").njit

LANES = 32  # columns of a row that vector instructions work on at once


# ------------------------------------------------------------------------------------------------------ reading a row
@njit(cache=True)
def survey(row, there, masked, tops):
    """The largest unmasked score and the number of unmasked scores; -1 as this number if one of them is NaN or inf.

    A score of -inf counts as masked. `tops` [LANES], of the dtype of the row, gets the largest score of each column of
    the row, seen as lines of LANES scores; -inf if there is none.
    """
    tops[:] = -np.inf
    count, wrong = 0, 0
    whole = row.size - row.size % LANES
    for begin in range(0, whole, LANES):
        part = row[begin : begin + LANES]
        if masked:
            keep = there[begin : begin + LANES]
            for k in range(LANES):
                value = part[k] if keep[k] else -np.inf
                tops[k] = value if value > tops[k] else tops[k]
                count += value != -np.inf
                wrong += not value < np.inf
        else:
            for k in range(LANES):
                value = part[k]
                tops[k] = value if value > tops[k] else tops[k]
                count += value != -np.inf
                wrong += not value < np.inf
    for t in range(whole, row.size):
        if not masked or there[t]:
            tops[t - whole] = max(tops[t - whole], row[t])
            count += row[t] != -np.inf
            wrong += not row[t] < np.inf
    top = tops[0]
    for k in range(1, LANES):
        top = max(top, tops[k])
    return np.float64(top), -1 if wrong else count


@njit(cache=True)
def places_above(row, there, masked, limit, place, above):
    """Write the places of unmasked scores > limit to `place`; their number. `above`: working memory, bool."""
    for t in range(row.size):
        above[t] = row[t] > limit
    if masked:
        for t in range(row.size):
            above[t] = above[t] & there[t]
    kept = 0
    for t in range(row.size):
        place[kept] = t  # written over if this score is left out, so that there is no branch
        kept += above[t]
    return kept


@njit(cache=True)
def gather(row, there, masked, top, gamma, reach, x, place, above, tops):
    """Copy unmasked scores, less `top` and divided by gamma, to the front of `x`, and their positions to `place`.

    `top`: the largest score, or 0. A constant changes no weight, and large scores keep their precision.
    `reach`: leave out scores that are then at most -reach, because their weight is 0; if inf, none is left out.
    `above`, `tops`: working memory, as for `places_above` and `survey`.
    Returns the number of scores copied.
    """
    kept, span = 0, reach * gamma
    tops[0] = top - span - 1e-6 * (abs(top) + span)  # in the dtype of the row; what is too low is left out below
    near = places_above(row, there, masked, tops[0], place, above)
    for i in range(near):
        t = place[i]
        scaled = min(max((row[t] - top) / gamma, -1e300), 1e300)
        x[kept], place[kept] = scaled, t
        kept += scaled > -reach
    return kept


@njit(cache=True)
def count_before(row, there, masked, count, place, n, rank):
    """`rank`: for each of the first n positions in `place`, how many of the `count` unmasked scores are before it."""
    if count == row.size:
        rank[:n] = place[:n]
        return
    before, i = 0, 0
    for t in range(row.size):
        if i < n and place[i] == t:
            rank[i] = before
            i += 1
        before += (not masked or there[t]) and row[t] != -np.inf


# ---------------------------------------------------------------------------------------------------- the projection
@njit(cache=True)
def threshold(x, n, top, above):
    """tau with sum_i (x_i - top - tau)_+ = 1. Only values less than 1 below the largest, `top`, can be in the support.

    If there are many, the threshold for the largest value of each of `LANES` columns comes first. It is a lower bound,
    because every further value raises the threshold. The values above it are stored in `above`.
    """
    least = -1.0
    if n > 4 * LANES:
        above[:LANES] = -1.0  # what is lower has weight 0
        for begin in range(0, n - n % LANES, LANES):
            for k in range(LANES):
                above[k] = max(above[k], x[begin + k] - top)
        least = max(least, drop_below(above, LANES))
    count = 0
    for i in range(n):
        above[count] = x[i] - top
        count += above[count] > least
    return drop_below(above, count)


@njit(cache=True)
def drop_below(above, count):
    """tau with sum_i (above_i - tau)_+ = 1: compute tau from all values, drop those below it, and repeat.

    Source: Michelot 1986.
    """
    total = 0.0
    for i in range(count):
        total += above[i]
    while True:
        tau = (total - 1) / count
        total, kept = 0.0, 0
        for i in range(count):
            value = above[i]
            above[kept] = value
            total += value if value > tau else 0.0
            kept += value > tau
        if kept == count:
            return tau
        count = kept


@njit(cache=True)
def bound_from_tops(tops, top, gamma, above):
    """A lower bound of the threshold: that of the largest score of each column, because every further score raises it.

    `tops`: see `survey`. `top` is the largest score. `above` [at least LANES]: working memory.
    """
    for k in range(LANES):
        above[k] = max((tops[k] - top) / gamma, -1.0)  # what is lower has weight 0
    return drop_below(above, LANES)


# ----------------------------------------------------------------------------------------------------------- all rows
@njit(cache=True)
def project(rows, there, gamma, weights):
    """Weights of sparsemax of all rows; False if a number is NaN or inf.

    Only the scores above a lower bound of the threshold are copied.
    """
    size = rows.shape[1]
    x, above, place = np.empty(size), np.empty(max(size, LANES)), np.empty(size, np.int64)
    tops, flags = np.empty(LANES, rows.dtype), np.empty(size, np.bool_)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    for r in range(rows.shape[0]):
        row, keep, of_row = rows[r], there[r] if masked else everything, weights[r]
        of_row[:] = 0.0
        top, count = survey(row, keep, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        least = bound_from_tops(tops, top, gamma, above)
        n = gather(row, keep, masked, top, gamma, -least, x, place, flags, tops)
        above[:n] = x[:n]
        tau = drop_below(above, n)
        for i in range(n):
            of_row[place[i]] = max(x[i] - tau, 0.0)
    return True
