"""Training notebooks that are killed at random moments, again and again, end with the results of an undisturbed run."""

import json
import os
import random
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest

from rationale.runs import notebook_path, root
from rationale.training.checkpoint import read_tensors
from tests.forked import run_here, started
from tests.smoke import skip_without_data, smoke_items

TRAINING = sorted((root() / "notebooks").glob("1?_*.py"))
KILLS = 40
MEASURED = ("seconds", "words_a_second")  # of the machine, not of the model


def results(folder: Path) -> dict:
    """All results of a run that do not depend on the machine's load."""
    metrics = json.loads((folder / "metrics.json").read_text())

    def without_times(value):
        if isinstance(value, dict):
            return {name: without_times(inner) for name, inner in value.items() if name not in MEASURED}
        return value

    found = {"metrics": without_times(metrics), "params": (folder / "params.yaml").read_text()}
    found["history"] = pd.read_csv(folder / "history.csv").drop(columns="seconds", errors="ignore").to_csv()
    for path in sorted(folder.glob("*.jsonl")):
        found[path.name] = path.read_text()
    if (folder / "model.safetensors").exists():
        tensors, found["facts"] = read_tensors(folder / "model.safetensors")
        found |= {name: value.tolist() for name, value in tensors.items()}
    return found


@pytest.mark.parametrize(
    ("notebook", "kills"),
    [
        pytest.param(notebook_path("10_first_rationale"), 2, id="10_first_rationale, twice", marks=pytest.mark.slow),
        *(pytest.param(path, KILLS, id=path.stem, marks=pytest.mark.deep) for path in TRAINING),
    ],
)
def test_a_run_that_is_killed_at_random_moments_ends_as_if_it_had_not_been(notebook, kills, tmp_path):
    skip_without_data(notebook)
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TQDM_DISABLE": "1"}

    def start(name: str):
        options = {"outputs": tmp_path, "name": name, "wait": True}
        return started(run_here, notebook, smoke_items(notebook), environment, options)

    began = time.monotonic()
    calm = start("calm")
    calm.join()
    duration = time.monotonic() - began
    assert calm.exitcode == 0
    here = tmp_path / notebook.stem
    expected, moments, finished = results(here / "calm"), random.Random(notebook.stem), 0
    for number in range(1, kills + 1):
        moment = moments.uniform(0, duration)
        where = f"kill {number}, after {moment:.2f} of {duration:.2f} s"
        child = start("killed")
        child.join(moment)
        if child.is_alive():
            child.kill()
            child.join()
        else:
            assert child.exitcode == 0, f"{where}: a killed run must continue, or begin again, without an error"
            finished += 1
            assert results(here / "killed") == expected, where
            shutil.rmtree(here / "killed")
    last = start("killed")
    last.join()
    assert last.exitcode == 0 and results(here / "killed") == expected
    assert sorted(path.name for path in here.iterdir()) == ["calm", "killed"], "nothing else is left"
    print(f"{notebook.stem}: killed {kills - finished} times, finished {finished + 1} times")
