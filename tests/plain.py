"""The recurrences of the package as plain loops over time, one step after the other: slow, obvious, and the reference.

tests/test_recurrence.py compares outputs and gradients with them, `make bench` the time.
"""

import torch
from torch import Tensor, nn

from rationale.encoders import RCNNEncoder
from rationale.extractor import DependentSelector
from rationale.recurrence import RCNNCell


def read(cell: RCNNCell, inputs: Tensor, mask: Tensor) -> Tensor:
    """States [B, T, H] of one direction; where `mask` is False the state is carried over."""
    state, states = cell.start(len(inputs)), []
    for x, keep in zip(inputs.unbind(1), mask.unbind(1), strict=True):
        new = cell(cell.project(x), state)
        keep = keep.unsqueeze(1).to(x.dtype)
        state = tuple(keep * after + (1 - keep) * before for after, before in zip(new, state, strict=True))
        states.append(state[0])
    return torch.stack(states, 1)


def encode(encoder: RCNNEncoder, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What `RCNNEncoder` returns."""
    ahead = read(encoder.ahead, inputs, mask)
    back = read(encoder.back, inputs.flip(1), mask.flip(1))
    return torch.cat([ahead, back.flip(1)], -1), torch.cat([ahead[:, -1], back[:, -1]], -1)


def select(selector: DependentSelector, states: Tensor, draw) -> tuple[Tensor, list, Tensor]:
    """z [B, T], the gates of each step, and the memory before each step [B, T, H]; draw(gates, t) -> [B]."""
    state, z, gates, memory = selector.cell.start(len(states)), [], [], []
    for t, features in enumerate(states.unbind(1)):
        memory.append(state[0])
        gates.append(selector.gate(torch.cat([features, state[0]], -1)))
        z.append(draw(gates[-1], t))
        state = selector.cell(selector.cell.project(torch.cat([features, z[-1].unsqueeze(1)], -1)), state)
    return torch.stack(z, 1), gates, torch.stack(memory, 1)


class Usual(nn.Module):
    """The dependent HardKuma extractor over RCNNs as it is usually written, over the weights of one of the package.

    Textbook formulas with clamps, one step of autograd after the other, unselected words skipped by a mask; the loss is
    the squared error and the two terms of a multiplicative Lagrangian.
    """

    def __init__(self, model, selection: float, transitions: float):
        super().__init__()
        self.model, self.targets, self.multiplier = model, (selection, transitions), 1e-3

    def forward(self, tokens: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        model, embedded = self.model, self.model.embed(tokens)
        states, _ = encode(model.selector.encoder, model.selector.dropout(embedded), mask)
        z, gates, _ = select(model.selector, states, lambda gates, t: self.draw(gates))
        z = z * mask
        shut = torch.stack([(1 - (1 - (1 / 12) ** g.a) ** g.b).clamp(1e-6, 1 - 1e-6) for g in gates], 1)
        _, final = encode(model.predictor.encoder, model.predictor.dropout(embedded) * z.unsqueeze(-1), z > 0)
        prediction = model.head(model.predictor.dropout(final))
        lengths = mask.sum(1)
        rate = (torch.where(mask, 1 - shut, 0.0).sum(1) / lengths).mean()
        switch = shut[:, :-1] * (1 - shut[:, 1:]) + (1 - shut[:, :-1]) * shut[:, 1:]
        switches = (torch.where(mask[:, 1:], switch, 0.0).sum(1) / lengths).mean()
        gaps = (rate - self.targets[0]) + (switches - self.targets[1])
        return (prediction - target).square().mean() + self.multiplier * gaps

    @staticmethod
    def draw(gates) -> Tensor:
        a, b = gates.a.clamp(1e-6, 100.0), gates.b.clamp(1e-6, 100.0)
        u = torch.empty_like(a).uniform_(0.001, 0.999)
        return (-0.1 + 1.2 * (1 - (1 - u).pow(1 / b)).pow(1 / a)).clamp(0, 1)
