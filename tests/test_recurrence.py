"""The fast scans are the plain loops of the package: values, gradients, skipped steps; the look-ahead is unbiased."""

import math

import pytest
import torch
from small import parameters
from torch import nn

from rationale.models import Predictor, build_extractor, compact, select_in_order
from rationale.nn import GATES, LSTMEncoder, RCNNCell, RCNNEncoder, Scores, rcnn, sample
from rationale.nn import fast as fast_forms
from rationale.nn.fast import MemoryScan
from rationale.objectives import build_objective
from tests import plain


def random_mask(rows: int, steps: int) -> torch.Tensor:
    """With holes; one row is read whole, one not at all."""
    mask = torch.rand(rows, steps) < 0.6
    mask[0], mask[-1] = True, False
    return mask


def shaken(module: nn.Module) -> nn.Module:
    """All parameters, biases too, away from 0."""
    for value in module.parameters():
        nn.init.normal_(value, std=0.7)
    return module


def weighted(parts) -> torch.Tensor:
    """A scalar in which every number counts differently."""
    return sum((part * torch.arange(part.numel()).view_as(part).cos()).sum() for part in parts)


# --- the encoder


@pytest.mark.parametrize(("rows", "steps"), [(3, 6), (1, 1), (2, 1), (4, 17)])
def test_the_encoder_is_the_plain_loop_forward_and_backward(rows, steps):
    torch.manual_seed(rows * steps)
    encoder, mask = shaken(RCNNEncoder(4, 3)).double(), random_mask(rows, steps)
    inputs = torch.randn(rows, steps, 4, dtype=torch.float64, requires_grad=True)
    ours, theirs = encoder(inputs, mask), plain.read(encoder, inputs, mask)
    names = ["inputs", *dict(encoder.named_parameters())]
    leaves = [inputs, *encoder.parameters()]
    for name, one, other in zip(("states", "final"), ours, theirs, strict=True):
        torch.testing.assert_close(one, other, msg=name)
    ours, theirs = (torch.autograd.grad(weighted(out), leaves) for out in (ours, theirs))
    for name, one, other in zip(names, ours, theirs, strict=True):
        torch.testing.assert_close(one, other, msg=f"gradient of {name}")


@pytest.mark.parametrize("learns_vectors", [True, False])
@pytest.mark.parametrize(("rows", "steps"), [(3, 6), (1, 1), (4, 17)])
def test_gated_words_are_read_as_if_they_had_been_multiplied(rows, steps, learns_vectors):
    torch.manual_seed(rows * steps)
    encoder, mask = shaken(RCNNEncoder(4, 3)).double(), random_mask(rows, steps)
    inputs = torch.randn(rows, steps, 4, dtype=torch.float64, requires_grad=learns_vectors)
    z = (torch.rand(rows, steps, dtype=torch.float64) * (torch.rand(rows, steps) < 0.7)).requires_grad_()
    leaves = [z, *encoder.parameters()] + [inputs] * learns_vectors
    found = {}
    for fast in (True, False):
        encoder.fast = fast
        output = encoder.read(inputs, mask, nn.Identity(), z)
        found[fast] = [*output, *torch.autograd.grad(weighted(output), leaves)]
    for one, other in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(one, other)


def test_in_float32_at_the_papers_size_the_difference_stays_below_1e_5():
    torch.manual_seed(0)
    encoder, mask = RCNNEncoder(200, 200), torch.arange(128) < torch.tensor([[128], [60], [1], [90]])
    inputs = 0.4 * torch.randn(4, 128, 200)
    leaves = list(encoder.parameters())
    ours, theirs = encoder(inputs, mask), plain.read(encoder, inputs, mask)
    assert all((one - other).abs().max() < 1e-5 for one, other in zip(ours, theirs, strict=True))
    for one, other in zip(*(torch.autograd.grad(o[1].square().mean(), leaves) for o in (ours, theirs)), strict=True):
        assert (one - other).abs().max() < 1e-5


def test_an_encoder_of_the_papers_size_has_320800_parameters():
    assert sum(value.numel() for value in RCNNEncoder(200, 200).parameters()) == 320_800, "spec B.4"


