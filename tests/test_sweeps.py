"""Sweeps: the plan, its mistakes, and Snakemake executing it through failure and kill -9."""

import contextlib
import csv
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from conftest import at_home
from own_files import reviews, write_table

from rationale.data import read as data_read
from rationale.errors import BadInput, shown
from rationale.files import lock_file
from rationale.runs import by_snakemake, committed, notebook_path, root, sweeping, sweeps, time_left, warm
from rationale.runs.differences import defaults_of
from rationale.runs.folder import WorkFolder, is_worked_on
from rationale.runs.parameters import WITHOUT_EFFECT, modernised, resolve
from rationale.runs.pool import PATIENCE, changes_since, refuse_others
from rationale.runs.record import made_of, write_record
from rationale.runs.sweeping import Status, line, status
from rationale.runs.sweeps import Planned, read_sweep
from rationale.runs.workspace import run_name, why_no_name
from rationale.sweeps import main
from tests import slurm_stand_in
from tests.depth import slow_or_deep
from tests.forked import run_forked
from tests.playground import TRAIN, Playground, is_alive, require_installed, sweep_started, tree_of, wait_until
from tests.smoke import NOTEBOOKS, needed_first, small, smoke_items, smoke_parameters

RUN = "notebook: train\nruns: [{run: a.yaml,"  # what a mistake may follow
WAYS = slow_or_deep([pytest.param([], id="pool"), pytest.param(["--snakemake"], id="snakemake")], ["pool"])


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


def test_a_parameter_file_may_have_spaces_in_its_name(play):
    for name in ("my file", "my  other file", "file"):
        play.params(name, "selection: 0.3")
    (play.folder / "params" / "my").mkdir()
    path = play.sweep(
        "notebook: train\nruns:\n- my file.yaml\n- b.yaml my file.yaml a.yaml seed=2\n"
        "- {run: 'my  other file.yaml', grid: {vectors: [a b]}}\n- my missing file.yaml seed=2\n"
    )
    with pytest.raises(
        BadInput, match=r"s.yaml:6: runs: my missing file.yaml: no such file in .*, did you mean my file.yaml"
    ):
        read_sweep(path)
    Path(path).write_text(Path(path).read_text().replace("- my missing file.yaml seed=2\n", ""))
    runs = read_sweep(path).runs
    assert list(runs) == ["my_file", "b-my_file-a-seed2", "my_other_file-vectorsa_b"]
    assert [Path(item).name for item in runs["b-my_file-a-seed2"].items] == [
        "b.yaml",
        "my file.yaml",
        "a.yaml",
        "seed=2",
    ]
    assert runs["my_file"].params["selection"] == 0.3


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
        (f"{RUN} grid: {{seed: [1, 1]}}}}]\n", "s.yaml:2: runs: a.yaml: grid: seed: 1 is given twice"),
        ("notebook: train\nruns: [a.yaml]\nseeds: [1, 2, 1]\n", "s.yaml:3: seeds: 1 is given twice"),
        (
            f"{RUN}}}]\ngrid:\n  seed: [1]\n  selection: [0.5, 5.0e-1]\n",
            "s.yaml:5: grid: selection: 0.5 is given twice",
        ),
        (
            "notebook: train\nruns:\n- a.yaml\n- far/a.yaml\n",
            "4: runs: a.yaml and far/a.yaml have the same file name; rename",
        ),
        (
            "notebook: train\nruns: [vectors=x/y, vectors=z/y]\n",
            "two runs would be named vectorsy: vectors=x/y and vectors=z/y look the same in a name",
        ),
        ("notebook: train\nruns:\n- a.yaml\n- c.yaml\n", "s.yaml:4: runs: c.yaml: no such file in "),
        ("notebook: train\nruns: [far/aa.yaml]\n", "params, did you mean far/a.yaml?"),
        ("notebook: train\nruns: [/nowhere/c.yaml]\n", "s.yaml:2: runs: /nowhere/c.yaml: no such file"),
        (f"{RUN}}}]\nwith: [c.yaml]\n", "s.yaml:3: with: c.yaml: no such file in "),
        (f"{RUN}}}]\nwith:\n- seed=1\n- vectors=\n", "s.yaml:5: with: vectors: an empty value is not accepted"),
        (f"{RUN}}}]\nthen: compare\nthen_params: [rates=1]\n", "s.yaml:4: then_params: rates: unknown parameter"),
        (f"{RUN}}}]\nthen: compare\nthen_params: ['runs=[a]']\n", "s.yaml:4: then_params: runs: the sweep gives"),
        (f"{RUN}}}]\nthen: compare\nthen_params: [c.yaml]\n", "s.yaml:4: then_params: c.yaml: no such file in "),
        (
            f"{RUN} grid: {{seed: [1]}}}}]\nseeds: [2]\n",
            "s.yaml:2: runs: a-seed1-seed2: seed: given twice, give it once",
        ),
        (f"{RUN}}}]\ngrid: {{seed: []}}\n", "s.yaml:3: grid: seed: [] is not accepted"),
        (f"{RUN}}}]\ngrid: {{sede: [1]}}\n", "s.yaml:3: grid: sede: unknown parameter"),
        (f"{RUN}}}]\ngrid: {{seed: [-1]}}\n", "s.yaml:3: grid: seed: -1 is not accepted"),
        (f"{RUN}}}]\ngrid: [seed]\n", "s.yaml:3: grid: ['seed'] is not accepted, give parameters and their values"),
        (f"{RUN}}}]\nwith: [selection=3]\n", "s.yaml:3: with: selection: 3 is not accepted"),
        (f"{RUN}}}]\nwith:\n  - seed=1\n  - sede=3\n", "s.yaml:5: with: sede: unknown parameter"),
        (f"{RUN}}}]\ngrid:\n  seed: [1]\n\n  selection: [3]\n", "s.yaml:6: grid: selection: 3 is not accepted"),
        ("notebook: train\nruns:\n- a.yaml\n- b.yaml seed=-1\n", "s.yaml:4: runs: b-seed-1: seed: -1 is not accepted"),
        (
            "notebook: train\nruns:\n- a.yaml\n- run: b.yaml\n  grid:\n    seed: [-1]\n",
            "s.yaml:6: runs: b.yaml: grid: seed: -1 is not accepted",
        ),
    ],
)
def test_a_mistake_in_a_sweep_is_named_before_anything_runs(play, capsys, text, part):
    (play.folder / "params" / "far").mkdir()
    play.params("far/a", "selection: 0.9")
    path = play.sweep(text)
    with pytest.raises(BadInput) as caught:
        read_sweep(path)
    assert part in str(caught.value) and "\n" not in str(caught.value)
    assert main([path]) == 2 and capsys.readouterr().err.startswith("error: ")


