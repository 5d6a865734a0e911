"""Read texts of one's own: labels are told from their column, and splits are made where there are none."""

import csv
import io
import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from sys import intern
from typing import Any

from rationale.data.corpus import SPLITS, in_turn
from rationale.data.example import Example, filled
from rationale.data.own.eraser import Annotation, Documents, is_eraser, read_annotations, require_documents
from rationale.data.own.labels import STAND_IN, Labels, read_labels, spelled
from rationale.data.own.marks import REMOVE, cut_word, is_missing, read_marks, read_tokens, require_whole
from rationale.data.own.settings import SUFFIXES, is_on_hub, kind_of
from rationale.data.own.splits import DIGEST, SHARES, digest_of_text, divide, require_classes, shared_texts, strata_of
from rationale.data.own.tables import UNKNOWN, Table, hub_tables, is_saved, open_table, saved_tables
from rationale.data.packed import Texts, packed
from rationale.data.pairs import NULL
from rationale.data.tokenise import TOKENISERS
from rationale.errors import BadInput, counted, cut, excerpt, shown
from rationale.files import write_text
from rationale.progress import each

NAMES = {"train": ("train",), "dev": ("dev", "validation", "valid", "val"), "test": ("test",)}  # of files of splits
NAMES_OF_TAGS = "a|b|i|u|p|br|hr|em|h[1-6]|li|ol|ul|td|tr|img|div|pre|code|font|span|table|strong|blockquote"
TAG = re.compile(rf"</?(?:{NAMES_OF_TAGS})(?: [^<>]*=[^<>]*)? ?/?>", re.IGNORECASE)  # of HTML: <br />, </p>
# UTF-8 that was read with the code page of Windows: é is Ã©, ’ is â€™. Some of these pairs are in good text, too, as in
# IRMÃ…, and count only with a letter behind them, or two in a row. U+FFFD stands for what was lost.
_INNER = "[\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]"  # any byte of a character but the first
DECODED_WRONGLY = re.compile(
    rf"Ã(?![\xa0»’”…—–]){_INNER}|Ã[’”…–](?=[^\W\d_])|Â(?![«»])[\xa0-\xbf]|â€|ðŸ|\ufffd"
    rf"|(?:[Â-ß]{_INNER}){{2}}|(?:[à-ï]{_INNER}{{2}}){{2}}"
)
# Letters of languages without spaces between words: Chinese and Japanese; Thai, Lao, Burmese and Khmer.
_OF_CHINESE, _OF_THAI = "[\u3040-\u30ff\u3400-\u9fff]", "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"
UNSPACED, CLAUSE = re.compile(f"{_OF_CHINESE}|{_OF_THAI}"), re.compile(f"{_OF_CHINESE}{{6,}}|{_OF_THAI}{{16,}}")
MOST_BAD = 1000  # bad rows that are counted before reading stops
MOST_BYTES = 1 << 24  # of files that are read before a run begins, too

Split = Callable[[str], list[str]]  # of a text into words


@dataclass
class OwnTexts:
    """Texts of one's own, ready for training.

    Attributes
    ----------
    splits : {"train", "dev", "test"} -> sequence of Example
        With classes, the first texts of a split cover all of them.
    head : "classes" or "scores"
    labels : names of the classes; None for scores
    scale : the lowest and the highest score of the file, which are 0 and 1 in `splits`; None for classes
    notes : what was told from the data, one sentence each
    origins : split -> (file, row) of each text
    """

    splits: dict[str, Sequence[Example]]
    head: str
    labels: list[str] | None
    scale: tuple[float, float] | None
    notes: list[str]
    files: list[str]
    origins: dict[str, tuple[array, array]]  # split -> numbers of the files and of the rows

    @property
    def num_outputs(self) -> int:
        """Number of classes, or of scores."""
        return len(self.labels or (1,))

    @property
    def sizes(self) -> dict[str, int]:
        """Number of texts of each split, with those that `num_train`, `num_dev` and `num_test` leave out."""
        return {split: len(rows) for split, (_, rows) in self.origins.items()}

    def save(self, folder: Path) -> None:
        """Write `splits.csv`: the split, the file and the row of every text; those that `num_train` leaves out, too."""
        written = io.StringIO()
        rows = csv.writer(written, lineterminator="\n")
        rows.writerow(["split", "file", "row"])
        for split in self.splits:
            rows.writerows([split, self.files[file], row] for file, row in zip(*self.origins[split], strict=True))
        write_text(folder / "splits.csv", written.getvalue())


