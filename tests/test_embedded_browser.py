"""The explorers of a static page in a real browser, from a file and without a network (`make test-browser`)."""

import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from rationale.explorers import explore_mappings, explore_shapes
from rationale.explorers.rows import RowExplorer
from rationale.explorers.shapes import ShapeExplorer, describe_shape
from rationale.explorers.training import TrainingExplorer
from rationale.runs.committed import reference_folder
from rationale.runs.page import lab_page
from tests import browser, test_embedded
from tests.browser import Visit

pytestmark = pytest.mark.browser

MODULE = "document.querySelector('.explorer').dataset.module"


@pytest.fixture(params=[browser.PROJECTOR, browser.PHONE], ids=["projector", "phone"])
def visit(started, request):
    visit = Visit(started, request.param, touch=True)
    yield visit
    assert not visit.complaints, "\n".join(visit.complaints)


def opened(visit: Visit, folder: Path, explorer, address: str = ""):
    """The page of one explorer, opened as a file."""
    page = folder / "page.html"
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    page.write_text(f"<!doctype html><html><head>{head}</head><body>{explorer.as_html()}</body></html>", "utf-8")
    visit.page.goto("about:blank")
    visit.page.goto(page.as_uri() + address)
    visit.page.wait_for_selector(".rationale-explorer svg")
    return visit.page


def number(page, name: str) -> float:
    return float(re.search(rf"{re.escape(name)} = ([\d.e-]+)", page.locator(".numbers").inner_text())[1])


def state(page) -> dict[str, float]:
    """The values that the address of the page holds."""
    page.wait_for_timeout(100)
    return {key: float(value) for key, value in re.findall(r"(\w+)=(-?[\d.]+)(?:&|$)", page.evaluate("location.hash"))}


@pytest.mark.parametrize("name, function, points, compare", [
    ("shapes", test_embedded.COMPUTE_SHAPES, test_embedded.shapes_to_try, test_embedded.compare_shapes),
    ("mappings", test_embedded.COMPUTE_WEIGHTS, test_embedded.scores_to_try, test_embedded.compare_weights),
])  # fmt: skip
def test_a_browser_computes_what_the_package_computes_at_500_points(started, tmp_path, name, function, points, compare):
    visit = Visit(started)
    page = opened(visit, tmp_path, explore_shapes() if name == "shapes" else explore_mappings(lam=0.2))
    tried = points()
    source = f"points => import('data:text/javascript;base64,' + {MODULE}).then(m => points.map({function}))"
    compare(tried, page.evaluate(source, tried))
    assert not visit.complaints


def test_nothing_leaves_the_window_and_a_redraw_takes_less_than_a_frame(visit, tmp_path):
    for explorer in (explore_shapes(), explore_mappings(lam=0.2)):
        page = opened(visit, tmp_path, explorer)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
        sizes = page.locator("svg text").evaluate_all("all => all.map(t => parseFloat(getComputedStyle(t).fontSize))")
        assert min(sizes) >= 9, "letters that nobody can read"
        assert all(page.locator("svg").evaluate_all("all => all.map(p => p.getAttribute('aria-label').length > 20)"))


def test_a_slider_follows_the_keyboard_and_the_address_holds_the_state(visit, tmp_path):
    page = opened(visit, tmp_path, explore_shapes())
    page.get_by_role("slider", name="a", exact=True).focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    values = state(page)
    assert values["a"] > 0.6
    ends = {key: values[key] for key in ("a", "b", "left", "right")}
    assert abs(number(page, "P(0)") - describe_shape(**ends)["P(0)"]) < 1e-3
    again = opened(visit, tmp_path, explore_shapes(), page.evaluate("location.hash"))
    assert state(again) == {} or state(again)["a"] == values["a"]
    assert abs(number(again, "P(0)") - describe_shape(**ends)["P(0)"]) < 1e-3, (
        "an address opens the state that it holds"
    )


def test_another_address_of_the_same_page_shows_its_state(started, tmp_path):
    visit = Visit(started)
    page = opened(visit, tmp_path, explore_shapes())
    page.evaluate("location.hash = '#shapes?a=2&b=5&view=nonsense&u=7'")  # as if somebody typed it
    page.wait_for_function("document.querySelector('.handle').getAttribute('aria-valuetext') == 'a = 2, b = 5'")
    assert page.get_by_label("beside").input_value() == "draw"
    assert "u = 0.3 becomes" in page.locator("svg").last.get_attribute("aria-label")
    assert not visit.complaints, "\n".join(visit.complaints)


