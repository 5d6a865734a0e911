"""The labels of a column: names of classes, or scores; told from the values, or as the setting `head` says."""

import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rationale.errors import BadInput, counted, cut, excerpt

FEWEST_OTHERS = 20  # scores from which one can be called far
MOST_FAR = 0.05  # of the scores that may be far from all others
SQUEEZED = 0.1  # of the scale: what far scores leave to all others
FEWEST_NUMBERED = 50  # texts, from which on whole scores that are all different may be numbers of rows
MOST_NUMBERS = 10  # a column with more different whole numbers than this holds scores
STAND_IN = re.compile(r"|nan|n/?a|null|none|-|\?", re.IGNORECASE)  # what people write where a cell is empty
INFINITE = re.compile(r"[-+]?inf(inity)?", re.IGNORECASE)

COMMA = re.compile(r"[-+]?\d+,\d+")  # a number as some countries write it, 0,5

Where = Callable[[int], str]  # number of a label -> the beginning of a message about its row


class Labels(NamedTuple):
    """The labels of all texts, in order."""

    values: list[int] | list[tuple[float]]
    names: list[str] | None  # of the classes; None: scores
    scale: tuple[float, float] | None  # the lowest and the highest score, which became 0 and 1
    note: str  # what the column was taken for, in one line
    far: str = ""  # what is said of scores that are far from all others


def spelled(cell: Any) -> str:
    """A label as text, the same in every kind of table: 4 for 4.0, and true for True, which is what pandas writes."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    text = "" if cell is None or cell != cell else str(cell).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    return text.partition(".")[0] if re.fullmatch(r"-?\d+\.0+", text) else text


def number_of(text: str) -> float | None:
    """The finite number that a text is; None if it is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def read_labels(cells: Sequence[str], column: str, head: str, where: Where) -> Labels:
    """Labels as classes, numbered in the order of their names, or as scores, scaled to [0, 1].

    `auto` means classes, unless there are more than two values, all of them numbers, and either one of them is not
    whole or there are more than `MOST_NUMBERS` different ones.

    Parameters
    ----------
    cells : N texts, `spelled`, none of them empty
    column : str
    head : "auto", "classes" or "scores"
    where : function
        Of a number in 0 .. N - 1.

    Raises
    ------
    BadInput
        A label is no number, occurs only once, or all labels are the same.
    """
    counts = Counter(cells)
    numbers = {text: number_of(text) for text in counts}
    bad = [text for text, number in numbers.items() if number is None]
    told = f"column {excerpt(column)}"
    with_commas = bool(bad) and all(COMMA.fullmatch(text) or numbers[text] is not None for text in counts)
    with_commas = with_commas and any(COMMA.fullmatch(text) for text in counts)
    mostly_numbers = len(bad) < len(counts) - len(bad) > MOST_NUMBERS
    if bad and (head == "scores" or (head == "auto" and (mostly_numbers or with_commas))):
        more = _more(sum(counts[text] for text in bad))
        if STAND_IN.fullmatch(bad[0]):
            wrong = "a missing score"
        else:
            wrong = "no finite number" if INFINITE.fullmatch(bad[0]) else "no number"
        others = "; accepted: a number"
        if with_commas:
            others += f" with a point, {bad[0].replace(',', '.')}"
        elif head != "scores":
            others += ", as in the other rows"
        others += ", or give head=classes" * (head != "scores")
        raise BadInput(f"{_place(cells, bad[0], where)}{excerpt(bad[0])} in {told} is {wrong}{more}{others}")
    whole = all(number is not None and number.is_integer() for number in numbers.values())
    as_scores = head == "scores" or (
        head == "auto" and not bad and len(counts) > 2 and (not whole or len(counts) > MOST_NUMBERS)
    )
    if len(set(numbers.values()) if as_scores else counts) < 2:
        raise BadInput(
            f"{where(0)}every text has the same label, {excerpt(cells[0])} in {told}; at least two are needed"
        )
    if as_scores:
        return _scores(cells, numbers, whole, told, where)
    return _classes(cells, counts, numbers, told, where)


def _scores(cells: Sequence[str], numbers: dict[str, Any], whole: bool, told: str, where: Where) -> Labels:
    low, high = min(numbers.values()), max(numbers.values())
    if not math.isfinite(high - low):
        apart = f"the scores in {told}, from {low:g} to {high:g}, are too far apart"
        raise BadInput(f"{where(0)}{apart}; accepted: a difference below 1.8e308")
    scaled = {text: ((number - low) / (high - low),) for text, number in numbers.items()}
    note = f"{told} holds scores, from {low:g} to {high:g} (give head=classes to read them as classes)"
    note += "; errors (mse) are those of scores that are scaled to [0, 1]"
    if whole and len(numbers) == len(cells) >= FEWEST_NUMBERED:
        note += "; no two are equal, as if they were numbers of rows: is this the column of the labels?"
    values = [numbers[text] for text in cells]
    return Labels([scaled[text] for text in cells], None, (low, high), note, _note_of_far(cells, values, told, where))