def test_the_comparison_finds_its_runs_in_a_folder_whose_name_has_any_letters(play):
    out = play.folder / "Läufe 😀"
    sweep = read_sweep(play.sweep("notebook: train\nruns: [vectors=𝛼]\nthen: compare\n"), out)
    assert sweep.then.params["runs_dir"] == str(out / "train") and sweep.then.params["runs"] == ["vectors𝛼"]


@pytest.mark.parametrize(("stem", "name"), [("my sweep", "my_sweep"), ("it's (1)", "it_s_1_"), ("s.2", "s.2")])
def test_the_comparison_of_a_sweep_with_an_odd_name_has_one_that_the_runner_accepts(play, stem, name):
    path = Path(play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n"))
    then = read_sweep(path.rename(path.with_stem(stem)), play.folder / "out").then
    assert then.name == name and why_no_name(name) == ""


@pytest.mark.parametrize("stem", ["lab", "s.partial", "s" * 210])
def test_a_name_that_the_runner_would_refuse_is_told_before_a_sweep_begins(play, stem):
    path = Path(play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n"))
    path = path.rename(path.with_stem(stem))
    told = r":3: then: the comparison would be named \S*, after the file of the sweep: (reserved|not a folder name)"
    with pytest.raises(BadInput, match=told):
        read_sweep(path)
    path.write_text(path.read_text().partition("then")[0])
    assert list(read_sweep(path).runs) == ["a"], "without a comparison nothing is named after the sweep"


@pytest.mark.parametrize("run", ["lab.yaml", "a.yaml vectors=x.partial"])
def test_a_run_with_a_reserved_name_is_told_before_a_sweep_begins(play, run):
    play.params("lab", "selection: 0.3")
    name = run_name(run.split())
    assert why_no_name(name)
    with pytest.raises(BadInput, match=rf"s.yaml:2: runs: {name}: reserved \(.*\), give another name"):
        read_sweep(play.sweep(f"notebook: train\nruns: [{run}]\n"))


def test_the_plan_and_the_commands_can_be_seen_first(play, capsys):
    path = play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n")
    assert main([path, "--outputs", str(play.folder / "out")]) == 0
    assert capsys.readouterr().out.count("to do ") == 2
    assert "outputs" not in os.listdir(play.folder)
    assert main([path, "--commands"]) == 0
    assert "-m rationale.runs" in capsys.readouterr().out


def test_commands_that_are_only_printed_are_not_to_be_run_as_well(play, capsys):
    path = play.sweep("notebook: train\nruns: [a.yaml]\n")
    with pytest.raises(SystemExit) as end:
        main([path, "--run", "--commands", "--outputs", str(play.folder / "out")])
    printed = capsys.readouterr()
    assert end.value.code == 2 and not printed.out and "--commands: not with --run" in printed.err


def test_an_empty_folder_of_outputs_is_refused_and_not_the_repository(play, capsys):
    path = play.sweep("notebook: train\nruns: [a.yaml]\n")
    with pytest.raises(SystemExit) as end:
        main([path, "--outputs", ""])
    assert end.value.code == 2 and "--outputs: an empty value is not accepted, give a fol" in capsys.readouterr().err


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


def put(path: Path, text: str, seconds: float = 0.0) -> None:
    """Write a file that was changed so many seconds after 1970."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (seconds, seconds))


def test_the_state_of_a_run_is_read_from_its_folder_and_its_log(play):
    out = play.folder / "out"
    (run,) = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n")).runs.values()
    folder, work, log = run.folder(out), run.folder(out).with_name("a.partial"), run.log(out)
    assert status(run, out).state == "to do"
    put(log, "works\nexit code 1\n", 50)
    assert status(run, out).state == "failed"
    assert status(run, out, began=60).state == "to do", "the log is of an earlier attempt"
    put(log, "interrupted\nexit code 130\n", 70)
    put(work / "runner.lock", "")
    assert status(run, out, began=60).state == "unfinished"
    put(log, "begins", 70)
    assert status(run, out, began=60).state == "starting"
    with lock_file(work / "runner.lock", 0):
        put(work / "progress.json", '{"phase": "training", "epoch": 3, "epochs": 4, "batch": 1, "batches": 2}')
        now = status(run, out, began=60)
        assert now.state == "running" and line(run, now, out) == "running     a  epoch 3/4  batch 1/2"
    put(folder / "run.ipynb", "{}", 80)
    put(folder / "metrics.json", '{"dev": {"accuracy": 0.75, "task": 1.0, "rate_selected": 0.25}}')
    now = status(run, out, began=60)
    assert line(run, now, out) == "finished    a  dev accuracy 0.75  dev rate_selected 0.25"


def test_a_run_that_was_finished_by_another_command_after_it_failed_in_a_sweep_has_not_failed(play):
    out = play.folder / "out"
    (run,) = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n")).runs.values()
    put(run.log(out), "no data\nexit code 2\n", 50)
    put(run.folder(out) / "run.ipynb", "{}", 60)
    assert status(run, out).state == "finished", "the log is older than the run"
    put(run.log(out), "RuntimeError: no\nexit code 1\n", 70)
    assert status(run, out).state == "failed", "it was to be made again"


def test_a_sweep_goes_on_without_its_terminal_if_nohup_has_started_it():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with sweeping._signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM] and signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with sweeping._signals() as received:
            os.kill(os.getpid(), signal.SIGHUP)
        assert received == [signal.SIGHUP]
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("place", ["2024_01", "1e3", "true", "own #1: a/s.yaml", "eigene Läufe 😀/s.yaml"])
def test_snakemake_reads_the_path_of_a_sweep_and_neither_a_number_nor_yaml(tmp_path, place):
    sweep = place if "/" not in place else str(tmp_path / place)
    command = by_snakemake._command(sweep, False, False, tmp_path / "out #1", 1, 1000)
    given = dict(item.split("=", 1) for item in command[command.index("--config") + 1 :])
    for kind in (int, float):
        with pytest.raises(ValueError):  # Snakemake tries these first
            kind(given["sweep"])
    read = {name: yaml.load(text, yaml.BaseLoader) for name, text in given.items()}
    assert read["sweep"] == os.path.realpath(sweeps.path_of(sweep)) and read["outputs"] == str(tmp_path / "out #1")


@pytest.fixture
def instead_of_snakemake(tmp_path, monkeypatch):
    """A function that executes a Python program in its place, with the signals and the looks that it is given."""

    def execute(program: str, received: list[int], look) -> int:
        monkeypatch.setattr(by_snakemake, "optional", lambda *_: None)
        monkeypatch.setattr(by_snakemake, "_command", lambda *_: [sys.executable, "-c", program])
        with open(tmp_path / "lock", "w") as lock:
            log = tmp_path / "log"
            return by_snakemake.with_snakemake("s", False, False, tmp_path / "out", 1, 1, log, lock, received, look)

    return execute


def test_an_interruption_in_the_moment_in_which_snakemake_ends_is_no_error(instead_of_snakemake):
    received: list[int] = []

    def look() -> float:
        time.sleep(0.2)
        received.append(signal.SIGINT)
        return 60.0

    assert instead_of_snakemake("", received, look) == 0


def test_snakemake_does_not_go_on_if_its_sweep_cannot(instead_of_snakemake, tmp_path, monkeypatch):
    monkeypatch.setitem(PATIENCE, signal.SIGINT, 0.5)  # a shell may start the tests with this signal ignored
    pid = tmp_path / "pid"

    def look() -> float:
        wait_until(lambda: pid.exists() and pid.read_text())
        raise BrokenPipeError

    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(BrokenPipeError):
        instead_of_snakemake(program, [], look)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_run_that_failed_without_a_log_is_told_all_the_same(play, capsys, monkeypatch):
    out = play.folder / "outputs"
    (out / "train" / "a.log").mkdir(parents=True)

    def start(*_):
        raise OSError("no space left")

    monkeypatch.setattr(warm, "start", start)
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")
    assert main([path, "--outputs", str(out), "--run", "--jobs", "1"]) == 1
    said = capsys.readouterr()
    assert "1 failed, 1 not made" in said.out
    assert "a failed (exit code 1), and its log cannot be written: " in said.err and "b failed; the last" in said.err


def test_looking_at_a_run_does_not_disturb_a_runner_that_starts(tmp_path):
    with WorkFolder(tmp_path / "a", wait=False) as work:
        assert is_worked_on(work.path)
    (tmp_path / "b.partial").mkdir()
    look = lock_file(tmp_path / "b.partial" / "runner.lock", 0)
    threading.Timer(0.1, look.close).start()
    with WorkFolder(tmp_path / "b", wait=False) as work:
        assert work.path.is_dir()


def shown_looks(kind: type, play: Playground, states: list[list[tuple[str, dict]]]) -> str:
    """What a display shows of these states of two runs."""
    runs = list(read_sweep(play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")).runs.values())
    stream = io.StringIO()
    display = kind(stream)
    for look in states:
        display.show(runs, [Status(*one) for one in look], play.folder)
    display.end(runs, [Status(*one) for one in states[-1]], play.folder)
    return stream.getvalue()


GOING = {"phase": "training", "epoch": 2, "epochs": 4, "batch": 1, "batches": 2, "score": 0.5, "score_name": "mse"}
LOOKS = [
    [("to do", {}), ("to do", {})],
    [("running", {}), ("to do", {})],
    [("running", GOING), ("to do", {})],
    [("finished", {}), ("failed", {})],
]


def test_a_log_of_a_sweep_has_a_line_per_start_and_end_and_per_minute(play, monkeypatch):
    text = shown_looks(sweeping._Log, play, LOOKS)
    assert [row.split(maxsplit=1)[1].strip() for row in text.splitlines()][:-1] == [
        "running     a", "finished    a", "failed      b",
    ]  # fmt: skip
    assert "1 finished, 1 failed" in text.splitlines()[-1] and "\x1b" not in text
    monkeypatch.setattr(sweeping, "LOG_SECONDS", 0.0)
    assert "running     a  epoch 2/4  batch 1/2  mse 0.5000" in shown_looks(sweeping._Log, play, LOOKS)


def test_a_terminal_shows_one_line_per_run_and_a_summary_and_writes_them_again(play, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "20")
    looks = shown_looks(sweeping._Table, play, LOOKS).split("\x1b[J")
    assert looks[3].startswith("running     a  epoch 2/4  batch 1/2  mse 0.5000\nto do       b\n1 running, 1 to do")
    assert looks[3].endswith("\x1b[3F"), "the next one overwrites these three lines"
    monkeypatch.setenv("LINES", "4")
    few = shown_looks(sweeping._Table, play, LOOKS).split("\x1b[J")
    assert few[3].startswith("running     a  epoch 2/4") and "to do  " not in few[3], "only what is running fits"


@pytest.mark.parametrize("display", [sweeping._Log, sweeping._Table])
def test_when_a_sweep_has_ended_nothing_is_left_to_do(play, monkeypatch, display):
    looks = [[("to do", {}), ("to do", {})], [("failed", {}), ("to do", {})]]
    last = shown_looks(display, play, looks).splitlines()[-1]
    assert "1 failed, 1 not made; " in last and "to do" not in last and "left" not in last


def told_left(
    play: Playground, monkeypatch: pytest.MonkeyPatch, looks: list[tuple[int, list]], done: dict
) -> list[str]:
    """The time left that a display tells at each look, which is (seconds since its start, states of three runs).

    `done` has the seconds that finished runs have recorded, by name.
    """
    out, now = play.folder / "out", [1000.0]
    runs = list(read_sweep(play.sweep("notebook: train\nruns: [seed=1, seed=2, seed=3]\n"), out).runs.values())
    for name, seconds in done.items():
        put(out / "train" / name / "environment.txt", f"python: 3\n{seconds}")
    monkeypatch.setattr(time_left, "time", SimpleNamespace(monotonic=lambda: now[0]))
    display, told = sweeping._Log(io.StringIO()), []
    for seconds, states in looks:
        now[0] = 1000.0 + seconds
        told.append(display.summary(runs, [Status(*one) for one in states], out).partition(" so far")[2])
    return told


READING, TODO, FINISHED = ("running", {"phase": "reading films.csv: 120,000"}), ("to do", {}), ("finished", {})
HALF = ("running", {"phase": "training", "epoch": 3, "epochs": 4, "batch": 0, "batches": 2, "seconds_left": 100.0})


def test_the_time_left_of_a_sweep_is_not_told_and_does_not_grow_while_nothing_is_known(play, monkeypatch):
    looks = [(61, [READING, TODO, TODO]), (121, [READING, TODO, TODO]), (181, [("starting", {}), TODO, TODO])]
    assert told_left(play, monkeypatch, looks, {}) == ["", "", ""]


def test_the_time_left_of_a_sweep_is_that_of_runs_that_were_finished_before_it_was_continued(play, monkeypatch):
    looks = [(seconds, [FINISHED, READING, TODO]) for seconds in (0, 60, 90, 200)]
    told = told_left(play, monkeypatch, looks, {"seed1": "seconds: 90.0\n"})
    assert told == [f", about {text} left" for text in ("3:00", "2:00", "1:30", "1:30")], "it grew, or is not known"
    looks = [(60, [FINISHED, READING, READING])]
    assert told_left(play, monkeypatch, looks, {"seed1": "seconds: 90.0\n"}) == [", about 1:30 left"], "two at once"
    assert told_left(play, monkeypatch, looks, {"seed1": "seconds: 5.0 (continued)\n"}) == [""], "a part of its time"
    assert told_left(play, monkeypatch, looks, {"seed1": "seconds: damaged\n"}) == [""]


def test_the_time_left_of_a_sweep_without_a_finished_run_is_that_which_the_running_ones_report(play, monkeypatch):
    looks = [(100, [HALF, TODO, TODO]), (160, [HALF, HALF, TODO]), (300, [READING, TODO, TODO])]
    told = told_left(play, monkeypatch, looks, {})
    assert told[:2] == [", about 8:20 left", ", about 3:20 left"], "each run takes 200 s, and half of one is done"
    assert told[2] == ", about 6:40 left", "after its training, the first run takes no longer than it has said"
    assert told_left(play, monkeypatch, [(9, [FINISHED, FINISHED, FINISHED])], {}) == [""]


def test_estimates_of_memory_exceed_what_was_measured_and_grow_with_the_sizes(tmp_path, monkeypatch):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    (tmp_path / "hotels").mkdir()
    with open(tmp_path / "hotels" / "reviews.gz", "wb") as file:
        file.truncate(48_000_000)

    def megabytes(notebook: str, *items: str) -> int:
        return Planned(notebook_path(notebook), "x", [*items]).memory_mb()

    measured = {  # runner and kernel, MB
        ("10_first_rationale",): 868,
        ("12_train_sst", "vectors=glove.6B.50d"): 853,
        ("11_train_reviews",): 1085,
        ("11_train_reviews", "corpus=hotels", "aspect=service", "vectors=imdb.w2v.300d"): 1317,
    }
    for run, peak in measured.items():
        assert peak <= megabytes(*run) <= 2 * peak, run
    assert megabytes("11_train_reviews", "hidden_size=400") > megabytes("11_train_reviews")
    assert megabytes("11_train_reviews", "encoder=minilm") > megabytes("11_train_reviews"), "a transformer"
    assert megabytes("14_train_probes") < megabytes("14_train_probes", "corpus=sst", "searchable=14"), "a transformer"
    with open(tmp_path / "mine.csv", "wb") as file:
        file.truncate(50_000_000)
    own = megabytes("17_train_own_texts", f"corpus={tmp_path / 'mine.csv'}")
    assert own > megabytes("17_train_own_texts", "corpus=hub:owner/films") + 100, "a file outside the data folder"
    assert megabytes("17_train_own_texts", "encoder=owner/tiny") > megabytes("17_train_own_texts"), "a transformer"


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_shows_its_runs_and_the_last_lines_of_one_that_failed(play, way):
    play.params("c", "vectors: fail")
    path = play.sweep("notebook: train\nruns: [c.yaml, a.yaml]\nthen: compare\n")
    process = sweep_started(path, play.folder / "outputs", "--jobs", "2", *way)
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 1, out
    assert "logs: " in out and ("s.snakemake.log" in out) == bool(way) and "1 finished, 1 failed, 1 not made" in out
    assert "c failed; the last lines of" in out and "RuntimeError: no" in out and "exit code 1" in out
    assert play.begun() == ["a", "c"]
    play.params("c", "selection: 0.9")
    process = sweep_started(path, play.folder / "outputs", "--quiet", *way)
    out, _ = process.communicate(timeout=400)
    assert process.returncode == 0 and out == "", out
    assert play.begun() == ["c"] and (play.folder / "outputs" / "compare" / "s" / "run.ipynb").is_file()


@pytest.mark.parametrize("way", WAYS)
def test_a_sweep_waits_for_a_run_that_another_sweep_makes_and_leaves_its_log(play, way):
    play.params("a", "vectors: wait")
    outputs = play.folder / "outputs"
    first = Path(play.sweep("notebook: train\nruns: [a.yaml]\n"))
    other = first.with_name("other.yaml")
    other.write_text(first.read_text())
    commands = [sweep_started(first, outputs, *way)]
    wait_until(play.log.exists)
    log = read_sweep(first, outputs).runs["a"].log(outputs)
    before = log.read_text()
    assert "works in" in before
    commands.append(sweep_started(other, outputs, *way))
    wait_until(lambda: "waiting for the process" in log.read_text())
    (play.folder / "go").touch()
    for command in commands:
        out, _ = command.communicate(timeout=120)
        assert command.returncode == 0, out
    assert play.begun() == ["a"], "one of the two has made it"
    assert log.read_text().startswith(before) and log.read_text().count("finished in") == 1


def test_only_what_the_last_process_wrote_to_a_log_tells_how_the_run_ended(play, capsys):
    out = play.folder / "out"
    (run,) = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n")).runs.values()
    put(run.log(out), f"RuntimeError: no\nexit code 1\n\n{sweeps.STARTED}2026-11-30 00:10:01\n", 70)
    assert status(run, out, began=60).state == "starting"
    assert sweeping._tail(run.log(out)) == ""
    with open(run.log(out), "a", encoding="utf-8") as log:
        print("RuntimeError: yes\nexit code 1", file=log)
    assert status(run, out, began=60).state == "failed"
    assert sweeping._tail(run.log(out)) == "RuntimeError: yes\nexit code 1"
    put(run.work(out) / "runner.lock", "")
    with lock_file(run.work(out) / "runner.lock", 0):
        told = sweeping._without_log(run, 1, out, began=60)
    assert told == "a failed (exit code 1), and another process makes it again"


@pytest.mark.deep
def test_a_sweep_killed_twice_ends_like_undisturbed_runs(tmp_path):
    path, outputs = tmp_path / "mine.yaml", tmp_path / "out"
    path.write_text("""
        notebook: 10_first_rationale
        runs:
        - run: num_train=120 num_dev=20 num_test=20 epochs=40 hidden_size=8 embedding_size=8
          grid: {selection: [0.1, 0.2], learning_rate: [0.01]}
        seeds: [1, 2]
        """)
    runs = read_sweep(path, outputs).runs

    def states() -> list[str]:
        return [status(run, outputs).state for run in runs.values()]

    def epochs() -> list[int]:
        return [status(run, outputs).progress.get("epoch", 0) for run in runs.values()]

    first = sweep_started(path, outputs, "--jobs", "2")
    wait_until(lambda: max(epochs()) >= 3)
    killed = tree_of(first)
    for process in killed:
        with contextlib.suppress(Exception):  # a process that has ended
            process.suspend()  # so that no run ends meanwhile, however fast this machine is
    second = sweep_started(path, outputs)
    assert "another process executes this sweep" in second.communicate()[0] and second.returncode == 2
    for process in killed:
        with contextlib.suppress(Exception):
            process.kill()
    first.communicate()
    wait_until(lambda: "running" not in states(), 20)
    assert set(states()) <= {"unfinished", "to do"} and "unfinished" in states()

    again = sweep_started(path, outputs, "--jobs", "2")
    wait_until(lambda: states().count("finished") >= 1 and "running" in states())
    started = tree_of(again)
    again.send_signal(signal.SIGINT)  # Ctrl-C
    out, _ = again.communicate(timeout=60)
    assert again.returncode == 130 and "the same command continues" in out, out
    assert not [process for process in started if is_alive(process)], "all ended"
    finished = {name: run.folder(outputs) / "run.ipynb" for name, run in runs.items()}
    times = {name: file.stat().st_mtime_ns for name, file in finished.items() if file.exists()}
    assert 1 <= len(times) < len(runs)

    last = sweep_started(path, outputs, "--jobs", "2")
    out, _ = last.communicate(timeout=400)
    assert last.returncode == 0 and states() == ["finished"] * len(runs), out
    assert all(finished[name].stat().st_mtime_ns == before for name, before in times.items()), "finished once"
    for name, run in runs.items():
        alone = run_forked(run.notebook, run.items, outputs=tmp_path / "alone", name=name)
        for file in ("model.safetensors", "rationales.jsonl"):
            same = (alone / file).read_bytes() == (run.folder(outputs) / file).read_bytes()
            assert same, f"{name}: {file} differs from that of a run that was not disturbed"


@pytest.mark.deep
def test_an_interruption_ends_snakemake_and_all_of_its_runs(play):
    play.params("a", "vectors: wait")
    path, outputs = play.sweep("notebook: train\nruns: [a.yaml]\n"), play.folder / "outputs"
    command = sweep_started(path, outputs, "--snakemake")
    wait_until(play.log.exists)
    there = tree_of(command)
    command.send_signal(signal.SIGINT)
    out, _ = command.communicate(timeout=60)
    assert command.returncode == 130 and "the same command continues" in out, out
    assert not [process for process in there if is_alive(process)]
    assert status(read_sweep(path, outputs).runs["a"], outputs).state == "unfinished"


@pytest.mark.deep
def test_a_sweep_survives_kill_9_and_does_only_what_is_left(play):
    play.params("b", "vectors: wait")
    play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")
    first = play.snakemake()
    for _ in range(2400):
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


@pytest.mark.deep
def test_the_slurm_profile_runs_a_sweep_with_a_stand_in_for_slurm(play, monkeypatch):
    require_installed("snakemake_executor_plugin_slurm", "batch,slurm")
    for name, value in slurm_stand_in.install(play.folder / "slurm").items():
        monkeypatch.setenv(name, value)
    play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\nthen: compare\n")
    code, out = play.execute("--slurm-init-seconds-before-status-checks", "2", profile="slurm", seconds=400)
    assert code == 0, out
    assert play.begun() == ["a", "b"] == play.finished()
    metrics = json.loads((play.folder / "outputs" / "compare" / "s" / "metrics.json").read_text())
    assert metrics == {"a": 0.1, "b": 0.2}
    calls = [file.read_text().splitlines() for file in (play.folder / "slurm" / "jobs").glob("*.call")]
    assert sorted(slurm_stand_in.option(call, "--mem") for call in calls) == ["2000", "900", "900"]


def test_the_profiles_are_readable_and_keep_going():
    for path in (root() / "profiles").glob("*/config.yaml"):
        profile = yaml.safe_load(path.read_text())
        assert profile["keep-going"] and profile["rerun-incomplete"], path


def test_every_sweep_of_the_repository_is_valid():
    for path in (root() / "params" / "sweeps").glob("*.yaml"):
        assert read_sweep(path.stem).runs


@pytest.mark.slow
def test_a_sweep_makes_its_committed_runs_unless_the_wanted_ones_are_asked_for_too():
    made = sweeps.committed_runs()
    left_out = 0
    for path in (root() / "params" / "sweeps").glob("*.yaml"):
        every, kept = read_sweep(path.stem).runs, read_sweep(path.stem, wanted=False)
        there = [name for name, run in every.items() if f"{run.notebook.stem}/{name}" in made]
        assert list(kept.runs) == (there or list(every)), path
        assert {*kept.runs, *kept.left_out} == set(every), path
        assert kept.then is None or f"runs={json.dumps(list(kept.runs))}" in kept.then.items, path
        left_out += len(kept.left_out)
    assert left_out, "some runs are still wanted, so this test has looked at what it is about"


def test_the_command_says_how_many_wanted_runs_it_leaves_out(capsys):
    name = "reviews_hotels"
    sweep = read_sweep(name, wanted=False)
    assert main([name]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"left out: {len(sweep.left_out)} runs") and "--wanted" in out
    assert main([name, "--wanted", "--commands"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(sweep.runs) + len(sweep.left_out)


def test_a_sweep_of_ones_own_has_all_its_runs(play):
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")
    assert read_sweep(path, wanted=False).runs.keys() == {"a", "b"}


NOTEBOOKS_OF = {  # which notebooks the files of a folder below params/ are for
    "attention": ["13_train_nli", "15_train_seq2seq"],
    "beer": ["11_train_reviews"],
    "failures": ["16_failures"],
    "nli": ["13_train_nli"],
    "own": ["17_train_own_texts"],
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


AUTHORS_ON_SNLI = {  # the defaults of the authors' command
    "corpus": "snli", "vectors": "glove.840B.300d", "hidden_size": 200, "dropout": 0.2, "batch_size": 64,
    "learning_rate": 2e-4, "min_learning_rate": 2e-4, "weight_decay": 1e-6, "clip_norm": 5.0, "num_train": 0,
}  # fmt: skip
AUTHORS_ON_BEER = {
    "corpus": "beer", "vectors": "review+wiki.filtered.200", "batch_size": 256, "learning_rate": 4e-4,
    "min_learning_rate": 5e-5, "weight_decay": 2e-6, "dropout": 0.2, "clip_norm": 5.0, "epochs": 100,
}  # fmt: skip


def parameters_of_sweep(name):
    """The parameters of each run of a sweep."""
    return {name: resolve(run.notebook, run.items) for name, run in read_sweep(name).runs.items()}


def test_table_3_on_snli_has_the_authors_settings_for_each_of_its_models():
    runs = parameters_of_sweep("snli_authors")
    assert {p["model"] for p in runs.values()} == {"softmax", "recurrent", "hardkuma"}
    for name, p in runs.items():
        assert {key: p[key] for key in AUTHORS_ON_SNLI} == AUTHORS_ON_SNLI, name
    gates = [p for p in runs.values() if p["model"] == "hardkuma"]
    their_rule = {"dynamics": "authors", "multiplier_init": 1e-5, "multiplier_rate": 0.01, "smoothing": 0.99}
    for p in gates:
        assert p["selection"] == 0.1 and {key: p[key] for key in their_rule} == their_rule
    assert sorted(p["seed"] for p in gates) == [1, 2, 3]


def test_figure_3_on_beer_has_the_authors_settings_and_predicts_all_aspects():
    runs = parameters_of_sweep("beer_figure3")
    assert {p["model"] for p in runs.values()} == {"full_text", "hardkuma", "bernoulli"}
    for name, p in runs.items():
        assert p["aspect"] == "all" and {key: p[key] for key in AUTHORS_ON_BEER} == AUTHORS_ON_BEER, name
    targets = [p["selection"] for p in runs.values() if p["model"] == "hardkuma"]
    prices = {p["sparsity"]: p["coherence"] for p in runs.values() if p["model"] == "bernoulli"}
    assert len(set(targets)) == len(targets) > 5 and min(targets) < 0.1 and max(targets) > 0.8
    assert len(prices) > 5 and all(switch == 2 * word for word, switch in prices.items()), "coherence is a factor, 2"


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


@pytest.mark.slow
def test_what_a_sweep_runs_has_the_name_under_which_it_is_committed():
    planned = {}
    for path in (root() / "params" / "sweeps").glob("*.yaml"):
        for run in read_sweep(path.stem).runs.values():
            planned[f"{run.notebook.stem}/{run.name}"] = resolve(run.notebook, run.items)
    elsewhere = set()
    for name, parameters in parameters_of_committed_runs().items():
        notebook = name.split("/")[0]
        known = {key: value for key, value in parameters.items() if key in defaults_of(notebook)}
        known = {key: value for key, value in known.items() if key not in WITHOUT_EFFECT}
        of_notebook = {run: p for run, p in planned.items() if run.startswith(f"{notebook}/")}
        same = {run for run, p in of_notebook.items() if all(p[key] == value for key, value in known.items())}
        assert not same or name in same, f"{name} is called {same} today"
        elsewhere |= set() if same else {name}
    assert elsewhere == {
        "10_first_rationale/demo",  # make demo
        "14_train_probes/sst-inputs-seed2",  # it explains the model of sst-seed1: a run after another one
    }, "runs that no sweep makes; RESULTS.md says how they are made"


def test_the_runs_that_no_sweep_makes_are_made_by_the_commands_that_are_named():
    page = " ".join((root() / "RESULTS.md").read_text(encoding="utf-8").split())
    notebook, given = re.search(r'`make run NOTEBOOK=(\w+) PARAMS="(params/probes[^"]+)"`', page).groups()
    demo = (root() / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    assert "10_first_rationale params/demo.yaml" in demo
    made = {"14_train_probes/sst-inputs-seed2": (notebook, given.split())}
    made["10_first_rationale/demo"] = ("10_first_rationale", ["params/demo.yaml"])
    for run, (name, items) in made.items():
        now, then = resolve(notebook_path(name), items), parameters_of_committed_runs()[run]
        unlike = {key for key in then if key not in WITHOUT_EFFECT and now[key] != then[key]}
        assert run.startswith(f"{name}/") and not unlike, f"{run}: {unlike}"


def test_each_row_of_own_texts_is_a_run_of_its_sweep_with_its_parameters():
    planned = read_sweep("own_texts").runs
    for row in committed.read_own_texts().itertuples():
        p = planned[row.run].params
        said = [row.corpus, row.encoder, row.model, row.seed, row.epochs]
        assert [p[name] for name in ("corpus", "encoder", "model", "seed", "epochs")] == said, row.run
        assert row.target == (1 if row.model == "full_text" else p["selection"]), row.run
        assert p["num_train"] in (0, row.train), row.run
    assert len(read_sweep("own_texts", wanted=False).runs) == len(committed.read_own_texts()), "and it makes no others"


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


def finished_run(run: Planned, out: Path, **changes) -> Path:
    """The folder of a finished run with these parameters, as the runner records it."""
    folder = run.folder(out)
    folder.mkdir(parents=True)
    write_record(folder, run.notebook.stem, run.params | changes, run.code(), "1", made_of(run.notebook, run.items))
    (folder / "run.ipynb").write_text("{}")
    return folder


class Begun(Exception):
    """Raised where the runs of a sweep would start."""


def begun_by(path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> bool:
    """Whether `--run` of a sweep would start its runs; the message of a refusal is raised."""

    def begin(*_):
        raise Begun

    monkeypatch.setattr(sweeping.Pool, "make", begin)
    monkeypatch.setattr(sweeping, "with_snakemake", begin)
    try:
        sweeping.execute(read_sweep(path, out), str(path), out, 1, quiet=True, by_snakemake="--snakemake" in options)
    except Begun:
        return True
    return False


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep over texts of one's own, of which one file lacks a column; the folder of the files is the current one."""
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "films.csv", reviews())
    write_table(tmp_path / "bad.csv", [{"text": row["text"], "stars": 1} for row in reviews()])
    for name in ("films", "bad", "gone"):
        (tmp_path / f"{name}.yaml").write_text(f"corpus: {name}.csv\n")
    (tmp_path / "s.yaml").write_text("notebook: 17_train_own_texts\nruns: [films.yaml, bad.yaml]\nseeds: [1, 2]\n")
    return tmp_path / "s.yaml"


@pytest.mark.parametrize("options", [(), ("--snakemake",)])
def test_a_sweep_with_texts_that_cannot_be_used_stops_before_a_run_starts_and_names_the_run(own, monkeypatch, options):
    out = own.parent / "out"
    with pytest.raises(BadInput) as caught:
        begun_by(own, out, monkeypatch, *options)
    assert str(caught.value).startswith("bad-seed1: bad.csv: no column 'label'; its columns are text, stars")
    own.write_text(own.read_text().replace("bad.yaml", "gone.yaml"))
    with pytest.raises(BadInput, match=r"^gone-seed1: gone.csv: no such file; beside it: bad.csv, films.csv"):
        begun_by(own, out, monkeypatch, *options)
    own.write_text(own.read_text().replace(", gone.yaml", ""))
    assert begun_by(own, out, monkeypatch, *options)


def test_the_plan_of_a_sweep_ends_with_what_is_wrong_with_the_texts_of_a_run(own, capsys):
    assert main([str(own), "--outputs", str(own.parent / "out")]) == 2
    printed = capsys.readouterr()
    assert printed.out.count("to do ") == 4, "the states of all runs are told as well"
    assert printed.err.startswith("error: bad-seed1: bad.csv: no column 'label'") and printed.err.count("\n") == 1


def test_texts_are_read_once_before_a_sweep_for_all_runs_that_read_them_and_never_for_finished_ones(own, monkeypatch):
    out, checked = own.parent / "out", []
    monkeypatch.setattr(data_read, "require_texts", lambda p: checked.append((Path(p.corpus).name, p.split_seed)))
    text = "notebook: 17_train_own_texts\nruns: [films.yaml, films.yaml split_seed=2, bad.yaml]\nseeds: [1, 2, 3, 4]\n"
    own.write_text(text + "grid: {selection: [0.1, 0.3]}\n")
    assert begun_by(own, out, monkeypatch) and checked == [("films.csv", 1), ("films.csv", 2), ("bad.csv", 1)]
    own.write_text("notebook: 17_train_own_texts\nruns: [films.yaml, bad.yaml]\n")
    finished_run(read_sweep(own, out).runs["bad"], out)
    checked.clear()
    assert begun_by(own, out, monkeypatch) and checked == [("films.csv", 1)], "the other run has finished"
    lock = read_sweep(own, out).runs["films"].work(out) / "runner.lock"
    put(lock, "")
    checked.clear()
    with lock_file(lock, 0):
        assert begun_by(own, out, monkeypatch) and not checked, "another process makes this run, and has checked it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12_train_sst\nruns: [vectors=random]\n", "vectorsrandom: {}/sst: no train.txt, dev.txt and test.txt of the"),
        ("12_train_sst\nruns: [seed=1]\n", "seed1: vectors: 'glove.840B.300d' not found; accepted: random, a file, or"),
        ("15_train_seq2seq\nruns: [corpus=multi30k]\n", "corpusmulti30k: multi30k: not in {}/multi30k/task1_raw; look"),
        ("13_train_nli\nruns: [vectors=random]\n", "vectorsrandom: nli_small: not in {}/nli_small; looked for train.j"),
        ("10_first_rationale\nruns: [seed=1, device=cuda]\n", "devicecuda: device: got 'cuda', but this machin"),
        ("11_train_reviews\nruns: [encoder=/no/such]\n", "encodersuch: encoder: /no/such is no folder"),
        ("14_train_probes\nruns: [corpus=sst searchable=14 pretrained=/a]\n", "corpussst-searchable14-pretraineda: pr"),
        ("11_train_reviews\nruns: [seed=1]\n", ""),
        ("14_train_probes\nruns: [seed=1]\n", ""),
    ],
)
def test_a_sweep_for_which_something_is_missing_stops_before_a_run_starts(text, message, tmp_path, monkeypatch):
    monkeypatch.setenv("RATIONALE_DATA", str(tmp_path))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    path = tmp_path / "s.yaml"
    path.write_text(f"notebook: {text}")
    if message:
        with pytest.raises(BadInput, match="^" + re.escape(message.format(tmp_path))):
            begun_by(path, tmp_path / "out", monkeypatch)
    else:
        assert begun_by(path, tmp_path / "out", monkeypatch), "nothing is missing"


