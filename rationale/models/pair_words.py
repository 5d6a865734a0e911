"""The words of both sentences of B pairs in one tensor, so that one call of a layer reads all of them."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F


class Words(NamedTuple):
    """Features of the words of both sides of B pairs, premises before hypotheses.

    A sentence is a row of words; in most batches the same words occur many times (`the`, `a`, the NULL of every
    sentence). Where nothing distinguishes two occurrences of a word, its features may be stored once: `places` then
    holds, for every word, the row of its features.
    """

    rows: Tensor  # [R, H]
    lengths: tuple[int, int]  # P, Q
    places: Tensor | None = None  # long [B P + B Q], in [0, R); None: R = B P + B Q, each word has its own row

    @classmethod
    def of(cls, premise: Tensor, hypothesis: Tensor) -> "Words":
        """From [B, P, ...] and [B, Q, ...]: features, or the indices [B, P] and [B, Q] of the words."""
        rows = torch.cat([premise.flatten(0, 1), hypothesis.flatten(0, 1)])
        return cls(rows, (premise.shape[1], hypothesis.shape[1]))

    def distinct(self) -> "Words":
        """The same words, given as indices, of which each different one is stored once.

        Their number is not known before the computation, so on a GPU, which would have to wait for it, nothing changes.
        """
        if self.rows.device.type != "cpu":
            return self
        rows, places = self.rows.unique(return_inverse=True)
        return Words(rows, self.lengths, places)

    def through(self, layers: Callable[[Tensor], Tensor]) -> "Words":
        """Layers without random numbers, or rows of which each belongs to one word: each row through the layers."""
        return self._replace(rows=layers(self.rows))

    def each(self) -> "Words":
        """The same words, each with a row of its own."""
        return self if self.places is None else Words(F.embedding(self.places, self.rows), self.lengths)

    def sides(self) -> tuple[Tensor, Tensor]:
        """[B, P, H] and [B, Q, H]; views, not copies, if each word has its own row."""
        rows = self.each().rows
        num_pairs = len(rows) // sum(self.lengths)
        parts = rows.split([num_pairs * length for length in self.lengths])
        premise, hypothesis = (part.unflatten(0, (num_pairs, -1)) for part in parts)
        return premise, hypothesis


def products(words: Words) -> Tensor:
    """Dot products of each premise word with each hypothesis word, [B, P, Q]."""
    premise, hypothesis = words.sides()
    return premise @ hypothesis.mT
