"""Train and evaluate a rationale extractor."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from rationale.data.batches import Batches, Vocabulary
from rationale.data.example import Example
from rationale.data.vectors import build_vocabulary
from rationale.models.extractor import build_extractor
from rationale.models.protocol import RationaleModel
from rationale.objectives.loss import PriceSettings, build_objective
from rationale.training.evaluation import Evaluation, evaluate_extractor, importance_quantile
from rationale.training.loop import choose_device, fit
from rationale.training.model_selection import AUTHORS_PATIENCE, ModelSelection

if TYPE_CHECKING:
    from rationale.training.settings.alignment import AlignmentSettings
    from rationale.training.settings.extraction import ExtractionSettings


@dataclass
class Result:
    """A finished run in memory."""

    model: RationaleModel[Any] | None  # this and the vocabulary are None for a baseline that is not a network
    vocabulary: Vocabulary | None
    splits: dict[str, list[Example]]
    evaluations: dict[str, Evaluation]  # by split: dev, test
    history: list[dict]
    best: dict  # row of the history of the epoch that was kept


def train_extractor(
    p: "ExtractionSettings", splits: dict[str, list[Example]], head: str, num_outputs: int, folder: Path
) -> Result:
    """Train an extractor on examples and evaluate it. The test split is used once, at the end.

    Parameters
    ----------
    p : parameters
        The validated parameters of the run.
    splits : dict
        "train", "dev" and "test" examples.
    head : "classes" or "scores"
    num_outputs : int
        Number of classes or scores.
    folder : Path
        Where checkpoints are written; an unfinished run in this folder is continued.
    """
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    vocabulary, vectors = build_vocabulary(splits, p.vectors, p.vectors_scale, p.embedding_size, p.seed)
    model = build_extractor(p, vectors, head, num_outputs).to(device)
    batches = {
        name: Batches(examples, vocabulary, p.batch_size, p.seed, p.bucketed, device)
        for name, examples in splits.items()
    }
    result = train(p, model, batches, folder)
    if p.model == "attention" and p.rule == "top_k":  # the same budget over all reviews, instead of in each of them
        model.rule, model.threshold = "threshold", importance_quantile(model, batches["dev"], p.budget)
        objective = build_objective(p, has_gates=model.has_gates).to(device)
        for name, evaluation in result.evaluations.items():
            scores = evaluate_extractor(model, batches[name], objective).metrics
            evaluation.metrics.update({f"global_{metric}": value for metric, value in scores.items()})
        model.rule = p.rule
    return result


def train(
    p: "ExtractionSettings | AlignmentSettings", model: RationaleModel[Any], batches: dict[str, Batches], folder: Path
) -> Result:
    """Train a model, keep the epoch that model selection chooses, and evaluate it on dev and test.

    Parameters
    ----------
    p : parameters
    model : RationaleModel
    batches : "train", "dev" and "test" batches
    folder : Path
    """
    objective = build_objective(p, len(batches["train"]), model.has_gates).to(batches["train"].device)
    warmup = math.ceil(PriceSettings.of(p).warmup)
    selection = ModelSelection(
        p.model_choice,
        score=f"dev_{model.head.metric}",
        higher_is_better=model.head.higher_is_better,
        rate="dev_rate_selected" if p.measure == "selected" else "dev_rate_expected",
        target=p.selection if objective.selection is not None else None,
        tolerance=p.tolerance,
        patience=max(p.patience, AUTHORS_PATIENCE if p.model_choice == "authors" else warmup),
    )
    state = fit(
        model,
        objective,
        batches["train"],
        lambda: evaluate_extractor(model, batches["dev"], objective).metrics,
        selection,
        p,
        folder,
    )
    evaluations = {name: evaluate_extractor(model, batches[name], objective) for name in ("dev", "test")}
    splits = {name: part.examples for name, part in batches.items()}
    return Result(model, batches["train"].vocabulary, splits, evaluations, state.history, state.best)
