"""The notebooks as people use them: in JupyterLab, in a browser, with mouse and keyboard (`make test-browser`)."""

import functools
import hashlib
import json
import re
import time
from pathlib import Path

import pytest
import torch

from rationale.explorers.shapes import PRESETS, describe_shape
from rationale.runs import reading, root, saved
from tests import browser
from tests.browser import Visit
from tests.smoke import smoke, smoke_parameters

pytestmark = pytest.mark.browser

NOTEBOOKS = ["04_explore_shapes", "40_sparse_attention", "10_first_rationale"]  # with explorers, and short
BYTES = "async image => Array.from(new Uint8Array(await (await fetch(image.src)).arrayBuffer()))"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with browser.lab(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def opened(started, lab):
    """All cells of `NOTEBOOKS` are running with their smoke parameters: `opened(name)` waits, and gives the Visit."""
    visits = {name: Visit(started) for name in NOTEBOOKS}
    for name, visit in visits.items():
        visit.open_notebook(lab, copy_of(name, lab.folder))
    for visit in visits.values():
        visit.run_all()

    def finished(name: str) -> Visit:
        Visit.latest = visits[name]
        visits[name].wait()
        return visits[name]

    return finished


def copy_of(name: str, folder: Path) -> Path:
    return browser.copy_notebook(name, folder, **smoke_parameters(root() / "notebooks" / f"{name}.py"))


@pytest.fixture(autouse=True)
def nothing_to_complain_of():
    yield
    if Visit.latest:
        complaints, Visit.latest.complaints = Visit.latest.complaints, []
        assert not complaints, "\n".join(complaints)


def eventually(check) -> None:
    """Call `check` until its asserts hold; the screen follows what people do, but not at once."""
    until = time.monotonic() + browser.PATIENCE
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > until:
                raise
            Visit.latest.page.wait_for_timeout(50)


def slider(shown, name: str):
    """The slider with this label in an output area."""
    label = shown.page.locator("label", has_text=re.compile(f"^{name}$"))
    return shown.locator(".widget-slider").filter(has=label)


def value_beside(slider) -> float:
    text = slider.locator(".widget-readout").inner_text()
    assert text, "a slider shows no value"
    return float(text.replace("−", "-"))


def number_in(shown, name: str) -> float:
    """`name = number` as it can be read in an output area."""
    found = re.search(rf"{re.escape(name)}\s*=\s*(-?[\d.]+(e-?\d+)?)", shown.inner_text().replace("−", "-"))
    assert found, f"no `{name} = ` in {shown.inner_text()!r}"
    return float(found[1])


def picture_in(shown) -> str:
    """A fingerprint of the picture's bytes as the browser has them."""
    image = shown.locator("img.widget-image").first
    assert image.evaluate("image => image.complete && image.naturalWidth > 0"), "the picture is not drawn"
    return hashlib.sha256(bytes(image.evaluate(BYTES))).hexdigest()


def drag(handle, dx: float, dy: float = 0) -> None:
    box, mouse = handle.bounding_box(), handle.page.mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + dx, y + dy, steps=10)
    mouse.up()


CUT_OFF = """all => all.filter(e => e.tagName != 'TEXTAREA' && e.clientWidth > 0
    && getComputedStyle(e).overflow != 'visible'
    && (e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 1))
    .map(e => `${e.className.split(' ').pop()} of ${e.clientWidth} x ${e.clientHeight} pixels needs `
        + `${e.scrollWidth} x ${e.scrollHeight}: ${e.innerText.replace(/\\s+/g, ' ').slice(0, 40)}`)"""


def nothing_is_cut_off(shown) -> None:
    """Asserts that everything in an output area has the room it needs, without scroll bars."""
    found = shown.locator("*").evaluate_all(CUT_OFF)
    assert not found, "\n".join(found)


def nothing_leaves(element, width: int) -> None:
    """Asserts that an element is not wider than the window."""
    box = element.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width, f"in a window of {width} pixels: {box}"


