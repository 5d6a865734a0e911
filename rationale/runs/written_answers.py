"""Answers as text, JSON lines or CSV, one after the other; and the texts and labels of a table, for `predict`."""

import contextlib
import csv
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

from rationale.data.own.eraser import is_eraser
from rationale.data.own.labels import number_of
from rationale.data.own.labels import spelled as label_as_text
from rationale.data.own.read import texts_in_rows
from rationale.data.own.settings import is_on_hub
from rationale.data.own.tables import is_saved, open_table
from rationale.digests import changed
from rationale.errors import BadInput, counted, excerpt, printable
from rationale.runs.answer import Answer, Span, cell_as_text, spaced
from rationale.runs.answers import SavedRun
from rationale.runs.inputs import recorded_files
from rationale.runs.intact import read_json
from rationale.runs.origin import READ

Labelled = tuple[str | tuple[str, str], Any]  # a text or a pair, and its label; None: it is not known


def answered(run: SavedRun, rows: Iterable[Labelled], window: int) -> Iterator[Answer]:
    """The answer to each text, in order, beside its label.

    `window` texts are read before the first of them is answered.
    """
    rest = iter(rows)
    while part := list(islice(rest, window)):
        answers = run([text for text, _ in part])  # type: ignore[arg-type]
        yield from run.with_labels(answers, [label for _, label in part])


def rows_of_table(path: Path, run: SavedRun, column: str, label: str, second: str = "") -> Iterator[Labelled]:
    """The texts of a table; pairs, for a model of pairs. An empty cell is an empty text.

    Parameters
    ----------
    column : str
        "": the column that the run was trained on, or `text`.
    label : str
        The column of the labels. "": no label is known.
    second : str
        For a model of pairs, the column of the second texts; "" as for `column`.

    Raises
    ------
    BadInput
        The file, a column or a row cannot be used, or no row has a text.
    """
    p, table, has_words = vars(run.parameters), open_table(path), False
    columns = {"--column": column or p.get("text", "text")}
    columns |= {"--second": second or p.get("second", "second")} if run.of_pairs else {}
    if columns.get("--second") == columns["--column"]:
        again = excerpt(columns["--column"])
        raise BadInput(f"--second {again}: also the column of the first texts; accepted: another column")
    for number, cells in table.rows(columns | ({"--label": label} if label else {})):
        *cells, truth = cells if label else (*cells, None)
        row = ["" if cell is None or cell != cell else cell for cell in cells]
        wrong = next((cell for cell in row if not isinstance(cell, str) or "\0" in cell), None)
        if wrong is not None:
            raise BadInput(f"{table.where(number)}{wrong!r:.80} is no text; accepted: a text")
        has_words = has_words or all(cell.strip() for cell in row)
        yield ((row[0], row[1]) if run.of_pairs else row[0]), truth
    if not has_words:
        names = " and ".join(excerpt(name) for name in columns.values())
        what = "pair in the columns" if run.of_pairs else "text in the column"
        raise BadInput(f"{table.place}: no {what} {names}; accepted: at least one row that has it")


def as_text(answers: Iterable[Answer]) -> Iterator[str]:
    """Per answer a line, and a line per passage: where it begins and ends, and its text; or per two aligned words."""
    for answer in answers:
        lines = [printable(str(answer)), *map(_placed, answer.rationale)]
        lines += [f"{_placed(first):30} {_placed(second)} ({z:.2f})" for first, second, z in answer.alignment]
        yield "\n".join(lines) + "\n"


def as_json(run: SavedRun, answers: Iterable[Answer]) -> Iterator[dict]:
    """Per answer an object with the passages, or with the aligned words of a pair, instead of tokens and gates.

    All objects have the same keys. Of a text without words, the values are None or empty. A score with the name of
    another key is called `answer_NAME`.
    """
    others = ["kept", "text", "unknown", *(["second", "alignment"] if run.of_pairs else ["rationale"])]
    names = {} if run.gives_classes else dict(zip(run.outputs, _free_names(run.outputs, others), strict=True))
    for answer in answers:
        row: dict = {"text": answer.text} | ({"second": answer.second} if run.of_pairs else {})
        if run.gives_classes:
            row |= {"label": answer.label, "probability": answer.probability, "probabilities": answer.probabilities}
        row |= {key: answer.scores.get(name) for name, key in names.items()}
        if run.of_pairs:
            row["alignment"] = [
                {"first": first._asdict(), "second": second._asdict(), "weight": weight}
                for first, second, weight in answer.alignment
            ]
        else:
            row["rationale"] = [span._asdict() for span in answer.rationale]
        yield row | {"unknown": answer.unknown}


def _free_names(names: Iterable[str], others: Sequence[str]) -> list[str]:
    """What these names are called beside others: `answer_NAME` if another one is called the same."""
    taken = list(others)
    for name in names:
        while name in taken:
            name = f"answer_{name}"
        taken.append(name)
    return taken[len(others) :]


def kept_rows(path: Path | None, columns: list[str]) -> Iterable[dict[str, Any]]:
    """The cells of these columns of a table, by name, row by row; empty rows without end if none is wanted.

    Raises
    ------
    BadInput
        The table has no such column, or one is named twice.
    """
    if path is None or not columns:
        return repeat({})
    table, twice = open_table(path), next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"--keep {twice}: given twice; accepted: each column once")
    for name in columns:
        table.require({"--keep": name})
    cells = (cells for _, cells in table.rows({f"--keep {name}": name for name in columns}))
    return (dict(zip(columns, map(_in_json, row), strict=True)) for row in cells)


