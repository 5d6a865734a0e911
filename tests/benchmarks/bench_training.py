"""One training step of the SST extractor at the paper's sizes, against the usual way of writing it.

Both ways hold the same weights and compute the same loss (tests/test_benchmarks.py compares losses and gradients):

the usual way   random batches; packed sequences through a bidirectional nn.LSTM; Adam; one `.item()` a step.
                hardkuma: textbook formulas with clamps and noise in (0.001, 0.999), the multiplicative
                Lagrangian. bernoulli: one draw a text, a price counted on it, no baseline
the package     `training.loop._train_epoch` with the parameters of notebook 12: batches of like length, two LSTMs
                instead of packing, exact log forms. hardkuma: a pass without dropout every second step to
                measure the rate. bernoulli: as in `BERNOULLI`, two draws a text, each the other's baseline, the
                price in closed form; "one draw, no baseline" is `USUAL_BERNOULLI`, the loss of the usual way

A step is everything from the numbers of the texts to the new weights. Texts are the training sentences of
SST where `RATIONALE_DATA` has them, else random words in sentences of SST's lengths. Word vectors are random:
no step depends on their values.
"""

import contextlib
import functools
import importlib.util
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from rationale import training
from rationale.data import Batch, Batches, Example, Vocabulary
from rationale.data.corpora.sst import read_sst
from rationale.errors import BadInput
from rationale.models import Extractor, build_extractor, pretrained_encoder
from rationale.objectives import build_objective
from rationale.progress import Progress
from rationale.runs.cells import notebook_settings
from rationale.runs.yaml_files import read_file
from rationale.training import loop
from rationale.training.extraction import multiplies_in_bfloat16
from rationale.training.settings import OwnTextSettings

ROOT = Path(__file__).parents[2]
STEPS = 20  # a timed call, over batches of all lengths
BERNOULLI = ROOT / "params" / "sst" / "bernoulli.yaml"
# the estimator and the price of the usual way
USUAL_BERNOULLI = {"samples": 1, "baseline": "none", "penalty": "sampled", "entropy": 0.0}

# How many training sentences of SST have 1, 2, ... 52 words: mean 19.1.
LENGTHS = (
    0,
    40,
    96,
    152,
    154,
    231,
    218,
    228,
    265,
    298,
    305,
    308,
    319,
    334,
    353,
    334,
    327,
    342,
    351,
    325,
    312,
    317,
    296,
    290,
    259,
    238,
    223,
    226,
    171,
    157,
    158,
    151,
    124,
    123,
    99,
    69,
    54,
    61,
    38,
    31,
    40,
    24,
    24,
    20,
    18,
    11,
    3,
    8,
    8,
    4,
    4,
    3,
)


# ------------------------------------------------------------------------------------------------- the usual way


GATE_LAYERS = {"hardkuma": ("a", "b"), "bernoulli": ("logits",), "full_text": ()}  # named as in the package


