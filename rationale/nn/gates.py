"""Gates: from the features of a token to the distribution of its gate.

A gate is a small module whose `forward(features)` returns a distribution over [0, 1] with point masses
at 0 ("unselected") and 1 ("selected"). In training the gate is sampled; at test time a rule (see `rules`)
turns the distribution into a number. Whether a draw passes gradients is the attribute `has_rsample`
of the distribution; where a draw passes none, the objective uses the score function.

To add a gate, write one subclass of `Gate` with a `name`. Defining it adds it to the table `GATES`.
"""

import inspect
import math
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.binary import Bernoulli, StraightThroughBernoulli
from rationale.distributions.numerics import softplus
from rationale.distributions.protocol import GateDistribution
from rationale.distributions.rectified import HardConcrete, HardKuma
from rationale.errors import BadInput
from rationale.nn.own_laws import grid_of_outputs, require_numbers
from rationale.nn.rules import RULES, require_values
from rationale.nn.start import inverse_softplus, widest_shapes
from rationale.parts import Table, require_arguments, require_method
from rationale.settings import Settings, setting


class GateSettings(Settings):
    """The support of stretched gates, and where gates start."""

    left: float = setting(-0.1, "lower end of the stretched support", "(-inf, 0)")
    right: float = setting(1.1, "upper end of the stretched support; 1 = no mass at one", "[1, inf)")
    start: Literal["target", "none"] = setting(
        "none",
        "rate of the gates before training: target = the first target; none = what zero biases give, mostly open",
    )


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
        Whether draws are exactly 0 or 1.
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
        GATES.add_class(cls)

    def __init__(self, num_features: int, *layers: str):
        super().__init__()
        for layer in layers:
            self.add_module(layer, nn.Linear(num_features, 1))

    @classmethod
    def build(cls, num_features: int, p: Any) -> "Gate":
        """The gate that the settings of a run describe. Uses left and right, if the gate is stretched.

        A gate with parameters of its own overrides this method: `p` also has those that a notebook declares.
        """
        support = {"left": p.left, "right": p.right} if cls.stretched else {}
        return cls(num_features, **support)

    def linear(self) -> tuple[Tensor, Tensor]:
        """Weight [G, H] and bias [G] of all layers together."""
        layers = [layer for layer in self.children() if isinstance(layer, nn.Linear)]
        return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])

    @property
    def is_linear(self) -> bool:
        """Whether the gate is `of` the outputs of its layers and learns nothing else, as `fast.select` assumes."""
        layers = {name for name, layer in self.named_children() if isinstance(layer, nn.Linear)}
        unchanged = type(self).forward is Gate.forward and type(self).linear is Gate.linear
        return unchanged and all(name.split(".")[0] in layers for name, _ in self.named_parameters())

    def of(self, raw: Tensor) -> GateDistribution:
        """From outputs [..., G] of the layers to a distribution of batch shape [...]."""
        raise NotImplementedError

    def raw_at(self, rate: float) -> Tensor:  # noqa: ARG002
        """Outputs [G] of the layers, float64, for which `of` gives a gate with P(H != 0) = rate.

        Parameters
        ----------
        rate : float, in (0, 1)

        Raises
        ------
        BadInput
            If there are none, or the gate does not define them.
        """
        raise BadInput(f"start: target is not accepted with model {self.name}, which has no method `raw_at`; give none")

    @classmethod
    def can_start(cls) -> bool:
        """Whether the gate can start at a rate: whether it defines `raw_at`."""
        return cls.raw_at is not Gate.raw_at

    @torch.no_grad()
    def start_at(self, rate: float) -> None:
        """Set the biases so that the gate has this rate where the features are zero. The weights are kept.

        Source: eqs. (S15)-(S17), notebooks/07_decide_and_depend.py. The parameter and the errors are those of `raw_at`.
        """
        if not 0 < rate < 1:
            raise BadInput(f"rate: got {rate}, accepted are rates in (0, 1), at which a gate can start")
        layers = [layer for layer in self.children() if isinstance(layer, nn.Linear)]
        for layer, value in zip(layers, self.raw_at(rate), strict=True):
            layer.bias.fill_(value.item())

    def forward(self, features: Tensor) -> GateDistribution:
        """From features [..., H] to a distribution of batch shape [...]."""
        return self.of(F.linear(features, *self.linear()))


GATES: Table[type[Gate]] = Table("gate", lambda part: isinstance(part, type) and issubclass(part, Gate))


def build_gate(name: str, num_features: int, p: Any) -> Gate:
    """The gate of this name that the settings `p` describe.

    Raises
    ------
    BadInput
        It is a gate of one's own whose distribution cannot be used, or a rule of one's own that does not decide gates.
        So this is found before anything is trained.
    """
    if name in GATES.files:
        _require_layers(GATES[name], num_features)
    gate = GATES[name].build(num_features, p)
    if name in GATES.files:
        _require_gates(gate, num_features, vars(p).get("rule"))
        require_numbers(f"model: {type(gate).__name__}", gate.of, len(gate.linear()[1]))
        _require_zeros(gate, p)
    rule = vars(p).get("rule")
    if rule in RULES and (name in GATES.files or rule in RULES.files):
        own_gate = f"model: {type(gate).__name__}, decided by rule {rule},"
        told = "" if rule in RULES.files else own_gate
        require_values(rule, gate.of(grid_of_outputs(len(gate.linear()[1]))), told)
    return gate


