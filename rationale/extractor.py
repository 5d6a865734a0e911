"""The extractor: a selector chooses tokens, a predictor sees only those.

    gates_t = gate(h_t),  h = encoder(embed(x))          selector
    z_t ~ gates_t  (training),   z_t = decide(gates_t)   (test)
    prediction = head(encoder(z * embed(x)))             predictor

Source: eqs. (S1)-(S2), notebooks/04_selecting_text.py; Bastings et al. 2019, sec. 5.
Selector and predictor have separate encoders and share only the (fixed) word vectors.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn import functional as F

from rationale.distributions import log_uniform
from rationale.encoders import ENCODERS, Dropout, Pool
from rationale.gates import GATES, STRETCHED, decide, top_k
from rationale.params import MAPPINGS
from rationale.recurrence import MemoryScan, RCNNCell

WITHOUT_GATES = ("full_text", "attention", "svm", *MAPPINGS, "recurrent")  # models that read everything
MEMORY = 30  # numbers in which a dependent selector remembers its own selection; the paper's size


class Output(NamedTuple):
    """What one pass returns: everything a loss or an evaluation needs."""

    prediction: Tensor  # [K B, C]: logits (classes) or scores in [0, 1]; K draws a text, mostly 1
    z: Tensor  # [K B, T] gate values in [0, 1], 0 at padding
    gates: Distribution | None  # of batch shape [K B, T]; None for a model that reads everything
    dependent: bool = False  # True where a gate depends on the draws before it
    log_switches: Tensor | None = None  # [K B, T - 1] ln P(switch after t), of a selector that looks ahead


class Classes(nn.Module):
    """Head for one of C classes: logits, cross-entropy in nats, accuracy."""

    metric, higher_is_better = "accuracy", True

    def __init__(self, num_features: int, num_outputs: int, bias: bool = True):
        super().__init__()
        self.output = nn.Linear(num_features, num_outputs, bias)

    def forward(self, features: Tensor) -> Tensor:
        return self.output(features)

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Cross-entropy in nats per example, [B, C] and [B] -> [B]."""
        return F.cross_entropy(prediction, target, reduction="none")

    def score(self, prediction: Tensor, target: Tensor) -> Tensor:
        """1 where the likeliest class is the target, else 0: [B]."""
        return (prediction.argmax(1) == target).float()

    def answer(self, prediction: Tensor) -> Tensor:
        """Class index [B] for people and files."""
        return prediction.argmax(1)


class Scores(nn.Module):
    """Head for K scores in [0, 1]: sigmoid, squared error."""

    metric, higher_is_better = "mse", False

    def __init__(self, num_features: int, num_outputs: int):
        super().__init__()
        self.output = nn.Linear(num_features, num_outputs)

    def forward(self, features: Tensor) -> Tensor:
        return torch.sigmoid(self.output(features))

    def loss(self, prediction: Tensor, target: Tensor) -> Tensor:
        """Mean squared error over the K scores of each example, [B, K] twice -> [B]."""
        return (prediction - target).square().mean(1)

    def score(self, prediction: Tensor, target: Tensor) -> Tensor:
        """The same squared error: [B]."""
        return self.loss(prediction, target)

    def answer(self, prediction: Tensor) -> Tensor:
        """Scores [B, K] for people and files."""
        return prediction


HEADS = {"classes": Classes, "scores": Scores}


Draw = Callable[[Distribution], Tensor]  # from gates to their values


class Selection(NamedTuple):
    """What a selector returns."""

    z: Tensor  # [K B, T]
    gates: Distribution  # of batch shape [K B, T]
    log_switches: Tensor | None = None  # [K B, T - 1]: see `DependentSelector`


