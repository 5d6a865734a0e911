"""Objectives: penalties against exact enumeration, and constraints that hold without collapsing."""

import itertools
import math
import re
from collections.abc import Callable
from types import SimpleNamespace

import mpmath as mp
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small import parameters
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.data import Batch, Example
from rationale.distributions import Bernoulli, HardConcrete, HardKuma
from rationale.errors import BadInput
from rationale.models import build_extractor
from rationale.models.protocol import Output
from rationale.nn import HEADS, decide
from rationale.objectives import (
    Constraint,
    RationaleObjective,
    build_objective,
    expected_selection,
    expected_transitions,
    log_mean,
    log_means,
    openness_entropy,
    steps_of_task,
    steps_to_multiplier,
)
from rationale.objectives.constraint import ConstraintSettings
from rationale.training import extraction, train_extractor
from rationale.training.settings import ExtractionSettings

# --- penalties


def enumerate_patterns(prob_zero: list[float]) -> tuple[float, float]:
    """Expected share of open gates and of switches, each a token, over all 2^n patterns of open and shut."""
    n, selected, switches = len(prob_zero), 0.0, 0.0
    for pattern in itertools.product((0, 1), repeat=n):
        probability = math.prod(1 - p if is_open else p for p, is_open in zip(prob_zero, pattern, strict=True))
        selected += probability * sum(pattern)
        switches += probability * sum(x != y for x, y in itertools.pairwise(pattern))
    return selected / n, switches / n


rows = st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=8), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(rows)
def test_penalties_equal_exact_enumeration_whatever_stands_in_the_padding(rows):
    width = max(map(len, rows)) + 1
    prob_zero = torch.full((len(rows), width), math.nan, dtype=torch.float64)
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        prob_zero[i, : len(row)] = torch.tensor(row, dtype=torch.float64)
        mask[i, : len(row)] = True
    selection = expected_selection(1 - prob_zero, mask)
    transitions = expected_transitions(prob_zero, 1 - prob_zero, mask)
    assert selection.shape == transitions.shape == (len(rows),)
    for i, row in enumerate(rows):
        expected = enumerate_patterns(row)
        assert (selection[i].item(), transitions[i].item()) == pytest.approx(expected, abs=1e-12), f"P(0) = {row}"


def test_one_word_cannot_switch():
    one = torch.ones(1, 1)
    assert expected_transitions(0.5 * one, 0.5 * one, one.bool()).item() == 0


def test_penalties_agree_with_samples_of_hardkuma_gates():
    torch.manual_seed(0)
    gates = HardKuma(0.1 + torch.rand(1, 7), 0.1 + torch.rand(1, 7))
    mask = torch.ones(1, 7, dtype=torch.bool)
    kept = gates.sample((20_000,)) != 0
    sampled = kept.float().mean(), (kept[..., 1:] != kept[..., :-1]).float().sum(-1).mean() / 7
    exact = (
        expected_selection(gates.log_prob_nonzero.exp(), mask).item(),
        expected_transitions(gates.prob_zero, gates.log_prob_nonzero.exp(), mask).item(),
    )
    assert [float(x) for x in sampled] == pytest.approx(exact, abs=0.005)  # 5 standard errors


def test_penalties_have_the_right_gradient():
    torch.manual_seed(0)
    mask = torch.arange(5) < torch.tensor([[5], [3]])
    zero = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p: expected_selection(1 - p, mask), zero)
    assert torch.autograd.gradcheck(lambda p: expected_transitions(p, 1 - p, mask), zero)
    assert torch.autograd.gradcheck(lambda p: log_mean(p, mask), zero)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 4)), ((2, 3), (3,)), ((2, 1), (2, 3))])
def test_different_shapes_are_refused(shapes):
    values, mask = torch.rand(shapes[0]), torch.ones(shapes[1], dtype=torch.bool)
    for penalty in (expected_selection, log_mean, lambda v, m: expected_transitions(v, v, m)):
        with pytest.raises(ValueError, match=r"shapes differ: values \(.*\), mask \("):
            penalty(values, mask)


def test_log_mean_is_the_logarithm_of_the_mean_over_texts():
    torch.manual_seed(0)
    mask = torch.arange(6) < torch.tensor([[6], [2], [1]])
    values = torch.rand(3, 6)
    for junk in (0.0, -math.inf, math.inf):
        logs = values.log().where(mask, junk)
        expected = expected_selection(values, mask).mean().log()
        torch.testing.assert_close(log_mean(logs, mask), expected, msg=f"{junk} in the padding")


def test_log_means_keep_all_digits_of_float64():
    """The logarithm of a whole number is rounded to float32 in torch."""
    mask = torch.arange(7) < torch.tensor([[7], [3], [5]])
    logs = -torch.arange(1.0, 22.0, dtype=torch.float64).view(3, 7) / 10
    shares = [[math.exp(-(7 * row + t + 1) / 10) / n for t in range(n)] for row, n in enumerate((7, 3, 5))]
    assert log_means(logs, mask).tolist() == pytest.approx([math.log(math.fsum(row)) for row in shares], abs=1e-14)
    expected = math.log(math.fsum(itertools.chain.from_iterable(shares)) / 3)
    assert log_mean(logs, mask).item() == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(("a", "b"), itertools.product([1e-3, 1.0, 100.0], repeat=2))
def test_log_mean_keeps_value_and_gradient_at_saturated_gates(a, b):
    mask = torch.ones(2, 3, dtype=torch.bool)
    shapes = [torch.full((2, 3), float(x), requires_grad=True) for x in (a, b)]
    gates = HardKuma(*shapes)
    for name in ("log_prob_nonzero", "log_prob_zero"):
        value = log_mean(getattr(gates, name), mask)
        assert value.isfinite(), f"ln mean of {name} at a={a:g}, b={b:g}"
        assert value.item() == pytest.approx(getattr(gates, name)[0, 0].item(), rel=1e-5, abs=1e-6)
        for letter, gradient in zip("ab", torch.autograd.grad(value, shapes, retain_graph=True), strict=True):
            assert gradient.isfinite().all(), f"d {name} / d {letter} at a={a:g}, b={b:g}"


# --- the entropy of whether a gate is open