def _require_layers(cls: type[Gate], num_features: int) -> None:
    """Refuse a class without `of`, or with an `__init__` that `Gate.build` cannot call or that names no layers."""
    require_method("model", cls, Gate, "of")
    if cls.__init__ is Gate.__init__ and cls.build.__func__ is Gate.build.__func__:  # type: ignore[attr-defined]
        raise BadInput(f'model: {cls.__name__} names no layers; call super().__init__(num_features, "name")')
    support = {"left": -0.1, "right": 1.1} if cls.stretched else {}
    described = "left and right beside num_features, because `stretched` is True" if support else "num_features alone"
    require_arguments("model", cls, Gate, described, num_features, **support)


@torch.no_grad()
def _require_zeros(gate: Gate, p: Any) -> None:
    """Refuse a gate that is never exactly 0 if a rate is to be held: the logarithm of its rate would have no gradient.

    It is judged by a grid of outputs of its layers.
    """
    held = [name for name in ("selection", "transitions") if getattr(p, name, None) is not None]
    if not held:
        return
    outputs = torch.linspace(-8, 8, 17).unsqueeze(-1)
    if not gate.of(outputs.expand(-1, len(gate.linear()[1]))).prob_zero.any():
        offer = f"a distribution with P(0) > 0, such as StretchedRectified with left < 0, or {held[0]}=null"
        raise BadInput(f"model: {type(gate).__name__} is never exactly 0, so no rate below 1 can be held; give {offer}")


def _defines(law: Any, name: str) -> bool:
    """Whether a distribution or its class has this attribute, which is not computed."""
    return inspect.getattr_static(law, name, law) is not law


@torch.no_grad()
def _require_gates(gate: Gate, num_features: int, rule: str | None) -> None:
    """Refuse a gate that does not make one usable distribution of each token, told from two texts of three tokens.

    It is usable if the rule of the test time can decide it, too.
    """
    told, form = f"model: {type(gate).__name__}", "see `GateDistribution` in rationale/distributions/protocol.py"
    if not any(isinstance(layer, nn.Linear) for layer in gate.children()):
        raise BadInput(f'{told} names no layers; call super().__init__(num_features, "name")')
    gates = gate(torch.zeros(2, 3, num_features))
    names = [name for name in vars(GateDistribution) if not name.startswith("_")]
    missing = [name for name in (*GateDistribution.__annotations__, *names) if not _defines(gates, name)]
    if missing:
        what = f"{told}.of returns a {type(gates).__name__}, which has no {', '.join(missing[:3])}"
        raise BadInput(f"{what}; accepted: a distribution such as StretchedRectified or Bernoulli ({form})")
    inside = RULES[rule].inside if rule is not None and not gates.binary else ""
    if inside and not _defines(gates, inside):
        what = f"{told}.of returns a {type(gates).__name__}, which has no {inside}, as rule {rule} needs it"
        raise BadInput(f"{what}; accepted: rule=expected, or {inside} as StretchedRectified has it ({form})")
    if gates.batch_shape != (2, 3):
        what = f"{told}.of returns gates of shape {tuple(gates.batch_shape)} for outputs of shape (2, 3, G)"
        raise BadInput(f"{what}; accepted: (2, 3), as from raw.squeeze(-1) or raw.unbind(-1)")
    for name in ("has_rsample", "binary"):
        of_class, of_law = getattr(gate, name), getattr(gates, name)
        if of_class != of_law:
            raise BadInput(f"{told}.{name} is {of_class}, but that of its distribution is {of_law}; give both the same")


class HardKumaGate(Gate):
    """Two linear layers with softplus give the shapes of a HardKuma gate.

        a_t = MIN + softplus(w_a . h_t + c_a),   b_t = MIN + softplus(w_b . h_t + c_b)

    Source: Bastings et al. 2019, sec. 5. The authors clamp to [1e-6, 100] instead, so the gradient is 0
    outside this range; here the shapes have no upper bound and a smooth lower bound at `MIN`. Near the lower bound the
    gradient fades as sigmoid(raw): with an output of -50 of a layer it is 2e-22, so this shape practically stays where
    it is, and the gate can move only through the other shape. If b is at the bound, a cannot shut the gate: P(Z = 0) is
    largest at a = MIN, where it is 0.006 for the default support.

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
        a, b = (self.MIN + softplus(raw)).unbind(-1)
        return HardKuma(a, b, self.left, self.right, validate_args=False)

    def raw_at(self, rate: float) -> Tensor:
        """Outputs [2] that give the widest interior, eq. (S16)."""
        return inverse_softplus(widest_shapes(rate, self.left, self.right) - self.MIN)


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

    def raw_at(self, rate: float) -> Tensor:
        """The logit [1], eq. (S17)."""
        logit = torch.tensor([rate], dtype=torch.float64).logit()
        return logit + self.temperature * math.log(-self.left / self.right)


class BernoulliGate(Gate):
    """One linear layer gives the logit of a gate that is 0 or 1; trained by the score function.

    Source: eq. (R1), notebooks/08_reinforce.py; Lei et al. 2016.

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

    def raw_at(self, rate: float) -> Tensor:
        """The logit [1], eq. (S17)."""
        return torch.tensor([rate], dtype=torch.float64).logit()


class StraightThroughGate(BernoulliGate):
    """A Bernoulli gate trained by passing the gradient straight through the draw."""

    name, has_rsample, needs_zeroed_words = "straight_through", True, True
    distribution = StraightThroughBernoulli