def far_scores(scores: Sequence[float]) -> list[int]:
    """Which scores are so far from all others that a typing error is likely; their numbers, in order.

    With d_i = |y_i - median|, the far scores are the k with the largest d, for the largest k of at most a twentieth of
    all scores at which three things hold:

        the scale     the others lie within a tenth of the range from the lowest to the highest score
        the gap       ln(1 + d / s) > 3 ln(1 + e / s)   d: the smallest of the far ones, e: the largest of the others,
                                                        s: the median of the d of the others that are not 0
        the number    for at least 20 of the others, d is not 0

    The gap is one of logarithms, so that the largest of skewed numbers, such as prices, is not far from the one before
    it. Of scores from 1 to 10, 99 is far, and 45 is not, as it leaves the others enough of the scale.

    Parameters
    ----------
    scores : N finite numbers

    Examples
    --------
    >>> far_scores([*range(30), 1e6]), far_scores([*range(30), 100])
    ([30], [])
    """
    median = sorted(scores)[len(scores) // 2]
    distances = sorted(abs(score - median) for score in scores)
    same = bisect_right(distances, 0.0)  # the number of scores that are the median
    for others in range(len(scores) - int(MOST_FAR * len(scores)), len(scores)):  # the number of them
        largest, far = distances[others - 1], distances[others]
        if others - same < FEWEST_OTHERS or far <= 3 * largest:  # then there is no such gap either
            continue
        typical = distances[(same + others) // 2]
        near = [score for score in scores if abs(score - median) <= largest]
        is_squeezed = max(near) - min(near) < SQUEEZED * (max(scores) - min(scores))
        if is_squeezed and math.log1p(far / typical) > 3 * math.log1p(largest / typical):
            return [i for i, score in enumerate(scores) if abs(score - median) > largest]
    return []


def _note_of_far(cells: Sequence[str], scores: Sequence[float], told: str, where: Where) -> str:
    """What is said of scores that are far from all others: on a scale with them, the others are nearly equal."""
    far = far_scores(scores)
    if not far:
        return ""
    others = set(scores) - {scores[i] for i in far}
    are = f"{counted(len(far), 'score')} in {told} {'are' if len(far) > 1 else 'is'} far from all others"
    first = f"{where(far[0]).removesuffix(': ')} has {excerpt(cells[far[0]])}"
    rest = f"the others are from {min(others):g} to {max(others):g}, which a model can then hardly tell apart"
    return f"{are}: {first}, and {rest}; correct or remove what is no score"


def _classes(cells: Sequence[str], counts: Counter[str], numbers: dict[str, Any], told: str, where: Where) -> Labels:
    are_numbers = all(number is not None for number in numbers.values())
    names = sorted(counts, key=lambda text: (numbers[text] is None, numbers[text] or 0.0, text))
    single = [name for name in names if counts[name] == 1]
    if single:
        others = {1: "", 2: ", and so does another one"}.get(len(single), f", and so do {len(single) - 1} other labels")
        many = "give head=scores" if are_numbers else "give label= the column whose values are the labels"
        advice = "correct it or remove the row" if len(single) < 10 else many
        raise BadInput(
            f"{_place(cells, single[0], where)}the label {excerpt(single[0])} in {told} occurs once{others}; {advice}"
        )
    shown = ", ".join(f"{cut(name, 30)} ({counts[name]:,})" for name in names[:12]) + ", ..." * (len(names) > 12)
    other = " (give head=scores to read them as scores)" * are_numbers
    note = f"{told} holds {len(names)} classes: {shown}{other}"
    alike = _first_alike(names, str.casefold)
    if alike is not None:
        note += f"; {' and '.join(map(excerpt, alike))} differ only in upper and lower case, and are different classes"
    equal = _first_alike([name for name in names if numbers[name] is not None], numbers.__getitem__)
    if equal is not None:
        note += f"; {' and '.join(map(excerpt, equal))} are the same number, and are different classes"
    for number, word in (("0", "false"), ("1", "true")):
        if {number, word} <= {name.casefold() for name in names}:
            note += f"; {number} and {word} may mean the same, and are different classes"
    empty = [name for name in names if STAND_IN.fullmatch(name)]
    if empty:
        are = "is a class" if len(empty) == 1 else "are classes"
        their = "its" if len(empty) == 1 else "their"
        note += f"; {' and '.join(map(excerpt, empty))} {are}; remove {their} rows if a label is missing there"
    index = {name: i for i, name in enumerate(names)}
    return Labels([index[text] for text in cells], names, None, note)


def _first_alike(names: Sequence[str], key: Callable[[str], Any]) -> list[str] | None:
    """The first two or more names of the same key; None if there are none."""
    groups: dict[Any, list[str]] = {}
    for name in names:
        groups.setdefault(key(name), []).append(name)
    return next((group for group in groups.values() if len(group) > 1), None)


def _place(cells: Sequence[str], text: str, where: Where) -> str:
    return where(next(i for i, cell in enumerate(cells) if cell == text))


def _more(count: int) -> str:
    return f" (and in {count - 1:,} more row{'s' * (count > 2)})" if count > 1 else ""
