"""What a saved model answers to new texts: a label or a score, and the passages that it read.

    model = rationale.load("outputs/17_train_own_texts/reviews-seed1")
    for answer in model(["A warm, funny film."]):
        answer.label, answer.probability, answer.rationale

No notebook is needed, and several threads may ask one model at the same time. Between two calls, a run keeps nothing
but the numbers of new words, if its encoder reads word pieces.
"""

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from rationale.data.batches import Vocabulary, encode, encode_pairs
from rationale.data.corpora import find_corpus, names_own
from rationale.data.own.labels import number_of
from rationale.data.own.labels import spelled as label_as_text
from rationale.data.pairs import NULL
from rationale.data.tokenise import BETWEEN, TOKENISERS, split_text
from rationale.data.word_pieces import NO_PIECE, piece_table
from rationale.errors import BadInput, excerpt
from rationale.nn.encoders import find_encoder
from rationale.nn.heads import Classes
from rationale.runs.answer import (
    MOST_TEXTS,
    Answer,
    Answers,
    batched,
    named_outputs,
    passages,
    rescaled,
    to_page,
    why_no_list,
    why_no_text,
)

if TYPE_CHECKING:
    from rationale.models.protocol import RationaleModel

Sides = tuple[tuple[str, ...], tuple[str, ...]]  # the tokens of both texts of a pair, or those of a text and ()
ADDING = threading.Lock()  # of words to a run
MOST_ADDED = 2**23  # numbers by which new words may make the table of a run larger: 64 MiB


