"""The settings of the notebook on SST: an extractor whose rationales are judged."""

from rationale.explain.faithfulness import JudgingSettings
from rationale.training.settings.extraction import ExtractionSettings


class SSTSettings(ExtractionSettings, JudgingSettings):
    """An extractor on SST, at the size of the paper's experiment, and which of its rationales are judged."""
