"""One cell of a table as a text, as tokens, or as the words of it that people have marked."""

import json
import re
from collections.abc import Callable, Sequence
from sys import intern
from typing import Any

from rationale.data.characters import token_spans
from rationale.data.spellings import HALF
from rationale.errors import excerpt

REMOVE = "remove the row, fill it in, or give skip_incomplete=true"
ACCEPTED_MARKS = "spans of characters, [[0, 12], [30, 41]], or a 0/1 list with one number per word, 0 0 1 1"


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing: no value, NaN, a blank text or an empty list."""
    blank = isinstance(cell, str) and not cell.strip()
    return cell is None or cell != cell or blank or cell in ([], ())


def read_tokens(cell: Any, column: str, split: Callable[[str], list[str]]) -> tuple[str, ...]:
    """The tokens of a cell: a text, which `split` divides, or a list of words.

    Raises
    ------
    ValueError
        The cell holds no word, or something else.
    """
    if isinstance(cell, list | tuple) and all(isinstance(word, str) for word in cell):
        tokens = [word for word in cell if word.strip()]
        if len(tokens) != len(cell) or not tokens:
            raise ValueError(f"an empty {'word' if cell else 'list of words'} in column {excerpt(column)}")
    elif isinstance(cell, str):
        tokens = split(cell)
        if not tokens:
            raise ValueError(f"an empty text in column {excerpt(column)}; {REMOVE}")
    elif is_missing(cell):
        raise ValueError(f"no text in column {excerpt(column)}; {REMOVE}")
    else:
        what = f"{excerpt(cell)}, which is no text,"
        raise ValueError(f"{what} in column {excerpt(column)}; accepted: a text, or a list of words")
    if any("\0" in token for token in tokens):
        raise ValueError(f"a NUL character in column {excerpt(column)}; accepted: text in UTF-8")
    for token in tokens:
        require_whole(token, column)
    return tuple(map(intern, tokens))


def require_whole(text: str, column: str) -> None:
    """Refuse half a character, which JSON can escape (`\\ud83d` alone) and which no file in UTF-8 can hold."""
    if not text.isascii() and HALF.search(text):
        raise ValueError(f"half a character in column {excerpt(column)}; accepted: text in UTF-8")


def read_marks(cell: Any, text: Any, tokens: Sequence[str]) -> tuple[bool, ...] | None:
    """The gold rationale that a cell gives: a flag for each token. None for an empty cell: nobody marked this text.

    Parameters
    ----------
    cell : str, list or None
        Spans [start, end) of characters (of words, if the text is a list of words) or a list of 0 and 1: one for each
        word between spaces, or one for each token. Text is read as JSON; a 0/1 list may also have spaces or commas.
    text : str, or list of str
    tokens : [T] str

    Raises
    ------
    ValueError
        The cell is neither, or does not fit the text.
    """
    if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
        return None
    values = _parsed(cell) if isinstance(cell, str) else cell
    if not isinstance(values, list | tuple):
        raise ValueError(f"the rationale {excerpt(cell)} is not understood; accepted: {ACCEPTED_MARKS}")
    if all(type(value) in (int, float, bool) and value in (0, 1) for value in values):
        return _flags([bool(value) for value in values], text, tokens) if values else (False,) * len(tokens)
    return _spanned([_span(value, cell) for value in values], text, tokens)


def cut_word(cell: Any, text: Any, tokens: Sequence[str]) -> str:
    """The first word of a text that a span of its rationale cuts in two, or "" if there is none.

    Such spans often count something else than the characters of this text: words, bytes, or characters from 1.

    Parameters
    ----------
    cell, text, tokens
        As for `read_marks`, which accepts them.
    """
    values = _parsed(cell) if isinstance(cell, str) else cell
    if not isinstance(text, str) or not values or not isinstance(values[0], list | tuple | dict):
        return ""
    ends = {end for value in values for end in _span(value, cell) if text[max(end - 1, 0) : end + 1].isalnum()}
    inside = (text[a:b] for a, b in token_spans(text, tokens) if any(a < end < b for end in ends))
    return next(inside, "")


def _parsed(cell: str) -> Any:
    if re.fullmatch(r"\s*[01]([\s,;]+[01])*\s*", cell):
        return [int(sign) for sign in re.findall("[01]", cell)]
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return None


def _span(value: Any, cell: Any) -> tuple[int, int]:
    ends: Any = [value.get("start"), value.get("end")] if isinstance(value, dict) else value
    if not (isinstance(ends, list | tuple) and len(ends) == 2 and all(type(end) is int for end in ends)):
        raise ValueError(f"the rationale {excerpt(cell)} is not understood; accepted: {ACCEPTED_MARKS}")
    return ends[0], ends[1]


def _flags(flags: list[bool], text: Any, tokens: Sequence[str]) -> tuple[bool, ...]:
    words = list(re.finditer(r"\S+", text)) if isinstance(text, str) else []
    if len(flags) == len(words) and len(words) != len(tokens):
        return _spanned([word.span() for word, flag in zip(words, flags, strict=True) if flag], text, tokens)
    if len(flags) != len(tokens):
        counts = f"{len(words)} words between spaces" if words else f"{len(tokens)} words"
        counts += f" ({len(tokens)} tokens)" if words and len(words) != len(tokens) else ""
        longer = "longer than its text: " if len(flags) > max(len(words), len(tokens)) else ""
        raise ValueError(f"the rationale is {longer}{len(flags)} marks for {counts}; accepted: one per word")
    return tuple(flags)


def _spanned(spans: list[tuple[int, int]], text: Any, tokens: Sequence[str]) -> tuple[bool, ...]:
    units = "characters" if isinstance(text, str) else "words"
    for start, end in spans:
        if start < 0:
            begins = f"the span [{start}, {end}] of the rationale begins before its text"
            raise ValueError(f"{begins}; accepted: 0 <= start < end")
        if start >= end:
            raise ValueError(f"the span [{start}, {end}] of the rationale is empty or backwards; accepted: start < end")
        if end > len(text):
            raise ValueError(
                f"the rationale is longer than its text: it ends at {end}, the text has {len(text)} {units}"
            )
    places = token_spans(text, tokens) if isinstance(text, str) else [(i, i + 1) for i in range(len(tokens))]
    return tuple(any(a < end and start < b for start, end in spans) for a, b in places)
