"""A mapping as a module, the table of all mappings, and the settings that choose one."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.errors import BadInput
from rationale.nn.forms import form_of
from rationale.parts import Table
from rationale.settings import Refusal, Settings, setting, show


class MappingSettings(Settings):
    """The mapping from scores to attention weights."""

    gamma: float = setting(1.0, "strength of the regularisation of attention; large = flat", "(0, inf)")
    lam: float = setting(0.1, "price of steps between weights (fusedmax), of larger weights (oscarmax)", "[0, inf)")
    power: float = setting(1.5, "norm p of sq_pnorm_max", "(1, 2]")
    alpha: float = setting(1.5, "sparsity of entmax: 1 = softmax, 2 = sparsemax", "[1, 4]")
    learned_alpha: bool = setting(False, "alpha of entmax is learned, in (1, 2); it starts at the setting alpha")

    def refused(self) -> Iterator[Refusal]:
        learned = self.learned_alpha and not 1 < self.alpha < 2
        yield Refusal(learned, "alpha", "with learned_alpha", "a number in (1, 2)")


class Mapping(nn.Module):
    """A mapping from scores to attention weights, and its properties; without a state unless an argument is learned.

    A subclass that sets `name` is found in `MAPPINGS` by that name, and is all that a new mapping needs.

    Attributes
    ----------
    name : str
        The value of the setting `model` that chooses this mapping.
    function : from scores [..., T], a mask, and `gamma` and `dim` to weights [..., T]
    settings : dict
        From each argument of the module other than gamma to the setting of a run that holds it.
    makes_equal : "nothing", "neighbours" or "any"
        Which weights a price (`lam` > 0) makes equal.
    special_case_of : str
        The name of the mapping that gives the same at its default arguments, or "".

    Parameters
    ----------
    dim : int
        The weights sum to 1 along this dimension.
    **arguments
        Arguments of the function. A `torch.nn.Parameter` is learned.
    """

    name: ClassVar[str]
    gamma: float
    function: ClassVar[Callable[..., Tensor]]
    settings: ClassVar[dict[str, str]] = {}
    makes_equal: ClassVar[str] = "nothing"
    special_case_of: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        MAPPINGS.add_class(cls)

    def __init__(self, dim: int = -1, **arguments: Any):
        super().__init__()
        if not hasattr(type(self), "function"):
            form = "function(scores, mask=None, gamma=1.0, dim=-1), a static method that returns the weights"
            raise BadInput(f"model: the mapping {type(self).__name__} has no function; accepted: {form}")
        accepted = inspect.signature(self.function).parameters.keys() - {"scores", "mask", "dim"}
        if unknown := sorted(arguments.keys() - accepted):
            offer = ", ".join(["dim", *sorted(accepted)])
            raise TypeError(f"{type(self).__name__} has no argument {unknown[0]}; accepted are {offer}")
        self.dim, self.given = dim, tuple(arguments)
        for name, value in arguments.items():
            setattr(self, name, value)

    @classmethod
    def build(cls, p: MappingSettings) -> Self:
        """The mapping with the arguments that the settings of a run hold.

        Raises
        ------
        BadInput
            If its function does not take them, or `settings` names a setting that there is not.
        """
        for name, key in cls.settings.items():
            if not hasattr(p, key):
                raise BadInput(f"model: {cls.__name__}.settings names {key} for {name}, but there is no such setting")
        given = ("gamma", *cls.settings)
        if hasattr(cls, "function"):  # without one, `__init__` says so
            named = inspect.signature(cls.function).parameters.keys()
            form = f"function(scores, mask=None, {', '.join(f'{name}=...' for name in given)}, dim=-1)"
            if "self" in named:
                raise BadInput(f"model: {cls.__name__}.function takes self; accepted: a static method {form}")
            taken = named | inspect.signature(cls).parameters.keys()
            missing = [name for name in ("mask", "dim") if name not in named] + [x for x in given if x not in taken]
            if missing:
                raise BadInput(f"model: {cls.__name__}.function has no argument {missing[0]}; accepted: {form}")
        return cls(gamma=p.gamma, **{name: getattr(p, key) for name, key in cls.settings.items()})

    def arguments(self) -> dict[str, Any]:
        """The arguments of the function that were given, by name, other than `dim`."""
        return {name: getattr(self, name) for name in self.given}

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Weights, of the shape of the scores; see the function."""
        return type(self).function(scores, mask, dim=self.dim, **self.arguments())

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in {"dim": self.dim, **self.arguments()}.items())


MAPPINGS: Table[type[Mapping]] = Table("mapping", lambda part: isinstance(part, type) and issubclass(part, Mapping))


