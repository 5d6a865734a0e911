"""The fast form of reading many texts that resemble each other: each distinct beginning is read once.

    read_rows        encoder(vectors[numbers], mask), without gradients

To measure faithfulness, a predictor reads each text a dozen times, every time with other words removed
(`explain.faithfulness`). Such rows share most of their beginnings and, read backward, most of their ends. A recurrent
state depends only on what was read before it, so it is computed once for all rows that begin with the same words. What
a step makes of a word alone (the projection of its vector) is computed once per distinct word.

tests/test_fast_reading.py compares values with the readable form; `make bench` compares the time.
"""

from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

State = tuple[Tensor, ...]  # the first is what the encoder returns of a step


class Cell(Protocol):
    """One step of a recurrent network, such as `rcnn.RCNNCell`."""

    def start(self, num_rows: int) -> State:
        """The state before the first word, each part [N, H]."""

    def project(self, inputs: Tensor) -> Tensor:
        """The part of a step that depends on no other step: [..., E] -> [..., P]."""

    def __call__(self, projected: Tensor, state: State) -> State:
        """The state after a word, from `project(word)` [N, P], which may be overwritten, and the state before it."""


class LSTMCell:
    """One step of an `nn.LSTM` of one layer.

    i, f, g, o = W x + U h + b,   c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')
    """

    def __init__(self, lstm: nn.LSTM):
        (self.inputs, self.recurrent, bias, other_bias), *_ = lstm.all_weights  # W, U and both parts of b
        self.bias, self.size = bias + other_bias, lstm.hidden_size

    def start(self, num_rows: int) -> State:
        zero = self.recurrent.new_zeros(num_rows, self.size)
        return zero, zero

    def project(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.inputs, self.bias)

    def __call__(self, projected: Tensor, state: State) -> State:
        hidden, memory = state
        raw = projected.addmm_(hidden, self.recurrent.T)  # [N, 4H]
        let_in, keep = raw[:, : 2 * self.size].sigmoid_().chunk(2, 1)
        new, let_out = raw[:, 2 * self.size : 3 * self.size].tanh_(), raw[:, 3 * self.size :].sigmoid_()
        memory = (keep * memory).addcmul_(let_in, new)
        return let_out * memory.tanh(), memory


@torch.no_grad()
def read_rows(
    ahead: Cell, back: Cell, vectors: Tensor, numbers: Tensor, mask: Tensor, with_states: bool
) -> tuple[Tensor, Tensor]:
    """The states that two cells compute of rows of words, of which the second reads from the last word to the first.

    Parameters
    ----------
    vectors : [W, E]
        The distinct inputs.
    numbers : long [R, T], in [0, W)
        The input at each position.
    mask : bool [R, T]
        True for the words to read, which come first in each row. A row may be empty.
    with_states : bool
        Whether the states of the single words are needed, which takes R T H numbers more.

    Returns
    -------
    states [R, T, 2H], final [R, 2H]
        The states are [R, 0, 2H] if they are not needed, and meaningless at padding. The final states of an empty row
        are zeros.
    """
    position = torch.arange(numbers.shape[1], device=numbers.device)
    reverse = torch.where(mask, mask.sum(1, keepdim=True) - 1 - position, position)  # [R, T], its own inverse
    states, final = _read_ahead(ahead, vectors, numbers, mask, with_states)
    back_states, back_final = _read_ahead(back, vectors, numbers.gather(1, reverse), mask, with_states)
    order = reverse[:, : states.shape[1]].unsqueeze(-1).expand_as(back_states)
    return torch.cat([states, back_states.gather(1, order)], -1), torch.cat([final, back_final], 1)


def _read_ahead(cell: Cell, vectors: Tensor, numbers: Tensor, mask: Tensor, with_states: bool) -> tuple[Tensor, Tensor]:
    """States [R, T, H] or [R, 0, H], and final [R, H], of rows that are read from the first word to the last."""
    if numbers.shape[1] == 0:  # nothing is read
        final = cell.start(len(numbers))[0]
        return final.unsqueeze(1)[:, :0], final
    rows, place = numbers.masked_fill(~mask, -1).unique(dim=0, return_inverse=True)  # [U, T], sorted word by word
    begins = torch.ones_like(rows, dtype=torch.bool)  # whether a row has another beginning than the row above it
    begins[1:] = (rows[1:] != rows[:-1]).cumsum(1) > 0  # [U, T]
    beginning = begins.cumsum(0) - 1  # [U, T]: number of the distinct beginning of t words
    projected, state, states = cell.project(vectors), cell.start(1), []
    before = torch.zeros_like(place[:1]).expand(len(rows))  # all rows begin with the same state
    for t in range(rows.shape[1]):
        first = begins[:, t].nonzero().squeeze(1)  # one row for each distinct beginning
        state = tuple(part.index_select(0, before[first]) for part in state)
        words = rows[first, t]
        read = (words >= 0).nonzero().squeeze(1)  # rows that have not ended
        if len(read) == len(words):
            state = cell(projected.index_select(0, words), state)
        elif len(read):
            after = cell(projected.index_select(0, words[read]), tuple(part.index_select(0, read) for part in state))
            state = tuple(part.index_copy_(0, read, new) for part, new in zip(state, after, strict=True))
        before = beginning[:, t]
        if with_states:
            states.append(state[0][before[place]])
    final = state[0][before[place]]
    return torch.stack(states, 1) if states else final.unsqueeze(1)[:, :0], final
