"""The pool of a sweep: each run is a fork of one process, and leaves what a run by itself leaves, whatever happens."""

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from rationale.runs import notebook_path, root, run, warm
from rationale.runs.pool import LOST, PATIENCE, Pool, change
from rationale.runs.sweeping import status
from rationale.runs.sweeps import Planned, read_sweep
from rationale.training.checkpoint import read_tensors
from tests.depth import slow_or_deep
from tests.forked import run_warm, started
from tests.playground import Playground, is_alive, sweep_started, tree_of, wait_until
from tests.smoke import needed_first, smoke, smoke_items
from tests.test_runs import HEADER

FACTS = (
    HEADER
    + """
# %% tags=["parameters"]
seed: int = 1  # seed

# %%
import json
import multiprocessing
import os
import signal
import sys
import threading

import numpy as np
import torch

from rationale.runs import results_folder

folder = results_folder("facts")
print("text"); print("problem", file=sys.stderr)
os.system("echo from a process of its own")

# %%
private = ("JPY_", "RATIONALE_RUN_DIR", "PYTEST_CURRENT_TEST", "LINES", "COLUMNS")
print([name for name in sorted(os.environ) if not name.startswith(private)])
print({name: os.environ[name] for name in sorted(os.environ) if name.startswith(("PYTHON", "MPL", "GLIBC", "OMP"))})
print(type(get_ipython()), [type(get_ipython().kernel)], len(sys.argv), sys.argv[0], os.getcwd())
print([path for path in sys.path if not path.endswith("tests")])  # pytest adds it
print(signal.getsignal(signal.SIGTERM), os.getpgrp() == os.getpid(), multiprocessing.get_start_method())
print(multiprocessing.current_process().name, __name__, threading.active_count(), torch.get_num_threads())
print(hash("text"), In[-2][:10])

# %%
import ipywidgets  # these look for a kernel when they are imported
import pandas as pd
import tqdm.auto

print(sorted(get_ipython().kernel.comm_manager.targets), tqdm.auto.tqdm.__mro__)
pd.DataFrame([range(1000, 1020)])

# %%
import matplotlib.pyplot as plt

plt.plot([1, 2])

# %%
1 / 2

# %%
written = (folder / "drawn.txt").write_text(f"{np.random.rand()} {torch.rand(1).item()}")
"""
)


@pytest.fixture
def play(tmp_path: Path) -> Playground:
    return Playground(tmp_path)


def pool(play: Playground, jobs: int = 2, memory: int = 10_000, received: list[int] | None = None) -> Pool:
    return Pool(play.folder / "outputs", jobs, memory, [] if received is None else received, lambda: 0.2)


def outputs_of(folder: Path) -> list[list]:
    """What the cells of a run displayed, without what differs from run to run: ids, addresses and times.

    Texts that were printed one after the other are joined, because they arrive in one piece or in several.
    """
    found: list[list] = []
    for cell in json.loads((folder / "run.ipynb").read_text())["cells"]:
        found.append([])
        for output in cell.get("outputs", ()):
            if output["output_type"] == "stream":
                output["text"] = "".join(output["text"])  # a list of lines, or of their pieces
            if found[-1] and output["output_type"] == "stream" and output["name"] == found[-1][-1].get("name"):
                found[-1][-1]["text"] += output["text"]
            else:
                found[-1].append(output)
    text = re.sub(r"[0-9a-f]{32}|0x[0-9a-f]+", "", json.dumps(found))
    return json.loads(re.sub(r"\d[\d,]*(\.\d+)?( ?m?s\b| seconds| words per second| min\b)", "", text))


def test_a_pool_makes_what_is_to_be_made_goes_on_after_a_failure_and_compares(play):
    play.params("c", "vectors: fail")
    out = play.folder / "outputs"
    path = play.sweep("notebook: train\nruns: [c.yaml, a.yaml]\nthen: compare\n")
    assert pool(play).make(read_sweep(path, out)) == {"c": 1}
    assert play.begun() == ["a", "c"] and play.finished() == ["a"] and not (out / "compare" / "s").exists()
    log = (out / "train" / "c.log").read_text()
    assert "RuntimeError: no" in log and log.endswith("exit code 1\n")

    play.params("c", "selection: 0.9")
    os.utime(play.folder / "params" / "a.yaml")  # new time stamp, same content
    assert pool(play).make(read_sweep(path, out)) == {}
    assert play.begun() == ["c"], "exactly what failed or changed"
    metrics = json.loads((out / "compare" / "s" / "metrics.json").read_text())
    assert metrics == {"c": 0.9, "a": 0.1}
    compared = (out / "compare" / "s" / "run.ipynb").stat().st_mtime_ns
    assert pool(play).make(read_sweep(path, out)) == {} and play.begun() == []
    assert (out / "compare" / "s" / "run.ipynb").stat().st_mtime_ns == compared, "nothing is to be done"


