"""Tables of texts, row by row: CSV, TSV, JSON lines, Parquet, and data sets of the library `datasets`."""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rationale.data.files import MALFORMED, brief, open_unpacked, parse_json, read_lines
from rationale.data.hub import hub_or_cache
from rationale.data.own.settings import HUB, SUFFIXES, kind_of
from rationale.digests import recorded, revision_read
from rationale.errors import BadInput, cut, excerpt, optional, printable, shown
from rationale.settings import did_you_mean

EXTRA = "texts"  # of this package; it installs pyarrow and datasets
LONGEST_FIELD = 1 << 30  # characters of a field of a CSV file
MOST_HEADER_LINES = 100  # of a CSV file: an editor of tables allows lines within the name of a column
FIRST_OBJECTS = 100  # of a file of JSON lines, whose keys are its columns, unless another one is asked for
DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
AS_CSV = "save the sheet as CSV in UTF-8"
AS_LINES = "write one object per line, and name the file .jsonl"
ADVICE = {  # ending of a file that is no table -> what to do with it
    **dict.fromkeys((".xlsx", ".xls", ".ods"), AS_CSV),
    **dict.fromkeys((".zip", ".7z", ".rar", ".tar", ".tgz", ".bz2", ".zst"), "unpack it, or pack it with gzip or xz"),
    ".json": AS_LINES,
    ".ndjson": "name the file .jsonl",
    ".txt": "name it .csv or .tsv, if its first line has the column names",
}
OTHERS = {  # first bytes, in lower case -> what such a file is, and what to do
    b"pk\x03\x04": f"a zip archive or a spreadsheet; unpack it, or {AS_CSV}",
    b"\xd0\xcf\x11\xe0": f"a spreadsheet (.xls); {AS_CSV}",
    b"par1": "a Parquet file; name it .parquet",
    b"%pdf-": "a PDF; accepted: a table of texts",
    b"version https://git-lfs": "a pointer of Git LFS, and not the file; fetch it by git lfs pull",
    b"<!doctype html": "a web page; accepted: a table of texts",
    b"<html": "a web page; accepted: a table of texts",
}
UNKNOWN = -1  # the number of a class that `datasets` writes where it is not published
Row = tuple[int, Sequence[Any]]  # number, and the values of the columns that were asked for


@dataclass
class Table:
    """A table whose rows are read when they are iterated over.

    Parameters
    ----------
    place : str
        The file, as messages name it.
    columns : list of str
    read : function of column names -> iterator of `Row`
    unit : str
        What is counted: the rows of a spreadsheet (1 is the header), or lines.
    names : column -> names of its classes, for numbers that stand for them
    hidden : columns of classes that are unknown in every row, as in the test splits of competitions
    all_columns : function
        Reads the whole table to find the columns that only later rows have; None: there are none.
    """

    place: str
    columns: list[str]
    read: Callable[[Sequence[str]], Iterator[Row]]
    unit: str = "row"
    names: dict[str, list[str]] = field(default_factory=dict)
    hidden: tuple[str, ...] = ()
    all_columns: Callable[[], list[str]] | None = None

    def where(self, number: int) -> str:
        """The beginning of a message about a row: `reviews.csv, row 17: `."""
        return f"{self.place}, {self.unit} {number}: "

    def rows(self, wanted: dict[str, str]) -> Iterator[Row]:
        """The rows, with the values of these columns in this order.

        Parameters
        ----------
        wanted : setting -> name of a column

        Raises
        ------
        BadInput
            A column is missing, or a row is damaged.
        """
        self.require(wanted)
        return self.read(tuple(wanted.values()))

    def require(self, wanted: dict[str, str]) -> None:
        """Raise `BadInput` if a column is missing; `wanted` as for `rows`."""
        if self.all_columns is not None and not set(wanted.values()) <= set(self.columns):
            self.columns, self.all_columns = self.all_columns(), None
        for setting, column in wanted.items():
            if column not in self.columns:
                there = ", ".join(cut(f"{name}", 60) or "''" for name in self.columns[:30])
                there += ", ..." * (len(self.columns) > 30)
                option = setting if setting.startswith("--") else f"{setting}="
                hint = did_you_mean(column, self.columns) or f"; give {option} one of these"
                if len(self.columns) == 1 and "," in str(self.columns[0]):
                    hint = "; its columns seem to be divided by commas: name the file .csv"
                raise BadInput(f"{self.place}: no column {excerpt(column)}; its columns are {there}{hint}")


