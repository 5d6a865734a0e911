"""What was read from data files, kept as memory-mapped arrays, so that the next process need not parse them again.

An entry is a folder of the cache: raw arrays, and `entry.json` with their types, sizes and checksums. The cache is a
folder of this user (`digests.cache_folder`). `RATIONALE_CACHE` moves it, or switches it off with the value `off`.

- Two processes: an entry is written into a folder of its own and then renamed, so a reader sees all of it or nothing.
- Damage: sizes and checksums are compared when an entry is opened; a damaged entry is deleted, and the caller reads the
  data file again.
- A cache that cannot be written is not used, without an error.
- When a new entry makes the cache larger than `LIMIT`, the entries that were not used for the longest time are deleted.

An entry is found by the sha256 of the data files, whose content is read for it each time (`digests.recorded`). So a
changed file is always noticed, even if its size and its time stay the same.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rationale.digests import cache_folder

OFF = ("off", "0", "no", "none")
LIMIT = 8 * 2**30  # bytes
FACTS = "entry.json"
_NAME = re.compile(r"\.?[a-z0-9_]+-[a-z]+-[0-9a-f]{32}(\.\w+)?")  # of an entry; of a draft, with dots
_HOURS = 24 * 3600  # seconds after which a draft belongs to a process that was killed


class Entry(NamedTuple):
    """An entry that was opened: arrays, read from the disk when they are used, and what was recorded with them."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]


class Stored(NamedTuple):
    """One entry on the disk."""

    name: str
    size: int  # bytes
    used: float  # seconds since 1970


def folder() -> Path | None:
    """The folder of the cache, which may not exist yet; None: the cache is switched off."""
    chosen = os.environ.get("RATIONALE_CACHE", "").strip()
    if chosen.lower() in OFF:
        return None
    return Path(os.path.expanduser(chosen)) if chosen else cache_folder() / "parsed"


def name_of(kind: str, *parts: object, of_corpus: bool = True) -> str:
    """The name of an entry: a kind, such as `sst-extraction`, and a digest of what identifies it; see `code`."""
    text = json.dumps([code(of_corpus), *parts], sort_keys=True)
    return f"{kind}-{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:32]}"


