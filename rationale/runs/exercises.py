"""Find the exercises of a notebook: the task, the cells of its solution and its check, and the names they share."""

import ast
import re
from typing import NamedTuple

from nbformat import NotebookNode

TASK = re.compile(r"\*\*Exercise (\d+)\*\* \(predict, change, explain; (\d+) minutes\)\.")


class Exercise(NamedTuple):
    """An exercise of a notebook."""

    number: int
    minutes: int
    task: str  # in Markdown
    solution: int  # index of the cell
    check: int  # index of the cell
    names: list[str]  # names that the solution binds and the check reads


def is_tagged(cell: NotebookNode, tag: str) -> bool:
    """Whether a cell has the tag."""
    return tag in cell.metadata.get("tags", [])


def names_of(source: str, context: type = ast.Store) -> list[str]:
    """Names that a cell binds (`ast.Store`, with functions) or reads (`ast.Load`), in order of first occurrence."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name | ast.FunctionDef)]
    nodes = [node for node in nodes if isinstance(getattr(node, "ctx", ast.Store()), context)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(getattr(node, "id", None) or node.name for node in nodes))


def exercises(notebook: NotebookNode) -> list[Exercise]:
    """The exercises of a notebook, in order.

    Raises
    ------
    ValueError
        If a solution has no task in the Markdown cell before it, or no check in the cell after it.
    """
    cells, result = notebook.cells, []
    for i in (i for i, cell in enumerate(cells) if is_tagged(cell, "solution")):
        task = list(TASK.finditer(cells[i - 1].source))
        if len(task) != 1 or cells[i - 1].cell_type != "markdown":
            form = "**Exercise N** (predict, change, explain; M minutes). ..."
            raise ValueError(f"a solution must follow exactly one task, {form}; got: {cells[i - 1].source[-300:]}")
        if i + 1 == len(cells) or not is_tagged(cells[i + 1], "check"):
            raise ValueError(f"exercise {task[0][1]}: the solution must be followed by a cell tagged `check`")
        check, text = cells[i + 1].source, cells[i - 1].source[task[0].start() :]
        read = set(names_of(check, ast.Load)) - set(names_of(check))
        names = [name for name in names_of(cells[i].source) if name in read]
        result.append(Exercise(int(task[0][1]), int(task[0][2]), text, i, i + 1, names))
    return result
