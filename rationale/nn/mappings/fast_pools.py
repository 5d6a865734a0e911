"""The fast form of oscarmax, which sorts each row once. See `fast_rows`.

numba keeps what it has compiled until this file changes, although it contains functions of `fast_rows`. After a change
of those, remove `__pycache__`.
"""

import numpy as np

from rationale.nn.mappings.fast_rows import LANES, gather, njit, places_above, survey, threshold
from rationale.nn.mappings.rows import LARGEST_PRICE

FEW = 16  # pools that are worth one pass over the row each


def oscar(rows, there, gamma, lam, weights, groups):
    """Weights of all rows, and the pools of positive weights, for the backward pass; False if a number is NaN or inf.

    numpy sorts the scores of each row (ascending, -inf where masked) with vector instructions. Their places are not
    needed: a score tells by its value to which pool it belongs.
    """
    ordered = np.where(there, rows, rows.dtype.type(-np.inf)) if there.size else rows.copy()
    ordered.sort(axis=1)
    return _oscar(rows, there, ordered, gamma, lam, weights, groups)


def published_oscar(rows, there, gamma, lam, weights, groups, signs):
    """The same for the published form, with the sign of each member of a pool; members may have a weight of 0."""
    keys = np.negative(np.abs(rows))
    if there.size:
        keys[~there] = np.inf  # NaN may stand there
    return _published_oscar(rows, there, np.argsort(keys, axis=1), gamma, lam, weights, groups, signs)


@njit(cache=True)
def _oscar(rows, there, ordered, gamma, lam, weights, groups):
    size = rows.shape[1]
    w, place, flags = np.empty(size), np.empty(size, np.int64), np.empty(size, np.bool_)
    sums, sizes = np.empty(size), np.empty(size, np.int64)
    least, levels = np.empty(size, rows.dtype), np.empty(size, rows.dtype)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    price = min(gamma * lam, LARGEST_PRICE)
    for r in range(rows.shape[0] if size > 0 else 0):
        weights[r] = 0.0
        if not ordered[r, size - 1] < np.inf:  # NaN is the largest in numpy's order
            return False
        if ordered[r, size - 1] > -np.inf:
            keep = there[r] if masked else everything
            pools = pooled(ordered[r], gamma, price, w, sums, sizes, least)
            pools = pool_levels(sums, sizes, pools, gamma, levels)
            spread(rows[r], keep, masked, levels, least, pools, place, flags, weights[r], groups[r])
    return True


@njit(cache=True)
def pooled(ordered, gamma, price, w, sums, sizes, least):
    """Pool the scores less their prices; the sum, the size and the least score of each pool, and the number of pools.

    `ordered`: the scores in ascending order, masked ones first. The largest score is subtracted. Nothing is divided by
    gamma before the end: the projection of w / gamma to the simplex is that of w to weights that sum to gamma, divided
    by gamma. `price`: gamma lam.

    With w_1, w_2, ... the values less their prices, in descending order of the scores, the threshold of the projection
    is at least (w_1 + ... + w_k - gamma) / k for each k. The search ends where no later segment of w can have a mean
    above it. The bound of these means has the largest value and the mean of the prices.
    """
    last, first = ordered.size - 1, 0
    while ordered[first] == -np.inf:
        first += 1
    top = np.float64(ordered[last])
    for i in range(first, last + 1):
        w[i] = ordered[i] - top - price * (i - first)
    pools, end = 0, first  # pools before the one that is being filled
    total, own, size = -gamma, 0.0, 0  # the sum of all values less gamma, and the sum and the size of that pool
    for i in range(last, first - 1, -1):
        value, before = w[i], last - i
        if before > 0 and (value + price * (i - first) / 2) * before <= total:
            end = i + 1
            break
        total += value
        if own <= value * size:
            own += value
            size += 1
            while pools > 0 and sums[pools - 1] * size <= own * sizes[pools - 1]:
                pools -= 1
                own += sums[pools]
                size += sizes[pools]
        else:
            sums[pools], sizes[pools], least[pools] = own, size, ordered[i + 1]
            pools, own, size = pools + 1, value, 1
    sums[pools], sizes[pools], least[pools] = own, size, ordered[end]
    return pools + 1


