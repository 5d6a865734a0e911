"""The aligner: sizes of the paper, masks that hide padding, both kinds of attention, and the loop around them."""

import math
import random
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rationale import training
from rationale.data import Example, PairBatches, Sides, Vocabulary
from rationale.data.pairs import NULL
from rationale.distributions import HardKuma
from rationale.errors import BadInput
from rationale.models import Aligner, IntraAttention, RecurrentPair, build_aligner, feed_forward
from rationale.nn import MAPPINGS, sample
from rationale.nn.fast import apply_to_joined
from rationale.nn.sampling import shut
from rationale.objectives import build_objective
from rationale.training import alignment
from rationale.training.evaluation import score_when_shut
from rationale.training.settings import AlignmentSettings
from tests.small import parameters

NLI = {
    "corpus": "nli_small", "model": "softmax", "gamma": 1.0, "lam": 0.1, "power": 1.5, "normalised": False,
    "intra": False, "hidden_size": 6, "selection": None, "measure": "training", "schedule": "plateau",
}  # fmt: skip


def settings(**changes):
    defaults = AlignmentSettings(corpus="nli_small").model_dump()
    return SimpleNamespace(**defaults | vars(parameters()) | NLI | changes)


def pairs(number: int = 40) -> list[Example]:
    """Entailment where the hypothesis' noun is in the premise, else contradiction."""
    generator = torch.Generator().manual_seed(0)
    nouns, found = ["dog", "cat", "man", "boat"], []
    for i in range(number):
        first, second = torch.randint(0, 4, (2,), generator=generator).tolist()
        second = first if i % 2 else second
        premise = ("@@NULL@@", "a", nouns[first], *["runs", "now", "here"][: i % 4])
        found.append(Example(premise, int(first != second), second=("@@NULL@@", "the", nouns[second])))
    return found


def batches_of(number: int) -> PairBatches:
    examples = pairs(number)
    words = sorted({word for e in examples for word in (*e.tokens, *e.second)})
    return PairBatches(examples, Vocabulary(words), number)


def a_batch(number: int = 8):
    batches = batches_of(number)
    vectors = torch.randn(len(batches.vocabulary), 5, generator=torch.Generator().manual_seed(1))
    return batches.rows(torch.arange(number)), vectors


@pytest.mark.parametrize(("model", "count"), [("softmax", 382_000), ("hardkuma", 462_400), ("recurrent", 3_269_800)])
def test_models_have_the_papers_number_of_parameters(model, count):
    p = settings(model=model, hidden_size=200)
    built = build_aligner(p, torch.zeros(3, 300), "classes", 3)
    assert sum(value.numel() for value in built.parameters()) == count


def test_intra_sentence_attention_has_a_weight_for_each_of_23_distances_and_doubles_the_features():
    p = settings(intra=True, hidden_size=200)
    built = build_aligner(p, torch.zeros(3, 300), "classes", 3)
    assert built.intra.distance.shape == (23,)
    added = 80_400 + 23 + 200 * 200 + 2 * 200 * 200  # its own network, and the wider inputs of F and G
    assert sum(value.numel() for value in built.parameters()) == 382_000 + added


def test_intra_sentence_attention_equals_a_loop_over_words():
    torch.manual_seed(0)
    intra, words = IntraAttention(4, 4, 0.0).eval(), torch.randn(1, 15, 4)
    found = intra(words, torch.ones(1, 15, dtype=torch.bool))
    compared = intra.compare(words)[0]
    for i in range(15):
        scores = [compared[i] @ compared[j] + intra.distance[max(-11, min(11, j - i)) + 11] for j in range(15)]
        met = torch.stack(scores).softmax(0) @ words[0]
        torch.testing.assert_close(found[0, i], torch.cat([words[0, i], met]))


