"""The layout of Rush et al. 2015, "sumdata": Gigaword's sentences and headlines for training, several test sets.

Source: Rush et al. 2015; https://github.com/harvardnlp/sent-summary. The texts are tokenised, with digits as `#`.
"""

from collections.abc import Sequence
from pathlib import Path

from rationale.data.archives import Archive
from rationale.data.example import data_folder
from rationale.data.files import count_differences, only_file, read_lines, readable
from rationale.data.parallel_lines import read_tokenised
from rationale.data.targets import Targets

TRAIN = ("train/train.article.txt", ("train/train.title.txt",))
DEV = ("train/valid.article.filter.txt", ("train/valid.title.filter.txt",))


def read_headlines(test: tuple[str, Sequence[str]], path: Path | str | None = None) -> Targets:
    """Gigaword's sentences with headlines as train and dev, and a given test set.

    Parameters
    ----------
    test : (file of sentences, files of headlines)
    path : Path, str or None
        Folder with train/, Giga/ and DUC2004/. None: sumdata in the data folder. Files may be packed (.gz).

    Raises
    ------
    BadInput
        See `read_tokenised`.
    """
    place = Path(path) if path is not None else data_folder() / "sumdata"
    return read_tokenised({"train": TRAIN, "dev": DEV, "test": test}, place, SUMDATA)


@readable
def check_sumdata(root: Path) -> list[str]:
    """Gigaword and DUC 2004: lines of each file."""
    counts = {}
    for name in ("DUC2004/input.txt", *(f"DUC2004/task1_ref{i}.txt" for i in range(4))):
        counts[name] = sum(1 for _ in read_lines(only_file(root, f"sumdata/{name}*")))
    return count_differences(counts, dict.fromkeys(counts, 500))


SUMDATA = Archive(
    name="sumdata",
    what="Gigaword and DUC 2004: sentences with headlines, as prepared by Rush et al. 2015",
    page="https://github.com/harvardnlp/sent-summary",
    terms="licensed to each user by LDC (Gigaword) and NIST (DUC)",
    places=(
        (
            "sumdata/train/train.article.txt*",
            "sumdata/train/train.title.txt*",
            "sumdata/train/valid.article.filter.txt*",
            "sumdata/train/valid.title.filter.txt*",
            "sumdata/DUC2004/input.txt*",
        ),
    ),
    counts="DUC 2004: 500 sentences, 4 headlines each",
    check=check_sumdata,
    by_hand="its texts are licensed; put the folder sumdata (train/, Giga/, DUC2004/) into the data folder",
)
