"""The Large Movie Review Dataset: an archive from which word vectors are made; no task reads it.

Source: Maas et al. 2011.
"""

from collections import Counter
from pathlib import Path

from rationale.data.archives import Archive, Download
from rationale.data.corpus import Corpus
from rationale.data.files import count_differences, members, readable


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
CORPUS = Corpus(name="imdb", what="IMDb reviews, positive or negative, and unlabelled ones", archive=ARCHIVE)
