"""Explore a training: a slider for the epoch, which colours the words of a text, and moves the rate and multiplier."""

import json
import math
from pathlib import Path

import traitlets

from rationale.errors import BadInput
from rationale.explorers.embedded import Embedded, module
from rationale.runs.saved import read_history
from rationale.training.epochs import EPOCHS_FILE

MULTIPLIER = "selection.multiplier"  # column of history.csv


def explore_training(folder: Path | str, text: int = 0) -> "TrainingExplorer":
    """Make an explorer of a finished run that has saved the gates of some dev texts after each epoch.

    Parameters
    ----------
    folder : Path
        The folder of the run, with `epochs.json` and `history.csv`.
    text : int
        The number of the text to begin with.

    Raises
    ------
    ValueError
        If there is no text of this number.
    BadInput
        If the run has saved no gates.
    """
    file = Path(folder) / EPOCHS_FILE
    if not file.exists():
        raise BadInput(f"{folder}: no {EPOCHS_FILE}; a run of 10_first_rationale is accepted")
    saved = json.loads(file.read_text("utf-8"))
    if not 0 <= text < len(saved["texts"]):
        raise ValueError(f"text: got {text}, accepted are 0 to {len(saved['texts']) - 1}")
    rows = {int(row["epoch"]): row for row in read_history(folder).to_dict("records")}
    epochs = [
        {
            "epoch": int(number),
            "open": gates["open"],
            "z": gates["z"],
            "answers": gates["answers"],
            "selected": rows[int(number)]["dev_rate_selected"],
            "expected": rows[int(number)]["dev_rate_expected"],
            "multiplier": _or_none(rows[int(number)].get(MULTIPLIER)),
        }
        for number, gates in sorted(saved["epochs"].items(), key=lambda item: int(item[0]))
        if int(number) in rows
    ]
    if not epochs:
        raise BadInput(f"{file}: has the gates of no epoch; a run of 10_first_rationale is accepted")
    best = json.loads((Path(folder) / "metrics.json").read_text("utf-8"))["best_epoch"]
    return TrainingExplorer(
        texts=saved["texts"], epochs=epochs, target=saved["target"], best=best, epoch=len(epochs), text=text
    )


def _or_none(value: float | None) -> float | None:
    """A number of a table; a cell without a number is NaN, which JSON does not have."""
    return None if value is None or math.isnan(value) else float(value)


class TrainingExplorer(Embedded):
    """A slider for the epoch, a text and two pictures, drawn in the browser by `training.js`.

    Attributes
    ----------
    texts : list of dict
        `tokens`, `gold` (0 or 1 per token) and `title` of each text.
    epochs : list of dict
        For each epoch: the gates (`open`, the probability that a gate is not 0, and `z`, its value at test time, per
        text and token), the `answers` as texts, the rates `selected` and `expected`, and the `multiplier` or None.
    target : float or None
        The share of words that the constraint asks for.
    best : int
        The epoch that was kept.
    epoch, text : int
        What is shown; epochs count from 1 and texts from 0.
    """

    _esm = module("training")
    texts = traitlets.List().tag(sync=True)
    epochs = traitlets.List().tag(sync=True)
    target = traitlets.Float(None, allow_none=True).tag(sync=True)
    best = traitlets.Int(1).tag(sync=True)
    epoch = traitlets.Int(1).tag(sync=True)
    text = traitlets.Int(0).tag(sync=True)
