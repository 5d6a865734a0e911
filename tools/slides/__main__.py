"""Slides for the meetings of a reading group: `python -m tools.slides` (or `make slides`).

For each meeting of `00_read_me_first`, five slides stand in `notebooks/slides/meeting_N.yaml`: a title that says the
finding, one sentence, the place of a picture in a notebook, and notes for the speaker. The pictures are taken from the
runs that the book shows (`tools/book`); a notebook is executed only if no finished run shows its current text.

A deck is one HTML file that loads nothing, so it can be shown from a memory stick without a network. That is why it is
not made by nbconvert's exporter of slides: its decks load reveal.js from an address or a folder, and none of the
packages that this project needs brings that folder along. `deck.js` and `deck.css` take the place of reveal.js.
"""

import base64
import html
import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import yaml
from nbformat import NotebookNode
from pydantic import BaseModel, ConfigDict, Field

from rationale.errors import BadInput, command, shown
from rationale.files import write_text
from rationale.runs import RunFailed, notebook_path, root
from rationale.runs.committed import reference_folder
from rationale.runs.exercises import is_tagged
from rationale.runs.page import markdown_to_html
from tools import command_line
from tools.book.__main__ import TIMES, executed, finished_runs, shows
from tools.notebooks import read_notebook

HERE = Path(__file__).parent
CODE = re.compile(r"^```.*?^```", re.M | re.S)  # a block in Markdown, in which no line is a heading
KEYS = {
    "→, space, page down": "the next slide",
    "←, page up": "the slide before",
    "home, end": "the first and the last slide",
    "s": "the speaker's notes, below the slide",
    "w": "the speaker's notes, in a window of their own that goes along",
    "f": "the whole screen",
}


class Place(BaseModel):
    """Where a picture stands: in which notebook, below which heading, and there which one it is."""

    model_config = ConfigDict(extra="forbid")

    notebook: str
    section: str  # its heading without its number
    number: Annotated[int, Field(ge=1)] = 1


class Slide(BaseModel):
    """One slide."""

    model_config = ConfigDict(extra="forbid")

    title: str
    text: str
    figure: Place
    notes: str


class Deck(BaseModel):
    """The slides of a meeting."""

    model_config = ConfigDict(extra="forbid")

    title: str
    slides: Annotated[list[Slide], Field(min_length=5, max_length=5)]


def deck_files() -> list[Path]:
    """The sources of the decks, in the order of the meetings."""
    return sorted((root() / "notebooks" / "slides").glob("meeting_*.yaml"))


def read_deck(file: Path) -> Deck:
    """The slides of a meeting.

    Raises
    ------
    BadInput
        If the file does not have this form.
    """
    try:
        return Deck(**yaml.safe_load(file.read_text("utf-8")))
    except (yaml.YAMLError, TypeError, ValueError) as error:
        raise BadInput(f"{shown(file)}: {error}") from None


def find_picture(notebook: NotebookNode, place: Place) -> NotebookNode:
    """The cell at a place.

    A cell has a picture if it is tagged `figure`, or if it shows texts with highlighted words and belongs to no
    exercise.

    Raises
    ------
    BadInput
        If the notebook has no such section, or the section has fewer pictures.
    """
    cells: dict[str, list[NotebookNode]] = {}
    section = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            headings = re.findall(r"^##+ (?:\d+\. )?(.+)$", CODE.sub("", cell.source), re.M)
            section = headings[-1] if headings else section
            cells.setdefault(section, [])
        elif is_tagged(cell, "figure") or ("highlight_html(" in cell.source and not cell.metadata.get("tags")):
            cells.setdefault(section, []).append(cell)
    if place.section not in cells:
        sections = "; ".join(filter(None, cells))
        raise BadInput(f"{place.notebook} has no section {place.section!r}; it has {sections}")
    found = cells[place.section]
    if place.number > len(found):
        raise BadInput(f"{place.notebook}, section {place.section!r}, has no picture {place.number}, but {len(found)}")
    return found[place.number - 1]


def picture_html(cell: NotebookNode, title: str) -> str:
    """The first picture that a cell shows, or else its highlighted texts, as HTML that loads nothing; "" if none."""
    texts = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            about = output.metadata.get("image/png", {})
            return _image("png", "".join(data["image/png"].split()), about.get("alt", title))
        if "image/svg+xml" in data:
            alt = output.metadata.get("image/svg+xml", {}).get("alt", title)
            return _image("svg+xml", base64.b64encode(data["image/svg+xml"].encode()).decode(), alt)
        if "text/html" in data and not is_tagged(cell, "figure"):
            texts.append(data["text/html"])
    return f'<div class="texts">{"".join(texts)}</div>' if texts else ""


def _image(kind: str, data: str, alt: str) -> str:
    return f'<img src="data:image/{kind};base64,{data}" alt="{html.escape(alt, quote=True)}">'


