"""Data files in small, ways to damage them, and a naive second parser of each format, for tests/test_damage.py.

The names in `FORMATS`, `DAMAGES` and `REPLACED` say what was tried; a table can be made from them.

What can be asked of a reader whose file was damaged: damage inside a word makes another word, which no reader can
notice without a digest of the whole file (`python -m rationale.data check` has one for official files). So a reader
must either refuse the file in one line, or read what the file says: what a second parser of a few lines, which shares
no code with the reader, finds in the damaged bytes. For packed files, the second parser unpacks them first.
"""

import contextlib
import csv
import gzip
import io
import itertools
import json
import lzma
import re
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rationale.data.corpora import aeslc, beer, gigaword, hotels, imdb_rationales, movies, multi30k, snli, sst
from rationale.data.squad_format import read_squad_file
from rationale.data.tokenise import split_text, split_words
from rationale.data.vectors import read_vectors
from rationale.runs.predict import read_lines_of

Rows = list[tuple]  # what is compared: of each example, whatever the second parser finds too


@dataclass(frozen=True)
class Format:
    """Files of one format, the package's reader, and a second parser.

    Parameters
    ----------
    files : name -> content
        A small corpus. `damaged` is the name of the file that is damaged.
    read : folder -> rows
    parse : content of the damaged file -> the same rows, or None
        It may raise any error where the content is not of the format. None: a container with checksums; if it is
        accepted, what is read has not changed.
    """

    files: dict[str, bytes]
    damaged: str
    read: Callable[[Path], Rows]
    parse: Callable[[bytes], Rows] | None = None

    def write(self, folder: Path, content: bytes) -> Path:
        """The files below a folder, the damaged one with this content."""
        for name, given in (self.files | {self.damaged: content}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(given)
        return folder


def plain(content: bytes) -> str:
    """The text of a file without its byte-order mark."""
    return content.decode("utf-8").removeprefix("\ufeff")


def lines_of(content: bytes) -> list[str]:
    """The lines of a text; the last one may lack its end."""
    return plain(content).removesuffix("\n").split("\n")


def tarred(files: dict[str, bytes], kind: str = "xz") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=f"w:{kind}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # with a fixed date
    return buffer.getvalue()


def unpacked(content: bytes) -> bytes:
    """The content of a file, which may be packed."""
    if content[:2] == b"\x1f\x8b":
        return gzip.decompress(content)
    return lzma.decompress(content) if content[:6] == b"\xfd7zXZ\0" else content


# --- the treebank

TREES = (
    "(3 (2 It) (4 (2 's) (4 (3 lovely) (2 .))))\n(1 (2 A) (1 (0 dull) (2 1\\/2)))\n"
    "(2 (2 caf\u00e9) (2 -LRB-))\n(4 (4 (4 very) (4 good)) (2 .))\n"
).encode()


def read_sst(place: Path) -> Rows:
    return [(e.label, e.tokens, e.word_labels) for e in sst.read_sst(place)["train"]]


def parse_sst(content: bytes) -> Rows:
    rows = []
    for line in plain(content).rstrip("\n").split("\n"):
        leaves = re.findall(r"\(([0-4]) ([^ ()]+)\)", line.replace("\\", ""))
        rows.append(
            (int(line.replace("\\", "").strip(" ")[1]), tuple(w for _, w in leaves), tuple(int(d) for d, _ in leaves))
        )
    return rows


SST = {f"{split}.txt": TREES for split in ("train", "dev", "test")}
SST_ZIP = {f"trees/{name}": content for name, content in SST.items()}

# --- beer

REVIEWS = b".1 .2 .3 .4 .5\tpours a dark brown .\n0 0 0 0 1\tflat\n1 .5 .25 0.125 1e-1\tcaf\xc3\xa9 au lait !\n"
NOTES = "".join(
    json.dumps({"x": list(words), "y": [0, 0.5, 1, 1, 1], "0": [[0, 1], [2, 4]], **{str(i): [] for i in range(1, 5)}})
    + "\n"
    for words in ("abcd", "efghi")
).encode()
BEER = {"reviews.aspect0.train.txt": REVIEWS, "reviews.aspect0.heldout.txt": REVIEWS, "annotations.json": NOTES}
PACKED_BEER = BEER | {"reviews.aspect0.train.txt.gz": gzip.compress(REVIEWS, mtime=0)}
del PACKED_BEER["reviews.aspect0.train.txt"]


def read_beer(split: str) -> Callable[[Path], Rows]:
    return lambda place: [(e.label, e.tokens, e.rationale) for e in beer.read_beer("look", place)[split]]


def parse_beer(content: bytes) -> Rows:
    rows = []
    for line in plain(content).rstrip("\r\n").split("\n"):
        scores, _, text = line.partition("\t")
        if text.split():
            rows.append(((float(scores.split()[0]),), tuple(text.split()), None))
    return rows


def parse_notes(content: bytes) -> Rows:
    rows = []
    for line in plain(content).rstrip("\r\n").split("\n"):
        record = json.loads(line)
        kept = {t for start, end in record["0"] for t in range(start, end)}
        flags = tuple(t in kept for t in range(len(record["x"]))) if kept else None
        rows.append(((float(record["y"][0]),), tuple(record["x"]), flags))
    return rows


# --- hotels, movies, e-mails: archives

RATED = "<Author>a\r\n<Content>{}\r\n<Date>Dec 23, 2008\r\n<Rating>5\t4\t3\t2\t1\t-1\t5\t-1\t\r\n\r\n"
HOTEL_NUMBERS = (100, 101, 106, 117, 118, 123)
HOTELS = {
    f"Texts/hotel_{hotel}_parsed.txt": "".join(RATED.format(f"Hotel {hotel} is fine {i}") for i in range(2)).encode()
    for hotel in HOTEL_NUMBERS
}
DAMAGED_HOTEL = "Texts/hotel_100_parsed.txt"
MOVIES = {
    f"review/withRats_{kind}/{kind}{'R' if fold < 9 else ''}_{fold}0{i}.txt": (
        f"a film <{kind.upper()}> as {kind} as it gets </{kind.upper()}> .\n" if fold < 9 else "a plain film .\n"
    ).encode()
    for kind in ("pos", "neg")
    for fold in (6, 7, 8, 9)
    for i in range(2)
}
MAILS = {
    f"enron/{split}/{i}.subject": f"Hi Ann, meeting {i}.\n\n@subject\nMeeting {i}\n\n@ann0\nplan {i}\n".encode()
    for split in ("train", "dev", "test")
    for i in range(3)
}


def examples(splits: dict[str, list]) -> Rows:
    return [(name, e.tokens, e.second, e.label, e.rationale) for name, part in splits.items() for e in part]


def read_hotels(place: Path) -> Rows:
    return examples(hotels.read_hotels("rooms", place))


def read_movies(place: Path) -> Rows:
    return examples(movies.read_movies(place))


def read_mails(place: Path) -> Rows:
    return examples(aeslc.read_mails(place).splits)


def read_reviews(place: Path) -> Rows:
    """The reviews in any order: hotels are split and ordered by hashes."""
    return sorted((e.tokens, e.label) for part in hotels.read_hotels("rooms", place).values() for e in part)


def parse_hotel(content: bytes) -> Rows:
    rows = []
    for text in (content, *(other for name, other in HOTELS.items() if name != DAMAGED_HOTEL)):
        last = ""
        for line in plain(text).split("\n"):
            if line.startswith("<Content>"):
                last = line.removeprefix("<Content>").rstrip("\r")
            elif line.startswith("<Rating>"):
                room = int(line.removeprefix("<Rating>").strip().split("\t")[2])
                if room >= 1 and "showReview(" not in last and "     " not in last and split_words(last):
                    rows.append((tuple(split_words(last)[:256]), ((room - 1) / 4,)))
    return sorted(rows)


# --- reviews of films with spans

PAIRED = "Sentiment\tText\tbatch_id\n" + "".join(
    f"{label}\t{text}\t{batch}\n"
    for batch in (1, 2, 3)
    for label, text in (("Negative", '"A ""bad"" film.<br />So dull!"'), ("Positive", "A good film."))
)
SPANS = json.dumps([{"negative_1.txt": [{"text": "bad", "start_token": 2}, {"text": "dull", "start_token": 7}]}])
IMDB = {f"cad/{split}_paired.tsv": PAIRED.encode() for split in ("train", "dev", "test")}
IMDB |= {"rdl/human_labelled/negatives.json": SPANS.encode()}
for _split in ("dev", "test"):
    IMDB[f"cad/{_split}_paired.tsv"] = re.sub(rb"\t(\d)\n", rb"\t\g<1>7\n", IMDB[f"cad/{_split}_paired.tsv"])


def read_imdb(place: Path) -> Rows:
    return [(e.label, e.tokens) for e in imdb_rationales.read_imdb_rationales(place)["train"]]


def parse_imdb(content: bytes) -> Rows:
    """The first review of each pair, or the second if it is the one that is annotated."""
    table = list(csv.reader(io.StringIO(plain(content), newline=""), delimiter="\t"))
    label, text, batch = (table[0].index(name) for name in ("Sentiment", "Text", "batch_id"))
    held = [(row[label].lower(), row[batch], row[text]) for row in table[1:] if row]
    pairs = zip(held[::2], held[1::2], strict=True)
    chosen = [second if second[:2] == ("negative", "1") else first for first, second in pairs]
    return [(int(name == "positive"), tuple(split_words(text.replace("<br />", " ")))) for name, _, text in chosen]


# --- pairs, captions, headlines, questions, vectors, texts

PAIRS = "".join(
    json.dumps({"gold_label": label, "sentence1": f"A dog {i} runs", "sentence2": "It sleeps"}) + "\n"
    for i, label in enumerate(("entailment", "-", "neutral", "contradiction"))
).encode()
SNLI = {f"snli_1.0_{split}.jsonl": PAIRS for split in ("train", "dev", "test")}


def read_snli(place: Path) -> Rows:
    return [(e.label, e.tokens, e.second) for e in snli.read_snli(place, null=False)["train"]]


def parse_snli(content: bytes) -> Rows:
    labels = ["entailment", "contradiction", "neutral"]
    records = [json.loads(line) for line in lines_of(content)]
    return [
        (labels.index(r["gold_label"]), tuple(r["sentence1"].split()), tuple(r["sentence2"].split()))
        for r in records
        if r["gold_label"] != "-"
    ]


GERMAN, ENGLISH = (
    "Ein Hund l\u00e4uft.\nZwei Katzen!\nDrei M\u00e4nner\n".encode(),
    b"A dog runs.\nTwo cats!\nThree men\n",
)
CAPTIONS = {
    f"{name}.{code}.gz": gzip.compress(text, mtime=0)
    for name in ("train", "val", "test_2016_flickr")
    for code, text in (("de", GERMAN), ("en", ENGLISH))
}
PLAIN_CAPTIONS = CAPTIONS | {"train.de.gz": GERMAN}  # unpacked by a program that kept the name


def read_captions(place: Path) -> Rows:
    return [(e.tokens, e.second) for e in multi30k.read_captions("de", place).splits["train"]]


def parse_captions(content: bytes) -> Rows:
    pairs = zip(lines_of(content), lines_of(ENGLISH), strict=True)
    rows = [(tuple(split_words(de)), (*split_words(en), "</s>")) for de, en in pairs]
    return [row for row in rows if len(row[0]) <= 60]  # longer ones are left out in training


HEADLINES = {
    name: f"first text of {name}\nsecond text # {name}\n".encode()
    for name in (
        "train/train.article.txt", "train/train.title.txt", "train/valid.article.filter.txt",
        "train/valid.title.filter.txt", "Giga/input.txt", "Giga/task1_ref0.txt",
    )
}  # fmt: skip


def read_headlines(place: Path) -> Rows:
    return [(e.tokens, e.second) for e in gigaword.read_gigaword(place).splits["train"]]


def parse_headlines(content: bytes) -> Rows:
    targets = lines_of(HEADLINES["train/train.title.txt"])
    pairs = zip(lines_of(content), targets, strict=True)
    return [(tuple(a.lower().split()), (*b.lower().split(), "</s>")) for a, b in pairs]


CONTEXT = "a dull film. a funny caf\u00e9 film."
ASKED = [
    {"id": f"q{i}", "question": "which film", "answers": [{"answer_start": start, "text": text}]}
    for i, (start, text) in enumerate(((2, "dull film"), (15, "funny")))
]
QUESTIONS = json.dumps({"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": ASKED}]}]}).encode()


