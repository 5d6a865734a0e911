"""A corpus of beer reviews from a small grammar: every rating is expressed in the text, at known positions.

A review comments on some of five aspects, in any order. Each opinion is a phrase such as `the nose is n't
exactly brilliant`: a word for the aspect, perhaps a negation or a modifier, and a graded opinion word. The rating of an
aspect is the mean of the grades of its opinions: a reader who finds the phrases knows the rating exactly, and
the phrases are the gold rationale. Within them, the opinion words and what negates or grades them carry the score:
who is given only these words knows the rating, too. Several properties make this a task:

- all aspects share the opinion words, so `gorgeous` alone does not show which rating it affects;
- negation reverses a grade and modifiers scale it, so the phrase has to be read as a whole;
- there are also opinions about the bar, the label and the price, in the same words, which affect no rating;
- aspects are also named without an opinion (`the label promises a lot about the nose`);
- a second opinion may refer back (`and it stays dull`), or share a sentence with an opinion on another aspect.

The file is long because it contains the words and templates of the grammar. It is one idea: a text and its truth.

All random choices use only `random.Random.random()`, whose sequence for a seed is guaranteed by Python, so the
same arguments give the same reviews on every machine.
"""

import gzip
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from rationale.data.corpus import Corpus, Request
from rationale.data.example import Example
from rationale.errors import BadInput, require_known

ASPECTS = ("look", "smell", "palate", "taste", "overall")  # the columns of the beer files, in their order
MENTIONED = (1.0, 1.0, 0.15, 1.0, 0.1)  # share of reviews that mention the aspect
SECOND_OPINION = 0.5  # share of mentioned aspects with two opinions
REFERS_BACK = 0.55  # share of second opinions that refer back (`it`)
JOINED = 0.35  # share of clauses that are joined to the next in one sentence
OTHERS = (0.4, 0.1)  # probabilities of a first and a second opinion on another thing
PLAINS = (0.35, 0.05)  # probabilities of a first and a second clause without an opinion
GRADE_NOISE = 0.06  # largest difference between the wanted grade and the judgement

# Opinion words by grade. All aspects (and everything else in the bar) use all of them.
GRADES = {
    0.1: "awful horrible terrible disgusting ugly",
    0.3: "bad poor dull weak disappointing",
    0.5: "average ordinary plain okay acceptable",
    0.7: "good nice pleasant solid decent",
    0.9: "gorgeous superb wonderful fantastic brilliant",
}


@dataclass(frozen=True)
class Usage:
    """A way to use an opinion word: grade = 1/2 + factor (grade of the word - 1/2)."""

    share: float
    factor: float
    grades: tuple[float, ...]  # grades of the words that it is used with
    after_verb: tuple[str, ...]
    before_noun: tuple[str, ...]


MILD = (0.3, 0.7)
USAGES = {
    "bare": Usage(0.50, 1.0, tuple(GRADES), ("",), ("",)),
    "stronger": Usage(0.16, 1.3, MILD, ("very", "really", "so", "truly"), ("very", "really", "truly")),
    "weaker": Usage(
        0.14,
        0.6,
        MILD,
        ("fairly", "rather", "somewhat", "quite", "kind of"),
        ("fairly", "rather", "somewhat", "quite"),
    ),
    "negated": Usage(
        0.20,
        -0.6,
        (0.1, 0.3, 0.7, 0.9),
        tuple("not|n't|n't exactly|n't really|not exactly|not at all|hardly|far from|anything but".split("|")),
        ("not so", "hardly", "far from", "less than"),
    ),
}
ASPECT_WORDS = {
    "look": "look appearance colour head foam",
    "smell": "smell nose aroma scent bouquet",
    "palate": "palate body mouthfeel texture carbonation",
    "taste": "taste flavour finish aftertaste bitterness",
    "overall": "beer brew pint ale drink",
}

