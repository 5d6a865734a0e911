"""Count the rows of attention that get no gradient in the first epoch: `python -m tools.attention_rows`.

If a row of attention weights has all weight on one word, its Jacobian is 0 ((A10), notebooks/40_sparse_attention.py).
So is that of a row with one group of equal weights. No gradient reaches the scores of such a row. Are there many of
them where a sparse map learns badly? This tool trains the encoder-decoders of 15_train_seq2seq on captions from two
languages, with a sparse map and with two values of gamma, for an epoch. After some of the steps it reads dev captions
with the model, each written word given the reference before it, and counts the rows. The steps are those of the run
with the same settings, because the counting draws nothing at random.

It writes one row per counted step to outputs/reference/attention_rows.csv, and leaves the rows of other maps there. It
needs Multi30k, and takes a few minutes per map, language and gamma on one core.
"""

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from rationale.data.batches import Batch
from rationale.data.read import read_generation
from rationale.data.targets import Targets
from rationale.errors import command, require_known
from rationale.models.seq2seq import Seq2Seq
from rationale.objectives.words import WordLoss
from rationale.runs.committed import ATTENTION_ROWS, reference_folder
from rationale.runs.environment import describe_environment
from rationale.runs.parameters import merge
from rationale.runs.workspace import notebook_path
from rationale.training.generation import prepare_seq2seq
from rationale.training.loop import build_optimizer
from rationale.training.settings import GenerationSettings
from tools import command_line
from tools.csv_rows import replace_rows

NOTEBOOK = "15_train_seq2seq"
MAPS = ("sparsemax", "fusedmax", "oscarmax", "sq_pnorm_max")  # of params/attention/
LANGUAGES, GAMMAS = ("de", "fr"), (1, 4)
STEPS = (*range(0, 100, 10), *range(100, 451, 25))  # after which rows are counted; an epoch has 454 steps
NUM_TEXTS = 256  # of dev


@torch.no_grad()
def shares_of_rows(model: Seq2Seq, batches: Sequence[Batch]) -> dict[str, float]:
    """Of all rows, the share with all weight on one word, and the share whose scores get no gradient.

    A row has the weights of one written word, and its scores have gradient 0 if its Jacobian is 0.
    """
    one_hot, fixed, num_rows = torch.zeros(()), torch.zeros(()), 0
    model.eval()
    for batch in batches:
        sides = batch.tokens
        _, weights = model.decode(sides.first, sides.first_mask, sides.second)
        rows = weights[sides.second_mask]
        one_hot += (rows.max(1).values > 1 - 1e-6).sum()
        fixed += model.has_zero_jacobian(rows).sum()
        num_rows += len(rows)
    return {"one_hot": (one_hot / num_rows).item(), "no_gradient": (fixed / num_rows).item()}


def counted(p: GenerationSettings, targets: Targets, steps: Sequence[int] = STEPS) -> Iterator[dict[str, Any]]:
    """Train as `train_seq2seq` does, at most for one epoch, and count rows after each number of `steps`."""
    some = targets._replace(splits={**targets.splits, "dev": targets.splits["dev"][:NUM_TEXTS]})
    model, _, batches = prepare_seq2seq(p, some)
    read = list(batches["dev"].in_order())
    optimizer, objective = build_optimizer(model, p), WordLoss()
    for step, batch in enumerate(itertools.chain(batches["train"].epoch(1), [None])):
        if step in steps:
            yield {"step": step, **shares_of_rows(model, read)}
        if batch is None or step == max(steps):
            return
        model.train()
        optimizer.zero_grad()
        objective(model, batch).loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), p.clip_norm)
        optimizer.step()


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the rows of each model when it is done, and print where the file is."""
    parser = command_line("attention_rows", __doc__)
    parser.add_argument("--seed", type=int, default=1, help="of the models and of the order of the texts (default: 1)")
    parser.add_argument("maps", nargs="*", metavar="MAP", help=f"of {', '.join(MAPS)} (default: all)")
    given = parser.parse_args(arguments)
    for name in given.maps:
        require_known("MAP", name, MAPS)
    seed = given.seed
    torch.set_num_threads(1)
    path, key = reference_folder() / ATTENTION_ROWS, ["language", "model", "gamma", "seed", "step"]
    facts = dict(line.split(": ", 1) for line in describe_environment(NOTEBOOK, {}, "", "1").splitlines())
    made = {fact: facts[fact] for fact in ("commit", "cpu", "torch")}  # the file itself is no local change
    for name, language, gamma in itertools.product(given.maps or MAPS, LANGUAGES, GAMMAS):
        items = [f"params/attention/{name}.yaml", f"language={language}", f"gamma={gamma}", f"seed={seed}"]
        p = GenerationSettings.checked(merge(notebook_path(NOTEBOOK), items)[0])
        of_model = {"language": language, "model": name, "gamma": gamma, "seed": seed}
        rows = [of_model | found | made for found in counted(p, read_generation(p))]
        print(of_model | {"no_gradient": [round(row["no_gradient"], 3) for row in rows]}, flush=True)
        replace_rows(path, rows, key, key)
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