def two_files_of_one_name(play: Playground) -> tuple[Planned, Planned]:
    """The runs of two parameter files with the same name, in two sweeps."""
    for place, rate in (("one", 0.1), ("two", 0.9)):
        (play.folder / "params" / place).mkdir()
        play.params(f"{place}/same", f"selection: {rate}")
    return tuple(
        next(iter(read_sweep(play.sweep(f"notebook: train\nruns: [{place}/same.yaml]\n")).runs.values()))
        for place in ("one", "two")
    )


def test_a_sweep_does_not_replace_runs_of_another_file_of_the_same_name(play, capsys):
    (one, two), out = two_files_of_one_name(play), play.folder / "out"
    assert one.folder(out) == two.folder(out)
    folder = finished_run(one, out)
    path = str(play.folder / "params" / "sweeps" / "s.yaml")
    assert main([path, "--run", "--outputs", str(out)]) == 2
    message = capsys.readouterr().err
    assert "same: a finished run with other parameters (selection 0.1 there, 0.9 here), made of " in message
    assert message.endswith("one/same.yaml; rename a parameter file to keep both, or give --replace\n")
    assert message.count("\n") == 1 and (folder / "run.ipynb").read_text() == "{}"
    os.rename(folder, two.work(out))
    assert main([path, "--run", "--outputs", str(out)]) == 2
    assert "same.partial: an unfinished run with other parameters" in capsys.readouterr().err


