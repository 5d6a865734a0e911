"""Models: the extractor, the aligner, the encoder-decoder, and transformers to explain."""

from rationale.models.aligner import (
    ATTENTIONS,
    REACH,
    Aligner,
    Alignment,
    HardKumaAttention,
    IntraAttention,
    RecurrentPair,
    SimplexAttention,
    Words,
    build_aligner,
    feed_forward,
    products,
)
from rationale.models.beam_search import Generation, beam_search
from rationale.models.digit_counter import NUM_DIGITS, DigitCounter
from rationale.models.extractor import Extractor, Predictor, build_extractor, compact
from rationale.models.protocol import EncoderDecoder, Output, RationaleModel, Trainable
from rationale.models.selector import MEMORY, DependentSelector, Selection, Selector, select_in_order
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
    "ATTENTIONS",
    "LAYERS",
    "MEMORY",
    "MINILM",
    "NUM_DIGITS",
    "PACKAGE",
    "REACH",
    "Aligner",
    "Alignment",
    "Classifier",
    "Decoded",
    "DependentSelector",
    "DigitCounter",
    "EmbeddingGRU",
    "EncoderDecoder",
    "Extractor",
    "Generation",
    "HardKumaAttention",
    "IntraAttention",
    "Memory",
    "Output",
    "Predictor",
    "RationaleModel",
    "RecurrentPair",
    "Selection",
    "Selector",
    "Seq2Seq",
    "SimplexAttention",
    "SpanFinder",
    "State",
    "Trainable",
    "Words",
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
    "select_in_order",
]
