"""The toys of the notebooks 05 to 07 and 41: words of known worth, gates of two numbers, loops that hold a rate.

The predictor of these toys needs no training. What a constraint does to the gates can therefore be seen by itself, in
seconds and without data. No real model uses this module.
"""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from rationale.distributions import HardConcrete, HardKuma, log_uniform
from rationale.explain import LEFT, RIGHT, TEMPERATURE
from rationale.nn import HardKumaGate, selects
from rationale.objectives import Constraint, log_mean

POINTS = 2000  # of the midpoint rule
# A sentence of the Stanford Sentiment Treebank (test split), which the notebooks 10, 01 and 05 to 07 share. People
# found it negative. What each word is worth to the predictor was made up for these notebooks.
SENTENCE = "Pretentious editing ruins a potentially terrific flick .".split()
SENTENCE_WORTH = torch.tensor([3, 1, 4, 0, 2, 1, 1, 0], dtype=torch.float64)


class Texts(NamedTuple):
    """Toy texts, all of the same length."""

    worth: Tensor  # [B, T], >= 0: what each word is worth to the predictor
    clue: Tensor  # [B, T]: what the selector sees of it


class Trace(NamedTuple):
    """What happened in each of N training steps, before the weights moved."""

    rate: Tensor  # [N]: expected share of selected words
    rate_selected: Tensor  # [N]: share of words that the rule selects at test time
    gap: Tensor  # [N]
    multiplier: Tensor  # [N]


class Rates(NamedTuple):
    """The rate of a batch of gates."""

    log_expected: Tensor  # [], has a gradient
    log_rest: Tensor  # [], logarithm of one minus the expected rate, has a gradient
    selected: Tensor  # [], share of words that a rule selects

    @property
    def expected(self) -> Tensor:
        """The expected share of selected words, without a gradient."""
        return self.log_expected.detach().exp()


class Holder(Protocol):
    """What `hold_rate` asks of a constraint."""

    gap: Tensor
    multiplier: Tensor

    def at_step(self, taken: int) -> None: ...
    def update(self, amount: Tensor, size: float) -> None: ...
    def __call__(self, log_value: Tensor, log_rest: Tensor) -> Tensor: ...


class FixedPrice(nn.Module):
    """A price per unit of rate that never changes, in the place of a constraint.

    Examples
    --------
    >>> rate = torch.tensor(0.5)
    >>> FixedPrice(3.0)(rate.log(), (1 - rate).log())
    tensor(1.5000)
    """

    def __init__(self, price: float):
        super().__init__()
        self.multiplier, self.gap = torch.tensor(price), torch.tensor(0.0)

    def at_step(self, taken: int) -> None:
        """Do nothing: a price has no target."""

    def update(self, amount: Tensor, size: float) -> None:
        """Do nothing."""

    def forward(self, log_value: Tensor, log_rest: Tensor) -> Tensor:  # noqa: ARG002
        """The price times the rate."""
        return self.multiplier * log_value.exp()


class SignedDifference(Constraint):
    """The rule `signed` of `Constraint` with the difference from the target in the place of the one in log-odds.

        term = multiplier (value - target) + quadratic / 2 (value - target)^2

    Section 6 of `06_hold_a_rate` compares the two on gates that are shut.
    """

    def forward(self, log_value: Tensor | float, *_: Tensor | float | None) -> Tensor:
        """The term to add to the loss, []."""
        difference = torch.as_tensor(log_value).exp() - self.target
        return self.multiplier * difference + self.quadratic / 2 * difference.square()


def likelihood(z: Tensor, worth: Tensor) -> Tensor:
    """Probability of the right class of five, given the gates: 0.2 without words, 0.9 with all the worth.

        p(y | x, z) = 0.2 + 0.7 (sum_t worth_t z_t) / (sum_t worth_t)

    Parameters
    ----------
    z : [..., T], in [0, 1]
    worth : [..., T], >= 0, with a positive sum

    Examples
    --------
    >>> likelihood(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 1.0]))
    tensor(0.5500)
    """
    return 0.2 + 0.7 * (worth * z).sum(-1) / worth.sum(-1)


def expected_log_gain(gates: HardKuma) -> Tensor:
    """What a gate on the only word of a text adds to the expected log-likelihood, by the midpoint rule.

        E[ln p(y | x, z)] - ln p(y | x, 0) = integral_0^1 0.7 / (0.2 + 0.7 u) P(z > u) du

    Parameters
    ----------
    gates : HardKuma
        Of batch shape [N].

    Returns
    -------
    [N], nats
    """
    u = (torch.arange(POINTS, dtype=gates.a.dtype) + 0.5) / POINTS
    survival = gates.base.log_survival((u[:, None] - gates.left) / (gates.right - gates.left)).exp()
    return ((0.7 / (0.2 + 0.7 * u))[:, None] * survival).mean(0)


