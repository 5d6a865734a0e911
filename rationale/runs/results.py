"""Compare finished runs without a notebook: means over seeds as text, CSV and LaTeX, and one figure per metric.

    python -m rationale.results outputs/12_train_sst/* --by selection --metric accuracy
    python -m rationale.results RUN RUN RUN --by learning_rate encoder --metric accuracy rate_selected --split dev

The table has one row per setting: runs that differ in anything but the seed are never averaged, and what differs beside
`--by` becomes a column and a line of the figure. `--by` takes any setting of the runs, also `model` and `seed`.
"""

import argparse
import contextlib
import glob
import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rationale.digests import sha256
from rationale.errors import BadInput, command, optional, shown
from rationale.files import write_text
from rationale.nn.gates import GATES
from rationale.runs import compare, saved
from rationale.runs.differences import BASELINE, defaults_of, has_effect, of_baseline
from rationale.runs.origin import is_by_fit, notebook_of
from rationale.runs.workspace import named_folder, root
from rationale.settings import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

FILES = "a finished run has metrics.json, params.yaml and environment.txt (of rationale.fit: read.json)"
WRITTEN = ".written.json"  # names and digests of the files that this command has written into a folder
IN_ROWS = ("model", "vectors", "corpus", "aspect", "task", "target", "seed")  # columns of the long table


def finished_runs(paths: Iterable[str]) -> tuple[list[Path], list[Path]]:
    """The folders of finished runs among `paths`, each once, and the folders that are none. Other files are ignored.

    Raises
    ------
    BadInput
        If a path does not exist.
    """
    runs, others = [], []
    for text in paths:
        # cmd.exe does not expand patterns; what is there is none, whatever its name looks like
        found = [] if os.path.exists(text) else sorted(glob.glob(text))
        for path in (Path(os.path.realpath(path)) for path in found or [text]):
            unfinished = path.suffix == ".partial"  # it may have finished meanwhile, and lost this ending
            if not path.exists() and not unfinished:
                raise BadInput(f"{text}: no such folder, give folders of finished runs (outputs/12_train_sst/NAME)")
            files = all((path / name).is_file() for name in ("metrics.json", "params.yaml"))
            is_known = (path / "environment.txt").is_file() or is_by_fit(path)
            if path.is_dir() or unfinished:
                (runs if files and is_known and not unfinished else others).append(path)
    return list(dict.fromkeys(runs)), list(dict.fromkeys(others))


def with_settings(rows: "pd.DataFrame", runs: Sequence[Path], names: Sequence[str]) -> "pd.DataFrame":
    """The long table with a column for each of these settings: its value in each run, None where it has no effect.

    Raises
    ------
    BadInput
        If no run has such a setting, or two runs of the same name differ in it.
    """
    notebooks = {run: notebook_of(run) for run in runs}
    given = {run: defaults_of(notebooks[run]) | saved.read_parameters(run) for run in runs}
    known = dict.fromkeys([name for p in given.values() for name in p] + list(IN_ROWS))
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; these runs have {', '.join(sorted(known))}"
            raise BadInput(f"--by {name}: no such setting{hint}")
        if name not in rows:
            values: dict[str, Any] = {}
            for run, p in given.items():
                key, value = f"{notebooks[run]}/{run.name}", _value(p, name)
                if values.setdefault(key, value) != value:
                    raise BadInput(f"--by {name}: two runs are named {key}; give the folder of one another name")
            rows = rows.assign(**{name: rows["run"].map(values).astype(object)})
            if not of_baseline(name):
                rows.loc[rows["model"] == BASELINE, name] = None
    return rows


def _value(p: dict[str, Any], name: str) -> Any:
    value = p.get(name) if has_effect(name, p) else None
    return compare.as_text(value) if isinstance(value, list) else value