class Usual(nn.Module):
    """Selector and predictor as they are usually written; `forward` returns the loss of one batch.

    Uses model, hidden_size, dropout, selection (hardkuma), sparsity and coherence (bernoulli) of the parameters.
    """

    def __init__(self, vectors: Tensor, p: SimpleNamespace):
        super().__init__()
        size, hidden_size = vectors.shape[1], p.hidden_size
        self.model, self.selection, self.sparsity, self.coherence = p.model, p.selection, p.sparsity, p.coherence
        self.embed = nn.Embedding.from_pretrained(vectors, freeze=True)
        self.dropout = nn.Dropout(p.dropout)
        self.reader = nn.LSTM(size, hidden_size, batch_first=True, bidirectional=True)
        self.output = nn.Linear(2 * hidden_size, 5)
        if p.model != "full_text":
            self.selector = nn.LSTM(size, hidden_size, batch_first=True, bidirectional=True)
        for name in GATE_LAYERS[p.model]:
            setattr(self, name, nn.Linear(2 * hidden_size, 1))
        self.register_buffer("multiplier", torch.tensor(1e-4))
        self.register_buffer("gap", torch.tensor(0.0))

    def forward(self, tokens: Tensor, lengths: Tensor, target: Tensor, z: Tensor | None = None) -> Tensor:
        """tokens [B, T], longest text first; lengths [B] on the CPU; z [B, T] replaces the draw (for tests)."""
        mask = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
        embedded = self.embed(tokens)
        if self.model == "hardkuma":
            drawn, prob_zero = self.hardkuma(self.states(embedded, lengths))
            z = drawn if z is None else z
        elif self.model == "bernoulli":
            gates = torch.distributions.Bernoulli(logits=self.logits(self.states(embedded, lengths)).squeeze(-1))
            z = gates.sample() if z is None else z
        gated = self.dropout(embedded)
        if z is not None:
            gated = gated * (z * mask).unsqueeze(-1)
        _, (final, _) = self.reader(pack_padded_sequence(gated, lengths, batch_first=True))
        logits = self.output(self.dropout(torch.cat([final[0], final[1]], 1)))
        task = F.nll_loss(logits.log_softmax(1), target, reduction="none")
        if self.model == "hardkuma":
            return task.mean() + self.constraint(prob_zero, mask, lengths)
        if self.model == "bernoulli":
            return task.mean() + self.score_function(task, gates, z, mask)
        return task.mean()

    def states(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """What the selector read, [B, T, 2H]."""
        packed, _ = self.selector(pack_padded_sequence(self.dropout(embedded), lengths, batch_first=True))
        return pad_packed_sequence(packed, batch_first=True)[0]

    def hardkuma(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """A draw of every gate and P(H = 0), [B, T] each."""
        a, b = (F.softplus(line(states).squeeze(-1)).clamp(1e-6, 100.0) for line in (self.a, self.b))
        u = torch.empty_like(a).uniform_(0.001, 0.999)
        k = (1 - (1 - u).pow(1 / b)).pow(1 / a)
        return (-0.1 + 1.2 * k).clamp(0, 1), (1 - (1 - (1 / 12) ** a).pow(b)).clamp(1e-6, 1 - 1e-6)

    def score_function(self, task: Tensor, gates: torch.distributions.Bernoulli, z: Tensor, mask: Tensor) -> Tensor:
        """The cost of each draw, its own price included, times its log-probability."""
        words = torch.where(mask, z, 0.0).sum(1)
        switches = torch.where(mask[:, 1:], (z[:, 1:] - z[:, :-1]).abs(), 0.0).sum(1)
        cost = task + self.sparsity * words + self.coherence * switches  # [B]
        log_prob = torch.where(mask, gates.log_prob(z), 0.0).sum(1)
        return (cost.detach() * log_prob).mean()

    def constraint(self, prob_zero: Tensor, mask: Tensor, lengths: Tensor) -> Tensor:
        """The Lagrangian term for a rate of `selection`, the multiplier moved first."""
        rate = (torch.where(mask, 1 - prob_zero, 0.0).sum(1) / lengths).mean()
        gap = rate - self.selection
        self.gap = 0.99 * self.gap + 0.01 * gap.detach()
        self.multiplier = self.multiplier * torch.exp(0.01 * self.gap)
        return self.multiplier * (gap + (self.gap - gap).detach())


def usual_from(model: Extractor, p: SimpleNamespace) -> Usual:
    """The same weights in the usual form."""
    usual = Usual(model.vectors, p)
    pairs = [(model.predictor.encoder, usual.reader)]
    usual.output.load_state_dict(model.head.output.state_dict())
    if model.selector is not None:
        pairs.append((model.selector.encoder, usual.selector))
    for name in GATE_LAYERS[p.model]:
        getattr(usual, name).load_state_dict(getattr(model.selector.gate, name).state_dict())
    for ours, theirs in pairs:
        weights = dict(ours.ahead.state_dict())
        weights |= {f"{name}_reverse": value for name, value in ours.back.state_dict().items()}
        theirs.load_state_dict(weights)
    return usual


def usual_steps(model: Usual, few: "Few", p: SimpleNamespace) -> Callable[[], float]:
    """A callable that makes one step on each of these batches and returns the seconds of a step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=p.learning_rate, weight_decay=p.weight_decay)
    encode = few.batches.vocabulary.encode
    numbered = [(encode(example.tokens), example.label) for example in few.batches.examples]
    chosen = [[numbered[i] for i in index.tolist()] for index in few.chosen]

    def steps() -> float:
        model.train()
        total, start = 0.0, time.perf_counter()
        for texts in chosen:
            texts = sorted(texts, key=lambda text: -len(text[0]))
            tokens = pad_sequence([torch.tensor(rows) for rows, _ in texts], batch_first=True, padding_value=1)
            lengths = torch.tensor([len(rows) for rows, _ in texts])
            loss = model(tokens, lengths, torch.tensor([label for _, label in texts]))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), p.clip_norm)
            optimizer.step()
            total += loss.item()
        return (time.perf_counter() - start) / len(chosen)

    return steps


# ----------------------------------------------------------------------------------------------------- the package


class Few:
    """A few batches of an epoch, evenly spread over their lengths, in a random order; cut anew every time."""

    def __init__(self, batches: Batches, number: int = STEPS):
        self.batches = batches
        ordered = sorted((batch.rows for batch in batches.epoch(1)), key=lambda i: int(batches.lengths[i].max()))
        number = min(number, len(ordered))
        spread = [ordered[(2 * k + 1) * len(ordered) // (2 * number)] for k in range(number)]
        order = torch.randperm(number, generator=torch.Generator().manual_seed(0))
        self.chosen = [spread[k] for k in order.tolist()]

    def __len__(self) -> int:
        return len(self.chosen)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        return map(self.batches.rows, self.chosen)


def package_steps(model: Extractor, few: Few, p: SimpleNamespace) -> Callable[[], float]:
    """A callable that runs the package's loop over these batches and returns the seconds of a step."""
    optimizer = training.build_optimizer(model, p)
    state = training.TrainingState(model, build_objective(p), optimizer, scheduler=None)

    def steps() -> float:
        with contextlib.redirect_stderr(io.StringIO()):  # no terminal, no progress bar
            row = loop._train_epoch(state, few, 1, p.clip_norm, Progress(epochs=1))
        return row["seconds"] / len(few)

    return steps


def floor_steps(model: Extractor, few: Few) -> Callable[[], float]:
    """A callable that runs only the LSTMs of the model over these batches, and returns the seconds of a step."""
    encoders = [part.encoder for part in (model.selector, model.predictor) if part is not None]

    def steps() -> float:
        start = time.perf_counter()
        for batch in few.epoch(1):
            embedded = model.embed(batch.tokens)
            read = [part for encoder in encoders for part in encoder(embedded, batch.mask)]
            torch.autograd.grad(sum(part.sum() for part in read), [p for e in encoders for p in e.parameters()])
        return (time.perf_counter() - start) / len(few)

    return steps


def pretrained_steps(examples: list[Example], number: int, **changes) -> Callable[[], float]:
    """The same for an extractor with MiniLM and the defaults of notebook 17, which is loaded for the first call."""
    fixed = {"quadratic": 10.0, "multiplier_rate": 0.1}  # in a run they follow from the texts; the time does not
    chosen = {"encoder": "minilm", "device": "cpu"} | fixed | changes
    p = OwnTextSettings(corpus="sst", **(OwnTextSettings.following(chosen) | chosen))

    @functools.cache
    def steps() -> Callable[[], float]:
        model, batches = training.prepare_extractor(p, {"train": examples}, "classes", 5)
        return package_steps(model, Few(batches["train"], number), p)

    return lambda: steps()()


def attention_too(steps: Callable[[], float]) -> Callable[[], float]:
    """The same steps with attention in bfloat16, which the package leaves in float32 on a CPU."""

    def changed() -> float:
        plain = functools.partial(torch.autocast, dtype=torch.bfloat16)
        with patch.object(pretrained_encoder, "multiplying_in_bfloat16", lambda device: plain(device.type)):
            return steps()

    return changed


# ----------------------------------------------------------------------------------------------------------- cases


def parameters(**changes) -> SimpleNamespace:
    """The defaults of notebook 12, which are the paper's sizes (for model bernoulli, `BERNOULLI`), with changes."""
    if changes.get("model") == "bernoulli":
        changes = {name: value for _, name, value in read_file(BERNOULLI)} | {"sparsity": 0.01} | changes
    if changes.get("model") == "full_text":
        changes |= {"selection": None}
    return notebook_settings(ROOT / "notebooks" / "12_train_sst.py", **changes)


@functools.cache
def sentences(number: int | None = None) -> tuple[str, list[Example]]:
    """Where the texts come from, and the first `number` of them (None: all)."""
    try:
        return "sentences of SST", read_sst()["train"][:number]
    except BadInput:
        pass
    generator = torch.Generator().manual_seed(0)
    lengths = torch.arange(1, len(LENGTHS) + 1).repeat_interleave(torch.tensor(LENGTHS))
    lengths = lengths[torch.randperm(len(lengths), generator=generator)].tolist()[:number]
    words = iter(torch.randint(16000, (sum(lengths),), generator=generator).tolist())
    examples = [Example(tuple(f"w{next(words)}" for _ in range(length)), length % 5) for length in lengths]
    return "random words in sentences of SST's lengths", examples


def models(p: SimpleNamespace, vectors: Tensor) -> tuple[Extractor, Usual]:
    """The same weights in both forms."""
    torch.manual_seed(p.seed)
    model = build_extractor(p, vectors, "classes", 5)
    return model, usual_from(model, p)


def cases(number: int | None = None, steps: int = STEPS, **changes) -> dict[str, dict[str, Callable[[], float]]]:
    """One step of the extractors (HardKuma, Bernoulli) and of the full-text model, in milliseconds a step."""
    source, examples = sentences(number)
    vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))
    p = parameters(**changes)
    vectors = 0.4 * torch.randn(len(vocabulary), p.embedding_size)
    few = {
        bucketed: Few(Batches(examples, vocabulary, p.batch_size, p.seed, bucketed), steps)
        for bucketed in (True, False)
    }
    groups = {}
    for name in ("hardkuma", "bernoulli", "full_text"):

        def package(bucketed: bool = True, name: str = name, **changed) -> Callable[[], float]:
            q = parameters(**changes, model=name, **changed)
            return package_steps(models(q, vectors)[0], few[bucketed], q)

        def usual(bucketed: bool = False, name: str = name) -> Callable[[], float]:
            q = parameters(**changes, model=name)
            return usual_steps(models(q, vectors)[1], few[bucketed], q)

        if name == "bernoulli":
            ways = {
                "the usual way (one draw, no baseline)": usual(),
                "the package, one draw, no baseline": package(**USUAL_BERNOULLI),
                "the package, one draw, no baseline, random batches": package(bucketed=False, **USUAL_BERNOULLI),
                "the package (two draws, leave-one-out)": package(),
                "the package, one draw, self-critical": package(samples=1, baseline="self_critical"),
            }
        else:
            ways = {"the usual way": usual(), "the package": package()}
            if name == "hardkuma":
                ways["the package, no pass to measure the rate"] = package(measure="training")
            ways["the package, random batches"] = package(bucketed=False)
        ways["the usual way, batches of like length"] = usual(bucketed=True)
        ways["the floor (the LSTMs alone)"] = floor_steps(
            models(parameters(**changes, model=name), vectors)[0], few[True]
        )
        groups[f"one training step, {name}, batches of {p.batch_size} {source}"] = ways
    if importlib.util.find_spec("transformers"):
        ways = {"float32": pretrained_steps(examples, steps, bfloat16=False)}
        ways["float32, no second predictor"] = pretrained_steps(examples, steps, closeness=0.0)
        reads = "float32, a second predictor of the selector's states"
        ways[reads] = pretrained_steps(examples, steps, second_reads="states")
        if multiplies_in_bfloat16(torch.device("cpu")):
            ways["bfloat16"] = pretrained_steps(examples, steps, bfloat16=True)
            ways["bfloat16, attention too"] = attention_too(pretrained_steps(examples, steps, bfloat16=True))
        groups[f"one training step, HardKuma and MiniLM, batches of up to 32 {source}"] = ways
    return groups
