"""Where tokens stand in the text that they were split from: spans of characters."""

from collections.abc import Sequence
from difflib import SequenceMatcher

from rationale.data.tokenise import plain_mark


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """For each token the characters [start, end) of the text that it was made of.

    Tokenisers split at spaces and between marks, write typographic marks as plain ones and may write in lower case, so
    without spaces text and tokens are the same characters. If a tokeniser has repaired a wrong decoding, they are not:
    then the longest common pieces are matched, and a token without a counterpart has an empty span.

    Examples
    --------
    >>> token_spans("It isn’t good.", ["it", "is", "n't", "good", "."])
    [(0, 2), (3, 5), (5, 8), (9, 13), (13, 14)]
    """
    signs, places = _signs(text)
    pieces = ["".join(_signs(token)[0]) for token in tokens]
    joined = "".join(pieces)
    if "".join(signs) == joined:
        place_of: list[int | None] = list(places)
    else:
        place_of = [None] * len(joined)
        matcher = SequenceMatcher(None, signs, list(joined), autojunk=False)
        for i, j, length in matcher.get_matching_blocks():
            place_of[j : j + length] = places[i : i + length]
    spans, start, last = [], 0, 0
    for piece in pieces:
        found = [place for place in place_of[start : start + len(piece)] if place is not None]
        spans.append((found[0], found[-1] + 1) if found else (last, last))
        start, last = start + len(piece), spans[-1][1]
    return spans


def _signs(text: str) -> tuple[list[str], list[int]]:
    """The characters of a text but for its spaces, as tokenisers write them in lower case, and their places."""
    if text.isascii():  # a character becomes one character, so the loop below would do the same, slowly
        places = [place for place, character in enumerate(text) if not character.isspace()]
        return [*"".join(text.lower().split())], places
    signs, places = [], []
    for place, character in enumerate(text):
        for sign in plain_mark(character).lower():
            if not sign.isspace():
                signs.append(sign)
                places.append(place)
    return signs, places


def merged(spans: Sequence[tuple[int, int]], chosen: Sequence[bool], text: str) -> list[tuple[int, int]]:
    """The spans of chosen tokens, with neighbours joined: [start, end) of each uninterrupted run of chosen tokens.

    Parameters
    ----------
    spans : [T] (start, end)
    chosen : [T] bool
    text : str
        Two chosen tokens are joined if only spaces stand between them.

    Examples
    --------
    >>> merged([(0, 2), (3, 5), (5, 8), (9, 13)], [False, True, True, True], "it isn't good")
    [(3, 13)]
    """
    runs: list[tuple[int, int]] = []
    for i, (start, end) in enumerate(spans):
        if not chosen[i] or start == end:
            continue
        if runs and i and chosen[i - 1] and not text[runs[-1][1] : start].strip():
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs
