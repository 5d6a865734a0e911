"""The extractor: a selector chooses tokens, a predictor reads only those.

    gates_t = gate(h_t),  h = encoder(embed(x))          selector
    z_t ~ gates_t  (training),   z_t = decide(gates_t)   (test)
    prediction = head(encoder(z * embed(x)))             predictor

Source: eqs. (S1)-(S2), notebooks/05_count_words.py; Bastings et al. 2019, sec. 5.
Selector and predictor have separate encoders and share only the (fixed) word vectors, unless `shared_encoder` gives
them one encoder. With `closeness` above 0, a second predictor reads every word in training; see `Extractor.auxiliary`.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.protocol import GateDistribution
from rationale.models.pretrained_encoder import PretrainedSettings
from rationale.models.protocol import Output
from rationale.models.remedies import RemedySettings
from rationale.models.selector import MEMORY_SIZE, DependentSelector, Selector
from rationale.nn.dropout import Dropout
from rationale.nn.encoders import Encoder, EncoderSettings, build_encoder, find_encoder
from rationale.nn.gates import GATES, GateSettings, build_gate
from rationale.nn.heads import HEADS, Head
from rationale.nn.initialise import initialise
from rationale.nn.pooling import POOLS, AttentionPool, FinalPool, Pool, build_pool
from rationale.nn.rcnn import RCNNCell
from rationale.nn.rules import RULES, DecisionSettings, decide, selects
from rationale.nn.sampling import Draw, repeated, sample
from rationale.settings import OneOf, setting

ROWS = 32  # that a transformer reads at a time, if many selections of a text are read

# Extractors without gates; the pool of each, or None if the setting `pool` chooses it
WHOLE_TEXT: dict[str, type[Pool] | None] = {"full_text": None, "attention": AttentionPool}


def extractor_models() -> tuple[str, ...]:
    """All extractors: two that read the whole text, and one per kind of gate."""
    return (*WHOLE_TEXT, *GATES)


class ExtractorSettings(EncoderSettings, PretrainedSettings, GateSettings, DecisionSettings, RemedySettings):
    """How words are selected, and how the selection is read."""

    model: Annotated[str, OneOf(extractor_models)] = setting("hardkuma", "how words are selected")
    dependent: bool = setting(False, "each gate depends on what was selected before it")
    look_ahead: bool = setting(False, "switches of dependent gates without bias, not by the authors' plug-in")
    predictor: Literal["zero", "compact"] = setting("zero", "unselected words are zeroed or removed")
    pool: Annotated[str, OneOf(lambda: POOLS)] = setting("final", "from the states of the words to one state per text")
    train_vectors: bool = setting(False, "random word vectors are trained, too; those of a file stay as they are")

    def trains_vectors(self, vectors: str) -> bool:
        """Whether the word vectors are trained, if `vectors` is the setting that names them."""
        return self.train_vectors and vectors == "random" and not find_encoder(self.encoder).reads_pieces


class Predictor(nn.Module):
    """Encoder and head over the gated tokens.

    Parameters
    ----------
    mode : "zero" or "compact"
        zero: gated embeddings stay in place, unselected ones are zero vectors, as in the paper on SST. An LSTM still
        steps over them, so the length of the text and the positions of the gaps remain visible.
        compact: unselected tokens are removed and the gaps are closed, so only the rationale is visible.
    pool : Pool or None
        From the states to one state per text; None: the encoder's final states.
    """

    def __init__(
        self, encoder: Encoder, head: Head, dropout: float = 0.0, mode: str = "zero", pool: Pool | None = None
    ):
        super().__init__()
        if mode not in ("zero", "compact"):
            raise ValueError(f"mode: got {mode!r}, accepted are 'zero', 'compact'")
        self.encoder, self.head, self.dropout, self.mode = encoder, head, Dropout(dropout), mode
        self.pool = FinalPool(encoder.output_size) if pool is None else pool

    def read(self, embedded: Tensor, mask: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The encoder over the gated tokens: states, final state, and the mask of the tokens that it read."""
        if self.mode == "compact":
            keep = mask & (z > 0)
            (embedded, mask), (z, _) = compact(embedded, keep), compact(z.unsqueeze(-1), keep)
            z = z.squeeze(-1)
        return *self.encoder.read(embedded, mask, self.dropout, z), mask

    def forward(self, embedded: Tensor, mask: Tensor, z: Tensor) -> Tensor:
        return self.predict(*self.read(embedded, mask, z))

    def predict(self, states: Tensor, final: Tensor, mask: Tensor) -> Tensor:
        """The prediction [B, C] from what `read` gives."""
        return self.head(self.dropout(self.pool(states, final, mask)))

    @torch.no_grad()
    def pooled(self, vectors: Tensor, tokens: Tensor, mask: Tensor, z: Tensor) -> Tensor:
        """The state of each text [R, S] that the head receives at test time: `pool(*read(vectors[tokens], mask, z))`.

        It is made for many rows that differ only in `z`: what they have in common is read once (`Encoder.read_rows`).

        Parameters
        ----------
        vectors : [V, E]
        tokens : long [R, T]
        mask : bool [R, T]
        z : [R, T], in [0, 1]
        """
        if self.encoder.reads_pieces:  # each piece is read beside all others, so rows have nothing in common
            read = mask & (z > 0) if self.mode == "compact" else mask
            order = read.sum(1).argsort()  # rows of similar length are read together, with little padding
            parts = [self.pool(*self.read(F.embedding(tokens[i], vectors), mask[i], z[i])) for i in order.split(ROWS)]
            return torch.cat(parts)[order.argsort()]
        if not tokens.shape[1]:  # a text without a position is read as one step of padding
            tokens, mask, z = (F.pad(part, (0, 1)) for part in (tokens, mask, z))
        values, number = z.unique(return_inverse=True)  # sorted, so 0 comes first if it occurs
        inputs = (tokens * len(values) + number).masked_fill(z == 0, 0)  # [R, T]: all words that are not read are equal
        if self.mode == "compact":
            inputs, mask = compact(inputs.unsqueeze(-1), mask & (z > 0))
            inputs = inputs.squeeze(-1)
        distinct, inputs = inputs.unique(return_inverse=True)
        gated = vectors[distinct // len(values)] * values[distinct % len(values)].unsqueeze(1)  # [W, E]
        return self.pool(*self.encoder.read_rows(gated, inputs, mask, self.pool.reads_states), mask)


def compact(values: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Move the kept positions of each row to its front, in order.

    Parameters
    ----------
    values : [B, T, E]
    keep : bool [B, T]

    Returns
    -------
    values [B, S, E], mask bool [B, S]
        S is the largest number of kept positions in a row, at least 1 if T is; in an exported graph, whose shapes
        depend on no value, it is T.
    """
    counts = keep.sum(1)  # [B]
    size = keep.shape[1]
    if not torch.compiler.is_compiling():
        size = min(size, max(int(counts.max()) if len(counts) else 0, 1))
    order = torch.argsort(keep, dim=1, descending=True, stable=True)[:, :size]  # [B, S]
    mask = torch.arange(size, device=keep.device) < counts.unsqueeze(1)
    return values.gather(1, order.unsqueeze(-1).expand(-1, -1, values.shape[-1])), mask


class Extractor(nn.Module):
    """Selector and predictor over word vectors, usually fixed ones; without a selector, a full-text model.

    Parameters
    ----------
    vectors : [V, E]
        Word vectors. For an encoder that reads them, the word pieces of each word, long [V, P].
    selector : Selector or None
        None: the whole text is read (z = 1 everywhere).
    predictor : Predictor
    rule : str
        Test-time rule, one of `nn.RULES`. A model with attention and no selector reads the whole text in training.
        At test time it reads the words with the largest attention weights if the rule is `top_k`, and the words whose
        weight is at least the threshold if the rule is `threshold`.
    threshold, budget : float
        Arguments of the rules `threshold` and `top_k`.
    train_vectors : bool
        Whether the word vectors are weights of the model instead, which selector and predictor share.
    auxiliary : Predictor or None
        A second predictor, which only training uses. It reads every word, multiplied by P(Z_t != 0) instead of by a
        draw, so that words which are hardly ever selected tell the selector what they are worth. Source: Yu et al.
        2021 (A2R), who weigh the words by a softmax of the selector instead.
    auxiliary_reads_states : bool
        Whether the second predictor has no encoder of its own and predicts from the states of the selector, which has
        read every word already. This costs next to nothing, but the gates learn from it only through what they share.
    """

    task, unit, position, predicts_when_shut = "extraction", "text", "word", False
    vectors: Tensor

    def __init__(
        self,
        vectors: Tensor,
        selector: Selector | None,
        predictor: Predictor,
        rule: str = "argmax",
        threshold: float = 0.5,
        budget: float = 1.0,
        auxiliary: Predictor | None = None,
        train_vectors: bool = False,
        auxiliary_reads_states: bool = False,
    ):
        super().__init__()
        if train_vectors:
            self.vectors = nn.Parameter(vectors.clone())
        else:
            self.register_buffer("vectors", vectors, persistent=False)  # fixed
        self.selector, self.predictor, self.auxiliary = selector, predictor, auxiliary
        self.auxiliary_reads_states = auxiliary_reads_states
        self.rule, self.threshold, self.budget = rule, threshold, budget

    @property
    def head(self) -> Head:
        return self.predictor.head

    @property
    def has_gates(self) -> bool:
        """Whether a selector chooses words; a model without a selector reads the whole text."""
        return self.selector is not None

    @property
    def reads_pieces(self) -> bool:
        """Whether `vectors` are word pieces, which a tokenizer also has for words that no training text holds."""
        return self.predictor.encoder.reads_pieces

    @property
    def ranks_words(self) -> bool:
        """Whether the model itself gives the importance of each word; see `importance`."""
        return self.has_gates or self.predictor.pool.weighs_words

    @property
    def floats_per_position(self) -> int:
        """Numbers that a training step keeps per word of a batch, at the least."""
        third = None if self.auxiliary_reads_states else self.auxiliary
        parts = [part for part in (self.selector, self.predictor, third) if part is not None]
        return sum(part.encoder.floats_per_position for part in parts)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the gates' values and of the predictions."""
        return next(self.head.parameters()).dtype

    def embed(self, tokens: Tensor) -> Tensor:
        """Word vectors [B, T, E] of tokens [B, T]; for an encoder that reads them, word pieces [B, T, P]."""
        return F.embedding(tokens, self.vectors)

    def decided(self, mask: Tensor) -> Draw:
        """The test-time rule as a function of the gates of a batch with this mask."""
        return lambda gates: decide(gates, self.rule, mask, self.threshold, self.budget)

    def selects(self, gates: GateDistribution, mask: Tensor) -> Tensor:
        """Whether the test-time rule gives a value that is not 0, bool [B, T]."""
        return selects(gates, self.rule, mask, self.threshold, self.budget)

    def gates(self, tokens: Tensor, mask: Tensor, draw: Draw | None = None) -> GateDistribution | None:
        """Only the gates, batch shape [B, T]. Dependent gates read values from `draw` (None: the test-time rule)."""
        if self.selector is None:
            return None
        return self.selector.gates(self.embed(tokens), mask, draw or self.decided(mask))

    def forward(self, tokens: Tensor, mask: Tensor, num_samples: int = 1) -> Output:
        """Select and predict: draws from the gates in training mode, decides by `rule` in evaluation mode.

        Parameters
        ----------
        tokens : long [B, T]
        mask : bool [B, T]
            True for real tokens, first in each row.
        num_samples : int, K >= 1
            Draws per text. The output has K B rows: the whole batch, K times in a row.
        """
        embedded, rows = self.embed(tokens), repeated(mask, num_samples)  # [B, T, E], [K B, T]
        if self.selector is not None:
            draw = sample if self.training else self.decided(rows)
            states, final = self.selector.read(embedded, mask)
            z, gates, switches = self.selector.select(states, draw, num_samples)
        else:
            z = mask.to(self.dtype) if self.training else self.attended(tokens, mask)
            z, gates, switches = repeated(z, num_samples), None, None
        z = z * rows  # [K B, T]
        dependent = self.selector is not None and self.selector.dependent
        embedded = repeated(embedded, num_samples)
        prediction, second = self.predictor(embedded, rows, z), None
        if self.auxiliary is not None and self.training:
            assert gates is not None  # a model without gates has no auxiliary predictor
            if self.auxiliary_reads_states:
                second = repeated(self.auxiliary.predict(states, final, mask), num_samples)
            else:
                second = self.auxiliary(embedded, rows, gates.prob_nonzero * rows)
        return Output(prediction, z, gates, dependent, switches, second)

    def read_all(self, tokens: Tensor, mask: Tensor) -> Output:
        """The prediction from every word, without gates; see `RemedySettings.whole_text_epochs`.

        Parameters
        ----------
        tokens : long [B, T]
        mask : bool [B, T]
        """
        z = mask.to(self.dtype)
        return Output(self.predictor(self.embed(tokens), mask, z), z, None)

    def attended(self, tokens: Tensor, mask: Tensor, importance: Tensor | None = None) -> Tensor:
        """1 for the words that a model without gates reads at test time, else 0, [B, T]; see `rule`.

        `importance` is that of the words, if it is known already.
        """
        rule = RULES[self.rule]
        if self.predictor.pool.weighs_words and rule.reads_weights:
            weights = self.importance(tokens, mask) if importance is None else importance
            return rule.of_weights(weights, mask, self.threshold, self.budget)
        return mask.to(self.dtype)

    @torch.no_grad()
    def chosen(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """The values of the gates at test time, [B, T], and the `importance` of the words if the model ranks them."""
        if self.selector is not None:
            z, gates, _ = self.selector(self.embed(tokens), mask, self.decided(mask))
            return z * mask, gates.log_prob_nonzero
        importance = self.importance(tokens, mask) if self.ranks_words else None
        return self.attended(tokens, mask, importance), importance

    @torch.no_grad()
    def predict_selected(self, tokens: Tensor, mask: Tensor, selections: Tensor) -> Tensor:
        """The predictions [K, B, C] at test time from K selections [K, B, T] of each text.

        It equals `predictor(embed(tokens), mask, z)` for each z of `selections`, and what the selections have in common
        is read once. It records no graph.
        """
        rows, masks = (part.expand(selections.shape).flatten(0, 1) for part in (tokens, mask))  # [K B, T]
        pooled = self.predictor.pooled(self.vectors, rows, masks, selections.flatten(0, 1))
        return self.head(pooled).unflatten(0, selections.shape[:2])

    def importance(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """The importance of each word according to the model itself, [B, T]; larger is more important.

        ln P(z_t != 0) for gates (dependent gates read the decisions of the rule), else the attention weights over the
        whole text.

        Raises
        ------
        ValueError
            If the model has neither gates nor attention.
        """
        gates = self.gates(tokens, mask)
        if gates is not None:
            return gates.log_prob_nonzero
        if not self.predictor.pool.weighs_words:
            raise ValueError("a model without gates and without attention gives no importance of single words")
        states, _ = self.predictor.encoder(self.embed(tokens), mask)
        return self.predictor.pool.weights(states, mask)


def build_extractor(p: object, vectors: Tensor, head: str, num_outputs: int) -> Extractor:
    """The extractor that the settings of a run describe, newly initialised.

    Parameters
    ----------
    p : ExtractorSettings, or any object with such attributes
    vectors : [V, E]
        Word vectors.
    head : "classes" or "scores"
    num_outputs : int
        Number of classes or scores.

    Raises
    ------
    ValueError
        If a setting is not accepted, such as a `p.model` that is neither a gate nor reads the whole text.
    """
    everything, p = ExtractorSettings.with_own(p), ExtractorSettings.of(p)
    size = vectors.shape[1]

    def encoder() -> Encoder:
        return build_encoder(p.encoder, size, everything)

    selector: Selector | None = None
    if p.model in GATES:
        features = encoder()
        if p.dependent:
            dependent_gate = build_gate(p.model, features.output_size + MEMORY_SIZE, everything)
            cell = RCNNCell(features.output_size + 1, MEMORY_SIZE)
            selector = DependentSelector(features, dependent_gate, cell, p.dropout, p.look_ahead)
        else:
            selector = Selector(features, build_gate(p.model, features.output_size, everything), p.dropout)

    def predictor(mode: str, shares: bool = p.shared_encoder) -> Predictor:
        reader = selector.encoder if selector is not None and shares else encoder()
        whole = WHOLE_TEXT.get(p.model)
        pool = build_pool(p.pool, reader.output_size) if whole is None else whole(reader.output_size)
        return Predictor(reader, HEADS[head](pool.output_size, num_outputs), p.dropout, mode, pool)

    first = predictor(p.predictor)
    of_states = p.second_reads == "states"
    second = predictor("zero", p.shared_encoder or of_states) if selector is not None and p.closeness else None
    trained = p.trains_vectors(getattr(everything, "vectors", "random"))
    return initialise(Extractor(vectors, selector, first, p.rule, p.threshold, p.budget, second, trained, of_states))
