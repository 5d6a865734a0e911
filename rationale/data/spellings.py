"""Spellings of the same word in a treebank and in plain text; needs nothing but Python."""

import re
from collections.abc import Container

# The spelling of brackets and quotes in treebanks, and in plain text.
TREEBANK_TO_PLAIN = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
    "``": '"',
    "''": '"',
}
# Those that are written in plain characters before a tokenizer of word pieces reads them.
_UNESCAPED = {mark: TREEBANK_TO_PLAIN[mark] for mark in ("-LRB-", "-RRB-", "-LSB-", "-RSB-", "``", "''")}
MOST_PIECES = 128  # of a word; the rest of a longer one, such as encoded data without a blank, is not read
HALF = re.compile("[\ud800-\udfff]")  # of a character, which JSON can escape and no file in UTF-8 can hold


def plain_form(word: str) -> str:
    """A word as a tokenizer of word pieces reads it.

    Brackets and quotes of treebanks (`-LRB-`) become the characters they stand for. Half of a character, which such a
    tokenizer refuses, becomes the sign of a character that was lost.
    """
    return HALF.sub("\ufffd", _UNESCAPED.get(word, word))


def spellings(word: str) -> list[str]:
    """The spellings with which to look up a word, best first: as it is, then as in plain text or in a treebank."""
    plain = word.replace("\\", "") or word
    other = [b for a, b in TREEBANK_TO_PLAIN.items() if plain.upper() == a]
    other += [a for a, b in TREEBANK_TO_PLAIN.items() if plain == b]
    forms = [word, plain, *other]
    return list(dict.fromkeys([*forms, *(form.lower() for form in forms)]))


def known_form(word: str, known: Container[str]) -> str:
    """A word in the first of its spellings that is known, as word vectors are looked up; as it is if none is known."""
    return word if word in known else next((other for other in spellings(word) if other in known), word)
