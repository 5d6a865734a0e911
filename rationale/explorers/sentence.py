"""Explore one text with a finished run: its gates, its prediction, and the prediction with gates of your own."""

import functools
import html
from collections.abc import Sequence
from pathlib import Path

import ipywidgets
import torch

from rationale.errors import counted
from rationale.explorers.common import (
    enlarged_style,
    example_text,
    format_readout,
    image_field,
    load_text_run,
    missing_run_message,
    run_field,
    text_field,
)
from rationale.figures import draw_predictions, live_figure, live_png
from rationale.figures.look import BLUE, ORANGE, YELLOW
from rationale.runs.reading import describe_prediction, predict_with, read_text

FREE, OPEN, SHUT = "free", "open", "shut"  # the states of a gate, in the order of clicks
# Background, text colour, weight and decoration of a word's button: by the state to which its gate is forced, otherwise
# by whether the word is selected. The states can be distinguished without colour.
BUTTON_STYLES = {
    OPEN: (BLUE, "white", "bold", "underline"),
    SHUT: ("#555555", "white", "normal", "line-through"),
    True: ("#F3C766", "black", "bold", "none"),
    False: ("#EEEEEE", "#555555", "normal", "none"),
}


def explore_sentence(
    runs: Sequence[Path | str], text: str = "", command: str = "make demo"
) -> "SentenceExplorer | ipywidgets.HTML":
    """Make an explorer of your own text.

    Parameters
    ----------
    runs : folders of finished runs on texts
        If there are none, one line is shown instead, which says that `command` makes one.
    text : str
        The text to start with. If it is empty, this is one of the dev texts of the first run.
    command : str

    Raises
    ------
    BadInput
        If the first folder holds no finished run on texts.
    """
    if not runs:
        return missing_run_message("A finished run on texts", command)
    return SentenceExplorer([Path(run) for run in runs], text)


