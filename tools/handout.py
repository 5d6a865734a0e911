"""Hand-outs of the notebooks: `python -m tools.handout [FOLDER]`, or `make handout`.

An exercise is three cells: Markdown that ends with the task and says which names to define; a cell tagged `solution`
that defines them; a cell tagged `check` with assertions about them. The teacher's edition is the notebook itself. In
the student's edition, each solution is replaced by its names, set to `...`; the checks are kept, and fail until the
names have the right values.
"""

import ast
import sys
from pathlib import Path

import jupytext
import nbconvert
import nbformat
from nbformat import NotebookNode

from rationale.errors import command
from rationale.files import write_text
from rationale.runs.exercises import exercises
from rationale.runs.parameters import shown
from rationale.runs.workspace import root


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


def write_handouts(folder: Path) -> list[Path]:
    """Write both editions of every notebook to `folder`/student and `folder`/teacher, as notebooks and as pages."""
    written = []
    page = nbconvert.HTMLExporter(template_name="lab")
    for path in sorted((root() / "notebooks").glob("*.py")):
        notebook = jupytext.read(path)
        for edition, content in (("student", student_edition(notebook)), ("teacher", notebook)):
            (folder / edition).mkdir(parents=True, exist_ok=True)
            target = folder / edition / f"{path.stem}.ipynb"
            nbformat.write(content, target)
            html, _ = page.from_notebook_node(content, resources={"metadata": {"name": f"{path.stem}, {edition}"}})
            write_text(target.with_suffix(".html"), html)
            written.append(target)
    return written


@command
def main(arguments: list[str]) -> int:
    """Write the hand-outs and print where they are."""
    folder = Path(arguments[0]) if arguments else root() / "outputs" / "handout"
    written = write_handouts(folder)
    print(f"{len(written) // 2} notebooks, a student's and a teacher's edition of each: {shown(folder)}/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
