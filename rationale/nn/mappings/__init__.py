"""Mappings from scores to attention weights: softmax, sparsemax, entmax, fusedmax, oscarmax, sq-pnorm-max.

    mapping(x) = argmax_{y in simplex} y . x - gamma Omega(y)

    softmax        Omega = sum_i y_i ln y_i
    sparsemax      Omega = |y|^2 / 2
    entmax         Omega = sum_i (y_i^alpha - y_i) / (alpha (alpha - 1))
    fusedmax       Omega = |y|^2 / 2 + lam sum_i |y_{i+1} - y_i|
    oscarmax       Omega = |y|^2 / 2 + lam sum_{i<j} max(|y_i|, |y_j|)
    sq_pnorm_max   Omega = |y|_p^2 / 2

Source: eqs. (A1)-(A6), notebooks/40_sparse_attention.py; Niculae and Blondel 2017; Peters, Niculae and Martins 2019.

Each mapping is a function and a module (`sparsemax` and `Sparsemax`, as torch has `softmax` and `Softmax`). All take
scores and a mask and return weights that sum to 1 along `dim`. Masked scores are removed before the map: their weight
and gradient are 0, and the scores on either side of them become neighbours. If all of a row is masked, its weights are
zeros. Adding a constant to the scores of a row does not change its weights.

The Jacobians are symmetric and never built: a backward pass computes a few averages. Derivatives of higher order,
`torch.func` (grad, vmap, jacrev, jacfwd, hessian) and `torch.export` work for all of them. The second derivative of the
piecewise linear maps (sparsemax, fusedmax, oscarmax) is 0, where it exists.
"""

from rationale.nn.mappings.entropies import Entmax, Entmax15, Softmax, Sparsemax, entmax, entmax15, softmax, sparsemax
from rationale.nn.mappings.grouped import Fusedmax, Oscarmax, fusedmax, in_dead_zone, oscarmax
from rationale.nn.mappings.mapping import (
    MAPPINGS,
    Mapping,
    MappingSettings,
    all_mappings,
    build_mapping,
    has_zero_jacobian,
    unused_by,
)
from rationale.nn.mappings.norms import SqPnormMax, sq_pnorm_max
from rationale.nn.mappings.rows import LARGEST_PRICE, only_vectorised

__all__ = [
    "LARGEST_PRICE",
    "MAPPINGS",
    "Entmax",
    "Entmax15",
    "Fusedmax",
    "Mapping",
    "MappingSettings",
    "Oscarmax",
    "Softmax",
    "Sparsemax",
    "SqPnormMax",
    "all_mappings",
    "build_mapping",
    "entmax",
    "entmax15",
    "fusedmax",
    "has_zero_jacobian",
    "in_dead_zone",
    "only_vectorised",
    "oscarmax",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
    "unused_by",
]
