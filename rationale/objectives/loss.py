"""Objectives: expected penalties in closed form, the constraint that holds them at a target, the score function.

    minimise  E[task loss]  subject to  rate = target
    minimise  E[task loss + sparsity * selected words + coherence * switches]

Two terms against rationales that degenerate may be added: `closeness` and `guidance` of `RationaleObjective`.

Where the gates are independent given the text, the expected numbers of selected tokens and of switches are sums
of products of masses, so they need neither sampling nor the score function. The gradient of the expected task loss
is taken through the draw (HardKuma) or, for gates whose draws pass no gradient (Bernoulli), by the score function.
"""

import math
from collections.abc import Iterator
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from rationale.data.batches import Batch, Tokens
from rationale.distributions.protocol import GateDistribution
from rationale.models.protocol import Output, RationaleModel, WholeTextReader
from rationale.models.remedies import RemedySettings
from rationale.nn.heads import Head
from rationale.nn.modes import evaluating
from rationale.nn.sampling import repeated, sample
from rationale.objectives.buffers import BufferKeeper
from rationale.objectives.constraint import Constraint, ConstraintSettings, TransitionSettings, steps_of_task
from rationale.objectives.penalties import (
    count_selected,
    count_switches,
    expected_transitions,
    guidance_of_texts,
    log_mean,
    log_means,
    numbers_like,
    openness_entropy,
)
from rationale.objectives.score_function import BASELINES, ScoreFunctionSettings, leave_one_out, score_function
from rationale.settings import Refusal, Settings, setting

MEASURES = ("training", "expected", "selected")
PENALTIES = ("expected", "sampled")


class PriceSettings(Settings):
    """The price of a selection, where no constraint holds its rate."""

    sparsity: float = setting(0.0, "price of a selected word, in units of the task loss", "[0, inf)")
    coherence: float = setting(0.0, "price of a switch between kept and not", "[0, inf)")
    penalty: Literal["expected", "sampled"] = setting("expected", "prices in closed form, or counted on the draw")
    entropy: float = setting(0.0, "reward for a nat of entropy of whether a gate is open", "[0, inf)")
    warmup: float = setting(0.0, "epochs over which the prices rise from 0", "[0, inf)")


class GuidanceSettings(Settings):
    """Gold words that guide the gates in training."""

    guidance: float = setting(0.0, "price of a nat by which gates miss the gold rationale; 0 = no guidance", "[0, inf)")
    guided: float = setting(1.0, "share of the training texts whose gold rationale guides the gates", "(0, 1]")

    def refused(self) -> Iterator[Refusal]:
        without = self.guided < 1 and not self.guidance
        yield Refusal(without, "guided", "without guidance", "1, or a positive guidance", meaningless=True)


class LossOutput(NamedTuple):
    """What an objective returns for one batch."""

    loss: Tensor  # [], to minimise
    parts: dict[str, Tensor]  # detached scalars to log: task, rate, ...


