"""IMDb reviews, positive or negative, some with the words that people gave as reasons.

Source: the reviews of Kaushik et al. 2020 (`{train,dev,test}_paired.tsv`: each beside a version that was
rewritten to the opposite label, which is not read), the reasons of Lu et al. 2022 (`human_labelled/*.json`:
5,075 in 855 reviews, all of them in train).

The reasons come with token positions of an unknown tokeniser. So each is looked for by its words, and of
several places the one nearest to its position is taken: 5,074 are found.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

from rationale.data.archives import Archive, missing
from rationale.data.corpus import SPLITS, Corpus, in_turn
from rationale.data.example import Example, data_folder
from rationale.data.files import count_differences, intact, open_text, readable
from rationale.data.tokenise import split_words
from rationale.errors import BadInput

LABELS = ("negative", "positive")


def read_imdb_rationales(path: Path | str | None = None, hold_out: bool = False) -> dict[str, list[Example]]:
    """The original reviews in the split of Kaushik et al., as lower-case tokens (`tokenise.split_words`).

    Source: Kaushik et al. 2020; Lu et al. 2022.

    Parameters
    ----------
    path : Path, str or None
        Folder that holds the files, packed or not. None: `imdb_rationales` in the data folder.
    hold_out : bool
        All reviews with a rationale are train's. True: they become test, to measure rationales on texts that
        were not trained on, and the official test set joins what remains of train.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        With `label` 0 negative, 1 positive, and `rationale` where people were asked (all False in three
        reviews in which they marked nothing), else None.

    Raises
    ------
    BadInput
        A missing or damaged file, a malformed line (file and line are named).
    """
    splits: dict[str, list[Example]] = {split: [] for split in SPLITS}
    for split, label, tokens, spans in _documents(path):
        rationale = mark(tokens, spans)[0] if spans is not None else None
        if hold_out and split != "dev":
            split = "train" if rationale is None else "test"
        splits[split].append(Example(tuple(tokens), LABELS.index(label), rationale))
    return splits


def counts(path: Path | str | None = None) -> dict[str, int]:
    """How many documents with how many spans there are, and how many of these are found in the text."""
    originals = list(_documents(path))
    annotated = [(tokens, spans) for _, _, tokens, spans in originals if spans is not None]
    return {
        "documents": len(annotated),
        "spans": sum(len(spans) for _, spans in annotated),
        "spans found in the text": sum(mark(tokens, spans)[1] for tokens, spans in annotated),
        "paired documents": 2 * len(originals),
    }


def mark(tokens: list[str], spans: list[tuple[str, int]]) -> tuple[tuple[bool, ...], int]:
    """Where the spans (text, about the token it begins with) are, one flag a token; and how many are found."""
    flags, num_found = [False] * len(tokens), 0
    for text, about in spans:
        words = split_words(text)
        places = [t for t in range(len(tokens) - len(words) + 1) if tokens[t : t + len(words)] == words]
        if words and places:
            start = min(places, key=lambda t: abs(t - about))
            flags[start : start + len(words)] = [True] * len(words)
            num_found += 1
    return tuple(flags), num_found


def _documents(path: Path | str | None) -> Iterator[tuple[str, str, list[str], list[tuple[str, int]] | None]]:
    """(split, label, tokens, spans or None) for each original review."""
    place = Path(path) if path is not None else data_folder() / "imdb_rationales"
    annotated: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for file in _files(place, "human_labelled/*.json*"):
        annotated |= _spans(file)
    for split in SPLITS:
        rows = _rows(_files(place, f"{split}_paired.tsv*")[0])
        for original, rewritten in zip(rows, rows, strict=True):
            # The original comes first, but for three pairs; in two of these it is known by its annotation.
            label, batch, text = rewritten if rewritten[:2] in annotated else original
            yield split, label, split_words(text.replace("<br />", " ")), annotated.pop((label, batch), None)
    if annotated:
        raise BadInput(f"{place}: no review for the spans of {next(iter(annotated))}; accepted: the official files")


def _rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """(label, batch, text) of each review; the two of a pair come one after the other."""
    first = None
    with intact(file), open_text(file) as lines:
        reader = csv.DictReader(lines, delimiter="\t")
        for row in reader:
            label, batch = (row.get("Sentiment") or "").lower(), row.get("batch_id")
            if label not in LABELS or not row.get("Text") or not batch or first not in (None, batch):
                accepted = "Sentiment (Positive or Negative), Text and batch_id with tabs, in pairs of a batch_id"
                raise BadInput(f"{file}:{reader.line_num}: {str(row)[:80]}; accepted: {accepted}")
            yield label, batch, row["Text"]
            first = batch if first is None else None
    if first is not None:
        raise BadInput(f"{file}:{reader.line_num}: only one review of batch_id {first}; accepted: pairs")


def _spans(file: Path) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """(label, batch) -> (text, about the token it begins with) of each span."""
    found, record = {}, None
    with intact(file), open_text(file) as text:
        try:
            for record in json.load(text):
                name = next(key for key in record if key.endswith(".txt"))
                label, batch = name.removesuffix(".txt").split("_")
                found[label, batch] = [(span["text"], int(span["start_token"])) for span in record[name]]
        except json.JSONDecodeError as error:
            raise BadInput(f"{file}:{error.lineno}: {error.msg}; accepted: JSON") from None
        except (KeyError, TypeError, ValueError, StopIteration):
            accepted = '{"negative_1006.txt": [{"text": "so bad", "start_token": 48, ...}, ...], ...}'
            raise BadInput(f"{file}: {str(record)[:80]}; accepted: {accepted}") from None
    return found


def _files(place: Path, pattern: str) -> list[Path]:
    files = sorted(place.rglob(pattern))
    if not files:
        raise missing(ARCHIVE, place, pattern)
    return files


@readable
def check_imdb_rationales(root: Path) -> list[str]:
    """IMDb with rationales: texts and words that people marked."""
    found = counts(root / "imdb_rationales")
    return count_differences(
        found, {"documents": 855, "spans": 5075, "spans found in the text": 5074, "paired documents": 4880}
    )


ARCHIVE = Archive(
    name="imdb_rationales",
    what="IMDb reviews with human spans (Lu et al. 2022) and their texts (Kaushik et al. 2020)",
    page="https://github.com/acmi-lab/counterfactually-augmented-data",
    terms="Apache-2.0 (texts)",
    places=(
        (
            "imdb_rationales/rdl/**/human_labelled/*.json.xz",
            "imdb_rationales/cad/sentiment/combined/paired/*.tsv.xz",
        ),
    ),
    counts="855 documents, 5,075 spans",
    check=check_imdb_rationales,
    by_hand=(
        "it is put together from two publications; take the texts from "
        "https://github.com/acmi-lab/counterfactually-augmented-data and the spans from the code of "
        "Lu et al. 2022, into imdb_rationales/cad and imdb_rationales/rdl of the data folder, each file "
        "packed with xz"
    ),
)
CORPUS = Corpus(
    name="imdb_rationales",
    what="IMDb reviews, positive or negative, with the words that people gave as reasons; tested on annotated ones",
    read={
        "extraction": lambda _: {name: in_turn(part) for name, part in read_imdb_rationales(hold_out=True).items()},
    },
    labels=LABELS,
    aspects=("overall",),
    tokeniser="words",
    archive=ARCHIVE,
)
