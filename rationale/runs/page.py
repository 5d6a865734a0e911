"""An executed notebook as a page that stands alone: it loads no script, style or font from elsewhere.

Explorers that need no kernel bring their script and their state with them. Formulas become MathML, which browsers show
by themselves, when the page is made.
"""

import contextlib
import html
import itertools
import re
import threading
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any
from xml.etree import ElementTree

from rationale.errors import optional
from rationale.runs.folding import SHOW_ALL, code_name, source_line, summary_line
from rationale.runs.themes import both, marked, narrow_style, variables

NAMESPACE = "http://www.w3.org/1998/Math/MathML"
MATHML = f"{{{NAMESPACE}}}m"  # the beginning of each of its tags
SECONDS = 3.0  # after which a page is prepared; until then a kernel starts, which uses the same cores
CLEANED = 4096  # parts of pages that are kept when they have been cleaned: runs of a notebook share its code
TAG = re.compile(r"\s*\\tag\{(\w+)\}")
WIDE_SPACE = re.compile(r"\s*\\q?quad(?![A-Za-z])")
KNOWN_OTHERWISE = {r"\arg": r"\operatorname{arg}", r"\lvert": "|", r"\rvert": "|"}  # to latex2mathml
OPERATORS = {"~": "∼", "⟺": "⟺", "′": "′"}  # which latex2mathml takes for letters, and their signs
BARS = ("|", "‖")
SCRIPTS = {"msub", "msup", "msubsup"}
OPERANDS = {
    "mi",
    "mn",
    "mfrac",
    "msqrt",
    "mover",
    "mstyle",
    *SCRIPTS,
}  # what a space separates from the name of a function
THIN = {"width": "0.17em"}
STYLE = """<style>
:root { color-scheme: light dark; }
body.jp-Notebook { background: var(--jp-layout-color0); }
main { max-width: 64rem; margin: auto; }
.equation { display: flex; align-items: center; gap: 2em; margin: 1em 0; }
.equation { overflow-x: auto; overflow-y: hidden; padding: .2em 0; }  /* only long formulas have a bar */
.equation .parts { flex: 1; display: flex; flex-wrap: wrap; gap: .3em 2em; }
.equation .parts { justify-content: center; align-items: center; }
main .jp-OutputArea-output pre { white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere; }
math, math * { font-family: "Cambria Math", "STIX Two Math", "Latin Modern Math", "DejaVu Math TeX Gyre", math; }
.jp-OutputArea-output.jp-RenderedMarkdown pre { font-family: var(--jp-code-font-family); }  /* `figures.show_source` */
.jp-OutputArea-output { overflow-x: auto; }
.figure img { max-width: 100%; height: auto; }
.jp-RenderedMarkdown .highlight { margin: 1em 0; }
details { margin: .3em 0; }
details > summary { cursor: pointer; font: .9em var(--jp-ui-font-family); color: var(--jp-ui-font-color2); }
details.solution { border: 1px solid var(--jp-border-color1); border-radius: 4px; padding: .4em .8em; }
details.solution > summary { color: var(--jp-ui-font-color1); font-weight: 600; }
.show-code button { font: inherit; padding: .2em .9em; cursor: pointer; }
@media (max-width: 600px) {
  body.jp-Notebook { padding: 8px; }
  main pre { white-space: pre-wrap; overflow-wrap: anywhere; }
  .equation { gap: .6em; container-type: inline-size; }
  .equation math { font-size: clamp(9px, calc(100cqw / (.85 * var(--letters))), 1em); }  /* a long one gets small */
}
NARROW
@media (max-width: 600px) { main .drawn:not(.wide, .narrow) { max-width: none; } }  /* it scrolls */
@media screen and (prefers-color-scheme: dark) {
  :root { VARIABLES }
  .figure img { background: white; border-radius: 4px; }  /* a picture that has only dots keeps its paper */
}
</style>"""
STYLE = STYLE.replace("VARIABLES", variables("var(--jp-layout-color0)"))
STYLE = STYLE.replace("NARROW", narrow_style("var(--jp-border-color1)", "var(--jp-ui-font-color2)"))
ANSWERS = {"prediction", "solution"}  # tags of cells that are folded with their outputs
# The dark theme of JupyterLab, whose variables replace those of the light one.
DARK = """<style media="screen and (prefers-color-scheme: dark)">
{% include 'static/theme-dark.css' %}
</style>"""
# Blocks of nbconvert's template. Those that load scripts from elsewhere are left out.
LEFT_OUT = ("html_head_js", "jupyter_widgets", "html_head_js_mathjax", "html_head_js_mermaidjs")
BLOCKS = dict.fromkeys(LEFT_OUT, "") | {
    "html_head_css": f"{DARK}{STYLE}",
    "body_loop": f"{SHOW_ALL}{{{{ super() }}}}",
    "codecell": """{% set tags = cell.metadata.get('tags', []) -%}
        {% if 'solution' in tags or 'prediction' in tags -%}
        <details class="solution"><summary>{{ 'Solution' if 'solution' in tags else 'Prediction' }}</summary>
        {{- super() }}</details>
        {%- else %}{{ super() }}{% endif %}""",
    "input_group": """{% set folded = cell | folded -%}
        {% if folded %}<details class="code"><summary>{{ folded | e }}</summary>{{ super() }}</details>
        {%- else %}{{ super() }}{% endif %}""",
    "data_png scoped": """{% set about = output.metadata.get('image/png', {}) -%}
        <div class="jp-RenderedImage jp-OutputArea-output figure"><picture>
        {%- if about.narrow %}<source media="(max-width: 600px)" srcset="data:image/png;base64,{{ about.narrow | e }}">
        {%- endif %}<img src="data:image/png;base64,{{ output.data['image/png'] | e }}"
        {%- if about.width %} width="{{ about.width | e }}"{% endif %} alt="{{ about.get('alt', 'figure') | e }}">
        </picture></div>""",
    "data_svg scoped": """{% set about = output.metadata.get('image/svg+xml', {}) -%}
        <div class="jp-RenderedSVG jp-OutputArea-output figure">
        {%- set inside = output.data['image/svg+xml'] | drawn(about) -%}
        {%- if inside %}{{ inside }}
        {%- else %}<img src="data:image/svg+xml;base64,{{ output.data['image/svg+xml'] | text_base64 | e }}"
        alt="{{ about.get('alt', 'figure') | e }}">{% endif %}</div>""",
    "data_html scoped": "{{ super() | marked }}",
    "data_markdown scoped": """{% set folded = output.data['text/markdown'] | source_line -%}
        {% if folded %}<details class="code"><summary>{{ folded | e }}</summary>{{ super() }}</details>
        {%- else %}{{ super() }}{% endif %}""",
    "data_widget_view scoped": """{% if 'text/html' in output.data %}{{ output.data['text/html'] -}}
        {% else %}<p><i>The sliders work in the notebook.</i></p>{% endif %}""",  # the former need no kernel
    "footer": "</html>",
}
TEMPLATE = "{%- extends 'index.html.j2' -%}" + "".join(
    f"{{%- block {name} -%}}{body}{{%- endblock -%}}" for name, body in BLOCKS.items()
)

