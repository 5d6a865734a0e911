"""The reviews that the parameters of a run name, and what their labels are: all that differs between the corpora."""

from itertools import islice
from types import SimpleNamespace
from typing import NamedTuple

from rationale.data.corpora.beer import read_beer
from rationale.data.corpora.hotels import read_hotels
from rationale.data.corpora.imdb_rationales import read_imdb_rationales
from rationale.data.corpora.movies import CLASSES, read_movies
from rationale.data.corpora.synthetic import read_synthetic
from rationale.data.example import Example
from rationale.errors import BadInput

MADE_UP = {"train": 5000, "dev": 500, "test": 500}  # reviews of the synthetic corpus where 0 are asked for


class Reviews(NamedTuple):
    """A corpus, ready for training."""

    splits: dict[str, list[Example]]
    head: str  # "scores" or "classes"
    num_outputs: int
    labels: list[str] | None  # names of the classes


def read_reviews(p: SimpleNamespace) -> Reviews:
    """Read (or make up) the reviews of a run.

    Parameters
    ----------
    p : parameters
        Uses corpus, aspect, correlation, num_train, num_dev, num_test. Of real corpora the first reviews of a split
        are taken, of movies and imdb_rationales in turn from both classes; 0 means all of them.

    Raises
    ------
    BadInput
        See the readers.
    """
    limits = {"train": p.num_train, "dev": p.num_dev, "test": p.num_test}
    if p.corpus == "synthetic":
        sizes = {f"num_{name}": limit or MADE_UP[name] for name, limit in limits.items()}
        return Reviews(read_synthetic(**sizes, aspect=p.aspect, correlation=p.correlation), "scores", 1, None)
    if p.corpus in ("beer", "hotels"):
        most = max(limits.values()) if all(limits.values()) else None
        splits = read_beer(p.aspect) if p.corpus == "beer" else read_hotels(p.aspect, limit=most)
        splits = {name: part[: limits[name] or None] for name, part in splits.items()}
        for name, part in splits.items():
            if not part:
                raise BadInput(f"corpus: {p.corpus} has no {name} review rated for {p.aspect}; at least one is needed")
        return Reviews(splits, "scores", len(splits["train"][0].label), None)
    splits = read_movies() if p.corpus == "movies" else read_imdb_rationales(hold_out=True)
    splits = {name: list(islice(_in_turn(part), limits[name] or None)) for name, part in splits.items()}
    return Reviews(splits, "classes", len(CLASSES), list(CLASSES))


def _in_turn(examples: list[Example]) -> list[Example]:
    """The examples of each class in their order, one class after the other in turn."""
    seen: dict[int, int] = {}
    places = []
    for example in examples:
        places.append((seen.setdefault(example.label, 0), example.label))
        seen[example.label] += 1
    return [example for _, example in sorted(zip(places, examples, strict=True), key=lambda pair: pair[0])]