def openness_by_mpmath(a: float, b: float, left: float = -0.1, right: float = 1.1) -> tuple[float, float, float]:
    """H(p) for p = P(H != 0) = (1 - k^a)^b, k = -left / (right - left), and its derivatives by a and b: 60 digits."""
    with mp.workdps(60):
        k = mp.mpf(-left) / (mp.mpf(right) - mp.mpf(left))

        def entropy(shape_a: mp.mpf, shape_b: mp.mpf) -> mp.mpf:
            p = (1 - k**shape_a) ** shape_b
            return -p * mp.log(p) - (1 - p) * mp.log(1 - p)

        a, b = mp.mpf(a), mp.mpf(b)
        slopes = mp.diff(entropy, (a, b), (1, 0)), mp.diff(entropy, (a, b), (0, 1))
        return float(entropy(a, b)), float(slopes[0]), float(slopes[1])


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.5, 0.5), (0.01, 20.0), (0.1, 60.0), (2.0, 1e-3), (30.0, 0.3)])
def test_the_entropy_of_openness_is_exact_in_both_tails(a, b):
    shapes = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (a, b)]
    gate = HardKuma(*shapes)
    value = openness_entropy(gate.log_prob_nonzero, gate.log_prob_zero)
    found = (value.item(), *(slope.item() for slope in torch.autograd.grad(value, shapes)))
    assert found == pytest.approx(openness_by_mpmath(a, b), rel=1e-8), f"P(0) = {gate.prob_zero.item():.3g}"


def test_the_entropy_of_openness_is_finite_where_nothing_is_left_of_a_mass():
    logs = torch.tensor([0.0, -math.inf, -1e4, math.log(0.5)], requires_grad=True)
    rest = torch.tensor([-math.inf, 0.0, 0.0, math.log(0.5)], requires_grad=True)
    value = openness_entropy(logs, rest)
    assert value.tolist() == pytest.approx([0, 0, 0, math.log(2)])
    for gradient in torch.autograd.grad(value.sum(), (logs, rest)):
        assert gradient.isfinite().all()


def test_the_entropy_of_openness_of_a_bernoulli_is_its_entropy():
    gate = Bernoulli(logits=torch.linspace(-30, 30, 61, dtype=torch.float64))
    found = openness_entropy(gate.log_prob_nonzero, gate.log_prob_zero)
    torch.testing.assert_close(found, gate.entropy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("model", ["hardkuma", "hard_concrete", "straight_through", "bernoulli"])
def test_every_gate_is_rewarded_for_the_entropy_of_being_open(model):
    torch.manual_seed(0)
    p = parameters(model=model, selection=None, sparsity=0.3, entropy=0.5, dropout=0.0)
    extractor, objective = build_extractor(p, torch.randn(20, 8), "classes", 3), build_objective(p)
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]])
    output = extractor(torch.randint(2, 20, mask.shape).where(mask, 1), mask)
    gates = output.gates
    is_open = Bernoulli(probs=1 - gates.prob_zero.double())  # a coin that falls on 1 as often as the gate is open
    by_hand = torch.where(mask, 0.3 * is_open.prob_one - 0.5 * is_open.entropy(), 0.0).sum(1)
    torch.testing.assert_close(objective._price(output, mask).double(), by_hand, rtol=1e-5, atol=1e-6)
    if gates.binary:  # to the bit
        exact = 0.3 * torch.where(mask, gates.log_prob_nonzero.exp(), 0.0).sum(1)
        assert objective._price(output, mask).equal(exact - 0.5 * torch.where(mask, gates.entropy(), 0.0).sum(1))


@pytest.mark.parametrize(
    "make", [lambda raw: HardKuma(raw[0].exp(), raw[1].exp()), lambda raw: HardConcrete(raw[0], 0.5)]
)
def test_with_a_price_and_a_reward_the_mass_of_an_open_gate_settles_as_that_of_a_bernoulli(make):
    """Without any worth of its value, every kind of gate goes to the log-odds -price / entropy of (R8)."""
    raw = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    adam = torch.optim.Adam([raw], lr=0.05)
    for _ in range(1000):
        gate = make(raw)
        loss = 0.03 * gate.log_prob_nonzero.exp() - 0.02 * openness_entropy(gate.log_prob_nonzero, gate.log_prob_zero)
        adam.zero_grad()
        loss.backward()
        adam.step()
    gate = make(raw)
    assert (gate.log_prob_nonzero - gate.log_prob_zero).item() == pytest.approx(-0.03 / 0.02, abs=1e-3)


# --- the constraint on a gate with one parameter

SHUT, OPEN = -2.7, 2.0  # P(H != 0) = 8e-13 and 1 - 1e-9
ONE = torch.ones(16, 16, dtype=torch.bool)


def gate(theta: Tensor) -> HardKuma:
    """Gates for 16 texts of 16 tokens, all alike, with one parameter: shut at -inf, open at +inf."""
    return HardKuma(theta.exp().expand(16, 16), (-theta).exp().expand(16, 16))


def rate_of(theta: float) -> float:
    return gate(torch.tensor(theta, dtype=torch.float64)).log_prob_nonzero[0, 0].exp().item()


def solve(
    start: float, task: Callable[[Tensor], Tensor], steps: int = 500, **arguments
) -> tuple[list[float], Constraint]:
    """Train the parameter on task(z) plus the constraint; the rate after each step."""
    torch.manual_seed(0)
    theta = torch.tensor(start, requires_grad=True)
    constraint = Constraint(**arguments)
    optimizer, trace = torch.optim.Adam([theta], lr=0.03), []
    for _ in range(steps):
        gates = gate(theta)
        log_value, log_rest = log_mean(gates.log_prob_nonzero, ONE), log_mean(gates.log_prob_zero, ONE)
        constraint.update(log_value.detach().exp() * 16, 16)
        loss = task(gates.rsample()) + constraint(log_value, log_rest)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([theta], 5.0)
        optimizer.step()
        trace.append(rate_of(theta.item()))
    return trace, constraint


def wants_words(z: Tensor) -> Tensor:
    return (1 - z).square().mean()


def wants_none(z: Tensor) -> Tensor:
    return z.square().mean()


