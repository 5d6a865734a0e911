"""A GPU beside the CPU of its machine: training steps, CUDA graphs, bfloat16, predictions, laws, mappings; peak memory.

Sizes are those of the papers, and larger batches where a GPU is for them. Words and vectors are random: no step depends
on their values. Needed are torch, numpy, safetensors, pydantic and PyYAML (and transformers for one group).

    python -m tests.benchmarks.gpu [--json FILE]      at most eight minutes; one line where there is no GPU
"""

import argparse
import datetime
import importlib.util
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import nn

from rationale import models, training
from rationale.data import Batch, Sides
from rationale.distributions import HardKuma
from rationale.nn import MAPPINGS
from rationale.objectives import WordLoss, build_objective
from rationale.training.probing import AnswerLoss
from rationale.training.settings import AlignmentSettings, ExtractionSettings, GenerationSettings
from tests.benchmarks.__main__ import machine
from tests.benchmarks.graphs import RecordedSteps
from tests.tiny_models import moved, settings_of

MINUTES = 8.0  # beyond which no further way is measured


class Sizes(NamedTuple):
    """The sizes of the measurement; the tests take smaller ones."""

    batches: tuple[int, ...] = (25, 512)
    words: int = 20
    review: int = 128
    hidden: int = 0  # units; 0: the paper's
    vocabulary: int = 16_000
    vectors: int = 300
    rows: tuple[int, int] = (4096, 512)  # of scores
    layers: int = 6
    seconds: float = 4.0  # per way
    rounds: int = 50


class Way(NamedTuple):
    """One way of a group: a function that is timed, and on which device it computes."""

    run: Callable[[], object]
    device: str


class Group(NamedTuple):
    """Ways that compute the same thing; each call computes `number` of `unit`."""

    name: str
    number: int
    unit: str
    ways: dict[str, Callable[[], Way]]  # built when it is measured, so that memory is its own


