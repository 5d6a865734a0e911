"""Drawing from gates, and the authors' initialisation of weights."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

Draw = Callable[[Distribution], Tensor]  # from gates to their values


def repeated(values: Tensor, num_samples: int) -> Tensor:
    """[B, ...] -> [K B, ...], the whole batch after itself; not a copy where K = 1."""
    return values if num_samples == 1 else torch.cat([values] * num_samples)


def sample(gates: Distribution) -> Tensor:
    """One draw, which passes gradients on where the distribution has `rsample`."""
    return gates.rsample() if gates.has_rsample else gates.sample()


def initialise(module: nn.Module) -> nn.Module:
    """Glorot-uniform weights, zero biases; for an LSTM each of its four gates is a matrix of its own."""
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif "weight_ih" in name or "weight_hh" in name:
            for block in parameter.data.chunk(4):
                nn.init.xavier_uniform_(block)
        else:
            nn.init.xavier_uniform_(parameter)
    return module
