"""Hand-outs of the notebooks: `python -m rationale.handout [FOLDER]`, or `make handout`.

An exercise is three cells: Markdown that ends with the task and says which names to define; a cell tagged `solution`
that defines them; a cell tagged `check` that asserts on them. The teacher's edition is the notebook as it is. In the
student's, each solution is replaced by those names, set to `...`; the checks stay, and fail until they are met.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import jupytext
import nbconvert
import nbformat
from nbformat import NotebookNode

from rationale.errors import command
from rationale.files import write_text
from rationale.runs import root, shown

TASK = re.compile(r"\*\*Exercise (\d+)\*\* \(predict, change, explain; (\d+) minutes\)\.")


class Exercise(NamedTuple):
    """Where an exercise of a notebook stands: `solution` and `check` are indices of its cells."""

    number: int
    minutes: int
    task: str
    solution: int
    check: int
    names: list[str]


def is_tagged(cell: NotebookNode, tag: str) -> bool:
    """Whether a cell has the tag."""
    return tag in cell.metadata.get("tags", [])


def names_of(source: str, context: type = ast.Store) -> list[str]:
    """Names that a cell binds (`ast.Store`, functions too) or reads (`ast.Load`), in the order of their first place."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name | ast.FunctionDef)]
    found = [node for node in found if isinstance(getattr(node, "ctx", ast.Store()), context)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(getattr(node, "id", None) or node.name for node in found))


def exercises(notebook: NotebookNode) -> list[Exercise]:
    """The exercises of a notebook, in order.

    Raises
    ------
    ValueError
        If a solution has no task in the Markdown cell before it, or no check in the cell after it.
    """
    cells, found = notebook.cells, []
    for i in (i for i, cell in enumerate(cells) if is_tagged(cell, "solution")):
        task = list(TASK.finditer(cells[i - 1].source))
        if len(task) != 1 or cells[i - 1].cell_type != "markdown":
            form = "**Exercise N** (predict, change, explain; M minutes). ..."
            raise ValueError(f"before a solution stands one task, {form}; got: {cells[i - 1].source[-300:]}")
        if i + 1 == len(cells) or not is_tagged(cells[i + 1], "check"):
            raise ValueError(f"exercise {task[0][1]}: after the solution stands a cell tagged check")
        check, text = cells[i + 1].source, cells[i - 1].source[task[0].start() :]
        read = set(names_of(check, ast.Load)) - set(names_of(check))
        names = [name for name in names_of(cells[i].source) if name in read]
        found.append(Exercise(int(task[0][1]), int(task[0][2]), text, i, i + 1, names))
    return found


def student_edition(notebook: NotebookNode) -> NotebookNode:
    """A copy of a notebook in which each solution is a place to fill in and each check says what is missing."""
    notebook = nbformat.from_dict(notebook)
    found = exercises(notebook)
    for exercise in found:
        answer, check = notebook.cells[exercise.solution], notebook.cells[exercise.check]
        defined = [node for node in ast.walk(ast.parse(answer.source)) if isinstance(node, ast.FunctionDef)]
        hints = {node.name: f"  # def {node.name}({ast.unparse(node.args)}): ..." for node in defined}
        lines = [f"# Exercise {exercise.number}: give these names their values"]
        lines += [f"{name} = ...{hints.get(name, '')}" for name in exercise.names]
        given = [
            f'assert {name} is not ..., "exercise {exercise.number}: `{name}` is not given yet, see the cell above"'
            for name in exercise.names
        ]
        answer.metadata["tags"] = ["answer"]
        check.metadata["tags"] = [*check.metadata["tags"], "raises-exception"]  # "Run All" goes on after it
        answer.source = "\n".join([*lines, "# Because: "])
        check.source = "\n".join([*given, check.source, f'print("Exercise {exercise.number} is solved.")'])
    if found:
        notebook.cells[0].source += (
            f"\n\n**Hand-out**: {len(found)} exercise{'s' * (len(found) > 1)}, "
            f"{sum(exercise.minutes for exercise in found)} minutes. Replace each `...`, write down why, and run "
            "the check below: it fails until the answer is right. The rest of the notebook does not wait for answers."
        )
    return notebook


def write_handouts(folder: Path) -> list[Path]:
    """Write both editions of every notebook to `folder`/student and /teacher, as notebooks and as pages."""
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
    """Write the hand-outs and say where they are."""
    folder = Path(arguments[0]) if arguments else root() / "outputs" / "handout"
    written = write_handouts(folder)
    print(f"{len(written) // 2} notebooks, student's and teacher's edition: {shown(folder)}/")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
