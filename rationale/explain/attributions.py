"""Attribution methods that explain one answer at a time: on which positions of a layer does the answer rest?

Each method is a function (frozen, batch, layer, ...) -> [B, T], at least 0, and 0 at padding. DiffMask is compared with
them: integrated gradients, the information bottleneck of Schulz et al., the additive noise of Guan et al., masks that
are fitted to a single text, and attention. (Erasure by exact search is in `search`, the table of all in `methods`.)

Source: eqs. (D8)-(D11), notebooks/41_diffmask.py; De Cao et al. 2020, secs. 2, 4 and its released code.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from types import ModuleType

import torch
from torch import Tensor
from torch.nn import functional as F

from rationale.data.batches import Batch
from rationale.distributions.binary import Bernoulli
from rationale.distributions.numerics import softplus
from rationale.distributions.rectified import HardConcrete
from rationale.errors import optional
from rationale.explain.diffmask import LEFT, MULTIPLIERS, RIGHT, TEMPERATURE, require_above_0
from rationale.explain.frozen import FrozenModel, divergence
from rationale.objectives.penalties import masked_mean


def log_odds(logits: Tensor, answer: Tensor) -> Tensor:
    """ln p(answer) / (1 - p(answer)), [B], of logits [B, C]: for two classes, the difference of their logits."""
    own = logits.gather(1, answer.unsqueeze(1)).squeeze(1)
    others = logits.scatter(1, answer.unsqueeze(1), -torch.inf)
    return own - others.logsumexp(1)


def import_captum() -> ModuleType:
    """Import `captum.attr`.

    Raises
    ------
    BadInput
        If the package is not installed; the message says how to install it.
    """
    return optional("captum.attr", "integrated_gradients", "attributions")


def integrated_gradients(frozen: FrozenModel, batch: Batch, layer: int, num_steps: int = 500) -> Tensor:
    """Integrated gradients of the log-odds of the answer, as an absolute value per position.

        |sum over dimensions of h int_0^1 d f(alpha h) / d h d alpha|,   f the log-odds of the answer

    Source: eq. (D8), notebooks/41_diffmask.py; Sundararajan et al. 2017, computed by captum (Gauss-Legendre) with
    baseline 0. The paper takes the logit of the class, which in its toy task is the log-odds.
    """
    logits, states = frozen.read(batch)
    answer = logits.argmax(-1)

    def score(state: Tensor) -> Tensor:
        return log_odds(frozen.changed(batch, layer, lambda _: state), answer)

    integrate = import_captum().IntegratedGradients(score).attribute
    gradients = integrate(states[layer], n_steps=num_steps, internal_batch_size=len(answer))
    return gradients.sum(-1).abs().to(logits.dtype) * frozen.mask(batch)


def state_moments(frozen: FrozenModel, batches: Iterable[Batch]) -> list[tuple[Tensor, Tensor]]:
    """Mean and standard deviation of each layer's states at each position, [T, D] each, over the texts that reach it.

    A position that fewer than two texts reach takes the moments of the last position that at least two reach.

    Raises
    ------
    ValueError
        If there is no position that two texts reach.
    """
    sums, number = [(0.0, 0.0)] * len(frozen.layers), 0.0
    for batch in batches:
        mask = frozen.mask(batch).unsqueeze(-1)
        number = _added(number, mask.sum(0).double())
        read = frozen.read(batch)[1]
        states = [state.double() * mask for state in read]
        sums = [
            (_added(first, state.sum(0)), _added(second, state.square().sum(0)))
            for (first, second), state in zip(sums, states, strict=True)
        ]
    num_shared = int((number >= 2).sum()) if isinstance(number, Tensor) else 0  # the first positions
    if not num_shared:
        raise ValueError("batches: got no position that two texts reach, accepted are 2 or more texts with a position")
    source = torch.arange(len(number), device=number.device).clamp(max=num_shared - 1)
    moments = []
    for first, second in sums:
        mean = first / number.clamp(min=1)
        std = (second / number.clamp(min=1) - mean.square()).clamp(min=0).sqrt()
        moments.append((mean[source].to(read[0].dtype), std[source].to(read[0].dtype)))
    return moments


def _added(one: Tensor | float, other: Tensor) -> Tensor:
    """Sum [T, D] of two tensors, of which the shorter one is padded with zeros."""
    if not torch.is_tensor(one):
        return other
    longest = max(len(one), len(other))
    return sum(F.pad(values, (0, 0, 0, longest - len(values))) for values in (one, other))


def information_bottleneck(
    frozen: FrozenModel,
    batch: Batch,
    layer: int,
    mean: Tensor,
    std: Tensor,
    num_steps: int = 500,
    price: float = 10.0,
) -> Tensor:
    """Information bottleneck: g in [0, 1] per position, fitted to the text.

    h is replaced by a draw of N(g h + (1 - g) mean, (1 - g)^2 std^2), and

        min over g of  -ln p(answer) + price / (T D) sum_i KL_i
        KL_i = KL(N(g_i h_i + (1 - g_i) mean, (1 - g_i)^2 std^2), N(mean, std^2))

    The divergence of a position is a sum over the D dimensions of its state, so the price is that of a nat per
    position and per dimension.

    Source: eq. (D9), notebooks/41_diffmask.py; Schulz et al. 2020 (per sample), who divide by the number of positions
    and dimensions too, with the number of steps and the price of De Cao et al.'s code.

    Parameters
    ----------
    mean, std : [T, D], of `state_moments`, for this layer
    price : float >= 0
        Factor of the Kullback-Leibler divergence, averaged over positions and dimensions: per nat per dimension.
    """
    logits, states = frozen.read(batch)
    answer, mask = logits.argmax(-1), frozen.mask(batch)
    longest = mask.shape[1]
    place = torch.arange(longest, device=mean.device).clamp(max=len(mean) - 1)  # beyond the last: as at the last
    mean, std = mean[place].to(logits.dtype), std[place].to(logits.dtype).clamp(min=1e-6)
    squared_deviation = ((states[layer] - mean) / std).square()

    def loss(raw: Tensor) -> Tensor:
        keep, lost = raw.sigmoid().unsqueeze(-1), (-raw).sigmoid().unsqueeze(-1)
        noise = std * torch.randn_like(states[layer])
        output = frozen.changed(batch, layer, lambda h: keep * h + lost * (mean + noise))
        nats = masked_mean(information(raw, squared_deviation), mask)
        return F.cross_entropy(output, answer, reduction="none") + price * nats

    return _fitted(torch.full_like(mask, 5.0, dtype=logits.dtype), loss, num_steps, centered=True).sigmoid() * mask


def information(raw: Tensor, squared_deviation: Tensor) -> Tensor:
    """KL(N(g h + (1 - g) mean, (1 - g)^2 std^2), N(mean, std^2)) in nats per dimension, [B, T], g = sigmoid(raw).

        mean over dimensions of  -ln(1 - g) + ((1 - g)^2 + g^2 ((h - mean) / std)^2 - 1) / 2

    The divergence of the whole state, which is a sum over its D dimensions, is D times as large.

    Source: eq. (D9), notebooks/41_diffmask.py.

    Parameters
    ----------
    raw : [B, T]
    squared_deviation : [B, T, D]
        ((h - mean) / std)^2.
    """
    keep, lost = raw.sigmoid().unsqueeze(-1), (-raw).sigmoid().unsqueeze(-1)
    return -F.logsigmoid(-raw) + ((lost.square() + keep.square() * squared_deviation - 1) / 2).mean(-1)


def additive_noise(frozen: FrozenModel, batch: Batch, layer: int, num_steps: int = 500, price: float = 1.0) -> Tensor:
    """1 / sigma per position, where noise sigma_i epsilon is added to h_i, as much as the output tolerates.

        min over sigma of  E |f(h + sigma epsilon) - f(h)|^2 - price * mean of ln sigma

    Source: eq. (D10), notebooks/41_diffmask.py; Guan et al. 2019, with the number of steps of De Cao et al.'s code;
    sigma = softplus(s), s starts at -5.
    """
    logits, states = frozen.read(batch)
    mask = frozen.mask(batch)

    def loss(raw: Tensor) -> Tensor:
        sigma = softplus(raw)
        noise = sigma.unsqueeze(-1) * torch.randn_like(states[layer])
        output = frozen.changed(batch, layer, lambda h: h + noise)
        return (output - logits).square().flatten(1).sum(1) - price * masked_mean(sigma.log(), mask)

    raw = _fitted(torch.full_like(mask, -5.0, dtype=logits.dtype), loss, num_steps, centered=False)
    return mask / softplus(raw)


def masks(
    frozen: FrozenModel,
    batch: Batch,
    layer: int,
    num_steps: int = 500,
    margin: float = 0.5,
    estimator: str = "relaxed",
    rate: float = 0.1,
    learn_baseline: bool = False,
    multiplier_init: float = MULTIPLIERS[0],
    watch: Callable[[int, Tensor, Tensor], None] | None = None,
) -> Tensor:
    """P(z_i != 0) of gates whose logits are free parameters of each text: DiffMask without amortisation.

        min over logits of  mean P(z_i != 0) + lambda (D(y, y_hat) - m),   one lambda > 0 per text

    There are three estimators of the gradient of the expected D. `relaxed` differentiates through draws of the Hard
    Concrete distribution. `score` draws Bernoulli gates and uses lambda (D - average of D) grad ln p(z).
    `score_released` is the same without lambda, as in the code that the paper compares with; this is not the gradient
    of the Lagrangian unless lambda is 1.

    Source: eqs. (D6), (D11), notebooks/41_diffmask.py; De Cao et al. 2020, sec. 4.2.1.

    Parameters
    ----------
    margin : float > 0
        epsilon, in nats.
    estimator : "relaxed", "score" or "score_released"
    rate : float > 0
        Step size of Adam on the logits.
    learn_baseline : bool
        Whether the baseline b, which starts at 0, is fitted to the text too; otherwise it stays 0.
    multiplier_init : float, in [0.1, 200]
        lambda at the first step. It stays between these bounds, `MULTIPLIERS`.
    watch : function of (step, keep, distance), or None
        It is called at each step, counted from 1, with P(z_i != 0) [B, T] before the step and the divergence of its
        draw [B], in nats. `Quarters` is such a function.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    if estimator not in ("relaxed", "score", "score_released"):
        raise ValueError(f"estimator: got {estimator!r}, accepted are relaxed, score, score_released")
    require_above_0(margin=margin, rate=rate)
    if not MULTIPLIERS[0] <= multiplier_init <= MULTIPLIERS[1]:
        accepted = f"[{MULTIPLIERS[0]:g}, {MULTIPLIERS[1]:g}]"
        raise ValueError(f"multiplier_init: got {multiplier_init}, accepted are numbers in {accepted}")
    (original, states), mask = frozen.read(batch), frozen.mask(batch)
    baseline = torch.zeros_like(states[layer][:, :1]).requires_grad_(learn_baseline)  # [B, 1, D]
    raw = torch.full_like(mask, 5.0, dtype=original.dtype).requires_grad_()
    log_multiplier = original.new_full((len(mask),), multiplier_init).log()
    bounds = tuple(map(math.log, MULTIPLIERS))
    average = original.new_zeros(len(mask))
    parameters = [raw, baseline] if learn_baseline else [raw]
    optimizer = torch.optim.Adam(parameters, lr=rate)
    for step in range(1, num_steps + 1):
        gates = free_gates(raw, estimator)
        z = gates.rsample() if gates.has_rsample else gates.sample()
        distance = divergence(original, frozen.masked(batch, layer, z, baseline))
        gap, multiplier = distance.detach() - margin, log_multiplier.exp()
        if estimator == "relaxed":
            cost = multiplier * distance
        else:
            scale = multiplier if estimator == "score" else 1.0
            cost = scale * (score_term(gates, z, distance.detach() - average, mask) + distance)  # of b, if it is fitted
            average = average.lerp(distance.detach(), 0.01)
        keep = gates.prob_nonzero
        if watch:
            watch(step, keep.detach(), distance.detach())
        loss = masked_mean(keep, mask) + cost
        for tensor, gradient in zip(parameters, torch.autograd.grad(loss.sum(), parameters), strict=True):
            tensor.grad = gradient
        optimizer.step()
        raw.data.clamp_(-10, 10)
        log_multiplier = (log_multiplier + 0.01 * (gap / margin).clamp(-1, 5)).clamp(*bounds)
    return free_gates(raw.detach(), estimator).prob_nonzero * mask


