"""Read the corpus that the settings of a run name; the differences between corpora are in their files."""

from typing import NamedTuple, Protocol

from rationale.data.corpora import corpus_names, find_corpus
from rationale.data.corpus import Corpus, Request
from rationale.data.example import Example, Question
from rationale.data.targets import Targets
from rationale.errors import BadInput


class ReadSettings(Protocol):
    """The settings of a run that reads a corpus; aspect, correlation, language and seed are used if it has them.

    Attributes
    ----------
    corpus : str
        Its name.
    num_train, num_dev, num_test : int >= 0
        How many examples are used; 0: all.
    """

    @property
    def corpus(self) -> str: ...

    @property
    def num_train(self) -> int: ...

    @property
    def num_dev(self) -> int: ...

    @property
    def num_test(self) -> int: ...


class Labelled(NamedTuple):
    """Texts with labels, ready for training."""

    splits: dict[str, list[Example]]
    head: str  # "scores" or "classes"
    num_outputs: int
    labels: list[str] | None  # names of the classes


def read_extraction(p: ReadSettings) -> Labelled:
    """Read (or make up) the texts of a run that selects words.

    Parameters
    ----------
    p : parameters
        Uses corpus, num_train, num_dev, num_test (the first examples of a split; 0: all of them, or the default
        number of made-up ones), and, if texts are rated for aspects: aspect, correlation.

    Raises
    ------
    BadInput
        A corpus that is not for this task, an aspect that its texts are not rated for, or a split without examples;
        also the errors of the readers.
    """
    corpus, aspect = _corpus_for("extraction", p), vars(p).get("aspect", "")
    if corpus.aspects and aspect not in corpus.aspects:
        raise BadInput(f"aspect: {aspect!r} is unknown; accepted: {', '.join(corpus.aspects)}")
    splits = _first(corpus.read["extraction"](_request(corpus, p)), p)
    for name, part in splits.items():
        if not part:
            raise BadInput(f"corpus: {p.corpus} has no {name} review rated for {aspect}; at least one is needed")
    head = "classes" if corpus.labels else "scores"
    return Labelled(splits, head, len(corpus.outputs(aspect)), list(corpus.labels) or None)


def read_alignment(p: ReadSettings) -> Labelled:
    """Read the pairs of sentences of a run: corpus, num_train, num_dev, num_test as in `read_extraction`."""
    corpus = _corpus_for("alignment", p)
    splits = _first(corpus.read["alignment"](_request(corpus, p)), p)
    return Labelled(splits, "classes", len(corpus.labels), list(corpus.labels))


def read_generation(p: ReadSettings) -> Targets:
    """Read texts with target texts: corpus, num_train, num_dev, num_test, and language if there are several."""
    corpus = _corpus_for("generation", p)
    targets = corpus.read["generation"](_request(corpus, p))
    return Targets(_first(targets.splits, p), _first(targets.references, p))


def read_probing(p: ReadSettings) -> dict[str, list[Example]] | dict[str, list[Question]]:
    """Read (or make up, from `seed`) the texts for a model that is probed; a corpus that is read is returned whole.

    The caller applies the limits, and may first drop texts that are too long.
    """
    corpus = _corpus_for("probing", p)
    return corpus.read["probing"](_request(corpus, p))


def limits(p: ReadSettings) -> dict[str, int]:
    """Number of examples of each split that a run uses; 0: all."""
    return {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}


def _corpus_for(task: str, p: ReadSettings) -> Corpus:
    corpus = find_corpus(p.corpus)
    if task not in corpus.tasks:
        raise BadInput(f"corpus: {p.corpus} is not for {task}; accepted: {', '.join(corpus_names(task))}")
    return corpus


def _request(corpus: Corpus, p: ReadSettings) -> Request:
    given = {name: vars(p)[name] for name in ("aspect", "correlation", "language", "seed") if name in vars(p)}
    sizes = {split: number or corpus.made_up.get(split, 0) for split, number in limits(p).items()}
    return Request(sizes, **given)


def _first(splits: dict[str, list], p: ReadSettings) -> dict[str, list]:
    used = limits(p)
    return {name: part[: used[name] or None] for name, part in splits.items()}
