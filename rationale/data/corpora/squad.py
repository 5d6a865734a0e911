"""SQuAD v1.1: questions about paragraphs of Wikipedia, whose answers are spans of these paragraphs.

Source: Rajpurkar et al. 2016, train-v1.1.json and dev-v1.1.json.
"""

from pathlib import Path

from rationale.data.archives import Archive, Download
from rationale.data.corpus import Corpus
from rationale.data.example import Question, data_folder
from rationale.data.squad_format import check_questions, read_squad_file, split_by_article

OFFICIAL_COUNTS = {"train-v1.1.json": (442, 87_599), "dev-v1.1.json": (48, 10_570)}  # articles, questions

SHA256 = {
    "train-v1.1.json": "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
    "dev-v1.1.json": "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
}


def read_squad(path: Path | str | None = None) -> dict[str, list[Question]]:
    """The last 22 training articles are dev; the official dev set, whose answers are public, is test.

    Parameters
    ----------
    path : Path, str or None
        Folder of both files. None: `squad` in the data folder.

    Raises
    ------
    BadInput
        See `read_squad_file`.
    """
    place = Path(path) if path is not None else data_folder() / "squad"
    train, test = (read_squad_file(place / name, official) for name, official in OFFICIAL_COUNTS.items())
    return split_by_article(train, 420, 442) | {"test": test}


ARCHIVE = Archive(
    name="squad",
    what="SQuAD v1.1: questions on paragraphs, the answer a span (Rajpurkar et al. 2016)",
    page="https://rajpurkar.github.io/SQuAD-explorer/",
    terms="CC BY-SA 4.0",
    places=(("squad/train-v1.1.json", "squad/dev-v1.1.json"),),
    counts="442 / 48 articles, 18,896 / 2,067 paragraphs, 87,599 / 10,570 questions",
    check=check_questions({"squad/train-v1.1.json": (442, 18896, 87599), "squad/dev-v1.1.json": (48, 2067, 10570)}),
    downloads=tuple(
        Download(
            f"https://rajpurkar.github.io/SQuAD-explorer/dataset/{split}-v1.1.json",
            f"squad/{split}-v1.1.json",
            sha256=SHA256[f"{split}-v1.1.json"],
        )
        for split in ("train", "dev")
    ),
)
CORPUS = Corpus(
    name="squad",
    what="questions about paragraphs, where the answer is a span",
    read={"probing": lambda _: read_squad()},
    archive=ARCHIVE,
    spans=True,
)
