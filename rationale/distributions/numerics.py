"""log(1 - exp(x)), the differentiable hot paths of the Kumaraswamy, and the fixed quadrature rule."""

import functools
import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

LN2 = math.log(2.0)
ONCE = torch.Size()


def _log1mexp_and_odds(x: Tensor) -> tuple[Tensor, Tensor]:
    """ln(1 - e^x) and its odds e^x / (1 - e^x), x < 0, to the last digits at both ends.

    ln(1 - e^x) is ln(-expm1(x)) above -ln 2 and log1p(-e^x) below. The two are added, not selected (the one
    not wanted is clamped to ln(1/2) + ln 2 = 0 exactly): several times as fast as `torch.where`.
    """
    power, rest = x.exp(), x.expm1().neg_()
    value = rest.clamp(max=0.5).log_().add_(LN2).add_(power.clamp(max=0.5).neg_().log1p_())
    return value, power.div_(rest)


class _Log1mExp(Function):
    @staticmethod
    def forward(ctx, x):
        value, odds = _log1mexp_and_odds(x)
        ctx.save_for_backward(odds.clamp_(max=torch.finfo(x.dtype).tiny ** -0.5))
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return -grad * ctx.saved_tensors[0]


def log1mexp(x: Tensor) -> Tensor:
    """ln(1 - e^x) for x < 0, with derivative -e^x / (1 - e^x), eq. (K2), notebooks/01_kumaraswamy.py.

    x = 0 is read as minus the smallest normal number, and the derivative stops at about 1e19 (float32) or
    1e154 (float64), so that its product with another large number is still finite.

    Examples
    --------
    >>> x = torch.tensor(-1e-10)
    >>> log1mexp(x), (1 - x.exp()).log()  # the textbook form has lost all digits
    (tensor(-23.0259), tensor(-inf))
    """
    return _Log1mExp.apply(x.clamp(max=-torch.finfo(x.dtype).tiny))


class LogCdf(Function):
    """ln(1 - (1 - e^x)^b), x < 0: ln F of a Kumaraswamy at x = a ln k.

    With y = -b log1mexp(x): ln F = ln(1 - e^-y), which is ln b + x once e^x has run out of digits.

        d lnF / dx = [odds(x) / -log1mexp(x)] [y / (e^y - 1)]        d lnF / db = [y / (e^y - 1)] / b

    Both brackets tend to 1 where they would read 0 / 0. Source: eq. (H4), notebooks/02_hardkuma.py.
    """

    @staticmethod
    def forward(ctx, x, b):
        eps, tiny = torch.finfo(x.dtype).eps, torch.finfo(x.dtype).tiny
        log_rest, odds = _log1mexp_and_odds(x.clamp(max=-tiny))
        far, y = x < math.log(eps), -b * log_rest
        log_y = b.log() + torch.where(far, x, (-log_rest).log())
        in_x, in_y = torch.where(far, 1.0, odds / -log_rest), torch.where(y < eps, 1.0, y / y.expm1())
        ctx.save_for_backward(b, in_x, in_y)
        return torch.where(log_y < math.log(eps), log_y, _log1mexp_and_odds(-y.clamp(min=tiny))[0])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        b, in_x, in_y = ctx.saved_tensors
        return grad * in_y * in_x, (grad * in_y / b).sum_to_size(b.shape)


class Masses(Function):
    """P(K <= k0), P(K > k1) and P(k0 < K <= k1) of a Kumaraswamy, given x_j = ln k_j.

        w_j = log1mexp(a x_j)                 S_j = P(K > k_j) = exp(b w_j)
        masses = -expm1(b w_0),  S_1,  -S_0 expm1(b (w_1 - w_0))
        dS_j/da = -b S_j x_j odds(a x_j)      dS_j/db = S_j w_j

    Source: eq. (H3)-(H4), notebooks/02_hardkuma.py.
    """

    @staticmethod
    def forward(ctx, a, b, x_zero, x_one):
        w_zero, odds_zero = _log1mexp_and_odds(a * x_zero)
        w_one, odds_one = _log1mexp_and_odds(a * x_one)
        log_nonzero = b * w_zero
        nonzero, one = log_nonzero.exp(), (b * w_one).exp_()
        interior = (w_one - w_zero).mul_(b).expm1_().mul_(nonzero).neg_()
        ctx.save_for_backward(b, w_zero, w_one, odds_zero, odds_one, nonzero, one)
        ctx.coordinates = x_zero, x_one
        return log_nonzero.expm1_().neg_(), one, interior

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_zero, grad_one, grad_interior):
        b, w_zero, w_one, odds_zero, odds_one, nonzero, one = ctx.saved_tensors
        x_zero, x_one = ctx.coordinates
        by_zero = (grad_interior - grad_zero).mul_(nonzero)  # S_0 dL/dS_0
        by_one = (grad_one - grad_interior).mul_(one)  # S_1 dL/dS_1
        grad_b = (by_zero * w_zero).addcmul_(by_one, w_one)
        by_zero, by_one = by_zero.mul_(b).mul_(odds_zero), by_one.mul_(b).mul_(odds_one)
        return by_zero.mul_(-x_zero).add_(by_one, alpha=-x_one), grad_b, None, None


