"""Evaluate an extractor or an aligner on one split: task score, selection rates and precision."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rationale import metrics
from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.models.extractor import Extractor
from rationale.models.protocol import RationaleModel
from rationale.objectives.loss import RationaleObjective
from rationale.objectives.penalties import expected_selection


@dataclass
class Evaluation:
    """Metrics of one split and what they were computed from, in the order of its examples."""

    metrics: dict[str, float]
    prediction: Tensor  # [N, C]
    z: list[Tensor]  # [T_i] gate values at test time
    answer: Tensor  # [N] classes or [N, C] scores, for people and files


@torch.no_grad()
def evaluate_extractor(model: RationaleModel, batches: Batches, objective: RationaleObjective) -> Evaluation:
    """Task score, rates and (where there is gold) precision of a split. Changes nothing: no dual moves.

    Returns
    -------
    Evaluation
        `metrics` holds the head's score (accuracy, mse), task (mean task loss), loss (with the constraint
        terms), rate_expected (mean over texts of the expected share), rate_selected (share of words with
        z != 0), and precision, recall, f1 ... where examples carry a gold rationale.
    """
    model.eval()
    objective.eval()
    rows, flat, order, losses = [], [], [], []
    for batch in batches.in_order(max_batch=256):
        output = model(batch.tokens, batch.mask)
        score = model.head.score(output.prediction, batch.target)
        task = model.head.loss(output.prediction, batch.target)
        chosen = (output.z != 0).to(task.dtype) if output.gates is None else output.gates.log_prob_nonzero.exp()
        rate = expected_selection(chosen, batch.mask)
        rows.append(torch.stack([score, task, rate], 1))
        losses.append(objective.loss(output, batch, model.head).loss * len(task))
        flat.append((output.z[batch.mask], batch.mask.sum(1), output.prediction))
        order.append(batch.rows)
    place = torch.cat(order).argsort()
    score, task, rate = torch.cat(rows).double().mean(0).tolist()
    lengths = torch.cat([length for _, length, _ in flat])
    values = torch.cat([value for value, _, _ in flat])
    pieces = values.cpu().split(lengths.tolist())
    z = [pieces[i] for i in place.tolist()]
    figures = {model.head.metric: score, "task": task, "loss": (sum(losses) / len(place)).item()}
    figures |= {"rate_expected": rate} | rationale_figures(z, batches.examples)
    prediction = torch.cat([prediction for _, _, prediction in flat])[place].cpu()
    return Evaluation(figures, prediction, z, model.head.answer(prediction))


@torch.no_grad()
def importance_quantile(model: Extractor, batches: Batches, share: float) -> float:
    """The value that this share of all words reach or exceed in `Extractor.importance`."""
    found = [model.importance(b.tokens, b.mask)[b.mask] for b in batches.in_order(max_batch=256)]
    values = torch.cat(found).sort(descending=True).values
    return values[max(1, round(share * len(values))) - 1].item()


def rationale_figures(z: Sequence[Tensor], examples: Sequence[Example]) -> dict[str, float]:
    """rate_selected over all words; where there are gold rationales precision, recall, f1 ... of these gates.

    And blind_*, the precision of selections which never looked at the text (`metrics.blind_precision`), of the size of
    these in the texts that have gold.
    """
    rate = (torch.cat(list(z)) != 0).double().mean().item()
    pairs = [(g != 0, torch.tensor(e.rationale)) for g, e in zip(z, examples, strict=True) if e.rationale is not None]
    if not pairs:
        return {"rate_selected": rate}
    chosen, gold = zip(*pairs, strict=True)
    judged = [z for z, g in zip(chosen, gold, strict=True) if g.any()]  # precision counts these alone
    share = torch.cat(judged).double().mean().item() if judged else 0.0
    blind = metrics.blind_precision(gold, max(share, 1e-9))
    figures = {"rate_selected": rate} | metrics.rationale_scores(chosen, gold)
    return figures | {f"blind_{name}": value for name, value in blind.items()}
