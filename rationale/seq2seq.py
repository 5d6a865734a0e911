"""Sequence to sequence with attention: a small encoder-decoder in which any mapping gives the attention weights.

    s = encoder(source)                                     2-layer BiLSTM
    h_t = decoder([embed(y_{t-1}); o_{t-1}], h_{t-1})       2-layer LSTM with input feeding
    w_t = mapping(h_t W s),   o_t = tanh(W_c [w_t s; h_t]),   p(y_t) = softmax(W_o o_t)

Source: eqs. (Q1)-(Q3), notebooks/15_train_seq2seq.py; Luong et al. 2015 ("general" attention, input feeding); Niculae
and Blondel 2017, sec. 4.2 and 4.3, who swap the mapping in OpenNMT's defaults.
"""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rationale.data import Batch, Vocabulary
from rationale.encoders import Dropout
from rationale.mappings import MAPPINGS, arguments_of, settled
from rationale.objectives import Step

LAYERS = 2
State = tuple[Tensor, Tensor]  # h and c of all layers, [L, B, H] each


class Memory(NamedTuple):
    """What the decoder sees of B sources."""

    states: Tensor  # [B, S, H]
    keys: Tensor  # [B, S, H], W s
    mask: Tensor  # bool [B, S]


class Decoded(NamedTuple):
    """What the decoder knows after a step."""

    state: State
    output: Tensor  # [B, H]: o_t, which is fed back
    weights: Tensor  # [B, S]


