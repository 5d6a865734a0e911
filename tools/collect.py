"""Collect the committed results from finished runs: `python -m tools.collect [OUTPUTS]` (make reference).

Reads every finished training run below OUTPUTS (default: outputs/) and writes results.csv, history.csv, by_text.csv,
runs.json, epochs.json and figures/ to outputs/reference/ (see rationale/runs/committed.py). Rows of runs that are not
below OUTPUTS are kept. The verdicts of claims.csv and the tables of RESULTS.md are rewritten from results.csv.
"""

import json
import re
import sys
from pathlib import Path

import pandas as pd

from rationale.data.corpora import find_corpus
from rationale.errors import BadInput, command
from rationale.files import write_text
from rationale.runs import by_text, saved
from rationale.runs.committed import (
    BY_LAYER,
    EPOCHS,
    FIGURES,
    describe_again,
    read_history,
    read_results,
    reference_folder,
)
from rationale.runs.compare import SUBJECT, TASKS, agreements, rows_of
from rationale.runs.failed_rationales import METRICS as OF_FAILURES
from rationale.runs.failed_rationales import TASK as FAILURES
from rationale.runs.origin import read_environment
from rationale.runs.probed import digits_of, facts_of_masks, load_probed, told_by_lines
from rationale.runs.verdicts import read_claims, with_verdicts
from rationale.runs.workspace import TRIALS, root
from tools import command_line
from tools.readme_tables import with_tables

PROBES = "14_train_probes"
HISTORY = ("run", "epoch", "seconds", "dev_accuracy", "dev_rate_expected", "dev_rate_selected", "dev_task",
           "selection.multiplier", "dev_mse", "method", *BY_LAYER)  # fmt: skip
READERS = {"results.csv": read_results, "by_text.csv": by_text.read_table, "history.csv": read_history}


def finished_runs(outputs: Path) -> list[Path]:
    """Folders of finished training runs below `outputs`, sorted, without smoke runs and pages of the book."""
    folders = (path.parent for path in sorted(outputs.glob("*/*/metrics.json")))
    return [path for path in folders if path.parent.name in TASKS and _is_result(path)]


def _is_result(path: Path) -> bool:
    is_hidden = path.name.endswith(".partial") or path.name in ("lab", *TRIALS)
    return not is_hidden and (path / "run.ipynb").is_file()


def collect(outputs: Path) -> pd.DataFrame:
    """Write the three files and the figures from the finished runs below `outputs`.

    Returns
    -------
    DataFrame
        The new table of results.

    Raises
    ------
    BadInput
        If there is no finished training run.
    """
    runs = finished_runs(outputs)
    if not runs:
        raise BadInput(f"{outputs}: holds no finished training run; make one with `make run` or `make sweep`")
    names = [f"{run.parent.name}/{run.name}" for run in runs]
    history = [_with_layers(saved.read_history(run)).assign(run=name) for run, name in zip(runs, names, strict=True)]
    records = [
        {"run": name, "parameters": saved.read_parameters(run), "environment": read_environment(run)}
        for run, name in zip(runs, names, strict=True)
    ]
    rows = pd.concat([_with_masks(_with_lines(rows_of(*runs), runs), runs), *agreements(runs)])
    small = rows["task"] == FAILURES
    rows = rows[~small | rows["metric"].isin(OF_FAILURES)]
    if (reference_folder() / "results.csv").exists():  # keep agreements with seeds that are no longer below `outputs`
        before = read_results().query("metric == 'agreement' and run in @names")
        rows = pd.concat([rows, before[~before["run"].isin(rows.loc[rows["metric"] == "agreement", "run"])]])
    table = _merged("results.csv", rows, names)
    epochs = pd.concat(history).astype({"epoch": int})  # a run without epochs would turn the column into text
    epochs = epochs[~epochs["run"].isin(rows.loc[rows["task"] == FAILURES, "run"])]
    epochs = _merged("history.csv", epochs.reindex(columns=HISTORY), names)
    epochs = epochs.drop(columns=[name for name in BY_LAYER if epochs[name].isna().all()])
    path = reference_folder() / "runs.json"
    old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    by_name = {record["run"]: record for record in [*old, *records]}
    lines = [json.dumps(by_name[name]) for name in sorted(by_name)]
    write_text(path, "[\n" + ",\n".join(lines) + "\n]\n")  # one run per line
    describe_again(table, by_name.values())
    _write("results.csv", table)
    _write("history.csv", epochs)
    _write("by_text.csv", _merged("by_text.csv", by_text.table_of(runs, names), names))
    copy_pictures(outputs)
    if (gates := outputs / EPOCHS).is_file():
        write_text(reference_folder() / gates.name, gates.read_text(encoding="utf-8"))
    return table


