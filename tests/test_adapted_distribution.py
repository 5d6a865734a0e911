"""Stretched and rectified laws over any other law on (0, 1), which has only `cdf`, `icdf` and `log_prob`."""

import math

import pytest
import torch
from torch.distributions import Normal, SigmoidTransform, TransformedDistribution

from rationale.distributions import HardKuma, StretchedRectified
from rationale.nn.rules import decide
from tests.laws import double


def logit_normal(loc, scale):
    return TransformedDistribution(Normal(loc, scale), SigmoidTransform())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_masses_of_another_base_and_their_gradients_are_finite_however_far_the_gate_is_open_or_shut(dtype):
    loc = torch.tensor([-60.0, -12.0, -6.0, -1.0, 0.0, 1.0, 6.0, 12.0, 60.0], dtype=dtype, requires_grad=True)
    scale = torch.ones_like(loc, requires_grad=True)
    gate = StretchedRectified(logit_normal(loc, scale), -0.1, 1.1)
    cut = math.log(0.1 / 1.1)  # logit of (0 - left) / (right - left)
    below, above = (Normal(0.0, 1.0).cdf(end - loc.detach().double()) for end in (cut, -cut))
    masses = gate.prob_zero, gate.prob_one, gate.prob_interior, gate.prob_nonzero
    for found, expected in zip(masses, (below, 1 - above, above - below, 1 - below), strict=True):
        assert torch.allclose(found.double(), expected, atol=1e-6 if dtype == torch.float32 else 1e-12)
    for name in ("prob_zero", "prob_one", "prob_interior", "prob_nonzero", "log_prob_zero", "log_prob_nonzero", "mean"):
        value = getattr(gate, name)
        assert not value.isnan().any(), name
        finite = torch.where(value.isfinite(), value, 0.0).sum()
        for gradient in torch.autograd.grad(finite, (loc, scale), retain_graph=True):
            assert gradient.isfinite().all(), f"{name}: a gradient is {gradient.tolist()}"


def test_draws_of_another_base_have_finite_gradients_whatever_the_noise():
    loc, scale = torch.zeros(4, requires_grad=True), torch.ones(4, requires_grad=True)
    gate = StretchedRectified(logit_normal(loc, scale), -0.1, 1.1)
    for log_s in (torch.full((4,), -1e-30), torch.full((4,), -100.0), torch.full((4,), -0.7)):
        draw = gate.rsample_at(log_s)
        assert all(part.isfinite().all() for part in torch.autograd.grad(draw.sum(), (loc, scale)))


def test_the_rule_gives_the_mean_of_a_base_that_does_not_know_its_mean():
    loc = torch.tensor([-0.5, 0.0, 0.8], dtype=torch.float64)
    gate = StretchedRectified(logit_normal(loc, torch.ones_like(loc)), -0.1, 1.1)
    grid = torch.linspace(-12, 12, 200_001, dtype=torch.float64)
    expected = torch.trapezoid(Normal(0.0, 1.0).log_prob(grid).exp() * (grid + loc[:, None]).sigmoid(), grid)
    assert torch.allclose(gate.base_mean, expected, atol=1e-9)
    assert torch.allclose(decide(gate, "argmax"), expected, atol=1e-9), "the interval wins"
    known = HardKuma(*double(0.7, 1.3))
    assert torch.equal(known.base_mean, known.base.mean)
