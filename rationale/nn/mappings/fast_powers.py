"""The fast form of the mappings whose weights are powers: sq-pnorm-max and entmax. See `fast_rows`."""

import math

import numpy as np

from rationale.nn.mappings.fast_rows import LANES, gather, njit, survey


@njit(cache=True)
def norm_sums(x, n, tau, q):
    """For v = (x - tau)_+ scaled to a largest value of 1: that value, sums of v^(q-2), v^(q-1), v^q.

    A power of 1 (p = 1.5) is not computed.
    """
    top = x[:n].max() - tau
    two, one, all_of = 0.0, 0.0, 0.0
    for i in range(n):
        v = (x[i] - tau) / top
        if v > 0:
            power = v if q == 3 else v ** (q - 2)
            two += power
            one += power * v
            all_of += power * v * v
    return top, two, one, all_of


@njit(cache=True)
def squared_norm(rows, there, gamma, p, weights):
    """sq-pnorm-max of all rows: Newton's method for tau, kept inside a bracket; False if a number is NaN or inf."""
    size = rows.shape[1]
    x, place = np.empty(size), np.empty(size, np.int64)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    tops, flags = np.empty(LANES, rows.dtype), np.empty(size, np.bool_)
    q = p / (p - 1)
    bend = (2 - q) / q
    for r in range(rows.shape[0]):
        row, keep = rows[r], there[r] if masked else everything
        weights[r] = 0.0
        top, count = survey(row, keep, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        n = gather(row, keep, masked, top, gamma, 1.0, x, place, flags, tops)
        low, high = -1.0, -(count ** (-2 / q))  # tau for a single nonzero weight, and for equal weights
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
            if abs(new - tau) <= 4e-16 * abs(tau):  # before the bracket, which rounding would make it leave
                break
            tau = new if low < new < high else (low + high) / 2
        scale, _, one, _ = norm_sums(x, n, tau, q)
        for i in range(n):
            v = (x[i] - tau) / scale
            if v > 0:
                weights[r, place[i]] = (v * v if q == 3 else v ** (q - 1)) / one
    return True


@njit(cache=True)
def squared_norm_back(grads, weights, gamma, p, grad_scores):
    """The gradient of the scores: the same as `norms.norm_jacobian_times`, over the support of each row only."""
    size = grads.shape[1]
    place, unit, curve = np.empty(size, np.int64), np.empty(size), np.empty(size)
    for r in range(grads.shape[0]):
        v, y, result, n, norm = grads[r], weights[r], grad_scores[r], 0, 0.0
        result[:] = 0.0
        for t in range(size):
            place[n] = t
            n += y[t] > 0
        for i in range(n):
            unit[i] = y[place[i]]
            curve[i] = math.sqrt(unit[i]) if p == 1.5 else unit[i] ** (2 - p)
            norm += unit[i] * unit[i] / curve[i]
        norm = norm ** (1 / p) if n > 0 else 1.0
        scale, units, along = norm ** (2 - p), 0.0, 0.0
        for i in range(n):
            unit[i] /= norm
            curve[i] /= scale
            units += unit[i]
            along += unit[i] * v[place[i]]
        total, total_of_v = 0.0, 0.0
        for i in range(n):
            total += curve[i] - (2 - p) * unit[i] * units
            total_of_v += curve[i] * v[place[i]] - (2 - p) * unit[i] * along
        c = total_of_v / total if total != 0 else 0.0
        for i in range(n):
            of_v = curve[i] * v[place[i]] - (2 - p) * unit[i] * along
            of_one = curve[i] - (2 - p) * unit[i] * units
            result[place[i]] = (of_v - c * of_one) / ((p - 1) * gamma)


@njit(cache=True)
def tsallis_sums(x, n, shift, a, y):
    """y <- exp_a(x - shift), see `tsallis`; y and y^(1 - a), summed. Values at which y is 0 are removed from x.

    Returns both sums and the number of values that remain.
    """
    total, slope, kept = 0.0, 0.0, 0
    for i in range(n):
        w = x[i] - shift
        base = 1 + a * w
        if base > 0:
            if a == 0.5:
                value = base * base
            elif a == 1:
                value = base
            else:
                value = math.exp(w if a == 0 else math.log1p(a * w) / a)
            x[kept], y[kept] = x[i], value
            total += value
            slope += value / base
            kept += 1
    return total, slope, kept


@njit(cache=True)
def tsallis(rows, there, gamma, alphas, weights):
    """entmax of all rows: Newton's method for the shift u, kept inside a bracket; False if a number is NaN or inf.

        y = exp_a(x - u) = (1 + a (x - u))_+^(1 / a),   a = alpha - 1,   dy / dx = y^(1 - a) = y / (1 + a (x - u))

    For a <= 1 the sum of the weights is convex in u, so from u = 0 Newton's method approaches the solution from below.
    `alphas`: one number per row. If a value leaves the support, it is not visited again: u only rises, except where
    the bracket is halved, which starts from all values.
    """
    size = rows.shape[1]
    x, kept, y, place = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    tops, flags = np.empty(LANES, rows.dtype), np.empty(size, np.bool_)
    for r in range(rows.shape[0]):
        a = alphas[r] - 1
        reach = 1 / a if a > 0 else np.inf
        row, keep = rows[r], there[r] if masked else everything
        weights[r] = 0.0
        top, count = survey(row, keep, masked, tops)
        if count < 0:
            return False
        if count == 0:
            continue
        n = gather(row, keep, masked, top, gamma, reach, x, place, flags, tops)
        low, high = 0.0, math.log(count) if a == 0 else -math.expm1(-a * math.log(count)) / a
        shift, remaining, precision = 0.0, n, 4e-15 * high
        kept[:n] = x[:n]
        for _ in range(100):
            total, slope, remaining = tsallis_sums(kept, remaining, shift, a, y)
            if total > 1:
                low = shift
            else:
                high = shift
            new = shift + (total - 1) / slope
            if not low <= new <= high:
                new = (low + high) / 2
            moved = abs(new - shift)
            if new < shift:
                remaining = n
                kept[:n] = x[:n]
            shift = new
            if moved <= precision:
                break
        kept[:n] = x[:n]
        total, _, remaining = tsallis_sums(kept, n, shift, a, y)
        number = 0
        for i in range(n):
            if 1 + a * (x[i] - shift) > 0:
                weights[r, place[i]] = y[number] / total
                number += 1
    return True
