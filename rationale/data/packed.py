"""Examples as arrays: each different word once, and columns of numbers; an example is made when it is asked for."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from typing import overload

import numpy as np

from rationale.data.example import Example

MANY = 1000  # training texts; with as many or more, a word that occurs once is not learned
WORDS, ENDS = "words", "word_ends"  # the letters of all words, UTF-8; where each word ends
_TOKENS, _SECOND, _PHRASES, _LABEL, _RATIONALE = "tokens", "second", "phrases", "label", "rationale"
_FLAGS = (_RATIONALE, "informative")  # True or False per token
_PER_TOKEN = dict.fromkeys(_FLAGS, np.uint8) | {"word_labels": np.int32}  # a text has one value per token, or none
_FIELDS = (*_PER_TOKEN, _PHRASES, _SECOND)  # of an example, beside its tokens and its label
_CHUNK = 1024  # examples made at once when all are asked for


class Packed(Sequence[Example]):
    """The examples of a split; an `Example` is made each time that one is asked for, and equals the original.

    A slice without a step is again `Packed` and shares the arrays.

    Parameters
    ----------
    words : list of str
        The different words, of all splits of a corpus.
    columns : name -> array
        As `pack` makes them; the arrays may be mapped from a file.
    rows : range of step 1
        The examples of the arrays that belong to this sequence.
    """

    def __init__(self, words: list[str], columns: Mapping[str, np.ndarray], rows: range):
        self.words, self.columns, self.rows = words, columns, rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | Sequence[Example]:
        if isinstance(index, slice):
            rows = self.rows[index]
            return (
                Packed(self.words, self.columns, rows) if rows.step == 1 else [self[i] for i in range(len(self))[index]]
            )
        return next(self._made(range(self.rows[index], self.rows[index] + 1)))

    def __iter__(self) -> Iterator[Example]:
        for start in range(self.rows.start, self.rows.stop, _CHUNK):
            yield from self._made(range(start, min(start + _CHUNK, self.rows.stop)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(own == one for own, one in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def numbers(self) -> np.ndarray:
        """The numbers of the words of all texts in `words`, one text after the other: int32 [sum of lengths]."""
        first, last = self._bounds(_TOKENS)
        return self.columns[_TOKENS][first:last]

    def lengths(self) -> np.ndarray:
        """The number of tokens of each text: int64 [N]."""
        first, _ = self._bounds(_TOKENS)
        return np.diff(self.columns[f"{_TOKENS}_ends"][self.rows.start : self.rows.stop], prepend=first)

    def labels(self) -> list[int] | list[tuple[float, ...]]:
        """The label of each example."""
        return self._labels(self.rows)

    def _labels(self, rows: range) -> list:
        labels = self.columns[_LABEL][rows.start : rows.stop]
        return list(map(tuple, labels.tolist())) if labels.ndim > 1 else labels.tolist()

    def _bounds(self, column: str) -> tuple[int, int]:
        """Where the values of these examples begin and end in a column."""
        return _bounds(self.columns[f"{column}_ends"], self.rows)

    def _made(self, rows: range) -> Iterator[Example]:
        columns = (self._cut(name, rows) for name in (_TOKENS, *_FIELDS))
        for text, *values, label in zip(*columns, self._labels(rows), strict=True):
            yield Example(text, label, **dict(zip(_FIELDS, values, strict=True)))

    def _cut(self, name: str, rows: range) -> Iterable:
        """The values of a column, cut into tuples, one per example; None where an example has none."""
        if name not in self.columns:
            return [None] * len(rows)
        ends = self.columns[f"{name}_ends"]
        start, stop = _bounds(ends, rows)
        numbers = self.columns[name][start:stop]
        if name in (_TOKENS, _SECOND):
            values: tuple = tuple(map(self.words.__getitem__, numbers.tolist()))
        elif name == _PHRASES:
            values = tuple(zip(*numbers.T.tolist(), strict=True))
        else:
            values = tuple((numbers != 0 if name in _FLAGS else numbers).tolist())
        stops = (ends[rows.start : rows.stop] - start).tolist()
        has = self.columns[f"{name}_has"][rows.start : rows.stop].tolist()
        pieces = zip([0, *stops[:-1]], stops, has, strict=True)
        return [values[first:last] if is_there else None for first, last, is_there in pieces]


def _bounds(ends: np.ndarray, rows: range) -> tuple[int, int]:
    if not rows:
        return 0, 0
    return int(ends[rows.start - 1]) if rows.start else 0, int(ends[rows.stop - 1])


def seconds(examples: Sequence[Example]) -> Sequence[Example]:
    """The second texts of pairs as texts of their own, with the labels of the pairs."""
    if isinstance(examples, Packed) and examples.columns.get(f"{_SECOND}_has", np.zeros(1)).all():
        columns = {name.replace(_SECOND, _TOKENS): examples.columns[name] for name in _of(_SECOND)}
        return Packed(examples.words, columns | {_LABEL: examples.columns[_LABEL]}, examples.rows)
    return [Example(example.second or (), example.label) for example in examples]


def fewest_occurrences(num_texts: int) -> int:
    """How often a word has to occur in the training texts so that it is learned: twice, or once if they are few."""
    return 2 if num_texts >= MANY else 1


def repeated_words(examples: Sequence[Example], times: int) -> list[str]:
    """The different words that occur at least so many times in the texts of a split, sorted."""
    if isinstance(examples, Packed):
        counts = np.bincount(examples.numbers(), minlength=len(examples.words))
        return sorted(examples.words[i] for i in np.flatnonzero(counts >= times).tolist())
    number = Counter(token for example in examples for token in example.tokens)
    return sorted(word for word, count in number.items() if count >= times)


def words_of(splits: Iterable[Sequence[Example]]) -> list[str]:
    """The different words of the texts, sorted."""
    found: set[str] = set()
    for examples in splits:
        if isinstance(examples, Packed):
            found.update(map(examples.words.__getitem__, np.unique(examples.numbers()).tolist()))
        else:
            found.update(*(example.tokens for example in examples))
    return sorted(found)


class Texts:
    """Texts that are collected one by one: numbers of words, and what belongs to each word.

    A text takes 4 bytes per word, one more per word if its rationale is marked, and a few for where it ends.

    Parameters
    ----------
    words : dict
        Numbers of the words, to which new ones are added; several collections may share it.
    """

    def __init__(self, words: dict[str, int]):
        self._words = words
        self._columns = {_TOKENS: _Column("i"), _SECOND: _Column("i"), _RATIONALE: _Column("B")}

    def __len__(self) -> int:
        return len(self._columns[_TOKENS].ends)

    def add(
        self, tokens: Sequence[str], rationale: Sequence[bool] | None = None, second: Sequence[str] | None = None
    ) -> None:
        """Add a text; the arguments are those of an `Example`."""
        self._columns[_TOKENS].add(self._numbered(tokens))
        self._columns[_SECOND].add(None if second is None else self._numbered(second))
        self._columns[_RATIONALE].add(rationale)

    def _numbered(self, tokens: Sequence[str]) -> list[int]:
        words = self._words
        return [words.setdefault(word, len(words)) for word in tokens]


class _Column:
    """A column of rows of different lengths that grows row by row; None is a row that has no value."""

    def __init__(self, kind: str):
        self.values, self.ends, self.has = array(kind), array("q"), array("B")

    def add(self, row: Iterable[int] | None) -> None:
        self.values.extend(row or ())
        self.ends.append(len(self.values))
        self.has.append(row is not None)


def packed(
    words: Mapping[str, int], parts: Sequence[Texts], rows: Sequence[tuple[int, int]], labels: Sequence
) -> Packed:
    """Some of the texts that were collected, in this order, with their labels.

    Parameters
    ----------
    words : numbers of the words, of all parts
    parts : collections of texts
    rows : N pairs
        The number of a part, and of a text in it.
    labels : N classes, or N tuples of scores
    """
    is_scored = bool(labels) and isinstance(labels[0], tuple)
    columns: dict[str, np.ndarray] = {_LABEL: np.array(labels, np.float64 if is_scored else np.int64)}
    for name, kind in ((_TOKENS, np.int32), (_SECOND, np.int32), (_RATIONALE, np.uint8)):
        of_parts = [part._columns[name] for part in parts]
        has = np.fromiter((of_parts[part].has[row] for part, row in rows), np.uint8, len(rows))
        if not has.any():
            continue
        bounds = [(of_parts[part].ends[row - 1] if row else 0, of_parts[part].ends[row]) for part, row in rows]
        ends = np.cumsum([last - first for first, last in bounds], dtype=np.int64)
        values = np.empty(ends[-1], kind)
        views = [np.asarray(column.values) for column in of_parts]
        for (part, _), (first, last), end in zip(rows, bounds, ends.tolist(), strict=True):
            values[end - (last - first) : end] = views[part][first:last]
        columns |= dict(zip(_of(name), (values, ends, has), strict=True))
    return Packed(list(words), columns, range(len(rows)))


def pack(splits: Mapping[str, Sequence[Example]]) -> dict[str, np.ndarray] | None:
    """The splits as arrays, named `split.column`, and the words of all of them.

    Returns
    -------
    dict, or None
        None: they cannot be packed without a loss, because there are other objects than plain examples, or labels of
        different kinds.
    """
    numbers: dict[str, int] = {}
    arrays: dict[str, np.ndarray] = {}
    for split, examples in splits.items():
        columns = _columns(examples, numbers)
        if columns is None:
            return None
        arrays |= {f"{split}.{name}": column for name, column in columns.items()}
    letters = [word.encode("utf-8", "surrogatepass") for word in numbers]
    arrays[WORDS] = np.frombuffer(b"".join(letters), np.uint8)
    arrays[ENDS] = np.cumsum([len(word) for word in letters], dtype=np.int64)
    is_same = all(
        own == examples for own, examples in zip(unpack(arrays, splits).values(), splits.values(), strict=True)
    )
    return arrays if is_same else None


def unpack(arrays: Mapping[str, np.ndarray], splits: Iterable[str]) -> dict[str, Packed]:
    """The splits of these names from the arrays of `pack`."""
    letters, ends = bytes(arrays[WORDS]), arrays[ENDS].tolist()
    starts = [0, *ends[:-1]]
    words = [intern(letters[a:b].decode("utf-8", "surrogatepass")) for a, b in zip(starts, ends, strict=True)]
    found = {}
    for split in splits:
        prefix = f"{split}."
        columns = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        found[split] = Packed(words, columns, range(len(columns[_LABEL])))
    return found


def _columns(examples: Sequence[Example], numbers: dict[str, int]) -> dict[str, np.ndarray] | None:
    if any(type(example) is not Example for example in examples):
        return None
    labels = [example.label for example in examples]
    kinds = set(map(type, labels))
    if len(kinds) > 1:
        return None
    is_scored = kinds == {tuple}
    flat = [score for label in labels for score in label] if is_scored else labels  # type: ignore[union-attr]
    if any(type(value) is not (float if is_scored else int) for value in flat):
        return None
    try:
        columns = {_LABEL: np.array(labels, np.float64 if is_scored else np.int64)}
    except ValueError:  # different numbers of scores
        return None
    for name in (_TOKENS, _SECOND):
        texts = [getattr(example, name) for example in examples]
        coded = ([numbers.setdefault(word, len(numbers)) for word in text or ()] for text in texts)
        columns |= _ragged(name, texts, coded, np.int32)
    for name, kind in _PER_TOKEN.items():
        values = [getattr(example, name) for example in examples]
        columns |= _ragged(name, values, (value or () for value in values), kind)
    phrases = [example.phrases for example in examples]
    return columns | _ragged(_PHRASES, phrases, (value or () for value in phrases), np.int32, (3,))


def _ragged(
    name: str, values: Sequence, rows: Iterable[Sequence], kind: type, shape: tuple = ()
) -> dict[str, np.ndarray]:
    """A column of rows of different lengths: all values, where each row ends, and which rows are not None."""
    has = np.array([value is not None for value in values], np.uint8)
    if not has.any():
        return {}
    arrays: list[np.ndarray] = [np.array(row, kind).reshape(-1, *shape) for row in rows]
    ends = np.cumsum([len(array) for array in arrays], dtype=np.int64)
    return dict(zip(_of(name), (np.concatenate(arrays), ends, has), strict=True))


def _of(name: str) -> tuple[str, str, str]:
    """The three arrays of a column."""
    return name, f"{name}_ends", f"{name}_has"
