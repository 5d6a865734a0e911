"""Run every notebook in seconds, with its small parameters of `params/smoke.yaml`, through the runner.

A notebook that reads saved runs says there whose: `after: 12_train_sst`. The smoke run of that one is made first, is
called `smoke`, and the folder it is in is passed as `runs_dir`.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from rationale.data.corpora import find_corpus
from rationale.runs import root, run
from rationale.runs.parameters import defaults
from rationale.runs.yaml_files import as_override

NOTEBOOKS = sorted((root() / "notebooks").glob("*.py"))
FILE = root() / "params" / "smoke.yaml"


@cache
def small() -> dict[str, dict[str, Any]]:
    """The mapping of each notebook in `params/smoke.yaml`, by the notebook's name."""
    return yaml.safe_load(FILE.read_text(encoding="utf-8"))


def smoke_parameters(notebook: Path) -> dict[str, Any]:
    """The small parameters of a notebook, by name."""
    return {name: value for name, value in small()[notebook.stem].items() if name != "after"}


def smoke_items(notebook: Path, **changes: Any) -> list[str]:
    """The small parameters of a notebook, with some changed, as overrides for the runner."""
    return [as_override(name, value) for name, value in (smoke_parameters(notebook) | changes).items()]


def needed_first(notebook: Path) -> Path | None:
    """The notebook whose smoke run this one reads."""
    first = small()[notebook.stem].get("after")
    return root() / "notebooks" / f"{first}.py" if first else None


def needs_data(notebook: Path) -> bool:
    """True if the smoke run, or the one that it reads, uses a corpus that is not made up."""
    first = needed_first(notebook)
    if first is not None:
        return needs_data(first)
    corpus = (defaults(notebook) | smoke_parameters(notebook)).get("corpus")
    if corpus is None:  # a notebook about one corpus, or about none
        return "cached_sst(" in notebook.read_text(encoding="utf-8")
    return find_corpus(corpus).archive is not None


def smoke(notebook: Path, outputs: Path, name: str = "smoke", run: Callable[..., Path] = run) -> Path:
    """Execute a notebook with its small parameters; return the run's folder.

    Parameters
    ----------
    notebook
        One of NOTEBOOKS.
    outputs
        Where the run is to be found, and where the one that it reads is made first.
    name
        The name of the run; the one that it reads is called `smoke`.
    run
        The runner; tests take one without a kernel.
    """
    items, first = smoke_items(notebook), needed_first(notebook)
    if first:
        items.append(f"runs_dir={smoke(first, outputs, run=run).parent}")
    return run(notebook, items, outputs=outputs, name=name, again_if_changed=True, wait=True)
