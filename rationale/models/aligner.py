"""The aligner: decides whether one sentence follows from another by aligning their words.

    scores_ij = F(p_i) . F(q_j)
    p'_i = sum_j weight_ij q_j,   q'_j = sum_i weight_ji p_i       weights: a mapping of the scores, or HardKuma gates
    prediction = head(H(sum_i G(p_i, p'_i), sum_j G(q_j, q'_j)))

Source: eqs. (N1)-(N4), notebooks/13_train_nli.py; Parikh et al. 2016; Bastings et al. 2019, sec. 6; Niculae and Blondel
2017. `z` is the matrix of weights, premise by hypothesis, flattened: [B, P Q], and its mask is the mask of the
cells (pairs of words), so the constraint, the loop and the evaluation are the same as for rationale extractors.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.data.batches import Sides
from rationale.distributions.protocol import GateDistribution
from rationale.distributions.rectified import HardKuma
from rationale.models.protocol import Output
from rationale.nn.dropout import Dropout, ReLUDropout
from rationale.nn.encoders import LSTMEncoder
from rationale.nn.fast import apply_to_joined
from rationale.nn.gates import GateSettings, decide
from rationale.nn.heads import HEADS, Head
from rationale.nn.initialise import initialise
from rationale.nn.sampling import Draw, repeated, sample
from rationale.nn.sparse_attention import MAPPINGS, MappingSettings, unused_by
from rationale.settings import OneOf, Refusal, setting

REACH = 11  # intra-sentence attention: all larger distances share one number


def aligner_models() -> tuple[str, ...]:
    """All aligners: one per mapping, HardKuma gates on the cells, and the baseline without alignment."""
    return (*ATTENTIONS, "recurrent")


class AlignerSettings(MappingSettings, GateSettings):
    """How the words of two sentences are aligned."""

    model: Annotated[str, OneOf(aligner_models)] = setting("softmax", "how words are aligned")
    normalised: bool = setting(False, "HardKuma weights of a word are divided by their sum")
    intra: bool = setting(False, "each word first attends to the other words of its own sentence")
    rule: Literal["argmax", "argmax_conditional", "expected", "sample", "threshold"] = setting(
        "argmax", "how a gate becomes a number at test time"
    )
    hidden_size: int = setting(200, "units of every layer", "[1, inf)")
    dropout: float = setting(0.2, "probability of dropping a unit in training", "[0, 1)")

    def refused(self) -> Iterator[Refusal]:
        model = f"with model {self.model}"
        yield Refusal(self.normalised and self.model != "hardkuma", "normalised", model, "false, or hardkuma")
        yield Refusal(self.intra and self.model == "recurrent", "intra", model, "false, or another model")
        yield from unused_by(self, self.model)


class Words(NamedTuple):
    """Features of the words of both sides of B pairs, premises before hypotheses: one call reads all."""

    both: Tensor  # [B P + B Q, H]
    lengths: tuple[int, int]  # P, Q

    @classmethod
    def of(cls, premise: Tensor, hypothesis: Tensor) -> "Words":
        """From [B, P, ...] and [B, Q, ...]: features, or the indices [B, P] and [B, Q] of the words."""
        both = torch.cat([premise.flatten(0, 1), hypothesis.flatten(0, 1)])
        return cls(both, (premise.shape[1], hypothesis.shape[1]))

    def through(self, layers: Callable[[Tensor], Tensor]) -> "Words":
        return Words(layers(self.both), self.lengths)

    def sides(self) -> tuple[Tensor, Tensor]:
        """[B, P, H] and [B, Q, H]; views, not copies."""
        rows = len(self.both) // sum(self.lengths)
        parts = self.both.split([rows * length for length in self.lengths])
        premise, hypothesis = (part.unflatten(0, (rows, -1)) for part in parts)
        return premise, hypothesis


def products(words: Words) -> Tensor:
    """Dot products of each premise word with each hypothesis word, [B, P, Q]."""
    premise, hypothesis = words.sides()
    return premise @ hypothesis.mT


def feed_forward(num_inputs: int, size: int, dropout: float) -> nn.Sequential:
    """Two layers with ReLU and dropout after each."""
    first = nn.Linear(num_inputs, size), ReLUDropout(dropout)
    return nn.Sequential(*first, nn.Linear(size, size), ReLUDropout(dropout))


class Alignment(NamedTuple):
    """Weights of the hypothesis for each premise word [B, P, Q], and of the premise for each hypothesis word [B, Q, P].

    z [B, P Q] is the selection; `gates` is None unless the cells are gates.
    """

    of_hypothesis: Tensor
    of_premise: Tensor
    z: Tensor
    gates: GateDistribution | None


class SimplexAttention(nn.Module):
    """Alignment by a mapping from scores to weights that sum to 1 (a point of the simplex), for each direction.

    Source: eq. (N2), notebooks/13_train_nli.py.

    Parameters
    ----------
    num_features, size : int
        Sizes of a word's features, and of the space in which words are compared.
    mapping : one of `MAPPINGS`
    **arguments
        Arguments of the mapping: gamma, lam, p.
    """

    has_gates = False

    def __init__(self, num_features: int, size: int, dropout: float, mapping: str, **arguments: float):
        super().__init__()
        self.compare, self.mapping, self.arguments = feed_forward(num_features, size, dropout), mapping, arguments

    @classmethod
    def build(cls, num_features: int, p: AlignerSettings) -> "SimplexAttention":
        """The attention that the settings of a run describe. Uses model, hidden_size, dropout, gamma, lam, power."""
        return cls(num_features, p.hidden_size, p.dropout, p.model, **MAPPINGS[p.model].arguments(p))

    def forward(self, words: Words, cells: Tensor, draw: Draw) -> Alignment:
        """`cells`: bool [B, P, Q]; `draw` is ignored."""
        scores, mapping = products(words.through(self.compare)), MAPPINGS[self.mapping]
        weights = mapping(scores, cells, **self.arguments)
        return Alignment(weights, mapping(scores.mT, cells.mT, **self.arguments), weights.flatten(1), None)


class HardKumaAttention(nn.Module):
    """A HardKuma gate for each pair of words; both directions use the same matrix.

        a_ij = softplus(A(p_i) . A(q_j)),   b_ij = softplus(B(p_i) . B(q_j))

    A and B end in a ReLU, so both shapes are at least ln 2. As published, the weights of a word do not sum to 1, so
    their total grows with the number of open gates. `normalised` divides the weights by their sum.

    Source: eq. (N3), notebooks/13_train_nli.py; Bastings et al. 2019, sec. 6.

    Parameters
    ----------
    num_features, size : int
    left, right : float
        Support of the stretched gate.
    normalised : bool
        Whether the weights of a word are divided by their sum.
    """

    has_gates = True

    def __init__(
        self, num_features: int, size: int, dropout: float, left: float, right: float, normalised: bool = False
    ):
        super().__init__()
        self.compare_a = feed_forward(num_features, size, dropout)
        self.compare_b = feed_forward(num_features, size, dropout)
        self.left, self.right, self.normalised = left, right, normalised

    @classmethod
    def build(cls, num_features: int, p: AlignerSettings) -> "HardKumaAttention":
        """The attention that the settings of a run describe. Uses hidden_size, dropout, left, right, normalised."""
        return cls(num_features, p.hidden_size, p.dropout, p.left, p.right, p.normalised)

    def gates(self, words: Words) -> HardKuma:
        """Gates of batch shape [B, P Q]."""
        scores = (products(words.through(compare)) for compare in (self.compare_a, self.compare_b))
        a, b = (F.softplus(score).flatten(1) for score in scores)
        return HardKuma(a, b, self.left, self.right, validate_args=False)

    def forward(self, words: Words, cells: Tensor, draw: Draw) -> Alignment:
        gates = self.gates(words)
        z = draw(gates) * cells.flatten(1)
        weights = z.view(cells.shape)
        if not self.normalised:
            return Alignment(weights, weights.mT, z, gates)
        sums = (w.sum(-1, keepdim=True) for w in (weights, weights.mT))
        of_hypothesis, of_premise = (
            w / total.where(total > 0, 1.0) for w, total in zip((weights, weights.mT), sums, strict=True)
        )
        return Alignment(of_hypothesis, of_premise, z, gates)


ATTENTIONS: dict[str, type[SimplexAttention] | type[HardKumaAttention]] = {
    **dict.fromkeys(MAPPINGS, SimplexAttention),
    "hardkuma": HardKumaAttention,
}


class IntraAttention(nn.Module):
    """Each word attends to the words of its own sentence: [x_i; sum_j softmax_j(f(x_i) . f(x_j) + d(j - i)) x_j].

    d is one learned number per distance, up to `REACH` in each direction. Source: eq. (N4), notebooks/13_train_nli.py;
    Parikh et al. 2016, sec. 3.4. (In the authors' code of Bastings et al. this option stops with an error.)

    Parameters
    ----------
    num_features, size : int
    """

    def __init__(self, num_features: int, size: int, dropout: float):
        super().__init__()
        self.compare = feed_forward(num_features, size, dropout)
        self.distance = nn.Parameter(torch.zeros(2 * REACH + 1))

    def forward(self, words: Tensor, mask: Tensor) -> Tensor:
        """From [B, T, H] and bool [B, T] to [B, T, 2 H]."""
        compared = self.compare(words)
        at = torch.arange(words.shape[1], device=words.device)
        apart = (at - at.unsqueeze(1)).clamp(-REACH, REACH) + REACH  # [T, T]: j - i
        scores = compared @ compared.mT + self.distance[apart]
        weights = MAPPINGS["softmax"](scores, mask.unsqueeze(1).expand_as(scores))
        return torch.cat([words, weights @ words], -1)


class Aligner(nn.Module):
    """Decomposable attention over fixed word vectors.

    Parameters
    ----------
    vectors : [V, E]
    attention : SimplexAttention or HardKumaAttention
    size : int
        Units of every layer; 200 in the paper.
    intra : IntraAttention or None
    rule : str
        Test-time rule of gates, one of `nn.RULES`.
    """

    task, aligns = "alignment", True
    vectors: Tensor

    def __init__(
        self,
        vectors: Tensor,
        attention: SimplexAttention | HardKumaAttention,
        head: Head,
        size: int,
        dropout: float,
        intra: IntraAttention | None = None,
        rule: str = "argmax",
    ):
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)  # fixed
        features = size if intra is None else 2 * size
        self.project, self.dropout = nn.Linear(vectors.shape[1], size), Dropout(dropout)
        self.intra, self.selector, self.rule = intra, attention, rule
        self.compare = feed_forward(2 * features, size, dropout)
        self.aggregate, self.head = feed_forward(2 * size, size, dropout), head

    @property
    def has_gates(self) -> bool:
        """Whether the cells are gates rather than weights of a mapping."""
        return self.selector.has_gates

    def read(self, sides: Sides) -> Words:
        """The words of both sides as features."""
        words = Words.of(sides.first, sides.second).through(
            lambda indices: self.dropout(self.project(F.embedding(indices, self.vectors)))
        )
        if self.intra is None:
            return words
        premise, hypothesis = words.sides()
        return Words.of(self.intra(premise, sides.first_mask), self.intra(hypothesis, sides.second_mask))

    def aligned(self, sides: Sides, mask: Tensor, draw: Draw, num_samples: int = 1) -> tuple[Words, Alignment]:
        """Features of the words and their alignment; the batch is repeated K times."""
        words = self.read(sides)
        if num_samples > 1:
            words = Words.of(*(repeated(side, num_samples) for side in words.sides()))
        cells = repeated(mask, num_samples).view(-1, *words.lengths)
        return words, self.selector(words, cells, draw)

    def decided(self, mask: Tensor) -> Draw:
        """The test-time rule as a function of the gates of a batch with this mask of cells."""
        return lambda gates: decide(gates, self.rule, mask)

    def gates(self, sides: Sides, mask: Tensor, draw: Draw | None = None) -> GateDistribution | None:
        """Only the gates, batch shape [B, P Q]; None if the weights come from a mapping."""
        return self.aligned(sides, mask, draw or self.decided(mask))[1].gates

    def forward(self, sides: Sides, mask: Tensor, num_samples: int = 1) -> Output:
        """Align and predict: draws from the gates in training mode, decides by `rule` in evaluation mode.

        Parameters
        ----------
        sides : Sides
        mask : bool [B, P Q]
            `sides.cells()`.
        num_samples : int, K >= 1
        """
        draw = sample if self.training else self.decided(repeated(mask, num_samples))
        words, alignment = self.aligned(sides, mask, draw, num_samples)
        premise, hypothesis = words.sides()
        others = Words.of(alignment.of_hypothesis @ hypothesis, alignment.of_premise @ premise)
        compared = Words(apply_to_joined(self.compare, words.both, others.both), words.lengths)
        masks = (repeated(m, num_samples) for m in (sides.first_mask, sides.second_mask))
        summed = [
            (real.unsqueeze(1).to(side.dtype) @ side).squeeze(1)
            for side, real in zip(compared.sides(), masks, strict=True)
        ]
        return Output(self.head(self.aggregate(torch.cat(summed, -1))), alignment.z, alignment.gates)


class RecurrentPair(nn.Module):
    """The recurrent baseline: both sentences through one BiLSTM, their final states compared, no alignment.

        features = [p; h; |p - h|; p * h]

    Source: Bastings et al. 2019, app. B; Bowman et al. 2015.
    """

    task, aligns, has_gates = "alignment", False, False
    selector = None
    vectors: Tensor

    def __init__(self, vectors: Tensor, head: Head, size: int, dropout: float):
        super().__init__()
        self.register_buffer("vectors", vectors, persistent=False)  # fixed
        self.project, self.encoder = nn.Linear(vectors.shape[1], size), LSTMEncoder(size, size)
        features = 4 * self.encoder.output_size
        self.join = nn.Sequential(nn.Linear(features, features), ReLUDropout(dropout))
        self.dropout, self.head = ReLUDropout(dropout), head

    def read(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """From words [B, T] to one state per sentence [B, 2 H]."""
        words = self.dropout(self.project(F.embedding(tokens, self.vectors)))
        return self.encoder(words, mask)[1]

    def decided(self, mask: Tensor) -> Draw:
        raise NotImplementedError("a model without gates has nothing to decide")

    def gates(self, sides: Sides, mask: Tensor, draw: Draw | None = None) -> None:
        return None

    def forward(self, sides: Sides, mask: Tensor, num_samples: int = 1) -> Output:
        p = self.read(sides.first, sides.first_mask)
        h = self.read(sides.second, sides.second_mask)
        features = torch.cat([p, h, (p - h).abs(), p * h], -1)
        return Output(self.head(self.join(features)), mask.to(p.dtype), None)


def build_aligner(p: object, vectors: Tensor, head: str, num_outputs: int) -> Aligner | RecurrentPair:
    """The model that the settings of a run describe, newly initialised.

    Parameters
    ----------
    p : AlignerSettings, or any object with such attributes
    vectors : [V, E]
    head : "classes"
    num_outputs : int
    """
    p = AlignerSettings.of(p)
    size = p.hidden_size
    if p.model == "recurrent":
        features = 8 * size
        return initialise(RecurrentPair(vectors, HEADS[head](features, num_outputs, bias=False), size, p.dropout))
    features = 2 * size if p.intra else size
    attention = ATTENTIONS[p.model].build(features, p)
    intra = IntraAttention(size, size, p.dropout) if p.intra else None
    model = Aligner(vectors, attention, HEADS[head](size, num_outputs, bias=False), size, p.dropout, intra, p.rule)
    return initialise(model)
