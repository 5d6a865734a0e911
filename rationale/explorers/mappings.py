"""Explore attention mappings: sliders for the scores, one picture of the weights."""

from collections.abc import Sequence

import ipywidgets
import torch

from rationale.explorers.common import large, read_out
from rationale.figures import attention, look
from rationale.nn.sparse_attention import all_mappings, dead


class MappingExplorer(ipywidgets.VBox):
    """Sliders for scores, gamma and lam over the picture of `figures.draw_mappings`.

    Attributes
    ----------
    scores : list of FloatSlider
    gamma, lam : FloatLogSlider, FloatSlider
        Strength of the regularisation; price of fusedmax and oscarmax.
    picture : Image
    readout : HTML
        How many weights are 0, and whether fusedmax is in its dead zone.
    """

    def __init__(self, scores: Sequence[float], gamma: float = 1.0, lam: float = 0.1):
        tall = {"orientation": "vertical", "layout": {"height": "13em", "width": "4em"}, "readout_format": ".1f"}
        self.scores = [
            ipywidgets.FloatSlider(score, min=-3, max=3, step=0.1, description=str(i), **tall)
            for i, score in enumerate(scores, 1)
        ]
        wide = {
            "style": {"description_width": "4em"},
            "layout": {"width": "auto", "max_width": "26em"},
            "readout_format": ".3g",
        }
        self.gamma = ipywidgets.FloatLogSlider(gamma, min=-1, max=1, step=0.02, description="gamma", **wide)
        self.lam = ipywidgets.FloatSlider(lam, min=0, max=1, step=0.01, description="lam", **wide)
        self.picture = ipywidgets.Image(format="png", layout={"max_width": "100%", "width": "1100px"})
        self.readout = ipywidgets.HTML()
        self._figure = look.live_figure(11, 3.2)
        for slider in (*self.scores, self.gamma, self.lam):
            slider.observe(self.redraw, names="value")
        sides = ipywidgets.VBox([self.gamma, self.lam, self.readout], layout={"flex": "1 1 300px"})
        super().__init__([large(), ipywidgets.HBox([*self.scores, sides]), self.picture])
        self.redraw()

    def redraw(self, change=None) -> None:
        """Picture and read-out from the sliders as they stand."""
        scores = torch.tensor([slider.value for slider in self.scores], dtype=torch.float64)
        weights = all_mappings(scores, self.gamma.value, self.lam.value)
        self.picture.value = look.live_png(attention.draw_mappings(scores, weights, self._figure))
        zeros = ", ".join(f"{name} {(values == 0).sum()}" for name, values in weights.items())
        flat = "<br><b>fusedmax is flat here and has no gradient</b>"
        in_dead_zone = bool(dead(scores, gamma=self.gamma.value, lam=self.lam.value))
        self.readout.value = read_out(f"weights of exactly 0:<br>{zeros}" + flat * in_dead_zone)


def explore_mappings(
    scores: Sequence[float] = (0.5, 1.5, 1.3, -0.4, 0.9, 0.8), gamma: float = 1.0, lam: float = 0.1
) -> MappingExplorer:
    """An explorer of the attention mappings: the last expression of a cell shows it.

    Parameters
    ----------
    scores : 2 to 10 numbers in [-3, 3]
    gamma : float in [0.1, 10]
    lam : float in [0, 1]

    Raises
    ------
    ValueError
        If a value lies outside its slider's range.
    """
    if not 2 <= len(scores) <= 10:
        raise ValueError(f"scores: got {len(scores)} of them, 2 to 10 are accepted")
    for name, values, low, high in (("scores", scores, -3, 3), ("gamma", [gamma], 0.1, 10), ("lam", [lam], 0, 1)):
        for value in values:
            if not low <= value <= high:
                raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return MappingExplorer(scores, gamma, lam)