@dataclass
class Seen:
    """In how many texts of a part something odd was seen, and what it was in the first of them."""

    count: int = 0
    first: str = ""

    def add(self, what: str) -> None:
        """Count a text."""
        self.count, self.first = self.count + 1, self.first or what


class Part:
    """The texts of one file, in parallel columns.

    Parameters
    ----------
    split, place : str
    where : function
        From the number of a row to the beginning of a message.
    words : dict
        Numbers of the words, which all parts share.
    seed : int
        Of splits that are made.
    """

    def __init__(self, split: str, place: str, where: Callable[[int], str], words: dict[str, int], seed: int):
        self.split, self.place, self.where, self.seed = split, place, where, seed
        self.numbers, self.texts, self.cells, self.digests = array("q"), Texts(words), list[str](), bytearray()
        self.firsts = bytearray()  # digests of the first texts, of pairs
        self.tags, self.stand_ins, self.decoded_wrongly = Seen(), Seen(), Seen()  # texts, see `notice`
        self.cut_words = Seen()  # texts with a mark that begins or ends inside a word
        self.skipped = array("q")  # numbers of the rows that are left out
        self.twins = 0  # pairs whose two texts are equal

    def add(
        self,
        number: int,
        tokens: tuple[str, ...],
        cell: str,
        rationale: tuple[bool, ...] | None,
        second: tuple[str, ...] | None,
    ) -> None:
        """Add a text."""
        self.numbers.append(number)
        self.texts.add(tokens, rationale, second)
        self.cells.append(intern(cell))
        self.digests += digest_of_text(self.seed, tokens, second)
        if second is not None:
            self.firsts += digest_of_text(self.seed, tokens, None)
            self.twins += tokens == second

    def notice(self, text: str) -> None:
        """Count a text, as it stands in its file, if it holds HTML, is NaN or the like, or was decoded wrongly."""
        if "<" in text and (found := TAG.search(text)):
            self.tags.add(found[0])
        if STAND_IN.fullmatch(text.strip()):
            self.stand_ins.add(text.strip())
        if not text.isascii() and (found := DECODED_WRONGLY.search(text)):
            self.decoded_wrongly.add(found[0])


def read_own(p: Any) -> OwnTexts:
    """Read the texts that the settings of a run name.

    Parameters
    ----------
    p : parameters
        Uses corpus (a file, a folder or a data set on the hub), text, label, tokeniser, skip_incomplete, split_seed,
        and, if it has them: rationale, head, and second, which makes each text the first of a pair.

    Raises
    ------
    BadInput
        A file or a row cannot be used; the message names the file, the row and the column.
    """
    with _in_one_line(p):
        return _read(p, TOKENISERS[p.tokeniser])


def require_texts(p: Any) -> None:
    """Raise an error of `read_own` before a run begins, if it is found in less than a second.

    Files of at most `MOST_BYTES` in all are read, of larger ones only the first rows (of JSON lines also all others, if
    a column is not among the keys of these). Most of the time would be spent on words, so texts are not split into
    words at first, but only if something is wrong without them. A folder in ERASER's format and a data set of the
    library `datasets` are not looked into.

    Parameters
    ----------
    p : parameters
        As for `read_own`.
    """
    with _in_one_line(p):
        place = Path(p.corpus)
        if not (is_on_hub(p.corpus) or is_saved(place) or is_eraser(place)):
            for _, table in _tables(p)[0]:
                table.require(_columns(p))
            if _bytes_of(place) <= MOST_BYTES:
                try:
                    _read(p, _unsplit)
                except BadInput:
                    _read(p, TOKENISERS[p.tokeniser])


