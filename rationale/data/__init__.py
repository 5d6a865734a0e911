"""Data: readers that give `Example`s, word vectors, a vocabulary, and padded batches.

Readers, in `corpora`: `sst.read_sst`, `synthetic.read_synthetic`, `beer.read_beer`, `hotels.read_hotels`,
`movies.read_movies`, `imdb_rationales.read_imdb_rationales`, `nli.read_nli`, `sentences.read_captions`,
`sentences.read_mails`, `digits.read_digits`, `squad.read_squad`, `squad.read_xquad`.
Vectors: `vectors.build_vocabulary`, `corpora.nli.build_pair_vocabulary`.
Batches: `batches.Batches`, `batches.PairBatches`.
`python -m rationale.data` fetches, lists and checks the official archives.
"""

from rationale.data.batches import Batch, Batches, PairBatches, Sides, Vocabulary, encode
from rationale.data.example import Example, folder
from rationale.data.vectors import build_vocabulary, read_vectors, require_vectors

__all__ = [
    "Batch",
    "Batches",
    "Example",
    "PairBatches",
    "Sides",
    "Vocabulary",
    "build_vocabulary",
    "encode",
    "folder",
    "read_vectors",
    "require_vectors",
]
