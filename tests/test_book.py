"""The book: a small one, of two notebooks made here and the whole package, is built once and walked through."""

import base64
import json
import os
import re
import shutil
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import griffe
import jupytext
import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from rationale.data import data_folder
from rationale.errors import BadInput
from rationale.explorers import explore_shapes
from rationale.runs import RunFailed, root
from rationale.runs.page import STYLE
from tools.book import __main__ as book
from tools.book.__main__ import (
    RENAMED,
    build,
    committed_pictures,
    executed,
    how,
    instead,
    reads_own_texts,
    with_colours,
)
from tools.book.cells import label_cells
from tools.book.drawings import draw_in_pages, finding, least_width
from tools.book.links import broken, link_equations
from tools.book.pages import blocks, modules, notebook_page, public_names, reading_order

PNG = base64.b64encode(b"not really a picture").decode()
README = """# A book

Intro, with [a notebook](notebooks/01_first.py), [a page](NOTATION.md) and [a file](params/demo.yaml).

| notebook | what it does |
|---|---|
| [`02_second`](notebooks/02_second.py) | is read first |
| [`01_first`](notebooks/01_first.py) | is read second |
"""


def shown(data: dict, **metadata) -> list:
    return [new_output("execute_result", data, metadata=metadata)]


EXPLORER = explore_shapes()
FIRST = new_notebook(cells=[
    new_markdown_cell("# Define things\n\n**You will** see\n- a list;\n- and more."),
    new_markdown_cell("$$a = b \\tag{K1}$$\n\n> $$c \\tag{H2}$$"),
    new_code_cell("a = 1  # eq. (K1)", metadata={"tags": ["parameters"]}),
    new_code_cell("import torch"),
    new_code_cell("fig", metadata={"tags": ["figure"]}, outputs=shown(
        {"image/png": PNG, "text/plain": "<Figure>"}, **{"image/png": {"alt": 'says "why"', "width": 320}})),
    new_markdown_cell("Explained.\n\n**Exercise 1** (predict, change, explain; 7 minutes). *Predict* `x` by (K1)."),
    new_code_cell("x = 0 + 1", metadata={"tags": ["prediction"]}),
    new_code_cell("y = a\n# It is <a>, by\n# the rule.", metadata={"tags": ["solution"]}, outputs=[
        new_output("stream", text="the\n"), new_output("stream", text="answer")]),
    new_code_cell("assert x == 1", metadata={"tags": ["check"]}, outputs=[new_output("stream", text="solved")]),
    new_code_cell("slider", metadata={"tags": ["interactive"]}, outputs=shown(
        {"application/vnd.jupyter.widget-view+json": {"model_id": "x"}, "text/plain": "VBox(children=())"})),
    new_code_cell("explorer", metadata={"tags": ["interactive"]}, outputs=shown(EXPLORER._repr_mimebundle_()[0])),
    new_markdown_cell("After the explorer, eq. (K1) is mentioned again."),
])  # fmt: skip
SECOND = new_notebook(cells=[
    new_markdown_cell("# Use things\n\nBy eq. (K1), eqs. (H2)-(K1) and (K1, H2) of `01_first`; R2 and (Z9) are none."),
    new_code_cell("table", outputs=shown({"text/html": "<table><tr>\n\n<td>cell</td></tr></table>", "text/plain": ""})),
])  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("book") / "site"
    given = {"01_first": (FIRST, "!!! info\n    Executed here."), "02_second": (SECOND, "")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RENAMED, "00_before", "01_first")
        wrong = build({name: given[name] for name in reading_order(README)}, README, site)
    assert not wrong, f"the book warns of {wrong}"
    return site


def links(page: Path, words: str) -> set[str]:
    """Where the links with these words lead, wherever a narrow column may break the words."""
    shown = page.read_text().replace("<wbr>", "")
    return set(re.findall(rf'<a class="mention" href="([^"]*)">{words}</a>', shown))


