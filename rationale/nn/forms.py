"""What a part of one's own returned, as messages about it say."""

from typing import Any

from torch import Tensor


def form_of(value: Any) -> tuple[int, ...] | str:
    """The shape of a tensor, or the name of another type.

    Examples
    --------
    >>> form_of(torch.zeros(2, 3)), form_of(None)
    ((2, 3), 'NoneType')
    """
    return tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
