"""Hotel reviews, negative or positive about one aspect, some with the words that people gave as reasons.

Source: Bao et al. 2018 (R2A), from the reviews of Wang et al. 2010, which `hotels` reads whole. There is one table per
aspect and part, with tabs: a heading, and then a task (`hotel_Service`), a label (0 or 1), a text (tokens with spaces)
and a rationale (a 0 or 1 per token) in each line. Further columns, the attention of their models, are not read. The
rationale is known only in `target/<task>.train`. Later work (such as MGR, Liu et al. 2023) trains on
`oracle/<task>.train`, chooses on `oracle/<task>.dev`, and tests on the marked reviews, and so do we.

We know the format from its description and from programs that read it, and have not seen the files themselves.
"""

from collections.abc import Iterator
from pathlib import Path

from rationale.data.archives import Archive, missing
from rationale.data.corpus import Corpus, in_turn
from rationale.data.example import Example, data_folder, filled
from rationale.data.files import count_differences, read_lines, readable
from rationale.errors import BadInput, excerpt, require_known, require_positive

LABELS = ("negative", "positive")
TASKS = {"service": "hotel_Service", "location": "hotel_Location", "cleanliness": "hotel_Cleanliness"}
FILES = {"train": "oracle/{}.train", "dev": "oracle/{}.dev", "test": "target/{}.train"}
NUM_MARKED = 200  # reviews per aspect, as published
ACCEPTED = "a task, 0 or 1, a text and, in target/, a 0 or 1 per token, with tabs"


def read_hotel_rationales(
    aspect: str, path: Path | str | None = None, max_tokens: int = 256
) -> dict[str, list[Example]]:
    """The reviews of one aspect, as lower-case tokens; the marked ones are the test split.

    A review of train or dev whose words are those of a marked one is left out, so that no test text is trained on.

    Source: Bao et al. 2018.

    Parameters
    ----------
    aspect : one of `TASKS`
    path : Path, str or None
        Folder of `oracle/` and `target/`. None: `hotel_rationales` in the data folder.
    max_tokens : int >= 1
        Reviews are cut after this many tokens.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` is 0 for negative, 1 for positive. `rationale` is None in train and dev.

    Raises
    ------
    BadInput
        Unknown aspect, a missing file, a malformed line (file and line are named).
    """
    require_known("aspect", aspect, TASKS)
    require_positive(max_tokens=max_tokens)
    place = Path(path) if path is not None else data_folder() / "hotel_rationales"
    rows = {split: list(_rows(place, name.format(TASKS[aspect]), split == "test")) for split, name in FILES.items()}
    marked = {tokens for tokens, _, _ in rows["test"]}
    splits = {
        split: [
            Example(tokens[:max_tokens], label, None if flags is None else flags[:max_tokens])
            for tokens, label, flags in part
            if split == "test" or tokens not in marked
        ]
        for split, part in rows.items()
    }
    return filled(splits, place)


def _rows(place: Path, name: str, marked: bool) -> Iterator[tuple[tuple[str, ...], int, tuple[bool, ...] | None]]:
    """(tokens, label, flags) of each line of a file; flags are None unless the file has rationales."""
    file = place / name
    if not file.is_file():
        raise missing(ARCHIVE, place, name)
    for number, line in enumerate(read_lines(file), start=1):
        _, label, text, flags, *_ = [*line.split("\t"), "", "", "", ""]
        tokens, values = tuple(text.lower().split()), flags.split()
        if number == 1 and label not in ("0", "1"):
            continue  # the heading
        right = label in ("0", "1") and tokens
        if not right or (marked and not (len(values) == len(tokens) and {"0", "1"}.issuperset(values))):
            raise BadInput(f"{file}:{number}: {excerpt(line)}; accepted: {ACCEPTED}")
        yield tokens, int(label), tuple(value == "1" for value in values) if marked else None


@readable
def check_hotel_rationales(root: Path) -> list[str]:
    """Hotel reviews with rationales: the number of marked reviews of each aspect."""
    place = root / "hotel_rationales"
    counts = {aspect: sum(1 for _ in _rows(place, FILES["test"].format(task), True)) for aspect, task in TASKS.items()}
    return count_differences(counts, dict.fromkeys(TASKS, NUM_MARKED))


ARCHIVE = Archive(
    name="hotel_rationales",
    what="hotel reviews, negative or positive about one aspect, some with rationales (Bao et al. 2018)",
    page="https://github.com/YujiaBao/R2A",
    terms="research only",
    places=(tuple(f"hotel_rationales/{name.format(task)}" for task in TASKS.values() for name in FILES.values()),),
    counts="200 marked reviews for each of service, location and cleanliness",
    check=check_hotel_rationales,
    by_hand=(
        "we know only a description of its files, so no program of ours unpacks them; take "
        "https://people.csail.mit.edu/yujia/files/r2a/data.zip and put its folders oracle and target into "
        "hotel_rationales/ of the data folder"
    ),
)
CORPUS = Corpus(
    name="hotel_rationales",
    what="hotel reviews, negative or positive about an aspect; tested on reviews with the words people gave as reasons",
    read={
        "extraction": lambda asked: {name: in_turn(part) for name, part in read_hotel_rationales(asked.aspect).items()},
    },
    labels=LABELS,
    aspects=tuple(TASKS),
    tokeniser="words",
    archive=ARCHIVE,
)
