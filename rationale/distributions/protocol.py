"""What is asked of the distribution of a gate, whatever its family."""

from typing import Protocol

import torch
from torch import Tensor


class GateDistribution(Protocol):
    """A distribution on [0, 1] with probability masses at exactly 0 ("unselected") and exactly 1 ("selected").

    `StretchedRectified` and `Bernoulli` are of this form.

    Attributes
    ----------
    has_rsample : bool
        Whether draws pass gradients; if not, `rsample` and `rsample_at` raise NotImplementedError.
    binary : bool
        Whether draws are exactly 0 or 1. If not, there is an interval in between. The rules of the test time then read
        its `conditional_mean`, and `base_mean`, the mean before the law was stretched.
    """

    has_rsample: bool
    binary: bool

    @property
    def batch_shape(self) -> torch.Size: ...

    @property
    def prob_zero(self) -> Tensor: ...  # masses, in [0, 1]

    @property
    def prob_nonzero(self) -> Tensor: ...  # 1 - P(Z = 0)

    @property
    def prob_one(self) -> Tensor: ...

    @property
    def prob_interior(self) -> Tensor: ...

    @property
    def log_prob_zero(self) -> Tensor: ...  # ln P(Z = 0)

    @property
    def log_prob_nonzero(self) -> Tensor: ...  # ln P(Z != 0)

    @property
    def log_prob_one(self) -> Tensor: ...  # ln P(Z = 1)

    @property
    def mean(self) -> Tensor: ...

    def entropy(self) -> Tensor: ...

    def log_prob(self, value: Tensor) -> Tensor: ...

    def sample(self) -> Tensor: ...

    def rsample(self) -> Tensor: ...

    def rsample_at(self, log_s: Tensor) -> Tensor: ...  # the draw for given noise, see `log_uniform`
