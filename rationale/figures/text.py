"""Highlighted text as HTML, SVG and terminal output, and tables."""

import html
import os
import unicodedata
from collections.abc import Iterable, Sequence
from numbers import Real

from rationale.figures.look import GREY, ORANGE, checked_numbers


class Html(str):
    """A piece of HTML that is a plain string to Python and shows itself in a notebook."""

    def _repr_html_(self) -> str:
        return str(self)


def show_table(table, digits: int = 3) -> Html:
    """A DataFrame as a narrow table: what is the same in all rows stands above it once, what is missing is blank.

    Columns without any value are left out, whole numbers have no decimals, and words of a column's name may break.

    Parameters
    ----------
    table : pandas.DataFrame
        Its index is not shown: reset it where it says something.
    digits : int
        Decimals of numbers that are not whole.
    """
    table = table.dropna(axis=1, how="all") if len(table) else table
    same = [name for name in table if len(table) > 2 and table[name].nunique(dropna=False) == 1]
    known = {name: [value for value in table[name] if value is not None and value == value] for name in table}
    decimals = {  # of the columns of numbers
        name: 0 if all(float(value).is_integer() for value in values) else digits
        for name, values in known.items()
        if all(isinstance(value, Real) for value in values)
    }

    def text(value, name: str) -> str:
        if value is None or value != value:
            return ""
        return f"{value:z.{decimals[name]}f}" if name in decimals else html.escape(str(value))

    shown = {name: [text(value, name) for value in table[name]] for name in table}
    above = "; ".join(f"{name} {shown[name][0]}" for name in same if shown[name][0])
    look = {name: "" if name in decimals else " style='text-align: left; vertical-align: top'" for name in table}
    left = [name for name in table if name not in same]
    heads = "".join(f"<th{look[name]}>{html.escape(str(name)).replace('_', ' ')}</th>" for name in left)
    cells = zip(*([f"<td{look[name]}>{cell}</td>" for cell in shown[name]] for name in left), strict=True)
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in cells)
    caption = f"<caption style='text-align: left; caption-side: top'>In all rows: {above}</caption>" if above else ""
    return Html(f"<table class='dataframe'>{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")


def _gates(tokens: Sequence[str], z, gold) -> list[tuple[str, float, bool]]:
    """(token, value, in gold) for each token.

    Raises
    ------
    ValueError
        If the lengths differ or a value lies outside [0, 1].
    """
    values = checked_numbers(z, "z").ravel()
    marks = [False] * len(tokens) if gold is None else [bool(mark) for mark in gold]
    if not len(tokens) == len(values) == len(marks):
        lengths = f"{len(tokens)}, {len(values)} and {len(marks)}"
        raise ValueError(f"tokens, z, gold: got lengths {lengths}, equal lengths are accepted")
    if not ((0 <= values) & (values <= 1)).all():
        raise ValueError(f"z: got values from {values.min():g} to {values.max():g}, [0, 1] is accepted")
    return list(zip(tokens, values.tolist(), marks, strict=True))


def highlight_html(tokens: Sequence[str], z, gold: Sequence[bool] | None = None, title: str = "") -> Html:
    """Text with its rationale marked, as HTML that shows itself in a notebook.

    A selected token (z > 0) is bold on orange, the stronger the larger z; an exact zero is faint; a token of
    the gold rationale is underlined. Readable without colour, on light and on dark pages.

    Parameters
    ----------
    tokens : [T] str
        Any text; it is escaped.
    z : [T], in [0, 1]
        Gate values at test time.
    gold : [T] bool or None
        The annotated rationale.
    title : str
        A line above.
    """
    words = []
    for token, value, mark in _gates(tokens, z, gold):
        word = html.escape(str(token))
        word = f"<u>{word}</u>" if mark else word
        if value > 0:
            look = f"background:rgba(230,159,0,{0.2 + 0.45 * value:.2f});color:inherit;padding:0 .15em"
            words.append(f'<mark style="{look}" title="z = {value:.2f}"><b>{word}</b></mark>')
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
    """Text with its rationale marked, for a terminal, broken into lines of at most `width` columns.

    In colour: selected tokens are bold on orange (z >= 1/2) or on pale yellow, exact zeros faint, gold tokens
    underlined. Without: selected stretches in [brackets], each gold token between _underscores_.

    Parameters
    ----------
    tokens : [T] str
        Control characters (which could steer the terminal) are shown as "?".
    z : [T], in [0, 1]
    gold : [T] bool or None
    width : int, >= 1
        A longer token stands alone on its line.
    color : bool or None
        None: in colour unless the environment variable NO_COLOR is set to something. Whether the output is a
        terminal is for the caller to say.
    """
    color = not os.environ.get("NO_COLOR") if color is None else color
    gates = _gates(tokens, z, gold)
    pieces = []  # (shown, as typed to the terminal) of each token
    for i, (token, value, mark) in enumerate(gates):
        word = "".join(c if c.isprintable() else "?" for c in str(token))
        if color:
            look = "2" if value == 0 else "1;30;48;5;214" if value >= 0.5 else "1;30;48;5;229"
            pieces.append((word, f"\x1b[{look}{';4' if mark else ''}m{word}\x1b[0m"))
            continue
        word = f"_{word}_" if mark else word
        if value > 0:
            first, last = i == 0 or gates[i - 1][1] == 0, i == len(gates) - 1 or gates[i + 1][1] == 0
            word = "[" * first + word + "]" * last
        pieces.append((word, word))
    lines, used = [[]], 0
    for shown, typed in pieces:
        columns = sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)
        if lines[-1] and used + 1 + columns > width:
            lines.append([])
            used = 0
        used += columns + bool(lines[-1])
        lines[-1].append(typed)
    return "\n".join(" ".join(line) for line in lines)


def highlight_svg(texts: Iterable[tuple[str, Sequence[str], Sequence[float], Sequence[bool] | None]]) -> str:
    """Texts with their rationales marked, one below the other, as an SVG picture in a monospaced font.

    Selected tokens are bold on orange (paler for a small z), exact zeros grey, gold tokens underlined.

    Parameters
    ----------
    texts : (title, tokens, z, gold or None) of each text
        z in [0, 1]. Lines break after 84 characters.
    """
    columns, line, char, margin = 84, 25, 9.0, 18  # characters; the rest in pixels
    shapes, y = [], margin
    for title, tokens, z, gold in texts:
        y += line
        shapes.append(f'<text x="{margin}" y="{y}" font-weight="bold">{html.escape(title)}</text>')
        column, y = 0, y + line
        for token, value, mark in _gates(tokens, z, gold):
            if column and column + len(token) > columns:
                column, y = 0, y + line
            x, width = margin + char * column, char * len(token)
            if value > 0:
                box = f'x="{x - 3:g}" y="{y - 17}" width="{width + 6:g}" height="23" rx="4" fill="{ORANGE}"'
                shapes.append(f'<rect {box} fill-opacity="{0.25 + 0.5 * value:.2f}"/>')
            look = 'font-weight="bold" fill="black"' if value > 0 else f'fill="{GREY}"'
            look += ' text-decoration="underline"' if mark else ""
            shapes.append(f'<text x="{x:g}" y="{y}" textLength="{width:g}" {look}>{html.escape(token)}</text>')
            column += len(token) + 1
        y += line // 2
    size = f'viewBox="0 0 {2 * margin + char * columns:g} {y + margin}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="15">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"])