def texts(sizes: Sizes, rows: int, words: int) -> Batch:
    """A batch of texts of one length, on the CPU."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, sizes.vocabulary, (rows, words), generator=generator)
    target = torch.randint(5, (rows,), generator=generator)
    return Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), target, torch.arange(rows))


def pairs(sizes: Sizes, rows: int) -> Batch:
    """A batch of pairs of texts, on the CPU."""
    first, second = texts(sizes, rows, 15), texts(sizes, rows, 9)
    sides = Sides(first.tokens, first.mask, second.tokens, second.mask)
    return Batch(sides, sides.cells(), first.target % 3, first.rows)


def step(model: nn.Module, objective: nn.Module, batch: Batch, p: SimpleNamespace, device: str, graphs=False) -> Way:
    """A training step: loss, gradients, their norm, new weights."""
    model, objective, batch = model.to(device).train(), objective.to(device).train(), moved(batch, device)
    optimizer = training.build_optimizer(model, p)
    recorded = RecordedSteps(model, objective, p.clip_norm) if graphs else None
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def run() -> None:
        if recorded is not None:
            recorded(batch)
        else:
            loss = objective(model, batch).loss
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, p.clip_norm)
        optimizer.step()

    return Way(run, device)


def extractor(sizes: Sizes, **changes) -> tuple[SimpleNamespace, Callable[[], nn.Module]]:
    """Settings of an extractor, and a function that builds it."""
    size = {"hidden_size": sizes.hidden or changes.pop("hidden_size", 150)}
    p = settings_of(ExtractionSettings, {"dropout": 0.5, "selection": 0.4} | changes | size)

    def build() -> nn.Module:
        torch.manual_seed(0)
        return models.build_extractor(p, 0.4 * torch.randn(sizes.vocabulary, sizes.vectors), "classes", 5)

    return p, build


def everywhere(device: str, way: Callable[..., Way], graphs: bool = False) -> dict[str, Callable[[], Way]]:
    """The CPU, the GPU and, if asked for and if there is one, the GPU with CUDA graphs."""
    ways = {"the CPU": lambda: way("cpu"), "the GPU": lambda: way(device)}
    if graphs and device == "cuda":
        ways["the GPU, graphs"] = lambda: way(device, graphs=True)
    return ways


def groups(device: str = "cuda", sizes: Sizes = Sizes()) -> Iterator[Group]:  # noqa: B008  immutable
    """What is measured."""
    p, build = extractor(sizes)
    for rows in sizes.batches:
        batch = texts(sizes, rows, sizes.words)

        def sst(device: str, graphs: bool = False, batch: Batch = batch) -> Way:
            return step(build(), build_objective(p), batch, p, device, graphs)

        yield Group(
            f"one training step, hardkuma, {rows} sentences", rows, "sentences", everywhere(device, sst, graphs=True)
        )
    rows = max(sizes.batches)
    yield Group(f"predictions for {rows} sentences", rows, "sentences", everywhere(device, predicts(build, batch)))
    beer = {"encoder": "rcnn", "hidden_size": 200, "dependent": True, "transitions": 0.02, "dropout": 0.2}
    q, build_dependent = extractor(sizes, **beer)

    def dependent(device: str, graphs: bool = False) -> Way:
        return step(build_dependent(), build_objective(q), texts(sizes, 64, sizes.review), q, device, graphs)

    name = f"one training step, dependent hardkuma, RCNN, 64 texts of {sizes.review} words"
    yield Group(name, 64, "texts", everywhere(device, dependent, graphs=True))
    r = settings_of(AlignmentSettings, {"model": "hardkuma", "selection": 0.1, "hidden_size": sizes.hidden or 200})

    def aligner(device: str, graphs: bool = False) -> Way:
        model = models.build_aligner(r, torch.randn(sizes.vocabulary, sizes.vectors), "classes", 3)
        return step(model, build_objective(r), pairs(sizes, rows), r, device, graphs)

    yield Group(f"one training step, aligner, {rows} pairs", rows, "pairs", everywhere(device, aligner))
    s = settings_of(GenerationSettings, {"model": "sparsemax", "hidden_size": sizes.hidden or 256})

    def encoder_decoder(device: str) -> Way:
        model = models.build_seq2seq(s, sizes.vocabulary, sizes.vocabulary, 2)
        return step(model, WordLoss(), pairs(sizes, 64), s, device)

    yield Group("one training step, encoder-decoder, 64 pairs", 64, "pairs", everywhere(device, encoder_decoder))
    if importlib.util.find_spec("transformers"):
        yield from transformers_groups(device, sizes, p)
    yield from parts_groups(device, sizes)


def predicts(build: Callable[[], nn.Module], batch: Batch) -> Callable[[str], Way]:
    """A pass of a model in evaluation mode."""

    def way(device: str) -> Way:
        model, here = build().to(device).eval(), moved(batch, device)

        @torch.no_grad()
        def run() -> list:
            return model(here.tokens, here.mask).prediction.tolist()

        return Way(run, device)

    return way


def transformers_groups(device: str, sizes: Sizes, p: SimpleNamespace) -> Iterator[Group]:
    """A training step of a transformer, in float32 and in bfloat16."""
    import transformers

    width = 12 * max(1, (sizes.hidden or 384) // 12)
    config = transformers.BertConfig(
        vocab_size=sizes.vocabulary, hidden_size=width, num_hidden_layers=sizes.layers, intermediate_size=4 * width
    )

    def transformer(device: str, bfloat16: bool = False) -> Way:
        torch.manual_seed(0)
        encoder = transformers.BertModel(config, add_pooling_layer=False)
        model = models.Classifier(encoder, 5, separator=1)
        model.in_bfloat16 = bfloat16
        return step(model, AnswerLoss(), texts(sizes, 64, 30), p, device)

    ways = everywhere(device, transformer) | {"the GPU, bfloat16": lambda: transformer(device, bfloat16=True)}
    yield Group(f"one training step, a transformer of {sizes.layers} layers, 64 texts of 30 pieces", 64, "texts", ways)


def parts_groups(device: str, sizes: Sizes) -> Iterator[Group]:
    """A law and the mappings, forward and backward."""
    rows, words = sizes.rows

    def law(device: str) -> Way:
        a, b = (torch.rand(rows, words, device=device).add(0.1).requires_grad_() for _ in range(2))

        def run() -> None:
            gates = HardKuma(a, b, validate_args=False)
            torch.autograd.grad((gates.rsample() + gates.prob_zero).sum(), (a, b))

        return Way(run, device)

    yield Group(f"HardKuma draw + masses + backward [{rows}, {words}]", rows * words, "gates", everywhere(device, law))
    for name in ("softmax", "sparsemax", "entmax15", "fusedmax", "oscarmax", "sq_pnorm_max"):

        def mapping(device: str, name: str = name) -> Way:
            scores = torch.randn(rows, words, generator=torch.Generator().manual_seed(0)).to(device).requires_grad_()
            direction = torch.randn(rows, words, device=device)
            function = MAPPINGS[name].function
            return Way(lambda: torch.autograd.grad(function(scores), scores, direction), device)

        yield Group(f"{name} [{rows}, {words}], forward and backward", rows, "rows", everywhere(device, mapping))


# ---------------------------------------------------------------------------------------------------- measurement
def wait(device: str) -> None:
    """Wait until the GPU has computed everything that it was asked for."""
    if device == "cuda":
        torch.cuda.synchronize()


def measured(way: Way, sizes: Sizes) -> tuple[float, float]:
    """Median milliseconds of a call after three warm-up calls, and the peak of the GPU's memory in MiB (CPU: 0)."""
    if way.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(3):  # the second step of a shape is recorded, and every second step measures a rate
        way.run()
    for _ in range(2 * (way.device == "cuda")):
        way.run()
    wait(way.device)
    taken: list[float] = []
    while len(taken) < sizes.rounds and (len(taken) < 3 or sum(taken) < sizes.seconds):
        start = time.perf_counter()
        way.run()
        wait(way.device)
        taken.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() / 2**20 if way.device == "cuda" else 0.0
    return 1e3 * statistics.median(taken), peak