def _bytes_of(place: Path) -> int:
    """The size of a table, or of all tables of a folder."""
    files = [path for path in place.iterdir() if kind_of(path) in SUFFIXES] if place.is_dir() else [place]
    return sum(path.stat().st_size for path in files if path.is_file())


def _unsplit(text: str) -> list[str]:
    """The whole text as one word; no word if it is blank."""
    return [text] if text.strip() else []


@contextmanager
def _in_one_line(p: Any) -> Iterator[None]:
    """Turn an error of the file system into one line with the name of the corpus."""
    try:
        if not is_on_hub(p.corpus):
            Path(p.corpus).is_dir()  # fails if the path is too long
        yield
    except OSError as error:  # a name that is too long, or a folder that may not be looked into
        raise BadInput(f"{_place(p)}: {error.strerror or error}") from None


def _read(p: Any, split: Split) -> OwnTexts:
    place, notes, words = Path(p.corpus), list[str](), dict[str, int]()
    if is_eraser(place):
        parts = _read_eraser(place, p, words)
    else:
        tables, notes = _tables(p)
        parts = [_read_table(*part, p, words, split) for part in tables]
        notes += _notes_of_skipped(parts) + _note_of_missing(parts) + _note_of_tags(parts)
        notes += _note_of_decoding(parts) + _note_of_clauses(words) + _note_of_twins(parts)
        notes += _note_of_cut_words(parts)
    empty = next((part for part in parts if not part.cells), None)
    if empty is not None:
        if empty.skipped:
            skipped = f"each row ({len(empty.skipped):,} in all) is left out, because it has no text or no label"
            raise BadInput(f"{empty.place}: {skipped}; accepted: at least one row that has both")
        accepted = "at least one annotation" if is_eraser(place) else "at least one row below the column names"
        raise BadInput(f"{empty.place}: no text in it; accepted: {accepted}")
    read = _labelled(parts, words, p)
    read.notes[1:1] = notes
    return read


def _place(p: Any) -> str:
    """The corpus as messages name it."""
    return p.corpus if is_on_hub(p.corpus) else shown(p.corpus)


def _columns(p: Any) -> dict[str, str]:
    """The columns that are read, by the settings that name them."""
    names = {name: vars(p)[name] for name in ("text", "label", "rationale", "second") if name in vars(p)}
    return {name: column for name, column in names.items() if column or name != "rationale"}


def _tables(p: Any) -> tuple[list[tuple[str, Table]], list[str]]:
    """(split, table) of a file, a folder or a data set, and notes about splits that are left out.

    A file alone is training data, of which the other splits are made.
    """
    place, on_hub = Path(p.corpus), is_on_hub(p.corpus)
    if not on_hub and not place.is_dir():
        return [("train", open_table(place))], []
    files = defaultdict(list)
    tables = hub_tables(p.corpus) if on_hub else saved_tables(place)
    if not tables and not on_hub:
        for path in sorted(place.iterdir()):
            found = _named(path)
            if found and kind_of(path) in SUFFIXES:
                files[found[1]].append(path)
    known = {name: split for split, names in NAMES.items() for name in names}
    notes = [f"{_place(p)}: the split {name} is not used" for name in tables if name not in known]
    by_split = defaultdict(list)
    for name in sorted((tables or files).keys() & known.keys(), key=list(known).index):
        if tables and p.label in tables[name].hidden:
            notes.append(f"{_place(p)}: the split {name} is not used, because its labels are hidden (-1)")
        else:
            by_split[known[name]].append(name)
    if "train" not in by_split:
        there = ", ".join(sorted(tables if tables or on_hub else (path.name for path in place.iterdir()))[:10])
        accepted = "train, and dev (or validation) and test if there are any"
        if tables or on_hub:
            raise BadInput(f"{_place(p)}: no train split with labels, it has {there or 'none'}; accepted: {accepted}")
        accepted += f", each as {', '.join(SUFFIXES)}"
        there = f"which holds {there or 'nothing'}"
        raise BadInput(f"{_place(p)}: no train file in this folder, {there}; accepted: {accepted}")
    pairs = []
    for split, names in by_split.items():
        paths = [path for name in names for path in files[name]]
        if len(names) > 1 or not _are_parts(paths):
            two = " and ".join(path.name for path in paths[:2]) or " and ".join(names)
            raise BadInput(f"{_place(p)}: {two} are both the {split} split; accepted: one of them")
        _require_all_parts(paths)
        pairs += [(split, table) for table in ([tables[name] for name in names] if tables else map(open_table, paths))]
    if not tables:
        require_documents(place, pairs[0][1].columns)
    return pairs, notes


