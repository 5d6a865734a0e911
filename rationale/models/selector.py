"""Selectors: from an embedded text to one gate per token, independent or dependent."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.numerics import log_uniform
from rationale.distributions.protocol import GateDistribution
from rationale.nn import fast
from rationale.nn.dropout import Dropout
from rationale.nn.encoders import Encoder
from rationale.nn.gates import Gate
from rationale.nn.precision import in_float32
from rationale.nn.rcnn import RCNNCell
from rationale.nn.sampling import Draw, log_switches, repeated, sample

MEMORY_SIZE = 30  # units of the memory in which a dependent selector stores its own selection; as in the paper


class Selection(NamedTuple):
    """What a selector returns."""

    z: Tensor  # [K B, T]
    gates: GateDistribution  # of batch shape [K B, T]
    log_switches: Tensor | None = None  # [K B, T - 1]; see `DependentSelector`


class Selector(nn.Module):
    """Encoder and gate: from embedded tokens to one gate per token, independent of each other given the text."""

    dependent = False

    def __init__(self, encoder: Encoder, gate: Gate, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.gate, self.dropout = encoder, gate, Dropout(dropout)

    def forward(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        """Values of the gates and their distributions.

        Parameters
        ----------
        embedded : [B, T, E]
        mask : bool [B, T]
        draw : function
            From gates to values, e.g. `lambda gates: gates.rsample()`.
        num_samples : int, K >= 1
            The whole batch is repeated K times in a row: row k B + i is draw k of text i.
        """
        states, _ = self.read(embedded, mask)
        return self.select(states, draw, num_samples)

    def read(self, embedded: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The states of all words [B, T, S], from which their gates follow, and the final state [B, S]."""
        return self.encoder.read(embedded, mask, self.dropout)

    def select(self, states: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        """The second half of `forward`: from the states of the words."""
        gates = self.gate(repeated(states, num_samples))
        return Selection(draw(gates), gates)

    def start_at(self, rate: float) -> None:
        """See `Gate.start_at`."""
        self.gate.start_at(rate)

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> GateDistribution:
        """Only the gates; `draw` is used only if they depend on each other."""
        states, _ = self.read(embedded, mask)
        return self.gate(repeated(states, num_samples))


@in_float32
def select_in_order(gate: Gate, cell: RCNNCell, states: Tensor, draw: Draw, look_ahead: bool = False) -> Selection:
    """Select one word after the other: each gate reads a memory of the words selected before it.

        gates_t = gate([h_t; s_{t-1}]),   s_t = RCNN([h_t; z_t], s_{t-1})

    Source: eq. (R3), notebooks/08_reinforce.py. `fast.select` computes the same result faster.

    Parameters
    ----------
    gate : Gate over S + cell.hidden_size features
    cell : RCNNCell with S + 1 inputs
    states : [B, T, S]
    draw : function
        From gates to values.
    look_ahead : bool
        Also return the probability of a switch between neighbours; see `log_switches`.
    """
    memory, memories, z = cell.start(len(states)), [], []
    noise = None
    if draw is sample and gate.has_rsample:
        noise = log_uniform(states.shape[1::-1], states)  # [T, B], drawn for all words beforehand
    for t, features in enumerate(states.unbind(1)):
        gates = gate(torch.cat([features, memory[0]], -1))
        z.append(draw(gates) if noise is None else gates.rsample_at(noise[t]))
        memories.append(memory)
        memory = cell(cell.project(torch.cat([features, z[-1].unsqueeze(1)], -1)), memory)
    before = [torch.stack(parts, 1) for parts in zip(*memories, strict=True)]  # h, c1, c2 before each word, [B, T, H]
    gates, switches = gate(torch.cat([states, before[0]], -1)), None
    if look_ahead and noise is not None:
        now, following, before = states[:, :-1], states[:, 1:], [part[:, :-1] for part in before]

        def after(value: Tensor) -> GateDistribution:
            hidden, _, _ = cell(cell.project(torch.cat([now, value.unsqueeze(-1)], -1)), before)
            return gate(torch.cat([following, hidden], -1))

        switches = log_switches(gate(torch.cat([now, before[0]], -1)), noise[:-1].T, after)
    return Selection(torch.stack(z, 1), gates, switches)


class DependentSelector(Selector):
    """Gates that depend on which words before them were selected: p(z_t | x, z_1 .. z_{t-1}).

        gates_t = gate([h_t; s_{t-1}]),   s_t = RCNN([h_t; z_t], s_{t-1})

    Source: eq. (R3), notebooks/08_reinforce.py; Lei et al. 2016; Bastings et al. 2019, app. B. At test time the
    memory reads the decided values. If draws pass gradients (HardKuma), gradients flow through s as well.

    Parameters
    ----------
    encoder : encoder
    gate : gate over S + cell.hidden_size features
    cell : RCNNCell with S + 1 inputs
    look_ahead : bool
        Also return the probability of a switch between two neighbours, an unbiased estimate (see `log_switches`).

    Attributes
    ----------
    fast : bool
        True: `fast.select`. False: `select_in_order`, which computes the same result word by word. It is used in any
        case for a gate of one's own that is not linear (`Gate.is_linear`).
    """

    dependent = True
    fast = True

    def __init__(self, encoder: Encoder, gate: Gate, cell: RCNNCell, dropout: float = 0.0, look_ahead: bool = False):
        super().__init__(encoder, gate, dropout)
        self.cell, self.look_ahead = cell, look_ahead

    def select(self, states: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        """The second half of `forward`: from the states of the words."""
        if states.shape[1] == 0:  # no gate reads the memory
            return super().select(F.pad(states, (0, self.cell.hidden_size)), draw, num_samples)
        select = fast.select if self.fast and self.gate.is_linear else select_in_order
        return Selection(*select(self.gate, self.cell, repeated(states, num_samples), draw, self.look_ahead))

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> GateDistribution:
        return self(embedded, mask, draw, num_samples).gates