@pytest.mark.parametrize("task", [wants_words, wants_none])
@pytest.mark.parametrize("start", [SHUT, -0.7, OPEN])
def test_the_signed_constraint_reaches_its_target_from_both_sides(start, task):
    trace, constraint = solve(start, task, target=0.4, step=0.5, smoothing=0.9, quadratic=20.0)
    late = trace[-50:]
    assert abs(sum(late) / 50 - 0.4) < 0.01 and max(late) - min(late) < 0.05, (
        f"from rate {rate_of(start):.2g} with a task that {task.__name__}: the last 50 rates lie in "
        f"[{min(late):.3f}, {max(late):.3f}], multiplier {constraint.multiplier.item():.3f}"
    )
    assert (constraint.multiplier > 0) == (task is wants_words), "of either sign: it balances what the task wants"


@pytest.mark.parametrize(("target", "start"), [(0.05, -0.7), (0.95, OPEN)])
def test_the_signed_constraint_reaches_extreme_targets(target, start):
    trace, _ = solve(start, wants_words, target=target, step=0.5, smoothing=0.9, quadratic=20.0)
    assert sum(trace[-50:]) / 50 == pytest.approx(target, abs=0.01)


def test_the_authors_constraint_does_not_return_from_shut_gates():
    """The trap: with z = 0 for certain, the task has no gradient, and the multiplier only pushes down."""
    trace, constraint = solve(SHUT, wants_words, target=0.4, dynamics="authors", smoothing=0.5, multiplier=0.01)
    assert constraint.multiplier > 0, "positive, however long too little is selected"
    assert max(trace) < 1e-10, f"rate {max(trace):.2g}; the signed constraint returns from the same start"


def test_the_authors_constraint_is_the_published_rule_step_by_step():
    """A plain re-implementation of Algorithm 1 of Rezende and Viola (2018) as the authors run it: spec C.1."""
    torch.manual_seed(0)
    alpha, eta, target = 0.9, 0.05, 0.3
    constraint = Constraint(target, "authors", step=eta, smoothing=alpha, multiplier=1e-4)
    multiplier, average = 1e-4, 0.0  # the moving average starts at 0
    for step in range(50):
        value = torch.rand((), dtype=torch.float64, requires_grad=True)
        constraint.update(value.detach() * 25, 25)
        term = constraint(value.log(), (-value).log1p())
        (gradient,) = torch.autograd.grad(term, value)

        gap = value.item() - target
        average = alpha * average + (1 - alpha) * gap
        multiplier = multiplier * math.exp(eta * average)  # first, and the updated one enters the loss
        assert constraint.multiplier.item() == pytest.approx(multiplier, rel=1e-12), f"multiplier, step {step}"
        assert constraint.multiplier > 0
        assert term.item() == pytest.approx(multiplier * average, rel=1e-9, abs=1e-15), f"value, step {step}"
        assert gradient.item() == pytest.approx(multiplier, rel=1e-9), f"gradient in the rate, step {step}"


def test_the_signed_constraint_is_its_formula_step_by_step():
    torch.manual_seed(0)
    target, rate, smoothing, quadratic = 0.3, 0.2, 0.8, 50.0
    constraint = Constraint(target, "signed", rate, smoothing, quadratic)
    multiplier, amounts, sizes = 0.0, 0.0, 0.0
    for step in range(20):
        value, size = torch.rand((), dtype=torch.float64, requires_grad=True), torch.randint(5, 30, ())
        constraint.update(value.detach() * size, size)
        term = constraint(value.log(), (-value).log1p())
        (gradient,) = torch.autograd.grad(term, value)

        amounts = smoothing * amounts + (1 - smoothing) * value.item() * size.item()
        sizes = smoothing * sizes + (1 - smoothing) * size.item()
        multiplier += rate * (amounts / sizes - target)
        odds = math.log(value.item() / (1 - value.item())) - math.log(target / (1 - target))
        c = target * (1 - target) * odds
        slope = target * (1 - target) / (value.item() * (1 - value.item()))
        assert constraint.multiplier.item() == pytest.approx(multiplier, rel=1e-9), f"multiplier, step {step}"
        assert term.item() == pytest.approx(multiplier * c + quadratic / 2 * c**2, rel=1e-9), f"value, step {step}"
        assert gradient.item() == pytest.approx((multiplier + quadratic * c) * slope, rel=1e-9), f"step {step}"


def test_the_violation_is_the_gap_near_the_target():
    constraint = Constraint(0.4, quadratic=0.0, multiplier=1.0)
    value = torch.tensor(0.401, dtype=torch.float64)
    assert constraint(value.log(), (-value).log1p()).item() == pytest.approx(0.001, rel=0.01)


def test_a_first_measurement_counts_in_full_and_small_batches_count_less():
    constraint = Constraint(0.4, step=1.0, smoothing=0.9)
    constraint.update(torch.tensor(20.0), 25)
    assert constraint.gap.item() == pytest.approx(0.8 - 0.4), "no ramp-up from 0"
    for _ in range(200):
        constraint.update(torch.tensor(20.0), 25)
        constraint.update(torch.tensor(0.0), torch.tensor(1))
    assert constraint.gap.item() == pytest.approx(20 / 26 - 0.4, abs=0.03), "not the mean of the two rates, 0.4"


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
def test_a_constraint_in_evaluation_mode_does_not_move(dynamics):
    constraint = Constraint(0.4, dynamics, multiplier=0.5)
    constraint.update(torch.tensor(3.0), 4)
    before = {name: value.clone() for name, value in constraint.named_buffers()}
    constraint.eval()
    constraint.update(torch.tensor(1.0), 4)
    constraint(torch.tensor(-1.0), torch.tensor(-0.5))
    assert all(value.equal(before[name]) for name, value in constraint.named_buffers())
    constraint.train()
    constraint.update(torch.tensor(1.0), 4)
    assert not constraint.multiplier.equal(before["multiplier"])


