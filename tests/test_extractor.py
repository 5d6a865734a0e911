"""The extractor: who sees what, what is sampled and what is decided, and how it is initialised."""

import math

import pytest
import torch
from small import parameters
from torch import nn
from torch.distributions import Distribution

from rationale.models import Predictor, build_extractor, compact
from rationale.nn import Classes, RCNNCell, Scores, decide, initialise, top_k


def built(head: str = "classes", num_outputs: int = 3, **changes):
    """A small extractor without dropout, and a batch of three texts of 6, 4 and 1 tokens."""
    torch.manual_seed(0)
    model = build_extractor(parameters(dropout=0.0, **changes), torch.randn(20, 8), head, num_outputs)
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])
    return model, torch.randint(2, 20, (3, 6)).where(mask, 1), mask


def num_trained(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters() if value.requires_grad)


# --- sizes


def test_sizes_are_those_of_the_paper():
    p, vectors = parameters(embedding_size=300, hidden_size=150), torch.zeros(3, 300)
    model = build_extractor(p, vectors, "classes", 5)
    assert num_trained(model.predictor) == 543_905, "classifier, spec B.4"
    assert num_trained(model.selector) == 543_002, "HardKuma selector, spec B.4"
    assert num_trained(model) == 543_905 + 543_002, "word vectors are not trained"
    full_text = build_extractor(parameters(hidden_size=150, model="full_text"), vectors, "classes", 5)
    assert num_trained(full_text) == 543_905


def test_the_bernoulli_selector_of_the_paper_has_542701_parameters():
    sizes = {"embedding_size": 300, "hidden_size": 150}
    for model in ("bernoulli", "straight_through"):
        built = build_extractor(parameters(model=model, **sizes), torch.zeros(3, 300), "classes", 5)
        assert num_trained(built.selector) == 542_701, f"{model}: independent Bernoulli generator of SST, spec B.4"


@pytest.mark.parametrize(("model", "generator"), [("bernoulli", 358_281), ("hardkuma", 358_712)])
def test_gate_and_memory_of_a_dependent_selector_have_the_papers_size(model, generator):
    """Spec B.4 counts them over an encoder of 320,800 parameters and as many states (400) as this one."""
    p = parameters(model=model, dependent=True, hidden_size=200)
    selector = build_extractor(p, torch.zeros(3, 200), "classes", 5).selector
    assert num_trained(selector) - num_trained(selector.encoder) == generator - 320_800


@pytest.mark.parametrize(
    ("pool", "features"), [("final", 12), ("last", 6), ("mean", 12), ("max", 12), ("attention", 12)]
)
def test_the_head_has_the_size_of_what_the_pool_gives(pool, features):
    model, tokens, mask = built(pool=pool)
    assert model.head.output.in_features == features
    assert model(tokens, mask).prediction.shape == (3, 3)


# --- compact


def test_compact_is_the_plain_loop():
    torch.manual_seed(0)
    values, keep = torch.randn(5, 90, 2), torch.rand(5, 90) < 0.5
    keep[1], keep[2] = False, True
    closed, mask = compact(values, keep)
    assert mask.shape == (5, int(keep.sum(1).max())) and closed.shape == (*mask.shape, 2)
    for row in range(5):
        kept = [values[row, t] for t in range(90) if keep[row, t]]
        assert mask[row].tolist() == [True] * len(kept) + [False] * (mask.shape[1] - len(kept)), f"row {row}"
        for t, value in enumerate(kept):
            assert closed[row, t].equal(value), f"row {row}: token {t} of the rationale"


def test_compact_of_nothing_is_one_column_of_padding():
    closed, mask = compact(torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=torch.bool))
    assert closed.shape == (2, 1, 3) and not mask.any()


def test_compact_of_no_text_has_no_row():
    closed, mask = compact(torch.randn(0, 4, 3), torch.zeros(0, 4, dtype=torch.bool))
    assert closed.shape == (0, 1, 3) and mask.shape == (0, 1)


