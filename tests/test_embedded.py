"""The explorers that need no kernel compute what the package computes, and a static page holds all that they need."""

import itertools
import json
import math
import re
import shutil
import subprocess
from base64 import b64decode
from html import unescape
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import torch

from rationale.distributions import HardKuma
from rationale.explorers import embedded, explore_mappings, explore_shapes
from rationale.explorers.shapes import PRESETS, describe_shape
from rationale.figures import matched_beta, slopes
from rationale.nn import HardKumaGate
from rationale.nn.mappings import all_mappings, in_dead_zone

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
NUM_POINTS = 500
COMPUTE_SHAPES = """({a, b, left, right, u, raw}) => {
  const gate = {a, b, left, right};
  return {...m.describe(gate), ...m.travel(u, gate), density: m.density(left + (right - left) * u, gate),
    cdf: m.cdf(u, gate), twin: m.twin(a, b), shape: m.softplus(raw), raw: m.inverseSoftplus(m.softplus(raw))};
}"""
COMPUTE_WEIGHTS = """({scores, gamma, lam}) => ({flat: m.isFlat(scores, gamma, lam),
  weights: Object.fromEntries(Object.entries(m.MAPS).map(([name, map]) => [name, map(scores, gamma, lam)]))})"""


def in_node(explorer: embedded.Embedded, function: str, points: list[dict]) -> list[dict]:
    """What a function of an explorer's module `m` gives for each point."""
    program = f"""import * as m from {json.dumps("data:text/javascript," + quote(explorer._esm))};
      let text = ""; for await (const part of process.stdin) text += part;
      console.log(JSON.stringify(JSON.parse(text).map({function})));"""
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", program],
        input=json.dumps(points),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@needs_node
def test_the_axes_of_explorers_have_few_and_round_numbers() -> None:
    base = SimpleNamespace(_esm=embedded.module() + "export { roundNumbers };")
    wanted = {
        (0, 1): [0, 0.5, 1],
        (-0.1, 1.1): [0, 0.5, 1],
        (1, 18): [5, 10, 15],
        (0, 0.12): [0, 0.05, 0.1],
        (-0.016, 0.0064): [-0.01, 0],
        (0.00325, 0.0047): [0.0035, 0.004, 0.0045],
        (100, 110): [100, 105, 110],
        (3, 3): [3],
    }
    found = in_node(base, "({low, high}) => m.roundNumbers(low, high)", [{"low": a, "high": b} for a, b in wanted])
    assert found == list(wanted.values())


def shapes_to_try() -> list[dict]:
    """500 gates and draws, over the whole range of the sliders and at each preset."""
    generator = torch.Generator().manual_seed(3)
    numbers = torch.rand(NUM_POINTS, 6, generator=generator, dtype=torch.float64).tolist()
    points = [
        {"a": 10 ** (4 * a - 2), "b": 10 ** (4 * b - 2), "left": -0.01 - 0.99 * left, "right": 1.01 + 0.99 * right,
         "u": 0.001 + 0.998 * u, "raw": 40 * raw - 7} for a, b, left, right, u, raw in numbers
    ]  # fmt: skip
    corners = itertools.product((0.01, 100.0), (0.01, 100.0), (-1.0, -0.01), (1.01, 2.0))
    for point, given in zip(points, [*PRESETS.values(), *corners], strict=False):
        point |= dict(zip(("a", "b", "left", "right"), given, strict=True))
    return points


def scores_to_try() -> list[dict]:
    generator = torch.Generator().manual_seed(4)
    points = []
    for i in range(NUM_POINTS):
        scores = torch.randn(2 + i % 9, generator=generator, dtype=torch.float64).clamp(-3, 3)
        gamma, lam = torch.rand(2, generator=generator).tolist()
        points.append({"scores": scores.tolist(), "gamma": 10 ** (2 * gamma - 1), "lam": lam * (i % 5 > 0)})
    return points


def agrees(found: float, expected: float, what: str, rtol: float = 1e-8, atol: float = 1e-10) -> None:
    assert math.isclose(found, expected, rel_tol=rtol, abs_tol=atol), f"{what}: {found}, the package has {expected}"


