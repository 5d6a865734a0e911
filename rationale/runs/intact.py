"""Read the files of a finished run, and refuse damaged ones: cut short, emptied, with a flipped bit or a wrong type.

If the run has recorded the digests of its files (`SHA256SUMS`), any change is noticed. Otherwise a file is only checked
for what it must hold, and a digit that has become another one cannot be seen.
"""

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from rationale.digests import sha256
from rationale.errors import BadInput
from rationale.runs.folder import DIGESTS, read_digests

WHAT_TO_DO = "restore it from a copy, or make the run again (with --again, or with rationale.fit in another folder)"


class Split(BaseModel):
    """The metrics of a split, by name."""

    model_config = ConfigDict(extra="allow", strict=True)
    __pydantic_extra__: dict[str, float] = Field(init=False)


class Method(BaseModel):
    """What is recorded of one method of a run that probes."""

    model_config = ConfigDict(extra="forbid", strict=True)
    dev: Split
    test: Split
    seconds: float
    best_epoch: int
    converged_epoch: int | None = None


class Metrics(BaseModel):
    """metrics.json."""

    model_config = ConfigDict(extra="forbid", strict=True)
    dev: Split
    test: Split
    best_epoch: int
    converged_epoch: int | None = None
    seconds: float
    methods: dict[str, Method] = {}


class Baseline(BaseModel):
    """baseline.json."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    dev: Split
    test: Split
    cost: float
    seconds: float


class Text(BaseModel):
    """One line of rationales.jsonl, generations.jsonl or attributions.jsonl; which of the fields it has differs."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)
    split: str
    tokens: list[str] | None = None
    source: list[str] | None = None
    hypothesis: list[str] | None = None
    z: list[float] | None = None
    gold: list[int] | None = None
    informative: list[int] | None = None
    word_labels: list[int] | None = None


Faithfulness = dict[str, dict[str, float]]  # faithfulness.json
Plain = dict[str, bool | int | float | str | list[str] | None]  # params.yaml


def damaged(path: Path, why: str) -> BadInput:
    """The error for a file that is damaged."""
    return BadInput(f"{path}: damaged ({' '.join(why.split())[:120]}); {WHAT_TO_DO}")


def check_digest(path: Path) -> None:
    """Compare a file with the digest that its run has recorded, if there is one.

    Raises
    ------
    BadInput
        If the file is not the one that the run has written, or the list of digests cannot be read.
    """
    try:
        listed = read_digests(path.parent)
    except (OSError, ValueError) as error:
        raise damaged(path.parent / DIGESTS, str(error)) from None
    if any(not re.fullmatch("[0-9a-f]{64}", digest) for digest in listed.values()):
        raise damaged(path.parent / DIGESTS, "a line is no digest and name")
    facts = path.stat()
    if path.name in listed and _digest(path, facts.st_mtime_ns, facts.st_size) != listed[path.name]:
        raise damaged(path, f"its digest is not that in {DIGESTS}")


@lru_cache(256)
def _digest(path: Path, *_state: int) -> str:
    """The SHA-256 digest of a file; it is computed again when the state, its time and size, has changed."""
    return sha256(path)


def read_text(path: Path) -> str:
    """The text of a file of a run.

    Raises
    ------
    BadInput
        If it is damaged, empty or cannot be read.
    """
    try:
        check_digest(path)
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, str(error)) from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {WHAT_TO_DO}") from None
    if not text.strip():
        raise damaged(path, "empty")
    return text


def read_json(path: Path, form: Any) -> Any:
    """The content of a JSON file of this form, a type that pydantic knows."""
    return _parsed(path, "", read_text(path), form)


def read_json_lines(path: Path, form: Any) -> list[Any]:
    """The objects of a file with one JSON object of this form per line."""
    *lines, rest = read_text(path).split("\n")
    if rest:
        raise damaged(path, f"line {len(lines) + 1}: cut short")
    return [_parsed(path, f"line {number}: ", line, form) for number, line in enumerate(lines, start=1)]


def read_table(path: Path) -> None:
    """Check a CSV file of a run: a header with the column `epoch`, and lines of as many numbers as it has names.

    The column `method` holds text; a number may be missing.
    """
    text = read_text(path)
    try:
        head, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    except csv.Error as error:
        raise damaged(path, str(error)) from None
    if "epoch" not in head or len(set(head)) < len(head) or not all(re.fullmatch(r"[\w.]+", name) for name in head):
        raise damaged(path, "its first line does not name the columns")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head) or not all(
            name == "method" or not value or _is_number(value) for name, value in zip(head, row, strict=True)
        ):
            raise damaged(path, f"line {number}: {','.join(row)[:60]!r} does not fit the columns")
    if not text.endswith("\n"):
        raise damaged(path, "cut short")


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping of names to plain values in a YAML file."""
    text = read_text(path)
    if not text.endswith("\n"):
        raise damaged(path, "cut short")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, which counts with a thousand runs
    try:
        content = yaml.load(text, loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None
    return _fitting(path, "", content, Plain)


def _parsed(path: Path, where: str, text: str, form: Any) -> Any:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"{where}{error}") from None
    return _fitting(path, where, content, form)


def _fitting(path: Path, where: str, content: Any, form: Any) -> Any:
    """The content itself, unchanged, if it has this form."""
    try:
        _adapter(form).validate_python(content)
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(path, f"{where}{'.'.join(map(str, first['loc']))} {first['msg']}") from None
    return content


@cache
def _adapter(form: Any) -> TypeAdapter:
    config = None if isinstance(form, type) and issubclass(form, BaseModel) else ConfigDict(strict=True)
    return TypeAdapter(form, config=config)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return text in ("nan", "inf", "-inf")


def check_lengths(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Check that the gates and annotations of texts have one value per word, or per pair of words."""
    for number, row in enumerate(rows, start=1):
        words = len(row["tokens"]) if row.get("tokens") is not None else None
        for name in ("z", "gold", "informative", "word_labels"):
            values = row.get(name)
            if values is None or words is None:
                continue
            cells = words * len(row["hypothesis"]) if name == "z" and row.get("hypothesis") is not None else words
            if len(values) != cells:
                raise damaged(path, f"line {number}: {len(values)} values of {name} for {cells}")
        if any(not 0 <= value <= 1 + 1e-5 for value in row.get("z") or ()):
            raise damaged(path, f"line {number}: a value of z is not in [0, 1]")
