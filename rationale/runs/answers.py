"""What a saved model answers to new texts: a label or a score, and the passages that it read.

    model = rationale.load("outputs/17_train_own_texts/reviews-seed1")
    for answer in model(["A warm, funny film."]):
        answer.label, answer.probability, answer.rationale

No notebook is needed, and several threads may ask one model at the same time: nothing is kept between two calls.
"""

import html
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from rationale.data.batches import Vocabulary, encode, encode_pairs
from rationale.data.characters import merged, token_spans
from rationale.data.corpora import find_corpus
from rationale.data.own import is_own
from rationale.data.pairs import NULL
from rationale.data.tokenise import BETWEEN, TOKENISERS, split_text
from rationale.data.vectors import spellings
from rationale.data.word_pieces import NO_PIECE, piece_table
from rationale.errors import BadInput, excerpt
from rationale.nn.encoders import find_encoder
from rationale.nn.heads import Classes

if TYPE_CHECKING:
    from rationale.models.protocol import RationaleModel

ADDING = threading.Lock()  # of words to a run
MOST_TEXTS, MOST_WORDS = 64, 16_384  # of a batch, with padding
CHOSEN = "background:rgba(230,159,0,.5);color:inherit;padding:0 .1em"
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 1em/1.6 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; }}</style>
</head><body><h1>{title}</h1>
{body}
</body></html>
"""


class Span(NamedTuple):
    """A passage of a text: the characters [start, end)."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Answer:
    """What a model answers to one text, or to a pair of texts.

    Attributes
    ----------
    text : str
    label : str or None
        The likeliest class; None for a model of scores, and for a text without words.
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

    def __str__(self) -> str:
        """The answer in one line: `pos (0.98)`, or `stars 4.2`; "no words" for a text without words."""
        if self.label is not None:
            return f"{self.label} ({self.probability:.2f})"
        return ", ".join(f"{name} {score:.4g}" for name, score in self.scores.items()) or "no words"

    def _repr_html_(self) -> str:
        """The text with its rationale highlighted, as a notebook shows it."""
        pieces, last = [], 0
        for start, end, passage in self.rationale:
            pieces.append(f'<span style="opacity:.65">{html.escape(self.text[last:start])}</span>')
            pieces.append(f'<mark style="{CHOSEN}"><b>{html.escape(passage)}</b></mark>')
            last = end
        pieces.append(f'<span style="opacity:.65">{html.escape(self.text[last:])}</span>')
        second = f"<div>{html.escape(self.second)}</div>" if self.second else ""
        shown = f'<div style="white-space:pre-wrap">{"".join(pieces)}</div>{second}'
        return f'<div style="max-width:60em;margin-bottom:1em"><b>{html.escape(str(self))}</b>{shown}</div>'


class Answers(list[Answer]):
    """Answers, in the order of the texts; a notebook shows them highlighted."""

    def _repr_html_(self) -> str:
        """All answers, as a notebook shows them."""
        return "\n".join(answer._repr_html_() for answer in self)


@dataclass
class SavedRun:
    """A saved model, ready to predict from new text."""

    model: "RationaleModel[Any]"
    vocabulary: Vocabulary
    parameters: SimpleNamespace
    labels: list[str] | None
    task: str  # "extraction" or "alignment"
    tokeniser: str = "treebank"  # key of TOKENISERS: the one that split the texts of its corpus
    scale: tuple[float, float] | None = None  # the scores of one's own data that the model knows as 0 and 1

    @property
    def of_pairs(self) -> bool:
        """Whether the model reads pairs of sentences."""
        return self.task == "alignment"

    @property
    def gives_classes(self) -> bool:
        """Whether the model predicts one of several classes, instead of scores."""
        return isinstance(self.model.head, Classes)

    def __call__(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Answers:
        """Answers to new texts, in their order; for a model of pairs, to pairs. See `answers.Answer`.

        Raises
        ------
        BadInput
            Something in the list is no text, or no pair.
        """
        return answer_texts(self, texts)

    def to_html(self, answers: Sequence[Answer], title: str = "Rationales") -> str:
        """A page that stands alone, with the texts of these answers and their rationales highlighted."""
        return to_page(answers, title)

    def rescaled(self, scores: Sequence[float]) -> list[float]:
        """Scores in [0, 1] on the scale of the data that the model was trained on."""
        low, high = self.scale or (0.0, 1.0)
        return [low + score * (high - low) for score in scores]

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs: the classes, or the aspects that are scored."""
        if self.gives_classes:
            return self.labels or [str(i) for i in range(self.model.head.output.out_features)]
        p = vars(self.parameters)
        aspect = p.get("aspect", "score")
        if is_own(p.get("corpus", "")):
            return [p["label"]]
        return [*find_corpus(p["corpus"]).outputs(aspect)] if "corpus" in p else [aspect]

    def tokens(self, text: str) -> list[str]:
        """Split a new text into tokens as the texts of the corpus were split; for pairs, see `tokenise.split_text`."""
        return split_text(text, self.tokeniser)


