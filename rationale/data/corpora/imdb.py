"""The Large Movie Review Dataset: IMDb reviews, positive or negative, and unlabelled ones, of which vectors are made.

The official train and test sets have 12,500 reviews of each class. The last tenth of the train reviews of each class,
by their numbers, is dev, because the reviews of one film have adjacent numbers.

Source: Maas et al. 2011; the dev split is ours.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rationale.data.archives import Archive, Download, missing
from rationale.data.corpus import SPLITS, Corpus, in_turn
from rationale.data.example import Example, data_folder, filled
from rationale.data.files import count_differences, decoded, members, readable
from rationale.data.tokenise import split_words
from rationale.errors import BadInput

LABELS = ("negative", "positive")
FIRST_DEV = 11_250  # number of the first train review of each class that is in dev
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")
UNLABELLED = ".unsup."  # part of the name of an archive that holds no labelled review


def read_imdb(path: Path | str | None = None) -> dict[str, list[Example]]:
    """The labelled reviews, alternating between the classes, as lower-case tokens (`tokenise.split_words`).

    Source: Maas et al. 2011; the dev split is ours.

    Parameters
    ----------
    path : Path, str or None
        Folder that holds the archive, or its files. None: `imdb` in the data folder.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` is 0 for negative, 1 for positive. No rationale.

    Raises
    ------
    BadInput
        A missing or damaged archive, a review that is not UTF-8 or has no words, a split without reviews.
    """
    place = Path(path) if path is not None else data_folder() / "imdb"
    found: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {split: [] for split in SPLITS}
    for name, text in _reviews(place):
        split, kind, number = REVIEW.fullmatch(name).groups()  # type: ignore[union-attr]
        tokens = tuple(split_words(text.replace("<br />", " ")))
        if not tokens:
            raise BadInput(f"{place}/{name}: no words; accepted: a review")
        split = "dev" if split == "train" and int(number) >= FIRST_DEV else split
        found[split].append((int(number), ("neg", "pos").index(kind), tokens))
    splits = {split: in_turn([Example(row[2], row[1]) for row in sorted(rows)]) for split, rows in found.items()}
    return filled(splits, place)


def _reviews(place: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of every labelled review of the archives in a folder, or of the files in it."""
    packed = [file for file in sorted(place.glob("aclImdb*.tar.*")) if UNLABELLED not in file.name]
    if not packed and not (place.is_dir() and any(place.rglob("*.txt"))):
        raise missing(ARCHIVE, place, "aclImdb*.tar.*")
    for archive in packed or [place]:
        for name, read in members(archive):
            if REVIEW.fullmatch(name):
                yield name, decoded(read(), f"{archive}/{name}")


@readable
def check_imdb(root: Path) -> list[str]:
    """IMDb: the number of reviews of each split and label."""
    counts: Counter[str] = Counter()
    for path in sorted(root.glob("imdb/aclImdb*.tar.*")):
        for name, _ in members(path):
            if name.endswith(".txt") and name.count("/") == 3:
                counts[" ".join(name.split("/")[1:3])] += 1
    return count_differences(
        counts,
        {"train pos": 12500, "train neg": 12500, "test pos": 12500, "test neg": 12500, "train unsup": 50000},
    )


ARCHIVE = Archive(
    name="imdb",
    what="Large Movie Review Dataset (Maas et al. 2011)",
    page="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    terms="research",
    places=(("imdb/aclImdb_v1.tar.gz",), ("imdb/aclImdb.labelled.tar.xz", "imdb/aclImdb.unsup.tar.xz")),
    counts="25,000 / 25,000 labelled, 50,000 unlabelled reviews",
    check=check_imdb,
    downloads=(
        Download(
            "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            "imdb/aclImdb_v1.tar.gz",
            sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        ),
    ),
)
CORPUS = Corpus(
    name="imdb",
    what="IMDb reviews, positive or negative, and unlabelled ones; people have marked no words",
    read={"extraction": lambda _: read_imdb()},
    labels=LABELS,
    aspects=("overall",),
    tokeniser="words",
    archive=ARCHIVE,
)
