"""Write files in such a way that a process that is killed never leaves a partly written file."""

import os
from collections.abc import Callable
from pathlib import Path


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Write a draft beside `path` with `write`, then rename it to `path` in one step.

    The draft always has the same name, so that one that a killed process has left is overwritten.

    Parameters
    ----------
    path : Path
        The file; its folder is made if it is missing.
    write : callable
        Writes the file at the path that it is given.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    try:
        write(draft)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, completely or not at all."""
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8"))
