"""Whole runs and sweeps as they are started in practice: wall time, and what of it is not training.

overhead     wall time of a run less the time in which its notebook's cells ran: Python and imports of the runner,
             checks, kernel start, papermill between the cells, the HTML page, files
in cells     what the cells took, by what they do: imports, figures, judging (if the notebook judges its rationales),
             and the rest, which is the run's work (reading, training, evaluation)
beyond       wall time less the seconds in training epochs (metrics.json): overhead, imports, figures, reading,
             evaluation, judging, and the first optimiser of a process, for which torch imports its compiler

Seconds a run; in a sweep the mean over its runs, where wall time counts every core that the sweep may use. Alone:
python -m tests.benchmarks --only bench_runs
"""

import functools
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from statistics import mean

import yaml

from rationale.data import data_folder
from rationale.data.corpora.sst import read_sst
from rationale.data.vectors import available
from rationale.errors import BadInput
from rationale.runs import notebook_path, root
from rationale.runs.sweeps import read_sweep
from tools.smoke import smoke_items

ONCE = True
SST = ("12_train_sst", "params/sst/hardkuma.yaml")
VECTORS = "imdb.w2v.300d"
TINY = "10_first_rationale"
CORES = min(2, os.cpu_count() or 1)


def execute(command: list[str], where: Path) -> None:
    """Run a command of the repository; BadInput with its last line if it fails."""
    settings = os.environ | {"PYTHONPATH": str(root()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=where, env=settings, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing said"]
        raise BadInput(f"{shlex.join(command)}: exit code {done.returncode}: {said[-1]}")


def parts(run: Path, began: float, ended: float) -> dict[str, float]:
    """Where the seconds of a finished run went, from its folder and the time its command began and ended."""
    notebook = json.loads((run / "run.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    facts = [cell["metadata"]["papermill"] for cell in cells]
    start = _seconds(notebook["metadata"]["papermill"]["start_time"])
    first, last = _seconds(facts[0]["start_time"]), _seconds(facts[-1]["end_time"])
    took = {"imports": 0.0, "figures": 0.0, "work": 0.0}
    for cell, fact in zip(cells, facts, strict=True):
        kind = _kind("".join(cell["source"]), cell["metadata"].get("tags", []))
        took[kind] = took.get(kind, 0.0) + fact["duration"]
    training = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["seconds"]
    inside = sum(took.values())
    return {
        "wall": ended - began,
        "overhead": ended - began - inside,
        "of it: Python, imports of the runner, checks": start - began,
        "of it: kernel start": first - start,
        "of it: between the cells": last - first - inside,
        "of it: page and files": ended - last,
        **{f"in cells: {kind}": seconds for kind, seconds in took.items()},
        "training epochs": training,
        "beyond training epochs": ended - began - training,
    }


def _kind(source: str, tags: list[str]) -> str:
    """What a cell is for."""
    if source.startswith(("import ", "from ")):
        return "imports"
    return "figures" if "figure" in tags else "judging" if "measure_faithfulness(" in source else "work"


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def whole_run(epochs: int = 1, *items: str) -> dict[str, float]:
    """One run of SST through the runner, in a folder that goes away."""
    if VECTORS not in available():
        raise BadInput(f"{data_folder()}: holds no vectors {VECTORS}")
    read_sst()  # BadInput where it is not there
    with tempfile.TemporaryDirectory() as outputs:
        command = [sys.executable, "-m", "rationale.runs", *SST, *items, f"epochs={epochs}"]
        began = time.time()
        execute([*command, "--name", "bench", "--outputs", outputs, "--threads", "1"], root())
        return parts(Path(outputs) / SST[0] / "bench", began, time.time())


def sweep(number: int = 8, cores: int | None = None, by_snakemake: bool = False) -> dict[str, float]:
    """Seconds a run of a sweep of tiny runs, in a folder that goes away.

    Parameters
    ----------
    number : int
        Runs, which differ in their seed.
    cores : int or None
        As a sweep, on so many cores; None: the commands of its runs one after the other.
    by_snakemake : bool
        The sweep is executed by Snakemake, otherwise by the pool.
    """
    with tempfile.TemporaryDirectory() as place:
        file, outputs = Path(place) / "params" / "sweeps" / "tiny.yaml", Path(place) / "outputs"
        file.parent.mkdir(parents=True)
        small = smoke_items(notebook_path(TINY))
        planned = {"notebook": TINY, "runs": [small[0]], "with": small[1:], "seeds": list(range(1, number + 1))}
        file.write_text(yaml.safe_dump(planned), encoding="utf-8")
        runs, found = list(read_sweep(file, outputs).runs.values()), []
        if cores is None:
            for run in runs:
                began = time.time()
                execute([*shlex.split(run.command(outputs)), "--threads", "1"], root())
                found.append(parts(run.folder(outputs), began, time.time()))
            return {name: mean(part[name] for part in found) for name in found[0]}
        command = [sys.executable, "-m", "rationale.sweeps", str(file), "--outputs", str(outputs), "--run", "--quiet"]
        command += ["--jobs", str(cores), *["--snakemake"] * by_snakemake]
        began = time.time()
        execute(command, root())
        ended = time.time()
        found = [parts(run.folder(outputs), began, ended) for run in runs]
        wall = (ended - began) * cores / number
        work = [name for name in found[0] if name.startswith("in cells")]
        inside = {name: mean(part[name] for part in found) for name in [*work, "training epochs"]}
        overhead = wall - sum(inside[name] for name in work)
        beyond = wall - inside["training epochs"]
        return {"wall": wall, "overhead": overhead, **inside, "beyond training epochs": beyond}


def cases(epochs: int = 1, number: int = 8) -> dict[str, Callable[[], dict[str, float]]]:
    """A run of SST with so many epochs, and a sweep of so many tiny runs, executed in several ways."""
    tiny = f"a sweep of {number} tiny runs, seconds a run"
    groups = {
        f"a run of SST, hardkuma, {epochs} epoch{'s' * (epochs > 1)}": functools.partial(whole_run, epochs),
        f"{tiny}, one command after the other": functools.partial(sweep, number),
    }
    groups[f"{tiny}, {CORES} at a time"] = functools.partial(sweep, number, CORES)
    if importlib.util.find_spec("snakemake"):
        groups[f"{tiny}, Snakemake, {CORES} at a time"] = functools.partial(sweep, number, CORES, by_snakemake=True)
    return groups
