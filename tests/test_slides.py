"""The slides of the meetings: their form, the places of their pictures, and the pages that are made of them."""

import base64
import re
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rationale.errors import BadInput
from rationale.runs import RunFailed, notebook_path, root
from rationale.runs.cells import reads_committed
from rationale.runs.committed import read_results
from rationale.runs.page import formula
from tools.book.__main__ import THEORY
from tools.slides import __main__ as slides
from tools.slides.__main__ import Deck, Place, deck_files, deck_page, find_picture, picture_html, read_deck, write_decks

FILES = deck_files()
each_deck = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
PNG = base64.b64encode(b"not really a picture").decode()


def test_each_meeting_of_the_plan_has_a_deck() -> None:
    plan = (root() / "notebooks" / "00_read_me_first.py").read_text("utf-8")
    meetings = sorted(set(re.findall(r"^    \((\d), \d+, ", plan, re.M)))
    assert [file.stem for file in FILES] == [f"meeting_{number}" for number in meetings] and len(meetings) == 5
    titles = [read_deck(file).title for file in FILES]
    assert [title.split(":")[0] for title in titles] == [f"Meeting {number}" for number in meetings]


@each_deck
def test_every_picture_of_a_deck_is_in_its_notebook(file: Path) -> None:
    deck = read_deck(file)
    places = [slide.figure for slide in deck.slides]
    for place in places:
        assert find_picture(jupytext.read(notebook_path(place.notebook)), place)
    assert len({tuple(place.model_dump().values()) for place in places}) == len(places), "a picture is shown twice"


@each_deck
def test_a_deck_needs_no_data(file: Path) -> None:
    for name in {slide.figure.notebook for slide in read_deck(file).slides}:
        alone = name.startswith((*THEORY, "10")) or reads_committed(notebook_path(name))
        assert alone, f"{name} needs data or a run"


@each_deck
def test_a_slide_says_one_thing_and_its_notes_say_more(file: Path) -> None:
    for slide in read_deck(file).slides:
        assert len(slide.title) <= 70, f"{slide.title}: too long to be read from the back row"
        assert len(slide.text.split()) <= 30 and slide.text.endswith((".", "?"))
        assert len(re.findall(r"[.?](?: |$)", slide.text)) == 1, f"{slide.text}: one sentence"
        assert 40 <= len(slide.notes.split()) <= 150, f"{slide.title}: {len(slide.notes.split())} words of notes"
        for found in re.findall(r"\$([^$]+)\$", f"{slide.title} {slide.text} {slide.notes}"):
            assert "<code>" not in formula(found), found
        typed = re.findall(r"\b\d+[.,]\d+|\b\d+ %", f"{slide.title} {slide.text} {slide.notes}")
        assert not typed, f"{slide.title}: {typed}: numbers stand in the pictures, which are drawn from the results"


def test_what_the_notes_say_about_our_runs_on_sentence_pairs_holds() -> None:
    notes = " ".join(" ".join(slide.notes.split()) for slide in read_deck(FILES[3]).slides)
    assert "Four of our seventeen runs of fusedmax" in notes and "each of them is behind softmax on average" in notes
    page = " ".join((root() / "notebooks" / "papers" / "3_niculae.md").read_text("utf-8").split())
    assert "each of them is behind softmax on average" in page
    rows = read_results().query("task == 'nli' and split == 'test'")
    rows = rows[rows["network"].fillna("").eq("")]
    opened = rows.query("model == 'fusedmax' and metric == 'rate_selected'")["value"]
    assert sorted(opened > 0.5) == [False] * 13 + [True] * 4, "most cells are open in four runs of seventeen"
    means = rows[rows["metric"].eq("accuracy")].groupby("model")["value"].mean()
    assert (means[["sparsemax", "fusedmax", "oscarmax", "sq_pnorm_max"]] < means["softmax"]).all()


def shown(data: dict, **metadata) -> list:
    return [new_output("display_data", data, metadata=metadata)]


NOTEBOOK = new_notebook(cells=[
    new_markdown_cell("# Title\n\n## 1. First\n\n..."),
    new_code_cell("draw()", metadata={"tags": ["figure"]},
                  outputs=[new_output("stream", text="said"), *shown({"image/png": PNG},
                           **{"image/png": {"alt": 'says "why"'}})]),
    new_markdown_cell("More.\n\n## 2. Second"),
    new_code_cell("figures.highlight_html(a)", outputs=shown({"text/html": "<b>good</b>"})),
    new_code_cell("figures.highlight_html(b)", metadata={"tags": ["check"]}, outputs=shown({"text/html": "<b>no</b>"})),
    new_code_cell("figures.draw()", metadata={"tags": ["figure"]}, outputs=shown({"image/svg+xml": "<svg/>"})),
    new_code_cell("figures.draw()", metadata={"tags": ["figure"]}, outputs=shown({"text/html": "<table>"})),
])  # fmt: skip


