"""Predictions and highlighted rationales for new text, from a saved run.

    python -m rationale.predict outputs/12_train_sst/hardkuma-selection0.4-seed1 --text "A warm , funny film ."
    python -m rationale.predict RUN --file reviews.txt --jsonl > rationales.jsonl
    python -m rationale.predict RUN --file new.csv --column body --html > page.html
    python -m rationale.predict RUN --export model.onnx
    python -m rationale.predict outputs/13_train_nli/softmax-seed1 --text "A dog runs . ||| An animal moves ."

`--help` lists all options.
"""

import argparse
import contextlib
import json
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rationale.data.files import BYTE_ORDER_MARK, decoded, intact, open_unpacked
from rationale.data.tokenise import BETWEEN, TOKENISERS
from rationale.digests import not_a_named_pipe
from rationale.errors import BadInput, command, printable, shown
from rationale.runs.workspace import named_file

if TYPE_CHECKING:
    from rationale.runs.written_answers import Labelled

WINDOW = 1024  # texts that are in memory at a time


Pair = tuple[list[str], list[str]]  # the tokens of the sentences of a pair


def predict(run, texts: Iterable[list[str] | Pair], batch_size: int = 64, window: int = WINDOW) -> Iterator[dict]:
    """Yield one dict per text: tokens, z, prediction (class or scores), probabilities, unknown words.

    For a run on pairs, the dict also has `hypothesis`, and z is a matrix with one row per word of `tokens`, or None for
    a model without alignment; both sides begin with NULL.

    Parameters
    ----------
    run : answers.SavedRun
    texts : lists of tokens, or pairs of lists of tokens
        An empty one gets an empty answer, whose prediction is None. A word that is not in the vocabulary is looked up
        in its other spellings (lower case, treebank brackets and quotes), as word vectors were in training. A pair may
        also be one list, with `BETWEEN` between its two sentences.
    batch_size : int
        The most texts that are predicted at a time; fewer where they are long, see `answer.batched`.
    window : int
        Texts that are read before the first of them is predicted, and are in memory at a time. Among them, texts of
        similar length share a batch; the answers come in the order of the texts.

    Raises
    ------
    BadInput
        If a text is not a pair although the run needs pairs, or the reverse; the message gives its number, from 1.
    """
    from rationale.runs.answers import compute

    texts, start, outputs = iter(texts), 1, run.outputs
    while part := list(islice(texts, window)):
        sides = [_sides(run, tokens, number) for number, tokens in enumerate(part, start)]
        for computed in compute(run, sides, batch_size):
            yield _empty(run) if computed is None else _row(run, computed, outputs)
        start += len(part)