@pytest.mark.deep
@pytest.mark.parametrize("way", [[], ["--snakemake"]], ids=["pool", "snakemake"])
def test_a_sweep_with_replace_replaces_the_runs_of_another_file(play, way):
    (one, two), out = two_files_of_one_name(play), play.folder / "outputs"
    folder = finished_run(one, out)
    path = play.folder / "params" / "sweeps" / "s.yaml"  # the sweep of the second file
    process = sweep_started(path, out, "--replace", *way)
    printed, _ = process.communicate(timeout=400)
    assert process.returncode == 0, printed
    assert play.begun() == [two.name]
    assert yaml.safe_load((folder / "params.yaml").read_text())["selection"] == 0.9


def test_a_sweep_may_have_the_runs_of_another_one_and_its_own_file_may_change(play):
    (one, two), out = two_files_of_one_name(play), play.folder / "out"
    finished_run(two, out)
    sweep = read_sweep(play.folder / "params" / "sweeps" / "s.yaml", out)
    refuse_others(sweep, out)
    assert changes_since(sweep, out) == {}, "the same parameters, whatever file they are from"
    play.params("two/same", "selection: 0.3")
    sweep = read_sweep(play.folder / "params" / "sweeps" / "s.yaml", out)
    refuse_others(sweep, out)
    assert changes_since(sweep, out) == {"same": "selection 0.9 there, 0.3 here"}
    shutil.rmtree(two.folder(out))
    (finished_run(one, out) / "environment.txt").write_text("code: 0\n")
    refuse_others(sweep, out)  # a run of an older version, of which it is not known of what it was made
    shutil.rmtree(two.folder(out))
    path = play.sweep("notebook: train\nruns: [vectors=x/y]\n")
    finished_run(next(iter(read_sweep(path).runs.values())), out)
    path = play.sweep("notebook: train\nruns: [vectors=z/y]\n")
    with pytest.raises(
        BadInput, match=r"vectorsy: a finished run .*\(vectors x/y there, z/y here\), made of vectors=x/y; ren"
    ):
        refuse_others(read_sweep(path, out), out)


