"""The smoke runs of `tools/smoke.py`, for tests: without a kernel unless another runner is given."""

from collections.abc import Callable
from pathlib import Path

from tests.forked import run_forked
from tools import smoke as tool
from tools.smoke import NOTEBOOKS, needed_first, needs_data, small, smoke_items, smoke_parameters

__all__ = ["NOTEBOOKS", "needed_first", "needs_data", "small", "smoke", "smoke_items", "smoke_parameters"]


def smoke(notebook: Path, outputs: Path, run: Callable[..., Path] = run_forked) -> Path:
    """Execute a notebook with its small parameters; return the run's folder."""
    return tool.smoke(notebook, outputs, run=run)
