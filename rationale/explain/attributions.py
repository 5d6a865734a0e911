"""Attributions that are no probe: which positions of a layer does one answer of a frozen model rest on?

Each method is a function (frozen, batch, layer, ...) -> [B, T], at least 0, 0 at positions that are not real. They are
what DiffMask is compared with: erasure by exact search, integrated gradients, the information bottleneck of Schulz et
al., the additive noise of Guan et al.

Source: eqs. (D7)-(D10), (D12), notebooks/07_diffmask.py; De Cao et al. 2020, secs. 2, 4 and its released code.
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
from rationale.distributions.rectified import HardConcrete
from rationale.errors import optional
from rationale.explain.diffmask import LEFT, RIGHT, TEMPERATURE, Frozen, divergence
from rationale.objectives.penalties import masked_mean


def log_odds(logits: Tensor, answer: Tensor) -> Tensor:
    """ln p(answer) / (1 - p(answer)) [B] of logits [B, C]: for two classes, the difference of their logits."""
    own = logits.gather(1, answer.unsqueeze(1)).squeeze(1)
    others = logits.scatter(1, answer.unsqueeze(1), -torch.inf)
    return own - others.logsumexp(1)


def import_captum() -> ModuleType:
    """`captum.attr`, or one line that says how to install it."""
    return optional("captum.attr", "integrated_gradients", "attributions")


def integrated_gradients(frozen: Frozen, batch: Batch, layer: int, num_steps: int = 500) -> Tensor:
    """|sum over dimensions of h int_0^1 d f(alpha h) / d h d alpha|, f the log-odds of the answer: eq. (D8).

    Source: Sundararajan et al. 2017, by captum (Gauss-Legendre), baseline 0. The paper takes the logit of the
    class, which in its toy task is the log-odds.
    """
    logits, states = frozen.read(batch)
    answer = logits.argmax(-1)

    def score(state: Tensor) -> Tensor:
        return log_odds(frozen.changed(batch, layer, lambda _: state), answer)

    integrate = import_captum().IntegratedGradients(score).attribute
    found = integrate(states[layer], n_steps=num_steps, internal_batch_size=len(answer))
    return found.sum(-1).abs().to(logits.dtype) * frozen.mask(batch)


def moments(frozen: Frozen, batches: Iterable[Batch]) -> list[tuple[Tensor, Tensor]]:
    """Of each layer mean and standard deviation of the states at each position, [T, D] each, over texts that reach it.

    Where fewer than two texts reach a position, it takes those of the position before.
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
    where = torch.arange(len(number)).clamp(max=int((number >= 2).sum()) - 1)
    found = []
    for first, second in sums:
        mean = first / number.clamp(min=1)
        std = (second / number.clamp(min=1) - mean.square()).clamp(min=0).sqrt()
        found.append((mean[where].to(read[0].dtype), std[where].to(read[0].dtype)))
    return found


def _added(one: Tensor | float, other: Tensor) -> Tensor:
    """Their sum [T, D], where either may be the longer one."""
    if not torch.is_tensor(one):
        return other
    longest = max(len(one), len(other))
    return sum(F.pad(values, (0, 0, 0, longest - len(values))) for values in (one, other))


