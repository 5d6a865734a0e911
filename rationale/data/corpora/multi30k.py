"""Multi30k: captions of images in German, French, Czech and English.

Source: Elliott et al. 2016. Sources and references are lower-cased and split by `tokenise.split_words`; BLEU is
computed from these tokens.
"""

from pathlib import Path

from rationale.data.archives import Archive
from rationale.data.corpus import Corpus
from rationale.data.example import Example, data_folder
from rationale.data.files import count_differences, read_lines, readable
from rationale.data.parallel_lines import read_column
from rationale.data.targets import END, Targets
from rationale.data.tokenise import split_words
from rationale.errors import BadInput, require_known

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
        A file is missing or damaged, a line is blank, or two files have different numbers of lines.
    """
    require_known("language", language, LANGUAGES)
    place = Path(path) if path is not None else data_folder() / "multi30k" / "task1_raw"
    splits, references = {}, {}
    for split, name in SPLIT_FILES.items():
        sides = [read_column(place / f"{name}.{code}.gz", place, ARCHIVE) for code in (language, "en")]
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
        counts[name] = sum(1 for _ in read_lines(root / "multi30k" / "task1_raw" / f"{name}.gz"))
    return count_differences(counts, expected)


ARCHIVE = Archive(
    name="multi30k",
    what="image captions in English, German, French and Czech (Elliott et al. 2016)",
    page="https://github.com/multi30k/dataset",
    terms="research",
    places=(tuple(f"multi30k/task1_raw/{split}.*.gz" for split in ("train", "val", "test_2016_flickr")),),
    counts="29,000 / 1,014 / 1,000 lines per language",
    check=check_multi30k,
    sha256={
        "multi30k/task1_raw/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
        "multi30k/task1_raw/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
        "multi30k/task1_raw/train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
        "multi30k/task1_raw/train.cs.gz": "a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077",
        "multi30k/task1_raw/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
        "multi30k/task1_raw/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
        "multi30k/task1_raw/val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
        "multi30k/task1_raw/val.cs.gz": "b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc",
        "multi30k/task1_raw/test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
        "multi30k/task1_raw/test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
        "multi30k/task1_raw/test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
        "multi30k/task1_raw/test_2016_flickr.cs.gz": "200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1",
    },
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
