"""The Stanford Sentiment Treebank: sentences, and a sentiment from 0 to 4 for every word and phrase.

Source: Socher et al. 2013; the official files train.txt, dev.txt, test.txt, one tree per line:
`(3 (2 It) (4 (2 's) (4 (3 lovely) (2 .))))`.
"""

import zipfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from rationale.data import parsed
from rationale.data.archives import Archive, Download
from rationale.data.corpus import SPLITS, Corpus, Request
from rationale.data.example import Example, data_folder
from rationale.data.files import DAMAGE, decoded, intact, read_text, readable, recorded
from rationale.errors import BadInput, excerpt, typed

LABELS = ("very negative", "negative", "neutral", "positive", "very positive")

# Contents of the official files: sentences by label 0..4, and words by their own label 0..4.
EXPECTED_LABELS = {
    "train": (1092, 2218, 1624, 2322, 1288),
    "dev": (139, 289, 229, 279, 165),
    "test": (279, 633, 389, 510, 399),
}
EXPECTED_WORD_LABELS = {
    "train": (1130, 7795, 140415, 11524, 2699),
    "dev": (146, 992, 18231, 1511, 394),
    "test": (306, 2007, 36325, 3059, 708),
}
OFFICIAL_URL = "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip"


def read_sst(path: Path | str | None = None) -> dict[str, list[Example]]:
    """All three splits, words in their own case, backslash escapes (`1\\/2`) removed.

    Source: Socher et al. 2013.

    Parameters
    ----------
    path : Path, str or None
        Folder with train.txt, dev.txt and test.txt, or with the official archive or its folder `trees`,
        or this archive itself. None: `sst` in the data folder.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` and `word_labels` are in 0..4, `phrases` has every node of the tree, the root first.

    Raises
    ------
    BadInput
        A file is missing, a tree is malformed (file and line are named), or train.txt also holds the dev
        trees.
    """
    trees = _trees_folder(Path(path) if path is not None else data_folder() / "sst")
    splits = {split: list(_read_trees(trees, f"{split}.txt")) for split in SPLITS}
    _refuse_dev_in_train(splits, trees)
    return splits


def cached_sst() -> dict[str, Sequence[Example]]:
    """The same as `read_sst`, from the data folder; from the cache if the same files have been read before."""
    return parsed.read(CORPUS, "extraction", Request())


def parse_tree(line: str) -> Example:
    """One tree, parsed in one pass from left to right (without recursion, so any depth is possible).

    Split at single spaces, a tree is a sequence of openings `(d` and of words with their closings `film))`.

    Raises
    ------
    ValueError
        The message says what is wrong and what is accepted; `read_sst` adds file and line.
    """
    tokens: list[str] = []
    word_labels: list[int] = []
    starts: list[int] = []  # of the nodes, in the order in which they open; also ends and labels
    ends: list[int] = []
    labels: list[int] = []
    open_nodes: list[int] = []
    opened = False  # the piece before this one was an opening: a word may follow
    if not line.strip():
        raise ValueError("empty line; accepted: one tree per line")
    for piece in line.strip(" ").replace("\\", "").split(" "):  # not at other spaces: '2\u00a01/2' is one word
        if labels and not open_nodes:
            raise ValueError(f"{excerpt(piece)} after the end of the tree; accepted: one tree per line")
        if piece[:1] == "(":
            if piece[1:] not in _NUMBERS:
                raise ValueError(f"{excerpt(piece)} opens no node; accepted: '(', a label from 0 to 4, a space")
            open_nodes.append(len(labels))
            labels.append(_NUMBERS[piece[1:]])
            starts.append(len(tokens))
            ends.append(0)
            opened = True
            continue
        word = piece.rstrip(")")
        closings = len(piece) - len(word)
        if not opened or not closings or not word or "(" in word or ")" in word:
            raise ValueError(f"{excerpt(piece)} is no leaf; accepted: one word after its label, as in '(3 film)'")
        if closings > len(open_nodes):
            extra = closings - len(open_nodes)
            raise ValueError(f"{extra} ')' too many after {excerpt(word)}; accepted: one for every '('")
        tokens.append(word)
        word_labels.append(labels[-1])
        for _ in range(closings):
            ends[open_nodes.pop()] = len(tokens)
        opened = False
    if open_nodes:
        raise ValueError(f"{len(open_nodes)} '(' never closed; accepted: one ')' for every '('")
    phrases = tuple(map(_node, starts, ends, labels))
    return Example(tuple(tokens), labels[0], word_labels=tuple(word_labels), phrases=phrases)


