"""Laws on the open unit interval: the Kumaraswamy, eqs. (K1)-(K8), and the Binary Concrete."""

import math

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from torch.nn.functional import logsigmoid, softplus

from rationale.distributions.numerics import (
    LN2,
    ONCE,
    KumaDraw,
    LogCdf,
    Masses,
    average_over_quantiles,
    clip,
    in_double,
    log1mexp,
    log_gamma_rise,
    log_uniform,
    off_the_ends,
    with_ends,
)


class UnitLaw(Distribution):
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
        return (left + (right - left) * self._value_at(log_s)).clamp(*clip(log_s, left, right))

    def _log_prob_along(self, other: "UnitLaw", log_s: Tensor) -> Tensor:
        """Log density of this law where `other`, of the same family, has log survival `log_s`."""
        return self._log_prob_at(other._quantile_at(log_s))

    def _value_at(self, log_s: Tensor) -> Tensor:
        """k with ln P(K > k) = log_s."""
        return self._value(self._quantile_at(log_s))

    @property
    def _like(self) -> Tensor:
        """A tensor with the dtype and device of the law."""
        return getattr(self, next(iter(self.arg_constraints)))

    def _map(self, change) -> "UnitLaw":
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
        value = off_the_ends(value)
        return self._coordinate(value, 1 - value)

    def log_survival(self, value: Tensor) -> Tensor:
        """ln P(K > value): 0 at 0, -inf at 1."""
        return with_ends(value, self._log_survival_at(self._at(value)), 0.0, -math.inf)

    def log_cdf(self, value: Tensor) -> Tensor:
        """ln P(K <= value): -inf at 0, 0 at 1. Keeps its digits where the cdf itself underflows."""
        return with_ends(value, self._log_cdf_at(self._at(value)), -math.inf, 0.0)

    def cdf(self, value: Tensor) -> Tensor:
        return with_ends(value, -self._log_survival_at(self._at(value)).expm1(), 0.0, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return with_ends(value, self._value_at((-off_the_ends(value)).log1p()), 0.0, 1.0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density; at 0 and 1 its limit, which may be +inf or -inf."""
        inside = self._log_prob_at(self._at(value))

        def limit(power):
            return torch.where(power == 0, inside, torch.where(power < 0, math.inf, -math.inf))

        return with_ends(value, inside, *map(limit, self._edge_exponents))

    def rsample(self, sample_shape=ONCE) -> Tensor:
        """Reparameterised draws, eq. (K7), strictly inside (0, 1); rounding to an end is undone."""
        return off_the_ends(self._value_at(log_uniform(self._extended_shape(sample_shape), self._like)))


class Kumaraswamy(UnitLaw):
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
        return LogCdf.apply(self.a * x, self.b)

    def _log_prob_at(self, x):
        return self.a.log() + self.b.log() + (self.a - 1) * x + (self.b - 1) * log1mexp(self.a * x)

    def _quantile_at(self, log_s):
        return log1mexp(log_s / self.b) / self.a

    def _masses(self, x_zero, x_one):
        return Masses.apply(self.a, self.b, x_zero, x_one)

    def _value_at(self, log_s):
        info = torch.finfo(log_s.dtype)
        return KumaDraw.apply(log_s, self.a, self.b, 0.0, 1.0, info.tiny, 1 - info.eps / 2, False)

    def _rectified_at(self, log_s, left, right):
        return KumaDraw.apply(log_s, self.a, self.b, left, right, *clip(log_s, left, right), True)

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
        return torch.lgamma(1 + few) - log_gamma_rise(1 + many, few)

    @property
    @in_double
    def mean(self) -> Tensor:
        """E[K] = b B(1 + 1/a, b), eq. (K4)."""
        return self._log_moment(1).exp()

    @property
    @in_double
    def variance(self) -> Tensor:
        """E[K^2] - E[K]^2, taken as E[K^2] (1 - E[K]^2 / E[K^2])."""
        log_second = self._log_moment(2)
        return -log_second.exp() * (2 * self._log_moment(1) - log_second).clamp(max=0).expm1()

    @property
    @in_double
    def median(self) -> Tensor:
        """F^-1(1/2) = (1 - 2^(-1/b))^(1/a), eq. (K3)."""
        return self._value(self._quantile_at(self.b.new_tensor(-LN2)))

    @property
    @in_double
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

    @in_double
    def entropy(self) -> Tensor:
        """1 - 1/b + (1 - 1/a) H_b - ln(ab), differential, in nats, eq. (K6)."""
        return 1 - 1 / self.b + (1 - 1 / self.a) * self._harmonic - self.a.log() - self.b.log()


class BinaryConcrete(UnitLaw):
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
        return average_over_quantiles(weight, of(z.view([-1] + [1] * self.logits.ndim), self.logits, self.temperature))

    @property
    @in_double
    def mean(self) -> Tensor:
        """E[S] = E[sigmoid((z + m) / t)] = E[sigmoid(m + t z)] (by parts); the flatter one is summed."""
        return self._logistic_mean(lambda z, m, t: (m / t.clamp(min=1) + z * t.minimum(1 / t)).sigmoid())

    @property
    @in_double
    def variance(self) -> Tensor:
        def second(z, m, t):
            return torch.where(t > 1, ((z + m) / t).sigmoid() ** 2, 2 * z.sigmoid() * (m - t * z).sigmoid())

        return (self._logistic_mean(second) - self.mean**2).clamp(min=0)

    @property
    @in_double
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

    @in_double
    def entropy(self) -> Tensor:
        """2 - ln t - E[softplus(x) + softplus(-x)], x = (z + m) / t, z logistic; to 1e-8 for t >= 0.1."""
        spread = self._logistic_mean(lambda z, m, t: softplus((z + m) / t) + softplus(-(z + m) / t))
        return 2 - self.temperature.log() - spread


class Adapted(UnitLaw):
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
