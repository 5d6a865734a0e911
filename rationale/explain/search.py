"""Exact search for the smallest sets of positions that keep a model's answer."""

import math
from itertools import combinations

import torch
from torch import Tensor

from rationale.data.batches import Batch
from rationale.explain.frozen import FrozenModel, divergence


def smallest_masks(
    frozen: FrozenModel,
    batch: Batch,
    layer: int,
    baseline: Tensor | None = None,
    longest: int = 16,
    max_rows: int = 4096,
    margin: float | None = None,
    among: Tensor | None = None,
) -> list[Tensor]:
    """All smallest sets of positions that keep the answer of each text when all other positions are erased.

    The search is exhaustive, in order of size from the empty set on. The answer is the argmax of every output. With
    `margin`, the distribution of the answer must be kept instead: D(y, y_hat) <= epsilon, the constraint of eq. (D6)
    for this text alone and for masks that are not drawn.

    Source: eq. (D2), notebooks/41_diffmask.py.

    Parameters
    ----------
    frozen : FrozenModel
    batch : Batch
    layer : int
        The layer whose states are erased.
    baseline : [D] or None
        What takes the place of an erased state; None: zeros.
    longest : int
        Largest number of positions per text: the search is exponential in it.
    max_rows : int
        Largest number of masks per run of the model.
    margin : float >= 0 or None
        epsilon, in nats.
    among : bool [B, T] or None
        The positions that may be kept, T_i of each text; None: all. They have to keep the answer together.

    Returns
    -------
    B tensors on the CPU, bool [S_i, T_i]
        The S_i >= 1 solutions, in lexicographic order of the kept positions.

    Raises
    ------
    ValueError
        If a text has more than `longest` positions that may be kept.
    """
    mask = frozen.mask(batch) if among is None else among
    lengths = mask.sum(1)
    if int(lengths.max()) > longest:
        raise ValueError(f"batch: a text of {int(lengths.max())} positions; the search accepts at most {longest}")
    logits, states = frozen.read(batch)
    baseline = states[layer].new_zeros(()) if baseline is None else baseline
    solutions: list[Tensor] = [torch.empty(0)] * len(mask)
    for length in lengths.unique().tolist():
        unsolved = (lengths == length).nonzero().flatten()
        for size in range(length + 1):
            masks = _masks(length, size).to(mask.device)  # [M, T_i]
            parts = masks.split(max_rows)  # more than one part if a single text has too many masks
            kept = torch.cat(
                [
                    torch.cat([_kept(frozen, batch, layer, rows, m, mask, logits, baseline, margin) for m in parts], 1)
                    for rows in unsolved.split(max(1, max_rows // len(masks)))
                ]
            )  # [texts, M]
            if size == length:  # the whole text, also if rounding moves its answer by more than the margin
                kept[:] = True
            for text, is_solution in zip(unsolved.tolist(), kept, strict=True):
                if is_solution.any():
                    solutions[text] = masks[is_solution].cpu()
            unsolved = unsolved[~kept.any(1)]
            if not len(unsolved):
                break
    return solutions


def mask_divergence(frozen: FrozenModel, batch: Batch, layer: int, kept: Tensor) -> Tensor:
    """D(y, y_hat) if only these positions of a layer are kept and zeros take the place of all others, [B], in nats.

    A mask is feasible under a margin if this is at most the margin: the constraint of eq. (D6) for one text alone and
    for masks that are not drawn, as in `smallest_masks`.

    Parameters
    ----------
    kept : bool [B, T]
    """
    logits, states = frozen.read(batch)
    with torch.no_grad():
        masked = frozen.masked(batch, layer, kept.to(states[layer].dtype), states[layer].new_zeros(()))
    return divergence(logits, masked)


def _masks(length: int, size: int) -> Tensor:
    """All masks of `length` positions that keep `size` positions, bool [M, length]."""
    chosen = torch.tensor(list(combinations(range(length), size)), dtype=torch.long)
    return torch.zeros(math.comb(length, size), length, dtype=torch.bool).scatter(1, chosen, True)


@torch.no_grad()
def _kept(frozen, batch, layer, rows, masks, real, original, baseline, margin) -> Tensor:
    """Whether each mask keeps the answer of each of `rows` (or, with `margin`, its distribution), bool [rows, M]."""
    z = real.new_zeros(len(rows), len(masks), real.shape[1])
    z[real[rows].unsqueeze(1).expand_as(z)] = masks.expand(len(rows), -1, -1).flatten()
    repeated = rows.repeat_interleave(len(masks))
    logits = frozen.masked(select_rows(batch, repeated), layer, z.flatten(0, 1).to(baseline.dtype), baseline)
    if margin is None:
        same = logits.argmax(-1) == original[repeated].argmax(-1)
    else:
        same = divergence(original[repeated], logits) <= margin
    return same.view(len(rows), len(masks), -1).all(-1)


def select_rows(batch: Batch, rows: Tensor) -> Batch:
    """A batch of these rows, in this order; a row may occur more than once."""
    tokens = batch.tokens
    tokens = tokens[rows] if isinstance(tokens, Tensor) else type(tokens)(*(side[rows] for side in tokens))
    return Batch(tokens, batch.mask[rows], batch.target[rows], batch.rows[rows])


def erasure(frozen: FrozenModel, batch: Batch, layer: int, baseline: Tensor | None = None, longest: int = 16) -> Tensor:
    """1 at the positions that the first of `smallest_masks` keeps, otherwise 0, [B, T]."""
    mask = frozen.mask(batch)
    result = mask.new_zeros(mask.shape)
    first = torch.cat([masks[0] for masks in smallest_masks(frozen, batch, layer, baseline, longest)])
    result[mask] = first.to(mask.device)
    return result.to(next(frozen.model.parameters()).dtype)