def test_no_optimiser_sees_a_multiplier_and_a_checkpoint_holds_it():
    constraint = Constraint(0.4)
    constraint.update(torch.tensor(3.0), 4)
    assert not list(constraint.parameters())
    other = Constraint(0.4)
    other.load_state_dict(constraint.state_dict())
    for moved in (constraint, other):
        moved.update(torch.tensor(1.0), 4)
    assert other.multiplier.equal(constraint.multiplier) and other.gap.equal(constraint.gap)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"target": 0.0}, r"target: got 0.0, accepted are rates in \(0, 1\)"),
        ({"target": 1.0}, r"target: got 1.0"),
        ({"target": 40}, r"target: got 40"),
        ({"target": 0.4, "dynamics": "sgined"}, "dynamics: got 'sgined', accepted are signed, authors"),
        ({"target": 0.4, "step": 0.0}, r"step: got 0.0, accepted > 0"),
        ({"target": 0.4, "smoothing": 1.0}, r"smoothing: got 1.0, accepted \[0, 1\)"),
        ({"target": 0.4, "quadratic": -1.0}, r"quadratic: got -1.0, accepted >= 0"),
        ({"target": 0.4, "dynamics": "authors"}, r"multiplier: got 0.0, accepted is a start > 0"),
        ({"target": 0.4, "largest": 1.0, "smallest": 2.0}, r"smallest: got 2.0, accepted are numbers up to largest"),
        ({"target": 0.4, "first": 1.0}, r"first: got 1.0, accepted are rates in"),
        ({"target": 0.4, "first": 0.8, "moves": -1}, "moves: got -1, accepted are integers from 0"),
        ({"target": 0.4, "moves": 2.5}, "^moves: got 2.5, accepted are integers from 0"),
        ({"target": 0.4, "quadratic": math.nan}, "^quadratic: got nan, accepted >= 0"),
        ({"target": 0.4, "step": math.inf}, "^step: got inf, accepted > 0"),
        ({"target": 0.4, "largest": 0.0}, "^largest: got 0.0, accepted > 0"),
        ({"target": 0.4, "multiplier": math.nan}, "^multiplier: got nan, accepted are finite numbers"),
        ({"target": 0.4, "multiplier": 5.0, "largest": 1.0}, "^multiplier: got 5.0, accepted is a start from"),
    ],
)
def test_arguments_out_of_range_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Constraint(**arguments)


def test_texts_of_one_word_have_no_switches_however_far_they_are_padded():
    losses, slopes = [], []
    for length in (1, 3):
        logits = torch.full((2, length), 0.7, requires_grad=True)
        mask = torch.arange(length) < torch.ones(2, 1)
        gates = Bernoulli(logits=logits)
        output = Output(z=torch.ones(2, length), prediction=torch.zeros(2, 5), gates=gates)
        batch = Batch(torch.ones(2, length, dtype=torch.long), mask, torch.zeros(2).long(), torch.arange(2))
        objective = RationaleObjective(transitions=Constraint(0.1, multiplier=2.0), sparsity=0.1)
        loss = objective.loss(output, batch, HEADS["classes"](4, 5)).loss
        losses.append(loss.item())
        slopes.append(torch.autograd.grad(loss, logits)[0])
    assert losses[0] == pytest.approx(losses[1]) and math.isfinite(losses[0])
    assert torch.allclose(slopes[0], slopes[1][:, :1]) and not slopes[1][:, 1:].any()


def test_a_rate_of_each_text_needs_the_sizes_of_the_texts():
    with pytest.raises(ValueError, match="sizes: got None, accepted with per_text is the number of words"):
        Constraint(0.4, per_text=True)(torch.zeros(2), torch.zeros(2))


def test_a_price_or_a_count_of_the_objective_that_is_out_of_range_is_named():
    for name in ("sparsity", "coherence", "entropy", "closeness", "guidance"):
        for value in (-1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match=f"^{name}: got {value}, accepted are numbers from 0"):
                RationaleObjective(**{name: value})
    for name, least in {"every": 1, "samples": 1, "warmup": 0, "held_after": 0, "whole_texts": 0}.items():
        for value in (least - 1, 1.5):
            with pytest.raises(ValueError, match=f"^{name}: got {value}, accepted are integers from {least}"):
                RationaleObjective(**{name: value})


@pytest.mark.parametrize(
    ("start", "rate", "gap", "steps"), [(1e-5, 0.05, 0.8, 288), (1e-4, 0.01, 0.7, 1316), (1e-5, 0.01, 0.8, 1439)]
)
def test_steps_to_a_multiplier_of_one_are_those_of_the_three_tasks(start, rate, gap, steps):
    assert round(steps_to_multiplier(start, rate, gap)) == steps, "spec C.1: beer, SST, SNLI"
    constraint = Constraint(0.1, "authors", step=rate, smoothing=0.0, multiplier=start)
    count = 0
    while constraint.multiplier < 1:
        constraint.update(torch.tensor(0.1 + gap, dtype=torch.float64), 1)
        count += 1
    assert count == math.ceil(steps_to_multiplier(start, rate, gap)), "counted, without a moving average"


# --- the objective of a batch


def batch_of(lengths: list[int]) -> Batch:
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(2, 20, mask.shape).where(mask, 1)
    return Batch(tokens, mask, torch.randint(0, 3, (len(lengths),)), torch.arange(len(lengths)))


def model_of(**changes) -> nn.Module:
    torch.manual_seed(0)
    return build_extractor(parameters(**changes), torch.randn(20, 8), "classes", 3).train()


BATCH = batch_of([9, 7, 4, 1])


@pytest.mark.parametrize("measure", ["training", "expected", "selected"])
def test_each_measure_feeds_the_constraint_with_what_it_says(measure):
    model = model_of(dropout=0.5)
    with torch.no_grad():
        gates = model.eval().gates(BATCH.tokens, BATCH.mask)
    model.train()
    objective = RationaleObjective(Constraint(0.4, smoothing=0.0), measure=measure, every=1)
    step = objective(model, BATCH)
    measured = objective.selection.gap.item() + 0.4
    chosen = (decide(gates, "argmax") != 0) & BATCH.mask
    expected = {
        "training": step.parts["rate"].item(),
        "expected": expected_selection(gates.log_prob_nonzero.exp(), BATCH.mask).mean().item(),
        "selected": (chosen.sum() / BATCH.mask.sum()).item(),
    }
    assert len({round(value, 6) for value in expected.values()}) == 3, "the three must differ to tell them apart"
    assert measured == pytest.approx(expected[measure], rel=1e-5), expected
    assert all(module.training for module in model.modules()), "the model must stay in training mode"


