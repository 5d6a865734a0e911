"""The constraint on a selection: a multiplier that changes until the rate equals its target."""

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from torch import Tensor

from rationale.objectives.buffers import BufferKeeper
from rationale.objectives.schedule import moved
from rationale.settings import Refusal, Settings, setting

DYNAMICS = ("signed", "authors")
ROUNDING = 0.01  # by which a measured rate may be outside [0, 1], in half precision


class ConstraintSettings(Settings):
    """The constraint on the rate of selection.

    Attributes
    ----------
    only_held : tuple of str
        The settings that are refused where no rate has a target. The others are not: a file of a corpus, or of a study,
        gives measure, multiplier_rate, quadratic or gap_max to all models, with a target and without one.
    """

    only_held: ClassVar[tuple[str, ...]] = (
        "dynamics",
        "multiplier_init",
        "multiplier_max",
        "multiplier_min",
        "smoothing",
        "constraint_from",
    )

    selection: float | None = setting(None, "share of words to keep; null = no constraint", "(0, 1)")
    dynamics: Literal["signed", "authors"] = setting("signed", "how the multiplier moves")
    measure: Literal["training", "expected", "selected"] = setting(
        "expected", "rate compared with the target; training = expected, with dropout"
    )
    measure_every: int = setting(2, "training steps between two measurements of the rate", "[1, inf)")
    multiplier_init: float = setting(0.0, "multiplier at the start", "[0, inf)")
    multiplier_rate: float | None = setting(0.2, "step of the multiplier; null = see quadratic", "(0, inf)")
    multiplier_max: float | None = setting(None, "largest multiplier; null = no limit", "(0, inf)")
    multiplier_min: float | None = setting(
        None, "smallest multiplier; 0 = never pay for selecting more; null = no limit", "(-inf, inf)"
    )
    quadratic: float | None = setting(
        50.0, "weight of the squared violation; null = from the task's loss and the steps per epoch", "[0, inf)"
    )
    gap_max: float | None = setting(
        None, "largest gap that moves the multiplier, against its winding up; null = no limit", "(0, 1)"
    )
    smoothing: float = setting(0.8, "share of the old value in the gap's moving average", "[0, 1)")
    constraint_from: int = setting(1, "first epoch in which the constraint acts and its multiplier moves", "[1, inf)")
    selection_start: float | None = setting(
        None, "share of words to keep at first, from which the target moves to selection; null = selection", "(0, 1)"
    )
    selection_moves: float = setting(
        0.0, "share of the constraint's epochs in which the target moves from selection_start to selection", "[0, 1)"
    )

    per_text: bool = setting(
        False, "whether the rate of each text is held, at one word or more, and not only the mean over texts"
    )

    @property
    def first_target(self) -> float | None:
        """The share of words to keep in the first training step."""
        return self.selection if self.selection_start is None else self.selection_start

    def refused(self) -> Iterator[Refusal]:
        start, share, moves = "selection_start", "selection_moves", self.selection_start is not None
        accepted = "null, or a number for selection"
        yield Refusal(moves and self.selection is None, start, "without a target", accepted, meaningless=True)
        accepted, alone = "0, or a number for selection_start", self.selection_moves > 0 and not moves
        yield Refusal(alone, share, "without selection_start", accepted, meaningless=True)
        yield Refusal(moves and not self.selection_moves, share, "with selection_start", "a number above 0, below 1")
        yield Refusal(
            self.dynamics == "authors" and self.multiplier_init == 0,
            "multiplier_init",
            "with dynamics authors, which multiplies it",
            "a number in (0, inf), 0.0001 in the authors' code for SST",
        )
        yield Refusal(
            self.dynamics == "authors" and self.gap_max is not None, "gap_max", "with dynamics authors", "null"
        )
        yield self.idle(self.dynamics == "authors", "quadratic", "with dynamics authors", "dynamics=signed")
        rarely = self.measure == "training" and self.measure_every > 1 and self.is_changed("measure_every")
        where = "with measure training, which measures in every step"
        yield Refusal(rarely, "measure_every", where, "1, or measure=expected", meaningless=True)
        each, accepted = self.per_text and self.selection is None, "false, or a number for selection"
        yield Refusal(each, "per_text", "without a target", accepted, meaningless=True)
        wrong, accepted = self.per_text and self.dynamics == "authors", "false, or dynamics=signed"
        yield Refusal(wrong, "per_text", "with dynamics authors", accepted)
        least, most = self.multiplier_min, self.multiplier_max
        crossed = least is not None and most is not None and least > most
        yield Refusal(crossed, "multiplier_min", f"with multiplier_max {most}", "null, or a number up to it")
        for name, beyond in (
            ("multiplier_min", least is not None and self.multiplier_init < least),
            ("multiplier_max", most is not None and self.multiplier_init > most),
        ):
            accepted = "a number between multiplier_min and multiplier_max"
            yield Refusal(beyond and not crossed, "multiplier_init", f"with {name} {getattr(self, name)}", accepted)
        follows = self.dynamics == "authors" and self.multiplier_rate is None
        yield Refusal(follows, "multiplier_rate", "with dynamics authors", "a number in (0, inf)")