def test_compact_of_texts_without_a_position_has_none():
    closed, mask = compact(torch.randn(2, 0, 3), torch.zeros(2, 0, dtype=torch.bool))
    assert closed.shape == (2, 0, 3) and mask.shape == (2, 0)


@pytest.mark.parametrize("encoder", ["lstm", "rcnn"])
@pytest.mark.parametrize("pool", ["final", "last", "mean", "max", "attention"])
def test_texts_without_a_position_are_predicted_as_empty_rationales_are(encoder, pool):
    for mode in ("zero", "compact"):
        model = built(predictor=mode, encoder=encoder, pool=pool)[0].eval()
        tokens, mask = torch.zeros(2, 0, dtype=torch.long), torch.zeros(2, 0, dtype=torch.bool)
        padding = torch.zeros(2, 1, dtype=torch.long)
        with torch.no_grad():
            wanted = model.predictor(model.embed(padding), padding.bool(), padding.float())
            torch.testing.assert_close(model(tokens, mask).prediction, wanted)
        selected = model.predict_selected(tokens, mask, torch.zeros(3, 2, 0))
        torch.testing.assert_close(selected, wanted.expand(3, 2, -1))


def test_compact_passes_gradients_to_the_kept_positions_only():
    values = torch.randn(2, 4, 3, requires_grad=True)
    keep = torch.tensor([[True, False, True, False], [False, False, False, True]])
    closed, mask = compact(values, keep)
    closed[mask].sum().backward()
    assert values.grad.eq(keep.unsqueeze(-1).float()).all()


# --- what the predictor sees


def predictor_and_text(mode: str):
    """A predictor, one text of 6 tokens, and gates of which 2 are open."""
    torch.manual_seed(0)
    model, _, _ = built(predictor=mode)
    z = torch.tensor([[0.0, 1.0, 0.0, 0.0, 0.4, 0.0]])
    return model.predictor.eval(), torch.randn(1, 6, 8), z


def predict(predictor, embedded, z):
    with torch.no_grad():
        return predictor(embedded, torch.ones_like(z, dtype=torch.bool), z)


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_words_that_are_not_selected_may_be_replaced(mode):
    predictor, embedded, z = predictor_and_text(mode)
    others = torch.where(z.unsqueeze(-1) > 0, embedded, torch.randn_like(embedded))
    assert predict(predictor, embedded, z).equal(predict(predictor, others, z)), f"{mode}: an unselected word leaks"


def test_compact_sees_the_rationale_alone_and_zero_sees_length_and_gaps():
    for mode in ("zero", "compact"):
        predictor, embedded, z = predictor_and_text(mode)
        whole = predict(predictor, embedded, z)
        without = predict(predictor, embedded[:, z[0] > 0], z[:, z[0] > 0])  # only the two selected words
        spread = torch.tensor([1, 0, 2, 3, 5, 4])  # the same two words in order, other gaps
        moved = predict(predictor, embedded[:, spread], z[:, spread])
        for name, prediction in (("words removed", without), ("gaps moved", moved)):
            same = torch.allclose(whole, prediction, atol=1e-6)
            assert same == (mode == "compact"), (
                f"{mode}, {name}: a compact predictor must not notice, "
                "an LSTM over zeros does (trap I-7): unselected words still advance its state"
            )


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_an_empty_rationale_gives_a_finite_prediction_and_gradient(mode):
    predictor, embedded, _ = predictor_and_text(mode)
    z = torch.zeros(1, 6, requires_grad=True)
    prediction = predictor(embedded, torch.ones(1, 6, dtype=torch.bool), z)
    prediction.sum().backward()
    gradients = [value.grad for value in predictor.parameters() if value.grad is not None]
    assert prediction.isfinite().all() and all(value.isfinite().all() for value in gradients)


