"""Gigaword: the first sentence of a news article and its headline.

Source: Rush et al. 2015, in their layout.
"""

from pathlib import Path

from rationale.data.corpus import Corpus
from rationale.data.sumdata import SUMDATA, read_headlines
from rationale.data.targets import Targets

TEST = ("Giga/input.txt", ("Giga/task1_ref0.txt",))


def read_gigaword(path: Path | str | None = None) -> Targets:
    """Test is the held-out part of Gigaword: one reference per sentence."""
    return read_headlines(TEST, path)


CORPUS = Corpus(
    name="gigaword",
    what="first sentences of news articles and their headlines",
    read={"generation": lambda _: read_gigaword()},
    tokeniser="spaces",
    archive=SUMDATA,
    metric="rouge",
)
