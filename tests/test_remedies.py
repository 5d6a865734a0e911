"""Remedies against degeneration: a shared encoder, a second predictor, whole texts first, guidance by gold words."""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import pytest
import torch
from scipy.spatial.distance import jensenshannon
from small import corpus, parameters, train
from tiny_models import extractor, settings_of, texts

from rationale.data import Example
from rationale.data.batches import Batches, Vocabulary
from rationale.distributions import HardKuma
from rationale.errors import BadInput
from rationale.nn.heads import HEADS
from rationale.objectives import build_objective, guidance
from rationale.runs import saved
from rationale.training.settings import ExtractionSettings

OFF = {"selection": 0.4, "dropout": 0.0}


def loss_of(case, batch=None):
    """Loss and parts of one training pass whose draws are always the same."""
    torch.manual_seed(0)
    return case.objective.train()(case.model.train(), case.batch if batch is None else batch)


# --- an encoder shared by both players


@pytest.mark.parametrize("encoder", ["lstm", "rcnn"])
@pytest.mark.parametrize("dependent", [False, True])
def test_a_shared_encoder_is_one_set_of_parameters_that_both_players_train(encoder, dependent):
    case = extractor("cpu", shared_encoder=True, encoder=encoder, dependent=dependent, **OFF)
    apart = extractor("cpu", encoder=encoder, dependent=dependent, **OFF)
    ours, theirs = case.model.selector.encoder, case.model.predictor.encoder
    assert ours is theirs and apart.model.selector.encoder is not apart.model.predictor.encoder
    size, both = (sum(value.numel() for value in one.model.parameters()) for one in (case, apart))
    assert both - size == sum(value.numel() for value in ours.parameters())
    output = case.model.train()(case.batch.tokens, case.batch.mask)
    first = next(ours.parameters())
    for part in (output.gates.log_prob_nonzero.sum(), output.prediction.square().sum()):
        (gradient,) = torch.autograd.grad(part, first, retain_graph=True)
        assert gradient.ne(0).any(), "each player alone moves it"


ALL = {"closeness": 0.5, "whole_text_epochs": 1}


OF_STATES = {"closeness": 0.5, "second_reads": "states"}
EACH = [{"shared_encoder": True}, {"closeness": 0.5}, OF_STATES, {"whole_text_epochs": 1}, ALL]


@pytest.mark.parametrize("changes", EACH)
def test_a_run_with_a_remedy_is_saved_loaded_and_continued(changes, tmp_path):
    result = train(tmp_path, epochs=2, **changes)
    saved.save_run(tmp_path, result, SimpleNamespace(**vars(parameters(epochs=2, **changes))))
    run = saved.load_run(tmp_path)
    text = corpus()["dev"][0].tokens
    batch = Batches([Example(text, 0)], result.vocabulary, 1).rows(torch.arange(1))
    with torch.no_grad():
        own, loaded = (model(batch.tokens, batch.mask) for model in (result.model, run.model))
    assert torch.equal(own.prediction, loaded.prediction) and torch.equal(own.z, loaded.z)
    unbroken = train(tmp_path / "whole", epochs=3, **changes)
    longer = train(tmp_path, epochs=3, **changes)
    assert len(longer.history) == len(unbroken.history) == 3


# --- an auxiliary predictor


@pytest.mark.parametrize("head", HEADS)
def test_a_divergence_is_zero_at_equality_and_symmetric(head):
    torch.manual_seed(1)
    one = HEADS[head](4, 3)
    a, b = one(torch.randn(50, 4)), one(torch.randn(50, 4))
    assert one.divergence(a, a).abs().max() < 1e-6
    many = torch.randn(2000, 5).sigmoid()
    assert one.divergence(many, many).eq(0).all()
    assert torch.allclose(one.divergence(a, b), one.divergence(b, a)) and (one.divergence(a, b) > 0).all()
    moved = a.detach().requires_grad_()
    one.divergence(moved, a.detach()).sum().backward()
    assert moved.grad.abs().max() < 1e-6, "equal predictions are a minimum"


def test_the_divergence_of_classes_is_that_of_scipy_and_at_most_ln_2():
    torch.manual_seed(2)
    a, b = 4 * torch.randn(2, 30, 5, dtype=torch.float64)
    expected = jensenshannon(a.softmax(1).numpy(), b.softmax(1).numpy(), axis=1) ** 2
    head = HEADS["classes"](2, 5)
    assert head.divergence(a, b).numpy() == pytest.approx(expected, rel=1e-9)
    certain = torch.tensor([[0.0, 2e4]])
    assert head.divergence(certain, -certain + 2e4).item() == pytest.approx(math.log(2))


