"""Temporary evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import nn


class HasModes(Protocol):
    """What `evaluating` requires of a model: modules with modes."""

    def modules(self) -> Iterator[nn.Module]: ...
    def eval(self) -> object: ...


@contextmanager
def evaluating(model: HasModes) -> Iterator[None]:
    """Put a model into evaluation mode; on exit, each of its modules has its previous mode again.

    So a part that stays in evaluation mode while the rest is trained (such as a frozen part, without dropout) keeps it.

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