@pytest.mark.parametrize(
    ("model", "dependent", "outputs", "selector", "predictor"),
    [
        ("hardkuma", True, 1, 358_712, 321_201),
        ("bernoulli", True, 1, 358_281, 321_201),
        ("bernoulli", False, 1, 321_201, 321_201),
        ("full_text", False, 5, 0, 322_805),
    ],
)
def test_the_models_of_beer_have_the_papers_number_of_parameters(model, dependent, outputs, selector, predictor):
    p = parameters(model=model, dependent=dependent, encoder="rcnn", hidden_size=200)
    built = build_extractor(p, torch.zeros(3, 200), "scores", outputs)
    counts = [sum(v.numel() for v in part.parameters()) if part else 0 for part in (built.selector, built.predictor)]
    assert counts == [selector, predictor], "spec B.4"


def test_the_lstm_of_beer_is_twice_as_large():
    p = parameters(model="full_text", hidden_size=200)
    assert sum(v.numel() for v in build_extractor(p, torch.zeros(3, 200), "scores", 5).parameters()) == 645_205


# --- words that are not there


def test_a_masked_text_is_the_compacted_text_for_the_rcnn():
    torch.manual_seed(1)
    encoder, mask, inputs = shaken(RCNNEncoder(4, 3)), random_mask(5, 9), torch.randn(5, 9, 4)
    states, final = encoder(inputs, mask)
    closed, kept = compact(inputs, mask)
    closed_states, closed_final = encoder(closed, kept)
    torch.testing.assert_close(final, closed_final)
    torch.testing.assert_close(states[mask], closed_states[kept])
    assert not final[-1].any(), "nothing read: the zero state"


def test_for_an_lstm_over_zero_vectors_it_is_not():
    torch.manual_seed(1)
    encoder, mask, inputs = LSTMEncoder(4, 3), random_mask(5, 9), torch.randn(5, 9, 4)
    _, zeroed = encoder(inputs * mask.unsqueeze(-1), torch.ones_like(mask))
    _, closed = encoder(*compact(inputs, mask))
    assert (zeroed[1:] - closed[1:]).abs().amax(1).gt(1e-3).all(), "trap I-7: it steps over the zeros"


def test_the_compact_predictor_over_an_rcnn_is_the_authors_which_skips_by_mask():
    torch.manual_seed(2)
    encoder, head = shaken(RCNNEncoder(4, 3)), Scores(6, 1)
    predictor = Predictor(encoder, head, mode="compact")
    embedded, z = torch.randn(5, 9, 4), torch.rand(5, 9).requires_grad_()
    mask = torch.arange(9) < torch.tensor([[9], [4], [1], [9], [7]])
    gated = z * (random_mask(5, 9) & mask)
    _, final = plain.read(encoder, embedded * gated.unsqueeze(-1), gated > 0)
    ours, authors = predictor(embedded, mask, gated), head(final)
    torch.testing.assert_close(ours, authors)
    (one,), (other,) = (torch.autograd.grad(weighted([out]), z, retain_graph=True) for out in (ours, authors))
    torch.testing.assert_close(one, other, msg="gradient of the gates")


# --- dependent gates


def selector_of(**changes):
    p = parameters(**({"model": "hardkuma", "dependent": True, "encoder": "rcnn", "dropout": 0.0} | changes))
    return shaken(build_extractor(p, torch.randn(9, 5), "scores", 1).selector).double().train()


@pytest.mark.parametrize("look_ahead", [False, True])
@pytest.mark.parametrize("model", [name for name in GATES if GATES[name].has_rsample])
def test_a_dependent_selector_is_the_plain_loop_with_its_gradient_through_every_draw(model, look_ahead):
    torch.manual_seed(3)
    selector, embedded = selector_of(model=model, look_ahead=look_ahead), torch.randn(4, 7, 5, dtype=torch.float64)
    mask = torch.arange(7) < torch.tensor([[7], [3], [1], [6]])
    found = {}
    for fast in (True, False):
        torch.manual_seed(4)
        selector.fast = selector.encoder.fast = fast
        z, gates, switches = selector(embedded, mask, sample)
        assert (switches is not None) == look_ahead
        found[fast] = [z, gates.log_prob_nonzero] + [switches] * look_ahead
    leaves = list(selector.parameters())
    for one, other in zip(found[True], found[False], strict=True):
        torch.testing.assert_close(one, other)
    ours, theirs = (torch.autograd.grad(weighted(found[fast]), leaves) for fast in (True, False))
    for (name, _), one, other in zip(selector.named_parameters(), ours, theirs, strict=True):
        torch.testing.assert_close(one, other, msg=f"gradient of {name}")


