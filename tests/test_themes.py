"""Pictures as parts of a page: their colours are variables, and their names do not clash."""

import re

import pytest
from matplotlib.colors import to_rgb

from rationale import figures
from rationale.figures import look
from rationale.runs.answer import Answer, Span, to_page
from rationale.runs.themes import DARK, DARK_MARK, both, inlined, marked, variables

PAGES = {"book": "#1e2129", "run.html": "#111111"}  # the background of a dark page


def luminance(colour) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one, other) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def drawn():
    fig, ax = figures.new_figure(size=(4, 3))
    figures.draw_hardkuma(0.5, 0.5, -0.1, 1.1, ax, title="A finding & more")
    return fig._repr_svg_()


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_each_colour_of_the_palette_can_be_seen_on_a_dark_page(page):
    for colour in {*look.PALETTE, look.GREY, look.DARK_RED}:
        name, dark = DARK[colour.lower()]
        assert contrast(dark, page) >= (3 if name not in ("ink", "grey", "dark-red", "red") else 4.5), name
    words = [part * 0.65 + 0.35 * ground for part, ground in zip(
        [int(part) / 255 for part in DARK_MARK.split(",")], to_rgb(page), strict=True)]  # fmt: skip
    assert contrast(DARK["#000000"][1], words) >= 4.5, "letters on the strongest mark"


def test_a_picture_becomes_a_part_of_the_page_with_variables_for_its_colours():
    svg, about = drawn()
    wide, narrow = (inlined(text, about["alt"], kind) for text, kind in ((svg, "wide"), (about["narrow"], "narrow")))
    assert wide.startswith('<svg class="drawn wide" role="img" aria-label="A finding &amp; more" ')
    assert 'width="400" height="300"' in wide and both(svg, about) == wide + narrow
    assert not re.search(r"(?:fill|stroke)(?:: ?|=.)(?:#0072b2|#ffffff|#000000)", wide, re.I)
    assert "var(--drawn-blue,#0072b2)" in wide and "var(--drawn-paper,#ffffff)" in wide
    assert "<style" not in wide and "<metadata" not in wide, "they would change the whole page"
    for name in re.findall(r"--drawn-([\w-]+),", wide + narrow):
        assert f"--drawn-{name}: " in variables("#000"), name
    ids = [re.findall(r' id="([^"]+)"', picture) for picture in (wide, narrow)]
    used = [re.findall(r"""(?:href="|url\()#([^")]+)""", picture) for picture in (wide, narrow)]
    assert ids[0] and [set(one) for one in ids] == [set(one) for one in used], "what is used, and nothing else"
    assert not set(ids[0]) & set(ids[1]), "a picture that is not shown lends nothing to another"


def test_colours_of_a_heat_map_and_letters_on_it_stay_as_they_are():
    fig, ax = figures.new_figure()
    figures.draw_confusion([[3, 9], [8, 1]], ["a", "b"], ax)
    picture = inlined(fig._repr_svg_()[0])
    assert look.ON_LIGHT.lower() in picture and look.ON_DARK.lower() in picture and "data:image/png" in picture


@pytest.mark.parametrize("inside", [
    "<script>1</script>", '<g onload="go()"/>', '<a href="javascript:go()">x</a>', "<foreignObject/>",
])  # fmt: skip
def test_a_picture_that_could_do_more_than_be_seen_is_no_part_of_a_page(inside):
    svg = f'<svg viewBox="0 0 1 1">{inside}</svg>'
    assert inlined(svg) is None and both("<svg/>", {"narrow": svg}) is None
    assert inlined('<svg viewBox="0 0 1 1"><text>the model on = 1</text></svg>') is not None


@pytest.mark.parametrize("paper, ink", [("#ffffff", "#000000"), ("#121212", "#ffffff"), ("#1c1b22", "#fbfbfe")],
                         ids=["light", "dark in Chromium", "dark in Firefox"])  # fmt: skip
def test_a_page_of_answers_follows_the_system_to_dark_and_all_its_words_can_be_read(paper, ink):
    page = to_page([Answer("a fine film", "good", 0.9, rationale=(Span(2, 6, "fine"),))])
    assert ":root { color-scheme: light dark; }" in page, "the browser sets the colours of the paper and the letters"
    mark = re.search(r"<mark style=\"background:rgba\(([^)]+)\);color:inherit", page)[1]
    *colour, share = map(float, mark.split(","))
    faint = float(re.search(r"<span style=\"opacity:([.\d]+)\"", page)[1])

    def mixed(colour, share: float) -> list[float]:
        return [share * part + (1 - share) * ground for part, ground in zip(colour, to_rgb(paper), strict=True)]

    assert contrast(ink, mixed([part / 255 for part in colour], share)) >= 4.5, "letters on the mark"
    assert contrast(mixed(to_rgb(ink), faint), paper) >= 4.5, "the words that were not selected"


def test_a_browser_prints_the_marks_of_an_answer_and_prints_a_page_on_light():
    answer = Answer("a fine film", "good", 0.9, rationale=(Span(2, 6, "fine"),))
    (style,) = re.findall('<mark style="([^"]+)"', answer._repr_html_())
    assert {"print-color-adjust:exact", "-webkit-print-color-adjust:exact"} <= set(style.split(";"))
    assert "@media print { :root { color-scheme: light; } }" in to_page([answer])


def test_marked_words_take_their_tone_from_the_page():
    text = figures.highlight_html(["fine"], [1.0])
    assert "background:rgba(var(--mark,230,159,0),0.65)" in marked(text)
    assert "--drawn-mark," in inlined(figures.highlight_svg([("a", ["fine"], [1.0], None)]))