def _sides(run, tokens: list[str] | Pair, number: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A text and (), or both sentences of a pair, each behind NULL; two empty ones for a text without words."""
    from rationale.runs.answers import sides_of_pair

    if len(tokens) == 2 and not any(isinstance(side, str) for side in tokens):
        if not run.of_pairs:
            raise BadInput(f"text {number}: a pair; accepted are single texts")
        return sides_of_pair(*tokens)
    if not run.of_pairs:
        return tuple(tokens), ()
    if not tokens:
        return (), ()
    middle = tokens.index(BETWEEN) if tokens.count(BETWEEN) == 1 else 0
    if not 0 < middle < len(tokens) - 1:
        raise BadInput(f"text {number}: no pair; accepted is: a premise {BETWEEN} a hypothesis")
    return sides_of_pair(tokens[:middle], tokens[middle + 1 :])


def _row(run, computed, outputs: Sequence[str]) -> dict:
    """What was computed for one text, as `predict` gives it; `outputs` are those of the run."""
    z = [float(f"{value:.4g}") for value in computed.z.tolist()]
    row = {"tokens": list(computed.tokens), "z": z}
    if run.of_pairs:
        width = len(computed.second)
        row["hypothesis"] = list(computed.second)
        row["z"] = [z[j : j + width] for j in range(0, len(z), width)] if run.model.selector else None
    answer = run.model.head.answer(computed.prediction.unsqueeze(0))[0].tolist()
    row["prediction"] = answer if run.gives_classes else run.rescaled(answer)
    if run.gives_classes:
        shares = (round(x, 4) for x in computed.prediction.softmax(0).tolist())
        row["probabilities"] = dict(zip(outputs, shares, strict=True))
        row["label"] = outputs[answer]
    return row | {"unknown": list(computed.unknown)}


def _empty(run) -> dict:
    """The answer to a text without words."""
    names = ("label", "probabilities") if run.gives_classes else ()
    return {"tokens": [], "z": [], "prediction": None, **dict.fromkeys(names), "unknown": []}


def read_lines_of(path: Path) -> Iterator[str]:
    """The lines of a file, packed or not, one after the other; `-` is standard input.

    Raises
    ------
    BadInput
        A line is no text in UTF-8, with its number, or the file cannot be read or holds no word.
    """
    if str(path) == "-" and sys.stdin is None:
        raise BadInput("--file -: standard input is closed; accepted is text in UTF-8, one text per line")
    has_words = False
    for number, content in enumerate(_lines(path), start=1):
        line = decoded(content.removesuffix(b"\n").removesuffix(b"\r"), f"--file {path}", number)
        if "\0" in line:
            raise BadInput(f"{path}:{number}: a NUL character; accepted is one text per line, in UTF-8")
        has_words = has_words or bool(line.strip())
        yield line
    if not has_words:
        raise BadInput(f"{path}: no text; accepted is one text per line")


def _lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, packed (gzip, xz) or not, of a pipe or of a device, without a byte-order mark.

    A device without an end, such as /dev/zero, is refused; a terminal has one.
    """
    standard = str(path) == "-"
    if path.is_file() and not standard:
        with intact(path), open_unpacked(path) as file:
            yield from _without_mark(file)
        return
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if standard else open(not_a_named_pipe(path), "rb") as file:
            if not standard and _is_device(file) and not file.isatty() and file.read(1):
                raise OSError("a device, not a file")
            yield from _without_mark(file)
    except OSError as error:
        problem = error.strerror or str(error)
        from rationale.data.own.settings import SUFFIXES

        accepted = f"a UTF-8 text file, one text per line, or a table ({', '.join(SUFFIXES)})"
        raise BadInput(f"--file {path}: {problem}; accepted is {accepted}") from None


def _without_mark(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file; of a byte-order mark at its beginning, nothing is left."""
    if first := file.readline().removeprefix(BYTE_ORDER_MARK):
        yield first
    yield from file


def _is_read_twice(path: Path) -> bool:
    """False for standard input, pipes and devices, whose content is gone once it was read; also True for no file."""
    return str(path) != "-" and (path.is_file() or path.is_dir() or not path.exists())


def _is_device(file: IO[bytes]) -> bool:
    mode = os.fstat(file.fileno()).st_mode
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def rate_note(folder: Path | str, run) -> str:
    """What a user should know about the share of words that a run selects; "" if it is near the target of the run."""
    from rationale.runs.saved import read_metrics
    from rationale.training.model_selection import is_far

    target = getattr(run.parameters, "selection", None) if run.model.has_gates else None
    with contextlib.suppress(BadInput):  # a prediction needs only the model
        dev = read_metrics(folder)["dev"]
        target = dev.get("rate_target", target)  # with `per_text`, short texts may keep more than the target
        selected = dev.get("rate_selected", target)
        if target is not None and is_far(selected, target):
            return f"this run selects {selected:.1%} of the {run.model.position}s of dev, its target is {target:.1%}"
    return ""


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    form = argparse.ArgumentParser(
        "python -m rationale.predict",
        description="Predict from new text with a trained run and show which words it used.\n"
        "Selected words are bold and coloured (in [brackets] where there is no colour).",
        epilog="examples:\n"
        '  python -m rationale.predict outputs/10_first_rationale/demo --text "the head is gorgeous ."\n'
        "  python -m rationale.predict outputs/12_train_sst/hardkuma-selection0.4-seed1 --file reviews.txt --jsonl\n"
        "  python -m rationale.predict RUN --file new.csv --column body --html > page.html",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("run", type=os.path.expanduser, metavar="RUN",
                      help="folder of a finished training run (holds model.safetensors)")  # fmt: skip
    source = form.add_mutually_exclusive_group(required=True)
    source.add_argument("--text", action="append", help='a text, or "a premise ||| a hypothesis"; may be repeated')
    source.add_argument(
        "--file",
        type=named_file,
        help="a file with one text per line, however long (a blank line gets an empty answer), - for standard input, "
        "or a table: .csv, .tsv, .jsonl, .parquet; a file may be packed with gzip or xz",
    )
    source.add_argument(
        "--export",
        type=named_file,
        metavar="FILE.onnx",
        help="write the model for onnxruntime, and beside it rationale_reader.py, which needs no torch",
    )
    form.add_argument("--overwrite", action="store_true", help="replace an older export")
    form.add_argument(
        "--column", default="", help="column of the texts of a table (default: that of the training data)"
    )
    form.add_argument("--second", default="", metavar="COLUMN", help="column of the second texts, for a model of pairs")
    form.add_argument("--label", default="", help="column of the labels of a table, which the page of --html shows "
                      "beside the answers, with those that are wrong")  # fmt: skip
    output = form.add_mutually_exclusive_group()
    output.add_argument("--jsonl", action="store_true", help="one JSON object per line, with tokens, gates (z) and "
                        "the probability of each class, instead of coloured text")  # fmt: skip
    output.add_argument("--csv", action="store_true", help="a CSV file: text, label, probability, rationale; between "
                        'passages stands " | ", which a text may hold, too; --spans is never ambiguous')  # fmt: skip
    form.add_argument("--keep", action="append", default=[], metavar="COLUMN", help="a column of the table, such as an "
                      "id, that --csv, --jsonl and --html write beside each answer; may be repeated")  # fmt: skip
    output.add_argument("--html", action="store_true", help="a page that stands alone, with the rationales highlighted")
    form.add_argument(
        "--spans",
        action="store_true",
        help="passages as characters of the original text; a line of --jsonl then has text, label, probability and "
        "probabilities (or the scores), rationale and unknown, instead of tokens, gates, prediction",
    )
    form.add_argument("--title", help="title of the page (default: Rationales)")
    form.add_argument("--device", choices=("auto", "cpu", "cuda"),
                      help="where to compute; auto = a GPU if there is one; default: cpu")  # fmt: skip
    return form


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    options = parser().parse_args(arguments)
    _refuse_unused(options)
    from rationale.runs import written_answers
    from rationale.runs.saved import load_run
    from rationale.training.loop import choose_device

    device = choose_device(options.device or "cpu")  # before anything is read
    run, window = load_run(options.run), WINDOW
    if options.export is not None:
        from rationale.runs.to_onnx import READER

        print("exporting the model and trying the file on a few texts ...", file=sys.stderr, flush=True)
        path = run.export(options.export, options.overwrite)
        print(f"{shown(path)}, {path.stat().st_size / 2**20:.1f} MiB, and {shown(path.with_name(READER))}")
        return 0
    run.model.to(device)
    if options.file is not None and _is_read_twice(options.file):  # a mistake is found before anything is written
        labels = []  # those that are named by --label
        for number, (text, label) in enumerate(_rows(options, run), start=1):
            if options.label:
                labels.append(label)
            if isinstance(text, str) and run.of_pairs:  # what else there is is accepted
                _sides(run, run.tokens(text), number)
        if options.label:
            classes = run.outputs if run.gives_classes else None
            print(written_answers.note_of_labels(options.label, labels, classes), end="", file=sys.stderr)
    if str(options.file) == "-" and sys.stdin is not None and sys.stdin.isatty():
        window = 1  # somebody waits for each answer
    given = _rows(options, run)
    if options.csv or options.html or options.spans:
        lines = _written(options, run, given, window)
    else:
        rows = predict(run, (_tokens(run, text) for text, _ in given), window=window)
        if options.jsonl:
            kept = written_answers.kept_rows(options.file, options.keep)
            lines = map(_as_json, written_answers.with_kept(rows, kept))
        else:
            lines = (_shown(row, run) for row in rows)
    for line in lines:
        print(line, flush=True)
    note = rate_note(options.run, run)
    print(f"note: {note}\n" * bool(note), end="", file=sys.stderr)
    return 0


def _refuse_unused(options: argparse.Namespace) -> None:
    """Refuse options that would have no effect."""
    if options.overwrite and options.export is None:
        raise BadInput("--overwrite: only with --export, whose older file it replaces")
    if options.keep and not (options.file and (options.csv or options.jsonl or options.html)):
        with_what = "--file and one of --csv, --jsonl and --html"
        raise BadInput(f"--keep {options.keep[0]}: only with {with_what}, a table of which it keeps a column")
    if options.title is not None and not options.html:
        raise BadInput("--title: only with --html, whose page it is the title of")
    if options.title is not None and not options.title.strip():
        raise BadInput("--title: an empty title; accepted is a text")
    if options.label and not options.html:
        advice = f"; with --csv, --keep {options.label} writes the column" if options.csv else ""
        raise BadInput(f"--label {options.label}: only with --html, whose page shows the labels{advice}")
    forms = [name for name in ("jsonl", "csv", "html", "spans") if getattr(options, name)]
    if options.html and options.spans:
        raise BadInput("--spans: not with --html, whose page marks the passages")
    forms += [name for name in ("column", "second", "device") if getattr(options, name)]
    if options.export is not None and forms:
        raise BadInput(f"--{forms[0]}: only for answers to texts, and --export gives none")


def _tokens(run, text: str | tuple[str, str]) -> list[str] | Pair:
    """The tokens of a text, or of both sentences of a pair, in which `BETWEEN` is no mark."""
    if isinstance(text, str):
        return run.tokens(text)
    first, second = map(TOKENISERS[run.tokeniser], text)
    return first, second


def _rows(options, run) -> Iterator["Labelled"]:
    """The texts that the options name: given one by one, in a table with or without labels, or one per line."""
    from rationale.data.own.settings import SUFFIXES, kind_of
    from rationale.data.own.tables import ADVICE
    from rationale.runs.written_answers import rows_of_table

    kind = "" if options.file is None else kind_of(options.file)
    is_table = kind in SUFFIXES
    if kind in ADVICE.keys() - {".txt"}:
        accepted = f"a file with one text per line, or a table ({', '.join(SUFFIXES)})"
        raise BadInput(
            f"--file {options.file}: {kind} is neither lines of text nor a table; {ADVICE[kind]}; accepted: {accepted}"
        )
    if options.second and not run.of_pairs:
        raise BadInput(f"--second {options.second}: only for a model of pairs; this one reads single texts")
    for name in ("column", "second", "label", "keep"):
        given = getattr(options, name)
        given = given[0] if given and name == "keep" else given
        if given and not is_table:
            raise BadInput(f"--{name} {given}: only for --file with a table; accepted are {', '.join(SUFFIXES)}")
    if options.text and not all(text.strip() for text in options.text):
        raise BadInput("--text: an empty text; accepted is at least one word")
    if is_table:
        return rows_of_table(options.file, run, options.column, options.label, options.second)
    return ((text, None) for text in options.text or read_lines_of(options.file))


def _written(options, run, rows: Iterable["Labelled"], window: int) -> Iterator[str]:
    """The answers to texts in the form that the options ask for."""
    from rationale.runs import written_answers as written
    from rationale.runs.answer import parts_of_page

    answers, kept = written.answered(run, rows, window), written.kept_rows(options.file, options.keep)
    if options.html:
        can_be_wrong = bool(options.label) and run.gives_classes
        known = written.trained_on(Path(options.run), run) if options.label else ()
        yield from parts_of_page(answers, options.title or "Rationales", can_be_wrong, kept, known)
    elif options.csv:
        table = written.as_table(run, answers, options.spans, options.keep, kept)
        # a file has the texts as they are; a terminal would obey the control characters in them
        yield from (printable(line, keep="\n\t") for line in table) if sys.stdout.isatty() else table
    elif options.jsonl:
        yield from map(_as_json, written.with_kept(written.as_json(run, answers), kept))
    else:
        yield from written.as_text(answers)


def _as_json(row: dict) -> str:
    """One line of JSON. Characters that a terminal could obey, or that the output cannot encode, are `\\u` escapes.

    What JSON has no type for, such as a date that a table keeps, is written as text.
    """
    if "utf" not in (getattr(sys.stdout, "encoding", None) or "utf-8").lower():
        return json.dumps(row, default=str)
    line = json.dumps(row, ensure_ascii=False, default=str)
    if printable(line) == line:
        return line
    return "".join(c if printable(c) == c else f"\\u{ord(c):04x}" for c in line)


def _shown(row: dict, run) -> str:
    from rationale.data.pairs import NULL
    from rationale.highlight import highlight_ansi
    from rationale.runs.answer import most_aligned

    if row["prediction"] is None:
        return "no words\n"
    if "label" in row:
        prediction = f"{printable(row['label'])} ({row['probabilities'][row['label']]:.2f})"
    else:
        prediction = ", ".join(
            f"{printable(name)} {score:.2f}" for name, score in zip(run.outputs, row["prediction"], strict=True)
        )
    if "hypothesis" in row:
        cells = [z for weights in row["z"] or () for z in weights]
        opened = f"   {sum(z != 0 for z in cells) / len(cells):.0%} of the cells are not 0" if cells else ""
        lines = [prediction + opened]
        premise, hypothesis = (["no word", *map(printable, row[side][1:])] for side in ("tokens", "hypothesis"))
        if cells and not any(cells):
            lines.append("no cell is open, so no word of one text is aligned with a word of the other")
        elif cells:
            for word, weights in zip(premise, row["z"], strict=True):
                aligned = most_aligned(weights, hypothesis)
                lines.append(f"  {word:>12}  " + "  ".join(f"{other} {z:.2f}" for z, other in aligned))
    else:
        kept = sum(z != 0 for z in row["z"]) / len(row["z"])
        color = None if sys.stdout.isatty() else False
        lines = [
            f"{prediction}   {kept:.0%} of the words selected",
            highlight_ansi(row["tokens"], row["z"], color=color),
        ]
        if not kept:
            lines.append("no word is selected, so this prediction depends on no word of the text")
    words = [word for word in (*row["tokens"], *row.get("hypothesis", ())) if word != NULL]
    if len(row["unknown"]) == len(words):
        lines.append("no word of this text is known to this run: this is its prediction for an empty text")
    elif row["unknown"]:
        lines.append(f"unknown to this run: {printable(' '.join(row['unknown']))}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
