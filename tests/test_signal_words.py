"""The toy of signal words: its texts are as promised, and its tables agree with the models that they are made of."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch

from rationale.distributions import HardKuma
from rationale.objectives import count_selected
from rationale.training import signal_words
from rationale.training.signal_words import SignalWords


def small_toy(**changes) -> SignalWords:
    usual = {"seed": 0, "batch_size": 8, "embedding_size": 8, "hidden_size": 6, "learning_rate": 0.01}
    return SignalWords(SimpleNamespace(**usual | {"num_steps": 3, "sparsity": 0.03} | changes))


@pytest.mark.parametrize(("length", "copies"), [(10, 1), (6, 4), (3, 3)])
def test_each_text_has_the_signal_of_its_class_as_often_as_asked(length, copies):
    texts = small_toy().texts(200, length, copies)
    signals = signal_words.is_signal(texts)
    assert texts.tokens.shape == (200, length) and texts.mask.all() and signals.sum(1).eq(copies).all()
    assert texts.tokens[signals].view(200, copies).eq(2 + texts.target.unsqueeze(1)).all()
    assert set(texts.target.tolist()) == {0, 1, 2, 3} and texts.tokens.max() < 46
    assert signals.any(0).all(), "at every position"


def test_new_texts_are_the_same_whatever_was_drawn_before():
    toy = small_toy()
    first = toy.new_texts(5, part=3).tokens
    torch.rand(7)
    assert toy.new_texts(5, part=3).tokens.equal(first) and not toy.new_texts(5, part=4).tokens.equal(first)


def test_training_is_repeatable_reports_every_step_and_reads_the_settings_that_are_changed():
    toy = small_toy()
    (one, trace), (two, again) = toy.train(), toy.train()
    assert not one.training and trace["task"].shape == (3,) and trace["task"].equal(again["task"])
    assert all(a.equal(b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    other, of_other = toy.train(num_steps=2, start=2, model="hardkuma", baseline="none", predictor="compact")
    assert len(of_other["task"]) == 2 and other.predictor.mode == "compact" and other.selector.gate.name == "hardkuma"
    opened, _, _ = toy.set_up(bias=4.0)
    assert (opened.selector.gate.logits.bias == 4).all()


def test_a_model_that_selects_by_hand_is_evaluated_as_it_should_be():
    toy = small_toy()
    model, _ = toy.train()
    model.forward = lambda tokens, mask: SimpleNamespace(
        z=(tokens < 6).float() + (torch.arange(10) == 0).float(), prediction=torch.eye(4)[tokens.min(1).values - 2]
    )
    found = toy.evaluate(model, num_texts=500)
    at_first = (toy.new_texts(500, 2).tokens[:, 0] < 6).float().mean().item()
    words = 2 - at_first  # the signal and the first word, which is sometimes the signal
    assert (
        found["accuracy"] == 1 and found["words"] == pytest.approx(words) and found["rate"] == pytest.approx(words / 10)
    )
    assert found["precision"] == pytest.approx(1 / words) and found["kept"].sum(1).eq(1).all()


def test_the_table_of_a_text_has_the_loss_of_each_selection_read_alone():
    toy = small_toy()
    model, _ = toy.train()
    text = toy.new_texts(1, part=5, length=4)
    table = signal_words.task_losses(model, text)
    for row, z in enumerate(itertools.product((0.0, 1.0), repeat=4)):
        with torch.no_grad():
            prediction = model.predictor(model.embed(text.tokens), text.mask, torch.tensor([z]))
        assert table.cost[row].item() == pytest.approx(model.head.loss(prediction, text.target).item(), rel=1e-5)
    priced = signal_words.with_price(table, 0.3)
    assert torch.allclose(priced.cost - table.cost, 0.3 * count_selected(table.selections))


def test_the_mean_of_straight_through_is_that_of_many_draws():
    toy = small_toy()
    model, _ = toy.train(num_steps=20)
    text = toy.new_texts(1, part=5, length=4)
    table = signal_words.task_losses(model, text)
    straight = signal_words.straight_through_gradient(model, text, table, price=0.1)
    torch.manual_seed(0)
    logits = table.logits.float().expand(20_000, -1).clone().requires_grad_()
    p = logits.sigmoid()
    z = (torch.rand(p.shape) < p).float() + p - p.detach()  # the value of a draw, the derivative of its probability
    prediction = model.predictor(model.embed(text.tokens).expand(len(z), -1, -1), text.mask.expand(len(z), -1), z)
    loss = model.head.loss(prediction, text.target.expand(len(z))) + 0.1 * z.sum(1)
    (drawn,) = torch.autograd.grad(loss.sum(), logits)
    error = (drawn.double().mean(0) - straight).abs() / (drawn.double().std(0) / math.sqrt(len(z)))
    assert error.max() < 4.5, f"{error.max():.1f} standard errors off"


def test_the_first_text_with_a_known_answer_and_an_undecided_model_is_taken():
    toy = small_toy()
    model, _ = toy.train(num_steps=1)
    torch.nn.init.zeros_(model.selector.gate.logits.weight)  # every gate is a fair coin, so all are undecided
    model.head.loss = lambda prediction, target: torch.zeros(len(target))  # then the empty selection is the cheapest
    texts = [toy.new_texts(1, part=part, length=3) for part in range(4)]
    assert signal_words.hesitating_text(model, 0.1, texts) is texts[-1], "none fits"
    wanted = texts[2].tokens
    signal = signal_words.is_signal(texts[2])[0].float()

    def loss_of(_, text, z):
        return (z - signal).abs().sum(1) if text.tokens is wanted else torch.zeros(len(z))

    original, signal_words._loss_of = signal_words._loss_of, loss_of
    try:
        assert signal_words.hesitating_text(model, 0.1, texts) is texts[2]
    finally:
        signal_words._loss_of = original
    with pytest.raises(ValueError, match="texts: got none"):
        signal_words.hesitating_text(model, 0.1, [])


def test_the_chances_of_dependent_gates_are_those_of_the_products_and_sum_to_one():
    toy = small_toy()
    model, _ = toy.train(dependent=True)
    text = toy.new_texts(1, part=5, length=5)
    log_chances = signal_words.log_chances(model, text)
    assert log_chances.double().exp().sum().item() == pytest.approx(1, abs=1e-5)
    torch.manual_seed(1)
    with torch.no_grad():
        model.train()
        drawn = model(text.tokens.expand(4000, -1), text.mask.expand(4000, -1)).z
    shares = (drawn @ 2.0 ** torch.arange(4, -1, -1)).long().bincount(minlength=32) / 4000
    spread = (log_chances.exp() / 4000).sqrt()
    assert ((shares - log_chances.exp()).abs() < 5 * spread + 1e-3).all(), "the draws of the model itself"


def test_norms_of_gates_are_ordered_and_agree_with_draws():
    gates = HardKuma(torch.tensor([0.5, 1.0, 2.0]), torch.tensor([0.7, 2.0, 1.0]), -0.1, 1.1)
    torch.manual_seed(0)
    z = gates.sample((40_000,))
    by_draws = {"L0": (z != 0).float().mean(), "L1": z.mean(), "L2": z.square().mean()}
    values = {norm: signal_words.norm_of(gates, norm) for norm in signal_words.NORMS}
    for norm, value in values.items():
        assert value.item() == pytest.approx(by_draws[norm].item(), abs=0.01), norm
    assert values["L0"] > values["L1"] > values["L2"]
    with pytest.raises(ValueError, match="norm: got 'L3'"):
        signal_words.norm_of(gates, "L3")


def test_training_with_a_norm_changes_a_hardkuma_model():
    toy = small_toy()
    model = toy.train_with_norm("L1", rate=0.1)
    fresh = toy.set_up(model="hardkuma", baseline="none", samples=1)[0]
    assert not model.training and model.selector.gate.name == "hardkuma"
    assert any(not a.equal(b) for a, b in zip(model.parameters(), fresh.parameters(), strict=True))


def test_a_running_mean_begins_with_what_there_is():
    values = torch.tensor([4.0, 2.0, 6.0, 0.0])
    assert signal_words.running_mean(values, 2).tolist() == [4, 3, 4, 3]
    assert signal_words.running_mean(values, 10).tolist() == [4, 3, 4, 3]
    assert signal_words.first_below(values, 3) == 1 and signal_words.first_below(values, -1) == math.inf


def test_the_distance_after_zeros_is_that_of_the_states_after_zero_vectors():
    toy = small_toy()
    model, _, _ = toy.set_up(pool="last")
    model.eval()
    lstm = next(part for part in model.predictor.modules() if isinstance(part, torch.nn.LSTM))
    read = torch.zeros(4, 4, 8)
    read[:, 0] = toy.vectors[2:6]  # the four signals, and three zero vectors
    with torch.no_grad():
        states = lstm(read)[0][:, -1, : lstm.hidden_size]
    assert signal_words.distance_after_zeros(model, 3) == pytest.approx(torch.pdist(states).mean().item(), rel=1e-4)
