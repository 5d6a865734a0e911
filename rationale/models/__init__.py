"""Models: the extractor, the aligner, the encoder-decoder, and transformers to explain."""

from typing import TYPE_CHECKING

from rationale.models.aligner import (
    REACH,
    Aligner,
    Alignment,
    HardKumaAttention,
    IntraAttention,
    RecurrentPair,
    SimplexAttention,
    attention_class,
    build_aligner,
    feed_forward,
)
from rationale.models.beam_search import Generation, beam_search
from rationale.models.digit_counter import NUM_DIGITS, DigitCounter
from rationale.models.extractor import Extractor, Predictor, build_extractor, compact
from rationale.models.pair_words import Words, products
from rationale.models.protocol import EncoderDecoder, Head, Output, RationaleModel, Trainable
from rationale.models.selector import MEMORY_SIZE, DependentSelector, Selection, Selector, select_in_order
from rationale.models.seq2seq import LAYERS, Decoded, DecoderState, EncodedSource, Seq2Seq, build_seq2seq
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
    "LAYERS",
    "MEMORY_SIZE",
    "MINILM",
    "NUM_DIGITS",
    "PACKAGE",
    "REACH",
    "Aligner",
    "Alignment",
    "Classifier",
    "Decoded",
    "DecoderState",
    "DependentSelector",
    "DigitCounter",
    "EmbeddingGRU",
    "EncodedSource",
    "EncoderDecoder",
    "Extractor",
    "Generation",
    "HardKumaAttention",
    "Head",
    "IntraAttention",
    "Output",
    "Predictor",
    "RationaleModel",
    "RecurrentPair",
    "Selection",
    "Selector",
    "Seq2Seq",
    "SimplexAttention",
    "SpanFinder",
    "Trainable",
    "Words",
    "attention_class",
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


if TYPE_CHECKING:
    from torch import Tensor

    from rationale.data.batches import Sides

    def _they_follow_the_protocol(
        texts: Extractor, pairs: Aligner | RecurrentPair, targets: Seq2Seq
    ) -> tuple[RationaleModel[Tensor], RationaleModel[Sides], EncoderDecoder]:
        """For the type checker alone."""
        return texts, pairs, targets
