"""One example of a corpus, and one question; and the check that every split has some."""

from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import NamedTuple

from rationale.digests import data_folder as data_folder  # so that it is found beside the example
from rationale.errors import BadInput
from rationale.settings import Settings, setting


class SplitSettings(Settings):
    """How many examples of each split are used."""

    num_train: int = setting(0, "training examples to use; 0 = all of them", "[0, inf)")
    num_dev: int = setting(0, "development examples to use; 0 = all of them", "[0, inf)")
    num_test: int = setting(0, "test examples to use; 0 = all of them", "[0, inf)")


@dataclass(frozen=True, slots=True)
class Example:
    """One text with its label and its annotations.

    Each different word is kept once per process, whichever reader it comes from: a text takes 8 bytes per token.

    Parameters
    ----------
    tokens : tuple of str, length T >= 1
    label : int or tuple of float
        A class index, or K scores in [0, 1].
    rationale : tuple of bool, length T, or None
        Gold rationale: True for the words that belong to it. None: nobody annotated this text;
        all False: an annotator marked no word.
    word_labels : tuple of int, length T, or None
        Label of each word on its own (SST: 0 very negative .. 4 very positive).
    phrases : tuple of (start, end, label), or None
        Label of each phrase, tokens [start, end). SST: every node of the tree, the whole sentence first.
    second : tuple of str, or None
        The second text, if there is one: the hypothesis of a premise, the target of a source, a query about
        `tokens`.
    informative : tuple of bool, length T, or None
        A second gold, where texts are made up: True for the words of the gold rationale that carry the label.

    Raises
    ------
    TypeError
        If `tokens` or `second` is one text, whose letters would be its words.
    """

    tokens: tuple[str, ...]
    label: int | tuple[float, ...]
    rationale: tuple[bool, ...] | None = None
    word_labels: tuple[int, ...] | None = None
    phrases: tuple[tuple[int, int, int], ...] | None = None
    second: tuple[str, ...] | None = None
    informative: tuple[bool, ...] | None = None

    def __post_init__(self):
        for name in ("tokens", "second"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name}: got the text {getattr(self, name)[:40]!r}, accepted is a tuple of its words")
        object.__setattr__(self, "tokens", tuple(map(intern, self.tokens)))
        if self.second is not None:
            object.__setattr__(self, "second", tuple(map(intern, self.second)))


def filled(splits: dict[str, list], place: Path | str) -> dict[str, list]:
    """The same splits, each of which holds at least one example.

    Raises
    ------
    BadInput
        A split is empty; the message names `place`, where they were read.
    """
    for name, part in splits.items():
        if not part:
            raise BadInput(f"{place}: no {name} example in it; accepted: at least one in each of {', '.join(splits)}")
    return splits


class Question(NamedTuple):
    """A question, the paragraph it is about, and where its answers are."""

    id: str
    title: str  # of the article
    context: str
    question: str
    answers: tuple[tuple[int, str], ...]  # (first character, text); the first answer is used in training