# [ ... ] is the gold rationale, {aspect} a word for the aspect, {op} an opinion after a verb, {adj} an opinion
# before a noun. `{op}` directly after `is` or `was` may be `n't ...`.
SHARED_CLAUSES = (
    "[ the {aspect} is {op} ]",
    "[ the {aspect} was {op} ]",
    "[ i find the {aspect} {op} ]",
    "[ to me the {aspect} seems {op} ]",
    "[ the {aspect} turned out {op} ]",
    "[ {aspect} is {op} ]",
    "[ {aspect} : {op} ]",
    "[ expect a {adj} {aspect} ]",
    "[ there is a {adj} {aspect} ]",
    "[ i would call the {aspect} {op} ]",
)
ASPECT_CLAUSES = {
    "look": (
        "pours {colour} with [ a {adj} {aspect} ]",
        "{colour} in the glass , and [ the {aspect} is {op} ]",
        "held against the lamp [ the {aspect} is {op} ]",
        "a finger of {colour} froth , [ a {adj} {aspect} ]",
        "before the first sip [ one sees a {adj} {aspect} ]",
    ),
    "smell": (
        "{note} and {note} , [ a {adj} {aspect} ]",
        "i sniff {note} , then {note} , and [ the {aspect} is {op} ]",
        "swirling brings up {note} and [ a {adj} {aspect} ]",
        "with {note} rising from the glass [ the {aspect} was {op} ]",
        "leaning in , [ i notice a {adj} {aspect} ]",
    ),
    "palate": (
        "on the tongue [ the {aspect} is {op} ]",
        "{bubbles} bubbles give [ a {adj} {aspect} ]",
        "rolled around the mouth , [ the {aspect} was {op} ]",
        "after a big gulp [ the {aspect} seems {op} ]",
    ),
    "taste": (
        "{note} up front , {note} later , and [ the {aspect} is {op} ]",
        "a sip of {note} , then [ a {adj} {aspect} ]",
        "swallowing leaves {note} and [ a {adj} {aspect} ]",
        "with {note} in every mouthful [ the {aspect} was {op} ]",
        "as it warms , [ the {aspect} turns {op} ]",
    ),
    "overall": (
        "all in all [ a {adj} {aspect} ]",
        "in the end this [ {aspect} is {op} ]",
        "taken together , [ a {adj} {aspect} ]",
        "to sum up , [ the {aspect} is {op} ]",
    ),
}
BACK_REFERENCES = (
    ", and [ it stays {op} to the end ]",
    ", and [ later it is {op} ]",
    "; after {minutes} minutes [ it was {op} ]",
    ", [ even {op} ] when compared with {brewery}",
    ", [ or rather {op} ]",
    "[ and {op} too ]",
)

# Opinions about other things, in the same words and forms. They affect no rating.
OTHER_THINGS = (
    "bar label waiter price music room service garden menu terrace bartender cap company view weather "
    "website shop cellar logo queue carpet jukebox neighbourhood staircase landlord playlist mural poster"
).split()
OTHER_CLAUSES = (
    "the {thing} is {op}",
    "the {thing} was {op}",
    "i find the {thing} {op}",
    "there is a {adj} {thing}",
    "the {thing} is {op} , or rather {op}",
    "the {thing} was {op} , and later it is {op}",
    "they have a {adj} {thing}",
    "to me the {thing} seems {op}",
    "the {thing} is {op} , which says nothing about the {any_aspect}",
    "a {adj} {thing} does not change the {any_aspect}",
    "my {friend} called the {thing} {op}",
)

