"""The distributions of gates: published values, arbitrary-precision arithmetic, sampling, and the limits of float32.

The textbook formulas are written here, as the reference with which the package is compared, and nowhere else.
"""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.distributions import Beta, Uniform, kl_divergence

from rationale.distributions import BinaryConcrete, HardConcrete, HardKuma, Kumaraswamy, StretchedRectified, log1mexp

LEFT, RIGHT = -0.1, 1.1
RECTIFIED = [
    "prob_zero",
    "prob_one",
    "prob_interior",
    "log_prob_zero",
    "log_prob_nonzero",
    "log_prob_one",
    "log_prob_interior",
    "mean",
    "conditional_mean",
    "variance",
]


def double(*numbers) -> list[torch.Tensor]:
    return [torch.tensor(number, dtype=torch.float64) for number in numbers]


def assert_close(actual: torch.Tensor, expected, rtol: float, atol: float = 0.0, what: str = "") -> None:
    expected = torch.as_tensor(expected, dtype=actual.dtype)
    error = (actual - expected).abs() - atol - rtol * expected.abs()
    assert (error <= 0).all(), f"{what}: got {actual.tolist()}, expected {expected.tolist()}"


# --- published values -------------------------------------------------------------------------------------

LN2 = math.log(2)
# a, b, P(0), P(1), P(interior), E[K], E[H], E[H | interior], Var H
TABLE = [
    (0.5, 0.5, 0.156599, 0.206332, 0.637069, 0.533333, 0.536519, 0.518291, 0.14997),
    (1, 1, 0.083333, 0.083333, 0.833333, 0.500000, 0.500000, 0.500000, 0.11111),
    (LN2, LN2, 0.127510, 0.139832, 0.732658, 0.509616, 0.510773, 0.506295, 0.13313),
    (2, 2, 0.013841, 0.025511, 0.960648, 0.533333, 0.539593, 0.535141, 0.06902),
    (0.1, 1, 0.779977, 0.008663, 0.211359, 0.090909, 0.079570, 0.335481, 0.04278),
    (1, 3, 0.229745, 0.000579, 0.769676, 0.250000, 0.211806, 0.274436, 0.04831),
    (5, 1, 4.02e-6, 0.352772, 0.647224, 0.833333, 0.881342, 0.816672, 0.02322),
    (0.3, 0.3, 0.175541, 0.333666, 0.490793, 0.592431, 0.598252, 0.539097, 0.16675),
    (2, 5, 0.034243, 0.000104, 0.965653, 0.369408, 0.344436, 0.356580, 0.04263),
    (3, 0.2, 0.000116, 0.745160, 0.254725, 0.923565, 0.945702, 0.787292, 0.01849),
    (LN2, 5, 0.626166, 1e-6, 0.373833, 0.091598, 0.051018, 0.136470, 0.01069),
    (LN2, 20, 0.980469, 0, 0.019531, 0.015575, 0.000669, 0.034253, 0.00005),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_reference_table_is_reproduced(dtype):
    a, b, zero, one, interior, base_mean, mean, conditional, variance = torch.tensor(TABLE, dtype=dtype).T
    gate = HardKuma(a, b, LEFT, RIGHT)
    six_digits = {"rtol": 0, "atol": 6e-7}
    assert_close(gate.prob_zero, zero, **six_digits, what="P(H = 0)")
    assert_close(gate.prob_one, one, **six_digits, what="P(H = 1)")
    assert_close(gate.prob_interior, interior, **six_digits, what="P(0 < H < 1)")
    assert_close(gate.base.mean, base_mean, **six_digits, what="E[K]")
    assert_close(gate.mean, mean, **six_digits, what="E[H]")
    assert_close(gate.conditional_mean, conditional, **six_digits, what="E[H | 0 < H < 1]")
    assert_close(gate.variance, variance, rtol=2e-3, atol=5e-6, what="Var H (table: by sampling)")


def test_base_entropy_is_the_published_one():
    actual = Kumaraswamy(*double([0.5, 2, 5], [0.5, 5, 1])).entropy()
    assert_close(actual, [-0.227411, -0.360918, -0.809438], rtol=0, atol=6e-7, what="entropy")


def test_kl_between_kumaraswamys_is_the_published_one():
    p, q = Kumaraswamy(*double([2, 0.5, 3], [5, 0.5, 2])), Kumaraswamy(*double([1, 2, 1.5], [1, 2, 4]))
    assert_close(kl_divergence(p, q), [0.360918, 1.175805, 1.5], rtol=0, atol=6e-7, what="KL")


def test_diffmask_gate_at_logit_five_is_open_with_probability_99514():
    gate = HardConcrete(torch.tensor(5.0), torch.tensor(0.2), left=-0.2, right=1.0)
    assert_close(gate.log_prob_nonzero.exp(), 0.99514, rtol=0, atol=5e-6, what="P(z != 0)")
    assert gate.prob_one == 0 and gate.log_prob_one == -math.inf, "a half-open gate must never be exactly 1"


# --- arbitrary precision ----------------------------------------------------------------------------------


def exact(a: float, b: float) -> dict:
    """Masses, moments and entropy of HardKuma(a, b) from their definitions, with 60 digits."""
    with mp.workdps(60):
        a, b, left, right = (mp.mpf(x) for x in (a, b, LEFT, RIGHT))
        k0, k1 = -left / (right - left), (1 - left) / (right - left)
        log_survival = lambda k: b * mp.log1p(-(k**a))  # noqa: E731
        zero, nonzero, one = -mp.expm1(log_survival(k0)), mp.exp(log_survival(k0)), mp.exp(log_survival(k1))
        interior = -nonzero * mp.expm1(log_survival(k1) - log_survival(k0))
        moment = lambda n: b * mp.beta(1 + n / a, b)  # noqa: E731
        numbers = {
            "prob_zero": zero,
            "prob_one": one,
            "prob_interior": interior,
            "log_prob_zero": mp.log1p(-nonzero) if nonzero < 0.5 else mp.log(zero),
            "log_prob_nonzero": log_survival(k0),
            "log_prob_one": log_survival(k1),
            "log_prob_interior": mp.log(interior),
            "base.mean": moment(1),
            "base.variance": moment(2) - moment(1) ** 2,
            "base.median": mp.exp(mp.log(-mp.expm1(-mp.log(2) / b)) / a),
            "base.entropy": 1 - 1 / b + (1 - 1 / a) * mp.harmonic(b) - mp.log(a * b),
        }
        return {name: (float(value), float(mp.log(abs(value)))) for name, value in numbers.items()}


EXACT_GRID = [(a, b) for a in (1e-6, 1e-3, 0.1, 1.0, 7.0, 100.0, 1e3) for b in (1e-6, 1e-3, 0.1, 1.0, 7.0, 100.0, 1e3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masses_and_base_statistics_match_arbitrary_precision(dtype):
    """A number p is as accurate as its logarithm: its relative error is a few eps times 1 + |ln p|."""
    tolerance, smallest = {torch.float32: (2e-7, 1e-36), torch.float64: (1e-14, 1e-300)}[dtype]
    for a, b in EXACT_GRID:
        gate = HardKuma(*torch.tensor([a, b], dtype=dtype))
        for name, (value, log) in exact(gate.a.item(), gate.b.item()).items():
            actual = getattr(gate.base if name.startswith("base.") else gate, name.removeprefix("base."))
            actual = (actual() if callable(actual) else actual).item()
            if abs(value) < smallest:
                assert abs(actual) <= 2 * smallest, f"{name} at a={a}, b={b}: {actual}, expected {value}"
                continue
            if name == "log_prob_interior" and a > 100 and dtype == torch.float32:
                continue  # k1^a itself underflows: out of the promised range
            allowed = 10 * tolerance * (1 + abs(log))
            if name == "base.variance":
                allowed = 1e-7  # E[K^2] - E[K]^2 cancels for large a
            assert abs(actual / value - 1) <= allowed, f"{name} at a={a}, b={b}: {actual}, expected {value}"


def integral(function, pieces: int = 60) -> float:
    """integral_0^1, over pieces that shrink towards both ends."""
    ends = np.concatenate(
        [[0], np.logspace(-9, math.log10(0.5), pieces), 1 - np.logspace(math.log10(0.5), -9, pieces)[1:], [1]]
    )
    points, weights = np.polynomial.legendre.leggauss(24)
    width = np.diff(ends)[:, None]
    x = ends[:-1, None] + width * (points + 1) / 2
    return float((function(torch.tensor(x)).numpy() * weights * width / 2).sum())


INTEGRATED = [
    (0.5, 0.5),
    (1e-3, 10.0),
    (1e-2, 100.0),
    (100.0, 100.0),
    (100.0, 1e-3),
    (3.0, 0.2),
    (1e-3, 1e-3),
    (2.0, 1e3),
]


@pytest.mark.parametrize("a, b", INTEGRATED)
def test_rectified_statistics_match_integrals_over_the_value(a, b):
    """The package averages over quantiles; here the survival function and the density are integrated over h."""
    gate = HardKuma(*double(a, b))
    survival = lambda h: -torch.expm1(torch.log(gate.cdf(h)))  # noqa: E731
    if gate.prob_zero > 0.5:  # 1 - cdf would cancel
        survival = lambda h: gate.base.log_survival((h - LEFT) / (RIGHT - LEFT)).exp()  # noqa: E731
    mean, second = integral(survival), integral(lambda h: 2 * h * survival(h))
    assert_close(gate.mean, mean, rtol=1e-11, what="E[H]")
    assert_close(gate.mean, gate.prob_one + gate.prob_interior * gate.conditional_mean, rtol=1e-14, what="E[H] split")
    assert_close(gate.variance, second - mean**2, rtol=1e-10, atol=1e-15, what="Var H")
    log_density = lambda h: gate.base.log_prob((h - LEFT) / (RIGHT - LEFT)) - math.log(RIGHT - LEFT)  # noqa: E731
    inside = integral(lambda h: log_density(h).exp() * log_density(h))
    ends = gate.prob_zero * gate.log_prob_zero + gate.prob_one * gate.log_prob_one
    assert_close(gate.entropy(), -ends - inside, rtol=1e-10, atol=1e-14, what="entropy")
    assert_close(torch.tensor(integral(lambda h: log_density(h).exp())), gate.prob_interior, rtol=1e-11,
              what="the density must not be rescaled: it integrates to P(0 < H < 1)")  # fmt: skip


def test_expected_value_has_the_two_closed_forms():
    """E[H] by incomplete beta functions: from the three configurations, and from the survival function."""
    for a, b, *_ in TABLE:
        gate, width = HardKuma(*double(a, b)), RIGHT - LEFT
        y0, y1 = (-LEFT / width) ** a, ((1 - LEFT) / width) ** a
        with mp.workdps(30):
            bracket = float(b * mp.betainc(1 + 1 / a, b, y0, y1))
            by_survival = float(width / a * mp.betainc(1 / a, b + 1, y0, y1))
        by_split = gate.prob_one + LEFT * gate.prob_interior + width * bracket
        assert_close(by_split, by_survival, rtol=1e-9, what=f"two forms, a={a}, b={b}")
        assert_close(gate.mean, by_survival, rtol=1e-11, what=f"E[H], a={a}, b={b}")


@pytest.mark.parametrize("b", [0.5, 0.05, 0.002])
def test_half_open_statistics_keep_a_pole_at_one(b):
    """b < 1, right = 1: the density has a pole at 1, and much of the mass is closer to 1 than any double."""
    gate = HardKuma(*double(2.0, b), left=-0.2, right=1.0)
    with mp.workdps(30):  # c = -ln(1 - k^a) is exponential with rate b
        left, width, a = mp.mpf(-0.2), 1 - mp.mpf(-0.2), mp.mpf(2)
        cuts = [-mp.log1p(-((-left / width) ** a)), 1, 10, 100, mp.inf]

        def k(c):
            return (-mp.expm1(-c)) ** (1 / a)

        def log_density(c):
            return mp.log(a * b / width) + (a - 1) * mp.log(k(c)) - (b - 1) * c

        mean = mp.quad(lambda c: (left + width * k(c)) * b * mp.exp(-b * c), cuts)
        inside = mp.quad(lambda c: log_density(c) * b * mp.exp(-b * c), cuts)
    assert_close(gate.mean, float(mean), rtol=1e-10, what="E[H]")
    assert_close(gate.entropy(), -gate.prob_zero * gate.log_prob_zero - float(inside), rtol=1e-9, what="entropy")


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


# --- the textbook formulas, where they are accurate --------------------------------------------------------


def naive(a, b, u, left=LEFT, right=RIGHT):
    """Textbook formulas, for autograd: the draw at u = 1 - survival, and the three masses."""
    k0, k1 = -left / (right - left), (1 - left) / (right - left)
    draw = (left + (right - left) * (1 - (1 - u) ** (1 / b)) ** (1 / a)).clamp(0, 1)
    zero, one = 1 - (1 - k0**a) ** b, (1 - k1**a) ** b
    return draw, zero, one, 1 - zero - one


def test_values_and_gradients_match_the_textbook_formulas_in_their_safe_range():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.empty(500, dtype=torch.float64).uniform_(0.3, 4, generator=generator).requires_grad_() for _ in "ab")
    u = torch.empty(500, dtype=torch.float64).uniform_(0.01, 0.99, generator=generator)
    gate = HardKuma(a, b)
    ours = gate.icdf(u), gate.prob_zero, gate.prob_one, gate.prob_interior
    for name, actual, expected in zip(("draw", "P(0)", "P(1)", "P(interior)"), ours, naive(a, b, u), strict=True):
        assert_close(actual, expected.detach(), rtol=1e-10, atol=1e-13, what=name)
        for by, left, right in zip("ab", *(torch.autograd.grad(x.sum(), (a, b), retain_graph=True)
                                           for x in (actual, expected)), strict=True):  # fmt: skip
            assert_close(left, right, rtol=1e-8, atol=1e-11, what=f"d {name} / d{by}")


def test_path_derivatives_have_the_closed_form():
    a, b, u = double([0.3, 2.0, 7.0], [0.5, 5.0, 0.2], [0.4, 0.2, 0.9])
    a.requires_grad_(), b.requires_grad_()
    k = Kumaraswamy(a, b).icdf(u)
    by_a, by_b = torch.autograd.grad(k.sum(), (a, b))
    with torch.no_grad():
        assert_close(by_a, -k * k.log() / a, rtol=1e-9, what="dk/da")
        assert_close(by_b, k ** (1 - a) * (1 - k**a) * (1 - k**a).log() / (a * b), rtol=1e-9, what="dk/db")


def test_the_derivative_through_the_clip_is_one_inside_and_zero_outside():
    a = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    gate = HardKuma(a, torch.ones(3, dtype=torch.float64))
    h = gate.icdf(torch.tensor([0.001, 0.5, 0.999], dtype=torch.float64))
    assert h[0] == 0 and 0 < h[1] < 1 and h[2] == 1
    (grad,) = torch.autograd.grad(h.sum(), a)
    k = (h - LEFT) / (RIGHT - LEFT)
    assert grad[0] == 0 and grad[2] == 0, f"the clip must stop the gradient, got {grad.tolist()}"
    assert_close(grad[1], (RIGHT - LEFT) * -(k * k.log() / 2)[1].detach(), rtol=1e-12, what="dh/da inside")


# --- gradients --------------------------------------------------------------------------------------------

SHAPES = double([0.02, 0.5, 1.0, 3.0, 30.0], [0.5, 0.03, 1.0, 20.0, 2.0])


def differentiable(a, b, name):
    gate = HardKuma(a, b)
    return {
        "rsample": lambda: (torch.manual_seed(3), gate.rsample((4,)))[1],
        "base rsample": lambda: (torch.manual_seed(3), gate.base.rsample((4,)))[1],
        "entropy": gate.entropy,
        "base mean": lambda: gate.base.mean,
        "base variance": lambda: gate.base.variance,
        "base entropy": gate.base.entropy,
        "cdf": lambda: gate.cdf(a.new_tensor(0.3)),
        "log_prob": lambda: gate.log_prob(a.new_tensor([[0.0], [0.3], [1.0]])),
        "base log_prob": lambda: gate.base.log_prob(a.new_tensor([[1e-6], [0.3], [1 - 1e-6]])),
        "base log_cdf": lambda: gate.base.log_cdf(a.new_tensor([[1e-6], [0.3], [1 - 1e-6]])),
        "KL": lambda: kl_divergence(gate, HardKuma(*double(0.7, 1.5))),
        "KL to": lambda: kl_divergence(HardKuma(*double(0.7, 1.5)), gate),
        "base KL": lambda: kl_divergence(gate.base, Kumaraswamy(*double(0.7, 1.5))),
        "KL to a Beta": lambda: kl_divergence(gate.base, Beta(*double(0.7, 1.5))),
        **{mass: (lambda mass=mass: getattr(gate, mass)) for mass in RECTIFIED},
    }[name]()  # fmt: skip


OTHERS = ["rsample", "entropy", "cdf", "log_prob", "KL", "KL to", "KL to a Beta"]
OTHERS += [f"base {name}" for name in ("rsample", "mean", "variance", "entropy", "log_prob", "log_cdf", "KL")]


@pytest.mark.parametrize("name", [*RECTIFIED, *OTHERS])
def test_gradients_match_finite_differences(name):
    a, b = (shape.clone().requires_grad_() for shape in SHAPES)
    step = 1e-6
    assert gradcheck(lambda a, b: differentiable(a, b, name), (a, b), eps=step, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["mean", "variance", "conditional_mean", "log_prob_zero", "prob_interior"])
def test_hard_concrete_gradients_match_finite_differences(name):
    logits, temperature = (t.requires_grad_() for t in double([-3.0, 0.2, 4.0], [0.2, 0.7, 1.5]))
    assert gradcheck(lambda m, t: getattr(HardConcrete(m, t), name), (logits, temperature), rtol=1e-5, atol=1e-7)
    assert gradcheck(lambda m, t: HardConcrete(m, t).entropy(), (logits, temperature), rtol=1e-5, atol=1e-7)


def test_gradients_reach_the_value_too():
    value = torch.tensor([0.2, 0.7], dtype=torch.float64, requires_grad=True)
    gate = HardKuma(*double(0.8, 1.7))
    for method in (
        gate.log_prob,
        gate.cdf,
        gate.icdf,
        gate.base.log_prob,
        gate.base.log_survival,
        gate.base.icdf,
    ):
        assert gradcheck(method, (value,), rtol=1e-5, atol=1e-7), f"{method} is wrong in its argument"


def test_log1mexp_is_right_at_both_ends():
    x = -torch.logspace(-300, 2.8, 200, dtype=torch.float64)
    with mp.workdps(350):
        expected = [float(mp.log(-mp.expm1(mp.mpf(t)))) for t in x.tolist()]
    assert_close(log1mexp(x), expected, rtol=1e-14, what="ln(1 - e^x)")
    assert log1mexp(torch.zeros(1)).isfinite().all(), "x = 0 must give a finite number"


# --- the limits of float32 --------------------------------------------------------------------------------


def everything(a: torch.Tensor, b: torch.Tensor) -> dict[str, torch.Tensor]:
    gate, value = HardKuma(a, b), torch.tensor([1e-6, 0.3, 1 - 1e-6]).view(-1, *[1] * a.ndim)
    torch.manual_seed(0)
    draws, base_draws = gate.rsample((20,)), gate.base.rsample((20,))
    return {
        **{name: getattr(gate, name) for name in RECTIFIED},
        "draws": draws, "entropy": gate.entropy(), "log_prob": gate.log_prob(value), "cdf": gate.cdf(value),
        "log_prob of draws": gate.log_prob(draws.detach()), "icdf": gate.icdf(value),
        "KL": kl_divergence(gate, HardKuma(torch.tensor(0.7), torch.tensor(1.5))), "base draws": base_draws,
        "base log_prob of draws": gate.base.log_prob(base_draws.detach()), "base icdf": gate.base.icdf(value),
        "base mean": gate.base.mean, "base variance": gate.base.variance, "base entropy": gate.base.entropy(),
        "base log_cdf": gate.base.log_cdf(value), "base median": gate.base.median,
    }  # fmt: skip


def test_float32_values_and_gradients_are_finite_on_the_whole_working_range():
    side = torch.logspace(-3, 2, 16)
    a, b = (t.flatten().requires_grad_() for t in torch.meshgrid(side, side, indexing="ij"))
    for name, value in everything(a, b).items():
        assert value.isfinite().all(), f"{name}: not finite at {culprits(a, b, ~value.isfinite())}"
        for by, grad in zip("ab", torch.autograd.grad(value.sum(), (a, b), retain_graph=True), strict=True):
            assert grad.isfinite().all(), f"d {name} / d{by}: not finite at {culprits(a, b, ~grad.isfinite())}"


def culprits(a, b, bad) -> list:
    bad = bad.flatten(end_dim=-2).any(0) if bad.ndim > 1 else bad
    return [(x.item(), y.item()) for x, y in zip(a[bad][:3], b[bad][:3], strict=True)]


@settings(deadline=None, max_examples=40, derandomize=True)
@given(st.floats(-3, 2), st.floats(-3, 2))
def test_float32_is_finite_at_any_shape_in_the_working_range(log_a, log_b):
    a, b = (torch.tensor([10.0**log], requires_grad=True) for log in (log_a, log_b))
    for name, value in everything(a, b).items():
        grads = torch.autograd.grad(value.sum(), (a, b), retain_graph=True)
        assert value.isfinite().all() and all(g.isfinite().all() for g in grads), f"{name}: {value}, {grads}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_nothing_is_nan_far_outside_the_working_range(dtype):
    side = torch.logspace(-30, 30, 25, dtype=torch.float64).to(dtype)
    a, b = (t.flatten().requires_grad_() for t in torch.meshgrid(side, side, indexing="ij"))
    for name, value in everything(a, b).items():
        assert not value.isnan().any(), f"{name}: NaN at {culprits(a, b, value.isnan())}"
        finite = value.masked_fill(value.isinf(), 0).sum()
        for by, grad in zip("ab", torch.autograd.grad(finite, (a, b), retain_graph=True), strict=True):
            assert not grad.isnan().any(), f"d {name} / d{by}: NaN at {culprits(a, b, grad.isnan())}"
    gate = HardKuma(a, b)
    assert not gate.mode.isnan().any() and not gate.base.mode.isnan().any(), "a mode is NaN"


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.floats(-6, 3), st.floats(-6, 3))
def test_masses_sum_to_one(log_a, log_b):
    for dist in (HardKuma(torch.tensor(10.0**log_a), torch.tensor(10.0**log_b)),
                HardConcrete(torch.tensor(3 * log_a), torch.tensor(10.0 ** (log_b / 3)))):  # fmt: skip
        total = dist.prob_zero + dist.prob_one + dist.prob_interior
        assert_close(total, 1.0, rtol=5e-7, what=str(dist))
        assert_close(dist.log_prob_nonzero.exp() + dist.prob_zero, 1.0, rtol=5e-7, what=f"{dist}: P(H != 0)")
        assert_close(dist.log_prob_interior.exp(), dist.prob_interior, rtol=1e-5, atol=1e-30, what=f"{dist}: log form")


def test_a_saturated_gate_still_has_a_gradient():
    """The clamped logarithms of the usual implementation give a gradient of exactly 0 here."""
    a = torch.tensor([0.001, 5.0, 50.0], requires_grad=True)
    gate = HardKuma(a, torch.tensor([100.0, 1.0, 1.0]))
    (grad,) = torch.autograd.grad(gate.log_prob_nonzero[:1].sum() + gate.log_prob_zero[1:].sum(), a)
    assert (grad.abs() > 1e-3).all(), f"a saturated gate must still have a gradient, got {grad.tolist()}"


# --- sampling ---------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("gate", [
    HardKuma(torch.tensor(0.5), torch.tensor(0.7)), HardKuma(torch.tensor(0.02), torch.tensor(2.0)),
    HardKuma(torch.tensor(9.0), torch.tensor(60.0)), HardConcrete(torch.tensor(0.4), torch.tensor(2 / 3)),
    HardConcrete(torch.tensor(-1.0), torch.tensor(0.6), left=-0.2, right=1.0),
], ids=str)  # fmt: skip
def test_draws_have_the_masses_and_the_density_of_the_law(gate):
    torch.manual_seed(2)
    num = 200_000
    draws = gate.sample((num,))
    inside = draws[(draws > 0) & (draws < 1)]
    for what, share, mass in (("0", (draws == 0), gate.prob_zero), ("1", (draws == 1), gate.prob_one)):
        share, mass = share.double().mean().item(), mass.item()
        allowed = 4 * math.sqrt(max(mass * (1 - mass), 1 / num) / num)
        assert abs(share - mass) < allowed, f"{share:.5f} of the draws are {what}, its mass is {mass:.5f}"
    uniform = (gate.cdf(inside) - gate.prob_zero) / gate.prob_interior
    result = scipy.stats.kstest(uniform.numpy()[:20_000], "uniform")
    assert result.pvalue > 1e-3, f"interior: Kolmogorov-Smirnov p = {result.pvalue:.1e}"