def compare_shapes(points: list[dict], found: list[dict]) -> None:
    """Asserts that the numbers of `COMPUTE_SHAPES` are those of the package."""
    for point, row in zip(points, found, strict=True):
        ends = {key: point[key] for key in ("a", "b", "left", "right")}
        u = torch.tensor([point["u"]], dtype=torch.float64)
        gate = HardKuma(*torch.tensor([point["a"], point["b"]], dtype=torch.float64), point["left"], point["right"])
        for name, number in describe_shape(**ends).items():
            agrees(
                row[name], number, f"{name} of {ends}", rtol=1e-6 if name in ("E[H]", "entropy") else 1e-8, atol=1e-9
            )
        h, by_a, by_b = (values.item() for values in slopes(**ends, u=u))
        for name, number in (("h", h), ("byA", by_a), ("byB", by_b), ("k", gate.base.icdf(u).item())):
            agrees(row[name], number, f"{name} of {point}")
        width = point["right"] - point["left"]
        agrees(row["density"], gate.base.log_prob(u).exp().item() / width, f"density of {point}", 1e-7)
        agrees(row["cdf"], gate.cdf(u).item(), f"cdf of {point}")
        beta = matched_beta(point["a"], point["b"])
        if min(point["a"], point["b"]) > 0.05:  # below, both variances are differences that lose their digits
            agrees(row["twin"][0], beta.concentration1.item(), f"Beta of {ends}", 1e-5)
        layer = HardKumaGate(1)
        shape = layer.of(torch.full((2,), point["raw"], dtype=torch.float64)).a.item()
        agrees(row["shape"] + explore_shapes().smallest, shape, "the shape at a raw output")
        agrees(row["raw"], point["raw"], "softplus and back", 1e-6, 1e-6)


def compare_weights(points: list[dict], found: list[dict]) -> None:
    """Asserts that the numbers of `COMPUTE_WEIGHTS` are those of the package."""
    for point, row in zip(points, found, strict=True):
        scores = torch.tensor(point["scores"], dtype=torch.float64)
        expected = all_mappings(scores, point["gamma"], point["lam"])
        assert list(row["weights"]) == list(expected), "the maps of the package, in its order"
        for name, weights in expected.items():
            found_weights = torch.tensor(row["weights"][name], dtype=torch.float64)
            assert (found_weights - weights).abs().max() < 1e-7, f"{name} of {point}"
            assert torch.equal(found_weights > 1e-9, weights > 1e-9), f"{name} of {point}: other exact zeros"
        assert row["flat"] == bool(in_dead_zone(scores, gamma=point["gamma"], lam=point["lam"])), point


@needs_node
def test_the_explorer_of_shapes_computes_what_the_package_computes_at_500_points():
    points = shapes_to_try()
    compare_shapes(points, in_node(explore_shapes(), COMPUTE_SHAPES, points))


@needs_node
def test_the_entropy_of_a_gate_whose_support_ends_at_0_or_1_is_finite_in_the_browser_too():
    shapes = itertools.product((0.01, 0.5, 1.0, 30.0), (0.01, 0.1, 0.5, 20.0), (-0.2, -0.01, 0.0), (1.0, 1.1))
    points = [dict(zip(("a", "b", "left", "right"), ends, strict=True)) for ends in shapes]
    for point, found in zip(points, in_node(explore_shapes(), "gate => m.describe(gate).entropy", points), strict=True):
        assert found is not None, f"{point}: the entropy is infinite or no number"
        agrees(found, describe_shape(**point)["entropy"], f"entropy of {point}", rtol=1e-5, atol=1e-6)


@needs_node
def test_an_infinite_number_is_shown_with_its_sign():
    base = SimpleNamespace(_esm=embedded.module() + "export { shown };")
    numbers = ["Infinity", "-Infinity", "NaN", "-0.5"]  # JSON has none of the first three
    assert in_node(base, "text => m.shown(Number(text))", numbers) == ["∞", "-∞", "no number", "-0.5"]


@needs_node
def test_an_address_that_is_no_state_of_an_explorer_does_not_stop_it():
    base = SimpleNamespace(_esm=embedded.module() + "export { readAddress };")
    read = """hash => {
      globalThis.location = { hash };
      const values = { a: 0.5, view: "draw" };
      const set = (key, value) => { values[key] = value; };
      m.readAddress("shapes", { isStatic: true, get: key => values[key], set }, ["a", "view"]);
      return values;
    }"""
    found = in_node(base, read, ["#100%", "", "#shapes?a=2&view=Beta%20twin", "#shapes?a=x&b=3"])
    assert found == [{"a": 0.5, "view": "draw"}] * 2 + [{"a": 2, "view": "Beta twin"}, {"a": 0.5, "view": "draw"}]


