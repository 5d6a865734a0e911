"""Read one text with a saved run: compute its gates, and the prediction under other gate values."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rationale.data.batches import Batch, encode
from rationale.nn.heads import Classes
from rationale.runs.answers import with_words
from rationale.runs.saved import SavedRun


class Reading(NamedTuple):
    """A text with the gates that a saved model gives to its words."""

    tokens: list[str]
    batch: Batch  # of this one text
    z: Tensor  # [T], gate values at test time
    masses: Tensor | None  # [T, 3]: P(z = 0), P(0 < z < 1), P(z = 1); None for a model without gates
    unknown: list[str]  # words outside the run's vocabulary
    model: Any  # that of the run, with a table in which the tokens of `batch` are rows


@torch.no_grad()
def read_text(run: SavedRun, text: str) -> Reading:
    """Compute the tokens and the gates of a text of at least one word."""
    tokens = run.tokens(text)
    model, vocabulary = with_words(run, [tokens])
    batch = encode([tokens], vocabulary)
    output = model(batch.tokens, batch.mask)
    gates, masses = output.gates, None
    if gates is not None:
        masses = torch.stack([gates.prob_zero, gates.prob_interior, gates.prob_one], -1)[0]
    return Reading(tokens, batch, output.z[0], masses, vocabulary.unknown(tokens), model)


@torch.no_grad()
def predict_with(run: SavedRun, reading: Reading, z: Tensor) -> list[float]:
    """The output of the run's predictor for these gate values: probabilities, or scores.

    All gates are fixed: a selector whose gates depend on earlier gates does not recompute the later ones.

    Parameters
    ----------
    z : [T], in [0, 1]
    """
    model, batch = run.model, reading.batch
    prediction = model.predictor(reading.model.embed(batch.tokens), batch.mask, z.unsqueeze(0))
    return (prediction.softmax(1) if isinstance(model.head, Classes) else prediction)[0].tolist()


def describe_prediction(run: SavedRun, numbers: Sequence[float]) -> str:
    """The output of `predict_with` in words: `positive 0.62` for classes, `look 0.40, smell 0.61` for scores.

    Scores of one's own data are given on its scale.
    """
    if isinstance(run.model.head, Classes):
        best = max(range(len(numbers)), key=numbers.__getitem__)
        return f"{run.outputs[best]} {numbers[best]:.2f}"
    scores = zip(run.outputs, run.rescaled(numbers), strict=True)
    return ", ".join(f"{name} {score:.2f}" for name, score in scores)
