"""Explore attention mappings: sliders for the scores, and one figure of the weights."""

from collections.abc import Sequence

import ipywidgets
import torch

from rationale.explorers.common import enlarged_style, format_readout, image_field
from rationale.figures import draw_mappings, live_figure, live_png
from rationale.nn.sparse_attention import all_mappings, in_dead_zone


def explore_mappings(
    scores: Sequence[float] = (0.5, 1.5, 1.3, -0.4, 0.9, 0.8), gamma: float = 1.0, lam: float = 0.1
) -> "MappingExplorer":
    """Make an explorer of the attention mappings. The arguments are the values with which its sliders start.

    Parameters
    ----------
    scores : 2 to 10 numbers in [-3, 3]
    gamma : float in [0.1, 10]
    lam : float in [0, 1]

    Raises
    ------
    ValueError
        If a value is outside the range of its slider.
    """
    if not 2 <= len(scores) <= 10:
        raise ValueError(f"scores: got {len(scores)} scores, 2 to 10 are accepted")
    for name, values, low, high in (("scores", scores, -3, 3), ("gamma", [gamma], 0.1, 10), ("lam", [lam], 0, 1)):
        for value in values:
            if not low <= value <= high:
                raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return MappingExplorer(scores, gamma, lam)


class MappingExplorer(ipywidgets.VBox):
    """Sliders for the scores, gamma and lam above the figure of `figures.draw_mappings`.

    Attributes
    ----------
    scores : list of FloatSlider
    gamma, lam : FloatLogSlider, FloatSlider
        The strength of the regularisation, and the price of fusedmax and oscarmax.
    picture : Image
    readout : HTML
        The number of weights that are 0, and whether fusedmax is in its dead zone.
    """

    def __init__(self, scores: Sequence[float], gamma: float = 1.0, lam: float = 0.1):
        vertical = {"orientation": "vertical", "layout": {"height": "13em", "width": "4em"}, "readout_format": ".1f"}
        self.scores = [
            ipywidgets.FloatSlider(score, min=-3, max=3, step=0.1, description=str(i), **vertical)
            for i, score in enumerate(scores, 1)
        ]
        horizontal = {
            "style": {"description_width": "4em"},
            "layout": {"width": "auto", "max_width": "26em"},
            "readout_format": ".3g",
        }
        self.gamma = ipywidgets.FloatLogSlider(gamma, min=-1, max=1, step=0.02, description="gamma", **horizontal)
        self.lam = ipywidgets.FloatSlider(lam, min=0, max=1, step=0.01, description="lam", **horizontal)
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure = live_figure(11, 3.2)
        for slider in (*self.scores, self.gamma, self.lam):
            slider.observe(self.redraw, names="value")
        sides = ipywidgets.VBox([self.gamma, self.lam, self.readout], layout={"flex": "1 1 300px"})
        super().__init__([enlarged_style(), ipywidgets.HBox([*self.scores, sides]), self.picture])
        self.redraw()

    def redraw(self, change=None) -> None:
        """Update the picture and the read-out to the values of the sliders."""
        scores = torch.tensor([slider.value for slider in self.scores], dtype=torch.float64)
        weights = all_mappings(scores, self.gamma.value, self.lam.value)
        self.picture.value = live_png(draw_mappings(scores, weights, self._figure))
        zeros = ", ".join(f"{name} {(values == 0).sum()}" for name, values in weights.items())
        is_flat = bool(in_dead_zone(scores, gamma=self.gamma.value, lam=self.lam.value))
        warning = "<br><b>fusedmax is flat here and has no gradient</b>" if is_flat else ""
        self.readout.value = format_readout(f"weights of exactly 0:<br>{zeros}{warning}")
