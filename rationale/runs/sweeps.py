"""A sweep: one notebook, many parameter files and seeds, and a notebook that compares the results.

    notebook: 12_train_sst                       # the notebook of all runs
    runs:
    - sst/full_text.yaml                         # parameter files: beside this file or below params/,
    - sst/hardkuma.yaml selection=0.5            # possibly with overrides;
    - run: sst/hardkuma.yaml                     # with a grid: one run per combination of its values,
      grid: {selection: [0.1, 0.2]}              # named hardkuma-selection0.1-..., hardkuma-selection0.2-...
    grid: {measure: [expected, selected]}        # optional: a grid for all runs
    with: [vectors_scale=0.333]                  # optional: overrides for all runs
    seeds: [1, 2, 3]                             # optional: each run with each of these seeds
    then: 31_selection_rates                     # optional: a notebook whose parameter `runs` gets the runs' names
    then_params: [num_samples=10]                # optional: parameter files and overrides for it

A run's overrides are those of its own line, then of its grid, then of the sweep's grid, of `with` and of the seed.

`make sweep SWEEP=name`, or `python -m rationale.sweeps NAME --run --jobs N`, reads `params/sweeps/<name>.yaml` and
makes its runs on this machine, N at once. `python -m rationale.sweeps NAME` checks the file and shows the state of each
run.

If some runs of a file in `params/sweeps/` are in the committed results, the others are still wanted: nobody has made
them so far. They are left out, so that the sweep makes what the tables show. With --wanted they are made, too. Sweeps
of your own, and those of which nothing is committed, have all their runs.

Without --snakemake, one process imports what runs need, and each run is a fork of it. This saves the seconds that the
imports take per run, and needs no Snakemake. With --snakemake, Snakemake starts a new process per run (see Snakefile),
as it does on a cluster, where you call Snakemake itself with a profile. Results, folders and logs are the same, and
either way continues what the other has begun.
"""

import csv
import hashlib
import itertools
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rationale.errors import BadInput, cut, shown
from rationale.parts import CHOOSING
from rationale.runs.cells import defaults, settings_class
from rationale.runs.fingerprint import fingerprint
from rationale.runs.memory import estimated_mb
from rationale.runs.origin import OWN, TASKS
from rationale.runs.parameters import resolve
from rationale.runs.workspace import is_file, notebook_path, root, run_name, why_no_name
from rationale.runs.yaml_files import as_override, is_override, lines_of, read_file, read_override
from rationale.settings import Settings, did_you_mean, show

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
MOST_RUNS = 20_000  # of a sweep; planning them takes about a minute
SCALARS = (str, int, float, bool, type(None))
COMMAND_LINE = "command line: "  # how a message about an override begins
STARTED = "=== started at "  # how the line begins that a log of a run has before what one process writes


@dataclass(frozen=True)
class Planned:
    """One run: its notebook, its name, and the arguments of the runner."""

    notebook: Path
    name: str
    items: list[str]

    @cached_property
    def params(self) -> dict[str, Any]:
        """All parameters of the run, by name."""
        return resolve(self.notebook, self.items)

    def code(self, codes: dict[tuple, str] | None = None) -> str:
        """The fingerprint of the code on which the result depends.

        Parameters
        ----------
        codes
            Fingerprints that have been computed for other runs, by notebook and naming parameters; the one of this
            run is added.
        """
        codes, key = {} if codes is None else codes, (self.notebook, *map(self.params.get, CHOOSING))
        if key not in codes:
            codes[key] = fingerprint(self.notebook, self.params)
        return codes[key]

    def content(self, codes: dict[tuple, str] | None = None) -> str:
        """A digest of what the result depends on: the code, see there, and all parameters."""
        return self.code(codes) + hashlib.sha256(json.dumps(self.params).encode()).hexdigest()[:12]

    def memory_mb(self) -> int:
        """The memory that the run needs, estimated."""
        return estimated_mb(self.params)

    def folder(self, outputs: str | Path) -> Path:
        """The folder of the finished run."""
        return Path(outputs) / self.notebook.stem / self.name

    def work(self, outputs: str | Path) -> Path:
        """The folder of the run while it is executed."""
        return Path(outputs) / self.notebook.stem / f"{self.name}.partial"

    def log(self, outputs: str | Path) -> Path:
        """The log of the run, beside its folder."""
        return Path(outputs) / self.notebook.stem / f"{self.name}.log"

    def arguments(self, outputs: str | Path) -> list[str]:
        """The runner's arguments: the run continues, waits or starts again as needed; a finished one is kept."""
        places = ["--name", self.name, "--outputs", str(outputs)]
        return [str(self.notebook), *self.items, *places, "--again-if-changed", "--wait"]

    def command(self, outputs: str | Path) -> str:
        """The shell command of the run."""
        return shlex.join([sys.executable, "-m", "rationale.runs", *self.arguments(outputs)])