def test_a_sweep_does_not_replace_the_comparison_of_another_sweep_of_its_name(play):
    out = play.folder / "out"
    path = play.sweep("notebook: train\nruns: [a.yaml]\nthen: compare\n")
    finished_run(read_sweep(path, out).then, out)
    path = play.sweep("notebook: train\nruns: [b.yaml]\nthen: compare\n")
    with pytest.raises(BadInput, match=r"compare/s: a comparison of other runs \(a\); rename the file of the sweep"):
        refuse_others(read_sweep(path, out), out)
    refuse_others(read_sweep(play.sweep("notebook: train\nruns: [b.yaml, a.yaml]\nthen: compare\n"), out), out)


def test_a_run_that_a_sweep_would_make_again_is_told_with_what_has_changed(play, capsys):
    out = play.folder / "out"
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\nthen: compare\n")
    sweep = read_sweep(path, out)
    for run in (*sweep.runs.values(), sweep.then):
        finished_run(run, out)

    def told() -> list[str]:
        assert main([path, "--outputs", str(out)]) == 0
        rows = [row.split(maxsplit=2) for row in capsys.readouterr().out.splitlines()]
        return [f"{state} {' '.join(rest)}".strip() for state, _, *rest in rows]

    assert told() == ["finished"] * 3
    play.params("a", "selection: 0.7")
    assert told() == ["changed (selection 0.1 there, 0.7 here)", "finished", "changed (its runs change)"]
    play.params("a", "selection: 0.1")
    os.utime(sweep.runs["b"].folder(out) / "run.ipynb", (2e9, 2e9))
    assert told() == ["finished", "finished", "changed (a run is newer)"]
    train = play.folder / "train.py"
    train.write_text(train.read_text() + "\n# %%\nprint(1)\n")
    assert told()[:2] == ["changed (the code has changed)"] * 2
    run, began = sweep.runs["b"], 1e9
    now = status(run, out, began, {"b": "the code has changed"})
    assert now.state == "finished", "it has been made again since"
    assert line(run, status(run, out, 3e9, {"b": "x 1 there, 2 here"}), out) == "changed     b  (x 1 there, 2 here)"


