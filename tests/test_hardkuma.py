"""The HardKuma: published values, arbitrary-precision arithmetic, integrals, and textbook formulas.

The textbook formulas are written here, as the reference with which the package is compared, and nowhere else.
"""

import math

import mpmath as mp
import numpy as np
import pytest
import torch
from torch.distributions import Uniform

from rationale.distributions import (
    BinaryConcrete,
    HardConcrete,
    HardKuma,
    Kumaraswamy,
    StretchedRectified,
)
from tests.laws import LEFT, LN2, RIGHT, TABLE, assert_close, double


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


def test_the_derivative_through_the_clip_is_one_inside_and_zero_outside():
    a = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    gate = HardKuma(a, torch.ones(3, dtype=torch.float64))
    h = gate.icdf(torch.tensor([0.001, 0.5, 0.999], dtype=torch.float64))
    assert h[0] == 0 and 0 < h[1] < 1 and h[2] == 1
    (grad,) = torch.autograd.grad(h.sum(), a)
    k = (h - LEFT) / (RIGHT - LEFT)
    assert grad[0] == 0 and grad[2] == 0, f"the clip must stop the gradient, got {grad.tolist()}"
    assert_close(grad[1], (RIGHT - LEFT) * -(k * k.log() / 2)[1].detach(), rtol=1e-12, what="dh/da inside")


def test_a_saturated_gate_still_has_a_gradient():
    """The clamped logarithms of the usual implementation give a gradient of exactly 0 here."""
    a = torch.tensor([0.001, 5.0, 50.0], requires_grad=True)
    gate = HardKuma(a, torch.tensor([100.0, 1.0, 1.0]))
    (grad,) = torch.autograd.grad(gate.log_prob_nonzero[:1].sum() + gate.log_prob_zero[1:].sum(), a)
    assert (grad.abs() > 1e-3).all(), f"a saturated gate must still have a gradient, got {grad.tolist()}"


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


def test_rectified_mode_is_the_most_probable_configuration():
    gate = HardKuma(*double([0.1, 2.0, 3.0, 5.0], [1.0, 2.0, 0.2, 1.0]))
    mode = gate.mode
    assert mode[0] == 0 and mode[2] == 1, "a mass that is the most probable of the three is the mode"
    assert_close(mode[1], LEFT + (RIGHT - LEFT) * gate.base.mode[1], rtol=1e-12, what="interior peak")
    assert mode[3] == 1, "the density rises to 1: the end of the interval"


def test_the_mean_of_the_gate_is_not_the_mean_of_its_base():
    gate = HardKuma(*double(LN2, 5.0))
    assert gate.mean < 0.6 * gate.base.mean, "E[H] = .0510, E[K] = .0916"


# --- near the ends ------------------------------------------------------------------------------------------


def exact_log_prob(value: float, a: float, b: float, left: float, right: float) -> tuple[float, float]:
    """ln of the mass or of the density with 60 digits, and the magnitude of its largest term."""
    with mp.workdps(60):
        h, a, b, left, right = (mp.mpf(x) for x in (value, a, b, left, right))
        k, log_survival = (h - left) / (right - left), lambda k: b * mp.log1p(-(k**a))
        if h in (0, 1):
            log = log_survival(k) if h == 1 else mp.log(-mp.expm1(log_survival(k)))
            return float(log), float(1 + abs(log))
        power = (a - 1) * mp.log(k)
        log = mp.log(a * b) + power + (b - 1) * mp.log1p(-(k**a)) - mp.log(right - left)
        return float(log), float(1 + abs(log) + abs(power))


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 3e-6), (torch.float64, 3e-15)])
@pytest.mark.parametrize("left, right", [(-0.1, 1.1), (-0.2, 1.0), (0.0, 1.3), (-1e-6, 1 + 1e-6)])
def test_log_prob_is_exact_at_the_ends_and_at_draws(left, right, dtype, tolerance):
    torch.manual_seed(0)
    a, b = (t.flatten() for t in torch.meshgrid(*[torch.logspace(-4, 4, 5).to(dtype)] * 2, indexing="ij"))
    gate, eps = HardKuma(a, b, left, right), torch.finfo(dtype).eps
    ends = [1e-7, 1 - eps / 2, *[0.0] * (left < 0), *[1.0] * (right > 1)]
    values = torch.cat([torch.tensor(ends, dtype=dtype).view(-1, 1).expand(-1, 25), gate.sample((2,))])
    actual = gate.log_prob(values)
    for i, j in np.ndindex(*values.shape):
        expected, scale = exact_log_prob(values[i, j].item(), a[j].item(), b[j].item(), left, right)
        where = f"h={values[i, j].item()!r}, a={a[j].item()}, b={b[j].item()}"
        assert abs(actual[i, j].item() - expected) <= tolerance * scale, f"{where}: {actual[i, j]}, expected {expected}"


def test_the_half_open_density_keeps_its_digits_and_its_slope_beside_one():
    a, b, h = (torch.tensor(x, requires_grad=True) for x in (1.5698093, 0.24242105, 1 - 2**-24))
    log_prob = HardKuma(a, b, -0.2, 1.0).log_prob(h)
    slopes = torch.autograd.grad(log_prob, (a, b, h))
    wide = [t.detach().double().requires_grad_() for t in (a, b, h)]
    expected = HardKuma(wide[0], wide[1], -0.2, 1.0).log_prob(wide[2])
    assert_close(log_prob, expected.item(), rtol=2e-6, what="ln f(1 - 2^-24)")
    for name, slope, other in zip("abh", slopes, torch.autograd.grad(expected, wide), strict=True):
        assert_close(slope, other.float(), rtol=1e-5, what=f"derivative with respect to {name}")