def test_a_measurement_without_dropout_is_taken_every_so_many_steps():
    model, objective = model_of(), RationaleObjective(Constraint(0.4), every=3)
    moved = []
    for _ in range(7):
        before = objective.selection.multiplier.clone()
        objective(model, BATCH)
        moved.append(not objective.selection.multiplier.equal(before))
    assert moved == [True, False, False, True, False, False, True]


def test_a_target_that_moves_falls_by_equal_factors_and_then_stays():
    held = Constraint(0.2, first=0.8, moves=4)
    targets = []
    for taken in range(7):
        held.at_step(taken)
        targets.append(held.target)
    assert targets == pytest.approx([0.8, 0.8 / 2**0.5, 0.4, 0.4 / 2**0.5, 0.2, 0.2, 0.2])
    assert Constraint(0.2).target == 0.2, "without a first target it is the same from the start"


def test_the_constraint_of_a_training_step_has_the_target_of_that_step():
    """The multiplier moves by the distance of the measured rate from the target of the step, whatever was before."""
    p = parameters(selection=0.2, selection_start=0.8, selection_moves=0.5, measure_every=1, smoothing=0.0)
    model, objective = model_of(), build_objective(p, steps_per_epoch=2, epochs=4)
    with torch.no_grad():
        rate = expected_selection(
            model.eval().gates(BATCH.tokens, BATCH.mask).log_prob_nonzero.exp(), BATCH.mask
        ).mean()
    model.train()
    gaps = []
    for step in range(6):
        assert step > 4 or objective.variant is None, "no step may be replayed while the target moves"
        objective(model, BATCH)  # the weights stay as they are
        gaps.append(objective.selection.gap.item())
    assert gaps == pytest.approx([rate.item() - 0.2 * 4 ** (1 - min(k, 4) / 4) for k in range(6)], abs=1e-5)
    continued = build_objective(p, steps_per_epoch=2, epochs=4)
    continued.load_state_dict(objective.state_dict())
    assert continued.eval()(model.eval(), BATCH).loss == objective.eval()(model, BATCH).loss, "a run goes on with it"
    assert objective.train().variant is not None


def logs_of(rates: list[float]) -> tuple[Tensor, Tensor]:
    rate = torch.tensor(rates, dtype=torch.float64)
    return rate.log(), (-rate).log1p()


def test_the_constraint_on_each_text_is_the_mean_of_what_each_text_alone_would_cost():
    held, each = Constraint(0.2, quadratic=7.0), Constraint(0.2, quadratic=7.0, per_text=True)
    for constraint in (held, each):
        constraint.multiplier += 0.3
    log_rates, log_rests = logs_of([0.1, 0.2, 0.7])
    term = each(log_rates, log_rests, torch.tensor([50, 9, 5]))
    alone = [held(value, rest) for value, rest in zip(log_rates, log_rests, strict=True)]
    assert term.item() == pytest.approx(sum(alone).item() / 3, rel=1e-12)


def test_the_constraint_on_each_text_moves_texts_towards_the_target_whose_mean_is_on_it():
    rate = torch.tensor([0.1, 0.3], dtype=torch.float64, requires_grad=True)
    for per_text, signs in ((True, [-1.0, 1.0]), (False, [0.0, 0.0])):
        constraint = Constraint(0.2, quadratic=7.0, per_text=per_text)
        logs = (rate.log(), (-rate).log1p()) if per_text else (rate.mean().log(), (-rate.mean()).log1p())
        (grad,) = torch.autograd.grad(constraint(*logs, torch.tensor([50, 50])), rate)
        assert grad.mul(1e6).round().sign().tolist() == signs


def test_a_text_of_few_words_may_keep_one_of_them():
    each = Constraint(0.2, quadratic=7.0, per_text=True)
    for words, target in ((1, 0.5), (2, 0.5), (3, 1 / 3), (5, 0.2), (40, 0.2)):
        assert each(*logs_of([target]), torch.tensor([words])).item() == pytest.approx(0, abs=1e-12), words
        assert each(*logs_of([target / 2]), torch.tensor([words])) > 0, words
    most = Constraint(0.8, quadratic=7.0, per_text=True)
    assert most(*logs_of([0.8]), torch.tensor([1])).item() == pytest.approx(0, abs=1e-12), "a target above 1/2"


def test_the_mean_target_of_texts_is_over_texts_or_over_words_and_the_last_one():
    sizes, each = torch.tensor([1, 3, 16]), Constraint(0.2, per_text=True, first=0.9, moves=100)
    assert each.target == 0.9, "it moves"
    of_texts, of_words = (each.mean_target(sizes, of_words, final=True).item() for of_words in (False, True))
    assert of_texts == pytest.approx((1 / 2 + 1 / 3 + 0.2) / 3, rel=1e-12)
    assert of_words == pytest.approx((1 / 2 + 1 + 3.2) / 20, rel=1e-12)
    assert Constraint(0.2).mean_target(sizes, of_words=True).item() == pytest.approx(0.2, rel=1e-12)


def test_an_epoch_is_kept_by_the_mean_target_of_its_texts(tmp_path, monkeypatch):
    used, choose = [], extraction.ModelSelection
    monkeypatch.setattr(
        extraction, "ModelSelection", lambda *args, **options: used.append(options) or choose(*args, **options)
    )
    splits = {name: [Example(("a",) * n, n % 2) for n in (1, 2, 3, 16)] for name in ("train", "dev", "test")}
    for measure, target in (("expected", (1 / 2 + 1 / 2 + 1 / 3 + 0.2) / 4), ("selected", (0.5 + 1 + 1 + 3.2) / 22)):
        p = parameters(selection=0.2, per_text=True, measure=measure, epochs=1)
        train_extractor(p, splits, "classes", 2, tmp_path / measure)
        assert used[-1]["target"] == pytest.approx(target, rel=1e-12)


@pytest.mark.parametrize("measure", ["training", "expected", "selected"])
def test_the_gap_of_each_text_is_measured_from_what_short_texts_may_keep(measure):
    p = parameters(selection=0.2, measure=measure, measure_every=1, smoothing=0.0, dropout=0.0)
    sizes = BATCH.mask.sum(1).double()
    targets = (1 / sizes).clamp(0.2, 0.5)
    surplus = ((targets - 0.2) * sizes).sum() / sizes.sum() if measure == "selected" else targets.mean() - 0.2
    gaps = []
    for per_text in (False, True):
        torch.manual_seed(0)
        objective = build_objective(SimpleNamespace(**vars(p) | {"per_text": per_text}), steps_per_epoch=2, epochs=4)
        objective(model_of(dropout=0.0), BATCH)
        gaps.append(objective.selection.gap.item())
    assert gaps[0] - gaps[1] == pytest.approx(surplus.item(), abs=1e-6) and surplus > 0.01


