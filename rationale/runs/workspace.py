"""Locations: the repository, its notebooks, and the folder of each run."""

import difflib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from rationale.errors import BadInput
from rationale.runs.parameters import is_override

try:
    import fcntl
except ImportError:  # this system has no file locks: runs are not protected from each other
    fcntl = None


TRIALS = ("smoke", "book", "html")  # names of runs that only show that a notebook works; they are not results


def root() -> Path:
    """Folder of the repository, which holds notebooks/, params/ and outputs/; notebooks run in it."""
    return Path(__file__).resolve().parents[2]


_kernel_locks: dict[Path, IO[str]] = {}


def results_folder(name: str) -> Path:
    """The folder in which notebook `name` saves its results; it is created if it does not exist.

    If the runner executes the notebook, this is the folder of the run; in JupyterLab, it is `outputs/<name>/lab`.
    """
    given = os.environ.get("RATIONALE_RUN_DIR")
    folder = Path(given) if given else root() / "outputs" / name / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    if given and folder not in _kernel_locks:  # held until this process has ended, see WorkFolder
        _kernel_locks[folder] = lock_file(folder / "kernel.lock", seconds=30)
    return folder


def run_name(items: Iterable[str | Path]) -> str:
    """The name of a run with these files and overrides; `default` if there are none.

    Examples
    --------
    >>> run_name(["sst/hardkuma.yaml", "selection=0.2", "seed=2"])
    'hardkuma-selection0.2-seed2'
    """
    parts = [item.replace("=", "", 1) if is_override(item) else Path(item).stem for item in map(str, items)]
    return "-".join(re.sub(r"[^\w.+-]+", "_", part).strip("_") for part in parts) or "default"


def notebook_path(notebook: str | Path) -> Path:
    """The file of a text notebook that is given as `12_train_sst`, `12_train_sst.py` or a path.

    Raises
    ------
    BadInput
        If there is no such notebook; the message names similar ones.
    """
    folder, given = root() / "notebooks", Path(notebook)
    for path in (given, folder / given.name, folder / f"{given.name}.py"):
        if path.suffix == ".py" and path.is_file():
            return path.resolve()
    known = sorted(path.stem for path in folder.glob("*.py"))
    close = difflib.get_close_matches(given.stem, known, n=3, cutoff=0.4)
    raise BadInput(f"{notebook}: no such notebook, give a .py file or one of {', '.join(close or known)}")


def lock_file(path: Path, seconds: float) -> IO[str]:
    """Open and lock a file, retrying for up to `seconds`.

    Raises
    ------
    BlockingIOError
        If another process still holds the lock.
    """
    file, deadline = open(path, "w"), time.time() + seconds  # noqa: SIM115  (open as long as the lock is held)
    while fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.time() >= deadline:
                file.close()
                raise
            time.sleep(0.1)
    return file


def read_if_there(path: Path | str) -> str:
    """The text of a file, or "" if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
