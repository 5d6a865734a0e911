"""IMDb reviews, positive or negative, some with the words that annotators gave as reasons.

Source: the reviews of Kaushik et al. 2020 (`{train,dev,test}_paired.tsv`: each with a version that was
rewritten to the opposite label, which is not read), and the reasons of Lu et al. 2022 (`human_labelled/*.json`:
5,075 in 855 reviews, all in train).

The reasons have token positions of an unknown tokeniser. So each reason is looked up by its words; if they occur
several times, the occurrence nearest to the position is used. 5,074 reasons are found.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

from rationale.data.archives import Archive, missing
from rationale.data.corpus import SPLITS, Corpus, in_turn
from rationale.data.example import Example, data_folder, filled
from rationale.data.files import count_differences, parse_json, read_lines, read_text, readable
from rationale.data.tokenise import split_words
from rationale.errors import BadInput, excerpt

LABELS = ("negative", "positive")


def read_imdb_rationales(path: Path | str | None = None, hold_out: bool = False) -> dict[str, list[Example]]:
    """The original reviews in the split of Kaushik et al., as lower-case tokens (`tokenise.split_words`).

    Source: Kaushik et al. 2020; Lu et al. 2022.

    Parameters
    ----------
    path : Path, str or None
        Folder that holds the files, packed or not. None: `imdb_rationales` in the data folder.
    hold_out : bool
        All reviews with a rationale are in train. True: they become the test set, so that rationales are measured on
        texts that were not used in training, and the official test set is added to the rest of train.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` is 0 for negative, 1 for positive. `rationale` is None unless the review was annotated (all False in
        three reviews in which nothing was marked).

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
    return filled(splits, path or data_folder() / "imdb_rationales")


def counts(path: Path | str | None = None) -> dict[str, int]:
    """Numbers of annotated documents, of their spans, of the spans found in the text, and of paired documents."""
    originals = list(_documents(path))
    annotated = [(tokens, spans) for _, _, tokens, spans in originals if spans is not None]
    return {
        "documents": len(annotated),
        "spans": sum(len(spans) for _, spans in annotated),
        "spans found in the text": sum(mark(tokens, spans)[1] for tokens, spans in annotated),
        "paired documents": 2 * len(originals),
    }


def mark(tokens: list[str], spans: list[tuple[str, int]]) -> tuple[tuple[bool, ...], int]:
    """One flag per token, True in the spans (text, approximate first token), and the number of spans found."""
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
            # The original comes first, except in three pairs; in two of these, its annotation identifies it.
            label, batch, text = rewritten if rewritten[:2] in annotated else original
            yield split, label, split_words(text.replace("<br />", " ")), annotated.pop((label, batch), None)
    if annotated:
        raise BadInput(f"{place}: no review for the spans of {next(iter(annotated))}; accepted: the official files")


def _rows(file: Path) -> Iterator[tuple[str, str, str]]:
    """(label, batch, text) of each review; the two reviews of a pair are consecutive."""
    first = None
    accepted = "Sentiment (Positive or Negative), Text and batch_id with tabs, in pairs of a batch_id"
    reader = csv.DictReader((f"{line}\n" for line in read_lines(file)), delimiter="\t")
    rows = iter(reader)
    while True:
        try:
            row = next(rows, None)
        except csv.Error as error:
            raise BadInput(f"{file}:{reader.line_num}: {error}; accepted: {accepted}") from None
        if row is None:
            break
        label, batch = (row.get("Sentiment") or "").lower(), row.get("batch_id") or ""
        is_whole = None not in row and label in LABELS and row.get("Text") and batch  # None: fields without a name
        if not is_whole or first not in (None, batch):
            raise BadInput(f"{file}:{reader.line_num}: {excerpt(row)}; accepted: {accepted}")
        yield label, batch, row["Text"]
        first = batch if first is None else None
    if first is not None:
        raise BadInput(f"{file}:{reader.line_num}: only one review of batch_id {first}; accepted: pairs")


def _spans(file: Path) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """(label, batch) -> (text, approximate first token) of each span."""
    accepted = 'a list of {"negative_1006.txt": [{"text": "so bad", "start_token": 48, ...}, ...], ...}'
    spans: dict[tuple[str, str], list[tuple[str, int]]] = {}
    records = record = parse_json(read_text(file), str(file), accepted)
    try:
        for record in records:
            name = next(key for key in record if key.endswith(".txt"))
            label, batch = name.removesuffix(".txt").split("_")
            marked = [(span["text"], int(span["start_token"])) for span in record[name]]
            if not all(isinstance(text, str) for text, _ in marked) or (label, batch) in spans:
                raise ValueError(name)
            spans[label, batch] = marked
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, StopIteration):
        raise BadInput(f"{file}: {excerpt(record)}; accepted: {accepted}, each review once") from None
    return spans


def _files(place: Path, pattern: str) -> list[Path]:
    files = sorted(place.rglob(pattern))
    if not files:
        raise missing(ARCHIVE, place, pattern)
    return files


@readable
def check_imdb_rationales(root: Path) -> list[str]:
    """IMDb with rationales: the numbers of texts and of marked spans."""
    return count_differences(
        counts(root / "imdb_rationales"),
        {"documents": 855, "spans": 5075, "spans found in the text": 5074, "paired documents": 4880},
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
    what="IMDb reviews, positive or negative, with the words that people gave as reasons; tested on annotated reviews",
    read={
        "extraction": lambda _: {name: in_turn(part) for name, part in read_imdb_rationales(hold_out=True).items()},
    },
    labels=LABELS,
    aspects=("overall",),
    tokeniser="words",
    archive=ARCHIVE,
)
