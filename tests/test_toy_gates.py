"""The toys of the notebooks 05 to 07: their numbers against counting, quadrature by scipy and single steps by hand."""

import itertools
import math

import pytest
import scipy.integrate
import scipy.stats
import torch

from rationale.distributions import HardKuma
from rationale.objectives import Constraint
from rationale.training import toy_gates


def gate_of(a: float, b: float) -> HardKuma:
    return HardKuma(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))


def test_the_toy_predictor_is_sure_of_nothing_without_words_and_of_nine_in_ten_with_all():
    worth = torch.tensor([[1.0, 3.0]])
    z = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.0]])
    torch.testing.assert_close(toy_gates.likelihood(z, worth), torch.tensor([0.2, 0.9, 0.2 + 0.7 * 0.75, 0.2875]))


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 3.0), (0.7, 8.0)])
def test_the_gain_of_a_gate_is_its_mass_at_one_and_its_density_integrated(a, b):
    def density(h):
        k = (h + 0.1) / 1.2
        return a * b * k ** (a - 1) * (1 - k**a) ** (b - 1) / 1.2

    inside, _ = scipy.integrate.quad(lambda h: density(h) * math.log((0.2 + 0.7 * h) / 0.2), 0, 1)
    expected = inside + (1 - (1.1 / 1.2) ** a) ** b * math.log(4.5)
    gates = HardKuma(*torch.tensor([[a], [b]], dtype=torch.float64), -0.1, 1.1)
    assert toy_gates.expected_log_gain(gates).item() == pytest.approx(expected, abs=1e-6)


def test_texts_depend_on_their_seed_alone_and_leave_the_random_state_as_it_was():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    texts, again, other = (toy_gates.make_texts(5, 7, seed) for seed in (0, 0, 1))
    trace = hold(Constraint(0.4), num_steps=2)
    assert torch.equal(torch.rand(1), expected)
    assert texts.worth.shape == texts.clue.shape == (5, 7) and len(trace.rate) == 2
    assert torch.equal(texts.worth, again.worth) and not torch.equal(texts.worth, other.worth)


def test_a_clue_tells_much_of_the_worth_and_not_all():
    texts = toy_gates.make_texts(400)
    correlation = scipy.stats.pearsonr(texts.clue.ravel(), texts.worth.log().ravel()).statistic
    assert correlation == pytest.approx(1 / math.sqrt(1 + 0.5**2), abs=0.02)


def test_a_signed_difference_has_the_gradient_of_the_rate_and_moves_its_multiplier_as_the_signed_rule_does():
    rules = [rule(0.4, step=0.2, quadratic=50.0) for rule in (toy_gates.SignedDifference, Constraint)]
    for rule in rules:
        rule.update(torch.tensor(0.1), 1.0)
    multiplier = rules[0].multiplier.item()
    assert multiplier == rules[1].multiplier.item() == pytest.approx(0.2 * (0.1 - 0.4))
    log_rate = torch.tensor(1e-9, dtype=torch.float64).log().requires_grad_()
    slopes = [torch.autograd.grad(rule(log_rate, torch.log1p(-log_rate.exp())), log_rate)[0].item() for rule in rules]
    assert slopes[0] == pytest.approx((multiplier - 50 * 0.4) * 1e-9)
    assert abs(slopes[1]) > 1, "in log-odds the gradient does not shrink with the rate"
    rate = torch.tensor(0.3, dtype=torch.float64)
    assert rules[0](rate.log(), (1 - rate).log()).item() == pytest.approx(multiplier * -0.1 + 25 * 0.1**2)


def test_the_smallest_loss_is_that_of_the_words_with_the_largest_clues():
    worth, clue = torch.tensor([[1.0, 2.0, 5.0]]).double(), torch.tensor([[0.1, 0.3, 0.2]]).double()
    by_hand = [-math.log(0.2), -math.log(0.2 + 0.7 * 2 / 8), -math.log(0.2 + 0.7 * 7 / 8)]
    found = toy_gates.smallest_losses(toy_gates.Texts(worth, clue), torch.tensor([0.0, 0.4, 0.8]).double())
    assert found.tolist() == pytest.approx(by_hand)


def hold(constraint, num_steps=3, **changes):
    given = {"selector": toy_gates.toy_gate(-0.1, 1.1), "texts": toy_gates.one_word_texts(25), "learning_rate": 0.05}
    return toy_gates.hold_rate(constraint, **(given | changes), num_steps=num_steps)


def test_an_open_gate_whose_b_is_at_its_lower_bound_stays_open_and_winds_the_multiplier_up_to_its_limit():
    shut = 1 - (1 - (1 / 12) ** torch.logspace(-3, 6, 500).double()) ** 1e-3  # P(Z = 0) at b = 1e-3, for many a
    assert 0.0059 < shut.max() < 0.006
    for largest, wound in ((math.inf, 200 * 0.2 * 0.595), (5.0, 5.0)):
        gate = toy_gates.toy_gate(-0.1, 1.1, raw_a=3.0, raw_b=-45.0)
        trace = hold(Constraint(0.4, largest=largest), 200, selector=gate)
        assert trace.rate.min() > 1 - shut.max(), "the constraint cannot shut it"
        assert trace.multiplier[-1].item() == pytest.approx(wound, rel=0.02)
    above = hold(Constraint(0.4), 200, selector=toy_gates.toy_gate(-0.1, 1.1, raw_a=3.0, raw_b=-6.0))
    assert above.rate[0] > 0.999 and above.rate.min() < 0.5, "a gate just above the bound is shut"


