"""Count how models answer the texts of which they select nothing: `python -m tools.empty_texts RUN...`.

At a small rate, gates select no word in many sentences. All of these look the same to the predictor, so it gives them
one class. How often this is right depends on the class, and the classes are not equally common on dev and on test.
Section 17 of `31_selection_rates` asks how much of the difference between seeds comes from this.

It writes one row per run and split to outputs/reference/empty_texts.csv: the number of `texts`; `empty`, the number
of those of which nothing is selected; `answer`, the class that these are given most often, and `alike`, how many of
them are given it; and `right_empty` and `right_others`, the numbers of right answers. A run is a finished run of
12_train_sst that has kept its rationales. Rows of runs that are not given are kept.
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from rationale.errors import BadInput, command
from rationale.runs import saved
from rationale.runs.committed import EMPTY_TEXTS
from rationale.runs.origin import notebook_of
from tools import command_line
from tools.csv_rows import write_rows_of_runs

NOTEBOOK = "12_train_sst"


def count_empty(rows: pd.DataFrame) -> dict[str, int]:
    """The counts of one split, from `saved.read_rationales`; if something is always selected, `answer` is -1."""
    right, empty = rows["prediction"] == rows["label"], ~rows["z"].map(any)
    answers = rows.loc[empty, "prediction"].value_counts()
    answer, alike = (answers.index[0], answers.iloc[0]) if len(answers) else (-1, 0)
    counts = {"texts": len(rows), "empty": int(empty.sum()), "answer": int(answer), "alike": int(alike)}
    return counts | {"right_empty": int(right[empty].sum()), "right_others": int(right[~empty].sum())}


def rows_of(run: Path) -> list[dict[str, Any]]:
    """The rows of dev and of test of a finished run.

    Raises
    ------
    BadInput
        If it is a run of another notebook, or has kept no rationales.
    """
    if notebook_of(run) != NOTEBOOK:
        raise BadInput(f"{run}: its answers are no classes of sentences; accepted is a run of {NOTEBOOK}")
    name = {"run": f"{NOTEBOOK}/{run.resolve().name}", "seed": saved.read_parameters(run)["seed"]}
    return [name | {"split": split} | count_empty(saved.read_rationales(run, split)) for split in ("dev", "test")]


@command
def main(arguments: list[str] | None = None) -> int:
    """Write the rows of the runs, and print where the file is."""
    parser, key = command_line("empty_texts", __doc__), ["run", "split"]
    return write_rows_of_runs(parser, arguments, rows_of, EMPTY_TEXTS, key, key, f"a finished run of {NOTEBOOK}")


if __name__ == "__main__":
    sys.exit(main())
