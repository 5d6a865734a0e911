"""SNLI: pairs of sentences with a label, from captions of images.

Source: Bowman et al. 2015, the official files of version 1.0.
"""

from pathlib import Path

from rationale.data.archives import Archive, Download
from rationale.data.corpus import Corpus
from rationale.data.example import Example
from rationale.data.snli_format import LABELS, check_pairs, read_pairs


def read_snli(path: Path | str | None = None, null: bool = True) -> dict[str, list[Example]]:
    """The pairs that have a gold label; see `snli_format.read_pairs`.

    Parameters
    ----------
    path : Path, str or None
        Folder of the three files. None: `snli` in the data folder.
    null : bool
        Put `NULL` before both sentences.
    """
    return read_pairs(path, "snli_1.0_{}.jsonl", ARCHIVE, null)


ARCHIVE = Archive(
    name="snli",
    what="Stanford Natural Language Inference (Bowman et al. 2015)",
    page="https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
    terms="CC BY-SA 4.0",
    places=(tuple(f"snli/snli_1.0_{split}.jsonl" for split in ("train", "dev", "test")),),
    counts="549,367 / 9,842 / 9,824 pairs with a gold label",
    check=check_pairs("snli/snli_1.0_*.jsonl", {"train": 549367, "dev": 9842, "test": 9824}),
    downloads=(
        Download(
            "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
            "snli/snli_1.0.zip",
            sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
            members=tuple(
                (f"snli_1.0/snli_1.0_{split}.jsonl", f"snli/snli_1.0_{split}.jsonl")
                for split in ("train", "dev", "test")
            ),
        ),
    ),
)
CORPUS = Corpus(
    name="snli",
    what="pairs of sentences: entailment, contradiction or neutral",
    read={"alignment": lambda _: read_snli()},
    labels=LABELS,
    archive=ARCHIVE,
)