def test_a_run_whose_process_is_killed_fails_alone(play):
    play.fails_with('raise __import__("os").kill(__import__("os").getppid(), 9) or __import__("time").sleep(60)')
    out = play.folder / "outputs"
    sweep = read_sweep(play.sweep("notebook: train\nruns: [c.yaml, a.yaml]\n"), out)
    assert pool(play, jobs=1).make(sweep) == {"c": -signal.SIGKILL}
    assert play.finished() == ["a"] and "\nexit code 137\n" in sweep.runs["c"].log(out).read_text()
    assert status(sweep.runs["c"], out).state == "unfinished", "the same command continues it"


def test_a_signal_interrupts_all_runs_and_none_starts_any_more(play):
    play.params("a", "vectors: wait")
    out, received = play.folder / "outputs", []
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n"), out)

    def look() -> float:
        if play.log.exists():  # a has begun
            received.append(signal.SIGINT)
        return 0.1

    failed = Pool(out, 1, 10_000, received, look).make(sweep)
    assert failed in ({"a": 130}, {"a": -signal.SIGINT}), "the runner's own code, or the signal's if it came once more"
    assert play.begun() == ["a"] and play.finished() == []
    assert "interrupted; the same command continues" in sweep.runs["a"].log(out).read_text()
    assert status(sweep.runs["a"], out).state == "unfinished"


@pytest.mark.parametrize("jobs, memory, most", [(3, 10_000, 3), (2, 10_000, 2), (3, 2000, 2), (3, 100, 1)])
def test_as_many_runs_go_on_as_jobs_and_memory_allow(play, monkeypatch, jobs, memory, most):
    there: list = []
    at_once = []

    def start(*_):
        there.append(started(wait_until, (play.folder / "go").exists))
        at_once.append(sum(process.is_alive() for process in there))
        return there[-1]

    def look() -> float:  # when the pool has started as many as it may
        (play.folder / "go").touch()
        return 0.2

    monkeypatch.setattr(warm, "start", start)
    monkeypatch.setattr(Planned, "memory_mb", lambda self: 900)
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\nseeds: [1, 2]\n"), play.folder / "outputs")
    assert Pool(play.folder / "outputs", jobs, memory, [], look).make(sweep) == {}
    assert max(at_once) == most and len(there) == 4


def test_a_process_that_cannot_be_started_is_a_failed_run(play, monkeypatch):
    def start(*_):
        raise BlockingIOError("no process left")

    monkeypatch.setattr(warm, "start", start)
    out = play.folder / "outputs"
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), out)
    assert pool(play).make(sweep) == {"a": 1} and status(sweep.runs["a"], out).state == "failed"
    assert "could not be started: no process left" in sweep.runs["a"].log(out).read_text()


def test_a_sweep_goes_on_where_a_log_cannot_be_written(play, monkeypatch):
    def start(*_):
        raise OSError("no space left")

    monkeypatch.setattr(warm, "start", start)
    out = play.folder / "outputs"
    (out / "train" / "a.log").mkdir(parents=True)
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n"), out)
    assert pool(play, jobs=1).make(sweep) == {"a": 1, "b": 1}


def test_no_run_goes_on_if_the_sweep_cannot(play, monkeypatch):
    monkeypatch.setitem(PATIENCE, signal.SIGINT, 0.5)  # a shell may start the tests with this signal ignored
    there: list = []

    def start(*_):
        there.append(multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,), daemon=True))
        there[-1].start()
        return there[-1]

    def look() -> float:
        raise BrokenPipeError  # what reads the output of the sweep has ended

    monkeypatch.setattr(warm, "start", start)
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), play.folder / "outputs")
    with pytest.raises(BrokenPipeError):
        Pool(play.folder / "outputs", 1, 10_000, [], look).make(sweep)
    assert not there[0].is_alive()


