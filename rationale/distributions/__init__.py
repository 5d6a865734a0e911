"""Distributions of gates with mass at exactly 0 and exactly 1: HardKuma, Hard Concrete, their bases, and Bernoulli.

    K ~ Kumaraswamy(a, b) on (0, 1)      base, eq. (K1)-(K8), notebooks/02_kumaraswamy.py
    T = left + (right - left) K          stretched, eq. (H1), notebooks/03_hardkuma.py
    H = min(1, max(0, T))                rectified, eq. (H2): two masses and, between them, a density

Sources: Kumaraswamy 1980; Bastings, Aziz & Titov 2019 (HardKuma); Louizos, Welling & Kingma 2018 (Hard
Concrete); Wasserman & Mateos 2025 (the Kumaraswamy through log(1 - exp(x))).

How the numbers stay accurate. No formula here contains an epsilon; three ideas replace it.

1. A distribution is written in a coordinate x that keeps its digits where the value itself loses them: x = ln k for
   the Kumaraswamy, x = logit s for the Binary Concrete. Then ln P(K > k) = b log1mexp(a x), with
   log1mexp(x) = ln(1 - e^x), and every mass is an exp or an expm1 of such a logarithm.
2. A draw starts from ln u, with u uniform on the whole of (0, 1), and u is the *survival* probability of the draw.
3. The gradients of the most frequent computations (the draw and the three masses) are written by hand: they reuse the
   forward pass, and where the chain rule would give inf * 0 they return the limit.

Statistics that need an integral (mean, variance, entropy, KL) are averages over the quantiles of the interior,
computed in float64 by one fixed quadrature rule. They are deterministic and differentiable, and are cast back to the
dtype of the parameters.
"""

from rationale.distributions import kl  # noqa: F401  registers the KL divergences with torch
from rationale.distributions.binary import Bernoulli, StraightThroughBernoulli
from rationale.distributions.numerics import log1mexp, log_uniform
from rationale.distributions.protocol import GateDistribution
from rationale.distributions.rectified import HardConcrete, HardKuma, StretchedRectified
from rationale.distributions.unit_interval import BinaryConcrete, Kumaraswamy, UnitDistribution

__all__ = [
    "Bernoulli",
    "BinaryConcrete",
    "GateDistribution",
    "HardConcrete",
    "HardKuma",
    "Kumaraswamy",
    "StraightThroughBernoulli",
    "StretchedRectified",
    "UnitDistribution",
    "log1mexp",
    "log_uniform",
]
