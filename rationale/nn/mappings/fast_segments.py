"""The fast form of fusedmax, which never computes a weight that is 0. See `fast_rows`.

Two facts about the smooth sequence y = P_TV(x) make it cheap:

- Where y is above a level c is the set that costs least: sum_S (c - x_i), and lam for each neighbour at which S ends.
  A pass forward and one back find it (`above`), because each place is in S or not.
- So sum_i (y_i - c)_+ is sum_S (x_i - c), less lam for each end of S. At the threshold of the projection it has to
  be 1. Newton's method finds this threshold: compute it from all values, drop those that are not above it, and repeat,
  as `fast_rows.drop_below` does without a price. What remains is the support.

Within a run of the support, y is constant if no place is above the mean of the run. Otherwise the run breaks wherever
what is above and what is not meet (`level_runs`).

Wherever a run ends at something lower, lam is subtracted from its last value, and added where it ends at something
higher. Then the sum of its values is that of y, and it is a problem by itself.
"""

import numpy as np

from rationale.nn.mappings.fast_rows import LANES, bound_from_tops, count_before, gather, njit, survey


@njit(cache=True)
def above(x, n, prices, level, cost, keep, may):
    """Whether y is above a level, 1 or 0, for each of the first n values: written to `keep`.

    `prices` [n + 1]: what a difference between value i and the one before it costs, 0 at the ends of a run.
    `cost`: what is saved by staying below, given the best choice for all values before. `may`: whether y is above the
    level if the next value is.
    """
    before = 0.0
    for i in range(n):
        price = prices[i]
        carried = before if before < price else price
        carried = carried if carried > -price else -price
        before = level - x[i] + carried
        cost[i] = before
    for i in range(n):
        keep[i], may[i] = cost[i] < -prices[i + 1], cost[i] < prices[i + 1]
    inside = np.uint8(0)
    for i in range(n - 1, -1, -1):
        inside = keep[i] | (may[i] & inside)
        keep[i] = inside


@njit(cache=True)
def drop(x, place, n, prices, kept, paid):
    """Remove values, and let what ends there pay its price: the number and the sum of those that remain.

    `kept` [n + 2]: 1 or 0 for each value, between two values of 1. `paid`: working memory.
    """
    for i in range(n):
        paid[i] = x[i] - prices[i] * (1 - kept[i]) - prices[i + 1] * (1 - kept[i + 2])
    number, total = 0, 0.0
    for i in range(n):
        x[number], place[number], prices[number] = paid[i], place[i], prices[i] * kept[i]
        number += kept[i + 1]
    for i in range(number):
        total += x[i]
    prices[number] = 0.0
    return number, total


@njit(cache=True)
def drop_below_level(x, place, n, prices, level, cost, kept, may):
    """Remove the values at which y is not above a level; see `drop`."""
    above(x, n, prices, level, cost, kept[1:], may)
    kept[n + 1] = 1
    return drop(x, place, n, prices, kept, cost)


@njit(cache=True)
def support_of(x, place, n, prices, least, cost, kept, may):
    """Reduce x to the support; its size and the threshold. `least`: a lower bound of the threshold."""
    total = x[:n].sum()
    if least > (total - 1) / n:
        n, total = drop_below_level(x, place, n, prices, least, cost, kept, may)
    while True:
        level, size = (total - 1) / n, n
        n, total = drop_below_level(x, place, n, prices, level, cost, kept, may)
        if n == size:
            return n, level


@njit(cache=True)
def level_runs(x, n, prices, group, cost, keep, may):
    """x <- y within the support; `group`: the number of the segment of each value."""
    begin, number = 0, 0
    while begin < n:
        end, total = begin + 1, x[begin]
        while prices[end] > 0:
            total += x[end]
            end += 1
        level, breaks = total / (end - begin), 0
        if end - begin > 1:
            above(x[begin:end], end - begin, prices[begin : end + 1], level, cost, keep, may)
            for i in range(1, end - begin):
                if keep[i] != keep[i - 1]:
                    price = prices[begin + i] if keep[i] else -prices[begin + i]
                    x[begin + i] -= price
                    x[begin + i - 1] += price
                    prices[begin + i] = 0.0
                    breaks += 1
        if breaks == 0:
            x[begin:end] = level
            group[begin:end] = number
            begin, number = end, number + 1


@njit(cache=True)
def price_ends(x, n, rank, count, lam, prices):
    """`prices` of neighbours; values that end at one that was left out pay. `rank`, `count`: see `count_before`."""
    prices[0], prices[n] = 0.0, 0.0
    for i in range(1, n):
        prices[i] = lam if rank[i] == rank[i - 1] + 1 else 0.0
    for i in range(n):
        x[i] -= lam if (prices[i] == 0) & (rank[i] > 0) else 0.0
        x[i] -= lam if (prices[i + 1] == 0) & (rank[i] < count - 1) else 0.0


@njit(cache=True)
def fused(rows, there, gamma, lam, weights, groups):
    """Weights of all rows, and their segments at the places of positive weights; False if a number is NaN or inf.

    No value is changed by more than 2 lam. So the threshold is at least that of the scores themselves (see
    `fast_rows.bound_from_tops`) less 2 lam, and what is another 2 lam below cannot be raised to it.
    """
    size = rows.shape[1]
    x, place, group, rank = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    prices, cost, kept, may = np.empty(size + 1), np.empty(size), np.ones(size + 2, np.uint8), np.empty(size, np.uint8)
    tops, columns, flags = np.empty(LANES, rows.dtype), np.empty(LANES), np.empty(size, np.bool_)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    for r in range(rows.shape[0]):
        row, unmasked, of_row = rows[r], there[r] if masked else everything, weights[r]
        of_row[:] = 0.0
        top, count = survey(row, unmasked, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        least = bound_from_tops(tops, top, gamma, columns) - 2 * lam
        n = gather(row, unmasked, masked, top, gamma, 2 * lam - least, x, place, flags, tops)
        count_before(row, unmasked, masked, count, place, n, rank)
        price_ends(x, n, rank, count, lam, prices)
        n, tau = support_of(x, place, n, prices, least, cost, kept, may)
        level_runs(x, n, prices, group, cost, kept[1:], may)
        for i in range(n):
            of_row[place[i]] = max(x[i] - tau, 0.0)
            groups[r, place[i]] = group[i]
    return True
