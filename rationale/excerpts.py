"""How a value or a text is shown: its beginning in a message, and how marks are printed; needs nothing but Python."""

PRINTED = "-webkit-print-color-adjust:exact;print-color-adjust:exact"  # CSS: printing leaves backgrounds out otherwise


def cut(text: str, length: int = 80) -> str:
    """The beginning of a text, with dots in place of the rest, for a message."""
    return text[:length] + "..." * (len(text) > length)


def shortened(text: str, length: int) -> str:
    """The text, or its beginning and an ellipsis, in at most `length` characters, for a label."""
    return text if len(text) <= length else text[: length - 1] + "…"


def excerpt(value: object, length: int = 80) -> str:
    """The beginning of a text (quoted) or of another value, as Python writes it, for a message.

    Examples
    --------
    >>> excerpt("(3 film)"), excerpt("film " * 1000, 10), excerpt([1, 2])
    ("'(3 film)'", "'film film '...", '[1, 2]')
    """
    if isinstance(value, str | bytes):
        return repr(value[:length]) + "..." * (len(value) > length)
    return cut(repr(value), length)
