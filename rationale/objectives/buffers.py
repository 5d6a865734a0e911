"""Modules whose buffers keep their type, and whose counts stay on the CPU, wherever the model goes."""

from collections.abc import Callable
from typing import ClassVar, Self

from torch import Tensor, nn


class BufferKeeper(nn.Module):
    """A module whose own buffers keep their type where `model.half()` or `model.double()` converts the weights.

    A sum over many training steps needs float64 whatever the weights are. Buffers move to another device with the
    weights, except those that the class names in `on_cpu`: Python decides by the value of such a buffer, and with a
    GPU it would wait for this value in each step.

    Examples
    --------
    >>> keeper = BufferKeeper()
    >>> keeper.register_buffer("average", torch.tensor(0.1, dtype=torch.float64))
    >>> keeper.half().average.dtype
    torch.float64
    """

    on_cpu: ClassVar[frozenset[str]] = frozenset()  # names of the buffers that stay on the CPU

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Convert or move the module, as `nn.Module` does, but put its buffers back to their type."""
        before = dict(self.named_buffers(recurse=False))
        super()._apply(fn, recurse)
        for name, buffer in before.items():
            setattr(self, name, buffer if name in self.on_cpu else buffer.to(getattr(self, name).device))
        return self
