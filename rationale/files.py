"""Write files so that a process that is killed never leaves a partly written one, and lock files and folders."""

import contextlib
import glob
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # this system has no file locks: processes are not protected from each other
    fcntl = None  # type: ignore[assignment]

DRAFT = f"{'[0-9a-f]' * 8}.draft"  # how the name of each draft ends, as a pattern of `glob`
LEFT = 3600.0  # seconds after which a draft that does not change was left by a process that was killed


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a draft beside `path` with `write`, then rename it to `path` in one step.

    Each draft has a name of its own, so that processes may write the same file at the same time: the last one that
    renames its draft wins. Old drafts of this file, which killed processes have left, are removed. Draft and folder are
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
    remove_drafts(path.parent, glob.escape(path.name), older=LEFT)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.draft")
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


def remove_drafts(folder: Path, names: str = "*", older: float = 0.0) -> None:
    """Remove the drafts in a folder that killed processes have left.

    Parameters
    ----------
    folder : Path
        Either no other process uses it, or `older` keeps the drafts of those that do.
    names : str
        A pattern of the names of the files whose drafts are removed.
    older : float, >= 0
        Only drafts that have not changed for so many seconds.
    """
    for draft in folder.glob(f".{names}.{DRAFT}"):
        with contextlib.suppress(OSError):  # another process has removed it
            if time.time() - draft.stat().st_mtime >= older:
                draft.unlink()


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


def lock_file(path: Path, seconds: float, mode: str = "w") -> IO[str]:
    """Open and lock a file, retrying for up to `seconds`.

    Raises
    ------
    BlockingIOError
        If another process still holds the lock.
    """
    file, deadline = open(path, mode), time.monotonic() + seconds  # noqa: SIM115  (open as long as the lock is held)
    while fcntl:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() >= deadline:
                file.close()
                raise
            time.sleep(0.1)
    return file


def lock_folder(folder: Path) -> int | None:
    """Lock a folder for this process, without a file in it.

    Returns
    -------
    int or None
        The descriptor that holds the lock until it is closed; None if this system or this file system has no locks.

    Raises
    ------
    BlockingIOError
        If it is locked already.
    """
    if fcntl is None:
        return None
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(opened)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return opened
