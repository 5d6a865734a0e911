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
    tolerance: float = setting(0.01, "how far from its target the rate of a chosen model may be", "[0, 1]")
    patience: int = setting(0, "first epochs, of which no model is kept if there is a later one", "[0, inf)")


@dataclass(frozen=True)
class ModelSelection:
    """Which evaluation of a run is kept.

        within_tolerance   after `patience` epochs, the best task score among evaluations whose rate lies within
                           `tolerance` of `target`; while there is none, the one whose rate is nearest
        authors            the lowest dev loss by more than a relative 1e-4, after `patience` epochs; Lagrangian terms
                           count with their current multipliers (such losses do not compare between epochs)

    Parameters
    ----------
    kind : "within_tolerance" or "authors"
    score, rate : str
        Columns of the history that hold the task score and the rate.
    higher_is_better : bool
    target : float or None
        None for a model without a target (full text, prices).
    patience : int
        Epochs that are kept only as long as there is nothing later (while prices rise, for example).
    """

    kind: str
    score: str
    higher_is_better: bool
    rate: str = ""
    target: float | None = None
    tolerance: float = 0.015
    patience: int = 0

    def better(self, new: dict, best: dict | None) -> bool:
        """Whether the evaluation `new` replaces `best` (history rows; None before the first)."""
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
