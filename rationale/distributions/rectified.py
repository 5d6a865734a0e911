"""Stretched and rectified distributions: on [0, 1], with mass at exactly 0 and exactly 1, eqs. (H1)-(H12)."""

import functools
import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from rationale.distributions.numerics import (
    SINGLE_DRAW,
    average_over_quantiles,
    cached_per_mode,
    clamp_to_interior,
    in_float64,
    log_uniform,
    one_minus_exp,
    quadrature_rule,
    rounded_draw,
    value_of,
    widened,
    with_boundary_values,
)
from rationale.distributions.unit_interval import AdaptedDistribution, BinaryConcrete, Kumaraswamy, UnitDistribution


class StretchedRectified(Distribution):
    """H = clip(left + (right - left) K, 0, 1), where K follows a distribution on (0, 1).

    The probability that the stretched variable is below 0 becomes the mass at 0; that it is above 1, the mass at 1.
    With k0 = -left / (right - left) and k1 = (1 - left) / (right - left):

        P(H = 0) = F(k0)     P(H = 1) = 1 - F(k1)     f_T(h) = f((h - left)/(right - left)) / (right - left)

    The density f_T comes in addition to the masses: over (0, 1) it integrates to P(0 < H < 1), not to 1.
    Source: eq. (H1)-(H11), notebooks/03_hardkuma.py; Bastings et al. 2019, sec. 3.

    Parameters
    ----------
    base : Distribution
        `Kumaraswamy` or `BinaryConcrete`; or any distribution on (0, 1) with `cdf`, `icdf` and `log_prob`, which then
        determine the accuracy. Where its cdf rounds to 0 or 1, so do the masses, and they have no gradient.
    left, right : floats, left <= 0 and right >= 1
        With left = 0 there is no mass at 0; with right = 1 there is none at 1 (DiffMask's half-open [0, 1)).

    Raises
    ------
    ValueError
        If left > 0 or right < 1, or if a parameter of the base is invalid.

    Notes
    -----
    `prob_*` are masses in [0, 1]; `log_prob_*` are their logarithms, accurate even where the mass underflows.
    `mean` is E[H], `conditional_mean` is E[H | 0 < H < 1], and `base_mean` is the mean of the base. The mean, variance
    and entropy of a HardKuma have a relative error of at most 1e-10 in float64 for a, b in [1e-3, 1e3]. On a half-open
    support the density may have a pole, and then the mean has an absolute error of up to 1e-7. The relative error of
    the variance is then up to 1e-3 where the variance is not tiny. As in torch, what is computed once is kept. So after
    the parameters were changed in place, or for a second backward pass, make the distribution anew.
    """

    arg_constraints = {}
    support = constraints.unit_interval
    has_rsample = True
    binary = False  # a draw may lie between 0 and 1

    def __init__(self, base: Distribution, left: float = -0.1, right: float = 1.1, validate_args: bool | None = None):
        for name, end in (("left", left), ("right", right)):
            if isinstance(end, Tensor):
                raise ValueError(f"{name}: got a tensor, accepted is a float; the support has no gradient")
        if not (-math.inf < left <= 0 and 1 <= right < math.inf):
            raise ValueError(f"expected left <= 0 and right >= 1, got left={left}, right={right}")
        self.base, self.left, self.right = base, float(left), float(right)
        self._unit_base = base if isinstance(base, UnitDistribution) else AdaptedDistribution(base)
        super().__init__(base.batch_shape, base.event_shape, validate_args=False)
        self._validate_args = base._validate_args if validate_args is None else validate_args
        coordinate = functools.partial(self._unit_base._coordinate, numbers=math)
        self._x_zero = coordinate(-self.left, self.right) if left < 0 else None
        self._x_one = coordinate(1 - self.left, self.right - 1) if right > 1 else None

    def expand(self, batch_shape, _instance=None):
        new = type(self).__new__(type(self))
        base = self.base.expand(torch.Size(batch_shape))
        StretchedRectified.__init__(new, base, self.left, self.right, validate_args=self._validate_args)
        for name in self.arg_constraints:
            setattr(new, name, getattr(base, name))
        return new

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.arg_constraints} or {"base": self.base}
        numbers = {
            name: value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
            for name, value in shown.items()
        }
        parts = [f"{name}: {value.size() if isinstance(value, Tensor) else value}" for name, value in numbers.items()]
        return f"{type(self).__name__}({', '.join(parts)}, left: {self.left}, right: {self.right})"

    def _map(self, change: Callable[[Tensor], Tensor]) -> "StretchedRectified":
        base = self._unit_base._map(change) if self._has_known_parameters else self.base
        return StretchedRectified(base, self.left, self.right, validate_args=False)

    @property
    def _has_known_parameters(self) -> bool:
        return self._unit_base._has_known_parameters

    @property
    def _like(self) -> Tensor:
        return self._unit_base._like

    @cached_per_mode
    @widened
    def _log_zero(self) -> Tensor:
        """ln P(H = 0); a mass that is absent is exactly ln 0 = -inf."""
        return self._log_of_one - math.inf if self._x_zero is None else self._unit_base._log_cdf_at(self._x_zero)

    @cached_per_mode
    @widened
    def _log_nonzero(self) -> Tensor:
        return self._log_of_one if self._x_zero is None else self._unit_base._log_survival_at(self._x_zero)

    @cached_per_mode
    @widened
    def _log_one(self) -> Tensor:
        return self._log_of_one - math.inf if self._x_one is None else self._unit_base._log_survival_at(self._x_one)

    @cached_per_mode
    @widened
    def _log_interior(self) -> Tensor:
        if self._x_one is None:
            return self._log_nonzero
        if self._x_zero is None:
            return self._unit_base._log_cdf_at(self._x_one)
        return self._unit_base._log_between(self._x_zero, self._x_one)

    @property
    def _log_of_one(self) -> Tensor:
        return torch.zeros_like(self._like).expand(self.batch_shape)

    @cached_per_mode
    @widened
    def _masses(self) -> tuple[Tensor, ...]:
        """P(H = 0), P(H = 1), P(0 < H < 1)."""
        if self._x_zero is None or self._x_one is None:
            return self._log_zero.exp(), self._log_one.exp(), self._log_interior.exp()
        return self._unit_base._masses(self._x_zero, self._x_one)

    @property
    def base_mean(self) -> Tensor:
        """E[K] of the base, by quadrature if the base does not know its mean."""
        return self._unit_base.mean

    @property
    def prob_zero(self) -> Tensor:
        """P(H = 0), eq. (H3)."""
        return self._masses[0]

    @property
    def prob_nonzero(self) -> Tensor:
        """P(H != 0), whose sum is the expected L0 norm."""
        return self._log_nonzero.exp()

    @property
    def prob_one(self) -> Tensor:
        """P(H = 1), eq. (H3)."""
        return self._masses[1]

    @property
    def prob_interior(self) -> Tensor:
        """P(0 < H < 1), eq. (H3)."""
        return self._masses[2]

    @property
    def log_prob_zero(self) -> Tensor:
        """ln P(H = 0), eq. (H4)."""
        return self._log_zero

    @property
    def log_prob_nonzero(self) -> Tensor:
        """ln P(H != 0); its exponential sums to the expected L0 norm."""
        return self._log_nonzero

    @property
    def log_prob_one(self) -> Tensor:
        """ln P(H = 1), eq. (H4)."""
        return self._log_one

    @property
    def log_prob_interior(self) -> Tensor:
        """ln P(0 < H < 1), eq. (H4)."""
        return self._log_interior

    def rsample(self, sample_shape=SINGLE_DRAW) -> Tensor:
        """Reparameterised draws, eq. (H6). Their derivative is that of the stretched base, and 0 where h is clipped."""
        return self.rsample_at(log_uniform(self._extended_shape(sample_shape), self._like))

    def rsample_at(self, log_s: Tensor) -> Tensor:
        """`rsample` with the given noise `log_s` (see `log_uniform`): h with ln P(H > h) = log_s, clipped, eq. (H6).

        In half precision, the draw is computed in float32, and one inside (0, 1) is not rounded to 0 or 1.
        """
        dtype = self._like.dtype
        if dtype.itemsize > 2:
            return self._unit_base._rectified_quantile(log_s, self.left, self.right)
        wide = self._map(Tensor.float)
        return rounded_draw(wide._unit_base._rectified_quantile(log_s.float(), self.left, self.right), dtype)

    def _at(self, value: Tensor) -> Tensor:
        """The base's coordinate of a value of H, after 0 and 1 are replaced by numbers inside (0, 1)."""
        value = clamp_to_interior(value)
        return self._unit_base._coordinate(value - self.left, (1 - value) + (self.right - 1))

    def _density_at(self, x: Tensor) -> Tensor:
        """Log density of H at a point of (0, 1) that is given in the base's coordinate."""
        return self._unit_base._log_prob_at(x) - math.log(self.right - self.left)

    @widened
    def cdf(self, value: Tensor | float) -> Tensor:
        """P(H <= value), which jumps by P(H = 0) at 0 and by P(H = 1) at 1."""
        value = value_of(self, value, self._like)
        inside = one_minus_exp(self._unit_base._log_survival_at(self._at(value)))
        return with_boundary_values(value, inside, torch.where(value < 0, 0.0, self.prob_zero), 1.0)

    @widened
    def icdf(self, value: Tensor | float) -> Tensor:
        """clip(left + (right - left) F^-1(value), 0, 1), which is constant over each of the two masses."""
        value = value_of(self, value, self._like)
        inside = self._unit_base._rectified_quantile((-clamp_to_interior(value)).log1p(), self.left, self.right)
        return with_boundary_values(value, inside, 0.0, 1.0)

    @widened
    def log_prob(self, value: Tensor | float) -> Tensor:
        """Log of the mass at 0 and at 1, and of the density (not rescaled) in between, eq. (H5); outside, -inf."""
        value, ends = value_of(self, value, self._like), (self._x_zero, self._x_one)
        return self._unit_base._rectified_log_prob(
            value, self.left, self.right, ends, lambda: (self._log_zero, self._log_one)
        )

    def _interior(self) -> tuple[Tensor, Tensor, Tensor]:
        """Quadrature for E[. | 0 < H < 1], eq. (H8): nodes as ln P(H > h) and as h [nodes, ...], weights [nodes].

            P(H > h_j) = (1 - v_j) P(H != 0) + v_j P(H = 1),   v_j and weights from `quadrature_rule`

        The probability is computed from the nearer end, so that both tails keep their digits.
        """
        log_v, log_rest, weight = quadrature_rule(len(self.batch_shape), self._like.device)
        below, above = self.prob_interior * log_v.exp(), log_rest
        if self._x_zero is not None:
            below = self.prob_zero + below
        if self._x_one is not None:
            above = torch.logaddexp(log_rest, log_v + (self.log_prob_one - self.log_prob_nonzero))
        log_s = torch.where(below < 0.5, (-below.clamp(max=0.5)).log1p(), self.log_prob_nonzero + above)
        base = self._unit_base
        x = base._quantile_coordinate(log_s)
        if self._has_known_parameters:  # where P(H < 1) is below the smallest number, its logarithm still has digits
            vanishes = (self.log_prob_interior < math.log(torch.finfo(x.dtype).tiny) / 2) & (self.prob_zero < 0.5)
            log_interior = torch.where(vanishes, self.log_prob_interior, 0.0)
            share = log_v.exp() + (torch.where(vanishes, self.log_prob_zero, -1.0) - log_interior).exp()
            x = torch.where(vanishes, base._lower_tail_coordinate(log_interior + share.log()), x)
        h = self.left + (self.right - self.left) * base._value(x)
        return log_s, h.clamp(0, 1), weight

    @property
    @in_float64
    def conditional_mean(self) -> Tensor:
        """E[H | 0 < H < 1], eq. (H8)."""
        _, h, weight = self._interior()
        return average_over_quantiles(weight, h)

    @property
    @in_float64
    def mean(self) -> Tensor:
        """E[H] = P(H = 1) + P(0 < H < 1) E[H | 0 < H < 1], eq. (H8). Not the mean of the base."""
        return self.prob_one + self.prob_interior * self.conditional_mean

    @property
    @in_float64
    def variance(self) -> Tensor:
        """E[(H - E[H])^2], summed over 0, 1 and the interior, so that no term is negative."""
        mean, (_, h, weight) = self.mean, self._interior()
        inside = average_over_quantiles(weight, (h - mean) ** 2)
        return self.prob_zero * mean**2 + self.prob_one * (1 - mean) ** 2 + self.prob_interior * inside

    @property
    @in_float64
    def mode(self) -> Tensor:
        """The most probable of {0}, {1} and (0, 1); if this is (0, 1), the point of highest density in it.

        A mass is compared with masses, never with a density. If the density is highest at an end of (0, 1), that end
        is returned.
        """
        peak = (self.left + (self.right - self.left) * self._unit_base.mode).clamp(0, 1)
        points = torch.stack([peak, torch.zeros_like(peak), torch.ones_like(peak)])
        inside = points.gather(0, self._density_at(self._at(points)).argmax(0, keepdim=True)).squeeze(0)
        zero, one, interior = self._masses
        return torch.where(interior >= torch.maximum(zero, one), inside, (one >= zero).to(inside.dtype))

    @in_float64
    def entropy(self) -> Tensor:
        """-P0 ln P0 - P1 ln P1 - integral_0^1 f_T ln f_T, in nats, eq. (H10)."""
        log_s, _, weight = self._interior()
        log_density = self._unit_base._log_prob_at_quantiles_of(self._unit_base, log_s) - math.log(
            self.right - self.left
        )
        inside = self.prob_interior * average_over_quantiles(weight, log_density)
        lowest = torch.finfo(self.log_prob_zero.dtype).min
        at_zero, at_one = self.log_prob_zero.clamp(min=lowest), self.log_prob_one.clamp(min=lowest)
        return -(self.prob_zero * at_zero + self.prob_one * at_one + inside)


