"""The recurrent convolution of Lei et al.: one step, and the loop over a text, in their readable form.

`fast` holds the fast form of the loop, which is used by default; tests/test_recurrence.py compares the two.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.nn.precision import in_float32

RCNNState = tuple[Tensor, Tensor, Tensor]  # h, c1, c2


class RCNNCell(nn.Module):
    """One step of the recurrent convolution of order 2 (bigrams) of Lei et al.

        g  = sigmoid(W_g x + U h + b_g)
        c1' = g c1 + (1 - g) W_1 x
        c2' = g c2 + (1 - g) (c1 + W_2 x)
        h'  = tanh(c2' + b)

    Source: eq. (V1), notebooks/11_train_reviews.py; Lei et al. 2016. W_1, W_2 and W_g are stored in one matrix.

    Parameters
    ----------
    input_size, hidden_size : int
        Sizes E and H; 3 E H + H^2 + 2 H parameters.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.inputs = nn.Linear(input_size, 3 * hidden_size, bias=False)
        self.recurrent = nn.Linear(hidden_size, hidden_size)  # U and b_g
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.hidden_size = hidden_size

    def start(self, num_rows: int) -> RCNNState:
        """The zero state (h, c1, c2), each [B, H]."""
        zero = self.bias.new_zeros(num_rows, self.hidden_size)
        return zero, zero, zero

    @property
    def input_bias(self) -> Tensor:
        """[3H]: b_g in the last third, which belongs to the gate, else 0."""
        return F.pad(self.recurrent.bias, (2 * self.hidden_size, 0))

    def project(self, inputs: Tensor) -> Tensor:
        """(W_1 x, W_2 x, W_g x + b_g), [..., E] -> [..., 3H]: the part of a step that depends on no other step."""
        return F.linear(inputs, self.inputs.weight, self.input_bias)

    def forward(self, projected: Tensor, state: RCNNState) -> RCNNState:
        """From `project(x)` [..., 3H] and the state to the next state; lerp(x, y, g) = (1 - g) x + g y."""
        hidden, first, second = state
        one, two, gate = projected.chunk(3, -1)  # [..., H] each
        gate = torch.sigmoid(gate + F.linear(hidden, self.recurrent.weight))
        second = torch.lerp(first + two, second, gate)
        return torch.tanh(second + self.bias), torch.lerp(one, first, gate), second


def scan(cell: RCNNCell, inputs: Tensor, mask: Tensor) -> Tensor:
    """The states [B, T, H] of a cell that reads each row from its first token to its last.

    Parameters
    ----------
    cell : RCNNCell
    inputs : [B, T, E]
    mask : bool [B, T]
        Where it is False, the state stays the same, whatever the input is (NaN too).
    """
    state, states = cell.start(len(inputs)), []
    inputs = inputs.masked_fill(~mask.unsqueeze(-1), 0.0)
    for x, keep in zip(inputs.unbind(1), mask.unsqueeze(-1).unbind(1), strict=True):
        after = cell(cell.project(x), state)
        h, c1, c2 = (torch.where(keep, new, old) for new, old in zip(after, state, strict=True))
        state = h, c1, c2
        states.append(h)
    return torch.stack(states, 1)


@in_float32
def scan_both_ways(ahead: RCNNCell, back: RCNNCell, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """States [B, T, 2H] of two cells, of which the second reads from the last token to the first; final [B, 2H]."""
    forward, backward = scan(ahead, inputs, mask), scan(back, inputs.flip(1), mask.flip(1))
    return torch.cat([forward, backward.flip(1)], -1), torch.cat([forward[:, -1], backward[:, -1]], -1)
