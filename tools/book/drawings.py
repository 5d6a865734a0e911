"""Committed SVG pictures in the book: what they show in words, and the width that makes their letters legible."""

import html
import os
import re
from pathlib import Path
from urllib.parse import unquote

LEGIBLE = 9  # the smallest height of letters on a phone, in pixels
FINDING = re.compile(r'<text style="font-weight: (?:700|bold)[^>]*>([^<]+)</text>')
LETTERS = re.compile(r'font-size[:=]\s*"?([\d.]+)')
BOX = re.compile(r'viewBox="\S+ \S+ ([\d.]+) \S+"')
IMAGE = re.compile(r'<img\b([^>]*?)\ssrc="([^":]+\.svg)"([^>]*)>')


def finding(picture: str) -> str:
    """The title of a figure in SVG, which says what is seen; "committed picture" if it has none."""
    return " ".join(map(html.unescape, FINDING.findall(picture))) or "committed picture"


def least_width(picture: str) -> int | None:
    """The width in pixels at which the smallest letters of an SVG are `LEGIBLE`; None for a picture without letters."""
    sizes, box = [float(size) for size in LETTERS.findall(picture)], BOX.search(picture)
    return round(float(box[1]) * LEGIBLE / min(sizes)) + 1 if sizes and box else None


def keep_legible(site: Path) -> None:
    """Tell each page how wide its SVG pictures must at least be; on a phone a wider one scrolls sideways (book.css)."""
    for path in site.rglob("*.html"):

        def widened(found: re.Match, folder: Path = path.parent) -> str:
            before, source, after = found.groups()
            file = Path(os.path.normpath(folder / unquote(html.unescape(source))))
            width = least_width(file.read_text("utf-8")) if file.is_file() else None
            if width is None:
                return found[0]
            return f'<span class="drawing"><img{before} src="{source}"{after} style="--least: {width}px"></span>'

        text = path.read_text("utf-8")
        path.write_text(IMAGE.sub(widened, text), "utf-8")
