"""DiffMask: probes that read the states of a frozen model and learn which of them its answer does not need.

    states  h^(0), ..., h^(L) and output y of the model, read once
    votes   v_i^(k) ~ HardConcrete(logit^(k)(h_i^(0), h_i^(k))) on [0, 1)
    inputs  z_i = prod_(k <= l) v_i^(k),    h_i^(0) := z_i h_i^(0) + (1 - z_i) b
    states  z_i = v_i^(l),                  h_i^(l) := z_i h_i^(l) + (1 - z_i) b^(l)      and y_hat: the model again
    min over probe and baselines of E[share of z_i that are not 0],   s.t.  E[D(y, y_hat)] <= epsilon

The paper asks for D <= epsilon in every text (its eq. (5)). Here, as in its code, one lambda per layer holds the mean
over texts, so the divergence of a single text may be larger.

Source: eqs. (D3)-(D7), notebooks/41_diffmask.py; De Cao et al. 2020, sec. 3.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from rationale.data.batches import Batch
from rationale.distributions.rectified import HardConcrete
from rationale.explain.frozen import DIVERGENCES, FrozenModel, divergence
from rationale.objectives.loss import LossOutput
from rationale.objectives.penalties import masked_mean
from rationale.settings import Refusal, Settings, setting

TEMPERATURE, LEFT, RIGHT = 0.2, -0.2, 1.0  # of the half-open gates: P(v = 1) = 0
PROBE_TARGETS = ("inputs", "states")  # what a probe masks
MULTIPLIERS = (0.1, 200.0)  # bounds of the multiplier of a divergence


class ProbeSettings(Settings):
    """A probe: the networks that vote, and what masking may cost."""

    hidden_size: int = setting(32, "width of the probe's networks", "[1, inf)")
    votes: Literal["mlp", "bilinear"] = setting("mlp", "form of a probe's votes")
    margin: float = setting(0.03, "divergence that masking may cost, in nats", "(0, inf)")
    divergence: Literal["kl", "reverse_kl", "js"] = setting("kl", "from the answer before to that after masking")
    form: Literal["probability", "log"] = setting("probability", "price of a position: P(z != 0), or its logarithm")
    multiplier_init: float = setting(MULTIPLIERS[0], "multiplier at the start", f"[{MULTIPLIERS[0]}, {MULTIPLIERS[1]}]")
    multiplier_rate: float = setting(0.01, "step of the logarithm of the multiplier", "(0, inf)")

    def refused(self) -> Iterator[Refusal]:
        yield self.idle(self.votes == "bilinear", "hidden_size", "with votes bilinear", "votes=mlp")


# ------------------------------------------------------------------------------------------------------------ votes
class MLPVotes(nn.Module):
    """One network of two layers per state, as in the authors' code: bias + 10 tanh(w . tanh(W h)).

    Source: eq. (D4), notebooks/41_diffmask.py; the released code of De Cao et al. 2020. The weights are normalised
    (the norm of w starts at 0.05); the bias starts at 5, where a vote is not 0 with probability .99514.

    Parameters
    ----------
    sizes : sizes D_0, ..., D_L of the states
    width : int
        Of the hidden layer.
    with_input : bool
        The network of h^(k) also reads h^(0), as in probes of the inputs.
    """

    BOUND, BIAS, FIRST = 10.0, 5.0, 0.05

    def __init__(self, sizes: Sequence[int], width: int, with_input: bool):
        super().__init__()
        self.with_input = with_input
        inputs = [size + sizes[0] * with_input for size in sizes]
        self.networks = nn.ModuleList(
            nn.Sequential(
                weight_norm(nn.Linear(size, width)),
                nn.Tanh(),
                weight_norm(nn.Linear(width, 1, bias=False)),
                nn.Tanh(),
            )
            for size in inputs
        )
        for network in self.networks:  # all gates start equally open: a logit near 15 has almost no gradient
            nn.init.constant_(network[2].parametrizations.weight.original0, self.FIRST)
        self.bias = nn.Parameter(torch.full((len(sizes),), self.BIAS))

    def forward(self, states: Sequence[Tensor], first: int = 0) -> list[Tensor]:
        """Logits [B, T] of the votes of h^(first), ..., h^(l), where h^(l) is the last of `states`."""
        logits = []
        for k in range(first, len(states)):
            inputs = torch.cat([states[0], states[k]], -1) if self.with_input else states[k]
            logits.append(self.bias[k] + self.BOUND * self.networks[k](inputs).squeeze(-1))
        return logits


class BilinearVotes(nn.Module):
    """Nearly the paper's form: h0' W h + w . [h0; h] + c for each state, averaged with those of the earlier states.

        gamma^(l) = (g^(l) + mean over 0 <= k < l of g^(k)) / 2,   gamma^(0) = g^(0)

    The mean of the paper's eq. (9) is over 1 <= k < l and leaves out layer 0, which has a vote too; at l = 1 it has no
    terms and is not defined. In a probe of states, the paper puts h^(l) in the place of h^(0); here it stays h^(0).

    Source: eq. (D5), notebooks/41_diffmask.py; De Cao et al. 2020, app. A.

    Parameters
    ----------
    sizes : sizes D_0, ..., D_L of the states

    Examples
    --------
    >>> votes = BilinearVotes([3, 2])
    >>> logits = votes([torch.ones(1, 4, 3), torch.ones(1, 4, 2)])  # before training every gate is open
    >>> logits[1].detach(), torch.equal(logits[0], logits[1])
    (tensor([[5., 5., 5., 5.]]), True)
    """

    def __init__(self, sizes: Sequence[int]):
        super().__init__()
        self.products = nn.ModuleList(nn.Bilinear(sizes[0], size, 1) for size in sizes)
        self.sums = nn.ModuleList(nn.Linear(sizes[0] + size, 1, bias=False) for size in sizes)
        for product, linear in zip(self.products, self.sums, strict=True):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(product.weight)
            nn.init.constant_(product.bias, MLPVotes.BIAS)

    def forward(self, states: Sequence[Tensor], first: int = 0) -> list[Tensor]:
        """As `MLPVotes.forward`."""
        own = [
            (product(states[0], state) + linear(torch.cat([states[0], state], -1))).squeeze(-1)
            for product, linear, state in zip(self.products, self.sums, states, strict=False)
        ]
        mixed = own[:1] + [(own[k] + torch.stack(own[:k]).mean(0)) / 2 for k in range(1, len(own))]
        return mixed[first:]


# ------------------------------------------------------------------------------------------------------------ probe
class ProbeOutput(NamedTuple):
    """What a probe returns for a batch and one layer."""

    original: Tensor  # logits y
    masked: Tensor  # logits y_hat
    log_keep: Tensor  # [B, T], ln P(z != 0)
    z: Tensor  # [B, T]
    mask: Tensor  # bool [B, T]


class Probe(nn.Module):
    """Votes and baselines for all layers of a frozen model; the model itself is not a submodule of the probe.

    Parameters
    ----------
    frozen : FrozenModel
        Its parameters are set to need no gradient, and it is set to evaluation mode.
    votes : MLPVotes or BilinearVotes
    target : "inputs" or "states"
        What is masked.
    baselines : one vector [D_0] for inputs, one [D_k] per layer for states

    Raises
    ------
    ValueError
        If `target` is another one.
    """

    def __init__(self, frozen: FrozenModel, votes: nn.Module, target: str, baselines: Sequence[Tensor]):
        super().__init__()
        if target not in PROBE_TARGETS:
            raise ValueError(f"target: got {target!r}, accepted are {', '.join(PROBE_TARGETS)}")
        frozen.model.requires_grad_(False).eval()
        self._frozen = (frozen,)  # in a tuple, so that its modules are not registered as submodules
        self.votes, self.target = votes, target
        self.baselines = nn.ParameterList(nn.Parameter(b.detach().clone()) for b in baselines)

    @property
    def frozen(self) -> FrozenModel:
        return self._frozen[0]

    def gates(self, states: Sequence[Tensor]) -> list[HardConcrete]:
        """The gates whose product is z, for the layer of the last of `states`."""
        first = 0 if self.target == "inputs" else len(states) - 1
        logits = self.votes(states, first)
        return [HardConcrete(logit, TEMPERATURE, LEFT, RIGHT, validate_args=False) for logit in logits]

    def log_keep(self, states: Sequence[Tensor]) -> Tensor:
        """ln P(z != 0) [B, T] for the layer of the last of `states`: a product is not 0 if no factor is 0."""
        return _log_keep(self.gates(states))

    def forward(self, batch: Batch, layer: int, read: tuple[Tensor, list[Tensor]] | None = None) -> ProbeOutput:
        """Read the model, draw a mask from the states up to `layer`, and run the model on the masked states.

        Parameters
        ----------
        read : logits and states, of `FrozenModel.read` for this batch, or None
            None: the model is read here.
        """
        original, states = read or self.frozen.read(batch)
        gates = self.gates(states[: layer + 1])
        z = torch.stack([gate.rsample() for gate in gates]).prod(0)
        place = 0 if self.target == "inputs" else layer
        masked = self.frozen.masked(batch, place, z, self.baselines[place])
        return ProbeOutput(original, masked, _log_keep(gates), z, self.frozen.mask(batch))


def _log_keep(gates: Sequence[HardConcrete]) -> Tensor:
    return torch.stack([gate.log_prob_nonzero for gate in gates]).sum(0)


def mean_states(frozen: FrozenModel, batches: Iterable[Batch], num_batches: int = 10) -> list[Tensor]:
    """Mean of each layer's states over the real positions of the first batches, [D_k] each: the initial baselines.

    Raises
    ------
    ValueError
        If there is no such position.
    """
    sums, number = [0.0] * len(frozen.layers), 0
    for _, batch in zip(range(num_batches), batches, strict=False):
        mask = frozen.mask(batch)
        _, states = frozen.read(batch)
        sums = [total + state[mask].sum(0) for total, state in zip(sums, states, strict=True)]
        number += int(mask.sum())
    if not number:
        raise ValueError("batches: got no position, accepted is 1 or more")
    return [total / number for total in sums]


# -------------------------------------------------------------------------------------------------------- objective
def require_above_0(**numbers: float) -> None:
    """Refuse numbers that are not positive and finite."""
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name}: got {number}, accepted are numbers in (0, inf)")


class ProbeObjective(nn.Module):
    """E[share of z that is not 0] + lambda_l (D - m), for a layer l drawn at each step.

        ln lambda_l := ln lambda_l + rate clip((D - m) / m, -1, 5)

    Here D is a moving average. To damp oscillations, `quadratic` times its excess over m is added to lambda. (The
    excess of a single batch would be noise: it kept the gates open.) lambda cannot become 0: where it does, as in the
    authors' code, gates close unopposed until the constraint is violated, and the share that is kept oscillates.

    Source: eqs. (D6), (D7), notebooks/41_diffmask.py.

    Parameters
    ----------
    num_layers : int, 1 or more
    margin : float > 0
        epsilon, in nats, of the mean over texts.
    form : "probability" or "log"
        The price of a position: P(z != 0), or as in the authors' code ln P(z != 0), whose gradient on a gate does not
        vanish as the gate closes.
    kind : str
        Of `divergence`.
    rate : float > 0
        Step of ln lambda.
    start : float > 0
        Initial lambda: with a small one the gates move before the constraint matters.
    quadratic : float >= 0
        Factor of the average excess over the margin that is added to lambda.
    bounds : smallest and largest lambda, both > 0

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """

    SMOOTHING = 0.9  # share of the past in the moving average of the gap

    def __init__(
        self,
        num_layers: int,
        margin: float,
        form: str = "probability",
        kind: str = "kl",
        rate: float = 0.01,
        start: float = MULTIPLIERS[0],
        quadratic: float = 10.0,
        bounds: tuple[float, float] = MULTIPLIERS,
    ):
        super().__init__()
        if num_layers < 1:
            raise ValueError(f"num_layers: got {num_layers}, accepted is 1 or more")
        if form not in ("probability", "log"):
            raise ValueError(f"form: got {form!r}, accepted are probability, log")
        if kind not in DIVERGENCES:
            raise ValueError(f"kind: got {kind!r}, accepted are {', '.join(DIVERGENCES)}")
        require_above_0(margin=margin, rate=rate, start=start)
        if not 0 <= quadratic < math.inf:
            raise ValueError(f"quadratic: got {quadratic}, accepted are numbers in [0, inf)")
        if not 0 < bounds[0] <= bounds[1] < math.inf:
            raise ValueError(f"bounds: got {bounds}, accepted are 0 < smallest <= largest < inf")
        self.margin, self.form, self.kind, self.rate = margin, form, kind, rate
        self.quadratic, self.bounds = quadratic, tuple(map(math.log, bounds))
        self.register_buffer("log_multipliers", torch.full((num_layers,), start).log())
        self.register_buffer("gaps", torch.zeros(num_layers))

    def forward(self, probe: Probe, batch: Batch) -> LossOutput:
        layer = int(torch.randint(len(self.log_multipliers), ()))
        output = probe(batch, layer)
        distance = divergence(output.original, output.masked, self.kind).mean()
        kept = output.log_keep.exp() if self.form == "probability" else output.log_keep
        price = masked_mean(kept, output.mask).mean()
        if self.training:
            self.gaps[layer] += (1 - self.SMOOTHING) * (distance.detach() - self.margin - self.gaps[layer])
            self.log_multipliers[layer] += self.rate * (self.gaps[layer] / self.margin).clamp(-1, 5)
            self.log_multipliers.clamp_(*self.bounds)
        multiplier = self.log_multipliers[layer].exp() + self.quadratic * self.gaps[layer].clamp(min=0)
        loss = price + multiplier * (distance - self.margin)
        kept = masked_mean(output.log_keep.detach().exp(), output.mask).mean()
        return LossOutput(loss, {"divergence": distance.detach(), "kept": kept})
