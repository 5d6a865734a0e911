"""What a corpus is: its readers and its facts in one record, so that nothing outside `data/corpora` asks for a name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rationale.data.archives import Archive
from rationale.data.example import Example
from rationale.data.tokenise import TOKENISERS

TASKS = ("extraction", "alignment", "generation", "probing")
SPLITS = ("train", "dev", "test")


@dataclass(frozen=True)
class Request:
    """What a run asks of a reader; a reader uses the parts that concern its corpus.

    Parameters
    ----------
    limits : {"train", "dev", "test"} -> int >= 0
        Examples that the run uses; 0: all. A reader may give more (the first ones are taken), and makes up so many
        where it makes texts up.
    aspect : one of the corpus's `aspects`
    correlation : float in [0, 1]
        Of the scores of made-up texts.
    language : one of the corpus's `languages`
    seed : int
        Of texts that are made up anew for every run.
    """

    limits: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    aspect: str = ""
    correlation: float = 0.0
    language: str = ""
    seed: int = 0


@dataclass(frozen=True)
class Corpus:
    """A corpus: one file of `data/corpora`, which ends with `CORPUS = Corpus(...)`.

    Parameters
    ----------
    name : str
        That of its file.
    what : str
        One line.
    read : task -> function of a `Request`
        What the function returns depends on the task:

        extraction, alignment
            {"train", "dev", "test"} -> list of Example; of pairs with the hypothesis as `second`
        generation
            `targets.Targets`, with the target text as `second`
        probing
            {"train", "dev", "test"} -> list of Example, or of `example.Question` where `spans` is True
    labels : tuple of str
        Names of the classes, by number. (): texts have scores, or spans, or target texts.
    aspects : tuple of str
        What texts are rated for, one of which a run predicts; "all" among them: all of `scores` at once.
    scores : tuple of str
        Names of the scores of "all", in the order of `Example.label`.
    tokeniser : key of `tokenise.TOKENISERS`
        Splits new text as the texts of the corpus are split.
    archive : Archive or None
        None: the texts are made up.
    made_up : split -> int >= 1
        Sizes of a made-up corpus where a run asks for 0 examples.
    languages : tuple of str
        What can be translated; (): nothing is.
    metric : name of a function of `rationale.metrics`, or ""
        Compares what is generated with the references.
    spans : bool
        Answers are spans of a paragraph, not classes.
    alphabet : tuple of str
        All symbols of texts that no transformer reads; (): texts of words.
    exact : bool
        The gold rationale is known to be all that can matter, because the texts are made up that way.

    Raises
    ------
    ValueError
        An unknown task or tokeniser.
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
    metric: str = ""
    spans: bool = False
    alphabet: tuple[str, ...] = ()
    exact: bool = False

    def __post_init__(self):
        for what, given, accepted in (("read", self.read, TASKS), ("tokeniser", [self.tokeniser], TOKENISERS)):
            for name in given:
                if name not in accepted:
                    raise ValueError(f"{self.name}: {what}: {name!r} is unknown; accepted: {', '.join(accepted)}")

    @property
    def tasks(self) -> tuple[str, ...]:
        """What it can be used for, in the order of `TASKS`; () of an archive that no task reads."""
        return tuple(task for task in TASKS if task in self.read)

    def outputs(self, aspect: str = "") -> tuple[str, ...]:
        """Names of what is predicted: the classes, the scores of "all", or the one score that is about `aspect`."""
        return self.labels or (self.scores if aspect == "all" else (aspect,))


def in_turn(examples: list[Example]) -> list[Example]:
    """The examples of each class in their order, the classes taking turns: so the first ones are of all classes."""
    seen: dict[int | tuple[float, ...], int] = {}
    places = []
    for example in examples:
        places.append((seen.setdefault(example.label, 0), example.label))
        seen[example.label] += 1
    return [example for _, example in sorted(zip(places, examples, strict=True), key=lambda pair: pair[0])]