class RationaleObjective(BufferKeeper):
    """Task loss of a sampled rationale, plus the penalties or constraints that keep the rationale short.

    Source: eqs. (S8), (S11), notebooks/06_hold_a_rate.py; eqs. (R2)-(R8), notebooks/08_reinforce.py; eqs. (F3), (F4),
    notebooks/16_failures.py.

    Parameters
    ----------
    selection : Constraint or None
        Holds the share of selected tokens.
    transitions : Constraint or None
        Holds the switches per token.
    measure : "training", "expected" or "selected"
        The rate that the selection constraint compares with its target. training: the expected rate of the training
        pass, dropout included, averaged over texts, as in the authors' code (without dropout the rate differs, on
        SST by 10 points). expected: the same without dropout, as at test time. selected: the share of *words*
        that the test-time rule selects, without dropout. In all three, the gradient is that of the training pass.
    every : int, >= 1
        Training steps between two measurements without dropout; each costs one more pass of the selector.
    sparsity, coherence : float, >= 0
        Price of a selected word and of a switch, in units of the task loss. Both count per text, not per word.
    penalty : "expected" or "sampled"
        expected: closed form, with its own gradient. sampled (Bernoulli): counted on the draw, so that the gradients of
        the penalty and of a constraint come from the score function, as in Lei et al.
    samples : int, K >= 1
        Draws per text and training step.
    baseline : one of `BASELINES`
        The value that the score function subtracts from a cost. average: the moving average of the costs of earlier
        steps. self_critical: the cost of the test-time selection of the same text, without dropout (one more
        pass). leave_one_out: the mean over the other draws of the same text (K >= 2).
    warmup : int, >= 0
        Training steps with gates over which the prices rise from 0; evaluation uses the full prices.
    entropy : float, >= 0
        Reward per nat of entropy of *whether* a gate is open, see `penalties.openness_entropy` (that is, a price on the
        KL divergence of this from a fair coin). A Bernoulli gate whose word is worth v nats converges to the logit
        (v - sparsity) / entropy, eq. (R8), and cannot saturate. Of a gate with values between 0 and 1, it is P(Z != 0)
        that is rewarded for being near 1/2, and nothing is said of the values.
    held_after : int, >= 0
        Training steps before the constraints act; until then no rate is measured and no multiplier moves.
    closeness : float, >= 0
        Price of the divergence of the prediction from that of the auxiliary predictor, if the model has one. The task
        loss of the auxiliary predictor is added as well: l(y', y) + l(y'', y) + closeness D(y', y''). Yu et al. 2021.
    guidance : float, >= 0
        Price of the cross-entropy of the gates and `Batch.guide`, see `penalties.guidance`.
    whole_texts : int, >= 0
        Training steps in which the predictor reads every word; until then no gate is trained, and nothing holds or
        prices a rationale.
    """

    AVERAGING = 0.95  # share of the past in the moving average of the cost
    on_cpu = frozenset({"steps"})
    steps: Tensor  # buffers, []: training steps so far
    average: Tensor  # of the costs; only for the baseline of this name

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
        held_after: int = 0,
        closeness: float = 0.0,
        guidance: float = 0.0,
        whole_texts: int = 0,
    ):
        super().__init__()
        for name, value, accepted in (
            ("measure", measure, MEASURES),
            ("penalty", penalty, PENALTIES),
            ("baseline", baseline, BASELINES),
        ):
            if value not in accepted:
                raise ValueError(f"{name}: got {value!r}, accepted are {', '.join(accepted)}")
        prices = {"sparsity": sparsity, "coherence": coherence, "entropy": entropy}
        for name, price in (prices | {"closeness": closeness, "guidance": guidance}).items():
            if not 0 <= price < math.inf:
                raise ValueError(f"{name}: got {price}, accepted are numbers from 0")
        counts = {"warmup": warmup, "held_after": held_after, "whole_texts": whole_texts}
        for least, named in ((1, {"every": every, "samples": samples}), (0, counts)):
            for name, count in named.items():
                if not (isinstance(count, int) and count >= least):
                    raise ValueError(f"{name}: got {count}, accepted are integers from {least}")
        if baseline == "leave_one_out" and samples < 2:
            raise ValueError(f"samples: got {samples}, baseline leave_one_out needs 2 or more")
        if penalty == "sampled" and any(held and held.dynamics == "signed" for held in (selection, transitions)):
            raise ValueError("penalty: got 'sampled', constraints counted on the draw need the dynamics 'authors'")
        self.selection, self.transitions, self.measure, self.every = selection, transitions, measure, every
        self.sparsity, self.coherence, self.penalty = sparsity, coherence, penalty
        self.samples, self.baseline, self.warmup, self.entropy = samples, baseline, warmup, entropy
        self.held_after, self.whole_texts = held_after, whole_texts
        self.closeness, self.guidance = closeness, guidance
        self.register_buffer("steps", torch.tensor(0), persistent=True)
        if baseline == "average":
            self.register_buffer("average", torch.tensor(0.0, dtype=torch.float64))

    def forward(self, model: RationaleModel[Tokens], batch: Batch[Tokens]) -> LossOutput:
        """One training pass over a batch: updates the constraints, then returns the loss."""
        if self.training and self.steps < self.whole_texts:
            return self._of_whole_texts(cast("WholeTextReader[Tokens]", model), batch, model.head)
        output = model(batch.tokens, batch.mask, self.samples)
        if output.gates is None or not self.training:
            return self.loss(output, batch, model.head)
        self._update(model, output, batch)
        reference = self._self_critical(model, batch) if self.baseline == "self_critical" else None
        result = self.loss(output, batch, model.head, reference)
        self.count_step()
        return result

    def _of_whole_texts(self, model: WholeTextReader[Tokens], batch: Batch[Tokens], head: Head) -> LossOutput:
        """The task loss of a model that reads every word: its rate is 1."""
        result = self.loss(model.read_all(batch.tokens, batch.mask), batch, head)
        self.count_step()
        return LossOutput(result.loss, result.parts | {"rate": torch.ones_like(result.parts["task"])})

    def count_step(self) -> None:
        """Count a training step of a model with gates. `forward` does; a step that is replayed has to be counted."""
        self.steps += 1

    @property
    def variant(self) -> bool | None:
        """What a step of the model with gates depends on beside its batch: whether it measures the rate.

        None while every step differs from the next, as in the warm-up, while whole texts are read, and until the
        constraints act and their targets stay.
        """
        moves = 0 if self.selection is None else self.selection.moves  # the target of the switches never does
        if self.steps <= max(self.whole_texts + self.warmup, self.held_after + moves):
            return None
        return bool(self.steps % self.every == 0)

    def loss(self, output: Output, batch: Batch, head: Head, reference: Tensor | None = None) -> LossOutput:
        """The loss of a given forward pass, with the current multipliers.

        Parameters
        ----------
        output : Output
            Of one or several draws per text.
        batch : Batch
        head : Head
        reference : [B] or None
            Baseline cost of each text, for `self_critical`.
        """
        num_samples = len(output.z) // len(batch.mask)
        mask, target = repeated(batch.mask, num_samples), repeated(batch.target, num_samples)
        task = head.loss(output.prediction, target)  # [K B]
        parts = {"task": task.detach().mean()}
        if output.gates is None:
            return LossOutput(task.mean(), parts)
        self._refuse_biased(output)
        price = self._price(output, mask)  # [K B]
        if output.auxiliary is not None:
            apart = head.divergence(output.prediction, output.auxiliary)  # [K B]
            parts["divergence"] = apart.detach().mean()
            task = task + self.closeness * apart
        remedies = torch.zeros_like(task)  # [K B]; they depend on draws only where gates depend on earlier ones
        if output.auxiliary is not None:
            remedies = remedies + head.loss(output.auxiliary, target)
        if batch.guide is not None and self.training:
            guide = repeated(batch.guide, num_samples)
            missed = guidance_of_texts(output.gates.log_prob_nonzero, output.gates.log_prob_zero, guide)
            parts["guidance"] = missed.detach().mean()
            remedies = remedies + self.guidance * missed
        loss = (task + price).mean() + remedies.mean()
        for term in self._constraint_terms(output, mask, parts):
            loss = loss + term
        if self.training and not output.gates.has_rsample:
            # a closed-form price of independent gates needs no score function: its own gradient is complete
            cost = task + price if output.dependent or self._counts(output.gates) else task
            cost = cost + remedies if output.dependent else cost
            cost = cost.detach().view(num_samples, -1)  # [K, B]
            log_prob = torch.where(mask, output.gates.log_prob(output.z), 0.0).sum(1).view(num_samples, -1)
            loss = loss + score_function(cost, self._baseline(cost, reference), log_prob)
        return LossOutput(loss, parts)

    def _constraint_terms(self, output: Output, mask: Tensor, parts: dict[str, Tensor]) -> list[Tensor]:
        """The terms of the constraints that act, each []; what they hold, and in any case the rate, goes to `parts`."""
        counts, terms = self._counts(output.required_gates()), []
        for name, constraint, logs in (
            ("rate", self._acting(self.selection), self._rate),
            ("switches", self._acting(self.transitions), self._switches),
        ):
            if constraint is not None or name == "rate":
                log_value, log_rest = logs(output, mask)
                parts[name] = log_value.detach().exp()
            if constraint is not None and not counts:
                if constraint.per_text:
                    gates = output.required_gates()
                    logs_of_each = [log_means(log, mask) for log in (gates.log_prob_nonzero, gates.log_prob_zero)]
                    terms.append(constraint(*logs_of_each, mask.sum(1)))
                else:
                    if name == "switches":  # texts of one word have none, and are taken to be at the target
                        is_defined, target = mask[:, 1:].any(), constraint.target
                        log_value = torch.where(is_defined, log_value, math.log(target))
                        log_rest = torch.where(is_defined, log_rest, math.log1p(-target))
                    terms.append(constraint(log_value, log_rest))
        return terms

    def _acting(self, constraint: Constraint | None) -> Constraint | None:
        """The constraint with the target of this training step, or None in the first `held_after` training steps."""
        if constraint is None or self.steps < self.held_after:
            return None
        constraint.at_step(int(self.steps) - self.held_after)
        return constraint

    def _refuse_biased(self, output: Output) -> None:
        """The rate of dependent gates depends on draws; where these pass no gradient, that of the rate is biased."""
        held = self.selection is not None or self.transitions is not None
        gates = output.required_gates()
        if held and output.dependent and not gates.has_rsample and self.penalty == "expected":
            raise ValueError(
                "penalty: got 'expected', accepted is 'sampled' for a constraint on dependent gates whose draws pass "
                "no gradient: that of the expected rate would miss what earlier draws do to later gates"
            )

    def _counts(self, gates: GateDistribution) -> bool:
        """Whether prices and constraints count the draw instead of taking an expectation."""
        return self.penalty == "sampled" and not gates.has_rsample

    def _price(self, output: Output, mask: Tensor) -> Tensor:
        """The price of the selection of each row, less its reward for entropy: [K B].

        The words and switches are those that are expected, or those of the draw (`penalty`). Of a draw that is counted,
        the multipliers of the constraints are prices, too. The prices rise during the warm-up.
        """
        gates = output.required_gates()
        counts = self._counts(gates)
        if not (self.sparsity or self.coherence or self.entropy or counts):
            return output.z.new_zeros(len(mask))
        if counts:
            words, switches = count_selected(output.z), count_switches(output.z, mask)
        else:
            words, switches = self._expected_counts(output, mask)
        price = self.sparsity * words + self.coherence * switches
        if self.training and self.warmup:
            price = price * (numbers_like(price, self.steps + 1 - self.whole_texts) / self.warmup).clamp(max=1)
        if counts:
            for constraint, count in ((self.selection, words), (self.transitions, switches)):
                if (acting := self._acting(constraint)) is not None:
                    price = price + acting.multiplier.to(price) * count / mask.sum(1)
        if self.entropy:
            nats = openness_entropy(gates.log_prob_nonzero, gates.log_prob_zero)
            price = price - self.entropy * torch.where(mask, nats, 0.0).sum(1)
        return price

    @staticmethod
    def _expected_counts(output: Output, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The expected numbers of selected words and of switches of each row, [K B] each.

        Of gates that depend on earlier ones, a selector that looks ahead gives the probability of each switch
        (`log_switches`). Without it, and if draws pass no gradient, we take the probability that the next gate has,
        given the value of this one. In all other cases, neighbours count as independent.
        """
        gates = output.required_gates()
        shut, kept = gates.log_prob_zero.exp(), gates.prob_nonzero
        words = torch.where(mask, kept, 0.0).sum(1)
        if output.log_switches is not None:
            return words, torch.where(mask[:, 1:], output.log_switches.exp(), 0.0).sum(1)
        if output.dependent and not gates.has_rsample:
            switch = torch.where(output.z[:, :-1] != 0, shut[:, 1:], kept[:, 1:])
            return words, torch.where(mask[:, 1:], switch, 0.0).sum(1)
        return words, expected_transitions(shut, kept, mask) * mask.sum(1)

    def _baseline(self, cost: Tensor, reference: Tensor | None) -> Tensor | float:
        """The baseline of the costs [K, B]; the baseline of a draw never depends on this draw."""
        if self.baseline == "leave_one_out":
            return leave_one_out(cost)
        if self.baseline == "self_critical":
            assert reference is not None  # `forward` has computed it
            return reference
        if self.baseline == "none":
            return 0.0
        before, mean = self.average.to(cost, copy=True), cost.mean().double()  # 0 at the first step
        self.average.copy_(mean if self.steps == self.whole_texts else self.average.lerp(mean, 1 - self.AVERAGING))
        return before

    @torch.no_grad()
    def _self_critical(self, model: RationaleModel[Tokens], batch: Batch[Tokens]) -> Tensor:
        """Cost [B] of the selection and prediction that the model makes at test time."""
        with evaluating(model):
            output = model(batch.tokens, batch.mask)
        cost = model.head.loss(output.prediction, batch.target)
        counts = self._counts(output.required_gates()) or output.dependent
        return cost + self._price(output, batch.mask) if counts else cost

    @staticmethod
    def _rate(output: Output, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the share of selected tokens and of the rest."""
        gates = output.required_gates()
        return log_mean(gates.log_prob_nonzero, mask), log_mean(gates.log_prob_zero, mask)

    @staticmethod
    def _switches(output: Output, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of the switches per token, batch mean of eq. (S4), and of one minus this mean.

        Computed in log space, so the values and gradients stay finite if all gates are shut (or open).
        """
        switch = output.log_switches
        if switch is None:
            gates = output.required_gates()
            shut, kept = gates.log_prob_zero, gates.log_prob_nonzero
            switch = torch.logaddexp(shut[:, :-1] + kept[:, 1:], kept[:, :-1] + shut[:, 1:])  # [B, T - 1]
        log_value = log_mean(pad(switch, (1, 0), value=-math.inf), mask)  # no switch before the first token
        return log_value, (-log_value.exp()).log1p()

    @torch.no_grad()
    def _update(self, model: RationaleModel[Tokens], output: Output, batch: Batch[Tokens]) -> None:
        selection, transitions = self._acting(self.selection), self._acting(self.transitions)
        mask = repeated(batch.mask, len(output.z) // len(batch.mask))
        texts = len(mask)
        if transitions is not None:
            transitions.update(self._switches(output, mask)[0].exp() * texts, texts)
        if selection is None:
            return
        sizes, of_words = batch.mask.sum(1), self.measure == "selected"
        size: Tensor | float
        if self.measure == "training":
            size = texts
            amount = log_mean(output.required_gates().log_prob_nonzero, mask).exp() * size
        elif self.steps % self.every:
            return
        else:
            with evaluating(model):  # without dropout, as at test time
                gates = model.gates(batch.tokens, batch.mask, sample if self.measure == "expected" else None)
            assert gates is not None  # `output` had some
            if of_words:
                amount, size = (model.selects(gates, batch.mask) & batch.mask).sum(), sizes.sum()
            else:
                size = len(sizes)
                amount = log_mean(gates.log_prob_nonzero, batch.mask).exp() * size
        if selection.per_text:  # short texts may keep more than the target
            amount = amount - (selection.mean_target(sizes, of_words) - selection.target) * size
        selection.update(amount, size)


def build_objective(
    p: object, steps_per_epoch: int = 0, has_gates: bool = True, task_loss: float = 0.0, epochs: int = 0
) -> RationaleObjective:
    """The objective that the settings of a run describe.

    Parameters
    ----------
    p : settings
        `ConstraintSettings`, `TransitionSettings`, `PriceSettings`, `ScoreFunctionSettings`, `RemedySettings` and
        `GuidanceSettings` are taken from `p`; a setting that `p` does not have keeps its default.
    steps_per_epoch : int
        Training steps per epoch; `warmup`, `constraint_from` and `whole_text_epochs` count in epochs.
    has_gates : bool
        Whether the model has gates; False leaves only the task loss.
    task_loss : float
        Loss of the best constant answer; this and steps_per_epoch decide where quadratic or multiplier_rate is null.
    epochs : int
        Epochs of the training; a target moves in a share of those in which the constraint acts. A training that is
        continued with more epochs gives the number that it began with (`training.checkpoint.scheduled_epochs`).

    Raises
    ------
    ValueError
        If they are null and steps_per_epoch or task_loss is 0.
    """
    if not has_gates:
        return RationaleObjective()
    held, prices, estimator = ConstraintSettings.of(p), PriceSettings.of(p), ScoreFunctionSettings.of(p)
    remedies = RemedySettings.of(p)
    whole = remedies.whole_text_epochs or 0
    free = max(held.constraint_from - 1, whole)  # epochs before the constraints act

    def constraint(
        target: float | None, by_step: bool, first: float | None = None, per_text: bool = False
    ) -> Constraint | None:
        if target is None:
            return None
        largest = math.inf if held.multiplier_max is None else held.multiplier_max
        largest_gap = math.inf if held.gap_max is None else held.gap_max
        smallest = -math.inf if held.multiplier_min is None else held.multiplier_min
        step, quadratic = held.multiplier_rate, held.quadratic
        if step is None or quadratic is None:
            of_task = steps_of_task(target, task_loss, steps_per_epoch / (1 if by_step else held.measure_every))
            quadratic = of_task[0] if quadratic is None else quadratic
            step = of_task[1] if step is None else step
        return Constraint(
            target,
            held.dynamics,
            step=step,
            smoothing=held.smoothing,
            quadratic=quadratic,
            multiplier=held.multiplier_init,
            largest=largest,
            largest_gap=largest_gap,
            smallest=smallest,
            first=first,
            moves=0 if first is None else round(held.selection_moves * max(0, epochs - free) * steps_per_epoch),
            per_text=per_text,
        )

    return RationaleObjective(
        selection=constraint(held.selection, held.measure == "training", held.selection_start, held.per_text),
        transitions=constraint(TransitionSettings.of(p).transitions, by_step=True),
        measure=held.measure,
        every=held.measure_every,
        sparsity=prices.sparsity,
        coherence=prices.coherence,
        penalty=prices.penalty,
        samples=estimator.samples,
        baseline=estimator.baseline,
        warmup=round(prices.warmup * steps_per_epoch),
        entropy=prices.entropy,
        held_after=free * steps_per_epoch,
        closeness=remedies.closeness,
        guidance=GuidanceSettings.of(p).guidance,
        whole_texts=whole * steps_per_epoch,
    )