def test_a_nearly_closed_gate_opens_at_its_own_rate():
    """P(H = 0) = 0.9999: if draws skipped the last 0.001 of (0, 1), the gate would never open."""
    torch.manual_seed(3)
    nearly = Kumaraswamy(torch.tensor(1.0), torch.tensor(1.0))
    b = (math.log(1e-4) / nearly.log_survival(torch.tensor(1 / 12))).item()
    gate, num = HardKuma(torch.tensor(1.0), torch.tensor(b)), 2_000_000
    assert_close(gate.prob_zero, 0.9999, rtol=1e-6, what="P(H = 0)")
    opened = (gate.sample((num,)) > 0).sum().item()
    assert abs(opened - 200) < 4 * math.sqrt(200), f"{opened} of {num} draws are open, 200 expected"
    half_open = HardConcrete(torch.tensor(0.0), torch.tensor(0.2), left=-0.2, right=1.0)
    assert not (half_open.sample((100_000,)) == 1).any(), "a half-open gate must not round to 1"
    never_one = HardKuma(torch.tensor(1.0), torch.tensor(10.0))
    assert not (never_one.sample((num,)) == 1).any(), "a draw is 1, although P(H = 1) = 1.6e-11"


def test_same_seed_same_draws_and_no_gradient_from_sample():
    a = torch.ones(3, requires_grad=True)
    gate = HardKuma(a, torch.ones(3))
    torch.manual_seed(0)
    first = gate.rsample((5,))
    torch.manual_seed(0)
    second = gate.sample((5,))
    assert torch.equal(first, second) and first.requires_grad and not second.requires_grad


