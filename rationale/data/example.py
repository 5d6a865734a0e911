"""One example of a corpus, and where the data folder is."""

import os
import sys
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
    """One text with its label and its annotations.

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
    """

    tokens: tuple[str, ...]
    label: int | tuple[float, ...]
    rationale: tuple[bool, ...] | None = None
    word_labels: tuple[int, ...] | None = None
    phrases: tuple[tuple[int, int, int], ...] | None = None
    second: tuple[str, ...] | None = None


def data_folder() -> Path:
    """The data folder: `RATIONALE_DATA` if it is set, else this user's cache folder.

    Returns
    -------
    Path
        The folder is neither created nor checked: a reader reports missing files.
    """
    chosen = os.environ.get("RATIONALE_DATA")
    return Path(chosen).expanduser() if chosen else _cache_folder()


def _cache_folder() -> Path:
    """The folder in which this user's programs keep what can be fetched again: `pooch.os_cache("rationale")`."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
        return Path(local) / "rationale" / "rationale" / "Cache"
    chosen = os.environ.get("XDG_CACHE_HOME", "").strip()
    usual = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(chosen) if os.path.isabs(chosen) else usual) / "rationale"


class Question(NamedTuple):
    """A question, the paragraph it is about, and where its answers are."""

    id: str
    title: str  # of the article
    context: str
    question: str
    answers: tuple[tuple[int, str], ...]  # (first character, text); the first answer is used in training