def add_words(run: SavedRun, texts: Iterable[Sequence[str]]) -> None:
    """Number the words of new texts that a run does not know, if its encoder has pieces for them.

    The numbers of known words stay, and the longer table is there before its words are, so other threads may go on.
    """
    if not getattr(run.model, "reads_pieces", False):
        return
    with ADDING:
        new = sorted({word for text in texts for word in run.vocabulary.unknown(text)})
        if not new:
            return
        table = run.model.vectors
        rows = piece_table(new, find_encoder(run.parameters.encoder).tokenizer(run.parameters)).to(table.device)
        wide = max(table.shape[1], rows.shape[1])
        run.model.vectors = torch.cat([pad(part, (0, wide - part.shape[1]), value=NO_PIECE) for part in (table, rows)])
        run.vocabulary = Vocabulary([*run.vocabulary.words, *new])


def to_page(answers: Sequence[Answer], title: str = "Rationales") -> str:
    """A page of HTML that stands alone: the texts with their rationales highlighted."""
    return Answers(answers)._repr_html_().join(head_and_tail(title))


def head_and_tail(title: str) -> tuple[str, str]:
    """What stands before and behind the answers of a page."""
    head, _, tail = PAGE.format(title=html.escape(title), body="\0").partition("\0")
    return head, tail


