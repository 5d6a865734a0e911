"""The digests of files that have been checked, in `checked.json` of this user's cache folder.

A file without an official sha256 is recorded when its contents first agree with the known counts. From then on it is
compared with this record, because counts do not notice every change.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from rationale.digests import cache_folder
from rationale.errors import BadInput
from rationale.files import lock_file, write_text

SECONDS = 30.0  # for which a process waits while others write the record


def changed_since_check(files: Iterable[Path], digest: Callable[[Path], str]) -> list[str]:
    """One line per file that is not the one that was checked before; a file that never was is left out.

    `digest` is `digests.digest_of`, or a function that remembers what it gave.
    """
    known = _read()
    lines = []
    for path in files:
        size, sha256, day = known.get(os.path.realpath(path), (0, "", ""))
        if sha256 and digest(path) != f"{size} {sha256}":
            lines.append(f"{path.name}: not the file that was checked on {day}, of {size:,} bytes and sha256 {sha256}")
    return lines


def record_check(files: Iterable[Path], digest: Callable[[Path], str]) -> None:
    """Record that these files are right; `digest` as for `changed_since_check`.

    Raises
    ------
    BadInput
        The record cannot be written.
    """
    day, found = time.strftime("%Y-%m-%d"), {}
    for path in files:
        size, sha256 = digest(path).split()
        found[os.path.realpath(path)] = (int(size), sha256, day)
    try:
        _record().parent.mkdir(parents=True, exist_ok=True)
        with lock_file(_record().with_suffix(".lock"), SECONDS):  # no other process writes between the next two lines
            known = _read() | found
            write_text(_record(), json.dumps(dict(sorted(known.items())), indent=1) + "\n")
    except OSError as error:
        raise BadInput(f"{_record()}: cannot be written ({error.strerror}); the check was not recorded") from None


def _record() -> Path:
    return cache_folder() / "checked.json"


def _read() -> dict[str, tuple[int, str, str]]:
    """path -> (size, sha256, day); {} if there is no record yet."""
    try:
        known = json.loads(_record().read_text(encoding="utf-8"))
        return {path: (int(size), str(sha256), str(day)) for path, (size, sha256, day) in known.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        raise BadInput(f"{_record()}: damaged; delete it, and the next check records the files anew") from None
