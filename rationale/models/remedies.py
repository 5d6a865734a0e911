"""Changes of an extractor against rationales that degenerate. Their terms are in `objectives.loss`."""

from typing import Literal

from rationale.settings import Settings, setting


class RemedySettings(Settings):
    """Three remedies against rationales that degenerate; all are off by default.

    Source: Liu et al. 2022 (FR) for the shared encoder; Yu et al. 2021 (A2R) for the auxiliary predictor. A predictor
    that reads the whole text first is our own: it learns to read before anything is hidden from it.
    """

    shared_encoder: bool = setting(False, "selector and predictor share one encoder")
    closeness: float = setting(
        0.0, "price of the divergence from an auxiliary predictor, which reads all words; 0 = there is none", "[0, inf)"
    )
    second_reads: Literal["words", "states"] = setting(
        "words",
        "what the auxiliary predictor reads: every word, multiplied by the probability of its gate, or the states of "
        "the selector, which has read every word",
    )
    whole_text_epochs: int | None = setting(
        0,
        "first epochs, in which the predictor reads every word and no gate is trained; null = 1 if most texts are "
        "longer than what a pretrained encoder reads at once, else 0",
        "[0, inf)",
    )
