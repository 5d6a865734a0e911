"""Pages load nothing from elsewhere, show formulas without a script, and take no text of a run or corpus for HTML."""

import re
import threading
from html.parser import HTMLParser

import jupytext
import nbformat
import pandas as pd
import pytest
from small import classified, corpus, parameters

from rationale import figures, training
from rationale.data.example import Example
from rationale.explorers import explore_mappings
from rationale.explorers.common import missing_run_message
from rationale.explorers.sentence import explore_sentence
from rationale.runs import page as pages
from rationale.runs import root
from rationale.runs.page import formula, lab_page, prepared
from rationale.runs.saved import save_run

HOSTILE = "<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags of a page with their attributes."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def loaded(page: str) -> list[str]:
    """What a page would load from elsewhere, and the scripts in it."""
    links = [(tag, value or "") for tag, attrs in Tags(page).found for name, value in attrs.items()
             if tag != "a" and name in ("src", "href", "data", "poster", "srcset")]  # fmt: skip
    found = [f"{tag} {value[:80]}" for tag, value in links if not value.startswith(("data:", "#"))]
    found += [f"script {attrs}" for tag, attrs in Tags(page).found if tag == "script"]
    styles = "\n".join(re.findall(r"<style.*?</style>", page, re.S))
    return found + re.findall(r"@import[^;]*|url\(\s*[\"']?(?:https?:)?//[^)]*", styles)