# Clauses without an opinion; some name an aspect.
PLAIN_CLAUSES = (
    "i had it {day} at {place} with my {friend}",
    "{serving} at {place} , {temperature}",
    "my {friend} brought {number} bottles back from {town}",
    "bottled in {month} by {brewery} and opened in {month}",
    "we shared it over {food} with my {friend}",
    "poured from a {number} ounce can into a {glass}",
    "{brewery} of {town} makes it once a year , usually in {month}",
    "this was number {number} of the evening",
    "i drank it slowly while reading about {town}",
    "served in a {glass} next to {food}",
    "the label lists {note} , {note} and {note}",
    "it sat in my fridge since {month}",
    "a {friend} of mine works for {brewery}",
    "it reminds me of {brewery} , who use {hop} hops as well",
    "brewed with {hop} and {hop} according to the back of the can",
    "i paid {number} dollars for it in {town}",
    "the label promises a lot about the {any_aspect}",
    "i waited {minutes} minutes before judging the {any_aspect}",
    "my {friend} asked me about the {any_aspect} and the {any_aspect}",
    "i took notes on the {any_aspect} first",
    "{brewery} has changed the {any_aspect} since {month}",
)
CONNECTIVES = (", but", ", while", ", and", ", yet", "; then again ,", ", though", ", whereas")
SENTENCE_ENDINGS = (".", ".", ".", ".", ".", "!", "...")
SLOTS = {
    "colour": (
        "amber|golden|copper|hazy straw|deep brown|pitch black|ruby|pale yellow|"
        "mahogany|orange|tawny|chestnut|burnt umber|honey|garnet|cloudy peach"
    ),
    "note": (
        "caramel|citrus|pine|coffee|chocolate|toast|banana|clove|grapefruit|mango|vanilla|"
        "oak|raisin|plum|coriander|bread crust|biscuit|toffee|molasses|licorice|apricot|"
        "melon|lemon peel|grass|hay|smoke|leather|cherry|hazelnut|almond|pepper|ginger|"
        "bubblegum|apple skin|pear|tobacco|rye|earth|resin|papaya|fig|dates|marzipan|"
        "juniper|lavender|cardamom|maple|walnut|elderflower|gooseberry"
    ),
    "bubbles": "tiny|prickly|lively|lazy|large|soft|busy",
    "minutes": "two|five|ten|twenty|thirty|forty",
    "number": "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen|twenty-two",
    "day": (
        "last night|on friday|on sunday|yesterday|on monday|last weekend|on thursday|"
        "this afternoon|on tuesday|after work|on christmas eve|at lunch"
    ),
    "place": (
        "the harbour inn|a beer festival|the corner pub|my sister 's wedding|"
        "the old mill|a rooftop party|the airport lounge|the brewpub|a barbecue|"
        "the station cafe|a tasting|the ballpark|the red lantern|a campsite|"
        "the bowling alley"
    ),
    "friend": (
        "friend|brother|neighbour|uncle|colleague|cousin|roommate|wife|husband|boss|"
        "aunt|flatmate|dentist|guitar teacher"
    ),
    "town": (
        "portland|ghent|bamberg|denver|leeds|antwerp|munich|vermont|chicago|prague|"
        "bristol|copenhagen|montreal|dublin|tallinn|ljubljana"
    ),
    "month": ("january|february|march|april|may|june|july|august|september|october|november|december"),
    "brewery": (
        "stone bridge|blue heron|north gate|old tower|three rivers|iron kettle|"
        "fox hollow|saint alban|quarry lane|black anchor|windmill hill|copper owl|"
        "lost ferry"
    ),
    "food": (
        "pizza|oysters|a cheese board|fried chicken|tacos|roast pork|salted peanuts|"
        "a bowl of chili|pretzels|ramen|bratwurst|mussels|onion rings|sushi"
    ),
    "glass": "tulip|snifter|goblet|tumbler|stein|flute|chalice|mason jar|shaker|thistle",
    "hop": "cascade|saaz|citra|fuggle|simcoe|mosaic|hallertau|tettnang|amarillo|galaxy|magnum",
    "serving": "on tap|from a growler|on cask|from the bottle|straight from the tank",
    "temperature": ("slightly chilled|at room temperature|ice cold|at cellar temperature|out of a bucket"),
}


