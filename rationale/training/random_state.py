"""Blocks that draw random numbers, and change none of those that are drawn after them."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def random_state_kept(device: torch.device | None = None) -> Iterator[None]:
    """On exit, the generators of torch and Python are in the state in which they were, whatever was drawn or seeded.

    We draw nothing from Python's generator, but libraries do when they are imported.

    Parameters
    ----------
    device : torch.device or None
        Where the block computes. The generators of GPUs are looked at only if this is one, or if they are in use.
    """
    on_gpu = device is not None and device.type == "cuda"
    gpus = range(torch.cuda.device_count()) if on_gpu or torch.cuda.is_initialized() else ()
    before = random.getstate()
    try:
        with torch.random.fork_rng(devices=gpus):
            yield
    finally:
        random.setstate(before)
