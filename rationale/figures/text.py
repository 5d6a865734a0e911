"""Text with its rationale highlighted, as HTML and as SVG; `rationale.highlight` has it for a terminal."""

import html
from collections.abc import Iterable, Sequence

from rationale.errors import printable
from rationale.excerpts import PRINTED
from rationale.figures.look import GREY, ORANGE
from rationale.highlight import check_tokens, num_columns


class Html(str):
    """A string of HTML, which a notebook displays as HTML."""

    def _repr_html_(self) -> str:
        return str(self)


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
    for token, value, mark in check_tokens(tokens, z, gold):
        word = html.escape(str(token))
        word = f"<u>{word}</u>" if mark else word
        if value > 0:
            style = f"background:rgba(230,159,0,{0.2 + 0.45 * value:.2f});color:inherit;padding:0 .15em"
            words.append(f'<mark style="{style}" title="z = {value:.2f}"><b>{word}</b></mark>')
        else:
            words.append(f'<span style="opacity:.6">{word}</span>')
    heading = f"<div><b>{html.escape(title)}</b></div>" if title else ""
    style = f"line-height:1.7;max-width:60em;overflow-wrap:anywhere;{PRINTED}"
    return Html(f'<div style="{style}">{heading}{" ".join(words)}</div>')


def highlight_svg(texts: Iterable[tuple[str, Sequence[str], Sequence[float], Sequence[bool] | None]]) -> str:
    """Texts with their rationales highlighted, one below the other, as an SVG image in a monospaced font.

    Selected tokens are bold on orange (paler for a smaller z), tokens with z = 0 are grey, and gold tokens are
    underlined. Lines are broken after 84 columns, of which a Chinese character takes two; so is a longer word. Control
    characters, which an SVG may not hold, are replaced by their escapes.

    Parameters
    ----------
    texts : (title, tokens, z, gold or None) for each text
        z is in [0, 1].
    """
    columns, line, char, margin = 84, 25, 9.0, 18  # the first in characters, the others in pixels
    shapes, y = [], margin
    for title, tokens, z, gold in texts:
        for part in _pieces(title, columns):
            y += line
            shapes.append(f'<text x="{margin}" y="{y}" font-weight="bold">{html.escape(part)}</text>')
        column, y = 0, y + line
        marked = check_tokens(tokens, z, gold)
        for word, value, mark in ((part, *rest) for token, *rest in marked for part in _pieces(str(token), columns)):
            if column and column + num_columns(word) > columns:
                column, y = 0, y + line
            x, width = margin + char * column, char * num_columns(word)
            if value > 0:
                box = f'x="{x - 3:g}" y="{y - 17}" width="{width + 6:g}" height="23" rx="4" fill="{ORANGE}"'
                shapes.append(f'<rect {box} fill-opacity="{0.25 + 0.5 * value:.2f}"/>')
            style = 'font-weight="bold" fill="black"' if value > 0 else f'fill="{GREY}"'
            style += ' text-decoration="underline"' if mark else ""
            shapes.append(f'<text x="{x:g}" y="{y}" textLength="{width:g}" {style}>{html.escape(word)}</text>')
            column += num_columns(word) + 1
        y += line // 2
    size = f'viewBox="0 0 {2 * margin + char * columns:g} {y + margin}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="15">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *shapes, "</svg>\n"])


def _pieces(text: str, columns: int) -> list[str]:
    """A text as it may stand in an SVG, in pieces of at most so many columns; mostly it is one."""
    text = printable(text)
    if num_columns(text) <= columns:
        return [text]
    size = columns // 2 if num_columns(text) > len(text) else columns
    return [text[start : start + size] for start in range(0, len(text), size)]
