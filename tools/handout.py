"""Hand-outs of the notebooks: `python -m tools.handout [FOLDER] [--notebook NAME]`, `make handout [NOTEBOOK=NAME]`.

Without a name, both editions of every notebook are made. With one, or with several `--notebook`, those of others stay.

An exercise is four cells: Markdown that ends with the task and says which names to define; a cell tagged `prediction`
that defines what is predicted; a cell tagged `solution` that defines the rest and ends with a comment, the model answer
to *Explain*; a cell tagged `check` with assertions about the names. The teacher's edition is the notebook itself. In
the student's edition, the prediction and the solution are replaced by their names, set to `...`. The check is one line
that does not show its method; it fails until the names have the right values, and then it prints what was predicted
first, and the model answer. Pictures and outputs come from a finished run that has the notebook's current cells: all of
them in the teacher's edition, and the figures and explorers, which the questions are about, in the student's. It is the
newest run with the usual settings, such as `make book` makes of each notebook, or else the newest other run. A run on
texts of one's own is never shown. JupyterLab shows answers and checks collapsed.

An edition in which somebody has written since is kept when it is made again: it is then called `NAME.edited.ipynb`.
"""

import ast
import hashlib
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from rationale.errors import BadInput, command, shown
from rationale.files import write_text
from rationale.progress import each
from rationale.runs import notebook_path
from rationale.runs.exercises import check_answer, exercises, pack
from rationale.runs.folder import edited_name
from rationale.runs.folding import collapse
from rationale.runs.page import lab_page
from rationale.runs.workspace import root
from tools import command_line
from tools.book.__main__ import SMALL, finished_runs, shows
from tools.notebooks import read_notebook

USUAL = ("default", "demo", SMALL)  # names of runs with the settings that the text of a notebook is about
DIGEST = "rationale_digest"  # in the metadata of an edition: by it we see whether somebody has written in it
SHOWN_TO_STUDENTS = {"figure", "interactive"}  # tags of cells whose outputs do not give a solution away


def shown_run(path: Path, outputs: Path) -> Path | None:
    """The run whose pictures are shown; None if no run has the current cells of the notebook."""
    runs = sorted(finished_runs(path, outputs), key=lambda folder: folder.name not in USUAL)
    return next((folder for folder in runs if shows(folder, path)), None)


def executed(run: Path) -> NotebookNode:
    """A notebook with the outputs of a run."""
    notebook = read_notebook(run / "run.ipynb")
    notebook.cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    return notebook


def with_figures(notebook: NotebookNode, of: NotebookNode) -> NotebookNode:
    """Put the figures of an executed notebook into an edition with the same cells, which is changed."""
    for cell, shown_cell in zip(notebook.cells, of.cells, strict=True):
        if SHOWN_TO_STUDENTS & set(cell.metadata.get("tags", [])):
            cell.outputs = shown_cell.outputs
    return notebook


def blank(title: str, names: list[str], source: str) -> str:
    """The source of a cell in which a student gives names their values; functions have their signature as a hint."""
    defined = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    hints = {node.name: f"  # def {node.name}({ast.unparse(node.args)}): ..." for node in defined}
    return "\n".join([f"# {title}", *[f"{name} = ...{hints.get(name, '')}" for name in names]])


