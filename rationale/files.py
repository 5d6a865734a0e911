"""Write files in such a way that a process that is killed never leaves a partly written file."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a draft beside `path` with `write`, then rename it to `path` in one step.

    The draft always has the same name, so that one that a killed process has left is replaced. Draft and folder are
    forced to the disk, so that after a power failure `path` is either the old file or the new one. The file gets the
    mode of any new file of this user (usually 644), even if `write` restricts it, as the writer of safetensors does.

    Parameters
    ----------
    path : Path
        The file; its folder is made if it is missing.
    write : callable
        Writes the file at the path that it is given.

    Raises
    ------
    OSError
        It names the file, and `path` is as it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.unlink(missing_ok=True)
    try:
        draft.touch()
        mode = draft.stat().st_mode
        write(draft)
        draft.chmod(mode)
        _to_disk(draft)
        os.replace(draft, path)
        _to_disk(path.parent)
    except OSError as error:
        if error.errno and not error.filename:  # as when an open file cannot be written
            error.filename = str(path)
        raise
    finally:
        with contextlib.suppress(OSError):  # the error above says more
            draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, completely or not at all."""
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def _to_disk(path: Path) -> None:
    """Wait until the disk has what was written to a file, or the names in a folder."""
    if path.is_dir() and os.name == "nt":
        return  # Windows does not open folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
