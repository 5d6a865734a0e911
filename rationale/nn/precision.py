"""Loops over a text within `torch.autocast`."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def in_float32(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: within `torch.autocast`, compute this in float32, as `torch.amp.custom_fwd` does.

    The loops over a text mix what autocast rounds (products of matrices) with what it leaves in float32 (the state),
    and their steps need one dtype. Tensors of float64 remain so.
    """

    @functools.wraps(loop)
    def call(*args: Any, **options: Any) -> Any:
        device = next((arg.device.type for arg in args if isinstance(arg, Tensor)), "meta")
        if not torch.amp.is_autocast_available(device) or not torch.is_autocast_enabled(device):
            return loop(*args, **options)
        with torch.autocast(device, enabled=False):
            return loop(*map(_widened, args), **options)

    return call


def _widened(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.is_floating_point() and value.dtype.itemsize == 2
    return value.float() if is_half else value
