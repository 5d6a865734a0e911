"""One page per paper: every number on it is a committed one, and what it refers to is there."""

import csv
import re
import statistics
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from rationale.errors import BadInput
from rationale.runs import root
from rationale.runs.committed import reference_folder
from rationale.runs.page import formula
from tools.book.papers import PLACE, paper_files, paper_page, read_paper

FILES = paper_files()
each_page = pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
PARTS = ["The claim", "The model", "The objective", "The result", "What failed here"]
MATHS = re.compile(r"\$\$.*?\$\$|\$[^$]+\$", re.S)


def committed() -> list[dict]:
    with open(reference_folder() / "results.csv", encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def test_each_paper_has_one_page() -> None:
    with open(reference_folder() / "papers.csv", encoding="utf-8", newline="") as table:
        named = {row["paper"] for row in csv.DictReader(table)}
    told = [read_paper(file)[0].paper for file in FILES]
    assert sorted(told) == sorted(named)


@each_page
def test_a_page_has_its_five_parts_and_is_read_in_five_minutes(file: Path) -> None:
    page = paper_page(file)
    assert re.findall(r"^## (.+)$", page, re.M) == PARTS and page.startswith("# ")
    assert "{{" not in MATHS.sub("", page), "a place without its number"
    words = len(MATHS.sub("", read_paper(file)[1]).split())
    assert 400 <= words <= 900, f"{words} words"


@each_page
def test_no_result_is_typed_into_a_page(file: Path) -> None:
    source = file.read_text("utf-8")
    targets = {f"{100 * float(share):g}" for share in re.findall(r"selection([\d.]+)", source)}
    text = re.sub(r"`[^`]*`|^ *(?:runs|theirs): .*$|\w+: \{.*\}$", "", MATHS.sub("", PLACE.sub("", source)), flags=re.M)
    typed = re.findall(r"\b\d+[.,]\d+", text)
    typed += [share for share in re.findall(r"\b(\d+) (?:%|per cent|points?\b)", text) if share not in targets]
    assert not typed, f"{typed}: a page gets its numbers from `numbers` and `results` in its head"


@each_page
def test_the_numbers_of_a_page_are_those_of_the_committed_results(file: Path) -> None:
    rows, page = committed(), paper_page(file)
    for wanted in (*read_paper(file)[0].numbers.values(), *read_paper(file)[0].results):
        if not wanted.runs:
            continue
        values = [
            float(row["value"])
            for row in rows
            if (row["metric"], row["split"]) == (wanted.metric, wanted.split)
            and fnmatchcase(row["run"], wanted.runs)
            and fnmatchcase(row["model"], wanted.model)
        ]
        factor = 100 if wanted.percent else 1
        assert f"{factor * statistics.mean(values):.{wanted.digits}f}" in page, wanted
        if wanted in read_paper(file)[0].results and len(values) > 1:
            assert f"\xa0±\xa0{factor * statistics.stdev(values):.{wanted.digits}f} | {len(values)} |" in page, wanted


@each_page
def test_what_a_page_refers_to_is_there(file: Path) -> None:
    text = read_paper(file)[1]
    notebooks = {path.stem: path.read_text("utf-8") for path in (root() / "notebooks").glob("*.py")}
    named = set(re.findall(r"`(\d\d_\w+)`", text))
    assert len(named) >= 3 and named <= set(notebooks)
    flat = " ".join(text.split())
    places = [(number, name) for number, name in re.findall(r"[Ss]ection (\d+) of `(\w+)`", flat)]
    places += [(number, name) for name, number in re.findall(r"`(\w+)`, (?:section|page) (\d+)", flat)]
    for number, name in places:
        assert re.search(rf"^# ## {number}\. ", notebooks[name], re.M), f"{name} has no section {number}"
    for label in re.findall(r"equation \(([A-Z]\d+)\)", flat):
        assert any(f"\\tag{{{label}}}" in source for source in notebooks.values()), f"no equation {label}"
    for folder in re.findall(r"`(params/\S*)`", text):
        assert (root() / folder).exists()


@each_page
def test_every_formula_of_a_page_can_be_shown(file: Path) -> None:
    for found in MATHS.findall(read_paper(file)[1]):
        assert "<code>" not in formula(found.strip("$"), is_block=found.startswith("$$")), found


HEAD = """---
paper: Lei 2016
numbers:
  a: {metric: accuracy, runs: 12_train_sst/full_text-seed*}
results:
- what: x
  metric: accuracy
  runs: 12_train_sst/full_text-seed*
---
"""


@pytest.mark.parametrize("old, new, message", [
    ("---\npaper", "paper", "no head"),
    ("{{ a }}", "nothing", "a: given in the head, but the text does not say {{ a }}"),
    ("{{ a }}", "{{ a }} {{ b }}", "{{ b }}: the head gives no such number; it gives results, a"),
    ("  runs: 12_train_sst/full_text-seed*\n---", "  runs: 12_train_sst/*\n---", "settings have it, one is accepted"),
    ("  runs: 12_train_sst/full_text-seed*\n---", "  runs: none\n---", "0 settings have it.*found: none"),
    ("- what: x", "- what: x\n  theirs: {task: sst}", "fits 4 rows of published.csv, not one"),
    ("- what: x", "- what: x\n  theirs: {tusk: sst}", "tusk: no such column; accepted are task, corpus"),
    ("- what: x", "- what: x\n  note: y", "note"),
    ("metric: accuracy, ", "metric: [", "4|parsing|expected"),
])  # fmt: skip
def test_a_mistake_in_a_page_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = HEAD + "{{ a }}\n{{ results }}\n"
    assert old in text
    file = tmp_path / "9_nobody.md"
    file.write_text(text.replace(old, new, 1), "utf-8")
    with pytest.raises(BadInput, match=message.replace("{", r"\{")) as error:
        paper_page(file)
    assert "9_nobody.md" in str(error.value)
