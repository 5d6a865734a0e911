"""Texts as word pieces of a transformer, and properties of the pieces: parts of speech, sentiments, answer spans."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

from rationale.data.batches import Vocabulary
from rationale.data.example import Example, Question
from rationale.data.packed import words_of
from rationale.data.spellings import MOST_PIECES, plain_form
from rationale.errors import optional


class WordPieces:
    """A tokenizer with the interface of a vocabulary, as `Batches` requires: from pieces to numbers."""

    def __init__(self, tokenizer: Any):
        self._tokenizer = tokenizer
        self.pad = tokenizer.pad_token_id

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode(self, pieces: Iterable[str]) -> list[int]:
        """The number of each piece."""
        return list(self.encoded(pieces))

    def encoded(self, pieces: Iterable[str]) -> Iterator[int]:
        """The number of each piece, one after the other."""
        return map(self._tokenizer.convert_tokens_to_ids, pieces)


NO_PIECE = -1  # fills the rows of a table of pieces
LONGEST_TEXT, LONGEST_QUESTION = 512, 384  # pieces; a question counts with its paragraph, as in De Cao et al.


def writes_spaces(tokenizer: Any) -> bool:
    """Whether the first piece of a word holds the space before it, as in tokenizers of bytes (RoBERTa, ModernBERT)."""
    return tokenizer.tokenize("a") != tokenizer.tokenize("a a")[1:]


def piece_table(words: Sequence[str], tokenizer: Any) -> Tensor:
    """The word pieces of each word by itself, long [V, P]; a row is filled with `NO_PIECE` after its last piece.

    Words are read as `spellings.plain_form` writes them. If the tokenizer `writes_spaces`, each word is given with a
    space before it. A word that has no piece, such as a control character, is the unknown piece. Of a word of more
    pieces than `MOST_PIECES`, the first ones are read, so that a single one does not make all rows as long as itself.
    """
    space = " " * writes_spaces(tokenizer)
    plain = [space + plain_form(word) for word in words]
    numbers = tokenizer(plain, add_special_tokens=False)["input_ids"] if plain else []
    rows = [row[:MOST_PIECES] or [tokenizer.unk_token_id] for row in numbers]
    table = torch.full((len(rows), max(map(len, rows), default=1)), NO_PIECE)
    for i, row in enumerate(rows):
        table[i, : len(row)] = torch.tensor(row)
    return table


def build_pieces(splits: dict[str, Sequence[Example]], tokenizer: Any) -> tuple[Vocabulary, Tensor]:
    """All words of a task, and the table of their pieces, long [V, P]; see `piece_table`.

    Row 0, the unknown word, is the unknown piece. Row 1, padding, has no piece.
    """
    vocabulary = Vocabulary(words_of(splits.values()))
    rows = piece_table(vocabulary.words, tokenizer)
    rows[: len(vocabulary.specials)] = NO_PIECE
    rows[vocabulary.unk, 0] = tokenizer.unk_token_id
    return vocabulary, rows


def to_pieces(examples: Sequence[Example], tokenizer, longest: int = LONGEST_TEXT) -> list[Example]:
    """Texts as word pieces between [CLS] and [SEP]; `word_labels` has the label of each piece's word, -1 at separators.

    Words are read as `spellings.plain_form` writes them. A longer text is cut. A word that looks like a separator is
    none: `[SEP]` in a text becomes the pieces of its characters.
    """
    words = [[plain_form(token) for token in example.tokens] for example in examples]
    encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=longest, split_special_tokens=True)
    result = []
    for row, example in enumerate(examples):
        labels = None
        if example.word_labels is not None:
            words_of = encoded.word_ids(row)
            labels = tuple(-1 if word is None else example.word_labels[word] for word in words_of)
        pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"][row])
        result.append(Example(tuple(pieces), example.label, word_labels=labels))
    return result


SEPARATORS = ("[CLS]", "[SEP]")

# part of speech -> first letters of its tags in C5, a tag set of the British National Corpus
SPEECH = {
    "noun": ("NN", "NP"), "verb": ("V",), "adjective": ("AJ",), "adverb": ("AV", "XX"), "pronoun": ("PN",),
    "determiner": ("AT", "D"), "preposition": ("PR", "TO"), "conjunction": ("CJ",), "number": ("CRD", "ORD"),
    "punctuation": ("PU", "POS"),
}  # fmt: skip


def parts_of_speech(pieces: Sequence[str]) -> list[str]:
    """The part of speech of each piece's word, by the package HanTa; separators form their own kinds.

    Pieces are first joined to words (`fun ##ny`, `' s`, `n ' t`). Proper nouns cannot be recognised in lower case, so
    all nouns form one kind.

    Returns
    -------
    list of str, length T: a key of `SPEECH`, "other", or one of `SEPARATORS`
    """
    words: list[list[int]] = []  # positions of each
    for i, piece in enumerate(pieces):
        clitic = i > 0 and pieces[i - 1] == "'" and piece in ("s", "t", "re", "ve", "ll", "d", "m")
        if words and (piece.startswith("##") or clitic):
            words[-1].append(i)
        else:
            words.append([i])
        if clitic and piece == "t" and len(words) > 1 and pieces[words[-2][-1]] not in SEPARATORS:
            words[-2:] = [words[-2] + words[-1]]
    spelled = ["".join(pieces[i].removeprefix("##") for i in places) for places in words]
    kinds = [""] * len(pieces)
    for places, word, (_, _, tag) in zip(words, spelled, _tagger().tag_sent(spelled), strict=True):
        matches = (kind for kind, tags in SPEECH.items() if tag.startswith(tags))
        kind = word if word in SEPARATORS else next(matches, "other")
        for i in places:
            kinds[i] = kind
    return kinds


@cache
def _tagger():
    return optional("HanTa.HanoverTagger", "parts of speech", "pretrained").HanoverTagger("morphmodel_en.pgz")


def sentiments(pieces: Sequence[str], word_labels: Sequence[int], labels: Sequence[str]) -> list[str]:
    """The sentiment that people gave to each piece's word, one of `labels`; separators stay as they are."""
    return [piece if label < 0 else labels[label] for piece, label in zip(pieces, word_labels, strict=True)]