def check_metrics(rows: "pd.DataFrame", names: Sequence[str], split: str) -> None:
    """Refuse a metric that no run has.

    Raises
    ------
    BadInput
        The message names similar metrics, or all.
    """
    known = sorted(rows.loc[rows["split"] == split, "metric"].unique())
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known) or f"; these runs have {', '.join(known)}"
            raise BadInput(f"--metric {name}: no run has it on the {split} split{hint}")


def with_metrics(rows: "pd.DataFrame", names: Sequence[str], split: str) -> "pd.DataFrame":
    """The rows of the runs that have one of these metrics; the other runs are named on stderr."""
    has_one = rows.loc[(rows["split"] == split) & rows["metric"].isin(names), "run"].unique()
    others = [run for run in rows["run"].unique() if run not in has_one]
    if others:
        print(f"left out, without {' and '.join(names)} on {split}: {', '.join(others)}", file=sys.stderr)
    return rows[rows["run"].isin(has_one)]


def over_fewer_seeds(means: "pd.DataFrame", metrics: Sequence[str]) -> list[str]:
    """The metrics that only some runs of a row have, such as those of a run that was judged afterwards."""
    counts = {name: means[f"{name}_seeds"] for name in metrics}
    return [name for name, count in counts.items() if (count.gt(0) & count.lt(means["seeds"])).any()]


def table_of(means: "pd.DataFrame", metrics: Sequence[str], by: Sequence[str]) -> "pd.DataFrame":
    """The columns of a `summary` that are shown: what tells the rows apart, `by` last, and the metrics."""
    told = [name for name in compare.told_columns(means) if name not in by]
    if "selection" in by and means.loc[means["selection"].notna(), "target"].equals(means["selection"].dropna()):
        told = [name for name in told if name != "target"]
    fewer = over_fewer_seeds(means, metrics)
    numbers = [column for name in metrics for column in (name, f"{name}_std", *[f"{name}_seeds"] * (name in fewer))]
    table = means[[*told, *by, *numbers, "seeds"]].sort_values(
        [*told, *by], key=lambda column: column.map(compare.sortable), kind="stable", ignore_index=True
    )
    has_setting = "target" in told and "selection" not in table and means["model"].isin(GATES).all()
    return table.rename(columns={"target": "selection"}) if has_setting else table  # the name under which it was given


def draw(means: "pd.DataFrame", metric: str, by: Sequence[str]):
    """The figure of one metric against the first setting of `by`, with one line per kind of run."""
    from rationale import figures

    x, *others = by
    means = means.dropna(subset=[metric]).copy()
    means[f"{metric}_std"] = means[f"{metric}_std"].fillna(0.0)
    names = compare.line_names(means, with_network=False)
    means["line"] = names.str.partition(", ")[2] if x == "model" else names
    for name in [*others, "target", "sparsity", "vectors", "corpus", "aspect", "network", "settings"]:
        alike = means.duplicated(["line", x], keep=False).groupby(means["line"]).transform("any")  # not one line yet
        told = means["line"] + f", {name}=" + means[name].map(compare.as_text)
        means["line"] = told.where(alike & (name != x), means["line"]).str.removeprefix(", ")
    has_value = means[x].notna()
    columns = [x, metric, f"{metric}_std"]
    lines = {
        name: list(part[columns].itertuples(index=False, name=None))
        for name, part in means[has_value].sort_values(x, key=lambda c: c.map(compare.sortable)).groupby("line")
    }
    levels = {row["line"]: (row[metric], row[f"{metric}_std"]) for row in means[~has_value].to_dict("records")}
    fig, ax = figures.new_figure(size=(10, 5.2))
    low, high = means[metric].min(), means[metric].max()
    title = f"{metric} from {low:.3g} to {high:.3g}"
    figures.draw_score_by_setting(lines, ax, levels, title=title, xlabel=x.replace("_", " "), ylabel=metric)
    return fig


