"""A probe of the inputs whose gates sit on words: the pieces of a word are kept or masked together.

    h_w^(k) = mean of h_i^(k) over the pieces i of word w
    z_w = prod over k of v_w^(k),    v_w^(k) ~ HardConcrete(logit^(k)(h_w^(0), h_w^(k)))
    h_i^(0) := z_w h_i^(0) + (1 - z_w) b for each piece i of word w;  special pieces stay as they are

In the paper, a mask is learned for each layer, and each sees only the states up to its layer. Here only that of the
last layer is learned, which sees all of them: it is the one that tells what the answer needs.

Source: eqs. (D3), (D4), notebooks/41_diffmask.py; De Cao et al. 2020, sec. 3.
"""

from itertools import chain, count
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rationale.data.batches import Batch, Batches
from rationale.data.word_groups import SPECIAL, Pieces
from rationale.explain.diffmask import Probe, ProbeOutput
from rationale.explain.frozen import FrozenModel, divergence, recorded
from rationale.models.classifier import TextClassifier


class FrozenWords(FrozenModel):
    """A classifier of texts whose states are read per word, and whose embeddings are replaced per word."""

    model: TextClassifier

    @classmethod
    def of(cls, classifier: TextClassifier) -> "FrozenWords":
        """Of `layers`, there is only h^(0), the only one that is replaced."""
        return cls(classifier, [classifier.embeddings], classifier.predict, lambda batch: batch.mask)

    def read(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Logits and states [B, W, D] of the words, without gradients."""
        with torch.no_grad(), recorded(self.layers) as embedded:
            logits, states = self.model.read(batch)
        return logits, [mean_over_pieces(state, batch) for state in (*embedded, *states)]

    def masked(self, batch: Batch, layer: int, z: Tensor, baseline: Tensor) -> Tensor:
        """Logits when the embeddings of each word are replaced by z h + (1 - z) b; z is [B, W]."""
        return super().masked(batch, layer, of_pieces(z, batch.tokens), baseline)


def mean_over_pieces(states: Tensor, batch: Batch[Pieces]) -> Tensor:
    """The mean state of the pieces of each word, [B, N, D] -> [B, W, D]; 0 for padding."""
    word, (rows, size) = batch.tokens.word, batch.mask.shape
    at = torch.where(word == SPECIAL, size, word)  # special pieces are gathered behind the words, and dropped
    sums = states.new_zeros(rows, size + 1, states.shape[2])
    sums.scatter_add_(1, at.unsqueeze(-1).expand_as(states), states)
    counts = states.new_zeros(rows, size + 1).scatter_add_(1, at, torch.ones_like(at, dtype=states.dtype))
    return (sums / counts.clamp(min=1).unsqueeze(-1))[:, :size]


def of_pieces(z: Tensor, pieces: Pieces) -> Tensor:
    """The gate of the word of each piece, [B, W] -> [B, N]; 1 for special pieces."""
    return torch.where(pieces.word == SPECIAL, 1.0, z.gather(1, pieces.word.clamp(min=0)))


class Decision(NamedTuple):
    """Which words of a batch a probe keeps, and what the classifier answers to them."""

    original: Tensor  # logits y
    masked: Tensor  # logits y_hat
    kept: Tensor  # bool [B, W]
    mask: Tensor  # bool [B, W]


class WordProbe(Probe):
    """A probe of the inputs by the votes of all states, for a mask of words.

    Parameters
    ----------
    frozen : FrozenWords
    votes : MLPVotes or BilinearVotes
    baseline : [D]
        b, which is not trained.
    """

    def __init__(self, frozen: FrozenWords, votes: nn.Module, baseline: Tensor):
        super().__init__(frozen, votes, "inputs", [baseline])
        self.baselines.requires_grad_(False)

    def forward(  # the objective gives a layer, and a layer alone has no mask of its own here
        self,
        batch: Batch,
        layer: int = 0,  # noqa: ARG002
        read: tuple[Tensor, list[Tensor]] | None = None,
    ) -> ProbeOutput:
        """As `Probe.forward` for the last layer, whatever `layer` is."""
        read = read or self.frozen.read(batch)
        return super().forward(batch, len(read[1]) - 1, read)

    @torch.no_grad()
    def kept(self, batch: Batch, read: tuple[Tensor, list[Tensor]] | None = None) -> tuple[Tensor, Tensor]:
        """Logits of the whole texts, and the words that are kept, bool [B, W]: those with P(z != 0) > 1/2."""
        logits, states = read or self.frozen.read(batch)
        return logits, (self.log_keep(states).exp() > 0.5) & batch.mask

    @torch.no_grad()
    def decide(self, batch: Batch) -> Decision:
        """The kept words, as they are, and the answer when all others are replaced by the baseline."""
        original, kept = self.kept(batch)
        masked = self.frozen.masked(batch, 0, kept.to(original.dtype), self.baselines[0])
        return Decision(original, masked, kept, batch.mask)


class Neutral(NamedTuple):
    """An embedding in place of a masked word, and what else the first batches of texts tell."""

    baseline: Tensor  # b, [D]
    sizes: list[int]  # of the states h^(0), h^(1), ...


def neutral_embedding(frozen: FrozenWords, batches: Batches, num_batches: int = 10, num_steps: int = 100) -> Neutral:
    """An embedding that says nothing: if every word is replaced by it, the answer is the mean answer to all texts.

        min over b of KL(mean of y over texts || y_hat),    y_hat: the answer to a text of which every z is 0

    The paper learns b together with the gates. In a classifier of two classes, b then came to mean one of them: texts
    of this class needed no word. Here it is fitted first, by Adam from the mean embedding, and stays as it is.

    Parameters
    ----------
    num_batches : int
        Batches of which means are taken.
    num_steps : int
        Of the fit, one batch each.
    """
    sums, answers, number, sizes = torch.zeros(()), list[Tensor](), 0, list[int]()
    for _, batch in zip(range(num_batches), batches.epoch(1), strict=False):
        logits, states = frozen.read(batch)
        sums, number = sums.to(states[0]) + states[0][batch.mask].sum(0), number + int(batch.mask.sum())
        answers.append(logits.log_softmax(-1))
        sizes = [state.shape[2] for state in states]
    mean = torch.cat(answers).exp().mean(0).log()  # [C]
    baseline = (sums / number).requires_grad_()
    optimiser = torch.optim.Adam([baseline], lr=0.05 * baseline.detach().std().clamp(min=1e-3).item())
    endless = chain.from_iterable(batches.epoch(1 + epoch) for epoch in count())
    for _, batch in zip(range(num_steps), endless, strict=False):
        nothing = torch.zeros_like(batch.mask, dtype=baseline.dtype)
        masked = frozen.masked(batch, 0, nothing, baseline)
        optimiser.zero_grad()
        divergence(mean.expand_as(masked), masked).mean().backward()
        optimiser.step()
    return Neutral(baseline.detach(), sizes)
