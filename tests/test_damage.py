"""Damaged data and parameter files: a reader refuses them in one line that names the file, or reads what they say.

The formats, the damages and what can be asked of a reader are in tests/damage.py. `make test-deep` tries 500 more
damages per format, the same ones each time; `make fuzz` tries others.
"""

import os
import random
import re

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rationale.errors import BadInput
from rationale.runs.yaml_files import read_file
from tests.damage import DAMAGES, FORMATS, HOSTILE, Format, unpacked

LONGEST_MESSAGE = 1000  # characters beside the path


def outcome(place, one: Format, content: bytes) -> str:
    """What a reader does with a damaged file: "refused" or "read"; anything else fails."""
    folder = one.write(place, content)
    try:
        rows = one.read(folder)
    except BadInput as error:
        message = str(error)
        assert str(folder) in message, f"does not name the file: {message[:300]}"
        assert message.isprintable(), f"not one line of printable characters: {message[:300]!r}"
        assert len(message) < LONGEST_MESSAGE + message.count(str(folder)) * len(str(folder)), message
        return "refused"
    said = one.parse(unpacked(content)) if one.parse else one.read(one.write(place, one.files[one.damaged]))
    assert rows == said, f"read {str(rows)[:300]}, but the file says {str(said)[:300]}"
    return "read"


def test_a_second_parser_reads_the_same_from_files_that_are_whole(tmp_path):
    for name, one in FORMATS.items():
        assert outcome(tmp_path / name, one, one.files[one.damaged]) == "read", name
        assert one.read(tmp_path / name), f"{name}: nothing to compare"


def tried(place, name: str, damages: list[str]) -> dict[str, str]:
    """The outcome of each of these damages."""
    one, outcomes = FORMATS[name], {}
    for damage in damages:
        try:
            outcomes[damage] = outcome(place, one, DAMAGES[damage](one.files[one.damaged]))
        except Exception as error:
            raise AssertionError(f"{name}, {damage}: {type(error).__name__}: {error}") from error
    return outcomes


def test_a_damaged_file_is_refused_or_read_as_it_stands(tmp_path):
    """Each format with a sixth of the damages, another one for each; all of them in the next test."""
    for i, name in enumerate(FORMATS):
        tried(tmp_path / str(i), name, list(DAMAGES)[i % 6 :: 6])


@pytest.mark.deep
@pytest.mark.parametrize("name", FORMATS)
def test_every_damage_of_every_format_is_refused_or_read_as_it_stands(tmp_path, name):
    outcomes = tried(tmp_path, name, list(DAMAGES))
    assert outcomes["empty"] == outcomes["only zeros"] == outcomes["only blank lines"] == "refused"
    assert list(outcomes.values()).count("refused") > len(DAMAGES) / 5


# --- at random

FRESH = bool(os.environ.get("FUZZ"))  # `make fuzz`: other examples in each run; without it a run repeats the last one
FUZZING = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))