@pytest.fixture(scope="module")
def page() -> str:
    new = nbformat.v4
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "Slider()"}
    outputs = [new.new_output("display_data", data=data) for data in (widget, {"text/plain": HOSTILE})]
    cells = [
        new.new_markdown_cell("# Title\n\nA gate $z < 1$, and\n\n$$\\arg\\max_k \\hat y_k \\tag{H2}$$\n\nend."),
        new.new_code_cell("print(1)", outputs=[*outputs, new.new_output("stream", name="stdout", text=HOSTILE)]),
    ]
    metadata = {"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {"a": {}}}}}
    return lab_page(new.new_notebook(cells=cells, metadata=metadata), f"run {HOSTILE}")


def test_a_page_stands_alone(page):
    assert not loaded(page)
    assert loaded('<script src="https://a.b/c.js"></script><style>@import "x";</style>') != [], "the test sees links"


def test_parts_of_a_formula_may_stand_on_lines_of_their_own_and_none_is_lost():
    shown = formula(r"a = \frac{b}{c}, \qquad d \quad e \tag{H2}", True)
    assert shown.count("<math") == 3 and shown.count('id="eq-H2"') == 1 and "--letters: 5" in shown
    for whole in (r"\{ a \quad b \}", r"\left( a \qquad b \right)", r"\text{if \quad so}", r"a &= b \\ \qquad c &= d"):
        assert formula(whole, True).count("<math") + formula(whole, True).count("<code") <= 2
    assert formula(r"\left( a \qquad b \right)", True).count("<math") == 1, "no bracket is torn apart"


def test_a_page_shows_formulas_by_itself(page):
    assert page.count("<math") == 2 and "$" not in re.sub(r"<style.*?</style>", "", page, flags=re.S)
    assert 'id="eq-H2"' in page and "<span>(H2)</span>" in page and r"\tag" not in page
    assert "The sliders work in the notebook." in page


def test_a_page_contains_an_explorer_that_needs_no_kernel_and_nothing_to_load():
    shown = nbformat.v4.new_output("display_data", data=explore_mappings(lam=0.2)._repr_mimebundle_()[0])
    cell = nbformat.v4.new_code_cell("explore_mappings(lam=0.2)", outputs=[shown])
    metadata = {"widgets": {"application/vnd.jupyter.widget-state+json": {"state": {}}}}
    page = lab_page(nbformat.v4.new_notebook(cells=[cell], metadata=metadata), "explorer")
    assert page.count('<div class="explorer"') == 1 and "The sliders work in the notebook." not in page
    assert [found for found in loaded(page) if "src" in found or "import" in found] == []


def test_a_page_escapes_its_title_and_what_was_printed(page):
    assert "<img" not in page and page.count("&lt;img src=x onerror=alert(1)&gt;") == 3


def test_every_formula_of_the_notebooks_can_be_shown_without_a_script():
    pattern = re.compile(r"\$\$(.+?)\$\$|(?<!\$)\$([^$]+?)\$(?!\$)", re.S)
    cells = [cell for path in sorted((root() / "notebooks").glob("*.py")) for cell in jupytext.read(path).cells]
    texts = [re.sub(r"`[^`]*`", "", cell.source) for cell in cells if cell.cell_type == "markdown"]
    found = dict.fromkeys(match[1] or match[2] for text in texts for match in pattern.finditer(text))
    assert len(found) > 400
    left = {latex: shown for latex in found if re.search(r"<code>|\\[A-Za-z]", shown := formula(latex, True))}
    assert not left


def test_names_of_functions_stand_apart_and_relations_are_operators():
    text = re.sub(r"<mspace[^>]*>", "_", formula(r"k \ln k + 2\log_2\frac{a}{b} - \ln(x)"))
    assert re.sub(r"<[^>]+>", "", text) == "k_ln_k+2_log2_ab−ln(x)"
    shown = formula(r"a \sim b \iff c'")
    assert all(f"<mo>{sign}</mo>" in shown for sign in "∼⟺′") and "~" not in shown


def test_the_bars_of_a_norm_have_one_height_and_those_that_are_asked_to_grow_do():
    shown = formula(r"\tfrac12\lVert y - x\rVert^2 + \lambda \sum_i \lvert y_i\rvert")
    assert shown.count('<mo stretchy="false">‖</mo>') == 2 and shown.count('<mo stretchy="false">|</mo>') == 2, shown
    assert 'stretchy="true"' in formula(r"\left| \frac12 \right|"), "written with left and right"


def test_a_formula_that_cannot_be_converted_is_shown_as_written():
    assert formula(r"\begin{foo}<b>") == r"<code>\begin{foo}&lt;b&gt;</code>"
    assert "<img" not in formula(rf"\text{{{HOSTILE}}}") and "<b>" not in formula(r"\text{<b>}")


# --- folded code


def folded_and_seen(page: str, kind: str = "code") -> tuple[list[str], str]:
    """The summaries of the parts of a page that are folded, and the text that is seen before anything is opened."""
    body = page[page.index("<body") :]
    summaries = re.findall(rf'<details class="{kind}"><summary>(.*?)</summary>', body)
    while (shorter := re.sub(r"<details(?:(?!<details).)*?</details>", "", body, flags=re.S)) != body:
        body = shorter
    return summaries, re.sub(r"<[^>]+>", "", body)


def tagged(source: str, *tags: str, text: str = ""):
    outputs = [nbformat.v4.new_output("stream", text=text)] if text else []
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(tags)}, outputs=outputs)


def test_a_page_shows_prose_and_outputs_and_folds_all_code():
    text = "```python\ndef shown_source():\n    pass\n```"
    source = nbformat.v4.new_output("display_data", data={"text/markdown": text})
    cells = [
        nbformat.v4.new_markdown_cell("A sentence."),
        tagged("a_parameter = 1", "parameters"),
        tagged("import a_module"),
        tagged("computed_here()", text="what was computed"),
        tagged("assert checked_here", "check", text="what was checked"),
        tagged("drawn_here()", "figure"),
        nbformat.v4.new_code_cell("show_source(x)", outputs=[source]),
        tagged("the_guess = 1", "prediction"),
        tagged("the_answer = 2", "solution", text="what the answer prints"),
        tagged("written_by_the_student = ...", "answer"),
    ]
    summaries, seen = folded_and_seen(page := lab_page(nbformat.v4.new_notebook(cells=cells), "t"))
    assert summaries == [
        "Code: parameters", "Code: imports", "Code", "Code: check", "Code: figure", "Code",
        "Code from the package: shown_source",
    ]  # fmt: skip
    assert folded_and_seen(page, "solution")[0] == ["Prediction", "Solution"]
    for text in ("A sentence.", "what was computed", "what was checked", "written_by_the_student"):
        assert text in seen, f"{text} is folded away"
    hidden = ("a_parameter", "a_module", "computed_here", "checked_here", "drawn_here", "shown_source")
    for text in (*hidden, "the_guess", "the_answer", "what the answer prints"):
        assert text in page and text not in seen, f"{text} is in view"
    assert page.count("<button") == 1 and "Show all code" in seen


