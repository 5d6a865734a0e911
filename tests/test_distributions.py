"""What all distributions of gates have to offer: shapes, gradients, sampling, and the limits of float32."""

import math

import pytest
import scipy.integrate
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.distributions import Beta, Uniform, kl_divergence
from torch.distributions import Kumaraswamy as TorchKumaraswamy

from rationale.distributions import (
    BinaryConcrete,
    HardConcrete,
    HardKuma,
    Kumaraswamy,
    StraightThroughBernoulli,
    StretchedRectified,
    log_uniform,
)
from tests.laws import RECTIFIED, assert_close, double, tensor32, tensor64

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


def hardkuma_survival(a, b, h):
    """P(H > h) of a HardKuma by its textbook formula, in Python's numbers."""
    return (1 - ((h + 0.1) / 1.2) ** a) ** b


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


IN_HALF_PRECISION = {  # a gate for its two parameters, then P(Z != 0) and P(Z = 1) for them, as Python's numbers
    "HardKuma, nearly shut": (
        HardKuma, (1.0, 79.4), lambda a, b: (hardkuma_survival(a, b, 0), hardkuma_survival(a, b, 1)),
    ),
    "HardKuma, uniform": (
        HardKuma, (1.0, 1.0), lambda a, b: (hardkuma_survival(a, b, 0), hardkuma_survival(a, b, 1)),
    ),
    "HardConcrete, nearly shut": (
        HardConcrete, (-8.0, 2 / 3), lambda m, t: (sigmoid(m + t * math.log(11)), sigmoid(m - t * math.log(11))),
    ),
    "HardConcrete, mostly open": (
        HardConcrete, (3.0, 2 / 3), lambda m, t: (sigmoid(m + t * math.log(11)), sigmoid(m - t * math.log(11))),
    ),
    "StraightThroughBernoulli, nearly shut": (
        lambda m, _: StraightThroughBernoulli(logits=m), (-6.9, 0.0), lambda m, _: (sigmoid(m), sigmoid(m)),
    ),
    "StraightThroughBernoulli, nearly open": (
        lambda m, _: StraightThroughBernoulli(logits=m), (5.0, 0.0), lambda m, _: (sigmoid(m), sigmoid(m)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("name", IN_HALF_PRECISION)
def test_draws_in_half_precision_are_0_and_1_as_often_as_the_law_says(name, dtype):
    """A uniform number in bfloat16 is a multiple of 1/256, and a draw of 0.999 is rounded to 1."""
    make, numbers, masses = IN_HALF_PRECISION[name]
    parameters = torch.tensor(numbers, dtype=dtype)
    torch.manual_seed(4)
    num = 1_000_000
    draws = make(*parameters).rsample((num,))
    assert draws.dtype == dtype
    shares = [(draws != 0).double().mean().item(), (draws == 1).double().mean().item()]
    for what, share, mass in zip(("not 0", "1"), shares, masses(*parameters.tolist()), strict=True):
        allowed = 4 * math.sqrt(max(mass * (1 - mass), 1 / num) / num)
        assert abs(share - mass) < allowed, f"{share:.5f} of the draws are {what}, its mass is {mass:.5f}"


def test_the_noise_of_half_precision_is_that_of_float32():
    for like in (torch.zeros(2, dtype=torch.float16), torch.zeros(2, dtype=torch.bfloat16)):
        torch.manual_seed(7)
        noise = log_uniform(torch.Size([5]), like)
        torch.manual_seed(7)
        assert torch.equal(noise, log_uniform(torch.Size([5]), torch.zeros(2)))


def test_draws_in_float32_and_float64_are_those_of_the_committed_results():
    """For a given seed. The uniform numbers are those of `torch.rand` in the dtype of the parameters."""
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(7)
        uniform = torch.rand(5, dtype=dtype)
        torch.manual_seed(7)
        assert torch.equal(log_uniform(torch.Size([5]), torch.zeros(2, dtype=dtype)), uniform.log())
    expected = {
        torch.float32: [0.3189758, 0.8731177, 0.1414939, 0.1444874, 0.8195483],
        torch.float64: [0.7431904, 0.7526376, 0.0, 0.1447484, 0.0],
    }
    for dtype, draws in expected.items():
        torch.manual_seed(7)
        gate = HardKuma(torch.tensor(0.5, dtype=dtype), torch.tensor(0.7, dtype=dtype))
        assert gate.sample((5,)).tolist() == pytest.approx(draws, abs=1e-6)
    torch.manual_seed(7)
    draws = StraightThroughBernoulli(logits=torch.tensor(0.3)).sample((8,))
    assert draws.tolist() == [1, 1, 0, 0, 1, 1, 1, 0]


def test_same_seed_same_draws_and_no_gradient_from_sample():
    a = torch.ones(3, requires_grad=True)
    gate = HardKuma(a, torch.ones(3))
    torch.manual_seed(0)
    first = gate.rsample((5,))
    torch.manual_seed(0)
    second = gate.sample((5,))
    assert torch.equal(first, second) and first.requires_grad and not second.requires_grad


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


def test_any_law_with_a_cdf_a_quantile_and_a_density_has_all_statistics():
    """torch's own Kumaraswamy as the base; its `mode` is not a number, so it is not asked."""
    gate, ours = StretchedRectified(TorchKumaraswamy(2.0, 3.0)), HardKuma(2.0, 3.0)
    for name in (*RECTIFIED, "mode"):
        assert_close(getattr(gate, name), getattr(ours, name), rtol=1e-5, atol=1e-7, what=name)
    assert_close(gate.entropy(), ours.entropy(), rtol=1e-5, what="entropy")
    rising = StretchedRectified(TorchKumaraswamy(torch.tensor([5.0, 0.5]), torch.tensor([1.0, 3.0])), -0.01, 1.01)
    assert rising.mode.tolist() == [1, 0], "the density is highest at an end"
