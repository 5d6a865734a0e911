"""Tables of results: shown in a notebook, and saved as CSV and LaTeX."""

import html
import re
from collections.abc import Collection, Iterable
from numbers import Real
from pathlib import Path
from typing import Any

from rationale.figures.text import Html
from rationale.figures.words import WORDS, in_words
from rationale.files import write_text

HYPHENS = {"comprehensiveness": "comprehen\u00adsiveness"}  # words of heads that a narrow column may divide
LONG = 24  # letters; a column with a longer text takes much of the width of a phone
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "[": "{[}",  # \\ and \midrule of the line before would take [CLS] as a length
    }
    | {character: f"\\{character}" for character in "&%$#_{}"}
)


def show_table(
    table, digits: int = 3, index: str = "", quoted: bool = False, columns_that_stay: Collection = ()
) -> Html:
    """A DataFrame as a narrow HTML table.

    A value that is the same in all rows, of which there are three or more, is written once, above the table; a missing
    value is a blank cell. Columns without any value are left out, whole numbers have no decimals, and the name of a
    column may be broken into lines. So may paths and assignments, such as `PARAMS=params/demo.yaml`. On a phone, each
    row of a table that has several columns of longer texts becomes a paragraph of its own, in which the names of the
    columns are repeated. In place of a name of code, such as `full_text`, a cell has words (`words.py`).

    Parameters
    ----------
    table : pandas.DataFrame
        Its index is not shown, unless it has a name here.
    digits : int
        Decimals of numbers that are not whole.
    index : str
        The head of a first column with the index; "" for no such column.
    quoted : bool
        Whether the cells are words of texts, or names of a user's classes, which have to stay as they are.
    columns_that_stay : names of columns
        These stay columns even if their values are the same in all rows, as where a text refers to them.
    """
    table = table.rename_axis(index).reset_index() if index else table
    texts, numeric, constants = _as_texts(table, digits, quoted, columns_that_stay)
    if not quoted:
        texts = {name: [_as_words(cell) for cell in cells] for name, cells in texts.items()}
    style = {name: "" if name in numeric else " style='text-align: left; vertical-align: top'" for name in texts}
    words = {name: html.escape(str(name)).replace("_", " ") for name in texts}
    heads = "".join(f"<th{style[name]}>{_head(words[name])}</th>" for name in texts)
    prose = is_prose(max(map(len, cells), default=0) for name, cells in texts.items() if name not in numeric)
    named = {name: f" data-name='{words[name]}'" if prose else "" for name in texts}
    cells = zip(
        *([f"<td{style[name]}{named[name]}>{_breakable(cell)}</td>" for cell in texts[name]] for name in texts),
        strict=True,
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    caption = ""
    if constants:
        caption = f"<caption style='text-align: left; caption-side: top'>{html.escape(constants)}</caption>"
    kind = "dataframe prose" if prose else "dataframe"
    return Html(f"<table class='{kind}'>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")


def is_prose(longest: Iterable[int]) -> bool:
    """Whether a table has several columns of longer texts, so that a phone shows it row by row.

    Parameters
    ----------
    longest : for each column of text, the number of letters of its longest cell
    """
    return sum(length > LONG for length in longest) > 1


def _head(words: str) -> str:
    """The words above a column as HTML, which may be broken into lines."""
    return " ".join(HYPHENS.get(word, word) for word in words.split(" "))


def _as_words(cell: str) -> str:
    """The text of a cell, in words if it is a name of code, or begins with one as the names of lines do."""
    return in_words(cell) if cell.split(", ")[0] in WORDS else cell


def _breakable(cell: str) -> str:
    """The text of a cell as HTML, in which a line may break behind "/" and "="."""
    return re.sub(r"(?<=[/=])(?=\w)", "<wbr>", html.escape(cell))


def show_folded(line: str, rows: Iterable[str]) -> Html:
    """Rows of text folded away behind a line, for details that few readers want; nothing if there are no rows."""
    shown = "".join(f"<li>{html.escape(row)}</li>" for row in rows)
    return Html(
        f"<details class='code'><summary>{html.escape(line)}</summary><ul>{shown}</ul></details>" if shown else ""
    )


def save_table(table, folder: str | Path, name: str, caption: str = "", digits: int = 3) -> list[Path]:
    """Write `folder/name.csv`, with all digits, and `folder/name.tex`, a table for LaTeX's package booktabs.

    Parameters
    ----------
    table : pandas.DataFrame
        Its index is not written; call `reset_index` first if it is needed.
    caption : str
        Of the LaTeX table. What is the same in all rows is added to it, as in `show_table`.
    digits : int
        Decimals in LaTeX of numbers that are not whole.

    Returns
    -------
    The two paths
    """
    texts, numeric, constants = _as_texts(table, digits)
    above = ". ".join(filter(None, (caption, constants)))
    heads = " & ".join(str(column).replace("_", " ").translate(LATEX) for column in texts)
    rows = [" & ".join(cell.translate(LATEX) for cell in row) for row in zip(*texts.values(), strict=True)]
    columns = "".join("r" if column in numeric else "l" for column in texts)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{above.translate(LATEX)}}}",
        rf"\label{{tab:{name.replace('_', '-')}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"{heads} \\",
        r"\midrule",
        *(rf"{row} \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    paths = [Path(folder) / f"{name}.{kind}" for kind in ("csv", "tex")]
    write_text(paths[0], table.to_csv(index=False))
    write_text(paths[1], "\n".join(lines) + "\n")
    return paths


def _as_texts(
    table, digits: int, quoted: bool = False, columns_that_stay: Collection = ()
) -> tuple[dict[Any, list[str]], set, str]:
    """The cells of each column that varies as texts, the names of those of numbers, and a line with the constants."""
    table = table.dropna(axis=1, how="all") if len(table) else table
    present = {name: [value for value in table[name] if value is not None and value == value] for name in table}
    decimals = {
        name: 0 if all(float(value).is_integer() for value in values) else digits
        for name, values in present.items()
        if all(isinstance(value, Real) and not isinstance(value, bool) for value in values)
    }

    chosen = [name for name in decimals if _were_chosen(present[name], digits)]

    def format_cell(value: Any, name: Any) -> str:
        if value is None or value != value:
            return ""
        if name not in decimals:
            return str(value).lower() if isinstance(value, bool) else str(value)
        return f"{value:g}" if name in chosen else f"{value:z.{decimals[name]}f}"

    texts = {name: [format_cell(value, name) for value in table[name]] for name in table}
    constant = [name for name in table if len(table) > 2 and table[name].nunique(dropna=False) == 1]
    constant = [name for name in constant if name not in columns_that_stay]
    written = str if quoted else _as_words
    told = "; ".join(f"{name} {written(texts[name][0])}" for name in constant if texts[name][0])
    varying = {name: cells for name, cells in texts.items() if name not in constant}
    return varying, set(decimals), f"In all rows: {told}" if told else ""


def _were_chosen(values: list[float], digits: int) -> bool:
    """Whether numbers are short but would be rounded, as learning rates are; measured numbers are long."""
    return all(float(f"{value:.3g}") == value for value in values) and any(round(v, digits) != v for v in values)
