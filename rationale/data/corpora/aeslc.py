"""AESLC: e-mails with their subject lines.

Source: Zhang and Tetreault 2019. Texts are lower-cased and split by `tokenise.split_words`; ROUGE splits and stems
words in its own way.
"""

import re
from collections import Counter
from pathlib import Path

from rationale.data.archives import Archive, locate
from rationale.data.corpus import Corpus
from rationale.data.example import Example, filled
from rationale.data.files import count_differences, decoded, members, only_file, readable
from rationale.data.targets import END, Targets
from rationale.data.tokenise import split_words
from rationale.errors import BadInput


def read_mails(path: Path | str | None = None, max_tokens: int = 120, max_subject: int = 12) -> Targets:
    """The beginning of an e-mail and its subject line; the annotators' subjects are references in dev and test.

    Parameters
    ----------
    path : Path, str or None
        The archive or its folder.
    max_tokens : int >= 1
        Number of words of the body that are read.
    max_subject : int >= 1
        Training subjects are cut after this many words; references are not cut.

    Raises
    ------
    BadInput
        The archive is missing, or a mail has no body or no subject (file named).
    """
    splits: dict[str, list[Example]] = {"train": [], "dev": [], "test": []}
    references: dict[str, list[list[str]]] = {"dev": [], "test": []}
    place = locate(ARCHIVE, path, "*.subject")
    mails = {name: read() for name, read in members(place) if name.endswith(".subject")}
    for name in sorted(mails):
        split = Path(name).parent.name
        if split not in splits:
            raise BadInput(f"{place}:{name}: in a folder {split!r}; accepted: {', '.join(splits)}")
        body, subjects = parse_mail(decoded(mails[name], f"{place}:{name}"), f"{place}:{name}", max_tokens)
        target = subjects[0][:max_subject] if split == "train" else subjects[0]
        splits[split].append(Example(tuple(body), 0, second=(*target, END)))
        if split != "train":
            references[split].append([" ".join(subject) for subject in subjects])
    return Targets(filled(splits, place), references)


def parse_mail(text: str, where: str = "", max_tokens: int = 120) -> tuple[list[str], list[list[str]]]:
    """The first words of a mail, and its subject lines: the sender's, then the annotators'.

    Raises
    ------
    BadInput
        The mail, named by `where`, has no body or no subject.
    """
    body, *parts = re.split(r"\n@(?:subject|ann\d+)[ \t\r]*(?=\n)", f"\n{text}")  # other lines may begin with @ too
    subjects = [split_words(part) for part in parts]
    words = split_words(body, max_tokens)
    if not words or not subjects or not subjects[0]:
        raise BadInput(f"{where}: no body or no subject; accepted: a text, then a line @subject and the subject")
    return words, [subject for subject in subjects if subject]


@readable
def check_aeslc(root: Path) -> list[str]:
    """AESLC: the number of mails of each split."""
    counts = Counter(
        Path(name).parent.name
        for name, _ in members(only_file(root, "aeslc/*enron_subject_line*"))
        if name.endswith(".subject")
    )
    return count_differences(counts, {"train": 14436, "dev": 1960, "test": 1906})


ARCHIVE = Archive(
    name="aeslc",
    what="e-mails with their subject lines (Zhang and Tetreault 2019)",
    page="https://github.com/ryanzhumich/AESLC",
    terms="CC BY-NC-SA 4.0",
    places=(("aeslc/enron_subject_line.tar.xz",),),
    counts="14,436 / 1,960 / 1,906 e-mails",
    check=check_aeslc,
    by_hand=(
        "it is a repository of small files; pack the folder enron_subject_line of "
        "https://github.com/ryanzhumich/AESLC as aeslc/enron_subject_line.tar.xz of the data folder"
    ),
)
CORPUS = Corpus(
    name="aeslc",
    what="e-mails with their subject lines",
    read={"generation": lambda _: read_mails()},
    tokeniser="words",
    archive=ARCHIVE,
    metric="rouge",
)