# --- a table of distributions: every test with every distribution ------------------------------------------

CASES = {
    "Kumaraswamy": lambda t: Kumaraswamy(t([0.6, 2.0, 3.0]), t([1.7, 5.0, 0.8])),
    "BinaryConcrete": lambda t: BinaryConcrete(t([-1.0, 0.3, 2.0]), t([0.5, 1.0, 2.0])),
    "HardKuma": lambda t: HardKuma(t([0.6, 2.0, 3.0]), t([1.7, 5.0, 0.8])),
    "HardKuma half-open": lambda t: HardKuma(t([0.6, 2.0, 3.0]), t([1.7, 5.0, 0.8]), left=-0.2, right=1.0),
    "HardKuma no zero": lambda t: HardKuma(t([0.6, 2.0, 3.0]), t([1.7, 5.0, 0.8]), left=0.0, right=1.3),
    "HardConcrete": lambda t: HardConcrete(t([-1.0, 0.3, 2.0]), t([0.2, 2 / 3, 1.5])),
    "HardConcrete half-open": lambda t: HardConcrete(t([-1.0, 0.3, 2.0]), t([0.5, 1.0, 1.5]), -0.2, 1.0),
    "rectified uniform": lambda t: StretchedRectified(Uniform(t([0.0] * 3), t([1.0] * 3)), -0.1, 1.1),
}  # fmt: skip
ALL_DISTRIBUTIONS = pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())


