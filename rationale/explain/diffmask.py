"""DiffMask: probes that read the states of a frozen model and learn which of them it can do without.

    states  h^(0), ..., h^(L) and output y of the model, read once
    votes   v_i^(k) ~ HardConcrete(logit^(k)(h_i^(0), h_i^(k))) on [0, 1)
    inputs  z_i = prod_(k <= l) v_i^(k),    h_i^(0) := z_i h_i^(0) + (1 - z_i) b
    states  z_i = v_i^(l),                  h_i^(l) := z_i h_i^(l) + (1 - z_i) b^(l)      and y_hat: the model again
    min over probe and baselines of E[number of z_i that are not 0],   s.t.  D(y, y_hat) <= m

The model is not rewritten: hooks read and replace what its modules return. Source: eqs. (D2)-(D6),
notebooks/07_diffmask.py; De Cao et al. 2020, sec. 3.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

from rationale.data.batches import Batch
from rationale.distributions.rectified import HardConcrete
from rationale.objectives.loss import LossOutput
from rationale.objectives.penalties import masked_mean
from rationale.settings import Settings, setting

TEMPERATURE, LEFT, RIGHT = 0.2, -0.2, 1.0  # of the half-open gates: P(v = 1) = 0
KINDS = ("inputs", "states")


# ------------------------------------------------------------------------------------------------- reading a model
@contextmanager
class ProbeSettings(Settings):
    """A probe: the networks that vote, and what masking may cost."""

    hidden_size: int = setting(32, "width of the probe's networks", "[1, inf)")
    votes: Literal["mlp", "bilinear"] = setting("mlp", "form of a probe's votes")
    margin: float = setting(0.03, "divergence that masking may cost, in nats", "(0, inf)")
    divergence: Literal["kl", "reverse_kl", "js"] = setting("kl", "from the answer before to that after masking")
    form: Literal["probability", "log"] = setting("probability", "price of a position: P(z != 0), or its logarithm")
    multiplier_init: float = setting(0.1, "multiplier at the start", "[0, inf)")
    multiplier_rate: float = setting(0.01, "step of the logarithm of the multiplier", "(0, inf)")


def recorded(modules: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """A list that holds what each of the modules returned last, [B, T, D] each; of a tuple, its first element.

    The hooks go when the block ends, also by an exception.

    Examples
    --------
    >>> layer = nn.Linear(2, 3)
    >>> with recorded([layer]) as states:
    ...     output = layer(torch.ones(1, 4, 2))
    >>> states[0].shape, states[0] is output
    (torch.Size([1, 4, 3]), True)
    """
    found: list[Tensor] = [torch.empty(0)] * len(modules)

    def keeper(place: int) -> Callable:
        def keep(module: nn.Module, inputs: tuple, output) -> None:
            found[place] = output[0] if isinstance(output, tuple) else output

        return keep

    hooks = [module.register_forward_hook(keeper(i)) for i, module in enumerate(modules)]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def replaced(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Within the block the module returns `change` of what it would return; of a tuple, the first element changes.

    Examples
    --------
    >>> layer = nn.Identity()
    >>> with replaced(layer, lambda states: 0 * states):
    ...     inside = layer(torch.ones(2))
    >>> inside, layer(torch.ones(2))
    (tensor([0., 0.]), tensor([1., 1.]))
    """

    def put(module: nn.Module, inputs: tuple, output):
        return (change(output[0]), *output[1:]) if isinstance(output, tuple) else change(output)

    hook = module.register_forward_hook(put)
    try:
        yield
    finally:
        hook.remove()


class Frozen(NamedTuple):
    """A model as probes see it."""

    model: nn.Module
    layers: Sequence[nn.Module]  # whose outputs are h^(0), ..., h^(L), [B, T, D_k]
    predict: Callable[[Batch], Tensor]  # logits [B, ..., C]
    mask: Callable[[Batch], Tensor]  # bool [B, T]: positions that may be masked

    def read(self, batch: Batch) -> tuple[Tensor, list[Tensor]]:
        """Logits and states of the model as it is, without gradients; computed as in `changed`, to the last bit."""
        with torch.no_grad(), recorded(self.layers) as states, torch.backends.cudnn.flags(enabled=False):
            logits = self.predict(batch)
        return logits, states

    def changed(self, batch: Batch, layer: int, change: Callable[[Tensor], Tensor]) -> Tensor:
        """Logits where h^(layer) is `change` of what it would be; gradients reach what `change` brings in.

        Without cuDNN, whose recurrent layers have no gradients in evaluation mode.
        """
        with replaced(self.layers[layer], change), torch.backends.cudnn.flags(enabled=False):
            return self.predict(batch)

    def masked(self, batch: Batch, layer: int, z: Tensor, baseline: Tensor) -> Tensor:
        """Logits where h^(layer) is z h + (1 - z) b: eq. (D3). z [B, T]; `baseline` [D]."""
        keep = z.unsqueeze(-1)
        return self.changed(batch, layer, lambda states: keep * states + (1 - keep) * baseline)