def test_a_link_to_an_explorer_far_down_a_page_leads_to_it(started, tmp_path):
    visit = Visit(started)
    room = '<p style="height:5000px"></p>'
    both = room + explore_shapes().as_html() + explore_mappings().as_html() + room
    page = opened(visit, tmp_path, SimpleNamespace(as_html=lambda: both), "#mappings?gamma=2")
    page.wait_for_function("Math.abs(document.getElementById('mappings').getBoundingClientRect().top) < 5")
    page.evaluate("location.hash = '#shapes?a=2'")
    page.wait_for_function("Math.abs(document.getElementById('shapes').getBoundingClientRect().top) < 5")
    page.mouse.wheel(0, 500)
    page.get_by_role("slider", name="right").focus()
    page.wait_for_timeout(200)
    before = page.evaluate("scrollY")
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") == before, "a slider does not scroll the page"
    assert not visit.complaints, "\n".join(visit.complaints)


def test_a_point_on_the_map_is_dragged_by_mouse_and_touch_and_moved_by_keys(visit, tmp_path):
    page = opened(visit, tmp_path, explore_shapes())
    handle = page.locator(".handle").first
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y - 30, steps=5)
    page.mouse.up()
    dragged = state(page)
    assert dragged["a"] > 0.8 and dragged["b"] > 0.8, "to the right a grows, upwards b grows"
    touch = page.context.new_cdp_session(page)
    box = page.locator(".handle").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, points in (
        ("touchStart", [(x, y)]),
        ("touchMove", [(x - 30, y)]),
        ("touchMove", [(x - 60, y)]),
        ("touchEnd", []),
    ):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
    touched = state(page)
    assert touched["a"] < dragged["a"], "a finger drags the point, too"
    page.locator(".handle").first.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert state(page)["b"] > touched["b"], "the keys go on although the picture was drawn again"


def test_a_page_of_a_run_shows_sources_in_a_monospaced_font_and_the_explorer(started, tmp_path):
    new, visit = nbformat.v4, Visit(started)
    source = {"text/markdown": "```python\ndef f(x):\n    return x\n```"}
    outputs = [new.new_output("display_data", data=data) for data in (source, explore_shapes()._repr_mimebundle_()[0])]
    page = tmp_path / "run.html"
    page.write_text(lab_page(new.new_notebook(cells=[new.new_code_cell("1", outputs=outputs)]), "run"), "utf-8")
    visit.page.goto(page.as_uri())
    visit.page.wait_for_selector(".rationale-explorer svg")
    folded = visit.page.locator("details.code")
    assert folded.count() == 2 and not any(folded.evaluate_all("all => all.map(part => part.open)"))
    visit.page.get_by_role("button", name="Show all code").click()
    assert all(folded.evaluate_all("all => all.map(part => part.open)")), "one click opens all"
    visit.page.get_by_role("button", name="Hide all code").click()
    assert not any(folded.evaluate_all("all => all.map(part => part.open)")), "one click closes all"
    fonts = visit.page.locator("pre").evaluate_all("all => all.map(pre => getComputedStyle(pre).fontFamily)")
    assert len(fonts) == 2 and all("monospace" in font for font in fonts), fonts
    assert not visit.complaints, "\n".join(visit.complaints)


