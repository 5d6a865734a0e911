"""Explorers of shapes and mappings without a browser: set the value of a slider, look at picture and numbers."""

import math
import warnings

import pytest
import torch

from rationale import figures
from rationale.distributions import HardKuma, Kumaraswamy
from rationale.explorers import mappings, shapes
from rationale.nn import decide


@pytest.fixture(scope="module")
def explorer():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return shapes.explore_shapes()


@pytest.mark.parametrize(("name", "value"), [("a", 3.0), ("b", 0.1), ("left", -0.5), ("right", 1.5)])
def test_a_slider_that_moves_changes_picture_and_numbers(explorer, name, value):
    slider = explorer.sliders[name]
    start, picture, numbers = slider.value, explorer.picture.value, explorer.readout.value
    assert picture[:4] == b"\x89PNG"
    slider.value = value
    assert explorer.picture.value != picture and explorer.readout.value != numbers
    slider.value = start
    assert explorer.picture.value == picture, "the same shape must give the same picture"


@pytest.mark.parametrize("view", figures.VIEWS)
def test_every_view_follows_the_sliders_and_depends_on_them_alone(view):
    moved, fresh = shapes.explore_shapes(), shapes.explore_shapes(a=2.0)
    start = moved.picture.value
    moved.view.value = fresh.view.value = view
    assert view == figures.VIEWS[0] or moved.picture.value != start, "another view must give another picture"
    for value in (0.03, 30.0, 2.0):
        moved.sliders["a"].value = value
    assert moved.picture.value == fresh.picture.value, "the picture must not depend on what was drawn before"


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


@pytest.mark.parametrize("name", shapes.PRESETS)
def test_a_preset_sets_all_four_sliders(explorer, name, monkeypatch):
    monkeypatch.setattr(explorer, "redraw", lambda: None)
    explorer.preset.value = name
    values = [explorer.sliders[key].value for key in ("a", "b", "left", "right")]
    assert values == pytest.approx(shapes.PRESETS[name])
    assert all(math.isfinite(number) for number in shapes.describe_shape(*values).values())


def test_the_sliders_hold_every_preset_exactly():
    for a, b, *_ in shapes.PRESETS.values():
        assert a in shapes.SHAPES and b in shapes.SHAPES, "otherwise a browser would move the slider to another value"
    assert sorted(set(shapes.SHAPES)) == shapes.SHAPES and max(shapes.SHAPES) == 100 and min(shapes.SHAPES) == 0.01
    assert all(value / 100 in shapes.SHAPES for value in range(1, 100)), "numbers of two digits"
    ratios = [high / low for low, high in zip(shapes.SHAPES, shapes.SHAPES[1:], strict=False)]
    assert max(ratios) < 1.06, "a step of the arrow keys is small"


def test_a_starting_value_between_two_steps_is_kept():
    assert shapes.explore_shapes(a=0.377).sliders["a"].value == 0.377


def test_moving_a_slider_leaves_the_preset(explorer):
    explorer.preset.value = "bell (2, 2)"
    explorer.sliders["a"].value = 2.5
    assert explorer.preset.value == shapes.NO_PRESET and explorer.sliders["b"].value == 2.0


def test_a_preset_redraws_once(explorer, monkeypatch):
    calls = []
    monkeypatch.setattr(explorer, "redraw", lambda: calls.append(1))
    explorer.preset.value = "mostly 1 (3, 0.2)"
    assert calls == [1]


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


@pytest.mark.parametrize("shape", [(0.01, 0.01), (0.01, 100.0), (100.0, 0.01), (100.0, 100.0)])
@pytest.mark.parametrize("support", [(-1.0, 2.0), (-0.01, 1.0)])
def test_the_corners_of_the_sliders_give_numbers_and_pictures(shape, support):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explorer = shapes.explore_shapes(*shape, *support)
    assert "nan" not in explorer.readout.value and "inf" not in explorer.readout.value
    assert explorer.picture.value[:4] == b"\x89PNG"


def test_a_starting_value_outside_the_range_of_its_slider_is_refused_by_name():
    with pytest.raises(ValueError, match=r"a: got 200, \[0.01, 100\] is accepted"):
        shapes.explore_shapes(a=200)
    with pytest.raises(ValueError, match="left"):
        shapes.explore_shapes(left=0.1)


def test_the_mapping_explorer_follows_its_sliders_and_warns_of_the_dead_zone():
    explorer = mappings.explore_mappings([0.5, 1.5, -0.4], lam=0.0)
    picture, readout = explorer.picture.value, explorer.readout.value
    assert picture[:4] == b"\x89PNG" and "no gradient" not in readout
    explorer.lam.value = 1.0
    assert explorer.picture.value != picture and "no gradient" in explorer.readout.value
    explorer.lam.value = 0.0
    explorer.scores[0].value = 3.0
    assert explorer.picture.value != picture
    explorer.scores[0].value = 0.5
    assert explorer.picture.value == picture and explorer.readout.value == readout


@pytest.mark.parametrize("arguments", [{"scores": [1.0]}, {"scores": [0, 4]}, {"gamma": 0.0}, {"lam": 2.0}])
def test_the_mapping_explorer_refuses_values_that_no_slider_can_show(arguments):
    with pytest.raises(ValueError, match="accepted"):
        mappings.explore_mappings(**arguments)