def test_a_run_that_nobody_waits_for_does_not_keep_the_sweep_waiting(play, monkeypatch):
    """Its server was killed, and where process 1 collects no orphans, as in a container, it stays a zombie."""
    pid = os.fork()
    if not pid:
        os._exit(0)
    ended, other = multiprocessing.Pipe()
    other.close()
    monkeypatch.setattr(warm, "start", lambda *_: SimpleNamespace(exitcode=LOST, pid=pid, sentinel=ended.fileno()))
    looks = iter([0.1] * 5)
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), play.folder / "outputs")
    try:
        made = Pool(play.folder / "outputs", 1, 10_000, [], lambda: next(looks)).make(sweep)
        assert made == {"a": -signal.SIGTERM}
    finally:
        os.waitpid(pid, 0)


def test_what_an_editor_leaves_beside_a_file_does_not_stop_a_sweep(tmp_path, monkeypatch):
    """Emacs makes a link to nowhere beside a file that has been changed and not saved."""
    (tmp_path / "rationale").mkdir()
    (tmp_path / "rationale" / "a.py").touch()
    monkeypatch.setattr(warm, "root", lambda: tmp_path)
    before = warm.stamps()
    (tmp_path / "rationale" / ".#a.py").symlink_to("me@here.123:456")
    (tmp_path / "rationale" / "lost.py").symlink_to("nowhere")
    found = warm.stamps()
    assert str(tmp_path / "rationale" / "a.py") in found and before.items() <= found.items()
    assert str(tmp_path / "rationale" / ".#a.py") not in found, "no code, so that it needs no other process"


def test_a_finished_run_is_made_again_if_its_data_its_code_or_its_parameters_changed(play):
    out = play.folder / "outputs"
    (planned,) = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), out).runs.values()
    code = planned.code()

    def is_there(run: Planned = planned, code: str = code, changed: bool = False) -> bool:
        has_finished = (run.folder(out) / "run.ipynb").is_file()
        return has_finished and not change(run, out, code, lambda place, digest: changed)

    assert not is_there()
    assert pool(play).make(read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), out)) == {}
    assert is_there() and is_there(changed=True), "it has read no file"
    assert not is_there(code="0" * 12) and not is_there(Planned(planned.notebook, "a", ["seed=7"]))
    with open(planned.folder(out) / "environment.txt", "a") as file:
        print(f"read: 3 {'0' * 64} /some/file", file=file)
    assert is_there() and not is_there(changed=True)


def test_the_server_imports_nothing_that_no_run_needs():
    program = "import sys; import rationale.runs.warmed; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert {"torch", "papermill", "rationale.training"} <= found
    assert not {"rfc3987_syntax", "torch._dynamo", "numba"} & found, "every sweep would wait for it"


# --- with kernels of other runs beside them, so slow


@pytest.mark.slow
def test_a_kernel_of_the_pool_is_like_any_other(tmp_path, monkeypatch):
    warm.prepare([])
    notebook = tmp_path / "facts.py"
    notebook.write_text(FACTS)
    monkeypatch.setenv("SET_AFTER_THE_SERVER_WAS_STARTED", "1")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path, "relative"])  # as libraries change theirs
    alone = run(notebook, outputs=tmp_path / "alone", name="x", threads=1)
    forks = [run_warm(notebook, ["seed=1"], outputs=tmp_path / name, name="x") for name in ("warm", "again")]
    assert outputs_of(alone) == outputs_of(forks[0])
    drawn = [(folder / "drawn.txt").read_text().split() for folder in (alone, *forks)]
    assert all(len(set(numbers)) == 3 for numbers in zip(*drawn, strict=True)), "not seeded, so different"


@pytest.mark.deep
def test_a_kernel_that_imports_while_the_runner_checks_is_like_any_other(tmp_path):
    notebook = tmp_path / "facts.py"
    notebook.write_text(FACTS)
    alone = run(notebook, outputs=tmp_path / "alone", name="x", threads=1)
    command = [sys.executable, "-m", "rationale.runs", notebook, "--outputs", tmp_path / "out", "--name", "x"]
    subprocess.run([*command, "--threads", "1"], cwd=root(), check=True, capture_output=True)
    assert outputs_of(alone) == outputs_of(tmp_path / "out" / "facts" / "x")


