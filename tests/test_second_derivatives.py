"""Derivatives of derivatives: against finite differences of the gradient, by every way that torch has."""

import functools

import mpmath as mp
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import Beta, kl_divergence
from torch.distributions import Kumaraswamy as TorchKumaraswamy

from rationale.distributions import Bernoulli, BinaryConcrete, HardConcrete, HardKuma, Kumaraswamy, log1mexp
from tests.laws import double

LAWS = {
    "Kumaraswamy": Kumaraswamy,
    "BinaryConcrete": BinaryConcrete,
    "HardKuma": HardKuma,
    "HardKuma half-open": functools.partial(HardKuma, left=-0.2, right=1.0),
    "HardKuma no zero": functools.partial(HardKuma, left=0.0, right=1.3),
    "HardConcrete": HardConcrete,
    "HardConcrete half-open": functools.partial(HardConcrete, left=-0.2, right=1.0),
}
VALUES, LEVELS = double([0.001, 0.3, 0.97], [0.15, 0.5, 0.8])
MASSES = ["prob_zero", "prob_one", "prob_interior", "log_prob_zero", "log_prob_nonzero", "log_prob_one",
          "log_prob_interior", "conditional_mean"]  # fmt: skip


def quantities(law) -> dict:
    """Functions of a distribution, each to one number."""
    other = law(*double(0.7, 1.5))
    found = {
        "mean": lambda d: d.mean,
        "variance": lambda d: d.variance,
        "entropy": lambda d: d.entropy(),
        "log_prob": lambda d: d.log_prob(VALUES).sum(),
        "cdf": lambda d: d.cdf(VALUES).sum(),
        "icdf": lambda d: d.icdf(LEVELS).sum(),
        "KL": lambda d: kl_divergence(d, other),
        "KL to": lambda d: kl_divergence(other, d),
    }
    if isinstance(other, Kumaraswamy):
        found |= {"median": lambda d: d.median, "KL to a Beta": lambda d: kl_divergence(d, Beta(*double(0.7, 1.5)))}
        found |= {"KL of a Beta": lambda d: kl_divergence(Beta(*double(0.7, 1.5)), d)}
    if isinstance(other, Kumaraswamy | BinaryConcrete):
        return found | {
            "log_cdf": lambda d: d.log_cdf(VALUES).sum(),
            "log_survival": lambda d: d.log_survival(VALUES).sum(),
        }
    absent = set()  # the masses that this support does not have, which have no derivative
    if other.left == 0:
        absent |= {"zero", "nonzero"}
    if other.right == 1:
        absent |= {"one"}
    present = [name for name in MASSES if name.split("_")[-1] not in absent]
    ends = torch.tensor([end for end, name in ((0.0, "zero"), (1.0, "one")) if name not in absent]).double()
    found |= {name: functools.partial(lambda d, name: getattr(d, name), name=name) for name in present}
    return found | {"log_prob at 0 and 1": lambda d: d.log_prob(ends).sum()}


@pytest.mark.parametrize("name", LAWS)
def test_second_derivatives_match_finite_differences_of_the_first(name):
    law, point, step = LAWS[name], *double([1.0, 1.0]), 1e-5  # a = b = 1, t = 1: where formulas change
    for quantity, value in quantities(law).items():

        def function(parameters, value=value):
            return value(law(parameters[0], parameters[1]))

        def gradient(parameters, function=function):
            parameters = parameters.clone().requires_grad_()
            return torch.autograd.grad(function(parameters), parameters)[0]

        expected = torch.stack([(gradient(point + e) - gradient(point - e)) / (2 * step) for e in step * torch.eye(2)])
        ways = {
            "double backward": torch.autograd.functional.hessian(function, point),
            "torch.func.hessian": torch.func.hessian(function)(point),
            "vmap": torch.func.vmap(torch.func.jacfwd(torch.func.grad(function)))(torch.stack([point, point + 1]))[0],
        }
        for way, actual in ways.items():
            error = ((actual - expected).abs() / (1 + expected.abs())).max()
            assert error < 1e-7, f"{quantity} by {way}: {actual.tolist()}, expected {expected.tolist()}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("x", [-80.0, -20.0, -5.0, 0.0, 5.0, 20.0, 80.0])
def test_the_second_derivative_of_a_logistic_tail_keeps_its_digits(x, dtype):
    """That of ln sigmoid(x) is -sigmoid(x) sigmoid(-x), which falls as exp(-|x|) on both sides."""
    with mp.workdps(60):
        expected = float(-1 / (2 + mp.exp(x) + mp.exp(-x)))
    at, one = torch.tensor(x, dtype=dtype), torch.ones((), dtype=dtype)
    logs = {
        "Bernoulli": lambda m: Bernoulli(logits=m).log_prob_one,
        "Binary Concrete": lambda m: BinaryConcrete(m, one).log_survival(one / 2),
        "Hard Concrete": lambda m: HardConcrete(m, one, -1.0, 1.0).log_prob_nonzero,
    }
    for name, function in logs.items():
        assert torch.func.hessian(function)(at).item() == pytest.approx(expected, rel=2e-6, abs=0.0), name


def test_the_second_derivative_of_a_log_density_is_that_of_torch():
    hessians = [
        torch.func.hessian(lambda a, family=family: family(a, torch.tensor(3.0)).log_prob(torch.tensor(0.3)))
        for family in (Kumaraswamy, TorchKumaraswamy)
    ]
    ours, theirs = (hessian(torch.tensor(2.0)).item() for hessian in hessians)
    assert abs(ours - theirs) < 1e-5 and abs(ours + 0.5651) < 1e-4, f"{ours}, of torch {theirs}"


def test_parameters_that_only_one_side_of_a_vmap_has_broadcast():
    a, u = torch.tensor([0.5, 2.0, 3.0]), torch.rand(4, 1)
    together = HardKuma(a, 3.0).icdf(u)
    apart = torch.func.vmap(lambda a: HardKuma(a, 3.0).icdf(u), out_dims=1)(a)
    assert torch.equal(together, apart.squeeze(-1)), f"{together}, {apart}"
    inner = torch.func.vmap(torch.func.vmap(lambda a, b: HardKuma(a, b).prob_interior, (None, 0)), (0, None))(a, a)
    assert torch.allclose(inner, HardKuma(a.unsqueeze(1), a).prob_interior)


def test_log1mexp_and_the_draw_pass_torchs_checks_of_every_kind():
    x = torch.tensor([-30.0, -0.7, -0.01], dtype=torch.float64, requires_grad=True)
    a, b = (t.requires_grad_() for t in double([0.5, 1.0, 3.0], [2.0, 1.0, 0.4]))
    for function, inputs in ((log1mexp, (x,)), (lambda a, b: HardKuma(a, b).rsample_at(x.detach()), (a, b))):
        assert gradcheck(function, inputs, check_forward_ad=True, check_batched_grad=True)
        assert gradgradcheck(function, inputs)


def test_a_third_derivative_is_right_too():
    def third(a):
        return torch.func.grad(torch.func.grad(torch.func.grad(lambda a: HardKuma(a, 2.0).log_prob_zero)))(a)

    (point,), step = double(1.3), 1e-4
    by_steps = torch.func.hessian(lambda a: HardKuma(a, 2.0).log_prob_zero)
    expected = (by_steps(point + step) - by_steps(point - step)) / (2 * step)
    assert abs(third(point) / expected - 1) < 1e-6
