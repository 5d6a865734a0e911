"""How mappings are used: derivatives of all kinds, vmap, export, masks, dimensions, dtypes, devices, modules.

Wherever both forms of a mapping exist, both are tested.
"""

import functools

import numpy as np
import pytest
import torch
from torch.autograd import gradgradcheck
from torch.func import grad, hessian, jacfwd, jacrev, vmap

from rationale import nn
from rationale.nn import MAPPINGS, entmax, entmax15, fusedmax, oscarmax, softmax, sparsemax, sq_pnorm_max
from rationale.nn.mappings import rows, vectorised

PRICED = {"fusedmax": functools.partial(fusedmax, lam=0.15), "oscarmax": functools.partial(oscarmax, lam=0.08)}
EVERY = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15, **PRICED, "sq_pnorm_max": sq_pnorm_max}
CURVED = ("softmax", "entmax15", "sq_pnorm_max")  # the others are piecewise linear
VARIANTS = EVERY | {
    "published oscarmax": functools.partial(oscarmax, lam=0.08, published=True),
    "strong fusedmax": functools.partial(fusedmax, lam=0.6),
    "strong oscarmax": functools.partial(oscarmax, lam=0.3),
    "entmax 1.1": functools.partial(entmax, alpha=1.1),
    "p 1.2": functools.partial(sq_pnorm_max, p=1.2),
}


@pytest.fixture(params=["fast", "vectorised"])
def form(request, monkeypatch) -> str:
    if request.param == "vectorised":
        monkeypatch.setattr(rows, "has_fast_form", lambda scores: False)
    return request.param


