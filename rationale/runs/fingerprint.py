"""The fingerprint of a run: a digest of the code that its results depend on.

Which files count is read from the sources, without importing them. A name is followed to the file that defines it:
`from rationale.nn import HardKumaGate` counts `nn/gates.py` and neither its siblings nor the room's `__init__.py`,
which only passes the name on. A corpus is imported by its name, so the run's setting `corpus` decides which one counts.
"""

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rationale.runs.notebook_text import tree_of
from rationale.runs.own_parts import sources_of
from rationale.runs.workspace import root

PACKAGE = "rationale"
CORPORA = f"{PACKAGE}.data.corpora"
# Code that shows results or progress, exports models, reads parameters (their values are compared separately) or
# locates folders does not count.
IN_THE_KERNEL = "cells inputs kernel onnx_reader own_parts parameters plain to_onnx workspace yaml_files".split()
SHOWING = tuple(
    f"{PACKAGE}.{name}" for name in ("figures", "explorers", "progress", *(f"runs.{part}" for part in IN_THE_KERNEL))
)
STRING_OR_COMMENT = re.compile(
    r"""(?s:(\"{3}|'{3})(?:\\.|[^\\])*?\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|#[^\n]*"""
)
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources(notebook: Path, params: Mapping[str, Any] | None = None) -> list[Path]:
    """The notebook and the files of the package that its results depend on, followed through their imports.

    Parameters
    ----------
    notebook
        The text notebook.
    params
        The run's parameters. The files of the parts of one's own that they name count; of the package's corpora, only
        the one that the parameter `corpus` names counts, besides those that the code imports without asking for a name.

    Returns
    -------
    list of paths
        The notebook first, then the files in alphabetical order.
    """
    used: set[Path] = set()
    todo = {notebook, *_corpus(params or {}), *sources_of(params or {})}
    while todo:
        path = todo.pop()
        used.add(path)
        todo |= set(_used(path)) - used
    return [notebook, *sorted(used - {notebook})]


def fingerprint(notebook: Path, params: Mapping[str, Any] | None = None) -> str:
    """Twelve hex digits of the code of `sources(notebook, params)`. Comments and docstrings do not count.

    Runs of one notebook with the same values of `CHOOSING` have the same fingerprint.
    """
    digest = hashlib.sha256()
    for path in sources(notebook, params):
        digest.update(_code(path.read_text(encoding="utf-8")).encode() + b"\0")
    return digest.hexdigest()[:12]


def _corpus(params: Mapping[str, Any]) -> set[Path]:
    """The file of the corpus that the parameters name."""
    name = params.get("corpus")
    known = isinstance(name, str) and name.isidentifier() and _is_file(f"{CORPORA}.{name}")
    return _whole(f"{CORPORA}.{name}") if known else set()


def _used(path: Path) -> Iterator[Path]:
    """The files of the package that define what a file imports."""
    for start, names in _uses(path.read_text(encoding="utf-8"), _dotted(path)):
        yield from _defining(start, names)


@cache
def _uses(text: str, package: str) -> frozenset[tuple[str, tuple[str, ...]]]:
    """The parts of the package that a text in this package uses; none if it cannot be parsed."""
    visitor = _Uses(package)
    with suppress(SyntaxError):  # executing it will say what is wrong
        visitor.visit(_tree(text))
    return frozenset(visitor.uses)


class _Uses(ast.NodeVisitor):
    """Collects the parts of the package that a file uses: (module, chain of names looked up in it).

    Imports for type checkers do not count, because they are not executed.
    """

    def __init__(self, package: str):
        self.package = package  # that holds the file, for relative imports
        self.bound: dict[str, str] = {}  # name in this file -> package that it stands for
        self.uses: set[tuple[str, tuple[str, ...]]] = set()

    def visit_If(self, node: ast.If) -> None:
        for part in node.orelse if ast.unparse(node.test).endswith("TYPE_CHECKING") else ast.iter_child_nodes(node):
            self.visit(part)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.split(".")[0] == PACKAGE:
                self._bind(alias.asname or PACKAGE, alias.name if alias.asname else PACKAGE)
                if _is_file(alias.name):
                    self.uses.add((alias.name, ()))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = _module_of(node, self.package)
        for alias in node.names if module.split(".")[0] == PACKAGE else ():
            if alias.name == "*":
                self.uses.add((module, ()))
            elif _is_package(f"{module}.{alias.name}"):
                self._bind(alias.asname or alias.name, f"{module}.{alias.name}")
            else:
                self.uses.add((module, (alias.name,)))

    def _bind(self, name: str, module: str) -> None:
        if _is_package(module):
            self.bound[name] = module

    def visit_Attribute(self, node: ast.Attribute) -> None:
        names: list[str] = []
        part: ast.expr = node
        while isinstance(part, ast.Attribute):
            names.insert(0, part.attr)
            part = part.value
        if isinstance(part, ast.Name):
            self._look_up(part.id, names)
        else:
            self.visit(part)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._look_up(node.id, [])

    def _look_up(self, name: str, names: list[str]) -> None:
        if name in self.bound:
            self.uses.add((self.bound[name], tuple(names)))

    def visit_Call(self, node: ast.Call) -> None:
        called, first = getattr(node.func, "attr", getattr(node.func, "id", None)), node.args[:1]
        if called == "find_corpus" and first and isinstance(first[0], ast.Constant):
            self.uses.add((CORPORA, (str(first[0].value),)))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and re.fullmatch(rf"{PACKAGE}(\.\w+)+", node.value):
            self.uses.add((PACKAGE, tuple(node.value.split(".")[1:])))  # a module that is imported by its name


