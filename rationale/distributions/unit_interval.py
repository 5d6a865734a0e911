"""Distributions on the open unit interval: the Kumaraswamy, eqs. (K1)-(K8), and the Binary Concrete.

The file is a little long because it is one idea: what a law on (0, 1) has to offer before it is stretched and
rectified, once as an interface and once for each of the two laws.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from torch.nn.functional import logsigmoid

from rationale.distributions.fast import hardkuma_log_prob, kumaraswamy_draw, kumaraswamy_log_cdf, kumaraswamy_masses
from rationale.distributions.numerics import (
    LN2,
    SINGLE_DRAW,
    average_over_quantiles,
    clamp_to_interior,
    clip_limits,
    in_float64,
    log1mexp,
    log_pochhammer,
    log_share,
    log_sigmoid,
    log_uniform,
    minus_inf_outside,
    one_minus_exp,
    quadrature_rule,
    value_of,
    widened,
    with_boundary_values,
)

Ends = tuple[float | None, float | None]
Logs = Callable[[], tuple[Tensor, Tensor]]


class UnitDistribution(Distribution):
    """A continuous distribution on (0, 1), written in a coordinate x in which its tails keep their digits.

    A subclass stores its parameters under the names in `arg_constraints` and defines the methods that raise
    NotImplementedError here. All other methods follow from these; a subclass may override them with faster or more
    accurate ones.
    """

    support = constraints.unit_interval
    has_rsample = True

    _has_known_parameters = True  # those in `arg_constraints`, so `_map` can change them

    @staticmethod
    def _coordinate(below: Any, above: Any, numbers: Any = torch) -> Any:
        """x of the value below / (below + above), of tensors; for floats, pass numbers=math."""
        raise NotImplementedError

    def _value(self, x: Tensor) -> Tensor:
        """The value k."""
        raise NotImplementedError

    def _log_survival_at(self, x: Tensor | float) -> Tensor:
        """ln P(K > k)."""
        raise NotImplementedError

    def _log_cdf_at(self, x: Tensor | float) -> Tensor:
        """ln P(K <= k)."""
        raise NotImplementedError

    def _log_prob_at(self, x: Tensor) -> Tensor:
        """ln f(k)."""
        raise NotImplementedError

    def _quantile_coordinate(self, log_s: Tensor) -> Tensor:
        """The x for which ln P(K > k) = log_s."""
        raise NotImplementedError

    def _lower_tail_coordinate(self, log_f: Tensor) -> Tensor:
        """The x for which ln P(K <= k) = log_f, in the limit of log_f -> -inf."""
        raise NotImplementedError

    @property
    def _edge_exponents(self) -> tuple[Tensor, Tensor]:
        """(p, q) such that f ~ k^p near 0 and f ~ (1 - k)^q near 1."""
        raise NotImplementedError

    def _log_between(self, x_zero: float, x_one: float) -> Tensor:
        """ln P(k0 < K <= k1)."""
        log_nonzero = self._log_survival_at(x_zero)
        return log_nonzero + log1mexp(self._log_survival_at(x_one) - log_nonzero)

    def _masses(self, x_zero: float, x_one: float) -> tuple[Tensor, ...]:
        """P(K <= k0), P(K > k1), P(k0 < K <= k1)."""
        logs = self._log_cdf_at(x_zero), self._log_survival_at(x_one), self._log_between(x_zero, x_one)
        return tuple(log.exp() for log in logs)

    def _rectified_quantile(self, log_s: Tensor, left: float, right: float) -> Tensor:
        """clip(left + (right - left) k, 0, 1), where ln P(K > k) = log_s."""
        return (left + (right - left) * self._quantile(log_s)).clamp(*clip_limits(log_s, left, right))

    def _rectified_log_prob(self, value: Tensor, left: float, right: float, ends: Ends, logs: Logs) -> Tensor:  # noqa: ARG002
        """ln P(H = 0) at 0, ln P(H = 1) at 1, the log density of H = left + (right - left) K in between, else -inf.

        `ends` are the coordinates of k0 and k1, and `logs` computes the two logarithms, if they are needed.
        """
        inside = clamp_to_interior(value)
        density = self._log_prob_at(self._coordinate(inside - left, (1 - inside) + (right - 1)))
        return minus_inf_outside(value, with_boundary_values(value, density - math.log(right - left), *logs()))

    def _log_prob_at_quantiles_of(self, other: "UnitDistribution", log_s: Tensor) -> Tensor:
        """Log density of this distribution at the k where `other`, of the same class, has ln P(K > k) = log_s."""
        return self._log_prob_at(other._quantile_coordinate(log_s))

    def _quantile(self, log_s: Tensor) -> Tensor:
        """The k for which ln P(K > k) = log_s."""
        return self._value(self._quantile_coordinate(log_s))

    @property
    def _like(self) -> Tensor:
        """A tensor with the dtype and the device of the parameters."""
        return getattr(self, next(iter(self.arg_constraints)))

    def _map(self, change: Callable[[Tensor], Tensor]) -> "UnitDistribution":
        """A distribution of the same class with `change` applied to each parameter, without validation."""
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
        value = clamp_to_interior(value)
        return self._coordinate(value, 1 - value)

    @widened
    def log_survival(self, value: Tensor | float) -> Tensor:
        """ln P(K > value); it is 0 at 0 and -inf at 1."""
        value = value_of(self, value, self._like)
        return with_boundary_values(value, self._log_survival_at(self._at(value)), 0.0, -math.inf)

    @widened
    def log_cdf(self, value: Tensor | float) -> Tensor:
        """ln P(K <= value), accurate even where the cdf itself underflows; it is -inf at 0 and 0 at 1."""
        value = value_of(self, value, self._like)
        return with_boundary_values(value, self._log_cdf_at(self._at(value)), -math.inf, 0.0)

    @widened
    def cdf(self, value: Tensor | float) -> Tensor:
        value = value_of(self, value, self._like)
        return with_boundary_values(value, one_minus_exp(self._log_survival_at(self._at(value))), 0.0, 1.0)

    @widened
    def icdf(self, value: Tensor | float) -> Tensor:
        value = value_of(self, value, self._like)
        return with_boundary_values(value, self._quantile((-clamp_to_interior(value)).log1p()), 0.0, 1.0)

    @widened
    def log_prob(self, value: Tensor | float) -> Tensor:
        """Log density. At 0 and 1 this is its limit, which may be +inf or -inf; outside [0, 1] it is -inf."""
        value = value_of(self, value, self._like)
        inside = self._log_prob_at(self._at(value))

        def limit(power: Tensor) -> Tensor:
            return torch.where(power == 0, inside, torch.where(power < 0, math.inf, -math.inf))

        return minus_inf_outside(value, with_boundary_values(value, inside, *map(limit, self._edge_exponents)))

    def rsample(self, sample_shape=SINGLE_DRAW) -> Tensor:
        """Reparameterised draws, eq. (K7). A draw that would round to 0 or 1 is moved strictly inside (0, 1)."""
        return clamp_to_interior(self._draw(log_uniform(self._extended_shape(sample_shape), self._like)))

    @widened
    def _draw(self, log_s: Tensor) -> Tensor:
        return self._quantile(log_s)


class Kumaraswamy(UnitDistribution):
    """Kumaraswamy(a, b) on (0, 1): similar to a Beta, but its cdf and quantile function have closed forms.

        f(k) = a b k^(a-1) (1 - k^a)^(b-1)     F(k) = 1 - (1 - k^a)^b     F^-1(u) = (1 - (1-u)^(1/b))^(1/a)

    Source: eq. (K1)-(K8), notebooks/02_kumaraswamy.py; Kumaraswamy 1980. Coordinate: x = ln k.

    Parameters
    ----------
    a, b : positive, broadcast against each other
        `a` controls the density near 0, where it behaves like k^(a-1); `b` controls it near 1, where it behaves like
        (1-k)^(b-1).

    Raises
    ------
    ValueError
        If a parameter is not positive (unless `validate_args=False`; this is torch's default as soon as it has
        compiled or exported anything in this process).

    Notes
    -----
    In float32, values and first derivatives at draws, also with respect to the draws, are finite for a, b in
    [1e-3, 1e2] and never NaN in [1e-30, 1e30].
    Masses, densities and draws p inherit the rounding error of their logarithm: a relative error of about
    1e-7 (1 + |ln p|).

    Examples
    --------
    >>> kuma = Kumaraswamy(2.0, 3.0)
    >>> kuma.cdf(torch.tensor(0.5))  # 1 - (1 - 0.5^2)^3
    tensor(0.5781)
    >>> kuma.icdf(torch.tensor(0.578125))
    tensor(0.5000)
    >>> kuma.mean, kuma.mode, kuma.entropy()
    (tensor(0.4571), tensor(0.4472), tensor(-0.2084))
    """

    arg_constraints = {"a": constraints.positive, "b": constraints.positive}

    def __init__(self, a, b, validate_args: bool | None = None):
        self.a, self.b = broadcast_all(a, b)
        super().__init__(self.a.shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """`a`, under its name in `torch.distributions.Kumaraswamy`."""
        return self.a

    @property
    def concentration0(self) -> Tensor:
        """`b`, under its name in `torch.distributions.Kumaraswamy`."""
        return self.b

    @staticmethod
    def _coordinate(below, above, numbers=torch):
        return log_share(below, above) if numbers is torch else -numbers.log1p(above / below)

    def _value(self, x):
        return x.exp()

    def _log_survival_at(self, x):
        return self.b * log1mexp(self.a * x)

    def _log_cdf_at(self, x):
        return kumaraswamy_log_cdf(self.a * x, self.b)

    def _log_prob_at(self, x):
        return self.a.log() + self.b.log() + (self.a - 1) * x + (self.b - 1) * log1mexp(self.a * x)

    def _quantile_coordinate(self, log_s):
        return log1mexp(log_s / self.b) / self.a

    def _lower_tail_coordinate(self, log_f):
        return (log_f - self.b.log()) / self.a  # F tends to b k^a

    def _log_between(self, x_zero, x_one):
        """See the base class. Where the survival function rounds to 1, the log cdf is used instead."""
        vanishes = self.a * x_one < math.log(torch.finfo(self.a.dtype).tiny) / 2
        a = torch.where(vanishes, 1.0, self.a)
        log_nonzero = self.b * log1mexp(a * x_zero)
        between = log_nonzero + log1mexp(self.b * log1mexp(a * x_one) - log_nonzero)
        a = torch.where(vanishes, self.a, 1.0)
        log_below, log_above = (kumaraswamy_log_cdf(a * x, self.b) for x in (x_one, x_zero))
        return torch.where(vanishes, log_below + log1mexp(log_above - log_below), between)

    def _rectified_log_prob(self, value, left, right, ends, logs):  # noqa: ARG002  it computes them itself
        return hardkuma_log_prob(value, self.a, self.b, (left, right), ends)

    def _masses(self, x_zero, x_one):
        return kumaraswamy_masses(self.a, self.b, x_zero, x_one)

    def _quantile(self, log_s):
        info = torch.finfo(log_s.dtype)
        return kumaraswamy_draw(log_s, self.a, self.b, (0.0, 1.0), (info.tiny, 1 - info.eps / 2), False)

    def _rectified_quantile(self, log_s, left, right):
        return kumaraswamy_draw(log_s, self.a, self.b, (left, right), clip_limits(log_s, left, right), True)

    def _log_prob_at_quantiles_of(self, other, log_s):
        """See the base class. With c = ln(1 - k^a') of `other`, ln(1 - k^a) tends to c + ln(a / a') as k tends to 1."""
        c, ratio = log_s / other.b, self.a / other.a
        log_rest = torch.where(c > -300, log1mexp(ratio * log1mexp(c.clamp(min=-300))), c + ratio.log())
        x = other._quantile_coordinate(log_s)
        return self.a.log() + self.b.log() + (self.a - 1) * x + (self.b - 1) * log_rest

    @property
    def _edge_exponents(self):
        return self.a - 1, self.b - 1

    @property
    def _harmonic(self) -> Tensor:
        """H_b = psi(b + 1) + gamma = -a E[ln K]: the harmonic number of a real b."""
        return torch.digamma(self.b + 1) + 0.5772156649015329

    def _log_moment(self, n: int) -> Tensor:
        """ln E[K^n] = ln [Gamma(1 + p) Gamma(1 + b) / Gamma(1 + p + b)] with p = n / a, symmetric in p and b."""
        p = n / self.a  # below, `where` gives the right derivatives at p = b, unlike `minimum` and `maximum`
        smaller, larger = torch.where(p < self.b, p, self.b), torch.where(p < self.b, self.b, p)
        return torch.lgamma(1 + smaller) - log_pochhammer(1 + larger, smaller)

    @property
    @in_float64
    def mean(self) -> Tensor:
        """E[K] = b B(1 + 1/a, b), eq. (K4)."""
        return self._log_moment(1).exp()

    @property
    @in_float64
    def variance(self) -> Tensor:
        """E[K^2] - E[K]^2, computed as E[K^2] (1 - E[K]^2 / E[K^2])."""
        log_second = self._log_moment(2)
        return -log_second.exp() * (2 * self._log_moment(1) - log_second).clamp(max=0).expm1()

    @property
    @in_float64
    def median(self) -> Tensor:
        """F^-1(1/2) = (1 - 2^(-1/b))^(1/a), eq. (K3)."""
        return self._value(self._quantile_coordinate(self.b.new_tensor(-LN2)))

    @property
    @in_float64
    def mode(self) -> Tensor:
        """The point of highest density, eq. (K5), without a gradient.

        It is ((a-1) / (ab-1))^(1/a) for a, b >= 1; 0 if the density is decreasing (a < 1 <= b); 1 if it is increasing
        (b < 1 <= a). If a, b < 1, the density is unbounded at both ends, and the end on the side of the median is
        returned. The uniform distribution (a = b = 1) has no mode; 1/2 is returned.
        """
        a, b = self.a.detach(), self.b.detach()
        up, down = (a - 1).clamp(min=0), (a * (b - 1)).clamp(min=0)
        peak = ((up / (up + down).clamp(min=torch.finfo(a.dtype).tiny)).log() / a).exp()
        peak = torch.where(b < 1, ((a >= 1) | (self.median.detach() > 0.5)).to(a.dtype), peak)
        return torch.where((a == 1) & (b == 1), 0.5, peak)

    @in_float64
    def entropy(self) -> Tensor:
        """Differential entropy in nats, 1 - 1/b + (1 - 1/a) H_b - ln(ab), eq. (K6)."""
        return 1 - 1 / self.b + (1 - 1 / self.a) * self._harmonic - self.a.log() - self.b.log()


class BinaryConcrete(UnitDistribution):
    """Binary Concrete: logistic noise, shifted by `logits`, divided by `temperature` and mapped to (0, 1).

        s = sigmoid((logit u + logits) / temperature)     P(S > s) = sigmoid(logits - temperature logit s)

    Source: eq. (H12), notebooks/03_hardkuma.py; Maddison et al. 2017; Jang et al. 2017. Coordinate: logit s.

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
    def _coordinate(below, above, numbers=torch):
        return numbers.log(below) - numbers.log(above)

    def _value(self, x):
        return x.sigmoid()

    def _gap(self, x):
        return self.logits - self.temperature * x

    def _log_survival_at(self, x):
        return log_sigmoid(self._gap(x))

    def _log_cdf_at(self, x):
        return log_sigmoid(-self._gap(x))

    def _log_prob_at(self, x):
        gap = self._gap(x)
        return self.temperature.log() + log_sigmoid(gap) + log_sigmoid(-gap) - log_sigmoid(x) - log_sigmoid(-x)

    def _quantile_coordinate(self, log_s):
        return (log1mexp(log_s) - log_s + self.logits) / self.temperature

    def _lower_tail_coordinate(self, log_f):
        return (log_f + self.logits) / self.temperature

    def _log_between(self, x_zero, x_one):
        """See the base class; computed as sigmoid(p) - sigmoid(q) = sigmoid(p) sigmoid(-q) (1 - e^(q-p))."""
        width = log1mexp(self.temperature * (x_zero - x_one))
        return log_sigmoid(self._gap(x_zero)) + log_sigmoid(-self._gap(x_one)) + width

    @property
    def _edge_exponents(self):
        return self.temperature - 1, self.temperature - 1

    def _logistic_mean(self, function) -> Tensor:
        """E[function(z, logits, temperature)] for a logistic variable z, by the trapezoidal rule."""
        z = torch.arange(-640, 641, dtype=self.logits.dtype, device=self.logits.device) / 16
        weight = (logsigmoid(z) + logsigmoid(-z)).exp() / 16
        z = z.view([-1] + [1] * self.logits.ndim)
        return average_over_quantiles(weight, function(z, self.logits, self.temperature))

    @property
    @in_float64
    def mean(self) -> Tensor:
        """E[S] = E[sigmoid((z + m) / t)] = E[sigmoid(m + t z)] (by parts); the smoother of the two is integrated."""

        def first_moment(z, m, t):
            cold, warm = t.clamp(max=1), t.clamp(min=1)
            return torch.where(t > 1, m / warm + z * (1 / warm), m + z * cold).sigmoid()

        return self._logistic_mean(first_moment)

    @property
    @in_float64
    def variance(self) -> Tensor:
        def second_moment(z, m, t):
            cold, warm = t.clamp(max=1), t.clamp(min=1)
            return torch.where(t > 1, ((z + m) / warm).sigmoid() ** 2, 2 * z.sigmoid() * (m - cold * z).sigmoid())

        return (self._logistic_mean(second_moment) - self.mean**2).clamp(min=0)

    @property
    @in_float64
    def mode(self) -> Tensor:
        """The point of highest density, without a gradient.

        For temperatures up to 1 the density peaks at an end; the more probable one is returned (1 for logits = 0).
        Above 1 there is a single peak, where tanh(x/2) = t tanh((t x - m)/2) with x = logit s. It is found by
        bisection.
        """
        m, t = self.logits.detach(), self.temperature.detach()
        half_width = 2 * (1 / t.clamp(min=1 + 1e-9)).atanh()
        low, high = (m - half_width) / t, (m + half_width) / t
        for _ in range(60):
            middle = (low + high) / 2
            rising = (middle / 2).tanh() > t * ((t * middle - m) / 2).tanh()
            low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
        return torch.where(t > 1, low.sigmoid(), (m >= 0).to(m.dtype))

    def _spread(self, scale: Tensor, shift: Tensor) -> Tensor:
        """E[-ln sigmoid(y) - ln sigmoid(-y)] with y = (z - shift) / scale for a logistic variable z, in float64.

        E[softplus((z - c) / s)] = E[softplus(s z - c)] / s for each s > 0 and c; the smoother of the two is integrated.
        """

        def spread(y: Tensor) -> Tensor:
            return -log_sigmoid(y) - log_sigmoid(-y)

        def either(z: Tensor, m: Tensor, t: Tensor) -> Tensor:  # noqa: ARG001  the scale and the shift take their place
            narrow, wide = scale.clamp(max=1), scale.clamp(min=1)
            both = -log_sigmoid(shift - narrow * z) - log_sigmoid(-shift - narrow * z)
            return torch.where(scale > 1, spread((z - shift) / wide), both / narrow)

        return self._logistic_mean(either)

    @in_float64
    def entropy(self) -> Tensor:
        """Entropy in nats, 2 - ln t + E[ln s + ln(1 - s)] with s = sigmoid((z + m) / t) for a logistic variable z."""
        return 2 - self.temperature.log() - self._spread(self.temperature, -self.logits)