def test_the_length_of_an_unread_text_reaches_only_the_zero_predictor():
    for mode in ("zero", "compact"):
        predictor, embedded, _ = predictor_and_text(mode)
        nn.init.uniform_(predictor.encoder.ahead.bias_ih_l0)  # with zero biases an LSTM stays at zero on zeros
        short, long = (predict(predictor, embedded[:, :n], torch.zeros(1, n)) for n in (2, 6))
        assert short.equal(long) == (mode == "compact"), f"{mode}: predictions of two texts with no word selected"


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode: got 'skip', accepted are 'zero', 'compact'"):
        Predictor(nn.Identity(), nn.Identity(), mode="skip")


# --- training mode and evaluation mode


@pytest.mark.parametrize("model", ["hardkuma", "hard_concrete", "bernoulli", "straight_through"])
@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_it_samples_in_training_and_decides_in_evaluation(model, mode):
    model, tokens, mask = built(model=model, predictor=mode)
    first, second = model.train()(tokens, mask), model(tokens, mask)
    assert not first.z.equal(second.z), "two training passes draw two rationales"
    with torch.no_grad():
        first, second = model.eval()(tokens, mask), model(tokens, mask)
    assert first.z.equal(second.z) and first.prediction.equal(second.prediction)
    assert first.z.equal(decide(first.gates, "argmax") * mask)


@pytest.mark.parametrize("rule", ["argmax_conditional", "expected", "threshold"])
def test_evaluation_follows_the_rule_it_was_built_with(rule):
    model, tokens, mask = built(rule=rule)
    with torch.no_grad():
        output = model.eval()(tokens, mask)
    assert output.z.equal(decide(output.gates, rule) * mask)


def test_evaluation_uses_the_threshold_and_the_budget_it_was_built_with():
    for threshold, kept in ((1e-9, "all"), (0.9, "some"), (1.0, "none")):
        model, tokens, mask = built(rule="threshold", threshold=threshold)
        output = model.eval()(tokens, mask)
        expected = (output.gates.log_prob_nonzero.exp() >= threshold) & mask
        assert output.z.equal(expected.float())
        share = output.z[mask].mean()
        assert (share == 1, share == 0) == (kept == "all", kept == "none"), f"threshold {threshold}: {share:.2f}"
    model, tokens, mask = built(rule="top_k", budget=0.5)
    output = model.eval()(tokens, mask)
    assert output.z.sum(1).tolist() == [3, 2, 1], "half of 6, 4 and 1 words, at least one"
    assert output.z.equal(top_k(output.gates.log_prob_nonzero, mask, 0.5))


@pytest.mark.parametrize("rule", ["argmax", "threshold", "top_k"])
@pytest.mark.parametrize("model", ["hardkuma", "bernoulli", "attention", "full_text"])
def test_several_draws_in_evaluation_are_the_same_decision_several_times(model, rule):
    model, tokens, mask = built(model=model, rule=rule, budget=0.5)
    once, thrice = model.eval()(tokens, mask), model(tokens, mask, 3)
    torch.testing.assert_close(thrice.z, once.z.repeat(3, 1))
    torch.testing.assert_close(thrice.prediction, once.prediction.repeat(3, 1))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("model", ["hardkuma", "hard_concrete", "bernoulli", "full_text", "attention"])
def test_gates_are_zero_at_padding_and_in_the_unit_interval_elsewhere(model, training):
    model, tokens, mask = built(model=model)
    z = model.train(training)(tokens, mask).z
    assert z[~mask].eq(0).all() and ((z >= 0) & (z <= 1)).all()


def test_padding_does_not_change_a_prediction():
    model, tokens, mask = built()
    with torch.no_grad():
        together = model.eval()(tokens, mask)
        for row, length in enumerate(mask.sum(1).tolist()):
            alone = model(tokens[row : row + 1, :length], mask[row : row + 1, :length])
            torch.testing.assert_close(alone.prediction[0], together.prediction[row])
            torch.testing.assert_close(alone.z[0], together.z[row, :length])


