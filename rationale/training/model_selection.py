"""Model selection: which epoch's weights are kept."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from rationale.settings import Refusal, Settings, setting

AUTHORS_PATIENCE = 3  # epochs, on SST
LONG_ENOUGH = 6  # epochs of a run in which an early epoch means something
FAR = 0.25  # of the target: how far the share of selected words may be from it without a note
BY_LOSS = "model_choice=authors compares the dev loss, not the score"
EXPECTED, SELECTED = "dev_rate_expected", "dev_rate_selected"  # columns of the history


class ModelSelectionSettings(Settings):
    """Which epoch's model is kept."""

    # The rate (a column of the history) that has to be near the target; None: the one that the constraint measures
    kept_by: ClassVar[str | None] = None

    model_choice: Literal["within_tolerance", "authors"] = setting(
        "within_tolerance", "which epoch's model is kept: best score at the right rate, or lowest dev loss"
    )
    tolerance: float | None = setting(
        0.01, "largest distance between the rate of the kept model and its target; null = by target and dev", "[0, 1]"
    )
    patience: int = setting(0, "first epochs, whose models are kept only if there is no later epoch", "[0, inf)")

    def refused(self) -> Iterator[Refusal]:
        by_loss, other = self.model_choice == "authors", "model_choice=within_tolerance"
        yield self.idle(by_loss, "tolerance", "with model_choice authors", other)
        where = f"with model_choice authors, which passes over the first {AUTHORS_PATIENCE} epochs in any case"
        fewer = by_loss and self.patience < AUTHORS_PATIENCE
        yield self.idle(fewer, "patience", where, f"a number from {AUTHORS_PATIENCE}")


def adaptive_tolerance(target: float, texts: int) -> float:
    """The distance from the target within which rates count as equal: a tenth of the target, or more if dev is small.

        tolerance = target max(1/10, 1/sqrt(N))

    The share of words that are selected differs between texts. If its standard deviation is half of the target, the
    mean over N texts of dev has a standard error of target / (2 sqrt(N)), and nothing within two of them is a
    difference.

    Parameters
    ----------
    target : float, in (0, 1)
    texts : int >= 1
        N, the number of dev texts.

    Examples
    --------
    >>> round(adaptive_tolerance(0.2, 250), 4), round(adaptive_tolerance(0.2, 25), 4)
    (0.02, 0.04)
    """
    return target * max(0.1, texts**-0.5)


def is_far(selected: float, target: float) -> bool:
    """Whether the share of words that a model selects is so far from its target that a user should know."""
    return abs(selected - target) > FAR * target


