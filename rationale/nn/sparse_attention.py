"""Mappings from scores to attention weights: softmax, sparsemax, fusedmax, oscarmax, sq-pnorm-max.

    mapping(x) = argmax_{y in simplex} y . x - gamma Omega(y)

    softmax        Omega = sum_i y_i ln y_i
    sparsemax      Omega = |y|^2 / 2
    fusedmax       Omega = |y|^2 / 2 + lam sum_i |y_{i+1} - y_i|
    oscarmax       Omega = |y|^2 / 2 + lam sum_{i<j} max(|y_i|, |y_j|)
    sq_pnorm_max   Omega = |y|_p^2 / 2

Source: eqs. (A1)-(A5), notebooks/06_sparse_attention.py; Niculae and Blondel 2017.

All take scores [..., T] and a mask [..., T] (True: unmasked) and return weights [..., T]. Masked scores are removed
before the map: their weight and gradient are 0, and the scores on either side of them become neighbours. If all of a
row is masked, its weights are zeros. Adding a constant to the scores of a row does not change its weights.

Every map except softmax is an exact algorithm for one row (`fast_rows`); rows on a GPU are copied to the CPU and back.
The Jacobians are symmetric and never built: a backward pass computes a few averages.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from rationale.settings import Refusal, Settings, setting


# ------------------------------------------------------------------------------------------------------- the maps
class MappingSettings(Settings):
    """The mapping from scores to attention weights."""

    gamma: float = setting(1.0, "strength of the regularisation of attention; large = flat", "(0, inf)")
    lam: float = setting(0.1, "price of steps between weights (fusedmax), of larger weights (oscarmax)", "[0, inf)")
    power: float = setting(1.5, "norm p of sq_pnorm_max", "(1, 2]")


def softmax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0) -> Tensor:
    """exp(x / gamma) / sum exp(x / gamma); never exactly 0.

    Parameters
    ----------
    scores : [..., T], finite where the mask is True
    mask : bool [..., T] or None
        False: the score is masked. None: no score is masked.
    gamma : float, > 0
        Strength of the regularisation: the larger, the flatter.

    Returns
    -------
    [..., T]
        Weights in [0, 1] that sum to 1 over the unmasked scores of a row; zeros for a row that is all masked.

    Raises
    ------
    ValueError
        If shapes differ, gamma is not positive, or a score that is not masked is not finite.

    Examples
    --------
    >>> softmax(torch.tensor([1.0, 0.0, -1.0]))
    tensor([0.6652, 0.2447, 0.0900])
    >>> softmax(torch.tensor([1.0, 0.0, -1.0]), mask=torch.tensor([True, True, False]))
    tensor([0.7311, 0.2689, 0.0000])
    """
    _check(scores, mask, gamma)
    if mask is not None:
        scores = scores.masked_fill(~mask, 0.0)
    if not torch.isfinite(scores).all():
        raise _not_finite(scores)
    if gamma != 1:
        lowest, highest = torch.finfo(scores.dtype).min, torch.finfo(scores.dtype).max
        scores = (scores / gamma).clamp(lowest, highest)
    if mask is None:
        return scores.softmax(-1)
    nothing = ~mask.any(-1, keepdim=True)
    return scores.masked_fill(~(mask | nothing), -torch.inf).softmax(-1) * mask


def sparsemax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0) -> Tensor:
    """The nearest point of the simplex to x / gamma: (x / gamma - tau)_+, weights of exactly 0.

    Source: eq. (A2), notebooks/06_sparse_attention.py; Martins and Astudillo 2016. Arguments as for `softmax`.

    Examples
    --------
    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]), gamma=4.0)  # flatter
    tensor([0.5417, 0.4167, 0.0417])
    """
    return _Projected.apply(scores, _check(scores, mask, gamma), gamma, 0.0, "nothing")


def fusedmax(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.1) -> Tensor:
    """Sparse weights in contiguous segments of equal weight: simplex projection of the total-variation prox.

        P_simplex(P_TV(x / gamma)),   P_TV(x) = argmin_y |y - x|^2 / 2 + lam sum_i |y_{i+1} - y_i|

    The weights are uniform and have gradient 0 iff max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam, lam > 0: see
    `in_dead_zone`.

    Source: eq. (A3), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, sec. 3.2. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of a difference between neighbours; 0 gives sparsemax. The paper uses 0.1.

    Examples
    --------
    >>> scores = torch.tensor([1.0, 0.8, -1.0, 0.9])
    >>> sparsemax(scores), fusedmax(scores, lam=0.2)  # neighbours fuse
    (tensor([0.4333, 0.2333, 0.0000, 0.3333]), tensor([0.3667, 0.3667, 0.0000, 0.2667]))
    """
    return _Projected.apply(scores, _check(scores, mask, gamma, lam), gamma, lam, "steps")


def oscarmax(
    scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.01, published: bool = False
) -> Tensor:
    """Sparse weights in groups of equal weight; the members of a group can be at any positions.

        P_simplex(pooled(x_(i) / gamma - lam (d - i))),   x_(1) >= ... >= x_(d)

    `pooled` is the nearest non-increasing sequence (pool adjacent violators), returned to the original order.

    Source: eq. (A4), notebooks/06_sparse_attention.py. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of the larger weight of each pair; 0 gives sparsemax. The paper uses 0.01.
    published : bool
        The composition of Niculae and Blondel 2017, sec. 3.3: sort by |x|, pool, clip at 0, restore the signs.
        The result is not the maximum if signs differ or a value is clipped, and it changes when a constant is added.

    Examples
    --------
    >>> scores = torch.tensor([1.0, -1.0, 0.9, 0.2])
    >>> sparsemax(scores), oscarmax(scores, lam=0.1)  # the two largest are equal, though not neighbours
    (tensor([0.5500, 0.0000, 0.4500, 0.0000]), tensor([0.5000, 0.0000, 0.5000, 0.0000]))
    """
    return _Projected.apply(scores, _check(scores, mask, gamma, lam), gamma, lam, "published" if published else "ties")


def sq_pnorm_max(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, p: float = 1.5) -> Tensor:
    """Between the maximum (p -> 1) and sparsemax (p = 2).

        y = |v|_q^(2 - q) v^(q - 1),   v = (x - tau)_+ / gamma,   q = p / (p - 1),   tau such that y sums to 1

    Source: eq. (A5), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, sec. 3.1, which iterates instead.
    Arguments as for `softmax`.

    Parameters
    ----------
    p : float, in (1, 2]
        The paper uses 1.5.

    Examples
    --------
    >>> scores = torch.tensor([1.0, 0.5, -1.0])
    >>> sq_pnorm_max(scores, p=2.0), sq_pnorm_max(scores, p=1.1)
    (tensor([0.7500, 0.2500, 0.0000]), tensor([9.9903e-01, 9.7003e-04, 0.0000e+00]))
    """
    if not 1 < p <= 2:
        raise ValueError(f"p: got {p!r}, accepted is a number in (1, 2]")
    return _SquaredNorm.apply(scores, _check(scores, mask, gamma), gamma, p)


LARGEST_PRICE = 1e300  # beyond it, prices times ranks overflow float64


@dataclass(frozen=True)
class Mapping:
    """A mapping and its properties. Call it like the function: `mapping(scores, mask, gamma=...)`.

    Attributes
    ----------
    function : from scores [..., T], a mask [..., T] and `gamma` to weights [..., T]
    settings : dict
        From each argument of the function other than gamma to the setting of a run that holds it.
    makes_equal : "nothing", "neighbours" or "any"
        Which weights a price (`lam` > 0) makes equal.
    """

    function: Callable[..., Tensor]
    settings: dict[str, str] = field(default_factory=dict)
    makes_equal: str = "nothing"

    def __call__(self, scores: Tensor, mask: Tensor | None = None, **arguments: float) -> Tensor:
        return self.function(scores, mask, **arguments)

    def arguments(self, p: MappingSettings) -> dict[str, float]:
        """The arguments of the mapping, from the settings of a run (gamma, lam, power)."""
        return {"gamma": p.gamma} | {name: getattr(p, setting) for name, setting in self.settings.items()}


MAPPINGS: dict[str, Mapping] = {
    "softmax": Mapping(softmax),
    "sparsemax": Mapping(sparsemax),
    "fusedmax": Mapping(fusedmax, {"lam": "lam"}, makes_equal="neighbours"),
    "oscarmax": Mapping(oscarmax, {"lam": "lam"}, makes_equal="any"),
    "sq_pnorm_max": Mapping(sq_pnorm_max, {"p": "power"}),
}


def unused_by(p: MappingSettings, model: str) -> Iterator[Refusal]:
    """Settings that the mapping `model` does not use: one that was changed is refused, as it would have no effect."""
    used = {"gamma", *MAPPINGS[model].settings.values()} if model in MAPPINGS else set()
    for key, known in MappingSettings.model_fields.items():
        changed = getattr(p, key) != known.default and key not in used
        yield Refusal(changed, key, f"with model {model}", f"{known.default:g}")


def all_mappings(scores: Tensor, gamma: float = 1.0, lam: float = 0.1) -> dict[str, Tensor]:
    """Scores [..., T] through every mapping of `MAPPINGS`, by name; `lam` goes to fusedmax and oscarmax."""
    priced = {name: {"lam": lam} if "lam" in mapping.settings else {} for name, mapping in MAPPINGS.items()}
    return {name: mapping(scores, None, gamma=gamma, **priced[name]) for name, mapping in MAPPINGS.items()}


def in_dead_zone(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.1) -> Tensor:
    """Whether fusedmax is uniform over a row and its gradient exactly 0, bool [...]; never if lam is 0.

        max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam,   lam > 0

    Dot-product scores are often this small at initialisation, and attention that starts in this zone never changes.
    Source: eq. (A7), notebooks/06_sparse_attention.py.

    Examples
    --------
    >>> in_dead_zone(torch.tensor([[0.1, 0.0, 0.2], [3.0, 0.0, 0.0]]), lam=0.5)
    tensor([ True, False])
    """
    mask = _check(scores, mask, gamma, lam)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    if not torch.isfinite(scores[mask]).all():
        raise _not_finite(scores[mask])
    scores = scores.double()  # as in fusedmax itself
    mean = torch.where(mask, scores, 0.0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    inside = torch.where(mask, scores - mean, 0.0).cumsum(-1).abs() <= gamma * lam
    return inside.all(-1) & (lam > 0)


def has_zero_jacobian(weights: Tensor, mapping: str, lam: float = 0.0) -> Tensor:
    """Where a mapping gave weights [..., T] at which its Jacobian is exactly 0, bool [...].

        all weights that are not 0 form one group: a single weight; with lam > 0 also equal weights (oscarmax), or
        equal neighbours (fusedmax)

    Such a row cannot change, because its scores have gradient 0. Source: eq. (A8), notebooks/06_sparse_attention.py.

    Parameters
    ----------
    weights : [..., T]
        Masked weights are at the end of a row.
    mapping : one of `MAPPINGS`
    lam : float
        The price of the mapping, if it has one.

    Examples
    --------
    >>> scores = torch.tensor([[0.1, 0.0, 0.2], [1.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
    >>> has_zero_jacobian(sparsemax(scores), "sparsemax"), has_zero_jacobian(sparsemax(scores, gamma=4.0), "sparsemax")
    (tensor([False, False,  True]), tensor([False, False, False]))
    >>> has_zero_jacobian(fusedmax(scores, lam=0.2), "fusedmax", lam=0.2)  # uniform, two fused weights, a single weight
    tensor([True, True, True])
    """
    there = weights != 0
    count = there.sum(-1)
    makes_equal = MAPPINGS[mapping].makes_equal
    if lam == 0 or makes_equal == "nothing":
        return count == 1
    equal = (weights == weights.amax(-1, keepdim=True)).eq(there).all(-1) & (count > 0)
    if makes_equal == "any":
        return equal
    begins = there & ~F.pad(there, (1, 0))[..., :-1]
    return equal & (begins.sum(-1) == 1)


def _check(scores: Tensor, mask: Tensor | None, gamma: float, lam: float = 0.0) -> Tensor | None:
    if not scores.is_floating_point() or scores.ndim == 0:
        raise ValueError(
            f"scores: got {scores.dtype} {list(scores.shape)}, accepted are rows of floating-point numbers"
        )
    if not gamma > 0:
        raise ValueError(f"gamma: got {gamma!r}, accepted is a number > 0")
    if not 0 <= lam <= LARGEST_PRICE:
        raise ValueError(f"lam: got {lam!r}, accepted is a number in [0, {LARGEST_PRICE:g}]")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask: got {mask.dtype}, accepted is torch.bool")
    if mask is not None and mask.shape != scores.shape:
        raise ValueError(f"shapes differ: scores {tuple(scores.shape)}, mask {tuple(mask.shape)}")
    return mask


def _not_finite(scores: Tensor) -> ValueError:
    value = scores[~torch.isfinite(scores)][0].item()
    return ValueError(f"scores: got {value}, accepted are finite numbers; give a mask to exclude scores")


# ------------------------------------------------------------------------------------ forward and backward passes
class _Projected(torch.autograd.Function):
    """Simplex projection, after the proximal map of a penalty (`equal`: what this penalty makes equal).

    The Jacobian of the projection subtracts the mean over the support; the Jacobian of the proximal map averages over
    each group of equal values (times signs, for the published oscarmax).

    Source: eq. (A6), notebooks/06_sparse_attention.py.
    """

    @staticmethod
    def forward(ctx, scores, mask, gamma, lam, equal):
        from rationale.nn import fast_rows  # numba is slow to import

        rows, there = _rows(scores, mask)
        weights = np.empty_like(rows)
        groups = np.empty(rows.shape if equal != "nothing" else (0, 0), dtype=np.int32)
        signs = np.empty(rows.shape if equal == "published" else (0, 0), dtype=np.int8)
        kind = fast_rows.PENALTY_KINDS[equal]
        if not fast_rows.project(rows, there, gamma, lam, kind, weights, groups, signs):
            raise _not_finite(scores if mask is None else scores[mask])
        kept = torch.from_numpy(weights.reshape(scores.shape))
        ctx.save_for_backward(kept)  # so that an in-place change of the weights raises an error
        ctx.groups, ctx.signs, ctx.gamma = groups, signs, gamma
        return kept.to(scores)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_weights):
        from rationale.nn import fast_rows

        grads, _ = _rows(grad_weights, None)
        weights, _ = _rows(ctx.saved_tensors[0], None)
        grad_scores = np.empty_like(weights)
        fast_rows.project_back(grads, weights, ctx.groups, ctx.signs, ctx.gamma, grad_scores)
        return torch.from_numpy(grad_scores.reshape(grad_weights.shape)).to(grad_weights), None, None, None, None


class _SquaredNorm(torch.autograd.Function):
    """sq-pnorm-max. With S the support, B = gamma (diag(d) + u u^T) the Hessian of gamma Omega on it:

        J v = B^-1 (v - c 1) on S,   c such that it sums to 0;   B^-1 by Sherman and Morrison

    Source: eq. (A6), notebooks/06_sparse_attention.py; Niculae and Blondel 2017, proposition 1.
    """

    @staticmethod
    def forward(ctx, scores, mask, gamma, p):
        from rationale.nn import fast_rows

        rows, there = _rows(scores, mask)
        weights = np.empty_like(rows)
        if not fast_rows.squared_norm(rows, there, gamma, p, weights):
            raise _not_finite(scores if mask is None else scores[mask])
        kept = torch.from_numpy(weights.reshape(scores.shape)).to(scores)
        ctx.save_for_backward(kept)
        ctx.gamma, ctx.p = gamma, p
        return kept

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_weights):
        (y,) = ctx.saved_tensors
        y, v, p = y.double(), grad_weights.double(), ctx.p
        norm = torch.linalg.vector_norm(y, p, -1, keepdim=True).clamp(min=torch.finfo(y.dtype).tiny)
        y = y / norm  # B stays the same
        support = y > 0
        inverse = torch.where(support, y ** (2 - p), 0.0) / (p - 1)  # of diag(d)
        u = (2 - p) ** 0.5 * torch.where(support, y ** (p - 1), 0.0)
        inverse_u = inverse * u
        denominator = 1 + (u * inverse_u).sum(-1, keepdim=True)

        def solved(w: Tensor) -> Tensor:
            return inverse * w - inverse_u * (inverse_u * w).sum(-1, keepdim=True) / denominator

        of_ones = solved(support.to(y.dtype))
        total = of_ones.sum(-1, keepdim=True)
        c = solved(v).sum(-1, keepdim=True) / total.where(total != 0, 1.0)
        return ((solved(v) - c * of_ones) / ctx.gamma).to(grad_weights.dtype), None, None, None


def _rows(values: Tensor, mask: Tensor | None) -> tuple[np.ndarray, np.ndarray]:
    """[..., T] as arrays [N, T] of float32 or float64, and of bool (empty: no score is masked)."""
    values = values.detach().cpu()
    values = values if values.dtype in (torch.float32, torch.float64) else values.float()
    shape = values.shape[:-1].numel(), values.shape[-1]
    rows = values.reshape(shape).contiguous().numpy()
    if mask is None:
        return rows, np.empty((0, 0), dtype=np.bool_)
    return rows, mask.detach().cpu().reshape(shape).contiguous().numpy()