def tensor32(numbers):
    return torch.tensor(numbers)


def tensor64(numbers):
    return torch.tensor(numbers, dtype=torch.float64)


@ALL_DISTRIBUTIONS
@pytest.mark.parametrize("tensor", [tensor32, tensor64])
def test_shapes_and_dtype_are_kept(make, tensor):
    dist, dtype = make(tensor), tensor([0.0]).dtype
    assert dist.batch_shape == (3,) and dist.event_shape == () and dist.has_rsample
    assert dist.rsample().shape == (3,) and dist.rsample((4, 2)).shape == (4, 2, 3)
    value = dist.sample((5,))
    results = [value, dist.log_prob(value), dist.cdf(value), dist.icdf(tensor([0.1, 0.5, 0.9]))]
    results += [dist.mean, dist.variance, dist.entropy()] + ([dist.mode] if dist.arg_constraints else [])
    results += [getattr(dist, name) for name in RECTIFIED if isinstance(dist, StretchedRectified)]
    assert all(r.dtype == dtype for r in results), [str(r.dtype) for r in results]
    assert all(r.shape[-1:] == (3,) for r in results) and not any(r.isnan().any() for r in results)


@ALL_DISTRIBUTIONS
def test_expand_keeps_the_law_and_its_type(make):
    dist = make(tensor64)
    wide = dist.expand((2, 3))
    assert type(wide) is type(dist) and wide.batch_shape == (2, 3) and wide.sample((4,)).shape == (4, 2, 3)
    assert_close(wide.mean[1], dist.mean, rtol=1e-15, what="mean")
    assert_close(wide.entropy()[1], dist.entropy(), rtol=1e-14, what="entropy")
    for name in dist.arg_constraints:
        assert getattr(wide, name).shape == (2, 3), f"{name} was not expanded"


