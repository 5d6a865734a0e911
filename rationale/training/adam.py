"""Adam without torch's compiler, whose import would take seconds of each run."""

import inspect

import torch


class Adam(torch.optim.Adam):
    """torch's Adam, which computes the same numbers.

    torch wraps the methods below so that its compiler leaves them alone. For this, the first call of any of them
    imports the compiler, which takes as long as reading a corpus and its word vectors, although nothing is compiled.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.Adam.step))  # the wrapper of `step` also does without gradients