@dataclass(frozen=True)
class ModelSelection:
    """The rule that decides which epoch of a run is kept.

        within_tolerance   after `patience` epochs, the epoch with the best task score among those whose rate lies
                           within `tolerance` of `target`; if there is none, the epoch whose rate is nearest, where
                           distances beyond the tolerance are rounded up to whole multiples of `resolution`, and
                           among equally near ones the best task score
        authors            after `patience` epochs, the epoch with the lowest dev loss, where lower means by more than a
                           relative 1e-4; the loss contains the Lagrangian terms with their current multipliers, so it
                           is not comparable between epochs

    Parameters
    ----------
    kind : "within_tolerance" or "authors"
    score, rate : str
        Columns of the history that hold the task score and the rate.
    higher_is_better : bool
    target : float or None
        None for a model without a target (one that reads the full text, or that pays prices).
    patience : int
        The number of first epochs (while prices rise, for example), which are kept only if there is no later epoch.
    resolution : float >= 0, or None
        Two rates outside the tolerance whose distances differ by less may count as equally near. 0: only the same
        distance does. None: the tolerance.
    """

    kind: str
    score: str
    higher_is_better: bool
    rate: str = ""
    target: float | None = None
    tolerance: float = 0.015
    patience: int = 0
    resolution: float | None = None

    def better(self, new: dict, best: dict | None) -> bool:
        """Whether the epoch `new` replaces `best`. Both are rows of the history; `best` is None at first."""
        if self.kind == "authors":
            if new["epoch"] <= self.patience:
                return best is None
            if best is None or best["epoch"] <= self.patience:
                return True
            return new["dev_loss"] < best["dev_loss"] - 1e-4 * abs(best["dev_loss"])
        return best is None or self._order(new) < self._order(best)

    def has_converged(self, history: list[dict], best: dict | None, epochs: int) -> bool:
        """Whether the epoch `best` is admissible and dev has said enough since, for at least so many epochs.

        Enough means that no epoch since has replaced `best`, and that none has had the best score at any rate. As long
        as the score improves, even at a rate that is not the right one, the model still learns, and the rate may come
        back.

        Parameters
        ----------
        history : rows of all epochs so far
        best : the row of the epoch that would be kept; None before the first epoch
        epochs : int >= 0
            0: never.
        """
        if not epochs or best is None or not self._is_admissible(best):
            return False
        last = best["epoch"]
        if self.kind != "authors":
            last = max(last, min(history[self.patience :], key=self._loss)["epoch"])
        return len(history) - last >= epochs

    def describe_end(self, history: list[dict], best: dict, epochs: int) -> str:
        """One line on whether training has converged; the parameters are those of `has_converged`.

        If the epoch `best` may be kept, but another one has a better score, the line also says why that is passed over.
        """
        since, passed_over = len(history) - best["epoch"], self._passed_over(history, best)
        if self.has_converged(history, best, epochs):
            ended = f"not {'replaced' if passed_over else 'better'} in {since} more epochs{passed_over}"
            return f"converged at epoch {best['epoch']}: {self._score_of(best)}, {ended}"
        if self._is_admissible(best):
            kept = f"at the last epoch, {len(history)}: {self._score_of(best)} is kept"
            advice = f"a larger number of epochs may help{passed_over}"
            if not since and len(history) > 1 and self._loss(best) >= self._loss(history[-2]):
                return f"not known to have converged {kept} for its rate; {advice}"
            if not since:
                return f"still improving {kept}; {advice}"
            more = f"{since} more epoch{'s have' if since > 1 else ' has'} not changed"
            return f"not known to have converged {kept}, which {more}; {advice}"
        if self._outside(best):
            reason = (
                f"the {_words(self.rate)} of no epoch is within {self.tolerance:.4g} of the target {self.target:.4g}"
            )
        else:
            reason = f"there is no epoch after the first {self.patience}, which are not chosen"
        return f"not converged at the last epoch, {len(history)}: {reason}; try more epochs"

    def _passed_over(self, history: list[dict], kept: dict) -> str:
        """What is said of the epoch with the best score, if it is another one than that which is kept, else ""."""
        best = min(history, key=self._loss)
        if not self._loss(best) < self._loss(kept):
            return ""
        if best["epoch"] <= self.patience:
            cause = f"the first {self.patience} epochs are not chosen"
        elif self.kind == "authors":
            cause = BY_LOSS
        else:
            rate = f"its {_words(self.rate)} is {best.get(self.rate, 1):.4g}"
            cause = f"{rate}, the target {self.target:g} ± {self.tolerance:.4g}"
        return f"; {self._score_of(best)} is passed over: {cause}"

    def _is_admissible(self, row: dict | None) -> bool:
        """Whether an epoch may be kept for its score: it is not an early one, and its rate is the right one."""
        if row is None or row["epoch"] <= self.patience:
            return False
        return self.kind == "authors" or not self._outside(row)

    def _order(self, row: dict) -> tuple[bool, float, float]:
        early = row["epoch"] <= self.patience
        return early, self._outside(row), self._loss(row)

    def _outside(self, row: dict) -> float:
        """How far the rate of an epoch is outside the tolerance around the target; 0 within it or without a target.

        A difference in rate that is smaller than the resolution is no reason to prefer a worse score, so the distance
        is rounded up to a multiple of it.
        """
        outside = max(0.0, self._distance(row) - self.tolerance)
        step = self.tolerance if self.resolution is None else self.resolution
        return math.ceil(round(outside / step, 9)) * step if step else outside

    def _distance(self, row: dict) -> float:
        """The distance of an epoch's rate from the target; 0 without a target."""
        return 0.0 if self.target is None else abs(row[self.rate] - self.target)

    def _loss(self, row: dict) -> float:
        """The task score of an epoch, turned so that lower is better."""
        return -row[self.score] if self.higher_is_better else row[self.score]

    def notes(self, history: list[dict], kept: dict, standard_error: float) -> list[str]:
        """What a user should know about the epoch that was kept: at most one line per reason, usually none.

            early     the epoch is in the first third of a run of at least `LONG_ENOUGH` epochs, its rate is within the
                      tolerance, and its gates select some words but not all
            outside   its rate is not within the tolerance of the target
            far       its expected rate is, but the share of words that it selects is far from the target
            worse     another epoch has a better score, by more than a standard error

        Parameters
        ----------
        history : rows of all epochs
        kept : the row of the epoch that was kept
        standard_error : float, >= 0 or NaN
            Of the kept epoch's score on dev; NaN if it is not known (a mean squared error of a single text), then no
            scores are compared.
        """
        reasons = {
            "which is early": self._why_early(history, kept, standard_error),
            "outside the tolerance": self._why_outside(history, kept),
            "which selects another share of the words than its target": self._why_far(kept),
            "which is not the best": self._why_worse(history, kept, standard_error),
        }
        return [f"epoch {kept['epoch']} is kept, {what}: {why}" for what, why in reasons.items() if why]

    def _why_early(self, history: list[dict], kept: dict, standard_error: float) -> str:
        if len(history) < LONG_ENOUGH or 3 * kept["epoch"] > len(history) or math.isnan(standard_error):
            return ""
        # What is wrong with such gates has its own note, which may ask for more epochs.
        has_collapsed = kept.get(SELECTED) == 0 or (self.target is not None and kept.get(SELECTED) == 1)
        if self._outside(kept) or has_collapsed:
            return ""
        late = min(history[-(len(history) // 3) :], key=self._order)
        text = f"{self._score_of(kept)} of {len(history)} epochs; in the last third at best {self._score_of(late)}"
        within = f"a standard error ({standard_error:.2g})"
        if self._outside(late) > self._outside(kept):
            rate = f"the {_words(self.rate)} {late[self.rate]:.4g} is farther from the target"
            return f"{text}, where {rate}; a larger tolerance may keep a later epoch"
        if self._loss(late) - self._loss(kept) > standard_error:
            return f"{text}, worse by more than {within}: the model may overfit; try fewer epochs or more dropout"
        text = f"{text}, as good within {within}"
        before, then = kept.get("dev_task", 0.0), late.get("dev_task", math.inf)
        if then < before:  # such as many epochs in which every answer on dev is right, more and more surely
            falls = f"the dev loss falls from {before:.2g} to {then:.2g}"
            return f"{text}, but {falls}: a later epoch may be better, and patience={kept['epoch']} keeps one"
        return f"{text}: the choice between them is chance; fewer epochs would do"

    def _why_outside(self, history: list[dict], kept: dict) -> str:
        if not self._outside(kept):
            return ""
        advice = "more epochs, a larger multiplier_rate or a larger tolerance may help"
        closest = min(history[self.patience :] or history, key=self._distance)
        if any(self._outside(row) < self._outside(kept) for row in history):
            cause = f"only among the first {self.patience} epochs, which are not chosen, one came nearer"
            if self.kind == "authors":
                cause = "another epoch came nearer, but model_choice=authors does not look at the rate"
        elif self._distance(closest) < self._distance(kept):
            came = f"epoch {closest['epoch']} came nearer, to {closest[self.rate]:.4g}"
            cause = f"{came}, but by too little to outweigh its worse score; {advice}"
        else:
            cause = f"no epoch came nearer, so {advice}"
        there, wanted = f"{_words(self.rate)} is {kept[self.rate]:.4g}", f"{self.target:g} ± {self.tolerance:.4g}"
        return f"the {there}, the target {wanted}; {cause}"

    def _why_far(self, kept: dict) -> str:
        if self.target is None or self.rate != EXPECTED or self._outside(kept) or SELECTED not in kept:
            return ""
        if not is_far(kept[SELECTED], self.target):
            return ""
        rates = f"the {_words(SELECTED)} is {kept[SELECTED]:.4g}, the {_words(EXPECTED)} {kept[EXPECTED]:.4g}"
        return f"{rates}, the target {self.target:g}; many gates are undecided, and measure=selected counts open gates"

    def _why_worse(self, history: list[dict], kept: dict, standard_error: float) -> str:
        best = min(history, key=self._loss)
        if not self._loss(kept) - self._loss(best) > standard_error:
            return ""
        rate = f"there the {_words(self.rate)} {best.get(self.rate, 1):.4g} is farther from the target"
        cause = f"{rate}; a larger selection or tolerance may keep it"
        if best["epoch"] <= self.patience:
            cause = f"the first {self.patience} epochs are not chosen"
        elif self.kind == "authors":
            cause = BY_LOSS
        scores = f"{self._score_of(kept)}, {self._score_of(best)}"
        return f"{scores}, more than a standard error ({standard_error:.2g}) better; {cause}"

    def _score_of(self, row: dict) -> str:
        return f"{_words(self.score)} {row[self.score]:.4g} (epoch {row['epoch']})"


def _words(column: str) -> str:
    """The name of a column of the history in words: `dev_accuracy` is "dev accuracy"."""
    return column.replace("_", " ")
