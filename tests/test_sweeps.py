"""Sweeps: the plan, its mistakes, and Snakemake executing it through failure and kill -9."""

import csv
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from conftest import at_home

from rationale.errors import BadInput
from rationale.runs import notebook_path, root, sweeps
from rationale.runs.parameters import modernised, resolve
from rationale.runs.sweeps import read_sweep
from tests.smoke import NOTEBOOKS, needed_first, small, smoke_items, smoke_parameters
from tests.test_runs import HEADER

TRAIN = (
    HEADER
    + """
# %% tags=["parameters"]
seed: int = 1  # seed
selection: float = 0.4  # share
vectors: str = ""  # what is to happen

# %%
import json
import time
from pathlib import Path

from rationale.runs import results_folder

# %%
with open("LOG", "a") as log:
    print(results_folder("train").name.removesuffix(".partial"), file=log)
if vectors == "fail":
    raise RuntimeError("no")
while vectors == "wait" and not Path("GO").exists():
    time.sleep(0.1)
(results_folder("train") / "metrics.json").write_text(json.dumps({"rate": selection}))
"""
)
COMPARE = (
    HEADER
    + """
# %% tags=["parameters"]
runs: list = []  # names
runs_dir: str = ""  # where they are

# %%
import json
from pathlib import Path

from rationale.runs import results_folder

# %%
rates = {run: json.loads(Path(runs_dir, run, "metrics.json").read_text())["rate"] for run in runs}
(results_folder("compare") / "metrics.json").write_text(json.dumps(rates))
"""
)


RUN = "notebook: train\nruns: [{run: a.yaml,"  # what a mistake may follow


class Playground:
    """A folder with two tiny notebooks, parameter files and a sweep."""

    def __init__(self, folder: Path):
        self.folder, self.log = folder, folder / "log.txt"
        (folder / "params" / "sweeps").mkdir(parents=True)
        self.notebook("train", TRAIN)
        self.notebook("compare", COMPARE)
        for name, text in {"a": "selection: 0.1", "b": "selection: 0.2"}.items():
            self.params(name, text)

    def notebook(self, name: str, text: str) -> None:
        go = str(self.folder / "go")
        (self.folder / f"{name}.py").write_text(text.replace("LOG", str(self.log)).replace("GO", go))

    def params(self, name: str, text: str) -> None:
        (self.folder / "params" / f"{name}.yaml").write_text(text)

    def sweep(self, text: str) -> str:
        path = self.folder / "params" / "sweeps" / "s.yaml"
        path.write_text(
            text.replace("train", str(self.folder / "train.py")).replace("compare", str(self.folder / "compare.py"))
        )
        return str(path)

    def snakemake(self, *options: str) -> subprocess.Popen:
        pytest.importorskip("snakemake", reason="to test sweeps, install the extra: pip install -e .[batch]")
        command = [
            sys.executable,
            "-m",
            "snakemake",
            "--snakefile",
            root() / "Snakefile",
            "--workflow-profile",
            root() / "profiles" / "default",
            *options,
            "--config",
            f"sweep={self.folder}/params/sweeps/s.yaml",
            f"outputs={self.folder}/outputs",
        ]
        return subprocess.Popen(
            command,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(root())},
            text=True,
            start_new_session=True,
        )

    def execute(self, *options: str) -> tuple[int, str]:
        process = self.snakemake(*options)
        out, _ = process.communicate(timeout=120)
        return process.returncode, out

    def begun(self) -> list[str]:
        """Names of the runs that began since the last call."""
        names = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(names)

    def finished(self) -> list[str]:
        return sorted(path.parent.name for path in (self.folder / "outputs" / "train").glob("*/run.ipynb"))


@pytest.fixture
def play(tmp_path: Path) -> Playground:
    return Playground(tmp_path)


def test_every_file_is_run_with_every_seed(play):
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\nseeds: [1, 2]\nwith: [selection=0.3]\n")
    assert list(read_sweep(path).runs) == [
        "a-selection0.3-seed1",
        "a-selection0.3-seed2",
        "b-selection0.3-seed1",
        "b-selection0.3-seed2",
    ]


