"""Parts of one's own in notebooks and modules: found before a kernel starts, recorded with a run, and loaded again.

A notebook defines them in cells tagged `parts`, each of which stands alone: imports, classes, calls of `register`.
Only these cells are executed to learn the names, never the rest of the notebook. A file without cells is a module, and
is imported as a whole.
"""

import hashlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rationale.errors import BadInput, shown
from rationale.parts import CHOOSING, find_file, tables_with
from rationale.runs.notebook_text import parts_cells
from rationale.runs.workspace import root

OF_FILE = "_file"  # params.yaml records the file of the part that `model` names as `model_file`


def execute_parts(file: Path, cells: Iterable[str], is_module: bool = False) -> None:
    """Execute the cells of a notebook that are tagged `parts`, or the text of a module, as a module of its own.

    Raises
    ------
    BadInput
        If a cell fails.
    """
    module = ModuleType(f"parts_of_{file.stem}_{hashlib.sha256(os.fsencode(file)).hexdigest()[:8]}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # classes look their module up by its name
    sys.path.insert(0, str(file.parent))
    try:
        for source in cells:
            exec(compile(source, f"{shown(file)} (parts)", "exec"), vars(module))
    except BadInput as error:
        raise BadInput(f"{shown(file)}: {error}") from None
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename.endswith("(parts)")]
        line = f"line {lines[-1]}" if lines else ""
        cause = f"{type(error).__name__}: {error}".splitlines()[0]
        if is_module:
            raise BadInput(f"{shown(file)}: {line or 'its code'}: {cause}") from None
        cell = "the cell tagged `parts`"
        where = f"{line} of {cell}" if line else cell
        raise BadInput(f"{shown(file)}: {where}: {cause}; the cell has to stand alone, with its own imports") from None
    finally:
        sys.path.remove(str(file.parent))


def load_parts(file: Path) -> None:
    """Register the parts that a notebook or a module defines; a notebook is not executed beyond its parts.

    Raises
    ------
    BadInput
        If the file cannot be read, or a cell fails.
    """
    is_module, cells = _cells_of(file)
    execute_parts(file, cells, is_module)


def _cells_of(file: Path) -> tuple[bool, list[str]]:
    """Whether a file is a module, and the texts that define its parts: of a notebook, the cells tagged `parts`."""
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: byte {error.start} is no UTF-8; accepted: a notebook or a module in UTF-8") from None
    is_notebook = file.suffix == ".ipynb" or re.search(r"^# %%", text, re.M) is not None
    return (False, parts_cells(file)) if is_notebook else (True, [text])


def digests_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Twelve hex digits of the texts that define each part of one's own: {"notebooks/mine.py": "3fa91c05b7de"}.

    Of a file that is gone there is no digest.
    """
    names = sorted({str(file) for key, file in params.items() if key.endswith(OF_FILE) and file})
    texts = {name: "\0".join(_cells_of(root() / name)[1]) for name in names if (root() / name).is_file()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:12] for name, text in texts.items()}


def files_of(params: Mapping[str, Any]) -> dict[str, str]:
    """The files of the parts of one's own that parameters name: {"model_file": "notebooks/mine.py"}.

    A path below the repository is relative to it.
    """
    found = {}
    for name in CHOOSING:
        file = find_file(name, params[name]) if isinstance(params.get(name), str) else None
        if file:
            found[f"{name}{OF_FILE}"] = str(file.relative_to(root()) if file.is_relative_to(root()) else file)
    return found


def load_recorded(params: Mapping[str, Any], where: str) -> None:
    """Register the parts that the parameters of a saved run name, from the files that it records.

    Raises
    ------
    BadInput
        If a file is missing, or no longer registers the name, or another file has registered it meanwhile.
    """
    for name in CHOOSING:
        recorded, part = params.get(f"{name}{OF_FILE}"), params.get(name)
        if not recorded:
            continue
        file, told = (root() / recorded).resolve(), f"{where}: {name} {part} was registered by {recorded}, "
        known = [table.files.get(part) for table in tables_with(name, part)]
        if known and known[0] not in (None, file):
            raise BadInput(f"{told}but {known[0]} has registered another part of this name in this process")
        if not known and not file.is_file():
            raise BadInput(f"{told}which does not exist")
        if not known:
            load_parts(file)
        if not tables_with(name, part):
            raise BadInput(f"{told}which no longer registers this name")


def sources_of(params: Mapping[str, Any]) -> set[Path]:
    """The files that define or register the parts of one's own that parameters name."""
    used: set[Path] = set()
    for name, part in ((name, params.get(name)) for name in CHOOSING):
        for table in tables_with(name, part) if isinstance(part, str) else []:
            if part in table.files:
                defined = inspect.getmodule(table[part])
                files = [table.files[part], getattr(defined, "__file__", None)]
                used |= {Path(file).resolve() for file in files if file}
    return {file for file in used if file.is_file()}
