"""Draws from gates, one or several per text of a batch; switches between gates that depend on each other."""

from collections.abc import Callable

import torch
from torch import Tensor

from rationale.distributions.protocol import GateDistribution

Draw = Callable[[GateDistribution], Tensor]  # a function from gates to their values


def repeated(values: Tensor, num_samples: int) -> Tensor:
    """[B, ...] -> [K B, ...]: the whole batch, K times in a row; not copied if K = 1."""
    return values if num_samples == 1 else torch.cat([values] * num_samples)


def sample(gates: GateDistribution) -> Tensor:
    """One draw, through which gradients pass if the distribution has `rsample`."""
    return gates.rsample() if gates.has_rsample else gates.sample()


def shut(gates: GateDistribution) -> Tensor:
    """The value 0 for every gate: what a model predicts from it shows what the gates add."""
    return torch.zeros_like(gates.log_prob_zero)


def log_switches(gates: GateDistribution, noise: Tensor, after: Callable[[Tensor], GateDistribution]) -> Tensor:
    """ln P(one of z_t, z_{t+1} is 0 and the other is not | z_1 .. z_{t-1}) of dependent gates; unbiased.

        P(z_t = 0) P(z_{t+1} != 0 | z_t = 0) + P(z_t != 0) E[P(z_{t+1} = 0 | z_t) | z_t != 0]

    The memory is advanced twice, once with z_t = 0 and once with a draw of z_t given that it is not 0; the value that
    was actually drawn is not used. Source: eq. (S14), notebooks/07_decide_and_depend.py; Bastings et al. 2019, app. B.

    Parameters
    ----------
    gates : distribution of batch shape [...]
        The distribution of z_t, given the values drawn before it.
    noise : [...]
        Logarithms of uniform numbers, `log_uniform`.
    after : function
        From values of z_t to the distribution of z_{t+1}.
    """
    some = gates.rsample_at(gates.log_prob_nonzero + noise)
    opens = gates.log_prob_zero + after(torch.zeros_like(some)).log_prob_nonzero
    return torch.logaddexp(opens, gates.log_prob_nonzero + after(some).log_prob_zero)