def _defining(module: str, names: tuple[str, ...]) -> set[Path]:
    """The files that define what `names`, looked up in a module, lead to; all files of a package without names."""
    if any(f"{module}.".startswith(f"{room}.") for room in SHOWING):
        return set()
    if not names or not _is_package(module):
        return _whole(module)
    inner = f"{module}.{names[0]}"
    if _is_file(inner) or _is_package(inner):
        return _defining(inner, names[1:])
    init = _place(module) / "__init__.py"
    passed_on = _passed_on(init.read_text(encoding="utf-8"), module) if init.is_file() else {}
    if names[0] in passed_on:
        return _defining(*passed_on[names[0]])
    return {init} if init.is_file() else set()


def _whole(module: str) -> set[Path]:
    """The file of a module, or all files of a package."""
    place = _place(module)
    return {place.with_suffix(".py")} if _is_file(module) else set(place.rglob("*.py"))


@cache
def _passed_on(text: str, package: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Names that the `__init__.py` of a package imports from the project, and the modules that they come from."""
    origins = {}
    for node in _tree(text).body:
        if isinstance(node, ast.ImportFrom):
            module = _module_of(node, package)
            if module.split(".")[0] == PACKAGE:
                origins |= {alias.asname or alias.name: (module, (alias.name,)) for alias in node.names}
    return origins


def _module_of(node: ast.ImportFrom, package: str) -> str:
    """The module that `from module import ...` names in a file of this package; dots before it lead upwards."""
    above = package.split(".")[: -node.level + 1 or None] if node.level else []
    return ".".join([*above, *([node.module] if node.module else [])])


def _place(module: str) -> Path:
    return root().joinpath(*module.split("."))


def _is_file(module: str) -> bool:
    return _place(module).with_suffix(".py").is_file()


def _is_package(module: str) -> bool:
    return _place(module).is_dir()


def _dotted(path: Path) -> str:
    """The package that holds a file; "" for a notebook outside the repository."""
    return ".".join(path.parent.relative_to(root()).parts) if path.is_relative_to(root()) else ""


@cache
def _tree(text: str) -> ast.Module:
    return tree_of(text)


def without_comments(text: str) -> str:
    """A source text of Python 3.11 with nothing in place of each comment.

    Python's own `tokenize` finds the same comments, in seven times the time, which each run and each look at a sweep
    would take.
    """
    return STRING_OR_COMMENT.sub(lambda found: "" if found[0].startswith("#") else found[0], text)


@cache
def _code(text: str) -> str:
    """A source text without its blank lines, comments and docstrings."""
    try:
        nodes = list(ast.walk(_tree(text)))
    except SyntaxError:
        return text  # executing it will say what is wrong
    lines, prose, strings = without_comments(text).split("\n"), set(), set()
    for row, line in enumerate(text.split("\n"), 1):
        if line != lines[row - 1]:
            lines[row - 1] = lines[row - 1].rstrip()
            prose |= set() if lines[row - 1] else {row}
    for node in nodes:
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            prose |= _rows(node.body[0])
        elif isinstance(node, ast.Constant | ast.JoinedStr):
            strings |= _rows(node)
    return "\n".join(line for row, line in enumerate(lines, 1) if row not in prose and (line.strip() or row in strings))


def _rows(node: ast.stmt | ast.expr) -> set[int]:
    """Numbers, from 1, of the lines that a node occupies."""
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
