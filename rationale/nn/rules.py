"""Rules: from the distribution of a gate to its value at test time, found by name in `RULES`.

To add a rule, write one subclass of `Rule` with a `name`.
"""

import inspect
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from rationale.distributions.protocol import GateDistribution
from rationale.errors import BadInput
from rationale.metrics import num_within_budget
from rationale.parts import Table
from rationale.settings import OneOf, Refusal, Settings, setting


class DecisionSettings(Settings):
    """How a gate becomes a number at test time."""

    rule: Annotated[str, OneOf(lambda: RULES)] = setting("argmax", "how a gate becomes a number at test time")
    threshold: float = setting(0.5, "probability from which the rule threshold selects", "(0, 1]")
    budget: float = setting(1.0, "share of each text that the rule top_k keeps", "(0, 1]")

    def refused(self) -> Iterator[Refusal]:
        rule = RULES[self.rule]
        undecided = rule.decide is Rule.decide
        yield Refusal(undecided, "rule", f"because {rule.__name__} has no method `decide`", "it one")
        yield Refusal(
            rule.has_budget and self.budget == 1,
            "budget",
            f"with rule {self.rule}: it keeps everything",
            "a number in (0, 1)",
        )
        yield Refusal(
            not rule.has_budget and self.budget < 1,
            "budget",
            f"with rule {self.rule}",
            "1, or rule=top_k",
            meaningless=True,
        )
        unused = not rule.has_threshold and self.threshold != 0.5
        yield Refusal(unused, "threshold", f"with rule {self.rule}", "0.5, or rule=threshold", meaningless=True)


