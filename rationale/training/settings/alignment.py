"""The settings of aligners of sentence pairs."""

from collections.abc import Iterator
from typing import Annotated

from rationale.data.batches import BatchSettings
from rationale.data.corpora import corpus_names
from rationale.data.vectors import VectorSettings
from rationale.models.aligner import AlignerSettings
from rationale.nn.gates import GATES
from rationale.objectives.constraint import ConstraintSettings
from rationale.settings import OneOf, Refusal, setting
from rationale.training.model_selection import ModelSelectionSettings
from rationale.training.settings.common import CommonSettings


class AlignmentSettings(
    AlignerSettings,
    ConstraintSettings,
    VectorSettings,
    BatchSettings,
    ModelSelectionSettings,
    CommonSettings,
    defaults={
        "dropout": 0.0,
        "measure": "selected",
        "measure_every": 4,
        "multiplier_rate": 0.1,
        "quadratic": 20.0,
        "smoothing": 0.9,
        "batch_size": 64,
        "min_learning_rate": 5e-5,
        "weight_decay": 1e-6,
        "tolerance": 0.015,
    },
):
    """An aligner of sentence pairs, at the paper's size, for a corpus one eighth as large."""

    corpus: Annotated[str, OneOf(lambda: corpus_names("alignment"))] = setting(meaning="pairs of sentences")

    def refused(self) -> Iterator[Refusal]:
        held = self.selection is not None and self.model not in GATES
        yield Refusal(held, "selection", f"with model {self.model}", "null, or hardkuma")
