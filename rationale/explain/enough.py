"""Words that are enough, or needed, for the answer of a classifier of which we see nothing but its answers.

A set S of words is *enough* if the classifier gives the same label to these words alone, with nearly the same
probability:

    argmax_c p(c | S) = y    and    p(y | S) >= p(y | text) - epsilon,    y = argmax_c p(c | text)

We look for a small such set by elimination. If the empty set is enough, there is nothing to look for. Otherwise all
words are in the set at first. Then we leave out the words that matter least, many at a time where this succeeds, until
none of the remaining ones can be left out alone. So the set is always enough, and it is irreducible, but another one
may have fewer words. For a text of n words, the classifier answers about 2 n questions if few words matter, and at
worst, where words can only be left out one at a time, about n^2 / 2.

A set S of words is *needed* if the classifier gives another label to the words outside of it, by some margin:

    max_{c != y} p(c | text without S) >= p(y | text without S) + epsilon

We look for a small such set by adding words, those first whose absence alone does the most harm, until the label is
another one. If this fails, we add in each step the word that does the most harm beside those that are already out. In
the end we put back the words that are needless, as above, so no word of the set can be put back alone. There may be no
such set, as for many texts whose label the classifier gives to an empty text, too, and the search may miss one.

Sources: sufficient input subsets (Carter, Mueller, Jain and Gifford 2019), which leave out one word at a time; evidence
counterfactuals (Martens and Provost 2014), which add words as we do. Like erasure, a search has the hindsight of
eq. (D2), notebooks/41_diffmask.py.
"""

from collections.abc import Callable, Generator, Sequence

Words = tuple[int, ...]  # the positions of the words of a set, in order
Search = Generator[list[Words], list[float], Words | None]  # asks about sets, is sent their slack, returns a set

MOST_UNITS = 64  # parts of a text from which words are left out at first, see `eliminate`
MOST_ADDED = 16  # parts that `accumulate` adds one at a time


def eliminate(num_words: int, most_units: int = MOST_UNITS) -> Search:
    """Search for a small set of words that is enough.

    A long text is first divided into at most `most_units` parts of equal length, and parts are left out as words are.
    Each part that remains is halved, until parts are single words. So if few words matter, a text of 1,000 words costs
    hardly more questions than one of 64.

    Parameters
    ----------
    num_words : int >= 0
    most_units : int >= 1

    Yields
    ------
    list of tuples
        Sets of positions, in [0, num_words). What is sent back is the slack of each: p(y | S) - p(y | text) + epsilon,
        or a negative number if the label is another one. A set is enough if its slack is at least 0.

    Returns
    -------
    tuple
        A set that is enough and of which no word can be left out; the set of all words counts as enough.
    """
    (without_words,) = yield [()]
    if without_words >= 0:
        return ()
    return (yield from _refined(_parts(num_words, most_units)))


def accumulate(num_words: int, most_units: int = MOST_UNITS) -> Search:
    """Search for a small set of words that is needed.

    Parameters
    ----------
    num_words : int >= 0
    most_units : int >= 1
        The parts of a long text, see `eliminate`.

    Yields
    ------
    list of tuples
        Sets of positions, in [0, num_words), that are left out. What is sent back is the slack of each:
        max_{c != y} p(c | the other words) - p(y | the other words) - epsilon, or a negative number if the label is
        still y. A set is needed if its slack is at least 0.

    Returns
    -------
    tuple or None
        A set that is needed and of which no word can be put back; None if none was found.
    """
    parts = _parts(num_words, most_units)
    alone = yield parts
    worst_first = sorted(range(len(parts)), key=lambda i: -alone[i])
    prefixes = [worst_first[:k] for k in range(1, len(parts) + 1)]
    together = yield [_joined([parts[i] for i in sorted(prefix)]) for prefix in prefixes]
    found = next((prefix for prefix, slack in zip(prefixes, together, strict=True) if slack >= 0), None)
    if found is None:
        found = yield from _added_one_by_one(parts)
    if found is None:
        return None
    return (yield from _refined([parts[i] for i in sorted(found)]))


def _added_one_by_one(parts: list[Words]) -> Generator[list[Words], list[float], list[int] | None]:
    """Add in each step the part that does the most harm beside those that have been added, until they are needed."""
    added: list[int] = []
    while len(added) < min(MOST_ADDED, len(parts)):
        others = [i for i in range(len(parts)) if i not in added]
        slack = yield [_joined([parts[j] for j in sorted([*added, i])]) for i in others]
        worst = max(range(len(others)), key=slack.__getitem__)
        added.append(others[worst])
        if slack[worst] >= 0:
            return added
    return None


def _parts(num_words: int, most_units: int) -> list[Words]:
    size = max(1, -(-num_words // most_units))
    return [tuple(range(start, min(start + size, num_words))) for start in range(0, num_words, size)]


def _refined(units: list[Words]) -> Generator[list[Words], list[float], Words]:
    """Leave needless parts out of a set that is enough, or needed, down to single words."""
    units = yield from _without_needless(units)
    while any(len(unit) > 1 for unit in units):
        halves = [half for unit in units for half in (unit[: len(unit) // 2], unit[len(unit) // 2 :]) if half]
        units = yield from _without_needless(halves)
    return _joined(units)


def _without_needless(units: list[Words]) -> Generator[list[Words], list[float], list[Words]]:
    """Leave out parts, those first that matter least, until none can be left out alone."""
    while units:
        slack = yield [_joined(units, {i}) for i in range(len(units))]
        needless = sorted((i for i in range(len(units)) if slack[i] >= 0), key=lambda i: -slack[i])
        if not needless:
            return units
        number = len(needless)
        while number > 1:  # each alone can be left out, and now so many of them together
            (together,) = yield [_joined(units, set(needless[:number]))]
            if together >= 0:
                break
            number //= 2
        units = [unit for i, unit in enumerate(units) if i not in needless[:number]]
    return units


def _joined(units: list[Words], without: set[int] | frozenset[int] = frozenset()) -> Words:
    return tuple(word for i, unit in enumerate(units) if i not in without for word in unit)


def side_by_side(
    searches: Sequence[Search], ask: Callable[[list[tuple[int, Words]]], list[float]]
) -> list[Words | None]:
    """What several searches find, if each call of `ask` has the questions of all of them.

    Parameters
    ----------
    searches : sequence of generators
    ask : function
        Given questions (number of the search, set of words), it returns the slack of each.
    """
    found: list[Words | None] = [()] * len(searches)
    answers: dict[int, list[float] | None] = dict.fromkeys(range(len(searches)))
    while answers:
        questions: list[tuple[int, Words]] = []
        counts: dict[int, int] = {}
        for number, sent in answers.items():
            try:
                sets = next(searches[number]) if sent is None else searches[number].send(sent)
            except StopIteration as end:
                found[number] = end.value
                continue
            counts[number] = len(sets)
            questions += [(number, words) for words in sets]
        slack = iter(ask(questions) if questions else ())
        answers = {number: [next(slack) for _ in range(count)] for number, count in counts.items()}
    return found