@pytest.mark.deep
def test_the_book_stands_in_the_order_of_the_readme(site: Path) -> None:
    found = re.findall(r'<a href="(\d\d_\w+)\.html" class="md-nav__link', (site / "index.html").read_text())
    assert found == ["02_second", "01_first"]
    assert 'href="01_first.html">a notebook</a>' in (site / "index.html").read_text()


def test_the_readme_of_the_project_orders_every_notebook() -> None:
    found = reading_order((root() / "README.md").read_text())
    assert sorted(found) == sorted(path.stem for path in (root() / "notebooks").glob("*.py"))


def test_a_page_that_has_moved_leads_to_a_notebook_that_is_there() -> None:
    there = {path.stem for path in (root() / "notebooks").glob("*.py")}
    assert set(RENAMED.values()) <= there and not set(RENAMED) & there


@pytest.mark.deep
def test_the_old_address_of_a_page_leads_to_the_new_one(site: Path) -> None:
    page = (site / "00_before.html").read_text()
    assert page.count('href="01_first.html"') == 1 and "url=01_first.html" in page


@pytest.mark.deep
def test_mentions_of_an_equation_lead_to_it_from_prose_code_and_docstrings(site: Path) -> None:
    first = (site / "01_first.html").read_text()
    for label in ("K1", "H2"):
        assert f'id="eq-{label}"' in first and f"\\tag{{{label}}}" not in first.split("<article")[1]
        assert links(site / "02_second.html", label) == {f"01_first.html#eq-{label}"}
    assert links(site / "01_first.html", "K1") == {"#eq-K1"}, "in a comment of the same page"
    assert links(site / "package" / "rationale.distributions.html", "K1") == {"../01_first.html#eq-K1"}
    assert links(site / "02_second.html", "01_first") == {"01_first.html"}
    assert not links(site / "02_second.html", "R2") and not links(site / "02_second.html", "Z9")


def test_an_equation_without_a_label_is_left_alone(tmp_path: Path) -> None:
    plain, own = (f'<div class="arithmatex">\\[{text}\\]</div>' for text in ("k = 1", r"f = 2 \tag{K1}"))
    between = "<p>The text between the two equations.</p>"
    (tmp_path / "page.html").write_text(f"<article>{plain}{between}{own}{plain}</article>")
    assert link_equations(tmp_path) == {"K1": "page.html"}
    page = (tmp_path / "page.html").read_text()
    assert f'<article>{plain}{between}<div class="equation" id="eq-K1">' in page, "the label is that of its equation"


def test_a_comma_behind_a_long_formula_belongs_to_it(tmp_path: Path) -> None:
    short, long = (f'<span class="arithmatex">\\({text}\\)</span>' for text in ("a", "a + " * 12 + "b"))
    (tmp_path / "page.html").write_text(f"<article>{short}, {long}, {long} and</article>")
    link_equations(tmp_path)
    assert (tmp_path / "page.html").read_text() == f"<article>{short}, {long[:-9]},{long[-9:]} {long} and</article>"


@pytest.mark.deep
def test_no_link_is_dead_and_nothing_is_loaded_from_outside(site: Path) -> None:
    assert not broken(site)
    planted = site / "planted.html"
    planted.write_text(
        '<a href="nowhere.html"></a><a href="01_first.html#nothing"></a><a href="https://elsewhere.org"></a>'
        '<script src="https://elsewhere.org/a.js"></script><img alt="" src="img/none.png">'
    )
    try:
        assert [line.split(" ", 1)[1] for line in broken(site)] == [
            "href nowhere.html does not exist",
            "01_first.html#nothing has no such anchor",
            "loads https://elsewhere.org/a.js",
            "src img/none.png does not exist",
        ]
    finally:
        planted.unlink()