class Rule:
    """How a gate becomes a number at test time. A subclass that sets `name` is found in `RULES` by that name.

    Attributes
    ----------
    name : str
        The value of the setting `rule` that chooses this rule.
    has_threshold, has_budget : bool
        Whether the rule uses the setting `threshold`, and the setting `budget`.
    in_order : bool
        Whether the rule can decide one token after the other, as dependent gates need it.
    is_random : bool
        Whether the rule draws random numbers.
    reads_weights : bool
        Whether the rule also chooses words by their attention weights, in a model without gates; see `of_weights`.
    rate_moves : bool
        Whether the share of words that are read depends on the gates. If not, no target can be held by measuring it.
    inside : str
        The attribute of gates that are not binary which the rule needs beside those of `GateDistribution`; "": none.
    """

    name: ClassVar[str]
    has_threshold: ClassVar[bool] = False
    has_budget: ClassVar[bool] = False
    in_order: ClassVar[bool] = True
    is_random: ClassVar[bool] = False
    reads_weights: ClassVar[bool] = False
    rate_moves: ClassVar[bool] = True
    inside: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        RULES.add_class(cls)

    @staticmethod
    def decide(gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        """Values [..., T] in [0, 1] of gates of batch shape [..., T]; see `decide` for the arguments."""
        raise NotImplementedError

    @classmethod
    def selects(cls, gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        """bool [..., T]: whether the value is not 0; a rule that knows this without the value overrides the method."""
        return cls.decide(gates, mask, threshold, budget) != 0

    @staticmethod
    def of_weights(weights: Tensor, mask: Tensor, threshold: float, budget: float) -> Tensor:
        """1 for the words that are read, else 0, [B, T], from attention weights [B, T]; if `reads_weights`."""
        raise NotImplementedError


RULES: Table[type[Rule]] = Table("rule", lambda part: isinstance(part, type) and issubclass(part, Rule))


class Argmax(Rule):
    """The likeliest of {0}, {1} and (0, 1); the mean of the base variable where the interval wins."""

    name, inside = "argmax", "base_mean"

    @classmethod
    def decide(cls, gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        zero, one, interior = gates.prob_zero, gates.prob_one, gates.prob_interior
        hard = (zero <= one).to(zero.dtype)
        if gates.binary:
            return hard
        return torch.where((interior > zero) & (interior > one), getattr(gates, cls.inside), hard)

    @classmethod
    def selects(cls, gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        """As {0} is not the likeliest. The value in the interval, a mean of many operations, is not computed."""
        zero, one = gates.prob_zero, gates.prob_one
        return (zero <= one) | (zero < gates.prob_interior)


class ArgmaxConditional(Argmax):
    """The same choice, and E[H | 0 < H < 1] where the interval wins."""

    name, inside = "argmax_conditional", "conditional_mean"


class Expected(Rule):
    """E[H], which is above 0 for nearly every word."""

    name, rate_moves = "expected", False

    @staticmethod
    def decide(gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        return gates.mean


class Threshold(Rule):
    """1 where P(H != 0), or the attention weight, is at least the threshold."""

    name, has_threshold, reads_weights = "threshold", True, True

    @staticmethod
    def decide(gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        return (gates.prob_nonzero >= threshold).to(gates.prob_zero.dtype)

    @staticmethod
    def of_weights(weights: Tensor, mask: Tensor, threshold: float, budget: float) -> Tensor:
        _check_threshold(threshold)
        return (mask & (weights >= threshold)).to(weights.dtype)


class Sample(Rule):
    """One draw."""

    name, is_random = "sample", True

    @staticmethod
    def decide(gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        return gates.sample()


class TopK(Rule):
    """1 for the share `budget` of each text's tokens with the largest P(H != 0), or attention weights."""

    name, has_budget, in_order, reads_weights, rate_moves = "top_k", True, False, True, False

    @staticmethod
    def decide(gates: GateDistribution, mask: Tensor | None, threshold: float, budget: float) -> Tensor:
        return top_k(gates.log_prob_nonzero, mask, budget)

    @staticmethod
    def of_weights(weights: Tensor, mask: Tensor, threshold: float, budget: float) -> Tensor:
        return top_k(weights, mask, budget)


@torch.no_grad()
def require_values(name: str, gates: GateDistribution, told: str = "") -> None:
    """Refuse a rule of one's own, or gates of one's own, if the rule gives these gates no values as in `Rule.decide`.

    Parameters
    ----------
    name : one of `RULES`
    gates : distribution
    told : str
        Begins the message: the setting, and what is of one's own; "": the rule is.

    Raises
    ------
    BadInput
        So this is found before anything is trained.
    """
    told = told or f"rule: {RULES[name].__name__}.decide"
    zero = gates.prob_zero
    mask = torch.ones_like(zero, dtype=torch.bool)
    arguments = gates, mask, 0.5, 0.5
    try:
        inspect.signature(RULES[name].decide).bind(*arguments)
    except TypeError:
        raise BadInput(f"{told} must be a static method of gates, mask, threshold and budget") from None
    with torch.random.fork_rng(devices=[]):
        values = RULES[name].decide(*arguments)
    shown = (tuple(values.shape), values.dtype) if isinstance(values, Tensor) else type(values).__name__
    if shown != (tuple(zero.shape), zero.dtype):
        what = f"{told} returns {shown} for gates of shape {tuple(zero.shape)}"
        raise BadInput(f"{what}; accepted: that shape, and the type {zero.dtype}, as by .to(gates.prob_zero.dtype)")
    if not ((values >= 0) & (values <= 1)).all():
        low, high = values.min().item(), values.max().item()
        raise BadInput(f"{told} gives values from {low:.4g} to {high:.4g}; accepted: numbers in [0, 1]")


def _rule(name: str) -> type[Rule]:
    if name not in RULES:
        raise ValueError(f"rule: got {name!r}, accepted are {', '.join(RULES)}")
    return RULES[name]


def _check_threshold(threshold: float) -> None:
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold: got {threshold}, accepted are numbers in [0, 1]")


def _check_budget(budget: float) -> None:
    if not 0 < budget <= 1:
        raise ValueError(f"budget: got {budget}, accepted are numbers in (0, 1]")


def decide(
    gates: GateDistribution,
    rule: str = "argmax",
    mask: Tensor | None = None,
    threshold: float = 0.5,
    budget: float = 1.0,
) -> Tensor:
    """The value of each gate at test time, by a named rule.

        argmax              the likeliest of {0}, {1}, (0, 1); where the interval wins, the mean E[K] of the
                            *base* variable. This is the paper's rule, with ties as in the authors' code: the interval
                            wins only if it is strictly likelier than both masses; equal masses give 1.
        argmax_conditional  the same choice, but E[H | 0 < H < 1] where the interval wins
        expected            E[H]; hardly ever exactly 0
        threshold           1 where P(H != 0) >= threshold, else 0
        sample              one draw
        top_k               1 for the share `budget` of each text's tokens with the largest P(H != 0), else 0

    For gates without an interval (Bernoulli) both kinds of argmax are the threshold at 1/2.

    Source: eq. (H9), notebooks/03_hardkuma.py; Bastings et al. 2019, sec. 5; eq. (R9), notebooks/09_questions.py.

    Parameters
    ----------
    gates : distribution
        A distribution of batch shape [..., T] with the masses of a gate, e.g. `HardKuma` or `Bernoulli`.
    rule : str
        One of `RULES`.
    mask : bool [..., T] or None
        True for real tokens; only `top_k` uses it. None: all tokens are real.
    threshold : float, in [0, 1]
    budget : float, in (0, 1]
        Share of tokens that `top_k` keeps; see `top_k`.

    Returns
    -------
    [..., T], in [0, 1]
        Values; a token is selected where its value is not 0.

    Raises
    ------
    ValueError
        If the rule is not one of `RULES`, or the threshold or the budget is outside its range.

    Examples
    --------
    >>> from rationale.distributions import HardKuma
    >>> gates = HardKuma(torch.tensor([0.3, 1.0, 3.0]), torch.tensor([3.0, 2.0, 0.3]))
    >>> for rule in ("argmax", "argmax_conditional", "expected", "threshold"):
    ...     print(f"{rule:18}", decide(gates, rule))
    argmax             tensor([0.0000, 0.3333, 1.0000])
    argmax_conditional tensor([0.0000, 0.3611, 1.0000])
    expected           tensor([0.0221, 0.3079, 0.9213])
    threshold          tensor([0., 1., 1.])
    >>> decide(gates, "top_k", budget=1 / 3)
    tensor([0., 0., 1.])
    """
    _check_threshold(threshold)
    _check_budget(budget)
    return _rule(rule).decide(gates, mask, threshold, budget)


def selects(
    gates: GateDistribution,
    rule: str = "argmax",
    mask: Tensor | None = None,
    threshold: float = 0.5,
    budget: float = 1.0,
) -> Tensor:
    """Whether `decide` gives a value that is not 0, bool [..., T]; often much cheaper than the value. As for `decide`.

    Examples
    --------
    >>> from rationale.distributions import HardKuma
    >>> gates = HardKuma(torch.tensor([0.3, 1.0, 3.0]), torch.tensor([3.0, 2.0, 0.3]))
    >>> selects(gates, "argmax")
    tensor([False,  True,  True])
    """
    _check_threshold(threshold)
    _check_budget(budget)
    return _rule(rule).selects(gates, mask, threshold, budget)


def top_k(scores: Tensor, mask: Tensor | None, budget: float) -> Tensor:
    """1 for the k tokens of each text with the largest scores, 0 for the rest.

        k_i = max(1, round(budget T_i))

    Among equal scores the earlier token is kept, so exactly k are kept; see `metrics.num_within_budget`. Source:
    eq. (R9), notebooks/09_questions.py.

    Parameters
    ----------
    scores : [..., T]
        Any real numbers, -inf and inf; the largest are kept. Scores at padding do not matter.
    mask : bool [..., T] or None
    budget : float, in (0, 1]
        Share of the tokens to keep.

    Returns
    -------
    [..., T], 0 or 1, 0 at padding; of the dtype of `scores`

    Raises
    ------
    ValueError
        If the shapes differ, or the budget is outside its range.

    Examples
    --------
    >>> scores = torch.tensor([[0.1, 0.9, 0.5, 0.9]])
    >>> top_k(scores, None, budget=0.5)
    tensor([[0., 1., 0., 1.]])
    >>> top_k(scores, torch.tensor([[True, False, True, True]]), budget=0.34)  # one word of three
    tensor([[0., 0., 0., 1.]])
    """
    _check_budget(budget)
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    if mask.shape != scores.shape:
        raise ValueError(f"shapes differ: scores {tuple(scores.shape)}, mask {tuple(mask.shape)}")
    order = scores.argsort(dim=-1, descending=True, stable=True)
    real = mask.gather(-1, order)  # [..., T], the token with the largest score first; padding takes no rank
    kept = real & (real.long().cumsum(-1) <= num_within_budget(mask.sum(-1, keepdim=True), budget))
    return torch.zeros_like(mask).scatter(-1, order, kept).to(scores.dtype)
