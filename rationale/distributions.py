"""Gates with mass at exactly 0 and exactly 1: HardKuma, Hard Concrete, what they are made of, and Bernoulli.

    K ~ Kumaraswamy(a, b) on (0, 1)      base, eq. (K1)-(K8), notebooks/01_kumaraswamy.py
    T = left + (right - left) K          stretched, eq. (H1), notebooks/02_hardkuma.py
    H = min(1, max(0, T))                rectified, eq. (H2): two masses and, between them, a density

Sources: Kumaraswamy 1980; Bastings, Aziz & Titov 2019 (HardKuma); Louizos, Welling & Kingma 2018 (Hard
Concrete); Wasserman & Mateos 2025 (the Kumaraswamy through log(1 - exp(x))).

How the numbers stay right. No formula here holds an epsilon; three ideas replace it.

1. A law is written in a coordinate x that keeps its digits where the value runs out of them: x = ln k for the
   Kumaraswamy, x = logit s for the Binary Concrete. Then ln P(K > k) = b log1mexp(a x), with
   log1mexp(x) = ln(1 - e^x), and every mass is an exp or an expm1 of such a logarithm.
2. A draw starts from ln u, u uniform on the whole of (0, 1), read as the draw's *survival* probability.
3. The gradients of the hot paths (the draw, the three masses) are written out: they reuse the forward pass,
   and where the chain rule reads inf * 0 they hold the limit.

Statistics that need an integral (mean, variance, entropy, KL) average over the quantiles of the interior, in
float64, by one fixed rule: deterministic, differentiable, cast back to the dtype of the parameters.
"""

import functools
import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.distributions import Beta, Distribution, Uniform, constraints, kl_divergence, register_kl
from torch.distributions.utils import broadcast_all, lazy_property
from torch.nn.functional import logsigmoid, softplus

__all__ = ["Kumaraswamy", "BinaryConcrete", "StretchedRectified", "HardKuma", "HardConcrete", "log1mexp"]
__all__ += ["Bernoulli", "StraightThroughBernoulli"]

LN2 = math.log(2.0)
ONCE = torch.Size()


# --- log(1 - exp(x)) and the hot paths ------------------------------------------------------------


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


class _LogCdf(Function):
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


class _Masses(Function):
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


class _KumaDraw(Function):
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


# --- small tools ----------------------------------------------------------------------------------


def log_uniform(shape: torch.Size, like: Tensor) -> Tensor:
    """ln u, u uniform on the whole of (0, 1); where `torch.rand` says 0 the middle of its cell is taken."""
    u = torch.rand(shape, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).eps / 4).log_()


def _inside(value: Tensor) -> Tensor:
    """`value` moved off the ends of [0, 1] to the nearest normal number inside."""
    info = torch.finfo(value.dtype)
    return value.clamp(info.tiny, 1 - info.eps / 2)


def _clip(like: Tensor, left: float, right: float) -> tuple[float, float]:
    """0 and 1; where the mass there is missing, the next number inside: no draw may round to it."""
    info = torch.finfo(like.dtype)
    return (0.0 if left < 0 else info.tiny), (1.0 if right > 1 else 1 - info.eps / 2)


def _with_ends(value: Tensor, inside: Tensor, low: Tensor | float, high: Tensor | float) -> Tensor:
    """`inside` where 0 < value < 1, `low` for value <= 0, `high` for value >= 1."""
    return torch.where(value <= 0, low, torch.where(value >= 1, high, inside))


