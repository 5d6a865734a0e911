"""Evaluation mode for a while."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import nn


class HasModes(Protocol):
    def modules(self) -> Iterator[nn.Module]: ...
    def eval(self) -> object: ...


@contextmanager
def evaluating(model: HasModes) -> Iterator[None]:
    """A model in evaluation mode; afterwards each of its modules has the mode that it had before.

    So a part that is kept in evaluation mode while the rest is trained (a frozen one, without dropout) stays so.

    Examples
    --------
    >>> model = nn.Sequential(nn.Dropout(), nn.Dropout().eval())
    >>> with evaluating(model):
    ...     model[0].training
    False
    >>> [part.training for part in model]
    [True, False]
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
