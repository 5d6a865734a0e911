"""Importing this module tells `torch.compile` to take every `numerics.Elementwise` function into its graph as it is.

The compiler cannot read such a function by itself, because the function has a forward-mode derivative. It need not read
it: the forward and the backward pass consist of torch operations, which are recorded when the graph is made.
`Elementwise.of` imports this module while the compiler reads it. Nothing else does, as importing the compiler takes a
second.
"""

import torch

todo = [torch.autograd.Function]
while todo:
    function = todo.pop()
    todo += function.__subclasses__()
    if getattr(function, "is_recorded", False):
        torch.compiler.allow_in_graph(function)
