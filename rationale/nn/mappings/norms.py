"""The mapping whose regulariser is a squared norm: sq-pnorm-max.

Source: eq. (A5), notebooks/40_sparse_attention.py; Niculae and Blondel 2017, sec. 3.1.
"""

import torch
from torch import Tensor

from rationale.nn.mappings import vectorised
from rationale.nn.mappings.mapping import Mapping
from rationale.nn.mappings.rows import OfRows, apply_to_rows, arrays, empty_like, not_finite, with_signature


def sq_pnorm_max(
    scores: Tensor, mask: Tensor | None = None, gamma: float | Tensor = 1.0, p: float = 1.5, dim: int = -1
) -> Tensor:
    """Between the maximum (p -> 1) and sparsemax (p = 2).

        y = |v|_q^(2 - q) v^(q - 1),   v = (x - tau)_+ / gamma,   q = p / (p - 1),   tau such that y sums to 1

    Source: eq. (A5), notebooks/40_sparse_attention.py; Niculae and Blondel 2017, sec. 3.1, which iterates instead.
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
    return apply_to_rows(scores, mask, gamma, dim, _SquaredNorm.apply, vectorised.sq_pnorm_max, p)


class SqPnormMax(Mapping):
    """The module of `sq_pnorm_max`."""

    name, function, settings = "sq_pnorm_max", staticmethod(sq_pnorm_max), {"p": "power"}


@with_signature
class _SquaredNorm(OfRows):
    """The compiled form: weights = _SquaredNorm.apply(scores [..., T], mask bool [..., T] or None, gamma, p)."""

    @staticmethod
    def forward(scores, mask, gamma, p):
        from rationale.nn.mappings import fast_powers  # numba is slow to import

        rows, there = arrays(scores, mask)
        weights, of_rows = empty_like(scores, rows.shape)
        if not fast_powers.squared_norm(rows, there, gamma, p, of_rows):
            raise not_finite(scores if mask is None else scores[mask])
        return weights.to(scores)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, _, ctx.gamma, ctx.p = inputs
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, grad_weights):
        (y,) = ctx.saved_tensors
        # torch.func and create_graph=True record the backward pass, for which only the readable form has derivatives
        times = norm_jacobian_times if torch.is_grad_enabled() else _JacobianTimes.apply
        return times(grad_weights, y, ctx.gamma, ctx.p), None, None, None

    @staticmethod
    def jvp(ctx, scores, *_):
        (y,) = ctx.saved_tensors
        return norm_jacobian_times(scores, y, ctx.gamma, ctx.p)


@with_signature
class _JacobianTimes(OfRows):
    """The compiled form of `norm_jacobian_times`, without derivatives."""

    @staticmethod
    def forward(v, y, gamma, p):
        from rationale.nn.mappings import fast_powers

        (rows, _), (weights, _) = arrays(v), arrays(y)
        result, of_rows = empty_like(v, rows.shape)
        fast_powers.squared_norm_back(rows, weights, gamma, p, of_rows)
        return result.to(v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass


def norm_jacobian_times(v: Tensor, y: Tensor, gamma: float, p: float) -> Tensor:
    """The Jacobian of sq-pnorm-max times v [..., T], as a differentiable function of v and the weights y [..., T].

    With S the support and |y|_p = 1 (the Jacobian does not depend on the scale of y), B = gamma Hessian of Omega on S:

        J v = B^-1 (v - c 1) on S,   c such that it sums to 0
        B^-1 w = (y^(2 - p) w - (2 - p) y (y . w)) / ((p - 1) gamma)        (Sherman and Morrison)

    Source: eq. (A8), notebooks/40_sparse_attention.py; Niculae and Blondel 2017, proposition 1.
    """
    support, dtype = y > 0, v.dtype
    y, v = y.double(), v.double()
    inside = torch.where(support, y, 1.0)  # finite derivatives outside the support, where they are not used
    power = inside ** (2 - p)
    sum_of_powers = torch.where(support, inside * inside / power, 0.0).sum(-1, keepdim=True)  # |y|_p^p
    norm = torch.where(sum_of_powers > 0, sum_of_powers, 1.0) ** (1 / p)
    unit, curve = torch.where(support, inside, 0.0) / norm, torch.where(support, power, 0.0) / norm ** (2 - p)

    of_ones = curve - unit * ((2 - p) * unit.sum(-1, keepdim=True))
    of_v = curve * v - unit * ((2 - p) * (unit * v).sum(-1, keepdim=True))
    total = of_ones.sum(-1, keepdim=True)
    c = of_v.sum(-1, keepdim=True) / torch.where(total != 0, total, 1.0)
    return ((of_v - c * of_ones) / ((p - 1) * gamma)).to(dtype)
