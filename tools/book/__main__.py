"""Build the book: `python -m tools.book` (or `make book`) writes outputs/book/index.html.

With names of notebooks, such as `python -m tools.book 03_hardkuma`, only these are executed. The pages of the others
show the runs that the last book showed, even if their notebooks have changed since.

README's reading order -> executed notebooks -> Markdown -> MkDocs with its Material theme -> links between equations.
A notebook is executed only if no finished run shows its current text; the pages are built from the runs.
"""

import hashlib
import html
import json
import logging
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import yaml

from rationale.data import data_folder
from rationale.data.corpora import names_own
from rationale.errors import BadInput, command, require_known
from rationale.files import lock_folder, write_text
from rationale.runs import RunFailed, notebook_path, root, run
from rationale.runs.cells import defaults, reads_committed
from rationale.runs.committed import FIGURES
from rationale.runs.intact import read_yaml
from rationale.runs.origin import read_environment
from rationale.runs.parameters import modernised
from rationale.runs.themes import narrow_style, variables
from rationale.runs.workspace import TRIALS
from rationale.runs.yaml_files import as_override
from tools import command_line
from tools.book.cells import label_cells
from tools.book.choose import choose_page
from tools.book.drawings import draw_in_pages
from tools.book.links import broken, embed_downloads, link_equations
from tools.book.pages import (
    blocks,
    download,
    file_page,
    heading,
    modules,
    notebook_page,
    reading_order,
    short,
    summary,
    title,
)
from tools.book.papers import paper_files, paper_page
from tools.book.questions import as_markdown, questions_file, read_questions
from tools.notebooks import read_notebook
from tools.smoke import needed_first, smoke

