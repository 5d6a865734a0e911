"""Rare classes that count as much as frequent ones: the weights, the score that chooses the epoch, and a run."""

import math

import numpy as np
import pytest
import torch
from own_files import write_table
from torch import nn

import rationale
from rationale.data import Example, build_vocabulary
from rationale.data.batches import Batches
from rationale.errors import BadInput
from rationale.metrics import balanced_accuracy
from rationale.models.protocol import Output
from rationale.nn.heads import Classes, Scores
from rationale.objectives import RationaleObjective
from rationale.runs.saved import read_history, read_metrics, read_rationales
from rationale.training import extraction
from rationale.training.evaluation import evaluate_extractor, width_of
from rationale.training.settings import OwnTextSettings

LABELS = [0] * 14 + [1] * 4 + [2] * 2


def batches(labels) -> Batches:
    examples = [Example(("a", "b"), label) for label in labels]
    words, _ = build_vocabulary({"train": examples}, "random", dim=2)
    return Batches(examples, words, 4)


class Constant(nn.Module):
    """A model without gates that reads nothing, so its answers are those of the biases of its head."""

    has_gates = False

    def __init__(self, head: Classes):
        super().__init__()
        self.head = head

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> Output:
        prediction = self.head.output(torch.zeros(len(tokens), 4))
        return Output(prediction, mask.to(prediction.dtype), None)


def balanced_head(labels=LABELS, num_classes: int = 3) -> Classes:
    head = Classes(4, num_classes)
    extraction.balance(head, batches(labels))
    return head


def test_balanced_weights_are_those_of_scikit_learn_and_every_class_has_the_same_loss_in_all():
    class_weight = pytest.importorskip("sklearn.utils.class_weight")
    head = balanced_head()
    told = class_weight.compute_class_weight("balanced", classes=np.arange(3), y=LABELS)
    assert head.class_weights.tolist() == pytest.approx(told.tolist())
    loss = head.loss(torch.zeros(20, 3), torch.tensor(LABELS)).double()
    sums = [loss[torch.tensor(LABELS) == label].sum().item() for label in range(3)]
    assert sums == pytest.approx([20 / 3 * math.log(3)] * 3, rel=1e-6)
    assert loss.mean().item() == pytest.approx(extraction.loss_of_constant(batches(LABELS), head.class_weights))


def test_weights_are_no_part_of_a_saved_model_and_scores_have_none():
    assert set(balanced_head().state_dict()) == {"output.weight", "output.bias"}
    with pytest.raises(BadInput, match="class_weight: balanced, but the labels are scores; accepted: none"):
        extraction.balance(Scores(4, 1), batches([(0.5,), (1.0,)]))
    with pytest.raises(BadInput, match="class_weight"):
        OwnTextSettings.checked({"corpus": "r.csv", "class_weight": "balanced", "head": "scores"})


def test_the_weights_of_a_head_in_float64_have_its_dtype_and_all_its_digits():
    head = Classes(4, 3).double()
    extraction.balance(head, batches(LABELS))
    assert head.class_weights.tolist() == pytest.approx([20 / (3 * count) for count in (14, 4, 2)], rel=1e-15)
    assert head.loss(torch.zeros(3, 3, dtype=torch.float64), torch.tensor([0, 1, 2])).dtype == torch.float64


def test_the_weights_have_the_dtype_of_the_head_after_a_conversion_and_are_not_in_its_tensors():
    head = balanced_head()
    before = head.class_weights
    target, prediction = torch.tensor([0, 1, 2]), torch.zeros(3, 3)
    expected = before.double()[target] * math.log(3)
    loss = head.double().loss(prediction.double(), target)
    torch.testing.assert_close(loss, expected)
    assert head.float().loss(prediction, target).dtype == torch.float32
    assert head.to("meta").class_weights.device.type == "meta"
    assert not dict(head.named_buffers()), "a file of a model holds all buffers"
    assert Classes(4, 2).double().class_weights is None


