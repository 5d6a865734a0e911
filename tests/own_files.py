"""Files of one's own: tables that are right, and 30 and more that are not, for the tests of `data.own`."""

import csv
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

GOOD, BAD = ("warm funny lovely film", "a delight to watch"), ("cold dull dreadful film", "a bore to watch")


def settings(corpus: Path, **changes) -> SimpleNamespace:
    """The settings that name texts of one's own."""
    usual = {"text": "text", "label": "label", "rationale": "", "head": "auto", "tokeniser": "treebank"}
    limits = dict.fromkeys(("num_train", "num_dev", "num_test"), 0)
    others = {"corpus": str(corpus), "skip_incomplete": False, "split_seed": 1}
    return SimpleNamespace(**(usual | limits | others | changes))


def reviews(count: int = 40) -> list[dict]:
    """Reviews, one half pos and the other neg, all different."""
    return [{"text": f"{(BAD, GOOD)[i % 2][i // 2 % 2]} {i} .", "label": ("neg", "pos")[i % 2]} for i in range(count)]


def rated(count: int = 60) -> list[dict]:
    """Reviews with scores from 1 to 10, in halves."""
    return [{"text": f"film number {i}", "label": 1 + i * 7 % 19 / 2} for i in range(count)]


def write_table(path: Path, rows: list[dict], delimiter: str = ",") -> Path:
    """A CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        table.writeheader()
        table.writerows(rows)
    return path


def write_lines(path: Path, rows: list[dict]) -> Path:
    """A file of JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def changed(number: int, rows: list[dict] | None = None, **values) -> list[dict]:
    """Reviews of which one, counted from 0, has other values."""
    rows = rows or reviews()
    rows[number] = rows[number] | values
    return rows


def write_eraser(folder: Path, **changes) -> Path:
    """A folder in ERASER's format with 12 documents; `changes` are of the third annotation of train."""
    (folder / "docs").mkdir(parents=True)
    for i, row in enumerate(reviews(12)):
        words = row["text"].split()
        (folder / "docs" / f"d{i}.txt").write_text(f"{' '.join(words[:2])}\n{' '.join(words[2:])}\n")
    splits = {"train": range(8), "val": range(8, 10), "test": range(10, 12)}
    for split, numbers in splits.items():
        rows = []
        for i in numbers:
            evidence = {"docid": f"d{i}.txt", "start_token": 1, "end_token": 3, "text": "", "start_sentence": 0}
            row = {"annotation_id": f"d{i}.txt", "classification": ("NEG", "POS")[i % 2], "evidences": [[evidence]]}
            rows.append(row | {"query": "Is it good?", "docids": None} | (changes if i == 2 else {}))
        write_lines(folder / f"{split}.jsonl", rows)
    return folder


def _documents(folder: Path) -> list[dict]:
    """The documents of a folder in ERASER's format, as docs.jsonl has them."""
    return [{"docid": path.name, "document": path.read_text()} for path in sorted((folder / "docs").iterdir())]


def _three(folder: Path, **files) -> Path:
    """A folder with files of splits, each a list of reviews."""
    for name, rows in files.items():
        write_table(folder / f"{name}.csv", rows)
    return folder


