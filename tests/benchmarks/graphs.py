"""Loss and gradients of a step as CUDA graphs: recorded once for each shape of a batch, then replayed.

A step of a small model is hundreds of short operations, which take a GPU less time than Python needs to ask for them. A
graph asks for all of them at once. The optimiser's step is not part of the graph, so step sizes may change.

Training does not use them; `make bench-gpu` measures what they would save.
Only a step that never waits for a number and whose shapes depend on nothing but the shape of its batch can be recorded
(tests/test_devices.py); an extractor with `predictor: zero`, for example.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rationale.data.batches import Batch
from rationale.objectives.loss import LossOutput, RationaleObjective

Record = Callable[[Callable[[], LossOutput]], tuple[Callable[[], None], LossOutput]]


class Recording(NamedTuple):
    """A recorded step for batches of one shape."""

    inputs: Batch  # the tensors that the graph reads
    replay: Callable[[], None]
    output: LossOutput  # the tensors that it writes; the next replay of any graph may overwrite them


class RecordedSteps:
    """Loss and gradients of batches, in `.grad` of the parameters, as the loop computes them.

    The first batch of a shape is computed as usual, which also prepares the libraries of the GPU. The second one is
    recorded. Steps that measure a rate and steps that do not have graphs of their own.

    Parameters
    ----------
    model, objective : as for `fit`, on the GPU and in training mode
    clip_norm : float
        Largest norm of the gradient.
    record : function
        From a function without arguments to (a function that repeats what it computed, its output); by default with a
        CUDA graph.
    """

    def __init__(self, model: nn.Module, objective: RationaleObjective, clip_norm: float, record: Record | None = None):
        self.model, self.objective, self.clip_norm = model, objective, clip_norm
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)  # all graphs write to the same gradients
        self.record = record or CUDAGraphs()
        self.recordings: dict[tuple, Recording | None] = {}

    def __call__(self, batch: Batch) -> LossOutput:
        """The loss of a batch, whose gradients are in `.grad` afterwards; everything is detached."""
        key = (self.objective.variant, *(part.shape for part in parts_of(batch)))
        if self.objective.variant is None or key not in self.recordings:
            self.recordings.setdefault(key)
            return self._compute(batch)
        recording = self.recordings[key]
        if recording is None:
            inputs = with_parts(batch, [part.clone() for part in parts_of(batch)])
            recording = Recording(inputs, *self.record(lambda: self._compute(inputs)))  # counts this step itself
            self.recordings[key] = recording
        else:
            self.objective.count_step()
        for place, part in zip(parts_of(recording.inputs), parts_of(batch), strict=True):
            place.copy_(part)
        recording.replay()
        return recording.output

    def _compute(self, batch: Batch) -> LossOutput:
        torch._foreach_zero_([parameter.grad for parameter in self.parameters])
        loss, parts = self.objective(self.model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.clip_norm)
        return LossOutput(loss.detach(), parts)


class CUDAGraphs:
    """Records CUDA graphs, which share their memory, because only one of them is replayed at a time."""

    def __init__(self) -> None:
        self.pool = torch.cuda.graph_pool_handle()

    def __call__(self, compute: Callable[[], LossOutput]) -> tuple[Callable[[], None], LossOutput]:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            output = compute()
        return graph.replay, output


def parts_of(batch: Batch) -> list[Tensor]:
    """The tensors of a batch."""
    tokens = [batch.tokens] if isinstance(batch.tokens, Tensor) else [*batch.tokens]
    return [*tokens, batch.mask, batch.target, batch.rows, *([] if batch.guide is None else [batch.guide])]


def with_parts(batch: Batch, parts: list[Tensor]) -> Batch:
    """A batch of the same kind with other tensors, in the order of `parts_of`."""
    count = 1 if isinstance(batch.tokens, Tensor) else len(batch.tokens)
    tokens = parts[0] if isinstance(batch.tokens, Tensor) else type(batch.tokens)(*parts[:count])
    return Batch(tokens, *parts[count:])
