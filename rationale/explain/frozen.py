"""A frozen model: read its states, replace them, and measure how far its output moves.

The model is not rewritten: hooks read and replace what its modules return. Source: eqs. (D3), (D7),
notebooks/41_diffmask.py.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.data.batches import Batch


@contextmanager
def recorded(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Yield a list of what each module returned last, [B, T, D] each; of a tuple, its first element.

    States in half precision are recorded in float32, so that sums of them keep their digits.

    The hooks are removed when the block ends, also after an exception.

    Examples
    --------
    >>> layer = nn.Linear(2, 3)
    >>> with recorded([layer]) as states:
    ...     output = layer(torch.ones(1, 4, 2))
    >>> states[0].shape, states[0] is output
    (torch.Size([1, 4, 3]), True)
    """
    states: list[Tensor] = [torch.empty(0)] * len(modules)

    def recorder(place: int) -> Callable:
        def record(_module: nn.Module, _inputs: tuple, output) -> None:
            state = output[0] if isinstance(output, tuple) else output
            states[place] = state.float() if state.dtype.itemsize == 2 else state

        return record

    hooks = [module.register_forward_hook(recorder(i)) for i, module in enumerate(modules)]
    try:
        yield states
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def replaced(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within the block, the module returns `change` of its output; of a tuple, only the first element changes.

    Examples
    --------
    >>> layer = nn.Identity()
    >>> with replaced(layer, lambda states: 0 * states):
    ...     inside = layer(torch.ones(2))
    >>> inside, layer(torch.ones(2))
    (tensor([0., 0.]), tensor([1., 1.]))
    """

    def replace(_module: nn.Module, _inputs: tuple, output):
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    hook = module.register_forward_hook(replace)
    try:
        yield
    finally:
        hook.remove()


class FrozenModel(NamedTuple):
    """A trained model whose states can be read and replaced, but whose weights no longer change."""

    model: nn.Module
    layers: Sequence[nn.Module]  # whose outputs are h^(0), ..., h^(L), [B, T, D_k]
    predict: Callable[[Batch], Tensor]  # logits [B, ..., C]
    mask: Callable[[Batch], Tensor]  # bool [B, T]: positions that may be masked

    def read(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Logits and states of the unchanged model, without gradients; bit for bit those that `changed` computes."""
        with torch.no_grad(), recorded(self.layers) as states, torch.backends.cudnn.flags(enabled=False):
            logits = self.predict(batch)
        return logits, states

    def changed(self, batch: Batch, layer: int, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Logits when h^(layer) is replaced by `change` of it; gradients reach the tensors that `change` uses.

        cuDNN is switched off, because its recurrent layers have no gradients in evaluation mode.
        """
        with replaced(self.layers[layer], change), torch.backends.cudnn.flags(enabled=False):
            return self.predict(batch)

    def masked(self, batch: Batch, layer: int, z: Tensor, baseline: Tensor) -> Tensor:
        """Logits when h^(layer) is replaced by z h + (1 - z) b, eq. (D3).

        Parameters
        ----------
        z : [B, T], in [0, 1]
        baseline : [D], or any shape that broadcasts to the states
            b, what takes the place of a masked state.
        """
        keep = z.unsqueeze(-1)
        return self.changed(batch, layer, lambda states: keep * states + (1 - keep) * baseline)


DIVERGENCES = ("kl", "reverse_kl", "js")  # the kinds of `divergence`


def divergence(original: Tensor, masked: Tensor, kind: str = "kl") -> Tensor:
    """Divergence of two categorical outputs in nats, [B]; the outputs of one text (the ends of a span) are summed.

    Source: eq. (D7), notebooks/41_diffmask.py.

    Parameters
    ----------
    original, masked : logits [B, ..., C]
    kind : "kl" (KL(y || y_hat), in the paper's experiments), "reverse_kl" (in its text) or "js" (Jensen-Shannon)

    Raises
    ------
    ValueError
        If `kind` is another one.

    Examples
    --------
    >>> sure, unsure = torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    >>> divergence(sure, unsure), divergence(sure, unsure, kind="js")
    (tensor([0.6031]), tensor([0.1804]))
    >>> divergence(sure, sure)
    tensor([0.])
    """
    p, q = original.log_softmax(-1), masked.log_softmax(-1)

    def kl(p: Tensor, q: Tensor) -> Tensor:
        """p ln(p / q) per class; 0 where p is 0, also where q is 0 too."""
        impossible = p == -torch.inf
        terms = F.kl_div(
            q.masked_fill(impossible, 0.0), p.masked_fill(impossible, 0.0), log_target=True, reduction="none"
        )
        return terms.masked_fill(impossible, 0.0)

    if kind == "reverse_kl":
        p, q = q, p
    if kind in ("kl", "reverse_kl"):
        terms = kl(p, q)
    elif kind == "js":
        never = (p == -torch.inf) & (q == -torch.inf)  # where logaddexp would have no derivative
        middle = torch.logaddexp(p.masked_fill(never, 0.0), q.masked_fill(never, 0.0)) - math.log(2)
        terms = (kl(p, middle) + kl(q, middle)) / 2
    else:
        raise ValueError(f"kind: got {kind!r}, accepted are {', '.join(DIVERGENCES)}")
    return terms.flatten(1).sum(1)
