"""Beer reviews with ratings of five aspects, some with the sentences that annotators gave as reasons.

Source: McAuley et al. 2012; Lei et al. 2016, whose files these are: `reviews.aspect<N>.{train,heldout}.txt.gz`
(reviews chosen so that the other ratings say little about aspect N), `reviews.260k.{train,heldout}.txt.gz`
(all ratings), `annotations.json` (994 annotated reviews). Their owner has withdrawn them;
`synthetic.write_beer_format` writes others of the same format.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from rationale.data.archives import Archive, missing
from rationale.data.corpus import Corpus
from rationale.data.example import Example, data_folder, filled
from rationale.data.files import count_differences, only_file, parse_json, read_text, readable
from rationale.errors import BadInput, cut, excerpt, require_known, require_positive

T = TypeVar("T")
SCORES = ("look", "smell", "palate", "taste", "overall")  # the columns of the files
ASPECT_FILES = {"look": "aspect0", "smell": "aspect1", "palate": "aspect2", "all": "260k"}


def read_beer(aspect: str, path: Path | str | None = None, max_tokens: int = 256) -> dict[str, list[Example]]:
    """The reviews of one aspect, or of all ratings at once; with the tokens of the files.

    Source: Lei et al. 2016; train and dev are cut as in Bastings et al. 2019, the annotated test set is whole.

    Parameters
    ----------
    aspect : "look", "smell", "palate" or "all"
    path : Path, str or None
        Folder with the files, packed or not (a `.txt.gz` that is plain text is also read). None: `beer` in the
        data folder.
    max_tokens : int >= 1
        Reviews of train and dev end after this many tokens.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        `label` is (score,), or, for "all", the five scores in the order of `SCORES`, in [0, 1]. Test has the
        `rationale` of the aspect. It is None if the list of ranges is empty, which means that nobody annotated the
        aspect (such reviews count in the selected rate, but not in the precision), and always None for "all".

    Raises
    ------
    BadInput
        Unknown aspect, a missing file, a malformed line (file and line are named).
    """
    require_known("aspect", aspect, ASPECT_FILES)
    require_positive(max_tokens=max_tokens)
    place = Path(path) if path is not None else data_folder() / "beer"
    column = None if aspect == "all" else SCORES.index(aspect)
    splits = {}
    for split, part in (("train", "train"), ("dev", "heldout")):
        reviews = parsed(_find(place, f"reviews.{ASPECT_FILES[aspect]}.{part}.txt"), parse_review)
        splits[split] = [_example(scores, tokens[:max_tokens], column) for scores, tokens in reviews if tokens]
    annotated = parsed(_find(place, "annotations.json"), parse_annotation)
    splits["test"] = [_example(scores, tokens, column, ranges) for scores, tokens, ranges in annotated]
    return filled(splits, place)


def parse_review(line: str) -> tuple[tuple[float, ...], list[str]]:
    """Five scores and the tokens (`read_beer` leaves out a review without tokens, as Lei et al. do).

    Raises
    ------
    ValueError
        The message says what is wrong and what is accepted; `read_beer` adds file and line.
    """
    scores, tab, text = line.partition("\t")
    if not tab:
        raise ValueError(f"{excerpt(line)} has no tab; accepted: five scores in [0, 1], a tab, tokens")
    return _scores(scores.split()), text.split()


def parse_annotation(line: str) -> tuple[tuple[float, ...], list[str], list[list[tuple[int, int]]]]:
    """Five scores, the tokens, and for each aspect its annotated token ranges [start, end).

    Raises
    ------
    ValueError
        The message says what is wrong and what is accepted; `read_beer` adds file and line.
    """
    accepted = 'a JSON object with "x" (tokens), "y" (five scores), "0" ... "4" (lists of [start, end))'
    record = parse_json(line, "", accepted)
    try:
        tokens, scores = record["x"], record["y"]
        ranges = [[(start, end) for start, end in record[str(column)]] for column in range(len(SCORES))]
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{excerpt(line)} ({type(error).__name__}: {error}); accepted: {accepted}") from None
    if not (isinstance(tokens, list) and tokens and all(isinstance(token, str) for token in tokens)):
        raise ValueError(f'"x" is {cut(str(tokens), 40)!r}; accepted: a list of at least one token, all of them texts')
    if not isinstance(scores, list) or not all(type(score) in (int, float) for score in scores):
        raise ValueError(f'"y" is {cut(str(scores), 40)!r}; accepted: a list of {len(SCORES)} numbers in [0, 1]')
    for start, end in (pair for pairs in ranges for pair in pairs):
        if not (type(start) is int and type(end) is int and 0 <= start < end <= len(tokens)):
            shown = cut(f"[{start}, {end})")
            raise ValueError(f"range {shown}; accepted: 0 <= start < end <= {len(tokens)} tokens")
    return _scores(scores), tokens, ranges


def parsed(path: Path, parse: Callable[[str], T]) -> Iterator[T]:
    """Every line of a file, parsed, without empty lines at the end; the number of a malformed line is in the error."""
    lines = read_text(path).rstrip("\r\n").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            yield parse(line)
        except ValueError as error:
            raise BadInput(f"{path}:{number}: {error}") from None


def _scores(fields: list) -> tuple[float, ...]:
    try:
        scores = tuple(float(field) for field in fields)
    except (TypeError, ValueError, OverflowError):
        scores = ()
    is_plain = not any("_" in field for field in fields if isinstance(field, str))  # Python reads 1_0 as 10
    if not is_plain or len(scores) != len(SCORES) or not all(0 <= score <= 1 for score in scores):
        raise ValueError(f"scores {excerpt(fields)}; accepted: {len(SCORES)} numbers in [0, 1]")
    return scores


def _find(place: Path, name: str) -> Path:
    for path in (place / f"{name}.gz", place / name):
        if path.is_file():
            return path
    raise missing(ARCHIVE, place, f"{name}.gz, {name}")


def _example(scores: tuple[float, ...], words: list[str], column: int | None, ranges: list | None = None) -> Example:
    tokens = tuple(words)
    if column is None:
        return Example(tokens, scores)
    marked = ranges[column] if ranges else []
    flags = tuple(any(start <= t < end for start, end in marked) for t in range(len(tokens))) if marked else None
    return Example(tokens, (scores[column],), flags)


@readable
def check_beer(root: Path) -> list[str]:
    """Beer reviews: the lines of each file and the number of annotated reviews."""
    for path in sorted(root.glob("beer/reviews.*.txt.gz")):
        for _ in parsed(path, parse_review):
            pass  # a malformed line raises an error
    annotated = parsed(only_file(root, "beer/annotations.json"), parse_annotation)
    counts = {"annotated reviews": sum(1 for _ in annotated)}
    return count_differences(counts, {"annotated reviews": 994})


ARCHIVE = Archive(
    name="beer",
    what="beer reviews with five ratings, some with rationales (McAuley et al. 2012; Lei et al. 2016)",
    page="withdrawn (was http://people.csail.mit.edu/taolei/beer/)",
    terms="research only",
    places=(("beer/annotations.json", "beer/reviews.*.txt.gz"),),
    counts="five scores in [0, 1] in each line; 994 annotated reviews",
    check=check_beer,
    by_hand=(
        "the reviews were withdrawn by their owner and nobody may pass them on; those who have the files "
        "put them into beer/ of the data folder (review+wiki.filtered.200.txt.gz into vectors/); everyone else: "
        "rationale.data.corpora.synthetic.write_beer_format writes reviews of the same format"
    ),
)
CORPUS = Corpus(
    name="beer",
    what="beer reviews with ratings, some with the sentences that people gave as reasons",
    read={"extraction": lambda asked: read_beer(asked.aspect)},
    aspects=tuple(ASPECT_FILES),
    scores=SCORES,
    archive=ARCHIVE,
)
