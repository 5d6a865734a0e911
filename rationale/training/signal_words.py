"""Toy texts with one signal word per class, on which estimators and gates can be compared in seconds per model.

There are four classes. Each has one signal word, which stands at a random position among 40 kinds of filler words, or
at several positions, any of which is enough. So we know which words a model should select.
"""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from rationale.data import Batch
from rationale.distributions.protocol import GateDistribution
from rationale.models import build_extractor
from rationale.models.extractor import Extractor
from rationale.objectives import Constraint, RationaleObjective, build_objective, count_selected
from rationale.objectives.enumeration import CostTable, all_selections

NUM_CLASSES, FIRST_SIGNAL, FIRST_FILLER, NUM_WORDS = 4, 2, 6, 46  # rows 0 and 1: unknown word and padding
NORMS = ("L0", "L1", "L2")
USUAL = {
    "model": "bernoulli", "encoder": "lstm", "dropout": 0.0, "predictor": "zero", "left": -0.1, "right": 1.1,
    "rule": "argmax", "selection": None, "transitions": None, "measure": "training", "measure_every": 1,
    "dynamics": "signed", "multiplier_init": 0.0, "multiplier_rate": 0.01, "quadratic": 2.0, "smoothing": 0.8,
    "samples": 4, "baseline": "leave_one_out",
}  # fmt: skip


class SignalWords:
    """The toy: its texts, and extractors that learn to classify them.

    Parameters
    ----------
    p : settings
        With `seed`, `batch_size`, `embedding_size`, `hidden_size`, `learning_rate`, `num_steps` and `sparsity`.

    Attributes
    ----------
    vectors : [46, E]
        A random vector per word.
    """

    def __init__(self, p: Any):
        self.p = p
        torch.manual_seed(p.seed)
        self.vectors = torch.randn(NUM_WORDS, p.embedding_size)

    def texts(self, num_texts: int, length: int = 10, copies: int = 1) -> Batch[Tensor]:
        """Random texts in which the signal of their class stands at `copies` different positions."""
        tokens = torch.randint(FIRST_FILLER, NUM_WORDS, (num_texts, length))
        target = torch.randint(0, NUM_CLASSES, (num_texts,))
        where = torch.rand(num_texts, length).argsort(1)[:, :copies]  # [B, copies], distinct positions
        tokens.scatter_(1, where, (FIRST_SIGNAL + target).unsqueeze(1).expand(-1, copies))
        return Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), target, torch.arange(num_texts))

    def new_texts(self, num_texts: int, part: int, length: int = 10, copies: int = 1) -> Batch[Tensor]:
        """Texts that are the same at every call with the same `part`, whatever has been drawn before."""
        torch.manual_seed(self.p.seed + part)
        return self.texts(num_texts, length, copies)

    def settings(self, **changes: Any) -> SimpleNamespace:
        """The settings of a model and its objective: the usual ones, with changes."""
        return SimpleNamespace(**USUAL | {"hidden_size": self.p.hidden_size, "sparsity": self.p.sparsity} | changes)

    def set_up(
        self, bias: float = 0.0, start: int = 1, **changes: Any
    ) -> tuple[Extractor, RationaleObjective, torch.optim.Optimizer]:
        """A new model, its objective and its optimiser.

        Parameters
        ----------
        bias : float
            Of the logits of the gates; a large one opens them.
        start : int
            Which of several first weights.
        changes
            Settings that differ from the usual ones.
        """
        torch.manual_seed(self.p.seed + start)
        q = self.settings(**changes)
        model = build_extractor(q, self.vectors, "classes", NUM_CLASSES).train()
        if bias:
            torch.nn.init.constant_(model.selector.gate.logits.bias, bias)
        return model, build_objective(q).train(), torch.optim.Adam(model.parameters(), lr=self.p.learning_rate)

    def train(
        self, num_steps: int | None = None, length: int = 10, copies: int = 1, **changes: Any
    ) -> tuple[Extractor, dict[str, Tensor]]:
        """Train a model on new texts at every step.

        Returns
        -------
        model
            In evaluation mode.
        trace : name -> [num_steps]
            The numbers that the objective reports at each step, such as `task` and `rate`.
        """
        model, objective, optimizer = self.set_up(**changes)
        rows = []
        for _ in range(self.p.num_steps if num_steps is None else num_steps):
            step = objective(model, self.texts(self.p.batch_size, length, copies))
            optimizer.zero_grad()
            step.loss.backward()
            optimizer.step()
            rows.append({name: value.item() for name, value in step.parts.items()})
        return model.eval(), {name: torch.tensor([row[name] for row in rows]) for name in rows[0]}

    def train_with_norm(self, norm: str, rate: float, start: int = 1) -> Extractor:
        """Train HardKuma gates under the constraint that their mean per word in a norm is `rate`; see `norm_of`."""
        model, _, optimizer = self.set_up(model="hardkuma", baseline="none", samples=1, start=start)
        held = Constraint(rate, step=0.01, quadratic=2.0).train()
        for _ in range(self.p.num_steps):
            texts = self.texts(self.p.batch_size)
            output = model(texts.tokens, texts.mask)
            value = norm_of(output.gates, norm)
            held.update(value.detach(), 1.0)
            task = model.head.loss(output.prediction, texts.target).mean()
            optimizer.zero_grad()
            (task + held(value.log(), (-value).log1p())).backward()
            optimizer.step()
        return model.eval()

    @torch.no_grad()
    def evaluate(self, model: Extractor, length: int = 10, copies: int = 1, num_texts: int = 2000) -> dict[str, Any]:
        """How well a model does on new texts.

        Returns
        -------
        accuracy, rate (share of selected words), precision (share of selected words that are signals), words (selected
        per text), and two of bool [num_texts, length]: `signals`, and `kept`, the signals that are selected.
        """
        texts = self.new_texts(num_texts, 2, length, copies)
        output, signal = model(texts.tokens, texts.mask), is_signal(texts)
        kept = output.z != 0
        found = {"accuracy": model.head.score(output.prediction, texts.target).mean(), "rate": kept.float().mean()}
        found |= {"precision": (kept & signal).sum() / kept.sum().clamp(min=1), "words": kept.sum(1).float().mean()}
        return {name: value.item() for name, value in found.items()} | {"signals": signal, "kept": kept & signal}