def deck_page(deck: Deck, pictures: list[str]) -> str:
    """A deck as one page of HTML, with a picture for each slide."""
    sections = []
    for number, (slide, picture) in enumerate(zip(deck.slides, pictures, strict=True), start=1):
        where = html.escape(f"{slide.figure.notebook}, {slide.figure.section}")
        sections.append(
            f'<section id="slide-{number}" aria-label="slide {number} of {len(pictures)}">\n'
            f"<header><h1>{_inline(slide.title)}</h1>\n<p>{_inline(slide.text)}</p></header>\n"
            f"<figure>{picture}</figure>\n"
            f"<footer><span>{html.escape(deck.title)}</span><span>{where}</span>"
            f"<span>{number} / {len(pictures)}</span></footer>\n"
            f'<aside class="notes" aria-label="notes">{markdown_to_html(slide.notes)}</aside>\n</section>'
        )
    return _page(deck.title, "\n".join(sections), (HERE / "deck.js").read_text("utf-8"))


def _inline(text: str) -> str:
    """A line of Markdown as HTML, without a paragraph of its own."""
    return markdown_to_html(text).strip().removeprefix("<p>").removesuffix("</p>")


def _page(title: str, body: str, script: str = "") -> str:
    style = (HERE / "deck.css").read_text("utf-8")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{style}</style>\n</head>\n'
        f"<body>\n{body}\n" + (f"<script>\n{script}</script>\n" if script else "") + "</body>\n</html>\n"
    )


def index_page(decks: dict[str, Deck]) -> str:
    """The page that leads to the decks, given by the names of their files."""
    links = "".join(f'<li><a href="{name}.html">{html.escape(deck.title)}</a></li>' for name, deck in decks.items())
    keys = "".join(f"<dt>{html.escape(key)}</dt><dd>{html.escape(does)}</dd>" for key, does in KEYS.items())
    return _page(
        "Slides", f'<main class="index"><h1>Five meetings</h1><ol>{links}</ol><h2>Keys</h2><dl>{keys}</dl></main>'
    )


def write_decks(folder: Path, notebook_of: Callable[[str], NotebookNode]) -> tuple[list[Path], list[str]]:
    """Write the decks and their index into a folder.

    Parameters
    ----------
    folder
        It is made if it is not there.
    notebook_of
        Gives an executed notebook by its name.

    Returns
    -------
    The files of the decks, and one message per deck that could not be made, because a notebook failed or shows no
    picture where a slide needs one. An earlier file of such a deck is removed.
    """
    decks, written, wrong = {}, [], []
    folder.mkdir(parents=True, exist_ok=True)
    for file in deck_files():
        deck = read_deck(file)
        try:
            page = deck_page(deck, [_picture(slide, notebook_of) for slide in deck.slides])
        except (BadInput, RunFailed) as error:
            wrong.append(f"{shown(file)}: {error}")
            (folder / f"{file.stem}.html").unlink(missing_ok=True)
            continue
        decks[file.stem] = deck
        written.append(folder / f"{file.stem}.html")
        write_text(written[-1], page)
    write_text(folder / "index.html", index_page(decks))
    return written, wrong


def _picture(slide: Slide, notebook_of: Callable[[str], NotebookNode]) -> str:
    """The picture of a slide as HTML."""
    picture = picture_html(find_picture(notebook_of(slide.figure.notebook), slide.figure), slide.title)
    if not picture:
        where = f"{slide.figure.notebook}, section {slide.figure.section!r}, picture {slide.figure.number}"
        raise BadInput(f"slide {slide.title!r}: {where}, is not in its run")
    return picture


def not_executed(names: Iterable[str], outputs: Path) -> list[str]:
    """Those of these notebooks that no finished run in `outputs` shows as they are now."""
    paths = map(notebook_path, names)
    return [path.stem for path in paths if not any(shows(run, path) for run in finished_runs(path, outputs))]


@command
def main(arguments: list[str] | None = None) -> int:
    """Execute the notebooks that have no current run, write the decks and print where they are."""
    command_line("slides", __doc__).parse_args(arguments)
    folder = root() / "outputs" / "slides"
    runs: dict[str, NotebookNode] = {}
    names = sorted({slide.figure.notebook for file in deck_files() for slide in read_deck(file).slides})
    if waiting := not_executed(names, root() / "outputs"):
        taken = json.loads((reference_folder() / TIMES).read_text("utf-8"))
        minutes = sum(taken.get(name, 60) for name in waiting) / 60
        print(f"executed first, in about {minutes:.0f} minutes on one core: {', '.join(waiting)}", flush=True)

    def notebook_of(name: str) -> NotebookNode:
        if name not in runs:
            runs[name] = read_notebook(executed(notebook_path(name), root() / "outputs") / "run.ipynb")
        return runs[name]

    written, wrong = write_decks(folder, notebook_of)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    text = f"{len(written)} decks of slides: {shown(folder / 'index.html')}"
    print(f"{text}; not made: {len(wrong)} (see above)" if wrong else text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
