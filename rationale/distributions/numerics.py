"""The numerics behind the distributions: log(1 - exp(x)), the Kumaraswamy's draw and masses, and a quadrature rule."""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn.functional import logsigmoid

LN2 = math.log(2.0)
SINGLE_DRAW = torch.Size()  # the default `sample_shape`


def _log1mexp_and_odds(x: Tensor) -> tuple[Tensor, Tensor]:
    """ln(1 - e^x) and the odds e^x / (1 - e^x), for x < 0, accurate to the last digits near 0 and near -inf.

    ln(1 - e^x) is ln(-expm1(x)) above -ln 2 and log1p(-e^x) below. The two formulas are added, not selected: the
    argument of the one that does not apply is clamped to 1/2, and its value there cancels the constant ln 2 exactly.
    This is several times as fast as `torch.where`.
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

    x = 0 is treated as minus the smallest normal number. The derivative is limited to about 1e19 (float32) or
    1e154 (float64) in magnitude, so that its product with another large number is still finite.

    Examples
    --------
    >>> x = torch.tensor(-1e-10)
    >>> log1mexp(x), (1 - x.exp()).log()  # the textbook form loses all digits
    (tensor(-23.0259), tensor(-inf))
    """
    return _Log1mExp.apply(x.clamp(max=-torch.finfo(x.dtype).tiny))


class KumaraswamyLogCdf(Function):
    """ln(1 - (1 - e^x)^b) for x < 0: the log cdf of a Kumaraswamy at x = a ln k.

    With y = -b log1mexp(x): ln F = ln(1 - e^-y), which equals ln b + x once e^x is below the rounding error.

        d lnF / dx = [odds(x) / -log1mexp(x)] [y / (e^y - 1)]        d lnF / db = [y / (e^y - 1)] / b

    Both brackets tend to 1 where they would be 0 / 0. Source: eq. (H4), notebooks/02_hardkuma.py.
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


class KumaraswamyMasses(Function):
    """The masses P(K <= k0), P(K > k1) and P(k0 < K <= k1) of a Kumaraswamy, given x_j = ln k_j.

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


class KumaraswamyDraw(Function):
    """The draw clip(left + (right - left) k, low, high) where P(K > k) = s, given ln s.

        c = ln(s) / b             ln k = log1mexp(c) / a
        dk/da = -k ln k / a       dk/db = k odds(c) c / (a b)       dk/dc = -k odds(c) / a

    If `rectified` is True, the derivative is 0 where the draw is clipped; otherwise clipping only keeps the draw
    strictly inside (0, 1). Source: eq. (K7), notebooks/01_kumaraswamy.py, and (H6), notebooks/02_hardkuma.py.
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
    """ln u, with u uniform on the whole of (0, 1).

    Where `torch.rand` returns 0, which stands for the interval [0, eps / 2), u is its middle, eps / 4.
    """
    u = torch.rand(shape, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).eps / 4).log_()


def clamp_to_interior(value: Tensor) -> Tensor:
    """`value`, with 0 and 1 replaced by the nearest normal numbers inside (0, 1)."""
    info = torch.finfo(value.dtype)
    return value.clamp(info.tiny, 1 - info.eps / 2)


def clip_limits(like: Tensor, left: float, right: float) -> tuple[float, float]:
    """The limits to which a rectified draw is clipped: 0 and 1.

    If the distribution has no mass at 0 (left = 0) or at 1 (right = 1), the limit is the nearest number inside (0, 1)
    instead, so that no draw is rounded to that end.
    """
    info = torch.finfo(like.dtype)
    return (0.0 if left < 0 else info.tiny), (1.0 if right > 1 else 1 - info.eps / 2)


def with_boundary_values(value: Tensor, inside: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """`inside` where 0 < value < 1, `low` for value <= 0, `high` for value >= 1."""
    return torch.where(value <= 0, low, torch.where(value >= 1, high, inside))


@functools.lru_cache(maxsize=32)
def quadrature_rule(num_axes: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Double-exponential quadrature rule on (0, 1), in float64.

        v = sigmoid(pi sinh s)     integral_0^1 g(v) dv = sum_j weight_j g(v_j)     s_j = 0.09 j, |j| <= 37

    The nodes are dense near both ends, so that logarithmic singularities there do not reduce the accuracy.
    Source: Takahasi & Mori 1974.

    Parameters
    ----------
    num_axes : int
        Number of axes of size 1 that follow the axis of nodes.

    Returns
    -------
    ln v [nodes, 1, ..., 1], ln(1 - v) [nodes, 1, ..., 1], weights [nodes]
    """
    s = 0.09 * torch.arange(-37, 38, dtype=torch.float64)
    x = math.pi * s.sinh()
    log_v, log_rest = logsigmoid(x), logsigmoid(-x)
    weight = s.cosh() * (log_v + log_rest).exp()
    shape = [-1] + [1] * num_axes
    return log_v.to(device).view(shape), log_rest.to(device).view(shape), (weight / weight.sum()).to(device)


def average_over_quantiles(weight: Tensor, values: Tensor) -> Tensor:
    """sum_j weight_j values_j, over the leading axis, which is that of the nodes."""
    return torch.tensordot(weight.to(values.dtype), values, 1)


def in_float64(statistic: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """Decorator: compute a statistic with float64 parameters and return it in the distribution's own dtype."""

    @functools.wraps(statistic)
    def cast(self):
        if self._like.dtype == torch.float64:
            return statistic(self)
        return statistic(self._map(Tensor.double)).to(self._like.dtype)

    return cast


def log_pochhammer(x: Tensor, d: Tensor) -> Tensor:
    """ln Gamma(x + d) - ln Gamma(x) for x >= 1, d >= 0, in float64.

    This is the logarithm of the Pochhammer symbol. From x = 16 on, where the difference would cancel, it is computed
    with Stirling's series.
    """

    def remainder(y):
        r = (y * y).reciprocal()
        return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / y

    big, small = x.clamp(min=16.0), x.clamp(max=16.0)
    stirling = (big + d - 0.5) * (d / big).log1p() + d * (big.log() - 1) + (remainder(big + d) - remainder(big))
    return torch.where(x < 16, torch.lgamma(small + d) - torch.lgamma(small), stirling)
