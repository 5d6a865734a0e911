"""How much memory a run needs, estimated from its parameters, so that a sweep does not start more runs than fit.

The constants were chosen so that the estimates exceed the peaks that were measured (runner and kernel together, on CPU,
one epoch): 868 MB for `10_first_rationale`, 853 for `12_train_sst` with 50-dimensional vectors, 1,085 for
`11_train_reviews` on made-up reviews, and 1,317 on hotel and 1,632 on IMDb reviews with 300-dimensional vectors.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BASE_MB = 900  # the runner, and a kernel that has imported torch, pandas and matplotlib
PER_CORPUS_MB = 4  # MB of memory per MB of a corpus as it is stored, which may be packed
PRETRAINED_MB = 1000  # a small transformer: weights, gradients, hidden states of all layers
WORDS = 60_000  # of a large vocabulary; vectors of other words are not kept
LENGTH = 250  # words of a long text
COPIES = 3  # of the table of vectors: as it is read, scaled, in the model
STATES = 40  # numbers per word and hidden unit that two bidirectional LSTMs keep for the gradient
FLOAT_BYTES = 4


def estimated_mb(params: Mapping[str, Any]) -> int:
    """The memory that a run with these parameters needs at most, in MB."""
    size = BASE_MB + PER_CORPUS_MB * _corpus_mb(params.get("corpus"))
    table = WORDS * _vector_size(params) * COPIES
    states = LENGTH * params.get("batch_size", 0) * params.get("hidden_size", 0) * STATES
    size += (table + states) * FLOAT_BYTES / 1e6
    if has_transformer(params):
        size += PRETRAINED_MB
    return round(size)


def has_transformer(params: Mapping[str, Any]) -> bool:
    """Whether a run loads a pretrained transformer: as the encoder of an extractor, or to probe it on texts."""
    if "encoder" not in params:
        return bool(params.get("pretrained")) and _reads_words(params.get("corpus"))
    from rationale.models.pretrained_encoder import ENCODERS, checkpoint_place  # imports torch

    encoder = params["encoder"]
    return ENCODERS[encoder].reads_pieces if encoder in ENCODERS else checkpoint_place(encoder) is not None


def _vector_size(params: Mapping[str, Any]) -> int:
    """Numbers per word: of a file named like `glove.6B.50d` those in its name, of random vectors embedding_size."""
    named = re.search(r"(\d+)d\b", str(params.get("vectors", "")))
    return int(named[1]) if named else params.get("embedding_size", params.get("hidden_size", 0))


def _corpus_mb(name: Any) -> float:
    """The size of the files of a corpus, in the data folder or of one's own; 0 if it is made up or not there."""
    from rationale.data.corpora import names_own
    from rationale.data.example import data_folder  # imports torch

    if not isinstance(name, str) or not name:
        return 0.0
    folders = [Path(name)] if names_own(name) else data_folder().glob(f"{name}*")
    files = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return sum(path.stat().st_size for path in files if path.is_file()) / 1e6


def _reads_words(name: Any) -> bool:
    """Whether a corpus has texts of words, which a transformer reads, rather than of symbols."""
    from rationale.data.corpora import find_corpus

    return isinstance(name, str) and not find_corpus(name).alphabet
