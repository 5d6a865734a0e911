"""A sweep: one notebook, many parameter files and seeds, and a notebook that compares the results.

    notebook: 12_train_sst                       # the notebook of all runs
    runs:
    - sst/full_text.yaml                         # parameter files, below params/,
    - sst/hardkuma.yaml selection=0.5            # possibly with overrides;
    - run: sst/hardkuma.yaml                     # with a grid: one run per combination of its values,
      grid: {selection: [0.1, 0.2]}              # named hardkuma-selection0.1-..., hardkuma-selection0.2-...
    grid: {measure: [expected, selected]}        # optional: a grid for all runs
    with: [vectors_scale=0.333]                  # optional: overrides for all runs
    seeds: [1, 2, 3]                             # optional: each run with each of these seeds
    then: 31_selection_rates                     # optional: a notebook whose parameter `runs` gets the runs' names
    then_params: [num_samples=10]                # optional: parameter files and overrides for it

A run's overrides are those of its own line, then of its grid, then of the sweep's grid, of `with` and of the seed.

`make sweep SWEEP=name` reads `params/sweeps/<name>.yaml` and executes it with Snakemake (see Snakefile).
`python -m rationale.sweeps NAME` checks the file and shows which runs have finished.
"""

import argparse
import hashlib
import itertools
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, command
from rationale.runs.fingerprint import fingerprint
from rationale.runs.parameters import (
    as_override,
    defaults,
    is_override,
    read_file,
    resolve,
    settings_class,
    shown,
)
from rationale.runs.workspace import notebook_path, root, run_name
from rationale.settings import Settings, show

FIELDS = {
    "notebook": str,
    "runs": list,
    "grid": dict,
    "with": list,
    "seeds": list,
    "then": str,
    "then_params": list,
}
WANTED = {str: "a notebook's name", list: "a list, in [ ]", dict: "parameters and their values, {name: [value, value]}"}
OF_A_RUN = ("run", "grid")  # keys of a mapping among `runs`
SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Planned:
    """One run: its notebook, its name, and the arguments of the runner."""

    notebook: Path
    name: str
    items: list[str]

    def content(self) -> str:
        """A digest of what the result depends on: the notebook, the code that it imports, and all parameters."""
        params = resolve(self.notebook, self.items)
        return fingerprint(self.notebook, params) + hashlib.sha256(json.dumps(params).encode()).hexdigest()[:12]

    def folder(self, outputs: str | Path) -> Path:
        """The folder of the finished run."""
        return Path(outputs) / self.notebook.stem / self.name

    def command(self, outputs: str | Path) -> str:
        """The shell command of the run. It continues, waits or starts again as needed, and keeps a finished run."""
        return shlex.join(
            [
                sys.executable,
                "-m",
                "rationale.runs",
                str(self.notebook),
                *self.items,
                "--name",
                self.name,
                "--outputs",
                str(outputs),
                "--again-if-changed",
                "--wait",
            ]
        )


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, by name, and the comparison that follows."""

    name: str
    runs: dict[str, Planned]
    then: Planned | None


def read_sweep(sweep: str | Path, outputs: str | Path = "outputs") -> Sweep:
    """Read and check `params/sweeps/<sweep>.yaml`, or the file `sweep`, and every run that it names.

    Raises
    ------
    BadInput
        For the first mistake in the sweep's file, in a parameter file that it names, or in a seed.
    """
    path = Path(sweep) if str(sweep).endswith(".yaml") else root() / "params" / "sweeps" / f"{sweep}.yaml"
    fields, where = _fields(path)
    notebook = notebook_path(fields["notebook"])
    folder = path.resolve().parent
    places = [folder.parent, root() / "params", folder]  # of parameter files, the first one that has it
    settings = settings_class(notebook)
    every = [
        _combinations(fields.get("grid", {}), settings, where.get("grid", "")),
        [_items(fields.get("with", []), places)],
        [[f"seed={seed}"] for seed in fields.get("seeds", ())] or [[]],
    ]
    runs: dict[str, Planned] = {}
    for entry in fields["runs"]:
        own, grid = _run(entry, where["runs"])
        grids = _combinations(grid, settings, f"{where['runs']}{own}: grid: ")
        for parts in itertools.product([_items(own.split(), places)], grids, *every):
            planned = [item for part in parts for item in part]
            name = run_name(planned)
            if name in runs:
                raise BadInput(f"{where['runs']}two runs would be named {name}, give each of them once")
            _check(notebook, planned, f"{where['runs']}{name}: ")
            runs[name] = Planned(notebook, name, planned)
    then = _then(fields, _items(fields.get("then_params", []), places), path, notebook, list(runs), outputs)
    return Sweep(path.stem, runs, then)


def _fields(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The fields of a sweep's file and their places, `file:line: name: `, by name; the types of values are checked."""
    fields: dict[str, Any] = {}
    where: dict[str, str] = {}
    for line, name, value in read_file(path):
        if name not in FIELDS:
            raise BadInput(f"{line}{name}: unknown, a sweep has {', '.join(FIELDS)}")
        at = f"{line}{name}: "
        if type(value) is not FIELDS[name]:
            raise BadInput(f"{at}{show(value)} is not accepted, give {WANTED[FIELDS[name]]}")
        among = {"seeds": (int,), "runs": (str, dict)}.get(name, (str,))
        if isinstance(value, list) and not (value and all(type(item) in among for item in value)):
            wanted = {
                "seeds": "whole numbers",
                "runs": "texts, or mappings {run: text, grid: {name: [value, value]}}, at least one",
            }.get(name, "texts, at least one")
            raise BadInput(f"{at}{value} is not accepted, give a list of {wanted}")
        fields[name], where[name] = value, at
    for name in ("notebook", "runs"):
        if name not in fields:
            raise BadInput(f"{shown(path)}: {name} is missing, a sweep needs notebook and runs")
    return fields, where


