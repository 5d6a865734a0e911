"""The working folder of a run: it is locked while a process uses it, and renamed once when the run has finished.

A published folder has `SHA256SUMS`, the digests of all files that the run wrote, as `sha256sum --check` reads them. A
file that is not listed there was added by somebody else, and is kept when the run is made again. So is a file that is
listed but differs from its digest, because somebody has edited it: `run.ipynb` is then called `run.edited.ipynb`.
"""

import contextlib
import itertools
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

from rationale.digests import sha256
from rationale.errors import BadInput, shown
from rationale.files import fcntl, lock_file, remove_drafts, write_text

DIGESTS = "SHA256SUMS"
WRITTEN_FIRST = ("params.yaml", "environment.txt")  # every run writes these before anything else
LOCKS = ("runner.lock", "kernel.lock")
NOT_OURS_TO_KEEP = (".done", ".ipynb_checkpoints")  # written by Snakemake and by Jupyter, which will write them again


def is_worked_on(work: Path) -> bool:
    """Whether a process executes the run in this working folder. The lock is held for a moment to find out."""
    try:
        lock_file(work / "runner.lock", seconds=0, mode="r").close()
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


class WorkFolder:
    """The `.partial` folder of a run, which only this process uses within a `with` block.

    There are two locks, of the runner and of the kernel (taken in `results_folder`), because a kernel outlives a killed
    runner by up to a second and must not write into a folder that the next runner already uses.
    """

    def __init__(self, target: Path, wait: bool):
        self.target, self.wait = target, wait
        self.name, self.path = target.name, target.with_name(f"{target.name}.partial")
        self.old = target.with_name(f"{target.name}.replaced.partial")  # the previous run, while it is replaced

    def __enter__(self) -> "WorkFolder":
        for path in (self.target, self.path, self.old):
            _refuse_foreign(path)
        announced = False
        while True:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise _not_writable(self.path, error) from None
            try:
                self._own = lock_file(self.path / "runner.lock", seconds=0.3)  # longer than `is_worked_on` holds it
                if self.is_here():
                    break
            except FileNotFoundError:
                continue  # meanwhile the other process has published or removed it
            except BlockingIOError:
                if not self.wait:
                    raise BadInput(
                        f"{shown(self.path)}: another process executes this run, give --wait to "
                        "wait for it or --name to run under another name"
                    ) from None
                if not announced:
                    print(f"waiting for the process that executes {shown(self.path)}", flush=True)
                announced = True
                time.sleep(0.5)
            except OSError as error:
                raise _not_writable(self.path, error) from None
        self._end_replacement()
        with lock_file(self.path / "kernel.lock", seconds=30):
            for place in (self.path, *filter(Path.is_dir, self.path.rglob("*"))):
                remove_drafts(place)  # of a process that was killed, as this one holds both locks
        self.resumed = (self.path / "params.yaml").is_file()
        return self

    def _end_replacement(self) -> None:
        """Wait until another process has removed the previous run; do it if a process was killed before it could."""
        while self.old.exists() and is_worked_on(self.target):
            time.sleep(0.1)
        if self.old.exists() and self.target.exists():
            self._retire()
        elif self.old.exists():
            os.rename(self.old, self.target)

    def is_here(self) -> bool:
        """Whether the folder is still the one that this process has locked: nobody has removed or moved it."""
        try:
            return not self._own.closed and os.path.samestat(
                os.fstat(self._own.fileno()), os.stat(self.path / "runner.lock")
            )
        except FileNotFoundError:
            return False

    def clear(self) -> None:
        """Start again: remove everything except the locks."""
        for path in self.path.iterdir():
            if path.suffix != ".lock":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        self.resumed = False

    def publish(self) -> None:
        """Rename the folder to its final name; only now is a previous run of this name removed.

        The folder stays locked until this is done, under either name: a process that waits for it would otherwise
        begin to clear it.
        """
        write_digests(self.path)
        if fcntl is None:  # Windows cannot rename a folder with an open file
            self._own.close()
            _unlock(self.path)
        if self.target.exists():
            os.rename(self.target, self.old)
        os.rename(self.path, self.target)
        if self.old.exists():
            self._retire()
        _unlock(self.target)

    def _retire(self) -> None:
        """Remove the previous run, after moving what somebody has added to it or edited in it into the new one."""
        added = added_files(self.old)
        edited = [Path(name) for name in unlike_digests(self.old) if name != DIGESTS and (self.old / name).is_file()]
        for names, why in ((added, "which had not written it"), (edited, "where it was edited")):
            kept = []
            for name in names:
                place = name if names is added and not (self.target / name).exists() else edited_name(self.target, name)
                (self.target / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(self.old / name, self.target / place)
                kept.append(str(place))
            if kept:
                print(f"kept from the previous run, {why}: {', '.join(kept)}")
        _remove(self.old)

    def __exit__(self, kind: type | None, *_: Any) -> None:
        is_worthless = not self.resumed and kind in (None, BadInput) and not list(self.path.rglob("*checkpoint*"))
        # This call created the folder, and it had nothing to do or stopped at bad input. After `publish`, what has this
        # name is the folder of the next process.
        if is_worthless and self.is_here():
            _remove(self.path)
        self._own.close()


def edited_name(folder: Path, name: Path) -> Path:
    """A name for an edited file that nothing below `folder` has: `run.edited.ipynb`, `run.edited-2.ipynb`."""
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (name.with_name(f"{name.stem}.edited{number}{name.suffix}") for number in numbers)
    return next(place for place in names if not (folder / place).exists())


def _remove(folder: Path) -> None:
    """Remove the folder of a run, a lock in it last: if this process is killed, the rest is still known as ours."""
    mark = folder / "removed.lock"
    with contextlib.suppress(OSError):
        mark.touch()
        for path in folder.iterdir():
            if path != mark:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()
        mark.unlink()
        folder.rmdir()


def _not_writable(path: Path, error: OSError) -> BadInput:
    """The error for a path where the folder of a run cannot be made."""
    return BadInput(f"{shown(path)}: cannot be written ({error.strerror}), give --outputs a folder that can be")


def _refuse_foreign(path: Path) -> None:
    """Refuse to use a path where there is something that no run has made."""
    try:
        path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise _not_writable(path, error) from None
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        found = "a link" if path.is_symlink() else "a file"
        raise BadInput(f"{shown(path)}: {found}, not the folder of a run; move it, or give --name another name")
    try:
        there = sorted({entry.name for entry in path.iterdir()} - set(NOT_OURS_TO_KEEP)) if path.is_dir() else []
    except OSError as error:
        raise BadInput(f"{shown(path)}: cannot be read ({error.strerror}), give --name another name") from None
    is_ours = set(WRITTEN_FIRST) <= set(there) or any(name.endswith(".lock") for name in there)
    if there and not is_ours:
        reason = f"no run has made this folder, which holds {there[0]}"
        raise BadInput(f"{shown(path)}: {reason}; move it, or give --name another name")


def _unlock(folder: Path) -> None:
    """Remove the locks of a run that has finished."""
    for name in LOCKS:
        (folder / name).unlink(missing_ok=True)


def write_digests(folder: Path, *other: str) -> None:
    """Write the SHA-256 digests of all files below `folder`, but for its locks and `other` names, to `SHA256SUMS`."""
    left_out = (DIGESTS, *LOCKS, *other)
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in left_out]
    _list_digests(folder, {path.relative_to(folder).as_posix(): sha256(path) for path in files})


