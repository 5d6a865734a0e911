"""Refuse a run whose largest batch cannot fit into memory, before anything is computed.

The estimate is a lower bound: the numbers that a training step keeps for its backward pass, at the least, per position
of a batch (`floats_per_position` of the model). So a run is refused only if it could not succeed. The other splits are
only evaluated: their batches are cut so that long texts do not stand in one, and nothing is kept for a backward pass.
"""

from pathlib import Path
from typing import Any

import torch

from rationale.data.batches import EVALUATION_BATCH, Batches
from rationale.errors import BadInput
from rationale.models.protocol import RationaleModel

BYTES = 4  # per number, in float32
GIB = 2**30
EVALUATED = 12  # an evaluation holds at least one of so many of these numbers at once; measured were 0.4 to 1.7 of all


def require_memory(model: RationaleModel[Any], batches: dict[str, Batches], free: int | None = None) -> None:
    """Check that the largest batch of each split fits into memory: of train in a training step, of others evaluated.

    Parameters
    ----------
    model : a model of texts or of pairs of texts
    batches : dict
        By split.
    free : int or None
        Bytes that are free; None: as measured by `free_memory`.

    Raises
    ------
    BadInput
        If a batch cannot fit; the message names the size of the batch and what to lower.
    """
    for split, part in batches.items():
        free_here = free_memory(part.device) if free is None else free
        trained = split == "train"
        largest = part.largest() if trained else part.largest_in_order(max_batch=EVALUATION_BATCH)
        needed = largest.positions * model.floats_per_position * BYTES // (1 if trained else EVALUATED)
        if free_here is not None and needed > free_here:
            texts = "1 text" if largest.texts == 1 else f"{largest.texts} texts"
            words = " x ".join(f"{length:,}" for length in largest.shape)
            size = f"a batch of {texts} of {words} words needs at least {needed / GIB:,.1f} GiB"
            lower = "lower batch_size" if trained and largest.texts > 1 else "leave out the longest text, or cut it"
            raise BadInput(f"batch_size: in {split}, {size}, and {free_here / GIB:,.1f} GiB are free; {lower}")


def free_memory(device: torch.device) -> int | None:
    """The bytes that are free on a device; None if this cannot be found out."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # held by torch
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        import psutil
    except ImportError:
        return None
    free = [psutil.virtual_memory().available]
    limit, used = (_number(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current"))  # of a container
    if limit is not None and used is not None:
        free.append(limit - used)
    return min(free)


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return None
