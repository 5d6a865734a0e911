"""DiffMask: hooks that leave nothing behind, laws of the masks, and a toy task whose truth is known."""

import math

import pytest
import torch
from torch import nn

from rationale.data import PairBatches, Vocabulary
from rationale.data.corpora.toy import read_digits
from rationale.explain import (
    BilinearVotes,
    FrozenModel,
    MLPVotes,
    Probe,
    ProbeObjective,
    divergence,
    mean_states,
    recorded,
    replaced,
)
from rationale.models import DigitCounter

DIGITS = Vocabulary([str(digit) for digit in range(10)])


def a_batch(number: int = 12):
    examples = read_digits(number, 0, 0)["train"]
    return PairBatches(examples, DIGITS, number, cells=False).rows(torch.arange(number))


def frozen_counter(size: int = 6) -> FrozenModel:
    torch.manual_seed(0)
    model = DigitCounter(len(DIGITS), size).double()
    return FrozenModel(model, model.layers, model.predict, lambda batch: batch.mask)


def a_probe(target: str = "states", votes: str = "mlp") -> Probe:
    frozen = frozen_counter()
    sizes = [6, 2]
    made = MLPVotes(sizes, 5, target == "inputs") if votes == "mlp" else BilinearVotes(sizes)
    return Probe(frozen, made.double(), target, mean_states(frozen, [a_batch()]))


# --- the toy task


def test_the_toy_task_has_the_priors_of_its_definition():
    splits = read_digits(9_000, 1_000, 0)
    examples = splits["train"] + splits["dev"]
    ties = sum(e.tokens.count(e.second[0]) == e.tokens.count(e.second[1]) for e in examples) / len(examples)
    more = sum(e.label for e in examples) / len(examples)
    none = sum(not any(e.rationale) for e in examples) / len(examples)
    kept = sum(sum(e.rationale) / len(e.rationale) for e in examples) / len(examples)
    found = {"more": more, "ties": ties, "none of the query": none, "kept": kept}
    for name, value in {"more": 0.366, "ties": 0.27, "none of the query": 0.0997, "kept": 0.50}.items():
        assert abs(found[name] - value) < 0.02, f"{name}: {found[name]:.3f}, not {value}"


def test_gold_positions_are_those_of_the_query_and_decide_the_label():
    for example in read_digits(300, 0, 0)["train"]:
        n, m = example.second
        assert n != m and 1 <= len(example.tokens) <= 10
        kept = [token for token, gold in zip(example.tokens, example.rationale, strict=True) if gold]
        assert set(kept) <= {n, m} and kept.count(n) == example.tokens.count(n)
        assert example.label == int(kept.count(n) > kept.count(m))


def test_padding_does_not_reach_the_counter():
    model, batch = frozen_counter().model, a_batch()
    for row in range(3):
        alone = PairBatches(read_digits(12, 0, 0)["train"][row : row + 1], DIGITS, 1, cells=False).rows(torch.arange(1))
        torch.testing.assert_close(model.predict(alone)[0], model.predict(batch)[row])


# --- hooks


def test_states_are_what_the_modules_return():
    frozen, batch = frozen_counter(), a_batch()
    logits, states = frozen.read(batch)
    assert [state.shape[-1] for state in states] == [6, 2] and not logits.requires_grad
    torch.testing.assert_close(states[0], frozen.model.digit(batch.tokens.first))


@pytest.mark.parametrize("layer", [0, 1])
def test_a_mask_of_ones_gives_the_model_back_exactly(layer):
    frozen, batch = frozen_counter(), a_batch()
    logits, states = frozen.read(batch)
    baseline = torch.randn(states[layer].shape[-1], dtype=torch.float64)
    kept = frozen.masked(batch, layer, torch.ones(states[layer].shape[:2], dtype=torch.float64), baseline)
    assert torch.equal(kept, logits)
    gone = frozen.masked(batch, layer, torch.zeros(states[layer].shape[:2], dtype=torch.float64), baseline)
    assert not torch.allclose(gone, logits)


def test_what_is_masked_out_cannot_reach_the_answer():
    frozen, batch = frozen_counter(), a_batch()
    z = torch.tensor([[1.0, 0.0] * 5] * 12, dtype=torch.float64)[:, : batch.tokens.first.shape[1]]
    baseline = torch.zeros(6, dtype=torch.float64)
    before = frozen.masked(batch, 0, z, baseline)
    other = batch.tokens.first.where(z == 1, 2 + (batch.tokens.first - 1) % 10)
    changed = batch._replace(tokens=batch.tokens._replace(first=other))
    assert torch.equal(frozen.masked(changed, 0, z, baseline), before), "digits behind z = 0 were exchanged"


def test_hooks_go_even_when_the_model_stops_with_an_error():
    layer = nn.Linear(2, 2)
    for block in (lambda: recorded([layer]), lambda: replaced(layer, lambda states: 0 * states)):
        with pytest.raises(RuntimeError, match="mat1"), block():
            layer(torch.ones(3))
            layer(torch.ones(1, 5))
        assert len(layer._forward_hooks) == 0


def test_a_module_that_returns_a_tuple_is_read_and_replaced_by_its_first_element():
    layer, inputs = nn.GRU(2, 3, batch_first=True), torch.randn(1, 4, 2)
    with recorded([layer]) as states, replaced(layer, lambda states: 0 * states):
        outputs, final = layer(inputs)
    assert outputs.eq(0).all() and final.ne(0).any() and states[0].shape == (1, 4, 3)


# --- votes and gates


