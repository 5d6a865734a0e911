"""Tables in the built site: on a phone, a table with several columns of text is read row by row, not sideways."""

import html
import re
from pathlib import Path

from rationale.figures.tables import is_prose

TABLE = re.compile(r"<table>\s*<thead>.*?</table>", re.S)  # those of Markdown, which have no class
CELL = re.compile(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", re.S)
ROW = re.compile(r"<tr>.*?</tr>", re.S)


def label_cells(site: Path) -> None:
    """Let the cells of tables with several columns of longer texts tell the name of their column.

    On a phone, each row of such a table becomes a block, with these names before the values (`rationale.runs.themes`).
    The first cell of a row stands above the others and needs no name.
    """
    for path in site.rglob("*.html"):
        text = path.read_text("utf-8")
        if (changed := TABLE.sub(_labelled, text)) != text:
            path.write_text(changed, "utf-8")


def _labelled(found: re.Match) -> str:
    """A table whose cells tell the names of their columns; as it is if most of its columns are short, or formulas."""
    heads, *rows = (CELL.findall(row) for row in ROW.findall(found[0]))
    names = [html.escape(_words(head), quote=True) for head in heads]
    longest = [max(len(_words(cell)) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    if not is_prose(longest) or "arithmatex" in found[0]:
        return found[0]

    def labelled(row: re.Match) -> str:
        name = iter(["", *(f' data-name="{name}"' for name in names[1:])])
        return re.sub(r"<td\b", lambda found: found[0] + next(name), row[0])

    return ROW.sub(labelled, found[0])


def _words(cell: str) -> str:
    """The text of a cell."""
    return html.unescape(re.sub(r"<[^>]+>", "", cell)).strip()
