"""Beam search over the words of an encoder-decoder."""

from typing import NamedTuple

import torch
from torch import Tensor

from rationale.data.batches import Vocabulary
from rationale.models.seq2seq import EncodedSource, Seq2Seq
from rationale.nn.modes import evaluating
from rationale.settings import Settings, setting


class SearchSettings(Settings):
    """Beam search."""

    beam: int = setting(5, "candidates that the search keeps", "[1, 100]")
    longest: int = setting(50, "largest number of words of a target, its end included", "[2, 1000]")


class Generation(NamedTuple):
    """The words that were generated for one source."""

    words: list[int]  # without the end
    weights: Tensor  # [T, S], one row per word
    log_prob: float  # divided by the number of words, including the end


@torch.no_grad()
def beam_search(model: Seq2Seq, source: Tensor, mask: Tensor, beam: int = 5, longest: int = 50) -> list[Generation]:
    """The likeliest targets of B sources, found with a beam of K candidates in all rows at once.

    Finished candidates are ranked by their log-probability per word. The search ends when, in every row, no unfinished
    candidate can still become better than the best finished one.

    Parameters
    ----------
    model : Seq2Seq
    source, mask : [B, S]
    beam : int, K >= 1; 1 is greedy search
    longest : int
        Largest number of words of a target, including its end.

    Returns
    -------
    list of Generation
        One per source. The model is in evaluation mode during the search, and afterwards in the mode that it had.

    Raises
    ------
    FloatingPointError
        If the model gives a word the probability NaN.
    """
    if len(source) == 0:
        return []
    with evaluating(model):
        return _search(model, source, mask, beam, longest)


def _search(model: Seq2Seq, source: Tensor, mask: Tensor, beam: int, longest: int) -> list[Generation]:
    rows, width = len(source), source.shape[1]
    memory, (h, c) = model.read(source, mask)
    memory = EncodedSource(*(part.repeat_interleave(beam, 0) for part in memory))
    state = h.repeat_interleave(beam, 1), c.repeat_interleave(beam, 1)
    output = memory.states.new_zeros(rows * beam, model.join.out_features)
    end, words = model.start, torch.full((rows * beam,), model.start, device=source.device)
    total = torch.full((rows, beam), -torch.inf, device=source.device)
    total[:, 0] = 0.0  # all candidates of a row are equal at first: only one of them counts
    generated = torch.empty(rows, beam, 0, dtype=torch.long, device=source.device)
    seen = memory.states.new_empty(rows, beam, 0, width)
    best: list[Generation | None] = [None] * rows
    for length in range(1, longest + 1):
        state, output, weights = model.step(memory, state, model.embed(words), output)
        log_probs = model.output(output).log_softmax(-1).view(rows, beam, -1)  # [B, K, V]
        if log_probs.isnan().any():
            raise FloatingPointError(f"word {length} of a target: its probabilities are not numbers (NaN)")
        log_probs[..., [Vocabulary.unk, Vocabulary.pad]] = -torch.inf
        if length == longest:
            log_probs[..., :end], log_probs[..., end + 1 :] = -torch.inf, -torch.inf
        scores = (total.unsqueeze(-1) + log_probs).flatten(1)
        total, place = scores.topk(2 * beam, 1)  # twice as many, as up to half of them may be ends
        origin, word = place // log_probs.shape[-1], place % log_probs.shape[-1]
        generated = torch.cat([_take(generated, origin), word.unsqueeze(-1)], -1)
        seen = torch.cat([_take(seen, origin), _take(weights.view(rows, beam, width), origin).unsqueeze(2)], 2)
        ends = (word == end) & (total > -torch.inf)
        for row, k in ends.nonzero().tolist():
            mean = total[row, k].item() / length
            if k < beam and (best[row] is None or (beam > 1 and mean > best[row].log_prob)):
                best[row] = Generation(generated[row, k, :-1].tolist(), seen[row, k, :-1], mean)
        total, kept = total.masked_fill(ends, -torch.inf).topk(beam, 1)
        if all(
            b is not None and (beam == 1 or b.log_prob >= top / longest)
            for b, top in zip(best, total[:, 0].tolist(), strict=True)
        ):
            break
        origin, generated, seen = (_take(part, kept) for part in (origin, generated, seen))
        words = generated[..., -1].flatten()
        rows_of = (origin + beam * torch.arange(rows, device=source.device).unsqueeze(1)).flatten()
        state, output = (state[0][:, rows_of], state[1][:, rows_of]), output[rows_of]
    return [b if b is not None else Generation([], memory.states.new_empty(0, width), -torch.inf) for b in best]


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, j]]: from [B, K, ...] and [B, J] to [B, J, ...]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), index]
