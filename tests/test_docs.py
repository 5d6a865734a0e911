"""What the documentation says is so: examples run, NOTATION.md names what exists, the public names are documented."""

import ast
import doctest
import importlib
import re

import torch

from rationale.runs import root
from rationale.training import settings
from tests.every import every
from tools.book.pages import modules, public_names, tree

NOTATION = (root() / "NOTATION.md").read_text(encoding="utf-8")
ROW = r"\|(?!--| symbol| labels| noun)"
TABLE = [line.strip("|").split("|") for line in NOTATION.splitlines() if re.match(ROW, line)]
SYMBOLS, EQUATIONS, GLOSSARY = ([row for row in TABLE if len(row) == size] for size in (5, 4, 3))
MATHEMATICS = (
    "distributions.unit_interval", "distributions.rectified", "nn.gates", "nn.mappings.entropies",
    "nn.mappings.grouped", "nn.mappings.norms", "nn.mappings.mapping", "objectives.penalties", "objectives.constraint",
    "objectives.score_function", "explain.diffmask", "explain.frozen",
)  # fmt: skip
LABELS = re.compile(r"\\tag\{(\w+)\}")


def with_examples() -> list[str]:
    return [module for module in modules() if any(">>> " in text for text in strings(module))]


def strings(module: str) -> list[str]:
    """The strings of a module, its docstrings among them."""
    nodes = ast.walk(tree(module))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


@every(with_examples)
def test_the_examples_of_docstrings_run_and_give_what_they_say(module: str) -> None:
    found = importlib.import_module(module)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder().find(found, module, extraglobs={"torch": torch}):
        runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)
    assert runner.tries


def test_each_part_of_the_mathematics_has_examples() -> None:
    lacking = {f"rationale.{name}" for name in MATHEMATICS} - set(with_examples())
    assert not lacking, f"no example in {lacking}"


def documented(module: str) -> dict[str, str]:
    """Docstrings of the public functions and classes of a module, by name."""
    names = {name.removeprefix(f"{module}.") for name in public_names(module)}
    nodes = [node for node in tree(module).body if getattr(node, "name", None) in names]
    return {node.name: ast.get_docstring(node) or "" for node in nodes}


def test_every_public_function_and_class_has_a_docstring() -> None:
    bare = [f"{module}.{name}" for module in modules() for name, text in documented(module).items() if not text]
    assert not bare, f"no docstring: {bare}"


def names_in_code() -> set[str]:
    """Whatever the package calls something: functions, classes, arguments, variables, parameters, metrics."""
    evaluation = ast.walk(tree("rationale.training.evaluation"))
    metrics = [key for node in evaluation if isinstance(node, ast.Dict) for key in node.keys]
    names = {name for cls in vars(settings).values() if isinstance(cls, type) for name in cls.model_fields}
    found = names | {key.value for key in metrics if isinstance(key, ast.Constant)}
    for path in (root() / "rationale").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found |= {getattr(node, field, None) for field in ("name", "arg", "attr", "id")}
    return found


def test_every_symbol_of_the_notation_has_a_name_that_exists_in_the_code() -> None:
    known = names_in_code()
    assert len(SYMBOLS) + len(EQUATIONS) + len(GLOSSARY) == len(TABLE), "a row with a | too many or too few"
    for row in SYMBOLS:
        for code in re.findall(r"`([^`]+)`", row[2]):
            names = re.findall(r"[A-Za-z_]\w*", code)
            lost = [name for name in names if name not in known]
            assert names and not lost, f"NOTATION.md, {row[0]}: {lost} is nothing in rationale/"


def test_every_symbol_of_the_notation_is_defined_where_it_says() -> None:
    for row in SYMBOLS:
        place = row[4].strip(" `")
        path = root() / (place if "/" in place else f"notebooks/{place}.py")
        assert path.is_file(), f"NOTATION.md, {row[0]}: {place} does not exist"


def test_a_symbol_has_one_meaning_in_a_notebook() -> None:
    listed = [
        (symbol, row[4].strip(" `"))
        for row in SYMBOLS
        for symbol in re.findall(r"\$([^$]+)\$", row[0].split(" in ")[0])
    ]
    twice = {one for one in listed if listed.count(one) > 1}
    assert not twice, f"NOTATION.md gives two meanings within a notebook: {twice}"
    for path in sorted((root() / "notebooks").glob("*.py")):
        text = re.sub(r"\n# ?>? ?", " ", path.read_text("utf-8"))
        named = re.findall(r"[Ww]e write \$([^$]+)\$ for|, (?:and )?\$([^$]+)\$ (?:for|stands for) the\b", text)
        symbols = [one or other for one, other in named]
        assert len(set(symbols)) == len(symbols), f"{path.name} says twice what a symbol is: {symbols}"


def test_the_glossary_is_sorted_and_names_files_that_exist() -> None:
    nouns = [row[0].strip() for row in GLOSSARY]
    assert nouns == sorted(set(nouns)) and len(nouns) > 25
    for noun, meaning, place in GLOSSARY:
        assert meaning.strip() and (root() / place.strip(" `")).is_file(), f"NOTATION.md, {noun}: {place}"


def test_the_notation_lists_every_family_of_labels_and_where_it_is_defined() -> None:
    listed = {
        row[0].strip()[1]: (set(re.findall(r"[A-Z]\d+", row[0])), set(re.findall(r"\w+", row[2]))) for row in EQUATIONS
    }
    defined = {}
    for path in sorted((root() / "notebooks").glob("*.py")):
        for label in LABELS.findall(path.read_text(encoding="utf-8")):
            labels, places = defined.setdefault(label[0], (set(), set()))
            labels.add(label)
            places.add(path.stem)
    assert set(listed) == set(defined), "NOTATION.md, Equations: one row a family of labels"
    for family, (labels, places) in defined.items():
        assert places == listed[family][1], f"NOTATION.md, Equations: {family} is defined in {sorted(places)}"
        last = max(labels, key=lambda label: int(re.findall(r"\d+", label)[0]))
        assert listed[family][0] <= labels and last in listed[family][0], (
            f"NOTATION.md, Equations: {family} ends at {last}"
        )


def computing() -> list[tuple[str, str]]:
    """(Name, family) of every public function or class whose docstring gives an equation of ours as its source."""
    found = []
    for module in (module for module in modules() if module.split(".")[1] not in ("figures", "explorers")):
        for name, text in documented(module).items():
            source = re.search(r"Source: eqs?\. \(?([A-Z])\d", text)
            found += [(name, source[1])] if source else []
    return found


def test_the_notation_names_whatever_computes_an_equation() -> None:
    rows = {row[0].strip()[1]: row[3] for row in EQUATIONS}
    missing = [f"{name} ({family})" for name, family in computing() if f"`{name}`" not in rows[family]]
    assert not missing, f"NOTATION.md, Equations: name {missing}"
    assert len(computing()) > 30, "docstrings say `Source: eq. (K1)`"
