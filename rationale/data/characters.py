"""Where tokens stand in the text that they were split from: spans of characters."""

from collections.abc import Iterable, Iterator, Sequence

from rationale.data.tokenise import plain_mark, repair, repaired_characters


def token_spans(text: str, tokens: Sequence[str]) -> list[tuple[int, int]]:
    """For each token the characters [start, end) of the text that it was made of.

    Tokenisers split at spaces and between marks, write typographic marks as plain ones, may write in lower case and may
    repair a wrong decoding (`tokenise.repair`). If all this is done to the text, too, then text and tokens are the same
    characters, but for spaces. A token that does not follow in the text has an empty span.

    Examples
    --------
    >>> token_spans("It isn’t good.", ["it", "is", "n't", "good", "."])
    [(0, 2), (3, 5), (5, 8), (9, 13), (13, 14)]
    """
    pieces = [_signs(token)[0] for token in tokens]
    joined = "".join(pieces)
    signs, places = usual = _signs(text)
    if signs != joined:
        signs, places = next((form for form in _other_forms(text) if form[0] == joined), usual)
    spans, start, last = [], 0, 0
    for piece in pieces:
        found = signs.find(piece, start) if piece else -1
        if found < 0:
            spans.append((last, last))
            continue
        start = found + len(piece)
        last = places[start - 1] + 1
        spans.append((places[found], last))
    return spans


def _other_forms(text: str) -> Iterator[tuple[str, list[int]]]:
    """The signs of a text and their places, for tokenisers that change more of it."""
    if "\x85" in text:  # dots for some, and a space for others
        yield _signs(text.replace("\x85", " "))
    if repair(text) != text:
        yield _placed_signs(repaired_characters(text))


def _signs(text: str) -> tuple[str, list[int]]:
    """The characters of a text but for its spaces, as tokenisers write them in lower case, and their places."""
    if text.isascii():  # a character becomes one character, so the loop below would do the same, slowly
        places = [place for place, character in enumerate(text) if not character.isspace()]
        return "".join(text.lower().split()), places
    return _placed_signs(enumerate(text))


def _placed_signs(placed: Iterable[tuple[int, str]]) -> tuple[str, list[int]]:
    signs, places = [], []
    for place, character in placed:
        for sign in plain_mark(character).lower().replace("ς", "σ"):  # which of the two depends on the word around it
            if not sign.isspace():
                signs.append(sign)
                places.append(place)
    return "".join(signs), places


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
