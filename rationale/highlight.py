"""Text with its rationale highlighted for a terminal, without matplotlib, which takes half a second to import.

`figures` has the same for notebooks and pages (`figures.text`), and passes `highlight_ansi` on.
"""

import os
import unicodedata
from collections.abc import Sequence

import numpy as np
import torch

from rationale.errors import printable


def highlight_ansi(
    tokens: Sequence[str],
    z,
    gold: Sequence[bool] | None = None,
    width: int = 100,
    color: bool | None = None,
) -> str:
    """A text with its rationale highlighted for a terminal, broken into lines of at most `width` columns.

    With colour, selected tokens are bold on orange (z >= 1/2) or on pale yellow, tokens with z = 0 are faint, and gold
    tokens are underlined. Without colour, each sequence of selected tokens is in [brackets], and each gold token is
    between _underscores_.

    Parameters
    ----------
    tokens : [T] str
        Control characters, which could control the terminal, are replaced by their escapes.
    z : [T], in [0, 1]
    gold : [T] bool or None
    width : int, >= 1
        A longer token is on a line of its own.
    color : bool or None
        None means with colour, unless the environment variable NO_COLOR is set to a value that is not empty. The
        caller has to decide whether the output is a terminal.
    """
    color = not os.environ.get("NO_COLOR") if color is None else color
    gates = check_tokens(tokens, z, gold)
    pieces = []  # for each token, what is visible, and the same with its control sequences
    for i, (token, value, mark) in enumerate(gates):
        word = printable(str(token))
        if color:
            style = "2" if value == 0 else "1;30;48;5;214" if value >= 0.5 else "1;30;48;5;229"
            pieces.append((word, f"\x1b[{style}{';4' if mark else ''}m{word}\x1b[0m"))
            continue
        word = f"_{word}_" if mark else word
        if value > 0:
            first, last = i == 0 or gates[i - 1][1] == 0, i == len(gates) - 1 or gates[i + 1][1] == 0
            word = "[" * first + word + "]" * last
        pieces.append((word, word))
    lines, used = [[]], 0
    for visible, output in pieces:
        columns = num_columns(visible)
        if lines[-1] and used + 1 + columns > width:
            lines.append([])
            used = 0
        used += columns + bool(lines[-1])
        lines[-1].append(output)
    return "\n".join(" ".join(line) for line in lines)


def num_columns(text: str) -> int:
    """The columns that a text takes in a monospaced font: two for each wide character, as Chinese ones are."""
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def as_floats(values) -> np.ndarray:
    """The numbers of a tensor of any type, on any device, with or without a gradient, or of a sequence: float64."""
    if isinstance(values, torch.Tensor):
        return values.detach().cpu().double().numpy()
    if isinstance(values, list | tuple):
        values = [as_floats(value) if isinstance(value, torch.Tensor) else value for value in values]
    return np.asarray(values, dtype=float)


def check_tokens(tokens: Sequence[str], z, gold) -> list[tuple[str, float, bool]]:
    """(token, gate value, whether the token is in the gold rationale) for each token.

    Raises
    ------
    ValueError
        If the lengths differ, or a value is NaN or lies outside [0, 1].
    """
    values = as_floats(z).ravel()
    marks = [False] * len(tokens) if gold is None else [bool(mark) for mark in gold]
    if not len(tokens) == len(values) == len(marks):
        lengths = f"{len(tokens)}, {len(values)} and {len(marks)}"
        raise ValueError(f"tokens, z, gold: got lengths {lengths}, equal lengths are accepted")
    if np.isnan(values).any():
        raise ValueError("z: got NaN, [0, 1] is accepted")
    if not ((0 <= values) & (values <= 1)).all():
        raise ValueError(f"z: got values from {values.min():g} to {values.max():g}, [0, 1] is accepted")
    return list(zip(tokens, values.tolist(), marks, strict=True))
