"""Pages of the book in Markdown: executed notebooks, files such as README, and the reference of each module."""

import ast
import html
import re
from base64 import b64decode
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from rationale.runs import root
from rationale.runs.exercises import TASK, Exercise, exercises, explanation
from rationale.runs.folding import SHOW_ALL, code_name, collapse, source_line, summary_line
from rationale.runs.themes import marked
from tools.book.drawings import finding

KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
ANSI = re.compile(r"\x1b\[[0-9;]*m")
SECTION = "## Exercises"
WIDGET = "application/vnd.jupyter.widget-view+json"
DOWNLOAD = "[Download this page as a notebook]({name}.ipynb){{ .download download={name}.ipynb }}"
NO_SLIDERS = '!!! tip "The sliders work in the notebook"\n    Open this notebook to use them: `make lab`.'


def reading_order(readme: str) -> list[str]:
    """Names of the notebooks, in the order of the README's table."""
    return re.findall(r"^\| \[`\w+`\]\(notebooks/(\w+)\.py\)", readme, re.M)


def title(notebook) -> str:
    """The text of the first heading of a notebook."""
    return heading(notebook.cells[0].source)


def heading(text: str) -> str:
    """The text of the first heading in Markdown."""
    return re.search(r"^# (.+)$", text, re.M)[1]


def notebook_page(notebook, name: str, note: str, images: Path, questions: str = "") -> str:
    """An executed notebook as Markdown; its pictures are written into the folder `images`, named after it.

    `note`, on how the notebook was executed, stands below the title, and so does a link to the file `<name>.ipynb`.
    Code is folded away, also that of the package that a cell shows. At the end of the page stand the `questions` and
    then the exercises. Of each, the prediction, the solution with its check, and the explanation are folded separately.
    """
    tasks, parts = exercises(notebook), []
    at_the_end = {index for task in tasks for index in (task.prediction, task.solution, task.check)}
    sources: list[str] = []  # of consecutive code cells, and their names
    names: list[str] = []

    def fold() -> None:
        if sources:
            parts.append(folded("code", summary_line(names), sources))
        sources.clear()
        names.clear()

    for number, cell in enumerate(notebook.cells):
        if number in at_the_end:
            continue
        if cell.cell_type == "markdown":
            fold()
            if text := _pointing(notebook.cells, number):
                parts.append(blocks(text))
            continue
        if code := _source(cell):
            sources.append(code)
            names.append(code_name(cell))
        if outputs := _outputs(cell, f"{name}-{number}", images):
            fold()
            parts += outputs
    fold()
    parts += [questions] * bool(questions) + _exercises(notebook, tasks, name, images)
    if questions or tasks:
        parts.append(DOWNLOAD.format(name=name))
    below, page = f"{note}\n\n{SHOW_ALL}\n\n{DOWNLOAD.format(name=name)}", "\n\n".join(parts) + "\n"
    return re.sub(r"^(# .+)$", lambda found: f"{found[1]}\n\n{below}", page, count=1, flags=re.M)


def download(notebook, questions: str = "") -> NotebookNode:
    """The notebook that a page offers for download: the cells without outputs, and the questions."""
    cells = []
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
        if "injected-parameters" not in tags:
            cells.append(new(cell.source, metadata={"tags": list(tags)} if tags else {}))
    cells += [new_markdown_cell(questions)] * bool(questions)
    return collapse(new_notebook(cells=cells, metadata={"kernelspec": KERNEL}))


def _pointing(cells: list, number: int) -> str:
    """The text of a cell, with a line in place of the exercise that it ends with; "" if nothing is left.

    An exercise that stands in a section of exercises needs no such line, as this section ends the page.
    """
    text = cells[number].source
    line = r"*Here belongs [exercise \1](#exercise-\1){ #for-exercise-\1 }, at the end of this page.*"
    if _in_own_section(cells, number):
        text, line = text.replace(SECTION, "").strip(), ""
    return re.sub(TASK.pattern + ".*", line, text, flags=re.S)


def _in_own_section(cells: list, number: int) -> bool:
    """Whether the exercise that a cell ends with stands below a heading of its own."""
    texts = [cell.source for cell in cells[: number + 1] if cell.cell_type == "markdown"]
    return bool(TASK.search(texts[-1])) and re.findall(r"^##? .*$", "\n".join(texts), re.M)[-1:] == [SECTION]