_known: dict[str, str] = {}  # code of cells, as HTML


def lab_page(notebook: Any, title: str) -> str:
    """A notebook as a page that looks like JupyterLab."""
    return _exporter().from_notebook_node(notebook, resources={"metadata": {"name": title}})[0]


@contextlib.contextmanager
def prepared(to_html: Callable[[Any, str], str], notebook: Any) -> Iterator[None]:
    """Within the `with` block, which executes a notebook, make the page of its cells in the background and discard it.

    The page of the executed notebook is then made in a quarter of the time: what it needs has been imported, templates
    have been compiled, and formulas have been converted. A block that ends within `SECONDS` is not prepared for.

    Parameters
    ----------
    to_html : function
        Makes a page from a notebook and a title.
    notebook : notebook
        Without outputs; nobody else may use it meanwhile.
    """
    ended = threading.Event()

    def prepare() -> None:
        if not ended.wait(SECONDS):
            with contextlib.suppress(Exception):  # the page itself will raise it again
                to_html(notebook, "")

    thread = threading.Thread(target=prepare, daemon=True)  # an interrupted run does not wait for it
    thread.start()
    try:
        yield
    finally:
        ended.set()
    thread.join()


def markdown_to_html(source: str) -> str:
    """Markdown as HTML, with its formulas as MathML."""
    markdown, renderer = _markdown()
    return markdown.MarkdownWithMath(renderer=renderer(escape=False)).render(source)


@cache
def _markdown() -> tuple[Any, Any]:
    """nbconvert's reader of Markdown with formulas, and a class that writes what it has read as HTML."""
    markdown = optional("nbconvert.filters.markdown_mistune", "a page of a run", "notebooks")

    class Renderer(markdown.IPythonRenderer):
        """Shows formulas as MathML."""

        def block_math(self, body: str) -> str:
            return formula(body, is_block=True)

        def inline_math(self, body: str) -> str:
            return formula(body)

        def latex_environment(self, name: str, body: str) -> str:
            return formula(rf"\begin{{{name}}}{body}\end{{{name}}}", is_block=True)

    return markdown, Renderer


