"""The parameters of a run: a notebook's settings, changed by parameter files and overrides, one clear line per mistake.

The call `p = validated(globals(), ReviewSettings)` in a notebook names the class of its settings. The cell tagged
`parameters` shows the few settings that the notebook is about, with their values in this notebook; every other setting
of the class may also be given, in a file or on the command line. A notebook that names no class has only the settings
of its cell. The runner reads the cells without executing them.
"""

import ast
import importlib
import math
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml
from pydantic import create_model

from rationale.errors import BadInput, optional
from rationale.runs.settings import ReadingSettings, TheorySettings
from rationale.settings import Settings, accepts, components, did_you_mean, may_be_null, plain_types

INJECTED = "# Parameters"  # the first line of the cell that papermill inserts after the `parameters` cell


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


def _code_cells(notebook: Path, text: str) -> list[tuple[list[str], str]]:
    """Tags and source of each code cell."""
    cells = import_jupytext().reads(text, fmt=notebook.suffix.removeprefix(".")).cells
    return [(cell.metadata.get("tags", []), cell.source) for cell in cells if cell.cell_type == "code"]


def _parsed(source: str) -> list[ast.AST]:
    """All nodes of a cell; [] if it cannot be parsed, because executing the cell then reports the error."""
    try:
        return list(ast.walk(ast.parse(source)))
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
    return cell | {name: cls.model_fields[name].get_default(call_default_factory=True) for name in names}


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
    cls = settings_class(notebook)
    return cls.checked(defaults(notebook) | changes, f"{shown(notebook)}: ")


def _read(notebook: Path) -> tuple[type[Settings], dict[str, Any]]:
    """The class of a notebook's settings, and the checked values of its `parameters` cell."""
    return _read_text(notebook, notebook.read_text(encoding="utf-8"))


@cache  # a sweep reads the same notebook once per run
def _read_text(notebook: Path, text: str) -> tuple[type[Settings], dict[str, Any]]:
    cells = _code_cells(notebook, text)
    tagged = [source for tags, source in cells if "parameters" in tags]
    if len(tagged) != 1:
        raise BadInput(
            f"{shown(notebook)}: {len(tagged)} cells tagged `parameters`, give exactly one, "
            'headed `# %% tags=["parameters"]`'
        )
    where = f"{shown(notebook)}: parameters cell: "
    written = _assignments(tagged[0], where)
    nodes = [node for _, source in cells for node in _parsed(source)]
    cls = _named_class(nodes) or _class_of_cell(tuple(written), where)
    cell = {}
    for name, (annotation, value) in written.items():
        if name not in cls.model_fields:
            raise BadInput(f"{where}{name}: no setting of {cls.__name__}{did_you_mean(name, cls.model_fields)}")
        kind = plain_types(cls, name)[0].__name__
        wanted = [kind, f"{kind} | None"] if may_be_null(cls, name) else [kind, *["list[str]"] * (kind == "list")]
        if annotation not in wanted:
            raise BadInput(f"{where}`{name}: {annotation}`, annotate it as {' or '.join(wanted)}")
        cell[name] = cls.check(name, value, where)
    for name, field in cls.model_fields.items():
        if field.is_required() and name not in cell:
            raise BadInput(f"{where}{name} is missing, give {accepts(cls, name)} ({field.description})")
    return cls, cell


def _assignments(source: str, where: str) -> dict[str, tuple[str, Any]]:
    """Annotation and value of each line of a `parameters` cell, by name."""
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise BadInput(f"{where}line {error.lineno}: {error.msg}") from None
    found: dict[str, tuple[str, Any]] = {}
    for node in body:
        line = f"{where}`{ast.unparse(node).splitlines()[0]}`"
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value):
            raise BadInput(f"{line}, give only lines `name: type = value  # meaning`")
        if node.target.id in found:
            raise BadInput(f"{line}: {node.target.id} is given twice")
        try:
            found[node.target.id] = ast.unparse(node.annotation), ast.literal_eval(node.value)
        except ValueError:
            raise BadInput(f"{line}, give a plain value, not an expression") from None
    return found


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

    return (TheorySettings, ReadingSettings, tasks.ExtractionSettings, tasks.ProbingSettings)


