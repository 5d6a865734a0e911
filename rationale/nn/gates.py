"""Gates: from the features of a token to the distribution of its gate, and from that to a decision.

A gate is a small module whose `forward(features)` returns a distribution over [0, 1] with point masses
at 0 ("unselected") and 1 ("selected"). In training the gate is sampled; at test time one of the named
`RULES` turns the distribution into a number. Whether a draw passes gradients is the attribute `has_rsample`
of the distribution; where a draw passes none, the objective uses the score function.

To add a gate, write one subclass of `Gate` with a `name`. Defining it adds it to the table `GATES`.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.binary import Bernoulli, StraightThroughBernoulli
from rationale.distributions.protocol import GateDistribution
from rationale.distributions.rectified import HardConcrete, HardKuma, StretchedRectified
from rationale.settings import Refusal, Settings, setting

GATES: dict[str, type["Gate"]] = {}  # by name; filled by `Gate.__init_subclass__`
RULES = ("argmax", "argmax_conditional", "expected", "threshold", "sample", "top_k")


class GateSettings(Settings):
    """The support of stretched gates."""

    left: float = setting(-0.1, "lower end of the stretched support", "(-inf, 0)")
    right: float = setting(1.1, "upper end of the stretched support; 1 = no mass at one", "[1, inf)")


class DecisionSettings(Settings):
    """How a gate becomes a number at test time."""

    rule: Literal["argmax", "argmax_conditional", "expected", "sample", "threshold", "top_k"] = setting(
        "argmax", "how a gate becomes a number at test time"
    )
    threshold: float = setting(0.5, "probability from which the rule threshold selects", "[0, 1]")
    budget: float = setting(1.0, "share of each text that the rule top_k keeps", "(0, 1]")

    def refused(self) -> Iterator[Refusal]:
        top_k = self.rule == "top_k"
        yield Refusal(
            top_k and self.budget == 1, "budget", "with rule top_k: it keeps everything", "a number in (0, 1)"
        )
        yield Refusal(not top_k and self.budget < 1, "budget", f"with rule {self.rule}", "1, or rule=top_k")
        unused = self.rule != "threshold" and self.threshold != 0.5
        yield Refusal(unused, "threshold", f"with rule {self.rule}", "0.5, or rule=threshold")


class Gate(nn.Module):
    """Named linear layers with one output each, and `of`, which turns their outputs into a distribution.

    A subclass that sets `name` is found in `GATES` by that name, and is all that a new gate needs.

    Attributes
    ----------
    name : str
        The value of the setting `model` that chooses this gate.
    has_rsample : bool
        Whether draws pass gradients; the same as the attribute of the distribution.
    stretched : bool
        Whether the gate has a support (left, right), which `build` then takes from the settings.
    binary : bool
        Whether draws are exactly 0 or 1; the entropy of such a gate has a closed form.
    needs_zeroed_words : bool
        Whether the gradient of a closed gate passes through its word. Such a word must be replaced by zeros,
        because a word that is removed passes no gradient.

    Parameters
    ----------
    num_features : int
        Size H of the features.
    *layers : str
        Names of the G layers.
    """

    name: ClassVar[str]
    has_rsample: ClassVar[bool] = True
    stretched: ClassVar[bool] = False
    binary: ClassVar[bool] = False
    needs_zeroed_words: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            GATES[cls.name] = cls

    def __init__(self, num_features: int, *layers: str):
        super().__init__()
        for layer in layers:
            self.add_module(layer, nn.Linear(num_features, 1))

    @classmethod
    def build(cls, num_features: int, p: GateSettings) -> "Gate":
        """The gate that the settings of a run describe. Uses left and right, if the gate is stretched."""
        support = {"left": p.left, "right": p.right} if cls.stretched else {}
        return cls(num_features, **support)

    def linear(self) -> tuple[Tensor, Tensor]:
        """Weight [G, H] and bias [G] of all layers together."""
        layers = [layer for layer in self.children() if isinstance(layer, nn.Linear)]
        return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])

    def of(self, raw: Tensor) -> GateDistribution:
        """From outputs [..., G] of the layers to a distribution of batch shape [...]."""
        raise NotImplementedError

    def forward(self, features: Tensor) -> GateDistribution:
        """From features [..., H] to a distribution of batch shape [...]."""
        return self.of(F.linear(features, *self.linear()))


class HardKumaGate(Gate):
    """Two linear layers with softplus give the shapes of a HardKuma gate.

        a_t = MIN + softplus(w_a . h_t + c_a),   b_t = MIN + softplus(w_b . h_t + c_b)

    Source: Bastings et al. 2019, sec. 5. The authors clamp to [1e-6, 100] instead, so the gradient is 0
    outside this range; here the shapes have no upper bound and a smooth lower bound at `MIN`, so their gradient is
    never exactly cut off.

    Parameters
    ----------
    num_features : int
        Size H of the features.
    left, right : float
        Support of the stretched variable, left < 0 and right > 1.

    Examples
    --------
    >>> gate = HardKumaGate(num_features=4)
    >>> gates = gate(torch.zeros(2, 3, 4))  # two texts of three tokens
    >>> gates.batch_shape
    torch.Size([2, 3])
    >>> bool((gates.prob_zero + gates.prob_interior + gates.prob_one - 1).abs().max() < 1e-6)
    True
    """

    name, stretched = "hardkuma", True
    MIN = 1e-3

    def __init__(self, num_features: int, left: float = -0.1, right: float = 1.1):
        super().__init__(num_features, "a", "b")
        self.left, self.right = left, right

    def of(self, raw: Tensor) -> HardKuma:
        """From outputs [..., 2] of the layers to a HardKuma of batch shape [...]."""
        a, b = (self.MIN + F.softplus(raw)).unbind(-1)
        return HardKuma(a, b, self.left, self.right, validate_args=False)


class HardConcreteGate(Gate):
    """One linear layer gives the logit of a Hard Concrete gate (Louizos et al. 2018).

    Parameters
    ----------
    num_features : int
        Size H of the features.
    temperature : float, > 0
        Temperature of the Binary Concrete; 2/3 in the paper.
    left, right : float
        Support of the stretched variable, left < 0 and right >= 1 (right = 1: DiffMask's half-open gate).
    """

    name, stretched = "hard_concrete", True

    def __init__(self, num_features: int, temperature: float = 2 / 3, left: float = -0.1, right: float = 1.1):
        super().__init__(num_features, "logits")
        self.temperature, self.left, self.right = temperature, left, right

    def of(self, raw: Tensor) -> HardConcrete:
        """From outputs [..., 1] of the layer to a Hard Concrete of batch shape [...]."""
        return HardConcrete(raw.squeeze(-1), self.temperature, self.left, self.right, validate_args=False)


class BernoulliGate(Gate):
    """One linear layer gives the logit of a gate that is 0 or 1; trained by the score function.

    Source: eq. (R1), notebooks/05_reinforce.py; Lei et al. 2016.

    Parameters
    ----------
    num_features : int
        Size H of the features.
    """

    name, has_rsample, binary = "bernoulli", False, True
    distribution = Bernoulli

    def __init__(self, num_features: int):
        super().__init__(num_features, "logits")

    def of(self, raw: Tensor) -> Bernoulli:
        """From outputs [..., 1] of the layer to a Bernoulli of batch shape [...]."""
        return self.distribution(logits=raw.squeeze(-1), validate_args=False)


class StraightThroughGate(BernoulliGate):
    """A Bernoulli gate trained by passing the gradient straight through the draw."""

    name, has_rsample, needs_zeroed_words = "straight_through", True, True
    distribution = StraightThroughBernoulli


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

    Source: eq. (H9), notebooks/02_hardkuma.py; Bastings et al. 2019, sec. 5; eq. (R9), notebooks/05_reinforce.py.

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
        If the rule is not one of `RULES`.

    Examples
    --------
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
    if rule == "expected":
        return gates.mean
    if rule == "sample":
        return gates.sample()
    if rule == "threshold":
        return (gates.log_prob_nonzero.exp() >= threshold).to(gates.prob_zero.dtype)
    if rule == "top_k":
        return top_k(gates.log_prob_nonzero, mask, budget)
    if rule not in ("argmax", "argmax_conditional"):
        raise ValueError(f"rule: got {rule!r}, accepted are {', '.join(RULES)}")
    zero, one, interior = gates.prob_zero, gates.prob_one, gates.prob_interior
    hard = (zero <= one).to(zero.dtype)
    if gates.binary:
        return hard
    rectified = cast(StretchedRectified, gates)  # where draws are not binary, there is an interval
    inside = rectified.base.mean if rule == "argmax" else rectified.conditional_mean
    return torch.where((interior > zero) & (interior > one), inside, hard)


def top_k(scores: Tensor, mask: Tensor | None, budget: float) -> Tensor:
    """1 for the k tokens of each text with the largest scores, 0 for the rest.

        k_i = max(1, round(budget T_i))

    Among equal scores the earlier token is kept, so exactly k are kept. Source: eq. (R9), notebooks/05_reinforce.py.

    Parameters
    ----------
    scores : [..., T]
        Any real numbers; the largest are kept. Scores at padding do not matter.
    mask : bool [..., T] or None
    budget : float, in (0, 1]
        Share of the tokens to keep.

    Returns
    -------
    [..., T], 0 or 1, 0 at padding; of the dtype of `scores`

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> scores = torch.tensor([[0.1, 0.9, 0.5, 0.9]])
    >>> top_k(scores, None, budget=0.5)
    tensor([[0., 1., 0., 1.]])
    >>> top_k(scores, torch.tensor([[True, False, True, True]]), budget=0.34)  # one word of three
    tensor([[0., 0., 0., 1.]])
    """
    mask = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask
    if mask.shape != scores.shape:
        raise ValueError(f"shapes differ: scores {tuple(scores.shape)}, mask {tuple(mask.shape)}")
    order = scores.masked_fill(~mask, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(-1)  # [..., T]: 0 for the largest score
    k = (budget * mask.sum(-1, keepdim=True)).round().clamp(min=1)
    return ((rank < k) & mask).to(scores.dtype)