def differences(splits: dict[str, list[Example]]) -> list[str]:
    """Differences from the official trees in number and labels, one line each; [] if there are none."""
    lines = []
    for split in SPLITS:
        sentences = _histogram(example.label for example in splits[split])
        words = _histogram(label for example in splits[split] for label in example.word_labels or ())
        for what, counts, official in [
            ("sentences", sentences, EXPECTED_LABELS[split]),
            ("words", words, EXPECTED_WORD_LABELS[split]),
        ]:
            if counts != official:
                lines.append(f"{split}: {what} by label {counts}; the official file has {official}")
    return lines


@lru_cache(maxsize=1 << 16)
def _node(start: int, end: int, label: int) -> tuple[int, int, int]:
    """One node of a tree; equal nodes of different trees are the same tuple, which saves half of the memory."""
    return start, end, label


_NUMBERS = {str(label): label for label in range(len(LABELS))}


def _trees_folder(path: Path) -> Path:
    """The place of the three files: `path`, its folder `trees`, or the official archive (read without unpacking)."""
    archive = path if path.suffix == ".zip" else path / Path(OFFICIAL_URL).name
    for folder in (path, path / "trees"):
        if all((folder / f"{split}.txt").is_file() for split in SPLITS):
            return folder
    if archive.is_file():
        return archive
    raise BadInput(
        f"{path}: no train.txt, dev.txt and test.txt of the Stanford Sentiment Treebank; set RATIONALE_DATA "
        f"to the folder that holds sst/, or run `{typed('rationale.data fetch sst')}`"
    )


def _read_trees(place: Path, name: str) -> Iterator[Example]:
    """The trees of one file of a folder, or of the folder `trees` of the official archive."""
    if place.is_dir():
        file, text = f"{place / name}", read_text(place / name)
    else:
        file = f"{place}/trees/{name}"
        with intact(place, DAMAGE), zipfile.ZipFile(recorded(place)) as archive:
            text = decoded(archive.read(f"trees/{name}"), file)
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        try:
            yield parse_tree(line.removesuffix("\r"))
        except ValueError as error:
            raise BadInput(f"{file}:{number}: {error}") from None


def _refuse_dev_in_train(splits: dict[str, list[Example]], trees: Path) -> None:
    """A well-known copy of the treebank has all dev trees at the end of train.txt."""
    official, dev = sum(EXPECTED_LABELS["train"]), splits["dev"]
    if len(splits["train"]) == official + len(dev) and splits["train"][official:] == dev:
        raise BadInput(
            f"{trees / 'train.txt'}:{official + 1}: from here on the trees are those of dev.txt (a known "
            f"bad copy); accepted: the official {official} lines, from {OFFICIAL_URL}"
        )


def _histogram(labels) -> tuple[int, ...]:
    labels = list(labels)
    return tuple(labels.count(label) for label in range(len(LABELS)))


@readable
def check_sst(root: Path) -> list[str]:
    """SST: sentences, labels and words of each split, compared with the published counts."""
    return differences(read_sst(root / "sst"))


ARCHIVE = Archive(
    name="sst",
    what="Stanford Sentiment Treebank: sentences with a sentiment for every phrase (Socher et al. 2013)",
    page=OFFICIAL_URL,
    terms="research",
    places=(("sst/train.txt", "sst/dev.txt", "sst/test.txt"), ("sst/trainDevTestTrees_PTB.zip",)),
    counts="8544 / 1101 / 2210 trees, labels of sentences and of words",
    check=check_sst,
    sha256={
        "sst/train.txt": "e2f3f41b0b1e6d4dddc0effe3bfc2d27ed8928079aa9a03d652311614fc5feb7",
        "sst/dev.txt": "0e9336aed6e4730e19f58d00a77b3f0297efdb755f7b5e598c98a05e3f97ea40",
        "sst/test.txt": "6e54806dee95cf80cd918e7dfb3f6770f6df24bf826f289a4d1f709e1c8f6761",
    },
    downloads=(
        Download(
            OFFICIAL_URL,
            "sst/trainDevTestTrees_PTB.zip",
            sha256="5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
            members=tuple((f"trees/{split}.txt", f"sst/{split}.txt") for split in ("train", "dev", "test")),
        ),
    ),
)
CORPUS = Corpus(
    name="sst",
    what="sentences with a sentiment from 0 to 4, and one for every word and phrase",
    read={"extraction": lambda _: read_sst(), "probing": lambda _: read_sst()},
    labels=LABELS,
    archive=ARCHIVE,
)
