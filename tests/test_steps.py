"""Training steps: several batches per step, a warm-up of the step sizes, batches of so many words, bfloat16."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import classified, corpus, parameters
from torch import nn

from rationale import training
from rationale.data import Batches, Example, Vocabulary
from rationale.data.batches import sizes_within
from rationale.errors import BadInput
from rationale.nn import ENCODERS
from rationale.objectives import LossOutput
from rationale.training import ModelSelection, fit
from rationale.training.settings import ExtractionSettings, OwnTextSettings, ReviewSettings, SSTSettings

WORDS = Vocabulary(["a", "b", "c"])


def settings(**changes):
    """Settings of a run of a second, those of its steps included."""
    more = {"learning_rate_warmup", "accumulate", "batch_tokens", "bfloat16"} & changes.keys()
    p = parameters(**{name: value for name, value in changes.items() if name not in more})
    for name in more:
        setattr(p, name, changes[name])
    return p


def train(folder, splits, **changes):
    torch.set_num_threads(1)
    return training.train_extractor(settings(**changes), splits, "classes", 2, folder)


def gradients(monkeypatch, folder, splits, **changes) -> list[list[torch.Tensor]]:
    """The gradient of each training step, before it is clipped."""
    steps = []

    def noted(parameters, norm):
        steps.append([p.grad.clone() for p in parameters])

    monkeypatch.setattr(nn.utils, "clip_grad_norm_", noted)
    train(folder, splits, model="full_text", dropout=0.0, epochs=1, selection=None, **changes)
    return steps


# --- several batches per step


def test_the_gradient_over_several_batches_is_that_of_one_large_batch(tmp_path, monkeypatch):
    splits = classified(corpus())
    splits["train"] = [*splits["train"], splits["train"][0], splits["train"][5]]  # 50 texts: 16, 16, 16 and 2
    (small,) = gradients(monkeypatch, tmp_path / "small", splits, batch_size=16, accumulate=4)
    (large,) = gradients(monkeypatch, tmp_path / "large", splits, batch_size=50)
    assert any(value.abs().max() > 1e-3 for value in large)
    for mine, other in zip(small, large, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-7)


def test_the_last_step_of_an_epoch_may_have_fewer_batches(tmp_path, monkeypatch):
    splits = classified(corpus())
    steps = gradients(monkeypatch, tmp_path / "two", splits, batch_size=16, accumulate=2)
    assert len(steps) == 2, "three batches: a step of two, and one of one"


def test_batches_of_few_long_texts_are_added_up_to_the_batch_size(tmp_path, monkeypatch):
    splits = classified(corpus())
    longest = max(len(example.tokens) for example in splits["train"])
    changes = {"batch_size": 16, "batch_tokens": 4 * longest}
    each = gradients(monkeypatch, tmp_path / "each", splits, accumulate=1, **changes)
    steps = gradients(monkeypatch, tmp_path / "steps", splits, accumulate=None, **changes)
    assert len(each) >= 6, "batches of at most some four long texts"
    assert len(steps) == 3, "48 texts, 16 per step"


def test_a_run_with_several_batches_per_step_continues_as_an_unbroken_one(tmp_path):
    splits, changes = classified(corpus()), {"accumulate": 2, "learning_rate_warmup": 1.7}
    whole = train(tmp_path / "whole", splits, epochs=3, **changes)
    train(tmp_path / "parts", splits, epochs=1, **changes)
    resumed = train(tmp_path / "parts", splits, epochs=3, **changes)
    for name, value in whole.model.state_dict().items():
        assert value.equal(resumed.model.state_dict()[name]), name


# --- the warm-up


class Nothing(nn.Module):
    """An objective without a gradient that matters."""

    def forward(self, model, batch) -> LossOutput:
        loss = model.weight.sum() * 0
        return LossOutput(loss, {"task": loss.detach()})


def step_sizes(folder, epochs: int, **changes) -> list[list[float]]:
    """The step sizes of two groups of parameters in each training step; an epoch has four batches."""
    model = nn.Linear(1, 2)
    groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 0.001}]
    optimizer, seen = torch.optim.SGD(groups, lr=0.1), []
    optimizer.register_step_pre_hook(lambda *_: seen.append([group["lr"] for group in optimizer.param_groups]))
    batches = Batches(corpus()["train"], WORDS, 12)
    p = settings(epochs=epochs, schedule="exponential", min_learning_rate=0.0, **changes)
    choice = ModelSelection("within_tolerance", "dev_task", False)
    state = fit(model, Nothing(), batches, lambda: {"task": 0.0}, choice, p, folder, optimizer)
    rates = [0.1 * 0.97**epoch for epoch in range(epochs)]
    assert [row["learning_rate"] for row in state.history] == pytest.approx(rates), "that of the scheduler"
    return seen


def test_every_step_size_rises_linearly_to_that_of_its_schedule(tmp_path):
    seen = step_sizes(tmp_path, 3, learning_rate_warmup=1.5)
    risen = [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6, 1, 1, 1, 1, 1, 1, 1]
    by_hand = [share * 0.97 ** (k // 4) for k, share in enumerate(risen)]
    assert [first for first, _ in seen] == pytest.approx([0.1 * share for share in by_hand])
    assert [second for _, second in seen] == pytest.approx([0.001 * share for share in by_hand])


def test_a_warm_up_counts_steps_and_not_batches(tmp_path):
    seen = step_sizes(tmp_path, 2, learning_rate_warmup=1.5, accumulate=2)
    by_hand = [0.1 / 3, 0.2 / 3, 0.1 * 0.97, 0.1 * 0.97]
    assert [first for first, _ in seen] == pytest.approx(by_hand)


def test_without_a_warm_up_no_step_size_is_touched(tmp_path):
    assert step_sizes(tmp_path, 1) == [[0.1, 0.001]] * 4


# --- batches of so many words


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60), st.integers(1, 20), st.integers(30, 120), st.integers(1, 3)
)
def test_no_training_batch_is_above_the_budget_of_words(lengths, batch_size, budget, epoch):
    examples = [Example(("a",) * length, 0) for length in lengths]
    batches = Batches(examples, WORDS, batch_size, max_tokens=budget)
    cut = list(batches.epoch(epoch))
    assert len(cut) == len(batches)
    assert sorted(row for batch in cut for row in batch.rows.tolist()) == list(range(len(lengths)))
    assert all(batch.mask.numel() <= budget and len(batch.mask) <= batch_size for batch in cut)
    assert batches.largest().positions == max(batch.mask.numel() for batch in cut)


def test_batches_are_as_large_as_the_budget_allows():
    examples = [Example(("a",) * length, 0) for length in [9, 2, 3, 5, 3]]
    batches = Batches(examples, WORDS, 3, max_tokens=10)
    assert sorted(tuple(batch.mask.shape) for batch in batches.epoch(1)) == [(1, 5), (1, 9), (3, 3)]


def test_a_text_that_is_longer_than_the_budget_is_a_batch_of_its_own():
    examples = [Example(("a",) * length, 0) for length in [2, 7, 2]]
    batches = Batches(examples, WORDS, 3, max_tokens=4)
    assert sorted(tuple(batch.mask.shape) for batch in batches.epoch(1)) == [(1, 7), (2, 2)]
    assert batches.largest().positions == 7


def test_a_run_trains_on_batches_of_so_many_words(tmp_path, monkeypatch):
    seen, forward = [], training.extraction.build_extractor

    def noted(*args):
        model = forward(*args)
        model.register_forward_pre_hook(lambda m, args: seen.append(args[1].numel()) if m.training else None)
        return model

    monkeypatch.setattr(training.extraction, "build_extractor", noted)
    splits = classified(corpus())
    longest = max(len(example.tokens) for example in splits["train"])
    train(tmp_path, splits, epochs=1, batch_size=48, batch_tokens=2 * longest)
    assert seen and max(seen) <= 2 * longest


# --- settings


@pytest.mark.parametrize("task", [ExtractionSettings, SSTSettings, ReviewSettings, OwnTextSettings])
def test_extractors_take_steps_of_one_batch_unless_they_are_asked(task):
    names = ("learning_rate_warmup", "accumulate", "bfloat16")
    assert [task.model_fields[name].default for name in names] == [0.0, 1, False]


def test_one_very_long_text_of_your_own_does_not_fill_a_batch_of_others_with_padding():
    p = OwnTextSettings.checked({"corpus": "synthetic"})
    lengths = [50] * 95 + [50_000]
    sizes = sizes_within(lengths, p.batch_size, p.batch_tokens)
    assert sizes == [32, 32, 31, 1]
    assert sizes_within([4_000] * 64, p.batch_size, p.batch_tokens) == [32, 32], "long texts still share batches"
    assert OwnTextSettings.checked({"corpus": "synthetic", "bucketed": False}).batch_tokens is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_tokens": 500, "bucketed": False}, "batch_tokens: 500 is not accepted with bucketed false; give null"),
        ({"bfloat16": True}, "bfloat16: true is not accepted with encoder lstm; give false, or encoder=minilm"),
    ],
)
def test_steps_that_cannot_be_taken_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        ExtractionSettings.checked(changes)


def test_bfloat16_is_refused_before_anything_is_read_if_the_processor_cannot_multiply_in_it(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True, "avx512_bf16": False}, raising=False)
    pytest.importorskip("transformers")
    p = ExtractionSettings(encoder="minilm", bfloat16=True)
    monkeypatch.setattr(ENCODERS["minilm"], "require", lambda p: None)
    line = r"^bfloat16: true is not accepted on this CPU, which does not multiply in bfloat16; give false, or train on "
    with pytest.raises(BadInput, match=line):
        training.require_words(p)
    with pytest.raises(BadInput, match=line):
        training.train_extractor(p, {}, "classes", 2, tmp_path)


@pytest.mark.parametrize("feature", ["avx512_bf16", "amx_bf16", "bf16"])
def test_bfloat16_is_accepted_on_a_processor_that_multiplies_in_it(feature, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {feature: True}, raising=False)
    monkeypatch.setattr(ENCODERS["minilm"], "require", lambda p: None)
    training.require_words(ExtractionSettings(encoder="minilm", bfloat16=True))