def test_nothing_is_kept_between_passes():
    model, tokens, mask = built()

    def everything():
        fields = {f"{name}.{key}" for name, module in model.named_modules() for key in vars(module)}
        return fields, {name: value.clone() for name, value in model.state_dict().items()}

    fields, before = everything()
    model.train()(tokens, mask).prediction.sum().backward()
    model.eval()(tokens, mask)
    assert everything()[0] == fields, "a pass put something on a module"
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_a_full_text_model_reads_everything_and_has_no_gates():
    model, tokens, mask = built(model="full_text")
    output = model(tokens, mask)
    assert output.gates is None and model.gates(tokens, mask) is None
    assert output.z.equal(mask.float())


# --- attention: reads everything, and says what counts


@pytest.mark.parametrize("mode", ["zero", "compact"])
@pytest.mark.parametrize("training", [True, False])
def test_an_attention_model_reads_everything_and_weighs_it(mode, training):
    model, tokens, mask = built(model="attention", predictor=mode)
    output = model.train(training)(tokens, mask)
    assert output.gates is None and output.z.equal(mask.float())
    weights = model.importance(tokens, mask)
    assert weights.shape == mask.shape and weights[~mask].eq(0).all() and (weights[mask] > 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    states, _ = model.predictor.encoder(model.embed(tokens), mask)
    text = (weights.unsqueeze(-1) * states).sum(1)
    torch.testing.assert_close(model.head(text), output.prediction, msg="the head reads the weighted sum of the states")


@pytest.mark.parametrize("rule", ["top_k", "threshold"])
def test_the_choice_of_an_attention_model_and_its_importance_need_one_reading_of_the_text(rule):
    model, tokens, mask = built(model="attention", rule=rule, budget=0.4 if rule == "top_k" else 1.0)
    readings = []
    model.eval().predictor.encoder.register_forward_hook(lambda *_: readings.append(1))
    z, importance = model.chosen(tokens, mask)
    assert len(readings) == 1
    assert z.equal(model.attended(tokens, mask))
    torch.testing.assert_close(importance, model.importance(tokens, mask).detach())


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_the_importance_of_a_word_does_not_depend_on_the_padding(mode):
    model, tokens, mask = built(model="attention", predictor=mode)
    wider = torch.nn.functional.pad(tokens, (0, 4), value=1), torch.nn.functional.pad(mask, (0, 4))
    weights = model.eval().importance(*wider)
    assert weights.shape == (3, 10) and weights[:, 6:].eq(0).all()
    torch.testing.assert_close(weights[:, :6], model.importance(tokens, mask))


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_attention_with_top_k_reads_only_the_words_of_the_largest_weights_again(mode):
    model, tokens, mask = built(model="attention", predictor=mode, rule="top_k", budget=0.4)
    assert model.train()(tokens, mask).z.equal(mask.float()), "in training it reads everything"
    output = model.eval()(tokens, mask)
    weights = model.importance(tokens, mask)
    assert output.z.equal(top_k(weights, mask, 0.4)) and output.z.sum(1).tolist() == [2, 2, 1]
    others = torch.where(output.z.unsqueeze(-1) > 0, model.embed(tokens), torch.randn(3, 6, 8))
    assert model.predictor(others, mask, output.z).equal(output.prediction), "a word that is not among the top leaks"
    whole = model.predictor(model.embed(tokens), mask, mask.float())
    assert not torch.allclose(whole[:2], output.prediction[:2]), "reading less gives another prediction"
    torch.testing.assert_close(whole[2], output.prediction[2], msg="a text of one word keeps it")


@pytest.mark.parametrize("model", ["hardkuma", "bernoulli"])
@pytest.mark.parametrize("dependent", [True, False])
def test_importance_of_gates_is_the_logarithm_of_their_chance_to_be_open(model, dependent):
    model, tokens, mask = built(model=model, dependent=dependent)
    importance = model.eval().importance(tokens, mask)
    assert importance.equal(model(tokens, mask).gates.log_prob_nonzero) and importance.shape == mask.shape
    assert importance.equal(model.importance(tokens, mask)), "nothing is drawn"


def test_a_full_text_model_says_nothing_of_words_and_reads_all_of_them_under_every_rule():
    model, tokens, mask = built(model="full_text", rule="top_k", budget=0.4)
    assert model.eval()(tokens, mask).z.equal(mask.float())
    with pytest.raises(ValueError, match="without gates and without attention"):
        model.importance(tokens, mask)


def test_gates_alone_are_those_of_a_pass():
    model, tokens, mask = built()
    gates = model.eval().gates(tokens, mask)
    assert isinstance(gates, Distribution)
    assert gates.prob_zero.equal(model(tokens, mask).gates.prob_zero)


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_the_task_alone_teaches_the_selector_through_z(mode):
    model, tokens, mask = built(predictor=mode)
    model.head.loss(model.train()(tokens, mask).prediction, torch.tensor([0, 1, 2])).mean().backward()
    for name, value in model.named_parameters():
        assert value.grad is not None and value.grad.isfinite().all(), name
        assert value.grad.ne(0).any(), f"no gradient reaches {name}"


def test_selector_and_predictor_share_nothing_but_the_vectors():
    model, _, _ = built()
    mine = {id(value) for value in model.selector.parameters()}
    assert mine.isdisjoint(id(value) for value in model.predictor.parameters())


def test_dropout_acts_in_training_only():
    torch.manual_seed(0)
    model = build_extractor(parameters(dropout=0.5, model="full_text"), torch.randn(20, 8), "classes", 3)
    tokens, mask = torch.randint(2, 20, (4, 6)), torch.ones(4, 6, dtype=torch.bool)
    assert not model.train()(tokens, mask).prediction.equal(model(tokens, mask).prediction)
    assert model.eval()(tokens, mask).prediction.equal(model(tokens, mask).prediction)


def test_dropout_acts_on_the_words_of_both_parts_and_on_the_state_that_the_head_reads():
    torch.manual_seed(0)
    model = build_extractor(parameters(dropout=0.5, encoder="lstm"), torch.randn(20, 8) + 3, "classes", 3)
    tokens, mask = torch.randint(2, 20, (4, 6)), torch.ones(4, 6, dtype=torch.bool)
    share = {}

    def record(name):
        return lambda module, given: share.update({name: given[0].eq(0).float().mean().item()})

    parts = {"selector": model.selector.encoder, "predictor": model.predictor.encoder, "head": model.head}
    for name, part in parts.items():
        part.register_forward_pre_hook(record(name))
    model.train()(tokens, mask)
    assert all(share[name] > 0.2 for name in parts), f"a unit in two is dropped: {share}"
    model.eval()(tokens, mask)
    assert share["selector"] == share["head"] == 0


# --- word vectors that are trained


@pytest.mark.parametrize("model", ["hardkuma", "full_text"])
def test_random_word_vectors_are_trained_if_the_settings_say_so(model):
    vectors, tokens, mask = torch.randn(20, 8), torch.randint(2, 20, (4, 6)), torch.ones(4, 6, dtype=torch.bool)
    trained, fixed, of_file = (
        build_extractor(parameters(model=model, **changes), vectors, "classes", 3)
        for changes in ({"train_vectors": True}, {}, {"train_vectors": True, "vectors": "glove.6B.50d"})
    )
    trained.train()(tokens, mask).prediction.sum().backward()
    rows = trained.vectors.grad.abs().sum(1) > 0
    assert rows.any() and not rows[[k for k in range(20) if k not in tokens]].any()
    assert "vectors" in dict(trained.named_parameters()) and torch.equal(trained.vectors, vectors)
    for other in (fixed, of_file):
        assert not other.vectors.requires_grad and "vectors" not in other.state_dict()


# --- the first weights


def test_each_gate_of_an_lstm_is_glorot_uniform_by_itself_and_biases_are_zero():
    torch.manual_seed(0)
    vectors = torch.randn(20, 30)
    model = build_extractor(parameters(hidden_size=40), vectors.clone(), "classes", 3)
    assert model.vectors.equal(vectors), "word vectors are not initialised"
    for name, value in model.named_parameters():
        if value.dim() == 1:
            assert value.eq(0).all(), f"{name} is a bias"
            continue
        blocks = value.chunk(4) if "weight_ih" in name or "weight_hh" in name else [value]
        for block in blocks:
            bound = math.sqrt(6 / sum(block.shape))
            assert block.abs().max() <= bound, f"{name}: beyond Glorot's bound {bound:.3f}"
            if block.numel() > 500:
                assert block.abs().max() > 0.98 * bound, f"{name}: too small for Glorot's bound {bound:.3f}"
                assert block.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1), name


