"""Runs by plain papermill, without the runner: each one gets a folder of its own that records what it was.

Papermill tells a kernel neither the names of its files nor that it executes it (unless it is called with
`--inject-paths`). What a kernel can know is which values papermill has inserted, and whether the notebook is a twin
that `make twins` wrote. So the folder is named after the inserted values, by the rule of the runner.
"""

import atexit
import hashlib
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, shown
from rationale.files import lock_folder
from rationale.runs.fingerprint import fingerprint
from rationale.runs.inputs import changed_files, record_files_read
from rationale.runs.record import (
    BY_PAPERMILL,
    difference,
    is_by_papermill,
    recorded_code,
    recorded_params,
    write_record,
)
from rationale.runs.workspace import checkpoints_in, root, run_name
from rationale.runs.yaml_files import as_override

_locked: dict[Path, int] = {}  # folders and their open descriptors, held until this process ends


def digest_of(notebook: Path) -> str:
    """A digest of a notebook's text, by which a twin knows whether it is up to date."""
    return hashlib.sha256(notebook.read_bytes()).hexdigest()[:12]


def source_of_twin(notebook: str, digest: str) -> Path:
    """The text notebook from which this twin was made.

    Parameters
    ----------
    notebook : str
        A path, absolute or below the repository.
    digest : str
        `digest_of` this notebook when the twin was made.

    Raises
    ------
    BadInput
        If the notebook has changed since.
    """
    source = root() / notebook
    if not source.is_file() or digest_of(source) != digest:
        raise BadInput(f"{notebook} has changed since this twin of it was made; `make twins` makes it anew")
    return source


@dataclass(eq=False)
class PlainRun:
    """A run that plain papermill executes.

    Parameters
    ----------
    params : all parameters by name
    inserted : the values that papermill has inserted, by name, in its order
    results : folder of the results, absolute or below the working directory; "": made of the values
    source : the text notebook, if it is known
    """

    params: Mapping[str, Any]
    inserted: Mapping[str, Any]
    results: str = ""
    source: Path | None = None

    def folder(self, name: str) -> Path:
        """The folder of this run of the notebook `name`, which no other process uses; it records the parameters.

        Raises
        ------
        BadInput
            If the folder holds anything but an earlier run with the same parameters by plain papermill.
        """
        run = run_name(as_override(key, value) for key, value in self.inserted.items())
        folder = Path(self.results).expanduser().resolve() if self.results else root() / "outputs" / name / run
        self._refuse(folder)
        folder.mkdir(parents=True, exist_ok=True)
        _lock(folder)
        source = self.source or root() / "notebooks" / f"{name}.py"
        code = fingerprint(source, self.params) if source.is_file() else "unknown"
        if any(folder.rglob("checkpoint*")) and not (folder / "metrics.json").is_file():
            if other := changed_files(folder):
                reason = f"an unfinished run, and {other[0]} has changed since it began"
                raise BadInput(f"{shown(folder)}: {reason}; put the old file back, or delete the folder")
            if recorded_code(folder) != code:
                print(f"note: the code has changed since this run began; to start it again, delete {shown(folder)}")
        else:  # an earlier run, if there is one, has finished: this one begins anew and replaces its files
            for checkpoint in checkpoints_in(folder):
                checkpoint.unlink()
            threads = os.environ.get("OMP_NUM_THREADS", str(os.cpu_count()))
            write_record(folder, name, self.params, code, threads, BY_PAPERMILL)
        print(f"results in {shown(folder)}")
        record_files_read(folder)
        atexit.register(_tidy, folder, time.time())
        return folder

    def _refuse(self, folder: Path) -> None:
        """Refuse a folder that holds something else."""
        other = "give another folder with -p results FOLDER"
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{shown(folder)}: not a folder, {other}")
        if (folder / "run.ipynb").is_file():
            raise BadInput(f"{shown(folder)}: a finished run of `python -m rationale.runs`, {other}")
        there = recorded_params(folder)
        if folder.is_dir() and any(folder.iterdir()) and not (there and is_by_papermill(folder)):
            raise BadInput(f"{shown(folder)}: a folder with other files, {other}")
        if there and (unlike := difference(there, self.params)):
            raise BadInput(f"{shown(folder)}: a run with other parameters ({unlike}), {other}")


def _tidy(folder: Path, began: float) -> None:
    """When the kernel ends: remove the checkpoints of a run that has finished since `began`, as the runner does."""
    metrics = folder / "metrics.json"
    if metrics.is_file() and metrics.stat().st_mtime >= began - 1:  # clocks of file systems may be coarse
        for checkpoint in checkpoints_in(folder):
            checkpoint.unlink()


def _lock(folder: Path) -> None:
    """Refuse a folder in which another process works; without file locks (such as on Windows) nothing is checked."""
    if folder in _locked:
        return
    try:
        opened = lock_folder(folder)
    except BlockingIOError:
        raise BadInput(f"{shown(folder)}: another process executes this run") from None
    if opened is not None:
        _locked[folder] = opened
