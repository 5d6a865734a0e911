"""The settings of each training task, composed of those of its components; flat, with one default each.

One file per task, so that a run depends on the settings of its own task and on no other's. A task changes a component's
default only where the paper's size for that task is another one. What a notebook is about stands in its `parameters`
cell, with the value it has there; everything else has the value given here.
"""

from rationale.training.settings.alignment import AlignmentSettings
from rationale.training.settings.common import CommonSettings
from rationale.training.settings.extraction import ExtractionSettings, FirstSettings, ReviewSettings
from rationale.training.settings.generation import GenerationSettings
from rationale.training.settings.probing import ProbingSettings

__all__ = [
    "AlignmentSettings",
    "CommonSettings",
    "ExtractionSettings",
    "FirstSettings",
    "GenerationSettings",
    "ProbingSettings",
    "ReviewSettings",
]