def read_questions(place: Path) -> Rows:
    return [tuple(one) for one in read_squad_file(place / "some.json")]


def parse_questions(content: bytes) -> Rows:
    return [
        (
            asked["id"], article.get("title", ""), paragraph["context"], asked["question"],
            tuple((answer["answer_start"], answer["text"]) for answer in asked["answers"]),
        )
        for article in json.loads(plain(content))["data"]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]  # fmt: skip


WANTED = ("the", "cat", "caf\u00e9", ". .", "3")
VECTORS = "the 0.1 -0.2 0.3\ncat 1 2 3e-1\ncaf\u00e9 .5 0 1\n. . 7 8 9\n3 4 5 6\n".encode()
WORD2VEC = b"5 3\n" + VECTORS
IN_BINARY = {"the": [0.1, -0.2, 0.3], "cat": [1, 2, 0.3], "caf\u00e9": [0.5, 0, 1], "dog": [7, 8, 9], "3": [4, 5, 6]}


def binary(end: bytes) -> bytes:
    """Vectors in word2vec's binary format; `end` comes after each row."""
    rows = [word.encode() + b" " + np.array(row, "<f4").tobytes() + end for word, row in IN_BINARY.items()]
    return b"5 3\n" + b"".join(rows)


OF_GENSIM, OF_WORD2VEC = binary(b""), binary(b"\n")