def _named(path: Path) -> re.Match[str] | None:
    """The split, the number of a part and how many parts there are, as a file is named: `train-00000-of-00002.csv`."""
    return re.fullmatch(r"([a-z]+)(?:-(\d+)-of-(\d+))?", path.name.split(".")[0].lower())


def _number_of(path: Path) -> tuple[int, int] | None:
    """The number of a part of a file, and how many parts there are; None of a file that is no part."""
    found = _named(path)
    return (int(found[2]), int(found[3])) if found and found[2] else None


def _are_parts(paths: Sequence[Path]) -> bool:
    """Whether the files of a split are one file, or different parts of one."""
    kinds = {(path.name.split(".")[0].split("-")[0], kind_of(path)) for path in paths}
    numbers = list(map(_number_of, paths))
    return len(paths) <= 1 or (len(kinds) == 1 and None not in numbers and len(set(numbers)) == len(paths))


def _require_all_parts(paths: Sequence[Path]) -> None:
    """Refuse numbered parts of a file, counted from 0 or from 1, of which one is missing."""
    numbers = sorted(number for path in paths if (number := _number_of(path)))
    if numbers:
        count, first = numbers[0][1], min(1, numbers[0][0])
        if numbers != [(i, count) for i in range(first, first + count)]:
            there = f"{counted(len(paths), 'file')} of {count:,} parts in this folder"
            accepted = "all parts, each once, or one file without a number"
            raise BadInput(f"{shown(paths[0])}: {there}; accepted: {accepted}")


def texts_as_written(p: Any, own: OwnTexts, split: str, count: int) -> list[str]:
    """The first texts of a split as they stand in their files, with their spaces and marks.

    A list of words becomes a text with spaces between them, and so does an annotation of ERASER.

    Parameters
    ----------
    p, own
        Parameters, and what `read_own` gave for them.
    split : "train", "dev" or "test"
    count : int >= 1
        There may be fewer.
    """
    joined = [(" ".join(example.tokens),) for example in own.splits[split][:count]]
    return [text for (text,) in _as_written(p, own, split, joined)]


def pairs_as_written(p: Any, own: OwnTexts, split: str, count: int) -> list[tuple[str, ...]]:
    """The first pairs of a split, each (text, second text), as they stand in their files; see `texts_as_written`."""
    sides = [
        (example.tokens[1:], (example.second or ())[1:]) for example in own.splits[split][:count]
    ]  # without `NULL`
    return _as_written(p, own, split, [(" ".join(first), " ".join(second)) for first, second in sides])


