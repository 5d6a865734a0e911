"""Pictures and highlighted words that follow the page: their colours are CSS variables, which a dark page sets.

A notebook keeps its figures as SVG with fixed colours, which any viewer shows. When a page is made (of the book, or of
a run), each SVG becomes a part of the page, and each colour of our palette a variable whose fallback is this colour.
Only a dark page defines the variables. The colours of heat maps, and of letters on them, stay as they are.
"""

import hashlib
import html
import re
from collections.abc import Mapping

DARK = {  # colour on a light page -> name of its variable, colour on a dark page
    "#000000": ("ink", "#e4e6eb"),
    "#ffffff": ("paper", "var(--drawn-page)"),
    "#0072b2": ("blue", "#4fa3e3"),
    "#e69f00": ("orange", "#f2b33a"),
    "#009e73": ("green", "#22bd92"),
    "#d55e00": ("red", "#ff7f3f"),
    "#cc79a7": ("purple", "#de9dc3"),
    "#56b4e9": ("sky", "#a5daff"),
    "#767676": ("grey", "#a4a9b4"),
    "#a34000": ("dark-red", "#ff9f70"),
}
MARK = "230,159,0"  # the orange behind a selected word, to which its strength is added
DARK_MARK = "158,94,0"  # on which light letters can be read
# What the pages of runs and of the book share. A figure has one form for a desk and one for a phone; on a phone, each
# row of a table whose cells tell the names of their columns is a block, with the name before each value.
NARROW = """
:is(main, .md-typeset) .drawn { max-width: 100%; height: auto; }
.drawn.narrow { display: none; }
@media screen and (max-width: 600px) {
  .drawn.wide { display: none; }
  .drawn.narrow { display: inline; }
  :is(main, .md-typeset) table:has(td[data-name]) :is(tbody, tr, td) { display: block; border: 0; text-align: left; }
  :is(main, .md-typeset) table:has(td[data-name]) :is(thead, td:empty) { display: none; }
  :is(main, .md-typeset) table:has(td[data-name]) tr { border-bottom: 1px solid LINE; padding: .4rem 0; }
  :is(main, .md-typeset) table:has(td[data-name]) tr td { min-width: 0; padding: 0 .2rem .15rem; }
  :is(main, .md-typeset) table:has(td[data-name]) td:not([data-name]) { font-weight: 600; }
  td[data-name]::before { content: attr(data-name) ": "; color: QUIET; font-weight: 400; }
}
"""
SIZE = re.compile(r"""\bviewBox\s*=\s*"[-\d.]+ [-\d.]+ ([\d.]+) ([\d.]+)\"""")
UNSAFE = re.compile(r"<\s*(?:script|foreignObject|iframe|a)\b|<[^>]*(?:\son\w+\s*=|javascript:)", re.I)
LEFT_OUT = re.compile(r"<metadata>.*?</metadata>|<style\b[^>]*>.*?</style>|<!--.*?-->", re.S)
COLOUR = re.compile(r"""((?:fill|stroke)(?::\s*|="))(#[0-9a-f]{6}|white|black)(?=[;"])""", re.I)
NAMED = {"white": "#ffffff", "black": "#000000"}
# Bold letters in black are those of a title; a marked label has a colour.
FINDING = re.compile(r'<text style="font-weight: (?:700|bold)(?![^"]*fill)[^>]*>([^<]+)</text>')


def variables(page: str) -> str:
    """The declarations of CSS for a dark page whose background is `page`, a colour."""
    values = {"page": page, "mark": f"rgb({DARK_MARK})"} | dict(DARK.values())
    return " ".join(f"--drawn-{name}: {value};" for name, value in values.items()) + f" --mark: {DARK_MARK};"


def finding(picture: str) -> str:
    """The title of a figure in SVG, which says what is seen; "committed picture" if it has none."""
    return " ".join(map(html.unescape, FINDING.findall(picture))) or "committed picture"


def narrow_style(line: str, quiet: str) -> str:
    """`NARROW` with the colours, in CSS, of thin lines and of words that stand back."""
    return NARROW.strip().replace("LINE", line).replace("QUIET", quiet)


def inlined(svg: str, alt: str = "", kind: str = "", style: str = "") -> str | None:
    """An SVG as a part of a page, with variables for its colours; None for one that could do more than be seen.

    Parameters
    ----------
    svg
        The text of a file.
    alt
        What it shows, in words.
    kind
        A further class of the element, beside `drawn`.
    style
        Declarations of CSS for the element.
    """
    if "<svg" not in svg or UNSAFE.search(svg):
        return None
    svg = LEFT_OUT.sub("", svg[svg.index("<svg") :])
    prefix = f"d{hashlib.sha1(f'{kind} {svg}'.encode()).hexdigest()[:8]}-"  # two pictures may use the same names
    used = set(re.findall(r"""(?:href="|url\()#([^")]+)""", svg))

    def renamed(found: re.Match) -> str:
        tag = re.sub(r'\sid="([^"]*)"', lambda at: f' id="{prefix}{at[1]}"' if at[1] in used else "", found[0])
        tag = re.sub(r"""(href="|url\()#""", rf"\1#{prefix}", tag)
        tag = COLOUR.sub(_as_variable, tag)
        return tag.replace("--drawn-orange,", "--drawn-mark,") if "fill-opacity" in tag else tag

    head, *rest = re.split(r"(?<=>)", svg, maxsplit=1)
    body = re.sub(r"<[a-zA-Z][^>]*>", renamed, "".join(rest))
    return _head(head, alt, " ".join(filter(None, ("drawn", kind))), style) + body.rstrip()


def both(svg: str, about: Mapping) -> str | None:
    """A figure of a notebook as a part of a page, and for narrow pages the same figure arranged for them.

    Parameters
    ----------
    svg
        The figure.
    about
        What the notebook keeps with it: `alt`, and perhaps `narrow`, another SVG.
    """
    alt, narrow = about.get("alt", "figure"), about.get("narrow", "")
    parts = [inlined(svg, alt, "wide" if narrow else ""), inlined(narrow, alt, "narrow") if narrow else ""]
    return None if None in parts else "".join(parts)


def marked(text: str) -> str:
    """HTML whose highlighted words take the strength of their orange from the notebook and its tone from the page."""
    return text.replace(f"rgba({MARK},", f"rgba(var(--mark,{MARK}),")


def _as_variable(found: re.Match) -> str:
    """A colour of our palette as a variable; any other colour as it is."""
    colour = NAMED.get(found[2].lower(), found[2].lower())
    return f"{found[1]}var(--drawn-{DARK[colour][0]},{colour})" if colour in DARK else found[0]


def _head(tag: str, alt: str, kind: str, style: str) -> str:
    """The opening tag of an SVG: it keeps its size and what its letters inherit, and says what is seen."""
    kept = dict(re.findall(r'\s(viewBox|width|height|font-family|font-size)="([^"]*)"', tag))
    if (box := SIZE.search(tag)) and "width" not in kept:
        kept["width"], kept["height"] = box[1], box[2]
    looks = " ".join(f'{name}="{value}"' for name, value in kept.items())
    lines = "stroke-linejoin:round;stroke-linecap:butt"  # what matplotlib says for all elements
    words = f'role="img" aria-label="{html.escape(alt, quote=True)}"'
    style = f"fill:var(--drawn-ink,#000);{lines}{';' + style if style else ''}"
    return f'<svg class="{kind}" {words} {looks} style="{style}">'
