"""The runner: what it writes, what it refuses, and that nothing is lost whatever happens to it.

Its own logic is tested without a kernel (tests/forked.py). Real kernels are in the tests of what only they show: what a
run prints while it goes, its page, its exit codes, interruptions, locks.
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
import yaml
from conftest import at_home

from rationale.errors import BadInput
from rationale.runs import (
    RunFailed,
    __main__,
    environment,
    failures,
    kernel,
    run,
    runner,
    validated,
    waiting,
    workspace,
)
from rationale.runs.folder import read_digests
from rationale.runs.settings import ReadingSettings
from rationale.runs.workspace import named_file, named_folder, run_name
from tests.forked import forked, plain_page, run_forked

HEADER = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---
"""
TINY = (
    HEADER
    + """
# %% tags=["parameters"]
seed: int = 1  # seed
selection: float = 0.4  # share
vectors: str = ""  # what is to happen

# %%
import json
import time

from rationale.errors import BadInput
from rationale.runs import validated
from rationale.runs import results_folder

# %%
p = validated(globals())
folder = results_folder("tiny")
checkpoint = folder / "checkpoint.txt"
begin = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("begins at", begin)

# %%
if p.vectors == "bad":
    raise BadInput("train.txt:7: three brackets, give balanced ones")
if p.vectors == "late":
    checkpoint.write_text("1")
    raise BadInput("test.txt:1: empty")
for step in range(begin, 20 if p.vectors == "slow" else 3):
    checkpoint.write_text(str(step + 1))
    (folder / "part").mkdir(exist_ok=True)
    (folder / "part" / "checkpoint.txt").write_text("of a part")
    print("step", step, flush=True)
    time.sleep(0.1 if p.vectors == "slow" else 0)
while p.vectors == "held" and not (folder.parent / "go").exists():
    time.sleep(0.05)
if p.vectors == "fail" and not (folder / "mended").exists():
    raise RuntimeError("the roof is on fire")

# %%
(folder / "metrics.json").write_text(
    json.dumps({"dev": {"accuracy": 0.51234}, "steps": int(checkpoint.read_text())}))
checkpoint.unlink()
"""
)


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A notebook of our own; its runs go to `tmp_path / "out"`."""
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    return path


def go(tiny: Path, *items: str, **options) -> Path:
    """Run it here, without a kernel."""
    return run_forked(tiny, items, outputs=tiny.parent / "out", **options)


def start(tiny: Path, *items: str) -> subprocess.Popen:
    """The command, in a process of its own, with a kernel."""
    command = [sys.executable, "-m", "rationale.runs", tiny, *items, "--outputs", tiny.parent / "out"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=workspace.root())


def wait_for_step(process: subprocess.Popen, step: int) -> None:
    for line in process.stdout:
        if line.strip() == f"step {step}":
            return
    pytest.fail(f"never got to step {step}: {process.stderr.read()}")


def folders(tiny: Path) -> list[str]:
    return sorted(path.name for path in (tiny.parent / "out" / "tiny").glob("*"))


def test_a_finished_run_has_its_notebook_page_parameters_and_environment(tiny, capfd):
    folder = run(tiny, ["seed=2"], outputs=tiny.parent / "out")
    assert folder == tiny.parent / "out" / "tiny" / "seed2" and folders(tiny) == ["seed2"]
    assert {p.name for p in folder.iterdir()} == {
        "run.ipynb",
        "run.html",
        "params.yaml",
        "environment.txt",
        "metrics.json",
        "notes.json",
        "SHA256SUMS",
    }, "no checkpoint is left, nor the folder of one"
    params = yaml.safe_load((folder / "params.yaml").read_text())
    assert params == {"seed": 2, "selection": 0.4, "vectors": ""}
    environment = (folder / "environment.txt").read_text()
    for name in (
        "python: ",
        "platform: ",
        "cpu: ",
        "threads: ",
        "torch: ",
        "papermill: ",
        "commit: ",
        "device: cpu",
        "seconds: ",
    ):
        assert name in environment, f"{name} is missing in environment.txt"
    notebook = json.loads((folder / "run.ipynb").read_text())
    assert notebook["metadata"]["papermill"]["input_path"] == "tiny.py"
    assert ["# Parameters\n", "seed = 2\n"] in [cell["source"] for cell in notebook["cells"]]
    assert "begins at 0" in (folder / "run.html").read_text()
    assert "begins at 0\nstep 0\nstep 1\nstep 2\n" in capfd.readouterr().out, "what it prints is passed on"


def test_a_finished_run_is_left_alone_and_replaced_only_with_again(tiny, capsys):
    folder = go(tiny)
    (folder / "mine.txt").write_text("kept")
    go(tiny)
    assert "already finished" in capsys.readouterr().out and (folder / "mine.txt").exists()
    with pytest.raises(BadInput, match=r"other parameters \(seed 1 there, 2 here\).*--again"):
        go(tiny, "seed=2", name="default")
    assert (folder / "mine.txt").exists() and folders(tiny) == ["default"]
    go(tiny, "seed=2", name="default", again=True)
    assert folders(tiny) == ["default"]
    assert yaml.safe_load((folder / "params.yaml").read_text())["seed"] == 2


def test_a_file_that_somebody_added_to_a_run_is_kept_when_the_run_is_made_again(tiny, capsys):
    folder = go(tiny)
    (folder / "notes").mkdir()
    (folder / "notes" / "mine.txt").write_text("kept")
    (folder / ".done").touch()
    go(tiny, again=True)
    assert (folder / "notes" / "mine.txt").read_text() == "kept" and not (folder / ".done").exists()
    assert "kept from the previous run, which had not written it: notes/mine.txt" in capsys.readouterr().out
    assert "notes/mine.txt" not in read_digests(folder) and folders(tiny) == ["default"]


def test_a_link_that_somebody_added_to_a_run_is_kept_as_it_was_when_the_run_is_made_again(tiny, capsys):
    folder, elsewhere = go(tiny), tiny.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    links = {"folder": elsewhere, "file": elsewhere / "mine.txt", "nothing": tiny.parent / "nowhere"}
    for name, place in links.items():
        (folder / name).symlink_to(place)
    go(tiny, again=True)
    assert {name: Path(os.readlink(folder / name)) for name in links} == links
    assert "which had not written it: file, folder, nothing\n" in capsys.readouterr().out
    assert [path.name for path in elsewhere.iterdir()] == ["mine.txt"], "what it leads to is left alone"


def test_a_file_that_somebody_edited_in_a_run_is_kept_when_the_run_is_made_again(tiny, capsys):
    folder = go(tiny)
    executed = (folder / "run.ipynb").read_text()
    for number, kept in enumerate(("run.edited.ipynb", "run.edited-2.ipynb")):
        (folder / "run.ipynb").write_text(mine := executed.replace("begins", f"my note {number}"))
        go(tiny, again=True)
        assert (folder / kept).read_text() == mine and "my note" not in (folder / "run.ipynb").read_text()
        assert f"kept from the previous run, where it was edited: {kept}" in capsys.readouterr().out
    assert (folder / "run.edited.ipynb").read_text().count("my note 0") and folders(tiny) == ["default"]


def test_an_added_file_is_kept_beside_one_of_its_name_that_the_new_run_writes(tiny):
    folder = go(tiny)
    digests = (folder / "SHA256SUMS").read_text()
    (folder / "SHA256SUMS").write_text(re.sub(r"\w+  metrics.json\n", "", digests))  # as if the run had not written it
    (folder / "metrics.json").write_text("mine")
    go(tiny, again=True)
    assert (folder / "metrics.edited.json").read_text() == "mine" and "steps" in (folder / "metrics.json").read_text()


def test_a_sweep_says_what_it_replaces_and_keeps_the_run_of_another_file(tiny, capsys):
    files = [tiny.parent / place / "same.yaml" for place in ("one", "two")]
    for seed, file in enumerate(files, 5):
        file.parent.mkdir()
        file.write_text(f"seed: {seed}\n")
    folder = go(tiny, str(files[0]), again_if_changed=True)
    recorded = (folder / "environment.txt").read_text()
    assert f'made of: ["{tiny}", "{files[0]}"]\n' in recorded
    with pytest.raises(
        BadInput, match=r"\(seed 5 there, 6 here\), made of \S*one/same.yaml; rename a .* or give --rep"
    ):
        go(tiny, str(files[1]), again_if_changed=True)
    assert (folder / "environment.txt").read_text() == recorded
    files[0].write_text("seed: 7\n")
    capsys.readouterr()
    go(tiny, str(files[0]), again_if_changed=True)
    told = "made again, because there is a finished run with other parameters (seed 5 there, 7 here): "
    assert told in capsys.readouterr().out
    go(tiny, str(files[1]), again_if_changed=True, replace=True)
    assert yaml.safe_load((folder / "params.yaml").read_text())["seed"] == 6
    os.rename(folder, folder.with_name("same.partial"))
    with pytest.raises(BadInput, match=r"an unfinished run with other parameters \(seed 6 there, 7 here\), made of"):
        go(tiny, str(files[0]), again_if_changed=True)


def test_the_command_line_replaces_the_run_of_another_file_if_replace_is_given(tiny, capsys):
    files = [tiny.parent / place / "same.yaml" for place in ("one", "two")]
    for seed, file in enumerate(files, 5):
        file.parent.mkdir()
        file.write_text(f"seed: {seed}\n")

    def command(file: Path, *options: str) -> int:
        return __main__.main([str(tiny), str(file), "--outputs", str(tiny.parent / "out"), *options], forked)

    record = tiny.parent / "out" / "tiny" / "same" / "params.yaml"
    assert command(files[0]) == 0
    assert command(files[1], "--again-if-changed") == 2
    assert yaml.safe_load(record.read_text())["seed"] == 5
    assert command(files[1], "--again-if-changed", "--replace") == 0, capsys.readouterr().err
    assert yaml.safe_load(record.read_text())["seed"] == 6
    capsys.readouterr()
    with pytest.raises(SystemExit, match="2"):
        command(files[0], "--replace")
    assert "--replace: only with --again-if-changed" in capsys.readouterr().err


def test_the_digests_of_a_run_are_those_of_its_files(tiny):
    folder = go(tiny)
    checked = subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, capture_output=True)
    assert checked.returncode == 0, checked.stderr
    assert set(read_digests(folder)) == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}


def test_a_folder_or_file_that_no_run_has_made_is_refused_and_kept(tiny):
    here = tiny.parent / "out" / "tiny"
    (here / "x").mkdir(parents=True)
    for place in (here / "x" / "mine.txt", here / "y", here / "z.partial", here / "w.replaced.partial"):
        place.write_text("mine")
    (here / "link").symlink_to(here / "x")
    wanted = {"x": "holds mine.txt", "y": "a file", "z": "a file", "w": "a file", "link": "a link"}
    for name, reason in wanted.items():
        for again in (False, True):
            with pytest.raises(BadInput, match=reason):
                go(tiny, name=name, again=again)
    assert folders(tiny) == ["link", "w.replaced.partial", "x", "y", "z.partial"]
    assert (here / "y").read_text() == "mine" and (here / "x" / "mine.txt").read_text() == "mine"
    (here / "s").mkdir()
    (here / "s" / ".done").touch()  # Snakemake's mark is nobody's work
    assert (go(tiny, name="s") / "run.ipynb").is_file()


def test_a_run_whose_replacement_was_killed_is_put_back(tiny, capsys):
    folder = go(tiny)
    old = folder.with_name("default.replaced.partial")
    folder.rename(old)
    go(tiny)
    assert "already finished" in capsys.readouterr().out and folders(tiny) == ["default"]
    shutil.copytree(folder, old)
    (old / "mine.txt").write_text("kept")
    go(tiny)
    assert folders(tiny) == ["default"] and (folder / "mine.txt").read_text() == "kept"


@pytest.mark.parametrize("outputs", ["/proc", "/dev/null", __file__])
def test_outputs_that_cannot_be_written_are_one_line(tiny, outputs):
    with pytest.raises(BadInput, match=r"cannot be (written|read) \(.*\), give --(outputs|name)"):
        run_forked(tiny, outputs=Path(outputs))


def test_an_empty_folder_of_outputs_is_refused(tiny, capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main([str(tiny), "--outputs", ""])
    assert caught.value.code == 2 and "--outputs: an empty value is not accepted" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_the_commit_of_a_repository_around_an_installed_package_is_not_that_of_the_package(tmp_path, monkeypatch):
    """In a project with its own repository, the package is installed in `.venv` there."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}

    def git(folder: Path, *arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", "-C", folder, *identity, *arguments], env=alone, capture_output=True, text=True)
        return done.stdout.strip()

    def recorded(folder: Path) -> str:
        monkeypatch.setattr(environment, "root", lambda: folder)
        return re.search("^commit: (.*)$", environment.describe_environment("x", {}, "unknown", "1"), re.M)[1]

    project, installed = tmp_path / "project", tmp_path / "project" / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    git(project, "init")
    git(project, "commit", "--allow-empty", "--message", "of somebody else")
    assert recorded(installed) == "unknown"
    (tmp_path / "link").symlink_to(project)
    for clone in (project, tmp_path / "link"):
        assert recorded(clone) == git(project, "rev-parse", "HEAD") != ""


def test_a_full_disk_is_told_in_words(tiny):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "metrics.json")

    with pytest.raises(RunFailed, match="metrics.json'\nthe results cannot be written: make room"):
        run(tiny, outputs=tiny.parent / "out", execute=full)


