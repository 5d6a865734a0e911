"""The slides in a real browser, from a file and without a network, with the keyboard and with a finger."""

import re
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rationale.figures import new_figure
from rationale.figures.look import to_png
from tests import browser
from tests.browser import Visit
from tools.slides import __main__ as slides
from tools.slides.__main__ import Deck, deck_files, read_deck, write_decks

pytestmark = pytest.mark.browser

NOW = "document.querySelector('section.now').id"
OUTSIDE = """() => [...document.querySelectorAll('section.now :is(h1, p, img, footer span)')]
    .map(part => [part.textContent.slice(0, 40), part.getBoundingClientRect()])
    .filter(([text, box]) => box.width > 0 && (box.left < 0 || box.top < 0 || box.right > innerWidth + 1
        || box.bottom > innerHeight + 1)).map(([text]) => text)"""


@pytest.fixture(scope="module")
def decks(tmp_path_factory) -> list[Path]:
    """The decks of the project, with one picture in place of all."""
    from base64 import b64encode

    png = b64encode(to_png(new_figure(size=(9, 5))[0])).decode()
    output = new_output("display_data", {"image/png": png}, metadata={"image/png": {"alt": "axes"}})
    with pytest.MonkeyPatch.context() as patch:
        cell = new_code_cell("draw()", outputs=[output])
        patch.setattr(slides, "find_picture", lambda notebook, place: cell)
        notebook = new_notebook(cells=[new_markdown_cell("# T")])
        return write_decks(tmp_path_factory.mktemp("slides"), lambda name: notebook)[0]


def opened(started, page: Path, size: dict = browser.PROJECTOR, touch: bool = False) -> Visit:
    visit = Visit(started, size, touch=touch)
    visit.page.goto(page.as_uri())
    visit.page.wait_for_selector("section.now")
    return visit


def test_the_keys_lead_through_the_slides_and_the_address_keeps_the_place(started, decks):
    visit = opened(started, decks[0])
    for key, place in (("ArrowRight", 2), ("PageDown", 3), (" ", 4), ("ArrowRight", 5), ("ArrowRight", 5),
                       ("ArrowLeft", 4), ("PageUp", 3), ("Home", 1), ("PageUp", 1), ("End", 5)):  # fmt: skip
        visit.page.keyboard.press(key)
        assert visit.page.evaluate(NOW) == f"slide-{place}", key
    assert visit.page.evaluate("location.hash") == "#slide-5"
    visit.page.reload()
    assert visit.page.evaluate(NOW) == "slide-5"
    assert visit.page.locator("section:visible").count() == 1 and not visit.complaints


def test_the_notes_are_shown_by_a_key_and_go_along_in_a_window_of_their_own(started, decks):
    visit, first = opened(started, decks[0]), read_deck(deck_files()[0]).slides[0]
    notes = visit.page.locator("section.now .notes")
    assert not notes.is_visible()
    visit.page.keyboard.press("s")
    assert notes.is_visible() and notes.inner_text().split()[0] in first.notes
    visit.page.keyboard.press("s")
    assert not notes.is_visible()
    with visit.page.expect_popup() as popup:
        visit.page.keyboard.press("w")
    popup.value.wait_for_selector("body.speaker section.now .notes")
    visit.page.keyboard.press("ArrowRight")
    popup.value.wait_for_selector("#slide-2.now")
    popup.value.keyboard.press("ArrowRight")
    visit.page.wait_for_selector("#slide-3.now")
    assert not visit.complaints, "\n".join(visit.complaints)


SIZES = [
    browser.PROJECTOR,
    pytest.param({"width": 1024, "height": 768}, marks=pytest.mark.deep),
    pytest.param(browser.PHONE, marks=pytest.mark.deep),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_slide_fits_its_window(started, decks, size):
    for deck in decks:
        visit = opened(started, deck, size)
        for _ in range(5):
            outside = visit.page.evaluate(OUTSIDE)
            assert not outside, f"{deck.stem}, {visit.page.evaluate(NOW)}: {outside}"
            tall = visit.page.evaluate("document.querySelector('section.now img').getBoundingClientRect().height")
            assert tall > 0.25 * size["height"], (
                f"{deck.stem}, {visit.page.evaluate(NOW)}: a picture {tall} pixels high"
            )
            visit.page.keyboard.press("ArrowRight")
        assert not visit.complaints


def test_on_paper_each_slide_has_a_page_with_its_notes(started, decks):
    visit = opened(started, decks[0])
    visit.page.emulate_media(media="print")
    assert visit.page.locator("section:visible").count() == visit.page.locator(".notes:visible").count() == 5
    pages = len(re.findall(rb"/Type\s*/Page\b", visit.page.pdf(prefer_css_page_size=True)))
    assert pages == 5, f"{pages} pages"


def test_without_a_script_the_slides_stand_one_below_the_other(started, decks, tmp_path):
    page = tmp_path / "plain.html"
    page.write_text(re.sub(r"<script>.*?</script>", "", decks[0].read_text("utf-8"), flags=re.S), "utf-8")
    visit = Visit(started)
    visit.page.goto(page.as_uri())
    assert visit.page.locator("section:visible").count() == 5


def test_a_deck_has_the_five_slides_of_its_file(decks):
    for file, page in zip(deck_files(), decks, strict=True):
        deck: Deck = read_deck(file)
        assert page.stem == file.stem and page.read_text("utf-8").count("<section ") == len(deck.slides)
