"""The settings of a notebook and their defaults, read from its text without executing it.

The call `p = validated(globals(), ReviewSettings)` in a notebook names the class of its settings. The cell tagged
`parameters` shows the few settings that the notebook is about, with their values in this notebook; every other setting
of the class may also be given, in a file or on the command line. A notebook that names no class has only the settings
of its cell.
"""

import ast
import importlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError, create_model

from rationale.errors import BadInput, shown
from rationale.runs.notebook_text import code_cells, text_of, tree_of
from rationale.runs.own_parts import OF_FILE, execute_parts
from rationale.runs.settings import ReadingSettings, TheorySettings, of_named_runs
from rationale.settings import Settings, accepts, components, did_you_mean, may_be_null, plain_types, setting


def _parsed(source: str) -> list[ast.AST]:
    """All nodes of a cell; [] if it cannot be parsed, because executing the cell then reports the error."""
    try:
        return list(ast.walk(tree_of(source)))
    except SyntaxError:
        return []


def settings_class(notebook: Path) -> type[Settings]:
    """The class of a notebook's settings, read without executing the notebook.

    Raises
    ------
    BadInput
        If there is not exactly one cell tagged `parameters`, if it holds anything but `name: type = literal` lines,
        or if it has a name that is not a field of the class.
    """
    return _read(notebook)[0]


def defaults(notebook: Path) -> dict[str, Any]:
    """Every setting of a notebook and its default; those of its `parameters` cell first, in the order of the cell.

    Raises
    ------
    BadInput
        See `settings_class`; also if a value in the cell is not accepted.
    """
    cls, cell = _read(notebook)
    names = [name for group in components(cls).values() for name in group if name not in cell]
    return cell | {name: cls.usual(name) for name in names}


def parameters_cell(notebook: Path) -> list[str]:
    """The names that a notebook shows in its `parameters` cell, in order."""
    return list(_read(notebook)[1])


def notebook_settings(notebook: Path, **changes: Any) -> Any:
    """The settings of a notebook: its defaults with these changes.

    Raises
    ------
    BadInput
        See `resolve`.
    """
    cls, cell = _read(notebook)
    return cls.checked(cell | changes, f"{shown(notebook)}: ")


def reads_committed(notebook: Path) -> bool:
    """Whether a notebook compares runs, and reads the committed results if none are given."""
    return defaults(notebook).get("runs") == []


def _read(notebook: Path) -> tuple[type[Settings], dict[str, Any]]:
    """The class of a notebook's settings, and the checked values of its `parameters` cell."""
    return _read_text(notebook, text_of(notebook))


@cache  # a sweep reads the same notebook once per run
def _read_text(notebook: Path, text: str) -> tuple[type[Settings], dict[str, Any]]:
    cells = code_cells(notebook, text)
    execute_parts(notebook, [source for tags, source in cells if "parts" in tags])
    tagged = [source for tags, source in cells if "parameters" in tags]
    if len(tagged) != 1:
        raise BadInput(
            f"{shown(notebook)}: {len(tagged)} cells tagged `parameters`, give exactly one, "
            'headed `# %% tags=["parameters"]`'
        )
    where = f"{shown(notebook)}: parameters cell: "
    written = assignments(tagged[0], where)
    nodes = [node for _, source in cells for node in _parsed(source)]
    cls = _named_class(nodes) or class_of_cell(tuple(written), where)
    cls = with_own(cls, written, where)
    cell = {}
    for name, (annotation, value, _) in written.items():
        kind = plain_types(cls, name)[0].__name__
        wanted = [kind, f"{kind} | None"] if may_be_null(cls, name) else [kind, *["list[str]"] * (kind == "list")]
        if annotation not in wanted:
            raise BadInput(f"{where}`{name}: {annotation}`, annotate it as {' or '.join(wanted)}")
        cell[name] = cls.check(name, value, where)
    for name, field in cls.model_fields.items():
        if field.is_required() and name not in cell:
            raise BadInput(f"{where}{name} is missing, give {accepts(cls, name)} ({field.description})")
    return cls, cell


class Assignment(NamedTuple):
    """A line of a `parameters` cell."""

    annotation: str  # as text; "float or None", as twins for papermill have it, is read as float | None
    value: Any
    meaning: str  # its comment