def answer_texts(run: SavedRun, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Answers:
    """Answers to texts, in their order. A text without words gets an empty answer.

    Parameters
    ----------
    run : SavedRun
    texts : list of str; of pairs of str for a model of pairs ("first ||| second" is a pair, too)

    Raises
    ------
    BadInput
        Something in the list is no text, or no pair; the message gives its number, from 1.
    """
    if isinstance(texts, str):
        raise BadInput(f"texts: {excerpt(texts)} is a single text; accepted: a list of texts, [{excerpt(texts)}]")
    found = list(_empty(run, texts))
    split = TOKENISERS[run.tokeniser]
    tokens = [tuple(split(one.text)) for one in found]
    seconds = [tuple(split(one.second)) for one in found]
    asked = [i for i, words in enumerate(tokens) if words and (seconds[i] or not run.of_pairs)]
    for batch in batched(asked, [len(words) + len(other) for words, other in zip(tokens, seconds, strict=True)]):
        firsts = [(NULL,) * run.of_pairs + tokens[i] for i in batch]
        others = [(NULL, *seconds[i]) for i in batch] if run.of_pairs else []
        for i, row in zip(batch, compute(run, firsts, others), strict=True):
            found[i] = _answered(run, found[i], row)
    return Answers(found)


def _empty(run: SavedRun, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Iterator[Answer]:
    """An answer without content per text; each text is checked."""
    for number, text in enumerate(texts, start=1):
        if not run.of_pairs:
            if not isinstance(text, str):
                raise BadInput(f"text {number}: {excerpt(text)} is no text; accepted: texts")
            yield Answer(text)
            continue
        sides = [side.strip() for side in text.split(BETWEEN)] if isinstance(text, str) else list(text)
        blank = isinstance(text, str) and not text.strip()
        if not blank and (len(sides) != 2 or not all(isinstance(side, str) for side in sides)):
            accepted = f'("a premise", "a hypothesis"), or "a premise {BETWEEN} a hypothesis"'
            raise BadInput(f"text {number}: {excerpt(text)} is no pair; accepted: {accepted}")
        yield Answer("" if blank else sides[0], second="" if blank else sides[1])


def batched(rows: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    """The rows in batches of similar length, shortest first: at most `MOST_TEXTS` and `MOST_WORDS`, but at least one.

    Examples
    --------
    >>> [len(batch) for batch in batched(range(100), [9_000] * 2 + [10] * 98)]
    [64, 34, 1, 1]
    """
    batch: list[int] = []
    for row in sorted(rows, key=lambda row: lengths[row]):
        if batch and (len(batch) == MOST_TEXTS or (len(batch) + 1) * lengths[row] > MOST_WORDS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


class Row(NamedTuple):
    """What a model computes for one text."""

    tokens: tuple[str, ...]
    second: tuple[str, ...]
    z: Tensor  # [T], or [P Q] for a pair
    prediction: Tensor  # [C] logits, or [K] scores in [0, 1]
    unknown: tuple[str, ...]


def compute(run: SavedRun, texts: Sequence[tuple[str, ...]], seconds: Sequence[tuple[str, ...]] = ()) -> Iterator[Row]:
    """The gates and the prediction of each text of one batch; pairs are given by their second texts.

    A word that is not in the vocabulary is looked up in its other spellings, as word vectors were in training.
    """
    device = run.model.vectors.device
    add_words(run, (*texts, *seconds))
    known, known_seconds = ([spelled(run, tokens) for tokens in side] for side in (texts, seconds))
    if run.of_pairs:
        batch = encode_pairs(list(zip(known, known_seconds, strict=True)), run.vocabulary, device)
    else:
        batch = encode(known, run.vocabulary, device)
    with torch.no_grad():
        output = run.model(batch.tokens, batch.mask)
    z, prediction = output.z.cpu(), output.prediction.cpu()
    for i, tokens in enumerate(texts):
        words = known[i] + (known_seconds[i] if seconds else [])
        unknown = tuple(run.vocabulary.unknown(words))
        yield Row(tokens, seconds[i] if seconds else (), z[i][batch.mask[i].cpu()], prediction[i], unknown)


def spelled(run: SavedRun, tokens: Sequence[str]) -> list[str]:
    """Each word in the first of its spellings that is in the vocabulary, as word vectors were looked up in training."""
    known = run.vocabulary
    return [
        word if word in known else next((other for other in spellings(word) if other in known), word) for word in tokens
    ]


def _answered(run: SavedRun, empty: Answer, row: Row) -> Answer:
    """The answer to a text of which a model has computed a row."""
    values: dict = {"unknown": row.unknown, "tokens": row.tokens, "second_tokens": row.second}
    if run.of_pairs:
        matrix = row.z.view(len(row.tokens), -1).tolist() if run.model.selector is not None else ()
        values["z"] = tuple(map(tuple, matrix))
    else:
        values["z"] = tuple(row.z.tolist())
        spans = merged(token_spans(empty.text, row.tokens), [z > 0 for z in values["z"]], empty.text)
        values["rationale"] = tuple(Span(start, end, empty.text[start:end]) for start, end in spans)
    if run.gives_classes:
        shares = row.prediction.softmax(0).tolist()
        values["probabilities"] = dict(zip(run.outputs, shares, strict=True))
        values["label"], values["probability"] = max(values["probabilities"].items(), key=lambda pair: pair[1])
    else:
        values["scores"] = dict(zip(run.outputs, run.rescaled(row.prediction.tolist()), strict=True))
    return Answer(empty.text, second=empty.second, **values)
