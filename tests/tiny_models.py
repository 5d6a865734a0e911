"""A tiny model of every kind on any device, with an objective and a batch: for the tests of devices and of the GPU.

Only the library is needed (torch, numpy, safetensors, pydantic, PyYAML): no notebook is read.
"""

import importlib.util
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn

from rationale import models
from rationale.data import Batch, Sides
from rationale.explain import FrozenModel, Probe, ProbeObjective
from rationale.explain.diffmask import BilinearVotes, MLPVotes
from rationale.nn import GATES, MAPPINGS
from rationale.objectives import WordLoss, build_objective
from rationale.training.probing import AnswerLoss, freeze
from rationale.training.settings import AlignmentSettings, ExtractionSettings, GenerationSettings

ROWS, WORDS, VOCABULARY, SIZE = 4, 6, 30, 6
LENGTHS = (6, 4, 5, 1)


class Case(NamedTuple):
    """What a training step needs."""

    model: nn.Module
    objective: nn.Module
    batch: Batch


def settings_of(kind: type, changes: dict) -> SimpleNamespace:
    """The defaults of a class of settings with changes, at a tiny size."""
    known = {name: field.default for name, field in kind.model_fields.items() if not field.is_required()}
    sizes = {"hidden_size": SIZE, "embedding_size": SIZE, "dropout": 0.0}
    return SimpleNamespace(**known | sizes | changes)


def texts(device: str, rows: int = ROWS) -> Batch:
    """A batch of texts of different lengths, with classes."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, VOCABULARY, (rows, WORDS), generator=generator)
    lengths = torch.tensor([LENGTHS[row % len(LENGTHS)] for row in range(rows)])
    mask = torch.arange(WORDS) < lengths.unsqueeze(1)
    target = torch.randint(3, (rows,), generator=generator)
    tokens = tokens.masked_fill(~mask, 1)
    return Batch(*(part.to(device) for part in (tokens, mask, target, torch.arange(rows))))


def pairs(device: str) -> Batch:
    """A batch of pairs of texts, whose mask is that of the cells."""
    first, second = texts("cpu"), texts("cpu")
    tokens, mask = second.tokens.roll(1, 0)[:, :-1], second.mask.roll(1, 0)[:, :-1]
    sides = Sides(*(part.to(device) for part in (first.tokens, first.mask, tokens, mask)))
    return Batch(sides, sides.cells(), first.target.to(device), first.rows.to(device))


def moved(batch: Batch, device: str) -> Batch:
    """A batch on another device, whatever its tokens are."""
    tokens = batch.tokens
    tokens = tokens.to(device) if torch.is_tensor(tokens) else type(tokens)(*(side.to(device) for side in tokens))
    return Batch(tokens, *(part.to(device) for part in batch[1:4]), *batch[4:])


def extractor(device: str, **changes) -> Case:
    """An extractor of classes, with its objective."""
    p = settings_of(ExtractionSettings, changes)
    model = models.build_extractor(p, torch.randn(VOCABULARY, SIZE), "classes", 3).to(device)
    if p.start == "target":
        model.selector.start_at(p.selection)
    return Case(model, build_objective(p, 4, model.has_gates).to(device), texts(device))


def aligner(device: str, **changes) -> Case:
    """An aligner of pairs, with its objective."""
    p = settings_of(AlignmentSettings, changes)
    model = models.build_aligner(p, torch.randn(VOCABULARY, SIZE), "classes", 3).to(device)
    return Case(model, build_objective(p, 4, model.has_gates).to(device), pairs(device))


def encoder_decoder(device: str, **changes) -> Case:
    """An encoder-decoder, with its objective."""
    p = settings_of(GenerationSettings, changes)
    return Case(models.build_seq2seq(p, VOCABULARY, VOCABULARY, 2).to(device), WordLoss(), pairs(device))


def counter(device: str) -> Case:
    """The model of the toy task of probes, with its objective."""
    batch = pairs(device)
    sides = batch.tokens._replace(second=batch.tokens.second[:, :2], second_mask=batch.tokens.second_mask[:, :2])
    batch = Batch(sides, sides.first_mask, batch.target.clamp(max=1), batch.rows)
    return Case(models.DigitCounter(VOCABULARY, SIZE).to(device), AnswerLoss(), batch)


def transformer(device: str, bfloat16: bool = False) -> Case:
    """A classifier over a small BERT with random weights, with its objective."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = models.Classifier(transformers.BertModel(config, add_pooling_layer=False), 3, separator=2).to(device)
    model.in_bfloat16 = bfloat16
    return Case(model, AnswerLoss(), texts(device))