@needs_node
@pytest.mark.parametrize("explorer, start, refused, accepted", [
    (explore_shapes(), {"a": 0.5, "b": 0.5, "left": -0.1, "right": 1.1, "u": 0.3},
     ["a=0", "a=-3", "b=0", "left=0.5", "right=0.5", "left=5&right=-1", "u=5", "u=-1", "a=%20"],
     {"a": 150, "b": 0.01, "left": 0, "right": 1, "u": 1}),
    (explore_mappings(), {"scores": [0.5, 1.5], "gamma": 1, "lam": 0.1},
     ["scores=9,0", "scores=,", "scores=1", "gamma=0", "gamma=1e9", "lam=-1"],
     {"scores": [-3, 3], "gamma": 10, "lam": 0}),
], ids=["shapes", "mappings"])  # fmt: skip
def test_an_address_sets_no_number_for_which_there_is_no_picture(explorer, start, refused, accepted):
    module = SimpleNamespace(_esm=explorer._esm + "export { readAddress };")
    read = f"""query => {{
      globalThis.location = {{ hash: "#name?" + query }};
      const values = {json.dumps(start)};
      const set = (key, value) => {{ values[key] = value; }};
      m.readAddress("name", {{ isStatic: true, get: key => values[key], set }}, Object.keys(values), m.LIMITS);
      return values;
    }}"""
    wanted = "&".join(f"{key}={str(value).strip('[]').replace(' ', '')}" for key, value in accepted.items())
    assert in_node(module, read, [*refused, wanted]) == [*[start] * len(refused), accepted]


@needs_node
def test_an_address_chooses_no_text_that_a_menu_does_not_have():
    base = SimpleNamespace(_esm=embedded.module() + "export { readAddress };")
    read = """view => {
      globalThis.location = { hash: "#shapes?view=" + view };
      let found = "draw";
      const model = { isStatic: true, get: () => found, set: (_, value) => { found = value; } };
      m.readAddress("shapes", model, ["view"], { view: ["draw", "Beta twin"] });
      return found;
    }"""
    assert in_node(base, read, ["nonsense", "Beta%20twin"]) == ["draw", "Beta twin"]


@needs_node
def test_every_step_of_the_slider_of_a_raw_output_is_a_shape_of_its_own():
    steps = [round(0.05 * step - 7, 2) for step in range(541)]
    found = "raw => m.inverseSoftplus(m.shapeAt(raw, 0.01) - 0.01)"  # where the slider stands after the step
    for raw, stands in zip(steps, in_node(explore_shapes(), found, steps), strict=True):
        assert abs(stands - raw) < 0.025, f"from {raw}, the slider jumps to {stands}: an arrow key moves it no further"


# elements of a page that has no browser; as in a browser, the value of a slider stays between its ends
ELEMENTS = """
globalThis.document = { createElement: () => ({
  setAttribute(name, value) { this[name] = value; },
  addEventListener(name, call) { this[name] = call; },
  get value() { return this.stands; },
  set value(given) { this.stands = String(Math.min(this.max, Math.max(this.min, given))); },
  append(...children) { this.children = children; } }) };
"""


@needs_node
def test_an_arrow_key_at_the_end_of_a_slider_does_not_change_a_number_beyond_it():
    base = SimpleNamespace(_esm=embedded.module() + ELEMENTS + "export { slider };")
    press = """key => {
      let shape = 100;
      const row = m.slider("raw a", { min: -7, max: 20, step: 1, get: () => shape, set: v => { shape = v; } });
      row.update();
      row.children[1].keydown({ key, preventDefault() {}, stopPropagation() {} });
      return shape;
    }"""
    assert in_node(base, press, ["ArrowRight", "ArrowLeft"]) == [100, 19], "the key to the right made it smaller"


@needs_node
def test_a_key_with_alt_ctrl_or_meta_on_a_slider_is_left_to_the_browser():
    base = SimpleNamespace(_esm=embedded.module() + ELEMENTS + "export { slider };")
    press = """held => {
      let number = 5, taken = false;
      const row = m.slider("a", { min: 0, max: 9, step: 1, get: () => number, set: v => { number = v; } });
      row.update();
      const take = () => { taken = true; };
      row.children[1].keydown({ key: "ArrowLeft", [held]: true, preventDefault: take, stopPropagation: take });
      return [number, taken];
    }"""
    found = in_node(base, press, ["altKey", "ctrlKey", "metaKey", "shiftKey"])
    assert found == [[5, False]] * 3 + [[4, True]], "Alt and the arrow to the left go back in the browser's history"


