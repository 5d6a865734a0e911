"""Word vectors from files, and the vocabulary and embedding table of a task."""

import os
import zipfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from rationale.data import cache
from rationale.data.batches import SpelledVocabulary
from rationale.data.example import Example, data_folder
from rationale.data.files import BYTE_ORDER_MARK, DAMAGE, intact, open_unpacked, recorded
from rationale.data.packed import fewest_occurrences, repeated_words, words_of
from rationale.data.spellings import spellings
from rationale.data.vector_table import LARGEST, TableWriter, find_rows
from rationale.data.word2vec_binary import is_binary, read_binary, refuse_models
from rationale.digests import digest_of, digest_read, not_a_named_pipe
from rationale.errors import BadInput, typed
from rationale.settings import Refusal, Settings, setting

TEXT_SUFFIXES = (".vec", ".txt")
# If two files have the same name, the later suffix wins.
SUFFIXES = tuple(kind + packed for kind in (".bin", *TEXT_SUFFIXES) for packed in (".xz", ".gz", ""))
ROW_FORMAT = "a word and its numbers, separated by single spaces, the same count in every row"


class VectorSettings(Settings):
    """The word vectors."""

    vectors: str = setting("glove.840B.300d", "word vectors: a file, or a name in the data folder, or random")
    embedding_size: int = setting(300, "numbers of a random word vector; a file has its own size", "[1, inf)")

    def refused(self) -> Iterator[Refusal]:
        where = f"with vectors {self.vectors}, which have a size of their own"
        yield self.idle(self.vectors != "random", "embedding_size", where, "vectors=random")


class ScaledVectorSettings(VectorSettings):
    """The word vectors, multiplied by a factor."""

    vectors_scale: float = setting(1.0, "factor on the word vectors", "(0, inf)")


def build_vocabulary(
    splits: dict[str, Sequence[Example]],
    vectors: str,
    scale: float = 1.0,
    dim: int = 50,
    seed: int = 0,
    trained: bool = False,
) -> tuple[SpelledVocabulary, Tensor]:
    """The words of a task that have a vector, and the table of their vectors.

    The words of all splits are used, as the vectors are fixed and labels are not used. If random vectors are trained,
    only the words of train are used that occur in it often enough (`fewest_occurrences`): the vectors of others would
    never be trained, so they share the row of the unknown word, which is.

    Parameters
    ----------
    splits : split name -> examples
    vectors : str
        A name in the data folder's `vectors`, or a file (see `read_vectors`); or "random": every word of the
        splits gets a fixed vector from N(0, 0.4^2), 0.4 being the standard deviation of GloVe 840B.
    scale : float
        Factor on the vectors, but not on the two special rows.
    dim : int >= 1
        Size of random vectors; the vectors of a file have their own size.
    seed : int
        Seed of the random vectors and of the unknown word's row.
    trained : bool
        Whether random vectors are trained.

    Returns
    -------
    SpelledVocabulary
        Sorted words after the two special rows.
    float [V, E]
        Row 0, the unknown word: U(-0.05, 0.05). Row 1, padding: zeros.

    Raises
    ------
    BadInput
        See `read_vectors`; also if no word has a vector, or none occurs often enough to be trained.
    """
    if trained and vectors == "random":
        words = SpelledVocabulary.ordinary(repeated_words(splits["train"], fewest_occurrences(len(splits["train"]))))
        if not words:
            told = f"none of the words of {len(splits['train']):,} training texts occurs twice, so none can be learned"
            accepted = "texts with spaces between their words, or texts that are given as lists of words"
            raise BadInput(f"vectors: {told}; accepted: {accepted}")
    else:
        words = SpelledVocabulary.ordinary(words_of(splits.values()))
    generator = torch.Generator().manual_seed(seed)
    if vectors == "random":
        known, rows = words, 0.4 * torch.randn(len(words), dim, generator=generator)
    else:
        known, rows = read_vectors(vectors, words)
        if not known:
            raise BadInput(f"vectors: {vectors!r} holds none of the {len(words)} words of the data")
    vocabulary = SpelledVocabulary(known)
    table = torch.zeros(len(vocabulary), rows.shape[1])  # [V, E]
    table[vocabulary.unk].uniform_(-0.05, 0.05, generator=generator)
    table[len(vocabulary.specials) :] = scale * rows
    return vocabulary, table


