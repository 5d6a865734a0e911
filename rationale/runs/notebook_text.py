"""The text of a notebook and its code cells, read without executing anything."""

import ast
import sys
from pathlib import Path
from types import ModuleType

from rationale.errors import BadInput, optional, shown


def import_jupytext() -> ModuleType:
    """The package jupytext, imported without the parser of international addresses (IRIs) that no notebook needs.

    jsonschema, on which all readers of notebooks depend, builds that parser on import where it is installed: two
    thirds of the time that a run needs before its kernel starts. Where it is not, jsonschema checks all but IRIs.
    """
    parser = "rfc3987_syntax"
    hidden = parser not in sys.modules
    if hidden:
        sys.modules[parser] = None  # type: ignore[assignment]  # not installed, so to speak; typeshed knows modules only
    try:
        return optional("jupytext", "reading a notebook", "notebooks")
    finally:
        if hidden:
            sys.modules.pop(parser, None)


def code_cells(notebook: Path, text: str) -> list[tuple[list[str], str]]:
    """Tags and source of each code cell."""
    cells = import_jupytext().reads(text, fmt=notebook.suffix.removeprefix(".")).cells
    return [(cell.metadata.get("tags", []), cell.source) for cell in cells if cell.cell_type == "code"]


def text_of(notebook: Path) -> str:
    """The text of a notebook.

    Raises
    ------
    BadInput
        If the file cannot be read, or is not in UTF-8.
    """
    try:
        return notebook.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "not UTF-8")
        raise BadInput(f"{shown(notebook)}: cannot be read ({problem}), give a text notebook in UTF-8") from None


def parts_cells(notebook: Path) -> list[str]:
    """The sources of the cells tagged `parts`, which define parts of one's own; see `own_parts`."""
    return [source for tags, source in code_cells(notebook, text_of(notebook)) if "parts" in tags]


def tree_of(source: str) -> ast.Module:
    """The syntax tree of a cell.

    Raises
    ------
    SyntaxError
        If it is no Python. A NUL counts as such, too, for which Python before 3.11.4 raises a ValueError.
    """
    try:
        return ast.parse(source)
    except ValueError as error:
        raise SyntaxError(str(error)) from None