def information_bottleneck(
    frozen: Frozen,
    batch: Batch,
    layer: int,
    mean: Tensor,
    std: Tensor,
    num_steps: int = 500,
    price: float = 10.0,
) -> Tensor:
    """g where h is replaced by a draw of N(g h + (1 - g) mean, (1 - g)^2 std^2) and g is fitted to the text: eq. (D9).

        min over g of  -ln p(answer) + price * mean KL(N(g h + (1 - g) mean, (1 - g)^2 std^2), N(mean, std^2))

    Source: Schulz et al. 2020 (per sample), with the steps and the price of De Cao et al.'s code.

    Parameters
    ----------
    mean, std : [T, D], of `moments`, for this layer
    """
    logits, states = frozen.read(batch)
    answer, mask = logits.argmax(-1), frozen.mask(batch)
    longest = mask.shape[1]
    at = torch.arange(longest, device=mean.device).clamp(max=len(mean) - 1)  # a longer text: as at the last position
    mean, std = mean[at].to(logits.dtype), std[at].to(logits.dtype).clamp(min=1e-6)
    away = ((states[layer] - mean) / std).square()

    def loss(raw: Tensor) -> Tensor:
        keep, lost = raw.sigmoid().unsqueeze(-1), (-raw).sigmoid().unsqueeze(-1)
        noise = std * torch.randn_like(states[layer])
        drawn = frozen.changed(batch, layer, lambda h: keep * h + lost * (mean + noise))
        told = masked_mean(information(raw, away), mask)
        return F.cross_entropy(drawn, answer, reduction="none") + price * told

    return _fitted(torch.full_like(mask, 5.0, dtype=logits.dtype), loss, num_steps, centered=True).sigmoid() * mask


def information(raw: Tensor, away: Tensor) -> Tensor:
    """KL(N(g h + (1 - g) mean, (1 - g)^2 std^2), N(mean, std^2)) in nats, g = sigmoid(raw), mean over dimensions.

        -ln(1 - g) + ((1 - g)^2 + g^2 ((h - mean) / std)^2 - 1) / 2

    Source: eq. (D9), notebooks/07_diffmask.py.

    Parameters
    ----------
    raw : [B, T]
    away : [B, T, D]
        The square of (h - mean) / std.
    """
    keep, lost = raw.sigmoid().unsqueeze(-1), (-raw).sigmoid().unsqueeze(-1)
    return -F.logsigmoid(-raw) + ((lost.square() + keep.square() * away - 1) / 2).mean(-1)


def additive_noise(frozen: Frozen, batch: Batch, layer: int, num_steps: int = 500, price: float = 1.0) -> Tensor:
    """1 / sigma where h_i + sigma_i epsilon may be as noisy as the output allows: eq. (D10).

        min over sigma of  E |f(h + sigma epsilon) - f(h)|^2 - price * mean of ln sigma

    Source: Guan et al. 2019, with the steps of De Cao et al.'s code, sigma = softplus(s), s = -5 at first.
    """
    logits, states = frozen.read(batch)
    mask = frozen.mask(batch)

    def loss(raw: Tensor) -> Tensor:
        sigma = F.softplus(raw)
        noise = sigma.unsqueeze(-1) * torch.randn_like(states[layer])
        drawn = frozen.changed(batch, layer, lambda h: h + noise)
        return (drawn - logits).square().flatten(1).sum(1) - price * masked_mean(sigma.log(), mask)

    raw = _fitted(torch.full_like(mask, -5.0, dtype=logits.dtype), loss, num_steps, centered=False)
    return mask / F.softplus(raw)


