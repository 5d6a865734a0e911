"""The aligner: decides whether one sentence follows from another by aligning their words.

    scores_ij = F(p_i) . F(q_j)
    p'_i = sum_j weight_ij q_j,   q'_j = sum_i weight_ji p_i       weights: a mapping of the scores, or HardKuma gates
    prediction = head(H(sum_i G(p_i, p'_i), sum_j G(q_j, q'_j)))

Source: eqs. (N1)-(N4), notebooks/13_train_nli.py; Parikh et al. 2016; Bastings et al. 2019, sec. 6; Niculae and Blondel
2017. `z` is the matrix of weights, premise by hypothesis, flattened: [B, P Q], and its mask is the mask of the
cells (pairs of words), so the constraint, the loop and the evaluation are the same as for rationale extractors.
"""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.data.batches import Sides
from rationale.distributions.numerics import softplus
from rationale.distributions.protocol import GateDistribution
from rationale.distributions.rectified import HardKuma
from rationale.models.pair_words import Words, products
from rationale.models.protocol import Output
from rationale.nn.dropout import Dropout, ReLUDropout
from rationale.nn.encoders import LSTMEncoder
from rationale.nn.fast import apply_to_joined
from rationale.nn.gates import GateSettings
from rationale.nn.heads import HEADS, Head
from rationale.nn.initialise import initialise
from rationale.nn.mappings import MAPPINGS, Mapping, MappingSettings, build_mapping, softmax, unused_by
from rationale.nn.own_laws import grid_of_outputs
from rationale.nn.rules import RULES, decide, require_values, selects
from rationale.nn.sampling import Draw, repeated, sample
from rationale.nn.start import inverse_softplus, widest_shapes
from rationale.settings import OneOf, Refusal, setting

REACH = 11  # intra-sentence attention: all larger distances share one number


def aligner_models() -> tuple[str, ...]:
    """All aligners: one per mapping, HardKuma gates on the cells, and the baseline without alignment."""
    return (*MAPPINGS, "hardkuma", "recurrent")


def rules_of_cells() -> tuple[str, ...]:
    """The rules that decide about a cell by itself."""
    return tuple(name for name, rule in RULES.items() if not rule.has_budget)


class AlignerSettings(MappingSettings, GateSettings):
    """How the words of two sentences are aligned."""

    model: Annotated[str, OneOf(aligner_models)] = setting("softmax", "how words are aligned")
    normalised: bool = setting(False, "HardKuma weights of a word are divided by their sum")
    intra: bool = setting(False, "each word first attends to the other words of its own sentence")
    rule: Annotated[str, OneOf(rules_of_cells)] = setting("argmax", "how a gate becomes a number at test time")
    hidden_size: int = setting(200, "units of every layer", "[1, inf)")
    dropout: float = setting(0.2, "probability of dropping a unit in training", "[0, 1)")

    def refused(self) -> Iterator[Refusal]:
        model = f"with model {self.model}"
        yield Refusal(
            self.normalised and self.model != "hardkuma", "normalised", model, "false, or hardkuma", meaningless=True
        )
        yield Refusal(
            self.intra and self.model == "recurrent", "intra", model, "false, or another model", meaningless=True
        )
        yield from unused_by(self, self.model)


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
    mapping : Mapping
    """

    has_gates = False

    def __init__(self, num_features: int, size: int, dropout: float, mapping: Mapping):
        super().__init__()
        self.compare, self.mapping = feed_forward(num_features, size, dropout), mapping

    @classmethod
    def build(cls, num_features: int, p: AlignerSettings) -> "SimplexAttention":
        """The attention that the settings of a run describe. Uses model, hidden_size, dropout, and the mapping's."""
        return cls(num_features, p.hidden_size, p.dropout, build_mapping(p.model, p))

    def forward(self, words: Words, cells: Tensor, draw: Draw) -> Alignment:
        """`cells`: bool [B, P, Q]; `draw` is ignored."""
        scores = products(words.through(self.compare))
        weights = self.mapping(scores, cells)
        return Alignment(weights, self.mapping(scores.mT, cells.mT), weights.flatten(1), None)


