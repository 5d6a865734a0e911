"""DUC 2004: sentences with headlines by four people each, for models trained on Gigaword.

Source: Rush et al. 2015, in their layout.
"""

from pathlib import Path

from rationale.data.corpus import Corpus
from rationale.data.sumdata import SUMDATA, read_headlines
from rationale.data.targets import Targets

TEST = ("DUC2004/input.txt", tuple(f"DUC2004/task1_ref{i}.txt" for i in range(4)))


def read_duc2004(path: Path | str | None = None) -> Targets:
    """Test is DUC 2004: 500 sentences, four references each; train and dev are Gigaword's."""
    return read_headlines(TEST, path)


CORPUS = Corpus(
    name="duc2004",
    what="four headlines per sentence, by four people; training on Gigaword",
    read={"generation": lambda _: read_duc2004()},
    tokeniser="spaces",
    archive=SUMDATA,
    metric="rouge_of_75_bytes",
)
