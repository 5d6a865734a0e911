"""Explore the shapes of a HardKuma: sliders for its parameters, and one figure of its densities and masses."""

import html

import ipywidgets
import torch

from rationale.distributions import HardKuma
from rationale.explorers.common import enlarged_style, format_readout, image_field
from rationale.figures import VIEWS, draw_explorer, live_figure, live_png
from rationale.nn.gates import decide

# name -> (a, b, left, right), with one preset for every regime of the shape
PRESETS = {
    "U-shape, the paper's picture (0.5, 0.5)": (0.5, 0.5, -0.1, 1.1),
    "uniform (1, 1)": (1.0, 1.0, -0.1, 1.1),
    "bell (2, 2)": (2.0, 2.0, -0.1, 1.1),
    "bell, to the left (2, 5)": (2.0, 5.0, -0.1, 1.1),
    "rising (5, 1)": (5.0, 1.0, -0.1, 1.1),
    "falling (1, 3)": (1.0, 3.0, -0.1, 1.1),
    "mostly 0 (0.1, 1)": (0.1, 1.0, -0.1, 1.1),
    "mostly 1 (3, 0.2)": (3.0, 0.2, -0.1, 1.1),
    "nearly a coin (0.05, 0.08)": (0.05, 0.08, -0.1, 1.1),
    "almost certainly 0 (0.7, 20)": (0.7, 20.0, -0.1, 1.1),
    "almost no stretch (0.5, 0.5)": (0.5, 0.5, -0.01, 1.01),
    "wide stretch (0.5, 0.5)": (0.5, 0.5, -1.0, 2.0),
    "half-open, never exactly 1 (0.5, 0.5)": (0.5, 0.5, -0.2, 1.0),
}
NO_PRESET = ""  # the value of the menu of presets after a slider has been moved

# The values of the sliders for a and b: numbers of two or three digits, nearly evenly spaced on a log scale. A slider
# with a log scale would move 0.5 to 0.501 in the browser, which is no longer the value of the preset.
STEPS = [*range(100, 200, 5), *range(200, 1000, 10)]
SHAPES = [*(step * 10**decade / 10**4 for decade in range(4) for step in STEPS), 100.0]


def explore_shapes(a: float = 0.5, b: float = 0.5, left: float = -0.1, right: float = 1.1) -> "ShapeExplorer":
    """Make an explorer of HardKuma(a, b, left, right). The arguments are the values with which its sliders start.

    Parameters
    ----------
    a, b : float in [0.01, 100]
        The shapes.
    left, right : float, left in [-1, -0.01], right in [1, 2]
        The support of the stretched variable.

    Raises
    ------
    ValueError
        If a value is outside the range of its slider.
    """
    ranges = {"a": (a, 0.01, 100), "b": (b, 0.01, 100), "left": (left, -1, -0.01), "right": (right, 1, 2)}
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return ShapeExplorer(a, b, left, right)