class TransitionSettings(Settings):
    """The constraint on the switches between kept and dropped words."""

    transitions: float | None = setting(None, "switches between kept and not, per word; null = no constraint", "(0, 1)")


class Constraint(BufferKeeper):
    """Hold a rate at its target with a Lagrange multiplier that is updated while the model is trained.

    `signed` (default) is an augmented Lagrangian with the violation in log-odds:

        c          = target (1 - target) (logit value - logit target)      about value - target near the target
        gap        = (moving sum of measured amounts) / (moving sum of sizes) - target
        multiplier = multiplier + step gap                                 either sign
        term       = multiplier c + quadratic / 2 c^2

    The multiplier integrates the measured gap, and the quadratic term damps its oscillation. The term also raises a
    rate that is too low, and because d logit(value) does not vanish when all gates are shut (or open), the model
    recovers from an overshoot, as long as the gates have a gradient. The gates of `HardKumaGate` have nearly none where
    the output for b is far below 0: b is at its lower bound 1e-3 there, and P(Z = 0) is at most 0.006 for every a (with
    the default support). Such gates stay open, and the multiplier winds up, unless `largest` limits it, which by
    default it does not.

    `authors` is the multiplicative rule of the authors' code (GECO):

        gap        = smoothing gap + (1 - smoothing) (amount / size - target)      starts at 0
        multiplier = multiplier exp(step gap)                                      positive
        term       = multiplier gap, with the gradient of multiplier (value - target)

    This rule can only lower a rate. Once all gates are shut, they receive no gradient of the task and the rationale
    stays empty: see eq. (S12), notebooks/06_hold_a_rate.py.

    While the model moves slowly, the multiplier winds up, because a gap above a small target may be up to 1 - target,
    and it unwinds slowly, because a gap below the target is at most target: the rate overshoots. `largest_gap` limits
    the step in both directions; with largest_gap = target they are equally fast. A run whose gap stays below the limit
    is not changed by it.

    The target may move at first: it starts at `first` and is `target` after `moves` training steps. In between, its
    logarithm changes by equal amounts, eq. (S18):

        target_k = target (first / target)^(1 - k / moves)

    A predictor that has to learn from a few words, which are chosen at random at first, may learn to use any words.
    With a target that falls, it has read most words before, and the words that it needs least are dropped first.

    With `per_text`, c is computed for each text, and the term is its mean over texts, eq. (S19). So no text may select
    far more or far fewer words than the others, and their number tells less about the answer. A text of T words may
    keep one of them: its target is max(target, min(1/T, 1/2)). The multiplier follows the gap between the mean rate and
    the mean of these targets, so the rate is above `target` if many texts are short.

    In both rules, the multiplier and the averages are buffers (saved, but not parameters of the optimiser), and
    `update` changes them in training mode only. Call `update` before `forward`, as the authors do.

    Source: eqs. (S6), (S8)-(S11), notebooks/06_hold_a_rate.py; eqs. (S18)-(S19), notebooks/07_decide_and_depend.py;
    Bastings et al. 2019, sec. 4; Rezende and Viola 2018.

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
        Initial value of the multiplier; must be positive for `authors`.
    largest : float, > 0
        Upper limit of the multiplier (the authors: 5 on beer, none on SST).
    largest_gap : float, > 0
        Limit of the gap, in magnitude, by which the multiplier is updated; `signed` only.
    smallest : float, at most `largest`
        Lower limit of the multiplier. With 0, the linear part of the `signed` term never rewards a higher rate; the
        quadratic part still does. The multiplier of `authors` is positive without a limit (the authors: 1e-12 on beer).
    first : float, in (0, 1), or None
        Target of the first training step; None: `target`.
    moves : int, >= 0
        Training steps until the target is `target`.
    per_text : bool
        Whether the rate of each text is held; `signed` only.

    Raises
    ------
    ValueError
        If an argument is outside its range, or if `update` on a CPU is given a measurement that is no rate.

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

    multiplier: Tensor  # buffers, all []
    gap: Tensor
    amount: Tensor
    size: Tensor

    def __init__(
        self,
        target: float,
        dynamics: str = "signed",
        step: float = 0.2,
        smoothing: float = 0.8,
        quadratic: float = 50.0,
        multiplier: float = 0.0,
        largest: float = math.inf,
        largest_gap: float = math.inf,
        smallest: float = -math.inf,
        first: float | None = None,
        moves: int = 0,
        per_text: bool = False,
    ):
        super().__init__()
        if dynamics not in DYNAMICS:
            raise ValueError(f"dynamics: got {dynamics!r}, accepted are {', '.join(DYNAMICS)}")
        for name, rate in (("target", target), ("first", target if first is None else first)):
            if not 0 < rate < 1:
                raise ValueError(f"{name}: got {rate}, accepted are rates in (0, 1)")
        for name, value, is_accepted, accepted in (
            ("step", step, 0 < step < math.inf, "> 0"),
            ("smoothing", smoothing, 0 <= smoothing < 1, "[0, 1)"),
            ("quadratic", quadratic, 0 <= quadratic < math.inf, ">= 0"),
            ("moves", moves, isinstance(moves, int) and moves >= 0, "are integers from 0"),
            ("largest_gap", largest_gap, largest_gap > 0, "> 0"),
            ("largest", largest, largest > 0, "> 0"),
            ("smallest", smallest, smallest <= largest, f"are numbers up to largest, {largest}"),
            ("multiplier", multiplier, math.isfinite(multiplier), "are finite numbers"),
            ("multiplier", multiplier, smallest <= multiplier <= largest, f"is a start from {smallest} to {largest}"),
        ):
            if not is_accepted:
                raise ValueError(f"{name}: got {value}, accepted {accepted}")
        if dynamics == "authors" and not multiplier > 0:
            raise ValueError(f"multiplier: got {multiplier}, accepted is a start > 0 for dynamics 'authors'")
        if per_text and dynamics == "authors":
            raise ValueError("per_text: got True, accepted is False for dynamics 'authors'")
        self.per_text = per_text
        self.final, self.first, self.moves = target, target if first is None else first, moves
        self.dynamics, self.step = dynamics, step
        self.at_step(0)
        self.smoothing, self.quadratic, self.largest_gap = smoothing, quadratic, largest_gap
        self.smallest, self.largest = smallest, largest
        for name, start in (("multiplier", multiplier), ("gap", 0.0), ("amount", 0.0), ("size", 0.0)):
            self.register_buffer(name, torch.tensor(float(start), dtype=torch.float64))

    def at_step(self, taken: int) -> None:
        """Set the target, eq. (S18), after so many training steps."""
        self.target = moved(self.first, self.final, taken, self.moves)

    def targets(self, sizes: Tensor, final: bool = False) -> Tensor:
        """The target of each text, float64 [B]: that of this training step, or the final one; see `per_text`.

        Parameters
        ----------
        sizes : int [B]
            Numbers of words.
        """
        target = self.final if final else self.target
        least = 1 / sizes.double() if self.per_text else torch.zeros_like(sizes, dtype=torch.float64)
        return least.clamp(target, max(target, 0.5))

    def mean_target(self, sizes: Tensor, of_words: bool, final: bool = False) -> Tensor:
        """The rate of texts that are all at their `targets`, []: the mean over texts, or the share of all words."""
        targets = self.targets(sizes, final)
        return (targets * sizes).sum() / sizes.sum() if of_words else targets.mean()

    @torch.no_grad()
    def update(self, amount: Tensor | float, size: Tensor | float) -> None:
        """Add one measurement and update the multiplier; does nothing in evaluation mode.

        A measurement that is not a finite number is refused, and so is one that is no rate in [0, 1]. On a GPU, where
        asking would make every step wait, a number that is not finite counts as equal to the average of those before
        it, and the range is not checked.

        Parameters
        ----------
        amount, size : [], size > 0
            The measured quantities, e.g. the numbers of selected words and of all words; amount / size is the rate. A
            rate that is a mean already has the size 1. `signed` compares the ratio of their moving sums with the
            target, which is unbiased from the first step and weights a batch by its size.
        """
        if not self.training:
            return
        amount = amount if isinstance(amount, Tensor) else self.gap.new_full((), amount)
        rate = amount.double() / size
        if rate.device.type != "cpu":  # a GPU would have to wait for the answer, at every step
            rate = torch.where(rate.isfinite(), rate, self.gap + self.target)
            amount = rate * size
        elif not rate.isfinite():
            raise ValueError(
                f"the measured rate is {rate.item()} ({float(amount)} of {float(size)}), accepted is a finite number; "
                "the multiplier has not been changed"
            )
        elif not (self.per_text or rate >= -ROUNDING) or rate > 1 + ROUNDING:  # short texts lower the amount, see loss
            raise ValueError(
                f"amount {float(amount):g} of size {float(size):g} is no rate in [0, 1]; give counts, or a rate with "
                "size=1; the multiplier has not been changed"
            )
        if self.dynamics == "authors":
            self.gap.lerp_(rate - self.target, 1 - self.smoothing)
            self.multiplier.mul_(torch.exp(self.step * self.gap)).clamp_(self.smallest, self.largest)
            return
        self.amount.lerp_(amount.double(), 1 - self.smoothing)
        self.size.lerp_(
            size.to(self.size) if isinstance(size, Tensor) else self.size.new_full((), size), 1 - self.smoothing
        )
        self.gap.copy_(self.amount / self.size - self.target)
        gap = self.gap.clamp(-self.largest_gap, self.largest_gap)
        self.multiplier.add_(self.step * gap).clamp_(self.smallest, self.largest)

    def forward(self, log_value: Tensor | float, log_rest: Tensor | float, sizes: Tensor | None = None) -> Tensor:
        """The term to add to the loss, [].

        Parameters
        ----------
        log_value, log_rest : [], or [B] with `per_text`
            Logarithms of the differentiable rate of this batch (or of each text) and of one minus this rate, each
            computed in log space.
        sizes : int [B] or None
            With `per_text`, the number of words of each text.
        """
        log_value, log_rest = (
            value if isinstance(value, Tensor) else torch.tensor(value, device=self.gap.device)
            for value in (log_value, log_rest)
        )
        multiplier, gap = self.multiplier.to(log_value.dtype), self.gap.to(log_value.dtype)
        if self.dynamics == "authors":
            value = log_value.exp()
            return multiplier * (value - value.detach() + gap)
        if self.per_text:
            if sizes is None:
                raise ValueError("sizes: got None, accepted with per_text is the number of words of each text")
            targets = self.targets(sizes)
            slope, odds = (targets * (1 - targets)).to(log_value.dtype), targets.logit().to(log_value.dtype)
            violation = slope * (log_value - log_rest - odds)
        else:
            odds_of_target = math.log(self.target) - math.log1p(-self.target)
            violation = self.target * (1 - self.target) * (log_value - log_rest - odds_of_target)
        return (multiplier * violation + self.quadratic / 2 * violation.square()).mean()


def steps_of_task(target: float, task_loss: float, updates_per_epoch: float) -> tuple[float, float]:
    """The weights of a `signed` constraint that fit any task: (quadratic, step).

        quadratic = l0 / m^2,   step = quadratic / U,   m = min(target, 1 - target)

    l0 is the loss of the best constant answer, which is what a rationale can save at most, and U is the number of
    updates of the multiplier per epoch. A rate that is off by m (nothing is selected, or twice the target) then costs
    half of l0 at once. If it stays there for an epoch, the multiplier rises to l0 / m, the mean value of a word's share
    if the words of the target save everything. A constraint with fixed weights is too weak for a task with a larger
    loss, and it swings on a corpus with more steps per epoch.

    Parameters
    ----------
    target : float, in (0, 1)
    task_loss : float, > 0
        l0: the entropy of the labels in nats (classes), or their variance (scores).
    updates_per_epoch : float, > 0

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> quadratic, step = steps_of_task(target=0.2, task_loss=0.7, updates_per_epoch=50)
    >>> round(quadratic, 3), round(step, 3)
    (17.5, 0.35)
    """
    if not 0 < target < 1 or not task_loss > 0 or not updates_per_epoch > 0:
        raise ValueError(
            f"target: got {target}, accepted (0, 1); task_loss: got {task_loss}, accepted > 0; "
            f"updates_per_epoch: got {updates_per_epoch}, accepted > 0"
        )
    quadratic = task_loss / min(target, 1 - target) ** 2
    return quadratic, quadratic / updates_per_epoch


def steps_to_multiplier(start: float, step: float, gap: float, end: float = 1.0) -> float:
    """Training steps until the authors' multiplier reaches `end` under a constant gap.

        n = ln(end / start) / (step gap)

    Source: eq. (S10), notebooks/06_hold_a_rate.py.

    Examples
    --------
    >>> round(steps_to_multiplier(start=1e-4, step=0.01, gap=0.3))
    3070
    """
    return math.log(end / start) / (step * gap)
