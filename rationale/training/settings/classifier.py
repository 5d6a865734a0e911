"""The settings of probes that explain a classifier of one's own on unlabelled texts."""

from typing import Annotated

from rationale.data.tokenise import TOKENISERS
from rationale.explain.diffmask import ProbeSettings
from rationale.settings import OneOf, setting
from rationale.training.settings.common import CommonSettings


class PlainTextSettings(CommonSettings):
    """The column of texts without labels."""

    text: str = setting("text", "column of the texts")
    tokeniser: Annotated[str, OneOf(lambda: TOKENISERS)] = setting("treebank", "how texts are split into words")
    skip_incomplete: bool = setting(False, "whether rows without a text are left out; else the first one is an error")
    split_seed: int = setting(1, "seed of the dev and test splits, if the texts come without them", "[0, inf)")


class ClassifierProbeSettings(
    ProbeSettings,
    PlainTextSettings,
    defaults={
        "margin": 0.1,
        "hidden_size": 96,
        "multiplier_rate": 0.05,
        "multiplier_init": 1.0,
        "epochs": 10,
        "learning_rate": 5e-3,
        "min_learning_rate": 0.0,
        "schedule": "exponential",
        "weight_decay": 0.0,
    },
):
    """A probe of the words that a frozen classifier needs."""

    batch_size: int = setting(32, "texts per training step", "[1, inf)")
    batch_tokens: int = setting(
        8192, "largest number of pieces of a training batch of several texts, with padding", "[1, inf)"
    )
