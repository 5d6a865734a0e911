"""Opening files that may be packed, and describing a damaged file in one line."""

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
    """An exception in one line: its innermost reason."""
    reason = getattr(error, "reason", None) or (error.args[0] if error.args else error)
    reason = getattr(reason, "reason", reason)
    return " ".join(str(reason).split())[:300] or type(error).__name__


# Errors of reading a file that is cut short, damaged or of another format.
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
    """Turn errors that show a cut-short or damaged file into one line with its name, while the file is read."""
    try:
        yield
    except UNREADABLE as error:
        raise BadInput(f"{path}: cut short, damaged or of another format ({brief(error)})") from error


def readable(check: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """Make a check report a file that it cannot read (cut short, other format) as a problem, without a traceback."""

    def checked(root: Path) -> list[str]:
        try:
            return check(root)
        except BadInput as error:
            return [str(error)]
        except DAMAGE as error:
            return [f"cut short, damaged or of another format ({brief(error)})"]

    return checked


def count_differences(counts: dict[str, int], expected: dict[str, int]) -> list[str]:
    """The counts that differ from the expected ones, one line each."""
    return [
        f"{what}: {counts.get(what, 0):,} instead of {number:,}"
        for what, number in expected.items()
        if counts.get(what, 0) != number
    ]


def open_unpacked(path: Path) -> BufferedIOBase:
    """The bytes of a file, unpacked if its name ends in .gz or .xz."""
    if path.suffix == ".gz":
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if path.suffix == ".xz" else open(path, "rb")


def open_text(path: Path, encoding: str = "utf-8") -> IO[str]:
    """Text of a file, packed or not. Its first bytes decide, as some programs unpack a file and keep its name."""
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
    matches = sorted(root.glob(pattern))
    if len(matches) != 1:
        raise BadInput(f"{root / pattern}: {len(matches)} files; accepted: one")
    return matches[0]
