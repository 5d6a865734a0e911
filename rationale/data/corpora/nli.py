"""Pairs of sentences with a label: the official SNLI files, and `nli_small`, a small collection with SNLI's test set.

Source: Bowman et al. 2015 (SNLI). One JSON object a line: `sentence1` (premise), `sentence2` (hypothesis) and
`gold_label`; the official files also hold both sentences as bracketed trees, whose leaves are the tokens.
"""

import json
from collections.abc import Sequence
from hashlib import md5
from pathlib import Path

import torch
from torch import Tensor

from rationale.data.archives import find, missing
from rationale.data.batches import Vocabulary
from rationale.data.example import Example, folder
from rationale.data.files import intact, open_text
from rationale.data.vectors import read_vectors
from rationale.errors import BadInput

LABELS = ("entailment", "contradiction", "neutral")
SPLITS = ("train", "dev", "test")
NULL = "@@NULL@@"  # stands first in every sentence; what aligns with nothing aligns with it
FILES = {"snli": "snli_1.0_{}.jsonl", "nli_small": "{}.jsonl.xz"}
NUM_UNKNOWN = 100  # rows that words without a vector share


def read_nli(corpus: str = "nli_small", path: Path | str | None = None, null: bool = True) -> dict[str, list[Example]]:
    """The pairs of a corpus; those without a gold label (`-`) are dropped, case is kept.

    Parameters
    ----------
    corpus : "snli" or "nli_small"
    path : Path, str or None
        Folder of the three files; None: that of the corpus in the data folder.
    null : bool
        Put `NULL` before both sentences, as Bastings et al. do; it counts as a word in every rate.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `tokens` the premise, `second` the hypothesis, `label` an index of `LABELS`.

    Raises
    ------
    BadInput
        A file is missing, or a line is malformed: file and line are named.
    """
    if corpus not in FILES:
        raise BadInput(f"corpus: {corpus!r} is unknown; accepted: {', '.join(FILES)}")
    place, splits = Path(path) if path is not None else folder() / corpus, {}
    for split in SPLITS:
        file = place / FILES[corpus].format(split)
        if not file.exists():
            raise missing(find(corpus), place, file.name)
        with intact(file), open_text(file) as lines:
            pairs = (parse_pair(line, f"{file}:{number}", null) for number, line in enumerate(lines, 1))
            splits[split] = [pair for pair in pairs if pair is not None]
    return splits


def parse_pair(line: str, where: str = "", null: bool = True) -> Example | None:
    """One line of a file; None if the annotators did not agree on a label.

    Raises
    ------
    BadInput
        `where`: not JSON, no label, or an empty sentence.
    """
    try:
        pair = json.loads(line)
        label = pair["gold_label"]
        sides = [_leaves(pair[f"sentence{i}_binary_parse"]) if f"sentence{i}_binary_parse" in pair else
                 pair[f"sentence{i}"].split() for i in (1, 2)]  # fmt: skip
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        wanted = "a JSON object with sentence1, sentence2 and gold_label"
        raise BadInput(f"{where}: {type(error).__name__} {error}; accepted is {wanted}") from None
    if label == "-":
        return None
    if label not in LABELS:
        raise BadInput(f"{where}: gold_label {label!r}; accepted: {', '.join(LABELS)}, or - for none")
    if not all(sides):
        raise BadInput(f"{where}: an empty sentence; accepted: at least one word in each")
    premise, hypothesis = (tuple([NULL] * null + words) for words in sides)
    return Example(premise, LABELS.index(label), second=hypothesis)


def _leaves(tree: str) -> list[str]:
    return [word for word in tree.split() if word not in ("(", ")")]


def build_pair_vocabulary(
    splits: dict[str, Sequence[Example]], vectors: str, dim: int = 300, seed: int = 0
) -> tuple[Vocabulary, Tensor]:
    """All words of the pairs and their vectors, every one of length 1.

    A word without a vector shares one of 100 random rows, chosen by the md5 of its letters; `NULL` has one of its own.
    Source: Bastings et al. 2019, app. A; Parikh et al. 2016.

    Parameters
    ----------
    splits : split name -> pairs
    vectors : str
        See `vectors.build_vocabulary`.
    dim : int >= 1
        Size of random vectors.
    seed : int

    Returns
    -------
    Vocabulary, float [V, E]
        The row of padding is zeros.
    """
    sentences = (side for part in splits.values() for pair in part for side in (pair.tokens, pair.second))
    words = sorted({word for sentence in sentences for word in sentence})
    if vectors == "random":
        generator = torch.Generator().manual_seed(seed + 1)
        found, rows = words, torch.randn(len(words), dim, generator=generator)
    else:
        found, rows = read_vectors(vectors, words)
    generator = torch.Generator().manual_seed(seed)
    unknown = torch.randn(NUM_UNKNOWN + 1, rows.shape[1], generator=generator)  # the last one is NULL's
    known = dict(zip(found, rows, strict=True))
    vocabulary = Vocabulary(words)
    table = torch.stack(
        [unknown[0], torch.zeros(rows.shape[1])]
        + [known[word] if word in known else unknown[NUM_UNKNOWN if word == NULL else hashed(word)] for word in words]
    )
    return vocabulary, torch.nn.functional.normalize(table, dim=1)


def hashed(word: str) -> int:
    """Which of the shared rows an unknown word has, in 0 .. 99."""
    return int(md5(word.encode()).hexdigest(), 16) % NUM_UNKNOWN