@njit(cache=True)
def pool_levels(sums, sizes, pools, gamma, levels):
    """The projection of the values of pools, which descend: `levels` of those that are positive, and their number."""
    top, total, count, tau = sums[0] / sizes[0], -gamma, 0, -np.inf
    for pool in range(pools):
        value = sums[pool] / sizes[pool] - top
        if value <= tau:
            pools = pool
            break
        total += value * sizes[pool]
        count += sizes[pool]
        tau = total / count
    for pool in range(pools):
        levels[pool] = (sums[pool] / sizes[pool] - top - tau) / gamma
    return pools


@njit(cache=True)
def spread(row, there, masked, levels, least, pools, place, flags, weights, groups):
    """Write the level and the number of its pool to each place, for scores that are at least the `least` of a pool."""
    if pools <= FEW:  # vector instructions for the whole row, once for each pool
        for pool in range(pools - 1, -1, -1):
            limit, level = least[pool], levels[pool]
            for t in range(row.size):
                inside = row[t] >= limit
                weights[t] = level if inside else weights[t]
                groups[t] = pool if inside else groups[t]
        if masked:
            for t in range(row.size):
                weights[t] = weights[t] if there[t] else 0.0
        return
    limit = np.nextafter(least[pools - 1], -np.inf)
    kept = places_above(row, there, masked, limit, place, flags)
    for t in place[:kept]:
        pool, end = 0, pools - 1  # the first pool whose least score is not above this one
        while pool < end:
            middle = (pool + end) // 2
            if least[middle] <= row[t]:
                end = middle
            else:
                pool = middle + 1
        weights[t], groups[t] = levels[pool], pool


@njit(cache=True)
def published(x, n, lam, groups, signs, sums, sizes, sorted_places, place, rank):
    """x <- the published prox of the OSCAR penalty, in place; `groups`: the pool of each position.

    `sorted_places`: the places of the row in descending order of their absolute scores. If lam is 0 nothing is pooled,
    so equal values keep separate gradients.
    """
    rank[:] = -1
    for i in range(n):
        rank[place[i]] = i
    pools, i = 0, 0
    for t in sorted_places:
        if rank[t] < 0:
            continue
        sums[pools], sizes[pools] = abs(x[rank[t]]) - lam * (n - 1 - i), 1
        pools += 1
        i += 1
        while lam > 0 and pools > 1 and sums[pools - 2] * sizes[pools - 1] <= sums[pools - 1] * sizes[pools - 2]:
            pools -= 1
            sums[pools - 1] += sums[pools]
            sizes[pools - 1] += sizes[pools]
    pool, left = 0, sizes[0]
    for t in sorted_places:
        if rank[t] < 0:
            continue
        if left == 0:
            pool += 1
            left = sizes[pool]
        value, i = sums[pool] / sizes[pool], rank[t]
        groups[i], signs[i] = pool, np.sign(x[i]) * (value > 0)
        x[i] = max(value, 0.0) * np.sign(x[i])
        left -= 1


@njit(cache=True)
def _published_oscar(rows, there, orders, gamma, lam, weights, groups, signs):
    size = rows.shape[1]
    x, sign, place = np.empty(size), np.ones(size), np.empty(size, np.int64)
    group, rank, above = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(max(size, LANES))
    sums, sizes, tops = np.empty(size), np.empty(size, np.int64), np.empty(LANES, rows.dtype)
    masked, everything, flags = there.size > 0, np.empty(0, np.bool_), np.empty(size, np.bool_)
    weights[:] = 0.0
    groups[:] = -1
    signs[:] = 0
    for r in range(rows.shape[0]):
        row, keep = rows[r], there[r] if masked else everything
        _, count = survey(row, keep, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        n = gather(row, keep, masked, 0.0, gamma, np.inf, x, place, flags, tops)
        published(x, n, lam, group, sign, sums, sizes, orders[r], place, rank)
        top = x[:n].max()
        tau = threshold(x, n, top, above)
        for i in range(n):
            t = place[i]
            weights[r, t] = max(x[i] - top - tau, 0.0)
            groups[r, t], signs[r, t] = group[i], sign[i]
    return True
