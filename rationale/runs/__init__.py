"""Runs: parameters of a notebook, the runner, sweeps, saved runs and predictions."""

from rationale.runs.kernel import results_folder, twin_of, validated
from rationale.runs.runner import RunFailed, run
from rationale.runs.workspace import notebook_path, root

__all__ = [
    "RunFailed",
    "notebook_path",
    "results_folder",
    "root",
    "run",
    "twin_of",
    "validated",
]