def test_the_log_of_the_interior_does_not_end_at_the_smallest_number():
    log = HardKuma(torch.tensor(9344.8), torch.tensor(254.6)).log_prob_interior
    with mp.workdps(500):
        a, b = (mp.mpf(torch.tensor(x).item()) for x in (9344.8, 254.6))
        k0, k1 = mp.mpf(1) / 12, mp.mpf(11) / 12
        expected = float(mp.log((1 - k0**a) ** b - (1 - k1**a) ** b))
    assert_close(log, expected, rtol=2e-6, what="ln P(0 < H < 1)")
    assert HardKuma(torch.tensor(9344.8), torch.tensor(254.6)).log_prob_one == 0


@pytest.mark.parametrize("a, b", [(1500.0, 1.0), (1000.0, 30.0), (3000.0, 0.2)])
def test_the_conditional_mean_survives_an_interval_whose_probability_underflows(a, b):
    gate = HardKuma(*double(a, b), left=-5.0, right=6.0)
    with mp.workdps(60):
        k0, k1 = mp.mpf(5) / 11, mp.mpf(6) / 11
        cuts = [k0, k1 - mp.mpf(1) / 50, k1 - mp.mpf(1) / 400, k1]
        density = lambda k: (k / k1) ** (a - 1) * (1 - k**a) ** (b - 1)  # noqa: E731
        total = mp.quad(density, cuts)
        expected = mp.quad(lambda k: (-5 + 11 * k) * density(k), cuts) / total
    assert_close(gate.conditional_mean, float(expected), rtol=1e-11, what="E[H | 0 < H < 1]")


# --- what users of torch.distributions expect ------------------------------------------------------------------


def test_outside_the_support_the_log_density_is_minus_infinity_as_in_torch():
    for family in (HardKuma, HardConcrete):
        gate = family(torch.tensor(0.3), torch.tensor(0.7), validate_args=False)
        outside = gate.log_prob(torch.tensor([-0.5, 1.5, -1e-30]))
        assert (outside == -math.inf).all(), f"{gate}: {outside}"
        assert gate.base.log_prob(torch.tensor([-0.5, 1.5])).tolist() == [-math.inf] * 2, f"{gate.base}"
        assert gate.log_prob(torch.tensor(math.nan)).isnan(), "not a number is not a value"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("law", [HardKuma, HardConcrete, Kumaraswamy, BinaryConcrete])
def test_the_nearest_numbers_on_either_side_of_the_support_are_outside(law, dtype):
    """The nearest number below 0 is below the normal numbers, so products with it may stay finite."""
    ends = torch.tensor([0.0, 1.0], dtype=dtype)
    outside = ends.nextafter(torch.tensor([-1.0, 2.0], dtype=dtype))
    found = law(*torch.tensor([0.3, 0.7], dtype=dtype), validate_args=False).log_prob(outside)
    assert found.tolist() == [-math.inf] * 2


def test_numbers_are_values_and_the_text_shows_the_support():
    gate = HardKuma(2.0, 3.0, left=-0.2, right=1.3)
    assert repr(gate) == "HardKuma(a: 2.0, b: 3.0, left: -0.2, right: 1.3)", repr(gate)
    assert "torch.Size([4])" in repr(HardKuma(torch.ones(4), 3.0)) and "base" in repr(StretchedRectified(Uniform(0, 1)))
    for method in ("log_prob", "cdf", "icdf"):
        for law in (gate, gate.base):
            assert getattr(law, method)(0.3) == getattr(law, method)(torch.tensor(0.3)), f"{method} of {law}"
    assert gate.log_prob(1) == gate.log_prob_one and gate.cdf(0) == gate.prob_zero
    assert_close(gate.prob_nonzero, 1 - gate.prob_zero, rtol=1e-6)


@pytest.mark.parametrize("name", ["left", "right"])
def test_a_support_with_a_gradient_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}: got a tensor"):
        HardKuma(2.0, 3.0, **{name: torch.tensor(1.0, requires_grad=True)})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_has_no_nan_where_the_support_is_close_to_the_unit_interval(dtype):
    torch.manual_seed(0)
    side = torch.logspace(-3, 2, 21)
    a, b = (t.flatten().to(dtype).requires_grad_() for t in torch.meshgrid(side, side, indexing="ij"))
    for left, right in ((-0.001, 1.001), (-0.1, 1.1), (-0.2, 1.0)):
        gate = HardKuma(a, b, left, right)
        draws = gate.rsample()
        found = [draws, gate.log_prob(draws.detach()), gate.log_prob_zero, gate.log_prob_nonzero, gate.mean]
        assert right > 1 or not (draws == 1).any(), "a half-open gate must not round to 1"
        for value in found:
            slopes = torch.autograd.grad(value.masked_fill(value.isinf(), 0).sum(), (a, b), retain_graph=True)
            assert value.dtype == dtype and not any(t.isnan().any() for t in (value, *slopes)), f"{left}, {right}"


def test_inference_mode_leaves_nothing_behind():
    a = torch.tensor(2.0, requires_grad=True)
    gate = HardKuma(a, 3.0)
    with torch.inference_mode():
        _ = HardKuma(2.0, 3.0).mean, gate.mean, gate.prob_zero, gate.log_prob_nonzero
    for value in (HardKuma(a, 3.0).mean, gate.mean, gate.prob_zero, gate.log_prob_nonzero):
        assert torch.autograd.grad(value, a, retain_graph=True)[0].isfinite()


def test_statistics_of_many_gates_are_those_of_each():
    torch.manual_seed(0)
    a, b = torch.rand(2, 3, 1500) * 3 + 0.1
    assert torch.equal(HardKuma(a, b).mean[1, :7], HardKuma(a[1, :7], b[1, :7]).mean)