def masks(
    frozen: Frozen,
    batch: Batch,
    layer: int,
    num_steps: int = 500,
    margin: float = 0.5,
    estimator: str = "relaxed",
    rate: float = 0.1,
    learn_baseline: bool = False,
) -> Tensor:
    """P(z_i != 0) of gates whose logits are free numbers of one text: DiffMask that is not amortised.

        min over logits of  mean P(z_i != 0) + lambda (D(y, y_hat) - m),   lambda > 0 of each text

    Three ways to the gradient of the expected D: `relaxed`, through draws of the Hard Concrete; `score`, Bernoulli
    gates and lambda (D - average of D) grad ln p(z); `score_released`, the same without lambda, as in the code
    that the paper compares with: that is no gradient of the Lagrangian unless lambda is 1.

    Source: eqs. (D2), (D12), notebooks/07_diffmask.py; De Cao et al. 2020, sec. 4.2.1.

    Parameters
    ----------
    margin : float > 0
        m, in nats.
    estimator : "relaxed", "score" or "score_released"
    rate : float > 0
        Step of Adam on the logits.
    learn_baseline : bool
        b is fitted to the text as well, from 0; else it stays 0.
    """
    if estimator not in ("relaxed", "score", "score_released"):
        raise ValueError(f"estimator: got {estimator!r}, accepted are relaxed, score, score_released")
    (original, states), mask = frozen.read(batch), frozen.mask(batch)
    baseline = torch.zeros_like(states[layer][:, :1]).requires_grad_(learn_baseline)  # [B, 1, D]
    raw = torch.full_like(mask, 5.0, dtype=original.dtype).requires_grad_()
    log_multiplier, average = original.new_full((len(mask),), 0.1).log(), original.new_zeros(len(mask))
    free = [raw, baseline] if learn_baseline else [raw]
    optimizer = torch.optim.Adam(free, lr=rate)
    for _ in range(num_steps):
        gates = _free_gates(raw, estimator)
        z = gates.rsample() if gates.has_rsample else gates.sample()
        apart = divergence(original, frozen.masked(batch, layer, z, baseline))
        gap, multiplier = apart.detach() - margin, log_multiplier.exp()
        if estimator == "relaxed":
            pull = multiplier * apart
        else:
            scale = multiplier if estimator == "score" else 1.0
            pull = scale * score_term(gates, z, apart.detach() - average, mask)
            average = average.lerp(apart.detach(), 0.01)
        loss = masked_mean(gates.log_prob_nonzero.exp(), mask) + pull
        for tensor, gradient in zip(free, torch.autograd.grad(loss.sum(), free), strict=True):
            tensor.grad = gradient
        optimizer.step()
        raw.data.clamp_(-10, 10)
        log_multiplier = (log_multiplier + 0.01 * (gap / margin).clamp(-1, 5)).clamp(math.log(0.1), math.log(200))
    return _free_gates(raw.detach(), estimator).log_prob_nonzero.exp() * mask


def score_term(gates: Bernoulli, z: Tensor, cost: Tensor, mask: Tensor) -> Tensor:
    """cost ln p(z) of each text: over draws of z, the mean of its gradient is that of E[cost]. Source: eq. (D12).

    Parameters
    ----------
    z : [B, T], a draw of the gates
    cost : [B], without gradient; less an average that does not depend on z, for a smaller variance
    mask : bool [B, T]
    """
    return cost * (gates.log_prob(z) * mask).sum(1)


masks_with_baseline = partial(masks, learn_baseline=True)  # the paper's ablation: everything can be masked (Figure 7c)
masks_by_score = partial(masks, estimator="score")  # scaled as the Lagrangian asks
masks_by_released_score = partial(masks, estimator="score_released")


def _free_gates(raw: Tensor, estimator: str) -> HardConcrete | Bernoulli:
    if estimator == "relaxed":
        return HardConcrete(raw, TEMPERATURE, LEFT, RIGHT, validate_args=False)
    return Bernoulli(logits=raw, validate_args=False)


def _fitted(raw: Tensor, loss: Callable[[Tensor], Tensor], num_steps: int, centered: bool) -> Tensor:
    """`raw` [B, T] after RMSprop on the loss [B] of each text: texts do not see each other."""
    raw = raw.requires_grad_()
    optimizer = torch.optim.RMSprop([raw], lr=0.1, centered=centered)
    for _ in range(num_steps):
        (raw.grad,) = torch.autograd.grad(loss(raw).sum(), raw)
        optimizer.step()
    return raw.detach()


def attention(frozen: Frozen, batch: Batch, layer: int) -> Tensor:
    """The largest over heads of the attention that each position gets, averaged over the positions that give it.

    Of the layer that reads these states; the last states, which none reads, take that of the last layer, and the word
    embeddings that of the first.

    Raises
    ------
    ValueError
        If the model has no attention.
    """
    if not hasattr(frozen.model, "attentions"):
        raise ValueError("methods: attention is not for this model, which has none")
    layers, mask = frozen.model.attentions(batch), frozen.mask(batch)
    weights = layers[min(max(layer - 1, 0), len(layers) - 1)].amax(1)  # [B, T, T]
    return (weights * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True) * mask
