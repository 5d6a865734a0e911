"""Measure whether draws need the words that a mask can spare: `python -m tools.spare_words RUN...`.

Section 4 of `24_read_probes` compares masks that were fitted to single sentences with the smallest masks that exact
search finds. A mask keeps the words with P(z != 0) > 1/2. Some masks meet the margin and keep more words than they
need. Why? The fit holds the divergence of *draws* at the margin, and in a draw other words are missing. So the draws
may need the words that the mask can spare. If this is so, the draws break the margin once these words are closed.

We search the smallest part of such a mask that meets the margin by itself. The words beside it are the *spare words*.
Then we draw from the fitted gates, with the spare words as they are and with the spare words closed. It writes one row
per run and kind of mask to outputs/reference/spare_words.csv. A run is a finished run of 14_train_probes whose texts
can be searched (`make sweep SWEEP=probes_search`). Rows of runs that are not given are kept.
"""

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rationale.data.batches import Batch
from rationale.errors import BadInput, command
from rationale.explain import divergence, mask_divergence, smallest_masks
from rationale.explain.attributions import free_gates
from rationale.explain.diffmask import LEFT, RIGHT, TEMPERATURE
from rationale.explain.frozen import FrozenModel
from rationale.explain.search import select_rows
from rationale.runs import saved
from rationale.runs.committed import SPARE_WORDS
from rationale.runs.origin import notebook_of, read_environment
from rationale.training import build_probed_task, freeze, load_weights
from rationale.training.settings import ProbingSettings
from tools import command_line
from tools.csv_rows import write_rows_of_runs

NOTEBOOK = "14_train_probes"
ESTIMATORS = {"masks": "relaxed", "masks_by_score": "score"}  # of the methods that are compared
NUM_DRAWS = 400


def spare_words(
    frozen: FrozenModel, batch: Batch, kept: Tensor, margin: float, longest: int = 16
) -> tuple[Tensor, Tensor]:
    """Which masks meet the margin and can spare words, bool [B], and these words, bool [B, T].

    The first of the smallest parts of a mask that meet the margin is what it needs, and the other words are spare. The
    masks are those of the first layer, and they keep at most `longest` words.
    """
    meets = mask_divergence(frozen, batch, 0, kept) <= margin
    spare = torch.zeros_like(kept)
    rows = meets.nonzero().flatten()
    if not len(rows):
        return spare.any(1), spare
    parts = smallest_masks(frozen, select_rows(batch, rows), 0, longest=longest, margin=margin, among=kept[rows])
    for row, needed in zip(rows.tolist(), parts, strict=True):
        spare[row, kept[row].nonzero().flatten()[~needed[0]]] = True
    return spare.any(1), spare


@torch.no_grad()
def divergence_of_draws(frozen: FrozenModel, batch: Batch, gates: Any, closed: Tensor) -> Tensor:
    """The mean divergence of draws whose gates are 0 where `closed` [B, T] is true, [B], in nats."""
    logits, states = frozen.read(batch)
    total = logits.new_zeros(len(logits))
    for _ in range(NUM_DRAWS):
        z = gates.sample().masked_fill(closed, 0.0)
        total += divergence(logits, frozen.masked(batch, 0, z, states[0].new_zeros(())))
    return total / NUM_DRAWS


def gates_with(keep: Tensor, estimator: str) -> Any:
    """The gates of `masks` with P(z != 0) = `keep`, rounded to at least 0.0001 and at most 0.9999."""
    raw = torch.logit(keep.clamp(1e-4, 1 - 1e-4))
    return free_gates(raw + (TEMPERATURE * math.log(-LEFT / RIGHT) if estimator == "relaxed" else 0.0), estimator)


def rows_of(run: Path) -> list[dict[str, Any]]:
    """One row per kind of mask of a finished run.

    Raises
    ------
    BadInput
        If it is a run of another notebook, or one without such masks or whose texts cannot be searched.
    """
    p = ProbingSettings.recorded(saved.read_parameters(run)) if notebook_of(run) == NOTEBOOK else None
    methods = [name for name in ESTIMATORS if p and name in p.methods]
    if not (p and methods and p.searchable):
        accepted = f"a run of {NOTEBOOK} with searchable and with masks among its methods"
        raise BadInput(f"{run}: its masks cannot be compared with exact search; accepted is {accepted}")
    task, texts = build_probed_task(p), saved.read_explained(run, "test")
    frozen = freeze(load_weights(task.model, run).requires_grad_(False).eval())
    batch, rows = task.batches["test"].rows(torch.arange(len(texts))), []
    torch.manual_seed(p.seed)
    for method in methods:
        keep = torch.zeros(batch.mask.shape)
        for row, layers in enumerate(texts[method]):
            keep[row, : len(layers[0])] = torch.tensor(layers[0])
        larger, spare = spare_words(frozen, batch, keep > 0.5, p.margin, p.searchable)
        there, spare = select_rows(batch, larger.nonzero().flatten()), spare[larger]
        row = {"run": f"{NOTEBOOK}/{run.resolve().name}", "method": method, "margin": p.margin}
        row |= {"start": p.multiplier_init, "seed": p.seed, "texts": len(texts), "larger": int(larger.sum())}
        if len(spare):  # otherwise there is nothing to measure, and the cells stay empty
            row |= {"spare": spare.sum(1).double().mean().item()}
            gates = gates_with(keep[larger], ESTIMATORS[method])
            for name, closed in (("drawn", torch.zeros_like(spare)), ("closed", spare)):
                found = divergence_of_draws(frozen, there, gates, closed)
                row |= {f"divergence_{name}": found.mean().item(), f"meet_{name}": int((found <= p.margin).sum())}
        facts = read_environment(run)
        rows.append({name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
                    | {name: facts[name] for name in ("commit", "cpu", "torch")})  # fmt: skip
    return rows


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the rows of the runs, and print where the file is."""
    torch.set_num_threads(1)
    parser, accepted = command_line("spare_words", __doc__), f"a finished run of {NOTEBOOK}"
    key, order = ["run", "method"], ["margin", "start", "seed", "method"]
    return write_rows_of_runs(parser, arguments, rows_of, SPARE_WORDS, key, order, accepted)


if __name__ == "__main__":
    sys.exit(main())
