"""Selectors: from an embedded text to one gate per token, independent or dependent."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn import functional as F

from rationale.distributions.numerics import log_uniform
from rationale.nn.dropout import Dropout
from rationale.nn.rcnn import MemoryScan, RCNNCell
from rationale.nn.sampling import Draw, repeated, sample

MEMORY = 30  # numbers in which a dependent selector remembers its own selection; the paper's size


class Selection(NamedTuple):
    """What a selector returns."""

    z: Tensor  # [K B, T]
    gates: Distribution  # of batch shape [K B, T]
    log_switches: Tensor | None = None  # [K B, T - 1]: see `DependentSelector`


class Selector(nn.Module):
    """Encoder and gate: embedded tokens to one gate a token, independent of each other given the text."""

    dependent = False

    def __init__(self, encoder: nn.Module, gate: nn.Module, dropout: float = 0.0):
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
            Rows are repeated K times, the whole batch after itself: row k B + i is draw k of text i.
        """
        gates = self.gates(embedded, mask, draw, num_samples)
        return Selection(draw(gates), gates)

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Distribution:
        """The gates alone; `draw` matters only where they depend on each other."""
        states, _ = self.encoder(self.dropout(embedded), mask)  # [B, T, S]
        return self.gate(repeated(states, num_samples))


class DependentSelector(Selector):
    """Gates that know which words before them were selected: p(z_t | x, z_1 .. z_{t-1}).

        gates_t = gate([h_t; s_{t-1}]),   s_t = RCNN([h_t; z_t], s_{t-1})

    Source: eq. (R3), notebooks/05_reinforce.py; Lei et al. 2016; Bastings et al. 2019, app. B. At test time the
    decided value is what is fed back. Where draws pass gradients (HardKuma), they flow through s as well.

    Parameters
    ----------
    encoder : encoder
    gate : gate over S + cell.hidden_size features
    cell : RCNNCell with S + 1 inputs
    look_ahead : bool
        Also return the chance of a switch between two neighbours, right in expectation (see `_switches`).
    """

    dependent = True

    def __init__(
        self, encoder: nn.Module, gate: nn.Module, cell: RCNNCell, dropout: float = 0.0, look_ahead: bool = False
    ):
        super().__init__(encoder, gate, dropout)
        self.cell, self.look_ahead = cell, look_ahead

    def forward(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        states, _ = self.encoder(self.dropout(embedded), mask)
        states = repeated(states, num_samples).transpose(0, 1)  # [T, K B, S]
        weight, bias = self.gate.linear()
        of_states, of_memory = weight.split((states.shape[-1], self.cell.hidden_size), 1)
        asked = F.linear(states, of_states, bias)  # [T, K B, G]: of the gates, all that does not wait for s
        of_states, of_z = self.cell.inputs.weight.split((states.shape[-1], 1), 1)
        projected = F.linear(states, of_states, self.cell.input_bias)  # [T, K B, 3H]: of the cell, all but z
        pathwise = draw is sample and self.gate.of(asked[:0]).has_rsample
        noise = log_uniform(asked.shape[:2], asked) if pathwise else None

        def decide(raw: Tensor, t: int) -> Tensor:
            return self.gate.of(raw).rsample_at(noise[t]) if pathwise else draw(self.gate.of(raw))

        def slopes(raw: Tensor) -> Tensor | None:
            if not pathwise:
                return None
            with torch.enable_grad():
                raw = raw.detach().requires_grad_()
                return torch.autograd.grad(self.gate.of(raw).rsample_at(noise).sum(), raw)[0]

        recurrent, bias, of_z = self.cell.recurrent.weight, self.cell.bias, of_z.squeeze(1)
        *memory, z = MemoryScan.apply(asked, projected, of_memory, recurrent, bias, of_z, decide, slopes)
        raw = asked + F.linear(memory[0], of_memory)  # [T, K B, G]: the loop's, all at once
        gates, switches = self.gate.of(raw.transpose(0, 1)), None
        if pathwise:
            drawn = gates.rsample_at(noise.T)
            z = drawn.T + (z - drawn.T).detach()  # the loop's value to the last digit, with its gradient
            if self.look_ahead:
                step = [part[:-1] for part in (projected, *memory)]
                switches = self._switches(self.gate.of(raw[:-1]), noise[:-1], step, asked[1:], of_memory, of_z).T
        return Selection(z.T, gates, switches)

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Distribution:
        return self(embedded, mask, draw, num_samples).gates

    def _switches(self, gates, noise, step, asked, of_memory, of_z) -> Tensor:
        """ln P(one of z_t, z_{t+1} is 0 and the other is not | z_1 .. z_{t-1}), unbiased: [T - 1, K B].

            P(z_t = 0) P(z_{t+1} != 0 | z_t = 0) + P(z_t != 0) E[P(z_{t+1} = 0 | z_t) | z_t != 0]

        The memory moves on twice, once from z_t = 0 and once from a draw of z_t given that it is not 0; what was in
        fact drawn does not matter. Source: eq. (S14), notebooks/04_selecting_text.py; Bastings et al. 2019, app. B.
        """
        projected, *state = step

        def after(z: Tensor) -> Distribution:
            hidden, _, _ = self.cell(projected + z.unsqueeze(-1) * of_z, state)
            return self.gate.of(asked + F.linear(hidden, of_memory))

        some = gates.rsample_at(gates.log_prob_nonzero + noise)
        opens = gates.log_prob_zero + after(torch.zeros_like(some)).log_prob_nonzero
        return torch.logaddexp(opens, gates.log_prob_nonzero + after(some).log_prob_zero)