class Selector(nn.Module):
    """Encoder and gate: embedded tokens to one gate a token, independent of each other given the text."""

    dependent = False

    def __init__(self, encoder: nn.Module, gate: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.gate, self.dropout = encoder, gate, Dropout(dropout)

    def forward(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        """Values of the gates and their distributions.

        Parameters
        ----------
        embedded : [B, T, E]
        mask : bool [B, T]
        draw : function
            From gates to values, e.g. `lambda gates: gates.rsample()`.
        num_samples : int, K >= 1
            Rows are repeated K times, the whole batch after itself: row k B + i is draw k of text i.
        """
        gates = self.gates(embedded, mask, draw, num_samples)
        return Selection(draw(gates), gates)

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Distribution:
        """The gates alone; `draw` matters only where they depend on each other."""
        states, _ = self.encoder(self.dropout(embedded), mask)  # [B, T, S]
        return self.gate(repeated(states, num_samples))


class DependentSelector(Selector):
    """Gates that know which words before them were selected: p(z_t | x, z_1 .. z_{t-1}).

        gates_t = gate([h_t; s_{t-1}]),   s_t = RCNN([h_t; z_t], s_{t-1})

    Source: eq. (R3), notebooks/05_reinforce.py; Lei et al. 2016; Bastings et al. 2019, app. B. At test time the
    decided value is what is fed back. Where draws pass gradients (HardKuma), they flow through s as well.

    Parameters
    ----------
    encoder : encoder
    gate : gate over S + cell.hidden_size features
    cell : RCNNCell with S + 1 inputs
    look_ahead : bool
        Also return the chance of a switch between two neighbours, right in expectation (see `_switches`).
    """

    dependent = True

    def __init__(
        self, encoder: nn.Module, gate: nn.Module, cell: RCNNCell, dropout: float = 0.0, look_ahead: bool = False
    ):
        super().__init__(encoder, gate, dropout)
        self.cell, self.look_ahead = cell, look_ahead

    def forward(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Selection:
        states, _ = self.encoder(self.dropout(embedded), mask)
        states = repeated(states, num_samples).transpose(0, 1)  # [T, K B, S]
        weight, bias = self.gate.linear()
        of_states, of_memory = weight.split((states.shape[-1], self.cell.hidden_size), 1)
        asked = F.linear(states, of_states, bias)  # [T, K B, G]: of the gates, all that does not wait for s
        of_states, of_z = self.cell.inputs.weight.split((states.shape[-1], 1), 1)
        projected = F.linear(states, of_states, self.cell.input_bias)  # [T, K B, 3H]: of the cell, all but z
        pathwise = draw is sample and self.gate.of(asked[:0]).has_rsample
        noise = log_uniform(asked.shape[:2], asked) if pathwise else None

        def decide(raw: Tensor, t: int) -> Tensor:
            return self.gate.of(raw).rsample_at(noise[t]) if pathwise else draw(self.gate.of(raw))

        def slopes(raw: Tensor) -> Tensor | None:
            if not pathwise:
                return None
            with torch.enable_grad():
                raw = raw.detach().requires_grad_()
                return torch.autograd.grad(self.gate.of(raw).rsample_at(noise).sum(), raw)[0]

        recurrent, bias, of_z = self.cell.recurrent.weight, self.cell.bias, of_z.squeeze(1)
        *memory, z = MemoryScan.apply(asked, projected, of_memory, recurrent, bias, of_z, decide, slopes)
        raw = asked + F.linear(memory[0], of_memory)  # [T, K B, G]: the loop's, all at once
        gates, switches = self.gate.of(raw.transpose(0, 1)), None
        if pathwise:
            drawn = gates.rsample_at(noise.T)
            z = drawn.T + (z - drawn.T).detach()  # the loop's value to the last digit, with its gradient
            if self.look_ahead:
                step = [part[:-1] for part in (projected, *memory)]
                switches = self._switches(self.gate.of(raw[:-1]), noise[:-1], step, asked[1:], of_memory, of_z).T
        return Selection(z.T, gates, switches)

    def gates(self, embedded: Tensor, mask: Tensor, draw: Draw, num_samples: int = 1) -> Distribution:
        return self(embedded, mask, draw, num_samples).gates

    def _switches(self, gates, noise, step, asked, of_memory, of_z) -> Tensor:
        """ln P(one of z_t, z_{t+1} is 0 and the other is not | z_1 .. z_{t-1}), unbiased: [T - 1, K B].

            P(z_t = 0) P(z_{t+1} != 0 | z_t = 0) + P(z_t != 0) E[P(z_{t+1} = 0 | z_t) | z_t != 0]

        The memory moves on twice, once from z_t = 0 and once from a draw of z_t given that it is not 0; what was in
        fact drawn does not matter. Source: eq. (S14), notebooks/04_selecting_text.py; Bastings et al. 2019, app. B.
        """
        projected, *state = step

        def after(z: Tensor) -> Distribution:
            hidden, _, _ = self.cell(projected + z.unsqueeze(-1) * of_z, state)
            return self.gate.of(asked + F.linear(hidden, of_memory))

        some = gates.rsample_at(gates.log_prob_nonzero + noise)
        opens = gates.log_prob_zero + after(torch.zeros_like(some)).log_prob_nonzero
        return torch.logaddexp(opens, gates.log_prob_nonzero + after(some).log_prob_zero)


class Predictor(nn.Module):
    """Encoder and head over the gated tokens.

    Parameters
    ----------
    mode : "zero" or "compact"
        zero: gated embeddings stay in place, unselected ones are zero vectors. The paper's on SST; an LSTM still
        steps over them, so the length of the text and the place of the gaps remain visible.
        compact: unselected tokens are removed and the rest closes up, so only the rationale is seen.
    pool : Pool or None
        From the states to one state a text; None: the encoder's final states.
    """

    def __init__(
        self, encoder: nn.Module, head: nn.Module, dropout: float = 0.0, mode: str = "zero", pool: Pool | None = None
    ):
        super().__init__()
        if mode not in ("zero", "compact"):
            raise ValueError(f"mode: got {mode!r}, accepted are 'zero', 'compact'")
        self.encoder, self.head, self.dropout, self.mode = encoder, head, Dropout(dropout), mode
        self.pool = Pool("final", encoder.output_size) if pool is None else pool

    def read(self, embedded: Tensor, mask: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The encoder over the gated tokens: states, final state, and the mask of what it read."""
        if self.mode == "compact":
            keep = mask & (z > 0)
            (embedded, mask), (z, _) = compact(embedded, keep), compact(z.unsqueeze(-1), keep)
        else:
            z = z.unsqueeze(-1)
        gated = self.dropout(embedded) * z  # [B, T, E]
        return *self.encoder(gated, mask), mask

    def forward(self, embedded: Tensor, mask: Tensor, z: Tensor) -> Tensor:
        return self.head(self.dropout(self.pool(*self.read(embedded, mask, z))))  # [B, C]


def compact(values: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """Move the kept positions of each row to its front, in order.

    Parameters
    ----------
    values : [B, T, E]
    keep : bool [B, T]

    Returns
    -------
    values [B, S, E], mask bool [B, S]
        S is the largest number of kept positions in a row, at least 1.
    """
    counts = keep.sum(1)  # [B]
    size = max(int(counts.max()), 1)
    order = torch.argsort(keep, dim=1, descending=True, stable=True)[:, :size]  # [B, S]
    mask = torch.arange(size, device=keep.device) < counts.unsqueeze(1)
    return values.gather(1, order.unsqueeze(-1).expand(-1, -1, values.shape[-1])), mask


class Extractor(nn.Module):
    """Selector and predictor over fixed word vectors; without a selector, a full-text model.

    Parameters
    ----------
    vectors : [V, E]
        Word vectors; fixed.
    selector : Selector or None
        None reads the whole text (z = 1 everywhere).
    predictor : Predictor
    rule : str
        Test-time rule, one of `gates.RULES`. A model with attention and no selector reads everything, but at test
        time, with `top_k`, only the words of the largest attention weights, with `threshold` those that reach it.
    threshold, budget : float
        Of the rules `threshold` and `top_k`.
    """

    def __init__(
        self,
        vectors: Tensor,
        selector: Selector | None,
        predictor: Predictor,
        rule: str = "argmax",
        threshold: float = 0.5,
        budget: float = 1.0,
    ):
        super().__init__()
        self.register_buffer("vectors", vectors)
        self.selector, self.predictor = selector, predictor
        self.rule, self.threshold, self.budget = rule, threshold, budget

    @property
    def head(self) -> nn.Module:
        return self.predictor.head

    def embed(self, tokens: Tensor) -> Tensor:
        """Word vectors [B, T, E] of tokens [B, T]."""
        return F.embedding(tokens, self.vectors)

    def decided(self, mask: Tensor) -> Draw:
        """The test-time rule, ready for the gates of a batch with this mask."""
        return lambda gates: decide(gates, self.rule, mask, self.threshold, self.budget)

    def gates(self, tokens: Tensor, mask: Tensor, draw: Draw | None = None) -> Distribution | None:
        """The gates alone, batch shape [B, T]. Dependent gates are fed with `draw` (None: the test-time rule)."""
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
            Draws a text. The output has K B rows, the whole batch after itself.
        """
        embedded, rows = self.embed(tokens), repeated(mask, num_samples)  # [B, T, E], [K B, T]
        if self.selector is not None:
            draw = sample if self.training else self.decided(rows)
            z, gates, switches = self.selector(embedded, mask, draw, num_samples)
        else:
            z = mask.to(embedded.dtype) if self.training else self.attended(tokens, mask)
            z, gates, switches = repeated(z, num_samples), None, None
        z = z * rows  # [K B, T]
        dependent = gates is not None and self.selector.dependent
        prediction = self.predictor(repeated(embedded, num_samples), rows, z)
        return Output(prediction, z, gates, dependent, switches)

    def attended(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """1 for the words that a model without gates reads at test time, [B, T]: see `rule`."""
        if self.predictor.pool.kind == "attention" and self.rule == "top_k":
            return top_k(self.importance(tokens, mask), mask, self.budget)
        if self.predictor.pool.kind == "attention" and self.rule == "threshold":
            return (self.importance(tokens, mask) >= self.threshold).to(self.vectors.dtype)
        return mask.to(self.vectors.dtype)

    def importance(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """How much the model itself says each word counts: [B, T], larger is more.

        ln P(z_t != 0) for gates (what the rule decided is fed back where they depend on each other), else the
        attention weights over the whole text.

        Raises
        ------
        ValueError
            If the model has neither gates nor attention.
        """
        if self.selector is not None:
            return self.gates(tokens, mask).log_prob_nonzero
        if self.predictor.pool.kind != "attention":
            raise ValueError("a model without gates and without attention says nothing about single words")
        states, _ = self.predictor.encoder(self.embed(tokens), mask)
        return self.predictor.pool.weights(states, mask)


def repeated(values: Tensor, num_samples: int) -> Tensor:
    """[B, ...] -> [K B, ...], the whole batch after itself; not a copy where K = 1."""
    return values if num_samples == 1 else torch.cat([values] * num_samples)


def sample(gates: Distribution) -> Tensor:
    """One draw, which passes gradients on where the distribution has `rsample`."""
    return gates.rsample() if gates.has_rsample else gates.sample()


def initialise(module: nn.Module) -> nn.Module:
    """Glorot-uniform weights, zero biases; for an LSTM each of its four gates is a matrix of its own."""
    for name, parameter in module.named_parameters():
        if parameter.dim() < 2:
            nn.init.zeros_(parameter)
        elif "weight_ih" in name or "weight_hh" in name:
            for block in parameter.data.chunk(4):
                nn.init.xavier_uniform_(block)
        else:
            nn.init.xavier_uniform_(parameter)
    return module


def build_extractor(p: SimpleNamespace, vectors: Tensor, head: str, num_outputs: int) -> Extractor:
    """The extractor that the parameters of a run describe, freshly initialised.

    Parameters
    ----------
    p : parameters
        Uses model, dependent, look_ahead, encoder, hidden_size, dropout, predictor, pool, rule, threshold, budget,
        left, right.
    vectors : [V, E]
        Word vectors.
    head : "classes" or "scores"
    num_outputs : int
        Number of classes or scores.
    """
    size = vectors.shape[1]

    def encoder():
        return ENCODERS[p.encoder](size, p.hidden_size)

    selector = None
    if p.model not in WITHOUT_GATES:
        features = encoder()
        support = {"left": p.left, "right": p.right} if p.model in STRETCHED else {}
        if p.dependent:
            gate = GATES[p.model](features.output_size + MEMORY, **support)
            cell = RCNNCell(features.output_size + 1, MEMORY)
            selector = DependentSelector(features, gate, cell, p.dropout, p.look_ahead)
        else:
            selector = Selector(features, GATES[p.model](features.output_size, **support), p.dropout)
    reader = encoder()
    pool = Pool("attention" if p.model == "attention" else p.pool, reader.output_size)
    predictor = Predictor(reader, HEADS[head](pool.output_size, num_outputs), p.dropout, p.predictor, pool)
    return initialise(Extractor(vectors, selector, predictor, p.rule, p.threshold, p.budget))
