"""The loss of an encoder-decoder: cross-entropy per target word."""

from torch import nn
from torch.nn import functional as F

from rationale.data.batches import Batch, Sides
from rationale.models.protocol import EncoderDecoder
from rationale.objectives.loss import LossOutput


class WordLoss(nn.Module):
    """Cross-entropy of the target's words, in nats per word.

    Logs, as `settled`, the share of words at which the attention has no gradient.

    Source: eq. (Q3), notebooks/15_train_seq2seq.py.
    """

    def forward(self, model: EncoderDecoder, batch: Batch[Sides]) -> LossOutput:
        sides = batch.tokens
        outputs, weights = model.decode(sides.first, sides.first_mask, sides.second)
        real = sides.second_mask
        loss = F.cross_entropy(model.output(outputs[real]), sides.second[real])
        no_gradient = model.has_zero_jacobian(weights.detach()[real]).to(loss.dtype).mean()
        return LossOutput(loss, {"task": loss.detach(), "settled": no_gradient})
