"""Parallel text files: line i of one file belongs to line i of the others. Files may be packed."""

from collections.abc import Sequence
from pathlib import Path

from rationale.data.archives import Archive, missing
from rationale.data.example import Example, filled
from rationale.data.files import read_lines
from rationale.data.targets import END, Targets
from rationale.errors import BadInput


def read_column(file: Path, place: Path, archive: Archive) -> list[str]:
    """The lines of a text file below `place`, the folder of an archive; none is blank.

    Raises
    ------
    BadInput
        The file is missing, cut short, damaged or empty, or a line is blank (its number is given).
    """
    if not file.is_file():
        raise missing(archive, place, file.name)
    lines = list(read_lines(file))
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise BadInput(f"{file}:{number}: an empty line; accepted: one text per line")
    if not lines:
        raise BadInput(f"{file}: empty; accepted: one text per line")
    return lines


def read_tokenised(files: dict[str, tuple[str, Sequence[str]]], place: Path, archive: Archive) -> Targets:
    """Read sources and their targets from files that are tokenised by spaces; words become lower-case.

    Parameters
    ----------
    files : {"train", "dev", "test"} -> (source file, target files)
        Relative to `place`, packed (.gz) or not. The first target is used in training; all targets are references.
    place : Path
    archive : Archive
        Says how to get a missing file.

    Raises
    ------
    BadInput
        A file is missing, two files have different numbers of lines, or a line is empty (file and line named).
    """
    splits, references = {}, {}
    for split, (source, targets) in files.items():
        columns = [_tokens(place, file, archive) for file in (source, *targets)]
        for file, column in zip(targets, columns[1:], strict=True):
            if len(column) != len(columns[0]):
                raise BadInput(
                    f"{place / file}: {len(column)} lines, {source} has {len(columns[0])}; accepted: one line each"
                )
        rows = list(zip(*columns, strict=True))
        splits[split] = [Example(row[0], 0, second=(*row[1], END)) for row in rows]
        if split != "train":
            references[split] = [[" ".join(target) for target in row[1:]] for row in rows]
    return Targets(filled(splits, place), references)


def _tokens(place: Path, name: str, archive: Archive) -> list[tuple[str, ...]]:
    packed = place / f"{name}.gz"
    lines = read_column(packed if packed.is_file() else place / name, place, archive)
    return [tuple(line.lower().split()) for line in lines]