class HardKuma(StretchedRectified):
    """HardKuma(a, b, left, right), a stretched and rectified Kumaraswamy (Bastings et al. 2019, sec. 3).

        P(H = 0) = 1 - (1 - k0^a)^b       P(H = 1) = (1 - k1^a)^b

    The parameters and errors are those of `Kumaraswamy` and `StretchedRectified`.

    Examples
    --------
    >>> gate = HardKuma(0.5, 0.5, left=-0.1, right=1.1)
    >>> gate.prob_zero, gate.prob_interior, gate.prob_one
    (tensor(0.1566), tensor(0.6371), tensor(0.2063))
    >>> gate.mean, gate.base.mean  # E[H] and E[K]
    (tensor(0.5365), tensor(0.5333))
    >>> gate.icdf(torch.tensor([0.1, 0.5, 0.9]))  # draws for given noise: exactly 0, in between, exactly 1
    tensor([0.0000, 0.5750, 1.0000])

    If a gate is almost surely 0, P(H != 0) underflows, but its logarithm and the gradient do not:

    >>> b = torch.tensor(2000.0, requires_grad=True)
    >>> closed = HardKuma(1.0, b)
    >>> gradient = torch.autograd.grad(closed.log_prob_nonzero, b)[0]
    >>> round(closed.log_prob_nonzero.item(), 3), round(gradient.item(), 4)
    (-174.023, -0.087)
    """

    arg_constraints = Kumaraswamy.arg_constraints

    def __init__(self, a, b, left=-0.1, right=1.1, validate_args: bool | None = None):
        base = Kumaraswamy(a, b, validate_args)
        super().__init__(base, left, right, validate_args)
        self.a, self.b = base.a, base.b


class HardConcrete(StretchedRectified):
    """HardConcrete(logits, temperature, left, right), a stretched and rectified Binary Concrete.

        P(H != 0) = sigmoid(logits - temperature ln(-left / right))

    Source: eq. (H12), notebooks/03_hardkuma.py; Louizos et al. 2018. DiffMask's gate on [0, 1) has left=-0.2 and
    right=1.0, so that P(H = 1) = 0.

    Examples
    --------
    >>> gate = HardConcrete(logits=0.0, temperature=0.5)
    >>> gate.prob_zero, gate.prob_interior, gate.prob_one
    (tensor(0.2317), tensor(0.5367), tensor(0.2317))
    >>> HardConcrete(0.0, 0.5, left=-0.2, right=1.0).prob_one  # DiffMask's gate is never exactly 1
    tensor(0.)
    """

    arg_constraints = BinaryConcrete.arg_constraints

    def __init__(self, logits, temperature, left=-0.1, right=1.1, validate_args: bool | None = None):
        base = BinaryConcrete(logits, temperature, validate_args)
        super().__init__(base, left, right, validate_args)
        self.logits, self.temperature = base.logits, base.temperature
