"""The settings that all training tasks share."""

from rationale.data.example import SplitSettings
from rationale.training.loop import LoopSettings, OptimiserSettings


class CommonSettings(OptimiserSettings, LoopSettings, SplitSettings):
    """The settings of every training run."""
