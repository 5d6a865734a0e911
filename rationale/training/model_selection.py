"""Model selection: which epoch's weights are kept."""

from dataclasses import dataclass
from typing import Literal

from rationale.settings import Settings, setting

AUTHORS_PATIENCE = 3  # epochs, on SST


class ModelSelectionSettings(Settings):
    """Which epoch's model is kept."""

    model_choice: Literal["within_tolerance", "authors"] = setting(
        "within_tolerance", "which epoch's model is kept: best score at the right rate, or lowest dev loss"
    )
    tolerance: float = setting(0.01, "largest distance between the rate of the kept model and its target", "[0, 1]")
    patience: int = setting(0, "first epochs, whose models are kept only if there is no later epoch", "[0, inf)")


@dataclass(frozen=True)
class ModelSelection:
    """The rule that decides which epoch of a run is kept.

        within_tolerance   after `patience` epochs, the epoch with the best task score among those whose rate lies
                           within `tolerance` of `target`; if there is none, the epoch whose rate is nearest
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
    """

    kind: str
    score: str
    higher_is_better: bool
    rate: str = ""
    target: float | None = None
    tolerance: float = 0.015
    patience: int = 0

    def better(self, new: dict, best: dict | None) -> bool:
        """Whether the epoch `new` replaces `best`. Both are rows of the history; `best` is None at first."""
        if self.kind == "authors":
            if new["epoch"] <= self.patience:
                return best is None
            if best is None or best["epoch"] <= self.patience:
                return True
            return new["dev_loss"] < best["dev_loss"] - 1e-4 * abs(best["dev_loss"])
        return best is None or self._order(new) < self._order(best)

    def _order(self, row: dict) -> tuple[bool, float, float]:
        early = row["epoch"] <= self.patience
        outside = 0.0 if self.target is None else max(0.0, abs(row[self.rate] - self.target) - self.tolerance)
        return early, outside, -row[self.score] if self.higher_is_better else row[self.score]
