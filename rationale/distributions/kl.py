"""Kullback-Leibler divergences between the distributions of this package and torch's, registered with torch."""

import functools
import math

import torch
from torch import Tensor, distributions
from torch.distributions import Beta, Uniform, kl_divergence, register_kl
from torch.nn.functional import logsigmoid

from rationale.distributions.binary import Bernoulli
from rationale.distributions.numerics import (
    average_over_quantiles,
    in_chunks,
    log1mexp,
    log_sigmoid,
    quadrature_rule,
)
from rationale.distributions.rectified import StretchedRectified
from rationale.distributions.unit_interval import AdaptedDistribution, BinaryConcrete, Kumaraswamy, UnitDistribution


def _kl_in_float64(kl):
    """Decorator: compute a divergence with broadcast float64 parameters and return it in the dtype of p."""

    @functools.wraps(kl)
    def cast(p, q):
        shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
        q = q._map(Tensor.double) if isinstance(q, UnitDistribution | StretchedRectified) else q
        return kl(p._map(Tensor.double).expand(shape), q.expand(shape)).to(p._like.dtype)

    return cast


def expected_log_rest(p: Tensor, q: Tensor, power: Tensor) -> Tensor:
    """E[ln(1 - X^power)] for X ~ Beta(p, q), in float64: a term of these divergences without a general closed form.

    There is one if power = 1, psi(q) - psi(p + q), and if q is a whole number, e.g. -psi(1 + p/power) - gamma at q = 1.

    The trapezoidal rule in w = logit X, in which both the density and ln(1 - X^power) are smooth on the scale of 1,
    also where the latter bends, at w = 0 and, for power > 1, at w = ln power. Beyond the bends and the bulk of the
    density, the nodes move apart exponentially (w = s + e^(s - s_1) - e^(s_0 - s)), because a tail with a small p or q
    is long. For p, q, power in [1e-6, 1e6], the relative error is about 1e-13; 2e-12 was the largest that we measured,
    of a result of 1e-53.
    """

    def integral(p, q, power):
        with torch.no_grad():  # the nodes may depend on the parameters: the integral does not depend on the nodes
            centre, scale = (p / q).log(), (1 / p + 1 / q).sqrt().clamp(max=1)
            low = (centre.clamp(min=0) / scale).clamp(max=45) + 3  # distance of the outermost bend, or of the bulk
            high = ((power.log().clamp(min=0) - centre).clamp(min=0) / scale).clamp(max=45) + 3
            start = -low - (10 + 45 / (p * scale)).log1p()  # 10 standard deviations, or until e^-45 is left of a tail
            end = high + (10 + 45 / (q * scale)).log1p()
            share = torch.linspace(0, 1, 257, dtype=p.dtype, device=p.device).view([-1] + [1] * p.ndim)
            s = start + (end - start) * share
            to_right, to_left = (s - high).exp(), (-s - low).exp()
            w, log_slope = centre + scale * (s + to_right - to_left), (1 + to_right + to_left).log()
        density = (p * logsigmoid(w) + q * logsigmoid(-w) + log_slope).softmax(0)
        far = w > 300  # 1 - X is below the smallest number, and ln(1 - X^power) = ln(power) - w
        inside = log1mexp(power * logsigmoid(torch.where(far, 0.0, w)))
        return (density * torch.where(far, power.log() - w, inside)).sum(0)

    return in_chunks(integral, 512, p, q, power)


@register_kl(Kumaraswamy, Kumaraswamy)
@_kl_in_float64
def _kl_kumaraswamy(p, q):
    """E_p[ln p - ln q], eq. (K8), where K^a ~ Beta(1, b), so that E[ln(1 - K^alpha)] = E[ln(1 - X^(alpha / a))]."""
    log_rest = expected_log_rest(torch.ones_like(p.a), p.b, q.a / p.a)
    return -p.entropy() - q.a.log() - q.b.log() + (q.a - 1) * p._harmonic / p.a - (q.b - 1) * log_rest


@register_kl(BinaryConcrete, BinaryConcrete)
@_kl_in_float64
def _kl_binary_concrete(p, q):
    """E_p[ln p - ln q] = ln s - 2 + E[-ln sigmoid(y) - ln sigmoid(-y)],   y = (z - m_q s + m_p) / s,   s = t_p / t_q.

    z is a logistic variable, logit K = (z + m_p) / t_p, and y is the logit of P(K' <= K) for K' ~ q.
    """
    scale = p.temperature / q.temperature
    return scale.log() - 2 + p._spread(scale, q.logits * scale - p.logits)


@register_kl(Kumaraswamy, Uniform)
@register_kl(BinaryConcrete, Uniform)
@_kl_in_float64
def _kl_to_uniform(p, q):
    """-entropy + ln(high - low) if [low, high] covers [0, 1], otherwise inf."""
    covers = (q.low <= 0) & (q.high >= 1)
    return torch.where(covers, (q.high - q.low).double().log() - p.entropy(), math.inf)


@register_kl(Kumaraswamy, Beta)
@_kl_in_float64
def _kl_kumaraswamy_beta(p, q):
    """KL to Kumaraswamy(1, beta) = Beta(1, beta), plus the correction for a first parameter alpha.

    ln Beta(k; alpha, beta) = ln Beta(k; 1, beta) + (alpha - 1) ln k - ln [B(alpha, beta) beta]
    """
    alpha, beta = q.concentration1.double(), q.concentration0.double()
    log_scale = torch.lgamma(alpha) + torch.lgamma(beta + 1) - torch.lgamma(alpha + beta)
    to_first = kl_divergence(p, Kumaraswamy(torch.ones_like(beta), beta, validate_args=False))
    return to_first + (alpha - 1) * p._harmonic / p.a + log_scale


