"""HardKuma against the naive formula chain: one gate's work in a training step at [256, 1000], float32.

Both start from the same raw features and do the same work: softplus, construct, draw, masses, backward.
Alone: python -m tests.benchmarks --only distributions
"""

from collections.abc import Callable

import torch
from torch.nn.functional import softplus

from rationale.distributions import HardKuma

SHAPE = (256, 1000)
LEFT, RIGHT = -0.1, 1.1


def features(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Raw gate features, as a linear layer gives them."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(SHAPE, generator=generator).requires_grad_() for _ in range(2))


def naive_chain(raw_a: torch.Tensor, raw_b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The usual way: clamped parameters, truncated noise, textbook formulas, autograd."""
    a, b = (softplus(raw).clamp(1e-6, 100.0) for raw in (raw_a, raw_b))
    u = torch.empty_like(a).uniform_(0.001, 0.999)
    k = (1 - (1 - u).pow(1 / b)).pow(1 / a)
    draw = (LEFT + (RIGHT - LEFT) * k).clamp(0, 1)
    low, high = -LEFT / (RIGHT - LEFT), (1 - LEFT) / (RIGHT - LEFT)
    prob_zero = 1 - (1 - low**a).pow(b)
    prob_one = (1 - high**a).pow(b)
    return draw, prob_zero, prob_one, 1 - prob_zero - prob_one


def hardkuma(raw_a: torch.Tensor, raw_b: torch.Tensor) -> tuple[torch.Tensor, ...]:
    gate = HardKuma(softplus(raw_a), softplus(raw_b), LEFT, RIGHT)
    return gate.rsample(), gate.prob_zero, gate.prob_one, gate.prob_interior


def _step(way: Callable) -> Callable[[], None]:
    raw = features()
    weights = [torch.rand(SHAPE) for _ in range(4)]

    def step() -> None:
        torch.autograd.grad(way(*raw), raw, weights)

    return step


def cases() -> dict[str, dict[str, Callable[[], None]]]:
    ways = {"naive chain": _step(naive_chain), "HardKuma": _step(hardkuma)}
    return {"HardKuma draw + masses + backward [256, 1000]": ways}