def _items(texts: list[str], places: list[Path]) -> list[str]:
    """Overrides unchanged, and parameter files with their paths below the first of these places that has them."""

    def path(text: str) -> Path:
        return next((place / text for place in places if (place / text).is_file()), places[0] / text)

    return [text if is_override(text) else str(path(text)) for text in texts]


def _run(entry: str | dict, where: str) -> tuple[str, dict]:
    """The text of an entry of `runs`, which names files and overrides, and its grid."""
    if isinstance(entry, str):
        return entry, {}
    for name in entry:
        if name not in OF_A_RUN:
            raise BadInput(f"{where}{name}: unknown, a run is a text or a mapping of {' and '.join(OF_A_RUN)}")
    run, grid = entry.get("run"), entry.get("grid", {})
    if not (isinstance(run, str) and run.strip()):
        raise BadInput(f"{where}run: {show(run)} is not accepted in {entry}, give parameter files and overrides")
    if not isinstance(grid, dict):
        raise BadInput(f"{where}{run}: grid: {show(grid)} is not accepted, give {WANTED[dict]}")
    return run, grid


def _combinations(grid: dict[str, Any], settings: type[Settings], where: str) -> list[list[str]]:
    """The overrides of each combination of a grid's values. The values of the last name change fastest."""
    for name, values in grid.items():
        if not (isinstance(values, list) and values and all(isinstance(value, SCALARS) for value in values)):
            wanted = "a list of numbers, texts, true, false or null, at least one"
            raise BadInput(f"{where}{name}: {show(values)} is not accepted, give {wanted}")
        for value in values:
            settings.check(str(name), value, where)
    each = ([as_override(name, value) for value in values] for name, values in grid.items())
    return [list(combination) for combination in itertools.product(*each)]


def _check(notebook: Path, items: list[str], where: str) -> None:
    """Refuse what the runner would refuse. The messages of mistakes outside of parameter files begin with `where`."""
    names = [item.split("=", 1)[0] for item in items if is_override(item)]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{where}{name}: given twice, give it once in the run, its grid, the sweep's grid or `with`")
    try:
        resolve(notebook, items)
    except BadInput as error:
        for own in ("command line: ", f"{shown(notebook)}: "):
            if str(error).startswith(own):
                raise BadInput(where + str(error).removeprefix(own)) from None
        raise


def _then(
    fields: dict[str, Any], items: list[str], path: Path, trained: Path, names: list[str], outputs: str | Path
) -> Planned | None:
    """The run of the notebook that compares. It gets the runs' names, and their folder if it has that parameter."""
    if "then" not in fields:
        return None
    notebook = notebook_path(fields["then"])
    known = defaults(notebook)
    if "runs" not in known:
        raise BadInput(f"{shown(path)}: then: {notebook.stem} has no parameter `runs`, give a notebook that has it")
    items = [*items, f"runs={json.dumps(names)}"]
    if "runs_dir" in known:
        folder = root() / outputs / trained.stem
        folder = folder.relative_to(root()) if folder.is_relative_to(root()) else folder
        items.append(f"runs_dir={json.dumps(str(folder))}")
    resolve(notebook, items)
    return Planned(notebook, path.stem, items)


@command
def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rationale.sweeps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ", ".join(sorted(path.stem for path in (root() / "params" / "sweeps").glob("*.yaml")))
    parser.add_argument("sweep", metavar="SWEEP", help=f"a path (.yaml), or a name in params/sweeps/: {known}")
    parser.add_argument(
        "--outputs",
        default="outputs",
        metavar="DIR",
        help="folder of the results, absolute or below the repository (default: outputs)",
    )
    parser.add_argument(
        "--commands",
        action="store_true",
        help="print only the runs' commands, one per line: without Snakemake, pipe them into `tr '\\n' '\\0' | "
        "xargs -0 -P2 -I{} sh -c '{}'`",
    )
    args = parser.parse_args(argv)
    outputs = root() / args.outputs
    sweep = read_sweep(args.sweep, outputs)
    if args.commands:
        print("\n".join(planned.command(outputs) for planned in sweep.runs.values()))
        return 0
    for planned in [*sweep.runs.values(), *([sweep.then] if sweep.then else [])]:
        folder = planned.folder(outputs)
        state = (
            "finished"
            if (folder / "run.ipynb").is_file()
            else "unfinished"
            if folder.with_name(f"{folder.name}.partial").is_dir()
            else "to do"
        )
        print(f"{state:10}  {shown(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