def test_the_slider_of_a_training_colours_the_words(visit, tmp_path):
    texts = [{"tokens": ["a", "dull", "beer"], "gold": [0, 1, 0], "title": "label 0.2"}]
    opening, rates = [[0.9, 0.9, 0.9], [0.1, 0.8, 0.2], [0.0, 1.0, 0.0]], [1.0, 0.6, 0.33]
    epochs = [
        {"epoch": i + 1, "open": [gates], "z": [[float(gate > 0.5) for gate in gates]], "answers": ["0.2"],
         "selected": rate, "expected": rate, "multiplier": 0.1 * i}
        for i, (gates, rate) in enumerate(zip(opening, rates, strict=True))
    ]  # fmt: skip
    page = opened(visit, tmp_path, TrainingExplorer(texts=texts, epochs=epochs, target=0.3, best=3, epoch=3))

    def colours() -> list[float]:
        alpha = "all => all.map(word => Number(/, ([\\d.]+)\\)$/.exec(word.style.background)[1]))"
        return page.locator(".words span").evaluate_all(alpha)

    rounding = 1 / 255  # the browser keeps eight bits of an opacity
    assert colours() == pytest.approx([0, 0.65, 0], abs=rounding)
    page.get_by_role("slider", name="epoch").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('Epoch 1 of 3')")
    assert colours() == pytest.approx([0.585] * 3, abs=rounding)
    assert page.locator(".words span").nth(1).evaluate("word => word.style.textDecoration") == "underline"
    told = page.locator("svg").first.get_attribute("aria-label")
    assert page.locator("svg").count() == 2 and "expected (dashed) 1" in told
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    page.get_by_role("button", name="play").click()
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('Epoch 3 of 3, the one')")


def test_the_gates_of_a_training_stand_on_the_map_and_the_point_follows_a_word(visit, tmp_path):
    texts = [{"tokens": ["a", "dull", "beer"], "gold": [0, 1, 0], "title": "label 0.2"},
             {"tokens": ["fine"], "gold": [1], "title": "label 0.9"}]  # fmt: skip
    epochs = [{"epoch": 1, "a": [[0.7, 0.7, 0.7], [0.7]], "b": [[0.7, 0.7, 0.7], [0.7]]},
              {"epoch": 2, "a": [[0.1, 3.0, 0.5], [5.0]], "b": [[2.0, 0.2, 150.0], [0.1]]}]  # fmt: skip
    for row in epochs:
        found = [
            [describe_shape(*pair) for pair in zip(*shapes, strict=True)]
            for shapes in zip(row["a"], row["b"], strict=True)
        ]
        row["open"] = [[1 - gate["P(0)"] for gate in gates] for gates in found]
        row["z"] = [[gate["decision"] for gate in gates] for gates in found]
    explorer = ShapeExplorer(texts=texts, epochs=epochs, support=[-0.1, 1.1], epoch=2, left=-0.3)
    page = opened(visit, tmp_path, explorer)
    assert page.locator("circle.trained").count() == 3
    told = page.locator("svg").first.get_attribute("aria-label")
    assert "A trained model has 3 words here, 2 with z = 0 and 1 with more" in told
    page.locator(".words span").nth(1).click()
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('P(1)')")
    on_word = state(page)
    assert (on_word["a"], on_word["b"], on_word["left"], on_word["word"]) == (3.0, 0.2, -0.1, 2)
    assert abs(number(page, "P(0)") - describe_shape(3.0, 0.2)["P(0)"]) < 1e-3
    page.get_by_role("slider", name="epoch").focus()
    page.keyboard.press("ArrowLeft")
    assert (state(page)["a"], state(page)["b"], state(page)["word"]) == (0.7, 0.7, 2), "the point follows its word"
    words = page.get_by_role("slider", name="word")
    words.focus()
    page.keyboard.press("ArrowRight")
    assert state(page)["word"] == 3 and words.get_attribute("aria-valuetext") == "beer"
    page.get_by_role("slider", name="epoch").focus()
    page.keyboard.press("ArrowRight")
    assert state(page)["b"] == 150, "also beyond the map"
    page.locator(".handle").first.focus()
    page.keyboard.press("ArrowUp")
    assert state(page)["word"] == 0, "a point that is moved stands on no word"
    page.locator(".words span").nth(1).click()
    assert state(page)["word"] == 2
    page.get_by_role("slider", name="right").focus()
    page.keyboard.press("ArrowRight")
    assert state(page)["word"] == 0, "with another support, it is no longer the gate of the word"
    page.get_by_label("text on the map", exact=True).select_option("2: label 0.9")
    page.wait_for_function("document.querySelectorAll('circle.trained').length == 1")
    again = opened(visit, tmp_path, explorer, page.evaluate("location.hash"))
    assert again.locator("circle.trained").count() == 1, "the address holds the text and the epoch"
    assert again.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"


