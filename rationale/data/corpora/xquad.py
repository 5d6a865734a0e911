"""XQuAD's English part: questions about paragraphs, taken from SQuAD's dev set.

Source: Artetxe et al. 2020, xquad.en.json.
"""

from pathlib import Path

from rationale.data.archives import Archive, Download
from rationale.data.corpus import Corpus
from rationale.data.example import Question, data_folder
from rationale.data.squad_format import check_questions, read_squad_file, split_by_article


def read_xquad(path: Path | str | None = None) -> dict[str, list[Question]]:
    """40 articles for training, 4 for dev and 4 for test, in the order of the file.

    Parameters
    ----------
    path : Path, str or None
        Folder of xquad.en.json. None: `xquad` in the data folder.

    Raises
    ------
    BadInput
        See `read_squad_file`.
    """
    place = Path(path) if path is not None else data_folder() / "xquad"
    return split_by_article(read_squad_file(place / "xquad.en.json", (48, 1_190)), 40, 44)


ARCHIVE = Archive(
    name="xquad",
    what="a part of SQuAD v1.1's dev set (Artetxe et al. 2020)",
    page="https://github.com/google-deepmind/xquad",
    terms="CC BY-SA 4.0",
    places=(("xquad/xquad.en.json",),),
    counts="48 articles, 240 paragraphs, 1,190 questions",
    check=check_questions({"xquad/xquad.en.json": (48, 240, 1190)}),
    downloads=(
        Download(
            "https://raw.githubusercontent.com/google-deepmind/xquad/master/xquad.en.json",
            "xquad/xquad.en.json",
            sha256="e4c57d1c9143aaa1c5d265ba5987a65f4e69528d2a98f29d6e75019b10344f29",
        ),
    ),
)
CORPUS = Corpus(
    name="xquad",
    what="questions about paragraphs, where the answer is a span; a part of SQuAD's dev set",
    read={"probing": lambda _: read_xquad()},
    archive=ARCHIVE,
    spans=True,
)
