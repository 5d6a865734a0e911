"""Kullback-Leibler divergences between the distributions of this package, registered with torch."""

import functools
import math

import torch
from torch import Tensor
from torch.distributions import Beta, Uniform, kl_divergence, register_kl

from rationale.distributions.numerics import average_over_quantiles, quadrature_rule
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


@register_kl(Kumaraswamy, Kumaraswamy)
@register_kl(BinaryConcrete, BinaryConcrete)
@_kl_in_float64
def _kl_same_family(p, q):
    """E_p[ln p - ln q] over the quantiles of p, eq. (K8).

    For two Kumaraswamys, the only term without a closed form is E[ln(1 - K^alpha)]. It can also be written as a
    series of Beta functions with a Hurwitz zeta function as its tail. The integral is as accurate, has a derivative
    with respect to b, and stays fast for small b.
    """
    _, log_s, weight = quadrature_rule(len(p.batch_shape), p._like.device)
    return -p.entropy() - average_over_quantiles(weight, q._log_prob_at_quantiles_of(p, log_s))


@register_kl(Kumaraswamy, Uniform)
@_kl_in_float64
def _kl_kumaraswamy_uniform(p, q):
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


@register_kl(StretchedRectified, StretchedRectified)
@_kl_in_float64
def _kl_rectified(p, q):
    """KL of two rectified distributions, eq. (H11): a sum over the masses and a quadrature over the interior of p.

        KL = sum_j p_j ln(p_j / q_j) + P_p(0 < H < 1) E_p[ln f_p(H) - ln f_q(H) | 0 < H < 1]

    Both distributions need the same `left` and `right`.
    """
    if (p.left, p.right) != (q.left, q.right):
        supports = f"({p.left}, {p.right}) and ({q.left}, {q.right})"
        raise NotImplementedError(
            f"the KL divergence of two rectified distributions needs the same (left, right), got {supports}"
        )
    log_s, h, weight = p._interior()
    same_family = type(p._unit_base) is type(q._unit_base) is not AdaptedDistribution
    log_q = (
        q._unit_base._log_prob_at_quantiles_of(p._unit_base, log_s)
        if same_family
        else q._unit_base._log_prob_at(q._at(h))
    )
    total = p.prob_interior * average_over_quantiles(
        weight, p._unit_base._log_prob_at_quantiles_of(p._unit_base, log_s) - log_q
    )
    if p._x_zero is not None:
        total = total + p.prob_zero * (p.log_prob_zero - q.log_prob_zero)
    if p._x_one is not None:
        total = total + p.prob_one * (p.log_prob_one - q.log_prob_one)
    return total