@cache
def _definition(name: str) -> tuple[Any, Any] | None:
    """Annotation and field of a setting, for a cell that names no class."""
    for cls in known():
        if name in cls.model_fields:
            field = cls.model_fields[name]
            return field.annotation, field
    return None


@cache
def _class_of_cell(names: tuple[str, ...], where: str) -> type[Settings]:
    """A class with the settings of a cell and no others."""
    fields = {name: _definition(name) for name in names}
    for name, definition in fields.items():
        if definition is None:
            raise BadInput(f"{where}{name}: no component has such a setting (rationale/*/: classes named ...Settings)")
    return create_model("NotebookSettings", __base__=Settings, **fields)  # type: ignore[call-overload]


def resolve(notebook: Path, items: Iterable[str | Path] = ()) -> dict[str, Any]:
    """All parameters of a run: the notebook's defaults, changed by `items` from left to right.

    Parameters
    ----------
    notebook
        A text notebook with a `parameters` cell.
    items
        YAML files (`params/sst/hardkuma.yaml`) and overrides (`seed=2`).

    Returns
    -------
    Every setting by name, those of the notebook's cell first; every value is checked.

    Raises
    ------
    BadInput
        For the first mistake: the message gives file and line, key, value, and what is accepted.
    """
    cls, values = settings_class(notebook), defaults(notebook)
    overridden: set[str] = set()
    for item in map(str, items):
        pairs = [read_override(item)] if is_override(item) else read_file(item)
        for where, name, value in pairs:
            if name not in values:
                hint = did_you_mean(name, values) or f", {notebook.stem} has {', '.join(values) or 'none'}"
                raise BadInput(f"{where}{name}: unknown parameter{hint}")
            if is_override(item) and name in overridden:
                raise BadInput(f"{where}{name}: given twice on the command line")
            overridden |= {name} if is_override(item) else set()
            try:
                values[name] = cls.check(name, value, where)
            except BadInput as error:
                number = _as_yaml_number(value) if isinstance(value, str) and float in plain_types(cls, name) else ""
                hint = f"; YAML reads this as text, write {number}" if number else ""
                raise BadInput(f"{error}{hint}") from None
    checked = cls.checked(values, f"{shown(notebook)}: ")
    return {name: getattr(checked, name) for name in values}


def is_override(item: str) -> bool:
    """True for `seed=2`, False for a file name."""
    return re.match(r"[A-Za-z_]\w*=", item) is not None


def read_override(item: str) -> tuple[str, str, Any]:
    """`seed=2` -> ("command line: ", "seed", 2); the value is read as in a parameter file."""
    name, text = item.split("=", 1)
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise BadInput(f"command line: {name}: `{text}` cannot be read as a YAML value") from None
    return "command line: ", name, _not_empty("command line: ", name, text, value)


def as_override(name: str, value: Any) -> str:
    """The override that `read_override` reads as this name and value.

    Examples
    --------
    >>> as_override("selection", None), as_override("learning_rate", 1e-5), as_override("methods", ["states", "inputs"])
    ('selection=null', 'learning_rate=1.0e-05', 'methods=[states, inputs]')
    """
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf)
    return f"{name}=" + text.removesuffix("...\n").rstrip("\n")  # YAML ends a single text with dots


def _not_empty(where: str, name: str, text: str, value: Any) -> Any:
    """Refuse an empty value, which YAML reads as null; null has to be written out."""
    if value is None and not text.strip():
        raise BadInput(f"{where}{name}: an empty value is not accepted, give a value")
    return value


