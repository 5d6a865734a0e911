"""Where things are: the repository, its notebooks, and the folder of each run."""

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
except ImportError:  # no file locks on this system: runs are not guarded
    fcntl = None


TRIALS = ("smoke", "book", "html")  # names of runs that show a notebook works: no results


def root() -> Path:
    """Folder of the repository: it holds notebooks/, params/ and outputs/, and notebooks run in it."""
    return Path(__file__).resolve().parents[2]


_kernel_locks: dict[Path, IO[str]] = {}


def results_folder(name: str) -> Path:
    """Folder in which notebook `name` saves its results; it exists on return.

    Through the runner, the run's own; by hand (JupyterLab), `outputs/<name>/lab`.
    """
    given = os.environ.get("RATIONALE_RUN_DIR")
    folder = Path(given) if given else root() / "outputs" / name / "lab"
    folder.mkdir(parents=True, exist_ok=True)
    if given and folder not in _kernel_locks:  # held until this process is really gone, see WorkFolder
        _kernel_locks[folder] = lock_file(folder / "kernel.lock", seconds=30)
    return folder


def run_name(items: Iterable[str | Path]) -> str:
    """`[sst/hardkuma_s40.yaml, seed=2]` -> `hardkuma_s40-seed2`; nothing -> `default`.

    Examples
    --------
    >>> run_name(["sst/hardkuma_s40.yaml", "seed=2"])
    'hardkuma_s40-seed2'
    """
    parts = [item.replace("=", "", 1) if is_override(item) else Path(item).stem for item in map(str, items)]
    return "-".join(re.sub(r"[^\w.+-]+", "_", part).strip("_") for part in parts) or "default"


def notebook_path(notebook: str | Path) -> Path:
    """`12_train_sst`, `12_train_sst.py` or any path -> the text notebook's file."""
    folder, given = root() / "notebooks", Path(notebook)
    for path in (given, folder / given.name, folder / f"{given.name}.py"):
        if path.suffix == ".py" and path.is_file():
            return path.resolve()
    known = sorted(path.stem for path in folder.glob("*.py"))
    close = difflib.get_close_matches(given.stem, known, n=3, cutoff=0.4)
    raise BadInput(f"{notebook}: no such notebook, give a .py file or one of {', '.join(close or known)}")


def lock_file(path: Path, seconds: float) -> IO[str]:
    """Open and lock a file, trying for `seconds`; BlockingIOError if another process holds it."""
    file, until = open(path, "w"), time.time() + seconds
    while fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.time() >= until:
                file.close()
                raise
            time.sleep(0.1)
    return file


def read_if_there(path: Path | str) -> str:
    """The text of a file, "" if there is none."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""
