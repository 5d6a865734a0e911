"""A device that refuses what a GPU refuses, on a machine without one: for whole notebooks, which need real numbers.

A `Remote` tensor says that it is on torch's `meta` device, and holds its numbers on the CPU. Within `pretend_gpu`, what
is made on that device becomes such a tensor, and an operation that gets tensors of both devices raises an error, as on
a GPU. There and here, a tensor without a dimension may be of any device, and so may an index on the CPU. What waits for
a number is computed: `tests/one_device.py` finds it.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch._dynamo import trace_rules
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

from rationale.runs import fit, probed  # noqa: F401  they choose a device, too
from rationale.training.loop import choose_device

PLACE = torch.device("meta")
OPS = torch.ops.aten
COPIES = {OPS._to_copy.default, OPS.copy_.default}
# Tables of its functions that torch makes once per process. If they were made within `pretend_gpu`, `torch.compile`
# would no longer know `torch.tensor`. Nor would `torch.device("meta")`, and transformers would not set position ids.
TABLES = (torch.utils._device._device_constructors, trace_rules.get_torch_obj_rule_map)
PACKS = OPS._pack_padded_sequence.default  # its lengths are on the CPU
INDEXES = {OPS.index.Tensor, OPS.index_put.default, OPS.index_put_.default, OPS._index_put_impl_.default}


class Remote(torch.Tensor):
    """A tensor that says it is on PLACE; `held` has its numbers."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Remote":
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype, device=PLACE, **layout)

    def __init__(self, held: torch.Tensor):
        self.held = held

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        return compute(function, arguments, options or {})

    def __repr__(self, **_) -> str:
        return f"Remote({self.held})"

    def __format__(self, form: str) -> str:
        return format(self.held, form)

    def tolist(self) -> list:
        return self.held.tolist()

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def numpy(self, **_):
        raise TypeError("can't convert a tensor of a GPU to numpy; copy it to the CPU first, with Tensor.cpu()")


def compute(function, arguments, options):
    """Compute an operation. Its results are on the device that was asked for, else on that of its tensors.

    Raises
    ------
    RuntimeError
        If it gets tensors of both devices.
    """
    tensors = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, torch.Tensor)]
    remote = [tensor for tensor in tensors if isinstance(tensor, Remote)]
    here = [tensor for tensor in tensors if not isinstance(tensor, Remote) and tensor.ndim]
    if remote and here and function not in COPIES | INDEXES | {PACKS}:
        raise RuntimeError(f"{function}: some of its tensors are on the CPU, others on the GPU")
    asked = options.get("device")
    held_arguments, held_options = tree_map_only(Remote, lambda tensor: tensor.held, (arguments, options))
    result = function(*held_arguments, **held_options | ({"device": "cpu"} if asked else {}))
    if not (remote if asked is None else torch.device(asked).type == PLACE.type):
        return result
    if function is PACKS:  # the sizes of the packed batches stay on the CPU
        return Remote(result[0]), result[1]
    result = tree_map_only(torch.Tensor, Remote, result)
    return return_and_correct_aliasing(function, arguments, options, result) if remote else result


class OnPlace(TorchDispatchMode):
    """Within the block, what is made on PLACE is a `Remote` tensor."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        return compute(function, arguments, options or {})


def on_place(make: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`torch.tensor` or `torch.as_tensor`, whose numbers no operation sees."""

    def call(numbers, *, device=None, **options):
        made = numbers.to(**options) if isinstance(numbers, Remote) else make(numbers, **options)
        return made if device is None else made.to(device)

    return call


@contextmanager
def pretend_gpu(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Within the block this machine has a GPU, which `device=auto` chooses."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rationale.") and hasattr(module, "choose_device"):
            patch.setattr(module, "choose_device", lambda name: PLACE if name == "auto" else choose_device(name))
    for remembered in TABLES:
        remembered()
    for name in ("tensor", "as_tensor"):
        patch.setattr(torch, name, on_place(getattr(torch, name)))
    check = "_device_dtype_check_for_fused"  # a list of names, on which PLACE is not
    patch.setattr(sys.modules["torch.optim.adam"], check, lambda *_, **__: None)
    with OnPlace():
        yield
