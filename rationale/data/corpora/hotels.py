"""Hotel reviews with ratings of several aspects.

They have no rationales. Bao et al. 2018 asked people to mark words in some of them, for three aspects, and published
these in another form, which `hotel_rationales` reads.

Source: Wang et al. 2010 (LARA, TripAdvisor); one text file per hotel, with these lines for each review:
`<Author>`, `<Content>`, `<Date>` and `<Rating>` (eight numbers from 1 to 5; -1 and, in a few files, 0 mean not rated).
Of 243,713 reviews, 171,901 are read. Of the others only the headline was crawled, followed by a link
(`showReview(2698125, 'full');`) or the caption of a photo.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path

from rationale.data.archives import Archive, Download, locate
from rationale.data.corpus import SPLITS, Corpus, Request
from rationale.data.example import Example, filled
from rationale.data.files import count_differences, decoded, members, only_file, readable
from rationale.data.tokenise import split_words
from rationale.errors import BadInput, excerpt, require_known, require_positive

RATINGS = ("overall", "value", "rooms", "location", "cleanliness", "front desk", "service", "business")
SCORES = ("value", "rooms", "location", "cleanliness", "service")
POSSIBLE = [str(rating) for rating in range(-1, 6)]
HEADLINE_ONLY = ("showReview(", " " * 5)  # marks of a review whose text was not crawled


def read_hotels(
    aspect: str, path: Path | str | None = None, max_tokens: int = 256, limit: int | None = None
) -> dict[str, list[Example]]:
    """The reviews that rate an aspect, or all five of them, as lower-case tokens (`tokenise.split_words`).

    Hotels are split by the sha256 of their number modulo 10: 0-7 train, 8 dev, 9 test. Within a split, reviews are
    ordered by the sha256 of hotel and line, so that the first reviews come from many hotels.

    Source: Wang et al. 2010; the split is ours.

    Parameters
    ----------
    aspect : one of `SCORES`, or "all"
    path : Path, str or None
        The official archive, or a folder that holds it or its files. None: `hotels` in the data folder.
    max_tokens : int >= 1
        Reviews are cut after this many tokens.
    limit : int >= 1 or None
        At most this many reviews per split: the first ones.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` is ((rating - 1) / 4,), or, for "all", five such scores in the order of `SCORES`. No rationale.

    Raises
    ------
    BadInput
        Unknown aspect, a missing or damaged archive, a malformed line (file and line are named).
    """
    require_known("aspect", aspect, (*SCORES, "all"))
    require_positive(max_tokens=max_tokens, limit=limit)
    columns = [RATINGS.index(name) for name in (SCORES if aspect == "all" else [aspect])]
    rows: dict[str, list[tuple[bytes, str, tuple[float, ...]]]] = {split: [] for split in SPLITS}
    place = locate(ARCHIVE, path, "*_parsed.txt")
    for hotel, number, text, ratings in reviews(place):
        scores = tuple((ratings[column] - 1) / 4 for column in columns)
        if min(scores) >= 0 and not any(sign in text for sign in HEADLINE_ONLY):
            rows[split_of(hotel)].append((sha256(f"{hotel} {number}".encode()).digest(), text, scores))
    splits = {}
    for split, part in rows.items():
        part.sort()
        pairs = ((tuple(split_words(text, max_tokens)), scores) for _, text, scores in part)
        examples = (Example(tokens, scores) for tokens, scores in pairs if tokens)
        splits[split] = list(islice(examples, limit))
    return filled(splits, place)


def reviews(place: Path) -> Iterator[tuple[str, int, str, tuple[int, ...]]]:
    """(hotel, line, text, eight ratings) for every review of an archive or a folder, in one pass."""
    for name, read in members(place):
        if name.endswith("_parsed.txt") and "__MACOSX" not in name:
            yield from _parse(f"{place}/{name}", decoded(read(), f"{place}/{name}"))


def split_of(hotel: str) -> str:
    """The split of a hotel, from its number in the file names."""
    bucket = int(sha256(hotel.encode()).hexdigest(), 16) % 10
    return SPLITS[max(0, bucket - 7)]


def _parse(name: str, content: str) -> Iterator[tuple[str, int, str, tuple[int, ...]]]:
    hotel = name.rsplit("/", 1)[-1].split("_")[1]
    text, num_reviews = None, 0
    for number, line in enumerate(content.split("\n"), start=1):
        if line.startswith("<Content>") and text is None:
            text = line.removeprefix("<Content>").rstrip("\r")
        elif line.startswith("<Rating>"):
            ratings = _ratings(line.removeprefix("<Rating>").strip())
            if text is None or ratings is None:
                accepted = f"after a <Content>, <Rating> and {len(RATINGS)} whole numbers from -1 to 5 with tabs"
                raise BadInput(f"{name}:{number}: {excerpt(line.strip())}; accepted: {accepted}")
            yield hotel, number, text, ratings
            text, num_reviews = None, num_reviews + 1
        elif line.startswith("<Content>") or line[:1] not in ("", "\r", "<"):
            accepted = "lines that begin with a name in <>, a <Rating> after each <Content>"
            raise BadInput(f"{name}:{number}: {line[:40]!r}; accepted: {accepted}")
    if text is not None or not num_reviews:
        raise BadInput(f"{name}:{number}: the end; accepted: at least one <Content>, a <Rating> after each")


@cache
def _ratings(fields: str) -> tuple[int, ...] | None:
    ratings = fields.split("\t")
    if len(ratings) != len(RATINGS) or not all(rating in POSSIBLE for rating in ratings):
        return None
    return tuple(map(int, ratings))


@readable
def check_hotels(root: Path) -> list[str]:
    """Hotel reviews: the numbers of hotels and reviews."""
    files = Counter(hotel for hotel, *_ in reviews(only_file(root, "hotels/*Texts.*")))
    return count_differences({"files": len(files), "reviews": files.total()}, {"files": 1849, "reviews": 243713})


def _read(asked: Request) -> dict[str, list[Example]]:
    """The reviews of a run. If every split has a limit, only as many reviews as needed are split into words."""
    limits = asked.limits.values()
    return read_hotels(asked.aspect, limit=max(limits) if all(limits) else None)


ARCHIVE = Archive(
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
)
CORPUS = Corpus(
    name="hotels",
    what="hotel reviews with ratings of several aspects",
    read={"extraction": _read},
    aspects=(*SCORES, "all"),
    scores=SCORES,
    marked_by="hotel_rationales",
    tokeniser="words",
    archive=ARCHIVE,
)