def damaged_files(folder: Path) -> list[str]:
    """The names of the files of a complete run that are not as `SHA256SUMS` lists them; `run.ipynb`, if it is no JSON.

    Without `SHA256SUMS`, which is written just before a run is published, the other files are not checked.
    """
    try:
        json.loads((folder / "run.ipynb").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return ["run.ipynb"]
    return unlike_digests(folder)


def unlike_digests(folder: Path) -> list[str]:
    """The names of the files that are not as `SHA256SUMS` lists them; `SHA256SUMS` itself if it cannot be read."""
    try:
        listed = read_digests(folder)
    except (OSError, ValueError):
        return [DIGESTS]
    return [name for name, digest in listed.items() if not (folder / name).is_file() or sha256(folder / name) != digest]


def read_digests(folder: Path) -> dict[str, str]:
    """The digests in `SHA256SUMS`, by the path of the file below `folder`; {} if an older version made the run.

    Raises
    ------
    OSError, ValueError
        The file cannot be read, is not in UTF-8, or ends within a line, so that it is cut short.
    """
    path = folder / DIGESTS
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no end")
    return {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}


def add_file(folder: Path, name: str, text: str) -> None:
    """Write a text file into the folder of a run that has finished, and list its digest if the run listed its files.

    Wherever this process is killed, `SHA256SUMS` lists no digest that the file does not have.
    """
    path, listed = folder / name, read_digests(folder)
    if path.is_file() and path.read_bytes() == text.encode() and (not listed or listed.get(name) == sha256(path)):
        return
    if listed.pop(name, None):
        _list_digests(folder, listed)
    write_text(path, text)
    if listed:
        _list_digests(folder, listed | {name: sha256(path)})


def _list_digests(folder: Path, listed: dict[str, str]) -> None:
    write_text(folder / DIGESTS, "".join(f"{listed[file]}  {file}\n" for file in sorted(listed)))


def added_files(folder: Path) -> list[Path]:
    """Paths, relative to the folder of a finished run, of the files and links that somebody else has added to it.

    Of a run without `SHA256SUMS` this is not known: the list is empty. If the list is damaged, each file may be one.
    """
    try:
        written = read_digests(folder)
        if not written:
            return []
    except (OSError, ValueError):
        written = {}
    there = sorted(folder.rglob("*"))
    files = [path.relative_to(folder) for path in there if path.is_file() or path.is_symlink()]
    return [
        path
        for path in files
        if path.as_posix() not in {*written, DIGESTS, *LOCKS} and not set(NOT_OURS_TO_KEEP) & set(path.parts)
    ]
