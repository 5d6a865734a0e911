"""What a run has read, as lines of its `environment.txt`: files, from which it is known later whether they changed.

Of what comes from the hub there is also the revision.
"""

import re
from pathlib import Path

from rationale.digests import changed, files_read, on_reading, on_revision, revisions_read


def record_files_read(folder: Path) -> None:
    """From now on, write each file that this process reads into `environment.txt` of a run.

    A line `read: size sha256 place` is added per file, and `revision of name: hash` per encoder or data set of the hub.
    What was read before is added at once.
    """

    def add(line: str) -> None:
        path = folder / "environment.txt"
        if path.is_file() and line not in path.read_text(encoding="utf-8", errors="replace"):
            with open(path, "a", encoding="utf-8") as file:
                file.write(line)

    def write(place: str, digest: str) -> None:
        add(f"read: {digest} {place}\n")

    def write_revision(name: str, revision: str) -> None:
        add(f"revision of {name}: {revision}\n")

    for place, digest in files_read().items():
        write(place, digest)
    for name, revision in revisions_read().items():
        write_revision(name, revision)
    on_reading.append(write)
    on_revision.append(write_revision)


def recorded_files(folder: Path) -> dict[str, str]:
    """The digest of each file that a run has read, by its place."""
    path = folder / "environment.txt"
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    return {place: digest for digest, place in re.findall(r"^read: (\d+ [0-9a-f]{64}) (.+)$", text, re.M)}


def changed_files(folder: Path) -> list[str]:
    """The files that a run has read and that are there with another content now."""
    return changed(recorded_files(folder))
