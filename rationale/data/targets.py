"""What all corpora with target texts share: the end of a target, the references, the vocabularies."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rationale.data.batches import Vocabulary
from rationale.data.example import Example
from rationale.errors import BadInput

END = "</s>"  # ends every target


class Targets(NamedTuple):
    """Sources with targets, and the references with which generated texts are compared.

    Attributes
    ----------
    splits : {"train", "dev", "test"} -> list of Example
        `tokens` is the source, `second` the target, which ends with `END`.
    references : {"dev", "test"} -> list of list of str
        One or several texts per example.
    """

    splits: Mapping[str, Sequence[Example]]
    references: dict[str, list[list[str]]]


def build_text_vocabularies(train: Sequence[Example], min_count: int = 2) -> tuple[Vocabulary, Vocabulary]:
    """Vocabularies of the sources and of the targets: words that occur at least `min_count` times.

    That of the targets also has `END`, however few the texts are, as a model could not end a target otherwise.

    Raises
    ------
    BadInput
        No word of a side occurs that often.
    """
    sides = ([e.tokens for e in train], [e.second or () for e in train])
    counts = [Counter(word for text in side for word in text) for side in sides]
    often = min(max((n for word, n in count.items() if word != END), default=0) for count in counts)
    if min_count > often:
        raise BadInput(f"min_count: {min_count} leaves no word on one side of the texts; accepted: at most {often}")
    sources, targets = ({word for word, n in count.items() if n >= min_count} for count in counts)
    return Vocabulary(sorted(sources)), Vocabulary(sorted(targets | {END}))
