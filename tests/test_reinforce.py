"""The score function: unbiased against the sum over all selections, whatever is subtracted; and what a draw costs."""

import itertools
import math

import pytest
import torch
from small import parameters
from torch import nn

from rationale.data import Batch
from rationale.distributions import Bernoulli, StraightThroughBernoulli
from rationale.models import build_extractor
from rationale.nn import Classes
from rationale.objectives import (
    Constraint,
    RationaleObjective,
    build_objective,
    count_selected,
    count_switches,
    expected_transitions,
    leave_one_out,
    score_function,
)

N = 6  # gates: 64 selections


def all_selections(n: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product((0.0, 1.0), repeat=n)), dtype=torch.float64)  # [2^n, n]


def a_cost(z: torch.Tensor) -> torch.Tensor:
    """A cost with interactions between the gates, [..., N] -> [...], about 2."""
    weights = torch.linspace(-1, 1, N, dtype=torch.float64)
    return 2 + torch.tanh(z @ weights) + 0.3 * z[..., 0] * z[..., -1] + 0.05 * z.sum(-1)


LOGITS = torch.tensor([-1.0, 0.3, 2.0, -0.2, 0.0, 0.7], dtype=torch.float64)


def exact_gradient(cost=a_cost) -> torch.Tensor:
    logits = LOGITS.clone().requires_grad_()
    z = all_selections(N)
    chance = Bernoulli(logits=logits).log_prob(z).sum(1).exp()
    (gradient,) = torch.autograd.grad((chance * cost(z)).sum(), logits)
    return gradient


def estimates(baseline: str, num_draws: int, k: int) -> torch.Tensor:
    """`num_draws` independent score-function gradients of K draws each, [num_draws, N], in closed form:
    the gradient of ln p(z) by the logits is z - p."""
    p = torch.sigmoid(LOGITS)
    z = (torch.rand(k, num_draws, N, dtype=torch.float64) < p).double()
    cost = a_cost(z)
    subtracted = {"none": torch.zeros_like(cost), "constant": torch.full_like(cost, 2.0)}
    if k > 1:
        subtracted["leave_one_out"] = leave_one_out(cost)
    return ((cost - subtracted[baseline]).unsqueeze(-1) * (z - p)).mean(0)


@pytest.mark.parametrize(("baseline", "k"), [("none", 1), ("none", 4), ("constant", 1), ("leave_one_out", 4)])
def test_the_mean_of_many_estimates_is_the_sum_over_all_selections(baseline, k):
    torch.manual_seed(0)
    drawn = estimates(baseline, 40_000, k)
    error = (drawn.mean(0) - exact_gradient()).abs() / (drawn.std(0) / math.sqrt(len(drawn)))
    assert (error < 4).all(), f"{baseline}, K = {k}: {error.max():.1f} standard errors off"


def test_a_mean_that_includes_the_draw_itself_is_biased():
    torch.manual_seed(0)
    p, k = torch.sigmoid(LOGITS), 2
    z = (torch.rand(k, 40_000, N, dtype=torch.float64) < p).double()
    cost = a_cost(z)
    drawn = ((cost - cost.mean(0)).unsqueeze(-1) * (z - p)).mean(0)
    error = (drawn.mean(0) - exact_gradient()).abs() / (drawn.std(0) / math.sqrt(len(drawn)))
    assert error.max() > 10, "the oracle above could not see a biased estimator"


def test_baselines_lower_the_variance_and_more_draws_divide_it():
    torch.manual_seed(0)
    ways = (("none", 1), ("none", 4), ("constant", 1), ("leave_one_out", 4))
    none, four, constant, loo = (estimates(baseline, 20_000, k).var(0).sum() for baseline, k in ways)
    assert constant < 0.3 * none, "the cost is about 2: subtracting 2 removes most of the noise"
    assert abs(none / four - 4) < 0.4, "four independent draws: a quarter of the variance"
    assert loo < 0.3 * four


