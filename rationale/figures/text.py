"""Text with its rationale highlighted, as HTML, as SVG and for a terminal; and tables."""

import html
import os
import unicodedata
from collections.abc import Iterable, Sequence
from numbers import Real

from rationale.figures.look import GREY, ORANGE, check_numbers


class Html(str):
    """A string of HTML, which a notebook displays as HTML."""

    def _repr_html_(self) -> str:
        return str(self)


def show_table(table, digits: int = 3) -> Html:
    """A DataFrame as a narrow HTML table.

    A value that is the same in all rows is written once, above the table; a missing value is a blank cell. Columns
    without any value are left out, whole numbers have no decimals, and the name of a column may be broken into lines.

    Parameters
    ----------
    table : pandas.DataFrame
        Its index is not shown; call `reset_index` first if it is needed.
    digits : int
        Decimals of numbers that are not whole.
    """
    table = table.dropna(axis=1, how="all") if len(table) else table
    constant = [name for name in table if len(table) > 2 and table[name].nunique(dropna=False) == 1]
    present = {name: [value for value in table[name] if value is not None and value == value] for name in table}
    decimals = {  # of the numeric columns
        name: 0 if all(float(value).is_integer() for value in values) else digits
        for name, values in present.items()
        if all(isinstance(value, Real) for value in values)
    }

    def format_cell(value, name: str) -> str:
        if value is None or value != value:
            return ""
        return f"{value:z.{decimals[name]}f}" if name in decimals else html.escape(str(value))

    texts = {name: [format_cell(value, name) for value in table[name]] for name in table}
    constants = "; ".join(f"{name} {texts[name][0]}" for name in constant if texts[name][0])
    style = {name: "" if name in decimals else " style='text-align: left; vertical-align: top'" for name in table}
    varying = [name for name in table if name not in constant]
    heads = "".join(f"<th{style[name]}>{html.escape(str(name)).replace('_', ' ')}</th>" for name in varying)
    cells = zip(*([f"<td{style[name]}>{cell}</td>" for cell in texts[name]] for name in varying), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    caption = (
        f"<caption style='text-align: left; caption-side: top'>In all rows: {constants}</caption>" if constants else ""
    )
    return Html(f"<table class='dataframe'>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")


def highlight_html(tokens: Sequence[str], z, gold: Sequence[bool] | None = None, title: str = "") -> Html:
    """A text with its rationale highlighted, as HTML that a notebook displays.

    A selected token (z > 0) is bold on orange, and the orange is stronger for a larger z. A token with z = 0 is faint.
    A token of the gold rationale is underlined. The text is readable without colour, on light and on dark pages.

    Parameters
    ----------
    tokens : [T] str
        Tokens may contain any characters; they are escaped.
    z : [T], in [0, 1]
        Gate values at test time.
    gold : [T] bool or None
        The annotated rationale.
    title : str
        A line above the text.
    """
    words = []
    for token, value, mark in _check_tokens(tokens, z, gold):
        word = html.escape(str(token))
        word = f"<u>{word}</u>" if mark else word
        if value > 0:
            style = f"background:rgba(230,159,0,{0.2 + 0.45 * value:.2f});color:inherit;padding:0 .15em"
            words.append(f'<mark style="{style}" title="z = {value:.2f}"><b>{word}</b></mark>')
        else:
            words.append(f'<span style="opacity:.6">{word}</span>')
    heading = f"<div><b>{html.escape(title)}</b></div>" if title else ""
    return Html(f'<div style="line-height:1.7;max-width:60em">{heading}{" ".join(words)}</div>')


def highlight_ansi(
    tokens: Sequence[str],
    z,
    gold: Sequence[bool] | None = None,
    width: int = 100,
    color: bool | None = None,
) -> str:
    """A text with its rationale highlighted for a terminal, broken into lines of at most `width` columns.

    With colour, selected tokens are bold on orange (z >= 1/2) or on pale yellow, tokens with z = 0 are faint, and gold
    tokens are underlined. Without colour, each sequence of selected tokens is in [brackets], and each gold token is
    between _underscores_.

    Parameters
    ----------
    tokens : [T] str
        Control characters, which could control the terminal, are replaced by "?".
    z : [T], in [0, 1]
    gold : [T] bool or None
    width : int, >= 1
        A longer token is on a line of its own.
    color : bool or None
        None means with colour, unless the environment variable NO_COLOR is set to a value that is not empty. The
        caller has to decide whether the output is a terminal.
    """
    color = not os.environ.get("NO_COLOR") if color is None else color
    gates = _check_tokens(tokens, z, gold)
    pieces = []  # for each token, what is visible, and the same with its control sequences
    for i, (token, value, mark) in enumerate(gates):
        word = "".join(c if c.isprintable() else "?" for c in str(token))
        if color:
            style = "2" if value == 0 else "1;30;48;5;214" if value >= 0.5 else "1;30;48;5;229"
            pieces.append((word, f"\x1b[{style}{';4' if mark else ''}m{word}\x1b[0m"))
            continue
        word = f"_{word}_" if mark else word
        if value > 0:
            first, last = i == 0 or gates[i - 1][1] == 0, i == len(gates) - 1 or gates[i + 1][1] == 0
            word = "[" * first + word + "]" * last
        pieces.append((word, word))
    lines, used = [[]], 0
    for visible, output in pieces:
        columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in visible)
        if lines[-1] and used + 1 + columns > width:
            lines.append([])
            used = 0
        used += columns + bool(lines[-1])
        lines[-1].append(output)
    return "\n".join(" ".join(line) for line in lines)


