"""Gates: every test-time rule on distributions made by hand, and gates that stay finite whatever they read."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch.distributions import Distribution

from rationale.distributions import HardConcrete, HardKuma
from rationale.gates import GATES, RULES, HardConcreteGate, HardKumaGate, decide

BASE_MEAN, CONDITIONAL_MEAN, MEAN = 0.3, 0.6, 0.45  # all different, to tell from the result what was used


def made(*masses: tuple[float, float, float]) -> SimpleNamespace:
    """Gates with the given P(0), P(0 < H < 1), P(1)."""
    zero, interior, one = (torch.tensor(column) for column in zip(*masses, strict=True))
    return SimpleNamespace(
        prob_zero=zero, prob_interior=interior, prob_one=one,
        log_prob_nonzero=(interior + one).log(),
        base=SimpleNamespace(mean=torch.full_like(zero, BASE_MEAN)),
        conditional_mean=torch.full_like(zero, CONDITIONAL_MEAN), mean=torch.full_like(zero, MEAN),
        sample=lambda: torch.full_like(zero, 0.123),
    )  # fmt: skip


MASSES = [  # P(0), P(0 < H < 1), P(1)  ->  0, 1 or the interval
    ((0.50, 0.30, 0.20), 0.0),
    ((0.45, 0.35, 0.20), 0.0),  # more likely open than shut, yet 0: spec A.4
    ((0.20, 0.30, 0.50), 1.0),
    ((0.13, 0.73, 0.14), "inside"),
    ((0.25, 0.50, 0.25), "inside"),
    ((0.50, 0.00, 0.50), 1.0),  # the masses tie: 1
    ((0.40, 0.20, 0.40), 1.0),
    ((0.375, 0.375, 0.25), 0.0),  # the interval ties with 0: not strictly likelier, so 0
    ((0.25, 0.375, 0.375), 1.0),  # the interval ties with 1
    ((0.25, 0.25, 0.25), 1.0),  # all tie
    ((1.0, 0.0, 0.0), 0.0),
    ((0.0, 1.0, 0.0), "inside"),
    ((0.0, 0.0, 1.0), 1.0),
]


@pytest.mark.parametrize(("masses", "expected"), MASSES)
def test_argmax_takes_the_likeliest_and_ties_as_the_authors_do(masses, expected):
    expected = BASE_MEAN if expected == "inside" else expected
    assert decide(made(masses)).item() == pytest.approx(expected), f"P(0), P(interior), P(1) = {masses}"


@pytest.mark.parametrize(("masses", "expected"), MASSES)
def test_argmax_conditional_chooses_alike_and_takes_the_mean_of_the_interval(masses, expected):
    expected = CONDITIONAL_MEAN if expected == "inside" else expected
    assert decide(made(masses), "argmax_conditional").item() == pytest.approx(expected), masses


def test_expected_is_the_mean_of_the_rectified_gate():
    assert decide(made(*(masses for masses, _ in MASSES)), "expected").eq(MEAN).all()


@pytest.mark.parametrize(("zero", "expected"), [(0.5 + 1e-6, 0.0), (0.5, 1.0), (0.5 - 1e-6, 1.0), (1.0, 0.0)])
def test_threshold_is_one_where_the_gate_is_open_with_probability_one_half(zero, expected):
    assert decide(made((zero, 0.25, 0.75 - zero)), "threshold").item() == expected, f"P(0) = {zero}"


def test_sample_draws_once():
    assert decide(made((0.5, 0.3, 0.2)), "sample").item() == pytest.approx(0.123)


def test_an_unknown_rule_is_refused_with_the_rules_there_are():
    with pytest.raises(ValueError, match=r"rule: got 'median', accepted are argmax, .*sample"):
        decide(made((0.5, 0.3, 0.2)), "median")


LN2 = math.log(2)


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        (0.5, 0.5, 0.5333), (1, 1, 0.5), (LN2, LN2, 0.5096), (2, 2, 0.5333), (0.1, 1, 0), (1, 3, 0.25),
        (5, 1, 0.8333), (0.3, 0.3, 0.5924), (2, 5, 0.3694), (3, 0.2, 1), (LN2, 5, 0), (LN2, 20, 0),
    ],
)  # fmt: skip
def test_argmax_reproduces_the_reference_table(a, b, value):
    gate = HardKuma(torch.tensor(float(a)), torch.tensor(float(b)))
    assert decide(gate).item() == pytest.approx(value, abs=5e-5), f"HardKuma({a}, {b}): column 'rule' of spec A.3"


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("law", [HardKuma, HardConcrete])
def test_every_rule_gives_values_in_the_unit_interval_with_shape_and_dtype_kept(rule, law):
    x, y = torch.meshgrid(torch.logspace(-3, 2, 6), torch.logspace(-3, 2, 7), indexing="ij")
    gates = law(x, y) if law is HardKuma else law(x.log(), y)
    z = decide(gates, rule)
    assert z.shape == (6, 7) and z.dtype == torch.float32
    assert ((z >= 0) & (z <= 1)).all(), f"{rule}: {z}"


# --- gate modules


@pytest.mark.parametrize("name", GATES)
def test_a_gate_maps_features_to_one_distribution_a_token(name):
    gates = GATES[name](5)(torch.randn(3, 4, 5))
    assert isinstance(gates, Distribution) and gates.batch_shape == (3, 4)
    assert gates.rsample().shape == (3, 4)


@pytest.mark.parametrize("name", GATES)
def test_a_gate_has_the_support_it_was_given(name):
    gates = GATES[name](5, left=-0.5, right=1.2)(torch.randn(2, 5))
    assert (gates.left, gates.right) == (-0.5, 1.2)


def test_a_hard_concrete_gate_can_be_half_open():
    gates = HardConcreteGate(5, temperature=0.2, left=-0.2, right=1.0)(torch.randn(9, 5))
    assert gates.prob_one.eq(0).all(), "right = 1 leaves no mass at 1"


def test_shapes_of_a_hardkuma_gate_are_positive_and_unbounded_above():
    gate = HardKumaGate(1)
    torch.nn.init.ones_(gate.a.weight)
    torch.nn.init.ones_(gate.b.weight)
    with torch.no_grad():
        gates = gate(torch.tensor([[-1e4], [0.0], [1e4]]))
    assert gates.a[0] >= gate.MIN and gates.b[0] >= gate.MIN
    assert gates.a[2] > 9e3, "no clamp at 100"


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("use", ["rsample", "log_prob_nonzero", "log_prob_zero", "prob_zero"])
def test_gradients_stay_finite_in_float32_for_extreme_features(name, scale, use):
    torch.manual_seed(0)
    gate = GATES[name](6)
    features = (scale * torch.randn(200, 6)).requires_grad_()
    value = getattr(gate(features), use)
    value = value() if callable(value) else value
    assert value.isfinite().all(), f"{use} at features of size {scale:g}"
    value.sum().backward()
    for where, tensor in [("features", features), *gate.named_parameters()]:
        assert tensor.grad.isfinite().all(), f"gradient of {use} in {where} at features of size {scale:g}"
