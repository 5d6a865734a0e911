"""The settings of extractors on texts of one's own."""

from typing import Annotated

from rationale.data.corpora import corpus_names
from rationale.data.own.settings import IN_WORDS, RationaleFileSettings, absolute
from rationale.settings import OneOf, setting
from rationale.training.settings.extraction import ExtractionSettings


class OwnTextSettings(
    RationaleFileSettings,
    ExtractionSettings,
    defaults={
        "vectors": "random",
        "embedding_size": 64,
        "hidden_size": 64,
        "train_vectors": True,
        "dropout": 0.1,
        "pool": "max",
        "predictor": "compact",
        "selection": 0.2,
        "measure": "selected",
        "multiplier_rate": None,  # this, quadratic and tolerance follow from the texts
        "quadratic": None,
        "batch_size": 32,
        "epochs": 20,
        "stop_after": 4,
        "learning_rate": 2e-3,
        "min_learning_rate": 1e-4,
        "weight_decay": 1e-6,
        "tolerance": None,
    },
):
    """An extractor on texts of your own, small enough to train in minutes."""

    corpus: Annotated[str, OneOf(lambda: corpus_names("extraction"), absolute, IN_WORDS)] = setting(
        meaning="where the texts come from"
    )