class ShapeExplorer(ipywidgets.VBox):
    """Sliders and presets for a, b, left and right above the figure of `figures.draw_explorer`.

    Attributes
    ----------
    sliders : dict with the keys a, b, left, right
        Set a slider's `value` to move it; those for a and b have the values of `SHAPES`.
    preset : Dropdown
        Its value is a name in `PRESETS`, or `NO_PRESET` after a slider has been moved.
    view : ToggleButtons
        The panel beside the densities, one of `figures.VIEWS`.
    picture : Image
        `picture.value` holds the bytes of the PNG.
    readout : HTML
        `P(0)`, `P(1)`, `P(0<H<1)`, `E[H]`, `E[K]`, the entropy and the decision at test time.
    """

    def __init__(self, a: float, b: float, left: float, right: float):
        style = {"style": {"description_width": "60px"}, "layout": {"flex": "1 1 320px", "max_width": "530px"}}
        support = {"step": 0.01, "readout_format": ".3g", **style}
        self.sliders = {
            "a": ipywidgets.SelectionSlider(options=_shape_options(a), value=a, description="a", **style),
            "b": ipywidgets.SelectionSlider(options=_shape_options(b), value=b, description="b", **style),
            "left": ipywidgets.FloatSlider(left, min=-1, max=-0.01, description="left", **support),
            "right": ipywidgets.FloatSlider(right, min=1, max=2, description="right", **support),
        }
        options = [("choose a shape …", NO_PRESET), *((name, name) for name in PRESETS)]
        self.preset = ipywidgets.Dropdown(options=options, value=NO_PRESET, description="preset", **style)
        self.view = ipywidgets.ToggleButtons(
            options=VIEWS,
            description="beside",
            style={"description_width": "60px", "button_width": "96px"},
            layout={"flex": "1 1 320px", "max_width": "560px"},
        )
        self.picture, self.readout = image_field(1100), ipywidgets.HTML()
        self._figure = live_figure(11, 4.3)
        self._applying_preset = False
        self.preset.observe(self._apply_preset, names="value")
        self.view.observe(lambda _: self.redraw(), names="value")
        for slider in self.sliders.values():
            slider.observe(self._slider_moved, names="value")
        box = ipywidgets.HBox
        rows = (
            box([self.sliders["a"], self.sliders["b"]]),
            box([self.sliders["left"], self.sliders["right"]]),
        )
        super().__init__([enlarged_style(), box([self.preset, self.view]), *rows, self.picture, self.readout])
        self.redraw()

    def redraw(self) -> None:
        """Update the picture and the read-out to the values of the sliders."""
        values = {name: slider.value for name, slider in self.sliders.items()}
        self.picture.value = live_png(draw_explorer(**values, fig=self._figure, views=[self.view.value]))
        self.readout.value = _format_numbers(describe_shape(**values))

    def _slider_moved(self, change) -> None:
        only_rounded = abs(change.new - change.old) < 1e-9  # a browser rounds -0.1 to -0.09999999999999987
        if not (self._applying_preset or only_rounded):
            self.preset.value = NO_PRESET
            self.redraw()

    def _apply_preset(self, change) -> None:
        if change.new == NO_PRESET:
            return
        self._applying_preset = True
        try:
            for slider, value in zip(self.sliders.values(), PRESETS[change.new], strict=True):
                slider.value = value
        finally:
            self._applying_preset = False
        self.redraw()


def describe_shape(a: float, b: float, left: float = -0.1, right: float = 1.1) -> dict[str, float]:
    """The statistics of HardKuma(a, b, left, right) that the explorer shows, computed in float64.

    Source: eqs. (H2)-(H9), notebooks/02_hardkuma.py; Bastings et al. 2019, sec. 3 and 5.

    Returns
    -------
    name -> number
        `P(0)`, `P(1)`, `P(0<H<1)` (masses), `E[H]`, `E[K]`, `entropy` (in nats, of the masses and the density
        together) and `decision`, the value of the gate at test time according to the paper's rule.
    """
    gate = HardKuma(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64), left, right)
    return {
        "P(0)": gate.prob_zero.item(),
        "P(1)": gate.prob_one.item(),
        "P(0<H<1)": gate.prob_interior.item(),
        "E[H]": gate.mean.item(),
        "E[K]": gate.base.mean.item(),
        "entropy": gate.entropy().item(),
        "decision": decide(gate, rule="argmax").item(),
    }


def _format_numbers(numbers: dict[str, float]) -> str:
    """The statistics of `describe_shape` as HTML."""
    decision = numbers["decision"]
    most_probable = "the interval, so the value is E[K]" if 0 < decision < 1 else f"{{{decision:.0f}}}"
    cells = [f"{html.escape(name)} = <b>{value:.3g}</b>" for name, value in numbers.items() if name != "decision"]
    return format_readout(
        f"{' &nbsp; '.join(cells)} nats<br>at test time: <b>z = {decision:.3g}</b> (most probable: {most_probable})"
    )


def _shape_options(start: float) -> list[tuple[str, float]]:
    """(label, value) for each value of the slider for a or b: those in `SHAPES`, and the one with which it starts."""
    return [(f"{shape:.3g}", shape) for shape in sorted({*SHAPES, start})]
