"""Memory: a batch that cannot fit is refused before the first step, and the estimate is a lower bound."""

import psutil
import pytest
import torch
from small import parameters

from rationale.data.batches import Batches, PairBatches, Vocabulary
from rationale.data.example import Example
from rationale.errors import BadInput
from rationale.models.aligner import build_aligner
from rationale.models.extractor import build_extractor
from rationale.objectives.loss import build_objective
from rationale.training.memory import BYTES, EVALUATED, free_memory, require_memory
from rationale.training.settings import AlignmentSettings

WORDS = Vocabulary(["a", "b"])
VECTORS = torch.zeros(4, 8)


def texts(*lengths: int, **options) -> Batches:
    return Batches([Example(("a",) * length, 0) for length in lengths], WORDS, **options)


def pairs(*lengths: tuple[int, int], **options) -> PairBatches:
    examples = [Example(("a",) * first, 0, second=("b",) * second) for first, second in lengths]
    return PairBatches(examples, WORDS, **options)


def test_the_largest_batch_is_that_of_the_longest_texts():
    for bucketed in (True, False):
        part = texts(3, 9, 4, 8, 5, 7, batch_size=2, bucketed=bucketed)
        seen = [tuple(batch.tokens.shape) for epoch in range(30) for batch in part.epoch(epoch)]
        assert part.largest().positions == max(rows * length for rows, length in seen)
        part = pairs((3, 5), (4, 4), (9, 1), (2, 7), batch_size=2, bucketed=bucketed)
        seen = [batch.mask.numel() for epoch in range(30) for batch in part.epoch(epoch)]
        assert part.largest().positions >= max(seen)
        assert part.largest_in_order(3, 9).positions == max(batch.mask.numel() for batch in part.in_order(3, 9))


@pytest.mark.parametrize(
    "batches, model, message",
    [
        (texts(9, 9, batch_size=2), "text", r"^batch_size: in train, a batch of 2 texts of 9 .* lower batch_size$"),
        (texts(9, 3, batch_size=1), "text", r"a batch of 1 text of 9 words .* leave out the longest text, or cut it$"),
        (pairs((9, 8), batch_size=1), "pair", r"a batch of 1 text of 9 x 8 words needs at least"),
    ],
)
def test_a_batch_that_cannot_fit_is_refused_with_what_to_lower(batches, model, message):
    if model == "text":
        built = build_extractor(parameters(), VECTORS, "classes", 2)
    else:
        built = build_aligner(
            AlignmentSettings(corpus="nli_small", model="hardkuma", selection=0.1), VECTORS, "classes", 2
        )
    needed = batches.largest().positions * built.floats_per_position * BYTES
    require_memory(built, {"train": batches}, free=needed)
    with pytest.raises(BadInput, match=message):
        require_memory(built, {"train": batches}, free=needed - 1)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_long_texts_that_are_only_evaluated_are_refused_only_if_that_cannot_fit(split):
    built = build_extractor(parameters(), VECTORS, "classes", 2)
    for lengths in ([3000] * 32, [5, 40_000, 7, 40_000]):
        part = texts(*lengths, batch_size=32)
        seen = max(batch.tokens.numel() for batch in part.in_order(max_batch=256))
        assert seen < part.largest().positions, "a training step would read more at once"
        needed = seen * built.floats_per_position * BYTES // EVALUATED
        require_memory(built, {"train": texts(9, batch_size=1), split: part}, free=needed)
        with pytest.raises(BadInput, match=rf"^batch_size: in {split}, .* leave out the longest text, or cut it$"):
            require_memory(built, {split: part}, free=needed - 1)


def test_thirty_thousand_words_by_thirty_thousand_are_refused_at_once():
    built = build_aligner(AlignmentSettings(corpus="nli_small", model="hardkuma", selection=0.1), VECTORS, "classes", 2)
    with pytest.raises(BadInput, match="30,000 x 30,000 words needs at least 134.1 GiB"):
        require_memory(built, {"train": pairs((30_000, 30_000), batch_size=1)}, free=20 * 2**30)


def test_the_free_memory_is_below_that_of_the_machine():
    assert 0 < free_memory(torch.device("cpu")) < psutil.virtual_memory().total


def kept_by_a_step(model: str) -> tuple[int, int]:
    """The bytes of all tensors that one training step keeps for its backward pass, and the estimate."""
    selection = 0.1 if model == "hardkuma" else None
    p = AlignmentSettings(corpus="nli_small", model=model, hidden_size=20, selection=selection)
    built, batches = build_aligner(p, VECTORS, "classes", 2), pairs((700, 700), batch_size=1)
    objective, kept = build_objective(p, 1, built.has_gates), {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        for batch in batches.epoch(1):
            objective(built, batch).loss.backward()
    return sum(kept.values()), batches.largest().positions * built.floats_per_position * BYTES


@pytest.mark.parametrize("model", ["softmax", "hardkuma"])
def test_the_tensors_that_a_step_keeps_are_of_the_size_of_the_estimate(model):
    """The backward pass needs as much again, for gradients: with it, a step takes at least the estimate."""
    kept, estimate = kept_by_a_step(model)
    assert estimate / 3 <= kept <= 4 * estimate, f"a step keeps {kept:,} bytes, the estimate is {estimate:,}"