def probe(device: str, target: str, votes: str = "mlp", subject: Callable[[str], Case] = counter) -> Case:
    """A probe of a frozen model, with its objective."""
    model, _, batch = subject(device)
    frozen: FrozenModel = freeze(model)
    frozen.model.requires_grad_(False).eval()
    sizes = [state.shape[-1] for state in frozen.read(batch)[1]]
    networks = BilinearVotes(sizes) if votes == "bilinear" else MLPVotes(sizes, 4, target == "inputs")
    baselines = [torch.zeros(size) for size in (sizes[:1] if target == "inputs" else sizes)]
    return Case(
        Probe(frozen, networks, target, baselines).to(device), ProbeObjective(len(sizes), 0.03).to(device), batch
    )


DRAWN = {"samples": 2, "baseline": "leave_one_out"}
HELD = {"selection": 0.4, "start": "target"}

# by name: a function of the device
KINDS: dict[str, Callable[[str], Case]] = {
    "full text": lambda device: extractor(device, model="full_text"),
    "attention": lambda device: extractor(device, model="attention", pool="attention"),
    **{
        f"extractor, {name}": lambda device, name=name: extractor(device, model=name, **HELD)
        for name in GATES
        if not name.startswith("test")
    },
    "extractor, rate of the rule": lambda device: extractor(device, measure="selected", measure_every=1, **HELD),
    "extractor, authors": lambda device: extractor(device, selection=0.4, dynamics="authors", multiplier_init=1e-4),
    "bernoulli, two draws": lambda device: extractor(device, model="bernoulli", sparsity=0.1, entropy=0.01, **DRAWN),
    "bernoulli, average": lambda device: extractor(
        device, model="bernoulli", sparsity=0.1, penalty="sampled", baseline="average", warmup=2.0
    ),
    "bernoulli, self-critical": lambda device: extractor(
        device, model="bernoulli", coherence=0.1, baseline="self_critical"
    ),
    "rcnn": lambda device: extractor(device, encoder="rcnn", **HELD),
    "dependent": lambda device: extractor(
        device, encoder="rcnn", dependent=True, look_ahead=True, transitions=0.1, **HELD
    ),
    "dependent bernoulli": lambda device: extractor(
        device, model="bernoulli", encoder="rcnn", dependent=True, sparsity=0.1, **DRAWN
    ),
    **{
        f"aligner, {name}": lambda device, name=name: aligner(device, model=name)
        for name in MAPPINGS
        if not name.startswith("test")
    },
    "aligner, recurrent": lambda device: aligner(device, model="recurrent"),
    "aligner, hardkuma": lambda device: aligner(device, model="hardkuma", selection=0.2, measure_every=1),
    "aligner, normalised, intra": lambda device: aligner(
        device, model="hardkuma", normalised=True, intra=True, start="target", selection=0.2
    ),
    "encoder-decoder": lambda device: encoder_decoder(device, model="sparsemax"),
    "digit counter": counter,
    "probe of states": lambda device: probe(device, "states"),
    "probe of inputs": lambda device: probe(device, "inputs"),
    "bilinear probe": lambda device: probe(device, "states", "bilinear"),
}
if importlib.util.find_spec("transformers"):
    KINDS |= {
        "transformer": transformer,
        "transformer, bfloat16": lambda device: transformer(device, bfloat16=True),
        "probe of a transformer": lambda device: probe(device, "states", subject=transformer),
        "probe of a transformer, bfloat16": lambda device: probe(
            device, "states", subject=lambda device: transformer(device, bfloat16=True)
        ),
    }
