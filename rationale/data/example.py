"""One example of a corpus, and where the data folder is."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from rationale.settings import Settings, setting


class SplitSettings(Settings):
    """How many examples of each split are used."""

    num_train: int = setting(0, "training examples to use; 0 = all of them", "[0, inf)")
    num_dev: int = setting(0, "development examples to use; 0 = all of them", "[0, inf)")
    num_test: int = setting(0, "test examples to use; 0 = all of them", "[0, inf)")


@dataclass(frozen=True)
class Example:
    """One text with its label and whatever people annotated in it.

    Parameters
    ----------
    tokens : tuple of str, length T >= 1
    label : int or tuple of float
        A class index, or K scores in [0, 1].
    rationale : tuple of bool, length T, or None
        Gold rationale: True where the word belongs to it. None: nobody annotated this text;
        all False: somebody did, and found nothing.
    word_labels : tuple of int, length T, or None
        Label of each word by itself (SST: 0 very negative .. 4 very positive).
    phrases : tuple of (start, end, label), or None
        Label of each phrase, tokens [start, end). SST: every node of the tree, the whole sentence first.
    second : tuple of str, or None
        The second text, where there is one: the hypothesis of a premise, the target of a source, a query about
        `tokens`.
    """

    tokens: tuple[str, ...]
    label: int | tuple[float, ...]
    rationale: tuple[bool, ...] | None = None
    word_labels: tuple[int, ...] | None = None
    phrases: tuple[tuple[int, int, int], ...] | None = None
    second: tuple[str, ...] | None = None


def data_folder() -> Path:
    """The folder of the data: `RATIONALE_DATA` if it is set, else this user's cache folder.

    Returns
    -------
    Path
        Not created, not checked: a reader says what is missing in it.
    """
    chosen = os.environ.get("RATIONALE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    import pooch

    return Path(pooch.os_cache("rationale"))


class Question(NamedTuple):
    """A question, the paragraph it is about, and where its answers are."""

    id: str
    title: str  # of the article
    context: str
    question: str
    answers: tuple[tuple[int, str], ...]  # (first character, text), the first is the one to train on