def test_the_term_has_value_zero_and_the_gradient_of_the_estimator():
    logits = LOGITS.clone().requires_grad_()
    z = torch.tensor([[1.0, 0, 1, 0, 0, 1], [0, 0, 1, 1, 1, 1]], dtype=torch.float64).unsqueeze(1)  # [K, B, N]
    cost = a_cost(z).requires_grad_()
    term = score_function(cost, 0.5, Bernoulli(logits=logits).log_prob(z).sum(-1))
    term.backward()
    assert term.item() == 0
    assert cost.grad is None, "the cost's own gradient is not the score function's business"
    expected = ((cost.detach() - 0.5).unsqueeze(-1) * (z - torch.sigmoid(LOGITS))).mean((0, 1))
    assert torch.allclose(logits.grad, expected)


def test_the_closed_form_price_has_the_same_mean_gradient_and_no_variance():
    """Rao-Blackwell: E[sum z] = sum p and the switches, against the score function of the counts."""
    torch.manual_seed(0)
    mask = torch.ones(1, N, dtype=torch.bool)
    price = lambda z: count_selected(z) + 2 * count_switches(z, mask)  # noqa: E731
    logits = LOGITS.clone().requires_grad_()
    gates = Bernoulli(logits=logits.unsqueeze(0))
    closed = gates.prob_one.sum() + 2 * (expected_transitions(gates.prob_zero, gates.prob_one, mask) * N).sum()
    (analytic,) = torch.autograd.grad(closed, logits)
    assert torch.allclose(analytic, exact_gradient(price)), "closed form against all 64 selections"
    p = torch.sigmoid(LOGITS)
    z = (torch.rand(40_000, N, dtype=torch.float64) < p).double()
    drawn = price(z).unsqueeze(-1) * (z - p)
    error = (drawn.mean(0) - analytic).abs() / (drawn.std(0) / 200)
    assert (error < 4).all() and drawn.var(0).min() > 0


# --- the objective, on a whole model


def batch_of(lengths=(6, 4, 1)) -> Batch:
    torch.manual_seed(1)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    tokens = torch.randint(2, 20, mask.shape).where(mask, 1)
    return Batch(tokens, mask, torch.arange(len(lengths)) % 3, torch.arange(len(lengths)))


def model_of(double: bool = False, **changes):
    torch.manual_seed(0)
    p = parameters(**({"model": "bernoulli", "dropout": 0.0, "selection": None} | changes))
    model = build_extractor(p, torch.randn(20, 8), "classes", 3)
    objective = build_objective(p)
    if double:
        model, objective = model.double(), objective.double()
    nn.init.normal_(model.selector.gate.logits.weight, std=1.0)
    return model.train(), objective.train()


def drawn_gradients(model, objective, batch, num: int, copies: int = 4) -> torch.Tensor:
    """`num` independent estimates of the gradient by the gate's weights, each the mean over `copies` of every text."""
    batch = Batch(*(part.repeat(copies, *[1] * (part.dim() - 1)) for part in batch if part is not None))
    weight = model.selector.gate.logits.weight
    return torch.stack([torch.autograd.grad(objective(model, batch).loss, weight)[0] for _ in range(num)]).double()


def enumerated_gradient(model, objective, batch) -> torch.Tensor:
    """Gradient, by the gate's weights, of the exact expected cost: every selection of every text, by its chance."""
    total, num_guided = 0.0, 0 if batch.guide is None else int((batch.guide >= 0).sum())
    for i, length in enumerate(batch.mask.sum(1).tolist()):
        z = all_selections(length).to(model.vectors.dtype)
        rows = Batch(*(part[i : i + 1].expand(len(z), *part.shape[1:]) for part in batch[:4]))
        mask, embedded = rows.mask[:, :length], model.embed(rows.tokens[:, :length])
        replay = iter(z.unbind(1)) if model.selector.dependent else iter([z])
        drawn, gates, _ = model.selector(embedded, mask, lambda _, replay=replay: next(replay))
        prediction = model.predictor(embedded, mask, drawn)
        log_open, log_shut = gates.log_prob_nonzero, gates.log_prob_zero
        cost = model.head.loss(prediction, rows.target)
        cost = cost + objective.sparsity * count_selected(z) + objective.coherence * count_switches(z, mask)
        if model.auxiliary is not None:
            second = model.auxiliary(embedded, mask, log_open.exp())
            cost = cost + objective.closeness * model.head.divergence(prediction, second)
            cost = cost + model.head.loss(second, rows.target)
        if num_guided:
            guide = batch.guide[i, :length]
            missed = torch.where(guide == 1, -log_open, torch.where(guide == 0, -log_shut, 0.0)).sum(1)
            cost = cost + objective.guidance * missed * len(batch.mask) / num_guided
        total = total + (gates.log_prob(drawn).sum(1).exp() * cost).sum() / len(batch.mask)
    (gradient,) = torch.autograd.grad(total, model.selector.gate.logits.weight)
    return gradient


