"""What all corpora of sentence pairs share: the first word of every sentence, and the vocabulary of both sides."""

from collections.abc import Sequence
from hashlib import md5

import torch
from torch import Tensor

from rationale.data.batches import SpelledVocabulary
from rationale.data.example import Example
from rationale.data.packed import seconds, words_of
from rationale.data.vectors import read_vectors
from rationale.errors import BadInput

NULL = "@@NULL@@"  # first word of every sentence; words without a counterpart align with it
NUM_UNKNOWN = 100  # number of rows that words without a vector share


def build_pair_vocabulary(
    splits: dict[str, Sequence[Example]], vectors: str, dim: int = 300, seed: int = 0
) -> tuple[SpelledVocabulary, Tensor]:
    """All words of the pairs and their vectors, each of norm 1.

    A word without a vector shares one of 100 random rows, chosen by the md5 of its letters; `NULL` has its own row.
    Source: Bastings et al. 2019, app. B; Parikh et al. 2016.

    Parameters
    ----------
    splits : split name -> pairs
    vectors : str
        See `vectors.build_vocabulary`.
    dim : int >= 1
        Size of random vectors.
    seed : int

    Returns
    -------
    SpelledVocabulary, float [V, E]
        The row of padding is zeros.

    Raises
    ------
    BadInput
        See `read_vectors`; also if no word has a vector.
    """
    words = SpelledVocabulary.ordinary(words_of([*splits.values(), *map(seconds, splits.values())]))
    if vectors == "random":
        generator = torch.Generator().manual_seed(seed + 1)
        known_words, rows = words, torch.randn(len(words), dim, generator=generator)
    else:
        known_words, rows = read_vectors(vectors, words)
        if not known_words:
            raise BadInput(f"vectors: {vectors!r} holds none of the {len(words)} words of the data")
    generator = torch.Generator().manual_seed(seed)
    unknown = torch.randn(NUM_UNKNOWN + 1, rows.shape[1], generator=generator)  # the last row is for NULL
    known = dict(zip(known_words, rows, strict=True))
    vocabulary = SpelledVocabulary(words)
    table = torch.stack(
        [unknown[0], torch.zeros(rows.shape[1])]
        + [known[word] if word in known else unknown[NUM_UNKNOWN if word == NULL else hashed(word)] for word in words]
    )
    return vocabulary, torch.nn.functional.normalize(table, dim=1)


def hashed(word: str) -> int:
    """The shared row of an unknown word, in 0 .. 99."""
    return int(md5(word.encode()).hexdigest(), 16) % NUM_UNKNOWN
