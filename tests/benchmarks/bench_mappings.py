"""Attention mappings on [512, 64] scores, forward and backward, beside torch's softmax and the package entmax.

Alone: python -m tests.benchmarks --only mappings
"""

from collections.abc import Callable

import torch

from rationale.nn import MAPPINGS

SHAPE = (512, 64)


def _pass(mapping: Callable) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(SHAPE, generator=generator).requires_grad_()
    direction = torch.randn(SHAPE, generator=generator)

    def both() -> None:
        torch.autograd.grad(mapping(scores), scores, direction)

    return both


def cases() -> dict[str, dict[str, Callable[[], None]]]:
    ways = {"torch.softmax": _pass(lambda scores: scores.softmax(-1))}
    ways |= {name: _pass(mapping) for name, mapping in MAPPINGS.items()}
    try:
        from entmax import sparsemax
    except ImportError:
        return {f"attention mappings {list(SHAPE)}, forward and backward": ways}
    return {f"attention mappings {list(SHAPE)}, forward and backward": ways | {"entmax.sparsemax": _pass(sparsemax)}}
