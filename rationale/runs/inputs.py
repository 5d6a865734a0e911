"""The files that a run has read: lines of its `environment.txt`, from which it is known later whether they changed."""

import re
from pathlib import Path

from rationale.digests import changed, files_read, on_reading


def record_files_read(folder: Path) -> None:
    """From now on, write each file that this process reads into `environment.txt` of a run.

    A line `read: size sha256 place` is added per file. A file that was read before is added at once.
    """

    def write(place: str, digest: str) -> None:
        path = folder / "environment.txt"
        line = f"read: {digest} {place}\n"
        if path.is_file() and line not in path.read_text(encoding="utf-8", errors="replace"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(line)

    for place, digest in files_read().items():
        write(place, digest)
    on_reading.append(write)


def recorded_files(folder: Path) -> dict[str, str]:
    """The digest of each file that a run has read, by its place."""
    path = folder / "environment.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return {place: digest for digest, place in re.findall(r"^read: (\d+ [0-9a-f]{64}) (.+)$", text, re.M)}


def changed_files(folder: Path) -> list[str]:
    """The files that a run has read and that are there with another content now."""
    return changed(recorded_files(folder))