# --- text of a run or a corpus


def test_labels_and_words_of_a_run_are_text_in_the_explorer(tmp_path):
    folder = tmp_path / "10_first_rationale" / "run"
    p = parameters(epochs=1)
    splits = classified(corpus())
    splits = {name: [Example((HOSTILE, *e.tokens), e.label) for e in part] for name, part in splits.items()}
    result = training.train_extractor(p, splits, "classes", 2, folder)
    save_run(folder, result, p, labels=[HOSTILE, f"b{HOSTILE}"])
    explorer = explore_sentence([folder], f"a nice {HOSTILE} unknownword")
    explorer.force({0: "open"})
    assert "<img" not in explorer.readout.value and "&lt;img" in explorer.readout.value
    for word in explorer._row.children:
        assert "<img" not in word.children[1].value
        assert not getattr(word.children[0], "description_allow_html", False)


@pytest.mark.parametrize("shown", [
    lambda: figures.highlight_html([HOSTILE], [1.0], [True], HOSTILE),
    lambda: figures.highlight_svg([(HOSTILE, [HOSTILE], [0.5], None)]),
    lambda: figures.show_table(pd.DataFrame({HOSTILE: [HOSTILE] * 3, f"2{HOSTILE}": ["a", HOSTILE, "c"]})),
    lambda: figures.show_table(pd.DataFrame({HOSTILE: [1.5, 2.5]})),
    lambda: pd.DataFrame({HOSTILE: [HOSTILE]}, index=[HOSTILE])._repr_html_(),
    lambda: missing_run_message(HOSTILE, HOSTILE).value,
], ids=["rationale", "picture", "table", "numbers", "frame", "missing run"])  # fmt: skip
def test_no_label_word_or_title_is_taken_for_html(shown):
    assert "<img" not in shown() and "&lt;img" in shown()


# --- pages that are prepared while their notebook is executed


def test_a_page_is_prepared_in_the_background_and_its_mistakes_are_left_to_the_page(monkeypatch):
    monkeypatch.setattr(pages, "SECONDS", 0.0)
    made, began, may_end = [], threading.Event(), threading.Event()

    def to_html(notebook, title):
        made.append((notebook, threading.current_thread()))
        began.set()
        may_end.wait(10)
        raise ValueError("no page")

    with prepared(to_html, "the notebook"):
        assert began.wait(10), "it begins while the notebook is executed"
        may_end.set()
    ((notebook, thread),) = made
    assert notebook == "the notebook" and not thread.is_alive(), "nobody uses it when the page is made"
    assert thread is not threading.main_thread()


def test_a_short_run_prepares_no_page_and_a_failed_one_waits_for_none(monkeypatch):
    monkeypatch.setattr(pages, "SECONDS", 60.0)
    made = []
    with prepared(lambda *arguments: made.append(arguments), None):
        pass
    assert not made
    monkeypatch.setattr(pages, "SECONDS", 0.0)
    began, may_end = threading.Event(), threading.Event()
    with pytest.raises(KeyError), prepared(lambda *_: began.set() or may_end.wait(60), None):
        assert began.wait(10)
        raise KeyError
    assert not may_end.is_set(), "the error came while the page was still being made"
    may_end.set()


def test_a_prepared_page_is_the_same_page(page):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("A gate $z < 1$.")])
    first = lab_page(notebook, "t")
    assert lab_page(notebook, "t") == first, "nothing of the first is left in the second"
