"""Mappings from scores to weights: against a quadratic program, finite differences, and the laws each one obeys.

Every test runs on both forms of the mappings, the compiled one and the vectorised one.
"""

import functools
import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch.autograd import gradcheck

from rationale.nn import (
    MAPPINGS,
    entmax,
    entmax15,
    fusedmax,
    has_zero_jacobian,
    in_dead_zone,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from rationale.nn.mappings import rows

PUBLISHED = functools.partial(oscarmax, published=True)
PRICES = {"fusedmax": 0.15, "oscarmax": 0.08}
SPARSE = {
    "sparsemax": sparsemax,
    "fusedmax": lambda x, mask=None, gamma=1.0: fusedmax(x, mask, gamma, PRICES["fusedmax"]),
    "oscarmax": lambda x, mask=None, gamma=1.0: oscarmax(x, mask, gamma, PRICES["oscarmax"]),
    "sq_pnorm_max": sq_pnorm_max,
    "entmax": lambda x, mask=None, gamma=1.0: entmax(x, mask, gamma, 1.3),
    "entmax15": entmax15,
}
EVERY = {"softmax": softmax} | SPARSE
SCORES = st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=9)


@pytest.fixture(params=["fast", "vectorised"], autouse=True)
def form(request, monkeypatch) -> str:
    if request.param == "vectorised":
        monkeypatch.setattr(rows, "has_fast_form", lambda scores: False)
    return request.param


def doubles(*rows) -> torch.Tensor:
    return torch.tensor(rows if len(rows) > 1 else rows[0], dtype=torch.float64)


def penalty_of(name: str, lam: float):
    """Pairs (i, j) and what each costs, by the penalty's name."""
    if name == "fusedmax":
        return lambda y: lam * np.abs(np.diff(y)).sum()
    if name == "oscarmax":
        return lambda y: lam * sum(max(abs(a), abs(b)) for a, b in itertools.combinations(y, 2))
    return lambda y: 0.0


def objective(name: str, x, y, lam: float = 0.0, gamma: float = 1.0, p: float = 2.0) -> float:
    """y . x - gamma Omega(y), to be as large as can be."""
    if name == "sq_pnorm_max":
        return float(y @ x - gamma * np.linalg.norm(y, p) ** 2 / 2)
    return float(y @ x - gamma * (y @ y / 2 + penalty_of(name, lam)(y)))


def solved(name: str, x: np.ndarray, lam: float, gamma: float) -> np.ndarray:
    """The maximiser by a solver that knows nothing of ours: SLSQP on the quadratic program with slack variables."""
    d = len(x)
    if name == "fusedmax":
        pairs = [(i, i + 1) for i in range(d - 1)]
        rows = [(sign * (np.eye(d)[j] - np.eye(d)[i]), k) for k, (i, j) in enumerate(pairs) for sign in (1, -1)]
    elif name == "oscarmax":
        pairs = list(itertools.combinations(range(d), 2))
        rows = [(np.eye(d)[i], k) for k, pair in enumerate(pairs) for i in pair]
    else:
        pairs, rows = [], []
    above = np.array([np.concatenate([-row, np.eye(len(pairs))[k]]) for row, k in rows]).reshape(
        len(rows), d + len(pairs)
    )
    weight = np.concatenate([np.zeros(d), np.full(len(pairs), lam)])

    def cost(v):
        return 0.5 * ((v[:d] - x / gamma) ** 2).sum() + weight @ v

    def slope(v):
        return np.concatenate([v[:d] - x / gamma, np.zeros(len(pairs))]) + weight

    limits = [{"type": "eq", "fun": lambda v: v[:d].sum() - 1, "jac": lambda v: (np.arange(len(v)) < d) * 1.0}]
    if rows:
        limits.append({"type": "ineq", "fun": lambda v: above @ v, "jac": lambda v: above})
    start = np.concatenate([np.full(d, 1 / d), np.full(len(pairs), 1.0)])
    bounds = [(0, None)] * d + [(None, None)] * len(pairs)
    options = {"ftol": 1e-15, "maxiter": 500}
    found = minimize(cost, start, jac=slope, bounds=bounds, constraints=limits, method="SLSQP", options=options)
    return found.x[:d]