def copy_pictures(outputs: Path) -> None:
    """Commit the pictures of `FIGURES` that have been drawn below `outputs`."""
    for picture in map(outputs.joinpath, FIGURES):
        if picture.is_file():
            write_text(reference_folder() / "figures" / picture.name, picture.read_text(encoding="utf-8"))


def _with_lines(rows: pd.DataFrame, runs: list[Path]) -> pd.DataFrame:
    """The rows, and for each saved model of the toy task how many digits lines tell apart in its second layer."""
    for run, name in ((run, f"{run.parent.name}/{run.name}") for run in runs if run.parent.name == PROBES):
        part = rows[rows["run"].eq(name) & rows["model"].eq(SUBJECT)]
        if len(part) and part["corpus"].iloc[0] == "toy" and (run / "model.safetensors").is_file():
            probed = load_probed(run)
            told = told_by_lines(digits_of(probed, "dev"), digits_of(probed, "test"))
            rows = pd.concat([rows, part.head(1).assign(split="test", metric="told_by_lines", value=told)])
    return rows


def _with_masks(rows: pd.DataFrame, runs: list[Path]) -> pd.DataFrame:
    """The rows, and what the masks of each saved run on SST or on questions show (see `facts_of_masks`)."""
    for run, name in ((run, f"{run.parent.name}/{run.name}") for run in runs if run.parent.name == PROBES):
        part = rows[rows["run"].eq(name)]
        of_words = len(part) and not find_corpus(part["corpus"].iloc[0]).alphabet
        if of_words and (run / "attributions.jsonl").is_file():
            for method, facts in facts_of_masks(run).items():
                first = part[part["model"].eq(method)].head(1)
                rows = pd.concat([rows, *(first.assign(split="test", metric=k, value=v) for k, v in facts.items())])
    return rows


def _with_layers(history: pd.DataFrame) -> pd.DataFrame:
    """A run's history in which the values of all layers are one text per epoch, in the columns `BY_LAYER`."""
    for name in BY_LAYER:
        layers = [column for column in history if re.fullmatch(rf"{name}_\d+", column)]
        layers.sort(key=lambda column: int(column.rpartition("_")[2]))
        if layers:
            rows = history[layers].to_numpy()
            texts = [" ".join(f"{value:.3g}" for value in row if value == value) for row in rows]
            history = history.assign(**{name: texts})
    return history


def describe() -> pd.DataFrame:
    """Write the columns of `results.csv` again that follow from `runs.json` and today's defaults; no value changes."""
    table = read_results()
    describe_again(table, json.loads((reference_folder() / "runs.json").read_text(encoding="utf-8")))
    _write("results.csv", table)
    return table


def judge_again(table: pd.DataFrame) -> None:
    """Write the verdicts in `claims.csv` again that follow from the results."""
    if (reference_folder() / "claims.csv").is_file():
        _write("claims.csv", with_verdicts(read_claims(), table).drop(columns=["evidence", "cost"]))


def _write(name: str, table: pd.DataFrame) -> None:
    write_text(reference_folder() / name, table.to_csv(index=False, float_format="%.6g"))


def _merged(name: str, new: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """A committed table in which new rows replace those of these runs, sorted by run."""
    path = reference_folder() / name
    if path.exists():
        old = READERS.get(name, pd.read_csv)(path)
        new = pd.concat([new, old[~old["run"].isin(runs)]])  # new first: its columns come first
    return new.sort_values("run", kind="stable").reset_index(drop=True)


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = command_line("collect", __doc__)
    form.add_argument("outputs", nargs="?", type=Path, default=root() / "outputs", metavar="OUTPUTS")
    form.add_argument(
        "--tables-only",
        action="store_true",
        help="read no runs; only write again what follows from the committed ones: the columns of results.csv that "
        "name settings, the verdicts of claims.csv, the tables of RESULTS.md, and the pictures of comparisons, such as "
        "`python -m rationale.runs 31_selection_rates --name committed` draws them",
    )
    options = form.parse_args(arguments)
    if options.tables_only:
        results = describe()
        copy_pictures(options.outputs)
    else:
        results = collect(options.outputs)
    judge_again(results)
    page = root() / "RESULTS.md"
    write_text(page, with_tables(page.read_text(encoding="utf-8"), results))
    print(f"{results['run'].nunique()} runs, {len(results)} values in {reference_folder() / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
