"""What a page of a notebook folds away, so that it reads as prose and pictures: the code, each part with a name.

The pages of runs (`page.py`) and the book (`tools/book`) share this. Everything opens by a click, all at once by
`SHOW_ALL`, and neither needs a script of its own. In JupyterLab, `collapse` hides the answers of exercises and checks.
"""

import ast
import re
from typing import Any

from rationale.runs.notebook_text import tree_of

NAMES = {  # by tag, what the code of a cell is called
    "parameters": "parameters",
    "injected-parameters": "parameters of this run",
    "prediction": "prediction",
    "check": "check",
    "figure": "figure",
    "interactive": "explorer",
    "parts": "parts",
}
COLLAPSED = {"prediction", "solution", "check"}  # tags of cells whose code JupyterLab hides until it is asked for
IN_VIEW = {"answer"}  # tags of cells in which a reader is to write
SHOW_ALL = (
    '<p class="show-code"><button type="button" onclick="'
    "const open = this.dataset.open = this.dataset.open ? '' : 'yes';"
    "for (const part of document.querySelectorAll('details.code')) part.open = Boolean(open);"
    "this.textContent = open ? 'Hide all code' : 'Show all code';"
    '">Show all code</button></p>'
)
DEFINED = re.compile(r"^(?:def|class) (\w+)", re.M)


def code_name(cell: Any) -> str:
    """What a code cell is: `parameters`, `imports`, `check`, `figure` ... or `code`; "" if its code stays in view."""
    tags = cell.metadata.get("tags", [])
    if IN_VIEW & set(tags) or not cell.source.strip():
        return ""
    named = [NAMES[tag] for tag in tags if tag in NAMES]
    return named[0] if named else "imports" if _only_imports(cell.source) else "code"


def summary_line(names: list[str]) -> str:
    """The line that is seen in place of cells with these names: `Code: parameters, imports`."""
    names = [name for name in dict.fromkeys(names) if name != "code"]
    return f"Code: {', '.join(names)}" if names else "Code"


def source_line(markdown: str) -> str:
    """The line in place of an output of `figures.show_source`; "" for any other output."""
    if not markdown.startswith("```python\n"):
        return ""
    return "Code from the package: " + (", ".join(DEFINED.findall(markdown)) or "an excerpt")


def collapse(notebook: Any) -> Any:
    """Let JupyterLab show the answers of exercises and the checks collapsed; the notebook is changed and returned."""
    for cell in notebook.cells:
        if COLLAPSED & set(cell.metadata.get("tags", [])):
            cell.metadata["jupyter"] = {**cell.metadata.get("jupyter", {}), "source_hidden": True}
    return notebook


def _only_imports(source: str) -> bool:
    try:
        return all(isinstance(node, ast.Import | ast.ImportFrom) for node in tree_of(source).body)
    except SyntaxError:  # such as a magic command
        return False