SMALL = "book"  # name of the runs made here, one of TRIALS
TIMES = "times.json"  # seconds on one core, by notebook
THEORY = ("0", "4", "5")  # how the names of notebooks begin that show their point with their defaults
RENAMED = {  # pages that have moved, and where to; of a notebook that was divided, the first part
    "01_kumaraswamy": "02_kumaraswamy",
    "02_hardkuma": "03_hardkuma",
    "03_explore_shapes": "04_explore_shapes",
    "04_selecting_text": "05_count_words",
    "05_reinforce": "08_reinforce",
    "06_sparse_attention": "40_sparse_attention",
    "07_diffmask": "41_diffmask",
    "08_explorers": "50_explorers",
}
MOVED = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<meta http-equiv="refresh" content="1; url={page}">
<script>location.replace("{page}" + location.hash)</script>
<p>This page has moved to <a href="{page}">{name}</a>.</p>
"""


def executed(notebook: Path, outputs: Path) -> Path:
    """The folder of the run that the book shows for a notebook; the notebook is executed if there is none.

    Theory and comparisons run with their defaults, the first notebook as in `make demo`. For any other notebook, the
    newest finished run with the notebook's current cells is taken, or else a short run is made.
    """
    if shown_whole(notebook):
        demo = notebook.stem.startswith("10")
        items = ["params/demo.yaml"] * demo + ["own_texts=false"] * ("own_texts" in defaults(notebook))
        return _drawn_as_now(notebook, items, outputs, "demo" if demo else SMALL)
    return newest_run(notebook, outputs) or short_run(notebook, outputs)


def shown_whole(notebook: Path) -> bool:
    """Whether the book shows a run as long as those of its readers: theory, comparisons, and the first notebook."""
    return notebook.stem.startswith((*THEORY, "10")) or reads_committed(notebook)


@cache
def short_parameters() -> dict[str, dict[str, Any]]:
    """The parameters of the short runs, by notebook."""
    return yaml.safe_load((root() / "params" / "book.yaml").read_text("utf-8"))


def short_run(notebook: Path, outputs: Path) -> Path:
    """A run of a minute or two that has learned something; a smoke run of a notebook that `params/book.yaml` lacks."""
    given = dict(short_parameters().get(notebook.stem, {}))
    if not given:
        return smoke(notebook, outputs, SMALL)
    if first := given.pop("after", None):
        source = executed(notebook_path(first), outputs)
        given |= {"runs_dir": str(source.parent), "run": source.name}
    items = [as_override(name, value) for name, value in given.items()]
    return run(notebook, items, outputs=outputs, name=SMALL, again_if_changed=True, wait=True)


def newest_run(notebook: Path, outputs: Path) -> Path | None:
    """The folder of the newest finished run that has the current cells of a notebook and is not one of `TRIALS`."""
    runs = finished_runs(notebook, outputs)
    return next((folder for folder in runs if folder.name not in TRIALS and shows(folder, notebook)), None)


def finished_runs(notebook: Path, outputs: Path) -> list[Path]:
    """The folders of the finished runs of a notebook, the newest first, but none that `reads_own_texts`."""
    runs = [path for path in (outputs / notebook.stem).glob("*/run.ipynb") if path.parent.suffix != ".partial"]
    runs = sorted(runs, key=lambda path: path.stat().st_mtime, reverse=True)
    return [path.parent for path in runs if not reads_own_texts(path.parent)]


def reads_own_texts(folder: Path) -> bool:
    """Whether a run shows texts of one's own, or may have read them. Nobody else may be meant to see them.

    It may have if it was allowed to offer all runs (`own_texts`), or if its parameters, or those of a run that it has
    read, are not known, because they are damaged or have been deleted since.
    """
    try:
        p = modernised(read_yaml(folder / "params.yaml"))
    except BadInput:
        return True
    if names_own(str(p.get("corpus") or "")) or p.get("own_texts"):
        return True
    names = [*p.get("runs", []), *([p["run"]] if "run" in p else [])]
    return any(reads_own_texts(root() / p.get("runs_dir", "") / str(name)) for name in names)


def shown_before(notebook: Path, outputs: Path) -> Path:
    """The folder of the newest finished run of a notebook, whatever its cells are.

    Raises
    ------
    BadInput
        If there is none.
    """
    runs = finished_runs(notebook, outputs)
    if not runs:
        raise BadInput("it has not been executed yet; `make book` executes all notebooks")
    return runs[0]


def shows(folder: Path, notebook: Path) -> bool:
    """Whether the finished run in a folder has the current cells of the notebook, text cells included.

    A run without a notebook, or with a damaged one, has not.
    """
    try:
        executed_cells = source_cells(read_notebook(folder / "run.ipynb"))
    except (BadInput, FileNotFoundError):
        return False
    return executed_cells == source_cells(jupytext.read(notebook))


def source_cells(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]


def _drawn_as_now(notebook: Path, items: list[str], outputs: Path, name: str) -> Path:
    """Run a notebook. Run it again if its code, its prose or the drawing code has changed; the runner ignores prose."""
    rooms = (root() / "rationale" / room for room in ("figures", "explorers"))
    drawing = sorted(file for room in rooms for file in room.iterdir() if file.suffix in (".py", ".js"))
    now = hashlib.sha256(b"".join(file.read_bytes() for file in drawing)).hexdigest()
    mark = outputs / notebook.stem / name / "drawn_with.txt"
    with _locked(mark.parent.parent):  # another `make book` may execute the same notebook, so decide after that
        changed = not (mark.exists() and mark.read_text() == now and shows(mark.parent, notebook))
        folder = run(notebook, items, outputs=outputs, name=name, again=changed, again_if_changed=True, wait=True)
        write_text(folder / mark.name, now)
    return folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process has locked this folder, and lock it."""
    folder.mkdir(parents=True, exist_ok=True)
    announced = False
    while True:
        try:
            opened = lock_folder(folder)
            break
        except BlockingIOError:
            if not announced:
                print(f"waiting for the process that works on {folder.name}", flush=True)
            announced = True
            time.sleep(0.2)
    try:
        yield
    finally:
        if opened is not None:
            os.close(opened)


def how(notebook: Path, folder: Path) -> str:
    """The box below the title, with the parameters of the run, its date and its duration."""
    params, about = read_yaml(folder / "params.yaml"), read_environment(folder)
    start = defaults(notebook)
    given = {key: str(value).replace("`", "'") for key, value in params.items() if value != start.get(key)}
    changed = ", ".join(f"`{key}: {value}`" for key, value in given.items())
    short = folder.name == SMALL and notebook.stem in short_parameters()
    small = folder.name == SMALL and changed and not short
    kind, heading = ("warning", "A small run") if small else ("info", "How this page was made")
    text = f"Executed with {changed}; other parameters at their defaults." if changed else "Executed with its defaults."
    text += " It shows that the notebook works: **its numbers mean nothing**." if small else ""
    text += " This run is short, so longer ones reach better numbers." if short else ""
    started, seconds, cpu = (about.get(name, "unknown") for name in ("started", "seconds", "cpu"))
    text += f" Run `{folder.name}` of {started[:10]}, {seconds} s on {cpu}."
    return f'!!! {kind} "{heading}"\n    {text}'


