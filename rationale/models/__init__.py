"""Models: the extractor, the aligner, the encoder-decoder, and transformers to explain."""

from rationale.models.aligner import (
    REACH,
    Aligner,
    Alignment,
    HardKumaAttention,
    IntraAttention,
    MappedAttention,
    RecurrentPair,
    Words,
    apply_to_joined,
    build_aligner,
    feed_forward,
    products,
)
from rationale.models.beam_search import Generation, beam_search
from rationale.models.digit_counter import NUM_DIGITS, DigitCounter
from rationale.models.extractor import WITHOUT_GATES, Extractor, Predictor, build_extractor, compact
from rationale.models.protocol import Output
from rationale.models.selector import MEMORY, DependentSelector, Selection, Selector
from rationale.models.seq2seq import LAYERS, Decoded, Memory, Seq2Seq, State, build_seq2seq
from rationale.models.transformers import (
    MINILM,
    PACKAGE,
    Classifier,
    EmbeddingGRU,
    SpanFinder,
    import_transformers,
    load_encoder,
    place_of,
)

__all__ = [
    "Aligner",
    "Alignment",
    "Classifier",
    "Decoded",
    "DependentSelector",
    "DigitCounter",
    "EmbeddingGRU",
    "Extractor",
    "Generation",
    "HardKumaAttention",
    "IntraAttention",
    "LAYERS",
    "MEMORY",
    "MINILM",
    "MappedAttention",
    "Memory",
    "NUM_DIGITS",
    "Output",
    "PACKAGE",
    "Predictor",
    "REACH",
    "RecurrentPair",
    "Selection",
    "Selector",
    "Seq2Seq",
    "SpanFinder",
    "State",
    "WITHOUT_GATES",
    "Words",
    "apply_to_joined",
    "beam_search",
    "build_aligner",
    "build_extractor",
    "build_seq2seq",
    "compact",
    "feed_forward",
    "import_transformers",
    "load_encoder",
    "place_of",
    "products",
]
