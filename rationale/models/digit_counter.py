"""The model of the toy task: the digits are compared with the query first, filtered next, and counted last.

    h0_i = digit(x_i),   h1_i = W2 tanh(W1 [query(n); query(m); h0_i])  in 2 dimensions,   answer = head(GRU(h1))

Source: eq. (D1), notebooks/41_diffmask.py; De Cao et al. 2020, sec. 4.1.
"""

import torch
from torch import Tensor, nn

from rationale.data.batches import Batch, Sides
from rationale.models.protocol import Output
from rationale.nn.heads import HEADS

NUM_DIGITS = 10


class DigitCounter(nn.Module):
    """Embeddings, a feed-forward filter with a bottleneck of 2, a GRU, a linear classifier.

    Parameters
    ----------
    num_words : int
        Size of the vocabulary of digits.
    size : int
        Units of embeddings and hidden layers; 64 in the paper.
    """

    def __init__(self, num_words: int = NUM_DIGITS + 2, size: int = 64):
        super().__init__()
        self.query, self.digit = nn.Embedding(num_words, size), nn.Embedding(num_words, size)
        self.mix, self.filter = nn.Linear(3 * size, size), nn.Linear(size, 2)
        self.counter, self.head = nn.GRU(2, size, batch_first=True), HEADS["classes"](size, 2)

    @property
    def layers(self) -> list[nn.Module]:
        """The modules whose outputs are h0 [B, T, size] and h1 [B, T, 2]."""
        return [self.digit, self.filter]

    def forward(self, sides: Sides, mask: Tensor, num_samples: int = 1) -> Output:
        """`sides`: digits [B, T] and query [B, 2]; `mask`: bool [B, T], of the digits."""
        query = self.query(sides.second).flatten(1).unsqueeze(1)  # [B, 1, 2 H]
        digits = self.digit(sides.first)
        joined = torch.cat([query.expand(-1, digits.shape[1], -1), digits], -1)
        states, _ = self.counter(self.filter(torch.tanh(self.mix(joined))))
        last = (sides.first_mask.sum(1) - 1).view(-1, 1, 1).expand(-1, 1, states.shape[2])
        return Output(self.head(states.gather(1, last).squeeze(1)), mask.to(states.dtype), None)

    def predict(self, batch: Batch[Sides]) -> Tensor:
        """Logits [B, 2]."""
        return self(batch.tokens, batch.mask).prediction
