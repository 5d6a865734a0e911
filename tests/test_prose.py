"""How notebooks, README and CONTRIBUTING are written, as far as it can be counted: sentences that talk to a reader.

Complete sentences have few colons and semicolons, a page for a reader says "we" and "you", a rate is "per" and not "a",
and things do not act like people.
"""

import re
from functools import cache
from pathlib import Path

import jupytext

from rationale.runs import root
from tests.every import every
from tests.smoke import NOTEBOOKS

PAGES = [*NOTEBOOKS, root() / "README.md", root() / "CONTRIBUTING.md"]
NO_PROSE = re.compile(
    r"```.*?```|\$\$.*?\$\$"  # code, equations
    r"|\*\*Exercise \d+\*\* \(predict, change, explain; \d+ minutes\)\."  # the form of an exercise
    r"|\]\([^)]*\)|https?://\S+"  # targets of links
    r"|^\s*[#|].*?$|^ {4}.*?$",  # headings, tables, indented code
    re.S | re.M,
)
WORD = re.compile(r"[^\W\d_][\w'’-]*")
AND = "word nat bit second minute hour switch row line run text token number draw step unit entry price".split()
OF = "word step epoch second minute run text review seed sentence token batch row layer item target cell".split()
A_FOR_PER = re.compile(rf"\b(one|{'|'.join(f'{noun}e?s?' for noun in AND)}) an? ({'|'.join(OF)})\b(?! (has|is|was)\b)")
THINGS = "gate layer map mask constraint multiplier word digit price probe network attention".split()
ACTS = "knows wants says said hears minds likes forgets believes hopes notices remembers".split()
PERSONIFIED = re.compile(rf"\b({'|'.join(THINGS)}) ({'|'.join(ACTS)})\b")


@cache
def prose(page: Path) -> str:
    """The sentences of a page: no code, equations, tables and headings."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".py":
        cells = jupytext.reads(text, fmt="py:percent").cells
        text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    text = re.sub(r"\$[^$]*\$|`[^`]*`", "x", NO_PROSE.sub(" ", text))
    return " ".join(text.split())


def per_hundred(found: int, text: str) -> float:
    return 100 * found / len(WORD.findall(text))


each_page = every(PAGES)


@each_page
def test_a_page_has_at_most_two_colons_and_semicolons_in_a_hundred_words(page):
    marks = per_hundred(len(re.findall("[:;]", prose(page))), prose(page))
    assert marks <= 2, f"{page.name}: {marks:.1f} colons and semicolons in 100 words; write sentences"


@each_page
def test_a_page_talks_to_its_reader(page):
    said = sum(word.lower() in ("we", "you", "us", "our", "your") for word in WORD.findall(prose(page)))
    assert per_hundred(said, prose(page)) >= 3, f"{page.name}: {per_hundred(said, prose(page)):.1f} in 100 words"


@each_page
def test_a_rate_is_per_and_not_a(page):
    found = [match[0] for match in A_FOR_PER.finditer(prose(page))]
    assert not found, f"{page.name}: write `per` in {found}"


@each_page
def test_things_do_not_act_like_people(page):
    found = [match[0] for match in PERSONIFIED.finditer(prose(page))]
    assert not found, f"{page.name}: {found}"


@every(["one step a word", "nats a word", "two switches a review"])
def test_an_a_for_per_is_found(text):
    assert A_FOR_PER.search(text)


@every(["the more words a text has", "give a word a weight", "one step per word"])
def test_other_articles_are_left_alone(text):
    assert not A_FOR_PER.search(text)
