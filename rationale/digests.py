"""The data folder, and the digests of the files that a process has read: a run records what it was made from."""

import errno
import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_digests: dict[str, str] = {}  # of the files that this process has read
_stamps: dict[Path, tuple[tuple[Path, int, int, int], ...]] = {}  # sizes, times and inodes of files with a digest
_lists: list[dict[str, str]] = []  # each is filled while its block runs (`reading`)
_revisions: dict[str, str] = {}  # of what this process has read from the hub
on_reading: list[Callable[[str, str], object]] = []  # called with the place and the digest of each file that is read
on_revision: list[Callable[[str, str], object]] = []  # called with each name on the hub and the revision that is read


def data_folder() -> Path:
    """The data folder: `RATIONALE_DATA` if it is set, else this user's cache folder.

    Returns
    -------
    Path
        The folder is neither created nor checked: a reader reports missing files.
    """
    chosen = os.environ.get("RATIONALE_DATA")
    return Path(os.path.expanduser(chosen)) if chosen else cache_folder()


def cache_folder() -> Path:
    """The folder in which this user's programs keep what can be fetched again: `pooch.os_cache("rationale")`."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "rationale" / "rationale" / "Cache"
    chosen = os.environ.get("XDG_CACHE_HOME", "").strip()
    usual = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(chosen) if os.path.isabs(chosen) else usual) / "rationale"


def files_read() -> dict[str, str]:
    """The digest (`digest_of`) of every file that this process has read, by its place (`place_of`)."""
    return dict(_digests)


def recorded(path: Path) -> Path:
    """The same path; the file, or the folder with all its files, counts as read from now on (`files_read`).

    The content is read here once more than by the reader, at the speed of the hash (.5 to 1 GB per second). A process
    does not read it again as long as size, time and inode of the file stay the same. So it misses only a file that is
    overwritten in place while the process runs, with as many bytes and within a tick of the clock of the file system
    (or with its time set back on purpose). The next process reads every file anew.

    Raises
    ------
    OSError
        If there is no such file, or it is a named pipe.
    """
    digest_read(path)
    return path


def digest_read(path: Path) -> str:
    """The digest (`digest_of`) of a file or folder, which counts as read from now on; see `recorded`."""
    not_a_named_pipe(path)
    stamp = tuple((file, s.st_size, s.st_mtime_ns, s.st_ino) for file in files_of(path) for s in [file.stat()])
    place = place_of(path)
    if _stamps.get(path) != stamp or place not in _digests:
        digest = digest_of(path)
        _stamps[path], _digests[place] = stamp, digest
        for notify in on_reading:
            notify(place, digest)
    for read in _lists:
        read[place] = _digests[place]
    return _digests[place]


def revisions_read() -> dict[str, str]:
    """The revision of each encoder and data set of the hub that this process has read, by its name."""
    return dict(_revisions)


def revision_read(name: str, revision: str | None) -> None:
    """Note from which revision (the hash of a commit) something on the hub was read.

    Parameters
    ----------
    name : str
        `owner/name` of an encoder, `hub:owner/name` of a data set.
    revision : str or None
        None: the library does not say. Nothing is noted.
    """
    if not revision:
        return
    if _revisions.get(name) != revision:
        _revisions[name] = revision
        for notify in on_revision:
            notify(name, revision)
    for read in _lists:
        read[name] = revision


@contextmanager
def reading() -> Iterator[dict[str, str]]:
    """What is read while the block runs, also if it was read before.

    The dict has the digest of each file by its place, and the revision of what is on the hub by its name.
    """
    read: dict[str, str] = {}
    _lists.append(read)
    try:
        yield read
    finally:
        _lists[:] = [other for other in _lists if other is not read]


def read_so_far() -> dict[str, str]:
    """What has been read for the run in hand: in the innermost block of `reading`, or else by this process.

    A process that makes one run after the other has read more than any of them. It makes each in a block of its own.
    """
    return dict(_lists[-1]) if _lists else files_read()


def not_a_named_pipe(path: Path) -> Path:
    """The same path, to be opened. Opening a named pipe would wait until another process writes into it.

    A pipe without a name, as the shell makes for `<(command)`, is accepted.

    Raises
    ------
    OSError
        If the path is that of a named pipe.
    """
    if path.is_fifo() and os.path.exists(os.path.realpath(path)):
        raise OSError(errno.EINVAL, "a named pipe, not a file", str(path))
    return path


def digest_of(path: Path) -> str:
    """Size in bytes and sha256, separated by a space. That of a folder covers the names and contents of its files."""
    digests, size = {}, 0
    for file in files_of(path):
        digests[file] = sha256(file)
        size += file.stat().st_size
    if not path.is_dir():
        return f"{size} {digests[path]}"
    lines = "".join(f"{digest}  {file.relative_to(path).as_posix()}\n" for file, digest in digests.items())
    return f"{size} {hashlib.sha256(lines.encode(errors='surrogateescape')).hexdigest()}"


def sha256(path: Path) -> str:
    """The SHA-256 digest of a file, in hex digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def place_of(path: Path) -> str:
    """A path relative to the data folder if it is below it, so that the data folder may be moved; else absolute."""
    path, root = Path(os.path.realpath(path)), Path(os.path.realpath(data_folder()))
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def changed(digests: dict[str, str]) -> list[str]:
    """The places in `digests` (place -> digest) whose file is there and has another content now."""
    paths = {place: data_folder() / place for place in digests}  # an absolute place stays as it is
    return [place for place, path in paths.items() if path.exists() and not _has(path, digests[place])]


def _has(path: Path, digest: str) -> bool:
    size = sum(file.stat().st_size for file in files_of(path))
    return digest.split()[0] == str(size) and digest_of(path) == digest


def files_of(path: Path) -> list[Path]:
    """The files below a folder, sorted, or the file itself."""
    return sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
