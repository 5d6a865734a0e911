"""From raw text to tokens, by the rules in `TOKENISERS`; every corpus names its tokeniser."""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import chain, islice
from unicodedata import category

BETWEEN = "|||"  # stands between the sentences of a pair
CLITIC = r"(?<=\w)(n't|'(?:s|re|ve|ll|d|m)\b)"
ALONE = r"(?<!\S)([.,;:!?]|--|\.\.\.|``|''|n't|'s|-[LR][RSC]B-)(?!\S)"
ATTACHED = rf"(?i:{CLITIC})|\w[,;:!?)\"]+(?!\S)|\b[a-z]{{4,}}\.(?!\S)|\w\.\s*$|(?<!\S)[(\"]\w"
# Characters that are shown as one: the two letters of a flag, or a symbol with its variants (a colour of skin, a form),
# which zero-width joiners may join to further ones.
_VARIANT = "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff]"
# A letter with what stands on or around it, which `\w` does not count: accents, the vowels of Hindi or Thai, and the
# joiners inside Persian words.
_MARKS = "".join(c for c in map(chr, range(0x300, 0x10000)) if category(c)[0] == "M" and not re.match(_VARIANT, c))
_WORD = rf"\w+(?:[{_MARKS}\u200c\u200d]+\w*)*"
_FLAG = "[\U0001f1e6-\U0001f1ff]"
SYMBOL = rf"{_FLAG}{{2}}|[^\w\s]{_VARIANT}*(?:\u200d[^\w\s]{_VARIANT}*)*"
TOKEN = rf"""(?ix)
      -[LR][RSC]B- | \.\.+ | --+ | `` | ''                  # marks of several characters
    | n't | 'n' | '(?:s|re|ve|ll|d|m|em|til|\d\ds?)\b               # clitics and clipped words
    | \b(?:Mr|Mrs|Ms|Dr|Jr|Sr|St|Prof|Bros|vs|etc)\.               # abbreviations
    | (?:\b\w\.){{2,}} | \b[A-HJ-Z]\.(?=\s+\S)                    # initials
    | {_WORD}(?:(?:[-'./&]|(?<=\d),(?=\d)){_WORD})* | {SYMBOL}             # words and numbers, single marks
"""


def tokenise(text: str) -> list[str]:
    """Separate words and punctuation marks, with clitics as in the Penn Treebank: "isn't" -> "is", "n't".

    Text that is already tokenised is returned unchanged; it is recognised by a mark or a clitic that stands alone,
    with none attached to a word. A no-break space divides no word there, and one that stands alone is none. Initials
    and a few abbreviations keep their full stop (`U.S.`, `Mr.`).
    """
    if BETWEEN in text:
        return split_text(text, "treebank")
    text = text.replace("\u2019", "'")
    if re.search(ALONE, text) and not re.search(ATTACHED, text):
        return [word for word in re.findall(r"[^ \t\r\n]+", text) if not word.isspace()]
    return re.findall(TOKEN, re.sub(f"(?i){CLITIC}", r" \1", text))


# Clitics are separate tokens, as in the treebank and in the word vectors: do|n't, it|'s.
_CLITIC = r"n't\b|'(?:s|m|d|re|ve|ll)\b"
_TOKEN = re.compile(
    rf"{_CLITIC}"
    rf"|{_WORD}(?:(?:-|(?<=\d)[.,:/](?=\d)){_WORD})*"  # words and numbers: well-made, 1,000, 9/10
    r"|\.\.\.|--|[^\w\s]"  # marks
)
_ATTACHED = re.compile(rf"(?<=\w)({_CLITIC})")
_HANZI = re.compile("[\u4e00-\u9fff]")
_OF_GBK = str.maketrans(  # characters for private use, by which GBK has bytes that have a meaning in GB 18030
    "\ue76c\ue7c7\ue7c8" + "".join(map(chr, range(0xE7E7, 0xE7F4))), "€ḿǹ〾⿰⿱⿲⿳⿴⿵⿶⿷⿸⿹⿺⿻"
)
_LOST = re.compile(  # a character of UTF-8 with a `?` in place of its last byte
    "[\udcc2-\udcdf]\\?|[\udce0-\udcef][\udc80-\udcbf]\\?|[\udcf0-\udcf4][\udc80-\udcbf]{2}\\?"
)
_NO_UTF_8 = re.compile("[\udc80-\udcff]")
_LETTER = re.compile("[A-Za-z]")
_LONG = re.compile("[\u0800-\U0010ffff]")  # characters of three or four bytes
_PLAIN = {  # typographic marks, including those of Windows code pages that were read as control characters
    **dict.fromkeys("’‘´\x91\x92", "'"),
    **dict.fromkeys("“”\x93\x94", '"'),
    **dict.fromkeys("–\x96", "-"),
    **dict.fromkeys("—\x97", "--"),
    **dict.fromkeys("…\x85", "..."),
}
_TYPOGRAPHIC = re.compile(f"[{''.join(_PLAIN)}]")


