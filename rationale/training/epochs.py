"""What a training does to a few texts: their gates after each epoch, saved in the folder of the run."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from rationale.data.batches import Batches
from rationale.data.example import Example
from rationale.distributions import HardKuma
from rationale.files import write_text
from rationale.models.protocol import RationaleModel
from rationale.training.random_state import random_state_kept

EPOCHS_FILE = "epochs.json"


class EpochRecorder:
    """Saves the gates of some texts after each epoch to `folder/epochs.json`.

    The file has `target`, the share of words to select, or null; `texts`, a list of {tokens, gold, title}; and
    `epochs`, {epoch: {open, z, answers}}, where `open` has the probability that a gate is not 0 and `z` its value at
    test time, a list per text. Of HardKuma gates, an epoch also has the shapes `a` and `b`, and the support `left` and
    `right`. A run that is continued keeps the epochs that the file has; one that begins anew in the same folder keeps
    none of them.

    Parameters
    ----------
    model : RationaleModel
    texts : Batches
        The texts to watch.
    target : float or None
    folder : Path
    """

    def __init__(self, model: RationaleModel[Any], texts: Batches, target: float | None, folder: Path):
        self.model, self.texts, self.file = model, texts, folder / EPOCHS_FILE
        self.saved: dict[str, Any] = {"target": target, "texts": [_described(e) for e in texts.examples], "epochs": {}}
        with suppress(OSError, ValueError, KeyError, TypeError):  # no file, or a damaged one, which is written anew
            earlier = json.loads(self.file.read_text("utf-8"))
            if {**earlier, "epochs": {}} == self.saved:
                self.saved["epochs"] = dict(earlier["epochs"])

    @torch.no_grad()
    def __call__(self, epoch: int) -> None:
        """Save the gates that the model, which is in evaluation mode, has after an epoch."""
        names = ("open", "z", "answers", "a", "b")
        gates: dict[str, Any] = {name: [None] * len(self.texts.examples) for name in names}
        with random_state_kept(self.texts.device):  # a rule may draw
            outputs = [(batch, self.model(batch.tokens, batch.mask)) for batch in self.texts.in_order()]
        for batch, output in outputs:
            is_open = (output.z != 0).double() if output.gates is None else output.gates.prob_nonzero
            answers = self.model.head.answer(output.prediction.cpu())
            for i, row in enumerate(batch.rows.tolist()):
                real = batch.mask[i]
                if isinstance(output.gates, HardKuma):
                    gates["a"][row], gates["b"][row] = _short(output.gates.a[i][real]), _short(output.gates.b[i][real])
                    gates["left"], gates["right"] = output.gates.left, output.gates.right
                gates["open"][row], gates["z"][row] = _short(is_open[i][real]), _short(output.z[i][real])
                gates["answers"][row] = ", ".join(f"{value:.3g}" for value in answers[i].double().reshape(-1).tolist())
        if "left" not in gates:  # gates without shapes, or none
            del gates["a"], gates["b"]
        before = {str(number) for number in range(1, epoch)}  # a later one is of a training that was not continued
        kept = {number: saved for number, saved in self.saved["epochs"].items() if number in before}
        self.saved["epochs"] = kept | {str(epoch): gates}
        write_text(self.file, json.dumps(self.saved))


def _described(example: Example) -> dict[str, Any]:
    gold: Sequence = example.rationale if example.rationale is not None else [False] * len(example.tokens)
    label = example.label if isinstance(example.label, tuple | list) else [example.label]
    title = ", ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in label)
    return {"tokens": list(example.tokens), "gold": [int(flag) for flag in gold], "title": f"label {title}"}


def _short(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.3g}") for value in values.double().cpu().tolist()]