def quarters(num_steps: int) -> tuple[int, ...]:
    """The numbers of steps after one, two and three quarters of a fit."""
    return tuple(num_steps * k // 4 for k in (1, 2, 3))


class Quarters:
    """Watches `masks`: the masks after each quarter of the steps, and what the draws of the last quarter cost.

    Parameters
    ----------
    num_steps : int, 1 or more
        All steps of the fit.

    Attributes
    ----------
    masks : dict, number of steps -> bool [B, T]
        The masks P(z_i != 0) > 1/2 after one, two and three quarters of the steps: those of a fit of so few steps.
    divergence : [B], in nats
        Mean divergence of the draws of the last quarter: an estimate of the E[D] that the constraint holds.
    """

    def __init__(self, num_steps: int):
        self.steps = quarters(num_steps)
        self.num_last = num_steps - self.steps[-1]
        self.masks: dict[int, Tensor] = {}
        self.divergence = torch.zeros(())

    def __call__(self, step: int, keep: Tensor, distance: Tensor) -> None:
        if step - 1 in self.steps:
            self.masks[step - 1] = keep > 0.5
        if step > self.steps[-1]:
            self.divergence = self.divergence + distance / self.num_last


def score_term(gates: Bernoulli, z: Tensor, cost: Tensor, mask: Tensor) -> Tensor:
    """cost ln p(z) per text, [B]: the expectation of its gradient over draws of z is the gradient of E[cost].

    Source: eq. (D11), notebooks/41_diffmask.py.

    Parameters
    ----------
    z : [B, T], a draw of the gates
    cost : [B], without gradient
        A constant that does not depend on z may be subtracted beforehand to reduce the variance.
    mask : bool [B, T]
    """
    return cost * (gates.log_prob(z) * mask).sum(1)


masks_with_baseline = partial(masks, learn_baseline=True)  # the paper's ablation: everything can be masked (Figure 7c)
masks_by_score = partial(masks, estimator="score")  # with the multiplier, as the Lagrangian requires
masks_by_released_score = partial(masks, estimator="score_released")


def free_gates(raw: Tensor, estimator: str) -> HardConcrete | Bernoulli:
    """The gates of `masks`, whose logits [B, T] are free: Hard Concrete if relaxed, otherwise Bernoulli."""
    if estimator == "relaxed":
        return HardConcrete(raw, TEMPERATURE, LEFT, RIGHT, validate_args=False)
    return Bernoulli(logits=raw, validate_args=False)


def _fitted(raw: Tensor, loss: Callable[[Tensor], Tensor], num_steps: int, centered: bool) -> Tensor:
    """`raw` [B, T] after RMSprop on the sum of the losses [B]; each text is optimised independently."""
    raw = raw.requires_grad_()
    optimizer = torch.optim.RMSprop([raw], lr=0.1, centered=centered)
    for _ in range(num_steps):
        (raw.grad,) = torch.autograd.grad(loss(raw).sum(), raw)
        optimizer.step()
    return raw.detach()


def attention(frozen: FrozenModel, batch: Batch, layer: int) -> Tensor:
    """Attention that each position receives: the maximum over heads, averaged over the positions that attend.

    The weights are those of the layer that reads these states. For the last states, which no layer reads, they are
    those of the last layer, and for the word embeddings those of the first layer.

    Raises
    ------
    ValueError
        If the model has no attention.
    """
    if not hasattr(frozen.model, "attentions"):
        raise ValueError("methods: attention is not accepted for this model, which has no attention weights")
    layers, mask = frozen.model.attentions(batch), frozen.mask(batch)
    weights = layers[min(max(layer - 1, 0), len(layers) - 1)].amax(1)  # [B, T, T]
    return (weights * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True) * mask