@dataclass(frozen=True)
class Sweep:
    """The runs of a sweep, by name, the comparison that follows, and the names of the runs that were left out."""

    name: str
    runs: dict[str, Planned]
    then: Planned | None
    left_out: tuple[str, ...] = ()

    def contents(self) -> dict[str, str]:
        """The `content` of every run, by name. The fingerprint of code that several runs share is computed once."""
        codes: dict[tuple, str] = {}
        return {name: run.content(codes) for name, run in self.runs.items()}

    def codes(self) -> dict[str, str]:
        """The `code` of every run, by name. The fingerprint of code that several runs share is computed once."""
        codes: dict[tuple, str] = {}
        return {name: run.code(codes) for name, run in self.runs.items()}


def read_sweep(sweep: str | Path, outputs: str | Path = "outputs", wanted: bool = True) -> Sweep:
    """Read and check `params/sweeps/<sweep>.yaml`, or the file `sweep`, and every run that it names.

    Parameters
    ----------
    sweep : str or Path
    outputs : str or Path
        The folder of the results.
    wanted : bool
        False: runs of a file in `params/sweeps/` that are not committed are left out, unless none of them is.

    Raises
    ------
    BadInput
        For the first mistake in the sweep's file, in a parameter file that it names, or in a seed.
    """
    place, path = root() / "params" / "sweeps", path_of(sweep)
    fields = _fields(path)
    notebook = notebook_path(fields["notebook"])
    places = _places(path, place)
    settings, lines = settings_class(notebook), lines_of(path)

    def at(*place: str | int) -> str:
        return f"{shown(path)}:{lines[place]}: "

    def of_run(i: int, own: str, name: str) -> str:
        return f"{at('runs', i, 'grid', name)}runs: {own}: grid: "

    def listed(field: str) -> list[str]:
        return [
            item
            for i, text in enumerate(fields.get(field, ()))
            for item in _items([text], places, f"{at(field, i)}{field}: ")
        ]

    for i, item in enumerate(fields.get("with", ())):
        if is_override(item):
            with _placed(f"{at('with', i)}with: "):
                settings.check(*read_override(item)[1:], COMMAND_LINE)
    every = [
        _combinations(fields.get("grid", {}), settings, lambda name: f"{at('grid', name)}grid: "),
        [listed("with")],
        [[f"seed={seed}"] for seed in fields.get("seeds", ())] or [[]],
    ]
    runs: dict[str, Planned] = {}
    written: dict[str, list[str]] = {}  # the items of each run, its files as the sweep names them
    for i, entry in enumerate(fields["runs"]):
        here = f"{at('runs', i)}runs: "
        own, grid = _run(entry, here)
        grids = _combinations(grid, settings, partial(of_run, i, own))
        words = _words(own, places)
        number = len(runs) + len(grids) * math.prod(map(len, every))
        if number > MOST_RUNS:
            raise BadInput(f"{here}{number:,} runs, give at most {MOST_RUNS:,} per sweep")
        for parts in itertools.product([_items(words, places, here)], grids, *every):
            planned = [item for part in parts for item in part]
            name, texts = run_name(planned), [*words, *planned[len(parts[0]) :]]
            if name in runs:
                raise BadInput(f"{here}{_same_name(name, written[name], texts)}")
            if why := why_no_name(name):
                raise BadInput(f"{here}{name}: {why}; a run is named after its files and overrides")
            written[name] = texts
            runs[name] = Planned(notebook, name, planned)
            _check(runs[name], f"{here}{name}: ")
    made = committed_runs() if not wanted and path.resolve().parent == place.resolve() else frozenset()
    kept = {name: run for name, run in runs.items() if f"{notebook.stem}/{name}" in made} or runs
    named = re.sub(r"[^\w.+-]+", "_", path.stem)  # as the runs are
    places_of = {field: f"{at(field)}{field}: " for field in fields}
    then = _then(fields, listed("then_params"), named, places_of, notebook, list(kept), outputs)
    return Sweep(path.stem, kept, then, tuple(name for name in runs if name not in kept))