def row_of(name: str, milliseconds: float, peak: float, number: int, first: float) -> dict:
    """A way as it is written to the file."""
    return {
        "name": name,
        "median_ms": milliseconds,
        "times_as_fast": first / milliseconds,
        "per_second": 1e3 * number / milliseconds,
        "peak_mib": peak,
    }


def measure(device: str = "cuda", sizes: Sizes = Sizes()) -> list[dict]:  # noqa: B008  immutable
    """Measure all groups and print them; groups for which there is no time are left out, and named.

    A way that fails is reported with its error, and the others are measured all the same: time on a GPU is limited.
    """
    began, found = time.monotonic(), []
    for group in groups(device, sizes):
        if time.monotonic() - began > 60 * (MINUTES - 1):
            print(f"{group.name}: left out, {MINUTES:.0f} minutes are over", flush=True)
            continue
        rows, print_rows = [], [group.name]
        for name, build in group.ways.items():
            try:
                milliseconds, peak = measured(build(), sizes)
            except RuntimeError as error:
                print_rows.append(f"  {name:18} FAILED: {' '.join(str(error).split())[:300]}")
                continue
            rows.append(row_of(name, milliseconds, peak, group.number, rows[0]["median_ms"] if rows else milliseconds))
            line = f"  {name:18} {milliseconds:9.2f} ms  {rows[-1]['times_as_fast']:7.2f} times as fast"
            print_rows.append(f"{line}  {rows[-1]['per_second']:12,.0f} {group.unit} per second  {peak:8,.0f} MiB")
        print("\n".join(print_rows), flush=True)
        found.append({"group": group.name, "unit": group.unit, "ways": rows})
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = argparse.ArgumentParser(
        "python -m tests.benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    form.add_argument("--json", metavar="FILE", type=Path, help="also write the figures to FILE")
    asked = form.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing was measured")
        return 0
    facts = machine() | {"gpu": torch.cuda.get_device_name()}
    print("{gpu}; {cpu}, {cores} cores; Python {python}, torch {torch}".format(**facts))
    began, found = time.monotonic(), measure()
    if asked.json:
        minutes = (time.monotonic() - began) / 60
        record = {"date": datetime.date.today().isoformat(), "machine": facts, "minutes": minutes, "groups": found}
        asked.json.parent.mkdir(parents=True, exist_ok=True)
        asked.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