def split_words(text: str, limit: int | None = None) -> list[str]:
    """Lower-case tokens: words, numbers and marks are separate, with clitics as in the Penn Treebank.

        "The room wasn't 1,000% clean.But well-kept!!" ->
        the room was n't 1,000 % clean . but well-kept ! !

    Hyphens join words, and `. , : /` join digits; a full stop ends a word even where no space follows.
    Typographic quotes and dashes become plain ones, and a wrong decoding is undone (`repair`).

    Parameters
    ----------
    text : str
    limit : int >= 1 or None
        Return only this many tokens; the rest of the text is not read.
    """
    if not text.isascii():
        text = _TYPOGRAPHIC.sub(lambda mark: _PLAIN[mark[0]], repair(text))
    chunks = text.lower().split(None, limit or -1)[:limit]
    return list(islice(chain.from_iterable(map(_split, chunks)), limit))


def plain_mark(character: str) -> str:
    """A typographic quote, dash or dots as plain characters; any other character as it is."""
    return _PLAIN.get(character, character)


def split_clitics(text: str) -> str:
    """Separate the clitics of a text that is already tokenised: "they don't" -> "they do n't"."""
    return _ATTACHED.sub(r" \1", text)


def repair(text: str) -> str:
    """Repair a text of which UTF-8 bytes were decoded as GBK, the Chinese code page: "clich茅s" -> "clichés".

    Every such mistake produces Chinese characters, and the bytes of these are UTF-8, except where the last byte of a
    character was lost, and a `?` stands in its place. Such a character becomes a space. A text without Chinese
    characters, and one whose bytes are anything else, because it is Chinese or Japanese, is returned unchanged.

    The bytes of a short Chinese text can be UTF-8 by chance, of letters with two bytes each: 什么 has those of "ʲô". So
    if no character has more bytes, a text is repaired only if it has more ASCII letters than Chinese characters.
    """
    hanzi = _HANZI.findall(text)
    if not hanzi:
        return text
    repaired = _LOST.sub(" ", _bytes(text).decode("utf-8", "surrogateescape"))
    if _NO_UTF_8.search(repaired) or not (_LONG.search(repaired) or len(_LETTER.findall(text)) > len(hanzi)):
        return text
    return repaired.replace("\ufffd", " ")


def repaired_characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters of a repaired text, each behind its place in the text, where the character with its first byte is.

        "clich茅s" -> (0, "c"), (1, "l"), (2, "i"), (3, "c"), (4, "h"), (5, "é"), (6, "s")

    A character that was lost is several spaces.
    """
    raw = [_bytes(character) for character in text]
    places = [place for place, part in enumerate(raw) for _ in part]
    decoded = b"".join(raw).decode("utf-8", "surrogateescape")
    first = 0
    for character in _LOST.sub(lambda lost: " " * len(lost[0]), decoded):
        yield places[first], " " if character == "\ufffd" else character
        first += len(character.encode())


def _bytes(text: str) -> bytes:
    """The bytes of GBK for a text."""
    pieces = text.split("€")  # which is the byte 80
    return b"\x80".join(piece.translate(_OF_GBK).encode("gb18030", "replace") for piece in pieces)


@lru_cache(maxsize=1 << 17)  # most chunks between spaces occur repeatedly
def _split(chunk: str) -> tuple[str, ...]:
    return tuple(_TOKEN.findall(chunk.replace("n't", " n't")))


TOKENISERS: dict[str, Callable[[str], list[str]]] = {
    "treebank": tokenise,  # as in the Penn Treebank; tokenised text stays unchanged
    "words": split_words,  # lower-case, marks and slashes separate, a full stop always ends a word
    "spaces": str.split,
    "whitespace": str.split,  # the same, by the name that other libraries use
}


def split_text(text: str, tokeniser: str) -> list[str]:
    """The tokens of a text; for a pair, the tokens of both sides, split separately, with `BETWEEN` between them.

    Parameters
    ----------
    text : str
    tokeniser : key of `TOKENISERS`
        The tokeniser of the corpus on which the model was trained.
    """
    split = TOKENISERS[tokeniser]
    return [*chain.from_iterable([BETWEEN, *split(part)] for part in text.split(BETWEEN))][1:]