@pytest.fixture(params=["parameter", "forward"])
def own_gate(request):
    """A gate of one's own that is more than a function of the outputs of its layers."""

    class Warm(GATES["hard_concrete"]):
        """The temperature is learned."""

        def __init__(self, num_features: int):
            super().__init__(num_features)
            self.temperature = nn.Parameter(torch.tensor(0.7))

    class Narrow(GATES["hard_concrete"]):
        """The features are squashed first."""

        def forward(self, features):
            return super().forward(features.tanh())

    return {"parameter": Warm, "forward": Narrow}[request.param]


@pytest.mark.parametrize("look_ahead", [False, True])
def test_a_dependent_gate_with_a_parameter_or_a_forward_of_its_own_has_the_value_and_gradient_of_the_plain_loop(
    own_gate, look_ahead
):
    torch.manual_seed(3)
    selector = selector_of(look_ahead=look_ahead)
    states = torch.randn(4, 7, selector.encoder.output_size, dtype=torch.float64)
    selector.gate = shaken(own_gate(selector.gate.a.in_features)).double()
    if isinstance(selector.gate.temperature, nn.Parameter):
        nn.init.constant_(selector.gate.temperature, 0.7)

    def loss(select) -> torch.Tensor:
        torch.manual_seed(4)
        z, gates, switches = select()
        return weighted([z, gates.log_prob_nonzero] + [switches] * look_ahead)

    ours = loss(lambda: selector.select(states, sample))
    theirs = loss(lambda: select_in_order(selector.gate, selector.cell, states, sample, look_ahead))
    torch.testing.assert_close(ours, theirs)
    leaves = [*selector.gate.named_parameters(), *selector.cell.named_parameters()]
    slopes = (torch.autograd.grad(value, [leaf for _, leaf in leaves]) for value in (ours, theirs))
    for (name, _), one, other in zip(leaves, *slopes, strict=True):
        torch.testing.assert_close(one, other, msg=f"gradient of {name}")


@pytest.mark.parametrize("look_ahead", [False, True])
@pytest.mark.parametrize("model", GATES)
def test_dependent_gates_of_texts_without_a_position_are_no_gates(model, look_ahead):
    p = parameters(model=model, dependent=True, encoder="rcnn", look_ahead=look_ahead)
    built = build_extractor(p, torch.randn(9, 5), "scores", 1)
    for training, rows in ((True, 2), (False, 2), (True, 0)):
        built.train(training)
        output = built(torch.zeros(rows, 0, dtype=torch.long), torch.zeros(rows, 0, dtype=torch.bool))
        assert output.z.shape == output.gates.batch_shape == (rows, 0) and output.prediction.shape == (rows, 1)


def test_draws_without_a_gradient_are_constants_for_the_memory():
    torch.manual_seed(3)
    selector, embedded = selector_of(model="bernoulli"), torch.randn(4, 7, 5, dtype=torch.float64)
    mask = torch.ones(4, 7, dtype=torch.bool)
    z, gates, _ = selector(embedded, mask, sample)
    assert not z.requires_grad and z.eq(0).logical_or(z.eq(1)).all()
    states, _ = plain.read(selector.encoder, embedded, mask)
    given = iter(z.unbind(1))
    again, plain_gates, _ = select_in_order(selector.gate, selector.cell, states, lambda _: next(given))
    assert again.equal(z)
    leaves = list(selector.parameters())
    ours, theirs = (torch.autograd.grad(weighted([g.logits]), leaves) for g in (gates, plain_gates))
    for (name, _), one, other in zip(selector.named_parameters(), ours, theirs, strict=True):
        torch.testing.assert_close(one, other, msg=f"gradient of {name}")


@pytest.mark.parametrize("model", GATES)
@pytest.mark.parametrize("training", [True, False])
def test_a_run_without_the_fast_forms_draws_and_decides_the_same(model, training):
    p = parameters(model=model, dependent=True, encoder="rcnn", dropout=0.0)
    torch.manual_seed(0)
    built = build_extractor(p, torch.randn(20, 8), "scores", 1).train(training)
    tokens, mask = torch.randint(2, 20, (3, 6)), torch.arange(6) < torch.tensor([[6], [4], [1]])
    found = []
    for fast in (True, False):
        built.selector.fast = built.selector.encoder.fast = built.predictor.encoder.fast = fast
        torch.manual_seed(1)
        found.append(built(tokens, mask))
    torch.testing.assert_close(found[0].z, found[1].z)
    torch.testing.assert_close(found[0].prediction, found[1].prediction)