def _in_json(cell: Any) -> Any:
    """A cell as JSON can hold it, also inside a list or an object: NaN is no value, and an infinite number is text."""
    if isinstance(cell, dict):
        return dict(zip(cell, map(_in_json, cell.values()), strict=True))
    if isinstance(cell, list | tuple):
        return list(map(_in_json, cell))
    if isinstance(cell, float) and math.isinf(cell):
        return str(cell)
    return None if cell != cell else cell


def with_kept(rows: Iterable[dict], kept: Iterable[Mapping[str, Any]]) -> Iterator[dict]:
    """The rows of JSON, each behind the object `kept` of the columns of its table, if there are any."""
    return (({"kept": own} if own else {}) | row for own, row in zip(kept, rows, strict=False))


def note_of_labels(column: str, labels: Sequence[Any], classes: Sequence[str] | None) -> str:
    """A line about labels of a table that are no class of a model, so that each answer to them counts as wrong.

    If `classes` is None, the model gives scores, and the line is about labels that are no numbers.

    Raises
    ------
    BadInput
        There are labels, and none of them is a class of the model, or a number.
    """
    given = Counter(cell for cell in map(label_as_text, labels) if cell)
    known_as = set(map(label_as_text, classes or ()))  # an older run has a class True, say
    others = [name for name in given if (number_of(name) is None if classes is None else name not in known_as)]
    if not others:
        return ""
    few = f"{', '.join(map(excerpt, others[:3]))}{', ...' * (len(others) > 3)}"
    count = counted(sum(given[name] for name in others), "text")
    if classes is None:
        if len(others) == len(given):
            wrong = "none of the labels is a number, and this run gives scores"
            raise BadInput(f"--label {column}: {few}: {wrong}; accepted are numbers")
        return f"note: {count} with a label that is no number, such as {few}; this run gives scores\n"
    known = f"{', '.join(map(excerpt, classes[:6]))}{', ...' * (len(classes) > 6)}"
    if len(others) == len(given):
        raise BadInput(f"--label {column}: {few}: none of the labels is a class of this run; accepted are {known}")
    return f"note: {count} with a label that is no class of this run, such as {few}; its classes are {known}\n"


def trained_on(folder: Path, run: SavedRun) -> Collection[tuple[str, ...]]:
    """The texts, or pairs, of the training split of a run (`spaced`); none if they are not known.

    They are known if the run was trained on a table, or on a folder of tables, that has not changed since.
    """
    p, path = run.parameters, folder / "splits.csv"
    corpus = Path(getattr(p, "corpus", ""))
    if not path.is_file() or is_on_hub(str(corpus)) or is_eraser(corpus) or is_saved(corpus):
        return ()
    if changed(read_json(folder / READ, dict[str, str]) if (folder / READ).is_file() else recorded_files(folder)):
        return ()
    rows = defaultdict(set)
    with contextlib.suppress(BadInput, OSError, ValueError, KeyError):  # the texts or splits.csv are gone or damaged
        with open(path, newline="", encoding="utf-8") as file:
            of_train = (row for row in csv.DictReader(file) if row["split"] == "train")
            for row in islice(of_train, p.num_train or None):  # the first ones; the others were not used
                rows[Path(row["file"]).name].add(int(row["row"]))
        return {spaced(texts) for texts in texts_in_rows(p, rows) if all(isinstance(text, str) for text in texts)}
    return ()


def as_table(
    run: SavedRun,
    answers: Iterable[Answer],
    spans: bool,
    columns: Sequence[str] = (),
    kept: Iterable[Mapping[str, Any]] = repeat({}),
) -> Iterator[str]:
    """The lines of a CSV file: text, label and probability (or a column per score), and the rationale or the alignment.

    Texts stand as they were given, so that the spans fit them. The rationale is its passages with " | " between
    them, or [[start, end], ...] with `spans`. For a model of pairs, the last column is the alignment: a part such as
    `dog: animal (0.98)` per aligned word, or [[start, end, start, end, weight], ...] with `spans`. Before all this
    stand these `columns` of the table that the texts are from, with the cells `kept` in each row (`cell_as_text`). They
    keep their names, and one of our columns with the same name is called `answer_NAME`.
    """
    values = ["label", "probability"] if run.gives_classes else list(run.outputs)
    ours = ["text", *["second"] * run.of_pairs, *values, "alignment" if run.of_pairs else "rationale"]
    yield _line([*columns, *_free_names(ours, columns)])
    for answer, row in zip(answers, kept, strict=False):
        texts = [answer.text, *[answer.second] * run.of_pairs]
        given = [answer.label, answer.probability] if run.gives_classes else [answer.scores.get(x) for x in values]
        yield _line(
            [*map(cell_as_text, row.values()), *texts, *given, _with_places(answer) if spans else _in_words(answer)]
        )


def _placed(span: Span) -> str:
    return f"{span.start:6}-{span.end:<6} {printable(span.text)}"


def _in_words(answer: Answer) -> str:
    """The passages of an answer, or its aligned words."""
    passages = (" ".join(span.text.split()) for span in answer.rationale)
    return " | ".join(answer.aligned_words if answer.second else passages)


def _with_places(answer: Answer) -> str:
    """The passages of an answer as characters of its text, or its aligned words as those of both texts."""
    if answer.second:
        return json.dumps([[*a[:2], *b[:2], float(f"{weight:.4g}")] for a, b, weight in answer.alignment])
    return json.dumps([[start, end] for start, end, _ in answer.rationale])


def _line(values: list) -> str:
    """A row of a CSV file without its end. A cell with a line feed or a carriage return stands in quotes."""
    written, end = io.StringIO(newline=""), "\r\n"  # the writer quotes the characters of its own end of a line
    csv.writer(written, lineterminator=end).writerow(["" if value is None else value for value in values])
    return written.getvalue().removesuffix(end)