@functools.cache
def programs(name: str) -> list[tuple[np.ndarray, float, float, np.ndarray]]:
    """Scores, a price, gamma and the maximiser."""
    rng, found = np.random.default_rng(0), []
    for _ in range(150):
        d, lam, gamma = int(rng.integers(1, 7)), rng.choice([0.0, 0.03, 0.1, 0.3]), rng.choice([0.5, 1.0, 2.0])
        x = rng.normal(size=d)
        found.append((x, lam, gamma, solved(name, x, 0.0 if name == "sparsemax" else lam, gamma)))
    return found


@pytest.mark.parametrize("name", ["sparsemax", "fusedmax", "oscarmax"])
def test_no_point_of_the_simplex_is_better_than_the_map_says_a_quadratic_solver(name):
    for x, lam, gamma, best in programs(name):
        arguments = {} if name == "sparsemax" else {"lam": float(lam)}
        ours = MAPPINGS[name].function(torch.from_numpy(x), gamma=float(gamma), **arguments).numpy()
        np.testing.assert_allclose(ours, best, atol=2e-6, err_msg=f"x={x}, lam={lam}, gamma={gamma}")
        behind = objective(name, x, best, lam, gamma) - objective(name, x, ours, lam, gamma)
        assert behind < 1e-9, f"the solver is better by {behind}"


