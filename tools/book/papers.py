"""One page per paper, for the book: its claim, its model, its objective, its result, and what failed here.

The pages stand in `notebooks/papers/`, one Markdown file per paper, and no result is typed into them. The head of a
file, between two lines `---`, is YAML that names the committed numbers which the page needs. The text shows a number
where it says `{{ name }}`, and the table of results where it says `{{ results }}`:

    ---
    paper: Bastings 2019    # its name in outputs/reference/papers.csv
    numbers:
      agreement: {metric: agreement, runs: 12_train_sst/hardkuma-selection0.05-seed*}
    results:                # one row of the table each
    - what: accuracy on SST with 40 % of the words
      metric: accuracy
      theirs: {task: sst, model: hardkuma}
      runs: 12_train_sst/hardkuma-selection0.4-seed*
      differs: the word vectors are others
    ---

`runs` is a pattern of names of committed runs that differ in nothing but the seed, and `theirs` gives the columns of
one row of outputs/reference/published.csv; in both, `*` stands for any letters. `digits` and `percent` say how a value
is written.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict

from rationale.errors import BadInput, shown
from rationale.runs import root
from rationale.runs.committed import read_published, read_results
from rationale.runs.compare import summary
from tools.speed import markdown

HEAD = re.compile(r"---\n(.*?\n)---\n+(.*)", re.S)
PLACE = re.compile(r"\{\{ (\w+) \}\}")
RECALLED = "\\* We recall this number and have not read it in the paper again."


class Number(BaseModel):
    """The mean of a metric over the seeds of one committed setting."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    runs: str = ""  # a pattern; "" if nothing like it has been run here
    model: str = "*"  # of the methods of a run, the one that is meant
    split: Literal["dev", "test"] = "test"
    percent: bool = True  # written as a percentage
    digits: int = 1

    def written(self, value: float, spread: float = float("nan")) -> str:
        """A value of this metric, and after ± its spread; "" for a missing value."""
        factor = 100 if self.percent else 1
        parts = [f"{factor * number:.{self.digits}f}" for number in (value, spread) if number == number]
        return "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}".join(parts)


class Row(Number):
    """A row of the table of results: a published value, ours beside it, and how the two experiments differ."""

    what: str
    theirs: dict[str, str] = {}
    differs: str = ""


class Paper(BaseModel):
    """The head of a page."""

    model_config = ConfigDict(extra="forbid")

    paper: str
    numbers: dict[str, Number] = {}
    results: list[Row]


def paper_files() -> list[Path]:
    """The files of the pages, in the order of the meetings in which the papers are read."""
    return sorted((root() / "notebooks" / "papers").glob("*.md"))


def read_paper(file: Path) -> tuple[Paper, str]:
    """The head of a page, and its text with the places where numbers belong.

    Raises
    ------
    BadInput
        If the file does not have the form that is described above.
    """
    found = HEAD.fullmatch(file.read_text("utf-8"))
    if not found:
        raise BadInput(f"{shown(file)}: no head; a page begins with YAML between two lines `---`")
    try:
        return Paper(**yaml.safe_load(found[1])), found[2]
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise BadInput(f"{shown(file)}: {error}") from None


def paper_page(file: Path) -> str:
    """A page in Markdown, with all its numbers.

    Raises
    ------
    BadInput
        If a pattern does not name the runs of one setting, `theirs` does not name one row, a number has another name,
        or a number is not used.
    """
    paper, text = read_paper(file)
    try:
        values = {"results": results_table(paper.results)} | {
            name: number.written(measured(number)["mean"]) for name, number in paper.numbers.items()
        }
        unused = [name for name in values if name not in PLACE.findall(text + values["results"])]
        if unused:
            raise BadInput(f"{', '.join(unused)}: given in the head, but the text does not say {{{{ {unused[0]} }}}}")
        return _filled(_filled(text, values), values)  # twice, because a row of the table may name a number, too
    except BadInput as error:
        raise BadInput(f"{shown(file)}: {error}") from None


def _filled(text: str, values: Mapping[str, str]) -> str:
    """A text with the values in their places."""

    def value(found: re.Match) -> str:
        if found[1] not in values:
            raise BadInput(f"{found[0]}: the head gives no such number; it gives {', '.join(values)}")
        return values[found[1]]

    return PLACE.sub(value, text)


def results_table(rows: list[Row]) -> str:
    """The table of published values with ours beside them, in Markdown."""
    lines, recalled = [], False
    for row in rows:
        theirs, ours = published(row), measured(row)
        printed = row.written(theirs["value"], theirs["spread"])
        if theirs["known"] == "recalled":
            printed, recalled = f"{printed} \\*", True
        mean = row.written(ours["mean"], ours["std"])
        lines.append([row.what, printed or "—", mean or "—", str(ours["seeds"] or ""), row.differs])
    table = markdown(["what", "theirs", "ours", "seeds", "how ours differs"], lines)
    return f"{table}\n\n{RECALLED}" if recalled else table


def measured(number: Number) -> Mapping:
    """`mean`, `std` and `seeds` of a committed metric; NaN and 0 if there are no such runs."""
    if not number.runs:
        return {"mean": float("nan"), "std": float("nan"), "seeds": 0}
    rows = read_results()
    rows = rows[_fits(rows, {"run": number.runs, "model": number.model})]
    found = summary(rows, [number.metric], number.split)
    found = found[found[number.metric].notna()] if len(found) else found
    if len(found) != 1:
        kinds = ", ".join(f"{row.model} ({row.settings or 'only defaults'})" for row in found.itertuples())
        what = f"{number.metric} of {number.runs}, model {number.model}, split {number.split}"
        raise BadInput(f"{what}: {len(found)} settings have it, one is accepted; found: {kinds or 'none'}")
    row = found.iloc[0]
    return {"mean": row[number.metric], "std": row[f"{number.metric}_std"], "seeds": int(row["seeds"])}


def published(row: Row) -> Mapping:
    """`value`, `spread` and `known` of a published number; NaN if nothing is published."""
    if not row.theirs:
        return {"value": float("nan"), "spread": float("nan"), "known": ""}
    table = read_published()
    found = table[_fits(table, {"metric": row.metric} | row.theirs)]
    if len(found) != 1:
        raise BadInput(f"theirs: {row.theirs} of {row.metric} fits {len(found)} rows of published.csv, not one")
    return found.iloc[0]


def _fits(table: pd.DataFrame, patterns: Mapping[str, str]) -> pd.Series:
    """Which rows of a table have values that fit these patterns, by column."""
    fits = pd.Series(True, table.index)
    for name, pattern in patterns.items():
        if name not in table:
            raise BadInput(f"{name}: no such column; accepted are {', '.join(table.columns)}")
        fits &= table[name].map(lambda value, pattern=pattern: fnmatchcase(str(value), pattern))
    return fits