def test_initialise_returns_its_module_and_follows_the_seed():
    weights = []
    for _ in range(2):
        torch.manual_seed(5)
        module = nn.Linear(4, 4)
        assert initialise(module) is module
        weights.append(module.weight.clone())
    assert weights[0].equal(weights[1])


def test_initialise_knows_linear_and_recurrent_layers_and_leaves_all_others_as_they_were():
    torch.manual_seed(0)
    parts = nn.ModuleDict({
        "linear": nn.Linear(30, 40), "gru": nn.GRU(30, 40), "norm": nn.LayerNorm(30), "words": nn.Embedding(20, 30),
        "cell": RCNNCell(30, 40),
    })  # fmt: skip
    nn.init.constant_(parts["norm"].bias, 0.3)
    nn.init.ones_(parts["cell"].bias)
    words = parts["words"].weight.clone()
    initialise(parts)
    assert parts["norm"].weight.eq(1).all() and parts["norm"].bias.eq(0.3).all(), "LayerNorm"
    assert parts["words"].weight.equal(words), "an embedding"
    for name, value in [*parts["linear"].named_parameters(), *parts["gru"].named_parameters()]:
        if "bias" in name:
            assert value.eq(0).all(), name
            continue
        for block in value.chunk(3) if "_l0" in name else [value]:
            bound = math.sqrt(6 / sum(block.shape))
            assert 0.95 * bound < block.abs().max() <= bound, f"{name}: one matrix per gate"
    assert parts["cell"].bias.eq(0).all() and parts["cell"].recurrent.bias.eq(0).all()