CASES = [
    {"baseline": "none", "samples": 1},
    {"baseline": "none", "samples": 3},
    {"baseline": "average", "samples": 1},
    {"baseline": "self_critical", "samples": 1},
    {"baseline": "leave_one_out", "samples": 3},
]


@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("penalty", ["sampled", "expected"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['baseline']}-{case['samples']}")
def test_the_loss_of_a_model_has_the_gradient_of_the_enumerated_expected_cost(case, penalty, dependent):
    model, objective = model_of(sparsity=0.3, coherence=0.2, penalty=penalty, dependent=dependent, **case)
    if dependent and penalty == "expected":
        objective.coherence = 0.0  # the closed form of the switches is that of independent gates
    batch = batch_of((3, 2, 1))
    expected = enumerated_gradient(model, objective, batch)
    torch.manual_seed(2)
    drawn = drawn_gradients(model, objective, batch, 100)
    error = (drawn.mean(0) - expected).abs() / (drawn.std(0) / math.sqrt(len(drawn)))
    assert (error < 4.5).all(), f"{error.max():.1f} standard errors off"


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("dependent", [False, True])
@pytest.mark.parametrize("remedy", [{"closeness": 0.7}, {"guidance": 2.0, "guided": 1.0}], ids="-".join)
def test_what_a_remedy_adds_has_the_gradient_of_its_enumerated_mean(remedy, dependent, double):
    """The terms of a remedy read the probabilities of gates, which follow earlier draws where gates are dependent."""
    model, objective = model_of(double, dependent=dependent, baseline="leave_one_out", samples=3, **remedy)
    for weights in model.auxiliary.parameters() if model.auxiliary is not None else []:
        weights.data.mul_(4)  # so that what it reads matters
    guide = torch.tensor([[1, 0, 1], [0, 1, -1], [-1, -1, -1]]) if "guidance" in remedy else None
    batch = batch_of((3, 2, 1))._replace(guide=guide)
    expected = enumerated_gradient(model, objective, batch)
    torch.manual_seed(2)
    drawn = drawn_gradients(model, objective, batch, 200, copies=16)
    error = (drawn.mean(0) - expected).abs() / (drawn.std(0) / math.sqrt(len(drawn)))
    assert (error < 4.5).all(), f"{error.max():.1f} standard errors off"


def test_a_price_only_in_closed_form_has_less_noise_than_counted():
    noise = {}
    for penalty in ("expected", "sampled"):
        model, objective = model_of(sparsity=1.0, penalty=penalty, baseline="self_critical")
        torch.manual_seed(2)
        noise[penalty] = drawn_gradients(model, objective, batch_of(), 60).var(0).sum().item()
    assert noise["expected"] < 0.5 * noise["sampled"], noise


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("lengths", [(6, 4, 1), (1,), (5,)])
@pytest.mark.parametrize("dependent", [False, True])
def test_shapes_hold_for_any_number_of_texts_and_draws(lengths, samples, dependent):
    """Traps I-24 (a last batch of one text) and I-26 (several draws of dependent gates)."""
    baseline = "leave_one_out" if samples > 1 else "average"
    model, objective = model_of(
        samples=samples, baseline=baseline, dependent=dependent, penalty="sampled", coherence=0.1
    )
    batch = batch_of(lengths)
    output = model(batch.tokens, batch.mask, samples)
    rows = samples * len(lengths)
    assert output.z.shape == (rows, max(lengths)) and output.prediction.shape == (rows, 3)
    assert output.gates.batch_shape == output.z.shape
    assert output.z.eq(0).logical_or(output.z.eq(1)).all() and not output.z[~batch.mask.repeat(samples, 1)].any()
    step = objective(model, batch)
    step.loss.backward()
    assert step.loss.isfinite() and all(w.grad is None or w.grad.isfinite().all() for w in model.parameters())


@pytest.mark.parametrize("dependent", [False, True])
def test_nothing_selected_is_a_finite_loss_and_gradient(dependent):
    model, objective = model_of(sparsity=0.1, penalty="sampled", baseline="self_critical", dependent=dependent)
    nn.init.constant_(model.selector.gate.logits.bias, -60.0)
    step = objective(model, batch_of())
    step.loss.backward()
    output = model.eval()(batch_of().tokens, batch_of().mask)
    assert output.z.sum() == 0 and output.prediction.isfinite().all()
    assert step.loss.isfinite() and all(w.grad is None or w.grad.isfinite().all() for w in model.parameters())


@pytest.mark.parametrize(("penalty", "dependent"), [("sampled", False), ("sampled", True), ("expected", False)])
def test_the_self_critical_cost_has_the_price_where_a_draw_is_charged_for_it(penalty, dependent):
    model, objective = model_of(sparsity=0.1, penalty=penalty, baseline="self_critical", dependent=dependent)
    nn.init.constant_(model.selector.gate.logits.bias, 3.0)
    batch = batch_of()
    output = model.eval()(batch.tokens, batch.mask)
    expected = model.head.loss(output.prediction, batch.target)
    if penalty == "sampled":
        expected = expected + 0.1 * output.z.sum(1)
    assert output.z.sum() > 0
    torch.testing.assert_close(objective._self_critical(model.train(), batch), expected)


def test_a_moving_average_knows_earlier_costs_only():
    model, objective = model_of(baseline="average")
    batch, costs = batch_of(), []
    for i in range(3):
        before = objective.average.item()
        step = objective(model, batch)
        costs.append(step.parts["task"].item())
        if i == 0:
            assert before == 0
        if i == 1:
            assert before == pytest.approx(costs[0]), "after the first step the average is its cost"
    expected = costs[0]
    for cost in costs[1:]:
        expected += (1 - objective.AVERAGING) * (cost - expected)
    assert objective.average.item() == pytest.approx(expected, rel=1e-5)
    objective.eval()
    model.eval()
    objective(model, batch)
    assert objective.average.item() == pytest.approx(expected, rel=1e-5), "evaluation moves nothing (trap I-9)"


def test_prices_rise_during_the_warm_up_and_are_full_in_evaluation():
    model, objective = model_of(sparsity=1.0, penalty="sampled")
    objective.warmup = 4
    batch = batch_of()
    output = model(batch.tokens, batch.mask)
    full = count_selected(output.z)
    for step in range(6):
        objective.steps.fill_(step)
        assert objective._price(output, batch.mask).equal(full * min(1, (step + 1) / 4)), f"step {step}"
    assert objective.eval()._price(output, batch.mask).equal(full)


def test_prices_that_rise_keep_all_digits_of_float64():
    model, objective = model_of(sparsity=1.0)
    objective.warmup = 3
    batch = batch_of()
    output = model.double()(batch.tokens, batch.mask)
    kept = torch.where(batch.mask, output.gates.prob_nonzero, 0.0).sum(1)
    torch.testing.assert_close(objective._price(output, batch.mask), kept / 3, rtol=1e-15, atol=0)


def test_entropy_is_rewarded_in_closed_form_and_settles_a_gate_at_its_worth():
    model, objective = model_of(sparsity=0.3, entropy=0.5)
    batch = batch_of()
    output = model(batch.tokens, batch.mask)
    gates, mask = output.gates, batch.mask
    by_hand = torch.where(mask, 0.3 * gates.prob_one - 0.5 * gates.entropy(), 0.0).sum(1)
    assert torch.allclose(objective._price(output, mask), by_hand)
    worth = 0.7
    logit = torch.tensor((worth - 0.3) / 0.5, dtype=torch.float64, requires_grad=True)
    gate = Bernoulli(logits=logit)
    (slope,) = torch.autograd.grad((0.3 - worth) * gate.prob_one - 0.5 * gate.entropy(), logit)
    assert abs(slope) < 1e-12, "eq. (R8)"


@pytest.mark.parametrize("dependent", [False, True])
def test_the_gradient_of_the_entropy_is_that_of_the_enumerated_mean(dependent):
    model, objective = model_of(entropy=0.7, dependent=dependent, samples=2, baseline="leave_one_out")
    model.head.loss = lambda prediction, target: prediction.sum(1) * 0  # the entropy alone
    batch, weight, total = batch_of((3, 2, 1)), model.selector.gate.logits.weight, 0.0
    for i, length in enumerate(batch.mask.sum(1).tolist()):
        z = all_selections(length).float()
        embedded = model.embed(batch.tokens[i : i + 1, :length]).expand(len(z), -1, -1)
        replay = iter(z.unbind(1)) if dependent else iter([z])
        _, gates, _ = model.selector(embedded, z >= 0, lambda _, replay=replay: next(replay))
        log_chance = gates.log_prob(z).sum(1)
        total = total + 0.7 * (log_chance.exp() * log_chance).sum() / len(batch.mask)  # minus the entropy of the whole
    (expected,) = torch.autograd.grad(total, weight)
    torch.manual_seed(2)
    drawn = drawn_gradients(model, objective, batch, 75)
    error = (drawn.mean(0) - expected).abs() / (drawn.std(0) / math.sqrt(len(drawn))).clamp(min=1e-6)
    assert (error < 4.5).all(), f"{error.max():.1f} standard errors off"


def test_switches_are_counted_within_the_text():
    z = torch.tensor([[1.0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0]])
    mask = torch.arange(4) < torch.tensor([[4], [2], [1], [2]])
    assert count_switches(z, mask).tolist() == [2, 1, 0, 0], "padding is no switch (trap I-16)"
    assert count_selected(z).tolist() == [3, 1, 1, 2]


def test_a_constraint_can_be_counted_on_the_draw():
    """The authors' multiplier on sampled rates: gradient multiplier * grad E[share], by the score function."""
    model, objective = model_of(
        selection=0.4, dynamics="authors", multiplier_init=3.0, penalty="sampled", measure="training"
    )
    objective.selection.step = 0.0  # the multiplier stays
    batch = batch_of((3, 2, 1))
    weight = model.selector.gate.logits.weight
    head = model.head
    head.loss = lambda prediction, target: prediction.sum(1) * 0  # the constraint alone
    gates = model.gates(batch.tokens, batch.mask)
    share = (torch.where(batch.mask, gates.prob_one, 0.0).sum(1) / batch.mask.sum(1)).mean()
    (expected,) = torch.autograd.grad(3.0 * share, weight)
    torch.manual_seed(0)
    drawn = drawn_gradients(model, objective, batch, 150)
    error = (drawn.mean(0) - expected).abs() / (drawn.std(0) / math.sqrt(len(drawn)))
    assert (error < 4.5).all(), f"{error.max():.1f} standard errors off"


# --- dependent gates


def test_what_was_decided_is_fed_back_in_evaluation():
    model, _ = model_of(dependent=True)
    model.eval()
    batch = batch_of((6,))
    nn.init.zeros_(model.selector.gate.logits.weight)
    states = model.selector.encoder.output_size
    cell = model.selector.cell
    with torch.no_grad():  # memory[0] says whether the word before was selected; the gate does the opposite
        for weight in (cell.inputs.weight, cell.recurrent.weight):
            weight.zero_()
        cell.inputs.weight[cell.hidden_size, states] = 20.0  # W_2 z -> c2 of memory 0
        cell.recurrent.bias.fill_(-20.0)  # the gate of the cell: take only the new
        model.selector.gate.logits.weight[0, states] = -10.0
        model.selector.gate.logits.bias.fill_(5.0)
    assert model(batch.tokens, batch.mask).z.tolist() == [[1, 0, 1, 0, 1, 0]]
    forced = model.selector(model.embed(batch.tokens), batch.mask, lambda gates: torch.zeros_like(gates.logits))[1]
    assert (forced.prob_one > 0.9).all(), "fed with zeros, every gate wants to open"


def test_dependent_gates_all_at_once_are_the_gates_one_by_one():
    model, _ = model_of(dependent=True)
    batch, seen = batch_of((6, 4)), []

    def draw(gates):
        seen.append(gates.logits)
        return gates.sample()

    _, gates, _ = model.selector(model.embed(batch.tokens), batch.mask, draw)
    assert torch.allclose(torch.stack(seen, 1), gates.logits, atol=1e-6)


def test_a_gate_depends_on_the_draws_before_it_and_not_on_later_ones():
    model, _ = model_of(dependent=True)
    batch = batch_of((6,))

    def logits(values):
        left = iter(values)
        return model.selector(model.embed(batch.tokens), batch.mask, lambda g: torch.full_like(g.logits, next(left)))[
            1
        ].logits

    one, other = logits([0, 0, 1, 0, 0, 0]), logits([0, 0, 0, 0, 0, 0])
    assert one[0, :3].equal(other[0, :3]) and not one[0, 3:].eq(other[0, 3:]).any()


def test_dependent_hardkuma_passes_gradients_through_the_memory():
    torch.manual_seed(0)
    p = parameters(model="hardkuma", dependent=True, dropout=0.0)
    model, objective = build_extractor(p, torch.randn(20, 8), "classes", 3).train(), build_objective(p).train()
    objective(model, batch_of()).loss.backward()
    assert model.selector.cell.inputs.weight.grad[:, -1].abs().sum() > 0, "z feeds the memory"


# --- straight through, and gates in general


def test_straight_through_draws_are_binary_and_carry_the_gradient_of_the_probability():
    logits = torch.randn(50, requires_grad=True)
    z = StraightThroughBernoulli(logits=logits).rsample()
    assert z.eq(0).logical_or(z.eq(1)).all()
    z.sum().backward()
    p = torch.sigmoid(logits.detach())
    assert torch.allclose(logits.grad, p * (1 - p))


@pytest.mark.parametrize("logit", [-200.0, -30.0, 0.0, 30.0, 200.0])
def test_masses_of_a_bernoulli_keep_their_digits(logit):
    m = torch.tensor(logit, requires_grad=True)
    gates = Bernoulli(logits=m)
    expected = -math.log1p(math.exp(-logit)) if logit > 0 else logit - math.log1p(math.exp(logit))
    assert gates.log_prob_one.item() == pytest.approx(expected, rel=1e-6)
    assert gates.log_prob_zero.item() == pytest.approx(expected - logit, rel=1e-6)
    (gradient,) = torch.autograd.grad(gates.log_prob_zero + gates.log_prob_one, m)
    assert gradient.isfinite()


def test_leave_one_out_is_the_mean_of_the_others():
    cost = torch.rand(4, 3)
    plain = torch.stack([torch.stack([cost[j] for j in range(4) if j != i]).mean(0) for i in range(4)])
    assert torch.allclose(leave_one_out(cost), plain)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"baseline": "mean"}, "baseline"),
        ({"baseline": "leave_one_out", "samples": 1}, "samples"),
        ({"penalty": "l0"}, "penalty"),
    ],
)
def test_an_objective_refuses_what_it_does_not_know(arguments, word):
    with pytest.raises(ValueError, match=word):
        RationaleObjective(Constraint(0.4), **arguments)


def test_a_step_of_a_bernoulli_model_lowers_the_cost_of_a_toy():
    """One word of six decides the class, each word costs 0.03: the model learns to keep little else."""
    torch.manual_seed(0)
    p = parameters(model="bernoulli", selection=None, sparsity=0.03, samples=4, baseline="leave_one_out", dropout=0.0)
    model = build_extractor(p, torch.randn(20, 8), "classes", 2).train()
    assert isinstance(model.head, Classes)
    objective = build_objective(p).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    mask = torch.ones(64, 6, dtype=torch.bool)
    for _ in range(150):
        tokens = torch.randint(4, 20, (64, 6))
        target = torch.randint(0, 2, (64,))
        where = torch.randint(0, 6, (64,))
        tokens[torch.arange(64), where] = 2 + target
        batch = Batch(tokens, mask, target, torch.arange(64))
        loss = objective(model, batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    output = model.eval()(tokens, mask)
    assert model.head.score(output.prediction, target).mean() > 0.95
    kept = output.z[torch.arange(64), where]
    assert max(kept[target == 0].mean(), kept[target == 1].mean()) > 0.95, (
        "one class's word is needed, the other follows"
    )
    assert output.z.mean() < 0.35, "few other words are kept"
