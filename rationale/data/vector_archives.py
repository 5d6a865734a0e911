"""The archives of word vectors, and the check of their files."""

import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rationale.data.archives import MADE_HERE, Archive, Download
from rationale.data.files import count_differences, open_unpacked, readable


def check_vectors(pattern: str, rows: dict[str, int]) -> Callable[[Path], list[str]]:
    """A check that all rows have a word and equally many numbers; `rows`: number of rows per file, if it is known."""

    @readable
    def check(root: Path) -> list[str]:
        problems = []
        for path in sorted((root / "vectors").glob(pattern)):
            for name, lines in _files(path):
                problems += _ragged(name, lines, rows.get(name))
        return problems

    return check


def _files(path: Path) -> Iterator[tuple[str, Iterable[bytes]]]:
    """(name, lines) of each text file in a file of vectors."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as file:
                    yield member, file
    else:
        with open_unpacked(path) as file:
            yield path.name, file


def _ragged(name: str, lines: Iterable[bytes], expected: int | None) -> list[str]:
    num, num_fields = 0, 0
    for num, line in enumerate(lines, start=1):
        fields = line.rstrip().count(b" ") + 1
        num_fields = num_fields or fields
        if fields < num_fields or (fields > num_fields and not _numbers_follow(line, num_fields - 1)):
            return [f"{name}:{num}: {fields} fields; accepted: {num_fields}, a word and its numbers"]
    if num_fields < 3:
        return [f"{name}: no vectors in it"]
    return count_differences({f"{name} rows": num}, {f"{name} rows": expected}) if expected else []


def _numbers_follow(line: bytes, dim: int) -> bool:
    """Whether the last `dim` fields are numbers; then the word may contain spaces (as some do in GloVe 840B)."""
    fields = line.split()
    try:
        [float(field) for field in fields[-dim:]]
    except ValueError:
        return False
    return True


VECTORS = (
    Archive(
        name="glove.6B",
        what="GloVe vectors, 400 thousand lower-case words, 50 to 300 dimensions (Pennington et al. 2014)",
        page="https://nlp.stanford.edu/data/glove.6B.zip",
        terms="PDDL; 0.9 GB",
        places=(("vectors/glove.6B.zip",), ("vectors/glove.6B.*d.txt*",)),
        counts="the same number of fields in every row",
        check=check_vectors("glove.6B*", {"glove.6B.50d.txt.xz": 118836}),
        downloads=(
            Download(
                "https://nlp.stanford.edu/data/glove.6B.zip",
                "vectors/glove.6B.zip",
                sha256="617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
            ),
        ),
    ),
    Archive(
        name="glove.840B.300d",
        what="GloVe vectors, 2.2 million words, case kept, 300 dimensions (Pennington et al. 2014)",
        page="https://nlp.stanford.edu/data/glove.840B.300d.zip",
        terms="PDDL; 2 GB",
        places=(("vectors/glove.840B.300d.zip",), ("vectors/glove.840B.300d.txt*",)),
        counts="the same number of fields in every row",
        check=check_vectors("glove.840B*", {}),
        downloads=(
            Download(
                "https://nlp.stanford.edu/data/glove.840B.300d.zip",
                "vectors/glove.840B.300d.zip",
                sha256="c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
            ),
        ),
    ),
    Archive(
        name="imdb.w2v.300d",
        what="word2vec of IMDb's reviews on the scale of GloVe 840B, 41,648 words; stands in for it",
        page="none",
        terms="made for this project",
        places=(("vectors/imdb.w2v.300d.txt*",),),
        counts="41,648 rows, the same number of fields in every row",
        sha256={
            "vectors/imdb.w2v.300d.txt.xz": "9f5635052b99b725dc0a5f6596ef463949b5d955d88381c9f7615e4211735edc",
        },
        check=check_vectors("imdb.w2v.300d.txt*", {"imdb.w2v.300d.txt.xz": 41648}),
        by_hand=MADE_HERE.format("vectors/") + ": python -m rationale.data fetch glove.840B.300d",
    ),
)