@dataclass(repr=False)
class SavedRun:
    """A saved model, ready to predict from new text."""

    model: "RationaleModel[Any]"
    vocabulary: Vocabulary
    parameters: SimpleNamespace
    labels: list[str] | None
    task: str  # "extraction" or "alignment"
    tokeniser: str = "treebank"  # key of TOKENISERS: the one that split the texts of its corpus
    scale: tuple[float, float] | None = None  # the scores of one's own data that the model knows as 0 and 1
    learned: tuple[Vocabulary, Tensor] | None = None  # the words of the training and their table, once there are others
    notes: tuple[str, ...] = ()  # that were printed about this run; those of plain papermill are in its page alone

    def __repr__(self) -> str:
        """The run in one line: `SavedRun(hardkuma, lstm, from reviews.csv; bad, good; 4,021 words)`."""
        p = vars(self.parameters)
        source = f", from {Path(p['corpus']).name}" if "corpus" in p else ""
        outputs = ", ".join(map(str, self.outputs[:12])) + ", ..." * (len(self.outputs) > 12)
        what = f"{p.get('model')}, {p.get('encoder', self.task)}{source}"
        return f"SavedRun({what}; {outputs}; {len(self.vocabulary):,} words)"

    @property
    def of_pairs(self) -> bool:
        """Whether the model reads pairs of sentences."""
        return self.task == "alignment"

    @property
    def gives_classes(self) -> bool:
        """Whether the model predicts one of several classes, instead of scores."""
        return isinstance(self.model.head, Classes)

    def __call__(self, texts: Sequence[str] | Sequence[tuple[str, str]]) -> Answers:
        """Answers to new texts, in their order; for a model of pairs, to pairs. See `answer.Answer`.

        Raises
        ------
        BadInput
            Something in the list is no text, or no pair.
        """
        return answer_texts(self, texts)

    def to_html(self, answers: Sequence[Answer], title: str = "Rationales") -> str:
        """A page that stands alone, with the texts of these answers and their rationales highlighted."""
        wrong = [answer for answer in answers if not isinstance(answer, Answer)]
        if wrong:
            raise BadInput(f"answers: {excerpt(wrong[0])} is no answer; accepted: what the model gives for texts")
        return to_page(answers, title)

    def with_labels(self, answers: Sequence[Answer], labels: Sequence[Any]) -> Answers:
        """The same answers, each beside the label of its text, so that they say whether they are right.

        Parameters
        ----------
        answers
            What the model gave for texts.
        labels
            One per answer, as it stands in a file: a class, or a score on the scale of the training data. "" and None:
            it is not known. Beside a label that is no class of the model, its answer counts as wrong, so look at
            `outputs` if you are not sure of the names.

        Raises
        ------
        BadInput
            There are more or fewer labels than answers.
        """
        labels = list(labels)
        known = {label_as_text(name): name for name in self.outputs}  # an older run has a class True, say
        if len(labels) != len(answers):
            raise BadInput(f"labels: got {len(labels)} for {len(answers)} answers; accepted: one per answer")
        truths: list[str | float | None] = []
        for cell in map(label_as_text, labels):
            number = None if self.gives_classes else number_of(cell)
            truths.append((known.get(cell, cell) or None) if number is None else number)
        return Answers(replace(answer, truth=truth) for answer, truth in zip(answers, truths, strict=True))

    def export(self, path: str | Path, overwrite: bool = False) -> Path:
        """Write the model as a file for onnxruntime, which then needs neither torch nor this package.

        Beside it stands `rationale_reader.py`, which reads texts with it:

            from rationale_reader import load
            load("model.onnx")(["A warm, funny film."])

        It gives the labels, probabilities and passages of this model, and needs numpy and onnxruntime, for a
        transformer also the package tokenizers.

        Parameters
        ----------
        path
            The file. A file of another origin is never overwritten.
        overwrite
            Whether an older export may be replaced.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        BadInput
            The file is there already, or the model cannot be exported: a model of pairs, an RCNN, dependent gates, a
            rule that draws random numbers.
        """
        from rationale.runs.to_onnx import export  # an extra: imported when it is asked for

        return export(self, path, overwrite)

    @property
    def obstacle_to_export(self) -> str:
        """Why this model cannot be exported, in one line; "" if it can."""
        from rationale.runs.to_onnx import obstacle

        return obstacle(self)

    def rescaled(self, scores: Sequence[float]) -> list[float]:
        """Scores in [0, 1] on the scale of the data that the model was trained on."""
        return rescaled(scores, self.scale)

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs: the classes, or the aspects that are scored."""
        if self.gives_classes:
            return self.labels or [str(i) for i in range(self.model.head.output.out_features)]
        p = vars(self.parameters)
        aspect = p.get("aspect", "score")
        if "corpus" not in p:
            return [aspect]
        return [p["label"]] if names_own(p["corpus"]) else [*find_corpus(p["corpus"]).outputs(aspect)]

    def tokens(self, text: str) -> list[str]:
        """Split a new text into tokens as the texts of the corpus were split; for pairs, see `tokenise.split_text`."""
        return split_text(text, self.tokeniser) if self.of_pairs else TOKENISERS[self.tokeniser](text)


def with_words(run: SavedRun, texts: Iterable[Sequence[str]]) -> tuple["RationaleModel[Any]", Vocabulary]:
    """Number the words of new texts that a run does not know, if its encoder has pieces for them.

    The numbers of known words stay. If the table would become larger by more than `MOST_ADDED` numbers, the words of
    earlier texts are forgotten first, so that a service can go on for as long as it likes.

    Returns
    -------
    model, Vocabulary
        They know these words, whatever other threads add or forget later.
    """
    if not getattr(run.model, "reads_pieces", False):
        return run.model, run.vocabulary
    with ADDING:
        texts = list(texts)
        new = unknown_words(run.vocabulary, texts)
        if new:
            table, tokenizer = run.model.vectors, find_encoder(run.parameters.encoder).tokenizer(run.parameters)
            run.learned = run.learned or (run.vocabulary, table)
            rows = piece_table(new, tokenizer)
            wide = max(table.shape[1], rows.shape[1])
            if (len(table) + len(rows)) * wide - run.learned[1].numel() > MOST_ADDED:
                run.vocabulary, table = run.learned[0], run.learned[1].to(table.device)
                new = unknown_words(run.vocabulary, texts)
                rows = piece_table(new, tokenizer)
                wide = max(table.shape[1], rows.shape[1])
            rows = rows.to(table.device)
            parts = [pad(part, (0, wide - part.shape[1]), value=NO_PIECE) for part in (table, rows)]
            run.model = with_table(run.model, torch.cat(parts))
            run.vocabulary = Vocabulary([*run.vocabulary.words, *new])
        return run.model, run.vocabulary


def unknown_words(vocabulary: Vocabulary, texts: Iterable[Sequence[str]]) -> list[str]:
    """The different words of texts that are not in a vocabulary, but for those that stay unknown; sorted."""
    words = {word for text in texts for word in vocabulary.unknown(text)}
    return sorted(words.difference(vocabulary.specials))


def with_table(model: "RationaleModel[Any]", table: Tensor) -> "RationaleModel[Any]":
    """A model of the same parts with another table of words. Threads that compute with `model` are not disturbed."""
    other = copy.copy(model)
    vars(other)["_buffers"] = dict(model.named_buffers(recurse=False)) | {"vectors": table}
    return other


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
    if wrong := why_no_list(texts, run.of_pairs):
        raise BadInput(wrong)
    empty, outputs = list(_empty(run, texts)), run.outputs
    rows = compute(run, [_sides(run, one) for one in empty])
    return Answers(
        one if row is None else _answered(run, one, row, outputs) for one, row in zip(empty, rows, strict=True)
    )


def _empty(run: SavedRun, texts: Iterable[Any]) -> Iterator[Answer]:
    """An answer without content per text; each text is checked."""
    for number, text in enumerate(texts, start=1):
        if not run.of_pairs:
            if wrong := why_no_text(text, number):
                raise BadInput(wrong)
            yield Answer(text)
            continue
        sides = _texts_of_pair(text)
        if sides is None:
            accepted = f'("a premise", "a hypothesis"), or "a premise {BETWEEN} a hypothesis"'
            told = excerpt(text)
            if isinstance(text, tuple | list) and len(text) == 2:  # one of the two is no text, however long the other
                told = f"({', '.join(excerpt(side, 40) for side in text)})"
            raise BadInput(f"text {number}: {told} is no pair; accepted: {accepted}")
        yield Answer(sides[0], second=sides[1])


def _texts_of_pair(pair: Any) -> tuple[str, str] | None:
    """The texts of a pair, which may be a row of an array, or one text; two empty ones for a blank one.

    None if it is no pair. One text in which a side of the mark is empty is none: it is more likely to be a mistake.
    """
    if isinstance(pair, str):
        sides = [side.strip() for side in pair.split(BETWEEN)] if pair.strip() else ["", ""]
        if pair.strip() and not all(sides):
            return None
    elif isinstance(pair, Iterable) and not isinstance(pair, Mapping | Set):
        sides = list(islice(pair, 3))
    else:
        return None
    if len(sides) != 2 or not all(isinstance(side, str) for side in sides):
        return None
    return sides[0], sides[1]


def _sides(run: SavedRun, answer: Answer) -> Sides:
    """The tokens of the text of an answer, or of both texts, as `compute` takes them."""
    first, second = (tuple(TOKENISERS[run.tokeniser](text)) for text in (answer.text, answer.second))
    return sides_of_pair(first, second) if run.of_pairs else (first, ())


def sides_of_pair(first: Sequence[str], second: Sequence[str]) -> Sides:
    """The tokens of both texts of a pair as `compute` takes them; none at all if one of the texts has no words."""
    return ((NULL, *first), (NULL, *second)) if first and second else ((), ())


class Row(NamedTuple):
    """What a model computes for one text."""

    tokens: tuple[str, ...]
    second: tuple[str, ...]
    z: Tensor  # [T], or [P Q] for a pair
    prediction: Tensor  # [C] logits, or [K] scores in [0, 1]
    unknown: tuple[str, ...]


def compute(run: SavedRun, texts: Sequence[Sides], most_texts: int = MOST_TEXTS) -> list[Row | None]:
    """What a model computes for each text, in the order of the texts; None for a text without words.

    Parameters
    ----------
    run : SavedRun
    texts : list of (tokens, tokens)
        The tokens of a text and (), or those of both texts of a pair, see `sides_of_pair`.
    most_texts : int
        The most texts that share a batch; see `answer.batched`.
    """
    # Once for all batches, as the table of all words is written anew.
    model, vocabulary = with_words(run, (side for text in texts for side in text))
    model = in_evaluation_mode(model)
    rows: list[Row | None] = [None] * len(texts)
    asked, lengths = [i for i, (first, _) in enumerate(texts) if first], [sum(map(len, text)) for text in texts]
    for batch in batched(asked, lengths, most_texts=most_texts):
        computed = _compute_batch(model, vocabulary, [texts[i] for i in batch], run.of_pairs)
        for i, row in zip(batch, computed, strict=True):
            rows[i] = row
    return rows


def _compute_batch(
    model: "RationaleModel[Any]", vocabulary: Vocabulary, texts: Sequence[Sides], of_pairs: bool
) -> Iterator[Row]:
    """The gates and the prediction of each text of one batch; every text has words."""
    device = model.vectors.device
    if of_pairs:
        batch = encode_pairs(texts, vocabulary, device)
    else:
        batch = encode([first for first, _ in texts], vocabulary, device)
    with torch.no_grad():
        output = model(batch.tokens, batch.mask)
    z, mask, prediction = output.z.cpu(), batch.mask.cpu(), output.prediction.cpu()
    for i, (first, second) in enumerate(texts):
        yield Row(first, second, z[i][mask[i]], prediction[i], tuple(vocabulary.unknown((*first, *second))))


def in_evaluation_mode(model: "RationaleModel[Any]") -> "RationaleModel[Any]":
    """A model of the same weights in evaluation mode: the model itself, or a copy of its modules if it is in another.

    The model keeps its mode, as other threads may be asking it, or training it.
    """
    if not any(part.training for part in model.modules()):
        return model
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}  # these are not copied
    return copy.deepcopy(model, shared).eval()


def _answered(run: SavedRun, empty: Answer, row: Row, outputs: Sequence[str]) -> Answer:
    """The answer to a text of which a model has computed a row; `outputs` are those of the run."""
    values: dict = {"unknown": row.unknown, "tokens": row.tokens, "second_tokens": row.second}
    if run.of_pairs:
        matrix = row.z.view(len(row.tokens), -1).tolist() if run.model.selector is not None else ()
        values["z"] = tuple(map(tuple, matrix))
    else:
        values["z"] = tuple(row.z.tolist())
        values["rationale"] = passages(empty.text, row.tokens, values["z"])
    numbers = (row.prediction.softmax(0) if run.gives_classes else row.prediction).tolist()
    values |= named_outputs(numbers, outputs, run.gives_classes, run.scale)
    return Answer(empty.text, second=empty.second, **values)
