"""The repository as a whole: notebooks in their form, labels that lead somewhere, requirements in step."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from itertools import chain
from pathlib import Path
from symtable import symtable

import hypothesis
import jupytext
import pytest
import yaml
from jupytext.config import load_jupytext_config
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import rationale
from rationale.runs import root
from rationale.runs.cells import defaults
from tests.every import every
from tests.smoke import small
from tools.book.links import LABEL, MENTION

NOTEBOOKS = sorted((root() / "notebooks").glob("*.py"))
TAGS = {"parameters", "parts", "check", "figure", "interactive", "prediction", "solution"}
HEADER = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

"""

each_notebook = every(NOTEBOOKS)
MARKER = re.compile(r"\s*(\d{1,9}[.)]|[-+*]|#{1,6}|>)(\s|$)")
parsed = cache(jupytext.read)


def cells(path: Path, kind: str) -> list:
    return [cell for cell in parsed(path).cells if cell.cell_type == kind]


def tagged(path: Path, tag: str) -> list[str]:
    return [cell.source for cell in cells(path, "code") if tag in cell.metadata.get("tags", [])]


# --- notebooks


@each_notebook
def test_a_notebook_begins_with_the_one_header(path):
    assert path.read_text().startswith(HEADER), f"{path.name} must begin with exactly:\n{HEADER}"


@each_notebook
def test_text_to_notebook_and_back_is_the_same_byte_for_byte(path):
    config = load_jupytext_config(str(path))
    text = path.read_text()

    def convert(text: str, old: str, new: str) -> str:
        return jupytext.writes(jupytext.reads(text, fmt=old, config=config), fmt=new, config=config)

    back = convert(convert(text, "py:percent", "ipynb"), "ipynb", "py:percent")
    assert back == text, f"saving {path.name} changes it, see `jupytext --to ipynb --test-strict {path.name}`"


@each_notebook
def test_the_first_code_cell_holds_the_parameters(path):
    first = cells(path, "code")[0]
    assert first.metadata.get("tags") == ["parameters"], "the first code cell must be tagged `parameters`"
    assert defaults(path), "the parameters cell is empty"
    without = [line for line in first.source.splitlines() if line.strip() and "#" not in line]
    assert not without, f"each parameter needs a comment that says what it is: {without}"


@each_notebook
def test_imports_stand_in_one_cell_after_the_parameters(path):
    code = [cell.source for cell in cells(path, "code")]
    imports = [
        [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]
        for source in code
    ]
    where = [index for index, nodes in enumerate(imports) if nodes]
    assert where == [1], f"imports are in code cells {where} (from 0), put all of them in cell 1"
    imported = {(alias.asname or alias.name).split(".")[0] for node in imports[1] for alias in node.names}
    both = imported & set(defaults(path))
    assert not both, f"{both}: imported over a parameter of the same name"
    symbols = (symbol for source in code[2:] for symbol in symtable(source, path.name, "exec").get_symbols())
    lost = imported & {symbol.get_name() for symbol in symbols if symbol.is_assigned()}
    assert not lost, f"{lost}: with another value, cells that use the import fail when they are executed again"


@each_notebook
def test_parameters_are_validated_before_they_are_used(path):
    code = [cell.source for cell in cells(path, "code")]
    assert re.search(r"validated\(globals\(\)(, \w+)?\)", "\n".join(code[1:3])), "validate them right after the imports"


@each_notebook
def test_cells_are_plain_python_with_known_tags(path):
    for cell in parsed(path).cells:
        unknown = set(cell.metadata.get("tags", [])) - TAGS
        assert not unknown, f"{unknown} in {path.name}: tags are {sorted(TAGS)}"
        if cell.cell_type == "code":
            magic = [line for line in cell.source.splitlines() if re.match(r"\s*(#\s*)?[%!]", line)]
            assert not magic, f"{path.name}: no magics: {magic}"
            assert "argparse" not in cell.source


@each_notebook
def test_a_table_that_a_cell_makes_is_displayed(path):
    """Of a cell, only the last value is shown, and none of those within an `if` or a loop."""
    for source in (cell.source for cell in cells(path, "code")):
        tree = ast.parse(source)
        lost = [node for node in ast.walk(tree) if isinstance(node, ast.Expr) and node is not tree.body[-1]]
        calls = [ast.unparse(node.value.func) for node in lost if isinstance(node.value, ast.Call)]
        tables = [name for name in calls if name == "figures.show_table"]
        assert not tables, f"{path.name}: put it into display(...), or last: {source[:200]}"


@each_notebook
def test_definitions_are_short(path):
    for source in (cell.source for cell in cells(path, "code")):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                lines = node.end_lineno - node.lineno + 1
                assert lines <= 12, f"{path.name}: {node.name} has {lines} lines; put it in the package"


