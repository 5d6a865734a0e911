"""Opening files that may be packed, and saying in one line what is wrong with them."""

import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import IO

from rationale.errors import BadInput


def brief(error: Exception) -> str:
    """An exception on one line, its innermost reason first named."""
    reason = getattr(error, "reason", None) or (error.args[0] if error.args else error)
    reason = getattr(reason, "reason", reason)
    return " ".join(str(reason).split())[:300] or type(error).__name__


# What must be in them. Each takes the data folder and returns what is wrong.
UNREADABLE = (
    EOFError,
    OSError,
    UnicodeDecodeError,
    lzma.LZMAError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
)
DAMAGE = (*UNREADABLE, ValueError, KeyError)


@contextmanager
def intact(path: Path) -> Iterator[None]:
    """While a file is read: what shows that it is cut short or damaged becomes one line with its name."""
    try:
        yield
    except UNREADABLE as error:
        raise BadInput(f"{path}: cut short, damaged or of another format ({brief(error)})") from error


def readable(check: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """A file that cannot be read through (cut short, other format) is a finding, not a traceback."""

    def checked(root: Path) -> list[str]:
        try:
            return check(root)
        except BadInput as error:
            return [str(error)]
        except DAMAGE as error:
            return [f"cut short, damaged or of another format ({brief(error)})"]

    return checked


def count_differences(found: dict[str, int], expected: dict[str, int]) -> list[str]:
    """Where counts differ from what is expected, one line per count."""
    return [
        f"{what}: {found.get(what, 0):,} instead of {number:,}"
        for what, number in expected.items()
        if found.get(what, 0) != number
    ]


def open_unpacked(path: Path) -> BufferedIOBase:
    """The bytes of a file, unpacked where its name ends in .gz or .xz."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else open(path, "rb")


def open_text(path: Path, encoding: str = "utf-8") -> IO[str]:
    """Text of a file, packed or not: its first bytes tell, as some programs unpack and keep the name."""
    with open(path, "rb") as file:
        start = file.read(6)
    if start[:2] == b"\x1f\x8b":
        return gzip.open(path, "rt", encoding=encoding, newline="\n")
    if start == b"\xfd7zXZ\x00":
        return lzma.open(path, "rt", encoding=encoding, newline="\n")
    return open(path, encoding=encoding, newline="\n")


def members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(name, read) for every file of a tar or zip archive or of a folder, in one pass."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file():
                yield file.relative_to(path).as_posix(), file.read_bytes
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if not name.endswith("/"):
                    yield name, partial(archive.read, name)
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, partial(_content, tar, member)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None  # `member` is a file
    return file.read()


def only_file(root: Path, pattern: str) -> Path:
    """The one file below `root` that matches a glob pattern.

    Raises
    ------
    BadInput
        If no file or several files match.
    """
    found = sorted(root.glob(pattern))
    if len(found) != 1:
        raise BadInput(f"{root / pattern}: {len(found)} files; accepted: one")
    return found[0]