def test_a_training_step_holds_each_text_whatever_stands_in_the_padding():
    p = parameters(selection=0.2, per_text=True, dropout=0.0)
    model, objective = model_of(dropout=0.0).eval(), build_objective(p, steps_per_epoch=2, epochs=4).eval()
    objective.selection.multiplier += 0.3
    output = model(BATCH.tokens, BATCH.mask)
    gates, constraint = output.gates.log_prob_nonzero, objective.selection
    costs = []
    for row, mask in zip(gates, BATCH.mask, strict=True):
        rate = row[mask].double().exp().mean().item()
        target = max(0.2, min(1 / int(mask.sum()), 0.5))
        c = target * (1 - target) * (math.log(rate / (1 - rate)) - math.log(target / (1 - target)))
        costs.append(0.3 * c + constraint.quadratic / 2 * c**2)
    result = objective.loss(output, BATCH, model.head)
    assert (result.loss - result.parts["task"]).item() == pytest.approx(sum(costs) / len(costs), rel=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"per_text": True}, "per_text: true is not accepted without a target"),
        ({"per_text": True, "selection": 0.2, "dynamics": "authors", "multiplier_init": 0.1}, "per_text: true is not "),
    ],
)
def test_only_a_signed_constraint_with_a_target_holds_each_text(changes, message):
    with pytest.raises(BadInput, match=message):
        ExtractionSettings.checked(changes)
    with pytest.raises(ValueError, match="per_text: got True, accepted is False"):
        Constraint(0.2, "authors", multiplier=0.1, per_text=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"selection_start": 0.9, "selection_moves": 0.5}, "selection_start: 0.9 is not accepted without a target"),
        ({"selection": 0.2, "selection_moves": 0.5}, "selection_moves: 0.5 is not accepted without selection_start"),
        ({"selection": 0.2, "selection_start": 0.9}, "selection_moves: 0 is not accepted with selection_start"),
        ({"selection": 0.2, "selection_start": 1.0, "selection_moves": 0.5}, "selection_start"),
    ],
)
def test_a_moving_target_needs_a_start_an_end_and_a_time(changes, message):
    with pytest.raises(BadInput, match=message):
        ExtractionSettings.checked(changes)


@pytest.mark.parametrize("measure", ["expected", "selected"])
def test_a_measurement_leaves_no_gradient_and_draws_no_random_number(measure):
    losses = {}
    for every in (1, 100):
        model = model_of(dropout=0.5)
        objective = RationaleObjective(Constraint(0.4, step=1e-30), measure=measure, every=every)
        torch.manual_seed(7)
        losses[every] = [objective(model, BATCH).loss.item() for _ in range(3)]
        assert all(value.grad is None for value in model.parameters())
    assert losses[1] == losses[100]


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
@pytest.mark.parametrize("measure", ["training", "expected", "selected"])
def test_evaluation_leaves_the_duals_unchanged_bit_by_bit(dynamics, measure):
    def constraint(target):
        return Constraint(target, dynamics, multiplier=0.1)

    model, objective = model_of(), RationaleObjective(constraint(0.4), constraint(0.2), measure)
    objective(model, BATCH)
    before = {name: value.clone() for name, value in objective.state_dict().items()}
    model.eval()
    objective.eval()
    with torch.no_grad():
        objective(model, BATCH)
        objective.loss(model(BATCH.tokens, BATCH.mask), BATCH, model.head)
    for name, value in objective.state_dict().items():
        assert value.equal(before[name]), f"trap I-9: evaluation moved {name}"


def test_the_loss_is_the_task_plus_the_terms():
    model = model_of()
    objective = RationaleObjective(Constraint(0.4, multiplier=0.7), Constraint(0.2, multiplier=-0.3)).eval()
    output = model.eval()(BATCH.tokens, BATCH.mask)
    step = objective.loss(output, BATCH, model.head)
    rate = expected_selection(output.gates.log_prob_nonzero.exp(), BATCH.mask).mean()
    switches = expected_transitions(output.gates.prob_zero, output.gates.log_prob_nonzero.exp(), BATCH.mask).mean()
    task = nn.functional.cross_entropy(output.prediction, BATCH.target)
    terms = objective.selection(rate.log(), (-rate).log1p()) + objective.transitions(
        switches.log(), (-switches).log1p()
    )
    torch.testing.assert_close(step.loss, task + terms)
    found = {name: value.item() for name, value in step.parts.items()}
    assert found == pytest.approx({"task": task.item(), "rate": rate.item(), "switches": switches.item()}, rel=1e-5)
    assert not any(value.requires_grad for value in step.parts.values())


def test_a_model_that_reads_everything_has_the_task_alone():
    model = model_of(model="full_text")
    step = build_objective(parameters(model="full_text"), has_gates=False)(model, BATCH)
    assert step.parts.keys() == {"task"} and step.loss.item() == step.parts["task"].item()


