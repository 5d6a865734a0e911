"""What the training loop, the objectives and the evaluation ask of a model."""

from typing import NamedTuple

from torch import Tensor
from torch.distributions import Distribution


class Output(NamedTuple):
    """What one pass returns: everything a loss or an evaluation needs."""

    prediction: Tensor  # [K B, C]: logits (classes) or scores in [0, 1]; K draws a text, mostly 1
    z: Tensor  # [K B, T] gate values in [0, 1], 0 at padding
    gates: Distribution | None  # of batch shape [K B, T]; None for a model that reads everything
    dependent: bool = False  # True where a gate depends on the draws before it
    log_switches: Tensor | None = None  # [K B, T - 1] ln P(switch after t), of a selector that looks ahead