@pytest.mark.deep
def test_every_public_name_of_the_package_is_in_the_reference(site: Path) -> None:
    for module in modules():
        page = (site / "package" / f"{module}.html").read_text()
        missing = [name for name in public_names(module) if f'id="{name}"' not in page]
        assert not missing, f"the reference lacks {missing}"
    assert "rationale.distributions.rectified.HardKuma" in public_names("rationale.distributions.rectified")


@pytest.mark.deep
def test_figures_are_shown_solutions_folded_and_sliders_explained(site: Path) -> None:
    page = (site / "01_first.html").read_text().split("<article")[1]
    assert 'alt="says &quot;why&quot;"' in page and "&lt;Figure&gt;" not in page
    assert base64.b64decode(PNG) == next((site / "img").glob("01_first-*.png")).read_bytes()
    folded = re.findall(r'<details class="solution"[^>]*>(.*?)</details>', page, re.S)
    prediction, solution, explanation = (re.sub("<[^>]+>", "", part) for part in folded)
    assert prediction.split() == ["Prediction", *"x = 0 + 1".split()], "before anything is computed"
    assert "the\nanswer" in solution and "solved" in solution and page.count("solved") == 1
    assert explanation.split() == ["Explanation", *"It is &lt;a&gt;, by the rule.".split()]
    assert "the rule" not in solution
    assert "make lab" in page and "VBox" not in page
    assert "Executed here." in page and page.index("Executed here.") > page.index("Define things")
    assert "<td>cell</td>" in (site / "02_second.html").read_text()


def without_folded(page: str) -> str:
    """The text of a page that is seen before anything is opened."""
    while (shorter := re.sub(r"<details(?:(?!<details).)*?</details>", "", page, flags=re.S)) != page:
        page = shorter
    return re.sub(r"<[^>]+>", "", page)


@pytest.mark.deep
def test_a_page_reads_as_prose_and_pictures_and_ends_with_its_exercises(site: Path) -> None:
    page = (site / "01_first.html").read_text().split("<article")[1].split("</article")[0]
    summaries = re.findall(r'<details class="code">\s*<summary>(.*?)</summary>', page)
    assert summaries == ["Code: parameters, imports, figure", "Code: explorer", "Code: explorer"]
    seen = without_folded(page)
    for hidden in ("import torch", "a = 1", "assert"):
        assert hidden in re.sub("<[^>]+>", "", page) and hidden not in seen, f"{hidden} is in view"
    assert page.count(">Show all code</button>") == 1
    task, last = seen.index("Predict x by (K1)"), seen.index("After the explorer")
    assert last < seen.index("Exercises") < task, "the exercises come after everything else"
    assert seen.index("Explained.") < seen.index("Here belongs exercise 1") < last
    for place in ("exercise-1", "for-exercise-1"):
        assert f'href="#{place}"' in page and f'id="{place}"' in page, "there and back"


def test_exercises_in_a_section_of_their_own_are_not_pointed_at_and_the_section_stands_once(tmp_path: Path) -> None:
    form = "**Exercise {}** (predict, change, explain; 7 minutes). *Predict* `x`."
    task = [new_code_cell("x = 1", metadata={"tags": [tag]}) for tag in ("prediction", "solution", "check")]
    own = ["# T\n\n## 1. One\n\nText.", f"## Exercises\n\n{form.format(1)}", form.format(2)]
    cells = [new_markdown_cell(own[0]), new_markdown_cell(own[1]), *task, new_markdown_cell(own[2]), *task]
    page = notebook_page(new_notebook(cells=cells), "x", "", tmp_path)
    assert page.count("## Exercises\n") == 1 and "Here belongs" not in page and "for-exercise" not in page
    cells = [new_markdown_cell("# T\n\n## 1. One"), new_markdown_cell(form.format(1)), *task]
    page = notebook_page(new_notebook(cells=cells), "x", "", tmp_path)
    assert "Here belongs [exercise 1]" in page and "#for-exercise-1" in page


