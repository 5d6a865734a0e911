"""The Kumaraswamy: published values, arbitrary precision, and what it shares with torch's."""

import math

import mpmath as mp
import pytest
import scipy.integrate
import scipy.stats
import torch

from rationale.distributions import (
    HardKuma,
    Kumaraswamy,
    log1mexp,
)
from tests.laws import assert_close, double


def test_base_entropy_is_the_published_one():
    actual = Kumaraswamy(*double([0.5, 2, 5], [0.5, 5, 1])).entropy()
    assert_close(actual, [-0.227411, -0.360918, -0.809438], rtol=0, atol=6e-7, what="entropy")


def test_cdf_and_quantile_match_arbitrary_precision_where_the_textbook_forms_fail():
    for u, a, b in ((1e-7, 1.0, 100.0), (1e-5, 2.0, 100.0), (0.3, 0.05, 0.05), (1 - 1e-7, 0.5, 3.0)):
        base = Kumaraswamy(torch.tensor(a), torch.tensor(b))
        value = torch.tensor(u)
        with mp.workdps(40):
            log_s = mp.log1p(-mp.mpf(value.item())) / base.b.item()
            expected = mp.exp(mp.log(-mp.expm1(log_s)) / base.a.item())
        assert_close(base.icdf(value), min(float(expected), 1 - 2**-24), rtol=3e-6, what=f"icdf({u}), a={a}, b={b}")
    gate = HardKuma(torch.tensor([7.0, 7.0, 1.0]), torch.tensor([1.0, 100.0, 1e-6]))
    assert_close(
        gate.prob_zero,
        [2.791e-8, 2.791e-6, 8.701e-8],
        rtol=1e-3,
        what="masses that the textbook form loses",
    )


def test_path_derivatives_have_the_closed_form():
    a, b, u = double([0.3, 2.0, 7.0], [0.5, 5.0, 0.2], [0.4, 0.2, 0.9])
    a.requires_grad_(), b.requires_grad_()
    k = Kumaraswamy(a, b).icdf(u)
    by_a, by_b = torch.autograd.grad(k.sum(), (a, b))
    with torch.no_grad():
        assert_close(by_a, -k * k.log() / a, rtol=1e-9, what="dk/da")
        assert_close(by_b, k ** (1 - a) * (1 - k**a) * (1 - k**a).log() / (a * b), rtol=1e-9, what="dk/db")


def test_log1mexp_is_right_at_both_ends():
    x = -torch.logspace(-300, 2.8, 200, dtype=torch.float64)
    with mp.workdps(350):
        expected = [float(mp.log(-mp.expm1(mp.mpf(t)))) for t in x.tolist()]
    assert_close(log1mexp(x), expected, rtol=1e-14, what="ln(1 - e^x)")
    assert log1mexp(torch.zeros(1)).isfinite().all(), "x = 0 must give a finite number"


@pytest.mark.parametrize("a, b", [(0.5, 0.5), (2.0, 5.0), (0.3, 3.0), (20.0, 0.1)])
def test_draws_of_the_base_follow_its_cdf(a, b):
    torch.manual_seed(1)
    base = Kumaraswamy(torch.tensor(a), torch.tensor(b))
    draws = base.sample((20_000,))
    result = scipy.stats.kstest(base.cdf(draws).numpy(), "uniform")
    assert 0 < draws.min() and draws.max() < 1, "a draw fell on an end of (0, 1)"
    if b > 0.2:  # below, thousands of draws share the last number under 1
        assert result.pvalue > 1e-3, f"Kolmogorov-Smirnov p = {result.pvalue:.1e}"
    below = (draws < base.median).double().mean().item()
    assert abs(below - 0.5) < 4 * 0.5 / math.sqrt(20_000), f"{below:.4f} of the draws are below the median"


def test_base_mode_follows_the_shape_of_the_density():
    shapes = [
        (2, 5),
        (1, 3),
        (3, 1),
        (1, 1),
        (0.5, 2),
        (2, 0.5),
        (0.5, 0.5),
        (0.3, 0.9),
        (1e-3, 1e-3),
        (100, 100),
    ]
    mode = Kumaraswamy(*double(*zip(*shapes, strict=True))).mode
    assert not mode.isnan().any()
    assert_close(mode[0], (1 / 9) ** 0.5, rtol=1e-12, what="((a-1)/(ab-1))^(1/a)")
    assert mode[1:6].tolist() == [0, 1, 0.5, 0, 1], mode.tolist()
    assert mode[6].item() in (0, 1) and mode[7] == 0, (
        "the density is unbounded at both ends: the end on the side of the median"
    )
    dist = Kumaraswamy(*double([2.0, 7.0, 1.3], [5.0, 1.2, 90.0]))
    around = dist.log_prob(dist.mode + torch.tensor([[-1e-4], [1e-4]], dtype=torch.float64))
    assert (dist.log_prob(dist.mode) > around).all(), "the density is higher beside the mode"


def test_the_names_of_torch_are_there_and_cannot_be_set():
    law = Kumaraswamy(2.0, 3.0)
    assert (law.concentration1, law.concentration0) == (law.a, law.b)
    with pytest.raises(AttributeError):
        law.concentration1 = torch.tensor(1.0)