def refuse_foreign(folder: Path, names: Iterable[str]) -> None:
    """Refuse to overwrite a file that this command did not write, or that was changed since.

    Raises
    ------
    BadInput
        The message names the file.
    """
    digests = _written(folder)
    for path in (folder / name for name in names):
        if path.exists() and digests.get(path.name) != sha256(path):
            how = (
                "was changed since this command wrote it" if path.name in digests else "was not written by this command"
            )
            raise BadInput(f"{shown(path)}: {how} and would be overwritten; move it, or give another folder with --out")


def _written(folder: Path) -> dict[str, str]:
    """The digests of the files that this command has written; a damaged list of them is none."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads((folder / WRITTEN).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


@command
def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rationale.results",
        description=__doc__,
        epilog="exit code: 0 all finished runs are compared   1 a folder that is no run was left out   "
        "2 a mistake in the arguments, or a file that cannot be read or written",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folder of a finished run")
    parser.add_argument(
        "--by", nargs="+", required=True, metavar="SETTING", help="what to compare; the first is the x axis"
    )
    parser.add_argument(
        "--metric", nargs="+", required=True, metavar="METRIC", help="such as accuracy or rate_selected"
    )
    parser.add_argument("--split", choices=["dev", "test"], default="test", help="default: test")
    usual = root() / "outputs" / "results"
    parser.add_argument(
        "--out", type=named_folder, metavar="DIR", default=usual, help="folder (default: outputs/results)"
    )
    parser.add_argument("--no-plot", action="store_true", help="no figures")
    args = parser.parse_args(argv)
    by, metrics = list(dict.fromkeys(args.by)), list(dict.fromkeys(args.metric))
    runs, others = finished_runs(args.runs)
    names = ", ".join(shown(path) for path in others)
    if not runs:
        raise BadInput(f"{names or 'nothing given'}: no finished run; {FILES}")
    if others:
        print(f"left out, no finished runs: {names}", file=sys.stderr)
    rows = with_settings(compare.rows_of(*runs), runs, by)
    check_metrics(rows, metrics, args.split)
    rows = with_metrics(rows, metrics, args.split)
    means = compare.summary(rows, metrics, args.split, by)
    table, caption = table_of(means, metrics, by), compare.caption(rows, args.split)
    for name in over_fewer_seeds(means, metrics):
        print(f"note: {name} is a mean over fewer runs where {name}_seeds is less than seeds", file=sys.stderr)
    names_written = write(args.out, means, table, caption, metrics, by, args)
    pd = optional("pandas", "tables of results", "notebooks")
    with pd.option_context("display.width", None, "display.max_columns", None, "display.max_rows", None):
        print(table.to_string(index=False, na_rep="", float_format=lambda value: f"{value:.4g}"))
    print("", *compare.recipes(rows), caption, sep="\n")
    print(f"written to {shown(args.out)}: {', '.join(names_written)}")
    return 1 if any(path.suffix != ".partial" and path.name != "lab" for path in others) else 0


def write(
    folder: Path,
    means: "pd.DataFrame",
    table: "pd.DataFrame",
    caption: str,
    metrics: Sequence[str],
    by: Sequence[str],
    args: argparse.Namespace,
) -> list[str]:
    """Write the table and the figures, unless a file in their place is not one of ours; the names of the files."""
    from rationale import figures

    end = f"_by_{'_'.join(by)}" + ("_dev" if args.split == "dev" else "")
    stem, plots = "_".join(metrics) + end, [] if args.no_plot else metrics
    names = [f"{stem}.csv", f"{stem}.tex"]
    names += [f"{metric}{end}.{kind}" for metric in plots for kind in (*figures.FORMATS, "txt")]
    refuse_foreign(folder, names)
    figures.save_table(table, folder, stem, caption, digits=5)  # an error of 0.07099 is not 0.071
    for metric in plots:
        figures.save_figure(draw(means, metric, by), folder, f"{metric}{end}", figures.FORMATS, caption)
    digests = _written(folder) | {name: sha256(folder / name) for name in names}
    write_text(folder / WRITTEN, json.dumps(digests, indent=1))
    return names


if __name__ == "__main__":
    sys.exit(main())
