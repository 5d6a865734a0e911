"""One step of a probe of a transformer with 6 layers of 384 units, beside a step of the transformer itself.

`plain`: one forward and backward pass of the frozen model, gradients down to the word embeddings, as a masked run needs
them. A step of a probe is everything: states read once, votes, one masked run back to the probe's parameters, its new
parameters. Weights are random: no step depends on their values. `MiB kept` is what the backward pass holds on to,
counted over tensors of different storage.
"""

from collections.abc import Callable

import torch
from torch import nn

from rationale import models, training
from rationale.data import Batch
from rationale.explain import FrozenModel, ProbeObjective
from rationale.runs import notebook_path
from rationale.runs.cells import notebook_settings

WORDS, LAYERS, SIZE = 30, 6, 384


class OneBatch:
    """Batches of one batch, as many times as asked."""

    def __init__(self, batch: Batch):
        self.batch, self.device = batch, batch.mask.device

    def epoch(self, epoch: int):
        return iter([self.batch])


def frozen_of(layers: int, size: int, vocabulary: int = 30_522) -> FrozenModel:
    transformers = models.import_transformers()
    sizes = {"hidden_size": size, "num_hidden_layers": layers, "num_attention_heads": 12 if size % 12 == 0 else 2}
    config = transformers.BertConfig(vocab_size=vocabulary, intermediate_size=4 * size, **sizes)
    torch.manual_seed(0)
    model = models.Classifier(transformers.BertModel(config, add_pooling_layer=False), 5, separator=1)
    model.requires_grad_(False).eval()
    return FrozenModel(model, model.layers, model.predict, lambda batch: batch.mask)


def batch_of(rows: int, words: int) -> Batch:
    tokens = torch.randint(2, 1_000, (rows, words), generator=torch.Generator().manual_seed(0))
    return Batch(tokens, torch.ones_like(tokens, dtype=torch.bool), torch.zeros(rows).long(), torch.arange(rows))


def kept_mib(forward: Callable[[], torch.Tensor]) -> float:
    """What the backward pass of a loss holds on to, in MiB.

    The graph itself gets nothing to hold: a saved output that is handed back would keep itself alive for good.
    """
    held: dict[int, torch.Tensor] = {}

    def count(tensor: torch.Tensor) -> None:
        held[tensor.untyped_storage().data_ptr()] = tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(count, lambda _: None):
        forward()
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values()) / 2**20


def plain_step(frozen: FrozenModel, batch: Batch) -> tuple[Callable, Callable]:
    """(the whole step, its loss alone)."""
    embedded = frozen.read(batch)[1][0].requires_grad_()

    def loss() -> torch.Tensor:
        return frozen.changed(batch, 0, lambda _: embedded).logsumexp(1).sum()

    def step() -> None:
        loss().backward()
        embedded.grad = None

    return step, loss


def probe_step(frozen: FrozenModel, batch: Batch, kind: str, width: int) -> tuple[Callable, Callable]:
    """(the whole step, its loss alone)."""
    p = notebook_settings(notebook_path("14_train_probes"), hidden_size=width)
    probe = training.build_probe(p, kind, frozen, OneBatch(batch))
    objective, optimizer = ProbeObjective(len(frozen.layers), p.margin).train(), training.build_optimizer(probe, p)

    def step() -> None:
        value = objective(probe, batch).loss
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(probe.parameters(), p.clip_norm)
        optimizer.step()

    return step, lambda: objective(probe, batch).loss


def cases(rows: int = 64, words: int = WORDS, layers: int = LAYERS, size: int = SIZE) -> dict[str, dict[str, Callable]]:
    frozen, batch = frozen_of(layers, size), batch_of(rows, words)
    probes = {kind: probe_step(frozen, batch, kind, max(1, size // 4)) for kind in ("states", "inputs")}
    steps = {"plain": plain_step(frozen, batch)} | {f"probe of {kind}": steps for kind, steps in probes.items()}
    memory = {name: max(kept_mib(loss) for _ in range(8)) for name, (_, loss) in steps.items()}
    named = {f"{name} ({memory[name]:.0f} MiB kept)": step for name, (step, _) in steps.items()}
    return {f"one step, a transformer of {layers} layers, {rows} texts of {words} pieces": named}