def test_the_derivatives_of_the_mean_are_those_of_its_formula_also_where_a_b_is_one():
    """At 1/a = b a minimum and a maximum change places; their derivatives would be shared between the two."""
    for a, b in ((2.0, 0.5), (1.0, 1.0)):
        point = torch.tensor([a, b], dtype=torch.float64)
        hessian = torch.func.hessian(lambda p: Kumaraswamy(p[0], p[1]).mean)(point)
        with mp.workdps(25):
            for i, j in ((0, 0), (0, 1), (1, 1)):
                order = [(i == 0) + (j == 0), (i == 1) + (j == 1)]
                expected = mp.diff(lambda a, b: b * mp.beta(1 + 1 / a, b), (a, b), tuple(order))
                assert_close(hessian[i, j], float(expected), rtol=1e-8, what=f"a={a}, b={b}, {i}{j}")


def exact_slope(function: str, k: float, a: float, b: float) -> float:
    """The derivative by k of a function of the law, from its closed form."""
    k, a, b = mp.mpf(k), mp.mpf(a), mp.mpf(b)
    rest = -mp.expm1(a * mp.log(k))  # 1 - k^a
    density = a * b * k ** (a - 1) * rest ** (b - 1)
    survival = rest**b
    return float({
        "cdf": density,
        "log_cdf": density / -mp.expm1(b * mp.log(rest)),
        "log_survival": -density / survival,
        "log_prob": (a - 1) / k - (b - 1) * a * k ** (a - 1) / rest,
    }[function])  # fmt: skip


@pytest.mark.parametrize("function", ["log_prob", "cdf", "log_cdf", "log_survival"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-6), (torch.float64, 1e-12)], ids=str)
def test_the_slope_at_small_values_is_exact_and_not_infinite(function, dtype, tolerance):
    underflow = torch.finfo(dtype).tiny ** 0.5  # of k^a, for a = 2
    for k in (1e-37, 1e-30, 1e-20, 1e-19, 1e-10, 0.3, 0.999, 1 - 2**-14):
        for a, b in ((0.5, 0.5), (0.01, 1.0), (1.0, 3.0), (2.0, 0.2)):
            for law in (Kumaraswamy, lambda a, b: HardKuma(a, b, left=0.0, right=1.0)):
                value = torch.tensor(k, dtype=dtype, requires_grad=True)
                dist = law(torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype))
                if not hasattr(dist, function):
                    continue
                (slope,) = torch.autograd.grad(getattr(dist, function)(value), value)
                with mp.workdps(200):
                    expected = exact_slope(function, value.item(), dist.a.item(), dist.b.item())
                what = f"{type(dist).__name__}({a}, {b}).{function} at {k}"
                assert_close(slope, expected, rtol=tolerance, atol=underflow, what=what)


@pytest.mark.parametrize("left, right", [(None, None), (0.0, 1.0), (0.0, 1.1), (-0.1, 1.0), (-0.1, 1.1)])
def test_the_log_density_and_the_cdf_of_a_draw_have_finite_gradients_and_never_nan(left, right):
    """The chain rule multiplies a slope of the order of 1 / k by the derivative of the draw, of the order of k."""
    for a in (1e-30, 1e-3, 0.01, 0.1, 1.0, 1e2, 1e30):
        for b in (1e-30, 1e-3, 0.5, 1.0, 1e2, 1e30):
            torch.manual_seed(0)
            shapes = [torch.full((300,), shape, requires_grad=True) for shape in (a, b)]
            law = Kumaraswamy(*shapes) if left is None else HardKuma(*shapes, left, right)
            draws = law.rsample()
            for function in ("log_prob", "cdf", "log_cdf", "log_survival"):
                if not hasattr(law, function):
                    continue
                value = getattr(law, function)(draws)
                slopes = torch.autograd.grad(value.sum(), shapes, retain_graph=True)
                what = f"{function} at a={a}, b={b}"
                assert not value.isnan().any() and not any(slope.isnan().any() for slope in slopes), what
                if 1e-3 <= a <= 1e2 and 1e-3 <= b <= 1e2:
                    assert value.isfinite().all() and all(slope.isfinite().all() for slope in slopes), what


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_the_log_density_of_a_draw_is_that_of_its_closed_form(dtype):
    """For b = 1, ln f(k) = ln a + (a - 1) ln k and ln k = ln(u) / a, so d/da = 1/a + ln(u) / a^2."""
    torch.manual_seed(0)
    a = torch.full((1000,), 0.01, dtype=dtype, requires_grad=True)
    k = Kumaraswamy(a, 1.0).rsample()
    (slope,) = torch.autograd.grad(Kumaraswamy(a, 1.0).log_prob(k).sum(), a)
    inside = k > torch.finfo(dtype).tiny  # a smaller draw is moved there, and stays there
    expected = 1 / a + k.log() / a
    assert inside.sum() > 500
    assert_close(slope[inside].detach(), expected[inside].detach(), rtol=1e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("left, right", [(0.0, 1.0), (0.0, 1.1), (-0.1, 1.0), (-0.1, 1.1)])
def test_the_gradient_at_the_ends_of_the_support_is_zero_and_not_nan(left, right):
    value = torch.tensor([0.0, 1.0], requires_grad=True)
    for a, b in ((0.5, 0.5), (100.0, 100.0)):
        for function in ("log_prob", "cdf"):
            result = getattr(HardKuma(a, b, left, right), function)(value)
            (slope,) = torch.autograd.grad(result.masked_fill(result.isinf(), 0.0).sum(), value)
            assert slope.tolist() == [0, 0], f"{function} of HardKuma({a}, {b}, {left}, {right})"