def test_a_finished_sweep_says_where_its_results_are(play, capsys):
    out = play.folder / "out"
    for then, says in (
        ("then: compare\n", "comparison: {}/compare/s/run.html\n"),
        ("", "runs: {}/train/<run>/run.html; to compare them: python -m rationale.results, with their folders\n"),
    ):
        path = play.sweep(f"notebook: train\nruns: [a.yaml, b.yaml]\n{then}")
        sweep = read_sweep(path, out)
        for run in (*sweep.runs.values(), sweep.then):
            if run and not run.folder(out).exists():
                finished_run(run, out)
        assert main([path, "--outputs", str(out), "--run"]) == 0
        assert capsys.readouterr().out.endswith(says.format(shown(out)))


def test_the_comparison_has_to_read_runs_of_the_sweeps_notebook(tmp_path):
    (tmp_path / "own.yaml").write_text("notebook: 10_first_rationale\nruns: [demo.yaml]\nthen: 31_selection_rates\n")
    wanted = r"own.yaml:3: then: 31_selection_rates reads runs of 12_train_sst, not of 10_first_rationale; give another"
    with pytest.raises(BadInput, match=wanted):
        read_sweep(tmp_path / "own.yaml")
    (tmp_path / "own.yaml").write_text("notebook: 10_first_rationale\nruns: [demo.yaml]\nthen: 32_reviews\n")
    assert read_sweep(tmp_path / "own.yaml").then


def test_the_parameter_file_that_is_nearest_to_a_sweep_is_taken(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "own.yaml").write_text("notebook: 12_train_sst\nruns: [tiny.yaml, demo.yaml]\n")
    for place, seed in ((folder / "tiny.yaml", 5), (tmp_path / "tiny.yaml", 6), (tmp_path / "demo.yaml", 7)):
        place.write_text(f"seed: {seed}\n")
    runs = read_sweep(folder / "own.yaml").runs
    assert (root() / "params" / "tiny.yaml").is_file() and (root() / "params" / "demo.yaml").is_file()
    assert [run.params["seed"] for run in runs.values()] == [5, 7]


def test_a_sweep_of_the_project_means_the_files_below_params(tmp_path, monkeypatch):
    (run, *_) = read_sweep("tiny").runs.values()
    assert (root() / "params" / "sweeps" / "tiny.yaml").is_file() and run.items[0] == str(root() / "params/tiny.yaml")
