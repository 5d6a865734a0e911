"""Movie reviews, positive or negative, with the passages that annotators gave as reasons.

Source: Zaidan et al. 2007; review_polarity_rationales.tar.gz. The annotated documents posR_000 .. posR_899 and
negR_000 .. negR_899 have one file each (latin-1, tokens separated by spaces, reasons as `<POS> ... </POS>` and
`<NEG> ... </NEG>`). pos_900 .. pos_999 and neg_900 .. neg_999 are not annotated.
"""

import re
from collections import Counter
from pathlib import Path

from rationale.data.archives import Archive, locate
from rationale.data.corpus import Corpus, Request, in_turn
from rationale.data.example import Example, filled
from rationale.data.files import BYTE_ORDER_MARK, count_differences, members, only_file, readable
from rationale.data.tokenise import split_clitics
from rationale.errors import BadInput

LABELS = ("negative", "positive")
FOLDS = range(9)  # the annotated folds; fold 9 has no rationales
USUAL = 8  # the fold that is the test split if nothing else is asked for
_TAGS = {"<POS>", "</POS>", "<NEG>", "</NEG>"}
_NAME = re.compile(r"withRats_(?:pos|neg)/(pos|neg)(R?)_(\d)\d\d\.txt$")


def read_movies(path: Path | str | None = None, fold: int = USUAL) -> dict[str, list[Example]]:
    """Documents, split into train, dev and test by the hundreds of their number, as usual for this corpus.

    Test is `fold`, dev the fold before it (8 for fold 0), and train all other folds, including fold 9: 1600 / 200 /
    200 documents. ERASER (DeYoung et al. 2020) has equally many, but tests on fold 9, with its own rationales.

    Source: Zaidan et al. 2007.

    Parameters
    ----------
    path : Path, str or None
        The official archive, or a folder that holds it or its files. None: `movies` in the data folder.
    fold : in `FOLDS`
        One of nine values, for cross-validation.

    Returns
    -------
    {"train", "dev", "test"} -> list of Example
        Negative documents first. `label` is 0 for negative, 1 for positive. `rationale` is None in fold 9, and all
        False in posR_161, in which the annotator marked nothing. Tokens are those of the publishers, except that
        clitics are separated (don't: do, n't), as there are no word vectors for the joined forms.

    Raises
    ------
    BadInput
        Unknown fold, a missing or damaged archive, a malformed document (file and line are named).
    """
    if fold not in FOLDS:
        raise BadInput(f"fold: {fold!r}; accepted: {FOLDS[0]} to {FOLDS[-1]}, the folds with rationales")
    place = locate(ARCHIVE, path, "withRats_*/*.txt")
    documents = {}
    for name, read in members(place):
        known = _NAME.search(name)
        if known:
            documents[known[0]] = parse(f"{place}/{name}", _text(read()))
    splits: dict[str, list[Example]] = {"train": [], "dev": [], "test": []}
    for name, (tokens, flags, _) in sorted(documents.items()):
        kind, annotated, hundreds = _NAME.findall(name)[0]
        split = {fold: "test", (fold - 1) % len(FOLDS): "dev"}.get(int(hundreds), "train")
        rationale = tuple(flags) if annotated else None
        splits[split].append(Example(tuple(tokens), int(kind == "pos"), rationale))
    return filled(splits, place)


def _text(content: bytes) -> str:
    return content.removeprefix(BYTE_ORDER_MARK).decode("latin-1")


def parse(name: str, text: str) -> tuple[list[str], list[bool], int]:
    """Tokens, a flag for each that says whether it is part of a reason, and the number of reasons.

    Every reason supports the label of its document (a NEG in a positive document does not occur).

    Raises
    ------
    BadInput
        A reason is not closed, not opened, nested or for the other label.
    """
    tag = "POS" if "withRats_pos" in name else "NEG"
    tokens: list[str] = []
    flags: list[bool] = []
    num_spans, inside = 0, False
    for number, line in enumerate(text.split("\n"), start=1):
        for piece in split_clitics(line).split():
            if piece in _TAGS:
                if piece != (f"</{tag}>" if inside else f"<{tag}>"):
                    accepted = f"<{tag}> ... </{tag}>, one after the other"
                    raise BadInput(f"{name}:{number}: {piece} as token {len(tokens)}; accepted: {accepted}")
                inside = not inside
                num_spans += inside
            else:
                tokens.append(piece)
                flags.append(inside)
    if inside or not tokens:
        problem = f"<{tag}> never closed" if inside else "no tokens"
        raise BadInput(f"{name}:{number}: {problem}; accepted: a review, each <{tag}> closed by </{tag}>")
    return tokens, flags, num_spans


@readable
def check_movies(root: Path) -> list[str]:
    """Movie reviews: the numbers of texts and annotated spans of each folder."""
    counts: Counter[str] = Counter()
    for name, read in members(only_file(root, "movies/review_polarity_rationales.tar.*")):
        if not name.endswith(".txt"):
            continue
        kind = Path(name).parent.name
        spans = parse(name, _text(read()))[2] if "withRats" in kind else 0
        counts.update({f"{kind} files": 1, f"{kind} spans": spans, f"{kind} files with spans": spans > 0})
    return count_differences(
        counts,
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


def _read(asked: Request) -> dict[str, list[Example]]:
    splits = read_movies(fold=USUAL if asked.fold is None else asked.fold)
    return {name: in_turn(part) for name, part in splits.items()}


ARCHIVE = Archive(
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
)
CORPUS = Corpus(
    name="movies",
    what="movie reviews, positive or negative, with the passages that annotators gave as reasons",
    read={"extraction": _read},
    labels=LABELS,
    aspects=("overall",),
    folds=tuple(FOLDS),
    archive=ARCHIVE,
)
