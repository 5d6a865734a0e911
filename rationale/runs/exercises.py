"""Exercises of a notebook: the task, the cells of its prediction, its solution and its check, and the names they share.

A student gets the check as one line of `pack`, so that it does not give the method away. `check_answer` runs it, and
shows the first prediction and the model answer to *Explain* when it has passed.
"""

import ast
import base64
import json
import re
import textwrap
import traceback
import zlib
from typing import Any, NamedTuple

from nbformat import NotebookNode

FIRST = "_first_predictions"  # among the names of a notebook: by exercise, what was predicted at the first check
TASK = re.compile(r"\*\*Exercise (\d+)\*\* \(predict, change, explain; (\d+) minutes\)\.")


class Exercise(NamedTuple):
    """An exercise of a notebook."""

    number: int
    minutes: int
    task: str  # in Markdown
    prediction: int  # index of the cell
    solution: int  # index of the cell
    check: int  # index of the cell
    predicted: list[str]  # names that the prediction binds and the check reads
    names: list[str]  # names that the solution binds and the check reads
    explanation: str  # the model answer to *Explain*, one paragraph


def is_tagged(cell: NotebookNode, tag: str) -> bool:
    """Whether a cell has the tag."""
    return tag in cell.metadata.get("tags", [])


def names_of(source: str, context: type = ast.Store) -> list[str]:
    """Names that a cell binds (`ast.Store`, with functions) or reads (`ast.Load`), in order of first occurrence."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name | ast.FunctionDef)]
    nodes = [node for node in nodes if isinstance(getattr(node, "ctx", ast.Store()), context)]
    nodes.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(getattr(node, "id", None) or node.name for node in nodes))


def explanation(source: str) -> tuple[str, str]:
    """A solution without the comment that it ends with, and this comment as one paragraph."""
    lines = source.rstrip().splitlines()
    start = len(lines)
    while start and lines[start - 1].startswith("#"):
        start -= 1
    text = " ".join(line.lstrip("# ").rstrip() for line in lines[start:])
    return "\n".join(lines[:start]).rstrip(), text


def exercises(notebook: NotebookNode) -> list[Exercise]:
    """The exercises of a notebook, in order.

    Raises
    ------
    ValueError
        If a solution does not follow a prediction, which follows a task in a Markdown cell, or if no check follows it.
    """
    cells, result = notebook.cells, []
    for i in (i for i, cell in enumerate(cells) if is_tagged(cell, "solution")):
        if i < 2 or not is_tagged(cells[i - 1], "prediction"):
            raise ValueError(f"a solution must follow a cell tagged `prediction`; got: {cells[i - 1].source[-300:]}")
        task = list(TASK.finditer(cells[i - 2].source))
        if len(task) != 1 or cells[i - 2].cell_type != "markdown":
            form = "**Exercise N** (predict, change, explain; M minutes). ..."
            raise ValueError(f"a prediction must follow exactly one task, {form}; got: {cells[i - 2].source[-300:]}")
        if i + 1 == len(cells) or not is_tagged(cells[i + 1], "check"):
            raise ValueError(f"exercise {task[0][1]}: the solution must be followed by a cell tagged `check`")
        check, text = cells[i + 1].source, cells[i - 2].source[task[0].start() :]
        read = set(names_of(check, ast.Load)) - set(names_of(check))
        predicted, names = (
            [name for name in names_of(cell.source) if name in read] for cell in (cells[i - 1], cells[i])
        )
        why = explanation(cells[i].source)[1]
        result.append(Exercise(int(task[0][1]), int(task[0][2]), text, i - 1, i, i + 1, predicted, names, why))
    return result


def pack(exercise: Exercise, check: str) -> str:
    """The check of an exercise and its model answer as letters and digits, which `check_answer` takes."""
    content = [exercise.number, exercise.predicted, exercise.names, check, exercise.explanation]
    return base64.b64encode(zlib.compress(json.dumps(content).encode(), 9)).decode()


def check_answer(packed: str, names: dict[str, Any]) -> None:
    """Run the check of an exercise. If it passes, print what was predicted first, and the model answer.

    Parameters
    ----------
    packed : str
        What `pack` has made.
    names : dict
        The names of the notebook, `globals()`. Those of the first predictions are kept in it.

    Raises
    ------
    AssertionError
        If a name has no value yet, or a value is not right or of another form. The message says which, without the
        method.
    """
    number, predicted, solved, check, why = json.loads(zlib.decompress(base64.b64decode(packed)))
    needed, file = [*predicted, *solved], f"<check of exercise {number}>"
    missing = [name for name in needed if name not in names or names[name] is ...]
    first = names.setdefault(FIRST, {}).setdefault(number, {})
    now = {name: _short(names[name]) for name in predicted if name not in missing and not callable(names[name])}
    first |= {name: value for name, value in now.items() if name not in first}
    assert not missing, f"exercise {number}: `{missing[0]}` has no value yet, see the cells of this exercise"
    try:
        exec(compile(check, file, "exec"), names)
    except AssertionError:
        raise
    except NameError as error:
        raise AssertionError(f"exercise {number}: `{error.name}` has no value, run all earlier cells first") from error
    except Exception as error:
        wrong = " or ".join(f"`{name}`" for name in _read_at(error, check, file, needed))
        raise AssertionError(f"exercise {number}: {wrong} does not have the form that the task asks for") from error
    for name, value in now.items():
        print(f"You predicted `{name}` = {first[name]}" + f", and now it is {value}" * (first[name] != value) + ".")
    print(f"Exercise {number} is solved. A model answer, to compare with yours:")
    print(textwrap.fill(why, 100))


def _short(value: Any) -> str:
    """A value in at most 60 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read_at(error: Exception, check: str, file: str, needed: list[str]) -> list[str]:
    """Those of the needed names that a check reads in the statement that failed, or all of them."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    for statement in ast.parse(check).body:
        if lines and statement.lineno <= lines[0] <= (statement.end_lineno or 0):
            found = names_of(ast.unparse(statement), ast.Load)
            return [name for name in needed if name in found] or needed
    return needed
