"""Explore the layers of a probed model: which words each layer can do without."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import ipywidgets
import torch
from torch import Tensor

from rationale.data.corpora import find_corpus
from rationale.errors import BadInput
from rationale.excerpts import shortened
from rationale.explain import METHODS, divergence
from rationale.explorers.common import (
    cache_per_run,
    enlarged_style,
    format_readout,
    image_field,
    missing_run_message,
    run_field,
)
from rationale.figures import draw_chosen_row, in_words, live_figure, live_png
from rationale.runs import probed, saved


def explore_layers(
    runs: Sequence[Path | str], command: str = "make run NOTEBOOK=14_train_probes"
) -> "LayersExplorer | ipywidgets.HTML":
    """Make an explorer of the words that each layer of a probed model can do without.

    Parameters
    ----------
    runs : folders of finished runs of `14_train_probes`
        If there are none, one line is shown instead, which says that `command` makes one.
    command : str
    """
    if not runs:
        return missing_run_message("A finished run that probes", command)
    return LayersExplorer([Path(run) for run in runs])


class LayersExplorer(ipywidgets.VBox):
    """A text of the test split and a slider over the layers: what a method attributes to the states of each layer.

    Attributes
    ----------
    run, sentence, method : Dropdown, Dropdown, ToggleButtons
    layer : IntSlider
    picture : Image
        One row per layer; the row of the slider's layer is framed. For a probe, the values are keep probabilities; for
        other methods, attributions divided by the largest one of the layer.
    readout : HTML
        For a probe, the prediction of the frozen model and its prediction after masking, or the reason why it cannot
        be computed.
    """

    def __init__(self, runs: Sequence[Path], num_texts: int = 40):
        style = {"layout": {"width": "46em"}, "style": {"description_width": "5em"}}
        self.run, self._num_texts = run_field(runs, "probed run"), num_texts
        self.sentence = ipywidgets.Dropdown(options=[("", 0)], description="test text", **style)
        self.method = ipywidgets.ToggleButtons(options=[""], description="method")
        self.method.style.button_width = "auto"
        self.layer = ipywidgets.IntSlider(0, min=0, max=1, description="layer", **style)
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure, self._texts = live_figure(11, 4.4), None
        self._updating = False  # True while the explorer itself changes its widgets
        self.run.observe(self._change_run, names="value")
        for widget in (self.sentence, self.method, self.layer):
            widget.observe(self.redraw, names="value")
        super().__init__(
            [enlarged_style(), self.run, self.sentence, self.method, self.layer, self.readout, self.picture]
        )
        self._change_run()

    def _change_run(self, change=None) -> None:
        """Offer the texts and the methods of the chosen run."""
        texts = saved.read_explained(self.run.value, "test")
        self._texts, self._updating = texts, True
        widest = 45 if "answer" in texts else 30
        fitting = texts[[4 <= len(positions_near_answer(row)) <= widest for _, row in texts.iterrows()]]
        offered = (fitting if len(fitting) else texts).head(self._num_texts)
        self.sentence.options = [(_shorten_text(row), i) for i, row in offered.iterrows()]
        self.method.options = [(in_words(method), method) for method in METHODS if method in texts]
        for menu in (self.sentence, self.method):
            if menu.index is None and menu.options:  # buttons choose none of their own after a run that has none
                menu.index = 0
        self._updating = False
        self.redraw()

    def redraw(self, change=None) -> None:
        """Update the picture and the read-out to the chosen text, method and layer."""
        if self._updating:
            return
        if self.sentence.value is None or self.method.value is None:
            self.picture.value = b""  # not that of the run before
            self.readout.value = format_readout("this run has no text with attributions")
            return
        row, method = self._texts.loc[self.sentence.value], self.method.value
        values, positions = torch.tensor(row[method]), positions_near_answer(row)  # [L + 1, T]
        self._updating = True  # the slider may have to move, if the new run has fewer layers
        self.layer.max = len(values) - 1
        self._updating = False
        layer = self.layer.value
        is_probe = METHODS[method].is_probe
        if is_probe:
            title = f"{in_words(method).capitalize()}: layer {layer} keeps {values[layer].mean():.0%} of the text"
        else:
            values = values / values.amax(1, keepdim=True).clamp(min=1e-30)
            title = "Attributions, as shares of the largest of the layer"
        rows = [f"layer {k}" for k in range(len(values))]
        columns = [row["tokens"][position] for position in positions]
        fig = draw_chosen_row(values[:, positions], rows, columns, layer, self._figure, title)
        self.picture.value = live_png(fig)
        self.readout.value = format_readout(self._compare_predictions(method, layer) if is_probe else "")

    def _compare_predictions(self, method: str, layer: int) -> str:
        """The read-out: the predictions before and after masking, and how far they are apart."""
        try:
            before, after, distance = masked_predictions(self.run.value, method, self.sentence.value, layer)
        except BadInput as error:
            return f"the prediction after masking is not shown: {html.escape(str(error))}"
        row = self._texts.loc[self.sentence.value]
        before, after = (html.escape(self._format_prediction(output, row)) for output in (before, after))
        return f"prediction <b>{before}</b>; after masking layer {layer} <b>{after}</b>; {distance:.3f} nats apart"

    def _format_prediction(self, probabilities: Tensor, row) -> str:
        """The most probable class, as `yes 0.97`; for a span, the words from its most probable start to its end.

        A span whose end lies before its start has no words, and is written as `no words 0.12`.
        """
        best, index = probabilities.max(-1)
        if probabilities.dim() == 2:
            first, last = index.tolist()
            return (" ".join(row["tokens"][first : last + 1]) or "no words") + f" {best.prod():.2f}"
        labels = find_corpus(saved.read_parameters(self.run.value)["corpus"]).labels
        return f"{labels[int(index)]} {best:.2f}"


load_probed = cache_per_run(2)(probed.load_probed)


@torch.no_grad()
def masked_predictions(run: Path, method: str, index: int, layer: int, draws: int = 64) -> tuple[Tensor, Tensor, float]:
    """The prediction of the frozen model for a test text, and its prediction while a probe masks a layer.

    Parameters
    ----------
    method : str
        One of `METHODS` that is a probe.
    index : int
        Index of the text in the test split.
    draws : int
        Number of masks to draw. The same masks are drawn in every call.

    Returns
    -------
    probabilities [..., C] before masking, probabilities [..., C] after masking (mean over the draws), and the mean
    divergence KL(y || y_hat) in nats
    """
    _, task, _, probes = load_probed(run)
    probe = probes[method]
    batch = task.batches["test"].rows(torch.full((draws,), index))
    devices = [batch.mask.device] if batch.mask.is_cuda else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(0)
        output = probe(batch, layer)
    mean_divergence = divergence(output.original, output.masked).mean().item()
    return output.original[0].softmax(-1), output.masked.softmax(-1).mean(0), mean_divergence


def positions_near_answer(row: Mapping, reach: int = 12) -> list[int]:
    """Positions of a text to be drawn.

    For a question with its paragraph, these are the question and the words near the model's answer; for any other text,
    all positions.

    Parameters
    ----------
    row : a row of `runs.saved.read_attributions`
    reach : int
        Number of words to be drawn before and after the answer.
    """
    tokens, answer = row["tokens"], row.get("answer")
    if not isinstance(answer, Sequence):  # the output of the model is not a span
        return [*range(len(tokens))]
    (first, last), paragraph = answer, tokens.index("[SEP]") + 1
    return [*range(paragraph), *range(max(paragraph, first - reach), min(len(tokens), last + reach + 1))]


def _shorten_text(row, max_length: int = 90) -> str:
    """The text of a row in at most `max_length` characters, with the question of the digit task if there is one."""
    query = row["second"]
    text = " ".join(row["tokens"]) + (f"   more {query[0]} than {query[1]}?" if query is not None else "")
    return shortened(text, max_length)
