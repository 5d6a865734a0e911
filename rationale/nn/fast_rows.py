"""The rows of `sparse_attention`: an exact algorithm for each mapping, compiled by numba, which loops over the rows.

Here, the readable form and the fast form are the same code: numba compiles it as it is, and the attribute `py_func` of
each function is the plain Python function. Everything is computed in float64, whatever the dtype of the rows.
`sparse_attention` imports this module when it is first needed, because numba is slow to import.
"""

import numpy as np

from rationale.errors import optional

njit = optional("numba", "sparse attention", "fast").njit

PENALTY_KINDS = {"nothing": 0, "steps": 1, "ties": 2, "published": 3}  # by what a penalty makes equal


@njit(cache=True)
def gather(row, there, masked, gamma, level, x, place):
    """Copy the unmasked scores of a row, divided by gamma, to the front of `x`, and their positions to `place`.

    `level`: subtract the largest score first; a constant changes no weight, and large scores keep their precision.
    Returns the number of unmasked scores, or -1 if one of them is not finite.
    """
    n, top = 0, -np.inf
    for t in range(row.size):
        if not masked or there[t]:
            if not np.isfinite(row[t]):
                return -1
            x[n] = row[t]
            place[n] = t
            top = max(top, x[n])
            n += 1
    for i in range(n):
        x[i] = min(max((x[i] - top if level else x[i]) / gamma, -1e300), 1e300)
    return n


@njit(cache=True)
def threshold(x, n, top, above):
    """tau with sum_i (x_i - top - tau)_+ = 1: compute tau from all values, drop those below it, repeat (Michelot 1986).

    Only values less than 1 below the largest, `top`, can be in the support; they are stored in `above`.
    """
    total, count = 0.0, 0
    for i in range(n):
        if x[i] - top > -1:
            above[count] = x[i] - top
            total += above[count]
            count += 1
    while True:
        tau = (total - 1) / count
        total, kept = 0.0, 0
        for i in range(count):
            if above[i] > tau:
                above[kept] = above[i]
                total += above[i]
                kept += 1
        if kept == count:
            return tau
        count = kept


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
def descending(key, n, order):
    """`order`: positions of the keys, largest first. Up to 128 keys, insertion sort is faster than numpy's sort."""
    if n > 128:
        order[:n] = np.argsort(-key[:n])
        return
    for i in range(n):
        k = i
        while k > 0 and key[order[k - 1]] < key[i]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = i


@njit(cache=True)
def pooled(x, n, lam, groups, signs, published, sums, sizes, key, order):
    """x <- prox of the OSCAR penalty, in place; `groups`: the pool of each position (pool adjacent violators).

    If lam is 0 nothing is pooled, so equal values keep separate gradients.
    """
    for i in range(n):
        key[i] = abs(x[i]) if published else x[i]
    descending(key, n, order)
    pools = 0
    for i in range(n):
        sums[pools], sizes[pools] = key[order[i]] - lam * (n - 1 - i), 1
        pools += 1
        while lam > 0 and pools > 1 and sums[pools - 2] * sizes[pools - 1] <= sums[pools - 1] * sizes[pools - 2]:
            pools -= 1
            sums[pools - 1] += sums[pools]
            sizes[pools - 1] += sizes[pools]
    i = 0
    for pool in range(pools):
        value = sums[pool] / sizes[pool]
        for _ in range(sizes[pool]):
            t = order[i]
            groups[t] = pool
            if published:
                signs[t] = np.sign(x[t]) * (value > 0)
                x[t] = max(value, 0.0) * np.sign(x[t])
            else:
                x[t] = value
            i += 1


