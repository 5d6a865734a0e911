"""The answer to a text: a label or a score, and the passages that the predictor read; needs nothing but Python."""

import html
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

from rationale.data.characters import merged, token_spans
from rationale.data.spellings import HALF
from rationale.excerpts import PRINTED, excerpt

MOST_TEXTS, MOST_WORDS = 64, 16_384  # of a batch, with padding
WRONG = "border:1px solid;border-radius:.2em;padding:0 .3em"
CHOSEN = f"background:rgba(230,159,0,.5);color:inherit;padding:0 .1em;{PRINTED}"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>:root {{ color-scheme: light dark; }}
@media print {{ :root {{ color-scheme: light; }} }}
body {{ font: 1em/1.6 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}</style>
{style}</head><body><h1>{title}</h1>
<p>{about}</p>
{body}
</body></html>
"""
ABOUT = """Above each text you see the answer of the model, and the probability of a class in brackets. If words of a
text are highlighted, the model predicted from these words. Below a pair of texts, you can unfold which words of the
second text each word of the first one is aligned with, at most three, and with which weight. Where the label of a text
is known, the answer is compared with it."""
HIDDEN = """<style>#only-wrong:checked ~ :is(.right, .unlabelled) { display: none; }</style>
"""
ONLY_WRONG = '<input type="checkbox" id="only-wrong"> <label for="only-wrong">Show only wrong answers</label><p></p>'
VERDICTS = {True: "right", False: "wrong", None: "unlabelled"}  # the class of an answer on a page, by `is_right`


class Span(NamedTuple):
    """A passage of a text: the characters [start, end)."""

    start: int
    end: int
    text: str


class Aligned(NamedTuple):
    """A word of the first text of a pair and one of the second, with the weight in (0, 1] that aligns them."""

    first: Span
    second: Span
    weight: float


@dataclass(frozen=True)
class Answer:
    """What a model answers to one text, or to a pair of texts.

    Attributes
    ----------
    text : str
    label : str or None
        The likeliest class; None for a model of scores, for a text without words, and for a pair of which one text has
        no words. `str` of such an answer is "no words", unless its label is known.
    probability : float in [0, 1], or None
        That of `label`.
    probabilities : class -> float in [0, 1]
    scores : name -> float
        Of a model of scores, on the scale of the data that it was trained on.
    rationale : tuple of Span
        The passages that the predictor read; neighbouring words are one passage. (): none, or a pair.
    tokens : tuple of str, length T
    z : tuple of float in [0, 1], length T
        The gate of each token. For a pair: one row per token of the first text, one number per token of the second;
        () for a model without alignments.
    unknown : tuple of str
        The tokens that the model does not know.
    second, second_tokens
        The second text of a pair; "" and () for a single text. The tokens of a pair begin with `NULL` on both sides.
    truth : str, float or None
        The label of the text, if it is known: a class, or a score on the scale of `scores`.
    """

    text: str
    label: str | None = None
    probability: float | None = None
    probabilities: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    rationale: tuple[Span, ...] = ()
    tokens: tuple[str, ...] = ()
    z: tuple = ()
    unknown: tuple[str, ...] = ()
    second: str = ""
    second_tokens: tuple[str, ...] = ()
    truth: str | float | None = None

    def __str__(self) -> str:
        """The answer in one line: `pos (0.98)`, or `stars 4.2`; "no words" for a text without words.

        If the label is known: `neg (0.73), wrong: the label is pos`, or `stars 4.2, 0.8 too low: the label is 5`.
        """
        answer, verdict, label = self._in_words()
        return f"{answer}{verdict and f', {verdict}'}{label}"

    @property
    def is_right(self) -> bool | None:
        """Whether the class is that of the text; None for a model of scores, and where one of the two is not known."""
        return None if self.label is None or self.truth is None else self.label == self.truth

    @property
    def excess(self) -> float | None:
        """By how much a score is above the label of its text; None for classes, several scores, or without a label."""
        if not isinstance(self.truth, float) or len(self.scores) != 1:
            return None
        (score,) = self.scores.values()
        return score - self.truth

    @property
    def knows_no_word(self) -> bool:
        """Whether the model knows none of the words, so that it answers as it would answer an empty text."""
        words = [*self.tokens[1:], *self.second_tokens[1:]] if self.second else self.tokens  # a side begins with `NULL`
        return bool(words) and len(self.unknown) == len(words)

    @property
    def alignment(self) -> tuple[Aligned, ...]:
        """The words of a pair whose weight is not 0; (): a single text, or a model without alignments."""
        if not self.z or not self.second:
            return ()
        firsts, seconds = _words(self.text, self.tokens[1:]), _words(self.second, self.second_tokens[1:])
        cells = zip(firsts, self.z[1:], strict=True)
        return tuple(
            Aligned(first, second, weight)
            for first, weights in cells
            for second, weight in zip(seconds, weights[1:], strict=True)
            if weight > 0
        )

    @property
    def aligned_words(self) -> tuple[str, ...]:
        """Per word of the first text of a pair, the three words of the second one with the largest weights.

        Each is a line such as `dog: animal (0.98), no word (0.02)`. A word that aligns with none has no line.
        """
        lines, seconds = [], ("no word", *self.second_tokens[1:])  # the first of each side is `NULL`
        for word, weights in zip(self.tokens[1:], self.z[1:] if self.second else (), strict=False):
            aligned = most_aligned(weights, seconds)
            if aligned:
                lines.append(f"{word}: " + ", ".join(f"{other} ({z:.2f})" for z, other in aligned))
        return tuple(lines)

    def _in_words(self) -> tuple[str, str, str]:
        """The answer; how it compares with the label, "" if that is not known; and the label, if it differs."""
        if self.label is not None:
            answer = f"{self.label} ({self.probability:.2f})"
        else:
            answer = ", ".join(f"{name} {score:.4g}" for name, score in self.scores.items()) or "no words"
        if self.truth is None:
            return answer, "", ""
        verdict, truth = "", f"{self.truth:.4g}" if isinstance(self.truth, float) else self.truth
        if self.is_right is not None:
            verdict = "right" if self.is_right else "wrong"
        elif self.excess is not None:
            (score,) = self.scores.values()
            side = "low" if self.excess < 0 else "high"
            verdict = "right" if f"{score:.4g}" == truth else f"{abs(self.excess):.2g} too {side}"
        return answer, verdict, "" if verdict == "right" else f": the label is {truth}"

    def _repr_html_(self) -> str:
        """The text with its rationale highlighted, as a notebook shows it."""
        return self.as_html()

    def as_html(self, kept: Mapping[str, Any] | None = None) -> str:
        """The text with its rationale highlighted, below what else is known of it, such as an id."""
        pieces, last = [], 0
        for start, end, passage in self.rationale:
            pieces.append(f'<span style="opacity:.65">{escaped(self.text[last:start])}</span>')
            pieces.append(f'<mark style="{CHOSEN}"><b>{escaped(passage)}</b></mark>')
            last = end
        pieces.append(f'<span style="opacity:.65">{escaped(self.text[last:])}</span>')
        shown = f'<div dir="auto">{"".join(pieces)}</div>'
        if self.second:
            both = "".join(f'<div dir="auto">{escaped(text)}</div>' for text in (self.text, self.second))
            shown = f"{both}{self._aligned_html()}"
        answer, verdict, label = map(escaped, self._in_words())
        verdict = f'<b style="{WRONG}">wrong</b>' if self.is_right is False else verdict
        told = f"<b>{answer}</b>{verdict and f', {verdict}'}{label}"
        if self.knows_no_word:
            told += "; no word of this text is known to the model, so this is its answer to an empty text"
        style = "max-width:60em;margin-bottom:1em;overflow-wrap:anywhere;white-space:pre-wrap"
        above = " · ".join(f"{name}: {cell_as_text(cell)}" for name, cell in (kept or {}).items())
        above = above and f'<div style="opacity:.65">{escaped(above)}</div>'
        return f'<div class="{VERDICTS[self.is_right]}" style="{style}">{above}{told}{shown}</div>'

    def _aligned_html(self) -> str:
        """The aligned words of a pair, to be unfolded."""
        lines = [f"<div>{escaped(line)}</div>" for line in self.aligned_words]
        if not lines:
            return ""
        return f"<details><summary>Aligned words, with their weights</summary>{''.join(lines)}</details>"


class Answers(list[Answer]):
    """Answers, in the order of the texts; a notebook shows them highlighted. A slice is of the same kind."""

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return type(self)(found) if isinstance(place, slice) else found

    def _repr_html_(self) -> str:
        """All answers, as a notebook shows them."""
        return "\n".join(answer._repr_html_() for answer in self)


def why_no_list(texts: Any, of_pairs: bool = False) -> str:
    """Why something is no list of texts, or of pairs, in one line; "" if it may be one."""
    if isinstance(texts, str):
        return f"texts: {excerpt(texts)} is a single text; accepted: a list of texts, [{excerpt(texts)}]"
    if isinstance(texts, bytes | bytearray):  # whose items would be numbers
        return f"texts: {excerpt(bytes(texts))} is of bytes; accepted: a list of texts of the type str (bytes.decode)"
    if isinstance(texts, Mapping) or hasattr(texts, "columns"):  # whose items would be the names of the columns
        one, two = "one column, as in table['text']", "pairs, as in zip(table['text'], table['second'])"
        return f"texts: a table with the columns {excerpt(list(texts))}; accepted: {two if of_pairs else one}"
    return "" if isinstance(texts, Iterable) else f"texts: {excerpt(texts)} is no list; accepted: a list of texts"


def why_no_text(text: Any, number: int) -> str:
    """Why the item of a list with this number, from 1, is no text, in one line; "" if it is one."""
    if isinstance(text, str):
        return ""
    if isinstance(text, bytes | bytearray):
        return f"text {number}: {excerpt(bytes(text))} is of bytes; accepted: texts of the type str (bytes.decode)"
    return f"text {number}: {excerpt(text)} is no text; accepted: texts"


def escaped(text: str) -> str:
    r"""A text as a page of HTML holds it. Half of a character, which no file in UTF-8 can hold, becomes its escape.

    Examples
    --------
    >>> print(escaped("<b> " + chr(0xD83D)))
    &lt;b&gt; \ud83d
    """
    return HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", html.escape(text))


def to_page(answers: Sequence[Answer], title: str = "Rationales", about: str = ABOUT) -> str:
    """A page of HTML that stands alone: the texts with their rationales highlighted, below what it is about (HTML)."""
    known = any(answer.is_right is not None for answer in answers)
    return "\n".join(parts_of_page(answers, title, known, about=about))


def spaced(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts with one space wherever they have any, so that they can be compared."""
    return tuple(" ".join(text.split()) for text in texts)


def parts_of_page(
    answers: Iterable[Answer],
    title: str,
    can_be_wrong: bool,
    kept: Iterable[Mapping[str, Any]] = repeat({}),
    trained_on: Collection[tuple[str, ...]] = (),
    about: str = ABOUT,
) -> Iterator[str]:
    """The page of `to_page`, one answer after the other.

    If labels are known, a line at the end counts the wrong answers, or says how far the scores are from theirs. It also
    says how many of these texts the model was trained on, if it is known to have been, and how it answers the others.

    Parameters
    ----------
    can_be_wrong : bool
        Whether the classes of some texts are known. A box then hides all answers but the wrong ones.
    kept : a dict for each answer
        What else the page says of each text: columns of its table, by name.
    trained_on : texts, or pairs, as `spaced` gives them
        What the model was trained on; empty if this is not known.
    about : str
        What the page says first, as HTML.
    """
    page = PAGE.format(title=escaped(title), style=HIDDEN * can_be_wrong, about=about, body="\0")
    head, _, tail = page.partition("\0")
    wrong: dict[bool, list[bool]] = {False: [], True: []}  # by whether the model was trained on the text
    far: dict[bool, list[float]] = {False: [], True: []}
    yield head + ONLY_WRONG * can_be_wrong
    for answer, row in zip(answers, kept, strict=False):
        is_known = spaced((answer.text, answer.second) if answer.second else (answer.text,)) in trained_on
        if answer.is_right is not None:
            wrong[is_known].append(not answer.is_right)
        if answer.excess is not None:
            far[is_known].append(abs(answer.excess))
        yield answer.as_html(row)
    if known := sum(map(len, wrong.values())):
        told = f"{sum(map(sum, wrong.values())):,} of {known:,} texts with a label got a wrong answer."
        others = f"{sum(wrong[False]):,} of the other {len(wrong[False]):,} got a wrong answer"
        yield f"<p>{told}{_of_training(wrong, others)}</p>"
    if scored := sum(map(len, far.values())):
        mean = sum(map(sum, far.values())) / scored
        told = f"{scored:,} text{'s' * (scored > 1)} with a label: the answer is {mean:.2g} from its label on average."
        distance = sum(far[False]) / max(1, len(far[False]))
        others = f"for the other {len(far[False]):,}, the distance is {distance:.2g}"
        yield f"<p>{told}{_of_training(far, others)}</p>"
    yield tail


def _of_training(by_training: dict[bool, list], others: str) -> str:
    """What a page says of texts that the model was trained on, if there are any."""
    if not by_training[True]:
        return ""
    if not by_training[False]:
        return " The model was trained on all of them."
    return f" The model was trained on {len(by_training[True]):,} of them; {others}."


def cell_as_text(cell: Any) -> str:
    """A cell of a table as text: nothing for a missing one, and JSON for a list, an object or a truth value.

    Examples
    --------
    >>> cell_as_text({"by": ["a", None]}), cell_as_text(0.5), cell_as_text(None), cell_as_text(float("nan"))
    ('{"by": ["a", null]}', '0.5', '', '')
    """
    if isinstance(cell, dict | list | tuple | bool):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return "" if cell is None or cell != cell else str(cell)


def batched(
    rows: Sequence[int], lengths: Sequence[int], most_words: int = MOST_WORDS, most_texts: int = MOST_TEXTS
) -> Iterator[list[int]]:
    """The rows in batches of similar length, shortest first: at most `most_texts` and `most_words`, but at least one.

    Examples
    --------
    >>> [len(batch) for batch in batched(range(100), [9_000] * 2 + [10] * 98)]
    [64, 34, 1, 1]
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: lengths[row]):
        if batch and (len(batch) == most_texts or (len(batch) + 1) * lengths[row] > most_words):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def rescaled(scores: Sequence[float], scale: Sequence[float] | None) -> list[float]:
    """Scores in [0, 1] on the scale (lowest, highest) of the data that a model was trained on; None: (0, 1)."""
    low, high = scale or (0.0, 1.0)
    return [low + score * (high - low) for score in scores]


def named_outputs(
    numbers: Sequence[float], names: Sequence[str], gives_classes: bool, scale: Sequence[float] | None = None
) -> dict:
    """The attributes of an answer that hold the outputs of a model.

    Parameters
    ----------
    numbers : K probabilities of classes, or K scores in [0, 1]
    names : K names of the outputs
    gives_classes : bool
        Whether the numbers are probabilities.
    scale : see `rescaled`
    """
    if not gives_classes:
        return {"scores": dict(zip(names, rescaled(numbers, scale), strict=True))}
    probabilities = dict(zip(names, numbers, strict=True))
    label = max(probabilities, key=probabilities.__getitem__)
    return {"probabilities": probabilities, "label": label, "probability": probabilities[label]}


def most_aligned(weights: Sequence[float], words: Sequence[str]) -> list[tuple[float, str]]:
    """The three words with the largest weights that are not 0, largest first, each behind its weight."""
    return sorted(((z, word) for z, word in zip(weights, words, strict=True) if z), reverse=True)[:3]


def _words(text: str, tokens: Sequence[str]) -> list[Span]:
    return [Span(start, end, text[start:end]) for start, end in token_spans(text, tokens)]


def passages(text: str, tokens: Sequence[str], z: Sequence[float]) -> tuple[Span, ...]:
    """The passages of a text that the predictor read, given its T tokens and their gates [T]."""
    spans = merged(token_spans(text, tokens), [value > 0 for value in z], text)
    return tuple(Span(start, end, text[start:end]) for start, end in spans)
