"""The authors' initialisation of weights, by type of module."""

from typing import TypeVar

from torch import nn

from rationale.nn.rcnn import RCNNCell

Module = TypeVar("Module", bound=nn.Module)
BLOCKS = {
    nn.LSTM: 4,
    nn.LSTMCell: 4,
    nn.GRU: 3,
    nn.GRUCell: 3,
}  # number of matrices stored in one weight, per type of module


def initialise(module: Module) -> Module:
    """Glorot-uniform weights and zero biases, for all linear and recurrent layers of a module; returns the module.

    Each matrix of an LSTM or a GRU (one per gate) is drawn separately. Modules of other types, such as `nn.LayerNorm`
    and `nn.Embedding`, keep the weights with which they were built, and so does everything inside a module whose
    attribute `keeps_weights` is True.

    Source: the code of Bastings et al. 2019.
    """
    kept = [part for part in module.modules() if getattr(part, "keeps_weights", False)]
    pretrained = {inner for part in kept for inner in part.modules()}
    for part in module.modules():
        if part in pretrained:
            continue
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
        elif type(part) in BLOCKS:
            for name, value in part.named_parameters(recurse=False):
                if name.startswith("weight"):
                    for block in value.data.chunk(BLOCKS[type(part)]):
                        nn.init.xavier_uniform_(block)
                else:
                    nn.init.zeros_(value)
        elif isinstance(part, RCNNCell):
            nn.init.zeros_(part.bias)
    return module
