"""The settings of encoder-decoders."""

from collections.abc import Iterator
from typing import Annotated, Literal

from rationale.data.batches import BatchSettings
from rationale.data.corpora import corpus_names, find_corpus
from rationale.models.beam_search import SearchSettings
from rationale.models.seq2seq import Seq2SeqSettings
from rationale.settings import OneOf, Refusal, setting
from rationale.training.settings.common import CommonSettings


class GenerationSettings(
    Seq2SeqSettings,
    SearchSettings,
    BatchSettings,
    CommonSettings,
    defaults={"batch_size": 64, "schedule": "exponential", "min_learning_rate": 1e-4, "weight_decay": 0.0},
):
    """An encoder-decoder with attention."""

    corpus: Annotated[str, OneOf(lambda: corpus_names("generation"))] = setting(meaning="texts with a target text")
    language: Literal["de", "fr", "cs"] = setting("de", "what is translated into English")
    min_count: int = setting(2, "a word that is rarer in the training split is unknown", "[1, inf)")
    gamma_start: float | None = setting(
        None, "gamma at first, from which it moves to gamma, eq. (Q4); null = gamma", "(0, inf)"
    )
    gamma_moves: float = setting(0.0, "share of the epochs in which gamma moves; their models are not kept", "[0, 1)")
    model_choice: Literal["within_tolerance", "authors"] = setting(
        "within_tolerance", "which epoch's model is kept: both values mean the lowest dev loss per word"
    )

    def refused(self) -> Iterator[Refusal]:
        other = self.language != "de" and not find_corpus(self.corpus).languages
        moves, accepted = self.gamma_start is not None, "a number above 0, below 1"
        alone = self.gamma_moves > 0 and not moves
        yield Refusal(alone, "gamma_moves", "without gamma_start", "0, or a number for gamma_start", meaningless=True)
        yield Refusal(moves and not self.gamma_moves, "gamma_moves", "with gamma_start", accepted)
        yield Refusal(other, "language", f"with corpus {self.corpus}", "de", meaningless=True)
