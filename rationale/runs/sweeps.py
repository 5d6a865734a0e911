"""A sweep: one notebook, many parameter files and seeds, and what is run on the results.

    notebook: 12_train_sst                       # what is run
    runs: [sst/full_text.yaml,                   # parameter files, below params/,
           sst/hardkuma_s40.yaml selection=0.5]  # perhaps with overrides
    seeds: [1, 2, 3]                             # each of them with each seed
    with: [vectors_scale=0.333]                  # optional: overrides for all
    then: 31_selection_rates                     # optional: a notebook that gets `runs`, the runs' names
    then_params: [num_samples=10]                # optional: parameter files and overrides for it

`make sweep SWEEP=name` reads `params/sweeps/<name>.yaml` and executes it with Snakemake (see Snakefile).
`python -m rationale.sweeps NAME` checks the file and shows what is done and what is to do.
"""

import argparse
import hashlib
import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, command
from rationale.runs.fingerprint import fingerprint
from rationale.runs.parameters import defaults, is_override, read_file, resolve, shown
from rationale.runs.workspace import notebook_path, root, run_name

FIELDS = {"notebook": str, "runs": list, "seeds": list, "with": list, "then": str, "then_params": list}


@dataclass(frozen=True)
class Planned:
    """One run: its notebook, its name, and the arguments of the runner."""

    notebook: Path
    name: str
    items: list[str]

    def content(self) -> str:
        """A digest of what the result depends on: the notebook, the code below it, all parameters."""
        params = resolve(self.notebook, self.items)
        return fingerprint(self.notebook, params) + hashlib.sha256(json.dumps(params).encode()).hexdigest()[:12]

    def folder(self, outputs: str | Path) -> Path:
        """Where the finished run is."""
        return Path(outputs) / self.notebook.stem / self.name

    def command(self, outputs: str | Path) -> str:
        """What to type: it continues, waits or begins anew as needed, and leaves alone what is done."""
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
    """Read and check `params/sweeps/<sweep>.yaml`, or the file `sweep`, and every run it names.

    Raises
    ------
    BadInput
        The first mistake: in the sweep's file, in a parameter file it names, or in a seed.
    """
    path = Path(sweep) if str(sweep).endswith(".yaml") else root() / "params" / "sweeps" / f"{sweep}.yaml"
    fields: dict[str, Any] = {}
    where: dict[str, str] = {}
    for line, name, value in read_file(path):
        if name not in FIELDS:
            raise BadInput(f"{line}{name}: unknown, a sweep has {', '.join(FIELDS)}")
        if type(value) is not FIELDS[name]:
            wanted = "a list, in [ ]" if FIELDS[name] is list else "a notebook's name"
            raise BadInput(f"{line}{name}: {value} is not accepted, give {wanted}")
        wanted = int if name == "seeds" else str
        if isinstance(value, list) and not (value and all(type(item) is wanted for item in value)):
            raise BadInput(
                f"{line}{name}: {value} is not accepted, give a list of "
                + ("whole numbers" if wanted is int else "texts, at least one")
            )
        fields[name], where[name] = value, line
    for name in ("notebook", "runs"):
        if name not in fields:
            raise BadInput(f"{shown(path)}: {name} is missing, a sweep needs notebook and runs")

    def items(texts: list[str]) -> list[str]:
        params = path.resolve().parent.parent
        return [text if is_override(text) else str(params / text) for text in texts]

    notebook, runs = notebook_path(fields["notebook"]), {}
    seeds = [[f"seed={seed}"] for seed in fields["seeds"]] if "seeds" in fields else [[]]
    for run in fields["runs"]:
        for seed in seeds:
            planned = [*items(run.split()), *items(fields.get("with", [])), *seed]
            name = run_name(planned)
            if name in runs:
                raise BadInput(f"{where['runs']}runs: two runs would be named {name}")
            resolve(notebook, planned)
            runs[name] = Planned(notebook, name, planned)
    then = _then(fields, items(fields.get("then_params", [])), path, notebook, list(runs), outputs)
    return Sweep(path.stem, runs, then)


def _then(
    fields: dict[str, Any], items: list[str], path: Path, trained: Path, names: list[str], outputs: str | Path
) -> Planned | None:
    """The run of the notebook that compares: it gets the runs' names, and their folder if it asks."""
    if "then" not in fields:
        return None
    notebook = notebook_path(fields["then"])
    known = defaults(notebook)
    if "runs" not in known:
        raise BadInput(f"{shown(path)}: then: {notebook.stem} has no parameter `runs`, give one that has")
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
        help="print only the runs' commands, one a line: without Snakemake, pipe them into `tr '\\n' '\\0' | "
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
