"""Sequence to sequence with attention: a small encoder-decoder in which any mapping gives the attention weights.

    s = encoder(source)                                     2-layer BiLSTM
    h_t = decoder([embed(y_{t-1}); o_{t-1}], h_{t-1})       2-layer LSTM with input feeding
    w_t = mapping(h_t W s),   o_t = tanh(W_c [w_t s; h_t]),   p(y_t) = softmax(W_o o_t)

Source: eqs. (Q1)-(Q3), notebooks/15_train_seq2seq.py; Luong et al. 2015 ("general" attention, input feeding); Niculae
and Blondel 2017, sec. 4.2 and 4.3, who replace the mapping in OpenNMT's default model.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from rationale.nn.dropout import Dropout
from rationale.nn.mappings import MAPPINGS, Mapping, MappingSettings, build_mapping, has_zero_jacobian, unused_by
from rationale.settings import OneOf, Refusal, setting

LAYERS = 2
DecoderState = tuple[Tensor, Tensor]  # h and c of all layers, [L, B, H] each


class Seq2SeqSettings(MappingSettings):
    """The encoder-decoder."""

    model: Annotated[str, OneOf(lambda: tuple(MAPPINGS))] = setting("softmax", "mapping of the attention")
    hidden_size: int = setting(256, "numbers of an embedding and of a state", "[1, inf)")
    dropout: float = setting(0.3, "probability of dropping a unit in training", "[0, 1)")

    def refused(self) -> Iterator[Refusal]:
        odd = self.hidden_size % 2 == 1
        yield Refusal(odd, "hidden_size", "here: half of it is for each direction", "an even number")
        yield from unused_by(self, self.model)


class EncodedSource(NamedTuple):
    """B encoded sources, to which the decoder attends."""

    states: Tensor  # [B, S, H]
    keys: Tensor  # [B, S, H], W s
    mask: Tensor  # bool [B, S]


class Decoded(NamedTuple):
    """The decoder's state and output after a step."""

    state: DecoderState
    output: Tensor  # [B, H]: o_t, an input of the next step
    weights: Tensor  # [B, S]


class Seq2Seq(nn.Module):
    """Encoder, attention and decoder; source and target words have separate embeddings.

    Parameters
    ----------
    num_source, num_target : int
        Sizes of the vocabularies.
    start : int
        Index of the word that stands before the first word of a target and after its last word.
    size : int
        Numbers of an embedding and of a state; even.
    mapping : Mapping
    """

    task = "generation"

    def __init__(self, num_source: int, num_target: int, start: int, size: int, dropout: float, mapping: Mapping):
        super().__init__()
        self.start = start
        self.source, self.target = (nn.Embedding(number, size) for number in (num_source, num_target))
        self.encoder = nn.LSTM(size, size // 2, LAYERS, batch_first=True, bidirectional=True, dropout=dropout)
        self.cells = nn.ModuleList([nn.LSTMCell(2 * size, size), nn.LSTMCell(size, size)])
        self.key, self.join = nn.Linear(size, size, bias=False), nn.Linear(2 * size, size, bias=False)
        self.output, self.dropout = nn.Linear(size, num_target), Dropout(dropout)
        self.mapping = mapping

    def read(self, tokens: Tensor, mask: Tensor) -> tuple[EncodedSource, DecoderState]:
        """Encoded sources, from [B, S], and the initial state of the decoder."""
        embedded = self.dropout(self.source(tokens))
        packed = pack_padded_sequence(embedded, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
        states, (h, c) = self.encoder(packed)
        states, _ = pad_packed_sequence(states, batch_first=True, total_length=tokens.shape[1])  # [B, S, H]
        h, c = (torch.cat([x[0::2], x[1::2]], -1) for x in (h, c))  # both directions of a layer side by side
        return EncodedSource(states, self.key(states), mask), (h, c)

    def embed(self, words: Tensor) -> Tensor:
        """From words of the target [...] to vectors [..., H]."""
        return self.dropout(self.target(words))

    def step(self, source: EncodedSource, state: DecoderState, word: Tensor, fed: Tensor) -> Decoded:
        """One step: `word` [B, H] is the embedded previous word, `fed` [B, H] the output of the previous step."""
        inputs = torch.cat([word, fed], -1)
        hidden: list[Tensor] = []
        cell: list[Tensor] = []
        for layer, lstm in enumerate(self.cells):
            h, c = lstm(inputs, (state[0][layer], state[1][layer]))
            hidden, cell, inputs = [*hidden, h], [*cell, c], self.dropout(h)
        scores = torch.einsum("bh,bsh->bs", h, source.keys)
        weights = self.mapping(scores, source.mask)
        context = torch.einsum("bs,bsh->bh", weights, source.states)
        output = self.dropout(torch.tanh(self.join(torch.cat([context, h], -1))))
        return Decoded((torch.stack(hidden), torch.stack(cell)), output, weights)

    def has_zero_jacobian(self, weights: Tensor) -> Tensor:
        """Where the scores have gradient 0, given the attention weights [..., S]; see `nn.has_zero_jacobian`."""
        return has_zero_jacobian(weights, self.mapping.name, getattr(self.mapping, "lam", 0.0))

    def set_gamma(self, gamma: float) -> None:
        """Set the strength of the regularisation of the attention, which is no part of the weights."""
        self.mapping.gamma = gamma

    def decode(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """o_t [B, T, H] for each word of `target` [B, T], given the words before it, and the weights [B, T, S]."""
        encoded, state = self.read(source, source_mask)
        before = F.pad(target[:, :-1], (1, 0), value=self.start)
        output, outputs, weights = encoded.states.new_zeros(len(source), self.join.out_features), [], []
        for word in self.embed(before).unbind(1):
            state, output, weight = self.step(encoded, state, word, output)
            outputs.append(output)
            weights.append(weight)
        return torch.stack(outputs, 1), torch.stack(weights, 1)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The logits [B, T, V] of each word of `target`, eq. (Q2), and the weights [B, T, S]."""
        outputs, weights = self.decode(source, source_mask, target)
        return self.output(outputs), weights


def build_seq2seq(p: object, num_source: int, num_target: int, start: int) -> Seq2Seq:
    """The model that the settings of a run describe, with weights and biases from U(-0.1, 0.1) as in OpenNMT.

    Parameters
    ----------
    p : Seq2SeqSettings, or any object with such attributes
    num_source, num_target : int
        Sizes of the vocabularies.
    start : int
        Index of the word that a target begins with.
    """
    everything, p = Seq2SeqSettings.with_own(p), Seq2SeqSettings.of(p)
    mapping = build_mapping(p.model, everything)
    model = Seq2Seq(num_source, num_target, start, p.hidden_size, p.dropout, mapping)
    for name, parameter in model.named_parameters():
        if not name.startswith("mapping."):
            nn.init.uniform_(parameter, -0.1, 0.1)
    return model
