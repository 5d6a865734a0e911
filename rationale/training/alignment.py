"""Train an aligner of sentence pairs."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch

from rationale.data.batches import PairBatches
from rationale.data.example import Example
from rationale.data.pairs import build_pair_vocabulary
from rationale.models.aligner import build_aligner
from rationale.training.extraction import Result, train
from rationale.training.loop import choose_device

if TYPE_CHECKING:
    from rationale.training.settings.alignment import AlignmentSettings


def train_aligner(p: "AlignmentSettings", splits: dict[str, list[Example]], num_outputs: int, folder: Path) -> Result:
    """Train and evaluate an aligner on pairs of sentences. The arguments are those of `train_extractor`."""
    device = choose_device(p.device)
    torch.manual_seed(p.seed)
    vocabulary, vectors = build_pair_vocabulary(splits, p.vectors, p.embedding_size, p.seed)
    model = build_aligner(p, vectors, "classes", num_outputs).to(device)
    batches = {
        name: PairBatches(examples, vocabulary, p.batch_size, p.seed, p.bucketed, device)
        for name, examples in splits.items()
    }
    return train(p, model, batches, folder)