@cache
def code(of_corpus: bool = True) -> str:
    """A digest of all that decides what a reader makes of a file: the code of this room, and Python's version.

    What is not of a corpus, such as word vectors, does not depend on the rooms within this one, which read corpora.
    """
    digest = hashlib.sha256(f"{sys.version_info[:2]} {sys.byteorder} {np.__version__}".encode())
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py") if of_corpus else here.glob("*.py")):
        digest.update(path.relative_to(here).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def names(kind: str) -> list[str]:
    """The names of the entries of this kind, sorted."""
    place = folder()
    if place is None:
        return []
    with contextlib.suppress(OSError):
        return sorted(path.name for path in place.glob(f"{kind}-*") if _NAME.fullmatch(path.name))
    return []


def read_facts(name: str) -> dict[str, Any] | None:
    """What was recorded with an entry; None: there is none, or it was damaged and is deleted now."""
    place = folder()
    if place is None:
        return None
    try:
        return _described(place / name)["facts"]
    except (OSError, ValueError, KeyError, TypeError):
        delete(name)
        return None


def opened(name: str, unchecked: tuple[str, ...] = ()) -> Entry | None:
    """An entry, whose checksums are right; None: there is none, or it was damaged and is deleted now.

    Parameters
    ----------
    name : str
        See `name_of`.
    unchecked : names of arrays
        Their checksums are not compared here, because the caller compares those of the parts that it uses.
    """
    place = folder()
    if place is None or not os.path.isdir(place / name):
        return None
    try:
        described = _described(place / name)
        arrays = {}
        for key, (kind, shape, checksum) in described["arrays"].items():
            arrays[key] = _mapped(place / name / f"{key}.bin", np.dtype(kind), tuple(shape))
            if key not in unchecked and zlib.crc32(arrays[key].data.cast("B") if arrays[key].size else b"") != checksum:
                raise ValueError(f"{key}: another checksum")
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(place / name, ignore_errors=True)
        return None
    with contextlib.suppress(OSError):
        os.utime(place / name)
    return Entry(arrays, described["facts"])


def delete(name: str) -> None:
    """Delete an entry, if it is there and may be deleted."""
    place = folder()
    if place is not None and _NAME.fullmatch(name):
        shutil.rmtree(place / name, ignore_errors=True)


class Draft:
    """An entry while it is written: arrays that grow at their end. Nothing is kept unless `keep` is called."""

    def __init__(self, path: Path):
        self.path = path
        self._arrays: dict[str, tuple[str, tuple[int, ...], int]] = {}

    def append(self, key: str, array: np.ndarray) -> None:
        """Add rows to the end of an array, which begins with the first call; raises `OSError`."""
        array = np.ascontiguousarray(array)
        kind, shape, checksum = self._arrays.get(key, (array.dtype.str, (0, *array.shape[1:]), 0))
        if kind != array.dtype.str or shape[1:] != array.shape[1:]:
            raise ValueError(f"{key}: {array.dtype.str} {array.shape} after {kind} {shape}")
        content = array.tobytes()
        with open(self.path / f"{key}.bin", "ab") as file:
            file.write(content)
        self._arrays[key] = (kind, (shape[0] + len(array), *shape[1:]), zlib.crc32(content, checksum))

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Write `entry.json`; raises `OSError`."""
        text = json.dumps({"arrays": self._arrays, "facts": facts}, sort_keys=True)
        (self.path / FACTS).write_text(f"{zlib.crc32(text.encode())}\n{text}\n", encoding="utf-8")


@contextlib.contextmanager
def draft(name: str) -> Iterator[Draft | None]:
    """A new entry, which becomes visible at the end if it was finished; None: the cache is off or cannot be written.

    An error of the file system ends the draft, but not the block.
    """
    place = folder()
    path = None
    if place is not None:
        with contextlib.suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            path = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=place))
    if place is None or path is None:
        yield None
        return
    try:
        yield Draft(path)
        if (path / FACTS).is_file():
            with contextlib.suppress(OSError):  # another process may have made the same entry meanwhile
                os.rename(path, place / name)
                _make_room(place, name)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def stored() -> list[Stored]:
    """All entries and drafts, the one that was used last at the end."""
    place, paths, found = folder(), [], []
    with contextlib.suppress(OSError):  # there is no cache yet, or it cannot be read
        paths = sorted(place.iterdir()) if place is not None else []
    for path in paths:
        if os.path.isdir(path) and _NAME.fullmatch(path.name):
            with contextlib.suppress(OSError):  # it may have gone meanwhile
                size = sum(file.stat().st_size for file in path.iterdir())
                found.append(Stored(path.name, size, path.stat().st_mtime))
    return sorted(found, key=lambda entry: (entry.used, entry.name))


def _make_room(place: Path, newest: str) -> None:
    """Delete what is too much, and drafts of processes that were killed."""
    entries = stored()
    total = sum(entry.size for entry in entries)
    for entry in entries:
        is_left = entry.name.startswith(".") and entry.used < time.time() - _HOURS
        if is_left or (total > LIMIT and entry.name != newest and not entry.name.startswith(".")):
            shutil.rmtree(place / entry.name, ignore_errors=True)
            total -= entry.size


def _described(path: Path) -> dict[str, Any]:
    """`entry.json`; raises `ValueError` if it is damaged."""
    checksum, _, text = (path / FACTS).read_text(encoding="utf-8").removesuffix("\n").partition("\n")
    if checksum != str(zlib.crc32(text.encode())):
        raise ValueError(f"{path / FACTS}: another checksum")
    return json.loads(text)


def _mapped(path: Path, kind: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """An array that is read from its file when it is used; raises `ValueError` if the file has another size."""
    if path.stat().st_size != kind.itemsize * int(np.prod(shape)):
        raise ValueError(f"{path}: another size")
    if not np.prod(shape):  # an empty file cannot be mapped
        return np.empty(shape, kind)
    return np.asarray(np.memmap(path, kind, "r", shape=shape))