def test_balanced_accuracy_is_that_of_scikit_learn_and_its_error_that_of_many_samples():
    metrics = pytest.importorskip("sklearn.metrics")
    generator = torch.Generator().manual_seed(1)
    target = torch.tensor(LABELS * 20)
    chance = torch.tensor([0.9, 0.5, 0.2])[target]  # of a right answer, by class
    scores, errors = [], []
    for _ in range(400):
        right = (torch.rand(len(target), generator=generator) < chance).double()
        score = balanced_accuracy(right, target)
        scores.append(score)
        errors.append(width_of(right, target) / 1.96)
    answer = torch.where(right > 0, target, (target + 1) % 3)
    assert score == pytest.approx(metrics.balanced_accuracy_score(target, answer))
    assert sum(errors) / 400 == pytest.approx(torch.tensor(scores).std().item(), rel=0.1)


@pytest.mark.parametrize("answer", [0, 1])
def test_a_balanced_accuracy_of_classes_that_are_all_right_or_all_wrong_has_the_error_of_its_interval(answer):
    labels = torch.tensor(([0] * 3 + [1] * 9) if answer else ([0] * 11 + [1]))
    head, part = balanced_head(labels.tolist(), 2), batches(labels.tolist())
    head.output.bias.data = torch.eye(2)[answer]
    found = evaluate_extractor(Constant(head), part, RationaleObjective())
    halves = [1.96**2 / (count + 1.96**2) for count in labels.bincount().tolist()]  # the width of Wilson's interval
    assert found.metrics["balanced_accuracy"] == 0.5
    assert found.chosen_error == pytest.approx(math.hypot(*halves) / 2 / 1.96, rel=1e-3)
    assert found.chosen_error == pytest.approx(width_of((labels == answer).double(), labels) / 1.96)


def unequal(count: int = 400) -> list[dict]:
    """Texts of which one in ten is rare; half of those with the word `odd` are."""
    rows = []
    for i in range(count):
        rare, odd = i % 10 == 0, i % 10 in (0, 1, 2)
        rows.append({"text": f"{'odd' if odd else 'plain'} text {i}", "label": "rare" if rare else "usual"})
    return rows


def test_a_run_with_balanced_classes_finds_the_rare_one_and_is_chosen_by_the_balanced_accuracy(
    tmp_path, capsys, monkeypatch
):
    file = write_table(tmp_path / "r.csv", unequal())
    small = {"model": "full_text", "embedding_size": 8, "hidden_size": 6, "epochs": 6, "learning_rate": 0.03}
    found, in_training, balance = {}, [], extraction.balance

    def noted(head, train):
        balance(head, train)
        in_training.append(head.class_weights)

    monkeypatch.setattr(extraction, "balance", noted)
    for weight in ("none", "balanced"):
        folder = tmp_path / weight
        model = rationale.fit(file, folder=folder, class_weight=weight, device="cpu", **small)
        found[weight] = [answer.label for answer in model(["odd text 7", "plain text 8"])]
        told, head = capsys.readouterr().out, model.model.head
        assert head.chosen_by == {"none": "accuracy", "balanced": "balanced_accuracy"}[weight], "also when it is loaded"
        if weight == "balanced":
            assert torch.equal(head.class_weights, in_training[0]), "so its loss is that of the training"
        history, score = read_history(folder), "dev_balanced_accuracy"
        if weight == "none":
            assert score not in history and "the class 'rare' (4 texts)" not in told, "four texts of dev are too few"
        else:
            assert (history[score] > 0.7).any()
            kept = read_metrics(folder)
            assert kept["dev"]["balanced_accuracy"] == pytest.approx(history[score].max())
            dev = read_rationales(folder, "dev")
            right = (dev["prediction"] == dev["label"]).groupby(dev["label"]).mean()
            assert kept["dev"]["balanced_accuracy"] == pytest.approx(right.mean()), "of the answers that are saved"
    assert found == {"none": ["usual", "usual"], "balanced": ["rare", "usual"]}, "a third of the odd texts are rare"
