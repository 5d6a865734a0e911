"""Calls that `torch.compile` leaves out of its graph; imported only while it reads a model (`fast.as_it_is`)."""

from collections.abc import Callable
from typing import Any

import torch


@torch.compiler.disable
def call_outside(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """`function(*args, **options)`, computed as without the compiler."""
    return function(*args, **options)
