"""Attention mappings, forward and backward: beside torch's softmax and the package entmax, at three sizes.

Most weights of a row of normal scores are 0. Rows of scores near 0, as at the start of a training, have many that are
not, so they are a group of their own.

The last groups time the vectorised form, which a GPU uses: on the CPU, and on a GPU if there is one.

Alone: python -m tests.benchmarks --only mappings
"""

from collections.abc import Callable

import torch

from rationale.nn import MAPPINGS
from rationale.nn.mappings import vectorised

SHAPES = ((512, 64), (4096, 64), (4096, 512))
NEAR_0 = 0.1  # standard deviation of scores at the start
PAPERS_PRICES = {"fusedmax": 0.1, "oscarmax": 0.01}
VECTORISED = {
    "sparsemax": vectorised.sparsemax,
    "entmax15": lambda x, mask, gamma: vectorised.entmax(x, mask, gamma, torch.tensor(1.5, device=x.device)),
    "fusedmax": lambda x, mask, gamma: vectorised.fusedmax(x, mask, gamma, PAPERS_PRICES["fusedmax"]),
    "oscarmax": lambda x, mask, gamma: vectorised.oscarmax(x, mask, gamma, PAPERS_PRICES["oscarmax"], False),
    "sq_pnorm_max": lambda x, mask, gamma: vectorised.sq_pnorm_max(x, mask, gamma, 1.5),
}


def _pass(mapping: Callable, shape: tuple[int, int], device: str = "cpu", scale: float = 1.0) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    scores = (scale * torch.randn(shape, generator=generator)).to(device).requires_grad_()
    direction = torch.randn(shape, generator=generator).to(device)

    def both() -> None:
        torch.autograd.grad(mapping(scores), scores, direction)
        if device == "cuda":
            torch.cuda.synchronize()

    return both


def _softmax(scores: torch.Tensor) -> torch.Tensor:
    return scores.softmax(-1)


def cases() -> dict[str, dict[str, Callable[[], None]]]:
    mappings: dict[str, Callable] = {"torch.softmax": _softmax}
    mappings |= {name: mapping.function for name, mapping in MAPPINGS.items() if name != "entmax"}
    try:
        import entmax
    except ImportError:
        pass
    else:
        mappings |= {"entmax.sparsemax": entmax.sparsemax, "entmax.entmax15": entmax.entmax15}
    groups = {
        f"attention mappings {list(shape)}, forward and backward": {
            name: _pass(mapping, shape) for name, mapping in mappings.items()
        }
        for shape in SHAPES
    }
    near = {name: _pass(mapping, SHAPES[-1], scale=NEAR_0) for name, mapping in mappings.items()}
    groups[f"attention mappings of scores near 0, {list(SHAPES[-1])}, forward and backward"] = near
    forms = {"torch.softmax": _softmax} | {
        name: lambda scores, form=form: form(scores, None, 1.0).to(scores.dtype) for name, form in VECTORISED.items()
    }
    for device in ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",):
        title = f"vectorised attention mappings {list(SHAPES[0])}, forward and backward, {device}"
        groups[title] = {name: _pass(form, SHAPES[0], device) for name, form in forms.items()}
    return groups