@pytest.mark.deep
def test_a_page_can_be_downloaded_as_a_notebook(site: Path) -> None:
    page = (site / "01_first.html").read_text()
    links = re.findall(r'download="01_first.ipynb" href="data:application/x-ipynb\+json;base64,([^"]+)"', page)
    assert len(links) == 2, "below the title and at the end"
    texts = {base64.b64decode(link).decode() for link in links}
    assert texts == {(site / "01_first.ipynb").read_text("utf-8")}, "a part of the page, which may be a file itself"
    notebook = nbformat.reads(texts.pop(), 4)
    nbformat.validate(notebook)
    assert [cell.source for cell in notebook.cells] == [cell.source for cell in FIRST.cells]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    hidden = [cell.source for cell in notebook.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert hidden[0] == "x = 0 + 1" and hidden[-1] == "assert x == 1" and len(hidden) == 3, "answers are collapsed"


@pytest.mark.deep
def test_a_page_contains_the_explorers_that_need_no_kernel(site: Path) -> None:
    page = (site / "01_first.html").read_text()
    assert EXPLORER.as_html() in page, "nothing on the way to the page changes the module, its state or the script"
    after = page[page.index("After the explorer") :]
    assert re.search(r'<a class="mention" href="#eq-K1">K1</a>', after), "what follows the script is linked as before"


def test_a_committed_picture_says_its_finding_and_its_letters_stay_legible_on_a_phone(tmp_path: Path) -> None:
    texts = '<text style="font-weight: 700; font-size: 14px">more 4 &lt; 1</text><text style="font-size: 12px">x</text>'
    (tmp_path / "a b.svg").write_text(f'<svg viewBox="0 0 720 300">{texts}</svg>')
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "1.html").write_text('<img alt="x" src="../a%20b.svg"><img src="other.svg">')
    assert finding(texts) == "more 4 < 1" and finding("<svg></svg>") == "committed picture"
    draw_in_pages(tmp_path)
    page = (tmp_path / "papers" / "1.html").read_text()
    assert page.startswith('<span class="drawing"><svg class="drawn" role="img" aria-label="x" ')
    assert page.count("--least:541px") == 1 and page.count(">more 4 &lt; 1</text>") == 1
    assert page.endswith('<img src="other.svg">'), "a picture that is not there is left alone"
    for file in (root() / "outputs" / "reference" / "figures").glob("*.svg"):
        assert least_width(file.read_text("utf-8")) < 1200, file.name


def test_a_list_or_a_second_equation_need_not_follow_a_blank_line() -> None:
    assert blocks("one\n- a\n  b\n- c") == "one\n\n- a\n  b\n- c"
    assert blocks("> one\n> - a") == "> one\n> \n> - a"
    assert blocks("$$a\n= b$$\n$$c$$") == "$$a\n= b$$\n\n$$c$$"
    assert blocks("$$\na\n$$") == "$$\na\n$$"
    assert blocks("```\none\n- a\n```") == "```\none\n- a\n```"


def test_backticks_in_a_cell_do_not_end_its_block(tmp_path: Path) -> None:
    cells = [new_markdown_cell("# T"), new_code_cell('"""\n```\n"""')]
    assert "````  python" in notebook_page(new_notebook(cells=cells), "x", "", tmp_path).replace(
        "{ .python }", " python"
    )


def test_code_of_the_package_that_a_cell_shows_is_a_block_of_code(tmp_path: Path) -> None:
    output = shown({"text/markdown": "```python\ndef f():\n    pass\n```", "text/plain": "<Markdown object>"})
    page = notebook_page(new_notebook(cells=[new_code_cell("show_source(f)", outputs=output)]), "x", "", tmp_path)
    shown_code = '``` { .python title="from the package" }\ndef f():\n    pass\n```\n\n</details>\n'
    assert page.endswith(f"<summary>Code from the package: f</summary>\n\n{shown_code}"), page


