"""Changes of an extractor against rationales that degenerate. Their terms are in `objectives.loss`."""

from rationale.settings import Settings, setting


class RemedySettings(Settings):
    """Two remedies against rationales that degenerate; both are off by default.

    Source: Liu et al. 2022 (FR) for the shared encoder; Yu et al. 2021 (A2R) for the auxiliary predictor.
    """

    shared_encoder: bool = setting(False, "selector and predictor share one encoder")
    closeness: float = setting(
        0.0, "price of the divergence from an auxiliary predictor, which reads all words; 0 = there is none", "[0, inf)"
    )
