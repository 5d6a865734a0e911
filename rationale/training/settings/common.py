"""What the settings of every training task share."""

from rationale.data.example import SplitSettings
from rationale.training.loop import LoopSettings, OptimiserSettings


class CommonSettings(OptimiserSettings, LoopSettings, SplitSettings):
    """What every training run has."""