def test_the_memory_scan_passes_the_gradient_check_in_all_its_inputs():
    torch.manual_seed(0)
    shapes = [(5, 3, 2), (5, 3, 6), (2, 2), (2, 2), (2,), (6,)]
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def decide(raw, _):
        return torch.tanh(raw.prod(-1))

    def slopes(raw):
        with torch.enable_grad():
            raw = raw.detach().requires_grad_()
            return torch.autograd.grad(decide(raw, 0).sum(), raw)[0]

    assert torch.autograd.gradcheck(lambda *given: MemoryScan.apply(*given, decide, slopes)[:3], inputs)


# --- switches between dependent gates


def exact_switches(selector, states, nodes: int = 400) -> torch.Tensor:
    """The expected number of switches of a text of two or three words [T, S], by enumerating its draws.

    A draw is 0 with probability P(H = 0), else one of many equally likely quantiles of the rest.
    """
    middle = (torch.arange(nodes, dtype=torch.float64) + 0.5) / nodes

    def after(state, t, z):
        """The state that follows each of these draws of word t."""
        inputs = torch.cat([states[t].expand(len(z), -1), z.unsqueeze(1)], 1)
        state = tuple(part.expand(len(z), -1) for part in state)
        return selector.cell(selector.cell.project(inputs), state)

    def gates(state, t):
        return selector.gate(torch.cat([states[t].expand(len(state[0]), -1), state[0]], -1))

    def switches_from(state, t):
        """Those between word t and the last, from one state before t."""
        if t + 1 == len(states):
            return 0.0
        here = gates(state, t)
        z = torch.cat([torch.zeros(1), here.rsample_at(here.log_prob_nonzero + middle.log())])
        chance = torch.cat([here.prob_zero, (here.log_prob_nonzero.exp() / nodes).expand(nodes)])
        moved = after(state, t, z)
        shut = gates(moved, t + 1).prob_zero
        later = [switches_from(tuple(part[i : i + 1] for part in moved), t + 1) for i in range(len(z))]
        rest = torch.stack([torch.as_tensor(value, dtype=torch.float64) for value in later])
        return (chance * (torch.where(z == 0, 1 - shut, shut) + rest)).sum()

    return switches_from(selector.cell.start(1), 0)


def drawn_switches(selector, num: int, steps: int, look_ahead: bool) -> torch.Tensor:
    """The expected switches of one text as an objective sees them in `num` training passes: [num]."""
    selector.look_ahead = look_ahead
    embedded = torch.linspace(-1, 1, steps * 5, dtype=torch.float64).view(1, steps, 5).expand(num, -1, -1)
    z, gates, switches = selector(embedded, torch.ones(num, steps, dtype=torch.bool), sample)
    if switches is None:
        shut, kept = gates.log_prob_zero, gates.log_prob_nonzero
        switches = torch.logaddexp(shut[:, :-1] + kept[:, 1:], kept[:, :-1] + shut[:, 1:])
    return switches.exp().sum(1)


@pytest.mark.parametrize("steps", [2, 3])
def test_the_look_ahead_is_unbiased_in_value_and_gradient_and_the_plug_in_is_not(steps):
    torch.manual_seed(8)
    selector = selector_of()
    with torch.no_grad():
        selector.cell.inputs.weight[:, -1] *= 6  # what was drawn matters to the next gate
    embedded = torch.linspace(-1, 1, steps * 5, dtype=torch.float64).view(1, steps, 5)
    states, _ = selector.encoder(embedded, torch.ones(1, steps, dtype=torch.bool))
    exact, weight = exact_switches(selector, states[0]), selector.gate.a.weight
    (slope,) = torch.autograd.grad(exact, weight)
    found = {}
    for look_ahead in (True, False):
        torch.manual_seed(0)
        drawn = drawn_switches(selector, 20_000, steps, look_ahead)
        found[look_ahead] = (drawn.mean() - exact).item(), (drawn.std() / len(drawn) ** 0.5).item()
        if look_ahead:
            (mean_slope,) = torch.autograd.grad(drawn.mean(), weight)
            torch.testing.assert_close(mean_slope, slope, atol=0.05 * slope.abs().max().item(), rtol=0)
    (off, error), (plug_in_off, _) = found[True], found[False]
    assert abs(off) < 4 * error, f"look-ahead: off by {off:.5f}, standard error {error:.5f}"
    assert abs(plug_in_off) > 10 * error, f"plug-in: off by {plug_in_off:.5f} only, standard error {error:.5f}"