@st.composite
def damaged(draw, content: bytes, parts: dict[str, bytes] = HOSTILE) -> bytes:
    """The content after one to three changes: of a bit, a byte, a slice or a line, or something hostile put in."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        size = draw(st.integers(1, 40))
        kind = draw(
            st.sampled_from(("bit", "byte", "cut out", "repeat", "cut off", "hostile", "swap lines", "no line"))
        )
        lines = content.split(b"\n")
        if kind == "bit" and content:
            content = content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        elif kind == "byte":
            content = content[:at] + bytes([draw(st.integers(0, 255))]) + content[at + 1 :]
        elif kind == "cut out":
            content = content[:at] + content[at + size :]
        elif kind == "repeat":
            content = content[:at] + content[at : at + size] * 2 + content[at + size :]
        elif kind == "cut off":
            content = content[:at]
        elif kind == "hostile":
            part = parts[draw(st.sampled_from(list(parts)))]
            content = content[:at] + part + content[at + draw(st.integers(0, size)) :]
        elif kind == "swap lines":
            random.Random(at).shuffle(lines)
            content = b"\n".join(lines)
        else:
            del lines[at % len(lines)]
            content = b"\n".join(lines)
    return content


def fuzzed(place, name: str, num_examples: int, derandomize: bool) -> None:
    one = FORMATS[name]

    @settings(FUZZING, max_examples=num_examples, derandomize=derandomize)
    @given(damaged(one.files[one.damaged]))
    def each(content):
        outcome(place, one, content)

    each()


def test_random_damage_is_refused_or_read_as_it_stands(tmp_path):
    for name in FORMATS:
        fuzzed(tmp_path / name, name, 5, derandomize=True)


@pytest.mark.deep
@pytest.mark.parametrize("name", FORMATS)
def test_much_random_damage_is_refused_or_read_as_it_stands(tmp_path, name):
    fuzzed(tmp_path, name, 500, derandomize=not FRESH)


# --- parameter files

PARAMETERS = b"""# a recipe
model: hardkuma
selection: 0.4   # share
learning_rate: 1.0e-3
epochs: 25
dependent: true
transitions: null
runs: [a, "b c", 'd']
grid: {selection: [0.1, 0.2], seed: [1, 2]}
vectors: glove.6B.50d
"""
IN_PARAMETERS = {  # what random damage puts into a file, besides what it puts into data
    name: name.encode()
    for name in (
        "010", "1:30", "0x1F", "1_000", "!!int ", "&a ", "*a", "<<: ", "---\n", "? ", "- ", "yes", "~", ": ", "#",
        "|\n", "2001-99-99", "%YAML 9.0\n", "{", "}", "[", "]", "'", '"', "\\x1b", ".inf", "=", "  ", "\x85", "@", "`",
    )
}  # fmt: skip


def said_by(node: yaml.Node) -> object:
    """What a YAML file says, as text: yaml's own parser, without any conversion of values."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: said_by(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [said_by(item) for item in node.value]
    return node.value, node.style


def means(value: object, said: object) -> bool:
    """Whether a value is what its text looks like to a person: 010 does not look like 8."""
    if isinstance(value, dict):
        return isinstance(said, dict) and value.keys() == said.keys() and all(means(value[k], said[k]) for k in value)
    if isinstance(value, list):
        return isinstance(said, list) and len(value) == len(said) and all(map(means, value, said))
    text, style = said
    if isinstance(value, bool):
        return not style and text.lower() in (("yes", "true", "on") if value else ("no", "false", "off"))
    if value is None:
        return not style and text in ("null", "Null", "NULL", "~", "")
    if isinstance(value, str):
        return value == text
    is_usual = re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text)
    looks = float(re.sub(r"\.(?=[a-zA-Z])", "", text)) if is_usual else None
    return not style and not re.match(r"[-+]?0\d+$", text) and (looks == value or looks != looks)


def parameters_outcome(file, content: bytes) -> str:
    file.write_bytes(content)
    try:
        entries = {name: value for _, name, value in read_file(file)}
    except BadInput as error:
        message = str(error)
        assert message.startswith(f"{file}:") and message.isprintable() and len(message) < LONGEST_MESSAGE, message
        return "refused"
    root = yaml.compose(content.decode("utf-8").removeprefix("\ufeff"), Loader=yaml.SafeLoader)
    said = said_by(root) if root else {}
    assert means(entries, said), f"read {entries}, but the file says {said}"
    return "read"


def test_a_damaged_parameter_file_is_refused_or_read_as_it_looks(tmp_path):
    assert parameters_outcome(tmp_path / "p.yaml", PARAMETERS) == "read"
    outcomes = []
    for damage, change in DAMAGES.items():
        try:
            outcomes.append(parameters_outcome(tmp_path / "p.yaml", change(PARAMETERS)))
        except Exception as error:
            raise AssertionError(f"{damage}: {type(error).__name__}: {error}") from error
    assert outcomes.count("refused") > len(outcomes) / 3


@pytest.mark.parametrize(
    "num_examples", [pytest.param(30, id="some"), pytest.param(1500, id="many", marks=pytest.mark.deep)]
)
def test_random_damage_of_a_parameter_file_is_refused_or_read_as_it_looks(tmp_path, num_examples):
    @settings(FUZZING, max_examples=num_examples, derandomize=num_examples < 100 or not FRESH)
    @given(damaged(PARAMETERS, HOSTILE | IN_PARAMETERS))
    def each(content):
        parameters_outcome(tmp_path / "p.yaml", content)

    each()
