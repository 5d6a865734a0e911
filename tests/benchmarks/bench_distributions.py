"""HardKuma against the naive formula chain and against torch's stretched Kumaraswamy, float32.

The chain of formulas and HardKuma start from the same raw features and do one gate's work in a training step: softplus,
construct, draw, masses, backward. torch's Kumaraswamy, stretched by a transform, has no masses; there both draw, take
the log density of the draw, and go backward. The mean of 65,536 gates is a quadrature per gate.
Alone: python -m tests.benchmarks --only distributions
"""

import functools
from collections.abc import Callable

import torch
from torch.distributions import AffineTransform, Kumaraswamy, TransformedDistribution
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


def stretched(a: torch.Tensor, b: torch.Tensor) -> TransformedDistribution:
    """torch's Kumaraswamy on (left, right), not rectified."""
    return TransformedDistribution(
        Kumaraswamy(a, b, validate_args=False), [AffineTransform(LEFT, RIGHT - LEFT)], validate_args=False
    )


def _score_of_a_draw(family: Callable, shape: tuple[int, int]) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    a, b = ((softplus(torch.randn(shape, generator=generator)) + 1e-3).requires_grad_() for _ in range(2))

    def step() -> None:
        law = family(a, b)
        torch.autograd.grad(law.log_prob(law.rsample()).sum(), (a, b))

    return step


def cases() -> dict[str, dict[str, Callable[[], None]]]:
    ways = {"the usual way (a chain of formulas)": _step(naive_chain), "the package": _step(hardkuma)}
    groups = {"HardKuma draw + masses + backward [256, 1000]": ways}
    for shape in ((512, 64), (4096, 512)):
        groups[f"HardKuma draw + log_prob + backward {list(shape)}"] = {
            "the usual way (torch's Kumaraswamy, stretched)": _score_of_a_draw(stretched, shape),
            "the package": _score_of_a_draw(functools.partial(HardKuma, validate_args=False), shape),
        }
    a, b = torch.rand(2, 65_536, generator=torch.Generator().manual_seed(0)) * 3 + 0.1
    groups["mean of 65,536 gates"] = {"HardKuma": lambda: HardKuma(a, b).mean}
    return groups
