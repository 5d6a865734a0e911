"""Mappings from scores to attention weights: softmax, sparsemax, fusedmax, oscarmax, sq-pnorm-max.

    mapping(x) = argmax_{y in simplex} y . x - gamma Omega(y)

    softmax        Omega = sum_i y_i ln y_i
    sparsemax      Omega = |y|^2 / 2
    fusedmax       Omega = |y|^2 / 2 + lam sum_i |y_{i+1} - y_i|
    oscarmax       Omega = |y|^2 / 2 + lam sum_{i<j} max(|y_i|, |y_j|)
    sq_pnorm_max   Omega = |y|_p^2 / 2

Source: eqs. (A1)-(A5), notebooks/06_sparse_attention.py; Niculae and Blondel 2017.

All take scores [..., T] and a mask [..., T] (True: there) and return weights [..., T]. What is masked is cut out
before the map, as if it had never been written: weight 0, gradient 0, and its neighbours become neighbours of each
other. A row of which nothing is left gets zeros. Adding a constant to a row changes nothing.

Every map but softmax is an exact algorithm for one row, in float64 whatever the dtype, compiled by numba, which loops
over the rows; rows on a GPU travel to the CPU and back. Their Jacobians are symmetric and never built: a backward pass
is a few averages.
"""

import numpy as np
import torch
from numba import njit
from torch import Tensor
from torch.autograd.function import once_differentiable

# ------------------------------------------------------------------------------------------------------- the maps


def softmax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0) -> Tensor:
    """exp(x / gamma) / sum exp(x / gamma); never exactly 0.

    Parameters
    ----------
    scores : [..., T], finite where the mask is True
    mask : bool [..., T] or None
        True for what is there. None: everything.
    gamma : float, > 0
        Strength of the regularisation: the larger, the flatter.

    Returns
    -------
    [..., T]
        Weights in [0, 1] that sum to 1 over the mask; zeros for a row of which nothing is there.

    Raises
    ------
    ValueError
        If shapes differ, gamma is not positive, or a score that is not masked is not finite.
    """
    _check(scores, mask, gamma)
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min / 2)
    if not torch.isfinite(scores).all():
        raise _not_finite(scores)
    weights = (scores / gamma if gamma != 1 else scores).softmax(-1)
    return weights if mask is None else weights * mask


def sparsemax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0) -> Tensor:
    """The nearest point of the simplex to x / gamma: (x / gamma - tau)_+, weights of exactly 0.

    Source: eq. (A2), notebooks/06_sparse_attention.py; Martins and Astudillo 2016. Arguments as for `softmax`.
    """
    return _Projected.apply(scores, _check(scores, mask, gamma), gamma, 0.0, "nothing")


def fusedmax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.1) -> Tensor:
    """Sparse weights in contiguous segments of equal weight: simplex projection of the total-variation prox.

        P_simplex(P_TV(x / gamma)),   P_TV(x) = argmin_y |y - x|^2 / 2 + lam sum_i |y_{i+1} - y_i|

    Weights are uniform and have gradient 0 iff max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam: see `dead`.

    Source: eq. (A3), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, sec. 3.2. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of a step between neighbours; 0: sparsemax. 0.1 in the paper.
    """
    return _Projected.apply(scores, _check(scores, mask, gamma, lam), gamma, lam, "steps")


def oscarmax(
    scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.01, published: bool = False
) -> Tensor:
    """Sparse weights in groups of equal weight, wherever their members stand.

        P_simplex(pooled(x_(i) / gamma - lam (d - i))),   x_(1) >= ... >= x_(d)

    `pooled` is the nearest non-increasing sequence (pool adjacent violators), put back in the old order.

    Source: eq. (A4), notebooks/06_sparse_attention.py. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of the larger of each two weights; 0: sparsemax. 0.01 in the paper.
    published : bool
        The composition of Niculae and Blondel 2017, sec. 3.3: sorted by |x|, pooled, cut off at 0, signs restored.
        It is not the maximum where signs differ or something is cut off, and it changes when a constant is added.
    """
    return _Projected.apply(scores, _check(scores, mask, gamma, lam), gamma, lam, "published" if published else "ties")


