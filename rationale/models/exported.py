"""Extractors as graphs from numbers to gates and outputs, as `torch.export` takes them: no shape depends on a value.

Each graph has names for its inputs, and example inputs whose axes are all longer than 1. The gates are decided by the
test-time rule, so nothing is random.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rationale.data.batches import Vocabulary
from rationale.data.word_pieces import NO_PIECE
from rationale.distributions.numerics import quadrature_rule
from rationale.models.extractor import Extractor
from rationale.nn.heads import Classes

BATCH, WORDS, WINDOWS, WIDTH = 3, 7, 2, 5  # of the example inputs


class Graph(nn.Module):
    """An extractor in evaluation mode, with probabilities instead of logits.

    Parameters
    ----------
    model : Extractor
    """

    inputs: ClassVar[dict[str, tuple[str, ...]]]  # name -> names of the axes

    def __init__(self, model: Extractor):
        super().__init__()
        self.model = model

    @property
    def longest(self) -> dict[str, int]:
        """The largest sizes of those axes that have one, by the name of the axis."""
        return {}

    def outputs(self, prediction: Tensor) -> Tensor:
        """Probabilities of the classes, or scores in [0, 1], [B, C]."""
        return prediction.softmax(-1) if isinstance(self.model.head, Classes) else prediction

    def examples(self) -> tuple[Tensor, ...]:
        """Inputs with which the graph is traced."""
        raise NotImplementedError


class WordGraph(Graph):
    """Texts as rows of the vocabulary: `tokens`, long [B, T], with `Vocabulary.pad` after the last word."""

    inputs: ClassVar[dict[str, tuple[str, ...]]] = {"tokens": ("texts", "words")}

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Gates [B, T] in [0, 1], and outputs [B, C]."""
        output = self.model(tokens, tokens != Vocabulary.pad)
        return output.z, self.outputs(output.prediction)

    def examples(self) -> tuple[Tensor, ...]:
        tokens = torch.full((BATCH, WORDS), Vocabulary.unk)
        tokens[1:, WORDS - 1 :] = Vocabulary.pad
        return (tokens,)


class PieceGraph(Graph):
    """Texts as packed word pieces; the inputs are those of `PretrainedEncoder.read_packed`."""

    inputs: ClassVar[dict[str, tuple[str, ...]]] = {
        "pieces": ("texts", "windows", "width"),
        "word": ("texts", "windows", "width"),
        "first": ("texts", "words"),
    }

    @property
    def longest(self) -> dict[str, int]:
        encoder: Any = self.model.predictor.encoder
        return {"width": encoder.window}

    def forward(self, pieces: Tensor, word: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        """Gates [B, T] in [0, 1], and outputs [B, C]."""
        model, mask = self.model, first >= 0
        compact = model.predictor.mode == "compact"
        encoder: Any = model.predictor.encoder
        if model.selector is not None:
            selecting: Any = model.selector.encoder
            states, _ = selecting.read_packed(pieces, word, first)
            z = model.decided(mask)(model.selector.gate(states)) * mask
        else:
            pool, weights = model.predictor.pool, None
            if pool.weighs_words:
                states, _ = encoder.read_packed(pieces, word, first)
                weights = pool.weights(states, mask)
            z = model.attended(first, mask, weights)
        states, final = encoder.read_packed(pieces, word, first, z, compact)
        kept = mask & (z > 0) if compact else mask
        prediction = model.head(model.predictor.pool(states, final, kept))
        return z, self.outputs(prediction)

    def examples(self) -> tuple[Tensor, ...]:
        first = torch.arange(WORDS).expand(BATCH, WORDS).clone()  # one piece per word
        first[1:, WORDS - 1 :] = -1
        word = torch.arange(WINDOWS * WIDTH).clamp(max=WORDS - 1).expand(BATCH, -1)
        real = (first >= 0).sum(1, keepdim=True) > torch.arange(WINDOWS * WIDTH)
        pieces = torch.where(real, 0, NO_PIECE)
        shape = (BATCH, WINDOWS, WIDTH)
        return pieces.view(shape), torch.where(real, word, 0).view(shape), first


@torch.library.custom_op("rationale::lstm", mutates_args=())
def lstm(inputs: Tensor, input_weight: Tensor, weight: Tensor, input_bias: Tensor, bias: Tensor) -> Tensor:
    """The states [B, T, H] of one LSTM, as one operation, which `torch.export` would otherwise unroll into T steps."""
    start = inputs.new_zeros(1, inputs.shape[0], weight.shape[1])
    weights = (input_weight, weight, input_bias, bias)
    return torch.lstm(inputs, (start, start), weights, True, 1, 0.0, False, False, True)[0]


@lstm.register_fake
def _(inputs: Tensor, input_weight: Tensor, weight: Tensor, *biases: Tensor) -> Tensor:  # noqa: ARG001
    return inputs.new_empty(inputs.shape[0], inputs.shape[1], weight.shape[1])


class WholeLSTM(nn.Module):
    """An LSTM of one layer and direction that is exported as one operation."""

    def __init__(self, layer: nn.LSTM):
        super().__init__()
        self.layer = layer

    def forward(self, inputs: Tensor) -> tuple[Tensor, None]:
        """Inputs [B, T, E] to states [B, T, H]; the final state is not given."""
        return lstm(inputs, *self.layer.all_weights[0]), None


def graph_of(model: Extractor) -> Graph:
    """The graph of an extractor, by what its encoder reads. The LSTMs of the model are replaced."""
    quadrature_rule(0, torch.device("cpu"))  # its numbers are kept; in a trace they would be computed as unknown ones
    for part in [*model.modules()]:
        for name, layer in [*part.named_children()]:
            if isinstance(layer, nn.LSTM):
                setattr(part, name, WholeLSTM(layer))
    return (PieceGraph if model.reads_pieces else WordGraph)(model)
