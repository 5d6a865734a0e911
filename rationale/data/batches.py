"""From examples to padded batches: words to numbers, texts of similar length together."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from rationale.data.example import Example
from rationale.errors import BadInput
from rationale.settings import Settings, setting

Tokens = TypeVar("Tokens")  # of a batch: Tensor (texts) or Sides (pairs of texts)


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
        known = [word for word in words if word not in self.specials]
        self.words = [*self.specials, *known]
        self._index = {word: row for row, word in enumerate(known, start=len(self.specials))}
        if len(self._index) != len(known):
            repeated = next(word for row, word in enumerate(known) if word in known[:row])
            raise ValueError(f"words: {repeated!r} comes twice; every word needs a row of its own")

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """The row of each token; `unk` for unknown tokens."""
        return [self._index.get(token, self.unk) for token in tokens]

    def unknown(self, tokens: Iterable[str]) -> list[str]:
        """The unknown tokens, in order, including repetitions."""
        return [token for token in tokens if token not in self._index]


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
    """

    tokens: Tokens
    mask: Tensor
    target: Tensor
    rows: Tensor


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

    Raises
    ------
    BadInput
        No examples, an example without tokens, labels of different kinds.
    ValueError
        batch_size below 1.
    """

    def __init__(
        self,
        examples: Sequence[Example],
        vocabulary: Vocabulary,
        batch_size: int,
        seed: int = 0,
        bucketed: bool = True,
        device: torch.device | str = "cpu",
    ):
        if batch_size < 1:
            raise ValueError(f"batch_size: {batch_size}; accepted: a whole number from 1")
        if not examples:
            raise BadInput("examples: none given; at least one is needed")
        for row, example in enumerate(examples):
            if not example.tokens:
                raise BadInput(f"example {row} (counted from 0): no tokens; every text needs at least one")
        self.examples, self.vocabulary = examples, vocabulary
        self.batch_size, self.seed, self.bucketed = batch_size, seed, bucketed
        self.device = torch.device(device)
        self.lengths = torch.tensor([len(example.tokens) for example in examples])  # [N], stays on the CPU
        self.order_by = self.lengths  # texts of one batch are similar in this
        flat = torch.tensor([row for example in examples for row in vocabulary.encode(example.tokens)])
        self._flat = flat.to(self.device)  # [sum of lengths]
        self._starts = (self.lengths.cumsum(0) - self.lengths).to(self.device)  # [N]
        self._device_lengths = self.lengths.to(self.device)  # [N]
        self._targets = _targets(examples).to(self.device)  # [N] or [N, K]

    def __len__(self) -> int:
        """Number of batches in an epoch."""
        return -(-len(self.examples) // self.batch_size)

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
        return self._cut(order, self.batch_size, torch.randperm(len(self), generator=generator))

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
        order, size = torch.argsort(self.order_by, stable=True), max_batch or self.batch_size
        lengths, start = self.lengths[order].tolist(), 0
        while start < len(lengths):
            end = start + 1
            while end < min(start + size, len(lengths)) and (end + 1 - start) * lengths[end] <= max_tokens:
                end += 1
            yield self.rows(order[start:end])
            start = end

    def rows(self, index: Tensor) -> Batch[Any]:
        """The batch of these examples, in this order.

        Parameters
        ----------
        index : long [B] on the CPU, in [0, N)
        """
        longest = int(self.lengths[index].max())  # on the CPU, to avoid a synchronisation with the device
        index = index.to(self.device)
        position = torch.arange(longest, device=self.device)  # [T]
        mask = position < self._device_lengths[index, None]  # [B, T]
        where = (self._starts[index, None] + position).clamp(max=len(self._flat) - 1)  # [B, T]
        tokens = self._flat[where].masked_fill(~mask, self.vocabulary.pad)
        return Batch(tokens, mask, self._targets[index], index)

    def _cut(self, order: Tensor, size: int, batch_order: Tensor | None = None) -> Iterator[Batch[Any]]:
        pieces = order.split(size)
        for number in range(len(pieces)) if batch_order is None else batch_order.tolist():
            yield self.rows(pieces[number])


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
        seconds = [Example(example.second or (), example.label) for example in examples]
        self._seconds = Batches(seconds, second_vocabulary or vocabulary, batch_size, device=self.device)
        self.order_by = self.order_by * (1 + int(self._seconds.lengths.max())) + self._seconds.lengths

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


def encode_pairs(pairs: Sequence[tuple[Sequence[str], Sequence[str]]], vocabulary: Vocabulary) -> Batch[Sides]:
    """One batch of pairs of texts without labels, in the given order; the targets are zeros.

    Parameters
    ----------
    pairs : B pairs of lists of tokens, each with at least one
    vocabulary : Vocabulary
    """
    examples = [Example(tuple(first), 0, second=tuple(second)) for first, second in pairs]
    return PairBatches(examples, vocabulary, max(1, len(examples))).rows(torch.arange(len(examples)))


def _targets(examples: Sequence[Example]) -> Tensor:
    kinds = {len(e.label) if isinstance(e.label, tuple) else None for e in examples}
    if len(kinds) > 1:
        raise BadInput("examples: labels of different kinds; accepted: all class numbers, or all K scores")
    return torch.tensor([e.label for e in examples], dtype=torch.long if None in kinds else torch.float32)