def scores_of(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------------------- both forms
@pytest.mark.parametrize("name", VARIANTS)
def test_both_forms_give_the_same_weights_and_gradients(name, monkeypatch):
    for size, scale in ((1, 1.0), (2, 0.1), (9, 1.0), (40, 0.3), (150, 3.0)):
        x, mask, v = scale * scores_of(30, size), scores_of(30, size, seed=1) > -0.8, scores_of(30, size, seed=2)
        x[:, ::7] = -torch.inf
        for gamma in (1.0, 0.2, 5.0):
            found = []
            for choose in (rows.has_fast_form, lambda scores: False):
                monkeypatch.setattr(rows, "has_fast_form", choose)
                x = x.detach().requires_grad_()
                y = VARIANTS[name](x, mask, gamma)
                found.append((y.detach(), *torch.autograd.grad(y, x, v)))
                monkeypatch.undo()
            for what, one, other in zip(("weights", "gradients"), *found, strict=True):
                off = (one - other).abs().max().item()
                assert off < 1e-9, f"{what} of rows of {size} at scale {scale}, gamma {gamma}: off by {off}"


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("step", [0.002, 0.05, 0.5], ids="steps of {}".format)
def test_both_forms_give_the_same_weights_of_long_rows_with_ties(name, step, monkeypatch):
    x, mask = (step * scores_of(20, 300).mul(4).round()), scores_of(20, 300, seed=1) > -0.8
    x[1, 5:290], x[2], mask[3] = -torch.inf, 0.0, torch.arange(300) == 7
    for keep in (None, mask):
        fast = VARIANTS[name](x, keep)
        monkeypatch.setattr(rows, "has_fast_form", lambda scores: False)
        torch.testing.assert_close(fast, VARIANTS[name](x, keep), atol=1e-9, rtol=0)
        monkeypatch.undo()
        torch.testing.assert_close(fast.sum(-1), torch.ones(20, dtype=torch.float64), atol=1e-9, rtol=0)


def test_equal_scores_at_the_end_of_the_support_belong_to_it_together_or_not_at_all():
    """Rounding decides for each of them whether its weight is 0, so those that are counted may be a part of them."""
    x = (0.1 * scores_of(400, 300, seed=2)).mul(20).round() / 20
    torch.testing.assert_close(vectorised.sparsemax(x, None, 1.0), sparsemax(x), atol=1e-12, rtol=0)


def test_the_compiled_gradient_of_the_squared_norm_map_is_the_readable_one():
    v = scores_of(40, 200, seed=1)
    for p in (1.1, 1.5, 2.0):
        x = scores_of(40, 200).requires_grad_()
        y = sq_pnorm_max(x, gamma=0.7, p=p)
        compiled, readable = (torch.autograd.grad(y, x, v, True, graph)[0] for graph in (False, True))
        assert readable.requires_grad and not compiled.requires_grad
        torch.testing.assert_close(compiled, readable.detach(), atol=1e-12, rtol=0)


def test_breaks_are_found_for_rows_that_break_one_place_at_a_time():
    """A staircase whose steps grow: each split is at the end of what is left."""
    stairs = -torch.tensor([2.0**k for k in range(40)], dtype=torch.float64).cumsum(0)
    x = stairs / stairs.abs().max() * 50
    for lam in (1e-3, 0.1, 1.0):
        ours = vectorised.fusedmax(x, None, 10.0, lam)
        torch.testing.assert_close(ours, fusedmax(x, gamma=10.0, lam=lam), atol=1e-12, rtol=0)


def test_the_vectorised_projection_is_that_in_exact_rationals():
    from fractions import Fraction

    for x in scores_of(50, 6):
        exact = sorted((Fraction(value) for value in x.tolist()), reverse=True)
        taus = [(sum(exact[:k]) - 1) / k for k in range(1, 7)]
        tau = next(taus[k - 1] for k in range(6, 0, -1) if exact[k - 1] > taus[k - 1])
        wanted = [float(max(Fraction(value) - tau, 0)) for value in x.tolist()]
        np.testing.assert_allclose(vectorised.sparsemax(x, None, 1.0), wanted, atol=1e-15)


# ------------------------------------------------------------------------------------------------------- derivatives
@pytest.mark.parametrize("name", EVERY)
def test_second_derivatives_agree_with_differences(name, form):
    mapping, weight = EVERY[name], scores_of(7, seed=3)
    for seed in range(3):
        x = scores_of(7, seed=seed).requires_grad_()
        assert gradgradcheck(mapping, x, atol=1e-5), name

        def loss(scores):
            return (mapping(scores) * weight).sum()

        slope, step = grad(loss), 1e-5
        x = x.detach()
        wanted = torch.stack([(slope(x + step * e) - slope(x - step * e)) / (2 * step) for e in torch.eye(7).double()])
        curve = hessian(loss)(x)
        torch.testing.assert_close(curve, wanted, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(torch.autograd.functional.hessian(loss, x), curve)
        assert (curve.abs().max() > 1e-2) == (name in CURVED) or (mapping(x) > 0).sum() == 1, "piecewise linear: 0"


@pytest.mark.parametrize("name", EVERY)
def test_the_functions_of_torch_func_agree_with_each_other_and_with_loops(name, form):
    mapping, x, mask, weight = EVERY[name], scores_of(4, 6), scores_of(4, 6, seed=1) > -0.7, scores_of(6, seed=2)
    torch.testing.assert_close(jacfwd(mapping)(x[0]), jacrev(mapping)(x[0]))
    torch.testing.assert_close(vmap(mapping)(x, mask), mapping(x, mask))
    torch.testing.assert_close(vmap(mapping, in_dims=1)(x.T.contiguous()), mapping(x))
    torch.testing.assert_close(vmap(mapping, in_dims=(None, 0))(x[0], mask), mapping(x[:1].expand(4, 6), mask))
    torch.testing.assert_close(vmap(vmap(mapping))(x.view(2, 2, 6)).view(4, 6), mapping(x))

    def loss(scores, keep):
        return (mapping(scores, keep) * weight).sum()

    alone = torch.stack([grad(loss)(*row) for row in zip(x, mask, strict=True)])
    torch.testing.assert_close(vmap(grad(loss))(x, mask), alone)


@pytest.mark.parametrize("name", EVERY)
def test_a_tensor_gamma_gives_the_same_and_gets_a_gradient(name, form):
    mapping, x, mask = EVERY[name], scores_of(2, 3, 5), scores_of(2, 3, 5, seed=1) > -0.7
    for gamma in (torch.tensor(0.4), torch.tensor(2.0, dtype=torch.float64)):
        torch.testing.assert_close(mapping(x, mask, gamma), mapping(x, mask, gamma.item()), atol=1e-7, rtol=0)
    of_rows = torch.tensor([[0.5], [1.0], [3.0]], dtype=torch.float64)
    y = mapping(x, mask, of_rows)
    for k, gamma in enumerate(of_rows.flatten().tolist()):
        torch.testing.assert_close(y[:, k], mapping(x[:, k], mask[:, k], gamma), atol=1e-12, rtol=0)
    assert torch.autograd.gradcheck(lambda s, g: mapping(s, mask, g), (x.requires_grad_(), of_rows.requires_grad_()))
    along = mapping(x.mT, mask.mT, of_rows.mT, dim=-2)
    torch.testing.assert_close(along.mT, y)


@pytest.mark.parametrize("name", EVERY)
def test_a_gamma_that_differs_within_a_row_is_refused(name, form):
    """It is the strength of the regularisation of a row. Scores [1, 2] with gamma [1, 2] gave softmax [0.27, 0.73]."""
    scores = torch.tensor([[1.0, 2.0], [0.5, 0.1]])
    in_a_row = torch.tensor([1.0, 2.0])
    for gamma, dim in ((in_a_row, -1), (in_a_row.unsqueeze(1), 0), (torch.ones(2, 2), 1)):
        with pytest.raises(ValueError, match=r"gamma: got shape .*, accepted is one number per row of \(2, 2\)"):
            EVERY[name](scores, gamma=gamma, dim=dim)
    for gamma, dim in ((in_a_row.unsqueeze(1), -1), (in_a_row, 0)):
        weights = EVERY[name](scores, gamma=gamma, dim=dim)
        torch.testing.assert_close(weights.sum(dim), torch.ones(2))


# ----------------------------------------------------------------------------------------------- masks and dimensions
@pytest.mark.parametrize("name", EVERY)
def test_masks_broadcast_and_may_be_added(name, form):
    mapping, x = EVERY[name], scores_of(2, 3, 4, 6)
    for shape in ((2, 1, 1, 6), (6,), (1, 4, 6), (2, 3, 4, 6), (1,)):
        mask = scores_of(*shape, seed=1) > -0.7
        wanted = mapping(x, mask.expand_as(x).contiguous())
        torch.testing.assert_close(mapping(x, mask), wanted)
        added = torch.zeros(shape).masked_fill(~mask, -torch.inf)  # as torch's attention has it
        torch.testing.assert_close(mapping(x, added), wanted)
        torch.testing.assert_close(mapping(x.masked_fill(~mask, -torch.inf)).nan_to_num(), wanted)
    bias = scores_of(4, 6, seed=2)
    torch.testing.assert_close(mapping(x, bias), mapping(x + bias))


@pytest.mark.parametrize("name", EVERY)
def test_scores_of_minus_infinity_are_masked_and_have_gradient_0(name, form):
    mapping, v = EVERY[name], scores_of(3, 5, seed=1)
    keep = torch.tensor([[True, False, True, True, False], [True] * 5, [False] * 5])
    found = []
    for x, mask in ((scores_of(3, 5).masked_fill(~keep, -torch.inf), keep | True), (scores_of(3, 5), keep)):
        x.requires_grad_()
        y = mapping(x, mask)
        found.append((y.detach(), *torch.autograd.grad(y, x, v)))
    torch.testing.assert_close(found[0], found[1])
    weights, slopes = found[0]
    assert (weights[~keep] == 0).all() and (slopes[~keep] == 0).all()


@pytest.mark.parametrize("name", EVERY)
def test_any_dimension_is_the_last_one_moved(name, form):
    mapping, x, mask = EVERY[name], scores_of(2, 5, 3), scores_of(2, 5, 3, seed=1) > -0.7
    for dim in (-3, -2, -1, 0, 1, 2):
        moved = mapping(x.movedim(dim, -1), mask.movedim(dim, -1)).movedim(-1, dim)
        torch.testing.assert_close(mapping(x, mask, dim=dim), moved)
        module = MAPPINGS[name](dim=dim, **getattr(mapping, "keywords", {}))
        torch.testing.assert_close(module(x, mask), moved)


def test_each_mapping_has_a_function_and_a_module_of_its_name():
    for name, mapping in MAPPINGS.items():
        module = getattr(nn, "".join(part.title() for part in name.split("_")))
        assert module is mapping and mapping.function is getattr(nn, name)
        assert not list(mapping().parameters()) and not mapping().state_dict()
    assert repr(nn.Fusedmax(dim=1, lam=0.3)) == "Fusedmax(dim=1, lam=0.3)"
    with pytest.raises(TypeError, match="Sparsemax has no argument lam; accepted are dim, gamma"):
        nn.Sparsemax(lam=0.1)


def test_a_mapping_of_ones_own_is_one_class():
    class Uniform(nn.Mapping):
        name = "uniform"

        @staticmethod
        def function(scores, mask=None, gamma=1.0, dim=-1):
            return torch.full_like(scores, 1 / scores.shape[dim])

    try:
        assert MAPPINGS["uniform"]()(torch.zeros(2, 4)).tolist() == [[0.25] * 4] * 2
    finally:
        del MAPPINGS["uniform"]


# ---------------------------------------------------------------------------------------------------- dtypes, devices
@pytest.mark.parametrize("name", EVERY)
def test_half_precision_keeps_small_differences_at_small_gamma(name, form):
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        for gamma in (1e-3, torch.tensor(1e-3, dtype=dtype)):
            y = EVERY[name](torch.tensor([70.0, 80.0], dtype=dtype), gamma=gamma)
            assert y.dtype == dtype and y.tolist() == [0.0, 1.0], f"{dtype}: {y.tolist()}"
        for gamma in (1e-300, 1e300):
            y = EVERY[name](torch.tensor([0.5, 0.25], dtype=dtype), gamma=gamma)
            assert torch.isfinite(y).all() and y.sum() == 1, f"{dtype}, gamma {gamma}: {y.tolist()}"


@pytest.mark.parametrize("name", EVERY)
def test_on_the_meta_device_there_are_shapes_and_gradients(name):
    x = torch.empty(2, 4, 5, device="meta", requires_grad=True)
    for mask in (None, torch.empty(5, device="meta", dtype=torch.bool)):
        y = EVERY[name](x, mask, dim=1)
        (slope,) = torch.autograd.grad(y.sum(), x)
        assert y.is_meta and slope.is_meta and y.shape == slope.shape == x.shape and y.dtype == x.dtype


class Attend(torch.nn.Module):
    def __init__(self, name: str):
        super().__init__()
        self.mapping = MAPPINGS[name](gamma=0.7)

    def forward(self, scores, mask):
        return self.mapping(scores, mask)


@pytest.mark.parametrize("name", EVERY)
def test_export_keeps_the_values_for_rows_of_any_number_and_length(name):
    x, mask = scores_of(4, 6).float(), scores_of(4, 6, seed=1) > -0.7
    rows_and_length = {0: torch.export.Dim("rows"), 1: torch.export.Dim("length")}
    module = Attend(name)
    program = torch.export.export(module, (x, mask), dynamic_shapes=(rows_and_length,) * 2).module()
    wide, keep = scores_of(3, 11, seed=2).float(), scores_of(3, 11, seed=3) > -0.7
    for scores, there in ((x, mask), (wide, keep)):
        torch.testing.assert_close(program(scores, there), module(scores, there), atol=1e-6, rtol=0)


@pytest.mark.deep
@pytest.mark.parametrize("name", EVERY)
def test_compiled_in_one_graph_values_and_gradients_stay(name):
    torch._dynamo.reset()  # which compiles one function at most eight times per process
    x, mask, v = scores_of(4, 6), scores_of(4, 6, seed=1) > -0.7, scores_of(4, 6, seed=2)
    compiled = torch.compile(Attend(name), backend="aot_eager", fullgraph=True)
    found = []
    for module in (compiled, Attend(name)):
        y = module(x.requires_grad_(), mask)
        found.append((y.detach(), *torch.autograd.grad(y, x, v)))
    torch.testing.assert_close(found[0], found[1])


def test_without_numba_the_vectorised_form_is_used(monkeypatch):
    x = scores_of(3, 5)
    wanted = {name: mapping(x) for name, mapping in EVERY.items()}
    monkeypatch.setattr(rows, "_has_numba", lambda: False)
    monkeypatch.setitem(__import__("sys").modules, "rationale.nn.mappings.fast_rows", None)  # an import would fail
    for name, mapping in EVERY.items():
        torch.testing.assert_close(mapping(x), wanted[name], atol=1e-12, rtol=0)
