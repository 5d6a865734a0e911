"""Explorers of finished runs: force the gates of your own text, go through the runs of a sweep, the layers of a probe.

Like the explorers of `rationale.explorers` they draw one reused `Figure` into the bytes of an `ipywidgets.Image`: set a
widget's `value`, or `click()` a word, and look at `picture.value`.
"""

import functools
import html
from collections.abc import Sequence
from pathlib import Path

import ipywidgets
import torch

from rationale.explorers.common import (
    example_of,
    image_field,
    large,
    model_of,
    nothing_there,
    read_out,
    run_field,
    text_field,
)
from rationale.figures import curves, look
from rationale.runs.reading import answer, describe_answer, read_text

FREE, OPEN, SHUT = "free", "open", "shut"  # what a gate may be forced to, in the order of clicks
FACES = {  # of the button of a word, by what it is forced to, else by whether it is selected: readable without colour
    OPEN: (look.BLUE, "white", "bold", "underline"),
    SHUT: ("#555555", "white", "normal", "line-through"),
    True: ("#F3C766", "black", "bold", "none"),
    False: ("#EEEEEE", "#555555", "normal", "none"),
}


class SentenceExplorer(ipywidgets.VBox):
    """A text, a run, a button a word; what the run answers to the rationale, to the whole text, to your own gates.

    A click on a word forces its gate open, the next one shut, the third sets it free. The bar below it is the gate:
    dark P(z = 1), light P(0 < z < 1), empty P(z = 0); below that its value z.

    Attributes
    ----------
    run : Dropdown
    text : Textarea
    buttons : list of Button
        One a word of the text; `buttons[2].click()`.
    forced : dict
        Position -> "open" or "shut".
    answers : dict
        "rationale", "whole text" and, where a gate is forced, "your gates" -> probabilities or scores.
    picture : Image
        The answers.
    readout : HTML
    """

    def __init__(self, runs: Sequence[Path], text: str = ""):
        self.run, self.text = run_field(runs), text_field(text or example_of(runs[0]))
        self.picture, self.readout = image_field(1000), ipywidgets.HTML()
        self.free = ipywidgets.Button(description="free all gates", layout={"width": "10em"})
        self.forced: dict[int, str] = {}
        self.answers: dict[str, list[float]] = {}
        self.buttons: list[ipywidgets.Button] = []
        self._words: list[ipywidgets.VBox] = []  # button and bar of a word; more than there are words, once there were
        self._row = ipywidgets.Box(layout={"flex_flow": "row wrap", "max_width": "72em"})
        self._figure, self._reading = look.live_figure(10, 3.4), None
        self.run.observe(self._another, names="value")
        self.text.observe(self._read, names="value")
        self.free.on_click(lambda _: self.force({}))
        super().__init__([large(), self.run, self.text, self._row, self.free, self.readout, self.picture])
        self._read()

    def force(self, forced: dict[int, str]) -> None:
        """Force these gates, and no others: position -> "open" or "shut"."""
        self.forced = forced
        self.redraw()

    def _clicked(self, position: int, button: ipywidgets.Button) -> None:
        after = {None: OPEN, OPEN: SHUT, SHUT: None}[self.forced.get(position)]
        rest = {place: state for place, state in self.forced.items() if place != position}
        self.force(rest | ({position: after} if after else {}))

    def _another(self, change) -> None:
        """Another run reads the same text; but one of other texts its own, until somebody types."""
        if self.text.value == example_of(change.old):
            self.text.value = example_of(change.new)
        self._read()

    def _read(self, change=None) -> None:
        """Read the text anew. Forced gates stay with another run, not with another text."""
        if not model_of(self.run.value).tokens(self.text.value):
            self._row.children, self.buttons, self._reading = (), [], None
            self.readout.value = read_out("type at least one word")
            return
        before, self._reading = self._reading, read_text(model_of(self.run.value), self.text.value)
        tokens = self._reading.tokens
        if before is None or before.tokens != tokens:
            self.forced = {}
        for position in range(len(self._words), len(tokens)):
            button = ipywidgets.Button(layout={"width": "auto", "margin": "2px"}, style={"font_size": "18px"})
            button.on_click(functools.partial(self._clicked, position))
            column = {"align_items": "center", "margin": "0 1px 6px 1px"}
            self._words.append(ipywidgets.VBox([button, ipywidgets.HTML()], layout=column))
        if len(self._row.children) != len(tokens):
            self._row.children = self._words[: len(tokens)]
            self.buttons = [word.children[0] for word in self._row.children]
        for button, token in zip(self.buttons, tokens, strict=True):
            button.description = token
        self.redraw()

    def redraw(self) -> None:
        """Words, answers and picture for the text that was read and the gates that are forced."""
        if self._reading is None:
            return
        run, reading = model_of(self.run.value), self._reading
        z = reading.z.clone()
        for position, state in self.forced.items():
            z[position] = float(state == OPEN)
        for i, word in enumerate(self._row.children):
            button, bar = word.children
            face = FACES[self.forced.get(i, bool(z[i] > 0))]
            style = button.style
            style.button_color, style.text_color, style.font_weight, style.text_decoration = face
            button.tooltip = f"gate {self.forced.get(i, FREE)}: click to change"
            bar.value = _bar(None if reading.masses is None else reading.masses[i].tolist(), z[i].item())
        given = {"rationale": reading.z, "whole text": torch.ones_like(z)} | ({"your gates": z} if self.forced else {})
        self.answers = {name: answer(run, reading, values) for name, values in given.items()}
        words = {name: describe_answer(run, numbers) for name, numbers in self.answers.items()}
        title = f"your gates: from {words['rationale']} to {words['your gates']}" if self.forced else ""
        self.picture.value = look.live_png(curves.draw_answers(run.outputs, self.answers, self._figure, title))
        unknown = html.escape(", ".join(reading.unknown))
        unknown = f" &nbsp; unknown to this run: {unknown}" if unknown else ""
        said = " &nbsp; ".join(f"{name}: <b>{text}</b>" for name, text in words.items())
        self.readout.value = read_out(f"{said}<br>{int((z > 0).sum())} of {len(z)} words selected{unknown}")


def _bar(masses: list[float] | None, z: float) -> str:
    """The gate of a word as HTML: its masses as a bar that is filled from below, its value."""
    value = f'<div class="rationale-z">{z:.2g}</div>'
    if masses is None:
        return value
    zero, interior, one = (100 * mass for mass in masses)
    shades = ((interior, look.YELLOW), (one, look.ORANGE))
    parts = "".join(f'<div style="height:{part:.1f}%;background:{colour}"></div>' for part, colour in shades)
    told = f"P(z = 0) {zero:.1f} %, P(0 &lt; z &lt; 1) {interior:.1f} %, P(z = 1) {one:.1f} %"
    return f'<div class="rationale-gate" title="{told}"><div style="height:{zero:.1f}%"></div>{parts}</div>{value}'


def explore_sentence(
    runs: Sequence[Path | str], text: str = "", command: str = "make demo"
) -> SentenceExplorer | ipywidgets.HTML:
    """Try your own sentence: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs on texts
        None: one line says that `command` makes one.
    text : str
        To start from; empty: one of the first run's dev texts.

    Raises
    ------
    BadInput
        If the first folder holds no finished run on texts.
    """
    return (
        SentenceExplorer([Path(run) for run in runs], text)
        if runs
        else nothing_there("A finished run on texts", command)
    )
