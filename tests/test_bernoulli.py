"""Gates that are exactly 0 or 1: masses of given probabilities, in log space."""

import math

import pytest
import torch

from rationale.distributions import Bernoulli, StraightThroughBernoulli
from tests.laws import assert_close


def test_a_small_probability_keeps_its_logarithm():
    probs = torch.tensor([1e-20, 0.3], requires_grad=True)
    for family in (Bernoulli, StraightThroughBernoulli):
        gate = family(probs=probs)
        expected = [math.log(1e-20), math.log(0.3)]
        assert_close(gate.log_prob_one, expected, rtol=1e-6, what="ln P(Z = 1)")
        assert_close(gate.log_prob(torch.ones(2)), expected, rtol=1e-6, what="log_prob(1)")
        assert_close(gate.prob_nonzero, probs.detach(), rtol=1e-5, what="P(Z != 0)")
        (slope,) = torch.autograd.grad(gate.log_prob_one.sum(), probs)
        assert_close(slope, [1e20, 1 / 0.3], rtol=1e-5, what="d ln p / dp")


def test_certain_probabilities_have_finite_logits_and_no_nan():
    probs = torch.tensor([0.0, 1.0], requires_grad=True)
    gate = Bernoulli(probs=probs)
    for value in (gate.logits, gate.log_prob(torch.tensor([0.0, 1.0])), gate.log_prob_one, gate.entropy()):
        assert (
            value.isfinite().all() and not torch.autograd.grad(value.sum(), probs, retain_graph=True)[0].isnan().any()
        )
    assert_close(gate.log_prob(torch.tensor([0.0, 1.0])), [0.0, 0.0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("family", [Bernoulli, StraightThroughBernoulli])
def test_what_was_read_in_inference_mode_still_has_a_gradient_later(family):
    """torch keeps what it computed first, in inference mode without a gradient."""
    logits, probs = torch.tensor(0.4, requires_grad=True), torch.tensor(0.3, requires_grad=True)
    of_logits, of_probs = family(logits=logits), family(probs=probs)
    with torch.inference_mode():
        _ = of_logits.mean, of_logits.entropy(), of_probs.logits, of_probs.log_prob_one
    p = torch.sigmoid(torch.tensor(0.4)).item()
    assert torch.autograd.grad(of_logits.mean, logits)[0].item() == pytest.approx(p * (1 - p), rel=1e-6)
    assert torch.autograd.grad(of_probs.logits, probs, retain_graph=True)[0].item() == pytest.approx(
        1 / (0.3 * 0.7), rel=1e-6
    )
    assert torch.autograd.grad(of_probs.log_prob_one, probs)[0].item() == pytest.approx(1 / 0.3, rel=1e-6)


def test_an_expanded_gate_has_the_probabilities_of_the_gate_also_after_they_were_read():
    for gate in (Bernoulli(logits=torch.tensor([0.4])), Bernoulli(probs=torch.tensor([0.6]))):
        _ = gate.logits, gate.probs
        assert torch.equal(gate.expand((3,)).probs, gate.probs.expand(3))
        assert torch.equal(gate.expand((3,)).logits, gate.logits.expand(3))


def test_the_probability_of_being_open_keeps_its_gradient_where_a_gate_is_nearly_open():
    """p (1 - p) is 0 where p is rounded to 1."""
    m = torch.tensor(20.0, requires_grad=True)
    (slope,) = torch.autograd.grad(Bernoulli(logits=m).prob_nonzero, m)
    assert slope.item() == pytest.approx(math.exp(-20), rel=1e-5)