def path_of(sweep: str | Path) -> Path:
    """The file of a sweep that is given by its path or by its name in `params/sweeps/`."""
    return Path(sweep) if str(sweep).endswith(".yaml") else root() / "params" / "sweeps" / f"{sweep}.yaml"


def notebook_of(sweep: str | Path) -> Path:
    """The notebook of a sweep's runs, for which only the fields of the sweep's file are read and checked."""
    return notebook_path(_fields(path_of(sweep))["notebook"])


def committed_runs() -> frozenset[str]:
    """The names `<notebook>/<run>` of the runs in the committed results; none if there are no such results."""
    folder = root() / "outputs" / "reference"
    file, own = folder / "runs.json", folder / "own_texts.csv"
    records = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    lines = csv.DictReader(own.read_text(encoding="utf-8").splitlines()) if own.is_file() else ()
    return frozenset(record["run"] for record in records) | {f"17_train_own_texts/{line['run']}" for line in lines}


def _fields(path: Path) -> dict[str, Any]:
    """The fields of a sweep's file by name; the types of values are checked."""
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
    for seed in fields.get("seeds", ()):
        if fields["seeds"].count(seed) > 1:
            raise BadInput(f"{where['seeds']}{seed} is given twice")
    if "then_params" in fields and "then" not in fields:
        raise BadInput(f"{where['then_params']}there is no notebook that they are for, give then")
    for name in ("notebook", "runs"):
        if name not in fields:
            raise BadInput(f"{shown(path)}: {name} is missing, a sweep needs notebook and runs")
    return fields


def _places(path: Path, sweeps: Path) -> list[Path]:
    """Where the parameter files of a sweep are looked for: the nearest place that has one is taken.

    A sweep in `params/sweeps/` means the files in `params/`, also if a sweep beside it has the name of one.
    """
    folder, usual = path.resolve().parent, root() / "params"
    near = [folder.parent, folder] if folder == sweeps.resolve() else [folder, folder.parent]
    return list(dict.fromkeys([*near, usual]))


def _words(text: str, places: list[Path]) -> list[str]:
    """The files and overrides in the text of a run. There are spaces between them, and maybe in the name of a file."""
    bounds = [match.span() for match in re.finditer(r"\S+", text)]
    words = []
    while bounds:
        begin, end = bounds[0]
        longer = [] if is_override(text[begin:end]) else bounds
        files = (stop for _, stop in longer if any(is_file(place / text[begin:stop]) for place in places))
        meant = (stop for _, stop in longer if text[:stop].endswith(".yaml"))  # if there is no such file
        end = next(files, next(meant, end))
        words.append(text[begin:end])
        bounds = [span for span in bounds if span[0] >= end]
    return words


def _items(texts: list[str], places: list[Path], where: str) -> list[str]:
    """Overrides unchanged, and parameter files with their paths below the first of these places that has them.

    The message about a file that none of them has begins with `where`.
    """

    def path(text: str) -> Path:
        found = next((place / text for place in places if os.path.lexists(place / text)), None)
        if found is None and Path(text).is_absolute():
            raise BadInput(f"{where}{cut(shown(text))}: no such file")
        if found is None:
            names: list[str] = []
            with suppress(OSError, ValueError):  # of what cannot be a path
                near = (place / Path(text).parent for place in places)
                names = [str(Path(text).with_name(file.name)) for folder in near for file in folder.glob("*.yaml")]
            among = ", ".join(map(shown, places))
            raise BadInput(f"{where}{cut(shown(text))}: no such file in {among}{did_you_mean(text, names)}")
        return found

    return [text if is_override(text) else str(path(text)) for text in texts]