def test_a_run_may_change_its_file(play):
    path = play.sweep("notebook: train\nruns: [a.yaml selection=0.1, a.yaml selection=0.2]\nseeds: [1]\n")
    runs = read_sweep(path).runs
    assert list(runs) == ["a-selection0.1-seed1", "a-selection0.2-seed1"]
    assert runs["a-selection0.2-seed1"].items[1:] == ["selection=0.2", "seed=1"]


def test_a_grid_gives_one_run_per_combination_in_order(play):
    path = play.sweep("""
        notebook: train
        runs: [b.yaml, {run: a.yaml, grid: {selection: [0.1, 0.25], vectors: [x, y]}}]
        """)
    assert list(read_sweep(path).runs) == [
        "b",
        "a-selection0.1-vectorsx",
        "a-selection0.1-vectorsy",
        "a-selection0.25-vectorsx",
        "a-selection0.25-vectorsy",
    ]


def test_the_grid_of_a_sweep_applies_to_every_run(play):
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml vectors=x]\ngrid: {selection: [0.1, 0.2]}\n")
    assert list(read_sweep(path).runs) == [
        "a-selection0.1",
        "a-selection0.2",
        "b-vectorsx-selection0.1",
        "b-vectorsx-selection0.2",
    ]


def test_overrides_are_those_of_the_run_its_grid_the_sweeps_grid_with_and_the_seed(play):
    play.notebook(
        "train", TRAIN.replace("vectors: str", "epochs: int = 3  # passes\ndropout: float = 0.1\nvectors: str")
    )
    path = play.sweep("""
        notebook: train
        runs: [{run: a.yaml epochs=7, grid: {selection: [0.3]}}]
        grid: {dropout: [0.5]}
        with: [vectors=x]
        seeds: [2]
        """)
    (run,) = read_sweep(path).runs.values()
    assert run.items[1:] == ["epochs=7", "selection=0.3", "dropout=0.5", "vectors=x", "seed=2"]
    assert run.name == "a-epochs7-selection0.3-dropout0.5-vectorsx-seed2"
    assert resolve(run.notebook, run.items)["dropout"] == 0.5


def test_the_values_of_a_grid_arrive_as_they_are_written(play):
    play.notebook("train", TRAIN.replace("selection: float", "bucketed: bool = True  # alike\nselection: float | None"))
    path = play.sweep("""
        notebook: train
        runs: [{run: a.yaml, grid: {selection: [null, 1.0e-5], bucketed: [false], vectors: ["no", "", a b]}}]
        """)
    found = {name: resolve(run.notebook, run.items) for name, run in read_sweep(path).runs.items()}
    assert list(found) == [
        "a-selectionnull-bucketedfalse-vectors_no",
        "a-selectionnull-bucketedfalse-vectors",
        "a-selectionnull-bucketedfalse-vectorsa_b",
        "a-selection1.0e-05-bucketedfalse-vectors_no",
        "a-selection1.0e-05-bucketedfalse-vectors",
        "a-selection1.0e-05-bucketedfalse-vectorsa_b",
    ]
    values = [(p["selection"], p["bucketed"], p["vectors"]) for p in found.values()]
    assert values == [(rate, False, text) for rate in (None, 1e-5) for text in ("no", "", "a b")]


def test_a_grid_may_hold_the_seeds_of_one_run(play):
    path = play.sweep("notebook: train\nruns: [{run: a.yaml, grid: {seed: [1, 2]}}, b.yaml seed=1]\n")
    assert list(read_sweep(path).runs) == ["a-seed1", "a-seed2", "b-seed1"]


def test_the_comparison_gets_the_runs_names_and_their_folder(play):
    path = play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n")
    then = read_sweep(path, play.folder / "out").then
    assert then.name == "s" and then.items == ['runs=["a"]', f'runs_dir="{play.folder}/out/train"']


