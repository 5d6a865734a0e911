"""Read an executed notebook from a file that may be damaged."""

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from rationale.errors import BadInput, shown


def read_notebook(file: Path) -> NotebookNode:
    """The notebook in a file.

    Raises
    ------
    BadInput
        If the file holds no notebook, such as one that was cut short.
    """
    try:
        return nbformat.read(file, 4)
    except (ValueError, KeyError, AttributeError, nbformat.ValidationError):
        raise BadInput(f"{shown(file)}: damaged, it holds no notebook; remove it, or make it again") from None