class HardKumaAttention(nn.Module):
    """A HardKuma gate for each pair of words; both directions use the same matrix.

        a_ij = softplus(A(p_i) . A(q_j) + c_a),   b_ij = softplus(B(p_i) . B(q_j) + c_b)

    A and B end in a ReLU. As published, there are no biases c, so both shapes are at least ln 2. Nor do the weights
    of a word sum to 1, so their total grows with the number of open gates; `normalised` divides them by their sum.

    Source: eq. (N3), notebooks/13_train_nli.py; Bastings et al. 2019, sec. 6.

    Parameters
    ----------
    num_features, size : int
    left, right : float
        Support of the stretched gate.
    normalised : bool
        Whether the weights of a word are divided by their sum.
    biased : bool
        Whether there are biases c, which `start_at` sets and training changes.
    """

    has_gates = True

    def __init__(
        self,
        num_features: int,
        size: int,
        dropout: float,
        left: float,
        right: float,
        normalised: bool = False,
        biased: bool = False,
    ):
        super().__init__()
        self.compare_a = feed_forward(num_features, size, dropout)
        self.compare_b = feed_forward(num_features, size, dropout)
        self.left, self.right, self.normalised = left, right, normalised
        self.bias = nn.Parameter(torch.zeros(2)) if biased else None

    @classmethod
    def build(cls, num_features: int, p: AlignerSettings) -> "HardKumaAttention":
        """The attention that the settings describe. Uses hidden_size, dropout, left, right, normalised, start."""
        return cls(num_features, p.hidden_size, p.dropout, p.left, p.right, p.normalised, p.start == "target")

    @torch.no_grad()
    def start_at(self, rate: float, scores: Tensor | None = None) -> None:
        """Set the biases so that cells have this rate.

        The biases are those with which a cell whose scores are 0 has this rate and the widest interior, eq. (S16). With
        the scores of some cells, c_a is then shifted until their mean P(z != 0) is the rate.

        Parameters
        ----------
        rate : float, in (0, 1)
        scores : [2, N] or None
            Products of A and of B, without biases, of N cells; None: one cell whose products are 0.
        """
        if self.bias is None:
            raise ValueError("biased: got False, accepted is True for a start at a rate")
        self.bias.copy_(inverse_softplus(widest_shapes(rate, self.left, self.right)))
        if scores is None:
            return
        of_a, b = scores[0].double(), softplus(scores[1].double() + self.bias[1])
        low, high = -50 - of_a.max(), 50 - of_a.min()  # the rate grows with c_a, from nearly 0 to nearly 1
        for _ in range(60):
            middle = (low + high) / 2
            gates = HardKuma(softplus(of_a + middle), b, self.left, self.right, validate_args=False)
            low, high = (low, middle) if gates.prob_nonzero.mean() > rate else (middle, high)
        self.bias[0] = middle

    def scores(self, words: Words) -> tuple[Tensor, Tensor]:
        """The products of A and of B, without biases, each [B, P, Q]."""
        return products(words.through(self.compare_a)), products(words.through(self.compare_b))

    def gates(self, words: Words) -> HardKuma:
        """Gates of batch shape [B, P Q]."""
        scores = self.scores(words)
        if self.bias is not None:
            scores = scores[0] + self.bias[0], scores[1] + self.bias[1]
        a, b = (softplus(score).flatten(1) for score in scores)
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