@needs_node
def test_the_map_of_shapes_names_only_values_that_a_gate_of_this_support_can_have():
    ends = [[-0.1, 1.1], [-0.2, 1], [0, 1.1], [0, 1], [-1, 2], [-0.01, 1.01]]
    named = in_node(explore_shapes(), "([left, right]) => m.regionsAt(left, right).map(([z]) => z)", ends)
    assert named == [["0", "E[K]", "1"], ["0", "E[K]"], ["E[K]", "1"], ["E[K]"], ["0", "E[K]", "1"], ["0", "E[K]", "1"]]


@needs_node
def test_a_slider_stands_at_its_end_where_its_number_is_infinite():
    base = SimpleNamespace(_esm=embedded.module() + "export { slider };")
    place = """text => {
      globalThis.document = { createElement: () => ({
        setAttribute(name, value) { this[name] = value; }, addEventListener() {},
        append(...children) { this.children = children; } }) };
      const row = m.slider("raw a", { min: -7, max: 20, step: 0.05, get: () => Number(text) });
      row.update();
      return row.children[1].value;
    }"""
    assert in_node(base, place, ["-Infinity", "3.5", "Infinity"]) == [-7, 3.5, 20], "a browser would show the middle"


@needs_node
def test_the_explorer_of_attention_computes_what_the_package_computes_at_500_points():
    points = scores_to_try()
    compare_weights(points, in_node(explore_mappings(), COMPUTE_WEIGHTS, points))


@needs_node
def test_a_weight_that_is_exactly_0_at_the_border_of_the_support_counts_as_0_in_the_browser():
    borders = {  # by hand: the second score is as far below the first as the map needs to give it the weight 0
        "sparsemax": ([1.3, 0.2], 1.1),  # the distance is gamma
        "entmax": ([1.9, -0.3], 1.1),  # 2 gamma
        "sq_pnorm_max": ([1.7, 1.3], 0.4),  # gamma
    }
    points = [{"scores": scores, "gamma": gamma, "lam": 0} for scores, gamma in borders.values()]
    for name, found in zip(borders, in_node(explore_mappings(), COMPUTE_WEIGHTS, points), strict=True):
        first, second = found["weights"][name]
        assert second == 0 and math.isclose(first, 1), f"{name}: {second} is not exactly 0"


@pytest.mark.parametrize("explorer", [explore_shapes(), explore_mappings(lam=0.2)], ids=["shapes", "maps"])
def test_a_static_page_gets_the_module_and_the_state_and_loads_nothing(explorer):
    page = explorer._repr_mimebundle_()[0]["text/html"]
    found = re.fullmatch(
        r'<div class="explorer" data-module="(.+?)" data-state="(.+?)"></div><script>(.+)</script>', page, re.S
    )
    source = b64decode(found[1]).decode()
    assert "https://" not in source and not re.search(r"^\s*import\b", source, re.M), "nothing comes from elsewhere"
    read = set(re.findall(r'model\.get\("(\w+)"\)', source))
    state = json.loads(unescape(found[2]))
    assert read <= set(state), f"the module reads {read - set(state)}, which the page does not have"
    assert "<" not in found[3] and page.count("<script>") == 1, "a page's own tools look for tags"


def test_the_explorers_start_as_they_are_told_and_refuse_what_no_slider_can_show():
    assert explore_shapes(a=0.377, right=1.5).state()["a"] == 0.377
    assert explore_mappings([0.1, 0.2]).state()["scores"] == [0.1, 0.2]
    for refused in ({"a": 200}, {"left": 0.1}, {"right": 0.9}):
        with pytest.raises(ValueError, match=f"{next(iter(refused))}: got"):
            explore_shapes(**refused)
    for refused in ({"scores": [1.0]}, {"scores": [5.0, 1.0]}, {"gamma": 0.0}, {"lam": 2.0}):
        with pytest.raises(ValueError, match=f"{next(iter(refused))}: got"):
            explore_mappings(**refused)
