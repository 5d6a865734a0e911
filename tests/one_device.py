"""Find what would fail on a GPU, without one.

On torch's `meta` device tensors have shapes but no numbers. What asks for a number there raises an error (as it makes a
GPU wait), and `OneDevice` raises one where an operation gets tensors of two devices: one that was made on the CPU, for
example, where its neighbours are on the GPU. It sees the operations of the backward pass as well.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class OneDevice(TorchDispatchMode):
    """Within the block, every operation gets tensors of one device; numbers, which any device accepts, are left out.

    Raises
    ------
    AssertionError
        Where an operation gets tensors of two devices, or moves a tensor from one to the other.
    """

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        options = options or {}
        tensors = [leaf for leaf in tree_leaves((arguments, options)) if isinstance(leaf, torch.Tensor) and leaf.ndim]
        devices = {tensor.device.type for tensor in tensors}
        wanted = torch.device(options["device"]).type if options.get("device") and tensors else None
        if function is torch.ops.aten._to_copy.default and wanted:
            devices.add(wanted)
        assert len(devices) <= 1, f"{function}: tensors on {' and '.join(sorted(devices))}"
        return function(*arguments, **options)