def test_the_reference_gives_each_parameter_its_own_default_and_each_field_its_comment() -> None:
    found = griffe.load(
        "rationale",
        docstring_parser="numpy",
        extensions=griffe.load_extensions("tools.book.fields"),
        search_paths=[root()],
    )
    (support,) = (part.value for part in found["nn.gates.HardKumaGate"].docstring.parsed if part.kind == "parameters")
    assert {part.name: str(part.value) for part in support} == {"num_features": "None", "left": "-0.1", "right": "1.1"}
    assert "[B, S, H]" in found["models.seq2seq.EncodedSource.states"].docstring.value
    assert "state" in found["models.seq2seq.Decoded"].members, "a field with a type is shown"
    assert "size" not in found["models.digit_counter.DigitCounter"].members, (
        "a value with neither type nor comment is not"
    )


def test_a_page_says_how_it_was_executed(tmp_path: Path) -> None:
    folder, notebook = tmp_path / "book", root() / "notebooks" / "02_kumaraswamy.py"
    folder.mkdir()
    (folder / "environment.txt").write_text("started: 2026-01-02 03:04\ncpu: abacus\nseconds: 5.0\n")
    (folder / "params.yaml").write_text("num_samples: 7\n")
    note = how(notebook, folder)
    assert "`num_samples: 7`" in note and "numbers mean nothing" in note and "5.0 s on abacus" in note
    (folder / "params.yaml").write_text("{}\n")
    assert "its defaults" in how(notebook, folder)
    (folder / "environment.txt").write_text("started: 2026-01-02 03:04\na line without a name\n")
    assert "of 2026-01-02, unknown s on unknown" in how(notebook, folder)
    for name in ("environment.txt", "params.yaml"):
        (folder / name).unlink()
        with pytest.raises(BadInput, match=f"{name}"):
            how(notebook, folder)


def test_a_page_without_a_run_of_ones_own_shows_a_short_run_that_has_learned_something(monkeypatch, tmp_path) -> None:
    made = {}

    def make(notebook, items, outputs, name, **how):
        made[notebook.stem] = items
        return outputs / notebook.stem / name

    monkeypatch.setattr(book, "run", make)
    folder = executed(root() / "notebooks" / "22_read_sst.py", tmp_path)
    assert folder == tmp_path / "22_read_sst" / "book" and "vectors=glove.6B.50d" in made["12_train_sst"]
    assert made["22_read_sst"] == [f"runs_dir={tmp_path / '12_train_sst'}", "run=book"]
    for name, given in book.short_parameters().items():
        notebook = root() / "notebooks" / f"{name}.py"
        assert notebook.exists() and (root() / "notebooks" / f"{given.get('after', name)}.py").exists()
    (tmp_path / "environment.txt").write_text("started: 2026-01-02 03:04\ncpu: abacus\nseconds: 5.0\n")
    (tmp_path / "params.yaml").write_text("epochs: 4\n")
    note = how(root() / "notebooks" / "12_train_sst.py", tmp_path.rename(tmp_path.with_name("book")))
    assert "longer ones reach better numbers" in note and "mean nothing" not in note


def test_a_notebook_that_cannot_run_shows_the_committed_pictures_of_such_runs() -> None:
    def pictures(name: str) -> list[str]:
        return committed_pictures(root() / "notebooks" / f"{name}.py")

    assert "accuracy_against_rate.svg" in pictures("12_train_sst") and "word_sentiment.svg" in pictures("22_read_sst")
    assert pictures("13_train_nli") == pictures("23_read_nli") != []
    assert not set(pictures("12_train_sst")) & set(pictures("15_train_seq2seq"))
    for name in ("12_train_sst", "13_train_nli", "15_train_seq2seq"):
        note = instead(root() / "notebooks" / f"{name}.py", f"not in {data_folder()}/sst")
        assert "not in the data folder/sst" in note
        shown = re.findall(r"^    !\[[^]]+\]\((\S+)\)$", note, re.M)
        assert shown and all((root() / picture).is_file() for picture in shown), note


