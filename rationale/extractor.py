"""The extractor: a selector chooses tokens, a predictor sees only those.

    gates_t = gate(h_t),  h = encoder(embed(x))          selector
    z_t ~ gates_t  (training),   z_t = decide(gates_t)   (test)
    prediction = head(encoder(z * embed(x)))             predictor

Source: eqs. (S1)-(S2), notebooks/04_selecting_text.py; Bastings et al. 2019, sec. 5.
Selector and predictor have separate encoders and share only the (fixed) word vectors.
"""

from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Distribution
from torch.nn import functional as F

from rationale.encoders import ENCODERS
from rationale.gates import GATES, decide


class Output(NamedTuple):
    """What one pass returns: everything a loss or an evaluation needs."""

    prediction: Tensor  # [B, C]: logits (classes) or scores in [0, 1]
    z: Tensor  # [B, T] gate values in [0, 1], 0 at padding
    gates: Distribution | None  # of batch shape [B, T]; None for a model that reads everything


class Classes(nn.Module):
    """Head for one of C classes: logits, cross-entropy in nats, accuracy."""

    metric, higher_is_better = "accuracy", True

    def __init__(self, num_features: int, num_outputs: int):
        super().__init__()
        self.output = nn.Linear(num_features, num_outputs)

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


class Selector(nn.Module):
    """Encoder and gate: embedded tokens to one gate distribution a token."""

    def __init__(self, encoder: nn.Module, gate: nn.Module, dropout: float = 0.0):
        super().__init__()
        self.encoder, self.gate, self.dropout = encoder, gate, nn.Dropout(dropout)

    def forward(self, embedded: Tensor, mask: Tensor) -> Distribution:
        states, _ = self.encoder(self.dropout(embedded), mask)  # [B, T, S]
        return self.gate(states)


class Predictor(nn.Module):
    """Encoder and head over the gated tokens.

    Parameters
    ----------
    mode : "zero" or "compact"
        zero: gated embeddings stay in place, unselected ones are zero vectors. The paper's; an LSTM still
        steps over them, so the length of the text and the place of the gaps remain visible.
        compact: unselected tokens are removed and the rest closes up, so only the rationale is seen.
    """

    def __init__(self, encoder: nn.Module, head: nn.Module, dropout: float = 0.0, mode: str = "zero"):
        super().__init__()
        if mode not in ("zero", "compact"):
            raise ValueError(f"mode: got {mode!r}, accepted are 'zero', 'compact'")
        self.encoder, self.head, self.dropout, self.mode = encoder, head, nn.Dropout(dropout), mode

    def forward(self, embedded: Tensor, mask: Tensor, z: Tensor) -> Tensor:
        gated = self.dropout(embedded) * z.unsqueeze(-1)  # [B, T, E]
        if self.mode == "compact":
            gated, mask = compact(gated, mask & (z > 0))
        _, final = self.encoder(gated, mask)  # [B, S]
        return self.head(self.dropout(final))


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
        Test-time rule, one of `gates.RULES`.
    """

    def __init__(self, vectors: Tensor, selector: Selector | None, predictor: Predictor, rule: str = "argmax"):
        super().__init__()
        self.register_buffer("vectors", vectors)
        self.selector, self.predictor, self.rule = selector, predictor, rule

    @property
    def head(self) -> nn.Module:
        return self.predictor.head

    def gates(self, tokens: Tensor, mask: Tensor) -> Distribution | None:
        """The gate distributions alone, batch shape [B, T]."""
        return None if self.selector is None else self.selector(F.embedding(tokens, self.vectors), mask)

    def forward(self, tokens: Tensor, mask: Tensor) -> Output:
        """Select and predict: samples the gates in training mode, decides by `rule` in evaluation mode.

        Parameters
        ----------
        tokens : long [B, T]
        mask : bool [B, T]
            True for real tokens, first in each row.
        """
        embedded = F.embedding(tokens, self.vectors)  # [B, T, E]
        if self.selector is None:
            gates, z = None, mask.to(embedded.dtype)
        else:
            gates = self.selector(embedded, mask)
            z = gates.rsample() if self.training else decide(gates, self.rule)
            z = z * mask  # [B, T]
        return Output(self.predictor(embedded, mask, z), z, gates)


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
        Uses model, encoder, hidden_size, dropout, predictor, rule, left, right.
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
    if p.model != "full_text":
        features = encoder()
        gate = GATES[p.model](features.output_size, left=p.left, right=p.right)
        selector = Selector(features, gate, p.dropout)
    reader = encoder()
    predictor = Predictor(reader, HEADS[head](reader.output_size, num_outputs), p.dropout, p.predictor)
    return initialise(Extractor(vectors, selector, predictor, p.rule))