def build_mapping(name: str, p: Any) -> Mapping:
    """The mapping of this name that the settings `p` describe.

    Raises
    ------
    BadInput
        It is a mapping of one's own whose weights cannot be used. So this is found before anything is trained.
    """
    mapping = MAPPINGS[name].build(p)
    if name in MAPPINGS.files:
        _require_weights(mapping)
    return mapping


@torch.no_grad()
def _require_weights(mapping: Mapping) -> None:
    """Refuse a mapping that does not give weights, told from rows of three scores, of two, and of none."""
    told = f"model: {type(mapping).__name__}.function"
    scores = torch.tensor([[0.4, -0.3, 1.2], [-2.0, 0.1, 0.3], [1.0, 0.0, 2.0]])
    mask = torch.arange(3) < torch.tensor([[3], [2], [0]])
    weights = mapping(scores, mask)
    if (form := form_of(weights)) != (3, 3):
        what = f"{told} returns {form} for scores of shape (3, 3)"
        raise BadInput(f"{what}; accepted: weights of the shape of the scores")
    if not weights.isfinite().all():
        rows = "a row of scores" if not weights[:2].isfinite().all() else "a row that is masked as a whole"
        raise BadInput(
            f"{told} gives NaN or infinite weights for {rows}; accepted: finite ones (0 where `mask` is False)"
        )
    if weights[~mask].any():
        raise BadInput(f"{told} gives weights other than 0 where `mask` is False; accepted: 0 there")
    if wrong := [total for total in weights.double().sum(-1)[:2].tolist() if abs(total - 1) > 1e-3]:
        raise BadInput(f"{told} gives weights that sum to {wrong[0]:.4g}; accepted: 1 along `dim`")


def used_settings(name: str) -> set[str]:
    """The settings that the mapping with this name uses; none if there is no such mapping."""
    return {"gamma", *MAPPINGS[name].settings.values()} if name in MAPPINGS else set()


def unused_by(p: MappingSettings, model: str) -> Iterator[Refusal]:
    """Settings that the mapping `model` does not use: one that was changed is refused, as it would have no effect."""
    for key in MappingSettings.model_fields:
        changed, usual = p.is_changed(key) and key not in used_settings(model), show(p.usual(key)).removesuffix(".0")
        yield Refusal(changed, key, f"with model {model}", usual, meaningless=True)


def all_mappings(scores: Tensor, gamma: float = 1.0, lam: float = 0.1) -> dict[str, Tensor]:
    """Scores [..., T] through every mapping of `MAPPINGS`, by name; `lam` goes to fusedmax and oscarmax.

    Mappings that are another one at its default arguments are left out: `entmax15` is `entmax`.
    """
    chosen = {name: mapping for name, mapping in MAPPINGS.items() if not mapping.special_case_of}
    priced = {name: {"lam": lam} if "lam" in mapping.settings else {} for name, mapping in chosen.items()}
    return {name: mapping.function(scores, gamma=gamma, **priced[name]) for name, mapping in chosen.items()}


def has_zero_jacobian(weights: Tensor, mapping: str, lam: float = 0.0) -> Tensor:
    """Where a mapping gave weights [..., T] at which its Jacobian is exactly 0, bool [...].

        all weights that are not 0 form one group: a single weight; with lam > 0 also equal weights (oscarmax), or
        equal neighbours (fusedmax)

    Such a row cannot change, because its scores have gradient 0. Source: eq. (A10), notebooks/40_sparse_attention.py.

    The groups are read off the weights. With fusedmax, two neighbouring groups may have exactly the same weight, where
    the mapping has a kink and no Jacobian. There the result is True, although the gradient of autograd, which is the
    derivative on one side of the kink, is not 0.

    Parameters
    ----------
    weights : [..., T]
        Masked weights are at the end of a row.
    mapping : one of `MAPPINGS`
    lam : float
        The price of the mapping, if it has one.

    Examples
    --------
    >>> from rationale.nn import fusedmax, sparsemax
    >>> scores = torch.tensor([[0.1, 0.0, 0.2], [1.0, 1.0, 0.0], [3.0, 0.0, 0.0]])
    >>> has_zero_jacobian(sparsemax(scores), "sparsemax"), has_zero_jacobian(sparsemax(scores, gamma=4.0), "sparsemax")
    (tensor([False, False,  True]), tensor([False, False, False]))
    >>> has_zero_jacobian(fusedmax(scores, lam=0.2), "fusedmax", lam=0.2)  # uniform, two fused weights, a single weight
    tensor([True, True, True])
    """
    there = weights != 0
    count = there.sum(-1)
    makes_equal = MAPPINGS[mapping].makes_equal
    if lam == 0 or makes_equal == "nothing":
        return count == 1
    equal = (weights == weights.amax(-1, keepdim=True)).eq(there).all(-1) & (count > 0)
    if makes_equal == "any":
        return equal
    begins = there & ~F.pad(there, (1, 0))[..., :-1]
    return equal & (begins.sum(-1) == 1)
