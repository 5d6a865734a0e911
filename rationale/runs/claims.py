"""What a notebook says of our results, as opposed to what holds for any run: when to check it.

A check of mathematics, or of the files of a run against each other, holds for every run and is always made. What a page
says of the committed results ("more text, more accuracy") was read off these runs, and a run of the reader's own may
well contradict it. Such a check is made under `if claims.apply_to(...)`.
"""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from rationale.runs.cells import defaults
from rationale.runs.parameters import WITHOUT_EFFECT, modernised
from rationale.runs.workspace import notebook_path, root


def apply_to(p: Any, notebook: str = "", only_defaults: bool = False) -> bool:
    """Whether what a page says of our results is to be checked. If not, one line says so.

    Parameters
    ----------
    p : parameters
        Without `notebook`, those of a page that reads runs: it is about the committed results if it is given no `runs`.
        With `notebook`, those of one run, as settings or as a dict.
    notebook : str
        The notebook that made the run. It is one of ours if all its settings, `WITHOUT_EFFECT` apart, are the
        notebook's defaults or those of a committed run.
    only_defaults : bool
        True: the page says it of a run with the notebook's defaults, and of no other committed run.
    """
    if not notebook:
        ours, whose = not p.runs, "these runs are your own"
    else:
        known = _ours(notebook)[:1] if only_defaults else _ours(notebook)
        ours = _fixed(p if isinstance(p, Mapping) else vars(p)) in known
        whose = "this run has other settings" if only_defaults else "the settings of this run are your own"
    if not ours:
        print(f"We do not check here what this page says of the committed results, because {whose}.")
    return ours


@cache
def _ours(notebook: str) -> list[dict[str, Any]]:
    """The defaults of a notebook, and after them the settings of its committed runs."""
    usual = defaults(notebook_path(notebook))
    file = root() / "outputs" / "reference" / "runs.json"
    records = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    of_notebook = [record["parameters"] for record in records if record["run"].startswith(f"{notebook}/")]
    # A run that is older than a setting used its present default.
    complete = [usual | modernised(parameters) for parameters in of_notebook]
    return [_fixed(parameters) for parameters in (usual, *complete)]


def _fixed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name not in WITHOUT_EFFECT}