@functools.lru_cache(maxsize=32)
def _unit_rule(num_axes: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
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


def _average(weight: Tensor, values: Tensor) -> Tensor:
    """sum_j weight_j values_j over the leading axis of nodes."""
    return torch.tensordot(weight.to(values.dtype), values, 1)


def _in_double(statistic):
    """Compute a statistic with float64 parameters; return it in the law's own dtype."""

    @functools.wraps(statistic)
    def cast(self):
        if self._like.dtype == torch.float64:
            return statistic(self)
        return statistic(self._map(Tensor.double)).to(self._like.dtype)

    return cast


# --- laws on (0, 1) -------------------------------------------------------------------------------


class _UnitLaw(Distribution):
    """A continuous law on (0, 1), written in a coordinate x in which its tails keep their digits.

    A family holds its parameters under the names in `arg_constraints` and gives

    _coordinate(below, above, log)   x of the value below / (below + above); floats with log=math.log
    _value(x)                        the value
    _log_survival_at(x), _log_cdf_at(x), _log_prob_at(x)   ln P(K > k), ln P(K <= k), ln f(k)
    _quantile_at(log_s)              x with ln P(K > k) = log_s
    _edge_exponents                  (p, q) with f ~ k^p at 0 and f ~ (1 - k)^q at 1

    Everything else follows; a family overrides what it can do better.
    """

    support = constraints.unit_interval
    has_rsample = True

    def _log_between(self, x_zero: float, x_one: float) -> Tensor:
        """ln P(k0 < K <= k1)."""
        log_nonzero = self._log_survival_at(x_zero)
        return log_nonzero + log1mexp(self._log_survival_at(x_one) - log_nonzero)

    def _masses(self, x_zero: float, x_one: float) -> tuple[Tensor, ...]:
        """P(K <= k0), P(K > k1), P(k0 < K <= k1)."""
        logs = self._log_cdf_at(x_zero), self._log_survival_at(x_one), self._log_between(x_zero, x_one)
        return tuple(log.exp() for log in logs)

    def _rectified_at(self, log_s: Tensor, left: float, right: float) -> Tensor:
        """clip(left + (right - left) k, 0, 1) with ln P(K > k) = log_s."""
        return (left + (right - left) * self._value_at(log_s)).clamp(*_clip(log_s, left, right))

    def _log_prob_along(self, other: "_UnitLaw", log_s: Tensor) -> Tensor:
        """Log density of this law where `other`, of the same family, has log survival `log_s`."""
        return self._log_prob_at(other._quantile_at(log_s))

    def _value_at(self, log_s: Tensor) -> Tensor:
        """k with ln P(K > k) = log_s."""
        return self._value(self._quantile_at(log_s))

    @property
    def _like(self) -> Tensor:
        """A tensor with the dtype and device of the law."""
        return getattr(self, next(iter(self.arg_constraints)))

    def _map(self, change) -> "_UnitLaw":
        """The same family with `change` applied to each parameter, unvalidated."""
        new = type(self).__new__(type(self))
        for name in self.arg_constraints:
            setattr(new, name, change(getattr(self, name)))
        Distribution.__init__(new, new._like.shape, validate_args=False)
        return new

    def expand(self, batch_shape, _instance=None):
        new = self._map(lambda parameter: parameter.expand(torch.Size(batch_shape)))
        new._validate_args = self._validate_args
        return new

    def _at(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = _inside(value)
        return self._coordinate(value, 1 - value)

    def log_survival(self, value: Tensor) -> Tensor:
        """ln P(K > value): 0 at 0, -inf at 1."""
        return _with_ends(value, self._log_survival_at(self._at(value)), 0.0, -math.inf)

    def log_cdf(self, value: Tensor) -> Tensor:
        """ln P(K <= value): -inf at 0, 0 at 1. Keeps its digits where the cdf itself underflows."""
        return _with_ends(value, self._log_cdf_at(self._at(value)), -math.inf, 0.0)

    def cdf(self, value: Tensor) -> Tensor:
        return _with_ends(value, -self._log_survival_at(self._at(value)).expm1(), 0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return _with_ends(value, self._value_at((-_inside(value)).log1p()), 0.0, 1.0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density; at 0 and 1 its limit, which may be +inf or -inf."""
        inside = self._log_prob_at(self._at(value))

        def limit(power):
            return torch.where(power == 0, inside, torch.where(power < 0, math.inf, -math.inf))

        return _with_ends(value, inside, *map(limit, self._edge_exponents))

    def rsample(self, sample_shape=ONCE) -> Tensor:
        """Reparameterised draws, eq. (K7), strictly inside (0, 1); rounding to an end is undone."""
        return _inside(self._value_at(log_uniform(self._extended_shape(sample_shape), self._like)))


def _log_gamma_rise(x: Tensor, d: Tensor) -> Tensor:
    """ln Gamma(x + d) - ln Gamma(x), x >= 1, d >= 0, float64; Stirling where the two would cancel."""

    def rest(y):
        r = (y * y).reciprocal()
        return (1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r / 1188)))) / y

    big, small = x.clamp(min=16.0), x.clamp(max=16.0)
    stirling = (big + d - 0.5) * (d / big).log1p() + d * (big.log() - 1) + (rest(big + d) - rest(big))
    return torch.where(x < 16, torch.lgamma(small + d) - torch.lgamma(small), stirling)


class Kumaraswamy(_UnitLaw):
    """Kumaraswamy(a, b) on (0, 1): like a Beta, with cdf and quantile function in closed form.

        f(k) = a b k^(a-1) (1 - k^a)^(b-1)     F(k) = 1 - (1 - k^a)^b     F^-1(u) = (1 - (1-u)^(1/b))^(1/a)

    Source: eq. (K1)-(K8), notebooks/01_kumaraswamy.py; Kumaraswamy 1980. Coordinate: x = ln k.

    Parameters
    ----------
    a, b : positive, broadcast against each other
        `a` shapes the end at 0 (density ~ k^(a-1)), `b` the end at 1 (density ~ (1-k)^(b-1)).

    Raises
    ------
    ValueError
        If a parameter is not positive (unless `validate_args=False`).

    Notes
    -----
    In float32, values and gradients are finite for a, b in [1e-3, 1e2] and never NaN in [1e-30, 1e30].
    Masses, densities and draws carry the rounding of their logarithm: a relative error of 1e-7 (1 + |ln p|).

    Examples
    --------
    >>> law = Kumaraswamy(2.0, 3.0)
    >>> law.cdf(torch.tensor(0.5))  # 1 - (1 - 0.5^2)^3
    tensor(0.5781)
    >>> law.icdf(torch.tensor(0.578125))
    tensor(0.5000)
    >>> law.mean, law.mode, law.entropy()
    (tensor(0.4571), tensor(0.4472), tensor(-0.2084))
    """

    arg_constraints = {"a": constraints.positive, "b": constraints.positive}

    def __init__(self, a, b, validate_args: bool | None = None):
        self.a, self.b = broadcast_all(a, b)
        super().__init__(self.a.shape, validate_args=validate_args)

    @staticmethod
    def _coordinate(below, above, log=torch.log):
        return log(below / (below + above))

    def _value(self, x):
        return x.exp()

    def _log_survival_at(self, x):
        return self.b * log1mexp(self.a * x)

    def _log_cdf_at(self, x):
        return _LogCdf.apply(self.a * x, self.b)

    def _log_prob_at(self, x):
        return self.a.log() + self.b.log() + (self.a - 1) * x + (self.b - 1) * log1mexp(self.a * x)

    def _quantile_at(self, log_s):
        return log1mexp(log_s / self.b) / self.a

    def _masses(self, x_zero, x_one):
        return _Masses.apply(self.a, self.b, x_zero, x_one)

    def _value_at(self, log_s):
        info = torch.finfo(log_s.dtype)
        return _KumaDraw.apply(log_s, self.a, self.b, 0.0, 1.0, info.tiny, 1 - info.eps / 2, False)

    def _rectified_at(self, log_s, left, right):
        return _KumaDraw.apply(log_s, self.a, self.b, left, right, *_clip(log_s, left, right), True)

    def _log_prob_along(self, other, log_s):
        """With c = ln(1 - k^a') of the other: ln(1 - k^a) is c + ln(a / a') once k is 1 to the last digit."""
        c, ratio = log_s / other.b, self.a / other.a
        log_rest = torch.where(c > -300, log1mexp(ratio * log1mexp(c.clamp(min=-300))), c + ratio.log())
        x = other._quantile_at(log_s)
        return self.a.log() + self.b.log() + (self.a - 1) * x + (self.b - 1) * log_rest

    @property
    def _edge_exponents(self):
        return self.a - 1, self.b - 1

    @property
    def _harmonic(self) -> Tensor:
        """H_b = psi(b + 1) + gamma = -a E[ln K]: the harmonic number of a real b."""
        return torch.digamma(self.b + 1) + 0.5772156649015329

    def _log_moment(self, n: int) -> Tensor:
        """ln E[K^n] = ln [Gamma(1 + p) Gamma(1 + b) / Gamma(1 + p + b)], p = n / a: symmetric in p and b."""
        p = n / self.a
        few, many = torch.minimum(p, self.b), torch.maximum(p, self.b)
        return torch.lgamma(1 + few) - _log_gamma_rise(1 + many, few)

    @property
    @_in_double
    def mean(self) -> Tensor:
        """E[K] = b B(1 + 1/a, b), eq. (K4)."""
        return self._log_moment(1).exp()

    @property
    @_in_double
    def variance(self) -> Tensor:
        """E[K^2] - E[K]^2, taken as E[K^2] (1 - E[K]^2 / E[K^2])."""
        log_second = self._log_moment(2)
        return -log_second.exp() * (2 * self._log_moment(1) - log_second).clamp(max=0).expm1()

    @property
    @_in_double
    def median(self) -> Tensor:
        """F^-1(1/2) = (1 - 2^(-1/b))^(1/a), eq. (K3)."""
        return self._value(self._quantile_at(self.b.new_tensor(-LN2)))

    @property
    @_in_double
    def mode(self) -> Tensor:
        """The point of highest density, eq. (K5); carries no gradient.

        ((a-1) / (ab-1))^(1/a) for a, b >= 1; 0 where the density falls (a < 1 <= b), 1 where it rises
        (b < 1 <= a). A U (a, b < 1) is unbounded at both ends: the end on the median's side is returned. The
        uniform law (a = b = 1) has no mode: 1/2 is returned.
        """
        a, b = self.a.detach(), self.b.detach()
        up, down = (a - 1).clamp(min=0), (a * (b - 1)).clamp(min=0)
        peak = ((up / (up + down).clamp(min=torch.finfo(a.dtype).tiny)).log() / a).exp()
        peak = torch.where(b < 1, ((a >= 1) | (self.median.detach() > 0.5)).to(a.dtype), peak)
        return torch.where((a == 1) & (b == 1), 0.5, peak)

    @_in_double
    def entropy(self) -> Tensor:
        """1 - 1/b + (1 - 1/a) H_b - ln(ab), differential, in nats, eq. (K6)."""
        return 1 - 1 / self.b + (1 - 1 / self.a) * self._harmonic - self.a.log() - self.b.log()


class BinaryConcrete(_UnitLaw):
    """Binary Concrete: logistic noise, shifted by `logits`, divided by `temperature`, squashed to (0, 1).

        s = sigmoid((logit u + logits) / temperature)     P(S > s) = sigmoid(logits - temperature logit s)

    Source: eq. (H12), notebooks/02_hardkuma.py; Maddison et al. 2017; Jang et al. 2017. Coordinate: logit s.

    Parameters
    ----------
    logits : Tensor, real
    temperature : Tensor, > 0
        Broadcast against `logits`.
    """

    arg_constraints = {"logits": constraints.real, "temperature": constraints.positive}

    def __init__(self, logits, temperature, validate_args: bool | None = None):
        self.logits, self.temperature = broadcast_all(logits, temperature)
        super().__init__(self.logits.shape, validate_args=validate_args)

    @staticmethod
    def _coordinate(below, above, log=torch.log):
        return log(below) - log(above)

    def _value(self, x):
        return x.sigmoid()

    def _gap(self, x):
        return self.logits - self.temperature * x

    def _log_survival_at(self, x):
        return logsigmoid(self._gap(x))

    def _log_cdf_at(self, x):
        return logsigmoid(-self._gap(x))

    def _log_prob_at(self, x):
        gap = self._gap(x)
        return self.temperature.log() + logsigmoid(gap) + logsigmoid(-gap) + softplus(x) + softplus(-x)

    def _quantile_at(self, log_s):
        return (log1mexp(log_s) - log_s + self.logits) / self.temperature

    def _log_between(self, x_zero, x_one):
        """sigmoid(p) - sigmoid(q) = sigmoid(p) sigmoid(-q) (1 - e^(q-p)), without the subtraction."""
        width = log1mexp(self.temperature * (x_zero - x_one))
        return logsigmoid(self._gap(x_zero)) + logsigmoid(-self._gap(x_one)) + width

    @property
    def _edge_exponents(self):
        return self.temperature - 1, self.temperature - 1

    def _logistic_mean(self, of) -> Tensor:
        """E[of(z, logits, temperature)] over logistic z, by the trapezoidal rule."""
        z = torch.arange(-640, 641, dtype=self.logits.dtype, device=self.logits.device) / 16
        weight = (logsigmoid(z) + logsigmoid(-z)).exp() / 16
        return _average(weight, of(z.view([-1] + [1] * self.logits.ndim), self.logits, self.temperature))

    @property
    @_in_double
    def mean(self) -> Tensor:
        """E[S] = E[sigmoid((z + m) / t)] = E[sigmoid(m + t z)] (by parts); the flatter one is summed."""
        return self._logistic_mean(lambda z, m, t: (m / t.clamp(min=1) + z * t.minimum(1 / t)).sigmoid())

    @property
    @_in_double
    def variance(self) -> Tensor:
        def second(z, m, t):
            return torch.where(t > 1, ((z + m) / t).sigmoid() ** 2, 2 * z.sigmoid() * (m - t * z).sigmoid())

        return (self._logistic_mean(second) - self.mean**2).clamp(min=0)

    @property
    @_in_double
    def mode(self) -> Tensor:
        """The point of highest density; carries no gradient.

        Up to temperature 1 the density peaks at an end; the likelier one is returned (1 for logits = 0).
        Above 1 there is one peak, where tanh(x/2) = t tanh((t x - m)/2), x = logit s; found by bisection.
        """
        m, t = self.logits.detach(), self.temperature.detach()
        reach = 2 * (1 / t.clamp(min=1 + 1e-9)).atanh()
        low, high = (m - reach) / t, (m + reach) / t
        for _ in range(60):
            middle = (low + high) / 2
            rising = (middle / 2).tanh() > t * ((t * middle - m) / 2).tanh()
            low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
        return torch.where(t > 1, low.sigmoid(), (m >= 0).to(m.dtype))

    @_in_double
    def entropy(self) -> Tensor:
        """2 - ln t - E[softplus(x) + softplus(-x)], x = (z + m) / t, z logistic; to 1e-8 for t >= 0.1."""
        spread = self._logistic_mean(lambda z, m, t: softplus((z + m) / t) + softplus(-(z + m) / t))
        return 2 - self.temperature.log() - spread


class _Adapted(_UnitLaw):
    """Any other continuous law with `cdf`, `icdf` and `log_prob`, in the coordinate x = value."""

    arg_constraints = {}

    def __init__(self, base: Distribution):
        self.base = base
        super().__init__(base.batch_shape, validate_args=False)

    @property
    def _like(self):
        return self.base.icdf(torch.tensor(0.5))

    @staticmethod
    def _coordinate(below, above, log=None):
        return below / (below + above)

    def _value(self, x):
        return x

    def _cdf_at(self, x):
        return self.base.cdf(x if isinstance(x, Tensor) else self._like.new_tensor(x))

    def _log_survival_at(self, x):
        return (-self._cdf_at(x)).log1p()

    def _log_cdf_at(self, x):
        return self._cdf_at(x).log()

    def _log_prob_at(self, x):
        return self.base.log_prob(x)

    def _quantile_at(self, log_s):
        return self.base.icdf(-log_s.expm1())


# --- stretch and rectify --------------------------------------------------------------------------


class StretchedRectified(Distribution):
    """H = clip(left + (right - left) K, 0, 1): a law on (0, 1) whose overhang is folded onto 0 and 1.

    With k0 = -left / (right - left) and k1 = (1 - left) / (right - left):

        P(H = 0) = F(k0)     P(H = 1) = 1 - F(k1)     f_T(h) = f((h - left)/(right - left)) / (right - left)

    The density f_T stands *beside* the masses: it integrates to P(0 < H < 1), not to 1.
    Source: eq. (H1)-(H11), notebooks/02_hardkuma.py; Bastings et al. 2019, sec. 3.

    Parameters
    ----------
    base : Distribution
        `Kumaraswamy` or `BinaryConcrete`; or any law with `cdf`, `icdf` and `log_prob` (at its own accuracy).
    left, right : floats, left <= 0 and right >= 1
        left = 0 leaves no mass at 0, right = 1 no mass at 1 (DiffMask's half-open [0, 1)).

    Raises
    ------
    ValueError
        If left > 0 or right < 1, or if the base refuses its parameters.

    Notes
    -----
    `prob_*` are masses in [0, 1]; `log_prob_*` their logarithms, right even where the mass underflows.
    `mean` is E[H], `conditional_mean` is E[H | 0 < H < 1], and the mean of the base is `base.mean`. Mean,
    variance and entropy of a HardKuma are right to 1e-10 (relative, float64) for a, b in [1e-3, 1e3]. On a
    half-open support the density may have a pole: then the mean to 1e-7, and a small variance to 1e-3.
    """

    arg_constraints = {}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, base: Distribution, left=-0.1, right=1.1, validate_args: bool | None = None):
        if not (-math.inf < left <= 0 and 1 <= right < math.inf):
            raise ValueError(f"expected left <= 0 and right >= 1, got left={left}, right={right}")
        self.base, self.left, self.right = base, float(left), float(right)
        self._law = base if isinstance(base, _UnitLaw) else _Adapted(base)
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)
        self._validate_args = base._validate_args if validate_args is None else validate_args
        coordinate = functools.partial(self._law._coordinate, log=math.log)
        self._x_zero = coordinate(-self.left, self.right) if left < 0 else None
        self._x_one = coordinate(1 - self.left, self.right - 1) if right > 1 else None

    def expand(self, batch_shape, _instance=None):
        new = type(self).__new__(type(self))
        base = self.base.expand(torch.Size(batch_shape))
        StretchedRectified.__init__(new, base, self.left, self.right, validate_args=self._validate_args)
        for name in self.arg_constraints:
            setattr(new, name, getattr(base, name))
        return new

    def _map(self, change) -> "StretchedRectified":
        base = self.base if isinstance(self._law, _Adapted) else self.base._map(change)
        return StretchedRectified(base, self.left, self.right, validate_args=False)

    @property
    def _like(self) -> Tensor:
        return self._law._like

    @lazy_property
    def _logs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """ln P(H = 0), ln P(H != 0), ln P(H = 1), ln P(0 < H < 1); a missing mass is exactly ln 0."""
        law, x_zero, x_one = self._law, self._x_zero, self._x_one
        sure = torch.zeros_like(self._like).expand(self.batch_shape)
        nonzero = sure if x_zero is None else law._log_survival_at(x_zero)
        zero = sure - math.inf if x_zero is None else law._log_cdf_at(x_zero)
        if x_one is None:
            return zero, nonzero, sure - math.inf, nonzero
        interior = law._log_cdf_at(x_one) if x_zero is None else law._log_between(x_zero, x_one)
        return zero, nonzero, law._log_survival_at(x_one), interior

    @lazy_property
    def _masses(self) -> tuple[Tensor, ...]:
        """P(H = 0), P(H = 1), P(0 < H < 1)."""
        if self._x_zero is None or self._x_one is None:
            return tuple(self._logs[j].exp() for j in (0, 2, 3))
        return self._law._masses(self._x_zero, self._x_one)

    prob_zero = property(lambda self: self._masses[0], doc="P(H = 0), eq. (H3).")
    prob_one = property(lambda self: self._masses[1], doc="P(H = 1), eq. (H3).")
    prob_interior = property(lambda self: self._masses[2], doc="P(0 < H < 1), eq. (H3).")
    log_prob_zero = property(lambda self: self._logs[0], doc="ln P(H = 0), eq. (H4).")
    log_prob_nonzero = property(lambda self: self._logs[1], doc="ln P(H != 0): of the expected L0.")
    log_prob_one = property(lambda self: self._logs[2], doc="ln P(H = 1), eq. (H4).")
    log_prob_interior = property(lambda self: self._logs[3], doc="ln P(0 < H < 1), eq. (H4).")

    def rsample(self, sample_shape=ONCE) -> Tensor:
        """Reparameterised draws; the derivative is the stretched base's inside, 0 on the clip, eq. (H6)."""
        return self.rsample_at(log_uniform(self._extended_shape(sample_shape), self._like))

    def rsample_at(self, log_s: Tensor) -> Tensor:
        """The draw h with ln P(H > h) = log_s, clipped: `rsample` of given noise (`log_uniform`), eq. (H6)."""
        return self._law._rectified_at(log_s, self.left, self.right)

    def _at(self, value: Tensor) -> Tensor:
        """The base's coordinate of a value of H, moved off 0 and 1."""
        if self._validate_args:
            self._validate_sample(value)
        value = _inside(value)
        return self._law._coordinate(value - self.left, self.right - value)

    def _density_at(self, x: Tensor) -> Tensor:
        """Log density of H at a point of (0, 1), given in the base's coordinate."""
        return self._law._log_prob_at(x) - math.log(self.right - self.left)

    def cdf(self, value: Tensor) -> Tensor:
        """P(H <= value): jumps by P(H = 0) at 0 and by P(H = 1) at 1."""
        inside = -self._law._log_survival_at(self._at(value)).expm1()
        return _with_ends(value, inside, torch.where(value < 0, 0.0, self.prob_zero), 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """clip(left + (right - left) F^-1(value), 0, 1): flat over the two masses."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self._law._rectified_at((-_inside(value)).log1p(), self.left, self.right)
        return _with_ends(value, inside, 0.0, 1.0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the mass at 0 and at 1, of the density (not rescaled) in between, eq. (H5)."""
        return _with_ends(value, self._density_at(self._at(value)), self.log_prob_zero, self.log_prob_one)

    def _interior(self) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes as ln P(H > h) and h [nodes, ...], weights [nodes], for E[. | 0 < H < 1], eq. (H8).

            P(H > h_j) = (1 - v_j) P(H != 0) + v_j P(H = 1),   v_j and weights from `_unit_rule`

        taken from the nearer end, so that both tails keep their digits.
        """
        log_v, log_rest, weight = _unit_rule(len(self.batch_shape), self._like.device)
        below = self.prob_zero + self.prob_interior * log_v.exp()
        above = torch.logaddexp(log_rest, log_v + (self.log_prob_one - self.log_prob_nonzero))
        log_s = torch.where(below < 0.5, (-below.clamp(max=0.5)).log1p(), self.log_prob_nonzero + above)
        h = self.left + (self.right - self.left) * self._law._value(self._law._quantile_at(log_s))
        return log_s, h.clamp(0, 1), weight

    @property
    @_in_double
    def conditional_mean(self) -> Tensor:
        """E[H | 0 < H < 1], eq. (H8)."""
        _, h, weight = self._interior()
        return _average(weight, h)

    @property
    @_in_double
    def mean(self) -> Tensor:
        """E[H] = P(H = 1) + P(0 < H < 1) E[H | 0 < H < 1], eq. (H8). Not the mean of the base."""
        return self.prob_one + self.prob_interior * self.conditional_mean

    @property
    @_in_double
    def variance(self) -> Tensor:
        """E[(H - E[H])^2], summed over 0, 1 and the interior: no term is negative."""
        mean, (_, h, weight) = self.mean, self._interior()
        inside = _average(weight, (h - mean) ** 2)
        return self.prob_zero * mean**2 + self.prob_one * (1 - mean) ** 2 + self.prob_interior * inside

    @property
    @_in_double
    def mode(self) -> Tensor:
        """The most probable of {0}, {1} and (0, 1); in (0, 1), the point of highest density.

        A mass is compared with masses, never with a density. Where the density rises all the way to an end of
        (0, 1), that end is returned.
        """
        peak = (self.left + (self.right - self.left) * self.base.mode).clamp(0, 1)
        points = torch.stack([peak, torch.zeros_like(peak), torch.ones_like(peak)])
        inside = points.gather(0, self._density_at(self._at(points)).argmax(0, keepdim=True)).squeeze(0)
        zero, one, interior = self._masses
        return torch.where(interior >= torch.maximum(zero, one), inside, (one >= zero).to(inside.dtype))

    @_in_double
    def entropy(self) -> Tensor:
        """-P0 ln P0 - P1 ln P1 - integral_0^1 f_T ln f_T, in nats, eq. (H10)."""
        log_s, _, weight = self._interior()
        log_density = self._law._log_prob_along(self._law, log_s) - math.log(self.right - self.left)
        inside = self.prob_interior * _average(weight, log_density)
        lowest = torch.finfo(inside.dtype).min
        at_zero, at_one = self.log_prob_zero.clamp(min=lowest), self.log_prob_one.clamp(min=lowest)
        return -(self.prob_zero * at_zero + self.prob_one * at_one + inside)


class HardKuma(StretchedRectified):
    """HardKuma(a, b, left, right): a stretched and rectified Kumaraswamy (Bastings et al. 2019, sec. 3).

        P(H = 0) = 1 - (1 - k0^a)^b       P(H = 1) = (1 - k1^a)^b

    Parameters and errors as for `Kumaraswamy` and `StretchedRectified`.

    Examples
    --------
    >>> gate = HardKuma(0.5, 0.5, left=-0.1, right=1.1)
    >>> gate.prob_zero, gate.prob_interior, gate.prob_one
    (tensor(0.1566), tensor(0.6371), tensor(0.2063))
    >>> gate.mean, gate.base.mean  # E[H] and E[K]
    (tensor(0.5365), tensor(0.5333))
    >>> gate.icdf(torch.tensor([0.1, 0.5, 0.9]))  # draws of given noise: exactly 0, between, exactly 1
    tensor([0.0000, 0.5750, 1.0000])

    The mass of a gate that is nearly shut keeps its logarithm, and its gradient:

    >>> b = torch.tensor(2000.0, requires_grad=True)
    >>> shut = HardKuma(1.0, b)
    >>> slope = torch.autograd.grad(shut.log_prob_nonzero, b)[0]
    >>> round(shut.log_prob_nonzero.item(), 3), round(slope.item(), 4)
    (-174.023, -0.087)
    """

    arg_constraints = Kumaraswamy.arg_constraints

    def __init__(self, a, b, left=-0.1, right=1.1, validate_args: bool | None = None):
        super().__init__(Kumaraswamy(a, b, validate_args), left, right, validate_args)
        self.a, self.b = self.base.a, self.base.b


class HardConcrete(StretchedRectified):
    """HardConcrete(logits, temperature, left, right): a stretched and rectified Binary Concrete.

        P(H != 0) = sigmoid(logits - temperature ln(-left / right))

    Source: eq. (H12), notebooks/02_hardkuma.py; Louizos et al. 2018. DiffMask's gate on [0, 1) is left=-0.2,
    right=1.0: P(H = 1) = 0.

    Examples
    --------
    >>> gate = HardConcrete(logits=0.0, temperature=0.5)
    >>> gate.prob_zero, gate.prob_interior, gate.prob_one
    (tensor(0.2317), tensor(0.5367), tensor(0.2317))
    >>> HardConcrete(0.0, 0.5, left=-0.2, right=1.0).prob_one  # DiffMask's: never exactly open
    tensor(0.)
    """

    arg_constraints = BinaryConcrete.arg_constraints

    def __init__(self, logits, temperature, left=-0.1, right=1.1, validate_args: bool | None = None):
        super().__init__(BinaryConcrete(logits, temperature, validate_args), left, right, validate_args)
        self.logits, self.temperature = self.base.logits, self.base.temperature


# --- Bernoulli: nothing between the two masses ---------------------------------------------------


class Bernoulli(torch.distributions.Bernoulli):
    """A gate that is 0 or 1, with the names of the rectified gates: masses, their logarithms, `mean`.

        ln P(Z = 1) = -softplus(-m),   ln P(Z = 0) = -softplus(m)        m: logits

    Source: eq. (R1), notebooks/05_reinforce.py; Lei et al. 2016. A draw has no gradient (`has_rsample` is
    False): the objective takes the score function instead. Give either `probs` or `logits`.

    Examples
    --------
    >>> gate = Bernoulli(logits=torch.tensor([-200.0, 0.0]))
    >>> gate.prob_one
    tensor([0.0000, 0.5000])
    >>> gate.log_prob_nonzero
    tensor([-200.0000,   -0.6931])
    """

    @property
    def log_prob_one(self) -> Tensor:
        return logsigmoid(self.logits)

    @property
    def log_prob_zero(self) -> Tensor:
        return logsigmoid(-self.logits)

    @property
    def log_prob_nonzero(self) -> Tensor:
        return self.log_prob_one

    @property
    def prob_one(self) -> Tensor:
        return self.logits.sigmoid()

    @property
    def prob_zero(self) -> Tensor:
        return (-self.logits).sigmoid()

    @property
    def prob_interior(self) -> Tensor:
        return torch.zeros_like(self.logits)


class StraightThroughBernoulli(Bernoulli):
    """A Bernoulli whose draw carries the gradient of its probability, dz/dm := dp/dm. Biased.

    Source: eq. (R11), notebooks/05_reinforce.py; Bengio, Leonard & Courville 2013.

    Examples
    --------
    >>> m = torch.tensor(0.0, requires_grad=True)
    >>> z = StraightThroughBernoulli(logits=m).rsample_at(torch.tensor(0.4).log())  # 0.4 < p = 0.5: selected
    >>> z.item(), torch.autograd.grad(z, m)[0].item()  # dp/dm = p (1 - p)
    (1.0, 0.25)
    """

    has_rsample = True

    def rsample(self, sample_shape=ONCE) -> Tensor:
        """Draws that are exactly 0 or 1, differentiable as if they were the probability."""
        return self.rsample_at(log_uniform(self._extended_shape(sample_shape), self.logits))

    def rsample_at(self, log_s: Tensor) -> Tensor:
        """`rsample` of given noise (`log_uniform`): 1 where ln P(Z = 1) exceeds it."""
        p = self.prob_one
        return (log_s < self.log_prob_one).to(p.dtype) + (p - p.detach())


# --- Kullback-Leibler divergences (nats) ----------------------------------------------------------


def _kl_in_double(kl):
    """Broadcast, compute a divergence with float64 parameters, return it in the dtype of the left law."""

    @functools.wraps(kl)
    def cast(p, q):
        shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
        q = q._map(Tensor.double) if isinstance(q, _UnitLaw | StretchedRectified) else q
        return kl(p._map(Tensor.double).expand(shape), q.expand(shape)).to(p._like.dtype)

    return cast


@register_kl(Kumaraswamy, Kumaraswamy)
@register_kl(BinaryConcrete, BinaryConcrete)
@_kl_in_double
def _kl_same_family(p, q):
    """E_p[ln p - ln q] over the quantiles of p, eq. (K8).

    For two Kumaraswamys the one term without a closed form, E[ln(1 - K^alpha)], also is a series of Beta
    functions with a Hurwitz zeta for a tail. The integral is as exact, has a derivative in b, and stays fast
    for small b.
    """
    _, log_s, weight = _unit_rule(len(p.batch_shape), p._like.device)
    return -p.entropy() - _average(weight, q._log_prob_along(p, log_s))


@register_kl(Kumaraswamy, Uniform)
@_kl_in_double
def _kl_kumaraswamy_uniform(p, q):
    """-entropy + ln(high - low) where the interval covers [0, 1], else inf."""
    covers = (q.low <= 0) & (q.high >= 1)
    return torch.where(covers, (q.high - q.low).double().log() - p.entropy(), math.inf)


@register_kl(Kumaraswamy, Beta)
@_kl_in_double
def _kl_kumaraswamy_beta(p, q):
    """KL to Kumaraswamy(1, beta) = Beta(1, beta), plus what a first parameter alpha changes.

    ln Beta(k; alpha, beta) = ln Beta(k; 1, beta) + (alpha - 1) ln k - ln [B(alpha, beta) beta]
    """
    alpha, beta = q.concentration1.double(), q.concentration0.double()
    log_scale = torch.lgamma(alpha) + torch.lgamma(beta + 1) - torch.lgamma(alpha + beta)
    to_first = kl_divergence(p, Kumaraswamy(torch.ones_like(beta), beta, validate_args=False))
    return to_first + (alpha - 1) * p._harmonic / p.a + log_scale


@register_kl(StretchedRectified, StretchedRectified)
@_kl_in_double
def _kl_rectified(p, q):
    """The masses as for a discrete law, the interior by quadrature over its quantiles, eq. (H11).

        KL = sum_j p_j ln(p_j / q_j) + P_p(0 < H < 1) E_p[ln f_p(H) - ln f_q(H) | 0 < H < 1]

    Both laws need the same `left` and `right`.
    """
    if (p.left, p.right) != (q.left, q.right):
        found = f"({p.left}, {p.right}) and ({q.left}, {q.right})"
        raise NotImplementedError(f"the KL divergence of rectified laws needs one (left, right), got {found}")
    log_s, h, weight = p._interior()
    one_family = type(p._law) is type(q._law) is not _Adapted
    log_q = q._law._log_prob_along(p._law, log_s) if one_family else q._law._log_prob_at(q._at(h))
    total = p.prob_interior * _average(weight, p._law._log_prob_along(p._law, log_s) - log_q)
    if p._x_zero is not None:
        total = total + p.prob_zero * (p.log_prob_zero - q.log_prob_zero)
    if p._x_one is not None:
        total = total + p.prob_one * (p.log_prob_one - q.log_prob_one)
    return total
