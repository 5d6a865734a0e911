"""A folder in the format of the ERASER benchmark: documents, and annotations that point into them.

Source: DeYoung et al. 2020. `docs/<docid>` (or docs.jsonl) holds a document, tokens separated by spaces and one
sentence per line. A line of train.jsonl, val.jsonl or test.jsonl has annotation_id, classification, query, docids
(often null) and evidences: a list of lists of {docid, start_token, end_token}.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple

from rationale.data.files import parse_json, read_lines, read_text
from rationale.data.own.marks import HALF, require_whole
from rationale.errors import BadInput, excerpt, shown

SIDES = ("_premise", "_hypothesis")  # endings of the two documents of a pair (e-SNLI)


class Annotation(NamedTuple):
    """One line of an annotation file."""

    number: int  # of the line
    tokens: tuple[str, ...]  # of all its documents, one after the other
    rationale: tuple[bool, ...] | None
    query: tuple[str, ...]
    second: tuple[str, ...]  # of a pair: the hypothesis; else empty
    label: str


def is_eraser(folder: Path) -> bool:
    """Whether a folder has documents and annotations in ERASER's format."""
    return _has_documents(folder) and (folder / "train.jsonl").is_file()


def _has_documents(folder: Path) -> bool:
    return (folder / "docs").is_dir() or (folder / "docs.jsonl").is_file()


def require_documents(folder: Path, columns: Iterable[str]) -> None:
    """Refuse a folder whose train file has the keys of ERASER's annotations, but which has no documents."""
    if {"annotation_id", "classification", "evidences"} <= set(columns) and not _has_documents(folder):
        accepted = "a folder docs of the documents, or docs.jsonl, beside the annotations"
        raise BadInput(f"{shown(folder)}: annotations in ERASER's format without their documents; accepted: {accepted}")


class Documents:
    """The tokens of the documents of a folder, by name; a document is read when it is first asked for."""

    def __init__(self, folder: Path):
        self.folder, self.known = folder, dict[str, tuple[str, ...]]()
        self.in_one_file = (folder / "docs.jsonl").is_file()
        if self.in_one_file:
            place = shown(folder / "docs.jsonl")
            for number, line in enumerate(read_lines(folder / "docs.jsonl"), start=1):
                row = parse_json(line, f"{place}:{number}", '{"docid": ..., "document": ...}')
                if not isinstance(row, dict) or not isinstance(row.get("document"), str):
                    raise BadInput(f"{place}:{number}: no document; accepted: " + '{"docid": ..., "document": ...}')
                if HALF.search(row["document"]):
                    raise BadInput(f"{place}:{number}: half a character; accepted: text in UTF-8")
                name, tokens = row.get("docid"), _tokens(row["document"])
                if not isinstance(name, str | int):
                    raise BadInput(f"{place}:{number}: no docid; accepted: " + '{"docid": ..., "document": ...}')
                if self.known.setdefault(str(name), tokens) != tokens:
                    again = f"the docid {excerpt(name)} stands in an earlier line with another document"
                    raise BadInput(f"{place}:{number}: {again}; accepted: each docid once")

    def __contains__(self, name: str) -> bool:
        inside = name not in ("", ".", "..") and "/" not in name and "\\" not in name
        return name in self.known or (not self.in_one_file and inside and (self.folder / "docs" / name).is_file())

    def __getitem__(self, name: str) -> tuple[str, ...]:
        if name not in self.known:
            self.known[name] = tuple(filter(None, _tokens(read_text(self.folder / "docs" / name))))
        return self.known[name]


def read_annotations(folder: Path, name: str, documents: Documents) -> Iterator[Annotation]:
    """The annotations of one file.

    Raises
    ------
    BadInput
        A line is malformed, names a document that is not there, or has evidence outside of its document.
    """
    place = shown(folder / name)
    for number, line in enumerate(read_lines(folder / name), start=1):
        if line.strip():
            row = parse_json(line, f"{place}, line {number}", "an annotation, one JSON object per line")
            try:
                yield _annotation(number, row, documents)
            except (TypeError, AttributeError, KeyError):
                accepted = "an object with annotation_id, classification, evidences, query"
                raise BadInput(f"{place}, line {number}: no annotation of ERASER; accepted: {accepted}") from None
            except ValueError as error:
                raise BadInput(f"{place}, line {number}: {error}") from None


def _annotation(number: int, row: dict[str, Any], documents: Documents) -> Annotation:
    evidences = [evidence for group in row["evidences"] for evidence in group]
    identifier = str(row["annotation_id"])
    names = list(dict.fromkeys(row.get("docids") or [evidence["docid"] for evidence in evidences] or [identifier]))
    sides = next(([name.removesuffix(end) + other for other in SIDES] for name in names for end in SIDES
                  if name.endswith(end)), [])  # fmt: skip
    if not sides and f"{identifier}{SIDES[0]}" in documents:
        sides = [identifier + other for other in SIDES]
    names = sides or names
    for name in names:
        if name not in documents:
            raise ValueError(
                f"the document {excerpt(name)} is not in docs; accepted: annotations of the documents there"
            )
        if not any(documents[name]):
            raise ValueError(f"the document {excerpt(name)} is empty; accepted: documents with at least one word")
    tokens, offset = list[str](), {}
    for name in names:
        offset[name] = len(tokens)
        tokens += documents[name]
    flags = [False] * len(tokens)
    for evidence in evidences:
        start, end, name = evidence["start_token"], evidence["end_token"], evidence["docid"]
        length = len(documents[name]) if name in offset else -1
        if not 0 <= start < end <= length:
            has = f"a document of {length} tokens" if length >= 0 else "a document that the annotation does not name"
            if end > length:
                wrong = "is longer than its text"
            else:
                wrong = "begins before its text" if start < 0 else "is empty or backwards"
            raise ValueError(f"the rationale {wrong}: evidence [{start}, {end}] in {has}")
        flags[offset[name] + start : offset[name] + end] = [True] * (end - start)
    label = "" if row["classification"] is None else str(row["classification"])
    if not tokens or not label:
        raise ValueError("an empty text" if not tokens else "no label in classification")
    require_whole(label, "classification")
    require_whole(row.get("query") or "", "query")
    second = tuple(documents[sides[1]]) if sides else ()
    marks = tuple(flag for token, flag in zip(tokens, flags, strict=True) if token) if evidences else None
    words, of_second = tuple(filter(None, tokens)), tuple(filter(None, second))  # without the empty pieces
    return Annotation(number, words, marks, _words(row.get("query") or ""), of_second, label)


def _words(text: str) -> tuple[str, ...]:
    return tuple(map(intern, text.split()))


def _tokens(document: str) -> tuple[str, ...]:
    """What the numbers of evidences count: pieces between spaces, line by line. A no-break space divides no tokens.

    Between two spaces there is an empty piece. The benchmark's own reader counts it in docs.jsonl, and not in docs/.
    """
    lines = re.split("\r\n|\r|\n", document)
    return tuple(intern(piece) for line in lines for piece in line.strip().split(" "))