@dataclass(frozen=True)
class SpanExample(Example):
    """A question and its paragraph as word pieces, with the characters that each piece comes from.

    Parameters
    ----------
    question : Question
    offsets : tuple of (start, end), length T
        Range of characters of each piece in its text, which is the question or the paragraph.
    """

    question: Question = field(kw_only=True)
    offsets: tuple[tuple[int, int], ...] = ()

    def answer(self, first: int, last: int) -> str:
        """The paragraph's text from piece `first` to piece `last`; empty if `last` is before `first`."""
        return self.question.context[self.offsets[first][0] : self.offsets[last][1]] if first <= last else ""


def to_spans(questions: Sequence[Question], tokenizer, longest: int = LONGEST_QUESTION) -> list[SpanExample]:
    """[CLS] question [SEP] paragraph [SEP] as word pieces; `label`: first and last piece of the first answer.

    `rationale` is True at the pieces of the answer. Examples with more than `longest` pieces are left out, as in the
    paper, and so are those whose answer has no piece, such as a single accent. A word that looks like a separator is
    none.
    """
    result = []
    encoded = tokenizer(
        [one.question for one in questions],
        [one.context for one in questions],
        return_offsets_mapping=True,
        split_special_tokens=True,
    )
    for row, one in enumerate(questions):
        pieces = tokenizer.convert_ids_to_tokens(encoded["input_ids"][row])
        if len(pieces) > longest:
            continue
        start, text = one.answers[0]
        spans, segment = encoded["offset_mapping"][row], encoded.sequence_ids(row)
        inside = [
            side == 1 and low < start + len(text) and high > start
            for side, (low, high) in zip(segment, spans, strict=True)
        ]
        if not any(inside):
            continue
        first, last = inside.index(True), len(inside) - 1 - inside[::-1].index(True)
        label = (float(first), float(last))
        result.append(SpanExample(tuple(pieces), label, tuple(inside), question=one, offsets=tuple(spans)))
    return result


def span_scores(answers: Tensor, targets: Tensor, examples: Sequence[SpanExample]) -> dict[str, float]:
    """accuracy (both ends are right), and SQuAD's official exact_match and f1.

    The official scores ignore case, punctuation and articles, and take the best over a question's answers.

    Parameters
    ----------
    answers, targets : [N, 2], first and last position
    examples : N of `to_spans`
    """
    squad = optional("torchmetrics.functional.text", "scores of spans", "pretrained").squad
    answers = answers.long()
    predictions = [
        {"id": str(i), "prediction_text": example.answer(*ends)}
        for i, (example, ends) in enumerate(zip(examples, answers.tolist(), strict=True))
    ]
    references: list[dict[str, Any]] = []
    for i, example in enumerate(examples):
        starts, texts = zip(*example.question.answers, strict=True)
        references.append({"id": str(i), "answers": {"answer_start": list(starts), "text": list(texts)}})
    official = {name: value.item() / 100 for name, value in squad(predictions, references).items()}
    return {"accuracy": (answers == targets.long()).all(1).double().mean().item()} | official