def is_signal(texts: Batch[Tensor]) -> Tensor:
    """Which words of the texts are signals, bool [B, T]."""
    return texts.tokens < FIRST_FILLER


def norm_of(gates: GateDistribution, norm: str) -> Tensor:
    """The expected L0 norm, L1 norm or squared L2 norm of the gates, per word: [].

    Source: eq. (R10), notebooks/09_questions.py.

    Raises
    ------
    ValueError
        If the norm is not one of `NORMS`.
    """
    if norm == "L0":
        return gates.prob_nonzero.mean()
    if norm == "L1":
        return gates.mean.mean()
    if norm == "L2":
        return (gates.mean.square() + gates.variance).mean()
    raise ValueError(f"norm: got {norm!r}, accepted are {', '.join(NORMS)}")


@torch.no_grad()
def task_losses(model: Extractor, text: Batch[Tensor]) -> CostTable:
    """The logits of the gates of one text, and the task loss of each of its selections."""
    selections = all_selections(text.tokens.shape[1]).to(model.vectors.dtype)
    loss = _loss_of(model, text, selections)
    return CostTable(model.gates(text.tokens, text.mask).logits.double().squeeze(0), loss.double())


def _loss_of(model: Extractor, text: Batch[Tensor], z: Tensor) -> Tensor:
    """The task loss of each row of gate values of one text, [R, T] -> [R]."""
    embedded = model.embed(text.tokens).expand(len(z), -1, -1)
    prediction = model.predictor(embedded, text.mask.expand(len(z), -1), z)
    return model.head.loss(prediction, text.target.expand(len(z)))


