"""The settings that all training tasks share."""

from rationale.data.example import SplitSettings
from rationale.training.loop import FitSettings


class CommonSettings(FitSettings, SplitSettings):
    """The settings of every training run."""
