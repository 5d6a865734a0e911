"""Beam search over the words of an encoder-decoder."""

from typing import NamedTuple

import torch
from torch import Tensor

from rationale.data.batches import Vocabulary
from rationale.models.seq2seq import Memory, Seq2Seq
from rationale.settings import Settings, setting


class SearchSettings(Settings):
    """Beam search."""

    beam: int = setting(5, "hypotheses that are kept in search", "[1, 100]")
    longest: int = setting(50, "words of a target at most, its end included", "[2, 1000]")


class Generation(NamedTuple):
    """What a beam found for one source."""

    words: list[int]  # without the end
    weights: Tensor  # [T, S], a row a word
    log_prob: float  # divided by the number of words, the end included


@torch.no_grad()
def beam_search(model: Seq2Seq, source: Tensor, mask: Tensor, beam: int = 5, longest: int = 50) -> list[Generation]:
    """The likeliest targets of B sources, by a beam of K in all rows at once.

    A finished hypothesis competes by its log-probability a word. Search ends when in every row the best finished one is
    better than what is still open could become.

    Parameters
    ----------
    model : Seq2Seq
    source, mask : [B, S]
    beam : int, K >= 1; 1 is greedy search
    longest : int
        Words of a target, at most, its end included.
    """
    model.eval()
    rows, width = len(source), source.shape[1]
    memory, (h, c) = model.read(source, mask)
    memory = Memory(*(part.repeat_interleave(beam, 0) for part in memory))
    state = h.repeat_interleave(beam, 1), c.repeat_interleave(beam, 1)
    output = memory.states.new_zeros(rows * beam, model.join.out_features)
    end, words = model.start, torch.full((rows * beam,), model.start, device=source.device)
    total = torch.full((rows, beam), -torch.inf, device=source.device)
    total[:, 0] = 0.0  # all beams of a row begin alike: only one of them counts
    said = torch.empty(rows, beam, 0, dtype=torch.long, device=source.device)
    seen = memory.states.new_empty(rows, beam, 0, width)
    best: list[Generation | None] = [None] * rows
    for length in range(1, longest + 1):
        state, output, weights = model.step(memory, state, model.embed(words), output)
        log_probs = model.output(output).log_softmax(-1).view(rows, beam, -1)  # [B, K, V]
        log_probs[..., [Vocabulary.unk, Vocabulary.pad]] = -torch.inf
        if length == longest:
            log_probs[..., :end], log_probs[..., end + 1 :] = -torch.inf, -torch.inf
        scores = (total.unsqueeze(-1) + log_probs).flatten(1)
        total, found = scores.topk(2 * beam, 1)  # twice as many: half of them may be ends
        origin, word = found // log_probs.shape[-1], found % log_probs.shape[-1]
        said = torch.cat([_take(said, origin), word.unsqueeze(-1)], -1)
        seen = torch.cat([_take(seen, origin), _take(weights.view(rows, beam, width), origin).unsqueeze(2)], 2)
        ends = (word == end) & (total > -torch.inf)
        for row, k in ends.nonzero().tolist():
            mean = total[row, k].item() / length
            if k < beam and (best[row] is None or (beam > 1 and mean > best[row].log_prob)):
                best[row] = Generation(said[row, k, :-1].tolist(), seen[row, k, :-1], mean)
        total, kept = total.masked_fill(ends, -torch.inf).topk(beam, 1)
        if all(
            b is not None and (beam == 1 or b.log_prob >= top / longest)
            for b, top in zip(best, total[:, 0].tolist(), strict=True)
        ):
            break
        origin, said, seen = (_take(part, kept) for part in (origin, said, seen))
        words = said[..., -1].flatten()
        rows_of = (origin + beam * torch.arange(rows, device=source.device).unsqueeze(1)).flatten()
        state, output = (state[0][:, rows_of], state[1][:, rows_of]), output[rows_of]
    return [b if b is not None else Generation([], memory.states.new_empty(0, width), -torch.inf) for b in best]


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, k]]: [B, K, ...] and [B, J] to [B, J, ...]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), index]
