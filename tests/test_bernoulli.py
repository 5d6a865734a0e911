"""Gates that are exactly 0 or 1: masses of given probabilities, in log space."""

import math

import mpmath as mp
import pytest
import torch
from torch.distributions import kl_divergence

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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entropy_and_variance_keep_their_digits_and_gradients_on_both_sides(dtype):
    """torch's entropy takes a rounded probability, and is 0 or half of what it should be for a gate that is open."""
    logits = [-60.0, -20.0, -15.0, -2.0, 0.0, 2.0, 15.0, 20.0, 60.0]
    m = torch.tensor(logits, dtype=dtype, requires_grad=True)
    gates, rtol = Bernoulli(logits=m), 1e-5 if dtype == torch.float32 else 1e-12
    with mp.workdps(60):
        shut, kept = ([1 / (1 + mp.exp(sign * mp.mpf(one))) for one in logits] for sign in (1, -1))
        variance = [float(q * p) for q, p in zip(shut, kept, strict=True)]
        entropy = [float(-q * mp.log(q) - p * mp.log(p)) for q, p in zip(shut, kept, strict=True)]
    assert_close(gates.variance, variance, rtol=rtol, what="variance")
    assert_close(gates.entropy(), entropy, rtol=rtol, what="entropy")
    (slope,) = torch.autograd.grad(gates.entropy().sum(), m)
    assert_close(slope, [-one * both for one, both in zip(logits, variance, strict=True)], rtol=rtol, what="dH/dm")


@pytest.mark.parametrize("other", [-90.0, -20.0, 0.5, 17.5, 20.0, 90.0])
def test_the_divergence_of_two_gates_is_finite_where_a_probability_rounds_to_1(other):
    p, q = Bernoulli(logits=torch.tensor([-3.0, 0.0, 30.0])), StraightThroughBernoulli(logits=torch.tensor(other))
    with mp.workdps(60):
        expected = []
        for own in (-3, 0, 30):
            kept, target = (1 / (1 + mp.exp(-mp.mpf(one))) for one in (own, other))
            expected.append(float(kept * mp.log(kept / target) + (1 - kept) * mp.log((1 - kept) / (1 - target))))
    assert_close(kl_divergence(p, q), expected, rtol=1e-5, what="KL(p || q)")


def test_the_divergence_of_given_probabilities_is_infinite_where_q_lacks_a_mass_of_p_and_0_where_they_are_equal():
    p, q = torch.tensor([1.0, 0.0, 1.0, 0.0, 0.5, 0.5]), torch.tensor([0.0, 1.0, 1.0, 0.0, 0.0, 0.5])
    found = kl_divergence(Bernoulli(probs=p), Bernoulli(probs=q))
    assert found.tolist() == [math.inf, math.inf, 0, 0, math.inf, 0]


@pytest.mark.parametrize("family", [Bernoulli, StraightThroughBernoulli])
@pytest.mark.parametrize(("dtype", "logit"), [(torch.bfloat16, 7.0), (torch.float16, 9.0)])
def test_a_gate_in_half_precision_that_is_nearly_open_is_drawn_shut_as_often_as_it_has_to_be(family, dtype, logit):
    """Its probability rounds to 1, that of 0 does not."""
    gate = family(logits=torch.full((100_000,), logit, dtype=dtype))
    torch.manual_seed(0)
    draws, expected = gate.sample(), 1e5 / (1 + math.exp(logit))
    assert draws.dtype == dtype and draws.eq(0).logical_or(draws.eq(1)).all()
    assert abs(draws.eq(0).sum().item() - expected) < 5 * math.sqrt(expected)
    assert family(probs=torch.ones(9, dtype=dtype)).sample().eq(1).all(), "given as certain"


def test_the_mode_is_the_more_probable_value_and_1_if_both_are_equally_probable():
    assert Bernoulli(logits=torch.tensor([-1e-9, 0.0, 300.0])).mode.tolist() == [0, 1, 1]
    assert Bernoulli(probs=torch.tensor([0.0, 0.5, 1.0])).mode.tolist() == [0, 1, 1]