def log_of_share(share: Tensor) -> Tensor:
    """ln of probabilities, of which none counts as less than the smallest normal number; there it has no gradient."""
    return share.clamp(min=torch.finfo(share.dtype).tiny).log()


class AdaptedDistribution(UnitDistribution):
    """Any other continuous distribution on (0, 1) with `cdf`, `icdf` and `log_prob`, in the coordinate x = value.

    Where its cdf rounds to 0 or 1, so do the masses. Their logarithms stay finite there and have no gradient.
    """

    arg_constraints = {}
    _has_known_parameters = False

    def __init__(self, base: Distribution):
        self.base = base
        super().__init__(base.batch_shape, validate_args=False)

    @property
    def _like(self):
        return self.base.icdf(torch.tensor(0.5))

    @staticmethod
    def _coordinate(below, above, numbers=None):  # noqa: ARG004  this coordinate needs no logarithm
        return below / (below + above)

    def _value(self, x):
        return x

    def _cdf_at(self, x):
        return self.base.cdf(x if isinstance(x, Tensor) else self._like.new_tensor(x))

    def _log_survival_at(self, x):
        cdf = self._cdf_at(x)
        return torch.where(cdf < 1, (-torch.where(cdf < 1, cdf, 0.0)).log1p(), math.log(torch.finfo(cdf.dtype).tiny))

    def _log_cdf_at(self, x):
        return log_of_share(self._cdf_at(x))

    def _log_prob_at(self, x):
        return self.base.log_prob(x)

    def _log_between(self, x_zero, x_one):
        return log_of_share(self._cdf_at(x_one) - self._cdf_at(x_zero))

    def _masses(self, x_zero, x_one):
        below, up_to = self._cdf_at(x_zero), self._cdf_at(x_one)
        return below, 1 - up_to, up_to - below

    def _quantile_coordinate(self, log_s):
        eps = torch.finfo(log_s.dtype).eps  # beyond, the quantiles of many laws are infinite and have no derivative
        return self.base.icdf((-log_s.expm1()).clamp(eps, 1 - eps))

    @property
    def mean(self) -> Tensor:
        """That of the law; if it has none, E[K] = integral_0^1 F^-1(v) dv by quadrature."""
        try:
            return self.base.mean
        except NotImplementedError:
            _, log_rest, weight = quadrature_rule(len(self.batch_shape), self._like.device)
            return average_over_quantiles(weight, self._quantile_coordinate(log_rest.to(self._like.dtype)))

    @property
    def mode(self) -> Tensor:
        """The point of highest density, found by golden-section search around the best of 255 quantiles."""
        levels = torch.arange(1, 256, dtype=torch.float64, device=self._like.device) / 256
        points = self.base.icdf(levels.view([-1] + [1] * len(self.batch_shape)).expand(-1, *self.batch_shape))
        best = self.base.log_prob(points).argmax(0, keepdim=True)
        points = torch.cat([torch.zeros_like(points[:1]), points, torch.ones_like(points[:1])]).detach()
        low, high = (points.gather(0, best + j).squeeze(0) for j in (0, 2))
        for _ in range(60):
            inner = low + 0.381966 * (high - low), high - 0.381966 * (high - low)
            first, second = (self.base.log_prob(clamp_to_interior(x)) for x in inner)
            low, high = torch.where(first < second, inner[0], low), torch.where(first < second, high, inner[1])
        return ((low + high) / 2).to(self._like.dtype)
