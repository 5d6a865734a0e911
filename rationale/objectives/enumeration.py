"""Sums over all selections of a short text, against which estimates of gradients are checked.

A text of n words has 2^n selections. If n is small, the expected cost of binary gates, its gradient and the noise of an
estimate of this gradient are sums, and nothing has to be drawn.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

LONGEST = 20  # words of a text whose selections are listed


def all_selections(num_words: int) -> Tensor:
    """Every selection of a text, float64 [2^n, n], as binary numbers in increasing order.

    Raises
    ------
    ValueError
        If the text has no word, or more than `LONGEST`.

    Examples
    --------
    >>> all_selections(2)
    tensor([[0., 0.],
            [0., 1.],
            [1., 0.],
            [1., 1.]], dtype=torch.float64)
    """
    if not 1 <= num_words <= LONGEST:
        raise ValueError(f"num_words: got {num_words}, accepted are 1 to {LONGEST}")
    return ((torch.arange(2**num_words).unsqueeze(1) >> torch.arange(num_words - 1, -1, -1)) & 1).double()


def score_gradients(logits: Tensor, draws: Tensor, cost: Tensor, baseline: Tensor | float = 0.0) -> Tensor:
    """Score-function estimates of the gradient of the expected cost by the logits of independent binary gates.

        gradient_t = (1/K) sum_k (cost_k - baseline_k) (z_kt - p_t)

    Source: eq. (C5), notebooks/01_choosing.py; eqs. (R4) and (R5), notebooks/08_reinforce.py; Williams 1992.

    Parameters
    ----------
    logits : [n]
    draws : [K, N, n], 0 or 1
        K draws for each of N estimates.
    cost : [K, N]
    baseline : [K, N], or a number

    Returns
    -------
    [N, n]

    Examples
    --------
    >>> z = torch.tensor([[[1.0]], [[0.0]]])  # two draws of one gate
    >>> score_gradients(torch.tensor([0.0]), z, cost=3 * z.squeeze(-1), baseline=1.0)
    tensor([[0.7500]])
    """
    return ((cost - baseline).unsqueeze(-1) * (draws - logits.sigmoid())).mean(0)


@dataclass(frozen=True, eq=False)
class CostTable:
    """The cost of every selection of one text whose words have independent binary gates.

        expected cost = sum_z p(z) c(z),     gradient_t = sum_z p(z) c(z) (z_t - p_t)

    Source: eqs. (C3) and (C5), notebooks/01_choosing.py.

    Parameters
    ----------
    logits : float64 [n]
        ln P(z_t = 1) - ln P(z_t = 0).
    cost : float64 [2^n]
        In the order of `all_selections`.

    Raises
    ------
    ValueError
        If there is not one cost per selection.

    Examples
    --------
    >>> table = CostTable(torch.zeros(1).double(), torch.tensor([0.0, 2.0]).double())  # a fair coin; 1 costs 2
    >>> table.expected_cost.item(), table.gradient.item()
    (1.0, 0.5)
    """

    logits: Tensor
    cost: Tensor

    def __post_init__(self) -> None:
        if self.cost.shape != (2 ** len(self.logits),):
            raise ValueError(
                f"cost: got {tuple(self.cost.shape)}, accepted is one cost per selection, ({2 ** len(self.logits)},)"
            )

    @cached_property
    def selections(self) -> Tensor:
        """Every selection, [2^n, n]."""
        return all_selections(len(self.logits))

    @cached_property
    def chances(self) -> Tensor:
        """p(z) of every selection, [2^n]; they sum to 1."""
        p = self.logits.sigmoid()
        return torch.where(self.selections == 1, p, 1 - p).prod(1)

    @cached_property
    def scores(self) -> Tensor:
        """The derivative of ln p(z) by each logit, z_t - p_t, [2^n, n]."""
        return self.selections - self.logits.sigmoid()

    @property
    def expected_cost(self) -> Tensor:
        return self.chances @ self.cost

    @property
    def gradient(self) -> Tensor:
        """The exact derivative of the expected cost by each logit, [n]."""
        return (self.chances * self.cost) @ self.scores

    @property
    def cheapest(self) -> list[int]:
        """The positions of the words of the cheapest selection."""
        return self.selections[self.cost.argmin()].nonzero().flatten().tolist()

    def noise(self, baseline: float = 0.0) -> Tensor:
        """Standard deviation of the estimate of one draw, [n]; the mean of K draws has 1 / sqrt(K) of it.

        Source: eq. (C6), notebooks/01_choosing.py.
        """
        squared = self.chances @ ((self.cost - baseline).unsqueeze(1) * self.scores).square()
        return (squared - self.gradient.square()).clamp(min=0).sqrt()

    def draw(self, num_estimates: int, num_draws: int = 1) -> Tensor:
        """Random selections, [K, N, n]."""
        noise = torch.rand(num_draws, num_estimates, len(self.logits), dtype=torch.float64)
        return (noise < self.logits.sigmoid()).double()

    def cost_of(self, draws: Tensor) -> Tensor:
        """The costs of selections, [..., n] -> [...], looked up in the table."""
        return self.cost[(draws @ 2.0 ** torch.arange(len(self.logits) - 1, -1, -1, dtype=torch.float64)).long()]

    def moved(self, logits: Tensor) -> "CostTable":
        """The same costs under gates with other logits."""
        return CostTable(logits, self.cost)


def descend(table: CostTable, num_steps: int, rate: float, num_draws: int = 0) -> Tensor:
    """Gradient descent on the logits, by the exact gradient or (num_draws > 0) by its score-function estimate.

    Parameters
    ----------
    table : CostTable
        The costs, and the logits at the start.
    num_steps : int
    rate : float, > 0
        Step size.
    num_draws : int
        Draws per step; 0: the exact gradient.

    Returns
    -------
    [num_steps + 1, n]
        The logits before the first step and after each.
    """
    path = [table.logits]
    for _ in range(num_steps):
        now = table.moved(path[-1])
        if num_draws:
            draws = now.draw(1, num_draws)
            slope = score_gradients(now.logits, draws, now.cost_of(draws)).squeeze(0)
        else:
            slope = now.gradient
        path.append(path[-1] - rate * slope)
    return torch.stack(path)
