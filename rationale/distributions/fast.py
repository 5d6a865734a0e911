"""The Kumaraswamy's masses, draw, log cdf and log density, with first derivatives that are written by hand.

They reuse the forward pass, and where the chain rule would give inf * 0 they return the limit. The readable forms
stand beside them as `partials`, from which all higher derivatives follow. With x = ln k and

    w(x) = ln(1 - k^a) = log1mexp(a x)     odds(y) = e^y / (1 - e^y)     dw/da = -x odds(a x)     dw/dx = -a odds(a x)

the survival function is S = P(K > k) = exp(b w).
"""

import math

import torch
from torch import Tensor

from rationale.distributions.numerics import Elementwise, fast_log1mexp_and_odds, log1mexp_and_odds, log_share


def _or_zeros(grad: Tensor | None, like: Tensor) -> Tensor:
    return torch.zeros_like(like) if grad is None else grad


# ------------------------------------------------------------------------------------------------------------ masses
class _Masses(Elementwise):
    num_inputs, num_results = 2, 3

    @staticmethod
    def forward(a, b, x_zero, x_one):
        w_zero, odds_zero = fast_log1mexp_and_odds(a * x_zero)
        w_one, odds_one = fast_log1mexp_and_odds(a * x_one)
        log_nonzero = b * w_zero
        nonzero, one = log_nonzero.exp(), (b * w_one).exp_()
        interior = (w_one - w_zero).mul_(b).expm1_().mul_(nonzero).neg_()
        return log_nonzero.expm1_().neg_(), one, interior, w_zero, w_one, odds_zero, odds_one, nonzero

    @classmethod
    def fast_backward(cls, ctx, *grads):
        _, b, _, one, _, w_zero, w_one, odds_zero, odds_one, nonzero = ctx.saved_tensors
        grad_zero, grad_one, grad_interior = (_or_zeros(grad, b) for grad in grads)
        x_zero, x_one = ctx.constants
        by_zero = (grad_interior - grad_zero) * nonzero  # S_0 dL/dS_0
        by_one = (grad_one - grad_interior) * one  # S_1 dL/dS_1
        grad_b = torch.addcmul(by_zero * w_zero, by_one, w_one)
        by_zero, by_one = by_zero.mul_(b).mul_(odds_zero), by_one.mul_(b).mul_(odds_one)
        return torch.add(by_zero.mul_(-x_zero), by_one, alpha=-x_one), grad_b

    @classmethod
    def partials(cls, a, b, x_zero, x_one):
        (w_zero, odds_zero), (w_one, odds_one) = log1mexp_and_odds(a * x_zero), log1mexp_and_odds(a * x_one)
        nonzero, one = (b * w_zero).exp(), (b * w_one).exp()
        nonzero_by_a, nonzero_by_b = -b * nonzero * x_zero * odds_zero, nonzero * w_zero
        one_by_a, one_by_b = -b * one * x_one * odds_one, one * w_one
        return [
            [-nonzero_by_a, -nonzero_by_b],
            [one_by_a, one_by_b],
            [nonzero_by_a - one_by_a, nonzero_by_b - one_by_b],
        ]


def kumaraswamy_masses(a: Tensor, b: Tensor, x_zero: float, x_one: float) -> tuple[Tensor, ...]:
    """The masses P(K <= k0), P(K > k1) and P(k0 < K <= k1) of a Kumaraswamy, given x_j = ln k_j.

        w_j = log1mexp(a x_j)                 S_j = P(K > k_j) = exp(b w_j)
        masses = -expm1(b w_0),  S_1,  -S_0 expm1(b (w_1 - w_0))
        dS_j/da = -b S_j x_j odds(a x_j)      dS_j/db = S_j w_j

    Source: eq. (H3)-(H4), notebooks/03_hardkuma.py.
    """
    return _Masses.of(a, b, x_zero, x_one)[:3]


# -------------------------------------------------------------------------------------------------------------- draw
class _Draw(Elementwise):
    num_inputs = 3

    @staticmethod
    def forward(log_s, a, b, left, right, low, high, rectified):  # noqa: ARG004  only the derivative depends on it
        info = torch.finfo(log_s.dtype)
        c = (log_s / b).clamp_(info.min, -info.tiny)
        log_k, odds = fast_log1mexp_and_odds(c)
        k = log_k.div_(a).exp()
        draw = (k * (right - left)).add_(left).clamp_(low, high)
        return draw, c, odds, log_k, k

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,) = grads
        if grad is None:
            return None, None, None
        log_s, a, b, draw, c, odds, log_k, k = ctx.saved_tensors
        left, right, *_, rectified = ctx.constants
        by_k = (grad * k).mul_(right - left).div_(a)  # in this order, 0 where k is, also for the largest gradient
        if rectified:
            by_k.mul_((draw * (1 - draw)).sign_())  # 1 for 0 < draw < 1, else 0
        by_c = by_k * odds
        grad_s = (-by_c / b).sum_to_size(log_s.shape) if ctx.needs_input_grad[0] else None
        return grad_s, by_k.mul_(log_k).neg_().sum_to_size(a.shape), by_c.mul_(c).div_(b).sum_to_size(b.shape)

    @classmethod
    def partials(cls, log_s, a, b, left, right, low, high, rectified):
        info = torch.finfo(log_s.dtype)
        c = (log_s / b).clamp(info.min, -info.tiny)
        log_k, odds = log1mexp_and_odds(c)
        log_k = log_k / a
        k = log_k.exp()
        by_k = k * (right - left) / a
        if rectified:
            draw = k.detach() * (right - left) + left
            by_k = by_k * ((draw > low) & (draw < high)).to(k.dtype)
        by_c = by_k * odds
        return [[-by_c / b, -by_k * log_k, by_c * c / b]]


