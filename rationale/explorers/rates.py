"""Explore one text over the runs of a sweep, from the smallest selection rate to the largest."""

from collections.abc import Sequence
from pathlib import Path

import ipywidgets
import torch

from rationale.explorers.common import (
    enlarged_style,
    example_text,
    format_readout,
    image_field,
    load_text_run,
    missing_run_message,
    text_field,
)
from rationale.figures import draw_chosen_row, highlight_html, live_figure, live_png
from rationale.runs.find import group_sweeps, requested_rate
from rationale.runs.reading import describe_prediction, predict_with, read_text


def explore_rates(
    runs: Sequence[Path | str],
    text: str = "",
    command: str = "make sweep SWEEP=sst_glove50",
) -> "RateExplorer | ipywidgets.HTML":
    """Make an explorer of one text over the runs of a sweep.

    Parameters
    ----------
    runs : folders of finished runs on texts
        `group_sweeps` finds the sweeps. If there is none, one line is shown instead, which says that `command` makes
        one.
    text : str
        The text to start with. If it is empty, this is one of the dev texts of the first run.
    command : str
    """
    groups = group_sweeps([Path(run) for run in runs])
    if not groups:
        requirement = "A sweep (at least two finished runs that differ in how much they select)"
        return missing_run_message(requirement, command)
    return RateExplorer(groups, text)


class RateExplorer(ipywidgets.VBox):
    """A text, and a slider over the runs of a sweep, from the smallest selection rate to the largest.

    Attributes
    ----------
    sweep : Dropdown
        Its value is the list of the runs' folders, see `group_sweeps`.
    text : Textarea
    rate : SelectionSlider
        Its value is the index of the run in the sweep.
    picture : Image
        One row per run, with the values of its gates and its prediction; the row of the slider's run is framed.
    readout : HTML
        The rationale of the slider's run.
    """

    def __init__(self, groups: dict[str, list[Path]], text: str = ""):
        style = {"layout": {"width": "60em"}, "style": {"description_width": "4em"}}
        self.sweep = ipywidgets.Dropdown(options=list(groups.items()), description="sweep", **style)
        self.rate = ipywidgets.SelectionSlider(options=[("", 0)], description="rate", **style)
        self.text = text_field(text or example_text(self.sweep.value[0]), "text for all runs")
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure, self._readings = live_figure(11, 4.4), []
        self.sweep.observe(self._change_sweep, names="value")
        self.text.observe(self._read, names="value")
        self.rate.observe(self.redraw, names="index")
        super().__init__([enlarged_style(), self.sweep, self.text, self.rate, self.readout, self.picture])
        self._change_sweep()

    def _change_sweep(self, change=None) -> None:
        """Offer the runs of the chosen sweep. If the text is still an example, replace it by one of this sweep."""
        self._readings = []
        self.rate.options = [(requested_rate(run)[1], i) for i, run in enumerate(self.sweep.value)]
        if change and self.text.value == example_text(change.old[0]):
            self.text.value = example_text(change.new[0])
        self._read()

    def _read(self, change=None) -> None:
        """Read the text with every run of the sweep."""
        has_words = bool(load_text_run(self.sweep.value[0]).tokens(self.text.value))
        runs = self.sweep.value if has_words else []
        self._readings = [read_text(load_text_run(run), self.text.value) for run in runs]
        self.redraw()

    def redraw(self, change=None) -> None:
        """Update the picture to the text, and the read-out to the slider's run."""
        if not self._readings:
            self.picture.value = b""  # not that of the text before
            self.readout.value = format_readout("type at least one word")
            return
        rows = []  # the label of each run
        for folder, (target, _), reading in zip(self.sweep.value, self.rate.options, self._readings, strict=True):
            run = load_text_run(folder)
            rows.append(f"{target}: {describe_prediction(run, predict_with(run, reading, reading.z))}")
        chosen = self.rate.index
        reading = self._readings[chosen]
        rate = (reading.z != 0).double().mean()
        title = f"{self.rate.label}: {rate:.0%} of these words are selected"
        values = torch.stack([reading.z for reading in self._readings])
        fig = draw_chosen_row(values, rows, reading.tokens, chosen, self._figure, title)
        self.picture.value = live_png(fig)
        self.readout.value = format_readout(highlight_html(reading.tokens, reading.z, title=rows[chosen]))