def test_a_disk_that_is_full_at_the_end_is_one_line(tiny, monkeypatch, capsys):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "run.html")

    monkeypatch.setattr(__main__, "run", full)
    assert __main__.main([str(tiny)]) == 2
    assert capsys.readouterr().err == "error: run.html: No space left on device\n"


def of_no_such_size(*_):
    torch.empty(2**50, dtype=torch.uint8)  # a pebibyte


def of_a_gpu(*_):
    error = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.00 GiB"
    raise torch.OutOfMemoryError(f"{error} is free. Including non-PyTorch memory, this process has 77.00 GiB in use.")


def of_python(*_):
    raise MemoryError


@pytest.mark.parametrize(
    ("fail", "size"), [(of_no_such_size, ": 1,048,576.0 GiB at once"), (of_a_gpu, ": 2.0 GiB at once"), (of_python, "")]
)
def test_memory_that_is_not_there_is_told_in_words(tiny, fail, size):
    with pytest.raises(RunFailed) as caught:
        run(tiny, outputs=tiny.parent / "out", execute=fail)
    told = f"there is not enough memory{size}; make the model smaller (hidden_size, embedding_size) or lower batch_size"
    assert str(caught.value).splitlines()[0] == told


@pytest.mark.slow
def test_a_kernel_that_was_killed_is_told_with_its_memory(tiny, monkeypatch):
    seen = tiny.parent / "seen"
    wait = f"while not os.path.exists({str(seen)!r}):\n    time.sleep(0.1)"
    tiny.write_text(f"{TINY}\n# %%\nimport os\n\nblock = bytearray(300_000_000)\n{wait}\nos.kill(os.getpid(), 9)\n")

    def memory_of(processes) -> int:
        found = failures.memory_of(processes)
        if found > 300_000_000:
            seen.touch()
        return found

    monkeypatch.setattr(runner, "memory_of", memory_of)
    with pytest.raises(RunFailed, match=r"out of memory\?: it used up to 0\.[3-9] GiB"):
        run(tiny, outputs=tiny.parent / "out")