class KumaDraw(Function):
    """clip(left + (right - left) k, low, high) where P(K > k) = s, given ln s.

        c = ln(s) / b             ln k = log1mexp(c) / a
        dk/da = -k ln k / a       dk/db = k odds(c) c / (a b)       dk/dc = -k odds(c) / a

    If `rectified`, the derivative is 0 on the clip; else the clip only keeps a draw representable.
    Source: eq. (K7), notebooks/01_kumaraswamy.py, and (H6), notebooks/02_hardkuma.py.
    """

    @staticmethod
    def forward(ctx, log_s, a, b, left, right, low, high, rectified):
        info = torch.finfo(log_s.dtype)
        c = (log_s / b).clamp_(info.min, -info.tiny)
        log_k, odds = _log1mexp_and_odds(c)
        k = log_k.div_(a).exp()
        draw = (k * (right - left)).add_(left).clamp_(low, high)
        ctx.save_for_backward(log_s, a, b, c, odds, log_k, k, draw)
        ctx.width, ctx.rectified = right - left, rectified
        return draw

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        log_s, a, b, c, odds, log_k, k, draw = ctx.saved_tensors
        by_k = (grad * ctx.width).mul_(k).div_(a)
        if ctx.rectified:
            by_k.mul_((draw * (1 - draw)).sign_())  # 1 for 0 < draw < 1, else 0
        by_c = by_k * odds
        grad_s = (-by_c / b).sum_to_size(log_s.shape) if ctx.needs_input_grad[0] else None
        grad_a = by_k.mul_(log_k).neg_().sum_to_size(a.shape)
        grad_b = by_c.mul_(c).div_(b).sum_to_size(b.shape)
        return grad_s, grad_a, grad_b, None, None, None, None, None


def log_uniform(shape: torch.Size, like: Tensor) -> Tensor:
    """ln u, u uniform on the whole of (0, 1); where `torch.rand` says 0 the middle of its cell is taken."""
    u = torch.rand(shape, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).eps / 4).log_()


def off_the_ends(value: Tensor) -> Tensor:
    """`value` moved off the ends of [0, 1] to the nearest normal number inside."""
    info = torch.finfo(value.dtype)
    return value.clamp(info.tiny, 1 - info.eps / 2)


def clip(like: Tensor, left: float, right: float) -> tuple[float, float]:
    """0 and 1; where the mass there is missing, the next number inside: no draw may round to it."""
    info = torch.finfo(like.dtype)
    return (0.0 if left < 0 else info.tiny), (1.0 if right > 1 else 1 - info.eps / 2)


def with_ends(value: Tensor, inside: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """`inside` where 0 < value < 1, `low` for value <= 0, `high` for value >= 1."""
    return torch.where(value <= 0, low, torch.where(value >= 1, high, inside))


@functools.lru_cache(maxsize=32)
def unit_rule(num_axes: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Double-exponential rule on (0, 1): ln v and ln(1 - v) [nodes, 1, ..., 1], weights [nodes], float64.

        v = sigmoid(pi sinh s)     integral_0^1 g(v) dv = sum_j weight_j g(v_j)     s_j = 0.09 j, |j| <= 37

    Nodes crowd towards both ends, so that a logarithm there costs nothing. Source: Takahasi & Mori 1974.
    """
    s = 0.09 * torch.arange(-37, 38, dtype=torch.float64)
    x = math.pi * s.sinh()
    log_v, log_rest = logsigmoid(x), logsigmoid(-x)
    weight = s.cosh() * (log_v + log_rest).exp()
    shape = [-1] + [1] * num_axes
    return log_v.to(device).view(shape), log_rest.to(device).view(shape), (weight / weight.sum()).to(device)


def average_over_quantiles(weight: Tensor, values: Tensor) -> Tensor:
    """sum_j weight_j values_j over the leading axis of nodes."""
    return torch.tensordot(weight.to(values.dtype), values, 1)


def in_double(statistic):
    """Compute a statistic with float64 parameters; return it in the law's own dtype."""

    @functools.wraps(statistic)
    def cast(self):
        if self._like.dtype == torch.float64:
            return statistic(self)
        return statistic(self._map(Tensor.double)).to(self._like.dtype)

    return cast


def log_gamma_rise(x: Tensor, d: Tensor) -> Tensor:
    """ln Gamma(x + d) - ln Gamma(x), x >= 1, d >= 0, float64; Stirling where the two would cancel."""

    def rest(y):
        r = (y * y).reciprocal()
        return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / y

    big, small = x.clamp(min=16.0), x.clamp(max=16.0)
    stirling = (big + d - 0.5) * (d / big).log1p() + d * (big.log() - 1) + (rest(big + d) - rest(big))
    return torch.where(x < 16, torch.lgamma(small + d) - torch.lgamma(small), stirling)
