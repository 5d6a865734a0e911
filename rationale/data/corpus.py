"""What a corpus is: its readers and its facts in one record, so no code outside `data/corpora` names a corpus."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from typing import Any, TypeVar

from rationale.data.archives import Archive
from rationale.data.tokenise import TOKENISERS
from rationale.parts import Table

Item = TypeVar("Item")
TASKS = ("extraction", "alignment", "generation", "probing")
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Request:
    """What a run requests from a reader; a reader uses the parts that apply to its corpus.

    Parameters
    ----------
    limits : {"train", "dev", "test"} -> int >= 0
        Number of examples that the run uses; 0: all. A reader may return more, of which the first are used; a reader
        that makes texts up makes up this many.
    aspect : one of the corpus's `aspects`
    correlation : float in [0, 1]
        Correlation of the scores of made-up texts.
    language : one of the corpus's `languages`
    fold : one of the corpus's `folds`, or None
        The fold that is the test split; None: the usual split.
    seed : int
        Seed of texts that are made up for every run.
    """

    limits: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    aspect: str = ""
    correlation: float = 0.0
    language: str = ""
    fold: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Corpus:
    """A corpus: one file of `data/corpora`, which ends with `CORPUS = Corpus(...)`.

    Parameters
    ----------
    name : str
        That of its file.
    what : str
        Description in one line.
    read : task -> function of a `Request`
        The result of the function depends on the task:

        extraction, alignment
            {"train", "dev", "test"} -> list of Example; for alignment, with the hypothesis as `second`, and with
            `pairs.NULL` as the first word of both sides
        generation
            `targets.Targets`, with the target text as `second`, and `targets.END` as its last word
        probing
            {"train", "dev", "test"} -> list of Example, or of `example.Question` where `spans` is True
    labels : tuple of str
        Names of the classes, by number. (): texts have scores, or spans, or target texts.
    aspects : tuple of str
        Aspects that texts are rated for; a run predicts one of them. "all" means all of `scores` at once.
    scores : tuple of str
        Names of the scores of "all", in the order of `Example.label`.
    tokeniser : key of `tokenise.TOKENISERS`
        Splits new text in the same way as the texts of the corpus.
    archive : Archive or None
        None: the texts are made up, or are in files of your own.
    made_up : split -> int >= 1
        Sizes of a made-up corpus if a run requests 0 examples.
    languages : tuple of str
        Source languages of translation; (): the corpus is not for translation.
    folds : tuple of int
        The folds that may be the test split; (): the corpus has one split.
    marked_by : name of a corpus, or ""
        Its test texts are of the same kind, and people have marked words in them for some of the same aspects.
    metric : name of a function of `rationale.metrics`, or ""
        Compares generated texts with the references.
    spans : bool
        Whether answers are spans of a paragraph instead of classes.
    alphabet : tuple of str
        All symbols of texts that are not made of words and that no transformer reads; (): texts of words.
    exact : bool
        Whether the gold rationale is known to be all that matters, because the texts are made up that way.

    Raises
    ------
    ValueError
        An unknown task or tokeniser, or one name where a tuple of names is accepted.
    """

    name: str
    what: str
    read: Mapping[str, Callable[[Request], Any]] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    tokeniser: str = "treebank"
    archive: Archive | None = None
    made_up: Mapping[str, int] = field(default_factory=dict)
    languages: tuple[str, ...] = ()
    folds: tuple[int, ...] = ()
    marked_by: str = ""
    metric: str = ""
    spans: bool = False
    alphabet: tuple[str, ...] = ()
    exact: bool = False

    def __post_init__(self):
        for what in ("labels", "aspects", "scores"):
            if isinstance(given := getattr(self, what), str):
                raise ValueError(f"{self.name}: {what}: got {given!r}, accepted is a tuple, as in ({given!r},)")
        for what, given, accepted in (("read", self.read, TASKS), ("tokeniser", [self.tokeniser], TOKENISERS)):
            for name in given:
                if name not in accepted:
                    raise ValueError(f"{self.name}: {what}: {name!r} is unknown; accepted: {', '.join(accepted)}")

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks that the corpus can be used for, in the order of `TASKS`; () for an archive that no task reads."""
        return tuple(task for task in TASKS if task in self.read)

    def outputs(self, aspect: str = "") -> tuple[str, ...]:
        """Names of the outputs: the classes, the scores of "all", or the single score for `aspect`."""
        return self.labels or (self.scores if aspect == "all" else (aspect,))


OWN_CORPORA: Table[Corpus] = Table("corpus", lambda part: isinstance(part, Corpus))  # beside the files of `corpora`


def in_turn(items: Iterable[Item], class_of: Callable[[Item], Any] = attrgetter("label")) -> list[Item]:
    """The items, alternating between classes, each class in its own order: the first ones cover all classes.

    `class_of` gives the class of an item, by default that of an `Example`.

    Examples
    --------
    >>> in_turn(["b1", "b2", "a1", "b3", "a2"], lambda item: item[0])
    ['a1', 'b1', 'a2', 'b2', 'b3']
    """
    of_class: dict[Any, list[Item]] = defaultdict(list)
    for item in items:
        of_class[class_of(item)].append(item)
    turns = zip_longest(*(of_class[label] for label in sorted(of_class)))
    return [item for turn in turns for item in turn if item is not None]