def make_texts(num_texts: int, num_words: int = 12, seed: int = 0) -> Texts:
    """Texts in which most words are worth little and a few are worth much; a clue is a noisy logarithm of the worth."""
    generator = torch.Generator().manual_seed(seed)
    shape = (num_texts, num_words)
    log_worth = torch.randn(shape, generator=generator, dtype=torch.float64)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return Texts((1.5 * log_worth).exp(), log_worth + 0.5 * noise)


def sentence_texts(num_copies: int) -> Texts:
    """Copies of `SENTENCE`, as a batch. The clue of a word is its worth, from -1 to 1, so equal worths get one gate."""
    worth = SENTENCE_WORTH.expand(num_copies, -1)
    return Texts(worth, 2 * worth / worth.max() - 1)


def one_word_texts(num_texts: int) -> Texts:
    """Texts of one word without a clue, so that all their gates are one gate."""
    return Texts(torch.ones(num_texts, 1, dtype=torch.float64), torch.zeros(num_texts, 1, dtype=torch.float64))


def smallest_losses(texts: Texts, rates: Tensor) -> Tensor:
    """Mean task loss if the words with the largest clues of all texts are selected, [N] rates -> [N] nats."""
    limits = torch.quantile(texts.clue, 1 - rates)
    return torch.stack([-likelihood((texts.clue > limit).double(), texts.worth).log().mean() for limit in limits])


def toy_gate(left: float, right: float, raw_a: float = 0.0, raw_b: float = 0.0) -> HardKumaGate:
    """A layer of HardKuma gates on one number per word, in float64. All weights are 0; the biases are given."""
    with torch.random.fork_rng(devices=[]):  # a layer draws its first weights, which are replaced
        gate = HardKumaGate(1, left, right).double()
    for layer, bias in ((gate.a, raw_a), (gate.b, raw_b)):
        nn.init.zeros_(layer.weight)
        nn.init.constant_(layer.bias, bias)
    return gate


def rates_of(gates: HardKuma, rule: str = "argmax") -> Rates:
    """The expected rate of gates of batch shape [B, T], and the share of them that a rule selects."""
    everywhere = torch.ones(gates.batch_shape).bool()
    expected, rest = log_mean(gates.log_prob_nonzero, everywhere), log_mean(gates.log_prob_zero, everywhere)
    return Rates(expected, rest, selects(gates, rule).double().mean())


def hold_rate(
    constraint: Holder,
    selector: nn.Module,
    texts: Texts,
    num_steps: int,
    learning_rate: float,
    measure: str = "expected",
    rule: str = "argmax",
    seed: int = 0,
) -> Trace:
    """Train a selector under a constraint, as the package trains: measure, update the multiplier, add its term.

    Parameters
    ----------
    constraint : Constraint or FixedPrice
    selector : module
        From clues [B, T, 1] to gates of batch shape [B, T]; it is changed.
    measure : "expected" or "selected"
        The rate that the constraint measures. The gradient is that of the expected rate in both cases.
    rule : str
        The rule at test time.
    seed : int
        Of the draws. The random state outside is not changed.
    """
    optimiser, rows = torch.optim.Adam(selector.parameters(), lr=learning_rate), []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for step in range(num_steps):
            gates = selector(texts.clue.unsqueeze(-1))
            rates = rates_of(gates, rule)
            constraint.at_step(step)
            constraint.update(getattr(rates, measure), 1.0)
            optimiser.zero_grad()
            term = constraint(rates.log_expected, rates.log_rest)
            (-likelihood(gates.rsample(), texts.worth).log().mean() + term).backward()
            optimiser.step()
            numbers = (rates.expected, rates.selected, constraint.gap, constraint.multiplier)
            rows.append([number.item() for number in numbers])
    return Trace(*torch.tensor(rows, dtype=torch.float64).T)


def hold_logit(constraint: Constraint, start: float, num_steps: int, learning_rate: float = 0.1) -> Tensor:
    """The rates [N] of one gate without a task, given by a logit, while plain gradient descent holds its rate."""
    logit, rates = torch.tensor(start, dtype=torch.float64, requires_grad=True), []
    descent = torch.optim.SGD([logit], lr=learning_rate)
    for _ in range(num_steps):
        constraint.update(logit.sigmoid().detach(), 1.0)
        descent.zero_grad()
        constraint(logsigmoid(logit), logsigmoid(-logit)).backward()
        descent.step()
        rates.append(logit.sigmoid().item())
    return torch.tensor(rates, dtype=torch.float64)


