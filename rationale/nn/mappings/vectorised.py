"""The vectorised form of the mappings: torch operations on all rows at once, on any device.

All functions take scores [..., T], a mask (bool [..., T] or None) and gamma, as in `rows.apply_to_rows`, and return
weights in float64 (float32 on devices without it).

Each function first finds, without gradients, what is discrete or implicit: the support, the groups, the threshold. Then
it computes the weights from it with differentiable operations, so torch derives them, in any mode (where a threshold is
implicit, up to the third order, see `DIFFERENTIATED_STEPS`). The searches whose number of steps depends on the numbers
are operators (`rationale::...`), which torch.export and torch.func.vmap treat as one step.

A row with a score of NaN or inf gives NaN: an error would make a GPU wait.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from rationale.nn.mappings.rows import Form, batch_first, is_only_vectorised, top_of, unmasked


# ----------------------------------------------------------------------------------------------- scores, sums, sorting
def levelled(scores: Tensor, mask: Tensor | None, gamma: float, level: bool = True) -> tuple[Tensor, Tensor]:
    """(scores - largest score of the row) / gamma, 0 where masked; and the mask, in which scores of -inf are masked."""
    there = unmasked(scores, mask)
    x = torch.where(there, scores.to(widest(scores)), 0.0)
    if level:
        x = torch.where(there, x - top_of(x, there), 0.0)
    limit = 1e300 if x.dtype == torch.float64 else 1e30
    return (x / gamma).clamp(-limit, limit), there


def widest(values: Tensor) -> torch.dtype:
    """The most precise dtype of the device."""
    return torch.float32 if values.device.type == "mps" else torch.float64


def unmasked_first(x: Tensor, there: Tensor, descending: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Rows with their unmasked values in front (the largest first if `descending`), their mask, and the order."""
    key = x.detach().masked_fill(~there, -torch.inf) if descending else there.to(torch.uint8)
    order = key.argsort(dim=-1, descending=True, stable=True)
    return x.gather(-1, order), there.gather(-1, order), order


def back_in_place(x: Tensor, order: Tensor) -> Tensor:
    """The inverse of `unmasked_first`."""
    return x.gather(-1, order.argsort(dim=-1))


def project(x: Tensor, there: Tensor) -> Tensor:
    """The nearest point of the simplex, over the unmasked values of each row.

    With the values in descending order, the k-th belongs to the support iff 1 + k x_(k) > x_(1) + ... + x_(k).

    Source: eq. (A2), notebooks/40_sparse_attention.py.
    """
    x = x - top_of(x, there)
    values = x.detach().masked_fill(~there, -torch.inf).sort(dim=-1, descending=True).values
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=x.dtype)
    count = (1 + ranks * values > values.cumsum(-1)).sum(-1, keepdim=True)
    last = values.gather(-1, (count - 1).clamp(min=0)) if x.shape[-1] else values
    support = there & (x.detach() >= last)
    size = support.sum(-1, keepdim=True).clamp(min=1).to(x.dtype)  # not `count`: of equal values it may hold a part
    undefined = values[..., :1].isnan()  # NaN is the largest in torch's order
    weights = (x - (torch.where(support, x, 0.0).sum(-1, keepdim=True) - 1) / size).clamp(min=0)
    return torch.where(support, weights, 0.0).masked_fill(undefined, torch.nan)


# ---------------------------------------------------------------------------------------------------------- the maps
def sparsemax(scores: Tensor, mask: Tensor | None, gamma: float) -> Tensor:
    """Sorted projection; see `nn.sparsemax`."""
    return project(*levelled(scores, mask, gamma))


