"""Entmax: against the package entmax, softmax, sparsemax, its conditions of optimality, and differences in alpha."""

import functools

import mpmath as mp
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from rationale.models import build_aligner, build_seq2seq
from rationale.models.aligner import AlignerSettings
from rationale.models.seq2seq import Seq2SeqSettings
from rationale.nn import Entmax, entmax, entmax15, softmax, sparsemax
from rationale.nn.mappings import rows

ALPHAS = (1.0000001, 1.01, 1.2, 1.5, 1.8, 2.0, 2.5)


@pytest.fixture(params=["fast", "vectorised"], autouse=True)
def form(request, monkeypatch) -> None:
    if request.param == "vectorised":
        monkeypatch.setattr(rows, "has_fast_form", lambda scores: False)


def scores_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_values_and_gradients_are_those_of_the_package_entmax(alpha):
    package = pytest.importorskip("entmax")
    for scale in (0.1, 1.0, 10.0):
        x, v = scale * scores_of(50, 33), scores_of(50, 33, seed=1)
        theirs = functools.partial(package.entmax_bisect, alpha=alpha, n_iter=100)
        found = []
        for mapping in (functools.partial(entmax, alpha=alpha), theirs):
            y = mapping(x.requires_grad_())
            found.append((y.detach(), *torch.autograd.grad(y, x, v)))
        (ours, slope), (wanted, wanted_slope) = found
        assert (ours - wanted).abs().max() < 1e-9, f"off by {(ours - wanted).abs().max()} at scale {scale}"
        assert (slope - wanted_slope).abs().max() < 1e-8, f"off by {(slope - wanted_slope).abs().max()}"


def test_sparsemax_and_entmax15_are_those_of_the_package_entmax():
    package = pytest.importorskip("entmax")
    v = scores_of(100, 33, seed=1)
    for ours, theirs in ((sparsemax, package.sparsemax), (entmax15, package.entmax15)):
        x = scores_of(100, 33).requires_grad_()
        y, wanted = ours(x), theirs(x, -1)
        torch.testing.assert_close(y, wanted, atol=1e-12, rtol=0)
        torch.testing.assert_close(*(torch.autograd.grad(z, x, v)[0] for z in (y, wanted)), atol=1e-12, rtol=0)
        single = ours(x.float()).double()
        torch.testing.assert_close(single, wanted, atol=1e-6, rtol=0)


def test_it_goes_from_softmax_at_1_to_sparsemax_at_2():
    x = scores_of(40, 9)
    one = torch.tensor(1.0, dtype=torch.float64)
    for alpha in (1, 1.0, one):
        torch.testing.assert_close(entmax(x, alpha=alpha), softmax(x), atol=1e-15, rtol=0)
    torch.testing.assert_close(entmax(x, alpha=1 + 1e-10), softmax(x), atol=1e-9, rtol=0)
    torch.testing.assert_close(entmax(x, alpha=2.0), sparsemax(x), atol=1e-14, rtol=0)
    zeros = [(entmax(x, alpha=alpha) == 0).sum().item() for alpha in (1.0, 1.2, 1.5, 1.8, 2.0, 3.0)]
    assert zeros[0] == 0 and zeros == sorted(zeros) and zeros[-1] > zeros[1], f"more zeros as alpha rises: {zeros}"


@pytest.mark.parametrize("alpha", [1.01, 1.5, 2.5])
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_the_conditions_of_optimality_hold(alpha, gamma):
    x = scores_of(100, 7)
    y = entmax(x, gamma=gamma, alpha=alpha)
    slope = x - gamma * y ** (alpha - 1) / (alpha - 1)  # of y . x - gamma sum_i (y_i^alpha - y_i) / (alpha (alpha - 1))
    level = slope.where(y > 0, -torch.inf).amax(-1, keepdim=True)
    assert (slope.where(y > 0, level) - level).abs().max() < 1e-9, "equal on the support"
    assert (slope <= level + 1e-9).all(), "no weight of 0 would rather be positive"
    torch.testing.assert_close(y.sum(-1), torch.ones(100, dtype=torch.float64), atol=1e-13, rtol=0)


def exact_pair(lead: float, alpha: float) -> float:
    """The weight y of the smaller of two scores, (1 - y)^a - y^a = a lead with a = alpha - 1, by bisection."""
    with mp.workdps(60):
        a, low, high = mp.mpf(alpha) - 1, mp.mpf(0), mp.mpf(1) / 2
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (low, middle) if (1 - middle) ** a - middle**a < a * lead else (middle, high)
        return float(low)


@pytest.mark.parametrize("alpha, error", [(1.5, 1e-15), (2.0, 1e-15), (2.5, 2e-10), (3.0, 1e-7), (4.0, 2e-5)])
def test_weights_have_the_digits_that_are_promised_also_where_one_has_just_left_zero(alpha, error):
    torch.manual_seed(0)
    leads = (1 - 10 ** -torch.linspace(0.01, 15.5, 60, dtype=torch.float64)) / (alpha - 1)
    y = entmax(torch.stack([torch.zeros_like(leads), -leads], -1), alpha=alpha)
    exact = torch.tensor([exact_pair(lead, alpha) for lead in leads.tolist()], dtype=torch.float64)
    assert (y[:, 1] - exact).abs().max() <= error and (y[:, 0] - (1 - exact)).abs().max() <= error
    single = torch.stack([torch.zeros_like(leads), -leads], -1).float().requires_grad_()
    (slope,) = torch.autograd.grad(entmax(single, alpha=alpha)[:, 0].sum(), single)
    assert slope.isfinite().all()