@dataclass(frozen=True)
class Review:
    """One generated review, with its ratings and gold rationales.

    Attributes
    ----------
    tokens : lower-case tokens
    scores : five ratings in [0, 1], in the order of `ASPECTS`
        The mean grade of the aspect's opinions. If the aspect is not mentioned, the judgement that the reviewer
        did not express, which cannot be read from the text (unless the aspects are correlated).
    ranges : for each aspect, the gold rationale as token ranges [start, end); empty if it is not mentioned
    opinions : for each token, whether it belongs to an opinion: an opinion word, or a word that negates or grades it
        Also opinions about other things and about other aspects.
    """

    tokens: tuple[str, ...]
    scores: tuple[float, ...]
    ranges: tuple[tuple[tuple[int, int], ...], ...]
    opinions: tuple[bool, ...]

    def rationale(self, aspect: str) -> tuple[bool, ...]:
        """Gold rationale of an aspect, one flag per token."""
        ranges = self.ranges[_column(aspect)]
        return tuple(any(start <= t < end for start, end in ranges) for t in range(len(self.tokens)))

    def informative(self, aspect: str) -> tuple[bool, ...]:
        """The words that carry the score of an aspect, one flag per token: the opinions in its gold rationale.

        They determine the score. The other gold words only show whose opinion it is, or hold the phrase together. But
        not each of them is needed: of two opinions on an aspect, both come from one judgement, so the first leaves
        about 1 % of the variance of the score, and of `not at all` or `far from` one word is enough. A selection that
        predicts well may thus miss a third of these words, or more.
        """
        return tuple(gold and opinion for gold, opinion in zip(self.rationale(aspect), self.opinions, strict=True))

    def example(self, aspect: str) -> Example:
        """The review as an example for one aspect, with the score and both gold rationales of this aspect."""
        label = (self.scores[_column(aspect)],)
        return Example(self.tokens, label, self.rationale(aspect), informative=self.informative(aspect))


def read_synthetic(
    num_train: int = 2000,
    num_dev: int = 400,
    num_test: int = 400,
    aspect: str = "look",
    correlation: float = 0.0,
    seed: int = 0,
) -> dict[str, list[Example]]:
    """The synthetic corpus as examples for one aspect.

    Parameters
    ----------
    num_train, num_dev, num_test : counts >= 0
        Each split has its own random stream: more training reviews leave dev and test as they are.
    aspect : one of `ASPECTS`
        The same seed with another aspect gives the same reviews with other scores and rationales. `look`, `smell`
        and `taste` are mentioned in every review, `palate` in 15 % and `overall` in 10 %; elsewhere their
        score cannot be read from the text.
    correlation : in [0, 1]
        Correlation (of the normal scores) between the reviewer's judgements of any two aspects. 0: independent.
    seed : int

    Returns
    -------
    `{"train": [...], "dev": [...], "test": [...]}`
        Examples with `label = (score,)`, score in [0, 1], the gold `rationale` and its `informative` words.

    Raises
    ------
    BadInput
        If a count is negative, the aspect unknown or the correlation outside [0, 1].
    """
    _column(aspect)
    sizes = {"train": num_train, "dev": num_dev, "test": num_test}
    return {
        split: [review.example(aspect) for review in reviews(num, split, correlation, seed)]
        for split, num in sizes.items()
    }


def reviews(num: int, split: str = "train", correlation: float = 0.0, seed: int = 0) -> Iterator[Review]:
    """The first `num` reviews of a random stream, which `split` and `seed` determine; all streams differ.

    Raises
    ------
    BadInput
        If `num` is negative or `correlation` outside [0, 1].
    """
    if num < 0:
        raise BadInput(f"number of {split} reviews: {num} is negative; accepted: 0 or more")
    if not 0.0 <= correlation <= 1.0:
        raise BadInput(f"correlation: {correlation} is outside [0, 1]")
    rng = random.Random(f"rationale.synthetic {seed} {split}")
    return (_review(rng, correlation) for _ in range(num))


