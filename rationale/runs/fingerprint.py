"""The fingerprint of a run: a digest of the code that its results depend on."""

import ast
import hashlib
import io
import tokenize
from pathlib import Path

from rationale.runs.workspace import root

NOT_MODELLING = {"figures", "explorers", "runs", "errors"}  # rooms, and a module beside them
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def sources(notebook: Path) -> list[Path]:
    """The notebook and the package's modules its results depend on, followed through their imports.

    Figures, explorers, runs and errors are left out: they change how a result is shown, not the result.
    """
    found, todo = {notebook}, [notebook]
    while todo:
        for module in _imported(todo.pop()):
            parts = module.split(".")
            if NOT_MODELLING.intersection(parts[1:2]):
                continue
            path = root().joinpath(*parts)
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.is_file() and file not in found:
                    found.add(file)
                    todo.append(file)
    return [notebook, *sorted(found - {notebook})]


def _imported(path: Path) -> set[str]:
    """Dotted names below `rationale` that a file may import, with the packages they are in."""
    try:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    except SyntaxError:
        return set()  # executing it will say what is wrong
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            above = path.parents[node.level - 1].relative_to(root()).parts if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            names |= {module} | {f"{module}.{alias.name}" for alias in node.names}
    parts = [name.split(".") for name in names if name.split(".")[0] == "rationale"]
    return {".".join(part[:n]) for part in parts for n in range(1, len(part) + 1)}


def fingerprint(notebook: Path) -> str:
    """Twelve hex digits of the code of `sources(notebook)`: prose may change, and a finished run stands."""
    digest = hashlib.sha256()
    for path in sources(notebook):
        digest.update(_code(path.read_text(encoding="utf-8")).encode() + b"\0")
    return digest.hexdigest()[:12]


def _code(text: str) -> str:
    """The lines of a source that are neither blank nor comments nor docstrings."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, DOCUMENTED)]
    except (SyntaxError, tokenize.TokenError):
        return text  # executing it will say what is wrong
    prose = {token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.line.lstrip()[0] == "#"}
    for said in (node.body[0] for node in documented if ast.get_docstring(node) is not None):
        prose |= set(range(said.lineno, said.end_lineno + 1))
    return "\n".join(line for at, line in enumerate(text.split("\n"), 1) if line.strip() and at not in prose)