def fusedmax(scores: Tensor, mask: Tensor | None, gamma: float, lam: float) -> Tensor:
    """Segments by repeated splitting, then the projection; see `nn.fusedmax`."""
    x, there = levelled(scores, mask, gamma)
    if lam == 0:
        return project(x, there)
    x = x.clamp(min=-1 - 4 * lam)  # lower scores have weight 0 and no effect on others; sums keep their precision
    x, front, order = unmasked_first(x, there)
    breaks = find_breaks(x.detach(), front.sum(-1), lam, False)
    return back_in_place(project(smoothed(x, front, breaks, lam), front), order)


def oscarmax(scores: Tensor, mask: Tensor | None, gamma: float, lam: float, published: bool) -> Tensor:
    """Pools by repeated splitting of the sorted scores, then the projection; see `nn.oscarmax`."""
    x, there = levelled(scores, mask, gamma, level=not published)
    if lam == 0 and not published:
        return project(x, there)
    signs = x.detach().sign() if published else torch.ones_like(x)
    nearest = top_of(x, there).abs()  # 0 if level
    reach = 1 + lam * x.shape[-1] + 1e-6 * nearest  # scores further away have weight 0 and no effect on others
    values, front, order = unmasked_first((x * signs).clamp(nearest - reach, nearest + reach), there, descending=True)
    count = front.sum(-1, keepdim=True)
    ranks = torch.arange(1, x.shape[-1] + 1, device=x.device)
    priced = torch.where(front, values - lam * (count - ranks).to(x.dtype), 0.0)
    if lam > 0:
        breaks = find_breaks(priced.detach() - nearest, front.sum(-1), 0.0, True)
        priced = smoothed(priced, front, breaks, 0.0)
    if not published:
        return back_in_place(project(priced, front), order)
    return project(signs * back_in_place(priced.clamp(min=0), order), there)


def entmax(scores: Tensor, mask: Tensor | None, gamma: float, alpha: Tensor) -> Tensor:
    """A threshold by Newton's method; see `nn.entmax`. `alpha` [..., 1]."""
    x, there = levelled(scores, mask, gamma)
    empty = ~there.any(-1, keepdim=True)
    alpha = alpha.to(x.dtype).expand(*x.shape[:-1], 1)
    shift = find_shift(x.detach(), there | empty, alpha.detach())
    for _ in range(DIFFERENTIATED_STEPS):
        y, slopes = tsallis_exp(x - shift, there | empty, alpha)
        total = y.sum(-1, keepdim=True)
        shift = shift + (total - total.detach()) / slopes.sum(-1, keepdim=True)
    y, _ = tsallis_exp(x - shift, there | empty, alpha)
    return (y / y.sum(-1, keepdim=True)).masked_fill(empty, 0.0)  # for alpha > 2, y is steep at the end of the support


def sq_pnorm_max(scores: Tensor, mask: Tensor | None, gamma: float, p: float) -> Tensor:
    """A threshold by Newton's method; see `nn.sq_pnorm_max`."""
    x, there = levelled(scores, mask, gamma)
    empty, q = ~there.any(-1, keepdim=True), p / (p - 1)
    tau = find_tau(x.detach(), there | empty, q)
    for _ in range(DIFFERENTIATED_STEPS):
        _, excess, slope = norm_weights(x, there | empty, tau, q)
        tau = tau - (excess - excess.detach()) / slope
    return norm_weights(x, there | empty, tau, q)[0].masked_fill(empty, 0.0)


# A threshold is found without gradients. A step of Newton's method from there, written so that it changes no number,
# gives the threshold its first derivative; each further step doubles the order that is right, plus one: 1, 3, 7.
DIFFERENTIATED_STEPS = 2


# ------------------------------------------------------------------------------------------------------------- pieces
def smoothed(x: Tensor, front: Tensor, breaks: Tensor, lam: float) -> Tensor:
    """The value of each segment: the mean of its scores, moved by the price of its two ends.

    x [..., T], unmasked values in front; front, bool [..., T]; breaks as from `find_breaks`.
    """
    before = pad_left(breaks)
    groups = (before != 0).cumsum(-1)
    total = torch.zeros_like(x).scatter_add(-1, groups, torch.where(front, x + lam * (breaks - before), 0.0))
    size = torch.zeros_like(x).scatter_add(-1, groups, front.to(x.dtype))
    return torch.where(front, (total / size.clamp(min=1)).gather(-1, groups), 0.0)


