"""The settings of each training task, composed of the settings of its components; flat, with one default each.

There is one file per task, so that a run depends only on the settings of its own task. A task changes the default of a
component only where the paper uses another size for the task. The `parameters` cell of a notebook shows the settings
that the notebook is about, with their values there; every other setting has the default given here.
"""

from rationale.training.settings.alignment import AlignmentSettings
from rationale.training.settings.common import CommonSettings
from rationale.training.settings.extraction import ExtractionSettings, FailureSettings, FirstSettings, ReviewSettings
from rationale.training.settings.generation import GenerationSettings
from rationale.training.settings.own_texts import OwnTextSettings
from rationale.training.settings.probing import ProbingSettings
from rationale.training.settings.sst import SSTSettings

__all__ = [
    "AlignmentSettings",
    "CommonSettings",
    "ExtractionSettings",
    "FailureSettings",
    "FirstSettings",
    "GenerationSettings",
    "OwnTextSettings",
    "ProbingSettings",
    "ReviewSettings",
    "SSTSettings",
]