def test_a_line_of_a_code_block_is_no_heading() -> None:
    block = "## 1. First\n\n```\n## no heading\n```\n\nMore."
    before, figure = (new_code_cell("draw()", metadata={"tags": ["figure"]}) for _ in range(2))
    notebook = new_notebook(cells=[before, new_markdown_cell(block), figure])
    assert find_picture(notebook, Place(notebook="x", section="First")) is figure
    with pytest.raises(BadInput, match="it has First$"):
        find_picture(notebook, Place(notebook="x", section="no heading"))


def test_a_picture_is_found_by_its_section_and_number() -> None:
    first, second, third, none = (
        picture_html(find_picture(NOTEBOOK, Place(notebook="x", section=section, number=number)), "a title")
        for section, number in (("First", 1), ("Second", 1), ("Second", 2), ("Second", 3))
    )
    assert first == f'<img src="data:image/png;base64,{PNG}" alt="says &quot;why&quot;">'
    assert second == '<div class="texts"><b>good</b></div>' and none == ""
    assert third.startswith('<img src="data:image/svg+xml;base64,') and 'alt="a title"' in third


@pytest.mark.parametrize("place, message", [
    (Place(notebook="x", section="Third"), "x has no section 'Third'; it has First; Second"),
    (Place(notebook="x", section="First", number=2), "x, section 'First', has no picture 2, but 1"),
])  # fmt: skip
def test_a_picture_that_is_not_there_is_named(place: Place, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        find_picture(NOTEBOOK, place)


def slide(**changes) -> dict:
    figure = {"notebook": "x", "section": "First"}
    return {"title": "A *title* & $z$", "text": "Text.", "figure": figure, "notes": "- **one**\n- two"} | changes


def test_a_deck_is_one_file_that_loads_nothing() -> None:
    deck = Deck(title="Meeting 1: <x>", slides=[slide()] * 5)
    page = deck_page(deck, [f"<i>{number}</i>" for number in range(5)])
    assert page.count("<section ") == page.count('<aside class="notes"') == 5 and "3 / 5" in page
    assert "<h1>A <em>title</em> &amp; <math" in page and "<li><strong>one</strong></li>" in page
    assert "Meeting 1: &lt;x&gt;" in page and "x, First" in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page) and "http" not in re.sub(r"xmlns=\"[^\"]+\"", "", page)


@pytest.mark.parametrize("text, message", [
    ("title: x\nslides: []", "at least 5"),
    ("title: x\nslide: []", "slide"),
    ("- x", "mapping"),
    ("title: [", "parsing|expected"),
])  # fmt: skip
def test_a_deck_in_another_form_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "meeting_9.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=message) as error:
        read_deck(file)
    assert "meeting_9.yaml" in str(error.value)


def test_a_deck_and_an_index_are_written_and_a_slide_without_its_picture_is_named(tmp_path: Path, monkeypatch) -> None:
    source = tmp_path / "meeting_1.yaml"
    places = [("First", 1), ("Second", 1), ("Second", 2), ("First", 1), ("First", 1)]
    figures = [{"notebook": "x", "section": section, "number": number} for section, number in places]
    written = Deck(title="Meeting 1", slides=[slide(figure=figure) for figure in figures])
    source.write_text(written.model_dump_json())
    monkeypatch.setattr(slides, "deck_files", lambda: [source])
    [page], wrong = write_decks(tmp_path / "out", lambda name: NOTEBOOK)
    assert not wrong and page.name == "meeting_1.html" and page.read_text().count("<img ") == 4
    index = (tmp_path / "out" / "index.html").read_text()
    assert 'href="meeting_1.html">Meeting 1</a>' in index and "the speaker's notes" in index.replace("&#x27;", "'")
    written.slides[2].figure.number = 3
    source.write_text(written.model_dump_json())
    none, [message] = write_decks(tmp_path / "out", lambda name: NOTEBOOK)
    assert not (tmp_path / "out" / "meeting_1.html").exists(), "an old deck would be taken for the new one"
    assert not none and "meeting_1.yaml: slide 'A *title* & $z$'" in message
    assert "x, section 'Second', picture 3, is not in its run" in message


def test_a_deck_whose_notebook_fails_is_named_and_the_others_are_made(tmp_path: Path, monkeypatch, capsys) -> None:
    def executed(notebook: Path, outputs: Path) -> Path:
        if notebook.stem.startswith("4"):
            raise RunFailed("boom")
        nbformat.write(jupytext.read(notebook), tmp_path / "run.ipynb")
        return tmp_path

    monkeypatch.setattr(slides, "executed", executed)
    monkeypatch.setattr(slides, "root", lambda: tmp_path)
    monkeypatch.setattr(slides, "deck_files", lambda: FILES)
    monkeypatch.setattr(slides, "picture_html", lambda cell, title: "<i>a picture</i>")
    assert slides.main([]) == 1
    out, messages = capsys.readouterr()
    first, last = out.splitlines()
    assert re.fullmatch(r"executed first, in about \d+ minutes on one core: 0\w+(, \w+)+", first)
    assert last.startswith("3 decks of slides: ") and "not made: 2" in last and messages.count("boom") == 2
    made = sorted(path.name for path in (tmp_path / "outputs" / "slides").iterdir())
    assert made == ["index.html", "meeting_1.html", "meeting_2.html", "meeting_3.html"]