@njit(cache=True)
def project(rows, there, gamma, lam, kind, weights, groups, signs):
    """Weights of all rows, with groups (and signs) for the backward pass; False if a number is not finite."""
    size = rows.shape[1]
    x, sign, place = np.empty(size), np.ones(size), np.empty(size, np.int64)
    group, order = np.empty(size, np.int64), np.empty(size, np.int64)
    low, high, sums, sizes = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    knots, slopes, shifts = np.empty(2 * size), np.empty(2 * size), np.empty(2 * size)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    weights[:] = 0.0
    for r in range(rows.shape[0]):
        n = gather(rows[r], there[r] if masked else everything, masked, gamma, kind < 3, x, place)
        if n < 0:
            return False
        if n > 0:
            if kind == 1:
                smooth(x, n, lam, group, low, high, knots, slopes, shifts)
            elif kind >= 2:
                pooled(x, n, lam, group, sign, kind == 3, sums, sizes, low, order)
            top = 0.0 if kind == 0 else x[:n].max()  # `gather` has subtracted it, and there is no penalty to change it
            tau = threshold(x, n, top, low)
            for i in range(n):
                weights[r, place[i]] = max(x[i] - top - tau, 0.0)
        if kind > 0:
            groups[r] = -1
            for i in range(n):
                groups[r, place[i]] = group[i]
        if kind == 3:
            for i in range(n):
                signs[r, place[i]] = sign[i]
    return True


@njit(cache=True)
def project_back(grads, weights, groups, signs, gamma, grad_scores):
    """Gradient of the scores: subtract the mean over the support, then average over each group."""
    size = grads.shape[1]
    sums, sizes = np.empty(size), np.empty(size)
    for r in range(grads.shape[0]):
        total, count = 0.0, 0
        for t in range(size):
            if weights[r, t] > 0:
                total += grads[r, t]
                count += 1
        mean = total / max(count, 1)
        if groups.size == 0:
            for t in range(size):
                grad_scores[r, t] = (grads[r, t] - mean) / gamma if weights[r, t] > 0 else 0.0
            continue
        sums[:] = 0.0
        sizes[:] = 0.0
        for t in range(size):
            g = groups[r, t]
            if g >= 0:
                sizes[g] += 1
                if weights[r, t] > 0:
                    sums[g] += (grads[r, t] - mean) * (1 if signs.size == 0 else signs[r, t])
        for t in range(size):
            g = groups[r, t]
            grad_scores[r, t] = 0.0
            if g >= 0:
                grad_scores[r, t] = sums[g] / sizes[g] / gamma * (1 if signs.size == 0 else signs[r, t])


@njit(cache=True)
def norm_sums(x, n, tau, q):
    """For v = (x - tau)_+ scaled to a largest value of 1: that value, sums of v^(q-2), v^(q-1), v^q."""
    top = x[:n].max() - tau
    two, one, all_of = 0.0, 0.0, 0.0
    for i in range(n):
        v = (x[i] - tau) / top
        if v > 0:
            power = v ** (q - 2)
            two += power
            one += power * v
            all_of += power * v * v
    return top, two, one, all_of


@njit(cache=True)
def squared_norm(rows, there, gamma, p, weights):
    """sq-pnorm-max of all rows: Newton's method for tau, kept inside a bracket; False if a number is not finite."""
    size = rows.shape[1]
    x, place = np.empty(size), np.empty(size, np.int64)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    weights[:] = 0.0
    q = p / (p - 1)
    bend = (2 - q) / q
    for r in range(rows.shape[0]):
        n = gather(rows[r], there[r] if masked else everything, masked, gamma, True, x, place)
        if n < 0:
            return False
        if n == 0:
            continue
        low, high = -1.0, -(n ** (-2 / q))  # tau for a single nonzero weight, and for equal weights
        tau = low
        for _ in range(100):
            scale, two, one, all_of = norm_sums(x, n, tau, q)
            excess = scale * all_of**bend * one - 1  # decreasing in tau
            if excess > 0:
                low = tau
            else:
                high = tau
            slope = -(bend * q * all_of ** (bend - 1) * one * one + all_of**bend * (q - 1) * two)
            new = tau - excess / slope
            if not low < new < high:
                new = (low + high) / 2
            if abs(new - tau) <= 1e-16 * abs(tau):
                break
            tau = new
        scale, _, one, _ = norm_sums(x, n, tau, q)
        for i in range(n):
            v = (x[i] - tau) / scale
            if v > 0:
                weights[r, place[i]] = v ** (q - 1) / one
    return True
