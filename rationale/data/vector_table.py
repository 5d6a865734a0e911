"""All rows of a file of vectors in the cache: made while the file is read, then only the wanted rows are read."""

import warnings
import zlib
from collections.abc import Iterable
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from rationale.data import cache

BLOCK = 4096  # rows that are parsed at once
NUMBERS = "numbers"  # float32 [rows, size]; each row is checked when it is used
LARGEST = torch.finfo(torch.float32).max


def find_rows(name: str, wanted: Iterable[bytes]) -> tuple[dict[bytes, int], Tensor, int] | None:
    """Rows of the wanted words from the cache.

    Parameters
    ----------
    name : str
        Of the entry.
    wanted : distinct words

    Returns
    -------
    dict: word -> number of its row, float32 [rows, size], size
        Only words that the file has; of several rows for a word, the first.
    None
        There is no such entry, or it was damaged and is deleted now.
    """
    entry = cache.opened(name, unchecked=(NUMBERS,))
    if entry is None:
        return None
    arrays, words = entry.arrays, list(wanted)
    numbers, ends, letters = arrays[NUMBERS], arrays["ends"], arrays["letters"].data
    keys = np.fromiter(map(zlib.crc32, words), np.uint32, len(words))
    firsts = np.searchsorted(arrays["keys"], keys, "left").tolist()
    lasts = np.searchsorted(arrays["keys"], keys, "right").tolist()
    places: list[int] = []
    rows: dict[bytes, int] = {}
    for word, first, last in zip(words, firsts, lasts, strict=True):
        for place in arrays["rows"][first:last].tolist():  # in the order of the file; mostly none or one
            if letters[int(ends[place - 1]) if place else 0 : int(ends[place])] == word:
                rows[word] = len(places)
                places.append(place)
                break
    found = numbers[places]  # [rows, size], a copy
    checksums = arrays["checksums"][places].tolist()
    if any(zlib.crc32(row.data) != checksum for row, checksum in zip(found, checksums, strict=True)):
        cache.delete(name)
        return None
    return rows, torch.from_numpy(found), numbers.shape[1]


class TableWriter:
    """Collects the rows of a file while they are read, and writes them to a draft of the cache.

    Parameters
    ----------
    draft : cache.Draft or None
        None: nothing is collected.
    binary : bool
        Whether the numbers of a row are float32s, and not text.

    The writer gives up, and nothing is kept, if a field of any row is not a number that float32 can hold: such a row
    is an error only for those who want its word. It also gives up if the disk is full.
    """

    def __init__(self, draft: cache.Draft | None, binary: bool = False):
        self._draft, self._binary = draft, binary
        self._words: list[bytes] = []
        self._texts: list[bytes] = []
        self._block: list[bytes] = []
        self._checksums: list[int] = []

    def add(self, word: bytes, numbers: bytes) -> None:
        """One row: its word, and its numbers, with spaces between them if they are text."""
        if self._draft is not None:
            self._block.append(word)
            self._texts.append(numbers)
            if len(self._texts) == BLOCK:
                self._write()

    def finish(self, size: int) -> None:
        """Write what is left and the index; `size` is that of a row."""
        self._write(size)
        if self._draft is None or not self._words:
            return
        keys = np.fromiter(map(zlib.crc32, self._words), np.uint32, len(self._words))
        rows = np.argsort(keys, kind="stable")
        try:
            self._draft.append("keys", keys[rows])
            self._draft.append("rows", rows.astype(np.int64))
            self._draft.append("ends", np.fromiter(accumulate(map(len, self._words)), np.int64, len(self._words)))
            self._draft.append("letters", np.frombuffer(b"".join(self._words), np.uint8))
            self._draft.append("checksums", np.array(self._checksums, np.uint32))
            self._draft.finish({})
        except OSError:
            self._draft = None

    def _write(self, size: int | None = None) -> None:
        if self._draft is None or not self._texts:
            return
        table = _unpacked(self._texts) if self._binary else _parsed(self._texts)
        try:
            if table is None or size not in (None, table.shape[1]):
                raise OSError("not only numbers")
            self._draft.append(NUMBERS, table)
        except (OSError, ValueError):
            self._draft = None
            return
        self._checksums += [zlib.crc32(row.data) for row in table]
        self._words += self._block
        self._block, self._texts = [], []


def _unpacked(rows: list[bytes]) -> np.ndarray | None:
    """The numbers of some rows of float32s, little-endian: float32 [rows, size]; None: not all are finite."""
    numbers = np.frombuffer(b"".join(rows), "<f4").astype(np.float32)
    return numbers.reshape(len(rows), -1) if np.isfinite(numbers).all() else None


def _parsed(texts: list[bytes]) -> np.ndarray | None:
    """The numbers of some rows: float32 [rows, size], rounded from float64 as one by one; None: not all are numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(b" ".join(texts), np.float64, sep=" ")  # type: ignore[call-overload]
        except (ValueError, DeprecationWarning):
            return None
    if len(numbers) % len(texts) or not np.all(np.abs(numbers) <= LARGEST):
        return None
    return numbers.reshape(len(texts), -1).astype(np.float32)