@ALL_DISTRIBUTIONS
def test_cdf_and_quantile_are_inverse_and_monotone(make):
    dist = make(tensor64)
    u = torch.linspace(0.001, 0.999, 201, dtype=torch.float64).unsqueeze(-1).expand(201, 3)
    value = dist.icdf(u)
    assert (value.diff(dim=0) >= 0).all() and value.min() >= 0 and value.max() <= 1
    inside = (value > 0) & (value < 1)
    assert_close(dist.cdf(value)[inside], u[inside], rtol=1e-10, what="cdf(icdf(u))")
    ends = torch.tensor([0.0, 1.0], dtype=torch.float64).view(2, 1)
    assert (dist.icdf(ends.expand(2, 3)) == ends).all() and (dist.cdf(ends)[1] == 1).all()
    if isinstance(dist, StretchedRectified):
        assert_close(dist.cdf(ends)[0], dist.prob_zero, rtol=1e-12, what="cdf(0) = P(H = 0)")


@ALL_DISTRIBUTIONS
def test_moments_and_entropy_match_a_large_sample(make):
    torch.manual_seed(5)
    dist, num = make(tensor64), 200_000
    draws = dist.sample((num,))
    for what, samples, expected in (
        ("mean", draws, dist.mean),
        ("variance", (draws - dist.mean) ** 2, dist.variance),
        ("entropy", -dist.log_prob(draws), dist.entropy()),
    ):
        error, deviation = (samples.mean(0) - expected).abs(), samples.std(0) / math.sqrt(num)
        assert (error <= 4.5 * deviation + 1e-12).all(), f"{what}: off by {(error / deviation).tolist()} deviations"


