"""Objectives: expected penalties in closed form, the constraint that holds them at a target, the score function.

    minimise  E[task loss]  subject to  rate = target
    minimise  E[task loss + sparsity * selected words + coherence * switches]

Where the gates are independent given the text, the expected number of selected tokens and of switches are sums
of products of masses: no sampling, no score-function gradient. The expected task loss has a gradient through
the draw (HardKuma) or, for gates whose draw has none (Bernoulli), through the score function.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from rationale.extractor import WITHOUT_GATES, repeated, sample


def expected_selection(prob_nonzero: Tensor, mask: Tensor) -> Tensor:
    """Expected share of tokens kept, for each text.

        S_i = (1/T_i) sum_t mask_it P(H_it != 0)

    Source: eq. (S3), notebooks/04_selecting_text.py; Bastings et al. 2019, sec. 4.

    Parameters
    ----------
    prob_nonzero : [B, T], in [0, 1]
        Probability (not density) that a gate is not exactly 0; values at padding do not count.
    mask : bool [B, T]
        True for real tokens. Every row holds at least one.

    Returns
    -------
    [B], share in [0, 1]

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> mask = torch.tensor([[True, True, True], [True, True, False]])
    >>> expected_selection(torch.tensor([[1.0, 0.5, 0.0], [0.2, 0.4, 0.9]]), mask)
    tensor([0.5000, 0.3000])
    """
    return masked_mean(prob_nonzero, mask)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the real positions of each text, [B, T] and bool [B, T] -> [B]; what stands at padding does not count.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    _same_shape(values, mask)
    return torch.where(mask, values, 0.0).sum(1) / mask.sum(1)


def expected_transitions(prob_zero: Tensor, prob_nonzero: Tensor, mask: Tensor) -> Tensor:
    """Expected switches between selected and unselected, per token, for each text (relaxed fused lasso).

        L_i = (1/T_i) sum_{t<T_i} P(H_t = 0) P(H_{t+1} != 0) + P(H_t != 0) P(H_{t+1} = 0)

    Source: eq. (S4), notebooks/04_selecting_text.py; Bastings et al. 2019, sec. 4. Divided by the number of
    tokens, as in the authors' code, although there is one pair less.

    Parameters
    ----------
    prob_zero, prob_nonzero : [B, T], in [0, 1]
        The two complementary masses; pass both, each from its own log form, for precision.
    mask : bool [B, T]
        True for real tokens, first in each row.

    Returns
    -------
    [B], switches per token in [0, 1)

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> kept = torch.tensor([[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    >>> expected_transitions(1 - kept, kept, torch.ones(2, 4, dtype=torch.bool))  # 1 and 3 switches
    tensor([0.2500, 0.7500])
    """
    _same_shape(prob_zero, mask)
    _same_shape(prob_nonzero, mask)
    switch = prob_zero[:, :-1] * prob_nonzero[:, 1:] + prob_nonzero[:, :-1] * prob_zero[:, 1:]
    return torch.where(mask[:, 1:], switch, 0.0).sum(1) / mask.sum(1)


def count_selected(z: Tensor) -> Tensor:
    """Selected tokens of each text, [..., T] -> [...]; z is 0 at padding.

    Examples
    --------
    >>> count_selected(torch.tensor([[0.0, 0.3, 1.0], [0.0, 0.0, 1e-9]]))
    tensor([2., 1.])
    """
    return (z != 0).to(z.dtype).sum(-1)


def count_switches(z: Tensor, mask: Tensor) -> Tensor:
    """Switches between selected and unselected within each text, [..., T] -> [...].

        sum_{t<T_i} 1[z_t != 0] xor 1[z_{t+1} != 0]

    The end of the text is no switch; in the authors' code, where padding counts as unselected, a last word that is
    selected pays one unless its text is the longest of the batch.

    Examples
    --------
    >>> z, mask = torch.tensor([[0.0, 1.0, 0.4, 0.0]]), torch.tensor([[True, True, True, False]])
    >>> count_switches(z, mask)  # the end of the text is none
    tensor([1.])
    """
    on = z != 0
    return ((on[..., :-1] ^ on[..., 1:]) & mask[..., 1:]).to(z.dtype).sum(-1)


def log_mean(log_values: Tensor, mask: Tensor) -> Tensor:
    """Logarithm of the mean over texts of the mean over real tokens, without leaving log space.

        ln (1/B) sum_i (1/T_i) sum_t mask_it exp(log_values_it)

    With ln P(H != 0) it is the logarithm of the batch mean of eq. (S3); with ln P(H = 0), of one minus it.
    Source: eq. (S7), notebooks/04_selecting_text.py.

    Parameters
    ----------
    log_values : [B, T]
    mask : bool [B, T]
        True for real tokens. Every row holds at least one.

    Returns
    -------
    []

    Examples
    --------
    >>> log_mean(torch.full((2, 3), -1000.0), torch.ones(2, 3, dtype=torch.bool))  # exp of it would be 0
    tensor(-1000.)
    """
    _same_shape(log_values, mask)
    shares = log_values - (mask.sum(1, keepdim=True) * len(mask)).log()
    return torch.where(mask, shares, -math.inf).logsumexp((0, 1))


def _same_shape(values: Tensor, mask: Tensor) -> None:
    if values.shape != mask.shape:
        raise ValueError(f"shapes differ: values {tuple(values.shape)}, mask {tuple(mask.shape)}")


DYNAMICS = ("signed", "authors")


class Constraint(nn.Module):
    """Hold a rate at its target with a Lagrange multiplier that learns while the model learns.

    `signed` (default) is an augmented Lagrangian with the violation in log-odds:

        c          = target (1 - target) (logit value - logit target)      about value - target near the target
        gap        = (moving sum of measured amounts) / (moving sum of sizes) - target
        multiplier = multiplier + step gap                                 either sign
        term       = multiplier c + quadratic / 2 c^2

    The multiplier integrates what is measured, the quadratic term damps. It pushes a rate that is too low up
    again, and because d logit(value) does not vanish when all gates are shut (or open), no overshoot is final.

    `authors` is the multiplicative rule of the authors' code (GECO):

        gap        = smoothing gap + (1 - smoothing) (amount / size - target)      from 0
        multiplier = multiplier exp(step gap)                                      positive
        term       = multiplier gap, with the gradient of multiplier (value - target)

    It can only push a rate down. Once all gates are shut no gradient of the task reaches them and the model
    stays empty: see eq. (S12), notebooks/04_selecting_text.py.

    In both, multiplier and averages are buffers (saved, never seen by the optimiser), and `update` changes
    them in training mode only. Call `update` before `forward`, as the authors do.

    Source: eqs. (S6), (S8)-(S11), notebooks/04_selecting_text.py; Bastings et al. 2019, sec. 4; Rezende and
    Viola 2018.

    Parameters
    ----------
    target : float, in (0, 1)
        Rate to hold.
    dynamics : "signed" or "authors"
    step : float, > 0
        Step size of the multiplier (of its logarithm for `authors`), per call of `update`.
    smoothing : float, in [0, 1)
        Share of the past in the moving averages.
    quadratic : float, >= 0
        Weight of the quadratic term; `signed` only.
    multiplier : float
        Start of the multiplier; must be positive for `authors`.
    largest : float, > 0
        The multiplier is cut off there (the authors: 5 on beer, none on SST).

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> held = Constraint(target=0.4, step=0.2)
    >>> held.update(amount=torch.tensor(60.0), size=100.0)  # 60 of 100 words were selected: too many
    >>> round(held.gap.item(), 4), round(held.multiplier.item(), 4)
    (0.2, 0.04)
    >>> rate = torch.tensor(0.6, requires_grad=True)
    >>> term = held(rate.log(), (1 - rate).log())
    >>> torch.autograd.grad(term, rate)[0] > 0  # descent makes the rate smaller
    tensor(True)
    """

    def __init__(
        self,
        target: float,
        dynamics: str = "signed",
        step: float = 0.2,
        smoothing: float = 0.8,
        quadratic: float = 50.0,
        multiplier: float = 0.0,
        largest: float = math.inf,
    ):
        super().__init__()
        if dynamics not in DYNAMICS:
            raise ValueError(f"dynamics: got {dynamics!r}, accepted are {', '.join(DYNAMICS)}")
        if not 0 < target < 1:
            raise ValueError(f"target: got {target}, accepted are rates in (0, 1)")
        if not step > 0 or not 0 <= smoothing < 1 or not quadratic >= 0:
            raise ValueError(
                f"step: got {step}, accepted > 0; smoothing: got {smoothing}, accepted [0, 1); "
                f"quadratic: got {quadratic}, accepted >= 0"
            )
        if dynamics == "authors" and not multiplier > 0:
            raise ValueError(f"multiplier: got {multiplier}, accepted is a start > 0 for dynamics 'authors'")
        self.target, self.dynamics, self.step = target, dynamics, step
        self.smoothing, self.quadratic, self.largest = smoothing, quadratic, largest
        for name, start in (("multiplier", multiplier), ("gap", 0.0), ("amount", 0.0), ("size", 0.0)):
            self.register_buffer(name, torch.tensor(float(start), dtype=torch.float64))

    @torch.no_grad()
    def update(self, amount: Tensor, size: Tensor | float) -> None:
        """Take in one measurement and move the multiplier; does nothing in evaluation mode.

        Parameters
        ----------
        amount, size : [], size > 0
            What was measured, e.g. selected words and all words. `signed` compares the ratio of their moving
            sums with the target, which is unbiased from the first step and counts a batch by its size.
        """
        if not self.training:
            return
        if self.dynamics == "authors":
            self.gap.lerp_(amount.double() / size - self.target, 1 - self.smoothing)
            self.multiplier.mul_(torch.exp(self.step * self.gap)).clamp_(max=self.largest)
            return
        self.amount.lerp_(amount.double(), 1 - self.smoothing)
        self.size.lerp_(torch.as_tensor(size).to(self.size), 1 - self.smoothing)
        self.gap.copy_(self.amount / self.size - self.target)
        self.multiplier.add_(self.step * self.gap).clamp_(max=self.largest)

    def forward(self, log_value: Tensor, log_rest: Tensor) -> Tensor:
        """The term to add to the loss.

        Parameters
        ----------
        log_value, log_rest : []
            Logarithms of the differentiable rate of this batch and of one minus it, each from its own log form.
        """
        multiplier, gap = self.multiplier.to(log_value.dtype), self.gap.to(log_value.dtype)
        if self.dynamics == "authors":
            value = log_value.exp()
            return multiplier * (value - value.detach() + gap)
        odds = math.log(self.target) - math.log1p(-self.target)
        violation = self.target * (1 - self.target) * (log_value - log_rest - odds)
        return multiplier * violation + self.quadratic / 2 * violation.square()


# ------------------------------------------------------------------------------------------ the score function

BASELINES = ("none", "average", "self_critical", "leave_one_out")


def leave_one_out(cost: Tensor) -> Tensor:
    """For each of K draws of a text the mean cost of the other K - 1: [K, B] -> [K, B].

    Source: eq. (R6), notebooks/05_reinforce.py; Kool, van Hoof & Welling 2019.

    Examples
    --------
    >>> leave_one_out(torch.tensor([[1.0], [2.0], [6.0]]))  # three draws of one text
    tensor([[4.0000],
            [3.5000],
            [1.5000]])
    """
    return (cost.sum(0) - cost) / (len(cost) - 1)


def score_function(cost: Tensor, baseline: Tensor | float, log_prob: Tensor) -> Tensor:
    """A term whose value is 0 and whose gradient is the score-function estimate of that of the mean cost.

        gradient = (1 / K B) sum_kb (cost_kb - baseline_kb) grad ln p(z_kb)

    Unbiased for every baseline that does not depend on z_kb itself.
    Source: eqs. (R4)-(R6), notebooks/05_reinforce.py; Williams 1992; Lei et al. 2016.

    Parameters
    ----------
    cost : [K, B]
        Of each draw; its own gradient is not used here.
    baseline : [K, B], [B] or a number
    log_prob : [K, B]
        ln p(z) of the whole selection of each draw.

    Examples
    --------
    >>> logit = torch.tensor(0.0, requires_grad=True)
    >>> z = torch.tensor([[1.0], [0.0]])  # two draws of one gate
    >>> log_prob = torch.distributions.Bernoulli(logits=logit).log_prob(z)
    >>> term = score_function(cost=3.0 * z, baseline=1.0, log_prob=log_prob)
    >>> term.item(), torch.autograd.grad(term, logit)[0].item()
    (0.0, 0.75)
    """
    return ((cost - baseline).detach() * (log_prob - log_prob.detach())).mean()


# ----------------------------------------------------------------------------------------------- the whole loss

MEASURES = ("training", "expected", "selected")
PENALTIES = ("expected", "sampled")


class Step(NamedTuple):
    """What an objective returns for one batch."""

    loss: Tensor  # [], to minimise
    parts: dict[str, Tensor]  # detached scalars to log: task, rate, ...


class RationaleObjective(nn.Module):
    """Task loss of a sampled rationale, and what keeps the rationale short: penalties or constraints.

    Source: eq. (S5), notebooks/04_selecting_text.py; eqs. (R2)-(R8), notebooks/05_reinforce.py.

    Parameters
    ----------
    selection : Constraint or None
        Holds the share of selected tokens.
    transitions : Constraint or None
        Holds the switches per token.
    measure : "training", "expected" or "selected"
        What the selection constraint compares with its target. training: the expected rate of the training
        pass, dropout included, averaged over texts (the authors'; without dropout the rate is another, on
        SST by 10 points). expected: the same without dropout, as at test time. selected: the share of *words*
        that the test-time rule selects, without dropout. The gradient is that of the training pass in all.
    every : int, >= 1
        Training steps between two measurements without dropout; each costs one more pass of the selector.
    sparsity, coherence : float, >= 0
        Price of a selected word and of a switch, in units of the task loss. Both count per text, not per word.
    penalty : "expected" or "sampled"
        expected: closed form, with its own gradient. sampled (Bernoulli): counted on the draw, so that its
        gradient, and that of a constraint, comes from the score function, as in Lei et al.
    samples : int, K >= 1
        Draws a text and training step.
    baseline : one of `BASELINES`
        What the score function subtracts from a cost. average: the moving average of the costs of earlier
        steps. self_critical: the cost of the test-time selection of the same text, without dropout (one more
        pass). leave_one_out: the mean over the other draws of the same text (K >= 2).
    warmup : int, >= 0
        Training steps over which the prices rise from 0; evaluation uses the full ones.
    entropy : float, >= 0
        Reward for a nat of entropy of a Bernoulli gate (that is, a price on its KL divergence from a fair coin): a
        gate whose word is worth v nats settles at the logit (v - sparsity) / entropy, eq. (R8), and cannot saturate.
    """

    AVERAGING = 0.95  # share of the past in the moving average of the cost

    def __init__(
        self,
        selection: Constraint | None = None,
        transitions: Constraint | None = None,
        measure: str = "expected",
        every: int = 2,
        sparsity: float = 0.0,
        coherence: float = 0.0,
        penalty: str = "expected",
        samples: int = 1,
        baseline: str = "none",
        warmup: int = 0,
        entropy: float = 0.0,
    ):
        super().__init__()
        for name, value, accepted in (
            ("measure", measure, MEASURES),
            ("penalty", penalty, PENALTIES),
            ("baseline", baseline, BASELINES),
        ):
            if value not in accepted:
                raise ValueError(f"{name}: got {value!r}, accepted are {', '.join(accepted)}")
        if baseline == "leave_one_out" and samples < 2:
            raise ValueError(f"samples: got {samples}, baseline leave_one_out needs 2 or more")
        if penalty == "sampled" and any(held and held.dynamics == "signed" for held in (selection, transitions)):
            raise ValueError("penalty: got 'sampled', constraints counted on the draw need the dynamics 'authors'")
        self.selection, self.transitions, self.measure, self.every = selection, transitions, measure, every
        self.sparsity, self.coherence, self.penalty = sparsity, coherence, penalty
        self.samples, self.baseline, self.warmup, self.entropy = samples, baseline, warmup, entropy
        self.register_buffer("steps", torch.tensor(0), persistent=True)
        if baseline == "average":
            self.register_buffer("average", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, model: nn.Module, batch) -> Step:
        """One training pass over a batch: updates the constraints, then returns the loss."""
        output = model(batch.tokens, batch.mask, self.samples)
        if output.gates is None or not self.training:
            return self.loss(output, batch, model.head)
        self._update(model, output, batch)
        reference = self._self_critical(model, batch) if self.baseline == "self_critical" else None
        step = self.loss(output, batch, model.head, reference)
        self.steps += 1
        return step

    def loss(self, output, batch, head: nn.Module, reference: Tensor | None = None) -> Step:
        """The loss of a pass already made, with the multipliers as they stand.

        Parameters
        ----------
        output : extractor.Output
            Of one draw a text, or of several.
        batch : data.Batch
        head : nn.Module
            Gives `loss(prediction, target) -> [B]`.
        reference : [B] or None
            Baseline cost of each text, for `self_critical`.
        """
        num_samples = len(output.z) // len(batch.mask)
        mask, target = repeated(batch.mask, num_samples), repeated(batch.target, num_samples)
        task = head.loss(output.prediction, target)  # [K B]
        parts = {"task": task.detach().mean()}
        if output.gates is None:
            return Step(task.mean(), parts)
        price = self._price(output, mask)  # [K B]
        loss = (task + price).mean()
        for name, constraint, logs in (
            ("rate", self.selection, self._rate),
            ("switches", self.transitions, self._switches),
        ):
            if constraint is not None or name == "rate":
                log_value, log_rest = logs(output, mask)
                parts[name] = log_value.detach().exp()
            some = name == "rate" or mask.shape[1] > 1  # texts of one word cannot switch
            if constraint is not None and some and not self._counts(output.gates):
                loss = loss + constraint(log_value, log_rest)
        if self.training and not output.gates.has_rsample:
            # the price of independent gates is a closed form whose own gradient is all of it
            cost = task + price if output.dependent or self._counts(output.gates) else task
            cost = cost.detach().view(num_samples, -1)  # [K, B]
            log_prob = torch.where(mask, output.gates.log_prob(output.z), 0.0).sum(1).view(num_samples, -1)
            loss = loss + score_function(cost, self._baseline(cost, reference), log_prob)
        return Step(loss, parts)

    def _counts(self, gates) -> bool:
        """Whether prices and constraints count the draw instead of taking an expectation."""
        return self.penalty == "sampled" and not gates.has_rsample

    def _price(self, output, mask: Tensor) -> Tensor:
        """What the selection of each row costs, [K B]; rises during the warm-up."""
        counts = self._counts(output.gates)
        if not (self.sparsity or self.coherence or self.entropy or counts):
            return output.z.new_zeros(len(mask))
        if counts:
            words, switches = count_selected(output.z), count_switches(output.z, mask)
        else:
            shut, kept = output.gates.log_prob_zero.exp(), output.gates.log_prob_nonzero.exp()
            words = torch.where(mask, kept, 0.0).sum(1)
            if output.log_switches is not None:
                switches = torch.where(mask[:, 1:], output.log_switches.exp(), 0.0).sum(1)
            elif output.dependent and not output.gates.has_rsample:  # the next gate, given what this one was
                switch = torch.where(output.z[:, :-1] != 0, shut[:, 1:], kept[:, 1:])
                switches = torch.where(mask[:, 1:], switch, 0.0).sum(1)
            else:
                switches = expected_transitions(shut, kept, mask) * mask.sum(1)
        price = self.sparsity * words + self.coherence * switches
        if self.training and self.warmup:
            price = price * ((self.steps + 1) / self.warmup).clamp(max=1)
        for constraint, count in ((self.selection, words), (self.transitions, switches)):
            if counts and constraint is not None:
                price = price + constraint.multiplier.to(price) * count / mask.sum(1)
        if self.entropy:
            price = price - self.entropy * torch.where(mask, output.gates.entropy(), 0.0).sum(1)
        return price

    def _baseline(self, cost: Tensor, reference: Tensor | None) -> Tensor | float:
        """What is subtracted from the costs [K, B]; never depends on the draw it is subtracted from."""
        if self.baseline == "leave_one_out":
            return leave_one_out(cost)
        if self.baseline == "self_critical":
            return reference
        if self.baseline == "none":
            return 0.0
        before, mean = self.average.to(cost, copy=True), cost.mean().double()  # 0 at the first step
        self.average.copy_(torch.where(self.steps == 0, mean, self.average.lerp(mean, 1 - self.AVERAGING)))
        return before

    @torch.no_grad()
    def _self_critical(self, model: nn.Module, batch) -> Tensor:
        """Cost [B] of what the model would select and say at test time."""
        model.eval()
        output = model(batch.tokens, batch.mask)
        model.train()
        cost = model.head.loss(output.prediction, batch.target)
        counts = self._counts(output.gates) or output.dependent
        return cost + self._price(output, batch.mask) if counts else cost

    @staticmethod
    def _rate(output, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the share of selected tokens and of the rest."""
        return log_mean(output.gates.log_prob_nonzero, mask), log_mean(output.gates.log_prob_zero, mask)

    @staticmethod
    def _switches(output, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the switches per token, batch mean of eq. (S4), and of one minus them.

        In log space throughout: gates that are all shut (or open) keep a finite value and gradient.
        """
        switch = output.log_switches
        if switch is None:
            shut, kept = output.gates.log_prob_zero, output.gates.log_prob_nonzero
            switch = torch.logaddexp(shut[:, :-1] + kept[:, 1:], kept[:, :-1] + shut[:, 1:])  # [B, T - 1]
        log_value = log_mean(pad(switch, (1, 0), value=-math.inf), mask)  # no switch before the first token
        return log_value, (-log_value.exp()).log1p()

    @torch.no_grad()
    def _update(self, model: nn.Module, output, batch) -> None:
        mask = repeated(batch.mask, len(output.z) // len(batch.mask))
        texts = len(mask)
        if self.transitions is not None:
            self.transitions.update(self._switches(output, mask)[0].exp() * texts, texts)
        if self.selection is not None and self.measure == "training":
            self.selection.update(log_mean(output.gates.log_prob_nonzero, mask).exp() * texts, texts)
        elif self.selection is not None and self.steps % self.every == 0:
            model.eval()  # without dropout, as at test time
            gates = model.gates(batch.tokens, batch.mask, sample if self.measure == "expected" else None)
            model.train()
            if self.measure == "expected":
                texts = len(batch.mask)
                self.selection.update(log_mean(gates.log_prob_nonzero, batch.mask).exp() * texts, texts)
            else:
                chosen = (model.decided(batch.mask)(gates) != 0) & batch.mask
                self.selection.update(chosen.sum(), batch.mask.sum())


def build_objective(p, steps_per_epoch: int = 0) -> RationaleObjective:
    """The objective that the parameters of a run describe.

    Uses model, selection, transitions, measure, measure_every, dynamics, multiplier_init, multiplier_rate,
    multiplier_max, smoothing, quadratic, sparsity, coherence, penalty, samples, baseline, entropy and warmup (in
    epochs, of `steps_per_epoch`).
    A target selection of 1 or transitions of 0 means: no such constraint.
    """

    def constraint(target: float) -> Constraint:
        start = p.multiplier_init
        largest = p.multiplier_max or math.inf
        return Constraint(target, p.dynamics, p.multiplier_rate, p.smoothing, p.quadratic, start, largest)

    if p.model in WITHOUT_GATES:
        return RationaleObjective()
    return RationaleObjective(
        constraint(p.selection) if p.selection < 1 else None,
        constraint(p.transitions) if p.transitions > 0 else None,
        p.measure,
        p.measure_every,
        p.sparsity,
        p.coherence,
        p.penalty,
        p.samples,
        p.baseline,
        round(p.warmup * steps_per_epoch),
        p.entropy,
    )


def steps_to_multiplier(start: float, step: float, gap: float, end: float = 1.0) -> float:
    """Training steps until the authors' multiplier reaches `end` under a constant gap.

        n = ln(end / start) / (step gap)

    Source: eq. (S10), notebooks/04_selecting_text.py.

    Examples
    --------
    >>> round(steps_to_multiplier(start=1e-4, step=0.01, gap=0.3))
    3070
    """
    return math.log(end / start) / (step * gap)
