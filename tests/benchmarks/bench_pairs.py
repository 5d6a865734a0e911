"""One training step on pairs of texts, with each attention: the aligner (SNLI's lengths), the encoder-decoder.

The first group compares the aligner with HardKuma gates with the usual way of writing it (`UsualAligner` in
tests/plain.py: one side after the other, `nn.Dropout`; tests/test_benchmarks.py compares predictions). The other groups
compare the attentions with softmax: `times as fast` is their words a second relative to it. All at the defaults of
notebooks 13 and 15 (64 pairs, 200 and 256 units), the aligner with the paper's dropout. Vectors are random: no step
depends on their values. Words are random with Zipf's frequencies, and every side of a pair begins with the same one
(NULL): where nothing is dropped, as in the pass that measures the rate, the aligner reads each different word once.
A step is everything from the numbers of the texts to the new weights.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F

from rationale import training
from rationale.data import Batch, Sides
from rationale.models import build_aligner, build_seq2seq
from rationale.nn import MAPPINGS
from rationale.objectives import WordLoss, build_objective
from rationale.runs import differences, notebook_path
from rationale.runs.cells import notebook_settings
from tests import plain

SNLI = (15, 9)  # mean words of a premise and a hypothesis, NULL included
CAPTIONS = (13, 14)  # of Multi30k: a German caption, an English one with its end
VOCABULARY = 8_000
NULL = 2  # the first number of a word that is not special
PAPERS_DROPOUT = 0.2


def parameters(notebook: str, **changes) -> SimpleNamespace:
    """The defaults of a notebook and these changes; fusedmax and oscarmax at the paper's prices."""
    price = differences.PRICES.get(changes.get("model"))
    priced = {} if price is None else {"lam": price}
    return notebook_settings(notebook_path(notebook), **priced | changes)


def words_of(rows: int, number: int, generator: torch.Generator) -> torch.Tensor:
    """Words [rows, number]: after NULL, the word of rank r has a probability proportional to 1 / r."""
    ranks = torch.arange(1.0, VOCABULARY - NULL)
    drawn = ranks.reciprocal().multinomial(rows * number, replacement=True, generator=generator)  # counted from 0
    words = NULL + 1 + drawn.view(rows, number)
    words[:, 0] = NULL
    return words


def batch_of(rows: int, words: tuple[int, int]) -> Batch:
    generator = torch.Generator().manual_seed(0)
    tokens = [words_of(rows, number, generator) for number in words]
    masks = [torch.ones_like(side, dtype=torch.bool) for side in tokens]
    sides = Sides(tokens[0], masks[0], tokens[1], masks[1])
    return Batch(sides, sides.cells(), torch.randint(3, (rows,), generator=generator), torch.arange(rows))


def aligner_of(p: SimpleNamespace) -> nn.Module:
    torch.manual_seed(0)
    return build_aligner(p, F.normalize(torch.randn(VOCABULARY, 300), dim=1), "classes", 3).train()


def step_of(model: nn.Module, loss: Callable, optimizer: torch.optim.Optimizer, p: SimpleNamespace) -> Callable:
    def step() -> None:
        value = loss()
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), p.clip_norm)
        optimizer.step()

    return step


def usual_step(p: SimpleNamespace, batch: Batch) -> Callable:
    model = aligner_of(p)
    usual, optimizer = plain.UsualAligner(model, p.selection), torch.optim.Adam(model.parameters())
    return step_of(model, lambda: usual(batch.tokens, batch.target), optimizer, p)


def aligner_step(p: SimpleNamespace, batch: Batch) -> Callable:
    model, objective = aligner_of(p), build_objective(p).train()
    return step_of(model, lambda: objective(model, batch).loss, training.build_optimizer(model, p), p)


def floor_step(p: SimpleNamespace, batch: Batch) -> Callable:
    """Only the linear layers of the aligner that read words, forward and backward."""
    model, sides = aligner_of(p), batch.tokens
    words = torch.cat([F.embedding(side.flatten(), model.vectors) for side in (sides.first, sides.second)])  # [N, E]
    compare_a, compare_b, compare = (
        nn.Sequential(*(layer for layer in layers if isinstance(layer, nn.Linear)))
        for layers in (model.selector.compare_a, model.selector.compare_b, model.compare)
    )
    weights = [w for layers in (model.project, compare_a, compare_b, compare) for w in layers.parameters()]

    def step() -> None:
        projected = model.project(words)
        read = compare_a(projected), compare_b(projected), compare(torch.cat([projected, projected], -1))
        torch.autograd.grad(sum(part.sum() for part in read), weights)

    return step


def seq2seq_step(p: SimpleNamespace, batch: Batch) -> Callable:
    torch.manual_seed(0)
    model, objective = build_seq2seq(p, VOCABULARY, VOCABULARY, 2).train(), WordLoss()
    return step_of(model, lambda: objective(model, batch).loss, training.build_optimizer(model, p), p)


def cases(rows: int = 64) -> dict[str, dict[str, Callable]]:
    pairs, captions = batch_of(rows, SNLI), batch_of(rows, CAPTIONS)

    def aligner(**changes) -> SimpleNamespace:
        return parameters("13_train_nli", dropout=PAPERS_DROPOUT, **changes)

    gates = aligner(model="hardkuma", selection=0.1)
    sizes = "{} pairs of {} and {} words"
    attentions = {name: aligner_step(aligner(model=name), pairs) for name in MAPPINGS}
    return {
        f"one training step, aligner with hardkuma gates, {sizes.format(rows, *SNLI)}": {
            "the usual way": usual_step(gates, pairs),
            "the package": aligner_step(gates, pairs),
            "the floor (its linear layers alone)": floor_step(gates, pairs),
        },
        f"one training step, aligner, {sizes.format(rows, *SNLI)}": attentions
        | {"hardkuma": aligner_step(gates, pairs)},
        f"one training step, encoder-decoder, {sizes.format(rows, *CAPTIONS)}": {
            name: seq2seq_step(parameters("15_train_seq2seq", model=name), captions) for name in MAPPINGS
        },
    }
