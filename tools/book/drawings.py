"""SVG pictures in the book: parts of their pages, with the words that they show and a width that keeps them legible."""

import html
import os
import re
from pathlib import Path
from urllib.parse import unquote

from rationale.runs.themes import SIZE, finding, inlined

LEGIBLE = 9  # the smallest height of letters on a phone, in pixels
LETTERS = re.compile(r'font-size[:=]\s*"?([\d.]+)')
IMAGE = re.compile(r'<img\b[^>]*?\ssrc="([^":]+\.svg)"[^>]*>')


def least_width(picture: str) -> int | None:
    """The width in pixels at which the smallest letters of an SVG are `LEGIBLE`; None for a picture without letters."""
    sizes, box = [float(size) for size in LETTERS.findall(picture)], SIZE.search(picture)
    return round(float(box[1]) * LEGIBLE / min(sizes)) + 1 if sizes and box else None


def draw_in_pages(site: Path) -> None:
    """Make each SVG a part of its page, which gives it its colours, and say how wide it must at least be.

    On a phone, a picture that needs more width than the page has scrolls sideways (book.css).
    """
    for path in site.rglob("*.html"):

        def drawn(found: re.Match, folder: Path = path.parent) -> str:
            file = Path(os.path.normpath(folder / unquote(html.unescape(found[1]))))
            if not file.is_file():
                return found[0]
            said = {name: html.unescape(value) for name, value in re.findall(r'(alt|class)="([^"]*)"', found[0])}
            picture, kind = file.read_text("utf-8"), said.get("class", "")
            width = None if kind else least_width(picture)
            style = f"--least:{width}px" if width else ""
            inside = inlined(picture, said.get("alt") or finding(picture), kind, style)
            if inside is None:
                return found[0]
            return inside if kind else f'<span class="drawing">{inside}</span>'

        text = path.read_text("utf-8")
        if (changed := IMAGE.sub(drawn, text)) != text:
            path.write_text(changed, "utf-8")
    for file in (site / "img").glob("*.svg"):  # they have become parts of the pages
        file.unlink()