def with_price(task: CostTable, price: float) -> CostTable:
    """The table of task losses with the price of the selected words added."""
    return CostTable(task.logits, task.cost + price * count_selected(task.selections))


def straight_through_gradient(model: Extractor, text: Batch[Tensor], table: CostTable, price: float) -> Tensor:
    """The exact mean of the straight-through estimate of the gradient by the logits of the gates of one text, [T].

        (E[d loss / d z_t] + price) p_t (1 - p_t)

    It is a sum over all selections, in which a derivative of the loss by a gate value takes the place of the difference
    between two selections. Source: eq. (R11), notebooks/09_questions.py; Bengio, Leonard & Courville 2013.

    Parameters
    ----------
    table : CostTable
        The gates of the text, and any costs of its selections.
    """
    z = table.selections.to(model.vectors.dtype).requires_grad_()
    (by_z,) = torch.autograd.grad((table.chances.to(z) * _loss_of(model, text, z)).sum(), z)
    p = table.logits.sigmoid()
    return (by_z.sum(0).double() + price) * p * (1 - p)


def hesitating_text(model: Extractor, price: float, texts: Iterable[Batch[Tensor]]) -> Batch[Tensor]:
    """The first of some texts on which the right answer is known, but the model still hesitates.

    The cheapest selection is the signal alone, and at least three gates are undecided, that is, open with a probability
    between 0.1 and 0.9. If there is no such text, the last one is returned.
    """
    text = None
    for text in texts:
        table = with_price(task_losses(model, text), price)
        undecided = ((table.logits.sigmoid() - 0.5).abs() < 0.4).sum()
        if table.cheapest == is_signal(text)[0].nonzero().flatten().tolist() and undecided >= 3:
            break
    if text is None:
        raise ValueError("texts: got none, accepted is at least one text")
    return text


@torch.no_grad()
def log_chances(model: Extractor, text: Batch[Tensor]) -> Tensor:
    """ln p(z) of each selection of one text under dependent gates, which are fed this selection: [2^T].

    Source: eq. (R3), notebooks/08_reinforce.py.
    """
    selections = all_selections(text.tokens.shape[1]).to(model.vectors.dtype)
    fed = iter(selections.unbind(1))
    embedded = model.embed(text.tokens).expand(len(selections), -1, -1)
    mask = text.mask.expand(len(selections), -1)
    gates = model.selector(embedded, mask, lambda gates: next(fed)).gates  # noqa: ARG005
    return gates.log_prob(selections).sum(1)


def running_mean(values: Tensor, window: int = 10) -> Tensor:
    """The mean of each value and the `window` - 1 values before it, or of as many as there are: [S] -> [S]."""
    sums = torch.cat([values.new_zeros(1, dtype=torch.float64), values.double().cumsum(0)])
    ends = torch.arange(1, len(values) + 1)
    starts = (ends - window).clamp(min=0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def first_below(values: Tensor, level: float) -> float:
    """The index of the first value below a level; infinity if there is none."""
    below = (values < level).nonzero()
    return float(below[0]) if len(below) else float("inf")


@torch.no_grad()
def distance_after_zeros(model: Extractor, num_zeros: int) -> float:
    """How far apart the four signals keep the last state of the predictor after a number of unselected words.

    It is the mean distance between the states after texts that begin with a selected signal, one text per class, and
    go on with `num_zeros` words that are not selected, so that an LSTM reads zero vectors.
    """
    size = 1 + num_zeros
    signals = torch.arange(FIRST_SIGNAL, FIRST_FILLER)[:, None].expand(NUM_CLASSES, size)
    first_only = (torch.arange(size) == 0).float().expand(NUM_CLASSES, -1)
    mask = torch.ones(NUM_CLASSES, size, dtype=torch.bool)
    states = model.predictor.pool(*model.predictor.read(model.embed(signals), mask, first_only))  # [4, S]
    return torch.pdist(states).mean().item()