READS = TINY.replace("import time\n", "import time\nfrom pathlib import Path\n").replace(
    'print("begins at", begin)',
    """print("begins at", begin)

# %%
from rationale.data.files import read_text

what = read_text(Path(__file__ if "__file__" in globals() else "{file}"))
(folder / "seen.txt").write_text(what)""",
)


@pytest.fixture
def reading(tiny: Path) -> tuple[Path, Path]:
    """A notebook that reads a file, and this file."""
    file = tiny.parent / "some vectors.txt"
    file.write_text("the 1 2 3\n")
    tiny.write_text(READS.replace("{file}", str(file)))
    return tiny, file


def test_a_finished_run_whose_data_have_changed_is_stale_and_says_which_file(reading, capsys):
    notebook, file = reading
    folder = go(notebook)
    size, place = file.stat().st_size, file.resolve().as_posix()
    assert re.search(
        rf"^read: {size} [0-9a-f]{{64}} {re.escape(place)}$", (folder / "environment.txt").read_text(), re.M
    )
    os.utime(file, (0, 0))
    go(notebook, again_if_changed=True)
    assert "already finished" in (out := capsys.readouterr().out) and "changed" not in out, "the time does not matter"
    file.write_text("the 1 2 4\n")
    assert go(notebook) == folder and (folder / "seen.txt").read_text() == "the 1 2 3\n"
    assert f"note: {place} has changed since, so its results are older; --again runs it" in capsys.readouterr().out
    go(notebook, again_if_changed=True)
    assert (folder / "seen.txt").read_text() == "the 1 2 4\n"
    assert f"made again, because there is a finished run and {place} has changed: " in capsys.readouterr().out
    file.unlink()
    go(notebook, again_if_changed=True)
    assert "changed" not in capsys.readouterr().out, "data that are gone make no run stale"