def student_edition(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook in which answers are replaced by `...` and each check is packed."""
    notebook = nbformat.from_dict(notebook)
    tasks = exercises(notebook)
    for exercise in tasks:
        guess, answer, check = (
            notebook.cells[index] for index in (exercise.prediction, exercise.solution, exercise.check)
        )
        title = f"Exercise {exercise.number}"
        place = f"{title}: give these names their values" if exercise.names else f"{title}: the place to try it"
        guess.source = blank(f"{title}: predict before you compute", exercise.predicted, guess.source)
        answer.source = blank(place, exercise.names, answer.source) + "\n# Because: "
        guess.metadata["tags"] = answer.metadata["tags"] = ["answer"]
        check.metadata["tags"] = [*check.metadata["tags"], "raises-exception"]  # "Run All" continues after it
        lines = textwrap.wrap(pack(exercise, check.source), 110)
        quoted = "\n".join(f'    "{line}"' for line in lines)
        check.source = f"from {check_answer.__module__} import check_answer\n\n"
        check.source += f"check_answer(\n{quoted},\n    globals(),\n)"
    if tasks:
        notebook.cells[0].source += (
            f"\n\n**Hand-out**: {len(tasks)} exercise{'s' * (len(tasks) > 1)}, "
            f"{sum(exercise.minutes for exercise in tasks)} minutes. Replace each `...`, first in the cell of the "
            "prediction, and write down why. Then run the check, which fails until the answer is right and then shows "
            "what you predicted first, and a model answer. No other cell depends on your answers."
        )
    return notebook


def digest(notebook: NotebookNode) -> str:
    """The SHA-256 digest of the cells' texts."""
    return hashlib.sha256("\0".join(cell.source for cell in notebook.cells).encode()).hexdigest()


def keep_edited(target: Path, new: NotebookNode) -> Path | None:
    """Rename an edition that somebody has edited since it was made; the new name, or None if there is nothing to keep.

    Outputs do not count. An edition is edited if its cells are neither those that it was made with nor those of `new`.
    """
    if not target.exists():
        return None
    try:
        old = read_notebook(target)
        if digest(old) in (old.metadata.get(DIGEST), digest(new)):
            return None
    except BadInput:  # it is no notebook: somebody else's file, or one that was cut short
        pass
    return target.rename(target.parent / edited_name(target.parent, Path(target.name)))


def write_handouts(
    folder: Path, outputs: Path, notebooks: Sequence[Path] = ()
) -> tuple[list[Path], list[Path], list[str], list[Path]]:
    """Write both editions of notebooks to `folder`/student and `folder`/teacher, as notebooks and as pages.

    Without `notebooks`, they are those of every notebook.

    Returns
    -------
    The notebooks that were written, the folders of the runs in `outputs` whose pictures are shown, the names of the
    notebooks that have no picture, because there is no such run, and the edited notebooks that were kept.
    """
    written, runs, without, kept = [], [], [], []
    paths = sorted(set(notebooks)) or sorted((root() / "notebooks").glob("*.py"))
    for path in each("notebooks with two editions", paths):
        student, teacher = student_edition(jupytext.read(path)), jupytext.read(path)
        if run := shown_run(path, outputs):
            teacher = executed(run)
            student = with_figures(student, teacher)
            runs.append(run)
        else:
            without.append(path.stem)
        for edition, content in (("student", student), ("teacher", teacher)):
            (folder / edition).mkdir(parents=True, exist_ok=True)
            target = folder / edition / f"{path.stem}.ipynb"
            if old := keep_edited(target, content):
                kept.append(old)
            content.metadata[DIGEST] = digest(content)
            write_text(target, nbformat.writes(collapse(content)) + "\n")
            write_text(target.with_suffix(".html"), lab_page(content, f"{path.stem}, {edition}"))
            written.append(target)
    return written, runs, without, kept


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the hand-outs and print where they are."""
    form = command_line("handout", __doc__)
    form.add_argument("folder", nargs="?", default=str(root() / "outputs" / "handout"), metavar="FOLDER")
    form.add_argument("--notebook", action="append", default=[], metavar="NAME", help="only this one; may be repeated")
    given = form.parse_args(arguments)
    if not given.folder.strip():
        raise BadInput("FOLDER: an empty value is not accepted, give a folder")
    folder, named = Path(given.folder), [notebook_path(name) for name in given.notebook]
    written, runs, without, kept = write_handouts(folder, root() / "outputs", named)
    count = len(written) // 2
    notebooks, each_one = ("1 notebook", "it") if count == 1 else (f"{count} notebooks", "each")
    print(f"{notebooks}, a student's and a teacher's edition of {each_one}: {shown(folder)}/")
    if kept:
        print(f"kept, as somebody has written in them: {', '.join(str(old.relative_to(folder)) for old in kept)}")
    if runs:
        print(f"with the pictures of {', '.join(f'{run.parent.name}/{run.name}' for run in runs)}")
    if without:
        made_by = f"`python -m rationale.runs {without[0]}` makes them" if named else "`make book` makes them"
        print(f"without pictures, as no run has the current cells ({made_by}): {', '.join(without)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
