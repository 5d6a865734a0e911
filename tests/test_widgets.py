"""The numbers that the explorer of shapes shows; `test_embedded` is about the explorer itself."""

import pytest
import torch

from rationale import figures
from rationale.distributions import HardKuma, Kumaraswamy
from rationale.explorers import shapes
from rationale.nn import decide


@pytest.mark.parametrize("b", [0.01, 0.3, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 4.0, 100.0])
def test_every_shape_has_a_beta_with_its_mean_and_variance(a, b):
    beta, kuma = figures.matched_beta(a, b), Kumaraswamy(*torch.tensor([a, b], dtype=torch.float64))
    assert beta.mean.item() == pytest.approx(kuma.mean.item(), rel=1e-8)
    assert beta.variance.item() == pytest.approx(kuma.variance.item(), rel=1e-8)
    if b == 1:
        assert beta.concentration1.item() == pytest.approx(a) and beta.concentration0.item() == pytest.approx(1)


@pytest.mark.parametrize("shape", [(0.5, 0.5), (2.0, 5.0), (0.1, 3.0)])
def test_slopes_are_those_of_a_small_step_and_exactly_0_where_the_gate_is_clipped(shape):
    u, step = torch.linspace(0.01, 0.99, 99, dtype=torch.float64), 1e-6
    h, by_a, by_b = figures.slopes(*shape, -0.1, 1.1, u)
    inside = (h > 0) & (h < 1)
    assert inside.any() and not inside.all()
    assert not by_a[~inside].any() and not by_b[~inside].any()
    for given, (da, db) in ((by_a, (step, 0)), (by_b, (0, step))):
        up, down = (
            HardKuma(*torch.tensor([shape[0] + s * da, shape[1] + s * db], dtype=torch.float64)).icdf(u)
            for s in (1, -1)
        )
        smooth = inside & (0 < up) & (up < 1) & (0 < down) & (down < 1)
        assert torch.allclose(given[smooth], ((up - down) / (2 * step))[smooth], rtol=1e-5, atol=1e-7)


def test_presets_cover_every_decision():
    decisions = [shapes.describe_shape(*shape)["decision"] for shape in shapes.PRESETS.values()]
    assert 0 in decisions and 1 in decisions and any(0 < z < 1 for z in decisions)


def test_the_numbers_are_those_of_the_distribution_and_of_the_one_rule():
    numbers = shapes.describe_shape(0.5, 0.5, -0.1, 1.1)
    gate = HardKuma(torch.tensor(0.5, dtype=torch.float64), 0.5)
    assert numbers["P(0)"] == pytest.approx(0.156599, abs=1e-6)  # computed independently of this package
    assert numbers["P(1)"] == pytest.approx(0.206332, abs=1e-6)
    assert numbers["E[H]"] == pytest.approx(0.536519, abs=1e-6)
    assert numbers["P(0)"] + numbers["P(1)"] + numbers["P(0<H<1)"] == pytest.approx(1)
    assert numbers["entropy"] == pytest.approx(gate.entropy().item())
    assert numbers["decision"] == decide(gate, rule="argmax").item() == pytest.approx(numbers["E[K]"])
