"""Where the book breaks wide formulas into lines, in a real browser: as an author would, on a phone and on a desk."""

import html
import re
import unicodedata

import jupytext
import pytest
from jupyter_server_mathjax.app import STATIC_ASSETS_PATH

from rationale.runs import root
from tests import browser

pytestmark = pytest.mark.browser

# The lines of each formula, as texts without indices. Letters of one line overlap vertically, those of two do not.
LINES = """() => [...document.querySelectorAll('.given')].map(given => {
    const walk = document.createTreeWalker(given, NodeFilter.SHOW_TEXT), letters = [];
    while (walk.nextNode()) {
        const around = walk.currentNode.parentElement, size = parseFloat(getComputedStyle(around).fontSize);
        if (around.closest('.MJX_Assistive_MathML, .tag, script')) continue;
        if (size < .8 * parseFloat(getComputedStyle(around.closest('.math > span')).fontSize)) continue;
        const range = document.createRange();
        range.selectNodeContents(walk.currentNode);
        const { left, top, bottom } = range.getBoundingClientRect(), edge = (bottom - top) / 3;
        if (bottom - top > 2 * size) continue;  // of the fonts of large brackets, which reach into the lines above
        if (walk.currentNode.data.trim()) {
            letters.push({ left, top: top + edge, bottom: bottom - edge, text: walk.currentNode.data });
        }
    }
    const lines = [];
    for (const letter of letters.sort((one, other) => one.top - other.top)) {
        const line = lines.at(-1);
        if (!line || letter.top > line.bottom) lines.push({ bottom: letter.bottom, letters: [letter] });
        else { line.letters.push(letter); line.bottom = Math.max(line.bottom, letter.bottom); }
    }
    return lines.map(line => line.letters.sort((one, other) => one.left - other.left).map(l => l.text).join(''));
})"""
WIDE = "() => [...document.querySelectorAll('div.arithmatex')].map(box => box.scrollWidth - box.clientWidth)"
CHAIN = r"S(x) = E[s_1 s_2 s_3] = \big(1 - P(u_1 = 0)\big)\, \big(1 - P(u_2 = 0)\big) = \big(1 - k_t\big)^{b_t} c"
GIVEN = {
    CHAIN: ["S(x)=", "=", "="],
    r"z \in [0, 1] \;\Rightarrow\; E\|z\|_0 \ge E\|z\|_1 \ge E\|z\|_2^2 \ge E\|z\|_3": ["z", "≥"],
    r"\pi\ln\pi + \rho\ln\rho + \sigma\ln\sigma + \tau\ln\tau + \int\nolimits_0^1 f(t)\ln f(t)\,dt": ["π", "+"],
    r"L = n^{-1} \sum\nolimits_t \Big[P(z_t = 0)\, P(y_t \ne 0) + P(z_t \ne 0)\, P(y_t = 0)\Big]": ["L=", "+"],
    r"f(x, y) = g(x) (1 - p)\; \big(E[c\mid z = 1] - E[c\mid z = 0]\big) h(y)": ["f(x,y)=g(x)(1−p)", "−"],
    r"W = P(0 < z < 1) \cdot \exp\Big(-\int\nolimits_0^1 f(u) \ln f(u)\, \mathrm{d}u\Big)": ["W=", "⋅exp"],
    r"\min f(x) + g(x) \quad\text{s.t.}\quad x + y + z + u + v + w = 1": ["min", "x+y"],
}


def page_of(formulas: list[str], folder) -> str:
    """A page with these formulas as the book shows them, without the rest of the book."""
    (folder / "mathjax").symlink_to(STATIC_ASSETS_PATH)
    style, *scripts = (
        (root() / "tools" / "book" / name).read_text("utf-8") for name in ("book.css", "breaks.js", "book.js")
    )
    boxes = "".join(
        f'<div class="equation given"><div class="arithmatex">\\[{html.escape(latex)}\\]</div>'
        f'<a class="tag" href="#">(S{number})</a></div>'
        for number, latex in enumerate(formulas)
    )
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><style>{style}</style>'
    last = '<script src="mathjax/MathJax.js?config=TeX-AMS-MML_HTMLorMML-full"></script>'
    inside = "".join(f"<script>{script}</script>" for script in scripts)
    body = f'<body style="margin: 0 16px; font-size: 16px"><article class="md-typeset">{boxes}</article>'
    (folder / "page.html").write_text(f"<!doctype html><head>{head}</head>{body}{inside}{last}</body>", "utf-8")
    return (folder / "page.html").as_uri()


def shown(started, formulas: list[str], folder, size: dict[str, int]):
    page = started.new_context(viewport=size).new_page()
    page.goto(page_of(formulas, folder))
    page.wait_for_function(f"document.querySelectorAll('.MathJax_Display').length >= {len(formulas)}")
    page.evaluate("new Promise(done => MathJax.Hub.Queue(() => done()))")
    return page


def test_a_wide_formula_is_broken_before_a_relation_or_an_operator(started, tmp_path):
    page = shown(started, list(GIVEN), tmp_path, browser.PHONE)
    for (latex, begins), lines in zip(GIVEN.items(), page.evaluate(LINES), strict=True):
        lines = [re.sub(r"\s", "", unicodedata.normalize("NFKC", line)) for line in lines]
        assert len(lines) == len(begins), f"{latex}: {lines}"
        assert all(line.startswith(begin) for line, begin in zip(lines, begins, strict=True)), f"{latex}: {lines}"
    assert max(page.evaluate(WIDE)) <= 1


@pytest.mark.deep
def test_on_a_phone_no_formula_of_the_notebooks_is_wider_than_the_page(started, tmp_path):
    cells = [cell for path in sorted((root() / "notebooks").glob("*.py")) for cell in jupytext.read(path).cells]
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    found = [latex for text in texts for latex in re.findall(r"\$\$(.+?)\$\$", text, re.S)]
    formulas = [re.sub(r"\s*\\tag\{\w+\}|\n> ", " ", latex) for latex in found]
    assert len(formulas) > 80
    page = shown(started, formulas, tmp_path, browser.PHONE)
    wide = page.evaluate("""() => [...document.querySelectorAll('div.arithmatex')]
        .filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.querySelector('script')?.text)""")
    assert not wide


def test_what_fits_is_not_broken(started, tmp_path):
    page = shown(started, [CHAIN], tmp_path, browser.PROJECTOR)
    assert len(page.evaluate(LINES)[0]) == 1