def test_an_unfinished_run_whose_data_have_changed_is_not_continued(reading):
    notebook, file = reading
    with pytest.raises(BadInput, match=r"test\.txt:1: empty"):
        go(notebook, "vectors=late")
    partial = notebook.parent / "out" / "tiny" / "vectorslate.partial"
    file.write_text("the 1 2 4\n")
    with pytest.raises(BadInput, match=r"vectorslate\.partial: an unfinished run, and .*some vectors.txt has changed"):
        go(notebook, "vectors=late")
    assert (partial / "checkpoint.txt").read_text() == "1" and (partial / "seen.txt").read_text() == "the 1 2 3\n"
    file.write_text("the 1 2 3\n")
    with pytest.raises(BadInput, match=r"test\.txt:1: empty"):
        go(notebook, "vectors=late")
    file.write_text("the 1 2 4\n")
    with pytest.raises(BadInput, match=r"test\.txt:1: empty"):
        go(notebook, "vectors=late", again_if_changed=True)
    assert (partial / "seen.txt").read_text() == "the 1 2 4\n", "it began anew"


def test_a_sweep_repeats_a_run_exactly_when_parameters_or_code_changed(tiny, capsys):
    folder = go(tiny)
    go(tiny, again_if_changed=True)
    assert "already finished" in capsys.readouterr().out
    tiny.write_text(TINY + "\n# %%\nprint('new')\n")
    go(tiny)
    assert "the code has changed" in capsys.readouterr().out
    go(tiny, again_if_changed=True)
    assert "new" in (folder / "run.html").read_text()
    go(tiny, "seed=3", name="default", again_if_changed=True)
    assert yaml.safe_load((folder / "params.yaml").read_text())["seed"] == 3


@pytest.mark.parametrize(
    "item, part",
    [
        ("sed=2", "did you mean seed"),
        ("selection=1.3", "(0, 1)"),
        ("selection=1e-5", "write 1.0e-5"),
        ("nowhere.yaml", "no such file"),
    ],
)
def test_a_wrong_parameter_stops_it_before_anything_is_written(tiny, item, part):
    with pytest.raises(BadInput) as caught:
        go(tiny, item)
    assert part in str(caught.value)
    assert not (tiny.parent / "out").exists()


def test_a_misspelt_notebook_is_named_with_those_that_exist(tmp_path):
    with pytest.raises(BadInput, match="98_train_stt: no such notebook, give a .py file or one of 12_train_sst"):
        run("98_train_stt", outputs=tmp_path)


def test_without_the_repository_a_notebook_is_said_to_be_in_a_clone(tmp_path, monkeypatch):
    monkeypatch.setattr("rationale.runs.workspace.root", lambda: tmp_path)
    with pytest.raises(BadInput, match="17_train_own_texts: no such notebook; the notebooks are in a clone"):
        workspace.notebook_path("17_train_own_texts")


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "", "..", "x.partial", "x.replaced", "lab", "a b", "a" * 300, "é" * 150]
)
def test_a_name_that_is_no_folder_name_is_refused(tiny, name):
    with pytest.raises(BadInput, match="--name"):
        go(tiny, name=name)


