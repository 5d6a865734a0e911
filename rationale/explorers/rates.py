"""Explore one sentence over the runs of a sweep, from little selected to much."""

from collections.abc import Sequence
from pathlib import Path

import ipywidgets
import torch

from rationale.explorers.common import example_of, image_field, large, model_of, nothing_there, read_out, text_field
from rationale.figures import attention, look, text
from rationale.runs.find import group_sweeps, requested_rate
from rationale.runs.reading import answer, describe_answer, read_text


class RateExplorer(ipywidgets.VBox):
    """A text, and a slider over the runs of a sweep, from little selected to much.

    Attributes
    ----------
    sweep : Dropdown
        Its value is the list of folders, see `sweeps`.
    text : Textarea
    rate : SelectionSlider
        Its value is the number of the run.
    picture : Image
        A row a run: the values of its gates, and its answer; the slider's row is framed.
    readout : HTML
        The rationale of the slider's run.
    """

    def __init__(self, groups: dict[str, list[Path]], text: str = ""):
        style = {"layout": {"width": "60em"}, "style": {"description_width": "4em"}}
        self.sweep = ipywidgets.Dropdown(options=list(groups.items()), description="sweep", **style)
        self.rate = ipywidgets.SelectionSlider(options=[("", 0)], description="rate", **style)
        self.text = text_field(text or example_of(self.sweep.value[0]))
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure, self._readings = look.live_figure(11, 4.4), []
        self.sweep.observe(self._another, names="value")
        self.text.observe(self._read, names="value")
        self.rate.observe(self.redraw, names="index")
        super().__init__([large(), self.sweep, self.text, self.rate, self.readout, self.picture])
        self._another()

    def _another(self, change=None) -> None:
        """Another sweep: its runs; and its own text, until somebody types."""
        self._readings = []
        self.rate.options = [(requested_rate(run)[1], i) for i, run in enumerate(self.sweep.value)]
        if change and self.text.value == example_of(change.old[0]):
            self.text.value = example_of(change.new[0])
        self._read()

    def _read(self, change=None) -> None:
        there = bool(model_of(self.sweep.value[0]).tokens(self.text.value))
        self._readings = [read_text(model_of(run), self.text.value) for run in self.sweep.value] if there else []
        self.redraw()

    def redraw(self, change=None) -> None:
        """The picture for the text that was read, the rationale of the slider's run."""
        if not self._readings:
            self.readout.value = read_out("type at least one word")
            return
        runs, chosen = [model_of(run) for run in self.sweep.value], self.rate.index
        said = [describe_answer(run, answer(run, one, one.z)) for run, one in zip(runs, self._readings, strict=True)]
        rows = [f"{asked}: {words}" for (asked, _), words in zip(self.rate.options, said, strict=True)]
        reading = self._readings[chosen]
        rate = (reading.z != 0).double().mean()
        title = f"asked for {self.rate.label}: {rate:.0%} of these words are selected"
        values = torch.stack([one.z for one in self._readings])
        fig = attention.draw_chosen_row(values, rows, reading.tokens, chosen, self._figure, title)
        self.picture.value = look.live_png(fig)
        self.readout.value = read_out(text.highlight_html(reading.tokens, reading.z, title=rows[chosen]))


def explore_rates(
    runs: Sequence[Path | str],
    text: str = "",
    command: str = "make sweep SWEEP=sst_glove50",
) -> RateExplorer | ipywidgets.HTML:
    """One sentence over the runs of a sweep: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs on texts
        Those that belong together are found by `sweeps`; none: one line says that `command` makes some.
    text : str
        To start from; empty: one of the first run's dev texts.
    """
    groups = group_sweeps([Path(run) for run in runs])
    what = "A sweep (two finished runs at least, which differ in what they select)"
    return RateExplorer(groups, text) if groups else nothing_there(what, command)