@pytest.mark.parametrize(
    "text, part",
    [
        ("notebook: train\n", "runs is missing"),
        ("runs: [a.yaml]\n", "notebook is missing"),
        ("notebook: train\nruns: [a.yaml]\nsedes: [1]\n", "s.yaml:3: sedes: unknown"),
        ("notebook: train\nruns: a.yaml\n", "s.yaml:2: runs: a.yaml is not accepted, give a list"),
        ("notebook: train\nruns: []\n", "s.yaml:2: runs"),
        ("notebook: train\nruns: [a.yaml]\nseeds: [one]\n", "whole numbers"),
        ("notebook: train\nruns: [a.yaml]\nseeds: [-1]\n", "seed: -1 is not accepted"),
        ("notebook: train\nruns: [a.yaml, a.yaml]\n", "two runs would be named a"),
        ("notebook: train\nruns: [c.yaml]\n", "c.yaml: no such file"),
        ("notebook: train\nruns: [a.yaml]\nwith: [selection=3]\n", "selection: 3 is not accepted"),
        ("notebook: 98_nowhere\nruns: [a.yaml]\n", "no such notebook"),
        ("notebook: train\nruns: [a.yaml]\nthen: train\n", "no parameter `runs`"),
        ("- notebook\n", "not a mapping"),
        (
            "notebook: train\nruns: [a.yaml, 3]\n",
            "s.yaml:2: runs: ['a.yaml', 3] is not accepted, give a list of texts, or",
        ),
        (f"{RUN} gird: {{}}}}]\n", "s.yaml:2: runs: gird: unknown, a run is a text or a mapping of run and grid"),
        ("notebook: train\nruns: [{grid: {seed: [1]}}]\n", "s.yaml:2: runs: run: null is not accepted"),
        ("notebook: train\nruns: [{run: [a.yaml]}]\n", "s.yaml:2: runs: run: ['a.yaml'] is not accepted"),
        (f"{RUN} grid: [seed]}}]\n", "s.yaml:2: runs: a.yaml: grid: ['seed'] is not accepted, give parameters"),
        (f"{RUN} grid: {{seed: 1}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: 1 is not accepted, give a list of"),
        (f"{RUN} grid: {{seed: }}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: null is not accepted, give a list of"),
        (f"{RUN} grid: {{seed: []}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: [] is not accepted, give a list of"),
        (f"{RUN} grid: {{seed: [[1]]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: [[1]] is not accepted"),
        (f"{RUN} grid: {{seed: [{{a: 1}}]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: [{'a': 1}] is not accepted"),
        (f"{RUN} grid: {{sede: [1]}}}}]\n", "grid: sede: unknown parameter, did you mean seed?"),
        (f"{RUN} grid: {{1: [1]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: 1: unknown parameter"),
        (f"{RUN} grid: {{selection: [0.1, 3]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: selection: 3"),
        (f"{RUN} grid: {{seed: [1, -1]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: -1 is not accepted"),
        (f"{RUN} grid: {{seed: [1], seed: [2]}}}}]\n", "s.yaml:2: seed is given twice, first on line 2"),
        (f"{RUN} grid: {{seed: [1, 1]}}}}]\n", "s.yaml:2: runs: two runs would be named a-seed1"),
        (
            f"{RUN} grid: {{seed: [1]}}}}]\nseeds: [2]\n",
            "s.yaml:2: runs: a-seed1-seed2: seed: given twice, give it once",
        ),
        (f"{RUN}}}]\ngrid: {{seed: []}}\n", "s.yaml:3: grid: seed: [] is not accepted"),
        (f"{RUN}}}]\ngrid: {{sede: [1]}}\n", "s.yaml:3: grid: sede: unknown parameter"),
        (f"{RUN}}}]\ngrid: {{seed: [-1]}}\n", "s.yaml:3: grid: seed: -1 is not accepted"),
        (f"{RUN}}}]\ngrid: [seed]\n", "s.yaml:3: grid: ['seed'] is not accepted, give parameters and their values"),
        (f"{RUN}}}]\nwith: [selection=3]\n", "s.yaml:2: runs: a-selection3: selection: 3 is not accepted"),
    ],
)
def test_a_mistake_in_a_sweep_is_named_before_anything_runs(play, capsys, text, part):
    path = play.sweep(text)
    with pytest.raises(BadInput) as caught:
        read_sweep(path)
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert sweeps.main([path]) == 2 and capsys.readouterr().err.startswith("error: ")