def read_rows(name: str) -> Callable[[Path], Rows]:
    def read(place: Path) -> Rows:
        words, table = read_vectors(place / name, WANTED)
        return list(zip(words, table.tolist(), strict=True))

    return read


def parse_vectors(content: bytes) -> Rows:
    """The first row of each wanted word; the numbers are rounded to float32, as the reader stores them."""
    lines = [line.strip() for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    is_header = len(lines[0].split()) == 2 and all(field.isdigit() for field in lines[0].split())
    number = rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
    dim = int(lines[0].split()[1]) if is_header else 0
    if not is_header:
        dim = len(
            list(
                itertools.takewhile(
                    lambda field: re.fullmatch(number, field) and abs(float(field)) < 3e38, lines[0].split()[:0:-1]
                )
            )
        )
    table: dict[bytes, list[float]] = {}
    for line in lines[is_header:]:
        fields = line.split()
        word = b" ".join(fields[:-dim])
        with contextlib.suppress(ValueError):  # a row that no wanted word begins is not parsed, only counted
            table.setdefault(word, np.array(fields[-dim:], dtype=np.float32).tolist())
    found = []
    for word in WANTED:
        forms = dict.fromkeys((word, word.lower()))
        row = next((table[form.encode()] for form in forms if form.encode() in table), None)
        found += [(word, row)] if row else []
    return found


def parse_binary(content: bytes) -> Rows:
    """Word by word with a cursor, and numbers one by one; the first row of each wanted word."""
    first, _, rest = content.partition(b"\n")
    number, dim = (int(field) for field in first.split() if field.isdigit())
    table: dict[bytes, list[float]] = {}
    for _ in range(number):
        word, _, rest = rest.lstrip(b"\n").partition(b" ")
        table.setdefault(word, list(struct.unpack_from(f"<{dim}f", rest)))
        rest = rest[4 * dim :]
    assert not rest.strip(b"\n"), "as many rows as the header says"
    rows = [(word, table.get(word.encode(), table.get(word.lower().encode()))) for word in WANTED]
    return [(word, row) for word, row in rows if row is not None]


TEXTS = "A warm, funny film.\nIt isn't bad \u2013 caf\u00e9.\nplain\n".encode()


def read_new_texts(place: Path) -> Rows:
    return [tuple(split_text(line, "spaces")) for line in read_lines_of(place / "texts.txt")]


def parse_new_texts(content: bytes) -> Rows:
    return [tuple(line.split()) for line in lines_of(content)]


FORMATS = {
    "treebank": Format(SST, "train.txt", read_sst, parse_sst),
    "treebank in its zip": Format(
        {"trainDevTestTrees_PTB.zip": zipped(SST_ZIP)}, "trainDevTestTrees_PTB.zip", read_sst
    ),
    "beer reviews": Format(BEER, "reviews.aspect0.train.txt", read_beer("train"), parse_beer),
    "beer reviews, gzip": Format(
        PACKED_BEER, "reviews.aspect0.train.txt.gz", read_beer("train"), parse_beer
    ),
    "beer annotations": Format(BEER, "annotations.json", read_beer("test"), parse_notes),
    "hotels, one file": Format(HOTELS, DAMAGED_HOTEL, read_reviews, parse_hotel),
    "hotels, tar.xz": Format({"Texts.tar.xz": tarred(HOTELS)}, "Texts.tar.xz", read_hotels),
    "hotels, zip": Format({"Review_Texts.zip": zipped(HOTELS)}, "Review_Texts.zip", read_hotels),
    "movies, tar": Format(
        {"review_polarity_rationales.tar.gz": tarred(MOVIES, "gz")},
        "review_polarity_rationales.tar.gz", read_movies,
    ),
    "e-mails, tar.xz": Format(
        {"enron_subject_line.tar.xz": tarred(MAILS)}, "enron_subject_line.tar.xz", read_mails
    ),
    "IMDb pairs": Format(IMDB, "cad/train_paired.tsv", read_imdb, parse_imdb),
    "SNLI": Format(SNLI, "snli_1.0_train.jsonl", read_snli, parse_snli),
    "captions, gzip": Format(
        CAPTIONS, "train.de.gz", read_captions, parse_captions
    ),
    "captions": Format(PLAIN_CAPTIONS, "train.de.gz", read_captions, parse_captions),
    "headlines": Format(HEADLINES, "train/train.article.txt", read_headlines, parse_headlines),
    "questions": Format({"some.json": QUESTIONS}, "some.json", read_questions, parse_questions),
    "vectors": Format({"v.txt": VECTORS}, "v.txt", read_rows("v.txt"), parse_vectors),
    "vectors, xz": Format(
        {"v.txt.xz": lzma.compress(VECTORS)}, "v.txt.xz", read_rows("v.txt.xz"), parse_vectors
    ),
    "vectors, zip": Format(
        {"v.zip": zipped({"v.txt": VECTORS})}, "v.zip", read_rows("v.zip")
    ),
    "word2vec": Format({"v.txt": WORD2VEC}, "v.txt", read_rows("v.txt"), parse_vectors),
    "fastText's text, gzip": Format(
        {"v.vec.gz": gzip.compress(WORD2VEC, mtime=0)}, "v.vec.gz", read_rows("v.vec.gz"), parse_vectors
    ),
    "word2vec, binary": Format({"v.bin": OF_WORD2VEC}, "v.bin", read_rows("v.bin"), parse_binary),
    "Gensim, binary": Format({"v.bin": OF_GENSIM}, "v.bin", read_rows("v.bin"), parse_binary),
    "Gensim, binary, gzip": Format(
        {"v.bin.gz": gzip.compress(OF_GENSIM, mtime=0)}, "v.bin.gz", read_rows("v.bin.gz"), parse_binary
    ),
    "new texts": Format({"texts.txt": TEXTS}, "texts.txt", read_new_texts, parse_new_texts),
}  # fmt: skip


# --- damage of a file's bytes: name -> function of its content

HOSTILE = {  # what takes the place of a part of a file
    "a NUL": b"\x00",
    "a byte that is not UTF-8": b"\xff",
    "a byte-order mark": b"\xef\xbb\xbf",
    "an escape code": b"\x1b]0;title\x07",
    "a separator of lines in Unicode": "\u2028".encode(),
    "a carriage return": b"\r",
    "a blank line": b"\n\n",
    "a tab": b"\t",
    "a quotation mark": b'"',
    "a bracket": b"(",
    "a closing bracket": b")",
    "brackets, 3,000 deep": b"[" * 3000,
    "a number of 5,000 digits": b"9" * 5000,
    "a number too large": b"1e999",
    "not a number": b"nan",
    "a negative number": b"-1",
    "an underscore in a number": b"1_0",
    "a null": b"null",
    "half of a surrogate": b"\\ud800",
}


def at_third(content: bytes) -> int:
    return len(content) // 3


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "one byte": lambda content: content[:1],
    "cut in half": lambda content: content[: len(content) // 2],
    "cut at 90 %": lambda content: content[: len(content) * 9 // 10],
    "without its last byte": lambda content: content[:-1],
    "without its first byte": lambda content: content[1:],
    "without its middle": lambda content: content[: at_third(content)] + content[2 * at_third(content) :],
    "its middle twice": lambda content: content[: 2 * at_third(content)] + content[at_third(content) :],
    "twice": lambda content: content * 2,
    "backwards": lambda content: content[::-1],
    "only blank lines": lambda content: b"\n" * 4,
    "only zeros": lambda content: bytes(len(content)),
    "zeros in its middle": lambda content: content[: at_third(content)] + bytes(64) + content[at_third(content) + 64 :],
    "zeros at its end": lambda content: content + bytes(1024),
    "UTF-16": lambda content: content.decode("latin-1").encode("utf-16"),
    "with carriage returns": lambda content: content.replace(b"\n", b"\r\n"),
    "without line feeds": lambda content: content.replace(b"\n", b" "),
    "a page of a login": lambda content: b"<html>please log in</html>\n",
    "JSON of another kind": lambda content: b'{"data": null}',
    "JSON, null": lambda content: b"null",
    "a list of numbers": lambda content: b"[1, 2, 3]",
    "an upper half": lambda content: content.swapcase(),
    "packed once more": lambda content: gzip.compress(content, mtime=0),
    "a zip of something else": lambda content: zipped({"other.txt": b"x"}),
    "an empty zip": lambda content: zipped({}),
    "an empty tar": lambda content: tarred({}),
    "a tar of something else": lambda content: tarred({"other.txt": b"x"}),
    "a tar of an unknown folder": lambda content: tarred({"a/b/c.subject": b"x", "b/posR_000.txt": b""}),
}  # fmt: skip
DAMAGES["a line of 1 MB in its middle"] = lambda content: (b"x" * 1_000_000).join(
    (content[: at_third(content)], content[at_third(content) :])
)
for _name, _part in HOSTILE.items():
    DAMAGES |= {
        f"{_name} at its start": lambda content, part=_part: part + content,
        f"{_name} in its middle": lambda content, part=_part: part.join(
            (content[: at_third(content)], content[at_third(content) :])
        ),
        f"{_name} at its end": lambda content, part=_part: content + part,
    }


def encrypted(content: bytes) -> bytes:
    """A zip whose members say that they are encrypted."""
    changed = bytearray(content)
    for start in (found.start() for found in re.finditer(b"PK\x01\x02|PK\x03\x04", content)):
        changed[start + (8 if content[start + 2] == 1 else 6)] |= 1
    return bytes(changed)


DAMAGES["encrypted"] = encrypted


def in_table(content: bytes, offset: int, number: int) -> bytes:
    """A zip with another byte at this offset of its table's second entry."""
    starts = [found.start() for found in re.finditer(b"PK\x01\x02", content)]
    changed = bytearray(content)
    for start in starts[1:2]:
        changed[start + offset] = number
    return bytes(changed)


DAMAGES["a member's name misspelt in the table of a zip"] = lambda content: in_table(content, 60, ord("X"))
DAMAGES["a member of a zip hidden in a comment"] = lambda content: in_table(content, 32, 72)
