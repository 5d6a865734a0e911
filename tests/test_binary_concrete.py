"""The Binary Concrete and the Hard Concrete: published values, closed forms, and modes."""

import math

import mpmath as mp
import pytest
import torch
from torch.autograd import gradcheck

from rationale.distributions import (
    BinaryConcrete,
    HardConcrete,
)
from tests.laws import assert_close, double, tensor64


def test_diffmask_gate_at_logit_five_is_open_with_probability_99514():
    gate = HardConcrete(torch.tensor(5.0), torch.tensor(0.2), left=-0.2, right=1.0)
    assert_close(gate.log_prob_nonzero.exp(), 0.99514, rtol=0, atol=5e-6, what="P(z != 0)")
    assert gate.prob_one == 0 and gate.log_prob_one == -math.inf, "a half-open gate must never be exactly 1"


@pytest.mark.parametrize("name", ["mean", "variance", "conditional_mean", "log_prob_zero", "prob_interior"])
def test_hard_concrete_gradients_match_finite_differences(name):
    logits, temperature = (t.requires_grad_() for t in double([-3.0, 0.2, 4.0], [0.2, 0.7, 1.5]))
    assert gradcheck(lambda m, t: getattr(HardConcrete(m, t), name), (logits, temperature), rtol=1e-5, atol=1e-7)
    assert gradcheck(lambda m, t: HardConcrete(m, t).entropy(), (logits, temperature), rtol=1e-5, atol=1e-7)


def test_binary_concrete_mode_is_a_peak_or_an_end():
    dist = BinaryConcrete(*double([1.0, -2.0, 0.5, -0.5], [2.0, 1.5, 0.5, 1.0]))
    beside = (dist.mode + torch.tensor([[-1e-4], [1e-4]], dtype=torch.float64)).clamp(0, 1)
    assert (dist.log_prob(dist.mode)[:2] > dist.log_prob(beside)[:, :2]).all()
    assert dist.mode[2:].tolist() == [1, 0]


def test_no_variance_of_an_almost_certain_concrete_is_negative():
    """Where it is lost in the rounding of E[S^2] - E[S]^2, its square root must not become nan."""
    logits, temperatures = torch.linspace(-60, 60, 241, dtype=torch.float64), [0.01, 0.3, 2 / 3, 1.0, 1.5, 10.0]
    variance = BinaryConcrete(logits.unsqueeze(1), tensor64(temperatures)).variance
    assert (variance >= 0).all(), f"as low as {variance.min().item():.1e}"


def test_the_stretch_is_not_mirrored():
    """The formula s (left - right) + right, as one paper prints it, would mirror the gate."""
    torch.manual_seed(0)
    gate = HardConcrete(torch.tensor(3.0), torch.tensor(2 / 3))
    assert gate.sample((1000,)).mean() > 0.8


def test_open_probability_of_hard_concrete_is_the_shifted_sigmoid():
    logits = torch.linspace(-6, 6, 9, dtype=torch.float64)
    for left, right, temperature, offset in ((-0.2, 1.0, 0.2, 0.32189), (-0.1, 1.1, 0.2, 0.47958)):
        gate = HardConcrete(logits, temperature, left, right)
        assert_close(gate.log_prob_nonzero.exp(), torch.sigmoid(logits + offset), rtol=1e-5, what="P(z != 0)")


@pytest.mark.parametrize("temperature", [0.3, 1.0, 1.7])
def test_the_derivatives_of_the_moments_match_integrals(temperature):
    for logits in (0.4, -3.0):
        m, t = (x.requires_grad_() for x in double(logits, temperature))
        law = BinaryConcrete(m, t)
        with mp.workdps(20):

            def moment(m, t, n):
                density = lambda z: 1 / (2 * mp.cosh(z / 2)) ** 2  # noqa: E731
                value = lambda z: density(z) / (1 + mp.exp(-(z + m) / t)) ** n  # noqa: E731
                return mp.quad(value, [-45, -10, -m - 1, -m, -m + 1, 10, 45])

            step = mp.mpf(10) ** -5
            around = [moment(logits, temperature + sign * step, n) for n in (1, 2) for sign in (1, -1)]
            first, second = moment(logits, temperature, 1), moment(logits, temperature, 2)
            by_t = (around[0] - around[1]) / (2 * step)
            variance_by_t = (around[2] - around[3]) / (2 * step) - 2 * first * by_t
        assert_close(law.mean, float(first), rtol=1e-10, what="E[S]")
        assert_close(law.variance, float(second - first**2), rtol=1e-8, what="Var S")
        assert_close(torch.autograd.grad(law.mean, t)[0], float(by_t), rtol=1e-6, atol=1e-9, what="dE[S]/dt")
        assert_close(
            torch.autograd.grad(law.variance, t)[0], float(variance_by_t), rtol=1e-6, atol=1e-9, what="dVar/dt"
        )


@pytest.mark.parametrize("value", [1e-14, 1e-9, 1 - 1e-9])
def test_the_log_density_keeps_its_digits_near_both_ends(value):
    """torch's softplus drops e^-x from x = 20 on."""
    k, m, t = mp.mpf(value), mp.mpf("0.5"), mp.mpf("0.25")
    gap = m - t * mp.log(k / (1 - k))
    expected = mp.log(t) - mp.log1p(mp.exp(-gap)) - mp.log1p(mp.exp(gap)) - mp.log(k) - mp.log1p(-k)
    law = BinaryConcrete(*double(0.5, 0.25))
    assert_close(law.log_prob(tensor64(value)), float(expected), rtol=2e-14, what=f"ln f({value})")


@pytest.mark.parametrize("temperature", [0.02, 0.25, 4.0])
def test_the_entropy_is_the_integral_at_every_temperature(temperature):
    m, t = mp.mpf("0.5"), mp.mpf(temperature)

    def integrand(z):
        x = (z + m) / t
        return mp.exp(-z) / (1 + mp.exp(-z)) ** 2 * (2 * mp.log1p(mp.exp(-abs(x))) + abs(x))

    ends = [-80, -20, -5, -m - t, -m, -m + t, 5, 20, 80]
    expected = 2 - mp.log(t) - mp.quad(integrand, ends)
    assert_close(BinaryConcrete(*double(0.5, temperature)).entropy(), float(expected), rtol=1e-12, what="entropy")
