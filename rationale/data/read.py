"""Read the corpus that the settings of a run name; the differences between corpora are in their files."""

import csv
import io
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rationale.data import parsed
from rationale.data.corpora import corpus_names, find_corpus, names_own
from rationale.data.corpus import Corpus, Request
from rationale.data.example import Example, Question
from rationale.data.own import OwnTexts, read_own, require_texts
from rationale.data.targets import Targets
from rationale.errors import BadInput, require_known
from rationale.files import write_text

AGREEMENT = 0.9  # correlation of the opinions in made-up reviews that are written to a table


class ReadSettings(Protocol):
    """The settings of a run that reads a corpus; aspect, correlation, language, fold and seed are used if it has them.

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

    splits: dict[str, Sequence[Example]]
    head: str  # "scores" or "classes"
    num_outputs: int
    labels: list[str] | None  # names of the classes
    own: OwnTexts | None = None  # more about texts of one's own: their scale, where each one stands, what was noticed


def read_extraction(p: ReadSettings) -> Labelled:
    """Read (or make up) the texts of a run that selects words.

    Parameters
    ----------
    p : parameters
        Uses corpus, num_train, num_dev, num_test (the first examples of a split; 0: all of them, or the default
        number of made-up ones), and, if texts are rated for aspects: aspect, correlation, fold. If the corpus is a file
        or a folder: text, label and the other settings of `data.own`; what is noticed is printed, one line each.

    Raises
    ------
    BadInput
        A corpus that is not for this task, an aspect that its texts are not rated for, or a split without examples;
        also the errors of the readers.
    """
    if _names_own(p):
        return _own(p)
    corpus, aspect = _corpus_for("extraction", p), vars(p).get("aspect", "")
    if corpus.aspects:
        require_known("aspect", aspect, corpus.aspects)
    splits = _first(parsed.read(corpus, "extraction", _request(corpus, p)), p)
    for name, part in splits.items():
        if not part:
            raise BadInput(f"corpus: {p.corpus} has no {name} review rated for {aspect}; at least one is needed")
    head = "classes" if corpus.labels else "scores"
    return Labelled(splits, head, len(corpus.outputs(aspect)), list(corpus.labels) or None)


def read_alignment(p: ReadSettings) -> Labelled:
    """Read the pairs of sentences of a run: corpus, num_train, num_dev, num_test as in `read_extraction`."""
    if _names_own(p):
        return _own(p)
    corpus = _corpus_for("alignment", p)
    splits = _first(parsed.read(corpus, "alignment", _request(corpus, p)), p)
    return Labelled(splits, "classes", len(corpus.labels), list(corpus.labels))


def read_generation(p: ReadSettings) -> Targets:
    """Read texts with target texts: corpus, num_train, num_dev, num_test, and language if there are several."""
    corpus = _corpus_for("generation", p)
    targets = parsed.read(corpus, "generation", _request(corpus, p))
    return Targets(_first(targets.splits, p), _first(targets.references, p))


def read_probing(p: ReadSettings) -> dict[str, Sequence[Example]] | dict[str, Sequence[Question]]:
    """Read (or make up, from `seed`) the texts for a model that is probed; a corpus that is read is returned whole.

    The caller applies the limits, and may first drop texts that are too long.
    """
    corpus = _corpus_for("probing", p)
    return parsed.read(corpus, "probing", _request(corpus, p))


def write_as_table(corpus: str, path: Path, num_texts: int) -> Path:
    """Write texts of a corpus of the package as a CSV file with the columns text, label and rationale.

    Parameters
    ----------
    corpus : str
        Its name; its texts have classes or scores. The label of a score (of the corpus's first aspect) is "good" above
        1/2, else "bad". Made-up reviewers like nearly everything or nearly nothing about their subject, so any opinion
        tells the label, and no words are marked.
    path : Path
    num_texts : int >= 1
        Number of training texts. If there are more, as many are drawn with a fixed seed, because the first ones of a
        corpus may be of one kind.
    """
    found = find_corpus(corpus)
    asked = Request(
        {"train": num_texts, "dev": 1, "test": 1}, aspect=next(iter(found.aspects), ""), correlation=AGREEMENT
    )
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    table.writerow(["text", "label", "rationale"])
    examples = found.read["extraction"](asked)["train"]
    if len(examples) > num_texts:
        examples = [examples[k] for k in sorted(random.Random(1).sample(range(len(examples)), num_texts))]
    for example in examples:
        if isinstance(example.label, int):
            label = found.labels[example.label]
        else:
            label = "good" if example.label[0] > 0.5 else "bad"
        marks = (
            "" if example.rationale is None or found.made_up else " ".join(str(int(flag)) for flag in example.rationale)
        )
        table.writerow([" ".join(example.tokens), label, marks])
    write_text(path, written.getvalue())
    return path


def limits(p: ReadSettings) -> dict[str, int]:
    """Number of examples of each split that a run uses; 0: all."""
    return {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}


def require_own(p: ReadSettings) -> None:
    """Raise `BadInput` at once if the corpus is of one's own and cannot be used; see `own.require_texts`."""
    if _names_own(p):
        require_texts(p)


def _names_own(p: ReadSettings) -> bool:
    """Whether the corpus is a file or a folder of one's own, which settings with columns can name."""
    return names_own(p.corpus) and "text" in vars(p)


def _own(p: ReadSettings) -> Labelled:
    """Texts of one's own, after the notes about them have been printed."""
    texts = read_own(p)
    for note in (*texts.notes, *_more_than_there_are(texts.splits, p)):
        print(f"note: {note}", flush=True)
    splits = _first(texts.splits, p)
    for name, part in splits.items():
        if len(part) < texts.num_outputs:  # the first texts of a split cover all classes, if there are enough
            raise BadInput(f"num_{name}: {len(part)}; accepted: at least {texts.num_outputs}, the number of classes")
    return Labelled(splits, texts.head, texts.num_outputs, texts.labels, texts)


def _more_than_there_are(splits: dict[str, Any], p: ReadSettings) -> Iterator[str]:
    """One note for each split of which more texts are asked for than there are."""
    for name, wanted in limits(p).items():
        if wanted > len(splits[name]):
            yield f"num_{name}: {wanted:,}, but {name} has {len(splits[name]):,} texts; all of them are used"


def _corpus_for(task: str, p: ReadSettings) -> Corpus:
    corpus = find_corpus(p.corpus)
    if task not in corpus.tasks:
        raise BadInput(f"corpus: {p.corpus} is not for {task}; accepted: {', '.join(corpus_names(task))}")
    return corpus


def _request(corpus: Corpus, p: ReadSettings) -> Request:
    given = {name: vars(p)[name] for name in ("aspect", "correlation", "language", "fold", "seed") if name in vars(p)}
    sizes = {split: number or corpus.made_up.get(split, 0) for split, number in limits(p).items()}
    return Request(sizes, **given)


def _first(splits: dict[str, Any], p: ReadSettings) -> dict[str, Any]:
    used = limits(p)
    return {name: part[: used[name] or None] for name, part in splits.items()}
