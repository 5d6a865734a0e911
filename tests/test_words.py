"""Pages that read runs, as a reader sees them on the committed results: words in figures and tables, sentences."""

import html
import re
from pathlib import Path

import pytest

from rationale import figures
from rationale.explorers import explore_saved_layers
from rationale.figures.look import Shown, new_figure, to_svg
from rationale.figures.words import WORDS
from rationale.runs import committed, exports, root
from rationale.runs.themes import finding
from tests.in_process import NOT_CHECKED, run_cells

PAGES = ["23_read_nli", "24_read_probes", "25_read_seq2seq", "26_read_failures", "31_selection_rates", "32_reviews"]
PICTURES = sorted((root() / "outputs" / "reference" / "figures").glob("*.svg"))
CODE = re.compile(r"@@|\b[a-z]+_[a-z_]+\b|-seed\d")  # a special token, a name of code, a name of a run
HEADS = {"empty", "masks", "states"}  # heads of columns that the text above their table explains
SENTENCE = re.compile(r"^(?:[A-Z“].*[.:!?]|    make .*|)$")  # or a command, or an empty line


def texts_of(svg: str) -> list[str]:
    """The texts of a figure; the lines of one text are joined."""
    groups = re.findall(r'<g id="text_\d+">(.*?)</g>', svg, re.S) or [svg]
    return [html.unescape(" ".join(re.findall(r"<text[^>]*>([^<]+)</text>", group))) for group in groups]


def code_in(texts: list[str]) -> list[str]:
    """The texts that are names of code, or contain one."""
    parts = {text: re.split(r", |: | = ", text) for text in texts}
    named = {text for text, names in parts.items() if any(WORDS.get(name, name) != name for name in names)}
    return [text for text in texts if CODE.search(text) or text in named]


def cells_of(table: str) -> list[str]:
    """Heads and cells of a table; settings as they stand in files are left as they are."""
    cells = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", table)]
    cells = map(html.unescape, cells)
    return [cell for cell in cells if not re.search(r"\w=\w", cell) and cell not in HEADS]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", PAGES)
def test_a_page_holds_what_it_says_of_the_committed_results_in_words_and_sentences(
    notebook, tmp_path, monkeypatch, capsys
):
    displayed = []
    failed, _ = run_cells(notebook, tmp_path, monkeypatch, pictures=True, displayed=displayed)
    assert not failed
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if NOT_CHECKED in line]
    assert lines and not [line for line in lines if not SENTENCE.match(line)]
    assert not [line for line in lines if re.search(r"\[\(|\{'|array\(", line)], "no value as Python writes it"
    pictures = [shown for shown in displayed if isinstance(shown, Shown)]
    tables = [shown._repr_html_() for shown in displayed if isinstance(shown, figures.Html)]
    assert pictures and tables
    for shown in pictures:
        svg, about = shown._repr_svg_()
        assert not code_in(texts_of(svg)) and not CODE.search(about["alt"]), about["alt"]
        assert about["alt"] not in ("figure", "committed picture"), "for those who do not see it"
    for table in tables:
        assert not code_in(cells_of(table)), table


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_committed_picture_has_words_and_a_title(picture):
    svg = picture.read_text(encoding="utf-8")
    assert not code_in(texts_of(svg))
    if picture.stem != "rationales":  # a few texts, each with a title of its own
        assert finding(svg) != "committed picture"


def test_the_title_of_a_picture_is_its_finding_and_not_a_marked_label():
    fig, ax = new_figure()
    figures.draw_attention([[0.2, 0.8]], ["layer 0"], ["of", "germany"], ax, title="It is kept", marked=[False, True])
    svg = to_svg(fig)
    assert svg.count(">germany</text>") == 1 and finding(svg) == "It is kept"


def test_the_token_for_no_word_is_written_in_words():
    fig, ax = new_figure()
    figures.draw_attention([[0.2, 0.8]], ["@@NULL@@"], ["@@NULL@@", "dog"], ax)
    assert [text for text in texts_of(to_svg(fig)) if text in ("(no word)", "dog")] == ["(no word)", "dog", "(no word)"]


def test_the_sequences_of_the_committed_file_are_those_of_the_toy_task():
    for tokens, gold, (n, m, answer), layers in committed.read_sequences():
        assert (tokens.count(n) > tokens.count(m)) == (answer == "yes"), "the answer is the right one"
        assert gold == [int(token in (n, m)) for token in tokens], "the truth is where the digits of the query are"
        assert {"states", "erasure"} <= set(layers)
        assert {len(layer) for values in layers.values() for layer in values} == {len(tokens)}


def test_the_menu_of_a_saved_explorer_offers_methods_in_words():
    names = [method["name"] for method in explore_saved_layers(committed.reference_folder()).methods]
    assert "integrated gradients" in names and not code_in(names)


def test_runs_are_called_by_what_tells_them_apart():
    table = committed.read_results()
    names = exports.run_names(table[table["task"].eq("nli")], {"measure=training": "expected share held"})
    assert names["hardkuma-selection0.2-seed1"] == "HardKuma, target 20%, seed 1"
    assert names["hardkuma-selection0.1-measuretraining-seed1"] == "HardKuma, expected share held, target 10%"
    assert names["recurrent-seed1"] == "recurrent", "there is no other seed"
    names = exports.run_names(table[table["task"].isin(["translation", "summarisation"])], {})
    assert names["sparsemax-gamma4-languagefr-seed1"] == "sparsemax, gamma 4.0, Multi30k, fr to en"
    assert len(set(names.values())) == len(names)
    assert exports.run_names(table.head(0), {}) == {}


def test_a_table_is_shown_with_heads_in_words_and_saved_with_names_of_code(tmp_path):
    table = committed.read_results().query("task == 'sst' and metric == 'accuracy'").head(3)
    export = exports.Exports(tmp_path, table)
    rows = table.assign(target=[1.0, 0.4, 1.0], sparsity=[0.0, 0.0, 0.1])[["model", "target", "sparsity", "value"]]
    shown = export.table(rows, "t", heads={"sparsity": "price per word"})._repr_html_()
    assert ">price per word<" in shown and "sparsity" not in shown
    assert "1.0" not in shown and "0.4" in shown, "a target of 1 says that there is none"
    assert (tmp_path / "tables" / "t.csv").read_text().splitlines()[0] == "model,target,sparsity,value"


def test_what_is_compared_is_said_in_a_sentence():
    table = committed.read_results()
    said = exports.in_a_sentence(table[table["task"].eq("failures")])
    assert said.startswith("We compare 195 runs of 16_failures (seeds 1 to 10) on made-up reviews (look). ")
    assert SENTENCE.match(said) and exports.in_a_sentence(table.head(0)) == "We compare no runs."


def test_pictures_of_comparisons_are_committed_without_runs(tmp_path, monkeypatch):
    from tools import collect

    drawn = tmp_path / committed.FIGURES[1]
    drawn.parent.mkdir(parents=True)
    drawn.write_text("<svg/>")
    monkeypatch.setattr(collect, "reference_folder", lambda: tmp_path / "reference")
    collect.copy_pictures(tmp_path)
    assert [path.name for path in (tmp_path / "reference" / "figures").iterdir()] == [Path(committed.FIGURES[1]).name]