# ------------------------------------------------------------------------------------------------------------ votes
class MLPVotes(nn.Module):
    """One network of two layers a state, as in the authors' code: bias + 10 tanh(w . tanh(W h)).

    Source: eq. (D4), notebooks/07_diffmask.py; the released code of De Cao et al. 2020. Weights are normalised (the
    norm of w begins at 0.05), the bias begins at 5, where a vote is not 0 with probability .99514.

    Parameters
    ----------
    sizes : sizes D_0, ..., D_L of the states
    width : int
        Of the hidden layer.
    with_input : bool
        The network of h^(k) also reads h^(0), as probes of inputs do.
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
        for network in self.networks:  # all gates begin open alike: a logit near 15 has next to no gradient left
            nn.init.constant_(network[2].parametrizations.weight.original0, self.FIRST)
        self.bias = nn.Parameter(torch.full((len(sizes),), self.BIAS))

    def forward(self, states: Sequence[Tensor], first: int = 0) -> list[Tensor]:
        """Logits [B, T] of the votes of h^(first), ..., h^(l), the last of `states`."""
        logits = []
        for k in range(first, len(states)):
            seen = torch.cat([states[0], states[k]], -1) if self.with_input else states[k]
            logits.append(self.bias[k] + self.BOUND * self.networks[k](seen).squeeze(-1))
        return logits


class BilinearVotes(nn.Module):
    """The paper's form, h0' W h + w . [h0; h] + c for each state, averaged with those of the states before.

        gamma^(l) = (g^(l) + mean over k < l of g^(k)) / 2

    Source: eq. (D5), notebooks/07_diffmask.py; De Cao et al. 2020, app. A.

    Parameters
    ----------
    sizes : sizes D_0, ..., D_L of the states
    """

    def __init__(self, sizes: Sequence[int]):
        super().__init__()
        self.products = nn.ModuleList(nn.Bilinear(sizes[0], size, 1) for size in sizes)
        self.sums = nn.ModuleList(nn.Linear(sizes[0] + size, 1, bias=False) for size in sizes)
        for product, plain in zip(self.products, self.sums, strict=True):
            nn.init.zeros_(plain.weight)
            nn.init.zeros_(product.weight)
            nn.init.constant_(product.bias, MLPVotes.BIAS)

    def forward(self, states: Sequence[Tensor], first: int = 0) -> list[Tensor]:
        """As `MLPVotes.forward`."""
        own = [
            (product(states[0], state) + plain(torch.cat([states[0], state], -1))).squeeze(-1)
            for product, plain, state in zip(self.products, self.sums, states, strict=False)
        ]
        mixed = own[:1] + [(own[k] + torch.stack(own[:k]).mean(0)) / 2 for k in range(1, len(own))]
        return mixed[first:]


# ------------------------------------------------------------------------------------------------------------ probe
class Probed(NamedTuple):
    """What a probe of one layer gives for a batch."""

    original: Tensor  # logits y
    masked: Tensor  # logits y_hat
    log_keep: Tensor  # [B, T], ln P(z != 0)
    z: Tensor  # [B, T]
    mask: Tensor  # bool [B, T]


class Probe(nn.Module):
    """Votes and baselines for all layers of a frozen model; the model itself is no part of it.

    Parameters
    ----------
    frozen : Frozen
        Its parameters are made to need no gradient, and it stays in evaluation mode.
    votes : MLPVotes or BilinearVotes
    kind : "inputs" or "states"
    baselines : one vector [D_0] for inputs, one [D_k] a layer for states
    """

    def __init__(self, frozen: Frozen, votes: nn.Module, kind: str, baselines: Sequence[Tensor]):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind: got {kind!r}, accepted are {', '.join(KINDS)}")
        frozen.model.requires_grad_(False).eval()
        self._frozen = (frozen,)  # in a tuple: its modules are not this one's
        self.votes, self.kind = votes, kind
        self.baselines = nn.ParameterList(nn.Parameter(b.detach().clone()) for b in baselines)

    @property
    def frozen(self) -> Frozen:
        return self._frozen[0]

    def gates(self, states: Sequence[Tensor]) -> list[HardConcrete]:
        """The gates whose product is z, for the layer of the last of `states`."""
        first = 0 if self.kind == "inputs" else len(states) - 1
        logits = self.votes(states, first)
        return [HardConcrete(logit, TEMPERATURE, LEFT, RIGHT, validate_args=False) for logit in logits]

    def log_keep(self, states: Sequence[Tensor]) -> Tensor:
        """ln P(z != 0) [B, T] for the layer of the last of `states`: a product is not 0 where no factor is."""
        return _log_keep(self.gates(states))

    def forward(self, batch: Batch, layer: int, read: tuple[Tensor, list[Tensor]] | None = None) -> Probed:
        """Read the model (or take what was `read`), draw a mask from the states up to `layer`, run it on the rest."""
        original, states = read or self.frozen.read(batch)
        gates = self.gates(states[: layer + 1])
        z = torch.stack([gate.rsample() for gate in gates]).prod(0)
        place = 0 if self.kind == "inputs" else layer
        masked = self.frozen.masked(batch, place, z, self.baselines[place])
        return Probed(original, masked, _log_keep(gates), z, self.frozen.mask(batch))


def _log_keep(gates: Sequence[HardConcrete]) -> Tensor:
    return torch.stack([gate.log_prob_nonzero for gate in gates]).sum(0)


def mean_states(frozen: Frozen, batches, num_batches: int = 10) -> list[Tensor]:
    """The mean of each layer's states over real positions of the first batches, [D_k] each: where baselines begin."""
    sums, number = [0.0] * len(frozen.layers), 0
    for _, batch in zip(range(num_batches), batches, strict=False):
        mask = frozen.mask(batch)
        _, states = frozen.read(batch)
        sums = [total + state[mask].sum(0) for total, state in zip(sums, states, strict=True)]
        number += int(mask.sum())
    return [total / number for total in sums]


