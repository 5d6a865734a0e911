"""Explore the shapes of a HardKuma: sliders, a point to drag, and pictures of densities, masses and one draw.

The gates that a trained model puts on the words of a text can be shown on the same map, after each epoch.
"""

import json
from pathlib import Path
from typing import Any

import torch
import traitlets

from rationale.distributions import HardKuma
from rationale.errors import BadInput
from rationale.explorers.embedded import Embedded, module
from rationale.nn.gates import HardKumaGate
from rationale.nn.rules import decide
from rationale.training.epochs import EPOCHS_FILE

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


def explore_shapes(
    a: float = 0.5, b: float = 0.5, left: float = -0.1, right: float = 1.1, run: Path | str | None = None
) -> "ShapeExplorer":
    """Make an explorer of HardKuma(a, b, left, right). The arguments are the values with which it starts.

    Parameters
    ----------
    a, b : float in [0.01, 100]
        The shapes.
    left, right : float, left in [-1, 0], right in [1, 2]
        The support of the stretched variable.
    run : Path, optional
        A folder with `epochs.json` of HardKuma gates, such as that of a run of `10_first_rationale`. The map then shows
        the gates of the words of its texts.

    Raises
    ------
    ValueError
        If a value is outside the range of its slider.
    BadInput
        If the run has saved no HardKuma gates.
    """
    ranges = {"a": (a, 0.01, 100), "b": (b, 0.01, 100), "left": (left, -1, 0), "right": (right, 1, 2)}
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise ValueError(f"{name}: got {value}, [{low}, {high}] is accepted")
    return ShapeExplorer(a=a, b=b, left=left, right=right, **({} if run is None else trained_gates(run)))


def trained_gates(folder: Path | str) -> dict[str, Any]:
    """What the explorer shows of a training: `texts`, `epochs`, `support`, and the number of the last `epoch`.

    Raises
    ------
    BadInput
        If the folder has no `epochs.json`, or one without the shapes of HardKuma gates.
    """
    file = Path(folder) / EPOCHS_FILE
    if not file.exists():
        raise BadInput(f"{folder}: no {EPOCHS_FILE}; a run of 10_first_rationale is accepted")
    saved = json.loads(file.read_text("utf-8"))
    rows = sorted((int(number), gates) for number, gates in saved["epochs"].items())
    if not rows or not all("a" in gates for _, gates in rows):
        raise BadInput(f"{file}: has no shapes; a run with `model: hardkuma` is accepted, made by this version")
    epochs = [{"epoch": number} | {name: gates[name] for name in ("a", "b", "open", "z")} for number, gates in rows]
    support = [rows[-1][1]["left"], rows[-1][1]["right"]]
    return {"texts": saved["texts"], "epochs": epochs, "support": support, "epoch": len(epochs)}


class ShapeExplorer(Embedded):
    """Sliders, presets and pictures of one or two gates, computed in the browser by `shapes.js`.

    Attributes
    ----------
    a, b, left, right : float
        The gate. A browser that moves a slider changes them here, and a change here moves the slider.
    a2, b2 : float
        The shapes of the second gate, which has the same support.
    second : bool
        Whether the second gate is shown.
    u : float in (0, 1)
        The uniform number of the draw that is followed from K to T and to H.
    view : one of `VIEWS`
        The picture beside the map and the densities.
    texts, epochs, support : list
        Of a trained model: `tokens`, `gold` and `title` of each text; the shapes `a` and `b`, the probability `open`
        that a gate is not 0 and its value `z` at test time, per text and token, after each epoch; and the ends of the
        support. Empty without a model.
    text, epoch, word : int
        Which of its gates are drawn on the map, and which of them the point stands on. Texts count from 0, epochs and
        words from 1, and word 0 is none.
    """

    VIEWS = ("draw", "cdf", "Beta twin", "slopes")

    _esm = module("gates", "shapes")
    a = traitlets.Float(0.5).tag(sync=True)
    b = traitlets.Float(0.5).tag(sync=True)
    a2 = traitlets.Float(2.0).tag(sync=True)
    b2 = traitlets.Float(2.0).tag(sync=True)
    left = traitlets.Float(-0.1).tag(sync=True)
    right = traitlets.Float(1.1).tag(sync=True)
    second = traitlets.Bool(False).tag(sync=True)
    u = traitlets.Float(0.3).tag(sync=True)
    view = traitlets.Enum(VIEWS, "draw").tag(sync=True)
    views = traitlets.List(list(VIEWS), read_only=True).tag(sync=True)
    presets = traitlets.Dict({name: list(shape) for name, shape in PRESETS.items()}, read_only=True).tag(sync=True)
    texts = traitlets.List().tag(sync=True)
    epochs = traitlets.List().tag(sync=True)
    support = traitlets.List().tag(sync=True)
    text = traitlets.Int(0).tag(sync=True)
    epoch = traitlets.Int(1).tag(sync=True)
    word = traitlets.Int(0).tag(sync=True)
    smallest = traitlets.Float(HardKumaGate.MIN, read_only=True).tag(sync=True)  # shape at a raw output of -inf


def describe_shape(a: float, b: float, left: float = -0.1, right: float = 1.1) -> dict[str, float]:
    """The statistics of HardKuma(a, b, left, right) that the explorer shows, computed in float64.

    Source: eqs. (H2)-(H9), notebooks/03_hardkuma.py; Bastings et al. 2019, sec. 3 and 5.

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
