"""The fast form of oscarmax, which sorts each row once. See `fast_rows`."""

import numpy as np

from rationale.nn.mappings.fast_rows import LANES, gather, njit, survey, threshold

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
    w, place, least = np.empty(size), np.empty(size, np.int64), np.empty(size, rows.dtype)
    sums, sizes = np.empty(size), np.empty(size, np.int64)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    weights[:] = 0.0
    for r in range(rows.shape[0] if size > 0 else 0):
        if not ordered[r, size - 1] < np.inf:  # NaN is the largest in numpy's order
            return False
        if ordered[r, size - 1] > -np.inf:
            keep = there[r] if masked else everything
            pooled(rows[r], keep, masked, ordered[r], gamma, lam, w, place, sums, sizes, least, weights[r], groups[r])
    return True


@njit(cache=True)
def pooled(row, there, masked, ordered, gamma, lam, w, place, sums, sizes, least, weights, groups):
    """Weights of oscarmax, written to a row of zeros, and the pools of those that are positive.

    `ordered`: the scores in ascending order, masked ones first. With w_1, w_2, ... the values less their prices, in
    descending order of the scores, the threshold of the projection is

        tau = max_k (w_1 + ... + w_k - 1) / k

    because the sums of the pooled values are the least concave majorant of those of w, and both are equal where the
    maximum is. Only the first k values are pooled, and the search ends where no later segment of w can have a mean
    above tau. The bound of these means has the largest value and the mean of the prices.
    """
    last, n = row.size - 1, row.size
    while n > 0 and ordered[row.size - n] == -np.inf:
        n -= 1
    top, total, tau, support = np.float64(ordered[last]), 0.0, -np.inf, 0
    for i in range(n):
        w[i] = max((ordered[last - i] - top) / gamma, -1e300) - lam * (n - 1 - i)
    for i in range(n):
        if w[i] + lam * (n - 1 - i) / 2 <= tau:
            break
        total += w[i]
        ratio = (total - 1) / (i + 1)
        tau = max(tau, ratio)
        if ratio >= tau - 1e-15 * abs(total):  # as far as sums are exact
            support = i + 1
    pools, total, size = 0, w[0], 1  # pools before the one that is being filled, whose sum and size these are
    for i in range(1, support):
        if total <= w[i] * size:
            total += w[i]
            size += 1
            while pools > 0 and sums[pools - 1] * size <= total * sizes[pools - 1]:
                pools -= 1
                total += sums[pools]
                size += sizes[pools]
        else:
            sums[pools], sizes[pools], least[pools] = total, size, ordered[last - i + 1]
            pools, total, size = pools + 1, w[i], 1
    sums[pools], sizes[pools], least[pools] = total, size, ordered[last - support + 1]
    pools += 1
    top, total, count, tau = sums[0] / sizes[0], 0.0, 0, -np.inf  # the projection, less the largest pooled value
    for pool in range(pools):
        value = sums[pool] / sizes[pool] - top
        if value <= tau:
            pools = pool
            break
        w[pool] = value
        total += value * sizes[pool]
        count += sizes[pool]
        tau = (total - 1) / count
    for pool in range(pools):
        w[pool] -= tau
    spread(row, there, masked, w, least, pools, place, weights, groups)


@njit(cache=True)
def spread(row, there, masked, levels, least, pools, place, weights, groups):
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
    kept = 0
    for t in range(row.size):
        place[kept] = t
        keep = row[t] >= least[pools - 1]
        kept += keep & there[t] if masked else keep
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
    masked, everything = there.size > 0, np.empty(0, np.bool_)
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
        n = gather(row, keep, masked, 0.0, gamma, np.inf, x, place, tops)
        published(x, n, lam, group, sign, sums, sizes, orders[r], place, rank)
        top = x[:n].max()
        tau = threshold(x, n, top, above)
        for i in range(n):
            t = place[i]
            weights[r, t] = max(x[i] - top - tau, 0.0)
            groups[r, t], signs[r, t] = group[i], sign[i]
    return True