def read_vectors(name_or_path: str | Path, words: Iterable[str]) -> tuple[list[str], Tensor]:
    """The vectors of these words, from a file of text (GloVe, word2vec, fastText) or in word2vec's binary format.

    A row of text is a word, which may contain spaces, and its numbers; a first line may give the number of rows and
    their size, as fastText's .vec files have it. A file named .bin has the binary format (`word2vec_binary`).

    A word is looked up as it is, then in other spellings of the same word (-LRB- and "(", `` and ",
    \\/ and /), then all of these in lower case.

    Parameters
    ----------
    name_or_path : str or Path
        A name in the data folder: `vectors/<name>` with .txt, .vec or .bin, which may be packed (.gz, .xz), or
        `<name>.txt` or .vec in any .zip there; or a file.
    words : iterable of str
        Only the rows of these words are returned. The number of fields is checked in every row of the file.

    Returns
    -------
    list of str
        The words that have a vector, in the given order, each once.
    float32 [V', E]
        Their vectors.

    Raises
    ------
    BadInput
        No vectors of this name, a file that cannot be unpacked, a row of a different length, a field that is not a
        number, another number of rows than the first line says, or a whole model of fastText or Gensim.
    """
    words = list(dict.fromkeys(words))
    forms = {word: [form.encode() for form in spellings(word)] for word in words}
    path, member = _find(name_or_path)
    rows, numbers, dim = _rows(path, member, {form for some in forms.values() for form in some})
    row_of = {word: next((rows[form] for form in forms[word] if form in rows), None) for word in words}
    row_of = {word: row for word, row in row_of.items() if row is not None}
    if not row_of:
        return [], torch.zeros(0, dim)
    return list(row_of), numbers[torch.tensor(list(row_of.values()), dtype=torch.long)]


def available() -> list[str]:
    """Names that `read_vectors` finds in the data folder, sorted."""
    return sorted(_sources())


def require_vectors(name_or_path: str | Path) -> None:
    """Raise an error at once if `read_vectors` would not find the vectors; "random" needs no file.

    Raises
    ------
    BadInput
        No vectors of this name, or the file is a whole model of fastText or Gensim.
    """
    if name_or_path != "random":
        path, _ = _find(name_or_path)
        with intact(path), open(not_a_named_pipe(path), "rb") as file:
            refuse_models(file.read(8), path)


def _sources() -> dict[str, tuple[Path, str | None]]:
    """Name -> (file, member of the zip or None), for all vectors in the data folder."""
    place = data_folder() / "vectors"
    sources: dict[str, tuple[Path, str | None]] = {}
    for path in sorted(place.glob("*.zip")):
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                sources |= {Path(text).stem: (path, text) for text in _text_members(archive)}
        else:  # opening it will raise an error that describes the problem
            sources[path.name.removesuffix(".zip").removesuffix(".txt").removesuffix(".vec")] = (path, None)
    for suffix in SUFFIXES:
        sources |= {path.name.removesuffix(suffix): (path, None) for path in place.glob("*" + suffix)}
    return sources


def _text_members(archive: zipfile.ZipFile) -> list[str]:
    return [name for name in archive.namelist() if name.endswith(TEXT_SUFFIXES)]


def _find(name_or_path: str | Path) -> tuple[Path, str | None]:
    """The file, and its member if it is an archive."""
    sources = _sources()
    if str(name_or_path) in sources:
        return sources[str(name_or_path)]
    path = Path(os.path.expanduser(name_or_path))
    try:
        there = path.is_file()
    except OSError:  # its name is too long, or a folder above it may not be looked into
        there = False
    if not there:
        names = ", ".join(sorted(sources)) or "none yet"
        raise BadInput(
            f"vectors: {str(name_or_path)!r} not found; accepted: random, a file, or a name in "
            f"{data_folder() / 'vectors'} ({names}); `{typed('rationale.data list')}` says what can be fetched"
        )
    return path, None


def _rows(path: Path, member: str | None, wanted: set[bytes]) -> tuple[dict[bytes, int], Tensor, int]:
    """Rows of the wanted words (word -> number of its row), their numbers [rows, size], and the size.

    They come from the cache, which is filled while a file is read for the first time.
    """
    with intact(path):
        digest = digest_read(path)
    name = cache.name_of("vectors-all", digest, member, of_corpus=False)
    found = find_rows(name, wanted)
    if found is not None:
        return found
    with cache.draft(name) as draft:
        writer = TableWriter(draft, is_binary(path))
        with intact(path, DAMAGE), _open(path, member) as file:
            refuse_models(file.peek(8), path)  # type: ignore[union-attr]
            read = read_binary if is_binary(path) else _read_rows
            rows, numbers, dim = read(file, wanted, path, writer)
        if draft is not None and digest_of(path) == digest:  # else it was changed while it was read
            writer.finish(dim)
    return rows, torch.frombuffer(numbers, dtype=torch.float32).reshape(-1, dim) if rows else torch.zeros(0, dim), dim