def test_a_message_that_names_a_flag_says_how_make_gives_it(tiny, monkeypatch, capsys):
    hint = "with make: OWN_NAME=another in place of --name"
    monkeypatch.setenv("FLAGS_IN_MAKE", hint)
    assert __main__.main([str(tiny), "--name", "lab", "--outputs", str(tiny.parent)]) == 2
    assert capsys.readouterr().err.endswith(f", give another name ({hint})\n")
    assert __main__.main([str(tiny), "unknown=1", "--outputs", str(tiny.parent)]) == 2
    assert hint not in capsys.readouterr().err, "no flag is named"


def test_a_mistake_found_by_the_notebook_is_one_line_and_leaves_nothing(tiny):
    process = start(tiny, "vectors=bad")
    out, err = process.communicate()
    assert process.returncode == 2, out + err
    assert err == "error: train.txt:7: three brackets, give balanced ones\n"
    assert folders(tiny) == []


def test_a_mistake_after_a_checkpoint_keeps_the_checkpoint_and_the_finished_run(tiny):
    folder = go(tiny, name="x")
    before = (folder / "run.ipynb").read_bytes()
    with pytest.raises(BadInput, match=r"^test.txt:1: empty$"):
        go(tiny, "vectors=late", name="x", again=True)
    assert (folder / "run.ipynb").read_bytes() == before
    assert (folder.with_name("x.partial") / "checkpoint.txt").exists()


def test_only_checkpoints_are_removed_at_the_end_and_no_result_that_is_called_like_one(tiny):
    saves = """
(folder / "checkpoint-500").mkdir()
(folder / "checkpoint-500" / "weights.txt").write_text("mine")
(folder / "checkpoints.csv").write_text("mine")
(folder / "checkpoint.txt").write_text("of the runner")
"""
    tiny.write_text(TINY + saves)
    folder = go(tiny)
    kept = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("checkpoint*"))
    assert kept == ["checkpoint-500", "checkpoints.csv"] and folders(tiny) == ["default"]
    assert {"checkpoint-500/weights.txt", "checkpoints.csv"} <= read_digests(folder).keys()


def test_a_failed_run_keeps_its_notebook_says_where_and_continues(tiny):
    with pytest.raises(RunFailed, match="the roof is on fire") as caught:
        go(tiny, "vectors=fail", name="x")
    partial = tiny.parent / "out" / "tiny" / "x.partial"
    assert str(partial / "failed.ipynb") in str(caught.value)
    assert "the roof is on fire" in (partial / "failed.ipynb").read_text() and folders(tiny) == ["x.partial"]
    with pytest.raises(BadInput, match=r"unfinished run with other parameters \(seed 1 there, 2 here\)"):
        go(tiny, "vectors=fail", "seed=2", name="x")
    (partial / "mended").touch()
    folder = go(tiny, "vectors=fail", name="x")
    assert "begins at 3" in (folder / "run.html").read_text() and folders(tiny) == ["x"]
    assert not (folder / "failed.ipynb").exists()


def test_a_failed_run_exits_with_1_and_shows_the_error(tiny):
    process = start(tiny, "vectors=fail")
    out, err = process.communicate()
    assert process.returncode == 1, out + err
    assert "RuntimeError: the roof is on fire" in err and "failed.ipynb" in err


def test_half_written_drafts_of_a_killed_run_are_no_part_of_its_results(tiny):
    with pytest.raises(RunFailed):
        go(tiny, "vectors=fail", name="x")
    work = tiny.parent / "out" / "tiny" / "x.partial"
    for place in (work, work / "part"):
        place.mkdir(exist_ok=True)
        (place / ".metrics.json.0123abcd.draft").write_text("{")
    (work / "mended").touch()
    folder = go(tiny, "vectors=fail", name="x")
    assert not list(folder.rglob("*.draft")) and not [name for name in read_digests(folder) if "draft" in name]


INTERRUPTIONS = [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow), (signal.SIGKILL, -9)]


@pytest.mark.parametrize(("number", "code"), INTERRUPTIONS)
def test_an_interrupted_run_continues_where_it_was(tiny, capsys, number, code):
    process = start(tiny, "vectors=slow")
    wait_for_step(process, 2)
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == code
    assert folders(tiny) == ["vectorsslow.partial"]
    if number != signal.SIGKILL:
        assert err == "\ninterrupted; the same command continues from the last checkpoint, if any\n"
    (tiny.parent / "out" / "tiny" / "vectorsslow.partial" / "checkpoint.txt").write_text("18")
    folder = go(tiny, "vectors=slow")
    assert "continues in" in capsys.readouterr().out
    assert "begins at 18\n" in (folder / "run.html").read_text()
    assert json.loads((folder / "metrics.json").read_text())["steps"] == 20
    assert folders(tiny) == ["vectorsslow"]


