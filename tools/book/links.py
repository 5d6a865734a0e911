"""Links in the built site: from each mention of an equation or a notebook to its place; downloads; a check of all."""

import base64
import html
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

WITHIN = r"(?:(?!\\\]</div>).)*?"  # up to the end of one equation, which may have no label of its own
DISPLAY = re.compile(rf'<div class="arithmatex">(\\\[{WITHIN})\\tag\{{(\w+)\}}({WITHIN}\\\])</div>', re.S)
INLINE = re.compile(r'(<span class="arithmatex">\\\([^<]{40,}?)(\\\)</span>)([,.;])')  # a page may break it
LABEL = r"\b[A-Z]\d+[a-z]?\b"
MENTION = re.compile(rf"eqs?\. \(?{LABEL}(?:\)?(?:, | and |-)\(?{LABEL})*|\({LABEL}(?:(?:, | and |-){LABEL})*\)")
NOTEBOOK = re.compile(r"\b(?:notebooks/)?(\d\d_\w+)(?:\.py)?\b")
TAG = re.compile(r"(<[^>]+>)")
CLOSED = ("a", "script", "style", "title", "nav", "button", "h1", "h2", "h3", "h4", "summary")  # no links inside


def link_equations(site: Path) -> dict[str, str]:
    """Give each display equation with a `\\tag` an anchor, and turn mentions of it into links.

    Mentions are `eq. H2`, `eqs. (H2)-(H4)`, `(H2)`, `(S2, S3)`, and names of notebooks, in prose, code and docstrings.

    Returns
    -------
    Each label and the page it is on.
    """
    pages = {path: path.read_text("utf-8") for path in sorted(site.rglob("*.html"))}
    where = {label: path for path, text in pages.items() for _, label, _ in DISPLAY.findall(text)}
    names = {path.stem: path for path in pages}
    for path, text in pages.items():
        text = INLINE.sub(r"\1\3\2", text)  # or else the next line would begin with the comma
        text = DISPLAY.sub(
            r'<div class="equation" id="eq-\2"><div class="arithmatex">\1\3</div>'
            r'<a class="tag" href="#eq-\2" title="link to eq. \2">(\2)</a></div>', text)  # fmt: skip

        def link(target: Path, words: str, anchor: str = "", here: Path = path) -> str:
            up = "../" * (len(here.relative_to(site).parts) - 1)
            address = "" if target == here and anchor else up + target.relative_to(site).as_posix()
            return f'<a class="mention" href="{address}{anchor}">{words}</a>'

        def label(found: re.Match, link: Callable = link) -> str:
            return link(where[found[0]], found[0], f"#eq-{found[0]}") if found[0] in where else found[0]

        def notebook(found: re.Match, link: Callable = link, here: Path = path) -> str:
            target, words = names.get(found[1]), found[0].replace("_", "_<wbr>")  # where a narrow column may break it
            return link(target, words) if target and target != here else found[0]

        def mentions(words: str, label: Callable = label, notebook: Callable = notebook) -> str:
            return MENTION.sub(lambda found: re.sub(LABEL, label, found[0]), NOTEBOOK.sub(notebook, words))

        path.write_text(_in_text(text, mentions), "utf-8")
    return {label: path.relative_to(site).as_posix() for label, path in where.items()}


def _in_text(page: str, change: Callable[[str], str]) -> str:
    """Apply `change` to the text of the page's article, except for tags, formulas, links and headings."""
    begin, end = page.find("<article"), page.rfind("</article>")
    parts, inside = TAG.split(page[begin:end]), []
    for number, part in enumerate(parts):
        if number % 2:
            name = re.match(r"</?([\w-]+)", part)
            name = name[1] if name else ""
            if part.startswith("</"):
                if inside and inside[-1] == name:
                    inside.pop()
            elif name in CLOSED or "arithmatex" in part or (inside and name == inside[-1]):
                inside.append(name)
        elif not inside:
            parts[number] = change(part)
    return page[:begin] + "".join(parts) + page[end:]


def embed_downloads(site: Path) -> None:
    """Make each notebook that a page offers a part of the page: a browser downloads no file that lies beside a file."""
    for file in site.glob("*.ipynb"):
        page, content = file.with_suffix(".html"), base64.b64encode(file.read_bytes()).decode()
        offered = f'download="{file.name}" href="'
        embedded = f"{offered}data:application/x-ipynb+json;base64,{content}"
        page.write_text(page.read_text("utf-8").replace(f"{offered}{file.name}", embedded), "utf-8")


def broken(site: Path) -> list[str]:
    """Messages about broken links inside the site, and about files that a page would load from outside."""
    pages = {path.resolve(): path.read_text("utf-8") for path in site.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    found = []
    for path, text in pages.items():
        place = path.relative_to(site.resolve())
        for tag, name, target in re.findall(r'<(\w+)\b[^>]*?\s(href|src|srcset)="([^"]*)"', text):
            target, _, anchor = unquote(html.unescape(target)).partition("#")
            if re.match(r"(https?:)?//", target):
                if tag != "a":
                    found.append(f"{place} loads {target}")
            elif not target.startswith(("data:", "mailto:", "javascript:")):
                file = (path.parent / target.split("?")[0]).resolve() if target else path
                file = file / "index.html" if file.is_dir() else file
                if not file.exists():
                    found.append(f"{place}: {name} {target} does not exist")
                elif anchor and file in anchors and anchor not in anchors[file] and not anchor.startswith("__"):
                    found.append(f"{place}: {target}#{anchor} has no such anchor")
    for sheet in site.rglob("*.css"):
        urls = re.findall(r"url\([\"']?(https?://[^)\"']+)", sheet.read_text("utf-8"))
        found += [f"{sheet.name} loads {url}" for url in urls]
    return found
