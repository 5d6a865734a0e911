"""Objectives: penalties on a selection, the constraint, the score function, and the whole loss."""

from rationale.objectives.constraint import DYNAMICS, Constraint, steps_of_task, steps_to_multiplier
from rationale.objectives.loss import MEASURES, PENALTIES, LossOutput, RationaleObjective, build_objective
from rationale.objectives.penalties import (
    count_selected,
    count_switches,
    expected_selection,
    expected_transitions,
    guidance,
    log_mean,
    log_means,
    masked_mean,
    openness_entropy,
)
from rationale.objectives.score_function import BASELINES, leave_one_out, score_function
from rationale.objectives.words import MovingGamma, WordLoss

__all__ = [
    "BASELINES",
    "DYNAMICS",
    "MEASURES",
    "PENALTIES",
    "Constraint",
    "LossOutput",
    "MovingGamma",
    "RationaleObjective",
    "WordLoss",
    "build_objective",
    "count_selected",
    "count_switches",
    "expected_selection",
    "expected_transitions",
    "guidance",
    "leave_one_out",
    "log_mean",
    "log_means",
    "masked_mean",
    "openness_entropy",
    "score_function",
    "steps_of_task",
    "steps_to_multiplier",
]