def kumaraswamy_draw(
    log_s: Tensor, a: Tensor, b: Tensor, support: tuple[float, float], limits: tuple[float, float], rectified: bool
) -> Tensor:
    """The draw clip(left + (right - left) k, low, high) where P(K > k) = s, given ln s.

        c = ln(s) / b             ln k = log1mexp(c) / a
        dk/da = -k ln k / a       dk/db = k odds(c) c / (a b)       dk/dc = -k odds(c) / a

    If `rectified` is True, the derivative is 0 where the draw is clipped; otherwise clipping only keeps the draw
    strictly inside (0, 1). Source: eq. (K7), notebooks/02_kumaraswamy.py, and (H6), notebooks/03_hardkuma.py.
    """
    return _Draw.of(log_s, a, b, *support, *limits, rectified)[0]


# ----------------------------------------------------------------------------------------------------------- log cdf
def _log_cdf_parts(x: Tensor, b: Tensor, log_rest: Tensor, odds: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """ln F and the two brackets of its derivative, see `kumaraswamy_log_cdf`."""
    eps, tiny = torch.finfo(x.dtype).eps, torch.finfo(x.dtype).tiny
    far, y = x < math.log(eps), -b * log_rest
    log_y = b.log() + torch.where(far, x, (-log_rest).log())
    in_x, in_y = torch.where(far, 1.0, odds / -log_rest), torch.where(y < eps, 1.0, y / y.expm1())
    value = torch.where(log_y < math.log(eps), log_y, fast_log1mexp_and_odds(-y.clamp(min=tiny))[0])
    return value, in_x, in_y


def _log_cdf_brackets(x: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The two brackets of `kumaraswamy_log_cdf`, differentiable."""
    far = x < math.log(torch.finfo(x.dtype).eps)
    log_rest, odds = log1mexp_and_odds(torch.where(far, -1.0, x))
    log_rest = torch.where(far, log1mexp_and_odds(x)[0], log_rest)
    y = -b * log_rest
    small = torch.where(y < 0.1, y, 0.0)
    large = torch.where(y < 0.1, 1.0, y)
    series = 1 - small / 2 + small**2 / 12 - small**4 / 720 + small**6 / 30240
    return torch.where(far, 1.0, odds / -log_rest), torch.where(y < 0.1, series, large * log1mexp_and_odds(-large)[1])


class _LogCdf(Elementwise):
    num_inputs = 2

    @staticmethod
    def forward(x, b):
        return _log_cdf_parts(x, b, *fast_log1mexp_and_odds(x.clamp(max=-torch.finfo(x.dtype).tiny)))

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,) = grads
        if grad is None:
            return None, None
        x, b, _, in_x, in_y = ctx.saved_tensors
        return (grad * in_y * in_x).sum_to_size(x.shape), (grad * in_y / b).sum_to_size(b.shape)

    @classmethod
    def partials(cls, x, b):
        in_x, in_y = _log_cdf_brackets(x, b)
        return [[in_y * in_x, in_y / b]]


def kumaraswamy_log_cdf(x: Tensor, b: Tensor) -> Tensor:
    """ln(1 - (1 - e^x)^b) for x < 0: the log cdf of a Kumaraswamy at x = a ln k.

    With y = -b log1mexp(x): ln F = ln(1 - e^-y), which equals ln b + x once e^x is below the rounding error.

        d lnF / dx = [odds(x) / -log1mexp(x)] [y / (e^y - 1)]        d lnF / db = [y / (e^y - 1)] / b

    Both brackets tend to 1 where they would be 0 / 0. Source: eq. (H4), notebooks/03_hardkuma.py.
    """
    return _LogCdf.of(x, b)[0]


# ---------------------------------------------------------------------------------------------------- log probability
def _limits(value: Tensor, x_zero: float | None, x_one: float | None) -> tuple[float, float]:
    """The interval of values with a finite coordinate: without a mass, an end of [0, 1] is not in it."""
    info = torch.finfo(value.dtype)
    return (info.tiny if x_zero is None else 0.0), (1 - info.eps / 2 if x_one is None else 1.0)


class _HardKumaLogProb(Elementwise):
    num_inputs = 3

    @staticmethod
    def forward(value, a, b, left, right, x_zero, x_one):
        info = torch.finfo(value.dtype)
        inside = value.clamp(*_limits(value, x_zero, x_one))
        x = (1 - inside).add_(right - 1).div_(inside.sub_(left)).log1p_().neg_()
        y = (a * x).clamp_(max=-info.tiny)
        w, odds = fast_log1mexp_and_odds(y)
        log_b, log_survival = b.log(), b * w
        result = (w * (b - 1)).add_((a - 1) * x).add_(a.log()).add_(log_b).sub_(math.log(right - left))
        result = torch.where(value >= 1, -math.inf if x_one is None else log_survival, result)
        zero: Tensor | float = -math.inf
        if x_zero is not None:  # as in `kumaraswamy_log_cdf`; where a number underflows, the other bound is the limit
            log_y = torch.maximum(w.neg().log_(), y).add_(log_b)
            zero = torch.minimum(fast_log1mexp_and_odds(log_survival.clamp_(max=-info.tiny))[0], log_y)
        result = torch.where(value <= 0, zero, result)
        outside = (value.clamp(0, 1) - value).sign_().mul_(info.max).square_()  # 0 in [0, 1], else inf
        return result.sub_(outside), x, w, odds.clamp_(max=info.tiny**-0.5)

    @classmethod
    def fast_backward(cls, ctx, *grads):
        (grad,) = grads
        if grad is None:
            return None, None, None
        value, a, b, _, x, w, odds = ctx.saved_tensors
        left, _, x_zero, x_one = ctx.constants
        within = value.clamp(0, 1)
        one, not_zero = (1 - within).sign_().neg_().add_(1) * grad, within.sign_() * grad
        inside = not_zero - one  # the gradient where 0 < value < 1, else 0
        if x_one is None:
            one, not_zero = torch.zeros_like(one), inside
        grad_value = None
        if ctx.needs_input_grad[0]:
            below = value.clamp(*_limits(value, x_zero, x_one)) - left
            slope = (inside * (a * odds).mul_(1 - b).add_(a - 1)).div_(below)
            largest = torch.finfo(value.dtype).max  # also where the quotient overflows, its product with 0 is 0
            grad_value = slope.clamp_(-largest, largest).sum_to_size(value.shape)
        grad_a = torch.addcmul(inside, b, not_zero, value=-1).mul_(odds).add_(inside).mul_(x).addcdiv_(inside, a)
        grad_b = (w * not_zero).addcdiv_(inside, b)
        if x_zero is not None:
            tiny = torch.finfo(w.dtype).tiny
            rest = w.neg().clamp_(min=tiny)
            y = (rest * b).clamp_(min=tiny)
            by_y = (grad - inside).sub_(one).mul_(y).div_(y.expm1())
            grad_b.addcdiv_(by_y, b)
            grad_a.addcmul_(by_y.mul_(odds.clamp(min=tiny)).div_(rest), x)
        return grad_value, grad_a.sum_to_size(a.shape), grad_b.sum_to_size(b.shape)

    @classmethod
    def partials(cls, value, a, b, left, right, x_zero, x_one):
        closed, opened = value <= 0, value >= 1
        inside = value.clamp(*_limits(value, x_zero, x_one))
        below = inside - left
        x = log_share(below, (1 - inside) + (right - 1))
        w, odds = log1mexp_and_odds(a * x)
        by_value = torch.where(closed | opened, 0.0, ((1 - b) * a * odds + (a - 1)) / below)
        by_a, by_b = 1 / a + x + (1 - b) * odds * x, 1 / b + w
        zero_a = zero_b = one_a = one_b = torch.zeros_like(by_a)
        if x_zero is not None:
            in_x, in_y = _log_cdf_brackets(a * x_zero, b)
            zero_a, zero_b = in_y * in_x * x_zero, in_y / b
        if x_one is not None:
            one_w, one_odds = log1mexp_and_odds(a * x_one)
            one_a, one_b = -b * one_odds * x_one, one_w
        by_a = torch.where(closed, zero_a, torch.where(opened, one_a, by_a))
        by_b = torch.where(closed, zero_b, torch.where(opened, one_b, by_b))
        return [[by_value, by_a, by_b]]


def hardkuma_log_prob(
    value: Tensor, a: Tensor, b: Tensor, support: tuple[float, float], ends: tuple[float | None, float | None]
) -> Tensor:
    """ln P(H = 0) for value <= 0, ln P(H = 1) for value >= 1 and the log density of a HardKuma in between.

        x = -ln(1 + (right - h) / (h - left))       ends: the x of h = 0 and of h = 1, None where there is no mass
        ln f = ln a + ln b + (a - 1) x + (b - 1) w - ln(right - left)
        d lnf/da = 1/a + x + (1 - b) odds(a x) x    d lnf/db = 1/b + w    dx/dh = 1 / (h - left)

    One logarithm of 1 - k^a serves the density and both masses: x is that of k0 where h = 0 and of k1 where h = 1.
    Source: eq. (H5), notebooks/03_hardkuma.py.
    """
    return _HardKumaLogProb.of(value, a, b, *support, *ends)[0]
