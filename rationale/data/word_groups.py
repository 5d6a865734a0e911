"""Texts as a classifier's own tokenizer encodes them, and the word to which each of their pieces belongs.

    text    A well-made film.
    words   A  well-made         film  .
    pieces  [CLS]  a  well  -  made  film  .  [SEP]
    word       -1  0     1  1     1     2  3     -1

A classifier has to read a text as it always does, so its tokenizer decides about the pieces. What is masked are words:
the pieces whose characters belong to one word share a gate. If a piece has characters of several words, these words
share a gate as well.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rationale.data.batches import Batch, Batches
from rationale.data.characters import token_spans
from rationale.data.example import Example
from rationale.data.own.marks import HALF

SPECIAL = -1  # in place of the word of a piece that belongs to none: [CLS], [SEP], padding
ENCODING = threading.Lock()  # a fast tokenizer keeps the length to which it cuts, so only one thread may call it


class GroupedText(NamedTuple):
    """A text in pieces, and its words."""

    numbers: tuple[int, ...]  # of the pieces, [N]
    word: tuple[int, ...]  # of each piece, from 0; or `SPECIAL`
    tokens: tuple[str, ...]  # [T]
    word_of_token: tuple[int, ...]  # [T]; `SPECIAL` for a token without a piece
    unknown: tuple[str, ...]  # the tokens of which the tokenizer knows no piece
    is_cut: bool  # whether tokens at the end have no piece, because the text is longer than the classifier reads

    @property
    def num_words(self) -> int:
        """The number of words that have a gate."""
        return max(self.word, default=SPECIAL) + 1


def group_texts(
    texts: Sequence[str], tokenizer: Any, split: Callable[[str], Sequence[str]], longest: int
) -> Iterator[GroupedText]:
    """Encode texts, and find the word of each piece.

    Parameters
    ----------
    texts : of str
    tokenizer : fast tokenizer of the package transformers
    split : function
        From a text to its words.
    longest : int
        Largest number of pieces, with the special ones. A longer text is cut.
    """
    whole = [HALF.sub("\ufffd", text) for text in texts]  # no tokenizer takes half a character
    with ENCODING:
        encoded = tokenizer(
            whole, truncation=True, max_length=longest, return_offsets_mapping=True, return_special_tokens_mask=True
        )
    for row, text in enumerate(whole):
        numbers, tokens = encoded["input_ids"][row], tuple(split(texts[row]))
        places = [
            None if is_special else span
            for span, is_special in zip(
                encoded["offset_mapping"][row], encoded["special_tokens_mask"][row], strict=True
            )
        ]
        touched = _tokens_of_pieces(text, token_spans(texts[row], tokens), places)
        word, word_of_token = _grouped(touched, len(tokens))
        last = max((token for part in touched for token in part or ()), default=-1)
        known = {token for number, part in zip(numbers, touched, strict=True) for token in part or ()
                 if number != tokenizer.unk_token_id}  # fmt: skip
        unknown = tuple(tokens[i] for i, group in enumerate(word_of_token) if group != SPECIAL and i not in known)
        is_cut = len(numbers) >= longest and last < len(tokens) - 1
        yield GroupedText(tuple(numbers), word, tokens, word_of_token, unknown, is_cut)


def _tokens_of_pieces(
    text: str, spans: Sequence[tuple[int, int]], places: Sequence[tuple[int, int] | None]
) -> list[set[int] | None]:
    """The tokens that have characters in common with each piece; None for special pieces.

    A piece that has none, such as the mark that a space is written as, belongs to the next piece, or to the one before.
    """
    owner = [SPECIAL] * len(text)
    for token, (start, end) in enumerate(spans):
        owner[start:end] = [token] * (end - start)
    found = [None if place is None else set(owner[slice(*place)]) - {SPECIAL} for place in places]
    for order in (range(len(found) - 1, -1, -1), range(len(found))):
        beside: set[int] = set()
        for i in order:
            if found[i] == set():
                found[i] = beside
            beside = found[i] or set()
    return found


def _grouped(touched: Sequence[set[int] | None], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The word of each piece and of each of `count` tokens, where tokens with a common piece are one word."""
    root = list(range(count))

    def find(token: int) -> int:
        while root[token] != token:
            token = root[token]
        return token

    for part in touched:
        tokens = sorted(part or ())
        for other in tokens[1:]:
            low, high = sorted((find(tokens[0]), find(other)))
            root[high] = low
    named: dict[int, int] = {}  # first token of a word -> its number
    word = tuple(named.setdefault(find(min(part)), len(named)) if part else SPECIAL for part in touched)
    seen = {token for part in touched for token in part or ()}
    return word, tuple(named[find(token)] if token in seen else SPECIAL for token in range(count))


class Pieces(NamedTuple):
    """The pieces of B texts, padded.

    Attributes
    ----------
    numbers : long [B, N]
    real : bool [B, N]
        False for padding.
    word : long [B, N]
        The number of the word in its text, or `SPECIAL`.
    """

    numbers: Tensor
    real: Tensor
    word: Tensor


class _Numbers:
    """A vocabulary of pieces that are given by their numbers."""

    def __init__(self, pad: int):
        self.pad = pad

    def encoded(self, numbers: Iterable[str]) -> Iterator[int]:
        """The numbers that are written as texts."""
        return map(int, numbers)


class GroupedBatches(Batches):
    """Batches of grouped texts: `tokens` are `Pieces`, and `mask`, bool [B, W], says which words there are.

    Parameters
    ----------
    texts : of GroupedText
    pad : int
        The number of the piece for padding.
    *args, **kwargs
        As for `Batches`.
    """

    def __init__(self, texts: Sequence[GroupedText], pad: int, *args: Any, **kwargs: Any):
        examples = [Example(tuple(map(str, text.numbers)), 0) for text in texts]
        super().__init__(examples, _Numbers(pad), *args, **kwargs)  # type: ignore[arg-type]
        self._word = torch.tensor(list(chain.from_iterable(text.word for text in texts))).to(self.device)
        self._num_words = torch.tensor([text.num_words for text in texts])  # [N], on the CPU

    def rows(self, index: Tensor) -> Batch[Pieces]:
        """The batch of these texts, in this order."""
        batch = super().rows(index)
        index = index.to(self.device)
        position = torch.arange(batch.tokens.shape[1], device=self.device)
        where = (self._starts[index, None] + position).clamp(max=len(self._word) - 1)  # [B, N]
        word = self._word[where].masked_fill(~batch.mask, SPECIAL)
        counts = self._num_words[index.cpu()]
        mask = torch.arange(max(1, int(counts.max()))) < counts[:, None]  # [B, W]
        return Batch(Pieces(batch.tokens, batch.mask, word), mask.to(self.device), batch.target, batch.rows)
