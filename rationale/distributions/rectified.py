"""Stretch and rectify: laws on [0, 1] with mass at exactly 0 and 1, eqs. (H1)-(H9)."""

import functools
import math

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import lazy_property

from rationale.distributions.numerics import (
    ONCE,
    average_over_quantiles,
    in_double,
    log_uniform,
    off_the_ends,
    unit_rule,
    with_ends,
)
from rationale.distributions.unit_interval import Adapted, BinaryConcrete, Kumaraswamy, UnitLaw


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
    binary = False  # a draw may lie between 0 and 1

    def __init__(self, base: Distribution, left=-0.1, right=1.1, validate_args: bool | None = None):
        if not (-math.inf < left <= 0 and 1 <= right < math.inf):
            raise ValueError(f"expected left <= 0 and right >= 1, got left={left}, right={right}")
        self.base, self.left, self.right = base, float(left), float(right)
        self._law = base if isinstance(base, UnitLaw) else Adapted(base)
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
        base = self.base if isinstance(self._law, Adapted) else self.base._map(change)
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
        value = off_the_ends(value)
        return self._law._coordinate(value - self.left, self.right - value)

    def _density_at(self, x: Tensor) -> Tensor:
        """Log density of H at a point of (0, 1), given in the base's coordinate."""
        return self._law._log_prob_at(x) - math.log(self.right - self.left)

    def cdf(self, value: Tensor) -> Tensor:
        """P(H <= value): jumps by P(H = 0) at 0 and by P(H = 1) at 1."""
        inside = -self._law._log_survival_at(self._at(value)).expm1()
        return with_ends(value, inside, torch.where(value < 0, 0.0, self.prob_zero), 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """clip(left + (right - left) F^-1(value), 0, 1): flat over the two masses."""
        if self._validate_args:
            self._validate_sample(value)
        inside = self._law._rectified_at((-off_the_ends(value)).log1p(), self.left, self.right)
        return with_ends(value, inside, 0.0, 1.0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the mass at 0 and at 1, of the density (not rescaled) in between, eq. (H5)."""
        return with_ends(value, self._density_at(self._at(value)), self.log_prob_zero, self.log_prob_one)

    def _interior(self) -> tuple[Tensor, Tensor, Tensor]:
        """Nodes as ln P(H > h) and h [nodes, ...], weights [nodes], for E[. | 0 < H < 1], eq. (H8).

            P(H > h_j) = (1 - v_j) P(H != 0) + v_j P(H = 1),   v_j and weights from `unit_rule`

        taken from the nearer end, so that both tails keep their digits.
        """
        log_v, log_rest, weight = unit_rule(len(self.batch_shape), self._like.device)
        below = self.prob_zero + self.prob_interior * log_v.exp()
        above = torch.logaddexp(log_rest, log_v + (self.log_prob_one - self.log_prob_nonzero))
        log_s = torch.where(below < 0.5, (-below.clamp(max=0.5)).log1p(), self.log_prob_nonzero + above)
        h = self.left + (self.right - self.left) * self._law._value(self._law._quantile_at(log_s))
        return log_s, h.clamp(0, 1), weight

    @property
    @in_double
    def conditional_mean(self) -> Tensor:
        """E[H | 0 < H < 1], eq. (H8)."""
        _, h, weight = self._interior()
        return average_over_quantiles(weight, h)

    @property
    @in_double
    def mean(self) -> Tensor:
        """E[H] = P(H = 1) + P(0 < H < 1) E[H | 0 < H < 1], eq. (H8). Not the mean of the base."""
        return self.prob_one + self.prob_interior * self.conditional_mean

    @property
    @in_double
    def variance(self) -> Tensor:
        """E[(H - E[H])^2], summed over 0, 1 and the interior: no term is negative."""
        mean, (_, h, weight) = self.mean, self._interior()
        inside = average_over_quantiles(weight, (h - mean) ** 2)
        return self.prob_zero * mean**2 + self.prob_one * (1 - mean) ** 2 + self.prob_interior * inside

    @property
    @in_double
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

    @in_double
    def entropy(self) -> Tensor:
        """-P0 ln P0 - P1 ln P1 - integral_0^1 f_T ln f_T, in nats, eq. (H10)."""
        log_s, _, weight = self._interior()
        log_density = self._law._log_prob_along(self._law, log_s) - math.log(self.right - self.left)
        inside = self.prob_interior * average_over_quantiles(weight, log_density)
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