def sq_pnorm_max(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, p: float = 1.5) -> Tensor:
    """Between the maximum (p -> 1) and sparsemax (p = 2).

        y = |v|_q^(2 - q) v^(q - 1),   v = (x - tau)_+ / gamma,   q = p / (p - 1),   tau such that y sums to 1

    Source: eq. (A5), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, sec. 3.1, which iterates instead.
    Arguments as for `softmax`.

    Parameters
    ----------
    p : float, in (1, 2]
        1.5 in the paper.
    """
    if not 1 < p <= 2:
        raise ValueError(f"p: got {p!r}, accepted is a number in (1, 2]")
    return _SquaredNorm.apply(scores, _check(scores, mask, gamma), gamma, p)


MAPPINGS = {
    "softmax": softmax,
    "sparsemax": sparsemax,
    "fusedmax": fusedmax,
    "oscarmax": oscarmax,
    "sq_pnorm_max": sq_pnorm_max,
}


def all_mappings(scores: Tensor, gamma: float = 1.0, lam: float = 0.1) -> dict[str, Tensor]:
    """Scores [..., T] through every mapping of `MAPPINGS`, by name; `lam` goes to fusedmax and oscarmax."""
    priced = {"fusedmax": {"lam": lam}, "oscarmax": {"lam": lam}}
    return {name: mapping(scores, gamma=gamma, **priced.get(name, {})) for name, mapping in MAPPINGS.items()}


