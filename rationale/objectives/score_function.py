"""The score-function (REINFORCE) estimator and its baselines."""

from collections.abc import Iterator
from typing import Literal

from torch import Tensor

from rationale.settings import Refusal, Settings, setting

BASELINES = ("none", "average", "self_critical", "leave_one_out")


class DrawSettings(Settings):
    """How often the gates are drawn in training."""

    samples: int = setting(1, "draws per text and training step", "[1, 1000]")


class ScoreFunctionSettings(DrawSettings):
    """The estimator of gradients through binary draws."""

    baseline: Literal["none", "average", "self_critical", "leave_one_out"] = setting(
        "none", "what is subtracted from the cost of a draw"
    )

    def refused(self) -> Iterator[Refusal]:
        alone = self.baseline == "leave_one_out" and self.samples == 1
        yield Refusal(alone, "samples", "with baseline leave_one_out", "a whole number from 2")


def leave_one_out(cost: Tensor) -> Tensor:
    """For each of the K draws of a text, the mean cost of the other K - 1 draws: [K, B] -> [K, B].

    Source: eq. (R6), notebooks/08_reinforce.py; Kool, van Hoof & Welling 2019.

    Examples
    --------
    >>> leave_one_out(torch.tensor([[1.0], [2.0], [6.0]]))  # three draws of one text
    tensor([[4.0000],
            [3.5000],
            [1.5000]])
    """
    return (cost.sum(0) - cost) / (len(cost) - 1)


def score_function(cost: Tensor, baseline: Tensor | float, log_prob: Tensor) -> Tensor:
    """A term whose value is 0 and whose gradient is the score-function estimate of the mean cost's gradient.

        gradient = (1 / K B) sum_kb (cost_kb - baseline_kb) grad ln p(z_kb)

    Unbiased for every baseline that does not depend on z_kb itself.
    Source: eqs. (R4)-(R6), notebooks/08_reinforce.py; Williams 1992; Lei et al. 2016.

    Parameters
    ----------
    cost : [K, B]
        Cost of each draw; its own gradient is not used here.
    baseline : [K, B], [B] or a number
    log_prob : [K, B]
        ln p(z) of the whole selection of each draw.

    Examples
    --------
    >>> logit = torch.tensor(0.0, requires_grad=True)
    >>> z = torch.tensor([[1.0], [0.0]])  # two draws of one gate
    >>> log_prob = torch.distributions.Bernoulli(logits=logit).log_prob(z)
    >>> term = score_function(cost=3.0 * z, baseline=1.0, log_prob=log_prob)
    >>> term.item(), torch.autograd.grad(term, logit)[0].item()
    (0.0, 0.75)
    """
    return ((cost - baseline).detach() * (log_prob - log_prob.detach())).mean()
