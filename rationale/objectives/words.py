"""The loss of an encoder-decoder: cross-entropy per target word."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rationale.data.batches import Batch, Sides
from rationale.models.protocol import EncoderDecoder
from rationale.objectives.buffers import BufferKeeper
from rationale.objectives.loss import LossOutput
from rationale.objectives.schedule import moved


class MovingGamma(NamedTuple):
    """The strength of the regularisation of an attention, which moves from `first` to `final`, eq. (Q4)."""

    first: float  # gamma_0, > 0: that of the first training step
    final: float  # gamma, > 0
    moves: int  # K >= 0: training steps until gamma is `final`


class WordLoss(BufferKeeper):
    """Cross-entropy of the target's words, in nats per word.

    Logs, as `settled`, the share of words at which the attention has no gradient, and `gamma`, if it moves.

    Source: eqs. (Q3) and (Q4), notebooks/15_train_seq2seq.py.

    Parameters
    ----------
    gamma : MovingGamma or None
        How the gamma of the model's attention moves; None: it stays as it is.
    """

    on_cpu = frozenset({"steps"})
    steps: Tensor  # a buffer, []: training steps so far; only if gamma moves

    def __init__(self, gamma: MovingGamma | None = None):
        super().__init__()
        self.gamma = gamma
        if gamma is not None:
            self.register_buffer("steps", torch.tensor(0))

    def forward(self, model: EncoderDecoder, batch: Batch[Sides]) -> LossOutput:
        moves: dict[str, Tensor] = {}
        if self.gamma is not None:
            gamma = moved(self.gamma.first, self.gamma.final, int(self.steps), self.gamma.moves)
            model.set_gamma(gamma)
            moves = {"gamma": torch.tensor(gamma, device=batch.mask.device)}
            self.steps += self.training
        sides = batch.tokens
        outputs, weights = model.decode(sides.first, sides.first_mask, sides.second)
        real = sides.second_mask
        loss = F.cross_entropy(model.output(outputs[real]), sides.second[real])
        no_gradient = model.has_zero_jacobian(weights.detach()[real]).to(loss.dtype).mean()
        return LossOutput(loss, {"task": loss.detach(), "settled": no_gradient} | moves)