def highlight_svg(texts: Iterable[tuple[str, Sequence[str], Sequence[float], Sequence[bool] | None]]) -> str:
    """Texts with their rationales highlighted, one below the other, as an SVG image in a monospaced font.

    Selected tokens are bold on orange (paler for a smaller z), tokens with z = 0 are grey, and gold tokens are
    underlined. Lines are broken after 84 characters.

    Parameters
    ----------
    texts : (title, tokens, z, gold or None) for each text
        z is in [0, 1].
    """
    columns, line, char, margin = 84, 25, 9.0, 18  # the first in characters, the others in pixels
    shapes, y = [], margin
    for title, tokens, z, gold in texts:
        y += line
        shapes.append(f'<text x="{margin}" y="{y}" font-weight="bold">{html.escape(title)}</text>')
        column, y = 0, y + line
        for token, value, mark in _check_tokens(tokens, z, gold):
            if column and column + len(token) > columns:
                column, y = 0, y + line
            x, width = margin + char * column, char * len(token)
            if value > 0:
                box = f'x="{x - 3:g}" y="{y - 17}" width="{width + 6:g}" height="23" rx="4" fill="{ORANGE}"'
                shapes.append(f'<rect {box} fill-opacity="{0.25 + 0.5 * value:.2f}"/>')
            style = 'font-weight="bold" fill="black"' if value > 0 else f'fill="{GREY}"'
            style += ' text-decoration="underline"' if mark else ""
            shapes.append(f'<text x="{x:g}" y="{y}" textLength="{width:g}" {style}>{html.escape(token)}</text>')
            column += len(token) + 1
        y += line // 2
    size = f'viewBox="0 0 {2 * margin + char * columns:g} {y + margin}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="15">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"])


def _check_tokens(tokens: Sequence[str], z, gold) -> list[tuple[str, float, bool]]:
    """(token, gate value, whether the token is in the gold rationale) for each token.

    Raises
    ------
    ValueError
        If the lengths differ or a value lies outside [0, 1].
    """
    values = check_numbers(z, "z").ravel()
    marks = [False] * len(tokens) if gold is None else [bool(mark) for mark in gold]
    if not len(tokens) == len(values) == len(marks):
        lengths = f"{len(tokens)}, {len(values)} and {len(marks)}"
        raise ValueError(f"tokens, z, gold: got lengths {lengths}, equal lengths are accepted")
    if not ((0 <= values) & (values <= 1)).all():
        raise ValueError(f"z: got values from {values.min():g} to {values.max():g}, [0, 1] is accepted")
    return list(zip(tokens, values.tolist(), marks, strict=True))
