"""The mappings that make weights equal: fusedmax those of neighbours, oscarmax any.

Source: eqs. (A3), (A4), (A9), notebooks/40_sparse_attention.py; Niculae and Blondel 2017.
"""

import torch
from torch import Tensor

from rationale.nn.mappings import vectorised
from rationale.nn.mappings.mapping import Mapping
from rationale.nn.mappings.projection import Projected
from rationale.nn.mappings.rows import apply_to_rows, check_price, checked, not_finite, unmasked


def fusedmax(
    scores: Tensor, mask: Tensor | None = None, gamma: float | Tensor = 1.0, lam: float = 0.1, dim: int = -1
) -> Tensor:
    """Sparse weights in contiguous segments of equal weight: simplex projection of the total-variation prox.

        P_simplex(P_TV(x / gamma)),   P_TV(x) = argmin_y |y - x|^2 / 2 + lam sum_i |y_{i+1} - y_i|

    The weights are uniform and have gradient 0 iff max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam, lam > 0: see
    `in_dead_zone`.

    Source: eq. (A3), notebooks/40_sparse_attention.py; Niculae and Blondel 2017, sec. 3.2. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of a difference between neighbours; 0 gives sparsemax. The paper uses 0.1.

    Examples
    --------
    >>> from rationale.nn import sparsemax
    >>> scores = torch.tensor([1.0, 0.8, -1.0, 0.9])
    >>> sparsemax(scores), fusedmax(scores, lam=0.2)  # neighbours fuse
    (tensor([0.4333, 0.2333, 0.0000, 0.3333]), tensor([0.3667, 0.3667, 0.0000, 0.2667]))
    """
    check_price(lam)
    return apply_to_rows(scores, mask, gamma, dim, _fast_fusedmax, vectorised.fusedmax, lam)


def _fast_fusedmax(scores: Tensor, mask: Tensor | None, gamma: float, lam: float) -> Tensor:
    return Projected.apply(scores, mask, gamma, lam, "steps" if lam > 0 else "nothing")[0]


def oscarmax(
    scores: Tensor,
    mask: Tensor | None = None,
    gamma: float | Tensor = 1.0,
    lam: float = 0.01,
    published: bool = False,
    dim: int = -1,
) -> Tensor:
    """Sparse weights in groups of equal weight; the members of a group can be at any positions.

        P_simplex(pooled(x_(i) / gamma - lam (d - i))),   x_(1) >= ... >= x_(d)

    `pooled` is the nearest non-increasing sequence (pool adjacent violators), returned to the original order.

    Source: eq. (A4), notebooks/40_sparse_attention.py. Arguments as for `softmax`.

    Parameters
    ----------
    lam : float, >= 0
        Price of the larger weight of each pair; 0 gives sparsemax. The paper uses 0.01.
    published : bool
        The composition of Niculae and Blondel 2017, sec. 3.2: sort by |x|, pool, clip at 0, restore the signs.
        The result is not the maximum if signs differ or a value is clipped, and it changes when a constant is added.

    Examples
    --------
    >>> from rationale.nn import sparsemax
    >>> scores = torch.tensor([1.0, -1.0, 0.9, 0.2])
    >>> sparsemax(scores), oscarmax(scores, lam=0.1)  # the two largest are equal, though not neighbours
    (tensor([0.5500, 0.0000, 0.4500, 0.0000]), tensor([0.5000, 0.0000, 0.5000, 0.0000]))
    """
    check_price(lam)
    level = not published
    return apply_to_rows(scores, mask, gamma, dim, _fast_oscarmax, vectorised.oscarmax, lam, published, level=level)


def _fast_oscarmax(scores: Tensor, mask: Tensor | None, gamma: float, lam: float, published: bool) -> Tensor:
    equal = "published" if published else "ties" if lam > 0 else "nothing"
    return Projected.apply(scores, mask, gamma, lam, equal)[0]


class Fusedmax(Mapping):
    """The module of `fusedmax`."""

    name, function, settings = "fusedmax", staticmethod(fusedmax), {"lam": "lam"}
    makes_equal = "neighbours"


class Oscarmax(Mapping):
    """The module of `oscarmax`."""

    name, function, settings = "oscarmax", staticmethod(oscarmax), {"lam": "lam"}
    makes_equal = "any"


def in_dead_zone(scores: Tensor, mask: Tensor | None = None, gamma: float = 1.0, lam: float = 0.1) -> Tensor:
    """Whether fusedmax is uniform over a row and its gradient exactly 0, bool [...]; never if lam is 0.

        max_k |sum_{i<=k} (x_i - mean x)| <= gamma lam,   lam > 0

    Dot-product scores are often this small at initialisation, and attention that starts in this zone never changes.
    Source: eq. (A9), notebooks/40_sparse_attention.py.

    Examples
    --------
    >>> in_dead_zone(torch.tensor([[0.1, 0.0, 0.2], [3.0, 0.0, 0.0]]), lam=0.5)
    tensor([ True, False])
    """
    check_price(lam)
    scores, mask, _ = checked(scores, mask, gamma, -1)
    mask = unmasked(scores, mask)
    if not torch.isfinite(scores[mask]).all():
        raise not_finite(scores[mask])
    scores = scores.double()  # as in fusedmax itself
    mean = torch.where(mask, scores, 0.0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
    inside = torch.where(mask, scores - mean, 0.0).cumsum(-1).abs() <= gamma * lam
    return inside.all(-1) & (lam > 0)