@pytest.mark.parametrize("model", ["hardkuma", "bernoulli"])
def test_the_loss_has_the_divergence_and_the_task_of_the_auxiliary_predictor(model):
    case = extractor("cpu", closeness=0.7, model=model, **OFF)
    torch.manual_seed(0)
    output = case.model.train()(case.batch.tokens, case.batch.mask)
    found = case.objective.eval().loss(output, case.batch, case.model.head)
    plain = case.objective.loss(output._replace(auxiliary=None), case.batch, case.model.head)
    head = case.model.head
    apart = head.divergence(output.prediction, output.auxiliary).mean()
    second = head.loss(output.auxiliary, case.batch.target).mean()
    assert (found.loss - plain.loss).item() == pytest.approx((0.7 * apart + second).item(), rel=1e-4)
    assert found.parts["divergence"].item() == pytest.approx(apart.item())
    assert found.parts["task"] == plain.parts["task"], "the task alone"


def test_the_auxiliary_predictor_reads_every_word_by_its_probability_and_only_in_training():
    case = extractor("cpu", closeness=0.7, **OFF)
    model, batch = case.model.train(), case.batch
    output = model(batch.tokens, batch.mask)
    weights = output.gates.prob_nonzero * batch.mask
    expected = model.auxiliary(model.embed(batch.tokens), batch.mask, weights)
    assert torch.allclose(output.auxiliary, expected, atol=1e-6)
    shut = output.z[0] == 0
    (gradient,) = torch.autograd.grad(output.auxiliary.square().sum(), next(model.selector.gate.parameters()))
    assert gradient.ne(0).any() and (weights[0][batch.mask[0] & shut] > 0).all(), "unselected words, too"
    assert model.eval()(batch.tokens, batch.mask).auxiliary is None
    assert extractor("cpu", **OFF).model.auxiliary is None, "off by default"


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("shared_encoder", [False, True])
def test_an_auxiliary_predictor_of_states_needs_no_other_pass_and_trains_the_encoder_of_the_selector(
    shared_encoder, dependent, monkeypatch
):
    changes = OFF | {"shared_encoder": shared_encoder, "dependent": dependent}
    case, plain = (extractor("cpu", **changes, **more) for more in (OF_STATES, {}))
    model, batch = case.model.train(), case.batch
    sizes = [sum(value.numel() for value in one.model.parameters()) for one in (case, plain)]
    assert sizes[0] - sizes[1] == sum(value.numel() for value in model.auxiliary.head.parameters()), "one head more"
    passes = []
    for encoder in {model.selector.encoder, model.predictor.encoder}:
        read = encoder.read
        monkeypatch.setattr(encoder, "read", lambda *args, read=read: passes.append(args) or read(*args))
    output = model(batch.tokens, batch.mask, num_samples=2)
    assert len(passes) == 2, "the selector reads the text, and the predictor reads what is selected"
    expected = model.auxiliary.predict(*model.selector.read(model.embed(batch.tokens), batch.mask), batch.mask)
    assert torch.allclose(output.auxiliary, torch.cat([expected, expected]), atol=1e-6), "the same for each draw"
    loss = output.auxiliary.square().sum()
    (gradient,) = torch.autograd.grad(loss, next(model.selector.encoder.parameters()), retain_graph=True)
    assert gradient.ne(0).any()
    gate = torch.autograd.grad(loss, next(model.selector.gate.parameters()), allow_unused=True)
    assert gate == (None,), "it tells the gates nothing by itself"
    assert model.eval()(batch.tokens, batch.mask).auxiliary is None


def test_what_no_auxiliary_predictor_reads_is_refused():
    with pytest.raises(
        BadInput, match="second_reads: states is not accepted with closeness 0; give words, or closeness above 0"
    ):
        ExtractionSettings.checked({"second_reads": "states"})


# --- a predictor that reads the whole text first


@pytest.mark.parametrize("model", ["hardkuma", "bernoulli"])
def test_in_the_first_epochs_the_predictor_reads_every_word_and_no_gate_is_trained(model):
    changes = OFF | {"model": model, "whole_text_epochs": 2, "baseline": "average" if model == "bernoulli" else "none"}
    case = extractor("cpu", **changes)
    case = case._replace(objective=build_objective(settings_of(ExtractionSettings, changes), 3, True, 0.7, 10))
    net, batch = case.model, case.batch
    read = net.head.loss(net.predictor(net.embed(batch.tokens), batch.mask, batch.mask.float()), batch.target).mean()
    for _ in range(6):  # two epochs of three steps
        step = loss_of(case)
        assert step.loss.item() == pytest.approx(read.item()) and step.parts["rate"] == 1
        net.zero_grad()
        step.loss.backward()
        trained = {
            part for part, value in net.named_children() for weight in value.parameters() if weight.grad is not None
        }
        assert trained == {"predictor"}, "the selector has no gradient"
        assert case.objective.selection.multiplier == 0, "nothing is held yet"
    step = loss_of(case)
    step.loss.backward()
    assert step.parts["rate"] < 1 and all(weight.grad is not None for weight in net.selector.parameters())
    assert case.objective.selection.size > 0, "now the rate is measured"