def read_file(file: str | Path) -> list[tuple[str, str, Any]]:
    """(`file:line: `, key, value) of each entry of a YAML mapping, in order. A key that is given twice is refused."""
    path = Path(shown(file))
    try:
        text = path.read_text(encoding="utf-8")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except FileNotFoundError:
        siblings = [str(p) for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        raise BadInput(f"{path}: no such file{did_you_mean(str(path), siblings)}") from None
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "not UTF-8")
        raise BadInput(f"{path}: cannot be read ({problem}), give a file with lines `key: value`") from None
    except yaml.YAMLError as error:
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", "unreadable")
        line = f"{path}:{mark.line + 1}" if mark else f"{path}"
        raise BadInput(f"{line}: not valid YAML ({problem}), give lines `key: value`") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(f"{path}:{root.start_mark.line + 1}: not a mapping, give lines `key: value`")
    lines = _lines_of_keys(path, root)
    for node, content in root.value:
        text = content.value if isinstance(content, yaml.ScalarNode) else "a list"
        _not_empty(f"{path}:{lines[node.value]}: ", node.value, text, values[node.value])
    return [
        (f"{path}:{line}: ", name, value) for (name, line), value in zip(lines.items(), values.values(), strict=True)
    ]


def _lines_of_keys(path: Path, root: yaml.MappingNode) -> dict[str, int]:
    """The line of each key of a mapping. A key that is given twice, in it or in a mapping inside it, is refused."""
    lines: dict[str, int] = {}
    inside: list[yaml.Node] = []
    for node, content in root.value:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":merge"):
            raise BadInput(f"{path}:{line}: not a plain key, give lines `key: value`")
        if node.value in lines:
            raise BadInput(f"{path}:{line}: {node.value} is given twice, first on line {lines[node.value]}")
        lines[node.value] = line
        inside += content.value if isinstance(content, yaml.SequenceNode) else [content]
    for content in inside:
        if isinstance(content, yaml.MappingNode):
            _lines_of_keys(path, content)
    return lines


def validated(namespace: Mapping[str, Any], cls: type[Settings] | None = None) -> Any:
    """The settings of a notebook, checked again where they are used: `p = validated(globals(), ReviewSettings)`.

    The settings are the names that the notebook has annotated (`name: type = value`) and the names that papermill has
    inserted after the `parameters` cell; other names are ignored, so the cell can be run again. A run by hand, in
    JupyterLab, stops at the same mistakes as a run through the runner.

    Parameters
    ----------
    namespace : dict
        `globals()` of the notebook.
    cls : a Settings class, or None
        None: only the names that the notebook has annotated are settings.

    Returns
    -------
    An instance of `cls`, or of a class made of the notebook's names

    Raises
    ------
    BadInput
        If a name is not a setting, a value is not accepted, or values exclude each other.
    """
    annotated = [name for name in namespace.get("__annotations__", {}) if name in namespace]
    cls = _class_of_cell(tuple(annotated), "") if cls is None else cls
    names = [name for name in annotated if name in cls.model_fields] + list(_injected(namespace))
    return cls.checked({name: namespace[name] for name in dict.fromkeys(names)})


def _injected(namespace: Mapping[str, Any]) -> Iterable[str]:
    """Names that papermill has assigned, read from the history of the kernel's cells."""
    for source in namespace.get("In", ()):
        if source.startswith(INJECTED):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Assign):
                    yield from (target.id for target in node.targets if isinstance(target, ast.Name))


RESPELT = {"selection": 1.0, "transitions": 0.0, "multiplier_max": 0.0}  # how null was written in older versions


def modernised(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a saved run in today's form, in which "no constraint" is null."""
    return {name: None if name in RESPELT and value == RESPELT[name] else value for name, value in parameters.items()}


def shown(path: str | Path) -> str:
    """A path relative to the working directory, if it is below it; for messages."""
    path = Path(path)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _as_yaml_number(text: str) -> str:
    """`1e-5` -> `1.0e-5`, the spelling that YAML reads as a number; "" if it is not a number."""
    match = re.fullmatch(r"([+-]?\d+)(\.\d*)?[eE]([+-]?)(\d+)", text)
    return f"{match[1]}{match[2] or '.0'}e{match[3] or '+'}{match[4]}" if match else ""