def pad_left(values: Tensor) -> Tensor:
    """Each value at the place after its own, 0 at the first place: [..., T]."""
    return F.pad(values, (1, 0))[..., :-1]


def tsallis_exp(w: Tensor, there: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """y = (1 + (alpha - 1) w)_+^(1 / (alpha - 1)), which is exp(w) at alpha = 1, and dy/dw = y^(2 - alpha)."""
    a = (alpha - 1).expand_as(w)
    base = 1 + a * w
    support = there & ~(base <= 0)  # NaN stays
    w, base = torch.where(support, w, 0.0), torch.where(support, base, 1.0)
    y = torch.where(support, (w * log1p_ratio(a * w)).exp(), 0.0)
    return y, y / base


def log1p_ratio(s: Tensor) -> Tensor:
    """ln(1 + s) / s, which is 1 at s = 0, with all derivatives there."""
    small = s.abs() < 0.01
    series = torch.zeros_like(s)
    for power in range(8, 0, -1):
        series = 1 / power - s * series
    safe = torch.where(small, 1.0, s)
    return torch.where(small, series, safe.log1p() / safe)


def norm_weights(x: Tensor, there: Tensor, tau: Tensor, q: float) -> tuple[Tensor, Tensor, Tensor]:
    """Weights of eq. (A5) at tau [..., 1], divided by their sum; that sum less 1, and its derivative in tau.

    x <= 0 is 0 somewhere, so v = (x - tau) / -tau is at most 1, and no power overflows.
    """
    v = (x - tau) / -tau
    support = there & ~(v <= 0)  # NaN stays
    v = torch.where(support, v, 1.0)
    two, one, all_of = (torch.where(support, v**power, 0.0) for power in (q - 2, q - 1, q))
    two, total, all_of = (powers.sum(-1, keepdim=True) for powers in (two, one, all_of))
    norm = all_of ** ((2 - q) / q)
    slope = (q - 2) * norm / all_of * total**2 - (q - 1) * norm * two
    return one / total, -tau * norm * total - 1, slope


# ----------------------------------------------------------------------------------------------------------- searches
def search(name: str, shape_of: Form) -> Callable[[Form], Form]:
    """Make a function an operator of torch: `torch.export` keeps it as one step, `torch.func.vmap` adds rows to it.

    `shape_of` gives, from its first argument, an empty tensor like its result.
    """

    def decorate(function: Form) -> Form:
        operator = torch.library.custom_op(f"rationale::{name}", function, mutates_args=())
        operator.register_fake(lambda x, *_: shape_of(x))

        def batched(info, in_dims, *arguments):
            return operator(*batch_first(info.batch_size, in_dims, arguments)), 0

        operator.register_vmap(batched)

        @functools.wraps(function)
        def called(*arguments):
            if torch.compiler.is_compiling() or not is_only_vectorised():
                return operator(*arguments)
            with torch.no_grad():  # an operator is called by way of torch's compiler, which takes 80 MB of memory
                return function(*arguments)

        return called

    return decorate


@search("find_breaks", torch.empty_like)
def find_breaks(x: Tensor, count: Tensor, lam: float, sorted_: bool) -> Tensor:
    """Where the nearest smooth sequence to a row changes: after each place -1 (down), 1 (up) or 0; [..., T].

    argmin_y |y - x|^2 / 2 + lam sum_i |y_{i+1} - y_i|    or, if `sorted_`, the nearest y with y_1 >= ... >= y_n

    With breaks known, y is the mean of each segment, moved by the price of its ends. The dual variable u_k = sum_{i<=k}
    (y_i - x_i) of a constant segment has to stay in [-lam, lam] (sorted: be at least 0). Where it does not, the segment
    breaks at the place where u is furthest outside. That break is final: as the price falls, segments break up and
    never join. So all segments of all rows are split at once, until none has to be: QuickHull, for the taut string.

    x [..., T] with the values of a row in its first `count` [...] places.
    """
    places = torch.arange(x.shape[-1], device=x.device).expand(x.shape)
    last = places >= count.unsqueeze(-1) - 1  # the end of a row, or no place of it
    breaks, sums = torch.zeros_like(x), x.cumsum(-1)
    while True:
        ends = last | (breaks != 0)
        begin = torch.where(pad_left(ends.long()) != 0, places, 0).cummax(-1).values
        end = torch.where(ends, places, x.shape[-1] - 1).flip(-1).cummin(-1).values.flip(-1)
        before = lam * pad_left(breaks).gather(-1, begin)  # u at the beginning of the segment
        sums_before = (sums - x).gather(-1, begin)
        rise = sums.gather(-1, end) - sums_before + lam * breaks.gather(-1, end) - before
        share = (places - begin + 1).to(x.dtype) / (end - begin + 1)
        u = before + rise * share - (sums - sums_before)
        outside = (-u if sorted_ else u.abs() - lam).masked_fill(ends, 0.0)
        furthest = torch.zeros_like(x).scatter_reduce(-1, begin, outside, "amax").gather(-1, begin)
        split = (outside == furthest) & (outside > 0)
        if not split.any():
            return breaks
        breaks = torch.where(split, u.sign(), breaks)


@search("find_shift", lambda x: x.new_empty(*x.shape[:-1], 1))
def find_shift(x: Tensor, there: Tensor, alpha: Tensor) -> Tensor:
    """The shift u >= 0 [..., 1] at which the weights of entmax sum to 1; x [..., T] is at most 0, alpha [..., 1]."""
    a, log_count = alpha - 1, there.sum(-1, keepdim=True).to(x.dtype).log()
    divisor = torch.where(a == 0, 1.0, a)
    high = torch.where(a == 0, log_count, -torch.expm1(-a * log_count) / divisor)

    def excess_and_slope(shift: Tensor) -> tuple[Tensor, Tensor]:  # as `tsallis_exp`, without its derivatives
        w = x - shift
        support = there & ~(a * w <= -1)  # NaN stays
        w = torch.where(support, w, 0.0)
        y = torch.where(a == 0, w, (a * w).log1p() / divisor).exp() * support
        return y.sum(-1, keepdim=True) - 1, -(y / (1 + a * w)).sum(-1, keepdim=True)

    return root(excess_and_slope, torch.zeros_like(high), high)


@search("find_tau", lambda x: x.new_empty(*x.shape[:-1], 1))
def find_tau(x: Tensor, there: Tensor, q: float) -> Tensor:
    """The threshold tau < 0 [..., 1] at which the weights of sq-pnorm-max sum to 1; x [..., T] is at most 0."""
    count = there.sum(-1, keepdim=True).to(x.dtype)
    low, high = -torch.ones_like(count), -(count ** (-2 / q))  # for a single weight, and for equal weights
    return root(lambda tau: norm_weights(x, there, tau, q)[1:], low, high)


def root(excess_and_slope: Callable[[Tensor], tuple[Tensor, ...]], low: Tensor, high: Tensor) -> Tensor:
    """Where a decreasing function is 0: Newton's method from `low`, with a bracket, halved where a step leaves it."""
    at, precision = low, 16 * torch.finfo(low.dtype).eps * (high - low)
    for _ in range(100):
        excess, slope = excess_and_slope(at)
        low, high = torch.where(excess > 0, at, low), torch.where(excess > 0, high, at)
        new = at - excess / slope
        new = torch.where((new < low) | (new > high), (low + high) / 2, new)
        moved = (new - at).abs() > precision
        at = new
        if not moved.any():
            break
    return at