@pytest.mark.slow
def test_a_second_runner_of_the_same_run_is_refused_or_waits(tiny):
    first = start(tiny, "vectors=held")
    wait_for_step(first, 2)
    with pytest.raises(BadInput, match="another process executes this run"):
        go(tiny, "vectors=held")
    waiting = start(tiny, "vectors=held", "--wait")
    assert "waiting for the process" in waiting.stdout.readline()
    (tiny.parent / "out" / "tiny" / "go").touch()
    assert first.wait() == 0, first.stderr.read()
    out, err = waiting.communicate()
    assert waiting.returncode == 0 and "already finished" in out, out + err


def test_a_run_that_was_complete_but_not_yet_renamed_is_published(tiny, capsys):
    folder = go(tiny)
    folder.rename(folder.with_name("default.partial"))
    capsys.readouterr()
    assert go(tiny) == folder and folders(tiny) == ["default"]
    assert "works in" not in capsys.readouterr().out


def test_a_folder_without_a_notebook_does_not_count_as_finished(tiny):
    folder = go(tiny)
    (folder / "run.ipynb").unlink()
    go(tiny, "seed=2", name="default")
    assert (folder / "run.ipynb").is_file() and folders(tiny) == ["default"]


def test_the_kernel_computes_with_one_thread_and_without_progress_bars(tmp_path, monkeypatch):
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "TQDM_DISABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    path = tmp_path / "env.py"
    path.write_text(
        HEADER + '\n# %% tags=["parameters"]\nseed: int = 1  # seed\n\n# %%\nimport os\n\n# %%\n'
        'print({k: os.environ[k] for k in ("OMP_NUM_THREADS", "TQDM_DISABLE", "MPLBACKEND")})\n'
        'print([os.environ[k] for k in ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")])\n'
        "print(os.getcwd())\n"
    )
    page = (run(path, outputs=tmp_path) / "run.html").read_text()
    assert "'OMP_NUM_THREADS': '1'" in page and "'TQDM_DISABLE': '1'" in page
    assert "['1', '1', '1']" in page, "nor more in the libraries"
    assert "TkAgg" not in page and str(workspace.root()) in page
    page = (run_forked(path, outputs=tmp_path, threads=2, again=True) / "run.html").read_text()
    assert "'OMP_NUM_THREADS': '2'" in page and "['2', '2', '2']" in page
    assert "OMP_NUM_THREADS" not in os.environ, "the caller's environment is as before"


@pytest.mark.parametrize(
    "items, name",
    [
        ([], "default"),
        (["params/sst/bernoulli_constrained.yaml"], "bernoulli_constrained"),
        (["a/x.yaml", "b/y.yaml", "seed=2"], "x-y-seed2"),
        (["left=-0.1"], "left-0.1"),
        (["vectors=a/b c.txt"], "vectorsb_c"),
        (["vectors=/data/vectors/glove.6B.50d.txt.gz"], "vectorsglove.6B.50d"),
        (["subject=outputs/14_train_probes/hardkuma-selection0.4"], "subjecthardkuma-selection0.4"),
        (["runs=[out/a, out/b0.4]", "vectors=glove.6B.50d"], "runs_a_b0.4-vectorsglove.6B.50d"),
        ([Path("p.yaml"), "runs=[a, b]"], "p-runs_a_b"),
    ],
)
def test_a_run_is_named_after_its_arguments(items, name):
    assert run_name(items) == name


def test_a_long_name_of_a_run_is_cut_and_still_differs_from_every_other():
    long = [f"runs={[f'hardkuma-seed{i}' for i in range(size)]}" for size in range(1, 60)]
    names = [run_name([item]) for item in long]
    assert len(set(names)) == len(long) and max(map(len, names)) == workspace.NAME_LENGTH
    assert names[-1] == run_name(long[-1:]), "the same arguments give the same name"
    assert len(run_name([f"vectors={'é' * 60}"]).encode()) <= workspace.NAME_LENGTH
    deep = [f"/{folder}/{'x' * 90}.txt" for folder in "ab"]
    assert run_name([f"vectors={deep[0]}"]) != run_name([f"vectors={deep[1]}"])
    for length in range(50, 90):  # wherever the name is cut
        name = run_name([f"vectors={'x' * length}", "seed=12", f"aspect={'y' * 60}"])
        assert "-seed12-" in name and name.count("seed") == 1 and len(name) <= workspace.NAME_LENGTH
    assert run_name([f"/a/{'x' * 90}.yaml"]) == run_name([f"b/{'x' * 90}.yaml"]), "wherever the repository is"


def test_a_setting_that_goes_back_is_named_once_per_run(tiny, capsys):
    path = tiny.with_name("priced.py")
    path.write_text(
        TINY.replace(
            'vectors: str = ""  # what',
            'rule: str = "top_k"  # rule\nbudget: float = 0.2  # s\nvectors: str = ""  # what',
        )
        .replace("import validated", "import validated\nfrom rationale.training.settings import ExtractionSettings")
        .replace("validated(globals())", "validated(globals(), ExtractionSettings)")
    )
    folder = go(path, "rule=argmax")
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if line.startswith("note: ")] == [
        "note: budget goes back from 0.2 to 1.0: no effect with rule argmax"
    ]
    assert yaml.safe_load((folder / "params.yaml").read_text())["budget"] == 1.0


