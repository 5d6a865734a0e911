"""The extractor and the aligner as they are usually written, over the weights of the package's.

The recurrences are the package's plain forms, one step after the other. tests/test_benchmarks.py compares outputs and
gradients, `make bench` the time.
"""

import torch
from torch import Tensor, nn

from rationale.data import Sides
from rationale.models import Aligner, select_in_order
from rationale.nn import RCNNEncoder
from rationale.nn.rcnn import scan_both_ways


def read(encoder: RCNNEncoder, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """What `RCNNEncoder` returns, one step after the other."""
    return scan_both_ways(encoder.ahead, encoder.back, inputs, mask)


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
        states, _ = read(model.selector.encoder, self.dropout(embedded), mask)
        z, gates, _ = select_in_order(model.selector.gate, model.selector.cell, states, self.draw)
        z = z * mask
        shut = (1 - (1 - (1 / 12) ** gates.a) ** gates.b).clamp(1e-6, 1 - 1e-6)
        _, final = read(model.predictor.encoder, self.dropout(embedded) * z.unsqueeze(-1), z > 0)
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
