"""Sums over all selections: exact against automatic differentiation, estimates against the sums."""

import itertools
import math

import pytest
import torch

from rationale.objectives import leave_one_out
from rationale.objectives.enumeration import CostTable, all_selections, descend, score_gradients

LOGITS = torch.tensor([-1.0, 0.3, 2.0, -0.2], dtype=torch.float64)


def a_table() -> CostTable:
    """A cost in which gates interact."""
    z = torch.tensor(list(itertools.product((0.0, 1.0), repeat=4)), dtype=torch.float64)
    return CostTable(LOGITS, 1 + torch.tanh(z @ torch.tensor([1.0, -2, 0.5, 1]).double()) + z[:, 0] * z[:, 3])


def test_all_selections_are_the_binary_numbers_in_order():
    expected = torch.tensor(list(itertools.product((0.0, 1.0), repeat=5)), dtype=torch.float64)
    assert all_selections(5).equal(expected)


@pytest.mark.parametrize("num_words", [0, 21])
def test_a_text_with_too_many_selections_is_refused(num_words):
    with pytest.raises(ValueError, match=f"num_words: got {num_words}"):
        all_selections(num_words)


def test_a_table_needs_one_cost_per_selection():
    with pytest.raises(ValueError, match="cost: got"):
        CostTable(LOGITS, torch.zeros(15, dtype=torch.float64))


def test_the_gradient_of_a_table_is_the_derivative_of_its_expected_cost():
    table, logits = a_table(), LOGITS.clone().requires_grad_()
    gates = torch.distributions.Bernoulli(logits=logits)
    expected = (gates.log_prob(table.selections).sum(1).exp() * table.cost).sum()
    (slope,) = torch.autograd.grad(expected, logits)
    assert torch.allclose(table.gradient, slope, atol=1e-12)
    assert abs(table.expected_cost - expected) < 1e-12 and abs(table.chances.sum() - 1) < 1e-12
    assert table.cheapest == table.selections[table.cost.argmin()].nonzero().flatten().tolist() == [1]


def test_estimates_have_the_mean_and_the_noise_that_the_table_says():
    torch.manual_seed(0)
    table = a_table()
    for baseline in (0.0, 1.2):
        draws = table.draw(40_000)
        estimates = score_gradients(LOGITS, draws, table.cost_of(draws), baseline)
        noise = table.noise(baseline)
        assert ((estimates.mean(0) - table.gradient).abs() < 4.5 * noise / 200).all()
        assert torch.allclose(estimates.std(0), noise, rtol=0.03)
    assert (table.noise(1.2) < table.noise()).all(), "the mean cost is about 1.2"


def test_several_draws_with_the_mean_of_the_others_subtracted_are_unbiased():
    torch.manual_seed(0)
    table = a_table()
    draws = table.draw(40_000, 3)
    cost = table.cost_of(draws)
    for row in (0, 7):  # the look-up against a sum by hand
        place = int("".join(str(int(value)) for value in draws[1, row]), 2)
        assert cost[1, row] == table.cost[place]
    estimates = score_gradients(LOGITS, draws, cost, leave_one_out(cost))
    error = (estimates.mean(0) - table.gradient).abs() / (estimates.std(0) / math.sqrt(40_000))
    assert error.max() < 4.5


def test_descent_by_the_exact_gradient_lowers_the_expected_cost_at_every_step():
    table = a_table()
    path = descend(table, 50, 0.5)
    costs = torch.stack([table.moved(logits).expected_cost for logits in path])
    assert path.shape == (51, 4) and path[0].equal(LOGITS) and (costs.diff() < 0).all()


def test_descent_by_draws_moves_on_average_as_the_exact_gradient_does():
    torch.manual_seed(0)
    table = a_table()
    moves = torch.stack([descend(table, 1, 1.0, num_draws=2).diff(dim=0)[0] for _ in range(4000)])
    error = (moves.mean(0) + table.gradient).abs() / (moves.std(0) / math.sqrt(4000))
    assert error.max() < 4.5