def test_a_device_that_the_machine_lacks_is_refused_before_the_notebook_starts(tiny, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    tiny.write_text(TINY.replace('vectors: str = ""', 'device: str = "cuda"  # where\nvectors: str = ""'))
    started = []
    with pytest.raises(BadInput, match="device: got 'cuda', but this machine has no usable GPU"):
        run(tiny, outputs=tiny.parent / "out", execute=lambda *_: started.append(1))
    assert not started and folders(tiny) == []


@pytest.mark.parametrize("how", ["again", "again_if_changed"])
@pytest.mark.parametrize(
    ("item", "environment"),
    [
        ("device=cuda", {}),
        ("selection=0.5", {"OMP_NUM_THREADS": "many"}),
        ("selection=0.5", {"RATIONALE_DATA": "x" * 300}),
    ],
)
def test_what_cannot_be_executed_is_refused_before_an_unfinished_run_is_discarded(
    tiny, monkeypatch, how, item, environment
):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    tiny.write_text(TINY.replace('vectors: str = ""', 'device: str = "cpu"  # where\nvectors: str = ""'))
    with pytest.raises(RunFailed):
        go(tiny, "vectors=fail", name="x")
    unfinished = tiny.parent / "out" / "tiny" / "x.partial"
    before = {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match=r"device: got 'cuda'|OMP_NUM_THREADS=many|RATIONALE_DATA=.*too long"):
        go(tiny, item, name="x", **{how: True})
    assert {path: path.read_bytes() for path in unfinished.rglob("*") if path.is_file()} == before


def test_by_hand_a_device_that_the_machine_lacks_is_refused_by_the_cell_that_validates(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(BadInput, match="no usable GPU"):
        validated({"__annotations__": {"device": str}, "device": "cuda"})


def test_a_data_folder_that_does_not_exist_is_named(tiny, monkeypatch, capsys):
    for folder, noted in (("/nosuch", True), (str(tiny.parent), False)):
        monkeypatch.setenv("RATIONALE_DATA", folder)
        go(tiny, again=True)
        assert ("note: RATIONALE_DATA=/nosuch: no such folder\n" in capsys.readouterr().out) == noted


def test_by_hand_results_go_to_the_lab_folder_which_is_named_with_the_model_that_would_be_replaced(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv("RATIONALE_RUN_DIR", raising=False)
    at_home(monkeypatch, tmp_path)
    folder = tmp_path / "outputs" / "12_x" / "lab"
    assert kernel.results_folder("12_x") == folder
    assert folder.is_dir()
    assert capsys.readouterr().out == f"results in {folder}\n"
    (folder / "model.safetensors").write_text("of an earlier training")
    assert kernel.results_folder("12_x") == folder
    note = "it holds a trained model, which another training here replaces; rename the folder to keep the model"
    assert capsys.readouterr().out == f"results in {folder}\nnote: {note}\n"
    assert (folder / "model.safetensors").read_text() == "of an earlier training"


def test_a_folder_or_a_file_of_a_command_may_be_below_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named_folder("~/runs") == tmp_path / "runs"
    assert named_file("~/model.onnx") == tmp_path / "model.onnx"
    assert named_folder("runs/~") == Path("runs/~"), "a name like any other"
    assert ReadingSettings(runs_dir="~/runs").runs_dir == str(tmp_path / "runs")


def test_help_names_the_exit_codes_and_examples(capsys):
    with pytest.raises(SystemExit) as caught:
        __main__.main(["--help"])
    out = capsys.readouterr().out
    assert caught.value.code == 0
    for part in ("examples", "parameters", "results", "--again", "exit code", "seed=2"):
        assert part in out


def test_list_shows_the_parameters_of_a_notebook(tiny, capsys):
    assert __main__.main([str(tiny), "--list"]) == 0
    out = capsys.readouterr().out
    assert "selection: 0.4\n" in out and "a number in (0, 1)" in out


@pytest.mark.parametrize(
    ("options", "first"),
    [(["sede=3"], "sede=3"), (["--again"], "--again"), (["--threads", "2"], "--threads"), (["--name", "x"], "--name")],
)
def test_what_has_no_effect_on_a_list_of_parameters_is_refused(tiny, capsys, options, first):
    with pytest.raises(SystemExit) as caught:
        __main__.main([str(tiny), "--list", *options])
    printed = capsys.readouterr()
    assert caught.value.code == 2 and not printed.out and f"{first}: not with --list, which runs noth" in printed.err


def test_list_shows_only_what_the_notebook_accepts_and_fits_the_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    wanted = {"10_first_rationale": "hardkuma", "13_train_nli": "recurrent", "15_train_seq2seq": "fusedmax"}
    for notebook, one in wanted.items():
        assert __main__.main([notebook, "--list"]) == 0
        out = capsys.readouterr().out
        models = " ".join(out.partition("\nmodel: ")[2].split(";")[1].split())
        assert one in models and "svm" not in models, models
        assert ("softmax" in models) == (notebook != "10_first_rationale")
        assert max(map(len, out.splitlines())) <= 80


def test_a_kernel_that_dies_before_it_answers_is_started_again(tiny, monkeypatch):
    import papermill

    found = []

    def dies(path, *args, **kwargs):
        found.append(Path(path).read_text())
        Path(path).write_text("half of it")
        if len(found) < 3:
            raise RuntimeError("Kernel died before replying to kernel_info")
        Path(path).write_text(found[-1])

    monkeypatch.setattr(papermill, "execute_notebook", dies)
    out = tiny.parent / "out"
    assert (run(tiny, outputs=out, to_html=plain_page) / "run.ipynb").is_file() and len(found) == 3
    assert "begins at" in found[0] and found[1:] == found[:1] * 2, "each start gets the whole notebook"
    found.clear()
    monkeypatch.setattr(runner, "KERNEL_STARTS", 2)
    with pytest.raises(RunFailed, match="Kernel died before replying"):
        run(tiny, ["seed=2"], outputs=out)


def test_on_a_busy_machine_the_outputs_of_a_cell_have_a_minute_or_more_to_come(tiny, monkeypatch):
    """nbclient waits for four seconds, and papermill lets it fail the run then."""
    from papermill import engines

    clients = []

    class Client(engines.PapermillNotebookClient):
        def execute(self, **options):
            clients.append(self)
            return super().execute(**options)

    monkeypatch.setattr(engines, "PapermillNotebookClient", Client)
    run(tiny, outputs=tiny.parent / "out", to_html=plain_page)
    assert [client.iopub_timeout >= 60 for client in clients] == [True]


def test_a_kernel_that_starts_at_once_imports_what_its_notebook_names():
    found = waiting.modules_of(workspace.notebook_path("12_train_sst"))
    assert {"torch", "rationale.training", "ipykernel.kernelapp"} <= set(found)
    assert "pandas" not in found, "which is imported as in a kernel"
    explorers = waiting.modules_of(workspace.notebook_path("50_explorers"))
    assert not any("explorers" in name for name in explorers), "what looks for a kernel is left to the notebook"


@pytest.mark.parametrize("item", ["selection=2.0", "vectors=bad"])
def test_no_kernel_is_left_when_a_run_is_refused(tiny, item, capsys):
    before = set(psutil.Process().children(recursive=True))
    out = str(tiny.parent / "out")
    assert __main__.main([str(tiny), item, "--outputs", out]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    left = set(psutil.Process().children(recursive=True)) - before
    psutil.wait_procs(left, timeout=5)
    assert not [process for process in left if process.is_running()]


def test_a_reader_who_leaves_ends_the_run_without_a_traceback(tiny, tmp_path):
    command = [sys.executable, "-m", "rationale.runs", str(tiny), "vectors=slow", "--outputs", str(tmp_path / "out")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=workspace.root()
    ) as left:
        assert left.stdout.readline().startswith("tiny: ")
        left.stdout.close()
        said = left.stderr.read()
    assert left.returncode == 141
    assert said == ""


def test_importing_the_runner_is_light():
    heavy = ("torch", "papermill", "jupytext", "nbconvert", "pandas")
    code = f"import sys, rationale.runs; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=workspace.root()).strip() == "[]"


def test_a_summary_written_by_the_notebook_is_printed_instead_of_all_metrics(tiny):
    folder = go(tiny)
    (folder / "summary.txt").write_text("[great] beer\n")
    lines = __main__.report(folder).splitlines()
    assert "run.ipynb" in lines[0] and "run.html" in lines[1]
    assert lines[2:] == ["[great] beer"]
    (folder / "rationales.html").touch()
    assert __main__.report(folder).splitlines()[2].startswith("  rationales  "), "the page of texts"


def test_only_a_terminal_gets_a_summary_in_colour(tiny, monkeypatch):
    folder = go(tiny)
    (folder / "summary.txt").write_text("[great] beer\n")
    (folder / "summary.ansi").write_text("\x1b[1mgreat\x1b[0m beer\n")
    assert __main__.report(folder).endswith("[great] beer"), "into a file"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert __main__.report(folder).endswith("\x1b[1mgreat\x1b[0m beer")
    monkeypatch.setenv("NO_COLOR", "1")
    assert __main__.report(folder).endswith("[great] beer")


def test_main_puts_the_signal_handlers_back(tiny, capsys):
    before = signal.getsignal(signal.SIGINT)
    assert __main__.main([str(tiny), "seed=a"]) == 2
    assert signal.getsignal(signal.SIGINT) is before
    assert capsys.readouterr().err.startswith("error: command line: seed")


def test_the_first_line_of_a_run_has_its_parameters_as_a_parameter_file_would():
    changed = {"selection": None, "bfloat16": True, "epochs": 3, "encoder": "minilm"}
    pairs = [part.partition(" ") for part in runner._as_given(changed).split(", ")]
    assert yaml.safe_load("".join(f"{key}: {value}\n" for key, _, value in pairs)) == changed