@ALL_DISTRIBUTIONS
def test_density_is_the_derivative_of_the_cdf_and_adds_up_with_the_masses(make):
    dist = make(tensor64)
    value = torch.tensor([[0.1], [0.45], [0.8]], dtype=torch.float64)
    slope = (dist.cdf(value + 1e-6) - dist.cdf(value - 1e-6)) / 2e-6
    assert_close(dist.log_prob(value).exp(), slope, rtol=1e-7, what="density")
    half, one = torch.tensor([0.3, 0.8], dtype=torch.float64)
    for j in range(3):
        density = lambda h, j=j: dist.log_prob(torch.tensor(h, dtype=torch.float64))[j].exp().item()  # noqa: E731
        area, _ = scipy.integrate.quad(density, half, one, epsabs=1e-12)
        assert_close((dist.cdf(one) - dist.cdf(half))[j], area, rtol=1e-9, what="integral of the density")


@ALL_DISTRIBUTIONS
def test_support_and_argument_checks(make):
    dist = make(tensor32)
    assert dist.support.check(dist.sample((50,))).all()
    with pytest.raises(ValueError):
        dist.log_prob(torch.tensor(1.5))


@pytest.mark.parametrize("wrong", [
    lambda: Kumaraswamy(0.0, 1.0), lambda: HardKuma(-1.0, 1.0), lambda: HardKuma(1.0, math.nan),
    lambda: BinaryConcrete(0.0, 0.0), lambda: HardConcrete(0.0, -1.0), lambda: HardConcrete(math.nan, 1.0),
    lambda: HardKuma(1.0, 1.0, left=0.1), lambda: HardKuma(1.0, 1.0, right=0.9),
    lambda: HardKuma(1.0, 1.0, left=math.nan), lambda: HardConcrete(0.0, 1.0, right=math.inf),
])  # fmt: skip
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError):
        wrong()