def test_missing_data_are_no_failure_and_the_last_line_names_what_was_left_out(monkeypatch, capsys) -> None:
    built = {}

    def executed_without_data(notebook: Path, outputs: Path) -> Path:
        raise BadInput("sst: no such data") if notebook.stem == "12_train_sst" else RunFailed("boom")

    monkeypatch.setattr(book, "reading_order", lambda readme: ["12_train_sst"])
    monkeypatch.setattr(book, "executed", executed_without_data)
    monkeypatch.setattr(book, "build", lambda notebooks, readme, site: built.update(notebooks) or [])
    assert book.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("not executed: 12_train_sst (see above)")
    assert "accuracy_against_rate.svg" in built["12_train_sst"][1] and "no such data" in built["12_train_sst"][1]
    monkeypatch.setattr(book, "reading_order", lambda readme: ["02_kumaraswamy"])
    assert book.main([]) == 1, "a cell that fails is a failure"


def test_with_names_only_these_notebooks_are_executed(monkeypatch, capsys, tmp_path: Path) -> None:
    run, built, done = tmp_path / "outputs" / "01_choosing" / "book", {}, []
    run.mkdir(parents=True)
    nbformat.write(FIRST, run / "run.ipynb")
    (run / "params.yaml").write_text("{}\n")
    monkeypatch.setattr(book, "root", lambda: tmp_path)
    monkeypatch.setattr(book, "how", lambda notebook, folder: "")
    monkeypatch.setattr(book, "executed", lambda notebook, outputs: done.append(notebook.stem) or run)
    monkeypatch.setattr(book, "build", lambda notebooks, readme, site: built.update(notebooks) or [])
    (tmp_path / "README.md").write_text((root() / "README.md").read_text("utf-8"))
    assert book.main(["10_first_rationale"]) == 0 and done == ["10_first_rationale"]
    assert built["01_choosing"][0].cells[0].source == FIRST.cells[0].source, "an older run is shown as it is"
    assert "12_train_sst" in built and "12_train_sst" in capsys.readouterr().out, "what has no run is named"
    assert book.main(["10_first"]) == 2 and "accepted: 00_read_me_first" in capsys.readouterr().err


def test_the_newest_run_that_shows_a_notebook_as_it_is_now_is_taken(tmp_path: Path) -> None:
    notebook = root() / "notebooks" / "13_train_nli.py"
    own = {"own": {"corpus": "folder/texts.csv"}, "good": {"corpus": "nli_small"}}
    names = ("good", "outdated", "own", "smoke", "torn", "nobody knows", "going.partial")
    for age, name in enumerate(names):  # later is newer
        folder = tmp_path / notebook.stem / name
        folder.mkdir(parents=True)
        cells = jupytext.read(notebook)
        cells.cells.insert(2, new_code_cell("seed = 7", metadata={"tags": ["injected-parameters"]}))
        if name == "outdated":
            cells.cells[0].source += " of yesterday"
        nbformat.write(cells, folder / "run.ipynb")
        (folder / "params.yaml").write_text(yaml.safe_dump(own.get(name, {})))
        if name == "torn":
            (folder / "run.ipynb").write_text((folder / "run.ipynb").read_text()[:99])
        if name == "nobody knows":  # whether it shows texts of one's own
            (folder / "params.yaml").unlink()
        os.utime(folder / "run.ipynb", (1e9 + age, 1e9 + age))
    assert executed(notebook, tmp_path).name == "good", "others may read the book, so it shows no texts of one's own"


