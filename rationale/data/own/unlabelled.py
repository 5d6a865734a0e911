"""Read texts of one's own without labels, as they stand in their file: to explain a classifier, no label is needed."""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rationale.data.corpus import SPLITS
from rationale.data.own.eraser import is_eraser
from rationale.data.own.marks import is_missing, read_tokens
from rationale.data.own.read import MOST_BAD, in_one_line, refuse_rows, tables_of
from rationale.data.own.splits import SHARES, digest_of_text, divide, shared_texts
from rationale.data.own.tables import Table
from rationale.data.tokenise import TOKENISERS
from rationale.errors import BadInput, counted, shown
from rationale.progress import each

FEWEST = 10  # different texts, so that each split has some


class PlainTexts:
    """Texts in splits.

    Attributes
    ----------
    splits : {"train", "dev", "test"} -> list of str
    notes : what a user should know of them, one sentence each
    digest : of all texts and their splits
    """

    def __init__(self, splits: dict[str, list[str]], notes: list[str]):
        self.splits, self.notes = splits, notes
        digest = hashlib.sha256()
        for split in SPLITS:
            digest.update(f"{split} {len(splits[split])}\n".encode())
            for text in splits[split]:
                digest.update(hashlib.sha256(text.encode(errors="surrogatepass")).digest())
        self.digest = digest.hexdigest()


def read_plain(p: Any, data: str | Sequence[str]) -> PlainTexts:
    """Read texts; those of a single file are divided into splits, and copies of a text stay in one split.

    Parameters
    ----------
    p : parameters
        Uses text, tokeniser, skip_incomplete, split_seed, num_train, num_dev and num_test.
    data : a file, a folder or a data set on the hub, or a list of texts

    Raises
    ------
    BadInput
        A file or a row cannot be used, or there are too few texts.
    """
    if isinstance(data, str):
        with in_one_line(place := _Place(data, p)):
            parts, notes = _parts(place)
        name = shown(data)
    else:
        parts, notes, name = [("train", list(_listed(data)))], [], "texts"
    split = TOKENISERS[p.tokeniser]
    texts = [(name_of_split, text) for name_of_split, part in parts for text in part]
    keys = [digest_of_text(p.split_seed, tuple(split(text)), None) for _, text in texts]
    if len(set(keys)) < FEWEST:
        raise BadInput(f"{name}: {counted(len(set(keys)), 'different text')}; accepted: at least {FEWEST}")
    split_of = [name_of_split for name_of_split, _ in texts]
    missing = [split for split in SHARES if split not in split_of]
    if missing:
        train = [i for i, name_of_split in enumerate(split_of) if name_of_split == "train"]
        made, _ = divide([keys[i] for i in train], [0] * len(train), missing)
        for i, name_of_split in zip(train, made, strict=True):
            split_of[i] = name_of_split
    members = {split: [i for i, other in enumerate(split_of) if other == split] for split in SPLITS}
    empty = next((split for split, part in members.items() if not part), None)
    if empty:
        raise BadInput(f"{name}: no text in the {empty} split; accepted: at least one in train, dev and test")
    for later, earlier, count, _, _ in shared_texts(
        {split: [keys[i] for i in part] for split, part in members.items()}
    ):
        notes.append(f"{counted(count, 'text')} of {later} {'are' if count > 1 else 'is'} in {earlier} as well")
    limits = {split: getattr(p, f"num_{split}") or None for split in SPLITS}
    return PlainTexts({split: [texts[i][1] for i in part[: limits[split]]] for split, part in members.items()}, notes)


class _Place:
    """The parameters with which the tables of a place are found."""

    def __init__(self, corpus: str, p: Any):
        self.corpus, self.label = corpus, ""
        self.text, self.tokeniser, self.skip_incomplete = p.text, p.tokeniser, p.skip_incomplete


def _parts(place: _Place) -> tuple[list[tuple[str, list[str]]], list[str]]:
    """The texts of each table, and notes about what is left out."""
    if is_eraser(Path(place.corpus)):
        accepted = "accepted: a file, a folder of files, or a data set on the hub"
        raise BadInput(f"{shown(place.corpus)}: a folder in ERASER's format, whose texts are documents; {accepted}")
    tables, notes = tables_of(place)
    found = []
    for split, table in tables:
        texts, skipped = _texts(table, place)
        if not texts:
            raise BadInput(f"{table.place}: no text in it; accepted: at least one row below the column names")
        notes += [f"{counted(skipped, 'row')} of {table.place} without a text left out"] * bool(skipped)
        found.append((split, texts))
    return found, notes


def _texts(table: Table, place: _Place) -> tuple[list[str], int]:
    """The texts of a table, and how many rows are left out because they have none."""
    texts, bad, skipped, split = list[str](), list[tuple[int, str]](), 0, TOKENISERS[place.tokeniser]
    for number, (cell,) in each(f"reading {table.place}", table.rows({"text": place.text})):
        if place.skip_incomplete and is_missing(cell):
            skipped += 1
            continue
        try:
            tokens = read_tokens(cell, place.text, split)
        except ValueError as error:
            bad.append((number, str(error)))
            if len(bad) == MOST_BAD:
                break
            continue
        texts.append(cell if isinstance(cell, str) else " ".join(tokens))
    refuse_rows(table, bad)
    return texts, skipped


def _listed(texts: Iterable[Any]) -> Iterable[str]:
    """The texts of a list; each has to hold a word."""
    for number, text in enumerate(texts, start=1):
        try:
            read_tokens(text if isinstance(text, str) else None, "text", str.split)
        except ValueError:
            what = "empty" if isinstance(text, str) else "no text"
            raise BadInput(f"text {number}: {what}; accepted: texts that hold a word") from None
        yield text