def test_what_is_said_in_epochs_counts_from_the_first_epoch_with_gates():
    changes = OFF | {"selection_start": 0.9, "selection_moves": 0.5, "warmup": 1.0, "sparsity": 0.01}
    for whole, held_from, expected in ((0, 1, (0, 40)), (2, 1, (16, 32)), (2, 5, (32, 24)), (4, 3, (32, 24))):
        more = {"whole_text_epochs": whole, "constraint_from": held_from}
        objective = build_objective(settings_of(ExtractionSettings, changes | more), 8, True, 0.7, 10)
        assert (objective.held_after, objective.selection.moves) == expected, (
            f"{more}: half of the epochs that are left"
        )
        assert objective.warmup == 8 and objective.whole_texts == 8 * whole
    objective.steps += 33
    assert objective.variant is None
    case = extractor("cpu", **OFF)
    prices = []
    for steps in (32, 35, 39, 60):
        objective.steps.fill_(steps)
        output = case.model.train()(case.batch.tokens, case.batch.mask)
        prices.append(
            objective.train()._price(output, case.batch.mask) / objective.eval()._price(output, case.batch.mask)
        )
    assert [price.mean().item() for price in prices] == pytest.approx([1 / 8, 4 / 8, 1, 1]), (
        "the price rises from then on"
    )


# --- guidance by gold words


def gates_of(raw):
    a, b = torch.nn.functional.softplus(raw).unbind(-1)
    return HardKuma(a + 0.1, b + 0.1, -0.1, 1.1)


def test_the_gradient_of_guidance_is_that_of_finite_differences():
    torch.manual_seed(3)
    raw = torch.randn(2, 5, 2, dtype=torch.float64, requires_grad=True)
    guide = torch.tensor([[1, 0, 1, -1, -1], [0, 0, 1, 1, -1]])

    def missed(raw):
        gates = gates_of(raw)
        return guidance(gates.log_prob_nonzero, gates.log_prob_zero, guide)

    assert torch.autograd.gradcheck(missed, (raw,), eps=1e-6, atol=1e-6)
    (gradient,) = torch.autograd.grad(missed(raw), raw)
    assert gradient[guide < 0].eq(0).all() and gradient[guide >= 0].ne(0).any(-1).all()


def test_guidance_is_the_mean_cross_entropy_of_the_words_that_are_spoken_of():
    p = torch.tensor([[0.9, 0.2, 0.5], [0.6, 0.3, 0.1]])
    guide = torch.tensor([[1, 0, -1], [-1, -1, 1]])
    expected = -(math.log(0.9) + math.log(0.8) + math.log(0.1)) / 3
    assert guidance(p.log(), (1 - p).log(), guide).item() == pytest.approx(expected, rel=1e-5)
    silent = guidance(p.log(), torch.full_like(p, -math.inf), torch.full_like(guide, -1))
    assert silent.item() == 0


def test_guidance_keeps_all_digits_of_float64():
    """torch divides by a whole number in float32."""
    p = torch.tensor([[0.9, 0.2, 0.5], [0.6, 0.3, 0.1]], dtype=torch.float64)
    guide = torch.tensor([[1, 0, -1], [-1, -1, 1]])
    expected = -math.fsum(map(math.log, (0.9, 0.8, 0.1))) / 3
    assert guidance(p.log(), (-p).log1p(), guide).item() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("share", ["0.07", "0.14", "0.55", "0.3", "0.005", "1e-12"])
def test_the_share_of_texts_that_guide_is_rounded_up_as_a_decimal_number(share):
    batches = Batches([Example(("a",), 0, (True,))] * 100, Vocabulary(["a"]), 100, guided=float(share))
    (batch,) = batches.epoch(1)
    assert int((batch.guide >= 0).sum()) == math.ceil(Fraction(share) * 100)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_share_of_the_texts_guides_and_the_seed_chooses_which(share):
    examples = corpus()["train"]
    vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))

    def guides(seed, share=share):
        batches = Batches(examples, vocabulary, 7, seed=seed, guided=share)
        found = {}
        for batch in batches.epoch(1):
            for row, guide, mask in zip(batch.rows.tolist(), batch.guide, batch.mask, strict=True):
                assert (guide[~mask] == -1).all(), "padding"
                found[row] = tuple(guide[mask].tolist())
        return found

    found = guides(1)
    speaking = {row for row, guide in found.items() if max(guide) >= 0}
    assert len(speaking) == math.ceil(share * len(examples))
    assert all(found[row] == tuple(map(int, examples[row].rationale)) for row in speaking)
    assert all(set(found[row]) == {-1} for row in found.keys() - speaking)
    assert guides(1) == found and (share == 1 or guides(2) != found)
    assert Batches(examples, vocabulary, 7).rows(torch.arange(3)).guide is None, "off by default"


