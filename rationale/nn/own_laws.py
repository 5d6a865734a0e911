"""Whether the distribution of a gate of one's own gives numbers that can be right, told before anything is trained."""

import math
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rationale.distributions.protocol import GateDistribution
from rationale.errors import BadInput
from rationale.nn.forms import form_of

GRID = (2, 8)  # batch shape of the distribution that is judged
TOLERANCE = 1e-3  # of masses, which may be computed in float32
MASSES = ("zero", "nonzero", "one")  # those with a logarithm beside them


def grid_of_outputs(num_layers: int) -> Tensor:
    """Outputs [2, 8, G] of the layers of a gate, from -8 to 8, most of them near 0."""
    return torch.linspace(-2, 2, 16).pow(3).reshape(*GRID, 1).repeat(1, 1, num_layers)


@torch.enable_grad()
def require_numbers(told: str, of: Callable[[Tensor], GateDistribution], num_layers: int) -> None:
    """Refuse a gate whose distribution has masses, a mean or draws that cannot be right.

    Parameters
    ----------
    told : str
        Begins the message: the setting and the class of the gate.
    of : function
        From outputs [..., G] of the layers to the distribution.
    num_layers : int
        G.

    Raises
    ------
    BadInput
        The message names the attribute, and what is accepted.
    """
    gates = of(grid_of_outputs(num_layers).requires_grad_())
    mass = {name: _number(told, gates, name) for name in ("prob_zero", "prob_interior", "prob_one", "prob_nonzero")}
    _number(told, gates, "mean")
    for name in MASSES:
        if _differ(_number(told, gates, f"log_prob_{name}").exp(), mass[f"prob_{name}"]):
            raise BadInput(f"{told}.of: log_prob_{name} of its distribution is not the logarithm of prob_{name}")
    for names in (("prob_zero", "prob_nonzero"), ("prob_zero", "prob_interior", "prob_one")):
        total = sum((mass[name] for name in names), torch.zeros(GRID))
        if _differ(total, torch.ones(GRID)):
            worst = total.flatten()[(total - 1).abs().argmax()].item()
            what = f"{' and '.join((', '.join(names[:-1]), names[-1]))} of its distribution sum to {worst:.4g}"
            raise BadInput(f"{told}.of: {what}; accepted: 1")
    with torch.random.fork_rng(devices=[]):
        draws = [_number(told, gates, "sample", ())]
        if gates.has_rsample:
            noise = torch.linspace(0.05, 0.95, 16).reshape(GRID).log()
            for name, arguments in (("rsample", ()), ("rsample_at", (noise,))):
                draws.append(_number(told, gates, name, arguments))
                _require_gradient(told, name, draws[-1], "has_rsample = False")
    density = _number(told, gates, "log_prob", (draws[0].detach(),))
    if not gates.has_rsample:
        _require_gradient(told, "log_prob", density, "a log_prob that depends on the outputs of the layers")


def _number(told: str, gates: Any, name: str, arguments: tuple[Tensor, ...] | None = None) -> Tensor:
    """An attribute of a distribution, or what its method returns for these arguments."""
    try:
        value = getattr(gates, name) if arguments is None else getattr(gates, name)(*arguments)
    except NotImplementedError as error:
        lacks = traceback.extract_tb(error.__traceback__)[-1].name
        raise BadInput(f"{told}.of: {name} of its distribution needs `{lacks}`, which is not implemented") from None
    form = form_of(value)
    if form != GRID:
        what = f"{told}.of: {name} of its distribution is of the form {form} for outputs of shape (2, 8, G)"
        raise BadInput(f"{what}; accepted: a tensor of shape (2, 8)")
    low, high = value.amin().item(), value.amax().item()
    if math.isnan(low):
        raise BadInput(f"{told}.of: {name} of its distribution is NaN for some outputs of the layers from -8 to 8")
    if not name.startswith("log_") and not (-TOLERANCE < low and high < 1 + TOLERANCE):
        what = f"{told}.of: {name} of its distribution reaches from {low:.4g} to {high:.4g}"
        raise BadInput(f"{what}; accepted: numbers in [0, 1]")
    return value


def _require_gradient(told: str, name: str, value: Tensor, offer: str) -> None:
    if not value.requires_grad:
        raise BadInput(f"{told}.of: {name} of its distribution passes no gradient to the layers; give {offer}")


def _differ(first: Tensor, second: Tensor) -> bool:
    return bool(((first - second).abs() > TOLERANCE).any())
