"""Explore the layers of a probe: what each layer can do without."""

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

import ipywidgets
import pandas as pd
import torch
from torch import Tensor

from rationale.data.corpora import find_corpus
from rationale.errors import BadInput
from rationale.explain import METHODS, divergence
from rationale.explorers.common import image_field, kept_per_run, large, nothing_there, read_out, run_field
from rationale.figures import attention, look
from rationale.runs import saved
from rationale.runs.probed import load_probed as read_probed

load_probed = kept_per_run(2)(read_probed)


@torch.no_grad()
def masked_answers(run: Path, method: str, index: int, layer: int, draws: int = 64) -> tuple[Tensor, Tensor, float]:
    """What the frozen model answers to a test text, and what it answers where a probe masks a layer.

    Parameters
    ----------
    index : int
        Number of the text in the test split.
    draws : int
        Masks to draw, always the same ones.

    Returns
    -------
    probabilities before [..., C], after [..., C] (mean over draws), and the mean divergence KL(y || y_hat) in nats
    """
    _, task, _, probes = load_probed(run)
    probe = probes[method]
    batch = task.batches["test"].rows(torch.full((draws,), index))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        output = probe(batch, layer)
    distance = divergence(output.original, output.masked).mean().item()
    return output.original[0].softmax(-1), output.masked.softmax(-1).mean(0), distance


def near_answer(row: Mapping, reach: int = 12) -> list[int]:
    """Positions of a text to be drawn: all of them; of a question and its paragraph what is near the model's answer.

    Parameters
    ----------
    row : of `runs.saved.read_attributions`
    reach : int
        Words before and after the answer; the question is drawn whole.
    """
    tokens, answer = row["tokens"], row.get("answer")
    if not isinstance(answer, Sequence):  # no span
        return [*range(len(tokens))]
    (first, last), paragraph = answer, tokens.index("[SEP]") + 1
    return [*range(paragraph), *range(max(paragraph, first - reach), min(len(tokens), last + reach + 1))]


class LayersExplorer(ipywidgets.VBox):
    """A text of the test split, a slider over the layers: what a method attributes to the states of each.

    Attributes
    ----------
    run, sentence, method : Dropdown, Dropdown, ToggleButtons
    layer : IntSlider
    picture : Image
        A row a layer, that of the slider framed: of `states` and `inputs` keep probabilities, of other methods shares
        of the largest value of the layer.
    readout : HTML
        Of `states` and `inputs`: the answer of the frozen model and the one after masking, where the texts are there.
    """

    def __init__(self, runs: Sequence[Path], number: int = 40):
        style = {"layout": {"width": "46em"}, "style": {"description_width": "5em"}}
        self.run, self.number = run_field(runs), number
        self.sentence = ipywidgets.Dropdown(options=[("", 0)], description="sentence", **style)
        self.method = ipywidgets.ToggleButtons(options=[""], description="method")
        self.method.style.button_width = "auto"
        self.layer = ipywidgets.IntSlider(0, min=0, max=1, description="layer", **style)
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure, self._texts, self._busy = look.live_figure(11, 4.4), None, False
        self.run.observe(self._another, names="value")
        for widget in (self.sentence, self.method, self.layer):
            widget.observe(self.redraw, names="value")
        super().__init__([large(), self.run, self.sentence, self.method, self.layer, self.readout, self.picture])
        self._another()

    def _another(self, change=None) -> None:
        """Another run: its texts, its methods, its layers."""
        texts = saved.read_explained(self.run.value, "test")
        self._texts, self._busy = texts, True
        widths = pd.Series([len(near_answer(row)) for _, row in texts.iterrows()], index=texts.index)
        fitting = texts[widths.between(4, 45 if "answer" in texts else 30)]
        some = (fitting if len(fitting) else texts).head(self.number)
        self.sentence.options = [(_shortened(row), i) for i, row in some.iterrows()]
        self.method.options = [method for method in METHODS if method in texts]
        self._busy = False
        self.redraw()

    def redraw(self, change=None) -> None:
        """Picture and read-out for the text, the method and the layer."""
        if self._busy or self.sentence.value is None or self.method.value is None:
            return
        row, method = self._texts.loc[self.sentence.value], self.method.value
        values, near = torch.tensor(row[method]), near_answer(row)  # [L + 1, T]
        self._busy, self.layer.max = True, len(values) - 1
        self._busy, layer = False, self.layer.value
        is_probe = METHODS[method].is_probe
        shown = values if is_probe else values / values.amax(1, keepdim=True).clamp(min=1e-30)
        what = "keep probabilities" if is_probe else "attributions, as shares of the largest of the layer"
        title = f"{method}: {what}; layer {layer} keeps {values[layer].mean():.0%}" if is_probe else what
        rows = [f"layer {k}" for k in range(len(values))]
        columns = [row["tokens"][place] for place in near]
        fig = attention.draw_chosen_row(shown[:, near], rows, columns, layer, self._figure, title)
        self.picture.value = look.live_png(fig)
        self.readout.value = read_out(self._compared(method, layer) if is_probe else "")

    def _compared(self, method: str, layer: int) -> str:
        try:
            before, after, far = masked_answers(self.run.value, method, self.sentence.value, layer)
        except BadInput as error:
            return f"the answer after masking is not shown: {error}"
        row = self._texts.loc[self.sentence.value]
        told = [html.escape(self._named(chances, row)) for chances in (before, after)]
        return f"answer <b>{told[0]}</b>; after masking layer {layer} <b>{told[1]}</b>; {far:.3f} nats apart"

    def _named(self, chances: Tensor, row) -> str:
        """`yes 0.97`: the likeliest class; of spans, the words from the likeliest beginning to the likeliest end."""
        best, where = chances.max(-1)
        if chances.dim() == 2:
            first, last = where.tolist()
            return " ".join(row["tokens"][first : last + 1]) + f" {best.prod():.2f}"
        labels = find_corpus(saved.read_parameters(self.run.value)["corpus"]).labels
        return f"{labels[int(where)]} {best:.2f}"


def _shortened(row, longest: int = 90) -> str:
    asked = row["second"]
    text = " ".join(row["tokens"]) + (f"   more {asked[0]} than {asked[1]}?" if asked is not None else "")
    return text if len(text) <= longest else text[: longest - 1] + "…"


def explore_layers(
    runs: Sequence[Path | str], command: str = "make run NOTEBOOK=14_train_probes"
) -> LayersExplorer | ipywidgets.HTML:
    """What each layer can do without: the last expression of a cell shows it.

    Parameters
    ----------
    runs : folders of finished runs of `14_train_probes`
        None: one line says that `command` makes one.
    """
    return LayersExplorer([Path(run) for run in runs]) if runs else nothing_there("A finished run that probes", command)
