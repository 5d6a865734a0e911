"""Multi30k: captions of images in German, French, Czech and English.

Source: Elliott et al. 2016. Sources and references are lower-cased and split by `tokenise.split_words`; BLEU is
computed from these tokens.
"""

from pathlib import Path

from rationale.data.archives import Archive
from rationale.data.corpus import Corpus
from rationale.data.example import Example, data_folder
from rationale.data.files import count_differences, open_text, readable
from rationale.data.parallel_lines import read_lines
from rationale.data.targets import END, Targets
from rationale.data.tokenise import split_words
from rationale.errors import BadInput

LANGUAGES = ("de", "fr", "cs")
SPLIT_FILES = {"train": "train", "dev": "val", "test": "test_2016_flickr"}


def read_captions(language: str = "de", path: Path | str | None = None, max_tokens: int = 60) -> Targets:
    """Multi30k, from a language into English; test is the Flickr test set of 2016.

    Parameters
    ----------
    language : "de", "fr" or "cs"
    path : Path, str or None
        Folder of the .gz files; None: multi30k/task1_raw in the data folder.
    max_tokens : int >= 1
        Longer training captions are left out; dev and test are complete.

    Raises
    ------
    BadInput
        A file is missing, or two files have different numbers of lines.
    """
    if language not in LANGUAGES:
        raise BadInput(f"language: {language!r} is unknown; accepted: {', '.join(LANGUAGES)}")
    place = Path(path) if path is not None else data_folder() / "multi30k" / "task1_raw"
    splits, references = {}, {}
    for split, name in SPLIT_FILES.items():
        sides = [read_lines(place / f"{name}.{code}.gz", place, ARCHIVE) for code in (language, "en")]
        if len(sides[0]) != len(sides[1]):
            raise BadInput(
                f"{place / name}.*: {len(sides[0])} lines in {language}, {len(sides[1])} in en; accepted: pairs"
            )
        pairs = [tuple(tuple(split_words(line)) for line in pair) for pair in zip(*sides, strict=True)]
        splits[split] = [
            Example(source, 0, second=(*target, END))
            for source, target in pairs
            if source and target and (split != "train" or max(len(source), len(target)) <= max_tokens)
        ]
        if split != "train":
            references[split] = [[" ".join(target)] for source, target in pairs if source and target]
    return Targets(splits, references)


@readable
def check_multi30k(root: Path) -> list[str]:
    """Multi30k: the number of captions of each split and language."""
    counts = {}
    expected = {
        f"{split}.{language}": num
        for language in ("en", "de", "fr", "cs")
        for split, num in (("train", 29000), ("val", 1014), ("test_2016_flickr", 1000))
    }
    for name in expected:
        with open_text(root / "multi30k" / "task1_raw" / f"{name}.gz") as file:
            counts[name] = sum(1 for _ in file)
    return count_differences(counts, expected)


ARCHIVE = Archive(
    name="multi30k",
    what="image captions in English, German, French and Czech (Elliott et al. 2016)",
    page="https://github.com/multi30k/dataset",
    terms="research",
    places=(tuple(f"multi30k/task1_raw/{split}.*.gz" for split in ("train", "val", "test_2016_flickr")),),
    counts="29,000 / 1,014 / 1,000 lines per language",
    check=check_multi30k,
    by_hand=(
        "it is a repository of many small files; put data/task1/raw/*.gz of "
        "https://github.com/multi30k/dataset into multi30k/task1_raw of the data folder"
    ),
)
CORPUS = Corpus(
    name="multi30k",
    what="captions of images, translated into English",
    read={"generation": lambda asked: read_captions(asked.language)},
    tokeniser="words",
    archive=ARCHIVE,
    languages=LANGUAGES,
    metric="bleu",
)