@ALL_DISTRIBUTIONS
def test_an_expanded_distribution_refuses_what_it_refused_before(make):
    with pytest.raises(ValueError):
        make(tensor32).expand((2, 3)).log_prob(torch.full((2, 3), 1.5))


def test_validation_can_be_switched_off():
    assert HardKuma(torch.tensor(-1.0), torch.tensor(1.0), validate_args=False).batch_shape == ()


def test_parameters_broadcast():
    gate = HardKuma(torch.ones(4, 1), torch.full((3,), 2.0))
    assert gate.batch_shape == (4, 3) and gate.prob_zero.shape == (4, 3) and gate.mean.shape == (4, 3)
    a, b = torch.ones(4, 1, requires_grad=True), torch.ones(3, requires_grad=True)
    (HardKuma(a, b).rsample((2,)).sum() + HardKuma(a, b).prob_zero.sum()).backward()
    assert a.grad.shape == (4, 1) and b.grad.shape == (3,)
    assert HardKuma(0.5, 2.0).prob_zero.shape == ()


def test_the_device_is_kept():
    """Checked on the "meta" device, which holds shapes but no numbers: mixing it with the CPU would raise."""
    shape = torch.ones(3, device="meta", requires_grad=True)
    for family in (HardKuma, HardConcrete):
        gate = family(shape, shape, validate_args=False)
        results = [getattr(gate, name) for name in [*RECTIFIED, "mode"]]
        results += [gate.log_prob(shape), gate.cdf(shape), gate.icdf(shape), gate.rsample((2,))]
        results += [gate.entropy(), gate.base.mean, gate.base.entropy()]
        assert all(result.device.type == "meta" for result in results), "a result is on another device"


def test_masses_read_without_gradient_still_have_one_later():
    a = torch.ones(2, requires_grad=True)
    gate = HardKuma(a, torch.ones(2))
    with torch.no_grad():
        _ = gate.prob_zero, gate.log_prob_zero
    assert gate.prob_zero.requires_grad and gate.log_prob_zero.requires_grad


