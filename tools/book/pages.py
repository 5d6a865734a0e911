"""Pages of the book in Markdown: executed notebooks, files such as README, and the reference of each module."""

import ast
import html
import re
from base64 import b64decode
from pathlib import Path

from nbformat import NotebookNode

from rationale.runs import root

ANSI = re.compile(r"\x1b\[[0-9;]*m")
WIDGET = "application/vnd.jupyter.widget-view+json"
OPEN, CLOSE = '<details class="solution" markdown>\n<summary>Solution</summary>', "</details>"
NO_SLIDERS = '!!! tip "The sliders work in the notebook"\n    Open this notebook to use them: `make lab`.'


def reading_order(readme: str) -> list[str]:
    """Names of the notebooks, in the order of the README's table."""
    return re.findall(r"^\| \[`\w+`\]\(notebooks/(\w+)\.py\)", readme, re.M)


def title(notebook) -> str:
    """The text of the first heading of a notebook."""
    return re.search(r"^# (.+)$", notebook.cells[0].source, re.M)[1]


def notebook_page(notebook, name: str, note: str, images: Path) -> str:
    """An executed notebook as Markdown; its pictures are written into the folder `images`, named after it.

    `note`, on how the notebook was executed, stands below the title. Adjacent cells tagged `solution` are folded away
    together.
    """
    parts, folded = [], False
    for number, cell in enumerate(notebook.cells):
        solution = "solution" in cell.metadata.get("tags", [])
        if solution != folded:
            parts.append(OPEN if solution else CLOSE)
            folded = solution
        parts += [blocks(cell.source)] if cell.cell_type == "markdown" else _code(cell, f"{name}-{number}", images)
        if number == 0:
            parts[0] = re.sub(r"^(# .+)$", lambda found: f"{found[1]}\n\n{note}", parts[0], count=1, flags=re.M)
    return "\n\n".join(parts + [CLOSE] * folded) + "\n"


def blocks(text: str) -> str:
    """Markdown with the blank lines before lists, tables and equations that MkDocs needs and GitHub does not."""
    lines, fenced = [], False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        item, before = (re.match(r"(> ?)?([-*] |1\. |\|)", text) for text in (line, lines[-1] if lines else ""))
        if item and not before and not fenced and lines and lines[-1].strip("> ") and lines[-1][:1] != " ":
            lines.append(item[1] or "")
        equation = re.match(r"(> ?)?\$\$", line)
        if equation and not fenced and lines and re.search(r"[^$\s]\s*\$\$$", lines[-1]):
            lines.append(equation[1] or "")
        lines.append(line)
    return "\n".join(lines)


def fence(text: str, info: str) -> str:
    """A fenced block of code that may itself contain backticks."""
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks} {info}\n{text}\n{ticks}"


def _code(cell, name: str, images: Path) -> list[str]:
    """A code cell and its outputs, each as a block."""
    tags = set(cell.metadata.get("tags", []))
    heading = {"check": ' title="check"', "parameters": ' title="parameters"'}.get(min(tags, default=""), "")
    heading = ' title="parameters of this run"' if "injected-parameters" in tags else heading
    parts = [fence(cell.source, f"{{ .python{heading} }}")] if cell.source.strip() else []
    for number, output in enumerate(_joined(cell.get("outputs", []))):
        data = output.get("data", {})
        if WIDGET in data:
            parts.append(NO_SLIDERS)
        elif "image/png" in data:
            about, file = output.metadata.get("image/png", {}), images / f"{name}-{number}.png"
            file.write_bytes(b64decode(data["image/png"]))
            alt, width = html.escape(about.get("alt", "figure"), quote=True), about.get("width", 640)
            parts.append(f'<p class="figure"><img src="{images.name}/{file.name}" alt="{alt}" width="{width}"></p>')
        elif "image/svg+xml" in data:
            file = images / f"{name}-{number}.svg"
            file.write_text(data["image/svg+xml"], encoding="utf-8")
            parts.append(f'<p class="figure"><img src="{images.name}/{file.name}" alt="committed picture"></p>')
        elif "text/html" in data:
            parts.append('<div class="output">\n' + re.sub(r"\n\s*\n", "\n", data["text/html"]) + "\n</div>")
        elif "text/markdown" in data:  # `figures.show_source`
            parts.append(data["text/markdown"].replace("```python", '``` { .python title="from the package" }', 1))
        elif text := ANSI.sub("", output.get("text", data.get("text/plain", ""))).rstrip():
            parts.append(fence(text, "{ .text .output }"))
    return parts


def _joined(outputs: list) -> list:
    """The outputs, with consecutive printed texts joined into one output."""
    joined: list = []
    for output in outputs:
        if joined and output.output_type == joined[-1].output_type == "stream":
            joined[-1] = NotebookNode(joined[-1], text=joined[-1].text + output.text)
        else:
            joined.append(output)
    return joined


def file_page(text: str, pages: set[str]) -> str:
    """README, RESULTS or NOTATION as a page: links to pages of the book stay links, others become text."""

    def inside(found: re.Match) -> str:
        picture, words, target = found.groups()
        name = Path(target).stem.lower()
        if picture or "://" in target or target.startswith("#"):
            return found[0]
        return f"[{words}]({name}.md)" if name in pages else words

    text = re.sub(r"<!--.*?-->\n", "", text)
    text = re.sub(r"^(!\[([^]]+)\]\([^)]+\))$", r"\1\n\n*\2*", text, flags=re.M)  # the caption, below the picture
    return blocks(re.sub(r"(!?)\[([^]]*)\]\(([^)]+)\)", inside, text))


def modules() -> list[str]:
    """Dotted names of all modules of the package."""
    files = sorted((root() / "rationale").rglob("*.py"))
    names = [".".join(file.relative_to(root()).with_suffix("").parts).removesuffix(".__init__") for file in files]
    return [name for name in names if name != "rationale"]


def short(module: str) -> str:
    """`rationale.data.vectors` -> `data.vectors`."""
    return module.removeprefix("rationale.")


def tree(module: str) -> ast.Module:
    """The parsed source of a module."""
    path = root().joinpath(*module.split("."))
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text("utf-8"))


def public_names(module: str) -> list[str]:
    """The public names of a module: functions, classes and their methods, without a leading underscore."""
    names = []
    for node in tree(module).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            names.append(f"{module}.{node.name}")
            inner = node.body if isinstance(node, ast.ClassDef) else []
            methods = [part.name for part in inner if isinstance(part, ast.FunctionDef)]
            names += [f"{module}.{node.name}.{name}" for name in methods if not name.startswith("_")]
    return names


def summary(module: str) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(tree(module)) or "").split("\n")[0]
