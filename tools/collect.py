"""Collect the committed results from finished runs: `python -m tools.collect [OUTPUTS]` (make reference).

Reads every finished training run below OUTPUTS (default outputs/) and writes results.csv, history.csv, runs.jsonl and
figures/ to outputs/reference/ (see rationale/runs/committed.py). Rows of runs that are not below OUTPUTS stay as they
are. The tables of RESULTS.md are rewritten from results.csv.
"""

import argparse
import json
import sys
from pathlib import Path

import pandas as pd

from rationale.errors import BadInput, command
from rationale.files import write_text
from rationale.runs import saved
from rationale.runs.committed import (
    ATTENTIONS,
    FIGURES,
    TASKS,
    agreements,
    environment_of,
    folder,
    read_results,
    rows_of,
    variant,
)
from rationale.runs.workspace import TRIALS, root
from tools.readme_tables import with_tables

HISTORY = ("run", "epoch", "seconds", "dev_accuracy", "dev_rate_expected", "dev_rate_selected", "dev_task",
           "selection.multiplier", "dev_mse", "method")  # fmt: skip


def finished_runs(outputs: Path) -> list[Path]:
    """Folders of finished training runs below `outputs`, sorted; smoke runs and pages are not results."""
    found = (path.parent for path in sorted(outputs.glob("*/*/metrics.json")))
    return [path for path in found if path.parent.name in TASKS and _is_result(path)]


def _is_result(path: Path) -> bool:
    hidden = path.name.endswith(".partial") or path.name in ("lab", *TRIALS)
    return not hidden and (path / "run.ipynb").is_file()


def collect(outputs: Path) -> pd.DataFrame:
    """Write the three files from the finished runs below `outputs`; returns the new table."""
    runs = finished_runs(outputs)
    if not runs:
        raise BadInput(f"{outputs}: holds no finished training run; make one with `make run` or `make sweep`")
    names = [f"{run.parent.name}/{run.name}" for run in runs]
    history = [saved.read_history(run).assign(run=name) for run, name in zip(runs, names, strict=True)]
    records = [
        {"run": name, "parameters": saved.read_parameters(run), "environment": environment_of(run)}
        for run, name in zip(runs, names, strict=True)
    ]
    rows = pd.concat([*map(rows_of, runs), *agreements(runs)])
    if (folder() / "results.csv").exists():  # an agreement with seeds that are not here any more stays
        before = read_results().query("metric == 'agreement' and run in @names")
        rows = pd.concat([rows, before[~before["run"].isin(rows.loc[rows["metric"] == "agreement", "run"])]])
    table = _merged("results.csv", rows, names)
    epochs = pd.concat(history).astype({"epoch": int})  # a run without any epoch would make them text
    epochs = _merged("history.csv", epochs.reindex(columns=HISTORY), names)
    path = folder() / "runs.jsonl"
    old = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    lines = {json.loads(line)["run"]: line for line in old}
    lines |= {record["run"]: json.dumps(record) for record in records}
    write_text(path, "".join(lines[name] + "\n" for name in sorted(lines)))
    for record in map(json.loads, lines.values()):  # the defaults may have changed since a run was collected
        notebook = record["run"].split("/")[0]
        if notebook in ATTENTIONS:
            table.loc[table["run"] == record["run"], "variant"] = variant(record["parameters"], notebook)
    for name, written in (("results.csv", table), ("history.csv", epochs)):
        write_text(folder() / name, written.to_csv(index=False, float_format="%.6g"))
    for picture in map(outputs.joinpath, FIGURES):
        if picture.is_file():
            write_text(folder() / "figures" / picture.name, picture.read_text(encoding="utf-8"))
    return table


def _merged(name: str, new: pd.DataFrame, runs: list[str]) -> pd.DataFrame:
    """A committed table with the rows of these runs replaced by new ones, sorted by run."""
    path = folder() / name
    if path.exists():
        old = read_results(path) if name == "results.csv" else pd.read_csv(path)
        new = pd.concat([new, old[~old["run"].isin(runs)]])  # in this order: the new table's columns come first
    return new.sort_values("run", kind="stable").reset_index(drop=True)


@command
def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    form = argparse.ArgumentParser(
        "python -m tools.collect",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    form.add_argument("outputs", nargs="?", type=Path, default=root() / "outputs", metavar="OUTPUTS")
    form.add_argument("--tables-only", action="store_true", help="only rewrite the tables of RESULTS.md")
    options = form.parse_args(arguments)
    results = read_results() if options.tables_only else collect(options.outputs)
    page = root() / "RESULTS.md"
    write_text(page, with_tables(page.read_text(encoding="utf-8"), results))
    print(f"{results['run'].nunique()} runs, {len(results)} values in {folder() / 'results.csv'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