@pytest.mark.parametrize(
    ("dynamics", "target", "low", "high"),
    [("signed", 0.05, 0.04, 0.06), ("signed", 0.2, 0.19, 0.21), ("authors", 0.05, 0.0, 0.05)],
)
def test_the_constraint_on_switches_holds_them(dynamics, target, low, high):
    """From 0.14 down and up; the authors' rule only bounds them from above."""
    changes = {"transitions": target, "dynamics": dynamics, "multiplier_init": 0.5, "multiplier_rate": 0.5}
    changes |= {"dropout": 0.0, "selection": None}
    model, objective = model_of(**changes), build_objective(parameters(**changes))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(120):
        step = objective(model, BATCH)
        optimizer.zero_grad()
        step.loss.backward()
        optimizer.step()
    gates = model.eval().gates(BATCH.tokens, BATCH.mask)
    switches = expected_transitions(gates.prob_zero, gates.log_prob_nonzero.exp(), BATCH.mask).mean().item()
    assert low <= switches <= high, f"{dynamics}: {switches:.3f} switches a token, target {target}"


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
@pytest.mark.parametrize(("bias", "lengths"), [(0.0, [1, 1]), (-200.0, [5, 3]), (200.0, [5, 3]), (200.0, [1])])
def test_saturated_gates_and_texts_of_one_word_keep_loss_and_gradient_finite(bias, lengths, dynamics):
    """All gates shut (or open) as far as float32 goes, and texts that cannot switch."""
    model, batch = model_of(dropout=0.0), batch_of(lengths)
    with torch.no_grad():
        model.selector.gate.a.bias.fill_(bias)
        model.selector.gate.b.bias.fill_(-bias)
    constraint = {"dynamics": dynamics, "multiplier": 1.0}
    objective = RationaleObjective(Constraint(0.4, **constraint), Constraint(0.1, **constraint))
    for _ in range(2):
        step = objective(model, batch)
        assert step.loss.isfinite(), f"{step}"
        step.loss.backward()
        for name, value in model.named_parameters():
            assert value.grad.isfinite().all(), f"gradient of {name} at a gate bias of {bias}, lengths {lengths}"
        assert all(value.isfinite() for value in objective.buffers()), f"{dict(objective.named_buffers())}"


def test_build_objective_makes_the_constraints_that_are_asked_for():
    for changes, wanted in [
        ({}, (True, False)),
        ({"transitions": 0.1}, (True, True)),
        ({"selection": None}, (False, False)),
    ]:
        objective = build_objective(parameters(**changes))
        assert (objective.selection is not None, objective.transitions is not None) == wanted, f"{changes}"
    without = build_objective(parameters(transitions=0.1), has_gates=False)
    assert without.selection is None and without.transitions is None, "a model without gates has no rate to hold"
    objective = build_objective(parameters(measure="selected", measure_every=5, selection=0.2, quadratic=3.0))
    assert (objective.measure, objective.every) == ("selected", 5)
    assert (objective.selection.target, objective.selection.quadratic) == (0.2, 3.0)


def test_an_unknown_measure_is_refused():
    with pytest.raises(ValueError, match="measure: got 'hard', accepted are training, expected, selected"):
        RationaleObjective(None, measure="hard")


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
def test_a_multiplier_never_passes_its_largest_value(dynamics):
    constraint = Constraint(0.1, dynamics, step=5.0, smoothing=0.0, multiplier=0.5, largest=2.0)
    for _ in range(20):
        constraint.update(torch.tensor(0.9), 1.0)
        assert constraint.multiplier <= 2.0
    assert constraint.multiplier == 2.0


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
def test_a_multiplier_never_falls_below_its_smallest_value_and_rises_from_it_at_once(dynamics):
    free = Constraint(0.4, dynamics, step=1.0, smoothing=0.0, multiplier=0.5)
    limited = Constraint(0.4, dynamics, step=1.0, smoothing=0.0, multiplier=0.5, smallest=0.3)
    for _ in range(20):
        for constraint in (free, limited):
            constraint.update(torch.tensor(0.0), 1.0)
    assert free.multiplier < 0.01 and limited.multiplier == 0.3
    limited.update(torch.tensor(0.9), 1.0)
    assert limited.multiplier > 0.3, "no gap has been stored up"
    objective = build_objective(parameters(selection=0.4, multiplier_min=0.0))
    assert (objective.selection.smallest, objective.selection.largest) == (0.0, math.inf)


@pytest.mark.parametrize("measure", ["training", "expected", "selected"])
def test_a_constraint_that_begins_later_leaves_the_loss_to_the_task_until_then(measure):
    model = model_of()
    p = parameters(selection=0.1, measure=measure, constraint_from=3, measure_every=1)
    objective = build_objective(p, steps_per_epoch=2).train()
    for step in range(6):
        output = objective(model.train(), BATCH)
        acts, moved = step >= 4, objective.selection.multiplier.item() != 0
        assert acts == moved == (abs((output.loss - output.parts["task"]).item()) > 1e-6), f"step {step}"
    assert build_objective(parameters(selection=0.1), steps_per_epoch=2).held_after == 0, "at once by default"


@pytest.mark.parametrize(
    "changes", [{"measure": "expected"}, {"measure": "selected"}, {"measure": "training", "baseline": "self_critical"}]
)
def test_a_part_that_is_kept_in_evaluation_mode_stays_in_it(changes):
    changes = {"model": "bernoulli", "dropout": 0.5, "measure_every": 1} | changes
    model, objective = model_of(**changes).train(), build_objective(parameters(**changes)).train()
    model.predictor.encoder.eval()
    before = {name: module.training for name, module in model.named_modules()}
    seen = []
    model.selector.dropout.register_forward_hook(lambda module, *_: seen.append(module.training))
    objective(model, BATCH)
    assert {name: module.training for name, module in model.named_modules()} == before
    assert model.predictor.dropout.training and not model.predictor.encoder.training
    assert seen == [True, False], "one pass to train, one without dropout"


# --- the multiplier winds up -----------------------------------------------------------------------------------


def settled(start: float, largest_gap: float) -> tuple[int, float]:
    """The last step at which the rate of one gate is 0.02 or more from its target of 0.1, and its lowest rate."""
    logit = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    constraint, optimiser = Constraint(0.1, largest_gap=largest_gap), torch.optim.SGD([logit], lr=0.1)
    last, lowest = 0, 1.0
    for step in range(1000):
        constraint.update(logit.sigmoid().detach(), 1.0)
        optimiser.zero_grad()
        constraint(F.logsigmoid(logit), F.logsigmoid(-logit)).backward()
        optimiser.step()
        rate = logit.sigmoid().item()
        last, lowest = step if abs(rate - 0.1) > 0.02 else last, min(lowest, rate)
    return last, lowest


def test_a_limit_of_the_gap_keeps_the_multiplier_from_winding_up():
    free, limited = settled(5.0, math.inf), settled(5.0, 0.1)
    assert limited[0] < free[0] / 2, f"settled after {limited[0]} steps, without the limit after {free[0]}"
    assert limited[1] > free[1], f"overshoot to {limited[1]:.3f}, without the limit to {free[1]:.3f}"