# --- modes ------------------------------------------------------------------------------------------------


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


def test_rectified_mode_is_the_most_probable_configuration():
    gate = HardKuma(*double([0.1, 2.0, 3.0, 5.0], [1.0, 2.0, 0.2, 1.0]))
    mode = gate.mode
    assert mode[0] == 0 and mode[2] == 1, "a mass that is the most probable of the three is the mode"
    assert_close(mode[1], LEFT + (RIGHT - LEFT) * gate.base.mode[1], rtol=1e-12, what="interior peak")
    assert mode[3] == 1, "the density rises to 1: the end of the interval"


# --- divergences ------------------------------------------------------------------------------------------


def kl_by_series(a, b, alpha, beta, terms=400):
    """The closed form with E[ln(1 - K^alpha)] as a series and a Hurwitz zeta function for its tail, in 30 digits."""
    with mp.workdps(30):
        a, b, alpha, beta = (mp.mpf(x) for x in (a, b, alpha, beta))
        entropy = 1 - 1 / b + (1 - 1 / a) * mp.harmonic(b) - mp.log(a * b)
        series = mp.fsum(b / m * mp.beta(1 + alpha * m / a, b) for m in range(1, terms + 1))
        tail = mp.gamma(b + 1) * (alpha / a) ** -b * mp.zeta(1 + b, terms + 1)
        return float(-entropy - mp.log(alpha * beta) + (alpha - 1) * mp.harmonic(b) / a + (beta - 1) * (series + tail))


@pytest.mark.parametrize("shapes", [(2, 5, 1.5, 0.7), (0.5, 0.5, 2, 2), (3, 2, 1.5, 4), (1.5, 0.2, 3, 2.5)])
def test_kl_between_kumaraswamys_is_the_series_with_its_tail(shapes):
    a, b, alpha, beta = double(*map(float, shapes))
    actual = kl_divergence(Kumaraswamy(a, b), Kumaraswamy(alpha, beta))
    assert_close(
        actual, kl_by_series(*shapes), rtol=2e-4, atol=2e-5, what="KL (the tail is a first-order approximation)"
    )


def average_log_ratio(p, q, num=400_000) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(7)
    draws = p.sample((num,))
    ratio = p.log_prob(draws) - q.log_prob(draws)
    return ratio.mean(0), 4.5 * ratio.std(0) / math.sqrt(num)


A, B, ALPHA, BETA = double([0.6, 2.0, 3.0], [1.7, 5.0, 0.8], [1.2, 0.7, 3.5], [1.0, 2.5, 0.5])


@pytest.mark.parametrize("p, q", [
    (Kumaraswamy(A, B), Kumaraswamy(ALPHA, BETA)),
    (Kumaraswamy(A, B), Beta(ALPHA, BETA)),
    (Kumaraswamy(A, B), Uniform(A.new_zeros(3), A.new_ones(3))),
    (HardKuma(A, B), HardKuma(ALPHA, BETA)),
    (HardKuma(A, B, -0.2, 1.0), HardKuma(ALPHA, BETA, -0.2, 1.0)),
    (BinaryConcrete(A, B), BinaryConcrete(ALPHA, BETA)),
    (HardConcrete(A, B), HardConcrete(ALPHA, BETA)),
    (HardConcrete(A, B, -0.2, 1.0), HardConcrete(ALPHA, BETA, -0.2, 1.0)),
    (HardKuma(A, B), HardConcrete(ALPHA, BETA)),
], ids=lambda dist: type(dist).__name__)  # fmt: skip
def test_divergences_match_a_large_sample(p, q):
    actual, (expected, allowed) = kl_divergence(p, q), average_log_ratio(p, q)
    assert ((actual - expected).abs() <= allowed + 1e-9).all(), f"{actual.tolist()}, sampled {expected.tolist()}"
    assert (actual >= 0).all() and actual.dtype == torch.float64


def test_divergence_from_itself_is_zero_and_supports_must_agree():
    assert kl_divergence(HardKuma(A, B), HardKuma(A, B)).abs().max() < 1e-12
    assert_close(kl_divergence(Kumaraswamy(A, B), Uniform(0.0, 1.0)), -Kumaraswamy(A, B).entropy(), rtol=1e-14)
    assert_close(
        kl_divergence(Kumaraswamy(A, B), Beta(torch.ones(3), torch.ones(3))),
        -Kumaraswamy(A, B).entropy(),
        1e-12,
    )
    assert (kl_divergence(Kumaraswamy(A, B), Uniform(0.1, 1.0)) == math.inf).all()
    with pytest.raises(NotImplementedError, match="left, right"):
        kl_divergence(HardKuma(A, B), HardKuma(A, B, left=-0.2))
    single = kl_divergence(HardKuma(A[0], B[0]), HardKuma(ALPHA, BETA))
    assert single.shape == (3,), "batch shapes must broadcast"


# --- traps ------------------------------------------------------------------------------------------------


def test_the_mean_of_the_gate_is_not_the_mean_of_its_base():
    gate = HardKuma(*double(LN2, 5.0))
    assert gate.mean < 0.6 * gate.base.mean, "E[H] = .0510, E[K] = .0916"


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
