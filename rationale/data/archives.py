"""The official archives: where they come from, how they are fetched, and what must be in them.

A download goes to a folder of its own (`.fetch-...` in the data folder) and is verified there: its sha256
where one is known, and always its contents, by the counts that are known of them. Only then it moves to its
place. So a file in its place is a finished one, and a failed download leaves what was there before.
"""

import json
import logging
import os
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rationale.data.example import folder
from rationale.data.files import brief, count_differences, members, only_file, open_text, readable
from rationale.data.vectors import check_vectors
from rationale.errors import BadInput, typed


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    Parameters
    ----------
    url : official address
    path : where it goes, relative to the data folder
    sha256 : 64 hexadecimal digits, or None where the publisher gives none
    members : (name in the zip, path) pairs
        These are taken out of the archive and the archive is dropped. Empty: the file is kept as it is.
    """

    url: str
    path: str
    sha256: str | None = None
    members: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Archive:
    """One corpus or set of vectors.

    Parameters
    ----------
    name : what `python -m rationale.data` calls it
    what, page, terms : one line each: what it is, its official address, terms of use as far as known
    places : alternatives, each a tuple of glob patterns relative to the data folder
        It is present when every pattern of one alternative matches a file.
    counts : what `check` compares, in words
    check : data folder -> what is wrong, a line each; [] if nothing is
    downloads : what `fetch` gets; empty: a program cannot fetch it, and `by_hand` says why and what to do
    """

    name: str
    what: str
    page: str
    terms: str
    places: tuple[tuple[str, ...], ...]
    counts: str
    check: Callable[[Path], list[str]]
    downloads: tuple[Download, ...] = ()
    by_hand: str = ""

    def files(self, root: Path) -> list[Path]:
        """Its files below the data folder `root`; [] if it is not there, or not all of it."""
        for patterns in self.places:
            found = [sorted(path for path in root.glob(pattern) if path.is_file()) for pattern in patterns]
            if all(found):
                return [path for paths in found for path in paths]
        return []


def fetch(archive: Archive, root: Path | None = None, again: bool = False) -> list[Path]:
    """Download, verify, put in place; does nothing if the archive is there already.

    Parameters
    ----------
    archive : Archive
    root : Path or None
        The data folder; None: `rationale.data.folder()`.
    again : bool
        Fetch it although it is there. What is there is replaced only by a verified download.

    Returns
    -------
    list of Path
        Its files.

    Raises
    ------
    BadInput
        It cannot be fetched by a program, the server cannot be reached or stops early, the sha256 is wrong,
        or the counts are: one line with what happened and what to do by hand. Nothing is changed then.
    """
    root = Path(root or folder())
    present = archive.files(root)
    if present and not again:
        return present
    if not archive.downloads:
        raise BadInput(f"{archive.name}: {archive.by_hand}")
    try:
        root.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".fetch-{archive.name}-", dir=root))
    except OSError as error:
        raise BadInput(
            f"{archive.name}: cannot write into {root} ({error.strerror}); set RATIONALE_DATA to a folder of your own"
        ) from error
    try:
        staged = [path for download in archive.downloads for path in _download(archive, download, staging)]
        problems = archive.check(staging)
        if problems:
            raise BadInput(
                f"{archive.name}: what came from {archive.page} is not what it should be: "
                f"{'; '.join(problems)}; nothing was kept. {_by_hand(archive, root)}"
            )
        for path in staged:
            target = root / path.relative_to(staging)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return archive.files(root)


def verify(archive: Archive, root: Path | None = None) -> list[str]:
    """What is wrong with an archive in the data folder, a line each; [] if nothing is.

    Raises
    ------
    BadInput
        It is not there.
    """
    root = Path(root or folder())
    if not archive.files(root):
        raise missing(archive, root)
    return archive.check(root)


def find(name: str) -> Archive:
    """The archive of this name.

    Raises
    ------
    BadInput
        There is none.
    """
    if name not in ARCHIVES:
        raise BadInput(f"{name!r} is no archive; accepted: {', '.join(ARCHIVES)}")
    return ARCHIVES[name]


def missing(archive: Archive, place: Path, what: str = "") -> BadInput:
    """What to say where an archive, or its file `what`, is not in `place`."""
    looked_for = what or places_in_words(archive)
    return BadInput(f"{archive.name}: not in {place}; looked for {looked_for}. {how_to_get(archive)}")


def locate(name: str, path: Path | str | None, unpacked: str) -> Path:
    """Where a reader finds an archive that is one file: that file, or a folder with its unpacked files.

    Parameters
    ----------
    name : of the archive
    path : the file, a folder that holds it or the unpacked files, or None: its folder in the data folder
    unpacked : glob pattern of the unpacked files

    Raises
    ------
    BadInput
        It is not there.
    """
    archive = find(name)
    place = Path(path) if path is not None else folder() / name
    if place.is_file():
        return place
    packed = [held for patterns in archive.places for pattern in patterns for held in place.glob(Path(pattern).name)]
    if packed or any(place.rglob(unpacked)):
        return min(packed, default=place)
    raise missing(archive, place)


def places_in_words(archive: Archive) -> str:
    """Where the files of an archive go, below the data folder."""
    return " or ".join(", ".join(patterns) for patterns in archive.places)


def how_to_get(archive: Archive) -> str:
    """One sentence: the command that fetches it, or what to do by hand."""
    if archive.downloads:
        return f"Get it: {typed('rationale.data fetch')} {archive.name}"
    return archive.by_hand[:1].upper() + archive.by_hand[1:]


def _download(archive: Archive, download: Download, staging: Path) -> list[Path]:
    """Fetch one file into the staging folder; returns the files it gave."""
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.WARNING)
    target = staging / download.path
    known_hash = download.sha256 and f"sha256:{download.sha256}"
    by_hand = _by_hand(archive, staging.parent)
    try:
        pooch.retrieve(
            download.url,
            known_hash,
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=60),
        )
    except (OSError, requests.exceptions.RequestException) as error:
        raise BadInput(f"{archive.name}: {download.url} cannot be fetched ({brief(error)}). {by_hand}") from error
    except ValueError as error:  # pooch: the hash is wrong
        raise BadInput(
            f"{archive.name}: {download.url} is not the file it should be: {brief(error)}. {by_hand}"
        ) from error
    if not download.members:
        return [target]
    try:
        with zipfile.ZipFile(target) as file:
            for member, path in download.members:
                (staging / path).parent.mkdir(parents=True, exist_ok=True)
                (staging / path).write_bytes(file.read(member))  # read compares the checksum
    except (zipfile.BadZipFile, zlib.error, KeyError, EOFError, OSError) as error:
        raise BadInput(
            f"{archive.name}: {download.url} is cut short or damaged ({brief(error)}); nothing was kept. {by_hand}"
        ) from error
    target.unlink()
    return [staging / path for _, path in download.members]


def _by_hand(archive: Archive, root: Path) -> str:
    steps = []
    for download in archive.downloads:
        if download.members:
            files = ", ".join(f"{member} as {root / path}" for member, path in download.members)
            steps.append(f"get {download.url} and unpack {files}")
        else:
            steps.append(f"save {download.url} as {root / download.path}")
    return f"By hand: {'; '.join(steps)}; then: {typed('rationale.data check')} {archive.name}"


@readable
def check_sst(root: Path) -> list[str]:
    """SST: sentences, labels and words of each split, against the published counts."""
    from rationale.data.corpora import sst

    return sst.differences(sst.read_sst(root / "sst"))


def check_pairs(pattern: str, expected: dict[str, int]) -> Callable[[Path], list[str]]:
    """Sentence pairs in JSON lines: number by `split`, or by `split label` where `expected` asks for it."""

    @readable
    def check(root: Path) -> list[str]:
        found = Counter()
        for path in sorted(root.glob(pattern)):
            split = path.name.split(".jsonl")[0].split("_")[-1]
            with open_text(path) as file:
                for line in file:
                    label = json.loads(line)["gold_label"]
                    if label != "-":  # no agreement between the annotators
                        found.update((split, f"{split} {label}"))
        return count_differences(found, expected)

    return check


@readable
def check_movies(root: Path) -> list[str]:
    """Movie reviews: texts and annotated spans of each split."""
    from rationale.data.corpora import movies

    found = Counter()
    for name, read in members(only_file(root, "movies/review_polarity_rationales.tar.*")):
        if not name.endswith(".txt"):
            continue
        kind = name.split("/")[-2]
        spans = movies.parse(name, read().decode("latin-1"))[2] if "withRats" in kind else 0
        found.update({f"{kind} files": 1, f"{kind} spans": spans, f"{kind} files with spans": spans > 0})
    return count_differences(
        found,
        {
            "withRats_pos files": 1000,
            "withRats_neg files": 1000,
            "noRats_pos files": 1000,
            "noRats_neg files": 1000,
            "withRats_pos files with spans": 899,
            "withRats_neg files with spans": 900,
            "withRats_pos spans": 7253,
            "withRats_neg spans": 8144,
        },
    )


@readable
def check_imdb(root: Path) -> list[str]:
    """IMDb: reviews of each split and label."""
    found = Counter()
    for path in sorted(root.glob("imdb/aclImdb*.tar.*")):
        for name, _ in members(path):
            if name.endswith(".txt") and name.count("/") == 3:
                found[" ".join(name.split("/")[1:3])] += 1
    return count_differences(
        found,
        {"train pos": 12500, "train neg": 12500, "test pos": 12500, "test neg": 12500, "train unsup": 50000},
    )


@readable
def check_imdb_rationales(root: Path) -> list[str]:
    """IMDb with rationales: texts and words that people marked."""
    from rationale.data.corpora import imdb_rationales

    found = imdb_rationales.counts(root / "imdb_rationales")
    return count_differences(
        found, {"documents": 855, "spans": 5075, "spans found in the text": 5074, "paired documents": 4880}
    )


@readable
def check_hotels(root: Path) -> list[str]:
    """Hotel reviews: hotels and reviews."""
    from rationale.data.corpora import hotels

    files = Counter(hotel for hotel, *_ in hotels.reviews(only_file(root, "hotels/*Texts.*")))
    return count_differences({"files": len(files), "reviews": files.total()}, {"files": 1849, "reviews": 243713})


@readable
def check_multi30k(root: Path) -> list[str]:
    """Multi30k: captions of each split and language."""
    found = {}
    expected = {
        f"{split}.{language}": num
        for language in ("en", "de", "fr", "cs")
        for split, num in (("train", 29000), ("val", 1014), ("test_2016_flickr", 1000))
    }
    for name in expected:
        with open_text(root / "multi30k" / "task1_raw" / f"{name}.gz") as file:
            found[name] = sum(1 for _ in file)
    return count_differences(found, expected)


@readable
def check_aeslc(root: Path) -> list[str]:
    """AESLC: mails of each split."""
    found = Counter(
        name.split("/")[-2]
        for name, _ in members(only_file(root, "aeslc/*enron_subject_line*"))
        if name.endswith(".subject")
    )
    return count_differences(found, {"train": 14436, "dev": 1960, "test": 1906})


@readable
def check_sumdata(root: Path) -> list[str]:
    """Gigaword and DUC 2004: lines of each file."""
    found = {}
    for name in ("DUC2004/input.txt", *(f"DUC2004/task1_ref{i}.txt" for i in range(4))):
        with open_text(only_file(root, f"sumdata/{name}*")) as file:
            found[name] = sum(1 for _ in file)
    return count_differences(found, dict.fromkeys(found, 500))


def check_questions(expected: dict[str, tuple[int, int, int]]) -> Callable[[Path], list[str]]:
    """Files in SQuAD's format: articles, paragraphs, questions."""

    @readable
    def check(root: Path) -> list[str]:
        problems = []
        for path, (articles, paragraphs, questions) in expected.items():
            data = json.loads((root / path).read_text(encoding="utf-8"))["data"]
            held = [paragraph for article in data for paragraph in article["paragraphs"]]
            found = {
                "articles": len(data),
                "paragraphs": len(held),
                "questions": sum(len(p["qas"]) for p in held),
            }
            problems += [
                f"{path}: {problem}"
                for problem in count_differences(
                    found, {"articles": articles, "paragraphs": paragraphs, "questions": questions}
                )
            ]
        return problems

    return check


