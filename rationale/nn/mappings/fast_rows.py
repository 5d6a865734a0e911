"""The fast form of the mappings: an exact algorithm for one row of each, compiled by numba, which loops over the rows.

This module holds what all of them share, sparsemax and fusedmax; `fast_pools` holds oscarmax, and `fast_powers` the
mappings whose weights are powers. numba compiles the code as it is, and the attribute `py_func` of each function is
the plain Python function. Everything is computed in float64, whatever the dtype of the rows. The mappings import this
module when it is first needed, because numba is slow to import. `vectorised` computes the same with torch operations.

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
        above[:LANES] = x[:LANES] - top
        for begin in range(LANES, n - n % LANES, LANES):
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


# ----------------------------------------------------------------------------------------- equal neighbours: fusedmax
@njit(cache=True)
def smooth(x, n, lam, groups, low, high, knots, slopes, shifts):
    """x <- argmin_y |y - x|^2 / 2 + lam sum |y_{i+1} - y_i|, in place; `groups`: the segment of each position.

    Dynamic programming (Johnson 2013): the derivative of the cost of the first i values, as a function of the last of
    them, is increasing and piecewise linear; the next step clips it to [-lam, lam], at the points low_i and
    high_i. Going backwards, y_i is y_{i+1} clipped to [low_i, high_i], so equal neighbours are exactly equal.
    """
    if n == 1 or lam == 0:
        for i in range(n):
            groups[i] = i
        return
    # the derivative is first_slope y + first_shift at the left end, and each knot adds to both; mirrored from the right
    left, right = n - 1, n
    low[0], high[0] = x[0] - lam, x[0] + lam
    knots[left], slopes[left], shifts[left] = low[0], 1.0, lam - x[0]
    knots[right], slopes[right], shifts[right] = high[0], -1.0, lam + x[0]
    first_slope, first_shift = 1.0, -lam - x[1]
    last_slope, last_shift = -1.0, x[1] - lam
    for i in range(1, n - 1):
        slope, shift, at = first_slope, first_shift, left
        while at <= right and slope * knots[at] + shift <= -lam:
            slope += slopes[at]
            shift += shifts[at]
            at += 1
        low[i] = (-lam - shift) / slope
        back_slope, back_shift, end = last_slope, last_shift, right
        while end >= at and -back_slope * knots[end] - back_shift >= lam:
            back_slope += slopes[end]
            back_shift += shifts[end]
            end -= 1
        high[i] = -(lam + back_shift) / back_slope
        left, right = at - 1, end + 1
        knots[left], slopes[left], shifts[left] = low[i], slope, shift + lam
        knots[right], slopes[right], shifts[right] = high[i], back_slope, back_shift + lam
        first_slope, first_shift = 1.0, -lam - x[i + 1]
        last_slope, last_shift = -1.0, x[i + 1] - lam
    slope, shift, at = first_slope, first_shift, left
    while at <= right and slope * knots[at] + shift <= 0:
        slope += slopes[at]
        shift += shifts[at]
        at += 1
    x[n - 1] = -shift / slope
    for i in range(n - 2, -1, -1):
        x[i] = min(max(x[i + 1], low[i]), high[i])
    groups[0] = 0
    for i in range(1, n):
        groups[i] = groups[i - 1] + (x[i] != x[i - 1])


@njit(cache=True)
def fused(x, place, n, count, rank, lam, groups, low, high, knots, slopes, shifts):
    """`smooth`, only for values that can be in the support after the projection; the largest value is 0.

    Returns the number of values that remain, at the front of `x` and `place`.

    `rank`: see `count_before`; `count`: the number of unmasked scores.

    No value is lowered by more than 2 lam, so the threshold of the projection is at least that of the values themselves
    less 2 lam. What is another 2 lam below cannot be raised to this threshold, whatever its neighbours are. A run
    between two values that are left out is a problem by itself: each of its ends pays lam for the step down.
    """
    floor, kept = threshold(x, n, 0.0, low) - 4 * lam, 0
    for i in range(n):
        x[kept], place[kept], rank[kept] = x[i], place[i], rank[i]
        kept += x[i] >= floor
    group, begin = 0, 0
    while begin < kept:
        end = begin + 1
        while end < kept and rank[end] == rank[end - 1] + 1:
            end += 1
        if rank[begin] > 0:
            x[begin] -= lam
        if rank[end - 1] < count - 1:
            x[end - 1] -= lam
        groups[begin] = group
        if end - begin > 1:
            run, own = x[begin:end], groups[begin:end]
            smooth(run, run.size, lam, own, low, high, knots, slopes, shifts)
            for k in range(run.size):
                own[k] += group
        group = groups[end - 1] + 1
        begin = end
    return kept


# ----------------------------------------------------------------------------------------------------------- all rows
@njit(cache=True)
def project(rows, there, gamma, weights):
    """Weights of sparsemax of all rows; False if a number is NaN or inf.

    The projection of the largest score of each column (see `survey`) is a lower bound of the threshold, because every
    further score raises it. So only the scores above this bound are copied.
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
        for k in range(LANES):
            above[k] = max((tops[k] - top) / gamma, -1.0)  # what is lower has weight 0
        least = drop_below(above, LANES)
        n = gather(row, keep, masked, top, gamma, -least, x, place, flags, tops)
        above[:n] = x[:n]
        tau = drop_below(above, n)
        for i in range(n):
            of_row[place[i]] = max(x[i] - tau, 0.0)
    return True


@njit(cache=True)
def project_fused(rows, there, gamma, lam, weights, groups):
    """The same for fusedmax; its segments are written to `groups` at the places of positive weights."""
    size = rows.shape[1]
    x, place, group, rank = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    low, high = np.empty(max(size, LANES)), np.empty(size)
    knots, slopes, shifts = np.empty(2 * size), np.empty(2 * size), np.empty(2 * size)
    tops, flags, reach = np.empty(LANES, rows.dtype), np.empty(size, np.bool_), 1 + 4 * lam
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    for r in range(rows.shape[0]):
        row, keep, of_row = rows[r], there[r] if masked else everything, weights[r]
        of_row[:] = 0.0
        top, count = survey(row, keep, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        n = gather(row, keep, masked, top, gamma, reach, x, place, flags, tops)
        count_before(row, keep, masked, count, place, n, rank)
        n = fused(x, place, n, count, rank, lam, group, low, high, knots, slopes, shifts)
        top = x[:n].max()  # `gather` has subtracted the largest score
        for i in range(n):
            groups[r, place[i]] = group[i]
        tau = threshold(x, n, top, low)
        for i in range(n):
            of_row[place[i]] = max(x[i] - top - tau, 0.0)
    return True
