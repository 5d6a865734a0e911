"""What names texts of one's own, and which columns of them are read."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from rationale.data.tokenise import TOKENISERS
from rationale.settings import OneOf, Refusal, Settings, setting

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet")  # each may be packed: .csv.gz, .jsonl.xz; a parquet file packs itself
PACKED = (".gz", ".xz")
HUB = "hub:"  # how the name of a data set on the hub begins
ON_HUB = re.compile(rf"{HUB}[\w.-]+(/[\w.-]+)?(:[^/\s:]+)?")  # hub:owner/name, or hub:owner/name:configuration
IN_WORDS = f"a file ({', '.join(SUFFIXES)}) or a folder of your own, or {HUB}owner/name of a data set on the hub"


class TextFileSettings(Settings):
    """The columns of texts of your own (a file or a folder); a corpus with a name does not use them."""

    text: str = setting("text", "column of the texts")
    label: str = setting("label", "column of the labels")
    head: Literal["auto", "classes", "scores"] = setting(
        "auto",
        "what labels are; auto: scores if all are numbers, with more than two values, and some are not whole or there "
        "are more than ten values; otherwise classes",
    )
    tokeniser: Annotated[str, OneOf(lambda: TOKENISERS)] = setting("treebank", "how texts are split into words")
    skip_incomplete: bool = setting(
        False, "whether rows of a table without a text or a label are left out; else the first one is an error"
    )
    split_seed: int = setting(1, "seed of the dev and test splits, if the texts come without them", "[0, inf)")

    def refused(self) -> Iterable[Refusal]:
        """A column is named once."""
        yield Refusal(self.label == self.text, "label", "as it is the column of the texts", "another column")


class RationaleFileSettings(TextFileSettings):
    """The columns of texts of your own, beside text and label."""

    rationale: str = setting("", "column of the words that people marked: spans, or a 0/1 list; empty = none")

    def refused(self) -> Iterable[Refusal]:
        """A column is named once."""
        others = f"text={self.text}, label={self.label}"
        twice = bool(self.rationale) and self.rationale in (self.text, self.label)  # empty: there is none
        yield Refusal(twice, "rationale", f"with {others}", "another column")


class PairFileSettings(TextFileSettings):
    """The columns of pairs of your own, beside text and label."""

    second: str = setting("second", "column of the second texts")

    def refused(self) -> Iterable[Refusal]:
        """A column is named once."""
        others = f"text={self.text}, label={self.label}"
        yield Refusal(self.second in (self.text, self.label), "second", f"with {others}", "another column")


def kind_of(path: Path | str) -> str:
    """The ending of a file, without that of a packed file: `.csv` of `reviews.csv.gz`."""
    name = Path(path)
    return (Path(name.stem).suffix if name.suffix.lower() in PACKED else name.suffix).lower()


def is_own(corpus: str) -> bool:
    """Whether the setting `corpus` names texts of one's own, and no corpus of the package.

    True for what has the ending of a file, for a path with a separator, for a file or a folder in the working
    directory, and for a data set on the hub.
    """
    if is_on_hub(corpus):
        return True
    looks_like_path = "/" in corpus or os.sep in corpus or corpus.startswith("~")
    return looks_like_path or bool(kind_of(corpus)) or (bool(corpus) and _is_there(corpus))


def is_on_hub(corpus: str) -> bool:
    """Whether the setting `corpus` names a data set on the hub of Hugging Face."""
    return corpus.startswith(HUB)


def _is_there(place: str) -> bool:
    """Whether this is a file or a folder; False also for what cannot be a path."""
    try:
        return Path(place).is_dir() or Path(place).is_file()
    except (OSError, ValueError):
        return False


def absolute(corpus: str) -> str | None:
    """The absolute path of a file or a folder of one's own, because a run works in another folder; None for a name.

    The name of a data set on the hub stays as it is; None if it cannot be one. None also for an address, such as
    https://..., of which a path would be made that nobody has written.
    """
    if is_on_hub(corpus):
        return corpus if ON_HUB.fullmatch(corpus) else None
    return os.path.abspath(os.path.expanduser(corpus)) if is_own(corpus) and "://" not in corpus else None