def test_an_unknown_model_is_refused_and_not_taken_for_one_that_reads_everything():
    with pytest.raises(ValueError, match="softmax"):
        build_extractor(parameters(model="softmax"), torch.zeros(3, 8), "classes", 3)


# --- heads


def test_the_head_for_classes_has_cross_entropy_and_accuracy():
    head = Classes(4, 3)
    logits, target = torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 5.0]]), torch.tensor([0, 1])
    expected = [math.log(math.exp(2) + 1 + math.exp(-1)) - 2, math.log(2 + math.exp(5))]
    assert head.loss(logits, target).tolist() == pytest.approx(expected, rel=1e-6), "nats for each example"
    assert head.score(logits, target).tolist() == [1.0, 0.0]
    assert head.answer(logits).tolist() == [0, 2]
    assert (head.metric, head.higher_is_better) == ("accuracy", True)
    assert head(torch.randn(2, 4)).shape == (2, 3)


def test_the_head_for_scores_has_squared_error_between_0_and_1():
    head = Scores(4, 2)
    scores, target = torch.tensor([[0.5, 1.0], [0.25, 0.0]]), torch.tensor([[0.0, 1.0], [0.75, 0.5]])
    assert head.loss(scores, target).tolist() == [0.125, 0.25], "mean over the scores of each example"
    assert head.score(scores, target).equal(head.loss(scores, target))
    assert head.answer(scores) is scores
    assert (head.metric, head.higher_is_better) == ("mse", False)
    out = head(100 * torch.randn(50, 4))
    assert out.shape == (50, 2) and ((out >= 0) & (out <= 1)).all()
