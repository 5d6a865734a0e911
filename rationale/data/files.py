"""Reading files that may be packed, damaged or of another format: every error is one line that names the file.

Every file that is read is also recorded (`digests.recorded`), so that a run knows later whether its data changed.
"""

import codecs
import gzip
import json
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from rationale.digests import files_of, recorded
from rationale.errors import BadInput, excerpt

GZIP = b"\x1f\x8b"  # the first bytes of a packed file
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some editors write at the beginning of a file
ENCRYPTED = RuntimeError  # what zipfile raises for it, and for a way of packing that it does not know


def brief(error: BaseException) -> str:
    """An exception in one line: its innermost reason."""
    reason = (
        getattr(error, "reason", None) or getattr(error, "strerror", None) or (error.args[0] if error.args else error)
    )
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
    ENCRYPTED,
)
# What reading an archive may raise besides, where numbers in it are damaged; and what a value of another type does.
DAMAGE = (*UNREADABLE, ValueError, KeyError, IndexError, OverflowError, MemoryError, struct.error)
MALFORMED = (*DAMAGE, TypeError, AttributeError, RecursionError)


@contextmanager
def intact(path: Path, errors: tuple[type[BaseException], ...] = UNREADABLE) -> Iterator[None]:
    """Turn errors that show a cut-short or damaged file into one line with its name, while the file is read."""
    try:
        yield
    except BadInput:
        raise
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file") from None
    except PermissionError as error:
        raise BadInput(f"{path}: {error.strerror or error}; accepted: a file that you may read") from None
    except errors as error:
        raise BadInput(f"{path}: cut short, damaged or of another format ({brief(error)})") from error


def readable(check: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    """Make a check report a file that it cannot read (cut short, other format) as a problem, without a traceback."""

    def checked(root: Path) -> list[str]:
        try:
            return check(root)
        except BadInput as error:
            return [str(error)]
        except MALFORMED as error:
            return [f"cut short, damaged or of another format ({type(error).__name__}: {brief(error)})"]

    return checked


def count_differences(counts: dict[str, int], expected: dict[str, int]) -> list[str]:
    """The counts that differ from the expected ones, one line each."""
    return [
        f"{what}: {counts.get(what, 0):,} instead of {number:,}"
        for what, number in expected.items()
        if counts.get(what, 0) != number
    ]


def open_unpacked(path: Path) -> BufferedIOBase:
    """The bytes of a file, unpacked if it is packed with gzip or xz.

    Its first bytes decide, and not its name, as some programs unpack a file and keep its name.
    """
    with intact(path), open(recorded(path), "rb") as file:
        start = file.read(6)
    if start[:2] == GZIP:
        return gzip.open(path, "rb")
    return lzma.open(path, "rb") if start == b"\xfd7zXZ\x00" else open(path, "rb")


def read_text(path: Path) -> str:
    """The text of a file in UTF-8, packed or not, without a byte-order mark.

    Raises
    ------
    BadInput
        The file is missing, cut short, damaged or not text in UTF-8.
    """
    with intact(path), open_unpacked(path) as file:
        return decoded(file.read(), path)


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file (see `read_text`), without their ends. Only a line feed ends a line.

    Raises
    ------
    BadInput
        See `read_text`; also while the lines are read.
    """
    with intact(path), open_unpacked(path) as file:
        for number, line in enumerate(file, start=1):
            yield decoded(line, path, number).removesuffix("\n")


def decoded(content: bytes, where: Path | str, first: int = 1) -> str:
    """The text of bytes in UTF-8, whose first line has the number `first`, without a byte-order mark at line 1.

    Raises
    ------
    BadInput
        The bytes are not UTF-8; the message begins with `where` and the number of the line.
    """
    if first == 1 and content.startswith(GZIP):
        raise BadInput(f"{where}:1: a packed file; unpack it (gzip -d), accepted: text in UTF-8")
    try:
        return (content.removeprefix(BYTE_ORDER_MARK) if first == 1 else content).decode("utf-8")
    except UnicodeDecodeError as error:
        line = first + error.object[: error.start].count(b"\n")
        byte = error.object[error.start]
        is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # what Excel calls Unicode text
        convert = "iconv -f utf-16 -t utf-8" if is_wide else "iconv -f cp1252 -t utf-8, if it is from Windows"
        raise BadInput(
            f"{where}:{line}: not text in UTF-8 (byte 0x{byte:02x}); accepted: UTF-8; save it as such (CSV UTF-8) or "
            f"convert it ({convert})"
        ) from None


def parse_json(text: str, where: str, accepted: str) -> Any:
    """The value of a JSON text.

    Raises
    ------
    BadInput
        The text is no JSON, or too deeply nested; the message begins with `where` and says what is accepted.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        number = getattr(error, "lineno", 1)
        where = f"{where}:{number}: " if number > 1 else f"{where}: " if where else ""
        line = text.split("\n")[number - 1]
        raise BadInput(f"{where}{excerpt(line)} is not JSON ({brief(error)}); accepted: {accepted}") from None


def members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(name, read) for every file of a tar or zip archive or of a folder, in one pass.

    Raises
    ------
    BadInput
        The archive is missing, cut short, damaged or encrypted: while it is iterated over, or by `read`.
    """
    with intact(path, DAMAGE):
        recorded(path)
        yield from _members(path)


def _members(path: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    def guarded(read: Callable[[], bytes]) -> Callable[[], bytes]:
        def content() -> bytes:
            with intact(path, DAMAGE):
                return read()

        return content

    if path.is_dir():
        for file in files_of(path):
            yield file.relative_to(path).as_posix(), guarded(file.read_bytes)
    elif path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            _refuse_damaged_table(path, archive)
            for name in archive.namelist():
                if not name.endswith("/"):
                    yield name, guarded(lambda name=name: archive.read(name))  # type: ignore[misc]
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                if member.isfile():
                    yield member.name, guarded(lambda member=member: _content(tar, member))  # type: ignore[misc]
            _refuse_early_end(tar)


def _refuse_damaged_table(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise an error if the table of a zip lacks members or misspells their names, which zipfile does not notice."""
    for info in archive.infolist():
        archive.open(info).close()  # compares the name in the table with that before the content
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 22))  # the mark of the end and the longest comment
        end = file.read()
    (number,) = struct.unpack_from("<H", end, end.rfind(b"PK\x05\x06") + 10)
    if number not in (len(archive.infolist()), 0xFFFF):  # 0xFFFF: the number is in another table
        raise zipfile.BadZipFile(f"{len(archive.infolist())} members, {number} at its end")


def _refuse_early_end(tar: tarfile.TarFile) -> None:
    """Raise an error if the members end before the mark of the end: tarfile takes a damaged header for the end."""
    assert tar.fileobj is not None  # the archive is open
    tar.fileobj.seek(tar.offset)
    if tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError(f"no header of a file at byte {tar.offset:,}, and no mark of the end")
    while tar.fileobj.read(1 << 20):  # the checksum of a packed archive stands at its end
        pass


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None  # `member` is a file
    content = file.read()
    if len(content) != member.size:
        raise EOFError(f"{member.name} ends after {len(content)} of {member.size} bytes")
    return content


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