@readable
def check_beer(root: Path) -> list[str]:
    """Beer reviews: those of each file and the annotated ones."""
    from rationale.data.corpora import beer

    for path in sorted(root.glob("beer/reviews.*.txt.gz")):
        for _ in beer.parsed(path, beer.parse_review):
            pass  # a malformed line stops it
    annotated = beer.parsed(only_file(root, "beer/annotations.json"), beer.parse_annotation)
    found = {"annotated reviews": sum(1 for _ in annotated)}
    return count_differences(found, {"annotated reviews": 994})


_MADE_HERE = "it was made for this project and has no public address; put the files into {}, or use another set"
_REGISTRY = (
    Archive(
        name="sst",
        what="Stanford Sentiment Treebank: sentences with a sentiment for every phrase (Socher et al. 2013)",
        page="https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
        terms="research",
        places=(("sst/train.txt", "sst/dev.txt", "sst/test.txt"), ("sst/trainDevTestTrees_PTB.zip",)),
        counts="8544 / 1101 / 2210 trees, labels of sentences and of words",
        check=check_sst,
        downloads=(
            Download(
                "https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",
                "sst/trainDevTestTrees_PTB.zip",
                members=tuple((f"trees/{split}.txt", f"sst/{split}.txt") for split in ("train", "dev", "test")),
            ),
        ),
    ),
    Archive(
        name="glove.6B",
        what="GloVe vectors, 400 thousand lower-case words, 50 to 300 dimensions (Pennington et al. 2014)",
        page="https://nlp.stanford.edu/data/glove.6B.zip",
        terms="PDDL; 0.9 GB",
        places=(("vectors/glove.6B.zip",), ("vectors/glove.6B.*d.txt*",)),
        counts="the same number of fields in every row",
        check=check_vectors("glove.6B*", {"glove.6B.50d.txt.xz": 118836}),
        downloads=(Download("https://nlp.stanford.edu/data/glove.6B.zip", "vectors/glove.6B.zip"),),
    ),
    Archive(
        name="glove.840B.300d",
        what="GloVe vectors, 2.2 million words, case kept, 300 dimensions (Pennington et al. 2014)",
        page="https://nlp.stanford.edu/data/glove.840B.300d.zip",
        terms="PDDL; 2 GB",
        places=(("vectors/glove.840B.300d.zip",), ("vectors/glove.840B.300d.txt*",)),
        counts="the same number of fields in every row",
        check=check_vectors("glove.840B*", {}),
        downloads=(Download("https://nlp.stanford.edu/data/glove.840B.300d.zip", "vectors/glove.840B.300d.zip"),),
    ),
    Archive(
        name="imdb.w2v.300d",
        what="word2vec of IMDb's reviews on the scale of GloVe 840B, 41,648 words; stands in for it",
        page="none",
        terms="made for this project",
        places=(("vectors/imdb.w2v.300d.txt*",),),
        counts="41,648 rows, the same number of fields in every row",
        check=check_vectors("imdb.w2v.300d.txt*", {"imdb.w2v.300d.txt.xz": 41648}),
        by_hand=_MADE_HERE.format("vectors/") + ": python -m rationale.data fetch glove.840B.300d",
    ),
    Archive(
        name="movies",
        what="movie reviews with the spans that annotators gave as reasons (Zaidan et al. 2007)",
        page="http://www.cs.jhu.edu/~ozaidan/rationales/",
        terms="research",
        places=(("movies/review_polarity_rationales.tar.*",),),
        counts="4 folders of 1000 files; 7,253 + 8,144 spans in 899 + 900 documents",
        check=check_movies,
        by_hand=(
            "only the address of its page is known; take review_polarity_rationales.tar.gz from "
            "http://www.cs.jhu.edu/~ozaidan/rationales/ and save it in movies/ of the data folder"
        ),
    ),
    Archive(
        name="imdb",
        what="Large Movie Review Dataset (Maas et al. 2011)",
        page="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        terms="research",
        places=(("imdb/aclImdb_v1.tar.gz",), ("imdb/aclImdb.labelled.tar.xz", "imdb/aclImdb.unsup.tar.xz")),
        counts="25,000 / 25,000 labelled, 50,000 unlabelled reviews",
        check=check_imdb,
        downloads=(
            Download(
                "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                "imdb/aclImdb_v1.tar.gz",
            ),
        ),
    ),
    Archive(
        name="imdb_rationales",
        what="IMDb reviews with human spans (Lu et al. 2022) and their texts (Kaushik et al. 2020)",
        page="https://github.com/acmi-lab/counterfactually-augmented-data",
        terms="Apache-2.0 (texts)",
        places=(
            (
                "imdb_rationales/rdl/**/human_labelled/*.json.xz",
                "imdb_rationales/cad/sentiment/combined/paired/*.tsv.xz",
            ),
        ),
        counts="855 documents, 5,075 spans",
        check=check_imdb_rationales,
        by_hand=(
            "it is put together from two publications; take the texts from "
            "https://github.com/acmi-lab/counterfactually-augmented-data and the spans from the code of "
            "Lu et al. 2022, into imdb_rationales/cad and imdb_rationales/rdl of the data folder, each file "
            "packed with xz"
        ),
    ),
    Archive(
        name="beer",
        what="beer reviews with five ratings, some with rationales (McAuley et al. 2012; Lei et al. 2016)",
        page="withdrawn (was http://people.csail.mit.edu/taolei/beer/)",
        terms="research only",
        places=(("beer/annotations.json", "beer/reviews.*.txt.gz"),),
        counts="five scores in [0, 1] in each line; 994 annotated reviews",
        check=check_beer,
        by_hand=(
            "the reviews were withdrawn by their owner and nobody may pass them on; who holds the files "
            "puts them into beer/ of the data folder (review+wiki.filtered.200.txt.gz into vectors/); everyone else: "
            "rationale.data.corpora.synthetic.write_beer_format writes reviews of the same format"
        ),
    ),
    Archive(
        name="hotels",
        what="TripAdvisor hotel reviews with ratings of seven aspects (Wang et al. 2010)",
        page="http://times.cs.uiuc.edu/~wang296/Data/",
        terms="research",
        places=(("hotels/*Texts.tar.xz",), ("hotels/Review_Texts.zip",)),
        counts="1849 files, 243,713 reviews",
        check=check_hotels,
        downloads=(
            Download(
                "http://times.cs.uiuc.edu/~wang296/Data/LARA/TripAdvisor/Review_Texts.zip",
                "hotels/Review_Texts.zip",
            ),
        ),
    ),
    Archive(
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
                members=tuple(
                    (f"snli_1.0/snli_1.0_{split}.jsonl", f"snli/snli_1.0_{split}.jsonl")
                    for split in ("train", "dev", "test")
                ),
            ),
        ),
    ),
    Archive(
        name="nli_small",
        what="sentence pairs of several publishers; the test set is SNLI's",
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
        by_hand=_MADE_HERE.format("nli_small/") + ": python -m rationale.data fetch snli",
    ),
    Archive(
        name="multi30k",
        what="image captions in English, German, French and Czech (Elliott et al. 2016)",
        page="https://github.com/multi30k/dataset",
        terms="research",
        places=(tuple(f"multi30k/task1_raw/{split}.*.gz" for split in ("train", "val", "test_2016_flickr")),),
        counts="29,000 / 1,014 / 1,000 lines a language",
        check=check_multi30k,
        by_hand=(
            "it is a repository of many small files; put data/task1/raw/*.gz of "
            "https://github.com/multi30k/dataset into multi30k/task1_raw of the data folder"
        ),
    ),
    Archive(
        name="aeslc",
        what="e-mails with their subject lines (Zhang and Tetreault 2019)",
        page="https://github.com/ryanzhumich/AESLC",
        terms="CC BY-NC-SA 4.0",
        places=(("aeslc/enron_subject_line.tar.xz",),),
        counts="14,436 / 1,960 / 1,906 e-mails",
        check=check_aeslc,
        by_hand=(
            "it is a repository of small files; pack the folder enron_subject_line of "
            "https://github.com/ryanzhumich/AESLC as aeslc/enron_subject_line.tar.xz of the data folder"
        ),
    ),
    Archive(
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
    ),
    Archive(
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
            )
            for split in ("train", "dev")
        ),
    ),
    Archive(
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
            ),
        ),
    ),
)
ARCHIVES = {archive.name: archive for archive in _REGISTRY}