@cache
def _exporter() -> Any:
    """What makes the pages; it reads its templates once."""
    nbconvert = optional("nbconvert", "a page of a run", "notebooks")
    exporter = nbconvert.HTMLExporter(
        template_name="lab", raw_template=TEMPLATE, exclude_input_prompt=True, exclude_output_prompt=True,
        filters={"highlight_code": _highlighted, "clean_html": lru_cache(CLEANED)(nbconvert.filters.clean_html)},
    )  # fmt: skip
    exporter.register_filter("markdown2html", markdown_to_html)
    exporter.register_filter("source_line", source_line)
    exporter.register_filter("folded", _folded)
    exporter.register_filter("drawn", both)
    exporter.register_filter("marked", marked)
    return exporter


def _highlighted(source: str, **_: Any) -> str:
    """Python code as HTML with colours."""
    if source not in _known:
        _known[source] = _highlighter()(source)
    return _known[source]


@cache
def _highlighter() -> Any:
    return optional("nbconvert.filters", "a page of a run", "notebooks").Highlight2HTML()


def is_prepared(notebook: Any) -> bool:
    """Whether this process has made a page with the same code, as the server of `warm` does for its runs."""
    return all(cell.source in _known for cell in notebook.cells if cell.cell_type == "code")


def _folded(cell: Any) -> str:
    """The line in place of a cell's code; "" if the code stays in view, as in an answer, which is folded itself."""
    name = code_name(cell)
    return summary_line([name]) if name and not ANSWERS & set(cell.metadata.get("tags", [])) else ""


@cache
def formula(latex: str, is_block: bool = False) -> str:
    r"""A formula in LaTeX as MathML; the label in its `\tag` stands at the right and can be linked to.

    Parts that a wide space separates may stand on lines of their own, as on a phone. A formula that cannot be converted
    is shown as it is written.
    """
    tag = TAG.search(latex)
    body = TAG.sub("", latex)
    if not is_block:
        return _mathml(body, latex, "inline")
    parts = [part for part in WIDE_SPACE.split(body) if part.strip()]
    if not all(map(_is_whole, parts)):
        parts = [body]
    shown = [_mathml(part, part if len(parts) > 1 else latex, "block") for part in parts]
    texts = (html.unescape(re.sub(r"<[^>]+>", "", part)) for part in shown)
    letters = max(len(text) // max(1, part.count("<mtr>")) for text, part in zip(texts, shown, strict=True))  # of a row
    anchor, label = (f' id="eq-{tag[1]}"', f"<span>({tag[1]})</span>") if tag else ("", "")
    style = f'style="--letters: {letters}"'
    return f'<div class="equation"{anchor} {style}><div class="parts">{"".join(shown)}</div>{label}</div>'


def _is_whole(latex: str) -> bool:
    """Whether a part of a formula can stand alone: no bracket, row or environment extends beyond it."""
    text = latex.replace(r"\{", "").replace(r"\}", "")
    pairs = all(text.count(left) == text.count(right) for left, right in (("{", "}"), (r"\left", r"\right")))
    return pairs and r"\begin" not in text and r"\\" not in text and "&" not in text


def _mathml(body: str, written: str, display: str) -> str:
    """A formula without a label as MathML, or as it is written if it cannot be converted."""
    converter = optional("latex2mathml.converter", "formulas of a page", "notebooks")
    for command, other in KNOWN_OTHERWISE.items():
        body = re.sub(re.escape(command) + r"(?![A-Za-z])", lambda _, other=other: other, body)
    try:
        shown = converter.convert(body, display=display)
        tree = ElementTree.fromstring(shown)
        if any(not element.tag.startswith(MATHML) for element in tree.iter()):
            raise ValueError("a tag inside a text")
        shown = _mended(tree)
    except Exception:  # of many kinds, none of which should cost a finished run its page
        shown = f"<code>{html.escape(written)}</code>"
    return shown


def _mended(tree: ElementTree.Element) -> str:
    """MathML with the operators that latex2mathml takes for letters, and with space around the names of functions."""
    for element in tree.iter():
        element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
        if element.tag == "mi" and element.text in OPERATORS:
            element.tag, element.text = "mo", OPERATORS[element.text]
        if element.tag == "mo" and element.text in BARS and not element.attrib:
            element.set("stretchy", "false")  # else the bar before a norm grows with its row, and that behind does not
    for row in list(tree.iter("mrow")):
        for left, right in reversed(list(itertools.pairwise(row))):
            if (_is_function(left) or _is_function(right)) and {left.tag, right.tag} <= OPERANDS:
                row.insert(list(row).index(right), ElementTree.Element("mspace", THIN))
    tree.set("xmlns", NAMESPACE)
    return ElementTree.tostring(tree, encoding="unicode")


def _is_function(element: ElementTree.Element) -> bool:
    """Whether an element of MathML is the name of a function, such as ln, perhaps with an index or an exponent."""
    base = element[0] if element.tag in SCRIPTS and len(element) else element
    return base.tag == "mi" and len(base.text or "") > 1 and base.text.isalpha()