def test_a_limit_that_no_gap_reaches_changes_nothing():
    plain, limited = Constraint(0.4), Constraint(0.4, largest_gap=0.3)
    for rate in (0.6, 0.3, 0.15, 0.5):
        for constraint in (plain, limited):
            constraint.update(torch.tensor(rate), 1.0)
        assert torch.equal(plain.multiplier, limited.multiplier)


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
def test_a_measurement_that_is_no_number_is_refused_and_changes_nothing(dynamics):
    constraint = Constraint(0.4, dynamics, multiplier=0.5)
    constraint.update(torch.tensor(0.6), 1.0)
    before = {name: buffer.clone() for name, buffer in constraint.named_buffers()}
    with pytest.raises(ValueError, match="measured rate is nan"):
        constraint.update(torch.tensor(math.nan), 1.0)
    assert all(torch.equal(buffer, before[name]) for name, buffer in constraint.named_buffers())


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
@pytest.mark.parametrize(
    ("amount", "size"), [(30.0, 1.0), (torch.tensor(30.0), 1.0), (-0.1, 1.0), (33, torch.tensor(32))]
)
def test_a_measurement_that_is_no_rate_is_refused_and_changes_nothing(dynamics, amount, size):
    constraint = Constraint(0.4, dynamics, multiplier=0.5)
    before = {name: buffer.clone() for name, buffer in constraint.named_buffers()}
    said = f"amount {float(amount):g} of size {float(size):g} is no rate in [0, 1]; give counts, or a rate with size=1"
    with pytest.raises(ValueError, match=re.escape(said)):
        constraint.update(amount, size)
    assert all(torch.equal(buffer, before[name]) for name, buffer in constraint.named_buffers())
    constraint.update(1.001, 1.0)  # a rounded 1


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
def test_a_constraint_takes_plain_numbers(dynamics):
    plain, tensors = (Constraint(0.4, dynamics, multiplier=0.5) for _ in range(2))
    plain.update(0.6, size=1.0)
    tensors.update(torch.tensor(0.6, dtype=torch.float64), size=1.0)
    assert torch.equal(plain.multiplier, tensors.multiplier)
    assert torch.equal(plain(-0.5, -0.9), tensors(torch.tensor(-0.5), torch.tensor(-0.9)))


@pytest.mark.parametrize("dynamics", ["signed", "authors"])
@pytest.mark.parametrize("convert", [nn.Module.float, nn.Module.half])
def test_converting_a_model_does_not_round_its_multipliers(dynamics, convert):
    plain, converted = (Constraint(0.4, dynamics, multiplier=0.123456789) for _ in range(2))
    convert(nn.ModuleList([converted]))
    for constraint in (plain, converted):
        constraint.update(torch.tensor(0.6), 1.0)
    assert converted.multiplier.dtype == torch.float64 and torch.equal(plain.multiplier, converted.multiplier)


def test_a_constraint_on_dependent_gates_without_gradient_cannot_be_an_expectation():
    gates = Bernoulli(logits=torch.zeros(2, 3))
    mask = torch.ones(2, 3, dtype=torch.bool)
    output = Output(torch.zeros(2, 1), gates.sample(), gates, dependent=True)
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), mask, torch.zeros(2, 1), torch.arange(2))
    with pytest.raises(ValueError, match="accepted is 'sampled'"):
        RationaleObjective(Constraint(0.4)).loss(output, batch, HEADS["scores"](2, 1))


# --- weights that fit the task


def test_weights_of_a_task_cost_half_of_its_loss_at_once_and_the_mean_value_of_a_word_after_an_epoch():
    quadratic, step = steps_of_task(target=0.2, task_loss=0.7, updates_per_epoch=25)
    held = Constraint(0.2, step=step, quadratic=quadratic, smoothing=0.0)
    near = 0.2 + 1e-4  # where the violation is the gap
    term = held(*(torch.tensor(value, dtype=torch.float64).log() for value in (near, 1 - near)))
    assert term.item() == pytest.approx(0.7 / 2 * (1e-4 / 0.2) ** 2, rel=1e-2)
    for _ in range(25):
        held.update(torch.tensor(40.0), 100.0)  # twice the target, for an epoch
    assert held.multiplier.item() == pytest.approx(0.7 / 0.2)


def test_a_target_above_one_half_is_as_far_from_everything_as_its_rest_from_nothing():
    assert steps_of_task(0.9, 0.7, 25) == pytest.approx(steps_of_task(0.1, 0.7, 25))


@pytest.mark.parametrize("arguments", [(0.0, 1.0, 1.0), (1.0, 1.0, 1.0), (0.2, 0.0, 1.0), (0.2, 1.0, 0.0)])
def test_weights_of_a_task_without_a_loss_or_steps_are_refused(arguments):
    with pytest.raises(ValueError, match="target: got"):
        steps_of_task(*arguments)


@pytest.mark.parametrize(("measure", "updates"), [("selected", 30 / 4), ("expected", 30 / 4), ("training", 30)])
def test_settings_that_are_null_come_from_the_task_and_others_stay(measure, updates):
    p = {"selection": 0.1, "measure": measure, "measure_every": 4, "transitions": 0.05}
    free = build_objective(SimpleNamespace(**p, multiplier_rate=None, quadratic=None), 30, task_loss=0.7)
    for held, per_epoch in ((free.selection, updates), (free.transitions, 30)):
        assert (held.quadratic, held.step) == pytest.approx(steps_of_task(held.target, 0.7, per_epoch))
    half = build_objective(SimpleNamespace(**p, multiplier_rate=0.3, quadratic=None), 30, task_loss=0.7)
    assert half.selection.step == 0.3 and half.selection.quadratic == free.selection.quadratic
    usual = build_objective(SimpleNamespace(**p), 30, task_loss=0.7)
    assert (usual.selection.step, usual.selection.quadratic) == (0.2, 50.0), "the defaults of the component"
    with pytest.raises(ValueError, match="task_loss: got 0"):
        build_objective(SimpleNamespace(**p, multiplier_rate=None), 30)


def test_a_multiplicative_rule_needs_a_step_of_its_own():
    with pytest.raises(BadInput, match="multiplier_rate: null is not accepted with dynamics authors; give a number"):
        ConstraintSettings.checked({"dynamics": "authors", "multiplier_init": 0.1, "multiplier_rate": None})