# -------------------------------------------------------------------------------------------------------- objective
def divergence(original: Tensor, masked: Tensor, kind: str = "kl") -> Tensor:
    """How far two categorical outputs are apart, in nats, [B]; several outputs of one text (a span's ends) are summed.

    Source: eq. (D6), notebooks/07_diffmask.py.

    Parameters
    ----------
    original, masked : logits [B, ..., C]
    kind : "kl" (KL(y || y_hat), the experiments'), "reverse_kl" (the text's), "js" (Jensen-Shannon)

    Examples
    --------
    >>> sure, unsure = torch.tensor([[4.0, 0.0]]), torch.tensor([[0.0, 0.0]])
    >>> divergence(sure, unsure), divergence(sure, unsure, kind="js")
    (tensor([0.6031]), tensor([0.1804]))
    >>> divergence(sure, sure)
    tensor([0.])
    """
    p, q = original.log_softmax(-1), masked.log_softmax(-1)
    if kind == "reverse_kl":
        p, q = q, p
    if kind in ("kl", "reverse_kl"):
        apart = F.kl_div(q, p, log_target=True, reduction="none")
    elif kind == "js":
        middle = torch.logaddexp(p, q) - torch.tensor(2.0).log()
        apart = sum(F.kl_div(middle, side, log_target=True, reduction="none") for side in (p, q)) / 2
    else:
        raise ValueError(f"kind: got {kind!r}, accepted are kl, reverse_kl, js")
    return apart.flatten(1).sum(1)


class ProbeObjective(nn.Module):
    """E[share of z that is not 0] + lambda_l (D - m), for a layer l drawn at each step; lambda_l moves with the gap.

        ln lambda := ln lambda + rate clip((D - m) / m, -1, 5)

    D is a moving average; besides, `quadratic` times its excess over m is added to lambda, which damps. lambda cannot
    become 0: where it does, as in the authors' code, gates close unopposed until the constraint is felt, and the share
    kept swings. (Of a single batch the excess would be noise: it held the gates open.) `form`:
    "probability", or "log" (the code's, ln P, whose gradient on a gate does not fade as the gate closes).

    Source: eqs. (D2), (D6), notebooks/07_diffmask.py.

    Parameters
    ----------
    num_layers : int
    margin : float > 0
        m, in nats.
    form : "probability" or "log"
    kind : str
        Of `divergence`.
    rate, start : float > 0
        LossOutput of ln lambda, first lambda: a small one lets the gates move before the constraint is felt.
    quadratic : float >= 0
        How much of the average excess over the margin is added to lambda.
    bounds : smallest and largest lambda
    """

    SMOOTHING = 0.9  # share of the past in the average of the gap

    def __init__(
        self,
        num_layers: int,
        margin: float,
        form: str = "probability",
        kind: str = "kl",
        rate: float = 0.01,
        start: float = 0.1,
        quadratic: float = 10.0,
        bounds: tuple[float, float] = (0.1, 200.0),
    ):
        super().__init__()
        if form not in ("probability", "log"):
            raise ValueError(f"form: got {form!r}, accepted are probability, log")
        self.margin, self.form, self.kind, self.rate = margin, form, kind, rate
        self.quadratic, self.bounds = quadratic, tuple(map(math.log, bounds))
        self.register_buffer("log_multipliers", torch.full((num_layers,), start).log())
        self.register_buffer("gaps", torch.zeros(num_layers))

    def forward(self, probe: Probe, batch: Batch) -> LossOutput:
        layer = int(torch.randint(len(self.log_multipliers), ()))
        probed = probe(batch, layer)
        apart = divergence(probed.original, probed.masked, self.kind).mean()
        kept = probed.log_keep.exp() if self.form == "probability" else probed.log_keep
        price = masked_mean(kept, probed.mask).mean()
        if self.training:
            self.gaps[layer] += (1 - self.SMOOTHING) * (apart.detach() - self.margin - self.gaps[layer])
            self.log_multipliers[layer] += self.rate * (self.gaps[layer] / self.margin).clamp(-1, 5)
            self.log_multipliers.clamp_(*self.bounds)
        multiplier = self.log_multipliers[layer].exp() + self.quadratic * self.gaps[layer].clamp(min=0)
        loss = price + multiplier * (apart - self.margin)
        kept = masked_mean(probed.log_keep.detach().exp(), probed.mask).mean()
        return LossOutput(loss, {"divergence": apart.detach(), "kept": kept})
