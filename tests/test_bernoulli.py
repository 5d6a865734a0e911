"""Gates that are exactly 0 or 1: masses of given probabilities, in log space."""

import math

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
