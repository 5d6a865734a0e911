"""Twins of the notebooks for plain papermill: `python -m tools.twins [NOTEBOOK.py]...`, or `make twins`.

A twin is the same notebook as an `.ipynb` file, in outputs/twins/, because papermill cannot read text notebooks. It has
one more cell, which names the text notebook and stops the run if that one has changed since. In its `parameters` cell
`float | None` is written `"float or None"`, because `papermill --help-notebook` cannot read the former.
"""

import re
import sys
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from rationale.errors import BadInput, command, shown
from rationale.files import write_text
from rationale.runs.plain import digest_of
from rationale.runs.workspace import notebook_path, root
from tools import command_line


def twin(notebook: Path) -> NotebookNode:
    """The twin of a text notebook."""
    made = jupytext.read(notebook)
    place = notebook.relative_to(root()) if notebook.is_relative_to(root()) else notebook
    call = f"from rationale.runs import twin_of\n\ntwin_of({str(place)!r}, {digest_of(notebook)!r})  # by `make twins`"
    for index, cell in enumerate(made.cells):
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = re.sub(r"^(\w+: )([\w\[\]]+) \| None =", r'\1"\2 or None" =', cell.source, flags=re.M)
            made.cells.insert(index, nbformat.v4.new_code_cell(call, id="twin", metadata={"tags": ["twin"]}))
            break
    return made


def write_twins(notebooks: list[Path], folder: Path) -> list[Path]:
    """Write the twins of these notebooks to a folder; one that is there is replaced."""
    written = []
    for notebook in notebooks:
        written.append(folder / f"{notebook.stem}.ipynb")
        write_text(written[-1], nbformat.writes(twin(notebook)))
    return written


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = command_line("twins", __doc__)
    form.add_argument("names", nargs="*", metavar="NOTEBOOK.py", help="the notebooks; none: all")
    given = form.parse_args(arguments).names
    notebooks = [notebook_path(name) for name in given] or sorted((root() / "notebooks").glob("*.py"))
    stems = [notebook.stem for notebook in dict.fromkeys(path.resolve() for path in notebooks)]
    if same := [stem for stem in stems if stems.count(stem) > 1]:
        raise BadInput(f"{same[0]}: two notebooks have this name, and so would their twins; give one of them")
    folder = root() / "outputs" / "twins"
    written = write_twins(notebooks, folder)
    print(f"{len(written)} twins in {shown(folder)}, for example {shown(written[-1])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
