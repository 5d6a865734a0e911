"""A small collection of sentence pairs from several publishers, with SNLI's test set.

Source: the publishers of each part; the test set is that of Bowman et al. 2015.
"""

from pathlib import Path

from rationale.data.archives import MADE_HERE, Archive
from rationale.data.corpus import Corpus
from rationale.data.example import Example
from rationale.data.snli_format import LABELS, check_pairs, read_pairs


def read_nli_small(path: Path | str | None = None, null: bool = True) -> dict[str, list[Example]]:
    """The pairs that have a gold label; see `snli_format.read_pairs`.

    Parameters
    ----------
    path : Path, str or None
        Folder of the three files. None: `nli_small` in the data folder.
    null : bool
        Put `NULL` before both sentences.
    """
    return read_pairs(path, "{}.jsonl.xz", ARCHIVE, null)


ARCHIVE = Archive(
    name="nli_small",
    what="sentence pairs from several publishers; the test set is SNLI's",
    page="none",
    terms="the publishers of each source",
    places=(tuple(f"nli_small/{split}.jsonl.xz" for split in ("train", "dev", "test")),),
    counts="64,974 / 1,972 / 9,824 pairs, test by label",
    check=check_pairs(
        "nli_small/*.jsonl.xz",
        {
            "train": 64974,
            "dev": 1972,
            "test": 9824,
            "test entailment": 3368,
            "test contradiction": 3237,
            "test neutral": 3219,
        },
    ),
    sha256={
        "nli_small/train.jsonl.xz": "562ed81044141bb16270d79419bb14be1e9a545fad20912d9f4dd4b7331978c0",
        "nli_small/dev.jsonl.xz": "8f9c2d42a93777c645a3651acbac5176ea4859a87a286c54440807d93b2bd3c2",
        "nli_small/test.jsonl.xz": "49dbde2f3149e77d33771a029a6bf067c5701c82ff1009f1bb0bd3690a77ffbf",
    },
    by_hand=MADE_HERE.format("nli_small/") + ": python -m rationale.data fetch snli",
)
CORPUS = Corpus(
    name="nli_small",
    what="a small collection of sentence pairs, with SNLI's test set",
    read={"alignment": lambda _: read_nli_small()},
    labels=LABELS,
    archive=ARCHIVE,
)
