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

from rationale.distributions import kl  # noqa: F401 (importing it registers the divergences)
from rationale.distributions.binary import Bernoulli, StraightThroughBernoulli
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
    unit_rule,
    with_ends,
)
from rationale.distributions.rectified import HardConcrete, HardKuma, StretchedRectified
from rationale.distributions.unit_interval import Adapted, BinaryConcrete, Kumaraswamy, UnitLaw

__all__ = [
    "LN2",
    "ONCE",
    "Adapted",
    "Bernoulli",
    "BinaryConcrete",
    "HardConcrete",
    "HardKuma",
    "KumaDraw",
    "Kumaraswamy",
    "LogCdf",
    "Masses",
    "StraightThroughBernoulli",
    "StretchedRectified",
    "UnitLaw",
    "average_over_quantiles",
    "clip",
    "in_double",
    "log1mexp",
    "log_gamma_rise",
    "log_uniform",
    "off_the_ends",
    "unit_rule",
    "with_ends",
]
