"""Execute the cells of a notebook in this process, without a kernel and without its pictures, and collect what fails.

It is the fastest way to try the checks of a notebook on many results. What a test patches in the package holds in the
notebook too.
"""

import ast
from pathlib import Path
from typing import Any

import jupytext
import pytest

from rationale import figures
from rationale.runs import notebook_path

PICTURES = {"figure", "interactive"}
NOT_CHECKED = "We do not check here what this page says of the committed results"  # of runs of one's own


def cells(notebook: str) -> list[str]:
    """The code cells of a notebook."""
    return [cell.source for cell in jupytext.read(notebook_path(notebook)).cells if cell.cell_type == "code"]


def executed(source: str, place: str, bound: dict[str, Any]) -> Any:
    """Execute a cell; return the value of the expression at its end, None if there is none."""
    parts = ast.parse(source, place)
    last = parts.body.pop() if parts.body and isinstance(parts.body[-1], ast.Expr) else None
    exec(compile(parts, place, "exec"), bound)
    return None if last is None else eval(compile(ast.Expression(last.value), place, "eval"), bound)


def run_cells(
    name: str,
    folder: Path,
    patch: pytest.MonkeyPatch,
    pictures: bool = False,
    displayed: list[Any] | None = None,
    **parameters: Any,
) -> tuple[dict[str, Exception], dict[str, Any]]:
    """Execute all cells, those behind a failed one too.

    Parameters
    ----------
    name : str
        Of a notebook.
    folder : Path
        Where it saves its results.
    pictures : bool
        Execute the cells tagged `figure` and `interactive` too.
    displayed
        Is extended by what the cells display, by `display` or as their last expression.
    parameters
        Replace the values of the parameters cell.

    Returns
    -------
    errors by the source of their cell, and the names that the notebook has bound
    """
    import IPython.display

    (folder / "figures").mkdir(parents=True, exist_ok=True)
    patch.setenv("RATIONALE_RUN_DIR", str(folder))
    patch.setattr(figures, "FORMATS", figures.FORMATS[:1])  # PDF and PNG take most of the time of a page
    kept = [] if displayed is None else displayed
    patch.setattr(IPython.display, "display", lambda *objects, **__: kept.extend(objects))
    bound: dict[str, Any] = {"__name__": "notebook"}
    failed: dict[str, Exception] = {}
    for number, cell in enumerate(jupytext.read(notebook_path(name)).cells):
        tags = set(cell.metadata.get("tags", []))
        if cell.cell_type != "code" or (tags & PICTURES and not pictures):
            continue
        try:
            value = executed(cell.source, f"{name}, cell {number}", bound)
            kept.extend([] if value is None else [value])
        except Exception as error:
            failed[cell.source] = error
        if "parameters" in tags:
            bound |= parameters
            bound["In"] = ["# Parameters\n" + "\n".join(f"{key} = {value!r}" for key, value in parameters.items())]
    return failed, bound
