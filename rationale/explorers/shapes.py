"""Interactive pictures for notebooks: sliders in front of the pure functions of `rationale.figures`.

A widget here redraws one reused `Figure` into the bytes of an `ipywidgets.Image`. That needs no pyplot and
no extra package, does not flicker, and can be tested without a browser: set a slider's `value`, look at
`picture.value`.
"""

import html

import ipywidgets
import torch

from rationale.distributions.rectified import HardKuma
from rationale.explorers.common import large, read_out
from rationale.figures import distributions, look
from rationale.nn.gates import decide

# name -> (a, b, left, right): one for every regime of the shape
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
OWN = ""  # the preset's value once a slider has left it

# What the sliders of a and b go through: every number of two digits. On a log scale a slider of floats would snap 0.5
# to 0.501 in the browser and so leave the preset.
STEPS = [*range(100, 200, 5), *range(200, 1000, 10)]
SHAPES = [*(step * 10**decade / 10**4 for decade in range(4) for step in STEPS), 100.0]


def describe_shape(a: float, b: float, left: float = -0.1, right: float = 1.1) -> dict[str, float]:
    """The numbers of HardKuma(a, b, left, right) that the explorer shows, computed in float64.

    Source: eqs. (H2)-(H9), notebooks/02_hardkuma.py; Bastings et al. 2019, sec. 3 and 5.

    Returns
    -------
    name -> number
        `P(0)`, `P(1)`, `P(0<H<1)` (masses), `E[H]`, `E[K]`, `entropy` (nats, of masses and density
        together) and `decision`, the value of the gate at test time by the paper's rule.
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


def _in_words(numbers: dict[str, float]) -> str:
    """The numbers of `describe_shape` as HTML."""
    decision = numbers["decision"]
    likeliest = "the interval, so the value is E[K]" if 0 < decision < 1 else f"{{{decision:.0f}}}"
    cells = [f"{html.escape(name)} = <b>{value:.3g}</b>" for name, value in numbers.items() if name != "decision"]
    return read_out(
        f"{' &nbsp; '.join(cells)} nats<br>at test time: <b>z = {decision:.3g}</b> (likeliest: {likeliest})"
    )


def _shapes_with(start: float) -> list[tuple[str, float]]:
    return [(f"{shape:.3g}", shape) for shape in sorted({*SHAPES, start})]


class ShapeExplorer(ipywidgets.VBox):
    """Sliders and presets for a, b, left, right over the picture of `figures.draw_explorer`.

    Attributes
    ----------
    sliders : dict of a, b, left, right
        Set a slider's `value` to move it; those of a and b go through `SHAPES`, nearly a log scale.
    preset : Dropdown
        Its value is a name of `PRESETS`, or `OWN` once a slider has left the preset.
    view : ToggleButtons
        What stands beside the densities, one of `figures.VIEWS`.
    picture : Image
        `picture.value` are the bytes of the PNG.
    readout : HTML
        `P(0)`, `P(1)`, `P(0<H<1)`, `E[H]`, `E[K]`, entropy and the decision at test time.
    """

    def __init__(self, a: float, b: float, left: float, right: float):
        style = {"style": {"description_width": "60px"}, "layout": {"flex": "1 1 320px", "max_width": "530px"}}
        ends = {"step": 0.01, "readout_format": ".3g", **style}
        self.sliders = {
            "a": ipywidgets.SelectionSlider(options=_shapes_with(a), value=a, description="a", **style),
            "b": ipywidgets.SelectionSlider(options=_shapes_with(b), value=b, description="b", **style),
            "left": ipywidgets.FloatSlider(left, min=-1, max=-0.01, description="left", **ends),
            "right": ipywidgets.FloatSlider(right, min=1, max=2, description="right", **ends),
        }
        options = [("choose a shape …", OWN), *((name, name) for name in PRESETS)]
        self.preset = ipywidgets.Dropdown(options=options, value=OWN, description="preset", **style)
        self.view = ipywidgets.ToggleButtons(
            options=distributions.VIEWS,
            description="beside",
            style={"description_width": "60px", "button_width": "96px"},
            layout={"flex": "1 1 320px", "max_width": "560px"},
        )
        self.picture = ipywidgets.Image(format="png", layout={"max_width": "100%", "width": "1100px"})
        self.readout = ipywidgets.HTML()
        self._figure = look.live_figure(11, 4.3)
        self._setting_many = False
        self.preset.observe(self._set_preset, names="value")
        self.view.observe(lambda _: self.redraw(), names="value")
        for slider in self.sliders.values():
            slider.observe(self._slider_moved, names="value")
        box = ipywidgets.HBox
        rows = (
            box([self.sliders["a"], self.sliders["b"]]),
            box([self.sliders["left"], self.sliders["right"]]),
        )
        super().__init__([large(), box([self.preset, self.view]), *rows, self.picture, self.readout])
        self.redraw()

    def redraw(self) -> None:
        """Picture and read-out from the sliders as they stand."""
        values = {name: slider.value for name, slider in self.sliders.items()}
        drawn = distributions.draw_explorer(**values, fig=self._figure, views=[self.view.value])
        self.picture.value = look.live_png(drawn)
        self.readout.value = _in_words(describe_shape(**values))

    def _slider_moved(self, change) -> None:
        answered = abs(change.new - change.old) < 1e-9  # a browser rounds -0.1 to -0.09999999999999987
        if not (self._setting_many or answered):
            self.preset.value = OWN
            self.redraw()

    def _set_preset(self, change) -> None:
        if change.new == OWN:
            return
        self._setting_many = True
        try:
            for slider, value in zip(self.sliders.values(), PRESETS[change.new], strict=True):
                slider.value = value
        finally:
            self._setting_many = False
        self.redraw()


def explore_shapes(a: float = 0.5, b: float = 0.5, left: float = -0.1, right: float = 1.1) -> ShapeExplorer:
    """An explorer of HardKuma(a, b, left, right): the last expression of a cell shows it.

    Parameters
    ----------
    a, b : float in [0.01, 100]
        Shapes to start from.
    left, right : float, left in [-1, -0.01], right in [1, 2]
        Support of the stretched variable to start from.

    Raises
    ------
    ValueError
        If a value lies outside its slider's range.
    """
    ranges = {"a": (a, 0.01, 100), "b": (b, 0.01, 100), "left": (left, -1, -0.01), "right": (right, 1, 2)}
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return ShapeExplorer(a, b, left, right)