def build(notebooks: Mapping[str, tuple], readme: str, site: Path) -> list[str]:
    """Write the site into the folder `site`, which is replaced.

    Parameters
    ----------
    notebooks
        By name, in reading order: the executed notebook, and a note in Markdown on how it was executed.
    readme
        Text of the first page.
    site
        The folder of the site.

    Returns
    -------
    The defects of the site: broken links, and files that a page would load from elsewhere. Normally it is empty.
    """
    from jupyter_server_mathjax.app import STATIC_ASSETS_PATH
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    logging.getLogger("mkdocs").addHandler(handler := _Warnings())
    files = {"results": "RESULTS.md", "notation": "NOTATION.md"}  # pages made of files of the repository
    names = {*notebooks, *files}
    with tempfile.TemporaryDirectory() as draft:
        pages = Path(draft)
        (pages / "img").mkdir()
        (pages / "package").mkdir()
        (pages / "papers").mkdir()
        shutil.copytree(STATIC_ASSETS_PATH, pages / "mathjax", ignore=shutil.ignore_patterns("a11y", "localization"))
        shutil.copytree(root() / "outputs" / "reference" / "figures", pages / "outputs" / "reference" / "figures")
        for file in ("breaks.js", "book.js", "choose.js", "iframe-worker.js"):
            shutil.copy(root() / "tools" / "book" / file, pages)
        style = (root() / "tools" / "book" / "book.css").read_text("utf-8")
        write_text(pages / "book.css", with_colours(style))
        write_text(pages / "index.md", file_page(readme, names))
        for page, file in files.items():
            write_text(pages / f"{page}.md", file_page((root() / file).read_text("utf-8"), names))
        for name, (notebook, note) in notebooks.items():
            questions = as_markdown(read_questions(questions_file(name)))
            page = notebook_page(notebook, name, note, pages / "img", questions)
            write_text(pages / f"{name}.md", page.replace(f"{root()}/", ""))  # no paths of the machine
            nbformat.write(download(notebook, questions), pages / f"{name}.ipynb")
        write_text(pages / "choose.md", choose_page())
        papers = {f"papers/{file.stem}.md": paper_page(file) for file in paper_files()}
        for page, text in papers.items():
            write_text(pages / page, blocks(text))
        rows = [f"| [`{short(module)}`]({module}.md) | {summary(module)} |" for module in modules()]
        write_text(pages / "package" / "index.md", "\n".join(["# The package\n", "| module | |", "|---|---|", *rows]))
        for module in modules():
            write_text(pages / "package" / f"{module}.md", f"# {short(module)}\n\n::: {module}\n")
        nav = [
            {"Overview": "index.md"},
            {"Notebooks": [{f"{name[:2]} {title(nb)}": f"{name}.md"} for name, (nb, _) in notebooks.items()]},
            {"Papers": [{heading(text): page} for page, text in papers.items()]},
            {"Results": "results.md"},
            {"Choose among the results": "choose.md"},
            {"Notation": "notation.md"},
            {"Package": ["package/index.md", *({short(name): f"package/{name}.md"} for name in modules())]},
        ]
        config = load_config(str(root() / "tools" / "book" / "mkdocs.yml"), docs_dir=draft, site_dir=str(site), nav=nav)
        build_site(config)
        (site / "404.html").unlink()
    for old, new in RENAMED.items():
        if new in notebooks:
            write_text(site / f"{old}.html", MOVED.format(page=f"{new}.html", name=new))
    linked = link_equations(site)
    draw_in_pages(site)
    label_cells(site)
    embed_downloads(site)
    texts = "\n".join(cell.source for notebook, _ in notebooks.values() for cell in notebook.cells)
    lost = [f"eq. {label} has no anchor" for label in re.findall(r"\\tag\{(\w+)\}", texts) if label not in linked]
    return [*handler.messages, *lost, *broken(site)]


