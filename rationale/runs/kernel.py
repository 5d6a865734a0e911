"""What a notebook asks for while it is executed: its validated settings, and the folder of its results."""

import ast
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

from rationale.errors import BadInput, shown
from rationale.files import lock_file
from rationale.progress import RUN_DIR
from rationale.runs.cells import Assignment, assignments, class_of_cell, with_own
from rationale.runs.inputs import record_files_read
from rationale.runs.own_parts import files_of
from rationale.runs.plain import PlainRun, source_of_twin
from rationale.runs.workspace import root
from rationale.settings import Settings

INSERTED = "# Parameters"  # the first line of the cell that papermill inserts after the `parameters` cell
OF_PAPERMILL = ("PAPERMILL_INPUT_PATH", "PAPERMILL_OUTPUT_PATH")  # inserted by `papermill --inject-paths`

_locks: dict[Path, IO[str]] = {}
_twin: list[Path] = []  # the text notebook, if this notebook is a twin of one
_plain: list[PlainRun] = []  # the run, if plain papermill executes this notebook


def validated(namespace: Mapping[str, Any], cls: type[Settings] | None = None) -> Any:
    """The settings of a notebook, checked again where they are used: `p = validated(globals(), ReviewSettings)`.

    The settings are the names that the notebook has annotated (`name: type = value`) and the names that papermill has
    inserted after the `parameters` cell; other names are ignored, so the cell can be run again. A run by hand, in
    JupyterLab, stops at the same mistakes as a run through the runner. If plain papermill executes the notebook, it may
    also insert `results`, the folder of the results (see `results_folder`).

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
        If a name is not a setting, a value is not accepted, values exclude each other, or the device is missing.
    """
    annotated = [name for name in namespace.get("__annotations__", {}) if name in namespace]
    cls = class_of_cell(tuple(annotated), "") if cls is None else cls
    cls = with_own(cls, {name: line for name, line in _written(namespace).items() if name in annotated}, "")
    inserted = {name: namespace[name] for name in _inserted(namespace) if name not in OF_PAPERMILL}
    by_papermill = RUN_DIR not in os.environ and (
        bool(inserted) or (bool(_twin) and "JPY_SESSION_NAME" not in os.environ)  # set in kernels of JupyterLab
    )
    results = inserted.pop("results", "") if by_papermill else ""
    if not isinstance(results, str):
        raise BadInput(f"results: {results} is not accepted, give text (folder of the results)")
    names = [name for name in annotated if name in cls.model_fields] + list(inserted)
    p = cls.checked({name: namespace[name] for name in dict.fromkeys(names)})
    check_device(vars(p))
    _plain[:] = [PlainRun(vars(p) | files_of(vars(p)), inserted, results, *_twin)] if by_papermill else []
    return p


def _written(namespace: Mapping[str, Any]) -> dict[str, Assignment]:
    """The lines of the `parameters` cell, read from the history of the kernel's cells.

    It is the only cell that holds nothing but lines `name: type = literal`.
    """
    lines: dict[str, Assignment] = {}
    for source in namespace.get("In", ()):
        with suppress(BadInput):
            lines |= assignments(source, "")
    return lines


def _inserted(namespace: Mapping[str, Any]) -> Iterable[str]:
    """Names that papermill has assigned, read from the history of the kernel's cells."""
    for source in namespace.get("In", ()):
        if source.startswith(INSERTED):
            for node in ast.parse(source).body:
                if isinstance(node, ast.Assign):
                    yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def check_device(params: Mapping[str, Any]) -> None:
    """Refuse a run on a device that this machine does not have, before anything is read.

    Raises
    ------
    BadInput
        If the parameters name such a device.
    """
    if params.get("device", "auto") not in ("auto", "cpu"):
        from rationale.training.loop import choose_device  # imports torch

        choose_device(params["device"])


def check_texts(params: Mapping[str, Any]) -> None:
    """Refuse a run on texts of one's own that cannot be used, before a kernel is used; see `own.require_texts`.

    Raises
    ------
    BadInput
        As the notebook would raise it.
    """
    if {"corpus", "text"} <= params.keys():
        from rationale.data.read import require_own  # imports torch

        require_own(SimpleNamespace(**params))


def twin_of(notebook: str, digest: str) -> None:
    """Note that this notebook is the twin of a text notebook: `make twins` writes this call into it.

    Raises
    ------
    BadInput
        If the text notebook has changed since.
    """
    _twin[:] = [source_of_twin(notebook, digest)]
    os.environ["RATIONALE_NOTEBOOK"] = str(_twin[0])  # where the parts that this notebook registers come from


def results_folder(name: str) -> Path:
    """The folder in which notebook `name` saves its results; it is created if it does not exist.

    If the runner executes the notebook, this is the folder of the run. If plain papermill does, it is the parameter
    `results`, or `outputs/<name>/<run>` with the name that the runner would give to a run with the inserted values. In
    JupyterLab, it is `outputs/<name>/lab`; a line names it, and a note says if it holds a model already.

    Raises
    ------
    BadInput
        If plain papermill executes the notebook, and the folder holds something else.
    """
    given = os.environ.get(RUN_DIR)
    if _plain and not given:
        return _plain[0].folder(name)
    folder = Path(given) if given else root() / "outputs" / name / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    if given and folder not in _locks:  # held until this process has ended, see WorkFolder
        _locks[folder] = lock_file(folder / "kernel.lock", seconds=30)
        record_files_read(folder)
    if not given:
        print(f"results in {shown(folder)}")
        if (folder / "model.safetensors").exists():
            replaces = "which another training here replaces; rename the folder to keep the model"
            print(f"note: it holds a trained model, {replaces}")
    return folder