@each_notebook
def test_checks_can_fail_and_figures_are_drawn_by_the_package(path):
    for source in tagged(path, "check"):
        assert "assert" in source, f"{path.name}: a check without an assert:\n{source}"
    for source in tagged(path, "figure"):
        assert "draw_" in source, f"{path.name}: a figure cell that calls no draw_ function:\n{source}"


def taken_for_markdown(source: str) -> list[str]:
    """Lines that continue a paragraph, but begin with what Markdown takes for a list, a heading or a quotation."""
    found = []
    for block in re.split(r"\n\s*\n", re.sub(r"\$\$.*?\$\$|```.*?```", "", source, flags=re.S)):
        lines = block.strip("\n").split("\n")
        if all(line.startswith(">") for line in lines):  # a quotation, which has paragraphs of its own
            found += taken_for_markdown("\n".join(re.sub(r"^> ?", "", line) for line in lines))
            continue
        marked = {line: MARKER.match(line)[1][-1] for line in lines if MARKER.match(line)}
        kinds = list(marked.values())
        found += [line for line in lines[1:] if line in marked and kinds.count(marked[line]) == 1]  # a list has more
    return found


@each_notebook
def test_no_line_of_a_paragraph_is_taken_for_a_list_or_a_heading(path):
    found = [line for cell in cells(path, "markdown") for line in taken_for_markdown(cell.source)]
    assert not found, f"{path.name}: break these lines elsewhere: {found}"


def test_lines_that_markdown_takes_for_something_else_are_found():
    for second in ("1. For alpha", "1) + b]$ is", "- b", "+ b", "* b", "# b", "> b"):
        assert taken_for_markdown(f"It never reaches\n{second}\nand more.") == [second]
    for fine in ("- a\n- b\n  more", "1. a\n2. b", "# Title\n\ntext", "> a\n> b", "$$a\n+ b$$\nand", "a\n-b 1.5 c",
                 "You learn\n- a\n- b"):  # fmt: skip
        assert not taken_for_markdown(fine)
    assert taken_for_markdown("> a\n> - b") and taken_for_markdown("- a\n1. b")


@each_notebook
def test_a_notebook_opens_with_its_promise_and_closes_with_a_summary(path):
    text = [cell.source for cell in cells(path, "markdown")]
    assert re.match(r"# \S", text[0]), "the first cell is the title"
    opening = "\n".join(text[:2])
    for part in ("You will", "You will learn", "You need"):
        assert part in opening, f"{path.name}: the opening does not say *{part}*"
    closing = "\n".join(text[-3:])
    for part in ("Summary", "Next"):
        assert re.search(rf"^(#+ |\*+){part}", closing, re.M), f"{path.name}: does not close with {part}"


@each_notebook
def test_a_notebook_has_smoke_parameters(path):
    assert path.stem in small(), f"params/smoke.yaml: add {path.stem}, a run of seconds"


def test_readme_names_every_notebook():
    readme = (root() / "README.md").read_text()
    missing = [path.stem for path in NOTEBOOKS if path.stem not in readme]
    assert not missing, f"README.md's reading order lacks {missing}"


# --- labels


def labels(path: Path) -> list[str]:
    """The labels of the equations of a notebook, in the order in which they appear."""
    return re.findall(r"\\tag\{([^}]*)\}", "\n".join(cell.source for cell in cells(path, "markdown")))


@each_notebook
def test_the_labels_of_a_notebook_are_numbered_in_the_order_in_which_they_appear(path):
    for family in {label[0] for label in labels(path)}:
        numbers = [int(label[1:]) for label in labels(path) if label[0] == family]
        first = numbers[0]
        assert numbers == list(range(first, first + len(numbers))), f"{path.name}: {family} comes as {numbers}"


def equation(text: str) -> str:
    """A display equation without its label, spaces and the signs around it, so that two of them can be compared."""
    return re.sub(r"\\tag\{\w+\}|\\[,;:! ]|\\q?quad|[\s>.,$]|\\big[lrg]?|\\Big[lrg]?", "", text)


def test_no_equation_has_two_labels():
    labelled = {}
    for path in NOTEBOOKS:
        text = "\n".join(cell.source for cell in cells(path, "markdown"))
        for shown in re.findall(r"\$\$(.*?\\tag\{\w+\}.*?)\$\$", text, re.S):
            label = re.search(r"\\tag\{(\w+)\}", shown)[1]
            other = labelled.setdefault(equation(shown), label)
            assert other == label, f"{path.name}: ({label}) is ({other})"


@each_notebook
def test_every_equation_that_a_notebook_mentions_is_defined(path):
    defined = {label for other in NOTEBOOKS for label in labels(other)}
    families = {label[0] for label in defined}
    for cell in parsed(path).cells:
        for mention in re.findall(MENTION, cell.source):
            lost = {label for label in re.findall(LABEL, mention) if label[0] in families} - defined
            assert not lost, f"{path.name}: mentions {sorted(lost)} in {mention!r}"