class Seq2Seq(nn.Module):
    """Encoder, attention and decoder with embeddings of their own.

    Parameters
    ----------
    num_source, num_target : int
        Sizes of the vocabularies.
    start : int
        The word before the first of a target, and after its last.
    size : int
        Of embeddings and states; even.
    mapping : one of `MAPPINGS`
    **arguments
        Of the mapping: gamma, lam, p.
    """

    def __init__(
        self, num_source: int, num_target: int, start: int, size: int, dropout: float, mapping: str, **arguments: float
    ):
        super().__init__()
        self.start = start
        self.source, self.target = (nn.Embedding(number, size) for number in (num_source, num_target))
        self.encoder = nn.LSTM(size, size // 2, LAYERS, batch_first=True, bidirectional=True, dropout=dropout)
        self.cells = nn.ModuleList([nn.LSTMCell(2 * size, size), nn.LSTMCell(size, size)])
        self.key, self.join = nn.Linear(size, size, bias=False), nn.Linear(2 * size, size, bias=False)
        self.output, self.dropout = nn.Linear(size, num_target), Dropout(dropout)
        self.mapping, self.arguments = mapping, arguments

    def read(self, tokens: Tensor, mask: Tensor) -> tuple[Memory, State]:
        """Sources [B, S] as memory, and the state the decoder begins with."""
        embedded = self.dropout(self.source(tokens))
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, (h, c) = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=tokens.shape[1])  # [B, S, H]
        h, c = (torch.cat([x[0::2], x[1::2]], -1) for x in (h, c))  # both directions of a layer side by side
        return Memory(states, self.key(states), mask), (h, c)

    def embed(self, words: Tensor) -> Tensor:
        """Words of the target [...] as vectors [..., H]."""
        return self.dropout(self.target(words))

    def step(self, memory: Memory, state: State, said: Tensor, fed: Tensor) -> Decoded:
        """One word on: `said` [B, H] the word before, embedded, `fed` [B, H] the output of the step before."""
        inputs, hidden, cell = torch.cat([said, fed], -1), [], []
        for layer, lstm in enumerate(self.cells):
            h, c = lstm(inputs, (state[0][layer], state[1][layer]))
            hidden, cell, inputs = [*hidden, h], [*cell, c], self.dropout(h)
        scores = torch.einsum("bh,bsh->bs", h, memory.keys)
        weights = MAPPINGS[self.mapping](scores, memory.mask, **self.arguments)
        context = torch.einsum("bs,bsh->bh", weights, memory.states)
        output = self.dropout(torch.tanh(self.join(torch.cat([context, h], -1))))
        return Decoded((torch.stack(hidden), torch.stack(cell)), output, weights)

    def decode(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """o [B, T, H] of each word of `target` [B, T] given those before it, and the weights [B, T, S]."""
        memory, state = self.read(source, source_mask)
        before = F.pad(target[:, :-1], (1, 0), value=self.start)
        output, outputs, weights = memory.states.new_zeros(len(source), self.join.out_features), [], []
        for said in self.embed(before).unbind(1):
            state, output, weight = self.step(memory, state, said, output)
            outputs.append(output)
            weights.append(weight)
        return torch.stack(outputs, 1), torch.stack(weights, 1)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The logits [B, T, V] of each word of `target`, eq. (Q2), and the weights [B, T, S]."""
        outputs, weights = self.decode(source, source_mask, target)
        return self.output(outputs), weights


class WordLoss(nn.Module):
    """Cross-entropy of the target's words, in nats a word; logs for how many of them the attention has no gradient.

    Source: eq. (Q3), notebooks/15_train_seq2seq.py.
    """

    def forward(self, model: Seq2Seq, batch: Batch) -> Step:
        sides = batch.tokens
        outputs, weights = model.decode(sides.premise, sides.premise_mask, sides.hypothesis)
        real = sides.hypothesis_mask
        loss = F.cross_entropy(model.output(outputs[real]), sides.hypothesis[real])
        lam = model.arguments.get("lam", 0.0)
        without = settled(weights.detach()[real], model.mapping, lam).to(loss.dtype).mean()
        return Step(loss, {"task": loss.detach(), "settled": without})


class Said(NamedTuple):
    """What a beam found for one source."""

    words: list[int]  # without the end
    weights: Tensor  # [T, S], a row a word
    log_prob: float  # divided by the number of words, the end included


@torch.no_grad()
def beam_search(model: Seq2Seq, source: Tensor, mask: Tensor, beam: int = 5, longest: int = 50) -> list[Said]:
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
    state = tuple(part.repeat_interleave(beam, 1) for part in (h, c))
    output = memory.states.new_zeros(rows * beam, model.join.out_features)
    end, words = model.start, torch.full((rows * beam,), model.start, device=source.device)
    total = torch.full((rows, beam), -torch.inf, device=source.device)
    total[:, 0] = 0.0  # all beams of a row begin alike: only one of them counts
    said = torch.empty(rows, beam, 0, dtype=torch.long, device=source.device)
    seen = memory.states.new_empty(rows, beam, 0, width)
    best: list[Said | None] = [None] * rows
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
                best[row] = Said(said[row, k, :-1].tolist(), seen[row, k, :-1], mean)
        total, kept = total.masked_fill(ends, -torch.inf).topk(beam, 1)
        if all(
            b is not None and (beam == 1 or b.log_prob >= top / longest)
            for b, top in zip(best, total[:, 0].tolist(), strict=True)
        ):
            break
        origin, said, seen = (_take(part, kept) for part in (origin, said, seen))
        words = said[..., -1].flatten()
        rows_of = (origin + beam * torch.arange(rows, device=source.device).unsqueeze(1)).flatten()
        state, output = tuple(part[:, rows_of] for part in state), output[rows_of]
    return [b if b is not None else Said([], memory.states.new_empty(0, width), -torch.inf) for b in best]


def _take(values: Tensor, index: Tensor) -> Tensor:
    """values[b, index[b, k]]: [B, K, ...] and [B, J] to [B, J, ...]."""
    return values[torch.arange(len(values), device=values.device).unsqueeze(1), index]


def build_seq2seq(p: SimpleNamespace, num_source: int, num_target: int, start: int) -> Seq2Seq:
    """The model that the parameters of a run describe: weights and biases from U(-0.1, 0.1), as in OpenNMT.

    Uses model, gamma, lam, power, hidden_size, dropout.
    """
    model = Seq2Seq(num_source, num_target, start, p.hidden_size, p.dropout, p.model, **arguments_of(p))
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    return model
