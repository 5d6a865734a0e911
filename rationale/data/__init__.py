"""Data: readers that give `Example`s, word vectors, a vocabulary, and padded batches.

Readers: `sst.read_sst`, `synthetic.read_synthetic`, `beer.read_beer`, `hotels.read_hotels`, `movies.read_movies`,
`imdb_rationales.read_imdb_rationales`, `nli.read_nli`, `sentences.read_captions`, `sentences.read_mails`,
`digits.read_digits`, `squad.read_squad`, `squad.read_xquad`.
Vectors: `vectors.build_vocabulary`, `nli.build_pair_vocabulary`.
Batches: `batches.Batches`, `batches.PairBatches`.
`python -m rationale.data` fetches, lists and checks the official archives.
"""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Example:
    """One text with its label and whatever people annotated in it.

    Parameters
    ----------
    tokens : tuple of str, length T >= 1
    label : int or tuple of float
        A class index, or K scores in [0, 1].
    rationale : tuple of bool, length T, or None
        Gold rationale: True where the word belongs to it. None: nobody annotated this text;
        all False: somebody did, and found nothing.
    word_labels : tuple of int, length T, or None
        Label of each word by itself (SST: 0 very negative .. 4 very positive).
    phrases : tuple of (start, end, label), or None
        Label of each phrase, tokens [start, end). SST: every node of the tree, the whole sentence first.
    hypothesis : tuple of str, or None
        The second sentence of a pair; `tokens` are the first.
    """

    tokens: tuple[str, ...]
    label: int | tuple[float, ...]
    rationale: tuple[bool, ...] | None = None
    word_labels: tuple[int, ...] | None = None
    phrases: tuple[tuple[int, int, int], ...] | None = None
    hypothesis: tuple[str, ...] | None = None


def folder() -> Path:
    """The folder of the data: `RATIONALE_DATA` if it is set, else this user's cache folder.

    Returns
    -------
    Path
        Not created, not checked: a reader says what is missing in it.
    """
    chosen = os.environ.get("RATIONALE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("rationale"))


# The readers need the names above, hence the imports down here.
from rationale.data.batches import Batch, Batches, PairBatches, Sides, Vocabulary, encode  # noqa: E402
from rationale.data.beer import read_beer  # noqa: E402
from rationale.data.hotels import read_hotels  # noqa: E402
from rationale.data.imdb_rationales import read_imdb_rationales  # noqa: E402
from rationale.data.movies import read_movies  # noqa: E402
from rationale.data.nli import build_pair_vocabulary, read_nli  # noqa: E402
from rationale.data.reviews import Reviews, read_reviews  # noqa: E402
from rationale.data.sst import read_sst  # noqa: E402
from rationale.data.vectors import build_vocabulary, read_vectors, require_vectors  # noqa: E402

__all__ = [
    "Batch",
    "Batches",
    "Example",
    "PairBatches",
    "Reviews",
    "Sides",
    "Vocabulary",
    "build_pair_vocabulary",
    "build_vocabulary",
    "encode",
    "folder",
    "read_beer",
    "read_hotels",
    "read_imdb_rationales",
    "read_movies",
    "read_nli",
    "read_reviews",
    "read_sst",
    "read_vectors",
    "require_vectors",
]