def test_each_label_is_defined_once_and_every_label_in_the_package_is_defined():
    defined = Counter(label for path in NOTEBOOKS for label in labels(path))
    families = "".join({label[0] for label in defined})
    twice = [label for label, times in defined.items() if times > 1]
    assert not twice, f"defined by more than one \\tag: {twice}"
    for path in sorted((root() / "rationale").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                used = set(re.findall(rf"\b[{families}]\d+\b", ast.get_docstring(node) or ""))
                lost = sorted(used - set(defined))
                place = f"{path.name}, {getattr(node, 'name', 'module')}"
                assert not lost, f"{place}: refers to {lost}, which no notebook defines with \\tag"


# --- requirements


def project() -> dict:
    return tomllib.loads((root() / "pyproject.toml").read_text())["project"]


def modules(path: Path) -> set[str]:
    """Top names of what a file imports from outside."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names} - {"rationale"} - sys.stdlib_module_names


COMES_WITH = {  # top name of a module -> the requirement that installs it, where they differ
    "yaml": "pyyaml",
    "pydantic_core": "pydantic",
    "IPython": "ipykernel",
    "traitlets": "jupyterlab",
    "nbformat": "nbconvert",
    "sklearn": "scikit-learn",
    "rouge_score": "rouge-score",
    "tokenizers": "transformers",
    "huggingface_hub": "transformers",  # and datasets
}


def wanted() -> dict[str, Requirement]:
    texts = [*project()["dependencies"], *chain.from_iterable(project()["optional-dependencies"].values())]
    return {canonicalize_name(Requirement(text).name): Requirement(text) for text in texts}


def test_environment_yml_names_the_requirements_of_pyproject():
    conda_name = {"pytorch": "torch", "matplotlib-base": "matplotlib"}
    listed = yaml.safe_load((root() / "environment.yml").read_text())["dependencies"]
    found = {}
    for item in listed:
        for text in item["pip"] if isinstance(item, dict) else [item]:
            if text.startswith("-e ."):
                for extra in re.findall(r"\w+", text[4:]):
                    texts = project()["optional-dependencies"][extra]
                    found |= {Requirement(t).name: Requirement(t).specifier for t in texts}
            else:
                requirement = Requirement(text)
                found[conda_name.get(requirement.name, requirement.name)] = requirement.specifier
    assert found.pop("python") == Requirement(f"python{project()['requires-python']}").specifier
    found.pop("pip")
    expected = {name: requirement.specifier for name, requirement in wanted().items()}
    found = {canonicalize_name(name): specifier for name, specifier in found.items()}
    assert found == expected, "environment.yml and pyproject.toml differ"


def test_constraints_pin_every_requirement_to_a_version_it_allows():
    pinned, hashes = {}, {}
    lines = [line for line in (root() / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        if found := re.fullmatch(r"([a-z0-9-]+)==([\w.]+)( ; .+)? \\", line):
            name = found[1]
            pinned[name], hashes[name] = found[2], 0
        else:
            assert re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line), f"{line}: only name==version, no +local"
            hashes[name] += 1
    assert all(hashes.values()), "every package has a hash"
    assert pinned["torch"] == "2.13.0"
    for name, requirement in wanted().items():
        assert name in pinned, f"constraints.txt does not pin {name}"
        assert requirement.specifier.contains(pinned[name]), f"{requirement} does not allow {pinned[name]}"


def test_what_the_package_imports_is_required():
    for path in (root() / "rationale").rglob("*.py"):
        for name in modules(path):
            assert canonicalize_name(COMES_WITH.get(name, name)) in wanted(), f"{path.name} imports {name}"


def imported_at_once(path: Path) -> set[str]:
    """Top names of what importing a file imports from outside: not what a function or a type checker imports."""
    nodes = ast.parse(path.read_text()).body
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level]
    return {name.split(".")[0] for name in names} - {"rationale"} - sys.stdlib_module_names


def test_the_library_floors_import_nothing_at_once_but_the_base_requirements():
    base = {Requirement(text).name for text in project()["dependencies"]}
    above = ("explorers", "figures", "runs")
    for path in (root() / "rationale").rglob("*.py"):
        if path.relative_to(root() / "rationale").parts[0] not in above:
            extra = {COMES_WITH.get(name, name) for name in imported_at_once(path)} - base
            assert not extra, f"{path.name} imports {extra}: do so in the function that needs it"


def test_make_setup_installs_every_extra_but_those_of_other_targets():
    installed = re.search(r"INSTALL\) '\.\[([\w,]+)\]'", (root() / "Makefile").read_text())[1].split(",")
    assert {*installed, "browser", "explore", "lock"} == set(project()["optional-dependencies"])


def test_hints_name_the_distribution_and_its_extras():
    for path in [*(root() / "rationale").rglob("*.py"), root() / "README.md", root() / "CONTRIBUTING.md"]:
        for name, extras in re.findall(r"pip install '([\w-]+)\[([^]]+)\]'", path.read_text()):
            assert name == project()["name"], f"{path.name}: {name}"
            assert "{" in extras or set(extras.split(",")) <= set(project()["optional-dependencies"])


def test_extras_that_the_readme_installs_exist() -> None:
    readme = (root() / "README.md").read_text(encoding="utf-8")
    named = {extra for found in re.findall(r"--editable \"\w+\[([\w,]+)\]", readme) for extra in found.split(",")}
    assert named and named <= set(project()["optional-dependencies"]), f"README.md installs the extras {sorted(named)}"


# --- files


def text_files() -> list[Path]:
    skip = {".git", ".venv", "outputs", ".snakemake", ".hypothesis", "__pycache__", ".ipynb_checkpoints"}
    found = []
    for folder, folders, names in os.walk(root()):
        folders[:] = [name for name in folders if name not in skip and not name.endswith(("_cache", "-info"))]
        found += [Path(folder, name) for name in names if name != ".git"]  # a file in a worktree of git
    return found


def test_no_file_knows_the_machine_it_was_written_on():
    pattern = re.compile(rb"(?<![\w.*/])/(?:wor" rb"k|hom" rb"e|roo" rb"t|User" rb"s)/\w")
    for path in text_files():
        found = pattern.search(path.read_bytes())
        assert not found, f"{path.relative_to(root())} names an absolute path: {found[0].decode()}..."


def test_json_and_yaml_files_can_be_read():
    for path in text_files():
        if path.suffix == ".json":
            json.loads(path.read_text())
        if path.suffix in (".yaml", ".yml"):
            yaml.safe_load(path.read_text())


def test_every_make_target_says_what_it_does():
    makefile = (root() / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M)[1].split()
    for target in targets:
        assert re.search(rf"^{target}:.*## \w", makefile, re.M), f"{target} has no `## help`"


def test_the_command_of_continuous_integration_can_be_executed():
    assert os.access(root() / ".ci" / "run", os.X_OK)


@every(["README.md", "RESULTS.md", "CONTRIBUTING.md", "NOTATION.md"])
def test_every_relative_link_of_a_page_leads_somewhere(name: str) -> None:
    page = (root() / name).read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", page) if "://" not in link]
    missing = [link for link in links if not (root() / link).exists()]
    assert not missing, f"{name} links to {missing}, which do not exist"


def test_the_readme_is_short_and_its_results_stand_elsewhere() -> None:
    readme = (root() / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) < 250 and "<!-- results" not in readme and "(RESULTS.md)" in readme


def test_the_python_that_the_readme_shows_runs() -> None:
    readme = (root() / "README.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", readme, re.S):
        exec(compile(code, "README.md", "exec"), {})


def test_the_version_is_the_same_wherever_it_stands() -> None:
    cited = yaml.safe_load((root() / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == rationale.__version__ and cited["license"] == project()["license"] == "MIT"
    assert f"## {rationale.__version__}" in (root() / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("given", [None, "1"])
def test_libraries_are_compiled_once_where_python_may_not_write_what_it_compiles(tmp_path, given):
    """Without compiled files, an import of the package takes 18 seconds instead of 7, in each process anew."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root() / name, tmp_path)
    of_others = ("PYTHONDONTWRITEBYTECODE", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in of_others}
    environment |= {"PYTHONDONTWRITEBYTECODE": given} if given else {}
    command = ["make", "--dry-run", "setup", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    installed = re.findall(r".*pip install.*", done.stdout)
    assert installed and all(("--no-compile" in line) == (given is None) for line in installed), installed
    (tmp_path / "probe.mk").write_text("include Makefile\nprobe:\n\t@echo [$$PYTHONDONTWRITEBYTECODE]\n")
    command = ["make", "--file", "probe.mk", "probe"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]", "tests write what Python compiles, or each of their processes compiles it anew"


def test_make_says_what_to_do_where_the_environment_is_a_link(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(root() / name, tmp_path)
    (tmp_path / ".venv").symlink_to(tmp_path / "elsewhere")
    done = subprocess.run(["make", "setup", f"PYTHON={sys.executable}"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "Unable to create" not in done.stderr
    assert f"error: .venv is a link (to {tmp_path}/elsewhere), in which make sets up nothing; remove it" in done.stderr


def test_no_property_test_fails_because_the_machine_is_busy():
    assert hypothesis.settings().deadline is None, "a timing is never asserted"
    assert hypothesis.HealthCheck.too_slow in hypothesis.settings().suppress_health_check, "see tests/conftest.py"
