"""Bad starts, on purpose: a selector or a predictor that has learned the wrong words before both are trained together.

A rationale *degenerates* if the two players agree on words that explain nothing. Whether training leaves such an
agreement again is measured from starts like these. Source: Yu et al. 2021 (A2R), Liu et al. 2022 (FR).
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from typing import Literal

import torch
from torch import Tensor, nn

from rationale.data.batches import Batch, Batches
from rationale.models.extractor import Extractor
from rationale.nn.modes import evaluating
from rationale.objectives import guidance
from rationale.settings import Refusal, Settings, setting

ENDS_OF_SENTENCES = (".", "!", "...")


class SkewSettings(Settings):
    """A start that is skewed on purpose."""

    skew: Literal["none", "selector", "predictor"] = setting("none", "the part that learns the wrong words first")
    skew_steps: int = setting(100, "batches from which it learns them", "[1, inf)")

    def refused(self) -> Iterator[Refusal]:
        yield self.idle(self.skew == "none", "skew_steps", "with skew none", "skew=selector")


def first_word_guide(batch: Batch[Tensor]) -> Tensor:
    """A guide that makes the first word a signal: its gate is to be open in texts of class 1, and shut in the others.

    Returns
    -------
    long [B, T]; 0 or 1 at the first word, -1 (nothing is said) at the others
    """
    guide = torch.full_like(batch.tokens, -1)
    guide[:, 0] = batch.target
    return guide


def first_sentence(batch: Batch[Tensor], ends: Tensor) -> Tensor:
    """The words of each text up to its first end of a sentence, which is included.

    Parameters
    ----------
    batch : Batch
    ends : long [E]
        Rows of the vocabulary: the tokens that end a sentence.

    Returns
    -------
    bool [B, T]
    """
    is_end = torch.isin(batch.tokens, ends).long()
    return (is_end.cumsum(1) - is_end == 0) & batch.mask


def skew_selector(model: Extractor, batches: Batches, num_steps: int, learning_rate: float) -> None:
    """Teach a selector, alone, to tell the class of a text by the gate of its first word.

    Its loss is that of `objectives.guidance` with `first_word_guide`. A predictor that shares its encoder is moved as
    well. Source: Yu et al. 2021; Liu et al. 2022.

    Parameters
    ----------
    model : Extractor
        With gates; its texts have two classes.
    batches : Batches
        Of the training texts.
    num_steps : int
        Batches that it learns from.
    learning_rate : float, > 0
        Of Adam.
    """

    def missed(batch: Batch[Tensor]) -> Tensor:
        gates = model.gates(batch.tokens, batch.mask)
        return guidance(gates.log_prob_nonzero, gates.log_prob_zero, first_word_guide(batch))

    _train(model, model.selector, missed, batches, num_steps, learning_rate)


def skew_predictor(model: Extractor, batches: Batches, num_steps: int, learning_rate: float) -> None:
    """Teach a predictor, alone, to predict the class of a text from its first sentence.

    The parameters are those of `skew_selector`. A selector that shares its encoder is moved as well.
    """
    known = [token for token in ENDS_OF_SENTENCES if token in batches.vocabulary]
    ends = torch.tensor(batches.vocabulary.encode(known), dtype=torch.long, device=batches.device)

    def missed(batch: Batch[Tensor]) -> Tensor:
        z = first_sentence(batch, ends).to(model.dtype)
        return model.head.loss(model.predictor(model.embed(batch.tokens), batch.mask, z), batch.target).mean()

    _train(model, model.predictor, missed, batches, num_steps, learning_rate)


SKEWS = {"selector": skew_selector, "predictor": skew_predictor}


@torch.no_grad()
def told_by_first_word(model: Extractor, batches: Batches) -> float | None:
    """How often the gate of the first word alone tells the class: open in class 1, shut in class 0, or the reverse.

    Gates are decided by the test-time rule. None if the model has no gates.

    Returns
    -------
    float in [0.5, 1], or None
    """
    if not model.has_gates:
        return None
    agrees = []
    with evaluating(model):
        for batch in batches.in_order():
            is_open = model.chosen(batch.tokens, batch.mask)[0][:, 0] != 0
            agrees.append(is_open == (batch.target == 1))
    share = torch.cat(agrees).double().mean().item()
    return max(share, 1 - share)


def _train(
    model: Extractor,
    part: nn.Module,
    loss_of: Callable[[Batch[Tensor]], Tensor],
    batches: Batches,
    num_steps: int,
    learning_rate: float,
) -> None:
    """Adam on the parameters of one part; no other part moves."""
    optimizer = torch.optim.Adam(part.parameters(), lr=learning_rate)
    every: Iterable[Batch[Tensor]] = chain.from_iterable(map(batches.epoch, count(1)))
    model.train()
    for batch in islice(every, num_steps):
        optimizer.zero_grad()
        loss_of(batch).backward()
        optimizer.step()