@register_kl(Beta, Kumaraswamy)
def _kl_beta_kumaraswamy(p, q):
    """-entropy - E[ln q], with E[ln X] = psi(alpha) - psi(alpha + beta)."""
    first, second = p.concentration1, p.concentration0
    alpha, beta, a, b = (x.double() for x in torch.broadcast_tensors(first, second, q.a, q.b))
    entropy = Beta(alpha, beta, validate_args=False).entropy()
    log_x = torch.digamma(alpha) - torch.digamma(alpha + beta)
    log_rest = expected_log_rest(alpha, beta, a)
    return (-entropy - a.log() - b.log() - (a - 1) * log_x - (b - 1) * log_rest).to(first.dtype)


@register_kl(Uniform, Kumaraswamy)
def _kl_uniform_kumaraswamy(p, q):
    """-ln(high - low) - E[ln q] if [low, high] is within [0, 1], otherwise inf.

    E[ln q] = [G(high) - G(low)] / (high - low)     G(x) = integral_0^x ln q
    """
    low, high, a, b = (x.double() for x in torch.broadcast_tensors(p.low, p.high, q.a, q.b))
    within = (low >= 0) & (high <= 1)
    low, high = torch.where(within, low, 0.0), torch.where(within, high, 1.0)
    log_v, log_rest, weight = quadrature_rule(low.ndim, low.device, step=0.02)
    below, above = low + (high - low) * log_v.exp(), (1 - high) + (high - low) * log_rest.exp()
    law = Kumaraswamy(a, b, validate_args=False)
    average = average_over_quantiles(weight, law._log_prob_at(law._coordinate(below, above)))
    return torch.where(within, -(high - low).log() - average, math.inf).to(p.low.dtype)


def _as_ours(law: distributions.Kumaraswamy) -> Kumaraswamy:
    return Kumaraswamy(law.concentration1, law.concentration0, validate_args=False)


@register_kl(Kumaraswamy, distributions.Kumaraswamy)
def _kl_to_torch_kumaraswamy(p, q):
    return kl_divergence(p, _as_ours(q))


@register_kl(distributions.Kumaraswamy, Kumaraswamy)
def _kl_from_torch_kumaraswamy(p, q):
    return kl_divergence(_as_ours(p), q)


@register_kl(StretchedRectified, StretchedRectified)
@_kl_in_float64
def _kl_rectified(p, q):
    """KL of two rectified distributions, eq. (H11): a sum over the masses and a quadrature over the interior of p.

        KL = sum_j p_j ln(p_j / q_j) + P_p(0 < H < 1) E_p[ln f_p(H) - ln f_q(H) | 0 < H < 1]

    The two may be stretched to different ends, because the masses of both are at 0 and at 1. It is inf where p has a
    mass that q does not have. If the ends differ and q has a pole at 0 or 1, values closer to it than 1e-16 are lost.
    """
    log_s, h, weight = p._interior()
    same_family = type(p._unit_base) is type(q._unit_base) is not AdaptedDistribution
    same_ends = (p.left, p.right) == (q.left, q.right)
    log_q = (
        q._unit_base._log_prob_at_quantiles_of(p._unit_base, log_s)
        if same_family and same_ends
        else q._unit_base._log_prob_at(q._at(h))
    )
    if not same_ends:  # equal factors dt/dk of the two densities cancel
        log_q = log_q + math.log(p.right - p.left) - math.log(q.right - q.left)
    total = p.prob_interior * average_over_quantiles(
        weight, p._unit_base._log_prob_at_quantiles_of(p._unit_base, log_s) - log_q
    )
    if p._x_zero is not None:
        total = total + (math.inf if q._x_zero is None else p.prob_zero * (p.log_prob_zero - q.log_prob_zero))
    if p._x_one is not None:
        total = total + (math.inf if q._x_one is None else p.prob_one * (p.log_prob_one - q.log_prob_one))
    return total


@register_kl(StretchedRectified, distributions.Bernoulli)
def _kl_rectified_bernoulli(p, q):
    """inf: p has a density on (0, 1), where q has none."""
    shape = torch.broadcast_shapes(p.batch_shape, q.batch_shape)
    return torch.full_like(p.prob_zero.expand(shape), math.inf)


@register_kl(distributions.Bernoulli, StretchedRectified)
def _kl_bernoulli_rectified(p, q):
    """sum_j p_j ln(p_j / q_j) over the masses at 0 and 1; inf where p has a mass that q does not have.

    Where p has no mass, the term is 0. Probabilities that were given are used as they are, since the logits that torch
    makes of 0 and 1 are finite.
    """
    logit = p.logits
    one, zero = logit.sigmoid(), (-logit).sigmoid()
    if p._param is vars(p).get("probs"):
        one, zero = p.probs, 1 - p.probs
    total: Tensor | float = 0.0
    for mass, log_mass, log_other in (
        (one, log_sigmoid(logit), q.log_prob_one),
        (zero, log_sigmoid(-logit), q.log_prob_zero),
    ):
        nothing = mass == 0
        log_ratio = torch.where(nothing, 0.0, torch.where(nothing, 0.0, log_mass) - log_other)
        total = total + mass * log_ratio
    return total


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p, q):
    """The same sum over the two masses; torch's is inf where the probability of a logit rounds to 0 or 1.

    It is inf where a probability of 0 or 1 was given to q, and p has the other mass.
    """
    total = _kl_bernoulli_rectified(p, q)
    if q._param is vars(q).get("probs"):
        total = torch.where(((q.probs == 0) & (p.probs > 0)) | ((q.probs == 1) & (p.probs < 1)), math.inf, total)
    return total
