"""Parameter files and overrides: YAML mappings as (place, name, value), with one clear line per mistake."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from rationale.digests import not_a_named_pipe
from rationale.errors import BadInput, cut, excerpt, shown
from rationale.settings import did_you_mean

PLAIN_DECIMAL = r"[-+]?(0|[1-9]\d*|\d*\.\d+([eE][-+]?\d+)?|\d+\.([eE][-+]?\d+)?)"
LONGEST_NUMBER = 400  # characters; the largest float64 has 309 digits
LONGEST_FILE = 10_000_000  # characters; reading /dev/zero would never end
SHORT = 10_000  # characters; the nodes of such a text are kept in memory
DEEPEST = 20  # lists and mappings inside each other


def is_override(item: str) -> bool:
    """True for `seed=2`, False for a file name."""
    return re.match(r"[A-Za-z_]\w*=", item) is not None


def read_override(item: str) -> tuple[str, str, Any]:
    """`seed=2` -> ("command line: ", "seed", 2); the value is read as in a parameter file, and has no comment."""
    name, text = item.split("=", 1)
    where = "command line: "
    try:
        node = _composed(text)
    except (yaml.YAMLError, RecursionError):
        raise BadInput(f"{where}{name}: {excerpt(text)} cannot be read as a YAML value") from None
    if node is None or _is_empty(node):
        raise BadInput(f"{where}{name}: an empty value is not accepted, give a value")
    if left := text[node.end_mark.index :].strip():  # a comment for YAML, and more likely a part of the value
        advice = f"give the value alone, or put a text in quotes, such as {name}='\"a #1\"'"
        raise BadInput(f"{where}{name}: {excerpt(left)} stands behind the value and would not be read, {advice}")
    return where, name, _value(node, f"{where}{name}: ")


def as_override(name: str, value: Any) -> str:
    """The override that `read_override` reads as this name and value.

    Examples
    --------
    >>> as_override("selection", None), as_override("learning_rate", 1e-5), as_override("methods", ["states", "inputs"])
    ('selection=null', 'learning_rate=1.0e-05', 'methods=[states, inputs]')
    """
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=math.inf)
    return f"{name}=" + text.removesuffix("...\n").rstrip("\n")  # YAML ends a single text with dots


def read_file(file: str | Path) -> list[tuple[str, str, Any]]:
    """(`file:line: `, key, value) of each entry of a YAML mapping, in order. A key that is given twice is refused.

    Of YAML, what could be read as something else than it looks like is refused: numbers that are not plain decimals
    (`010` would be 8, `1:30` would be 90), dates, tags (`!!int`) and aliases (`*name`).

    Raises
    ------
    BadInput
        The file cannot be read, or a line of it is not accepted.
    """
    path, name = Path(file), shown(file)
    try:
        with open(not_a_named_pipe(path), encoding="utf-8-sig") as opened:
            text = opened.read(LONGEST_FILE + 1)
        if len(text) > LONGEST_FILE:
            raise BadInput(f"{name}: longer than {LONGEST_FILE:,} characters, give a file with lines `key: value`")
        root = _composed(text)
    except FileNotFoundError:
        siblings = [shown(p) for p in path.parent.glob("*.yaml")] if path.parent.is_dir() else []
        raise BadInput(f"{name}: no such file{did_you_mean(name, siblings)}") from None
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", "not UTF-8")
        raise BadInput(f"{name}: cannot be read ({problem}), give a file with lines `key: value`") from None
    except yaml.reader.ReaderError as error:
        problem = f"the character U+{error.character:04X} is not allowed"
        raise BadInput(f"{name}: not valid YAML ({problem}), give lines `key: value`") from None
    except yaml.MarkedYAMLError as error:
        place = f"{name}:{error.problem_mark.line + 1}" if error.problem_mark else f"{name}"
        raise BadInput(f"{place}: not valid YAML ({error.problem}), give lines `key: value`") from None
    if root is None:
        return []
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(f"{name}:{root.start_mark.line + 1}: not a mapping, give lines `key: value`")
    entries = []
    for key, (line, node) in _entries(root, "", f"{name}:").items():
        where = f"{name}:{line}: "
        if _is_empty(node):
            raise BadInput(f"{where}{key}: an empty value is not accepted, give a value")
        entries.append((where, key, _value(node, f"{where}{key}: ", f"{name}:")))
    return entries


def lines_of(file: str | Path) -> dict[tuple[str | int, ...], int]:
    """The line of each value in a file that `read_file` accepts, by its place: ("grid", "seed"), ("runs", 0)."""

    def walk(node: yaml.Node, place: tuple[str | int, ...], line: int) -> Iterator[tuple[tuple[str | int, ...], int]]:
        yield place, line
        if isinstance(node, yaml.MappingNode):
            for key, content in node.value:
                yield from walk(content, (*place, key.value), key.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                yield from walk(item, (*place, i), item.start_mark.line + 1)

    root = _composed(Path(file).read_text(encoding="utf-8-sig"))
    return dict(walk(root, (), 1)) if root else {}


def _composed(text: str) -> yaml.Node | None:
    """The nodes of a YAML document, which nobody changes; None if it is empty."""
    return _composed_once(text) if len(text) < SHORT else yaml.compose(text, Loader=_Loader)


@lru_cache(maxsize=1000)  # a sweep reads the same file once per run
def _composed_once(text: str) -> yaml.Node | None:
    return yaml.compose(text, Loader=_Loader)


class _Loader(yaml.SafeLoader):
    """YAML without tags, aliases and deep nesting."""

    def __init__(self, stream: str):
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        problem = ""
        if isinstance(event, yaml.AliasEvent):
            problem = f"the alias *{event.anchor}: write the value out"
        elif event.tag is not None:
            problem = f"the tag {event.tag}: a value has no tag"
        elif event.anchor is not None:
            problem = f"the anchor &{event.anchor}: give the value alone, or put a text in quotes"
        elif self._depth >= DEEPEST:
            problem = f"nested more than {DEEPEST} times"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _is_empty(node: yaml.Node) -> bool:
    """Whether a value is left out, which YAML reads as null; null has to be written out."""
    return node.tag.endswith(":null") and not node.value


def _entries(node: yaml.MappingNode, where: str, file: str = "") -> dict[str, tuple[int, yaml.Node]]:
    """(line, node of the value) of each key of a mapping, by the text of the key."""
    entries: dict[str, tuple[int, yaml.Node]] = {}
    for key, content in node.value:
        line = key.start_mark.line + 1
        where = f"{file}{line}: " if file else where
        if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
            raise BadInput(f"{where}not a plain key, give lines `key: value`")
        if key.value in entries:
            raise BadInput(f"{where}{cut(key.value)} is given twice, first on line {entries[key.value][0]}")
        entries[key.value] = line, content
    return entries


def _value(node: yaml.Node, where: str, file: str = "") -> Any:
    """The value of a node. Messages begin with `where`, or with the line of a key inside the value of a `file`."""
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, where, file) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return {name: _value(content, where, file) for name, (_, content) in _entries(node, where, file).items()}
    kind, text = node.tag.rpartition(":")[2], node.value
    if kind == "null":
        return None
    if kind == "bool":
        return yaml.SafeLoader.bool_values[text.lower()]
    if kind in ("int", "float") and text.lower() in (".inf", "-.inf", "+.inf", ".nan"):
        return float(text.replace(".", ""))
    if kind not in ("int", "float", "timestamp"):
        if "\0" in text:
            raise BadInput(f"{where}{excerpt(text)} holds a NUL character, give a text without it")
        return text
    if not re.fullmatch(PLAIN_DECIMAL, text) or len(text) > LONGEST_NUMBER:
        accepted = "a plain decimal number, or put a text in quotes"
        raise BadInput(f"{where}{cut(text)} is a number or a date in another form, give {accepted}")
    return int(text) if kind == "int" else float(text)
