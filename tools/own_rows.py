"""Save the results of runs on corpora as if they were texts of one's own: `python -m tools.own_rows RUN...`.

It writes outputs/reference/own_texts.csv, one row per finished run of 17_train_own_texts on a corpus of the package
(`make sweep SWEEP=own_texts`). `right` says for each test text whether the answer was right (`by_text.write_scores`).
`told` is the share of the answers to test that the number of selected words tells, and `told_without` the share that
the most frequent answer of dev reaches (`own_notes.told_and_usual`); rows from before this measure lack both.
Where people have marked words, the agreement with them is the mean over the test texts, and its standard error;
`marked` is their number, which the first rows lack.
Rows of runs that are not given are kept.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from rationale.data.corpora import names_own
from rationale.errors import BadInput, command
from rationale.files import write_text
from rationale.nn.gates import GATES
from rationale.runs import by_text, intact, saved
from rationale.runs.committed import OWN_TEXTS, read_own_texts, reference_folder
from rationale.runs.faithfulness import agreement_by_text, batches_of
from rationale.runs.origin import NOTEBOOK_OF_FIT, notebook_of, read_environment
from rationale.training.own_notes import told_and_usual
from rationale.training.tfidf import FILE
from rationale.training.tfidf import METRICS as OF_BASELINE
from tools import command_line


def own_row(run: Path) -> dict[str, Any]:
    """The row of a finished run.

    Raises
    ------
    BadInput
        If it is a run of another notebook, on files of one's own, or on texts with scores.
    """
    if notebook_of(run) != NOTEBOOK_OF_FIT:
        raise BadInput(f"{run}: a run of {notebook_of(run)}; accepted: runs of {NOTEBOOK_OF_FIT}")
    p, scores = saved.read_parameters(run), saved.read_metrics(run)
    if names_own(p["corpus"]):
        raise BadInput(f"{run}: nobody else has its texts; accepted: runs on a corpus of the package")
    metric, right = by_text.scores_by_text(run) or ("", None)
    if metric != OF_BASELINE["classes"] or right is None:
        raise BadInput(f"{run}: predicts scores; accepted: runs that predict classes")
    baseline = intact.read_json(run / FILE, intact.Baseline)
    has_gates = p["model"] in GATES
    row = {"run": run.resolve().name, "corpus": p["corpus"], "encoder": p["encoder"], "model": p["model"]}
    row |= {"target": p["selection"] if has_gates else 1.0, "seed": p["seed"]}
    row |= {"train": p["num_train"], "dev": len(saved.read_rationales(run, "dev")), "test": len(right)}
    for split in ("dev", "test"):
        row |= {f"tfidf_{split}": baseline[split][metric], f"{split}_accuracy": scores[split][metric]}
        row |= {f"{split}_rate": scores[split]["rate_selected"]}
    texts = saved.read_rationales(run, "test")
    if has_gates:
        numbers = [selected_and_answer(part) for part in (saved.read_rationales(run, "dev"), texts)]
        row |= dict(zip(("told", "told_without"), told_and_usual(*numbers[0], *numbers[1]), strict=True))
    if "gold" in texts:
        model = saved.load_run(run)
        for name, values in agreement_by_text(model, texts, batches_of(model, texts)).items():
            row |= {name: values.mean().item(), f"{name}_error": values.std().item() / len(values) ** 0.5}
            row["marked"] = len(values)
    row |= {"best_epoch": scores["best_epoch"], "epochs": p["epochs"], "seconds": round(scores["seconds"], 1)}
    return row | {"commit": read_environment(run).get("commit", "")[:12], "right": by_text.write_scores(metric, right)}


def selected_and_answer(texts: pd.DataFrame) -> tuple[Tensor, Tensor]:
    """The number of selected words of each saved text, and the answer to it, both long [N]."""
    counts = [sum(value != 0 for value in z) for z in texts["z"]]
    return torch.tensor(counts), torch.tensor(texts["prediction"].tolist())


def own_table(runs: Sequence[Path]) -> pd.DataFrame:
    """The rows of runs, and the committed ones of others, sorted."""
    table = pd.DataFrame([own_row(run) for run in runs])
    if (reference_folder() / OWN_TEXTS).is_file():
        old = read_own_texts()
        table = pd.concat([old[~old["run"].isin(table["run"])], table])  # columns stay where they are
    return table.sort_values(["corpus", "encoder", "model", "target", "seed"]).reset_index(drop=True)


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the file and print where it is."""
    form = command_line("own_rows", __doc__)
    form.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a finished run")
    table = own_table(form.parse_args(arguments).runs)
    file = reference_folder() / OWN_TEXTS
    write_text(file, table.to_csv(index=False, float_format="%.6g"))
    print(f"{len(table)} runs: {file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
