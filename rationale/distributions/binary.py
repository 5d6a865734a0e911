"""Distributions of gates that are exactly 0 or 1: the Bernoulli and its straight-through version."""

import torch
from torch import Tensor

from rationale.distributions.numerics import (
    SINGLE_DRAW,
    binary_entropy,
    cached_per_mode,
    clamp_to_interior,
    log_sigmoid,
    log_uniform,
)


class Bernoulli(torch.distributions.Bernoulli):
    """A Bernoulli with the attributes of the rectified distributions: masses, their logarithms, `mean`.

        ln P(Z = 1) = -softplus(-m),   ln P(Z = 0) = -softplus(m)        m: logits

    Source: eq. (R1), notebooks/08_reinforce.py; Lei et al. 2016. A draw has no gradient (`has_rsample` is
    False), so the objective uses the score function instead. Give either `probs` or `logits`.

    Examples
    --------
    >>> gate = Bernoulli(logits=torch.tensor([-200.0, 0.0]))
    >>> gate.prob_one
    tensor([0.0000, 0.5000])
    >>> gate.log_prob_nonzero
    tensor([-200.0000,   -0.6931])
    """

    binary = True  # a draw is exactly 0 or 1

    @cached_per_mode
    def probs(self) -> Tensor:
        """sigmoid(m) for given `logits`."""
        return self.logits.sigmoid()

    @cached_per_mode
    def logits(self) -> Tensor:
        """ln p - ln(1 - p) for given `probs`, which are not cut off as in torch; 0 counts as the smallest number."""
        probs = clamp_to_interior(self.probs)
        return probs.log() - (-probs).log1p()

    @property
    def log_prob_one(self) -> Tensor:
        return log_sigmoid(self.logits)

    @property
    def log_prob_zero(self) -> Tensor:
        return log_sigmoid(-self.logits)

    @property
    def log_prob_nonzero(self) -> Tensor:
        return self.log_prob_one

    @property
    def prob_nonzero(self) -> Tensor:
        """P(Z = 1), as the exponential of its logarithm, whose gradient has digits where the gate is nearly open."""
        return self.log_prob_nonzero.exp()

    @property
    def prob_one(self) -> Tensor:
        return self.logits.sigmoid()

    @property
    def prob_zero(self) -> Tensor:
        return (-self.logits).sigmoid()

    @property
    def prob_interior(self) -> Tensor:
        return torch.zeros_like(self.logits)

    @property
    def variance(self) -> Tensor:
        return self.prob_nonzero * self.prob_zero

    @property
    def mode(self) -> Tensor:
        """The more probable value, without a gradient; 1 if both are equally probable (torch returns NaN)."""
        given = vars(self).get("probs")
        return (self.logits >= 0 if given is None else given >= 0.5).to(self._param.dtype)

    def entropy(self) -> Tensor:
        return binary_entropy(self.log_prob_one, self.log_prob_zero)

    def sample(self, sample_shape=SINGLE_DRAW) -> Tensor:
        """Draws without a gradient.

        In half precision, sigmoid(m) is computed in float32: bfloat16 rounds it to 1 from m = 6.3 on, and the gate
        would never be drawn shut.
        """
        logits = vars(self).get("logits")
        if logits is None or logits.dtype.itemsize > 2:
            return super().sample(sample_shape)
        return Bernoulli(logits=logits.float(), validate_args=False).sample(sample_shape).to(logits.dtype)

    def rsample_at(self, log_s: Tensor) -> Tensor:
        raise NotImplementedError("a draw of a Bernoulli passes no gradient; `StraightThroughBernoulli` has one")


class StraightThroughBernoulli(Bernoulli):
    """A Bernoulli whose draw has the gradient of its probability, dz/dm := dp/dm. This gradient is biased.

    Source: eq. (R11), notebooks/09_questions.py; Bengio, Leonard & Courville 2013.

    Examples
    --------
    >>> m = torch.tensor(0.0, requires_grad=True)
    >>> z = StraightThroughBernoulli(logits=m).rsample_at(torch.tensor(0.4).log())  # 0.4 < p = 0.5: selected
    >>> z.item(), torch.autograd.grad(z, m)[0].item()  # dp/dm = p (1 - p)
    (1.0, 0.25)
    """

    has_rsample = True

    def rsample(self, sample_shape=SINGLE_DRAW) -> Tensor:
        """Draws that are exactly 0 or 1 and have the gradient of the probability."""
        return self.rsample_at(log_uniform(self._extended_shape(sample_shape), self.logits))

    def rsample_at(self, log_s: Tensor) -> Tensor:
        """`rsample` with the given noise `log_s` (see `log_uniform`): 1 where ln P(Z = 1) exceeds `log_s`.

        In half precision, the two are compared in float32.
        """
        p = self.prob_one
        log_p = log_sigmoid(self.logits.to(torch.promote_types(p.dtype, torch.float32)))
        return (log_s < log_p).to(p.dtype) + (p - p.detach())
