"""Pairs of sentences in SNLI's format: one JSON object per line.

Source: Bowman et al. 2015. `sentence1` (premise), `sentence2` (hypothesis) and `gold_label`; the official files also
hold both sentences as bracketed trees, whose leaves are the tokens.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from rationale.data.archives import Archive, missing
from rationale.data.corpus import SPLITS
from rationale.data.example import Example, data_folder, filled
from rationale.data.files import count_differences, parse_json, read_lines, readable
from rationale.data.pairs import NULL
from rationale.errors import BadInput, excerpt

LABELS = ("entailment", "contradiction", "neutral")
WANTED = "a JSON object with sentence1, sentence2 and gold_label"


def read_pairs(
    path: Path | str | None, file_name: str, archive: Archive, null: bool = True
) -> dict[str, list[Example]]:
    """The pairs of a corpus; those without a gold label (`-`) are dropped, case is kept.

    Parameters
    ----------
    path : Path, str or None
        Folder of the three files. None: the folder in the data folder that has the name of the archive.
    file_name : str
        With {} in place of the split.
    archive : Archive
        Says how to get a missing file.
    null : bool
        Put `NULL` before both sentences, as Bastings et al. do; `NULL` counts as a word in every rate.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `tokens` the premise, `second` the hypothesis, `label` an index of `LABELS`.

    Raises
    ------
    BadInput
        A file is missing, or a line is malformed (file and line are named).
    """
    place = Path(path) if path is not None else data_folder() / archive.name
    splits = {}
    for split in SPLITS:
        file = place / file_name.format(split)
        if not file.exists():
            raise missing(archive, place, file.name)
        pairs = (parse_pair(line, f"{file}:{number}", null) for number, line in enumerate(read_lines(file), 1))
        splits[split] = [pair for pair in pairs if pair is not None]
    return filled(splits, place)


def parse_pair(line: str, where: str = "", null: bool = True) -> Example | None:
    """One line of a file; None if the annotators did not agree on a label.

    Raises
    ------
    BadInput
        The line, named by `where`, is not JSON, has no label, or has an empty sentence.
    """
    pair = parse_json(line, where, WANTED)
    try:
        label = pair["gold_label"]
        sides = [_leaves(pair[f"sentence{i}_binary_parse"]) if f"sentence{i}_binary_parse" in pair else
                 pair[f"sentence{i}"].split() for i in (1, 2)]  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{where}: {type(error).__name__} {error}; accepted: {WANTED}") from None
    if label == "-":
        return None
    if label not in LABELS:
        raise BadInput(f"{where}: gold_label {excerpt(label)}; accepted: {', '.join(LABELS)}, or - for none")
    if not all(sides):
        raise BadInput(f"{where}: an empty sentence; accepted: at least one word in each")
    premise, hypothesis = (tuple([NULL] * null + words) for words in sides)
    return Example(premise, LABELS.index(label), second=hypothesis)


def _leaves(tree: str) -> list[str]:
    return [word for word in tree.split() if word not in ("(", ")")]


def check_pairs(pattern: str, expected: dict[str, int]) -> Callable[[Path], list[str]]:
    """A check of the numbers of sentence pairs in JSON lines, per `split` or, if `expected` has it, `split label`."""

    @readable
    def check(root: Path) -> list[str]:
        counts: Counter[str] = Counter()
        for path in sorted(root.glob(pattern)):
            split = path.name.split(".jsonl")[0].split("_")[-1]
            for number, line in enumerate(read_lines(path), start=1):
                label = parse_json(line, f"{path}:{number}", WANTED)["gold_label"]
                if label != "-":  # - means that the annotators did not agree
                    counts.update((split, f"{split} {label}"))
        return count_differences(counts, expected)

    return check