def test_two_gates_a_draw_and_the_other_pictures(visit, tmp_path):
    page = opened(visit, tmp_path, explore_shapes())
    page.get_by_role("button", name="second gate").click()
    page.wait_for_selector(".handle >> nth=1")
    assert page.locator(".numbers p").count() == 2
    for view in ("cdf", "Beta twin", "slopes", "draw"):
        before = page.locator("svg").last.get_attribute("aria-label")
        page.get_by_label("beside").select_option(view)
        page.wait_for_function("old => [...document.querySelectorAll('svg')].at(-1).ariaLabel != old", arg=before)
    u = page.locator("svg").last.get_attribute("aria-label")
    page.get_by_role("button", name="draw u").click()
    page.wait_for_function("old => [...document.querySelectorAll('svg')].at(-1).ariaLabel != old", arg=u)


def test_the_second_gate_differs_from_the_first_in_more_than_colour_in_every_picture_and_the_legend_says_so(
    started, tmp_path
):
    visit = Visit(started)
    page = opened(visit, tmp_path, explore_shapes())
    page.get_by_role("button", name="second gate").click()
    page.wait_for_selector(".handle >> nth=1")
    for view in ShapeExplorer.VIEWS:
        page.get_by_label("beside").select_option(view)
        page.wait_for_function("name => document.querySelector('select[aria-label=beside]').value == name", arg=view)
        page.wait_for_timeout(100)
        for number in range(3):
            lines = page.locator("svg").nth(number).locator("[stroke*=drawn-], .handle")
            found = lines.evaluate_all("all => all.map(e => [e.outerHTML.includes('drawn-red'), "
                                       "e.getAttribute('stroke-dasharray')])")  # fmt: skip
            first, second = ({dash for is_second, dash in found if is_second == which and dash} for which in (0, 1))
            assert first and second and not first & second, f"picture {number} beside {view}: {first}, {second}"
        told = page.locator(".numbers p").all_inner_texts()
        assert told[0].startswith("Gate (solid") and told[1].startswith("Second gate (dashed"), told
        assert ("dotted" in told[1]) == (view == "slopes")
    assert not visit.complaints, "\n".join(visit.complaints)


def test_the_explorers_of_one_page_share_no_label_and_saved_rows_are_chosen_by_click_and_by_keys(visit, tmp_path):
    texts = [{"tokens": ["a", "dull", "film"], "gold": [0, 1, 0], "title": "first"},
             {"tokens": ["fine"], "gold": [1], "title": "second"}]  # fmt: skip
    rows = [
        {"title": f"{rate} %", "values": [[0.0, 1.0, float(rate > 40)], [1.0]], "answers": ["It is bad", "It is good"],
         "facts": ""} for rate in (30, 60, 90)
    ]  # fmt: skip
    curve = {"title": "Accuracy", "xlabel": "rate", "x": [0.3, 0.6, 0.9], "y": [0.4, 0.5, 0.6]}
    gates = {"name": "gates", "level": 0.0, "did": "selected", "rows": rows, "curve": curve}
    shown = [RowExplorer(texts=texts, methods=[gates, gates | {"name": "others"}], name=name, label=name)
             for name in ("rate", "layer")]  # fmt: skip
    for others in ([explore_shapes(run=reference_folder()), explore_mappings()], []):
        page = opened(visit, tmp_path, SimpleNamespace(as_html=lambda others=others: "".join(
            one.as_html() for one in [*shown, *others])))  # fmt: skip
        labels = page.locator("select, input").evaluate_all("all => all.map(one => one.ariaLabel)")
        assert len(set(labels)) == len(labels), f"a label twice: {sorted(labels)}"
    first = page.locator(".rationale-explorer").first
    told = first.locator(".numbers")
    assert "At rate 30 %, 1 of 3 words is selected. It is bad." in told.inner_text()
    first.locator(".rows b").nth(2).click()
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('At rate 90 %, 2 of 3')")
    steps = first.get_by_role("slider", name="go to rate")
    assert steps.get_attribute("aria-valuetext") == "90 %"
    steps.focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('At rate 60 %')")
    assert first.locator(".rows > [aria-current] b").inner_text() == "60 %"
    first.get_by_label("text by rate").select_option("2: second")
    page.wait_for_function("document.querySelector('.numbers').textContent.includes('It is good')")
    assert "Accuracy, by rate: 30 % 0.4" in first.locator("svg").get_attribute("aria-label")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