def test_the_share_that_guides_is_one_of_the_annotated_texts():
    """Were it drawn from all texts, a third of the seeds would find none, and the guidance would be refused."""
    examples = [example if i < 5 else replace(example, rationale=None) for i, example in enumerate(corpus()["train"])]
    vocabulary = Vocabulary(sorted({word for example in examples for word in example.tokens}))
    for seed in range(20):
        batches = Batches(examples, vocabulary, len(examples), seed=seed, guided=0.4)
        (batch,) = batches.epoch(1)
        speaking = set(batch.rows[batch.guide.amax(1) >= 0].tolist())
        assert len(speaking) == 2 and speaking < set(range(5)), f"seed {seed}"


def test_guidance_without_gold_words_is_refused():
    plain = [Example(e.tokens, e.label) for e in corpus()["train"]]
    with pytest.raises(BadInput, match="guidance: no training text has a gold rationale"):
        Batches(plain, Vocabulary([]), 4, guided=0.5)


def test_the_loss_has_the_guidance_in_training_only():
    case = extractor("cpu", guidance=0.5, **OFF)
    guide = torch.where(case.batch.mask, case.batch.tokens % 2, -1).to(torch.int8)
    guided = case.batch._replace(guide=guide)
    silent = extractor("cpu", **OFF).objective
    torch.manual_seed(0)
    output = case.model.train()(guided.tokens, guided.mask)
    missed = guidance(output.gates.log_prob_nonzero, output.gates.log_prob_zero, guide)
    found = case.objective.train().loss(output, guided, case.model.head)
    plain = silent.train().loss(output, case.batch, case.model.head)
    assert (found.loss - plain.loss).item() == pytest.approx(0.5 * missed.item(), rel=1e-4)
    assert found.parts["guidance"].item() == pytest.approx(missed.item())
    assert case.objective.eval().loss(output, guided, case.model.head).loss == plain.loss


def test_gates_that_are_guided_learn_the_gold_words_of_their_texts(tmp_path):
    freely = {"epochs": 10, "selection": None, "learning_rate": 0.03}
    guided, alone = (train(tmp_path / str(price), guidance=price, **freely).history for price in (1.0, 0.0))
    missed = [row["train_guidance"] for row in guided]
    share = sum(map(sum, (e.rationale for e in corpus()["train"]))) / sum(len(e.tokens) for e in corpus()["train"])
    blind = -share * math.log(share) - (1 - share) * math.log(1 - share)  # what the share of gold words alone reaches
    assert missed[0] > 1.1 * blind > missed[-1], f"{missed[0]:.3f} to {missed[-1]:.3f} nats, blind {blind:.3f}"
    assert "train_guidance" not in alone[0]


# --- all of them


def test_remedies_are_off_by_default_and_change_nothing_then():
    case, batch = extractor("cpu", **OFF), texts("cpu")
    objective = build_objective(settings_of(ExtractionSettings, OFF), 4)
    assert (objective.closeness, objective.guidance, objective.whole_texts) == (0.0, 0.0, 0)
    assert set(loss_of(case, batch).parts) == {"task", "rate"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "full_text", "closeness": 0.1}, "closeness: 0.1 is not accepted with model full_text"),
        ({"model": "full_text", "guidance": 0.1}, "guidance: 0.1 is not accepted with model full_text"),
        ({"model": "full_text", "shared_encoder": True}, "shared_encoder: true is not accepted with model full_text"),
        ({"model": "full_text", "whole_text_epochs": 1}, "whole_text_epochs: 1 is not accepted with model full_text"),
        ({"epochs": 2, "whole_text_epochs": 2}, "whole_text_epochs: 2 is not accepted with epochs 2; give null, or a"),
        ({"guided": 0.5}, "guided: 0.5 is not accepted without guidance"),
        ({"guidance": 1.0, "guided": 0.0}, "guided: 0"),
    ],
)
def test_remedies_without_effect_are_refused(changes, message):
    with pytest.raises(BadInput, match=message):
        ExtractionSettings.checked({"selection": None, **changes})