def _open(path: Path, member: str | None) -> BufferedIOBase | IO[bytes]:
    if path.suffix != ".zip":
        return open_unpacked(path)
    archive = zipfile.ZipFile(recorded(path))
    texts = [member] if member else _text_members(archive)
    if len(texts) != 1:
        raise BadInput(f"{path}: .txt and .vec files in it: {', '.join(texts) or 'none'}; accepted: exactly one")
    return archive.open(texts[0])


def _read_rows(
    file: Iterable[bytes], wanted: set[bytes], path: Path, writer: TableWriter
) -> tuple[dict[bytes, int], array, int]:
    """Rows of the wanted words (word -> number of its row), all their numbers in one array, and the size.

    Lines stay bytes, so no character of another script can be mistaken for a space or the end of a line.
    """
    rows: dict[bytes, int] = {}
    numbers = array("f")
    dim = num_rows = 0
    announced: int | None = None
    for line_number, line in enumerate(file, start=1):
        line = (line if line_number > 1 else line.removeprefix(BYTE_ORDER_MARK)).strip()
        if not line:
            continue
        if not dim:
            dim, announced = _size(line, f"{path}:{line_number}")
            if announced is not None:
                continue
        num_rows += 1
        fields = line.split()
        if len(fields) == dim + 1:
            word = fields[0]
            writer.add(word, line[len(word) :])
        else:
            word = _word_with_spaces(line, dim, f"{path}:{line_number}")
            writer.add(word, b" ".join(fields[-dim:]))
        if word in wanted and word not in rows:
            rows[word] = len(rows)
            numbers.extend(_numbers(fields[-dim:], f"{path}:{line_number}"))
    if not dim:
        raise BadInput(f"{path}: empty; accepted: {ROW_FORMAT}")
    if announced not in (None, num_rows):
        raise BadInput(f"{path}: {num_rows:,} rows; accepted: {announced:,}, as its first line says")
    return rows, numbers, dim


def _size(line: bytes, where: str) -> tuple[int, int | None]:
    """Numbers per row, from the first line, and the number of rows if this line is word2vec's header."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() and len(field) < 19 for field in fields) and int(fields[1]):
        return int(fields[1]), int(fields[0])
    dim = 0
    while dim < len(fields) - 1 and _is_number(fields[-1 - dim]):
        dim += 1
    if not dim:
        raise BadInput(f"{where}: {_shown(line)} is not a row of a vector file; accepted: {ROW_FORMAT}")
    return dim, None


def _word_with_spaces(line: bytes, dim: int, where: str) -> bytes:
    """The word of a row with too many fields: all before the last `dim` fields, unless it ends in a number too."""
    fields = line.split()
    is_joined = len(fields) > 2 * dim and sum(map(_is_number, fields[:-dim])) >= dim  # two rows in one line
    if len(fields) <= dim or is_joined or (len(fields) > dim + 1 and _is_number(fields[-1 - dim])):
        raise BadInput(
            f"{where}: {len(fields)} fields, beginning {_shown(line)}; accepted: {dim + 1}, "
            f"a word and {dim} numbers as in the first row"
        )
    return b" ".join(fields[:-dim])


def _numbers(fields: list[bytes], where: str) -> list[float]:
    """The fields as finite numbers that float32 can hold."""
    try:
        numbers = [float(field) for field in fields]
        if all(abs(number) <= LARGEST for number in numbers) and not any(b"_" in field for field in fields):
            return numbers  # neither NaN nor infinite, nor 1_0, which Python reads as 10
    except ValueError:
        pass
    wrong = next(field for field in fields if not _is_number(field))
    raise BadInput(f"{where}: {_shown(wrong)} is not a number; accepted: {ROW_FORMAT}")


def _is_number(field: bytes) -> bool:
    try:
        return abs(float(field)) <= LARGEST and b"_" not in field
    except ValueError:
        return False


def _shown(text: bytes) -> str:
    return repr(text[:40].decode("utf-8", errors="replace"))