@pytest.mark.parametrize("p", [1.1, 1.5, 1.9, 2.0])
@pytest.mark.parametrize("gamma", [0.3, 1.0, 3.0])
def test_the_squared_norm_map_fulfils_its_optimality_conditions(p, gamma):
    x = torch.randn(200, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    y = sq_pnorm_max(x, gamma=gamma, p=p)
    norm = torch.linalg.vector_norm(y, p, -1, keepdim=True)
    slope = x - gamma * norm ** (2 - p) * y ** (p - 1)  # of y . x - gamma |y|_p^2 / 2
    level = slope.where(y > 0, -torch.inf).amax(-1, keepdim=True)
    torch.testing.assert_close(slope.where(y > 0, level), level.expand_as(y), atol=1e-9, rtol=0)
    assert (slope <= level + 1e-9).all(), "no weight of 0 would rather be positive"
    torch.testing.assert_close(y.sum(-1), torch.ones(200, dtype=torch.float64))


def test_the_squared_norm_map_with_p_2_is_sparsemax_and_with_p_near_1_the_maximum():
    x = torch.randn(50, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(sq_pnorm_max(x, p=2.0), sparsemax(x), atol=1e-12, rtol=0)
    spread = doubles([3.0, 1.0, 0.0])
    assert sq_pnorm_max(spread, p=1.001)[0] > 0.999


@pytest.mark.parametrize("name", SPARSE)
def test_weights_that_are_changed_in_place_are_noticed(name, form):
    if form == "vectorised":
        pytest.skip("its backward pass does not use the weights")
    x = torch.randn(2, 3, requires_grad=True)
    y = EVERY[name](x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_known_values():
    torch.testing.assert_close(fusedmax(doubles([1.0, 2.1, 1.9]), lam=0.1), doubles([0.0, 0.5, 0.5]))
    torch.testing.assert_close(sparsemax(doubles([1.0, 1.0, 0.2])), doubles([0.5, 0.5, 0.0]))
    torch.testing.assert_close(sparsemax(doubles([0.1, 0.0]), gamma=0.1), doubles([1.0, 0.0]))
    x = doubles([0.317, -0.675, -0.042, 0.010])
    torch.testing.assert_close(oscarmax(x, lam=0.3), doubles([0.2925, 0.1225, 0.2925, 0.2925]), atol=1e-12, rtol=0)


def test_the_published_oscarmax_is_behind_a_feasible_point_and_moves_when_a_constant_is_added():
    x = doubles([0.317, -0.675, -0.042, 0.010])
    literal, ours = (oscarmax(x, lam=0.3, published=flag) for flag in (True, False))
    torch.testing.assert_close(literal, torch.full_like(x, 0.25))
    of_literal, of_ours = (
        -objective("oscarmax", x.numpy(), y.numpy(), 0.3) + float(x @ x) / 2 for y in (literal, ours)
    )
    assert of_literal == pytest.approx(0.9516, abs=2e-4) and of_ours == pytest.approx(0.9407, abs=2e-4)
    assert (oscarmax(x + 5, lam=0.3, published=True) - literal).abs().max() > 0.1
    torch.testing.assert_close(oscarmax(x + 5, lam=0.3, published=True), ours)  # all positive: both agree


@pytest.mark.parametrize("name", EVERY)
@given(SCORES, st.floats(-100, 100, width=32), st.floats(0.2, 3))
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_weights_are_on_the_simplex_and_a_constant_changes_nothing(name, scores, shift, gamma):
    x = doubles([*scores]) if len(scores) > 1 else torch.tensor(scores, dtype=torch.float64)
    y = EVERY[name](x, gamma=gamma)
    assert (y >= 0).all() and abs(y.sum().item() - 1) < 1e-12
    torch.testing.assert_close(EVERY[name](x + shift, gamma=gamma), y, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", EVERY)
@given(st.lists(st.floats(-3, 3, width=32), min_size=2, max_size=8), st.data())
@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mask_equals_a_slice_in_value_and_gradient(name, scores, data):
    keep = data.draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    mask, x = torch.tensor(keep), torch.tensor(scores, dtype=torch.float64, requires_grad=True)
    padded = x.detach().clone()
    padded[~mask] = float("nan")  # whatever stands there never reaches the map
    padded.requires_grad_()
    weight = torch.linspace(1, 2, len(scores), dtype=torch.float64)
    y = EVERY[name](padded, mask)
    (y * weight).sum().backward()
    assert (y[~mask] == 0).all() and (padded.grad[~mask] == 0).all()
    if mask.any():
        sliced = EVERY[name](x[mask])
        (sliced * weight[mask]).sum().backward()
        torch.testing.assert_close(y[mask], sliced, atol=1e-12, rtol=0)
        torch.testing.assert_close(padded.grad[mask], x.grad[mask], atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    "name, mapping",
    [*EVERY.items(), ("published oscarmax", lambda x: oscarmax(x, lam=0.05, published=True)),
     ("strong fusedmax", lambda x: fusedmax(x, lam=0.5)), ("p 1.2", lambda x: sq_pnorm_max(x, gamma=0.5, p=1.2))],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_gradients_agree_with_finite_differences(name, mapping):
    for seed in range(6):
        x = torch.randn(3, 2 + seed, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert gradcheck(mapping, x.requires_grad_(), atol=1e-6, eps=1e-7), name


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "oscarmax", "sq_pnorm_max"])
def test_a_permutation_of_the_scores_permutes_the_weights(name):
    x = torch.randn(40, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    order = torch.randperm(8, generator=torch.Generator().manual_seed(4))
    torch.testing.assert_close(EVERY[name](x[:, order]), EVERY[name](x)[:, order], atol=1e-12, rtol=0)


def test_fusedmax_reversed_is_fusedmax_of_the_reverse_and_no_other_order():
    x = torch.randn(40, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(fusedmax(x.flip(-1), lam=0.3), fusedmax(x, lam=0.3).flip(-1), atol=1e-12, rtol=0)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(4))
    assert (fusedmax(x[:, order], lam=0.3) - fusedmax(x, lam=0.3)[:, order]).abs().max() > 0.05


@pytest.mark.parametrize("name", ["fusedmax", "oscarmax"])
def test_without_a_price_it_is_sparsemax_and_with_a_huge_one_uniform(name):
    x = torch.randn(30, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    mapping = MAPPINGS[name].function
    torch.testing.assert_close(mapping(x, lam=0.0), sparsemax(x), atol=0, rtol=0)
    torch.testing.assert_close(mapping(x, lam=1e6), torch.full_like(x, 1 / 9), atol=1e-9, rtol=0)


def test_equal_weights_are_equal_to_the_last_digit():
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(200, 12, dtype=dtype, generator=torch.Generator().manual_seed(6))
        runs = (fusedmax(x, lam=0.3).diff() == 0).float().mean()
        assert runs > 0.6, "most neighbours are fused"
        y = oscarmax(x, lam=0.1)
        positive = y[y > 0]
        assert len(positive.unique()) < 0.7 * len(positive), "many weights are shared"


@pytest.mark.parametrize("scale", [0.01, 0.3, 3.0])
def test_fusedmax_is_uniform_without_gradient_exactly_where_the_criterion_says(scale):
    x = scale * torch.randn(300, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    mask = torch.rand(300, 8, generator=torch.Generator().manual_seed(8)) < 0.8
    mask[:, 0] = True
    x.requires_grad_()
    y = fusedmax(x, mask, lam=0.1)
    (y * torch.randn(300, 8, dtype=torch.float64)).sum().backward()
    flat = ((y - 1 / mask.sum(-1, keepdim=True).double()).abs().where(mask, 0.0) < 1e-12).all(-1)
    criterion = in_dead_zone(x.detach(), mask, lam=0.1)
    assert (flat == criterion).all(), "uniform iff the criterion says so"
    assert (x.grad[criterion].abs() < 1e-12).all(), "no gradient there"
    assert criterion.all() or scale > 0.01, "fresh scores are all dead"


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("scale", [0.02, 1.0, 10.0])
@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
def test_a_row_is_settled_where_its_jacobian_is_zero(name, scale, ties):
    torch.manual_seed(0)
    x = scale * torch.randn(300, 7, dtype=torch.float64)
    x = (x.div(scale).round().mul(scale) if ties else x).requires_grad_()
    lengths = 1 + torch.arange(300) % 7
    y = EVERY[name](x, torch.arange(7) < lengths.unsqueeze(1))
    (slope,) = torch.autograd.grad((y * torch.randn_like(y)).sum(), x)
    noise = 0.0 if name == "softmax" else 1e-12  # softmax is nearly decided long before it is
    flat, found = slope.abs().amax(-1) <= noise, has_zero_jacobian(y.detach(), name, PRICES.get(name, 0.0))
    assert torch.equal(found, flat), f"{(found != flat).sum()} of 300 rows, such as {y[found != flat][:3].tolist()}"
    assert found[lengths == 1].all(), "a row of one score has nothing to decide"
    some = found[lengths > 1].double().mean()
    if name == "softmax":
        assert some == 0, "softmax never settles"
    elif scale == 10.0:
        assert 0.3 < some < 1 + ties, "scores far apart decide most rows; without ties, not all"


def test_two_groups_of_fusedmax_with_the_same_weight_are_taken_for_one_at_a_kink():
    """The mapping has no Jacobian there: the scores have one slope if the groups part, and none if they fuse."""
    x = torch.tensor([-0.3, 0.3, 0, 0, 0.3, -0.45, -0.15, -0.3], requires_grad=True)
    y = fusedmax(x, lam=0.1)
    assert y.tolist() == [0, 0.25, 0.25, 0.25, 0.25, 0, 0, 0]
    assert has_zero_jacobian(y.detach(), "fusedmax", lam=0.1)
    (slope,) = torch.autograd.grad(y[1], x)
    assert slope.abs().max() > 0.5, "autograd keeps the groups apart"
    fused = x.detach().clone()
    fused[1] -= 0.01  # the first of the four words can no longer part from its neighbour
    fused.requires_grad_()
    y = fusedmax(fused, lam=0.1)
    assert has_zero_jacobian(y.detach(), "fusedmax", lam=0.1).item() == (torch.autograd.grad(y[1], fused)[0] == 0).all()


def test_without_a_price_equal_weights_are_no_group_and_nothing_is_dead():
    x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    for name, mapping in {"fusedmax": fusedmax, "oscarmax": oscarmax}.items():
        y = mapping(x, lam=0.0)
        (slope,) = torch.autograd.grad(y[:, 0].sum(), x)
        assert slope.abs().max() > 0.3 and not has_zero_jacobian(y, name, lam=0.0).any(), name
    assert not in_dead_zone(x, lam=0.0).any() and in_dead_zone(x, lam=1e-9).all()


def test_equal_weights_that_are_no_neighbours_are_two_groups_of_fusedmax_and_one_of_oscarmax():
    apart = torch.tensor([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert has_zero_jacobian(apart, "fusedmax", lam=0.1).tolist() == [False, True, False, True]
    assert has_zero_jacobian(apart, "oscarmax", lam=0.1).tolist() == [True, True, False, True]
    assert has_zero_jacobian(apart, "sparsemax").tolist() == [False, False, False, True]


def test_the_dead_zone_of_large_scores_is_that_of_the_map():
    x = (1e4 + 0.05 * torch.randn(2000, 8, generator=torch.Generator().manual_seed(1))).float()
    uniform = (fusedmax(x.double(), lam=0.1) - 1 / 8).abs().amax(-1) < 1e-12
    assert torch.equal(in_dead_zone(x, lam=0.1), uniform) and 0.1 < uniform.double().mean() < 0.9
    assert in_dead_zone(torch.zeros(2, 0)).shape == (2,)
    with pytest.raises(ValueError, match="got nan"):
        in_dead_zone(torch.tensor([0.0, torch.nan]))


@pytest.mark.parametrize("name", EVERY)
def test_what_is_no_row_of_numbers_or_no_mask_is_refused(name):
    mapping = EVERY[name]
    with pytest.raises(ValueError, match="scores: got torch.int64"):
        mapping(torch.tensor([1, 2, 3]))
    with pytest.raises(ValueError, match="rows of floating-point numbers"):
        mapping(torch.tensor(1.0))
    with pytest.raises(ValueError, match="mask: got -1, accepted is a tensor; give a dimension as dim="):
        mapping(torch.zeros(2, 3), -1)
    for dtype in (torch.uint8, torch.int64):
        with pytest.raises(ValueError, match=f"mask: got {dtype}"):
            mapping(torch.zeros(2, 3), torch.ones(2, 3, dtype=dtype))


@pytest.mark.parametrize("mapping", [fusedmax, oscarmax, PUBLISHED], ids=["fusedmax", "oscarmax", "published"])
def test_a_huge_price_makes_rows_uniform_and_an_infinite_one_is_refused(mapping):
    for lam in (1e12, 1e150, 1e300):
        y = mapping(doubles([[0.3, 2.0, 1.9, 0.1], [1e4, 0.0, -1e4, 5.0]]), lam=lam)
        assert torch.isfinite(y).all() and (y - 0.25).abs().max() < 1e-12, f"lam {lam}: {y.tolist()}"
    for lam in (1e308, torch.inf, torch.nan, -1.0):
        with pytest.raises(ValueError, match="lam: got .* accepted is a number in"):
            mapping(doubles([0.3, 2.0]), lam=lam)


@pytest.mark.gpu
@pytest.mark.parametrize("name", EVERY)
def test_a_gpu_gives_what_the_cpu_gives(name):
    torch.manual_seed(0)
    mask, direction = torch.arange(9) < torch.tensor([[9], [4], [1], [0]]), torch.randn(4, 9)
    found = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(1)
        x = torch.randn(4, 9).to(device).requires_grad_()
        y = EVERY[name](x, mask.to(device))
        y.backward(direction.to(device))
        assert y.device == x.grad.device == x.device
        found.append((y.detach().cpu(), x.grad.cpu()))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("name", EVERY)
def test_edge_rows_are_defined(name):
    mapping = EVERY[name]
    assert mapping(doubles([3.0])).tolist() == [1.0], "one score"
    for value in (1e4, -1e4):
        x = torch.tensor([value, 0.0, 1.0, value], dtype=torch.float32)
        assert torch.isfinite(mapping(x)).all() and mapping(x).sum() == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(mapping(doubles([2.0, 2.0, 2.0, 2.0])), torch.full((4,), 0.25, dtype=torch.float64))
    x = torch.ones(2, 3, requires_grad=True)
    nothing = mapping(x, torch.zeros(2, 3, dtype=torch.bool))
    nothing.sum().backward()
    assert (nothing == 0).all() and (x.grad == 0).all(), "nothing is there"
    mask = torch.tensor([[True, True, False], [False, False, False]])
    for gamma in (1e-300, 1e-6, 0.4, 3.0, 1e308):
        y = mapping(doubles([[0.2, 0.1, 9.0]] * 2), mask, gamma=gamma)
        assert torch.isfinite(y).all() and y[0].sum().item() == pytest.approx(1), f"gamma {gamma}"
        assert (y[1] == 0).all() and y[0, 2] == 0, f"gamma {gamma}: nothing is there"
    for shape in ((2, 0, 3), (2, 0), (0,)):
        assert mapping(torch.ones(shape)).shape == shape, "no rows, or rows of nothing"


@pytest.mark.parametrize("name", EVERY)
def test_large_scores_lose_no_digits(name):
    x = doubles([0.5, 0.25, 0.0, -1.0])
    for shift in (2.0**30, -(2.0**40)):  # the differences are exact there
        torch.testing.assert_close(EVERY[name](x + shift), EVERY[name](x), atol=1e-12, rtol=0)
    for top in (1e17, 1e30, 1e300):
        y = EVERY[name](doubles([top, top, -top]))
        torch.testing.assert_close(y, doubles([0.5, 0.5, 0.0]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", EVERY)
def test_a_row_of_minus_infinity_alone_has_no_weight_and_no_gradient(name):
    x = torch.tensor([[-torch.inf] * 3, [0.3, -torch.inf, 0.1]], requires_grad=True)
    added = torch.tensor([[-torch.inf] * 3, [0.0, -torch.inf, 0.0]])
    masked = [(x.detach().nan_to_num(neginf=2.0).requires_grad_(), added)]
    for scores, mask in masked if name == "softmax" else [(x, None), *masked]:  # without a mask it is torch's
        y = EVERY[name](scores, mask)
        (slopes,) = torch.autograd.grad(y, scores, torch.tensor([1.0, 2.0, 3.0]).expand(2, 3))
        assert y[0].tolist() == [0.0] * 3 and y[1, 1] == 0 and y[1].sum().item() == pytest.approx(1)
        assert slopes[0].tolist() == [0.0] * 3 and torch.isfinite(slopes).all()


@pytest.mark.parametrize("name", EVERY)
def test_a_gamma_that_single_precision_cannot_hold_is_nearly_the_maximum(name):
    x = torch.tensor([[0.5, 0.25, 0.0], [1.0, 1.0, -1.0]])
    for dtype in (torch.float32, torch.float64):
        gamma = torch.full((2, 1), 1e-50 if dtype == torch.float64 else 1e-44, dtype=dtype, requires_grad=True)
        y = EVERY[name](x, gamma=gamma)
        torch.testing.assert_close(y, torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]]))
        assert torch.isfinite(torch.autograd.grad(y[:, 0].sum(), gamma)[0]).all()


@pytest.mark.parametrize("far", [-1e17, -3.4e38, -1e300])
@pytest.mark.parametrize("length", [3, 131, 160])
def test_scores_far_below_the_largest_change_no_weight_of_the_published_oscarmax(far, length):
    for top in (1.0, -1.0, 0.0):
        near = top - doubles([0.6, 0.0, 0.05])
        for begin in (0, length - 3):
            x = torch.full((length,), far, dtype=torch.float64)
            x[begin : begin + 3] = near
            y = PUBLISHED(x)
            torch.testing.assert_close(y[begin : begin + 3], PUBLISHED(near), atol=1e-12, rtol=0)
            assert y.sum().item() == pytest.approx(1)


def exact_published_oscarmax(x: list[float], lam: float) -> list[float]:
    """In rational numbers, and by the min-max formula of the nearest sequence that does not increase."""
    n, order = len(x), sorted(range(len(x)), key=lambda i: -abs(x[i]))
    priced = [abs(Fraction(x[i])) - Fraction(lam) * (n - 1 - k) for k, i in enumerate(order)]
    z = [Fraction(0)] * n
    for k, i in enumerate(order):
        level = min(max(sum(priced[j : m + 1]) / (m + 1 - j) for m in range(k, n)) for j in range(k + 1))
        z[i] = max(level, Fraction(0)) * (1 if x[i] > 0 else -1 if x[i] < 0 else 0)
    ranked = sorted(z, reverse=True)
    tau = max((sum(ranked[:k]) - 1) / k for k in range(1, n + 1))
    return [float(max(value - tau, 0)) for value in z]


def test_the_published_oscarmax_is_that_in_exact_rationals_for_scores_of_all_sizes():
    rng = np.random.default_rng(0)
    for trial in range(200):
        n, lam = int(rng.integers(1, 9)), float(rng.choice([0.0, 0.01, 0.1, 0.5]))
        x = rng.normal(size=n).round(1) * rng.choice([1.0, 1.0, 1e3, 1e17, 3e38, 1e300][: 2 + trial % 5], size=n)
        ours = oscarmax(torch.from_numpy(x), lam=lam, published=True).tolist()
        assert ours == pytest.approx(exact_published_oscarmax(x.tolist(), lam), abs=1e-9), f"x={x.tolist()}, lam={lam}"


def test_without_a_price_oscarmax_is_sparsemax_at_ties_too():
    x, v = doubles([1.0, 1.0, 0.5]).requires_grad_(), doubles([1.0, 0.0, 0.0])
    for mapping in (lambda s: oscarmax(s, lam=0), lambda s: fusedmax(s, lam=0), EVERY["sparsemax"]):
        (of_scores,) = torch.autograd.grad(mapping(x), x, v)
        torch.testing.assert_close(of_scores, doubles([0.5, -0.5, 0.0]), atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_of_nan_and_inf_are_refused_or_give_nan_unless_they_are_masked(name, bad, form):
    x = torch.tensor([[0.0, 1.0, 0.5], [0.5, bad, 0.2]])
    if form == "fast" and name != "softmax":
        with pytest.raises(ValueError, match=f"got {bad}, accepted are finite numbers and -inf"):
            EVERY[name](x)
    else:  # an error would make a GPU wait; softmax is torch's
        assert EVERY[name](x)[1].isnan().all() and torch.isfinite(EVERY[name](x)[0]).all()
    assert EVERY[name](x, torch.tensor([[True] * 3, [True, False, False]]))[1].tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda x: sparsemax(x, gamma=0.0), "gamma: got 0.0"),
        (lambda x: sparsemax(x, gamma=torch.inf), r"gamma: got inf, accepted is a number in \(0, inf\)"),
        (lambda x: softmax(x, gamma=torch.nan), "gamma: got nan"),
        (lambda x: softmax(x, gamma=torch.tensor(torch.inf)), r"gamma: got inf, accepted are numbers in \(0, inf\)"),
        (lambda x: fusedmax(x, lam=-0.1), "lam: got -0.1"),
        (lambda x: sq_pnorm_max(x, p=1.0), "p: got 1.0"),
        (lambda x: sq_pnorm_max(x, p=2.5), "p: got 2.5"),
        (lambda x: softmax(x, torch.ones(2, dtype=torch.bool)), "shapes differ"),
        (lambda x: sparsemax(x, torch.ones(1, 2, 3, dtype=torch.bool)), "shapes differ"),
        (lambda x: sparsemax(x, gamma=torch.tensor([1.0, -2.0, 1.0])), "gamma: got -2.0"),
        (lambda x: sparsemax(x, gamma=torch.ones(2)), "shapes differ: .* gamma"),
        (lambda x: sparsemax(x, dim=2), "dim: got 2"),
        (lambda x: entmax(x, alpha=0.9), "alpha: got 0.9"),
        (lambda x: entmax(x, alpha=torch.tensor(0.5)), "alpha: got 0.5"),
        (lambda x: entmax(x, alpha=20), r"alpha: got 20, accepted is a number in \[1, 4\]"),
        (lambda x: entmax(x, alpha=torch.tensor(4.5)), r"alpha: got 4.5, accepted are numbers in \[1, 4\]"),
        (lambda x: entmax(x, alpha=torch.full((3,), 1.5)), "alpha: got shape .* one number per row"),
    ],
)
def test_wrong_arguments_say_what_is_accepted(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.zeros(2, 3))


@pytest.mark.parametrize("name", EVERY)
def test_single_precision_is_right_and_half_precision_is_kept(name):
    x = torch.randn(64, 20, generator=torch.Generator().manual_seed(9))
    exact = EVERY[name](x.double())
    assert EVERY[name](x).dtype == torch.float32
    torch.testing.assert_close(EVERY[name](x).double(), exact, atol=1e-6, rtol=0)
    assert EVERY[name](x.bfloat16()).dtype == torch.bfloat16


def test_the_jacobian_obeys_proposition_1_of_the_paper():
    """(I + A (B - I)) J = A with A the Jacobian of the projection at y - gamma grad Omega + x, B = gamma Hessian."""
    p, gamma = 1.5, 0.7
    for seed in range(20):
        x = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        y = sq_pnorm_max(x, gamma=gamma, p=p)
        inside = y[y > 0]
        jacobian = torch.autograd.functional.jacobian(lambda v: sq_pnorm_max(v, gamma=gamma, p=p), x)[y > 0][:, y > 0]
        hessian = torch.autograd.functional.hessian(lambda v: gamma * torch.linalg.vector_norm(v, p) ** 2 / 2, inside)
        n = len(inside)
        a = torch.eye(n, dtype=torch.float64) - 1 / n
        left = torch.eye(n, dtype=torch.float64) + a @ (hessian - torch.eye(n, dtype=torch.float64))
        torch.testing.assert_close(left @ jacobian, a, atol=1e-8, rtol=0)