def test_gates_begin_open_with_the_probability_of_a_logit_of_5():
    probe = a_probe(votes="bilinear")
    _, states = probe.frozen.read(a_batch())
    assert probe.log_keep(states).exp().sub(0.99514).abs().max() < 1e-5
    assert all(gate.prob_one.eq(0).all() for gate in probe.gates(states)), "half-open: never exactly 1"


def test_an_input_is_kept_where_no_layer_votes_against_it():
    probe = a_probe("inputs")
    _, states = probe.frozen.read(a_batch())
    gates = probe.gates(states)
    assert len(gates) == 2 and len(probe.gates(states[:1])) == 1
    product = gates[0].log_prob_nonzero.exp() * gates[1].log_prob_nonzero.exp()
    torch.testing.assert_close(probe.log_keep(states).exp(), product)
    assert (probe.log_keep(states) <= probe.log_keep(states[:1])).all(), "a deeper layer never opens what was shut"


def test_a_state_has_the_vote_of_its_own_layer_alone():
    probe = a_probe("states")
    _, states = probe.frozen.read(a_batch())
    (gate,) = probe.gates(states)
    torch.testing.assert_close(gate.log_prob_nonzero, probe.log_keep(states))


def test_bilinear_votes_are_averaged_with_those_of_the_layers_before():
    votes = BilinearVotes([3, 2, 4])
    with torch.no_grad():
        for parameter in votes.parameters():
            parameter.normal_()
    states = [torch.randn(2, 5, size) for size in (3, 2, 4)]
    plain = []
    for k, state in enumerate(states):
        product, line = votes.products[k], votes.sums[k]
        value = torch.einsum("bti,ij,btj->bt", states[0], product.weight[0], state) + product.bias
        plain.append(value + torch.cat([states[0], state], -1) @ line.weight[0])
    logits = votes(states)
    torch.testing.assert_close(logits[0], plain[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(logits[2], (plain[2] + (plain[0] + plain[1]) / 2) / 2, rtol=1e-4, atol=1e-5)


# --- divergence and objective


def test_divergences_are_those_of_their_definitions():
    p, q = torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]], dtype=torch.float64)
    kl = (p * (p / q).log()).sum().item()
    m = (p + q) / 2
    js = 0.5 * (p * (p / m).log()).sum().item() + 0.5 * (q * (q / m).log()).sum().item()
    one, other = (p.log() + 3.0).unsqueeze(0), (q.log() - 1.0).unsqueeze(0)
    assert divergence(one, other).item() == pytest.approx(kl)
    assert divergence(other, one, "reverse_kl").item() == pytest.approx(kl)
    assert divergence(one, other, "js").item() == pytest.approx(js, rel=1e-12), "with all digits of its type"
    assert abs(divergence(one, one, "js").item()) < 1e-15
    both = torch.stack([one, one], 1), torch.stack([other, other], 1)
    assert divergence(*both).item() == pytest.approx(2 * kl), "both ends of a span"
    far = torch.tensor([[0.0, -2000.0]]), torch.tensor([[-2000.0, 0.0]])
    assert math.isfinite(divergence(*far).item()) and math.isfinite(divergence(*far, "js").item())


@pytest.mark.parametrize("target", ["inputs", "states"])
@pytest.mark.parametrize("votes", ["mlp", "bilinear"])
def test_a_step_moves_the_probe_and_leaves_the_model_as_it_was(target, votes):
    probe, batch = a_probe(target, votes), a_batch()
    before = {name: value.clone() for name, value in probe.frozen.model.state_dict().items()}
    objective = ProbeObjective(2, margin=0.05).train()
    for _ in range(4):
        step = objective(probe, batch)
        step.loss.backward()
    assert all(torch.equal(value, before[name]) for name, value in probe.frozen.model.state_dict().items())
    assert all(parameter.grad is None for parameter in probe.frozen.model.parameters())
    assert all(parameter.grad is not None for parameter in probe.votes.parameters()) or votes == "bilinear"
    assert not any("frozen" in name for name in probe.state_dict()), "the model is no part of what is saved"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"num_layers": 0}, "num_layers: got 0, accepted is 1 or more"),
        ({"margin": 0.0}, r"margin: got 0.0, accepted are numbers in \(0, inf\)"),
        ({"margin": -1}, "margin: got -1"),
        ({"margin": math.nan}, "margin: got nan"),
        ({"rate": -1}, "rate: got -1"),
        ({"start": 0}, "start: got 0"),
        ({"quadratic": -1}, r"quadratic: got -1, accepted are numbers in \[0, inf\)"),
        ({"bounds": (200, 0.1)}, r"bounds: got \(200, 0.1\), accepted are 0 < smallest <= largest < inf"),
        ({"bounds": (0, 1)}, r"bounds: got \(0, 1\)"),
        ({"kind": "foo"}, "kind: got 'foo', accepted are kl, reverse_kl, js"),
        ({"form": "foo"}, "form: got 'foo', accepted are probability, log"),
    ],
)
def test_an_objective_outside_its_ranges_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        ProbeObjective(**{"num_layers": 2, "margin": 0.05} | changes)


def test_multipliers_rise_while_the_answer_changes_and_fall_while_it_does_not():
    probe, batch = a_probe(), a_batch()
    probe.votes.bias.data.fill_(-2.0)
    strict, loose = ProbeObjective(2, margin=1e-9).train(), ProbeObjective(2, margin=1e3).train()
    for objective in (strict, loose):
        for _ in range(20):
            objective(probe, batch)
    assert strict.log_multipliers.min() > math.log(0.1) >= loose.log_multipliers.max() - 1e-6
    kept = strict.log_multipliers.clone()
    strict.eval()(probe, batch)
    assert torch.equal(strict.log_multipliers, kept), "evaluation moves nothing"
