"""Differentiable rationales: distributions, gates, models and objectives, and the runs that the notebooks make of them.

Each room is imported by its name: `from rationale.distributions import HardKuma`, `from rationale.nn import sparsemax`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rationale.runs.saved import SavedRun

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def load(run: str | Path) -> "SavedRun":
    """The model of a finished run, in evaluation mode, ready to read new text.

    Parameters
    ----------
    run
        The folder of a finished training run, for example `outputs/12_train_sst/hardkuma-selection0.4-seed1`.

    Returns
    -------
    SavedRun
        `model`, `vocabulary`, `parameters` and `labels`.

    Raises
    ------
    BadInput
        If the folder is not that of a finished training run.
    """
    from rationale.runs.saved import load_run  # most of the package: imported when it is asked for

    return load_run(run)