def write_beer_format(
    folder: Path | str,
    num_train: int = 2000,
    num_heldout: int = 400,
    num_annotated: int = 400,
    correlation: float = 0.0,
    seed: int = 0,
) -> Path:
    """Write reviews into `folder` in the format of the beer review files.

    `reviews.aspect<N>.{train,heldout}.txt.gz` for the five columns N (different reviews for each)
    and `reviews.260k.{train,heldout}.txt.gz` for all columns (the official name, for any number of reviews): five
    scores, a tab, the tokens, separated by spaces.
    `annotations.json`: one JSON object per line, `x` the tokens, `y` the five scores, and under "0" ... "4" the
    gold rationale of each aspect as `[start, end)` token ranges (an empty list if the aspect is not mentioned).
    The same arguments write the same bytes.

    Returns
    -------
    The folder.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in [f"aspect{column}" for column in range(len(ASPECTS))] + ["260k"]:
        for split, num in (("train", num_train), ("heldout", num_heldout)):
            lines = []
            for review in reviews(num, f"{name} {split}", correlation, seed):
                scores = " ".join(f"{score:.4f}" for score in review.scores)
                lines.append(f"{scores}\t{' '.join(review.tokens)}\n")
            packed = folder / f"reviews.{name}.{split}.txt.gz"
            with open(packed, "wb") as raw, gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file:
                file.write("".join(lines).encode())
    with open(folder / "annotations.json", "w", encoding="utf-8", newline="\n") as file:
        for review in reviews(num_annotated, "annotated", correlation, seed):
            record = {"x": review.tokens, "y": review.scores}
            record |= {str(column): ranges for column, ranges in enumerate(review.ranges)}
            file.write(json.dumps(record) + "\n")
    return folder


# Generation. A clause is a list of (token, column of the aspect whose rationale it belongs to, or -1, and whether it
# belongs to an opinion).
def _review(rng: random.Random, correlation: float) -> Review:
    judgements = _judgements(rng, correlation)
    scores, clauses = list(judgements), []
    for column, aspect in enumerate(ASPECTS):
        if rng.random() < MENTIONED[column]:
            scores[column], of_aspect = _aspect_clauses(rng, aspect, judgements[column])
            clauses += of_aspect
    for templates, shares in ((OTHER_CLAUSES, OTHERS), (PLAIN_CLAUSES, PLAINS)):
        clauses += [_other_clause(rng, templates) for share in shares if rng.random() < share]
    tokens, owners, of_opinion = _joined(rng, clauses)
    ranges = tuple(_ranges(owners, column) for column in range(len(ASPECTS)))
    return Review(tuple(tokens), tuple(round(score, 4) for score in scores), ranges, tuple(of_opinion))


def _judgements(rng: random.Random, correlation: float) -> list[float]:
    """The reviewer's judgement of each aspect: uniform on (0, 1), with the given correlation of the normal scores."""
    normal = NormalDist()
    common, *own = (normal.inv_cdf(max(rng.random(), 1e-12)) for _ in range(1 + len(ASPECTS)))
    return [normal.cdf(math.sqrt(correlation) * common + math.sqrt(1 - correlation) * each) for each in own]


def _aspect_clauses(rng: random.Random, aspect: str, judgement: float) -> tuple[float, list[list]]:
    """One or two opinions on an aspect: their mean grade, and the clauses (a back reference extends one)."""
    templates = ASPECT_CLAUSES[aspect] if rng.random() < 0.5 else SHARED_CLAUSES
    grade, first = _expand(rng, _pick(rng, templates), aspect, judgement)
    if rng.random() >= SECOND_OPINION:
        return grade, [first]
    if rng.random() < REFERS_BACK:
        second_grade, more = _expand(rng, _pick(rng, BACK_REFERENCES), aspect, judgement)
        return (grade + second_grade) / 2, [first + more]
    second_grade, second = _expand(rng, _pick(rng, SHARED_CLAUSES), aspect, judgement)
    return (grade + second_grade) / 2, [first, second]


def _other_clause(rng: random.Random, templates: tuple) -> list:
    return _expand(rng, _pick(rng, templates), None, rng.random())[1]


def _expand(rng: random.Random, template: str, aspect: str | None, judgement: float) -> tuple[float, list]:
    """Fill a template; returns the grade of its opinion (the last if there are several) and the clause."""
    clause: list[tuple[str, int, bool]] = []
    grade, column, owner = 0.5, -1 if aspect is None else ASPECTS.index(aspect), -1
    for symbol in template.split():
        if symbol == "[":
            owner = column
        elif symbol == "]":
            owner = -1
        elif symbol in ("{op}", "{adj}"):
            contractible = bool(clause) and clause[-1][0] in ("is", "was")
            grade, words = _opinion(rng, judgement, before_noun=symbol == "{adj}", contractible=contractible)
            clause += [(word, owner, True) for word in words]
        else:
            words = _words(rng, symbol, aspect)
            while symbol.startswith("{") and (words[-1], owner, False) in clause:  # no `plum and plum`
                words = _words(rng, symbol, aspect)
            clause += [(word, owner, False) for word in words]
    return grade, clause


