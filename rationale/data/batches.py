"""From examples to padded batches: words to numbers, texts of similar length together."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from rationale.data.example import Example
from rationale.data.packed import Packed, seconds
from rationale.data.spellings import known_form
from rationale.errors import BadInput
from rationale.settings import Settings, setting

Tokens = TypeVar("Tokens")  # of a batch: Tensor (texts) or Sides (pairs of texts)
EVALUATION_BATCH = 256  # texts of a batch that is only evaluated, at most


class BatchSettings(Settings):
    """Batches."""

    batch_size: int = setting(25, "examples per training step", "[1, inf)")
    bucketed: bool = setting(True, "batches of texts of similar length")


class Vocabulary:
    """The words of a model, numbered; row i of its embedding table belongs to `words[i]`.

    Parameters
    ----------
    words : iterable of str
        Distinct. The two special rows come first whether or not they are given, so `Vocabulary(other.words)` is a
        copy.
        A text that happens to contain `<pad>` is encoded as an unknown word, never as padding.

    Raises
    ------
    ValueError
        If a word comes twice.
    """

    unk, pad = 0, 1
    specials = ("<unk>", "<pad>")

    def __init__(self, words: Iterable[str]):
        known = self.ordinary(words)
        self.words = [*self.specials, *known]
        self._index = {word: row for row, word in enumerate(known, start=len(self.specials))}
        if len(self._index) != len(known):
            repeated = next(word for row, word in enumerate(known) if word in known[:row])
            raise ValueError(f"words: {repeated!r} comes twice; every word needs a row of its own")

    @classmethod
    def ordinary(cls, words: Iterable[str]) -> list[str]:
        """The words that get a row each: all but the names of the two special rows, which a text may contain, too."""
        return [word for word in words if word not in cls.specials]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The row of each token; `unk` for unknown tokens."""
        return list(self.encoded(tokens))

    def encoded(self, tokens: Iterable[str]) -> Iterator[int]:
        """The row of each token, one after the other; see `encode`."""
        return map(self._index.get, tokens, repeat(self.unk))

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """The unknown tokens, in order, including repetitions."""
        return [token for token in tokens if token not in self._index]


class SpelledVocabulary(Vocabulary):
    """A vocabulary in which a word that it does not hold has the row of its first known spelling (`spellings`).

    It is that of models on word vectors: a word of a new text, such as "Great" or "(", then has the vector of a word of
    training, such as "great" or "-LRB-". It is used in training and afterwards, so a trained model answers to a text as
    it did when it was scored.
    """

    def encoded(self, tokens: Iterable[str]) -> Iterator[int]:
        """The row of each token, one after the other; see `encode`."""
        return super().encoded(known_form(token, self._index) for token in tokens)

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """The tokens of which no spelling is known, in order, including repetitions."""
        return super().unknown(known_form(token, self._index) for token in tokens)


class Batch(NamedTuple, Generic[Tokens]):
    """B texts, padded to the longest of them: `Batch[Tensor]`; or B pairs of texts: `Batch[Sides]`.

    Attributes
    ----------
    tokens : long [B, T], or Sides
        Rows of the vocabulary; `Vocabulary.pad` where `mask` is False.
    mask : bool [B, T]
        True for real tokens. Every row holds at least one.
    target : long [B], or float [B, K]
        Class, or K scores.
    rows : long [B]
        Number of the example in each row, so that results can be returned to the order of the file.
    guide : int8 [B, T] or None
        Gold words that guide the gates in training: 1 for a gold word, 0 for another one, -1 where nothing is said.
    """

    tokens: Tokens
    mask: Tensor
    target: Tensor
    rows: Tensor
    guide: Tensor | None = None


class BatchSize(NamedTuple):
    """The size of a padded batch."""

    texts: int
    shape: tuple[int, ...]  # of one row: (T,) for texts, (P, Q) for the cells of pairs

    @property
    def positions(self) -> int:
        """The number of its words, or of its cells, with padding."""
        return self.texts * math.prod(self.shape)