class SentenceExplorer(ipywidgets.VBox):
    """A text with one button per word, and a run's predictions for its rationale, the whole text and your own gates.

    A click on a word forces its gate open, a second click forces it shut, and a third click sets it free. The bar below
    a word shows the distribution of its gate: the dark part is P(z = 1), the light part P(0 < z < 1), the empty part
    P(z = 0). Below the bar is the value z.

    Attributes
    ----------
    run : Dropdown
    text : Textarea
    buttons : list of Button
        One per word of the text; click one with `buttons[2].click()`.
    forced : dict
        Position -> "open" or "shut", for the gates that are forced.
    predictions : dict
        "rationale", "whole text" and, if a gate is forced, "your gates" -> probabilities or scores.
    picture : Image
        The predictions.
    readout : HTML
        The predictions in words, the number of selected words, and the words unknown to the run.
    """

    def __init__(self, runs: Sequence[Path], text: str = ""):
        self.run, self.text = run_field(runs, "run"), text_field(text or example_text(runs[0]), "your text")
        self.picture, self.readout = image_field(1000), ipywidgets.HTML()
        self.free = ipywidgets.Button(description="free all gates", layout={"width": "10em"})
        self.forced: dict[int, str] = {}
        self.predictions: dict[str, list[float]] = {}
        self.buttons: list[ipywidgets.Button] = []
        self._words: list[ipywidgets.VBox] = []  # button and bar of each word of the longest text so far
        self._row = ipywidgets.Box(layout={"flex_flow": "row wrap", "max_width": "72em"})
        self._figure, self._reading = live_figure(10, 3.4), None
        self.run.observe(self._change_run, names="value")
        self.text.observe(self._read, names="value")
        self.free.on_click(lambda _: self.force({}))
        super().__init__([enlarged_style(), self.run, self.text, self._row, self.free, self.readout, self.picture])
        self._read()

    def force(self, forced: dict[int, str]) -> None:
        """Force these gates and set all others free: position -> "open" or "shut"."""
        self.forced = forced
        self.redraw()

    def _click(self, position: int, button: ipywidgets.Button) -> None:
        """Force the gate of a word to its next state."""
        next_state = {None: OPEN, OPEN: SHUT, SHUT: None}[self.forced.get(position)]
        others = {other: state for other, state in self.forced.items() if other != position}
        self.force(others | ({position: next_state} if next_state else {}))

    def _change_run(self, change) -> None:
        """Read the text with the chosen run. If the text is still an example, replace it by one of this run."""
        if self.text.value == example_text(change.old):
            self.text.value = example_text(change.new)
        self._read()

    def _read(self, change=None) -> None:
        """Read the text. Forced gates are kept if the run changes, but not if the text does."""
        if not load_text_run(self.run.value).tokens(self.text.value):
            self._row.children, self.buttons, self._reading, self.predictions = (), [], None, {}
            self.picture.value = b""  # not that of the text before
            self.readout.value = format_readout("type at least one word")
            return
        previous, self._reading = self._reading, read_text(load_text_run(self.run.value), self.text.value)
        tokens = self._reading.tokens
        if previous is None or previous.tokens != tokens:
            self.forced = {}
        for position in range(len(self._words), len(tokens)):
            button = ipywidgets.Button(layout={"width": "auto", "margin": "2px"}, style={"font_size": "18px"})
            button.on_click(functools.partial(self._click, position))
            column = {"align_items": "center", "margin": "0 1px 6px 1px"}
            self._words.append(ipywidgets.VBox([button, ipywidgets.HTML()], layout=column))
        if len(self._row.children) != len(tokens):
            self._row.children = self._words[: len(tokens)]
            self.buttons = [word.children[0] for word in self._row.children]
        for button, token in zip(self.buttons, tokens, strict=True):
            button.description = token
        self.redraw()

    def redraw(self) -> None:
        """Update the words, the predictions and the picture to the text and the forced gates."""
        if self._reading is None:
            return
        run, reading = load_text_run(self.run.value), self._reading
        z = reading.z.clone()
        for position, state in self.forced.items():
            z[position] = float(state == OPEN)
        for i, word in enumerate(self._row.children):
            button, bar = word.children
            style, values = button.style, BUTTON_STYLES[self.forced.get(i, bool(z[i] > 0))]
            style.button_color, style.text_color, style.font_weight, style.text_decoration = values
            button.tooltip = f"gate {self.forced.get(i, FREE)}: click to change"
            bar.value = _format_gate(None if reading.masses is None else reading.masses[i].tolist(), z[i].item())
        gates = {"rationale": reading.z, "whole text": torch.ones_like(z)} | ({"your gates": z} if self.forced else {})
        self.predictions = {name: predict_with(run, reading, values) for name, values in gates.items()}
        texts = {name: describe_prediction(run, numbers) for name, numbers in self.predictions.items()}
        title = f"your gates: from {texts['rationale']} to {texts['your gates']}" if self.forced else ""
        fig = draw_predictions(run.outputs, self.predictions, self._figure, title, run.rescaled)
        self.picture.value = live_png(fig)
        unknown = html.escape(", ".join(reading.unknown))
        unknown = f" &nbsp; unknown to this run: {unknown}" if unknown else ""
        predictions = " &nbsp; ".join(f"{name}: <b>{html.escape(text)}</b>" for name, text in texts.items())
        selected = f"{int((z > 0).sum())} of {counted(len(z), 'word')} selected"
        self.readout.value = format_readout(f"{predictions}<br>{selected}{unknown}")


def _format_gate(masses: list[float] | None, z: float) -> str:
    """The gate of a word as HTML: its masses as a bar that is filled from below, and its value."""
    value = f'<div class="rationale-z">{z:.2g}</div>'
    if masses is None:
        return value
    zero, interior, one = (100 * mass for mass in masses)
    colours = ((interior, YELLOW), (one, ORANGE))
    parts = "".join(f'<div style="height:{height:.1f}%;background:{colour}"></div>' for height, colour in colours)
    title = f"P(z = 0) {zero:.1f} %, P(0 &lt; z &lt; 1) {interior:.1f} %, P(z = 1) {one:.1f} %"
    return f'<div class="rationale-gate" title="{title}"><div style="height:{zero:.1f}%"></div>{parts}</div>{value}'