def _words(rng: random.Random, symbol: str, aspect: str | None) -> list[str]:
    if not symbol.startswith("{"):
        return [symbol]
    slot = symbol[1:-1]
    if slot == "aspect" and aspect is not None:
        return [_pick(rng, _ASPECT_WORDS[aspect])]
    if slot == "any_aspect":
        return [_pick(rng, _ASPECT_WORDS[_pick(rng, ASPECTS)])]
    if slot == "thing":
        return [_pick(rng, OTHER_THINGS)]
    return _pick(rng, _SLOTS[slot])


def _opinion(rng: random.Random, judgement: float, before_noun: bool, contractible: bool) -> tuple[float, list[str]]:
    """An opinion phrase whose grade is near the judgement, and that grade.

        grade = 1/2 + factor (grade of the word - 1/2),   factor 1, 1.3 stronger, 0.6 weaker, -0.6 negated

    The kind of phrase is drawn first; if its grades do not reach the judgement, a bare word is used instead.
    """
    wanted = judgement + GRADE_NOISE * (2 * rng.random() - 1)
    kind, draw = "bare", rng.random()
    for name, usage in USAGES.items():
        draw -= usage.share
        if draw < 0:
            kind = name
            break
    grade, level = min(_REACH[kind], key=lambda pair: abs(pair[0] - wanted))
    if abs(grade - wanted) > 0.12:
        kind = "bare"
        grade, level = min(_REACH[kind], key=lambda pair: abs(pair[0] - wanted))
    phrases = [
        phrase
        for phrase in (USAGES[kind].before_noun if before_noun else USAGES[kind].after_verb)
        if contractible or not phrase.startswith("n't")
    ]
    return grade, _pick(rng, phrases).split() + [_pick(rng, _OPINION_WORDS[level])]


def _joined(rng: random.Random, clauses: list[list]) -> tuple[list[str], list[int], list[bool]]:
    """Clauses in random order, some joined to one sentence; `a` becomes `an` before a vowel."""
    places = [rng.random() for _ in clauses]
    order = [clauses[i] for i in sorted(range(len(clauses)), key=places.__getitem__)]
    words: list[tuple[str, int, bool]] = []
    for i, clause in enumerate(order):
        words += clause
        goes_on = i + 1 < len(order) and rng.random() < JOINED
        words += [(word, -1, False) for word in _pick(rng, CONNECTIVES if goes_on else SENTENCE_ENDINGS).split()]
    tokens = [word for word, _, _ in words]
    for i, word in enumerate(tokens[:-1]):
        if word == "a" and tokens[i + 1][0] in "aeiou":
            tokens[i] = "an"
    return tokens, [owner for _, owner, _ in words], [opinion for _, _, opinion in words]


def _ranges(owners: list[int], column: int) -> tuple[tuple[int, int], ...]:
    """Maximal runs [start, end) of one owner."""
    ranges, start = [], None
    for t, owner in enumerate([*owners, None]):
        if owner == column and start is None:
            start = t
        elif owner != column and start is not None:
            ranges.append((start, t))
            start = None
    return tuple(ranges)


def _pick(rng: random.Random, items):
    return items[int(rng.random() * len(items))]


def _column(aspect: str) -> int:
    require_known("aspect", aspect, ASPECTS)
    return ASPECTS.index(aspect)


_OPINION_WORDS = {grade: words.split() for grade, words in GRADES.items()}
_ASPECT_WORDS = {aspect: words.split() for aspect, words in ASPECT_WORDS.items()}
_SLOTS = {slot: [phrase.split() for phrase in phrases.split("|")] for slot, phrases in SLOTS.items()}
_REACH = {
    kind: [(0.5 + usage.factor * (level - 0.5), level) for level in usage.grades] for kind, usage in USAGES.items()
}


def _read(asked: Request) -> dict[str, list[Example]]:
    sizes = {f"num_{name}": number for name, number in asked.limits.items()}
    return read_synthetic(**sizes, aspect=asked.aspect, correlation=asked.correlation)


CORPUS = Corpus(
    name="synthetic",
    what="beer reviews from a small grammar, with the words that express each score",
    read={"extraction": _read},
    aspects=ASPECTS,
    made_up={"train": 5000, "dev": 500, "test": 500},
)