@pytest.mark.parametrize("alpha", [1.0, 1.000001, 1.05, 1.5, 1.9, 2.3])
def test_the_derivative_in_alpha_is_that_of_differences(alpha):
    x, v, step = scores_of(20, 6), scores_of(20, 6, seed=1), 1e-4
    at = torch.tensor(max(alpha, 1 + step) if alpha > 1 else 1.0, dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad((entmax(x, alpha=at) * v).sum(), at)

    def value(alpha: float) -> float:
        return (entmax(x, alpha=alpha) * v).sum().item()

    start = at.item()
    if start - step < 1:  # one-sided, of second order
        wanted = (-3 * value(start) + 4 * value(start + step) - value(start + 2 * step)) / (2 * step)
    else:
        wanted = (value(start + step) - value(start - step)) / (2 * step)
    assert found.item() == pytest.approx(wanted, abs=1e-4)


def test_first_and_second_derivatives_in_scores_alpha_and_gamma_agree_with_differences():
    x, gamma = scores_of(2, 3, 4).requires_grad_(), torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    alpha = torch.tensor([[1.1], [1.5], [1.9]], dtype=torch.float64, requires_grad=True)  # one per row

    def mapping(x, alpha, gamma):
        return entmax(x, gamma=gamma, alpha=alpha)

    assert gradcheck(mapping, (x, alpha, gamma))
    assert gradgradcheck(mapping, (x[:1].detach().requires_grad_(), alpha, gamma), atol=1e-4)


def test_alpha_of_each_row_is_that_of_the_row_alone_along_any_dimension():
    x, alpha = scores_of(2, 5, 3), torch.tensor([1.0, 1.5, 2.0], dtype=torch.float64)
    y = entmax(x, alpha=alpha, dim=1)  # rows of 5, an alpha for each of the last dimension
    for k, single in enumerate(alpha.tolist()):
        torch.testing.assert_close(y[..., k], entmax(x[..., k], alpha=single), atol=1e-14, rtol=0)


def test_the_second_derivative_in_alpha_at_1_is_the_limit():
    x, v = scores_of(5), torch.arange(5.0, dtype=torch.float64)
    curve = torch.func.hessian(lambda alpha: (entmax(x, alpha=alpha) * v).sum())
    one, near = (curve(torch.tensor(alpha, dtype=torch.float64)) for alpha in (1.0, 1.001))
    assert one.item() == pytest.approx(near.item(), abs=1e-2) and abs(one) > 1e-3


def test_alpha_is_learned_between_1_and_2():
    x, wanted = scores_of(50, 6).float(), 1.7
    goal, mapping = entmax(x, alpha=wanted), Entmax(alpha=1.2, learned=True)
    optimizer = torch.optim.Adam(mapping.parameters(), lr=0.1)
    for _ in range(100):
        optimizer.zero_grad()
        (mapping(x) - goal).square().sum().backward()
        optimizer.step()
    assert mapping.arguments()["alpha"].item() == pytest.approx(wanted, abs=0.02)
    with pytest.raises(ValueError, match=r"alpha: got 2.0, accepted is a number in \(1, 2\) where it is learned"):
        Entmax(alpha=2.0, learned=True)
    free = Entmax(alpha=nn.Parameter(torch.tensor(1.5)))
    free(x)[:, 0].sum().backward()
    assert torch.isfinite(free.alpha.grad) and free.alpha.grad != 0


def test_models_build_it_from_settings():
    vectors = scores_of(9, 4).float()
    p = AlignerSettings(model="entmax", alpha=1.3, hidden_size=4)
    assert build_aligner(p, vectors, "classes", 2).selector.mapping.arguments() == {"gamma": 1.0, "alpha": 1.3}
    model = build_seq2seq(Seq2SeqSettings(model="entmax", learned_alpha=True, hidden_size=4), 9, 9, 2)
    assert model.mapping.arguments()["alpha"].item() == pytest.approx(1.5), "initialisation keeps alpha"
    assert not [name for name, _ in build_seq2seq(Seq2SeqSettings(model="entmax15", hidden_size=4), 9, 9, 2)
                .named_parameters() if "mapping" in name]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_the_gradient_is_finite_and_near_that_of_the_same_scores(dtype):
    """For alpha = 4 it contains 1 / y^2."""
    scores, v = (1e-3 * scores_of(1, 400)).to(dtype), scores_of(1, 400, seed=1).to(dtype)
    slopes = []
    for x in (scores.clone().requires_grad_(), scores.double().requires_grad_()):
        slopes += torch.autograd.grad(entmax(x, alpha=4.0), x, v.to(x.dtype))
    found, expected = slopes[0].double(), slopes[1]
    assert (found - expected).abs().max() < 4 * torch.finfo(dtype).eps * expected.abs().max()
