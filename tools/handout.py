"""Hand-outs of the notebooks: `python -m tools.handout [FOLDER]`, or `make handout`.

An exercise is three cells: Markdown that ends with the task and says which names to define; a cell tagged `solution`
that defines them; a cell tagged `check` with assertions about them. The teacher's edition is the notebook itself. In
the student's edition, each solution is replaced by its names, set to `...`; the checks are kept, and fail until the
names have the right values. Pictures and outputs come from the newest finished run that has the notebook's current
cells: all of them in the teacher's edition, and the figures and explorers, which the questions are about, in the
student's. `make book` makes such a run of each notebook. JupyterLab shows solutions and checks collapsed.
"""

import argparse
import ast
import sys
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from rationale.errors import BadInput, command, shown
from rationale.files import write_text
from rationale.runs.exercises import exercises
from rationale.runs.folding import collapse
from rationale.runs.page import lab_page
from rationale.runs.workspace import root
from tools.book.__main__ import newest_run

SHOWN_TO_STUDENTS = {"figure", "interactive"}  # tags of cells whose outputs do not give a solution away


def executed(path: Path, outputs: Path) -> NotebookNode | None:
    """A notebook with the outputs of its newest finished run, or None if no run has its current cells."""
    run = newest_run(path, outputs, trials=True)
    if run is None:
        return None
    notebook = nbformat.read(run / "run.ipynb", 4)
    notebook.cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    return notebook


def with_figures(notebook: NotebookNode, of: NotebookNode) -> NotebookNode:
    """Put the figures of an executed notebook into an edition with the same cells, which is changed."""
    for cell, shown_cell in zip(notebook.cells, of.cells, strict=True):
        if SHOWN_TO_STUDENTS & set(cell.metadata.get("tags", [])):
            cell.outputs = shown_cell.outputs
    return notebook


def student_edition(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook in which each solution is replaced by `...` and each check names what is missing."""
    notebook = nbformat.from_dict(notebook)
    tasks = exercises(notebook)
    for exercise in tasks:
        answer, check = notebook.cells[exercise.solution], notebook.cells[exercise.check]
        defined = [node for node in ast.walk(ast.parse(answer.source)) if isinstance(node, ast.FunctionDef)]
        hints = {node.name: f"  # def {node.name}({ast.unparse(node.args)}): ..." for node in defined}
        lines = [f"# Exercise {exercise.number}: give these names their values"]
        lines += [f"{name} = ...{hints.get(name, '')}" for name in exercise.names]
        given = [
            f'assert {name} is not ..., "exercise {exercise.number}: `{name}` has no value yet, see the cell above"'
            for name in exercise.names
        ]
        answer.metadata["tags"] = ["answer"]
        check.metadata["tags"] = [*check.metadata["tags"], "raises-exception"]  # "Run All" continues after it
        answer.source = "\n".join([*lines, "# Because: "])
        check.source = "\n".join([*given, check.source, f'print("Exercise {exercise.number} is solved.")'])
    if tasks:
        notebook.cells[0].source += (
            f"\n\n**Hand-out**: {len(tasks)} exercise{'s' * (len(tasks) > 1)}, "
            f"{sum(exercise.minutes for exercise in tasks)} minutes. Replace each `...`, write down why, and run "
            "the check below it, which fails until the answer is right. No other cell depends on your answers."
        )
    return notebook


def write_handouts(folder: Path, outputs: Path) -> tuple[list[Path], list[str]]:
    """Write both editions of every notebook to `folder`/student and `folder`/teacher, as notebooks and as pages.

    Returns
    -------
    The notebooks that were written, and the names of those that have no picture, as no run in `outputs` shows them.
    """
    written, without = [], []
    for path in sorted((root() / "notebooks").glob("*.py")):
        student, teacher = student_edition(jupytext.read(path)), executed(path, outputs)
        if teacher is None:
            teacher = jupytext.read(path)
            without.append(path.stem)
        else:
            student = with_figures(student, teacher)
        for edition, content in (("student", student), ("teacher", teacher)):
            (folder / edition).mkdir(parents=True, exist_ok=True)
            target = folder / edition / f"{path.stem}.ipynb"
            nbformat.write(collapse(content), target)
            write_text(target.with_suffix(".html"), lab_page(content, f"{path.stem}, {edition}"))
            written.append(target)
    return written, without


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the hand-outs and print where they are."""
    form = argparse.ArgumentParser(
        "python -m tools.handout", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form.add_argument("folder", nargs="?", default=str(root() / "outputs" / "handout"), metavar="FOLDER")
    given = form.parse_args(arguments).folder
    if not given.strip():
        raise BadInput("FOLDER: an empty value is not accepted, give a folder")
    folder = Path(given)
    written, without = write_handouts(folder, root() / "outputs")
    print(f"{len(written) // 2} notebooks, a student's and a teacher's edition of each: {shown(folder)}/")
    if without:
        print(f"without pictures, as no run has their current cells (`make book` makes them): {', '.join(without)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
