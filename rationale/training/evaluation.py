"""Evaluate an extractor or an aligner on one split: task score, selection rates and precision."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from rationale import metrics
from rationale.data.batches import EVALUATION_BATCH, Batches
from rationale.data.example import Example
from rationale.models.extractor import Extractor
from rationale.models.protocol import RationaleModel
from rationale.nn.modes import evaluating
from rationale.nn.sampling import shut
from rationale.objectives.loss import RationaleObjective
from rationale.objectives.penalties import expected_selection
from rationale.statistics import wilson_interval

SIGMAS = 1.96  # standard errors from a score to the end of its 95 % interval


@dataclass
class Evaluation:
    """The metrics of one split and the values that they were computed from, in the order of its examples."""

    metrics: dict[str, float]
    prediction: Tensor  # [N, C]
    z: list[Tensor]  # [T_i] gate values at test time
    answer: Tensor  # [N] classes or [N, C] scores, as they are shown and saved
    standard_error: float = math.nan  # of the head's score, a mean over N texts; NaN for a single text
    chosen_error: float = math.nan  # of the score by which an epoch is chosen (`Head.chosen_by`); see `width_of`


@torch.no_grad()
def evaluate_extractor(model: RationaleModel, batches: Batches, objective: RationaleObjective) -> Evaluation:
    """Task score, rates and, where there are gold rationales, precision on a split. No multiplier is updated.

    Returns
    -------
    Evaluation
        `metrics` holds the head's score (accuracy or mse; balanced_accuracy, too, if classes have weights), task (the
        mean task loss), loss (with the terms of the constraints), rate_expected (the expected share of selected words,
        averaged over texts), rate_selected (the share of words with z != 0), and, where examples have a gold rationale,
        precision, recall, f1 ...
    """
    rows, flat, order, losses = [], [], [], []
    with evaluating(model), evaluating(objective):
        for batch in batches.in_order(max_batch=EVALUATION_BATCH):
            output = model(batch.tokens, batch.mask)
            score = model.head.score(output.prediction, batch.target)
            task = model.head.loss(output.prediction, batch.target)
            chosen = (output.z != 0).to(task.dtype) if output.gates is None else output.gates.prob_nonzero
            rate = expected_selection(chosen, batch.mask)
            rows.append(torch.stack([score, task, rate], 1))
            losses.append(objective.loss(output, batch, model.head).loss * len(task))
            flat.append((output.z[batch.mask], batch.mask.sum(1), output.prediction))
            order.append(batch.rows)
    place = torch.cat(order).argsort()
    measured = torch.cat(rows).double()  # [N, 3]
    score, task, rate = measured.mean(0).tolist()
    error = (measured[:, 0].std() / len(measured) ** 0.5).item() if len(measured) > 1 else math.nan
    lengths = torch.cat([length for _, length, _ in flat])
    values = torch.cat([value for value, _, _ in flat])
    pieces = values.cpu().split(lengths.tolist())
    z = [pieces[i] for i in place.tolist()]
    scores = {model.head.metric: score, "task": task, "loss": (sum(losses) / len(place)).item()}
    scores |= {"rate_expected": rate} | rationale_metrics(z, batches.examples)
    chosen_error, right, target = error, measured[place, 0].cpu(), batches.targets.cpu()
    if model.head.class_weights is not None:
        scores[model.head.chosen_by] = metrics.balanced_accuracy(right, target)
        chosen_error = width_of(right, target) / SIGMAS
    elif model.head.metric == "accuracy":
        chosen_error = width_of(right, torch.zeros(len(right))) / SIGMAS
    prediction = torch.cat([prediction for _, _, prediction in flat])[place].cpu()
    return Evaluation(scores, prediction, z, model.head.answer(prediction), error, chosen_error)


def width_of(right: Tensor, groups: Tensor) -> float:
    """The distance from an accuracy, the mean over groups of texts, to the end of its 95 % interval.

        sqrt(sum_c w_c^2) / C

    Of C groups, w_c is 1.96 standard errors of the accuracy of one. Where all its answers are right, or all are wrong,
    the standard error is 0 however few they are, and w_c is the width of Wilson's interval.

    Parameters
    ----------
    right : [N]
        1 where the answer is right, else 0.
    groups : [N]
        The classes, or the same number for all texts.
    """
    squares = []
    for group in groups.unique():
        part = right[groups == group]
        share = part.mean().item()
        low, high = wilson_interval(share, len(part))
        squares.append(SIGMAS**2 * part.var().item() / len(part) if 0 < share < 1 else (high - low) ** 2)
    return math.sqrt(sum(squares)) / len(squares)


@torch.no_grad()
def score_when_shut(model: RationaleModel, batches: Batches) -> dict[str, float]:
    """What the gates of a model add: its score on a split with all of them shut, such as `accuracy_shut`.

    It is empty if the model has no gates, or if it could predict nothing from shut gates (`predicts_when_shut`).
    """
    if not (model.has_gates and model.predicts_when_shut):
        return {}
    scores = []
    with evaluating(model):
        for batch in batches.in_order(max_batch=EVALUATION_BATCH):
            output = cast(Any, model)(batch.tokens, batch.mask, draw=shut)
            scores.append(model.head.score(output.prediction, batch.target))
    return {f"{model.head.metric}_shut": torch.cat(scores).double().mean().item()}


@torch.no_grad()
def importance_quantile(model: Extractor, batches: Batches, share: float) -> float:
    """The importance (`Extractor.importance`) that the given share of all words reaches or exceeds."""
    with evaluating(model):
        importance = [model.importance(b.tokens, b.mask)[b.mask] for b in batches.in_order(max_batch=EVALUATION_BATCH)]
    values = torch.cat(importance).sort(descending=True).values
    return values[max(1, round(share * len(values))) - 1].item()


def rationale_metrics(z: Sequence[Tensor], examples: Sequence[Example]) -> dict[str, float]:
    """rate_selected over all words and, where there are gold rationales, precision, recall, f1 ... of the gates.

    Where texts also have the second gold, `informative`, precision_informative, recall_informative and f1_informative
    compare the gates with it.

    The metrics blind_* are the precision of selections made without looking at the text (`metrics.blind_precision`);
    they select as many words as the gates do in the texts that have a gold rationale.
    """
    rate = (torch.cat(list(z)) != 0).double().mean().item()
    pairs = [(g != 0, torch.tensor(e.rationale)) for g, e in zip(z, examples, strict=True) if e.rationale is not None]
    if not pairs:
        return {"rate_selected": rate}
    chosen, gold = zip(*pairs, strict=True)
    scored = [z for z, g in zip(chosen, gold, strict=True) if g.any()]  # precision counts only these
    share = torch.cat(scored).double().mean().item() if scored else 0.0
    blind = metrics.blind_precision(gold, max(share, 1e-9))
    scores = {"rate_selected": rate} | metrics.rationale_scores(chosen, gold)
    informed = [(g != 0, torch.tensor(e.informative)) for g, e in zip(z, examples, strict=True) if e.informative]
    against = metrics.rationale_scores(*zip(*informed, strict=True)) if informed else {}
    scores |= {f"{name}_informative": value for name, value in against.items() if not name.endswith("_macro")}
    return scores | {f"blind_{name}": value for name, value in blind.items()}