def with_colours(style: str) -> str:
    """The style of the book, with what it shares with the pages of runs."""
    narrow = narrow_style("var(--md-default-fg-color--lightest)", "var(--md-default-fg-color--light)")
    return style.replace("/* VARIABLES */", variables("var(--md-default-bg-color)")).replace("/* NARROW */", narrow)


class _Warnings(logging.Handler):
    """Collects the warnings of MkDocs."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.messages = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def core_seconds() -> float:
    """The seconds that cores have worked for this process and its children; other programs do not lengthen them."""
    used = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def keep_time(name: str, seconds: float) -> None:
    """Keep what a notebook has taken on one core, beside the committed results."""
    path = root() / "outputs" / "reference" / TIMES
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    write_text(path, json.dumps(dict(sorted((known | {name: round(seconds)}).items())), indent=1) + "\n")


def committed_pictures(notebook: Path) -> list[str]:
    """Names of the committed pictures that show what a notebook shows.

    They are its own, or else those of notebooks on the same runs, as `31_selection_rates` is on runs of `12_train_sst`.
    """

    def trained(name: str) -> str:
        """The notebook whose runs this one makes or reads."""
        first = needed_first(root() / "notebooks" / f"{name}.py")
        return first.stem if first else name

    of = {Path(file).name: Path(file).parts[0] for file in FIGURES}
    own = [picture for picture, name in of.items() if name == notebook.stem]
    return own or [picture for picture, name in of.items() if trained(name) == trained(notebook.stem)]


def instead(notebook: Path, reason: str) -> str:
    """The box on the page of a notebook that could not run, with the committed pictures of runs like its own."""
    reason = reason.replace(str(data_folder()), "the data folder")  # pages do not contain paths of the machine
    lines = ['!!! warning "Not executed here"', f"    {reason}"]
    pictures = committed_pictures(notebook)
    if pictures:
        lines += ["", "    These pictures are committed; they were drawn from finished runs with all data.", ""]
        folder = "outputs/reference/figures"
        lines += [f"    ![{Path(name).stem.replace('_', ' ')}]({folder}/{name})\n" for name in pictures]
    return "\n".join(lines)


@command
def main(arguments: list[str] | None = None) -> int:
    """Execute the notebooks that have no current run, build the book and print where it is.

    A notebook whose data are missing is shown without outputs and named in the last line; that is no failure.
    """
    form = command_line("book", __doc__)
    form.add_argument("names", nargs="*", metavar="NOTEBOOK", help="the notebooks to execute; none: all")
    form.add_argument("--times", action="store_true", help=f"write what each takes into outputs/reference/{TIMES}")
    given = form.parse_args(arguments)
    chosen = given.names
    outputs, notebooks, wrong, left_out = root() / "outputs", {}, [], []
    readme = (root() / "README.md").read_text("utf-8")
    order = reading_order(readme)
    for name in chosen:
        require_known("NOTEBOOK", name, order)
    for name in order:
        notebook, began, spent = notebook_path(name), time.time(), core_seconds()
        try:
            folder = shown_before(notebook, outputs) if chosen and name not in chosen else executed(notebook, outputs)
            notebooks[name] = read_notebook(folder / "run.ipynb"), how(notebook, folder)
            if given.times and (folder / "run.ipynb").stat().st_mtime > began and shown_whole(notebook):
                keep_time(name, core_seconds() - spent)
        except BadInput as error:  # such as data that are not here
            print(f"{name} is left out: {error}", file=sys.stderr)
            left_out.append(name)
            notebooks[name] = jupytext.read(notebook), instead(notebook, str(error))
        except RunFailed as error:
            wrong.append(f"{name}: {error}")
            note = f'!!! failure "Not executed"\n    {html.escape(str(error).splitlines()[-1])}'
            notebooks[name] = jupytext.read(notebook), note
    site = outputs / "book"
    with _locked(site):  # MkDocs empties the folder, so two books at once would tear each other's pages
        began = time.time()
        wrong += build(notebooks, readme, site)
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    text = f"the book: {site / 'index.html'}, written in {time.time() - began:.0f} s"
    print(f"{text}; not executed: {', '.join(left_out)} (see above)" if left_out else text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
