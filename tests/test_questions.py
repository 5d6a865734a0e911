"""The questions at the end of the pages of the book: their form, and that the right answers are right."""

import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from rationale.errors import BadInput
from rationale.runs import root
from rationale.runs.page import formula
from tools.book.pages import download, notebook_page
from tools.book.questions import as_markdown, questions_file, read_questions

FILES = sorted((root() / "notebooks" / "questions").glob("*.yaml"))
each_file = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])


def test_every_notebook_has_questions() -> None:
    assert {file.stem for file in FILES} == {path.stem for path in (root() / "notebooks").glob("*.py")}


@each_file
def test_questions_belong_to_a_notebook_and_explain_every_choice(file: Path) -> None:
    assert (root() / "notebooks" / f"{file.stem}.py").exists() and file == questions_file(file.stem)
    found = read_questions(file)
    assert 2 <= len(found) <= 3
    for question in found:
        assert len(question.choices) >= 3
        assert len({choice.choice for choice in question.choices}) == len(question.choices), "a choice stands twice"
        assert all(len(choice.because.split()) >= 4 for choice in question.choices), "a choice without an explanation"
    places = {[choice.right for choice in question.choices].index(True) for question in found}
    assert len(places) > 1, "the right answer always stands in the same place"


@each_file
def test_the_right_answers_are_right(file: Path) -> None:
    checks = [question.check for question in read_questions(file) if question.check]
    assert checks and all("assert" in check for check in checks)
    for check in checks:
        exec(check, {})


@each_file
def test_every_formula_of_a_question_can_be_shown(file: Path) -> None:
    text = as_markdown(read_questions(file))
    found = re.findall(r"\$([^$]+)\$", text)
    assert text.count("$") == 2 * len(found)
    assert not [latex for latex in found if "<code>" in formula(latex)]


def test_each_choice_opens_its_explanation_in_the_book_and_in_the_download(tmp_path: Path) -> None:
    text = as_markdown(read_questions(questions_file("01_choosing")))
    notebook = new_notebook(cells=[new_markdown_cell("# T")])
    page = notebook_page(notebook, "x", "", tmp_path, text)
    assert page.count('<details class="choice') == 9 and page.count('<details class="choice right"') == 3
    assert page.count("**Right.**") == 3 and page.count("**No.**") == 6
    taken = download(notebook, text)
    nbformat.validate(taken)
    assert taken.cells[-1].source == text and taken.cells[-1].cell_type == "markdown"
    assert as_markdown([]) == "" and len(download(notebook).cells) == 1
    assert read_questions(tmp_path / "none.yaml") == []


@pytest.mark.parametrize("text, message", [
    ("- question: a\n  choices: [{choice: b, because: c, right: true}]", "1 choices, 1 of them right"),
    ("- question: a\n  choices: [{choice: b, because: c}, {choice: d, because: e}]", "2 choices, 0 of them right"),
    ("- question: a\n  choices: []\n  answer: b", "answer"),
    ("a sentence", "sentence|mapping"),
    ("- [", "sequence|parsing"),
])  # fmt: skip
def test_questions_in_another_form_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=message):
        read_questions(file)
