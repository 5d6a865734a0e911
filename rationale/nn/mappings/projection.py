"""The compiled forms of the mappings that end in a projection to the simplex, with gradients: (A8)."""

import numpy as np
import torch
from torch import Tensor

from rationale.nn.mappings.rows import OfRows, arrays, empty_like, not_finite, with_signature


@with_signature
class Projected(OfRows):
    """Simplex projection, after the proximal map of a penalty (`equal`: what this penalty makes equal).

    weights, groups, signs = Projected.apply(scores [..., T], mask bool [..., T] or None, gamma, lam, equal); groups and
    signs are for the backward pass.

    Source: eq. (A8), notebooks/40_sparse_attention.py.
    """

    @staticmethod
    def forward(scores, mask, gamma, lam, equal):
        from rationale.nn.mappings import fast_pools, fast_rows, fast_segments  # numba is slow to import

        rows, there = arrays(scores, mask)
        weights, of_rows = empty_like(scores, rows.shape)
        groups = torch.empty(rows.shape if equal != "nothing" else (0, 0), dtype=torch.int32)
        signs = torch.empty(rows.shape if equal == "published" else (0, 0), dtype=torch.int8)
        if equal == "published":
            finite = fast_pools.published_oscar(rows, there, gamma, lam, of_rows, groups.numpy(), signs.numpy())
        elif equal == "ties":
            finite = fast_pools.oscar(rows, there, gamma, lam, of_rows, groups.numpy())
        elif equal == "steps":
            finite = fast_segments.fused(rows, there, gamma, lam, of_rows, groups.numpy())
        else:
            finite = fast_rows.project(rows, there, gamma, of_rows)
        if not finite:
            raise not_finite(scores if mask is None else scores[mask])
        return weights.to(scores), groups, signs

    @staticmethod
    def setup_context(ctx, inputs, output):
        weights, groups, signs = output
        ctx.mark_non_differentiable(groups, signs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weights, groups, signs)  # so that an in-place change of the weights raises an error
        ctx.save_for_forward(weights, groups, signs)
        ctx.gamma = inputs[2]

    @staticmethod
    def backward(ctx, grad_weights, *_):
        if grad_weights is None:  # of the weights that `Averaged` has got, which have no gradient there
            return None, None, None, None, None
        weights, groups, signs = ctx.saved_tensors
        return Averaged.apply(grad_weights, weights, groups, signs, ctx.gamma), None, None, None, None

    @staticmethod
    def jvp(ctx, scores, *_):
        weights, groups, signs = ctx.saved_tensors
        return Averaged.apply(scores, weights, groups, signs, ctx.gamma), None, None


@with_signature
class Averaged(OfRows):
    """The Jacobian of `Projected` times values [..., T]: subtract the mean over the support, average over each group.

    The Jacobian of the projection subtracts the mean over the support; the Jacobian of the proximal map averages over
    each group of equal values (times signs, for the published oscarmax). Both are symmetric, and constant where they
    are defined, so this function is its own derivative, and weights, groups and signs have none.
    """

    @staticmethod
    def forward(values, weights, groups, signs, gamma):
        from rationale.nn.mappings import fast_back

        (rows, _), (support, _) = arrays(values), arrays(weights)
        result, of_rows = empty_like(values, rows.shape)
        if signs.numel():
            structure = as_rows(groups, rows.shape), as_rows(signs, rows.shape)
            fast_back.project_back_signed(rows, support, *structure, gamma, of_rows)
        elif groups.numel():
            fast_back.project_back_groups(rows, support, as_rows(groups, rows.shape), gamma, of_rows)
        else:
            fast_back.project_back(rows, support, gamma, of_rows)
        return result.to(values)

    @staticmethod
    def setup_context(ctx, inputs, _output):
        _, *structure, ctx.gamma = inputs
        ctx.save_for_backward(*structure)
        ctx.save_for_forward(*structure)

    @staticmethod
    def backward(ctx, grad):
        return Averaged.apply(grad, *ctx.saved_tensors, ctx.gamma), None, None, None, None

    @staticmethod
    def jvp(ctx, values, *_):
        return Averaged.apply(values, *ctx.saved_tensors, ctx.gamma)


def as_rows(values: Tensor, shape: tuple[int, int]) -> np.ndarray:
    """Groups or signs as an array [N, T]."""
    return values.reshape(shape).contiguous().numpy()