def test_the_plan_and_the_commands_can_be_seen_first(play, capsys):
    path = play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n")
    assert sweeps.main([path, "--outputs", str(play.folder / "out")]) == 0
    assert capsys.readouterr().out.count("to do ") == 2
    assert "outputs" not in os.listdir(play.folder)
    assert sweeps.main([path, "--commands"]) == 0
    assert "-m rationale.runs" in capsys.readouterr().out


def test_a_planned_run_is_done_again_after_its_parameters_or_its_own_corpus_changed(tmp_path, monkeypatch):
    for folder in ("rationale", "notebooks"):
        shutil.copytree(root() / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    at_home(monkeypatch, tmp_path)

    def content(*items: str) -> str:
        return sweeps.Planned(tmp_path / "notebooks" / "11_train_reviews.py", "name", [*items]).content()

    def touched(corpus: str) -> str:
        file = tmp_path / "rationale" / "data" / "corpora" / f"{corpus}.py"
        file.write_text(file.read_text() + "\nNEW = 1\n")
        return content("corpus=synthetic")

    first = content("corpus=synthetic")
    assert content("corpus=synthetic", "seed=7") != first, "a parameter"
    assert touched("hotels") == first, "another corpus"
    assert touched("synthetic") != first, "its own corpus"


@pytest.mark.slow
def test_snakemake_runs_what_is_new_goes_on_after_a_failure_and_compares(play):
    play.params("c", "vectors: fail")
    play.sweep("notebook: train\nruns: [c.yaml, a.yaml, b.yaml]\nthen: compare\n")
    code, out = play.execute()
    assert code == 1, out
    assert play.begun() == ["a", "b", "c"] and play.finished() == ["a", "b"], "the others go on"
    assert "RuntimeError: no" in out, "the failed run's log is shown"

    play.params("c", "selection: 0.9")  # mended
    os.utime(play.folder / "params" / "a.yaml")  # new time stamp, same content
    play.params("b", "selection: 0.3")  # new content
    code, out = play.execute()
    assert code == 0, out
    assert play.begun() == ["b", "c"], "exactly what failed or changed is run"
    metrics = json.loads((play.folder / "outputs" / "compare" / "s" / "metrics.json").read_text())
    assert metrics == {"c": 0.9, "a": 0.1, "b": 0.3}


@pytest.mark.slow
def test_a_sweep_survives_kill_9_and_does_only_what_is_left(play):
    play.params("b", "vectors: wait")
    play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")
    first = play.snakemake()
    for _ in range(600):
        if play.finished() == ["a"] and "b" in play.log.read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail("a never finished: " + (first.kill() or first.stdout.read()))
    os.killpg(first.pid, signal.SIGKILL)  # Snakemake and its runners
    first.communicate()
    assert play.begun() == ["a", "b"] and play.finished() == ["a"]

    (play.folder / "go").touch()
    assert play.execute("--unlock", "--quiet", "all")[0] == 0
    code, out = play.execute()
    assert code == 0, out
    assert play.begun() == ["b"] and play.finished() == ["a", "b"]


def test_the_profiles_are_readable_and_keep_going():
    for path in (root() / "profiles").glob("*/config.yaml"):
        profile = yaml.safe_load(path.read_text())
        assert profile["keep-going"] and profile["rerun-incomplete"], path


def test_every_sweep_of_the_repository_is_valid():
    for path in (root() / "params" / "sweeps").glob("*.yaml"):
        assert read_sweep(path.stem).runs


NOTEBOOKS_OF = {  # which notebooks the files of a folder below params/ are for
    "attention": ["13_train_nli", "15_train_seq2seq"],
    "beer": ["11_train_reviews"],
    "nli": ["13_train_nli"],
    "probes": ["14_train_probes"],
    "reviews": ["11_train_reviews"],
    "seq2seq": ["15_train_seq2seq"],
    "sst": ["12_train_sst"],
}


def test_every_parameter_file_is_accepted_by_its_notebooks():
    folders = [path for path in (root() / "params").iterdir() if path.is_dir() and path.name != "sweeps"]
    assert {folder.name for folder in folders} == set(NOTEBOOKS_OF)
    for path in (path for folder in folders for path in folder.iterdir()):
        for notebook in NOTEBOOKS_OF[path.parent.name]:
            assert resolve(notebook_path(notebook), [path]), path
    assert resolve(notebook_path("10_first_rationale"), [root() / "params" / "demo.yaml"])


def test_the_smoke_parameters_of_every_notebook_are_accepted():
    assert set(small()) == {path.stem for path in NOTEBOOKS}
    for notebook in NOTEBOOKS:
        given, first = smoke_parameters(notebook), needed_first(notebook)
        resolved = resolve(notebook, smoke_items(notebook))
        assert {name: resolved[name] for name in given} == given, notebook.stem
        assert first is None or (first in NOTEBOOKS and "runs_dir" in resolved), notebook.stem


def parameters_of_committed_runs() -> dict[str, dict]:
    """Of every run in `runs.json`, as they would be written today."""
    records = json.loads((root() / "outputs" / "reference" / "runs.json").read_text(encoding="utf-8"))
    return {record["run"]: modernised(record["parameters"]) for record in records}


def test_what_a_sweep_runs_has_the_name_under_which_it_is_committed():
    planned = {}
    for path in (root() / "params" / "sweeps").glob("sst_*.yaml"):
        for run in read_sweep(path.stem).runs.values():
            planned[f"{run.notebook.stem}/{run.name}"] = resolve(run.notebook, run.items)
    elsewhere = set()
    for name, parameters in parameters_of_committed_runs().items():
        if name.startswith("12_train_sst/"):
            known = {key: value for key, value in parameters.items() if key != "device"}
            same = {run for run, p in planned.items() if all(p[key] == value for key, value in known.items())}
            assert not same or name in same, f"{name} is called {same} today"
            elsewhere |= set() if same else {name.removeprefix("12_train_sst/")}
    assert elsewhere == {
        "attention-seed1",
        "bernoulli-sparsity0.01-entropy0-epochs12-seed1",
        "bernoulli_authors-epochs12-vectors_scale0.3333-seed1",
        "bernoulli_authors-epochs12-vectorsglove.6B.50d-seed1",
    }, "runs that no sweep makes"


def test_every_run_in_the_committed_tables_is_one_of_runs_json():
    folder = root() / "outputs" / "reference"
    for table in ("results.csv", "history.csv"):
        with open(folder / table, newline="", encoding="utf-8") as file:
            strange = {row["run"] for row in csv.DictReader(file)} - set(parameters_of_committed_runs())
            assert not strange, f"{table} has runs that runs.json has not"


def test_snakemake_is_an_extra_of_its_own():
    assert importlib.util.find_spec("rationale.sweeps")
    code = "import sys, rationale.sweeps; print('snakemake' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=root()).strip() == "False"


def test_a_sweep_file_anywhere_finds_parameter_files_of_the_repository_and_beside_it(tmp_path):
    (tmp_path / "mine.yaml").write_text("epochs: 2\n")
    (tmp_path / "own.yaml").write_text("notebook: 12_train_sst\nruns: [sst/hardkuma.yaml mine.yaml]\nseeds: [1]\n")
    (planned,) = read_sweep(tmp_path / "own.yaml").runs.values()
    assert planned.items == [str(root() / "params/sst/hardkuma.yaml"), str(tmp_path / "mine.yaml"), "seed=1"]
