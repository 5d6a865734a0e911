"""Texts without the words that carry their score: does a prediction fall with them, and through which part?"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import torch

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.models.extractor import Extractor
from rationale.nn.modes import evaluating


class Scores(NamedTuple):
    """Mean scores of the head, such as the share of right classes, on texts without their informative words."""

    held: float  # the gates are those of the unchanged texts
    anew: float  # the gates are decided from the changed texts


def without_informative(examples: Iterable[Example], word: str = "the") -> list[Example]:
    """The examples, in which `word` stands in the place of each word that carries the score (`informative`)."""
    return [
        replace(one, tokens=tuple(word if flag else token for token, flag in zip(one.tokens, marked, strict=True)))
        for one in examples
        for marked in [one.informative or (False,) * len(one.tokens)]
    ]


@torch.no_grad()
def scores_without_informative(model: Extractor, batches: Batches) -> Scores | None:
    """How well a model predicts from texts without their informative words.

    A score that falls only with gates that are decided anew was passed on by the selector: the predictor does not read
    the words that carry the score.

    Parameters
    ----------
    model : Extractor
    batches : Batches
        Of the unchanged texts.

    Returns
    -------
    Scores, or None if the model has no gates
    """
    if not model.has_gates:
        return None
    examples = without_informative(batches.examples)
    changed = Batches(examples, batches.vocabulary, batches.batch_size, device=batches.device)
    held, anew = [], []
    with evaluating(model):
        for old, new in zip(batches.in_order(), changed.in_order(), strict=True):
            z = model.chosen(old.tokens, old.mask)[0]
            prediction = model.predictor(model.embed(new.tokens), new.mask, z)
            held.append(model.head.score(prediction, new.target))
            anew.append(model.head.score(model(new.tokens, new.mask).prediction, new.target))
    return Scores(*(torch.cat(part).double().mean().item() for part in (held, anew)))