def test_a_run_that_reads_a_run_on_texts_of_ones_own_is_not_shown_either(tmp_path: Path) -> None:
    def recorded(name: str, **parameters: Any) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "params.yaml").write_text(yaml.safe_dump(parameters))
        return tmp_path / name

    recorded("own", corpus="texts.csv")
    recorded("beer", corpus="beer")
    for names, is_own in ((["own"], True), (["beer"], False), (["beer", "own"], True), ([], False)):
        folder = recorded(f"several{len(list(tmp_path.iterdir()))}", runs=names, runs_dir=str(tmp_path))
        assert reads_own_texts(folder) == is_own, names
    assert reads_own_texts(recorded("one", run="own", runs_dir=str(tmp_path)))
    assert reads_own_texts(tmp_path / "nothing is known of it")


def test_a_run_that_may_show_texts_of_ones_own_is_not_shown(tmp_path: Path) -> None:
    cases = {"offers_all": {"runs_dir": "outputs", "own_texts": True}, "of_deleted": {"run": "gone", "runs_dir": "."}}
    for name, parameters in cases.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "params.yaml").write_text(yaml.safe_dump(parameters | {"runs_dir": str(tmp_path)}))
        assert reads_own_texts(tmp_path / name), name
    (tmp_path / "offers_all" / "params.yaml").write_text("runs_dir: outputs\nown_texts: false\n")
    assert not reads_own_texts(tmp_path / "offers_all")


@pytest.mark.parametrize("error", [BadInput("questions.yaml: no list"), PermissionError(13, "denied", "outputs/book")])
def test_a_book_that_cannot_be_written_is_one_line(error: Exception, tmp_path: Path, monkeypatch, capsys) -> None:
    def build(*_) -> list[str]:
        raise error

    monkeypatch.setattr("tools.book.__main__.root", lambda: tmp_path)
    monkeypatch.setattr("tools.book.__main__.build", build)
    (tmp_path / "README.md").write_text("# No notebooks\n")
    assert book.main([]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and str(error.args[-1]) in said


def test_two_books_at_once_execute_a_notebook_once(monkeypatch, tmp_path: Path) -> None:
    notebook, executed_by = root() / "notebooks" / "50_explorers.py", []

    def make(path, items, outputs, name, again, **how):
        folder = outputs / path.stem / name
        if again:
            executed_by.append(threading.current_thread().name)
            time.sleep(0.5)
            folder.mkdir(parents=True)
            nbformat.write(jupytext.read(path), folder / "run.ipynb")
        return folder

    monkeypatch.setattr(book, "run", make)
    with ThreadPoolExecutor(2) as pool:
        folders = list(pool.map(lambda _: executed(notebook, tmp_path), range(2)))
    assert len(executed_by) == 1 and folders[0] == folders[1]


def test_two_books_at_once_are_written_one_after_the_other(monkeypatch, tmp_path: Path) -> None:
    at_work, most = [], []

    def build(*_) -> list[str]:
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.3)
        at_work.pop()
        return []

    monkeypatch.setattr(book, "root", lambda: tmp_path)
    monkeypatch.setattr(book, "build", build)
    (tmp_path / "README.md").write_text("# No notebooks\n")
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(book.main.__wrapped__, [[], []])] == [0, 0]
    assert most == [1, 1], "MkDocs empties the folder of the site"