class Batches:
    """All texts of a split as one flat tensor, and the batches cut from it.

    Parameters
    ----------
    examples : N examples, each with at least one token, N >= 1
    vocabulary : Vocabulary
    batch_size : int >= 1
        The last batch of an epoch may be smaller; nothing is dropped.
    seed : int
        Epochs are a pure function of (seed, epoch).
    bucketed : bool
        True: texts of similar length share a batch, which saves nearly all padding. False: plain random batches.
    device : device of the batches; the flat tensor is copied there once.
    max_tokens : int or None
        Largest number of words of a training batch, with padding; only with `bucketed`. None: any. A longer text is a
        batch of its own.
    guided : float, in [0, 1]
        Share of the examples, chosen by `seed`, whose gold rationale becomes `Batch.guide`. 0: there is no guide.

    Raises
    ------
    BadInput
        No examples, an example without tokens, labels of different kinds.
    ValueError
        batch_size below 1, or max_tokens without `bucketed`.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        vocabulary: Vocabulary,
        batch_size: int,
        seed: int = 0,
        bucketed: bool = True,
        device: torch.device | str = "cpu",
        max_tokens: int | None = None,
        guided: float = 0.0,
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size}; accepted: a whole number from 1")
        if max_tokens is not None and not bucketed:
            raise ValueError(f"max_tokens: {max_tokens}; accepted without bucketed: None")
        if not examples:
            raise BadInput("examples: none given; at least one is needed")
        lengths = examples.lengths() if isinstance(examples, Packed) else [len(example.tokens) for example in examples]
        self.examples, self.vocabulary = examples, vocabulary
        self.batch_size, self.seed, self.bucketed = batch_size, seed, bucketed
        self.device = torch.device(device)
        self.lengths = torch.as_tensor(lengths)  # [N], stays on the CPU
        if int(self.lengths.min()) == 0:
            row = int(self.lengths.argmin())
            raise BadInput(f"example {row} (counted from 0): no tokens; every text needs at least one")
        self.order_by = self.lengths  # texts of one batch are similar in this
        self.max_tokens, self._sizes = max_tokens, list[int]()  # sizes of batches, the shortest texts first
        if max_tokens is not None:
            self._sizes = sizes_within(sorted(self.lengths.tolist()), batch_size, max_tokens)
        flat, rows = _numbers(examples, vocabulary, int(self.lengths.sum()))
        self._flat = flat.to(self.device)  # int32 [sum of lengths]
        self._rows = None if rows is None else rows.to(self.device)  # int32 [W], W different words
        self._starts = (self.lengths.cumsum(0) - self.lengths).to(self.device)  # [N]
        self._device_lengths = self.lengths.to(self.device)  # [N]
        self._targets = _targets(examples).to(self.device)  # [N] or [N, K]
        self._guide = _guide(examples, guided, seed).to(self.device) if guided else None  # int8 [sum of lengths]

    @property
    def targets(self) -> Tensor:
        """The classes, long [N], or scores, float [N, K], of all examples in order."""
        return self._targets

    def sums(self, of_word: Tensor) -> Tensor:
        """The sum of one number per word over the words of each text.

        Parameters
        ----------
        of_word : long [V]
            A number for each row of the vocabulary.

        Returns
        -------
        long [N]
        """
        numbers = self._flat.long()
        rows = numbers if self._rows is None else self._rows.long()[numbers]
        text = torch.arange(len(self.lengths), device=self.device).repeat_interleave(self._device_lengths)
        zeros = torch.zeros(len(self.lengths), dtype=torch.long, device=self.device)
        return zeros.index_add_(0, text, of_word.to(self.device)[rows])

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return len(self._sizes) or -(-len(self.examples) // self.batch_size)

    def epoch(self, epoch: int) -> Iterator[Batch[Any]]:
        """Training batches: every example once, in an order that depends on (seed, epoch) alone.

        Shuffle the examples. If `bucketed`, sort them by length (a stable sort: equal lengths stay shuffled), cut
        them into batches, and shuffle the batches.
        """
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
        order = torch.randperm(len(self.examples), generator=generator)  # [N]
        if not self.bucketed:
            return self._cut(order, self.batch_size)
        order = order[torch.argsort(self.order_by[order], stable=True)]
        return self._cut(order, self._sizes or self.batch_size, torch.randperm(len(self), generator=generator))

    def in_order(self, max_batch: int | None = None, max_tokens: int = 32_768) -> Iterator[Batch[Any]]:
        """Evaluation batches: every example once, shortest first; `Batch.rows` holds the number of each.

        Parameters
        ----------
        max_batch : int >= 1, or None
            Texts per batch; None: `batch_size`.
        max_tokens : int
            Largest product of the number of texts and the longest length, for a batch of several texts, so that long
            texts do not fill the memory.
        """
        yield from map(self.rows, self._pieces_in_order(max_batch, max_tokens))

    def largest_in_order(self, max_batch: int | None = None, max_tokens: int = 32_768) -> "BatchSize":
        """The size of the largest batch of `in_order`, whose parameters these are."""
        pieces = self._pieces_in_order(max_batch, max_tokens)
        return max((BatchSize(len(rows), self._shape(rows)) for rows in pieces), key=lambda size: size.positions)

    def _pieces_in_order(self, max_batch: int | None, max_tokens: int) -> Sequence[Tensor]:
        """The numbers of the examples of each batch of `in_order`."""
        order = torch.argsort(self.order_by, stable=True)
        return order.split(sizes_within(self.lengths[order].tolist(), max_batch or self.batch_size, max_tokens))

    def largest(self) -> "BatchSize":
        """The size of the largest batch that an epoch of training can have."""
        order = torch.argsort(self.order_by) if self.bucketed else torch.arange(len(self.examples))
        sizes = []
        for rows in order.split(self._sizes or self.batch_size):
            worst = rows if self.bucketed else order  # a random batch may hold the longest text
            sizes.append(BatchSize(len(rows), self._shape(worst)))
        return max(sizes, key=lambda size: size.positions)

    def _shape(self, rows: Tensor) -> tuple[int, ...]:
        """The padded length of these examples."""
        return (int(self.lengths[rows].max()),)

    def rows(self, index: Tensor) -> Batch[Any]:
        """The batch of these examples, in this order.

        Parameters
        ----------
        index : long [B] on the CPU, in [0, N)
        """
        longest = int(self.lengths[index].max())  # on the CPU, to avoid a synchronisation with the device
        if self.device.type == "cuda":
            index = index.pin_memory()  # from other memory, a copy waits until the GPU has computed the step before
        index = index.to(self.device, non_blocking=True)
        position = torch.arange(longest, device=self.device)  # [T]
        mask = position < self._device_lengths[index, None]  # [B, T]
        where = (self._starts[index, None] + position).clamp(max=len(self._flat) - 1)  # [B, T]
        numbers = self._flat[where]  # int32 [B, T]
        rows = numbers if self._rows is None else self._rows[numbers]
        tokens = rows.long().masked_fill_(~mask, self.vocabulary.pad)
        guide = None if self._guide is None else self._guide[where].masked_fill_(~mask, -1)
        return Batch(tokens, mask, self._targets[index], index, guide)

    def _cut(self, order: Tensor, size: int | list[int], batch_order: Tensor | None = None) -> Iterator[Batch[Any]]:
        pieces = order.split(size)
        for number in range(len(pieces)) if batch_order is None else batch_order.tolist():
            yield self.rows(pieces[number])


def sizes_within(lengths: Sequence[int], batch_size: int, max_tokens: int) -> list[int]:
    """How many texts each batch has, if texts in this order are cut into batches as large as the two limits allow.

    A text that is longer than max_tokens is a batch of its own.

    Parameters
    ----------
    lengths : N numbers of words; each batch is padded to its last text
    batch_size : int >= 1
        Largest number of texts.
    max_tokens : int
        Largest product of the number of texts and the length of the last one.

    Examples
    --------
    >>> sizes_within([2, 3, 3, 5, 9], batch_size=3, max_tokens=10)
    [3, 1, 1]
    """
    sizes, start = [], 0
    while start < len(lengths):
        end = start + 1
        while end < min(start + batch_size, len(lengths)) and (end + 1 - start) * lengths[end] <= max_tokens:
            end += 1
        sizes.append(end - start)
        start = end
    return sizes


class Sides(NamedTuple):
    """Both texts of B pairs, padded; real tokens come first in each row.

    Attributes
    ----------
    first : long [B, P]
        A premise, a source text, a sequence of digits.
    first_mask : bool [B, P]
        True for real tokens.
    second : long [B, Q]
        The second text of each example: a hypothesis, a target text, a query.
    second_mask : bool [B, Q]
    """

    first: Tensor
    first_mask: Tensor
    second: Tensor
    second_mask: Tensor

    def cells(self) -> Tensor:
        """True for each pair of a real word of the first text and a real word of the second: bool [B, P Q]."""
        return (self.first_mask.unsqueeze(2) & self.second_mask.unsqueeze(1)).flatten(1)


class PairBatches(Batches):
    """Batches of pairs: `tokens` are `Sides`. Pairs are bucketed by the length of the first text, then of the second.

    Parameters
    ----------
    examples, vocabulary, batch_size, *args, **kwargs
        As for `Batches`; every example has a `second` text.
    second_vocabulary : Vocabulary or None
        Vocabulary of the second texts; None: `vocabulary`.
    cells : bool
        True: `mask` covers the cells [B, P Q], words of the first text by words of the second.
        False: `mask` covers the words of the first text, [B, P].
    """

    def __init__(
        self,
        examples: Sequence[Example],
        vocabulary: Vocabulary,
        batch_size: int,
        *args,
        second_vocabulary: Vocabulary | None = None,
        cells: bool = True,
        **kwargs,
    ):
        super().__init__(examples, vocabulary, batch_size, *args, **kwargs)
        self.cells = cells
        self._seconds = Batches(seconds(examples), second_vocabulary or vocabulary, batch_size, device=self.device)
        self.order_by = self.order_by * (1 + int(self._seconds.lengths.max())) + self._seconds.lengths

    def _shape(self, rows: Tensor) -> tuple[int, ...]:
        """The padded lengths of both texts of these pairs, as the sides of a matrix of cells."""
        return (int(self.lengths[rows].max()), int(self._seconds.lengths[rows].max()))

    def rows(self, index: Tensor) -> Batch[Sides]:
        """The batch of these pairs, in this order."""
        first, second = super().rows(index), self._seconds.rows(index)
        sides = Sides(first.tokens, first.mask, second.tokens, second.mask)
        return Batch(sides, sides.cells() if self.cells else first.mask, first.target, first.rows)


def encode(texts: Sequence[Sequence[str]], vocabulary: Vocabulary, device: torch.device | str = "cpu") -> Batch[Tensor]:
    """One batch of texts without labels, in the given order; the targets are zeros.

    Parameters
    ----------
    texts : B lists of tokens, each with at least one
    vocabulary : Vocabulary

    Raises
    ------
    BadInput
        No texts, or one without tokens.
    """
    examples = [Example(tuple(tokens), label=0) for tokens in texts]
    everything = torch.arange(len(examples))
    return Batches(examples, vocabulary, max(1, len(examples)), device=device).rows(everything)


def encode_pairs(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], vocabulary: Vocabulary, device: torch.device | str = "cpu"
) -> Batch[Sides]:
    """One batch of pairs of texts without labels, in the given order; the targets are zeros.

    Parameters
    ----------
    pairs : B pairs of lists of tokens, each with at least one
    vocabulary : Vocabulary
    """
    examples = [Example(tuple(first), 0, second=tuple(second)) for first, second in pairs]
    return PairBatches(examples, vocabulary, max(1, len(examples)), device=device).rows(torch.arange(len(examples)))


def _numbers(examples: Sequence[Example], vocabulary: Vocabulary, count: int) -> tuple[Tensor, Tensor | None]:
    """The numbers of all tokens, one text after the other: int32 [count]; and the row of each number, int32 [W].

    If the second is None, the numbers are themselves rows of the vocabulary. Otherwise they are the numbers of
    `Packed`, whose array we share and do not keep twice. (If it is mapped from a file, we copy it, because it may not
    be written to.)
    """
    if isinstance(examples, Packed):
        numbers = examples.numbers()
        rows = torch.tensor(vocabulary.encode(examples.words), dtype=torch.int32)
        return torch.from_numpy(numbers if numbers.flags.writeable else numbers.copy()), rows
    words = chain.from_iterable(example.tokens for example in examples)
    return torch.from_numpy(np.fromiter(vocabulary.encoded(words), np.int32, count)), None


def _guide(examples: Sequence[Example], share: float, seed: int) -> Tensor:
    """1 for each gold word of this share of the annotated examples, 0 for their other words, -1 elsewhere.

    It is an int8 tensor of all tokens.
    """
    annotated = [i for i, example in enumerate(examples) if example.rationale is not None]
    if not annotated:
        raise BadInput("guidance: no training text has a gold rationale; accepted: 0, or texts with gold words")
    order = torch.randperm(len(annotated), generator=torch.Generator().manual_seed(seed))
    number = max(1, math.ceil(round(share * len(annotated), 9)))  # 0.07 * 100 is a little more than 7
    guided = {annotated[k] for k in order[:number].tolist()}
    flags: list[int] = []
    for i, example in enumerate(examples):
        flags += map(int, example.rationale or ()) if i in guided else [-1] * len(example.tokens)
    return torch.tensor(flags, dtype=torch.int8)


def _targets(examples: Sequence[Example]) -> Tensor:
    labels = examples.labels() if isinstance(examples, Packed) else [example.label for example in examples]
    kinds = {len(label) if isinstance(label, tuple) else None for label in labels}
    if len(kinds) > 1:
        raise BadInput("examples: labels of different kinds; accepted: all class numbers, or all K scores")
    return torch.tensor(labels, dtype=torch.long if None in kinds else torch.float32)
