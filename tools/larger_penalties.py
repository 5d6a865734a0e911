"""Read the attention of trained models again with other penalties: `python -m tools.larger_penalties RUN...`.

Fusedmax gives neighbours the same weight if their scores lie close together, compared with its penalty. Section 2 of
`23_read_nli` asks why it groups so few words. Training with a larger penalty gives other scores, so it cannot tell us
whether the scores are the reason. So here the scores stay those of the trained model, and only the penalty changes.

It writes one row per run and penalty to outputs/reference/larger_penalties.csv, each for all test pairs: `grouped`, of
the words that are attended to, in pairs whose hypothesis is contradicted, the share with the weight of a neighbour;
`open`, the share of cells with a weight other than 0; `even`, the share of rows of at least two words in which all
words have the same weight; and the accuracy. A run is a finished run of 13_train_nli with fusedmax. Rows of runs that
are not given are kept.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationale.data.batches import PairBatches
from rationale.data.example import Example
from rationale.data.read import read_alignment
from rationale.errors import BadInput, command
from rationale.models.aligner import Aligner
from rationale.objectives import RationaleObjective
from rationale.runs import saved
from rationale.runs.committed import LARGER_PENALTIES
from rationale.runs.origin import notebook_of, read_environment
from rationale.training.evaluation import evaluate_extractor
from rationale.training.groups import groups_by_label
from rationale.training.settings import AlignmentSettings
from tools import command_line
from tools.csv_rows import write_rows_of_runs

NOTEBOOK, MODEL = "13_train_nli", "fusedmax"
PENALTIES = (0.1, 0.2, 0.4, 0.8, 1.6)  # the paper's, and each twice the one before
CONTRADICTION = "contradiction"


def even_rows(z: Sequence[Tensor], pairs: Sequence[Example]) -> float:
    """The share of rows of at least two words in which all words have the same weight."""
    even = rows = 0
    for weights, pair in zip(z, pairs, strict=True):
        of_word = weights.view(len(pair.tokens), -1)
        if of_word.shape[1] > 1:
            even, rows = even + int((of_word == of_word[:, :1]).all(1).sum()), rows + len(of_word)
    return even / max(1, rows)


def read_with(model: Aligner, penalties: Iterable[float], batches: PairBatches, label: int) -> Iterator[dict[str, Any]]:
    """What the model does with its own scores and each of the `penalties`; `label` is that of contradicted pairs.

    Afterwards the model has its own penalty again.
    """
    mapping, pairs = model.selector.mapping, batches.examples
    own = mapping.lam
    for penalty in penalties:
        mapping.lam = penalty
        found = evaluate_extractor(model, batches, RationaleObjective())
        grouped = groups_by_label(found.z, pairs)[f"segments_{label}"]
        shares = {"grouped": grouped, "open": found.metrics["rate_selected"], "even": even_rows(found.z, pairs)}
        yield {"penalty": penalty, **shares, "accuracy": found.metrics["accuracy"]}
    mapping.lam = own


def rows_of(run: Path) -> list[dict[str, Any]]:
    """One row per penalty of a finished run.

    Raises
    ------
    BadInput
        If it is a run of another notebook, of another attention, or on pairs without the label "contradiction".
    """
    if notebook_of(run) != NOTEBOOK or saved.read_parameters(run)["model"] != MODEL:
        raise BadInput(f"{run}: it has no penalty to change; accepted is a run of {NOTEBOOK} with {MODEL}")
    loaded, p = saved.load_run(run), AlignmentSettings.recorded(saved.read_parameters(run))
    if CONTRADICTION not in (loaded.labels or ()):
        labels = ", ".join(loaded.labels or ["none"])
        raise BadInput(f"{run}: its labels are {labels}; accepted: a run on pairs with the label {CONTRADICTION}")
    test = read_alignment(p).splits["test"]
    batches = PairBatches(test, loaded.vocabulary, p.batch_size)
    facts, name = read_environment(run), f"{NOTEBOOK}/{run.resolve().name}"
    made = {fact: facts[fact] for fact in ("commit", "cpu", "torch")}
    found = read_with(loaded.model, PENALTIES, batches, loaded.labels.index(CONTRADICTION))
    return [{"run": name, "seed": p.seed} | {k: round(v, 4) for k, v in row.items()} | made for row in found]


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the rows of the runs, and print where the file is."""
    torch.set_num_threads(1)
    parser, accepted = command_line("larger_penalties", __doc__), f"a finished run of {NOTEBOOK} with {MODEL}"
    key, order = ["run", "penalty"], ["seed", "penalty"]
    return write_rows_of_runs(parser, arguments, rows_of, LARGER_PENALTIES, key, order, accepted)


if __name__ == "__main__":
    sys.exit(main())