def open_table(path: Path) -> Table:
    """The table in a file; only its first row is read at once.

    Raises
    ------
    BadInput
        The file is missing, empty, damaged or of another format.
    """
    kind = kind_of(path)
    if kind not in SUFFIXES:
        if not kind:
            accepted = f"{', '.join(SUFFIXES)}; name the file after its format, as in {printable(path.name)}.csv"
            raise BadInput(f"{shown(path)}: a name without an ending; accepted: {accepted}")
        hint = f"; {ADVICE[kind]}" if kind in ADVICE else ""
        raise BadInput(f"{shown(path)}: {kind} is no table; accepted: {', '.join(SUFFIXES)}{hint}")
    if not path.is_file():
        beside = path.parent.iterdir() if path.parent.is_dir() else ()
        others = sorted(other.name for other in beside if kind_of(other) in SUFFIXES)
        if path.exists() or path.is_symlink():
            why = "is no file of data" if path.exists() else "is a link to what is not there"
            raise BadInput(f"{shown(path)}: {why}; accepted: a file, or a folder of files")
        hint = did_you_mean(path.name, others) or f"; beside it: {', '.join(others[:10])}" * bool(others)
        if not Path(shown(path)).is_absolute():  # the parameter file that names it may be in another folder
            hint += f"; a relative path begins in the current folder, {printable(str(Path.cwd()))}"
        raise BadInput(f"{shown(path)}: no such file{hint}")
    if kind != ".parquet":
        _refuse_other_format(path, kind)
    return {".csv": _csv, ".tsv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}[kind](path)


def _refuse_other_format(path: Path, kind: str) -> None:
    """Say what a file of text is, if its first bytes are those of another format."""
    with _readable(path), open_unpacked(path) as file:
        start = file.read(200)
    told = start.lstrip().lower()
    what = next((what for sign, what in OTHERS.items() if told.startswith(sign)), "")
    if kind in DELIMITERS and re.match(rb"\[?\s*\{\s*\"", told):
        what = f"JSON; {AS_LINES}"
    if start[1:8:2] == bytes(4) or start[:8:2] == bytes(4):
        what = "text in UTF-16; accepted: text in UTF-8"
    if what:
        raise BadInput(f"{shown(path)}: {what}")


def _csv(path: Path) -> Table:
    place, kind = shown(path), kind_of(path)
    beginning = list(islice(read_lines(path), MOST_HEADER_LINES if kind == ".csv" else 1))
    first = beginning[0] if beginning else None
    if first is None or not first.strip():
        what = "empty" if first is None else "its first row is empty"
        raise BadInput(f"{place}: {what}; accepted: a row with column names")
    if "\0" in first:
        raise BadInput(f"{place}, row 1: a NUL character; accepted: text in UTF-8")
    if re.fullmatch(r"sep=.\s*", first):
        advice = "remove it, so that the column names come first"
        raise BadInput(f"{place}, row 1: {excerpt(first.strip())} is a line for Excel; {advice}")
    if "\r" in first.rstrip("\r"):
        accepted = "lines that end with a line feed"
        raise BadInput(f"{place}, row 1: a carriage return in the column names; accepted: {accepted}")
    lines = [line + "\n" for line in beginning]  # a name in quotes may have several
    csv.field_size_limit(LONGEST_FIELD)
    headers = [next(csv.reader(lines, delimiter=sign), []) for sign in DELIMITERS[kind]]
    header = max(headers, key=len)  # the first of equal ones
    delimiter = DELIMITERS[kind][headers.index(header)]
    if kind == ".csv":
        next(_fields(lines, place, delimiter, True))  # refuses a quote that is never closed
    columns = [name.strip() for name in header]
    _refuse_repeated(columns, f"{place}, row 1")

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        chosen = [columns.index(name) for name in wanted]
        quoted = kind != ".tsv" or _is_quoted(path, delimiter)
        for number, row in _fields(_lines(path), place, delimiter, quoted):
            if number == 1 or not row:  # the header, or an empty line
                continue
            if len(row) != len(columns):
                if any("\0" in cell for cell in row):
                    raise BadInput(f"{place}, row {number}: a NUL character; accepted: text in UTF-8")
                counts = f"{len(row)} field{'s' * (len(row) > 1)}, but the header has {len(columns)}"
                holds = "holds the delimiter" if len(row) > len(columns) else "has several lines"
                raise BadInput(f"{place}, row {number}: {counts}; put a text that {holds} in double quotes")
            yield number, [row[i] for i in chosen]

    return Table(place, columns, read)


def _refuse_repeated(columns: list[str], place: str) -> None:
    twice = next((name for name in columns if columns.count(name) > 1 and name), None)
    if twice is not None:
        raise BadInput(f"{place}: the column {excerpt(twice)} stands twice; accepted: each name once")


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file with their ends, as `csv` reads them."""
    return (line + "\n" for line in read_lines(path))


def _fields(lines: Iterable[str], place: str, delimiter: str, quoted: bool) -> Iterator[tuple[int, list[str]]]:
    """(number, fields) of every row of a CSV file; a row may have several lines."""
    csv.field_size_limit(LONGEST_FIELD)
    number = 0
    reader = csv.reader(
        lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE, strict=quoted
    )
    while True:
        number += 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            reason = "a quote is never closed" if "unexpected end" in str(error) else str(error)
            accepted = 'a field in double quotes, in which each double quote is written twice: "she said ""no"""'
            raise BadInput(f"{place}, row {number}: {reason}; accepted: {accepted}") from None
        yield number, row


def _is_quoted(path: Path, delimiter: str) -> bool:
    """Whether a TSV file is read with quotes: all its rows have one width then.

    Many TSV files have plain quotes in their texts. Two of them in different rows can look like one text of two lines,
    so if all rows have that width without quotes, too, there must not be more of them.
    """
    try:
        widths = Counter(len(row) for _, row in _fields(_lines(path), "", delimiter, True) if row)
    except BadInput:
        return False
    plain = Counter(len(row) for _, row in _fields(_lines(path), "", delimiter, False) if row)
    return len(widths) == 1 and (widths.keys() != plain.keys() or widths == plain)


def _json_lines(path: Path) -> Table:
    place = shown(path)
    accepted = 'one JSON object per line, such as {"text": "...", "label": "..."}'

    def objects() -> Iterator[tuple[int, dict]]:
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip():
                value = parse_json(line, f"{place}, line {number}", accepted)
                if not isinstance(value, dict):
                    raise BadInput(f"{place}, line {number}: {excerpt(value)} is no object; accepted: {accepted}")
                yield number, value

    def keys(most: int | None = None) -> list[str]:
        """The keys of the first objects, or of all, in order; one may lack a key."""
        return list(dict.fromkeys(chain.from_iterable(value for _, value in islice(objects(), most))))

    columns = keys(FIRST_OBJECTS)
    if not columns:
        raise BadInput(f"{place}: empty; accepted: {accepted}")

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        for number, value in objects():
            yield number, [value.get(name) for name in wanted]  # a key that is not there is a missing value

    return Table(place, columns, read, unit="line", all_columns=keys)


def _parquet(path: Path) -> Table:
    parquet = optional("pyarrow.parquet", f"{shown(path)}", EXTRA)
    with _readable(path):
        file = parquet.ParquetFile(recorded(path))
        columns = list(file.schema_arrow.names)

    _refuse_repeated(columns, shown(path))

    def read(wanted: Sequence[str]) -> Iterator[Row]:
        with _readable(path):
            parts = (batch.to_pydict() for batch in file.iter_batches(columns=list(dict.fromkeys(wanted))))
            rows = chain.from_iterable(zip(*(part[name] for name in wanted), strict=True) for part in parts)
            yield from enumerate(rows, start=1)

    return Table(shown(path), columns, read)


def is_saved(folder: Path) -> bool:
    """Whether a folder holds a data set that `datasets` has saved with `save_to_disk`."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "dataset_info.json"))


def saved_tables(folder: Path) -> dict[str, Table]:
    """The splits of a data set that `datasets` has saved with `save_to_disk`; {} if the folder is none.

    Raises
    ------
    BadInput
        The folder is damaged, or `datasets` is not installed.
    """
    if not is_saved(folder):
        return {}
    datasets = optional("datasets", f"{shown(folder)}", EXTRA)
    with _readable(folder):
        saved = datasets.load_from_disk(str(recorded(folder)))
    parts = dict(saved) if isinstance(saved, datasets.DatasetDict) else {"train": saved}
    return {name: _saved(f"{shown(folder)}, {name}", part) for name, part in parts.items()}


def hub_tables(corpus: str) -> dict[str, Table]:
    """The splits of a data set on the hub, which `datasets` fetches unless its cache on this machine has them.

    Parameters
    ----------
    corpus : str
        `hub:owner/name`, or `hub:owner/name:configuration` if the data set has several.

    Raises
    ------
    BadInput
        `datasets` is not installed or cannot load the data set: there is no network, no such name, or no such
        configuration.
    """
    name, _, configuration = corpus.removeprefix(HUB).partition(":")
    datasets = optional("datasets", f"corpus: {corpus}", EXTRA)
    try:
        with hub_or_cache(name, "README.md", kind="dataset"):
            parts = datasets.load_dataset(name, configuration or None)
    except Exception as error:  # the library and those below it have many ways to say that something is not there
        names = f"{HUB}owner/name or {HUB}owner/name:configuration, with a network or from the cache of `datasets`"
        others = "or a file, or a folder that save_to_disk has written"
        raise BadInput(
            f"corpus: {corpus} cannot be loaded ({brief(error)[:150]}); accepted: {names}; {others}"
        ) from None
    for part in parts.values():
        files = [file["filename"] for file in part.cache_files]
        for file in files:
            recorded(Path(file))
        revision_read(corpus, _revision(files + list(part.info.download_checksums or ())))
    return {split: _saved(f"{corpus}, {split}", part) for split, part in parts.items()}


def _revision(places: Iterable[str]) -> str | None:
    """The commit of a data set, which `datasets` has in the paths of its cache, or in the addresses that it fetched."""
    return next((found[1] for place in places if (found := re.search(r"[/\\@]([0-9a-f]{40})[/\\]", place))), None)


def _saved(place: str, part: Any) -> Table:
    def read(wanted: Sequence[str]) -> Iterator[Row]:
        batches = part.select_columns(list(dict.fromkeys(wanted))).iter(batch_size=1000)
        rows = chain.from_iterable(zip(*(batch[name] for name in wanted), strict=True) for batch in batches)
        yield from enumerate(rows, start=1)

    names = {name: list(kind.names) for name, kind in part.features.items() if hasattr(kind, "names")}
    hidden = tuple(name for name in names if part.unique(name) == [UNKNOWN])
    return Table(place, list(part.column_names), read, names=names, hidden=hidden)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what a library raises while it reads a file into one line with the name of the file."""
    try:
        yield
    except BadInput:
        raise
    except MALFORMED as error:
        raise BadInput(f"{shown(path)}: cut short, damaged or of another format ({brief(error)[:120]})") from None
