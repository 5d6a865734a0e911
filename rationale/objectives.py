"""Objectives: expected penalties in closed form, and the constraint that holds them at a target.

    minimise  E[task loss]  subject to  rate = target

The gates are independent given the text, so the expected number of selected tokens and of switches are sums
of products of masses: no sampling, no score-function gradient.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from rationale.gates import decide


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
    """
    _same_shape(prob_nonzero, mask)
    return torch.where(mask, prob_nonzero, 0.0).sum(1) / mask.sum(1)


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
    """
    _same_shape(prob_zero, mask)
    _same_shape(prob_nonzero, mask)
    switch = prob_zero[:, :-1] * prob_nonzero[:, 1:] + prob_nonzero[:, :-1] * prob_zero[:, 1:]
    return torch.where(mask[:, 1:], switch, 0.0).sum(1) / mask.sum(1)


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

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """

    def __init__(
        self,
        target: float,
        dynamics: str = "signed",
        step: float = 0.2,
        smoothing: float = 0.8,
        quadratic: float = 50.0,
        multiplier: float = 0.0,
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
        self.smoothing, self.quadratic = smoothing, quadratic
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
            self.multiplier.mul_(torch.exp(self.step * self.gap))
            return
        self.amount.lerp_(amount.double(), 1 - self.smoothing)
        self.size.lerp_(torch.as_tensor(size).to(self.size), 1 - self.smoothing)
        self.gap.copy_(self.amount / self.size - self.target)
        self.multiplier.add_(self.step * self.gap)

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


MEASURES = ("training", "expected", "selected")


class Step(NamedTuple):
    """What an objective returns for one batch."""

    loss: Tensor  # [], to minimise
    parts: dict[str, Tensor]  # detached scalars to log: task, rate, ...


class RationaleObjective(nn.Module):
    """Task loss of a sampled rationale plus constraints on how much is selected.

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
    """

    def __init__(
        self,
        selection: Constraint | None,
        transitions: Constraint | None = None,
        measure: str = "expected",
        every: int = 2,
    ):
        super().__init__()
        if measure not in MEASURES:
            raise ValueError(f"measure: got {measure!r}, accepted are {', '.join(MEASURES)}")
        self.selection, self.transitions, self.measure, self.every = selection, transitions, measure, every
        self.register_buffer("steps", torch.tensor(0), persistent=True)

    def forward(self, model: nn.Module, batch) -> Step:
        """One training pass over a batch: updates the constraints, then returns the loss."""
        output = model(batch.tokens, batch.mask)
        if output.gates is not None and self.training:
            self._update(model, output, batch)
        return self.loss(output, batch, model.head)

    def loss(self, output, batch, head: nn.Module) -> Step:
        """The loss of a pass already made, with the multipliers as they stand.

        Parameters
        ----------
        output : extractor.Output
        batch : data.Batch
        head : nn.Module
            Gives `loss(prediction, target) -> [B]`.
        """
        loss = head.loss(output.prediction, batch.target).mean()
        parts = {"task": loss.detach()}
        if output.gates is None:
            return Step(loss, parts)
        for name, constraint, logs in (
            ("rate", self.selection, self._rate),
            ("switches", self.transitions, self._switches),
        ):
            if constraint is not None:
                log_value, log_rest = logs(output.gates, batch.mask)
                if name == "rate" or batch.mask.shape[1] > 1:  # texts of one word cannot switch
                    loss = loss + constraint(log_value, log_rest)
                parts[name] = log_value.detach().exp()
        return Step(loss, parts)

    @staticmethod
    def _rate(gates, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the share of selected tokens and of the rest."""
        return log_mean(gates.log_prob_nonzero, mask), log_mean(gates.log_prob_zero, mask)

    @staticmethod
    def _switches(gates, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the switches per token, batch mean of eq. (S4), and of one minus them.

        In log space throughout: gates that are all shut (or open) keep a finite value and gradient.
        """
        shut, kept = gates.log_prob_zero, gates.log_prob_nonzero
        switch = torch.logaddexp(shut[:, :-1] + kept[:, 1:], kept[:, :-1] + shut[:, 1:])  # [B, T - 1]
        log_value = log_mean(pad(switch, (1, 0), value=-math.inf), mask)  # no switch before the first token
        return log_value, (-log_value.exp()).log1p()

    @torch.no_grad()
    def _update(self, model: nn.Module, output, batch) -> None:
        texts = len(batch.mask)
        if self.transitions is not None:
            self.transitions.update(self._switches(output.gates, batch.mask)[0].exp() * texts, texts)
        if self.selection is not None and self.measure == "training":
            self.selection.update(log_mean(output.gates.log_prob_nonzero, batch.mask).exp() * texts, texts)
        elif self.selection is not None and self.steps % self.every == 0:
            model.selector.eval()  # without dropout, as at test time
            gates = model.gates(batch.tokens, batch.mask)
            model.selector.train()
            if self.measure == "expected":
                self.selection.update(log_mean(gates.log_prob_nonzero, batch.mask).exp() * texts, texts)
            else:
                chosen = (decide(gates, model.rule) != 0) & batch.mask
                self.selection.update(chosen.sum(), batch.mask.sum())
        self.steps += 1


def build_objective(p) -> RationaleObjective:
    """The objective that the parameters of a run describe.

    Uses model, selection, transitions, measure, dynamics, multiplier_init, multiplier_rate, smoothing and
    quadratic. A target selection of 1 or transitions of 0 means: no such constraint.
    """

    def constraint(target: float) -> Constraint:
        start = p.multiplier_init
        return Constraint(target, p.dynamics, p.multiplier_rate, p.smoothing, p.quadratic, start)

    chooses = p.model != "full_text"
    selection = constraint(p.selection) if chooses and p.selection < 1 else None
    transitions = constraint(p.transitions) if chooses and p.transitions > 0 else None
    return RationaleObjective(selection, transitions, p.measure, p.measure_every)


def steps_to_multiplier(start: float, step: float, gap: float, end: float = 1.0) -> float:
    """Training steps until the authors' multiplier reaches `end` under a constant gap.

        n = ln(end / start) / (step gap)

    Source: eq. (S10), notebooks/04_selecting_text.py.
    """
    return math.log(end / start) / (step * gap)
