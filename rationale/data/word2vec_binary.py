"""Word vectors in word2vec's binary format, as its program and Gensim's `save_word2vec_format(binary=True)` write it.

    number of words, space, size, line feed                       as text
    word, space, its numbers as float32 (little-endian)           for each word; word2vec's program adds a line feed

Source: Mikolov et al. 2013, the function `TrainModel` of word2vec.c.
"""

from array import array
from io import BufferedIOBase
from pathlib import Path
from typing import IO

import numpy as np

from rationale.data.vector_table import TableWriter
from rationale.errors import BadInput, excerpt

FORMAT = "word2vec's binary format: a line with the number of words and their size, then each word and its float32s"
LONGEST_WORD = 1 << 16  # bytes
LARGEST_SIZE = 1 << 16  # numbers of a word
CHUNK = 1 << 20  # bytes that are read at once
FASTTEXT = (793712314).to_bytes(4, "little")  # the first bytes of a model of fastText
PICKLE = tuple(bytes([0x80, protocol]) for protocol in range(2, 6))  # those of what Python's pickle writes


def is_binary(path: Path) -> bool:
    """Whether a file is named like one in this format: `.bin`, which may be packed."""
    name = path.name.lower()
    return name.removesuffix(".gz").removesuffix(".xz").endswith(".bin")


def refuse_models(start: bytes, path: Path) -> None:
    """Refuse a file with these first bytes if it is a whole model of fastText or of Gensim.

    Raises
    ------
    BadInput
        The message says how to get its vectors in a format that is read.
    """
    if start.startswith(FASTTEXT):
        how = "give the .vec file that is published beside it, or write one with fastText's bin_to_vec.py"
        raise BadInput(f"{path}: a whole model of fastText, not a file of vectors; {how}")
    if start.startswith(PICKLE):
        how = "write its vectors with save_word2vec_format(..., binary=True) into a .bin file"
        raise BadInput(f"{path}: what Gensim or another program has pickled, not a file of vectors; {how}")


def read_binary(
    file: BufferedIOBase | IO[bytes], wanted: set[bytes], path: Path, writer: TableWriter
) -> tuple[dict[bytes, int], array, int]:
    """Rows of the wanted words (word -> number of its row), all their numbers in one array, and the size.

    The file is read in chunks. Every row goes to `writer`, and the numbers of the wanted words are returned.

    Raises
    ------
    BadInput
        The first line is no header, the file has fewer or more rows than it says, a word is empty or not UTF-8, or a
        wanted word has a number that is not finite.
    """
    num_rows, dim = _header(file.readline(100), path)
    rows: dict[bytes, int] = {}
    numbers, width = array("f"), 4 * dim
    data, at, row = b"", 0, 1
    while row <= num_rows:
        end = data.find(b" ", at)
        where = f"{path}: row {row:,} of {num_rows:,}: "
        if (len(data) if end < 0 else end) - at > LONGEST_WORD:
            raise BadInput(f"{where}no space behind the word; accepted: {FORMAT}")
        if end >= 0 and end + 1 + width <= len(data):
            word, content = _word(data[at:end], where), data[end + 1 : end + 1 + width]
            writer.add(word, content)
            if word in wanted and word not in rows:
                rows[word] = len(rows)
                numbers.extend(_finite(content, where, word))
            at, row = end + 1 + width, row + 1
            continue
        more = file.read(CHUNK)
        if not more:
            reason = "it is cut short, or its first line does not give the right numbers"
            raise BadInput(f"{path}: ends in row {row:,} of {num_rows:,}; {reason}")
        data, at = data[at:] + more, 0
    rest = data[at:]
    while rest or (rest := file.read(CHUNK)):  # up to the end, where a packed file has its checksum
        if rest.strip(b"\n"):
            raise BadInput(f"{path}: more than {num_rows:,} rows; accepted: as many as its first line says")
        rest = b""
    return rows, numbers, dim


def _header(line: bytes, path: Path) -> tuple[int, int]:
    """Number of rows, and numbers per row."""
    fields = line.split()
    if line.endswith(b"\n") and len(fields) == 2 and all(field.isdigit() and len(field) < 19 for field in fields):
        num_rows, dim = map(int, fields)
        if num_rows and 0 < dim <= LARGEST_SIZE:
            return num_rows, dim
    hint = "; a file of text is named .txt or .vec" if line.strip() else ""
    raise BadInput(f"{path}: its first line is {excerpt(line, 40)}; accepted: {FORMAT}{hint}")


def _word(content: bytes, where: str) -> bytes:
    word = content.lstrip(b"\n")  # the end of the row before
    try:
        word.decode("utf-8")
    except UnicodeDecodeError:
        how = "load_word2vec_format(..., unicode_errors='ignore') of Gensim and save_word2vec_format write it anew"
        raise BadInput(f"{where}the word {excerpt(word, 40)} is not UTF-8; if the file is not damaged, {how}") from None
    if not word:
        raise BadInput(f"{where}no word in front of the numbers; accepted: {FORMAT}")
    return word


def _finite(content: bytes, where: str, word: bytes) -> list[float]:
    values = np.frombuffer(content, "<f4")
    if not np.isfinite(values).all():
        raise BadInput(f"{where}a number of {excerpt(word.decode(), 40)} is not finite; accepted: finite numbers")
    return values.tolist()