@pytest.mark.parametrize(
    "name",
    slow_or_deep(
        ["03_hardkuma", "10_first_rationale", pytest.param("13_train_nli", marks=pytest.mark.data), "32_reviews"],
        ["10_first_rationale"],
    ),
)
def test_a_run_of_the_pool_leaves_what_a_run_by_itself_leaves(name, outputs, tmp_path):
    notebook = notebook_path(name)
    first = needed_first(notebook)
    read = [f"runs_dir={smoke(first, outputs).parent}"] if first else []
    items = [*smoke_items(notebook), *read]
    alone = run(notebook, items, outputs=tmp_path / "alone", name="x", threads=1)
    fork = run_warm(notebook, items, outputs=tmp_path / "warm", name="x")
    assert outputs_of(alone) == outputs_of(fork)
    files = {path.relative_to(alone) for path in alone.rglob("*") if path.is_file()}
    assert files == {path.relative_to(fork) for path in fork.rglob("*") if path.is_file()}
    for file in files:
        if file.suffix in (".safetensors", ".jsonl", ".svg", ".txt", ".ansi", ".yaml") and file.stem != "environment":
            if file.suffix == ".safetensors":
                assert read_tensors(alone / file)[1] == read_tensors(fork / file)[1]
            assert (alone / file).read_bytes() == (fork / file).read_bytes(), f"{file} differs"


@pytest.mark.slow
def test_a_run_starts_with_its_command_if_the_code_has_changed_since_it_was_imported(play):
    out = play.folder / "outputs"
    (planned,) = read_sweep(play.sweep("notebook: train\nruns: [a.yaml]\n"), out).runs.values()
    planned.log(out).parent.mkdir(parents=True)
    process = started(run_after_a_change, planned.arguments(out), str(planned.log(out)))
    process.join()
    assert process.exitcode == 0 and play.finished() == ["a"], planned.log(out).read_text()
    assert "finished in" in planned.log(out).read_text()


def run_after_a_change(arguments: list[str], log: str) -> None:
    """In a process that has imported an older package."""
    warm._IMPORTED.clear()
    warm._runner(arguments, log, dict(os.environ))


@pytest.mark.slow
def test_a_kernel_that_was_killed_is_told_with_its_memory(play):
    block, longer_than_some_looks = "block = bytearray(300_000_000)", "time.sleep(10)"  # the runner looks each second
    play.fails_with(f'{block}; {longer_than_some_looks}; __import__("os").kill(__import__("os").getpid(), 9)')
    out = play.folder / "outputs"
    sweep = read_sweep(play.sweep("notebook: train\nruns: [c.yaml, a.yaml]\n"), out)
    assert pool(play, jobs=1).make(sweep) == {"c": 1} and play.finished() == ["a"]
    log = sweep.runs["c"].log(out).read_text()
    assert re.search(r"out of memory\?: it used up to (0\.[3-9]|1\.\d) GiB", log), log
    assert status(sweep.runs["c"], out).state == "failed"


@pytest.mark.deep
def test_the_server_that_was_killed_is_started_again(play):
    play.params("a", "vectors: wait")
    out = play.folder / "outputs"
    sweep = read_sweep(play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n"), out)

    def look() -> float:
        if play.log.exists() and "a" in play.log.read_text().split() and not killed:
            killed.append(multiprocessing.forkserver._forkserver._forkserver_pid)
            os.kill(killed[0], signal.SIGKILL)
        return 0.1

    killed: list[int] = []
    assert Pool(out, 1, 10_000, [], look).make(sweep) == {"a": -signal.SIGTERM}
    assert play.finished() == ["b"] and status(sweep.runs["a"], out).state == "unfinished"


@pytest.mark.slow
def test_nothing_is_left_running_when_the_command_of_a_sweep_is_killed(play):
    play.params("a", "vectors: wait")
    out = play.folder / "outputs"
    path = play.sweep("notebook: train\nruns: [a.yaml, b.yaml]\n")
    command = sweep_started(path, out, "--jobs", "1")
    wait_until(play.log.exists)
    there = tree_of(command)
    assert len(there) >= 4, "the command, the server, the runner and its kernel"
    command.kill()
    command.communicate()
    wait_until(lambda: not any(is_alive(process) for process in there), 20)
    assert status(read_sweep(path, out).runs["a"], out).state == "unfinished"
