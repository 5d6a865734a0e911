"""Writing files so that a killed process never leaves half of one."""

import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file beside `path`, then move it there in one step: never half a file.

    The draft has one name, so that what a killed process left of it is overwritten by the next.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text file in UTF-8, at once or not at all."""
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