@pytest.mark.parametrize("model", [*MAPPINGS, "hardkuma", "recurrent"])
@pytest.mark.parametrize("intra", [False, True])
def test_padding_changes_nothing(model, intra):
    batch, vectors = a_batch()
    torch.manual_seed(0)
    built = build_aligner(settings(model=model, intra=intra), vectors, "classes", 2).eval()
    together = built(batch.tokens, batch.mask).prediction
    for row in range(len(together)):
        sides = batch.tokens
        p, h = sides.first_mask[row].sum(), sides.second_mask[row].sum()
        alone = Sides(sides.first[row : row + 1, :p], torch.ones(1, p, dtype=torch.bool),
                      sides.second[row : row + 1, :h], torch.ones(1, h, dtype=torch.bool))  # fmt: skip
        torch.testing.assert_close(built(alone, alone.cells()).prediction[0], together[row], atol=1e-6, rtol=1e-5)


def losses(built, batch, fast: bool) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Predictions with the same draws, and the gradients of all weights of a sum in which every number counts."""
    built.fast = fast
    torch.manual_seed(3)
    prediction = built(batch.tokens, batch.mask).prediction
    weighted = (prediction * torch.arange(prediction.numel()).view_as(prediction).cos()).sum()
    return prediction, torch.autograd.grad(weighted, list(built.parameters()))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("intra", [False, True])
@pytest.mark.parametrize("model", ["softmax", "hardkuma"])
def test_words_that_are_read_once_give_the_result_of_each_word_by_itself(model, intra, training):
    batch, vectors = a_batch()
    torch.manual_seed(0)
    p = settings(model=model, intra=intra, dropout=0.3)
    built = build_aligner(p, vectors, "classes", 2).double().train(training)
    (ours, our_slopes), (plain, plain_slopes) = (losses(built, batch, fast) for fast in (True, False))
    torch.testing.assert_close(ours, plain)
    for (name, _), one, other in zip(built.named_parameters(), our_slopes, plain_slopes, strict=True):
        torch.testing.assert_close(one, other, msg=lambda m, n=name: f"gradient of {n}: {m}")


def rows_read(module: torch.nn.Module, seen: list[int]) -> None:
    module.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))


def test_each_different_word_is_read_once_where_nothing_is_dropped():
    batch, vectors = a_batch()
    words = torch.cat([batch.tokens.first.flatten(), batch.tokens.second.flatten()])
    built = build_aligner(settings(model="hardkuma", dropout=0.3), vectors, "classes", 2)
    projected, compared = [], []
    rows_read(built.project, projected)
    rows_read(built.selector.compare_a[0], compared)
    for drops in (True, False):
        built.train(drops)(batch.tokens, batch.mask)
    few = len(set(words.tolist()))
    assert few < len(words) / 2, "words come again"
    assert projected == compared == [len(words), few], "dropout treats each occurrence by itself"


def test_layers_read_joined_features_as_if_they_had_been_joined():
    torch.manual_seed(0)
    layers, words, others = feed_forward(10, 6, 0.0).double(), *torch.randn(2, 7, 5, dtype=torch.float64)
    joined = layers(torch.cat([words, others], -1))
    apart = apply_to_joined(layers, words, others)
    torch.testing.assert_close(apart, joined)
    slope = torch.randn_like(joined)
    wanted, found = (torch.autograd.grad((slope * y).sum(), list(layers.parameters())) for y in (joined, apart))
    torch.testing.assert_close(found, wanted)
    with torch.autocast("cpu", torch.bfloat16):
        assert apply_to_joined(layers.float(), words.float(), others.float()).isfinite().all()


def test_each_word_spreads_a_weight_of_one_over_the_other_side():
    batch, vectors = a_batch()
    for name in MAPPINGS:
        built = build_aligner(settings(model=name), vectors, "classes", 2).eval()
        *_, met = built.aligned(batch.tokens, batch.mask, sample)
        for weights, words in (
            (met.of_hypothesis, batch.tokens.first_mask),
            (met.of_premise, batch.tokens.second_mask),
        ):
            torch.testing.assert_close(weights.sum(-1), words.float()), name


def test_hardkuma_shapes_start_at_ln_2_and_one_matrix_serves_both_directions():
    batch, vectors = a_batch()
    built = build_aligner(settings(model="hardkuma"), vectors, "classes", 2).train()
    *_, met = built.aligned(batch.tokens, batch.mask, sample)
    assert isinstance(met.gates, HardKuma)
    assert min(met.gates.base.a.min(), met.gates.base.b.min()) >= math.log(2) - 1e-6
    torch.testing.assert_close(met.of_hypothesis, met.of_premise.mT)
    assert (met.z[~batch.mask] == 0).all(), "padding is shut"


def test_normalised_hardkuma_weights_sum_to_one_or_are_all_zero():
    batch, vectors = a_batch()
    built = build_aligner(settings(model="hardkuma", normalised=True), vectors, "classes", 2).train()
    *_, met = built.aligned(
        batch.tokens, batch.mask, lambda gates: gates.rsample() * (torch.rand(gates.batch_shape) < 0.4)
    )
    for weights in (met.of_hypothesis, met.of_premise):
        sums = weights.sum(-1)
        assert ((sums - 1).abs().lt(1e-5) | (sums == 0)).all() and (sums == 0).any()
    assert torch.isfinite(built(batch.tokens, batch.mask).prediction).all()


def test_the_constraint_is_the_mean_over_the_cells_of_each_pair_and_evaluation_leaves_it_alone(tmp_path):
    batch, vectors = a_batch()
    p = settings(model="hardkuma", selection=0.3, multiplier_rate=0.1)
    built, objective = build_aligner(p, vectors, "classes", 2), build_objective(p).train()
    built.train()
    step = objective(built, batch)
    rate = step.parts["rate"].item()
    assert 0 < rate < 1 and torch.isfinite(step.loss)
    output = built.eval()(batch.tokens, batch.mask)
    kept = output.gates.log_prob_nonzero.exp()
    by_hand = torch.stack([row[cells].mean() for row, cells in zip(kept, batch.mask, strict=True)]).mean()
    before = {name: value.clone() for name, value in objective.named_buffers()}
    objective.eval()
    assert objective(built, batch).parts["rate"].item() == pytest.approx(by_hand.item(), abs=1e-6)
    for name, value in objective.named_buffers():
        torch.testing.assert_close(value, before[name])


@pytest.mark.parametrize("intra", [False, True])
def test_the_constraint_is_measured_without_any_dropout(intra):
    batch, vectors = a_batch()
    p = settings(model="hardkuma", selection=0.3, measure="expected", dropout=0.5, intra=intra)
    built, objective = build_aligner(p, vectors, "classes", 2).train(), build_objective(p).train()
    objective(built, batch)
    assert built.training and built.dropout.training and built.selector.training, "training goes on with dropout"
    held, kept = objective.selection, built.eval().gates(batch.tokens, batch.mask).log_prob_nonzero.exp()
    by_hand = torch.stack([row[cells].mean() for row, cells in zip(kept, batch.mask, strict=True)]).mean()
    assert (held.amount / held.size).item() == pytest.approx(by_hand.item(), abs=1e-6)


def test_a_measurement_of_what_is_selected_counts_what_the_rule_opens():
    batch, vectors = a_batch()
    p = settings(model="hardkuma", selection=0.3, measure="selected", dropout=0.3)
    built, objective = build_aligner(p, vectors, "classes", 2), build_objective(p).train()
    z = built.eval()(batch.tokens, batch.mask).z
    objective(built.train(), batch)
    held = objective.selection
    assert (held.amount / held.size).item() == pytest.approx((z != 0).sum().item() / batch.mask.sum().item(), abs=1e-6)
    assert 0 < (z != 0).sum()


@pytest.mark.parametrize(("rule", "calls"), [("argmax", 0), ("sample", 1)])
def test_gates_alone_are_computed_without_a_decision_unless_it_draws_random_numbers(rule, calls, monkeypatch):
    batch, vectors = a_batch()
    built, made = build_aligner(settings(model="hardkuma", rule=rule), vectors, "classes", 2).eval(), []
    decided = built.decided(batch.mask)
    monkeypatch.setattr(built, "decided", lambda _: lambda gates: made.append(gates) or decided(gates))
    gates = built.gates(batch.tokens, batch.mask)
    torch.testing.assert_close(gates.a, built(batch.tokens, batch.mask).gates.a)
    assert len(made) == calls + 1, "the second pass decides"


@pytest.mark.parametrize("model", ["fusedmax", "hardkuma", "recurrent"])
def test_a_run_learns_to_compare_the_nouns(model, tmp_path):
    p = settings(model=model, hidden_size=12, epochs=14, learning_rate=0.02, dropout=0.0, embedding_size=12, lam=0.01)
    splits = {"train": pairs(240), "dev": pairs(40), "test": pairs(40)}
    result = training.train_aligner(p, splits, "classes", 2, tmp_path)
    assert result.evaluations["test"].metrics["accuracy"] > 0.9
    z = result.evaluations["test"].z
    assert [len(cells) for cells in z] == [len(e.tokens) * len(e.second) for e in splits["test"]]
    assert isinstance(result.model, RecurrentPair if model == "recurrent" else Aligner)


def test_the_score_of_an_aligner_with_all_cells_shut():
    batch, vectors = a_batch()
    p = settings(model="hardkuma", selection=0.3)
    torch.manual_seed(0)
    built = build_aligner(p, vectors, "classes", 2)
    found = score_when_shut(built, batches_of(8))
    output = built(batch.tokens, batch.mask, draw=shut)
    assert output.z.eq(0).all()
    by_hand = (output.prediction.argmax(1) == batch.target).double().mean().item()
    assert found["accuracy_shut"] == pytest.approx(by_hand)
    for without in ({}, {"model": "recurrent"}):
        assert score_when_shut(build_aligner(settings(**without), vectors, "classes", 2), batches_of(8)) == {}


def test_cells_are_shut_once_per_split_after_the_training(tmp_path, monkeypatch):
    drawn, forward = [], Aligner.forward

    def noted(self, sides, mask, num_samples=1, draw=None):
        drawn.append(draw)
        return forward(self, sides, mask, num_samples, draw)

    monkeypatch.setattr(Aligner, "forward", noted)
    p = settings(model="hardkuma", selection=0.3, epochs=3, batch_size=4)
    splits = {"train": pairs(8), "dev": pairs(4), "test": pairs(4)}
    result = training.train_aligner(p, splits, "classes", 2, tmp_path)
    assert drawn.count(shut) == 2, "dev and test"
    assert all("accuracy_shut" in result.evaluations[split].metrics for split in ("dev", "test"))
    assert not any("shut" in column for row in result.history for column in row)


def test_scores_of_cells_set_the_biases_so_that_their_mean_rate_is_the_target():
    batch, vectors = a_batch()
    for seed, rate in ((1, 0.05), (2, 0.3), (3, 0.8)):
        torch.manual_seed(seed)
        p = settings(model="hardkuma", selection=rate, start="target")
        built = build_aligner(p, 3 * vectors, "classes", 2).eval()
        before = built.selector.bias[1].item()
        alignment.start_at(built, rate, batches_of(8))
        gates = built.gates(batch.tokens, batch.mask)
        assert gates.prob_nonzero[batch.mask].mean().item() == pytest.approx(rate, abs=1e-4), f"seed {seed}"
        assert before == 0 and built.selector.bias[1] != 0


def test_setting_the_biases_leaves_an_aligner_in_training_mode():
    built = build_aligner(settings(model="hardkuma", selection=0.3, start="target"), a_batch()[1], "classes", 2).train()
    alignment.start_at(built, 0.3, batches_of(8))
    assert all(part.training for part in built.modules())


def test_a_warm_start_begins_with_the_layers_of_the_run_of_softmax_and_its_scores_become_gates(tmp_path, monkeypatch):
    splits = {"train": pairs(120), "dev": pairs(40), "test": pairs(40)}
    same = {"hidden_size": 12, "embedding_size": 12, "learning_rate": 0.02, "dropout": 0.3}
    of_run = training.train_aligner(settings(epochs=3, **same), splits, "classes", 2, tmp_path).model.state_dict()
    monkeypatch.setattr(alignment, "train", lambda p, model, batches, folder, is_started: (model, is_started))
    gates = same | {"model": "hardkuma", "selection": 0.3, "warm_start": 3, "samples": 2, "epochs": 9}
    for start in ("none", "target"):
        p = settings(start=start, **gates)
        model, is_started = training.train_aligner(p, splits, "classes", 2, tmp_path / start)
        begun = model.state_dict()
        others = [key for key in of_run if not key.startswith("selector.")]
        assert is_started and others and all(torch.equal(of_run[key], begun[key]) for key in others)
        scores = [key for key in of_run if key.startswith("selector.compare.")]
        same_scores = [torch.equal(of_run[key], begun[key.replace("compare", "compare_a")]) for key in scores]
        assert all(same_scores) == (start == "target"), "A is F if there is a bias that makes its scores a rate"


def test_gates_begin_near_the_target_after_a_warm_start_which_a_longer_run_does_not_train_again(tmp_path, capsys):
    p = settings(model="hardkuma", selection=0.3, measure="selected", start="target", hidden_size=12, epochs=2,
                 warm_start=4, embedding_size=12)  # fmt: skip
    splits = {"train": pairs(240), "dev": pairs(40), "test": pairs(40)}
    result = training.train_aligner(p, splits, "classes", 2, tmp_path)
    assert [row["epoch"] for row in result.history] == [1, 2], "those with gates"
    assert result.history[0]["dev_rate_expected"] == pytest.approx(0.3, abs=0.1), (
        "from scratch nearly all cells are open"
    )
    capsys.readouterr()
    p.epochs = 3
    longer = training.train_aligner(p, splits, "classes", 2, tmp_path)
    assert "resumed after epoch 4 of 4" in capsys.readouterr().out
    assert [row["dev_task"] for row in longer.history[:2]] == [row["dev_task"] for row in result.history]


def test_settings_of_gates_are_refused_without_gates():
    for key, value in (("warm_start", 2), ("samples", 3)):
        with pytest.raises(BadInput, match=f"{key}: {value} is not accepted with model softmax"):
            AlignmentSettings.checked({"corpus": "nli_small", key: value})
    with pytest.raises(BadInput, match="multiplier_min: 2 is not accepted with multiplier_max 1"):
        AlignmentSettings.checked(
            {"corpus": "nli_small", "model": "hardkuma", "multiplier_min": 2, "multiplier_max": 1, "selection": 0.1}
        )


def test_an_aligner_learns_how_similar_two_texts_are_which_a_linear_model_of_their_words_cannot(tmp_path):
    """The score is the share of words that both texts have: made up, so every error is one of the model."""
    rng, words = random.Random(1), [f"w{i}" for i in range(12)]
    splits = {name: [] for name in ("train", "dev", "test")}
    for i in range(600):
        first, shared = rng.sample(words, 4), rng.randint(0, 4)
        others = [word for word in words if word not in first]
        second = rng.sample(first[:shared] + rng.sample(others, 4 - shared), 4)
        part = "train" if i < 500 else "dev" if i < 550 else "test"
        splits[part].append(Example((NULL, *first), (shared / 4,), second=(NULL, *second)))
    p = settings(model="softmax", vectors="random", embedding_size=24, hidden_size=24, epochs=8)
    p.learning_rate, p.dropout = 0.01, 0.0
    result = training.train_aligner(p, splits, "scores", 1, tmp_path)
    reached = result.evaluations["test"].metrics["mse"]
    constant = np.var([example.label for example in splits["test"]])
    assert reached < constant / 3, f"the mean squared error is {reached:.4f}; of the mean score it is {constant:.4f}"
    pytest.importorskip("sklearn")
    linear = training.train_tfidf(splits, "scores").metrics["test"]["mse"]
    assert linear > 0.9 * constant, f"the mean squared error of the linear model is {linear:.4f}"
    assert result.best["dev_mse"] <= min(row["dev_mse"] for row in result.history) + 0.015, "lower is better"
    truth = torch.tensor([example.label for example in splits["test"]])
    assert (result.evaluations["test"].answer - truth).square().mean().item() == pytest.approx(reached)
