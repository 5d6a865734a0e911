"""Which words are enough, or needed, for the answer of a classifier of one's own; see `rationale.explain_classifier`.

questions   texts of some of their words  ->  the classifier  ->  rows of probabilities  ->  `explain.enough`
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from numbers import Real
from typing import Any

from rationale.data.characters import token_spans
from rationale.data.tokenise import TOKENISERS
from rationale.errors import BadInput, counted, excerpt
from rationale.explain.enough import Words, accumulate, eliminate, side_by_side
from rationale.progress import bars_unless, each
from rationale.runs.answer import Answer, Answers, named_outputs, passages, to_page, why_no_list, why_no_text

Classifier = Callable[[list[str]], Any]
Tokeniser = Callable[[str], list[str]]
WINDOW = 16  # texts that are explained side by side
SAME = 1e-3  # probabilities of one text may differ by so much when the classifier is asked again
ROUNDING = 1e-6  # of differences of probabilities, which may be float32: 0.9 - 0.85 is at most 0.05
SEARCHES = {"enough": eliminate, "needed": accumulate}
ABOUT = {
    "enough": """Above each text you see the answer of the classifier to the whole text, and its probability in
brackets. If the classifier reads the highlighted words alone, it gives the same answer. You also see two more
probabilities of this answer: when the classifier reads the highlighted words alone, and when it reads only the other
words. If the second of them is high, too, other words of the text are enough as well.""",
    "needed": """Above each text you see the answer of the classifier to the whole text, and its probability in