def hold_cost(cost: float, margin: float, damped: bool, num_steps: int) -> list[float]:
    """P(z != 0) of one gate in each step, while a multiplier holds the mean cost of masking its word at a margin.

    The objective is the price P(z != 0) plus lambda (mean of cost (1 - z)^2 - margin).

    Parameters
    ----------
    cost : float
        Of masking the word, in nats.
    margin : float
        Mean cost that is permitted, in nats.
    damped : bool
        True: ln lambda moves by the average gap, and a penalty on a positive gap is added. False: lambda moves by the
        gap of this step.
    """
    logit = torch.tensor(5.0, requires_grad=True)
    multiplier, average, kept = 1.0, 0.0, []
    optimiser = torch.optim.RMSprop([logit], lr=0.01)
    for _ in range(num_steps):
        gate = HardConcrete(logit, TEMPERATURE, LEFT, RIGHT)
        gap = cost * (1 - gate.rsample(torch.Size([128]))).square().mean() - margin
        average = 0.9 * average + 0.1 * gap.item()
        if damped:
            relative = min(5.0, max(-1.0, average / margin))
            multiplier = min(200.0, max(0.1, multiplier * math.exp(0.01 * relative)))
        else:
            multiplier = min(200.0, max(0.0, multiplier + 0.01 * gap.item()))
        optimiser.zero_grad()
        (gate.prob_nonzero + (multiplier + damped * 10 * max(0.0, average)) * gap).backward()
        optimiser.step()
        kept.append(gate.prob_nonzero.item())
    return kept


class TwoWords:
    """Two words; the gate of the second follows the value z that was drawn for the first.

    The second gate is a Hard Concrete with logit omega (z - 1/2). It tends to agree with the first if omega > 0, and to
    be its opposite if omega < 0. Each method gives the probability of a switch, or an estimate of it from the same
    `num_samples` draws.

    Parameters
    ----------
    first : HardKuma
        The gate of the first word, of batch shape [].
    num_samples : int
    """

    def __init__(self, first: HardKuma, num_samples: int):
        self.first = first
        self.log_u = log_uniform(torch.Size([num_samples]), first.a)
        self.drawn = first.rsample_at(self.log_u)
        self.quantiles = ((torch.arange(POINTS, dtype=first.a.dtype) + 0.5) / POINTS).log()

    def second(self, z: Tensor, omega: float) -> HardConcrete:
        """The gate of the second word after the draw z of the first."""
        return HardConcrete(omega * (z - 0.5), torch.tensor(2 / 3), self.first.left, self.first.right)

    def _switches(self, after_zero: HardConcrete, after_some: HardConcrete) -> float:
        """The sum of the two products, for the second gate after z = 0 and after z != 0."""
        opens = self.first.prob_zero * after_zero.prob_nonzero
        return (opens + (1 - self.first.prob_zero) * after_some.prob_zero).mean().item()

    def _after_both(self, omega: float, log_u: Tensor) -> float:
        """The second gate after z = 0, and after draws given z != 0."""
        some = self.first.rsample_at(self.first.log_prob_nonzero + log_u)
        return self._switches(self.second(torch.zeros_like(some), omega), self.second(some, omega))

    def exact(self, omega: float) -> float:
        """The probability of a switch, by quadrature over the first gate."""
        return self._after_both(omega, self.quantiles)

    def look_ahead(self, omega: float) -> float:
        """Both products after what they are conditioned on."""
        return self._after_both(omega, self.log_u)

    def plug_in(self, omega: float) -> float:
        """Both products after the value that happened to be drawn."""
        return self._switches(self.second(self.drawn, omega), self.second(self.drawn, omega))

    def counted(self, omega: float) -> float:
        """The share of draws of both gates with a switch."""
        return ((self.drawn == 0) ^ (self.second(self.drawn, omega).sample() == 0)).double().mean().item()


def shapes_at_rate(log_a: Tensor, rate: float, left: float, right: float) -> HardKuma:
    """The gates with P(z != 0) = rate along the curve of their shapes.

        b(a) = ln rate / ln(1 - k0^a),   k0 = -left / (right - left)

    Source: eq. (S15), notebooks/07_decide_and_depend.py.

    Parameters
    ----------
    log_a : [N]
        Logarithms of the first shape.
    rate : float, in (0, 1)
    """
    a, k0 = log_a.exp(), -left / (right - left)
    return HardKuma(a, math.log(rate) / torch.log1p(-(k0**a)), left, right)
