"""Data: the corpora, word vectors, vocabularies, and padded batches.

Corpora: each is a file in `corpora/`, and `corpora.find_corpus` finds it by name. `read.read_extraction`,
`read.read_alignment`, `read.read_generation` and `read.read_probing` read the corpus that the settings of a run name.
Vocabularies: `vectors.build_vocabulary`, `pairs.build_pair_vocabulary`, `targets.build_text_vocabularies`.
Batches: `batches.Batches`, `batches.PairBatches`.
`python -m rationale.data` fetches, lists and checks the official archives.
"""

from rationale.data.batches import Batch, Batches, PairBatches, Sides, Vocabulary, encode
from rationale.data.example import Example, data_folder
from rationale.data.vectors import build_vocabulary, read_vectors, require_vectors

__all__ = [
    "Batch",
    "Batches",
    "Example",
    "PairBatches",
    "Sides",
    "Vocabulary",
    "build_vocabulary",
    "data_folder",
    "encode",
    "read_vectors",
    "require_vectors",
]