def attention_class(model: str) -> type[SimplexAttention] | type[HardKumaAttention]:
    """The class of the attention that the setting `model` chooses."""
    return HardKumaAttention if model == "hardkuma" else SimplexAttention


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
        weights = softmax(scores, mask.unsqueeze(1))
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

    Attributes
    ----------
    fast : bool
        True: without dropout, what a layer makes of a word alone is computed once for all its occurrences in a batch
        (on a CPU). False: it is computed for each occurrence, with the same result.
    """

    task, unit, position, reads_pieces = "alignment", "pair", "cell", False
    predicts_when_shut = True
    fast = True
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

    @property
    def floats_per_position(self) -> int:
        """Numbers that a training step keeps per cell, at the least.

        Measured are 56 to 79 with gates, and 12 to 17 with a mapping (2,000 words by 2,000).
        """
        return 40 if self.has_gates else 8

    @torch.no_grad()
    def take_layers(self, trained: "Aligner") -> None:
        """Copy the layers of an aligner with softmax attention, all but its attention.

        Gates with biases also start with its attention's network F as their network A, so that a cell is the more open
        the larger the score that softmax gave it. `HardKumaAttention.start_at` then says how open.
        """
        for name in ("project", "intra", "compare", "aggregate", "head"):
            layers = getattr(self, name)
            if layers is not None:
                layers.load_state_dict(getattr(trained, name).state_dict())
        if isinstance(self.selector, HardKumaAttention) and self.selector.bias is not None:
            assert isinstance(trained.selector, SimplexAttention)
            self.selector.compare_a.load_state_dict(trained.selector.compare.state_dict())

    def read(self, sides: Sides) -> Words:
        """The words of both sides as features."""
        words = Words.of(sides.first, sides.second)
        if self.fast and not self.training:  # in training, dropout distinguishes the occurrences of a word
            words = words.distinct()
        words = words.through(lambda indices: self.dropout(self.project(F.embedding(indices, self.vectors))))
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

    def selects(self, gates: GateDistribution, mask: Tensor) -> Tensor:
        """Whether the test-time rule gives a value that is not 0, bool [B, P Q]."""
        return selects(gates, self.rule, mask)

    def gates(self, sides: Sides, mask: Tensor, draw: Draw | None = None) -> GateDistribution | None:
        """Only the gates, batch shape [B, P Q]; None if the weights come from a mapping.

        They do not depend on `draw`, which is called only so that random numbers are drawn as in `forward`.
        """
        if draw is None and not RULES[self.rule].is_random and isinstance(self.selector, HardKumaAttention):
            return self.selector.gates(self.read(sides))
        return self.aligned(sides, mask, draw or self.decided(mask))[1].gates

    def forward(self, sides: Sides, mask: Tensor, num_samples: int = 1, draw: Draw | None = None) -> Output:
        """Align and predict: draws from the gates in training mode, decides by `rule` in evaluation mode.

        Parameters
        ----------
        sides : Sides
        mask : bool [B, P Q]
            `sides.cells()`.
        num_samples : int, K >= 1
        draw : function or None
            Gives the gates their values in the place of both, such as `shut`.
        """
        draw = draw or (sample if self.training else self.decided(repeated(mask, num_samples)))
        words, alignment = self.aligned(sides, mask, draw, num_samples)
        premise, hypothesis = words.sides()
        others = Words.of(alignment.of_hypothesis @ hypothesis, alignment.of_premise @ premise)
        compared = others.through(lambda rows: apply_to_joined(self.compare, words.each().rows, rows))
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

    task, unit, position, reads_pieces = "alignment", "pair", "cell", False
    has_gates, predicts_when_shut = False, False
    floats_per_position = 1  # per cell: the mask; the states of words are few beside it
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

    def selects(self, gates: GateDistribution, mask: Tensor) -> Tensor:
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
    head : "classes" or "scores"
    num_outputs : int

    Raises
    ------
    BadInput
        If a rule of one's own does not decide gates. So this is found before anything is trained.
    """
    everything, p = AlignerSettings.with_own(p), AlignerSettings.of(p)
    size = p.hidden_size
    if p.model == "recurrent":
        features = 8 * size
        return initialise(RecurrentPair(vectors, HEADS[head](features, num_outputs, bias=False), size, p.dropout))
    features = 2 * size if p.intra else size
    attention = attention_class(p.model).build(features, everything)
    if p.rule in RULES.files and attention.has_gates:
        a, b = softplus(grid_of_outputs(2)).unbind(-1)
        require_values(p.rule, HardKuma(a, b, everything.left, everything.right))
    intra = IntraAttention(size, size, p.dropout) if p.intra else None
    model = Aligner(vectors, attention, HEADS[head](size, num_outputs, bias=False), size, p.dropout, intra, p.rule)
    return initialise(model)