@pytest.mark.parametrize("look_ahead", [False, True])
def test_a_constraint_on_the_switches_of_dependent_gates_trains_every_part_of_the_selector(look_ahead):
    torch.manual_seed(0)
    p = parameters(
        model="hardkuma", dependent=True, encoder="rcnn", dropout=0.0, transitions=0.1, look_ahead=look_ahead
    )
    model, objective = build_extractor(p, torch.randn(20, 8), "scores", 1).train(), build_objective(p).train()
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])
    tokens = torch.randint(2, 20, mask.shape).where(mask, 1)
    output = model(tokens, mask)
    assert (output.log_switches is not None) == look_ahead
    log_value, _ = objective._switches(output, mask)
    log_value.backward()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in model.selector.parameters())
    assert model.selector.cell.inputs.weight.grad[:, -1].any(), "through z as well"


@pytest.mark.parametrize("scan", [rcnn.scan_both_ways, fast_forms.scan_both_ways], ids=["readable", "fast"])
def test_a_skipped_step_is_skipped_also_where_its_input_is_not_a_number(scan):
    torch.manual_seed(0)
    cells, mask = [RCNNCell(3, 4) for _ in range(2)], torch.tensor([[True, False, True], [False, True, False]])
    clean = torch.randn(2, 3, 3)
    results = []
    for wrong in (0.0, math.nan, math.inf):
        inputs = clean.masked_fill(~mask.unsqueeze(-1), wrong).requires_grad_()
        states, final = scan(*cells, inputs, mask)
        parameters = [inputs, *cells[0].parameters(), *cells[1].parameters()]
        results.append([states, final, *torch.autograd.grad(states.square().sum() + final.sum(), parameters)])
    for other in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], other, strict=True))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_within_autocast_an_rcnn_is_computed_in_the_precision_of_its_weights(fast, dtype):
    torch.manual_seed(0)
    encoder, mask = shaken(RCNNEncoder(4, 3)), random_mask(3, 6)
    encoder.fast = fast
    inputs = torch.randn(3, 6, 4).to(dtype).float().requires_grad_()
    leaves = [inputs, *encoder.parameters()]
    plain_states, plain_final = encoder(inputs, mask)
    expected = torch.autograd.grad(weighted((plain_states, plain_final)), leaves)
    with torch.autocast("cpu", torch.bfloat16):
        states, final = encoder(inputs.to(dtype), mask)
    found = torch.autograd.grad(weighted((states, final)), leaves)
    assert torch.equal(states, plain_states) and torch.equal(final, plain_final)
    for one, other in zip(found[1:], expected[1:], strict=True):
        torch.testing.assert_close(one, other)
    torch.testing.assert_close(found[0], expected[0].to(dtype).float())


def test_the_backward_pass_of_the_fast_scan_is_the_same_within_autocast():
    torch.manual_seed(0)
    encoder, mask, inputs = shaken(RCNNEncoder(4, 3)), random_mask(3, 6), torch.randn(3, 6, 4)
    final = encoder(inputs, mask)[1].square().sum()
    expected = torch.autograd.grad(final, list(encoder.parameters()), retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        found = torch.autograd.grad(final, list(encoder.parameters()))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("select", [select_in_order, fast_forms.select])
def test_within_autocast_dependent_gates_are_computed_in_the_precision_of_their_weights(select):
    torch.manual_seed(0)
    gate, cell, states = shaken(GATES["hardkuma"](4 + 3)), shaken(RCNNCell(4 + 1, 3)), torch.randn(2, 5, 4)
    results = []
    for enabled in (False, True):
        torch.manual_seed(1)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            z, _, switches = select(gate, cell, states, sample, True)
        leaves = [*gate.parameters(), *cell.parameters()]
        results.append([z, switches, *torch.autograd.grad(z.sum() + switches.sum(), leaves)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_the_fast_scans_refuse_a_second_derivative_in_a_sentence():
    torch.manual_seed(0)
    cells, mask = [RCNNCell(3, 4) for _ in range(2)], torch.ones(2, 3, dtype=torch.bool)
    inputs = torch.randn(2, 3, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="no second derivative.*scan_both_ways of rationale.nn.rcnn"):
        torch.autograd.grad(fast_forms.scan_both_ways(*cells, inputs, mask)[1].sum(), inputs, create_graph=True)
    (slope,) = torch.autograd.grad(rcnn.scan_both_ways(*cells, inputs, mask)[1].sum(), inputs, create_graph=True)
    assert torch.autograd.grad(slope.square().sum(), inputs)[0].abs().sum() > 0, "the readable form has one"