PHONE = """
const changed = [];
globalThis.matchMedia = () => ({matches: true});
globalThis.document = {
  querySelectorAll: () => given.map((textContent, i) =>
    ({textContent, replaceWith: box => { changed[i] = box.lines; }})),
  createElement: () => ({lines: [], append(line) { this.lines.push(line.textContent); }}),
};
globalThis.window = globalThis;
globalThis.addEventListener = () => {};
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_on_a_phone_the_parts_of_an_equation_stand_below_each_other_and_no_part_is_torn() -> None:
    whole = [r"\[a = b\]", r"\[\begin{cases} 0 & x, \qquad y \end{cases}\]", r"\[f\left(a, \qquad b\right)\]"]
    given = [r"\[a < b, \qquad c = \{d\},\quad x = \frac{1}{2}.\]", *whole]
    script = (root() / "tools" / "book" / "book.js").read_text("utf-8")
    program = f"const given = {json.dumps(given)};{PHONE}{script}\nconsole.log(JSON.stringify(changed));"
    done = subprocess.run([shutil.which("node"), "-e", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [[r"\[a < b,\]", r"\[c = \{d\},\]", r"\[x = \frac{1}{2}.\]"]]


def test_no_rule_of_the_style_has_a_pseudo_element_where_browsers_ignore_it() -> None:
    style = (root() / "tools" / "book" / "book.css").read_text("utf-8")
    assert not re.findall(r":is\([^()]*::[^()]*\)", style), "the legend of `choose` had other colours than its dots"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_cheapest_breaks_of_a_formula_are_those_of_all_ways() -> None:
    """The oracle tries every subset of places, with the costs as the script gives them."""
    script = (root() / "tools" / "book" / "breaks.js").read_text("utf-8")
    program = (
        script
        + """
    const random = (seed => () => (seed = seed * 16807 % 2147483647) / 2147483647)(7), wrong = [];
    const costOf = (places, whole, width, chosen) => {
        let start = 0, cost = 0;
        for (const number of [...chosen, null]) {
            const last = number === null, { kind, end, start: next, inside } = last ? { end: whole } : places[number];
            const free = 1 - (end - start) / width;
            if (end <= start) return Infinity;
            cost += free < 0 ? TOO_WIDE * (1 - free) : last ? 0 : RAGGED * free ** 2;
            if (!last) cost += LINE + COSTS[kind];
            for (const bracket of inside || []) cost += INSIDE + NARROW * Math.max(0, 1 - bracket / width);
            start = next;
        }
        return cost;
    };
    for (let trial = 0; trial < 200; trial++) {
        const whole = 5 + 20 * random(), count = Math.floor(8 * random()), kinds = Object.keys(COSTS);
        const places = Array.from({ length: count }, () => whole * random()).sort((a, b) => a - b).map(at => ({
            kind: kinds[Math.floor(4 * random())], end: at, start: at, inside: random() < .3 ? [8 * random()] : [] }));
        const found = costOf(places, whole, 8, bestBreaks(places, whole, 8));
        let least = Infinity;
        for (let set = 0; set < 1 << count; set++) {
            least = Math.min(least, costOf(places, whole, 8, places.map((_, i) => i).filter(i => set >> i & 1)));
        }
        if (Math.abs(found - least) > 1e-6) wrong.push([found, least]);
    }
    console.log(JSON.stringify(wrong));"""
    )
    done = subprocess.run([shutil.which("node"), "-e", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []


def test_a_table_of_texts_in_markdown_tells_the_names_of_its_columns(tmp_path: Path) -> None:
    texts = ["a text of more than twenty-four letters", "7", "another text of more than twenty-four letters"]
    cells = "".join(f"<td>{text}</td>" for text in texts)
    heads = "<thead><tr><th>what</th><th>seeds &amp; more</th><th>how <em>ours</em> differs</th></tr></thead>"
    page = f"<table>{heads}<tbody><tr>{cells}</tr></tbody></table>"
    (tmp_path / "a.html").write_text(page + page.replace(texts[2], "short"), "utf-8")
    label_cells(tmp_path)
    first, second, _ = (tmp_path / "a.html").read_text("utf-8").split("</table>")
    assert "data-name" not in second, "numbers are compared in columns"
    assert re.findall(r"<td([^>]*)>", first) == ["", ' data-name="seeds &amp; more"', ' data-name="how ours differs"']


def test_what_a_run_and_the_book_show_on_a_phone_is_said_in_one_place() -> None:
    style = (root() / "tools" / "book" / "book.css").read_text("utf-8")
    assert "/* NARROW */" in style and "display: none" in with_colours(style)
    for rule in (".drawn.narrow {", ".drawn.wide {", "td[data-name]::before"):
        assert rule not in style and with_colours(style).count(rule) == STYLE.count(rule) >= 1
