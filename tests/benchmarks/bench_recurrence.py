"""One training step of the paper's extractor for beer: dependent HardKuma gates, RCNNs of 200, 64 texts of 128 tokens.

Both ways hold the same weights (tests/test_recurrence.py compares states, draws and gradients):

the usual way   one step of autograd after the other, textbook formulas, unselected words skipped by a mask, one
                `.item()` a step (`tests/plain.py`)
the package     the two scans of rationale/nn/rcnn.py, the exact laws; unselected words are removed before the
                predictor's encoder reads; every second step a pass without dropout to measure the rate

A step is everything from the numbers of the texts to the new weights. The gates begin at the paper's rate of 13 %, so
the predictor of the package reads a fifth of the steps (the longest rationale of the batch), that of the usual way all.
"""

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from rationale import training
from rationale.data import Batch
from rationale.models import Extractor, build_extractor
from rationale.nn import RCNNEncoder
from rationale.objectives import build_objective
from tests import plain
from tests.benchmarks.bench_training import parameters

BEER = {"encoder": "rcnn", "hidden_size": 200, "dropout": 0.2, "selection": 0.13, "transitions": 0.02}
BEER |= {"model": "hardkuma", "dependent": True, "predictor": "compact", "look_ahead": False}
SIZE = 200  # numbers a word vector
SHUT = -4.0  # bias at which 13 % of the gates are not zero


def batch_of(rows: int, steps: int, words: int = 1000) -> Batch:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(2, words, (rows, steps), generator=generator)
    target = torch.rand(rows, 1, generator=generator)
    return Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), target, torch.arange(rows))


def model_of(p, words: int = 1000) -> Extractor:
    torch.manual_seed(0)
    model = build_extractor(p, 0.4 * torch.randn(words, SIZE), "scores", 1).train()
    with torch.no_grad():
        model.selector.gate.a.bias.fill_(SHUT)
    return model


def usual_step(p, batch: Batch) -> Callable[[], None]:
    model = model_of(p)
    usual, optimizer = plain.Usual(model, p.selection, p.transitions), torch.optim.Adam(model.parameters())

    def step() -> None:
        loss = usual(batch.tokens, batch.mask, batch.target)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), p.clip_norm)
        optimizer.step()
        loss.item()

    return step


def package_step(p, batch: Batch) -> Callable[[], None]:
    model, objective = model_of(p), build_objective(p).train()
    optimizer = training.build_optimizer(model, p)

    def step() -> None:
        loss = objective(model, batch).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), p.clip_norm)
        optimizer.step()

    return step


def encoder_pass(read: Callable, inputs: Tensor, mask: Tensor) -> Callable[[], None]:
    def both() -> None:
        states, final = read(inputs, mask)
        (states.sum() + final.sum()).backward()

    return both


def cases(rows: int = 64, steps: int = 128) -> dict[str, dict[str, Callable]]:
    """A step of the extractor; the encoder alone, forward and backward."""
    batch = batch_of(rows, steps)

    def package(**changes) -> Callable[[], None]:
        return package_step(parameters(**(BEER | changes)), batch)

    ways = {
        "the usual way": usual_step(parameters(**BEER), batch),
        "the package": package(),
        "the package, no pass to measure the rate": package(measure="training"),
        "the same, look-ahead": package(measure="training", look_ahead=True),
        "the same, independent gates": package(measure="training", dependent=False),
    }
    reader = model_of(parameters(**BEER))
    floor = encoder_pass(reader.selector.encoder, reader.embed(batch.tokens), batch.mask)
    ways["the floor (the selector's encoder alone)"] = floor
    torch.manual_seed(0)
    encoder, inputs = RCNNEncoder(SIZE, BEER["hidden_size"]), 0.4 * torch.randn(rows, steps, SIZE)
    sizes = f"{rows} texts of {steps} tokens"
    return {
        f"one training step, dependent hardkuma, RCNN, {sizes}": ways,
        f"RCNN encoder, forward and backward, {sizes}": {
            "the usual way (one step after the other)": encoder_pass(
                functools.partial(plain.read, encoder), inputs, batch.mask
            ),
            "the package (the scan)": encoder_pass(encoder, inputs, batch.mask),
        },
    }
