"""Pages of the book in a real browser, from a file: their figures on dark, as in a run, and what they offer."""

import json
import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rationale import figures
from rationale.runs.page import lab_page
from tests import browser
from tests.test_book import README, SECOND
from tests.test_themes import contrast
from tools.book.__main__ import build

pytestmark = [pytest.mark.browser, pytest.mark.deep]

SEEN = """() => {
    const shown = [...document.querySelectorAll('svg.drawn')].filter(svg => svg.getBoundingClientRect().width > 0);
    const of = (kind, property) => shown.flatMap(svg => [...svg.querySelectorAll(kind)])
        .map(part => getComputedStyle(part)[property]).filter(colour => colour.startsWith('rgb('));
    let page = shown[0];
    while (/rgba\\(.*, 0\\)/.test(getComputedStyle(page).backgroundColor)) page = page.parentElement;
    return {letters: of('text', 'fill'), lines: of('path', 'stroke'), pictures: shown.length,
            page: getComputedStyle(page).backgroundColor};
}"""


def notebook():
    fig, axes = figures.new_figure(2)
    figures.draw_hardkuma(0.5, 0.5, -0.1, 1.1, axes[0], title="A gate")
    figures.draw_lines([0, 1], {"one": [0, 1], "two": [1, 0]}, axes[1], title="Lines", xlabel="x", ylabel="y")
    svg, about = fig._repr_svg_()
    shown = new_output("display_data", {"image/svg+xml": svg}, metadata={"image/svg+xml": about})
    return new_notebook(cells=[new_markdown_cell("# T"), new_code_cell("fig", outputs=[shown])])


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "run.html").write_text(lab_page(notebook(), "t"), "utf-8")
    made = {"01_first": (notebook(), ""), "02_second": (SECOND, "")}
    build(made, README, folder / "book")
    return {"run": folder / "run.html", "book": folder / "book" / "01_first.html"}


def seen(page) -> dict:
    def rgb(text: str) -> tuple[float, ...]:
        return tuple(float(part) / 255 for part in re.findall(r"[\d.]+", text)[:3])

    found = page.evaluate(SEEN)
    return {
        name: rgb(value) if name == "page" else list(map(rgb, value)) if isinstance(value, list) else value
        for name, value in found.items()
    }


@pytest.mark.parametrize("size", [browser.PROJECTOR, browser.PHONE], ids=["projector", "phone"])
@pytest.mark.parametrize("kind", ["run", "book"])
def test_figures_are_drawn_for_the_dark(started, pages, kind, size):
    looks = {}
    for scheme in ("light", "dark"):
        page = started.new_context(viewport=size, color_scheme=scheme).new_page()
        page.goto(pages[kind].as_uri())
        page.wait_for_selector("svg.drawn:visible")
        looks[scheme] = seen(page)
        assert looks[scheme]["pictures"] == 1, "the wide figure or the narrow one"
        filters = page.evaluate("[...document.querySelectorAll('svg.drawn')].map(s => getComputedStyle(s).filter)")
        assert set(filters) == {"none"}
    light, dark = looks["light"], looks["dark"]
    assert len(dark["letters"]) > 8 and len(dark["lines"]) > 8
    assert min(contrast(colour, dark["page"]) for colour in dark["letters"]) >= 4.5
    assert min(contrast(c, dark["page"]) for c in dark["lines"] if c != dark["page"]) >= 3
    for part in ("letters", "lines"):
        assert all(one != other for one, other in zip(light[part], dark[part], strict=True)), json.dumps(looks)


def test_figures_of_the_book_follow_its_switch(started, pages):
    page = started.new_context(viewport=browser.PROJECTOR, color_scheme="light").new_page()
    page.goto(pages["book"].as_uri())
    page.wait_for_selector("svg.drawn:visible")
    before = seen(page)
    page.evaluate("document.body.setAttribute('data-md-color-scheme', 'slate')")
    after = seen(page)
    assert before["page"] != after["page"] and before["letters"] != after["letters"]


def test_a_page_that_is_a_file_gives_itself_as_a_notebook(started, pages):
    page = started.new_context().new_page()
    page.goto(pages["book"].as_uri())
    with page.expect_download() as waiting:
        page.locator("a.download").first.click()
    assert waiting.value.suggested_filename == "01_first.ipynb"
    given = Path(waiting.value.path()).read_bytes()
    assert given == pages["book"].with_suffix(".ipynb").read_bytes()
