"""Train an aligner of sentence pairs."""

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from rationale.data.batches import Batches, PairBatches
from rationale.data.example import Example
from rationale.data.pairs import build_pair_vocabulary
from rationale.models.aligner import Aligner, HardKumaAttention, build_aligner
from rationale.nn.gates import GateSettings
from rationale.nn.mappings import MAPPINGS
from rationale.nn.modes import evaluating
from rationale.objectives.constraint import ConstraintSettings
from rationale.objectives.loss import RationaleObjective
from rationale.training.evaluation import evaluate_extractor
from rationale.training.extraction import Result, train
from rationale.training.groups import groups_by_label
from rationale.training.loop import choose_device, fit
from rationale.training.model_selection import ModelSelection

if TYPE_CHECKING:
    from rationale.training.settings.alignment import AlignmentSettings

WITHOUT_GATES = {"model": "softmax", "normalised": False, "samples": 1, "warm_start": 0}
WITHOUT_GATES |= ConstraintSettings().model_dump() | GateSettings().model_dump()
SAMPLED = 20  # batches from whose cells the rate of gates before their training is computed


def train_aligner(
    p: "AlignmentSettings", splits: dict[str, list[Example]], head: str, num_outputs: int, folder: Path
) -> Result:
    """Train and evaluate an aligner on pairs of sentences. The arguments are those of `train_extractor`.

    With `warm_start`, an aligner with softmax attention is trained first, for as many epochs; its layers are then those
    with which the aligner with gates starts.
    """
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    vocabulary, vectors = build_pair_vocabulary(splits, p.vectors, p.embedding_size, p.seed)
    model = build_aligner(p, vectors, head, num_outputs).to(device)
    batches = {
        name: PairBatches(examples, vocabulary, p.batch_size, p.seed, p.bucketed, device)
        for name, examples in splits.items()
    }
    if p.warm_start:
        assert isinstance(model, Aligner)
        softmax = SimpleNamespace(**vars(p) | WITHOUT_GATES | {"epochs": p.warm_start})
        torch.manual_seed(p.seed)
        before = build_aligner(softmax, vectors, head, num_outputs).to(device)
        assert isinstance(before, Aligner)
        model.take_layers(trained_softmax(softmax, before, batches, folder / "warm_start"))
        if p.start == "target":
            start_at(model, ConstraintSettings.of(p).first_target, batches["train"])
        torch.manual_seed(p.seed)
    result = train(p, model, batches, folder, is_started=p.warm_start > 0)
    for name, evaluation in result.evaluations.items() if p.model in MAPPINGS and head == "classes" else ():
        evaluation.metrics.update(groups_by_label(evaluation.z, splits[name]))
    return result


def trained_softmax(p: Any, model: Aligner, batches: Mapping[str, Batches], folder: Path) -> Aligner:
    """Train an aligner with softmax attention, and return it with the weights of its best epoch on dev.

    Parameters
    ----------
    p : parameters
        Those of a run with softmax attention.
    model : Aligner
    batches : "train" and "dev" batches
    folder : Path
        Where the checkpoint is written; training that was interrupted is continued from it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    objective = RationaleObjective()
    selection = ModelSelection("within_tolerance", f"dev_{model.head.metric}", model.head.higher_is_better)
    fit(
        model, objective, batches["train"], lambda: evaluate_extractor(model, batches["dev"], objective).metrics,
        selection, p, folder, part="softmax attention",
    )  # fmt: skip
    return model


@torch.no_grad()
def start_at(model: Aligner, rate: float, train: Batches) -> None:
    """Set the biases of the gates so that the cells of some training batches have this expected rate."""
    attention, found = model.selector, []
    assert isinstance(attention, HardKumaAttention)
    with evaluating(model):
        for batch in islice(train.epoch(1), SAMPLED):
            scores = torch.stack(attention.scores(model.read(batch.tokens)))  # [2, B, P, Q]
            found.append(scores.flatten(2)[:, batch.mask])
    attention.start_at(rate, torch.cat(found, 1))
