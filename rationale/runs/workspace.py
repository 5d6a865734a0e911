"""Locations: the repository, its notebooks, and the folder of each run."""

import difflib
import hashlib
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from pathlib import Path

from rationale.errors import BadInput
from rationale.runs.yaml_files import is_override

TRIALS = ("smoke", "book", "html")  # names of runs that only show that a notebook works; they are not results


def root() -> Path:
    """Folder of the repository, which holds notebooks/, params/ and outputs/; notebooks run in it."""
    return Path(__file__).resolve().parents[2]


NAME_LENGTH = 80  # bytes of the name that is made of a run's arguments, at most
LONGEST_NAME = 200  # bytes; file systems allow 255, and the names of working folders are longer


def run_name(items: Iterable[str | Path]) -> str:
    """The name of a run with these files and overrides; `default` if there are none.

    A file is represented by its stem, and so is a path among the values. A name of more than `NAME_LENGTH` bytes is
    cut, and a digest of the arguments makes it differ from the names of other arguments. The seed is kept.

    Examples
    --------
    >>> run_name(["sst/hardkuma.yaml", "selection=0.2", "seed=2"])
    'hardkuma-selection0.2-seed2'
    >>> run_name(["vectors=/data/vectors/glove.6B.50d.txt"])
    'vectorsglove.6B.50d'
    """
    parts, exact = [], []
    for item in map(str, items):
        name, _, value = item.partition("=") if is_override(item) else ("", "", item)
        words = [_stem(word) for word in re.split(r"[][,]", value)] if name else [Path(value).stem]
        parts.append(re.sub(r"[^\w.+-]+", "_", f"{name}{' '.join(words)}").strip("_"))
        exact.append(item if name else parts[-1])
    whole = "-".join(parts) or "default"
    if len(whole.encode()) <= NAME_LENGTH:
        return whole
    digest = hashlib.sha256("\0".join(exact).encode()).hexdigest()[:8]
    seed = next((f"-{part}" for part in parts if re.fullmatch(r"seed\d{1,10}", part)), "")
    if f"{seed}-" in f"-{_cut(whole, NAME_LENGTH - 9)}":
        seed = ""  # it is not in the part that is cut off
    return _cut(whole, NAME_LENGTH - 9 - len(seed)).rstrip("-._+") + f"{seed}-{digest}"


def why_no_name(name: str) -> str:
    """Why a run cannot have this name, which is that of its folder, and what is accepted; "" if it can."""
    if not re.fullmatch(r"[\w.+-]+", name) or not name.strip(".") or len(name.encode()) > LONGEST_NAME:
        return f"not a folder name, give letters, digits, `_`, `-`, `+` and `.`, at most {LONGEST_NAME} bytes"
    if name == "lab" or name.endswith((".partial", ".replaced")):
        reason = "the folder of work in JupyterLab" if name == "lab" else "the ending of folders of unfinished runs"
        return f"reserved ({reason}), give another name"
    return ""


def _cut(text: str, length: int) -> str:
    """The beginning of a text that has at most this length in bytes."""
    return text.encode()[:length].decode(errors="ignore")


def _stem(text: str) -> str:
    """A path without its folders and its endings; a dot before a digit, as in `glove.6B.50d`, begins no ending."""
    return re.sub(r"(\.[A-Za-z]+)+$", "", Path(text).name) if "/" in text else text


def notebook_path(notebook: str | Path) -> Path:
    """The file of a text notebook that is given as `12_train_sst`, `12_train_sst.py` or a path.

    Raises
    ------
    BadInput
        If there is no such notebook; the message names similar ones, or says where notebooks are.
    """
    folder, given = root() / "notebooks", Path(notebook)
    for path in (given, folder / given.name, folder / f"{given.name}.py"):
        if path.suffix == ".py" and is_file(path):
            return path.resolve()
    known = sorted(path.stem for path in folder.glob("*.py"))
    if not known:  # the package was installed without the rest of the repository
        raise BadInput(f"{notebook}: no such notebook; the notebooks are in a clone of the repository, call this there")
    close = difflib.get_close_matches(given.stem, known, n=3, cutoff=0.4)
    raise BadInput(f"{notebook}: no such notebook, give a .py file or one of {', '.join(close or known)}")


def named_folder(text: str) -> Path:
    """The folder that an argument of a command names; an empty one is more likely a variable that is not set."""
    return _named(text, "a folder")


def named_file(text: str) -> Path:
    """The file that an argument of a command names; see `named_folder`."""
    return _named(text, "a file")


def _named(text: str, what: str) -> Path:
    if not text.strip():
        raise ArgumentTypeError(f"an empty value is not accepted, give {what}")
    return Path(os.path.expanduser(text))


def is_file(path: Path) -> bool:
    """Whether this is a file; False also for what cannot be a path, such as a name that is too long."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def is_finished(folder: Path) -> bool:
    """Whether a folder holds a finished run: of the runner, or of plain papermill (see `plain`)."""
    by_papermill = (folder / "params.yaml").is_file() and (folder / "metrics.json").is_file()
    return (folder / "run.ipynb").is_file() or (by_papermill and folder.suffix != ".partial")


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints below the folder of a run: files of this name with any ending, as in `checkpoint.safetensors`."""
    return [path for path in folder.rglob("checkpoint*") if path.name.split(".")[0] == "checkpoint" and path.is_file()]


def changed_at(path: Path) -> float:
    """When a file was changed, in seconds since 1970; 0 if there is none."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def read_if_there(path: Path | str) -> str:
    """The text of a file, or "" if it cannot be read. Bytes that are not UTF-8 become U+FFFD."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
