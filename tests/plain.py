"""The fast parts of the package as they are usually written: slow, obvious, and the reference.

Recurrences as loops over time, one step after the other, and an aligner that takes one side after the other.
tests/test_recurrence.py and tests/test_benchmarks.py compare outputs and gradients, `make bench` the time.
"""

import torch
from torch import Tensor, nn

from rationale.data import Sides
from rationale.models import Aligner, DependentSelector
from rationale.nn import RCNNCell, RCNNEncoder


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
        self.dropout = nn.Dropout(model.predictor.dropout.p)

    def forward(self, tokens: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        model, embedded = self.model, self.model.embed(tokens)
        states, _ = encode(model.selector.encoder, self.dropout(embedded), mask)
        z, gates, _ = select(model.selector, states, lambda gates, t: self.draw(gates))
        z = z * mask
        shut = torch.stack([(1 - (1 - (1 / 12) ** g.a) ** g.b).clamp(1e-6, 1 - 1e-6) for g in gates], 1)
        _, final = encode(model.predictor.encoder, self.dropout(embedded) * z.unsqueeze(-1), z > 0)
        prediction = model.head(self.dropout(final))
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


class UsualAligner(nn.Module):
    """Decomposable attention with HardKuma gates as it is usually written, over the weights of one of the package.

    Each side through the networks by itself, `nn.Dropout`, textbook formulas with clamps, a multiplicative Lagrangian.
    """

    def __init__(self, model: Aligner, selection: float):
        super().__init__()
        self.model, self.selection, self.multiplier = model, selection, 1e-3
        self.dropout = nn.Dropout(model.dropout.p)

    def through(self, layers: nn.Sequential, words: Tensor) -> Tensor:
        first, second = (layer for layer in layers if isinstance(layer, nn.Linear))
        return self.dropout(torch.relu(second(self.dropout(torch.relu(first(words))))))

    def forward(self, sides: Sides, target: Tensor) -> Tensor:
        model, masks = self.model, (sides.first_mask, sides.second_mask)
        embedded = (nn.functional.embedding(tokens, model.vectors) for tokens in (sides.first, sides.second))
        premise, hypothesis = (self.dropout(model.project(words)) for words in embedded)
        shapes = (model.selector.compare_a, model.selector.compare_b)
        a, b = (
            nn.functional.softplus(self.through(layers, premise) @ self.through(layers, hypothesis).mT).clamp(1e-3, 100)
            for layers in shapes
        )
        cells = masks[0].unsqueeze(2) & masks[1].unsqueeze(1)
        z = self.draw(a, b) * cells
        compared = (
            self.through(model.compare, torch.cat([premise, z @ hypothesis], -1)),
            self.through(model.compare, torch.cat([hypothesis, z.mT @ premise], -1)),
        )
        summed = [(words * mask.unsqueeze(-1)).sum(1) for words, mask in zip(compared, masks, strict=True)]
        logits = model.head(self.through(model.aggregate, torch.cat(summed, -1)))
        opened = (1 - (1 - (1 - (1 / 12) ** a) ** b).clamp(1e-6, 1 - 1e-6)) * cells
        rate = (opened.sum(2) / masks[1].sum(1, keepdim=True)).sum(1) / masks[0].sum(1)
        gap = rate.mean() - self.selection
        return nn.functional.cross_entropy(logits, target) + self.multiplier * gap

    def draw(self, a: Tensor, b: Tensor) -> Tensor:
        u = torch.empty_like(a).uniform_(0.001, 0.999) if self.training else torch.full_like(a, 0.5)
        return (-0.1 + 1.2 * (1 - (1 - u).pow(1 / b)).pow(1 / a)).clamp(0, 1)
