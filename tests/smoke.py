"""The smoke runs of `tools/smoke.py`, for tests: without a kernel unless another runner is given."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import HOW

from tests.forked import run_forked
from tools import smoke as tool
from tools.smoke import NOTEBOOKS, needed_first, needs_data, small, smoke_items, smoke_parameters

__all__ = [
    "NOTEBOOKS",
    "needed_first",
    "needs_data",
    "skip_without_data",
    "small",
    "smoke",
    "smoke_items",
    "smoke_parameters",
]


def smoke(notebook: Path, outputs: Path, run: Callable[..., Path] = run_forked) -> Path:
    """Execute a notebook with its small parameters; return the run's folder."""
    return tool.smoke(notebook, outputs, run=run)


def skip_without_data(notebook: Path) -> None:
    """Skip the test that calls this if its notebook needs real data, and there is none.

    A mark `data` would ask the same of every notebook in every process that collects the tests, which takes seconds.
    """
    if needs_data(notebook) and not os.environ.get("RATIONALE_DATA"):
        pytest.skip(HOW)