def _same_name(name: str, one: list[str], other: list[str]) -> str:
    """What is said of two runs that would be named the same, given their items as they are written in the sweep."""
    unlike = [pair for pair in itertools.zip_longest(one, other, fillvalue="nothing") if pair[0] != pair[1]]
    if not unlike:
        return f"two runs would be named {name}, give each of them once"
    first, second = unlike[0]
    if is_override(first) or is_override(second) or Path(first).stem != Path(second).stem:
        return f"two runs would be named {name}: {first} and {second} look the same in a name, change one"
    return f"{first} and {second} have the same file name; rename one"


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


def _combinations(grid: dict[str, Any], settings: type[Settings], place: Callable[[str], str]) -> list[list[str]]:
    """The overrides of each combination of a grid's values. The values of the last name change fastest.

    A message about a name begins with its `place`.
    """
    for name, values in grid.items():
        where = place(name)
        if not (isinstance(values, list) and values and all(isinstance(value, SCALARS) for value in values)):
            wanted = "a list of numbers, texts, true, false or null, at least one"
            raise BadInput(f"{where}{name}: {show(values)} is not accepted, give {wanted}")
        checked = [settings.check(str(name), value, where) for value in values]
        for i, value in enumerate(checked):
            if value in checked[:i]:
                raise BadInput(f"{where}{name}: {show(value)} is given twice")
    number = math.prod(map(len, grid.values()))
    if number > MOST_RUNS:
        raise BadInput(f"{place(next(iter(grid)))}{number:,} combinations, give at most {MOST_RUNS:,}")
    each = ([as_override(name, value) for value in values] for name, values in grid.items())
    return [list(combination) for combination in itertools.product(*each)]


def _check(run: Planned, where: str) -> None:
    """Refuse what the runner would refuse. The messages of mistakes outside of parameter files begin with `where`."""
    names = [item.split("=", 1)[0] for item in run.items if is_override(item)]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{where}{name}: given twice, give it once in the run, its grid, the sweep's grid or `with`")
    with _placed(where, f"{shown(run.notebook)}: "):
        run.params  # noqa: B018


@contextmanager
def _placed(where: str, *others: str) -> Iterator[None]:
    """Let messages about overrides within the block, and those that begin with one of `others`, begin with `where`."""
    try:
        yield
    except BadInput as error:
        own = next((own for own in (COMMAND_LINE, *others) if str(error).startswith(own)), None)
        if own is None:
            raise
        raise BadInput(where + str(error).removeprefix(own).removesuffix(" on the command line")) from None


def _then(
    fields: dict[str, Any],
    items: list[str],
    name: str,
    place: dict[str, str],
    trained: Path,
    names: list[str],
    outputs: str | Path,
) -> Planned | None:
    """The run of the notebook that compares. It gets the runs' names, and their folder if it has that parameter.

    Messages begin with the `place` of the field `then`, or of `then_params` if they are about these.
    """
    if "then" not in fields:
        return None
    where = place["then"]
    where_params = place.get("then_params", where)
    if why := why_no_name(name):
        raise BadInput(f"{where}the comparison would be named {cut(name)}, after the file of the sweep: {why}")
    notebook = notebook_path(fields["then"])
    known = defaults(notebook)
    if "runs" not in known:
        raise BadInput(f"{where}{notebook.stem} has no parameter `runs`, give a notebook that has it")
    tasks = TASKS | OWN
    task = tasks.get(Path(str(known.get("runs_dir", ""))).name)  # of the runs that the notebook reads by default
    if task and tasks.get(trained.stem, task) != task:
        read = " or ".join(stem for stem, other in tasks.items() if other == task)
        raise BadInput(f"{where}{notebook.stem} reads runs of {read}, not of {trained.stem}; give another notebook")
    folder = root() / outputs / trained.stem
    folder = folder.relative_to(root()) if folder.is_relative_to(root()) else folder
    given = {"runs": names} | ({"runs_dir": str(folder)} if "runs_dir" in known else {})
    for own in given:
        if any(item.startswith(f"{own}=") for item in items):
            raise BadInput(f"{where_params}{own}: the sweep gives the comparison its runs, leave it out")
    items = [*items, *(f"{own}={json.dumps(value, ensure_ascii=False)}" for own, value in given.items())]
    with _placed(where_params, f"{shown(notebook)}: "):
        resolve(notebook, items)
    return Planned(notebook, name, items)