def _exercises(notebook, tasks: list[Exercise], name: str, images: Path) -> list[str]:
    """The section with the exercises, if there are any."""
    parts = [SECTION] * bool(tasks)
    for task in tasks:
        own = _in_own_section(notebook.cells, task.prediction - 1)
        back = "." if own else r"; [to its section](#for-exercise-\1)."
        text = TASK.sub(rf"*Predict, change, explain; \2 minutes{back}*", task.task)
        parts += [f"### Exercise {task.number} {{ #exercise-{task.number} }}", blocks(text)]
        solution = explanation(notebook.cells[task.solution].source)[0]
        shown = {"Prediction": [(task.prediction, None)], "Solution": [(task.solution, solution), (task.check, None)]}
        for line, cells in shown.items():
            inside = []
            for index, source in cells:
                cell = notebook.cells[index]
                code = _source(cell) if source is None else fence(source, "{ .python }") if source else ""
                inside += [code, *_outputs(cell, f"{name}-{index}", images)]
            parts.append(folded("solution", line, inside))
        parts.append(folded("solution", "Explanation", [f"<p>{html.escape(task.explanation)}</p>"]))
    return parts


def folded(kind: str, line: str, parts: list[str]) -> str:
    """Parts of a page folded away behind a line."""
    inside = "\n\n".join(parts)
    return f'<details class="{kind}" markdown>\n<summary>{html.escape(line)}</summary>\n\n{inside}\n\n</details>'


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


def _source(cell) -> str:
    """The code of a cell as a block, or "" if it has none."""
    tags = set(cell.metadata.get("tags", []))
    heading = {"check": ' title="check"', "parameters": ' title="parameters"'}.get(min(tags, default=""), "")
    heading = ' title="parameters of this run"' if "injected-parameters" in tags else heading
    return fence(cell.source, f"{{ .python{heading} }}") if cell.source.strip() else ""


def _outputs(cell, name: str, images: Path) -> list[str]:
    """The outputs of a cell, each as a block."""
    parts = []
    for number, output in enumerate(_joined(cell.get("outputs", []))):
        data = output.get("data", {})
        if WIDGET in data and "text/html" in data:  # an explorer that needs no kernel
            parts.append(f'<div class="moving">{data["text/html"]}</div>')
        elif WIDGET in data:
            parts.append(NO_SLIDERS)
        elif "image/png" in data:
            parts.append(_picture(data["image/png"], output.metadata.get("image/png", {}), images, f"{name}-{number}"))
        elif "image/svg+xml" in data:
            about = output.metadata.get("image/svg+xml", {})
            parts.append(_drawing(data["image/svg+xml"], about, images, f"{name}-{number}"))
        elif "text/html" in data:
            text = marked(re.sub(r"\n\s*\n", "\n", data["text/html"]))
            parts.append(f'<div class="output">\n{text}\n</div>')
        elif "text/markdown" in data:  # `figures.show_source`
            line, text = source_line(data["text/markdown"]), data["text/markdown"]
            text = text.replace("```python", '``` { .python title="from the package" }', 1)
            parts.append(folded("code", line, [text]) if line else text)
        elif text := ANSI.sub("", output.get("text", data.get("text/plain", ""))).rstrip():
            parts.append(fence(text, "{ .text .output }"))
    return parts


def _picture(png: str, about: dict, images: Path, name: str) -> str:
    """A figure, and the same figure arranged for a phone if the notebook has it."""
    (images / f"{name}.png").write_bytes(b64decode(png))
    alt, width = html.escape(about.get("alt", "figure"), quote=True), about.get("width", 640)
    picture, narrow = f'<img src="{images.name}/{name}.png" alt="{alt}" width="{width}">', ""
    if "narrow" in about:
        (images / f"{name}-narrow.png").write_bytes(b64decode(about["narrow"]))
        narrow = f'<source media="(max-width: 600px)" srcset="{images.name}/{name}-narrow.png">'
    return f'<p class="figure"><picture>{narrow}{picture}</picture></p>'


def _drawing(svg: str, about: dict, images: Path, name: str) -> str:
    """A figure in SVG, and its form for a phone; `drawings` makes them a part of the page."""
    alt, pictures = html.escape(about.get("alt") or finding(svg), quote=True), {"": svg}
    if "narrow" in about:
        pictures = {"wide": svg, "narrow": about["narrow"]}
    for kind, picture in pictures.items():
        (images / f"{name}{kind and '-' + kind}.svg").write_text(picture, encoding="utf-8")
    shown = "".join(
        f'<img class="{kind}" src="{images.name}/{name}{kind and "-" + kind}.svg" alt="{alt}">' for kind in pictures
    )
    return f'<p class="figure">{shown}</p>'


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