# --- notebooks


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_text_notebook_opens_as_a_notebook_and_runs_to_its_end(opened, name):
    code = [cell for cell in opened(name).cells() if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        errors = [output for output in cell["outputs"] if output["output_type"] == "error"]
        assert not errors, f"code cell {number} failed: {errors[0]['ename']}: {errors[0]['evalue']}"
        assert cell["execution_count"] == number, f"code cell {number} did not run in its turn:\n{cell['source']}"


def test_saving_writes_the_twin_and_leaves_the_text_as_it_was(opened, lab, tmp_path):
    page, text = opened("04_explore_shapes").page, lab.folder / "notebooks" / "04_explore_shapes.py"
    page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")
    twin = json.loads(text.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert any(cell.get("outputs") for cell in twin["cells"]), "the twin keeps what the cells have shown"
    same = text.read_bytes() == copy_of("04_explore_shapes", tmp_path).read_bytes()
    assert same, "saving in JupyterLab changes the text notebook"


# --- the explorer of shapes


@pytest.fixture
def shapes(opened):
    """The output area of the explorer."""
    return opened("04_explore_shapes").show("interactive")


def range_of(shown, name: str):
    """The slider with this label of an explorer that needs no kernel."""
    return shown.get_by_role("slider", name=name, exact=True)


def value_of(shown, name: str) -> float:
    return float(range_of(shown, name).get_attribute("aria-valuetext"))


def the_number_is_that_of_the_shape(shown) -> None:
    """Asserts that the P(0) on the screen is what the package computes for the sliders on the screen."""
    a, b, left, right = (value_of(shown, name) for name in ("a", "b", "left", "right"))
    seen, expected = number_in(shown, "P(0)"), describe_shape(a, b, left, right)["P(0)"]
    assert abs(seen - expected) <= 0.006 * expected + 1e-12, f"a {a}, b {b}: P(0) is {seen}, should be {expected:.3g}"


def test_the_explorer_shows_the_numbers_of_its_sliders_and_fits(shapes):
    eventually(lambda: the_number_is_that_of_the_shape(shapes))
    nothing_leaves(shapes.locator(".rationale-explorer"), browser.PROJECTOR["width"])


def test_a_key_on_a_slider_changes_the_numbers_and_reaches_the_kernel(shapes):
    seen = number_in(shapes, "P(0)")
    range_of(shapes, "a").focus()
    for _ in range(20):
        range_of(shapes, "a").press("ArrowRight")

    def moved():
        assert number_in(shapes, "P(0)") < seen, "P(0) falls when a grows"
        the_number_is_that_of_the_shape(shapes)

    eventually(moved)


def test_a_preset_stays_chosen_and_shows_its_own_numbers(shapes):
    name = "bell, to the left (2, 5)"
    preset = shapes.get_by_label("preset")
    preset.select_option(label=name)

    def chosen():
        assert preset.input_value() == name, "the menu has left the preset by itself"
        assert tuple(value_of(shapes, key) for key in ("a", "b", "left", "right")) == PRESETS[name]
        the_number_is_that_of_the_shape(shapes)

    eventually(chosen)
    shapes.page.wait_for_timeout(1000)  # what the sliders tell the kernel may come back
    chosen()


# --- the explorer of attention


def test_the_explorer_of_attention_follows_its_sliders(opened):
    shown = opened("40_sparse_attention").show("interactive")
    before = shown.locator("rect").evaluate_all("all => all.map(bar => bar.dataset.weight)")
    range_of(shown, "score 1").focus()
    range_of(shown, "score 1").press("ArrowRight")

    def followed():
        assert shown.locator("rect").evaluate_all("all => all.map(bar => bar.dataset.weight)") != before

    eventually(followed)


# --- your own sentence


@pytest.fixture
def sentence(opened):
    """The output area of the explorer."""
    return opened("10_first_rationale").show("interactive")


def type_text(shown, text: str) -> None:
    field = shown.get_by_role("textbox", name="your text", exact=True)
    field.click()
    field.press("Control+a")
    field.press_sequentially(text)


def it_reads(shown, folder: Path, text: str, forced: dict[int, float]) -> None:
    """Asserts that words and answers on the screen are those that the package gives to the text."""
    run, tokens = saved.load_run(folder), text.split()
    assert shown.locator("button.widget-button").all_inner_texts()[: len(tokens)] == tokens
    read = reading.read_text(run, text)
    assert ("your gates" in shown.inner_text()) == bool(forced)
    answers = {"rationale": read.z, "whole text": torch.ones_like(read.z)}
    if forced:
        answers["your gates"] = read.z.index_put((torch.tensor(list(forced)),), torch.tensor(list(forced.values())))
    for name, z in answers.items():
        expected = reading.predict_with(run, read, z)[0]
        seen = re.search(rf"{name}: *\w+ ([\d.]+)", shown.inner_text())
        assert seen and abs(float(seen[1]) - expected) < 0.006, f"{name}: {expected:.3f} in {shown.inner_text()!r}"


def test_typing_a_sentence_shows_its_words_and_what_the_model_answers(sentence, lab):
    text = "the head is thick and white . it smells of nothing"
    picture = picture_in(sentence)
    type_text(sentence, text)
    eventually(lambda: it_reads(sentence, lab.folder / "results" / "10_first_rationale", text, {}))
    assert picture_in(sentence) != picture
    nothing_is_cut_off(sentence)


def test_a_click_on_a_word_forces_its_gate_open_then_shut_then_sets_it_free(sentence, lab):
    text, folder = "a thin head . the taste is great", lab.folder / "results" / "10_first_rationale"
    type_text(sentence, text)
    eventually(lambda: it_reads(sentence, folder, text, {}))
    word = sentence.get_by_role("button", name="thin", exact=True)
    for forced in ({1: 1.0}, {1: 0.0}, {}):
        word.click()
        eventually(functools.partial(it_reads, sentence, folder, text, forced))


# --- the explorers as a page

ICONS = "https://cdn.jsdelivr.net/npm/@fortawesome/"  # Voilà's own style sheets; no explorer needs them


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """`make explore` where there is one finished run: the server, and the run's folder."""
    folder = tmp_path_factory.mktemp("page")
    run = smoke(root() / "notebooks" / "10_first_rationale.py", folder / "runs")
    browser.copy_notebook("50_explorers", folder, runs_dir=str(folder / "runs"))
    with browser.explore(folder) as server:
        yield server, run


def test_the_page_of_explorers_opens_without_code_and_answers(started, page):
    server, run = page
    visit = Visit(started, known=ICONS)
    visit.open_page(server)
    body = visit.page.locator("body")
    eventually(lambda: the_number_is_that_of_the_shape(body))
    assert "from rationale import" not in body.inner_text(), "the page shows code"
    seen = number_in(body, "P(0)")
    range_of(body, "a").focus()
    for _ in range(20):
        range_of(body, "a").press("ArrowRight")

    def moved():
        assert number_in(body, "P(0)") < seen
        the_number_is_that_of_the_shape(body)

    eventually(moved)
    text = "the taste is great but the head is thin"
    type_text(body, text)
    eventually(lambda: it_reads(body, run, text, {}))
    visit.page.set_viewport_size(browser.PHONE)

    def on_the_phone():
        for name in ("a", "left"):
            nothing_leaves(range_of(body, name), browser.PHONE["width"])
        nothing_leaves(body.locator(".rationale-explorer").first, browser.PHONE["width"])

    eventually(on_the_phone)