def _bytes(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _parquet_twice(path: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    columns = [pa.array([row[name] for row in reviews()]) for name in ("text", "text", "label")]
    parquet.write_table(pa.Table.from_arrays(columns, ["text", "text", "label"]), path)
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _link(path: Path) -> Path:
    path.symlink_to(path.with_name("gone.csv"))
    return path


_CSV = "text,label\n" + "".join(f"{row['text']},{row['label']}\n" for row in reviews())
Write = Callable[[Path], Path]

# What is wrong -> how it is written into a folder, the settings that differ, and what the message says, in order.
BAD_FILES: dict[str, tuple[Write, dict, list[str]]] = {
    "no such file": (lambda d: write_table(d / "reviews.csv", reviews()).with_name("review.csv"), {},
                     ["review.csv: no such file, did you mean reviews.csv?"]),
    "a named pipe": (lambda d: _pipe(d / "r.csv"), {}, ["r.csv: is no file of data; accepted: a file, or a folder"]),
    "a link to nothing": (lambda d: _link(d / "r.csv"), {}, ["r.csv: is a link to what is not there"]),
    "lines of an old Mac": (lambda d: _bytes(d / "r.csv", _CSV.replace("\n", "\r").encode()), {},
                            ["r.csv, row 1: a carriage return in the column names", "line feed"]),
    "commas in a TSV file": (lambda d: _bytes(d / "r.tsv", _CSV.encode()), {},
                             ["its columns seem to be divided by commas: name the file .csv"]),
    "no ending": (lambda d: _bytes(d / "reviews", _CSV.encode()), {},
                  ["reviews: a name without an ending; accepted: .csv, .tsv, .jsonl, .parquet", "as in reviews.csv"]),
    "another ending": (lambda d: _bytes(d / "reviews.xlsx", b"PK"), {}, [".xlsx is no table", "save the sheet"]),
    "an empty file": (lambda d: _bytes(d / "r.csv", b""), {}, ["r.csv: empty", "column names"]),
    "only a header": (lambda d: _bytes(d / "r.csv", b"text,label\n"), {}, ["r.csv: no text in it"]),
    "a missing column": (lambda d: write_table(d / "r.csv", [{"body": "a", "label": "b"}]), {},
                         ["r.csv: no column 'text'; its columns are body, label; give text= one of these"]),
    "a misspelt column": (lambda d: write_table(d / "r.csv", reviews()), {"label": "lable"},
                          ["no column 'lable'; its columns are text, label, did you mean"]),
    "a column twice": (lambda d: _bytes(d / "r.csv", b"text,label,text\na,b,c\n"), {}, ["'text' stands twice"]),
    "an empty text": (lambda d: write_table(d / "r.csv", changed(15, text=" ")), {},
                      ["r.csv, row 17: an empty text in column 'text'; remove", "give skip_incomplete=true"]),
    "several empty texts": (lambda d: write_table(d / "r.csv", changed(15, changed(20, text=""), text="")), {},
                            ["row 17: an empty text", "(22 is bad as well)"]),
    "an empty text, and then a missing label": (
        lambda d: write_table(d / "r.csv", changed(15, changed(20, label=""), text="")), {},
        ["row 17: an empty text", "(22 is bad as well)"]),
    "many empty texts": (lambda d: write_table(d / "r.csv", [row | {"text": ""} for row in reviews()]), {},
                         ["row 2: an empty text", "(39 more bad rows, such as 3, 4, 5)"]),
    "a label that is missing": (lambda d: write_table(d / "r.csv", changed(3, label="")), {},
                                ["r.csv, row 5: no label in column 'label'; remove", "give skip_incomplete=true"]),
    "a label that occurs once": (lambda d: write_table(d / "r.csv", changed(8, label="po")), {},
                                 ["r.csv, row 10: the label 'po' in column 'label' occurs once; correct it or remove"]),
    "every label occurs once": (lambda d: write_table(d / "r.csv", reviews()), {"label": "text"},
                                ["occurs once, and so do 39 other labels; give label= the column"]),
    "one class only": (lambda d: write_table(d / "r.csv", [row | {"label": "pos"} for row in reviews()]), {},
                       ["every text has the same label, 'pos' in column 'label'; at least two are needed"]),
    "a score that is NaN": (lambda d: write_table(d / "r.csv", changed(4, rated(), label="nan")), {},
                            ["r.csv, row 6: 'nan' in column 'label' is a missing score"]),
    "a score that is infinite": (lambda d: write_table(d / "r.csv", changed(4, rated(), label="inf")), {},
                                 ["row 6: 'inf' in column 'label' is no finite number; accepted: a number"]),
    "a score that is a word": (lambda d: write_table(d / "r.csv", changed(4, rated(), label="good")), {},
                               ["row 6: 'good' in column 'label' is no number", "head=classes"]),
    "words where scores are asked for": (lambda d: write_table(d / "r.csv", reviews()), {"head": "scores"},
                                         ["row 2: 'neg' in column 'label' is no number (and in 39 more rows)"]),
    "a rationale longer than its text": (
        lambda d: write_lines(d / "r.jsonl", [row | {"why": [[0, 4 if i != 6 else 400]]} for i, row in
                                              enumerate(reviews())]), {"rationale": "why"},
        ["r.jsonl, line 7: the rationale is longer than its text: it ends at 400, the text has 19 characters"]),
    "more marks than words": (lambda d: write_table(d / "r.csv", [row | {"why": "0 1 " * 9} for row in reviews()]),
                              {"rationale": "why"}, ["row 2: the rationale is longer than its text: 18 marks for 6"]),
    "fewer marks than words": (lambda d: write_table(d / "r.csv", [row | {"why": "0,1"} for row in reviews()]),
                               {"rationale": "why"}, ["row 2: the rationale is 2 marks for 6 words"]),
    "a span that is backwards": (lambda d: write_table(d / "r.csv", [row | {"why": "[[5, 2]]"} for row in reviews()]),
                                 {"rationale": "why"}, ["row 2: the span [5, 2] of the rationale is empty or"]),
    "a span that begins before its text": (
        lambda d: write_table(d / "r.csv", [row | {"why": "[[-3, 2]]"} for row in reviews()]), {"rationale": "why"},
        ["row 2: the span [-3, 2] of the rationale begins before its text; accepted: 0 <= start < end"]),
    "a rationale that is a text": (lambda d: write_table(d / "r.csv", [row | {"why": "film"} for row in reviews()]),
                                   {"rationale": "why"}, ["row 2: the rationale 'film' is not understood", "[[0, 12]"]),
    "another encoding": (lambda d: _bytes(d / "r.csv", _CSV.replace("delight", "délice", 1).encode("latin-1")), {},
                         ["r.csv:5: not text in UTF-8 (byte 0xe9)"]),
    "UTF-16": (lambda d: _bytes(d / "r.csv", _CSV.encode("utf-16")), {}, ["(byte 0xff)", "(iconv -f utf-16 -t utf-8)"]),
    "a NUL character": (lambda d: write_table(d / "r.csv", changed(2, text="a\0b")), {}, ["row 4: a NUL character"]),
    "a quote that is never closed": (lambda d: _bytes(d / "r.csv", (_CSV + '"a text,pos\n').encode()), {},
                                     ["r.csv, row 42: a quote is never closed", "in double quotes"]),
    "a quote in the header that is never closed": (
        lambda d: _bytes(d / "r.csv", b'text,"label\n' + _CSV.encode()), {},
        ["r.csv, row 1: a quote is never closed", "in double quotes"]),
    "a quote in the header that is never closed, above long texts": (
        lambda d: _bytes(d / "r.csv", b'text,"label\n' + b"a long text,pos\n" * 90 + b"word " * 30_000), {},
        ["r.csv, row 1: a quote is never closed", "in double quotes"]),
    "a comma too many": (lambda d: _bytes(d / "r.csv", (_CSV + "warm, funny,pos\n").encode()), {},
                         ["r.csv, row 42: 3 fields, but the header has 2", "double quotes"]),
    "a split without a class": (
        lambda d: _three(d, train=reviews(), dev=[{"text": "x y", "label": "pos"}] * 2, test=reviews(4)), {},
        ["the dev split has no text of the class 'neg'"]),
    "a class too small to be divided": (
        lambda d: write_table(d / "r.csv", changed(3, changed(5, label="so"), label="so")),
        {}, ["the train split has no text of the class 'so' (2 texts of it in all",
             "label more texts of it, or remove its rows"]),
    "a folder without train": (lambda d: _three(d, dev=reviews(), test=reviews()), {},
                               ["no train file in this folder, which holds dev.csv, test.csv"]),
    "two dev files": (lambda d: _three(d, train=reviews(), dev=reviews(), validation=reviews()), {},
                      ["dev.csv and validation.csv are both the dev split"]),
    "a train file and the packed file from which it came": (
        lambda d: _bytes(_three(d, train=reviews()) / "train.csv.gz", gzip.compress(_CSV.encode())).parent, {},
        ["train.csv and train.csv.gz are both the train split"]),
    "a train file and a copy of it": (
        lambda d: write_table(_three(d, train=reviews()) / "train.old.csv", reviews()).parent, {},
        ["train.csv and train.old.csv are both the train split"]),
    "a part of a file that is missing": (
        lambda d: _three(d, **{f"train-0000{i}-of-00003": reviews() for i in (0, 2)}), {},
        ["train-00000-of-00003.csv: 2 files of 3 parts in this folder; accepted: all parts, each once, or one file "
         "without a number"]),
    "a line that is no JSON": (lambda d: _bytes(d / "r.jsonl", b'{"text": "a", "label": 1}\n{"text": \n'), {},
                               ["r.jsonl, line 2", "is not JSON"]),
    "a line that is no object": (lambda d: _bytes(d / "r.jsonl", b'{"text": "a", "label": 1}\n[1, 2]\n'), {},
                                 ["r.jsonl, line 2: [1, 2] is no object"]),
    "a line without a key": (lambda d: write_lines(d / "r.jsonl", [*reviews(), {"text": "a"}]), {},
                             ["r.jsonl, line 41: no label in column 'label'; remove", "give skip_incomplete=true"]),
    "a text that is a number": (lambda d: write_lines(d / "r.jsonl", changed(2, text=7)), {},
                                ["line 3: 7, which is no text, in column 'text'"]),
    "a label that is a list": (lambda d: write_lines(d / "r.jsonl", changed(2, label=["pos"])), {},
                               ["line 3: ['pos'] in column 'label' is no label"]),
    "a damaged parquet file": (lambda d: _bytes(d / "r.parquet", b"PAR1" + b"x" * 90), {}, ["r.parquet: cut short"]),
    "a packed file that is cut short": (lambda d: _bytes(d / "r.csv.gz", gzip.compress(_CSV.encode())[:-9]), {},
                                        ["r.csv.gz: cut short"]),
    "evidence outside of its document": (
        lambda d: write_eraser(d, evidences=[[{"docid": "d2.txt", "start_token": 4, "end_token": 99}]]), {},
        ["train.jsonl, line 3: the rationale is longer than its text: evidence [4, 99] in a document of 6 tokens"]),
    "two documents of ERASER with one name": (
        lambda d: write_lines(d / "docs.jsonl", [*_documents(write_eraser(d)), {"docid": "d2.txt", "document": "a b"}])
        .parent, {}, ["docs.jsonl:13: the docid 'd2.txt' stands in an earlier line with another document; accepted: "]),
    "a document of ERASER without a name": (
        lambda d: write_lines(d / "docs.jsonl", [*_documents(write_eraser(d)), {"document": "a b"}]).parent, {},
        ["docs.jsonl:13: no docid; accepted: "]),
    "evidence that is backwards": (
        lambda d: write_eraser(d, evidences=[[{"docid": "d2.txt", "start_token": 4, "end_token": 2}]]), {},
        ["train.jsonl, line 3: the rationale is empty or backwards: evidence [4, 2] in a document of 6 tokens"]),
    "evidence that begins before its document": (
        lambda d: write_eraser(d, evidences=[[{"docid": "d2.txt", "start_token": -1, "end_token": 2}]]), {},
        ["train.jsonl, line 3: the rationale begins before its text: evidence [-1, 2] in a document of 6 tokens"]),
    "a document of ERASER that is empty": (
        lambda d: _bytes(write_eraser(d) / "docs" / "d2.txt", b" \n").parent.parent, {},
        ["train.jsonl, line 3: the document 'd2.txt' is empty; accepted: documents with at least one word"]),
    "annotations of ERASER without documents": (
        lambda d: (write_eraser(d) / "docs").rename(d / "texts").parent, {},
        ["annotations in ERASER's format without their documents; accepted: a folder docs"]),
    "a document that is not there": (lambda d: write_eraser(d, docids=["../x"]), {},
                                     ["train.jsonl, line 3: the document '../x' is not in docs"]),
    "an annotation that is none": (lambda d: write_eraser(d, evidences=None), {}, ["line 3: no annotation of ERASER"]),
    "a blank row above the column names": (lambda d: _bytes(d / "r.csv", ("\n" + _CSV).encode()), {},
                                           ["r.csv: its first row is empty; accepted: a row with column names"]),
    "a line for Excel above the column names": (
        lambda d: _bytes(d / "r.csv", ("sep=,\n" + _CSV).encode()), {},
        ["r.csv, row 1: 'sep=,' is a line for Excel; remove it, so that the column names come first"]),
    "UTF-16 without a mark": (lambda d: _bytes(d / "r.csv", _CSV.encode("utf-16-le")), {},
                              ["r.csv: text in UTF-16; accepted: text in UTF-8"]),
    "a NUL character in the column names": (lambda d: _bytes(d / "r.csv", _CSV.replace("t", "\0", 1).encode()), {},
                                            ["r.csv, row 1: a NUL character; accepted: text in UTF-8"]),
    "NUL characters at the end": (lambda d: _bytes(d / "r.csv", _CSV.encode() + bytes(4096)), {},
                                  ["r.csv, row 42: a NUL character; accepted: text in UTF-8"]),
    "a row that is cut": (lambda d: _bytes(d / "r.csv", (_CSV + "warm and funny\n").encode()), {},
                          ["r.csv, row 42: 1 field, but the header has 2; put a text that has several lines in"]),
    "a zip archive named as a table": (lambda d: _bytes(d / "r.csv", b"PK\x03\x04" + bytes(99)), {},
                                       ["r.csv: a zip archive or a spreadsheet; unpack it, or save the sheet as CSV"]),
    "an old spreadsheet named as a table": (lambda d: _bytes(d / "r.tsv", b"\xd0\xcf\x11\xe0" + bytes(99)), {},
                                            ["r.tsv: a spreadsheet (.xls); save the sheet as CSV in UTF-8"]),
    "a PDF named as a table": (lambda d: _bytes(d / "r.csv", b"%PDF-1.5\n%\xe2\xe3"), {}, ["r.csv: a PDF; accepted: "]),
    "Parquet named as a table": (lambda d: _bytes(d / "r.csv", b"PAR1" + bytes(99)), {},
                                 ["r.csv: a Parquet file; name it .parquet"]),
    "a web page named as a table": (lambda d: _bytes(d / "r.csv", b"\n<!DOCTYPE html>\n<html>\n"), {},
                                    ["r.csv: a web page; accepted: "]),
    "JSON named as a table": (lambda d: _bytes(d / "r.csv", json.dumps(reviews()).encode()), {},
                              ["r.csv: JSON; write one object per line, and name the file .jsonl"]),
    "a pointer of Git LFS": (lambda d: _bytes(d / "r.csv", b"version https://git-lfs.github.com/spec/v1\n"), {},
                             ["r.csv: a pointer of Git LFS, and not the file; fetch it by git lfs pull"]),
    "an archive": (lambda d: _bytes(d / "reviews.zip", b"PK"), {}, [".zip is no table", "unpack it"]),
    "a list in JSON": (lambda d: _bytes(d / "reviews.json", b"[]"), {},
                       [".json is no table", "write one object per line, and name the file .jsonl"]),
    "a name that is too long": (lambda d: d / ("x" * 300 + ".csv"), {}, ["x.csv: File name too long"]),
    "labels with a comma for a point": (
        lambda d: write_table(d / "r.csv", [row | {"label": f"{i % 4},5"} for i, row in enumerate(reviews())]), {},
        ["r.csv, row 2: '0,5' in column 'label' is no number (and in 39 more rows)", "0.5", "head=classes"]),
    "scores with a comma for a point": (
        lambda d: write_table(d / "r.csv", [row | {"label": f"{i % 4},5"} for i, row in enumerate(reviews())]),
        {"head": "scores"}, ["r.csv, row 2: '0,5' in column 'label' is no number", "0.5"]),
    "scores that are too far apart": (
        lambda d: write_table(d / "r.csv", [row | {"label": ("1e308", "-1e308", ".5")[i % 3]} for i, row in
                                            enumerate(reviews())]), {},
        ["r.csv, row 2: the scores in column 'label', from -1e+308 to 1e+308, are too far apart"]),
    "a label of ERASER that is missing": (lambda d: write_eraser(d, classification=None), {},
                                          ["train.jsonl, line 3: no label in classification"]),
    "half a character in a text": (lambda d: write_lines(d / "r.jsonl", changed(2, text="a \ud83d film")), {},
                                   ["r.jsonl, line 3: half a character in column 'text'; accepted: text in UTF-8"]),
    "half a character in a list of words": (lambda d: write_lines(d / "r.jsonl", changed(2, text=["a", "\udc00"])), {},
                                            ["r.jsonl, line 3: half a character in column 'text'"]),
    "half a character in a label": (lambda d: write_lines(d / "r.jsonl", changed(2, label="\ud83d")), {},
                                    ["r.jsonl, line 3: half a character in column 'label'"]),
    "half a character in a query": (lambda d: write_eraser(d, query="\ud83d"), {},
                                    ["train.jsonl, line 3: half a character in column 'query'"]),
    "a column of Parquet that stands twice": (lambda d: _parquet_twice(d / "r.parquet"), {},
                                              ["r.parquet: the column 'text' stands twice; accepted: each name once"]),
    "annotations that are missing": (lambda d: _bytes(write_eraser(d) / "train.jsonl", b"").parent, {},
                                     ["train.jsonl: no text in it; accepted: at least one annotation"]),
}  # fmt: skip
