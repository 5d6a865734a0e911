"""The settings of aligners of sentence pairs."""

from collections.abc import Iterator
from typing import Annotated

from rationale.data.batches import BatchSettings
from rationale.data.corpora import corpus_names
from rationale.data.own.settings import IN_WORDS, PairFileSettings, absolute
from rationale.data.vectors import VectorSettings
from rationale.models.aligner import AlignerSettings
from rationale.nn.gates import GATES
from rationale.objectives.constraint import ConstraintSettings
from rationale.objectives.score_function import DrawSettings
from rationale.settings import OneOf, Refusal, setting
from rationale.training.model_selection import ModelSelectionSettings
from rationale.training.settings.common import CommonSettings, refused_columns, refused_support, refused_target


class AlignmentSettings(
    PairFileSettings,
    AlignerSettings,
    ConstraintSettings,
    DrawSettings,
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

    corpus: Annotated[str, OneOf(lambda: corpus_names("alignment"), absolute, IN_WORDS)] = setting(
        meaning="pairs of sentences"
    )
    warm_start: int = setting(
        0,
        "epochs of softmax attention, before `epochs` with gates on its layers; start=target: and on its scores",
        "[0, inf)",
    )

    def refused(self) -> Iterator[Refusal]:
        held = self.selection is not None and self.model not in GATES
        model = f"with model {self.model}"
        yield Refusal(held, "selection", model, "null, or hardkuma", meaningless=True)
        started = self.start == "target"
        accepted = "none, or a model with gates"
        yield Refusal(started and self.model not in GATES, "start", model, accepted, meaningless=True)
        accepted = "0, or a model with gates"
        yield Refusal(self.warm_start > 0 and self.model not in GATES, "warm_start", model, accepted, meaningless=True)
        accepted = "1, or a model with gates"
        yield Refusal(self.samples > 1 and self.model not in GATES, "samples", model, accepted, meaningless=True)
        accepted = "none, or a number for selection"
        yield Refusal(started and self.selection is None, "start", "without a target", accepted, meaningless=True)
        yield self.idle(self.model not in GATES, "rule", model, "a model with gates")
        yield from refused_columns(self)
        yield from refused_support(self)
        yield from refused_target(self)