brackets. Without the highlighted words, another answer leads by at least {margin:g}. It stands behind the first one,
with both probabilities. No highlighted word can be put back alone: with it, the other answer would no longer lead by
so much. Where nothing is highlighted, no such words were found.""",
}
ACCEPTED = (
    "accepted: a row of probabilities for each text, as of `predict_proba` of scikit-learn or of a pipeline of "
    "transformers with top_k=None"
)
OF_TOKENS = (
    "accepted: a function from a text to its words, as they stand there and without leaving out anything but spaces, "
    r"such as re.compile(r'\w+|[^\w\s]').findall"
)
FROM_SCORES = (
    "accepted: probabilities of two or more classes, which add up to 1; make them by a softmax from logits, as "
    "[1 - p, p] from one probability p, or by CalibratedClassifierCV of scikit-learn from a decision_function"
)


@dataclass(frozen=True)
class Explanation(Answer):
    """The answer of a classifier to a text, and words that are enough, or needed, for it.

    Attributes
    ----------
    rationale : tuple of Span
        The passages that are enough, or needed. (): the classifier gives this answer without any word, or no needed
        words were found.
    alone : float in [0, 1], or None
        The probability of `label` if the classifier reads only the rationale; None for a text without words.
    rest_probabilities : class -> float in [0, 1]
        The probabilities if it reads only the other words; empty for a text without words, and if no needed words were
        found.
    tries : int
        How many texts the classifier has read for this explanation.
    words : str
        What was asked: "enough" or "needed".
    margin : float in [0, 1)
        How much the probability may drop, or how far another label has to lead.
    """

    alone: float | None = None
    rest_probabilities: dict[str, float] = field(default_factory=dict)
    tries: int = 0
    words: str = "enough"
    margin: float = 0.0

    def __str__(self) -> str:
        """The answer in one line, and behind it the words: `pos (0.92); 0.97 from these words alone, ...: great`."""
        words = " | ".join(span.text for span in self.rationale)
        return f"{super().__str__()}{words and f': {words}'}"

    @property
    def rest(self) -> float | None:
        """The probability of `label` if the classifier reads only the other words."""
        return self.rest_probabilities.get(self.label) if self.label is not None else None

    @property
    def otherwise(self) -> str | None:
        """The label that the classifier gives if it reads only the other words."""
        return max(self.rest_probabilities, key=self.rest_probabilities.__getitem__, default=None)

    @property
    def sufficiency(self) -> float | None:
        """By how much the probability drops without the other words: near 0, the rationale is enough."""
        return None if self.alone is None else self.probability - self.alone

    @property
    def comprehensiveness(self) -> float | None:
        """By how much the probability drops without the rationale: near 0, the other words are enough, too."""
        return None if self.rest is None else self.probability - self.rest

    def _in_words(self) -> tuple[str, str, str]:
        answer, verdict, label = super()._in_words()
        if self.alone is None:
            return answer, verdict, label
        if self.words == "needed" and self.otherwise is None:
            lead = f"leads by {self.margin:g}" if self.margin else "is given"
            answer += f": no words were found without which another answer {lead}"
        elif self.words == "needed":
            other = f"{self.otherwise} ({self.rest_probabilities[str(self.otherwise)]:.2f})"
            answer += f"; without these words {other}, and {self.label} ({self.rest:.2f})"
        elif not self.rationale:
            answer += f"; {self.alone:.2f} without any word, which is enough"
        else:
            answer += f"; {self.alone:.2f} from these words alone, {self.rest:.2f} without them"
        return answer, verdict, label


class Explanations(Answers):
    """Explanations, in the order of the texts; a notebook shows them highlighted."""

    def to_html(self, title: str | None = None) -> str:
        """A page that stands alone, with the texts and the words that are enough, or needed, highlighted."""
        words, margin = (self[0].words, self[0].margin) if self else ("enough", 0.0)
        return to_page(self, title or f"Words that are {words}", ABOUT[words].format(margin=margin))

    def to_rows(self) -> list[dict[str, Any]]:
        """One dict per text, as `json.dumps` and `pandas.DataFrame` take them.

        Its keys are `text`, `label`, `probability`, `probabilities` (by class), `rationale` (passages with `text`, and
        with `start` and `end` in characters of the whole text), `alone`, `rest`, `otherwise` and `tries`. For a text
        without words, the values are None or empty.
        """
        return [
            {"text": one.text, "label": one.label, "probability": one.probability, "probabilities": one.probabilities}
            | {"rationale": [span._asdict() for span in one.rationale]}
            | {"alone": one.alone, "rest": one.rest, "otherwise": one.otherwise, "tries": one.tries}
            for one in self
        ]


def explain_classifier(
    classifier: Classifier,
    texts: Sequence[str],
    labels: Sequence[Any] | None = None,
    margin: float = 0.05,
    mask: str = "",
    batch_size: int = 64,
    tokeniser: str | Tokeniser = "treebank",
    quiet: bool = False,
    words: str = "enough",
) -> Explanations:
    """Explain answers; see `rationale.explain_classifier`, whose arguments these are."""
    _refuse_settings(classifier, labels, margin, mask, batch_size, words)
    split = _tokeniser(tokeniser)
    if why := why_no_list(texts):
        raise BadInput(why)
    texts = list(texts)
    for number, text in enumerate(texts, start=1):
        if why := why_no_text(text, number):
            raise BadInput(why)
    asked = _Asked(classifier, labels, batch_size)
    asked.refuse_changing(texts)
    with bars_unless(quiet):
        return Explanations(
            each("texts explained", _explained(asked, texts, float(margin), mask, split, words), len(texts))
        )


def _refuse_settings(classifier: Any, labels: Any, margin: Any, mask: Any, batch_size: Any, words: Any) -> None:
    if not callable(classifier):
        advice = ", such as its method predict_proba" if hasattr(classifier, "predict_proba") else ""
        raise BadInput(f"classifier: {excerpt(classifier)} cannot be called; accepted: a function of texts{advice}")
    if getattr(classifier, "of_pairs", False):  # the mark between the texts would be left out like a word
        advice = "lambda texts: model([(first, text) for text in texts])"
        raise BadInput(f"classifier: a model of pairs; accepted: a function of single texts, such as {advice}")
    names = [] if labels is None or isinstance(labels, str | Mapping) else [str(label) for label in labels]
    if labels is not None and (len(set(names)) < max(2, len(names)) or "None" in names):
        raise BadInput(f"labels: {excerpt(labels)}; accepted: a list of two or more different names, one per class")
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 <= margin < 1:
        raise BadInput(f"margin: {excerpt(margin)}; accepted: a number in [0, 1)")
    if not isinstance(mask, str):
        raise BadInput(f"mask: {excerpt(mask)}; accepted: a text, such as [MASK], or an empty one to leave words out")
    if type(batch_size) is not int or batch_size < 1:
        raise BadInput(f"batch_size: {excerpt(batch_size)}; accepted: a whole number from 1")
    if not isinstance(words, str) or words not in SEARCHES:
        raise BadInput(f"words: {excerpt(words)}; accepted: {' or '.join(SEARCHES)}")


def _tokeniser(tokeniser: Any) -> Tokeniser:
    """The function that splits a text into words, if it is not given by its name."""
    if isinstance(tokeniser, str) and tokeniser in TOKENISERS:
        return TOKENISERS[tokeniser]
    if not callable(tokeniser):
        among = f"one of {', '.join(TOKENISERS)}, or a function from a text to its words"
        raise BadInput(f"tokeniser: {excerpt(tokeniser)}; accepted: {among}")
    return tokeniser


class _Asked:
    """A classifier that is asked in batches, and whose answers are rows of probabilities, one per class.

    Parameters
    ----------
    classifier : function
        From a list of texts to rows of numbers, or of classes with their numbers, see `_rows` and `_named`.
    labels : names of the classes, or None
        None: those that the answers name, those of `classifier` if it is a method of scikit-learn, or numbers from 0.
    batch_size : int >= 1
    """

    def __init__(self, classifier: Classifier, labels: Sequence[Any] | None, batch_size: int):
        known = getattr(getattr(classifier, "__self__", None), "classes_", None)
        own = None if known is None else [str(label) for label in known]
        self.are_given = labels is not None
        self.classifier, self.batch_size = classifier, batch_size
        self.labels = own if labels is None else [str(label) for label in labels]
        if own and self.labels and self.labels != own and sorted(self.labels) == sorted(own):
            order = ", ".join(map(excerpt, own))
            raise BadInput(
                f"labels: {excerpt(self.labels)}; the classifier gives these classes in the order {order}; "
                "accepted: this order"
            )

    def __call__(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = []
        for start in range(0, len(texts), self.batch_size):
            batch = texts[start : start + self.batch_size]
            found = _rows(self.classifier(batch))
            if len(found) != len(batch):
                raise BadInput(
                    f"classifier: {counted(len(found), 'answer')} to {counted(len(batch), 'text')}; {ACCEPTED}"
                )
            rows += [self._row(row, text) for row, text in zip(found, batch, strict=True)]
        return rows

    def refuse_changing(self, texts: list[str]) -> None:
        """Refuse a classifier that answers differently when it is asked again, as in training mode."""
        for text in list(filter(str.strip, texts))[:1]:
            (one,), (other,) = self([text]), self([text])
            apart = max(abs(a - b) for a, b in zip(one, other, strict=True))
            if apart > SAME:
                raise BadInput(
                    f"classifier: two answers to the same text differ by {apart:.2g}; accepted: one that always "
                    "answers the same, so switch dropout off (model.eval())"
                )

    def _row(self, row: Any, text: str) -> list[float]:
        """The probabilities that one answer has, in the order of the labels."""
        named, asked = _named(row), f"the answer to {excerpt(text, 40) if text else 'an empty text'}"
        if isinstance(row, Answer) and not row.tokens and self.labels:
            return [0.0] * len(self.labels)  # a model of this package gives no answer to no words
        if named is not None:
            self.labels = self.labels or list(named)
            if set(named) != set(self.labels):
                self._refuse_classes(f"names {excerpt(list(named))}", excerpt(self.labels), "these names")
            row = [named[label] for label in self.labels]
        try:
            numbers = [float(number) for number in row]
        except (TypeError, ValueError):
            one = isinstance(row, Real)  # the output of a decision function, or the probability of one class
            raise BadInput(f"classifier: {excerpt(row)} as {asked}; {FROM_SCORES if one else ACCEPTED}") from None
        self.labels = self.labels or [str(number) for number in range(len(numbers))]
        if len(numbers) != len(self.labels):
            found = f"gives {counted(len(numbers), 'number')} for a text"
            self._refuse_classes(found, f"{len(self.labels)} classes", "one name per number")
        if any(map(math.isnan, numbers)):
            advice = "; it is asked about parts of texts, too, and with mask=... no part is empty"
            raise BadInput(f"classifier: {excerpt(numbers)} as {asked}; {ACCEPTED}{advice * (not text)}")
        if len(numbers) < 2 or not all(0 <= x <= 1 for x in numbers) or abs(math.fsum(numbers) - 1) > 0.01:
            raise BadInput(f"classifier: {excerpt([round(x, 4) for x in numbers])} as {asked}; {FROM_SCORES}")
        return numbers

    def _refuse_classes(self, found: str, expected: str, accepted: str) -> None:
        """Refuse an answer whose classes are not those expected: the fault of `labels` only if these were given."""
        if self.are_given:
            raise BadInput(f"labels: {expected}; the classifier {found}; accepted: {accepted}")
        raise BadInput(f"classifier: it {found}, where {expected} are known from before; {ACCEPTED}")


def _rows(answers: Any) -> list[Any]:
    if hasattr(answers, "to_numpy"):  # a table of pandas, whose columns may have the names of the classes
        named = all(isinstance(name, str) for name in getattr(answers, "columns", [0]))
        answers = answers.to_dict("records") if named else answers.to_numpy()
    try:
        return list(answers.tolist() if hasattr(answers, "tolist") else answers)
    except TypeError:
        raise BadInput(f"classifier: {excerpt(answers)} as the answers to texts; {ACCEPTED}") from None


def _named(row: Any) -> dict[str, float] | None:
    """The probabilities of a row by class, if the row names the classes; None if it is numbers."""
    if isinstance(row, Answer):
        if row.scores:
            raise BadInput(
                f"classifier: scores of {excerpt(list(row.scores))}, no probabilities; accepted: a model of classes, "
                "such as one that was trained with head=classes"
            )
        return dict(row.probabilities)
    if isinstance(row, Mapping):
        if set(row) == {"label", "score"}:  # a pipeline of transformers without top_k=None
            raise BadInput(f"classifier: only the likeliest class, {excerpt(dict(row))}; {ACCEPTED}")
        return {str(name): number for name, number in row.items()}
    if isinstance(row, list) and row and all(isinstance(one, Mapping) for one in row):
        return {str(one.get("label")): one.get("score") for one in row}
    return None


@dataclass(frozen=True)
class _Text:
    """A text with its words, of which some may be read alone."""

    text: str
    tokens: list[str]
    spans: list[tuple[int, int]]
    mask: str

    def of_words(self, words: Iterable[int]) -> str:
        """The text of these words alone: what stood between neighbours stays, and each other word is masked."""
        kept, pieces, last = set(words), list[str](), None
        if len(kept) == len(self.spans):
            return self.text
        for i, (start, end) in enumerate(self.spans):
            if i in kept:
                between = self.text[self.spans[i - 1][1] : start] if last == i - 1 else " "
                pieces.append(between + self.text[start:end])
                last = i
            elif self.mask:
                pieces.append(f" {self.mask}")
        return "".join(pieces).strip()


def _explained(
    asked: _Asked, texts: Iterable[str], margin: float, mask: str, split: Tokeniser, words: str
) -> Iterator[Explanation]:
    """The explanation of each text, a window of texts at a time."""
    texts = iter(texts)
    while window := list(islice(texts, WINDOW)):
        read = [_split(text, split, mask) for text in window]
        found = iter(_window(asked, [one for one in read if one.tokens], margin, words))
        yield from (next(found) if one.tokens else Explanation(one.text, words=words, margin=margin) for one in read)


def _split(text: str, split: Tokeniser, mask: str) -> _Text:
    """A text with the places of its words, which have to be all of it but for spaces."""
    tokens = split(text)
    if (
        not isinstance(tokens, Sequence)
        or isinstance(tokens, str)
        or not all(isinstance(token, str) for token in tokens)
    ):
        raise BadInput(f"tokeniser: {excerpt(tokens)} for {excerpt(text, 40)}; accepted: a list of its words")
    tokens = [token for token in tokens if token.strip()]
    spans = token_spans(text, tokens)
    if split not in TOKENISERS.values():
        ends, starts = [0, *(end for _, end in spans)], [*(start for start, _ in spans), len(text)]
        missing = next((token for token, (start, end) in zip(tokens, spans, strict=True) if start == end), None)
        left_out = [text[end:start].strip() for end, start in zip(ends, starts, strict=True)]
        if missing is not None:
            raise BadInput(f"tokeniser: {excerpt(missing)} does not stand in {excerpt(text, 40)}; {OF_TOKENS}")
        if any(left_out):
            raise BadInput(
                f"tokeniser: it leaves out {excerpt(max(left_out, key=len))} of {excerpt(text, 40)}; {OF_TOKENS}"
            )
    return _Text(text, tokens, spans, mask)


def _window(asked: _Asked, texts: list[_Text], margin: float, words: str) -> list[Explanation]:
    """The explanations of texts that have words, which are searched side by side."""
    whole = asked([one.text for one in texts])
    labels = list(map(_likeliest, whole))
    everything = [set(range(len(one.tokens))) for one in texts]
    tries = [3] * len(texts)  # the whole text, the rationale and the rest

    def slack(row: list[float], number: int) -> float:
        """How far a row is within the bound of the search, see `explain.enough`; negative outside."""
        label, same = labels[number], _likeliest(row) == labels[number]
        if words == "enough":
            return row[label] - whole[number][label] + margin + ROUNDING if same else -1.0
        ahead = max(p for c, p in enumerate(row) if c != label) - row[label] - margin + ROUNDING
        return min(ahead, -math.ulp(0.0)) if same else ahead  # of equal probabilities, that of the first label counts

    def ask(questions: list[tuple[int, Words]]) -> list[float]:
        for number, _ in questions:
            tries[number] += 1
        read = [set(of) if words == "enough" else everything[number] - set(of) for number, of in questions]
        rows = asked([texts[number].of_words(kept) for (number, _), kept in zip(questions, read, strict=True)])
        return [slack(row, number) for (number, _), row in zip(questions, rows, strict=True)]

    searched = side_by_side([SEARCHES[words](len(one.tokens)) for one in texts], ask)
    found = [set(kept or ()) for kept in searched]
    alone = asked([one.of_words(kept) for one, kept in zip(texts, found, strict=True)])
    rests = [every - kept for every, kept in zip(everything, found, strict=True)]
    without = asked([one.of_words(rest) for one, rest in zip(texts, rests, strict=True)])
    names = asked.labels or []
    explanations = []
    for i, one in enumerate(texts):
        z = tuple(float(j in found[i]) for j in range(len(one.tokens)))
        explanation = Explanation(
            one.text,
            **named_outputs(whole[i], names, gives_classes=True),
            rationale=passages(one.text, one.tokens, z),
            tokens=tuple(one.tokens),
            z=z,
            alone=alone[i][labels[i]],
            rest_probabilities=dict(zip(names, without[i], strict=True)) if searched[i] is not None else {},
            tries=tries[i],
            words=words,
            margin=margin,
        )
        explanations.append(explanation)
    return explanations


def _likeliest(row: list[float]) -> int:
    return max(range(len(row)), key=row.__getitem__)
