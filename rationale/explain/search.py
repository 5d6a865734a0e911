"""Exact search: the smallest sets of positions that keep a model's answer, and erasure of one position."""

import math
from itertools import combinations

import torch
from torch import Tensor

from rationale.data.batches import Batch
from rationale.explain.diffmask import Frozen, divergence


def smallest_masks(
    frozen: Frozen,
    batch: Batch,
    layer: int,
    baseline: Tensor | None = None,
    longest: int = 16,
    max_rows: int = 4096,
    margin: float | None = None,
) -> list[Tensor]:
    """All smallest sets of positions that keep the answer of each text when all others are erased: eq. (D7).

    A real search, in order of size from the empty set on; an answer is the argmax of every output. With `margin`, sets
    that keep the distribution of the answer: D(y, y_hat) <= m, the constraint of eq. (D2) on masks that are not drawn.

    Parameters
    ----------
    frozen : Frozen
    batch : Batch
    layer : int
        Whose states are erased.
    baseline : [D] or None
        What takes their place; None: zeros.
    longest : int
        Positions a text may have: the search is exponential in them.
    max_rows : int
        Masks tried in one run of the model.
    margin : float >= 0 or None
        m, in nats.

    Returns
    -------
    B tensors on the CPU, bool [S_i, T_i], the S_i >= 1 solutions in lexicographic order of the positions kept

    Raises
    ------
    ValueError
        If a text has more than `longest` positions.
    """
    mask = frozen.mask(batch)
    lengths = mask.sum(1)
    if int(lengths.max()) > longest:
        raise ValueError(f"batch: a text of {int(lengths.max())} positions; the search accepts at most {longest}")
    logits, states = frozen.read(batch)
    baseline = states[layer].new_zeros(()) if baseline is None else baseline
    found: list[Tensor] = [torch.empty(0)] * len(mask)
    for length in lengths.unique().tolist():
        open_ = (lengths == length).nonzero().flatten()
        for size in range(length + 1):
            masks = _masks(length, size).to(mask.device)  # [M, T_i]
            kept = torch.cat(
                [
                    _kept(frozen, batch, layer, rows, masks, mask, logits, baseline, margin)
                    for rows in open_.split(max(1, max_rows // len(masks)))
                ]
            )  # [texts, M]
            for text, good in zip(open_.tolist(), kept, strict=True):
                if good.any():
                    found[text] = masks[good].cpu()
            open_ = open_[~kept.any(1)]
            if not len(open_):
                break
    return found


def _masks(length: int, size: int) -> Tensor:
    """All masks of `length` positions that keep `size`, bool [M, length]."""
    chosen = torch.tensor(list(combinations(range(length), size)), dtype=torch.long)
    return torch.zeros(math.comb(length, size), length, dtype=torch.bool).scatter(1, chosen, True)


@torch.no_grad()
def _kept(frozen, batch, layer, rows, masks, real, original, baseline, margin) -> Tensor:
    """Whether the answer of each of `rows`, or its distribution, is kept under each mask, bool [rows, M]."""
    z = real.new_zeros(len(rows), len(masks), real.shape[1])
    z[real[rows].unsqueeze(1).expand_as(z)] = masks.expand(len(rows), -1, -1).flatten()
    each = rows.repeat_interleave(len(masks))
    logits = frozen.masked(rows_of(batch, each), layer, z.flatten(0, 1).to(baseline.dtype), baseline)
    if margin is None:
        same = logits.argmax(-1) == original[each].argmax(-1)
    else:
        same = divergence(original[each], logits) <= margin
    return same.view(len(rows), len(masks), -1).all(-1)


def rows_of(batch: Batch, rows: Tensor) -> Batch:
    """The batch of these rows, in this order; a row may come more than once."""
    tokens = batch.tokens
    tokens = tokens[rows] if isinstance(tokens, Tensor) else type(tokens)(*(side[rows] for side in tokens))
    return Batch(tokens, batch.mask[rows], batch.target[rows], batch.index[rows])


def erasure(frozen: Frozen, batch: Batch, layer: int, baseline: Tensor | None = None, longest: int = 16) -> Tensor:
    """1 at the positions of the first of `smallest_masks`, else 0."""
    mask = frozen.mask(batch)
    result = mask.new_zeros(mask.shape)
    first = torch.cat([masks[0] for masks in smallest_masks(frozen, batch, layer, baseline, longest)])
    result[mask] = first.to(mask.device)
    return result.to(next(frozen.model.parameters()).dtype)