def dead(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.1) -> Tensor:
    """Whether fusedmax is uniform over a row and its gradient exactly 0, bool [...].

        max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam

    Fresh dot-product scores are often this small: attention that starts here never moves. Source: eq. (A7),
    notebooks/06_sparse_attention.py.
    """
    mask = _check(scores, mask, gamma, lam)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    mean = torch.where(mask, scores, 0.0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    return torch.where(mask, scores - mean, 0.0).cumsum(-1).abs().amax(-1) <= gamma * lam


def _check(scores: Tensor, mask: Tensor | None, gamma: float, lam: float = 0.0) -> Tensor | None:
    if not gamma > 0:
        raise ValueError(f"gamma: got {gamma!r}, accepted is a number > 0")
    if not lam >= 0:
        raise ValueError(f"lam: got {lam!r}, accepted is a number >= 0")
    if mask is not None and mask.shape != scores.shape:
        raise ValueError(f"shapes differ: scores {tuple(scores.shape)}, mask {tuple(mask.shape)}")
    return mask


def _not_finite(scores: Tensor) -> ValueError:
    found = scores[~torch.isfinite(scores)][0].item()
    return ValueError(f"scores: found {found}, accepted are finite numbers; what must not be seen is masked")


# ------------------------------------------------------------------------------------ forward and backward passes


class _Projected(torch.autograd.Function):
    """Simplex projection of what `_prepare` makes of a row.

    The Jacobian of the projection takes the mean over the support off; that of the proxes averages over each group of
    equal values (times signs, for the published oscarmax). Source: eq. (A6), notebooks/06_sparse_attention.py.
    """

    @staticmethod
    def forward(ctx, scores, mask, gamma, lam, equal):
        rows, there = _rows(scores, mask)
        weights = np.empty_like(rows)
        groups = np.empty(rows.shape if equal != "nothing" else (0, 0), dtype=np.int32)
        signs = np.empty(rows.shape if equal == "published" else (0, 0), dtype=np.int8)
        finite = _project_rows(rows, there, gamma, lam, KINDS[equal], weights, groups, signs)
        if not finite:
            raise _not_finite(scores if mask is None else scores[mask])
        ctx.weights, ctx.groups, ctx.signs, ctx.gamma = weights, groups, signs, gamma
        return _tensor(weights, scores)

    @staticmethod
    @once_differentiable
    def backward(ctx, of_weights):
        grads, _ = _rows(of_weights, None)
        of_scores = np.empty_like(ctx.weights)
        _project_back(
            grads.astype(ctx.weights.dtype, copy=False), ctx.weights, ctx.groups, ctx.signs, ctx.gamma, of_scores
        )
        return _tensor(of_scores, of_weights), None, None, None, None


class _SquaredNorm(torch.autograd.Function):
    """sq-pnorm-max. With S the support, B = gamma (diag(d) + u u^T) the Hessian of gamma Omega on it:

        J v = B^-1 (v - c 1) on S,   c such that it sums to 0;   B^-1 by Sherman and Morrison

    Source: eq. (A6), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, proposition 1.
    """

    @staticmethod
    def forward(ctx, scores, mask, gamma, p):
        rows, there = _rows(scores, mask)
        weights = np.empty_like(rows)
        if not _norm_rows(rows, there, gamma, p, weights):
            raise _not_finite(scores if mask is None else scores[mask])
        weights = _tensor(weights, scores)
        ctx.save_for_backward(weights)
        ctx.gamma, ctx.p = gamma, p
        return weights

    @staticmethod
    @once_differentiable
    def backward(ctx, of_weights):
        (y,) = ctx.saved_tensors
        y, v, p = y.double(), of_weights.double(), ctx.p
        norm = torch.linalg.vector_norm(y, p, -1, keepdim=True).clamp(min=torch.finfo(y.dtype).tiny)
        y = y / norm  # B does not change
        support = y > 0
        inverse = torch.where(support, y ** (2 - p), 0.0) / (p - 1)  # of diag(d)
        u = (2 - p) ** 0.5 * torch.where(support, y ** (p - 1), 0.0)
        bent = inverse * u
        share = 1 + (u * bent).sum(-1, keepdim=True)

        def solved(w: Tensor) -> Tensor:
            return inverse * w - bent * (bent * w).sum(-1, keepdim=True) / share

        of_ones = solved(support.to(y.dtype))
        total = of_ones.sum(-1, keepdim=True)
        c = solved(v).sum(-1, keepdim=True) / total.where(total != 0, 1.0)
        return ((solved(v) - c * of_ones) / ctx.gamma).to(of_weights.dtype), None, None, None


def _rows(values: Tensor, mask: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """[..., T] as arrays [N, T] of float32 or float64 and of bool (empty: all are there)."""
    values = values.detach().cpu()
    values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    shape = values.shape[:-1].numel(), values.shape[-1]
    values = values.reshape(shape).contiguous().numpy()
    if mask is None:
        return values, np.empty((0, 0), dtype=np.bool_)
    return values, mask.detach().cpu().reshape(shape).contiguous().numpy()


def _tensor(rows: np.ndarray, like: Tensor) -> Tensor:
    return torch.from_numpy(rows).view(like.shape).to(like)


# ------------------------------------------------------------------------------------------- the rows, by numba

KINDS = {"nothing": 0, "steps": 1, "ties": 2, "published": 3}  # what a penalty makes equal


@njit(cache=True)
def _gather(row, there, masked, scale, x, place):
    """Copy `scale` times what is there of a row to the front of `x`, and where it stood to `place`.

    Returns how many there are, or -1 if one is not finite.
    """
    n = 0
    for t in range(row.size):
        if not masked or there[t]:
            if not np.isfinite(row[t]):
                return -1
            x[n] = scale * row[t]
            place[n] = t
            n += 1
    return n


@njit(cache=True)
def _threshold(x, n, above):
    """tau with sum_i (x_i - tau)_+ = 1: take the mean of all, drop what is below, again (Michelot 1986).

    Only what is less than 1 below the largest can be in the support; `above` is room for it.
    """
    top = x[:n].max()
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
            return top + tau
        count = kept


@njit(cache=True)
def _smooth(x, n, lam, groups, low, high, knots, slopes, shifts):
    """x <- argmin_y |y - x|^2 / 2 + lam sum |y_{i+1} - y_i|, in place; `groups`: the run each position is in.

    Dynamic programming (Johnson 2013): the derivative of the cost of the first i values, as a function of the last of
    them, is increasing and piecewise linear; the next step cuts it off at -lam and lam, at the places low_i and
    high_i. Going back, y_i is y_{i+1} cut off there: neighbours are equal or they are not, without rounding.
    """
    if n == 1 or lam == 0:
        for i in range(n):
            groups[i] = i
        return
    # the derivative: slope_first y + shift_first, and each knot adds to both; mirrored from the right
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
def _descending(key, n, order):
    """`order`: places of the keys, largest first. Rows are short, so insertion beats numpy's sort up to 128."""
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
def _pool(x, n, lam, groups, signs, published, sums, sizes, key, order):
    """x <- prox of the OSCAR penalty, in place; `groups`: the pool each position is in (pool adjacent violators)."""
    for i in range(n):
        key[i] = abs(x[i]) if published else x[i]
    _descending(key, n, order)
    pools = 0
    for i in range(n):
        sums[pools], sizes[pools] = key[order[i]] - lam * (n - 1 - i), 1
        pools += 1
        while pools > 1 and sums[pools - 2] * sizes[pools - 1] <= sums[pools - 1] * sizes[pools - 2]:
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
def _project_rows(rows, there, gamma, lam, kind, weights, groups, signs):
    """Weights of all rows, with groups (and signs) for the backward pass; False if a number is not finite."""
    size = rows.shape[1]
    x, sign, place = np.empty(size), np.ones(size), np.empty(size, np.int64)
    group, order = np.empty(size, np.int64), np.empty(size, np.int64)
    low, high, sums, sizes = np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64)
    knots, slopes, shifts = np.empty(2 * size), np.empty(2 * size), np.empty(2 * size)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    weights[:] = 0.0
    for r in range(rows.shape[0]):
        n = _gather(rows[r], there[r] if masked else everything, masked, 1 / gamma, x, place)
        if n < 0:
            return False
        if n > 0:
            if kind == 1:
                _smooth(x, n, lam, group, low, high, knots, slopes, shifts)
            elif kind >= 2:
                _pool(x, n, lam, group, sign, kind == 3, sums, sizes, low, order)
            tau = _threshold(x, n, low)
            for i in range(n):
                weights[r, place[i]] = max(x[i] - tau, 0.0)
        if kind > 0:
            groups[r] = -1
            for i in range(n):
                groups[r, place[i]] = group[i]
        if kind == 3:
            for i in range(n):
                signs[r, place[i]] = sign[i]
    return True


@njit(cache=True)
def _project_back(grads, weights, groups, signs, gamma, of_scores):
    """Gradient of the scores: the mean over the support taken off, then averaged over groups."""
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
                of_scores[r, t] = (grads[r, t] - mean) / gamma if weights[r, t] > 0 else 0.0
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
            of_scores[r, t] = 0.0
            if g >= 0:
                of_scores[r, t] = sums[g] / sizes[g] / gamma * (1 if signs.size == 0 else signs[r, t])


@njit(cache=True)
def _norm_sums(x, n, tau, q):
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
def _norm_rows(rows, there, gamma, p, weights):
    """sq-pnorm-max of all rows: Newton's method for tau, kept inside a bracket; False if a number is not finite."""
    size = rows.shape[1]
    x, place = np.empty(size), np.empty(size, np.int64)
    masked, everything = there.size > 0, np.empty(0, np.bool_)
    weights[:] = 0.0
    q = p / (p - 1)
    bend = (2 - q) / q
    for r in range(rows.shape[0]):
        n = _gather(rows[r], there[r] if masked else everything, masked, 1 / gamma, x, place)
        if n < 0:
            return False
        if n == 0:
            continue
        top = x[:n].max()
        for i in range(n):
            x[i] -= top
        low, high = -1.0, -(n ** (-2 / q))  # one weight alone, and all equal
        tau = low
        for _ in range(100):
            scale, two, one, all_of = _norm_sums(x, n, tau, q)
            excess = scale * all_of**bend * one - 1  # falls in tau
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
        scale, _, one, _ = _norm_sums(x, n, tau, q)
        for i in range(n):
            v = (x[i] - tau) / scale
            if v > 0:
                weights[r, place[i]] = v ** (q - 1) / one
    return True