def assignments(source: str, where: str) -> dict[str, Assignment]:
    """The lines of a `parameters` cell, by name.

    Raises
    ------
    BadInput
        If the cell holds anything but lines `name: type = literal`.
    """
    try:
        body = tree_of(source).body
    except SyntaxError as error:
        line = "" if error.lineno is None else f"line {error.lineno}: "  # of a NUL, no version knows it
        raise BadInput(f"{where}{line}{error.msg}") from None
    found: dict[str, Assignment] = {}
    lines = source.encode().splitlines()  # columns of the tree count bytes
    for node in body:
        line = f"{where}`{ast.unparse(node).splitlines()[0]}`"
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise BadInput(f"{line}, give only lines `name: type = value  # meaning`")
        if node.target.id in found:
            raise BadInput(f"{line}: {node.target.id} is given twice")
        try:
            annotation = ast.unparse(node.annotation).strip("'").replace(" or ", " | ")
            comment = lines[(node.end_lineno or 1) - 1][node.end_col_offset :].decode().strip().lstrip("# ")
            found[node.target.id] = Assignment(annotation, ast.literal_eval(node.value), comment)
        except ValueError:
            raise BadInput(f"{line}, give a plain value, not an expression") from None
    return found


OWN_TYPES = {"int": int, "float": float, "bool": bool, "str": str, "list": list[str], "list[str]": list[str]}


def with_own(cls: type[Settings], written: Mapping[str, Assignment], where: str) -> type[Settings]:
    """A class of settings with the parameters of its own that a notebook declares in its `parameters` cell.

    In a notebook that reads runs by their names, the folder of the runs is refused without names.

    Raises
    ------
    BadInput
        If such a parameter resembles a setting, has no comment, or a type that is not accepted.
    """
    own: dict[str, Any] = {}
    if {"runs", "runs_dir"} <= written.keys():
        cls = of_named_runs(cls, written["runs_dir"].value)
    for name, (annotation, _, meaning) in written.items():
        if name in cls.model_fields:
            continue
        line = f"{where}{name}: no setting of {cls.__name__}"
        if similar := did_you_mean(name, cls.model_fields, cutoff=0.75, or_longer=False):
            raise BadInput(f"{line}{similar}")
        if name == "results" or name.endswith(OF_FILE) or not name.isascii():
            raise BadInput(f"{line}, and no name for a parameter of your own, give another one")
        plain = annotation.removesuffix(" | None")
        if plain not in OWN_TYPES:
            raise BadInput(f"{line}; a parameter of your own has one of the types {', '.join(OWN_TYPES)}, or `| None`")
        if not meaning:
            raise BadInput(f"{line}; a parameter of your own needs a comment that says what it means")
        kind: Any = OWN_TYPES[plain]
        own[name] = (kind if plain == annotation else kind | None, setting(meaning=meaning))
    return create_model(cls.__name__, __base__=cls, __doc__=cls.__doc__, **own) if own else cls


def _named_class(nodes: list[ast.AST]) -> type[Settings] | None:
    """The class in `validated(globals(), Class)`, imported from where the notebook imports it."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) == "validated"]
    named = [call.args[1].id for call in calls if len(call.args) == 2 and isinstance(call.args[1], ast.Name)]
    for node in nodes:
        if named and isinstance(node, ast.ImportFrom) and named[0] in {name.name for name in node.names}:
            return getattr(importlib.import_module(node.module or ""), named[0])
    return None


def known() -> tuple[type[Settings], ...]:
    """The classes that define the names of a notebook that names no class; torch is imported with them."""
    from rationale.training import settings as tasks

    return (TheorySettings, ReadingSettings, tasks.SSTSettings, tasks.ProbingSettings)


@cache
def _definition(name: str) -> tuple[Any, Any] | None:
    """Annotation and field of a setting, for a cell that names no class."""
    for cls in known():
        if name in cls.model_fields:
            field = cls.model_fields[name]
            return field.annotation, field
    return None


def has_type_of_setting(name: str, value: Any) -> bool:
    """Whether a value has the type of the setting with this name, whatever its range. True for an unknown name."""
    definition = _definition(name)
    try:
        return definition is None or _type_adapter(name).validate_python(value) == value
    except ValidationError:
        return False


@cache
def _type_adapter(name: str) -> TypeAdapter:
    return TypeAdapter(_definition(name)[0], config=ConfigDict(strict=True, allow_inf_nan=False))  # type: ignore[index]


@cache
def class_of_cell(names: tuple[str, ...], where: str) -> type[Settings]:
    """A class with the settings of a cell and no others; names of its own are left out (see `with_own`)."""
    fields = {name: _definition(name) for name in names if _definition(name)}
    for name in names:
        similar = did_you_mean(
            name, [field for cls in known() for field in cls.model_fields], cutoff=0.75, or_longer=False
        )
        if name not in fields and similar:
            raise BadInput(f"{where}{name}: no component has such a setting{similar}")
    return create_model("NotebookSettings", __base__=Settings, **fields)  # type: ignore[call-overload]