def _as_written(p: Any, own: OwnTexts, split: str, joined: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first texts or pairs of a split as they stand in their files; `joined` has their words with spaces between.

    What is no text in its file, such as a list of words, stays joined.
    """
    found = list(joined)
    if is_eraser(Path(p.corpus)):
        return found
    tables, wanted = [table for _, table in _tables(p)[0]], defaultdict[int, dict[int, int]](dict)
    for i, (file, row) in enumerate(zip(*(part[: len(found)] for part in own.origins[split]), strict=True)):
        wanted[file][row] = i
    for file, places in wanted.items():
        for number, cells in tables[file].rows(_columns_of_texts(p)):
            if number in places:
                i = places.pop(number)
                found[i] = tuple(x if isinstance(x, str) else words for x, words in zip(cells, joined[i], strict=True))
            if not places:
                break
    return found


def texts_in_rows(p: Any, rows: Mapping[str, Collection[int]]) -> Iterator[tuple[Any, ...]]:
    """The texts that stand in these rows of a file, or of the files of a folder; the second one of a pair behind it.

    Parameters
    ----------
    p : parameters
        As for `read_own`.
    rows : name of a file -> numbers of its rows
    """
    for _, table in _tables(p)[0]:
        wanted = rows.get(Path(table.place).name, ())
        yield from (tuple(cells) for number, cells in table.rows(_columns_of_texts(p)) if number in wanted)


def _columns_of_texts(p: Any) -> dict[str, str]:
    """The column of the texts, and that of the second texts of pairs."""
    return {name: column for name, column in _columns(p).items() if name in ("text", "second")}


def _read_table(name: str, table: Table, p: Any, words: dict[str, int], split: Split) -> Part:
    """The texts of a table, of the split `name`; all its bad rows are counted, and the first one is named.

    With `skip_incomplete`, a row without a text, a second text or a label is left out.
    """
    columns = _columns(p)
    part, bad = Part(name, table.place, table.where, words, p.split_seed), []
    names = table.names.get(p.label)
    for number, cells in each(f"reading {table.place}", table.rows(columns)):
        row = dict(zip(columns, cells, strict=True))
        if p.skip_incomplete and (
            any(is_missing(row[name]) for name in ("text", "label", "second") if name in row)
            or _is_unknown(row["label"], names)
        ):
            part.skipped.append(number)
            continue
        try:
            tokens = read_tokens(row["text"], p.text, split)
            second = read_tokens(row["second"], p.second, split) if "second" in row else None
            marks = read_marks(row.get("rationale"), row["text"], tokens)
            label = _label(row["label"], names, p.label)
        except ValueError as error:
            bad.append((number, str(error)))
            if len(bad) == MOST_BAD:
                break
            continue
        for text in (row["text"], row.get("second")):
            if isinstance(text, str):
                part.notice(text)
        if marks is not None and (cut := cut_word(row["rationale"], row["text"], tokens)):
            part.cut_words.add(cut)
        if second is not None:
            tokens, second = (NULL, *tokens), (NULL, *second)
        part.add(number, tokens, label, marks, second)
    if bad:
        number, message = bad[0]
        others = ", ".join(str(number) for number, _ in bad[1:4])
        several = f"{len(bad) - 1:,} more bad rows, such as {others}" if len(bad) > 2 else f"{others} is bad as well"
        more = f" ({several})" if len(bad) > 1 else ""
        raise BadInput(f"{table.where(number)}{message}{more}")
    return part


def _is_unknown(cell: Any, names: list[str] | None) -> bool:
    """Whether a label is the number that a data set has where it does not tell the class, one of `names`."""
    return names is not None and isinstance(cell, int) and cell == UNKNOWN


def _label(cell: Any, names: list[str] | None, column: str) -> str:
    """A label as text, or the name of the class whose number it is."""
    if isinstance(cell, list | tuple | dict):
        raise ValueError(f"{excerpt(cell)} in column {excerpt(column)} is no label; accepted: a text or a number")
    if _is_unknown(cell, names):
        raise ValueError(f"no label ({UNKNOWN}) in column {excerpt(column)}; {REMOVE}")
    if names is not None and isinstance(cell, int):
        if not 0 <= cell < len(names):
            raise ValueError(
                f"the class {cell} in column {excerpt(column)} has no name; accepted: 0 to {len(names) - 1}"
            )
        return names[cell]
    text = spelled(cell)
    if not text:
        raise ValueError(f"no label in column {excerpt(column)}; {REMOVE}")
    require_whole(text, column)
    return text


def _read_eraser(folder: Path, p: Any, words: dict[str, int]) -> list[Part]:
    """The annotations of a folder in ERASER's format. Queries that differ stand before their texts."""
    documents, parts = Documents(folder), []
    for split, names in NAMES.items():
        name = next((f"{name}.jsonl" for name in names if (folder / f"{name}.jsonl").is_file()), None)
        if name is not None:
            place = shown(folder / name)
            read = list(each(f"reading {place}", read_annotations(folder, name, documents)))
            where = partial("{}, line {}: ".format, place)
            parts.append((Part(split, place, where, words, p.split_seed), read))
    queries = {annotation.query for _, read in parts for annotation in read}
    for part, read in parts:
        for one in read:
            if "second" in vars(p):
                _add_pair(part, one)
            else:
                query = one.query if len(queries) > 1 else ()
                marks = None if one.rationale is None else (False,) * len(query) + one.rationale
                part.add(one.number, query + one.tokens, one.label, marks, None)
    return [part for part, _ in parts]


def _add_pair(part: Part, one: Annotation) -> None:
    second = one.second or one.query
    first = one.tokens[: len(one.tokens) - len(one.second)]
    if not first or not second:
        raise BadInput(f"{part.where(one.number)}no pair; accepted: a text with a query, or a premise and a hypothesis")
    part.add(one.number, (NULL, *first), one.label, None, (NULL, *second))


def _labelled(parts: list[Part], words: dict[str, int], p: Any) -> OwnTexts:
    """Labels, splits and notes of texts that have been read."""
    starts, place = [0], _place(p)
    for part in parts:
        starts.append(starts[-1] + len(part.cells))

    def part_of(i: int) -> tuple[int, int]:
        number = bisect_right(starts, i) - 1
        return number, i - starts[number]

    def where(i: int) -> str:
        number, row = part_of(i)
        return parts[number].where(parts[number].numbers[row])

    of_pairs = "second" in vars(p)
    column = "classification" if is_eraser(Path(p.corpus)) else p.label
    labels = read_labels([cell for part in parts for cell in part.cells], column, vars(p).get("head", "auto"), where)
    unit = "pair" if of_pairs else "text"
    notes = [f"{place}: {counted(starts[-1], unit)}; {labels.note}"]
    notes += [labels.far] * bool(labels.far)
    keys, firsts = _digests(part.digests for part in parts), _digests(part.firsts for part in parts)
    split_of = [part.split for part in parts for _ in part.cells]
    missing = [split for split in SHARES if split not in split_of]
    if missing:
        notes += _make_splits(missing, split_of, keys, firsts, labels, p.split_seed)
    if labels.names is not None:
        notes += _note_of_contradictions(keys, labels.values, unit)  # type: ignore[arg-type]
        require_classes(keys, split_of, labels.values, labels.names, place)  # type: ignore[arg-type]
    order = _order(split_of, labels.values if labels.names is not None else None)
    splits: dict[str, Any] = {}
    origins = {}
    for split, numbers in order.items():
        places = [part_of(i) for i in numbers]
        splits[split] = packed(words, [part.texts for part in parts], places, [labels.values[i] for i in numbers])
        origins[split] = (array("q", [n for n, _ in places]), array("q", [parts[n].numbers[row] for n, row in places]))
    for later, earlier, count, i, j in shared_texts({split: [keys[i] for i in order[split]] for split in order}):
        first, other = (where(order[split][k]).removesuffix(": ") for split, k in ((later, i), (earlier, j)))
        notes.append(f"{counted(count, unit)} of {later} also {_verb(count)} in {earlier}: {first} is {other}")
    notes += _notes_of_first_texts({split: [firsts[i] for i in order[split]] for split in order} if firsts else {})
    head = "scores" if labels.names is None else "classes"
    files = [part.place for part in parts]
    filled(splits, place)
    return OwnTexts(splits, head, labels.names, labels.scale, notes, files, origins)


def _make_splits(
    missing: list[str], split_of: list[str], keys: list[bytes], firsts: list[bytes], labels: Labels, seed: int
) -> list[str]:
    """Move texts of train to the splits that are missing, in `split_of`; what is said of it.

    Pairs are divided by their first texts, so that a model does not know these from training, unless there are so few
    that a split would lack a class.
    """
    train, is_classes = [i for i, split in enumerate(split_of) if split == "train"], labels.names is not None
    digests = [keys[i] for i in train]
    strata = strata_of([labels.values[i] for i in train], digests, is_classes)  # type: ignore[arg-type]
    made, copies = divide(digests, strata, missing)
    by_first, together = divide([firsts[i] for i in train], strata, missing) if firsts else (made, copies)
    classes, of_firsts = (set(zip(splits_of, strata, strict=True)) for splits_of in (made, by_first))
    is_by_first = together > copies and of_firsts >= classes
    for i, split in zip(train, by_first if is_by_first else made, strict=True):
        split_of[i] = split
    notes = [_note_of_split(missing, split_of, seed, is_classes)]
    if copies:
        repeat = f"{counted(copies, 'pair' if firsts else 'text')} {'repeat' if copies > 1 else 'repeats'}"
        notes.append(f"{repeat} another one; copies stay in one split")
    if is_by_first:
        what = "all pairs of a first text stay in one split"
        notes.append(f"{together:,} pairs have the first text of another one; {what}")
    return notes


def _digests(of_parts: Iterable[bytearray]) -> list[bytes]:
    return [bytes(digests[i : i + DIGEST]) for digests in of_parts for i in range(0, len(digests), DIGEST)]


def _order(split_of: Sequence[str], classes: Sequence[Any] | None) -> dict[str, list[int]]:
    """The numbers of the texts of each split; classes take turns, so that the first texts cover all of them."""
    order: dict[str, list[int]] = {split: [] for split in SPLITS}
    for i, split in enumerate(split_of):
        order[split].append(i)
    if classes is None:
        return order
    return {split: in_turn(numbers, lambda i: classes[i]) for split, numbers in order.items()}


def _note_of_split(missing: list[str], split_of: list[str], seed: int, is_classes: bool) -> str:
    """What is said of splits that were made."""
    sizes = " and ".join(f"{split_of.count(split):,} for {split}" for split in missing)
    evenly = "each class in the same proportion" if is_classes else "low and high scores in the same proportion"
    return f"no {' and no '.join(missing)} split: {sizes} were drawn by split_seed={seed}, {evenly}"


def _notes_of_first_texts(of_splits: dict[str, list[bytes]]) -> list[str]:
    """What is said of pairs of dev and test whose first text a model knows from training."""
    known, notes = set(of_splits.get("train", ())), []
    for split in SHARES:
        keys = of_splits.get(split, [])
        if count := sum(key in known for key in keys):
            notes.append(f"the first texts of {count:,} of the {len(keys):,} pairs of {split} stand in train as well")
    return notes


def _notes_of_skipped(parts: list[Part]) -> list[str]:
    """What is said of rows that were left out."""
    rows = [part.where(number).removesuffix(": ") for part in parts for number in part.skipped[:1]]
    count = sum(len(part.skipped) for part in parts)
    missing = f"{'have' if count > 1 else 'has'} no text or no label, and {'are' if count > 1 else 'is'} left out"
    return [f"{counted(count, 'row')} {missing}; the first is {rows[0]}"] if count else []


def _seen(of_parts: Iterable[Seen]) -> tuple[int, str]:
    """In how many texts of all parts something was seen, and what it was in the first of them."""
    seen = [one for one in of_parts if one.count]
    return sum(one.count for one in seen), seen[0].first if seen else ""


def _note_of_missing(parts: list[Part]) -> list[str]:
    """What is said of texts such as NaN, which often stand where a text is missing."""
    count, text = _seen(part.stand_ins for part in parts)
    if not count:
        return []
    are = f"{counted(count, 'text')} {'are' if count > 1 else 'is'} {excerpt(text)} or the like"
    return [f"{are}, which we read as words; remove these rows if a text is missing there"]


def _note_of_tags(parts: list[Part]) -> list[str]:
    """What is said of texts that hold HTML: the names of tags are words for a model, which may select them."""
    count, tag = _seen(part.tags for part in parts)
    if not count:
        return []
    holds = "hold" if count > 1 else "holds"
    words = "which are words for the model; remove them from the file if a rationale should not hold them"
    return [f"{counted(count, 'text')} {holds} tags of HTML, such as {cut(tag, 40)}, {words}"]


def _note_of_decoding(parts: list[Part]) -> list[str]:
    """What is said of texts that were decoded with another encoding than theirs before they were written here."""
    count, found = _seen(part.decoded_wrongly for part in parts)
    if not count:
        return []
    holds = f"{counted(count, 'text')} {'hold' if count > 1 else 'holds'}"
    parts_of_words = "which are parts of words for the model; export the texts again, as UTF-8"
    return [f"{holds} characters of a wrong decoding, such as {excerpt(found)}, {parts_of_words}"]


def _note_of_clauses(words: Collection[str]) -> list[str]:
    """What is said if a language without spaces between words is not split into them, as Chinese and Thai.

    `words` are the different words of all texts.
    """
    of_letters = [word for word in words if word[0].isalpha()]
    unspaced = [word for word in of_letters if UNSPACED.match(word)]
    long = [word for word in unspaced if CLAUSE.fullmatch(word)]
    if not long or 2 * len(unspaced) < len(of_letters) or 5 * len(long) < len(unspaced):
        return []
    such = f"{len(long):,} of {len(of_letters):,} different words are as long as clauses, such as {cut(long[0], 20)}"
    return [f"{such}: one gate selects all of such a clause; write spaces between the words of the file first"]


def _note_of_cut_words(parts: list[Part]) -> list[str]:
    """What is said of marks that begin or end inside a word, as if they counted something else than characters."""
    count, word = _seen(part.cut_words for part in parts)
    if not count:
        return []
    has = f"{counted(count, 'text')} {'have' if count > 1 else 'has'} a mark that begins or ends inside a word, such as"
    return [f"{has} {excerpt(word)}, all of which counts as marked; check that spans count characters, from 0"]


def _note_of_twins(parts: list[Part]) -> list[str]:
    """What is said if most pairs have the same text twice, as when a column was copied into another."""
    count, num = sum(part.twins for part in parts), sum(len(part.cells) for part in parts)
    if 2 * count <= num:
        return []
    advice = "give the columns of the first and the second text by text= and second="
    return [f"{count:,} of {counted(num, 'pair')} have the same text twice; {advice}"]


def _note_of_contradictions(keys: Sequence[bytes], classes: Sequence[int], unit: str) -> list[str]:
    """What is said of texts that stand in several rows with different classes: no model can be right about all rows."""
    classes_of: dict[bytes, set[int]] = defaultdict(set)
    for key, label in zip(keys, classes, strict=True):
        classes_of[key].add(label)
    count = sum(len(found) > 1 for found in classes_of.values())
    return [f"{counted(count, unit)} {_verb(count)} in several rows with different labels"] if count else []


def _verb(count: int) -> str:
    return "stand" if count > 1 else "stands"
