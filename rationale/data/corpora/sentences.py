"""Texts with a target text: captions in two languages, e-mails with subject lines, sentences with headlines.

Source: Elliott et al. 2016 (Multi30k); Zhang and Tetreault 2019 (AESLC); Rush et al. 2015 (Gigaword, DUC 2004).
Everything is lower-cased and split by `tokenise.split_words`, sources and references alike, but for headlines, which
come split. BLEU is that of these tokens; ROUGE has its own way to split and stem them.
"""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rationale.data.archives import find, locate, missing
from rationale.data.batches import Vocabulary
from rationale.data.example import Example, folder
from rationale.data.files import intact, members, open_text
from rationale.data.tokenise import split_words
from rationale.errors import BadInput

END = "</s>"  # ends every target
LANGUAGES = ("de", "fr", "cs")
CAPTIONS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


class Targets(NamedTuple):
    """Sources with targets, and what the targets of dev and test are compared with."""

    splits: dict[str, list[Example]]  # `tokens` the source, `hypothesis` the target, ended by `END`
    references: dict[str, list[list[str]]]  # "dev", "test": one or several texts an example


def read_captions(language: str = "de", path: Path | str | None = None, max_tokens: int = 60) -> Targets:
    """Multi30k, from a language into English; test is the Flickr test set of 2016.

    Parameters
    ----------
    language : "de", "fr" or "cs"
    path : Path, str or None
        Folder of the .gz files; None: multi30k/task1_raw in the data folder.
    max_tokens : int >= 1
        Longer training captions are left out, of dev and test none.

    Raises
    ------
    BadInput
        A file is missing, or two files have different numbers of lines.
    """
    if language not in LANGUAGES:
        raise BadInput(f"language: {language!r} is unknown; accepted: {', '.join(LANGUAGES)}")
    place = Path(path) if path is not None else folder() / "multi30k" / "task1_raw"
    splits, references = {}, {}
    for split, name in CAPTIONS.items():
        sides = [_lines(place / f"{name}.{code}.gz", place) for code in (language, "en")]
        if len(sides[0]) != len(sides[1]):
            raise BadInput(
                f"{place / name}.*: {len(sides[0])} lines in {language}, {len(sides[1])} in en; accepted: pairs"
            )
        pairs = [tuple(tuple(split_words(line)) for line in pair) for pair in zip(*sides, strict=True)]
        splits[split] = [
            Example(source, 0, hypothesis=(*target, END))
            for source, target in pairs
            if source and target and (split != "train" or max(len(source), len(target)) <= max_tokens)
        ]
        if split != "train":
            references[split] = [[" ".join(target)] for source, target in pairs if source and target]
    return Targets(splits, references)


def _lines(file: Path, place: Path, archive: str = "multi30k") -> list[str]:
    if not file.is_file():
        raise missing(find(archive), place, file.name)
    with intact(file), open_text(file) as text:
        return text.read().splitlines()


HEADLINES = {  # sources and references of each split, in the layout of Rush et al. ("sumdata")
    "train": ("train/train.article.txt", ["train/train.title.txt"]),
    "dev": ("train/valid.article.filter.txt", ["train/valid.title.filter.txt"]),
    "gigaword": ("Giga/input.txt", ["Giga/task1_ref0.txt"]),
    "duc2004": ("DUC2004/input.txt", [f"DUC2004/task1_ref{i}.txt" for i in range(4)]),
}


def read_headlines(test: str = "gigaword", path: Path | str | None = None) -> Targets:
    """Gigaword: the first sentence of a news article and its headline; DUC 2004 as the other test set.

    Parameters
    ----------
    test : "gigaword" or "duc2004"
        The held-out part of Gigaword, one reference each, or the 500 sentences of DUC 2004, four each.
    path : Path, str or None
        Folder with train/, Giga/ and DUC2004/; None: sumdata in the data folder. Files may be packed (.gz).

    Raises
    ------
    BadInput
        A file is missing, two files have different numbers of lines, or a line is empty (file and line named).
    """
    place = Path(path) if path is not None else folder() / "sumdata"
    splits, references = {}, {}
    for split, name in (("train", "train"), ("dev", "dev"), ("test", test)):
        source, targets = HEADLINES[name]
        columns = [_tokens(place, file) for file in (source, *targets)]
        for file, column in zip(targets, columns[1:], strict=True):
            if len(column) != len(columns[0]):
                raise BadInput(
                    f"{place / file}: {len(column)} lines, {source} has {len(columns[0])}; accepted: one line each"
                )
        rows = list(zip(*columns, strict=True))
        splits[split] = [Example(row[0], 0, hypothesis=(*row[1], END)) for row in rows]
        if split != "train":
            references[split] = [[" ".join(target) for target in row[1:]] for row in rows]
    return Targets(splits, references)


def _tokens(place: Path, name: str) -> list[tuple[str, ...]]:
    packed = place / f"{name}.gz"
    lines = _lines(packed if packed.is_file() else place / name, place, "sumdata")
    rows = [tuple(line.lower().split()) for line in lines]
    if () in rows:
        raise BadInput(f"{place / name}:{1 + rows.index(())}: an empty line; accepted: a text a line")
    return rows


def read_mails(path: Path | str | None = None, max_tokens: int = 120, max_subject: int = 12) -> Targets:
    """AESLC: the beginning of an e-mail and its subject line; annotators' subjects are references of dev and test.

    Parameters
    ----------
    path : Path, str or None
        The archive or its folder.
    max_tokens : int >= 1
        Words of the body that are read.
    max_subject : int >= 1
        Training subjects are cut after so many words; references are not.

    Raises
    ------
    BadInput
        The archive is missing, or a mail has no body or no subject (file named).
    """
    splits: dict[str, list[Example]] = {"train": [], "dev": [], "test": []}
    references: dict[str, list[list[str]]] = {"dev": [], "test": []}
    place = locate("aeslc", path, "*.subject")
    mails = {name: read().decode("utf-8", "replace") for name, read in members(place) if name.endswith(".subject")}
    for name in sorted(mails):
        split = Path(name).parent.name
        body, subjects = parse_mail(mails[name], f"{place}:{name}", max_tokens)
        target = subjects[0][:max_subject] if split == "train" else subjects[0]
        splits[split].append(Example(tuple(body), 0, hypothesis=(*target, END)))
        if split != "train":
            references[split].append([" ".join(subject) for subject in subjects])
    return Targets(splits, references)


def parse_mail(text: str, where: str = "", max_tokens: int = 120) -> tuple[list[str], list[list[str]]]:
    """The first words of a mail, and its subject lines: the sender's, then the annotators'.

    Raises
    ------
    BadInput
        `where`: no body or no subject.
    """
    body, *parts = re.split(r"\n@(?:subject|ann\d+)[ \t\r]*\n", f"\n{text}")  # other lines may begin with @ too
    subjects = [split_words(part) for part in parts]
    words = split_words(body, max_tokens)
    if not words or not subjects or not subjects[0]:
        raise BadInput(f"{where}: no body or no subject; accepted: a text, then a line @subject and the subject")
    return words, [subject for subject in subjects if subject]


def build_text_vocabularies(train: Sequence[Example], min_count: int = 2) -> tuple[Vocabulary, Vocabulary]:
    """The words of the sources and of the targets that occur at least so often in train; `END` is among the latter."""
    sides = ([e.tokens for e in train], [e.hypothesis for e in train])
    counts = [Counter(word for text in side for word in text) for side in sides]
    return tuple(Vocabulary(sorted(w for w, n in count.items() if n >= min_count)) for count in counts)
