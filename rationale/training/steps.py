"""Training steps of extractors: a linear warm-up of the step sizes, and several batches per step."""

from collections.abc import Iterable, Iterator

import torch

from rationale.data.batches import Batch
from rationale.settings import Settings, setting


class StepSettings(Settings):
    """What one training step of an extractor is made of."""

    learning_rate_warmup: float = setting(0.0, "epochs over which every step size rises linearly from 0", "[0, inf)")
    accumulate: int | None = setting(
        1, "batches per training step, whose gradients are added up; null = until batch_size texts", "[1, inf)"
    )
    batch_tokens: int | None = setting(
        None, "largest number of words of a training batch of several texts, with padding; null = any", "[1, inf)"
    )


def batches_per_step(accumulate: int | None, batch_size: int, batches: int, texts: int) -> int:
    """How many batches a training step is made of: `accumulate`, or as many as hold `batch_size` texts on average.

    Where `batch_tokens` cuts long texts into batches of a few texts each, the gradient of a single batch is noisier
    than that of `batch_size` texts, for which the step sizes are meant.

    Parameters
    ----------
    accumulate : int >= 1, or None
    batch_size : int >= 1
    batches, texts : int >= 1
        Of an epoch.

    Examples
    --------
    >>> batches_per_step(None, batch_size=32, batches=278, texts=1500)
    6
    >>> batches_per_step(None, batch_size=32, batches=47, texts=1500)
    1
    """
    return max(1, round(batch_size * batches / texts)) if accumulate is None else accumulate


class Warmup:
    """Multiplies the step sizes of an optimiser during its first steps; afterwards they are as they were.

        rate_k = rate min(1, k / W),   k = 1, 2, ... over all epochs

    `rate` is what the scheduler has set for the epoch. It is set again after each epoch (`restore`), so that is what
    checkpoints hold, and a run that is continued has the same step sizes as an unbroken one.

    Parameters
    ----------
    optimizer : Optimizer
    steps : int >= 0
        W, the training steps of the warm-up; 0: none.
    taken : int >= 0
        Training steps of earlier epochs.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, steps: int, taken: int = 0):
        self.optimizer, self.steps, self.taken = optimizer, steps, taken
        self.rates = [group["lr"] for group in optimizer.param_groups]

    def advance(self) -> None:
        """Set the step sizes of the next training step."""
        self.taken += 1
        if self.taken <= self.steps:
            for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
                group["lr"] = rate * self.taken / self.steps

    def restore(self) -> None:
        """Set the step sizes of the scheduler again."""
        for group, rate in zip(self.optimizer.param_groups, self.rates, strict=True):
            group["lr"] = rate


def grouped(batches: Iterable[Batch], count: int) -> Iterator[list[tuple[Batch, float]]]:
    """The batches of each training step, and the share of its texts that each of them holds.

    A mean over the texts of a step is the mean over each batch, weighted by these shares. So is its gradient, which
    therefore equals that of one large batch. Two terms are no such means. The constraint on a rate acts on the rate of
    each batch, and its multiplier moves with every batch. The guidance is a mean over the guided words of a batch.

    Parameters
    ----------
    batches : in the order of the epoch
    count : int >= 1
        Batches per step; the last step of an epoch may have fewer.
    """
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) == count:
            yield _shared(group)
            group = []
    if group:
        yield _shared(group)


def _shared(group: list[Batch]) -> list[tuple[Batch, float]]:
    if len(group) == 1:
        return [(group[0], 1.0)]
    texts = sum(len(batch.rows) for batch in group)
    return [(batch, len(batch.rows) / texts) for batch in group]