def test_a_toy_gate_has_the_shapes_of_its_biases_whatever_its_clue():
    gates = toy_gates.toy_gate(-0.1, 1.1, raw_a=0.5, raw_b=-1.0)(torch.randn(4, 1).double())
    for shape, raw in ((gates.a, 0.5), (gates.b, -1.0)):
        torch.testing.assert_close(shape, torch.full((4,), 1e-3 + math.log1p(math.exp(raw))).double())


def test_the_rates_of_gates_are_their_mean_masses_and_the_share_that_the_rule_selects():
    gates = HardKuma(torch.tensor([[0.1, 1.0, 1.0]]), torch.tensor([[0.35, 3.0, 60.0]]), -0.1, 1.1)
    rates = toy_gates.rates_of(gates)
    expected = (1 - gates.prob_zero).mean()
    torch.testing.assert_close(rates.expected, expected)
    torch.testing.assert_close(rates.log_rest.exp(), 1 - expected)
    masses = torch.stack([gates.prob_zero, gates.prob_interior, gates.prob_one])
    assert rates.selected == (masses.argmax(0) != 0).double().mean()


def test_a_trace_begins_at_the_untrained_gate_and_follows_the_rule_of_the_multiplier():
    trace = hold(Constraint(0.4, step=0.3, smoothing=0.0))
    untrained = (1 - (0.1 / 1.2) ** (1e-3 + math.log(2))) ** (1e-3 + math.log(2))
    assert trace.rate[0].item() == pytest.approx(untrained)
    torch.testing.assert_close(trace.gap, trace.rate - 0.4)
    torch.testing.assert_close(trace.multiplier, 0.3 * trace.gap.cumsum(0))


def test_the_constraint_measures_the_rate_that_it_is_told_to():
    trace = hold(Constraint(0.4, smoothing=0.0), measure="selected")
    torch.testing.assert_close(trace.gap, trace.rate_selected - 0.4)


@pytest.mark.parametrize(("price", "end"), [(0.5, 1.0), (4.0, 0.0)])
def test_a_fixed_price_opens_a_gate_or_shuts_it(price, end):
    trace = hold(toy_gates.FixedPrice(price), num_steps=300)
    assert trace.rate[-1].item() == pytest.approx(end, abs=0.02)
    assert (trace.multiplier == price).all() and (trace.gap == 0).all()


def test_a_logit_is_held_by_gradient_descent_on_the_term_of_the_constraint():
    rates = toy_gates.hold_logit(Constraint(0.3, step=0.1, smoothing=0.0, quadratic=2.0), start=1.0, num_steps=1)
    logit, share = 1.0, 1 / (1 + math.exp(-1.0))
    multiplier, size = 0.1 * (share - 0.3), 0.3 * 0.7  # the violation is size (logit - logit of the target)
    violation = size * (logit - math.log(0.3 / 0.7))
    moved = logit - 0.1 * (multiplier + 2.0 * violation) * size
    assert rates.tolist() == pytest.approx([1 / (1 + math.exp(-moved))])


@pytest.mark.parametrize("omega", [-6.0, 0.0, 4.0])
def test_the_probability_of_a_switch_is_what_counting_gives_and_the_look_ahead_is_near_it(omega):
    torch.manual_seed(0)
    words = toy_gates.TwoWords(gate_of(0.2, 0.6), num_samples=40000)
    allowed = 5 * 0.5 / 40000**0.5
    assert abs(words.exact(omega) - words.counted(omega)) < allowed
    assert abs(words.exact(omega) - words.look_ahead(omega)) < allowed


def test_the_plug_in_takes_both_masses_after_the_value_that_was_drawn():
    torch.manual_seed(0)
    words = toy_gates.TwoWords(gate_of(0.2, 0.6), num_samples=5)
    zero = words.first.prob_zero.item()
    by_hand = 0.0
    for z in words.drawn.tolist():
        second = words.second(torch.tensor(z).double(), 3.0)
        by_hand += zero * (1 - second.prob_zero.item()) + (1 - zero) * second.prob_zero.item()
    assert words.plug_in(3.0) == pytest.approx(by_hand / 5)


@pytest.mark.parametrize(("left", "right"), [(-0.1, 1.1), (-0.5, 1.0)])
def test_all_gates_along_the_curve_have_the_rate(left, right):
    gates = toy_gates.shapes_at_rate(torch.linspace(-4, 2, 7).double(), 0.3, left, right)
    k0 = -left / (right - left)
    by_hand = [(1 - k0**a) ** b for a, b in zip(gates.a.tolist(), gates.b.tolist(), strict=True)]
    assert by_hand == pytest.approx([0.3] * 7) and len(set(itertools.chain(gates.a.tolist()))) == 7


def test_a_sentence_has_a_worth_and_a_clue_per_word_and_equal_worths_have_equal_clues():
    texts = toy_gates.sentence_texts(3)
    assert texts.worth.shape == texts.clue.shape == (3, len(toy_gates.SENTENCE))
    assert texts.clue.min() == -1 and texts.clue.max() == 1
    order = texts.worth[0].argsort()
    assert (texts.worth[0][order].diff().sign() == texts.clue[0][order].diff().sign()).all()


def test_a_mean_cost_is_held_at_its_margin_more_steadily_with_damping():
    torch.manual_seed(0)
    damped, plain = (torch.tensor(toy_gates.hold_cost(3.0, 0.1, damped, 1500)[500:]) for damped in (True, False))
    assert damped.mean().item() == pytest.approx(1 - 0.1 / 3, abs=0.02)
    assert plain.std() > 2 * damped.std()
